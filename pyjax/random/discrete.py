"""Poisson, binomial and multinomial counts.

Small means are drawn by inversion (sums of exponential gaps), large ones by the transformed
rejection of Hörmann, "The transformed rejection method for generating Poisson random variables"
(1993) and "The generation of binomial random variates" (1993). A step of either method draws for
the whole array from one key, and each element takes the first draw that it accepts. So the samples
are JAX's for the same key, except where a logarithm's last bit decides about an acceptance.

Whatever the parameters, the loops end: elements without a distribution draw with harmless
parameters and get their value afterwards.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.errors import new_error
from pyjax.numpy.util import check_arraylike, promote_dtypes_inexact
from pyjax.random.keys import clone, drawing_program, key_impl, laid_out, scalar_key, split
from pyjax.random.sampling import Shape, as_shape, float_dtype, result_shape, uniform

Array = Any

_SMALL_MEAN = 10
# From here on the density is computed without cancellation.
_LARGE_MEAN = 1e4
# Where the squeeze of both transformed rejections begins and ends.
_QUICK, _EDGE = 0.07, 0.013


def _first_accepted(key: Array, shape: Shape, kind: np.dtype, propose: Any) -> Array:
    """The first value that each element accepts of propose(u, v) -> (value, accepted).

    u is uniform in [-1/2, 1/2), v in [0, 1).
    """

    def waiting(state: Any) -> Array:
        return jnp.any(~state[1])

    def step(state: Any) -> Any:
        value, done, key = state
        key, u_key, v_key = split(key, 3)
        u = uniform(u_key, shape, kind) - 0.5
        proposed, accepted = propose(u, uniform(v_key, shape, kind))
        # An element that has its value may take a later one: all of them are as good. (JAX does.)
        return jnp.where(accepted, proposed, value), done | accepted, key

    start = (jnp.full(shape, -1, kind), jnp.zeros(shape, bool), key)
    return lax.while_loop(waiting, step, start)[0]


# -- poisson ---------------------------------------------------------------------------------------


def _poisson_by_gaps(key: Array, rate: Array, kind: np.dtype) -> Array:
    """How many exponential gaps fit into `rate`; -1 for a rate that is not positive."""

    def inside(state: Any) -> Array:
        return jnp.any(state[1] > -rate)

    def step(state: Any) -> Any:
        count, log_product, key = state
        key, u_key = split(key)
        count = jnp.where(log_product > -rate, count + 1, count)
        return count, log_product + lax.log(uniform(u_key, rate.shape, rate.dtype)), key

    start = (jnp.zeros_like(rate, kind), jnp.zeros_like(rate), key)
    return lax.while_loop(inside, step, start)[0] - 1


def _log_density_far(k: Array, rate: Array) -> Array:
    """k log(rate) - rate - log k!, where the first term has more digits than float32 holds.

    By Stirling's formula the large terms are k (log(1 + x) - x) for x = rate/k - 1.
    """
    safe = lax.max(k, np.array(1, k.dtype))
    x = (rate - safe) / safe
    return safe * (lax.log1p(x) - x) - lax.log(2 * np.pi * safe) / 2 - 1 / (12 * safe)


def _poisson_by_rejection(key: Array, rate: Array) -> Array:
    log_rate = lax.log(rate)
    b = 0.931 + 2.53 * lax.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_squeeze = 0.9277 - 3.6224 / (b - 2)

    def propose(u: Array, v: Array) -> tuple[Array, Array]:
        room = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / room + b) * u + rate + 0.43)
        height = lax.log(v * inverse_alpha / (a / (room * room) + b))
        near = k * log_rate - rate - lax.lgamma(k + 1)
        density = jnp.where(rate < _LARGE_MEAN, near, _log_density_far(k, rate))
        quick = (room >= _QUICK) & (v <= v_squeeze)
        outside = (k < 0) | ((room < _EDGE) & (v > room))
        return k, quick | (~outside & (height <= density))

    return _first_accepted(key, rate.shape, rate.dtype, propose)


@laid_out
def poisson(
    key: Any, lam: Any, shape: Shape | None = None, dtype: Any = None, *, out_sharding: Any = None
) -> Array:
    """Counts with mean `lam` (Knuth's products below 10, Hörmann's PTRS above), as integers.

    Args:
      key: a threefry key.
      lam: rates, any real dtype; computed in float32.
      shape: of the result; default that of `lam`.
      dtype: integer, default int. Counts beyond its range become its largest value.
    Raises:
      ValueError: `dtype` is not an integer type.  NotImplementedError: a key that is not threefry.
    Special cases: -1 (in unsigned types: the largest value) for rates that are negative or nan; the
      largest value or 0, as the key wants, for an infinite one.

    >>> poisson(key(3), jnp.array([0.0, -1.0])).tolist()
    [0, -1]
    """
    kind = dtypes.canonicalize_dtype(np.int64 if dtype is None else dtype)
    if not dtypes.issubdtype(kind, np.integer):
        raise new_error(ValueError, f"poisson makes integers, got dtype {kind}")
    scalar = scalar_key("poisson", key)
    if key_impl(scalar) != "threefry2x32":
        raise new_error(
            NotImplementedError,
            f"poisson draws from threefry2x32 keys only, got a key of {key_impl(scalar)}; "
            'make one with pyjax.random.key(seed, impl="threefry2x32")',
        )
    target = result_shape("poisson", shape, lam)
    rate = lax.convert_element_type(jnp.broadcast_to(lam, target), np.float32)
    return _poisson(scalar, rate, kind)


@partial(jit, static_argnames="kind")
def _poisson(key: Array, rate: Array, kind: np.dtype) -> Array:
    undefined = jnp.isnan(rate)
    small = undefined | (rate < _SMALL_MEAN)
    # nan gives what 0 gives there: no gap fits.
    by_gaps = _poisson_by_gaps(key, jnp.where(small & ~undefined, rate, 0), kind)
    # An infinite rate gives infinity or nan, whose conversions are the two results.
    by_rejection = _poisson_by_rejection(clone(key), jnp.where(small, 1e5, rate))
    counts = jnp.where(small, by_gaps, by_rejection.astype(kind))
    return jnp.where(rate == 0, jnp.zeros((), kind), counts)


# -- binomial --------------------------------------------------------------------------------------


def _factorial_correction(k: int) -> float:
    """log k! less Stirling's formula for it."""
    stirling = math.log(2 * math.pi) / 2 + (k + 0.5) * math.log(k + 1) - (k + 1)
    return math.log(math.factorial(k)) - stirling


