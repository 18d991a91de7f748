"""Bits of numbers as numbers of other widths."""

import numpy as np
import pytest

import pyjax.numpy as jnp
from pyjax import lax


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("wide", [np.int8, np.uint8, np.int16, np.uint32])
def test_as_narrower_ones_and_back(wide, signed, bits):
    each = np.dtype(wide).itemsize * 8 // bits
    if each == 1:
        pytest.skip("of one width")
    x = np.random.default_rng(0).integers(0, 2**31, 50).astype(wide)
    pieces = lax.bitcast_convert_type(x, f"{'int' if signed else 'uint'}{bits}")
    places = np.arange(each, dtype=np.int64) * bits
    want = (x.astype(np.int64)[:, None] >> places) % 2**bits
    if signed:
        want = np.where(want < 2 ** (bits - 1), want, want - 2**bits)
    np.testing.assert_array_equal(pieces.astype(jnp.int32), want)
    np.testing.assert_array_equal(lax.bitcast_convert_type(pieces, wide), x)
