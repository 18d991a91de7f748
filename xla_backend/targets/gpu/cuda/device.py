"""One GPU: its memory, and the stream that everything on it runs on, in order."""

from __future__ import annotations

import os
from collections import deque
from types import TracebackType
from typing import Any

import numpy as np

from xla_backend.hlo.shape import Shape
from xla_backend.runtime.buffer import BufferKind
from xla_backend.runtime.client import AbstractClient, Device
from xla_backend.targets.gpu.cuda import errors
from xla_backend.targets.gpu.cuda.memory import CudaBuffer, DeviceMemory
from xla_backend.targets.gpu.cuda.transfers import Transfers
from xla_backend.targets.gpu.cuda.waiting import NOT_READY, wait_for

_MOST_REMEMBERED = 32


class Active:
    """While it is entered, a device and its stream are what CuPy uses in this thread, and errors of
    CUDA are raised in words that name the device."""

    __slots__ = ("_cuda", "_device", "_entered")

    def __init__(self, device: CudaDevice) -> None:
        self._device = device

    def __enter__(self) -> None:
        device = self._device
        device.check()
        self._cuda = device.cupy.cuda.Device(device.number)
        self._cuda.__enter__()
        try:
            device.stream.__enter__()
        except BaseException:
            self._cuda.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._device.stream.__exit__(None, None, None)
        finally:
            self._cuda.__exit__(None, None, None)
        if error is not None and errors.is_of_cuda(error):
            raise self._device.failure(error) from error


class CudaDevice(Device):
    """One GPU.

    Attributes:
      number: as CUDA counts, in this process.
      compute_capability: "9.0"; architecture: "sm_90".   core_count: of multiprocessors.
      limits: what its properties say about launches.
      stream: what everything on it runs on.
      under_way: the last jobs that were started here, oldest first; some may be over.
      libraries: what calls of CUDA's libraries need here, by the library's name.
      keeping: jobs that keep somebody else's memory until they are over, by identity, oldest first.
    """

    def __init__(
        self, client: AbstractClient, id: int, number: int, cupy: Any, fraction: float
    ) -> None:
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        super().__init__(client, id, properties["name"].decode())
        self.local_hardware_id = number
        self.number = number
        self.cupy = cupy
        major, minor = properties["major"], properties["minor"]
        self.compute_capability = f"{major}.{minor}"
        self.capability = (major, minor)
        self.core_count = properties["multiProcessorCount"]
        self.properties = properties
        self._process = os.getpid()
        self._lost = ""  # why, if it is
        with cupy.cuda.Device(number):
            self.stream = cupy.cuda.Stream(non_blocking=True)
        self.pool = DeviceMemory(cupy, number, fraction, self.active, f"cuda:{id}")
        self._transfers = Transfers(cupy, self.stream)
        self.under_way: deque[Any] = deque(maxlen=_MOST_REMEMBERED)
        self.keeping: dict[int, Any] = {}
        self.libraries: dict[str, Any] = {}

    def active(self) -> Active:
        """A block in which this device and its stream are the current ones.

        Raises:
          DeviceLost: in or at the start of the block: it does not work any more.
          RuntimeFailure: CUDA reported an error in the block.
        """
        return Active(self)

    @property
    def is_lost(self) -> bool:
        """Whether it does not work any more."""
        return bool(self._lost)

    def check(self) -> None:
        """Raise if there is no use in asking the device for anything."""
        if self._lost:
            raise errors.DeviceLost(self._lost)
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self} belongs to process {self._process}, which this one was forked from: CUDA "
                "does not go on in a fork; start processes with multiprocessing's 'spawn' or "
                "'forkserver', or fork before the first use of a device"
            )

    def failure(self, error: BaseException) -> Exception:
        """What to raise for an error of CUDA; if the device is lost, all that comes raises it.
        Nobody knows which of the calls that were under way failed: the first one is named."""
        if not errors.is_lost(error):
            return errors.failure(self, error)
        if not self._lost:
            waiting = [job for job in list(self.under_way) if not job.is_finished]
            since = str(waiting[0].place) if waiting else ""
            said = f"; calls were under way since {since}" if since else ""
            self._lost = errors.message(self, error) + said
        return errors.DeviceLost(self._lost)

    def buffer(self, kind: BufferKind) -> CudaBuffer:
        """Memory for an array.

        Raises:
          OutOfMemory: there is none.
        """
        return self.pool.buffer(self, kind)

    def to_device(self, address: int, data: np.ndarray) -> None:
        """Copy bytes to the device's memory, in order with all that runs there."""
        if data.size:
            with self.active():
                self._transfers.to_device(address, data)

    def to_host(self, address: int, nbytes: int) -> np.ndarray:
        """The bytes of its memory, when all is done that was started there."""
        if not nbytes:
            return np.empty(0, np.uint8)
        with self.active():
            return self._transfers.to_host(address, nbytes)

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy within its memory; in an active block."""
        runtime = self.cupy.cuda.runtime
        runtime.memcpyAsync(target, source, nbytes, runtime.memcpyDeviceToDevice, stream.ptr)

    def array(self, address: int, shape: Shape) -> Any:
        """CuPy's array over memory of the device, which somebody else keeps; in an active block."""
        cuda = self.cupy.cuda
        memory = cuda.UnownedMemory(address, shape.byte_size, None, device_id=self.number)
        pointer = cuda.MemoryPointer(memory, 0)
        dtype = shape.element_type.numpy_dtype
        return self.cupy.ndarray(shape.dimensions, dtype, memptr=pointer)

    def event(self) -> Any:
        """An event that is over when all is done that was started here; in an active block."""
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(self.stream)
        return event

    def synchronize(self) -> None:
        """Return when all is done that was started here. What a signal handler raises ends the
        wait."""
        with self.active():
            wait_for(self.cupy.cuda.runtime, self.event())

    def look(self) -> None:
        """Raise what has failed here.

        Raises:
          RuntimeFailure: CUDA reports an error of the device.
        """
        runtime = self.cupy.cuda.runtime
        with self.active():
            status = runtime.streamQuery(self.stream.ptr)
            if status not in (0, NOT_READY):
                runtime.check_status(status)

    def is_idle(self) -> bool:
        """Whether nothing is under way here."""
        with self.active():
            return bool(self.stream.done)

    def __repr__(self) -> str:
        return f"CudaDevice(id={self.id})"
