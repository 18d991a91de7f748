"""What all built-in clients share: text and cost of modules.

A module of its own: the printer and the cost model load with the first client, not at import.
"""

from __future__ import annotations

from xla_backend.hlo.cost_analysis import analyze
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.runtime.buffer import Buffer
from xla_backend.runtime.buffer_protocol import give_buffer_protocol
from xla_backend.runtime.client import AbstractClient


class HloClient(AbstractClient):
    """A client whose programs are HLO modules of this compiler."""

    def module_text(
        self,
        module: HloModule,
        *,
        style: str = "long",
        large_constants: bool | None = None,
        metadata: bool | None = None,
    ) -> str:
        return module_to_text(module, style, large_constants=large_constants, metadata=metadata)

    def module_cost(self, module: HloModule) -> dict[str, float]:
        cost = analyze(module)
        return {
            "flops": cost.flops,
            "transcendentals": cost.transcendentals,
            "bytes accessed": cost.bytes_accessed,
        }


# Before there is a client there are no arrays.
give_buffer_protocol(Buffer)
