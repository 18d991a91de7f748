"""ppermute along one axis and several, against who sends to whom."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pyjax
from pyjax import lax
from pyjax.sharding import AxisType, PartitionSpec

SIZES = {"a": 2, "b": 3}
PAIRS = [(0, 4), (1, 2), (5, 0), (3, 3)]


def sent(x: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    found = np.zeros_like(x)
    for source, target in pairs:
        found[target] = x[source]
    return found


def over_axes(f: Any, names: tuple[str, ...]) -> Any:
    """Of arrays whose first dimensions have these names."""
    for name in reversed(names):
        f = pyjax.vmap(f, axis_name=name)
    return f


@pytest.mark.parametrize("mapped", list(itertools.permutations(SIZES)), ids=str)
@pytest.mark.parametrize("names", list(itertools.permutations(SIZES)), ids=str)
def test_along_axes_of_vmap(names: tuple[str, ...], mapped: tuple[str, ...]) -> None:
    """Positions count in the order of the names, whichever map is the outer one."""
    x = np.array([np.nan, 1, np.inf, 3, 4, 5], np.float32)
    sizes = [SIZES[n] for n in names]
    order = [names.index(n) for n in mapped]
    f = over_axes(lambda v: lax.ppermute(v, names, PAIRS), mapped)
    got = np.asarray(f(x.reshape(sizes).transpose(order))).transpose(np.argsort(order))
    np.testing.assert_array_equal(got.reshape(-1), sent(x, PAIRS))
    weights = np.arange(1, 7, dtype=np.float32)

    def loss(v: Any) -> Any:
        return (weights.reshape(sizes).transpose(order) * f(v)).sum()

    slope = np.asarray(pyjax.grad(loss)(np.ones([SIZES[n] for n in mapped], np.float32)))
    slope = slope.transpose(np.argsort(order)).reshape(-1)
    np.testing.assert_array_equal(slope, sent(weights, [(t, s) for s, t in PAIRS]))


def test_inside_of_a_map_of_a_mesh() -> None:
    """One axis is a mesh's, the other a vmap's."""
    mesh = pyjax.make_mesh((1,), ("a",), (AxisType.Auto,))
    f = pyjax.vmap(lambda v: lax.ppermute(v, ("a", "b"), [(2, 0), (0, 1)]), axis_name="b")
    spec = PartitionSpec("a")
    g = pyjax.shard_map(lambda v: f(v[0])[None], mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_array_equal(g(np.array([[1.0, 2.0, 3.0]])), [[3, 1, 0]])


def test_what_nobody_sends_is_zero_beside_any_number() -> None:
    f = pyjax.vmap(lambda v: lax.ppermute(v, "i", [(1, 0)]), axis_name="i")
    np.testing.assert_array_equal(f(np.array([np.nan, 1.0])), [1, 0])
    assert f(np.array([True, True])).dtype == bool
