"""Which transformations see what a function closes over when it has changed since an earlier call.

A function is meant to be pure. One that is not is traced anew where the same happens in JAX: the
tables were compared with JAX 0.10.2; transformations that remember a trace there may do so here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax
from pyjax.interpreters.trace_cache import program_key

ONE = jnp.float32(1)
XS = jnp.arange(1.0, 4.0)


def evaluated(f: Callable[..., Any], *args: Any) -> Any:
    closed = pyjax.make_jaxpr(f)(*args)
    return closed.eval(*args)[0]


def converted(f: Callable[..., Any]) -> Any:
    pure, constants = pyjax.closure_convert(f, ONE)
    return pure(ONE, *constants)


UNARY: dict[str, Callable[[Any], Any]] = {
    "jit": lambda f: jit(f)(ONE),
    "make_jaxpr": lambda f: evaluated(f, ONE),
    "grad of jit": lambda f: grad(jit(f))(ONE),
    "map": lambda f: lax.map(f, XS)[0],
    "map in batches": lambda f: lax.map(f, XS, batch_size=2)[0],
    "cond": lambda f: lax.cond(ONE > 0, f, lambda x: x, ONE),
    "while_loop": lambda f: lax.while_loop(lambda x: x < 2, f, ONE),
    "checkpoint": lambda f: pyjax.checkpoint(f)(ONE),
    "linear_transpose": lambda f: pyjax.linear_transpose(f, ONE)(ONE)[0],
    "closure_convert": converted,
    "grad": lambda f: grad(f)(ONE),
    "vmap": lambda f: pyjax.vmap(f)(XS)[0],
}
# They share traces.
JIT = {"jit", "make_jaxpr", "grad of jit"}
REMEMBER = {*JIT, "cond", "while_loop", "checkpoint", "closure_convert"}


@pytest.mark.parametrize("second", UNARY)
@pytest.mark.parametrize("first", UNARY)
def test_a_value_that_changes_between_two_transformations(first: str, second: str) -> None:
    state = [2.0]
    f = lambda x: x * state[0]
    UNARY[first](f)
    state[0] = 5.0
    remembered = second in REMEMBER and (first == second or {first, second} <= JIT)
    expected = 2.0 if remembered else 5.0
    assert float(UNARY[second](f)) == expected


BINARY: dict[str, Callable[[Any], Any]] = {
    "jit": lambda f: jit(f)(ONE, ONE)[0],
    "scan": lambda f: lax.scan(f, ONE, XS[:1])[0],
    "checkpoint": lambda f: pyjax.checkpoint(f)(ONE, ONE)[0],
}


@pytest.mark.parametrize("second", BINARY)
@pytest.mark.parametrize("first", BINARY)
def test_a_value_that_changes_before_a_scan(first: str, second: str) -> None:
    state = [2.0]
    f = lambda carry, x: (carry * state[0], x)
    BINARY[first](f)
    state[0] = 5.0
    assert float(BINARY[second](f)) == (2.0 if first == second else 5.0)


class Scale:
    """A function with a value that others change."""

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return x * self.factor


ATTRIBUTE: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    # Result for f(x) = x * w, and its derivative by w.
    "map": (lambda f: lax.map(f, XS).sum(), lambda w: 6.0),
    "map in batches": (lambda f: lax.map(f, XS, batch_size=2).sum(), lambda w: 6.0),
    "linear_transpose": (lambda f: pyjax.linear_transpose(f, ONE)(ONE)[0], lambda w: 1.0),
    "custom_linear_solve": (
        lambda f: lax.custom_linear_solve(f, ONE, lambda matvec, b: b / f.factor, symmetric=True),
        lambda w: -1 / w**2,
    ),
    "custom_root": (
        lambda f: lax.custom_root(
            lambda x: f(x) - 1.0, ONE, lambda g, x: 1 / f.factor, lambda g, y: y / g(ONE)
        ),
        lambda w: -1 / w**2,
    ),
}


@pytest.mark.parametrize("name", ATTRIBUTE)
def test_an_attribute_that_becomes_a_tracer(name: str) -> None:
    """The gradient was 0: the trace of the first call knew the attribute as a number."""
    use, derivative = ATTRIBUTE[name]
    scale = Scale(2.0)
    use(scale)

    def loss(w: Any) -> Any:
        scale.factor = w
        return use(scale)

    for w in (3.0, 4.0):
        np.testing.assert_allclose(grad(loss)(w), derivative(w), rtol=1e-6)
    scale.factor = 2.0
    use(scale)  # no tracer is left in what is remembered


# -- traced anew, compiled once --------------------------------------------------------------------


def compilations(caplog: pytest.LogCaptureFixture, use: Callable[[], Any]) -> int:
    caplog.clear()
    with pyjax.log_compiles(True), caplog.at_level(logging.WARNING):
        use()
    return sum("Finished compiling" in r.getMessage() for r in caplog.records)


def test_map_compiles_only_other_programs(caplog: pytest.LogCaptureFixture) -> None:
    state = [2.5]
    f = lambda x: jnp.where(x > 1, jnp.sin(x) * state[0], lax.cond(x > 0, jnp.cos, jnp.tan, x))
    run = lambda: lax.map(f, XS).block_until_ready()
    assert compilations(caplog, run) > 0
    assert compilations(caplog, run) == 0
    state[0] = 3.5
    assert compilations(caplog, run) > 0
    np.testing.assert_allclose(run()[1], np.sin(2.0) * 3.5, rtol=1e-6)
    state[0] = 2.5  # the first one is still there
    assert compilations(caplog, run) == 0
    np.testing.assert_allclose(run()[1], np.sin(2.0) * 2.5, rtol=1e-6)


def test_map_sees_numpy_arrays_that_change() -> None:
    table = np.ones(3, np.float32)
    f = lambda x: x + table
    assert lax.map(f, XS)[0].tolist() == [2.0, 2.0, 2.0]
    table[1] = 5.0
    assert lax.map(f, XS)[0].tolist() == [2.0, 6.0, 2.0]


def key_of(f: Callable[..., Any], *args: Any) -> Any:
    return program_key(pyjax.make_jaxpr(lambda *xs: f(*xs))(*args))


ARRAY = jnp.arange(3.0)
SAME: dict[str, Callable[[], Callable[..., Any]]] = {
    "equations": lambda: lambda x: jnp.sin(x) * 2.0 + x,
    "an array": lambda: lambda x: x + ARRAY,
    "cond": lambda: lambda x: lax.cond(x[0] > 0, lambda: x * 2, lambda: x * 3),
    "scan": lambda: lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x),
    "jit": lambda: lambda x: jit(lambda y: y * 2)(x),
    "several results": lambda: lambda x: (x, x, 1.0, lax.sort((x, -x))),
}


@pytest.mark.parametrize("name", SAME)
def test_programs_with_one_key(name: str) -> None:
    make = SAME[name]
    assert key_of(make(), XS) == key_of(make(), XS)


DIFFERENT: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "operation": (jnp.sin, jnp.cos),
    "literal": (lambda x: x * 2.0, lambda x: x * 3.0),
    "sign of zero": (lambda x: x * 0.0, lambda x: x * -0.0),
    "operands": (lambda x: x - 2.0, lambda x: 2.0 - x),
    "order of operands": (lambda x: jnp.sin(x) - x, lambda x: x - jnp.sin(x)),
    "result": (lambda x: (jnp.sin(x), x), lambda x: (x, jnp.sin(x))),
    "array": (lambda x: x + ARRAY, lambda x, other=jnp.arange(3.0): x + other),
    "parameter": (lambda x: x.sum(keepdims=True), lambda x: x.max(keepdims=True)),
    "literal in a branch": (
        lambda x: lax.cond(x[0] > 0, lambda: x * 2, lambda: x),
        lambda x: lax.cond(x[0] > 0, lambda: x * 3, lambda: x),
    ),
    "direction": (
        lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x),
        lambda x: lax.scan(lambda c, y: (c + y, c), 0.0, x, reverse=True),
    ),
    "effect": (lambda x: x * 1.0, lambda x: (pyjax.debug.print("{}", x), x * 1.0)[1]),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_programs_with_different_keys(name: str) -> None:
    a, b = DIFFERENT[name]
    assert key_of(a, XS) != key_of(b, XS)


def test_types_are_part_of_the_key() -> None:
    f = lambda x: x * 2
    assert key_of(f, XS) != key_of(f, XS.astype(int))
    assert key_of(f, ONE) != key_of(f, 1.0)  # weakly typed


def test_programs_without_a_key() -> None:
    with pytest.raises(TypeError, match="NumPy arrays may change"):
        key_of(lambda x: x + np.ones(3, np.float32), XS)
