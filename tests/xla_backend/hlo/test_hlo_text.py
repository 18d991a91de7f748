"""Printing and parsing HLO text: exact text of every opcode, round trips, styles, header, source
tables."""

import pytest

from xla_backend.hlo.errors import ParseError
from xla_backend.hlo.module import source_location
from xla_backend.hlo.parser import parse_module, parse_shape
from xla_backend.hlo.printer import (
    PrintOptions,
    computation_to_text,
    instruction_to_text,
    module_to_text,
)
from xla_backend.hlo.verifier import verify

SCALAR_ADD = """
add {
  a_ = f32[] parameter(0)
  b_ = f32[] parameter(1)
  ROOT out = f32[] add(a_, b_)
}
ge {
  a_ = f32[] parameter(0)
  b_ = f32[] parameter(1)
  ROOT out = pred[] compare(a_, b_), direction=GE
}
pair {
  a_ = f32[] parameter(0)
  b_ = f32[] parameter(1)
  c_ = f32[] parameter(2)
  d_ = f32[] parameter(3)
  s_ = f32[] add(a_, c_)
  t_ = f32[] add(b_, d_)
  ROOT out = (f32[], f32[]) tuple(s_, t_)
}
flip {
  a_ = f32[4,6] parameter(0)
  s_ = f32[4,6] negate(a_)
  ROOT out = f32[4,6] tanh(s_)
}
neg {
  a_ = f32[4,6] parameter(0)
  ROOT out = f32[4,6] negate(a_)
}
cond {
  t_ = (s32[]) parameter(0)
  i_ = s32[] get-tuple-element(t_), index=0
  n_ = s32[] constant(9)
  ROOT c_ = pred[] compare(i_, n_), direction=LT
}
body {
  t_ = (s32[]) parameter(0)
  i_ = s32[] get-tuple-element(t_), index=0
  o_ = s32[] constant(1)
  j_ = s32[] add(i_, o_)
  ROOT out = (s32[]) tuple(j_)
}
scan_body {
  a_ = f32[] parameter(0)
  b_ = f32[] parameter(1)
  s_ = f32[] add(a_, b_)
  ROOT t_ = (f32[], f32[]) tuple(s_, s_)
}
"""

