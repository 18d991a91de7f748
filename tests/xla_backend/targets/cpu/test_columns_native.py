"""Reductions down the columns of arrays: many columns at a time, for all widths, NaN and zeros."""

import numpy as np
import pytest
from native_checks import check_text, module_of

from xla_backend import compile
from xla_backend.compile_options import CompileOptions
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module

WIDTHS = (1, 15, 64, 200, 257, 1000)
OPERATIONS = {"add": (np.sum, "0"), "maximum": (np.max, "-inf"), "minimum": (np.min, "inf")}


def module(opcode, rows, width):
    """Reduces axis 1 of [3, rows, width]."""
    text = f"""a = f32[3,{rows},{width}] parameter(0)
      start = f32[] constant({OPERATIONS[opcode][1]})
      ROOT r = f32[3,{width}] reduce(a, start), dimensions={{1}}, to_apply=op"""
    combine = f"""op {{
      x = f32[] parameter(0)
      y = f32[] parameter(1)
      ROOT r = f32[] {opcode}(x, y)
    }}"""
    return module_of(text, combine)


def argument(rows, width):
    a = np.random.default_rng(0).standard_normal((3, rows, width)).astype(np.float32)
    a[1, rows // 2, ::3] = np.nan
    a[2, :, 0], a[2, rows - 1, 0] = -0.0, 0.0
    return a


@pytest.mark.parametrize("opcode", OPERATIONS)
@pytest.mark.parametrize("width", WIDTHS)
def test_values(opcode, width):
    executable = compile_module(module(opcode, 300, width), CompileOptions())
    a = argument(300, width)
    expected = OPERATIONS[opcode][0](a.astype(np.float64), 1)
    before, found = num_threads(), []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found.append(np.asarray(executable.run_arrays([a])[0]))
    finally:
        set_num_threads(before)
    if opcode == "add":
        np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-4)
    else:
        np.testing.assert_array_equal(found[0], expected)
        assert np.signbit(found[0][2, 0]) == (opcode == "minimum")
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].view(np.int32), other.view(np.int32))


def test_rows_are_read_as_wide_as_registers_allow():
    """Narrow groups of columns would each go through all of the memory again."""
    text = compile(module("maximum", 300, 200), target="x86-64-v4").texts()["loops"]
    check_text(
        text,
        """
        // CHECK:      for lane in lanes(256):
        // CHECK-NEXT: if lane < 200:
        // CHECK-NEXT: acc0 = (-inf)
        // CHECK-NEXT: for {{.*}} in range(30):
        // CHECK-NEXT: = p0[6000*i + 60000*j + lane + 200*l]
        """,
    )
