"""Contractions: dot_general and what is written with it (dot, batch_matmul)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes, structural
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray, Split, sharding_of_split
from pyjax.core.errors import fail
from pyjax.interpreters import ad
from pyjax.interpreters.batching import not_mapped
from pyjax.interpreters.rules import define_primitive
from pyjax.lax.arithmetic import real
from pyjax.lax.common import (
    ANY,
    BOOL_DTYPE,
    aval_of,
    canonical_dtype,
    check_dtype,
    dtype_of,
    is_complex,
    is_inexact,
    shape_of,
)
from pyjax.lax.convert import convert_element_type
from pyjax.lax.dot_types import (
    DotAlgorithmPreset,
    Precision,
    PrecisionLike,
    canonical_dot_dimensions,
    canonicalize_precision,
)
from pyjax.lax.out_sharding import batched_sharding, out_sharding_of
from pyjax.lax.shape import transpose
from pyjax.lax.sharding_lowering import lay_out
from xla_backend.hlo.attributes import ComparisonDirection, DotAttributes
from xla_backend.hlo.attributes import Precision as HloPrecision
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype

_Dims = tuple[int, ...]


def remaining(ndim: int, *used: Sequence[int]) -> _Dims:
    """The dimensions in none of the groups, ascending."""
    taken = set().union(*used)
    return tuple([d for d in range(ndim) if d not in taken])


def _check_dims(side: str, role: str, dims: _Dims, ndim: int) -> None:
    if not dims:
        return
    if len(set(dims)) != len(dims) or any(not 0 <= d < ndim for d in dims):
        fail(
            TypeError,
            f"dot_general requires {side} {role} dimensions to be distinct and nonnegative and "
            f"less than the number of axes of the {side} value, got {role} dimensions {dims} for "
            f"{side} of rank {ndim}.",
        )


def _accumulates_in(precision: Any) -> Any:
    """The dtype of the sums that an algorithm names, if it does."""
    return precision.accumulation_dtype() if isinstance(precision, DotAlgorithmPreset) else None


def _dot_general_aval(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> list[ShapedArray]:
    check_dtype("dot_general", lhs, ANY, 0)
    check_dtype("dot_general", rhs, ANY, 1)
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    for role, left, right in (
        ("contracting", lhs_contract, rhs_contract),
        ("batch", lhs_batch, rhs_batch),
    ):
        _check_dims("lhs", role, left, len(lhs.shape))
        _check_dims("rhs", role, right, len(rhs.shape))
        left_sizes = tuple([lhs.shape[d] for d in left])
        right_sizes = tuple([rhs.shape[d] for d in right])
        if left_sizes != right_sizes:
            fail(
                TypeError,
                f"dot_general requires {role} dimensions to have the same shape, got {left_sizes} "
                f"and {right_sizes}.",
                f"the operands are {lhs.str_short()} and {rhs.str_short()}, dimension numbers "
                f"{dimension_numbers}.",
                "transpose an operand, or contract other dimensions.",
            )
    for side, contract, batch in (
        ("lhs", lhs_contract, lhs_batch),
        ("rhs", rhs_contract, rhs_batch),
    ):
        if batch and set(contract) & set(batch):
            fail(
                TypeError,
                f"dot_general requires {side} batch and contracting dimensions to be disjoint.",
            )
    sizes = [lhs.shape[d] for d in lhs_batch]
    sizes += [lhs.shape[d] for d in remaining(len(lhs.shape), lhs_contract, lhs_batch)]
    sizes += [rhs.shape[d] for d in remaining(len(rhs.shape), rhs_contract, rhs_batch)]
    shape = tuple(sizes)
    dtype = lhs.dtype
    if preferred_element_type is not None:
        _check_preferred(lhs.dtype, preferred_element_type)
        dtype = preferred_element_type
    elif lhs.dtype != rhs.dtype:
        accumulates = _accumulates_in(precision)
        if accumulates is None:
            fail(
                TypeError,
                f"lax.dot_general requires arguments to have the same dtypes, got {lhs.dtype}, "
                f"{rhs.dtype}.",
                "lax functions do not promote.",
                "convert an operand, or give preferred_element_type; jnp.matmul promotes.",
            )
        dtype = np.dtype(accumulates)
    return [ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type, sharding=out_sharding)]


def _check_preferred(dtype: np.dtype, preferred: np.dtype) -> None:
    if is_inexact(dtype) and not is_inexact(preferred):
        fail(
            TypeError,
            "Input type is incompatible with `preferred_element_type`. The compatible "
            "combinations of (input_type, preferred_element_type) are integral to any, floating "
            f"to floating or complex, complex to complex; got {dtype}, {preferred}.",
        )
    if is_complex(dtype) and not is_complex(preferred):
        fail(
            TypeError,
            f"`preferred_element_type` of a complex product must be complex, got {preferred}.",
        )


def _argsort(values: Sequence[int]) -> _Dims:
    return tuple(sorted(range(len(values)), key=values.__getitem__))


def _transpose_one(
    ct: Array, other: Array, aval: ShapedArray, dims: Any, precision: Any, is_rhs: bool
) -> Array:
    """Cotangent of one operand: contract `ct` with the other operand over the other's free
    dimensions.
    """
    (contract, other_contract), (batch, other_batch) = dims
    if is_rhs:
        contract, other_contract, batch, other_batch = other_contract, contract, other_batch, batch
    kept = remaining(len(aval.shape), contract, batch)
    other_kept = remaining(len(shape_of(other)), other_contract, other_batch)
    n_batch = len(batch)
    first, second = (other_kept, kept) if is_rhs else (kept, other_kept)
    ct_first = tuple(range(n_batch, n_batch + len(first)))
    ct_second = tuple(range(n_batch + len(first), n_batch + len(first) + len(second)))
    ct_other = ct_first if is_rhs else ct_second
    numbers = ((ct_other, other_kept), (tuple(range(n_batch)), other_batch))
    if isinstance(precision, tuple) and is_rhs:
        precision = precision[::-1]
    # Computed in the type of the cotangent; the caller converts to that of the operand.
    # The product's dimensions are batch, kept, then contracted ones in the other operand's order.
    contracted = tuple(contract[i] for i in _argsort(other_contract))
    order = (*batch, *kept, *contracted)
    sharding = _sharding_of_product(ct, other, aval, order)
    product = dot_general(ct, other, numbers, precision, dtype_of(ct), out_sharding=sharding)
    if is_complex(dtype_of(ct)) and not is_complex(aval.dtype):
        product = real(product)
    return transpose(product, _argsort(order))


def _sharding_of_product(ct: Array, other: Array, aval: ShapedArray, order: _Dims) -> Any:
    """Of the product whose dimensions are those of a cotangent in another order: as it is to be."""
    split = aval.cotangent_split()
    if split is None:
        around = aval_of(ct).split or aval_of(other).split
        if around is None:
            return None
        split = Split(around.mesh, (None,) * aval.ndim)
    return sharding_of_split(split._replace(entries=tuple(split.entries[d] for d in order)))


def _dot_general_transpose(
    cts: Sequence[Any],
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> list[Any]:
    (ct,) = cts
    to_lhs = ad.is_undefined_primal(lhs)
    aval = lhs.aval if to_lhs else rhs.aval
    if type(ct) is ad.Zero:
        result: Any = ad.Zero(aval)
    else:
        other = rhs if to_lhs else lhs
        result = _transpose_one(ct, other, aval, dimension_numbers, precision, not to_lhs)
        result = convert_element_type(result, aval.dtype)
    return [result, None] if to_lhs else [None, result]


def _dot_general_batching(
    axis_size: int, args: Any, dims: Any, *, dimension_numbers: Any, **params: Any
) -> Any:
    (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers

    def shifted(group: _Dims, dim: int) -> _Dims:
        return tuple(d + (d >= dim) for d in group)

    if lhs_dim is not not_mapped:
        lhs_contract, lhs_batch = shifted(lhs_contract, lhs_dim), shifted(lhs_batch, lhs_dim)
    if rhs_dim is not not_mapped:
        rhs_contract, rhs_batch = shifted(rhs_contract, rhs_dim), shifted(rhs_batch, rhs_dim)
    if lhs_dim is not not_mapped and rhs_dim is not not_mapped:
        lhs_batch, rhs_batch = (lhs_dim, *lhs_batch), (rhs_dim, *rhs_batch)
        out_dim = 0
    elif lhs_dim is not not_mapped:
        free = remaining(len(shape_of(lhs)), lhs_contract, lhs_batch)
        out_dim = len(lhs_batch) + free.index(lhs_dim)
    else:
        lhs_free = remaining(len(shape_of(lhs)), lhs_contract, lhs_batch)
        rhs_free = remaining(len(shape_of(rhs)), rhs_contract, rhs_batch)
        out_dim = len(lhs_batch) + len(lhs_free) + rhs_free.index(rhs_dim)
    numbers = ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))
    if params["out_sharding"] is not None:
        gone = 2 * len(lhs_contract) + len(lhs_batch)
        rank = len(shape_of(lhs)) + len(shape_of(rhs)) - gone
        params["out_sharding"] = batched_sharding(params["out_sharding"], out_dim, rank - 1)
    return dot_general_p.bind_all(lhs, rhs, dimension_numbers=numbers, **params), [out_dim]


_HLO_PRECISION = {
    Precision.DEFAULT: HloPrecision.DEFAULT,
    Precision.HIGH: HloPrecision.HIGH,
    Precision.HIGHEST: HloPrecision.HIGHEST,
}


# Operands of two of these types stay as they are.
_MIXED = frozenset(t for t in PrimitiveType if t.is_floating and t.bits == 8) - {
    PrimitiveType.F8E4M3B11FNUZ
}


def _dot_general_lowering(
    ctx: Any,
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Any:
    builder, out = ctx.builder, ctx.shapes_out[0]
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    is_bool = out.element_type is PrimitiveType.PRED
    target = PrimitiveType.S32 if is_bool else out.element_type
    types = {lhs.shape.element_type, rhs.shape.element_type}
    of_bools = PrimitiveType.PRED in types and target.is_integral
    if of_bools or (len(types) > 1 and not types <= _MIXED):
        lhs, rhs = builder.convert(lhs, target), builder.convert(rhs, target)
    algorithm = None
    if isinstance(precision, DotAlgorithmPreset):
        algorithm = f"dot_{precision.name.lower()}"
    pair = tuple(_HLO_PRECISION[p] for p in precision) if isinstance(precision, tuple) else ()
    if all(p is HloPrecision.DEFAULT for p in pair):
        pair = ()
    attributes = DotAttributes(lhs_contract, rhs_contract, lhs_batch, rhs_batch, pair, algorithm)
    result = builder.add(Opcode.DOT, (lhs, rhs), attributes, shape=out.with_type(target))
    if is_bool:
        result = builder.compare(result, builder.full(result.shape, 0), ComparisonDirection.NE)
    return lay_out(ctx, result, out_sharding)


def _dot_general_jvp_lhs(g: Array, ans: Array, lhs: Array, rhs: Array, **params: Any) -> Array:
    return dot_general_p.bind1(g, rhs, **params)


def _dot_general_jvp_rhs(g: Array, ans: Array, lhs: Array, rhs: Array, **params: Any) -> Array:
    return dot_general_p.bind1(lhs, g, **params)


dot_general_p = define_primitive(
    "dot_general",
    abstract_eval=_dot_general_aval,
    jvp=(_dot_general_jvp_lhs, _dot_general_jvp_rhs),
    transpose=_dot_general_transpose,
    batching=_dot_general_batching,
    lowering=_dot_general_lowering,
)


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Sum of products over contracting dimensions, separately for each index of the batch
    dimensions.

    Args:
      lhs, rhs: arrays. Of two dtypes both are converted to the wider one: complex numbers before
        floats before integers, floats by their largest number, integers by bits.
      dimension_numbers: ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)).
      precision: see `Precision`; None takes the option default_matmul_precision.
      preferred_element_type: dtype of sums and result; default is the operands'.
    Returns:
      Array with the batch dimensions first, then lhs's, then rhs's remaining dimensions.
    Raises:
      TypeError: sizes, dtypes or dimension numbers do not fit (both operands are printed).

    >>> axes = (((2,), (1,)), ((0,), (0,)))  # contracted, batch
    >>> lax.dot_general(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4)), axes).shape
    (5, 2, 4)
    """
    preferred = None
    precision = canonicalize_precision(precision)
    if preferred_element_type is not None:
        preferred = np.dtype(canonical_dtype(preferred_element_type))
    elif _accumulates_in(precision) is None:
        lhs, rhs = _of_one_dtype(lhs, rhs)
    return dot_general_p.bind1(
        lhs,
        rhs,
        dimension_numbers=canonical_dot_dimensions("dot_general", dimension_numbers),
        precision=precision,
        preferred_element_type=preferred,
        out_sharding=None if out_sharding is None else out_sharding_of("dot_general", out_sharding),
    )


