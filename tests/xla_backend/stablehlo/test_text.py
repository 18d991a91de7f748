# ruff: noqa: E501
"""StableHLO text: what is printed reads back to the same text, pretty and generic."""

from __future__ import annotations

import pytest

from xla_backend.hlo.errors import ParseError
from xla_backend.stablehlo.parser import parse_module
from xla_backend.stablehlo.printer import module_to_text
from xla_backend.stablehlo.reader import unescape

# Operations as MLIR prints them, one row each; the arguments are those of `_function`.
PRETTY = """
%0 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32>
%0 = stablehlo.abs %arg6 : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
%0 = stablehlo.after_all %arg7, %arg7 : !stablehlo.token
%0 = stablehlo.broadcast_in_dim %arg10, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
%0 = stablehlo.broadcast %arg10, sizes = [4, 2] : (tensor<3xf32>) -> tensor<4x2x3xf32>
%0 = stablehlo.cholesky %arg9, lower = true : tensor<3x3xf32>
%0 = stablehlo.clamp %arg4, %arg0, %arg4 : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
%0 = stablehlo.compare LT, %arg0, %arg1, TOTALORDER : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
%0 = stablehlo.compare LT, %arg0, %arg1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
%0 = stablehlo.complex %arg0, %arg1 : tensor<2x3xcomplex<f32>>
%0 = stablehlo.composite "my.op" %arg0 {composite_attributes = {x = 1 : i64, y = [2, [3]]}, decomposition = @f, version = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
%0 = stablehlo.concatenate %arg0, %arg1, dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
%cst = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
%cst = stablehlo.constant {foo = 1 : i32} dense<0x7FC00000> : tensor<f32>
%c = stablehlo.constant dense<[[1, 2], [-3, 4]]> : tensor<2x2xi8>
%c = stablehlo.constant dense<> : tensor<0x2xi8>
%0 = stablehlo.convert %arg0 : tensor<2x3xf32>
%0 = stablehlo.create_token : !stablehlo.token
%0 = stablehlo.custom_call @foo(%arg0) {api_version = 2 : i32, backend_config = "a\\22c", called_computations = [@f], has_side_effect = true, mhlo.x = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
%0:2 = stablehlo.custom_call @"foo-x y"() {operand_layouts = [], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : () -> (tensor<2x3xf32>, tuple<>)
stablehlo.custom_call @check.expect_eq(%arg0, %arg1) {has_side_effect = true} : (tensor<2x3xf32>, tensor<2x3xf32>) -> ()
%0 = stablehlo.dot %arg0, %arg9, precision = [HIGH, DEFAULT] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
%0 = stablehlo.dot_general %arg0, %arg9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
%0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [1] x [1] {foo} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
%0 = stablehlo.dynamic_broadcast_in_dim %arg10, %arg11, dims = [1] {known_expanding_dimensions = array<i64>, known_nonexpanding_dimensions = array<i64: 0>} : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>
%0 = stablehlo.dynamic_iota %arg11, dim = 0 : (tensor<2xi32>) -> tensor<?x3xf32>
%0 = stablehlo.dynamic_slice %arg0, %arg5, %arg5, sizes = [1, 2] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
%0 = stablehlo.einsum %arg0, %arg9, config = "ij,jk->ik" : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
%0 = stablehlo.exponential %arg0 {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<2x3xf32>
%0 = stablehlo.fft %arg6, type = FFT, length = [3] : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xcomplex<f32>>
%0 = "stablehlo.gather"(%arg0, %arg3) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, indices_are_sorted = true, slice_sizes = array<i64: 1, 3>}> : (tensor<2x3xf32>, tensor<2x3xi32>) -> tensor<2x3x3xf32>
%0 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<2x3xf32>) -> tensor<i32>
%0 = stablehlo.tuple %arg0, %arg3 : tuple<tensor<2x3xf32>, tensor<2x3xi32>>
%0 = stablehlo.iota dim = 1 : tensor<2x3xi32>
%0:2 = stablehlo.optimization_barrier %arg0, %arg3 : tensor<2x3xf32>, tensor<2x3xi32>
%0 = stablehlo.pad %arg0, %arg4, low = [0, 1], high = [1, -1], interior = [0, 2] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x7xf32>
%0 = stablehlo.partition_id : tensor<ui32>
%0 = stablehlo.reduce(%arg0 init: %arg4) applies stablehlo.add across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
%0 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<2x3xf32>
%0 = stablehlo.reverse %arg0, dims = [1] : tensor<2x3xf32>
%0 = stablehlo.select %arg2, %arg0, %arg1 : tensor<2x3xi1>, tensor<2x3xf32>
%0 = stablehlo.set_dimension_size %arg0, %arg5, dim = 1 : (tensor<2x3xf32>, tensor<i32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
%0 = stablehlo.slice %arg0 [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>
%0 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
%0 = stablehlo.uniform_quantize %arg0 : (tensor<2x3xf32>) -> tensor<2x3x!quant.uniform<i8:f32:1, {0.5,0.25:1,1.5:-2}>>
%values, %indices = chlo.top_k(%arg0, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)
%0 = chlo.erf_inv %arg0 : tensor<2x3xf32> -> tensor<2x3xf32>
%0 = chlo.next_after %arg0, %arg1 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
%0 = chlo.broadcast_add %arg0, %arg10 {broadcast_dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
%0 = call @f(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
%0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {}]> : tensor<2x3xf32>
%0 = "other.op"(%arg0) {x = 1 : i8, y = @a::@b, z = tensor<2xf32>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
check.expect_eq_const %arg0, dense<1.000000e+00> : tensor<2x3xf32>
""".strip().splitlines()

