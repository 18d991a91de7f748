# ruff: noqa: E501
"""Conversion to HLO: structure, donation and sharding, transfers, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from xla_backend import library
from xla_backend.hlo.errors import HloError, ParseError, UnimplementedError
from xla_backend.hlo.module import source_places
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.source_tables import SourcePlace
from xla_backend.hlo.verifier import verify
from xla_backend.stablehlo import parse_stablehlo
from xla_backend.stablehlo.lowering import ConversionError


def hlo(text: str) -> str:
    module = parse_stablehlo(text)
    verify(module)
    return module_to_text(module, "short")


def test_donation_sharding_and_partitions() -> None:
    text = hlo("""module @m attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
      func.func public @main(%a: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}", tf.aliasing_output = 1 : i32},
                             %b: tensor<4xf32> {jax.buffer_donor = true}) -> (tensor<4xf32>, tensor<4xf32>) {
        %0 = stablehlo.add %a, %b {mhlo.frontend_attributes = {k = "v"}, mhlo.sharding = "{replicated}"} : tensor<4xf32>
        return %b, %0 : tensor<4xf32>, tensor<4xf32>
      }
    }""")
    assert "num_partitions=2" in text
    assert "input_output_alias={ {1}: (0, {}, may-alias) }" in text
    assert "buffer_donor={ (1, {}) }" in text
    assert "parameter(0), sharding={devices=[2]<=[2]}" in text
    assert 'sharding={replicated}, frontend_attributes={k="v"}' in text


def test_locations_become_metadata() -> None:
    module = parse_stablehlo("""func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.sine %x : tensor<f32> loc("jit(f)/sin"(callsite("g"("a.py":3:4 to :9) at "b.py":1:2)))
      return %0 : tensor<f32> }""")
    metadata = module.entry.root.metadata
    assert (metadata.op_name, metadata.source_file) == ("jit(f)/sin", "")
    assert source_places(module.entry.root) == [
        SourcePlace("a.py", "g", 3, 3, 4, 9),
        SourcePlace("b.py", "", 1, 1, 2, 2),
    ]


def test_values_from_outside_travel_with_loops_and_branches() -> None:
    text = """func.func @main(%x: tensor<f32>, %n: tensor<i32>, %y: tensor<f32>) -> tensor<f32> {
      %c = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = stablehlo.while(%a = %x, %i = %c) : tensor<f32>, tensor<i32>
      cond {
        %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %p = stablehlo.compare LT, %a, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %b = "stablehlo.if"(%p) ({
          %t = stablehlo.add %a, %y : tensor<f32>
          stablehlo.return %t : tensor<f32>
        }, {
          stablehlo.return %x : tensor<f32>
        }) : (tensor<i1>) -> tensor<f32>
        stablehlo.return %b, %j : tensor<f32>, tensor<i32>
      }
      return %0#0 : tensor<f32>
    }"""
    module = parse_stablehlo(text)
    verify(module)
    inputs = [np.float32(1).reshape(()), np.array(3, np.int32), np.float32(2).reshape(())]
    for got in (library.evaluate(module, inputs), library.compile(module).execute(inputs)):
        assert got[0] == 3.0  # 1 -> 3 -> 1 -> 3


def test_reducers_copy_constants_from_outside() -> None:
    module = parse_stablehlo("""func.func @main(%x: tensor<4xf32>) -> tensor<f32> {
      %h = stablehlo.constant dense<0.5> : tensor<f32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %z) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
        reducer(%a: tensor<f32>, %b: tensor<f32>) {
          %m = stablehlo.maximum %b, %h : tensor<f32>
          %s = stablehlo.maximum %a, %m : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }
      return %0 : tensor<f32> }""")
    assert library.evaluate(module, [np.float32([-1, 0, 0.25, -3])])[0] == 0.5


def test_functions_are_shared_and_dynamic_sizes_come_from_arguments() -> None:
    text = """func.func public @main(%x: tensor<3xf32>) -> tensor<?xf32> {
      %0 = call @f(%x) : (tensor<3xf32>) -> tensor<3xf32>
      %1 = call @f(%0) : (tensor<3xf32>) -> tensor<3xf32>
      %n = stablehlo.get_dimension_size %1, dim = 0 : (tensor<3xf32>) -> tensor<i32>
      %s = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
      %d = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
      %r = stablehlo.add %d, %d : tensor<?xf32>
      return %r : tensor<?xf32>
    }
    func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }"""
    assert hlo(text).count("\nf ") == 1
    got = library.evaluate(parse_stablehlo(text), [np.zeros(3, np.float32)])
    np.testing.assert_array_equal(got[0], [0, 2, 4])


TRANSFERS = [
    (
        '%0:2 = "stablehlo.infeed"(%t) <{infeed_config = "cfg"}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)',
        "infeed(",
    ),
    (
        '%0 = "stablehlo.outfeed"(%x, %t) <{outfeed_config = "cfg"}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token',
        "outfeed(",
    ),
    (
        '%0 = "stablehlo.send"(%x, %t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token',
        "is_host_transfer=true",
    ),
    (
        '%0:2 = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)',
        "recv-done(",
    ),
]


@pytest.mark.parametrize(("line", "expected"), TRANSFERS, ids=[e for _, e in TRANSFERS])
def test_transfers(line: str, expected: str) -> None:
    text = f"func.func @main(%x: tensor<2xf32>, %t: !stablehlo.token) -> tensor<2xf32> {{\n{line}\nreturn %x : tensor<2xf32> }}"
    assert expected in hlo(text)


def test_collectives_of_several_devices() -> None:
    text = hlo("""module attributes {mhlo.num_replicas = 4 : i32} {
      func.func @main(%x: tensor<4x6xf32>) -> tensor<2x12xf32> {
        %0 = "stablehlo.all_to_all"(%x) <{concat_dimension = 1 : i64, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 0 : i64}> : (tensor<4x6xf32>) -> tensor<2x12xf32>
        return %0 : tensor<2x12xf32>
      } }""")
    assert "all-to-all(" in text and "replica_groups={{0,1},{2,3}}, dimensions={0}" in text
    assert "f32[2,2,6]" in text


# The body of @main(%x: tensor<2x3xf32>, %n: tensor<i32>) and what the message says.
ERRORS = [
    (
        "%0 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<5xf32>",
        "different numbers of elements",
    ),
    (
        "%0 = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x4xf32>",
        "becomes neither 1 nor 4",
    ),
    (
        "%0 = stablehlo.transpose %x, dims = [0, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>",
        "stablehlo.transpose (line 2)",
    ),
    (
        "%0 = stablehlo.slice %x [0:2, 0:4] : (tensor<2x3xf32>) -> tensor<2x4xf32>",
        "stablehlo.slice (line 2)",
    ),
    (
        "%0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<5x3xf32>",
        "the result is f32[4,3], its type says tensor<5x3xf32>",
    ),
    (
        "%0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>",
        "must follow from constants",
    ),
    (
        "%0 = call @g(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        "there is no function @g (there are @main, @f)",
    ),
    ("%0 = call @f(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "@f calls itself"),
    ("%0 = call @f() : () -> tensor<2x3xf32>", "@f takes 1 arguments, got 0"),
    (
        "%0 = call @f(%z) : (tensor<f32>) -> tensor<2x3xf32>",
        "argument 0 of @f is tensor<2x3xf32>, got f32[]",
    ),
    (
        "%0 = stablehlo.constant dense_resource<x> : tensor<2xf32>\n%1 = stablehlo.add %0, %0 : tensor<2xf32>",
        "only dense<...> constants",
    ),
    (
        '%0 = "stablehlo.foo_bar"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>',
        "there is no operation",
    ),
    ('%0 = "other.op"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>', "no conversion to HLO is known"),
    (
        "%0 = stablehlo.uniform_dequantize %x : (tensor<2x3xf32>) -> tensor<2x3xf32>",
        "the operand is quantized",
    ),
    (
        "%0 = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32, 0.5>>\n%1 = stablehlo.add %0, %0 : tensor<2x3x!quant.uniform<i8:f32, 0.5>>",
        "arithmetic on quantized",
    ),
    (
        '%0 = stablehlo.einsum %x, %x, config = "ij,jk->ik" : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>',
        "stablehlo.einsum",
    ),
    (
        '%0 = stablehlo.unary_einsum %x, config = "i...->i" : (tensor<2x3xf32>) -> tensor<2xf32>',
        "'...'",
    ),
    (
        "%0 = chlo.broadcast_add %x, %v : (tensor<2x3xf32>, tensor<1xf32>) -> tensor<2x4xf32>",
        "its type says",
    ),
    (
        '%0 = stablehlo.composite "a" %x : (tensor<2x3xf32>) -> tensor<2x3xf32>',
        "needs a decomposition",
    ),
    ("stablehlo.custom_call @check.expect_eq(%x) : (tensor<2x3xf32>) -> ()", "compares two values"),
    (
        "%0 = stablehlo.reduce(%x init: %z) across dimensions = [0] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>\n reducer(%a: tensor<f32>, %b: tensor<f32>) { %r = stablehlo.add %a, %z : tensor<f32> stablehlo.return %r : tensor<f32> }",
        "uses a value from outside",
    ),
]


@pytest.mark.parametrize(("body", "message"), ERRORS, ids=[m[:28] for _, m in ERRORS])
def test_errors(body: str, message: str) -> None:
    text = (
        "func.func @main(%x: tensor<2x3xf32>, %s: tensor<1xi32>, %v: tensor<1xf32>, %z: tensor<f32>) {\n"
        f"{body}\nreturn }}\n"
        "func.func private @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
        "%0 = call @f(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\nreturn %0 : tensor<2x3xf32> }"
    )
    with pytest.raises(HloError) as caught:
        parse_stablehlo(text)
    assert message in str(caught.value)


STRUCTURE = [
    (
        '"stablehlo.transpose"(%x) : (tensor<f32>) -> tensor<f32>',
        "needs the attribute 'permutation'",
    ),
    (
        '"stablehlo.transpose"(%x) <{permutation = 1 : i64}> : (tensor<f32>) -> tensor<f32>',
        "is integers",
    ),
    ('"stablehlo.add"(%x) : (tensor<f32>) -> tensor<f32>', "takes 2 operands, got 1"),
    ('"stablehlo.sort"(%x) : (tensor<f32>) -> tensor<f32>', "has 1 regions, got 0"),
    (
        '"stablehlo.negate"(%x) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)',
        "has one result, got 2",
    ),
    ('"stablehlo.if"(%x) ({}, {}) : (tensor<f32>) -> tensor<f32>', "ends with stablehlo.return"),
    (
        '"stablehlo.compare"(%x, %x) <{comparison_direction = "LT"}> : (tensor<f32>, tensor<f32>) -> tensor<i1>',
        "a word of the dialect",
    ),
]


@pytest.mark.parametrize(("line", "message"), STRUCTURE, ids=[m[:25] for _, m in STRUCTURE])
def test_structure_is_checked_when_read(line: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_stablehlo(f"func.func @main(%x: tensor<f32>) {{\n  {line}\n  return }}")
    assert message in str(caught.value) and "2:3:" in str(caught.value)


def test_sharding_constraints_change_no_values() -> None:
    module = parse_stablehlo("""sdy.mesh @mesh = <["x"=1]>
      func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = sdy.sharding_constraint %x <@mesh, [{"x"}]> : tensor<2xf32>
        return %0 : tensor<2xf32> }""")
    assert module.entry.root is module.entry.parameters[0]


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ("function_type = () -> ()", "a function needs a name"),
        ('sym_name = "f"', "a function needs a type"),
        ('function_type = (i32) -> (), sym_name = "f"', "arguments of the function's body"),
        ('arg_attrs = [1], function_type = () -> (), sym_name = "f"', "list of 0 dictionaries"),
    ],
)
def test_structure_of_functions(properties: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_stablehlo(f'"func.func"() <{{{properties}}}> ({{}}) : () -> ()')


def test_dimension_numbers_are_integers() -> None:
    text = """func.func @main(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
      %0 = "stablehlo.dot_general"(%x, %x) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [a], rhs_contracting_dimensions = [1]>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
      return %0 : tensor<2x2xf32> }"""
    with pytest.raises(ConversionError, match="expected a list of integers"):
        parse_stablehlo(text)


def test_entry_must_be_clear() -> None:
    with pytest.raises(ConversionError, match=r"no function is called @main \(there are: @a, @b\)"):
        parse_stablehlo("func.func @a() { return } func.func @b() { return }")
    module = parse_stablehlo("func.func @a() { return } func.func @b() { return }", entry="b")
    assert module.entry.name == "b"
    with pytest.raises(ConversionError, match="there is no function @c"):
        parse_stablehlo("func.func @a() { return }", entry="c")
    with pytest.raises(UnimplementedError, match="sizes must be known"):
        parse_stablehlo("func.func @main(%x: tensor<?xf32>) { return }")
