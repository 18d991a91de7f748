"""Values that are not known while a function is traced, and tracers that outlive their trace."""

from __future__ import annotations

from tests.user_mistakes.mistake import Mistake

TRACERS = (
    Mistake(
        "if_of_a_tracer",
        "TracerBoolConversionError",
        "@pyjax.jit\ndef f(x):\n    if x > 0:  # here\n        return x\n    return -x\nf(1.0)",
        ("bool[]", "argument x", "lax.cond", "traced by jit"),
        "@pyjax.jit\ndef f(x):\n    return jnp.where(x > 0, x, -x)\nf(1.0)",
    ),
    Mistake(
        "while_of_a_tracer",
        "TracerBoolConversionError",
        "@pyjax.jit\ndef f(n):\n    while n > 1:  # here\n        n = n // 2\n    return n\nf(8)",
        ("bool[]", "argument n", "while_loop"),
        "@pyjax.jit\ndef f(n):\n"
        "    return lax.while_loop(lambda n: n > 1, lambda n: n // 2, n)\nf(8)",
    ),
    Mistake(
        "assert_of_a_tracer",
        "TracerBoolConversionError",
        "@pyjax.jit\ndef f(x):\n    assert jnp.all(x > 0)  # here\n    return x\nf(jnp.ones(3))",
        ("bool[]", "argument x"),
        "from pyjax.experimental import checkify\ndef f(x):\n"
        '    checkify.check(jnp.all(x > 0), "not positive")\n    return x\n'
        "checkify.checkify(pyjax.jit(f))(jnp.ones(3))",
    ),
    Mistake(
        "and_of_tracers",
        "TracerBoolConversionError",
        "@pyjax.jit\ndef f(x):\n    return (x > 0) and (x < 1)  # here\nf(0.5)",
        ("bool[]", "argument x"),
        "@pyjax.jit\ndef f(x):\n    return (x > 0) & (x < 1)\nf(0.5)",
    ),
    Mistake(
        "if_under_vmap",
        "TracerBoolConversionError",
        "def f(x):\n    return x if x > 0 else -x  # here\npyjax.vmap(f)(jnp.ones(3))",
        ("bool[]", "vmap"),
        "def f(x):\n    return jnp.where(x > 0, x, -x)\npyjax.vmap(f)(jnp.ones(3))",
    ),
    Mistake(
        "max_of_tracers",
        "TracerBoolConversionError",
        "@pyjax.jit\ndef relu(x):\n    return max(x, 0.0)  # here\nrelu(1.0)",
        ("bool[]", "argument x"),
        "@pyjax.jit\ndef relu(x):\n    return jnp.maximum(x, 0.0)\nrelu(1.0)",
    ),
    Mistake(
        "range_of_a_tracer",
        "TracerIntegerConversionError",
        "@pyjax.jit\ndef f(n):\n    return [i for i in range(n)]  # here\nf(3)",
        ("int32[]", "argument n", "static"),
        "from functools import partial\n@partial(pyjax.jit, static_argnums=0)\ndef f(n):\n"
        "    return [i for i in range(n)]\nf(3)",
    ),
    Mistake(
        "list_indexed_by_a_tracer",
        "TracerIntegerConversionError",
        "@pyjax.jit\ndef f(i):\n    return [1.0, 2.0, 3.0][i]  # here\nf(1)",
        ("int32[]", "argument i"),
        "@pyjax.jit\ndef f(i):\n    return jnp.array([1.0, 2.0, 3.0])[i]\nf(1)",
    ),
    Mistake(
        "float_of_a_tracer",
        "ConcretizationTypeError",
        "@pyjax.jit\ndef f(x):\n    return float(x) * 2  # here\nf(1.0)",
        ("float32[]", "argument x", "float"),
        "@pyjax.jit\ndef f(x):\n    return x * 2\nf(1.0)",
    ),
    Mistake(
        "item_of_a_tracer",
        "ConcretizationTypeError",
        "@pyjax.jit\ndef f(x):\n    return x.item()  # here\nf(1.0)",
        ("float32[]", "argument x"),
        "@pyjax.jit\ndef f(x):\n    return x\nf(1.0).item()",
    ),
    Mistake(
        "numpy_of_a_tracer",
        "TracerArrayConversionError",
        "@pyjax.jit\ndef f(x):\n    return np.sin(x)  # here\nf(jnp.ones(3))",
        ("float32[3]", "argument x", "pyjax.numpy"),
        "@pyjax.jit\ndef f(x):\n    return jnp.sin(x)\nf(jnp.ones(3))",
    ),
    Mistake(
        "asarray_under_grad",
        "TracerArrayConversionError",
        "def loss(x):\n    return np.asarray(x).sum()  # here\npyjax.grad(loss)(jnp.ones(3))",
        ("float32[3]", "numpy"),
        "def loss(x):\n    return jnp.asarray(x).sum()\npyjax.grad(loss)(jnp.ones(3))",
    ),
    Mistake(
        "mask_of_a_tracer",
        "NonConcreteBooleanIndexError",
        "@pyjax.jit\ndef f(x):\n    return x[x > 0]  # here\nf(jnp.arange(4.0))",
        ("bool[4]", "jnp.where"),
        "@pyjax.jit\ndef f(x):\n    return jnp.where(x > 0, x, 0)\nf(jnp.arange(4.0))",
    ),
    Mistake(
        "slice_by_tracers",
        "IndexError",
        "@pyjax.jit\ndef f(x, i):\n    return x[i : i + 2]  # here\nf(jnp.arange(4.0), 1)",
        ("slice", "dynamic_slice"),
        "@pyjax.jit\ndef f(x, i):\n    return lax.dynamic_slice(x, (i,), (2,))\n"
        "f(jnp.arange(4.0), 1)",
    ),
    Mistake(
        "shape_of_a_tracer",
        "TypeError",
        "@pyjax.jit\ndef f(n):\n    return jnp.zeros(n)  # here\nf(3)",
        ("int32[]", "argument n", "concrete"),
        "from functools import partial\n@partial(pyjax.jit, static_argnums=0)\ndef f(n):\n"
        "    return jnp.zeros(n)\nf(3)",
    ),
    Mistake(
        "arange_of_a_tracer",
        "ConcretizationTypeError",
        "@pyjax.jit\ndef f(n):\n    return jnp.arange(n)  # here\nf(3)",
        ("int32[]", "argument n", "arange"),
        "from functools import partial\n@partial(pyjax.jit, static_argnames='n')\ndef f(n):\n"
        "    return jnp.arange(n)\nf(n=3)",
    ),
    Mistake(
        "nonzero_under_jit",
        "ConcretizationTypeError",
        "@pyjax.jit\ndef f(x):\n    return jnp.nonzero(x)  # here\nf(jnp.arange(4))",
        ("nonzero", "size"),
        "@pyjax.jit\ndef f(x):\n    return jnp.nonzero(x, size=4)\nf(jnp.arange(4))",
    ),
    Mistake(
        "unique_under_jit",
        "ConcretizationTypeError",
        "@pyjax.jit\ndef f(x):\n    return jnp.unique(x)  # here\nf(jnp.arange(4))",
        ("unique", "size"),
        "@pyjax.jit\ndef f(x):\n    return jnp.unique(x, size=4)\nf(jnp.arange(4))",
    ),
    Mistake(
        "repeat_under_jit",
        "ConcretizationTypeError",
        "@pyjax.jit\ndef f(x, n):\n    return jnp.repeat(x, n)  # here\n"
        "f(jnp.arange(2), jnp.array([1, 2]))",
        ("repeat", "total_repeat_length"),
        "@pyjax.jit\ndef f(x, n):\n    return jnp.repeat(x, n, total_repeat_length=3)\n"
        "f(jnp.arange(2), jnp.array([1, 2]))",
    ),
    Mistake(
        "axis_is_a_tracer",
        "ConcretizationTypeError",
        "@pyjax.jit\ndef f(x, axis):\n    return jnp.sum(x, axis=axis)  # here\n"
        "f(jnp.ones((2, 3)), 1)",
        ("int32[]", "argument axis"),
        "from functools import partial\n@partial(pyjax.jit, static_argnames='axis')\n"
        "def f(x, axis):\n    return jnp.sum(x, axis=axis)\nf(jnp.ones((2, 3)), axis=1)",
    ),
    Mistake(
        "key_of_a_dictionary",
        "TypeError",
        "@pyjax.jit\ndef f(i):\n    return {0: 1.0, 1: 2.0}[i]  # here\nf(1)",
        ("hash", "int32[]"),
        "@pyjax.jit\ndef f(i):\n    return jnp.array([1.0, 2.0])[i]\nf(1)",
    ),
    Mistake(
        "leak_through_a_global",
        "UnexpectedTracerError",
        "kept = []\n@pyjax.jit\ndef f(x):\n    kept.append(x * 2)\n    return x\nf(1.0)\n"
        "kept[0] + 1",
        ("float32[]", "mistake_leak_through_a_global.py:4"),
        "@pyjax.jit\ndef f(x):\n    return x, x * 2\nx, kept = f(1.0)\nkept + 1",
    ),
    Mistake(
        "leak_through_an_attribute",
        "UnexpectedTracerError",
        "class Model:\n    def step(self, x):\n        self.state = x + 1\n        return x\n"
        "model = Model()\npyjax.jit(model.step)(1.0)\njnp.sin(model.state)",
        ("float32[]", "mistake_leak_through_an_attribute.py:3"),
        "class Model:\n    def step(self, x):\n        return x, x + 1\n"
        "model = Model()\nx, model.state = pyjax.jit(model.step)(1.0)\njnp.sin(model.state)",
    ),
    Mistake(
        "leak_of_grad",
        "UnexpectedTracerError",
        "seen = []\ndef loss(x):\n    seen.append(jnp.sin(x))\n    return x * x\n"
        "pyjax.jit(pyjax.grad(loss))(1.0)\nseen[0] * 2",
        ("float32[]", "leaked"),
        "def loss(x):\n    return x * x, jnp.sin(x)\n"
        "g, seen = pyjax.jit(pyjax.grad(loss, has_aux=True))(1.0)\nseen * 2",
    ),
    Mistake(
        "leak_out_of_scan",
        "UnexpectedTracerError",
        "seen = []\ndef body(c, x):\n    seen.append(c)\n    return c + x, x\n"
        "lax.scan(body, 0.0, jnp.ones(3))\nseen[0] + 1",
        ("float32[]", "scan"),
        "def body(c, x):\n    return c + x, c\n_, seen = lax.scan(body, 0.0, jnp.ones(3))\n"
        "seen[0] + 1",
    ),
    Mistake(
        "leak_of_vmap",
        "UnexpectedTracerError",
        "seen = []\ndef f(x):\n    seen.append(x * 2)\n    return x\n"
        "pyjax.vmap(f)(jnp.ones(3))\nseen[0] + 1",
        ("float32[]", "vmap"),
        "def f(x):\n    return x, x * 2\nx, seen = pyjax.vmap(f)(jnp.ones(3))\nseen[0] + 1",
    ),
    Mistake(
        "leak_that_is_looked_for",
        "Exception",
        "kept = []\ndef f(x):\n    kept.append(x)\n    return x\n"
        "with pyjax.checking_leaks():\n    pyjax.jit(f)(1.0)",
        ("float32[]", "kept"),
        "def f(x):\n    return x\nwith pyjax.checking_leaks():\n    pyjax.jit(f)(1.0)",
    ),
    Mistake(
        "format_of_a_tracer_as_number",
        "TypeError",
        '@pyjax.jit\ndef f(x):\n    print(f"{x:.3f}")  # here\n    return x\nf(1.0)',
        ("format", "float32[]"),
        '@pyjax.jit\ndef f(x):\n    pyjax.debug.print("{x:.3f}", x=x)\n    return x\nf(1.0)',
    ),
    Mistake(
        "assignment_to_a_tracer",
        "TypeError",
        "@pyjax.jit\ndef f(x):\n    x[0] = 1.0  # here\n    return x\nf(jnp.zeros(3))",
        ("float32[3]", ".at["),
        "@pyjax.jit\ndef f(x):\n    return x.at[0].set(1.0)\nf(jnp.zeros(3))",
    ),
    Mistake(
        "assignment_into_a_numpy_array",
        "TracerArrayConversionError",
        "@pyjax.jit\ndef f(x):\n    out = np.zeros(3)\n    out[:] = x  # here\n    return out\n"
        "f(jnp.ones(3))",
        ("float32[3]", "argument x"),
        "@pyjax.jit\ndef f(x):\n    out = jnp.zeros(3)\n    return out.at[:].set(x)\n"
        "f(jnp.ones(3))",
    ),
)
