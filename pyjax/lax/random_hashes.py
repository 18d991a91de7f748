"""Hashes of counters, which random bits are made of: threefry2x32, threefry4x32, philox2x32 and
philox4x32.

All are of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011:
Threefry with 20 rounds, Philox with 10. Their rounds are emitted unrolled, as elementwise
operations that fuse.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import ZERO_TANGENT, Unsupported
from pyjax.lax.arithmetic import add, mul
from pyjax.lax.bitwise import (
    bitwise_or,
    bitwise_xor,
    mulhi,
    shift_left,
    shift_right_logical,
)
from pyjax.lax.common import aval_of, broadcast_result_shape, hlo_broadcast_to, shape_of
from pyjax.lax.compare import lt
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import broadcasted_iota, iota
from pyjax.lax.nary import define, nary_batching, stretch
from pyjax.lax.random_bits import UINT32
from pyjax.lax.shape import reshape
from pyjax.lax.shape_extra import stack, unstack
from pyjax.lax.shape_join import pad
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape


def u32(value: int) -> np.ndarray:
    """A uint32 scalar."""
    return np.asarray(value, UINT32)


# -- rounds ----------------------------------------------------------------------------------------

_KEY_PARITY = 0x1BD11BDA
_GROUPS = 5  # of four rounds each; a subkey is injected after every group


def _rotate_left(x: Array, distance: int) -> Array:
    return bitwise_or(shift_left(x, u32(distance)), shift_right_logical(x, u32(32 - distance)))


def _subkeys(key: Sequence[Array]) -> list[Array]:
    return [*key, bitwise_xor(functools.reduce(bitwise_xor, key), u32(_KEY_PARITY))]


def _inject(x: list[Array], subkeys: Sequence[Array], number: int) -> list[Array]:
    """The `number`-th subkey added: its words turn round, and the last one counts."""
    added = [add(v, subkeys[(number + i) % len(subkeys)]) for i, v in enumerate(x)]
    if number:
        added[-1] = add(added[-1], u32(number))
    return added


# Of each round: the pairs of words that are mixed, and how far the second one is rotated.
_PAIRS2: list[list[tuple[int, int, int]]] = [[(0, 1, r)] for r in (13, 15, 26, 6, 17, 29, 16, 24)]
_PAIRS4: list[list[tuple[int, int, int]]] = [
    [(0, 1, a), (2, 3, b)] if number % 2 == 0 else [(0, 3, a), (2, 1, b)]
    for number, (a, b) in enumerate(
        ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
    )
]


def _threefry(pairs: list[list[tuple[int, int, int]]], words: int) -> Callable[..., list[Array]]:
    def hashed(*operands: Array) -> list[Array]:
        subkeys = _subkeys(operands[:words])
        x = _inject(list(operands[words:]), subkeys, 0)
        for group in range(_GROUPS):
            for mixed in pairs[4 * (group % 2) : 4 * (group % 2) + 4]:
                for i, j, distance in mixed:
                    x[i] = add(x[i], x[j])
                    x[j] = bitwise_xor(_rotate_left(x[j], distance), x[i])
            x = _inject(x, subkeys, group + 1)
        return x

    return hashed


_PHILOX_ROUNDS = 10
# What the words of a key grow by from round to round.
_WEYL = (0x9E3779B9, 0xBB67AE85)


def _multiplied(factor: int, x: Array) -> tuple[Array, Array]:
    """High and low words of a product."""
    return mulhi(u32(factor), x), mul(u32(factor), x)


def _philox2x32(key: Array, x0: Array, x1: Array) -> list[Array]:
    for number in range(_PHILOX_ROUNDS):
        if number:
            key = add(key, u32(_WEYL[0]))
        high, low = _multiplied(0xD256D193, x0)
        x0, x1 = bitwise_xor(bitwise_xor(high, x1), key), low
    return [x0, x1]


def _philox4x32(key0: Array, key1: Array, *x: Array) -> list[Array]:
    x0, x1, x2, x3 = x
    for number in range(_PHILOX_ROUNDS):
        if number:
            key0, key1 = add(key0, u32(_WEYL[0])), add(key1, u32(_WEYL[1]))
        high0, low0 = _multiplied(0xD2511F53, x0)
        high2, low2 = _multiplied(0xCD9E8D57, x2)
        x0, x1 = bitwise_xor(bitwise_xor(high2, x1), key0), low2
        x2, x3 = bitwise_xor(bitwise_xor(high0, x3), key1), low0
    return [x0, x1, x2, x3]


# -- primitives ------------------------------------------------------------------------------------


def _define_hash(name: str, outputs: int, function: Callable[..., list[Array]]) -> Primitive:
    """Of words of keys, then as many words of counters as there are of results: uint32 arrays of
    equal ranks or scalars, whose dimensions of size 1 stretch.
    """

    def abstract_eval(*avals: ShapedArray) -> list[ShapedArray]:
        if any(a.dtype != UINT32 for a in avals):
            fail(
                TypeError,
                f"Arguments to {name} must have uint32 type, got "
                f"{', '.join(a.str_short() for a in avals)}",
            )
        return [ShapedArray(broadcast_result_shape(name, avals), UINT32)] * outputs

    def unrolled(*operands: Array) -> list[Array]:
        shape = broadcast_result_shape(name, [aval_of(v) for v in operands])
        return [stretch(x, shape) for x in function(*operands)]

    def batching(axis_size: int, args: Any, dims: Any) -> Any:
        outs, (dim,) = nary_batching(primitive.bind_all)(axis_size, args, dims)
        return outs, [dim] * outputs

    lowered = lower_fun(unrolled)

    def lowering(ctx: Any, *operands: Instruction) -> list[Instruction]:
        kernel = _kernel(ctx, name, operands)
        if kernel is not None:
            return kernel
        outs = lowered(ctx, *operands)
        return outs if isinstance(outs, list) else [outs]

    primitive = define(
        name,
        multiple_results=True,
        abstract_eval=abstract_eval,
        jvp=ZERO_TANGENT,
        transpose=Unsupported("random bits are integers"),
        batching=batching,
        lowering=lowering,
    )
    return primitive


# Of platforms whose vendors' libraries have threefry2x32 as one kernel: how its name begins.
_KERNELS = {"cuda": "cu", "rocm": "hip"}


def _kernel(ctx: Any, name: str, operands: Sequence[Instruction]) -> list[Instruction] | None:
    """The call of a vendor's kernel, where there is one and it is wanted."""
    prefix = _KERNELS.get(ctx.platform)
    shape: Shape = ctx.shapes_out[0]
    wanted = name == "threefry2x32" and options.threefry_gpu_kernel_lowering.value
    if prefix is None or not wanted or not shape.num_elements:
        return None
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


