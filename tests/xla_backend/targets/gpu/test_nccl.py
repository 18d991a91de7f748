"""Programs over several GPUs, whose collectives are NCCL's: against the evaluator, on a stand-in
for CuPy and NCCL."""

from __future__ import annotations

import threading
from importlib.metadata import PackageNotFoundError
from typing import Any

import numpy as np
import pytest

from tests.xla_backend.collective_modules import (
    BOTH,
    CALLED,
    MODE_IDS,
    MODES,
    MOVES,
    REDUCTIONS,
    SUM,
    choice,
    in_a_loop,
    module_of,
    ragged,
    wild_ragged,
    with_groups,
)
from tests.xla_backend.targets.cpu.native_checks import arguments_of, assert_close
from tests.xla_backend.targets.gpu import fake_cupy, fake_nccl
from tests.xla_backend.targets.gpu.cuda_programs import on, run_generated
from tests.xla_backend.targets.gpu.fake_nccl import FakeNccl
from xla_backend.compile_options import CompileOptions
from xla_backend.gpu_options import GpuOptions
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.evaluator import evaluate_partitioned
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.targets.gpu.cuda import availability, communicators, group_runs, report
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.collective_plans import collectives_of
from xla_backend.targets.gpu.cuda.communicators import load_nccl

Arrays = list[list[np.ndarray]]
Calls = list[tuple[str, int, int, str, int]]


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found = fake_cupy.install(monkeypatch, 4)
    run_generated(monkeypatch)
    return found


def nccl() -> FakeNccl:
    return load_nccl()


def compiled(module: HloModule, client: CudaClient | None = None, **gpu: Any) -> Any:
    options = CompileOptions(verify=True, gpu=GpuOptions(**gpu))
    return (client or CudaClient()).compile(module, options)


def check(module: HloModule, given: Arrays | None = None) -> Calls:
    """The program on GPUs gives what the evaluator gives, twice; calls of NCCL."""
    count = module.replica_count * module.num_partitions
    given = given or [arguments_of(module, seed) for seed in range(count)]
    want = evaluate_partitioned(module.clone(), given)
    executable = compiled(module)
    devices = executable.device.client.devices()[:count]
    for _ in range(2):
        nccl().calls.clear()
        got = executable.run_arrays_together(given, devices)
        for mine, theirs in zip(got, want, strict=True):
            for g, w, shape in zip(mine, theirs, executable.output_shapes, strict=True):
                assert_close(g, w, shape.element_type)
    return list(nccl().calls)


def names(calls: Calls) -> set[str]:
    return {call[0] for call in calls}


LINES = {
    "allReduce": "TYPE[4,8] all-reduce(x), to_apply=sum",
    "allGather": "TYPE[4,ALL] all-gather(x), dimensions={1}",
    "reduceScatter": "TYPE[4,PART] reduce-scatter(x), dimensions={1}, to_apply=sum",
}


@pytest.mark.parametrize(("attributes", "replicas", "partitions"), MODES, ids=MODE_IDS)
@pytest.mark.parametrize("name", LINES)
def test_joining_in_every_mode(name: str, attributes: str, replicas: int, partitions: int) -> None:
    module = with_groups(attributes, replicas, partitions, LINES[name], "f32")
    assert names(check(module)) == {name}


# Of sums (of truth values: or), NCCL's type; None: it has no such sum.
TYPES = {
    "s8": "INT8", "u8": "UINT8", "s32": "INT32", "u32": "UINT32", "s64": "INT64", "u64": "UINT64",
    "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "c64": "FLOAT32",
    "c128": "FLOAT64", "pred": "UINT8", "s16": None, "u16": None, "f8e4m3fn": None, "s4": None,
}  # fmt: skip


@pytest.mark.parametrize("type", TYPES)
def test_sums_of_every_type(type: str) -> None:
    calls = check(with_groups("replica_groups={{2,0,1}}", 3, 1, LINES["allReduce"], type))
    if TYPES[type] is None:
        assert names(calls) == {"broadcast"}
        return
    elements = 32 * (2 if type.startswith("c") else 1)
    assert {call[2:4] for call in calls} == {(elements, TYPES[type])}
    assert sorted(call[1] for call in calls) == [0, 1, 2]


