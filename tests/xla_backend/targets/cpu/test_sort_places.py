"""Sorts of numbers of places beside keys, as argsorts are: the permutation is the result, and no
array of numbers is written or gathered."""

import numpy as np
import pytest

from tests.xla_backend.targets.cpu.native_checks import check_native, module_of
from xla_backend.program.ir import Launch, Library

LESS = """less {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  i = {type}[] parameter(2)
  j = {type}[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT
}}
"""


def steps_of(lines, type="s32"):
    """The names of kernels and routines that a module runs, whose results are checked."""
    executable = check_native(module_of(lines, LESS.format(type=type)))
    steps = executable.program.steps
    kernels = [s.kernel for s in steps if isinstance(s, Launch)]
    return kernels, [s.routine for s in steps if isinstance(s, Library)]


def sort(type, dimension=1, numbered=1, read="s"):
    shape = "[37,70]"
    return f"""x = f32{shape} parameter(0)
        i = {type}{shape} iota(), iota_dimension={numbered}
        s = (f32{shape}, {type}{shape}) sort(x, i), dimensions={{{dimension}}}, is_stable=true,
          to_apply=less
        {read}"""


@pytest.mark.parametrize("type, routine", [("s32", "argsort_f32"), ("s64", "argsort64_f32")])
@pytest.mark.parametrize("dimension", [0, 1])
def test_numbers_of_32_and_64_bits_are_what_the_routine_writes(type, routine, dimension):
    order = f"ROOT r = {type}[37,70] get-tuple-element(s), index=1"
    assert steps_of(sort(type, dimension, dimension, order), type) == ([], [routine])


def test_of_other_types_they_are_converted():
    order = "ROOT r = u16[37,70] get-tuple-element(s), index=1"
    kernels, routines = steps_of(sort("u16", read=order), "u16")
    assert routines == ["argsort_f32"]
    assert len(kernels) == 1 and "iota" not in kernels[0]


@pytest.mark.parametrize("type", ["s32", "s64"])
def test_comparators_that_read_them_find_them(type):
    later_first = LESS.replace(
        "ROOT r = pred[] compare(a, b), direction=LT",
        """less = pred[] compare(a, b), direction=LT
  same = pred[] compare(a, b), direction=EQ
  later = pred[] compare(i, j), direction=GT
  both = pred[] and(same, later)
  ROOT r = pred[] or(less, both)""",
    )
    order = f"ROOT r = {type}[37,70] get-tuple-element(s), index=1"
    executable = check_native(module_of(sort(type, read=order), later_first.format(type=type)))
    (found,) = executable.run_arrays([np.zeros((37, 70), np.float32)])
    np.testing.assert_array_equal(found, np.arange(70)[::-1] + np.zeros((37, 1)))


def test_values_beside_them_are_gathered():
    both = """k = f32[37,70] get-tuple-element(s), index=0
        o = s32[37,70] get-tuple-element(s), index=1
        ROOT t = (f32[37,70], s32[37,70]) tuple(k, o)"""
    kernels, routines = steps_of(sort("s32", read=both))
    assert routines == ["argsort_f32"] and len(kernels) == 1


def test_numbers_along_another_dimension_are_values():
    order = "ROOT r = s32[37,70] get-tuple-element(s), index=1"
    kernels, _ = steps_of(sort("s32", dimension=1, numbered=0, read=order))
    assert len(kernels) == 2


def test_numbers_that_others_read_are_written():
    order = """o = s32[37,70] get-tuple-element(s), index=1
        n = s32[37,70] reverse(i), dimensions={1}
        ROOT t = (s32[37,70], s32[37,70], s32[37,70]) tuple(o, i, n)"""
    kernels, _ = steps_of(sort("s32", read=order))
    assert kernels


