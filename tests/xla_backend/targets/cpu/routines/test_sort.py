"""Sort kernels against NumPy's stable sort: types, sizes around the thresholds, axes, specials."""

import ctypes
import itertools

import numpy as np
import pytest

from xla_backend.hlo.types import PrimitiveType
from xla_backend.runtime.host_threads import num_threads, set_num_threads
from xla_backend.targets.cpu.routines.library import kernel_library
from xla_backend.targets.cpu.routines.sort import path_of

P = PrimitiveType
I64, PTR = ctypes.c_int64, ctypes.c_void_p
KINDS = "pred s8 u8 s16 u16 s32 u32 s64 u64 bf16 f16 f32 f64".split()


def call(name, a, out, flags=0):
    outer, n, inner = a.shape
    symbol = kernel_library()[name + path_of(inner != 1)]
    fn = ctypes.CFUNCTYPE(None, PTR, PTR, *[I64] * 6)(symbol)
    fn(a.ctypes.data, out.ctypes.data, outer, n, inner, flags, 0, n)


def draw(kind, shape, seed=0):
    rng = np.random.default_rng(seed)
    dtype = P(kind).numpy_dtype
    if kind == "pred":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    values = (rng.standard_normal(shape) * 100).astype(dtype)
    flat = values.reshape(-1)
    for i, special in enumerate([np.nan, 0.0, -0.0, np.inf, -np.inf, -0.0, 0.0, np.nan]):
        if flat.size > 20:
            flat[i * 2 + 1] = special
    return values


def order(a, descending):
    """The stable order along axis 1: NaN after everything, or before it when descending."""
    wide = a if a.dtype.kind in "iub" else a.astype(np.float64)
    ranks = np.unique(wide, return_inverse=True)[1].reshape(a.shape).astype(np.int64)
    return np.argsort(-ranks if descending else ranks, axis=1, kind="stable")


