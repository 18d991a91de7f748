"""What libraries do with pyjax beside computing: descriptions, structures, attributes, blocks."""

from __future__ import annotations

import copy
import inspect
import pickle

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import core, lax, nn, random, tree_util
from pyjax.core import ShapedArray
from pyjax.interpreters import xla


class Box:
    """A pytree whose auxiliary data is a dictionary, which has no hash."""

    def __init__(self, value, about):
        self.value, self.about = value, about


tree_util.register_pytree_node(
    Box, lambda b: ((b.value,), b.about), lambda about, c: Box(c[0], about)
)


def test_auxiliary_data_without_hash() -> None:
    one, same, other = (tree_util.tree_structure(Box(1, {"k": v})) for v in (1, 1, 2))
    assert one == same and hash(one) == hash(same) and one != other
    traced = []

    @pyjax.jit
    def scaled(box):
        traced.append(box.about)
        return box.value * box.about["k"]

    assert [float(scaled(Box(2.0, {"k": k}))) for k in (3, 3, 4)] == [6, 6, 8]
    assert traced == [{"k": 3}, {"k": 4}]
    carry, _ = lax.scan(lambda c, _: (c, None), Box(jnp.ones(2), {"k": 1}), None, length=2)
    assert carry.about == {"k": 1}
    assert pyjax.vmap(lambda b: b.value * 2)(Box(jnp.ones(3), {})).tolist() == [2, 2, 2]


def test_vmap_of_what_is_not_mapped() -> None:
    got = pyjax.vmap(lambda f, x, s: f(x) if s == "s" else None, (None, 0, None))(
        lambda x: x + 1, jnp.arange(3), "s"
    )
    assert got.tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="not a valid JAX type"):
        pyjax.vmap(lambda f, x: x)(len, jnp.arange(3))


def test_out_axes_that_do_not_exist() -> None:
    assert pyjax.vmap(lambda y: y, out_axes=-3)(jnp.ones((3, 4, 5))).shape == (3, 4, 5)
    for axis in (-4, 3):
        with pytest.raises(ValueError, match=f"axis {axis} is out of bounds for array of dim"):
            pyjax.vmap(lambda y: y, out_axes=axis)(jnp.ones((3, 4, 5)))


def test_descriptions_instead_of_arrays() -> None:
    aval = ShapedArray((3,), np.dtype(np.float32))

    class Described:
        shape, dtype = (3,), np.dtype(np.float64)

    for x in (aval, Described(), pyjax.ShapeDtypeStruct((3,), np.float32)):
        assert pyjax.eval_shape(lambda x: x[:2] + 1, x) == pyjax.ShapeDtypeStruct((2,), "float32")
        assert pyjax.make_jaxpr(lambda x: x)(x).in_avals == [aval]
        assert pyjax.jit(jnp.sin).lower(x).out_info.shape == (3,)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        pyjax.eval_shape(lambda x: x, "text")
    assert pyjax.ShapeDtypeStruct.like(jnp.ones(2)) == pyjax.ShapeDtypeStruct((2,), "float32")
    (info,) = pyjax.jit(lambda x: x).lower(jnp.ones(2)).args_info[0]
    assert repr(info) == "ArgInfo(_aval=ShapedArray(float32[2]), donated=False)"
    assert (info.shape, info.dtype, info.donated) == ((2,), np.float32, False)


@pytest.mark.parametrize(
    "x, expected",
    [
        (np.float32, "float32"),
        (np.dtype("int64"), "int32"),
        (float, "float32"),
        (bool, "bool"),
        ("int8", "int8"),
        (jnp.bfloat16, "bfloat16"),
        (1, "int32"),
        (pyjax.ShapeDtypeStruct((1,), "int8"), "int8"),
    ],
    ids=str,
)
def test_lax_dtype(x, expected) -> None:
    assert lax.dtype(x) == np.dtype(expected) if expected != "bfloat16" else True
    assert str(lax.dtype(x)) == expected


