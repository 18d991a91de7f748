"""Joining a program of several processes: what one process can check."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyjax._config import options

import pyjax
import pyjax.numpy as jnp
from pyjax import distributed
from xla_backend.targets.mock_gpu import MockClient


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No device was used yet."""
    monkeypatch.setattr(distributed, "are_initialised", lambda: False)
    yield
    distributed.shutdown()


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ((), ValueError, "coordinator_address, num_processes and process_id"),
        (("localhost:1", 2), ValueError, "process_id"),
        (("localhost:1", 2, 2), ValueError, "process_id 2 of 2 processes"),
        (("localhost:1", 2, 0), NotImplementedError, "a program of 2 processes"),
    ],
)
def test_bad_calls(arguments: Any, error: type[Exception], text: str, fresh: None) -> None:
    with pytest.raises(error, match=text):
        distributed.initialize(*arguments)
    assert not distributed.is_initialized()


def test_once_and_again(fresh: None) -> None:
    distributed.initialize("localhost:1", 1, 0)
    assert distributed.is_initialized()
    with pytest.raises(RuntimeError, match=r"(?s)called once.*shutdown"):
        distributed.initialize("localhost:1", 1, 0)
    distributed.shutdown()
    distributed.initialize("localhost:1", 1, 0)


def test_before_any_device() -> None:
    pyjax.devices()
    with pytest.raises(RuntimeError, match="before any device is used"):
        distributed.initialize("localhost:1", 1, 0)


def test_processes_of_devices() -> None:
    assert pyjax.process_count() == 1 and pyjax.process_indices() == [0]
    assert pyjax.local_devices(0) == pyjax.local_devices() == pyjax.devices()
    with pytest.raises(ValueError, match="unknown process_index 3: the processes are 0"):
        pyjax.local_devices(3)


# -- what MPI knows --------------------------------------------------------------------------------


@pytest.fixture
def mpi(fresh: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, int], None]]:
    """Says how large MPI's world is, and who this is in it; nothing is there before."""
    monkeypatch.setitem(sys.modules, "mpi4py", None)

    def world_of(size: int, rank: int) -> None:
        world = SimpleNamespace(Get_size=lambda: size, Get_rank=lambda: rank)
        monkeypatch.setitem(sys.modules, "mpi4py", ModuleType("mpi4py"))
        module = SimpleNamespace(COMM_WORLD=world, Get_library_version=lambda: "MPI 1\nof 1994")
        monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)

    pyjax.config.update("jax_cpu_collectives_implementation", "mpi")
    yield world_of
    pyjax.config.update("jax_cpu_collectives_implementation", "gloo")


def test_numbers_of_mpi(mpi: Callable[[int, int], None]) -> None:
    mpi(1, 0)
    distributed.initialize()
    assert distributed.is_initialized()
    distributed.shutdown()
    distributed.initialize("localhost:1", 1, 0)  # what the caller knows, too
    assert distributed.is_initialized()


@pytest.mark.parametrize(
    "world, arguments, error, text",
    [
        ((1, 0), {"num_processes": 2}, ValueError, "num_processes is 2, and 1 according to MPI"),
        ((4, 3), {"process_id": 0}, ValueError, "process_id is 0, and 3 according to MPI"),
    ],
)
def test_worlds_that_do_not_fit(
    world: tuple[int, int],
    arguments: dict[str, int],
    error: type[Exception],
    text: str,
    mpi: Callable[[int, int], None],
) -> None:
    mpi(*world)
    with pytest.raises(error, match=text):
        distributed.initialize(**arguments)
    assert not distributed.is_initialized()


