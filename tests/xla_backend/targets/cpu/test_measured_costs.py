"""Costs of kernels as runs took them: what is recorded, its sum, and what it decides."""

from __future__ import annotations

import numpy as np
import pytest

from tests.threads import together
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.measured_costs import MeasuredRuns
from xla_backend.targets.cpu.compiler import compile_code, compile_module
from xla_backend.targets.cpu.executable import CpuExecutable

# One kernel each. The estimate hands those in LARGE to threads, those in SMALL not.
LARGE = {
    "exp": """ENTRY e { x = f32[1003,129] parameter(0)
      ROOT r = f32[1003,129] exponential(x) }""",
    "transpose": """ENTRY e { x = f32[771,1029] parameter(0)
      t = f32[1029,771] transpose(x), dimensions={1,0}
      ROOT r = f32[1029,771] tanh(t) }""",
    "rows": """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
      ENTRY e { x = f32[301,1001] parameter(0) z = f32[] constant(0)
      ROOT r = f32[301] reduce(x, z), dimensions={1}, to_apply=add }""",
}
SMALL = {
    "log": """ENTRY e { x = f32[37,43] parameter(0)
      ROOT r = f32[37,43] log(x) }""",
    "columns": """add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
      ENTRY e { x = f32[61,611] parameter(0) z = f32[] constant(0)
      ROOT r = f32[611] reduce(x, z), dimensions={0}, to_apply=add }""",
}


def compiled(text: str, **options: object) -> CpuExecutable:
    return compile_module(parse_module(f"HloModule m\n{text}"), CompileOptions(**options))  # type: ignore[arg-type]


def run(executable: CpuExecutable, seed: int = 0) -> bytes:
    generator = np.random.default_rng(seed)
    arguments = [
        generator.uniform(0.5, 2, s.dimensions).astype(np.float32)
        for s in executable.parameter_shapes
    ]
    return b"".join(r.tobytes() for r in executable.run_arrays(arguments))


def only_kernel(executable: CpuExecutable) -> str:
    (name,) = executable.loop_ir
    return name


def is_threaded(executable: CpuExecutable) -> bool:
    return "@pyjax_parallel_for" in executable.llvm_ir


@pytest.mark.parametrize("name", LARGE)
def test_a_kernel_that_takes_less_than_estimated_stays_on_one_thread(name: str) -> None:
    plain = compiled(LARGE[name])
    kernel = only_kernel(plain)
    measured = compiled(LARGE[name], measured=((kernel, 3.0),))
    assert is_threaded(plain) and not is_threaded(measured)
    (decision,) = measured.cost_decisions()
    assert (decision.kernel, decision.measured, decision.blocks) == (kernel, 3.0, 1)
    assert decision.estimated > 25 and decision.estimated_blocks > 1
    assert not plain.cost_decisions()
    assert run(plain) == run(measured)


@pytest.mark.parametrize("name", SMALL)
def test_a_kernel_that_takes_more_than_estimated_goes_to_threads(name: str) -> None:
    plain = compiled(SMALL[name])
    kernel = only_kernel(plain)
    measured = compiled(SMALL[name], measured=((kernel, 400.0),))
    assert not is_threaded(plain) and is_threaded(measured)
    (decision,) = measured.cost_decisions()
    assert decision.estimated < 25 and decision.estimated_blocks == 1 < decision.blocks
    said = f"measured 400.0 us, blocks 1 -> {decision.blocks}"
    assert str(decision).startswith(f"{kernel}: estimated ") and str(decision).endswith(said)
    assert run(plain) == run(measured)


@pytest.mark.parametrize("name", [*LARGE, *SMALL])
def test_results_are_the_same_bits_whatever_was_measured(name: str) -> None:
    text = (LARGE | SMALL)[name]
    plain = compiled(text)
    expected = run(plain)
    for microseconds in (0.0, 30.0, 77.0, 1e5):
        assert run(compiled(text, measured=((only_kernel(plain), microseconds),))) == expected
    assert run(compiled(text, profiled_runs=2)) == expected


def test_blocks_go_by_the_time_that_was_measured() -> None:
    kernel = only_kernel(compiled(LARGE["exp"]))
    blocks = [
        compiled(LARGE["exp"], measured=((kernel, t),)).cost_decisions()[0].blocks
        for t in (20.0, 30.0, 100.0)
    ]
    assert blocks == sorted(blocks) and blocks[0] == 1 and blocks[1] in (2, 3) and blocks[2] >= 9


