"""A short run of the fuzzer, its regression cases, and proof that it notices what it looks for."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.tools.fuzz import checks, partitioned_checks
from xla_backend.tools.fuzz.__main__ import main
from xla_backend.tools.fuzz.checks import Failure, check_module
from xla_backend.tools.fuzz.comparison import Expectation
from xla_backend.tools.fuzz.data import arguments_for
from xla_backend.tools.fuzz.mutants import MUTANTS, Mutant, programs_until_found
from xla_backend.tools.fuzz.partitioned_checks import check_partitioned, cut_at_random
from xla_backend.tools.fuzz.program import generate
from xla_backend.tools.fuzz.regressions import case_text, check_case, load_case, shrink
from xla_backend.tools.fuzz.workers import check_all

CASES = sorted((Path(__file__).parent / "regressions").glob("*.hlo"))


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed):
    assert check_module(generate(seed), seed) is None


def test_random_programs_on_several_devices():
    failures = {seed: found for seed in range(40) if (found := check_partitioned(seed))}
    assert failures == {}


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 9000, 1000))
def test_many_random_programs_on_several_devices(start):
    seeds = range(start, start + 1000)
    failures = {seed: found for seed in seeds if (found := check_partitioned(seed))}
    assert failures == {}


# What went wrong once: seeds of programs whose root was inlined with its sharding, that returned
# values which said something else, shared bodies of loops, reinterpreted bits, counted in few bits.
@pytest.mark.parametrize("seed", [10, 148, 245, 500, 567, 985, 1857, 21864])
def test_random_program_on_several_devices_again(seed):
    assert check_partitioned(seed) is None


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_regression(path):
    module, seed = load_case(path)
    assert check_case(module, seed) is None


def test_a_seed_gives_one_program_and_one_set_of_arguments():
    for seed in range(5):
        first, second = generate(seed), generate(seed)
        assert module_to_text(first) == module_to_text(second)
        for a, b in zip(arguments_for(first, seed), arguments_for(second, seed)):
            assert a.tobytes() == b.tobytes()


def depends_on(node, source):
    stack, seen = [node], set()
    while stack:
        node = stack.pop()
        if node is source:
            return True
        if node not in seen:
            seen.add(node)
            stack.extend(node.operands)
    return False


def is_kept_by_its_own_loop(select):
    """A select between a loop's result and something else, by a predicate from the same loop."""
    predicate, *arms = select.operands
    loops = [
        arm.operands[0]
        for arm in arms
        if arm.opcode is Opcode.GET_TUPLE_ELEMENT and arm.operands[0].opcode is Opcode.WHILE
    ]
    return any(depends_on(predicate, loop) for loop in loops)


def test_loops_start_with_one_tuple_and_their_results_choose_between_them():
    shared = chosen = 0
    for seed in range(200):
        for computation in generate(seed).computations:
            for node in computation:
                if node.opcode is Opcode.TUPLE:
                    shared += sum(user.opcode is Opcode.WHILE for user in node.users) > 1
                if node.opcode is Opcode.SELECT:
                    chosen += is_kept_by_its_own_loop(node)
    assert shared >= 10 and chosen >= 5


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


def test_where_roundings_make_infinities_anything_may_come_out():
    """The low byte of a rounded number, taken for a number of 8 bits."""
    text = "HloModule m ENTRY e { p = f32[64] parameter(0) e = f32[64] cosine(p) %s }"
    module = parse_module(text % "ROOT r = f8e3m4[64,4] bitcast-convert(e)")
    p = np.linspace(-3, 3, 64, dtype=np.float32)
    (reference,) = evaluate(module, [p])
    expectation = Expectation(module, [p])
    seen = np.stack([expectation._sample(seed)[0] for seed in range(64)]).astype(np.float32)
    mixed = np.isfinite(seen).any(axis=0) & ~np.isfinite(seen).all(axis=0)
    assert mixed[:, 0].any() and not mixed[:, 3].any()
    got = np.where(mixed, -np.inf, reference.astype(np.float32)).astype(reference.dtype)
    assert expectation.difference([got]) is None
    got[0, 3] = -np.inf
    assert "got -inf" in expectation.difference([got])


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


# -- what a campaign notices -----------------------------------------------------------------------


