"""Runs of a program on several GPUs: one thread of the host gives all of them their work."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.topology import Group
from xla_backend.program.ir import Collective
from xla_backend.program.lockstep import in_lockstep, title
from xla_backend.targets.gpu.cuda.collectives import CollectiveCommand, Member, perform
from xla_backend.targets.gpu.cuda.commands import Command, Run
from xla_backend.targets.gpu.cuda.communicators import (
    Communicators,
    failure,
    is_of_nccl,
    load_nccl,
)
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.waiting import wait_for, watching

_END = object()


class Participant(NamedTuple):
    """One participant of a run: what it does, and its execution, whose memory is there."""

    commands: Sequence[Command]
    run: Run

    @property
    def device(self) -> CudaDevice:
        return self.run.device


class GroupRun:
    """One run of all participants, in the order of their numbers.

    While it is waited for, all devices are looked at: where one has failed, others wait for it in
    vain. What they exchange is ended then.

    Args:
      timeout: seconds after which it ends by an error; not positive: never.
    """

    def __init__(
        self, participants: Sequence[Participant], communicators: Communicators, timeout: int
    ) -> None:
        self._participants = participants
        self._communicators = communicators
        self._timeout = timeout
        self._devices = list(dict.fromkeys(p.device for p in participants))
        self._standing: dict[int, CollectiveCommand] = {}
        self._events: list[tuple[CudaDevice, Any]] = []
        self._begin = time.monotonic()

    def start(self) -> None:
        """Put all work on the streams; under the lock of the communicators.

        Raises:
          RuntimeFailure: a device failed, NCCL did, or participants wait for partners that never
            come. What a function of the host raises.
        """
        try:
            with watching(self._watch):
                running = [self._running(number) for number in range(len(self._participants))]
                in_lockstep(running, self._exchange)
                for device in self._devices:
                    with device.active():
                        self._events.append((device, device.event()))
        except RuntimeFailure:
            self._communicators.abort(self._devices)
            raise

    def wait(self) -> None:
        """Return when all devices are through.

        Raises:
          RuntimeFailure: a device failed, NCCL did, or it took too long.
        """
        try:
            with watching(self._watch):
                for device, event in self._events:
                    with device.active():
                        wait_for(device.cupy.cuda.runtime, event)
        except RuntimeFailure:
            self._communicators.abort(self._devices)
            raise

    def _running(self, number: int) -> Iterator[Collective | None]:
        commands, run = self._participants[number]
        stops = (stop for command in commands for stop in command.steps(run))
        while True:
            with run.device.active():
                stop = next(stops, _END)
            if stop is _END:
                return
            if isinstance(stop, CollectiveCommand):
                self._standing[number] = stop
                yield stop.step
            else:
                yield None

    def _exchange(self, group: Group, steps: Sequence[Collective]) -> None:
        devices = [self._participants[number].device for number in group]
        what = title(steps[0])
        try:
            joined = self._communicators.of(devices)
            members = [
                Member(n, self._standing.pop(n), self._participants[n].run, communicator)
                for n, communicator in zip(group, joined)
            ]
            perform(load_nccl(), members)
        except BaseException as error:
            self._communicators.abort(self._devices)  # some members may have begun
            found = failure(error, devices, what) if is_of_nccl(error) else error
            if isinstance(found, RuntimeFailure):
                found.collectives = (what,)
            if found is error:
                raise
            raise found from error

    def _watch(self) -> None:
        for device in self._devices:
            device.look()
        self._communicators.check(self._devices)
        if 0 < self._timeout < time.monotonic() - self._begin:
            raise RuntimeFailure(
                f"a program on {', '.join(map(str, self._devices))} is not over after "
                f"{self._timeout} s (xla_gpu_nccl_termination_timeout_seconds)"
            )
