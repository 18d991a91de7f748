"""FFT and linear algebra on a device, on a stand-in for CuPy: its FFT is NumPy's, and its cuSOLVER
is LAPACK."""

from __future__ import annotations

import itertools
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from tests.xla_backend.targets.gpu.cuda_programs import compiled
from tests.xla_backend.targets.gpu.library_checks import run_on
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.custom_calls import custom_calls_in, find_custom_call
from xla_backend.targets.gpu.cuda import solver_calls, transforms
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.routines import ROUTINES
from xla_backend.targets.gpu.routines.solvers import REALS, SOLVERS, routine_name


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    return fake_cupy.install(monkeypatch, 1)[0]


def matrices(dtype: Any, *shape: int) -> np.ndarray:
    draw = np.random.default_rng(0).standard_normal
    real = draw(shape)
    return (real + 1j * draw(shape) if np.dtype(dtype).kind == "c" else real).astype(dtype)


def check(text: str, arguments: list[np.ndarray], gpu: Any) -> None:
    executable = compiled(text)
    calls = custom_calls_in(ExecutionContext(executable.device))
    want = evaluate(parse_module(text), arguments, custom_calls=calls)
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


SIZES: dict[str, list[dict[str, int]]] = {
    "potrf": [{"n": 5}],
    "getrf": [{"m": 5, "n": 5}, {"m": 6, "n": 4}, {"m": 3, "n": 5}],
    "geqrf": [{"m": 6, "n": 4}, {"m": 3, "n": 5}],
    "orgqr": [{"m": 6, "n": 5, "p": 4}, {"m": 5, "n": 5, "p": 5}],
    "ormqr": [{"m": 6, "n": 3, "p": 4, "r": 6}, {"m": 3, "n": 6, "p": 5, "r": 6}],
    "syevd": [{"n": 5}],
    "gesdd": [{"m": 6, "n": 4, "p": 4, "r": 4}, {"m": 6, "n": 4, "p": 6, "r": 4}],
    "trsm": [{"m": 5, "n": 3, "p": 5}, {"m": 3, "n": 5, "p": 5}],
}
LETTERS = {"uplo": "LU", "mode": "NV", "side": "LR", "trans_x": "NTC", "diag": "NU"}


def choices(name: str, sizes: dict[str, int]) -> Any:
    """Options that fit the sizes."""
    if name == "ormqr":
        return [(int(sizes["m"] == sizes["r"]), transpose) for transpose in (0, 1)]
    if name == "gesdd":
        return [(ord(c),) for c in ("A" if sizes["p"] == sizes["m"] else "SN")]
    if name == "trsm":
        side = "L" if sizes["m"] == sizes["p"] else "R"
        return [(ord(side), *map(ord, rest)) for rest in itertools.product("LU", "NTC", "NU")]
    return itertools.product(*[map(ord, LETTERS[key]) for key in SOLVERS[name].options])


def operands(name: str, type: Any, batches: int, sizes: dict[str, int], options: Any) -> list[Any]:
    solver, sizes = SOLVERS[name], dict(sizes)
    if "m" in sizes:
        sizes["k"] = min(sizes["m"], sizes["n"])
    element = type.numpy_dtype
    found: list[Any] = [batches, *[sizes[s] for s in solver.sizes], *options]
    draw = np.random.default_rng(0).standard_normal
    for number, array in enumerate((*solver.operands, *solver.results)):
        shape = (batches, *[sizes[letter] for letter in array.extents])
        x: Any = draw(shape)
        if type.is_complex and array.kind == "e":
            x = x + 1j * draw(shape)
        if array.extents in ("nn", "pp") and number == 0:
            x = x @ x.conj().mT + np.eye(shape[-1])
        if number >= len(solver.operands):
            x = np.full(shape, 7)
        found.append(x.astype(array.type(type).numpy_dtype if array.kind != "e" else element))
        found[-1] = found[-1].reshape(-1)
    if name in ("orgqr", "ormqr"):  # real reflectors
        at = 1 + len(solver.sizes) + len(options)
        rows, columns = (sizes[s] for s in solver.operands[0].extents)
        given = found[at].reshape(batches, columns, rows)
        packed, taus = (np.empty_like(given), np.empty((batches, min(rows, columns)), element))
        host = find_custom_call("lapack_columns.geqrf")
        assert host is not None
        host([given], [packed, taus], fake_cupy.types.SimpleNamespace(backend_config=""), None)  # type: ignore
        found[at], found[at + 1] = packed.reshape(-1), taus[:, : sizes["p"]].reshape(-1)
    return found