@pytest.mark.parametrize(
    "variables, method, world, error, text",
    [
        ({"OMPI_COMM_WORLD_SIZE": "4"}, None, (1, 0), RuntimeError, "Open MPI has started 4 proc"),
        ({"SLURM_STEP_NUM_TASKS": "2"}, "slurm", (1, 0), RuntimeError, "Slurm has started 2"),
        ({"PMI_SIZE": "2"}, "ompi", (1, 0), ValueError, "'ompi' finds nothing"),
        ({}, "k8s", (1, 0), ValueError, "these are known: 'mpi4py', 'deactivate', 'ompi'"),
        ({"PMI_SIZE": "1"}, None, (1, 0), None, ""),
        ({"PMI_SIZE": "1"}, "deactivate", (1, 0), ValueError, "needs coordinator_address"),
        ({}, "mpi4py", (1, 0), None, ""),
    ],
)
def test_launchers(
    variables: dict[str, str],
    method: str | None,
    world: tuple[int, int],
    error: type[Exception] | None,
    text: str,
    mpi: Callable[[int, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the environment says, with the default engine."""
    mpi(*world)
    pyjax.config.update("jax_cpu_collectives_implementation", "gloo")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if error is None:
        distributed.initialize(cluster_detection_method=method)
        assert distributed.is_initialized()
        return
    with pytest.raises(error, match=text):
        distributed.initialize(cluster_detection_method=method)
    assert not distributed.is_initialized()


def test_without_mpi(
    mpi: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Either package or library may be missing."""
    with pytest.raises(ImportError, match=r"(?s)cannot ask MPI.*mpi4py.*pyjax\[mpi\]"):
        distributed.initialize()
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").touch()
    code = "raise RuntimeError('cannot load MPI library')"
    (tmp_path / "mpi4py" / "MPI.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mpi4py")
    with pytest.raises(ImportError, match="cannot ask MPI: cannot load MPI library"):
        distributed.initialize("localhost:1", 1, 0)
    assert not distributed.is_initialized()
    sys.modules.pop("mpi4py")


def test_no_engine(fresh: None) -> None:
    with pytest.raises(ValueError, match=r"one of 'gloo', 'mpi', 'megascale'"):
        pyjax.config.update("jax_cpu_collectives_implementation", "nccl")
    pyjax.config.update("jax_cpu_collectives_implementation", None)
    try:
        distributed.initialize("localhost:1", 1, 0)
    finally:
        pyjax.config.update("jax_cpu_collectives_implementation", "gloo")


# -- arrays without a part here --------------------------------------------------------------------


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> pyjax.sharding.Sharding:
    """A device of another process."""
    (_, device) = MockClient(processes=2, local_devices=[0]).devices()
    return pyjax.sharding.SingleDeviceSharding(device)


def test_shardings_know_what_is_elsewhere(far: pyjax.sharding.Sharding) -> None:
    assert far.addressable_devices == set() and not far.has_addressable_devices
    assert not far.is_fully_addressable and far.addressable_devices_indices_map((3,)) == {}
    here = pyjax.sharding.SingleDeviceSharding(pyjax.devices()[0])
    assert here.is_fully_addressable and here.addressable_devices == {pyjax.devices()[0]}


def test_arrays_elsewhere(far: pyjax.sharding.Sharding) -> None:
    make = pyjax.make_array_from_single_device_arrays
    with options.enable_empty_arrays(True):
        x = make((3, 2), far, [], dtype="int16")
        with pytest.raises(ValueError, match="dtype must be provided"):
            make((3,), far, [])
        with pytest.raises(ValueError, match="Expected 0 per-device arrays, but got 1"):
            make((3,), far, [jnp.ones(3)], dtype="float32")
        here = pyjax.sharding.SingleDeviceSharding(pyjax.devices()[0])
        with pytest.raises(ValueError, match="Expected 1 per-device arrays, but got 0"):
            make((3,), here, [], dtype="float32")
    assert isinstance(x, pyjax.Array)
    assert (x.shape, x.dtype, x.size, x.nbytes, len(x)) == ((3, 2), np.int16, 6, 12, 3)
    assert x.addressable_shards == [] and x.devices() == far.device_set and x.committed
    assert repr(x.block_until_ready()) == "Array(shape=(3, 2), dtype=int16)"
    reads = [np.asarray, pyjax.device_get, lambda x: x.tolist(), lambda x: x.addressable_data(0)]
    reads += [bool, int, float, complex, lambda x: [0][x], lambda x: x.item(), lambda x: x + 1]
    for read in reads:
        with pytest.raises(RuntimeError, match=r"(?s)spans non-addressable.*lies on cuda:1"):
            read(x)
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert not x.is_deleted()
    x.delete()
    assert x.is_deleted()


# -- programs for platforms that are not here ------------------------------------------------------


def test_lowering_for_another_platform() -> None:
    def f(x: Any) -> Any:
        return pyjax.lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos)

    traced = pyjax.jit(f).trace(1.0)
    assert "dense<0> : tensor<i32>" in traced.lower().as_text()
    lowered = traced.lower(lowering_platforms=["cuda"])
    assert "dense<1> : tensor<i32>" in lowered.as_text()
    with pytest.raises(ValueError, match=r"(?s)f was lowered for cuda, and cannot be compiled"):
        lowered.compile()
    with pytest.raises(NotImplementedError, match=r"for cuda and cpu.*\n.*\n.*\n.*on its own"):
        traced.lower(lowering_platforms=("cuda", "cpu"))
    assert traced.lower(lowering_platforms=("cpu",)).compile()(1.0) == jnp.sin(1.0)
