"""Small programs that behaved differently from the reference, one of each kind."""

import collections
import sys
import types

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, tree_util
from pyjax.experimental.jet import jet
from pyjax.flatten_util import ravel_pytree


def test_all_leaves_counts_what_is_no_leaf() -> None:
    trees = (None, (None,), (), ([()],), [], (1, 2), {}, [[None], None])
    for tree in trees:
        assert not tree_util.all_leaves([tree], is_leaf=lambda t: tree_util.all_leaves([t]))
    assert tree_util.all_leaves([1, (2,)], is_leaf=lambda t: isinstance(t, tuple))


def test_jaxprs_are_printed_with_the_names_of_scopes() -> None:
    def f(x):
        with pyjax.named_scope("inner"):
            return x + 1

    jaxpr = pyjax.make_jaxpr(f)(1.0).jaxpr
    assert "[inner]" in jaxpr.pretty_print(name_stack=True)
    assert "[inner]" not in jaxpr.pretty_print()
    assert jaxpr.pretty_print(source_info=True, name_stack=True).startswith("{ lambda ;")


@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("groups", [{}, {"feature_group_count": 3}])
def test_vmap_of_a_convolution_over_no_examples(in_axes, groups) -> None:
    x = jnp.ones((2, 3, 9, 10))
    k = jnp.ones((6, 3 // groups.get("feature_group_count", 1), 4, 5))
    args = [jnp.ones((0, *a.shape)) if d == 0 else a for a, d in zip((x, k), in_axes)]
    f = pyjax.vmap(lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "VALID", **groups), in_axes)
    assert f(*args).shape == (0, 2, 6, 6, 6)


def test_vmap_names_the_function_in_its_docstring() -> None:
    def superfun(a):
        """Does things."""

    doc = pyjax.vmap(superfun).__doc__
    assert doc.startswith("Vectorized version of superfun.") and doc.endswith("Does things.")


def test_backward_rules_run_without_the_64_bit_types_of_the_forward_pass() -> None:
    @pyjax.custom_vjp
    def f(x):
        return x**2.0

    f.defvjp(lambda x: (f(x), jnp.sin(x)), lambda r, t: (r * t,))

    def g(x):
        with pyjax.enable_x64():
            return f(jnp.array(x, jnp.float64))

    assert g(5.0).dtype == np.float64
    derivative = pyjax.grad(g)(5.0)
    assert derivative.dtype == np.float32
    np.testing.assert_allclose(derivative, np.sin(5.0), rtol=1e-6)


class Wrapper:
    """What stands for an array."""

    def __init__(self, value) -> None:
        self.value = value

    def __jax_array__(self):
        return jnp.asarray(self.value)


W = Wrapper([1.0, 2.0])
TAKERS = {
    "iscomplexobj": (lambda: [jnp.iscomplexobj(W), jnp.iscomplexobj(Wrapper(1j))], [False, True]),
    "isrealobj": (lambda: [jnp.isrealobj(W), jnp.isrealobj(Wrapper(1j))], [True, False]),
    "where": (lambda: jnp.where(Wrapper([True, False]), W, W), [1, 2]),
    "ravel": (lambda: jnp.ravel(W), [1, 2]),
    "vdot": (lambda: jnp.vdot(W, W), 5),
    "full_like": (lambda: jnp.full_like(W, 3), [3, 3]),
    "zeros_like": (lambda: jnp.zeros_like(W), [0, 0]),
}


@pytest.mark.parametrize("name", TAKERS)
def test_what_stands_for_an_array_is_taken(name: str) -> None:
    call, want = TAKERS[name]
    np.testing.assert_array_equal(call(), want)


MASKED = np.ma.array([1, 2], mask=[0, 1])


@pytest.mark.parametrize(
    "take",
    [
        pyjax.device_put,
        pyjax.jit(lambda x: x),
        lambda x: pyjax.eval_shape(jnp.sin, x),
        jnp.sin,
        jnp.negative,
    ],
)
def test_masked_arrays_are_refused(take) -> None:
    with pytest.raises(ValueError, match="masked arrays are not supported"):
        take(MASKED)


def test_another_thread_may_be_importing_masked_arrays(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy.ma", types.ModuleType("numpy.ma"))
    assert jnp.asarray(np.ones(3, np.float32)).tolist() == [1, 1, 1]


def test_arrays_have_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(jnp.ones(2))
    assert isinstance(pyjax.tree.structure(1), collections.abc.Hashable)


def test_vmap_of_branches_that_act_outside_is_refused() -> None:
    def f(p):
        act = pyjax.experimental.io_callback
        return lax.cond(p, lambda: act(print, None), lambda: act(print, None))

    with pytest.raises(NotImplementedError, match="IO effect not supported in vmap-of-cond"):
        pyjax.vmap(f)(jnp.array([True, True]))


@pytest.mark.parametrize(
    "name, module",
    [("<lambda>", "jit__lambda"), ("f_", "jit_f"), ("_f", "jit__f"), ("a b", "jit_a_b")],
)
def test_modules_are_named_after_functions(name, module) -> None:
    def f(x):
        return x + 1

    f.__name__ = name
    assert pyjax.jit(f).lower(1.0).as_text().startswith(f"module @{module} ")


def test_several_results_of_one_primitive_are_a_list() -> None:
    x, matrix = jnp.arange(4.0), jnp.eye(2)
    calls = (
        lambda: lax.top_k(x, 2),
        lambda: lax.approx_max_k(x, 2),
        lambda: lax.approx_min_k(x, 2),
        lambda: lax.linalg.lu(matrix),
        lambda: lax.linalg.schur(matrix),
        lambda: lax.linalg.hessenberg(matrix),
        lambda: lax.linalg.tridiagonal(matrix),
    )
    assert [type(call()) for call in calls] == [list] * len(calls)


def test_sizes_as_values_are_an_array() -> None:
    sizes = lax.shape_as_value((2, np.int64(3)))
    assert isinstance(sizes, np.ndarray) and sizes.dtype == np.int32 and sizes.tolist() == [2, 3]
    assert lax.shape_as_value(()).shape == (0,)
    traced = pyjax.jit(lambda n: lax.shape_as_value((n, 2)))(3)
    np.testing.assert_array_equal(traced, [3, 2])
    with pytest.raises(TypeError):
        lax.shape_as_value((2.5,))


NHWC = ("NHWC", "HWIO", "NHWC")


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 1), (0, 2)]])
@pytest.mark.parametrize("strides", [(2, 2), (1, 3)])
def test_shapes_of_convolutions_for_any_padding(padding, strides) -> None:
    x, kernel = jnp.ones((1, 8, 9, 3)), jnp.ones((3, 4, 3, 4))
    forward = lax.conv_general_dilated(x, kernel, strides, padding, dimension_numbers=NHWC)
    back = lax.conv_transpose(x, kernel, strides, padding, dimension_numbers=NHWC)
    args = (x.shape, kernel.shape, strides, padding, NHWC)
    assert lax.conv_general_shape_tuple(*args) == forward.shape
    assert lax.conv_transpose_shape_tuple(*args) == back.shape


