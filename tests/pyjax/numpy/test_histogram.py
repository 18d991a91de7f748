"""Histograms of evenly spaced bins: each element is in the bin that a search of the edges finds."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp


def searched(a: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Counts by comparing each element with all edges."""
    last = len(edges) - 2
    place = np.searchsorted(edges, a, "right") - 1
    place = np.where(a == edges[-1], last, place)
    inside = (a >= edges[0]) & (a <= edges[-1])
    return np.bincount(place[inside], minlength=last + 1)


def elements(kind: str, dtype: type) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "normal":
        return rng.normal(size=20_000).astype(dtype)
    if kind == "on the edges":
        return np.tile(np.linspace(-3, 7, 101, dtype=dtype), 20)
    if kind == "beside the edges":
        edges = np.linspace(-3, 7, 101, dtype=dtype)
        return np.concatenate(
            [edges, np.nextafter(edges, dtype(9)), np.nextafter(edges, dtype(-9))]
        )
    if kind == "one unit apart":  # edges are rounded to elements, and several are equal
        return (dtype(2.0**24) + rng.integers(0, 64, 5000)).astype(dtype)
    if kind == "all equal":
        return np.full(100, 3.5, dtype)
    if kind == "huge":
        return rng.uniform(-1, 1, 5000).astype(dtype) * np.finfo(dtype).max / dtype(4)
    if kind == "tiny":
        return rng.uniform(-1, 1, 5000).astype(dtype) * np.finfo(dtype).smallest_subnormal * 1000
    raise AssertionError(kind)


KINDS = (
    "normal",
    "on the edges",
    "beside the edges",
    "one unit apart",
    "all equal",
    "huge",
    "tiny",
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_a_search(kind: str, dtype: type) -> None:
    with pyjax.enable_x64(True):
        a = elements(kind, dtype)
        # More edges than there are elements between are not in order where they are rounded.
        for bins in (1, 3, 32) if kind == "one unit apart" else (1, 3, 100, 1000):
            counts, edges = jnp.histogram(jnp.asarray(a), bins)
            assert (np.diff(edges) >= 0).all()
            np.testing.assert_array_equal(counts, searched(a, np.asarray(edges)))


def test_ranges_nans_and_infinities() -> None:
    a = np.array([0.0, 0.5, 1.0, -0.1, 1.1, np.nan, np.inf, -np.inf], np.float32)
    counts, edges = jnp.histogram(jnp.asarray(a), 4, range=(0.0, 1.0))
    assert counts.tolist() == [1, 0, 1, 1] and edges.tolist() == [0, 0.25, 0.5, 0.75, 1]
    weights = jnp.arange(8.0)
    assert jnp.histogram(jnp.asarray(a), 4, (0.0, 1.0), weights)[0].tolist() == [0, 0, 1, 2]


def test_edges_that_are_given_may_be_uneven() -> None:
    a = jnp.array([0.0, 1.0, 9.0, 10.0, 99.0])
    assert jnp.histogram(a, jnp.array([0.0, 1.0, 10.0, 100.0]))[0].tolist() == [1, 2, 2]


def test_edges_of_nan_have_no_elements() -> None:
    counts, edges = jnp.histogram(jnp.array([1.0, np.nan, 2.0]))
    assert np.isnan(edges).all() and counts.tolist() == [0] * 10
