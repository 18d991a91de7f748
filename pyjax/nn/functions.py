"""Activation functions and the softmax family. Compositions of pyjax.numpy and lax; no primitives
here.
"""

from __future__ import annotations

import functools
import operator
from functools import partial
from typing import Any, SupportsIndex

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax._config import options
from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.errors import AxisError, new_error
from pyjax.numpy.eager import one_program
from pyjax.numpy.util import axis_items, check_arraylike, promote_args_inexact

ArrayLike = Any
Array = Any
Axis = int | tuple[int, ...] | None


def identity(x: ArrayLike) -> Array:
    """The argument as an array, unchanged.

    >>> identity(3.0)
    Array(3., dtype=float32, weak_type=True)
    """
    check_arraylike("identity", x)
    return jnp.asarray(x)


@custom_jvp
def _relu(x: Array) -> Array:
    return jnp.maximum(x, 0)


# The derivative at 0 is 0: maximum itself would give 1/2 there.
_relu.defjvps(lambda g, ans, x: lax.select(x > 0, g, lax.full_like(g, 0)))


@jit
def relu(x: ArrayLike) -> Array:
    """max(x, 0), elementwise; its derivative at 0 is 0.

    >>> relu(jnp.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    check_arraylike("relu", x)
    return _relu(jnp.asarray(x))


@jit
def relu6(x: ArrayLike) -> Array:
    """min(max(x, 0), 6); derivative 0 outside (0, 6) and at its ends.

    >>> relu6(jnp.array([-1.0, 3.0, 9.0]))
    Array([0., 3., 6.], dtype=float32)
    """
    return _relu6(_float_operand("relu6", x))


def _float_operand(name: str, x: ArrayLike) -> Array:
    """x, and of integers and booleans what they are beside a Python float, which the formulas have:
    the default float, weakly typed."""
    check_arraylike(name, x)
    x = jnp.asarray(x)
    return x if dtypes.issubdtype(x.dtype, np.inexact) else x * 1.0


def _bool_as_float(name: str, x: ArrayLike) -> Array:
    """x as a float, of booleans a weakly typed one."""
    check_arraylike(name, x)
    x = jnp.asarray(x)
    return x * 1.0 if x.dtype == np.bool_ else promote_args_inexact(name, x)[0]


@custom_jvp
def _relu6(x: Array) -> Array:
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


_relu6.defjvps(lambda g, ans, x: lax.select((x > 0) & (x < 6), g, lax.full_like(g, 0)))


@jit
def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + exp(-x)), elementwise, without overflow; integers become floats.

    >>> sigmoid(jnp.array([-jnp.inf, 0.0, jnp.inf]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return lax.logistic(*promote_args_inexact("sigmoid", x))


@jit
def softplus(x: ArrayLike) -> Array:
    """log(1 + exp(x)), elementwise, without overflow.

    >>> softplus(jnp.array([0.0, 100.0])).round(4)
    Array([  0.6931, 100.    ], dtype=float32)
    """
    return jnp.logaddexp(x, 0)


@custom_jvp
def _squareplus(x: Array, b: Array) -> Array:
    root = jnp.sqrt(jnp.square(x) + b)
    # Below zero the sum cancels: it is b / (root - x).
    below = (x < 0) & (b < np.inf)
    lower = jnp.where(below, b, 0) / jnp.where(below, root - x, 1)
    return jnp.where(below, lower, x + root) / 2


@custom_jvp
def _squareplus_slope(x: Array, b: Array) -> Array:
    """(1 + x / root) / 2, which cancels below zero, too; one division for both sides."""
    root, finite = jnp.sqrt(jnp.square(x) + b), b < np.inf
    below = (x < 0) & finite
    far = (root == np.inf) & finite  # only the square overflows
    above = jnp.where(far, 1, x), jnp.where(far, 1, root)
    ratio = jnp.where(below, b, above[0]) / jnp.where(below, (root - x) * root, above[1])
    return 0.5 * jnp.where(below, ratio, 1 + ratio)


def _over_cube(number: Array, x: Array, b: Array) -> Array:
    """number / root³, and 0 where b is infinite."""
    return jnp.where(b < np.inf, number, 0) / jnp.sqrt(jnp.square(x) + b) ** 3


_squareplus.defjvps(
    lambda g, ans, x, b: g * _squareplus_slope(x, b),
    lambda g, ans, x, b: g * (0.25 / jnp.sqrt(jnp.square(x) + b)),
)
_squareplus_slope.defjvps(
    lambda g, ans, x, b: g * _over_cube(0.5 * b, x, b),
    lambda g, ans, x, b: g * _over_cube(-0.25 * x, x, b),
)


@jit
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x² + b)) / 2: a smooth relu without exponentials (Barron 2021).

    >>> squareplus(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    (x,) = promote_args_inexact("squareplus", x)
    return _squareplus(*promote_args_inexact("squareplus", x, b))


@jit
def sparse_plus(x: ArrayLike) -> Array:
    """0 for x ≤ -1, x for x ≥ 1, (x+1)²/4 between.

    >>> sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = _float_operand("sparse_plus", x)
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, jnp.square(x + 1.0) / 4))


