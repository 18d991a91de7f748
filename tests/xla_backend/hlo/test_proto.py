"""HLO as protobuf: round trips, golden bytes, malformed input."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_backend.hlo.literal import Literal
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.proto import (
    ProtoError,
    Snapshot,
    hlo_proto_from_bytes,
    hlo_proto_to_bytes,
    module_from_proto,
    module_to_proto,
    read_proto,
    snapshot_from_proto,
    snapshot_to_proto,
    unoptimized_snapshot_from_proto,
    unoptimized_snapshot_to_proto,
)
from xla_backend.hlo.proto_schema import SCHEMA

CALLEES = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GE }
cond { t = (s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }
body { t = (s32[]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  ROOT r = (s32[]) tuple(i) }
flip { a = f32[4,6] parameter(0)
  ROOT n = f32[4,6] negate(a) }
"""
PARAMETERS = {
    "p": "f32[4,6]",
    "z": "f32[]",
    "i": "s32[]",
    "w": "(s32[])",
    "k": "pred[]",
    "x": "f32[2,4,3]",
    "y": "f32[2,3,5]",
    "im": "f32[1,8,8,3]",
    "f": "f32[3,3,3,16]",
    "v": "s32[5,1]",
    "u": "f32[5]",
    "l": "f32[50]",
    "m": "f32[4,4]",
    "t": "token[]",
    "s": "u64[3]",
    "c": "c64[4,8]",
}
LINES = [
    "f32[4,6] add(p, p), metadata={op_type='t' op_name='n' source_file='f' source_line=3}",
    "f32[6,4]{0,1:T(8,128)S(1)} transpose(p), dimensions={1,0}",
    "f32[4] reduce(p, z), dimensions={1}, to_apply=add",
    "f32[3,2] reduce-window(p, z), window={size=2x3 stride=1x3 pad=0_0x1_-1}, to_apply=add",
    "f32[4,4] select-and-scatter(m, m, z), window={size=2x2}, select=ge, scatter=add",
    "pred[4,6] compare(p, p), direction=NE, type=TOTALORDER",
    "f32[2,3] slice(p), slice={[1:3], [0:6:2]}",
    "f32[10,5] pad(p, z), padding=1_2_1x-1_0_0",
    "f32[2,3] dynamic-slice(p, i, i), dynamic_slice_sizes={2,3}",
    "f32[2,4,5] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
    "rhs_contracting_dims={1}, operand_precision={high,default}, algorithm=dot_bf16_bf16_f32_x3",
    "f32[1,4,4,16] convolution(im, f), window={size=3x3 stride=2x2 pad=0_1x0_1 rhs_reversal=1x0}, "
    "dim_labels=b01f_01io->b01f, operand_precision={highest,highest}",
    "f32[5] gather(l, v), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1}, indices_are_sorted=true",
    "f32[50] scatter(l, v, u), update_window_dims={}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=add",
    "f32[4,6] sort(p), dimensions={1}, is_stable=true, to_apply=ge",
    "(f32[4,2], s32[4,2]) topk(p), k=2, largest=true",
    "f32[4,6] iota(), iota_dimension=1",
    "c64[4,8] fft(c), fft_type=IFFT, fft_length={8}",
    "f32[4,4] cholesky(m), lower=true",
    "f32[4,4] triangular-solve(m, m), left_side=true, unit_diagonal=true, transpose_a=TRANSPOSE",
    "f32[4,6] reduce-precision(p), exponent_bits=5, mantissa_bits=10",
    "(s32[]) while(w), condition=cond, body=body, backend_config={'a':1}".replace("'", '"'),
    "f32[4,6] conditional(k, p, p), true_computation=flip, false_computation=flip",
    "f32[4,6] conditional(i, p, p), branch_computations={flip, flip}",
    "f32[4,6] call(p), to_apply=flip, is_composite=true, "
    'frontend_attributes={a="1",b={x = 1 : i64}}',
    "f32[4,6] fusion(p), kind=kLoop, output_to_operand_aliasing={{}: (0, {})}, calls=flip",
    'f32[4,6] custom-call(p), custom_call_target="foo", '
    "operand_layout_constraints={f32[4,6]{0,1}}, custom_call_has_side_effect=true, "
    "output_to_operand_aliasing={{}: (0, {})}, schedule=SCHEDULE_LATEST, "
    "api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}, window={size=2}",
    "(u64[3], u32[10]) rng-bit-generator(s), algorithm=rng_philox",
    "f32[4] rng(z, z), distribution=rng_normal",
    "u64[1,2] rng-get-and-update-state(), delta=4096",
    "f32[4,6] all-reduce(p), channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), "
    "use_global_device_ids=true, to_apply=add",
    "f32[4,6] all-reduce(p), replica_groups=mesh['a'=2,'b'=4] {'b':(1)2}, to_apply=add",
    "f32[4,6] all-to-all(p), replica_groups={{0,1},{2,3}}, dimensions={0}",
    "f32[4,6] collective-permute(p), channel_id=3, source_target_pairs={{0,1},{1,0}}",
    "(f32[4,6], u32[], token[]) send(p, t), channel_id=2, is_host_transfer=true",
    '((f32[3], pred[]), token[]) infeed(t), infeed_config="cfg"',
    'token[] outfeed(z, t), outfeed_shape=f32[], outfeed_config="q"',
    '((f32[4,6]), f32[4,6], u32[]) negate-start(p), async_execution_thread="host"',
    "(f32[4,6], f32[4,6], u32[]) copy-start(p), cross_program_prefetch_index=0",
    "f32[4,6] tanh(p), result_accuracy={tolerance={atol=1,rtol=0.5,ulps=2}}, "
    "statistics={visualizing_index=0,cov=0.5}, control-predecessors={z}",
    "f32[4,6] tanh(p), sharding={devices=[2,1,2]<=[2,2]T(1,0) last_tile_dims={manual}}",
    "f32[4,6] tanh(p), sharding={mesh['a'=2,'b'=4], [{'a'}, {'b':(1)2, ?}]}",
    "(s32[]) tuple(i), sharding={{maximal device=3}}",
    "(f32[], (s32[2], pred[])) constant((-0.0, ({1, -2}, true)))",
    "s4[3] constant({-8, 7, 1})",
    "u2[2] constant({3, 0})",
    "s1[2] constant({0, -1})",
    "f4e2m1fn[2] constant({1.5, -6})",
    "bf16[2] constant({1.5, nan})",
    "c64[2] constant({(1, -2), (nan(0x1), inf)})",
    "s32[2,3]{0,1} constant({{1,2,3},{4,5,6}})",
    "f32[] constant(-nan(0x3))",
]


