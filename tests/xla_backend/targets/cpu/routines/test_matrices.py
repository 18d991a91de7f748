"""Factors and triangular systems against SciPy's, for all types, sizes and counts of problems."""

import ctypes
import itertools

import numpy as np
import pytest
import scipy.linalg

from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.matrix_facts import (
    BLOCK_ROWS,
    CONJUGATED,
    LOWER,
    MOST_LANES,
    MOST_ROWS,
    RIGHT,
    TRANSPOSED,
    TYPES,
    UNIT,
)

TOLERANCE = {"f32": 3e-4, "f64": 1e-11, "c64": 3e-4, "c128": 1e-11}
# One problem, less than a vector of them, several vectors and a rest.
COUNTS = (1, 5, 37)


def call(routine, *operands):
    function = ctypes.CFUNCTYPE(None)(kernel_library()[f"pyjax_{routine}"])
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    function(*[number(x) if isinstance(x, int) else pointer(x.ctypes.data) for x in operands])


def draw(t, *shape, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if t.is_complex:
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(t.numpy_dtype)


def close(t, got, expected):
    tolerance = TOLERANCE[t.value]
    scale = max(1.0, np.nanmax(np.abs(expected), initial=0))
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale)


def is_small(a):
    return a.shape[-1] <= MOST_ROWS


def work_of(a, size, tasks):
    """What the routines for larger matrices work in."""
    return [np.full(tasks * k, 7, a.dtype) for k in (size, BLOCK_ROWS * len(a[0]))]


def cholesky(a, lower, tasks=2):
    out = np.full_like(a, 7)
    if is_small(a):
        call(f"cholesky_{kind(a)}", *a.shape[:2], lower, a, out)
    else:
        work = work_of(a, a[0].size, tasks)
        call(f"cholesky_blocked_{kind(a)}", *a.shape[:2], lower, tasks, a, out, *work)
    return out


def kind(a):
    return next(t for t in TYPES if t.numpy_dtype == a.dtype)


