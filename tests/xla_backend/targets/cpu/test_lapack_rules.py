"""Calls of LAPACK in programs of the CPU: native code makes them, and gives what SciPy gives."""

import ctypes
import re

import numpy as np
import pytest

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.jit import Address
from xla_backend.llvm.target import host_target
from xla_backend.program.ir import Library
from xla_backend.runtime.host_libraries.lapack_arguments import PREFIX
from xla_backend.runtime.host_libraries.lapack_functions import lapack_address
from xla_backend.runtime.host_libraries.lent_threads import blas
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.routines.lapack_table import LAPACK, TYPES
from xla_backend.targets.cpu.routines.library import KernelLibrary

# Sizes of arrays by their names, and options, of the calls that are tried of each routine. Letters
# stand for what the routine is told of them.
_N = {"n": 19}
CASES = {
    "potrf": [(_N, {"uplo": "L"}), (_N, {"uplo": "U"})],
    "geqp3": [({"m": 30, "n": 19, "k": 19}, {})],
    "ormqr": [
        ({"r": 30, "p": 12, "m": 30, "n": 7}, {"left": 1, "transpose": 1}),
        ({"r": 30, "p": 12, "m": 7, "n": 30}, {"left": 0, "transpose": 0}),
    ],
    "gesdd": [
        ({"m": 30, "n": 6, "k": 6, "l": 6, "r": 6}, {"mode": "S"}),
        ({"m": 6, "n": 30, "k": 6, "l": 6, "r": 30}, {"mode": "A"}),
        ({"m": 30, "n": 6, "k": 6, "l": 6, "r": 6}, {"mode": "N"}),
    ],
    "syevd": [(_N, {"mode": "V", "uplo": "L"}), (_N, {"mode": "N", "uplo": "U"})],
    "geev": [
        (_N, {"compute_left": "V", "compute_right": "V"}),
        (_N, {"compute_left": "N", "compute_right": "N"}),
    ],
    "gees": [(_N, {"mode": "V"}), (_N, {"mode": "N"})],
    "gehrd": [({"n": 19, "j": 18}, {"low": 1, "high": 19})],
    "sytrd": [({"n": 19, "j": 18}, {"uplo": "L"}), ({"n": 19, "j": 18}, {"uplo": "U"})],
    "gtsv": [({"n": 19, "m": 3}, {})],
}
TOLERANCE = {P.F32: 2e-3, P.C64: 2e-3, P.F64: 1e-10, P.C128: 1e-10}


def test_every_routine_has_cases():
    assert {name for name, _ in LAPACK} == set(CASES)


def hlo(name, t, sizes, options, batch):
    routine = LAPACK[name, t]

    def shape(array):
        dims = ",".join(map(str, (batch, *(sizes[size] for size in array.sizes))))
        return f"{array.type_for(t)}[{dims}]"

    parameters = [f"%{a.name} = {shape(a)} parameter({i})" for i, a in enumerate(routine.reads)]
    arguments = ", ".join(f"%{a.name}" for a in routine.reads)
    results = ", ".join(shape(a) for a in routine.writes if not a.optional)
    numbers = {k: ord(v) if isinstance(v, str) else v for k, v in options.items()}
    config = ", ".join(f"{key} = {value} : i64" for key, value in numbers.items())
    lines = "\n  ".join(parameters)
    return f"""HloModule m
ENTRY %main {{
  {lines}
  ROOT %r = ({results}) custom-call({arguments}), custom_call_target="lapack.{name}",
    backend_config="{{{config}}}"
}}"""


def drawn(name, t, sizes, batch):
    """What is decomposed is hermitian with a large diagonal where that matters."""
    rng = np.random.default_rng(0)
    arrays = []
    for array in LAPACK[name, t].reads:
        shape = (batch, *(sizes[size] for size in array.sizes))
        x = rng.standard_normal(shape)
        x = x + 1j * rng.standard_normal(shape) if t.is_complex else x
        if name in ("potrf", "syevd", "sytrd"):
            x = x + x.conj().mT + 4 * sizes["n"] * (name == "potrf") * np.eye(sizes["n"])
        if array.name == "diagonal":
            x = x + 5
        arrays.append((0 * x.real if array.name == "fixed" else x).astype(
            array.type_for(t).numpy_dtype
        ))  # fmt: skip
    return arrays


