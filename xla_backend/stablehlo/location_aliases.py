"""Names of locations in a text: `#loc`, `#loc1`, ..., each written once, below the operations."""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.stablehlo.attribute_text import location_body
from xla_backend.stablehlo.attributes import Location
from xla_backend.stablehlo.ir import Region


class LocationAliases:
    """The aliases of all locations in a module and of their parts. A location comes after what it
    is made of: those without parts first, in the order in which the text mentions them.
    """

    def __init__(self, location: Location, body: Region) -> None:
        depths: dict[Location, int] = {}
        for top in _mentioned(location, body):
            waiting = [top]
            while waiting:
                at = waiting[-1]
                parts = at.parts()
                missing = [part for part in parts if part not in depths]
                if at in depths or not missing:
                    waiting.pop()
                    depths.setdefault(at, 1 + max([depths[p] for p in parts], default=-1))
                else:
                    waiting.extend(reversed(missing))
        ordered = sorted(depths, key=depths.__getitem__)
        self._names = {at: f"#loc{number or ''}" for number, at in enumerate(ordered)}

    def name(self, location: Location) -> str:
        return self._names[location]

    def text(self) -> str:
        return "".join(
            [f"{name} = loc({location_body(at, self.name)})\n" for at, name in self._names.items()]
        )


def _mentioned(location: Location, body: Region) -> Iterator[Location]:
    yield location
    for block in body.blocks:
        yield from block.argument_locations
        for op in block.operations:
            yield op.location
            for region in op.regions:
                yield from _mentioned(op.location, region)
