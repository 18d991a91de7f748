"""Transformations of functions, and functions with rules of their own: rows of programs.

A call makes a function, transforms it and calls the result. Its gradients are then those of what
was transformed: `f(jnp.sin)(v)` of `grad` has the second derivative of sin, and its own second
derivative is the fourth.
"""

# ruff: noqa: E501 - a call stays in one piece

from __future__ import annotations

from tests.edge_values.rows import GRAD, Row, tabulated

CUBE = "lambda y: jnp.sum(y ** 3 * jnp.sin(y))"
PAIR = "lambda y, d: jnp.sum(y * jnp.exp(d / 4) * y)"
TREE = "lambda p: jnp.sum(p['a'] * jnp.sin(p['b'][0]) * 2)"
SOLVE = "lambda mv, b: jnp.linalg.solve(h, b)"
TANH = "lambda y: jnp.tanh(y) * y"

# `sin` with rules that say something else, so that one sees whether they are asked.
JVP_RULE = "(lambda g: (g.defjvp(lambda p, t: (jnp.sin(p[0]), 3 * jnp.cos(p[0]) * t[0])), {})[1])(f(lambda y: jnp.sin(y)))"
JVP_TWO = "(lambda g: (g.defjvp(lambda p, t: (p[0] * p[1], 2 * p[1] * t[0] + p[0] * t[1])), {})[1])(f(lambda y, d: y * d))"
JVPS = "(lambda g: (g.defjvps(lambda t, ans, y, d: 2 * d * t, {}), {})[1])(f(lambda y, d: y * d))"
VJP_RULE = "(lambda g: (g.defvjp(lambda y: (jnp.sin(y), y), lambda y, t: (3 * jnp.cos(y) * t,)), {})[1])(f(lambda y: jnp.sin(y)))"
VJP_TWO = "(lambda g: (g.defvjp(lambda y, d: (y * d, (y, d)), lambda r, t: (2 * r[1] * t, None)), {})[1])(f(lambda y, d: y * d))"
VJP_STATIC = "(lambda g: (g.defvjp(lambda k, y: (k(y), y), lambda k, y, t: (5 * k(y) * t,)), {})[1])(f(lambda k, y: k(y), nondiff_argnums=(0,)))"

