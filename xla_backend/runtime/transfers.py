"""What a step of a program says that takes something from another program, or gives it to one."""

from __future__ import annotations

from xla_backend.hlo.attributes import Value


class Transfer(Value):
    """Attributes of a transfer: its channel, and what messages call the instruction."""

    channel: int
    reader: str
