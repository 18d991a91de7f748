"""Reductions that look for a first extreme: two comparisons decide, and nan, ties, infinities and
initial positions come out as they are defined."""

import numpy as np
import pytest
from native_checks import check_native, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.program.ir import Launch, Library, Step
from xla_backend.targets.cpu.compiler import compile_module

REDUCER = """pick {
  x = T[] parameter(0)
  i = s32[] parameter(1)
  y = T[] parameter(2)
  j = s32[] parameter(3)
  better = pred[] compare(x, y), direction=BETTER
  nan = pred[] compare(x, x), direction=NE
  other = pred[] compare(y, y), direction=NE
  number = pred[] not(other)
  onlynan = pred[] and(nan, number)
  wins = pred[] or(better, onlynan)
  equal = pred[] compare(x, y), direction=EQ
  both = pred[] and(nan, other)
  same = pred[] or(equal, both)
  first = pred[] compare(i, j), direction=FIRST
  tie = pred[] and(same, first)
  takes = pred[] or(wins, tie)
  v = T[] select(takes, x, y)
  p = s32[] select(takes, i, j)
  ROOT t = (T[], s32[]) tuple(v, p)
}
"""
INT_REDUCER = """pick {
  x = s32[] parameter(0)
  i = s32[] parameter(1)
  y = s32[] parameter(2)
  j = s32[] parameter(3)
  better = pred[] compare(x, y), direction=BETTER
  equal = pred[] compare(x, y), direction=EQ
  first = pred[] compare(i, j), direction=FIRST
  tie = pred[] and(equal, first)
  takes = pred[] or(better, tie)
  v = s32[] select(takes, x, y)
  p = s32[] select(takes, i, j)
  ROOT t = (s32[], s32[]) tuple(v, p)
}
"""
WORST = {"GT": "-inf", "LT": "inf"}


def program(
    dims: tuple[int, ...], axis: int, better: str, *, type: str = "f32", first: str = "LT",
    start: int = 0,
) -> tuple[str, str]:  # fmt: skip
    shape = ",".join(map(str, dims))
    kept = ",".join(str(d) for n, d in enumerate(dims) if n != axis)
    integers = {"GT": str(np.iinfo(np.int32).min), "LT": str(np.iinfo(np.int32).max)}
    worst = (integers if type == "s32" else WORST)[better]
    body = f"""x = {type}[{shape}] parameter(0)
        i = s32[{shape}] iota(), iota_dimension={axis}
        w = {type}[] constant({worst})
        z = s32[] constant({start})
        ROOT r = ({type}[{kept}], s32[{kept}]) reduce(x, i, w, z), dimensions={{{axis}}},
          to_apply=pick"""
    reducer = INT_REDUCER if type == "s32" else REDUCER
    return body, reducer.replace("T[", f"{type}[").replace("BETTER", better).replace("FIRST", first)


def values(dims: tuple[int, ...], type: str) -> list[np.ndarray]:
    """Few values, so that there are ties; nan, zeros of both signs and nothing but infinities."""
    rng = np.random.default_rng(0)
    small = rng.integers(-3, 4, dims)
    if type == "s32":
        return [small.astype(np.int32), np.full(dims, np.iinfo(np.int32).min, np.int32)]
    dtype = np.float32 if type == "f32" else np.float64
    some = small.astype(dtype)
    with_nan = np.where(rng.random(dims) < 0.01, np.nan, some).astype(dtype)
    zeros = np.where(rng.random(dims) < 0.5, 0.0, -0.0).astype(dtype)
    return [some, with_nan, zeros, np.full(dims, -np.inf, dtype), np.full(dims, np.inf, dtype)]


@pytest.mark.parametrize("better", ["GT", "LT"])
@pytest.mark.parametrize("type", ["f32", "f64", "s32"])
@pytest.mark.parametrize(
    ("dims", "axis"),
    [
        ((1003,), 0),
        ((70_001,), 0),
        ((2, 140_001), 1),
        ((40, 57), 0),
        ((40, 57), 1),
        ((3, 40, 9), 1),
    ],
)
def test_first_extremes(dims: tuple[int, ...], axis: int, type: str, better: str) -> None:
    module = module_of(*program(dims, axis, better, type=type))
    for x in values(dims, type):
        executable = check_native(module, [x])
        place = executable.run_arrays([x])[1]
        np.testing.assert_array_equal(place, (np.argmax if better == "GT" else np.argmin)(x, axis))


def steps_of(dims: tuple[int, ...], axis: int) -> list[Step]:
    module = module_of(*program(dims, axis, "GT"))
    return list(compile_module(module, CompileOptions()).program.steps)


