"""Marks the loops of a kernel for a CPU: which loop runs in vector lanes, how many, and which is
split over threads. Before that, loops are split where conditions change (`peeling`) and brought
together where something is transposed (`interchange`).

A rough cost (in cycles) compares the choices. Everything depends on shapes only, never on the
number of threads, so results do not either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.index import FloorDiv, Index, Mod, Var
from xla_backend.kernels.interchange import interchange
from xla_backend.kernels.ir import (
    Buffer,
    Compute,
    Constant,
    IndexValue,
    InRange,
    Kernel,
    Load,
    Loop,
    Statement,
    Store,
    Value,
    walk,
)
from xla_backend.kernels.peeling import peel
from xla_backend.llvm.target import TargetInfo

# Cycles per vector register of lanes, very roughly; everything else is 1.
_WEIGHTS: dict[Opcode, float] = {
    Opcode.DIVIDE: 6,
    Opcode.REMAINDER: 12,
    Opcode.SQRT: 8,
    Opcode.RSQRT: 12,
    Opcode.EXPONENTIAL: 14,
    Opcode.EXPONENTIAL_MINUS_ONE: 20,
    Opcode.LOG: 18,
    Opcode.LOG_PLUS_ONE: 24,
    Opcode.LOGISTIC: 24,
    Opcode.TANH: 24,
    Opcode.ERF: 30,
    Opcode.SINE: 24,
    Opcode.COSINE: 24,
    Opcode.POWER: 60,
    Opcode.ATAN2: 40,
    Opcode.CBRT: 40,
}
_HEAVY_FUNCTIONS = frozenset(
    {
        Opcode.TAN,
        Opcode.ASIN,
        Opcode.ACOS,
        Opcode.SINH,
        Opcode.COSH,
        Opcode.ASINH,
        Opcode.ACOSH,
        Opcode.ATANH,
    }
)
CYCLES_PER_MICROSECOND = 2500.0
_PARALLEL_MICROSECONDS = 25.0
_BLOCK_MICROSECONDS = 10.0
_MAX_BLOCKS = 64
_HORIZONTAL_CYCLES = 20.0
_GATHER_CYCLES_PER_LANE = 1.2
_CACHE_BYTES = 1 << 20
_CACHE_BYTES_PER_CYCLE = 32.0
_MEMORY_BYTES_PER_CYCLE = 8.0
_TILE_BITS = 512
_MAX_TILE = 32
_MAX_TILED_LOADS = 4
_TILED_STATEMENTS = (Compute, Constant, IndexValue, InRange, Load, Store)


def weight(opcode: Opcode) -> float:
    """Rough cycles of one operation on one vector register."""
    if opcode in _HEAVY_FUNCTIONS:
        return 40
    return _WEIGHTS.get(opcode, 1)


@dataclass(slots=True)
class ParallelPlan:
    """How a stage is split: `loop` runs over blocks of `chunk` iterations each."""

    loop: Loop
    blocks: int
    chunk: int


@dataclass(slots=True)
class Schedule:
    """Parallel plans by top-level loop (those not in it run on the calling thread)."""

    parallel: dict[Loop, ParallelPlan]
    cycles: float


def depends_on(index: Index, var: Var, varying: set[Value]) -> bool:
    return any(_atom_depends(a, var, varying) for a in index.terms)


def _atom_depends(atom: object, var: Var, varying: set[Value]) -> bool:
    if isinstance(atom, FloorDiv | Mod):
        return depends_on(atom.index, var, varying)
    return atom is var or atom in varying


class _Cost:
    """Cost of statements, with at most one loop variable in vector lanes."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.choice: dict[Loop, bool] = {}

    def block(self, statements: list[Statement], var: Var | None, varying: set[Value]) -> float:
        total = 0.0
        for s in statements:
            total += self.statement(s, var, varying)
        return total

    def statement(self, s: Statement, var: Var | None, varying: set[Value]) -> float:
        if isinstance(s, Constant):
            return 0.0
        if isinstance(s, Loop):
            return self.loop(s, var, varying)
        if isinstance(s, Compute):
            if var is not None and any(o in varying for o in s.operands):
                varying.add(s.result)
            return weight(s.opcode)
        if isinstance(s, Load):
            if var is None:
                return 1.0
            if s.guard is not None and s.guard in varying:
                varying.add(s.result)
            if depends_on(s.index, var, varying):
                varying.add(s.result)
                return self._access(s.index, var, varying)
            return 0.5
        if isinstance(s, Store):
            return 1.0 if var is None else self._access(s.index, var, varying) * len(s.values)
        if isinstance(s, IndexValue | InRange):
            if var is not None and depends_on(s.index, var, varying):
                varying.add(s.result)
            return 1.0
        return 1.0

    def _access(self, index: Index, var: Var, varying: set[Value]) -> float:
        coefficient = index.coefficient(var)
        rest = [a for a in index.terms if a is not var and _atom_depends(a, var, varying)]
        if not rest and coefficient in (0, 1, -1):
            return 1.0
        if not rest and coefficient == 2:
            return 3.0
        return self.lanes * _GATHER_CYCLES_PER_LANE

    def loop(self, s: Loop, var: Var | None, varying: set[Value]) -> float:
        for carry in s.carries:
            if var is not None:
                varying.add(carry.phi)
                varying.add(carry.result)
        extent = s.var.extent
        if var is not None:
            return extent * self.block(s.body, var, varying) + 2
        scalar = extent * self.block(s.body, None, varying) + 2
        if not _vectorizable(s):
            return scalar
        inside: set[Value] = {c.phi for c in s.carries}
        trips = math.ceil(extent / self.lanes)
        vector = trips * self.block(s.body, s.var, inside)
        if s.carries:
            vector += _HORIZONTAL_CYCLES
        self.choice[s] = vector < scalar
        return min(vector, scalar)


