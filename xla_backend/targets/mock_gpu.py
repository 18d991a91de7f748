"""Devices that are not here: a list of GPUs to lay programs out for and to lower for. Nothing can
be put on them, compiled for them or run.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.module import HloModule
from xla_backend.runtime.client import Device, LoadedExecutable
from xla_backend.runtime.hlo_client import HloClient
from xla_backend.runtime.host_buffer import HostBufferKind


class MockClient(HloClient):
    """GPUs of several processes, of which this one is number 0.

    Args:
      processes: how many there are.   local_devices: numbers of the GPUs of each.
    """

    platform = "cuda"
    platform_version = "mock topology"
    shared_memory = None

    def __init__(self, processes: int, local_devices: list[int]) -> None:
        self._devices: list[Device] = []
        for process in range(processes):
            for number in local_devices:
                device = Device(self, len(self._devices), "mock GPU")
                device.process_index = process
                device.local_hardware_id = number
                self._devices.append(device)

    def devices(self) -> list[Device]:
        return self._devices

    def buffer_kind(
        self, device: Device, dimensions: tuple[int, ...], dtype: np.dtype
    ) -> HostBufferKind:
        self._refuse("hold arrays")

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        self._refuse(f"run module {module.name!r}")

    def _refuse(self, what: str) -> NoReturn:
        raise UnimplementedError(
            f"devices of a mock topology cannot {what}: they are there to lay out and lower "
            "programs; use jit(f).lower(...), or a real device"
        )
