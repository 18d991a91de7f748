"""Loops and branches that many blocks run as one launch, with barriers for all of them."""

from __future__ import annotations

import re
import types

import numpy as np
import pytest
from test_residents import BRANCH, LOOP, ROWS, SWITCH, code_of, loop, planned
from thread_runs import ResidentRunner, aligned

import xla_backend
from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.program.ir import Launch, Resident, all_steps
from xla_backend.program.stepper import Stepper
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.ptxas import assemble

LARGE = 1 << 16
# The number of a step of this loop is known to nobody but the device.
OPEN = LOOP.replace("{bound}", "parameter(0)").replace(
    "n = s32[] parameter(0)", "big = f32[{n}] get-tuple-element(s), index=1\n"
    "  first = f32[1] slice(big), slice={{[0:1]}}  f = f32[] reshape(first)\n"
    "  small = f32[] constant(0.3)  more = pred[] compare(f, small), direction=GT\n"
    "  n = s32[] constant(1000)",
).replace(
    "ROOT r = pred[] compare(i, n), direction=LT",
    "few = pred[] compare(i, n), direction=LT  ROOT r = pred[] and(few, more)",
)  # fmt: skip


def resident_of(text: str) -> Resident:
    (step,) = [s for s in planned(text).loaded.plan.program.steps if isinstance(s, Resident)]
    return step


@pytest.mark.parametrize(
    "text",
    [loop(LARGE, 20), OPEN.format(n=LARGE), ROWS.format(n=1 << 17)],
    ids=["counted", "open", "rows"],
)
def test_a_loop_for_many_blocks_is_one_launch(text: str) -> None:
    executable = planned(text)
    step = resident_of(text)
    assert 1 < step.blocks <= ARCHITECTURES["sm_90"].multiprocessors and step.threads % 32 == 0
    assert f"by at most {step.blocks} blocks at once of " in executable.texts()["program"]
    (parameter,) = xla_backend.parse_hlo(text).entry.parameters  # type: ignore[union-attr]
    x = np.linspace(0.1, 1, parameter.shape.num_elements, dtype=np.float32)[::-1].copy()
    expected = xla_backend.evaluate(xla_backend.parse_hlo(text), [x])[0]
    np.testing.assert_allclose(executable.execute([x])[0], expected, rtol=1e-4)


def test_bodies_that_keep_a_grid_busy_are_launched_from_outside() -> None:
    """Longer where the host would wait for a condition."""
    for text, together in (
        (loop(1 << 20), True), (loop(1 << 24), False),
        (OPEN.format(n=1 << 22), True), (OPEN.format(n=1 << 26), False),
        (BRANCH.format(n=1 << 22), True), (BRANCH.format(n=1 << 26), False),
    ):  # fmt: skip
        steps = list(all_steps(planned(text).loaded.plan.program.steps))
        assert any(isinstance(s, Resident) for s in steps) == together
        assert any(isinstance(s, Launch) for s in steps)


@pytest.mark.parametrize("taken", [False, True])
def test_a_branch_for_many_blocks_is_taken_on_the_device(taken: bool) -> None:
    text = BRANCH.format(n=LARGE)
    assert resident_of(text).blocks > 1
    x = np.linspace(0, 1, LARGE, dtype=np.float32)
    (result,) = planned(text).execute([x, np.array(taken)])
    np.testing.assert_allclose(result, np.sin(x) if taken else -x, rtol=1e-6)


# -- their code ------------------------------------------------------------------------------------


def barriers(ptx: str) -> int:
    return len(re.findall(r"atom\.global\.add\.u64", ptx))


def test_blocks_wait_only_for_what_they_need() -> None:
    """The counter of a loop and the array are apart: one barrier for each round. And where a
    condition is read, it is behind what makes it, not behind its reading."""
    ptx, _ = code_of(loop(LARGE))
    assert barriers(ptx) == 1
    ptx, _ = code_of(OPEN.format(n=LARGE))
    assert barriers(ptx) == 2


def test_what_a_block_wrote_is_seen_by_all() -> None:
    """It is handed on before the block counts itself, and taken over before it goes on."""
    ptx, function = code_of(loop(LARGE))
    counter = f"{function.name}_barrier"
    assert f".global .align 8 .u64 {counter};" in ptx
    order = r"bar\.sync.*?fence\.acq_rel\.gpu.*?atom\.global\.add\.u64[^;]*" + counter
    assert re.search(order, ptx, re.DOTALL)
    assert re.search(r"ld\.relaxed\.gpu[^;]*" + counter, ptx)
    assert ptx.count("fence.acq_rel.gpu") == 2 and "%nctaid.x" in ptx


@NEEDS_PTXAS
@pytest.mark.parametrize(
    "architecture",
    [a if a == "sm_90" else pytest.param(a, marks=pytest.mark.slow) for a in ARCHITECTURES],
)
def test_the_code_assembles(architecture: str) -> None:
    from_texts = [loop(LARGE), OPEN.format(n=LARGE), ROWS.format(n=1 << 17), BRANCH.format(n=LARGE)]
    for text in [*from_texts, SWITCH.format(n=LARGE)]:
        ptx, function = code_of(text, architecture)
        used = assemble(ptx, architecture).resources[function.name]
        assert used.spill_stores == used.spill_loads == 0


@pytest.mark.parametrize(
    ("text", "threads"),
    [
        (loop(300, 20), 32), (OPEN.format(n=300), 64), (ROWS.format(n=64), 32),
        (BRANCH.format(n=300), 32), (SWITCH.format(n=300), 32),
    ],
    ids=["counted", "open", "rows", "branch", "switch"],
)  # fmt: skip
def test_threads_of_several_blocks_run_it(text: str, threads: int) -> None:
    """The text itself, on this machine's threads: three blocks that wait for each other."""
    plan = planned(text).loaded.plan
    rng = np.random.default_rng(0)
    arguments = [
        np.asarray(rng.uniform(0.5, 1, s.dimensions), s.element_type.numpy_dtype)
        for s in plan.program.parameters
    ]
    context = types.SimpleNamespace(replica=0, partition=0)
    stepper = Stepper(plan.program, arguments, plan.routines, plan.host_function, context)
    for step in stepper.steps():
        if isinstance(step, Resident):
            wide = Resident(step.name, step.cycles, threads, step.steps, 3)
            memory = {place: aligned(a) for place, a in stepper.memory.items()}
            ResidentRunner(plan.program, wide).run(memory, 3)
    (want,) = stepper.results()
    (place,) = [p for p in memory if p[0].value == "output"]
    got = memory[place].view(np.float32)
    np.testing.assert_allclose(got, want.reshape(-1), rtol=1e-5)
