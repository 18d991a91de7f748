"""Collectives whose members are in several processes.

The members of a group that are in this process have met, and one of them calls for the others:
`Run.exchange` sends what other processes read of their operands, takes what comes from there into
memory here, and puts addresses of it where members look for those of the absent. From there on it
is as if all were here; sums are made in the order of the group, with the bits that they have in one
process.

Each message says which run, program and collective it is of, so that processes which do not do the
same are told so. Runs are numbered for each pair of processes.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from xla_backend.debug_options import current_debug_options
from xla_backend.hlo.attributes import Value
from xla_backend.hlo.exchanges import Exchange
from xla_backend.hlo.shape import Shape
from xla_backend.runtime.processes.errors import ProcessFailure
from xla_backend.runtime.processes.mpi import ALIGNMENT, Sending, aligned_bytes
from xla_backend.runtime.processes.needs import Cut, Reading
from xla_backend.runtime.processes.world import World

_TOPIC, _FAILED, _STUCK = "exchange", "failed", "stuck"
# Seconds after which a process says that it cannot go on by itself.
_STUCK_AFTER = 0.5
_LONGEST_REASON = 2000
_ALIKE = "all processes must run the same programs in the same order, on arrays of the same shapes"


# Of an exchange in a run: the number of its site, of the group, and how often it was there.
_Key = tuple[int, int, int]


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


class Running(NamedTuple):
    """What a process says it runs.

    Fields:
      identity: equal for programs that can run together.   program, site: for messages.
    """

    identity: str
    program: str
    site: str

    def __str__(self) -> str:
        return f"{self.site} of {self.program}"


class _Mail:
    """What another process has sent for one run.

    Attributes:
      running: the first collective that it came to.   failed: why it gave the run up.
      waits: what it waits in, if nobody there can go on: the key, the collective, and whose
        messages are missing.
    """

    __slots__ = ("failed", "messages", "running", "waits")

    def __init__(self) -> None:
        self.running: Running | None = None
        self.failed = ""
        self.waits: tuple[tuple[_Key, str, tuple[int, ...]], ...] = ()
        self.messages: dict[_Key, np.ndarray] = {}


class Exchanges:
    """The runs that this process has begun with others, and their messages."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._begun = dict.fromkeys(world.others, 0)
        self._mail: dict[int, dict[int, _Mail]] = {other: {} for other in world.others}
        world.on(_TOPIC, self._keep)
        world.on(_FAILED, self._keep_failure)
        world.on(_STUCK, self._keep_waits)

    def _keep(self, source: int, head: Any, payload: np.ndarray) -> None:
        number, key, *running = head
        mail = self._mail[source].setdefault(number, _Mail())
        mail.running = mail.running or Running(*running)
        mail.messages[key] = payload

    def _keep_failure(self, source: int, head: Any, payload: np.ndarray) -> None:
        number, reason = head
        self._mail[source].setdefault(number, _Mail()).failed = reason

    def _keep_waits(self, source: int, head: Any, payload: np.ndarray) -> None:
        number, waits = head
        self._mail[source].setdefault(number, _Mail()).waits = waits

    def begin(self, others: Sequence[int]) -> dict[int, int]:
        """Numbers of a run with other processes."""
        with self.world.lock:
            for other in others:
                self._begun[other] += 1
            return {other: self._begun[other] for other in others}

    def mail(self, source: int, number: int) -> _Mail:
        """What has come for a run."""
        return self._mail[source].get(number) or _Mail()

    def later(self, source: int, number: int) -> Running | None:
        """What a process does in a later run: it sends nothing for this one any more."""
        after = [n for n in self._mail[source] if n > number]
        return self._mail[source][min(after)].running if after else None

    def check_not_ahead(self, others: Sequence[int], what: str) -> None:
        """Others that this process waits for do not wait themselves in a run that it has not begun.

        Raises:
          ProcessFailure: one does; `what`: this process waits in.
        """
        with self.world.lock:
            for other in others:
                for number, mail in self._mail[other].items():
                    if number > self._begun[other] and mail.waits and mail.running is not None:
                        raise ProcessFailure(
                            f"{what}: process {other} waits in {mail.running}; {_ALIKE}"
                        )

    def end(self, source: int, number: int) -> None:
        """Nobody reads what was sent for a run."""
        with self.world.lock:
            for old in [n for n in self._mail[source] if n <= number]:
                del self._mail[source][old]


