"""Functions that use instructions of whole registers give the same bits without them: as code for a
processor with AVX2 alone, and for fewer lanes than a register has.
"""

import numpy as np
import pytest

from tests.xla_backend.llvm.test_float_ops import arguments, specials
from tests.xla_backend.llvm.test_masked_moves import AVX2, needs_avx2

UNARY = ["exponential", "cosh", "logistic", "log", "sine", "cosine"]
BINARY = ["power", "atan2"]


def unary_arguments(dtype):
    if dtype == np.float16:
        return np.arange(1 << 16, dtype=np.uint16).view(dtype)
    return arguments(dtype, 999983)


def pairs(dtype):
    """Pairs of special values, any two bit patterns, and powers that are numbers."""
    rng = np.random.default_rng(3)
    grid = np.array(np.meshgrid(specials(dtype), specials(dtype))).reshape(2, -1)
    any_two = rng.integers(0, 256, (2, 3000 * np.dtype(dtype).itemsize), np.uint8).view(dtype)
    near = np.stack([np.exp(rng.normal(size=3000)), rng.normal(size=3000) * 20]).astype(dtype)
    return np.concatenate([grid, any_two, near], axis=1)


def assert_same_bits(got, expected):
    bits = f"u{expected.itemsize}"
    nan = np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(got[~nan].view(bits), expected[~nan].view(bits))


@needs_avx2
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY + BINARY)
@pytest.mark.filterwarnings("ignore")
def test_the_same_bits_without_the_instructions(lanes, name, dtype):
    operands = pairs(dtype) if name in BINARY else (unary_arguments(dtype),)
    expected = lanes.emit(name, *operands)
    for count in (1, 4):
        assert_same_bits(lanes.emit(name, *operands, lanes=count), expected)
    assert_same_bits(lanes.emit(name, *operands, target=AVX2), expected)
