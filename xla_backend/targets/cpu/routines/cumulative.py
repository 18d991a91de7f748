"""Scans along one axis: cumulative sum, product, maximum, minimum and log-sum-exp.

  void pyjax_<op>_<t>(ptr in, ptr out, outer, n, inner, flags)
        op: cumsum cumprod cummax cummin, and cumlogsumexp for floats
        t: s8 u8 s16 u16 s32 u32 s64 u64 bf16 f16 f32 f64 (integers wrap)
        scans axis 1 of [outer, n, inner]; flags bit 0: from the end; in may equal out

Contiguous rows (inner = 1) use prefix steps within a vector and carry the last lane; sums of f32,
bf16 and f16 carry in f64 so that the error does not grow along the row. Otherwise vectors of
columns scan side by side, with the same carries. NaN propagates through maxima.
"""

from __future__ import annotations

from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import elemental
from xla_backend.llvm.types import bits_of, const, register_type, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.row_types import OPERATIONS, SCAN_TYPES, operations_of
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_many_tasks

_CONTEXT = TaskContext(("in", "out", "outer", "n", "inner", "flags"), pointers=2)
_INF = float("inf")


def _compute_type(t: P) -> P:
    """f16 and bf16 scan in f32 and round on the way out."""
    return P.F32 if t in (P.F16, P.BF16) else t


def _carry_type(op: str, t: P) -> P:
    return P.F64 if op == "cumsum" and t is P.F32 else t


def _identity(op: str, t: P) -> float | int:
    if op in ("cumsum", "cumprod"):
        return 0 if op == "cumsum" else 1
    low = op != "cummin"
    if t.is_floating:
        return -_INF if low else _INF
    if t.is_signed_integral:
        return -(1 << (t.bits - 1)) if low else (1 << (t.bits - 1)) - 1
    return 0 if low else (1 << t.bits) - 1


def _combine(w: FunctionWriter, op: str, t: P, n: int, a: str, b: str) -> str:
    if op != "cumlogsumexp":
        return elemental.emit(w, OPERATIONS[op], t, n, a, b)
    # max + log1p(e^-|a - b|); equal infinities have no difference.
    ty = vector(register_type(t), n)
    larger = elemental.emit(w, "maximum", t, n, a, b)
    distance = elemental.emit(w, "abs", t, n, w.op("fsub", ty, a, b))
    decay = elemental.emit(w, "exponential", t, n, w.fneg(ty, distance))
    total = w.op("fadd", ty, larger, elemental.emit(w, "log-plus-one", t, n, decay))
    infinite = w.cmp("oeq", ty, elemental.emit(w, "abs", t, n, larger), const(ty, _INF))
    return w.select(infinite, ty, larger, total)