def _of_one_dtype(lhs: ArrayLike, rhs: ArrayLike) -> list[ArrayLike]:
    avals = aval_of(lhs), aval_of(rhs)
    if avals[0].dtype == avals[1].dtype:
        return [lhs, rhs]
    dtype = max((a.dtype for a in avals), key=_width)
    return [
        structural.convert_element_type(x, dtype, a.weak_type)
        for x, a in zip((lhs, rhs), avals, strict=True)
    ]


def _width(dtype: np.dtype) -> tuple[float, ...]:
    """Sorts dtypes as products choose among them."""
    if is_complex(dtype):
        return (3, dtype.itemsize)
    if is_inexact(dtype):
        return (2, float(dtypes.finfo(dtype).max))
    signed = dtype != BOOL_DTYPE and dtypes.iinfo(dtype).min < 0
    return (dtype != BOOL_DTYPE, from_numpy_dtype(dtype).bits, signed)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any = None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Vector-vector, matrix-vector or matrix-matrix product; with `dimension_numbers`, as
    dot_general.

    Raises:
      ValueError: ranks above 2 without dimension_numbers.   TypeError: sizes or dtypes differ.

    >>> lax.dot(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
    Array(11., dtype=float32)
    """
    if dimension_numbers is None:
        left, right = aval_of(lhs), aval_of(rhs)
        fits = 1 <= left.ndim <= 2 and 1 <= right.ndim <= 2 and left.shape[-1] == right.shape[0]
        if not fits:
            fail(
                ValueError,
                "jax.lax.dot: dimension_numbers must be specified when not performing simple "
                "un-batched matrix-matrix, matrix-vector, or vector-vector products; got "
                f"lhs_shape={left.shape} rhs_shape={right.shape}",
                fix="the last dimension of lhs and the first of rhs must have one size; see "
                "lax.dot_general.",
            )
        dimension_numbers = (((left.ndim - 1,), (0,)), ((), ()))
    return dot_general(
        lhs, rhs, dimension_numbers, precision, preferred_element_type, out_sharding=out_sharding
    )


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: PrecisionLike = None) -> Array:
    """Matrix products over equal leading dimensions: [..., n, k] by [..., k, m].

    Raises:
      ValueError: ranks differ, or are below 2.

    >>> lax.batch_matmul(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))).shape
    (5, 2, 4)
    """
    left, right = aval_of(lhs), aval_of(rhs)
    if left.ndim != right.ndim:
        fail(
            ValueError,
            f"Arguments to batch_matmul must have same ndims, got {left.ndim}, {right.ndim}",
        )
    if left.ndim < 2:
        fail(
            ValueError,
            f"Arguments to batch_matmul must be at least 2D, got {left.ndim}, {right.ndim}",
        )
    batch = tuple(range(left.ndim - 2))
    return dot_general(lhs, rhs, (((left.ndim - 1,), (right.ndim - 2,)), (batch, batch)), precision)
