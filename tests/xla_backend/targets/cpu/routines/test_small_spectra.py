"""Eigenvalues, singular values and QR factors of many small matrices: what defines them, for all
types, sizes, counts of problems, and matrices that are hard."""

import ctypes
import itertools

import numpy as np
import pytest

from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.matrix_facts import ADJOINT, MOST_ROWS, RIGHT, TYPES

# One problem, and several vectors of them and a rest.
COUNTS = (1, 37)
SHAPES = [(1, 1), (3, 3), (5, 2), (2, 5), (1, 4), (MOST_ROWS, MOST_ROWS), (MOST_ROWS, 3), (8, 11)]
KINDS = ["random", "rank one", "zero", "equal", "graded", "tiny", "huge"]


def call(routine, *operands):
    function = ctypes.CFUNCTYPE(None)(kernel_library()[f"pyjax_{routine}"])
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    function(*[number(x) if isinstance(x, int) else pointer(x.ctypes.data) for x in operands])


def draw(t, kind, count, m, n):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, count, m, n)).astype(t.numpy_dtype)
    a = x[0] + 1j * x[1] if t.is_complex else x[0]
    tiny = np.finfo(t.numpy_dtype).tiny
    match kind:
        case "rank one":
            a = a[:, :, :1] * a[:, :1, :]
        case "zero":
            a = a * 0
        case "equal":
            a = np.ones_like(a)
        case "graded":
            a = a * 10.0 ** -np.arange(n) * 10.0 ** -np.arange(m)[:, None]
        case "tiny":
            a = a * tiny
        case "huge":
            a = a / (tiny * 1e3)
    return a.astype(t.numpy_dtype)


def empty(t, *shape, real=False):
    dtype = t.numpy_dtype
    return np.full(shape, 7, np.empty(0, dtype).real.dtype if real else dtype)


def wide(a):
    return a.astype(np.clongdouble)


def tolerance(a):
    """Of what is made of a whole matrix: some units in the last place of its largest element."""
    info = np.finfo(a.dtype)
    return 4 * max(a.shape[-2:]) * max(info.eps * np.abs(wide(a)).max(), info.smallest_subnormal)


def is_orthonormal(q):
    product = wide(q).conj().mT @ wide(q)
    eps = np.finfo(q.dtype).eps
    np.testing.assert_allclose(product, np.eye(q.shape[-1])[None] + 0 * product, atol=64 * eps)


def eigh(t, a, lower=1):
    count, n, _ = a.shape
    vectors, values, info = (
        empty(t, *a.shape),
        empty(t, count, n, real=True),
        np.full(count, 7, "i4"),
    )
    call(f"eigh_{t}", count, n, lower, a, vectors, values, info)
    return values, vectors, info


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_eigh(t, kind):
    for count, n in itertools.product(COUNTS, (1, 2, 3, 7, MOST_ROWS)):
        a = draw(t, kind, count, n, n)
        a = (a / 2 + a.conj().mT / 2).astype(a.dtype)
        for lower in (0, 1):
            triangle = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
            given = np.where(triangle, a, np.nan).astype(a.dtype)  # the other one is not read
            values, vectors, info = eigh(t, given, lower)
            np.testing.assert_array_equal(info, 0)
            assert (np.diff(values) >= 0).all()
            is_orthonormal(vectors)
            error = wide(a) @ wide(vectors) - wide(vectors) * values[:, None]
            assert np.abs(error).max() <= tolerance(a)


