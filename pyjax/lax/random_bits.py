"""Random bits from counters: the threefry2x32 hash, rng_bit_generator and rng_uniform.

Threefry is the 20-round, 2x32-bit member of the Threefish family: Salmon, Moraes, Dror and Shaw,
"Parallel random
numbers: as easy as 1, 2, 3", SC 2011. Its rounds are emitted unrolled, as elementwise
  operations that fuse.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters.batching import move_bdim
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import ZERO_TANGENT, Unsupported
from pyjax.lax.arithmetic import add
from pyjax.lax.bitwise import bitwise_or, bitwise_xor, shift_left, shift_right_logical
from pyjax.lax.common import (
    aval_of,
    broadcast_result_shape,
    canonical_dtype,
    canonical_shape,
    hlo_broadcast_to,
    nary_operands,
    shape_of,
)
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import iota
from pyjax.lax.nary import define, nary_batching, stretch
from pyjax.lax.shape import reshape
from pyjax.lax.shape_extra import stack, unstack
from pyjax.lax.shape_join import pad
from xla_backend.hlo.attributes import (
    CustomCallAttributes,
    RngAttributes,
    RngBitGeneratorAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype

UINT32 = np.dtype(np.uint32)
UINT_OF_WIDTH: dict[int, np.dtype[Any]] = {
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: UINT32,
    64: np.dtype(np.uint64),
}

# -- threefry2x32 ----------------------------------------------------------------------------------

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_KEY_PARITY = 0x1BD11BDA
_GROUPS = 5  # of four rounds each; a subkey is injected after every group


def _u32(value: int) -> np.ndarray:
    return np.asarray(value, UINT32)


def _rotate_left(x: Array, distance: int) -> Array:
    return bitwise_or(shift_left(x, _u32(distance)), shift_right_logical(x, _u32(32 - distance)))


def _threefry(key1: Array, key2: Array, x0: Array, x1: Array) -> list[Array]:
    shape = broadcast_result_shape("threefry2x32", [aval_of(v) for v in (key1, key2, x0, x1)])
    subkeys = (key1, key2, bitwise_xor(bitwise_xor(key1, key2), _u32(_KEY_PARITY)))
    x0, x1 = add(x0, key1), add(x1, key2)
    for group in range(_GROUPS):
        for distance in _ROTATIONS[group % 2]:
            x0 = add(x0, x1)
            x1 = bitwise_xor(_rotate_left(x1, distance), x0)
        x0 = add(x0, subkeys[(group + 1) % 3])
        x1 = add(add(x1, subkeys[(group + 2) % 3]), _u32(group + 1))
    return [stretch(x0, shape), stretch(x1, shape)]


def _threefry_aval(*avals: ShapedArray) -> list[ShapedArray]:
    if any(a.dtype != UINT32 for a in avals):
        fail(
            TypeError,
            "Arguments to threefry2x32 must have uint32 type, got "
            f"{', '.join(a.str_short() for a in avals)}",
        )
    aval = ShapedArray(broadcast_result_shape("threefry2x32", avals), UINT32)
    return [aval, aval]


# Of platforms whose vendors' libraries have the hash as one kernel: how its name begins.
_KERNELS = {"cuda": "cu", "rocm": "hip"}
_unrolled = lower_fun(_threefry)


def _threefry_lowering(ctx: Any, *operands: Instruction) -> list[Instruction]:
    prefix = _KERNELS.get(ctx.platform)
    shape: Shape = ctx.shapes_out[0]
    if prefix is None or not options.threefry_gpu_kernel_lowering.value or not shape.num_elements:
        outs = _unrolled(ctx, *operands)
        return outs if isinstance(outs, list) else [outs]
    words = [hlo_broadcast_to(ctx.builder, x, shape.dimensions) for x in operands]
    both = ctx.builder.add(
        Opcode.CUSTOM_CALL,
        words,
        CustomCallAttributes(
            f"{prefix}_threefry2x32_ffi", "{}", api_version="API_VERSION_TYPED_FFI"
        ),
        shape=Shape.tuple([shape, shape]),
    )
    return [ctx.builder.get_tuple_element(both, i) for i in range(2)]


def _threefry_batching(axis_size: int, args: Any, dims: Any) -> Any:
    outs, (dim,) = nary_batching(threefry2x32_p.bind)(axis_size, args, dims)
    return outs, [dim, dim]


threefry2x32_p: Primitive = define(
    "threefry2x32",
    abstract_eval=_threefry_aval,
    jvp=ZERO_TANGENT,
    transpose=Unsupported("random bits are integers"),
    batching=_threefry_batching,
    lowering=_threefry_lowering,
)


def counters(shape: Sequence[int]) -> tuple[ArrayLike, Array]:
    """High and low words of the row-major index of every element of `shape`."""
    size = math.prod(shape)
    if size > 2**32:
        fail(
            NotImplementedError,
            f"random bits of {size} elements need 64-bit counters, which are not supported.",
            fix="split the key and draw parts of at most 2**32 elements.",
        )
    low = reshape(iota(UINT32, size), tuple(shape))
    return _u32(0), low


def hash_pairs(key1: Array, key2: Array, flat: Array) -> Array:
    """Hash a vector of counters in the pairing of the first with the second half (padded by one 0
    if odd).
    """
    from_size = shape_of(flat)[0]
    half = (from_size + 1) // 2
    columns = unstack(reshape(_resized(flat, 2 * half), (2, half)))
    outs = threefry2x32_p.bind(key1, key2, *columns)
    return _resized(reshape(stack(outs), (2 * half,)), from_size)


def _resized(x: Array, size: int) -> Array:
    return x if shape_of(x)[0] == size else pad(x, _u32(0), ((0, size - shape_of(x)[0], 0),))


# -- rng_bit_generator -----------------------------------------------------------------------------


class RandomAlgorithm(enum.IntEnum):
    """Which generator rng_bit_generator uses."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


