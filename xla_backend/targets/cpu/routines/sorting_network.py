"""Sorting networks in vector registers, for at most `capacity` keys: signed integers of 32 or 64
bits.

Keys fill the rows of a matrix of vectors, padded with the largest integer. Columns are sorted all
at once by comparing whole rows; then columns are merged in twos, fours, and so on, bitonically,
with elements numbered down the columns. At the end bits of the numbers change places, so that they
run along the rows. Nothing branches: any input takes the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.transposes import exchange
from xla_backend.llvm.types import bits_of, const, vector, vector_const
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

# Rows of networks.
_SIZES = (4, 8, 16)
_ROWS = _SIZES[-1]


def network_lanes(target: TargetInfo, ty: str) -> int:
    """Keys in a row."""
    return max(2, target.lanes(bits_of(ty)))


def capacity(target: TargetInfo, ty: str) -> int:
    """The most keys that the largest network sorts."""
    return _ROWS * network_lanes(target, ty)


def emit_networks(module: ModuleWriter, ty: str) -> str:
    """void small(ptr keys, i64 n) for n <= capacity; returns its name."""
    row = network_lanes(module.target, ty)
    params = [("ptr", "keys"), ("i64", "n")]
    for rows in _SIZES[:-1]:
        w = module.function(_name(ty, rows), params, internal=True)
        _emit_network(w, ty, rows)
    w = module.function(f"small.{ty}", params, internal=True)
    for rows in _SIZES[:-1]:
        alone, more = w.new_label("alone"), w.new_label("more")
        w.cond_br(w.cmp("sle", "i64", "%n", str(rows * row)), alone, more)
        w.label(alone)
        w.call(_name(ty, rows), "void", [("ptr", "%keys"), ("i64", "%n")])
        w.ret()
        w.label(more)
    _emit_network(w, ty, _ROWS)
    return w.name


def _emit_network(w: FunctionWriter, ty: str, rows: int) -> None:
    """Ends a function. Half of the rows are full: else fewer would do."""
    emit_in_registers(w, ty, rows, rows // 2 if rows > _SIZES[0] else 0, _sorted_rows)


def _name(ty: str, rows: int) -> str:
    return f"network.{ty}.{rows}"


_Rows = Callable[[FunctionWriter, str, list[str]], list[str]]


def emit_in_registers(w: FunctionWriter, ty: str, rows: int, full: int, compute: _Rows) -> None:
    """Ends a function: `compute` of the keys in rows, the first `full` of which have no padding."""
    lanes, size = network_lanes(w.target, ty), bits_of(ty) // 8
    vec = vector(ty, lanes)
    largest = const(vec, (1 << (bits_of(ty) - 1)) - 1)
    places = [w.gep(ty, "%keys", row * lanes) for row in range(rows)]
    if not w.target.has_masked_moves(bits_of(ty)):
        _emit_through_buffer(w, ty, vec, largest, rows, compute)
        return
    count = w.splat(vec, w.cast("trunc", "i64", "%n", ty))
    numbers = [vector_const(ty, list(range(r * lanes, (r + 1) * lanes))) for r in range(rows)]
    masks = [w.cmp("sgt", vec, count, numbers[row]) for row in range(rows)]
    values = [w.load(vec, place, size) for place in places[:full]]
    values += [w.masked_load(vec, places[r], masks[r], largest) for r in range(full, rows)]
    for row, value in enumerate(compute(w, vec, values)):
        if row < full:
            w.store(vec, value, places[row], size)
        else:
            w.masked_store(vec, value, places[row], masks[row])
    w.ret()


def _emit_through_buffer(
    w: FunctionWriter, ty: str, vec: str, largest: str, rows: int, compute: _Rows
) -> None:
    """Without masks: the keys and their padding are copied."""
    stride = network_lanes(w.target, ty)
    buffer = w.alloca(ty, rows * stride, 64)
    places = [w.gep(ty, buffer, row * stride) for row in range(rows)]
    for place in places:
        w.store(vec, largest, place)

    def copy(source: str, target: str) -> None:
        with w.loop("0", "%n") as loop:
            w.store(ty, w.load(ty, w.gep(ty, source, loop.index)), w.gep(ty, target, loop.index))

    copy("%keys", buffer)
    values = [w.load(vec, place) for place in places]
    for place, value in zip(places, compute(w, vec, values), strict=True):
        w.store(vec, value, place)
    copy(buffer, "%keys")
    w.ret()


def least_and_most(w: FunctionWriter, vec: str, a: str, b: str) -> tuple[str, str]:
    return w.intrinsic("smin", vec, a, b), w.intrinsic("smax", vec, a, b)


def flipped(w: FunctionWriter, vec: str, value: str, flip: int) -> str:
    return w.shuffle(vec, value, "poison", [i ^ flip for i in range(lanes_of(vec))])


def _compare_lanes(w: FunctionWriter, vec: str, value: str, bit: int) -> str:
    """The lanes that differ in a bit, in order."""
    least, most = least_and_most(w, vec, value, flipped(w, vec, value, 1 << bit))
    return w.select(_lanes_without(vec, bit), vec, least, most)


def _lanes_without(vec: str, bit: int) -> str:
    return vector_const("i1", [not lane >> bit & 1 for lane in range(lanes_of(vec))])


def _compare_rows(w: FunctionWriter, vec: str, values: list[str], bit: int) -> None:
    for a in range(len(values)):
        b = a | 1 << bit
        if a != b:
            values[a], values[b] = least_and_most(w, vec, values[a], values[b])


def bitonic_rows(w: FunctionWriter, vec: str, values: list[str]) -> list[str]:
    """Rows that first ascend and then descend, or the other way round, in order."""
    values, last = list(values), lanes_of(vec) - 1
    for bit in reversed(range(len(values).bit_length() - 1)):
        _compare_rows(w, vec, values, bit)
    for bit in reversed(range(last.bit_length())):
        values = [_compare_lanes(w, vec, value, bit) for value in values]
    return values


def _sorted_rows(w: FunctionWriter, vec: str, values: list[str]) -> list[str]:
    return _Network(w, vec, values).sorted()


class _Network:
    """The rows while they are sorted. Element e = column * rows + row of the numbering down the
    columns is in the row of its low bits; `_lane[b]` is the bit of the lane that bit b of e is.
    """

    def __init__(self, w: FunctionWriter, vec: str, values: list[str]) -> None:
        self.w, self.vec, self.values = w, vec, values
        self.row_bits = r = len(values).bit_length() - 1
        self.lane_bits = v = lanes_of(vec).bit_length() - 1
        # Bits that the last step takes to the rows are where it exchanges them; others stay.
        self._lane = {(b + v if b < r else b) if r <= v else b + r: b for b in range(v)}

    def sorted(self) -> list[str]:
        w, vec, values = self.w, self.vec, self.values
        for a, b in _odd_even_merge_sort(len(values)):
            values[a], values[b] = least_and_most(w, vec, values[a], values[b])
        for k in range(self.row_bits, self.row_bits + self.lane_bits):
            self._compare_mirrored(k)
            for bit in range(k - 1, self.row_bits - 1, -1):
                values[:] = [_compare_lanes(w, vec, value, self._lane[bit]) for value in values]
            for bit in range(self.row_bits - 1, -1, -1):
                _compare_rows(w, vec, values, bit)
        return self._in_rows()

    def _compare_mirrored(self, k: int) -> None:
        """Each element e with the one that differs in bits 0 to k: halves of length 2^k, both
        ascending, become two of which none has elements larger than the other's."""
        w, vec, values = self.w, self.vec, self.values
        flip = sum(1 << self._lane[bit] for bit in range(self.row_bits, k + 1))
        low = _lanes_without(vec, self._lane[k])
        for row in range(len(values) // 2):
            mirrored = len(values) - 1 - row
            other = flipped(w, vec, values[mirrored], flip)
            least, most = least_and_most(w, vec, values[row], other)
            values[row] = w.select(low, vec, least, most)
            values[mirrored] = flipped(w, vec, w.select(low, vec, most, least), flip)

    def _in_rows(self) -> list[str]:
        """The rows in the order of elements: low bits of their numbers are those of the lane."""
        values = self.values
        for bit in range(min(self.row_bits, self.lane_bits)):
            values = exchange(self.w, self.vec, values, 1 << bit)
        # With more rows than lanes, the highest bits of rows come first now.
        kept = max(0, self.row_bits - self.lane_bits)
        if not kept:
            return values
        low = len(values) >> kept
        return [values[row >> kept | row % (1 << kept) * low] for row in range(len(values))]


def _odd_even_merge_sort(n: int) -> Iterator[tuple[int, int]]:
    """Batcher's network for n = 2^k elements: pairs to compare, in order."""
    p = 1
    while p < n:
        k = p
        while k:
            for j in range(k % p, n - k, 2 * k):
                for i in range(j, min(j + k, n - k)):
                    if i // (2 * p) == (i + k) // (2 * p):
                        yield i, i + k
            k //= 2
        p *= 2