def module_of(line):
    declared = "\n".join(
        f"  {name} = {shape} parameter({n})" for n, (name, shape) in enumerate(PARAMETERS.items())
    )
    return parse_module(f"HloModule m\n{CALLEES}ENTRY e {{\n{declared}\n  ROOT r = {line}\n}}\n")


@pytest.mark.parametrize("line", LINES)
def test_module_survives(line):
    module = module_of(line)
    data = module_to_proto(module)
    again = module_from_proto(data)
    assert module_to_text(again) == module_to_text(module)
    assert again.entry.root.attributes == module.entry.root.attributes
    assert module_to_proto(again) == data


def test_header_survives():
    text = """HloModule m, is_scheduled=true, input_output_alias={ {}: (1, {}, must-alias) }, \
buffer_donor={ (0, {}) }, \
entry_computation_layout={(f32[2,2]{0,1}, f32[2,2]{1,0})->f32[2,2]{1,0}}, \
frontend_attributes={a="1"}

FileNames
1 "a.py"

FunctionNames
1 "f"

FileLocations
1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}


ENTRY %e (q: f32[2,2], p: f32[2,2]) -> f32[2,2] {
  %p = f32[2,2]{1,0} parameter(1), metadata={op_name="n" stack_frame_id=1}
  %q = f32[2,2]{1,0} parameter(0)
  ROOT %r = f32[2,2]{1,0} negate(%p)
}

"""
    module = parse_module(text)
    assert module_to_text(module) == text
    again = module_from_proto(module_to_proto(module))
    assert module_to_text(again) == text
    assert module_to_text(hlo_proto_from_bytes(hlo_proto_to_bytes(module))) == text


