"""Shape inference: results of each opcode, and one failing case per constraint."""

import pytest

from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.errors import ShapeInferenceError
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module, parse_shape
from xla_backend.hlo.shape_inference import (
    RULES,
    infer_shape,
    infer_shape_from_shapes,
    needs_given_shape,
)

CALLEES = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
vec { a = f32[4] parameter(0)
  ROOT r = f32[4] negate(a) }
yes { a = f32[4] parameter(0)
  ROOT r = pred[] constant(true) }
scal { a = f32[] parameter(0)
  ROOT r = f32[] negate(a) }
"""


def node_of(operands, line, result="f32[]"):
    """The instruction `result line` whose operands %0, %1 ... have the given shapes; nothing is
    checked yet."""
    declared = "".join(f" a{i} = {s} parameter({i})\n" for i, s in enumerate(operands))
    line = line.replace("()", "(" + ", ".join(f"a{i}" for i in range(len(operands))) + ")", 1)
    return parse_module(f"{CALLEES}ENTRY e {{\n{declared} ROOT r = {result} {line}\n}}").entry.root


def infer(operands, line, result=None):
    node = node_of(operands, line, result or "f32[]")
    given = parse_shape(result) if result else None
    return infer_shape(node.opcode, node.operands, node.attributes, node.called, given)


REDUCE = "dimensions={1}, to_apply=add"
GATHER = (
    "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1,6}"
)
SCATTER = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=add"
)
CONV = "window={size=3}, dim_labels=b0f_0io->b0f"
GOOD = [
    (["f32[2]", "f32[2]"], "add()", "f32[2]"),
    (["f32[2]{0}", "f32[2]"], "power()", "f32[2]"),
    (["c64[2]"], "abs()", "f32[2]"),
    (["f64[2]"], "imag()", "f64[2]"),
    (["bf16[2]"], "is-finite()", "pred[2]"),
    (["s8[2]", "s8[2]"], "compare(), direction=LT", "pred[2]"),
    (["f64[]", "f64[]"], "complex()", "c128[]"),
    (["pred[]", "f32[2]", "f32[2]"], "select()", "f32[2]"),
    (["pred[]", "(f32[2], s32[])", "(f32[2], s32[])"], "select()", "(f32[2], s32[])"),
    (["f32[]", "f32[2]", "f32[2]"], "clamp()", "f32[2]"),
    (["f32[3]", "f32[3]"], "map(), dimensions={0}, to_apply=ge", "pred[3]"),
    (["f32[4,6]"], "transpose(), dimensions={1,0}", "f32[6,4]"),
    (["f32[4,6]"], "reverse(), dimensions={1}", "f32[4,6]"),
    (["f32[4,6]", "f32[1,6]"], "concatenate(), dimensions={0}", "f32[5,6]"),
    (["f32[4,6]"], "slice(), slice={[1:4:2], [0:6]}", "f32[2,6]"),
    (["f32[4]", "s32[]"], "dynamic-slice(), dynamic_slice_sizes={3}", "f32[3]"),
    (["f32[4]", "f32[2]", "s64[]"], "dynamic-update-slice()", "f32[4]"),
    (["f32[4,6]", "f32[]"], "pad(), padding=1_2_1x-1_0", "f32[10,5]"),
    (["f32[0]", "f32[]"], "pad(), padding=1_2_7", "f32[3]"),
    (["f32[4]"], "get-dimension-size(), dimensions={0}", "s32[]"),
    (["f32[4]", "(s32[], f32[2])"], "tuple()", "(f32[4], (s32[], f32[2]))"),
    (["(s32[], f32[2])"], "get-tuple-element(), index=1", "f32[2]"),
    (["f32[4]"], "call(), to_apply=vec", "f32[4]"),
    (["f32[4]"], "fusion(), kind=kLoop, calls=vec", "f32[4]"),
    (["f32[4]"], "while(), condition=yes, body=vec", "f32[4]"),
    (
        ["pred[]", "f32[4]", "f32[4]"],
        "conditional(), true_computation=vec, false_computation=vec",
        "f32[4]",
    ),
    (["s32[]", "f32[4]"], "conditional(), branch_computations={vec}", "f32[4]"),
    (
        ["f32[7,2,3]", "f32[3,7,5]"],
        "dot(), lhs_batch_dims={0}, rhs_batch_dims={1}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={0}",
        "f32[7,2,5]",
    ),
    (["bf16[2]", "f32[2]"], "dot(), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "f32[]"),
    (["f32[2,9,4]", "f32[3,4,8]"], f"convolution(), {CONV}", "f32[2,7,8]"),
    (
        ["f32[2,9,4]", "f32[3,1,8]"],
        f"convolution(), {CONV}, feature_group_count=4",
        "f32[2,7,8]",
    ),
    (["f32[4,9,2]", "f32[3,2,8]"], f"convolution(), {CONV}, batch_group_count=4", "f32[1,7,8]"),
    (["f32[4,6]", "f32[]"], f"reduce(), {REDUCE}", "f32[4]"),
    (
        ["f32[5,6]", "f32[]"],
        "reduce-window(), window={size=2x3 stride=2x1 pad=0_1x1_1 lhs_dilate=1x2 rhs_dilate=1x2}, "
        "to_apply=add",
        "f32[3,9]",
    ),
    (["f32[1]", "f32[]"], "reduce-window(), window={size=3}, to_apply=add", "f32[0]"),
    (
        ["f32[4]", "f32[2]", "f32[]"],
        "select-and-scatter(), window={size=2 stride=2}, select=ge, scatter=add",
        "f32[4]",
    ),
    (["f32[5,6]", "s32[3,1]"], f"gather(), {GATHER}", "f32[3,6]"),
    (["f32[5,6]", "s32[3]"], f"gather(), {GATHER}", "f32[3,6]"),
    (["f32[5,6]", "s32[3,1]", "f32[3,6]"], f"scatter(), {SCATTER}", "f32[5,6]"),
    (["f32[5,6]"], "sort(), dimensions={0}, to_apply=ge", "f32[5,6]"),
    (["bf16[5,6]"], "topk(), k=2", "(bf16[5,2], s32[5,2])"),
    (["f32[3,8]"], "fft(), fft_type=RFFT, fft_length={8}", "c64[3,5]"),
    (["c128[3,5]"], "fft(), fft_type=IRFFT, fft_length={9}", "f64[3,9]"),
    (["f32[2,3,3]"], "cholesky()", "f32[2,3,3]"),
    (["f32[3,3]", "f32[5,3]"], "triangular-solve(), left_side=false", "f32[5,3]"),
    (
        ["f32[2,4]", "f32[4]", "f32[4]"],
        "batch-norm-training(), epsilon=0.1, feature_index=1",
        "(f32[2,4], f32[4], f32[4])",
    ),
    (["token[]", "token[]"], "after-all()", "token[]"),
]


@pytest.mark.parametrize("operands, line, expected", GOOD, ids=[g[1] for g in GOOD])
def test_inferred_shape(operands, line, expected):
    assert infer(operands, line) == parse_shape(expected)


# name of the constraint, operands, instruction, given shape, message
BAD = [
    ("elementwise_dimensions", ["f32[2]", "f32[3]"], "add()", None, "insert a broadcast"),
    ("elementwise_no_implicit_broadcast", ["f32[2]", "f32[]"], "add()", None, "equal dimensions"),
    ("elementwise_types", ["f32[2]", "f64[2]"], "add()", None, "equal element types"),
    ("elementwise_arity", ["f32[2]", "f32[2]", "f32[2]"], "add()", None, None),
    ("elementwise_tuple", ["(f32[2])"], "negate()", None, "get-tuple-element"),
    ("sine_type", ["s32[2]"], "sine()", None, "floating-point or complex, is s32"),
    ("not_type", ["f32[2]"], "not()", None, "integer or pred"),
    ("maximum_type", ["c64[2]", "c64[2]"], "maximum()", None, "not complex"),
    ("shift_type", ["f32[2]", "f32[2]"], "shift-left()", None, "integer"),
    ("complex_type", ["f16[2]", "f16[2]"], "complex()", None, "f32 or f64"),
    ("select_predicate", ["s32[2]", "f32[2]", "f32[2]"], "select()", None, "must be pred"),
    ("select_values", ["pred[2]", "f32[2]", "s32[2]"], "select()", None, "equal shapes"),
    ("select_shape", ["pred[3]", "f32[2]", "f32[2]"], "select()", None, "scalar or have"),
    ("clamp_bound", ["f32[3]", "f32[2]", "f32[]"], "clamp()", None, "scalar or have"),
    ("clamp_type", ["s32[]", "f32[2]", "f32[]"], "clamp()", None, "equal element types"),
    ("convert_dimensions", ["f32[2]"], "convert()", "s32[3]", "Use reshape"),
    ("convert_needs_shape", ["f32[2]"], "convert()", None, "Pass shape="),
    ("bitcast_convert_width", ["u8[3]"], "bitcast-convert()", "u32[]", "must be 4"),
    ("bitcast_convert_result", ["u32[3]"], "bitcast-convert()", "u8[3]", "must be u8"),
    ("bitcast_convert_pred", ["pred[3]"], "bitcast-convert()", "u8[3]", "u8"),
    (
        "reduce_precision_bits",
        ["f32[2]"],
        "reduce-precision(), exponent_bits=0, mantissa_bits=2",
        None,
        "at least 1",
    ),
    ("map_callee", ["f32[2]"], "map(), dimensions={0}, to_apply=add", None, "to_apply %add takes"),
    ("reshape_count", ["f32[2]"], "reshape()", "f32[3]", "2 elements to 3"),
    ("reshape_type", ["f32[2]"], "reshape()", "s32[2]", "keeps the element type"),
    ("bitcast_size", ["f32[2]"], "bitcast()", "f32[3]", "8 bytes"),
    ("broadcast_size", ["f32[1]"], "broadcast(), dimensions={0}", "f32[3]", "does not stretch"),
    ("broadcast_count", ["f32[3]"], "broadcast(), dimensions={}", "f32[3]", "per operand"),
    ("broadcast_twice", ["f32[3,3]"], "broadcast(), dimensions={0,0}", "f32[3,3]", "twice"),
    ("broadcast_range", ["f32[3]"], "broadcast(), dimensions={1}", "f32[3]", "out of range"),
    ("transpose_permutation", ["f32[3,4]"], "transpose(), dimensions={0,0}", None, "permutation"),
    ("reverse_range", ["f32[3]"], "reverse(), dimensions={1}", None, "out of range"),
    ("concatenate_sizes", ["f32[3,2]", "f32[3,3]"], "concatenate(), dimensions={0}", None, "only"),
    ("concatenate_types", ["f32[3]", "s32[3]"], "concatenate(), dimensions={0}", None, "differ"),
    ("concatenate_range", ["f32[3]", "f32[3]"], "concatenate(), dimensions={1}", None, "range"),
    ("concatenate_empty", [], "concatenate(), dimensions={1}", None, "at least one"),
    ("slice_limit", ["f32[3]"], "slice(), slice={[0:4]}", None, "not inside 0..3"),
    ("slice_order", ["f32[3]"], "slice(), slice={[2:1]}", None, "not inside"),
    ("slice_stride", ["f32[3]"], "slice(), slice={[0:3:0]}", None, "must be positive"),
    ("slice_rank", ["f32[3]"], "slice(), slice={[0:3], [0:1]}", None, "for each dimension"),
    (
        "dynamic_slice_size",
        ["f32[3]", "s32[]"],
        "dynamic-slice(), dynamic_slice_sizes={4}",
        None,
        "ex",
    ),
    (
        "dynamic_slice_starts",
        ["f32[3]"],
        "dynamic-slice(), dynamic_slice_sizes={2}",
        None,
        "needs 1",
    ),
    (
        "dynamic_slice_index_type",
        ["f32[3]", "f32[]"],
        "dynamic-slice(), dynamic_slice_sizes={2}",
        None,
        "integer scalar",
    ),
    ("dus_size", ["f32[3]", "f32[4]", "s32[]"], "dynamic-update-slice()", None, "exceeds"),
    ("dus_rank", ["f32[3]", "f32[]", "s32[]"], "dynamic-update-slice()", None, "same rank"),
    ("dus_type", ["f32[3]", "s32[2]", "s32[]"], "dynamic-update-slice()", None, "types differ"),
    ("pad_value", ["f32[3]", "f32[1]"], "pad(), padding=1_1", None, "must be a scalar"),
    ("pad_type", ["f32[3]", "s32[]"], "pad(), padding=1_1", None, "types differ"),
    ("pad_negative", ["f32[3]", "f32[]"], "pad(), padding=-2_-2", None, "negative size"),
    ("pad_rank", ["f32[3]", "f32[]"], "pad(), padding=1_1x1_1", None, "each dimension"),
    ("iota_range", [], "iota(), iota_dimension=1", "f32[3]", "out of range"),
    ("iota_scalar", [], "iota(), iota_dimension=0", "f32[]", "rank >= 1"),
    ("gte_index", ["(f32[])"], "get-tuple-element(), index=1", None, "out of range"),
    ("gte_array", ["f32[]"], "get-tuple-element(), index=0", None, "must be a tuple"),
    ("while_condition", ["f32[4]"], "while(), condition=vec, body=vec", None, "condition %vec ret"),
    ("while_body", ["f32[]"], "while(), condition=ge, body=scal", None, "condition %ge takes"),
    (
        "conditional_operands",
        ["s32[]"],
        "conditional(), branch_computations={vec}",
        None,
        "1 operands after",
    ),
    (
        "conditional_predicate",
        ["s32[]", "f32[4]", "f32[4]"],
        "conditional(), true_computation=vec, false_computation=vec",
        None,
        r"must be pred\[\]",
    ),
    (
        "conditional_index",
        ["s64[]", "f32[4]"],
        "conditional(), branch_computations={vec}",
        None,
        r"must be s32\[\]",
    ),
    (
        "conditional_results",
        ["pred[]", "f32[4]", "f32[]"],
        "conditional(), true_computation=vec, false_computation=scal",
        None,
        r"returns f32\[\]",
    ),
    ("call_signature", ["f32[5]"], "call(), to_apply=vec", None, "callee %vec takes"),
    ("after_all_token", ["f32[]"], "after-all()", None, "must be tokens"),
    (
        "dot_contract_size",
        ["f32[2]", "f32[3]"],
        "dot(), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        None,
        "sizes 2 and 3",
    ),
    (
        "dot_contract_count",
        ["f32[2]", "f32[2]"],
        "dot(), lhs_contracting_dims={0}, rhs_contracting_dims={}",
        None,
        "as many",
    ),
    (
        "dot_twice",
        ["f32[2]", "f32[2]"],
        "dot(), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={0}, "
        "rhs_contracting_dims={0}",
        None,
        "twice",
    ),
    (
        "dot_types",
        ["s32[2]", "f32[2]"],
        "dot(), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        None,
        "equal element types",
    ),
    ("conv_rank", ["f32[2,9,4]", "f32[3,4]"], f"convolution(), {CONV}", None, "same rank"),
    (
        "conv_features",
        ["f32[2,9,5]", "f32[3,4,8]"],
        f"convolution(), {CONV}",
        None,
        "input features 5",
    ),
    (
        "conv_window",
        ["f32[2,9,4]", "f32[2,4,8]"],
        f"convolution(), {CONV}",
        None,
        "differs from the kernel",
    ),
    (
        "conv_groups",
        ["f32[2,9,4]", "f32[3,1,6]"],
        f"convolution(), {CONV}, feature_group_count=4",
        None,
        "must divide",
    ),
    (
        "conv_batch_groups",
        ["f32[2,9,4]", "f32[3,4,6]"],
        f"convolution(), {CONV}, batch_group_count=3",
        None,
        "batch 2 must divide",
    ),
    (
        "conv_both_groups",
        ["f32[2,9,4]", "f32[3,2,6]"],
        f"convolution(), {CONV}, feature_group_count=2, batch_group_count=2",
        None,
        "must be 1",
    ),
    (
        "conv_labels",
        ["f32[2,9,4]", "f32[3,4,8]"],
        "convolution(), window={size=3x3}, dim_labels=b01f_01io->b01f",
        None,
        "each of the 3",
    ),
    ("reduce_range", ["f32[4]", "f32[]"], f"reduce(), {REDUCE}", None, "out of range"),
    ("reduce_init", ["f32[4,2]", "f32[1]"], f"reduce(), {REDUCE}", None, "must be a scalar"),
    ("reduce_init_type", ["f32[4,2]", "s32[]"], f"reduce(), {REDUCE}", None, "differs in type"),
    (
        "reduce_pairs",
        ["f32[4,2]", "f32[]", "f32[]"],
        f"reduce(), {REDUCE}",
        None,
        "as many initial",
    ),
    ("reduce_callee", ["s32[4,2]", "s32[]"], f"reduce(), {REDUCE}", None, "to_apply %add takes"),
    (
        "reduce_callee_result",
        ["f32[4]", "f32[]"],
        "reduce(), dimensions={0}, to_apply=ge",
        None,
        "must return",
    ),
    (
        "window_rank",
        ["f32[4]", "f32[]"],
        "reduce-window(), window={size=2x2}, to_apply=add",
        None,
        "needs 1",
    ),
    (
        "window_stride",
        ["f32[4]", "f32[]"],
        "reduce-window(), window={size=2 stride=0}, to_apply=add",
        None,
        "stride",
    ),
    (
        "select_and_scatter_source",
        ["f32[4]", "f32[3]", "f32[]"],
        "select-and-scatter(), window={size=2 stride=2}, select=ge, scatter=add",
        None,
        r"must be f32\[2\]",
    ),
    (
        "select_and_scatter_select",
        ["f32[4]", "f32[2]", "f32[]"],
        "select-and-scatter(), window={size=2 stride=2}, select=add, scatter=add",
        None,
        "select %add returns",
    ),
    ("gather_index_type", ["f32[5,6]", "f32[3,1]"], f"gather(), {GATHER}", None, "integers"),
    ("gather_index_vector", ["f32[5,6]", "s32[3,2]"], f"gather(), {GATHER}", None, "index vector"),
    ("gather_slice_size", ["f32[5,4]", "s32[3,1]"], f"gather(), {GATHER}", None, "slice size 6"),
    (
        "gather_collapsed",
        ["f32[5,6]", "s32[3,1]"],
        f"gather(), {GATHER}".replace("{1,6}", "{2,6}"),
        None,
        "must be 1",
    ),
    (
        "gather_offsets",
        ["f32[5,6]", "s32[3,1]"],
        f"gather(), {GATHER}".replace("offset_dims={1}", "offset_dims={}"),
        None,
        "must name 1",
    ),
    (
        "scatter_updates",
        ["f32[5,6]", "s32[3,1]", "f32[4,6]"],
        f"scatter(), {SCATTER}",
        None,
        "batch sizes",
    ),
    (
        "scatter_window",
        ["f32[5,6]", "s32[3,1]", "f32[3,7]"],
        f"scatter(), {SCATTER}",
        None,
        "exceeds",
    ),
    (
        "scatter_type",
        ["f32[5,6]", "s32[3,1]", "s32[3,6]"],
        f"scatter(), {SCATTER}",
        None,
        "types differ",
    ),
    (
        "scatter_rank",
        ["f32[5,6,7]", "s32[3,1]", "f32[3,6]"],
        f"scatter(), {SCATTER}",
        None,
        "rank 3",
    ),
    ("scatter_operands", ["f32[5,6]", "s32[3,1]"], f"scatter(), {SCATTER}", None, "n updates"),
    ("sort_range", ["f32[5]"], "sort(), dimensions={1}, to_apply=ge", None, "out of range"),
    ("sort_comparator", ["f32[5]"], "sort(), dimensions={0}, to_apply=add", None, "must return"),
    ("topk_k", ["f32[5]"], "topk(), k=6", None, "exceeds"),
    ("fft_type", ["f32[8]"], "fft(), fft_type=FFT, fft_length={8}", None, "c64 or c128"),
    ("fft_length", ["f32[8]"], "fft(), fft_type=RFFT, fft_length={9}", None, "last dimensions"),
    ("cholesky_square", ["f32[3,4]"], "cholesky()", None, "must be equal"),
    ("cholesky_type", ["s32[3,3]"], "cholesky()", None, "floating-point or complex"),
    (
        "triangular_rows",
        ["f32[3,3]", "f32[4,3]"],
        "triangular-solve(), left_side=true",
        None,
        "4 rows",
    ),
    ("triangular_batch", ["f32[2,3,3]", "f32[3,3]"], "triangular-solve()", None, "batch dim"),
    (
        "batch_norm_feature",
        ["f32[2,4]", "f32[2]", "f32[4]"],
        "batch-norm-training(), epsilon=0.1, feature_index=1",
        None,
        "per-feature",
    ),
    (
        "batch_norm_index",
        ["f32[2,4]", "f32[4]", "f32[4]"],
        "batch-norm-training(), epsilon=0.1, feature_index=2",
        None,
        "out of range",
    ),
    ("rng_parameters", ["f32[2]", "f32[]"], "rng(), distribution=rng_uniform", "f32[5]", "scalars"),
    (
        "rng_state",
        ["f32[2]"],
        "rng-bit-generator(), algorithm=rng_philox",
        "(f32[2], u32[5])",
        "u64",
    ),
    ("rng_result", ["u64[2]"], "rng-bit-generator(), algorithm=rng_philox", "u32[5]", "bits"),
]


@pytest.mark.parametrize(
    "operands, line, given, message", [b[1:] for b in BAD], ids=[b[0] for b in BAD]
)
def test_broken_constraint(operands, line, given, message):
    if message is None:  # the parser refuses a wrong number of operands already
        shapes = [parse_shape(s) for s in operands]
        with pytest.raises(ShapeInferenceError, match="takes 2 operand"):
            infer_shape_from_shapes(Opcode.ADD, shapes)
        return
    with pytest.raises(ShapeInferenceError, match=message) as caught:
        infer(operands, line, given)
    opcode = line.split("(")[0]
    assert str(caught.value).startswith(f"{opcode}({', '.join(operands)})")


def test_every_opcode_has_a_rule():
    assert set(RULES) == set(Opcode)


def test_given_shapes_are_needed_exactly_where_declared():
    assert needs_given_shape(Opcode.RESHAPE) and not needs_given_shape(Opcode.ADD)


def test_given_type_of_dot_and_convolution_wins():
    dot = "dot(), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
    assert infer(["s8[2]", "s8[2]"], dot, "s32[]") == parse_shape("s32[]")
    assert infer(
        ["bf16[2,9,4]", "bf16[3,4,8]"], f"convolution(), {CONV}", "f32[2,7,8]"
    ) == parse_shape("f32[2,7,8]")


def test_builder_infers_and_checks():
    builder = HloBuilder("c")
    p = builder.parameter(0, parse_shape("f32[2]"))
    q = builder.parameter(1, parse_shape("f32[3]"))
    assert builder.add(Opcode.ADD, (p, p)).shape == parse_shape("f32[2]")
    with pytest.raises(ShapeInferenceError, match=r"add\(f32\[2\], f32\[3\]\)"):
        builder.add(Opcode.ADD, (p, q))
