"""Arrays in the memory of GPUs, as everybody above the client sees them: `CudaBufferKind`."""

from __future__ import annotations

from typing import Any

import numpy as np

from xla_backend.runtime.buffer import Buffer, BufferKind
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.memory import CudaBuffer


class CudaBufferKind(BufferKind):
    """Buffers of one shape and type on one GPU."""

    __slots__ = ("device",)

    def __init__(
        self, device: CudaDevice, dimensions: tuple[int, ...], numpy_dtype: np.dtype
    ) -> None:
        super().__init__(dimensions, numpy_dtype)
        self.device = device

    def from_host(self, array: np.ndarray) -> CudaBuffer:
        data = np.ascontiguousarray(array, self.numpy_dtype).reshape(-1).view(np.uint8)
        buffer = self.device.buffer(self)
        self.device.to_device(buffer.address, data)
        return buffer

    def to_host(self, buffer: Buffer) -> np.ndarray:
        data = self.device.to_host(self._checked(buffer).address, self.nbytes)
        array = data.view(self.numpy_dtype).reshape(self.dimensions)
        array.flags.writeable = False
        return array

    def wait(self, buffer: Buffer) -> None:
        self._checked(buffer)
        self.device.synchronize()

    def is_ready(self, buffer: Buffer) -> bool:
        self._checked(buffer)
        return self.device.is_idle()

    def _checked(self, buffer: Buffer) -> CudaBuffer:
        return on_device(buffer, self.device)


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
