"""All algebraic rules in one walk."""

from __future__ import annotations

from xla_backend.passes.algebraic_arithmetic import AlgebraicArithmeticSimplifier
from xla_backend.passes.algebraic_contraction import AlgebraicContractionSimplifier
from xla_backend.passes.algebraic_integer import AlgebraicIntegerSimplifier
from xla_backend.passes.algebraic_reduction import AlgebraicReductionSimplifier
from xla_backend.passes.algebraic_shape import AlgebraicShapeSimplifier
from xla_backend.passes.algebraic_window import AlgebraicWindowSimplifier
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.transpose_folding import TransposeFolding

_TABLES = (
    AlgebraicArithmeticSimplifier.rules,
    AlgebraicIntegerSimplifier.rules,
    AlgebraicShapeSimplifier.rules,
    AlgebraicContractionSimplifier.rules,
    AlgebraicReductionSimplifier.rules,
    AlgebraicWindowSimplifier.rules,
    # Here and not on its own: other rules would first move a transpose away from its dot.
    TransposeFolding.rules,
)


class AlgebraicSimplifier(RuleTablePass):
    """The tables of the algebraic-* passes together.

    Why: one walk over the module instead of three, and a rule sees at once what another left.
    Needs: nothing.  Leaves: no pattern of any of the tables.
    """

    name = "algebraic-simplifier"
    rules = {
        opcode: tuple(rule for table in _TABLES for rule in table.get(opcode, ()))
        for opcode in {opcode for table in _TABLES for opcode in table}
    }
