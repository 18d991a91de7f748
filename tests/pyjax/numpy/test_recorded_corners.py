"""Corners of pyjax.numpy whose outcome is recorded from the reference, one row each."""

from __future__ import annotations

import io
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

ONES = np.ones((3,), np.float32)
NAN = np.nan


def _eqns(f: Callable[..., Any], *args: Any) -> list[str]:
    return [e.primitive.name for e in pyjax.make_jaxpr(f)(*args).eqns]


REDUCTIONS = (
    "sum prod max min all any mean var std nansum nanprod nanmax nanmin nanmean nanvar nanstd"
).split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_masks_of_reductions_are_boolean(name: str) -> None:
    start = {"initial": 0} if name.endswith(("max", "min")) else {}
    reduce = getattr(jnp, name)
    for mask in (ONES, np.ones(3, np.int32)):
        with pytest.raises(ValueError, match=f"jnp.{name}: where must be None or a boolean array"):
            reduce(ONES, where=mask, **start)
    with pytest.raises(TypeError, match="requires ndarray or scalar"):
        reduce(ONES, where=[True, False, True], **start)
    np.testing.assert_array_equal(reduce(ONES, where=True, **start), reduce(ONES, **start))


def test_masks_of_ufunc_reductions_are_boolean() -> None:
    for fold in (jnp.add.reduce, jnp.logical_and.reduce, jnp.bitwise_or.reduce):
        with pytest.raises(ValueError, match="boolean"):
            fold(np.ones(3, np.int32), where=np.ones(3, np.int32))


def test_a_mask_of_higher_rank_is_refused_by_means() -> None:
    with pytest.raises(ValueError, match="fewer dimensions"):
        jnp.mean(ONES, where=np.ones((2, 3), bool))


FACTS: list[tuple[str, Callable[[], Any], Any]] = [
    ("cumsum-bool", lambda: jnp.cumsum(np.array([1.0, 0, 1]), dtype=bool), [True, True, True]),
    ("cumsum-bool-300", lambda: jnp.cumsum(np.ones(300, bool), dtype=bool).all(), True),
    ("cumprod-bool", lambda: jnp.cumprod(np.array([1, 0, 1]), dtype=bool), [True, False, False]),
    (
        "cumulative_sum-bool",
        lambda: jnp.cumulative_sum(np.array([True, False]), dtype=bool, include_initial=True),
        [False, True, True],
    ),
    ("setdiff-dtype", lambda: jnp.setdiff1d(np.int16([1, 2]), ONES), np.int16([2])),
    (
        "setdiff-narrow",
        lambda: jnp.setdiff1d(np.int8([1, 3]), np.int32([259, 3]), size=3, fill_value=7),
        np.int8([1, 7, 7]),
    ),
    ("intersect-none", lambda: jnp.intersect1d(ONES, 2 * ONES, size=2), np.float32([0, 0])),
    (
        "unique-cut",
        lambda: jnp.unique(np.int32([3, 3, 3, 1]), size=1, return_counts=True)[1],
        np.int32([1]),
    ),
    (
        "unique-nan",
        lambda: jnp.unique(np.complex64([complex(NAN, 0), complex(0, NAN), 1]), return_index=True)[
            1
        ],
        np.int32([2, 0]),
    ),
    (
        "unique-no-columns",
        lambda: jnp.unique(np.zeros((3, 0)), axis=0, return_counts=True)[1],
        np.int32([3]),
    ),
    (
        "spacing-f16",
        lambda: jnp.spacing(np.float16([1, -1, 0, np.inf, -np.inf])),
        np.float16([2.0**-10, 2.0**-11, 2.0**-24, np.nan, np.inf]),
    ),
    ("spacing-f32", lambda: jnp.spacing(np.float32([-1])), np.float32([-(2.0**-23)])),
    ("fft-empty", lambda: jnp.fft.fft(np.zeros((2, 0), np.float32)).shape, (2, 0)),
    ("irfft-empty", lambda: jnp.fft.irfft2(np.zeros((0, 3), np.float32)).shape, (0, 4)),
    ("mask-empty", lambda: jnp.ones((3, 4))[np.ones((0, 4), bool)].shape, (0,)),
    ("mask-empty-axis", lambda: jnp.ones((3, 4))[:, np.ones((0,), bool)].shape, (3, 0)),
    (
        "ufunc-equal",
        lambda: jnp.frompyfunc(operator.add, 2, 1) == jnp.frompyfunc(operator.add, 2, 1),
        True,
    ),
    ("vectorize-array", lambda: jnp.vectorize(lambda x: jnp.arange(5) * x)(ONES).shape, (3, 5)),
    ("power-spread", lambda: jnp.ones((3, 2)).at[...].power(np.ones(2)).shape, (3, 2)),
    (
        "map-unbatched",
        lambda: lax.map(lambda x: x * x, np.arange(3), batch_size=0),
        np.int32([0, 1, 4]),
    ),
    ("fori-float", lambda: lax.fori_loop(1.0, 3.0, lambda i, c: c + i, 1.0), np.float32(4)),
    (
        "trapezoid-dx",
        lambda: jnp.trapezoid(np.ones((2, 3, 4, 5)), dx=np.ones((2, 1, 3, 5)), axis=2).shape,
        (2, 3, 5),
    ),
    (
        "mixed-dot",
        lambda: _eqns(jnp.dot, np.ones((2, 2), np.float16), np.ones((2, 2), np.float32)),
        ["dot_general"],
    ),
    (
        "mean-of-halves",
        lambda: _eqns(jnp.mean, jnp.ones(3, "bfloat16")),
        ["convert_element_type", "reduce_sum", "div", "convert_element_type"],
    ),
    (
        "unsigned-index",
        lambda: _eqns(lambda x, i: x[i], np.arange(4), np.uint8(1)),
        ["convert_element_type", "dynamic_slice", "squeeze"],
    ),
]


