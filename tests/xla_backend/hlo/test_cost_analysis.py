"""Cost analysis: flops, transcendentals and bytes as XLA counts them."""

import pytest

from xla_backend.hlo.cost_analysis import Cost, CostAnalysis, analyze
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.fusion_rules import EXPENSIVE

CALLEES = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
inner { a = f32[4,6] parameter(0)
  b = f32[4,6] exponential(a)
  ROOT r = f32[4,6] add(a, b) }
cond { a = f32[] parameter(0)
  z = f32[] constant(9)
  ROOT r = pred[] compare(a, z), direction=LT }
body { a = f32[] parameter(0)
  ROOT r = f32[] add(a, a) }
"""
COSTS = [  # operands, instruction, (flops, transcendentals, bytes)
    (["f32[4,6]"], "f32[4,6] floor()", (24, 0, 192)),
    (["f32[4,6]"], "f32[4,6] tanh()", (0, 24, 192)),
    (["f32[4,6]", "f32[4,6]"], "pred[4,6] compare(), direction=LT", (24, 0, 216)),
    (["f32[]", "f32[4,6]", "f32[]"], "f32[4,6] clamp()", (24, 0, 200)),
    (["f32[4,6]"], "f32[4,6] copy()", (0, 0, 192)),
    (["f32[4,6]"], "f32[24] bitcast()", (0, 0, 0)),
    (["f32[4,6]"], "f32[24] reshape()", (0, 0, 192)),
    (["f32[4,6]"], "f32[2,3] slice(), slice={[1:3], [0:3]}", (0, 0, 48)),
    (
        ["f32[4,6]", "s32[]", "s32[]"],
        "f32[2,3] dynamic-slice(), dynamic_slice_sizes={2,3}",
        (0, 0, 52),
    ),
    (["f32[4,6]", "f32[2,3]", "s32[]", "s32[]"], "f32[4,6] dynamic-update-slice()", (0, 0, 52)),
    (
        ["f32[2,4,6]", "f32[2,6,5]"],
        "f32[2,4,5] dot(), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}",
        (480, 0, 592),
    ),
    (
        ["f32[11,5]", "f32[3,5,7]", "s32[3]"],
        "f32[11,7] ragged-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
        "lhs_ragged_dims={0}, rhs_group_dims={0}",
        (770, 0, 960),
    ),
    (
        ["f32[2,8]", "f32[8,3]", "f32[2,1]", "f32[]"],
        "f32[2,3] scaled-dot(), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        (96, 0, 196),
    ),
    (
        ["f32[4,6]"],
        "f32[2,6] reduce-scatter(), replica_groups={{0,1}}, dimensions={0}, to_apply=add",
        (12, 0, 144),
    ),
    (["f32[4,6]"], "((f32[4,6]), f32[4,6], u32[]) async-start(), calls=inner", (24, 24, 480)),
    (
        ["f32[1,8,8,3]", "f32[3,3,3,16]"],
        "f32[1,4,4,16] convolution(), window={size=3x3 stride=2x2 pad=0_1x0_1}, "
        "dim_labels=b01f_01io->b01f",
        (11616, 0, 3520),
    ),
    (["f32[4,6]", "f32[]"], "f32[4] reduce(), dimensions={1}, to_apply=add", (20, 0, 116)),
    (
        ["f32[1,8,8,3]", "f32[]"],
        "f32[1,4,4,3] reduce-window(), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0}, "
        "to_apply=add",
        (384, 0, 964),
    ),
    (
        ["f32[8,8]", "f32[4,4]", "f32[]"],
        "f32[8,8] select-and-scatter(), window={size=2x2 stride=2x2}, select=ge, scatter=add",
        (64, 0, 580),
    ),
    (
        ["f32[5,50]", "s64[5,9,1]", "f32[5,9]"],
        "f32[5,50] scatter(), update_window_dims={}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
        "scatter_indices_batching_dims={0}, "
        "index_vector_dim=2, to_apply=add",
        (45, 0, 900),
    ),
    (
        ["f32[50,6]", "s32[9,1]"],
        "f32[9,6] gather(), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={1,6}",
        (0, 0, 2 * 216 + 36),
    ),
    (["f32[4,6]"], "f32[4,6] sort(), dimensions={1}, to_apply=ge", (120, 0, 192)),
    (["f32[4,6]", "f32[4,6]"], "f32[4,6] map(), dimensions={0,1}, to_apply=add", (24, 0, 288)),
    (["c64[4,8]"], "c64[4,8] fft(), fft_type=FFT, fft_length={8}", (768, 0, 512)),
    (["f32[4,4]"], "f32[4,4] cholesky(), lower=true", (21, 0, 64)),
    (["f32[4,4]", "f32[4,2]"], "f32[4,2] triangular-solve(), left_side=true", (64, 0, 96)),
    (["u64[3]"], "(u64[3], u32[10]) rng-bit-generator(), algorithm=rng_philox", (0, 13, 88)),
    (["f32[4,6]"], "f32[4,6] call(), to_apply=inner", (24, 24, 192 + 288)),
    (["f32[4,6]"], "f32[4,6] fusion(), kind=kLoop, calls=inner", (24, 24, 192)),
    (["f32[]"], "f32[] while(), condition=cond, body=body", (2, 0, 9 + 12)),
    (
        ["f32[]"],
        'f32[] while(), condition=cond, body=body, backend_config={"known_trip_count":{"n":"7"}}',
        (14, 0, 7 * 21),
    ),
    (
        ["pred[]", "f32[4,6]", "f32[4,6]"],
        "f32[4,6] conditional(), true_computation=inner, false_computation=inner",
        (24, 24, 480),
    ),
    (["f32[4,6]"], 'f32[4,6] custom-call(), custom_call_target="f"', (0, 0, 192)),
    (["f32[4,6]", "f32[]"], "(f32[4,6], f32[]) tuple()", (0, 0, 16)),
]


@pytest.mark.parametrize("operands, line, expected", COSTS, ids=[c[1].split(",")[0] for c in COSTS])
def test_cost(operands, line, expected):
    declared = "".join(f" p{i} = {s} parameter({i})\n" for i, s in enumerate(operands))
    names = ", ".join(f"p{i}" for i in range(len(operands)))
    text = f"{CALLEES}ENTRY e {{\n{declared} ROOT r = {line.replace('()', f'({names})', 1)}\n}}"
    assert analyze(parse_module(text)) == Cost(*expected)


def test_costs_add_up_and_shared_callees_are_counted_per_call():
    module = parse_module(
        f"{CALLEES}ENTRY e {{ p = f32[4,6] parameter(0)\n q = f32[4,6] call(p), to_apply=inner\n"
        " ROOT r = f32[4,6] call(q), to_apply=inner }"
    )
    once = CostAnalysis().instruction(module.entry.root)
    assert analyze(module) == once + once == once.times(2)


def test_every_transcendental_function_costs_many_cycles():
    """But the square root, which is an instruction."""
    functions = [op for op in Opcode if op.is_transcendental and op.is_elementwise]
    assert {op for op in functions if op.cycles < EXPENSIVE} == {Opcode.SQRT}
    assert Opcode.EXPONENTIAL in functions and Opcode.REMAINDER not in functions


FUSED = """HloModule m
reads { stack = f32[100,8] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  row = f32[1,8] dynamic-slice(stack, i, z), dynamic_slice_sizes={1,8}
  ROOT r = f32[1,8] negate(row) }