DERIVATIVES = {
    "grad": [
        f"f({CUBE})(v)",
        f"f({CUBE})(m)",
        f"f({CUBE})(w)",
        "f(f(lambda y: y ** 3 * jnp.sin(y)))(s)",
        f"f({PAIR}, argnums=1)(v, x)",
        f"f({PAIR}, argnums=(0, 1))(v, x)",
        f"f({PAIR}, argnums=-1)(v, x)",
        f"f({PAIR}, argnums=2)(v, x)",
        f"f({TREE})({{'a': v, 'b': [x, kv]}})",
        f"f({TREE}, allow_int=True)({{'a': v, 'b': [x, j[0]]}})['a']",
        "f(lambda y: (jnp.sum(y * y), y), has_aux=True)(v)",
        "f(lambda y: (jnp.sum(y * y), y))(v)",
        "f(lambda y: y)(v)",
        "f(lambda y: y * 1j)(s)",
        "f(lambda y: jnp.abs(y * 1j))(s)",
        "f(lambda y: y * y)(2.5)",
        "f(lambda y: y * y)(2)",
        "f(lambda y: y * 2.0)(j[0])",
        "f(lambda y: (y * 2.0).real, holomorphic=True)(s + 1j)",
        "f(lambda y: y ** 3, holomorphic=True)(s + 1j)",
        "f(lambda y: y ** 3, holomorphic=True)(s)",
        "f(lambda y: 3.0)(s)",
        "f(lambda y: lax.stop_gradient(y) * y)(s)",
        "f(jnp.linalg.det)(q)",
        "f(jnp.linalg.norm)(z)",
        "f(lambda y: jnp.sum(jnp.where(y > 0, y, 0) ** 2))(v)",
        "f(lambda y: jnp.max(y))(v)",
        "f(lambda y: jnp.sum(jnp.sort(y) * x))(v)",
        "f(lambda y: jnp.prod(y))(v)",
    ],
    "value_and_grad": [
        f"f({CUBE})(v)",
        f"f({PAIR}, argnums=(0, 1))(v, x)",
        f"f({TREE})({{'a': v, 'b': [x]}})",
        "f(lambda y: (jnp.sum(y * y), y), has_aux=True)(v)",
        "f(lambda y: y)(v)",
        "f(lambda y: y * y)(2.5)",
        "f(lambda y: y ** 3, holomorphic=True)(s + 1j)",
    ],
    "fwd_and_bwd": [
        "(lambda fb: fb[1](fb[0](v)[1], x))(f(jnp.sin, 0))",
        "(lambda fb: fb[0](v)[0])(f(jnp.sin, 0))",
        "(lambda fb: fb[1](fb[0](v, x)[1], x))(f(lambda y, d: y * jnp.sin(d), (0, 1)))",
    ],
    "hessian": [
        f"f({CUBE})(v)",
        f"f({CUBE})(q)",
        f"f({PAIR}, argnums=(0, 1))(v[:2], x[:2])",
        f"f({PAIR}, argnums=1)(v[:2], x[:2])",
        "f(lambda y: jnp.sin(y))(v)",
        "f(lambda y: (jnp.sum(y ** 3), y), has_aux=True)(v)",
        f"f({TREE})({{'a': v[:2], 'b': [x[:2]]}})",
        "f(lambda y: y ** 3)(j[0])",
    ],
    "jacfwd": [
        "f(lambda y: y ** 3)(v)",
        "f(lambda y: jnp.outer(y, jnp.sin(y)))(v[:3])",
        "f(lambda y: (y ** 2, {'a': y.sum()}))(v)",
        "f(lambda y, d: y * jnp.sin(d), argnums=(0, 1))(v, x)",
        "f(lambda y: (y ** 2, 1), has_aux=True)(v)",
        "f(lambda y: y * 2.0)(j)",
        "f(lambda y: y ** 2, holomorphic=True)(v + 1j)",
        "f(lambda y: y ** 2)(v + 1j)",
        "f(lambda y: y)(e)",
        "f(lambda y: jnp.cumsum(y * y))(m[0])",
    ],
    "jacrev": [
        "f(lambda y: y ** 3)(v)",
        "f(lambda y: jnp.outer(y, jnp.sin(y)))(v[:3])",
        "f(lambda y: (y ** 2, {'a': y.sum()}))(v)",
        "f(lambda y, d: y * jnp.sin(d), argnums=(0, 1))(v, x)",
        "f(lambda y: (y ** 2, 1), has_aux=True)(v)",
        "f(lambda y: y * 2.0)(j)",
        "f(lambda y: y * 2.0, allow_int=True)(j).shape",
        "f(lambda y: y ** 2, holomorphic=True)(v + 1j)",
        "f(lambda y: y.real ** 2)(v + 1j)",
        "f(lambda y: y)(e)",
        "f(lambda y: y)(v * 1j)",
    ],
    "jvp": [
        "f(jnp.sin, (v,), (x,))",
        "f(lambda y, d: (y * d, y), (v, x), (x, v))",
        "f(jnp.sin, (v,), (x, x))",
        "f(jnp.sin, v, x)",
        "f(jnp.sin, (v,), (m,))",
        "f(lambda y: (jnp.sin(y), y), (v,), (x,), has_aux=True)",
        "f(lambda y: y['a'] * y['b'], ({'a': v, 'b': x},), ({'a': x, 'b': v},))",
        "f(jnp.sin, (j,), (j,))",
        "f(jnp.sin, (2.0,), (1.0,))",
        "f(jnp.abs, (z[0],), (q[0],))",
        "f(lambda y: f(jnp.sin, (y,), (x,))[1], (v,), (x,))",
        "f(lambda y: y > 0, (v,), (x,))[0]",
        "f(lambda y: jnp.linalg.solve(q, y), (v[:3],), (x[:3],))",
    ],
    "vjp": [
        "f(jnp.sin, v)[0]",
        "f(jnp.sin, v)[1](x)",
        "f(lambda y, d: (y * d, y.sum()), v, x)[1]((x, s))",
        "f(lambda y: (jnp.sin(y), y), v, has_aux=True)[2]",
        "f(jnp.sin, v)[1](m)",
        "f(jnp.sin, v)[1](j)",
        "f(jnp.sin, v)[1]((x,))",
        "f(lambda y: y['a'] * y['b'], {'a': v, 'b': x})[1](x)",
        "f(lambda y: f(jnp.sin, y)[1](x)[0], v)[1](x)",
        "f(lambda y, k: y[k], v, j)[1](x[:5])[0]",
        "f(lambda y: 1.0, v)[1](2.0)",
        "f(jnp.sin, 2.0)[1](1.0)",
        "f(jnp.abs, s + 1j)[1](s)",
    ],
    "linearize": [
        "f(jnp.sin, v)[0]",
        "f(jnp.sin, v)[1](x)",
        "f(lambda y, d: (y * d, y.sum()), v, x)[1](x, v)",
        "f(jnp.sin, v)[1](m)",
        "f(jnp.sin, v)[1](x, x)",
        "f(lambda y: (jnp.sin(y), y), v, has_aux=True)[2]",
        "jax.vmap(f(jnp.sin, v)[1])(jnp.eye(7))",
        "f(lambda y: lax.cond(y[0] > 0, jnp.sin, jnp.cos, y), v)[1](x)",
    ],
    "linear_transpose": [
        "f(lambda y: q @ y, v[:3])(x[:3])",
        "f(lambda y, d: 2 * y - jnp.cumsum(d), v, v)(x)",
        "f(lambda y: jnp.sin(y), v)(x)",
        "f(lambda y: y, v)(m)",
        "f(lambda y: {'a': y, 'b': 3 * y}, v)({'a': x, 'b': v})",
        "f(lambda y: y[::-1].reshape(7, 1), v)(x.reshape(7, 1))",
        "f(lambda y: lax.scan(lambda c, d: (c + d, 2 * c), jnp.zeros_like(y[0]), y)[1], v)(x)",
        "f(lambda y: y * s, v)(x)",
    ],
    "vmap": [
        "f(jnp.sum)(m)",
        "f(jnp.sin)(m)",
        "f(jnp.dot)(m, m)",
        "f(jnp.dot, in_axes=(0, None))(c, v[:3])",
        "f(jnp.dot, in_axes=(0, 1))(m, c)",
        "f(lambda y: y * 2, in_axes=1, out_axes=1)(m)",
        "f(lambda y: y * 2, in_axes=-1, out_axes=-1)(t)",
        "f(lambda y: (y, s), out_axes=(0, None))(m)",
        "f(lambda y: y, out_axes=None)(m)",
        "f(f(jnp.multiply, (0, None)), (None, 0))(v, x)",
        "f(jnp.multiply)(m, c)",
        "f(jnp.sin, in_axes=2)(m)",
        "f(jnp.sin, in_axes=None)(m)",
        "f(jnp.sin)(s)",
        "f(lambda: v, axis_size=3)()",
        "f(lambda y: lax.psum(y, 'n') - y, axis_name='n')(m)",
        "f(lambda p: p['a'] * p['b'], in_axes=({'a': 0, 'b': None},))({'a': m, 'b': s})",
        "f(lambda y: lax.cond(y.sum() > 2, jnp.sin, jnp.cos, y))(m)",
        "f(lambda y: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, y))(m)",
        "f(lambda y: lax.fori_loop(0, 3, lambda i, c: c * y + i, y))(m)",
        "f(lambda y: lax.scan(lambda c, d: (c * d, c + d), s, y))(m)",
        "f(jax.grad(lambda y: jnp.sum(jnp.sin(y) * y)))(m)",
        "f(jnp.linalg.solve)(qq, qq * qq)",
        "f(lambda y, k: y[k], in_axes=(0, None))(m, j)",
        "f(lambda y, k: y[k])(m, j[:3])",
        "f(lambda y, k: y.at[k].set(s))(m, j[:3])",
        "f(jnp.sort)(m)",
        "f(jnp.sin)(e2)",
        "f(lambda y: y, spmd_axis_name='n')(m)",
    ],
    "jit": [
        f"f({CUBE})(v)",
        "f(lambda y, n: y * n, static_argnums=1)(v, 2)",
        "f(lambda y, n: y * n, static_argnames='n')(v, n=2)",
        "f(lambda y: {'a': y, 'b': (y, 1)})(v)['b'][1]",
        "f(lambda y: y if y.sum() > 0 else -y)(v)",
        "f(lambda y: y + 1)(2)",
        "f(lambda y: y + 1)(2.5)",
        "f(lambda y: (y, y), donate_argnums=0)(v + 0)",
        "f(lambda y: None)(v)",
        "f(lambda y, k: y[k], inline=True)(v, j)",
        "f(3)(v)",
        "f(lambda y: 'no')(v)",
        "f(jax.grad(lambda y: jnp.sum(jnp.sin(y) ** 2)))(v)",
    ],
    "checkpoint": [
        f"f({TANH})(v)",
        f"jax.grad(lambda y: jnp.sum(f({TANH})(y)))(v)",
        f"f({TANH}, policy=jax.checkpoint_policies.everything_saveable)(v)",
        f"f({TANH}, policy=jax.checkpoint_policies.dots_saveable, prevent_cse=False)(v)",
        "f(lambda y, n: jnp.sin(y) ** n, static_argnums=(1,))(v, 3)",
        "lax.scan(f(lambda c, d: (jnp.sin(c * d), c)), s, v)",
        "f(lambda y: {'a': y * y, 'b': y.sum()})(v)",
        f"f(f({TANH}))(v)",
        "f(lambda y: y if y.sum() > 0 else -y)(v)",
    ],
    "ad_checkpoint.checkpoint_name": [
        "f(v, 'a')",
        "f({'a': v, 'b': 2}, 'a')['a']",
        "jax.checkpoint(lambda y: jnp.sin(f(jnp.sin(y), 'a')), policy=jax.checkpoint_policies.save_only_these_names('a'))(v)",
    ],
    "named_call": ["f(jnp.sin, name='a')(v)", "f(lambda y, d: y * d)(v, x)"],
    "eval_shape": [
        "[str(r) for r in f(lambda y: (y + 1, y.sum()), v)]",
        "f(lambda y: y @ y, m)",
        "f(jnp.sin, jax.ShapeDtypeStruct((2,), 'int8')).dtype",
    ],
    "make_jaxpr": [
        "str(f(lambda y: jnp.sin(y) * 2)(v).in_avals[0])",
        "f(lambda y: (y, y > 0))(v).out_avals[1].dtype",
        "f(lambda y: y if y > 0 else y)(s)",
    ],
}

