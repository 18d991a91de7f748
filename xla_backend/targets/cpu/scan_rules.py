"""Prefix reductions (a reduce-window as long as its axis) as library scans; other windows are
kernels."""

from __future__ import annotations

import math

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import identity_of, monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.nests import scan_axis
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Step
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.rules import RULES, cycles_of

_NAMES = {
    Opcode.ADD: "cumsum",
    Opcode.MULTIPLY: "cumprod",
    Opcode.MAXIMUM: "cummax",
    Opcode.MINIMUM: "cummin",
}


@RULES.runs(Opcode.REDUCE_WINDOW)
def _reduce_window(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    scan = scan_axis(node)
    name = _library_scan(node) if scan is not None else None
    if scan is None or name is None or node.shape.num_elements == 0:
        return builder.launch(node)
    axis, reverse = scan
    dims = node.shape.dimensions
    sizes = (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]), int(reverse))
    operands = (builder.slice(node.operands[0]), builder.slice(node), *sizes)
    return [Library(node.name, cycles_of(node), name, operands)]


def _library_scan(node: Instruction) -> str | None:
    """The library routine, if the reduction is one it knows and starts from its neutral
    element."""
    if node.shape.is_tuple:
        return None
    opcode = monoid(node.called[0])
    operand, init = node.operands
    if opcode not in _NAMES or not init.is_constant:
        return None
    type = operand.shape.element_type
    name = f"{_NAMES[opcode]}_{type}"
    if name not in ROUTINES:
        return None
    neutral = identity_of(opcode, type)
    return name if init.literal_array == neutral else None
