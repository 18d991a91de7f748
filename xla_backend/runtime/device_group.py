"""Several devices as one: arrays that are cut into parts, and programs that run on all of them.

  group = device_group(devices)             # the one object of these devices, in this order
  kind = group.parts_kind(shape, dtype, indices)        # of each device which part it has
  executable = group.client.compile(module, options)    # a module of `num_partitions` devices

To those above, a group is a device, an array over its devices has one buffer, and a program one
call: what is done for each part is done here. Devices may be of several processes: then each of
these has the parts of its own devices, and runs their share of the program.
"""

from __future__ import annotations

import ctypes
import pickle
import weakref
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.sharding import Sharding, parse_sharding
from xla_backend.process.bounded_cache import InternTable
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.buffer import Buffer, BufferKind
from xla_backend.runtime.client import AbstractClient, Device, ExecutionContext, LoadedExecutable
from xla_backend.runtime.group_queue import group_queue
from xla_backend.runtime.host_buffer import HostBufferKind, memory_view
from xla_backend.runtime.pending import Job, Origin

_module_from_proto = on_first_use("xla_backend.hlo.proto", "module_from_proto")
_module_to_proto = on_first_use("xla_backend.hlo.proto", "module_to_proto")

Index = tuple[slice, ...]
# Of a program's parameters, and of its results.
Partition = tuple[Sequence[Sharding], Sequence[Sharding]]


class Elsewhere(RuntimeError):
    """Parts of an array are on devices of other processes."""


def _nothing() -> None:
    return None


# As many bytes are put together once for as long as the parts live; more, while somebody has them.
_KEPT_BYTES = 1 << 16


class Parts(Buffer):
    """The memory of an array on each device of a group that is in this process, in their order.

    `views`: what an array has made of it, which goes with it (`DeviceArray.addressable_shards`).
    `whole`: the array of the host that they were put together to; calling it gives that, or None
    where it was large and nobody has it any more.
    """

    __slots__ = ("buffers", "views", "whole")

    def __init__(self, buffers: tuple[Buffer, ...]) -> None:
        self.buffers = buffers
        self.views: Any = None
        self.whole: Callable[[], np.ndarray | None] = _nothing


