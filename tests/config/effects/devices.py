"""Options that choose devices and distribute work."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from tests.config.effects.observe import error_of, records_of, warnings_of
from tests.config.effects.table import effect, inert, waits
from tests.first_code import made_by, stand_in
from tests.pyjax import toy_platform
from tests.xla_backend.targets.gpu import fake_cupy
from xla_backend.runtime.processes.joined import Joined, set_joined

inert("jax_rocm_visible_devices", "0", "pyjax has no AMD runtime")
waits(
    "jax_bcoo_cusparse_lowering",
    True,
    "sparse products are gathers and scatters, which call no vendor's library",
)


@effect("jax_platforms", "interpreter", default="cpu", changed="interpreter", at_start=True)
@effect("jax_platform_name", "interpreter", default="cpu", changed="interpreter", at_start=True)
@effect("jax_xla_backend", "interpreter", default="cpu", changed="interpreter", at_start=True)
def platform() -> str:
    return (jnp.arange(3) * 2).device.platform


@effect(
    "jax_platforms",
    "abacus",
    default="",
    changed=re.compile(r"^RuntimeError: unknown platform 'abacus' in jax_platforms"),
    at_start=True,
)
def platforms_unknown() -> str:
    return error_of(lambda: jnp.arange(3))


@effect("jax_num_cpu_devices", 3, default=[0], changed=[0, 1, 2], at_start=True)
def num_cpu_devices() -> list[int]:
    """Devices that arrays can be put on and computed with."""
    found = [pyjax.device_put(jnp.ones(2), device) + 1 for device in pyjax.devices()]
    assert [x.tolist() for x in found] == [[2, 2]] * len(found)
    return [x.device.id for x in found]


@effect(
    "jax_auto_pcast",
    False,
    default="",
    changed=re.compile(
        r"^ValueError: add requires varying manual axes to match, but got .*\n.*lax.pcast",
        re.DOTALL,
    ),
)
def implicit_casts() -> str:
    """What shard_map says to a sum of what varies and what does not."""
    mesh = pyjax.make_mesh((1,), ("x",))
    f = pyjax.shard_map(lambda v: v + 1, mesh=mesh, in_specs=pyjax.P("x"), out_specs=pyjax.P("x"))
    return error_of(
        lambda: f(pyjax.device_put(jnp.ones(2), pyjax.NamedSharding(mesh, pyjax.P("x"))))
    )


@effect(
    "jax_remove_size_one_mesh_axis_from_type",
    True,
    default=["float32[2@x]", "float32[2]{V:x}"],
    changed=["float32[2]", "float32[2]"],
)
def mesh_axis_of_size_one() -> list[str]:
    """Types of an array that it splits, and of a block inside of shard_map."""
    inside = []
    with pyjax.set_mesh(pyjax.make_mesh((1,), ("x",))):
        x = pyjax.device_put(jnp.ones(2), pyjax.P("x"))
        pyjax.shard_map(
            lambda v: inside.append(str(pyjax.typeof(v))), in_specs=pyjax.P("x"), out_specs=None
        )(x)
    return [str(pyjax.typeof(x)), *inside]


@effect("jax_default_device", "interpreter", default="cpu", changed="interpreter")
def default_device() -> str:
    pyjax.config.update("jax_platforms", "cpu,interpreter")
    return (jnp.ones(2) + 1).device.platform


# Each more than what was freed before.
SIZES = itertools.count(64 << 20, 64 << 20)


@pyjax.jit
def turns(x: object, n: object) -> pyjax.Array:
    return lax.fori_loop(0, n, lambda i, c: c + 0.5, x)


@effect("jax_cpu_enable_async_dispatch", False, default=False, changed=True)
def cpu_enable_async_dispatch() -> bool:
    """Whether the result of a long program is there when the call is back."""
    x = turns(jnp.zeros(()), 30_000_000)
    ready = x.is_ready()
    assert float(x) == 2.0**23  # where 0.5 is too little
    return ready


@effect("jax_cpu_memory_limit", 1 << 20, default="", changed=re.compile("^OutOfMemoryError: "))
def cpu_memory_limit() -> str:
    nbytes = next(SIZES)
    return error_of(lambda: jnp.zeros(nbytes, np.uint8).block_until_ready())


def transfers() -> dict[str, Callable[[], object]]:
    """Explicit and implicit transfers in each direction. The toy platform has memory of its own, as
    GPUs have; CPU arrays are read where they are."""
    pyjax.config.update("jax_num_cpu_devices", 2)
    pyjax.config.update("jax_platforms", "cpu,toy")
    if "toy" not in PLATFORMS:
        toy_platform.register()
        PLATFORMS.append("toy")
    with pyjax.transfer_guard("allow"):
        x, second = jnp.arange(3.0), pyjax.devices("cpu")[1]
        there = pyjax.device_put(np.arange(3.0), pyjax.devices("toy")[0])
    return {
        "put": lambda: pyjax.device_put(np.arange(3.0)),
        "operand": lambda: x + np.float32(1.0),
        "move": lambda: pyjax.device_put(x, second),
        "follow": lambda: x + there,
        "get": lambda: pyjax.device_get(there),
        "read": lambda: np.asarray(there),
        "view": lambda: np.asarray(x),
    }


PLATFORMS: list[str] = []


IMPLICIT = ["operand", "follow", "read"]
ALL = ["put", "operand", "move", "follow", "get", "read"]
TO_DEVICE, BETWEEN, TO_HOST = (
    f"jax_transfer_guard_{direction}"
    for direction in ("host_to_device", "device_to_device", "device_to_host")
)


@effect("jax_transfer_guard", "disallow", default=[], changed=IMPLICIT)
@effect("jax_transfer_guard", "disallow_explicit", default=[], changed=ALL)
@effect(TO_DEVICE, "disallow", default=[], changed=["operand"])
@effect(TO_DEVICE, "disallow_explicit", default=[], changed=["put", "operand"])
@effect(BETWEEN, "disallow", default=[], changed=["follow"])
@effect(BETWEEN, "disallow_explicit", default=[], changed=["move", "follow"])
@effect(TO_HOST, "disallow", default=[], changed=["read"])
@effect(TO_HOST, "disallow_explicit", default=[], changed=["get", "read"])
def refused() -> list[str]:
    return [name for name, move in transfers().items() if "Disallowed" in error_of(move)]


@effect("jax_transfer_guard", "log", default=[], changed=IMPLICIT)
@effect("jax_transfer_guard", "log_explicit", default=[], changed=ALL)
def logged() -> list[str]:
    return [name for name, move in transfers().items() if "transfer of" in records_of(move)]


# More than any machine's own number.
ONE_MORE = (os.cpu_count() or 1) + 1


def threads_started() -> int:
    """How many threads large loops start."""
    # A program that its caller does not wait for has a thread of its own.
    pyjax.config.update("jax_cpu_enable_async_dispatch", False)
    tasks = "/proc/self/task"
    before = len(os.listdir(tasks))
    # Large programs are compiled for their shapes, with loops in parts, at call 5.
    for _ in range(6):
        jnp.sin(jnp.ones((1024, 1024))).block_until_ready()
    return len(os.listdir(tasks)) - before


@effect(
    "jax_num_threads",
    ONE_MORE,
    default=lambda n: 1 <= n < ONE_MORE,
    changed=ONE_MORE,
    ways=("environment", "update", "flag"),
)
def num_threads() -> int:
    """How many threads run loops, in a process that has none yet and nothing left to compile."""
    threads_started()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return 1 + pool.apply(threads_started)


@effect("jax_num_threads", 1, default=True, changed=False, ways=("context",))
def num_threads_of_a_program() -> bool:
    """Whether a program hands blocks to other threads."""
    lowered = pyjax.jit(lambda x: jnp.sin(x) * 2).lower(jnp.ones((1024, 1024)))
    return "@pyjax_parallel_for" in lowered.compile().as_text("llvm")


@effect(
    "jax_backend_target",
    "grpc://elsewhere:8470",
    default="",
    changed=re.compile("^RuntimeError: jax_backend_target='grpc://elsewhere:8470' names a remote"),
    at_start=True,
)
def backend_target() -> str:
    return error_of(lambda: jnp.arange(3))


@effect("jax_pjrt_client_create_options", "device_count:2", default=1, changed=2, at_start=True)
def client_options() -> int:
    return len(pyjax.devices())


@effect(
    "jax_pjrt_client_create_options",
    "wheels:4",
    default="",
    changed=re.compile("^RuntimeError: platform 'cpu' failed to start: .*wheels"),
    at_start=True,
)
def client_options_unknown() -> str:
    return error_of(pyjax.devices)


@effect(
    "jax_pjrt_client_create_options",
    "wheels",
    default="",
    changed=re.compile("^RuntimeError: bad option 'wheels' .*write key:value"),
    at_start=True,
)
def client_options_malformed() -> str:
    return error_of(pyjax.devices)


@effect(
    "jax_mock_gpu_topology",
    "2 x 1 x 2",
    default=[],
    changed=[(0, 0), (0, 1), (1, 0), (1, 1)],
    at_start=True,
)
@effect("mock_num_gpu_processes", 3, default=[], changed=[(0, 0), (1, 0), (2, 0)], at_start=True)
def mock_gpus() -> list[tuple[int, int]]:
    """Process and number on its host of each GPU, of which one has a program lowered for it."""
    if "cuda" in error_of(lambda: pyjax.devices("cuda")):
        return []
    gpus = pyjax.devices("cuda")
    x = pyjax.ShapeDtypeStruct(
        (3,), np.float32, sharding=pyjax.sharding.SingleDeviceSharding(gpus[-1])
    )
    lowered = pyjax.jit(lambda x: x * 2).lower(x)
    assert "stablehlo.multiply" in lowered.as_text()
    assert "mock topology cannot run" in error_of(lowered.compile)
    assert "mock topology cannot hold" in error_of(lambda: pyjax.device_put(1.0, gpus[0]))
    assert pyjax.local_devices(backend="cuda") == [d for d in gpus if d.process_index == 0]
    assert (jnp.arange(3) + 1).device.platform == "cpu"
    return [(gpu.process_index, gpu.local_hardware_id) for gpu in gpus]


@effect(
    "jax_mock_gpu_topology",
    "2x2",
    default="",
    changed=re.compile("^RuntimeError: jax_mock_gpu_topology='2x2' is no topology"),
    at_start=True,
)
def mock_topology_malformed() -> str:
    return error_of(pyjax.devices)


@effect(
    "jax_cuda_visible_devices",
    "3,1",
    default=[(0, 0), (0, 1), (0, 2), (0, 3)],
    changed=[(0, 3), (0, 1)],
    at_start=True,
)
def cuda_visible_devices() -> list[tuple[int, int]]:
    pyjax.config.update("jax_mock_gpu_topology", "1x1x4")
    return mock_gpus()


@effect(
    "jax_cuda_visible_devices",
    "4",
    default="",
    changed=re.compile("^RuntimeError: jax_cuda_visible_devices='4': there is no GPU 4"),
    at_start=True,
)
def cuda_visible_devices_unknown() -> str:
    pyjax.config.update("jax_mock_gpu_topology", "1x1x4")
    return error_of(pyjax.devices)


def gpus() -> list[Any]:
    """Devices of GPUs that a stand-in for CuPy pretends."""
    fake_cupy.install(pytest.MonkeyPatch(), 3)
    pyjax.config.update("jax_platforms", "cpu,cuda")
    return pyjax.devices("gpu")


@effect("jax_cuda_memory_fraction", 0.25, default=1020054732, changed=1 << 28, at_start=True)
def cuda_memory_fraction() -> int:
    """How many bytes of a GPU's GiB may be taken."""
    return gpus()[0].memory_stats()["bytes_limit"]


