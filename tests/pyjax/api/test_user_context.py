"""make_user_context: values that functions read while they are traced."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

scale = pyjax.make_user_context(default_value=1)


def test_the_value_in_force() -> None:
    seen = [scale.value]
    with scale(2):
        seen.append(scale.value)
        with scale(None):
            seen.append(scale.value)
        seen.append(scale.value)
    assert [*seen, scale.value] == [1, 2, None, 2, 1]
    assert pyjax.make_user_context().value is None


def test_a_function_is_traced_once_for_each_value() -> None:
    traced = []

    @pyjax.jit
    def f(x: Any) -> Any:
        traced.append(scale.value)
        return x * scale.value

    results = [float(f(3.0))]
    for value in (2, 5, 2, 5):
        with scale(value):
            results.append(float(f(3.0)))
    results.append(float(f(3.0)))
    assert results == [3.0, 6.0, 15.0, 6.0, 15.0, 3.0]
    assert traced == [1, 2, 5]


@pytest.mark.parametrize(
    "transform",
    [
        pyjax.grad,
        lambda f: pyjax.jit(pyjax.grad(f)),
        lambda f: lambda x: pyjax.jvp(f, (x,), (1.0,))[1],
        lambda f: lambda x: pyjax.vmap(pyjax.grad(f))(jnp.full(2, x))[0],
        lambda f: (
            lambda x: pyjax.grad(lambda y: lax.scan(lambda c, _: (f(c), None), y, length=1)[0])(x)
        ),
    ],
)
def test_under_transformations(transform: Callable[..., Any]) -> None:
    f = transform(pyjax.jit(lambda x: x * x * scale.value))
    assert float(f(3.0)) == 6.0
    with scale(10):
        assert float(f(3.0)) == 60.0
    assert float(f(3.0)) == 6.0


def test_contexts_are_independent() -> None:
    other = pyjax.make_user_context(7)
    f = pyjax.jit(lambda: jnp.array([scale.value, other.value]))
    with other(8):
        assert f().tolist() == [1, 8]
        with scale(2):
            assert f().tolist() == [2, 8]
    assert f().tolist() == [1, 7]


def test_another_thread_has_the_default() -> None:
    seen = []
    with scale(2):
        thread = threading.Thread(target=lambda: seen.append(scale.value))
        thread.start()
        thread.join()
    assert seen == [1]


def test_the_value_comes_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), scale(0):
        1 / scale.value
    assert scale.value == 1


def test_values_are_hashable() -> None:
    with pytest.raises(TypeError, match=r"unhashable type: 'list'(.|\n)*tuple"):
        scale([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unhashable"):
        pyjax.make_user_context([1])


def test_it_is_no_option() -> None:
    before = pyjax.config.values
    pyjax.make_user_context(3)
    assert pyjax.config.values == before


def test_why_a_function_is_traced_again_names_it(caplog: pytest.LogCaptureFixture) -> None:
    f = pyjax.jit(lambda x: x * scale.value)
    f(1.0)
    with pyjax.explain_cache_misses(True), caplog.at_level("WARNING"), scale(99):
        f(1.0)
    assert "user context" in caplog.text and "99" in caplog.text
