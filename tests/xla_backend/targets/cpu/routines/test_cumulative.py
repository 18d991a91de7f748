"""Scan kernels against NumPy's accumulations over shapes, directions and element types."""

import ctypes

import numpy as np
import pytest

from xla_backend.hlo.types import PrimitiveType
from xla_backend.targets.cpu.routines.library import kernel_library

P = PrimitiveType
I64, PTR = ctypes.c_int64, ctypes.c_void_p
KINDS = "s8 u8 s16 u16 s32 u32 s64 u64 bf16 f16 f32 f64".split()
UFUNCS = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumlogsumexp": np.logaddexp,
}
TOLERANCE = {"bf16": 1e-2, "f16": 2e-3, "f32": 1e-6, "f64": 1e-13}


def scan(op, kind, a, reverse):
    out = np.empty_like(a)
    fn = ctypes.CFUNCTYPE(None, PTR, PTR, I64, I64, I64, I64)(
        kernel_library()[f"pyjax_{op}_{kind}"]
    )
    fn(a.ctypes.data, out.ctypes.data, *a.shape, int(reverse))
    return out


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("kind", KINDS)
def test_scan(kind, op, reverse):
    dtype = P(kind).numpy_dtype
    integral = dtype.kind in "iu"
    if op == "cumlogsumexp" and integral:
        return
    rng = np.random.default_rng(0)
    for shape in [(1, 1, 1), (3, 37, 1), (2, 40, 5), (2, 0, 3), (1, 16, 33)]:
        if integral:
            a = rng.integers(0, 100, shape).astype(dtype)
        else:
            a = (rng.standard_normal(shape) * 0.5 + (op == "cumprod")).astype(dtype)
        flip = np.flip(a, 1) if reverse else a
        wide = flip if integral else flip.astype(np.float64)
        with np.errstate(all="ignore"):
            expected = UFUNCS[op].accumulate(wide, axis=1, dtype=wide.dtype)
        expected = np.flip(expected, 1) if reverse else expected
        got = scan(op, kind, a, reverse)
        if integral:
            np.testing.assert_array_equal(got, expected)
        else:
            np.testing.assert_allclose(
                got.astype(np.float64), expected, rtol=TOLERANCE[kind], atol=TOLERANCE[kind]
            )


def test_long_sum_stays_accurate():
    a = np.random.default_rng(1).random((1, 1_000_000, 1)).astype(np.float32)
    got = scan("cumsum", "f32", a, False)
    expected = np.cumsum(a.astype(np.float64), axis=1)
    assert np.max(np.abs(got - expected) / expected) < 3e-7


def test_nan_stays():
    a = np.ones((1, 40, 1), np.float32)
    a[0, 7] = np.nan
    got = scan("cummax", "f32", a, False)[0, :, 0]
    assert not np.isnan(got[:7]).any() and np.isnan(got[7:]).all()


def test_in_place():
    a = np.arange(50, dtype=np.int32).reshape(1, 50, 1)
    expected = np.cumsum(a, axis=1)
    fn = ctypes.CFUNCTYPE(None, PTR, PTR, I64, I64, I64, I64)(kernel_library()["pyjax_cumsum_s32"])
    fn(a.ctypes.data, a.ctypes.data, 1, 50, 1, 0)
    np.testing.assert_array_equal(a, expected)