@effect("jax_cuda_visible_devices", "2,0", default=[0, 1, 2], changed=[2, 0], at_start=True)
def cuda_visible_devices_of_a_machine() -> list[int]:
    return [device.local_hardware_id for device in gpus()]


@effect(
    "jax_cuda_visible_devices",
    "5",
    default="",
    changed=re.compile("^RuntimeError: platform 'cuda' .* failed to start: there is no GPU 5; th"),
    at_start=True,
)
def cuda_visible_devices_not_there() -> str:
    return error_of(gpus)


@effect(
    "jax_check_proxy_envs",
    False,
    default=re.compile("WARNING:.*proxy variables are set: .*HTTPS_PROXY"),
    changed="",
    at_start=True,
)
def check_proxy_envs() -> str:
    os.environ["HTTPS_PROXY"] = "localhost:1"
    return records_of(lambda: pyjax.distributed.initialize("localhost:1234", 1, 0))


def mpi_of(size: int, rank: int) -> None:
    """From now on `mpi4py.MPI` is a world of so many processes."""
    never = types.SimpleNamespace(Test=lambda: False)
    world = types.SimpleNamespace(
        Get_size=lambda: size, Get_rank=lambda: rank, Idup=lambda: (None, never)
    )
    sys.modules["mpi4py"] = types.ModuleType("mpi4py")
    sys.modules["mpi4py.MPI"] = types.SimpleNamespace(COMM_WORLD=world)  # type: ignore[assignment]


