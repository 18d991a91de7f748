"""What NVIDIA's driver says about itself and its GPUs: asked through its own library, without CuPy
and without a context on any device.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, NamedTuple

from xla_backend.process.bounded_cache import once

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_NO_DEVICE = 100
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # numbers of attributes of a device
_NAME_BYTES = 256


class Gpu(NamedTuple):
    """A device of the driver: its name and compute capability, (9, 0) for sm_90."""

    name: str
    capability: tuple[int, int]


class Driver(NamedTuple):
    """Fields:
    version: of CUDA, the newest that the driver can run, (12, 4); None: there is no driver.
    gpus: those that it lets this process see, in its order.
    problem: why there are none, in the driver's own terms; empty if there are some.
    """

    version: tuple[int, int] | None
    gpus: tuple[Gpu, ...]
    problem: str


@once
def find_driver() -> Driver:
    """The driver of this machine. It is asked once."""
    try:
        library = _load(LIBRARY)
    except OSError:
        return Driver(None, (), f"{LIBRARY} is not found")
    number = ctypes.c_int(0)
    library.cuDriverGetVersion(ctypes.byref(number))
    version = number.value // 1000, number.value % 1000 // 10
    status = library.cuInit(0)
    if status:
        return Driver(version, (), _words(library, status))
    count = ctypes.c_int(0)
    status = library.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        return Driver(version, (), _words(library, status or _NO_DEVICE))
    return Driver(version, tuple(_gpu(library, i) for i in range(count.value)), "")


def _load(name: str) -> Any:
    return ctypes.CDLL(name)


def _gpu(library: Any, number: int) -> Gpu:
    device, value = ctypes.c_int(0), ctypes.c_int(0)
    name = ctypes.create_string_buffer(_NAME_BYTES)
    library.cuDeviceGet(ctypes.byref(device), number)
    library.cuDeviceGetName(name, _NAME_BYTES, device)
    capability = []
    for attribute in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR):
        library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        capability.append(value.value)
    return Gpu(name.value.decode(errors="replace"), (capability[0], capability[1]))


def _words(library: Any, status: int) -> str:
    """What the driver calls a status."""
    parts = []
    for function in (library.cuGetErrorName, library.cuGetErrorString):
        text = ctypes.c_char_p()
        function(status, ctypes.byref(text))
        parts.append((text.value or b"?").decode(errors="replace"))
    return ": ".join(parts)