# Parameters by letter; the instruction is printed back exactly (long style).
PARAMETERS = {
    "p": "f32[4,6]",
    "q": "f32[4,6]",
    "i": "s32[]",
    "j": "s32[]",
    "z": "f32[]",
    "b": "pred[]",
    "n": "s32[4]",
    "c": "c64[4,8]",
    "m": "f32[4,4]",
    "v": "f32[4,2]",
    "x": "f32[2,4,3]",
    "y": "f32[2,3,5]",
    "im": "f32[1,8,8,3]",
    "k": "f32[3,3,3,16]",
    "w": "(s32[])",
    "s": "u64[2]",
    "t": "token[]",
    "g": "s64[5,9,1]",
    "h": "f32[5,50,48]",
    "u": "f32[5,9]",
    "l": "f32[5,50]",
    "f": "f32[6]",
    "e": "f32[2,3]",
}
F = "f32[4,6]{1,0}"
LINES = [
    f"{F} add(%p, %q)",
    f"{F} copy(%p)",
    "f32[4,6]{0,1} copy(%p)",
    "s32[4,6]{1,0} convert(%p)",
    "pred[4,6]{1,0} compare(%p, %q), direction=NE",
    "pred[4,6]{1,0} compare(%p, %q), direction=LT, type=TOTALORDER",
    f"{F} select(%b, %p, %q)",
    f"{F} clamp(%z, %p, %z)",
    f"{F} reduce-precision(%p), exponent_bits=5, mantissa_bits=10",
    "f32[2,12]{1,0} reshape(%p)",
    "f32[2,12]{1,0} reshape(%p), inferred_dimension=1",
    "f32[6,4]{1,0} transpose(%p), dimensions={1,0}",
    "f32[3,4,6]{2,1,0} broadcast(%p), dimensions={1,2}",
    "f32[3]{0} broadcast(%z), dimensions={}",
    f"{F} reverse(%p), dimensions={{0,1}}",
    "s32[4,6]{1,0} iota(), iota_dimension=1",
    "f32[8,6]{1,0} concatenate(%p, %q), dimensions={0}",
    "f32[2,3]{1,0} slice(%p), slice={[1:3], [0:3]}",
    "f32[2,3]{1,0} slice(%p), slice={[1:3:1], [0:6:2]}",
    "f32[7,6]{1,0} pad(%p, %z), padding=1_2x0_0",
    "f32[10,5]{1,0} pad(%p, %z), padding=1_2_1x-1_0_0",
    "f32[2,3]{1,0} dynamic-slice(%p, %i, %j), dynamic_slice_sizes={2,3}",
    f"{F} dynamic-update-slice(%p, %e, %i, %j)",
    "f32[2,4,5]{2,1,0} dot(%x, %y), lhs_batch_dims={0}, lhs_contracting_dims={2}, "
    "rhs_batch_dims={0}, rhs_contracting_dims={1}, operand_precision={high,default}",
    "f32[4,4]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "algorithm=dot_tf32_tf32_f32",
    "f32[4,2,4,6]{3,2,1,0} dot(%v, %p), lhs_contracting_dims={}, rhs_contracting_dims={}",
    "f32[1,4,4,16]{3,2,1,0} convolution(%im, %k), window={size=3x3 stride=2x2 pad=0_1x0_1}, "
    "dim_labels=b01f_01io->b01f",
    "f32[1,17,17,16]{3,2,1,0} convolution(%im, %k), window={size=3x3 pad=2_2x2_2 lhs_dilate=2x2 "
    "rhs_reversal=1x1}, dim_labels=b01f_01io->b01f, operand_precision={highest,highest}",
    "f32[4,2]{1,0} convolution(%m, %v), dim_labels=bf_io->bf",
    "f32[4]{0} reduce(%p, %z), dimensions={1}, to_apply=%add",
    "(f32[4]{0}, f32[4]{0}) reduce(%p, %q, %z, %z), dimensions={1}, to_apply=%pair",
    "f32[3,2]{1,0} reduce-window(%p, %z), window={size=2x3 stride=1x3}, to_apply=%add",
    "f32[4,4]{1,0} select-and-scatter(%m, %e2, %z), window={size=2x2 stride=2x2}, select=%ge, "
    "scatter=%add",
    "(f32[6]{0}, f32[]) scan(%f, %z), dimensions={0}, num_carries=1, is_associative=false, "
    "to_apply=%scan_body",
    "f32[5,9,48]{2,1,0} gather(%h, %g), offset_dims={2}, collapsed_slice_dims={1}, "
    "start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, "
    "index_vector_dim=2, slice_sizes={1,1,48}, indices_are_sorted=true",
    "f32[5,50]{1,0} scatter(%l, %g, %u), update_window_dims={}, inserted_window_dims={1}, "
    "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, "
    "index_vector_dim=2, unique_indices=true, to_apply=%add",
    f"{F} sort(%p), dimensions={{1}}, is_stable=true, to_apply=%ge",
    "(f32[4,2]{1,0}, s32[4,2]{1,0}) topk(%p), k=2, largest=true",
    f"{F} map(%p, %q), dimensions={{0,1}}, to_apply=%add",
    "c64[4,8]{1,0} fft(%c), fft_type=FFT, fft_length={8}",
    "f32[4,14]{1,0} fft(%c), fft_type=IRFFT, fft_length={14}",
    "f32[4,4]{1,0} cholesky(%m), lower=true",
    "f32[4,2]{1,0} triangular-solve(%m, %v), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    "(f32[4,6]{1,0}, f32[6]{0}, f32[6]{0}) batch-norm-training(%p, %f, %f), epsilon=0.001, "
    "feature_index=1",
    f"{F} batch-norm-inference(%p, %f, %f, %f, %f), epsilon=1e-05, feature_index=1",
    "(f32[4,6]{1,0}, f32[6]{0}, f32[6]{0}) batch-norm-grad(%p, %f, %f, %f, %q), epsilon=0.001, "
    "feature_index=1",
    "s32[] get-tuple-element(%w), index=0",
    "(s32[]) while(%w), condition=%cond, body=%body",
    f"{F} conditional(%b, %p, %p), true_computation=%neg, false_computation=%neg",
    f"{F} conditional(%i, %p, %p, %p), branch_computations={{%neg, %neg, %neg}}",
    f"{F} call(%p), to_apply=%neg",
    f"{F} call(%p), to_apply=%neg, is_composite=true",
    f"{F} fusion(%p), kind=kLoop, calls=%neg",
    f"{F} fusion(%p), kind=kOutput, output_to_operand_aliasing={{{{}}: (0, {{}})}}, calls=%neg",
    f'{F} custom-call(%p, %q), custom_call_target="foo", operand_layout_constraints='
    "{f32[4,6]{1,0}, f32[4,6]{0,1}}, custom_call_has_side_effect=true, "
    "output_to_operand_aliasing={{}: (1, {})}, schedule=SCHEDULE_LATEST, "
    'api_version=API_VERSION_TYPED_FFI, backend_config={a = 1 : i64, b = "x"}',
    f'{F} custom-call(%p), custom_call_target="foo", '
    'api_version=API_VERSION_STATUS_RETURNING, backend_config="abc\\"d\\n"',
    f'{F} custom-call(%p), custom_call_target="foo", called_computations={{%add, %ge}}',
    "f32[4]{0} rng(%z, %z), distribution=rng_uniform",
    "(u64[2]{0}, u32[10]{0}) rng-bit-generator(%s), algorithm=rng_three_fry",
    "u64[1,2]{1,0} rng-get-and-update-state(), delta=4096",
    "s32[] get-dimension-size(%p), dimensions={1}",
    "(f32[4,6]{1,0}, (s32[])) tuple(%p, %w)",
    f"(s32[], s32[], s32[], s32[], s32[], /*index=5*/{F}, s32[]) "
    "tuple(%i, %i, %i, %i, %i, /*index=5*/%p, %j)",
    "(s32[]) opt-barrier(%w)",
    "token[] after-all()",
    "token[] after-all(%t, %t)",
    f"{F} add-dependency(%p, %t)",
    '((f32[3]{0}, pred[]), token[]) infeed(%t), infeed_config="cfg"',
    "token[] outfeed(%z, %t), outfeed_shape=f32[]",
    "u32[] partition-id()",
    "u32[] replica-id()",
    f"{F} all-reduce(%p), channel_id=1, replica_groups={{{{0,1}},{{2,3}}}}, "
    "use_global_device_ids=true, to_apply=%add",
    "f32[8,6]{1,0} all-gather(%p), channel_id=1, replica_groups={{0,1}}, dimensions={0}",
    "f32[2,6]{1,0} reduce-scatter(%p), replica_groups={{0,1}}, dimensions={0}, to_apply=%add",
    f"{F} all-to-all(%p), replica_groups={{{{0,1}}}}, dimensions={{0}}",
    f"{F} collective-permute(%p), channel_id=1, source_target_pairs={{{{0,1}},{{1,0}}}}",
    f"{F} collective-broadcast(%p), replica_groups={{{{1,0}}}}",
    f"({F}, {F}, u32[]) copy-start(%p), cross_program_prefetch_index=0",
    f'{F} domain(%p), domain={{kind="sharding", entry={{maximal device=0}}, '
    "exit={maximal device=1}}",
    f"(({F}), {F}, u32[]) negate-start(%p)",
    f"(({F}), {F}, u32[]) async-start(%p), calls=%flip",
    # attributes any opcode may carry
    f"{F} add(%p, %q), sharding={{devices=[2,2,2]<=[8] last_tile_dim_replicate}}",
    f'{F} add(%p, %q), frontend_attributes={{_x="true",k="v"}}',
    f"{F} add(%p, %q), control-predecessors={{%p, %q}}",
    f'{F} add(%p, %q), metadata={{op_type="Add" op_name="jit(f)/a\\"b" source_file="a.py" '
    "source_line=10 source_end_line=12 source_column=3 source_end_column=9}",
    f'{F} add(%p, %q), backend_config={{"a":1,"b":{{"c":[1,2]}}}}',
    f'{F} add(%p, %q), backend_config="raw"',
    f"{F} add(%p, %q), statistics={{visualizing_index=0,cov=0.5}}",
    f'{F} add(%p, %q), origin={{{{"x" {{0}}}}}}',
    f"{F} tanh(%p), result_accuracy={{mode=highest}}",
]


