"""The kernel of a reduce-window whose windows are the prefixes (or suffixes) of rows."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.instruction import Instruction
from xla_backend.kernels.from_hlo.lower import begin
from xla_backend.kernels.from_hlo.reductions import Reduction
from xla_backend.kernels.index import Index, delinearize
from xla_backend.kernels.ir import Kernel, Value
from xla_backend.kernels.library.rows import Rows
from xla_backend.kernels.library.scan_parts import Scanned
from xla_backend.kernels.library.scans import scan


def cumulative_kernel(name: str, node: Instruction, axis: int, reverse: bool) -> Kernel:
    """`out0`, `out1` ... from the operands `p0`, `p1` ... and the initial values behind them."""
    e, _, outputs = begin(node, name)
    count = len(node.operands) // 2
    operands, starts = node.operands[:count], node.operands[count:]
    dims = operands[0].shape.dimensions
    reduction = Reduction(e, node.called[0], [o.shape.element_type for o in operands])

    def element(at: Index, guard: Value | None) -> list[Value]:
        with e.guarded(guard):
            return reduction.widen([e.value(o, delinearize(at, dims)) for o in operands])

    def keep(at: Index, results: Sequence[Value], guard: Value | None) -> None:
        for output, result in zip(outputs, reduction.narrow(results)):
            e.store(output, at, result, guard)

    def start() -> list[Value]:
        return reduction.widen([e.value(s, ()) for s in starts])

    def combine(before: Sequence[Value], after: Sequence[Value]) -> list[Value]:
        # What a scan from the end has seen before stands behind the others.
        turned = reverse and not reduction.commutes
        return reduction.combine(after, before) if turned else reduction.combine(before, after)

    rows = Rows(dims, axis)
    scanned = Scanned(reduction.reals, combine, start, element, keep)
    scan(e.builder, rows, scanned, reverse=reverse)
    return e.builder.kernel
