"""Programs that a device runs while the caller goes on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.runtime.pending import Job, Origin
from xla_backend.runtime.places import current_place
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.waiting import is_over, wait_for

_LOOKED_AT = 4


class CudaJob(Job):
    """What a stream has got to do, up to an event. Memory of the pool that it uses may be given up
    meanwhile: who takes it next comes behind in the stream. It keeps what it uses of others."""

    __slots__ = ("_device", "_error", "_event", "_kept", "_origin", "place")

    def __init__(
        self, device: CudaDevice, event: Any, origin: Origin, kept: Sequence[object] = ()
    ) -> None:
        self._device = device
        self._event: Any = event  # None: it is over
        self._origin: Origin | None = origin
        self._kept = kept
        self._error: tuple[Origin, str] | None = None
        self.place = current_place()
        _forget_finished(device)
        device.under_way.append(self)
        if kept:
            device.keeping[id(self)] = self

    @property
    def device(self) -> CudaDevice:
        return self._device

    @property
    def is_finished(self) -> bool:
        """Whether somebody has seen that it is over."""
        return self._event is None

    def is_done(self) -> bool:
        event, device = self._event, self._device
        if event is None:
            return True
        try:
            with device.active():
                done = is_over(device.cupy.cuda.runtime, event)
        except RuntimeFailure as error:
            self._fail(error)
            return True
        if done:
            self._finish()
        return done

    def wait(self) -> None:
        event, device = self._event, self._device
        if event is not None:
            try:
                with device.active():
                    wait_for(device.cupy.cuda.runtime, event)
            except RuntimeFailure as error:
                self._fail(error)
            else:
                self._finish()
        if self._error is not None:
            origin, message = self._error
            raise origin.error(message)

    def _fail(self, error: Exception) -> None:
        if self._origin is not None:
            self._error = self._origin, str(error)
        self._finish()

    def _finish(self) -> None:
        self._event = self._origin = None
        self._kept = ()
        self._device.keeping.pop(id(self), None)


def _forget_finished(device: CudaDevice) -> None:
    """Jobs from the front that are over: nobody needs to name them any more, or what they keep."""
    for job in list(device.keeping.values())[:_LOOKED_AT]:
        if not job.is_done():
            break
    jobs = device.under_way
    for job in list(jobs)[:_LOOKED_AT]:
        if not job.is_done():
            return
        with suppress(ValueError):  # another thread has
            jobs.remove(job)