def _vectorizable(s: Loop) -> bool:
    if not s.may_vectorize or s.var.extent < 2:
        return False
    return not s.carries or s.combiner is not None


def schedule(kernel: Kernel, target: TargetInfo) -> Schedule:
    """Set the marks of all loops of `kernel`."""
    result = Schedule({}, 0.0)
    peel(kernel)
    interchange(kernel)
    for stage in kernel.stages:
        if not isinstance(stage, Loop):
            continue
        bits = _widest(stage)
        lanes = target.lanes(bits)
        cost = _Cost(lanes)
        cycles = max(cost.loop(stage, None, set()), _memory_cycles(stage))
        result.cycles += cycles
        _mark_vectors(stage, cost.choice, lanes)
        _mark_tiles(stage)
        plan = _parallel_plan(stage, cycles)
        if plan is not None:
            plan.loop.parallel = True
            result.parallel[stage] = plan
    return result


def cycles_in_lanes(stage: Loop, lanes: int) -> float:
    """Rough cycles of a nest with the best of its loops in vector lanes; sets no marks."""
    return _Cost(lanes).loop(stage, None, set())


def _memory_cycles(stage: Loop) -> float:
    """What moving the arrays takes at least; parts that are read once may come from far away."""
    touched: dict[Buffer, int] = {}
    for s in walk([stage]):
        if isinstance(s, Load | Store):
            touched[s.buffer] = s.buffer.size * s.buffer.element_type.byte_size
    total = sum(touched.values())
    trips = _trips(stage) * 64  # a small part of a large array is not the whole array
    total = min(total, trips)
    return total / (_CACHE_BYTES_PER_CYCLE if total < _CACHE_BYTES else _MEMORY_BYTES_PER_CYCLE)


def _trips(loop: Loop) -> int:
    """Executions of the innermost body."""
    inner = [_trips(s) for s in loop.body if isinstance(s, Loop)]
    return loop.var.extent * max(1, sum(inner))


def _widest(stage: Loop) -> int:
    """Width of the widest element that a vector of the nest must hold, at least 32."""
    widest = 32
    for s in walk([stage]):
        if isinstance(s, Load | Compute):
            widest = max(widest, s.result.type.bits)
        elif isinstance(s, Store):
            widest = max(widest, s.values[0].type.bits)
    return widest


