"""QR factors of larger matrices against LAPACK's, for all types and shapes."""

import ctypes

import numpy as np
import pytest
import scipy.linalg

from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.matrix_facts import BLOCK, TYPES, work_elements

# Fewer columns than a vector has lanes, one block of reflectors, several and a rest; wide ones.
SHAPES = [(3, 17, 17), (1, 40, 7), (2, 20, 70), (3, 100, 60), (1, 70, 200), (1, 150, 130)]
F32 = TYPES[0]


def call(routine, numbers, arrays):
    function = ctypes.CFUNCTYPE(None)(kernel_library()[f"pyjax_{routine}"])
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in arrays]
    function(*map(ctypes.c_int64, numbers), *pointers)


def kind(a):
    return next(t for t in TYPES if t.numpy_dtype == a.dtype)


def work_of(a, tasks):
    _, m, n = a.shape
    return [np.full(tasks * size, 7, a.dtype) for size in (work_elements(m, n), m * BLOCK)]


def geqrf(a, tasks=2):
    packed, taus = np.full_like(a, 7), np.full((len(a), min(a.shape[1:])), 7, a.dtype)
    arrays = a, packed, taus, *work_of(a, tasks)
    call(f"geqrf_blocked_{kind(a)}", (*a.shape, tasks), arrays)
    return packed, taus


def orgqr(packed, taus, tasks=2):
    q = np.full_like(packed, 7)
    arrays = packed, taus, q, *work_of(packed, tasks)
    call(f"orgqr_blocked_{kind(packed)}", (*packed.shape, taus.shape[1], tasks), arrays)
    return q


def factors(a, tasks=2):
    """(q, r) with as many columns of q as rows of r."""
    packed, taus = geqrf(a, tasks)
    few = min(a.shape[1:])
    return orgqr(np.ascontiguousarray(packed[:, :, :few]), taus, tasks), np.triu(packed[:, :few])


def draw(t, *shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if t.is_complex else x).astype(t.numpy_dtype)


def check_factors(a, q, r, times=20):
    bound = times * np.finfo(a.dtype).eps * max(a.shape)
    scale = np.abs(a).max(initial=np.finfo(a.dtype).tiny)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    residual = q.astype(wide) @ r.astype(wide) - a
    assert np.abs(residual / scale).max() < bound
    assert np.abs(q.conj().mT.astype(wide) @ q - np.eye(q.shape[2])).max() < bound


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors(shape, t):
    a = draw(t, *shape)
    packed, taus = geqrf(a)
    for given, found, numbers in zip(a, packed, taus):
        (expected, tau), _ = scipy.linalg.qr(given, mode="raw")
        tolerance = 3e3 * np.finfo(t.numpy_dtype).eps
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(numbers, tau, rtol=0, atol=tolerance)
    check_factors(a, *factors(a))


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_columns_that_need_no_reflector(t):
    a = draw(t, 1, 90, 80)
    a[0, :, 3] = 0
    a[0, :, 20] = a[0, :, 19]
    a[0, 9:, 70] = 0
    check_factors(a, *factors(a))
    zero = np.zeros((2, 30, 20), t.numpy_dtype)
    q, r = factors(zero)
    np.testing.assert_array_equal(q, np.tile(np.eye(30, 20), (2, 1, 1)))
    np.testing.assert_array_equal(r, zero[:, :20])


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("power", [0.9, -0.9])
def test_squares_that_overflow_or_vanish(t, power):
    """The columns are of different sizes, too."""
    largest = float(np.finfo(t.numpy_dtype).max) ** power
    a = draw(t, 1, 60, 40)
    check_factors(a * t.numpy_dtype.type(largest), *factors(a * t.numpy_dtype.type(largest)))
    sizes = (largest ** np.linspace(0, 1, 40)).astype(np.finfo(t.numpy_dtype).dtype)
    q, r = factors(a * sizes)
    wide = np.complex128 if t.is_complex else np.float64
    residual = (q.astype(wide) @ (r / sizes)) - a
    assert np.abs(residual).max() < 1e3 * np.finfo(t.numpy_dtype).eps
    np.testing.assert_allclose(np.abs(q.conj().mT @ q - np.eye(40)).max(), 0, atol=1e-5)


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 70, 70), (1, 130, 70), (1, 300, 200)])
def test_what_is_left_of_a_matrix_of_rank_1_is_near_the_least_numbers(shape, t):
    """Columns beside it are not: what is left of a column has few bits, its reflector has all."""
    rng = np.random.default_rng(1)
    for a in (np.ones(shape), rng.integers(-3, 3, (shape[1], 1)) * rng.integers(-3, 3, shape[2])):
        a = np.broadcast_to(a, shape).astype(t.numpy_dtype)
        check_factors(a, *factors(a))


def test_what_is_not_a_number_does_not_vanish():
    a = draw(F32, 2, 50, 40)
    a[1, 30, 20] = np.nan
    q, r = factors(a)
    assert np.isnan(q[1]).any() and np.isnan(r[1]).any()
    check_factors(a[:1], q[:1], r[:1])


@pytest.mark.parametrize("shape", [(20, 40, 40), (1, 300, 260)])
def test_the_same_bits_for_any_number_of_threads(shape):
    before = num_threads()
    a = draw(F32, *shape)
    runs = []
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            runs += [factors(a, tasks) for tasks in (1, min(len(a), 8))]
    finally:
        set_num_threads(before)
    for run in runs[1:]:
        for first, again in zip(runs[0], run, strict=True):
            np.testing.assert_array_equal(first, again)
