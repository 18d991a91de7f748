"""Handlers of operations of which one operand is neighbours in memory, which nothing
has to load before.

  h(code, frame): operands: the slot of the result, that of the other operand, where the first
                  element is (as in `threaded_memory`), and how many times the lanes of one
                  instruction there are
"""

from __future__ import annotations

from functools import partial

from xla_backend.codegen.operations import operation
from xla_backend.hlo.attributes import NO_ATTRIBUTES
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.types import register_type, vector
from xla_backend.targets.cpu.routines.threaded import Handler
from xla_backend.targets.cpu.routines.threaded_elementwise import load_lanes, store_lanes
from xla_backend.targets.cpu.routines.threaded_groups import Handlers, declare_handlers
from xla_backend.targets.cpu.routines.threaded_memory import element_address
from xla_backend.targets.cpu.routines.threaded_memory_names import OPERANDS_IN_MEMORY
from xla_backend.targets.cpu.routines.threaded_names import lanes_at_once
from xla_backend.targets.cpu.routines.threaded_operations import memory_operand_name, plain_name


def register() -> None:
    """Declares the handlers."""
    for t, opcodes in OPERANDS_IN_MEMORY.items():
        found: Handlers = {}
        for opcode in opcodes:
            for number in range(2):
                name = memory_operand_name(plain_name(opcode, t, t), number)
                found[name] = 6, partial(_operate, opcode, t, number)
        declare_handlers(f"threaded_memory_operands.{t.value}", found)


def _operate(opcode: Opcode, t: P, number: int, h: Handler) -> None:
    """Operand `number` is the one in memory."""
    w, lanes = h.w, lanes_at_once(t)
    ty = vector(register_type(t), lanes)
    result, other, memory = h.slot(0), h.slot(1), element_address(h, t.byte_size, 2)
    with w.loop("0", h.word(5), guard=False) as loop:
        values = [load_lanes(w, t, lanes, other, loop.index)]
        place = w.gep("i8", memory, w.imul(loop.index, lanes * t.byte_size))
        values.insert(number, w.load(ty, place, t.byte_size))
        value = operation(w, opcode, NO_ATTRIBUTES, t, t, lanes, values)
        store_lanes(w, t, lanes, result, loop.index, value)