writes { stack = f32[100,8] parameter(0)
  row = f32[1,8] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  ROOT r = f32[100,8] dynamic-update-slice(stack, row, i, z) }
both { stack = f32[100,8] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  row = f32[1,8] dynamic-slice(stack, i, z), dynamic_slice_sizes={1,8}
  twice = f32[100,8] add(stack, stack)
  ROOT r = (f32[1,8], f32[100,8]) tuple(row, twice) }
ENTRY e {
  stack = f32[100,8] parameter(0)
  i = s32[] parameter(1)
  f = f32[1,8] fusion(stack, i), kind=kLoop, calls=reads
  g = f32[100,8] fusion(stack, f, i), kind=kLoop, calls=writes
  ROOT h = (f32[1,8], f32[100,8]) fusion(g, i), kind=kLoop, calls=both
}
"""


@pytest.mark.parametrize(
    ("name", "bytes"),
    [("f", 32 + 4 + 32), ("g", 32 + 4 + 32), ("h", 3200 + 4 + 32 + 3200)],
)
def test_fusions_touch_the_slices_that_they_read_and_update(name: str, bytes: int) -> None:
    module = parse_module(FUSED)
    assert module.entry is not None
    (node,) = [n for n in module.entry if n.name == name]
    assert CostAnalysis().instruction(node).bytes_accessed == bytes


@pytest.mark.parametrize("taps", [3, 5, 40])
@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize(("low", "high"), [(0, 0), (20, 21), (-2, -1)])
def test_convolutions_multiply_what_lies_in_the_input(
    taps: int, stride: int, low: int, high: int
) -> None:
    size, dilation = 100, 2
    positions = (size + low + high - dilation * (taps - 1) - 1) // stride + 1
    window = f"{{size={taps} stride={stride} pad={low}_{high} rhs_dilate={dilation}}}"
    module = parse_module(f"""ENTRY e {{
      x = f32[1,{size},1] parameter(0)
      w = f32[{taps},1,1] parameter(1)
      ROOT r = f32[1,{positions},1] convolution(x, w), window={window}, dim_labels=b0f_0io->b0f
    }}""")
    assert module.entry is not None and module.entry.root is not None
    met = sum(
        0 <= position * stride + tap * dilation - low < size
        for position in range(positions)
        for tap in range(taps)
    )
    assert CostAnalysis().instruction(module.entry.root).flops == 2 * met