@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("type", REALS)
@pytest.mark.parametrize("name", SOLVERS)
def test_routines_do_what_their_contracts_say(
    name: str, type: Any, batches: int, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many at once and, where matrices are larger, one after the other."""
    device = CudaClient().devices()[0]
    routine = routine_name(name, type)
    tolerance = tolerance_of(type)
    for sizes in SIZES[name]:
        for options in choices(name, sizes):
            given = operands(name, type, batches, sizes, options)
            check_solver(device, name, routine, given, tolerance)
    if batches > 1 and name in ("potrf", "getrf", "syevd", "gesdd", "trsm"):
        at_once = {c for c in gpu.counts if c.endswith("Batched") and "gemm" not in c}
        assert at_once
        counts = {called: gpu.counts[called] for called in at_once}
        monkeypatch.setattr(solver_calls, "_MOST_AT_ONCE", 2)
        monkeypatch.setattr(solver_calls, "_MOST_OF_JACOBI", 2)
        check_solver(device, name, routine, given, tolerance)
        assert counts == {called: gpu.counts[called] for called in at_once}
    assert not sys.modules["cupy"].cuda.cusolver.settings  # all are given back


def tolerance_of(type: Any) -> float:
    return 1e-10 if REALS[type].byte_size == 8 else 1e-3


def check_solver(
    device: Any,
    name: str,
    routine: str,
    given: list[Any],
    tolerance: float,
    *,
    unique: bool = False,
) -> None:
    """The results are those of the contract, but for what stands in memory that is worked in.
    `unique`: vectors, which have any sign, and the other triangle of a factor are not compared."""
    left_out = {"used", *(("vectors", "u", "vh") if unique else ())}
    want = [o.copy() if isinstance(o, np.ndarray) else o for o in given]
    ROUTINES[routine].reference(*want)
    expected = [o for o in want if isinstance(o, np.ndarray)]
    got = run_on(device, routine, given)
    arrays = (*SOLVERS[name].operands, *SOLVERS[name].results)
    without = chr(given[2]) == "N" if name == "syevd" else False
    for array, g, w in zip(arrays, got, expected, strict=True):
        if unique and array.name == "factor":
            batches, n, uplo = given[:3]
            triangle = np.triu if chr(uplo) == "L" else np.tril  # by columns
            g, w = (triangle(x.reshape(batches, n, n)) for x in (g, w))
        if array.name not in left_out and not (without and array.name == "vectors"):
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance, err_msg=array.name)


LARGE = 65  # rows: more than kernels of ours take
PROGRAMS = {
    "cholesky": (f"f32[2,{LARGE},{LARGE}]", "r = {a} cholesky(a), lower=true"),
    "upper": (f"c64[{LARGE},{LARGE}]", "r = {a} cholesky(a), lower=false"),
    "triangular-solve": (
        f"f64[{LARGE},{LARGE}]",
        "r = {a} triangular-solve(a, a), left_side=false, lower=true, transpose_a=ADJOINT",
    ),
    "getrf": (
        "f32[3,4,6]",
        'r = (f32[3,4,6], s32[3,4], s32[3]) custom-call(a), custom_call_target="lapack_sgetrf_ffi"',
    ),
    "geqrf": (
        "c128[6,4]",
        'r = ({a}, c128[4], s32[]) custom-call(a), custom_call_target="lapack_zgeqrf_ffi"',
    ),
    "trsm": (
        "f32[5,5]",
        'r = {a} custom-call(a, a), custom_call_target="lapack.trsm", '
        'backend_config="{side = 82 : ui8, uplo = 85 : ui8, trans_x = 84 : ui8}"',
    ),
    "potrf": (
        "f32[2,5,5]",
        "r = ({a}, s32[2]) custom-call(a), "
        'custom_call_target="lapack_spotrf_ffi", backend_config="{uplo = 85 : ui8}"',
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, gpu: Any, recwarn: pytest.WarningsRecorder) -> None:
    """Results come to the host, nothing else does, and nobody waits for one."""
    shape, root = PROGRAMS[name]
    text = f"ENTRY main {{ a = {shape} parameter(0)\n ROOT {root.replace('{a}', shape)} }}"
    module = parse_module(text)
    assert module.entry is not None
    found = module.entry.parameters[0].shape
    a = matrices(found.element_type.numpy_dtype, *found.dimensions)
    if found.dimensions[-1] == found.dimensions[-2]:
        a = a @ a.conj().mT + found.dimensions[-1] * np.eye(found.dimensions[-1], dtype=a.dtype)
    check(text, [a], gpu)
    assert module.entry.root is not None
    results = sum(s.num_elements > 0 for s in module.entry.root.shape.flatten())
    assert gpu.counts.get("copies 2") == results
    assert not [w for w in recwarn if "runs on the host" in str(w.message)]


def test_a_matrix_that_is_not_positive_definite_is_nan(gpu: Any) -> None:
    text = f"""ENTRY main {{ a = f32[2,{LARGE},{LARGE}] parameter(0)
      ROOT r = f32[2,{LARGE},{LARGE}] cholesky(a), lower=true }}"""
    good = np.eye(LARGE, dtype=np.float32)
    (factors,) = compiled(text).run_arrays([np.stack([-good, good])])
    inside = np.tril(np.ones((LARGE, LARGE), bool))
    assert np.isnan(factors[0][inside]).all() and not factors[0][~inside].any()
    np.testing.assert_array_equal(factors[1], good)


def test_calls_of_lapack_with_other_shapes_are_refused() -> None:
    text = """ENTRY main { a = f32[4,6] parameter(0)
      ROOT r = (f32[4,6], s32[6], s32[]) custom-call(a), custom_call_target="lapack.getrf" }"""
    with pytest.raises(RuntimeFailure, match=r"lapack.getrf: result 1 has shape \[6\]"):
        compiled(text)


def test_what_stays_on_the_host_is_said_once() -> None:
    transforms.stays_on_host.clear()
    with pytest.warns(UserWarning, match=r"lapack.geev runs on the host: no library of the GPU"):
        transforms.stays_on_host("lapack.geev")
    transforms.stays_on_host("lapack.geev")
    transforms.stays_on_host("pyjax_callback")
    assert transforms.device_function("lapack.geev") is None


def test_lists_of_addresses_are_there_until_they_are_used(
    monkeypatch: pytest.MonkeyPatch, gpu: Any
) -> None:
    """A routine takes two, and the second one may be one too many to keep both."""
    monkeypatch.setattr(solver_calls, "_MOST_LISTS", 1)
    caller, taken, seen = solver_calls._Caller, list[Any](), list[bool]()
    memory, of_cublas = caller.memory, caller.of_cublas

    def remembered(self: Any, nbytes: int) -> Any:
        found = memory(self, nbytes)
        taken.append(weakref.ref(found))
        return found

    def watched(self: Any, name: str) -> Any:
        function = of_cublas(self, name)

        def call(*arguments: Any) -> Any:
            if name == "trsmBatched":
                seen.extend(reference() is not None for reference in taken)
            return function(*arguments)

        return call

    monkeypatch.setattr(caller, "memory", remembered)
    monkeypatch.setattr(caller, "of_cublas", watched)
    text = """ENTRY main { a = f32[3,70,70] parameter(0)  b = f32[3,70,2] parameter(1)
      ROOT r = f32[3,70,2] triangular-solve(a, b), left_side=true, lower=true,
        unit_diagonal=false, transpose_a=NO_TRANSPOSE }"""
    a = matrices(np.float32, 3, 70, 70) + 70 * np.eye(70, dtype=np.float32)
    check(text, [a, matrices(np.float32, 3, 70, 2)], gpu)
    assert seen == [True, True]
