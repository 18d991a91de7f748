"""Other processes on this machine, of whose end the system tells at once."""

from __future__ import annotations

import os
import select
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def own_name() -> tuple[str, int]:
    """Where this process runs, and its number there; no place if the system does not tell others of
    its end."""
    if not hasattr(os, "pidfd_open"):
        return "", 0
    try:
        return f"{_BOOT.read_text().strip()} {os.readlink('/proc/self/ns/pid')}", os.getpid()
    except OSError:  # no /proc
        return "", 0


class Peers:
    """Processes whose end is looked for."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._gone: list[int] = []
        self._poll = select.poll() if hasattr(select, "poll") else None

    def watch(self, number: int, name: tuple[str, int]) -> None:
        """Look for the end of a process, if it runs on this machine.

        Args:
          number: in the program.   name: what `own_name` gave it.
        """
        place, own = own_name()[0], name[0]
        if self._poll is None or not place or place != own:
            return
        try:
            descriptor = os.pidfd_open(name[1])
        except ProcessLookupError:
            self._gone.append(number)
        except OSError:  # an older system, or none left: silence tells of its end
            return
        else:
            self._open[descriptor] = number
            self._poll.register(descriptor, select.POLLIN)

    def gone(self) -> list[int]:
        """Those that have ended since the last call."""
        found, self._gone = self._gone, []
        if self._poll is None or not self._open:
            return found
        for descriptor, _ in self._poll.poll(0):
            self._poll.unregister(descriptor)
            os.close(descriptor)
            found.append(self._open.pop(descriptor))
        return found
