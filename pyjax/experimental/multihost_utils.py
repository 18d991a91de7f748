"""Exchange between the processes of a program, of values that each has for itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pyjax.core.array import Array
from pyjax.core.dtypes import canonicalize_dtype
from pyjax.core.errors import fail
from pyjax.core.tree_util import (
    tree_broadcast,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_unflatten,
)
from pyjax.parallel.global_arrays import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.devices import process_count, process_index
from pyjax.runtime.placement import device_get, device_put, typeof
from pyjax.runtime.processes import gather
from pyjax.sharding.mesh import Mesh
from pyjax.sharding.partition_spec import PartitionSpec
from pyjax.sharding.shardings import NamedSharding, SingleDeviceSharding
from xla_backend.runtime.processes.gatherings import Part
from xla_backend.runtime.processes.joined import joined


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


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """What process 0 (or the one that says `is_source`) has, in all: NumPy arrays. All processes
    call it, with values of the same shapes and types.

    Raises:
      ValueError: no process is the source, or several are; shapes or types differ.

    >>> broadcast_one_to_all({"a": 3})
    {'a': array(3)}
    """
    leaves, tree = tree_flatten(in_tree)
    gives = process_index() == 0 if is_source is None else is_source
    arrays = [_host_array(x) for x in leaves]
    kinds = _kinds(arrays)
    parts = _gather("broadcast_one_to_all", (kinds, bool(gives)), arrays if gives else [])
    sources = [n for n, part in enumerate(parts) if part.label[1]]
    if len(sources) != 1:
        fail(
            ValueError,
            f"broadcast_one_to_all: {len(sources)} of {len(parts)} processes are the source.",
            "all get what one has",
            "Leave is_source out, or say True in one process.",
        )
    _check_kinds("broadcast_one_to_all", kinds, [part.label[0] for part in parts])
    if len(parts) == 1:
        return tree_unflatten(tree, [np.asarray(device_get(x)) for x in leaves])
    return tree_unflatten(tree, _read(parts[sources[0]], arrays))


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes: along a new first axis, or with `tiled` along the first one;
    of arrays over all processes the whole value. NumPy arrays. All processes call it, with values
    of the same shapes and types.

    Raises:
      ValueError: shapes or types differ; or an array over several processes, without `tiled`.

    >>> process_allgather(np.arange(2)).shape
    (1, 2)
    """
    leaves, tree = tree_flatten(in_tree)
    whole = {n: _whole(x, tiled) for n, x in enumerate(leaves) if _lies_elsewhere(x)}
    arrays = [_host_array(x) for n, x in enumerate(leaves) if n not in whole]
    kinds = _kinds(arrays)
    parts = _gather("process_allgather", kinds, arrays)
    _check_kinds("process_allgather", kinds, [part.label for part in parts])
    of_leaves = zip(*[_read(part, arrays) for part in parts])
    together = [
        np.concatenate(values) if tiled and values[0].ndim else np.stack(values)
        for values in of_leaves
    ]
    gathered = iter(together)
    found = [whole[n] if n in whole else next(gathered) for n in range(len(leaves))]
    return tree_unflatten(tree, found)


def _gather(name: str, label: Any, arrays: Sequence[np.ndarray], argument: str = "") -> list[Part]:
    """For the function of this name; its argument is for messages."""
    kind = f"multihost_utils.{name}"
    if process_count() == 1:
        return [Part(label, np.zeros(0, np.uint8), kind)]
    return gather(label, arrays, kind, f"{kind}({argument})" if argument else kind)


def _host_array(x: Any) -> np.ndarray:
    """A value with the type that arrays have, in memory in one piece; of one process as it is."""
    value = np.asarray(device_get(x))
    if process_count() == 1:
        return value
    return np.asarray(value, canonicalize_dtype(value.dtype), order="C")


def _kinds(arrays: Sequence[np.ndarray]) -> tuple[Any, ...]:
    return tuple((x.dtype.name, x.shape) for x in arrays)


def _check_kinds(name: str, own: Any, all_kinds: Sequence[Any]) -> None:
    for process, kinds in enumerate(all_kinds):
        if kinds != own:
            texts = [
                ", ".join(f"{dtype}{list(shape)}" for dtype, shape in of) or "nothing"
                for of in (kinds, own)
            ]
            fail(
                ValueError,
                f"{name}: process {process} has {texts[0]}, and process {process_index()} "
                f"{texts[1]}",
                "values that processes exchange have the same shapes and types",
                "call it in all processes, in the same order, with the same kinds of values",
            )