class Run:
    """One run of a program with participants in several processes.

    Attributes:
      failure: what went wrong in an exchange.
    """

    def __init__(
        self,
        exchanges: Exchanges,
        program: str,
        identity: str,
        processes: Sequence[int],
        watch: Callable[[], int],
    ) -> None:
        """
        Args:
          program: for messages.   identity: equal for programs that can run together.
          processes: of each participant.
          watch: how many participants here go on by themselves, those that wait in an exchange
            included; raises if they are to stop.
        """
        self.failure: BaseException | None = None
        self._exchanges, self._world = exchanges, exchanges.world
        self._program, self._identity = program, identity
        self._processes = processes
        self._watch = watch
        self._numbers = exchanges.begin(sorted({*processes} - {self._world.index}))
        self._times: dict[tuple[int, int], int] = {}
        # What participants here wait in: how many they are, and whose messages are missing.
        self._waits: dict[_Key, tuple[int, str, set[int]]] = {}
        self._told: Any = ()
        # Memory that members read until they meet there again.
        self._kept: dict[tuple[int, int], list[Any]] = {}

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
        running = (self._identity, self._program, site.name)
        sent: dict[int, Sending] = {}
        for other, readers in by_process.items():
            arrays = [
                cut.of(_bytes(shown[rank], operand, site.operands[operand].byte_size))
                for rank, operand, cut in _cuts(site, group, here, readers)
            ]
            head = (self._numbers[other], key, *running)
            sent[other] = self._world.send(other, _TOPIC, head, arrays)
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
                cuts = _cuts(site, group, by_process[other], here)
                kept.extend(_placed(site, by_process[other], cuts, payload, shown))
            return True if not missing and all(s.done for s in sent.values()) else None

        def awaited() -> set[int]:
            # Who has a large message soon has it if both look after it.
            return missing or {other for other, sending in sent.items() if not sending.done}

        with self._world.lock:
            self._waits[key] = (len(here), site.name, missing)
        try:
            self._wait(ready, awaited, missing, site)
        finally:
            with self._world.lock:
                del self._waits[key]
        self._kept[place] = kept

    def _wait(
        self,
        ready: Callable[[], bool | None],
        awaited: Callable[[], set[int]],
        missing: set[int],
        site: Site,
    ) -> None:
        flags = current_debug_options()
        seconds = float(flags.xla_cpu_collective_timeout_seconds)
        stuck_from = time.monotonic() + _STUCK_AFTER

        def watch() -> None:
            moving = self._watch()
            with self._world.lock:
                for other in missing:
                    self._check(other, self._exchanges.mail(other, self._numbers[other]), site)
                    self._check_later(other, site)
                waiting = sum(count for count, _, _ in self._waits.values())
                if moving == waiting and time.monotonic() > stuck_from:
                    self._tell_stuck()
                    self._check_stuck(site)

        what = f"process {self._world.index} waits in {site.name} of {self._program}"
        try:
            self._world.until(ready, awaited, what, seconds, watch)
        except ProcessFailure as error:
            error.collective = site.name
            raise

    def _tell_stuck(self) -> None:
        """Nobody here can go on without messages: others get to know what they wait in."""
        waits = tuple(
            (key, name, tuple(sorted(missing))) for key, (_, name, missing) in self._waits.items()
        )
        if waits != self._told:
            self._told = waits
            for other, number in self._numbers.items():
                self._world.send(other, _STUCK, (number, waits))

    def _check_stuck(self, site: Site) -> None:
        """Whether each exchange here waits for a process in which all wait for what this one has
        not sent, and so will never send: neither can go on, whatever others do."""
        found = []
        for key, (_, _, missing) in self._waits.items():
            stuck = [other for other in missing if self._is_stuck_on(other, key)]
            if not stuck:
                return
            found += stuck
        other = found[0]
        places = " and ".join(
            name for _, name, _ in self._exchanges.mail(other, self._numbers[other]).waits
        )
        self._fail(
            site,
            f"process {other} waits in {places}; all members of a group must run the same "
            "collectives in the same order",
        )

    def _is_stuck_on(self, other: int, key: _Key) -> bool:
        mail = self._exchanges.mail(other, self._numbers[other])
        return (
            bool(mail.waits)
            and key not in mail.messages
            and all(
                self._world.index in missing and theirs[2] > self._times.get(theirs[:2], 0)
                for theirs, _, missing in mail.waits
            )
        )

    def _check(self, other: int, mail: _Mail, site: Site) -> None:
        theirs = mail.running
        if theirs is not None and theirs.identity != self._identity:
            self._fail(site, f"process {other} runs {theirs} instead; {_ALIKE}")
        if mail.failed:
            self._fail(site, f"process {other} failed in this run: {mail.failed}")

    def _check_later(self, other: int, site: Site) -> None:
        later = self._exchanges.later(other, self._numbers[other])
        if later is not None:
            self._fail(site, f"process {other} has left it, and runs {later}; {_ALIKE}")

    def _fail(self, site: Site, what: str) -> None:
        error = ProcessFailure(
            f"process {self._world.index} waits in {site.name} of {self._program}: {what}"
        )
        error.collective = site.name
        raise error

    def end(self, error: BaseException | None) -> None:
        """It has ended here. Others that wait for this process are told of an error. Nothing is
        exchanged any more, and no memory kept."""
        del self._watch  # whoever made it has this run
        self._kept.clear()
        for other, number in self._numbers.items():
            if error is not None and other not in self._world.ended:
                reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
                self._world.send(other, _FAILED, (number, reason))
            self._exchanges.end(other, number)


