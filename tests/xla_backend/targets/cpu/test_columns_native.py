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


def combiner(opcode):
    return f"""op {{
      x = f32[] parameter(0)
      y = f32[] parameter(1)
      ROOT r = f32[] {opcode}(x, y)
    }}"""


def module(opcode, rows, width):
    """Reduces axis 1 of [3, rows, width]."""
    text = f"""a = f32[3,{rows},{width}] parameter(0)
      start = f32[] constant({OPERATIONS[opcode][1]})
      ROOT r = f32[3,{width}] reduce(a, start), dimensions={{1}}, to_apply=op"""
    return module_of(text, combiner(opcode))


def argument(rows, width):
    a = np.random.default_rng(0).standard_normal((3, rows, width)).astype(np.float32)
    a[1, rows // 2, ::3] = np.nan
    a[2, :, 0], a[2, rows - 1, 0] = -0.0, 0.0
    return a


def results_on_threads(executable, a):
    """The result on one, two and seven threads."""
    before, found = num_threads(), []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found.append(np.asarray(executable.run_arrays([a])[0]))
    finally:
        set_num_threads(before)
    return found


@pytest.mark.parametrize("opcode", OPERATIONS)
@pytest.mark.parametrize("width", WIDTHS)
def test_values(opcode, width):
    executable = compile_module(module(opcode, 300, width), CompileOptions())
    a = argument(300, width)
    expected = OPERATIONS[opcode][0](a.astype(np.float64), 1)
    found = results_on_threads(executable, a)
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


def test_partial_results_are_added_up_by_less_code():
    """They are few, and wide groups are code for each register."""
    text = """a = f32[1000,1000] parameter(0)
      start = f32[] constant(0)
      ROOT r = f32[1000] reduce(a, start), dimensions={0}, to_apply=op"""
    loops = compile(module_of(text, combiner("add")), target="x86-64-v4").texts()["loops"]
    assert loops.count("lanes(256)") == 1
    check_text(
        loops,
        """
        // CHECK:      for lane in lanes(64):
        // CHECK-NEXT: acc{{.*}} =
        // CHECK-NEXT: for {{.*}} in range(
        // CHECK-NEXT: = partial0[
        """,
    )


def test_the_last_columns_have_no_code_of_their_own():
    """They are computed again with some before them: a copy under masks took LLVM as long as all
    the rest."""
    text = compile(module("add", 20, 1000), target="x86-64-v4").texts()["loops"]
    check_text(
        text,
        """
        // CHECK:      for {{.*}} in range(4):
        // CHECK-NEXT: for lane in lanes(256):
        // CHECK-NEXT: acc0 =
        // CHECK-NEXT: for {{.*}} in range(
        // CHECK-NEXT: = p0[{{.*}} - 24*((
        // CHECK-NOT:  if
        """,
    )


def test_few_columns_are_not_computed_twice():
    """What is read again may be in memory."""
    text = compile(module("add", 20, 300), target="x86-64-v4").texts()["loops"]
    check_text(text, "// CHECK: if 256*{{.*}} + lane < 300:")


def test_masks_of_moving_windows_stay_in_registers():
    """Which lanes of a window lie in the padding is another mask in each round."""
    text = """a = f32[10000] parameter(0)
      start = f32[] constant(0)
      ROOT r = f32[10000] reduce-window(a, start), window={size=101 pad=50_50}, to_apply=op"""
    loops = compile(module_of(text, combiner("add")), target="x86-64-v4").texts()["loops"]
    assert "lanes(64)" in loops and "lanes(256)" not in loops


def test_places_apart_are_read_by_one_register():
    """Each register of lanes takes shuffles of its own."""
    text = """a = f32[1000,3] parameter(0)
      start = f32[] constant(0)
      p = f32[1000,20,3] broadcast(a), dimensions={0,2}
      b = f32[20,3] parameter(1)
      q = f32[1000,20,3] broadcast(b), dimensions={1,2}
      d = f32[1000,20,3] subtract(p, q)
      ROOT r = f32[20,1000] reduce(t, start), dimensions={2}, to_apply=op"""
    text = text.replace("ROOT", "t = f32[20,1000,3] transpose(d), dimensions={1,0,2}\n      ROOT")
    loops = compile(module_of(text, combiner("add")), target="x86-64-v4").texts()["loops"]
    check_text(
        loops,
        """
        // CHECK:      for lane in lanes(16):
        // CHECK:      for {{.*}} in range(3):
        // CHECK:      = p{{[01]}}[{{.*}}3*lane{{.*}}]
        """,
    )


LONG = {
    "a vector and parts": ((4203, 1003), 0),
    "few rows": ((19, 260_011), 0),
    "parts of matrices": ((3, 1501, 1031), 1),
    "parts of rows": ((17_001, 257), 0),
    "short rows of matrices": ((1201, 17, 211), 1),
}


@pytest.mark.parametrize("opcode", OPERATIONS)
@pytest.mark.parametrize("case", LONG)
def test_columns_of_what_lies_in_memory(case, opcode):
    """Each is reduced in the order of its rows, for any number of threads."""
    shape, axis = LONG[case]
    full = ",".join(map(str, shape))
    left = ",".join(str(n) for i, n in enumerate(shape) if i != axis)
    text = f"""a = f32[{full}] parameter(0)
      start = f32[] constant({OPERATIONS[opcode][1]})
      ROOT r = f32[{left}] reduce(a, start), dimensions={{{axis}}}, to_apply=op"""
    executable = compile_module(module_of(text, combiner(opcode)), CompileOptions())
    assert executable.llvm_ir.count("alloca [") > 1, "groups of rows keep what they have"
    a = np.random.default_rng(0).standard_normal(shape, np.float32)
    a[..., 7] = -0.0
    if opcode != "add":
        a[..., shape[-2] // 2, ::5] = np.nan
    expected = OPERATIONS[opcode][0](a.astype(np.float64), axis)
    found = results_on_threads(executable, a)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=2e-3)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].view(np.int32), other.view(np.int32))