RULES = {
    "custom_jvp": [
        JVP_RULE.format("g(v)"),
        JVP_RULE.format("jax.grad(lambda y: g(y).sum())(v)"),
        JVP_RULE.format("jax.vmap(g)(m)"),
        JVP_RULE.format("jax.jit(g)(v)"),
        JVP_RULE.format("lax.scan(lambda c, d: (g(c * d), d), s, v)"),
        JVP_RULE.format("jax.checkpoint(g)(v)"),
        JVP_TWO.format("g(v, x)"),
        JVP_TWO.format("g(v, 2.0)"),
        JVP_TWO.format("jax.jvp(g, (v, x), (x, v))"),
        JVPS.format("lambda t, ans, y, d: ans * t", "g(v, x)"),
        JVPS.format("None", "g(v, x)"),
        "f(lambda y: y)(v)",
        "f(jnp.sin, nondiff_argnums=(1,))(v)",
        "(lambda g: (g.defjvp(lambda k, p, t: (k(p[0]), 7 * k(t[0]))), g(jnp.sin, v))[1])(f(lambda k, y: k(y), nondiff_argnums=(0,)))",
        "(lambda g: (g.defjvp(lambda p, t: (p[0], t[0][:2])), jax.jvp(g, (v,), (x,)))[1])(f(lambda y: y))",
        "(lambda g: (g.defjvp(lambda p, t: (p[0] * 2, t[0])), jax.jvp(g, (v,), (x,)))[1])(f(lambda y: y))",
        "(lambda g: (g.defjvp(lambda p, t: p[0]), jax.jvp(g, (v,), (x,)))[1])(f(lambda y: y))",
    ],
    "custom_vjp": [
        VJP_RULE.format("g(v)"),
        VJP_RULE.format("jax.grad(lambda y: g(y).sum())(v)"),
        VJP_RULE.format("jax.vmap(g)(m)"),
        VJP_RULE.format("jax.jit(g)(v)"),
        VJP_RULE.format("jax.jvp(g, (v,), (x,))"),
        VJP_RULE.format("lax.scan(lambda c, d: (g(c * d), d), s, v)"),
        VJP_RULE.format("jax.checkpoint(g)(v)"),
        VJP_TWO.format("g(v, x)"),
        VJP_TWO.format("jax.grad(lambda y, d: g(y, d).sum(), (0, 1))(v, x)"),
        VJP_STATIC.format("g(jnp.sin, v)"),
        "f(lambda y: y)(v)",
        "(lambda g: (g.defvjp(lambda y: (y, None), lambda r, t: (t[:2],)), jax.grad(lambda y: g(y).sum())(v))[1])(f(lambda y: y))",
        "(lambda g: (g.defvjp(lambda y: (y, None), lambda r, t: t), jax.grad(lambda y: g(y).sum())(v))[1])(f(lambda y: y))",
        "(lambda g: (g.defvjp(lambda y: y, lambda r, t: (t,)), jax.grad(lambda y: g(y).sum())(v))[1])(f(lambda y: y))",
        "(lambda g: (g.defvjp(lambda y, d: (y * d, (y, d)), lambda r, t: (t * r[1], t * r[0])), g(v, d=x))[1])(f(lambda y, d: y * d))",
    ],
    "custom_gradient": [
        "f(lambda y: (jnp.sin(y), lambda t: 3 * jnp.cos(y) * t))(v)",
        "f(lambda y, d: (y * d, lambda t: (2 * t * d, t * y)))(v, x)",
        "jax.grad(lambda y: f(lambda d: (d * d, lambda t: (5 * t * d,)))(y).sum())(v)",
    ],
    "closure_convert": [
        "(lambda c: c[0](x, *c[1]))(f(lambda y: y * v, x))",
        "len(f(lambda y: y * v, x)[1])",
        "jax.grad(lambda d: (lambda c: c[0](x, *c[1]).sum())(f(lambda y: y * jnp.sin(d), x)))(v)",
    ],
    "custom_derivatives.linear_call": [
        "f(lambda r, y: r * y, lambda r, t: 2 * r * t, v, x)",
        "jax.grad(lambda y: f(lambda r, d: r * d, lambda r, t: 2 * r * t, v, y).sum())(x)",
        "jax.vmap(lambda y: f(lambda r, d: r * d, lambda r, t: 2 * r * t, s, y))(m)",
    ],
    "custom_derivatives.zero_from_primal": ["f(v).aval.shape", "f(1.5, True).aval.dtype"],
    "custom_batching.sequential_vmap": [
        "f(lambda y: jnp.sin(y) * y)(v)",
        "jax.vmap(f(lambda y: jnp.sin(y) * y.sum()))(m)",
        "jax.vmap(f(lambda y, d: y * d), (0, None))(m, s)",
    ],
    "custom_batching.custom_vmap": [
        "(lambda g: (g.def_vmap(lambda n, b, y: (3 * y, b[0])), jax.vmap(g)(m))[1])(f(lambda y: y))",
        "(lambda g: (g.def_vmap(lambda n, b, y: (3 * y, b[0])), g(m))[1])(f(lambda y: 3 * y))",
        "(lambda g: (g.def_vmap(lambda n, b, y, d: (y * d, True)), jax.vmap(g, (0, None))(m, s))[1])(f(lambda y, d: y))",
        "jax.vmap(f(lambda y: y))(m)",
    ],
}

