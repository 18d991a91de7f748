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
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from xla_backend.debug_options import current_debug_options
from xla_backend.hlo.attributes import Value
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.exchanges import Exchange
from xla_backend.hlo.shape import Shape
from xla_backend.runtime.processes.errors import ALIKE, ProcessFailure
from xla_backend.runtime.processes.mpi import ALIGNMENT, Sending, aligned_bytes
from xla_backend.runtime.processes.needs import Cut, Reading
from xla_backend.runtime.processes.waits import Key, Stay, Wait, Waits
from xla_backend.runtime.processes.world import Gathering, World

logger = logging.getLogger(__name__)
_TOPIC, _FAILED = "exchange", "failed"
# Seconds after which a process says that it cannot go on by itself.
_STUCK_AFTER = 0.5
_LONGEST_REASON = 2000


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


class _Mail:
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
      waits: what all processes wait in.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.waits = Waits(world)
        self._mail: dict[int, dict[int, _Mail]] = {other: {} for other in world.others}
        world.on(_TOPIC, self._keep)
        world.on(_FAILED, self._keep_failure)

    def _keep(self, source: int, head: Any, payload: np.ndarray) -> None:
        number, key, identity, *texts = head
        mail = self._mail[source].setdefault(number, _Mail())
        mail.running = mail.running or Running(Identity(*identity), *texts)
        mail.messages[key] = payload

    def _keep_failure(self, source: int, head: Any, payload: np.ndarray) -> None:
        number, reason, identity = head
        mail = self._mail[source].setdefault(number, _Mail())
        mail.failed = (reason, Identity(*identity))

    def begin(self, others: Sequence[int], identity: Identity, numbers: dict[int, int]) -> None:
        """Put the numbers of a run with other processes there. What another one has given up
        already, and is another program, is none that this process will ever come to: it is passed
        over."""
        try:
            self._begin(others, identity, numbers)
        except BaseException:  # of a signal's handler: what is begun is known to be
            self._begin(others, identity, numbers)
            raise

    def _begin(self, others: Sequence[int], identity: Identity, numbers: dict[int, int]) -> None:
        begun = self.waits.begun
        with self.world.lock:
            for other in others:
                if other not in numbers:
                    number = begun[other] + 1
                    while self._was_of_another(other, number, identity):
                        number += 1
                    numbers[other] = number
                begun[other] = max(begun[other], numbers[other])
            self.waits.open.update(numbers.items())

    def _was_of_another(self, other: int, number: int, identity: Identity) -> bool:
        failed = self.mail(other, number).failed
        return failed is not None and not failed[1].fits(identity)

    def mail(self, source: int, number: int) -> _Mail:
        """What has come for a run."""
        return self._mail[source].get(number) or _Mail()

    def later(self, source: int, number: int) -> Running | None:
        """What a process does in a later run: it sends nothing for this one any more."""
        after = [n for n in self._mail[source] if n > number]
        return self._mail[source][min(after)].running if after else None

    def watch_gathering(self, gathering: Gathering) -> None:
        """This process waits for values of others, for which nobody waits in a circle.

        Raises:
          ProcessFailure: somebody does.
        """
        with self.world.lock:
            if not gathering.is_late(_STUCK_AFTER):
                return
            wait = Wait((0, 0, 0), gathering.what, gathering.missing)
            self.waits.stays(gathering.place, Stay({}, gathering.place, {}, (wait,)))
            circle = self.waits.circle(gathering.place)
            if circle:
                raise ProcessFailure(
                    f"process {self.world.index} waits in {gathering.what}: {circle}"
                )

    def end_gathering(self, gathering: Gathering) -> None:
        """It waits no more."""
        with self.world.lock:
            self.waits.goes_on(gathering.place)

    def end(self, source: int, number: int) -> None:
        """Nobody reads what was sent for a run."""
        with self.world.lock:
            self.waits.open.discard((source, number))
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
        self.failure: BaseException | None = None
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
        exchanges.begin(sorted({*processes} - {self._world.index}), identity, self._numbers)

    def __del__(self) -> None:
        # Whoever made it was interrupted before it could begin anything.
        if self._numbers:
            self.end(RuntimeFailure("it was interrupted"))

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
        stuck_from = start + _STUCK_AFTER
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
            error.collective = site.name
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
        )
        waits.stays(self, stay)
        circle = waits.circle(self)
        if circle:
            self._fail(site, circle)
        for other in absent:
            if waits.has_left(other, self._numbers[other]):
                self._fail(site, f"process {other} has left it; {ALIKE}")

    def _has_come(self, other: int, key: Key) -> bool:
        return key in self._exchanges.mail(other, self._numbers[other]).messages

    def _check(self, other: int, mail: _Mail, site: Site) -> None:
        if mail.running is not None and not mail.running.identity.fits(self._identity):
            self._fail(site, f"process {other} {_difference(mail.running, self._identity)}")
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
        error.collective = site.name
        raise error

    def end(self, error: BaseException | None) -> None:
        """It has ended here. Others that wait for this process are told of an error. Nothing is
        exchanged any more, and no memory kept."""
        self._kept.clear()
        numbers, self._numbers = self._numbers, {}
        for other, number in numbers.items():
            if error is not None and other not in self._world.ended:
                reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
                self._world.send(other, _FAILED, (number, reason, tuple(self._identity)))
            self._exchanges.end(other, number)


def _difference(theirs: Running, own: Identity) -> str:
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
