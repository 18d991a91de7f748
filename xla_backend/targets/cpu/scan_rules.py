"""Prefix reductions (a reduce-window as long as its axis) as library scans; other windows are
kernels."""

from __future__ import annotations

import math

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.nests import scan_axis
from xla_backend.kernels.from_hlo.reductions import identity_of, monoid
from xla_backend.targets.cpu.driver import Driver, runs
from xla_backend.targets.cpu.routines.library import kernel_library

_NAMES = {
    Opcode.ADD: "cumsum",
    Opcode.MULTIPLY: "cumprod",
    Opcode.MAXIMUM: "cummax",
    Opcode.MINIMUM: "cummin",
}


@runs(Opcode.REDUCE_WINDOW)
def _reduce_window(driver: Driver, node: Instruction) -> None:
    scan = scan_axis(node)
    name = _library_scan(node) if scan is not None else None
    if scan is None or name is None or node.shape.num_elements == 0:
        driver.run_kernel(node)
        return
    axis, reverse = scan
    dims = node.shape.dimensions
    sizes = (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]), int(reverse))
    arguments = [("ptr", driver.address(node.operands[0])), ("ptr", driver.address(node))]
    arguments += [("i64", str(size)) for size in sizes]
    driver.w.call(name, "void", arguments)


def _library_scan(node: Instruction) -> str | None:
    """The library function, if the reduction is one it knows and starts from its neutral
    element."""
    if node.shape.is_tuple:
        return None
    opcode = monoid(node.called[0])
    operand, init = node.operands
    if opcode not in _NAMES or not init.is_constant:
        return None
    type = operand.shape.element_type
    name = f"pyjax_{_NAMES[opcode]}_{type}"
    if name not in kernel_library():
        return None
    neutral = identity_of(opcode, type)
    return name if init.literal_array == neutral else None
