"""Conversions between element types, rounding to narrow floats, reduce-precision."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype
from xla_backend.llvm import elemental
from xla_backend.llvm.conversions import from_memory
from xla_backend.llvm.target import make_target
from xla_backend.llvm.writer import ModuleWriter

FLOATS = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
F8 = [
    ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e4m3,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e4m3b11fnuz,
    ml_dtypes.float8_e3m4,
    ml_dtypes.float8_e5m2fnuz,
    ml_dtypes.float8_e4m3fnuz,
]
INTS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


def samples(dtype, n=3000):
    rng = np.random.default_rng(0)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        edge = np.array([0, 1, info.max, info.min, info.max - 1, info.min + 1], dtype)
        return np.concatenate([edge, rng.integers(info.min, info.max, n, dtype=dtype)])
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        0.5,
        1.5,
        -2.5,
        1e-8,
        3e-39,
        6e4,
        65519.9,
        65520.0,
    ]
    special += [
        2147483648.0,
        -2147483649.0,
        4294967296.0,
        9.3e18,
        -9.3e18,
        1.9e19,
        127.5,
        -128.9,
        256,
    ]
    with np.errstate(all="ignore"):
        values = np.concatenate(
            [special, rng.standard_normal(n) * 100, rng.standard_normal(n) * 1e-6]
        )
        random_bits = rng.integers(0, 256, n * dtype.itemsize, dtype=np.uint8).view(dtype)
        return np.concatenate([values.astype(dtype), random_bits])


def same(got, expected):
    got_wide, wide = got.astype(np.float64), expected.astype(np.float64)
    nan = np.isnan(wide)
    np.testing.assert_array_equal(np.isnan(got_wide), nan)
    np.testing.assert_array_equal(got_wide[~nan], wide[~nan])
    np.testing.assert_array_equal(np.signbit(got_wide[~nan]), np.signbit(wide[~nan]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("pair", list(itertools.product(FLOATS + F8, FLOATS + F8)), ids=str)
def test_float_to_float(lanes, pair):
    a = samples(pair[0])
    same(lanes.convert(a, pair[1]), a.astype(pair[1]))


@pytest.mark.filterwarnings("ignore")
def test_every_half_alone(lanes):
    a = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    same(lanes.convert(a, np.float32, lanes=1), a.astype(np.float32))
    got, numbers = lanes.convert(a, np.float16, lanes=1), ~np.isnan(a)
    assert got[numbers].tobytes() == a[numbers].tobytes() and np.isnan(got[~numbers]).all()


@pytest.mark.parametrize(
    "triple, cpu, lanes, extension",
    [
        ("x86_64-unknown-linux-gnu", "x86-64-v3", 1, "fpext <4 x half>"),
        ("x86_64-unknown-linux-gnu", "x86-64-v4", 1, "fpext <4 x half>"),
        ("x86_64-unknown-linux-gnu", "x86-64-v4", 16, "fpext <16 x half>"),
        ("aarch64-unknown-linux-gnu", "apple-m1", 1, "fpext half"),
    ],
)
def test_a_half_does_not_wait_for_what_its_register_held(triple, cpu, lanes, extension):
    """On x86 LLVM loads a scalar of two bytes into the lowest lane of a register: a loop with one
    half after another took four times as long as its arithmetic."""
    module = ModuleWriter(make_target(triple, cpu))
    raw, ty = ("i16", "float") if lanes == 1 else (f"<{lanes} x i16>", f"<{lanes} x float>")
    w = module.function("f.", [(raw, "x")], ty)
    w.ret(ty, from_memory(w, PrimitiveType.F16, lanes, "%x"))
    assert extension in module.to_text()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTS)
def test_float_to_integer_saturates(lanes, source, target):
    a = samples(source)
    info = np.iinfo(target)
    expected = []
    for v in a.astype(np.float64):
        if np.isnan(v):
            expected.append(0)
        elif np.isinf(v):
            expected.append(info.max if v > 0 else info.min)
        else:
            expected.append(min(max(int(v), info.min), info.max))
    np.testing.assert_array_equal(lanes.convert(a, target), np.array(expected, target))
    np.testing.assert_array_equal(lanes.convert(a, target, lanes=1), np.array(expected, target))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", INTS)
@pytest.mark.parametrize("target", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, *INTS])
def test_from_integer(lanes, source, target):
    a = samples(source)
    expected = (
        a.astype(np.float32).astype(target)
        if np.dtype(target).itemsize == 2 and np.dtype(target).kind not in "iu"
        else a.astype(target)
    )
    np.testing.assert_array_equal(lanes.convert(a, target), expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.bool_, *INTS, *FLOATS])
def test_predicates(lanes, dtype):
    a = samples(dtype) if dtype is not np.bool_ else np.array([True, False] * 20)
    np.testing.assert_array_equal(lanes.convert(a, np.bool_), a.astype(np.float64) != 0)
    truth = np.array([True, False, True] * 11)
    np.testing.assert_array_equal(
        lanes.convert(truth, dtype).astype(np.float64), truth.astype(np.float64)
    )


@pytest.mark.filterwarnings("ignore")
def test_complex(lanes):
    z = np.array([1 + 2j, 0, 0 - 1j, np.nan, 3.5], np.complex64)
    np.testing.assert_array_equal(lanes.convert(z, np.complex128), z.astype(np.complex128))
    np.testing.assert_array_equal(lanes.convert(z, np.float32), z.real)
    np.testing.assert_array_equal(lanes.convert(z, np.bool_), z != 0)
    x = np.array([1.5, -2], np.float64)
    np.testing.assert_array_equal(lanes.convert(x, np.complex64), x.astype(np.complex64))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("format", [(8, 7), (5, 10), (5, 2), (11, 52), (3, 4)])
def test_reduce_precision(lanes, format):
    exponent, mantissa = format
    a = samples(np.float32)
    got = lanes.apply(
        f"reduce-precision-{format}",
        [a],
        np.float32,
        lambda w, n, v: elemental.emit_reduce_precision(
            w, from_numpy_dtype(np.dtype(np.float32)), n, v[0], exponent, mantissa
        ),
    )
    if format == (8, 7):
        normal = (np.abs(a) >= 2.0**-126) | (a == 0) | ~np.isfinite(a)
        same(got[normal], a.astype(ml_dtypes.bfloat16)[normal])
    if format == (5, 10):
        half = a.astype(np.float16)
        expected = np.where(np.abs(half) < 2.0**-14, np.copysign(0, a), half.astype(np.float32))
        # what rounds up to the smallest normal stays
        same(got[np.abs(a) >= 2.0**-14], expected[np.abs(a) >= 2.0**-14])
        assert (got[np.abs(a) < 2.0**-15] == 0).all()
    if format == (11, 52):
        same(got, a)
        return
    bias = 2 ** (exponent - 1) - 1
    finite = np.isfinite(got) & (got != 0)
    assert (np.abs(got[finite]) < 2.0 ** (bias + 1)).all()