@jit
def sparse_sigmoid(x: ArrayLike) -> Array:
    """0 for x ≤ -1, 1 for x ≥ 1, (x+1)/2 between: the derivative of sparse_plus.

    >>> sparse_sigmoid(jnp.array([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    x = _float_operand("sparse_sigmoid", x)
    return 0.5 * jnp.clip(x + 1.0, 0.0, 2.0)


@jit
def soft_sign(x: ArrayLike) -> Array:
    """x / (1 + |x|).

    >>> soft_sign(jnp.array([-1.0, 3.0]))
    Array([-0.5 ,  0.75], dtype=float32)
    """
    x = _bool_as_float("soft_sign", x)
    return x / (jnp.abs(x) + 1)


@jit
def silu(x: ArrayLike) -> Array:
    """x · sigmoid(x); also called swish (Elfwing et al. 2017).

    >>> silu(jnp.array([-100.0, 0.0, 100.0])).round(4)
    Array([ -0.,   0., 100.], dtype=float32)
    """
    (x,) = promote_args_inexact("silu", x)
    return x * sigmoid(x)


swish = silu


@jit
def mish(x: ArrayLike) -> Array:
    """x · tanh(softplus(x)) (Misra 2019).

    >>> mish(jnp.array([0.0, 100.0]))
    Array([  0., 100.], dtype=float32)
    """
    x = _bool_as_float("mish", x)
    return x * jnp.tanh(softplus(x))


@jit
def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)) = -softplus(-x).

    >>> log_sigmoid(jnp.array([0.0, 100.0])).round(4)
    Array([-0.6931, -0.    ], dtype=float32)
    """
    (x,) = promote_args_inexact("log_sigmoid", x)
    return -softplus(-x)