def svd(t, a, left, right):
    count, m, n = a.shape
    few = min(m, n)
    copy, s = empty(t, *a.shape), empty(t, count, few, real=True)
    u, vh = empty(t, count, m, left or few), empty(t, count, right or few, n)
    info = np.full(count, 7, np.int32)
    call(f"svd_{t}", count, m, n, left, right, a, copy, s, u, vh, info)
    np.testing.assert_array_equal(copy, a)
    return u, s, vh, info


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_svd(t, kind):
    for count, (m, n) in itertools.product(COUNTS, SHAPES):
        a, few = draw(t, kind, count, m, n), min(m, n)
        for left, right in ((m, n), (few, few)):
            u, s, vh, info = svd(t, a, left, right)
            np.testing.assert_array_equal(info, 0)
            assert (np.diff(s) <= 0).all() and (s >= 0).all()
            is_orthonormal(u)
            is_orthonormal(vh.mT)
            product = wide(u[..., :few]) * s[:, None] @ wide(vh[:, :few])
            assert np.abs(product - wide(a)).max() <= tolerance(a)
        u, alone, vh, info = svd(t, a, 0, 0)
        np.testing.assert_array_equal(alone, s)
        assert not u.any() and not vh.any() and not info.any()


def geqrf(t, a):
    count, m, n = a.shape
    packed, taus = empty(t, *a.shape), empty(t, count, min(m, n))
    call(f"geqrf_{t}", count, m, n, a, packed, taus)
    return packed, taus


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_qr(t, kind):
    for count, (m, n) in itertools.product(COUNTS, SHAPES):
        a, k = draw(t, kind, count, m, n), min(m, n)
        packed, taus = geqrf(t, a)
        reflectors = np.ascontiguousarray(packed[..., :k])
        q = empty(t, count, m, k)
        call(f"orgqr_{t}", count, m, k, k, reflectors, taus, q)
        is_orthonormal(q)
        product = wide(q) @ np.triu(wide(packed)[:, :k])
        assert np.abs(product - wide(a)).max() <= tolerance(a)
        assert (np.diagonal(packed, axis1=1, axis2=2).imag == 0).all()
        # All of q, from the identity, times something from either side, and its adjoint.
        whole = empty(t, count, m, m)
        identity = np.tile(np.eye(m, dtype=a.dtype), (count, 1, 1))
        call(f"ormqr_{t}", count, m, m, k, 0, reflectors, taus, identity, whole)
        np.testing.assert_allclose(whole[..., :k], q, atol=64 * np.finfo(a.dtype).eps)
        for flags in range(4):
            right = flags & RIGHT
            c = draw(t, "random", count, *((3, m) if right else (m, 3)))
            got = np.full_like(c, 7)
            call(f"ormqr_{t}", *c.shape, k, flags, reflectors, taus, c, got)
            factor = whole.conj().mT if flags & ADJOINT else whole
            expected = c @ factor if right else factor @ c
            np.testing.assert_allclose(got, expected, atol=512 * np.finfo(a.dtype).eps)


@pytest.mark.parametrize("t", TYPES, ids=str)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite(t, wrong):
    """NaN for that matrix, which says that it failed; its neighbours are as they would be."""
    a = draw(t, "random", 3, 4, 4)
    a = a + a.conj().mT
    b = a.copy()
    b[1, 2, 0] = b[1, 0, 2] = wrong
    for good, bad in ((eigh(t, a), eigh(t, b)), (svd(t, a, 4, 4), svd(t, b, 4, 4))):
        np.testing.assert_array_equal(bad[-1], [0, 1, 0])
        for x, y in zip(good[:-1], bad[:-1]):
            np.testing.assert_array_equal(x[[0, 2]], y[[0, 2]])
            assert np.isnan(y[1]).all()


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_results_do_not_depend_on_neighbours_or_threads(t):
    a = draw(t, "random", 600, 5, 5)
    a[1::2] = draw(t, "graded", 300, 5, 5)
    a = a + a.conj().mT

    def everything(given):
        return [*eigh(t, given), *svd(t, given, 5, 5), *geqrf(t, given)]

    found = []
    before = num_threads()
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            found.append(everything(a))
    finally:
        set_num_threads(before)
    alone = [everything(a[i : i + 1]) for i in range(5)]
    for first, *others in zip(*found):
        for other in others:
            np.testing.assert_array_equal(first.view(np.uint8), other.view(np.uint8))
    for i, results in enumerate(alone):
        for one, all_of_them in zip(results, found[0]):
            np.testing.assert_array_equal(one.view("u1"), all_of_them[i : i + 1].view("u1"))
