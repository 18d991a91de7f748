"""Queues of native programs as Python sees them: one for each device, made by its first program
that goes on while its caller does.

Soundness in short. A queue runs programs in the order in which it got them, on a thread that never
needs the interpreter lock; so a program may use results of an earlier one by address. Until it is
over, the queue keeps its job, and the job all that it uses. What may fail for the caller,
allocating above all, happens before submission, which is one call of native code: a signal handler
that raises around it leaves a ticket that says whether it was taken.

Python code holds no lock here: handlers and finalizers may start programs and wait for them. Before
a fork, and at the end of the process, queues close, and what is under way ends; who meets a closed
queue runs his program himself.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from xla_backend.llvm.jit import Address
from xla_backend.process.background import work_goes_on
from xla_backend.process.bounded_cache import once
from xla_backend.runtime import pending
from xla_backend.runtime.client import Device
from xla_backend.runtime.memory import POOL, Block, SizeClass
from xla_backend.runtime.pending import Job, Origin
from xla_backend.targets.cpu.routines.python_calls import bridge_library
from xla_backend.targets.cpu.routines.queue_layout import (
    CLOSED,
    FAILED_BEFORE,
    POSTED,
    QUEUE_BYTES,
    QUEUE_STOP_BEFORE,
    STOPPED,
    Ticket,
)
from xla_backend.targets.cpu.routines.queues import queue_library

# Jobs that a device may have, and bytes of new results that they may make, before the next caller
# waits for the oldest one; two may be of any size.
_MOST_JOBS = 32
_MOST_BYTES = 256 << 20
_SLICE = 0.05  # seconds of a wait after which signals are looked at in any case
# Programs that are no longer run on the thread of who waits for them: signals wait as long.
_SHORT_SECONDS = 0.02
# For programs to stop when they are told to: they ask every tenth of a second or so.
_STOP_SECONDS = 10.0
# That a daemon thread has to end with the process before it fails.
_END_SECONDS = 2.0
# That an allocation waits for programs to end when there is no memory.
_ROOM_SECONDS = 30.0


class QueuedCode(NamedTuple):
    """What a queue calls for a program.

    Fields:
      entry: `i32 entry(ptr arguments, ptr outputs, third)`.
      arena: what its scratch memory, the third argument, comes from; without, it is
      third: itself.
      seconds: estimate of a run; infinite if nothing tells.
      message: what a nonzero result means.
    """

    entry: Address
    arena: SizeClass | None
    third: int
    seconds: float
    message: Callable[[int], str]


class Uses(NamedTuple):
    """What a program uses while it runs.

    Fields:
      blocks: memory of arguments and results.
      arguments, outputs: their addresses, as the code wants them.
      arena: its scratch memory.
      fresh_bytes: of new memory among the results.
    """

    blocks: tuple[Block, ...]
    arguments: bytes
    outputs: bytes
    arena: Block | None
    fresh_bytes: int


_NOTHING = Uses((), b"", b"", None, 0)


class QueuedJob(Job):
    """A program in a queue."""

    __slots__ = (
        "_after",
        "_code",
        "_entered",
        "_error",
        "_finished",
        "_lost",
        "_origin",
        "_queue",
        "_ticket",
        "_tickets_before",
        "uses",
    )

    def __init__(
        self,
        queue: WorkQueue,
        code: QueuedCode,
        uses: Uses,
        after: Sequence[QueuedJob],
        origin: Origin,
    ) -> None:
        """`after`: jobs of the same queue whose results it uses."""
        self._queue = queue
        self._code: QueuedCode | None = code
        self.uses = uses
        self._after = after
        self._origin: Origin | None = origin
        self._ticket = Ticket()
        before = [ctypes.addressof(job._ticket) for job in after]
        self._tickets_before = struct.pack(f"{len(before) + 1}P", *before, 0)
        self._entered = False  # whether `enter` is over, however
        self._finished = False
        self._lost = False
        self._error: tuple[Origin, str] | None = None

    def enter(self, jobs: deque[QueuedJob], submit: Any, address: int) -> bool:
        """Become one of the queue's jobs; whether there was room."""
        code, uses = self._code, self.uses
        assert code is not None
        third = code.third if uses.arena is None else uses.arena
        ticket, before = ctypes.addressof(self._ticket), self._tickets_before
        try:
            jobs.append(self)
            submit(address, ticket, code.entry, uses.arguments, uses.outputs, third, before)
        finally:
            self._entered = True
        return bool(self._ticket.submitted)

    def is_over(self) -> bool:
        """Whether nothing uses its memory any more, or ever will."""
        ticket = self._ticket
        return bool(ticket.done) or (self._entered and not ticket.submitted)

    def is_done(self) -> bool:
        return bool(self._ticket.done) or self._lost

    def finish(self) -> None:
        """Let go of what it used; it is over. Done again where it was interrupted."""
        origin, code = self._origin, self._code
        if self._finished or origin is None or code is None:
            return
        status = self._ticket.status
        if self._lost:
            self._error = (origin, pending.LOST)
        elif status == STOPPED:
            self._error = (origin, pending.STOPPED)
        elif status == FAILED_BEFORE:
            for job in self._after:
                job.finish()
                self._error = self._error or job._error
        elif status:
            self._error = (origin, code.message(status))
        elif self._ticket.done:
            origin.took(self._ticket.nanoseconds)
        self.uses = _NOTHING
        self._after = ()
        self._code = self._origin = None
        self._finished = True

    def lose(self) -> None:
        """This process was forked from the one that has it, and whose memory it uses."""
        self._lost = True
        self.finish()

    def look(self, seconds: float) -> None:
        """Wait so long for it, or less."""
        queue = self._queue
        ticket = ctypes.addressof(self._ticket)
        _functions().wait(queue.address, ticket, int(min(seconds, _SLICE) * 1e9))

    def help(self) -> None:
        """Run it on this thread if that is the shortest way to its end."""
        is_main = threading.get_ident() == threading.main_thread().ident
        queue, ticket = self._queue, ctypes.addressof(self._ticket)
        _functions().help(queue.address, ticket, is_main)

    def wait(self) -> None:
        if not self._finished:
            try:
                if self._code is not None and self._code.seconds < _SHORT_SECONDS:
                    self.help()
                while True:
                    if self.is_done():
                        break
                    self.look(_SLICE)
            except BaseException:
                self._queue.doubt()
                raise
            self.finish()
            self._queue.reap()
        if self._error is not None:
            origin, message = self._error
            if _is_ending[0] and threading.current_thread().daemon:
                time.sleep(_END_SECONDS)  # nobody waits for it, nor wants to read how it ended
            raise origin.error(message)