def lu(a, tasks=2):
    count, m, n = a.shape
    factors = np.full_like(a, 7)
    pivots, info = np.full((count, min(m, n)), 7, np.int32), np.full(count, 7, np.int32)
    if max(m, n) <= MOST_ROWS:
        call(f"lu_{kind(a)}", count, m, n, a, factors, pivots, info)
    else:
        work = [np.full(tasks * m * k, 7, a.dtype) for k in (MOST_LANES, n)]
        given = (count, m, n, tasks, a, factors, pivots, info, *work)
        call(f"lu_blocked_{kind(a)}", *given)
    return factors, pivots, info


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("lower", [1, 0], ids=["lower", "upper"])
def test_cholesky(t, lower):
    large = [(2, 17), (3, 18), (5, 35), (1, 64), (2, 67), (2, 150)]
    sizes = [*itertools.product(COUNTS, (1, 2, 7, MOST_ROWS)), *large]
    for count, n in sizes:
        a = draw(t, count, n, n)
        a = a @ a.conj().mT + np.eye(n, dtype=a.dtype)
        factor = np.linalg.cholesky(a)
        other = np.triu(np.full(a.shape, np.nan), 1).astype(a.dtype)
        given = a + (other if lower else other.mT)  # the other triangle is not read
        got = cholesky(np.ascontiguousarray(given), lower)
        close(t, got, factor if lower else factor.conj().mT)


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, -np.inf])
@pytest.mark.parametrize("n", [3, 70])
def test_cholesky_of_what_has_none(t, wrong, n):
    """NaN in the triangle of the factor, zero in the other, and good neighbours stay good."""
    a = np.tile(np.eye(n, dtype=t.numpy_dtype), (3, 1, 1))
    a[1, n - 2, n - 2] = wrong
    for lower, triangle in ((1, np.tril), (0, np.triu)):
        got = cholesky(a, lower)
        np.testing.assert_array_equal(got[[0, 2]], a[[0, 2]])
        np.testing.assert_array_equal(got[1], triangle(np.full((n, n), np.nan, a.dtype)))


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_lu(t):
    (getrf,) = scipy.linalg.get_lapack_funcs(("getrf",), dtype=t.numpy_dtype)
    small = [(1, 1), (3, 3), (MOST_ROWS, MOST_ROWS), (9, 4), (4, 9), (1, 5), (5, 1)]
    large = [(17, 17), (40, 3), (3, 40), (33, 70), (200, 150)]
    sizes = [*itertools.product(COUNTS, small), *((3, size) for size in large)]
    for count, (m, n) in sizes:
        a = draw(t, count, m, n)
        a[0, :, n // 2] = 0  # singular, and goes on behind it
        for each, factors, pivots, info in zip(a, *lu(a)):
            expected, rows, status = getrf(each)
            np.testing.assert_array_equal(pivots, rows + 1)
            assert info == status
            close(t, factors, expected)


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("n", [4, 50])
def test_first_of_equal_pivots(n, t):
    factors, pivots, info = lu(np.ones((2, n, n), t.numpy_dtype))
    np.testing.assert_array_equal(pivots, [range(1, n + 1)] * 2)
    np.testing.assert_array_equal(info, [2, 2])
    assert np.isfinite(factors).all()


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_factors_of_pivots_without_an_inverse(t):
    """One over a subnormal pivot is infinite; quotients by it are not."""
    tiny = float(np.finfo(t.numpy_dtype).tiny)
    a = draw(t, 1, 40, 40) * np.asarray(tiny / 64, t.numpy_dtype)
    ((factors,), (pivots,), _) = lu(a)
    lower = np.tril(factors, -1).astype(np.complex128) + np.eye(40)
    rows = np.arange(40)
    for k, pivot in enumerate(pivots):
        rows[[k, pivot - 1]] = rows[[pivot - 1, k]]
    assert np.abs(lower).max() < 2
    given = (a[0, rows] / tiny).astype(np.complex128)
    product = lower @ (np.triu(factors) / tiny).astype(np.complex128)
    unit = float(np.finfo(t.numpy_dtype).smallest_subnormal) / tiny
    np.testing.assert_allclose(product, given, rtol=0, atol=400 * unit)


@pytest.mark.parametrize("shape", [(41, 40, 40), (1, 300, 260)])
def test_large_factors_have_the_same_bits_for_any_number_of_threads(shape):
    before = num_threads()
    a = draw(TYPES[0], *shape)
    try:
        runs = []
        for threads, tasks in itertools.product((1, 2, 7), (1, min(len(a), 8))):
            set_num_threads(threads)
            runs.append(lu(a, tasks))
    finally:
        set_num_threads(before)
    for run in runs[1:]:
        for first, again in zip(runs[0], run, strict=True):
            np.testing.assert_array_equal(first, again)


def triangle_of(a, flags):
    triangle = np.tril(a) if flags & LOWER else np.triu(a)
    if flags & UNIT:
        triangle[..., np.arange(a.shape[-1]), np.arange(a.shape[-1])] = 1
    triangle = triangle.mT if flags & TRANSPOSED else triangle
    return triangle.conj() if flags & CONJUGATED else triangle


def triangular(flags, a, b, tasks=2):
    count, n, _ = a.shape
    x = np.full_like(b, 7)
    sides = b.shape[1 if flags & RIGHT else 2]
    if is_small(a):
        call(f"triangular_{kind(a)}", count, n, sides, flags, a, b, x)
    else:
        work = work_of(a, b[0].size, tasks)
        call(f"triangular_blocked_{kind(a)}", count, n, sides, flags, tasks, a, b, x, *work)
    return x


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("flags", range(32))
def test_triangular(t, flags):
    small = [(1, 3, 1), (1, 5, 40), (37, 1, 1), (7, 4, 6), (2, MOST_ROWS, 3)]
    for count, n, sides in [*small, (2, 17, 1), (2, 65, 5), (1, 130, 150)]:
        a = (draw(t, count, n, n) / n + 4 * np.eye(n)).astype(t.numpy_dtype)
        b = draw(t, count, *((sides, n) if flags & RIGHT else (n, sides)), seed=1)
        x = triangular(flags, a, b)
        m = triangle_of(a, flags)
        close(t, x @ m if flags & RIGHT else m @ x, b)


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("n", [3, 20])
def test_zero_on_the_diagonal(t, n):
    """As division gives it, in the row and behind it."""
    a = np.eye(n, dtype=t.numpy_dtype)[None]
    a[0, 1, 1] = 0
    x = triangular(LOWER, a, np.ones((1, n, 1), t.numpy_dtype))[0, :, 0]
    assert x[0] == 1 and np.isinf(x[1]) and np.isnan(x[2:]).all()


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_hardly_positive_definite(t):
    """Backward stable: a product of the factor is as near as LAPACK's, however ill-conditioned."""
    x = np.linspace(0, 1, 200)
    a = np.exp(-((x[:, None] - x) ** 2) / 0.1)
    a = (a + 200 * np.finfo(t.numpy_dtype).eps * np.eye(200)).astype(t.numpy_dtype)
    factor = cholesky(a[None], 1)[0]
    (potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), dtype=t.numpy_dtype)
    other, info = potrf(a, lower=1, clean=1)
    assert info == 0

    def error(l):
        wide = l.astype(np.complex128)
        return np.abs(wide @ wide.conj().T - a).max()

    assert error(factor) < 4 * error(other) + np.finfo(t.numpy_dtype).eps


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_same_bits_for_any_count_and_threads(t):
    a = draw(t, 3000, 6, 6)
    spd = a @ a.conj().mT + np.eye(6, dtype=a.dtype)
    b = draw(t, 3000, 6, 3, seed=1)
    found = []
    before = num_threads()
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found.append([cholesky(spd, 1), *lu(a), triangular(LOWER, a, b)])
    finally:
        set_num_threads(before)
    for other in found[1:]:
        for x, y in zip(found[0], other):
            np.testing.assert_array_equal(x, y)
    part = slice(11, 14)
    alone = [cholesky(spd[part], 1), *lu(a[part]), triangular(LOWER, a[part], b[part])]
    for x, y in zip(found[0], alone):
        np.testing.assert_array_equal(x[part], y)


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_larger_ones_have_the_same_bits_for_any_number_of_threads(t):
    a = draw(t, 3, 200, 200)
    a = a @ a.conj().mT + 200 * np.eye(200, dtype=a.dtype)
    b = draw(t, 3, 200, 260, seed=1)
    before, found = num_threads(), []
    try:
        for threads, tasks in itertools.product((1, 2, 7), (1, 3)):
            set_num_threads(threads)
            found.append([cholesky(a, 1, tasks), triangular(LOWER, a, b, tasks)])
    finally:
        set_num_threads(before)
    for other in found[1:]:
        for x, y in zip(found[0], other):
            np.testing.assert_array_equal(x, y)
