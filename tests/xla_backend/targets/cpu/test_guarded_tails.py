"""What only a store under a guard needs is behind the jump that skips the store."""

import re

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import ZERO
from xla_backend.kernels.ir import BufferRole, Load, Loop, Store
from xla_backend.library import compile
from xla_backend.targets.cpu.guarded_tails import guarded_tail

F32 = PrimitiveType.F32


def body_of(*, second_guard: bool = False, inner_loop: bool = False) -> Loop:
    """out[i] = -x[i] where x[i] < 0, and what the arguments say before the store."""
    b = LoopBuilder("k")
    x = b.buffer("x", F32, 8, BufferRole.OPERAND)
    out = b.buffer("out", F32, 8, BufferRole.OUTPUT)
    i, _ = b.open_loop(8)
    value = b.load(x, i)
    guard = b.compute(Opcode.IS_FINITE, PrimitiveType.PRED, (value,))
    negated = b.compute(Opcode.NEGATE, F32, (value,))
    if second_guard:
        other = b.compute(Opcode.NOT, PrimitiveType.PRED, (guard,))
        b.store(out, i, (value,), other)
    if inner_loop:
        j, _ = b.open_loop(2)
        b.store(out, j, (negated,))
        b.close_loop()
    b.store(out, i, (negated,), guard)
    b.close_loop()
    (loop,) = [s for s in b.kernel.stages if isinstance(s, Loop)]
    return loop


def test_tail_begins_behind_the_guard() -> None:
    body = body_of().body
    tail = guarded_tail(body)
    assert tail is not None
    store = body[-1]
    assert isinstance(store, Store) and tail.guard is store.guard
    assert [type(s) for s in body[: tail.start]].count(Load) == 1
    assert store.values[0] in [s.result for s in body[tail.start : -1]]


def test_other_stores_and_loops_are_no_tail() -> None:
    assert guarded_tail(body_of(second_guard=True).body) is None
    assert guarded_tail(body_of(inner_loop=True).body) is None


def test_guard_from_outside_is_none() -> None:
    body = body_of().body
    tail = guarded_tail(body)
    assert tail is not None
    assert guarded_tail(body[tail.start :]) is None


def test_store_without_guard_is_none() -> None:
    b = LoopBuilder("k")
    out = b.buffer("out", F32, 8, BufferRole.OUTPUT)
    b.store(out, ZERO, (b.constant(F32, 1),))
    assert guarded_tail(b.kernel.stages) is None


SCATTER = """
  o { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] minimum(a, b) }
  ENTRY main {
    x = f32[100] parameter(0)
    i = s32[50,1] parameter(1)
    u = f32[50] parameter(2)
    ROOT r = f32[100] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=o
  }"""


def test_a_scatter_reads_updates_that_it_takes() -> None:
    """The place is compared, and all else is behind the jump: what is there, the update, and the
    place as an index, which is not limited once more."""
    text = compile(parse_module("HloModule m\n" + SCATTER), target="x86-64-v4").texts()["llvm"]
    found = re.search(r"^define [^\n]*kernel\.r.*?^}", text, re.S | re.M)
    assert found is not None
    before, jump, behind = found.group().partition("br i1 %")
    assert jump and before.count("load ") == 1 and behind.count("load float") == 2
    assert "select" not in found.group() and "zext i32" in behind


LOOP = """HloModule m
  o { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
  body {
    s = (s32[], f32[1], s32[2,1], f32[2]) parameter(0)
    k = s32[] get-tuple-element(s), index=0
    x = f32[1] get-tuple-element(s), index=1
    i = s32[2,1] get-tuple-element(s), index=2
    u = f32[2] get-tuple-element(s), index=3
    one = s32[] constant(1)
    next = s32[] add(k, one)
    y = f32[1] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
      scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=o
    ROOT t = (s32[], f32[1], s32[2,1], f32[2]) tuple(next, y, i, u)
  }
  condition {
    s = (s32[], f32[1], s32[2,1], f32[2]) parameter(0)
    k = s32[] get-tuple-element(s), index=0
    last = s32[] constant(3)
    ROOT c = pred[] compare(k, last), direction=LT
  }
  ENTRY main {
    x = f32[1] parameter(0)
    i = s32[2,1] parameter(1)
    u = f32[2] parameter(2)
    zero = s32[] constant(0)
    s = (s32[], f32[1], s32[2,1], f32[2]) tuple(zero, x, i, u)
    w = (s32[], f32[1], s32[2,1], f32[2]) while(s), condition=condition, body=body
    ROOT r = f32[1] get-tuple-element(w), index=1
  }"""


def test_registers_are_written_on_every_path() -> None:
    """An array that a loop holds in registers becomes something, which is no store to jump over."""
    x, places, updates = np.array([1], "f4"), np.array([[0], [-1]], "i4"), np.array([2, 8], "f4")
    (result,) = compile(parse_module(LOOP)).execute([x, places, updates])
    assert result.tolist() == [7]
