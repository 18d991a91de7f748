"""Programs on GPUs, on a stand-in for CuPy: control flow, graphs, donation, jobs, host calls."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.cuda_programs import compiled, on, run_generated, started
from tests.xla_backend.targets.gpu.fake_cupy import FakeGpu
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.pending import Origin
from xla_backend.targets.gpu.cuda import jobs
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.memory import CudaBuffer

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)

CALLED = """
below { s = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT lt = pred[] compare(i, n), direction=LT
}
small { s = (s32[], f32[4,6]) parameter(0)
  x = f32[4,6] get-tuple-element(s), index=1
  zero = f32[] constant(0)
  total = f32[] reduce(x, zero), dimensions={0,1}, to_apply=larger
  limit = f32[] constant(40)
  ROOT lt = pred[] compare(total, limit), direction=LT
}
body { s = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,6] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[4,6] sort(x), dimensions={1}, to_apply=less
  z = f32[4,6] add(y, y)
  ROOT t = (s32[], f32[4,6]) tuple(j, z)
}
plain { s = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,6] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  z = f32[4,6] add(x, x)
  ROOT t = (s32[], f32[4,6]) tuple(j, z)
}
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT
}
larger { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b)
}
then { x = f32[4,6] parameter(0)
  ROOT r = f32[4,6] negate(x)
}
otherwise { x = f32[4,6] parameter(0)
  ROOT r = f32[4,6] abs(x)
}
third { x = f32[4,6] parameter(0)
  ROOT r = f32[4,6] copy(x)
}
"""
LOOP = """x = f32[4,6] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[4,6]) tuple(zero, x)
  w = (s32[], f32[4,6]) while(init), condition={condition}, body={body}
  ROOT r = f32[4,6] get-tuple-element(w), index=1"""
BODIES = {
    "kernel": ("x = f32[4,6] parameter(0)\n ROOT r = f32[4,6] add(x, x)", [X]),
    "counted": (LOOP.replace("{condition}", "below").replace("{body}", "body"), [X]),
    "watched": (LOOP.replace("{condition}", "small").replace("{body}", "body"), [X]),
    "resident": (LOOP.replace("{condition}", "small").replace("{body}", "plain"), [X]),
    "branch": (
        """x = f32[4,6] parameter(0)
      p = pred[] parameter(1)
      ROOT r = f32[4,6] conditional(p, x, x), true_computation=then, false_computation=otherwise""",
        [X, np.bool_(True)],
    ),
    "switch": (
        """x = f32[4,6] parameter(0)
      i = s32[] parameter(1)
      ROOT r = f32[4,6] conditional(i, x, x, x), branch_computations={then, otherwise, third}""",
        [X, np.int32(-3)],
    ),
    "product": (
        """x = f32[4,6] parameter(0)
      y = f32[6,5] parameter(1)
      d = f32[4,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT t = f32[4,5] abs(d)""",
        [X, np.ones((6, 5), np.float32)],
    ),
    "sort": (
        "x = f32[4,6] parameter(0)\n ROOT s = f32[4,6] sort(x), dimensions={0}, to_apply=less",
        [X],
    ),
    "constant": (
        """x = s32[3] parameter(0)
      c = s32[3] constant({7, 8, 9})
      y = s32[3] add(x, c)
      ROOT r = (s32[3], s32[3]) tuple(c, y)""",
        [np.arange(3, dtype=np.int32)],
    ),
    "host": (
        "x = f32[4,6] parameter(0)\n ROOT f = c64[4,4] fft(x), fft_type=RFFT, fft_length={6}",
        [X],
    ),
    "token": (
        """x = f32[4,6] parameter(0)
      t = token[] after-all()
      y = f32[4,6] negate(x)
      ROOT r = (token[], f32[4,6]) tuple(t, y)""",
        [X],
    ),
    "empty": ("x = f32[0,6] parameter(0)\n ROOT r = f32[0,6] negate(x)", [X[:0]]),
}


def text_of(name: str) -> str:
    return f"HloModule {name}\n{CALLED}\nENTRY main {{ {BODIES[name][0]}\n}}"


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[FakeGpu]:
    return fake_cupy.install(monkeypatch, 2)


@pytest.mark.parametrize("graphs", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_gives_the_results_of_the_evaluator(name: str, graphs: bool, gpus: list[FakeGpu]) -> None:
    _, arguments = BODIES[name]
    executable = compiled(text_of(name), graphs=graphs)
    want = evaluate(parse_module(text_of(name)), arguments)
    for _ in range(3):  # with graphs, the first run makes none, the second captures, the third has
        for got, expected in zip(executable.run_arrays(arguments), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_both_devices_run_one_executable(gpus: list[FakeGpu]) -> None:
    executable = compiled(text_of("constant"))
    second = executable.device.client.devices()[1]
    x = np.arange(3, dtype=np.int32)
    for device in (executable.device, second):
        found = executable.run_arrays([x], ExecutionContext(device))
        np.testing.assert_array_equal(found, [[7, 8, 9], x + [7, 8, 9]])
    assert gpus[0].counts["launches"] == gpus[1].counts["launches"]


def test_calls_come_back_before_they_are_through(gpus: list[FakeGpu]) -> None:
    executable = compiled(text_of("sort"))
    device: Any = executable.device
    buffers = on(device, X)
    outputs, job = started(executable, buffers)
    assert not job.is_done() and device.stream.queue
    outputs, second = started(executable, outputs)
    second.wait()
    assert job.is_done() and second.is_done()
    kind = device.client.buffer_kind(device, X.shape, X.dtype)
    np.testing.assert_array_equal(kind.to_host(outputs[0]), np.sort(X, 0))


def test_memory_is_given_up_as_soon_as_work_is_on_its_way(gpus: list[FakeGpu]) -> None:
    """A long chain of calls needs memory for two arrays."""
    executable = compiled(text_of("kernel"))
    device: Any = executable.device
    buffers, jobs = on(device, X), []
    for _ in range(10):
        buffers, job = started(executable, buffers)
        jobs.append(job)
    assert device.memory_stats()["bytes_reserved"] <= 3 * 512
    kind = device.client.buffer_kind(device, X.shape, X.dtype)
    np.testing.assert_array_equal(kind.to_host(buffers[0]), X * 2**10)


def test_stretches_become_graphs_when_their_addresses_come_again(gpus: list[FakeGpu]) -> None:
    """A loop with a known number of trips is one graph; the host looks at nothing."""
    executable = compiled(text_of("counted"))
    device: Any = executable.device
    kind = device.client.buffer_kind(device, X.shape, X.dtype)
    buffers = on(device, X)
    counts = gpus[0].counts
    launches = []
    for number in range(6):
        outputs, job = started(executable, buffers.copy())
        job.wait()
        launches.append((counts["launches"], counts.get("graph launches", 0)))
        assert counts.get("copies 2", 0) == number  # those of this test
        np.testing.assert_allclose(kind.to_host(outputs[0]), np.sort(X, 1) * 2**7)
        del outputs
    # Two blocks of memory of one size come in two orders: each is seen once, and captured once.
    first, graphs = launches[0]
    assert graphs == 0 and first > 7 and counts["captures"] == 2
    assert launches[-2:] == [(4 * first, 3), (4 * first, 4)]
    # Another argument has another address.
    others = on(device, X + 1)
    outputs, job = started(executable, others)
    np.testing.assert_allclose(kind.to_host(outputs[0]), np.sort(X + 1, 1) * 2**7)
    assert counts["graph launches"] == 4 and counts["captures"] == 2


def test_a_watched_loop_reads_its_predicate_once_a_trip(gpus: list[FakeGpu]) -> None:
    executable = compiled(text_of("watched"))
    (result,) = executable.run_arrays([X])
    trips = int(np.log2(result.max() / 2))
    assert result.max() == 64 and gpus[0].counts["copies 2"] == trips + 2
    # Its body is a graph from the second trip on, or too short for one.
    assert gpus[0].counts.get("captures", 0) <= 2


def test_a_small_loop_is_one_launch(gpus: list[FakeGpu]) -> None:
    executable = compiled(text_of("resident"))
    (result,) = executable.run_arrays([X])
    assert result.max() == 64
    # Nothing is read but the result.
    assert len(executable.code.residents) == 1 and gpus[0].counts["copies 2"] == 1


DONATING = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main { x = f32[4,6] parameter(0)
  y = f32[4,6] parameter(1)
  a = f32[4,6] add(x, y)
  b = f32[4,6] multiply(x, y)
  ROOT r = (f32[4,6], f32[4,6]) tuple(a, b)
}"""


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("donated", [True, False])
def test_donation(donated: bool, alone: bool, gpus: list[FakeGpu]) -> None:
    """The result takes the memory of an argument that is given up and nobody else's."""
    executable = compiled(DONATING)
    device: Any = executable.device
    kind = device.client.buffer_kind(device, X.shape, X.dtype)
    buffers = on(device, X, X + 1)
    held = None if alone else buffers[0]
    address = buffers[0].address
    outputs, _ = started(executable, buffers, {0} if donated else ())
    assert (buffers[0] is None) == donated
    assert (outputs[0].address == address) == (donated and alone)
    np.testing.assert_allclose(kind.to_host(outputs[0]), X + (X + 1))
    np.testing.assert_allclose(kind.to_host(outputs[1]), X * (X + 1), rtol=1e-6)
    for kept in filter(None, (held, buffers[0])):
        np.testing.assert_array_equal(kind.to_host(kept), X)


RANDOM = """HloModule m
ENTRY main { s = u64[2] rng-get-and-update-state(), delta=5
  ROOT r = u64[2] copy(s)
}"""


def test_each_device_keeps_the_state_of_a_program(gpus: list[FakeGpu]) -> None:
    executable = compiled(RANDOM)
    contexts = [ExecutionContext(device) for device in executable.device.client.devices()]
    seen = [executable.run_arrays([], contexts[i])[0][0] for i in (0, 0, 1, 0)]
    assert np.diff([seen[0], seen[1], seen[3]]).tolist() == [5, 5] and seen[2] == seen[0]


WHO = """HloModule m, replica_count=4, num_partitions=2
ENTRY main { r = u32[] replica-id()
  p = u32[] partition-id()
  ROOT t = (u32[], u32[]) tuple(r, p)
}"""


def test_programs_see_their_context(gpus: list[FakeGpu]) -> None:
    executable = compiled(WHO)
    for who in ((0, 0), (3, 1), (0, 0)):
        found = executable.run_arrays([], ExecutionContext(executable.device, *who))
        assert tuple(map(int, found)) == who


def test_texts_show_the_stages(gpus: list[FakeGpu]) -> None:
    executable = compiled(text_of("kernel"))
    texts = executable.texts()
    (kernel,) = executable.kernels()
    assert ".entry" in kernel.assembly and kernel.launches[0].threads
    assert "HloModule" in texts["hlo"] and "launch" in texts["program"]
    assert "threads" in texts["loops"] and ".target sm_90" in texts["ptx"]


def test_foreign_memory_is_kept_however_far_the_caller_runs_ahead(monkeypatch):
    """More calls under way than are remembered for messages: the results of each are the next
    one's arguments, and nobody but the jobs holds what comes from elsewhere."""
    fake_cupy.install(monkeypatch, 1)
    run_generated(monkeypatch)
    client = CudaClient()
    (device,) = client.devices()
    add = """HloModule m
    ENTRY e { p = f32[8] parameter(0)  q = f32[8] parameter(1)  ROOT r = f32[8] add(p, q) }"""
    executable = compiled(add, client, graphs=False)
    kind = client.buffer_kind(device, (8,), np.dtype("f4"))
    total = kind.from_host(np.zeros(8, "f4"))
    batches = [kind.from_host(np.full(8, i, "f4")) for i in range(60)]
    monkeypatch.setattr(jobs, "is_over", lambda *_: False)
    owners = []
    while batches:
        batch = batches.pop(0)
        owner = Owner(batch.owner)
        foreign = CudaBuffer(batch.address, owner, device, kind, from_pool=False)
        owners.append(weakref.ref(owner))
        del batch, owner
        outputs, job = executable.start(
            [total, foreign], (), ExecutionContext(device), (), Origin()
        )
        total = outputs[0]
        del foreign, outputs, job
    gc.collect()
    assert all(owner() is not None for owner in owners)
    monkeypatch.undo()


class Owner:
    """Somebody else's memory."""

    def __init__(self, memory: Any) -> None:
        self.memory = memory
