"""Loops over a few numbers and short arrays keep them in registers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from native_checks import check_native

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.targets.cpu.compiler import compile_module

SUM = """sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""
# Nine rounds at most; STATE is the type of what is carried beside their number.
LOOP = """HloModule m

SUM
cond {
  t = (s32[], STATE) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(9)
  ROOT less = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], STATE) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = STATE get-tuple-element(t), index=1
  WORK
  ROOT r = (s32[], STATE) tuple(next, y)
}

ENTRY main {
  p = STATE parameter(0)
  start = s32[] parameter(1)
  t = (s32[], STATE) tuple(start, p)
  l = (s32[], STATE) while(t), condition=cond, body=body
  a = STATE get-tuple-element(l), index=1
  n = s32[] get-tuple-element(l), index=0
  ROOT r = (STATE, s32[]) tuple(a, n)
}
"""


def loop(state: str, work: str) -> str:
    text = LOOP.replace("SUM", SUM).replace("WORK", work.replace("STATE", state))
    return re.sub(r"\bSTATE\b", state, text)


NORMALIZED = """zero = f32[] constant(0)
  squares = STATE multiply(x, x)
  norm = f32[] reduce(squares, zero), dimensions={0}, to_apply=sum
  root = f32[] sqrt(norm)
  all = STATE broadcast(root), dimensions={}
  y = STATE divide(x, all)"""
NEIGHBOURS = """first = f32[1] slice(x), slice={[0:1]}
  others = f32[4] slice(x), slice={[1:5]}
  turned = STATE concatenate(others, first), dimensions={0}
  y = STATE subtract(x, turned)"""
ROTATED = """turned = STATE transpose(x), dimensions={1,0}
  y = STATE subtract(turned, x)"""
WRITTEN = """new = f32[1] constant({2.5})
  y = STATE dynamic-update-slice(x, new, i)"""
READ = """two = f32[] constant(2)
  found = f32[1] dynamic-slice(x, i), dynamic_slice_sizes={1}
  number = f32[] reshape(found)
  all = STATE broadcast(number), dimensions={}
  y = STATE subtract(all, x)"""
INVERTED = "y = STATE not(x)"
HALVED = """half = bf16[] constant(0.3)
  all = STATE broadcast(half), dimensions={}
  y = STATE multiply(x, all)"""
DIVIDED = """all = STATE broadcast(i), dimensions={}
  sums = STATE add(x, all)
  y = STATE divide(x, sums)"""

HELD = {
    "a number": ("f32[]", "y = STATE negate(x)"),
    "reduced": ("f32[4]", NORMALIZED),
    "odd": ("f32[7]", NORMALIZED),
    "neighbours": ("f32[5]", NEIGHBOURS),
    "transposed": ("f32[4,4]", ROTATED),
    "not square in a register": ("f32[3,3]", ROTATED),
    "one element is written": ("f32[9]", WRITTEN),
    "truth values": ("pred[6]", INVERTED),
    "narrow floats": ("bf16[5]", HALVED),
    "divisions": ("s32[3]", DIVIDED),
    "bytes": ("u8[5]", "y = STATE add(x, x)"),
    "f64": ("f64[3]", "y = STATE add(x, x)"),
}
IN_MEMORY = {
    "read at a place that is not known": ("f32[9]", READ),
    "one element of many is written": ("f32[20]", WRITTEN),
    "many truth values": ("pred[300]", INVERTED),
    "too long": ("f32[1000]", "y = STATE negate(x)"),
    "complex": ("c64[2]", "y = STATE negate(x)"),
}


def of_the_loop(text: str) -> str:
    """The code between the head of the loop and its end, without the count until signals are
    looked at."""
    llvm = compile_module(parse_module(text), CompileOptions()).llvm_ir
    (inside,) = re.findall(r"^while\d+:$(.*?)^look\d+:$", llvm, re.MULTILINE | re.DOTALL)
    return "\n".join(line for line in inside.splitlines() if "i64" not in line)


@pytest.mark.parametrize("state, work", HELD.values(), ids=HELD)
def test_rounds_need_no_memory(state: str, work: str) -> None:
    inside = of_the_loop(loop(state, work))
    assert "phi" in inside
    assert not re.search(r"\b(load|store|memmove|call void)\b", inside), inside


@pytest.mark.parametrize("state, work", IN_MEMORY.values(), ids=IN_MEMORY)
def test_others_are_in_memory(state: str, work: str) -> None:
    assert re.search(r"\b(load|store|call void)\b", of_the_loop(loop(state, work)))


@pytest.mark.parametrize("start", [0, 3, 9])
@pytest.mark.parametrize("state, work", (HELD | IN_MEMORY).values(), ids=HELD | IN_MEMORY)
def test_results(state: str, work: str, start: int) -> None:
    """Also of a loop of which no round runs."""
    module = parse_module(loop(state, work))
    rng = np.random.default_rng(0)
    shape = module.entry.parameters[0].shape
    low = rng.uniform(1, 3, shape.dimensions)
    check_native(module, [low.astype(shape.element_type.numpy_dtype), np.int32(start)])
