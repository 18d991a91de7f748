"""HLO instructions: the nodes of a computation's graph. A node is equal by identity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    ConstantAttributes,
    GetTupleElementAttributes,
    ParameterAttributes,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

if TYPE_CHECKING:
    from xla_backend.hlo.computation import Computation


@dataclass(frozen=True, slots=True)
class OpMetadata:
    """Where an instruction came from: the framework's op path and the user's line.

    A module read from text may give the line by `stack_frame_id`, a row of its source tables;
    `source_location` (module.py) finds it either way.
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    deduplicated_name: str = ""
    scheduling_name: str = ""
    stack_frame_id: int = 0


NO_METADATA = OpMetadata()


class Instruction:
    """One operation. `users` and `parent` are maintained by Computation; passes never assign to
    them.
    """

    __slots__ = (
        "annotations",
        "attributes",
        "called",
        "metadata",
        "name",
        "opcode",
        "operands",
        "parent",
        "shape",
        "users",
    )

    def __init__(
        self,
        opcode: Opcode,
        shape: Shape,
        operands: list[Instruction] | tuple[Instruction, ...] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        called: list[Computation] | tuple[Computation, ...] = (),
        metadata: OpMetadata = NO_METADATA,
        name: str = "",
        annotations: dict[str, Any] | None = None,
    ) -> None:
        self.opcode = opcode
        self.shape = shape
        self.operands: list[Instruction] = list(operands)
        self.attributes = attributes
        self.called: list[Computation] = list(called)
        self.metadata = metadata
        self.name = name
        # Attributes any opcode may carry (sharding, frontend_attributes, backend_config ...): the
        # text of the value by the name of the attribute, e.g. {"sharding": "{replicated}"}; None
        # when there are none. "control-predecessors" is a tuple of instructions instead.
        self.annotations = annotations
        self.users: dict[Instruction, None] = {}  # insertion-ordered set
        self.parent: Computation | None = None

    # -- typed short cuts used all over the compiler -------------------------------------------

    @property
    def parameter_number(self) -> int:
        assert isinstance(self.attributes, ParameterAttributes)
        return self.attributes.number

    @property
    def literal_array(self) -> np.ndarray:
        """Value of a constant (read-only)."""
        assert isinstance(self.attributes, ConstantAttributes)
        return self.attributes.literal.array

    @property
    def tuple_index(self) -> int:
        assert isinstance(self.attributes, GetTupleElementAttributes)
        return self.attributes.index

    @property
    def control_predecessors(self) -> tuple[Instruction, ...]:
        """Instructions that must run before this one though it does not use them."""
        if self.annotations is None:
            return ()
        found = self.annotations.get("control-predecessors", ())
        return tuple(node for node in found if node.parent is self.parent)

    @property
    def is_constant(self) -> bool:
        return self.opcode is Opcode.CONSTANT

    @property
    def is_decomposed_call(self) -> bool:
        """A call whose one computation takes its operands and gives its result, so that it can
        stand for the call."""
        if len(self.called) != 1:
            return False
        parameters, result = self.called[0].program_shape
        return (
            len(parameters) == len(self.operands)
            and all(p.compatible(o.shape) for p, o in zip(parameters, self.operands))
            and result.compatible(self.shape)
        )

    @property
    def is_root(self) -> bool:
        return self.parent is not None and self.parent.root is self

    def __repr__(self) -> str:
        operands = ", ".join("%" + o.name for o in self.operands)
        return f"%{self.name} = {self.shape} {self.opcode}({operands})"
