"""Sums and extremes ask for what they read a page later, where arrays are larger than caches."""

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


def asks(body: str) -> int:
    """How many lines of a cache the code asks for."""
    text = compile_module(module_of(body, SUM), CompileOptions()).llvm_ir
    return text.count("call void @llvm.prefetch")


def total(n: int) -> str:
    return f"""x = f32[{n}] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=sum"""


def test_large_sums_do() -> None:
    assert asks(total(1 << 22)) > 0
    rows = total(1 << 22).replace("f32[4194304]", "f32[256,16384]").replace("{0}", "{1}")
    assert asks(rows.replace("r = f32[]", "r = f32[256]")) > 0


@pytest.mark.parametrize(
    "body",
    [total(1 << 16), "x = f32[4194304] parameter(0)\n ROOT y = f32[4194304] exponential(x)"],
    ids=["a small sum", "no sum"],
)
def test_others_do_not(body: str) -> None:
    assert asks(body) == 0
