"""Accuracy of the float functions, in units in the last place, over sampled bit patterns.

The reference is NumPy in the next wider type. The slow test walks through every f32 value.
"""

import math

import ml_dtypes
import numpy as np
import pytest

from xla_backend.hlo.types import from_numpy_dtype
from xla_backend.llvm import elemental
from xla_backend.llvm.types import const, register_type, vector

pytestmark = pytest.mark.filterwarnings("ignore")


def logistic(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def erf(x):
    """The C library's double erf (within one unit): exact enough for f32, a second opinion for
    f64.
    """
    return np.array([math.erf(v) for v in x.astype(np.float64)], x.dtype)


# name: reference, allowed error in f32 and f64 (0: exact)
UNARY = {
    "exponential": (np.exp, 1.0, 1.0),
    "exponential-minus-one": (np.expm1, 1.5, 2.0),
    "log": (np.log, 1.0, 1.0),
    "log-plus-one": (np.log1p, 1.5, 1.5),
    "logistic": (logistic, 1.5, 1.5),
    "tanh": (np.tanh, 1.5, 1.6),
    "sinh": (np.sinh, 0.51, 2.5),
    "cosh": (np.cosh, 0.51, 1.6),
    "sine": (np.sin, 1.5, 1.0),
    "cosine": (np.cos, 1.5, 1.0),
    "tan": (np.tan, 0.51, 2.1),
    "asin": (np.arcsin, 0.51, 1.0),
    "acos": (np.arccos, 0.51, 1.0),
    "asinh": (np.arcsinh, 0.51, 2.0),
    "acosh": (np.arccosh, 0.51, 2.0),
    "atanh": (np.arctanh, 0.51, 2.0),
    "erf": (erf, 1.5, 2.0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5),
    "cbrt": (np.cbrt, 0.51, 1.0),
    "sqrt": (np.sqrt, 0.51, 0.51),
    "floor": (np.floor, 0, 0),
    "ceil": (np.ceil, 0, 0),
    "round-nearest-even": (np.rint, 0, 0),
    "round-nearest-afz": (lambda x: np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x), 0, 0),
    "abs": (np.abs, 0, 0),
    "negate": (np.negative, 0, 0),
    "sign": (lambda x: np.where(x == 0, x, np.sign(x)), 0, 0),
}
BINARY = {
    "power": (np.power, 0.51, 1.0),
    "atan2": (np.arctan2, 0.51, 1.0),
    "remainder": (np.fmod, 0, 0),
    "divide": (np.divide, 0.51, 0.51),
    "maximum": (np.maximum, 0, 0),
    "minimum": (np.minimum, 0, 0),
}


def specials(dtype):
    info = np.finfo(dtype)
    values = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 3, 0.5, -0.5, 2.5, -3.5, 0.55, 9.02]
    values += [
        info.tiny,
        -info.tiny,
        info.max,
        -info.max,
        info.smallest_subnormal,
        88.7,
        -104,
        709.7,
    ]
    values += [-745.1, 1e5, -7.5, 0.9999999, 1.0000001, 1e30, 0.25]
    values += [0.125, 0.12500001, 0.375, 3.875, 3.8750002]  # where erf changes its formula
    return np.array(values, dtype)


def arguments(dtype, stride=49999):
    if dtype == np.float32:
        patterns = np.arange(0, 1 << 32, stride, dtype=np.uint64).astype(np.uint32).view(dtype)
        return np.concatenate([specials(dtype), patterns])
    rng = np.random.default_rng(0)
    n = 20000
    patterns = rng.integers(0, 1 << 64, n, dtype=np.uint64).view(dtype)
    spread = np.exp(rng.standard_normal(n) * 10) * rng.choice([-1, 1], n)
    near = [rng.standard_normal(n), rng.standard_normal(n) * 30, rng.uniform(-1, 1, n)]
    return np.concatenate([specials(dtype), patterns, spread, *near])


def check(got, expected, allowed):
    dtype = got.dtype
    narrow = expected.astype(dtype)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(narrow))
    finite = np.isfinite(narrow) & np.isfinite(got)
    ordinary = finite | np.isnan(narrow)
    np.testing.assert_array_equal(got[~ordinary], narrow[~ordinary])
    zero = narrow == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(narrow[zero]))
    digits, least = (24, -125) if dtype == np.float32 else (53, -1021)
    exponent = np.maximum(np.frexp(np.abs(expected))[1], least).astype(np.int32)
    unit = np.ldexp(np.ones_like(expected), exponent - digits)
    error = np.where(finite, np.abs(got.astype(expected.dtype) - expected) / unit, 0)
    worst = error.argmax()
    assert error[worst] <= allowed, f"{float(error[worst])} ulp at index {worst}: {got[worst]}"


WIDER = {np.float32: np.float64, np.float64: np.longdouble}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_unary(lanes, name, dtype):
    reference, *allowed = UNARY[name]
    x = arguments(dtype)
    got = lanes.emit(name, x)
    check(got, reference(x.astype(WIDER[dtype])), allowed[dtype == np.float64])


def test_tanh_is_most_accurate_where_it_is_hardest(lanes):
    """Around the number beyond which there is an exponential, from a rounded table."""
    first, last = np.array([0.5, 2.2], np.float32).view(np.int32)
    x = np.arange(first, last, 31, dtype=np.int32).view(np.float32)
    check(lanes.emit("tanh", x), np.tanh(x.astype(np.float64)), 1.5)


