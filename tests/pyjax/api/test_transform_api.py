"""The transformations' interfaces: pytrees, argnums, aux, axes, integer inputs, weak types."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import grad, jit, jvp, lax, linear_transpose, linearize, value_and_grad, vjp, vmap
from pyjax.api.checkpoint import checkpoint, checkpoint_name
from pyjax.api.checkpoint_policies import checkpoint_policies as policies
from pyjax.api.compile_time import ensure_compile_time_eval
from pyjax.api.custom_gradient import closure_convert, custom_gradient
from pyjax.api.jacobian import hessian, jacfwd, jacrev
from pyjax.api.make_jaxpr import make_jaxpr
from pyjax.api.naming import named_call, named_scope
from pyjax.core.avals import ShapedArray
from pyjax.core.dtypes import float0
from pyjax.core.tree_util import tree_map
from pyjax.interpreters.staging import trace_to_jaxpr

X = np.arange(3, dtype=np.float32) + 0.5


def as_lists(tree):
    return tree_map(lambda x: np.asarray(x).tolist(), tree)


def test_grad_pytrees_argnums_aux():
    f = lambda a, d: a * d["u"] * d["v"]
    assert as_lists(grad(f, argnums=1)(2.0, {"u": 3.0, "v": 4.0})) == {"u": 8.0, "v": 6.0}
    assert as_lists(grad(f, argnums=(0, -1))(2.0, {"u": 3.0, "v": 4.0})) == (
        12.0,
        {"u": 8.0, "v": 6.0},
    )
    (value, aux), g = value_and_grad(lambda x: (x * x, {"note": x}), has_aux=True)(3.0)
    assert (float(value), float(g), float(aux["note"])) == (9.0, 6.0, 3.0)
    g, aux = grad(lambda x, *, k: (x * k, "text"), has_aux=True)(3.0, k=5.0)
    assert float(g) == 5.0 and aux == "text"


def test_grad_names_and_weak_types():
    def loss(x):
        return x * 2

    assert grad(loss).__name__ == "loss" and "Gradient of loss" in grad(loss).__doc__
    g = grad(loss)(1.0)
    assert g.dtype == np.float32 and g.weak_type
    assert not grad(loss)(np.float32(1)).weak_type


def test_integer_inputs():
    g = grad(lambda n: n * 2.0, allow_int=True)(3)
    assert g.dtype == float0 and g.shape == ()
    out, pullback = vjp(lambda a, n: a * n, X, np.arange(3))
    da, dn = pullback(out)
    assert dn.dtype == float0 and da.tolist() == (X * np.arange(3) ** 2).tolist()
    _, tangent = jvp(lambda a, n: a * n, (X, np.arange(3)), (X, np.zeros(3, float0)))
    assert tangent.tolist() == (X * np.arange(3)).tolist()
    _, tangent = jvp(lambda n: n + 1, (3,), (np.zeros((), float0),))
    assert tangent.dtype == float0


def test_complex():
    assert complex(grad(lambda z: z * z, holomorphic=True)(1 + 2j)) == 2 + 4j
    # The convention for real functions of complex inputs: the conjugate of the gradient.
    assert complex(grad(lambda z: jnp.real(z) ** 2 + jnp.imag(z) ** 2)(1 + 2j)) == 2 - 4j


def test_vjp_crosses_jit():
    _, pullback = vjp(lambda x: lax.sin(x) * x, X)
    direct = pullback(X)[0]
    assert np.allclose(jit(lambda p, ct: p(ct))(pullback, X)[0], direct)
    _, pullback, aux = vjp(lambda x: (x, "aux"), X, has_aux=True)
    assert aux == "aux" and pullback(X)[0].tolist() == X.tolist()


def test_linearize_and_transpose():
    _, f_jvp = linearize(lambda a, b: (a * b, a.sum()), X, X)
    out = f_jvp(X, X)
    np.testing.assert_allclose(out[0], 2 * X * X)
    np.testing.assert_allclose(out[1], X.sum())
    _, f_jvp, aux = linearize(lambda a: (a * 2, a), X, has_aux=True)
    assert f_jvp(X).tolist() == (2 * X).tolist() and aux.tolist() == X.tolist()
    a, b = linear_transpose(lambda a, b: a + 2 * b, X, X)(X)
    assert (a.tolist(), b.tolist()) == (X.tolist(), (2 * X).tolist())
    struct = pyjax.ShapeDtypeStruct((3,), np.float32)
    assert linear_transpose(lambda a: a[1], struct)(1.0)[0].tolist() == [0, 1, 0]


def test_jacobians_of_pytrees():
    f = lambda d: {"out": d["a"][:2] * d["b"]}
    d = {"a": X, "b": np.float32(2)}
    for jac in (jacfwd, jacrev):
        j = jac(f)(d)["out"]
        assert j["a"].shape == (2, 3) and j["b"].shape == (2,)
        np.testing.assert_allclose(j["a"], 2 * np.eye(2, 3))
        np.testing.assert_allclose(j["b"], X[:2])
        j, aux = jac(lambda x: (x**2, x), has_aux=True)(X)
        np.testing.assert_allclose(j, np.diag(2 * X))
        assert aux.tolist() == X.tolist()
        j0, j1 = jac(lambda a, b: a * b, argnums=(0, 1))(X, 2 * X)
        np.testing.assert_allclose(j0, 2 * np.diag(X))
        np.testing.assert_allclose(j1, np.diag(X))
    nested = hessian(lambda d: (d["a"] * d["b"][0]).sum())({"a": X, "b": [X]})
    assert isinstance(nested["b"][0], dict)  # a list inside an argument is no list of blocks
    h = hessian(lambda d: (d["a"] ** 2 * d["b"]).sum())({"a": X, "b": X})
    np.testing.assert_allclose(h["a"]["b"], np.diag(2 * X))
    np.testing.assert_allclose(h["b"]["b"], np.zeros((3, 3)))


def test_vmap_axes():
    m = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert vmap(lambda a: a, in_axes=1, out_axes=-1)(m).tolist() == m.tolist()
    assert vmap(lambda a: a.sum(), in_axes=-1)(m).tolist() == m.sum(0).tolist()
    tree = vmap(lambda d, e: d["a"] + d["b"] * e, in_axes=({"a": 0, "b": None}, 0))(
        {"a": X, "b": 2.0}, X
    )
    assert tree.tolist() == (3 * X).tolist()
    out = vmap(lambda a: {"u": a, "v": (a, 1.0)}, out_axes={"u": 0, "v": (0, None)})(X)
    assert out["v"][1] == 1.0 and out["u"].tolist() == X.tolist()
    assert vmap(lambda a: a, in_axes=None, axis_size=2)(X).shape == (2, 3)
    assert vmap(lambda a, b: a * b)(X, b=X).tolist() == (X * X).tolist()
    nested = vmap(vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))(X, X)
    np.testing.assert_allclose(nested, np.outer(X, X))


def test_named_axes():
    for wrap in (lambda f: f, jit):
        f = wrap(lambda a: a / lax.psum(a, "i"))
        np.testing.assert_allclose(vmap(f, axis_name="i")(X), X / X.sum(), rtol=1e-6)
    # A jitted function is traced anew for another axis size.
    count = jit(lambda a: lax.psum(1, "i") * a)
    assert vmap(count, axis_name="i")(np.ones(3)).tolist() == [3] * 3
    assert vmap(count, axis_name="i")(np.ones(5)).tolist() == [5] * 5
    loss = lambda x: vmap(lambda a: a * lax.psum(a * a, "i"), axis_name="i")(x).sum()
    np.testing.assert_allclose(grad(loss)(X), (X**2).sum() + 2 * X * X.sum(), rtol=1e-6)
    in_scan = lambda a: lax.scan(lambda c, _: (c + lax.psum(a, "i"), None), a, None, length=2)[0]
    np.testing.assert_allclose(vmap(in_scan, axis_name="i")(X), X + 2 * X.sum(), rtol=1e-6)


@pytest.mark.parametrize(
    "policy",
    [
        None,
        policies.everything_saveable,
        policies.dots_saveable,
        policies.save_only_these_names("h"),
    ],
    ids=["none", "everything", "dots", "names"],
)
def test_checkpoint(policy):
    def f(x):
        h = checkpoint_name(jnp.sin(x @ np.eye(3, dtype=np.float32)), "h")
        return jnp.sum(jit(jnp.cos)(h) * h)

    expected = np.asarray(grad(f)(X))
    g = checkpoint(f, policy=policy)
    batch = np.stack([X, X])
    for got in (
        grad(g)(X),
        jit(grad(g))(X),
        grad(jit(g))(X),
        vmap(grad(g))(batch)[1],
        grad(lambda b: jnp.sum(vmap(g)(b)))(batch)[0],
        grad(checkpoint(g))(X),
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    np.testing.assert_allclose(jacfwd(grad(g))(X), jacfwd(grad(f))(X), rtol=1e-4, atol=1e-6)


def backward_operations(policy):
    """Operations that the backward pass of sin(sin(dot(x))) recomputes."""

    def f(x):
        return jnp.sum(jnp.sin(checkpoint_name(jnp.sin(x @ np.eye(3, dtype=np.float32)), "h")))

    eqns = make_jaxpr(grad(checkpoint(f, policy=policy)))(X).eqns
    (remat,) = [e for e in eqns if e.primitive.name == "remat2"]
    return [e.primitive.name for e in remat.params["jaxpr"].eqns]


def test_checkpoint_policies_decide_what_is_recomputed():
    assert backward_operations(None).count("sin") == 1  # the last sin feeds no derivative
    assert backward_operations(None).count("dot_general") == 2  # recomputed, and its transpose
    assert backward_operations(policies.dots_saveable).count("dot_general") == 1
    assert backward_operations(policies.dots_saveable).count("sin") == 1
    names = backward_operations(policies.save_only_these_names("h"))
    assert names.count("sin") == 0 and names.count("dot_general") == 2
    everything = backward_operations(policies.everything_saveable)
    assert "sin" not in everything and "cos" not in everything


def test_custom_gradient_and_closure_convert():
    f = custom_gradient(lambda x, y: (x * y, lambda g: (g * 10.0, g * x)))
    assert [float(v) for v in grad(f, (0, 1))(1.0, 2.0)] == [10.0, 1.0]
    assert vmap(grad(f))(X, X).tolist() == [10.0] * 3

    def loss(x):
        converted, consts = closure_convert(lambda y: y * x, 1.0)
        assert len(consts) == 1
        return converted(2.0, *consts)

    assert float(grad(loss)(3.0)) == 2.0


def test_make_jaxpr_options():
    closed, shape = make_jaxpr(lambda x, n: x * n, static_argnums=1, return_shape=True)(X, 3)
    assert len(closed.in_avals) == 1 and shape.shape == (3,)
    env = make_jaxpr(lambda x: lax.psum(x, "i"), axis_env=[("i", 4)])(X)
    assert env.eqns[0].primitive.name == "psum"


def test_named_scopes_reach_hlo():
    @named_call
    def inner(x):
        with named_scope("attention"):
            return lax.sin(x)

    text = jit(inner).lower(X).as_text(debug_info=True)
    assert "inner/attention/sin" in text and "test_transform_api.py" in text


def test_ensure_compile_time_eval():
    @jit
    def f(x):
        with ensure_compile_time_eval():
            n = int(jnp.sum(jnp.ones(3)))
        return x * n

    assert float(f(2.0)) == 6.0


# What is known in a block, and what is not; `cube` has a rule of its own.
cube = pyjax.custom_jvp(lambda x: x**3)
cube.defjvp(lambda p, t: (cube(*p), 30 * t[0]))
KNOWN = {
    "arithmetic": lambda a, x: a * 2.0 + 1,
    "jit": lambda a, x: jit(jnp.sin)(a),
    "vmap": lambda a, x: vmap(lambda v: v * 2)(a),
    "grad": lambda a, x: grad(lambda v: (v * v).sum())(a),
    "scan": lambda a, x: lax.scan(lambda c, v: (c + v, v), 0.0, a)[1],
    "while": lambda a, x: lax.while_loop(lambda v: v[0] < 3, lambda v: v + 1, a),
    "cond": lambda a, x: lax.cond(True, jnp.sin, jnp.cos, a),
    "custom": lambda a, x: cube(a),
    "update": lambda a, x: a.at[0].set(3.0),
    "random": lambda a, x: pyjax.random.normal(pyjax.random.key(0)),
}
UNKNOWN = {
    "arithmetic": lambda a, x: a * x,
    "jit": lambda a, x: jit(jnp.cos)(x * a),
    "closure": lambda a, x: jit(lambda v: v * x)(a),
    "custom": lambda a, x: cube(x * a),
}


@pytest.mark.parametrize("transform", [jit, lambda f: jit(grad(f)), lambda f: jit(checkpoint(f))])
def test_known_values_in_ensure_compile_time_eval(transform):
    def f(x):
        with ensure_compile_time_eval():
            a = jnp.ones(2) + 1
            for name, operation in KNOWN.items():
                assert pyjax.core.is_concrete(operation(a, x)), name
        return x

    transform(f)(2.0)


@pytest.mark.parametrize("name", UNKNOWN)
def test_traced_operands_in_ensure_compile_time_eval(name):
    operation = UNKNOWN[name]

    def inside(x):
        with ensure_compile_time_eval():
            return jnp.sum(operation(jnp.ones(2) + 1, x))

    def outside(x):
        return jnp.sum(operation(jnp.ones(2) + 1, x))

    for transform in (jit, grad, lambda f: jit(grad(f)), checkpoint):
        np.testing.assert_allclose(transform(inside)(0.5), transform(outside)(0.5), rtol=1e-6)
    np.testing.assert_allclose(vmap(inside)(X), vmap(outside)(X), rtol=1e-6)


def test_operations_without_operands_in_ensure_compile_time_eval():
    @jit
    def f(x):
        with ensure_compile_time_eval():
            return x * int(jnp.sum(lax.iota("int32", 23)))

    assert f(2) == 2 * 23 * 11


def test_ensure_compile_time_eval_decorates():
    @ensure_compile_time_eval()
    def seven():
        return int(jnp.sum(jnp.ones(7)))

    assert float(jit(lambda x: x * seven())(2.0)) == 14.0


def test_single_operations_in_ensure_compile_time_eval():
    """They are traced in order to be run; in the middle of that a signal handler may open a block
    of its own."""
    concrete = []

    def operation(x):
        concrete.append(pyjax.core.is_concrete(jnp.ones(2) + 1))
        with ensure_compile_time_eval():
            concrete.append(pyjax.core.is_concrete(jnp.ones(2) + 1))
        return [x]

    aval = ShapedArray((), np.dtype("float32"))
    with ensure_compile_time_eval():
        trace_to_jaxpr(operation, [aval])
    trace_to_jaxpr(operation, [aval])
    assert concrete == [False, True] * 2
