"""Elementwise programs, reductions, rearrangements, sorts, gathers and scatters."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks import programs
from benchmarks.suite.package import (
    FRAMEWORK,
    Made,
    add,
    add_all,
    integers,
    jax,
    jnp,
    lax,
    ndimage,
    normal,
    on,
    program,
    special,
    stats,
    uniform,
)

MILLION = (1_000_000,)
FOUR_MILLION = (4_000_000,)

add_all(
    "elementwise",
    [
        ("x + 1, 8M", lambda x: x + 1, [(256, 256, 128)]),
        ("exp, 1M", jnp.exp, [MILLION]),
        ("sin, 1M", jnp.sin, [MILLION]),
        ("tanh, 1M", jnp.tanh, [MILLION]),
        ("log1p(abs), 1M", lambda x: jnp.log1p(jnp.abs(x)), [MILLION]),
        ("power, 1M", lambda x, y: jnp.abs(x) ** y, [MILLION] * 2),
        ("arctan2, 1M", jnp.arctan2, [MILLION] * 2),
        ("a*b + sin(a), 4M", lambda a, b: a * b + jnp.sin(a), [FOUR_MILLION] * 2),
        ("gelu, 1M", jax.nn.gelu, [MILLION]),
        ("where and clip, 1M", lambda x: jnp.where(x > 0, jnp.clip(x, 0.1, 0.9), x * x), [MILLION]),
    ],
)
add(
    "elementwise",
    "x*y + x in bf16, 1M",
    on(lambda x, y: x * y + x, MILLION, MILLION, dtype=jnp.bfloat16),
    tolerance=2e-2,
)


@program("elementwise", "erfinv, 1M")
def _erfinv() -> Made:
    return special.erfinv, (uniform(-0.99, 0.99, *MILLION),)


@program("elementwise", "gammaln, 1M")
def _gammaln() -> Made:
    return special.gammaln, (uniform(0.5, 20, *MILLION),)


@program("elementwise", "normal distribution function, 1M")
def _normal_cdf() -> Made:
    return stats.norm.cdf, (normal(*MILLION),)


@program("elementwise", "normal quantiles, 1M")
def _normal_quantiles() -> Made:
    return stats.norm.ppf, (uniform(0.001, 0.999, *MILLION),)


@program("elementwise", "Black-Scholes, 1M options")
def _black_scholes() -> Made:
    def price(spot: Any, strike: Any, time: Any) -> tuple[Any, Any]:
        rate, volatility = 0.02, 0.3
        spread = volatility * jnp.sqrt(time)
        d1 = (jnp.log(spot / strike) + (rate + volatility**2 / 2) * time) / spread
        d2 = d1 - spread
        normal_cdf = lambda x: 0.5 + 0.5 * special.erf(x / np.float32(np.sqrt(2)))
        discounted = strike * jnp.exp(-rate * time)
        call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
        return call, call - spot + discounted

    return price, tuple(
        uniform(low, high, *MILLION, seed=i)
        for i, (low, high) in enumerate(((10, 50), (10, 50), (0.2, 2)))
    )


add_all(
    "reductions",
    [
        ("sum of 4M", jnp.sum, [FOUR_MILLION]),
        ("sums of columns, 4000×1000", lambda x: x.sum(0), [(4000, 1000)]),
        ("sums of rows, 4000×1000", lambda x: x.sum(1), [(4000, 1000)]),
        ("maximum over the middle, 100×1000×200", lambda x: x.max(1), [(100, 1000, 200)]),
        ("argmax over the middle, 64×512×128", lambda x: jnp.argmax(x, 1), [(64, 512, 128)]),
        ("argmax over axis 0, 4000×1000", lambda x: jnp.argmax(x, 0), [(4000, 1000)]),
        ("any of rows of 8, 100,000", lambda x: (x > 1).any(-1), [(100_000, 8)]),
        ("sums of rows of 16, 100,000", lambda x: x.sum(-1), [(100_000, 16)]),
        ("maxima of rows of 32, 100,000", lambda x: x.max(-1), [(100_000, 32)]),
        ("mean and variance, 4096×768", lambda x: (x.mean(-1), x.var(-1)), [(4096, 768)]),
        ("logsumexp over axis 0, 4000×1000", lambda x: jax.nn.logsumexp(x, 0), [(4000, 1000)]),
        (
            "sum(a + b*exp(-a)*tanh(b)), 4M",
            lambda a, b: (a + b * jnp.exp(-a) * jnp.tanh(b)).sum(),
            [FOUR_MILLION] * 2,
        ),
        ("norm of 1M", jnp.linalg.norm, [MILLION]),
        ("any and all, 4M", lambda x: (jnp.any(x > 9), jnp.all(x > -9)), [FOUR_MILLION]),
        ("cumsum of 1M", jnp.cumsum, [MILLION]),
        ("cumsum over axis 0, 1000×1000", lambda x: jnp.cumsum(x, 0), [(1000, 1000)]),
        ("cumulative maximum, 1M", lambda x: lax.cummax(x), [MILLION]),
    ],
)


def _transpose(axes: tuple[int, ...]) -> Any:
    return lambda x: jnp.transpose(x, axes)


for _axes in ((2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)):
    add("rearranging", f"transpose {_axes}, 8M", on(_transpose(_axes), (256, 256, 128)))
add_all(
    "rearranging",
    [
        ("transpose (0, 3, 1, 2), 32×56×56×64", _transpose((0, 3, 1, 2)), (32, 56, 56, 64)),
        ("x.T + x, 2048²", lambda x: x.T + x, (2048, 2048)),
        (
            "roll there and back, 4M",
            lambda x: jnp.roll(x, 1) + jnp.roll(x, -1) - 2 * x,
            FOUR_MILLION,
        ),
        ("pad and flip, 2048²", lambda x: jnp.flip(jnp.pad(x, 8), 1), (2048, 2048)),
        (
            "concatenate and stack, 1M",
            lambda x: jnp.stack([jnp.concatenate([x[1:], x[:1]]), x]),
            MILLION,
        ),
        (
            "tile and repeat, 1000×100",
            lambda x: jnp.repeat(jnp.tile(x, (4, 1)), 4, axis=1),
            (1000, 100),
        ),
    ],
)

add_all(
    "sorting",
    [
        ("sort, 1M", jnp.sort, MILLION),
        ("argsort, 1M", jnp.argsort, MILLION),
        ("sort of rows, 1000×1000", lambda x: jnp.sort(x, -1), (1000, 1000)),
        ("top_k of 1M, k = 10", lambda x: lax.top_k(x, 10), MILLION),
        ("top_k of 100×10000, k = 50", lambda x: lax.top_k(x, 50), (100, 10_000)),
        ("median of 1M", jnp.median, MILLION),
        (
            "percentiles of 1000×1000",
            lambda x: jnp.percentile(x, jnp.array([5.0, 50, 95]), axis=1),
            (1000, 1000),
        ),
    ],
)


@program("sorting", "unique of 100,000 with a size")
def _unique() -> Made:
    return lambda x: jnp.unique(x, size=1000), (integers(1000, 100_000),)


@program("sorting", "searchsorted, 100,000 in 100,000")
def _searchsorted() -> Made:
    return jnp.searchsorted, (jnp.sort(normal(100_000)), normal(100_000, seed=1))


@program("indexing", "gather of 1M from 1M")
def _take() -> Made:
    return lambda x, i: x[i], (normal(*MILLION), integers(1_000_000, *MILLION))


@program("indexing", "x[i, j], 1M of 1000×1000")
def _pairs() -> Made:
    places = integers(1000, *MILLION), integers(1000, *MILLION, seed=1)
    return lambda x, i, j: x[i, j], (normal(1000, 1000), *places)


@program("indexing", "map_coordinates of 512², linear")
def _between() -> Made:
    def sampled(image: Any, at: Any) -> Any:
        return ndimage.map_coordinates(image, [at[0], at[1]], order=1)

    return sampled, (normal(512, 512), uniform(0, 511, 2, 512, 512))


@program("indexing", "gather of 100,000 rows of 64")
def _rows() -> Made:
    return lambda x, i: x[i], (normal(50_000, 64), integers(50_000, 100_000))


@program("indexing", "scatter-add of 1M into 100,000")
def _scatter() -> Made:
    arguments = normal(100_000), integers(100_000, *MILLION), normal(*MILLION, seed=1)
    return lambda x, i, v: x.at[i].add(v), arguments


@program("indexing", "scatter-max of 1M into 1,000")
def _scatter_max() -> Made:
    arguments = normal(1000), integers(1000, *MILLION), normal(*MILLION, seed=1)
    return lambda x, i, v: x.at[i].max(v), arguments


@program("indexing", "histogram of 1M, 100 bins")
def _histogram() -> Made:
    return lambda x: jnp.histogram(x, 100), (normal(*MILLION),)


@program("indexing", "rows by take_along_axis, 1000×1000")
def _along() -> Made:
    return lambda x, i: jnp.take_along_axis(x, i, 1), (
        normal(1000, 1000),
        integers(1000, 1000, 1000),
    )


@program("indexing", "9000 windows of 64 by their indices, times a vector")
def _windows() -> Made:
    def windows(x: Any, weights: Any) -> Any:
        return x[jnp.arange(9000)[:, None] + jnp.arange(64)] @ weights

    return windows, (normal(10_000), normal(64))


@program("indexing", "x[i // 3, i % 3], 90,000")
def _quotients() -> Made:
    def quotients(x: Any) -> Any:
        i = jnp.arange(90_000)
        return 2 * x[i // 3, i % 3]

    return quotients, (normal(30_000, 3),)


add("indexing", "segment_sum of 1M into 1000", lambda: programs.segment_sums(FRAMEWORK))
add("indexing", "bincount of 1M into 1000", lambda: programs.counts(FRAMEWORK))


@program("indexing", "random crops of 64 images that are padded by reflection")
def _crops() -> Made:
    def crops(images: Any, corners: Any) -> Any:
        padded = jnp.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)), mode="reflect")
        return jax.vmap(lambda x, at: lax.dynamic_slice(x, (*at, 0), (32, 32, 3)))(padded, corners)

    return crops, (normal(64, 32, 32, 3), integers(9, 64, 2))


@program("indexing", "roll by computed amounts along both axes, 512²")
def _computed_roll() -> Made:
    return lambda x, by: jnp.roll(x, (by[0], by[1]), (0, 1)) + x, (normal(512, 512), integers(9, 2))