@pytest.mark.parametrize("name", ["asinh", "acosh", "atanh"])
def test_inverse_hyperbolic_functions_where_their_formulas_change(lanes, name):
    """Around the number below which asinh and atanh are x, and from where logarithms of numbers
    beside 1 have the fewest digits."""
    near = [0x37800000 + np.arange(-5000, 20_000), 0x3F800000 + np.arange(-5000, 20_000)]
    size = np.concatenate(near).astype(np.int32).view(np.float32)
    x = np.concatenate([size, -size])
    check(lanes.emit(name, x), UNARY[name][0](x.astype(np.longdouble)).astype(np.float64), 0.51)


@pytest.mark.parametrize("dtype, low", [(np.float32, -300), (np.float64, -2100)])
def test_what_an_exponential_rounds_to_zero(lanes, dtype, low):
    """Down from where results are subnormal: the factors of the power of two, of which one is 0 in
    the end."""
    x = np.append(np.linspace(low, low / 4, 20_000), [-1e9, -3e38, -np.inf]).astype(dtype)
    check(lanes.emit("exponential", x), np.exp(x.astype(WIDER[dtype])), 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_binary(lanes, name, dtype):
    reference, *allowed = BINARY[name]
    rng = np.random.default_rng(1)
    grid = np.array(np.meshgrid(specials(dtype), specials(dtype))).reshape(2, -1)
    n = 10000
    bits = rng.integers(0, 256, 2 * n * np.dtype(dtype).itemsize, dtype=np.uint8).view(dtype)
    x = np.concatenate([grid[0], bits[:n], np.abs(rng.standard_normal(n)).astype(dtype) * 4])
    exponents = rng.standard_normal(n) * (10 if dtype == np.float32 else 150)
    y = np.concatenate([grid[1], bits[n:], exponents.astype(dtype)])
    if name in ("maximum", "minimum"):
        zeros = (x == 0) & (y == 0)
        x, y = x[~zeros], y[~zeros]  # NumPy does not order -0 and 0; see the test below
    got = lanes.emit(name, x, y)
    check(
        got, reference(x.astype(WIDER[dtype]), y.astype(WIDER[dtype])), allowed[dtype == np.float64]
    )


@pytest.mark.parametrize("base", [2, 0.5, 8, 2.0**-140])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_a_constant_power_of_two(lanes, dtype, base):
    """They have no logarithm to compute, and the bits of a base that is data."""
    y = np.concatenate([arguments(dtype), np.linspace(-1100, 1100, 20_000).astype(dtype)])
    t = from_numpy_dtype(np.dtype(dtype))

    def by_constant(w, n, values):
        constant = const(vector(register_type(t), n), base)
        return elemental.emit(w, "power", t, n, constant, values[0])

    got = lanes.apply(f"{base} to a power", [y], dtype, by_constant)
    expected = lanes.emit("power", np.full_like(y, base), y)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name, sign", [("maximum", False), ("minimum", True)])
def test_signed_zeros_are_ordered(lanes, name, sign):
    a, b = np.array([0.0, -0.0], np.float32), np.array([-0.0, 0.0], np.float32)
    assert (np.signbit(lanes.emit(name, a, b)) == sign).all()


@pytest.mark.parametrize(
    "name",
    ["add", "multiply", "exponential", "tanh", "sqrt", "maximum", "log", "sine", "cosine"],
)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sixteen_bits_round_once(lanes, name, dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    y = np.roll(x, 12345)
    wide, other = x.astype(np.float64), y.astype(np.float64)
    reference = {
        "add": lambda: wide + other,
        "multiply": lambda: wide * other,
        "exponential": lambda: np.exp(wide),
        "tanh": lambda: np.tanh(wide),
        "sqrt": lambda: np.sqrt(wide),
        "maximum": lambda: np.maximum(wide, other),
        "log": lambda: np.log(wide),
        "sine": lambda: np.sin(wide),
        "cosine": lambda: np.cos(wide),
    }[name]()
    operands = (x, y) if name in ("add", "multiply", "maximum") else (x,)
    got = lanes.emit(name, *operands).astype(np.float64)
    expected = reference.astype(np.float32).astype(dtype).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    ok = ~np.isnan(expected)
    differs = got[ok] != expected[ok]
    # f32 results within 1.5 units may fall on the other side of a rounding boundary, rarely.
    assert (
        differs.mean() < (0 if name in ("add", "multiply", "sqrt", "maximum") else 1e-3)
        or not differs.any()
    )
    zero = ok & (expected == 0)
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", ["sine", "rsqrt", "asinh", "acosh", "atanh"])
def test_scalar_and_odd_lane_counts(lanes, name):
    x = arguments(np.float32, 999983)
    full = lanes.emit(name, x)
    for count in (1, 2, 4, 8):
        np.testing.assert_array_equal(lanes.emit(name, x, lanes=count), full)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n, row in UNARY.items() if row[1] > 0])
def test_every_f32(lanes, name):
    reference, allowed, _ = UNARY[name]
    for start in range(0, 1 << 32, 1 << 24):
        x = np.arange(start, start + (1 << 24), dtype=np.uint64).astype(np.uint32).view(np.float32)
        check(lanes.emit(name, x), reference(x.astype(np.float64)), allowed)
