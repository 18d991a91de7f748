"""Products with a result wider than their operands: what is converted first, and values."""

from __future__ import annotations

import re

import numpy as np
import pytest

import pyjax.numpy as jnp
from pyjax import jit, lax

# Types of both operands and the result, and whether the program converts the operands.
CASES = [
    ("int8", "int8", "int32", False),
    ("uint8", "uint8", "int32", False),
    ("uint8", "uint8", "uint32", False),
    ("int16", "int16", "int32", False),
    ("int8", "int8", "int16", False),
    ("int4", "int4", "int32", False),
    ("int8", "int8", "float32", False),
    ("float8_e4m3fn", "float8_e4m3fn", "float32", False),
    ("float8_e4m3fn", "float8_e5m2", "float32", False),
    ("float8_e4m3b11fnuz", "float8_e5m2", "float32", True),
    ("int8", "uint8", "int32", True),
    ("int8", "int32", "int32", True),
    ("bfloat16", "float32", "float32", True),
    ("bool", "bool", "int32", True),
]


@pytest.mark.parametrize(("lhs", "rhs", "result", "converts"), CASES)
def test_operands_stay_as_they_are(lhs, rhs, result, converts):
    rng = np.random.default_rng(0)
    low = {name: 0 if name[0] in "ub" and name != "bfloat16" else -5 for name in (lhs, rhs)}
    x, y = (
        jnp.asarray(rng.integers(low[name], 6, shape)).astype(name)
        for name, shape in ((lhs, (6, 40)), (rhs, (40, 5)))
    )
    f = jit(lambda x, y: lax.dot(x, y, preferred_element_type=jnp.dtype(result)))
    text = f.lower(x, y).as_text()
    assert bool(re.search(r"stablehlo\.convert", text)) == converts
    want = np.asarray(x).astype(np.float64) @ np.asarray(y).astype(np.float64)
    got = f(x, y)
    assert got.dtype == jnp.dtype(result)
    np.testing.assert_array_equal(np.asarray(got).astype(np.float64), want)


def test_sums_of_bytes_wrap_in_the_result():
    x = jnp.full((3, 200), -128, jnp.int8)
    want = np.full((3, 3), 200 << 14)
    np.testing.assert_array_equal(lax.dot(x, x.T, preferred_element_type=jnp.int32), want)
    narrow = lax.dot(x, x.T, preferred_element_type=jnp.int16)
    np.testing.assert_array_equal(narrow, want.astype(np.int16))
