"""Partition of keys around a bound, in place, by whole vectors: those below it come first.

A vector is split by moving its lanes: to the end of what lies on the left already, and to the start
of what lies on the right. Vectors are read ahead on both sides, so that there is room, and then
always on the side with less of it (`chosen_lanes`). Where lanes cannot be chosen so, keys move one
by one, without branches.
"""

from __future__ import annotations

from xla_backend.llvm.types import bits_of, mask_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines import chosen_lanes

# Vectors that are read at once.
_UNROLL = 4
# Shorter vectors are no quicker than keys one by one.
_FEWEST_LANES = 4


def partition_name(ty: str) -> str:
    return f"partition.{ty}"


def _least_by_vectors(lanes: int) -> int:
    """The fewest keys of which both ends are read ahead."""
    return 2 * _UNROLL * lanes


def emit_partition(module: ModuleWriter, ty: str) -> None:
    """i64 partition(ptr keys, i64 n, ty bound): how many keys are below the bound."""
    params = [("ptr", "keys"), ("i64", "n"), (ty, "bound")]
    w = module.function(partition_name(ty), params, "i64", internal=True)
    lanes = module.target.lanes(bits_of(ty))
    if lanes >= _FEWEST_LANES and (module.target.vector_bits > 128 or module.target.permutes_bytes):
        many, few = w.new_label("many"), w.new_label("few")
        least = _least_by_vectors(lanes)
        w.cond_br(w.cmp("sge", "i64", "%n", str(least)), many, few)
        w.label(many)
        with w.scope():
            _emit_by_vectors(w, ty)
        w.label(few)
    _emit_one_by_one(w, ty)


def _emit_one_by_one(w: FunctionWriter, ty: str) -> None:
    with w.loop("0", "%n", 1, [("i64", "0")]) as loop:
        (below,) = loop.carried
        here, there = w.gep(ty, "%keys", loop.index), w.gep(ty, "%keys", below)
        key, other = w.load(ty, here), w.load(ty, there)
        w.store(ty, other, here)
        w.store(ty, key, there)
        is_below = w.cmp("slt", ty, key, "%bound")
        loop.next = [w.iadd(below, w.cast("zext", "i1", is_below, "i64"))]
    w.ret("i64", loop.results[0])


class _Splitter:
    """Writes the lanes of vectors to the two sides."""

    def __init__(self, w: FunctionWriter, ty: str) -> None:
        self.w, self.ty = w, ty
        self.bytes = bits_of(ty) // 8
        self.lanes = w.target.lanes(bits_of(ty))
        self.vec = vector(ty, self.lanes)
        self.bound = w.splat(self.vec, "%bound")
        self.compresses = w.target.vector_bits == 512
        if not self.compresses:
            self.table = chosen_lanes.permutation_table(w.module, ty)

    def load(self, pointer: str) -> str:
        return self.w.load(self.vec, pointer, self.bytes)

    def _count(self, mask: str) -> str:
        return chosen_lanes.count(self.w, mask, self.lanes)

    def _first(self, count: str) -> str:
        return chosen_lanes.front(self.w, count, self.lanes)

    def _compressed(self, value: str, mask: str) -> str:
        return chosen_lanes.compressed(self.w, self.vec, value, mask)

    def put(self, value: str, left: str, right: str) -> tuple[str, str]:
        """A whole vector, where each side has room for one; returns the new ends of the sides."""
        w, ty = self.w, self.ty
        below = w.cmp("slt", self.vec, value, self.bound)
        count = self._count(below)
        rest = w.isub(self.lanes, count)
        new_left, new_right = w.gep(ty, left, count), w.gep(ty, right, w.isub(0, rest))
        if self.compresses:
            w.store(self.vec, self._compressed(value, below), left, self.bytes)
            others = self._compressed(value, w.not_(mask_of(self.vec), below))
            w.masked_store(self.vec, others, new_right, self._first(rest))
        else:
            split = chosen_lanes.permuted(w, ty, self.table, value, below)
            w.store(self.vec, split, left, self.bytes)
            w.store(self.vec, split, w.gep(ty, right, -self.lanes), self.bytes)
        return new_left, new_right

    def put_exactly(self, value: str, valid: str, left: str, right: str) -> tuple[str, str]:
        """The first `valid` lanes of a vector, by masks: nothing beside them is written."""
        w, ty, mask = self.w, self.ty, mask_of(self.vec)
        given = self._first(valid)
        below = w.op("and", mask, given, w.cmp("slt", self.vec, value, self.bound))
        count = self._count(below)
        rest = w.isub(valid, count)
        new_left, new_right = w.gep(ty, left, count), w.gep(ty, right, w.isub(0, rest))
        w.masked_store(self.vec, self._compressed(value, below), left, self._first(count))
        others = w.op("and", mask, given, w.not_(mask, below))
        w.masked_store(self.vec, self._compressed(value, others), new_right, self._first(rest))
        return new_left, new_right

    def put_one(self, key: str, left: str, right: str) -> tuple[str, str]:
        """A key on both sides, since there is room for one, one of which moves."""
        w, ty = self.w, self.ty
        before_right = w.gep(ty, right, -1)
        w.store(ty, key, left)
        w.store(ty, key, before_right)
        below = w.cmp("slt", ty, key, "%bound")
        after_left = w.gep(ty, left, w.cast("zext", "i1", below, "i64"))
        return after_left, w.select(below, "ptr", right, before_right)


