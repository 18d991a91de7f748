"""scan, map and fori_loop against Python loops, under every transformation, and in nests."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax.numpy
from pyjax import grad, jit, jvp, lax, vmap
from pyjax.interpreters.dead_code import dce_jaxpr

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32) * 0.5


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


def differences(f, x, eps=1e-2):
    """Central differences of a scalar function of one float32 array."""
    f = jit(f)
    g = np.zeros(np.shape(x), np.float64)
    for i in np.ndindex(*np.shape(x)):
        step = np.zeros(np.shape(x), np.float32)
        step[i] = eps
        g[i] = (float(f(x + step)) - float(f(x - step))) / (2 * eps)
    return g


def python_scan(f, init, xs, length=None, reverse=False):
    n = len(xs) if length is None else length
    ys = [None] * n
    for i in reversed(range(n)) if reverse else range(n):
        init, ys[i] = f(init, None if xs is None else xs[i])
    return init, np.stack(ys)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2, 3, 5, 9, True])
def test_value_matches_python(unroll, reverse):
    def step(c, x):
        return c * 0.5 + x, c - x

    want = python_scan(step, np.zeros(3, np.float32), X, reverse=reverse)
    got = lax.scan(step, np.zeros(3, np.float32), X, reverse=reverse, unroll=unroll)
    for g, w in zip(got, want):
        np.testing.assert_allclose(g, w, rtol=1e-5)


def test_without_xs_and_without_ys():
    carry, ys = lax.scan(lambda c, _: (c * 2, None), np.int32(1), None, length=10)
    assert int(carry) == 1024 and ys is None


def test_length_zero():
    carry, ys = lax.scan(lambda c, x: (c + x, c), np.float32(3), np.zeros(0, np.float32))
    assert float(carry) == 3 and ys.shape == (0,)


def test_pytrees():
    xs = {"a": X, "b": (X * 2,)}
    (c, d), ys = lax.scan(
        lambda c, x: ((c[0] + x["a"], c[1]), {"s": x["b"][0] - c[0]}), (X[0], 7), xs
    )
    np.testing.assert_allclose(c, X[0] + X.sum(0), rtol=1e-5)
    assert int(d) == 7 and set(ys) == {"s"} and ys["s"].shape == (5, 3)


def rnn(w, h, xs):
    """The usual recurrent network: tanh of an affine map, all states kept."""

    def step(h, x):
        h = lax.tanh(lax.dot(h, w) + x)
        return h, h

    return lax.scan(step, h, xs)


def test_rnn_gradient():
    def loss(w):
        h, hs = rnn(w, X[0], X)
        return total(hs * hs) + total(h)

    np.testing.assert_allclose(grad(loss)(W), differences(loss, W), atol=2e-2)
    np.testing.assert_allclose(jit(grad(loss))(W), grad(loss)(W), rtol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [1, 2])
def test_gradient_with_constants_carry_and_xs(reverse, unroll):
    def f(x):
        w = total(x)

        def step(c, row):
            return lax.sin(c) * lax.exp(w * 0.1) * row, (c * w, row * row)

        c, (ys, zs) = lax.scan(step, x[0], x, reverse=reverse, unroll=unroll)
        return total(c) + total(ys) + total(zs)

    x = 0.5 * X
    np.testing.assert_allclose(grad(f)(x), differences(f, x), atol=5e-2)
    _, directional = jvp(f, (x,), (W[:1] + 0 * x,))
    np.testing.assert_allclose(directional, np.sum(grad(f)(x) * W[:1]), rtol=1e-3)


def test_second_order():
    def f(x):
        return total(lax.scan(lambda c, a: (lax.sin(c * a), c * c), x[0], x)[1])

    def slope(x):
        return total(grad(f)(x) * W[:1])

    np.testing.assert_allclose(grad(slope)(X), differences(slope, X), atol=5e-2)


def test_hessian_through_scan():
    def f(x):
        return lax.fori_loop(0, 3, lambda i, c: lax.sin(c) + x[0] * x[1], x[1])

    def by_rows(x):
        eye = np.eye(2, dtype=np.float32)
        return np.stack([jvp(grad(f), (x,), (e,))[1] for e in eye])

    x = np.array([0.3, 0.8], np.float32)
    h = by_rows(x)
    np.testing.assert_allclose(h, h.T, atol=1e-5)
    np.testing.assert_allclose(
        h, np.stack([differences(lambda v, i=i: grad(f)(v)[i], x) for i in range(2)]), atol=1e-2
    )


def test_scan_of_scan_of_cond():
    def f(x):
        def inner(c, a):
            return lax.sin(c) + a, c * a

        def outer(c, row):
            c, ys = lax.scan(inner, c, row)
            return lax.cond(c > 0, lambda c: c * c, lambda c: lax.exp(c), c), ys

        c, ys = lax.scan(outer, np.float32(0.1), x)
        return c + total(ys)

    np.testing.assert_allclose(grad(f)(X), differences(f, X), atol=2e-2)
    both = np.stack([X, X + 1])
    np.testing.assert_allclose(
        vmap(grad(f))(both), np.stack([grad(f)(b) for b in both]), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (0, 1), (None, 2)])
def test_vmap(axes):
    def f(c, xs):
        return lax.scan(lambda c, x: (c + x, c * x), c, xs)

    c, xs = X[0], X
    batched = [
        v if a is None else np.stack([v, v + 1, v * 2], axis=min(a, v.ndim))
        for v, a in zip((c, xs), axes)
    ]
    got = vmap(f, axes)(*batched)
    for i in range(3):
        one = [v if a is None else np.take(v, i, a) for v, a in zip(batched, axes)]
        for g, w in zip(got, f(*one)):
            np.testing.assert_allclose(g[i], w, rtol=1e-6)


def test_counter_in_the_carry_is_not_batched():
    jaxpr = str(pyjax.make_jaxpr(vmap(lambda x: lax.fori_loop(0, 3, lambda i, c: c + x, x)))(X[0]))
    assert "i32[] e:f32[3]" in jaxpr and "i32[3]" not in jaxpr


def test_weakly_typed_initial_carry_is_promoted():
    carry, ys = lax.scan(lambda c, x: (c + x, c), 0, X[0])
    assert carry.dtype == np.float32 and ys.dtype == np.float32


def test_jaxpr_text():
    text = str(pyjax.make_jaxpr(lambda x: lax.scan(lambda c, a: (c + a, c), x[0], x))(X))
    for part in ("scan[", "length=5", "num_carry=1", "num_consts=0", "reverse=False", "unroll=1"):
        assert part in text


def test_residuals_that_are_slices_of_xs_are_not_stored_again():
    def f(x):
        return total(lax.scan(lambda c, a: (c * lax.sin(x[0, 0]), c * a), x[0], x)[1])

    eqns = pyjax.make_jaxpr(grad(f))(X).jaxpr.eqns
    forward, backward = (e for e in eqns if e.primitive.name == "scan")
    assert forward.params["num_consts"] == 1  # sin(x[0, 0]) is computed once, outside
    assert not any(e.primitive.name in ("sin", "cos") for e in forward.params["jaxpr"].eqns)
    assert len(forward.outvars) <= 3  # carry, ys and one stacked residual
    assert backward.params["reverse"]


def test_unused_outputs_are_removed():
    def f(x):
        return lax.scan(lambda c, a: (c + a, lax.exp(c)), x[0], x)[0]

    jaxpr = pyjax.make_jaxpr(f)(X).jaxpr
    small, _ = dce_jaxpr(jaxpr, [True])
    (scan,) = (e for e in small.eqns if e.primitive.name == "scan")
    assert len(scan.outvars) == 1 and "exp" not in str(scan.params["jaxpr"])


def test_body_is_traced_once_for_repeated_calls():
    calls = []

    def step(c, x):
        calls.append(1)
        return c + x, c

    for _ in range(3):
        lax.scan(step, np.float32(0), X[0])
    assert len(calls) == 1


def test_fori_loop_matches_python():
    assert int(lax.fori_loop(2, 7, lambda i, c: c * i, 1)) == 2 * 3 * 4 * 5 * 6
    assert int(jit(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0))(5)) == 10
    assert int(lax.fori_loop(5, 2, lambda i, c: c + i, 4)) == 4
    assert int(lax.fori_loop(0, 7, lambda i, c: c + i, 0, unroll=3)) == 21


def test_static_fori_loop_is_differentiable():
    def f(x):
        return lax.fori_loop(0, 4, lambda i, c: lax.sin(c) * x, x)

    x = np.float32(1.3)
    np.testing.assert_allclose(grad(f)(x), differences(f, x), atol=1e-3)


def test_ode_integrator():
    def pendulum(theta):
        def step(i, state):
            q, p = state
            p = p - 0.01 * lax.sin(q)
            return q + 0.01 * p, p

        return lax.fori_loop(0, 50, step, (theta, np.float32(0)))[0]

    q, p = 1.0, 0.0
    for _ in range(50):
        p -= 0.01 * np.sin(q)
        q += 0.01 * p
    np.testing.assert_allclose(pendulum(np.float32(1)), q, rtol=1e-4)
    np.testing.assert_allclose(
        grad(pendulum)(np.float32(1)), differences(pendulum, np.float32(1)), atol=1e-3
    )


@pytest.mark.parametrize("batch_size", [None, 1, 2, 5, 7])
def test_map(batch_size):
    got = lax.map(lambda x: (lax.sin(x), total(x)), X, batch_size=batch_size)
    np.testing.assert_allclose(got[0], np.sin(X), rtol=1e-5)
    np.testing.assert_allclose(got[1], X.sum(1), rtol=1e-4)


def test_disable_jit_runs_python():
    seen = []

    def step(c, x):
        seen.append(float(c))
        return c + x, c

    with pyjax.disable_jit(True):
        _, ys = lax.scan(step, np.float32(0), X[0])
    assert len(seen) == 3
    np.testing.assert_allclose(ys, np.cumsum(X[0]) - X[0], atol=1e-6)


@pytest.mark.parametrize(
    "call, kind, parts",
    [
        (
            lambda: lax.scan(lambda c, x: (c.astype(np.int32), x), X[0], X),
            TypeError,
            [
                "carry input and carry output must have equal types",
                "input carry c has type float32[3]",
                "int32[3]",
                "dtypes do not match",
                "astype",
            ],
        ),
        (
            lambda: lax.scan(lambda c, x: ({"a": c["a"][:2]}, x), {"a": X[0]}, X),
            TypeError,
            ["component c['a'] has type float32[3]", "float32[2]", "shapes do not match"],
        ),
        (
            lambda: lax.scan(lambda c, x: ((c, c), x), X[0], X),
            TypeError,
            ["must have the same pytree structure"],
        ),
        (lambda: lax.scan(lambda c, x: c, X[0], X), TypeError, ["must be a pair"]),
        (
            lambda: lax.scan(lambda c, x: (c, x), 1.0, (X, X[:2])),
            ValueError,
            ["different leading axis sizes: 5, 2"],
        ),
        (
            lambda: lax.scan(lambda c, x: (c, x), 1.0, X, length=3),
            ValueError,
            ["`length` argument of 3", "[5]"],
        ),
        (lambda: lax.scan(lambda c, x: (c, x), 1.0), ValueError, ["`length` not provided"]),
        (lambda: lax.scan(lambda c, x: (c, x), 1.0, 1.0), ValueError, ["no leading axis"]),
        (lambda: lax.scan(1, 1.0, X), TypeError, ["should be callable"]),
        (lambda: lax.scan(lambda c, x: (c, x), 1.0, X, unroll=0), ValueError, ["`unroll`"]),
        (lambda: lax.fori_loop(0.0, 1, lambda i, c: c, 1.0), TypeError, ["equal types"]),
        (lambda: lax.fori_loop(X, X, lambda i, c: c, 1.0), TypeError, ["integer scalars"]),
        (lambda: lax.fori_loop(0, 3, 1, 1.0), TypeError, ["callable"]),
        (
            lambda: lax.fori_loop(0, 3, lambda i, c: c[:2], X),
            TypeError,
            ["fori_loop body function", "input carry c has type float32[5,3]", "float32[2,3]"],
        ),
        (
            lambda: jit(lambda n: lax.fori_loop(0, n, lambda i, c: c, 1.0, unroll=2))(3),
            ValueError,
            ["statically known"],
        ),
        (lambda: lax.map(lambda x: x, 1.0), ValueError, ["no leading axis"]),
    ],
)
def test_errors_name_the_problem_and_the_line(call, kind, parts):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    for part in [*parts, "test_scan.py:"]:
        assert part in text