def swapped_differences(module: HloModule) -> None:
    """A miscompilation: subtract gets its operands in the wrong order."""
    for computation in module.computations:
        for node in computation.post_order(Opcode.SUBTRACT):
            computation.set_operands(node, node.operands[::-1])


def test_a_planted_miscompilation_is_found_and_shrunk(monkeypatch):
    compiled = checks.compile_module

    def miscompile(module: HloModule, options: CompileOptions) -> object:
        if options.optimization_level > 0:
            swapped_differences(module)
        return compiled(module, options)

    monkeypatch.setattr(checks, "compile_module", miscompile)
    seed, failure = next(
        (seed, failure) for seed in range(60) if (failure := check_module(generate(seed), seed))
    )
    assert (failure.kind, failure.stage) == ("divergence", "full")
    small = shrink(generate(seed), seed, failure, timeout=30)
    assert [n.opcode for n in small.entry if n.operands] == [Opcode.SUBTRACT]
    text = case_text(small, seed, failure)
    assert f"// arguments of seed {seed}" in text and parse_module(text)


def test_a_program_that_is_partitioned_wrongly_is_found_and_shrunk(monkeypatch):
    """Differences are computed in the wrong order where something is cut for them."""
    prepare = partitioned_checks.prepare_and_partition

    def miscompile(module: HloModule) -> None:
        prepare(module)
        if module.num_partitions > 1:
            swapped_differences(module)

    monkeypatch.setattr(partitioned_checks, "prepare_and_partition", miscompile)
    seed, failure = next(
        (seed, found) for seed in range(60) if (found := check_partitioned(seed)) is not None
    )
    small = shrink(cut_at_random(generate(seed), seed), seed, failure, timeout=30)
    assert [n.opcode for n in small.entry if n.operands] == [Opcode.SUBTRACT]
    assert small.num_partitions in (2, 3)  # one axis of the mesh is left
    text = case_text(small, seed, failure)
    again = parse_module(text)
    assert again.num_partitions == small.num_partitions
    assert check_case(again, seed).kind == "divergence"


def crash_hang_or_pass(seed: int) -> Failure | None:
    if seed == 1:
        os.abort()
    if seed == 2:
        time.sleep(60)
    if seed == 3:
        bytearray(1 << 40)
    return Failure("divergence", "O0", "found") if seed == 4 else None


def test_crashes_and_hangs_are_failures_of_their_seed():
    found = dict(check_all(crash_hang_or_pass, range(6), jobs=2, timeout=2.0))
    assert found[0] is None and found[5] is None
    assert str(found[1]) == "crash: SIGABRT"
    assert str(found[2]) == "timeout: 2 seconds"
    assert found[3].kind == "crash" and "exit status 1" in found[3].detail
    assert found[4].kind == "divergence"


def test_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", "")  # the campaign sets its own; restored afterwards
    arguments = ["--count", "3", "--seed", "5", "--jobs", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "3 programs of seeds 5..7" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_one_kind_of_data_can_be_chosen(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYJAX_CACHE_DIR", "")  # the campaign sets its own; restored afterwards
    arguments = ["--count", "3", "--profile", "special", "--jobs", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "3 programs with special data of seeds " in capsys.readouterr().out


# -- planted bugs ----------------------------------------------------------------------------------

FOUND_EARLY = (
    "a carry dies with its last reader",
    "any carry of the right type counts as invariant",
    "a buffer ends with its first interval",
    "moved elements count as elementwise",
    "cse ignores attributes",
    "an output stays in a parameter that is not its alias",
    "x * 0 is 0 for floats",
)


@pytest.mark.parametrize("name", FOUND_EARLY)
def test_a_planted_bug_is_found(name):
    (mutant,) = (m for m in MUTANTS if m.name == name)
    assert programs_until_found(mutant, most=400, jobs=1) is not None
    assert programs_until_found(mutant, most=0, jobs=1) is None
    assert check_module(generate(0), 0) is None  # the bug is gone


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_planted_bug_is_found(mutant):
    assert programs_until_found(mutant, most=2000, jobs=2) is not None


def test_a_mutant_of_text_that_has_changed_is_refused():
    mutant = Mutant("nothing", generate, (("no such text", ""),))
    with pytest.raises(ValueError, match="0 times, not once: adapt the mutant"), mutant.planted():
        pass
