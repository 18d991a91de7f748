"""UnstableReductionDetector: sums that lose precision because they add up in a small type."""

from __future__ import annotations

import logging

from xla_backend.hlo.errors import HloError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule, source_places
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.source_tables import place_lines
from xla_backend.passes.base import HloPass

logger = logging.getLogger("xla_backend")

_REDUCTIONS = frozenset(
    {
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SELECT_AND_SCATTER,
        Opcode.ALL_REDUCE,
        Opcode.REDUCE_SCATTER,
    }
)
_ROUNDING = frozenset({Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY})
_STABLE_BYTES = 4


class UnstableReductionError(HloError, ArithmeticError):
    """A reduction adds up in a type that is too small for it."""


class UnstableReductionDetector(HloPass):
    """Names reductions that add or multiply in a floating-point type of less than 32 bits.

    Why: a sum of a thousand bfloat16 numbers is wrong in its second digit; the program should
    convert to f32 first. A check: it changes nothing.
    """

    name = "unstable-reduction-detector"

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def run(self, module: HloModule) -> bool:
        """Log a warning for each such reduction, or raise at the first if told to fail.

        Raises:
          UnstableReductionError: with the instruction and the user's line.
        """
        for computation in module.computations:
            for node in computation.instructions:
                if node.opcode in _REDUCTIONS and _rounds(node.called[-1]):
                    message = _message(module, node)
                    if self.fails:
                        raise UnstableReductionError(message)
                    logger.warning("%s", message)
        return False


def _rounds(applied: Computation) -> bool:
    """Whether a combining function rounds to a small floating-point type."""
    return any(
        node.opcode in _ROUNDING
        and node.shape.element_type.is_floating
        and node.shape.element_type.byte_size < _STABLE_BYTES
        for node in applied.instructions
    )


def _message(module: HloModule, node: Instruction) -> str:
    where = "".join([f"\n  {line}" for line in place_lines(source_places(node))])
    kind = node.operands[0].shape.element_type
    return (
        f"unstable reduction in module {module.name!r}: {node!r} adds up in {kind}{where}\n"
        "  each step rounds to a few digits; convert the operand to f32 before the reduction"
    )