_PARAMETERS = (
    "tensor<2x3xf32> tensor<2x3xf32> tensor<2x3xi1> tensor<2x3xi32> tensor<f32> tensor<i32> "
    "tensor<2x3xcomplex<f32>> !stablehlo.token tensor<2x3xui32> tensor<3x3xf32> tensor<3xf32> "
    "tensor<2xi32>"
).split()


def _function(line: str) -> str:
    parameters = ", ".join(f"%arg{i}: {t}" for i, t in enumerate(_PARAMETERS))
    return f"module {{\n  func.func @main({parameters}) {{\n    {line}\n    return\n  }}\n}}\n"


@pytest.mark.parametrize("line", PRETTY, ids=lambda line: line.split("(")[0].split("= ")[-1][:30])
def test_pretty_forms_print_as_they_were(line: str) -> None:
    text = _function(line)
    module = parse_module(text)
    assert module_to_text(module) == text
    generic = module_to_text(module, generic=True)
    assert module_to_text(parse_module(generic)) == text


@pytest.mark.parametrize(
    "escaped, text",
    [
        (r"\C3\A9", "é"),
        (r"a\F0\9F\98\80\22", 'a😀"'),
        (r"\FF\C3", "\udcff\udcc3"),  # bytes that are no UTF-8
        (r"\\C3\0A", "\\C3\n"),
    ],
)
def test_escapes_are_bytes_of_utf8(escaped: str, text: str) -> None:
    line = '%0 = stablehlo.abs %arg0 {"\\22NAME" = "NAME"} : tensor<2x3xf32>'
    written = _function(line.replace("NAME", escaped))
    module = parse_module(written)
    assert unescape(escaped) == text
    assert module_to_text(module) == written


REGIONS = """\
#map = affine_map<(d0) -> (d0)>
module @regions attributes {a.map = #map, mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<i32>) -> (tensor<4xf32> {jax.result_info = "result"}, tensor<i32>) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %arg0, %iterArg_0 = %c) : tensor<4xf32>, tensor<i32>
    cond {
      %2 = stablehlo.compare LT, %iterArg_0, %arg1, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %2 = stablehlo.add %iterArg_0, %c_1 : tensor<i32>
      %3 = func.call @double(%iterArg) : (tensor<4xf32>) -> tensor<4xf32>
      stablehlo.return %3, %2 : tensor<4xf32>, tensor<i32>
    }
    %1:2 = "stablehlo.sort"(%0#0, %0#0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>, %arg4: tensor<f32>, %arg5: tensor<f32>):
      %2 = stablehlo.compare LT, %arg2, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
    return %1#1, %0#1 : tensor<4xf32>, tensor<i32>
  }
  func.func private @double(%arg0: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"""


