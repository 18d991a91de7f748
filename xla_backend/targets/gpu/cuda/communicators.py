"""NCCL, as CuPy has it, and its communicators: what GPUs of this process exchange arrays by."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.process.bounded_cache import once
from xla_backend.targets.gpu.cuda.cupy_library import cuda_version, load_cupy
from xla_backend.targets.gpu.cuda.device import CudaDevice

# Sets of communicators: each takes memory on its devices.
_MOST_SETS = 32
_OLDEST = 21000  # 2.10, the first with all types


class _Meaning(NamedTuple):
    what: str
    fix: str


# By number, ncclResult_t.
_MEANINGS = {
    1: _Meaning("met an error of CUDA", "see `nvidia-smi`, and what CUDA_LAUNCH_BLOCKING=1 says"),
    2: _Meaning(
        "met an error of the system",
        "NCCL_DEBUG=WARN says which; in a container, shared memory must be large enough "
        "(docker run --shm-size=1g)",
    ),
    3: _Meaning("has an error of its own", "NCCL_DEBUG=WARN says more; try a newer NCCL"),
    4: _Meaning("does not take what it was called with", "report this bug"),
    5: _Meaning("was used as it must not be", "report this bug, with what NCCL_DEBUG=WARN says"),
    6: _Meaning("lost another process or the network", "NCCL_DEBUG=WARN says more"),
}
_UNKNOWN = _Meaning("reported an error", "NCCL_DEBUG=WARN says more")


def nccl_distribution() -> tuple[str, str] | None:
    """Name and version of the distribution of NCCL that pip knows of."""
    for cuda in ("13", "12"):
        try:
            return f"nvidia-nccl-cu{cuda}", version(f"nvidia-nccl-cu{cuda}")
        except PackageNotFoundError:
            continue
    return None


@once
def load_nccl() -> Any:
    """CuPy's module of NCCL.

    Raises:
      RuntimeFailure: there is no NCCL, or it is too old.
    """
    load_cupy()
    nccl = importlib.import_module("cupy.cuda.nccl")
    if not nccl.available:
        raise RuntimeFailure(
            "programs over several GPUs exchange arrays by NCCL, which CuPy does not find: pip "
            f'install "nvidia-nccl-cu{cuda_version()}"'
        )
    found = nccl.get_version()
    if found < _OLDEST:
        raise RuntimeFailure(
            f"NCCL {_dotted(found)} is too old for programs over several GPUs, which take 2.10: "
            f'pip install --upgrade "nvidia-nccl-cu{cuda_version()}"'
        )
    return nccl


def _dotted(number: int) -> str:
    """As it is written: of 2804, or 22501 since 2.9."""
    major, rest = divmod(number, 1000 if number < 10000 else 10000)
    return f"{major}.{rest // 100}.{rest % 100}"


def is_of_nccl(error: BaseException) -> bool:
    """Whether NCCL reported an error."""
    return type(error).__name__ == "NcclError"


def failure(error: BaseException, devices: Sequence[CudaDevice], what: str) -> RuntimeFailure:
    """What to raise for an error of NCCL; `what`: the collective, or what else it was called for,
    as messages call it."""
    meaning = _MEANINGS.get(getattr(error, "status", 0), _UNKNOWN)
    among = ", ".join(map(str, devices))
    return RuntimeFailure(f"{what} on {among}: NCCL {meaning.what} ({error}); {meaning.fix}")


class Communicators:
    """Those of a client's devices: a set for each list of devices that has exchanged something.

    Attributes:
      lock: held by who gives several devices work that waits for each other. Devices get work of
        two such runs in one order then.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        # What was used longest ago first.
        self._sets: dict[tuple[CudaDevice, ...], Sequence[Any]] = {}

    def of(self, devices: Sequence[CudaDevice]) -> Sequence[Any]:
        """A communicator for each of some devices, by which they are joined in this order; under
        the lock.

        Raises:
          RuntimeFailure: NCCL is not there, or does not start; or devices are there twice.
        """
        key = tuple(devices)
        found = self._sets.pop(key, None)
        if found is None:
            found = self._made(key)
        self._sets[key] = found
        return found

    def _made(self, devices: tuple[CudaDevice, ...]) -> Sequence[Any]:
        if len({*devices}) < len(devices):
            among = ", ".join(map(str, devices))
            raise RuntimeFailure(
                f"participants of a run share a GPU ({among}), and NCCL joins different ones: run "
                "each participant on a device of its own"
            )
        nccl = load_nccl()
        for oldest in list(self._sets)[: max(0, len(self._sets) - _MOST_SETS + 1)]:
            self._destroy(oldest)
        try:
            return nccl.NcclCommunicator.initAll([device.number for device in devices])
        except Exception as error:
            if is_of_nccl(error):
                raise failure(error, devices, "the first collective") from error
            raise

    def _destroy(self, devices: tuple[CudaDevice, ...]) -> None:
        for device in devices:
            device.synchronize()
        for communicator in self._sets.pop(devices):
            communicator.destroy()

    def check(self, devices: Sequence[CudaDevice]) -> None:
        """Raise what NCCL has met meanwhile on some devices. While another thread is at work here,
        nothing is looked at.

        Raises:
          RuntimeFailure: it has met an error.
        """
        if not self.lock.acquire(blocking=False):
            return
        try:
            used = {*devices}
            for joined in [key for key in self._sets if used.issuperset(key)]:
                self._check_set(joined)
        finally:
            self.lock.release()

    def _check_set(self, joined: tuple[CudaDevice, ...]) -> None:
        try:
            for communicator in self._sets[joined]:
                communicator.check_async_error()
        except Exception as error:
            if is_of_nccl(error):
                raise failure(error, joined, "a collective") from error
            raise

    def abort(self, devices: Sequence[CudaDevice]) -> None:
        """End what some devices exchange, or wait for, and all that others exchange with them."""
        gone = {*devices}
        with self.lock:
            for joined in [key for key in self._sets if gone.intersection(key)]:
                for communicator in self._sets.pop(joined):
                    communicator.abort()


@contextmanager
def grouped(nccl: Any) -> Iterator[None]:
    """A block whose calls of NCCL, on several devices, are one."""
    nccl.groupStart()
    try:
        yield
    finally:
        nccl.groupEnd()
