"""Arrays in the memory of GPUs, as everybody above the client sees them: `CudaBufferKind`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.runtime.buffer import Buffer, BufferKind
from xla_backend.runtime.client import Adopted
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.memory import CudaBuffer

DLPACK_CUDA = 2  # DLPack's number
ALIGNMENT = 16


class CudaBufferKind(BufferKind):
    """Buffers of one shape and type on one GPU."""

    __slots__ = ("device",)

    def __init__(
        self, device: CudaDevice, dimensions: tuple[int, ...], numpy_dtype: np.dtype
    ) -> None:
        super().__init__(dimensions, numpy_dtype)
        self.device = device

    def from_host(self, array: np.ndarray) -> CudaBuffer:
        buffer = self.device.buffer(self)
        data = np.ascontiguousarray(array, self.numpy_dtype).reshape(-1).view(np.uint8)
        self.device.to_device(buffer.address, data)
        return buffer

    def to_host(self, buffer: Buffer) -> np.ndarray:
        data = self.device.to_host(self._checked(buffer).address, self.nbytes)
        array = data.view(self.numpy_dtype).reshape(self.dimensions)
        array.flags.writeable = False
        return array

    @property
    def dlpack_device(self) -> tuple[int, int]:  # type: ignore[override]
        return (DLPACK_CUDA, self.device.number)

    def address(self, buffer: Buffer) -> int:
        return self._checked(buffer).address

    def shared(self, buffer: Buffer) -> Any:
        return _OnDevice(self, self._checked(buffer))

    def wait(self, buffer: Buffer) -> None:
        self._checked(buffer)
        self.device.synchronize()

    def is_ready(self, buffer: Buffer) -> bool:
        self._checked(buffer)
        return self.device.is_idle()

    def _checked(self, buffer: Buffer) -> CudaBuffer:
        return on_device(buffer, self.device)


class _OnDevice:
    """The memory of a buffer as other libraries take it: through CuPy's array over it."""

    def __init__(self, kind: CudaBufferKind, buffer: CudaBuffer) -> None:
        cupy = kind.device.cupy
        memory = cupy.cuda.UnownedMemory(
            buffer.address, kind.nbytes, buffer, device_id=kind.device.number
        )
        pointer = cupy.cuda.MemoryPointer(memory, 0)
        self._device = kind.device
        with kind.device.active():
            self._array = cupy.ndarray(kind.dimensions, kind.numpy_dtype, memptr=pointer)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, copy: Any = None) -> Any:
        """The consumer's stream waits for all that was started on this device."""
        with self._device.active():
            return self._array.__dlpack__(stream=stream, max_version=max_version, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (DLPACK_CUDA, self._device.number)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        with self._device.active():
            return self._array.__cuda_array_interface__


def adopt(devices: Sequence[CudaDevice], exporter: Any) -> Adopted | None:
    """The array of another library that lies on one of the devices: in its own memory, or a copy
    where that is not dense in rows or not aligned."""
    kind, number = exporter.__dlpack_device__()
    device = next((d for d in devices if kind == DLPACK_CUDA and d.number == number), None)
    if device is None:
        return None
    with device.active():  # so that our stream waits for the exporter's
        given = array = device.cupy.from_dlpack(exporter)
        if not array.flags.c_contiguous:
            array = device.cupy.ascontiguousarray(array)
        if array.data.ptr % ALIGNMENT:  # kernels read 16 bytes at a time
            array = array.copy()
    buffer_kind = CudaBufferKind(device, tuple(array.shape), np.dtype(array.dtype))
    buffer = CudaBuffer(array.data.ptr, array, device, buffer_kind, from_pool=False)
    return Adopted(
        device,
        buffer_kind.dimensions,
        buffer_kind.numpy_dtype,
        device.pool.watched(buffer),
        array is not given,
    )


def on_device(buffer: Any, device: CudaDevice) -> CudaBuffer:
    """The buffer, which is on a device.

    Raises:
      ValueError: it is elsewhere.
    """
    if isinstance(buffer, CudaBuffer) and buffer.device is device:
        return buffer
    where = buffer.device if isinstance(buffer, CudaBuffer) else "another platform's device"
    raise ValueError(
        f"a buffer on {where} was given to {device}, which does not reach its memory; copy it "
        "first (device_put(x, device))"
    )
