"""Linearization: directly, and by jvp and partial evaluation, with the same results to the bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from pyjax._config import options

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, lax, vmap
from pyjax.core.structural import add_jaxvals
from pyjax.interpreters.linearize import linearize_jaxpr
from pyjax.interpreters.rules import all_primitives, linearize_rules

X = jnp.linspace(0.2, 1.4, 6, dtype=jnp.float32)
M = jnp.asarray(np.random.RandomState(0).rand(4, 4), jnp.float32) + 2 * jnp.eye(4)
W = [(M * 0.1 * (i + 1), jnp.full(4, 0.1 * i, jnp.float32)) for i in range(3)]

Program = tuple[Callable[..., Any], tuple[Any, ...]]
PROGRAMS: dict[str, Program] = {}


def program(*args: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a program: the function takes the derivatives itself."""

    def declare(fun: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS[fun.__name__] = (fun, args)
        return fun

    return declare


def _loss(params: Any, x: Any) -> Any:
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return jnp.sum(x * x)


@program(W, M[0])
def layers(params: Any, x: Any) -> Any:
    return pyjax.value_and_grad(_loss, argnums=(0, 1))(params, x)


@program(X)
def nested_jit(x: Any) -> Any:
    inner = jit(lambda a, b: (jnp.sin(a) * b, a, 3.0, jnp.floor(b)))
    outer = jit(lambda a: sum(jnp.sum(v) for v in inner(a, a * a)) + inner(a, a)[0][0])
    return grad(outer)(x)


@program(X)
def jit_of_integers(x: Any) -> Any:
    f = jit(lambda a, n: (a * n, n + 1))
    return grad(lambda a: jnp.sum(f(a, 3)[0] * f(a, 3)[1]))(x)


@program(X)
def jit_with_constants(x: Any) -> Any:
    big = jnp.arange(6.0) + x[0]
    return grad(lambda a: jnp.sum(jit(lambda v: v * big * jnp.arange(6.0))(a)))(x)


@program(X)
def scan_with_everything(x: Any) -> Any:
    def f(a: Any, w: Any) -> Any:
        def body(carry: Any, row: Any) -> Any:
            c, n, still = carry
            new = jnp.tanh(c * w + row) * jnp.exp(-w)
            return (new, n + 1, still), (new * row, n, w * 2)

        (c, n, _), (ys, ns, ws) = lax.scan(body, (a[0], 0, a[1]), a)
        return c * n + jnp.sum(ys) + jnp.sum(ns) + jnp.sum(ws)

    return grad(f, argnums=(0, 1))(x, x[2])


@program(X)
def scan_where_a_carry_gets_its_tangent_late(x: Any) -> Any:
    def f(a: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            p, q, r = carry
            return (q, r, jnp.sin(r * a[0]) + q), p

        carry, ys = lax.scan(body, (1.0, 2.0, 3.0), None, length=5)
        return sum(carry) + jnp.sum(ys)

    return grad(f)(x)


@program(X)
def scans_in_scans(x: Any) -> Any:
    def f(a: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            inner = lax.scan(lambda d, k: (jnp.sin(d) * row + k, d * row), c, a, reverse=True)
            return inner[0], jnp.sum(inner[1])

        c, ys = lax.scan(outer, a[0], a, unroll=2)
        return c + jnp.sum(ys)

    return pyjax.value_and_grad(f)(x)


@program(X)
def scan_of_zero_steps(x: Any) -> Any:
    return grad(lambda a: lax.scan(lambda c, _: (c * a, None), a, None, length=0)[0].sum())(x)


@program(X)
def counted_loop(x: Any) -> Any:
    return grad(lambda a: jnp.sum(lax.fori_loop(0, 4, lambda i, c: jnp.sin(c) * a + i, a)))(x)


@program(X)
def forward_through_while(x: Any) -> Any:
    def f(a: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, jnp.sin(c[1]) * a), (0, a))[
            1
        ]

    return pyjax.jvp(f, (x,), (x,)), pyjax.linearize(f, x)[1](x)


@program(X)
def while_beside(x: Any) -> Any:
    def f(a: Any) -> Any:
        n = lax.while_loop(lambda n: n < 5, lambda n: n + 2, 0)
        return jnp.sum(a**2) * n

    return grad(f)(x)


@program(X)
def branches(x: Any) -> Any:
    def f(a: Any, i: Any) -> Any:
        cases = [lambda v: jnp.sin(v) * v, lambda v: v * 1, lambda v: jnp.ones_like(v) * 2]
        y = lax.switch(i, cases, a)
        z = lax.cond(a[0] > 0, lambda v: (v * v, v), lambda v: (jnp.exp(v), v * 2), y)
        return jnp.sum(z[0]) + jnp.sum(z[1])

    return [grad(f)(x, i) for i in range(3)]


@program(X)
def branches_of_lanes(x: Any) -> Any:
    f = lambda a: lax.cond(a > 0.6, lambda v: jnp.sin(v) * v, lambda v: v**3, a)
    return vmap(grad(f))(x), grad(lambda a: vmap(f)(a).sum())(x)


@pyjax.custom_jvp
def _doubled(x: Any, y: Any) -> Any:
    return jnp.sin(x), y


@_doubled.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    return _doubled(x, y), (2 * jnp.cos(x) * dx, dy * y)


@program(X)
def custom_jvp(x: Any) -> Any:
    f = lambda a: sum(jnp.sum(v) for v in _doubled(a, a * 2))
    return grad(f)(x), grad(jit(f))(x), pyjax.hessian(f)(x)


@pyjax.custom_jvp
def _of_one(x: Any, y: Any) -> Any:
    return x * y, x + y


def _of_one_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (dx, dy) = primals, tangents
    zero = [type(t).__name__ == "SymbolicZero" for t in (dx, dy)]
    assert zero == [False, True], zero
    return (x * y, x + y), (dx * y, dx)


_of_one.defjvp(_of_one_jvp, symbolic_zeros=True)


@program(X)
def custom_jvp_with_symbolic_zeros(x: Any) -> Any:
    return grad(lambda a: sum(jnp.sum(v) for v in _of_one(a, x)))(x)


@pyjax.custom_jvp
def _flat(x: Any) -> Any:
    return jnp.round(x) * 2, x


_flat.defjvp(lambda p, t: (_flat(*p), (jnp.zeros_like(t[0]), t[0] * 3)))


@program(X)
def custom_jvp_with_a_zero_tangent(x: Any) -> Any:
    return grad(lambda a: sum(jnp.sum(v * a) for v in _flat(a)))(x), pyjax.linearize(_flat, x)[1](x)


@pyjax.custom_vjp
def _weighted(tree: Any, n: Any) -> Any:
    return {"sum": tree["a"] * n + tree["b"], "n": n}


_weighted.defvjp(
    lambda tree, n: (_weighted(tree, n), (tree["a"], n)),
    lambda res, ct: ({"a": ct["sum"] * res[1] * 2, "b": ct["sum"] * res[0]}, None),
)


@program(X)
def custom_vjp(x: Any) -> Any:
    def f(a: Any) -> Any:
        return jnp.sum(_weighted({"a": jnp.sin(a), "b": a * 3}, 2)["sum"] * a)

    return grad(f)(x), grad(jit(f))(x), pyjax.jacrev(grad(f))(x)


@pyjax.custom_vjp
def _seen(x: Any, y: Any) -> Any:
    return x * y


def _seen_fwd(x: Any, y: Any) -> Any:
    assert (x.perturbed, y.perturbed) == (True, False)
    return x.value * y.value, (x.value, y.value)


_seen.defvjp(_seen_fwd, lambda res, ct: (ct * res[1] * 5, None), symbolic_zeros=True)


@program(X)
def custom_vjp_with_symbolic_zeros(x: Any) -> Any:
    return grad(lambda a: jnp.sum(_seen(a, x)))(x)


@program(X)
def custom_rules_in_loops(x: Any) -> Any:
    def f(a: Any) -> Any:
        def body(c: Any, row: Any) -> Any:
            c = _weighted({"a": c, "b": row}, 2)["sum"]
            return jnp.sum(jnp.stack(_doubled(c, row))), c

        c, ys = lax.scan(body, a[0], a)
        return c + jnp.sum(ys)

    return grad(f)(x)


@program(X)
def checkpoints(x: Any) -> Any:
    g = lambda a: jnp.sin(jnp.exp(jnp.sin(a)) * a)
    everything = pyjax.checkpoint_policies.everything_saveable
    kept = pyjax.checkpoint(g, policy=everything)
    some = pyjax.checkpoint_policies.save_only_these_names("y")
    named = lambda a: jnp.cos(pyjax.ad_checkpoint.checkpoint_name(jnp.sin(a), "y") * a) * a
    functions = (pyjax.checkpoint(g), kept, pyjax.checkpoint(named, policy=some))
    return [grad(lambda a, f=f: jnp.sum(f(a) * a))(x) for f in functions]


@program(X)
def checkpoints_in_scans(x: Any) -> Any:
    body = pyjax.checkpoint(lambda c, row: (jnp.sin(c) * row, jnp.cos(c) * x[0]))
    return grad(lambda a: sum(jnp.sum(v) for v in lax.scan(body, a[0], a)))(x)


@program(X)
def checkpoint_of_a_scan(x: Any) -> Any:
    f = lambda a: lax.scan(lambda c, row: (jnp.sin(c) * row, c), a[0], a)
    return grad(lambda a: sum(jnp.sum(v) for v in pyjax.checkpoint(f)(a)))(x)


@program(X)
def gradients_of_gradients(x: Any) -> Any:
    f = lambda a: jnp.sum(jnp.sin(a) * jnp.tanh(a) / (1 + a * a))
    g = lambda a: jnp.sum(grad(f)(a) * a)
    return grad(g)(x), grad(lambda a: jnp.sum(grad(g)(a)))(x), pyjax.hessian(f)(x)


@program(X)
def mixed_modes(x: Any) -> Any:
    f = lambda a: jnp.exp(a) * jnp.sum(jnp.sin(a))
    forward_reverse = pyjax.jacfwd(pyjax.jacrev(f))(x)
    return (
        forward_reverse,
        pyjax.jacrev(pyjax.jacfwd(f))(x),
        pyjax.jvp(grad(lambda a: f(a)[0]), (x,), (x,)),
    )


@program(X)
def maps(x: Any) -> Any:
    f = lambda a, b: jnp.sin(a * b) / (a + b)
    both = vmap(pyjax.value_and_grad(f, argnums=(0, 1)), in_axes=(0, None))(x, x[0])
    return both, grad(lambda a: jnp.sum(vmap(vmap(f, (0, None)), (None, 0))(a, a)))(x)


@program(X)
def aux_and_integers(x: Any) -> Any:
    f = lambda a, n: (jnp.sum(a**n), {"n": n, "a": a * 2})
    out, pullback, aux = pyjax.vjp(f, x, 3, has_aux=True)
    value = pyjax.value_and_grad(f, has_aux=True)(x, 2)
    _, f_jvp, more = pyjax.linearize(lambda a: f(a, 2), x, has_aux=True)
    return out, pullback(jnp.ones_like(out))[0], aux, value, f_jvp(x), more


@program(X)
def complex_numbers(x: Any) -> Any:
    z = x + 1j * x[::-1]
    f = lambda a: jnp.sum(jnp.sin(a) * a.conj().real + jnp.abs(a) ** 2)
    return grad(lambda a: f(a).real)(z), grad(lambda a: jnp.sum(a**3), holomorphic=True)(z)


@program(M)
def matrices(m: Any) -> Any:
    def f(a: Any) -> Any:
        s = a @ a.T + 4 * jnp.eye(4)
        c = jnp.linalg.cholesky(s)
        return (
            jnp.sum(jnp.linalg.solve(s, c))
            + jnp.linalg.slogdet(s)[1]
            + jnp.sum(jnp.linalg.eigh(s)[0])
        )

    return pyjax.value_and_grad(f)(m)


@program(X)
def selections(x: Any) -> Any:
    def f(a: Any) -> Any:
        s = jnp.sort(a * jnp.cos(7 * a))
        picked = s[jnp.array([0, 2, 2])] * a.at[1].set(3.0).at[0].add(s[1])[:3]
        window = lax.dynamic_update_slice(a, picked * 2, (1,))
        return jnp.sum(picked) + jnp.max(window) + jnp.sum(jnp.cumsum(window)) + jnp.prod(s + 2)

    return grad(f)(x)


@program(X)
def convolutions(x: Any) -> Any:
    f = lambda a: jnp.sum(jnp.convolve(a, a[:3]) ** 2) + jnp.sum(jnp.abs(jnp.fft.fft(a)))
    return grad(f)(x)


@program(X)
def associative(x: Any) -> Any:
    return grad(lambda a: jnp.sum(lax.associative_scan(jnp.multiply, jnp.sin(a)) * a))(x)


@program(X)
def implicit(x: Any) -> Any:
    def root(a: Any) -> Any:
        newton = lambda f, y: lax.fori_loop(0, 20, lambda _, v: v - (v * v - a) / (2 * v), y)
        return lax.custom_root(lambda y: y * y - a, a + 1, newton, lambda g, y: y / g(1.0))

    return grad(lambda a: root(a[0]) * a[1])(x)


@program(X)
def stopped(x: Any) -> Any:
    return grad(lambda a: jnp.sum(lax.stop_gradient(jnp.sin(a)) * a + jnp.floor(a)))(x)


@program(X)
def library_functions(x: Any) -> Any:
    def f(a: Any) -> Any:
        y = pyjax.nn.softmax(a) + pyjax.nn.relu(a - 0.5) + pyjax.nn.gelu(a) + pyjax.nn.silu(a)
        return jnp.sum(jnp.where(y > 0.5, y, y * y)) + jnp.var(y) + jnp.linalg.norm(y)

    return grad(f)(x)


@contextmanager
def path(direct: bool) -> Iterator[None]:
    with options.use_direct_linearize(direct):
        yield


def leaves(tree: Any) -> list[tuple[Any, bytes]]:
    """Types and bits."""
    arrays = map(np.asarray, pyjax.tree.leaves(tree))
    return [(a.dtype, a.tobytes()) for a in arrays]


@pytest.mark.parametrize("wrapped", ["eager", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_results(name: str, wrapped: str) -> None:
    fun, args = PROGRAMS[name]
    if wrapped == "jit":
        fun = jit(fun)
    with path(False):
        by_jvp = fun(*args)
    with path(True):
        direct = fun(*args)
    assert pyjax.tree.structure(by_jvp) == pyjax.tree.structure(direct)
    assert leaves(by_jvp) == leaves(direct)


def test_what_python_sees() -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append(repr(x))
        return x * 2

    with path(True):
        grad(f)(3.0)
        jit(grad(f))(3.0)
    with path(False):
        grad(f)(3.0)
    assert seen[0] == "GradTracer(primal=3.0, typeof(tangent)=f32[])"
    assert seen[1] == "GradTracer(primal=JitTracer<float32[]>, typeof(tangent)=f32[])"
    assert seen[2].startswith("JVPTracer<float32[]> with primal = 3.0, tangent = JaxprTracer")


def test_values_stay_concrete() -> None:
    with path(True):
        assert float(grad(lambda x: x * x if x > 1 else -x)(3.0)) == 6.0


def test_the_option_is_part_of_the_keys() -> None:
    traced: list[bool] = []

    @jit
    def f(x: Any) -> Any:
        traced.append(options.use_direct_linearize.value)
        return grad(lambda a: a * a)(x)

    for direct in (True, False, True, False):
        with path(direct):
            f(3.0)
    assert traced == [True, False]


def test_a_tangent_that_does_not_depend_on_tangents_is_zero() -> None:
    @pyjax.custom_jvp
    def f(x: Any) -> Any:
        return x

    f.defjvp(lambda primals, tangents: (primals[0], 7.0))
    with path(True):
        assert float(pyjax.linearize(f, 3.0)[1](1.0)) == 0.0
    with path(False):
        assert float(pyjax.linearize(f, 3.0)[1](1.0)) == 7.0


@pytest.mark.parametrize("direct", [False, True])
def test_an_output_that_depends_on_tangents(direct: bool) -> None:
    @pyjax.custom_jvp
    def f(x: Any) -> Any:
        return x

    f.defjvp(lambda primals, tangents: (primals[0] + tangents[0], tangents[0]))
    with path(direct), pytest.raises(ValueError, match="failed to produce known values"):
        grad(f)(3.0)


def test_zero_tangents_leave_nothing() -> None:
    """What is computed with a rule's array of zeros stands in the program of one way only."""
    counts = []
    for direct in (False, True):
        with path(direct):
            f = lambda x: grad(lambda a: sum(jnp.sum(v * a) for v in _flat(a)))(x)
            eqns = pyjax.make_jaxpr(f)(X).eqns
        counts.append(sum(eqn.primitive.name == "mul" for eqn in eqns))
    assert counts == [7, 6]


def test_programs_of_a_jaxpr() -> None:
    closed = pyjax.make_jaxpr(lambda a, b: (jnp.sin(a) * b, b + 1, 2.0))(X, X)
    primal, linear, nonzero, residuals = linearize_jaxpr(
        closed, [True, False], [False, True, False]
    )
    assert nonzero == [True, True, False]
    outs = primal.eval(X, X)
    np.testing.assert_array_equal(outs[0], jnp.sin(X) * X)
    assert [v.aval for v in linear.jaxpr.invars] == [*residuals, X.aval]
    tangents = linear.eval(*outs[3:], jnp.ones(6))
    np.testing.assert_allclose(tangents[0], jnp.cos(X) * X, rtol=1e-6)
    np.testing.assert_array_equal(tangents[1], np.zeros(6))


def test_constants_are_no_outputs_of_a_jit() -> None:
    constant = jnp.arange(6.0)
    f = pyjax.custom_jvp(jnp.sin)
    f.defjvp(lambda p, t: (jnp.sin(p[0]), t[0] * constant))
    with path(True):
        (primal, _) = pyjax.make_jaxpr(lambda x: pyjax.linearize(jit(f), x)[1](x))(X).eqns
    assert len(primal.outvars) == 1


def test_rules_of_all_short_forms() -> None:
    """Whatever has one rule per operand, or is linear, needs no second trace of its rule."""
    assert {all_primitives[name] for name in ("sin", "mul", "reduce_sum", "floor", "jit")} <= set(
        linearize_rules
    )


def test_linear_zeros() -> None:
    """An operand of a linear primitive without a tangent."""
    with path(True):
        f = lambda a: jnp.sum(add_jaxvals(a, jnp.ones(6)) * a)
        np.testing.assert_allclose(grad(f)(X), 2 * X + 1, rtol=1e-6)