# NCCL's operation; None: a kernel of the program combines what each member gets of all.
OPERATIONS = [
    ("f32", "multiply", "PROD"), ("f32", "maximum", None), ("f32", "minimum", None),
    ("s32", "maximum", "MAX"), ("u8", "minimum", "MIN"), ("s32", "and", None),
    ("pred", "and", "MIN"), ("pred", "xor", None), ("c64", "multiply", None),
]  # fmt: skip


@pytest.mark.parametrize("line", ["allReduce", "reduceScatter"])
@pytest.mark.parametrize(("type", "operation", "own"), OPERATIONS)
def test_other_reductions(type: str, operation: str, own: str | None, line: str) -> None:
    module = with_groups("replica_groups={}", 4, 1, LINES[line], type, operation)
    calls = check(module)
    assert names(calls) == ({line} if own else {"broadcast"} if "all" in line else {"send", "recv"})
    if own:
        assert {call[4] for call in calls} == {getattr(nccl(), f"NCCL_{own}")}


SEVERAL = """x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  s = f32[8] all-reduce(x), replica_groups={}, to_apply=sum
  t = f32[8] all-reduce(y), replica_groups={}, to_apply=sum
  ROOT r = (f32[8], f32[8]) tuple(s, t)"""


@pytest.mark.parametrize(
    ("options", "collectives"),
    [({}, 1), ({"all_reduce_bytes": 40}, 2), ({"combined_collectives": 1}, 2)],
)
def test_those_of_one_kind_are_combined(options: dict[str, int], collectives: int) -> None:
    executable = compiled(module_of(SEVERAL, 2, 1), **options)
    assert len(list(collectives_of(executable.program))) == collectives


def test_the_largest_of_what_is_no_number() -> None:
    called = SUM.replace("add", "maximum")
    body = "x = f32[2] parameter(0)\nROOT r = f32[2] all-reduce(x), replica_groups={}, to_apply=sum"
    x, y = np.array([np.nan, 1], np.float32), np.array([1, 2], np.float32)
    check(module_of(body, 2, 1, "f32", called), [[x], [y]])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str) -> None:
    body = f"x = f32[4,8] parameter(0)\n{REDUCTIONS[name]}"
    check(module_of(body, 3, 1, called=SUM + CALLED))


@pytest.mark.parametrize("type", ["bf16", "c128"])
@pytest.mark.parametrize("name", MOVES)
def test_moving(name: str, type: str) -> None:
    line, replicas, partitions = MOVES[name]
    body = f"x = TYPE[4,8] parameter(0)\ny = TYPE[4,8] parameter(1)\nROOT r = {line}"
    calls = check(module_of(body, replicas, partitions, type, ""))
    assert names(calls) <= {"send", "recv", "allGather", "broadcast"}
    assert {call[3] for call in calls} <= {"INT8"}


def test_all_to_all_of_whole_rows() -> None:
    body = """x = f32[4,3] parameter(0)
      ROOT r = f32[4,3] all-to-all(x), replica_groups={{1,0}}, dimensions={0}"""
    assert len(check(module_of(body, 2, 1, "f32", ""))) == 8


def test_ragged_all_to_all() -> None:
    assert names(check(*ragged())) == {"send", "recv"}
    # Rows that are none of both arrays are not sent.
    for seed in range(6):
        check(*wild_ragged("s32", 2, seed)[:2])


def test_in_a_loop() -> None:
    assert len(check(in_a_loop())) == 15


WATCHED = """
more { s = (s32[], f32[2]) parameter(0)
  v = f32[2] get-tuple-element(s), index=1
  zero = f32[] constant(0)
  total = f32[] reduce(v, zero), dimensions={0}, to_apply=sum
  most = f32[] constant(1000)
  ROOT r = pred[] compare(total, most), direction=LT }
step { s = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[2] get-tuple-element(s), index=1
  w = f32[2] all-reduce(v), replica_groups={}, to_apply=sum
  ROOT t = (s32[], f32[2]) tuple(i, w) }
"""


def test_in_a_loop_whose_rounds_the_host_watches() -> None:
    body = """v = f32[2] parameter(0)
      z = s32[] constant(0)
      t = (s32[], f32[2]) tuple(z, v)
      l = (s32[], f32[2]) while(t), condition=more, body=step
      ROOT r = f32[2] get-tuple-element(l), index=1"""
    ones = [[np.full(2, 1.0 + n, np.float32)] for n in range(2)]
    check(module_of(body, 2, 1, called=SUM + WATCHED), ones)


