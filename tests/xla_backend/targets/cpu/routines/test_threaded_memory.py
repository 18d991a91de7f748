"""Handlers of threaded code that load and store, one by one, with memory around that nobody may
touch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.jit import Library
from xla_backend.llvm.target import host_target
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.threaded_memory_names import (
    DIRECT_LANES,
    ELEMENT_BYTES,
    TILES,
    is_as_in_memory,
)
from xla_backend.targets.cpu.routines.threaded_names import BLOCK, PREFIX, RETURN
from xla_backend.targets.cpu.threaded.assembler import Assembler, Frame, Label

SLOT = 4096  # bytes of each slot
_AROUND = 8


def unsigned(size: int) -> np.dtype:
    return np.dtype(f"u{size}")


def run(instruction: str, *operands: object) -> list[np.ndarray]:
    """Run an instruction. Arrays among its operands are slots with their bytes, arrays in lists are
    slots with an address; what is in each afterwards."""
    asm, frame = Assembler(), Frame()
    frame.slot(64)
    memory: list[np.ndarray] = []
    words: list[int | Label] = []
    moved: list[tuple[int, int]] = []  # slots and what of memory is copied to and from there
    for operand in operands:
        if isinstance(operand, int | Label):
            words.append(operand)
        elif isinstance(operand, list):
            memory.append(operand[0].copy())
            slot = frame.slot()
            asm.emit(f"{PREFIX}constant", slot, memory[-1].ctypes.data)
            words.append(slot)
        else:
            assert isinstance(operand, np.ndarray)
            content = np.zeros(SLOT, np.uint8)
            content[: operand.nbytes] = np.frombuffer(operand.tobytes(), np.uint8)
            memory.append(content)
            words.append(frame.slot(SLOT))
            moved.append((words[-1], content.ctypes.data))
    pointer, zero = frame.slot(), frame.slot()
    asm.emit(f"{PREFIX}constant", zero, 0)
    for write in (False, True):
        if write:
            asm.emit(PREFIX + instruction, *words)
        for slot, address in moved:
            asm.emit(f"{PREFIX}constant", pointer, address)
            for at in range(0, SLOT, 256):
                name = "store" if write else "load"
                asm.emit(f"{PREFIX}{name}.1x256", slot + at, pointer, zero, at)
    asm.emit(RETURN)
    start = Label()
    start.word = 0
    asm.export("code", asm.subroutine(start, frame))
    kernels = kernel_library(host_target())
    library = Library([asm.object()], {name: kernels[name] for name in asm.symbols})
    context = (ctypes.c_void_p * 1)(int(library.address("code")))
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(int(kernels[BLOCK]))
    function(ctypes.addressof(context), 0)
    return memory


def random(size: int, count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([size, count, seed])
    return rng.integers(1, 200, count * size).astype(np.uint8).view(unsigned(size))


def lanes_of(slot: np.ndarray, like: np.ndarray) -> np.ndarray:
    return slot.view(like.dtype)[: like.size]


NUMBER = np.array([3], np.int64)


@pytest.mark.parametrize("lanes", [1, *DIRECT_LANES])
@pytest.mark.parametrize("size", ELEMENT_BYTES)
def test_neighbours(size: int, lanes: int) -> None:
    array, name = random(size, lanes + 2 * _AROUND), f"{size}x{lanes}"
    here = slice(4, 4 + lanes)  # number 3, and one element more
    slot = np.zeros(lanes, array.dtype)
    for guard in (None, True, False):
        suffix, words = ("", []) if guard is None else (".if", [np.array([guard])])
        got, *_ = run(f"load.{name}{suffix}", slot, [array], NUMBER, size, *words)
        expected = np.zeros_like(slot) if guard is False else array[here]
        np.testing.assert_array_equal(lanes_of(got, slot), expected)
        new = random(size, lanes, 1)
        _, got, *_ = run(f"store.{name}{suffix}", new, [array], NUMBER, size, *words)
        after = array.copy()
        if guard is not False:
            after[here] = new
        np.testing.assert_array_equal(got, after)


def mask_of(lanes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Some lanes, and a slot that says so; of lanes that are none it says anything."""
    some = np.random.default_rng([lanes, seed]).random(lanes) < 0.5
    padded = np.concatenate([some, np.ones(-lanes % 64, bool)])
    return some, np.packbits(padded, bitorder="little")


