"""Exchange between the processes of a program. There is one process: it has what all have."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pyjax.core.errors import fail
from pyjax.core.tree_util import tree_broadcast, tree_leaves, tree_map
from pyjax.parallel.global_arrays import make_array_from_process_local_data
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.devices import process_count, process_index
from pyjax.runtime.placement import device_get, device_put
from pyjax.sharding.mesh import Mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding, SingleDeviceSharding


class ProcessFailureError(RuntimeError):
    """Processes of the program have failed.

    Attributes:
      failed_devices: those of these processes.

    >>> len(ProcessFailureError(pyjax.devices()).failed_devices) == len(pyjax.devices())
    True
    """

    def __init__(self, failed_devices: Sequence[Any]) -> None:
        super().__init__(f"the processes of {list(failed_devices)} have failed")
        self.failed_devices = failed_devices


def _alone(name: str) -> None:
    if process_count() > 1:
        fail(
            NotImplementedError,
            f"multihost_utils.{name} in a program of {process_count()} processes.",
            "this library has no exchange between processes yet",
            "Run one process with several devices (jax_num_cpu_devices).",
        )


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """What process 0 (or the one that says `is_source`) has, in all: NumPy arrays.

    >>> broadcast_one_to_all({"a": 3})
    {'a': array(3)}
    """
    _alone("broadcast_one_to_all")
    if is_source is False and process_index() == 0:
        fail(
            ValueError,
            "broadcast_one_to_all: this process is not the source, and there is no other.",
            fix="Leave is_source out, or say True in one process.",
        )
    return tree_map(np.asarray, device_get(in_tree))


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes: along a new first axis, or with `tiled` along the first one;
    of arrays over all processes the whole value. NumPy arrays.

    >>> process_allgather(np.arange(2)).shape
    (1, 2)
    """
    _alone("process_allgather")

    def gather(x: Any) -> np.ndarray:
        value = np.asarray(device_get(x))
        return value if tiled and value.ndim else value[None]

    return tree_map(gather, in_tree)


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here.

    Raises:
      ValueError: another one waits at a place of another name.

    >>> sync_global_devices("checkpoint written")
    """
    assert_equal(zlib.crc32(name.encode()), f"sync_global_devices name mismatch ('{name}')")


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have the same values.

    Raises:
      AssertionError: one has others.

    >>> assert_equal({"step": 3})
    """
    expected = tree_leaves(broadcast_one_to_all(in_tree))
    for x, y in zip(tree_leaves(in_tree), expected):
        if not np.array_equal(np.asarray(x), y, equal_nan=np.asarray(y).dtype.kind in "fc"):
            raise AssertionError(f"{fail_message} Expected: {y}; got: {x}.")


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the program is to save its state at this step, because a process will be ended.
    Nothing announces that here.

    >>> reached_preemption_sync_point(3)
    False
    """
    _alone("reached_preemption_sync_point")
    return False


@contextmanager
def live_devices(devices: Sequence[Any]) -> Iterator[list[Any]]:
    """Context manager: those of the devices whose processes run.

    Raises:
      ProcessFailureError: at its end, if one has failed meanwhile.

    >>> with live_devices(pyjax.devices()) as alive:
    ...     len(alive) == len(pyjax.devices())
    True
    """
    _alone("live_devices")
    yield list(devices)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over the devices of a mesh, of which each process has its part.

    Args:
      local_inputs: pytree of arrays.   pspecs: a pytree prefix of PartitionSpec.

    >>> import pyjax
    >>> mesh = pyjax.make_mesh((1,), ("i",))
    >>> host_local_array_to_global_array(np.arange(2.0), mesh, pyjax.P("i")).sharding.spec
    P('i',)
    """
    _alone("host_local_array_to_global_array")
    specs = tree_broadcast(pspecs, local_inputs, is_leaf=_is_spec)
    return tree_map(
        lambda x, spec: make_array_from_process_local_data(
            NamedSharding(global_mesh, spec or PartitionSpec()), device_get(x)
        ),
        local_inputs,
        specs,
    )


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The part of arrays that this process has, on its first device.

    >>> import pyjax
    >>> mesh = pyjax.make_mesh((1,), ("i",))
    >>> x = host_local_array_to_global_array(np.arange(2.0), mesh, pyjax.P("i"))
    >>> global_array_to_host_local_array(x, mesh, pyjax.P("i")).tolist()
    [0.0, 1.0]
    """
    _alone("global_array_to_host_local_array")
    tree_broadcast(pspecs, global_inputs, is_leaf=_is_spec)

    def local(x: Any) -> Any:
        place = (
            x.sharding.addressable_devices if type(x) is DeviceArray else global_mesh.devices.flat
        )
        device = min(place, key=lambda d: d.id)
        return device_put(device_get(x), SingleDeviceSharding(device))

    return tree_map(local, global_inputs)


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)