def test_rows_from_memory_are_read_in_groups():
    """A few pages of each at a time, of which a register takes some hundred bytes."""
    text = compile(module("maximum", 1000, 5000), target="x86-64-v4").texts()["loops"]
    check_text(
        text,
        """
        // CHECK:      for part in range(
        // CHECK:      kept0[64*{{.}} + lane] = (-inf)
        // CHECK:      for group in range({{[0-9]+}}):
        // CHECK:      for lane in lanes(64):
        // CHECK:      = kept0[64*{{.}} + lane]
        // CHECK:      for {{.}} in range(8):
        // CHECK:      kept0[64*{{.}} + lane] =
        // CHECK:      = kept0[64*{{.}} + lane]
        // CHECK-NEXT: out0[
        """,
    )


def test_short_rows_from_memory_are_read_one_by_one():
    """They follow each other: memory is read in its order."""
    text = compile(module("maximum", 15_000, 200), target="x86-64-v4").texts()["loops"]
    check_text(
        text,
        """
        // CHECK:      kept0[64*{{.}} + lane] = (-inf)
        // CHECK:      for group in range({{[0-9]+}}):
        // CHECK-NEXT: for {{.}} in range(3):
        // CHECK-NEXT: for lane in lanes(64):
        // CHECK-NEXT: = kept0[64*{{.}} + lane]
        // CHECK-NEXT: = p0[{{.*}} + 200*group + 64*{{.}} + lane]
        // CHECK-NEXT: = maximum(
        // CHECK-NEXT: kept0[64*{{.}} + lane] =
        """,
    )


def test_rows_in_caches_are_read_all_at_once():
    text = compile(module("maximum", 300, 1000), target="x86-64-v4").texts()["loops"]
    assert "group" not in text and "lanes(256)" in text