def compiled(text):
    return compile_module(parse_module(text), CompileOptions())


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_native_calls_give_what_scipy_gives(name, t):
    for sizes, options in CASES[name]:
        text, given = hlo(name, t, sizes, options, 3), drawn(name, t, sizes, 3)
        program = compiled(text)
        assert f"lapack_{name}_{t}" in program.texts()["program"]
        expected = xla_backend.compile(parse_module(text), "interpreter").execute(given)
        for result, wanted in zip(program.run_arrays(given), expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=TOLERANCE[t], atol=10 * TOLERANCE[t])


def test_the_contract_is_scipy_s():
    sizes, options = CASES["gesdd"][1]
    text = hlo("gesdd", P.C64, sizes, options, 2)
    given = drawn("gesdd", P.C64, sizes, 2)
    for emulated, wanted in zip(
        xla_backend.compile(parse_module(text), "emulator").execute(given),
        xla_backend.compile(parse_module(text), "interpreter").execute(given),
        strict=True,
    ):
        np.testing.assert_array_equal(emulated, wanted)


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize(
    "name, read, letter",
    [
        ("syevd", "w", "N"),
        ("syevd", "vectors", "V"),
        ("gesdd", "s", "N"),
        ("gesdd", "vh", "S"),
        ("gees", "triangle", "N"),
        ("geev", "vl", "V"),
    ],
)
def test_vectors_that_nobody_reads_are_not_computed(name, read, letter, t):
    sizes, options = CASES[name][0]
    routine = LAPACK[name, t]
    names = [a.name for a in routine.writes if not a.optional]
    leaf = names.index(read)
    text = hlo(name, t, sizes, options, 2).replace("ROOT ", "")
    shape = re.search(r"%r = \((.*)\) custom-call", text)[1].split(", ")[leaf]
    text = text[: text.rindex("}")] + f"  ROOT %x = {shape} get-tuple-element(%r), index={leaf}\n}}"
    given = drawn(name, t, sizes, 2)
    program = compiled(text)
    (step,) = [s for s in program.program.steps if isinstance(s, Library)]
    told = dict(zip(routine.numbers, step.operands))
    options = {
        key: chr(told[key]) for key in told if key in ("mode", "compute_left", "compute_right")
    }
    assert options.pop("compute_left" if name == "geev" else "mode") == letter
    assert set(options.values()) <= {"N"}
    (expected,) = xla_backend.compile(parse_module(text), "interpreter").execute(given)
    (result,) = program.run_arrays(given)
    np.testing.assert_allclose(result, expected, rtol=TOLERANCE[t], atol=10 * TOLERANCE[t])


@pytest.mark.parametrize("name", ["geqp3", "gesdd", "geev"])
def test_the_same_bits_for_any_number_of_threads(name):
    sizes, options = CASES[name][0]
    given = drawn(name, P.F32, sizes, 41)
    program = compiled(hlo(name, P.F32, sizes, options, 41))
    before = num_threads()
    try:
        runs = []
        for threads in (1, 2, 7):
            set_num_threads(threads)
            runs += [program.run_arrays(given) for _ in range(2)]
    finally:
        set_num_threads(before)
    for run in runs[1:]:
        for first, again in zip(runs[0], run, strict=True):
            np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("mode", "SAN")
def test_singular_values_of_what_is_not_finite_are_nan(t, mode):
    """LAPACK might never come back; neighbours in the batch stay good."""
    sizes = {"m": 18, "n": 18, "k": 18, "l": 18, "r": 18}
    (a,) = drawn("gesdd", t, sizes, 3)
    a[1, 5, 6] = np.inf
    _, s, u, vh, info = compiled(hlo("gesdd", t, sizes, {"mode": mode}, 3)).run_arrays([a])
    assert list(info) == [0, 1, 0]
    assert np.isnan(s[1]).all() and np.isnan(u[1]).all() and np.isnan(vh[1]).all()
    assert all(np.isfinite(x[[0, 2]]).all() for x in (s, u, vh))


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("side", "VN")
def test_eigenvalues_of_what_is_not_finite_are_nan(t, side, platform):
    """Of some versions of LAPACK they were zero, and it complained on the terminal."""
    sizes, options = {"n": 18}, {"compute_left": side, "compute_right": side}
    (a,) = drawn("geev", t, sizes, 3)
    a[1, 5, 6] = np.nan
    text = hlo("geev", t, sizes, options, 3)
    *found, info = xla_backend.compile(parse_module(text), platform).execute([a])
    assert list(info) == [0, 1, 0]
    for values in found:
        assert np.isnan(values.view(values.real.dtype)[1]).all()
        assert np.isfinite(values[[0, 2]]).all()


