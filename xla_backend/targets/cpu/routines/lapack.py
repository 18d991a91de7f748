"""LAPACK and BLAS routines as function pointers, from SciPy's Cython interfaces.

SciPy is loaded on first use. Calls belong inside `cpu.library_threads.on_library_threads`.

API
  pointer(name) -> int        address of "dpotrf", "sgesdd", ...; Fortran calling convention: every
                              argument by address, characters without hidden lengths
  signature(name) -> str      the C signature SciPy states for it
  routine(stem, kind) -> str  full name for f32 f64 c64 c128: routine("getrf", "c64") == "cgetrf";
                              real/complex pairs: orgqr/ungqr, syevd/heevd, ormqr/unmqr, sytrd/hetrd
  integer_size() -> int       bytes of a LAPACK integer (4, or 8 in ILP64 builds)
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_PREFIX = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
# Names that differ between real and complex types.
_COMPLEX_STEM = {
    "orgqr": "ungqr",
    "ormqr": "unmqr",
    "orghr": "unghr",
    "syevd": "heevd",
    "syev": "heev",
    "sytrd": "hetrd",
    "orgtr": "ungtr",
}


class MissingRoutineError(LookupError):
    """The installed SciPy has no such LAPACK or BLAS routine."""


def routine(stem: str, kind: str) -> str:
    """The routine for an element type ("f32", "f64", "c64", "c128")."""
    if kind not in _PREFIX:
        raise TypeError(f"LAPACK has no {stem} for {kind}: convert to f32, f64, c64 or c128 first")
    if kind in ("c64", "c128"):
        stem = _COMPLEX_STEM.get(stem, stem)
    return _PREFIX[kind] + stem


@cache
def _tables() -> tuple[dict[str, Any], dict[str, Any]]:
    import scipy.linalg.cython_blas as blas
    import scipy.linalg.cython_lapack as lapack

    return lapack.__pyx_capi__, blas.__pyx_capi__


@cache
def _capsule(name: str) -> Any:
    for table in _tables():
        if name in table:
            return table[name]
    raise MissingRoutineError(f"SciPy's LAPACK has no routine {name!r}; install a newer SciPy")


def _capsule_name(capsule: Any) -> bytes:
    get = ctypes.pythonapi["PyCapsule_GetName"]
    get.restype, get.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return get(capsule)


def signature(name: str) -> str:
    return _capsule_name(_capsule(name)).decode()


@cache
def pointer(name: str) -> int:
    """Address of a routine.

    Raises:
      MissingRoutineError: SciPy does not export it.
    """
    capsule = _capsule(name)
    get = ctypes.pythonapi["PyCapsule_GetPointer"]
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, _capsule_name(capsule))


@cache
def integer_size() -> int:
    """Bytes of an integer argument, found by asking dlamch-like ilaver for its version."""
    version = (ctypes.c_int64 * 3)(-1, -1, -1)
    address = ctypes.addressof(version)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(pointer("ilaver"))
    function(address, address + 8, address + 16)
    # A 4-byte integer leaves the upper half of the -1 in place.
    return 8 if 0 <= version[0] < 1 << 31 else 4