HOST = {
    "pure_callback": [
        "f(lambda y: np.sin(y), jax.ShapeDtypeStruct(v.shape, v.dtype), v, vmap_method='sequential')",
        "f(lambda y: (np.sin(y), y.sum()), (jax.ShapeDtypeStruct(v.shape, v.dtype), jax.ShapeDtypeStruct((), v.dtype)), v, vmap_method='sequential')",
        *(
            "jax.vmap(lambda y: f(lambda d: np.sin(d), jax.ShapeDtypeStruct(y.shape, y.dtype), y, "
            f"vmap_method={method!r}))(m)"
            for method in (
                None,
                "sequential",
                "sequential_unrolled",
                "expand_dims",
                "broadcast_all",
            )
        ),
        "f(lambda y: y[:2], jax.ShapeDtypeStruct(v.shape, v.dtype), v)",
        "f(lambda y: y.astype('int8'), jax.ShapeDtypeStruct(v.shape, v.dtype), v)",
        "f(lambda: np.float64(1.5), jax.ShapeDtypeStruct((), 'float32'))",
        "f(lambda y: [y], jax.ShapeDtypeStruct(v.shape, v.dtype), v, vmap_method='sequential')",
        "f(lambda: 1.5, jax.ShapeDtypeStruct((), 'float32'))",
        "f(lambda: 1.5, jax.ShapeDtypeStruct((), 'float64')).dtype",
        "jax.grad(lambda y: f(lambda d: d.sum(), jax.ShapeDtypeStruct((), y.dtype), y))(v)",
    ],
    "experimental.io_callback": [
        "f(lambda y: np.sin(y), jax.ShapeDtypeStruct(v.shape, v.dtype), v)",
        "f(lambda: np.float32(1.5), jax.ShapeDtypeStruct((), 'float32'), ordered=True)",
        "jax.vmap(lambda y: f(lambda d: np.sin(d), jax.ShapeDtypeStruct(y.shape, y.dtype), y))(m)",
        "jax.vmap(lambda y: f(lambda d: np.sin(d), jax.ShapeDtypeStruct(y.shape, y.dtype), y, ordered=True))(m)",
        "f(lambda y: y[:2], jax.ShapeDtypeStruct(v.shape, v.dtype), v)",
    ],
    "debug.callback": [
        "f(lambda y: None, v)",
        "jax.vmap(lambda y: (f(lambda d: None, y), y * y)[1])(m)",
    ],
    "debug.print": ["f('')", "jax.grad(lambda y: (f(''), jnp.sum(y * y))[1])(v)"],
}

