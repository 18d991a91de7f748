"""Small dots in loops are arithmetic."""

from __future__ import annotations

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.passes.dot_strength_reduction import (
    sum_of_products,
    sums_as_a_reduce,
    sums_of_rows,
)
from xla_backend.passes.dots import dot_sizes
from xla_backend.passes.emit import adopt

# Sides of matrices, and elements of results and of matrices that vectors are multiplied by, which
# are a few registers.
_TINY_SIDE, _MOST_ELEMENTS = 4, 256
# Terms of a sum that are added one after another in less time than a routine takes to begin.
_MOST_TERMS = 16


class WhileDotStrengthReduction(HloPass):
    """In the body of a loop, dots of a few elements -> sums of products of columns and rows, or of
    rows of a product.

    Why: each round waits for a call of a routine, which finds its operands in memory and leaves its
    result there; arithmetic fuses with its neighbours, in registers.
    Needs: dots as dot-decomposer leaves them.  Before fusion.
    Leaves: in loops no f32, f64 or 32-bit integer dot of matrices of at most four by four with a
      result of up to 256 elements, or of one of up to 256 elements and a vector of at most 16.
    """

    name = "while-dot-strength-reduction"
    opcodes = frozenset({Opcode.WHILE})
    module_opcodes = frozenset({Opcode.DOT})

    def run(self, module: HloModule) -> bool:
        changed = False
        bodies = {
            node.called[1]: None
            for computation in module.computations
            for node in computation.instructions
            if node.opcode is Opcode.WHILE
        }
        for body in bodies:
            changed |= self._in_body(body)
        return changed

    def _in_body(self, body: Computation) -> bool:
        changed = False
        for node in body.post_order(Opcode.DOT):
            new = _as_arithmetic(node) if self.may_rewrite() else None
            if new is None:
                continue
            body.replace(node, new)
            self.rewritten()
            changed = True
        if changed:
            adopt(body)
        return changed


def _as_arithmetic(node: Instruction) -> Instruction | None:
    sizes = dot_sizes(node)
    if not sums_as_a_reduce(node) or not 2 <= sizes.k <= _MOST_TERMS or 0 in sizes:
        return None
    if max(sizes.m, sizes.n, sizes.k) <= _TINY_SIDE:
        return sum_of_products(node) if node.shape.num_elements <= _MOST_ELEMENTS else None
    few = sizes.batch * max(sizes.m, sizes.n) * sizes.k <= _MOST_ELEMENTS
    return sums_of_rows(node) if few and 1 in (sizes.m, sizes.n) else None
