"""Handlers of threaded code that update elements of memory, lane after lane: scatters.

  h(code, frame): operands: the slot of an address, that of the numbers of elements behind it, that
                  of a value for each, how many lanes there are, and of a masked one the slot of
                  the mask of those that update anything

Elements may be the same in several lanes: each takes what the one before has left.
"""

from __future__ import annotations

from functools import partial

from xla_backend.codegen.operations import operation
from xla_backend.hlo.attributes import NO_ATTRIBUTES
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.types import register_type
from xla_backend.targets.cpu.routines.threaded import Handler
from xla_backend.targets.cpu.routines.threaded_groups import Handlers, declare_handlers
from xla_backend.targets.cpu.routines.threaded_memory import INDICES, indexed_place, is_in_mask
from xla_backend.targets.cpu.routines.threaded_memory_names import UPDATED, UPDATES


def register() -> None:
    """Declares the handlers."""
    for opcode in UPDATES:
        found: Handlers = {}
        for t in UPDATED:
            for index in INDICES:
                name = f"update.{opcode.value}.{t.value}.{index}"
                found[name] = 4, partial(_update, opcode, t, index, False)
                found[f"{name}.masked"] = 5, partial(_update, opcode, t, index, True)
        declare_handlers(f"threaded_updates.{opcode.value}", found)


def _update(opcode: Opcode, t: P, index: str, masked: bool, h: Handler) -> None:
    w, ty = h.w, register_type(t)
    base, indices, values = h.load(0, "ptr"), h.slot(1), h.slot(2)
    with w.loop(0, h.word(3), guard=False) as loop:
        lane = loop.index

        def update() -> None:
            place = indexed_place(w, t.byte_size, base, indices, index, lane)
            operands = [w.load(ty, place), w.load(ty, w.gep(ty, values, lane))]
            w.store(ty, operation(w, opcode, NO_ATTRIBUTES, t, t, 1, operands), place)

        if not masked:
            update()
        else:
            with w.if_(is_in_mask(h, 4, lane)):
                update()
