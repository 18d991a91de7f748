"""The execution context: two devices of one client that run one executable are told apart, and so
are participants and runs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.threads import together
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.runtime.client import AbstractClient, Device, ExecutionContext, LoadedExecutable
from xla_backend.runtime.custom_calls import register_custom_call
from xla_backend.runtime.plugins import discover_plugins
from xla_backend.targets import built_in as built_in  # registers the platforms
from xla_backend.targets.cpu.client import CpuClient

PLATFORMS = ("cpu", "emulator", "interpreter")
V = np.arange(3, dtype=np.float32)

ECHO = """ENTRY e {
    t = token[] after-all()
    i = (f32[3], token[]) infeed(t)
    v = f32[3] get-tuple-element(i), index=0
    u = token[] get-tuple-element(i), index=1
    o = token[] outfeed(v, u), outfeed_shape=f32[3]{0}
    ROOT r = f32[3] negate(v)
}"""
CALL = """ENTRY e {
    x = f32[3] parameter(0)
    ROOT r = f32[3] custom-call(x), custom_call_target="tests.who"
}"""
RANDOM = """ENTRY e { ROOT s = u64[2] rng-get-and-update-state(), delta=7 }"""
NUMBERS = """HloModule m, replica_count=3, num_partitions=2

ENTRY e {
    p = u32[] partition-id()
    r = u32[] replica-id()
    ten = u32[] constant(10)
    t = u32[] multiply(r, ten)
    ROOT n = u32[] add(t, p)
}"""


@pytest.fixture(params=PLATFORMS)
def client(request: pytest.FixtureRequest) -> AbstractClient:
    return discover_plugins()[request.param].factory()


def loaded(client: AbstractClient, text: str) -> LoadedExecutable:
    return client.compile(parse_module(text), CompileOptions(verify=True))


def two_devices(client: AbstractClient) -> list[Device]:
    return [client.devices()[0], Device(client, 1, "second")]


def run_on(executable: LoadedExecutable, device: Device, *arrays: Any) -> np.ndarray:
    return executable.run_arrays(arrays, ExecutionContext(device))[0]


def test_infeed_and_outfeed_are_the_devices(client: AbstractClient) -> None:
    executable = loaded(client, ECHO)
    devices = two_devices(client)
    for k, device in enumerate(devices):
        device.host.infeed.append([V + k])
    for k, device in reversed(list(enumerate(devices))):
        np.testing.assert_array_equal(run_on(executable, device), -(V + k))
        np.testing.assert_array_equal(device.host.outfeed, [[V + k]])


@pytest.fixture
def calls() -> list[ExecutionContext]:
    seen: list[ExecutionContext] = []

    def who(operands: Any, results: Any, attributes: Any, context: ExecutionContext) -> None:
        seen.append(context)
        results[0][...] = operands[0] + context.device.id

    register_custom_call("tests.who", who, replace=True)
    return seen


def test_calls_of_the_host_are_told_who_calls(
    client: AbstractClient, calls: list[ExecutionContext]
) -> None:
    executable = loaded(client, CALL)
    assert executable.uses_context and executable.direct is None
    devices = two_devices(client)
    for device in (*devices, *devices):
        np.testing.assert_array_equal(run_on(executable, device, V), V + device.id)
    assert [context.device for context in calls] == [*devices, *devices]
    assert len({context.run for context in calls}) == 4
    together = [ExecutionContext(device, replica=device.id, run=77) for device in devices]
    for context in together:
        executable.run_arrays([V], context)
    assert [(c.replica, c.run) for c in calls[4:]] == [(0, 77), (1, 77)]
    assert calls[4:] == together


def test_devices_that_run_one_program_at_the_same_time(calls: list[ExecutionContext]) -> None:
    client = CpuClient(device_count=4)
    executable = loaded(client, CALL)

    def work(device: Device) -> None:
        for _ in range(200):
            np.testing.assert_array_equal(run_on(executable, device, V), V + device.id)

    together(*(partial(work, d) for d in client.devices()))
    assert len(calls) == 800 == len({c.run for c in calls})


@pytest.mark.parametrize("platform", ["cpu", "emulator"])
def test_random_state_is_kept_for_each_device(platform: str) -> None:
    client = discover_plugins()[platform].factory()
    executable = loaded(client, RANDOM)
    first, second = two_devices(client)
    numbers = [int(run_on(executable, d)[0]) for d in (first, first, second, first, second)]
    start = numbers[0]
    assert numbers == [start, start + 7, start, start + 14, start + 7]


def test_participants_have_their_numbers(client: AbstractClient) -> None:
    executable = loaded(client, NUMBERS)
    results = executable.run_arrays_together([[]] * 6)
    assert [int(number) for (number,) in results] == [0, 1, 10, 11, 20, 21]


def test_numbers_are_read_from_the_context_in_a_fusion_and_in_a_loop(
    client: AbstractClient,
) -> None:
    text = """HloModule m, num_partitions=4

    some {
      s = (u32[], u32[4]) parameter(0)
      i = u32[] get-tuple-element(s), index=0
      four = u32[] constant(4)
      ROOT c = pred[] compare(i, four), direction=LT
    }
    step {
      s = (u32[], u32[4]) parameter(0)
      i = u32[] get-tuple-element(s), index=0
      x = u32[4] get-tuple-element(s), index=1
      p = u32[] partition-id()
      b = u32[4] broadcast(p), dimensions={}
      y = u32[4] add(x, b)
      one = u32[] constant(1)
      j = u32[] add(i, one)
      ROOT t = (u32[], u32[4]) tuple(j, y)
    }
    ENTRY e {
      zero = u32[] constant(0)
      x = u32[4] iota(), iota_dimension=0
      s = (u32[], u32[4]) tuple(zero, x)
      w = (u32[], u32[4]) while(s), condition=some, body=step
      ROOT r = u32[4] get-tuple-element(w), index=1
    }"""
    executable = loaded(client, text)
    for partition, (result,) in enumerate(executable.run_arrays_together([[]] * 4)):
        assert result.tolist() == [k + 4 * partition for k in range(4)]


def test_programs_that_do_not_look_have_a_direct_way_in(calls: list[ExecutionContext]) -> None:
    client = CpuClient()
    plain = loaded(client, "ENTRY e { x = f32[3] parameter(0)  ROOT r = f32[3] negate(x) }")
    assert plain.direct is not None and not plain.uses_context
    for text in (ECHO, CALL, RANDOM, NUMBERS):
        assert loaded(client, text).uses_context and loaded(client, text).direct is None


def test_a_context_says_who_it_is() -> None:
    device = CpuClient().devices()[0]
    assert repr(ExecutionContext(device, 1, 2, run=3)) == (
        "ExecutionContext(cpu:0, replica=1, partition=2, run=3)"
    )
