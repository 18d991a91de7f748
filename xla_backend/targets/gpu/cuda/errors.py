"""What errors of CUDA and of its libraries mean for whoever uses arrays, and what to do about
them."""

from __future__ import annotations

from typing import Any, NamedTuple

from xla_backend.hlo.errors import RuntimeFailure

OUT_OF_MEMORY = 2


class DeviceLost(RuntimeFailure):
    """A device that this process cannot use any more: its memory is gone with it."""


class Meaning(NamedTuple):
    """Fields:
    what: happened, in words.
    fix: what to do about it.
    lost: the process's context on the device is gone; nothing works there any more.
    """

    what: str
    fix: str
    lost: bool = False


_AGAIN = "start the process again; its other devices, and the CPU, go on working"
_REPORT = (
    f"{_AGAIN}. This is a bug of the compiler: `compute-sanitizer python ...` names the kernel, "
    "and the platform 'gpu_emulator' finds accesses out of bounds"
)
# By number, which the runtime and the driver share.
_MEANINGS = {
    1: Meaning("CUDA was called with a value that it does not take", "report this bug"),
    9: Meaning(
        "a kernel was launched with more blocks, threads or shared memory than there can be",
        "report this bug, with the module (xla_dump_to)",
    ),
    35: Meaning(
        "the driver is older than the CUDA runtime that CuPy is built with",
        'install a newer driver, or CuPy for an older CUDA (pip install "pyjax[cuda12]")',
    ),
    46: Meaning(
        "the device is taken: another process has it for itself alone, or it does not answer",
        "see `nvidia-smi`; the compute mode must be Default",
    ),
    100: Meaning("there is no device", "see `nvidia-smi` and CUDA_VISIBLE_DEVICES"),
    101: Meaning("there is no device of that number", "see pyjax.devices('cuda')"),
    209: Meaning(
        "the code is not for this device",
        "compile it on this device, or for its architecture",
    ),
    214: Meaning("memory of the device has an error that ECC cannot correct", _AGAIN, True),
    218: Meaning("the driver does not take the PTX of a kernel", "report this bug"),
    221: Meaning(
        "the driver has no compiler for PTX",
        "install the driver's libnvidia-ptxjitcompiler, or ptxas (pip install "
        "nvidia-cuda-nvcc-cu12)",
    ),
    222: Meaning(
        "the driver is too old for the PTX of this device's architecture",
        "install a newer driver",
    ),
    700: Meaning("a kernel accessed memory that is not there", _REPORT, True),
    701: Meaning(
        "a kernel needs more registers or shared memory than a block can have",
        "report this bug, with the module (xla_dump_to)",
    ),
    702: Meaning(
        "a kernel ran longer than the driver allows on a card with a display",
        f"use another card, or switch the limit off; {_AGAIN}",
        True,
    ),
    714: Meaning("the hardware's stack of a kernel has an error", _REPORT, True),
    715: Meaning("a kernel came to an instruction that there is not", _REPORT, True),
    716: Meaning("a kernel accessed memory at an address that is not aligned", _REPORT, True),
    717: Meaning("a kernel used an address of the wrong kind of memory", _REPORT, True),
    718: Meaning("a kernel's program counter left the program", _REPORT, True),
    719: Meaning("a kernel failed", _REPORT, True),
    802: Meaning(
        "the system is not ready for CUDA",
        "see whether the fabric manager runs (nvidia-fabricmanager)",
    ),
    803: Meaning(
        "the driver's library and its kernel module are of different versions",
        "load the module again, or restart the machine",
    ),
    804: Meaning(
        "the compatibility libraries of CUDA do not support this device",
        "install the driver itself in a newer version",
    ),
}
_UNKNOWN = Meaning("CUDA reported an error", "see `nvidia-smi` and the system's log")


class Library(NamedTuple):
    """A library of CUDA, whose errors have numbers of their own.

    Fields:
      name: as its makers write it.
      no_memory, no_start, no_architecture, refused: numbers of what is meant by that.
      field: of the exception, that holds the number.
    """

    name: str
    no_memory: int
    no_start: int
    no_architecture: int | None
    refused: frozenset[int]
    field: str = "status"


# By the exception that CuPy raises.
_LIBRARIES = {
    "CUBLASError": Library("cuBLAS", 3, 1, 8, frozenset({7, 15})),
    "CUSOLVERError": Library("cuSOLVER", 2, 1, 4, frozenset({3, 8, 9})),
    "CuFFTError": Library("cuFFT", 2, 7, None, frozenset({1, 3, 4, 8, 16}), "result"),
    "NVRTCError": Library("NVRTC", 1, 7, None, frozenset({5, 6})),
}
_LESS = (
    "lower jax_cuda_memory_fraction, so that more of the device's memory is left to CUDA's "
    "libraries, or end other processes there (see `nvidia-smi`)"
)


def status_of(error: BaseException) -> int | None:
    """The number of an error of CUDA's runtime or driver; None for other exceptions."""
    status = getattr(error, "status", None)
    return status if isinstance(status, int) and "CUDA" in type(error).__name__ else None


def is_of_cuda(error: BaseException) -> bool:
    """Whether CUDA or one of its libraries reported an error."""
    return status_of(error) is not None or type(error).__name__ in _LIBRARIES


def meaning_of(status: int) -> Meaning:
    """Of an error of CUDA's runtime or driver, by its number."""
    return _MEANINGS.get(status, _UNKNOWN)


def _meaning(error: BaseException) -> Meaning:
    library = _LIBRARIES.get(type(error).__name__)
    if library is None:
        return meaning_of(status_of(error) or 0)
    name, status = library.name, getattr(error, library.field, None)
    if status == library.no_memory:
        return Meaning(f"{name} has no memory to work in", _LESS)
    if status == library.no_start:
        return Meaning(f"{name} cannot start, mostly for want of memory", _LESS)
    if status is not None and status == library.no_architecture:
        newer = 'install a newer one (pip install --upgrade "pyjax[cuda13]")'
        return Meaning(f"{name} has no code for the device", newer)
    if status in library.refused:
        return Meaning(f"{name} does not take what it was called with", "report this bug")
    return Meaning(f"{name} reported an error", "see `nvidia-smi` and the system's log")


def message(device: object, error: BaseException) -> str:
    """One line about an error of CUDA on a device, with CUDA's own words, and what to do."""
    meaning = _meaning(error)
    return f"on {device} {meaning.what} ({error}); {meaning.fix}"


def is_lost(error: BaseException) -> bool:
    """Whether the device is of no use any more after this."""
    return _meaning(error).lost


def failure(device: object, error: Any) -> RuntimeFailure:
    """What to raise for an error of CUDA."""
    return (DeviceLost if is_lost(error) else RuntimeFailure)(message(device, error))
