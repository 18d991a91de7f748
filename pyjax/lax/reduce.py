"""Reductions along axes: reduce_sum, prod, max, min, and, or, xor, argmax and argmin.

The general `reduce` with a user's computation is in reduce_general.py.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray, sharding_of_split
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.structural import reduce_sum_p
from pyjax.interpreters import ad
from pyjax.interpreters.rules import (
    LINEAR,
    ZERO_TANGENT,
    FullJvp,
    Unsupported,
    define_primitive,
    define_rules,
    reduction_primitives,
)
from pyjax.lax.arithmetic import add, div, max, min, mul
from pyjax.lax.bitwise import bitwise_and, bitwise_not, bitwise_or
from pyjax.lax.common import (
    ANY,
    BOOL_DTYPE,
    LOGICAL,
    NUMBER,
    ORDERED,
    DtypeClass,
    aval_of,
    canonical_dims,
    canonical_dtype,
    check_dtype,
    dtype_of,
    is_complex,
    is_floating,
    is_integer,
    shape_of,
)
from pyjax.lax.compare import eq, gt, lt, ne, select
from pyjax.lax.convert import convert_element_type
from pyjax.lax.nary import expand_to
from pyjax.lax.out_sharding import batched_sharding, out_sharding_of
from pyjax.lax.shape import reshape, transpose
from pyjax.lax.shape_join import cut, pad
from pyjax.lax.sharding_lowering import lay_out
from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import from_numpy_dtype

# -- what all reductions share ---------------------------------------------------------------------


def check_axes(axes: tuple[int, ...], aval: ShapedArray) -> None:
    """Axes must be distinct and in range (negative ones are not accepted here)."""
    if any(not 0 <= a < len(aval.shape) for a in axes):
        fail(
            ValueError,
            f"reduction axes {axes} contains out-of-bounds indices for {aval.str_short()}.",
            fix="count axes from 0; jnp reductions accept negative axes.",
        )
    if len(set(axes)) != len(axes):
        fail(ValueError, f"duplicate value in 'axes' of reduction: {axes}")


def _reduction_aval(name: str, accepts: DtypeClass) -> Callable[..., list[ShapedArray]]:
    def rule(x: ShapedArray, *, axes: tuple[int, ...], **params: Any) -> list[ShapedArray]:
        if x.dtype not in accepts.members:
            if accepts is LOGICAL:
                fail(
                    TypeError,
                    f"logical reduction requires operand dtype bool or int, got {x.dtype}.",
                )
            if accepts is NUMBER:
                fail(
                    TypeError,
                    f"{name} does not accept dtype {x.dtype}. Accepted dtypes are subtypes of "
                    "number.",
                    fix="convert with lax.convert_element_type, or use jnp.sum.",
                )
            check_dtype(name, x, accepts)
        check_axes(axes, x)
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        sharding = params.get("out_sharding")
        # Bits have no value that another type could take.
        weak = x.weak_type and accepts is not LOGICAL
        return [ShapedArray(shape, x.dtype, weak, sharding=sharding)]

    return rule


def reduction_batching(bind: Callable[..., list[Any]]) -> Callable[..., Any]:
    """Batching of anything with an `axes` parameter that those axes disappear by."""

    def rule(axis_size: int, args: Any, dims: Any, *, axes: tuple[int, ...], **params: Any) -> Any:
        (x,), (d,) = args, dims
        moved = tuple(a + (a >= d) for a in axes)
        out_dim = d - sum(a < d for a in moved)
        if params.get("out_sharding") is not None:
            rank = len(shape_of(x)) - 1 - len(axes)
            params["out_sharding"] = batched_sharding(params["out_sharding"], out_dim, rank)
        return bind(x, axes=moved, **params), [out_dim]

    return rule


def _all_ones(dtype: np.dtype) -> Any:
    if dtype == BOOL_DTYPE:
        return True
    return -1 if np.dtype(dtype).kind == "i" else dtypes.iinfo(dtype).max


# opcode of the reducer and its identity
IDENTITIES: dict[Opcode, Callable[[np.dtype], Any]] = {
    Opcode.ADD: lambda dtype: 0,
    Opcode.MULTIPLY: lambda dtype: 1,
    Opcode.MAXIMUM: dtypes.lowest,
    Opcode.MINIMUM: dtypes.highest,
    Opcode.AND: _all_ones,
    Opcode.OR: lambda dtype: 0,
    Opcode.XOR: lambda dtype: 0,
}


def identity_of(opcode: Opcode, dtype: np.dtype) -> np.ndarray:
    """The value that a reduction with this opcode starts from, as a scalar array."""
    return np.asarray(IDENTITIES[opcode](dtype)).astype(dtype)


_COMPLEX_REDUCERS = {Opcode.MAXIMUM: max, Opcode.MINIMUM: min}


def reducer_of(ctx: Any, opcode: Opcode, aval: ShapedArray) -> Any:
    """The scalar computation of a monoid (complex max and min have no opcode of their own)."""
    if is_complex(aval.dtype) and opcode in _COMPLEX_REDUCERS:
        scalar = ShapedArray((), aval.dtype)
        return ctx.computation_of(_COMPLEX_REDUCERS[opcode], scalar, scalar)
    return ctx.reducer(opcode, from_numpy_dtype(aval.dtype))


def _monoid_lowering(opcode: Opcode) -> Callable[..., Any]:
    def rule(ctx: Any, x: Any, *, axes: tuple[int, ...], **params: Any) -> Any:
        sharding = params.get("out_sharding")
        if not axes:
            return lay_out(ctx, x, sharding)
        aval = ctx.avals_in[0]
        init = ctx.builder.constant(identity_of(opcode, aval.dtype))
        out = ctx.builder.add(
            Opcode.REDUCE,
            (x, init),
            DimensionsAttributes(axes),
            (reducer_of(ctx, opcode, aval),),
            shape=ctx.shapes_out[0],
        )
        return lay_out(ctx, out, sharding)

    return rule


def _define_reduction(name: str, opcode: Opcode, accepts: DtypeClass, jvp: Any) -> Primitive:
    def batching(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        return reduction_batching(primitive.bind_all)(axis_size, args, dims, **params)

    primitive = define_primitive(
        name,
        abstract_eval=_reduction_aval(name, accepts),
        jvp=jvp,
        transpose=Unsupported(f"{name} is not linear"),
        batching=batching,
        lowering=_monoid_lowering(opcode),
    )
    reduction_primitives.add(primitive)
    return primitive


# -- sum, prod, max, min ---------------------------------------------------------------------------


def _reduce_sum_transpose(
    cts: Sequence[Any], x: Any, *, axes: tuple[int, ...], out_sharding: Any
) -> list:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    kept = tuple(i for i in range(len(x.aval.shape)) if i not in axes)
    split = x.aval.cotangent_split()
    sharding = None if split is None else sharding_of_split(split)
    return [expand_to(ct, x.aval.shape, kept, sharding)]


define_rules(
    reduce_sum_p,
    abstract_eval=_reduction_aval("reduce_sum", NUMBER),
    jvp=LINEAR,
    transpose=_reduce_sum_transpose,
    batching=reduction_batching(reduce_sum_p.bind_all),
    lowering=_monoid_lowering(Opcode.ADD),
)
reduction_primitives.add(reduce_sum_p)


def axes_last(x: Array, axes: tuple[int, ...]) -> Array:
    """Move the reduced axes to the end and merge them into one."""
    shape = shape_of(x)
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    x = transpose(x, kept + axes)
    return reshape(x, (*(shape[i] for i in kept), math.prod(shape[a] for a in axes)))


def _reduce_prod_jvp(primals: Any, tangents: Any, *, axes: tuple[int, ...]) -> tuple[list, list]:
    """Product rule along a binary tree: log2(n) steps, no division, so zeros are no exception."""
    (x,), (t,) = primals, tangents
    out = reduce_prod_p.bind1(x, axes=axes)
    if type(t) is ad.Zero:
        return [out], [ad.Zero(aval_of(out))]
    x, t = axes_last(x, axes), axes_last(t, axes)
    axis = len(shape_of(x)) - 1
    n = shape_of(x)[axis]
    if n == 0:
        return [out], [ad.Zero(aval_of(out))]
    while n > 1:
        half = (n + 1) // 2
        x1, t1 = cut(x, 0, half, axis), cut(t, 0, half, axis)
        x2, t2 = cut(x, half, n, axis), cut(t, half, n, axis)
        if n % 2:
            config = [(0, 0, 0)] * axis + [(0, 1, 0)]
            x2 = pad(x2, np.ones((), dtype_of(x)), config)
            t2 = pad(t2, np.zeros((), dtype_of(t)), config)
        x, t, n = mul(x1, x2), add(mul(t1, x2), mul(x1, t2)), half
    return [out], [reshape(t, shape_of(out))]


def _extremum_jvp(g: Array, ans: Array, x: Array, *, axes: tuple[int, ...]) -> Array:
    """The tangent at the extremum; ties share it evenly."""
    shape = shape_of(x)
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    where = convert_element_type(eq(x, expand_to(ans, shape, kept)), dtype_of(g))
    counts = reduce_sum(where, axes)
    return div(reduce_sum(mul(g, where), axes), counts)


reduce_prod_p: Primitive = _define_reduction(
    "reduce_prod", Opcode.MULTIPLY, NUMBER, FullJvp(_reduce_prod_jvp)
)
reduce_max_p: Primitive = _define_reduction("reduce_max", Opcode.MAXIMUM, ANY, (_extremum_jvp,))
reduce_min_p: Primitive = _define_reduction("reduce_min", Opcode.MINIMUM, ANY, (_extremum_jvp,))
reduce_and_p: Primitive = _define_reduction("reduce_and", Opcode.AND, LOGICAL, ZERO_TANGENT)
reduce_or_p: Primitive = _define_reduction("reduce_or", Opcode.OR, LOGICAL, ZERO_TANGENT)
reduce_xor_p: Primitive = _define_reduction("reduce_xor", Opcode.XOR, LOGICAL, ZERO_TANGENT)


_HALF = (np.dtype(np.float16), np.dtype(dtypes.bfloat16))


def _axes(name: str, axes: Any) -> tuple[int, ...]:
    return canonical_dims(name, axes)


def reduce_sum(operand: ArrayLike, axes: Sequence[int], *, out_sharding: Any = None) -> Array:
    """Sum over `axes` in the operand's dtype; 0 for no elements.

    Raises:
      ValueError: an axis is out of range (negative axes too) or repeated.   TypeError: bool
        operand.

    >>> lax.reduce_sum(jnp.ones((2, 3)), (1,))
    Array([3., 3.], dtype=float32)
    """
    if not options.allow_f16_reductions.value:
        aval = aval_of(operand)
        if aval.dtype in _HALF:
            fail(
                ValueError,
                f"reduce_sum on operand {aval.str_short(short_dtypes=True)} is not allowed when "
                "jax_allow_f16_reductions=False.",
                "Sums in half precision lose digits.",
                "Use jnp.sum, which sums in float32, or convert with astype('float32').",
            )
    sharding = None if out_sharding is None else out_sharding_of("reduce_sum", out_sharding)
    return reduce_sum_p.bind1(operand, axes=_axes("reduce_sum", axes), out_sharding=sharding)


def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Product over `axes`; 1 for no elements.

    >>> lax.reduce_prod(jnp.array([2, 3]), (0,))
    Array(6, dtype=int32)
    """
    return reduce_prod_p.bind1(operand, axes=_axes("reduce_prod", axes))