_CORRECTIONS = tuple(_factorial_correction(k) for k in range(10))
_LAST_CORRECTION = (1 / 12 - (1 / 360 - 1 / 1260 / 100) / 100) / 10


def _correction(k: Array) -> Array:
    """_factorial_correction, held at its value for 9 beyond 9.

    What is left out there is below 0.0083, and of opposite sign in the two pairs of terms that it
    occurs in. It is what JAX computes: with the whole series other samples would be accepted.
    """
    table = jnp.asarray(np.array(_CORRECTIONS), k.dtype)
    index = jnp.clip(k, 0, 9).astype(np.int32)
    return jnp.where(k <= 9, table[index], np.array(_LAST_CORRECTION, k.dtype))


def _binomial_by_gaps(key: Array, n: Array, p: Array) -> Array:
    """How many geometric gaps fit into n trials; -1 for negative n."""
    log_failure = lax.log1p(-p)

    def inside(state: Any) -> Array:
        return jnp.any(state[1] <= n)

    def step(state: Any) -> Any:
        count, position, key = state
        u_key, key = split(key)
        count = jnp.where(position <= n, count + 1, count)
        gap = lax.ceil(lax.log(uniform(u_key, n.shape, n.dtype)) / log_failure)
        return count, position + gap, key

    start = (jnp.zeros_like(n), jnp.zeros_like(n), key)
    return lax.while_loop(inside, step, start)[0] - 1


class _BinomialHat(NamedTuple):
    """The constants of the transformed rejection for n trials with probability p."""

    a: Array
    b: Array
    centre: Array
    alpha: Array
    v_squeeze: Array
    mode: Array
    odds: Array


def _binomial_hat(n: Array, p: Array) -> _BinomialHat:
    deviation = lax.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    return _BinomialHat(
        a=-0.0873 + 0.0248 * b + 0.01 * p,
        b=b,
        centre=n * p + 0.5,
        alpha=(2.83 + 5.1 / b) * deviation,
        v_squeeze=0.92 - 4.2 / b,
        mode=lax.floor((n + 1) * p),
        odds=p / (1 - p),
    )


def _binomial_by_rejection(key: Array, n: Array, p: Array) -> Array:
    a, b, centre, alpha, v_squeeze, m, odds = _binomial_hat(n, p)

    def propose(u: Array, v: Array) -> tuple[Array, Array]:
        room = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / room + b) * u + centre)
        height = lax.log(v * alpha / (a / (room * room) + b))
        density = (
            (m + 0.5) * lax.log((m + 1) / (odds * (n - m + 1)))
            + (n + 1) * lax.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * lax.log(odds * (n - k + 1) / (k + 1))
            + _correction(m)
            + _correction(n - m)
            - _correction(k)
            - _correction(n - k)
        )
        quick = (room >= _QUICK) & (v <= v_squeeze)
        outside = (k < 0) | (k > n)
        return k, quick | (~outside & (height <= density))

    return _first_accepted(key, n.shape, n.dtype, propose)


