"""Participants that come early to collectives and leave late: the values, the failures, and that
nobody waits for ever."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from native_checks import arguments_of, assert_close

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.program.ir import Collective
from xla_backend.runtime.custom_calls import register_custom_call
from xla_backend.targets.cpu.meeting_windows import Window, windows
from xla_backend.targets.cpu.planned import plan_program

OVERLAP = CompileOptions(overlap_collectives=True)
SUM = """sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""
ALL = "replica_groups={{0,1,2,3}}, use_global_device_ids=true"
PAIRS = "replica_groups={{0,1},{2,3}}, use_global_device_ids=true"
RING = "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"

# Two collectives and work around each; N elements.
BODIES = {
    "gathers": f"""g = f32[4,N] all-gather(x), channel_id=1, dimensions={{0}}, {ALL}
        a = f32[1,N] sine(y)
        h = f32[4,N] all-gather(a), channel_id=2, dimensions={{0}}, {ALL}
        gs = f32[1,N] slice(g), slice={{[1:2], [0:N]}}
        hs = f32[1,N] slice(h), slice={{[2:3], [0:N]}}
        b = f32[1,N] cosine(gs)
        ROOT r = f32[1,N] add(b, hs)""",
    "sums": f"""g = f32[1,N] all-reduce(x), channel_id=1, {ALL}, to_apply=sum
        a = f32[1,N] sine(y)
        h = f32[1,N] all-reduce(a), channel_id=2, {PAIRS}, to_apply=sum
        b = f32[1,N] cosine(g)
        c = f32[1,N] sine(b)
        ROOT r = f32[1,N] add(c, h)""",
    "rings": f"""g = f32[1,N] collective-permute(x), channel_id=1, {RING}
        a = f32[1,N] sine(y)
        h = f32[1,N] collective-permute(a), channel_id=2, source_target_pairs={{{{3,0}},{{1,2}}}}
        b = f32[1,N] cosine(g)
        ROOT r = f32[1,N] add(b, h)""",
    "exchanges": f"""w = f32[4,N] broadcast(x0), dimensions={{1}}
        places = f32[4,N] iota(), iota_dimension=0
        q = f32[4,N] add(w, places)
        g = f32[4,N] all-to-all(q), channel_id=1, dimensions={{0}}, {ALL}
        a = f32[1,N] sine(y)
        s = f32[1,N] reduce-scatter(q), channel_id=2, dimensions={{0}}, {ALL}, to_apply=sum
        gs = f32[1,N] slice(g), slice={{[3:4], [0:N]}}
        b = f32[1,N] add(gs, a)
        ROOT r = f32[1,N] add(b, s)""",
}


def module(body: str, called: str = SUM) -> HloModule:
    return parse_module(f"HloModule m, num_partitions=4\n{called}ENTRY e {{\n{body}\n}}")


def straight(kind: str, size: int) -> HloModule:
    text = BODIES[kind].replace("N", str(size))
    head = f"x = f32[1,{size}] parameter(0)\ny = f32[1,{size}] parameter(1)\n"
    return module(head + f"x0 = f32[{size}] reshape(x)\n" + text)


def looping(kind: str, size: int, rounds: int, call: str = "") -> HloModule:
    """What the body gives is what goes in again, scaled down."""
    array = f"f32[1,{size}]"
    body = BODIES[kind].replace("N", str(size)).replace("ROOT r", "r")
    carry = f"(s32[], {array}, {array})"
    called = f"""{SUM}some {{ p = {carry} parameter(0)
      i = s32[] get-tuple-element(p), index=0
      n = s32[] constant({rounds})
      ROOT c = pred[] compare(i, n), direction=LT }}
    step {{ p = {carry} parameter(0)
      i = s32[] get-tuple-element(p), index=0
      x = {array} get-tuple-element(p), index=1
      y = {array} get-tuple-element(p), index=2
      x0 = f32[{size}] reshape(x)
      one = s32[] constant(1)
      j = s32[] add(i, one)
      {body}
      scale = f32[] constant(0.25)
      scales = {array} broadcast(scale), dimensions={{}}
      m = {array} multiply(r, scales)
      {call or f"last = {array} negate(m)"}
      ROOT t = {carry} tuple(j, last, x) }}
    """
    return module(
        f"""x = {array} parameter(0)
        y = {array} parameter(1)
        z = s32[] constant(0)
        t = {carry} tuple(z, x, y)
        w = {carry} while(t), condition=some, body=step
        ROOT r = {array} get-tuple-element(w), index=1""",
        called,
    )


def found_windows(program_module: HloModule) -> list[tuple[str, Window]]:
    """Of the entry's block."""
    plan = plan_program(program_module.clone(), OVERLAP)
    program = plan.program
    found = windows(program.steps, program.kernels, lambda exchange, name: True, 1e9)
    named = []
    for window in found:
        step = program.steps[window.step]
        assert isinstance(step, Collective)
        named.append((str(step.exchange.opcode), window))
    return named


@pytest.mark.parametrize("kind", BODIES)
def test_there_is_something_to_do_meanwhile(kind: str) -> None:
    """Else the tests below would be of what they were before."""
    found = found_windows(straight(kind, 1000))
    assert found
    assert all(w.come <= w.step < w.part for _, w in found)
    assert any(w.part - w.come > 1 for _, w in found)


