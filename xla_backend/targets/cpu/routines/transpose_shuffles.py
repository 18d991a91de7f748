"""Transposes within small blocks that stay as they are, of any order of any dimensions.

  void pyjax_shuffled_blocks(ptr in, ptr out, ptr plan)
        plan: the numbers of `transpose_plans`, then `SHUFFLE_FIELDS`, and behind these where the
        bytes of some blocks come from, as i16s

The bytes of a register of the result come from a few registers of the operand, the same few in
each block: each of these is permuted by an instruction that takes its numbers from a register, and
the results are put together. What is permuted how is found once for each task.
"""

from __future__ import annotations

from functools import partial

from xla_backend.llvm.types import mask_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.transpose_plans import (
    FIELDS,
    MOST_TOGETHER,
    SHUFFLE_FIELDS,
    SHUFFLED,
    SHUFFLED_BYTES,
)
from xla_backend.targets.cpu.routines.transpose_tasks import Task, emit_routine
from xla_backend.targets.cpu.routines.transpose_writing import write

# Bytes of registers that are permuted as a whole, and in parts of so many.
_WIDE, _PART = 64, 16
# So many blocks share what is read about a permutation.
_AT_ONCE = 4
# Of an index, where a byte of zeros is wanted (for instructions that have these).
_NOTHING = "-128"
# By whether it is ARM, and bytes of a register.
_PERMUTE = {
    (False, 64): "llvm.x86.avx512.permvar.qi.512",
    (False, 32): "llvm.x86.avx2.pshuf.b",
    (False, 16): "llvm.x86.ssse3.pshuf.b.128",
    (True, 16): "llvm.aarch64.neon.tbl1.v16i8",
}


