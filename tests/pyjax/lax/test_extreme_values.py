"""The extreme values of each dtype start reductions, also of floats that have no infinity."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, ops
from pyjax.core import dtypes

LOW = [d for d in dtypes.LOW_FLOATS if dtypes.bit_width(d) == 8]


@pytest.mark.parametrize("dtype", dtypes.ALL_DTYPES, ids=str)
def test_nothing_lies_outside(dtype):
    low, high = (np.asarray(f(dtype)).astype(dtype) for f in (dtypes.lowest, dtypes.highest))
    assert low != high and low == low and high == high
    if dtype in dtypes.LOW_FLOATS:
        count = 1 << dtypes.bit_width(dtype)
        every = np.arange(count, dtype=np.uint8).view(dtype).astype(np.float32)
        assert np.nanmin(every) == low and np.nanmax(every) == high


@pytest.mark.parametrize("dtype", LOW, ids=str)
def test_reductions_of_low_floats(dtype):
    x = jnp.asarray(np.array([1, 4, 2], np.float32).astype(dtype))
    ids = jnp.array([0, 0, 1])
    wanted = {
        "max": (lax.reduce_max(x, (0,)), 4),
        "min": (lax.reduce_min(x, (0,)), 1),
        "argmax": (lax.argmax(x, 0, np.int32), 1),
        "argmin": (lax.argmin(x, 0, np.int32), 0),
        "cummax": (lax.cummax(x), [1, 4, 4]),
        "segment_max": (ops.segment_max(x, ids, 2), [4, 2]),
        "segment_min": (ops.segment_min(x, ids, 2), [1, 2]),
    }
    for name, (value, expected) in wanted.items():
        np.testing.assert_array_equal(np.asarray(value, np.float32), expected, name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("count", [40, 5000])
def test_extremes_of_segments_in_turn(dtype, count):
    """NaN stays, -0 < 0, and what belongs to no segment changes none."""
    rng = np.random.default_rng(3)
    data = rng.normal(size=3000).astype(dtype)
    ids = rng.integers(-3, count + 3, 3000).astype(np.int32)
    if dtype is not np.int32:
        data[::50], data[::3], data[1::3] = np.nan, 0.0, -0.0
    with pyjax.enable_x64(True):
        for name, combine, start in (("max", np.maximum, -np.inf), ("min", np.minimum, np.inf)):
            exact = np.iinfo(dtype) if dtype is np.int32 else None
            first = start if exact is None else exact.min if name == "max" else exact.max
            wanted = np.full(count, first, dtype)
            for i, x in zip(ids, data):
                if 0 <= i < count:
                    old = wanted[i]
                    signs = (np.signbit(x), np.signbit(old)) if old == x == 0 else None
                    wanted[i] = combine(old, x)
                    if signs is not None and dtype is not np.int32:
                        negative = all(signs) if name == "max" else any(signs)
                        wanted[i] = -0.0 if negative else 0.0
            found = getattr(ops, f"segment_{name}")(data, ids, count)
            np.testing.assert_array_equal(found, wanted)
            np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))
