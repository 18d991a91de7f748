"""Memory of one device: a pool that grows, and what is said where it has no more.

Memory goes back to the pool when its owner goes, and may be taken again at once, while kernels
that use it are still under way: everything of a device runs on one stream, in order.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from xla_backend.runtime.buffer import Buffer, BufferKind, OutOfMemory
from xla_backend.runtime.places import current_place

_SHOWN = 5
_ROUND = 2 << 20  # bytes: pages of the device


class CudaBuffer(Buffer):
    """Memory on a GPU.

    Attributes:
      address: of its first byte, on the device.
      owner: gives the memory back when it goes: the pool's, or somebody else's object.
      device: where it is; compared by identity.
      kind: what it was made for.   place: the line of the user's program that made it.
      from_pool: nobody outside this package may write to it.
    """

    __slots__ = ("__weakref__", "address", "device", "from_pool", "kind", "owner", "place")

    def __init__(
        self, address: int, owner: Any, device: Any, kind: BufferKind, from_pool: bool = True
    ) -> None:
        self.address = address
        self.owner = owner
        self.device = device
        self.kind = kind
        self.from_pool = from_pool
        self.place = current_place()


class DeviceMemory:
    """The memory of one device.

    Args:
      cupy: the library.   number: of the device, as CUDA counts.
      fraction: of all its memory that this process may take.
      active: makes the device and its stream the current ones, as a context manager.
      name: what messages call the device.
    """

    def __init__(
        self, cupy: Any, number: int, fraction: float, active: Callable[[], Any], name: str
    ) -> None:
        self._pool = cupy.cuda.MemoryPool()
        self._out_of_memory = cupy.cuda.memory.OutOfMemoryError
        self._active = active
        self._name = name
        self._device = cupy.cuda.Device(number)
        self._numbers = itertools.count()
        self._live: dict[int, weakref.ref[CudaBuffer]] = {}
        self._peak = 0
        self._allocations = 0
        with active():
            self._pool.set_limit(fraction=fraction)

    def take(self, nbytes: int, what: str) -> Any:
        """Memory of the pool; `ptr` of it is its address. `what`: it is for, in messages.

        Raises:
          OutOfMemory: there is none, also after everything free went back to the device.
        """
        with self._active():
            try:
                owner = self._pool.malloc(nbytes)
            except self._out_of_memory:
                owner = None
            if owner is None:
                raise OutOfMemory(self._refusal(nbytes, what))
            self._allocations += 1
            self._peak = max(self._peak, self._pool.used_bytes())
        return owner

    def allocator(self) -> Callable[[int], Any]:
        """What CuPy's own functions take their memory with."""
        return lambda nbytes: self.take(nbytes, "a library routine")

    def buffer(self, device: Any, kind: BufferKind) -> CudaBuffer:
        """Memory for an array.

        Raises:
          OutOfMemory: there is none.
        """
        owner = self.take(kind.nbytes, f"an array {_described(kind)}")
        return self.watched(CudaBuffer(owner.ptr, owner, device, kind))

    def watched(self, buffer: CudaBuffer) -> CudaBuffer:
        """The buffer, which messages about memory know from now on."""
        number = next(self._numbers)
        # Called as pop(number, reference): a function in Python might be interrupted there.
        self._live[number] = weakref.ref(buffer, partial(self._live.pop, number))
        return buffer

    def take_all(self) -> None:
        """Take what may be taken from the device, for the pool to give away. Less is free where
        other processes are on it: then as much as that.

        Raises:
          OutOfMemory: not even that much is to be had.
        """
        with self._active():
            nbytes = min(self._pool.get_limit(), self._device.mem_info[0])
        self.take(nbytes // _ROUND * _ROUND, "all that may be taken (preallocate)")

    def free_blocks(self) -> None:
        """Give everything free back to the device."""
        with self._active():
            self._pool.free_all_blocks()

    def stats(self) -> dict[str, int]:
        """bytes_in_use: of memory that has an owner, rounded up by the pool. peak_bytes_in_use: the
        largest that was. bytes_reserved: taken from the device. bytes_limit: what that may become.
        num_allocs: how often memory was asked for."""
        with self._active():
            in_use, reserved = self._pool.used_bytes(), self._pool.total_bytes()
            limit = self._pool.get_limit()
        return {
            "bytes_in_use": in_use,
            "peak_bytes_in_use": max(self._peak, in_use),
            "bytes_reserved": reserved,
            "bytes_limit": limit,
            "num_allocs": self._allocations,
        }

    def _refusal(self, nbytes: int, what: str) -> str:
        in_use, reserved = self._pool.used_bytes(), self._pool.total_bytes()
        limit, (free, total) = self._pool.get_limit(), self._device.mem_info
        lines = [
            f"cannot allocate {nbytes} bytes on {self._name} for {what}",
            f"  arrays and programs of this process use {in_use} bytes there, {reserved - in_use} "
            f"more are kept for reuse, and it may take {limit}; {free} of the device's {total} "
            "bytes are free",
        ]
        largest = self._largest()
        if largest:
            lines.append("  the largest arrays there:")
            lines += [f"    {line}" for line in largest]
        lines.append(
            "  delete arrays that are not needed any more, donate arguments to jitted functions "
            "(donate_argnums), or raise the limit (jax_cuda_memory_fraction)"
        )
        return "\n".join(lines)

    def _largest(self) -> list[str]:
        """Those that live, largest first; those of one kind from one line are one entry."""
        groups: dict[tuple[str, str], list[int]] = {}
        for reference in list(self._live.values()):
            buffer = reference()
            if buffer is not None and buffer.kind.nbytes:
                key = _described(buffer.kind), str(buffer.place)
                groups.setdefault(key, []).append(buffer.kind.nbytes)
        ordered = sorted(groups.items(), key=lambda group: -sum(group[1]))
        return [_entry(shape, place, sizes) for (shape, place), sizes in ordered[:_SHOWN]]


def _entry(shape: str, place: str, sizes: list[int]) -> str:
    count = f"{len(sizes)} x " if len(sizes) > 1 else ""
    made = f", made at {place}" if place else ""
    return f"{sum(sizes)} bytes: {count}{shape}{made}"


def _described(kind: BufferKind) -> str:
    return f"{kind.numpy_dtype}[{','.join(map(str, kind.dimensions))}]"
