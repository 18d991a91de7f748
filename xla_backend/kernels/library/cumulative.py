"""The kernel of a reduce-window whose windows are the prefixes (or suffixes) of rows."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.instruction import Instruction
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import ElementalEmitter
from xla_backend.kernels.from_hlo.reductions import Reduction
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import BufferRole, Kernel, Value
from xla_backend.kernels.library.rows import Rows
from xla_backend.kernels.library.scans import Scanned, scan


def cumulative_kernel(name: str, node: Instruction, axis: int, reverse: bool) -> Kernel:
    """`out0`, `out1` ... from the operands `p0`, `p1` ... and the initial values behind them."""
    b = LoopBuilder(name)
    e = ElementalEmitter(b, {})
    count = len(node.operands) // 2
    buffers = [
        b.buffer(f"p{i}", o.shape.element_type, o.shape.num_elements, BufferRole.OPERAND, i)
        for i, o in enumerate(node.operands)
    ]
    outputs = [
        b.buffer(f"out{i}", s.element_type, s.num_elements, BufferRole.OUTPUT, i)
        for i, s in enumerate(node.shape.flatten())
    ]
    types = [o.shape.element_type for o in node.operands[:count]]
    reduction = Reduction(e, node.called[0], types)

    def values(sources: Sequence[int], at: Index) -> list[Value]:
        elements = [e.load(buffers[i], at, types[i % count]) for i in sources]
        return reduction.widen(elements)

    def element(at: Index, guard: Value | None) -> list[Value]:
        with e.guarded(guard):
            return values(range(count), at)

    def keep(at: Index, results: Sequence[Value], guard: Value | None) -> None:
        for output, result in zip(outputs, reduction.narrow(results)):
            e.store(output, at, result, guard)

    def start() -> list[Value]:
        return values(range(count, 2 * count), Index({}, 0))

    rows = Rows(node.operands[0].shape.dimensions, axis)
    scanned = Scanned(reduction.reals, reduction.combine, start, element, keep)
    scan(b, rows, scanned, reverse=reverse)
    return b.kernel
