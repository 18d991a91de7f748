"""The reducer: whatever makes a module fail stays, the rest goes."""

from collections.abc import Callable

import pytest

from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.verifier import verify
from xla_backend.tools.module_reducer import reduce_module

PROGRAM = """
HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }

add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }

condition {
  t = (s32[], f32[6], f32[6]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT
}

body {
  t = (s32[], f32[6], f32[6]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[6] get-tuple-element(t), index=1
  y = f32[6] get-tuple-element(t), index=2
  tan = f32[6] tan(x)
  ROOT r = (s32[], f32[6], f32[6]) tuple(next, tan, y)
}

callee { p = f32[6] parameter(0) ROOT c = f32[6] cosine(p) }

ENTRY main {
  p = f32[6] parameter(0)
  q = f32[6] parameter(1)
  e = f32[6] exponential(p)
  s = f32[6] sine(e)
  zero = s32[] constant(0)
  start = (s32[], f32[6], f32[6]) tuple(zero, s, q)
  loop = (s32[], f32[6], f32[6]) while(start), condition=condition, body=body
  x = f32[6] get-tuple-element(loop), index=1
  called = f32[6] call(x), to_apply=callee
  nothing = f32[] constant(0)
  total = f32[] reduce(called, nothing), dimensions={0}, to_apply=add
  ROOT r = (f32[6], f32[]) tuple(called, total)
}
"""


def opcodes(module: HloModule) -> list[Opcode]:
    return [node.opcode for computation in module.computations for node in computation]


def has(*wanted: Opcode) -> Callable[[HloModule], bool]:
    return lambda module: set(wanted) <= set(opcodes(module))


@pytest.mark.parametrize("failing", [Opcode.SINE, Opcode.COSINE, Opcode.TAN, Opcode.REDUCE])
def test_one_instruction_is_left(failing):
    reduced = reduce_module(parse_module(PROGRAM), has(failing))
    assert reduced.entry.root.opcode is failing
    assert len(reduced.entry) <= 3 and not reduced.aliases, module_to_text(reduced)
    assert all(node.shape.num_elements == 1 for node in reduced.entry)


def test_what_is_needed_together_stays_together():
    def fails(module: HloModule) -> bool:
        cosines = [n for c in module.computations for n in c if n.opcode is Opcode.COSINE]
        return any(o.opcode is Opcode.GET_TUPLE_ELEMENT for n in cosines for o in n.operands)

    module = parse_module(PROGRAM.replace("call(x), to_apply=callee", "cosine(x)"))
    reduced = reduce_module(module, fails)
    assert fails(reduced) and len(opcodes(reduced)) < 20


def test_a_loop_loses_the_carries_that_do_not_matter():
    reduced = reduce_module(parse_module(PROGRAM), has(Opcode.WHILE))
    (loop,) = [n for n in reduced.entry if n.opcode is Opcode.WHILE]
    assert len(loop.shape.tuple_shapes) == 1, module_to_text(reduced)


def test_candidates_are_valid_and_the_argument_is_not_changed():
    module = parse_module(PROGRAM)
    before = module_to_text(module)
    seen = []

    def fails(candidate: HloModule) -> bool:
        verify(candidate)
        seen.append(candidate)
        return Opcode.EXPONENTIAL in opcodes(candidate)

    reduce_module(module, fails, max_tests=20)
    assert module_to_text(module) == before and len(seen) <= 21


def test_a_module_that_does_not_fail():
    with pytest.raises(ValueError, match="module 'm' does not fail"):
        reduce_module(parse_module(PROGRAM), lambda module: False)
