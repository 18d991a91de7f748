"""Order statistics and second moments: median, quantile, percentile, cov, corrcoef."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.core.structural import as_split
from pyjax.lax.reshard import computed_as
from pyjax.numpy import linear_algebra, reductions, util
from pyjax.numpy.array_constructors import asarray
from pyjax.numpy.diagonals import diag
from pyjax.numpy.index_functions import take_along_axis
from pyjax.numpy.selection import clip, select_where
from pyjax.numpy.stacking import concatenate
from pyjax.numpy.ufuncs import is_complex

__all__ = [
    "corrcoef",
    "cov",
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]

# Of as many elements a program for each quantile is made sooner than all are sorted.
_MANY = 1 << 19
METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(
    a: ArrayLike,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    """Quantiles of `a` over axes.

    Args:
      q: probabilities in [0, 1], scalar or 1-d (then the first axis of the result).
      method: between two samples: 'linear', 'lower', 'higher', 'midpoint', 'nearest';
        'inverted_cdf' takes `weights`.
    Returns:
      Floating array; nan where a slice has a nan.
    >>> quantile(np.array([1.0, 2.0, 4.0]), 0.5).item()
    2.0
    """
    return _check_quantile(
        "quantile", a, q, axis, out, overwrite_input, method, keepdims, weights, False
    )


def nanquantile(
    a: ArrayLike,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    """`quantile` of the elements that are not nan.

    >>> jnp.nanquantile(jnp.array([1.0, jnp.nan, 3.0]), 0.5)
    Array(2., dtype=float32)
    """
    return _check_quantile(
        "nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights, True
    )


def percentile(
    a: ArrayLike,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Array:
    """`quantile` with `q` in percent.

    >>> jnp.percentile(jnp.array([1.0, 2.0, 3.0, 4.0]), 50)
    Array(2.5, dtype=float32)
    """
    util.check_arraylike("percentile", _maybe_array(q))
    if out_sharding is not None:
        rest = (axis, out, overwrite_input, method, keepdims)
        compute = lambda a, q, weights: percentile(a, q, *rest, weights=weights)
        return computed_as("percentile", out_sharding, compute, a, q, weights)
    return _check_quantile(
        "percentile",
        a,
        _fraction(q),
        axis,
        out,
        overwrite_input,
        method,
        keepdims,
        weights,
        False,
    )


def nanpercentile(
    a: ArrayLike,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    """`percentile` of the elements that are not nan.

    >>> jnp.nanpercentile(jnp.array([1.0, jnp.nan, 3.0]), 50)
    Array(2., dtype=float32)
    """
    util.check_arraylike("nanpercentile", _maybe_array(q))
    return _check_quantile(
        "nanpercentile",
        a,
        _fraction(q),
        axis,
        out,
        overwrite_input,
        method,
        keepdims,
        weights,
        True,
    )


def _fraction(percent: Any) -> Any:
    """A hundredth, weak where the number is."""
    if isinstance(percent, (int, float)):
        return percent / 100
    return util.as_array(_maybe_array(percent)) / 100


def _maybe_array(q: Any) -> Any:
    return asarray(q) if isinstance(q, (list, tuple)) else q


def median(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Middle value over axes (mean of the two middle ones); nan if there is a nan.

    >>> median(np.array([3, 1, 2, 10])).item()
    2.5
    """
    return _check_quantile(
        "median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, False
    )


