"""The runs that processes have begun with each other, and what was sent for them.

Each message says which run, program and collective it is of, so that processes which do not do the
same are told so. Runs are numbered for each pair of processes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from xla_backend.runtime.participant_threads import run_apart
from xla_backend.runtime.processes.errors import ProcessFailure
from xla_backend.runtime.processes.gatherings import Gathering, Gatherings, Part, Place
from xla_backend.runtime.processes.identity import Identity, Running
from xla_backend.runtime.processes.waits import Key, Stay, Wait, Waits
from xla_backend.runtime.processes.world import World

EXCHANGE, FAILED = "exchange", "failed"
# Seconds after which a process says that it cannot go on by itself.
STUCK_AFTER = 0.5


class Mail:
    """What another process has sent for one run.

    Attributes:
      running: the first collective that it came to.   failed: why it gave the run up, and which
        program that was.
    """

    __slots__ = ("failed", "messages", "running")

    def __init__(self) -> None:
        self.running: Running | None = None
        self.failed: tuple[str, Identity] | None = None
        self.messages: dict[Key, np.ndarray] = {}


class Exchanges:
    """The runs that this process has begun with others, and their messages.

    Attributes:
      gatherings: of values.   waits: what all processes wait in.
    """

    def __init__(self, world: World, gatherings: Gatherings) -> None:
        self.world = world
        self.gatherings = gatherings
        self.waits = Waits(world, gatherings)
        self._mail: dict[int, dict[int, Mail]] = {other: {} for other in world.others}
        world.on(EXCHANGE, self._keep)
        world.on(FAILED, self._keep_failure)

    def _keep(self, source: int, head: Any, payload: np.ndarray) -> None:
        number, key, identity, *texts = head
        mail = self._mail[source].setdefault(number, Mail())
        mail.running = mail.running or Running(Identity(*identity), *texts)
        mail.messages[key] = payload

    def _keep_failure(self, source: int, head: Any, payload: np.ndarray) -> None:
        number, reason, identity = head
        mail = self._mail[source].setdefault(number, Mail())
        mail.failed = (reason, Identity(*identity))

    def begin(self, others: Sequence[int], identity: Identity, numbers: dict[int, int]) -> None:
        """Put the numbers of a run with other processes there. What another one has given up
        already, and is another program, is none that this process will ever come to: it is passed
        over."""
        begun = self.waits.begun
        with self.world.lock:
            for other in others:
                number = begun[other] + 1
                while True:
                    if not self._was_of_another(other, number, identity):
                        break
                    number += 1
                begun[other] = numbers[other] = number
            self.waits.open.update(numbers.items())

    def _was_of_another(self, other: int, number: int, identity: Identity) -> bool:
        failed = self.mail(other, number).failed
        return failed is not None and not failed[1].fits(identity)

    def mail(self, source: int, number: int) -> Mail:
        """What has come for a run."""
        return self._mail[source].get(number) or Mail()

    def later(self, source: int, number: int) -> Running | None:
        """What a process does in a later run: it sends nothing for this one any more."""
        after = [n for n in self._mail[source] if n > number]
        return self._mail[source][min(after)].running if after else None

    def gather(
        self,
        label: Any,
        arrays: Sequence[np.ndarray],
        members: Sequence[int] | None,
        kind: str,
        what: str,
        seconds: float,
    ) -> list[Part]:
        """`Gatherings.gather`, which ends as well if this process and others wait in a circle."""
        places: set[Place] = set()

        def watch(gathering: Gathering) -> None:
            with self.world.lock:
                if not gathering.is_late(STUCK_AFTER):
                    return
                places.add(gathering.place)
                wait = Wait((0, 0, 0), gathering.what, gathering.missing)
                self.waits.stays(gathering.place, Stay({}, gathering.place, {}, (wait,)))
                circle = self.circle(gathering.place)
            if circle:
                raise ProcessFailure(
                    f"process {self.world.index} waits in {gathering.what}: {circle}"
                )

        def gather() -> list[Part]:
            try:
                return self.gatherings.gather(label, arrays, members, kind, what, seconds, watch)
            finally:
                with self.world.lock:
                    for place in places:
                        self.waits.goes_on(place)

        return run_apart(gather)

    def circle(self, where: Hashable) -> str:
        """Why what this process stays in never ends; empty: it may. Each process in a circle gets
        its error, and takes what others wait for there as passed, so that the next things are the
        same for all."""
        found = self.waits.circle(where)
        if found is None:
            return ""
        for process, stay in found.stays:
            if process == self.world.index:
                continue
            if stay.gathering:
                self.gatherings.pass_over(*stay.gathering)
            elif self.world.index in stay.numbers:
                self._pass_over(process, stay, found.text)
        return found.text

    def _pass_over(self, process: int, stay: Stay, reason: str) -> None:
        """A run in which another process stays, and which this one will never begin. Its other
        members may come to it later: they are told, as if it had failed here."""
        own, begun = self.world.index, self.waits.begun
        if begun[process] >= stay.numbers[own]:
            return
        begun[process] = stay.numbers[own]
        for other in stay.numbers:
            if other != own and other not in self.world.ended:
                begun[other] += 1
                self.world.send(other, FAILED, (begun[other], reason, stay.identity))

    def end(self, source: int, number: int) -> None:
        """Nobody reads what was sent for a run."""
        with self.world.lock:
            self.waits.open.discard((source, number))
            for old in [n for n in self._mail[source] if n <= number]:
                del self._mail[source][old]