class PartsKind(BufferKind):
    """Buffers of arrays that are cut into equal parts.

    Attributes:
      indices: of each device in this process the part that it has, as an index of the whole array.
      kinds: of these parts.
      has_all: whether this process has each element.
      is_on_host: whether all devices are here, and the host reads and writes their memory.
    """

    __slots__ = (
        "_devices",
        "_firsts",
        "_offsets",
        "_sources",
        "dlpack_device",
        "has_all",
        "indices",
        "is_on_host",
        "kinds",
    )

    def __init__(
        self,
        dimensions: tuple[int, ...],
        numpy_dtype: np.dtype,
        devices: Sequence[Device],
        indices: Sequence[Index],
    ) -> None:
        super().__init__(dimensions, numpy_dtype)
        here = [(d, index) for d, index in zip(devices, indices) if d.is_here]
        self._devices = [device for device, _ in here]
        self.indices = tuple(_bounds(index, dimensions) for _, index in here)
        self.kinds = tuple(
            device.client.buffer_kind(
                device, tuple(stop - start for start, stop in bounds), numpy_dtype
            )
            for device, bounds in zip(self._devices, self.indices)
        )
        if self.kinds:
            self.dlpack_device = self.kinds[0].dlpack_device
        everything = {_bounds(index, dimensions) for index in indices}
        self.has_all = len(here) == len(devices) or everything == {*self.indices}
        self.is_on_host = len(here) == len(devices) and all(
            isinstance(kind, HostBufferKind) for kind in self.kinds
        )
        # Devices that have the same part, and memory in common, share it: of each device the number
        # of the first such one.
        first: dict[tuple[object, ...], int] = {}
        self._sources = tuple(
            first.setdefault((bounds, device.client.shared_memory or device), number)
            for number, (device, bounds) in enumerate(zip(self._devices, self.indices))
        )
        self._firsts: tuple[tuple[int, Bounds, Any], ...] = tuple(
            (n, self.indices[n], self.kinds[n]) for n in {*self._sources}
        )
        # Where parts begin in the whole, if each is one piece of it, in memory of the host.
        offsets = [_offset(bounds, dimensions, numpy_dtype) for _, bounds, _ in self._firsts]
        pieces = None not in offsets and all(isinstance(k, HostBufferKind) for k in self.kinds)
        self._offsets: Any = tuple(offsets) if pieces else None

    def of(self, made: Callable[[Bounds, BufferKind], Buffer]) -> Parts:
        """A buffer of parts, each made once."""
        parts = {number: made(bounds, kind) for number, bounds, kind in self._firsts}
        return Parts(tuple([parts[number] for number in self._sources]))

    def from_host(self, array: np.ndarray) -> Parts:
        array = np.asarray(array)
        if (
            self._offsets is not None
            and array.dtype is self.numpy_dtype
            and array.flags.c_contiguous
            and array.shape == self.dimensions
        ):
            return self._of_pieces(array)
        # An array, if it has no dimensions, too.
        return self.of(lambda bounds, kind: kind.from_host(array[(*_slices(bounds), ...)]))

    def _of_pieces(self, array: np.ndarray) -> Parts:
        start = array.__array_interface__["data"][0]
        parts: dict[int, Buffer] = {}
        for (number, _, kind), offset in zip(self._firsts, self._offsets):
            parts[number] = block = kind.allocate()
            ctypes.memmove(block, start + offset, kind.nbytes)
        return Parts(tuple([parts[number] for number in self._sources]))

    def cut_as(self, kind: BufferKind, buffer: Parts) -> Buffer:
        """The same array in buffers of another kind, of which this process reads each element."""
        have = [(bounds, own.to_host(buffer.buffers[n])) for n, bounds, own in self._firsts]
        if isinstance(kind, PartsKind):
            return kind.of(lambda bounds, own: _gathered(bounds, own, have))
        return _gathered(_bounds((), self.dimensions), kind, have)

    def to_host(self, buffer: Buffer) -> np.ndarray:
        """
        Raises:
          Elsewhere: devices of other processes have what no device of this one has.
        """
        assert isinstance(buffer, Parts)
        if not self.has_all:
            raise Elsewhere
        if self.kinds[0].dimensions == self.dimensions:
            return self.kinds[0].to_host(buffer.buffers[0])
        whole = buffer.whole()
        if whole is not None:
            return whole
        whole = np.empty(self.dimensions, self.numpy_dtype)
        if self._offsets is None:
            for number, bounds, kind in self._firsts:
                whole[_slices(bounds)] = kind.to_host(buffer.buffers[number])
        else:
            start = whole.__array_interface__["data"][0]
            for (number, _, kind), offset in zip(self._firsts, self._offsets):
                part: Any = buffer.buffers[number]
                ctypes.memmove(start + offset, part, kind.nbytes)
        whole.flags.writeable = False
        buffer.whole = (lambda: whole) if self.nbytes <= _KEPT_BYTES else weakref.ref(whole)
        return whole

    def copy(self, buffer: Buffer) -> Parts:
        """Another buffer with the same parts."""
        assert isinstance(buffer, Parts)
        parts = zip(self.kinds, buffer.buffers)
        return Parts(tuple(kind.from_host(kind.to_host(part)) for kind, part in parts))

    def wait(self, buffer: Buffer) -> None:
        assert isinstance(buffer, Parts)
        for kind, part in zip(self.kinds, buffer.buffers):
            kind.wait(part)

    def is_ready(self, buffer: Buffer) -> bool:
        assert isinstance(buffer, Parts)
        return all(kind.is_ready(part) for kind, part in zip(self.kinds, buffer.buffers))


Bounds = tuple[tuple[int, int], ...]


def _bounds(index: Index, dimensions: Sequence[int]) -> Bounds:
    """First and last of each dimension; those that the index lacks are whole."""
    bounds = [part.indices(size)[:2] for part, size in zip(index, dimensions)]
    return (*bounds, *[(0, size) for size in dimensions[len(index) :]])