class _Scan:
    """The row task of one operation and type."""

    def __init__(self, w: FunctionWriter, op: str, t: P) -> None:
        self.w, self.op, self.t = w, op, t
        self.compute = _compute_type(t)
        self.carry = _carry_type(op, self.compute)
        self.source, self.target, _, self.n, self.inner, self.flags = _CONTEXT.fields(w)
        self.lanes = w.target.lanes(max(bits_of(register_type(self.carry)), 32))
        self.reverse = w.cmp("ne", "i64", w.op("and", "i64", self.flags, "1"), "0")

    def read(self, lanes: int, index: str, mask: str | None = None) -> str:
        value = elemental.load(self.w, self.t, lanes, self.source, index, mask)
        return elemental.emit_convert(self.w, self.t, self.compute, lanes, value)

    def write(self, lanes: int, value: str, index: str, mask: str | None = None) -> None:
        value = elemental.emit_convert(self.w, self.compute, self.t, lanes, value)
        elemental.store(self.w, self.t, lanes, value, self.target, index, mask)

    def along(self, i: str) -> str:
        """Position of step i: from the end when reversed."""
        last = self.w.isub(self.w.isub(self.n, 1), i)
        return self.w.select(self.reverse, "i64", last, i)

    def start(self, lanes: int) -> str:
        ty = vector(register_type(self.carry), lanes)
        return const(ty, _identity(self.op, self.carry))

    def step(self, lanes: int, carried: str, value: str) -> str:
        wide = elemental.emit_convert(self.w, self.compute, self.carry, lanes, value)
        return _combine(self.w, self.op, self.carry, lanes, carried, wide)

    def narrow(self, lanes: int, carried: str) -> str:
        return elemental.emit_convert(self.w, self.carry, self.compute, lanes, carried)

    def columns(self, base: str, lanes: int, mask: str | None) -> None:
        """`lanes` neighbouring columns from `base` on."""
        w = self.w
        ty = vector(register_type(self.carry), lanes)
        with w.loop("0", self.n, 1, [(ty, self.start(lanes))]) as loop:
            index = w.iadd(base, w.imul(self.along(loop.index), self.inner))
            total = self.step(lanes, loop.carried[0], self.read(lanes, index, mask))
            self.write(lanes, self.narrow(lanes, total), index, mask)
            loop.next = [total]

    def row(self, base: str) -> None:
        """One contiguous row."""
        w, lanes = self.w, self.lanes
        if lanes == 1 or self.op == "cumlogsumexp":
            self.columns(base, 1, None)
            return
        ty = vector(register_type(self.compute), lanes)
        carry_ty = register_type(self.carry)
        whole = w.op("and", "i64", self.n, str(-lanes))

        def blocks(reverse: bool) -> None:
            identity = const(ty, _identity(self.op, self.compute))
            with w.loop("0", whole, lanes, [(carry_ty, self.start(1))]) as loop:
                index = loop.index
                if reverse:
                    index = w.isub(w.isub(self.n, loop.index), lanes)
                v = self.read(lanes, w.iadd(base, index))
                shift = 1
                while True:
                    if shift >= lanes:
                        break
                    if reverse:
                        order = [j + shift if j + shift < lanes else lanes for j in range(lanes)]
                    else:
                        order = [j - shift if j >= shift else lanes for j in range(lanes)]
                    moved = w.shuffle(ty, v, identity, order)
                    v = _combine(w, self.op, self.compute, lanes, v, moved)
                    shift *= 2
                before = self.narrow(1, loop.carried[0])
                total = _combine(w, self.op, self.compute, lanes, v, w.splat(ty, before))
                self.write(lanes, total, w.iadd(base, index))
                last = w.extract(ty, v, 0 if reverse else lanes - 1)
                loop.next = [self.step(1, loop.carried[0], last)]
            with w.loop(whole, self.n, 1, [(carry_ty, loop.results[0])]) as rest:
                index = w.isub(w.isub(self.n, 1), rest.index) if reverse else rest.index
                index = w.iadd(base, index)
                total = self.step(1, rest.carried[0], self.read(1, index))
                self.write(1, self.narrow(1, total), index)
                rest.next = [total]

        def backward() -> list[str]:
            blocks(True)
            return []

        def forward() -> list[str]:
            blocks(False)
            return []

        w.if_else(self.reverse, [], backward, forward)


def _emit_operation(op: str, t: P, module: ModuleWriter) -> None:
    task = f"{op}.{t}"
    w = module.function(task, [("ptr", "ctx"), ("i64", "block")], internal=True)
    scan = _Scan(w, op, t)
    size = w.imul(scan.n, scan.inner)

    def contiguous() -> list[str]:
        scan.row(w.imul("%block", scan.n))
        return []

    def strided() -> list[str]:
        tiles = w.op("udiv", "i64", w.iadd(scan.inner, scan.lanes - 1), str(scan.lanes))
        outer = w.op("udiv", "i64", "%block", tiles)
        tile = w.isub("%block", w.imul(outer, tiles))
        column = w.imul(tile, scan.lanes)
        base = w.iadd(w.imul(outer, size), column)
        mask = w.active_mask(scan.lanes, column, scan.inner)
        if scan.lanes > 1:
            scan.columns(base, scan.lanes, mask)
        else:
            scan.columns(base, 1, None)
        return []

    w.if_else(w.cmp("eq", "i64", scan.inner, "1"), [], contiguous, strided)
    w.ret()
    w = module.function(f"pyjax_{op}_{t}", _CONTEXT.parameters())
    context = _CONTEXT.make(w, [f"%{name}" for name in _CONTEXT.names])
    lanes = w.target.lanes(max(bits_of(register_type(_carry_type(op, _compute_type(t)))), 32))
    tiles = w.op("udiv", "i64", w.iadd("%inner", lanes - 1), str(lanes))
    blocks = w.op("mul", "i64", "%outer", tiles)
    work = w.op("mul", "i64", w.op("mul", "i64", "%outer", "%n"), "%inner")
    blocks = w.select(w.cmp("sgt", "i64", work, "0"), "i64", blocks, "0")
    run_many_tasks(w, w.cmp("sge", "i64", work, "32768"), task, context, blocks)
    w.ret()


def register() -> None:
    """Declares the scans of every element type."""
    for t in SCAN_TYPES:
        for op in operations_of(t):
            register_group(f"{op}_{t}", (f"pyjax_{op}_{t}",), partial(_emit_operation, op, t))