def _at_least_single(name: str, n: Any, p: Any) -> list[Array]:
    """Both in their common floating dtype, float32 at least: half precision cannot count far."""
    check_arraylike(name, n, p)
    n, p = promote_dtypes_inexact(jnp.asarray(n), jnp.asarray(p))
    working = dtypes.promote_types(p.dtype, np.float32)
    return [lax.convert_element_type(v, working) for v in (n, p)]


def binomial(key: Any, n: Any, p: Any, shape: Shape | None = None, dtype: Any = None) -> Array:
    """Number of successes in `n` trials with probability `p` each, as floats.

    By inversion through geometric gaps up to a mean of 10, above by Hörmann's BTRS.

    Args:
      n, p: broadcastable to `shape`; a fractional n counts as the integer below it.
      shape: of the result; default the broadcast shape of n and p.
      dtype: floating, default float.
    Special cases: nan for a negative or nan n, and for p outside [0, 1]; inf for infinite n.

    >>> binomial(key(0), 10.0, jnp.array([0.0, 1.0])).tolist()
    [0.0, 10.0]
    """
    kind = float_dtype("binomial", dtype)
    target = result_shape("binomial", shape, n, p)
    n, p = (jnp.broadcast_to(v, target) for v in _at_least_single("binomial", n, p))
    return lax.convert_element_type(_binomial(scalar_key("binomial", key), n, p), kind)


@jit
def _binomial(key: Array, n: Array, p: Array) -> Array:
    rare = p < 0.5
    q = jnp.where(rare, p, 1 - p)
    bad_n = jnp.isnan(n) | (n < 0)
    bad_p = jnp.isnan(q) | (q < 0)
    infinite = jnp.isinf(n)
    q = jnp.where(bad_p, 0.01, q)
    trials = lax.floor(n)
    small = bad_n | infinite | (n * q <= _SMALL_MEAN)
    by_gaps = _binomial_by_gaps(key, jnp.where(small & ~infinite, trials, 0), q)
    by_rejection = _binomial_by_rejection(
        clone(key), jnp.where(small, 1e4, trials), jnp.where(small, 0.5, q)
    )
    counts = jnp.where(small, by_gaps, by_rejection)
    counts = jnp.where(bad_n | bad_p, np.nan, counts)
    counts = jnp.where(infinite & ~bad_n & ~bad_p, np.inf, counts)
    return jnp.where(rare | bad_n | bad_p | infinite, counts, trials - counts)


@drawing_program(3)
def multinomial(
    key: Any,
    n: Any,
    p: Any,
    *,
    shape: Shape | None = None,
    dtype: Any = None,
    unroll: int = 1,
) -> Array:
    """Counts of `n` draws over the categories of `p`'s last axis, as floats unless `dtype` says
    otherwise.

    One category after the other takes a binomial share of the draws that are left; the weights
    need not sum to 1.

    Args:
      n: broadcastable to the batch shape.  p: weights [..., k].
      shape: of the result, its last axis the k categories; default by broadcasting.
      unroll: steps of the loop over the categories per iteration.

    >>> float(multinomial(key(0), 7, jnp.array([0.5, 0.25, 0.25])).sum())
    7.0
    """
    kind = dtypes.canonicalize_dtype(np.float64 if dtype is None else dtype)
    n, p = _at_least_single("multinomial", n, p)
    if not p.ndim:
        raise new_error(
            ValueError, "multinomial: p needs at least one dimension, its last axis the categories"
        )
    batch = result_shape(
        "multinomial", None if shape is None else as_shape("multinomial", shape)[:-1], n, p[..., 0]
    )
    p = jnp.broadcast_to(p, (*batch, p.shape[-1]))
    scalar = scalar_key("multinomial", key)
    weights = jnp.moveaxis(p, -1, 0)
    left = jnp.cumsum(weights[::-1], axis=0)[::-1]
    shares = weights / jnp.where(left == 0, 1, left)

    def take(left: Array, step: Any) -> tuple[Array, Array]:
        subkey, share = step
        drawn = _binomial(subkey, left, jnp.clip(share, 0, 1))
        return left - drawn, drawn

    start = jnp.broadcast_to(n, batch)
    steps = (split(scalar, weights.shape[0]), shares)
    counts = lax.scan(take, start, steps, unroll=unroll)[1]
    return lax.convert_element_type(jnp.moveaxis(counts, 0, -1), kind)
