"""Interpreters that libraries write: traces, names of scopes, primitives that they bind."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
from pyjax import lax
from pyjax.core import Trace, Tracer
from pyjax.extend import core


class _Doubling(Trace):
    """Runs under the trace outside of it, and doubles every sine; keeps what it met."""

    def __init__(self, parent):
        super().__init__()
        self.parent_trace = parent
        self.tag = core.TraceTag()
        self.met: list[str] = []

    def value(self, x):
        return x.value if isinstance(x, _DoublingTracer) else x

    def process_primitive(self, primitive, args, params):
        values = [self.value(x) for x in args]
        avals = [pyjax.typeof(x) for x in values]
        made = primitive.bind_with_trace(self.parent_trace, values, avals, params)
        self.met.append(str(primitive))
        if primitive is lax.sin_p:
            made = 2 * np.asarray(made)
        return pyjax.tree.map(lambda y: _DoublingTracer(self, y), made)


class _DoublingTracer(Tracer):
    def __init__(self, trace, value):
        super().__init__(trace, pyjax.typeof(value))
        self.value = value


@pyjax.custom_jvp
def _cubed(x):
    return x**3


_cubed.defjvp(lambda primals, tangents: (_cubed(*primals), 0 * tangents[0]))


def test_interpreters_of_users() -> None:
    def f(x):
        low, _ = lax.sort((lax.sin(x), x), num_keys=1)
        return pyjax.jit(lambda y: y + 1)(low) + _cubed(x)

    x = np.array([2.0, 1.0], np.float32)
    with core.take_current_trace() as outside:
        trace = _Doubling(outside)
        with core.set_current_trace(trace):
            out = f(_DoublingTracer(trace, x))
    assert trace.met == ["sin", "sort", "jit", "integer_pow", "add"]
    np.testing.assert_allclose(trace.value(out), np.sort(2 * np.sin(x)) + 1 + x**3, rtol=1e-6)
    assert core.TraceTag() != core.TraceTag()


def test_names_of_scopes_around_an_operation() -> None:
    def f(x):
        with pyjax.named_scope("outer"), pyjax.named_scope("inner"):
            return x + 1

    (eqn,) = pyjax.make_jaxpr(f)(1.0).eqns
    assert str(eqn.source_info.name_stack) == "outer/inner"
    (eqn,) = pyjax.make_jaxpr(lambda x: x + 1)(1.0).eqns
    assert str(eqn.source_info.name_stack) == "" and eqn.source_info.name_stack.stack == ()
    assert not (eqn.primitive.call_primitive or eqn.primitive.map_primitive)


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log1p", "expm1", "sin", "sqrt", "cbrt"])
def test_primitives_that_libraries_bind_without_parameters(name: str) -> None:
    """Inverses of functions, made equation by equation, have the parameters of the others."""
    primitive, function = getattr(lax, f"{name}_p"), getattr(lax, name)
    for transform in (pyjax.jit, pyjax.vmap, lambda f: pyjax.vmap(pyjax.grad(pyjax.grad(f)))):
        bound = transform(lambda x: primitive.bind(x))
        np.testing.assert_array_equal(bound(np.ones(2)), transform(function)(np.ones(2)))
