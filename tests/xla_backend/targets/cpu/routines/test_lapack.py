"""LAPACK function pointers: names, integer size, and a factorisation through a raw address."""

import ctypes

import numpy as np
import pytest

from xla_backend.targets.cpu.routines import lapack

PTR = ctypes.c_void_p
STEMS = [
    "getrf",
    "potrf",
    "geqrf",
    "orgqr",
    "gesdd",
    "syevd",
    "geev",
    "trtri",
    "gesv",
    "trsm",
    "gees",
]


@pytest.mark.parametrize("kind", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize("stem", STEMS)
def test_routines_exist(stem, kind):
    assert lapack.pointer(lapack.routine(stem, kind)) > 0


def test_names():
    assert lapack.routine("orgqr", "c64") == "cungqr"
    assert lapack.routine("orgqr", "f64") == "dorgqr"
    assert "int *" in lapack.signature("dpotrf")
    with pytest.raises(lapack.MissingRoutineError, match="dnothing"):
        lapack.pointer("dnothing")
    with pytest.raises(TypeError, match="s32"):
        lapack.routine("getrf", "s32")


def test_cholesky_by_address():
    integer = ctypes.c_int32 if lapack.integer_size() == 4 else ctypes.c_int64
    rng = np.random.default_rng(0)
    m = rng.standard_normal((20, 20))
    a = m @ m.T + 20 * np.eye(20)
    out = np.asfortranarray(a)
    uplo, n, info = ctypes.c_char(b"L"), integer(20), integer(-7)
    function = ctypes.CFUNCTYPE(None, PTR, PTR, PTR, PTR, PTR)(lapack.pointer("dpotrf"))
    address = ctypes.addressof
    function(address(uplo), address(n), out.ctypes.data, address(n), address(info))
    assert info.value == 0
    np.testing.assert_allclose(np.tril(out), np.linalg.cholesky(a), rtol=1e-12, atol=1e-12)
