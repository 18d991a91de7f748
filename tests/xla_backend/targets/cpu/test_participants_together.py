"""Native programs of several participants that run at the same time: what they exchange, how they
fail, and that none of them waits for ever."""

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from native_checks import arguments_of, assert_close

import xla_backend
from tests.threads import SECONDS
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.parser import parse_module
from xla_backend.process import kept_threads
from xla_backend.runtime.custom_calls import register_custom_call
from xla_backend.runtime.hlo_client import host_device

SUM = """sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
"""


def program(body, participants, called=SUM):
    text = f"HloModule m, num_partitions={participants}\n{called}ENTRY e {{\n{body}\n}}"
    return parse_module(text)


def loaded(body, participants, called=SUM):
    return xla_backend.compile(program(body, participants, called)).loaded


ALL = "channel_id=1, use_global_device_ids=true, replica_groups={}"


def all_reduce(shape, name="r", operand="x", channel=1):
    groups = f"channel_id={channel}, use_global_device_ids=true, replica_groups={{}}"
    return f"{name} = {shape} all-reduce({operand}), {groups}, to_apply=sum"


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("participants", [2, 3, 8])
@pytest.mark.parametrize("size", [1, 7, 1000, 300_001])
def test_large_and_small_sums(participants, size):
    module = program(
        f"x = f32[{size}] parameter(0)\nROOT {all_reduce(f'f32[{size}]')}", participants
    )
    given = [arguments_of(module, seed) for seed in range(participants)]
    run = xla_backend.compile(module).loaded
    first = run.run_arrays_together(given)
    for got, want in zip(first, evaluate_partitioned(module, given), strict=True):
        assert_close(got[0], want[0], module.entry.root.shape.element_type)
    for _ in range(5):  # the same bits, and for every participant
        again = run.run_arrays_together(given)
        assert all(mine[0].tobytes() == first[0][0].tobytes() for mine in again)


def test_many_meetings_in_a_loop():
    """Fast participants meet again before slow ones have seen that all had come."""
    body = f"""s = (s32[], f32[4]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = f32[4] get-tuple-element(s), index=1
      one = s32[] constant(1)
      j = s32[] add(i, one)
      {all_reduce("f32[4]", "y")}
      q = f32[] constant(0.25)
      h = f32[4] broadcast(q), dimensions={{}}
      z = f32[4] multiply(y, h)
      ROOT t = (s32[], f32[4]) tuple(j, z)"""
    called = (
        SUM
        + "body {\n" + body + "\n}\n"
        + """condition { s = (s32[], f32[4]) parameter(0)
          i = s32[] get-tuple-element(s), index=0
          n = s32[] constant(2000)
          ROOT r = pred[] compare(i, n), direction=LT }
        """
    )  # fmt: skip
    run = loaded(
        """x = f32[4] parameter(0)
        z = s32[] constant(0)
        t = (s32[], f32[4]) tuple(z, x)
        w = (s32[], f32[4]) while(t), condition=condition, body=body
        ROOT r = f32[4] get-tuple-element(w), index=1""",
        4,
        called,
    )
    given = [[np.full(4, float(n), np.float32)] for n in range(4)]
    for (got,) in run.run_arrays_together(given):
        np.testing.assert_array_equal(got, np.full(4, 1.5, np.float32))


def test_runs_at_the_same_time_keep_apart():
    run = loaded(f"x = f32[64] parameter(0)\nROOT {all_reduce('f32[64]')}", 3)

    def check(k):
        for _ in range(50):
            given = [[np.full(64, float(k + n), np.float32)] for n in range(3)]
            for (got,) in run.run_arrays_together(given):
                np.testing.assert_array_equal(got, np.full(64, 3.0 * k + 3.0, np.float32))
        return True

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(check, range(6)))


def test_threads_are_used_again():
    run = loaded(f"x = f32[4] parameter(0)\nROOT {all_reduce('f32[4]')}", 4)
    given = [[np.ones(4, np.float32)]] * 4
    run.run_arrays_together(given)
    before = threading.active_count()
    for _ in range(20):
        run.run_arrays_together(given)
    assert threading.active_count() <= before
    assert len(kept_threads._idle) >= 3


# -- failures --------------------------------------------------------------------------------------

