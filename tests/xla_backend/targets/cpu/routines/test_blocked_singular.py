"""Singular values and vectors of larger matrices, against those of wider numbers."""

import ctypes

import numpy as np
import pytest

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.ir import Library
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.singular_plan import NUMBERS, TYPES, numbers_for

# Square, tall and wide ones: of fewer columns than a block of reflectors, of one block and several,
# and such that are factored first.
SHAPES = [
    (2, 2), (17, 17), (18, 17), (33, 33), (33, 20), (20, 33), (64, 64), (130, 130), (150, 100),
    (1, 30), (30, 1), (40, 20), (20, 40), (100, 3), (3, 100), (260, 70),
]  # fmt: skip


def numbers_of(a, mode, tasks=1):
    """The numbers that a routine takes, with the sizes of u and vh by rows."""
    b, m, n = a.shape
    few = min(m, n)
    left, right = {"S": (few, few), "A": (m, n), "N": (0, 0)}[mode]
    return numbers_for(b, tasks, m, n, left, right)


def results_of(a, numbers):
    b, m, n = a.shape
    few = min(m, n)
    left, right = numbers["left"] or few, numbers["right"] or few
    shapes = (m, n), (few,), (m, left), (right, n)
    info = np.full(b, 7, np.int32)
    return [*(np.full((b, *shape), 7, a.dtype) for shape in shapes), info]


def svd(a, mode="S", tasks=1):
    """(u, s, vh, info) of each matrix; memory is full of other numbers before."""
    numbers = numbers_of(a, mode, tasks)
    results = results_of(a, numbers)
    work = np.full(tasks * numbers["elements"], 7, a.dtype)
    function = ctypes.CFUNCTYPE(None)(kernel_library()[f"pyjax_svd_blocked_{kind(a)}"])
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, *results, work)]
    function(*(ctypes.c_int64(numbers[name]) for name in NUMBERS), *pointers)
    copy, s, u, vh, info = results
    np.testing.assert_array_equal(copy, a)
    return u, s, vh, info


def kind(a):
    return next(t for t in TYPES if t.numpy_dtype == a.dtype)


def draw(t, *shape):
    return np.random.default_rng(0).standard_normal(shape).astype(t.numpy_dtype)


def check(a, times=30.0):
    """All modes: values, products and orthogonality, to so many units in the last place of the
    largest value."""
    wide = a.astype(np.longdouble if a.dtype == np.float64 else np.float64)
    unit = times * float(np.finfo(a.dtype).eps)
    *_, m, n = a.shape
    few = min(m, n)
    power = 2.0 ** -np.floor(np.log2(np.abs(wide).max(initial=1e-290)))
    expected = np.linalg.svd((wide * power).astype(np.float64), compute_uv=False)
    for mode in "NSA":
        u, s, vh, info = svd(a, mode)
        assert not info.any()
        assert (s >= 0).all() and (np.diff(s, axis=-1) <= 0).all()
        largest = expected.max(initial=1)
        assert np.abs(s.astype(wide.dtype) * power - expected).max() <= unit * largest
        if mode == "N":
            assert not u.any() and not vh.any()
            continue
        values = s.astype(wide.dtype)[:, None, :] * power
        product = (u[:, :, :few] * values) @ vh[:, :few].astype(wide.dtype)
        assert np.abs(product - wide * power).max() <= unit * largest
        for rows in (u.mT.astype(np.float64), vh.astype(np.float64)):
            assert np.abs(rows @ rows.mT - np.eye(rows.shape[1])).max() <= unit


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_random_matrices(shape, t):
    check(draw(t, 2, *shape))


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_matrices_of_lower_rank(t):
    a = draw(t, 1, 70, 50)
    a[0, :, 20:40] = a[0, :, :20]
    a[0, 33] = 0
    check(a)
    check(draw(t, 1, 60, 3) @ draw(t, 1, 3, 60))
    for special in (np.zeros((50, 40)), np.eye(40), np.ones((40, 30)), np.diag(np.arange(40.0))):
        check(special.astype(t.numpy_dtype)[None])
    np.testing.assert_array_equal(svd(np.zeros((1, 40, 20), t.numpy_dtype))[1], 0)


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(50, 40), (90, 30)], ids=str)
@pytest.mark.parametrize("power", [0.9, 0.4, -0.4, -0.9])
def test_very_large_and_very_small_numbers(shape, power, t):
    size = t.numpy_dtype.type(float(np.finfo(t.numpy_dtype).max) ** power)
    check(draw(t, 1, *shape) * size)


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_the_smallest_numbers(t):
    """Those that have no inverse: as many as there are bits are right."""
    least = float(np.finfo(t.numpy_dtype).smallest_subnormal)
    a = (np.round(draw(P.F64, 1, 40, 40) * 100) * least).astype(t.numpy_dtype)
    u, s, *_ = svd(a)
    exact = np.linalg.svd(np.round(draw(P.F64, 1, 40, 40) * 100), compute_uv=False)
    assert np.abs(s / np.float64(least) - exact).max() < 2
    assert np.abs(u.mT.astype(np.float64) @ u - np.eye(40)).max() < 1e-4


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_columns_of_very_different_sizes(t):
    """Sums of squares of the small ones vanish: their values keep some digits."""
    largest = float(np.finfo(t.numpy_dtype).max)
    sizes = (largest ** np.linspace(0, -0.8, 40)).astype(t.numpy_dtype)
    check(draw(t, 1, 60, 40) * sizes)
    check(sizes[::-1, None] * draw(t, 1, 40, 50))
    values = svd(np.diag(sizes)[None], "N")[1]
    np.testing.assert_allclose(values[0], sizes, rtol=1e-5)


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("mode", "SAN")
@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_what_is_not_finite(value, mode, t):
    """Neighbours in the batch stay good."""
    a = draw(t, 3, 18, 20)
    a[1, 5, 6] = value
    u, s, vh, info = svd(a, mode)
    assert list(info) == [0, 1, 0]
    assert np.isnan(s[1]).all() and np.isnan(u[1]).all() and np.isnan(vh[1]).all()
    assert all(np.isfinite(x[[0, 2]]).all() for x in (s, u, vh))


