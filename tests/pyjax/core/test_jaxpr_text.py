"""Text of jaxprs, and the type checker."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import pyjax.numpy as jnp
from pyjax import grad, jit, lax
from pyjax.api.custom_jvp import custom_jvp
from pyjax.api.make_jaxpr import make_jaxpr
from pyjax.core.avals import ShapedArray
from pyjax.core.check_jaxpr import check_jaxpr
from pyjax.core.errors import JaxprTypeError
from pyjax.core.jaxpr import Jaxpr, JaxprEqn, Var

X = np.arange(3, dtype=np.float32)


@custom_jvp
def g(x):
    return lax.sin(x)


@g.defjvp
def g_jvp(primals, tangents):
    return g(*primals), tangents[0]


CASES = {
    "one_line": (lambda x: {"a": lax.add(x, X), "b": (x,)}, None),
    "literal_output": (
        lambda x: 1.0,
        "{ lambda ; a:f32[3]. let  in (1.0:f32[],) }",
    ),
    "equations": (
        lambda x: lax.reduce_sum(lax.mul(lax.sin(x), 2.0), (0,)),
        """
        { lambda ; a:f32[3]. let
            b:f32[3] = sin a
            c:f32[3] = mul b 2.0:f32[]
            d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c
          in (d,) }""",
    ),
    "unused": (
        lambda x: (lax.sin(x), x)[1],
        "{ lambda ; a:f32[3]. let _:f32[3] = sin a in (a,) }",
    ),
    "jit": (
        jit(lambda x: lax.cos(lax.sin(x))),
        """
        { lambda ; a:f32[3]. let
            b:f32[3] = jit[
              name=<lambda>
              jaxpr={ lambda ; a:f32[3]. let
                  c:f32[3] = sin a
                  b:f32[3] = cos c
                in (b,) }
            ] a
          in (b,) }""",
    ),
    "custom_jvp": (
        g,
        """
        { lambda ; a:f32[3]. let
            b:f32[3] = custom_jvp_call[
              name=g
              call_jaxpr={ lambda ; c:f32[3]. let d:f32[3] = sin c in (d,) }
              jvp=g_jvp
              symbolic_zeros=False
            ] a
          in (b,) }""",
    ),
    "while": (
        lambda x: lax.while_loop(
            lambda s: lax.lt(s[0], 3), lambda s: (lax.add(s[0], 1), lax.mul(s[1], 2.0)), (0, x)
        ),
        """
        { lambda ; a:f32[3]. let
            b:i32[] c:f32[3] = while[
              body_jaxpr={ lambda ; d:i32[] e:f32[3]. let
                  f:i32[] = add d 1:i32[]
                  g:f32[3] = mul e 2.0:f32[]
                in (f, g) }
              body_nconsts=0
              cond_jaxpr={ lambda ; h:i32[] i:f32[3]. let
                  j:bool[] = lt h 3:i32[]
                in (j,) }
              cond_nconsts=0
            ] 0:i32[] a
          in (b, c) }""",
    ),
    "gradient": (
        grad(lambda x: lax.reduce_sum(lax.mul(lax.sin(x), 2.0), (0,))),
        """
        { lambda ; a:f32[3]. let
            b:f32[3] = sin a
            c:f32[3] = cos a
            d:f32[3] = mul b 2.0:f32[]
            _:f32[] = reduce_sum[axes=(0,) out_sharding=None] d
            e:f32[3] = broadcast_in_dim 1.0:f32[]
            f:f32[3] = mul e 2.0:f32[]
            g:f32[3] = mul f c
          in (g,) }""",
    ),
}


@pytest.mark.parametrize("name", [n for n, (_, text) in CASES.items() if text is not None])
def test_text(name):
    fun, text = CASES[name]
    assert str(make_jaxpr(fun)(X)) == textwrap.dedent(text).strip()


def test_constants_are_binders():
    text = str(make_jaxpr(lambda x: lax.add(x, jnp.asarray(X)))(X))
    assert text == "{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = add b a in (c,) }"


def test_shared_functions_are_printed_once():
    f = jit(lax.sin)
    text = str(make_jaxpr(lambda x: lax.add(f(x), f(x)))(X))
    assert text.startswith("let sin = { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) } in\n")
    assert text.count("jit[name=sin jaxpr=sin]") == 2


def test_color():
    closed = make_jaxpr(lax.sin)(1.0)
    assert "\x1b[" in closed.pretty_print(use_color=True)
    assert "\x1b[" not in closed.pretty_print(use_color=False)


def test_effects_of_dead_equations():
    closed = make_jaxpr(lambda x: lax.sin(x))(1.0)
    check_jaxpr(closed.jaxpr)
    assert closed.in_avals == closed.out_avals


F32 = ShapedArray((), np.float32)
I32 = ShapedArray((), np.int32)


def _eqn(invars, outvars):
    return JaxprEqn(invars, outvars, lax.sin_p, {"accuracy": None})


def test_check_jaxpr():
    a, b, c = Var(F32), Var(F32), Var(I32)
    check_jaxpr(Jaxpr([], [a], [b], [_eqn([a], [b])]))
    with pytest.raises(JaxprTypeError, match="not bound"):
        check_jaxpr(Jaxpr([], [a], [b], [_eqn([b], [b])]))
    with pytest.raises(JaxprTypeError, match="bound twice"):
        check_jaxpr(Jaxpr([], [a], [b], [_eqn([a], [b]), _eqn([a], [b])]))
    with pytest.raises(JaxprTypeError, match=r"int32\[\].*float32\[\]"):
        check_jaxpr(Jaxpr([], [a], [c], [_eqn([a], [c])]))
    with pytest.raises(JaxprTypeError, match="equation 0"):
        check_jaxpr(Jaxpr([], [c], [b], [_eqn([c], [b])]))


def test_conversions_of_literals_are_folded():
    assert str(make_jaxpr(lambda x: x * 2)(1.0)) == (
        "{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }"
    )
    closed = make_jaxpr(lambda: lax.convert_element_type(300, np.uint8))()
    assert [e.primitive.name for e in closed.eqns] == ["convert_element_type"]  # the device decides


def test_source_lines_behind_equations() -> None:
    closed = make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)
    lines = closed.pretty_print(use_color=False, source_info=True).splitlines()
    assert [line.strip() for line in lines if "sin" in line and __file__ in line]
    assert __file__ not in str(closed)
