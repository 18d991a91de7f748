"""Random bits that HLO draws: rng_bit_generator and rng_uniform."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters.batching import move_bdim
from pyjax.interpreters.rules import ZERO_TANGENT, Unsupported
from pyjax.lax.common import (
    canonical_dtype,
    canonical_shape,
    nary_operands,
)
from pyjax.lax.nary import define
from pyjax.lax.shape_extra import stack, unstack
from xla_backend.hlo.attributes import (
    RngAttributes,
    RngBitGeneratorAttributes,
)
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

# -- rng_bit_generator -----------------------------------------------------------------------------


class RandomAlgorithm(enum.IntEnum):
    """Which generator rng_bit_generator uses.

    >>> state, bits = lax.rng_bit_generator(
    ...     jnp.zeros(4, jnp.uint32), (3,), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY
    ... )
    >>> bits.shape
    (3,)
    """

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
    multiple_results=True,
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

    >>> key, bits = lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), (3,))
    >>> bits.shape
    (3,)
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
    """Uniform numbers in [a, b) from a hidden state: not reproducible. Prefer pyjax.random.

    >>> lax.rng_uniform(0.0, 1.0, (3,)).shape
    (3,)
    """
    a, b = nary_operands("rng_uniform", a, b)
    return rng_uniform_p.bind1(a, b, shape=tuple(shape))