def test_shapes_of_convolutions_need_strides_and_known_paddings() -> None:
    shapes = (1, 8, 9, 3), (3, 4, 3, 4)
    for function in (lax.conv_general_shape_tuple, lax.conv_transpose_shape_tuple):
        with pytest.raises(TypeError, match="strides: 2 needed"):
            function(*shapes, (2,), "SAME", NHWC)
    with pytest.raises(ValueError, match="'SAME' or 'VALID'"):
        lax.conv_transpose_shape_tuple(*shapes, (2, 2), "FULL", NHWC)


@pytest.mark.parametrize("empty", ["lhs", "out"])
def test_gradients_of_convolutions_over_nothing_are_zero(empty) -> None:
    """Padding that is counted from windows over nothing does not fit the operands."""
    lhs = jnp.ones((4, 0 if empty == "lhs" else 1, 4, 2))
    rhs = jnp.ones((2 if empty == "out" else 1, 2, 2, 4))

    def f(lhs, rhs):
        out = lax.conv_general_dilated(
            lhs, rhs, (2, 1), "VALID", dimension_numbers=NHWC, batch_group_count=2
        )
        return out.sum()

    for found, operand in zip(pyjax.grad(f, (0, 1))(lhs, rhs), (lhs, rhs)):
        np.testing.assert_array_equal(found, np.zeros(operand.shape))


def test_descriptions_keep_wide_dtypes_and_arrays_do_not() -> None:
    wide = pyjax.ShapeDtypeStruct((2,), "int64")
    assert wide.dtype == np.int64 and wide != pyjax.ShapeDtypeStruct((2,), "int32")
    assert pyjax.ShapeDtypeStruct((2,), float).dtype == np.float64
    assert pyjax.eval_shape(lambda x: x, wide).dtype == np.int32
    assert jnp.zeros_like(wide).dtype == np.int32
    with pyjax.enable_x64(True):
        assert pyjax.eval_shape(lambda x: x, wide) == wide


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((0,), "Array([], shape=(0,), dtype=float32)"),
        ((0, 3), "Array([], shape=(0, 3), dtype=float32)"),
    ],
)
def test_empty_arrays_print_their_shape(shape, expected) -> None:
    assert repr(jnp.zeros(shape)) == expected


@pytest.mark.parametrize(
    ("tree", "vector", "first"),
    [
        ([1.0, 2.0], ("float32", True), ("float32", True)),
        ([1, 2], ("int32", True), ("int32", True)),
        ([1.0, np.float32(2)], ("float32", False), ("float32", False)),
        ([1.0, jnp.ones(2, jnp.bfloat16)], ("float32", False), ("float32", False)),
        ([1, np.float32(2)], ("float32", False), ("int32", False)),
    ],
    ids=str,
)
def test_vectors_of_pytrees_are_as_weak_as_the_leaves(tree, vector, first) -> None:
    raveled, unravel = ravel_pytree(tree)
    assert (str(raveled.dtype), raveled.weak_type) == vector
    leaf = unravel(raveled)[0]
    assert (str(leaf.dtype), leaf.weak_type) == first


@pytest.mark.parametrize(
    ("f", "names"),
    [
        (lambda x: x**3.5, ["pow"]),
        (lambda x: 2.0**x, ["pow"]),
        (lambda x: jnp.power(x, 1 / 3.5), ["pow"]),
        (lambda x: jnp.float_power(x, 0.5), ["pow"]),
        (jnp.reciprocal, ["integer_pow"]),
    ],
)
def test_powers_are_one_equation(f, names) -> None:
    jaxpr = pyjax.make_jaxpr(f)(jnp.ones(4))
    assert [e.primitive.name for e in jaxpr.eqns] == names


def test_series_of_python_numbers_are_weak() -> None:
    _, series = jet(lambda x: jnp.sin(x) * x, (1.0,), ((1.0, 0.0),))
    assert [term.weak_type for term in series] == [True, True]


def test_avals_of_tangents_have_both_names() -> None:
    for aval in (pyjax.typeof(1.0), pyjax.typeof(1)):
        assert aval.at_least_vspace() == aval.to_tangent_aval()


def test_the_class_of_jitted_functions_has_its_name() -> None:
    assert "PjitFunction" in str(type(pyjax.jit(lambda x: x)))
