"""Primitives that users define: rules in the public tables, under every transformation."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core import Effect, ShapedArray
from pyjax.extend.core import Primitive
from pyjax.interpreters import ad, batching, mlir, xla

X = np.array([0.5, 1.0, 2.0], np.float32)


def _scaled_sine():
    """sin(scale * x): every kind of rule written out."""
    p = Primitive("scaled_sine")
    p.def_impl(lambda x, *, scale: np.sin(scale * np.asarray(x)))
    p.def_abstract_eval(lambda x, *, scale: ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(
        p, mlir.lower_fun(lambda x, *, scale: jnp.sin(scale * x), multiple_results=False)
    )
    ad.defjvp(p, lambda g, x, *, scale: g * scale * jnp.cos(scale * x))
    batching.primitive_batchers[p] = lambda args, dims, **params: (p.bind(*args, **params), dims[0])
    return p


def _sum_and_product():
    """(x + y, x * y), with two results and rules of lists."""
    p = Primitive("sum_and_product")
    p.multiple_results = True
    p.def_impl(lambda x, y: (x + y, x * y))
    p.def_abstract_eval(lambda x, y: (x, x))
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y: [x + y, x * y], multiple_results=True))

    def jvp(primals, tangents):
        x, y = primals
        dx, dy = map(ad.instantiate_zeros, tangents)
        return p.bind(x, y), [dx + dy, dx * y + x * dy]

    ad.primitive_jvps[p] = jvp
    batching.primitive_batchers[p] = lambda args, dims: (
        p.bind(*[batching.bdim_at_front(x, d, 3) for x, d in zip(args, dims)]),
        (0, 0),
    )
    return p


SINE = _scaled_sine()
PAIR = _sum_and_product()


def sine(x):
    return SINE.bind(x, scale=2.0)


def of_pair(x):
    total, product = PAIR.bind(x, 3.0 * x)
    return total * product


def sine_of_jax(x):
    return jnp.sin(2.0 * x)


def of_pair_of_jax(x):
    return (x + 3.0 * x) * (x * (3.0 * x))


def _in_scan(f):
    return lambda x: lax.scan(lambda c, v: (c + f(v), f(c)), x, jnp.stack([x, 2 * x]))


TRANSFORMATIONS = {
    "value": lambda f: f,
    "jit": pyjax.jit,
    "grad": lambda f: pyjax.grad(lambda x: jnp.sum(f(x))),
    "jit-grad": lambda f: pyjax.jit(pyjax.grad(lambda x: jnp.sum(f(x)))),
    "grad-jit": lambda f: pyjax.grad(lambda x: jnp.sum(pyjax.jit(f)(x))),
    "hessian": lambda f: pyjax.hessian(lambda x: jnp.sum(f(x))),
    "jvp": lambda f: lambda x: pyjax.jvp(f, (x,), (x,)),
    "vmap": pyjax.vmap,
    "vmap-grad": lambda f: pyjax.vmap(pyjax.grad(f)),
    "checkpoint": lambda f: pyjax.grad(lambda x: jnp.sum(pyjax.checkpoint(f)(x))),
    "cond": lambda f: lambda x: lax.cond(x[0] > 0, f, lambda x: x, x),
    "scan": _in_scan,
    "grad-scan": lambda f: pyjax.grad(lambda x: jnp.sum(_in_scan(f)(x)[0])),
    "vmap-scan": lambda f: pyjax.vmap(_in_scan(f)),
}


@pytest.mark.parametrize("fun, model", [(sine, sine_of_jax), (of_pair, of_pair_of_jax)])
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformed(name, fun, model) -> None:
    transform = TRANSFORMATIONS[name]
    got, expected = transform(fun)(jnp.asarray(X)), transform(model)(jnp.asarray(X))
    pyjax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6), got, expected)


def test_results_are_as_declared() -> None:
    assert isinstance(PAIR.bind(X, X), list)
    assert isinstance(pyjax.make_jaxpr(PAIR.bind)(X, X).out_avals, list)
    assert str(pyjax.make_jaxpr(sine)(X)) == (
        "{ lambda ; a:f32[3]. let b:f32[3] = scaled_sine[scale=2.0] a in (b,) }"
    )
    # So do the primitives of pyjax: an interpreter of jaxprs need not know whose they are.
    assert float(lax.neg_p.bind(2.0)) == -2
    sort = functools.partial(lax.sort_p.bind, dimension=0, is_stable=True, num_keys=1)
    assert isinstance(sort(X), list)


def test_interpreter_of_users() -> None:
    """One that evaluates jaxprs by `bind` and `multiple_results`, as libraries write it."""

    @pyjax.custom_jvp
    def cube(x):
        return x**3

    cube.defjvp(lambda p, t: (cube(*p), 30 * t[0]))

    def f(x):
        top, where = lax.top_k(pyjax.jit(cube)(sine(x)), 2)
        return cube(top) * jnp.sum(of_pair(x)), where

    closed = pyjax.make_jaxpr(f)(X)

    def evaluate(*args):
        env = dict(zip(closed.jaxpr.invars, args)) | dict(
            zip(closed.jaxpr.constvars, closed.consts)
        )
        read = lambda a: a.val if isinstance(a, pyjax.core.Literal) else env[a]
        for eqn in closed.jaxpr.eqns:
            params = eqn.primitive.get_bind_params(eqn.params)
            outs = eqn.primitive.bind(*map(read, eqn.invars), **params)
            env.update(zip(eqn.outvars, outs if eqn.primitive.multiple_results else [outs]))
        return [read(a) for a in closed.jaxpr.outvars]

    for got, expected in zip(evaluate(X), f(X)):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    slope = pyjax.grad(lambda x: jnp.sum(evaluate(x)[0]))(X)
    np.testing.assert_allclose(slope, pyjax.grad(lambda x: jnp.sum(f(x)[0]))(X), rtol=1e-5)


def _bare(name, *declared):
    p = Primitive(name)
    if "abstract_eval" in declared:
        p.def_abstract_eval(lambda x: x)
    if "jvp" in declared:
        ad.defjvp(p, lambda g, x: p.bind(g))
    if "impl" in declared:
        p.def_impl(lambda x: x)
    return p


@pytest.mark.parametrize(
    "declared, use, message",
    [
        ((), lambda p: p.bind(X), "Abstract evaluation for 'bare' not implemented.*def_impl"),
        (("impl",), lambda p: pyjax.jit(p.bind)(X), "Abstract evaluation for 'bare' not impl"),
        (
            ("abstract_eval",),
            lambda p: pyjax.jit(p.bind)(X),
            "translation rule for primitive 'bare' not found.*register_lowering",
        ),
        (
            ("impl",),
            lambda p: pyjax.jvp(p.bind, (X,), (X,)),
            "Differentiation rule for 'bare' not implemented.*ad.defjvp",
        ),
        (
            ("impl", "abstract_eval", "jvp"),
            lambda p: pyjax.grad(lambda x: p.bind(x).sum())(X),
            "Transpose rule .for reverse-mode differentiation. for 'bare' not impl.*deflinear2",
        ),
        (
            ("impl",),
            lambda p: pyjax.vmap(p.bind)(X),
            "Batching rule for 'bare' not implemented.*primitive_batchers",
        ),
    ],
    ids=["eager", "abstract", "lowering", "jvp", "transpose", "batching"],
)
def test_missing_rules(declared, use, message) -> None:
    with pytest.raises(NotImplementedError, match=f"(?s){message}"):
        use(_bare("bare", *declared))


def test_linear_and_bilinear() -> None:
    times = Primitive("times_of_two")
    times.def_abstract_eval(lambda x, y: x)
    times.def_impl(functools.partial(xla.apply_primitive, times))
    mlir.register_lowering(times, mlir.lower_fun(lambda x, y: x * y, multiple_results=False))
    ad.defbilinear(times, lambda ct, x, y: times.bind(ct, y), lambda ct, x, y: times.bind(x, ct))
    dx, dy = pyjax.grad(lambda x, y: times.bind(x, times.bind(x, y)).sum(), (0, 1))(X, 3 * X)
    np.testing.assert_allclose(dx, 6 * X * X, rtol=1e-6)
    np.testing.assert_allclose(dy, X * X, rtol=1e-6)
    # lax.mul broadcasts nothing: both operands of a batch get its axis.
    batching.defvectorized(times)
    got = pyjax.vmap(times.bind, (0, None))(np.stack([X, X]), X)
    np.testing.assert_allclose(got, [X * X, X * X])

    for define, seen in [(ad.deflinear, 1), (ad.deflinear2, 2)]:
        scaled = Primitive("scaled")
        scaled.def_impl(lambda x, *, by: x * by)
        scaled.def_abstract_eval(lambda x, *, by: x)

        def transpose(*args, by, seen=seen):
            assert len(args) == seen
            assert all(map(ad.is_undefined_primal, args[1:]))
            return [args[0] * by]

        define(scaled, transpose)
        f = functools.partial(scaled.bind, by=3.0)
        np.testing.assert_allclose(pyjax.grad(lambda x, f=f: jnp.sum(f(x) * x))(X), 6 * X)
        np.testing.assert_allclose(pyjax.linear_transpose(f, X)(X)[0], 3 * X)


def test_rules_that_return_nonsense() -> None:
    p = _bare("bare", "impl", "abstract_eval", "jvp")
    ad.primitive_transposes[p] = lambda ct, x: ct
    with pytest.raises(ValueError, match=r"(?s)transpose rule of bare returned .* for 1 operands"):
        pyjax.grad(lambda x: p.bind(x).sum())(X)
    p.def_abstract_eval(lambda x: [x])
    with pytest.raises(ValueError, match="should return a tuple or a list iff"):
        pyjax.make_jaxpr(p.bind)(X)
    with pytest.raises(TypeError, match="sum_and_product has several"):
        ad.defjvp(PAIR, None, None)
    with pytest.raises(TypeError, match="problematic value is of type <class 'str'>"):
        p.bind("text")


@pytest.mark.parametrize("ct", [np.ones(2), ad.Zero(pyjax.core.ShapedArray((2,), np.float32))])
@pytest.mark.parametrize("bilinear", [False, True])
def test_cotangents_have_the_shape_of_the_operand(ct, bilinear) -> None:
    p = _bare("bare", "impl")
    p.def_abstract_eval(lambda x, *y: x)
    if bilinear:
        p.def_impl(lambda x, y: x * y)
        ad.defbilinear(p, lambda g, x, y: ct, lambda g, x, y: g)
    else:
        ad.deflinear2(p, lambda g, x: [ct])
    others = (3.0,) * bilinear
    for f in (lambda x: p.bind(x, *others), lambda x: 2 * p.bind(3 * x, *others)):
        with pytest.raises(
            ValueError, match=r"(?s)Expected cotangent type float32\[\] but got float"
        ):
            pyjax.grad(f)(1.0)


@pytest.mark.parametrize(
    "rule, message",
    [
        (lambda x: x, "no pair.*Write return out, 0"),
        (lambda x: None, "returned None, no pair"),
        (lambda x: (x, 0, 0), "no pair"),
        (lambda x: (x, "x"), "batch dim 'x': it should be an int or `None`"),
        (lambda x: (x, x), "it should be an int or `None`"),
        (lambda x: (x, 2), r"the batch dim 2 of float32\[2,3\]"),
        (lambda x: (x, -1), "the batch dim -1 of"),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_batching_rules_that_return_nonsense(rule, message, several) -> None:
    p = _bare("bare", "impl")
    p.multiple_results = several
    batching.primitive_batchers[p] = lambda args, dims: rule(args[0])
    if several:
        message = "(no (pair|list)|[0-9] results and [0-9] batch dims)"
    with pytest.raises(TypeError, match=f"(?s)The batching rule of bare .*{message}"):
        pyjax.vmap(p.bind)(np.ones((2, 3), np.float32))


def test_broadcasting_and_reducers() -> None:
    plus = Primitive("plus")
    plus.def_impl(lambda x, y: jnp.add(x, y))
    batching.defbroadcasting(plus)
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = pyjax.vmap(plus.bind, (0, 1))(rows, np.ones((3, 2), np.float32))
    np.testing.assert_allclose(got, rows + 1)
    np.testing.assert_allclose(
        pyjax.vmap(plus.bind)(rows, np.float32([10, 20])), rows + [[10], [20]]
    )
    total = Primitive("total")
    total.def_impl(lambda x, *, axes: jnp.sum(x, axes))
    batching.defreducer(total)
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in range(3):
        got = pyjax.vmap(functools.partial(total.bind, axes=(1,)), axis)(cube)
        np.testing.assert_allclose(got, np.moveaxis(cube, axis, 0).sum(2))


@pytest.mark.parametrize("fancy", [False, True])
def test_rules_of_the_axis(fancy) -> None:
    p = Primitive("position")
    p.def_impl(lambda x: x)
    seen = []

    def rule(size, name, main, args, dims):
        seen.append((size, name, main, dims))
        return jnp.arange(size), 0

    if fancy:
        batching.fancy_primitive_batchers[p] = lambda axis, args, dims: rule(
            axis.size, axis.name, None, args, dims
        )
    else:
        batching.axis_primitive_batchers[p] = rule
    assert pyjax.vmap(p.bind, axis_name="i")(X).tolist() == [0, 1, 2]
    # Operands that are not mapped are no reason not to ask.
    assert pyjax.vmap(lambda x: p.bind(7), axis_name="i")(X).tolist() == [0, 1, 2]
    assert seen == [(3, "i", None, (0,)), (3, "i", None, (None,))]


def test_platforms() -> None:
    p = Primitive("by_platform")
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="unknown platform nowhere"):
        mlir.register_lowering(p, mlir.lower_fun(lambda x: x), platform="nowhere")
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 1), platform="cuda")
    with pytest.raises(NotImplementedError, match="'by_platform' not found for platform cpu"):
        pyjax.jit(p.bind)(X)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 2), platform="cpu")
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 3))
    np.testing.assert_allclose(pyjax.jit(p.bind)(X), X + 2)


def test_effects() -> None:
    class Told(Effect):
        pass

    told = Told()
    p = Primitive("tell")
    p.def_effectful_abstract_eval(lambda x: (x, {told}))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x))
    assert pyjax.make_jaxpr(p.bind)(X).effects == {told}
    with pytest.raises(ValueError, match="Cannot lower jaxpr with effects"):
        pyjax.jit(p.bind)(X)
    mlir.lowerable_effects.add_type(Told)
    np.testing.assert_allclose(pyjax.jit(p.bind)(X), X)


def test_tables_are_views_of_the_rules() -> None:
    """Rules of pyjax's own read as users write them; those that users set are used."""
    out, tangent = ad.primitive_jvps[lax.sin_p]((X,), (X,), accuracy=None)
    np.testing.assert_allclose(tangent, X * np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(out, np.sin(X), rtol=1e-6)
    (ct,) = ad.primitive_transposes[lax.neg_p](X, ad.UndefinedPrimal(ShapedArray((3,), X.dtype)))
    np.testing.assert_allclose(ct, -X)
    out, dim = batching.primitive_batchers[lax.sin_p]((X,), (0,), accuracy=None)
    assert (out.shape, dim) == ((3,), 0)
    outs, dims = batching.primitive_batchers[lax.top_k_p]((X[None],), (0,), k=1, axis=0)
    assert (len(outs), list(dims)) == (2, [0, 0])
    assert lax.scan_p in ad.primitive_jvps
    assert lax.floor_p not in ad.primitive_transposes
    assert len(ad.primitive_jvps) > 100
    assert ad.get_primitive_transpose(lax.neg_p) is not None
    with pytest.raises(NotImplementedError, match="floor"):
        ad.get_primitive_transpose(lax.floor_p)
    with pytest.raises(KeyError):
        ad.primitive_jvps[Primitive("nobody")]

    p = _bare("bare", "impl", "abstract_eval", "jvp")
    rule = lambda primals, tangents: (primals[0], 5 * tangents[0])
    ad.primitive_jvps[p] = rule
    assert ad.primitive_jvps[p] is rule
    # It takes the place of what `defjvp` said, also where that was linearized by itself.
    np.testing.assert_allclose(pyjax.grad(lambda x: p.bind(x).sum())(X), [5, 5, 5])
    del ad.primitive_jvps[p]
    with pytest.raises(NotImplementedError, match="Differentiation rule"):
        pyjax.jvp(p.bind, (X,), (X,))


def test_equal_names() -> None:
    """Two primitives of one name are two, also for what is kept of compiled programs."""
    made = []
    for by in (2.0, 3.0):
        p = Primitive("same_name")
        p.def_abstract_eval(lambda x: x)
        mlir.register_lowering(p, mlir.lower_fun(lambda x, by=by: x * by))
        made.append(p)
    assert [p.bind(2.0).tolist() for p in made] == [4, 6]
    assert [pyjax.jit(p.bind)(2.0).tolist() for p in made] == [4, 6]


def test_impl_gets_canonical_values() -> None:
    p = Primitive("kinds")
    p.def_impl(lambda *args: [getattr(x, "dtype", type(x)) for x in args])
    p.multiple_results = True
    assert p.bind(np.ones(2), np.int64(2), 1.0) == [np.float32, np.int32, float]
