"""Avals are interned; tracers refuse to be Python values; leaks are found."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jacfwd, jit, lax, vmap
from pyjax.core import errors
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.dtypes import float0
from pyjax.core.trace_state import entered


def test_interning():
    aval = ShapedArray((2, 3), np.dtype("float32"))
    assert aval is ShapedArray([2, 3], np.float32) is ShapedArray((np.int64(2), 3), "float32")
    assert aval is not ShapedArray((2, 3), np.float32, True)
    assert copy.deepcopy(aval) is aval and pickle.loads(pickle.dumps(aval)) is aval
    assert aval.update(weak_type=True).strip_weak_type() is aval
    assert (aval.ndim, aval.size, aval.str_short(), aval.str_short(True)) == (
        2,
        6,
        "float32[2,3]",
        "f32[2,3]",
    )
    assert ShapedArray((3,), np.int32).to_tangent_aval() is ShapedArray((3,), float0)
    with pytest.raises(ValueError, match="negative"):
        ShapedArray((-1,), np.float32)


@pytest.mark.parametrize(
    "value, dtype, weak",
    [
        (1, "int32", True),
        (1.0, "float32", True),
        (True, "bool", False),
        (1j, "complex64", True),
        (np.float64(1), "float32", False),
        (np.zeros(3, np.int64), "int32", False),
    ],
)
def test_abstractify(value, dtype, weak):
    aval = abstractify(value)
    assert (aval.dtype, aval.weak_type, aval.shape) == (np.dtype(dtype), weak, np.shape(value))


def test_abstractify_rejects():
    with pytest.raises(TypeError, match="not a valid JAX type"):
        abstractify("text")
    with pytest.raises(TypeError, match="not a valid JAX type"):
        abstractify(np.array(["a"]))
    with pytest.raises(OverflowError, match="too large"):
        abstractify(2**40)


CONVERSIONS = [
    (lambda x: 1 if x > 0 else 2, errors.TracerBoolConversionError, "lax.cond"),
    (lambda x: float(x), errors.ConcretizationTypeError, "astype"),
    (lambda x: [1, 2][x.astype(int)], errors.TracerIntegerConversionError, "__index__"),
    (lambda x: np.sin(x), errors.TracerArrayConversionError, "pyjax.numpy"),
    (lambda x: {x: 1}, TypeError, "unhashable"),
]


@pytest.mark.parametrize(
    "fun, error, hint", CONVERSIONS, ids=["bool", "float", "index", "array", "hash"]
)
def test_conversions_of_traced_values(fun, error, hint):
    def loss(x):
        return fun(x)

    with pytest.raises(error, match=hint) as info:
        jit(loss)(1.0)
    # The message names the traced function and the argument.
    assert "loss at test_avals_and_traces.py" in str(info.value)
    assert "argument x" in str(info.value)


def test_error_names_the_users_line():
    def f(x):
        y = x * 2
        if y > 3:
            return y
        return x

    with pytest.raises(errors.TracerBoolConversionError, match=r"in f:   if y > 3:"):
        jit(f)(1.0)


def test_concrete_values_may_steer_python():
    def f(x):
        return x * 2 if x > 0 else x * 3

    assert (float(grad(f)(1.0)), float(grad(f)(-1.0)), float(grad(grad(f))(1.0))) == (2.0, 3.0, 0.0)
    assert vmap(lambda a, b: a * 2 if b > 0 else a, in_axes=(0, None))(
        jnp.ones(2), 1.0
    ).tolist() == [2, 2]
    with pytest.raises(errors.TracerBoolConversionError):
        vmap(f)(jnp.ones(2))


@pytest.mark.parametrize("convert", [float, complex, math.sin, lambda x: x.tolist()])
@pytest.mark.parametrize("transform", [grad, jacfwd, lambda f: grad(grad(f))])
def test_no_number_stands_silently_for_a_value_with_a_derivative(convert, transform):
    def loss(x):
        return abs(convert(x)) * x

    with pytest.raises(errors.ConcretizationTypeError, match="no derivative") as info:
        transform(loss)(1.0)
    assert "loss at test_avals_and_traces.py" in str(info.value) and "x.item()" in str(info.value)


def test_item_is_the_number_itself():
    assert grad(lambda x: x.item() * x)(3.0) == 3
    assert grad(lambda x: x.item() * x)(jnp.float32(2)) == 2
    assert grad(lambda x: x.item(1) * x.sum())(jnp.arange(3.0)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("transform", [jit, grad, vmap], ids=["jit", "grad", "vmap"])
def test_escaped_tracers(transform):
    leaked = []

    def f(x):
        leaked.append(x)
        return (x * 1.0).sum()

    transform(f)(jnp.ones(3))
    with pytest.raises(errors.UnexpectedTracerError, match="escaped") as info:
        lax.sin(leaked[0])
    assert "f at test_avals_and_traces.py" in str(info.value)
    with pytest.raises(errors.UnexpectedTracerError):
        jit(lambda y: y + leaked[0])(1.0)


def test_check_tracer_leaks():
    leaked = []
    with pyjax.check_tracer_leaks(True):
        jit(grad(lambda x: lax.scan(lambda c, a: (c * a, c), 1.0, x)[0]))(jnp.ones(3))
        with pytest.raises(errors.TracerLeakError, match=r"(?s)Leaked trace.*a list"):
            jit(lambda x: leaked.append(x) or x * 2)(1.0)


def test_no_tracing():
    f = jit(lambda x: x + 1)
    f(1.0)
    with pyjax.no_tracing(True):
        f(1.0)
        with pytest.raises(RuntimeError, match="no_tracing"):
            f(jnp.ones(2))


def test_tracing_flag_is_restored():
    with pytest.raises(ZeroDivisionError):
        jit(lambda x: 1 / 0)(1.0)
    with pytest.raises(ZeroDivisionError):
        grad(lambda x: 1 / 0)(1.0)
    assert not entered
    assert float(lax.sin(0.0)) == 0.0
