"""What a computation knows of itself stays right under edits: its opcodes, and whether its order
has operands before users."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module

PROGRAM = """HloModule m

ENTRY main {
  p = f32[4] parameter(0)
  q = f32[4] parameter(1)
  a = f32[4] add(p, q)
  s = f32[4] sine(a)
  c = f32[4] cosine(a)
  ROOT m = f32[4] multiply(s, c)
}
"""


@pytest.fixture
def computation() -> Computation:
    entry = parse_module(PROGRAM).entry
    assert entry is not None
    return entry


def check(computation: Computation) -> None:
    """Compare what it says of itself with what a look at everything says."""
    nodes = computation.instructions
    assert set(computation.opcodes) == {node.opcode for node in nodes}
    place = {node: k for k, node in enumerate(nodes)}
    ordered = all(place[o] < place[node] for node in nodes for o in node.operands)
    assert computation.is_ordered() == ordered
    order = {node: k for k, node in enumerate(computation.post_order())}
    assert order.keys() == place.keys()
    assert all(order[o] < order[node] for node in order for o in node.operands)
    for opcode in Opcode:
        assert computation.post_order(opcode) == [n for n in order if n.opcode is opcode]


def by_opcode(computation: Computation, opcode: Opcode) -> Instruction:
    (found,) = computation.post_order(opcode)
    return found


def test_replacing_by_what_was_added_last(computation: Computation) -> None:
    check(computation)
    sine = by_opcode(computation, Opcode.SINE)
    computation.replace(sine, Instruction(Opcode.TANH, sine.shape, sine.operands))
    assert Opcode.SINE not in computation.opcodes
    assert not computation.is_ordered()
    check(computation)
    computation.reorder(computation.post_order())
    assert computation.is_ordered()
    check(computation)


def test_other_edits_of_operands(computation: Computation) -> None:
    add, sine = by_opcode(computation, Opcode.ADD), by_opcode(computation, Opcode.SINE)
    late = computation.add(Instruction(Opcode.TANH, add.shape, computation.parameters[:1]))
    check(computation)
    computation.replace_operand(sine, 0, late)
    check(computation)
    computation.set_operands(sine, [add])
    check(computation)
    computation.replace_all_uses({add: late})
    check(computation)
    computation.remove(add)
    check(computation)


def test_parameters_and_the_end(computation: Computation) -> None:
    root = computation.root
    assert root is not None
    computation.set_root(computation.parameters[0])
    computation.remove_if_dead(root)
    check(computation)
    computation.remove_parameter(1)
    check(computation)
    computation.take_apart()
    check(computation)


def test_many_random_edits(computation: Computation) -> None:
    random = np.random.default_rng(3)
    unary = [Opcode.SINE, Opcode.COSINE, Opcode.TANH]
    for _ in range(60):
        nodes = computation.post_order()
        old = nodes[random.integers(2, len(nodes))]
        before = nodes[: nodes.index(old)]
        source = before[random.integers(len(before))]
        opcode = unary[random.integers(3)]
        if random.integers(2):
            computation.replace(old, Instruction(opcode, old.shape, [source]))
        else:
            computation.add(Instruction(opcode, old.shape, [old]))
        check(computation)
    assert sum(Counter(n.opcode for n in computation).values()) == len(computation)
