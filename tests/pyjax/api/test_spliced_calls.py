"""Functions of the library with `inline=True` run as if they were written where they are called."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax.interpreters import traced_function


@pytest.fixture
def names_of_traces(monkeypatch):
    found = []
    trace = traced_function.trace_to_jaxpr

    def noted(fun, avals, *, debug):
        found.append(debug.name())
        return trace(fun, avals, debug=debug)

    monkeypatch.setattr(traced_function, "trace_to_jaxpr", noted)
    return found


def names(closed):
    return [eqn.primitive.name for eqn in closed.eqns]


def test_no_program_is_traced_for_them(names_of_traces):
    def f(x, y):
        return jnp.where(x > 0, x @ y, 0.0)

    closed = pyjax.make_jaxpr(f)(np.ones((31, 31)), np.ones((31, 31)))
    assert names_of_traces == ["f"]
    assert names(closed) == ["gt", "dot_general", "broadcast_in_dim", "select_n"]


def test_derivatives_are_those_of_their_operations():
    """The equations of JAX 0.10.2, without a program within the program."""
    loss = lambda x: (x @ x).sum()
    closed = pyjax.make_jaxpr(pyjax.grad(loss))(jnp.ones((8, 8)))
    assert names(closed) == [
        "dot_general", "reduce_sum", "broadcast_in_dim", "dot_general", "transpose", "dot_general",
        "add_any",
    ]  # fmt: skip
    mean = pyjax.make_jaxpr(pyjax.grad(jnp.mean))(jnp.ones((8, 8)))
    assert "jit" not in names(mean)


@pytest.mark.parametrize(
    "derived",
    [
        pyjax.grad,
        lambda f: lambda x: pyjax.jvp(f, (x,), (x,)),
        lambda f: pyjax.grad(lambda x: pyjax.vmap(f)(x[None])[0]),
        lambda f: pyjax.vmap(pyjax.grad(f), out_axes=1, axis_size=2, in_axes=None),
        lambda f: pyjax.hessian(f),
    ],
    ids=["grad", "jvp", "grad of vmap", "vmap of grad", "hessian"],
)
def test_values_are_those_of_their_programs(derived):
    x = jnp.linspace(-1.0, 1.0, 12).reshape(3, 4)

    def f(x):
        y = jnp.where(x > 0, x @ x.T @ x, -1.0).at[1].multiply(2.0)
        return (jnp.clip(y, -2.0, 2.0).mean(0) * y[1] % 0.7).sum()

    g = derived(f)
    for got, want in zip(pyjax.tree.leaves(pyjax.jit(g)(x)), pyjax.tree.leaves(g(x)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_numbers_stay_numbers_of_the_program():
    closed = pyjax.make_jaxpr(lambda x: jnp.where(x > 0, x, 0.5))(jnp.ones(3))
    assert not closed.consts
    assert "0.5:f32[]" in str(closed)
    weak = pyjax.make_jaxpr(lambda x: jnp.where(x, 2, 3))(jnp.ones(3, bool))
    assert weak.out_avals[0].weak_type
    f64 = pyjax.make_jaxpr(lambda x: jnp.where(x > 0, x, np.float32(1)))(jnp.ones(3))
    assert f64.out_avals[0].dtype == np.float32


def test_a_number_that_comes_back_is_one():
    clip = pyjax.jit(lambda x: jnp.clip(x, None, None))
    assert float(clip(2.0)) == 2.0
    closed = pyjax.make_jaxpr(lambda x: x.at[jnp.zeros(0, int)].set(1.0))(jnp.ones(3))
    assert closed.out_avals[0].shape == (3,)


def test_index_arrays_are_one_constant():
    def f(x):
        for _ in range(3):
            x = x.at[::2, 1:4:2].add(1.0)
        return x

    closed = pyjax.make_jaxpr(f)(jnp.ones((6, 6)))
    assert len(closed.consts) == 1
    np.testing.assert_array_equal(
        pyjax.jit(f)(jnp.zeros((6, 6))), np.add.outer([1, 0] * 3, [0] * 6) * [0, 3, 0, 3, 0, 0]
    )


def test_constants_are_operands_of_a_program_that_is_copied():
    """An array that is closed over is no operand of the trace: the function has its program."""
    table = jnp.arange(9.0).reshape(3, 3)
    closed = pyjax.make_jaxpr(lambda x: x @ table + jnp.matmul(x, table))(jnp.ones((3, 3)))
    assert len(closed.consts) == 1
    assert names(closed) == ["dot_general", "dot_general", "add"]


def test_places_are_those_of_the_caller():
    def f(x):
        return jnp.where(x > 0, x, 0.0)

    closed = pyjax.make_jaxpr(f)(jnp.ones(3))
    line = f.__code__.co_firstlineno + 1
    assert {(eqn.source.function_name, eqn.source.line) for eqn in closed.eqns} == {("f", line)}


def test_functions_of_users_are_programs_that_are_copied(names_of_traces):
    double = pyjax.jit(lambda x: x * 2, inline=True)
    closed = pyjax.make_jaxpr(lambda x: double(double(x)))(np.ones(3))
    assert names(closed) == ["mul", "mul"]
    assert len(names_of_traces) == 2


def test_settings_without_a_hash_are_refused_as_elsewhere():
    x = jnp.ones((3, 3))
    with pytest.raises(ValueError, match="not hashable") as eager:
        jnp.matmul(x, x, precision=[["high"]])
    with pytest.raises(ValueError, match="not hashable") as traced:
        pyjax.make_jaxpr(lambda x: jnp.matmul(x, x, precision=[["high"]]))(x)
    assert str(eager.value).splitlines()[0] == str(traced.value).splitlines()[0]
