"""FFT and linear algebra on a device do what the host's functions do. CuPy's functions, which
follow NumPy and SciPy, are NumPy's and SciPy's here."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.cuda_programs import compiled
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.runtime.custom_calls import find_custom_call
from xla_backend.runtime.host_libraries import lapack_calls as lapack_calls  # registers the calls
from xla_backend.targets.gpu.cuda import solvers


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(solvers, "load_solvers", lambda: scipy.linalg)
    return fake_cupy.install(monkeypatch, 1)[0]


def matrices(dtype: Any, *shape: int) -> np.ndarray:
    draw = np.random.default_rng(0).standard_normal
    real = draw(shape)
    return (real + 1j * draw(shape) if np.dtype(dtype).kind == "c" else real).astype(dtype)


def check(text: str, arguments: list[np.ndarray], gpu: Any) -> None:
    executable = compiled(text)
    want = evaluate(parse_module(text), arguments)
    for got, expected in zip(executable.run_arrays(arguments), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


FFTS = {
    "FFT": ("c64[2,4,6]", "c64[2,4,6]"),
    "IFFT": ("c64[2,4,6]", "c64[2,4,6]"),
    "RFFT": ("f32[2,4,6]", "c64[2,4,4]"),
    "IRFFT": ("c64[2,4,4]", "f32[2,4,6]"),
}


@pytest.mark.parametrize("length", ["6", "4,6"])
@pytest.mark.parametrize("kind", FFTS)
def test_fft(kind: str, length: str, gpu: Any) -> None:
    source, target = FFTS[kind]
    text = f"""ENTRY main {{ x = {source} parameter(0)
      ROOT r = {target} fft(x), fft_type={kind}, fft_length={{{length}}} }}"""
    dtype = np.float32 if source.startswith("f") else np.complex64
    x = matrices(dtype, 2, 4, 4 if kind == "IRFFT" else 6)
    check(text, [x], gpu)
    assert gpu.counts.get("copies 2") == 1  # the result's, nothing else came to the host


SIDES = list(
    itertools.product([True, False], ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"], [True, False])
)


@pytest.mark.parametrize("left, transpose, unit", SIDES)
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_triangular_solve(dtype: Any, left: bool, transpose: str, unit: bool) -> None:
    solve = solvers.device_function(parse_opcode("triangular-solve"))
    a = matrices(dtype, 2, 5, 5) + 4 * np.eye(5, dtype=dtype)
    b = matrices(dtype, 2, *((5, 3) if left else (3, 5)))
    for lower in (True, False):
        t = np.tril(a) if lower else np.triu(a)
        t = t - np.einsum("bii->bi", t)[..., None] * np.eye(5) + np.eye(5) if unit else t
        op = {"NO_TRANSPOSE": t, "TRANSPOSE": t.mT, "ADJOINT": t.conj().mT}[transpose]
        result = np.empty_like(b)
        attributes = fake_cupy.types.SimpleNamespace(
            left_side=left, lower=lower, transpose_a=transpose, unit_diagonal=unit
        )
        assert solve is not None
        solve(np, [a, b], [result], attributes)
        np.testing.assert_allclose(op @ result if left else result @ op, b, atol=1e-4)


def parse_opcode(name: str) -> Any:
    return next(opcode for opcode in solvers.Opcode if opcode.value == name)


CALLS = [
    ("trsm", "side = 82 : ui8, uplo = 85 : ui8, trans_x = 84 : ui8, diag = 78 : ui8"),
    ("trsm", "side = 76 : ui8, uplo = 76 : ui8, trans_x = 78 : ui8, diag = 85 : ui8"),
    ("syevd", "mode = 86 : ui8, uplo = 76 : ui8"),
    ("syevd", "mode = 78 : ui8, uplo = 85 : ui8"),
    ("gesdd", "mode = 83 : ui8"),
    ("gesdd", "mode = 65 : ui8"),
    ("gesdd", "mode = 78 : ui8"),
]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name, options", CALLS)
def test_custom_calls_of_lapack(name: str, options: str, dtype: Any) -> None:
    """Absolute values are compared: vectors have no sign."""
    real = np.float32
    a = matrices(dtype, 2, 4, 4) + 4 * np.eye(4, dtype=dtype)
    if name == "syevd":
        a = a + a.conj().mT
    if name == "gesdd":
        a = matrices(dtype, 2, 4, 3)
    operands = [a, matrices(dtype, 2, 4, 4)] if name == "trsm" else [a]
    columns = 4 if "65" in options else 3
    shapes: dict[str, list[tuple[Any, tuple[int, ...]]]] = {
        "trsm": [(dtype, (2, 4, 4))],
        "syevd": [(dtype, (2, 4, 4)), (real, (2, 4)), (np.int32, (2,))],
        "gesdd": [
            (dtype, (2, 4, 3)),
            (real, (2, 3)),
            (dtype, (2, 4, columns)),
            (dtype, (2, 3, 3)),
            (np.int32, (2,)),
        ],
    }
    ours, theirs = ([np.full(s, 7, t) for t, s in shapes[name]] for _ in range(2))
    attributes = fake_cupy.types.SimpleNamespace(backend_config=f"{{{options}}}")
    function, host = solvers.device_function(f"lapack.{name}"), find_custom_call(f"lapack.{name}")
    assert function is not None and host is not None
    function(np, operands, ours, attributes)
    host(operands, theirs, attributes, None)  # type: ignore[arg-type]
    shown = slice(1, None) if name == "gesdd" else slice(None)
    for got, want in zip(ours[shown], theirs[shown], strict=True):
        np.testing.assert_allclose(abs(got[..., :3]), abs(want[..., :3]), rtol=1e-3, atol=1e-3)


def test_what_stays_on_the_host_is_said_once() -> None:
    solvers.stays_on_host.clear()
    with pytest.warns(UserWarning, match=r"lapack.geqrf runs on the host: nothing on the GPU does"):
        solvers.stays_on_host("lapack.geqrf")
    solvers.stays_on_host("lapack.geqrf")
    solvers.stays_on_host("pyjax_callback")
    assert solvers.device_function("lapack_cheevd_ffi") is solvers.device_function("lapack.syevd")
    assert solvers.device_function("lapack_sheevd_ffi") is None
