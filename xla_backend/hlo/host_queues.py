"""The host's end of infeed, outfeed and host transfers."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

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
