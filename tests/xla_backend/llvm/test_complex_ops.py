"""Complex operations on lanes against NumPy in double precision, and special values."""

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")

UNARY = {
    "abs": np.abs,
    "negate": np.negative,
    "sign": lambda z: np.where(z == 0, 0, z / np.abs(np.where(z == 0, 1, z))),
    "real": np.real,
    "imag": np.imag,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "sqrt": np.sqrt,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sine": np.sin,
    "cosine": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "cbrt": lambda z: np.exp(np.log(z) / 3),
}
BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
}


def draw(seed, n=4000):
    rng = np.random.default_rng(seed)
    scale = np.exp(rng.standard_normal(n) * 1.5)
    return (rng.standard_normal(n) + 1j * rng.standard_normal(n)) * scale


def close(got, expected, tolerance):
    assert got.shape == expected.shape
    error = np.abs(got - expected) / np.maximum(np.abs(expected), 1e-30)
    assert np.nanmax(error) < tolerance, (np.nanargmax(error), np.nanmax(error))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", UNARY)
def test_unary(lanes, name, dtype):
    z = draw(0).astype(dtype)
    part = np.float32 if dtype == np.complex64 else np.float64
    out = part if name in ("abs", "real", "imag") else dtype
    expected = UNARY[name](z.astype(np.complex128))
    usable = np.abs(expected) < 1e30
    z, expected = z[usable], expected[usable]
    close(lanes.emit(name, z, out_dtype=out), expected, 4e-7 if dtype == np.complex64 else 4e-14)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", BINARY)
def test_binary(lanes, name, dtype):
    a, b = draw(1).astype(dtype), draw(2).astype(dtype)
    expected = BINARY[name](a.astype(np.complex128), b.astype(np.complex128))
    usable = (np.abs(expected) < 1e30) & (np.abs(expected) > 1e-30)
    tolerance = 4e-7 if dtype == np.complex64 else 1e-13 if name == "power" else 4e-15
    close(lanes.emit(name, a[usable], b[usable]), expected[usable], tolerance)


def test_no_early_overflow_or_underflow(lanes):
    for dtype, big in ((np.complex64, 1e38), (np.complex128, 1e308)):
        z = np.array([big + big * 1j, big - 0.5j, 1 / big + 1j / big], dtype)
        close(lanes.emit("abs", z, out_dtype=z.real.dtype), np.abs(z.astype(np.clongdouble)), 1e-6)
        one = lanes.emit("divide", z, z)
        close(one, np.ones(3, dtype), 1e-6)
        close(lanes.emit("sqrt", z), np.sqrt(z.astype(np.clongdouble)), 1e-6)


def test_logistic_does_not_overflow(lanes):
    z = np.array([-720 + 0.3j, -730 - 1.5j, 720 + 1j, complex(-np.inf, 1)])
    got = lanes.emit("logistic", z)
    close(got[:2], np.exp(z[:2].astype(np.clongdouble)), 1e-4)
    np.testing.assert_allclose(got[2:], [1, 0], atol=1e-300)


def test_special_values(lanes):
    inf, nan = np.inf, np.nan
    root = lanes.emit("sqrt", np.array([complex(-4, 0), complex(-4, -0.0), 0, complex(1, inf)]))
    np.testing.assert_array_equal(root[:3], [2j, -2j, 0])
    assert root[3].real == inf and root[3].imag == inf
    e = lanes.emit("exponential", np.array([complex(-inf, nan), complex(-inf, inf), complex(2, 0)]))
    np.testing.assert_array_equal(e[:2], [0, 0])
    assert e[2].imag == 0
    quotient = lanes.emit(
        "divide", np.array([1 + 1j, inf + 0j, 1 + 0j]), np.array([0j, 1 + 0j, inf + 0j])
    )
    assert np.isinf(quotient[0]) and np.isinf(quotient[1]) and quotient[2] == 0
    t = lanes.emit("tanh", np.array([complex(1e3, 0.3), complex(-1e3, 0.3), complex(0.5, 0)]))
    np.testing.assert_allclose(t, [1, -1, np.tanh(0.5)], atol=1e-15)
    log = lanes.emit("log", np.array([0j, complex(-1, 0), complex(inf, 1)]))
    assert log[0].real == -inf and log[1] == complex(0, np.pi) and log[2].real == inf
    power = lanes.emit("power", np.array([0j, 0j, 2 + 0j]), np.array([2 + 0j, 0j, 0j]))
    np.testing.assert_array_equal(power, [0, 1, 1])
