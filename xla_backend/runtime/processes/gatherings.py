"""Values that processes give each other: each of them calls for what all have."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xla_backend.runtime.participant_threads import run_apart
from xla_backend.runtime.processes.errors import ALIKE, ProcessFailure
from xla_backend.runtime.processes.frames import aligned, frame, read
from xla_backend.runtime.processes.world import World

_GATHER, _GIVEN_UP = "gather", "given up"
# Members of a gathering, and its number, which tell it from others.
Place = tuple[tuple[int, ...], int]


class Part(NamedTuple):
    """What a process gave to `Gatherings.gather`.

    Fields:
      kind: of gathering, for which it was given.
    """

    label: Any
    payload: np.ndarray
    kind: str

    def arrays(self, kinds: Sequence[tuple[np.dtype, tuple[int, ...]]]) -> list[np.ndarray]:
        """The arrays in it, whose types and shapes are these."""
        found, start = [], 0
        for dtype, shape in kinds:
            size = dtype.itemsize * math.prod(shape)
            found.append(self.payload[start : start + size].view(dtype).reshape(shape))
            start += aligned(size)
        return found


class Gathering(NamedTuple):
    """One call of `Gatherings.gather`, as it is known to whoever watches it.

    Fields:
      what: this process waits in.
      missing: who has not given anything.   since: when this process began it.
    """

    place: Place
    what: str
    missing: tuple[int, ...]
    since: float

    def is_late(self, seconds: float) -> bool:
        return time.monotonic() > self.since + seconds


class Gatherings:
    """Those that this process has begun, and what others have given for them.

    Attributes:
      begun: by its members, the number of the last one that this process began.
    """

    def __init__(self, world: World) -> None:
        self.begun: dict[tuple[int, ...], int] = {}
        self._world = world
        # By who gave it.
        self._parts: dict[Place, dict[int, Part]] = {}
        # Of those that somebody waits in no more: who, and what that was there.
        self._given_up: dict[Place, dict[int, str]] = {}
        world.on(_GATHER, self._keep_part)
        world.on(_GIVEN_UP, self._keep_given_up)

    def gather(
        self,
        label: Any,
        arrays: Sequence[np.ndarray] = (),
        members: Sequence[int] | None = None,
        kind: str = "",
        what: str = "",
        seconds: float = 300,
        watch: Callable[[Gathering], None] = lambda gathering: None,
    ) -> list[Part]:
        """What each member gives, in their order; all of them call this.

        Args:
          label: says what is gathered.   arrays: of uint8.
          members: numbers of processes, in order, this one among them; None: all.
          kind: of gathering; who comes for values of another one is an error for all.
          what: this process waits in, for messages.
          watch: raises if those that are missing will not come.
        Raises:
          ProcessFailure, ProcessTimeout: as `World.until`; another member has given this up, or
            gathers something else.
        """
        what = what or kind
        return run_apart(lambda: self._gather(label, arrays, members, kind, what, seconds, watch))

    def _gather(
        self,
        label: Any,
        arrays: Sequence[np.ndarray],
        members: Sequence[int] | None,
        kind: str,
        what: str,
        seconds: float,
        watch: Callable[[Gathering], None],
    ) -> list[Part]:
        together = tuple(range(self._world.count) if members is None else members)
        others = [n for n in together if n != self._world.index]
        waits = f"process {self._world.index} waits in {what}"
        since = time.monotonic()
        before = self.begun.get(together, 0)
        parts = {self._world.index: Part(label, read(frame("", (), arrays))[2], kind)}

        def missing() -> list[int]:
            return [n for n in others if n not in parts]

        def begin() -> Place:
            with self._world.lock:
                number = self.begun[together] = self._next_gathering(together, what)
                self._forget_before(together, number)
            for other in others:
                self._world.send(other, _GATHER, (together, number, label, kind), arrays)
            return together, number

        def ready(place: Place) -> bool | None:
            parts.update(self._parts.pop(place, {}))
            for other, part in parts.items():
                if part.kind != kind:
                    raise ProcessFailure(f"{waits}: process {other} is in {part.kind}; {ALIKE}")
            if not missing():
                return True
            if place in self._given_up:
                who, its = next(iter(self._given_up[place].items()))
                raise ProcessFailure(f"{waits}: process {who} has given up {its}")
            return None

        try:
            place = begin()
            look = lambda: watch(Gathering(place, what, tuple(missing()), since))
            self._world.until(lambda: ready(place), missing, waits, seconds, look)
        except BaseException:
            number = self.begun.get(together, 0)
            for other in others if number != before else ():
                if other not in self._world.ended:
                    self._world.send(other, _GIVEN_UP, (together, number, what))
            raise
        return [parts[n] for n in together]

    def pass_over(self, together: tuple[int, ...], number: int) -> None:
        """This process will never come to one."""
        if self._world.index in together:
            self.begun[together] = max(self.begun.get(together, 0), number)

    def _next_gathering(self, together: tuple[int, ...], what: str) -> int:
        """Its number. One that others have given up, and waited for something else in, is none
        that this process will ever come to: it is passed over."""
        number = self.begun.get(together, 0) + 1
        while what not in self._given_up.get((together, number), {0: what}).values():
            number += 1
        return number

    def _forget_before(self, together: tuple[int, ...], number: int) -> None:
        for table in (self._parts, self._given_up):
            for place in [p for p in table if p[0] == together and p[1] < number]:
                del table[place]  # type: ignore[attr-defined]

    def _keep_part(self, source: int, head: Any, payload: np.ndarray) -> None:
        together, number, label, kind = head
        self._parts.setdefault((together, number), {})[source] = Part(label, payload, kind)

    def _keep_given_up(self, source: int, head: Any, payload: np.ndarray) -> None:
        together, number, what = head
        self._given_up.setdefault((together, number), {})[source] = what