class _Shuffles:
    """What a task knows about its permutations."""

    def begin(self, task: Task) -> None:
        w = task.w
        self.wide = w.target.permutes_wide_bytes
        # Bytes of registers of the result, and of those of the operand.
        self.width = _WIDE if self.wide else min(2 * _PART, task.width)
        self.window = _WIDE if self.wide else _PART
        self.ty = vector("i8", self.width)
        table = w.gep("i64", task.context["plan"], len(FIELDS))
        self.together, self.size = (w.load_invariant("i64", w.gep("i64", table, k)) for k in (0, 1))
        self.bytes = w.gep("i64", table, len(SHUFFLE_FIELDS))
        if not _permutes(w):
            return
        registers = SHUFFLED_BYTES // self.width
        permutations = registers * SHUFFLED_BYTES // self.window
        self.picks = w.alloca("i8", permutations * self.width, 64)
        self.masks = w.alloca("i64", permutations, 64)
        self.starts = w.alloca("i64", permutations, 64)
        self.ends = w.alloca("i64", registers, 64)
        self._find(w)

    def _find(self, w: FunctionWriter) -> None:
        """For each register of the result, those that have bytes for it."""
        ty = vector("i16", self.width)
        with w.loop("0", self.size, self.width, [("i64", "0"), ("i64", "0")]) as made:
            number, found = made.carried
            places = w.load(ty, w.gep("i16", self.bytes, self._start(w, made.index, self.width)), 1)
            with w.loop("0", self.size, self.window, [("i64", found)]) as read:
                (here,) = read.carried
                first = self._start(w, read.index, self.window)
                picks = w.op("sub", ty, places, w.splat(ty, w.cast("trunc", "i64", first, "i16")))
                inside = w.cmp("ult", ty, picks, w.splat(ty, str(self.window)))
                bits = w.cast("bitcast", mask_of(ty), inside, f"i{self.width}")
                if not self.wide:
                    bits = w.cast("zext", f"i{self.width}", bits, "i64")
                picks = w.cast("trunc", ty, picks, self.ty)
                if not self.wide:
                    picks = w.select(inside, self.ty, picks, w.splat(self.ty, _NOTHING))
                w.store(self.ty, picks, w.gep(self.ty, self.picks, here), self.width)
                w.store("i64", bits, w.gep("i64", self.masks, here))
                w.store("i64", first, w.gep("i64", self.starts, here))
                some = w.cmp("ne", "i64", bits, "0")
                read.next = [w.iadd(here, w.cast("zext", "i1", some, "i64"))]
            w.store("i64", read.results[0], w.gep("i64", self.ends, number))
            made.next = [w.iadd(number, 1), read.results[0]]

    def _start(self, w: FunctionWriter, at: str, width: int) -> str:
        """Where a register begins: the last one ends with the blocks."""
        return w.imin(at, w.isub(self.size, width))

    def fill(self, task: Task) -> None:
        w, unit, step = task.w, task.number("unit"), task.number("along_step0")
        source = w.gep("i8", task.source_start, w.imul(task.along_start, step))
        target = w.gep("i8", task.target_start, w.imul(task.along_start, unit))
        place = w.select(task.staged, "ptr", task.stage, target)

        def some(at: str, count: int) -> None:
            here = w.gep("i8", source, w.imul(at, step))
            self._some(task, here, w.gep("i8", place, w.imul(at, unit)), count)

        many = w.imul(self.together, _AT_ONCE)
        whole = w.isub(task.along, w.op("urem", "i64", task.along, many))
        with w.loop("0", whole, many) as loop:
            some(loop.index, _AT_ONCE)
        last = w.isub(task.along, self.together)
        with w.loop(whole, task.along, self.together) as loop:
            some(w.imin(loop.index, last), 1)
        with w.if_(task.staged):
            write(task, target, task.stage, w.imul(task.along, unit))

    def _some(self, task: Task, source: str, target: str, count: int) -> None:
        """The blocks that are permuted together, so many times."""
        w = task.w
        apart = w.imul(self.together, task.number("along_step0"))
        offsets = [(w.imul(apart, k), w.imul(self.size, k)) for k in range(count)]
        if not _permutes(w):
            with w.loop("0", self.size) as loop:
                place = w.load("i16", w.gep("i16", self.bytes, loop.index))
                place = w.cast("zext", "i16", place, "i64")
                for from_source, to_target in offsets:
                    value = w.load("i8", w.gep("i8", w.gep("i8", source, from_source), place))
                    w.store("i8", value, w.gep("i8", w.gep("i8", target, to_target), loop.index))
            return
        nothing = w.splat(self.ty, "0")
        with w.loop("0", self.size, self.width, [("i64", "0"), ("i64", "0")]) as made:
            number, begin = made.carried
            end = w.load("i64", w.gep("i64", self.ends, number))
            carried = [(self.ty, nothing) for _ in offsets]
            with w.loop(begin, end, 1, carried) as read:
                picks = w.load(self.ty, w.gep(self.ty, self.picks, read.index), self.width)
                mask = w.load("i64", w.gep("i64", self.masks, read.index))
                here = w.gep("i8", source, w.load("i64", w.gep("i64", self.starts, read.index)))
                read.next = [
                    self._added(w, w.gep("i8", here, offset), picks, mask, to)
                    for (offset, _), to in zip(offsets, read.carried)
                ]
            at = w.gep("i8", target, self._start(w, made.index, self.width))
            for (_, offset), value in zip(offsets, read.results):
                w.store(self.ty, value, w.gep("i8", at, offset), 1)
            made.next = [w.iadd(number, 1), end]

    def _added(self, w: FunctionWriter, place: str, picks: str, mask: str, to: str) -> str:
        """What a register of the operand has for one of the result, besides what others have."""
        ty, read = self.ty, vector("i8", self.window)
        value = w.load(read, place, 1)
        if self.width > self.window:
            value = w.shuffle(read, value, "poison", [*range(self.window)] * 2)
        name = _PERMUTE[w.target.is_aarch64, self.width]
        w.module.declare(name, ty, [ty, ty])
        moved = w.pure(f"call {ty} @{name}({ty} {value}, {ty} {picks})", value, picks)
        if not self.wide:
            return w.op("or", ty, moved, to)
        return w.select(w.cast("bitcast", "i64", mask, mask_of(ty)), ty, moved, to)


def _permutes(w: FunctionWriter) -> bool:
    return w.target.permutes_bytes or w.target.permutes_wide_bytes


def _emit(symbol: str, module: ModuleWriter) -> None:
    shuffles = _Shuffles()
    emit_routine(shuffles.fill, MOST_TOGETHER - 1, symbol, module, shuffles.begin)


def register() -> None:
    """Declares the routine."""
    symbol = f"pyjax_{SHUFFLED}"
    register_group(SHUFFLED, (symbol,), partial(_emit, symbol))
