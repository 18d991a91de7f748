"""The evaluator's elementwise opcodes against scipy/NumPy in f64, and the edge cases of each."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType, from_numpy_dtype

INF, NAN = np.inf, np.nan


def run(opcode, *arrays, result=None, attributes=""):
    """Evaluate one opcode; `result` is the element type of the result if it differs from the
    operands'."""
    shapes = [f"{from_numpy_dtype(a.dtype)}[{','.join(map(str, a.shape))}]" for a in arrays]
    parameters = "".join(f" p{i} = {s} parameter({i})\n" for i, s in enumerate(shapes))
    kind = result or str(from_numpy_dtype(arrays[0].dtype))
    shape = f"{kind}[{','.join(map(str, max(arrays, key=np.ndim).shape))}]"
    names = ", ".join(f"p{i}" for i in range(len(arrays)))
    text = f"ENTRY e {{\n{parameters} ROOT r = {shape} {opcode}({names}){attributes}\n}}"
    (value,) = evaluate(parse_module(text), arrays)
    assert from_numpy_dtype(value.dtype) is PrimitiveType(kind)
    return value


UNARY = [  # opcode, oracle, inputs
    ("abs", np.abs, [-1.5, -0.0, 2.0, -INF, NAN]),
    ("ceil", np.ceil, [-1.5, 1.2, INF]),
    ("floor", np.floor, [-1.5, 1.2, INF]),
    ("round-nearest-even", np.rint, [0.5, 1.5, 2.5, -0.5, -2.5]),
    ("negate", np.negative, [0.0, 1.0, -INF]),
    ("cosine", np.cos, [0.0, 1.0, 100.0, INF]),
    ("sine", np.sin, [0.0, 1.0, 100.0, -0.0]),
    ("tan", np.tan, [0.0, 1.0, 1.5]),
    ("sinh", np.sinh, [0.0, 1.0, -3.0]),
    ("cosh", np.cosh, [0.0, 1.0, -3.0]),
    ("asin", np.arcsin, [0.0, 0.5, -1.0, 2.0]),
    ("acos", np.arccos, [0.0, 0.5, -1.0, 2.0]),
    ("asinh", np.arcsinh, [0.0, 0.5, -100.0]),
    ("acosh", np.arccosh, [1.0, 2.5, 0.5]),
    ("atanh", np.arctanh, [0.0, 0.5, 1.0, 2.0]),
    ("exponential", np.exp, [0.0, -90.0, 1.0, 100.0, -INF, NAN]),
    ("exponential-minus-one", np.expm1, [1e-6, 0.0, -5.0]),
    ("log", np.log, [1.0, 0.0, -1.0, 1e-40, INF]),
    ("log-plus-one", np.log1p, [1e-6, -1.0, 3.0]),
    ("logistic", scipy.special.expit, [0.0, -100.0, 3.0]),
    ("rsqrt", lambda x: 1 / np.sqrt(x), [4.0, 0.0, -1.0, INF]),
    ("sqrt", np.sqrt, [4.0, -0.0, -1.0]),
    ("cbrt", np.cbrt, [-8.0, 27.0, 0.0]),
    ("tanh", np.tanh, [0.5, -20.0, INF]),
    ("erf", scipy.special.erf, [0.5, -3.0, 0.0]),
]
DTYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("opcode, oracle, inputs", UNARY, ids=[u[0] for u in UNARY])
def test_unary(opcode, oracle, inputs, dtype):
    with np.errstate(all="ignore"):
        x = np.array(inputs).astype(dtype)
        expected = oracle(x.astype(np.float64)).astype(np.float32 if x.itemsize < 8 else np.float64)
        expected = expected.astype(dtype)
    value = run(opcode, x)
    np.testing.assert_array_equal(value.astype(np.float64), expected.astype(np.float64))
    signs = np.signbit(value.astype(np.float64)) == np.signbit(expected.astype(np.float64))
    assert (signs | np.isnan(expected.astype(np.float64))).all()


