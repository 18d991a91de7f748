"""What the participants of a native program need to meet: the layout of the memory of one run."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from xla_backend.hlo.attributes import Value
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.exchanges import never_come
from xla_backend.process.bounded_cache import once
from xla_backend.runtime.host_threads import num_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.meetings import (
    ANOTHER_FAILED,
    ENDED,
    HEADER_BYTES,
    PARTICIPANTS,
    SPINS,
    places_start,
)

# About 20 us of looks at the others, where each participant has a processor.
_SPINS = 2000
_LINE = 64


class Meetings(Value):
    """The meetings of a program.

    Fields:
      participants: how many there are.
      names: of the collectives, in the order of their numbers, for messages.
      size: bytes of a session.
    """

    participants: int
    names: tuple[str, ...]
    size: int


NO_MEETINGS = Meetings(1, (), places_start(1))


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
    """

    def __init__(self, meetings: Meetings) -> None:
        self._meetings = meetings
        self._memory = ctypes.create_string_buffer(meetings.size + _LINE)
        start = ctypes.addressof(self._memory)
        self.address = start + -start % _LINE
        count = meetings.participants
        self._word(PARTICIPANTS).value = count
        self._word(SPINS).value = _SPINS if count <= num_threads() else 0
        self._leave = _leave()

    def _word(self, offset: int) -> ctypes.c_int32:
        return ctypes.c_int32.from_address(self.address + offset)

    def leave(self, failed: bool) -> None:
        """A participant has ended."""
        self._leave(self.address, failed)

    def stop(self) -> None:
        """Participants that wait, or will, give up."""
        self._word(ENDED).value = ANOTHER_FAILED

    def cause(self, errors: Sequence[BaseException]) -> BaseException:
        """Of the errors of participants, the one that the others follow from."""
        first = next((e for e in errors if not isinstance(e, EndedEarly)), None)
        return never_come(self._waiting()) if first is None else first

    def _waiting(self) -> dict[int, str]:
        """Where each participant waited last, by their numbers."""
        count, names = self._meetings.participants, self._meetings.names
        places = [self._word(HEADER_BYTES + 4 * n).value for n in range(count)]
        return {n: names[place - 1] for n, place in enumerate(places) if place}
