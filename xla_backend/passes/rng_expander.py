"""Random bits as integer arithmetic: rng-bit-generator (Threefry-2x32, Philox-4x32) and rng."""

from __future__ import annotations

import math

from xla_backend.hlo.attributes import (
    CompareAttributes,
    ComparisonDirection,
    RngAttributes,
    RngBitGeneratorAttributes,
    RngGetAndUpdateStateAttributes,
)
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import BY_NAME, PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit

P = PrimitiveType
_LESS = CompareAttributes(ComparisonDirection.LT)
_THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_THREEFRY_PARITY = 0x1BD11BDA
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)


class RngBitGeneratorExpander(HloPass):
    """rng-bit-generator -> integer arithmetic on counters.

    Why: it fuses with what uses the bits, and needs no code generation of its own.
    Needs: nothing.  Leaves: no rng-bit-generator. rng_default means Philox.
    """

    name = "rng-bit-generator-expander"
    opcodes = frozenset({Opcode.RNG_BIT_GENERATOR})

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = computation.post_order(Opcode.RNG_BIT_GENERATOR)
        for node in nodes:
            computation.replace(node, _expand_bit_generator(node))
        return bool(nodes)


class RngExpander(HloPass):
    """rng -> Philox bits, shaped to the distribution: a fixed key for each instruction, counters
    from the state of the program.

    Why: each execution, and each iteration of a loop, draws other numbers.
    Needs: runs before rng-bit-generator-expander.
    Leaves: no rng. Each process draws the same numbers, which HLO allows: it does not say which.
    """

    name = "rng-expander"
    opcodes = frozenset({Opcode.RNG})

    def run_on_computation(self, computation: Computation) -> bool:
        nodes = computation.post_order(Opcode.RNG)
        for number, node in enumerate(nodes):
            new = _expand_rng(node, number)
            computation.replace_uses(node, new)
            computation.remove(node)  # has a side effect: never dropped by itself
        return bool(nodes)