def nanmedian(
    a: ArrayLike,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """`median` of the elements that are not nan.

    >>> jnp.nanmedian(jnp.array([1.0, jnp.nan, 3.0]))
    Array(2., dtype=float32)
    """
    return _check_quantile(
        "nanmedian", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None, True
    )


def _check_quantile(
    name: str,
    a: Any,
    q: Any,
    axis: Any,
    out: Any,
    overwrite_input: bool,
    method: str,
    keepdims: bool,
    weights: Any,
    squash_nans: bool,
) -> Any:
    number = q if type(q) is float and q == q else None
    q = _maybe_array(q)
    util.check_arraylike(name, a, q)
    if overwrite_input or out is not None:
        raise new_error(
            ValueError,
            f"jax.numpy.{name} does not support overwrite_input=True or out != None: arrays are "
            "immutable.",
        )
    if method not in METHODS:
        raise new_error(
            ValueError, f"method can only be one of {', '.join(METHODS)}; got {method!r}."
        )
    if weights is not None and method != "inverted_cdf":
        raise new_error(
            ValueError, f"{name}: weights are only supported with method='inverted_cdf'."
        )
    a, q = util.as_array(a), util.as_array(q)
    if is_complex(a) or is_complex(q):
        raise new_error(
            ValueError, f"jax.numpy.{name} does not support complex arrays: they have no order."
        )
    if q.ndim > 1:
        raise new_error(
            ValueError,
            f"q must be a number or have one axis, got shape {q.shape}",
            "Quantiles are the first axis of the result.",
            f"jnp.{name}(a, q.ravel()) is one for each, in the order of q.",
        )
    # Results are of the type of `a`, whatever that of q.
    a = util.convert(a, dtypes.to_inexact_dtype(a.dtype))
    q = util.convert(q, a.dtype)
    axis_tuple = None if axis is None else util.canonicalize_axes(axis, a.ndim)
    if method == "inverted_cdf":
        weights = 1.0 if weights is None else weights
        return _weighted_quantile(a, q, weights, axis_tuple, bool(keepdims), squash_nans)
    if number is not None and not squash_nans and (name == "median" or a.size >= _MANY):
        return _known_quantile(a, number, axis_tuple, method, bool(keepdims))
    return _quantile(a, q, axis_tuple, method, bool(keepdims), squash_nans)


def _axes_last(a: Any, axes: tuple[int, ...] | None) -> tuple[Any, tuple[int, ...]]:
    """`a` with the reduced axes flattened into a last one, and the shape with them kept as one."""
    axes = tuple(range(a.ndim)) if axes is None else axes
    rest = [i for i in range(a.ndim) if i not in axes]
    kept = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
    moved = lax.transpose(a, [*rest, *axes])
    n = util.size_of([a.shape[i] for i in axes])
    return lax.reshape(moved, (*(a.shape[i] for i in rest), n)), kept


@partial(jit, static_argnames=("axes", "method", "keepdims", "squash_nans"))
def _quantile(a: Any, q: Any, axes: Any, method: str, keepdims: bool, squash_nans: bool) -> Any:
    x, kept = _axes_last(a, axes)
    rest, n = x.shape[:-1], x.shape[-1]
    if n == 0:
        raise new_error(ValueError, f"quantile over no elements (shape {a.shape}).")
    is_nan = lax.ne(x, x)
    bad = reductions.any(is_nan, -1)
    ordered = lax.sort(x, dimension=x.ndim - 1)  # nans last
    if squash_nans:
        count = reductions.sum(~is_nan, -1, np.int32)
        top = util.convert(lax.max(count - 1, lax.full_like(count, 0)), q.dtype)
        bad = count == 0
    else:
        top = lax.full_like(bad, n - 1, q.dtype)
    # Positions of shape q.shape + rest.
    place = lax.broadcast_in_dim(q, (*q.shape, *rest), tuple(range(q.ndim)))
    place = place * lax.broadcast_in_dim(top, place.shape, tuple(range(q.ndim, place.ndim)))
    low, high = lax.floor(place), lax.ceil(place)
    weight = place - low
    limit = lax.broadcast_in_dim(top, place.shape, tuple(range(q.ndim, place.ndim)))
    zero = lax.full_like(place, 0)
    low, high = lax.clamp(zero, low, limit), lax.clamp(zero, high, limit)
    if method == "nearest":  # halfway goes to the lower one
        low = select_where(weight > 0.5, high, low)
    if squash_nans:
        low_value, high_value = _pick(ordered, low, q.ndim), _pick(ordered, high, q.ndim)
    else:
        low_value, high_value = _pick_same(ordered, q, low, n), _pick_same(ordered, q, high, n)
    if method == "linear":
        out = low_value * (1 - weight) + high_value * weight
        out = select_where(low == high, low_value, out)  # keeps infinities exact
    elif method in ("lower", "nearest"):
        out = low_value
    elif method == "higher":
        out = high_value
    else:
        out = (low_value + high_value) * np.asarray(0.5, low_value.dtype)
    bad = lax.broadcast_in_dim(bad, out.shape, tuple(range(q.ndim, out.ndim)))
    out = select_where(bad, np.nan, out)
    out = util.convert(out, a.dtype)
    return lax.reshape(out, (*q.shape, *kept)) if keepdims else out


@partial(jit, static_argnames=("q", "axes", "method", "keepdims"))
def _known_quantile(a: Any, q: float, axes: Any, method: str, keepdims: bool) -> Any:
    """The same where q is a part of the program: what is not read is not sorted."""
    return _quantile(a, np.asarray(q, a.dtype), axes, method, keepdims, False)


def _pick_same(ordered: Any, q: Any, place: Any, n: int) -> Any:
    """Elements at the same places of every row: place depends on q alone."""
    index = as_split(place, None)  # where it is, too, it is the same in all rows
    for _ in range(place.ndim - q.ndim):
        index = (
            lax.index_in_dim(index, 0, index.ndim - 1, keepdims=False)
            if (index.shape[-1])
            else lax.full(index.shape[:-1], 0, index.dtype)
        )
    index = util.convert(index, np.dtype(np.int32))
    rank = ordered.ndim - 1
    numbers = lax.GatherDimensionNumbers(
        tuple(range(index.ndim, index.ndim + rank)), (rank,), (rank,)
    )
    return lax.gather(
        ordered,
        lax.expand_dims(index, (index.ndim,)),
        numbers,
        (*ordered.shape[:-1], 1),
        mode=lax.GatherScatterMode.CLIP,
    )


def _pick(ordered: Any, place: Any, q_rank: int) -> Any:
    """Elements at places of shape q.shape + rest, each in its own row."""
    index = util.convert(place, np.dtype(np.int32))
    rows = lax.broadcast(ordered, place.shape[:q_rank])
    out = take_along_axis(rows, lax.expand_dims(index, (index.ndim,)), -1, mode="clip")
    return lax.squeeze(out, (out.ndim - 1,))


@partial(jit, static_argnames=("axes", "keepdims", "squash_nans"))
def _weighted_quantile(
    a: Any, q: Any, weights: Any, axes: Any, keepdims: bool, squash_nans: bool
) -> Any:
    weights = util.convert(weights, a.dtype)
    if weights.ndim and weights.shape != a.shape:
        if axes is None or len(axes) != 1 or weights.shape != (a.shape[axes[0]],):
            raise new_error(
                ValueError,
                f"weights {weights.shape} must have the shape of a {a.shape}, or be "
                "1-d along the axis.",
            )
        weights = lax.broadcast_in_dim(weights, a.shape, axes)
    weights = util.broadcast_array(weights, a.shape)
    x, kept = _axes_last(a, axes)
    w, _ = _axes_last(weights, axes)
    is_nan = lax.ne(x, x)
    w = select_where(is_nan, 0, w) if squash_nans else w
    bad = reductions.all(is_nan, -1) if squash_nans else reductions.any(is_nan, -1)
    x, w = lax.sort((x, w), dimension=x.ndim - 1, num_keys=1)
    cumulative = lax.cumsum(w, x.ndim - 1)
    total = cumulative[..., -1:]
    share = cumulative / total
    # The first sample at which the cumulative share reaches q, among those with weight.
    flat_q = lax.reshape(q, (q.size,))
    wanted = lax.broadcast_in_dim(flat_q, (q.size, *x.shape), (0,))
    reached = lax.ge(lax.broadcast(share, (q.size,)), wanted)
    reached = reached & lax.broadcast(w > 0, (q.size,))
    place = lax.argmax(reached, reached.ndim - 1, np.int32)
    out = _pick(x, util.convert(place, q.dtype), 1)
    out = select_where(lax.broadcast(bad, (q.size,)), np.nan, out)
    rest = kept if keepdims else x.shape[:-1]
    return lax.reshape(util.convert(out, a.dtype), (*q.shape, *rest))


# ---------------------------------------------------------------------------------------------
# Covariance


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    dtype: Any = None,
) -> Array:
    """Covariance matrix of variables in the rows of `m` (columns if not `rowvar`).

    Args:
      y: more variables.  bias: divide by n, not n - 1.  ddof: divide by n - ddof.
      fweights: integer number of times each observation counts; aweights: importance weights.

    >>> jnp.cov(jnp.array([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    m = util.as_array(m) if not isinstance(m, (list, tuple)) else asarray(m)
    util.check_arraylike("cov", m)
    if m.ndim > 2:
        raise new_error(ValueError, "m has more than 2 dimensions")
    dtype = util.check_user_dtype(dtype, "cov")
    if y is not None:
        util.check_arraylike("cov", y)
        y = util.as_array(y)
        if y.ndim > 2:
            raise new_error(ValueError, "y has more than 2 dimensions")
        m, y = util.promote_dtypes_inexact(m, y)
    else:
        (m,) = util.promote_dtypes_inexact(m)
    m = util.convert(m, dtype) if dtype is not None else m
    x = _variables(m, rowvar)
    if y is not None:
        y = _variables(util.convert(y, m.dtype), rowvar)
        x = concatenate([x, y], 0)
    if ddof is None:
        ddof = 0 if bias else 1
    weights = _weights(x, fweights, aweights)
    mean, total = _weighted_mean(x, weights)
    n = x.shape[1]
    if weights is None:
        factor: Any = max(n - ddof, 0)  # nothing to divide by: NaN, as in NumPy
    elif ddof == 0:
        factor = total
    elif aweights is None:
        factor = total - ddof
    else:
        aw = util.convert(aweights, weights.dtype)
        factor = total - ddof * reductions.sum(weights * aw) / total
    centered = x - lax.expand_dims(mean, (1,))
    right = (
        centered
        if weights is None
        else centered * lax.expand_dims(util.convert(weights, centered.dtype), (0,))
    )
    conj = lax.conj(right) if is_complex(right) else right
    out = linear_algebra.dot(centered, lax.transpose(conj, (1, 0)))
    out = out / util.convert(factor, out.dtype)
    kept = [i for i, size in enumerate(out.shape) if size == 1]
    return lax.squeeze(out, tuple(kept)) if kept else out


def _variables(m: Any, rowvar: bool) -> Any:
    if m.ndim < 2:
        return lax.reshape(m, (1, m.size))
    return m if rowvar or m.shape[0] == 1 else lax.transpose(m, (1, 0))


def _weights(x: Any, fweights: Any, aweights: Any) -> Any:
    weights = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        util.check_arraylike("cov", given)
        if np.ndim(given) > 1:
            raise new_error(RuntimeError, f"cannot handle multidimensional {name}")
        if np.shape(given)[0] != x.shape[1]:
            raise new_error(RuntimeError, f"incompatible numbers of samples and {name}")
        if name == "fweights" and not dtypes.issubdtype(dtypes.dtype(given), np.integer):
            raise new_error(TypeError, "fweights must be integer.")
        value = lax.abs(util.convert(given, lax.real(x).dtype if is_complex(x) else x.dtype))
        weights = value if weights is None else weights * value
    return weights


def _weighted_mean(x: Any, weights: Any) -> tuple[Any, Any]:
    if weights is None:
        return reductions.mean(x, 1), x.shape[1]
    total = reductions.sum(weights)
    wide = x * lax.expand_dims(util.convert(weights, x.dtype), (0,))
    return reductions.sum(wide, 1) / util.convert(total, x.dtype), total


def corrcoef(x: ArrayLike, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Array:
    """Correlation coefficients of variables (arguments as for `cov`).

    >>> jnp.corrcoef(jnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).round(4)
    Array([[ 1., -1.],
           [-1.,  1.]], dtype=float32)
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    deviation = lax.sqrt(lax.real(diag(c)) if is_complex(c) else diag(c))
    deviation = util.convert(deviation, c.dtype)
    out = c / lax.expand_dims(deviation, (1,)) / lax.expand_dims(deviation, (0,))
    if is_complex(out):
        return lax.complex(clip(lax.real(out), -1, 1), clip(lax.imag(out), -1, 1))
    return clip(out, -1, 1)