def _cuts(
    site: Site, group: Sequence[int], sources: Sequence[int], readers: Sequence[int]
) -> Iterator[tuple[int, int, Cut]]:
    """What members in one process read of members in another: rank of the source, number of the
    operand, and the part of it."""
    for source in sources:
        reading = Reading(site.exchange, tuple(group), source, readers)
        for operand, shape in enumerate(site.operands):
            cut = reading.cut(operand, shape)
            if cut is not None:
                yield source, operand, cut


def _bytes(table: int | None, operand: int, nbytes: int) -> np.ndarray:
    """An operand of a member whose table has this address."""
    assert table is not None
    address = ctypes.c_void_p.from_address(table + ctypes.sizeof(ctypes.c_void_p) * operand).value
    assert address is not None
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def _placed(
    site: Site,
    sources: Sequence[int],
    cuts: Iterator[tuple[int, int, Cut]],
    payload: np.ndarray,
    shown: Any,
) -> Iterator[Any]:
    """Show the tables of members in another process; what is to be kept as long as they are read.

    Args:
      sources: ranks of those members.   payload: the cuts, one behind the other.
      shown: the addresses of tables, by rank.
    """
    tables: dict[int, Any] = {}
    for rank in sources:
        tables[rank] = (ctypes.c_void_p * (len(site.operands) + site.results))()
        shown[rank] = ctypes.addressof(tables[rank])
        yield tables[rank]
    yield payload
    start = 0
    for rank, operand, cut in cuts:
        nbytes = site.operands[operand].byte_size
        part = payload[start : start + cut.size(nbytes)]
        start += -(-part.nbytes // ALIGNMENT) * ALIGNMENT
        if not cut.is_everything:
            whole = aligned_bytes(nbytes)
            cut.put(whole, part)
            part = whole
            yield whole
        tables[rank][operand] = part.ctypes.data
