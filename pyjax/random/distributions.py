"""Further distributions, built from the basic ones by inversion, transformation or rejection."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.jit import jit
from pyjax.api.vmap import vmap
from pyjax.core import dtypes
from pyjax.core.errors import TypePromotionError, new_error
from pyjax.core.structural import as_split
from pyjax.numpy.util import check_arraylike, promote_dtypes_inexact
from pyjax.random.keys import drawing_program, laid_out, scalar_key, split
from pyjax.random.sampling import (
    Shape,
    as_shape,
    exponential,
    float_dtype,
    normal,
    rademacher,
    result_shape,
    uniform,
)

Array = Any


def _prepared(
    name: str, key: Any, shape: Shape | None, dtype: Any, *params: Any, narrows: bool = False
) -> tuple[Array, tuple[int, ...], np.dtype, list[Array]]:
    """Checked key, shape and dtype, and the parameters converted and broadcast to the shape.

    Raises:
      TypePromotionError: a parameter does not fit into the dtype; not with `narrows`.
    """
    kind = float_dtype(name, dtype)
    target = result_shape(name, shape, *params)
    for p in () if narrows else params:
        if jnp.result_type(p, kind) != kind:
            raise new_error(
                TypePromotionError,
                f"In arguments to {name}, cannot safely cast argument of type "
                f"{dtypes.dtype(p)} to {kind}.",
                "The result has that dtype, and the argument would lose digits or a part.",
                "Pass dtype=, or convert the argument: x.real, x.astype(...).",
            )
    full = [jnp.broadcast_to(lax.convert_element_type(p, kind), target) for p in params]
    return scalar_key(name, key), target, kind, full


def _positive_uniform(key: Array, shape: Shape, kind: np.dtype) -> Array:
    """Uniform in (0, 1): safe under a logarithm."""
    return uniform(key, shape, kind, minval=dtypes.finfo(kind).tiny)


@drawing_program(1)
@laid_out
def laplace(key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Laplace with density exp(-|x|)/2.

    >>> laplace(key(0), (2, 3)).shape
    (2, 3)
    """
    scalar, target, kind, _ = _prepared("laplace", key, as_shape("laplace", shape), dtype)
    low = np.nextafter(np.array(-1.0, kind), np.array(0.0, kind), dtype=kind)
    u = uniform(scalar, target, kind, minval=low, maxval=1.0)
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))


