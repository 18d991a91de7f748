"""Sums, and extremes of long rows, ask for what they read a page later, where arrays are larger
than caches."""

import re

import pytest
from native_checks import module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.targets.cpu.compiler import compile_module

SUM = """sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""


def asks(body: str, called: str = SUM) -> int:
    """How many lines of a cache the code asks for."""
    text = compile_module(module_of(body, called), CompileOptions()).llvm_ir
    return text.count("call void @llvm.prefetch")


def total(n: int) -> str:
    return f"""x = f32[{n}] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=sum"""


def test_large_sums_do() -> None:
    assert asks(total(1 << 22)) > 0
    rows = total(1 << 22).replace("f32[4194304]", "f32[256,16384]").replace("{0}", "{1}")
    assert asks(rows.replace("r = f32[]", "r = f32[256]")) > 0


def test_sums_of_columns_ask_for_later_rows() -> None:
    """Whose places are as many rows ahead as are two pages of what is read of each."""
    body = """x = f32[50000,100] parameter(0)
      z = f32[] constant(0)
      e = f32[50000,100] exponential(x)
      ROOT r = f32[100] reduce(e, z), dimensions={0}, to_apply=sum"""
    text = compile_module(module_of(body, SUM), CompileOptions()).llvm_ir
    places = dict(re.findall(r"(%[^ ]+) = getelementptr i8, ptr %[^ ]+, i64 (\d+)\n", text))
    asked = re.findall(r"call void @llvm.prefetch.p0\(ptr (%[^,]+),", text)
    distances = sorted({int(places[place]) for place in asked})
    assert distances and len(distances) == len(asked)
    rows, left = divmod(distances[0], 400)
    assert left == 0 and rows * len(distances) * 64 == 8192


MAX = SUM.replace("sum {", "largest {").replace("add(", "maximum(")


def largest(rows: int, columns: int) -> str:
    return f"""x = f32[{rows},{columns}] parameter(0)
      z = f32[] constant(-inf)
      ROOT r = f32[{rows}] reduce(x, z), dimensions={{1}}, to_apply=largest"""


def test_extremes_do_along_long_rows() -> None:
    assert asks(largest(256, 16384), MAX) > 0
    assert asks(largest(16384, 256), MAX) == 0


def test_what_does_more_than_one_thing_does_not() -> None:
    """Its rounds take longer than what they read."""
    squares = (
        total(1 << 22)
        .replace("reduce(x", "reduce(y")
        .replace("z =", "y = f32[4194304] multiply(x, x)\n z =")
    )
    assert asks(squares) == 0


@pytest.mark.parametrize(
    "body",
    [total(1 << 21), "x = f32[4194304] parameter(0)\n ROOT y = f32[4194304] exponential(x)"],
    ids=["a small sum", "no sum"],
)
def test_others_do_not(body: str) -> None:
    assert asks(body) == 0
