"""Error messages, rank and dtype promotion options, dtype objects, and array methods."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.errors import ConcretizationTypeError, TypePromotionError

LISTS: list[tuple[Any, str]] = [
    (lambda: jnp.add([1], 2), "add requires ndarray or scalar arguments, got list at position 0"),
    (lambda: jnp.add(1, [2]), "add requires ndarray or scalar arguments, got list at position 1"),
    (lambda: jnp.sum([1, 2]), "sum requires ndarray or scalar arguments, got list at position 0"),
    (lambda: jnp.sin("a"), "sin requires ndarray or scalar arguments, got str at position 0"),
    (lambda: jnp.where(True, None, [1]), "Either both or neither"),
    (lambda: jnp.dot(None, 1), "dot requires ndarray or scalar arguments, got NoneType"),
    (lambda: jnp.linalg.norm([3.0]), "jnp.linalg.norm requires ndarray or scalar arguments"),
    (lambda: jnp.sin(np.array(["a"])), "numeric arrays"),
    (lambda: jnp.ones(3) + [1, 2, 3], "jnp.array"),
]


@pytest.mark.parametrize("call, message", LISTS)
def test_non_arrays_are_named_with_their_position(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message.replace(".", r"\.")):
        call()


def test_list_error_shows_the_users_line_and_the_fix() -> None:
    with pytest.raises(TypeError) as info:
        jnp.add([1], 2)
    assert "jnp.array" in str(info.value)
    assert "test_numpy_errors_and_promotion.py" in str(info.value)


MESSAGES: list[tuple[Any, type[Exception], str]] = [
    (lambda: jnp.ones(3) + jnp.ones(4), TypeError, r"add got incompatible shapes.*\(3,\), \(4,\)"),
    (lambda: jnp.ones((2, 3)) + jnp.ones(2), ValueError, "add got incompatible shapes"),
    (lambda: jnp.sum(jnp.ones(3), axis=1), ValueError, "axis 1 is out of bounds"),
    (lambda: jnp.sum(jnp.ones((2, 2)), axis=(0, 0)), ValueError, "duplicate value"),
    (lambda: jnp.sum(jnp.ones(3), out=1), NotImplementedError, "'out' argument to jnp.sum"),
    (lambda: jnp.add(1, 2, out=1), NotImplementedError, "'out' argument to jnp.add"),
    (lambda: jnp.max(jnp.ones((0, 2)), axis=0), ValueError, "zero-size array"),
    (lambda: jnp.max(jnp.ones(2), where=True), ValueError, "one has to specify 'initial'"),
    (lambda: jnp.ones(3).reshape(2, 2), TypeError, "cannot reshape array of shape"),
    (lambda: jnp.ones(4).reshape(-1, -1), TypeError, "only one size may be -1"),
    (lambda: jnp.concatenate([]), ValueError, "at least one array"),
    (lambda: jnp.concatenate([jnp.ones(2), jnp.ones((2, 2))]), TypeError, "same rank"),
    (lambda: jnp.stack([jnp.ones(2), jnp.ones(3)]), ValueError, "same shape"),
    (lambda: jnp.zeros((2, -1)), TypeError, "no negative sizes"),
    (lambda: jnp.zeros("a"), TypeError, "Shapes must be"),
    (lambda: jnp.zeros(2.5), TypeError, "integer|int"),
    (lambda: jnp.power(jnp.arange(3), -1), TypeError, "negative powers"),
    (lambda: jnp.squeeze(jnp.ones((2, 1)), 0), ValueError, "size not equal to one"),
    (lambda: jnp.dot(jnp.ones((2, 3)), jnp.ones(4)), TypeError, "dot got incompatible shapes"),
    (lambda: jnp.array([[1, 2], [3]]), ValueError, "ragged"),
    (lambda: jnp.array(object()), TypeError, "Unexpected input type"),
    (lambda: jnp.array(None), TypeError, "None"),
    (lambda: jnp.array([1, "a"]), TypeError, "numeric"),
    (lambda: jnp.array(2**40), OverflowError, "too large|out of bounds"),
    (lambda: jnp.nonzero(jnp.asarray(1)), ValueError, "0d arrays"),
    (lambda: jnp.clip(1j, 0, 1), ValueError, "complex"),
    (lambda: jnp.take(jnp.ones(2), 0.5), TypeError, "integer"),
    (lambda: jnp.split(jnp.ones(5), 2), ValueError, "equal division"),
    (lambda: jnp.linalg.inv(jnp.ones((2, 3))), ValueError, "square"),
    (lambda: jnp.fft.rfft(jnp.ones(3) * 1j), TypeError, "real input"),
    (lambda: jnp.fromiter([1]), NotImplementedError, "np.fromiter"),
    (lambda: jnp.ones(3).flat, NotImplementedError, "flatten"),
]


@pytest.mark.parametrize("call, kind, message", MESSAGES, ids=[m for _, _, m in MESSAGES])
def test_messages(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


CONCRETE: list[tuple[Any, str]] = [
    (lambda n: jnp.arange(n), "'stop'"),
    (lambda n: jnp.arange(0, n), "'stop'"),
    (lambda n: jnp.nonzero(n[None]), "size="),
    (lambda n: jnp.unique(n[None]), "size="),
    (lambda n: jnp.bincount(n[None]), "length="),
    (lambda n: jnp.repeat(n[None], n), "total_repeat_length"),
]


@pytest.mark.parametrize("call, fix", CONCRETE)
def test_traced_sizes_say_what_to_pass(call: Any, fix: str) -> None:
    with pytest.raises(ConcretizationTypeError, match=fix):
        pyjax.jit(call)(3)


def test_traced_shape() -> None:
    with pytest.raises(TypeError, match="static_argnums"):
        pyjax.jit(lambda n: jnp.zeros(n))(3)


def test_rank_promotion_option() -> None:
    # Shapes of this test only: a program that is known warns no more.
    a, b = jnp.ones((2, 37)), jnp.ones(37)
    with pyjax.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="jax_numpy_rank_promotion='raise'"):
            a + b
        assert (a + 1.0).shape == (2, 37)  # scalars are always allowed
        assert (a + b[None]).shape == (2, 37)
    with pyjax.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="on shapes"):
        a + b
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (a + b).shape == (2, 37)


def test_dtype_promotion_option() -> None:
    with pyjax.numpy_dtype_promotion("strict"):
        with pytest.raises(TypePromotionError):
            jnp.arange(3) + jnp.ones(3)
        assert (jnp.ones(3) + 1).dtype == jnp.float32


def test_x64() -> None:
    with pytest.warns(UserWarning, match="float64"):
        assert jnp.zeros(2, "float64").dtype == jnp.float32
    with pyjax.enable_x64(True):
        assert jnp.zeros(2).dtype == jnp.float64
        assert jnp.arange(3).dtype == jnp.int64
        assert (jnp.ones(2) * 2).dtype == jnp.float64
        assert jnp.array(2**40).item() == 2**40
        assert jnp.argmax(jnp.ones(3)).dtype == jnp.int64


def test_scalar_types_are_dtypes_and_constructors() -> None:
    assert jnp.float32 == np.float32 and hash(jnp.float32) == hash(np.float32)
    assert np.dtype(jnp.bfloat16).name == "bfloat16"
    x = jnp.int8([1, 2])
    assert isinstance(x, pyjax.Array) and x.dtype == jnp.int8
    assert jnp.issubdtype(jnp.int8, jnp.integer) and not jnp.issubdtype(jnp.int8, jnp.floating)


def test_lists_that_hold_tracers() -> None:
    build = pyjax.jit(lambda a: jnp.array([[a, 1.0], [2, a * a]]))
    np.testing.assert_array_equal(np.asarray(build(3.0)), [[3.0, 1.0], [2.0, 9.0]])


def test_methods_work_on_tracers() -> None:
    @pyjax.jit
    def f(x: Any) -> Any:
        total = sum(row.sum() for row in x)
        y = x.T.reshape(-1).astype("float32").at[0].add(1).clip(0, 4)
        return total + y.mean() + len(x) + (x[0, 0] if x.ndim == 2 else 0)

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = x.T.reshape(-1).copy()
    y[0] += 1
    want = x.sum() + y.clip(0, 4).mean() + 2 + x[0, 0]
    np.testing.assert_allclose(float(f(x)), want, rtol=1e-6)


def test_numpy_on_the_left_of_an_operator() -> None:
    out = np.ones(3, np.float32) * jnp.arange(3)
    assert isinstance(out, pyjax.Array)
    np.testing.assert_array_equal(np.asarray(out), [0.0, 1.0, 2.0])


def test_uint8_wraps_and_big_ints_overflow() -> None:
    assert (jnp.uint8(1) + 300).item() == 45
    with pytest.raises(OverflowError):
        jnp.arange(3) + 2**40


def test_negative_zero_literals_are_kept() -> None:
    out = jnp.ones(2) * -0.0
    assert np.signbit(np.asarray(out)).all()
    assert not np.signbit(np.asarray(jnp.ones(2) * 0.0)).any()


class WithArray:
    """A user's class that converts to an array."""

    def __jax_array__(self) -> Any:
        return jnp.arange(3.0)