MEETING = "all-reduce(c), channel_id=1, replica_groups={{0,1}}, to_apply=sum"


def test_steps_of_two_branches_meet_by_their_channel() -> None:
    # Without global ids the groups of a channel are those of partitions: here, of replicas.
    module = choice("channel_id=1, ", MEETING)
    check(module, BOTH)


def test_partners_that_never_come() -> None:
    executable = compiled(choice("", "negate(c)"))
    with pytest.raises(RuntimeFailure, match=r"never come: 0 in %r \(all-red") as error:
        executable.run_arrays_together(BOTH, executable.device.client.devices()[:2])
    assert error.value.collectives == ("%r (all-reduce)",)


# -- runs ------------------------------------------------------------------------------------------

TWO = """x = f32[8] parameter(0)
  y = f32[8] sine(x)
  s = f32[8] all-reduce(y), replica_groups={}, to_apply=sum
  ROOT r = f32[8] add(s, x)"""
X = [[np.arange(8, dtype=np.float32) + n] for n in range(2)]
WANT = sum(np.sin(x) for (x,) in X) + X[0][0]


def two(client: CudaClient | None = None, **gpu: Any) -> Any:
    return compiled(module_of(TWO, 2, 1), client, **gpu)


def test_communicators_are_made_once_for_devices_in_one_order() -> None:
    client = CudaClient()
    first, second, third, _ = client.devices()
    executable, other = two(client), two(client)
    for _ in range(2):
        np.testing.assert_allclose(
            executable.run_arrays_together(X, [first, second])[0][0], WANT, rtol=1e-6
        )
        other.run_arrays_together(X, [first, second])
    assert nccl().made == 2
    executable.run_arrays_together(X, [second, first])
    executable.run_arrays_together(X, [first, third])
    assert (nccl().made, nccl().ended) == (6, 0)


def test_there_are_so_many_sets_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(communicators, "_MOST_SETS", 2)
    client = CudaClient()
    devices, executable = client.devices(), two(client)
    for number in (1, 2, 1, 3):
        executable.run_arrays_together(X, [devices[0], devices[number]])
    assert (nccl().made, nccl().ended) == (6, 2)
    executable.run_arrays_together(X, [devices[0], devices[1]])  # used later than the other
    assert nccl().made == 6


def test_donated_memory_becomes_the_results() -> None:
    text = "HloModule m, replica_count=2, input_output_alias={ {}: (0, {}, may-alias) }"
    module = parse_module(f"{text}\n{SUM.replace('TYPE', 'f32')}ENTRY e {{ {TWO} }}")
    executable = compiled(module)
    devices = executable.device.client.devices()[:2]
    given = [on(device, *x) for device, x in zip(devices, X)]
    addresses = [own[0].address for own in given]
    results = executable.execute_together(given, {0}, devices)
    assert given == [[None], [None]]
    assert [own[0].address for own in results] == addresses
    kind = devices[0].client.buffer_kind(devices[0], (8,), np.dtype(np.float32))
    np.testing.assert_allclose(kind.to_host(results[0][0]), WANT, rtol=1e-6)


