"""Messages between processes through MPI (mpi4py).

Calls are short: sends and receives are started, and looked at later. So one lock around them is
enough for all threads, whatever level of threads the library grants, and whoever waits can stop.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from xla_backend.runtime.host_buffer import memory_view
from xla_backend.runtime.memory import POOL
from xla_backend.runtime.processes.errors import ProcessFailure, ProcessTimeout

# Messages begin at such addresses, and so do the parts of one.
ALIGNMENT = 64
_TAG = 1
_MAPS = Path("/proc/self/maps")
# How names of files begin that MPICH, when it starts, makes of memory for messages on one machine.
_SHARED = "/dev/shm/mpich_shm_"


def aligned_bytes(size: int) -> np.ndarray:
    """Memory for a message, of the pool: fresh pages of the system cost more than the copy."""
    block = POOL.allocate(size)
    return memory_view(block, (size,), np.dtype(np.uint8), block)


class Sending:
    """A message on its way.

    Attributes:
      done: the receiver has it, or MPI keeps it for that.
    """

    __slots__ = ("_message", "_request", "done")

    def __init__(self, request: Any, message: np.ndarray) -> None:
        self._request = request
        self._message = message  # MPI reads it
        self.done = False

    def look(self) -> bool:
        """Whether it is on its way still."""
        self.done = self._request.Test()
        return not self.done


class MpiTransport:
    """The processes of MPI's world, and messages of bytes between them.

    Attributes:
      index: number of this process.   count: how many there are.
    """

    def __init__(self, mpi: Any, seconds: float) -> None:
        """
        Args:
          mpi: the module `mpi4py.MPI`.
          seconds: to wait for the others.
        Raises:
          ProcessTimeout: they have not come.
        """
        self._mpi = mpi
        world = mpi.COMM_WORLD
        self.index, self.count = world.Get_rank(), world.Get_size()
        # Of our own, so that messages of the user's program are none of ours.
        self._channel, request = world.Idup()
        deadline = time.monotonic() + seconds
        while not request.Test():
            if time.monotonic() > deadline:
                raise ProcessTimeout(
                    f"process {self.index} has waited {seconds:g} s for the other "
                    f"{self.count - 1} processes; each of them is to call initialize()"
                )
            time.sleep(0.001)
        self._sending: list[Sending] = []
        self._coming: dict[int, deque[tuple[Any, np.ndarray]]] = {}

    @property
    def is_sending(self) -> bool:
        """Whether messages have not been taken yet."""
        return bool(self._sending)

    @property
    def is_busy(self) -> bool:
        """Whether messages are under way: large ones go piece by piece, at each look."""
        return bool(self._sending) or any(self._coming.values())

    def release_files(self) -> None:
        """All processes have joined, and so have the memory that they share by files. The names of
        these are taken away: what a killed program leaves would stay there for ever."""
        try:
            maps = _MAPS.read_text().splitlines()
        except OSError:  # no /proc
            return
        for path in {line.split(maxsplit=5)[-1] for line in maps if _SHARED in line}:
            with suppress(OSError):  # another process has done it
                os.unlink(path)

    def send(self, to: int, message: np.ndarray) -> Sending:
        """Start sending bytes, which nobody changes any more.

        Raises:
          ProcessFailure: MPI cannot.
        """
        try:
            request = self._channel.Isend([message, self._mpi.BYTE], to, _TAG)
        except self._mpi.Exception as error:
            raise ProcessFailure(f"MPI sends nothing to process {to}: {error}") from error
        sending = Sending(request, message)
        self._sending.append(sending)
        return sending

    def receive(self) -> list[tuple[int, np.ndarray]]:
        """What has come since the last call: who sent it, and the bytes. Messages of one process
        come in the order in which it sent them.

        Raises:
          ProcessFailure: MPI has failed.
        """
        try:
            return self._received()
        except self._mpi.Exception as error:
            raise ProcessFailure(f"MPI has failed: {error}") from error

    def _received(self) -> list[tuple[int, np.ndarray]]:
        mpi = self._mpi
        if self._sending:
            self._sending = [sending for sending in self._sending if sending.look()]
        status = mpi.Status()
        while True:
            found = self._channel.Improbe(mpi.ANY_SOURCE, _TAG, status)
            if found is None:
                break
            memory = aligned_bytes(status.Get_count(mpi.BYTE))
            request = found.Irecv([memory, mpi.BYTE])
            self._coming.setdefault(status.Get_source(), deque()).append((request, memory))
        received = []
        for source, coming in self._coming.items():
            while coming and coming[0][0].Test():
                received.append((source, coming.popleft()[1]))
        return received

    def abort(self) -> None:
        """End all processes, this one too."""
        self._mpi.COMM_WORLD.Abort(1)