def _offset(bounds: Bounds, dimensions: Sequence[int], dtype: np.dtype) -> int | None:
    """Where a part begins in an array in row-major order, in bytes; None: it is several pieces."""
    cut = [d for d, (start, stop) in enumerate(bounds) if stop - start < dimensions[d]]
    if cut and any(stop - start != 1 for start, stop in bounds[: cut[-1]]):
        return None
    offset = 0
    for (start, _), size in zip(bounds, dimensions):
        offset = offset * size + start
    return offset * dtype.itemsize


def _slices(bounds: Bounds) -> Any:
    return tuple([slice(start, stop) for start, stop in bounds])


def _gathered(bounds: Bounds, kind: BufferKind, have: list[tuple[Bounds, np.ndarray]]) -> Buffer:
    """A buffer with a part of an array, of the parts that there are."""
    for other, part in have:
        if all(a <= c and d <= b for (a, b), (c, d) in zip(other, bounds)):
            inside: Any = [slice(c - a, d - a) for (a, _), (c, d) in zip(other, bounds)]
            return kind.from_host(part[(*inside, ...)])
    assert isinstance(kind, HostBufferKind)
    block = kind.allocate()
    whole = memory_view(block, kind.dimensions, kind.numpy_dtype, None)
    for other, part in have:
        common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(other, bounds)]
        if any(start >= stop for start, stop in common):
            continue
        there = tuple([slice(c - a, d - a) for (a, _), (c, d) in zip(other, common)])
        here = tuple([slice(c - a, d - a) for (a, _), (c, d) in zip(bounds, common)])
        whole[here] = part[there]
    return block


class GroupExecutable(LoadedExecutable):
    """A program that all devices of a group run together.

    Attributes:
      partition: how its arguments and results are cut.
      local: the program of each of them.
    """

    uses_context = False

    def __init__(self, local: LoadedExecutable, partition: Partition, group: DeviceGroup) -> None:
        self.local = local
        self.partition = partition
        self.parameter_shapes = local.parameter_shapes
        self.output_shapes = local.output_shapes
        self.device = group
        self.aliases = local.aliases
        self.held_bytes = local.held_bytes
        self.temp_size = local.temp_size
        self.code_bytes = local.code_bytes
        self._devices = group.devices
        self._here = len(group.here)
        # Programs of several processes are begun in one order, at once.
        self.seconds = local.seconds if group.here == group.devices else 0.0

    @property
    def module(self) -> HloModule:  # type: ignore[override]
        """Made when somebody asks, where the code comes from disk."""
        return self.local.module

    def execute(
        self, arguments: list[Buffer], donated: Container[int], context: ExecutionContext
    ) -> list[Buffer]:
        own = self._parts(arguments, donated)
        if not own:
            return [Parts(()) for _ in self.output_shapes]
        results = self.local.execute_together(own, donated, self._devices)
        return [Parts(buffers) for buffers in zip(*results)]

    def _parts(self, arguments: list[Any], donated: Container[int]) -> list[list[Buffer]]:
        """The arguments of each participant here; those that are donated leave the list."""
        own = [[whole.buffers[d] for whole in arguments] for d in range(self._here)]
        for number in range(len(arguments)):
            if number in donated:
                arguments[number] = None
        return own

    def start(
        self,
        arguments: list[Any],
        donated: Container[int],
        context: ExecutionContext,
        after: Sequence[Job],
        origin: Origin,
    ) -> tuple[list[Buffer], Job | None] | None:
        if not self.seconds or not group_queue().takes(after):
            return None
        taken = arguments.copy()
        results = [Parts(()) for _ in self.output_shapes]

        def run() -> None:
            made = self.local.execute_together(self._parts(taken, donated), donated, self._devices)
            for whole, buffers in zip(results, zip(*made)):
                whole.buffers = buffers

        for number in range(len(arguments)):
            if number in donated:
                arguments[number] = None
        return [*results], group_queue().submit(run, after, origin)

    def texts(self) -> dict[str, str]:
        return self.local.texts()

    def pass_report(self) -> str:
        return self.local.pass_report()


