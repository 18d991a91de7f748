"""Random programs with their threaded code and their optimised code, and proof that a difference
would be seen."""

import ml_dtypes
import numpy as np
import pytest

from xla_backend.targets.cpu.routines.threaded_operations import operation_name
from xla_backend.targets.cpu.threaded import kernel_code
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.first_code import threaded_code
from xla_backend.tools.fuzz import first_code_checks
from xla_backend.tools.fuzz.__main__ import main
from xla_backend.tools.fuzz.first_code_checks import check_first_code, difference

PROGRAMS = 80


def test_random_programs(monkeypatch):
    made = []

    def counted(*arguments):
        code = threaded_code(*arguments)
        made.append(code)
        return code

    monkeypatch.setattr(first_code_checks, "threaded_code", counted)
    failures = {seed: found for seed in range(PROGRAMS) if (found := check_first_code(seed))}
    assert failures == {}
    assert len(made) > 0.7 * PROGRAMS, "most random programs have threaded code"


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 6000, 500))
def test_many_random_programs(start):
    seeds = range(start, start + 500)
    assert {seed: found for seed in seeds if (found := check_first_code(seed))} == {}


NAN = np.array([np.nan, 1], np.float32)
OTHER_NAN = np.copysign(NAN, np.array([-1, 1], np.float32))
EQUAL = [
    (NAN, OTHER_NAN),
    (NAN.astype(np.complex64), OTHER_NAN.astype(np.complex64)),
    (NAN.astype(ml_dtypes.bfloat16), NAN.astype(ml_dtypes.bfloat16)),
    (np.zeros((0, 3)), np.zeros((0, 3))),
    (np.arange(3).astype(ml_dtypes.int4), np.arange(3).astype(ml_dtypes.int4)),
]
DIFFERENT = [
    (NAN, np.array([np.nan, 2], np.float32)),
    (np.array([0.0]), np.array([-0.0])),
    (np.array([1.0]), np.array([np.nan])),
    (np.array(1 + 2j), np.array(1 + 3j)),
    (np.array([1.0, np.nextafter(1, 2)]), np.ones(2)),
    (np.array([True]), np.array([False])),
    (np.arange(3), np.arange(1, 4)),
]


@pytest.mark.parametrize("pair", EQUAL)
def test_equal(pair):
    assert difference([pair[0]], [pair[1]]) is None


@pytest.mark.parametrize("pair", DIFFERENT)
def test_different(pair):
    found = difference([np.ones(2), pair[0]], [np.ones(2), pair[1]])
    assert found is not None and found.startswith("output 1 ")


def test_wrong_threaded_code_is_found(monkeypatch):
    """A subtraction with the handler of sums."""
    names = lambda s: operation_name(s).replace("subtract", "add")
    monkeypatch.setattr(kernel_code, "operation_name", names)
    found = [check_first_code(seed) for seed in range(20)]
    assert any(failure is not None and failure.kind == "divergence" for failure in found)


def test_programs_without_threaded_code_pass(monkeypatch):
    def none(*arguments):
        raise NoThreadedCode("anything")

    monkeypatch.setattr(first_code_checks, "threaded_code", none)
    assert check_first_code(0) is None


def test_command_line(capsys):
    assert main(["--first-code", "--count", "3", "--jobs", "1"]) == 0
    assert "no divergence, no crash" in capsys.readouterr().out
