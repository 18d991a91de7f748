"""The host's end of infeed, outfeed and host transfers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.shape import Shape
from xla_backend.process.light_dataclasses import dataclass, field

Leaves = Sequence[np.ndarray]


@dataclass
class Host:
    """The host's end of one device's queues. Entries are the array leaves of one transfer.

    `infeed` and `to_device[channel]` are read by the program, oldest first; `outfeed` and
    `from_device[channel]` are filled by it.
    """

    infeed: deque[Leaves] = field(default_factory=deque)
    outfeed: list[Leaves] = field(default_factory=list)
    to_device: dict[int, deque[Leaves]] = field(default_factory=dict)
    from_device: dict[int, list[Leaves]] = field(default_factory=dict)


INFEED_QUEUE = "the infeed queue of the host"


def channel_queue(channel: int) -> str:
    """What messages call the queue of a channel."""
    return f"channel {channel} of the host"


def take(
    queue: deque[Leaves] | None, shapes: Sequence[Shape], reader: str, where: str
) -> list[np.ndarray]:
    """The oldest entry of a queue, checked against the shapes of the arrays that are expected.

    Raises:
      RuntimeFailure: the queue is empty, or its entry is something else.
    """
    if not queue:
        raise RuntimeFailure(f"{reader} reads from {where}, which is empty; put arrays there first")
    leaves = [np.asarray(x) for x in queue.popleft()]
    found = [(x.dtype, x.shape) for x in leaves]
    if found != [(s.element_type.numpy_dtype, s.dimensions) for s in shapes]:
        raise RuntimeFailure(f"{reader} got {[Shape.of(x).to_text() for x in leaves]} from {where}")
    return leaves
