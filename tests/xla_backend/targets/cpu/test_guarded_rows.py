"""Rows that are read where a condition holds, which differs between lanes: large arrays without a
mask where it holds for all."""

import numpy as np
import pytest
from native_checks import module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.library import compile
from xla_backend.targets.cpu.compiler import compile_module

PADDED = """
  x = f32[{rows},{columns}] parameter(0)
  z = f32[] constant(7)
  p = f32[{tall},{wide}] pad(x, z), padding=3_3x5_5
  ROOT r = f32[{tall},{wide}] {last}
"""
LAST = {"forwards": "negate(p)", "backwards": "reverse(p), dimensions={1}"}


def padded(rows: int, columns: int, way: str) -> str:
    sizes = {"rows": rows, "columns": columns, "tall": rows + 6, "wide": columns + 10}
    return PADDED.format(**sizes, last=LAST[way])


@pytest.mark.parametrize("way", LAST)
@pytest.mark.parametrize("rows, columns", [(300, 301), (400, 256), (3, 40000), (5, 30)])
def test_padded_rows(rows: int, columns: int, way: str) -> None:
    program = compile_module(module_of(padded(rows, columns, way)), CompileOptions())
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    wide = np.pad(x, ((3, 3), (5, 5)), constant_values=7)
    (result,) = program.run_arrays([x])
    np.testing.assert_array_equal(result, -wide if way == "forwards" else wide[:, ::-1])


@pytest.mark.parametrize("way", LAST)
@pytest.mark.parametrize("rows, twice", [(300, True), (30, False)])
def test_large_arrays_are_read_without_a_mask(rows: int, twice: bool, way: str) -> None:
    texts = compile(module_of(padded(rows, 301, way)), target="x86-64-v4").texts()
    assert ("llvm.vector.reduce.and" in texts["llvm"]) is twice
    assert "llvm.masked.load" in texts["llvm"]
