"""Reductions of rows of up to 16 elements, with a row in each lane: rows are read at once."""

import numpy as np
import pytest
from native_checks import arguments_of, check_native, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.llvm.target import host_target
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.short_row_reads import shuffles

# The combiner, and what a reduction with it begins with.
COMBINERS = {
    "f32": ("add", "0"),
    "f64": ("maximum", "-inf"),
    "u8": ("or", "0"),
    "s32": ("add", "0"),
    "pred": ("or", "false"),
    "bf16": ("minimum", "inf"),
}


def module(type: str, rows: int, length: int) -> HloModule:
    """Combines rows of the first argument, some of which are those of the second, too."""
    combiner, start = COMBINERS[type]
    both = "and" if type == "pred" else "add"
    body = f"""x = {type}[{rows},{length}] parameter(0)
      y = {type}[{rows},{length}] parameter(1)
      b = {type}[{rows},{length}] {both}(x, y)
      z = {type}[] constant({start})
      ROOT r = {type}[{rows}] reduce(b, z), dimensions={{1}}, to_apply=op"""
    called = f"""op {{
      p = {type}[] parameter(0)
      q = {type}[] parameter(1)
      ROOT o = {type}[] {combiner}(p, q)
    }}"""
    return module_of(body, called)


@pytest.mark.parametrize("type", COMBINERS)
@pytest.mark.parametrize("length", [4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16])
def test_values(type: str, length: int) -> None:
    for rows in (320, 333, 75):  # whole vectors, and some lanes of a last one
        check_native(module(type, rows, length))


def test_lengths_that_come_apart() -> None:
    """Lanes of other rows read for themselves: as many shuffles take as long."""
    apart = {lanes: [n for n in range(20) if shuffles(n, lanes)] for lanes in (8, 16)}
    assert apart == {8: [4, 8, 16], 16: [4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16]}


def test_rows_whose_last_vector_overlaps() -> None:
    """Where it begins is a quotient, which does not differ between lanes."""
    executable = check_native(module("f32", 1000, 8))
    if host_target().lanes(32) == 16:
        assert "gather" not in executable.llvm_ir


def test_nan_and_signs_of_zeros() -> None:
    made = module("f64", 333, 8)
    x, y = arguments_of(made)
    x[::7, 3], x[::5], y[::5] = np.nan, -0.0, -0.0
    x[::10, 4] = y[::10, 4] = 0.0
    executable = check_native(made, [x, y])
    (got,) = executable.run_arrays([x, y])
    # The maximum of a positive zero and negative ones is the positive one.
    zeros = np.flatnonzero(np.asarray(got) == 0)
    assert len(zeros) > 50
    np.testing.assert_array_equal(np.signbit(got)[zeros], zeros % 10 != 0)


@pytest.mark.parametrize(
    ("type", "length"), [("f32", 8), ("f32", 16), ("u8", 8), ("pred", 16), ("f32", 10), ("s32", 15)]
)
def test_no_lane_goes_to_memory_alone(type: str, length: int) -> None:
    text = compile_module(module(type, 1024, length), CompileOptions()).llvm_ir
    if host_target().lanes(32) == 16:  # two arrays of long rows do not fit into fewer registers
        assert "shufflevector" in text and "gather" not in text


@pytest.mark.parametrize("arrays", [3, 4])
@pytest.mark.parametrize("rows", [320, 333])
def test_rows_of_several_arrays(rows: int, arrays: int) -> None:
    """As many as fit into the registers of machines that have 32."""
    lines = [f"x{i} = f32[{rows},8] parameter({i})" for i in range(arrays)]
    lines += [
        f"y{i} = f32[{rows},8] multiply({'x0' if i == 1 else f'y{i - 1}'}, x{i})"
        for i in range(1, arrays)
    ]
    lines += ["z = f32[] constant(0)"]
    lines += [f"ROOT r = f32[{rows}] reduce(y{arrays - 1}, z), dimensions={{1}}, to_apply=op"]
    called = """op {
      p = f32[] parameter(0)
      q = f32[] parameter(1)
      ROOT o = f32[] add(p, q)
    }"""
    made = module_of("\n".join(lines), called)
    check_native(made)
    text = compile_module(made, CompileOptions()).llvm_ir
    if host_target().lanes(32) == 16 and rows == 320:
        assert "shufflevector" in text and "gather" not in text


@pytest.mark.parametrize("type", ["f32", "u8", "s16"])
@pytest.mark.parametrize("rows", [320, 333])
@pytest.mark.parametrize("read", [(0, 1, 2, 3, 4, 5, 6, 7), (7, 0, 3, 2), (1, 2, 3, 4, 5, 6, 7)])
def test_elements_of_rows_that_are_read_side_by_side(
    type: str, rows: int, read: tuple[int, ...]
) -> None:
    lines = [f"x = {type}[{rows},8] parameter(0)"]
    for i in read:
        lines.append(f"s{i} = {type}[{rows},1] slice(x), slice={{[0:{rows}], [{i}:{i + 1}]}}")
    total = f"s{read[0]}"
    for i in read[1:]:
        root = "ROOT " if i == read[-1] else ""
        lines.append(f"{root}t{i} = {type}[{rows},1] subtract({total}, s{i})")
        total = f"t{i}"
    executable = check_native(module_of("\n".join(lines)))
    whole = 0 in read  # the first and the last element are read
    if whole and rows == 320 and host_target().lanes(32) == 16:
        assert "gather" not in executable.llvm_ir


def test_same_bits_on_any_number_of_threads() -> None:
    executable = compile_module(module("f32", 100_003, 8), CompileOptions())
    arguments = arguments_of(module("f32", 100_003, 8))
    before, found = num_threads(), []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found.append(np.asarray(executable.run_arrays(arguments)[0]).tobytes())
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]
    # In the order of the elements, as one by one.
    sums = np.zeros(100_003, np.float32)
    for column in (arguments[0] + arguments[1]).T:
        sums += column
    assert sums.tobytes() == found[0]