def test_other_estimates_follow() -> None:
    """Whether the interpreter lock is held, and how often signals are looked at."""

    def cycles(**options: object) -> float:
        module = parse_module(f"HloModule m\n{SMALL['log']}")
        return compile_code(module, CompileOptions(**options), None, cache=False).code.facts.cycles  # type: ignore[arg-type]

    kernel = only_kernel(compiled(SMALL["log"]))
    assert cycles() < 25_000 < cycles(measured=((kernel, 100.0),)) == 250_000


def test_costs_of_other_kernels_change_nothing() -> None:
    other = compiled(LARGE["exp"], measured=(("no_such_kernel", 1.0),))
    assert is_threaded(other) and not other.cost_decisions()


# -- measuring -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*LARGE, *SMALL])
def test_runs_are_measured_on_one_thread(name: str) -> None:
    text = (LARGE | SMALL)[name]
    profiled = compiled(text, profiled_runs=2)
    assert not is_threaded(profiled)
    runs = profiled.measured_runs
    assert runs is not None
    for n in range(4):  # more than are wanted
        assert runs.complete == (n >= 2)
        run(profiled)
    assert len(runs._runs) == 2
    ((kernel, microseconds),) = runs.aggregated(100)
    assert kernel == only_kernel(compiled(text))
    assert 0 < microseconds < 1e6


LOOP = """
cond { s = (s32[], f32[700]) parameter(0) i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(40) ROOT c = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[700]) parameter(0) i = s32[] get-tuple-element(s), index=0
  x = f32[700] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
  y = f32[700] tanh(x) ROOT t = (s32[], f32[700]) tuple(j, y) }
ENTRY e { x = f32[700] parameter(0) z = s32[] constant(0) s = (s32[], f32[700]) tuple(z, x)
  w = (s32[], f32[700]) while(s), condition=cond, body=body
  ROOT r = f32[700] get-tuple-element(w), index=1 }"""


def test_a_kernel_in_a_loop_has_the_average_of_its_rounds() -> None:
    single = "ENTRY e { x = f32[700] parameter(0) ROOT r = f32[700] tanh(x) }"
    looped, once = compiled(LOOP, profiled_runs=5), compiled(single, profiled_runs=5)
    for executable in (looped, once):
        for _ in range(5):
            run(executable)
    ((_, in_loop),) = looped.measured_runs.aggregated(0)  # type: ignore[union-attr]
    ((_, alone),) = once.measured_runs.aggregated(0)  # type: ignore[union-attr]
    assert in_loop < 10 * alone  # not the sum of forty


BRANCH = """
tanh { x = f32[600] parameter(0) ROOT y = f32[600] tanh(x) }
log { x = f32[600] parameter(0) ROOT y = f32[600] log(x) }
ENTRY e { p = pred[] parameter(0) x = f32[600] parameter(1)
  ROOT r = f32[600] conditional(p, x, x), true_computation=tanh, false_computation=log }"""


def test_kernels_that_did_not_run_have_no_cost() -> None:
    executable = compiled(BRANCH, profiled_runs=3)
    x = np.ones(600, np.float32)
    runs = executable.measured_runs
    assert runs is not None
    seen = []
    for taken in (True, False):
        executable.run_arrays([np.array(taken), x])
        seen.append(set(runs._runs[-1]))
    assert len(seen[0]) == len(seen[1]) == 1 and seen[0] != seen[1]
    assert {name for name, _ in runs.aggregated(50)} == seen[0] | seen[1]


def test_a_program_without_kernels_measures_nothing() -> None:
    text = "ENTRY e { x = f32[] parameter(0) ROOT r = f32[] negate(x) }"
    assert compiled(text, profiled_runs=3).measured_runs is None


def test_runs_at_the_same_time_have_times_of_their_own() -> None:
    executable = compiled(LARGE["exp"], profiled_runs=24)
    expected = run(executable)

    def work() -> None:
        for _ in range(6):
            assert run(executable) == expected

    together(*[work] * 4)
    runs = executable.measured_runs
    assert runs is not None and runs.complete
    assert all(list(r) == [only_kernel(executable)] for r in runs._runs)
    # Each of the sums is of one run: none has another one's time in it, or none of its own.
    assert min(t for r in runs._runs for t in r.values()) > 1


@pytest.mark.parametrize(
    "percentile, expected", [(0, 1.0), (10, 1.0), (50, 3.0), (60, 3.0), (90, 5.0), (100, 5.0)]
)
def test_percentiles_are_times_that_were_measured(percentile: int, expected: float) -> None:
    runs = MeasuredRuns(5)
    for microseconds in (4.0, 1.0, 5.0, 3.0, 2.0, 1000.0):  # the sixth is one too many
        runs.record({"k": microseconds, "a": 7.0})
    assert runs.aggregated(percentile) == (("a", 7.0), ("k", expected))
