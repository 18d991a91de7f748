"""Constants in HLO text: digits, specials, nesting, errors."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_backend.hlo.errors import ParseError
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.literal_text import literal_text, parse_literal
from xla_backend.hlo.parser import parse_shape
from xla_backend.hlo.text_cursor import Cursor
from xla_backend.hlo.types import PrimitiveType


def read(shape, text):
    cursor = Cursor(text + ")")
    literal = parse_literal(cursor, parse_shape(shape))
    assert cursor.at(")")
    return literal


PRINTED = [
    ("f32[]", "1e10", "1e+10"),
    ("f32[]", "-0.0", "-0.0"),
    ("f32[2]", "{-0, -0.0}", "{0, -0.0}"),
    ("c64[]", "(-0.0,-0)", "(-0.0, 0)"),
    ("f32[]", "nan", "nan"),
    ("f32[]", "-nan", "-nan"),
    ("f32[]", "-nan(0x1)", "-nan(0x1)"),
    ("f32[]", "nan(0x400000)", "nan"),
    ("f16[]", "nan(0x3ff)", "nan(0x3ff)"),
    ("f8e5m2[]", "-nan(0x3)", "-nan(0x3)"),
    ("f8e4m3[3]", "{nan(0x1),nan(0x4),nan}", "{nan(0x1), nan, nan}"),
    ("f8e3m4[]", "nan(0xf)", "nan(0xf)"),
    ("f8e4m3fn[2]", "{nan,-nan}", "{nan, -nan}"),
    ("f32[]", "-0e0", "-0.0"),
    ("bf16[2]", "{-0,-0.}", "{0, -0.0}"),
    ("f32[]", "inf", "inf"),
    ("f32[]", "-inf", "-inf"),
    ("f32[]", "0.1", "0.1"),
    ("f32[]", "3.4028235e38", "3.40282347e+38"),
    ("f64[]", "0.1", "0.1"),
    ("f64[]", "1e-320", "9.99988867182683e-321"),
    ("f64[]", "0.1234567890123456789", "0.12345678901234568"),
    ("bf16[]", "3.14159", "3.141"),
    ("f16[]", "1e-7", "1.1921e-07"),
    ("f8e4m3fn[]", "448", "448"),
    ("f8e5m2[]", "57344", "5.7e+04"),
    ("f8e8m0fnu[]", "2", "2"),
    ("f4e2m1fn[2]", "{1.5,-6}", "{1.5, -6}"),
    ("pred[]", "1", "true"),
    ("pred[3]", "{true,false,1}", "{1, 0, 1}"),
    ("s8[]", "-128", "-128"),
    ("u64[]", "18446744073709551615", "18446744073709551615"),
    ("s4[2]", "{-8,7}", "{-8, 7}"),
    ("u2[2]", "{3,0}", "{3, 0}"),
    ("c64[]", "(1,-2.5)", "(1, -2.5)"),
    ("c64[]", "(nan,-nan(0x3))", "(nan, -nan(0x3))"),
    ("c64[2]", "{(1,2),(3,4)}", "{(1, 2), (3, 4)}"),
    ("f32[2,3]", "{{1,2,3},{4,5,6}}", "{ { 1, 2, 3 }, { 4, 5, 6 } }"),
    ("f32[2,1,2]", "{{{1,2}},{{5,6}}}", "{ { { 1, 2 } }, { { 5, 6 } } }"),
    ("f32[1,1]", "{{1}}", "{ {1} }"),
    ("f32[0]", "{}", "{}"),
    ("f32[2,0]", "{{},{}}", "{ {}, {} }"),
    ("f32[2,0,2]", "{{},{}}", "{ {  }, {  } }"),
    ("f32[0,2]", "{}", "{  }"),
    ("s1[2]", "{0,-1}", "{0, -1}"),
    ("u1[2]", "{0,1}", "{0, 1}"),
    ("f6e3m2fn[2]", "{1.5,-28}", "{1.5, -28}"),
    ("f6e2m3fn[2]", "{1.5,-7.5}", "{1.5, -7.5}"),
    ("(f32[], s32[2])", "(1,{2,3})", "( 1, {2, 3} )"),
    ("((), (pred[], c64[]))", "((),(true,(1,2)))", "( (  ), ( true, (1, 2) ) )"),
    ("s32[2]", "{ /*i0=0*/ 1, // one\n 2 }", "{1, 2}"),
]


@pytest.mark.parametrize("shape, text, printed", PRINTED)
def test_prints_and_reads_back(shape, text, printed):
    literal = read(shape, text)
    assert literal_text(literal) == printed
    assert read(shape, printed) == literal


ERRORS = [
    ("s8[]", "200", "out of range for s8"),
    ("s32[]", "1.5", "expected an integer"),
    ("u32[]", "-1", "out of range for u32"),
    ("s64[]", "9" * 400, "out of range"),
    ("f32[]", "1e50", "out of range for f32"),
    ("f64[]", "1e400", "1e400 is out of range for f64"),
    ("f32[2]", "{1,-1e400}", "-1e400 is out of range for f32"),
    ("c64[]", "(0,1e400)", "out of range for f32"),
    ("f16[]", "nan(0x400)", "NaN payload 0x400 is out of range for f16: 0x1 to 0x3ff"),
    ("f32[]", "nan(0x0)", "NaN payload 0x0 is out of range for f32"),
    ("f8e4m3fn[]", "nan(0x1)", "a NaN of f8e4m3fn has no payload"),
    ("f32[]", "0x1p3", "expected a decimal number"),
    ("f32[]", "1_0", "expected a decimal number"),
    ("f32[]", "infinity", "expected a decimal number"),
    ("f32[2]", "{1}", "1 members in dimension 0, the shape says 2"),
    ("f32[2]", "{1,2,3}", "3 members"),
    ("f32[2]", "{1,2", "expected a value"),
    ("f32[2]", "{1 2}", "unexpected value"),
    ("f32[2]", "{1,,2}", "unexpected ','"),
    ("f32[2]", "{1,2,}", "unexpected '}'"),
    ("f32[2]", "1", "0 braces are open"),
    ("f32[]", "{1}", "rank 0"),
    ("f32[2,2]", "{{1,2}{3,4}}", "unexpected '{'"),
    ("pred[]", "2", "expected true, false"),
    ("c64[]", "(1,2,3)", r"expected \(real, imaginary\)"),
    ("token[]", "0", "no constant of shape"),
    ("f32[?]", "{1}", "no constant of shape"),
    ("(f32[], s32[])", "(1)", "expected ','"),
    ("(f32[], s32[])", "{1, 2}", "expected '\\('"),
    ("(f32[])", "(1, 2)", "expected '\\)'"),
    ("s1[]", "1", "out of range for s1: -1 to 0"),
]


@pytest.mark.parametrize("shape, text, message", ERRORS)
def test_errors(shape, text, message):
    with pytest.raises(ParseError, match=message):
        read(shape, text)


def test_elision():
    literal = Literal(np.arange(11, dtype=np.int32))
    assert literal_text(literal, large_constants=False) == "{...}"
    assert literal_text(Literal(np.arange(10, dtype=np.int32)), large_constants=False) != "{...}"
    assert read("s32[11]", "{...}") == Literal(np.zeros(11, np.int32))


@pytest.mark.parametrize("kind", [t for t in PrimitiveType if t.is_floating and t.bits <= 16])
def test_every_small_float_reads_back(kind):
    bits = np.arange(1 << kind.bits).astype(np.uint8 if kind.bits <= 8 else np.uint16)
    literal = Literal(bits.view(kind.numpy_dtype))
    again = read(f"{kind}[{bits.size}]", literal_text(literal))
    assert (again.array.view(bits.dtype) == bits).all()


@settings(max_examples=50, deadline=None, database=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_f32_bits_survive(bits):
    literal = Literal(np.array(bits, np.uint32).view(np.float32))
    again = read(f"f32[{len(bits)}]", literal_text(literal))
    signalling = (literal.array.view(np.uint32) & 0x7FFFFF) == 0
    assert (again == literal) or signalling.any()


@settings(max_examples=50, deadline=None, database=None)
@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_f64_values_survive(values):
    literal = Literal(np.array(values))
    assert read(f"f64[{len(values)}]", literal_text(literal)) == literal


def test_ml_dtypes_scalars_print():
    assert literal_text(Literal(np.asarray(2.5, ml_dtypes.bfloat16))) == "2.5"
