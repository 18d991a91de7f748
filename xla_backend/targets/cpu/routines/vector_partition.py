"""Partition of keys around a bound, in place, by whole vectors: those below it come first.

A vector is split by moving its lanes: to the end of what lies on the left already, and to the start
of what lies on the right. Vectors are read ahead on both sides, so that there is room, and then
always on the side with less of it. AVX-512 has an instruction that gathers chosen lanes; AVX2,
SSSE3 and NEON take a permutation from a table; elsewhere keys move one by one, without branches.
"""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.llvm.types import bits_of, mask_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

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
        self.bits = f"i{self.lanes}"
        self.bound = w.splat(self.vec, "%bound")
        self.compresses = w.target.vector_bits == 512
        if not self.compresses:
            self.table = permutation_table(w.module, ty)

    def load(self, pointer: str) -> str:
        return self.w.load(self.vec, pointer, self.bytes)

    def _count(self, mask: str) -> str:
        w = self.w
        bits = w.cast("bitcast", mask_of(self.vec), mask, self.bits)
        wide = w.cast("zext", self.bits, bits, "i32")
        return w.cast("zext", "i32", w.intrinsic("ctpop", "i32", wide), "i64")

    def _first(self, count: str) -> str:
        """The mask of the first lanes."""
        w = self.w
        ones = w.op("shl", "i64", "-1", count)
        low = w.cast("trunc", "i64", w.not_("i64", ones), self.bits)
        return w.cast("bitcast", self.bits, low, mask_of(self.vec))

    def _compressed(self, value: str, mask: str) -> str:
        """The chosen lanes first."""
        w, vec = self.w, self.vec
        name = f"llvm.experimental.vector.compress.v{self.lanes}{self.ty}"
        w.module.declare(name, vec, [vec, mask_of(vec), vec])
        text = f"call {vec} @{name}({vec} {value}, {mask_of(vec)} {mask}, {vec} poison)"
        return w.pure(text, value, mask)

    def _permuted(self, value: str, mask: str) -> str:
        """The chosen lanes first, then the others."""
        return permuted(self.w, self.ty, self.table, value, mask)

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
            split = self._permuted(value, below)
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


def permutation_table(module: ModuleWriter, ty: str) -> str:
    """What `permuted` needs for the lanes of a register: of 256 bits, or 128."""
    parts = 8 if module.target.vector_bits == 256 else 16
    return module.constant_bytes(bytes(_permutations(module.target.lanes(bits_of(ty)), parts)))


def permuted(w: FunctionWriter, ty: str, table: str, value: str, mask: str) -> str:
    """The chosen lanes of a register first, then the others."""
    lanes = w.target.lanes(bits_of(ty))
    vec = vector(ty, lanes)
    bits = w.cast("bitcast", mask_of(vec), mask, f"i{lanes}")
    row = w.cast("zext", f"i{lanes}", bits, "i64")
    if w.target.vector_bits == 256:
        parts, name = "<8 x i32>", "llvm.x86.avx2.permd"
        packed = w.load("<8 x i8>", w.gep("i64", table, row), 8)
        places = w.cast("zext", "<8 x i8>", packed, parts)
    else:
        parts = "<16 x i8>"
        name = "llvm.x86.ssse3.pshuf.b.128"
        if w.target.is_aarch64:
            name = "llvm.aarch64.neon.tbl1.v16i8"
        places = w.load(parts, w.gep(parts, table, row), 16)
    w.module.declare(name, parts, [parts, parts])
    given = w.cast("bitcast", vec, value, parts)
    moved = w.pure(f"call {parts} @{name}({parts} {given}, {parts} {places})", given, places)
    return w.cast("bitcast", parts, moved, vec)


def _permutations(lanes: int, parts: int) -> Iterator[int]:
    """For each mask of lanes: which `parts` of a register, as many of every lane, make the chosen
    lanes come first."""
    of_lane = parts // lanes
    for mask in range(1 << lanes):
        chosen = [i for i in range(lanes) if mask >> i & 1]
        others = [i for i in range(lanes) if not mask >> i & 1]
        yield from (i * of_lane + part for i in chosen + others for part in range(of_lane))


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
