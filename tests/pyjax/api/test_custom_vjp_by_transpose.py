"""custom_vjp made of custom_jvp and linear_call: the same results as its own way, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from pyjax._config import options

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, vmap
from pyjax.custom_derivatives import SymbolicZero

X = jnp.linspace(0.5, 2.0, 4, dtype=jnp.float32)
PROGRAMS: dict[str, Callable[[], Any]] = {}


def program(fun: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS[fun.__name__] = fun
    return fun


def tripled() -> Any:
    """sin, with three times its derivative."""
    f = pyjax.custom_vjp(jnp.sin)
    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (3 * ct * jnp.cos(x),))
    return f


@program
def values() -> Any:
    return tripled()(X), jit(tripled())(X), vmap(tripled())(X)


@program
def gradients() -> Any:
    total = lambda x: jnp.sum(tripled()(x * 2) * x)
    return grad(total)(X), grad(jit(total))(X), jit(grad(total))(X), pyjax.vjp(total, X)[1](2.0)


@program
def maps() -> Any:
    f = tripled()
    total = lambda x: jnp.sum(vmap(f)(x))
    return vmap(grad(f))(X), grad(total)(X), jit(grad(jit(total)))(X), vmap(vmap(grad(f)))(X[None])


@program
def pytrees() -> Any:
    @pyjax.custom_vjp
    def f(tree: Any, scale: Any) -> Any:
        return {"product": tree["a"] * tree["b"] * scale, "rest": (tree["b"], 2)}

    def fwd(tree: Any, scale: Any) -> Any:
        return f(tree, scale), {"t": tree, "s": scale}

    def bwd(res: Any, ct: Any) -> Any:
        tree, g = res["t"], ct["product"] * res["s"]
        return {"a": g * tree["b"] * 5, "b": g * tree["a"] + ct["rest"][0]}, None

    f.defvjp(fwd, bwd)
    total = lambda x, s: sum(jnp.sum(v) for v in pyjax.tree.leaves(f({"a": x, "b": x**2}, s)))
    return grad(total, (0, 1))(X, 3.0), grad(lambda x: vmap(total, (0, None))(x, 2.0).sum())(X)


@program
def nondiff() -> Any:
    @partial(pyjax.custom_vjp, nondiff_argnums=(0, 2))
    def f(g: Any, x: Any, n: Any) -> Any:
        return g(x) * n

    f.defvjp(lambda g, x, n: (f(g, x, n), x), lambda g, n, x, ct: (ct * g(x) * n * 11,))
    return grad(lambda x: jnp.sum(f(jnp.cos, x, 3)))(X), jit(
        vmap(grad(lambda x: f(jnp.cos, x, 3)))
    )(X)


@program
def nondiff_by_name() -> Any:
    @partial(pyjax.custom_vjp, nondiff_argnames=("n",))
    def f(x: Any, n: Any = 2) -> Any:
        return x**n

    f.defvjp(lambda x, n: (f(x, n), x), lambda n, x, ct: (ct * n * x * 7,))
    return grad(lambda x: jnp.sum(f(x, n=3) + f(x)))(X)


@program
def closures() -> Any:
    def of(a: Any) -> Any:
        f = pyjax.custom_vjp(lambda x: jnp.sin(x) * a)
        f.defvjp(lambda x: (jnp.sin(x) * a, a * x), lambda r, g: (10 * g * a * r,))
        return f

    def outliving(a: Any) -> Any:
        f = pyjax.custom_vjp(lambda x: jnp.sin(x) * a)
        f.defvjp(lambda x: (jnp.sin(x) * a, a * x), lambda r, g: (10 * g * r,))
        return f

    mapped = vmap(lambda a: grad(of(a))(2.0))(X)
    inside = grad(lambda x: jnp.sum(vmap(lambda a: outliving(a)(x))(X)))(2.0)
    return mapped, inside, jit(lambda a: grad(jit(of(a)))(2.0))(3.0), vmap(lambda a: of(a)(a))(X)


def seen() -> Any:
    """x * y and x + y; what is known to be zero counts in the cotangent."""

    @pyjax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y, x + y

    def fwd(x: Any, y: Any) -> Any:
        scale = 10.0 * x.perturbed + 100.0 * y.perturbed
        return f(x.value, y.value), (x.value * scale, y.value * scale)

    def bwd(res: Any, cts: Any) -> Any:
        zeros = sum(isinstance(ct, SymbolicZero) * 1000.0 * (i + 1) for i, ct in enumerate(cts))
        dense = next(ct for ct in cts if not isinstance(ct, SymbolicZero))
        return dense * res[1] + zeros, dense * res[0] + zeros

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f


@program
def symbolic_zeros() -> Any:
    f = seen()
    first, second = (lambda x: jnp.sum(f(x, X)[0])), (lambda x: jnp.sum(f(X, x)[1]))
    mapped = lambda x: jnp.sum(vmap(f)(x, X)[0])
    lanes = lambda x: jnp.sum(vmap(f, (0, None))(x, 2.0)[1])
    return [grad(wrap(g))(X) for g in (first, second, mapped, lanes) for wrap in (lambda h: h, jit)]


@program
def gradients_of_gradients() -> Any:
    f = tripled()
    g = lambda x: jnp.sum(grad(lambda v: jnp.sum(f(v) * v))(x) ** 2)
    return grad(g)(X), pyjax.jacrev(grad(f))(0.3), grad(grad(grad(f)))(0.3), grad(jit(g))(X)


@program
def loops_and_branches() -> Any:
    f = tripled()

    def total(x: Any) -> Any:
        c, ys = lax.scan(lambda c, row: (f(c) * row, f(row)), x[0], x)
        d = lax.cond(x[0] > 0, f, jnp.cos, x)
        return c + jnp.sum(ys) + jnp.sum(pyjax.checkpoint(lambda v: f(f(v)))(d))

    return grad(total)(X), jit(grad(total))(X)


@program
def integers() -> Any:
    f = pyjax.custom_vjp(lambda x, n: (x * n, n + 1))
    f.defvjp(lambda x, n: (f(x, n), n), lambda n, ct: (ct[0] * n * 2, None))
    n = jnp.arange(4)
    direct = grad(lambda x: jnp.sum(f(x, n)[0]))(X)
    return (
        direct,
        grad(lambda x: jnp.sum(vmap(f)(x, n)[0]))(X),
        jit(vmap(grad(lambda x: f(x, 3)[0])))(X),
    )


@program
def rules_that_look_at_values() -> Any:
    f = pyjax.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, x), lambda x, ct: (ct * 2 if float(x) > 1 else ct * 3,))
    return grad(f)(0.5), grad(f)(1.5)


@program
def gradients_of_functions_with_their_own() -> Any:
    f = pyjax.custom_gradient(lambda x: (x * x, lambda ct: 5 * ct * x))
    return grad(f)(2.0), jit(grad(lambda x: f(f(x))))(2.0)


def leaves(tree: Any) -> list[tuple[Any, bytes]]:
    arrays = map(np.asarray, pyjax.tree.leaves(tree))
    return [(a.dtype, a.tobytes()) for a in arrays]


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_results(name: str, direct: bool) -> None:
    with options.use_direct_linearize(direct):
        own = PROGRAMS[name]()
        with options.enable_custom_vjp_by_custom_transpose(True):
            by_transpose = PROGRAMS[name]()
    assert pyjax.tree.structure(own) == pyjax.tree.structure(by_transpose)
    assert leaves(own) == leaves(by_transpose)


def test_zeros_are_symbolic_in_maps() -> None:
    """They were arrays there, of either way."""
    x = jnp.ones(3)
    mapped = lambda v: jnp.sum(vmap(seen())(v, x)[0])
    for by_transpose in (False, True):
        with options.enable_custom_vjp_by_custom_transpose(by_transpose):
            np.testing.assert_array_equal(grad(mapped)(x), np.full(3, 2010.0))


def test_zeros_of_custom_jvp_are_symbolic_in_maps() -> None:
    f = pyjax.custom_jvp(lambda x, y: (x * y, x))

    def rule(primals: Any, tangents: Any) -> Any:
        zero = [isinstance(t, SymbolicZero) for t in tangents]
        return f(*primals), (tangents[0] * (10.0 * zero[0] + 100.0 * zero[1]), tangents[0])

    f.defjvp(rule, symbolic_zeros=True)
    found = grad(lambda v: jnp.sum(vmap(f)(v, jnp.ones(3))[0]))(jnp.ones(3))
    np.testing.assert_array_equal(found, np.full(3, 100.0))


def test_the_programs() -> None:
    f = tripled()
    names = lambda g: {e.primitive.name for e in pyjax.make_jaxpr(g)(X).eqns}
    tangents = lambda x: pyjax.linearize(f, x)[1](x)
    assert names(f) == {"custom_vjp_call"}
    assert "custom_lin" in names(tangents)
    with options.enable_custom_vjp_by_custom_transpose(True):
        assert names(f) == {"custom_jvp_call"}
        assert "linear_call" in names(tangents)
        assert "transpose=<lambda>" in str(pyjax.make_jaxpr(tangents)(X))


@pytest.mark.parametrize("wrap", [lambda f: f, jit, vmap], ids=["eager", "jit", "vmap"])
def test_forward_mode_is_refused(wrap: Any) -> None:
    with options.enable_custom_vjp_by_custom_transpose(True):
        with pytest.raises(TypeError, match="can't apply forward-mode autodiff"):
            pyjax.jvp(wrap(tripled()), (X,), (X,))


def test_the_option_is_part_of_the_keys() -> None:
    traced: list[bool] = []
    f = tripled()

    @jit
    def g(x: Any) -> Any:
        traced.append(options.enable_custom_vjp_by_custom_transpose.value)
        return f(x)

    for by_transpose in (False, True, False, True):
        with options.enable_custom_vjp_by_custom_transpose(by_transpose):
            g(1.0)
    assert traced == [False, True]