EDGES = [  # opcode, dtype, operands, expected
    ("round-nearest-afz", "f4", [[0.5, -0.5, 2.5, 0.49999997, 8388609.0]], [1, -1, 3, 0, 8388609]),
    ("sign", "f4", [[NAN, -0.0, 0.0, -3.0, INF]], [NAN, -0.0, 0.0, -1, 1]),
    ("sign", "i4", [[-7, 0, 9]], [-1, 0, 1]),
    ("maximum", "f4", [[-0.0, 0.0, NAN, 1.0], [0.0, -0.0, 1.0, NAN]], [0.0, 0.0, NAN, NAN]),
    ("minimum", "f4", [[-0.0, 0.0, NAN, 1.0], [0.0, -0.0, 1.0, NAN]], [-0.0, -0.0, NAN, NAN]),
    (
        "divide",
        "i4",
        [[7, -7, 7, -7, 5, -(2**31)], [2, 2, -2, -2, 0, -1]],
        [3, -3, -3, 3, -1, -(2**31)],
    ),
    ("divide", "u1", [[7, 5], [2, 0]], [3, 255]),
    ("remainder", "i4", [[7, -7, 7, 5, -(2**31)], [3, 3, -3, 0, -1]], [1, -1, 1, 5, 0]),
    ("remainder", "u2", [[7, 5], [3, 0]], [1, 5]),
    ("remainder", "f4", [[5.5, -5.5, 1.0, INF], [2.0, 2.0, INF, 1.0]], [1.5, -1.5, 1.0, NAN]),
    ("power", "f4", [[0.0, 2.0, -2.0, NAN, 0.0], [0.0, 3.0, 3.0, 0.0, -1.0]], [1, 8, -8, 1, INF]),
    ("power", "i4", [[0, 3, 2, 1, -1, -1, 2], [0, 4, 40, -5, -3, -2, -1]], [1, 81, 0, 1, -1, 1, 0]),
    ("add", "i1", [[127, -128], [1, -1]], [-128, 127]),
    ("multiply", "u4", [[2**31], [2]], [0]),
    ("negate", "i1", [[-128, 5]], [-128, -5]),
    ("abs", "i1", [[-128, -5]], [-128, 5]),
    ("shift-left", "i4", [[1, 1, 1, -1], [31, 32, -1, 4]], [-(2**31), 0, 0, -16]),
    ("shift-right-logical", "i4", [[-1, -1, -1], [28, 32, 33]], [15, 0, 0]),
    ("shift-right-arithmetic", "i4", [[-8, -8, 8, -8], [1, 32, 40, -1]], [-4, -1, 0, -1]),
    ("shift-right-arithmetic", "u1", [[128], [1]], [192]),
    ("popcnt", "i4", [[-1, 0, 5]], [32, 0, 2]),
    ("popcnt", "u1", [[255, 6]], [8, 2]),
    ("count-leading-zeros", "i4", [[0, 1, -1, 255]], [32, 31, 0, 24]),
    ("count-leading-zeros", "u8", [[0, 1, 2**63]], [64, 63, 0]),
    ("count-leading-zeros", "i1", [[1, 64]], [7, 1]),
    ("mulhi", "i4", [[2**31 - 1, -1], [4, 4]], [1, -1]),
    ("mulhi", "u4", [[2**32 - 1], [2**32 - 1]], [2**32 - 2]),
    ("mulhi", "i8", [[-(2**63), 2**62, -3], [2, 8, 5]], [-1, 2, -1]),
    ("mulhi", "u8", [[2**64 - 1], [2**64 - 1]], [2**64 - 2]),
    ("not", "?", [[True, False]], [False, True]),
    ("not", "u1", [[0, 5]], [255, 250]),
    ("add", "?", [[True, True, False], [True, False, False]], [True, True, False]),
    ("multiply", "?", [[True, True], [True, False]], [True, False]),
    ("xor", "?", [[True, True], [True, False]], [False, True]),
    ("atan2", "f4", [[0.0, -0.0, 1.0, 0.0], [-1.0, -1.0, 0.0, 0.0]], [np.pi, -np.pi, np.pi / 2, 0]),
    ("clamp", "f4", [[0.0] * 3, [-1.0, 5.0, NAN], [1.0] * 3], [0, 1, NAN]),
]


@pytest.mark.parametrize("opcode, dtype, operands, expected", EDGES, ids=lambda v: str(v)[:24])
def test_edges(opcode, dtype, operands, expected):
    value = run(opcode, *[np.array(o, dtype) for o in operands])
    expected = np.array(expected, dtype)
    np.testing.assert_array_equal(value, expected)
    if expected.dtype.kind == "f":
        number = ~np.isnan(expected)
        assert (np.signbit(value) == np.signbit(expected))[number].all()


