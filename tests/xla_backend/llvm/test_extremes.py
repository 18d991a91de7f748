"""Maxima and minima of floats: every pair of special values, in vectors of all widths and alone."""

import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.llvm.elemental import EMITTERS
from xla_backend.llvm.extremes import extreme
from xla_backend.llvm.target import make_target
from xla_backend.llvm.types import const
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.compiler import compile_module

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 3e38]


def expected(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """NumPy's, with -0 < 0."""
    plain = (np.maximum if name == "maximum" else np.minimum)(x, y)
    signs = (np.signbit(x), np.signbit(y))
    negative = signs[0] & signs[1] if name == "maximum" else signs[0] | signs[1]
    return np.where((x == 0) & (y == 0), np.where(negative, -0.0, 0.0).astype(x.dtype), plain)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("count", [121, 128, 3, 1])
def test_special_values(name: str, type: str, count: int) -> None:
    module = parse_module(
        f"""HloModule m
        ENTRY main {{
          x = {type}[{count}] parameter(0)
          y = {type}[{count}] parameter(1)
          ROOT r = {type}[{count}] {name}(x, y)
        }}"""
    )
    executable = compile_module(module, CompileOptions())
    dtype = np.float32 if type == "f32" else np.float64
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL), dtype).reshape(2, -1)
    for first in range(0, pairs.shape[1], count):
        x, y = np.take(pairs, range(first, first + count), axis=1, mode="wrap")
        (got,) = executable.run_arrays([x, y])
        want = expected(name, x, y)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        numbers = ~np.isnan(want)
        assert got[numbers].tobytes() == want[numbers].tobytes()


@pytest.mark.parametrize(
    "cpu, ty, instruction",
    [
        ("x86-64-v4", "<64 x float>", "range.ps.512"),
        ("x86-64-v4", "<4 x double>", "range.pd.256"),
        ("x86-64-v4", "double", "cmp.sd range.sd add.sd"),
        ("x86-64-v4", "float", "cmp.ss range.ss add.ss"),
        ("x86-64-v4", "<2 x float>", "llvm.maximum.v2f32"),
        ("x86-64-v3", "<8 x float>", "llvm.maximum.v8f32"),
    ],
)
def test_which_instruction(cpu: str, ty: str, instruction: str) -> None:
    module = ModuleWriter(make_target("x86_64-unknown-linux-gnu", cpu))
    w = module.function("f.", [(ty, "x"), (ty, "y")], ty)
    w.ret(ty, extreme(w, ty, "%x", "%y", "maximum"))
    text = module.to_text()
    for part in instruction.split(" "):
        assert part in text


@pytest.mark.parametrize("name, start", [("maximum", -np.inf), ("minimum", np.inf)])
@pytest.mark.parametrize("ty", ["float", "<16 x float>"])
def test_where_a_reduction_begins_is_no_instruction(ty: str, name: str, start: float) -> None:
    module = ModuleWriter(make_target("x86_64-unknown-linux-gnu", "x86-64-v4"))
    w = module.function("f.", [(ty, "x")], ty)
    operator = EMITTERS[name]
    assert (
        operator(w, ty, "%x", const(ty, start)) == operator(w, ty, const(ty, start), "%x") == "%x"
    )
    assert operator(w, ty, "%x", const(ty, -start)) != "%x"


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("type", ["f32", "f64"])
def test_special_values_in_rows(name: str, type: str) -> None:
    """Lanes are put together as integers that are ordered as the numbers are."""
    start = "-inf" if name == "maximum" else "inf"
    module = parse_module(
        f"""HloModule m
        c {{
          a = {type}[] parameter(0)
          b = {type}[] parameter(1)
          ROOT m = {type}[] {name}(a, b)
        }}
        ENTRY main {{
          x = {type}[121,40] parameter(0)
          i = {type}[] constant({start})
          ROOT r = {type}[121] reduce(x, i), dimensions={{1}}, to_apply=c
        }}"""
    )
    dtype = np.float32 if type == "f32" else np.float64
    rng = np.random.default_rng(0)
    x = rng.choice(np.array([0.0, -0.0, -1e-45, 1e-45], dtype), (121, 40))
    pairs = np.array(np.meshgrid(SPECIAL, SPECIAL), dtype).reshape(2, -1)
    x[:, 3], x[:, 38] = pairs  # lanes of different vectors
    x[-20:] = rng.choice(np.array([-np.inf, -3.0, -0.0, 0.0], dtype), (20, 40))
    (got,) = compile_module(module, CompileOptions()).run_arrays([x])
    want = x[:, 0]
    for column in x.T[1:]:
        want = expected(name, want, column)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    numbers = ~np.isnan(want)
    assert got[numbers].tobytes() == want[numbers].tobytes()
