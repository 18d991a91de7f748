"""Addresses of SciPy's LAPACK for native code, and how much memory its routines work in.

SciPy offers LAPACK to compiled code as C functions, whose addresses it keeps in capsules.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from xla_backend.llvm.jit import Address
from xla_backend.process.on_first_use import import_alone
from xla_backend.runtime.host_libraries.lapack_arguments import COMPLEX_NAMES, PREFIX

# LAPACK's blocks have up to 64 columns, and its products with reflectors some memory besides.
_COLUMNS, _REFLECTORS = 64, 65 * 64
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def typed_name(routine: str, dtype: np.dtype) -> str:
    """`routine`, named as for reals, for elements of a type.

    >>> typed_name("syevd", np.dtype(np.complex64)), typed_name("getrf", np.dtype(np.float64))
    ('cheevd', 'dgetrf')
    """
    name = COMPLEX_NAMES.get(routine, routine) if dtype.kind == "c" else routine
    return _LETTERS[dtype.char] + name


def lapack_address(symbol: str) -> Address:
    """Where a routine is. `symbol`: PREFIX and the routine's name, as dgetrf.

    Raises:
      KeyError: SciPy has none of that name.
    """
    capsules = import_alone("scipy.linalg.cython_lapack").__pyx_capi__
    capsule = capsules[symbol.removeprefix(PREFIX)]
    api = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    return Address(pointer(capsule, name(capsule)), capsule)


def work_size(
    routine: str, dtype: np.dtype, sizes: Mapping[str, int], options: Mapping[str, int]
) -> int:
    """Elements of the array that LAPACK calls `work`: as many as its blocked algorithms want.

    Args:
      sizes: m and n of the matrix.  options: LAPACK's, letters as their codes.
    """
    n = sizes["n"]
    m = sizes.get("m", n)
    if routine == "gesdd":
        vectors = options["mode"] != ord("N")
        wanted = {"compute_uv": int(vectors), "full_matrices": int(options["mode"] == ord("A"))}
        return _asked(routine, dtype, m, n, **wanted)
    if routine == "syevd":
        return _asked(routine, dtype, n, compute_v=int(options["mode"] == ord("V")))
    if routine == "geev":
        left, right = (int(options[f"compute_{side}"] == ord("V")) for side in ("left", "right"))
        return _asked(routine, dtype, n, compute_vl=left, compute_vr=right)
    return max(1, m, n) * (_COLUMNS + 4) + _REFLECTORS


def _asked(routine: str, dtype: np.dtype, *sizes: int, **options: int) -> int:
    query: Any = getattr(
        import_alone("scipy.linalg._flapack"), f"{typed_name(routine, dtype)}_lwork"
    )
    found = query(*sizes, **options)
    # LAPACK answers in the type of the elements, which may round down.
    return int(np.real(found[0])) + max(sizes)
