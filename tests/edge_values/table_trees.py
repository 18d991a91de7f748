"""`tree`, `tree_util`, `flatten_util`, `dtypes`, `dlpack` and jaxprs: what is said of values."""

# ruff: noqa: E501 - a call stays in one piece

from __future__ import annotations

from tests.edge_values.rows import GRAD, Row, tabulated

_TREE = "{'b': [v, (x, None)], 'a': s}"
_DEF = f"jax.tree.structure({_TREE})"

TREES = {
    "tree.all": ["f([True, 1])", "f([True, 0])", "f(())", "f({'a': None})"],
    "tree.broadcast": [f"f({{'b': 1, 'a': 2}}, {_TREE})", f"f(1, {_TREE})", f"f([1], {_TREE})"],
    "tree.flatten": [
        f"f({_TREE})[0]",
        f"str(f({_TREE})[1])",
        "f(None)[0]",
        f"f({_TREE}, is_leaf=lambda y: isinstance(y, tuple))[0][1][0]",
    ],
    "tree.flatten_with_path": [
        f"[jax.tree_util.keystr(p) for p, _ in f({_TREE})[0]]",
        f"[y for _, y in f({_TREE})[0]]",
    ],
    "tree.leaves": [f"f({_TREE})", "f(s)", "f([])", f"f({_TREE}, is_leaf=lambda y: y is None)"],
    "tree.leaves_with_path": [
        f"[jax.tree_util.keystr(p, simple=True, separator='/') for p, _ in f({_TREE})]",
        f"[y for _, y in f({_TREE})]",
    ],
    "tree.map": [
        f"f(lambda y: y * y, {_TREE})",
        f"f(lambda y, d: y * d, {_TREE}, {_TREE})",
        f"f(lambda y, d: y * d, {_TREE}, [v])",
        "f(lambda y, d: y * d, [v, x], [v])",
        "f(lambda y: 1, None)",
        "f(lambda y, d: d, [v, None], [x, None])",
    ],
    "tree.map_with_path": [f"f(lambda p, y: y * len(p), {_TREE})"],
    "tree.reduce": [
        f"f(lambda y, d: y.sum() + d.sum(), {_TREE})",
        "f(lambda y, d: y + d, [], 3)",
        "f(lambda y, d: y + d, [])",
    ],
    "tree.reduce_associative": [
        "f(lambda y, d: y + d, [v, x, v])",
        "f(lambda y, d: y + d, [], identity=3)",
        "f(lambda y, d: y + d, [])",
    ],
    "tree.structure": [
        f"str(f({_TREE}))",
        f"f({_TREE}).num_leaves",
        "str(f(None))",
        "str(f([(), {}]))",
    ],
    "tree.transpose": [
        "f(jax.tree.structure([0, 0]), jax.tree.structure({'a': 0, 'b': 0}), [{'a': v, 'b': x}, {'a': x, 'b': v}])",
        "f(jax.tree.structure([0, 0]), None, [(v, x), (x, v)])",
        "f(jax.tree.structure([0]), jax.tree.structure((0, 0)), [(v, x), (x, v)])",
    ],
    "tree.unflatten": [f"f({_DEF}, [v, x, s])", f"f({_DEF}, [v])"],
    "tree_util.all_leaves": ["f([v, x])", "f([v, (x,)])", "f([None])", "f([])"],
    "tree_util.flatten_one_level": [
        "f([v, (x,)])[0]",
        "f({'a': v, 'b': x})[0]",
        "f(v)",
        "f(None)[0]",
    ],
    "tree_util.flatten_one_level_with_keys": [
        "[str(k) for k, _ in f({'a': v, 'b': x})[0]]",
        "f(v)",
    ],
    "tree_util.is_tree_node": ["f(list)", "f(int)", "f(type(None))", "f(dict)"],
    "tree_util.keystr": [
        "f((jax.tree_util.DictKey('a'), jax.tree_util.SequenceKey(1), jax.tree_util.GetAttrKey('b')))",
        "f((jax.tree_util.DictKey('a'), jax.tree_util.FlattenedIndexKey(1)), simple=True, separator='/')",
        "f(())",
    ],
    "tree_util.treedef_children": [f"[str(d) for d in f({_DEF})]", "f(jax.tree.structure(1))"],
    "tree_util.treedef_is_leaf": [
        f"f({_DEF})",
        "f(jax.tree.structure(1))",
        "f(jax.tree.structure(None))",
    ],
    "tree_util.treedef_tuple": [
        "str(f([jax.tree.structure(1), jax.tree.structure([1, 2])]))",
        "str(f([]))",
    ],
    "flatten_util.ravel_pytree": [
        f"f({_TREE})[0]",
        f"f({_TREE})[1](jnp.arange(15.0))",
        "f([v, j])[0]",
        "f([])[0]",
        "f([v, True])[1](jnp.arange(8.0))",
        "f([v])[1](x[:3])",
        "f([v])[1](j)",
        "f([1, 2.5])[0]",
    ],
}

TYPES = {
    "dtypes.canonicalize_dtype": [
        "str(f('float64'))",
        "str(f(int))",
        "str(f('int8'))",
        "f('no')",
        "str(f(jnp.bfloat16))",
        "str(f(bool))",
    ],
    "dtypes.issubdtype": [
        "f('float32', jnp.floating)",
        "f(jnp.bfloat16, np.inexact)",
        "f('int8', jnp.floating)",
        "f(jnp.int4, jnp.integer)",
        "f(jax.random.key(0).dtype, jax.dtypes.prng_key)",
    ],
    "dtypes.itemsize_bits": ["f('float32')", "f(jnp.int4)", "f(jnp.bfloat16)", "f(bool)"],
    "dtypes.result_type": [
        "str(f(v, 1))",
        "str(f(1, 2.5))",
        "str(f('int8', 'uint8'))",
        "f(v, j, return_weak_type_flag=True)[1]",
        "f(1, return_weak_type_flag=True)[1]",
        "f()",
    ],
    "dtypes.scalar_type_of": [
        "f(1.5).__name__",
        "f(v[0]).__name__",
        "f(True).__name__",
        "f(jnp.int8(3)).__name__",
    ],
    "dlpack.is_supported_dtype": [
        "f('float32')",
        "f('bfloat16')",
        "f('int4')",
        "f('float8_e4m3fn')",
        "f(bool)",
    ],
    "dlpack.from_dlpack": [
        "f(v)",
        "f(np.arange(3))",
        "f(m, copy=True)",
        "f(j)",
        "f(np.array([True, False]))",
    ],
    "typeof": ["str(f(v))", "str(f(1))", "str(f(True))", "f(m).weak_type", "f('no')"],
    "extend.core.jaxpr_as_fun": ["f(jax.make_jaxpr(lambda y: jnp.sin(y) * s)(v))(v)"],
    "custom_derivatives.SymbolicZero": ["f(jax.core.ShapedArray((2,), np.dtype('float32'))).shape"],
}

ROWS: tuple[Row, ...] = tuple(
    row
    for calls in (TREES, TYPES)
    for row in tabulated("", calls, ("float32",), norm=4, grad=GRAD, grad_norm=16)
)