def test_dtypes_of_classes_and_values() -> None:
    with pytest.raises(ValueError, match="Invalid argument to dtype: None"):
        lax.dtype(None)
    with pytest.raises(TypeError):
        lax.dtype("bad")
    for kind in (np.uint8, "uint8", np.dtype(np.uint8), jnp.uint8, np.uint8(3)):
        assert (jnp.iinfo(kind).max, jnp.iinfo(int_type=kind).dtype) == (255, np.uint8)
    assert jnp.iinfo(3).max == jnp.iinfo(int).max == 2**63 - 1
    for kind in (np.float32, np.complex64, jnp.ones(1), "float32"):
        assert jnp.finfo(kind).bits == 32
    with pytest.raises(ValueError, match="Invalid integer data type"):
        jnp.iinfo(float)
    assert [pyjax.dtypes.itemsize_bits(d) for d in ("int4", float, bool, np.int8)] == [4, 64, 8, 8]
    assert pyjax.float0 == pyjax.dtypes.float0
    key = pyjax.random.key(0).dtype
    assert pyjax.dtypes.canonicalize_dtype(key, allow_extended_dtype=True) == key
    with pytest.raises(ValueError, match="extended dtype"):
        pyjax.dtypes.canonicalize_dtype(key)


def test_shardings_of_types() -> None:
    for x, ndim in [(jnp.ones((2, 3)), 2), (1.0, 0)]:
        sharding = pyjax.typeof(x).sharding
        assert isinstance(sharding, pyjax.NamedSharding)
        assert (tuple(sharding.spec), sharding.mesh.axis_names) == ((None,) * ndim, ())
    device = pyjax.devices()[0]
    made = pyjax.sharding.make_single_device_sharding(device)
    assert made == pyjax.sharding.SingleDeviceSharding(device)


def test_names_of_keywords() -> None:
    with pyjax.enable_x64(new_val=True):
        assert jnp.ones(1).dtype == np.float64
        assert pyjax.config.x64_enabled
    assert not pyjax.config.x64_enabled
    pyjax.config.update(name="jax_enable_x64", val=False)


def test_disable_jit() -> None:
    seen = []
    note = lambda x: (seen.append(type(x).__name__), x)[1]
    with pyjax.disable_jit(), pyjax.disable_jit(disable=False):
        pyjax.jit(note)(1.0)
    with pyjax.disable_jit(disable=True):
        pyjax.jit(note)(1.0)
        # Carries of while loops are arrays there, as they are where they are traced.
        result = lax.while_loop(lambda c: note(c) < 2, lambda c: note(c) + 1, 1)
    assert seen == ["JaxprTracer", "float", *["DeviceArray"] * 3]
    assert isinstance(result, pyjax.Array)


def _annotated(x: float, y=2.0) -> float:
    """What it does."""
    return x * y


_annotated.note = "mine"
_STANDING_FOR = {
    name: getattr(pyjax, name)
    for name in (
        "jit", "grad", "value_and_grad", "vmap", "checkpoint", "jacfwd", "jacrev", "custom_jvp",
        "custom_vjp", "make_jaxpr", "custom_gradient", "named_call",
    )
}  # fmt: skip


@pytest.mark.parametrize("name", _STANDING_FOR)
def test_attributes_of_functions(name) -> None:
    made = _STANDING_FOR[name](_annotated)
    assert made.note == "mine"
    assert made.__wrapped__ is _annotated
    assert made.__annotations__ == _annotated.__annotations__
    assert made.__name__.removeprefix("make_jaxpr(").rstrip(")") == "_annotated"
    assert made.__module__ == __name__


def test_programs_as_objects() -> None:
    lowered = pyjax.jit(lambda x: x + 1).lower(1.0)
    text = lowered.compiler_ir("hlo").as_hlo_text()
    assert text.startswith("HloModule jit")
    assert text == lowered.as_text("hlo")  # names without %, no metadata
    assert "%" not in text
    module = lowered.compiler_ir()
    assert module.operation.get_asm() == str(module) == lowered.as_text()


def test_donations_that_nobody_takes() -> None:
    with pytest.warns(UserWarning, match=r"donated buffers were not usable: float32\[3\]"):
        pyjax.jit(lambda x: x.sum(), donate_argnums=0)(jnp.ones(3))
    x = jnp.ones(3)
    pyjax.jit(lambda x: x + 1, donate_argnums=0)(x)  # warnings are errors here
    assert x.is_deleted()


def test_tracers_are_copied_and_not_pickled() -> None:
    assert int(pyjax.jit(lambda x: copy.deepcopy([x])[0] + copy.copy(x))(1)) == 2
    assert float(pyjax.grad(lambda x: copy.deepcopy(x) ** 2)(3.0)) == 6
    with pytest.raises(pyjax.errors.ConcretizationTypeError, match="is to be pickled"):
        pyjax.jit(pickle.dumps)(1.0)


