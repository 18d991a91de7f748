"""rng-bit-generator (Threefry-2x32 and Philox-4x32, counters laid out as XLA does) and rng in
NumPy."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import RngAttributes, RngBitGeneratorAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator.conversions import convert_array
from xla_backend.hlo.evaluator.scalar_computations import Values
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType
U32, U64 = np.uint32, np.uint64
_MASK = U64(0xFFFFFFFF)
_HALF = U64(32)
_THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PHILOX_MULTIPLIERS = (U64(0xD2511F53), U64(0xCD9E8D57))
_PHILOX_WEYL = (U32(0x9E3779B9), U32(0xBB67AE85))


def _split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Low and high words."""
    return (x & _MASK).astype(U32), (x >> _HALF).astype(U32)


def _join(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(U64) | (high.astype(U64) << _HALF)


def threefry_2x32(
    key: tuple[np.ndarray, np.ndarray], counter: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Twenty rounds of Threefry-2x32 (Salmon et al. 2011) on arrays of counters."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ U32(0x1BD11BDA))
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for group in range(5):
        for rotation in _THREEFRY_ROTATIONS[group % 2]:
            x = x + y
            y = ((y << U32(rotation)) | (y >> U32(32 - rotation))) ^ x
        x = x + keys[(group + 1) % 3]
        y = y + keys[(group + 2) % 3] + U32(group + 1)
    return x, y


def philox_4x32(
    key: tuple[np.ndarray, np.ndarray], counter: tuple[np.ndarray, ...]
) -> tuple[np.ndarray, ...]:
    """Ten rounds of Philox-4x32 (Salmon et al. 2011) on arrays of counters."""
    a, b, c, d = counter
    k0, k1 = key
    for _ in range(10):
        low0, high0 = _split(a.astype(U64) * _PHILOX_MULTIPLIERS[0])
        low1, high1 = _split(c.astype(U64) * _PHILOX_MULTIPLIERS[1])
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
        k0, k1 = k0 + _PHILOX_WEYL[0], k1 + _PHILOX_WEYL[1]
    return a, b, c, d


def rng_bit_generator(node: Instruction, state: np.ndarray) -> Values:
    attributes = node.attributes
    assert isinstance(attributes, RngBitGeneratorAttributes)
    shape = node.shape.tuple_shapes[1]
    words = state if state.dtype == U64 else np.ascontiguousarray(state).view(U64)
    generate = _threefry_bits if attributes.algorithm == "rng_three_fry" else _philox_bits
    bits, new_words = generate(words, shape.dimensions, max(shape.element_type.bits, 32))
    kind = shape.element_type
    unsigned = bits.astype(bits.dtype)
    if kind.bits < 32:
        unsigned = convert_array(unsigned, P(f"u{kind.bits}"))
    result = unsigned.view(kind.numpy_dtype) if kind.bits >= 8 else convert_array(unsigned, kind)
    return np.ascontiguousarray(new_words).view(state.dtype), result.reshape(shape.dimensions)


def _threefry_bits(
    words: np.ndarray, dimensions: tuple[int, ...], bits: int
) -> tuple[np.ndarray, np.ndarray]:
    if words.size != 2:
        raise UnimplementedError(
            f"rng_three_fry needs a state of u64[2] (key, counter), got {words.size} words"
        )
    key, counter = words
    key_words = _split(np.asarray(key))
    size = int(np.prod(dimensions, dtype=np.int64))
    if bits == 64:
        counters = counter + np.arange(size, dtype=U64)
        low, high = threefry_2x32(key_words, _split(counters))
        return _join(low, high).reshape(dimensions), np.array([key, counter + U64(size)], U64)
    # Two 32-bit words per counter: the first words fill one half of the result along one
    # dimension, the second words the other half, interleaved position by position in that
    # dimension.
    split = next((i for i, n in enumerate(dimensions) if n % 2 == 0), None)
    if split is None:
        split = int(np.argmax(dimensions)) if dimensions else 0
    full = list(dimensions) or [1]
    half = list(full)
    half[split] = -(-full[split] // 2)
    count = int(np.prod(half, dtype=np.int64))
    counters = counter + np.arange(count, dtype=U64)
    pair = [w.reshape(half) for w in threefry_2x32(key_words, _split(counters))]
    stacked = np.stack(pair, axis=split + 1)
    full_even = list(full)
    full_even[split] = half[split] * 2
    merged = stacked.reshape(full_even)
    cut = merged[(slice(None),) * split + (slice(0, full[split]),)]
    return cut.reshape(dimensions), np.array([key, counter + U64(count)], U64)


def _philox_bits(
    words: np.ndarray, dimensions: tuple[int, ...], bits: int
) -> tuple[np.ndarray, np.ndarray]:
    if words.size not in (2, 3):
        raise UnimplementedError(
            f"rng_philox needs a state of u64[2] or u64[3], got {words.size} words"
        )
    key, low = words[0], words[1]
    high = words[2] if words.size == 3 else key  # as XLA widens a u64[2] state
    size = int(np.prod(dimensions, dtype=np.int64))
    per_block = 4 if bits == 32 else 2
    blocks = -(-size // per_block)
    counter_low = low + np.arange(blocks, dtype=U64)
    counter_high = high + (counter_low < low).astype(U64)
    counter = (*_split(counter_low), *_split(counter_high))
    a, b, c, d = philox_4x32(_split(np.asarray(key)), counter)
    if bits == 32:
        stream = np.stack([a, b, c, d], axis=1).reshape(-1)
    else:
        stream = np.stack([_join(a, b), _join(c, d)], axis=1).reshape(-1)
    new_low = low + U64(blocks)
    new_high = high + U64(new_low < low)
    state = np.array([key, new_low, new_high][: words.size], U64)
    return stream[:size].reshape(dimensions), state


def rng(
    node: Instruction, first: np.ndarray, second: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Uniform in [first, second) or normal with mean and deviation; which numbers come is
    unspecified."""
    attributes = node.attributes
    assert isinstance(attributes, RngAttributes)
    kind, dims = node.shape.element_type, node.shape.dimensions
    if attributes.distribution == "rng_normal":
        draw = generator.normal(float(first), float(second), dims)
        return convert_array(np.asarray(draw), kind)
    if kind.is_integral:
        return convert_array(generator.integers(int(first), int(second), dims, np.int64), kind)
    if kind is P.PRED:
        return np.asarray(generator.integers(0, 2, dims)).astype(bool)
    draw = generator.random(dims) * (float(second) - float(first)) + float(first)
    result = convert_array(np.asarray(draw), kind)
    return np.where(result >= second, first, result)  # rounding may reach the open end
