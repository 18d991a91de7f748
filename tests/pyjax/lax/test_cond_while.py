"""cond, switch, while_loop and platform_dependent: values, derivatives, batching, errors."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax.numpy
from pyjax import grad, jit, jvp, lax, vmap
from pyjax.core.check_jaxpr import check_jaxpr
from pyjax.core.jaxpr import eval_jaxpr
from pyjax.interpreters.dead_code import dce_jaxpr

X = np.random.default_rng(0).normal(size=(4,)).astype(np.float32)


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


# -- cond ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pred", [True, False, 1, 0, 2.5, np.bool_(True), np.float32(0)])
@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_cond_value(pred, wrap):
    def f(p, x):
        return lax.cond(p, lambda x: x + 1, lambda x: x * 10, x)

    np.testing.assert_allclose(wrap(f)(pred, X), X + 1 if pred else X * 10, rtol=1e-6)


def test_cond_forms():
    assert float(lax.cond(True, lambda: 1.0, lambda: 2.0)) == 1
    assert float(lax.cond(False, lambda x: 1.0, lambda x: 2.0, operand=None)) == 2
    assert float(lax.cond(True, 2.0, lambda x: x + 1, 5.0, lambda x: x)) == 3
    assert float(lax.cond(False, 2.0, lambda x: x + 1, 5.0, lambda x: x)) == 5


def test_cond_closes_over_traced_values():
    def f(p, a, b):
        return lax.cond(p, lambda x: x * a, lambda x: x + b + a, 2.0)

    for p in (True, False):
        want = 2.0 * 3 if p else 2.0 + 5 + 3
        assert float(jit(f)(p, 3.0, 5.0)) == want
        assert float(grad(f, 1)(p, 3.0, 5.0)) == (2.0 if p else 1.0)


def test_cond_gradients():
    def f(x):
        return total(lax.cond(x[0] > 0, lambda x: lax.sin(x) * x[1], lambda x: lax.exp(x), x))

    for x in (np.abs(X), -np.abs(X)):
        eps = np.eye(4, dtype=np.float32) * 1e-2
        want = [(float(f(x + e)) - float(f(x - e))) / 2e-2 for e in eps]
        np.testing.assert_allclose(grad(f)(x), want, atol=2e-3)
        np.testing.assert_allclose(jit(grad(f))(x), grad(f)(x), rtol=1e-6)
        np.testing.assert_allclose(
            jvp(f, (x,), (np.ones_like(x),))[1], np.sum(grad(f)(x)), rtol=1e-4
        )


def test_branches_share_slots_for_residuals():
    def f(x):
        return total(lax.cond(x[0] > 0, lax.sin, lax.cos, x))

    text = pyjax.make_jaxpr(grad(f))(X)
    forward, backward = (e for e in text.jaxpr.eqns if e.primitive.name == "cond")
    assert len(forward.outvars) == 2  # the value, and one residual used by either branch
    assert len(backward.params["branches"]) == 2


def test_batched_predicate_selects():
    p = np.array([True, False, True, False])
    got = vmap(lambda p, x: lax.cond(p, lambda x: lax.sin(x), lambda x: x * 2, x))(p, X)
    np.testing.assert_allclose(got, np.where(p, np.sin(X), X * 2), rtol=1e-5)
    assert "cond" not in str(
        pyjax.make_jaxpr(vmap(lambda p, x: lax.cond(p, lax.sin, lax.cos, x)))(p, X)
    )


def test_unbatched_predicate_stays_a_cond():
    f = vmap(lambda p, x: lax.cond(p, lax.sin, lax.cos, x), (None, 0))
    np.testing.assert_allclose(f(True, X), np.sin(X), rtol=1e-5)
    assert "cond[" in str(pyjax.make_jaxpr(f)(True, X))


def test_gradient_of_unchosen_branch_does_not_leak():
    def f(x):
        return total(vmap(lambda x: lax.cond(x > 0, lax.log, lambda x: x * 0, x))(x))

    np.testing.assert_allclose(grad(f)(np.array([-1, 0, 2], np.float32)), [0, 0, 0.5])


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_switch(index):
    branches = [lambda x: x, lambda x: x * x, lambda x: -x]
    want = branches[min(max(index, 0), 2)](X)
    np.testing.assert_allclose(lax.switch(index, branches, X), want)
    np.testing.assert_allclose(jit(lambda i, x: lax.switch(i, branches, x))(index, X), want)


def test_batched_switch():
    branches = [lambda x: x, lambda x: x * x, lambda x: -x]
    index = np.array([2, 0, 1, 7], np.int32)
    got = vmap(lambda i, x: lax.switch(i, branches, x))(index, X)
    np.testing.assert_allclose(got, [-X[0], X[1], X[2] ** 2, -X[3]], rtol=1e-6)


def test_cond_jaxpr_text():
    text = str(
        pyjax.make_jaxpr(lambda p, x: lax.cond(p, lambda x: x + 1, lambda x: x - 1, x))(True, X)
    )
    assert "cond[" in text and text.index("sub") < text.index("add")  # false is branch 0


@pytest.mark.parametrize(
    "call, kind, parts",
    [
        (lambda: lax.cond(X, lambda c: c, lambda c: c, 1.0), TypeError, ["Pred must be a scalar"]),
        (
            lambda: lax.cond("a", lambda c: c, lambda c: c, 1.0),
            TypeError,
            ["Pred must be a scalar"],
        ),
        (
            lambda: lax.cond(True, lambda c: c, lambda c: (c,), 1.0),
            TypeError,
            ["same pytree structure", "true_fun is <lambda> at test_cond_while.py"],
        ),
        (
            lambda: lax.cond(True, lambda c: c, lambda c: X, 1.0),
            TypeError,
            ["equal output types", "float32[]", "float32[4]", "shapes do not match"],
        ),
        (lambda: lax.cond(True, 1, lambda c: c, 1.0), TypeError, ["should be callable"]),
        (lambda: lax.switch(1.0, [lambda c: c] * 2, 1.0), TypeError, ["must be an integer"]),
        (lambda: lax.switch(1, [], 1.0), ValueError, ["Empty branch sequence"]),
        (lambda: lax.switch(X, [lambda c: c] * 2, 1.0), TypeError, ["must be scalar"]),
        (lambda: lax.while_loop(lambda c: c, lambda c: c, 1.0), TypeError, ["boolean scalar"]),
        (lambda: lax.while_loop(lambda c: X > 0, lambda c: c, 1.0), TypeError, ["bool[4]"]),
        (lambda: lax.while_loop(lambda c: (c > 0,), lambda c: c, 1.0), TypeError, ["pytree"]),
        (
            lambda: lax.while_loop(lambda c: c > 0, lambda c: (c, c), 1.0),
            TypeError,
            ["while_loop body function", "same pytree structure"],
        ),
        (
            lambda: lax.while_loop(lambda c: c > 0, lambda c: X, 1.0),
            TypeError,
            ["input carry c has type float32[]", "float32[4]"],
        ),
        (
            lambda: lax.platform_dependent(1.0, tpu=lambda x: x, rocm=lambda x: x),
            NotImplementedError,
            ["no branch for platform"],
        ),
    ],
)
def test_errors_name_the_problem_and_the_line(call, kind, parts):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    for part in [*parts, "test_cond_while.py:"]:
        assert part in text


# -- while_loop ------------------------------------------------------------------------------------


def test_while_value():
    got = lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 3, c[1] * 2.0), (0, 1.0))
    assert int(got[0]) == 12 and float(got[1]) == 16


def newton_sqrt(a):
    """A Newton iteration with a data-dependent number of steps."""
    return lax.while_loop(lambda x: lax.abs(x * x - a) > 1e-5 * a, lambda x: 0.5 * (x + a / x), a)


def test_newton():
    a = np.array([1, 2, 9, 100], np.float32)
    np.testing.assert_allclose([newton_sqrt(v) for v in a], np.sqrt(a), rtol=1e-4)
    np.testing.assert_allclose(vmap(newton_sqrt)(a), np.sqrt(a), rtol=1e-4)
    np.testing.assert_allclose(jit(vmap(newton_sqrt))(a), np.sqrt(a), rtol=1e-4)


def test_while_forward_mode():
    def f(x):
        return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, lax.sin(c[1]) * x), (0, x))[
            1
        ]

    x = np.float32(1.3)
    value, slope = jvp(f, (x,), (np.float32(1),))
    np.testing.assert_allclose(slope, (f(x + 1e-2) - f(x - 1e-2)) / 2e-2, rtol=1e-2)
    np.testing.assert_allclose(value, f(x), rtol=1e-6)


def test_while_inside_linearize_runs_known_part():
    def f(x):
        n = lax.while_loop(lambda i: i < 3, lambda i: i + 1, 0)
        return x * lax.convert_element_type(n, np.float32)

    assert float(grad(f)(2.0)) == 3


def test_batched_predicate_freezes_finished_elements():
    n = np.arange(4, dtype=np.int32)
    got = vmap(
        lambda n: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 2.0), (0, 1.0))
    )(n)
    np.testing.assert_array_equal(got[0], n)
    np.testing.assert_array_equal(got[1], 2.0**n)


def test_batched_carry_with_common_predicate():
    got = vmap(
        lambda a: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * a), (0, 1.0))[1]
    )(X)
    np.testing.assert_allclose(got, X**3, rtol=1e-5)


@pytest.mark.parametrize("axes", [((0, None), (None, 0)), ((None, 0), (0, None))])
def test_vmap_of_vmap(axes):
    inner, outer = axes
    n = np.arange(4, dtype=np.int32)
    m = np.arange(3, dtype=np.int32)

    def f(n, m):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + m), (0, 0))[1]

    got = vmap(vmap(f, inner), outer)(n, m)
    want = np.outer(m, n) if inner == (0, None) else np.outer(n, m)
    np.testing.assert_array_equal(got, want)


def test_while_weak_carry_is_promoted():
    got = lax.while_loop(lambda c: c < 3, lambda c: c + 1.5, 1)
    assert got.dtype == np.float32 and float(got) == 4


def test_while_disable_jit():
    with pyjax.disable_jit(True):
        assert int(lax.while_loop(lambda c: c < 5, lambda c: c + 2, 0)) == 6


def test_dead_carries_are_removed():
    def f(x):
        return lax.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, lax.exp(c[1]), c[2] * x), (0, x, x)
        )[2]

    small, used = dce_jaxpr(pyjax.make_jaxpr(f)(X).jaxpr, [True])
    (loop,) = small.eqns
    assert used == [True] and len(loop.outvars) == 2
    assert "exp" not in str(loop.params["body_jaxpr"])
    check_jaxpr(small)
    np.testing.assert_allclose(eval_jaxpr(small, (), X)[0], X**4, rtol=1e-5)


def test_platform_dependent():
    def f(x):
        return lax.platform_dependent(x, cpu=lambda x: x * x, default=lambda x: x)

    assert float(f(3.0)) == 9
    assert float(grad(f)(3.0)) == 6
    np.testing.assert_allclose(vmap(f)(X), X * X, rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_while_flag_carried_for_the_condition_only(wrap):
    """The condition negates a flag that the body sets and never reads."""

    def f(n):
        return lax.while_loop(
            lambda c: ~c[1], lambda c: (c[0] + 1, c[0] + 1 > n), (0, pyjax.numpy.array(False))
        )

    count, flag = wrap(f)(3)
    assert (int(count), bool(flag)) == (4, True)