def test_numbers_that_are_keys_are_written():
    compare = """less {
      a = f32[] parameter(0)
      b = f32[] parameter(1)
      i = s32[] parameter(2)
      j = s32[] parameter(3)
      ROOT r = pred[] compare(i, j), direction=GT
    }
    """
    order = "ROOT r = f32[37,70] get-tuple-element(s), index=0"
    executable = check_native(module_of(sort("s32", read=order), compare))
    x = np.arange(37 * 70, dtype=np.float32).reshape(37, 70)
    np.testing.assert_array_equal(executable.run_arrays([x])[0], x[:, ::-1])


def test_keys_that_nobody_reads_are_not_gathered_where_the_first_few_are():
    few = """v = s32[37,70] get-tuple-element(s), index=1
        ROOT r = s32[37,5] slice(v), slice={[0:37], [0:5]}"""
    kernels, routines = steps_of(sort("s32", read=few))
    assert routines == ["select_f32"] and [k for k in kernels if "permute" in k] == ["permute"]


def places_of(lines: str) -> tuple[int, int]:
    """Which places of each row the sort of a module has to find."""
    less = LESS.format(type="s32").replace(
        "  i = s32[] parameter(2)\n  j = s32[] parameter(3)\n", ""
    )
    executable = check_native(module_of(lines, less))
    (step,) = (s for s in executable.program.steps if isinstance(s, Library))
    return step.operands[-2:]


ROWS = "x = f32[9,700] parameter(0)\n s = f32[9,700] sort(x), dimensions={1}, to_apply=less\n"


def test_what_is_not_read_is_not_sorted():
    """Of a quantile two neighbours are read."""
    low = "a = f32[9,1] slice(s), slice={[0:9], [400:401]}\n"
    high = "b = f32[9,1] slice(s), slice={[0:9], [401:402]}\n"
    assert places_of(f"{ROWS} {low} {high} ROOT r = f32[9,1] add(a, b)") == (400, 402)
    assert places_of(f"{ROWS} {low} ROOT r = f32[9,1] negate(a)") == (400, 401)
    assert places_of(f"{ROWS} ROOT r = f32[9,700] negate(s)") == (0, 700)
    assert places_of(f"{ROWS} {low} ROOT r = (f32[9,1], f32[9,700]) tuple(a, s)") == (0, 700)


TRUTH = """less {{
  a = pred[] parameter(0)
  b = pred[] parameter(1)
  i = {type}[] parameter(2)
  j = {type}[] parameter(3)
  ROOT r = pred[] compare(a, b), direction={direction}
}}
"""


def sort_by_truth(type, values, direction="LT", shape="[1000]", read="0"):
    dims = f"dimensions={{{read}}}, is_stable=true, to_apply=less"
    lines = f"""m = pred{shape} parameter(0)
        x = {type}{shape} {values}
        s = (pred{shape}, {type}{shape}) sort(m, x), {dims}
        k = pred{shape} get-tuple-element(s), index=0
        o = {type}{shape} get-tuple-element(s), index=1
        ROOT t = (pred{shape}, {type}{shape}) tuple(k, o)"""
    executable = check_native(module_of(lines, TRUTH.format(type=type, direction=direction)))
    return [s.routine for s in executable.program.steps if isinstance(s, Library)]


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize(
    "type, size", [("u8", 1), ("bf16", 2), ("f32", 4), ("c64", 8), ("c128", 16)]
)
def test_by_truth_values_rows_are_partitioned(type, size, direction):
    routines = sort_by_truth(type, "parameter(1)", direction)
    assert sorted(routines) == sorted(["partition_b1", f"partition_b{size}"])


@pytest.mark.parametrize("type", ["s32", "s64"])
def test_by_truth_values_places_are_written(type):
    routines = sort_by_truth(type, "iota(), iota_dimension=0")
    assert sorted(routines) == ["partition_b1", f"partition_{type}"]


def test_several_rows_are_not_partitioned():
    routines = sort_by_truth("f32", "parameter(1)", shape="[7,90]", read="1")
    assert routines == ["argsort_pred"]


def test_places_of_other_types_are_converted_from_a_permutation():
    assert sort_by_truth("u16", "iota(), iota_dimension=0") == ["argsort_pred"]