@drawing_program(1)
@laid_out
def logistic(key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Standard logistic: logit of a uniform value.

    >>> logistic(key(0), (2, 3)).shape
    (2, 3)
    """
    scalar, target, kind, _ = _prepared("logistic", key, as_shape("logistic", shape), dtype)
    u = _positive_uniform(scalar, target, kind)
    return lax.log(u) - lax.log1p(-u)


@drawing_program(1)
@laid_out
def cauchy(key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Standard Cauchy: tan(π(u - 1/2)).

    >>> cauchy(key(0), (2, 3)).shape
    (2, 3)
    """
    scalar, target, kind, _ = _prepared("cauchy", key, as_shape("cauchy", shape), dtype)
    u = uniform(scalar, target, kind, minval=dtypes.finfo(kind).eps, maxval=1.0)
    return lax.tan(np.array(math.pi, kind) * (u - np.array(0.5, kind)))


@drawing_program(2)
@laid_out
def pareto(
    key: Any, b: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Pareto with density b / x**(b+1) for x ≥ 1.

    >>> (pareto(key(0), 2.0, (4,)) >= 1).all()
    Array(True, dtype=bool)
    """
    scalar, target, kind, (b,) = _prepared("pareto", key, shape, dtype, b)
    return lax.exp(exponential(scalar, target, kind) / b)


@laid_out
def rayleigh(
    key: Any, scale: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Rayleigh: scale · sqrt(-2 log u).

    >>> (rayleigh(key(0), 1.0, (4,)) > 0).all()
    Array(True, dtype=bool)
    """
    scalar, target, kind, (scale,) = _prepared("rayleigh", key, shape, dtype, scale)
    return scale * lax.sqrt(-2 * lax.log(_positive_uniform(scalar, target, kind)))


@drawing_program(3)
def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Shape = (), dtype: Any = None
) -> Array:
    """Weibull: scale · (-log(1-u))**(1/concentration).

    >>> (weibull_min(key(0), 1.0, 2.0, (4,)) > 0).all()
    Array(True, dtype=bool)
    """
    target = result_shape("weibull_min", as_shape("weibull_min", shape), scale, concentration)
    scalar, target, kind, (scale, concentration) = _prepared(
        "weibull_min", key, target, dtype, scale, concentration, narrows=True
    )
    return scale * lax.pow(exponential(scalar, target, kind), 1 / concentration)


@drawing_program(1)
@laid_out
def maxwell(key: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Maxwell: length of a standard normal vector in three dimensions.

    >>> (maxwell(key(0), (4,)) > 0).all()
    Array(True, dtype=bool)
    """
    scalar, target, kind, _ = _prepared("maxwell", key, as_shape("maxwell", shape), dtype)
    return jnp.linalg.norm(normal(scalar, (*target, 3), kind), axis=-1)


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Shape = (), dtype: Any = None
) -> Array:
    """Maxwell with random sign, scaled and shifted.

    >>> double_sided_maxwell(key(0), 0.0, 1.0, (2,)).shape
    (2,)
    """
    joint = np.broadcast_shapes(np.shape(loc), np.shape(scale))
    scalar, target, kind, _ = _prepared(
        "double_sided_maxwell", key, as_shape("double_sided_maxwell", shape) + joint, dtype
    )
    first, second = split(scalar)
    sign = rademacher(second, target, kind)
    return maxwell(first, target, kind) * sign * jnp.asarray(scale, kind) + jnp.asarray(loc, kind)


@drawing_program(2)
@laid_out
def lognormal(
    key: Any,
    sigma: Any = 1.0,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """exp(sigma · normal).

    >>> (lognormal(key(0), 0.5, (4,)) > 0).all()
    Array(True, dtype=bool)
    """
    scalar, target, kind, (sigma,) = _prepared("lognormal", key, shape, dtype, sigma)
    return lax.exp(normal(scalar, target, kind) * sigma)


@drawing_program(2)
@laid_out
def geometric(
    key: Any, p: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Number of trials up to the first success, from 1; integers.

    >>> (geometric(key(0), 0.5, (4,)) >= 1).all()
    Array(True, dtype=bool)
    """
    integer = dtypes.canonicalize_dtype(np.int64 if dtype is None else dtype)
    if not dtypes.issubdtype(integer, np.integer):
        raise new_error(ValueError, f"geometric makes integers, got dtype {integer}")
    (p,) = promote_dtypes_inexact(jnp.asarray(p))
    target = result_shape("geometric", shape, p)
    u = _positive_uniform(scalar_key("geometric", key), target, p.dtype)
    return (lax.floor(lax.log(u) / lax.log1p(-jnp.broadcast_to(p, target))) + 1).astype(integer)


@drawing_program(4)
@laid_out
def triangular(
    key: Any,
    left: Any,
    mode: Any,
    right: Any,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Triangular on [left, right] with its peak at mode.

    >>> (triangular(key(0), 0.0, 0.5, 1.0, (4,)) < 1).all()
    Array(True, dtype=bool)
    """
    scalar, target, kind, (left, mode, right) = _prepared(
        "triangular", key, shape, dtype, left, mode, right
    )
    split_at = (mode - left) / (right - left)
    u = uniform(scalar, target, kind)
    rising = left + lax.sqrt(u * (right - left) * (mode - left))
    falling = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return jnp.where(u < split_at, rising, falling)


@drawing_program(2)
@laid_out
def wald(
    key: Any, mean: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Inverse Gaussian with the given mean and scale 1 (Michael, Schucany & Haas 1976).

    >>> (wald(key(0), 1.0, (4,)) > 0).all()
    Array(True, dtype=bool)
    """
    scalar, target, kind, (mean,) = _prepared("wald", key, shape, dtype, mean)
    first, second = split(scalar)
    y = jnp.square(normal(first, target, kind))
    root = lax.sqrt(4 * mean * y + jnp.square(mean * y))
    x = mean + jnp.square(mean) * y / 2 - mean / 2 * root
    chooses_small = uniform(second, target, kind) <= mean / (mean + x)
    return jnp.where(chooses_small, x, jnp.square(mean) / x)


def _gamma_one(key: Array, alpha: Array, log_space: bool) -> Array:
    """One gamma variate by Marsaglia & Tsang (2000); for alpha < 1 boosted from alpha + 1."""
    kind = alpha.dtype
    one, third = np.array(1, kind), np.array(1 / 3, kind)
    boosted = jnp.where(alpha >= one, alpha, alpha + one)
    d = boosted - third
    c = third / lax.sqrt(d)
    key, boost_key = split(key)

    def rejected(state: Any) -> Array:
        _, x_squared, v, u = state
        squeeze = u >= one - np.array(0.0331, kind) * jnp.square(x_squared)
        exact = lax.log(u) >= x_squared / 2 + d * (one - v + lax.log(v))
        return squeeze & exact

    def draw(state: Any) -> Any:
        key, x_key, u_key = split(state[0], 3)

        def outside(inner: Any) -> Array:
            return inner[2] <= 0

        def again(inner: Any) -> Any:
            inner_key, sub = split(inner[0])
            x = normal(sub, (), kind)
            return inner_key, x, one + x * c

        _, x, v = lax.while_loop(outside, again, (x_key, np.zeros((), kind), -one))
        return key, jnp.square(x), v**3, _positive_uniform(u_key, (), kind)

    start = (key, np.zeros((), kind), one, np.array(2, kind))
    _, _, v, _ = lax.while_loop(rejected, draw, tuple(jnp.asarray(s) for s in start))
    log_boost = -exponential(boost_key, (), kind) / alpha
    log_boost = jnp.where(alpha >= one, 0, log_boost)
    if log_space:
        return lax.log(d) + lax.log(v) + log_boost
    return d * v * lax.exp(log_boost)


@partial(custom_jvp, nondiff_argnums=(2,))
def _gamma_samples(key: Array, alpha: Array, log_space: bool) -> Array:
    # Each has a key of its own: over mesh axes of type Explicit all are drawn everywhere.
    wanted = alpha.aval.split
    alpha = as_split(alpha, None)
    count = math.prod(alpha.shape)
    keys = split(key, max(count, 1))[:count]
    # Shapes 0 and infinity have all their mass in one point, negative ones none.
    plain = (alpha > 0) & (alpha < np.inf)
    safe = jnp.where(plain, alpha, 1).reshape(count)
    drawn = vmap(lambda k, a: _gamma_one(k, a, log_space))(keys, safe).reshape(alpha.shape)
    at_zero = -np.inf if log_space else 0
    ends = jnp.where(alpha == 0, at_zero, jnp.where(alpha == np.inf, np.inf, np.nan))
    return as_split(jnp.where(plain, drawn, ends.astype(drawn.dtype)), wanted)


@_gamma_samples.defjvp
def _gamma_jvp(log_space: bool, primals: Any, tangents: Any) -> Any:
    """The derivative of a sample with respect to alpha at a fixed quantile (implicit
    reparametrisation, Figurnov et al. 2018)."""
    (key, alpha), (_, g) = primals, tangents
    samples = _gamma_samples(key, alpha, log_space)
    if not log_space:
        return samples, g * lax.random_gamma_grad(alpha, samples)
    # Far down, where the variate itself underflows, its distribution is x**a / Γ(a + 1).
    low = samples < -30
    value = lax.exp(jnp.where(low, 0, samples))
    slope = lax.random_gamma_grad(alpha, value) / value
    return samples, g * jnp.where(low, (lax.digamma(alpha + 1) - samples) / alpha, slope)


@partial(jit, static_argnames=("shape", "log_space"))
def _gamma(key: Array, alpha: Array, shape: Shape, log_space: bool) -> Array:
    return _gamma_samples(key, jnp.broadcast_to(alpha, shape), log_space)


@laid_out
def gamma(
    key: Any, a: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Gamma with shape parameter `a` and scale 1; differentiable in `a`.

    Special cases: 0 and inf for a = 0 and a = inf; nan for negative or nan a.

    >>> abs(gamma(key(0), 3.0, (10_000,)).mean() - 3) < 0.1
    Array(True, dtype=bool)
    """
    scalar, target, _, (a,) = _prepared("gamma", key, shape, dtype, a, narrows=True)
    return _gamma(scalar, a, target, False)


@laid_out
def loggamma(
    key: Any, a: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Logarithm of a gamma variate, accurate for small `a`, where the variate itself underflows.

    >>> loggamma(key(0), 3.0, (2,)).shape
    (2,)
    """
    scalar, target, _, (a,) = _prepared("loggamma", key, shape, dtype, a, narrows=True)
    return _gamma(scalar, a, target, True)


@drawing_program(3)
@laid_out
def beta(
    key: Any,
    a: Any,
    b: Any,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Beta with parameters a, b, as a ratio of gamma variates.

    >>> (beta(key(0), 2.0, 2.0, (3,)) < 1).all()
    Array(True, dtype=bool)
    """
    scalar, target, kind, (a, b) = _prepared("beta", key, shape, dtype, a, b)
    first, second = split(scalar)
    log_x = loggamma(first, a, target, kind)
    log_y = loggamma(second, b, target, kind)
    top = jnp.maximum(log_x, log_y)
    x, y = lax.exp(log_x - top), lax.exp(log_y - top)
    return x / (x + y)


@laid_out
def dirichlet(
    key: Any,
    alpha: Any,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Dirichlet: rows of positive numbers that sum to 1; `alpha`'s last axis is the components.

    >>> dirichlet(key(0), jnp.ones(4)).sum().round(3)
    Array(1., dtype=float32)
    """
    kind = float_dtype("dirichlet", dtype)
    check_arraylike("dirichlet", alpha)
    alpha = jnp.asarray(alpha, kind)
    if alpha.ndim < 1:
        raise new_error(ValueError, "dirichlet needs alpha with at least one dimension")
    batch = alpha.shape[:-1] if shape is None else as_shape("dirichlet", shape)
    full = batch + alpha.shape[-1:]
    logs = loggamma(scalar_key("dirichlet", key), jnp.broadcast_to(alpha, full), full, kind)
    top = jnp.max(logs, axis=-1, keepdims=True, initial=-np.inf)
    weights = lax.exp(logs - lax.stop_gradient(top))
    return weights / jnp.sum(weights, axis=-1, keepdims=True)


@laid_out
def chisquare(
    key: Any, df: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Chi-squared with `df` degrees of freedom.

    >>> (chisquare(key(0), 3.0, shape=(4,)) > 0).all()
    Array(True, dtype=bool)
    """
    scalar, target, kind, (df,) = _prepared("chisquare", key, shape, dtype, df)
    return 2 * gamma(scalar, df / 2, target, kind)


@drawing_program(3)
@laid_out
def f(
    key: Any,
    dfnum: Any,
    dfden: Any,
    shape: Shape | None = None,
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Snedecor's F: ratio of two scaled chi-squared variates.

    >>> (f(key(0), 3.0, 5.0, shape=(4,)) > 0).all()
    Array(True, dtype=bool)
    """
    scalar, target, kind, (dfnum, dfden) = _prepared("f", key, shape, dtype, dfnum, dfden)
    denominator_key, numerator_key = split(scalar)
    upper = chisquare(numerator_key, dfnum, target, kind) / dfnum
    return upper / (chisquare(denominator_key, dfden, target, kind) / dfden)


@drawing_program(2)
@laid_out
def t(
    key: Any, df: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Student's t with `df` degrees of freedom.

    >>> t(key(0), 3.0, (2,)).shape
    (2,)
    """
    scalar, target, kind, (df,) = _prepared("t", key, shape, dtype, df)
    first, second = split(scalar)
    return normal(first, target, kind) * lax.sqrt(df / 2 / gamma(second, df / 2, target, kind))


@drawing_program(2)
@laid_out
def generalized_normal(
    key: Any, p: Any, shape: Shape = (), dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Density proportional to exp(-|x|**p).

    >>> generalized_normal(key(0), 2.0, (3,)).shape
    (3,)
    """
    kind = float_dtype("generalized_normal", dtype)
    first, second = split(scalar_key("generalized_normal", key))
    target = as_shape("generalized_normal", shape)
    power = 1 / jnp.asarray(p, kind)
    magnitude = gamma(first, power, target, kind) ** power
    return magnitude * rademacher(second, target, kind)


@drawing_program(1)
@laid_out
def ball(
    key: Any,
    d: int,
    p: Any = 2,
    shape: Shape = (),
    dtype: Any = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniform points of the unit ball of the p-norm in d dimensions (Barthe et al. 2005).

    >>> jnp.linalg.norm(ball(key(0), 3)) <= 1
    Array(True, dtype=bool)
    """
    kind = float_dtype("ball", dtype)
    first, second = split(scalar_key("ball", key))
    target = as_shape("ball", shape)
    g = generalized_normal(first, p, (*target, d), kind)
    e = exponential(second, target, kind)
    p = jnp.asarray(p, kind)
    length = (jnp.sum(jnp.abs(g) ** p, axis=-1) + e) ** (1 / p)
    return g / length[..., None]


@drawing_program(3)
@laid_out
def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Shape | None = None,
    dtype: Any = None,
    method: str = "cholesky",
    *,
    out_sharding: Any = None,
) -> Array:
    """Normal vectors with the given mean [..., n] and covariance [..., n, n].

    `method`: "cholesky" (needs a positive definite covariance), "eigh" or "svd" (semi-definite is
      enough).

    >>> multivariate_normal(key(0), jnp.zeros(2), jnp.eye(2), (5,)).shape
    (5, 2)
    """
    if method not in ("cholesky", "eigh", "svd"):
        raise new_error(ValueError, f"method must be 'cholesky', 'eigh' or 'svd', got {method!r}")
    mean, cov = promote_dtypes_inexact(jnp.asarray(mean), jnp.asarray(cov))
    kind = mean.dtype if dtype is None else float_dtype("multivariate_normal", dtype)
    if mean.ndim < 1 or cov.ndim < 2 or cov.shape[-2:] != mean.shape[-1:] * 2:
        raise new_error(
            ValueError,
            f"multivariate_normal needs mean [..., n] and cov [..., n, n], "
            f"got {mean.shape} and {cov.shape}",
        )
    batch = np.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    target = batch if shape is None else as_shape("multivariate_normal", shape)
    mean, cov = mean.astype(kind), cov.astype(kind)
    if method == "cholesky":
        factor = jnp.linalg.cholesky(cov)
    elif method == "eigh":
        values, vectors = jnp.linalg.eigh(cov)
        factor = vectors * jnp.sqrt(jnp.maximum(values, 0))[..., None, :]
    else:
        u, s, _ = jnp.linalg.svd(cov)
        factor = u * jnp.sqrt(s)[..., None, :]
    samples = normal(scalar_key("multivariate_normal", key), target + mean.shape[-1:], kind)
    deviations = jnp.einsum("...ij,...j->...i", factor, samples)
    out = np.broadcast_shapes(mean.shape, deviations.shape)
    return jnp.broadcast_to(mean, out) + jnp.broadcast_to(deviations, out)


@drawing_program(1)
@laid_out
def orthogonal(
    key: Any,
    n: int,
    shape: Shape = (),
    dtype: Any = None,
    m: int | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Uniformly distributed (semi-)orthogonal n×m matrices (m defaults to n) (Mezzadri 2007).

    >>> q = orthogonal(key(0), 3)
    >>> jnp.allclose(q @ q.T, jnp.eye(3), atol=1e-5)
    Array(True, dtype=bool)
    """
    kind = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    columns = n if m is None else m
    tall = (max(n, columns), min(n, columns))
    z = normal(scalar_key("orthogonal", key), as_shape("orthogonal", shape) + tall, kind)
    q, r = jnp.linalg.qr(z)
    d = jnp.diagonal(r, 0, -2, -1)
    q = q * jnp.expand_dims(d / jnp.abs(d), -2)
    return q if n >= columns else jnp.swapaxes(q, -1, -2).conj()
