"""The processes that run a program together: messages by topic, who is still there, and waiting.

  world = World(transport, heartbeat_timeout)
  world.on(topic, handle)             # handle(source, head, payload), of each message that comes
  world.send(to, topic, head, arrays)
  world.until(ready, sources, what)   # waits, for processes that are there
  world.gather(label, arrays)         # of each process, in their order

A thread looks for messages when nobody waits for one, tells the others that this process lives, and
notices who is silent.
"""

from __future__ import annotations

import hashlib
import marshal
import math
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from xla_backend.process.forks import LEAF, take_for_forks
from xla_backend.runtime.processes.errors import ALIKE, ProcessFailure, ProcessTimeout
from xla_backend.runtime.processes.mpi import ALIGNMENT, MpiTransport, Sending, aligned_bytes
from xla_backend.runtime.processes.peers import Peers, own_name

Result = TypeVar("Result")
# Takes who sent a message, its head, and its bytes.
Handler = Callable[[int, Any, np.ndarray], None]

_HEAD_SIZE = struct.Struct("<q")
# Seconds between looks at messages of the thread that does nothing else: when nothing is under way,
# and while something is.
_IDLE, _BUSY = 2e-3, 2e-4
# Seconds between looks for the end of processes.
_PEERS = 0.1
# Looks of somebody who waits until sleeps get longer, and the longest sleep.
_EAGER_LOOKS, _LONGEST_NAP = 200, 1e-3
_ALIVE, _ENDED, _GATHER, _GIVEN_UP = "alive", "ended", "gather", "given up"


class Part(NamedTuple):
    """What a process gave to `World.gather`.

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
            start += _aligned(size)
        return found


class Gathering(NamedTuple):
    """One call of `World.gather`, as it is known to whoever watches it.

    Fields:
      place: its members and its number, which tell it from others.
      what: this process waits in.
      missing: who has not given anything.   since: when this process began it.
    """

    place: tuple[tuple[int, ...], int]
    what: str
    missing: tuple[int, ...]
    since: float

    def is_late(self, seconds: float) -> bool:
        return time.monotonic() > self.since + seconds


def _frame(topic: str, head: Any, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """A message: the size of the head, the head, and the bytes of arrays, each aligned."""
    encoded = marshal.dumps((topic, head))
    start = _aligned(_HEAD_SIZE.size + len(encoded))
    message = aligned_bytes(start + sum(_aligned(array.nbytes) for array in arrays))
    _HEAD_SIZE.pack_into(message.data, 0, len(encoded))
    message[_HEAD_SIZE.size : _HEAD_SIZE.size + len(encoded)] = np.frombuffer(encoded, np.uint8)
    for array in arrays:
        message[start : start + array.nbytes].reshape(array.shape)[...] = array
        start += _aligned(array.nbytes)
    return message


def _read(message: np.ndarray) -> tuple[str, Any, np.ndarray]:
    (size,) = _HEAD_SIZE.unpack_from(message.data)
    end = _HEAD_SIZE.size + size
    topic, head = marshal.loads(message[_HEAD_SIZE.size : end].data)
    return topic, head, message[_aligned(end) :]


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class World:
    """Who takes part, what they send each other, and who is still there.

    Attributes:
      index: number of this process.   count: how many there are.
      lock: held around all that handlers of messages look at.
      ended: processes that run no more, and why.   lost: those of them that have not said so.
      gathered: by its members, the number of the last gathering that this process began.
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
        # By members and number of a gathering, and by who gave it.
        self._parts: dict[tuple[tuple[int, ...], int], dict[int, Part]] = {}
        # Of gatherings that somebody waits in no more: who, and what that was there.
        self._given_up: dict[tuple[tuple[int, ...], int], dict[int, str]] = {}
        self.gathered: dict[tuple[int, ...], int] = {}
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
        self.on(_GATHER, self._keep_part)
        self.on(_GIVEN_UP, self._keep_given_up)
        self._thread = threading.Thread(target=self._look_after, name="pyjax MPI", daemon=True)

    def start(self, seconds: float) -> None:
        """Messages are handled from now on. `seconds`: to wait for the others."""
        parts = self.gather(own_name(), kind="distributed.initialize", seconds=seconds)
        for other in self.others:
            self._peers.watch(other, parts[other].label)
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
        message = _frame(topic, head, arrays)
        with self.lock:
            return self._transport.send(to, message)

    def progress(self) -> None:
        """Handle what has come."""
        with self.lock:
            for source, message in self._transport.receive():
                self._heard[source] = time.monotonic()
                topic, head, payload = _read(message)
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
            watch()
            if gone is not None:
                raise ProcessFailure(f"{what}: process {gone} {self.ended[gone]}")
            if time.monotonic() > deadline:
                raise ProcessTimeout(f"{what}: {_named(missing)} did not come within {seconds:g} s")
            looks = 0 if self._transport.is_busy else looks + 1
            late = looks - _EAGER_LOOKS
            time.sleep(0 if late < 0 else min(_LONGEST_NAP, 2e-5 * late))

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
          ProcessFailure, ProcessTimeout: as `until`; another member has given this up, or
            gathers something else.
        """
        together = tuple(range(self.count) if members is None else members)
        others = [n for n in together if n != self.index]
        what = what or kind
        waits = f"process {self.index} waits in {what}"
        since = time.monotonic()
        before = self.gathered.get(together, 0)
        parts = {self.index: Part(label, _read(_frame("", (), arrays))[2], kind)}

        def missing() -> list[int]:
            return [n for n in others if n not in parts]

        def begin() -> tuple[tuple[int, ...], int]:
            with self.lock:
                number = self.gathered[together] = self._next_gathering(together, what)
                self._forget_before(together, number)
            for other in others:
                self.send(other, _GATHER, (together, number, label, kind), arrays)
            return together, number

        def ready(place: tuple[tuple[int, ...], int]) -> bool | None:
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
            self.until(lambda: ready(place), missing, waits, seconds, look)
        except BaseException:
            number = self.gathered.get(together, 0)
            for other in others if number != before else ():
                if other not in self.ended:
                    self.send(other, _GIVEN_UP, (together, number, what))
            raise
        return [parts[n] for n in together]

    def _next_gathering(self, together: tuple[int, ...], what: str) -> int:
        """Its number. One that others have given up, and waited for something else in, is none
        that this process will ever come to: it is passed over."""
        number = self.gathered.get(together, 0) + 1
        while what not in self._given_up.get((together, number), {0: what}).values():
            number += 1
        return number

    def _forget_before(self, together: tuple[int, ...], number: int) -> None:
        for table in (self._parts, self._given_up):
            for place in [p for p in table if p[0] == together and p[1] < number]:
                del table[place]  # type: ignore[attr-defined]

    def digest(self, array: np.ndarray) -> bytes:
        """Equal for arrays with the same bytes; others have another one."""
        return hashlib.blake2b(array.tobytes(), digest_size=16).digest()

    def _keep_part(self, source: int, head: Any, payload: np.ndarray) -> None:
        together, number, label, kind = head
        self._parts.setdefault((together, number), {})[source] = Part(label, payload, kind)

    def _keep_given_up(self, source: int, head: Any, payload: np.ndarray) -> None:
        together, number, what = head
        self._given_up.setdefault((together, number), {})[source] = what

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