CONVERSIONS = [  # source dtype, values, target type, expected
    ("f4", [NAN, INF, -INF, 2.9, -2.9, 1e20], "s32", [0, 2**31 - 1, -(2**31), 2, -2, 2**31 - 1]),
    ("f4", [-1.0, 300.0, 255.9, NAN], "u8", [0, 255, 255, 0]),
    ("f8", [9.3e18, -9.3e18, 2.0**62], "s64", [2**63 - 1, -(2**63), 2**62]),
    ("f8", [2.0**64, -1.0, 2.0**63], "u64", [2**64 - 1, 0, 2**63]),
    ("f4", [127.9, -128.9, 128.0], "s8", [127, -128, 127]),
    ("f4", [7.9, -9.0, 3.5], "s4", [7, -8, 3]),
    ("f4", [NAN, 0.0, -0.0, 0.1], "pred", [True, False, False, True]),
    ("i4", [300, -1], "u8", [44, 255]),
    ("i4", [9, -9], "s4", [-7, 7]),
    ("i4", [2, 0], "pred", [True, False]),
    ("?", [True, False], "f32", [1.0, 0.0]),
    ("i8", [2**24 + 1], "f32", [2**24]),
    ("f4", [1.00390625, 1.01171875], "bf16", [1.0, 1.015625]),
    ("f4", [65520.0, 2**-25, 1e-8], "f16", [INF, 0.0, 0.0]),
    ("f4", [464.0, 480.0], "f8e4m3fn", [448.0, NAN]),
    ("F", [1 + 2j], "f32", [1.0]),
    ("f4", [1.5], "c64", [1.5]),
    ("F", [0j, 1j], "pred", [False, True]),
]


@pytest.mark.parametrize("dtype, values, to, expected", CONVERSIONS)
def test_convert(dtype, values, to, expected):
    value = run("convert", np.array(values, dtype), result=to)
    wide = np.complex128 if to == "c64" else (np.float64 if value.dtype.kind not in "iub" else None)
    got = value.astype(wide) if wide else value
    if to == "s4":
        got, expected = value.astype(np.int8), np.array(expected, np.int8)
    np.testing.assert_array_equal(got, np.array(expected, got.dtype))


def test_total_order_compare():
    line = np.array([-NAN, -INF, -1.0, -0.0, 0.0, 1.0, INF, NAN], np.float32)
    line[0] = np.copysign(np.float32(NAN), -1)
    attributes = ", direction=LT, type=TOTALORDER"
    assert run("compare", line[:-1], line[1:], result="pred", attributes=attributes).all()
    plain = run("compare", line[:-1], line[1:], result="pred", attributes=", direction=LT")
    assert plain.tolist() == [False, True, True, False, True, True, False]


@pytest.mark.parametrize(
    "direction, oracle", [("EQ", np.equal), ("NE", np.not_equal), ("GE", np.greater_equal)]
)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.uint8, ml_dtypes.int4])
def test_compare(direction, oracle, dtype):
    a, b = np.array([1, 2, 3]).astype(dtype), np.array([2, 2, 2]).astype(dtype)
    value = run("compare", a, b, result="pred", attributes=f", direction={direction}")
    np.testing.assert_array_equal(value, oracle([1, 2, 3], [2, 2, 2]))


REDUCED = [  # exponent bits, mantissa bits, value, expected
    (5, 10, 1.0009765625 + 2**-12, 1.0009765625),
    (5, 10, 65520.0, INF),
    (5, 10, 2.0**-15, 0.0),
    (8, 7, 1.00390625, 1.0),
    (8, 7, 1.01171875, 1.015625),
    (8, 0, 1.5, 2.0),
    (3, 2, NAN, NAN),
    (5, 2, -INF, -INF),
    (8, 23, 1.1, np.float32(1.1)),
]


@pytest.mark.parametrize("exponent, mantissa, value, expected", REDUCED)
def test_reduce_precision(exponent, mantissa, value, expected):
    attributes = f", exponent_bits={exponent}, mantissa_bits={mantissa}"
    got = run("reduce-precision", np.array([value], np.float32), attributes=attributes)
    np.testing.assert_array_equal(got, np.array([expected], np.float32))


