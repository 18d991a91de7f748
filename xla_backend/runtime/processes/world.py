"""The processes that run a program together: messages by topic, who is still there, and waiting.

  world = World(transport, heartbeat_timeout)
  world.on(topic, handle)             # handle(source, head, payload), of each message that comes
  world.send(to, topic, head, arrays)
  world.until(ready, sources, what)   # waits, for processes that are there

A thread looks for messages when nobody waits for one, tells the others that this process lives, and
notices who is silent. No handler of a signal may raise in the middle of this, which would lose what
has come: so it is never done on the main thread, but at its end (see `participant_threads`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from xla_backend.process.forks import LEAF, take_for_forks
from xla_backend.runtime.participant_threads import check_interrupt
from xla_backend.runtime.processes.errors import ProcessFailure, ProcessTimeout
from xla_backend.runtime.processes.frames import frame, read
from xla_backend.runtime.processes.mpi import MpiTransport, Sending
from xla_backend.runtime.processes.peers import Peers

Result = TypeVar("Result")
# Takes who sent a message, its head, and its bytes.
Handler = Callable[[int, Any, np.ndarray], None]

# Seconds between looks at messages of the thread that does nothing else: when nothing is under way,
# and while something is.
_IDLE, _BUSY = 2e-3, 2e-4
# Seconds between looks for the end of processes.
_PEERS = 0.1
# Looks of somebody who waits until sleeps get longer, and the longest sleep.
_EAGER_LOOKS, _LONGEST_NAP = 200, 1e-3
_ALIVE, _ENDED = "alive", "ended"


class World:
    """Who takes part, what they send each other, and who is still there.

    Attributes:
      index: number of this process.   count: how many there are.
      lock: held around all that handlers of messages look at.
      ended: processes that run no more, and why.   lost: those of them that have not said so.
    """

    def __init__(self, transport: MpiTransport, heartbeat_timeout: float) -> None:
        self.index, self.count = transport.index, transport.count
        self.others = [n for n in range(self.count) if n != self.index]
        self.lock = threading.RLock()
        take_for_forks(self.lock, LEAF)
        self.ended: dict[int, str] = {}
        self.lost: set[int] = set()
        self._transport = transport
        self._handlers: dict[str, Handler] = {}
        self._patience = heartbeat_timeout
        now = time.monotonic()
        self._heard = dict.fromkeys(self.others, now)
        self._next_beat = now
        self._peers = Peers()
        self._next_peers = now
        self._stop = threading.Event()
        self._process = os.getpid()
        self.on(_ALIVE, lambda source, head, payload: None)
        self.on(_ENDED, self._other_ended)
        self._thread = threading.Thread(target=self._look_after, name="pyjax MPI", daemon=True)

    def start(self, names: Sequence[tuple[str, int]]) -> None:
        """All have joined; messages are handled from now on.

        Args:
          names: of the processes, as `own_name` gave them.
        """
        for other in self.others:
            self._peers.watch(other, names[other])
        self._transport.release_files()
        self._thread.start()

    # -- messages ----------------------------------------------------------------------------------

    def on(self, topic: str, handle: Handler) -> None:
        """From now on messages of a topic are handled so, with the lock held."""
        self._handlers[topic] = handle

    def send(
        self, to: int, topic: str, head: Any = (), arrays: Sequence[np.ndarray] = ()
    ) -> Sending:
        """Send a message; it goes on while the caller does.

        Args:
          head: of numbers, strings, bytes, and tuples and dicts of them.
          arrays: of uint8, which are copied.
        """
        if self.is_inherited:
            raise ProcessFailure("a child of a fork has no part in the program of its parent")
        message = frame(topic, head, arrays)
        with self.lock:
            return self._transport.send(to, message)

    def progress(self) -> None:
        """Handle what has come."""
        with self.lock:
            for source, message in self._transport.receive():
                self._heard[source] = time.monotonic()
                topic, head, payload = read(message)
                self._handlers[topic](source, head, payload)

    def until(
        self,
        ready: Callable[[], Result | None],
        sources: Callable[[], Iterable[int]],
        what: str,
        seconds: float,
        watch: Callable[[], None] = lambda: None,
    ) -> Result:
        """Wait until `ready()`, called with the lock held, gives something.

        Args:
          sources: the processes that it still waits for.
          what: it waits in, for messages.
          watch: raises if it is to stop.
        Raises:
          ProcessFailure: one of the sources has ended.
          ProcessTimeout: so many seconds have passed.
          Interrupted: whoever waits for this task was.
        """
        deadline = time.monotonic() + seconds
        looks = 0
        while True:
            with self.lock:
                self.progress()
                found = ready()
                if found is None:
                    missing = list(sources())
                    gone = next((n for n in missing if n in self.ended), None)
            if found is not None:
                return found
            check_interrupt()
            watch()
            if gone is not None:
                raise ProcessFailure(f"{what}: process {gone} {self.ended[gone]}")
            if time.monotonic() > deadline:
                raise ProcessTimeout(f"{what}: {_named(missing)} did not come within {seconds:g} s")
            looks = 0 if self._transport.is_busy else looks + 1
            late = looks - _EAGER_LOOKS
            time.sleep(0 if late < 0 else min(_LONGEST_NAP, 2e-5 * late))

    # -- life --------------------------------------------------------------------------------------

    def _other_ended(self, source: int, reason: str, payload: np.ndarray) -> None:
        self.ended.setdefault(source, reason)

    def end(self, reason: str) -> None:
        """Tell the others that this process is about to end, and why."""
        for other in self.others:
            if other not in self.lost:
                self.send(other, _ENDED, reason)

    def close(self, seconds: float) -> bool:
        """Leave, when all others do; whether all have done so within so many seconds. Nothing is
        sent or received any more."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and len(self.ended) < len(self.others):
            self.progress()
            time.sleep(_LONGEST_NAP)
        while time.monotonic() < deadline and self._transport.is_sending:
            self.progress()
        self._stop.set()
        self._thread.join(1.0)
        return len(self.ended) == len(self.others) and not self.lost

    def absent(self) -> str:
        """Which others are lost, or have not ended, for messages."""
        gone = [f"process {other} {self.ended[other]}" for other in sorted(self.lost)]
        late = [other for other in self.others if other not in self.ended]
        return "; ".join([*gone, *([f"{_named(late)} did not end"] if late else [])])

    @property
    def is_inherited(self) -> bool:
        """Whether this is a child of a fork, which has no part in it."""
        return os.getpid() != self._process

    def abort(self) -> None:
        """End all processes at once, this one too."""
        self._transport.abort()

    def _look_after(self) -> None:
        """What the thread does."""
        while not self._stop.wait(_BUSY if self._transport.is_busy else _IDLE):
            if self.is_inherited:
                return
            try:
                self.progress()
            except ProcessFailure as error:
                self._lose(self.others, f"is out of reach: {error}")
                return
            now = time.monotonic()
            if now >= self._next_peers:
                self._next_peers = now + _PEERS
                self._lose_peers()
            if now < self._next_beat:
                continue
            self._next_beat = now + self._patience / 10
            for other in self.others:
                silent = now - self._heard[other]
                if other in self.ended:
                    continue
                if silent > self._patience:
                    self._lose([other], f"is silent for {silent:.1f} s: it hangs, or was killed")
                else:
                    self.send(other, _ALIVE)

    def _lose_peers(self) -> None:
        gone = self._peers.gone()
        if gone:
            self.progress()  # it may have said so before
            self._lose(gone, "is gone without a word: it was killed, or has crashed")

    def _lose(self, processes: Sequence[int], reason: str) -> None:
        with self.lock:
            for other in processes:
                if other not in self.ended:
                    self.lost.add(other)
                    self.ended[other] = reason


def _named(processes: Sequence[int]) -> str:
    return f"process{'es' if len(processes) > 1 else ''} {', '.join(map(str, processes))}"
