"""What tells programs of several processes apart, and how messages name them."""

from __future__ import annotations

from typing import NamedTuple

from xla_backend.hlo.attributes import Value
from xla_backend.hlo.exchanges import Exchange
from xla_backend.hlo.shape import Shape
from xla_backend.runtime.processes.errors import ALIKE


class Site(Value):
    """A collective in a program.

    Fields:
      name: for messages.  exchange: what it does.
      operands: their shapes.  results: how many it has.
    """

    name: str
    exchange: Exchange
    operands: tuple[Shape, ...]
    results: int


class Identity(NamedTuple):
    """Tells programs apart that cannot run together.

    Fields:
      kind: its name, arrays and collectives.   devices: numbers of those that it runs on, in order.
      content: a digest of all that it computes; empty if that is not known.
    """

    kind: str
    devices: str
    content: str

    def fits(self, other: Identity) -> bool:
        """Whether they can run together."""
        same = self.content == other.content or not (self.content and other.content)
        return same and self[:2] == other[:2]


class Running(NamedTuple):
    """What a process says it runs.

    Fields:
      identity: of the program.   program, site: for messages.
    """

    identity: Identity
    program: str
    site: str

    def __str__(self) -> str:
        return f"{self.site} of {self.program}"


def difference(theirs: Running, own: Identity) -> str:
    """What another process does that cannot run together with this one."""
    if theirs.identity.kind != own.kind:
        return f"runs {theirs} instead; {ALIKE}"
    if theirs.identity.devices != own.devices:
        return (
            f"runs it on the devices {theirs.identity.devices}, and this one on {own.devices}; "
            "meshes must have the same order of devices in all processes"
        )
    return (
        f"runs {theirs}, which computes something else there: constants and static "
        "arguments must be the same in all processes"
    )