def _mark_vectors(loop: Loop, choice: dict[Loop, bool], lanes: int) -> None:
    if choice.get(loop):
        loop.vector = _lanes_for(loop, lanes)
        return
    for s in loop.body:
        if isinstance(s, Loop):
            _mark_vectors(s, choice, lanes)


def _lanes_for(loop: Loop, lanes: int) -> int:
    """Lanes of a vector loop: several registers where the body is light, to hide latencies; never
    far more than the extent."""
    work = 0.0
    live = 0
    for s in walk(loop.body):
        if isinstance(s, Compute):
            work += weight(s.opcode)
            live += 1
        elif isinstance(s, Load):
            work += 1
            live += 1
    registers = 4 if work <= 8 and live <= 6 else 2 if work <= 60 and live <= 24 else 1
    width = lanes * registers
    while width > 2 and width >= 2 * loop.var.extent:
        width //= 2
    return width


def transposed_loads(outer: Loop, inner: Loop) -> list[Load]:
    """Loads that are contiguous along the outer loop and strided along the (vector) inner one."""
    varying: set[Value] = set()
    found = []
    for s in inner.body:
        if not isinstance(s, Load) or s.guard is not None:
            continue
        strides = s.index.coefficient(outer.var), s.index.coefficient(inner.var)
        rest = [a for a in s.index.terms if a is not outer.var and a is not inner.var]
        plain = all(
            not _atom_depends(a, v, varying) and not isinstance(a, Value)
            for a in rest
            for v in (outer.var, inner.var)
        )
        if plain and strides[0] == 1 and abs(strides[1]) > 2:
            found.append(s)
    return found


def _element_bits(loop: Loop) -> int:
    """Width of the widest element that the body reads or writes."""
    accesses = [s for s in loop.body if isinstance(s, Load | Store)]
    return max([8 * s.buffer.element_type.byte_size for s in accesses], default=_TILE_BITS)


def _mark_tiles(loop: Loop) -> None:
    """Read transposed arrays in square tiles instead of gathering them."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    if len(inner) == 1 and inner[0].may_vectorize and not inner[0].carries:
        nested = inner[0]
        plain = not loop.carries and loop.independent and loop.vector == 1
        simple = all(isinstance(s, _TILED_STATEMENTS) for s in nested.body)
        quiet = not any(isinstance(s, Store) for s in loop.body)
        tile = min(_MAX_TILE, _TILE_BITS // _element_bits(nested))
        large = loop.var.extent >= tile and nested.var.extent >= tile
        if plain and simple and quiet and large:
            if 1 <= len(transposed_loads(loop, nested)) <= _MAX_TILED_LOADS:
                loop.tile = nested.vector = tile
        return
    for s in inner:
        _mark_tiles(s)


def _parallel_plan(stage: Loop, cycles: float) -> ParallelPlan | None:
    """The loop to cut into blocks, if the work is worth it."""
    microseconds = cycles / CYCLES_PER_MICROSECOND
    if microseconds < _PARALLEL_MICROSECONDS:
        return None
    best: Loop | None = None
    best_units = 1
    loop: Loop | None = stage
    while loop is not None and loop.independent and not loop.carries:
        units = math.ceil(loop.var.extent / (loop.vector * loop.tile))
        if units > best_units:
            best, best_units = loop, units
            if units >= 16:
                break
        # Blocks of an inner loop would each repeat the loops beside it.
        inner = [s for s in loop.body if isinstance(s, Loop)]
        if len(inner) != 1 or any(isinstance(s, Store) for s in loop.body):
            break
        loop = inner[0]
    if best is None:
        return None
    blocks = max(2, min(best_units, int(microseconds / _BLOCK_MICROSECONDS), _MAX_BLOCKS))
    chunk = math.ceil(best_units / blocks) * best.vector * best.tile
    blocks = math.ceil(best.var.extent / chunk)
    return ParallelPlan(best, blocks, chunk) if blocks > 1 else None
