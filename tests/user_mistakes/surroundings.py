"""Keys, pytrees, callbacks, devices, meshes, memory, options, NaNs."""

from __future__ import annotations

from tests.user_mistakes.mistake import Mistake

SURROUNDINGS = (
    Mistake(
        "key_used_twice",
        "KeyReuseError",
        "with pyjax.debug_key_reuse(True):\n    key = random.key(0)\n    random.normal(key)\n"
        "    random.uniform(key)",
        ("key", "mistake_key_used_twice.py:3"),
        "with pyjax.debug_key_reuse(True):\n    a, b = random.split(random.key(0))\n"
        "    random.normal(a)\n    random.uniform(b)",
    ),
    Mistake(
        "number_as_a_key",
        "TypeError",
        "random.normal(42, (3,))",
        ("int", "random.key"),
        "random.normal(random.key(42), (3,))",
    ),
    Mistake(
        "keys_instead_of_a_key",
        "ValueError",
        "keys = random.split(random.key(0), 3)\nrandom.normal(keys)",
        ("(3,)", "vmap"),
        "keys = random.split(random.key(0), 3)\npyjax.vmap(random.normal)(keys)",
    ),
    Mistake(
        "arithmetic_with_a_key",
        "TypeError",
        "key = random.key(0)\nkey + 1",
        ("key<fry>", "add"),
        "key = random.key(0)\nrandom.fold_in(key, 1)",
    ),
    Mistake(
        "choice_without_replacement",
        "ValueError",
        "random.choice(random.key(0), 3, (5,), replace=False)",
        ("3", "5", "replace"),
        "random.choice(random.key(0), 3, (5,), replace=True)",
    ),
    Mistake(
        "tree_map_of_other_structures",
        "ValueError",
        'a = {"w": 1.0, "b": 2.0}\nb = {"w": 1.0}\npyjax.tree.map(lambda x, y: x - y, a, b)',
        ("'b'", "dict"),
        'a = {"w": 1.0, "b": 2.0}\nb = {"w": 1.0, "b": 0.0}\n'
        "pyjax.tree.map(lambda x, y: x - y, a, b)",
    ),
    Mistake(
        "tree_unflatten_leaves",
        "ValueError",
        "leaves, tree = pyjax.tree.flatten((1.0, 2.0))\npyjax.tree.unflatten(tree, [1.0])",
        ("2", "1"),
        "leaves, tree = pyjax.tree.flatten((1.0, 2.0))\npyjax.tree.unflatten(tree, leaves)",
    ),
    Mistake(
        "class_that_is_no_pytree",
        "TypeError",
        "class Params:\n    def __init__(self, w):\n        self.w = w\n"
        "pyjax.grad(lambda p: p.w * 2)(Params(1.0))",
        ("Params",),
        "@pyjax.tree_util.register_pytree_node_class\nclass Params:\n"
        "    def __init__(self, w):\n        self.w = w\n"
        "    def tree_flatten(self):\n        return (self.w,), None\n"
        "    @classmethod\n    def tree_unflatten(cls, aux, children):\n"
        "        return cls(*children)\n"
        "pyjax.grad(lambda p: p.w * 2)(Params(1.0))",
    ),
    Mistake(
        "pytree_registered_twice",
        "ValueError",
        "class Box:\n    pass\nregister = pyjax.tree_util.register_pytree_node\n"
        "register(Box, lambda b: ((), None), lambda _, c: Box())\n"
        "register(Box, lambda b: ((), None), lambda _, c: Box())",
        ("Box",),
        "class Box:\n    pass\nregister = pyjax.tree_util.register_pytree_node\n"
        "register(Box, lambda b: ((), None), lambda _, c: Box())",
    ),
    Mistake(
        "keys_of_a_dictionary_that_have_no_order",
        "ValueError",
        'pyjax.tree.leaves({"a": 1, 2: 3})',
        ("'a'", "2"),
        'pyjax.tree.leaves({"a": 1, "2": 3})',
    ),
    Mistake(
        "callback_that_raises",
        "JaxRuntimeError",
        "def lookup(x):\n    return {1: 2.0}[int(x)]  # here\n"
        "pyjax.jit(lambda x: pyjax.pure_callback(lookup, x, x))(3.0)",
        ("KeyError: 3", "lookup"),
        "def lookup(x):\n    return np.float32({1: 2.0}.get(int(x), 0.0))\n"
        "pyjax.jit(lambda x: pyjax.pure_callback(lookup, x, x))(3.0)",
    ),
    Mistake(
        "callback_of_another_shape",
        "JaxRuntimeError",
        "f = pyjax.jit(lambda x: pyjax.pure_callback(np.cumsum, x[0], x))\nf(jnp.ones(3))",
        ("float32[3]", "float32[]", "cumsum"),
        "f = pyjax.jit(lambda x: pyjax.pure_callback(np.cumsum, x, x))\nf(jnp.ones(3))",
    ),
    Mistake(
        "callback_of_another_dtype",
        "JaxRuntimeError",
        "f = pyjax.jit(lambda x: pyjax.pure_callback(np.argsort, x, x))\nf(jnp.ones(3))",
        ("float32[3]", "int32[3]", "argsort"),
        "def order(x):\n    return np.argsort(x).astype(np.float32)\n"
        "f = pyjax.jit(lambda x: pyjax.pure_callback(order, x, x))\nf(jnp.ones(3))",
    ),
    Mistake(
        "print_of_an_unused_value",
        "ValueError",
        'pyjax.debug.print("loss", 1.0)',
        ("1.0", "{}"),
        'pyjax.debug.print("loss {}", 1.0)',
    ),
    Mistake(
        "nan_under_debug_nans",
        "FloatingPointError",
        "def f(x):\n    return jnp.log(x)  # here\n"
        "with pyjax.debug_nans(True):\n    pyjax.jit(f)(-1.0)",
        ("nan", "log", "-1"),
        "def f(x):\n    return jnp.log(jnp.maximum(x, 1e-6))\n"
        "with pyjax.debug_nans(True):\n    pyjax.jit(f)(-1.0)",
    ),
    Mistake(
        "nan_of_a_derivative",
        "FloatingPointError",
        "def f(x):\n    return jnp.where(x > 0, jnp.sqrt(x), 0.0)  # here\n"
        "with pyjax.debug_nans(True):\n    pyjax.grad(f)(0.0)",
        ("nan", "sqrt"),
        "def f(x):\n    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), 0.0)\n"
        "with pyjax.debug_nans(True):\n    pyjax.grad(f)(0.0)",
    ),
    Mistake(
        "check_outside_of_checkify",
        "ValueError",
        "from pyjax.experimental import checkify\n@pyjax.jit\ndef f(x):\n"
        '    checkify.check(x > 0, "x is {x}", x=x)  # here\n    return x\nf(-1.0)',
        ("checkify",),
        "from pyjax.experimental import checkify\n@pyjax.jit\ndef f(x):\n"
        '    checkify.check(x > 0, "x is {x}", x=x)\n    return x\ncheckify.checkify(f)(-1.0)',
    ),
    Mistake(
        "unknown_device",
        "RuntimeError",
        'pyjax.devices("tpux")',
        ("tpux",),
        'pyjax.devices("cpu")',
    ),
    Mistake(
        "device_by_name",
        "ValueError",
        'pyjax.device_put(jnp.ones(3), "cpu")',
        ("'cpu'", "devices"),
        'pyjax.device_put(jnp.ones(3), pyjax.devices("cpu")[0])',
    ),
    Mistake(
        "device_put_of_a_string",
        "TypeError",
        'pyjax.device_put("text")',
        ("text", "str"),
        "pyjax.device_put(np.frombuffer(b'text', np.uint8))",
    ),
    Mistake(
        "out_of_memory",
        "JaxRuntimeError",
        "jnp.ones((1 << 20, 1 << 24))",
        ("RESOURCE_EXHAUSTED", "70368744177664 bytes"),
        "jnp.ones((1 << 2, 1 << 4))",
    ),
    Mistake(
        "shard_map_specs",
        "ValueError",
        'mesh = pyjax.make_mesh((1,), ("i",), axis_types=(AUTO,))\n'
        'f = pyjax.shard_map(lambda x, y: x, mesh=mesh, in_specs=(pyjax.P("i"),), '
        'out_specs=pyjax.P("i"))\nf(jnp.ones(4), jnp.ones(4))',
        ("in_specs", "2"),
        'mesh = pyjax.make_mesh((1,), ("i",), axis_types=(AUTO,))\n'
        'f = pyjax.shard_map(lambda x, y: x, mesh=mesh, in_specs=(pyjax.P("i"), pyjax.P("i")), '
        'out_specs=pyjax.P("i"))\nf(jnp.ones(4), jnp.ones(4))',
    ),
    Mistake(
        "shard_map_unknown_axis",
        "ValueError",
        'mesh = pyjax.make_mesh((1,), ("i",), axis_types=(AUTO,))\n'
        'f = pyjax.shard_map(lambda x: x, mesh=mesh, in_specs=pyjax.P("j"), '
        'out_specs=pyjax.P("i"))\nf(jnp.ones(4))',
        ("j", "i"),
        'mesh = pyjax.make_mesh((1,), ("i",), axis_types=(AUTO,))\n'
        'f = pyjax.shard_map(lambda x: x, mesh=mesh, in_specs=pyjax.P("i"), '
        'out_specs=pyjax.P("i"))\nf(jnp.ones(4))',
    ),
    Mistake(
        "shard_map_spec_beyond_the_rank",
        "ValueError",
        'mesh = pyjax.make_mesh((1,), ("i",), axis_types=(AUTO,))\n'
        'f = pyjax.shard_map(lambda x: x, mesh=mesh, in_specs=pyjax.P(None, "i"), '
        'out_specs=pyjax.P("i"))\nf(jnp.ones(4))',
        ("float32[4]", "rank"),
        'mesh = pyjax.make_mesh((1,), ("i",), axis_types=(AUTO,))\n'
        'f = pyjax.shard_map(lambda x: x, mesh=mesh, in_specs=pyjax.P("i"), '
        'out_specs=pyjax.P("i"))\nf(jnp.ones(4))',
    ),
    Mistake(
        "mesh_of_too_many_devices",
        "ValueError",
        'pyjax.make_mesh((1024,), ("i",))',
        ("1024", "device"),
        'pyjax.make_mesh((1,), ("i",))',
    ),
    Mistake(
        "unknown_option",
        "AttributeError",
        'pyjax.config.update("jax_enable_x46", True)',
        ("jax_enable_x46", "jax_enable_x64"),
        'pyjax.config.update("jax_enable_x64", False)',
    ),
    Mistake(
        "value_of_an_option",
        "ValueError",
        'pyjax.config.update("jax_traceback_filtering", "none")',
        ("none", "off", "jax_traceback_filtering"),
        'pyjax.config.update("jax_traceback_filtering", "auto")',
    ),
    Mistake(
        "type_of_an_option",
        "ValueError",
        'pyjax.config.update("jax_numpy_rank_promotion", 3)',
        ("jax_numpy_rank_promotion", "3"),
        'pyjax.config.update("jax_numpy_rank_promotion", "allow")',
    ),
    Mistake(
        "reference_of_another_dtype",
        "ValueError",
        "ref = pyjax.new_ref(jnp.zeros(3))\nref[...] = jnp.ones(4)",
        ("float32[4]", "float32[3]"),
        "ref = pyjax.new_ref(jnp.zeros(3))\nref[...] = jnp.ones(3)",
    ),
    Mistake(
        "optimizer_that_is_unknown",
        "ValueError",
        "from pyjax.scipy.optimize import minimize\n"
        'minimize(lambda x: (x**2).sum(), jnp.ones(2), method="Nelder-Mead")',
        ("Nelder-Mead", "BFGS"),
        "from pyjax.scipy.optimize import minimize\n"
        'minimize(lambda x: (x**2).sum(), jnp.ones(2), method="BFGS")',
    ),
    Mistake(
        "x64_value_that_does_not_fit",
        "OverflowError",
        "jnp.int32(1) + 3_000_000_000",
        ("3000000000", "int32"),
        "jnp.float32(1) + 3e9",
    ),
    Mistake(
        "array_was_deleted",
        "RuntimeError",
        "x = jnp.ones(3)\nx.delete()\nx + 1",
        ("float32[3]", "deleted"),
        "x = jnp.ones(3)\nx + 1",
    ),
    Mistake(
        "iteration_over_a_number",
        "TypeError",
        "for part in jnp.sum(jnp.ones(3)):  # here\n    pass",
        ("0-d", "iter"),
        "for part in jnp.ones(3):\n    pass",
    ),
    Mistake(
        "length_of_a_number",
        "TypeError",
        "len(jnp.float32(1.0))",
        ("len",),
        "len(jnp.ones(1))",
    ),
    Mistake(
        "array_as_a_key_of_a_dictionary",
        "TypeError",
        "x = jnp.ones(3)\n{x: 1}",
        ("hash",),
        "x = jnp.ones(3)\n{id(x): 1}",
    ),
)