def test_long_rows_go_through_a_routine() -> None:
    (step,) = steps_of((2, 140_001), 1)
    assert isinstance(step, Library) and step.routine == "first_max_f32"
    assert step.cycles == 2 * 140_001 * 4 / 16  # what it reads: 16 bytes are read in a cycle
    for dims, axis in [((200, 1000), 1), ((140_001, 2), 0)]:
        assert all(isinstance(step, Launch) for step in steps_of(dims, axis))


def comparisons(body: str, reducer: str) -> int:
    """In the loop over elements."""
    module = module_of(body, reducer)
    x = values((400,), "f32")[1]
    loops = "\n".join(check_native(module, [x]).loop_ir.values()).split("def combine")[0]
    return sum(loops.count(sign) for sign in (" >= ", " <= ", " > ", " == ", " != ", " < "))


def test_two_comparisons_decide() -> None:
    # One body for whole vectors, one for the rest, and its condition.
    assert comparisons(*program((400,), 0, "GT")) == 5
    assert comparisons(*program((400,), 0, "LT")) == 5


@pytest.mark.parametrize("change", [{"first": "GT"}, {"start": 9}], ids=["the last", "a start"])
def test_others_are_compared_as_they_say(change: dict) -> None:
    assert comparisons(*program((400,), 0, "GT", **change)) > 5


@pytest.mark.parametrize("type, start", [("f32", "inf"), ("c64", "(1, 2)")])
def test_positions_that_are_no_integers_are_compared_as_they_say(type: str, start: str) -> None:
    """What a position of another kind starts with may have no integer."""
    body = f"""x = f32[3] parameter(0)
        i = {type}[3] iota(), iota_dimension=0
        w = f32[] constant(-inf)
        z = {type}[] constant({start})
        ROOT r = (f32[], {type}[]) reduce(x, i, w, z), dimensions={{0}}, to_apply=pick"""
    reducer = f"""pick {{
      x = f32[] parameter(0)
      i = {type}[] parameter(1)
      y = f32[] parameter(2)
      j = {type}[] parameter(3)
      takes = pred[] compare(x, y), direction=GT
      v = f32[] select(takes, x, y)
      p = {type}[] select(takes, i, j)
      ROOT t = (f32[], {type}[]) tuple(v, p)
    }}
    """
    x = np.array([1, 7, 3], np.float32)
    place = check_native(module_of(body, reducer), [x]).run_arrays([x])[1]
    assert place == 1


@pytest.mark.parametrize("combiner", ["or", "maximum", "and", "minimum"])
@pytest.mark.parametrize("dims, over", [((70000,), "0"), ((3, 5000), "1"), ((2, 40, 128), "1,2")])
def test_any_and_all_of_long_rows_are_a_routine(
    combiner: str, dims: tuple[int, ...], over: str
) -> None:
    """NumPy stops at the first truth value that decides; a loop read all of them."""
    start = "false" if combiner in ("or", "maximum") else "true"
    kept = dims[: len(dims) - len(over.split(","))]
    shapes = [",".join(map(str, shape)) for shape in (dims, kept)]
    body = f"""x = pred[{shapes[0]}] parameter(0)
        i = pred[] constant({start})
        ROOT r = pred[{shapes[1]}] reduce(x, i), dimensions={{{over}}}, to_apply=pick"""
    reducer = f"""pick {{
      a = pred[] parameter(0)
      b = pred[] parameter(1)
      ROOT c = pred[] {combiner}(a, b)
    }}"""
    module = module_of(body, reducer)
    late = np.zeros(dims, bool)
    late[..., -1] = True
    some = np.random.default_rng(0).random(dims) < 0.5
    for x in (late, ~late, late & False, late | True, some):
        check_native(module, [x])
    (step,) = compile_module(module, CompileOptions()).program.steps
    assert isinstance(step, Library)
    assert step.routine == f"first_{'max' if start == 'false' else 'min'}_pred"


def test_any_of_more_rows_than_have_numbers_is_a_loop() -> None:
    """Places are numbers of 32 bits, and the last one said that there is none: `any` of 2^31 truth
    values was false."""
    for n, is_routine in (((1 << 31) - 2, True), ((1 << 31) - 1, False), (1 << 31, False)):
        body = f"""x = pred[{n}] parameter(0)
            i = pred[] constant(false)
            ROOT r = pred[] reduce(x, i), dimensions={{0}}, to_apply=pick"""
        reducer = """pick {
          a = pred[] parameter(0)
          b = pred[] parameter(1)
          ROOT c = pred[] or(a, b)
        }"""
        compiled = compile_module(module_of(body, reducer), CompileOptions())
        steps = compiled.program.steps
        assert any(isinstance(step, Library) for step in steps) == is_routine
