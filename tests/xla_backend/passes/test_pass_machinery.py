"""Which passes run, how often, and what is checked around them: levels, filters, fuel, audits."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Sequence
from typing import ClassVar

import numpy as np
import pytest

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import HloError, VerificationError
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.passes import registry
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.levels import LEVELS, MEMORY_LEVELS, PIPELINES
from xla_backend.passes.registry import (
    UnknownPassError,
    builtin_passes,
    canonical_name,
    make_pass,
    pass_names,
)
from xla_backend.targets.cpu.pipeline import build_pipeline

PROGRAM = """HloModule m

ENTRY main {
  p = f32[4] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[4] broadcast(zero), dimensions={}
  a = f32[4] subtract(p, zeros)
  b = f32[4] subtract(a, zeros)
  c = f32[4] subtract(b, zeros)
  s1 = f32[4] sine(c)
  s2 = f32[4] sine(c)
  ROOT r = f32[4] add(s1, s2)
}
"""


def names_at(**fields: object) -> set[str]:
    pipeline = build_pipeline(CompileOptions(**fields))  # type: ignore[arg-type]
    return {p.name for p in pipeline.flat_passes() if pipeline.selects(p.name)}


def everything() -> set[str]:
    return {p.name for p in build_pipeline(CompileOptions()).flat_passes()}


def test_each_level_runs_what_the_table_says() -> None:
    for level in range(4):
        expected = {n for n in everything() if LEVELS.get(n, 0) <= level}
        assert names_at(optimization_level=level) == expected


def test_levels_grow_and_level_zero_has_no_optimisation() -> None:
    by_level = [names_at(optimization_level=level) for level in range(4)]
    assert by_level[0] < by_level[1] < by_level[2] <= by_level[3]
    assert "cse" not in by_level[0] and {"scheduler", "copy-insertion"} <= by_level[0]


def test_the_tables_name_passes_that_exist() -> None:
    assert set(LEVELS) | set(MEMORY_LEVELS) <= set(pass_names())


@pytest.mark.parametrize(
    "effort, level", [(-1.0, 0), (-0.5, 1), (0.0, 2), (0.3, 2), (0.5, 3), (1.0, 3)]
)
def test_effort_moves_the_level(effort: float, level: int) -> None:
    assert CompileOptions(exec_time_optimization_effort=effort).level == level
    assert CompileOptions(memory_fitting_effort=effort).memory_level == level


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_means_the_same(level: int) -> None:
    module = parse_module(PROGRAM)
    argument = np.linspace(-1, 1, 4, dtype=np.float32)
    (expected,) = evaluate(module, [argument])
    build_pipeline(CompileOptions(optimization_level=level, verify=True)).run(module)
    np.testing.assert_array_equal(evaluate(module, [argument])[0], expected)


def test_disabled_passes_and_pipelines_do_not_run() -> None:
    disabled = frozenset({"cse", "algsimp"})
    assert names_at() - names_at(disabled_passes=disabled) == {"cse", "algebraic-simplifier"}
    pipeline = build_pipeline(CompileOptions(disabled_passes=frozenset({"simplification"})))
    pipeline.run(parse_module(PROGRAM))
    assert "constant-folding" not in pipeline.statistics
    assert "fusion" in pipeline.statistics


def test_enabled_only_keeps_what_correctness_needs() -> None:
    names = names_at(enabled_passes=frozenset({"cse"}))
    assert names == names_at(optimization_level=0, memory_fitting_level=0) | {"cse"}


def test_all_optional_passes_can_be_disabled() -> None:
    needed = names_at(optimization_level=0, memory_fitting_level=0)
    assert names_at(disable_all_passes=True) == needed


def test_misspelt_passes_are_errors_and_xla_only_ones_are_not() -> None:
    with pytest.raises(UnknownPassError, match=r"'fuson'.*xla_disable_hlo_passes.*fusion"):
        names_at(disabled_passes=frozenset({"fuson"}))
    assert names_at(disabled_passes=frozenset({"layout-assignment"})) == names_at()


def subtractions(text: str) -> int:
    return len(re.findall(r"\bsubtract\(", text))


@pytest.mark.parametrize("units", [0, 1, 2, 3, 9])
def test_fuel_limits_the_rewrites(units: int, caplog: pytest.LogCaptureFixture) -> None:
    module = parse_module(PROGRAM)
    options = CompileOptions(fuel=(("algebraic-simplifier", units),), verify=True)
    with caplog.at_level(logging.WARNING, "xla_backend"):
        Pipeline("p", [make_pass("algsimp")], options).run(module)
    assert subtractions(module_to_text(module)) == max(0, 3 - units)
    assert ('Out of fuel for "algebraic-simplifier"' in caplog.text) == (units < 4)


def test_fuel_of_a_pass_that_counts_nothing_is_per_computation() -> None:
    module = parse_module(PROGRAM)
    options = CompileOptions(fuel=(("cse", 0),))
    Pipeline("p", [make_pass("cse")], options).run(module)
    assert module_to_text(module).count("sine(") == 2


def test_fuel_is_shared_by_the_runs_of_a_pass() -> None:
    module = parse_module(PROGRAM)
    options = CompileOptions(fuel=(("algebraic-simplifier", 2),))
    Pipeline("p", [make_pass("algsimp"), make_pass("algsimp")], options).run(module)
    assert subtractions(module_to_text(module)) == 1


def test_unused_fuel_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "xla_backend"):
        Pipeline("p", [], CompileOptions(fuel=(("cse", 3),))).run(parse_module(PROGRAM))
    assert 'Fuel for "cse" was given and never used' in caplog.text


class RenamingPass(HloPass):
    """Renames the root, and says what it is told to."""

    name = "renaming"

    def __init__(self, does: bool = True, says: object = True) -> None:
        self.does, self.says = does, says

    def run(self, module):
        if self.does:
            module.entry.root.name = f"{module.entry.root.name}x"
        return self.says


@pytest.mark.parametrize(
    "does, says, audit, message",
    [
        (
            True,
            False,
            "silent-change",
            r"(?s)after pass 'renaming'.*module 'm'.*no change.*\n-.*\+",
        ),
        (False, True, "no-op-change", "after pass 'renaming'.*module 'm'.*text is the same"),
    ],
)
def test_single_audits(does: bool, says: bool, audit: str, message: str) -> None:
    def run(*audits: str) -> None:
        options = CompileOptions(audits=frozenset(audits))
        Pipeline("p", [RenamingPass(does, says)], options).run(parse_module(PROGRAM))

    run()
    run(*{"silent-change", "no-op-change"} - {audit})
    with pytest.raises(VerificationError, match=message):
        run(audit)


def test_a_pass_that_forgets_to_return() -> None:
    with pytest.raises(HloError, match="after pass 'renaming' on module 'm': run returned None"):
        Pipeline("p", [RenamingPass(says=None)]).run(parse_module(PROGRAM))


class FlippingPass(HloPass):
    """Gives the root one of two names by turns: a fixed point of it runs in a circle."""

    name = "flipping"

    def run(self, module):
        module.entry.root.name = "even" if module.entry.root.name == "odd" else "odd"
        return True


def test_circles_and_caps_of_fixed_points() -> None:
    def run(audit: str) -> None:
        options = CompileOptions(audits=frozenset({audit}))
        Pipeline("p", [FlippingPass()], options, max_iterations=5).run(parse_module(PROGRAM))

    with pytest.raises(HloError, match="pipeline 'p' runs in a circle on module 'm': round 3"):
        run("cycles")
    with pytest.raises(HloError, match="still changes module 'm' after 5 rounds"):
        run("max-iterations")
    run("silent-change")


def test_every_pass_of_the_pipeline_is_found_by_name() -> None:
    assert everything() <= set(builtin_passes())
    assert not set(PIPELINES) & set(builtin_passes())
    need_a_target = {"sort-key-rewriter", "gemm-epilogue-fusion", "solver-rewriter"}
    need_a_target |= {"dot-operand-widening"}
    for name in builtin_passes().keys() - need_a_target:
        assert make_pass(name).name == name
    with pytest.raises(ValueError, match="SortKeyRewriter needs"):
        make_pass("sort-key-rewriter")


def test_names_of_xla_are_accepted() -> None:
    assert canonical_name("simplify-while-loops") == "while-loop-simplifier"
    assert canonical_name("constant_folding") == "constant-folding"
    with pytest.raises(UnknownPassError, match="no pass is called 'algsim'; did you mean algsimp"):
        make_pass("algsim")


def test_the_log_has_every_run() -> None:
    pipeline = build_pipeline(CompileOptions(verify=True))
    pipeline.run(parse_module(PROGRAM))
    expected = [p.name for p in pipeline.flat_passes()]
    assert [run.name for run in pipeline.log[:4]] == expected[:4]
    assert {run.pipeline for run in pipeline.log} == {"cpu", "expansion", "simplification"}
    assert sum(s.runs for s in pipeline.statistics.values()) == len(pipeline.log)
    assert all(run.seconds >= 0 for run in pipeline.log)


class _Counting(HloPass):
    """Says what it looks for, and counts how often it is asked."""

    def __init__(self, name: str, opcodes: set[Opcode], beside: Collection[Opcode] = ()) -> None:
        self.name = name
        self.opcodes = frozenset(opcodes)
        self.module_opcodes = frozenset(beside)
        self.runs = 0

    def run(self, module: HloModule) -> bool:
        self.runs += 1
        return False


class _SineToCosine(HloPass):
    name = "sine-to-cosine"

    def run_on_computation(self, computation: Computation) -> bool:
        found = computation.post_order(Opcode.SINE)
        for node in found:
            computation.replace(node, Instruction(Opcode.COSINE, node.shape, node.operands))
        return bool(found)


def test_passes_without_their_opcodes_do_not_run() -> None:
    before, behind = _Counting("c1", {Opcode.COSINE}), _Counting("c2", {Opcode.COSINE})
    sine = _Counting("s", {Opcode.SINE})
    both = _Counting("b", {Opcode.COSINE}, {Opcode.SORT, Opcode.ADD})
    neither = _Counting("n", {Opcode.COSINE}, {Opcode.SORT})
    everything = _Counting("e", set())
    passes = [everything, before, _SineToCosine(), behind, sine, both, neither]
    Pipeline("p", passes).run(parse_module(PROGRAM))
    runs = [p.runs for p in (everything, before, behind, sine, both, neither)]
    assert runs == [1, 0, 1, 0, 1, 0]


class _Ours(_Counting):
    """As passes of the compiler are: of one kind, without anything of its own."""

    __module__ = "xla_backend.passes.of_a_test"
    name = "ours"
    asked: ClassVar[list[bool]] = []
    says = False

    def __init__(self) -> None:
        pass

    def run(self, module: HloModule) -> bool:
        self.asked.append(self.says)
        return self.says


class _OursAndDone(_Ours):
    __module__ = _Ours.__module__
    name = "done"
    asked: ClassVar[list[bool]] = []
    says = True
    idempotent = True


class _OursAndNotDone(_OursAndDone):
    __module__ = _Ours.__module__
    name = "not-done"
    asked: ClassVar[list[bool]] = []
    idempotent = False


def _times(kind: type[_Ours], passes: Sequence[HloPass], options: CompileOptions | None) -> int:
    kind.asked.clear()
    Pipeline("p", list(passes), options).run(parse_module(PROGRAM))
    return len(kind.asked)


def test_passes_behind_which_nothing_has_changed_do_not_run_again() -> None:
    twice = [_Ours(), _Ours()]
    assert _times(_Ours, twice, None) == 1
    assert _times(_Ours, [_Ours(), _SineToCosine(), _Ours(), _Ours()], None) == 2
    # Who checks, counts rewrites or looks on sees them all.
    assert _times(_Ours, twice, CompileOptions(verify=True)) == 2
    assert _times(_Ours, twice, CompileOptions(fuel=(("cse", 3),))) == 2
    # A second run of dce does nothing, of others it may.
    assert _times(_OursAndDone, [_OursAndDone(), _OursAndDone()], None) == 1
    assert _times(_OursAndNotDone, [_OursAndNotDone(), _OursAndNotDone()], None) == 2
    # Passes of users run whenever it is their turn.
    users = _Counting("u", set())
    Pipeline("p", [users, users]).run(parse_module(PROGRAM))
    assert users.runs == 2


def test_passes_are_told_apart_by_what_they_were_given() -> None:
    first, second = _Ours(), _Ours()
    second.given = 1  # type: ignore[attr-defined]
    assert _times(_Ours, [first, second], None) == 2


def test_pipelines_of_equal_options_share_passes_but_no_log() -> None:
    one, other = build_pipeline(CompileOptions()), build_pipeline(CompileOptions())
    assert list(one.flat_passes()) == list(other.flat_passes())
    one.run(parse_module(PROGRAM))
    assert one.log and not other.log
    one.passes.clear()
    assert build_pipeline(CompileOptions()).passes == other.passes
    fewer = build_pipeline(CompileOptions(disabled_passes=frozenset({"cse"})))
    fewer.run(parse_module(PROGRAM))
    assert "cse" in {run.name for run in one.log} - {run.name for run in fewer.log}
    watched = build_pipeline(CompileOptions(verify=True))
    assert not set(watched.flat_passes()) & set(other.flat_passes())


def test_a_pass_that_changes_more_than_it_says_is_found_in_checking_mode() -> None:
    rewriter = _SineToCosine()
    rewriter.opcodes = frozenset({Opcode.SORT})
    rewriter.run = lambda module: rewriter.run_on_computation(module.entry)  # type: ignore
    with pytest.raises(VerificationError, match="none of the opcodes that the pass names"):
        Pipeline("p", [rewriter], CompileOptions(verify=True)).run(parse_module(PROGRAM))


def test_names_without_a_counterpart_have_none() -> None:
    known = registry.builtin_passes()
    assert [n for n in registry.XLA_ONLY if registry.canonical_name(n) in known] == []
    assert set(registry.XLA_NAMES.values()) <= set(known)