REFS = {
    "new_ref": [
        "jax.freeze(f(v))",
        "(lambda r: (jax.ref.set(r, 0, s), jax.freeze(r))[1])(f(v))",
        "f(v)[...]",
        "f(2.5)[...]",
    ],
    "ref.get": [
        "f(jax.new_ref(v))",
        "f(jax.new_ref(m), (1, slice(None)))",
        "f(jax.new_ref(v), 9)",
        "f(v, 0)",
    ],
    "ref.set": [
        "(lambda r: (f(r, 1, s), r[...])[1])(jax.new_ref(v))",
        "(lambda r: (f(r, ..., x), r[...])[1])(jax.new_ref(v))",
        "f(jax.new_ref(v), 0, v)",
    ],
    "ref.swap": [
        "(lambda r: (f(r, 1, s), r[...]))(jax.new_ref(v))",
        "(lambda r: (f(r, j, x[:5]), r[...]))(jax.new_ref(v))",
        "f(jax.new_ref(v), 0, v)",
    ],
    "ref.addupdate": [
        "(lambda r: (f(r, 1, s), r[...])[1])(jax.new_ref(v))",
        "(lambda r: (f(r, j, x[:5]), r[...])[1])(jax.new_ref(v))",
    ],
    "freeze": [
        "f(jax.new_ref(v))",
        "(lambda r: (jax.ref.addupdate(r, ..., x * x), f(r))[1])(jax.new_ref(v))",
    ],
}

FEW = ("float32",)
ROWS: tuple[Row, ...] = tuple(
    row
    for calls in (DERIVATIVES, RULES, HOST, REFS)
    for row in tabulated("", calls, FEW, norm=32, grad=GRAD, grad_norm=256)
)