def _emit_by_vectors(w: FunctionWriter, ty: str) -> None:
    s = _Splitter(w, ty)
    block = _UNROLL * s.lanes
    # Keys of both ends, and what does not fill a block, wait here.
    ahead = w.alloca(ty, 3 * block, 64)
    rest = w.op("and", "i64", "%n", str(block - 1))
    end = w.gep(ty, "%keys", "%n")
    middle_end = w.gep(ty, end, w.isub(-block, rest))
    for k, source in enumerate(("%keys", w.gep(ty, end, -block), middle_end)):
        for i in range(_UNROLL):
            value = s.load(w.gep(ty, source, i * s.lanes))
            w.store(s.vec, value, w.gep(ty, ahead, k * block + i * s.lanes))

    def room(a: str, b: str) -> str:
        first, last = (w.cast("ptrtoint", "ptr", p, "i64") for p in (a, b))
        return w.isub(last, first)

    def some(state: list[str]) -> str:
        return w.cmp("ult", "ptr", state[0], state[1])

    def step(state: list[str]) -> list[str]:
        read_left, read_right, left, right = state
        tight = w.cmp("sle", "i64", room(left, read_left), room(read_right, right))
        before_right = w.gep(ty, read_right, -block)
        source = w.select(tight, "ptr", read_left, before_right)
        read_left = w.select(tight, "ptr", w.gep(ty, read_left, block), read_left)
        read_right = w.select(tight, "ptr", read_right, before_right)
        values = [s.load(w.gep(ty, source, i * s.lanes)) for i in range(_UNROLL)]
        for value in values:
            left, right = s.put(value, left, right)
        return [read_left, read_right, left, right]

    starts = [w.gep(ty, "%keys", block), middle_end, "%keys", end]
    _, _, left, right = w.while_([("ptr", p) for p in starts], some, step)
    waiting = w.iadd(rest, 2 * block)
    step_by = s.lanes if s.compresses else 1
    with w.loop("0", waiting, step_by, [("ptr", left), ("ptr", right)], guard=False) as loop:
        if s.compresses:
            valid = w.imin(w.isub(waiting, loop.index), s.lanes)
            value = s.load(w.gep(ty, ahead, loop.index))
            loop.next = list(s.put_exactly(value, valid, *loop.carried))
        else:
            key = w.load(ty, w.gep(ty, ahead, loop.index))
            loop.next = list(s.put_one(key, *loop.carried))
    below = w.op("ashr", "i64", room("%keys", loop.results[0]), str(s.bytes.bit_length() - 1))
    w.ret("i64", below)
