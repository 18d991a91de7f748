"""Sorts of one row by truth values: what is beside false ones comes first, all in the order that it
had.

  void pyjax_partition_b<bytes>(ptr truth, ptr in, ptr out, i64 n, i64 flags)     elements
  void pyjax_partition_<s32|s64>(ptr truth, ptr out, i64 n, i64 flags)            their places
        flags bit 0: what is beside true ones comes first

Parts of a row count what goes to the second side; then each knows where its own begin on both
sides, and writes nothing else, in parallel. AVX-512 gathers chosen lanes of a register (bytes and
words with VBMI2), AVX2 takes a permutation from a table for those of 4 and 8 bytes; elsewhere
elements go to their side one by one, without branches.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xla_backend.llvm.target import TargetInfo, has_features
from xla_backend.llvm.types import bits_of, mask_of, vector
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.routines.chosen_lanes import (
    compressed,
    count,
    front,
    permutation_table,
    permuted,
)
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.row_types import PARTITIONED_BYTES, PARTITIONED_PLACES
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_tasks
from xla_backend.targets.cpu.routines.workspace import give, take

# Elements of a part, whole vectors of bytes.
_PART = 1 << 15
_NARROW = ("avx512vbmi2",)
_DESCENDING = 1
# `counts`: of each part, then of those before each, and of all.
_CONTEXT = TaskContext(("truth", "in", "out", "counts", "n", "flags", "firsts"), pointers=4)


def _compresses(target: TargetInfo, bits: int) -> bool:
    """Whether an instruction gathers chosen lanes of a register."""
    if target.vector_bits != 512 or bits > 64:
        return False
    return bits >= 32 or has_features(target, _NARROW)


class _Part:
    """A task: a part of the row."""

    def __init__(self, module: ModuleWriter, name: str) -> None:
        self.name = name
        self.w = w = module.function(name, [("ptr", "ctx"), ("i64", "part")], internal=True)
        fields = dict(zip(_CONTEXT.names, _CONTEXT.fields(w), strict=True))
        self.source, self.target, self.counts = (fields[k] for k in ("in", "out", "counts"))
        self.firsts = fields["firsts"]
        self.start = w.imul("%part", _PART)
        self.size = w.imin(w.isub(fields["n"], self.start), _PART)
        self.truth = w.gep("i8", fields["truth"], self.start)
        descends = w.op("and", "i64", fields["flags"], str(_DESCENDING))
        # The byte of what goes to the first side.
        self.first = w.cast("trunc", "i64", descends, "i8")

    def seconds(self, place: str, lanes: int) -> str:
        """Which of some elements go to the second side."""
        ty = vector("i8", lanes)
        truth = self.w.load(ty, self.w.gep("i8", self.truth, place), 1)
        return self.w.cmp("ne", ty, truth, self.w.splat(ty, self.first))


def _emit_count(module: ModuleWriter) -> str:
    """void count(ptr ctx, i64 part): how many elements of a part go to the second side, to
    `counts`; the name."""
    p = _Part(module, "count")
    w, lanes = p.w, min(64, module.target.lanes(8))
    whole, total = w.op("and", "i64", p.size, str(-lanes)), "0"
    for begin, end, step in (("0", whole, lanes), (whole, p.size, 1)):
        with w.loop(begin, end, step, [("i64", total)]) as loop:
            some = count(w, p.seconds(loop.index, step), step)
            loop.next = [w.iadd(loop.carried[0], some)]
        (total,) = loop.results
    w.store("i64", total, w.gep("i64", p.counts, "%part"))
    w.ret()
    return p.name


def _emit_split(module: ModuleWriter, ty: str, *, places: bool) -> str:
    """void split(ptr ctx, i64 part): the elements of a part, or their places, to both sides, behind
    those of the parts before; the name."""
    p = _Part(module, "split")
    w, bits = p.w, bits_of(ty)
    align = min(8, bits // 8)  # complex128 are two of 8 bytes
    lanes = module.target.lanes(bits)
    row = vector(ty, lanes)
    before, behind = (w.load("i64", w.gep("i64", p.counts, w.iadd("%part", k))) for k in range(2))
    seconds = w.isub(behind, before)
    firsts = w.isub(p.size, seconds)
    first = w.gep(ty, p.target, w.isub(p.start, before))
    second = w.gep(ty, p.target, w.iadd(p.firsts, before))

    def ends(place: str, moved: str) -> tuple[str, str]:
        """Where the next elements go; `moved`: how many have gone to the second side."""
        return w.gep(ty, first, w.isub(place, moved)), w.gep(ty, second, moved)

    def values(place: str, lanes: int) -> str:
        at = w.iadd(p.start, place)
        if not places:
            return w.load(vector(ty, lanes), w.gep(ty, p.source, at), align)
        at = at if bits == 64 else w.cast("trunc", "i64", at, ty)
        if lanes == 1:
            return at
        row = vector(ty, lanes)
        return w.op("add", row, w.splat(row, at), w.iota(row))

    def by_compressing(place: str, moved: str) -> str:
        chosen, given = p.seconds(place, lanes), values(place, lanes)
        some = count(w, chosen, lanes)
        sides = ((w.not_(mask_of(row), chosen), w.isub(lanes, some)), (chosen, some))
        for (mask, number), end in zip(sides, ends(place, moved), strict=True):
            w.masked_store(row, compressed(w, row, given, mask), end, front(w, number, lanes))
        return w.iadd(moved, some)

    def by_permuting(place: str, moved: str) -> str:
        """Whole vectors, where each side has room for one."""
        chosen, given = p.seconds(place, lanes), values(place, lanes)
        sides = (w.not_(mask_of(row), chosen), chosen)
        for mask, end in zip(sides, ends(place, moved), strict=True):
            w.store(row, permuted(w, ty, table, given, mask), end, align)
        return w.iadd(moved, count(w, chosen, lanes))

    def by_choosing(place: str, moved: str) -> str:
        moves, (there, other) = p.seconds(place, 1), ends(place, moved)
        w.store(ty, values(place, 1), w.select(moves, "ptr", other, there), align)
        return w.iadd(moved, count(w, moves, 1))

    def through(begin: str, end: str, moved: str, step: int, move: Callable[..., str]) -> str:
        with w.loop(begin, end, step, [("i64", moved)]) as loop:
            loop.next = [move(loop.index, loop.carried[0])]
        return loop.results[0]

    def room(state: list[str]) -> str:
        """How many vectors there is room for, whichever way their elements go."""
        place, moved = state
        least = w.imin(w.isub(firsts, w.isub(place, moved)), w.isub(seconds, moved))
        return w.op("and", "i64", least, str(-lanes))

    def while_room(state: list[str]) -> list[str]:
        end = w.iadd(state[0], room(state))
        return [end, through(state[0], end, state[1], lanes, by_permuting)]

    place, moved = "0", "0"
    if _compresses(module.target, bits):
        place = w.op("and", "i64", p.size, str(-lanes))
        moved = through("0", place, moved, lanes, by_compressing)
    elif module.target.vector_bits == 256 and bits in (32, 64):
        table = permutation_table(module, ty)
        has_room = lambda state: w.cmp("sgt", "i64", room(state), "0")
        place, moved = w.while_([("i64", place), ("i64", moved)], has_room, while_room)
    through(place, p.size, moved, 1, by_choosing)
    w.ret()
    return p.name


def _emit_group(name: str, ty: str, places: bool, module: ModuleWriter) -> None:
    counting, split = _emit_count(module), _emit_split(module, ty, places=places)
    given = ("truth", "out") if places else ("truth", "in", "out")
    parameters = [*(("ptr", k) for k in given), ("i64", "n"), ("i64", "flags")]
    w = module.function(f"pyjax_{name}", parameters)
    parts = w.op("udiv", "i64", w.iadd("%n", _PART - 1), str(_PART))
    counts = take(w, w.iadd(parts, 1), "i64")
    source = "%truth" if places else "%in"
    operands = ["%truth", source, "%out", counts, "%n", "%flags"]
    run_tasks(w, counting, _CONTEXT.make(w, [*operands, "0"]), parts, polled=False)
    with w.loop("0", parts, 1, [("i64", "0")]) as loop:
        cell = w.gep("i64", counts, loop.index)
        found = w.load("i64", cell)
        w.store("i64", loop.carried[0], cell)
        loop.next = [w.iadd(loop.carried[0], found)]
    w.store("i64", loop.results[0], w.gep("i64", counts, parts))
    firsts = w.isub("%n", loop.results[0])
    run_tasks(w, split, _CONTEXT.make(w, [*operands, firsts]), parts, polled=False)
    give(w, counts)
    w.ret()


def register() -> None:
    """Declares the partitions of elements of each size, and of places."""
    kinds = [(f"b{size}", size, False) for size in PARTITIONED_BYTES]
    kinds += [(str(t), t.byte_size, True) for t in PARTITIONED_PLACES]
    for kind, size, places in kinds:
        name = f"partition_{kind}"
        emit = partial(_emit_group, name, f"i{8 * size}", places)
        register_group(name, (f"pyjax_{name}",), emit)