TOLD_NOTHING = "ValueError: distributed.initialize needs coordinator_address, num_processes and"


@effect(
    "jax_cpu_collectives_implementation",
    "mpi",
    default=re.compile(TOLD_NOTHING),
    changed="joined",
    at_start=True,
)
def collectives_of_mpi() -> str:
    """Whether a process can join that is told nothing, in MPI's world of one."""
    mpi_of(1, 0)
    error = error_of(pyjax.distributed.initialize)
    return "joined" if pyjax.distributed.is_initialized() else error


@effect(
    "jax_cpu_collectives_implementation",
    "mpi",
    default=re.compile(TOLD_NOTHING),
    changed=re.compile("^RuntimeError: .*process 2 has waited 0.05 s for the other 2 processes"),
    at_start=True,
)
def collectives_of_three() -> str:
    """The others do not come."""
    mpi_of(3, 2)
    return error_of(lambda: pyjax.distributed.initialize(initialization_timeout=0.05))  # type: ignore[arg-type]


@effect(
    "jax_cpu_collectives_implementation",
    "mpi",
    default="",
    changed=re.compile(r"(?s)^ImportError: distributed.initialize cannot ask MPI.*pyjax\[mpi\]"),
    at_start=True,
)
def collectives_without_mpi() -> str:
    sys.modules["mpi4py"] = None  # type: ignore[assignment]
    return error_of(lambda: pyjax.distributed.initialize("localhost:1234", 1, 0))


