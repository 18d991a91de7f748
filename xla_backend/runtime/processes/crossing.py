"""Collectives whose members are in several processes.

The members of a group that are in this process have met, and one of them calls for the others:
`Run.exchange` sends what other processes read of their operands, takes what comes from there into
memory here, and puts addresses of it where members look for those of the absent. From there on it
is as if all were here; sums are made in the order of the group, with the bits that they have in one
process.
"""

from __future__ import annotations

import ctypes
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from xla_backend.debug_options import current_debug_options
from xla_backend.runtime.processes.errors import ALIKE, ProcessFailure
from xla_backend.runtime.processes.exchanges import EXCHANGE, FAILED, STUCK_AFTER, Exchanges, Mail
from xla_backend.runtime.processes.identity import Identity, Site, difference
from xla_backend.runtime.processes.mpi import Sending
from xla_backend.runtime.processes.operands import bytes_of, cuts, placed
from xla_backend.runtime.processes.waits import Key, Stay, Wait

logger = logging.getLogger(__name__)
_LONGEST_REASON = 2000


class Run:
    """One run of a program with participants in several processes; `end` follows on `begin`.
    Threads call these on which no handler of a signal raises."""

    def __init__(
        self,
        exchanges: Exchanges,
        program: str,
        identity: Identity,
        processes: Sequence[int],
        watch: Callable[[], int],
    ) -> None:
        """
        Args:
          program: for messages.   identity: of it.
          processes: of each participant.
          watch: how many participants here go on by themselves, those that wait in an exchange
            included; raises if they are to stop.
        """
        self._exchanges, self._world = exchanges, exchanges.world
        self._program, self._identity = program, identity
        self._processes = processes
        self._watch = watch
        self._times: dict[tuple[int, int], int] = {}
        # What participants here wait in: how many they are, and whose messages are missing.
        self._waits: dict[Key, tuple[int, str, set[int]]] = {}
        # Memory that members read until they meet there again.
        self._kept: dict[tuple[int, int], list[Any]] = {}
        self._numbers: dict[int, int] = {}

    def begin(self) -> None:
        """From now on other processes may be told of it."""
        others = sorted({*self._processes} - {self._world.index})
        self._exchanges.begin(others, self._identity, self._numbers)

    def exchange(self, number: int, site: Site, group_number: int, tables: int) -> None:
        """Bring what members of a group here read of the others.

        Args:
          number: of the site in the program.
          tables: address of those of members: addresses of their operands, and of their results.
        Raises:
          ProcessFailure: another process has ended, failed, or is elsewhere.
        """
        place = (number, group_number)
        times = self._times[place] = self._times.get(place, 0) + 1
        key = (*place, times)
        group = site.exchange.groups[group_number]
        by_process: dict[int, list[int]] = {}
        for rank, participant in enumerate(group):
            by_process.setdefault(self._processes[participant], []).append(rank)
        here = by_process.pop(self._world.index)
        shown = (ctypes.c_void_p * len(group)).from_address(tables)
        running = (tuple(self._identity), self._program, site.name)
        sent: dict[int, Sending] = {}
        for other, readers in by_process.items():
            arrays = [
                cut.of(bytes_of(shown[rank], operand, site.operands[operand].byte_size))
                for rank, operand, cut in cuts(site, group, here, readers)
            ]
            head = (self._numbers[other], key, *running)
            sent[other] = self._world.send(other, EXCHANGE, head, arrays)
        missing = {*by_process}
        kept: list[Any] = []

        def ready() -> bool | None:
            for other in [*missing]:
                mail = self._exchanges.mail(other, self._numbers[other])
                payload = mail.messages.pop(key, None)
                if payload is None:
                    continue
                self._check(other, mail, site)
                missing.discard(other)
                coming = cuts(site, group, by_process[other], here)
                kept.extend(placed(site, by_process[other], coming, payload, shown))
            return True if not missing and all(s.done for s in sent.values()) else None

        def awaited() -> set[int]:
            # Who has a large message soon has it if both look after it.
            return missing or {other for other, sending in sent.items() if not sending.done}

        with self._world.lock:
            self._waits[key] = (len(here), site.name, missing)
        try:
            self._wait(ready, awaited, missing, key, site)
        finally:
            with self._world.lock:
                del self._waits[key]
                self._exchanges.waits.goes_on(self)
        self._kept[place] = kept

    def _wait(
        self,
        ready: Callable[[], bool | None],
        awaited: Callable[[], set[int]],
        missing: set[int],
        key: Key,
        site: Site,
    ) -> None:
        flags = current_debug_options()
        seconds = float(flags.xla_cpu_collective_timeout_seconds)
        start = time.monotonic()
        stuck_from = start + STUCK_AFTER
        warn_after = [float(flags.xla_cpu_collective_call_warn_stuck_timeout_seconds)]
        what = f"process {self._world.index} waits in {site.name} of {self._program}"

        def watch() -> None:
            moving = self._watch()
            with self._world.lock:
                # Another thread may have taken a message since, and those that came behind it.
                absent = [n for n in sorted(missing) if not self._has_come(n, key)]
                for other in absent:
                    self._check(other, self._exchanges.mail(other, self._numbers[other]), site)
                    self._check_later(other, site)
                if warn_after and time.monotonic() > start + warn_after[0]:
                    waited = warn_after.pop()
                    who = ", ".join(map(str, absent))
                    logger.warning(
                        "%s for more than %g s: processes %s are missing", what, waited, who
                    )
                waiting = sum(count for count, _, _ in self._waits.values())
                if moving == waiting and time.monotonic() > stuck_from:
                    self._check_circle(site, absent)

        try:
            self._world.until(ready, awaited, what, seconds, watch)
        except ProcessFailure as error:
            error.collectives = (site.name,)
            raise

    def _check_circle(self, site: Site, absent: Sequence[int]) -> None:
        """Nobody here can go on without messages; whether they ever come."""
        waits = self._exchanges.waits
        stay = Stay(
            self._numbers,
            (),
            {**self._times},
            tuple(
                Wait(key, f"{name} of {self._program}", tuple(sorted(others)))
                for key, (_, name, others) in self._waits.items()
            ),
            tuple(self._identity),
        )
        waits.stays(self, stay)
        circle = self._exchanges.circle(self)
        if circle:
            self._fail(site, circle)
        for other in absent:
            if waits.has_left(other, self._numbers[other]):
                self._fail(site, f"process {other} has left it; {ALIKE}")

    def _has_come(self, other: int, key: Key) -> bool:
        return key in self._exchanges.mail(other, self._numbers[other]).messages

    def _check(self, other: int, mail: Mail, site: Site) -> None:
        if mail.running is not None and not mail.running.identity.fits(self._identity):
            self._fail(site, f"process {other} {difference(mail.running, self._identity)}")
        if mail.failed is not None:
            self._fail(site, f"process {other} failed in this run: {mail.failed[0]}")

    def _check_later(self, other: int, site: Site) -> None:
        later = self._exchanges.later(other, self._numbers[other])
        if later is not None:
            self._fail(site, f"process {other} has left it, and runs {later}; {ALIKE}")

    def _fail(self, site: Site, what: str) -> None:
        error = ProcessFailure(
            f"process {self._world.index} waits in {site.name} of {self._program}: {what}"
        )
        error.collectives = (site.name,)
        raise error

    def end(self, error: BaseException | None) -> None:
        """It has ended here. Others that wait for this process are told of an error. Nothing is
        exchanged any more, and no memory kept."""
        self._kept.clear()
        numbers, self._numbers = self._numbers, {}
        for other, number in numbers.items():
            if error is not None and other not in self._world.ended:
                reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
                self._world.send(other, FAILED, (number, reason, tuple(self._identity)))
            self._exchanges.end(other, number)