class _Bits(Emit):
    """u32 and u64 arithmetic."""

    def u32(self, like: Instruction, value: int) -> Instruction:
        return self.splat(like.shape, value & (2 ** (like.shape.element_type.bits) - 1))

    def plus(self, x: Instruction, y: Instruction) -> Instruction:
        return self.binary(Opcode.ADD, x, y)

    def xor(self, x: Instruction, y: Instruction) -> Instruction:
        return self.binary(Opcode.XOR, x, y)

    def low(self, x: Instruction) -> Instruction:
        return self.convert(x, P.U32)  # integer conversion keeps the low bits

    def high(self, x: Instruction) -> Instruction:
        return self.low(self.binary(Opcode.SHIFT_RIGHT_LOGICAL, x, self.u32(x, 32)))

    def join(self, low: Instruction, high: Instruction) -> Instruction:
        wide = self.convert(high, P.U64)
        shifted = self.binary(Opcode.SHIFT_LEFT, wide, self.u32(wide, 32))
        return self.binary(Opcode.OR, self.convert(low, P.U64), shifted)

    def rotate(self, x: Instruction, by: int) -> Instruction:
        left = self.binary(Opcode.SHIFT_LEFT, x, self.u32(x, by))
        right = self.binary(Opcode.SHIFT_RIGHT_LOGICAL, x, self.u32(x, 32 - by))
        return self.binary(Opcode.OR, left, right)

    def counters(self, start: Instruction, count: int) -> Instruction:
        steps = self.iota(Shape.array(P.U64, (count,)), 0)
        return self.plus(self.broadcast(start, (count,), ()), steps)

    def threefry(
        self, key: tuple[Instruction, Instruction], counter: tuple[Instruction, Instruction]
    ) -> tuple[Instruction, Instruction]:
        dims = counter[0].shape.dimensions
        third = self.xor(self.xor(*key), self.u32(key[0], _THREEFRY_PARITY))
        keys = [self.broadcast(k, dims, ()) for k in (*key, third)]
        x, y = self.plus(counter[0], keys[0]), self.plus(counter[1], keys[1])
        for group in range(5):
            for rotation in _THREEFRY_ROTATIONS[group % 2]:
                x = self.plus(x, y)
                y = self.xor(self.rotate(y, rotation), x)
            x = self.plus(x, keys[(group + 1) % 3])
            y = self.plus(self.plus(y, keys[(group + 2) % 3]), self.u32(y, group + 1))
        return x, y

    def philox(
        self, key: tuple[Instruction, Instruction], counter: tuple[Instruction, ...]
    ) -> tuple[Instruction, ...]:
        a, b, c, d = counter
        dims = a.shape.dimensions
        k0, k1 = key
        for _ in range(10):
            product0 = self._wide_product(a, _PHILOX_MULTIPLIERS[0])
            product1 = self._wide_product(c, _PHILOX_MULTIPLIERS[1])
            first = self.xor(self.xor(self.high(product1), b), self.broadcast(k0, dims, ()))
            third = self.xor(self.xor(self.high(product0), d), self.broadcast(k1, dims, ()))
            a, b, c, d = first, self.low(product1), third, self.low(product0)
            k0 = self.plus(k0, self.u32(k0, _PHILOX_WEYL[0]))
            k1 = self.plus(k1, self.u32(k1, _PHILOX_WEYL[1]))
        return a, b, c, d

    def _wide_product(self, x: Instruction, factor: int) -> Instruction:
        wide = self.convert(x, P.U64)
        return self.binary(Opcode.MULTIPLY, wide, self.u32(wide, factor))

    def interleave(self, parts: tuple[Instruction, ...], dimension: int) -> Instruction:
        """Elements of the parts in turn, along `dimension`."""
        dims = parts[0].shape.dimensions
        thin = (*dims[: dimension + 1], 1, *dims[dimension + 1 :])
        stacked = self.concatenate([self.reshape(p, thin) for p in parts], dimension + 1)
        merged = (*dims[:dimension], dims[dimension] * len(parts), *dims[dimension + 1 :])
        return self.reshape(stacked, merged)


def _state_words(b: _Bits, state: Instruction) -> list[Instruction]:
    """The state as u64 scalars."""
    count = state.shape.byte_size // 8
    if state.shape.element_type is P.U32:
        pairs = b.reshape(state, (count, 2))
        state = b.add(Opcode.BITCAST_CONVERT, (pairs,), shape=Shape.array(P.U64, (count,)))
    return [b.reshape(b.slice(state, (i,), (i + 1,)), ()) for i in range(count)]


def _state_array(b: _Bits, words: list[Instruction], like: Shape) -> Instruction:
    array = b.concatenate([b.reshape(w, (1,)) for w in words], 0)
    if like.element_type is P.U32:
        pairs = Shape.array(P.U32, (len(words), 2))
        array = b.add(Opcode.BITCAST_CONVERT, (array,), shape=pairs)
    return b.reshape(array, like.dimensions)


def _expand_bit_generator(node: Instruction) -> Instruction:
    assert isinstance(node.attributes, RngBitGeneratorAttributes)
    b = _Bits(node)
    state = node.operands[0]
    words = _state_words(b, state)
    shape = node.shape.tuple_shapes[1]
    wide = shape.element_type.bits == 64
    if node.attributes.algorithm == "rng_three_fry":
        if len(words) != 2:
            raise UnimplementedError(
                f"{node}: rng_three_fry needs a state of u64[2], got {state.shape}"
            )
        bits, used = _threefry_bits(b, words, shape.dimensions, wide)
        new_words = [words[0], b.plus(words[1], b.u32(words[1], used))]
    else:
        if len(words) not in (2, 3):
            raise UnimplementedError(
                f"{node}: rng_philox needs a state of u64[2] or u64[3], got {state.shape}"
            )
        bits, used = _philox_bits(b, words, shape.dimensions, wide)
        low = b.plus(words[1], b.u32(words[1], used))
        new_words = [words[0], low]
        if len(words) == 3:
            new_words.append(b.plus(words[2], _carry(b, low, words[1])))
    return b.tuple([_state_array(b, new_words, state.shape), _as_type(b, bits, shape)])


