"""What all shape rules share: the form of a rule, and the error it raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from xla_backend.hlo.attributes import Attributes
from xla_backend.hlo.errors import ShapeInferenceError
from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType


class RuleContext:
    """The arguments of one inference. `given` is the shape the instruction already has (or None):
    the opcodes whose result does not follow from operands and attributes (convert, reshape,
    iota ...) check and return it."""

    __slots__ = ("attributes", "called", "given", "opcode", "shapes")

    def __init__(
        self,
        opcode: Opcode,
        shapes: Sequence[Shape],
        attributes: Attributes,
        called: Sequence[Computation],
        given: Shape | None,
    ) -> None:
        self.opcode = opcode
        self.shapes = shapes
        self.attributes = attributes
        self.called = called
        self.given = given

    def fail(self, what: str, fix: str = "") -> NoReturn:
        operands = ", ".join(map(str, self.shapes))
        text = f"{self.opcode}({operands}): {what}"
        if fix:
            text += f". {fix}"
        raise ShapeInferenceError(text)

    def require(self, condition: object, what: str, fix: str = "") -> None:
        if not condition:
            self.fail(what, fix)

    def require_given(self) -> Shape:
        """The result shape, for opcodes that cannot infer it."""
        if self.given is None:
            self.fail(
                "the result shape does not follow from the operands",
                "Pass shape=... to HloBuilder.add, or write it before the opcode in HLO text",
            )
        return self.given

    def require_arity(self, count: int) -> None:
        # operands_c1
        if len(self.shapes) != count:
            self.fail(f"takes {count} operand(s), got {len(self.shapes)}")

    def require_array(self, *indices: int) -> None:
        """These operands (all if none is named) must be arrays, not tuples or tokens."""
        for i in indices or range(len(self.shapes)):
            # operands_c2
            if not self.shapes[i].is_array:
                self.fail(
                    f"operand {i} must be an array",
                    "Take members of a tuple with get-tuple-element first",
                )

    def require_dimension(self, dimension: int, rank: int, what: str) -> None:
        if not 0 <= dimension < rank:
            self.fail(f"{what} {dimension} is out of range for rank {rank}", f"Use 0 to {rank - 1}")

    def require_distinct(self, dimensions: Sequence[int], rank: int, what: str) -> None:
        for d in dimensions:
            self.require_dimension(d, rank, what)
        if len(set(dimensions)) != len(dimensions):
            self.fail(f"{what} {set_text(dimensions)} names a dimension twice")

    def require_called(self, count: int) -> None:
        # called_c1
        if len(self.called) != count:
            self.fail(f"calls {count} computation(s), got {len(self.called)}")
        for computation in self.called:
            # called_c2
            if computation.root is None:
                self.fail(
                    f"called computation %{computation.name} has no root", "Call set_root on it"
                )

    def require_signature(
        self, computation: Computation, parameters: Sequence[Shape], result: Shape | None, role: str
    ) -> Shape:
        """`computation` must take `parameters` and return `result` (any result if None). Returns
        its result."""
        have, root = computation.program_shape
        if len(have) != len(parameters) or not all(
            a.compatible(b) for a, b in zip(have, parameters)
        ):
            self.fail(
                f"{role} %{computation.name} takes {types_text(have)}, must take "
                f"{types_text(parameters)}"
            )
        if result is not None and not root.compatible(result):
            self.fail(f"{role} %{computation.name} returns {root}, must return {result}")
        return root


Rule = Callable[[RuleContext], Shape]


def set_text(values: Sequence[int]) -> str:
    return "{" + ",".join(map(str, values)) + "}"


def types_text(shapes: Sequence[Shape]) -> str:
    return "(" + ", ".join(map(str, shapes)) + ")"


def one_or_tuple(shapes: Sequence[Shape]) -> Shape:
    """Variadic opcodes return an array for one operand and a tuple for several."""
    return shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)


PRED = Shape(PrimitiveType.PRED)
S32 = Shape(PrimitiveType.S32)
U32 = Shape(PrimitiveType.U32)
TOKEN = Shape.token()
