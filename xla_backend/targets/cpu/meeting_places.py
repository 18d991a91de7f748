"""What the participants of a native program need to meet: the layout of the memory of one run."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

from xla_backend.hlo.attributes import Value
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.exchanges import never_come
from xla_backend.process.bounded_cache import once
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.host_threads import num_threads
from xla_backend.runtime.participant_threads import Interrupted
from xla_backend.runtime.processes.identity import Identity, Site
from xla_backend.runtime.processes.joined import Joined
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.meeting_layout import (
    ANOTHER_FAILED,
    ENDED,
    ENGINE,
    ENGINE_FAILED,
    FIRST,
    HEADER_BYTES,
    HERE,
    NEVER_COME,
    PARTICIPANTS,
    SPINS,
    STILL,
    TABLES,
    numbers_start,
    places_start,
)

# Of processes that have joined; most have not.
_crossing_run = on_first_use("xla_backend.runtime.processes.crossing", "Run")

# About 20 us of looks at the others, where each participant has a processor.
_SPINS = 2000
_LINE = 64
# Why a participant ends early.
ENDS_EARLY = (NEVER_COME, ANOTHER_FAILED, ENGINE_FAILED)


class Meetings(Value):
    """The meetings of a program.

    Fields:
      participants: how many there are.
      sites: the collectives, in the order of their numbers.
      offsets: of each of them, the places of its groups in a session.
      size: bytes of a session.
    """

    participants: int
    sites: tuple[Site, ...]
    offsets: tuple[tuple[int, ...], ...]
    size: int


NO_MEETINGS = Meetings(1, (), (), places_start(1))


class EndedEarly(RuntimeFailure):
    """Another participant failed, or those that this one waits for never come."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the run of a program with several participants has ended ({status})")


@once
def _leave() -> Any:
    """void leave(session, status), for a participant that has ended."""
    address = kernel_library()["pyjax_leave"]
    function: Any = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)
    function.owner = address
    return function


class Session:
    """The memory by which the participants of one run meet. It lives until all of them have left.

    Attributes:
      address: of the memory.
      is_shared: whether there are participants in other processes.
    """

    is_shared = False

    def __init__(self, meetings: Meetings, participants: int) -> None:
        """`participants`: how many there are in this process."""
        self._meetings = meetings
        self._memory = ctypes.create_string_buffer(meetings.size + _LINE)
        start = ctypes.addressof(self._memory)
        self.address = start + -start % _LINE
        self._word(PARTICIPANTS).value = participants
        self._word(SPINS).value = _SPINS if participants <= num_threads() else 0
        self._leave = _leave()
        self._interrupted = False

    def _word(self, offset: int) -> ctypes.c_int32:
        return ctypes.c_int32.from_address(self.address + offset)

    def begin(self) -> None:
        """The run begins; from then on it must end."""

    def leave(self, failed: bool) -> None:
        """A participant has ended."""
        self._leave(self.address, failed)

    def stop(self) -> None:
        """Participants that wait, or will, give up."""
        self._word(ENDED).value = ANOTHER_FAILED

    def interrupt(self) -> None:
        """Whoever waits for the run was interrupted: it is to stop."""
        self._interrupted = True
        self.stop()

    def cause(self, errors: Sequence[BaseException]) -> BaseException:
        """Of the errors of participants, the one that the others follow from."""
        first = next((e for e in errors if not isinstance(e, EndedEarly)), None)
        if first is not None:
            return first
        return Interrupted("it was interrupted") if self._interrupted else self._nobody_came()

    def _nobody_came(self) -> BaseException:
        """Why all participants here ended early, where nothing failed in them."""
        return never_come(self._waiting())

    def end(self, error: BaseException | None) -> None:
        """All participants here have left; the run failed if there is an error."""

    def _waiting(self) -> dict[int, str]:
        """Where each participant waited last, by their numbers."""
        count, sites = self._meetings.participants, self._meetings.sites
        places = [self._word(HEADER_BYTES + 4 * n).value for n in range(count)]
        return {n: sites[place - 1].name for n, place in enumerate(places) if place}


class SharedSession(Session):
    """A session of a run that has participants in other processes as well. Its methods, but for
    `interrupt`, are called where no handler of a signal raises."""

    is_shared = True

    def __init__(
        self,
        meetings: Meetings,
        joined: Joined,
        processes: Sequence[int],
        name: str,
        identity: Identity,
    ) -> None:
        """
        Args:
          processes: of each participant.
          name: of the program, for messages.   identity: of it.
        """
        own = joined.world.index
        super().__init__(meetings, sum(process == own for process in processes))
        own_session = weakref.ref(self)

        def watch() -> int:
            session = own_session()
            assert session is not None  # who runs it has it
            return session._moving()

        self._run = _crossing_run(joined.exchanges, name, identity, processes, watch)
        self._failures: list[BaseException] = []  # of exchanges
        self._groups: dict[int, int] = {}
        for site, offsets in zip(meetings.sites, meetings.offsets):
            for number, (group, offset) in enumerate(zip(site.exchange.groups, offsets)):
                here = [r for r, member in enumerate(group) if processes[member] == own]
                if here and len(here) < len(group):
                    self._groups[offset] = number
                    self._set_place(offset, len(group), here)
        ctypes.c_void_p.from_address(self.address + ENGINE).value = _engine_address

    def _set_place(self, offset: int, size: int, here: Sequence[int]) -> None:
        self._word(offset + HERE).value = len(here)
        self._word(offset + FIRST).value = here[0]
        for number, rank in enumerate(here):
            self._word(offset + numbers_start(size) + 4 * rank).value = number

    def exchange(self, place: int, number: int) -> None:
        """What the engine does for a place, in the meeting of this number."""
        try:
            group = self._groups[place - self.address]
            self._run.exchange(number, self._meetings.sites[number - 1], group, place + TABLES)
        except EndedEarly:
            raise
        except BaseException as error:
            self._failures.append(error)
            raise

    def _moving(self) -> int:
        """How many participants do not stand still.

        Raises:
          EndedEarly: the run has ended.
        """
        status = self._word(ENDED).value
        if status:
            raise EndedEarly(status)
        return self._word(PARTICIPANTS).value - self._word(STILL).value

    def begin(self) -> None:
        _sessions[self.address] = self
        self._run.begin()

    def _nobody_came(self) -> BaseException:
        return self._failures[0] if self._failures else super()._nobody_came()

    def end(self, error: BaseException | None) -> None:
        self._run.end(error)
        _sessions.pop(self.address, None)


# Those that have begun, by their addresses, for the engine.
_sessions: dict[int, SharedSession] = {}


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
def _engine(session: int, place: int, number: int) -> int:
    """1; an exception makes it 0."""
    try:
        _sessions[session].exchange(place, number)
        return 1
    except BaseException:  # the session has it
        return 0


_engine_address = ctypes.cast(_engine, ctypes.c_void_p).value
