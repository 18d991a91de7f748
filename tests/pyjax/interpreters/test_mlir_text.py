"""Types and attributes as text, names of pxla, and the small names of core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import core
from pyjax.extend.core import Primitive
from pyjax.interpreters import batching, mlir, pxla
from pyjax.interpreters import partial_eval as pe

TYPES = [
    ("bool", "i1"),
    ("int32", "i32"),
    ("uint8", "ui8"),
    ("int4", "i4"),
    ("bfloat16", "bf16"),
    ("float16", "f16"),
    ("complex64", "complex<f32>"),
    ("float8_e4m3fn", "f8E4M3FN"),
    ("float8_e8m0fnu", "f8E8M0FNU"),
]


@pytest.mark.parametrize("dtype, text", TYPES)
def test_types_are_those_of_programs(dtype: str, text: str) -> None:
    x = jnp.zeros((2, 3), jnp.dtype(dtype))
    assert mlir.dtype_to_ir_type(x.dtype) == text
    found = mlir.aval_to_ir_type(None, pyjax.typeof(x))
    assert found == f"tensor<2x3x{text}>"
    assert found in pyjax.jit(lambda x: x).lower(x).as_text()


ATTRIBUTES = [
    (mlir.i32_attr(3), "3 : i32"),
    (mlir.i64_attr(-3), "-3 : i64"),
    (mlir.dense_int_elements([1, 2]), "dense<[1, 2]> : tensor<2xi64>"),
    (mlir.dense_int_array([1, 2]), "array<i64: 1, 2>"),
    (mlir.ir_attribute(True), "true"),
    (mlir.ir_attribute(2.5), "2.500000e+00 : f64"),
    (mlir.ir_attribute(np.float32(2)), "2.000000e+00 : f32"),
    (mlir.ir_attribute({"a": ['"', 1]}), '{a = ["\\"", 1 : i64]}'),
    (mlir.ir_attribute(np.dtype("float32")), "f32"),
    (mlir.token_type(), "!stablehlo.token"),
]


@pytest.mark.parametrize("found, text", ATTRIBUTES)
def test_attributes(found: str, text: str) -> None:
    assert found == text


def test_lists_and_tokens() -> None:
    assert mlir.flatten_ir_values([1, (2, 3)]) == [1, 2, 3]
    assert mlir.unflatten_ir_values_like_types([1, 2, 3], ["a", ("b", "c")]) == [1, (2, 3)]
    with pytest.raises(ValueError, match="1 values more"):
        mlir.unflatten_ir_values_like_types([1, 2], ["a"])
    tokens = mlir.TokenSet.create(["a", "b"])
    changed = tokens.update_tokens(mlir.TokenSet({"a": 1}))
    assert (changed.get("a"), tokens.get("a"), len(changed.subset(["b"]))) == (1, None, 1)
    with pytest.raises(ValueError, match="lacks"):
        tokens.update_tokens(mlir.TokenSet({"c": 1}))
    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        assert mlir.module_to_string(mlir.ir.Module.parse("module {}")) == "module {}"


OBJECTS = [
    ("emit_python_callback", "pure_callback"),
    ("ir_constant", "ctx.builder.constant"),
    ("register_constant_handler", "__jax_array__"),
    ("lower_jaxpr_to_module", "compiler_ir"),
    ("lower_jaxpr_to_fun", "ctx.call"),
    ("module_to_bytecode", "serialize"),
    ("merge_mlir_modules", "one function"),
]


@pytest.mark.parametrize("name, instead", OBJECTS)
def test_what_needs_objects_says_what_to_use(name: str, instead: str) -> None:
    with pytest.raises(NotImplementedError, match=instead):
        getattr(mlir, name)(None, None)


def test_rules_that_call_programs() -> None:
    program = pyjax.make_jaxpr(lambda x: jnp.sin(x) * 2)(1.0)

    def called(ctx: Any, x: Any, **params: Any) -> Any:
        return mlir.core_call_lowering(ctx, x, name="twice", call_jaxpr=program)

    def inlined(ctx: Any, x: Any, **params: Any) -> Any:
        sizes = mlir.shape_tensor(ctx, (2, 3))
        assert sizes.shape.dimensions == (2,)
        outs, tokens = mlir.jaxpr_subcomp(ctx, program, None, mlir.TokenSet(), (), x)
        assert len(tokens) == 0
        return outs

    for rule in (called, inlined):
        primitive = Primitive("by_rule")
        primitive.def_abstract_eval(lambda x: x)
        mlir.register_lowering(primitive, rule)
        assert float(pyjax.jit(primitive.bind)(0.5)) == pytest.approx(2 * np.sin(0.5), rel=1e-6)


def test_shardings() -> None:
    spec = pxla.array_mapping_to_axis_resources({"x": 0, "y": 2, "z": 0})
    assert spec == pyjax.P(("x", "z"), None, "y")
    assert pxla.are_hlo_shardings_equal("{replicated}", "{maximal device=0}")
    assert not pxla.are_hlo_shardings_equal("{replicated}", "{devices=[2]<=[2]}")
    assert pxla.op_sharding_to_indices("{replicated}", (2, 2), 2) == ((slice(None),) * 2,) * 2
    with pytest.raises(NotImplementedError, match="devices_indices_map"):
        pxla.op_sharding_to_indices("{devices=[2]<=[2]}", (2,), 2)
    x = jnp.ones(2)
    handler = pxla.global_avals_to_results_handler([pyjax.typeof(x)], [x.sharding], True)
    assert handler([[x]])[0] is x
    with pytest.raises(TypeError, match="pxla_result_handler"):
        pxla.global_aval_to_result_handler(3, None, True)
    mesh = pyjax.make_mesh((1,), ("x",))
    with mesh:
        assert pxla.thread_resources.env.physical_mesh is mesh
    with pytest.raises(NotImplementedError, match="compiler_options"):
        pxla.create_compile_options(None)


def test_core() -> None:
    assert (core.max_dim(2, 3), core.min_dim(2, 3)) == (3, 2)
    assert core.trace_ctx.is_top_level()
    seen = []
    pyjax.jit(lambda x: seen.append(core.trace_ctx.is_top_level()))(1.0)
    assert seen == [False]

    def convert(x: Any) -> Any:
        return core.concretization_function_error(float)(None, x)

    with pytest.raises(pyjax.errors.ConcretizationTypeError, match="`float` function"):
        pyjax.jit(convert)(1.0)
    with core.ensure_compile_time_eval():
        assert float(jnp.ones(())) == 1


def test_avals_of_libraries_are_mapped() -> None:
    class Pair(core.AbstractValue):
        pass

    core.aval_mapping_handlers[Pair] = (lambda n, a, v: (n, a), lambda n, a, m, v: (n, a, m))
    try:
        assert core.mapped_aval(2, 0, Pair()) == (2, 0)
        assert core.unmapped_aval(2, 0, Pair(), "i") == (2, 0, "i")
    finally:
        del core.aval_mapping_handlers[Pair]


def test_batching_and_dead_code() -> None:
    assert batching.broadcast(jnp.zeros(2), 3, 1, None).shape == (2, 3)
    captured = np.arange(3.0)
    closed = pyjax.make_jaxpr(lambda x, y: (x + captured, y * 2))(captured, 1.0)
    jaxpr, consts, inputs = pe.dce_jaxpr_consts(closed.jaxpr, [False, True])
    assert (consts, inputs) == ([False], [False, True])
    assert len(jaxpr.eqns) == 1
    _, consts, inputs = pe.dce_jaxpr_consts(closed.jaxpr, [True, False], True)
    assert (consts, inputs) == ([True], [True, True])