BRANCHES = """then { x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), channel_id=5, use_global_device_ids=true, replica_groups={},
    to_apply=sum }
otherwise { x = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(x), channel_id=6, use_global_device_ids=true, replica_groups={},
    to_apply=sum }
"""


def test_different_collectives_are_named():
    run = loaded(
        """x = f32[4] parameter(0)
        p = pred[] parameter(1)
        ROOT r = f32[4] conditional(p, x, x), true_computation=then, false_computation=otherwise""",
        2,
        SUM + BRANCHES,
    )
    x = np.ones(4, np.float32)
    both = [[x, np.array(True)], [x, np.array(True)]]
    np.testing.assert_array_equal(run.run_arrays_together(both)[0][0], 2 * x)
    start = time.monotonic()
    with pytest.raises(RuntimeFailure, match=r"never come: 0 in %r.* \(all-reduce\); 1 in %r"):
        run.run_arrays_together([[x, np.array(True)], [x, np.array(False)]])
    assert time.monotonic() - start < 10
    np.testing.assert_array_equal(run.run_arrays_together(both)[0][0], 2 * x)


def test_who_ends_without_meeting_is_not_waited_for():
    run = loaded(
        """x = f32[4] parameter(0)
        p = pred[] parameter(1)
        ROOT r = f32[4] conditional(p, x, x), true_computation=then, false_computation=leave""",
        3,
        SUM + BRANCHES + "leave { ROOT x = f32[4] parameter(0) }\n",
    )
    x = np.ones(4, np.float32)
    with pytest.raises(RuntimeFailure, match=r"never come: 0 in %r.*; 2 in %r"):
        run.run_arrays_together([[x, np.array(n != 1)] for n in range(3)])


class Boom(Exception):
    pass


def _calls_host(then):
    """The host function's participant is its operand."""

    def function(operands, results, attributes, context):
        then(context.partition)
        results[0][...] = operands[0]

    register_custom_call("participants_together_test", function, replace=True)
    return loaded(
        f"""x = f32[4] parameter(0)
        h = f32[4] custom-call(x), custom_call_target="participants_together_test"
        ROOT {all_reduce("f32[4]", operand="h")}""",
        4,
    )


def test_a_failure_ends_all_and_is_the_one_that_is_raised():
    def fail(partition):
        if partition == 2:
            raise Boom("participant 2")

    run = _calls_host(fail)
    with pytest.raises(Boom, match="participant 2"):
        run.run_arrays_together([[np.ones(4, np.float32)]] * 4)


def test_slow_participants_are_waited_for():
    run = _calls_host(lambda partition: time.sleep(0.05 * partition))
    for (got,) in run.run_arrays_together([[np.ones(4, np.float32)]] * 4):
        np.testing.assert_array_equal(got, np.full(4, 4.0, np.float32))


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signal here")
def test_signals_end_a_run_that_waits():
    """The main thread waits in native code for a participant that sleeps."""
    entered = threading.Event()
    go_on = threading.Event()

    def sleep(partition):
        if partition == 3:
            entered.set()
            go_on.wait(SECONDS)

    def interrupt(number, frame):
        go_on.set()
        raise Boom("signal")

    run = _calls_host(sleep)

    def send():
        entered.wait(SECONDS)
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Boom, match="signal"):
            threading.Thread(target=send).start()
            run.run_arrays_together([[np.ones(4, np.float32)]] * 4)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert entered.is_set()


def test_numbers_of_devices_and_arguments_are_checked():
    run = loaded(f"x = f32[4] parameter(0)\nROOT {all_reduce('f32[4]')}", 2)
    x = np.ones(4, np.float32)
    with pytest.raises(ValueError, match="runs on 2 devices, and got the arrays of 3 participants"):
        run.run_arrays_together([[x]] * 3)
    with pytest.raises(ValueError, match="has 2 participants, and is to run on 3 devices"):
        run.run_arrays_together([[x]] * 3, [host_device()] * 3)


@pytest.mark.parametrize("platform", ["emulator", "interpreter"])
def test_platforms_in_python(platform):
    module = program(f"x = f32[4] parameter(0)\nROOT {all_reduce('f32[4]')}", 2)
    run = xla_backend.compile(module, platform).loaded
    given = [[np.full(4, float(n), np.float32)] for n in range(2)]
    for (got,) in run.run_arrays_together(given):
        np.testing.assert_array_equal(got, np.ones(4, np.float32))