def test_regions_functions_and_names() -> None:
    expected = REGIONS.split("\n", 1)[1].replace("#map", "affine_map<(d0) -> (d0)>")
    assert module_to_text(parse_module(REGIONS)) == expected


# Values as MLIR writes them: six digits if enough, else all, else the bits.
FLOATS = [
    ("f32", "1.0", "1.000000e+00"),
    ("f32", "0.01", "0.00999999977"),
    ("f32", "1.0e-5", "9.99999974E-6"),
    ("f32", "123456792.0", "0x4CEB79A3"),
    ("f32", "12345.678", "12345.6777"),
    ("f32", "1.0e38", "9.99999968E+37"),
    ("f32", "-0.0", "-0.000000e+00"),
    ("f32", "0xFF800000", "0xFF800000"),
    ("f64", "0.1", "1.000000e-01"),
    ("f64", "3.141592653589793", "3.1415926535897931"),
    ("f64", "0.000123456789012", "1.23456789012E-4"),
    ("f64", "123456789.0", "0x419D6F3454000000"),
    ("f16", "3.140625", "3.140630e+00"),
    ("bf16", "0.1", "1.000980e-01"),
    ("f8E4M3FN", "0x7f", "0x7F"),
]


@pytest.mark.parametrize(("kind", "text", "printed"), FLOATS)
def test_floats(kind: str, text: str, printed: str) -> None:
    module = parse_module(_function(f"%c = stablehlo.constant dense<{text}> : tensor<{kind}>"))
    assert f"dense<{printed}> : tensor<{kind}>" in module_to_text(module)


DENSE = [
    ('dense<"0x000102030405060708090a0b0c0d0e0f"> : tensor<2xi64>', "506097522914230528"),
    ('dense<"0x05000000"> : tensor<3xi32>', "dense<5> : tensor<3xi32>"),
    ('dense<"0x010001"> : tensor<3xi1>', "dense<[true, false, true]>"),
    ("dense<[1, 1]> : tensor<2xui8>", "dense<1> : tensor<2xui8>"),
    ("dense<255> : tensor<i8>", "dense<-1> : tensor<i8>"),
    ("dense<[(1.0, 2.0), (0.5, -0.0)]> : tensor<2xcomplex<f32>>", "(5.000000e-01,-0.000000e+00)"),
    ("dense<0x7F800000> : tensor<2xf32>", "dense<0x7F800000> : tensor<2xf32>"),
    (f"dense<[{', '.join(map(str, range(101)))}]> : tensor<101xi8>", 'dense<"0x000102030405'),
]


@pytest.mark.parametrize(("text", "printed"), DENSE, ids=[text[:30] for text, _ in DENSE])
def test_dense_constants(text: str, printed: str) -> None:
    once = module_to_text(parse_module(_function(f"%c = stablehlo.constant {text}")))
    assert printed in once
    assert module_to_text(parse_module(once)) == once


def test_locations_print_only_on_request() -> None:
    text = """
      #loc1 = loc("a.py":3:4 to :9)
      func.func @main(%x: tensor<f32> loc("x")) -> tensor<f32> {
        %0 = stablehlo.sine %x : tensor<f32> loc("jit(f)/sin"(#loc1))
        %1 = stablehlo.sine %0 : tensor<f32> loc(#loc2)
        return %1 : tensor<f32> loc(callsite(#loc1 at fused["a", unknown]))
      }
      #loc2 = loc(unknown)"""
    module = parse_module(text)
    assert "loc(" not in module_to_text(module)
    shown = module_to_text(module, debug_info=True)
    assert 'loc("a.py":3:4 to :9)' in shown and 'loc("jit(f)/sin"(#loc2))' in shown
    assert "loc(callsite(#loc2 at #loc5" in shown and "= loc(fused[#loc3, #loc])" in shown
    assert module_to_text(parse_module(shown), debug_info=True) == shown