def test_what_vjp_returns() -> None:
    x, y = jnp.ones(2), jnp.array([3.0, 4.0])
    _, pullback = pyjax.vjp(lambda x, y: jnp.sum(x * y), x, y)
    assert all(a is b for a, b in zip(pullback.args_res, [x, y], strict=True))
    assert pullback.opaque_residuals == []
    _, pullback = pyjax.vjp(lambda x: jnp.sin(x), 1.0)
    assert repr(pullback.args_res) == "[NotNeeded()]"
    assert len(pullback.opaque_residuals) == 1
    assert pullback.in_tree == tree_util.tree_structure((1,))
    assert len(pullback.jaxpr.invars) == 1


@pytest.mark.parametrize("kind", [np.int32, np.float32, pyjax.float0, np.bool_])
def test_cotangents_of_integers(kind) -> None:
    _, pullback = pyjax.vjp(lambda x: (x * 2, jnp.arange(2)), 1.0)
    assert float(pullback((1.0, np.zeros(2, kind)))[0]) == 2
    with pytest.raises(ValueError, match=r"expected float0\[2\]"):
        pullback((1.0, np.zeros(3, kind)))


def test_keys_of_paths() -> None:
    assert hash(tree_util.FlattenedIndexKey(1)) != hash(tree_util.SequenceKey(1))


def test_dlpack_by_name_and_by_position() -> None:
    x = np.ones(2, np.float32)
    assert pyjax.dlpack.from_dlpack(external_array=x).tolist() == [1, 1]
    assert pyjax.dlpack.from_dlpack(x, None, True).tolist() == [1, 1]


def test_an_operand_that_is_passed_twice_has_two_names_inside() -> None:
    add = pyjax.jit(lambda x, y: x + y)
    text = str(pyjax.make_jaxpr(lambda x: add(x, x))(1.0))
    assert "jaxpr={ lambda ; a:f32[] c:f32[]. let b:f32[] = add a c in (b,) }" in text


def test_residuals_that_are_python_numbers_stay_so() -> None:
    seen = []

    @pyjax.custom_vjp
    def f(x):
        return x

    def backward(residuals, ct):
        seen.append([type(r) for r in residuals[:3]])
        return (ct * residuals[1] * residuals[3],)

    f.defvjp(lambda x: (x, (True, 3, 2.5, x)), backward)
    for grad in (
        pyjax.grad(f),
        pyjax.jit(pyjax.grad(f)),
        pyjax.grad(pyjax.jit(f)),
        pyjax.grad(pyjax.checkpoint(f)),
        lambda x: pyjax.vmap(pyjax.grad(f))(jnp.full(2, x))[0],
        pyjax.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]),
    ):
        assert grad(2.0) == 6
    assert seen == [[bool, int, float]] * 6


def test_a_sharding_of_an_empty_mesh_says_nothing() -> None:
    x = jnp.ones(3)
    nothing = pyjax.typeof(x).sharding
    draw = lambda x: pyjax.random.normal(pyjax.random.key(0), x.shape, out_sharding=nothing)
    assert draw(x).shape == pyjax.jit(draw)(x).shape == jnp.zeros(3, device=nothing).shape
    with pytest.raises(ValueError, match="its mesh is empty"):
        lax.with_sharding_constraint(x, nothing)


def test_traces_say_whose_a_tracer_is() -> None:
    def f(x):
        trace = pyjax.core.find_top_trace([x]).main
        assert x._trace.main is trace
        return pyjax.jvp(lambda y: (y._trace.main is trace) * 1.0 + y, (x,), (x,))[0]

    assert pyjax.jvp(f, (2.0,), (1.0,))[0] == 2


def test_zero_from_primal() -> None:
    zeros = pyjax.custom_derivatives.zero_from_primal({"a": jnp.ones(2), "b": 3})
    assert zeros["a"].tolist() == [0, 0] and zeros["b"].dtype == pyjax.float0
    symbolic = pyjax.custom_derivatives.zero_from_primal(jnp.ones(2), symbolic_zeros=True)
    assert type(symbolic) is pyjax.custom_derivatives.SymbolicZero and symbolic.shape == (2,)