def reduce_max(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Largest element over `axes`; nan if one is nan; the lowest value of the dtype for no
    elements.

    The gradient is shared evenly among equal largest elements.

    >>> lax.reduce_max(jnp.array([1, 5, 3]), (0,))
    Array(5, dtype=int32)
    """
    return reduce_max_p.bind1(operand, axes=_axes("reduce_max", axes))


def reduce_min(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Smallest element over `axes`; nan if one is nan; the highest value of the dtype for no
    elements.

    >>> lax.reduce_min(jnp.array([1, 5, 3]), (0,))
    Array(1, dtype=int32)
    """
    return reduce_min_p.bind1(operand, axes=_axes("reduce_min", axes))


def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise (bool: logical) and over `axes`.

    >>> lax.reduce_and(jnp.array([True, False]), (0,))
    Array(False, dtype=bool)
    """
    return reduce_and_p.bind1(operand, axes=_axes("reduce_and", axes))


def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise (bool: logical) or over `axes`.

    >>> lax.reduce_or(jnp.array([True, False]), (0,))
    Array(True, dtype=bool)
    """
    return reduce_or_p.bind1(operand, axes=_axes("reduce_or", axes))


def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise (bool: logical) exclusive or over `axes`.

    >>> lax.reduce_xor(jnp.array([6, 3]), (0,))
    Array(5, dtype=int32)
    """
    return reduce_xor_p.bind1(operand, axes=_axes("reduce_xor", axes))


# -- argmax, argmin --------------------------------------------------------------------------------


def _arg_aval(name: str) -> Callable[..., list[ShapedArray]]:
    def rule(x: ShapedArray, *, axes: tuple[int, ...], index_dtype: np.dtype) -> list[ShapedArray]:
        (axis,) = axes
        check_dtype(name, x, ORDERED)
        if not is_integer(index_dtype):
            fail(TypeError, f"index_dtype must be an integer type, but got {index_dtype}")
        if not 0 <= axis < len(x.shape):
            fail(ValueError, f"Invalid axis {axis} for operand shape {x.shape}")
        if x.shape[axis] < 1:
            fail(
                ValueError,
                f"{name} requires a non-empty axis: axis {axis} of operand shape {x.shape} has "
                "size 0.",
            )
        return [ShapedArray(tuple(n for i, n in enumerate(x.shape) if i != axis), index_dtype)]

    return rule


def _arg_reducer(better: Callable[[Array, Array], Array]) -> Callable[..., list[Array]]:
    """(best, where) pairs: nan is best of all, then the better value; ties go to the lower
    index.
    """

    def reducer(x: Array, i: Array, y: Array, j: Array) -> list[Array]:
        wins, same = better(x, y), eq(x, y)
        if is_floating(dtype_of(x)):
            x_nan, y_nan = ne(x, x), ne(y, y)
            wins = bitwise_or(wins, bitwise_and(x_nan, bitwise_not(y_nan)))
            same = bitwise_or(same, bitwise_and(x_nan, y_nan))
        takes_x = bitwise_or(wins, bitwise_and(same, lt(i, j)))
        return [select(takes_x, x, y), select(takes_x, i, j)]

    return reducer


def _arg_lowering(better: Callable[[Array, Array], Array], worst: Callable[[np.dtype], Any]) -> Any:
    reducer = _arg_reducer(better)

    def rule(ctx: Any, x: Any, *, axes: tuple[int, ...], index_dtype: np.dtype) -> Any:
        builder, dtype = ctx.builder, ctx.avals_in[0].dtype
        # Positions that 32 bits hold take half of the registers.
        wide = index_dtype.itemsize == 8 and x.shape.dimensions[axes[0]] <= np.iinfo(np.int32).max
        counted = np.dtype(np.int32) if wide else index_dtype
        values, indices = ShapedArray((), dtype), ShapedArray((), counted)
        index_type = from_numpy_dtype(counted)
        iota = builder.iota(x.shape.with_type(index_type), axes[0])
        out = ctx.shapes_out[0]
        pair = type(out).tuple([out.with_type(x.shape.element_type), out.with_type(index_type)])
        result = builder.add(
            Opcode.REDUCE,
            (
                x,
                iota,
                builder.constant(np.asarray(worst(dtype)).astype(dtype)),
                builder.constant(np.zeros((), counted)),
            ),
            DimensionsAttributes(axes),
            (ctx.computation_of(reducer, values, indices, values, indices),),
            shape=pair,
        )
        place = builder.get_tuple_element(result, 1)
        return builder.convert(place, from_numpy_dtype(index_dtype)) if wide else place

    return rule


def _define_arg(name: str, better: Any, worst: Any) -> Primitive:
    def batching(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        return reduction_batching(primitive.bind_all)(axis_size, args, dims, **params)

    primitive = define_primitive(
        name,
        abstract_eval=_arg_aval(name),
        jvp=ZERO_TANGENT,
        transpose=Unsupported(f"{name} is not linear"),
        batching=batching,
        lowering=_arg_lowering(better, worst),
    )
    return primitive


argmax_p: Primitive = _define_arg("argmax", gt, dtypes.lowest)
argmin_p: Primitive = _define_arg("argmin", lt, dtypes.highest)


def argmax(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """Index of the first largest element along `axis` (of the first nan, if there is one).

    Raises:
      ValueError: axis out of range, or of size 0.   TypeError: index_dtype is not an integer dtype.

    >>> lax.argmax(jnp.array([1.0, 5.0, 3.0]), 0, jnp.int32)
    Array(1, dtype=int32)
    """
    return argmax_p.bind1(
        operand, axes=(operator.index(axis),), index_dtype=np.dtype(canonical_dtype(index_dtype))
    )


def argmin(operand: ArrayLike, axis: int, index_dtype: Any) -> Array:
    """Index of the first smallest element along `axis` (of the first nan, if there is one).

    >>> lax.argmin(jnp.array([1.0, 5.0, 3.0]), 0, jnp.int32)
    Array(0, dtype=int32)
    """
    return argmin_p.bind1(
        operand, axes=(operator.index(axis),), index_dtype=np.dtype(canonical_dtype(index_dtype))
    )