@pytest.mark.parametrize("shape", [(20, 40, 40), (7, 30, 90), (1, 300, 260)], ids=str)
def test_the_same_bits_for_any_number_of_threads(shape):
    before = num_threads()
    a = draw(P.F32, *shape)
    runs = []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            runs += [svd(a, "A", tasks) for tasks in (1, min(len(a), 8))]
    finally:
        set_num_threads(before)
    for run in runs[1:]:
        for first, again in zip(runs[0], run, strict=True):
            np.testing.assert_array_equal(first, again)


# -- programs --------------------------------------------------------------------------------------


def program_text(t, batch, m, n, mode, leaf=None):
    few = min(m, n)
    left, right = (m, n) if mode == "A" else (few, few)
    shapes = [f"{t}[{batch},{m},{n}]", f"{t}[{batch},{few}]"]
    shapes += [f"{t}[{batch},{m},{left}]", f"{t}[{batch},{right},{n}]", f"s32[{batch}]"]
    root, last = ("ROOT ", "") if leaf is None else ("", f"ROOT %x = {shapes[leaf]} ")
    last += f"get-tuple-element(%r), index={leaf}" if last else ""
    return f"""HloModule m
ENTRY %main {{
  %a = {shapes[0]} parameter(0)
  {root}%r = ({", ".join(shapes)}) custom-call(%a), custom_call_target="lapack.gesdd",
    backend_config="{{mode = {ord(mode)} : i64}}"
  {last}
}}"""


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("shape, mode", [((30, 19), "S"), ((19, 30), "A"), ((60, 19), "N")])
def test_programs_give_what_scipy_gives(shape, mode, t):
    text, a = program_text(t, 3, *shape, mode), draw(t, 3, *shape)
    program = compile_module(parse_module(text), CompileOptions())
    assert f"svd_blocked_{t}" in program.texts()["program"]
    found = program.run_arrays([a])
    wanted = xla_backend.compile(parse_module(text), "interpreter").execute([a])
    tolerance = 1e3 * np.finfo(a.dtype).eps
    np.testing.assert_allclose(found[1], wanted[1], rtol=tolerance)
    # Vectors may have other signs.
    for result, expected in zip(found[2:4], wanted[2:4], strict=True):
        result, expected = np.abs(result[:, :19, :19]), np.abs(expected[:, :19, :19])
        np.testing.assert_allclose(result, expected, atol=tolerance)
    np.testing.assert_array_equal(found[4], wanted[4])


@pytest.mark.parametrize("leaf, columns", [(1, 0), (2, 19), (3, 19)])
def test_vectors_that_nobody_reads_are_not_computed(leaf, columns):
    text, a = program_text(P.F32, 2, 30, 19, "S", leaf), draw(P.F32, 2, 30, 19)
    program = compile_module(parse_module(text), CompileOptions())
    (step,) = [s for s in program.program.steps if isinstance(s, Library)]
    assert dict(zip(NUMBERS, step.operands))["left"] == columns
    (found,) = program.run_arrays([a])
    (wanted,) = xla_backend.compile(parse_module(text), "interpreter").execute([a])
    np.testing.assert_allclose(np.abs(found), np.abs(wanted), atol=1e-4)


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_the_contract(t):
    """Signs of vectors are free; values are not."""
    a = draw(t, 2, 20, 30)
    for mode in "NSA":
        numbers = numbers_of(a, mode)
        results = results_of(a, numbers)
        flat = [x.reshape(-1) for x in (a, *results)]
        work = np.zeros(numbers["elements"], a.dtype)
        ROUTINES[f"svd_blocked_{t}"].reference(*map(numbers.get, NUMBERS), *flat, work)
        for x, y in zip(
            svd(a, mode), (results[2], results[1], results[3], results[4]), strict=True
        ):
            np.testing.assert_allclose(
                np.abs(x)[:, :20, :20] if x.ndim == 3 else x,
                np.abs(y)[:, :20, :20] if y.ndim == 3 else y,
                atol=1e-3,
            )
