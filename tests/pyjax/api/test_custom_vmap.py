"""custom_vmap and sequential_vmap: whose rule runs, with what, and what is made of it."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
from pyjax import custom_batching, lax
from pyjax import numpy as jnp
from pyjax.custom_batching import custom_vmap, sequential_vmap

XS = jnp.arange(3.0)
_seen: list[tuple[int, list]] = []


@custom_vmap
def f(x, y):
    """sin(x) y, but cos(x) y under vmap."""
    return jnp.sin(x) * y


@f.def_vmap
def f_vmap(axis_size, in_batched, x, y):
    _seen.append((axis_size, in_batched))
    return jnp.cos(x) * y, any(in_batched)


def _scanned(z):
    return lax.scan(lambda c, x: (f(c, x), c), z, XS)


ONE_MAPPED, BOTH_MAPPED = [(3, [True, False])], [(3, [True, True])]
CASES = {
    "itself": (lambda: f(1.0, y=2.0), 2 * np.sin(1), []),
    "vmap": (lambda: pyjax.vmap(f, (0, None))(XS, 2.0), 2 * np.cos(XS), ONE_MAPPED),
    "both": (lambda: pyjax.vmap(f)(XS, XS), np.cos(XS) * XS, BOTH_MAPPED),
    "second axis": (
        lambda: pyjax.vmap(f, (1, 0))(jnp.ones((1, 3)), XS[:, None]),
        np.cos(1) * np.array(XS)[:, None],
        BOTH_MAPPED,
    ),
    "jit of vmap": (
        lambda: pyjax.jit(pyjax.vmap(f, (0, None)))(XS, 2.0),
        2 * np.cos(XS),
        ONE_MAPPED,
    ),
    "vmap of jit": (
        lambda: pyjax.vmap(pyjax.jit(f), (0, None))(XS, 2.0),
        2 * np.cos(XS),
        ONE_MAPPED,
    ),
    "two vmaps": (  # the inner one maps x; the outer one maps what the rule does
        lambda: pyjax.vmap(pyjax.vmap(f, (0, None)), (None, 0))(XS, XS[:2]),
        np.cos(XS) * np.array(XS)[:2, None],
        ONE_MAPPED,
    ),
    "outer vmap": (
        lambda: pyjax.vmap(pyjax.vmap(f, (None, None), axis_size=2), (0, None))(XS, 2.0),
        2 * np.cos(np.array(XS))[:, None] * np.ones(2),
        ONE_MAPPED,
    ),
    "jvp": (lambda: pyjax.jvp(f, (1.0, 2.0), (1.0, 0.0))[1], 2 * np.cos(1), []),
    "grad": (lambda: pyjax.grad(f)(1.0, 2.0), 2 * np.cos(1), []),
    "jvp of vmap": (
        lambda: pyjax.jvp(lambda x: pyjax.vmap(f, (0, None))(x, 2.0), (XS,), (XS,))[1],
        -2 * np.sin(XS) * XS,
        ONE_MAPPED,
    ),
    "vmap of jvp": (
        lambda: pyjax.vmap(lambda x: pyjax.jvp(f, (x, 2.0), (1.0, 0.0)))(XS),
        (2 * np.cos(XS), -2 * np.sin(XS)),
        ONE_MAPPED,
    ),
    "vmap of a tangent": (  # the primal is made one of the batch, too
        lambda: pyjax.vmap(lambda t: pyjax.jvp(f, (1.0, 2.0), (t, 0.0))[1])(XS),
        -2 * np.sin(1) * np.array(XS),
        ONE_MAPPED,
    ),
    "grad of vmap": (
        lambda: pyjax.grad(lambda x: pyjax.vmap(f, (0, None))(x, 2.0).sum())(XS),
        -2 * np.sin(XS),
        ONE_MAPPED,
    ),
    "vmap of grad": (  # values by the rule, cotangents by the function
        lambda: pyjax.vmap(pyjax.value_and_grad(f), (0, None))(XS, 2.0),
        (2 * np.cos(XS), 2 * np.cos(XS)),
        ONE_MAPPED,
    ),
    "checkpoint": (lambda: pyjax.grad(pyjax.checkpoint(f))(1.0, 2.0), 2 * np.cos(1), []),
    "scan": (lambda: pyjax.jit(_scanned)(1.0)[1], np.array([1, 0, 0]), []),
    "vmap of scan": (lambda: pyjax.vmap(_scanned)(XS[:2])[0], np.full(2, 2 * np.cos(1)), None),
    "transposed": (
        lambda: pyjax.linear_transpose(pyjax.jit(lambda y: f(1.0, y)), 1.0)(1.0),
        (np.sin(1),),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rule(case: str) -> None:
    run, wanted, calls = CASES[case]
    _seen.clear()
    found = run()
    for x, y in zip(pyjax.tree.leaves(found), pyjax.tree.leaves(wanted)):
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)
    assert calls is None or _seen == calls


def test_pytrees_and_outputs_that_are_not_batched() -> None:
    @custom_vmap
    def g(d, n):
        return {"sum": d["a"] + n, "n": n}

    @g.def_vmap
    def rule(axis_size, in_batched, d, n):
        assert in_batched == [{"a": True, "b": False}, False]
        return {"sum": d["a"] * 100, "n": n}, {"sum": True, "n": False}

    def with_b(a):
        return g({"a": a, "b": 1.0}, 7)

    found = pyjax.vmap(with_b, out_axes={"sum": 0, "n": None})(XS)
    assert found["sum"].tolist() == [0.0, 100.0, 200.0] and found["n"].shape == ()
    assert g.__name__ == "g" and f.__doc__ == "sin(x) y, but cos(x) y under vmap."


def test_what_is_closed_over() -> None:
    def closing_over(x):
        @custom_vmap
        def g(y):
            return x * y

        g.def_vmap(lambda n, in_batched, y: (y, in_batched[0]))
        return g

    assert pyjax.vmap(lambda x: closing_over(x)(2.0))(XS).tolist() == [0.0, 2.0, 4.0]
    assert float(pyjax.grad(lambda x: closing_over(x)(2.0))(3.0)) == 2.0
    with pytest.raises(NotImplementedError, match="Pass the value as an argument"):
        pyjax.vmap(lambda x: closing_over(x)(x))(XS)
    with pytest.raises(NotImplementedError, match="Pass the value as an argument"):
        pyjax.jvp(lambda x: pyjax.vmap(closing_over(x))(XS), (3.0,), (1.0,))


def test_sequential() -> None:
    @sequential_vmap
    def g(x, y):
        assert x.ndim == y.ndim == 0
        return x * y, y

    first, second = pyjax.vmap(g, (0, None))(XS, 2.0)
    assert first.tolist() == [0.0, 2.0, 4.0] and second.tolist() == [2.0] * 3
    table = pyjax.vmap(pyjax.vmap(g, (0, None)), (None, 0))(XS, XS)[0]
    np.testing.assert_array_equal(table, np.outer(XS, XS))
    program = pyjax.make_jaxpr(pyjax.vmap(g, (0, None)))(XS, 2.0)
    assert [e.primitive.name for e in program.eqns] == ["scan"]
    assert pyjax.grad(lambda x: pyjax.vmap(g, (0, None))(x, 2.0)[0].sum())(XS).tolist() == [2.0] * 3


def _with_rule(rule):
    g = custom_vmap(lambda x: {"a": x, "b": 1.0})
    g.def_vmap(rule)
    return pyjax.vmap(g)(XS)


@pytest.mark.parametrize(
    "rule, message",
    (
        (lambda n, b, x: ({"a": x, "b": 1.0}, True), "specification returned by custom vmap rule"),
        (lambda n, b, x: (x, True), "does not match that of original custom-vmapped function"),
        (lambda n, b, x: x, "must return a pair"),
        (
            lambda n, b, x: ({"a": x[:2], "b": 1.0}, {"a": True, "b": False}),
            r"float32\[2\] is batched, but its first axis has not the size 3",
        ),
    ),
)
def test_rules_that_do_not_fit(rule, message) -> None:
    with pytest.raises(ValueError, match=message):
        _with_rule(rule)


def test_without_a_rule() -> None:
    with pytest.raises(AttributeError, match="No batching rule defined for custom_vmap function"):
        custom_batching.custom_vmap(lambda x: x)(1.0)
    with pytest.raises(TypeError, match="Expected a callable"):
        custom_vmap(3)