def test_triangular_systems_are_our_own():
    text = """HloModule m
ENTRY %main {
  %a = f32[40,40] parameter(0)
  %b = f32[8,40] parameter(1)
  ROOT %x = (f32[8,40]) custom-call(%a, %b), custom_call_target="lapack.trsm",
    backend_config="{side = 82 : ui8, uplo = 85 : ui8, trans_x = 84 : ui8, diag = 85 : ui8}"
}"""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float32) / 8 for s in ((40, 40), (8, 40)))
    program = compiled(text)
    assert "triangular_blocked_f32" in program.texts()["program"]
    (x,) = program.run_arrays([a, b])
    triangle = np.triu(a, 1) + np.eye(40, dtype=np.float32)
    np.testing.assert_allclose(x @ triangle.T, b, atol=1e-5)


@pytest.mark.skipif(blas().set is None, reason="SciPy's BLAS is not OpenBLAS")
def test_openblas_has_one_thread_inside_and_its_own_number_after():
    seen = []
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)
    real = kind(lapack_address(f"{PREFIX}spotrf"))

    @kind
    def spy(*arguments):
        seen.append(blas().get())
        real(*arguments)

    kernels = KernelLibrary(host_target())
    kernels._addresses[f"{PREFIX}spotrf"] = Address(ctypes.cast(spy, ctypes.c_void_p).value, spy)
    routine = LAPACK["potrf", P.F32]
    a = np.eye(20, dtype=np.float32) * np.arange(1, 4, dtype=np.float32)[:, None, None] ** 2
    factor, info = np.empty_like(a), np.full(3, 7, np.int32)
    before = blas().get()
    blas().set(3)
    try:
        numbers = routine.numbers_for(P.F32, 3, 1, {"n": 20}, {"uplo": ord("L")})
        arrays = (a, factor, info, np.empty(64, np.uint8))
        ctypes.CFUNCTYPE(None)(kernels["pyjax_lapack_potrf_f32"])(
            *map(ctypes.c_int64, numbers), *(ctypes.c_void_p(x.ctypes.data) for x in arrays)
        )
        assert blas().get() == 3
    finally:
        blas().set(before)
    assert seen == [1, 1, 1]
    np.testing.assert_array_equal(factor, np.sqrt(a))
    np.testing.assert_array_equal(info, 0)


TRIDIAGONAL = """HloModule m
ENTRY %main {{
  %l = {t}[{b},{n}] parameter(0)
  %d = {t}[{b},{n}] parameter(1)
  %u = {t}[{b},{n}] parameter(2)
  %b = {t}[{b},{n},2] parameter(3)
  %r = ({t}[{b},{n}], {t}[{b},{n}], {t}[{b},{n}], {t}[{b},{n},2], s32[{b}])
    custom-call(%l, %d, %u, %b),
    custom_call_target="lapack.gtsv", backend_config="{{}}"
  ROOT %x = {t}[{b},{n},2] get-tuple-element(%r), index=3
}}"""


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_tridiagonal_systems_are_solved_here_where_nobody_reads_factors(t):
    """Each with the same bits, whatever is beside it."""
    given = drawn("gtsv", t, {"n": 70, "m": 2}, 21)
    text = TRIDIAGONAL.format(t=t, b=21, n=70)
    program = compiled(text)
    assert f"tridiagonal_{t}" in program.texts()["program"]
    (x,) = program.run_arrays(given)
    (wanted,) = xla_backend.compile(parse_module(text), "interpreter").execute(given)
    np.testing.assert_allclose(x, wanted, rtol=TOLERANCE[t], atol=10 * TOLERANCE[t])
    alone = compiled(TRIDIAGONAL.format(t=t, b=1, n=70))
    for row in (0, 15, 20):
        (y,) = alone.run_arrays([array[row : row + 1] for array in given])
        np.testing.assert_array_equal(y[0], x[row])
