"""Batch dimensions of size 1 leave a dot."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import DotAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.dots import dot_attributes
from xla_backend.passes.emit import Emit


def _without_degenerate_batches(node: Instruction) -> Instruction | None:
    a = dot_attributes(node)
    lhs, rhs = node.operands
    ones = [i for i, d in enumerate(a.lhs_batch) if lhs.shape.dimensions[d] == 1]
    if not ones:
        return None
    b = Emit(node)
    drop_lhs = [a.lhs_batch[i] for i in ones]
    drop_rhs = [a.rhs_batch[i] for i in ones]
    numbers = DotAttributes(
        _renumbered(a.lhs_contracting, drop_lhs),
        _renumbered(a.rhs_contracting, drop_rhs),
        _renumbered(a.lhs_batch, drop_lhs),
        _renumbered(a.rhs_batch, drop_rhs),
        a.precision,
        a.algorithm,
    )
    x, y = _without(b, lhs, drop_lhs), _without(b, rhs, drop_rhs)
    dims = [n for d, n in enumerate(node.shape.dimensions) if d not in ones]
    dot = b.add(Opcode.DOT, (x, y), numbers, shape=node.shape.with_dimensions(dims))
    return b.reshape(dot, node.shape.dimensions)


def _without(b: Emit, x: Instruction, dropped: Sequence[int]) -> Instruction:
    return b.reshape(x, [n for d, n in enumerate(x.shape.dimensions) if d not in dropped])


def _renumbered(dims: Sequence[int], dropped: Sequence[int]) -> tuple[int, ...]:
    """Dimension numbers after some dimensions are gone."""
    return tuple(d - sum(x < d for x in dropped) for d in dims if d not in dropped)


class BatchDotSimplification(RuleTablePass):
    """Drop batch dimensions of size 1 from dots.

    Why: vmap over one element makes them; without them a dot is one product, which is cut over
    threads, and reshapes and transposes around it fold.
    Needs: nothing.
    Leaves: no dot with a batch dimension of size 1.
    """

    name = "batch-dot-simplification"
    opcodes = frozenset({Opcode.DOT})
    rules = {Opcode.DOT: (_without_degenerate_batches,)}