@pytest.mark.parametrize("descending", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_sort_and_argsort(kind, descending):
    for shape in [(1, 1, 1), (2, 48, 1), (3, 49, 2), (1, 1000, 1), (4, 300, 5), (2, 0, 3)]:
        a = draw(kind, shape)
        perm = np.full(shape, -1, np.int32)
        call(f"pyjax_argsort_{kind}", a, perm, descending)
        expected = order(a, descending)
        np.testing.assert_array_equal(perm, expected)
        wide = np.full(shape, -1, np.int64)
        call(f"pyjax_argsort64_{kind}", a, wide, descending)
        np.testing.assert_array_equal(wide, expected)
        out = np.empty_like(a)
        call(f"pyjax_sort_{kind}", a, out, descending)
        wanted = np.take_along_axis(a, expected, axis=1)
        assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("kind", ["u8", "bf16", "s32", "f32", "f64"])
def test_long_rows_in_parts(kind):
    """Rows that several threads sort together, with digits that all keys share."""
    a = draw(kind, (1, 70001, 1), seed=7)
    if kind == "s32":
        a &= 0xFF00FF
    before = num_threads()
    try:
        for threads in (1, 2, 5):
            set_num_threads(threads)
            perm, out = np.full(a.shape, -1, np.int32), np.empty_like(a)
            call(f"pyjax_argsort_{kind}", a, perm)
            expected = order(a, 0)
            np.testing.assert_array_equal(perm, expected)
            call(f"pyjax_sort_{kind}", a, out)
            assert out.tobytes() == np.take_along_axis(a, expected, axis=1).tobytes()
    finally:
        set_num_threads(before)


def _narrow(kind, n):
    """All values, one of them, few, and in order; with NaN and zeros of both signs."""
    a = draw(kind, (1, n, 1))
    yield a
    yield np.broadcast_to(a[:, 40:41], a.shape).copy()
    yield a[:, np.random.default_rng(0).integers(0, 20, n)]
    plain = a[:, 40:] if a.dtype.kind not in "iub" else a
    yield np.take_along_axis(plain, order(plain, 0), axis=1)


@pytest.mark.parametrize("kind", ["pred", "s8", "u8", "s16", "u16", "bf16", "f16"])
def test_long_rows_of_narrow_elements_are_counted(kind):
    """On one or two threads, of lengths that are no multiples of vectors."""
    n = 4096 + 77 if P(kind).byte_size == 1 else (1 << 18) + 77
    before = num_threads()
    try:
        for threads, a in itertools.product((1, 3), _narrow(kind, n)):
            set_num_threads(threads)
            before_it = np.random.default_rng(1).permutation(a.shape[1]).reshape(a.shape)
            for descending in (0, 1):
                out, places = np.empty_like(a), order(a, descending)
                call(f"pyjax_sort_{kind}", a, out, descending)
                assert out.tobytes() == np.take_along_axis(a, places, axis=1).tobytes()
                perm, refined = np.empty(a.shape, np.int32), before_it.copy()
                call(f"pyjax_argsort_{kind}", a, perm, descending)
                np.testing.assert_array_equal(perm, places)
                call(f"pyjax_argsort64_{kind}", a, refined, descending | 2)
                again = order(np.take_along_axis(a, before_it, axis=1), descending)
                np.testing.assert_array_equal(refined, np.take_along_axis(before_it, again, axis=1))
            call(f"pyjax_sort_{kind}", a, a)
            assert a.tobytes() == np.take_along_axis(a, order(a, 0), axis=1).tobytes()
    finally:
        set_num_threads(before)


@pytest.mark.parametrize("kind", ["s32", "f32", "u64", "f64"])
def test_order_of_what_is_in_order(kind):
    """But for one element at any place, too, and with equal ones."""
    for n in (8, 9, 100, 5003):
        a = np.sort(draw(kind, (1, n, 1))[:, np.arange(n) // 2], axis=1)
        for swapped in (None, 0, n // 2, n - 2):
            b = a.copy()
            if swapped is not None:
                b[0, [swapped, swapped + 1]] = b[0, [swapped + 1, swapped]]
            for flags in (0, 1):
                perm = np.empty(b.shape, np.int32)
                call(f"pyjax_argsort_{kind}", b, perm, flags)
                np.testing.assert_array_equal(perm, order(b, flags))


@pytest.mark.parametrize("kind", ["s64", "u64", "f64"])
def test_argsort_of_keys_that_differ_in_their_last_bits(kind):
    """Keys with the same first bits take a second round; here many of them, and few."""
    rng = np.random.default_rng(1)
    far = np.array([0, 2**62, 2**61 + 1], np.int64)
    for spread in (3, 2**10, 2**33):
        bits = rng.choice(far, 6000) + rng.integers(0, spread, 6000)
        a = bits.view(P(kind).numpy_dtype).reshape(1, -1, 1)
        for flags in (0, 1):
            perm = np.empty(a.shape, np.int32)
            call(f"pyjax_argsort_{kind}", a, perm, flags)
            np.testing.assert_array_equal(perm, order(a, flags))
            perm = rng.permutation(6000).astype(np.int32).reshape(a.shape)
            before = perm.copy()
            wide = perm.astype(np.int64)
            call(f"pyjax_argsort_{kind}", a, perm, flags | 2)
            call(f"pyjax_argsort64_{kind}", a, wide, flags | 2)
            np.testing.assert_array_equal(wide, perm)
            refined = before[0, order(a[:, before[0, :, 0]], flags)[0, :, 0], 0]
            np.testing.assert_array_equal(perm[0, :, 0], refined)


@pytest.mark.parametrize("kind", ["f32", "bf16", "f64"])
@pytest.mark.parametrize("flags", [0, 1])
def test_bits_of_zeros_and_nans_keep_their_order(kind, flags):
    a = draw(kind, (2, 700, 1))
    bits = a.view(f"u{a.itemsize}")
    sign = bits.dtype.type(1 << (8 * a.itemsize - 1))
    bits[0, ::3] = np.random.default_rng(0).integers(0, 2, (234, 1)).astype(bits.dtype) * sign
    payloads = np.arange(350).astype(bits.dtype)
    bits[1, ::2] = (payloads % 64 | bits[0, 1, 0] | sign)[:, None]
    assert np.isnan(a[1, ::2].astype(np.float64)).all()
    out = np.empty_like(a)
    call(f"pyjax_sort_{kind}", a, out, flags)
    assert out.tobytes() == np.take_along_axis(a, order(a, flags), axis=1).tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_short_rows_side_by_side(kind):
    """They are exchanged in vectors, but for those that fill none, and bits that no key tells."""
    for n in (2, 3, 4, 5, 7, 8, 9, 16, 23, 64, 100, 129, 255, 256, 257):
        a = draw(kind, (2, n, 35), n)
        if a.dtype.kind not in "iub":
            a[0] = np.where(np.isnan(a[0]), a.dtype.type(-np.inf), abs(a[0]))
            a[1, :, 8] = a.dtype.type(np.nan)
        for descending in (0, 1):
            expected = np.take_along_axis(a, order(a, descending), 1).tobytes()
            out = np.empty_like(a)
            call(f"pyjax_sort_{kind}", a, out, descending)
            assert out.tobytes() == expected
            here = a.copy()
            call(f"pyjax_sort_{kind}", here, here, descending)
            assert here.tobytes() == expected


def test_in_place():
    a = draw("f32", (3, 777, 2))
    wanted = np.take_along_axis(a, order(a, 0), axis=1)
    call("pyjax_sort_f32", a, a)
    assert a.tobytes() == wanted.tobytes()


def test_several_keys_by_refinement():
    rng = np.random.default_rng(3)
    first = rng.integers(0, 4, (2, 500, 1)).astype(np.int32)
    second = rng.integers(0, 9, (2, 500, 1)).astype(np.float32)
    perm = np.empty(first.shape, np.int32)
    call("pyjax_argsort_f32", second, perm)
    call("pyjax_argsort_s32", first, perm, 2)
    for row in range(2):
        np.testing.assert_array_equal(
            perm[row, :, 0], np.lexsort((second[row, :, 0], first[row, :, 0]))
        )


def select(kind, a, first, descending):
    outer, n = a.shape
    perm = np.full((outer, first), -1, np.int32)
    fn = ctypes.CFUNCTYPE(None, PTR, PTR, *[I64] * 4)(kernel_library()[f"pyjax_select_{kind}"])
    fn(a.ctypes.data, perm.ctypes.data, outer, n, first, descending)
    return perm


@pytest.mark.parametrize("descending", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_select(kind, descending):
    """Sizes around what is kept and what is compared at once; rows that make it keep much."""
    for outer, n, first in [(1, 1, 1), (3, 63, 2), (2, 256, 256), (2, 257, 1), (9, 5000, 130)]:
        a = draw(kind, (outer, n, 1))
        for rows in (a, np.take_along_axis(a, order(a, descending)[:, ::-1], axis=1)):
            expected = order(rows, descending)[:, :first, 0]
            np.testing.assert_array_equal(select(kind, rows[..., 0], first, descending), expected)


@pytest.mark.parametrize("descending", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_select_few(kind, descending):
    """Lists of one vector and of several, full ones and not; elements equal to the last of a list;
    rows of which each element comes before all others."""
    sizes = [(1, 1, 1), (3, 63, 2), (2, 32, 32), (2, 129, 16), (4, 300, 17), (9, 5000, 30)]
    if np.dtype(draw(kind, (1,)).dtype).itemsize < 8:
        sizes += [(2, 64, 64), (3, 70, 33), (2, 900, 50)]
    for outer, n, first in sizes:
        a = draw(kind, (outer, n, 1))
        few = a[:, np.arange(n) % 5 % n]  # most elements are equal to one of the list
        for rows in (a, few, np.take_along_axis(a, order(a, descending)[:, ::-1], axis=1)):
            expected = order(rows, descending)[:, :first, 0]
            given = np.ascontiguousarray(rows[..., 0])
            np.testing.assert_array_equal(select(f"{kind}.few", given, first, descending), expected)


@pytest.mark.parametrize("kind", ("s32", "u8", "f64"))
def test_select_few_of_the_largest_keys(kind):
    """Keys than which none is larger, with fewer smaller ones than are asked for."""
    info = np.finfo("f8") if kind == "f64" else np.iinfo({"s32": "i4", "u8": "u1"}[kind])
    a = np.full((1, 200, 1), np.nan if kind == "f64" else info.max, info.dtype)
    a[0, [190, 3, 77]] = info.min
    np.testing.assert_array_equal(select(f"{kind}.few", a[..., 0], 20, 0), order(a, 0)[:, :20, 0])


def test_select_on_any_number_of_threads():
    a = draw("f32", (40, 3001, 1), seed=5)
    before = num_threads()
    try:
        for threads in (1, 2, 7):
            set_num_threads(threads)
            expected = order(a, 1)[:, :25, 0]
            for form in ("f32", "f32.few"):
                np.testing.assert_array_equal(select(form, a[..., 0], 25, 1), expected)
    finally:
        set_num_threads(before)
