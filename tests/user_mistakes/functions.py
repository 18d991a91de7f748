"""Functions given to transformations and to control flow."""

from __future__ import annotations

from tests.user_mistakes.mistake import Mistake

FUNCTIONS = (
    Mistake(
        "scan_carry_dtype",
        "TypeError",
        "def body(c, x):\n    return c + x, x\nlax.scan(body, jnp.int32(0), jnp.ones(3))",
        ("int32[]", "float32[]", "carry"),
        "def body(c, x):\n    return c + x, x\nlax.scan(body, 0.0, jnp.ones(3))",
    ),
    Mistake(
        "scan_carry_shape",
        "TypeError",
        "def body(c, x):\n    return jnp.append(c, x), None\n"
        "lax.scan(body, jnp.zeros(1), jnp.ones(3))",
        ("float32[1]", "float32[2]", "carry"),
        "def body(c, x):\n    return c, x\nlax.scan(body, jnp.zeros(1), jnp.ones(3))",
    ),
    Mistake(
        "scan_carry_structure",
        "TypeError",
        "def body(c, x):\n    a, b = c\n    return [a + x, b], None\n"
        "lax.scan(body, (0.0, 1.0), jnp.ones(3))",
        ("tuple", "list", "carry"),
        "def body(c, x):\n    a, b = c\n    return (a + x, b), None\n"
        "lax.scan(body, (0.0, 1.0), jnp.ones(3))",
    ),
    Mistake(
        "scan_without_outputs",
        "TypeError",
        "def body(c, x):\n    return c + x\nlax.scan(body, 0.0, jnp.ones(3))",
        ("body", "pair"),
        "def body(c, x):\n    return c + x, None\nlax.scan(body, 0.0, jnp.ones(3))",
    ),
    Mistake(
        "scan_lengths",
        "ValueError",
        "lax.scan(lambda c, x: (c, x[0]), 0.0, (jnp.ones(3), jnp.ones(4)))",
        ("3", "4", "axis"),
        "lax.scan(lambda c, x: (c, x[0]), 0.0, (jnp.ones(3), jnp.ones(3)))",
    ),
    Mistake(
        "scan_length_unknown",
        "ValueError",
        "lax.scan(lambda c, _: (c + 1, c), 0, None)",
        ("length",),
        "lax.scan(lambda c, _: (c + 1, c), 0, None, length=3)",
    ),
    Mistake(
        "scan_over_a_number",
        "ValueError",
        "lax.scan(lambda c, x: (c + x, x), 0.0, 3.0)",
        ("3.0", "axis"),
        "lax.scan(lambda c, x: (c + x, x), 0.0, jnp.ones(3))",
    ),
    Mistake(
        "while_carry_dtype",
        "TypeError",
        "lax.while_loop(lambda c: c < 3, lambda c: c + 0.5, jnp.int32(0))",
        ("int32[]", "float32[]", "body"),
        "lax.while_loop(lambda c: c < 3, lambda c: c + 0.5, 0.0)",
    ),
    Mistake(
        "while_carry_structure",
        "TypeError",
        "lax.while_loop(lambda c: c[0] < 3, lambda c: c[0] + 1, (0, 1))",
        ("structure", "body"),
        "lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, 1))",
    ),
    Mistake(
        "while_condition_of_a_vector",
        "TypeError",
        "lax.while_loop(lambda c: c < 3, lambda c: c + 1, jnp.zeros(2))",
        ("bool[2]", "scalar"),
        "lax.while_loop(lambda c: (c < 3).all(), lambda c: c + 1, jnp.zeros(2))",
    ),
    Mistake(
        "while_condition_of_an_integer",
        "TypeError",
        "lax.while_loop(lambda n: n, lambda n: n - 1, 3)",
        ("int32[]", "bool"),
        "lax.while_loop(lambda n: n > 0, lambda n: n - 1, 3)",
    ),
    Mistake(
        "fori_carry",
        "TypeError",
        "lax.fori_loop(0, 3, lambda i, x: x / 2, jnp.int32(8))",
        ("int32[]", "float32[]"),
        "lax.fori_loop(0, 3, lambda i, x: x / 2, 8.0)",
    ),
    Mistake(
        "fori_bounds",
        "TypeError",
        "lax.fori_loop(0, 3.5, lambda i, x: x, 1.0)",
        ("integer", "float32"),
        "lax.fori_loop(0, 3, lambda i, x: x, 1.0)",
    ),
    Mistake(
        "cond_branches_of_other_dtypes",
        "TypeError",
        "lax.cond(True, lambda x: x, lambda x: x > 0, 1.0)",
        ("float32[]", "bool[]"),
        "lax.cond(True, lambda x: x > 1, lambda x: x > 0, 1.0)",
    ),
    Mistake(
        "cond_branches_of_other_structures",
        "TypeError",
        "lax.cond(True, lambda x: (x, x), lambda x: x, 1.0)",
        ("structure", "(*, *)"),
        "lax.cond(True, lambda x: (x, x), lambda x: (x, x), 1.0)",
    ),
    Mistake(
        "cond_of_a_vector",
        "TypeError",
        "lax.cond(jnp.array([True, False]), lambda x: x, lambda x: -x, 1.0)",
        ("scalar", "(2,)"),
        "lax.cond(jnp.array([True, False]).all(), lambda x: x, lambda x: -x, 1.0)",
    ),
    Mistake(
        "cond_of_values",
        "TypeError",
        "lax.cond(True, 1.0, 2.0)",
        ("callable",),
        "lax.cond(True, lambda: 1.0, lambda: 2.0)",
    ),
    Mistake(
        "switch_without_branches",
        "ValueError",
        "lax.switch(0, [], 1.0)",
        ("branch",),
        "lax.switch(0, [lambda x: x], 1.0)",
    ),
    Mistake(
        "switch_index_of_floats",
        "TypeError",
        "lax.switch(1.0, [jnp.sin, jnp.cos], 1.0)",
        ("float32", "integer"),
        "lax.switch(1, [jnp.sin, jnp.cos], 1.0)",
    ),
    Mistake(
        "grad_of_a_vector",
        "TypeError",
        "pyjax.grad(lambda x: x * 2)(jnp.ones(3))",
        ("(3,)", "scalar", "jacrev"),
        "pyjax.jacrev(lambda x: x * 2)(jnp.ones(3))",
    ),
    Mistake(
        "grad_of_an_integer",
        "TypeError",
        "pyjax.grad(lambda x: x * 2.0)(3)",
        ("int32", "allow_int"),
        "pyjax.grad(lambda x: x * 2.0)(3.0)",
    ),
    Mistake(
        "grad_of_an_integer_result",
        "TypeError",
        "pyjax.grad(lambda x: jnp.int32(x))(3.0)",
        ("int32",),
        "pyjax.grad(lambda x: x)(3.0)",
    ),
    Mistake(
        "grad_of_complex",
        "TypeError",
        "pyjax.grad(lambda z: z * z)(1.0 + 2.0j)",
        ("complex64", "holomorphic"),
        "pyjax.grad(lambda z: z * z, holomorphic=True)(1.0 + 2.0j)",
    ),
    Mistake(
        "grad_of_a_pair",
        "TypeError",
        "pyjax.grad(lambda x: (x, x))(1.0)",
        ("scalar", "has_aux"),
        "pyjax.grad(lambda x: (x, x), has_aux=True)(1.0)",
    ),
    Mistake(
        "has_aux_without_aux",
        "TypeError",
        "pyjax.grad(lambda x: x * x, has_aux=True)(1.0)",
        ("has_aux", "pair"),
        "pyjax.grad(lambda x: (x * x, x), has_aux=True)(1.0)",
    ),
    Mistake(
        "argnums_too_large",
        "TypeError",
        "pyjax.grad(lambda x: x, argnums=1)(1.0)",
        ("1", "argument"),
        "pyjax.grad(lambda x: x, argnums=0)(1.0)",
    ),
    Mistake(
        "jvp_structures",
        "TypeError",
        "pyjax.jvp(jnp.sin, (1.0,), (1.0, 2.0))",
        ("primal", "tangent", "structure"),
        "pyjax.jvp(jnp.sin, (1.0,), (1.0,))",
    ),
    Mistake(
        "jvp_without_tuples",
        "TypeError",
        "pyjax.jvp(jnp.sin, 1.0, 1.0)",
        ("tuple", "float"),
        "pyjax.jvp(jnp.sin, (1.0,), (1.0,))",
    ),
    Mistake(
        "jvp_shapes",
        "ValueError",
        "pyjax.jvp(jnp.sin, (jnp.ones(3),), (jnp.ones(4),))",
        ("(3,)", "(4,)"),
        "pyjax.jvp(jnp.sin, (jnp.ones(3),), (jnp.ones(3),))",
    ),
    Mistake(
        "vjp_cotangent_shape",
        "ValueError",
        "y, back = pyjax.vjp(jnp.sin, jnp.ones(3))\nback(jnp.ones(4))",
        ("float32[3]", "float32[4]"),
        "y, back = pyjax.vjp(jnp.sin, jnp.ones(3))\nback(jnp.ones(3))",
    ),
    Mistake(
        "vjp_cotangent_structure",
        "ValueError",
        "y, back = pyjax.vjp(lambda x: (x, x), 1.0)\nback(1.0)",
        ("structure", "(*, *)"),
        "y, back = pyjax.vjp(lambda x: (x, x), 1.0)\nback((1.0, 0.0))",
    ),
    Mistake(
        "vmap_sizes",
        "ValueError",
        "pyjax.vmap(lambda x, y: x + y)(jnp.ones((3, 2)), jnp.ones((4, 2)))",
        ("3", "4", "axis"),
        "pyjax.vmap(lambda x, y: x + y)(jnp.ones((3, 2)), jnp.ones((3, 2)))",
    ),
    Mistake(
        "vmap_in_axes_structure",
        "ValueError",
        "pyjax.vmap(lambda x: x, in_axes=(0, 0))(jnp.ones(3))",
        ("in_axes", "1"),
        "pyjax.vmap(lambda x: x, in_axes=(0,))(jnp.ones(3))",
    ),
    Mistake(
        "vmap_axis_beyond_the_rank",
        "ValueError",
        "pyjax.vmap(lambda x: x, in_axes=2)(jnp.ones((3, 4)))",
        ("axis", "2", "float32[3,4]"),
        "pyjax.vmap(lambda x: x, in_axes=1)(jnp.ones((3, 4)))",
    ),
    Mistake(
        "vmap_over_nothing",
        "ValueError",
        "pyjax.vmap(lambda x: x, in_axes=None)(1.0)",
        ("in_axes", "None"),
        "pyjax.vmap(lambda x: x, in_axes=None, axis_size=3)(1.0)",
    ),
    Mistake(
        "vmap_of_a_number",
        "ValueError",
        "pyjax.vmap(lambda x: x)(1.0)",
        ("rank", "float32[]"),
        "pyjax.vmap(lambda x: x)(jnp.ones(1))",
    ),
    Mistake(
        "vmap_out_axes",
        "ValueError",
        "pyjax.vmap(lambda x: x, out_axes=None)(jnp.ones(3))",
        ("out_axes", "None"),
        "pyjax.vmap(lambda x: x, out_axes=0)(jnp.ones(3))",
    ),
    Mistake(
        "axis_name_is_unbound",
        "NameError",
        'pyjax.vmap(lambda x: lax.psum(x, "i"))(jnp.ones(3))',
        ("i", "axis_name"),
        'pyjax.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(jnp.ones(3))',
    ),
    Mistake(
        "static_list",
        "ValueError",
        "f = pyjax.jit(lambda x, sizes: x.reshape(sizes), static_argnums=1)\n"
        "f(jnp.ones(6), [2, 3])",
        ("list", "hash", "sizes"),
        "f = pyjax.jit(lambda x, sizes: x.reshape(sizes), static_argnums=1)\n"
        "f(jnp.ones(6), (2, 3))",
    ),
    Mistake(
        "static_array",
        "ValueError",
        "f = pyjax.jit(lambda x, y: x + y, static_argnums=1)\nf(1.0, np.ones(3))",
        ("numpy.ndarray", "hash"),
        "f = pyjax.jit(lambda x, y: x + y)\nf(1.0, np.ones(3))",
    ),
    Mistake(
        "static_name_that_is_none",
        "ValueError",
        "def f(x, training):\n    return x\n"
        'pyjax.jit(f, static_argnames="train")(1.0, training=True)',
        ("train", "training"),
        "def f(x, training):\n    return x\n"
        'pyjax.jit(f, static_argnames="training")(1.0, training=True)',
    ),
    Mistake(
        "static_position_that_is_none",
        "ValueError",
        "def f(x, training):\n    return x\npyjax.jit(f, static_argnums=2)(1.0, True)",
        ("static_argnums", "2"),
        "def f(x, training):\n    return x\npyjax.jit(f, static_argnums=1)(1.0, True)",
    ),
    Mistake(
        "jit_of_a_string",
        "TypeError",
        'pyjax.jit(lambda x, mode: x)(1.0, "train")',
        ("mode", "str", "static"),
        'pyjax.jit(lambda x, mode: x, static_argnums=1)(1.0, "train")',
    ),
    Mistake(
        "jit_of_an_object",
        "TypeError",
        "class Config:\n    rate = 0.1\npyjax.jit(lambda x, c: x * c.rate)(1.0, Config())",
        ("Config", "argument c"),
        "class Config:\n    rate = 0.1\n"
        "pyjax.jit(lambda x, c: x * c.rate, static_argnums=1)(1.0, Config())",
    ),
    Mistake(
        "jit_gives_a_string",
        "TypeError",
        '@pyjax.jit\ndef f(x):\n    return x, "done"\nf(1.0)',
        ("str", "done"),
        "@pyjax.jit\ndef f(x):\n    return x\nf(1.0)",
    ),
    Mistake(
        "jit_of_a_value",
        "TypeError",
        "f = lambda x: x\npyjax.jit(f(1.0))",
        ("callable", "1.0"),
        "f = lambda x: x\npyjax.jit(f)(1.0)",
    ),
    Mistake(
        "jit_of_a_generator",
        "TypeError",
        "def f(x):\n    yield x\npyjax.jit(f)(1.0)",
        ("generator",),
        "def f(x):\n    return [x]\npyjax.jit(f)(1.0)",
    ),
    Mistake(
        "donated_and_used",
        "RuntimeError",
        "f = pyjax.jit(lambda x: x + 1, donate_argnums=0)\nx = jnp.ones(3)\ny = f(x)\n"
        "np.asarray(x)",
        ("float32[3]", "deleted"),
        "f = pyjax.jit(lambda x: x + 1, donate_argnums=0)\nx = jnp.ones(3)\nx = f(x)\nx + x",
    ),
    Mistake(
        "donated_twice",
        "JaxRuntimeError",
        "f = pyjax.jit(lambda x, y: (x + 1, y + 1), donate_argnums=(0, 1))\n"
        "x = jnp.ones(3)\nf(x, x)",
        ("donated", "f32[3]"),
        "f = pyjax.jit(lambda x, y: (x + 1, y + 1), donate_argnums=(0, 1))\n"
        "x = jnp.ones(3)\nf(x, x.copy())",
    ),
    Mistake(
        "custom_jvp_without_a_rule",
        "AttributeError",
        "@pyjax.custom_jvp\ndef f(x):\n    return x\nf(1.0)",
        ("custom_jvp", "f", "defjvp"),
        "@pyjax.custom_jvp\ndef f(x):\n    return x\nf.defjvp(lambda p, t: (p[0], t[0]))\nf(1.0)",
    ),
    Mistake(
        "custom_jvp_without_a_pair",
        "TypeError",
        "@pyjax.custom_jvp\ndef f(x):\n    return x\nf.defjvp(lambda p, t: t[0])\n"
        "pyjax.grad(f)(1.0)",
        ("f", "pair"),
        "@pyjax.custom_jvp\ndef f(x):\n    return x\nf.defjvp(lambda p, t: (p[0], t[0]))\n"
        "pyjax.grad(f)(1.0)",
    ),
    Mistake(
        "custom_jvp_tangent_shape",
        "TypeError",
        "@pyjax.custom_jvp\ndef f(x):\n    return x\nf.defjvp(lambda p, t: (p[0], t[0].sum()))\n"
        "pyjax.jvp(f, (jnp.ones(3),), (jnp.ones(3),))",
        ("float32[3]", "float32[]", "f"),
        "@pyjax.custom_jvp\ndef f(x):\n    return x\nf.defjvp(lambda p, t: (p[0], t[0]))\n"
        "pyjax.jvp(f, (jnp.ones(3),), (jnp.ones(3),))",
    ),
    Mistake(
        "custom_vjp_without_rules",
        "AttributeError",
        "@pyjax.custom_vjp\ndef f(x):\n    return x\npyjax.grad(f)(1.0)",
        ("custom_vjp", "f", "defvjp"),
        "@pyjax.custom_vjp\ndef f(x):\n    return x\n"
        "f.defvjp(lambda x: (x, None), lambda _, g: (g,))\npyjax.grad(f)(1.0)",
    ),
    Mistake(
        "custom_vjp_forward_without_residuals",
        "TypeError",
        "@pyjax.custom_vjp\ndef f(x):\n    return x\nf.defvjp(lambda x: x, lambda _, g: (g,))\n"
        "pyjax.grad(f)(1.0)",
        ("f", "fwd", "pair"),
        "@pyjax.custom_vjp\ndef f(x):\n    return x\n"
        "f.defvjp(lambda x: (x, None), lambda _, g: (g,))\npyjax.grad(f)(1.0)",
    ),
    Mistake(
        "custom_vjp_number_of_cotangents",
        "TypeError",
        "@pyjax.custom_vjp\ndef f(x, y):\n    return x * y\n"
        "f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (g * r[1],))\n"
        "pyjax.grad(f)(1.0, 2.0)",
        ("f", "bwd", "structure"),
        "@pyjax.custom_vjp\ndef f(x, y):\n    return x * y\n"
        "f.defvjp(lambda x, y: (x * y, (x, y)), lambda r, g: (g * r[1], g * r[0]))\n"
        "pyjax.grad(f)(1.0, 2.0)",
    ),
    Mistake(
        "custom_vjp_cotangent_shape",
        "ValueError",
        "@pyjax.custom_vjp\ndef f(x):\n    return x.sum()\n"
        "f.defvjp(lambda x: (x.sum(), None), lambda _, g: (g,))\npyjax.grad(f)(jnp.ones(3))",
        ("f", "float32[3]", "float32[]"),
        "@pyjax.custom_vjp\ndef f(x):\n    return x.sum()\n"
        "f.defvjp(lambda x: (x.sum(), x), lambda x, g: (jnp.full_like(x, g),))\n"
        "pyjax.grad(f)(jnp.ones(3))",
    ),
    Mistake(
        "forward_mode_of_custom_vjp",
        "TypeError",
        "@pyjax.custom_vjp\ndef f(x):\n    return x\n"
        "f.defvjp(lambda x: (x, None), lambda _, g: (g,))\npyjax.jvp(f, (1.0,), (1.0,))",
        ("forward-mode", "custom_vjp"),
        "@pyjax.custom_jvp\ndef f(x):\n    return x\nf.defjvp(lambda p, t: (p[0], t[0]))\n"
        "pyjax.jvp(f, (1.0,), (1.0,))",
    ),
    Mistake(
        "grad_through_a_callback",
        "ValueError",
        "def f(x):\n    return pyjax.pure_callback(np.sin, jnp.float32(0), x)  # here\n"
        "pyjax.grad(f)(1.0)",
        ("callback", "JVP", "custom_jvp"),
        "@pyjax.custom_jvp\ndef f(x):\n    return pyjax.pure_callback(np.sin, jnp.float32(0), x)\n"
        "f.defjvp(lambda p, t: (f(*p), jnp.cos(p[0]) * t[0]))\npyjax.grad(f)(1.0)",
    ),
    Mistake(
        "vmap_of_a_callback",
        "NotImplementedError",
        "def f(x):\n    return pyjax.pure_callback(np.sin, x, x)  # here\n"
        "pyjax.vmap(f)(jnp.ones(3))",
        ("vmap_method", "sequential"),
        "def f(x):\n    return pyjax.pure_callback(np.sin, x, x, vmap_method='sequential')\n"
        "pyjax.vmap(f)(jnp.ones(3))",
    ),
    Mistake(
        "compiled_for_other_shapes",
        "TypeError",
        "f = pyjax.jit(lambda x: x + 1).lower(jnp.ones(3)).compile()\nf(jnp.ones(4))",
        ("float32[3]", "float32[4]", "compiled"),
        "f = pyjax.jit(lambda x: x + 1).lower(jnp.ones(4)).compile()\nf(jnp.ones(4))",
    ),
)