def test_jax_array_protocol() -> None:
    np.testing.assert_array_equal(np.asarray(jnp.sin(WithArray()) * 0 + WithArray()), [0, 1, 2])
    np.testing.assert_array_equal(jnp.full(3, 2.0) ** WithArray(), [1, 2, 4])


@pytest.mark.parametrize(
    "call",
    [
        lambda: lax.sin(WithArray()),
        lambda: pyjax.jit(lambda x: x)(WithArray()),
        lambda: pyjax.jit(lambda: lax.add(WithArray(), 1.0))(),
        lambda: pyjax.grad(lambda x: lax.mul(WithArray(), x).sum())(1.0),
        lambda: pyjax.jit(lambda: WithArray())(),
    ],
)
def test_what_does_not_convert_says_so(call: Any) -> None:
    with pytest.raises(ValueError, match=r"WithArray'> has a __jax_array__ method, which is not"):
        call()


GRADIENTS: list[tuple[str, Any, list[float]]] = [  # value, function, gradient worked out by hand
    ("logaddexp", lambda x: jnp.logaddexp(x, 0.0).sum(), [0.5, 0.7310586]),
    ("sinc", lambda x: jnp.sinc(x).sum(), [0.0, -1.0]),
    ("where", lambda x: jnp.where(x > 0.5, x * x, 3 * x).sum(), [3.0, 2.0]),
    ("max", lambda x: jnp.max(x), [0.0, 1.0]),
    ("sort", lambda x: (jnp.sort(-x) * jnp.array([1.0, 10.0])).sum(), [-10.0, -1.0]),
    ("cumsum", lambda x: jnp.cumsum(x).sum(), [2.0, 1.0]),
    ("var", lambda x: jnp.var(x), [-0.5, 0.5]),
    ("take", lambda x: jnp.take(x, jnp.array([1, 1])).sum(), [0.0, 2.0]),
    ("pad", lambda x: (jnp.pad(x, 1, mode="edge") ** 2).sum(), [0.0, 4.0]),
    ("roll", lambda x: (jnp.roll(x, 1) * jnp.array([5.0, 7.0])).sum(), [7.0, 5.0]),
    (
        "interp",
        lambda x: jnp.interp(x, jnp.array([-1.0, 2.0]), jnp.array([0.0, 6.0])).sum(),
        [2.0, 2.0],
    ),
    ("clip", lambda x: jnp.clip(x, 0.5, 2.0).sum(), [0.0, 1.0]),
    ("power", lambda x: (x**3).sum(), [0.0, 3.0]),
    ("ldexp", lambda x: jnp.ldexp(x, 3).sum(), [8.0, 8.0]),
    ("vander", lambda x: jnp.vander(x, 3).sum(), [1.0, 3.0]),
    ("matmul", lambda x: x @ jnp.array([[1.0, 2.0], [3.0, 4.0]]) @ x, [5.0, 8.0]),
]


@pytest.mark.parametrize(
    "function, want", [g[1:] for g in GRADIENTS], ids=[g[0] for g in GRADIENTS]
)
def test_gradients(function: Any, want: list[float]) -> None:
    got = pyjax.grad(function)(jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-5)
