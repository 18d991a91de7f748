"""Edge values that differ between plausible implementations: nan, signed zero, overflow,
empty arrays, weak types.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

NAN, INF = np.nan, np.inf
F = np.array([3.0, NAN, -0.0, 0.0, -INF, INF, -1.0, NAN, 2.0], np.float32)
# Quiet nans of both signs, the third and the fourth with a payload; then numbers.
_NANS = np.array([0x7FC00000, 0xFFC00000, 0x7FC00001, 0xFFC00001], np.uint32).view(np.float32)
BITS = np.concatenate([_NANS, np.array([1, -0.0, 0.0, -INF, 2], np.float32)])
MIN, MAX = -(2**31), 2**31 - 1


def f32(*values):
    return np.array(values, np.float32)


def i32(*values):
    return np.array(values, np.int32)


CASES = [
    ("sort-nan-last", lambda: lax.sort(F), f32(-INF, -1, -0.0, 0, 2, 3, INF, NAN, NAN)),
    ("argmax-first-nan", lambda: lax.argmax(F, 0, np.int32), np.int32(1)),
    ("argmin-first-nan", lambda: lax.argmin(F, 0, np.int32), np.int32(1)),
    ("argmax-ties", lambda: lax.argmax(f32(1, 5, 5), 0, np.int32), np.int32(1)),
    ("argmax-all-lowest", lambda: lax.argmax(f32(-INF, -INF), 0, np.int32), np.int32(0)),
    ("top_k-nan-first", lambda: lax.top_k(F, 3)[0], f32(NAN, NAN, INF)),
    ("top_k-order-of-bits", lambda: lax.top_k(BITS, 9)[1], i32(2, 0, 8, 4, 6, 5, 7, 1, 3)),
    ("top_k-first-of-bits", lambda: lax.top_k(BITS, 4)[1], i32(2, 0, 8, 4)),
    ("approx_max_k-of-bits", lambda: lax.approx_max_k(BITS, 4)[1], i32(2, 0, 8, 4)),
    ("max-nan", lambda: lax.max(f32(NAN, 1), f32(1, NAN)), f32(NAN, NAN)),
    ("reduce_max-nan", lambda: lax.reduce_max(F, (0,)), np.float32(NAN)),
    ("reduce_max-empty", lambda: lax.reduce_max(f32(), (0,)), np.float32(-INF)),
    ("reduce_sum-empty", lambda: lax.reduce_sum(f32(), (0,)), np.float32(0)),
    ("cumsum-empty", lambda: lax.cumsum(f32()), f32()),
    ("div-zero", lambda: lax.div(i32(5, -7, 0), i32(0, 0, 0)), i32(-1, -1, -1)),
    ("div-overflow", lambda: lax.div(i32(MIN), i32(-1)), i32(MIN)),
    ("rem-zero", lambda: lax.rem(i32(5, -7), i32(0, 0)), i32(5, -7)),
    ("rem-overflow", lambda: lax.rem(i32(MIN), i32(-1)), i32(0)),
    (
        "to-int",
        lambda: lax.convert_element_type(f32(NAN, INF, -INF, -1.7), np.int32),
        i32(0, MAX, MIN, -1),
    ),
    (
        "to-bool",
        lambda: lax.convert_element_type(f32(NAN, 0, -0.0, 2), np.bool_),
        np.array([1, 0, 0, 1], bool),
    ),
    ("shift", lambda: lax.shift_left(i32(1), i32(33)), i32(0)),
    ("pow-zero", lambda: lax.pow(f32(0, NAN, INF), np.float32(0)), f32(1, 1, 1)),
    ("sign-zero", lambda: lax.sign(f32(-0.0, 0.0, NAN)), f32(-0.0, 0.0, NAN)),
    ("clamp-nan", lambda: lax.clamp(np.float32(0), f32(NAN), np.float32(1)), f32(NAN)),
    ("nextafter-zero", lambda: lax.nextafter(f32(0), f32(-1)), f32(-1e-45)),
    ("exp-subnormal", lambda: lax.exp(f32(-90)), np.exp(np.float64(f32(-90))).astype(np.float32)),
    ("igamma-ends", lambda: lax.igamma(f32(0, 1, 2, -1), f32(1, 0, INF, 1)), f32(1, 0, 1, NAN)),
    (
        "betainc-ends",
        lambda: lax.betainc(f32(0, 1, 2), f32(1, 0, 3), f32(0.5, 0.5, 1)),
        f32(1, 0, 1),
    ),
    ("erf_inv-ends", lambda: lax.erf_inv(f32(-1, 1, 2)), f32(-INF, INF, NAN)),
    ("lgamma-poles", lambda: lax.lgamma(f32(0, -1, 1, 2, -INF)), f32(INF, INF, 0, 0, INF)),
    ("asin-cut", lambda: lax.asin(np.array([2 + 0j], np.complex64)), np.arcsin(np.array([2 + 0j]))),
    ("acos-cut", lambda: lax.acos(np.array([2 + 0j], np.complex64)), np.arccos(np.array([2 + 0j]))),
    (
        "ragged",
        lambda: lax.ragged_dot(np.ones((3, 1), np.float32), f32(2, 3).reshape(2, 1, 1), i32(1, 1)),
        f32(2, 3, 0).reshape(3, 1),
    ),
]


@pytest.mark.parametrize("call, want", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_value(call, want):
    got = np.asarray(call())
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    if got.dtype.kind == "f":
        finite = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got)[finite], np.signbit(want)[finite])


GRADIENTS = [
    ("abs", lax.abs, (-2.0, 0.0, 1.0), (-1, 1, 1)),
    ("sign", lax.sign, (-2.0, 0.0, 1.0), (0, 0, 0)),
    ("max-tie", lambda x: lax.max(x, np.zeros(3, np.float32)), (-1.0, 0.0, 1.0), (0, 0.5, 1)),
    (
        "clamp-edge",
        lambda x: lax.clamp(np.float32(0), x, np.float32(1)),
        (0.0, 0.5, 1.0),
        (0, 1, 0),
    ),
    ("stop", lambda x: lax.mul(lax.stop_gradient(x), x), (1.0, 2.0, 3.0), (1, 2, 3)),
    ("reduce_max-tie", lambda x: lax.reduce_max(x, (0,)), (2.0, 1.0, 2.0), (0.5, 0, 0.5)),
    ("reduce_prod-zero", lambda x: lax.reduce_prod(x, (0,)), (2.0, 0.0, 3.0), (0, 6, 0)),
    ("cumprod-zero", lambda x: lax.cumprod(x), (2.0, 0.0, 3.0), (1, 8, 0)),
    ("pow-zero", lambda x: lax.pow(x, np.int32(0)), (0.0, 1.0, 2.0), (0, 0, 0)),
]


@pytest.mark.parametrize("fn, x, want", [g[1:] for g in GRADIENTS], ids=[g[0] for g in GRADIENTS])
def test_gradient_convention(fn, x, want):
    def total(x):
        y = fn(x)
        return lax.reduce_sum(y, tuple(range(y.ndim)))

    np.testing.assert_allclose(np.asarray(pyjax.grad(total)(f32(*x))), want)


WEAK = [
    ("python-scalars", lambda x: lax.add(1.0, 2.0), True, np.float32),
    ("array-and-scalar", lambda x: lax.add(x, 1.0), False, np.float32),
    ("bfloat16-and-scalar", lambda x: lax.mul(x.astype(jnp.bfloat16), 2.0), False, jnp.bfloat16),
    ("full", lambda x: lax.full((2,), 1.0), True, np.float32),
    ("full-dtype", lambda x: lax.full((2,), 1.0, np.int32), False, np.int32),
    ("convert", lambda x: lax.convert_element_type(1.0, np.float32), False, np.float32),
    ("max", lambda x: lax.max(x, 0.0), False, np.float32),
]


@pytest.mark.parametrize("fn, weak, dtype", [w[1:] for w in WEAK], ids=[w[0] for w in WEAK])
def test_weak_types(fn, weak, dtype):
    out = fn(jnp.ones(3, np.float32))
    assert out.dtype == dtype and out.weak_type == weak
    out = pyjax.eval_shape(fn, jnp.ones(3, np.float32))
    assert out.dtype == dtype and out.weak_type == weak


def test_reduce_with_batched_initial_value():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    init = f32(10, 20)

    def one(x, start):
        return lax.reduce(x, start, lambda a, b: lax.add(a, b), (0,))

    np.testing.assert_allclose(np.asarray(pyjax.vmap(one)(x, init)), x.sum(1) + init)


def test_low_precision_special_functions():
    x = jnp.asarray([0.5, 1.5], jnp.bfloat16)
    for fn in (lax.lgamma, lax.erfc, lax.erf_inv, lax.bessel_i0e):
        assert fn(x).dtype == jnp.bfloat16


@pytest.mark.parametrize("dtype, far", [(np.complex64, 95), (np.complex128, 720)])
def test_logistic_of_complex_numbers_far_on_the_left_is_small(dtype, far):
    z = np.array([-far - 1.5j, -far + 0.3j, far - 2j, complex(-np.inf, 1), -2 + 1j], dtype)
    with pyjax.enable_x64(True):
        got = np.stack(
            [np.asarray(f(jnp.asarray(z))) for f in (lax.logistic, pyjax.jit(lax.logistic))]
        )
    small = np.exp(z[:2].astype(np.clongdouble))
    tiny = 4 * np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(got[:, :2] - small, 0, atol=tiny + 1e-4 * np.abs(small).max())
    np.testing.assert_allclose(got[:, 2], 1, rtol=1e-6)
    np.testing.assert_array_equal(got[:, 3], 0)
    np.testing.assert_allclose(got[:, 4], 1 / (1 + np.exp(-z[4])), rtol=1e-6)


@pytest.mark.parametrize(
    "convert, category",
    [
        (lambda z: lax.convert_element_type(z, np.float32), np.exceptions.ComplexWarning),
        (lambda z: lax.convert_element_type(z, bool), np.exceptions.ComplexWarning),
        (lambda z: jnp.asarray(z, np.float32), np.exceptions.ComplexWarning),
        (lambda z: z.astype(np.float32), DeprecationWarning),
        (lambda z: z.astype(int), DeprecationWarning),
        (lambda z: pyjax.jit(lambda z: z.astype(np.float32))(z), DeprecationWarning),
    ],
)
def test_lost_imaginary_parts_are_warned_of_at_the_users_line(
    convert: Callable[[Any], Any], category: type[Warning]
) -> None:
    with pytest.warns(category, match="[Cc]omplex") as warned:
        assert convert(jnp.array([3 + 2j])).tolist()[0] in (3, True)
    assert [w.filename for w in warned] == [__file__]


def test_conversions_that_lose_nothing_do_not_warn() -> None:
    z = jnp.array([3 + 2j])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert z.astype(bool).tolist() == [True]
        assert z.astype(np.complex64).tolist() == [3 + 2j]
        assert pyjax.grad(lambda x: jnp.real(x * (1 + 2j)))(1.0) == 1


# Shape, k, recall target, size over all devices (-1: this one's), and what JAX 0.10.2 leaves.
LEFT = [
    ((10,), 3, 0.95, -1, 10),
    ((1024,), 1, 0.95, -1, 1024),
    ((1025,), 1, 0.95, -1, 1024),
    ((1025,), 2, 0.95, -1, 1025),
    ((2048,), 50, 0.99, -1, 2048),
    ((2048,), 50, 0.95, -1, 1024),
    ((5000,), 2, 0.95, -1, 2048),
    ((100_000,), 50, 0.99, -1, 7168),
    ((3, 1000), 10, 0.95, -1, 256),
    ((3, 1025), 10, 0.95, -1, 384),
    ((3, 5000), 50, 0.95, -1, 1280),
    ((3, 70_000), 700, 0.95, -1, 17_536),
    ((3, 1000), 3, 1.0, -1, 1000),
    ((6000,), 2, 0.9, 6000, 2048),
    ((6000,), 2, 0.9, 12_000, 1024),
    ((9000,), 2, 0.9, 9_000_000, 2048),
    ((3, 2000), 2, 0.9, 4000, 128),
]


@pytest.mark.parametrize("shape, k, recall, size, left", LEFT)
def test_elements_that_an_approximate_top_k_leaves(shape, k, recall, size, left):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for function, sign in ((lax.approx_max_k, -1), (lax.approx_min_k, 1)):
        values, indices = function(
            x,
            k,
            recall_target=recall,
            reduction_input_size_override=size,
            aggregate_to_topk=False,
        )
        order = np.argsort(sign * x, kind="stable")[..., :left]
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, -1))


def test_the_size_over_all_devices_is_not_less_than_one_devices():
    with pytest.raises(ValueError, match=r"override is 5, less than the 9 elements of dimension 0"):
        lax.approx_max_k(np.zeros(9), 2, reduction_input_size_override=5, aggregate_to_topk=False)
