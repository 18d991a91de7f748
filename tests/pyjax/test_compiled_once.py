"""`jit(f)` that is made anew finds what was compiled for `f` before, if it was made with the same
settings; what is compiled goes with the function."""

from __future__ import annotations

import gc
import logging
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import jit
from tests.threads import together

X = jnp.arange(4.0)


def new() -> Callable[..., Any]:
    def scaled(x: Any, n: Any = 3, *, m: Any = 1) -> Any:
        return jnp.sin(x) * n + m

    return scaled


def compilations(caplog: pytest.LogCaptureFixture, use: Callable[[Any], Any]) -> int:
    f = new()
    with caplog.at_level(logging.WARNING), pyjax.log_compiles(True):
        use(f)
    names = [r.args[0] for r in caplog.records if r.msg.startswith("Finished compiling")]
    return names.count("jit_scaled")


CPU = pyjax.devices()[0]
ONCE: dict[str, Callable[[Any], Any]] = {
    "made twice": lambda f: (jit(f)(X), jit(f)(X)),
    "made twice before the first call": lambda f: [g(X) for g in [jit(f), jit(f)]],
    "NumPy arguments and arrays": lambda f: (jit(f)(X), jit(f)(np.asarray(X))),
    "by keyword": lambda f: (jit(f)(x=X), jit(f)(x=X)),
    "a static argument": lambda f: [jit(f, static_argnums=1)(X, 2) for _ in range(2)],
    "a static argument by number or name": lambda f: (
        jit(f, static_argnums=1)(X, 2),
        jit(f, static_argnames="n")(X, 2),
    ),
    "donation": lambda f: [jit(f, donate_argnums=0)(X + 0) for _ in range(2)],
    "a device": lambda f: [jit(f, device=CPU)(X) for _ in range(2)],
    "compiler options": lambda f: [
        jit(f, compiler_options={"xla_backend_optimization_level": 1})(X) for _ in range(2)
    ],
    "what changes no program": lambda f: (jit(f, inline=True)(X), jit(f, keep_unused=True)(X)),
}
TWICE: dict[str, Callable[[Any], Any]] = {
    "kinds of arguments": lambda f: (jit(f)(X), jit(f)(X[:2])),
    "static or not": lambda f: (jit(f)(X, 2), jit(f, static_argnums=1)(X, 2)),
    "values of a static argument": lambda f: [jit(f, static_argnums=1)(X, n) for n in (1, 1.0)],
    "donated or not": lambda f: (jit(f)(X), jit(f, donate_argnums=0)(X + 0)),
    "on a device or anywhere": lambda f: (jit(f)(X), jit(f, device=CPU)(X)),
    "compiler options": lambda f: [
        jit(f, compiler_options={"xla_backend_optimization_level": n})(X) for n in (0, 1)
    ],
    "an option": lambda f: (jit(f)(X), pyjax.default_matmul_precision("highest")(jit(f))(X)),
    "clear_caches": lambda f: (jit(f)(X), pyjax.clear_caches(), jit(f)(X)),
}


@pytest.mark.parametrize("name", ONCE)
def test_compiled_once(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert compilations(caplog, ONCE[name]) == 1


@pytest.mark.parametrize("name", TWICE)
def test_other_programs_are_compiled(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert compilations(caplog, TWICE[name]) == 2


def test_shared_programs_are_found_on_the_short_way() -> None:
    f = new()
    first, second = jit(f), jit(f)
    first(X)
    found, arrays = second._known((X,), {})
    assert found is first._known((X,), {})[0] is not None
    assert arrays == (X,)


def test_cache_size_and_clear_cache_are_those_of_the_function() -> None:
    f = new()
    first, second, other = jit(f), jit(f), jit(f, donate_argnums=0)
    first(X)
    first(X[:2])
    other(X + 0)
    assert (first._cache_size(), second._cache_size(), other._cache_size()) == (2, 2, 1)
    second.clear_cache()
    assert (first._cache_size(), second._cache_size(), other._cache_size()) == (0, 0, 1)
    np.testing.assert_array_equal(np.asarray(first(X)), np.asarray(f(X)))
    assert second._cache_size() == 1


def test_programs_go_with_the_function() -> None:
    f = new()
    compiled = jit(f)
    compiled(X)
    program = weakref.ref(compiled._compiled.items()[0][1].program)
    function = weakref.ref(f)
    del compiled
    gc.collect()
    assert program() is not None  # a loop that calls jit(f)(x) compiles once
    del f
    gc.collect()
    assert function() is None
    assert program() is None


def test_many_settings_of_one_function() -> None:
    f = new()
    made = [jit(f, donate_argnums=tuple(range(n % 2)), static_argnums=(1,) * n) for n in range(200)]
    assert len({id(g._compiled) for g in made}) == 200
    assert jit(f, static_argnums=(1,) * 62)._compiled is made[62]._compiled
    np.testing.assert_array_equal(np.asarray(made[-2](X, 2)), np.asarray(f(X, 2)))


def test_options_without_a_hash_are_told_apart_by_nothing() -> None:
    f = new()
    options = {"xla_backend_optimization_level": [1]}
    first, second = (jit(f, compiler_options=options) for _ in range(2))
    assert first._compiled is not second._compiled


def test_new_code_is_compiled() -> None:
    f = new()
    assert isinstance(f, types.FunctionType)
    assert float(jit(f)(0.0)) == 1.0
    f.__code__ = (lambda x, n=3, *, m=1: x + 7).__code__
    assert float(jit(f)(0.0)) == 7.0


def test_functions_that_call_themselves_equal_have_their_own_programs() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

        def __call__(self, x: Any) -> Any:
            return x * self.by

    a, b = Scale(2.0), Scale(3.0)
    assert float(jit(a)(1.0)) == 2.0
    assert float(jit(b)(1.0)) == 3.0


def test_a_function_that_cannot_be_held_weakly() -> None:
    class Fixed:
        __slots__ = ()

        def __call__(self, x: Any) -> Any:
            return x + 1

    f = Fixed()
    assert float(jit(f)(1.0)) == float(jit(f)(1.0)) == 2.0


def test_messages_name_the_function_in_each_of_them() -> None:
    f = new()
    first, second = jit(f, donate_argnums=0), jit(f, donate_argnums=0)
    first(X + 0)
    gone = X + 0
    second(gone)
    for jitted in (first, second):
        with pytest.raises(RuntimeError, match="donated"):
            jitted(gone)
        with pytest.raises(TypeError, match="argument x of scaled"):
            jitted("text")


def test_threads_that_make_it_at_once_compile_once(caplog: pytest.LogCaptureFixture) -> None:
    def use(f: Any) -> None:
        def call() -> None:
            with pyjax.log_compiles(True):
                jit(f)(X)

        together(*[call] * 4)

    assert compilations(caplog, use) == 1