class _Functions(NamedTuple):
    submit: Any
    wait: Any
    help: Any
    stopping: ctypes.c_void_p


@once
def _functions() -> _Functions:
    library = queue_library()
    pointer, packed = ctypes.c_void_p, ctypes.c_char_p
    types = (pointer, pointer, pointer, packed, packed, pointer, packed)
    return _Functions(
        # It keeps the interpreter lock: no other thread comes between its steps.
        library.function("pyjax_queue_submit", None, *types, keeps_gil=True),
        library.function("pyjax_queue_wait", None, pointer, pointer, ctypes.c_int64),
        library.function("pyjax_queue_help", None, pointer, pointer, ctypes.c_int32),
        ctypes.c_void_p.from_address(bridge_library().address("pyjax_stopping")),
    )


class WorkQueue:
    """The queue of one device.

    It serves one thread at a time: while there are jobs of another one, a thread runs its programs
    itself, so that threads compute next to each other as they would without.

    Attributes:
      address: of its native part.
    """

    def __init__(self) -> None:
        self._jobs: deque[QueuedJob] = deque()
        self._owner = 0
        self._doubtful = False
        self._renew()

    def _renew(self) -> None:
        """A new native part. Those that were are never freed: threads look at them."""
        memory = ctypes.create_string_buffer(QUEUE_BYTES)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))
        self.address = ctypes.addressof(memory)
        self._process = os.getpid()
        if _is_ending[0]:
            self.close(True)

    def _word(self, place: int) -> ctypes.c_int32:
        return ctypes.c_int32.from_address(self.address + place)

    # -- jobs ------------------------------------------------------------------------------------

    def takes(self, after: Sequence[Job]) -> bool:
        """Whether a program of this thread that uses results of these jobs may enter; waits while
        there are too many. Jobs of other queues are waited for."""
        self.reap()
        if self._doubtful and not self._is_free():
            # Somebody gave up waiting: who needs nothing of what is in here does not get in line.
            if not any(type(job) is QueuedJob and job._queue is self for job in after):
                return False
        jobs, thread = self._jobs, threading.get_ident()
        if (jobs and self._owner != thread) or self._word(CLOSED).value:
            return False
        for job in after:
            if not (type(job) is QueuedJob and job._queue is self):
                job.wait()
        while len(jobs) >= _MOST_JOBS or (len(jobs) >= 2 and self._fresh_bytes() > _MOST_BYTES):
            self._wait_for_first()
        self._owner = thread
        return True

    def _is_free(self) -> bool:
        """Whether there are no jobs, after a look for those that nobody is interested in."""
        if self._jobs:
            self._stop_abandoned()
        if not self._jobs:
            self._doubtful = False
        return not self._jobs

    def _fresh_bytes(self) -> int:
        return sum([job.uses.fresh_bytes for job in list(self._jobs)])

    def _wait_for_first(self) -> None:
        try:
            job = self._jobs[0]
        except IndexError:
            return
        try:
            while True:
                if job.is_over():
                    break
                job.look(_SLICE)
        except BaseException:
            self.doubt()
            raise
        self.reap()

    def references(self) -> Mapping[int, int]:
        """How many references its jobs have to blocks, by the ids of those; they stay until the
        answer, which keeps them, is gone."""
        return _References([job.uses.blocks for job in list(self._jobs)])

    def arena(self, memory: SizeClass) -> Block:
        """Scratch memory for a program that runs after those that are here: theirs is free then."""
        for job in reversed(list(self._jobs)):
            code, arena = job._code, job.uses.arena
            if arena is not None and code is not None and code.arena is memory:
                return arena
        try:
            return memory.take()
        except IndexError:
            return memory.grow()

    def submit(
        self, code: QueuedCode, uses: Uses, after: Sequence[Job], origin: Origin
    ) -> QueuedJob | None:
        """The job of a program that comes after these jobs of this queue; None: there is no room,
        or the queue is closed."""
        ours = [job for job in after if type(job) is QueuedJob and job._queue is self]
        job = QueuedJob(self, code, uses, ours, origin)
        return job if job.enter(self._jobs, _functions().submit, self.address) else None

    def reap(self) -> None:
        """Let go of what jobs used that are over."""
        jobs = self._jobs
        while jobs:
            try:
                job = jobs[0]
                if not job.is_over():
                    return
                job.finish()
                jobs.remove(job)
            except (IndexError, ValueError):  # another thread does the same
                continue

    def drain(self, end: float) -> None:
        """Wait until there are no jobs, or it is so late."""
        for job in list(self._jobs):
            while not job.is_over() and (left := end - time.monotonic()) > 0:
                job.look(left)
        self.reap()

    # -- ends ------------------------------------------------------------------------------------

    def doubt(self) -> None:
        """Somebody gave up waiting for a job: it may take for ever."""
        self._doubtful = True

    def _stop_abandoned(self) -> None:
        """Stop all jobs if nothing refers to them but this."""
        jobs = list(self._jobs)
        named = Counter(map(id, chain.from_iterable([job._after for job in jobs])))
        for job in jobs:
            if sys.getrefcount(job) > _QUEUE_ONLY + named[id(job)]:
                return
        self.stop(_STOP_SECONDS)

    def stop(self, seconds: float) -> None:
        """Stop all jobs, and wait so long until they have."""
        stopping = _functions().stopping
        if stopping.value:  # another thread stops another queue
            return
        end = time.monotonic() + seconds
        self._word(QUEUE_STOP_BEFORE).value = self._word(POSTED).value
        try:
            stopping.value = self.address
            self.drain(end)
        finally:
            stopping.value = None

    def close(self, closed: bool) -> None:
        """Take no more jobs, or take them again."""
        self._word(CLOSED).value = closed

    def keep_for_ever(self) -> None:
        """The process ends: what jobs use may be in use longer than modules live."""
        for job in list(self._jobs):
            for each in (job, job._code, job.uses):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))

    def after_fork(self) -> None:
        """In a child, which has not the queue's thread."""
        if self._process == os.getpid():
            return
        for job in list(self._jobs):
            if not job.is_over():
                job.lose()
        self._jobs.clear()
        self._doubtful = False
        self._renew()