# Malformed texts: the operation, and what the message must say (line, column and cause).
ERRORS = [
    ("%0 = stablehlo.addd %arg0, %arg1 : tensor<2x3xf32>", "did you mean stablehlo.add?"),
    ('%0 = "stablehlo.foo"(%arg0) : (tensor<2x3xf32>) -> tensor<2x3xf32>', "no operation"),
    ("%0 = stablehlo.add %arg0, %arg99 : tensor<2x3xf32>", "3:31: %arg99 is not defined"),
    ("%0 = stablehlo.add %arg0, %arg4 : tensor<2x3xf32>", "operand 1 has type tensor<f32>, not"),
    ("%0 = stablehlo.add %arg0, %arg1", "expected ':'"),
    ("%0:2 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32>", "has 1 results, 2 are named"),
    ("%0 = stablehlo.add %arg0, %arg0#1 : tensor<2x3xf32>", "there is no #1"),
    ("%arg0 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32>", "%arg0 is defined twice"),
    ("%0 = stablehlo.compare LX, %arg0, %arg1 : tensor<f32>", "'LX' is not one of EQ, NE"),
    ("%0 = stablehlo.constant dense<[1, [2]]> : tensor<2xi32>", "different lengths"),
    ("%0 = stablehlo.constant dense<[1, 2]> : tensor<3xi32>", "elements of shape [2] do not fit"),
    ("%0 = stablehlo.constant dense<1> : tensor<f32>", "write '1.0'"),
    ("%0 = stablehlo.constant dense<300> : tensor<i8>", "300 is out of range for i8"),
    ("%0 = stablehlo.constant dense<1.5> : tensor<i8>", "expected an integer for i8"),
    ('%0 = stablehlo.constant dense<"0x00"> : tensor<2xi32>', "the blob has 1 bytes"),
    ("%0 = stablehlo.constant dense<0> : tensor<?xi32>", "needs a static shape"),
    ("%0 = stablehlo.iota dim = 0 : tensor<2xq32>", "expected a type"),
    ("%0 = stablehlo.iota dim = 0 : !foo", "no type alias '!foo'"),
    ("%0 = stablehlo.iota dim = 0 {a = #foo} : tensor<2xi32>", "no attribute alias '#foo'"),
    ("%0 = stablehlo.iota dim = 0 {a = 1, a = 2} : tensor<2xi32>", "'a' is given twice"),
    ("%0 = stablehlo.gather %arg0", "has no pretty form"),
    ("%0 = stablehlo.dot_general %arg0, %arg1, foo = 1", "'foo' is not a part of dot_general"),
    ("%0 = stablehlo.select %arg2, %arg0 : tensor<2x3xi1>, tensor<2x3xf32>", "3 operand types"),
    ('%0 = "stablehlo.abs"(%arg0) ({ : (tensor<f32>) -> tensor<f32>', "expected an operation"),
    ("}", "expected the end of the text after the module"),
]


@pytest.mark.parametrize(("line", "message"), ERRORS, ids=[m[:25] for _, m in ERRORS])
def test_errors_show_line_and_caret(line: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_module(_function(line))
    text = str(caught.value)
    assert message in text
    assert text.splitlines()[-1].strip() == "^"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got an empty text"),
        ("module {", "the text ends inside the module"),
        ("module {} x", "expected the end of the text"),
        ("func.func @f() {", "the text ends inside a region"),
        ("func.func @f(%a: tensor<f32>, %a: tensor<f32>) { return }", "%a is defined twice"),
        ("func.func @f(" + "tuple<" * 1000, "nested more than"),
    ],
)
def test_errors_of_modules(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message.replace("(", r"\(")):
        parse_module(text)
