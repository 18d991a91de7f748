"""Sorts of a few blocks of keys, each as many as the largest sorting network takes: networks sort
the blocks, and merge them in twos, and the pairs in twos.

Runs are merged bitonically: each key with the one as far from the other end, which makes two halves
of which none has keys larger than the other's; then keys half a run apart, a quarter, and so on. As
soon as what is left to compare fits into registers, it stays there. Keys beyond the last one would
be the largest, and stay where they are, so nobody compares them.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, const, vector
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.sorting_network import (
    bitonic_rows,
    capacity,
    emit_in_registers,
    emit_networks,
    flipped,
    least_and_most,
    network_lanes,
)

# Blocks that are merged.
_BLOCKS = 4
# Rows of a block, and of what is in registers at the end of the last one.
_ROWS = 16
_FEWER_ROWS = 8


def merged_capacity(target: TargetInfo, ty: str) -> int:
    """The most keys that are sorted so."""
    blocks = _BLOCKS if target.has_masked_moves(bits_of(ty)) else 1
    return blocks * capacity(target, ty)


def emit_merging_networks(module: ModuleWriter, ty: str) -> tuple[str, str]:
    """void small(ptr keys, i64 n) for n <= capacity, and the same for n <= merged_capacity; their
    names."""
    small = emit_networks(module, ty)
    block = capacity(module.target, ty)
    if merged_capacity(module.target, ty) == block:
        return small, small
    merge = _emit_merge(module, ty)
    w = module.function(f"few.{ty}", [("ptr", "keys"), ("i64", "n")], internal=True)
    with w.loop("0", "%n", block) as loop:
        count = w.imin(w.isub("%n", loop.index), block)
        w.call(small, "void", [("ptr", w.gep(ty, "%keys", loop.index)), ("i64", count)])
    half = block
    while half < block * _BLOCKS:
        with w.loop("0", w.isub("%n", half), 2 * half) as loop:
            count = w.imin(w.isub("%n", loop.index), 2 * half)
            given = [("ptr", w.gep(ty, "%keys", loop.index)), ("i64", count), ("i64", str(half))]
            w.call(merge, "void", given)
        half *= 2
    w.ret()
    return small, w.name


def _emit_merge(module: ModuleWriter, ty: str) -> str:
    """void merge(ptr keys, i64 n, i64 half): of the first `half` keys, some blocks, and the others,
    not more, each in order."""
    block = capacity(module.target, ty)
    whole, fewer = (_emit_bitonic(module, ty, rows) for rows in (_ROWS, _FEWER_ROWS))
    params = [("ptr", "keys"), ("i64", "n"), ("i64", "half")]
    w = module.function(f"merge.{ty}", params, internal=True)
    c = _Comparisons(w, ty)
    c.mirrored("%half", w.isub("%n", "%half"))

    def apart(state: list[str]) -> list[str]:
        (distance,) = state
        with w.loop("0", w.isub("%n", distance), w.imul(distance, 2)) as loop:
            there = w.iadd(loop.index, distance)
            c.straight(loop.index, there, w.imin(w.isub("%n", there), distance))
        return [w.op("ashr", "i64", distance, "1")]

    many = lambda state: w.cmp("sge", "i64", state[0], str(block))
    w.while_([("i64", w.op("ashr", "i64", "%half", "1"))], many, apart)

    def in_registers(name: str, start: str, end: str, size: int) -> None:
        with w.loop(start, end, size) as loop:
            count = w.imin(w.isub("%n", loop.index), size)
            w.call(name, "void", [("ptr", w.gep(ty, "%keys", loop.index)), ("i64", count)])

    complete = w.op("and", "i64", "%n", str(-block))
    in_registers(whole, "0", complete, block)
    part = _FEWER_ROWS * c.lanes
    there = w.iadd(complete, part)
    c.straight(complete, there, w.isub("%n", there))
    in_registers(fewer, complete, "%n", part)
    w.ret()
    return w.name


def _emit_bitonic(module: ModuleWriter, ty: str, rows: int) -> str:
    """void bitonic(ptr keys, i64 n): puts bitonic keys in order, which fill all rows of a block."""
    name = f"bitonic.{ty}.{rows}"
    w = module.function(name, [("ptr", "keys"), ("i64", "n")], internal=True)
    emit_in_registers(w, ty, rows, rows if rows == _ROWS else 0, bitonic_rows)
    return name


class _Comparisons:
    """Loops over keys of %keys that are compared, and exchanged where they are not in order."""

    def __init__(self, w: FunctionWriter, ty: str) -> None:
        self.w, self.ty = w, ty
        self.lanes = network_lanes(w.target, ty)
        self.vec = vector(ty, self.lanes)
        self.bytes = bits_of(ty) // 8
        self.largest = const(self.vec, (1 << (bits_of(ty) - 1)) - 1)

    def mirrored(self, half: str, count: str) -> None:
        """`count` keys from `half` on with those before it, from there back."""
        w, last = self.w, lanes_of(self.vec) - 1
        before = w.isub(half, self.lanes)

        def exchange(at: str, mask: str | None) -> None:
            low, high = self._place(w.isub(before, at)), self._place(w.iadd(half, at))
            other = flipped(w, self.vec, self._read(high, mask), last)
            least, most = least_and_most(w, self.vec, self._read(low, None), other)
            self._write(low, least, None)
            self._write(high, flipped(w, self.vec, most, last), mask)

        self._through(count, exchange)

    def straight(self, first: str, second: str, count: str) -> None:
        """`count` keys from `second` on, if it is not negative, with those from `first` on."""
        w = self.w

        def exchange(at: str, mask: str | None) -> None:
            low, high = self._place(w.iadd(first, at)), self._place(w.iadd(second, at))
            values = self._read(low, None), self._read(high, mask)
            least, most = least_and_most(w, self.vec, *values)
            self._write(low, least, None)
            self._write(high, most, mask)

        self._through(count, exchange)

    def _through(self, count: str, exchange: Callable[[str, str | None], None]) -> None:
        w = self.w
        count = w.imax(count, 0)
        complete = w.op("and", "i64", count, str(-self.lanes))
        with w.loop("0", complete, self.lanes) as loop:
            exchange(loop.index, None)
        with w.if_(w.cmp("ne", "i64", complete, count)):
            exchange(complete, w.active_mask(self.lanes, complete, count))

    def _place(self, at: str) -> str:
        return self.w.gep(self.ty, "%keys", at)

    def _read(self, place: str, mask: str | None) -> str:
        if mask is None:
            return self.w.load(self.vec, place, self.bytes)
        return self.w.masked_load(self.vec, place, mask, self.largest)

    def _write(self, place: str, value: str, mask: str | None) -> None:
        if mask is None:
            self.w.store(self.vec, value, place, self.bytes)
        else:
            self.w.masked_store(self.vec, value, place, mask)
