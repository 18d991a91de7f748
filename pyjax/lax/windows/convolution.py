"""conv_general_dilated: the convolution primitive with its rules, and the functions that wrap it
directly.

Variants built from it (transposed, patches, unshared weights) are in conv_variants.py.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, move_bdim, not_mapped
from pyjax.interpreters.rules import define_primitive
from pyjax.lax.common import (
    NUMBER,
    aval_of,
    canonical_dtype,
    check_dtype,
    dtype_of,
    is_complex,
    is_floating,
    is_integer,
    shape_of,
)
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import full
from pyjax.lax.dot_types import Precision as LaxPrecision
from pyjax.lax.dot_types import PrecisionLike, canonicalize_precision
from pyjax.lax.reshard import computed_as, cotangent_as
from pyjax.lax.shape import reshape, rev
from pyjax.lax.windows.conv_dims import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    conv_general_dilated_shape,
    picked,
)
from pyjax.lax.windows.windowed import Pads, canonical_pads, dilate_dim, padtype_to_pads
from xla_backend.hlo.attributes import (
    ConvolutionAttributes,
    ConvolutionDimensionNumbers,
    Precision,
    WindowDimension,
)
from xla_backend.hlo.opcode import Opcode

# -- shape -----------------------------------------------------------------------------------------


def _check_groups(name: str, count: int, parts: Sequence[tuple[str, int]]) -> None:
    if count <= 0:
        fail(ValueError, f"conv_general_dilated {name} must be a positive integer, got {count}.")
    for what, size in parts:
        if size % count:
            fail(
                ValueError,
                f"conv_general_dilated {name} must divide {what} dimension size, but {count} does "
                f"not divide {size}.",
            )


def _conv_aval(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    window_strides: tuple[int, ...],
    padding: Pads,
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> list[ShapedArray]:
    check_dtype("conv_general_dilated", lhs, NUMBER, 0)
    check_dtype("conv_general_dilated", rhs, NUMBER, 1)
    if lhs.dtype != rhs.dtype:
        fail(
            TypeError,
            "lax.conv_general_dilated requires arguments to have the same dtypes, got "
            f"{lhs.dtype}, {rhs.dtype}.",
            f"the operands are {lhs.str_short()} and {rhs.str_short()}.",
            "convert one of them with lax.convert_element_type.",
        )
    dn = dimension_numbers
    (n, c, *_), (o, i, *_) = picked(lhs.shape, dn.lhs_spec), picked(rhs.shape, dn.rhs_spec)
    _check_groups(
        "feature_group_count",
        feature_group_count,
        [("lhs feature", c)],
    )
    if c // feature_group_count != i:
        fail(
            ValueError,
            "conv_general_dilated lhs feature dimension size divided by feature_group_count must "
            f"equal the rhs input feature dimension size, but {c} // {feature_group_count} != {i}.",
            f"the operands are {lhs.str_short()} and {rhs.str_short()} with dimension numbers "
            f"{dn}.",
            "check dimension_numbers: the default is lhs (N, C, spatial...), rhs (O, I, "
            "spatial...).",
        )
    _check_groups("feature_group_count", feature_group_count, [("rhs output feature", o)])
    _check_groups(
        "batch_group_count", batch_group_count, [("lhs batch", n), ("rhs output feature", o)]
    )
    if batch_group_count > 1 and feature_group_count > 1:
        fail(
            ValueError,
            "At most one of batch_group_count and feature_group_count may be > 1, got "
            f"batch_group_count={batch_group_count} and feature_group_count={feature_group_count}",
        )
    shape = conv_general_dilated_shape(
        lhs.shape,
        rhs.shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dn,
        batch_group_count,
    )
    dtype = preferred_element_type or lhs.dtype
    weak = preferred_element_type is None and lhs.weak_type and rhs.weak_type
    return [ShapedArray(shape, dtype, weak)]


# -- derivatives -----------------------------------------------------------------------------------


def _lhs_jvp(g: Array, ans: Array, lhs: Array, rhs: Array, **params: Any) -> Array:
    return conv_general_dilated_p.bind1(g, rhs, **params)


def _rhs_jvp(g: Array, ans: Array, lhs: Array, rhs: Array, **params: Any) -> Array:
    return conv_general_dilated_p.bind1(lhs, g, **params)


def _swapped(spec: Sequence[int]) -> tuple[int, ...]:
    """A spec with its first two roles exchanged."""
    return (spec[1], spec[0], *spec[2:])


def _split(x: Array, axis: int, outer: int) -> Array:
    """Split `axis` into (outer, rest)."""
    shape = shape_of(x)
    return reshape(x, (*shape[:axis], outer, shape[axis] // outer, *shape[axis + 1 :]))


def _merge_into(x: Array, source: int, target: int) -> Array:
    """Move axis `source` in front of `target` (counted without it) and merge them, source major."""
    x = move_bdim(x, source, target)
    shape = shape_of(x)
    return reshape(x, (*shape[:target], shape[target] * shape[target + 1], *shape[target + 2 :]))


def _regroup(x: Array, source: int, target: int, groups: int) -> Array:
    """Exchange roles for groups: split `groups` off the front of `source`, put it in front of
    `target`.
    """
    x = _split(x, source, groups)
    return _merge_into(x, source, target)


def _same_dtype(x: Array, dtype: Any) -> Array:
    return x if dtype_of(x) == dtype else convert_element_type(x, dtype)


def _transpose_lhs(ct: Array, lhs: ShapedArray, rhs: Array, params: dict[str, Any]) -> Array:
    """The cotangent convolved with the reversed kernel; strides and lhs dilation exchange roles."""
    dn = params["dimension_numbers"]
    fg, bg = params["feature_group_count"], params["batch_group_count"]
    lhs_spatial = picked(lhs.shape, dn.lhs_spec)[2:]
    rhs_spatial = picked(shape_of(rhs), dn.rhs_spec)[2:]
    out_spatial = picked(shape_of(ct), dn.out_spec)[2:]
    rhs = rev(_same_dtype(rhs, dtype_of(ct)), tuple(dn.rhs_spec[2:]))
    if fg > 1:
        # [O, I] with O in groups becomes [g * I, O / g] read the other way round.
        rhs = _regroup(rhs, dn.rhs_spec[0], dn.rhs_spec[1], fg)
    elif bg > 1:
        rhs = _regroup(rhs, dn.rhs_spec[0], dn.rhs_spec[1], bg)
    padding = []
    for n, k, m, stride, (low, _), dl, dr in zip(
        lhs_spatial,
        rhs_spatial,
        out_spatial,
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
    ):
        reach = dilate_dim(k, dr)
        before = reach - low - 1
        padding.append((before, dilate_dim(n, dl) + reach - 1 - dilate_dim(m, stride) - before))
    out = conv_general_dilated_p.bind1(
        ct,
        rhs,
        **dict(
            params,
            window_strides=params["lhs_dilation"],
            lhs_dilation=params["window_strides"],
            padding=tuple(padding),
            dimension_numbers=ConvDimensionNumbers(dn.out_spec, _swapped(dn.rhs_spec), dn.lhs_spec),
            feature_group_count=bg if bg > 1 else fg,
            batch_group_count=1,
            preferred_element_type=lhs.dtype if is_floating(lhs.dtype) else None,
        ),
    )
    if bg > 1:
        # Features come in groups; those were groups of the batch.
        out = _regroup(out, dn.lhs_spec[1], dn.lhs_spec[0], bg)
    return _same_dtype(out, lhs.dtype)


def _transpose_rhs(ct: Array, lhs: Array, rhs: ShapedArray, params: dict[str, Any]) -> Array:
    """lhs convolved with the cotangent as kernel, batch and features exchanged."""
    dn = params["dimension_numbers"]
    fg, bg = params["feature_group_count"], params["batch_group_count"]
    lhs_spatial = picked(shape_of(lhs), dn.lhs_spec)[2:]
    rhs_spatial = picked(rhs.shape, dn.rhs_spec)[2:]
    out_spatial = picked(shape_of(ct), dn.out_spec)[2:]
    padding = []
    for n, k, m, stride, (low, _), dl, dr in zip(
        lhs_spatial,
        rhs_spatial,
        out_spatial,
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
    ):
        padding.append(
            (low, dilate_dim(m, stride) + dilate_dim(k, dr) - 1 - dilate_dim(n, dl) - low)
        )
    out = conv_general_dilated_p.bind1(
        _same_dtype(lhs, dtype_of(ct)),
        ct,
        **dict(
            params,
            window_strides=params["rhs_dilation"],
            rhs_dilation=params["window_strides"],
            padding=tuple(padding),
            dimension_numbers=ConvDimensionNumbers(
                _swapped(dn.lhs_spec), _swapped(dn.out_spec), _swapped(dn.rhs_spec)
            ),
            feature_group_count=bg if bg > 1 else 1,
            batch_group_count=fg,
            preferred_element_type=rhs.dtype if is_floating(rhs.dtype) else None,
        ),
    )
    return _same_dtype(out, rhs.dtype)


def _conv_transpose(cts: Sequence[Any], lhs: Any, rhs: Any, **params: Any) -> list[Any]:
    (ct,) = cts
    linear_in_lhs = ad.is_undefined_primal(lhs)
    aval, other = (lhs.aval, rhs) if linear_in_lhs else (rhs.aval, lhs)
    # Sizes of windows over nothing are no ground to count padding from.
    if type(ct) is ad.Zero or 0 in (*aval.shape, *shape_of(other), *shape_of(ct)):
        gradient: Any = ad.Zero(aval)
    elif linear_in_lhs:
        back = lambda ct, other: _transpose_lhs(ct, aval, other, params)
        gradient = cotangent_as(aval, back, ct, other)
    else:
        back = lambda ct, other: _transpose_rhs(ct, other, aval, params)
        gradient = cotangent_as(aval, back, ct, other)
    return [gradient, None] if linear_in_lhs else [None, gradient]


# -- batching --------------------------------------------------------------------------------------


def _conv_batching(axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    (lhs, rhs), (lhs_dim, rhs_dim) = args, dims
    dn = params["dimension_numbers"]
    fg, bg = params["feature_group_count"], params["batch_group_count"]
    n_axis, c_axis = dn.lhs_spec[:2]
    o_axis = dn.rhs_spec[0]
    out_n, out_c = dn.out_spec[:2]

    def run(x: Array, y: Array, feature_groups: int = fg, batch_groups: int = bg) -> Array:
        changed = dict(params, feature_group_count=feature_groups, batch_group_count=batch_groups)
        return conv_general_dilated_p.bind1(x, y, **changed)

    if not axis_size:  # groups and strides of no examples could not be counted
        avals = [aval_of(x) for x in args]
        one = [a if d is not_mapped else a.without_dim(d) for a, d in zip(avals, dims)]
        (out,) = conv_general_dilated_p.abstract_eval(*one, **params)
        return [full((0, *out.shape), 0, out.dtype)], [0]
    if lhs_dim is not not_mapped and rhs_dim is not not_mapped:
        # Each example is a group of its own: of the batch if that is grouped already,
        # else of features.
        y = _merge_into(rhs, rhs_dim, o_axis)
        if bg > 1:
            out = run(_merge_into(lhs, lhs_dim, n_axis), y, 1, bg * axis_size)
        else:
            out = run(_merge_into(lhs, lhs_dim, c_axis), y, fg * axis_size, 1)
        return [_split(out, out_c, axis_size)], [out_c]
    if lhs_dim is not not_mapped:
        if bg == 1:
            out = run(_merge_into(lhs, lhs_dim, n_axis), rhs)
            return [_split(out, out_n, axis_size)], [out_n]
        # The batch is (group, n): put the examples between.
        x = _split(bdim_at_front(lhs, lhs_dim, axis_size), n_axis + 1, bg)
        x = _merge_into(x, 0, n_axis + 1)
        shape = shape_of(x)
        merged = (*shape[:n_axis], bg * shape[n_axis + 1], *shape[n_axis + 2 :])
        out = run(reshape(x, merged), rhs)
        return [_split(out, out_n, axis_size)], [out_n]
    groups = fg if fg > 1 else bg
    if groups == 1:
        out = run(lhs, _merge_into(rhs, rhs_dim, o_axis))
        return [_split(out, out_c, axis_size)], [out_c]
    # Output features are (group, o): put the examples between.
    y = _split(bdim_at_front(rhs, rhs_dim, axis_size), o_axis + 1, groups)
    y = _merge_into(y, 0, o_axis + 1)
    shape = shape_of(y)
    merged = (*shape[:o_axis], groups * shape[o_axis + 1], *shape[o_axis + 2 :])
    out = _split(run(lhs, reshape(y, merged)), out_c, groups)
    out = move_bdim(_split(out, out_c + 1, axis_size), out_c + 1, 0)
    shape = shape_of(out)
    flat = (*shape[: out_c + 1], shape[out_c + 1] * shape[out_c + 2], *shape[out_c + 3 :])
    return [reshape(out, flat)], [0]


# -- lowering --------------------------------------------------------------------------------------

_HLO_PRECISION = {
    LaxPrecision.DEFAULT: Precision.DEFAULT,
    LaxPrecision.HIGH: Precision.HIGH,
    LaxPrecision.HIGHEST: Precision.HIGHEST,
}


def _conv_lowering(
    ctx: Any,
    lhs: Any,
    rhs: Any,
    *,
    window_strides: tuple[int, ...],
    padding: Pads,
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> Any:
    out = ctx.shapes_out[0]
    in_dtype, out_dtype = ctx.avals_in[0].dtype, ctx.avals_out[0].dtype
    if is_integer(in_dtype) and not is_integer(out_dtype):
        # Integer products in a floating result: convert first, HLO has no mixed convolution.
        lhs = ctx.builder.convert(lhs, out.element_type)
        rhs = ctx.builder.convert(rhs, out.element_type)
    dn = dimension_numbers
    spatial = picked(ctx.avals_in[1].shape, dn.rhs_spec)[2:]
    window = tuple(
        WindowDimension(
            size=k,
            stride=s,
            padding_low=low,
            padding_high=high,
            base_dilation=dl,
            window_dilation=dr,
        )
        for k, s, (low, high), dl, dr in zip(
            spatial, window_strides, padding, lhs_dilation, rhs_dilation
        )
    )
    attributes = ConvolutionAttributes(
        window=window,
        dimension_numbers=ConvolutionDimensionNumbers(
            input_batch=dn.lhs_spec[0],
            input_feature=dn.lhs_spec[1],
            input_spatial=tuple(dn.lhs_spec[2:]),
            kernel_output_feature=dn.rhs_spec[0],
            kernel_input_feature=dn.rhs_spec[1],
            kernel_spatial=tuple(dn.rhs_spec[2:]),
            output_batch=dn.out_spec[0],
            output_feature=dn.out_spec[1],
            output_spatial=tuple(dn.out_spec[2:]),
        ),
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision=tuple(_HLO_PRECISION[p] for p in precision) if precision else (),
    )
    return ctx.builder.add(Opcode.CONVOLUTION, (lhs, rhs), attributes, shape=out)


conv_general_dilated_p = define_primitive(
    "conv_general_dilated",
    abstract_eval=_conv_aval,
    jvp=(_lhs_jvp, _rhs_jvp),
    transpose=_conv_transpose,
    batching=_conv_batching,
    lowering=_conv_lowering,
)

# -- public functions ------------------------------------------------------------------------------


def _spatial_ints(what: str, values: Any, rank: int) -> tuple[int, ...]:
    if values is None:
        return (1,) * rank
    if isinstance(values, (int, np.integer)):
        values = (values,) * rank if what != "window_strides" else (values,)
    ints = tuple(operator.index(v) for v in values)
    if len(ints) != rank:
        fail(
            ValueError,
            f"conv_general_dilated window and {what} must have the same number of dimensions, but "
            f"got {rank} and {len(ints)}",
            fix="give one entry for each spatial dimension.",
        )
    if any(v < 1 for v in ints):
        fail(
            ValueError if what == "window_strides" else TypeError,
            f"conv_general_dilated {what} must have every element be strictly positive, got "
            f"{ints}.",
        )
    return ints


def _check_preferred(dtype: Any, preferred: Any) -> None:
    accepted = (
        (is_integer(dtype) and (is_integer(preferred) or is_floating(preferred)))
        or (is_floating(dtype) and is_floating(preferred))
        or (is_complex(dtype) and is_complex(preferred))
    )
    if not accepted:
        fail(
            TypeError,
            f"Input type is incompatible with `preferred_element_type`: {dtype} and {preferred}. "
            "The compatible combinations of (input_type, preferred_element_type) are (integral, "
            "integral), (integral, floating), (floating, floating), (complex, complex).",
        )


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Convolution (cross-correlation) over any number of spatial dimensions, with optional
    dilation.

    Args:
      lhs: input, by default [batch, feature, spatial...].
      rhs: kernel, by default [out feature, in feature, spatial...].
      window_strides: step in every spatial dimension.
      padding: "SAME", "SAME_LOWER", "VALID", or (low, high) pairs, which may be negative.
      lhs_dilation: spacing of input elements (greater than 1: transposed convolution).
      rhs_dilation: spacing of kernel elements ("atrous" convolution).
      dimension_numbers: strings such as ("NHWC", "HWIO", "NHWC"), or ConvDimensionNumbers.
      feature_group_count: groups of features convolved separately; the kernel has C / groups input
        features.
      batch_group_count: groups of the batch, each convolved with its share of output features.
      precision: see `lax.Precision`.   preferred_element_type: dtype of result and accumulation.
    Returns:
      array whose layout dimension_numbers gives.
    Raises:
      TypeError, ValueError: shapes, dtypes or sizes do not fit.

    >>> lax.conv_general_dilated(jnp.ones((1, 1, 5)), jnp.ones((1, 1, 3)), (1,), "VALID")
    Array([[[3., 3., 3.]]], dtype=float32)
    """
    if out_sharding is not None:
        compute = partial(
            conv_general_dilated,
            window_strides=window_strides,
            padding=padding,
            lhs_dilation=lhs_dilation,
            rhs_dilation=rhs_dilation,
            dimension_numbers=dimension_numbers,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
        return computed_as("conv_general_dilated", out_sharding, compute, lhs, rhs)
    dn = conv_dimension_numbers(shape_of(lhs), shape_of(rhs), dimension_numbers)
    rank = len(dn.lhs_spec) - 2
    if preferred_element_type is not None:
        preferred_element_type = np.dtype(canonical_dtype(preferred_element_type))
        _check_preferred(dtype_of(lhs), preferred_element_type)
    strides = _spatial_ints("window_strides", window_strides, rank)
    lhs_dilation = _spatial_ints("lhs_dilation", lhs_dilation, rank)
    rhs_dilation = _spatial_ints("rhs_dilation", rhs_dilation, rank)
    if isinstance(padding, str):
        kernel = picked(shape_of(rhs), dn.rhs_spec)[2:]
        if padding.upper() != "VALID" and any(d != 1 for d in lhs_dilation):
            fail(
                ValueError,
                "String padding is not implemented for transposed convolution using this op. "
                "Please either exactly specify the required padding or use conv_transpose.",
            )
        reach = [dilate_dim(k, d) for k, d in zip(kernel, rhs_dilation)]
        sizes = picked(shape_of(lhs), dn.lhs_spec)[2:]
        pads: Pads = tuple(padtype_to_pads(sizes, reach, strides, padding))
    else:
        if len(padding) != rank:
            fail(
                TypeError,
                f"Wrong number of explicit pads for convolution: expected {rank}, got "
                f"{len(padding)}.",
                fix="give one (low, high) pair for each spatial dimension.",
            )
        pads = canonical_pads("conv_general_dilated", padding, rank)
    return conv_general_dilated_p.bind1(
        lhs,
        rhs,
        window_strides=strides,
        padding=pads,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=dn,
        feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred_element_type,
        out_sharding=None,
    )


def conv(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: str,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """conv_general_dilated without dilation: lhs [N, C, spatial...], rhs [O, I, spatial...].

    >>> lax.conv(jnp.ones((1, 1, 4, 4)), jnp.ones((1, 1, 3, 3)), (1, 1), "SAME").shape
    (1, 1, 4, 4)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: PrecisionLike = None,
    preferred_element_type: Any = None,
) -> Array:
    """conv_general_dilated with the default layout and without groups.

    >>> x, w = jnp.ones((1, 1, 3)), jnp.ones((1, 1, 2))
    >>> conv_with_general_padding(x, w, (1,), ((1, 0),), None, None)
    Array([[[1., 2., 2.]]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
