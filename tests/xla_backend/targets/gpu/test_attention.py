"""Attention on GPUs: one kernel, without the scores in memory; the pass that finds it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from product_checks import check, planned

from xla_backend.hlo.attributes import FusionAttributes, FusionKind
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.passes.attention_fusion import AttentionFusion
from xla_backend.program.ir import Launch, Space

REDUCERS = """
largest { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
total { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
"""


def softmax(scores: str, dims: str) -> str:
    """The softmax of a value along its last dimension."""
    kept = dims.rsplit(",", 1)[0]
    rank = dims.count(",")
    axes = ",".join(map(str, range(rank)))
    return f"""
      low = f32[] constant(-inf)
      zero = f32[] constant(0)
      most = f32[{kept}] reduce({scores}, low), dimensions={{{rank}}}, to_apply=largest
      mosts = f32[{dims}] broadcast(most), dimensions={{{axes}}}
      difference = f32[{dims}] subtract({scores}, mosts)
      powers = f32[{dims}] exponential(difference)
      sum = f32[{kept}] reduce(powers, zero), dimensions={{{rank}}}, to_apply=total
      sums = f32[{dims}] broadcast(sum), dimensions={{{axes}}}
      quotient = f32[{dims}] divide(powers, sums)
    """


def attention(
    queries: int = 20, keys: int = 33, depth: int = 24, width: int = 20, type: str = "bf16",
    extra: str = "", scores: str = "scaled", result: str = "", root: str = "ROOT ",
) -> str:  # fmt: skip
    """Attention of two batches, matrices one after the other."""
    dims = f"2,{queries},{keys}"
    weights = "quotient" if type == "f32" else "converted"
    made = "" if type == "f32" else f"converted = {type}[{dims}] convert(quotient)"
    return f"""HloModule m
    {REDUCERS}
    ENTRY e {{
      q = {type}[2,{queries},{depth}] parameter(0)
      k = {type}[2,{keys},{depth}] parameter(1)
      v = {type}[2,{keys},{width}] parameter(2)
      d = f32[{dims}] dot(q, k), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
        lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
      quarter = f32[] constant(0.25)
      quarters = f32[{dims}] broadcast(quarter), dimensions={{}}
      scaled = f32[{dims}] multiply(d, quarters)
      {extra}
      {softmax(scores, dims)}
      {made}
      {root}r = {type}[2,{queries},{width}] dot({weights}, v), lhs_batch_dims={{0}},
        rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}
      {result}
    }}"""


BIAS = """
      bias = f32[2,20,33] parameter(3)
      biased = f32[2,20,33] add(scaled, bias)"""
MASK = """
      mask = pred[2,20,33] parameter(3)
      no = f32[] constant(-1e38)
      nos = f32[2,20,33] broadcast(no), dimensions={}
      masked = f32[2,20,33] select(mask, scaled, nos)"""
CAUSAL = """
      i = s32[20] iota(), iota_dimension=0
      j = s32[33] iota(), iota_dimension=0
      rows = s32[20,33] broadcast(i), dimensions={0}
      columns = s32[20,33] broadcast(j), dimensions={1}
      later = pred[20,33] compare(rows, columns), direction=GE
      all = pred[2,20,33] broadcast(later), dimensions={1,2}
      no = f32[] constant(-inf)
      nos = f32[2,20,33] broadcast(no), dimensions={}
      masked = f32[2,20,33] select(all, scaled, nos)"""


def arrays_for(text: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    found = []
    entry = parse_module(text).entry
    assert entry is not None
    for p in entry.parameters:
        numbers = rng.standard_normal(p.shape.dimensions)
        dtype = p.shape.element_type.numpy_dtype
        found.append(numbers > -0.5 if p.shape.element_type is P.PRED else numbers.astype(dtype))
    return found


def check_attention(text: str, rtol: float = 1e-2) -> None:
    """One launch with no memory of its own, and the values."""
    check(text, rtol=rtol, arrays=arrays_for(text))
    steps = planned(text).program.steps
    assert [type(s) for s in steps] == [Launch]
    assert isinstance(steps[0], Launch)
    assert not any(b.space in (Space.TEMP, Space.SCRATCH) for b in steps[0].buffers)


@pytest.mark.parametrize(
    ("extra", "scores"),
    [("", "scaled"), (BIAS, "biased"), (MASK, "masked"), (CAUSAL, "masked")],
    ids=["plain", "bias", "mask", "causal"],
)
def test_scores_of_all_kinds(extra, scores):
    check_attention(attention(extra=extra, scores=scores))


@pytest.mark.parametrize("type", ["f16", "bf16", "f32"])
def test_types(type):
    """f32 goes through tf32; the parts of a result are summed in f32."""
    check_attention(attention(64, 72, 32, 32, type), {"f16": 2e-3, "bf16": 1e-2, "f32": 2e-3}[type])


@pytest.mark.parametrize("sizes", [(16, 16, 16, 16), (33, 70, 7, 17), (17, 257, 16, 40)], ids=str)
def test_sizes(sizes):
    check_attention(attention(*sizes))


def test_rows_without_keys_are_nan_as_they_are_without_the_kernel():
    text = attention(extra=CAUSAL.replace("GE", "GT"), scores="masked")
    check_attention(text)


def test_large_scores_do_not_overflow():
    text = attention(16, 33, 16, 16)
    arrays = arrays_for(text)
    arrays[0] = (arrays[0].astype(np.float32) * 1e3).astype(ml_dtypes.bfloat16)
    check(text, rtol=1e-2, arrays=arrays)


def has_attention(text: str) -> bool:
    module = parse_module(text)
    AttentionFusion().run(module)
    assert module.entry is not None
    return any(
        n.opcode is Opcode.FUSION
        and isinstance(n.attributes, FusionAttributes)
        and n.attributes.kind is FusionKind.CUSTOM
        for n in module.entry.instructions
    )


def test_scores_that_others_read_stay():
    assert has_attention(attention())
    read = "ROOT t = (bf16[2,20,20], f32[2,20,33]) tuple(r, scaled)"
    assert not has_attention(attention(result=read, root=""))


def test_softmax_along_another_dimension_is_none():
    text = attention(33, 33).replace("dimensions={2}, to_apply", "dimensions={1}, to_apply")
    for name in ("most", "sum"):
        text = text.replace(f"({name}), dimensions={{0,1}}", f"({name}), dimensions={{0,2}}")
    assert not has_attention(text)


def test_exact_products_stay_apart():
    """No kernel of attention has the precision that they ask for."""
    text = attention(64, 72, 32, 16, "f32").replace(
        "rhs_contracting_dims={2}", "rhs_contracting_dims={2}, operand_precision={highest,highest}"
    )
    assert len(planned(text).program.steps) > 1


def test_wide_heads_stay_apart():
    assert len(planned(attention(16, 32, 160, 16)).program.steps) > 1


HEADS = """HloModule m
    {reducers}
    ENTRY e {{
      q = bf16[1,20,2,16] parameter(0)
      k = bf16[1,33,2,16] parameter(1)
      v = bf16[1,33,2,16] parameter(2)
      d = f32[1,2,33,20] dot(k, q), lhs_batch_dims={{0,2}}, rhs_batch_dims={{0,2}},
        lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}
      turned = f32[1,2,20,33] transpose(d), dimensions={{0,1,3,2}}
      {softmax}
      converted = bf16[1,2,20,33] convert(quotient)
      o = bf16[1,2,16,20] dot(v, converted), lhs_batch_dims={{0,2}}, rhs_batch_dims={{0,1}},
        lhs_contracting_dims={{1}}, rhs_contracting_dims={{3}}
      ROOT r = bf16[1,20,2,16] transpose(o), dimensions={{0,3,1,2}}
    }}"""


def test_heads_between_positions_and_numbers():
    """Batch dimensions in the middle, scores and result turned: all of it is strides."""
    check_attention(HEADS.format(reducers=REDUCERS, softmax=softmax("turned", "1,2,20,33")))