def _read(part: Part, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays that a process gave, whose shapes and types are these."""
    return list(like) if process_count() == 1 else part.arrays([(x.dtype, x.shape) for x in like])


def _lies_elsewhere(x: Any) -> bool:
    return isinstance(x, Array) and not x.is_fully_addressable


def _whole(x: Any, tiled: bool) -> np.ndarray:
    """An array over several processes."""
    if not tiled:
        fail(
            ValueError,
            "Gathering global non-fully-addressable arrays only supports tiled=True",
            f"{typeof(x)} lies over the devices of several processes: it has no value of each",
            "process_allgather(x, tiled=True) gives the whole array",
        )
    everywhere = NamedSharding(x.sharding.mesh, PartitionSpec())
    return np.asarray(device_put(x, everywhere))


def sync_global_devices(name: str) -> None:
    """Wait until all processes are here.

    Raises:
      AssertionError: another one waits at a place of another name.

    >>> sync_global_devices("checkpoint written")
    """
    parts = _gather("sync_global_devices", name, [], repr(name))
    for process, part in enumerate(parts):
        if part.label != name:
            fail(
                AssertionError,
                f"sync_global_devices name mismatch ('{name}'): process {process} is at "
                f"{part.label}",
                "all processes wait at the same places, in the same order",
                "give the place the same name in all of them",
            )


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have the same values.

    Raises:
      AssertionError: one has others than process 0.

    >>> assert_equal({"step": 3})
    """
    expected = tree_leaves(broadcast_one_to_all(in_tree))
    for x, y in zip(tree_leaves(in_tree), expected):
        mine = _host_array(x)
        if not np.array_equal(mine, y, equal_nan=np.asarray(y).dtype.kind in "fc"):
            raise AssertionError(f"{fail_message} Expected: {y}; got: {x}.")


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the program is to save its state at this step, because a process will be ended.
    Nothing announces that here.

    >>> reached_preemption_sync_point(3)
    False
    """
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
    shared = joined()
    alive = [d for d in devices if shared is None or d.process_index not in shared.world.ended]
    yield alive
    if shared is None:
        return
    failed = [d for d in alive if d.process_index in shared.world.ended]
    if failed:
        raise ProcessFailureError(failed)


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over the devices of a mesh, of which each process has its part.

    Args:
      local_inputs: pytree of arrays.   pspecs: a pytree prefix of PartitionSpec.

    >>> import pyjax
    >>> mesh = pyjax.make_mesh((1,), ("i",))
    >>> host_local_array_to_global_array(np.arange(2.0), mesh, pyjax.P("i")).sharding.spec
    P('i',)
    """
    specs = tree_broadcast(pspecs, local_inputs, is_leaf=_is_spec)
    return tree_map(
        lambda x, spec: make_array_from_process_local_data(
            NamedSharding(global_mesh, spec or PartitionSpec()), device_get(x)
        ),
        local_inputs,
        specs,
    )


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The part of arrays that this process has: over its devices of the mesh, or, where it has all
    of them, on the first.

    >>> import pyjax
    >>> mesh = pyjax.make_mesh((1,), ("i",))
    >>> x = host_local_array_to_global_array(np.arange(2.0), mesh, pyjax.P("i"))
    >>> global_array_to_host_local_array(x, mesh, pyjax.P("i")).tolist()
    [0.0, 1.0]
    """
    specs = tree_broadcast(pspecs, global_inputs, is_leaf=_is_spec)

    def local(x: Any, spec: PartitionSpec | None) -> Any:
        if not global_mesh.is_multi_process:
            over = x.sharding.addressable_devices if type(x) is DeviceArray else None
            device = min(over or global_mesh.devices.flat, key=lambda d: d.id)
            return device_put(device_get(x), SingleDeviceSharding(device))
        spec = spec or PartitionSpec()
        whole = device_put(x, NamedSharding(global_mesh, spec))
        shards = whole.addressable_shards
        own = NamedSharding(global_mesh.local_mesh, spec)
        shape = [
            sum(stop - start for start, stop in {s.index[d].indices(size)[:2] for s in shards})
            for d, size in enumerate(whole.shape)
        ]
        return make_array_from_single_device_arrays(shape, own, [s.data for s in shards])

    return tree_map(local, global_inputs, specs)


def _is_spec(x: Any) -> bool:
    return x is None or isinstance(x, PartitionSpec)