threefry2x32_p = _define_hash("threefry2x32", 2, _threefry(_PAIRS2, 2))
threefry4x32_p = _define_hash("threefry4x32", 4, _threefry(_PAIRS4, 4))
philox2x32_p = _define_hash("philox2x32", 2, _philox2x32)
philox4x32_p = _define_hash("philox4x32", 4, _philox4x32)

# -- counters --------------------------------------------------------------------------------------


def counters(shape: Sequence[int]) -> tuple[ArrayLike, Array]:
    """High and low words of the row-major index of every element of `shape`."""
    size = math.prod(shape)
    if size > 2**32:
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        return indices_in_words(shape, strides)
    return u32(0), reshape(iota(UINT32, size), tuple(shape))


def indices_in_words(shape: Sequence[int], strides: Sequence[int]) -> tuple[Array, Array]:
    """High and low words of the sum of indices times strides, for indices below 2**32."""
    low: Any = u32(0)
    high: Any = u32(0)
    for axis, stride in enumerate(strides):
        along = [n if i == axis else 1 for i, n in enumerate(shape)]
        index = broadcasted_iota(UINT32, along, axis)
        step = mul(index, u32(stride & 0xFFFFFFFF))
        carried = mulhi(index, u32(stride & 0xFFFFFFFF))
        carried = add(carried, mul(index, u32(stride >> 32)))
        low = add(low, step)
        # A sum that is below what was added went beyond 32 bits.
        overflow = convert_element_type(lt(low, step), UINT32)
        high = add(add(high, carried), overflow)
    return stretch(high, tuple(shape)), stretch(low, tuple(shape))


def hash_pairs(key1: Array, key2: Array, flat: Array) -> Array:
    """threefry2x32 of a vector of counters, in the pairing of the first with the second half
    (padded by one 0 if odd).
    """
    from_size = shape_of(flat)[0]
    half = (from_size + 1) // 2
    columns = unstack(reshape(_resized(flat, 2 * half), (2, half)))
    outs = threefry2x32_p.bind(key1, key2, *columns)
    return _resized(reshape(stack(outs), (2 * half,)), from_size)


def _resized(x: Array, size: int) -> Array:
    return x if shape_of(x)[0] == size else pad(x, u32(0), ((0, size - shape_of(x)[0], 0),))


def join_words(high: Array, low: Array, dtype: np.dtype) -> Array:
    """A 64-bit integer from two 32-bit halves."""
    wide = shift_left(convert_element_type(high, dtype), np.asarray(32, dtype))
    return bitwise_or(wide, convert_element_type(low, dtype))