@effect(
    "jax_cpu_collectives_implementation",
    "megascale",
    default="",
    changed=re.compile("^UserWarning: .*'megascale' has no effect: that engine is not part"),
    at_start=True,
)
def collectives_of_others() -> str:
    return warnings_of(lambda: pyjax.distributed.initialize("localhost:1234", 1, 0))


@effect(
    "jax_cpu_enable_gloo_collectives",
    True,
    default="",
    changed=re.compile("^DeprecationWarning: .*is deprecated: set jax_cpu_collectives_impl"),
    at_start=True,
)
def older_switch() -> str:
    """It wins over the newer option: MPI, which is not there, is not asked."""
    sys.modules["mpi4py"] = None  # type: ignore[assignment]
    pyjax.config.update("jax_cpu_collectives_implementation", "mpi")
    told = warnings_of(lambda: error_of(lambda: pyjax.distributed.initialize("localhost:1", 1, 0)))
    assert pyjax.distributed.is_initialized() == bool(told)
    return told


@effect("jax_cpu_get_global_topology_timeout_minutes", 7, default=300, changed=420, at_start=True)
def patience_for_devices() -> int:
    """Seconds to wait for the other one of two processes, which has come."""
    asked: list[int] = []

    def gather(own: int, kind: str, seconds: int) -> list[Any]:
        asked.append(seconds)
        return [types.SimpleNamespace(label=count) for count in (own, 2)]

    gatherings = types.SimpleNamespace(gather=gather)
    exchanges = types.SimpleNamespace(gatherings=gatherings)
    set_joined(Joined(types.SimpleNamespace(index=0), exchanges, None))
    assert [d.process_index for d in pyjax.devices()] == [0, 1, 1]
    set_joined(None)
    (seconds,) = asked
    return seconds


def far_away() -> pyjax.sharding.Sharding:
    """Where a process other than this one has its only GPU."""
    pyjax.config.update("mock_num_gpu_processes", 2)
    return pyjax.sharding.SingleDeviceSharding(pyjax.devices("cuda")[1])