@pytest.mark.parametrize("size", [1, 1000, 100_001])
@pytest.mark.parametrize("kind", BODIES)
def test_values_are_the_evaluators_and_bits_the_same(kind: str, size: int) -> None:
    program = straight(kind, size)
    given = [arguments_of(program, seed) for seed in range(4)]
    together = xla_backend.compile(program, options=OVERLAP).loaded
    apart = xla_backend.compile(program).loaded
    wanted = evaluate_partitioned(program, given)
    usual = apart.run_arrays_together(given)
    for _ in range(5):
        got = together.run_arrays_together(given)
        for mine, other, want in zip(got, usual, wanted, strict=True):
            assert mine[0].tobytes() == other[0].tobytes()
            assert_close(mine[0], want[0], program.entry.root.shape.element_type)


@pytest.mark.parametrize("size", [3, 70_001])
@pytest.mark.parametrize("kind", BODIES)
def test_many_rounds(kind: str, size: int) -> None:
    """Who is fast comes to a place again, while slow ones have just left it."""
    program = looping(kind, size, 1000 if size < 10 else 20)
    given = [arguments_of(program, seed) for seed in range(4)]
    got = xla_backend.compile(program, options=OVERLAP).loaded.run_arrays_together(given)
    usual = xla_backend.compile(program).loaded.run_arrays_together(given)
    for mine, other in zip(got, usual, strict=True):
        assert mine[0].tobytes() == other[0].tobytes()


class Boom(Exception):
    pass


def with_host_calls(kind: str, then) -> xla_backend.Executable:
    """A loop in which each participant calls the host once a round."""

    def function(operands, results, attributes, context):
        then(context.partition)
        results[0][...] = operands[0]

    register_custom_call("overlapping_meetings_test", function, replace=True)
    call = 'last = f32[1,5] custom-call(m), custom_call_target="overlapping_meetings_test"'
    return looping(kind, 5, 60, call)


@pytest.mark.parametrize("kind", BODIES)
def test_participants_that_are_late_at_random(kind: str) -> None:
    choose = [random.Random(n) for n in range(4)]

    def delay(partition: int) -> None:
        if choose[partition].random() < 0.2:
            time.sleep(choose[partition].random() * 0.003)

    program = with_host_calls(kind, delay)
    given = [arguments_of(program, seed) for seed in range(4)]
    got = xla_backend.compile(program, options=OVERLAP).loaded.run_arrays_together(given)
    usual = xla_backend.compile(program).loaded.run_arrays_together(given)
    for mine, other in zip(got, usual, strict=True):
        assert mine[0].tobytes() == other[0].tobytes()


@pytest.mark.parametrize("kind", BODIES)
def test_a_failure_ends_all(kind: str) -> None:
    rounds = [0] * 4

    def fail(partition: int) -> None:
        rounds[partition] += 1
        if partition == 2 and rounds[2] == 30:
            raise Boom("participant 2")

    program = with_host_calls(kind, fail)
    run = xla_backend.compile(program, options=OVERLAP).loaded
    given = [arguments_of(program, seed) for seed in range(4)]
    start = time.monotonic()
    with pytest.raises(Boom, match="participant 2"):
        run.run_arrays_together(given)
    assert time.monotonic() - start < 10


def test_who_never_comes_is_noticed() -> None:
    """Three have come early, and wait for one that has gone another way."""
    program = module(
        """x = f32[4] parameter(0)
        y = f32[4] parameter(1)
        p = pred[] parameter(2)
        t = (f32[4], f32[4]) tuple(x, y)
        ROOT r = f32[4] conditional(p, t, t), true_computation=then, false_computation=other""",
        f"""{SUM}then {{ t = (f32[4], f32[4]) parameter(0)
          x = f32[4] get-tuple-element(t), index=0
          y = f32[4] get-tuple-element(t), index=1
          g = f32[4] all-reduce(x), channel_id=1, {ALL}, to_apply=sum
          a = f32[4] sine(y)
          b = f32[4] cosine(a)
          ROOT r = f32[4] add(g, b) }}
        other {{ t = (f32[4], f32[4]) parameter(0)
          ROOT x = f32[4] get-tuple-element(t), index=0 }}
        """,
    )
    run = xla_backend.compile(program, options=OVERLAP).loaded
    x = np.ones(4, np.float32)
    both = [[x, x, np.array(True)]] * 4
    for _ in range(3):
        got = run.run_arrays_together(both)
        np.testing.assert_allclose(got[0][0], 4 + np.cos(np.sin(x)), rtol=1e-6)
        start = time.monotonic()
        with pytest.raises(RuntimeFailure, match=r"never come: 0 in %\w+.* \(all-reduce\)"):
            run.run_arrays_together([[x, x, np.array(n != 3)] for n in range(4)])
        assert time.monotonic() - start < 10


def test_written_pairs_overlap() -> None:
    """What stands between a -start and its -done runs meanwhile."""
    program = module(
        f"""x = f32[64] parameter(0)
        y = f32[64] parameter(1)
        s = (f32[64], f32[256]) all-gather-start(x), channel_id=1, dimensions={{0}}, {ALL}
        a = f32[64] sine(y)
        d = f32[256] all-gather-done(s)
        e = f32[64] slice(d), slice={{[64:128]}}
        ROOT r = f32[64] add(e, a)"""
    )
    given = [arguments_of(program, seed) for seed in range(4)]
    got = xla_backend.compile(program, options=OVERLAP).loaded.run_arrays_together(given)
    for mine, (_, y) in zip(got, given, strict=True):
        np.testing.assert_allclose(mine[0], given[1][0] + np.sin(y), rtol=1e-5)


def test_the_flag() -> None:
    flags = {"xla_cpu_enable_concurrency_optimized_scheduler": True}
    program = straight("gathers", 1000)
    given = [arguments_of(program, seed) for seed in range(4)]
    got = xla_backend.compile(program, options=flags).loaded.run_arrays_together(given)
    assert got[0][0].shape == (1, 1000)
    assert CompileOptions()._replace(overlap_collectives=True) == OVERLAP
