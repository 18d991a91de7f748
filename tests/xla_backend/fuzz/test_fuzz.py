"""A short run of the fuzzer, its regression cases, and proof that it notices what it looks for."""

from pathlib import Path

import numpy as np
import pytest

from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.tools.fuzz.checks import check_module
from xla_backend.tools.fuzz.comparison import Expectation
from xla_backend.tools.fuzz.data import arguments_for
from xla_backend.tools.fuzz.program import generate
from xla_backend.tools.fuzz.regressions import load_case

CASES = sorted((Path(__file__).parent / "regressions").glob("*.hlo"))


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed):
    assert check_module(generate(seed), seed) is None


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_regression(path):
    module, seed = load_case(path)
    assert check_module(module, seed) is None


def test_a_seed_gives_one_program_and_one_set_of_arguments():
    for seed in range(5):
        first, second = generate(seed), generate(seed)
        assert module_to_text(first) == module_to_text(second)
        for a, b in zip(arguments_for(first, seed), arguments_for(second, seed)):
            assert a.tobytes() == b.tobytes()


# -- what a comparison accepts ---------------------------------------------------------------------

SUM = """
HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY main {
  p = f32[100] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(p, zero), dimensions={0}, to_apply=add
}
"""
FLOOR = "HloModule m\nENTRY main { p = f32[1] parameter(0) e = f32[1] exponential(p) %s }"


def moved(value: np.ndarray, ulps: int) -> list[np.ndarray]:
    result = np.asarray(value, np.float32)
    for _ in range(abs(ulps)):
        result = np.nextafter(result, np.float32(np.sign(ulps) * np.inf))
    return [np.asarray(result)]


@pytest.mark.parametrize(
    ("text", "argument", "ulps", "accepted"),
    [
        (SUM, np.full(100, 0.25), 1, False),  # quarters: every order gives the same sum
        (SUM, np.linspace(0.1, 0.9, 100), 3, True),
        (SUM, np.linspace(0.1, 0.9, 100), 3000, False),
        (FLOOR % "ROOT r = f32[1] add(e, e)", [1.0], 2, True),
        (FLOOR % "ROOT r = f32[1] add(e, e)", [1.0], 200, False),
        (FLOOR % "ROOT r = f32[1] negate(p)", [1.0], 1, False),  # nothing rounds
    ],
)
def test_accepted_rounding(text, argument, ulps, accepted):
    module = parse_module(text)
    arguments = [np.asarray(argument, np.float32)]
    (reference,) = evaluate(module, arguments)
    difference = Expectation(module, arguments).difference(moved(reference, ulps))
    assert (difference is None) == accepted, difference


def test_a_comparison_that_hangs_on_a_rounding_may_go_either_way():
    module = parse_module(FLOOR % "ROOT r = f32[1] floor(e)")
    log2 = np.array([np.log(2.0)], np.float32)
    expectation = Expectation(module, [log2])
    assert expectation.difference([np.array([1.0], np.float32)]) is None
    assert expectation.difference([np.array([2.0], np.float32)]) is None
    certain = Expectation(module, [np.array([1.0], np.float32)])
    assert "got 3.0, expected 2.0" in certain.difference([np.array([3.0], np.float32)])


@pytest.mark.parametrize(
    ("got", "problem"),
    [
        ([np.zeros(1, np.float64)], "output 0 is float64"),
        ([np.zeros(2, np.float32)], "output 0 is float32[2]"),
        ([], "0 outputs instead of 1"),
        ([np.array([np.nan], np.float32)], "got nan"),
    ],
)
def test_other_differences(got, problem):
    module = parse_module(FLOOR % "ROOT r = f32[1] negate(p)")
    difference = Expectation(module, [np.ones(1, np.float32)]).difference(got)
    assert problem in difference