@pytest.mark.parametrize("lanes", DIRECT_LANES)
@pytest.mark.parametrize("size", ELEMENT_BYTES)
def test_lanes_of_a_mask(size: int, lanes: int) -> None:
    array = random(size, lanes + 2 * _AROUND)
    slot = np.full(lanes, 255, array.dtype)
    some, mask = mask_of(lanes)
    words = [NUMBER, size, mask, (1 << min(lanes, 16)) - 1, -(-lanes // 16)]
    got, *_ = run(f"load.{size}.masked", slot, [array], *words)
    np.testing.assert_array_equal(lanes_of(got, slot), np.where(some, array[4 : 4 + lanes], 0))
    new = random(size, lanes, 1)
    _, got, *_ = run(f"store.{size}.masked", new, [array], *words)
    after = array.copy()
    after[4 : 4 + lanes][some] = new[some]
    np.testing.assert_array_equal(got, after)


def both_masks(lanes: int) -> Sequence[tuple[np.ndarray, str, list]]:
    some, mask = mask_of(lanes)
    return [(np.ones(lanes, bool), "", []), (some, ".masked", [mask])]


@pytest.mark.parametrize("distance", [-3, -1, 0, 2, 7])
@pytest.mark.parametrize("size", ELEMENT_BYTES)
def test_equal_distances(size: int, distance: int) -> None:
    lanes = 32
    array = random(size, 16 * lanes)
    first = 110
    places = first + 3 + distance * np.arange(lanes)
    slot = np.full(lanes, 255, array.dtype)
    for some, suffix, more in both_masks(lanes):
        words = [NUMBER, first * size, distance * size, lanes, *more]
        got, *_ = run(f"load.{size}.apart{suffix}", slot, [array], *words)
        np.testing.assert_array_equal(lanes_of(got, slot), np.where(some, array[places], 0))
        new = random(size, lanes, 1)
        _, got, *_ = run(f"store.{size}.apart{suffix}", new, [array], *words)
        after = array.copy()
        for place, value in zip(places[some], new[some]):
            after[place] = value
        np.testing.assert_array_equal(got, after)


@pytest.mark.parametrize("lanes", [16, 64])
@pytest.mark.parametrize("size", ELEMENT_BYTES)
def test_neighbours_in_another_order(size: int, lanes: int) -> None:
    """The array ends with the last of the lanes."""
    rounds, slot = lanes // 16, np.zeros(lanes, unsigned(size))
    array, new = random(size, lanes + 4), random(size, lanes, 1)
    words = [NUMBER, lanes * size, rounds]  # the first lane is the last element
    got, *_ = run(f"load.{size}.reversed", slot, [array], *words)
    np.testing.assert_array_equal(lanes_of(got, slot), array[4:][::-1])
    _, got, *_ = run(f"store.{size}.reversed", new, [array], *words)
    np.testing.assert_array_equal(got, [*array[:4], *new[::-1]])
    array, other = random(size, 2 * lanes + 3), random(size, lanes, 2)
    got, *_ = run(f"load.{size}.every2", slot, [array], NUMBER, size, rounds)
    np.testing.assert_array_equal(lanes_of(got, slot), array[4::2])
    array = random(size, 2 * lanes + 6)
    _, _, got, *_ = run(f"store.{size}.pairs", new, other, [array], NUMBER, size, rounds)
    pairs = np.stack([new, other], axis=1).reshape(-1)
    np.testing.assert_array_equal(got, [*array[:4], *pairs, *array[-2:]])


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("size", ELEMENT_BYTES)
def test_indices(size: int, index: str) -> None:
    """The last of the lanes that store to one place is what is there."""
    lanes = 64
    array = random(size, 40)
    places = np.random.default_rng(size).integers(0, 40, lanes).astype(f"i{int(index[1:]) // 8}")
    slot = np.full(lanes, 255, array.dtype)
    for some, suffix, more in both_masks(lanes):
        got, *_ = run(f"gather.{size}.{index}{suffix}", slot, [array], places, lanes, *more)
        np.testing.assert_array_equal(lanes_of(got, slot), np.where(some, array[places], 0))
        new = random(size, lanes, 1)
        _, got, *_ = run(f"scatter.{size}.{index}{suffix}", new, [array], places, lanes, *more)
        after = array.copy()
        for place, value in zip(places[some], new[some]):
            after[place] = value
        np.testing.assert_array_equal(got, after)


@pytest.mark.parametrize("size", ELEMENT_BYTES)
def test_tables(size: int) -> None:
    lanes = 16
    array = random(size, 60)
    table = np.random.default_rng(size).integers(-20, 20, lanes).astype(np.int32)
    slot = np.full(lanes, 255, array.dtype)
    for some, suffix, more in both_masks(lanes):
        words = [NUMBER, 20 * size, table.ctypes.data, lanes, *more]
        got, *_ = run(f"gather.{size}.table{suffix}", slot, [array], *words)
        np.testing.assert_array_equal(lanes_of(got, slot), np.where(some, array[table + 23], 0))


@pytest.mark.parametrize(("size", "rows"), TILES)
def test_tiles(size: int, rows: int) -> None:
    tile = random(size, rows * rows)
    target, _ = run(f"transpose.{size}x{rows}", [np.zeros_like(tile)], tile)
    np.testing.assert_array_equal(target.reshape(rows, rows), tile.reshape(rows, rows).T)


def test_masks() -> None:
    lanes = 256
    a, b = mask_of(lanes, 1)[1], mask_of(lanes, 2)[1]
    got, *_ = run("mask.and", np.zeros(lanes // 8, np.uint8), a, b, lanes // 16)
    np.testing.assert_array_equal(got[: lanes // 8], a & b)


CONVERTED = [t for t in P if t.is_array and not t.is_complex and not is_as_in_memory(t)]


@pytest.mark.parametrize("t", CONVERTED, ids=str)
def test_conversions(t: P) -> None:
    """All values of a byte, and many of two, come back as they were, but for signalling NaNs."""
    if t is P.PRED:
        values = np.arange(16) % 3 == 1
        form, slots = np.packbits(values, bitorder="little"), values.astype(np.uint8)
    elif t.is_floating:
        bits = (
            np.arange(0, 1 << 16, 37, np.uint16)[:512] if t.bits == 16 else np.arange(1 << t.bits)
        )
        raw = bits.astype(unsigned(t.byte_size)).view(t.numpy_dtype)
        values = raw[~np.isnan(raw.astype(np.float32))]
        values = values[: values.size // 16 * 16]
        form = slots = values.astype(np.float32)
    else:
        values = np.arange(-8 if t.is_signed_integral else 0, 8).astype(np.int8)
        values = values[: values.size // 16 * 16] if values.size >= 16 else np.resize(values, 16)
        shift = 8 - t.bits
        wrapped = (values << shift).astype(np.int8 if t.is_signed_integral else np.uint8) >> shift
        form = slots = wrapped
        values = wrapped
    count = values.size // 16
    got, _ = run(f"from.{t}.n", np.zeros(1, np.uint8), values, count)
    np.testing.assert_array_equal(lanes_of(got, form), form)
    if t.is_floating or t is P.PRED:
        raw = values.view(unsigned(t.byte_size))
        got, _ = run(f"to.{t}.n", np.zeros(1, np.uint8), form, count)
        np.testing.assert_array_equal(lanes_of(got, raw), raw)
        for i in (0, 1, 7):
            got, _ = run(f"from.{t}", np.zeros(1, np.uint8), values[i : i + 1])
            np.testing.assert_array_equal(lanes_of(got, slots[:1]), slots[i : i + 1])
            got, _ = run(f"to.{t}", np.zeros(1, np.uint8), slots[i : i + 1])
            np.testing.assert_array_equal(lanes_of(got, raw[:1]), raw[i : i + 1])


@pytest.mark.parametrize("t", [P.PRED, P.BF16], ids=str)
def test_loaded_and_converted_in_one_instruction(t: P) -> None:
    lanes = 64
    memory = np.arange(lanes + 2 * _AROUND) % 3 if t is P.PRED else np.arange(lanes + 2 * _AROUND)
    array = memory.astype(t.numpy_dtype)
    here = slice(4, 4 + lanes)
    values = array[here]
    form = np.packbits(values, bitorder="little") if t is P.PRED else values.astype(np.float32)
    words = [NUMBER, t.byte_size]
    got, *_ = run(f"load.{t}.n", np.zeros(1, np.uint8), [array], *words, lanes // 16)
    np.testing.assert_array_equal(lanes_of(got, form), form)
    empty = np.zeros_like(array)
    _, got, *_ = run(f"store.{t}.n", form, [empty], *words, lanes // 16)
    empty[here] = values
    np.testing.assert_array_equal(got, empty)
    one = values[5:6].astype(np.uint8 if t is P.PRED else np.float32)
    for guard in (None, True, False):
        suffix, more = ("", []) if guard is None else (".if", [np.array([guard])])
        at = [array], NUMBER, 6 * t.byte_size  # number 3 + 6 is 4 + 5
        got, *_ = run(f"load.{t}{suffix}", np.ones(8, np.uint8), *at, *more)
        np.testing.assert_array_equal(lanes_of(got, one), one if guard is not False else 0 * one)
        if t is P.BF16:
            zeros = np.zeros_like(array)
            _, got, *_ = run(f"store.{t}{suffix}", one, [zeros], *at[1:], *more)
            if guard is not False:
                zeros[9] = values[5]
            np.testing.assert_array_equal(got, zeros)