def test_transposing_a_tree_by_name() -> None:
    outer, inner = tree_util.tree_structure([0, 0]), tree_util.tree_structure({"a": 0})
    by_name = tree_util.tree_transpose(outer, inner, pytree_to_transpose=[{"a": 1}, {"a": 2}])
    assert by_name == {"a": [1, 2]}


class Reading:
    """A value with a name; libraries tell how such types become arrays."""

    def __init__(self, value: float) -> None:
        self.value = value

    @property
    def degrees(self) -> np.ndarray:
        return np.asarray(self.value) * 2


def test_types_that_are_told_how_to_become_arrays() -> None:
    as_array = xla.canonicalize_dtype_handlers[np.ndarray]
    assert as_array(np.ones(2)).dtype == np.float32
    with pytest.raises(TypeError, match="not a valid array type"):
        pyjax.jit(jnp.sin)(Reading(1.0))
    core.pytype_aval_mappings[Reading] = lambda x: core.pytype_aval_mappings[np.ndarray](x.degrees)
    xla.canonicalize_dtype_handlers[Reading] = lambda x: as_array(x.degrees)
    try:
        assert pyjax.jit(lambda x: x + 1)(Reading(3.0)) == 7
        assert pyjax.jit(lambda x: x + Reading(3.0).degrees)(1.0) == 7
        assert pyjax.vmap(lambda x, y: x + lax.cos(y), (0, None))(jnp.ones(1), Reading(0.0)) == 2
        assert lax.add(Reading(1.0), 1.0) == 3
    finally:
        del core.pytype_aval_mappings[Reading]
        xla.canonicalize_dtype_handlers[Reading] = None


@pytest.mark.parametrize(
    "axes", [range(2), [0, 1], np.array([0, 1]), jnp.array([0, 1]), {0: "", 1: ""}.keys()], ids=repr
)
@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (jnp.expand_dims, (1, 1, 2, 3, 4)),
        (jnp.sum, (4,)),
        (jnp.std, (4,)),
        (jnp.any, (4,)),
        (jnp.flip, (2, 3, 4)),
        (nn.softmax, (2, 3, 4)),
        (nn.logsumexp, (4,)),
        (lambda x, axes: jnp.squeeze(x[None, None], axes), (2, 3, 4)),
        (lambda x, axes: jnp.roll(x, 1, axes), (2, 3, 4)),
        (lambda x, axes: jnp.moveaxis(x, axes, axes), (2, 3, 4)),
        (lambda x, axes: random.uniform(random.key(0), axes), (0, 1)),
        (lambda x, axes: random.bits(random.key(0), axes), (0, 1)),
    ],
)
def test_axes_and_shapes_are_any_iterable(function, shape, axes) -> None:
    assert function(jnp.ones((2, 3, 4)), axes).shape == shape


def test_one_axis_or_size_of_any_integer_type() -> None:
    assert nn.logsumexp(jnp.ones((2, 3)), np.int32(1)).shape == (2,)
    assert random.bits(random.key(0), 3).shape == (3,)
    with pytest.raises(TypeError, match="axis must be an integer, got 'ab'"):
        jnp.sum(jnp.ones(3), "ab")


def test_signatures_of_compiled_functions() -> None:
    compiled = pyjax.jit(lambda x, *, n=1: x, static_argnames="n")
    for follow in (True, False):
        assert str(inspect.signature(compiled, follow_wrapped=follow)) == "(x, *, n=1)"
    assert inspect.signature(type(compiled)).parameters


def test_programs_have_no_values_of_own_types() -> None:
    closed = pyjax.make_jaxpr(lambda x: 2 * x)(1.0)
    for program in (closed, closed.jaxpr):
        assert program.is_high is False
        assert program.in_aval_qdds == program.final_aval_qdds == program.in_avals
    (x,) = closed.jaxpr.invars
    assert x.initial_qdd is None and x.final_qdd is None


@pytest.mark.parametrize("propagates", [True, False])
def test_operations_keep_their_places_or_have_those_of_who_evaluates(propagates: bool) -> None:
    def recorded(x):
        return lax.sin(x)

    closed = pyjax.make_jaxpr(recorded)(1.0)

    def evaluated(x):
        return core.eval_jaxpr(closed.jaxpr, [], x, propagate_source_info=propagates)

    (eqn,) = pyjax.make_jaxpr(evaluated)(1.0).eqns
    assert eqn.source.function_name.endswith("recorded" if propagates else "evaluated")
