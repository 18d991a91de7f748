"""The extreme values of each dtype start reductions, also of floats that have no infinity."""

from __future__ import annotations

import numpy as np
import pytest

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
