"""while-unrolling: loops over a few numbers."""

import re

import numpy as np
import pytest
from pass_checks import check_pass

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.cost_analysis import known_trip_count
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.passes.while_unrolling import WhileUnrolling
from xla_backend.targets.cpu.compiler import compile_module

LOOP = """HloModule m

cond {
  t = (s32[], T, T) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(TRIPS)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], T, T) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = T get-tuple-element(t), index=1
  y = T get-tuple-element(t), index=2
  z = T WORK
  ROOT r = (s32[], T, T) tuple(next, y, z)
}

ENTRY main {
  p = T parameter(0)
  q = T parameter(1)
  start = s32[] constant(0)
  t = (s32[], T, T) tuple(start, p, q)
  l = (s32[], T, T) while(t), condition=cond, body=body,
    backend_config={"known_trip_count":{"n":"TRIPS"}}
  a = T get-tuple-element(l), index=1
  b = T get-tuple-element(l), index=2
  n = s32[] get-tuple-element(l), index=0
  ROOT r = (T, T, s32[]) tuple(a, b, n)
}
"""


def loop(trips: int, type: str = "f32[]", work: str = "subtract(x, y)") -> str:
    return re.sub(r"\bT\b", type, LOOP).replace("TRIPS", str(trips)).replace("WORK", work)


@pytest.mark.parametrize("trips, left", [(20, 5), (16, 4), (18, 9)])
def test_several_iterations_become_one(trips: int, left: int) -> None:
    module = check_pass(WhileUnrolling(), loop(trips), exact=False)
    (node,) = (n for n in module.entry.instructions if n.opcode is Opcode.WHILE)
    assert known_trip_count(node) == left
    work = [n for n in node.called[1].instructions if n.opcode is Opcode.SUBTRACT]
    assert len(work) == trips // left


@pytest.mark.parametrize(
    "text",
    [
        loop(17),
        loop(12),
        loop(20, "f32[3]"),
        loop(20, "f32[]", "rng(x, y), distribution=rng_uniform"),
        loop(20).replace(',\n    backend_config={"known_trip_count":{"n":"20"}}', ""),
    ],
    ids=["neither 4 nor 2 divide", "few", "arrays", "state", "nobody knows how many"],
)
def test_others_stay(text: str) -> None:
    check_pass(WhileUnrolling(), text, expect_change=False)


@pytest.mark.parametrize("trips", [15, 16, 17, 18, 20, 1001])
def test_machine_code(trips: int) -> None:
    module = parse_module(loop(trips, work="sine(x)"))
    arguments = [np.float32(0.7), np.float32(-1.3)]
    got = compile_module(module, CompileOptions()).run_arrays(arguments)
    for g, w in zip(got, evaluate(module, arguments)):
        np.testing.assert_allclose(g, w, rtol=1e-5)
    assert got[2] == trips
