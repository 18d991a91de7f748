"""Bytes divided by constants: the bits of a division, for all of them."""

import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.byte_quotients import _reciprocal
from xla_backend.llvm.target import host_target
from xla_backend.llvm.types import const, constant_number
from xla_backend.targets.cpu.compiler import compile_module

DIVISORS = (255.0, 127.5, 127.0, 3.0, 0.1, 0.229, 1e-3, 77.7, 1e15, 1.0 + 2.0**-20)
# For which a division stays one.
DIVIDED = (-255.0, 0.0, float("inf"), float("nan"), 1e30, 1e-30)


def quotients(source: str, type: str, divisor: float, count: int):
    module = parse_module(f"""ENTRY main {{
      x = {source}[{count}] parameter(0)
      f = {type}[{count}] convert(x)
      c = {type}[] constant({divisor!r})
      b = {type}[{count}] broadcast(c), dimensions={{}}
      ROOT q = {type}[{count}] divide(f, b)
    }}""")
    return compile_module(module, CompileOptions())


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("source", ["u8", "s8"])
def test_bits(source: str, type: str) -> None:
    given, wanted = (np.dtype(P(t).numpy_dtype) for t in (source, type))
    values = np.arange(256, dtype=np.uint8).view(given)
    for divisor in (*DIVISORS, *DIVIDED):
        # By the numbers of the type, as x / c in the program is.
        with np.errstate(all="ignore"):
            want = values.astype(wanted) / wanted.type(divisor)
        for count in (256, 1):  # lanes, and a number alone
            (got,) = quotients(source, type, divisor, count).run_arrays([values[:count]])
            assert np.array_equal(got, want[:count], equal_nan=True), divisor
            signs = np.signbit([got, want[:count]])
            assert np.array_equal(*signs) or np.isnan(divisor)


@pytest.mark.skipif(not host_target().has_fma, reason="a product and a sum round twice")
def test_code() -> None:
    code = quotients("u8", "f32", 255.0, 256).texts()["llvm"]
    assert "fdiv" not in code
    assert "fdiv" in quotients("u8", "f32", -255.0, 256).texts()["llvm"]
    assert "fdiv" in quotients("s16", "f32", 255.0, 256).texts()["llvm"]


def test_reciprocals() -> None:
    found = _reciprocal(255.0, 24)
    assert found is not None
    assert found.high == np.float32(1) / np.float32(255)
    assert abs((found.high + found.low) * 255 - 1) < 2.0**-45
    assert _reciprocal(4.0, 24) is None  # which is exact by itself


@pytest.mark.parametrize("value", [0.1, -3.0, float("inf"), 1e-300])
@pytest.mark.parametrize("ty", ["float", "double", "<8 x double>"])
def test_constants_are_read(ty: str, value: float) -> None:
    stored = float(np.float32(value)) if ty == "float" else value
    assert constant_number(const(ty, value)) == stored
    assert constant_number("%v3") is None
    assert constant_number(const("<2 x i32>", 3)) is None
