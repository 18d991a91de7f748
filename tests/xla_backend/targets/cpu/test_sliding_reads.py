"""Neighbours that a loop of vectors reads: one load, and what the round before has read."""

import re

import numpy as np
import pytest
from native_checks import arguments_of, check_native, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.llvm.target import host_target
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module

IN_TWO_LINES = host_target().vector_bits == 512


def five_points(type: str, rows: int, columns: int) -> HloModule:
    """The sum of an element and of its neighbours in both directions."""
    inner, whole = f"{type}[{rows - 2},{columns - 2}]", f"{type}[{rows},{columns}]"
    cut = lambda top, left: (
        f"slice(x), slice={{[{top}:{top + rows - 2}], [{left}:{left + columns - 2}]}}"
    )
    return module_of(f"""x = {whole} parameter(0)
      c = {inner} {cut(1, 1)}
      l = {inner} {cut(1, 0)}
      r = {inner} {cut(1, 2)}
      u = {inner} {cut(0, 1)}
      d = {inner} {cut(2, 1)}
      a = {inner} add(c, l)
      b = {inner} add(a, r)
      e = {inner} add(b, u)
      ROOT f = {inner} add(e, d)""")


def taps(type: str, length: int, places: list[int]) -> HloModule:
    """The sum of what is so far apart in a row."""
    size = length - max(places)
    lines = [f"x = {type}[{length}] parameter(0)"]
    lines += [f"s{p} = {type}[{size}] slice(x), slice={{[{p}:{p + size}]}}" for p in places]
    total = f"s{places[0]}"
    for n, p in enumerate(places[1:]):
        lines.append(f"t{n} = {type}[{size}] add({total}, s{p})")
        total = f"t{n}"
    lines[-1] = f"ROOT {lines[-1]}"
    return module_of("\n".join(lines))


def loads_of_rounds(module: HloModule, rows: str = "") -> list[int]:
    """How many vectors each round of a loop loads that carries one."""
    text = compile_module(module, CompileOptions()).llvm_ir
    rounds = re.findall(r"^loop\d+:\n(?:  .*\n)*? .* phi <.*\n(?:  .*\n)*", text, re.M)
    return [len(re.findall(r" load <", r)) for r in rounds]


@pytest.mark.parametrize("type", ["f32", "f64", "s32", "u8", "s16", "s64", "bf16", "f16"])
@pytest.mark.parametrize("columns", [250, 258, 163, 514])
def test_values(type: str, columns: int) -> None:
    check_native(five_points(type, 100, columns))


@pytest.mark.parametrize("places", [[0, 1], [2, 0, 1], [0, 16], [0, 17], [5, 0, 40, 41], [3, 1]])
@pytest.mark.parametrize("length", [8192, 20_001, 65_537])
def test_distances(places: list[int], length: int) -> None:
    check_native(taps("f32", length, places))
    check_native(taps("u8", length, places))


def test_nan_and_signs_of_zeros() -> None:
    made = taps("f32", 10_000, [0, 1, 2])
    (x,) = arguments_of(made)
    x[::7], x[::3], x[1::3], x[2::11] = np.nan, -0.0, -0.0, np.inf
    (got,) = check_native(made, [x]).run_arrays([x])
    with np.errstate(invalid="ignore"):
        want = x[:-2] + x[1:-1] + x[2:]
    assert np.asarray(got).tobytes() == want.tobytes() or np.array_equal(got, want, equal_nan=True)
    np.testing.assert_array_equal(np.signbit(got)[want == 0], np.signbit(want)[want == 0])


@pytest.mark.skipif(not IN_TWO_LINES, reason="registers are shorter than lines of the cache")
def test_a_row_is_loaded_once() -> None:
    assert loads_of_rounds(five_points("f32", 250, 250)) == [3]


@pytest.mark.skipif(not IN_TWO_LINES, reason="registers are shorter than lines of the cache")
def test_the_last_round_may_begin_earlier() -> None:
    """What it begins with is loaded, as that of the first round is."""
    made = taps("f32", 10_000, list(range(14)))
    executable = check_native(made)
    assert re.search(r"^fi\d+:\n  .* phi <\d+ x float>", executable.llvm_ir, re.M)


@pytest.mark.skipif(not IN_TWO_LINES, reason="registers are shorter than lines of the cache")
@pytest.mark.parametrize(
    "module",
    [
        taps("f32", 200, [0, 1, 2]),  # small
        taps("f32", 20_000, [0, 64]),  # far apart
        taps("bf16", 20_000, [0, 1, 2]),  # converted
    ],
)
def test_loops_that_load_all(module: HloModule) -> None:
    check_native(module)
    assert not loads_of_rounds(module)


def test_threads() -> None:
    module = five_points("f32", 1002, 1000)
    arguments = arguments_of(module)
    before = num_threads()
    results = []
    for count in (1, 2, 7):
        set_num_threads(count)
        (got,) = compile_module(module, CompileOptions()).run_arrays(arguments)
        results.append(np.asarray(got).tobytes())
    set_num_threads(before)
    assert results[0] == results[1] == results[2]