@pytest.mark.parametrize(("call", "expected"), [f[1:] for f in FACTS], ids=[f[0] for f in FACTS])
def test_fact(call: Callable[[], Any], expected: Any) -> None:
    result = call()
    np.testing.assert_array_equal(result, expected)
    if isinstance(expected, (np.ndarray, np.generic)):
        assert result.dtype == expected.dtype


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: jnp.intersect1d([1], [2]), TypeError, "requires ndarray"),
    (lambda: jnp.fft.rfft(np.zeros(0)), ValueError, "must not be empty"),
    (lambda: jnp.fft.hfft(np.ones((3, 4)), axis=[1, 1]), ValueError, "does not support multiple"),
    (lambda: jnp.trapezoid(np.ones((2, 3, 5)), dx=ONES, axis=1), TypeError, "incompatible shapes"),
    (
        lambda: jnp.einsum("i,i,i", ONES, ONES, ONES, optimize=["einsum_path", (0, 1, 2)]),
        TypeError,
        "integer",
    ),
    (
        lambda: jnp.einsum("i,i,i", ONES, ONES, ONES, optimize=[(0, 1, 2)]),
        NotImplementedError,
        "3 or more operands",
    ),
    (
        lambda: jnp.vectorize(lambda x, y: x, signature="(k),(k)->(k)")(ONES, None),
        ValueError,
        "Cannot pass None",
    ),
    (lambda: lax.fori_loop(True, 3, lambda i, c: c, 0), TypeError, "equal types"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_error(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_bfloat16_comes_back_from_a_file() -> None:
    file = io.BytesIO()
    jnp.save(file, jnp.ones(2, "bfloat16"))
    file.seek(0)
    assert jnp.load(file).dtype == jnp.bfloat16


MIXED = [(np.float16, np.float32), (np.int32, np.float32), (np.float32, np.complex64)]


@pytest.mark.parametrize(("left", "right"), MIXED)
def test_products_of_two_dtypes_have_gradients(left: Any, right: Any) -> None:
    x, y = np.arange(1, 5).reshape(2, 2).astype(left), np.full((2, 2), 0.5, right)

    def loss(x: Any, y: Any) -> Any:
        return jnp.real(jnp.matmul(x, y)).sum()

    to_y = pyjax.grad(loss, argnums=1)(x, y)
    assert to_y.dtype == right
    np.testing.assert_allclose(to_y, x.astype(float).sum(0)[:, None] * np.ones((2, 2)))
    if left != np.int32:
        to_x = pyjax.grad(loss)(x, y)
        assert to_x.dtype == left
        np.testing.assert_allclose(to_x, np.ones((2, 2)))
