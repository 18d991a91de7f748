"""all_to_all along several axes: positions count as those of one axis do, the last name fastest."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import pyjax
from pyjax import lax

CASES = list(itertools.product((True, False), (0, 1), (0, 1, 2)))


@pytest.mark.parametrize("tiled, split, concat", CASES)
def test_several_axes(tiled: bool, split: int, concat: int) -> None:
    shape = (12, 18, 5) if tiled else (6, 6, 5)
    x = np.arange(6 * np.prod(shape)).reshape(6, *shape)

    def exchange(names: Any) -> Any:
        return lambda v: lax.all_to_all(v, names, split, concat, tiled=tiled)

    expected = pyjax.vmap(exchange("k"), axis_name="k")(x)
    over_j = pyjax.vmap(exchange(("i", "j")), axis_name="j")
    found = pyjax.vmap(over_j, axis_name="i")(x.reshape(2, 3, *shape))
    np.testing.assert_array_equal(np.reshape(found, expected.shape), expected)
    over_i = pyjax.vmap(exchange(("j", "i")), axis_name="j")
    found = pyjax.vmap(over_i, axis_name="i")(x.reshape(3, 2, *shape).swapaxes(0, 1))
    np.testing.assert_array_equal(np.swapaxes(found, 0, 1).reshape(expected.shape), expected)


def test_derivative() -> None:
    f = pyjax.vmap(
        pyjax.vmap(lambda v: lax.all_to_all(v, ("i", "j"), 0, 0), axis_name="j"), axis_name="i"
    )
    weights = np.arange(6.0**2, dtype=np.float32).reshape(2, 3, 6)
    gradient = pyjax.grad(lambda v: (f(v) * weights).sum())(np.zeros((2, 3, 6), np.float32))
    np.testing.assert_array_equal(gradient, weights.reshape(6, 6).T.reshape(2, 3, 6))
