"""Clients and devices, shaped like PJRT: a client owns the devices of one platform and compiles for
them.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.module import HloModule
from xla_backend.runtime.executable import LoadedExecutable
from xla_backend.runtime.target_code import TargetCode


class Device:
    """One device of a client.

    Attributes:
      id: number within the platform; platform: "cpu", …; device_kind: vendor's or our name; client.
    """

    def __init__(self, client: AbstractClient, id: int, device_kind: str) -> None:
        self.client = client
        self.id = id
        self.device_kind = device_kind
        self.process_index = 0
        self.local_hardware_id = id

    @property
    def platform(self) -> str:
        return self.client.platform

    def memory_stats(self) -> dict[str, int] | None:
        """Memory statistics, or None where the platform keeps none."""
        return self.client.memory_stats(self)

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


class AbstractClient:
    """What a platform provides. Concrete: CpuClient, InterpreterClient, and those of plugins."""

    platform: str
    platform_version: str

    def devices(self) -> list[Device]:
        """All devices, in order of their ids."""
        raise NotImplementedError

    def process_index(self) -> int:
        return 0

    def device_count(self) -> int:
        return len(self.devices())

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        """Compile a module (which may be changed) for this client's devices."""
        raise NotImplementedError

    def compile_elementwise(
        self, module: HloModule, options: CompileOptions
    ) -> Callable[[int], LoadedExecutable | None] | None:
        """Compile a program on scalars and 1-D arrays of one length for any length.

        Returns a function from the length to an executable (None where another way is better), or
        None if the program is not elementwise or the platform does not do this.
        """
        return None

    def emit(self, module: HloModule, options: CompileOptions) -> TargetCode:
        """Make object code of a module (which may be changed) for `options.target`, without
        loading it.

        Raises:
          UnimplementedError: this platform makes no code for other machines.
        """
        raise UnimplementedError(
            f"the platform {self.platform!r} makes no object code; compile for the platform 'cpu'"
        )

    def module_text(
        self,
        module: HloModule,
        *,
        style: str = "long",
        large_constants: bool | None = None,
        metadata: bool | None = None,
    ) -> str:
        """HLO text of a module in a style ("long", "short"), with or without long constants and
        source locations."""
        raise NotImplementedError

    def module_cost(self, module: HloModule) -> dict[str, float]:
        """Estimated "flops", "transcendentals" and "bytes accessed" of one run."""
        raise NotImplementedError

    def memory_stats(self, device: Device) -> dict[str, int] | None:
        return None
