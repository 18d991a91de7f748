"""Shape inference: results of each opcode. What it refuses is in test_constraints.py."""

import pytest

from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.errors import ShapeInferenceError
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module, parse_shape
from xla_backend.hlo.shape_inference import (
    RULES,
    infer_shape,
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
    (
        ["f32[11,5]", "f32[3,5,7]", "s32[3]"],
        "ragged-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
        "rhs_group_dims={0}",
        "f32[11,7]",
    ),
    (
        ["f32[4,9]", "f32[9,6]", "s32[3]"],
        "ragged-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}",
        "f32[3,4,6]",
    ),
    (
        ["f32[4]", "f32[2]"],
        "all-gather(), replica_groups={{0,1}}, dimensions={0}",
        "(f32[8], f32[4])",
    ),
    (
        ["f32[4]"],
        "all-gather-start(), replica_groups={{0,1}}, dimensions={0}",
        "(f32[4], f32[8])",
    ),
    (["(f32[4], f32[8])"], "all-gather-done()", "f32[8]"),
    (
        ["f32[4]"],
        "reduce-scatter(), replica_groups={{0,1}}, dimensions={0}, to_apply=add",
        "f32[2]",
    ),
    (["f32[4]", "f32[4]"], "all-to-all(), replica_groups={{0,1}}", "(f32[4], f32[4])"),
    (["f32[4]"], "copy-start()", "(f32[4], f32[4], u32[])"),
    (["f32[4]", "token[]"], "send(), channel_id=1", "(f32[4], u32[], token[])"),
    (["(f32[4], u32[], token[])"], "recv-done(), channel_id=1", "(f32[4], token[])"),
    (["f32[4]"], "async-start(), calls=vec", "((f32[4]), f32[4])"),
    (["((f32[4]), f32[4], u32[])"], "async-done()", "f32[4]"),
    (["f32[2,<=3]", "f32[<=2,3]"], "add()", "f32[<=2,<=3]"),
    (["f32[2,<=3]"], "transpose(), dimensions={1,0}", "f32[<=3,2]"),
    (["f32[4,<=6]", "f32[]"], f"reduce(), {REDUCE}", "f32[4]"),
    (["f32[<=4,6]", "f32[]"], f"reduce(), {REDUCE}", "f32[<=4]"),
    (
        ["f32[<=2,3]", "f32[3,<=4]"],
        "dot(), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "f32[<=2,<=4]",
    ),
    (["f32[<=4]", "f32[3]"], "concatenate(), dimensions={0}", "f32[<=7]"),
    (["f32[2,6]", "s32[]"], "set-dimension-size(), dimensions={1}", "f32[2,<=6]"),
]


@pytest.mark.parametrize("operands, line, expected", GOOD, ids=[g[1] for g in GOOD])
def test_inferred_shape(operands, line, expected):
    assert infer(operands, line) == parse_shape(expected)


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
