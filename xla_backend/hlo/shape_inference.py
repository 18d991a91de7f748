"""Shape inference: the result shape of an instruction from its opcode, operands and attributes.

The rules live in the shape_rules_* files, one function per opcode family; this file joins their
tables. A rule checks its constraints and raises ShapeInferenceError with opcode, operand shapes and
what to write instead. A comment above each check names the constraint, `# concatenate_c4`: the
number in StableHLO's specification where the opcode is listed there, else a number of ours. The
negative test of a constraint has its name.
"""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import NO_ATTRIBUTES, Attributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import Rule, RuleContext
from xla_backend.hlo.shape_dynamic import with_dynamic_dimensions
from xla_backend.hlo.shape_rules_collectives import COLLECTIVE_RULES
from xla_backend.hlo.shape_rules_contractions import CONTRACTION_RULES
from xla_backend.hlo.shape_rules_control import CONTROL_RULES
from xla_backend.hlo.shape_rules_elementwise import ELEMENTWISE_RULES
from xla_backend.hlo.shape_rules_indexing import INDEXING_RULES
from xla_backend.hlo.shape_rules_structural import STRUCTURAL_RULES
from xla_backend.hlo.shape_rules_structured import STRUCTURED_RULES

RULES: dict[Opcode, Rule] = {
    **ELEMENTWISE_RULES,
    **STRUCTURAL_RULES,
    **CONTROL_RULES,
    **CONTRACTION_RULES,
    **STRUCTURED_RULES,
    **INDEXING_RULES,
    **COLLECTIVE_RULES,
}


def infer_shape(
    opcode: Opcode,
    operands: Sequence[Instruction],
    attributes: Attributes = NO_ATTRIBUTES,
    called: Sequence[Computation] = (),
    given: Shape | None = None,
) -> Shape:
    """Result shape of `opcode` on these operands.

    Args:
      given: the shape the instruction has or is to have. Opcodes whose result does not follow from
        operands and attributes (convert, reshape, broadcast, iota, custom-call ...) check and
        return it; dot and convolution take their element type from it; for the others it makes
        no difference.
    Raises:
      ShapeInferenceError: a constraint of the opcode is broken, or `given` is needed and missing.
    """
    return infer_shape_from_shapes(opcode, [o.shape for o in operands], attributes, called, given)


def infer_shape_from_shapes(
    opcode: Opcode,
    shapes: Sequence[Shape],
    attributes: Attributes = NO_ATTRIBUTES,
    called: Sequence[Computation] = (),
    given: Shape | None = None,
) -> Shape:
    """`infer_shape` when only the operands' shapes are at hand."""
    context = RuleContext(opcode, shapes, attributes, called, given)
    result = RULES[opcode](context)
    for shape in shapes:
        if shape.dynamic is not None:
            return with_dynamic_dimensions(context, result)
    return result


def needs_given_shape(opcode: Opcode) -> bool:
    """Whether the result shape of `opcode` must be written, because operands and attributes do not
    imply it."""
    return opcode in _NEEDS_GIVEN


_NEEDS_GIVEN = frozenset(
    Opcode(text)
    for text in (
        "parameter iota reshape bitcast dynamic-reshape broadcast convert stochastic-convert "
        "bitcast-convert set-dimension-size custom-call rng rng-bit-generator "
        "rng-get-and-update-state ragged-dot scaled-dot infeed recv all-gather reduce-scatter "
        "all-gather-start collective-permute-start async-start"
    ).split()
)
