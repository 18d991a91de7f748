"""What all built-in clients share: memory of the host, and text and cost of modules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Self

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.sharding import Sharding
from xla_backend.process.bounded_cache import once
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.buffer import BufferHolder
from xla_backend.runtime.buffer_protocol import give_buffer_protocol
from xla_backend.runtime.client import AbstractClient, Device, LoadedExecutable
from xla_backend.runtime.host_buffer import HostBufferKind

_analyze = on_first_use("xla_backend.hlo.cost_analysis", "analyze")
_module_to_text = on_first_use("xla_backend.hlo.printer", "module_to_text")
_partition = on_first_use("xla_backend.spmd.pipeline", "prepare_and_partition")


@once
def _arrays_can_be_read() -> None:
    give_buffer_protocol(BufferHolder)


class HloClient(AbstractClient):
    """A client whose programs are HLO modules of this compiler, and whose devices have the memory
    of the host."""

    shared_memory: str | None = "host"

    def __new__(cls, *_: Any, **__: Any) -> Self:
        _arrays_can_be_read()  # before there is a client there are none
        return super().__new__(cls)

    def buffer_kind(
        self, device: Device, dimensions: tuple[int, ...], dtype: np.dtype
    ) -> HostBufferKind:
        return HostBufferKind(dimensions, dtype)

    def compile_partitioned(
        self, module: HloModule, options: CompileOptions
    ) -> tuple[LoadedExecutable, Sequence[Sharding], Sequence[Sharding]]:
        partition = self.partition(module)
        return self.compile(module, options), *partition

    def partition(self, module: HloModule) -> tuple[Sequence[Sharding], Sequence[Sharding]]:
        found = _partition(module)
        if found is None:
            raise UnimplementedError(
                f"nothing says how the arrays of module {module.name!r} are cut"
            )
        return found.parameters, found.results

    def module_text(
        self,
        module: HloModule,
        *,
        style: str = "long",
        large_constants: bool | None = None,
        metadata: bool | None = None,
    ) -> str:
        return _module_to_text(module, style, large_constants=large_constants, metadata=metadata)

    def module_cost(self, module: HloModule) -> dict[str, float]:
        cost = _analyze(module)
        return {
            "flops": cost.flops,
            "transcendentals": cost.transcendentals,
            "bytes accessed": cost.bytes_accessed,
        }


class _HostClient(HloClient):
    platform = "host"
    platform_version = "no platform"

    def __init__(self) -> None:
        self._devices = [Device(self, 0, "host")]

    def devices(self) -> list[Device]:
        return self._devices


@cache
def host_device() -> Device:
    """Where programs run that were not compiled for a client's device: those of tests and tools,
    and the evaluator's."""
    return _HostClient().devices()[0]
