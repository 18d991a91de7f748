"""One program per opcode: each is inferred, verified, printed, read again and evaluated. The table
is walked against the list of opcodes, so a new opcode without a meaning fails here."""

import re
from collections import deque

import numpy as np
import pytest

from xla_backend.hlo.errors import HloError
from xla_backend.hlo.evaluator import Host, evaluate
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.shape_inference import RULES
from xla_backend.hlo.verifier import verify

CALLEES = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ge { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE }
less { a = f32[4] parameter(0)
  s = f32[1] slice(a), slice={[0:1]}
  v = f32[] reshape(s)
  n = f32[] constant(3)
  ROOT r = pred[] compare(v, n), direction=LT }
inc { a = f32[4] parameter(0)
  one = f32[] constant(1)
  ones = f32[4] broadcast(one), dimensions={}
  ROOT r = f32[4] add(a, ones) }
step { a = f32[] parameter(0)
  b = f32[] parameter(1)
  r = f32[] add(a, b)
  ROOT t = (f32[], f32[]) tuple(r, r) }
"""
# What samples are made of: by name, the text that defines it. Parameters are numbered as used.
PARTS = {
    "x": "f32[4] parameter({})",
    "y": "f32[4] parameter({})",
    "m": "f32[2,4] parameter({})",
    "n": "f32[4,3] parameter({})",
    "sq": "f32[3,3] parameter({})",
    "i": "s32[4] parameter({})",
    "j": "s32[4] parameter({})",
    "u": "u32[4] parameter({})",
    "p": "pred[4] parameter({})",
    "c": "c64[4] parameter({})",
    "s": "f32[] parameter({})",
    "k": "s32[] parameter({})",
    "state": "u64[2] parameter({})",
    "groups": "s32[2] parameter({})",
    "stack": "f32[2,3,5] parameter({})",
    "rows": "f32[4,3] parameter({})",
    "image": "f32[1,6,2] parameter({})",
    "kernel": "f32[3,2,5] parameter({})",
    "at": "s32[2,1] parameter({})",
    "updates": "f32[2] parameter({})",
    "token": "token[] after-all()",
    "pair": "(f32[4], f32[4]) tuple(x, y)",
}
UNARY_FLOAT = """ceil floor cosine sine tan sinh cosh asin acos asinh acosh atanh exponential
exponential-minus-one log log-plus-one logistic round-nearest-afz round-nearest-even rsqrt sqrt cbrt
sign tanh erf abs negate copy""".split()
BINARY_FLOAT = "add multiply maximum minimum subtract divide remainder power atan2".split()
BINARY_INTEGER = """and or xor mulhi shift-left shift-right-arithmetic
shift-right-logical""".split()
COLLECTIVE = "replica_groups={{0}}"
SAMPLES = {
    **{name: f"f32[4] {name}(x)" for name in UNARY_FLOAT},
    **{name: f"f32[4] {name}(x, y)" for name in BINARY_FLOAT},
    **{name: f"s32[4] {name}(i, j)" for name in BINARY_INTEGER},
    **{name: f"s32[4] {name}(i)" for name in ("not", "popcnt", "count-leading-zeros")},
    "real": "f32[4] real(c)",
    "imag": "f32[4] imag(c)",
    "is-finite": "pred[4] is-finite(x)",
    "convert": "s8[4] convert(x)",
    "bitcast-convert": "u32[4] bitcast-convert(x)",
    "reduce-precision": "f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10",
    "compare": "pred[4] compare(x, y), direction=LT",
    "complex": "c64[4] complex(x, y)",
    "stochastic-convert": "s8[4] stochastic-convert(x, u)",
    "select": "f32[4] select(p, x, y)",
    "clamp": "f32[4] clamp(x, y, x)",
    "map": "f32[4] map(x, y), dimensions={0}, to_apply=add",
    "bitcast": "s32[4] bitcast(x)",
    "reshape": "f32[8] reshape(m)",
    "transpose": "f32[4,2] transpose(m), dimensions={1,0}",
    "broadcast": "f32[3,4] broadcast(x), dimensions={1}",
    "reverse": "f32[2,4] reverse(m), dimensions={1}",
    "slice": "f32[2,2] slice(m), slice={[0:2:1], [0:4:2]}",
    "dynamic-reshape": "f32[<=4] dynamic-reshape(x, four)",
    "concatenate": "f32[8] concatenate(x, y), dimensions={0}",
    "dynamic-slice": "f32[2] dynamic-slice(x, k), dynamic_slice_sizes={2}",
    "dynamic-update-slice": "f32[4] dynamic-update-slice(x, updates, k)",
    "pad": "f32[7] pad(x, s), padding=0_0_1",
    "iota": "s32[4] iota(), iota_dimension=0",
    "parameter": "f32[4] parameter(0)",
    "constant": "f32[2] constant({1, 2})",
    "partition-id": "u32[] partition-id()",
    "replica-id": "u32[] replica-id()",
    "get-dimension-size": "s32[] get-dimension-size(x), dimensions={0}",
    "set-dimension-size": "f32[<=4] set-dimension-size(x, k), dimensions={0}",
    "dot": "f32[2,3] dot(m, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "scaled-dot": "f32[2,3] scaled-dot(m, n, s, s), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={0}",
    "ragged-dot": "f32[4,5] ragged-dot(rows, stack, groups), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
    "convolution": "f32[1,4,5] convolution(image, kernel), window={size=3}, "
    "dim_labels=b0f_0io->b0f",
    "reduce": "f32[2] reduce(m, s), dimensions={1}, to_apply=add",
    "reduce-window": "f32[3] reduce-window(x, s), window={size=2}, to_apply=add",
    "scan": "(f32[4], f32[]) scan(x, s), dimensions={0}, num_carries=1, to_apply=step",
    "sort": "f32[4] sort(x), dimensions={0}, to_apply=ge",
    "select-and-scatter": "f32[4] select-and-scatter(x, updates, s), window={size=2 stride=2}, "
    "select=ge, scatter=add",
    "gather": "f32[2] gather(x, at), offset_dims={}, collapsed_slice_dims={0}, "
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
    "scatter": "f32[4] scatter(x, at, updates), update_window_dims={}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    "topk": "(f32[2,2], s32[2,2]) topk(m), k=2, largest=true",
    "fft": "c64[3] fft(x), fft_type=RFFT, fft_length={4}",
    "cholesky": "f32[3,3] cholesky(sq), lower=true",
    "triangular-solve": "f32[3,3] triangular-solve(sq, sq), left_side=true, lower=true, "
    "transpose_a=NO_TRANSPOSE",
    "batch-norm-training": "(f32[2,4], f32[4], f32[4]) batch-norm-training(m, x, y), "
    "epsilon=0.1, feature_index=1",
    "batch-norm-inference": "f32[2,4] batch-norm-inference(m, x, y, x, y), epsilon=9, "
    "feature_index=1",
    "batch-norm-grad": "(f32[2,4], f32[4], f32[4]) batch-norm-grad(m, x, y, y, m), epsilon=9, "
    "feature_index=1",
    "tuple": "(f32[4], f32[4]) tuple(x, y)",
    "get-tuple-element": "f32[4] get-tuple-element(pair), index=1",
    "opt-barrier": "(f32[4], f32[4]) opt-barrier(pair)",
    "while": "f32[4] while(x), condition=less, body=inc",
    "conditional": "f32[4] conditional(k, x, y), branch_computations={inc, inc}",
    "call": "f32[4] call(x), to_apply=inc",
    "fusion": "f32[4] fusion(x), kind=kLoop, calls=inc",
    "custom-call": 'f32[4] custom-call(x), custom_call_target="double"',
    "after-all": "token[] after-all(token, token)",
    "add-dependency": "f32[4] add-dependency(x, token)",
    "domain": 'f32[4] domain(x), domain={kind="sharding", entry={maximal device=0}, '
    "exit={maximal device=1}}",
    "rng": "f32[4] rng(s, s), distribution=rng_normal",
    "rng-bit-generator": "(u64[2], u32[5]) rng-bit-generator(state), algorithm=rng_philox",
    "rng-get-and-update-state": "u64[2] rng-get-and-update-state(), delta=1",
    "infeed": "(f32[4], token[]) infeed(token)",
    "outfeed": "token[] outfeed(x, token), outfeed_shape=f32[4]{0}",
    "all-gather": f"f32[4] all-gather(x), {COLLECTIVE}, dimensions={{0}}",
    "all-to-all": f"f32[4] all-to-all(x), {COLLECTIVE}, dimensions={{0}}",
    "collective-broadcast": f"f32[4] collective-broadcast(x), {COLLECTIVE}",
    "collective-permute": "f32[4] collective-permute(x), source_target_pairs={{0,0}}",
    "ragged-all-to-all": "f32[4] ragged-all-to-all(x, y, one, one, one, one), " + COLLECTIVE,
    "all-gather-start": f"(f32[4], f32[4]) all-gather-start(x), {COLLECTIVE}, dimensions={{0}}",
    "all-gather-done": "f32[4] all-gather-done(all-gather-start)",
    "collective-permute-start": "(f32[4], f32[4], u32[], u32[]) collective-permute-start(x), "
    "source_target_pairs={{0,0}}",
    "collective-permute-done": "f32[4] collective-permute-done(collective-permute-start)",
    "all-reduce": f"f32[4] all-reduce(x), {COLLECTIVE}, to_apply=add",
    "all-reduce-start": f"f32[4] all-reduce-start(x), {COLLECTIVE}, to_apply=add",
    "all-reduce-done": "f32[4] all-reduce-done(all-reduce-start)",
    "reduce-scatter": f"f32[4] reduce-scatter(x), {COLLECTIVE}, dimensions={{0}}, to_apply=add",
    "copy-start": "(f32[4], f32[4], u32[]) copy-start(x)",
    "copy-done": "f32[4] copy-done(copy-start)",
    "send": "(f32[4], u32[], token[]) send(x, token), channel_id=1, is_host_transfer=true",
    "send-done": "token[] send-done(send), channel_id=1, is_host_transfer=true",
    "recv": "(f32[4], u32[], token[]) recv(token), channel_id=2, is_host_transfer=true",
    "recv-done": "(f32[4], token[]) recv-done(recv), channel_id=2, is_host_transfer=true",
    "async-start": "((f32[4]), f32[4], u32[]) async-start(x), calls=inc",
    "async-update": "((f32[4]), f32[4], u32[]) async-update(async-start)",
    "async-done": "f32[4] async-done(async-update)",
}
PARTS |= {name: text for name, text in SAMPLES.items() if name.endswith(("start", "update"))}
PARTS |= {name: SAMPLES[name] for name in ("send", "recv")}
PARTS["four"] = "s32[] constant(4)"
PARTS["one"] = "s32[1] constant({1})"


_OPERANDS = re.compile(r" [a-z0-9-]+\(([^{}()]*)\)")


def program(sample):
    """A module whose root is the sample, with everything it names defined before it."""
    lines, defined, parameters = [], set(), 0

    def define(name):
        nonlocal parameters
        if name in defined:
            return
        defined.add(name)
        text = PARTS[name]
        if text.endswith("parameter({})"):
            text, parameters = text.format(parameters), parameters + 1
        else:
            need(text)
        lines.append(f"{name} = {text}")

    def need(text):
        found = _OPERANDS.search(text)
        for name in found[1].split(", ") if found else ():
            if name in PARTS:
                define(name)

    need(sample)
    return "\n".join([CALLEES + "ENTRY e {", *lines, f"ROOT root = {sample}", "}"])


def argument(shape, rng):
    """Numbers at which every sample is defined: positive, small, and a good matrix."""
    kind, dims = shape.element_type, shape.dimensions
    if dims == (3, 3):
        return (np.eye(3) * 4 + 1).astype(np.float32)
    if kind.is_floating:
        return rng.uniform(0.1, 0.9, dims).astype(kind.numpy_dtype)
    if kind.is_complex:
        return (rng.uniform(0.1, 0.9, dims) + 1j).astype(kind.numpy_dtype)
    if kind.is_integral:
        return np.asarray(rng.integers(1, 4, dims)).astype(kind.numpy_dtype)
    return np.asarray(rng.integers(0, 2, dims)).astype(bool)


def double(operands, results, attributes):
    results[0][...] = operands[0] * 2


def run(module):
    rng = np.random.default_rng(0)
    arguments = [argument(p.shape, rng) for p in module.entry.parameters]
    four = np.ones(4, np.float32)
    host = Host(infeed=deque([[four]]), to_device={2: deque([[four]])})
    return evaluate(module, arguments, custom_calls={"double": double}, seed=0, host=host)


def test_every_opcode_has_a_sample_and_a_rule():
    assert set(SAMPLES) == {str(op) for op in Opcode}
    assert set(RULES) == set(Opcode)


@pytest.mark.parametrize("name", SAMPLES)
def test_sample(name):
    module = parse_module(program(SAMPLES[name]))
    assert str(module.entry.root.opcode) == name
    verify(module)
    again = parse_module(module_to_text(module))
    verify(again)
    values = run(module)
    shapes = [s for s in module.entry.root.shape.flatten() if s.is_array]
    assert [v.dtype for v in values] == [s.element_type.numpy_dtype for s in shapes]
    if name != "set-dimension-size":  # whose value has the size that was set
        assert [v.shape for v in values] == [s.dimensions for s in shapes]
    for value, other in zip(values, run(again)):
        np.testing.assert_array_equal(value, other)
    for value in values:
        assert value.dtype.kind not in "fc" or name in NAN_HERE or np.isfinite(value).all()


# Outside their domain at the arguments above.
NAN_HERE = {"acosh"}


ANY_RESULT = {"parameter", "custom-call"}
ANY_OPERANDS = {"tuple", "after-all", "custom-call"}
TAKES_OPERANDS = [
    name
    for name, text in SAMPLES.items()
    if name not in ANY_OPERANDS and (found := _OPERANDS.search(text)) and found[1]
]


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - ANY_RESULT))
def test_wrong_result_shape(name):
    text = SAMPLES[name]
    call = text.index(f" {name}(")
    with pytest.raises(HloError):
        verify(parse_module(program("(pred[7])" + text[call:])))


@pytest.mark.parametrize("name", TAKES_OPERANDS)
def test_wrong_operands(name):
    """An operand more than the sample has, of a type no opcode mixes with others."""
    text = SAMPLES[name]
    end = _OPERANDS.search(text).end(1)
    with pytest.raises(HloError):
        verify(parse_module(program(f"{text[:end]}, c{text[end:]}")))