_ALGORITHM_TEXT = {
    RandomAlgorithm.RNG_DEFAULT: "rng_default",
    RandomAlgorithm.RNG_THREE_FRY: "rng_three_fry",
    RandomAlgorithm.RNG_PHILOX: "rng_philox",
}


def _rng_bit_generator_aval(
    key: ShapedArray, *, shape: tuple[int, ...], dtype: np.dtype, algorithm: Any, out_sharding: Any
) -> list[ShapedArray]:
    fits = (key.shape == (4,) and key.dtype == UINT32) or (
        key.shape in ((2,), (3,)) and key.dtype == np.uint64
    )
    if not fits:
        fail(
            TypeError,
            f"rng_bit_generator requires a key of dtype and shape uint32[4] or uint64[2], got "
            f"{key.str_short()}.",
        )
    return [key, ShapedArray(shape, dtype)]


def _rng_bit_generator_lowering(
    ctx: Any, key: Any, *, shape: Any, dtype: Any, algorithm: RandomAlgorithm, out_sharding: Any
) -> list[Any]:
    builder = ctx.builder
    is_words = key.shape.element_type is PrimitiveType.U32
    if is_words:
        pairs = builder.reshape(key, (2, 2))
        key = builder.add(
            Opcode.BITCAST_CONVERT, (pairs,), shape=Shape.array(PrimitiveType.U64, (2,))
        )
    # 8- and 16-bit results are the low bits of 32-bit ones.
    drawn = from_numpy_dtype(dtype)
    drawn = PrimitiveType.U32 if drawn.bits < 32 else drawn
    bits_shape = Shape.array(drawn, shape)
    both = builder.add(
        Opcode.RNG_BIT_GENERATOR,
        (key,),
        RngBitGeneratorAttributes(_ALGORITHM_TEXT[algorithm]),
        shape=Shape.tuple([key.shape, bits_shape]),
    )
    new_key = builder.get_tuple_element(both, 0)
    bits = builder.convert(builder.get_tuple_element(both, 1), from_numpy_dtype(dtype))
    if is_words:
        words = builder.add(
            Opcode.BITCAST_CONVERT, (new_key,), shape=Shape.array(PrimitiveType.U32, (2, 2))
        )
        new_key = builder.reshape(words, (4,))
    return [new_key, bits]


