"""Clusters that programs are planned for: chips, and the links between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pyjax.core.errors import new_error
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.targets.gpu.cards import find_card


@dataclass(frozen=True, slots=True)
class Chip:
    """A device as its data sheet describes it.

    Attributes:
      name: for texts.
      memory: bytes.
      bandwidth: of the memory, in bytes per second.
      products: floating point operations per second of matrix products, by the type of what is
        multiplied ("bf16", "f32", ...).
      arithmetic: operations per second of all else, and of products of other types.

    >>> Chip("mine", 16e9, 800e9, {"bf16": 200e12}, 10e12).product_rate("f32")
    10000000000000.0
    """

    name: str
    memory: float
    bandwidth: float
    products: Mapping[str, float]
    arithmetic: float

    @classmethod
    def named(cls, name: str) -> Chip:
        """A graphics card: A100, H100, H200, B200 or RTX 5090.

        Raises:
          ValueError: another name.

        >>> Chip.named("H100").memory
        80000000000
        """
        card = find_card(name)
        types = {*card.tensor_tflops, *card.vector_tflops}
        products = {each: card.tensor_rate(each) for each in sorted(types)}
        return cls(card.name, card.memory_bytes, card.bandwidth, products, card.vector_rate("f32"))

    def product_rate(self, element_type: str) -> float:
        """Operations per second of matrix products of a type."""
        return self.products.get(element_type, self.arithmetic)


@dataclass(frozen=True, slots=True)
class Link:
    """What connects neighbours along an axis of a mesh.

    Attributes:
      bandwidth: bytes per second that a device sends, while it receives as many.
      latency: seconds until the first byte is there.

    >>> Link(50e9, 1e-5).seconds(5e9)
    0.10001
    """

    bandwidth: float
    latency: float = 0.0

    def seconds(self, bytes: float) -> float:
        """Of one message."""
        return self.latency + bytes / self.bandwidth


# Of an H100: NVLink of the fourth generation, and one adapter of 400 Gbit/s for each card. The
# latencies are those of a small message through the usual libraries, by order of magnitude.
WITHIN_NODE = Link(450e9, 3e-6)
BETWEEN_NODES = Link(50e9, 1e-5)
NODE = 8


@dataclass(frozen=True, slots=True)
class Cluster:
    """Chips of one kind, and a link for each axis of a mesh of them.

    Attributes:
      chip: what each device is; the name of a card, or a Chip.
      links: by the name of the axis. Without an entry, an axis has NVLink (450 GB/s, 3 us) if 8
        devices or fewer are in it and the axes behind it, and else a network (50 GB/s, 10 us).

    >>> cluster = Cluster("H100", {"data": Link(25e9, 2e-5)})
    >>> cluster.links_of({"data": 4, "model": 8})["model"].bandwidth
    450000000000.0
    """

    chip: Chip | str = "H100"
    links: Mapping[Any, Link] = field(default_factory=dict)

    def described(self) -> Chip:
        """The chip itself."""
        return Chip.named(self.chip) if isinstance(self.chip, str) else self.chip

    def links_of(self, axes: Mapping[Any, int]) -> dict[Any, Link]:
        """The link of each axis, from names and sizes, major to minor.

        Raises:
          ValueError: a link is that of no axis.
        """
        unknown = [name for name in self.links if name not in axes]
        if unknown:
            raise new_error(
                ValueError,
                f"links of axes {unknown} are given for a mesh with axes {list(axes)}",
                "a link connects the neighbours along an axis of the mesh",
                "name the axes as the mesh does",
            )
        found: dict[Any, Link] = {}
        inside = 1
        for name, size in reversed([*axes.items()]):
            inside *= size
            usual = WITHIN_NODE if inside <= NODE else BETWEEN_NODES
            found[name] = self.links.get(name, usual)
        return {name: found[name] for name in axes}


def exchange_seconds(
    bytes: float, rounds: int, along: Sequence[tuple[int, Link]], *, shrinks: bool
) -> float:
    """What a collective takes in a group of devices.

    The array goes through the axes one after another, fastest first; where it `shrinks` (sums, and
    gathering seen backwards) the next axis has a part of it only. Along an axis it goes around in a
    ring, or, if that is quicker, up a tree.

    Args:
      bytes: of the whole array.  rounds: 2 for an all-reduce, else 1.
      along: number of members and link of each axis.
    """
    total = 0.0
    for count, link in sorted(along, key=lambda axis: -axis[1].bandwidth):
        ring = (count - 1) * link.seconds(bytes / count)
        tree = math.ceil(math.log2(count)) * link.seconds(bytes)
        total += rounds * min(ring, tree)
        if shrinks:
            bytes /= count
    return total