def _carry(b: _Bits, total: Instruction, part: Instruction) -> Instruction:
    """1 where total = part + something wrapped around."""
    wrapped = b.add(Opcode.COMPARE, (total, part), _LESS, shape=total.shape.with_type(P.PRED))
    return b.convert(wrapped, P.U64)


def _as_type(b: _Bits, bits: Instruction, shape: Shape) -> Instruction:
    """Unsigned bits in the element type asked for."""
    element_type = shape.element_type
    unsigned = BY_NAME[f"u{element_type.bits}"]
    bits = b.convert(bits, unsigned)
    if element_type.bits < 8:
        return b.convert(bits, element_type)
    return b.bitcast_convert(bits, element_type)


def _threefry_bits(
    b: _Bits, words: list[Instruction], dimensions: tuple[int, ...], wide: bool
) -> tuple[Instruction, int]:
    """Bits of the shape, and how many counters they took."""
    key = (b.low(words[0]), b.high(words[0]))
    if wide:
        count = math.prod(dimensions)
        counters = b.counters(words[1], count)
        pair = b.threefry(key, (b.low(counters), b.high(counters)))
        return b.reshape(b.join(*pair), dimensions), count
    # Each counter gives two 32-bit words, interleaved along the first even dimension (or the
    # largest).
    full = list(dimensions) or [1]
    even = [i for i, n in enumerate(dimensions) if n % 2 == 0]
    split = even[0] if even else max(range(len(full)), key=lambda i: (full[i], -i))
    half = list(full)
    half[split] = -(-full[split] // 2)
    count = math.prod(half)
    counters = b.counters(words[1], count)
    pair = b.threefry(key, (b.low(counters), b.high(counters)))
    merged = b.interleave(tuple(b.reshape(w, half) for w in pair), split)
    if merged.shape.dimensions != tuple(full):
        merged = b.slice(merged, (0,) * len(full), full)
    return b.reshape(merged, dimensions), count


def _philox_bits(
    b: _Bits, words: list[Instruction], dimensions: tuple[int, ...], wide: bool
) -> tuple[Instruction, int]:
    size, blocks = math.prod(dimensions), _philox_blocks(dimensions, wide)
    low = b.counters(words[1], blocks)
    carry = _carry(b, low, b.broadcast(words[1], (blocks,), ()))
    # A state of two words is widened by the key, as XLA does.
    start = words[2] if len(words) == 3 else words[0]
    high = b.plus(b.broadcast(start, (blocks,), ()), carry)
    key = (b.low(words[0]), b.high(words[0]))
    x, y, z, w = b.philox(key, (b.low(low), b.high(low), b.low(high), b.high(high)))
    parts = (b.join(x, y), b.join(z, w)) if wide else (x, y, z, w)
    stream = b.interleave(parts, 0)
    if stream.shape.dimensions[0] != size:
        stream = b.slice(stream, (0,), (size,))
    return b.reshape(stream, dimensions), blocks


def _philox_blocks(dimensions: tuple[int, ...], wide: bool) -> int:
    """How many counters it takes: each gives two words of 64 bits, or four of 32."""
    return -(-math.prod(dimensions) // (2 if wide else 4))


def _expand_rng(node: Instruction, number: int) -> Instruction:
    assert isinstance(node.attributes, RngAttributes)
    b = _Bits(node)
    element_type = node.shape.element_type
    if node.attributes.distribution == "rng_normal":
        return _normal(b, node, number)
    if element_type is P.PRED:
        bits = _draw(b, node.shape.dimensions, P.U32, number)
        one = b.u32(bits, 1)
        return b.convert(b.binary(Opcode.AND, bits, one), P.PRED)
    first = b.broadcast(node.operands[0], node.shape.dimensions, ())
    last = b.broadcast(node.operands[1], node.shape.dimensions, ())
    if element_type.is_integral:
        unsigned = P.U64 if element_type.bits == 64 else P.U32
        bits = _draw(b, node.shape.dimensions, unsigned, number)
        signed = {P.U64: P.S64, P.U32: P.S32}[unsigned]
        carrier = signed if element_type.is_signed_integral else unsigned
        start, stop = (b.convert(x, carrier) for x in (first, last))
        span = b.bitcast_convert(b.binary(Opcode.SUBTRACT, stop, start), unsigned)
        offset = b.bitcast_convert(b.binary(Opcode.REMAINDER, bits, span), carrier)
        return b.convert(b.plus(start, offset), element_type)
    unit = _unit(b, node.shape.dimensions, element_type, number)
    work = unit.shape.element_type
    start, stop = b.convert(first, work), b.convert(last, work)
    scaled = b.plus(b.binary(Opcode.MULTIPLY, unit, b.binary(Opcode.SUBTRACT, stop, start)), start)
    result = b.convert(scaled, element_type)
    # Rounding may reach the open end.
    inside = b.add(Opcode.COMPARE, (result, last), _LESS, shape=result.shape.with_type(P.PRED))
    return b.add(Opcode.SELECT, (inside, result, first), shape=result.shape)


def _normal(b: _Bits, node: Instruction, number: int) -> Instruction:
    """Box-Muller: sqrt(-2 log(1 - u)) cos(2 pi v)."""
    dims, element_type = node.shape.dimensions, node.shape.element_type
    u = _unit(b, dims, element_type, 2 * number + 1_000_001)
    v = _unit(b, dims, element_type, 2 * number + 1_000_002)
    complement = b.binary(Opcode.SUBTRACT, b.splat(u.shape, 1), u)
    squared = b.binary(Opcode.MULTIPLY, b.splat(u.shape, -2), b.unary(Opcode.LOG, complement))
    radius = b.unary(Opcode.SQRT, squared)
    angle = b.unary(Opcode.COSINE, b.binary(Opcode.MULTIPLY, b.splat(v.shape, 2 * math.pi), v))
    draw = b.binary(Opcode.MULTIPLY, radius, angle)
    mean = b.convert(b.broadcast(node.operands[0], dims, ()), draw.shape.element_type)
    deviation = b.convert(b.broadcast(node.operands[1], dims, ()), draw.shape.element_type)
    return b.convert(b.plus(b.binary(Opcode.MULTIPLY, draw, deviation), mean), element_type)


def _draw(b: _Bits, dimensions: tuple[int, ...], unsigned: P, number: int) -> Instruction:
    wide = unsigned is P.U64
    key = b.splat(Shape.array(P.U64), 0x9E3779B97F4A7C15 * (number + 1) % 2**64)
    used = RngGetAndUpdateStateAttributes(_philox_blocks(dimensions, wide))
    state = Shape.array(P.U64, (2,))
    counter = b.add(Opcode.RNG_GET_AND_UPDATE_STATE, (), used, shape=state)
    low = b.reshape(b.slice(counter, (0,), (1,)), ())
    bits, _ = _philox_bits(b, [key, low], dimensions, wide)
    return bits


def _unit(b: _Bits, dimensions: tuple[int, ...], element_type: P, number: int) -> Instruction:
    """Uniform in [0, 1): random mantissa under the exponent of 1, less 1; f64, or f32 for
    anything narrower."""
    wide = element_type is P.F64
    unsigned, floating = (P.U64, P.F64) if wide else (P.U32, P.F32)
    bits = _draw(b, dimensions, unsigned, number)
    shift, one = (12, 0x3FF0000000000000) if wide else (9, 0x3F800000)
    mantissa = b.binary(Opcode.SHIFT_RIGHT_LOGICAL, bits, b.u32(bits, shift))
    value = b.bitcast_convert(b.binary(Opcode.OR, mantissa, b.u32(bits, one)), floating)
    return b.binary(Opcode.SUBTRACT, value, b.splat(value.shape, 1))