class _References(Counter[int]):
    """Counts of references to blocks by their ids; of others 0."""

    def __init__(self, blocks: list[tuple[Block, ...]]) -> None:
        super().__init__(map(id, chain.from_iterable(blocks)))
        self._kept = blocks


def _references(jobs: list[Any], queue: deque[Any]) -> int:
    for job in jobs:
        return sys.getrefcount(job)
    return 0


# The count if nothing but a queue and a list of its jobs refers to one.
_QUEUE_ONLY = (lambda jobs: _references(jobs, deque(jobs)))([object()])

_is_ending = [False]
_queues: dict[Device, WorkQueue] = {}


def queue_of(device: Device) -> WorkQueue:
    """The queue of a device."""
    queue = _queues.get(device)
    return _queues.setdefault(device, WorkQueue()) if queue is None else queue


def reap() -> None:
    """Let go of what programs used that have ended."""
    for queue in list(_queues.values()):
        queue.reap()


def _make_room() -> None:
    end = time.monotonic() + _ROOM_SECONDS
    for queue in list(_queues.values()):
        queue.drain(end)


def _before_fork(seconds: float) -> None:
    end = time.monotonic() + seconds
    for queue in list(_queues.values()):
        queue.close(True)
    for queue in list(_queues.values()):
        queue.drain(end)


def _after_fork_in_parent() -> None:
    for queue in list(_queues.values()):
        queue.close(_is_ending[0])


def _after_fork_in_child() -> None:
    for queue in list(_queues.values()):
        queue.after_fork()


def _end() -> None:
    _is_ending[0] = True
    queues = list(_queues.values())
    for queue in queues:
        queue.close(True)
    for queue in queues:
        queue.reap()
        queue.keep_for_ever()
    for queue in queues:
        queue.stop(_STOP_SECONDS)


POOL.make_room.append(_make_room)
work_goes_on(_before_fork, _end)
if hasattr(os, "register_at_fork"):
    # A signal handler may raise at the start of either: so each has a second chance.
    for _ in range(2):
        os.register_at_fork(
            after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
        )
