"""Scheduled kernel IR to LLVM text: what the targets do the same.

Constants, elementwise operations, index arithmetic, loops, branches and the values that they carry.
Nothing is decided here: what is split, masked or kept in registers is in the kernel. How a value in
lanes is held, and how memory is accessed, is a matter of the target: its emitter is a subclass.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial

import numpy as np

from xla_backend.codegen.in_lanes import InLanes
from xla_backend.codegen.indices import step_of
from xla_backend.codegen.operations import operation
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import QUOTIENTS, Atom, FloorDiv, Index, Parameter, Var
from xla_backend.kernels.ir import (
    Buffer,
    Carry,
    Compute,
    Constant,
    If,
    IndexValue,
    InRange,
    Load,
    Loop,
    LoopKind,
    Statement,
    Store,
    Value,
)
from xla_backend.llvm import elemental
from xla_backend.llvm.types import const, register_type, vector
from xla_backend.llvm.writer import FunctionWriter


class AbstractKernelEmitter(InLanes):
    """Emits statements into one function. `pointers`: the address of each buffer."""

    def __init__(self, w: FunctionWriter, pointers: dict[Buffer, str]) -> None:
        super().__init__()
        self.w = w
        self.pointers = pointers
        self.env: dict[Value, str] = {}
        self.vars: dict[Var | Parameter, str] = {}
        self.steps: dict[Atom, int] = {}  # variables of which the code has a multiple
        # Guards of loads (the result is zero where the guard does not hold), and zero constants.
        self.guards: dict[Value, Value] = {}
        self.zeros: set[Value] = set()

    # -- of the target -----------------------------------------------------------------------------

    @abstractmethod
    def rename(self, value: Value, known: Value) -> None:
        """Let a value be another one that has been computed."""

    @abstractmethod
    def scalar(self, value: Value) -> str:
        """The text of a value that is the same in all lanes."""

    @abstractmethod
    def carried_types(self, carries: Sequence[Carry]) -> list[str]:
        """The types of what a loop or branch hands on here."""

    @abstractmethod
    def texts(self, values: Sequence[Value]) -> list[str]:
        """What is handed on, for values of some carries: as many texts as there are types."""

    @abstractmethod
    def bind_texts(self, values: Sequence[Value], texts: Sequence[str]) -> None:
        """Let values have been handed on as these texts."""

    @abstractmethod
    def compute(self, s: Compute) -> None: ...

    @abstractmethod
    def load(self, s: Load) -> None: ...

    @abstractmethod
    def store(self, s: Store) -> None: ...

    @abstractmethod
    def index_value(self, s: IndexValue) -> None: ...

    @abstractmethod
    def in_range(self, s: InRange) -> None: ...

    @abstractmethod
    def lanes_loop(self, loop: Loop) -> None: ...

    @abstractmethod
    def parallel_loop(self, loop: Loop) -> None:
        """A loop of blocks or threads."""

    @abstractmethod
    def if_in_lanes(self, s: If) -> None:
        """A branch on a condition that differs between lanes."""

    @abstractmethod
    def other(self, s: Statement) -> None:
        """A statement of any kind that only some targets have code for."""

    # -- statements --------------------------------------------------------------------------------

    def emit(self, statements: Sequence[Statement]) -> None:
        for s in statements:
            if isinstance(s, Compute):
                if not self._is_guarded_load(s):
                    self.compute(s)
            elif isinstance(s, Load):
                if s.guard is not None:
                    self.guards[s.result] = s.guard
                self.load(s)
            elif isinstance(s, Store):
                self.store(s)
            elif isinstance(s, Constant):
                self._constant(s)
            elif isinstance(s, IndexValue):
                self.index_value(s)
            elif isinstance(s, InRange):
                self.in_range(s)
            elif isinstance(s, Loop):
                self._loop(s)
            elif isinstance(s, If):
                self._if(s)
            else:
                self.other(s)

    def _constant(self, s: Constant) -> None:
        value = s.value
        plain = float(value) if s.result.type.is_floating else int(value)
        self.env[s.result] = const(register_type(s.result.type), plain)
        if not np.asarray(value).tobytes().strip(b"\0"):  # not -0.0
            self.zeros.add(s.result)

    def _is_guarded_load(self, s: Compute) -> bool:
        """Bind a select between what was loaded under a guard and zero: the load is already zero
        where its guard does not hold."""
        if s.opcode is not Opcode.SELECT:
            return False
        guard, loaded, other = s.operands
        if other not in self.zeros or self.guards.get(loaded) is not guard:
            return False
        self.rename(s.result, loaded)
        return True

    def operation(self, s: Compute, operands: Sequence[str], lanes: int) -> str:
        """Code for an elementwise operation on `lanes` lanes of a vector."""
        source = s.operands[0].type
        return operation(self.w, s.opcode, s.attributes, source, s.result.type, lanes, operands)

    def converted_index(self, type: PrimitiveType, ty: str, text: str, lanes: int) -> str:
        """An index, whose LLVM type is `ty`, as a value of an element type."""
        target = vector(register_type(type), lanes)
        source_type = PrimitiveType.S64 if ty.endswith(("i64", "i64>")) else PrimitiveType.S32
        if type is source_type:
            return text
        if type.is_integral and type.bits >= 8:
            if type.bits == source_type.bits:
                return text
            narrower = type.bits < source_type.bits
            return self.w.cast("trunc" if narrower else "sext", ty, text, target)
        return elemental.emit_convert(self.w, source_type, type, lanes, text)

    # -- index expressions -------------------------------------------------------------------------

    def uniform(self, index: Index) -> str:
        """The index as an integer of the writer's index type, for an index that is the same in all
        lanes (the vector variable counts as its first lane)."""
        w = self.w
        total = "0"
        for atom, c in sorted(index.terms.items(), key=_depth_of_term):
            step = self.steps.get(atom, 1)
            total = w.iadd(total, w.imul(self._uniform_atom(atom), c // step))
        return w.iadd(total, index.constant)

    def _uniform_atom(self, atom: object) -> str:
        w = self.w
        if isinstance(atom, Var | Parameter):
            return self.vars.get(atom, "0")
        if isinstance(atom, Value):
            never_negative = atom.bounds is not None and atom.bounds[0] >= 0
            return w.as_index(register_type(atom.type), self.scalar(atom), never_negative)
        assert isinstance(atom, QUOTIENTS)
        inner = self.uniform(atom.index)
        divisor = atom.divisor
        if inner[0] != "%":
            number = int(inner)
            return str(number // divisor if isinstance(atom, FloorDiv) else number % divisor)
        ty = w.index
        if divisor & (divisor - 1) == 0:
            if isinstance(atom, FloorDiv):
                return w.pure(f"lshr {ty} {inner}, {divisor.bit_length() - 1}", inner)
            return w.pure(f"and {ty} {inner}, {divisor - 1}", inner)
        opcode = "udiv" if isinstance(atom, FloorDiv) else "urem"
        return w.pure(f"{opcode} {ty} {inner}, {divisor}", inner)

    def uniform_in_range(self, index: Index, low: int, high: int) -> str:
        """low <= index < high as one unsigned comparison, the index being the same in all lanes."""
        text = self.uniform(index - low)
        if text[0] != "%":
            return "true" if 0 <= int(text) < high - low else "false"
        return self.w.cmp("ult", self.w.index, text, str(high - low))

    # -- loops -------------------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> None:
        if loop.kind is LoopKind.LANES:
            self.lanes_loop(loop)
        elif loop.kind is LoopKind.UNROLLED:
            texts = self.texts([c.init for c in loop.carries])
            for i in range(loop.var.extent):
                self.vars[loop.var] = str(i)
                texts = self._round(loop.carries, texts, loop.body)
            self.bind_texts([c.result for c in loop.carries], texts)
        elif loop.kind is LoopKind.SERIAL:
            self.serial_loop(loop)
        else:
            self.parallel_loop(loop)

    def serial_loop(self, loop: Loop) -> None:
        """The iterations of a loop, one after another."""
        w, carries = self.w, loop.carries
        types = self.carried_types(carries)
        inits = self.texts([c.init for c in carries])
        if loop.var.extent == 1 and not loop.limits:
            # A loop of one round is no loop.
            self.vars[loop.var] = "0"
            texts = self._round(carries, inits, loop.body)
        else:
            step = self.steps[loop.var] = step_of(loop)
            with w.loop("0", self._stop(loop, step), step, list(zip(types, inits))) as handle:
                self.vars[loop.var] = handle.index
                handle.next = self._round(carries, handle.carried, loop.body)
            texts = handle.results
        self.bind_texts([c.result for c in carries], texts)

    def _stop(self, loop: Loop, step: int) -> str:
        """Where a loop ends that counts in multiples of `step`."""
        limits = [self.uniform(limit * step) for limit in loop.limits]
        stop = str(loop.var.extent * step)
        for n, limit in enumerate(loop.limits):
            always_less = n == 0 and limit.bounds[1] <= loop.var.extent
            stop = limits[n] if always_less else self.w.imin(limits[n], stop)
        return stop

    def _round(
        self, carries: Sequence[Carry], texts: Sequence[str], body: Sequence[Statement]
    ) -> list[str]:
        """One run of a body that takes over `texts`; what it hands on."""
        self.bind_texts([c.phi for c in carries], texts)
        self.emit(body)
        return self.texts([c.next for c in carries if c.next is not None])

    def _if(self, s: If) -> None:
        if self.varies(s.index):
            self.if_in_lanes(s)
        else:
            self.branch(s, self.uniform_in_range(s.index, s.low, s.high))

    def branch(self, s: If, condition: str) -> None:
        """The body of an `If` under a condition."""
        w = self.w
        if not s.carries:
            with w.if_(condition):
                self.emit(s.body)
            return
        inits = self.texts([c.init for c in s.carries])
        arm = partial(self.arm, s, inits)
        results = w.if_else(condition, self.carried_types(s.carries), arm, lambda: inits)
        self.bind_texts([c.result for c in s.carries], results)

    def arm(self, s: If, inits: Sequence[str]) -> list[str]:
        """The body of an `If`, where its condition holds."""
        return self._round(s.carries, inits, s.body)


def _depth_of_term(term: tuple) -> int:
    return term[0].depth