def module_text(line):
    parameters = dict(PARAMETERS, e2="f32[2,2]")
    declared = "\n".join(
        f"  {name} = {shape} parameter({i})" for i, (name, shape) in enumerate(parameters.items())
    )
    return f"HloModule m\n{SCALAR_ADD}\nENTRY e {{\n{declared}\n  ROOT %r_ = {line}\n}}\n"


@pytest.mark.parametrize("line", LINES)
def test_line_prints_as_written_and_round_trips(line):
    module = parse_module(module_text(line))
    root = module.entry.root
    assert instruction_to_text(root) == f"%r_ = {line}"
    verify(module)
    text = module_to_text(module)
    again = parse_module(text)
    assert module_to_text(again) == text
    assert again.entry.root.attributes == root.attributes
    if root.annotations != again.entry.root.annotations:  # instructions are equal by identity only
        assert "control-predecessors" in root.annotations
    assert again.entry.root.metadata == root.metadata
    short = parse_module(module_to_text(module, "short"))
    verify(short)
    assert short.entry.root.attributes == root.attributes
    for style in ("short", "canonical", "fingerprint"):
        assert module_to_text(short, style) == module_to_text(module, style)


# Accepted spellings that print differently.
NORMALISED = [
    ("f32[4,6] add(f32[4,6]{1,0} p, %q)", f"{F} add(%p, %q)"),
    ("f32[4,6] add(p, /*index=1*/ q) // tail", f"{F} add(%p, %q)"),
    ("add(p, q)", f"{F} add(%p, %q)"),
    ("transpose(p), dimensions={1,0}", "f32[6,4]{1,0} transpose(%p), dimensions={1,0}"),
    ("f32[4,6]{1,0:T(8,128)S(0)} negate(p)", "f32[4,6]{1,0:T(8,128)} negate(%p)"),
    (
        "f32[4,4] dot(p, q), rhs_contracting_dims={1}, lhs_contracting_dims={1}, "
        "operand_precision={default,default}",
        "f32[4,4]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    ("pred[4,6] compare(p, q), direction=LT, type=FLOAT", None),
    ('f32[4,6] add(p, q), frontend_attributes={b="1",a="2"}', None),
    ("f32[] constant(-0)", "f32[] constant(0)"),
    ("f32[] constant(-0.0)", "f32[] constant(-0.0)"),
]


@pytest.mark.parametrize("line, printed", NORMALISED)
def test_other_spellings(line, printed):
    module = parse_module(module_text(line))
    text = instruction_to_text(module.entry.root)
    if printed is not None:
        assert text == f"%r_ = {printed}"
    assert instruction_to_text(parse_module(module_to_text(module)).entry.root) == text


def test_whole_module_long_and_short():
    module = parse_module(
        """HloModule jit_f, is_scheduled=true,
        input_output_alias={ {0}: (1, {}, must-alias), {1}: (0, {}) },
        entry_computation_layout={(f32[2,3]{1,0})->f32[2,3]{1,0}}, num_partitions=2,
        frontend_attributes={b="2",a="1"}
        ENTRY %main.3 (x: f32[2,3], y: f32[2,3]) -> (f32[2,3], f32[2,3]) {
          %x = f32[2,3]{1,0} parameter(0)
          %y = f32[2,3]{1,0} parameter(1)
          %s = f32[2,3]{1,0} add(%x, %y)
          ROOT %t = (f32[2,3]{1,0}, f32[2,3]{1,0}) tuple(%s, %y)
        }"""
    )
    assert module_to_text(module) == (
        "HloModule jit_f, is_scheduled=true, "
        "input_output_alias={ {0}: (1, {}, must-alias), {1}: (0, {}, may-alias) }, "
        "entry_computation_layout={(f32[2,3]{1,0}, f32[2,3]{1,0})->(f32[2,3]{1,0}, "
        "f32[2,3]{1,0})}, "
        'num_partitions=2, frontend_attributes={a="1",b="2"}\n\n'
        "ENTRY %main.3 (x: f32[2,3], y: f32[2,3]) -> (f32[2,3], f32[2,3]) {\n"
        "  %x = f32[2,3]{1,0} parameter(0)\n"
        "  %y = f32[2,3]{1,0} parameter(1)\n"
        "  %s = f32[2,3]{1,0} add(%x, %y)\n"
        "  ROOT %t = (f32[2,3]{1,0}, f32[2,3]{1,0}) tuple(%s, %y)\n"
        "}\n\n"
    )
    short = module_to_text(module, "short").splitlines()
    assert short[2:] == [
        "ENTRY main.3 {",
        "  x = f32[2,3]{1,0} parameter(0)",
        "  y = f32[2,3]{1,0} parameter(1)",
        "  s = f32[2,3]{1,0} add(x, y)",
        "  ROOT t = (f32[2,3]{1,0}, f32[2,3]{1,0}) tuple(s, y)",
        "}",
        "",
    ]


def test_canonical_style_inlines_and_renames():
    module = parse_module(module_text("f32[4] reduce(p, z), dimensions={1}, to_apply=add"))
    text = module_to_text(module, "canonical")
    assert "%" not in text
    root = text[text.index("  ROOT tmp_24") :]
    assert root.splitlines() == [
        "  ROOT tmp_24 = f32[4]{0} reduce(f32[4,6]{1,0} tmp_22, f32[] tmp_23), dimensions={1}, "
        "to_apply=",
        "  {",
        "    tmp_0 = f32[] parameter(0)",
        "    tmp_1 = f32[] parameter(1)",
        "    ROOT tmp_2 = f32[] add(f32[] tmp_0, f32[] tmp_1)",
        "  }",
        "}",
        "",
    ]


def test_equal_graphs_have_equal_fingerprints():
    one = "HloModule m\nENTRY e {\n a = f32[2] parameter(0)\n ROOT b = f32[2] tanh(a)\n}"
    two = one.replace("a", "first").replace("b", "second").replace("tfirstnh", "tanh")
    two = two.replace("pfirstrfirstmeter", "parameter")
    assert module_to_text(parse_module(one)) != module_to_text(parse_module(two))
    texts = [module_to_text(parse_module(t), "fingerprint").split("\n", 1)[1] for t in (one, two)]
    assert texts[0] == texts[1]


def test_computation_text_names_callees():
    module = parse_module(module_text("f32[4] reduce(p, z), dimensions={1}, to_apply=add"))
    text = computation_to_text(module.entry)
    assert text.startswith("%e (p: f32[4,6], q: f32[4,6], i: s32[]")
    assert "to_apply=%add" in text


def test_options_leave_things_out():
    line = 'f32[4,6] add(p, q), metadata={op_name="x"}, backend_config={"a":1}'
    root = parse_module(module_text(line)).entry.root
    options = PrintOptions(metadata=False, backend_config=False, layouts=False)
    assert instruction_to_text(root, options) == "%r_ = f32[4,6] add(%p, %q)"


def test_large_constants():
    module = parse_module(
        "HloModule m\nENTRY e { ROOT c = s32[11] constant({0,1,2,3,4,5,6,7,8,9,10}) }"
    )
    assert "{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}" in module_to_text(module)
    elided = module_to_text(module, large_constants=False)
    assert "constant({...})" in elided
    assert parse_module(elided).entry.root.literal_array.tolist() == [0] * 11


def test_source_tables_give_file_and_line():
    module = parse_module(
        """HloModule m

FileNames
1 "train.py"

FunctionNames
1 "loss"

FileLocations
1 {file_name_id=1 function_name_id=1 line=42 end_line=42 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

ENTRY e {
  ROOT p = f32[] parameter(0), metadata={op_name="x" stack_frame_id=1}
}
"""
    )
    assert source_location(module.entry.root) == ("train.py", 42)
    text = module_to_text(module)
    assert 'metadata={op_name="x" stack_frame_id=1}' in text
    assert module_to_text(parse_module(text)) == text
    assert "StackFrames" not in module_to_text(module, metadata=False)


def test_forward_references_and_inline_computations():
    module = parse_module(
        """HloModule m
        ENTRY e {
          p = f32[4,6] parameter(0)
          z = f32[] constant(0)
          s = f32[4] reduce(p, z), dimensions={1}, to_apply=later
          m = f32[] reduce(s, z), dimensions={0}, to_apply={
            a = f32[] parameter(0)
            b = f32[] parameter(1)
            ROOT c = f32[] maximum(a, b)
          }
          ROOT n = f32[] add(negate(m), f32[] abs(m))
        }
        later { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }, execution_thread="host"
        """
    )
    verify(module)
    assert [c.name for c in module.computations][-1] == "e"
    assert {c.name for c in module.computations} == {"e", "_", "later"}
    assert [o.opcode.value for o in module.entry.root.operands] == ["negate", "abs"]


def test_text_without_header_and_lone_instruction():
    bare = parse_module("ENTRY e { ROOT p = f32[8] parameter(0) }")
    assert bare.name == "module_e"
    lone = parse_module("f32[8] add(f32[8] p, f32[8] q)")
    verify(lone)
    assert [p.name for p in lone.entry.parameters] == ["p", "q"]


SHAPES = [
    ("f32[2,3]{1,0}", "f32[2,3]{1,0}"),
    ("f32[2,3]{0,1}", "f32[2,3]{0,1}"),
    ("f32[]", "f32[]"),
    ("((), (f32[2], (s8[])))", "((), (f32[2]{0}, (s8[])))"),
    ("token[]", "token[]"),
    ("bf16[2,3]{1,0:T(8,128)(2,1)}", "bf16[2,3]{1,0:T(8,128)(2,1)}"),
    ("f8e4m3b11fnuz[0]", "f8e4m3b11fnuz[0]{0}"),
]


@pytest.mark.parametrize("text, printed", SHAPES)
def test_shapes(text, printed):
    assert parse_shape(text).to_text(layout=True) == printed


BAD_SHAPES = [
    ("f32[2,3]{1,1}", "not a permutation"),
    ("f33[2]", "unknown element type 'f33'"),
    ("f32[<5,3]", "expected sizes"),
    ("f32[9223372036854775808]", "too large"),
    ("f32[2]{0:S(1)T(8)}", "in this order"),
    ("f32[2]{0:#(i32)}", "unknown element type 'i32'"),
    ("f32[2]{0:T(8,x)}", "in this order"),
    ("f32[2]{0:P((s32[5]{0}))}", "expected a layout"),
    ("b((f32[2]))", "a buffer holds an array"),
    ("f32[-1]", "expected a shape"),
    ("(f32[2]", "expected ','"),
    ("(" * 500 + ")" * 500, "nested more than"),
    ("f32[2] x", "unexpected text"),
    ("tuple[]", "unknown element type"),
]


@pytest.mark.parametrize("text, message", BAD_SHAPES)
def test_bad_shapes(text, message):
    with pytest.raises(ParseError, match=message):
        parse_shape(text)
