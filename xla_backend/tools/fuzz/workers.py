"""Running checks in forked processes, so that what crashes, hangs or eats memory is one failure of
one program."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable, Generator, Iterable
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from time import monotonic

from xla_backend.runtime.pages import mapped_bytes
from xla_backend.tools.fuzz.checks import Failure

Check = Callable[[int], Failure | None]

# Linked code stays in the process; a new one starts small.
_SEEDS_PER_PROCESS = 250
_MEMORY_BYTES = 8 << 30  # beyond what the process that asks has mapped
_FORK = multiprocessing.get_context("fork")


class _Worker:
    """A process that checks the seeds it is sent, one at a time."""

    def __init__(self, check: Check) -> None:
        self.connection, inner = _FORK.Pipe()
        self.process: BaseProcess = _FORK.Process(target=_serve, args=(inner, check))
        self.process.start()
        inner.close()
        self.seed: int | None = None
        self.started = 0.0
        self.seeds_left = _SEEDS_PER_PROCESS

    def send(self, seed: int) -> None:
        self.seed, self.started = seed, monotonic()
        self.seeds_left -= 1
        self.connection.send(seed)

    def receive(self) -> Failure | None:
        """The answer for the last seed; a process that died is the answer, too."""
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            code = self.process.exitcode or 0
            name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            return Failure("crash", "", name)

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _serve(connection: Connection, check: Check) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)  # of a worker that shrinks a failure
    most = mapped_bytes() + _MEMORY_BYTES
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)  # aborts of libraries write there; the exit status tells
    faulthandler.disable()
    while True:
        try:
            seed = connection.recv()
        except EOFError:
            return
        connection.send(check(seed))


def check_all(
    check: Check, seeds: Iterable[int], jobs: int, timeout: float
) -> Generator[tuple[int, Failure | None]]:
    """(seed, what failed or None) as answers come in."""
    waiting = iter(seeds)
    workers: list[_Worker] = []
    try:
        for seed in waiting:
            workers.append(_Worker(check))
            workers[-1].send(seed)
            if len(workers) == jobs:
                break
        while True:
            if not workers:
                break
            wait([w.connection for w in workers], timeout=0.5)
            for worker in list(workers):
                late = monotonic() - worker.started > timeout
                if not worker.connection.poll() and not late:
                    continue
                assert worker.seed is not None
                answered = worker.connection.poll()
                failure = (
                    worker.receive() if answered else Failure("timeout", "", f"{timeout:g} seconds")
                )
                yield worker.seed, failure
                dead = not answered or (failure is not None and failure.kind == "crash")
                following = next(waiting, None)
                if dead or following is None or not worker.seeds_left:
                    worker.stop()
                    workers.remove(worker)
                    if following is None:
                        continue
                    worker = _Worker(check)
                    workers.append(worker)
                worker.send(following)
    finally:  # whoever asks may have heard enough
        for worker in workers:
            worker.stop()


def check_once(check: Callable[[], Failure | None], timeout: float) -> Failure | None:
    """The answer of one check in a process of its own."""
    ((_, failure),) = check_all(lambda seed: check(), [0], 1, timeout)
    return failure