def test_golden_bytes():
    """Written by XLA for the same values."""
    literal = {"shape": {"element_type": 11, "dimensions": [2]}, "f32s": [1.0, -2.0]}
    assert SCHEMA.encode("LiteralProto", literal).hex() == "0a05100b1a010242080000803f000000c0"
    alias = {"output_shape_index": [1, 300], "parameter_number": -1, "kind": 2}
    assert (
        SCHEMA.encode("HloInputOutputAliasProto.AliasEntryProto", alias).hex()
        == "0a0301ac0210ffffffffffffffffff012002"
    )


def test_snapshots_survive():
    module = module_of("f32[4,6] add(p, p)")
    arguments = (Literal(np.arange(6, dtype=np.float32)), Literal(np.array([True, False])))
    result = Literal.tuple(arguments)
    again = snapshot_from_proto(snapshot_to_proto(Snapshot(module, arguments, result, "cpu")))
    assert (again.arguments, again.result, again.platform) == (arguments, result, "cpu")
    assert module_to_text(again.module) == module_to_text(module)
    data = unoptimized_snapshot_to_proto(module, [arguments, arguments[:1]])
    assert unoptimized_snapshot_from_proto(data)[1] == [arguments, arguments[:1]]


GOOD = module_to_proto(module_of("f32[4] reduce(p, z), dimensions={1}, to_apply=add"))


def edited(change):
    message = SCHEMA.decode("HloModuleProto", GOOD)
    change(message)
    return SCHEMA.encode("HloModuleProto", message)


def set_instruction(**fields):
    return lambda m: m["computations"][0]["instructions"][2].update(fields)


MALFORMED = [
    (b"\x0a\x05abc", "needs 5 bytes, 3 are left"),
    (b"\xff", "end within a number"),
    (b"\xff" * 11, "more than 64 bits"),
    (b"\x0b", "wire type 3"),
    (b"\x08\x01", "wire type 0, expected 2"),
    (b"", "no entry computation"),
    (edited(set_instruction(opcode="frobnicate")), "unknown opcode 'frobnicate'"),
    (edited(set_instruction(operand_ids=[77])), "number 77 does not come before it"),
    (edited(set_instruction(operand_ids=[1])), "takes 2 operand"),
    (edited(set_instruction(called_computation_ids=[9])), "does not come before its caller"),
    (edited(set_instruction(shape={"element_type": 99})), "99 is no element type"),
    (edited(lambda m: m["computations"][0].update(root_id=99)), "has no root"),
    (edited(lambda m: m.update(entry_computation_id=99)), "no entry computation"),
]


@pytest.mark.parametrize("data, message", MALFORMED, ids=[m for _, m in MALFORMED])
def test_malformed(data, message):
    with pytest.raises(ProtoError, match=message):
        module_from_proto(data)


def test_no_module():
    with pytest.raises(ProtoError, match="no module"):
        hlo_proto_from_bytes(b"")


@settings(max_examples=150, deadline=None, database=None)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.booleans())
def test_damaged_bytes_never_raise_anything_else(position, byte, cut):
    data = GOOD[:position] if cut else GOOD[:position] + bytes([byte]) + GOOD[position + 1 :]
    with contextlib.suppress(ProtoError):
        assert module_from_proto(data).entry is not None


def test_any_message_is_recognised():
    module = parse_module(
        "ENTRY e { x = f32[2] parameter(0)\n y = f32[2] negate(x)\n ROOT t = (f32[2]) tuple(y) }"
    )
    x = Literal(np.float32([1, 2]))
    result = Literal.tuple([Literal(np.float32([-1, -2]))])
    messages = {
        snapshot_to_proto(Snapshot(module, (x,), result)): ((x,), result),
        unoptimized_snapshot_to_proto(module, [(x,)]): ((x,), None),
        hlo_proto_to_bytes(module): ((), None),
        module_to_proto(module): ((), None),
    }
    assert len(messages) == 4
    for data, (arguments, expected) in messages.items():
        found = read_proto(data)
        assert module_to_text(found.module) == module_to_text(module)
        assert (found.arguments, found.result) == (arguments, expected)


def test_bytes_that_are_no_message_at_all():
    message = "no HloSnapshot: .*; no HloUnoptimizedSnapshot: .*; no HloProto: .*; no HloModulePr"
    with pytest.raises(ProtoError, match=message):
        read_proto(b"ENTRY e { ROOT c = f32[] constant(1) }")