@jit
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where x > 0, else alpha · (exp(x) - 1).

    >>> elu(jnp.array([-jnp.inf, 2.0]))
    Array([-1.,  2.], dtype=float32)
    """
    x = _float_operand("elu", x)
    # exp of the positive branch could overflow, and its gradient would then be nan.
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


@jit
def selu(x: ArrayLike) -> Array:
    """Scaled elu whose fixed point is zero mean and unit variance (Klambauer et al. 2017).

    >>> selu(jnp.array([0.0, 1.0])).round(4)
    Array([0.    , 1.0507], dtype=float32)
    """
    alpha = 1.6732632423543772848170429916717
    scale = 1.0507009873554804934193349852946
    return scale * elu(x, alpha)


@jit
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """max(x, 0) + min(0, alpha · (exp(x/alpha) - 1)): elu with a continuous derivative.

    >>> celu(jnp.array([-jnp.inf, 2.0]))
    Array([-1.,  2.], dtype=float32)
    """
    x = _float_operand("celu", x)
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@jit
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """x where x ≥ 0, else negative_slope · x.

    >>> leaky_relu(jnp.array([-100.0, 2.0]))
    Array([-1.,  2.], dtype=float32)
    """
    x = _float_operand("leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


@jit
def hard_tanh(x: ArrayLike) -> Array:
    """x clipped to [-1, 1]; integers stay integers.

    >>> hard_tanh(jnp.array([-3.0, 0.5, 3.0]))
    Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    check_arraylike("hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


@jit
def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6.

    >>> hard_sigmoid(jnp.array([-4.0, 0.0, 4.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return relu6(x + 3.0) / 6.0


@custom_jvp
def _hard_silu(x: Array) -> Array:
    return x * hard_sigmoid(x)


def _hard_silu_slope(x: Array) -> Array:
    """One division by 6 for both factors."""
    shifted = x + 3.0
    inside = (shifted > 0) & (shifted < 6)
    return (_relu6(shifted) + lax.select(inside, x, lax.full_like(x, 0))) / 6.0


_hard_silu.defjvps(lambda g, ans, x: g * _hard_silu_slope(x))


@jit
def hard_silu(x: ArrayLike) -> Array:
    """x · hard_sigmoid(x).

    >>> hard_silu(jnp.array([-4.0, 0.0, 4.0]))
    Array([-0.,  0.,  4.], dtype=float32)
    """
    return _hard_silu(_float_operand("hard_silu", x))


hard_swish = hard_silu


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x · Φ(x) with Φ the normal distribution function (Hendrycks & Gimpel 2016).

    Args:
      x: real, any shape.
      approximate: use tanh(√(2/π)(x + 0.044715 x³)) instead of the error function.
    Accuracy: within 4 units in the last place of x, which is more than the result far below zero.

    >>> gelu(jnp.array([-10.0, 0.0, 10.0])).round(4)
    Array([-0.,  0., 10.], dtype=float32)
    """
    (x,) = promote_args_inexact("gelu", x)
    return _gelu(x, bool(approximate))


@partial(jit, static_argnames="approximate")
def _gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        root = np.sqrt(2 / np.pi).astype(x.dtype)
        return x * (0.5 * (1.0 + jnp.tanh(root * (x + 0.044715 * (x**3)))))
    root_half = np.sqrt(0.5).astype(x.dtype)
    return 0.5 * x * lax.erfc(-x * root_half)


@partial(jit, static_argnames="axis")
def _glu(x: Array, axis: int) -> Array:
    size = x.shape[axis]
    if size % 2:
        raise new_error(
            ValueError,
            f"glu splits axis {axis} into halves, but its size {size} is odd (shape {x.shape})",
        )
    first, second = jnp.split(x, 2, axis)
    return first * sigmoid(second)


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """a · sigmoid(b) for the halves a, b of `x` along `axis`, whose size must be even.

    >>> glu(jnp.array([1.0, 2.0, 0.0, 0.0]))
    Array([0.5, 1. ], dtype=float32)
    """
    (x,) = promote_args_inexact("glu", x)
    return _glu(x, operator.index(axis))


def tanh(x: ArrayLike, /) -> Array:
    """Hyperbolic tangent (pyjax.numpy.tanh).

    >>> tanh(jnp.array([0.0, jnp.inf]))
    Array([0., 1.], dtype=float32)
    """
    return jnp.tanh(x)


@custom_jvp
def _log1mexp(x: Array) -> Array:
    small = x < float(np.log(2))
    return jnp.where(
        small,
        jnp.log(-jnp.expm1(-jnp.where(small, x, 1.0))),
        jnp.log1p(-jnp.exp(-jnp.where(small, 1.0, x))),
    )


# Not 1 / expm1(x), which overflows, and whose derivative is nan then.
_log1mexp.defjvps(lambda g, ans, x: g * jnp.exp(-x) / -jnp.expm1(-x))


@jit
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - exp(-x)) for x > 0, accurate near 0 and for large x (Mächler 2012); nan for x < 0.

    >>> log1mexp(jnp.inf)
    Array(-0., dtype=float32, weak_type=True)
    """
    return _log1mexp(*promote_args_inexact("log1mexp", x))


def _axis_tuple(axis: Axis, ndim: int) -> tuple[int, ...]:
    axes = tuple(range(ndim)) if axis is None else axis_items(axis)
    for a in axes:
        if not -ndim <= a < ndim:
            raise new_error(
                AxisError, f"axis {a} is out of bounds for an array with {ndim} dimensions"
            )
    return tuple(a % ndim for a in axes)


def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """log(sum(b · exp(a))) over `axis`, without overflow.

    Args:
      a: real or complex, any shape.
      axis: axes to sum over; None: all.
      b: factors, broadcastable with `a`; may be negative if `return_sign`.
      keepdims: keep the summed axes with size 1.
      return_sign: also return the sign (or phase) of the sum.
      where: elements to include.
    Special cases: -inf for an empty sum; nan for a negative sum unless `return_sign`.

    >>> logsumexp(jnp.array([1000.0, 1000.0])).round(2) == 1000.69
    Array(True, dtype=bool)
    """
    if b is not None:
        a_arr, b_arr = promote_args_inexact("logsumexp", a, b)
        a_arr, b_arr = jnp.broadcast_arrays(a_arr, b_arr)
        # Factors of zero silence their terms, infinite ones too.
        a_arr = jnp.where(b_arr != 0, a_arr, -jnp.inf)
    else:
        (a_arr,) = promote_args_inexact("logsumexp", a)
        b_arr = None
    axes = _axis_tuple(axis, jnp.ndim(a_arr))
    if where is not None:
        # Silenced before exp: what an excluded inf or nan gives has no derivative.
        a_arr = jnp.where(where, a_arr, -jnp.inf)
    real = a_arr.real if jnp.iscomplexobj(a_arr) else a_arr
    top = jnp.max(real, axis=axes, keepdims=True, initial=-jnp.inf)
    top = lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0))
    terms = jnp.exp(a_arr - top.astype(a_arr.dtype))
    if b_arr is not None:
        terms = b_arr * terms
    total = jnp.sum(terms, axis=axes, keepdims=True, where=where)
    sign = jnp.sign(total)
    if return_sign or jnp.iscomplexobj(total):
        magnitude = jnp.abs(total)
    else:
        magnitude = total
    out = jnp.log(magnitude) + top.astype(magnitude.dtype)
    if return_sign:
        return (out, sign) if keepdims else (out.squeeze(axes), sign.squeeze(axes))
    if jnp.iscomplexobj(total):
        out = lax.complex(out, jnp.angle(total))
    return out if keepdims else out.squeeze(axes)


@one_program()
def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """log(mean(exp(x))) over `axis`, without overflow.

    >>> logmeanexp(jnp.zeros(3))
    Array(0., dtype=float32)
    """
    (x,) = promote_args_inexact("logmeanexp", x)
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    if where is None:
        shape = np.shape(x)
        count = int(np.prod([shape[a] for a in _axis_tuple(axis, len(shape))]))
        return total - np.log(count).astype(total.dtype)
    included = jnp.broadcast_to(where, jnp.shape(x)).astype(total.dtype)
    return total - jnp.log(jnp.sum(included, axis=axis, keepdims=keepdims))


@one_program()
def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """exp(x) / sum(exp(x)) along `axis`: positive weights that sum to 1.

    Args:
      x: real, any shape; integers become floats.
      axis: axes to normalise over.
      where: elements to include; the others get weight 0.
    Special cases: nan along an axis that holds nan or +inf.

    >>> softmax(jnp.zeros(4)).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    (x,) = promote_args_inexact("softmax", x)
    by_rule = options.softmax_custom_jvp.value
    return (_softmax_by_rule if by_rule else _softmax)(x, axis, where)


def _softmax(x: Array, axis: Axis, where: Array | None) -> Array:
    top = jnp.max(x, axis=axis, where=where, initial=-jnp.inf, keepdims=True)
    shifted = x if where is None else jnp.where(where, x, -jnp.inf)
    weights = jnp.exp(shifted - lax.stop_gradient(top))
    result = weights / jnp.sum(weights, axis=axis, where=where, keepdims=True)
    return result if where is None else jnp.where(where, result, 0)


def _softmax_jvp(axis: Axis, primals: Any, tangents: Any) -> tuple[Array, Array]:
    x, where = primals
    result = _softmax_by_rule(x, axis, where)
    weighted = result * tangents[0]
    total = jnp.sum(weighted, axis=axis, where=where, keepdims=True)
    tangent = weighted - result * total
    return result, tangent if where is None else jnp.where(where, tangent, 0)


_softmax_by_rule = custom_jvp(_softmax, nondiff_argnums=(1,))
_softmax_by_rule.defjvp(_softmax_jvp)


@one_program()
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)) along `axis`, accurate for small weights.

    Special cases: -inf where excluded by `where`.

    >>> log_softmax(jnp.zeros(2)).round(4)
    Array([-0.6931, -0.6931], dtype=float32)
    """
    (x,) = promote_args_inexact("log_softmax", x)
    top = jnp.max(x, axis=axis, where=where, initial=-jnp.inf, keepdims=True)
    safe = x if where is None else jnp.where(where, x, -jnp.inf)
    shifted = safe - lax.stop_gradient(top)
    log_total = jnp.log(jnp.sum(jnp.exp(shifted), axis=axis, where=where, keepdims=True))
    result = shifted - log_total
    return result if where is None else jnp.where(where, result, -jnp.inf)


def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon) along `axis`; mean and variance are computed unless
    given.

    `algorithm`: "fast" takes E[x²] - E[x]² as the variance (one pass), "stable" E[(x - E[x])²].

    >>> standardize(jnp.array([1.0, 3.0])).round(3)
    Array([-1.,  1.], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise new_error(ValueError, f"algorithm must be 'fast' or 'stable', got {algorithm!r}")
    (x,) = promote_args_inexact("standardize", x)
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "fast":
            variance = jnp.mean(jnp.square(x), axis, keepdims=True, where=where) - jnp.square(mean)
            variance = jnp.maximum(variance, 0)  # rounding may leave it slightly negative
        else:
            variance = jnp.mean(jnp.square(x - mean), axis, keepdims=True, where=where)
    return jnp.subtract(x, mean) * lax.rsqrt(jnp.asarray(variance + epsilon, x.dtype))


def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: Any = None, axis: SupportsIndex = -1
) -> Array:
    """Rows of the identity: 1 at the position each integer names, else 0; zeros for an index out of
    range.

    Args:
      x: integer, any shape.
      num_classes: size of the new axis.
      dtype: of the result; default float.
      axis: where the new axis goes.
    Raises:
      TypeError: `num_classes` is traced (it is a size).

    >>> one_hot(jnp.array([0, 2]), 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    check_arraylike("one_hot", x)
    count = int(num_classes.__index__()) if hasattr(num_classes, "__index__") else int(num_classes)
    kind = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    x = jnp.asarray(x)
    try:
        position = operator.index(axis)
    except TypeError:
        raise new_error(TypeError, f"one_hot takes one axis, got {axis!r}") from None
    (position,) = _axis_tuple(position, x.ndim + 1)
    left = lax.expand_dims(x, (position,))
    shape = [1] * (x.ndim + 1)
    shape[position] = count
    classes = lax.broadcasted_iota(x.dtype, tuple(shape), position)
    return jnp.equal(left, classes).astype(kind)


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query · keyᵀ · scale + bias) · value over heads (Vaswani et al. 2017).

    Args:
      query: [..., T, N, H].
      key, value: [..., S, K, H], where N is a multiple of K (grouped queries).
      bias, mask: broadcastable to [..., N, T, S]; True in `mask` means attend.
      scale: default 1/sqrt(H).
      is_causal: position t attends to s ≤ t only.
      query_seq_lengths, key_value_seq_lengths: [...] int, valid lengths.
      local_window_size: attend to at most this far left and right.
      implementation: None or "xla".
      return_residual: also return the log of the normaliser, [..., T, N].
    Returns:
      [..., T, N, H] with the dtype of `query`.

    >>> dot_product_attention(*jnp.ones((3, 1, 5, 2, 4))).shape
    (1, 5, 2, 4)
    """
    if implementation not in (None, "xla"):
        raise new_error(ValueError, f"implementation must be None or 'xla', got {implementation!r}")
    query, key, value = jnp.asarray(query), jnp.asarray(key), jnp.asarray(value)
    length, heads, width = query.shape[-3:]
    keys, groups = key.shape[-3], key.shape[-2]
    if heads % groups:
        raise new_error(ValueError, f"{heads} query heads are no multiple of {groups} key heads")
    scale = 1.0 / np.sqrt(width) if scale is None else scale
    grouped = query.reshape(*query.shape[:-2], groups, heads // groups, width)
    scores = jnp.einsum("...tkgh,...skh->...kgts", grouped, key, preferred_element_type=jnp.float32)
    scores = scores.reshape(*scores.shape[:-4], heads, length, keys) * scale
    if bias is not None:
        scores = scores + bias
    allowed = _attention_mask(
        length, keys, mask, is_causal, query_seq_lengths, key_value_seq_lengths, local_window_size
    )
    if allowed is not None:
        scores = jnp.where(allowed, scores, jnp.finfo(scores.dtype).min / 2)
    weights = softmax(scores, axis=-1).astype(value.dtype)
    grouped_weights = weights.reshape(*weights.shape[:-3], groups, heads // groups, length, keys)
    out = jnp.einsum("...kgts,...skh->...tkgh", grouped_weights, value)
    out = out.reshape(*out.shape[:-3], heads, out.shape[-1]).astype(query.dtype)
    if query_seq_lengths is not None:
        valid = _below(length, jnp.asarray(query_seq_lengths))
        out = jnp.where(valid[..., None, None], out, 0)
    if return_residual:
        residual = logsumexp(scores, axis=-1).astype(query.dtype)
        return out, jnp.swapaxes(residual, -1, -2)
    return out


def _attention_mask(
    length: int,
    keys: int,
    mask: ArrayLike | None,
    is_causal: bool,
    query_seq_lengths: ArrayLike | None,
    key_value_seq_lengths: ArrayLike | None,
    window: int | tuple[int, int] | None,
) -> Array | None:
    """All restrictions as one boolean array broadcastable to [..., N, T, S], or None."""
    rows, columns = jnp.arange(length)[:, None], jnp.arange(keys)[None, :]
    parts = [] if mask is None else [jnp.asarray(mask)]
    if parts and parts[0].dtype != bool:
        raise new_error(
            ValueError,
            f"the mask of dot_product_attention must be bool, got {parts[0].dtype}; "
            "compare it (mask != 0), or add it to the scores as `bias`",
        )
    if is_causal:
        parts.append(rows >= columns)
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        parts.append((columns >= rows - left) & (columns <= rows + right))
    if query_seq_lengths is not None:
        parts.append(_below(length, jnp.asarray(query_seq_lengths))[..., None, :, None])
    if key_value_seq_lengths is not None:
        parts.append(_below(keys, jnp.asarray(key_value_seq_lengths))[..., None, None, :])
    if not parts:
        return None
    rank = max(part.ndim for part in parts)
    aligned = [part.reshape((1,) * (rank - part.ndim) + part.shape) for part in parts]
    return functools.reduce(operator.and_, aligned)


def _below(length: int, limits: Array) -> Array:
    """[..., length]: which positions are below the limits [...]."""
    positions = lax.broadcasted_iota(limits.dtype, (*limits.shape, length), limits.ndim)
    return positions < limits[..., None]