class GroupClient(AbstractClient):
    """Compiles for a group of another client's devices."""

    def __init__(self, base: AbstractClient) -> None:
        self.platform = base.platform
        self.platform_version = base.platform_version
        self.memory_kinds = base.memory_kinds
        self._base = base
        self._group: list[DeviceGroup] = []

    def belong_to(self, group: DeviceGroup) -> None:
        """The group that it compiles for; called once."""
        self._group = [group]

    def devices(self) -> list[Device]:
        return list(self._group)

    def process_index(self) -> int:
        return self._base.process_index()

    def buffer_kind(
        self, device: Device, dimensions: tuple[int, ...], dtype: np.dtype
    ) -> BufferKind:
        """Every device has all of such an array."""
        assert isinstance(device, DeviceGroup)
        return device.parts_kind(dimensions, dtype, [()] * len(device.devices))

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        """Of a module whose parameters, at least, have shardings."""
        local, *partition = self._base.compile_partitioned(module, options)
        return GroupExecutable(local, (partition[0], partition[1]), *self._group)

    def serialize_program(self, module: HloModule, options: CompileOptions) -> bytes:
        """The code of a device, its module, and how arrays are cut."""
        own = module.clone()
        cut = self._base.partition(own)
        shared = _module_to_proto(own)
        code = self._base.serialize_program(own, options)
        return pickle.dumps((code, shared, [[*map(str, shardings)] for shardings in cut]))

    def load_program(
        self, content: bytes, module: HloModule, options: CompileOptions
    ) -> LoadedExecutable:
        code, shared, cut = pickle.loads(content)
        local = self._base.load_program(code, _module_from_proto(shared), options)
        parameters, results = ([*map(parse_sharding, texts)] for texts in cut)
        return GroupExecutable(local, (parameters, results), *self._group)

    def module_text(
        self,
        module: HloModule,
        *,
        style: str = "long",
        large_constants: bool | None = None,
        metadata: bool | None = None,
    ) -> str:
        return self._base.module_text(
            module, style=style, large_constants=large_constants, metadata=metadata
        )

    def module_cost(self, module: HloModule) -> dict[str, float]:
        """Of all devices together: that of the program on whole arrays."""
        return self._base.module_cost(module)

    def memory_stats(self, device: Device) -> dict[str, int] | None:
        assert isinstance(device, DeviceGroup)
        return self._base.memory_stats(device.here[0]) if device.here else None


class DeviceGroup(Device):
    """Devices of one client that run programs together; participants have their numbers in this
    order. Made by `device_group`.

    Attributes:
      devices: at least two.   here: those of this process.
    """

    client: GroupClient

    def __init__(self, devices: tuple[Device, ...]) -> None:
        first = devices[0]
        super().__init__(GroupClient(first.client), first.id, first.device_kind)
        self.client.belong_to(self)
        self.devices = devices
        self.here = tuple(device for device in devices if device.is_here)
        self.process_index = first.client.process_index()

    def parts_kind(
        self, dimensions: tuple[int, ...], dtype: np.dtype, indices: Sequence[Index]
    ) -> PartsKind:
        """Buffers of arrays of which each device has the part that its index says."""
        return PartsKind(dimensions, dtype, self.devices, indices)

    def __repr__(self) -> str:
        return f"DeviceGroup({', '.join(map(str, self.devices))})"

    __str__ = __repr__


_groups: InternTable[tuple[Device, ...], DeviceGroup] = InternTable()


def device_group(devices: Sequence[Device]) -> Device:
    """What stands for these devices together: of one device itself.

    Raises:
      ValueError: there is none, they are of several clients, or one is named twice.
    """
    key = tuple(devices)
    if len(key) == 1:
        return key[0]
    if len({id(device.client) for device in key}) != 1:
        raise ValueError(f"devices of one platform run programs together, not {key}")
    found = _groups.find(key)
    if found is None and len({*key}) != len(key):
        twice = next(device for device in key if key.count(device) > 1)
        raise ValueError(
            f"{twice} is named {key.count(twice)} times among {len(key)} devices: each runs one "
            "part of a program; name each once"
        )
    return _groups.intern(key, DeviceGroup(key)) if found is None else found