def test_memory_is_kept_until_all_work_is_on_the_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = two()
    run_two(executable)
    devices = executable.device.client.devices()[:2]
    start, held = group_runs.GroupRun.start, []

    def watched(run: group_runs.GroupRun) -> None:
        held.extend(device.memory_stats()["bytes_in_use"] for device in devices)
        start(run)

    before = [device.memory_stats()["bytes_in_use"] for device in devices]
    monkeypatch.setattr(group_runs.GroupRun, "start", watched)
    run_two(executable)
    arguments, arena, outputs = (512 * -(-n // 512) for n in (32, executable.temp_size, 32))
    taken = [there - first for there, first in zip(held, before)]
    assert executable.temp_size and taken == 2 * [arguments + arena + outputs]
    assert [device.memory_stats()["bytes_in_use"] for device in devices] == before


def test_participants_alone_are_refused() -> None:
    executable = two()
    with pytest.raises(ValueError, match="has 2 participants, which exchange arrays; run"):
        executable.run_arrays(X[0])
    with pytest.raises(RuntimeFailure, match=r"share a GPU \(cuda:0, cuda:0\), and NCCL joins"):
        executable.run_arrays_together(X)


# -- failures --------------------------------------------------------------------------------------


def run_two(executable: Any) -> None:
    executable.run_arrays_together(X, executable.device.client.devices()[:2])


def refused(executable: Any, words: str) -> None:
    with pytest.raises(RuntimeFailure, match=words) as error:
        run_two(executable)
    assert "collective" in str(error.value)


@pytest.mark.parametrize(
    ("available", "version", "words"),
    [
        (False, 0, r'NCCL, which CuPy does not find: pip install "nvidia-nccl-cu1\d"'),
        (True, 2804, r"NCCL 2\.8\.4 is too old for programs over several GPUs, which take 2\.10"),
    ],
)
def test_without_nccl(available: bool, version: int, words: str) -> None:
    found = nccl()
    found.available, found.version = available, version
    load_nccl.clear()
    refused(two(), words)


def test_the_doctor_says_which_nccl_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"nvidia-nccl-cu12": "2.25.1"}

    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(communicators, "version", version)
    monkeypatch.setattr(availability, "cupy_is_installed", lambda: True)
    assert dict(report.facts())["nccl"] == "2.25.1 (nvidia-nccl-cu12)"
    installed.clear()
    assert "need it: pip install nvidia-nccl-cu1" in dict(report.facts())["nccl"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (1, "met an error of CUDA"),
        (2, r"%s \(all-reduce\) on cuda:0, cuda:1: NCCL met an error of the system .*NCCL_DEBUG"),
        (99, "reported an error"),
    ],
)
def test_errors_of_nccl_name_the_collective(status: int, words: str) -> None:
    executable = two()
    run_two(executable)
    nccl().failing = status
    refused(executable, words)
    assert nccl().ended == 2  # members may have begun
    run_two(executable)
    assert nccl().made == 4


def test_nccl_that_does_not_start() -> None:
    executable = two()
    nccl().failing = 2
    refused(executable, "first collective on cuda:0, cuda:1: NCCL met an error of the system")
    run_two(executable)


def test_a_device_that_fails_ends_the_wait_of_the_others(gpus: list[Any]) -> None:
    executable = two()
    devices = executable.device.client.devices()[:2]
    given = [on(device, *x) for device, x in zip(devices, X)]
    given[1][0].address += 1 << 30
    with pytest.raises(RuntimeFailure, match="on cuda:1 a kernel accessed memory that is not"):
        executable.execute_together(given, (), devices)
    assert nccl().ended == 2 and devices[1].is_lost and not devices[0].is_lost
    others = executable.device.client.devices()
    executable.run_arrays_together(X, [others[0], others[2]])
    with pytest.raises(RuntimeFailure, match="on cuda:1 a kernel accessed memory"):
        executable.run_arrays_together(X, devices)


def test_what_nccl_meets_meanwhile_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = two()
    run_two(executable)
    monkeypatch.setattr(fake_nccl.Meeting, "arrive", lambda *_: False)
    nccl().met = 6
    with pytest.raises(RuntimeFailure, match="NCCL lost another process or the network"):
        run_two(executable)
    assert nccl().ended == 2


def test_runs_that_take_too_long_end(monkeypatch: pytest.MonkeyPatch) -> None:
    executable = two(collective_timeout=1)
    run_two(executable)
    waits = fake_nccl.Meeting.arrive
    monkeypatch.setattr(fake_nccl.Meeting, "arrive", lambda m, s: m.clique.is_over and waits(m, s))
    clock = iter(range(100))
    monkeypatch.setattr(group_runs.time, "monotonic", lambda: next(clock))
    with pytest.raises(RuntimeFailure, match=r"on cuda:0, cuda:1 is not over after 1 s \(xla_gpu"):
        run_two(executable)
    assert nccl().ended == 2


def test_two_threads_run_programs_on_the_same_devices() -> None:
    client = CudaClient()
    executables, devices = [two(client), two(client)], client.devices()[:2]
    errors: list[BaseException] = []

    def run(executable: Any) -> None:
        try:
            for _ in range(5):
                (first,), _ = executable.run_arrays_together(X, devices)
                np.testing.assert_allclose(first, WANT, rtol=1e-6)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(e,)) for e in executables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and nccl().made == 2