@effect(
    "jax_enable_empty_arrays",
    True,
    default=re.compile("^ValueError: .* no device of this process.*jax_enable_empty_arrays"),
    changed="float32[3]: [], Fetching value for an array that spans non-addressable devices",
)
def empty_arrays() -> str:
    made: list[pyjax.Array] = []
    make = pyjax.make_array_from_single_device_arrays
    error = error_of(lambda: made.append(make((3,), far_away(), [], dtype=np.float32)))
    if error:
        return error.replace("\n", " ")
    (x,) = made
    assert x.shape == (3,) and not x.is_fully_addressable and x.sharding == far_away()
    refused = error_of(lambda: np.asarray(x)).split(": ")[1].split(" is not")[0]
    return f"{x.aval.str_short(short_dtypes=False)}: {x.addressable_shards}, {refused}"


@effect(
    "jax_distributed_debug",
    True,
    default="",
    changed=re.compile(
        r"(?s)WARNING:.*Initialized backend cpu: process 0.*WARNING:.*Running jitted function "
        r"double: process 0, device cpu:0, arguments float32\[3\]"
    ),
    at_start=True,
)
def distributed_debug() -> str:
    def double(x: pyjax.Array) -> pyjax.Array:
        return x * 2

    return records_of(lambda: pyjax.jit(double)(np.ones(3, np.float32)))


@effect(
    "jax_use_magma",
    "on",
    default="",
    changed=re.compile("^RuntimeError: eig: the MAGMA library was not found"),
)
def use_magma() -> str:
    return error_of(lambda: pyjax.lax.linalg.eig(jnp.eye(2)))


@effect(
    "jax_disallow_mesh_context_manager",
    True,
    default="",
    changed=re.compile("^RuntimeError: the mesh context manager is disabled(?s:.*)set_mesh"),
)
def disallow_mesh_context_manager() -> str:
    mesh = pyjax.make_mesh((1,), ("x",))

    def enter() -> None:
        with mesh:
            pass

    with pyjax.set_mesh(mesh):  # as ever
        pass
    return error_of(enter)


@effect(
    "jax_pmap_shmap_merge",
    True,
    default=(["reduce_sum"], False, [[6.0, 8.0]]),
    changed=(["shard_map"], True, [[6.0, 8.0]]),
)
def pmap_shmap_merge() -> tuple[list[str], bool, list[Any]]:
    """The first operation of a program with pmap, what its HLO calls, and what it computes."""
    device = pyjax.devices()[0]
    mapped = pyjax.pmap(lambda x: 2 * lax.psum(x, "i"), "i", devices=[device])
    x = jnp.array([[3.0, 4.0]])
    (call,) = pyjax.make_jaxpr(mapped)(x).eqns
    first = [eqn.primitive.name for eqn in call.params["jaxpr"].eqns][:1]
    return first, "shmap_body" in mapped.lower(x).as_text("hlo"), mapped(x).tolist()


@effect(
    "jax_pmap_no_rank_reduction",
    False,
    default=((1, 2), (1, 2), [[3.0, 4.0]]),
    changed=((2,), (2,), [3.0, 4.0]),
)
def pmap_no_rank_reduction() -> tuple[tuple[int, ...], tuple[int, ...], list[Any]]:
    """The shape of the part of a result that is on its device, as it says and as it is."""
    mapped = pyjax.pmap(lambda x: 2 * x, devices=pyjax.devices()[:1])
    result = mapped(jnp.array([[1.5, 2.0]]))
    (part,) = result.addressable_shards
    assert result.shape == (1, 2) and (result + 0).sharding.shard_shape((1, 2)) == (1, 2)
    return result.sharding.shard_shape(result.shape), part.data.shape, part.data.tolist()


@effect("jax_first_code", False, default=True, changed=False)
def programs_on_first_code() -> bool:
    """Whether a program runs before its optimised code is there."""
    made: list[object] = []
    with made_by(lambda program, *how: made.append(program) or stand_in(program, *how)):
        pyjax.jit(lambda x: jnp.sin(x).cumsum() * random.random())(np.arange(3.0))
    return bool(made)


@effect("jax_native_dispatch", False, default=0, changed=lambda n: n > 0)
def native_dispatch() -> int:
    """Functions of Python that a known call runs through."""
    add, x = pyjax.jit(lambda a: a + 1), jnp.ones(4)
    entered = []
    for _ in range(3):
        add(x)
    sys.setprofile(lambda frame, event, argument: event == "call" and entered.append(frame))
    try:
        add(x)
    finally:
        sys.setprofile(None)
    return len(entered)