def _rng_bit_generator_batching(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
    keys = unstack(move_bdim(args[0], dims[0], 0))
    outs = [rng_bit_generator_p.bind(key, **params) for key in keys]
    return [stack([o[0] for o in outs]), stack([o[1] for o in outs])], [0, 0]


rng_bit_generator_p: Primitive = define(
    "rng_bit_generator",
    abstract_eval=_rng_bit_generator_aval,
    jvp=ZERO_TANGENT,
    transpose=Unsupported("random bits are integers"),
    batching=_rng_bit_generator_batching,
    lowering=_rng_bit_generator_lowering,
)


def rng_bit_generator(
    key: ArrayLike,
    shape: Sequence[int],
    dtype: Any = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """(new key, uniform bits) of an unsigned dtype. The key is uint32[4] (or uint64[2]).

    Raises:
      TypeError: wrong key shape or dtype, or `dtype` is not unsigned.
    """
    kind = np.dtype(canonical_dtype(dtype))
    if kind not in UINT_OF_WIDTH.values():
        fail(
            TypeError,
            f"rng_bit_generator: unsupported dtype {kind}; use uint8, uint16, uint32 or uint64.",
        )
    new_key, bits = rng_bit_generator_p.bind(
        key,
        shape=canonical_shape(shape),
        dtype=kind,
        algorithm=RandomAlgorithm(algorithm),
        out_sharding=out_sharding,
    )
    return new_key, bits


# -- rng_uniform -----------------------------------------------------------------------------------


def _rng_uniform_aval(
    a: ShapedArray, b: ShapedArray, *, shape: tuple[int, ...]
) -> list[ShapedArray]:
    if a.dtype != b.dtype:
        fail(
            ValueError,
            f"Arguments to rng_uniform must have identical dtypes, got {a.dtype} and {b.dtype}.",
        )
    if a.shape or b.shape:
        fail(
            ValueError,
            f"Arguments to rng_uniform must be scalars; got shapes {a.shape} and {b.shape}.",
        )
    return [ShapedArray(shape, a.dtype, a.weak_type and b.weak_type)]


def _rng_uniform_lowering(ctx: Any, a: Any, b: Any, *, shape: tuple[int, ...]) -> Any:
    return ctx.builder.add(
        Opcode.RNG, (a, b), RngAttributes("rng_uniform"), shape=ctx.shapes_out[0]
    )


rng_uniform_p: Primitive = define(
    "rng_uniform",
    abstract_eval=_rng_uniform_aval,
    jvp=Unsupported("rng_uniform draws without a key; use pyjax.random"),
    transpose=Unsupported("rng_uniform draws without a key; use pyjax.random"),
    batching=Unsupported("rng_uniform draws without a key; use pyjax.random"),
    lowering=_rng_uniform_lowering,
)


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Sequence[int]) -> Array:
    """Uniform numbers in [a, b) from a hidden state: not reproducible. Prefer pyjax.random."""
    a, b = nary_operands("rng_uniform", a, b)
    return rng_uniform_p.bind1(a, b, shape=tuple(shape))


# -- bits of a threefry key ------------------------------------------------------------------------


def join_words(high: Array, low: Array, dtype: np.dtype) -> Array:
    """A 64-bit integer from two 32-bit halves."""
    wide = shift_left(convert_element_type(high, dtype), np.asarray(32, dtype))
    return bitwise_or(wide, convert_element_type(low, dtype))