COMPLEX = np.array([1 + 2j, -0.5 + 0.25j, 3 - 1j, 1e-9 + 1e-9j], np.complex64)


@pytest.mark.parametrize(
    "opcode, oracle",
    [
        ("exponential", np.exp),
        ("log", np.log),
        ("sqrt", np.sqrt),
        ("sine", np.sin),
        ("tanh", np.tanh),
        ("negate", np.negative),
        ("exponential-minus-one", np.expm1),
        ("log-plus-one", np.log1p),
        ("logistic", lambda x: 1 / (1 + np.exp(-x))),
        ("rsqrt", lambda x: 1 / np.sqrt(x)),
        ("sign", lambda x: x / np.abs(x)),
    ],
)
def test_complex(opcode, oracle):
    expected = oracle(COMPLEX.astype(np.complex128))
    np.testing.assert_allclose(run(opcode, COMPLEX), expected, rtol=2e-7, atol=1e-15)


def test_complex_logistic_does_not_overflow():
    z = np.array([-720 + 0.3j, 720 + 1j, complex(-np.inf, 1)])
    got = run("logistic", z)
    np.testing.assert_allclose(got[0], np.exp(z[0]), rtol=1e-4)
    np.testing.assert_allclose(got[1:], [1, 0], atol=1e-300)


def test_complex_parts():
    assert run("abs", COMPLEX, result="f32").dtype == np.float32
    np.testing.assert_array_equal(run("real", COMPLEX, result="f32"), COMPLEX.real)
    np.testing.assert_array_equal(run("imag", COMPLEX, result="f32"), COMPLEX.imag)
    built = run("complex", COMPLEX.real.copy(), COMPLEX.imag.copy(), result="c64")
    np.testing.assert_array_equal(built, COMPLEX)


def test_small_types_round_once():
    """bf16 arithmetic is exact in f32, then rounded."""
    a = np.array([1.0, 256.0], ml_dtypes.bfloat16)
    b = np.array([2**-9, 1.0], ml_dtypes.bfloat16)
    assert run("add", a, b).astype(float).tolist() == [1.0, 256.0]
    f8 = np.array([1.0, 1.125], ml_dtypes.float8_e4m3fn)
    assert run("multiply", f8, f8).astype(float).tolist() == [1.0, 1.25]
    small = np.array([7, -8], ml_dtypes.int4)
    assert run("add", small, small).astype(int).tolist() == [-2, 0]


def test_stochastic_convert_uses_the_random_bits():
    x = np.array([1.25, 1.25, -1.25, -1.25, 2.0], np.float32)
    bits = np.array([2**30 - 1, 2**30, 0, 2**31, 0], np.uint32)
    value = run("stochastic-convert", x, bits, result="s8")
    assert value.tolist() == [2, 1, -2, -1, 2]


def test_erf_of_complex_is_refused():
    with pytest.raises(UnimplementedError, match="no complex form"):
        run("erf", COMPLEX)


def test_complex_sign_divides_each_part_by_the_size():
    values = np.array([complex(INF, -3), complex(3, INF), complex(-INF, 0), 3 - 4j, -0.0 + 0j])
    got = run("sign", values)
    np.testing.assert_array_equal(got.real, [NAN, 0, NAN, 0.6, 0])
    np.testing.assert_array_equal(got.imag, [-0.0, NAN, 0, -0.8, 0])
    assert np.signbit(got.imag[0]) and not np.signbit(got.imag[2])


@pytest.mark.parametrize(
    "x, y, expected",
    [
        (1.25, complex(-0.0, -1e-40), complex(-0.0, INF)),  # the quotient overflows in one part
        (1e38 + 1e38j, 1e38 + 1e38j, 1),
        (1e-40, 1e-40j, -1j),
        (1 + 1j, complex(INF, 0), 0),
    ],
)
def test_complex_quotients_over_the_whole_range(x, y, expected):
    got = run("divide", np.array([x], np.complex64), np.array([y], np.complex64))
    np.testing.assert_array_equal(got.real, np.real(expected))
    np.testing.assert_array_equal(got.imag, np.imag(expected))
