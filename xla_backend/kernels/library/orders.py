"""Whether one element of a sort comes before another: by its comparator, and where that does not
say, by where they were before."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.shape import Shape
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, BufferRole, Value


class Order:
    """The comparator of a sort, and which of its operands it looks at."""

    def __init__(self, e: ElementalEmitter, comparator: Computation, shapes: Sequence[Shape]):
        self.e = e
        self.comparator = comparator
        self.types = [shape.element_type for shape in shapes]
        pairs = zip(comparator.parameters[::2], comparator.parameters[1::2])
        self.keys = [i for i, pair in enumerate(pairs) if any(p.users or p.is_root for p in pair)]

    @property
    def key_bytes(self) -> int:
        """Of one element, as far as the comparator looks at it."""
        return sum(self.types[i].byte_size for i in self.keys)

    def comes_first(self, x: Sequence[Element], y: Sequence[Element]) -> Value:
        """What the comparator says of two elements, given by their keys."""
        arguments: list[Element] = []
        for i, type in enumerate(self.types):
            if i in self.keys:
                arguments += [x[self.keys.index(i)], y[self.keys.index(i)]]
            else:
                arguments += [self.e.scalar(type, 0)] * 2
        result = self.e.apply(self.comparator, arguments)
        assert isinstance(result, Value)
        return result

    def keys_at(
        self, operands: Sequence[Buffer], at: Index, guard: Value | None = None
    ) -> list[Element]:
        """The keys of an element that lies in memory."""
        with self.e.guarded(guard):
            return [self.e.load(operands[i], at, self.types[i]) for i in self.keys]


def operands_and_outputs(
    b: LoopBuilder, shapes: Sequence[Shape]
) -> tuple[list[Buffer], list[Buffer]]:
    """Buffers p0, p1 ... of a sort and out0, out1 ... of its results."""
    made = [
        [
            b.buffer(f"{name}{i}", s.element_type, s.num_elements, role, i)
            for i, s in enumerate(shapes)
        ]
        for name, role in (("p", BufferRole.OPERAND), ("out", BufferRole.OUTPUT))
    ]
    return made[0], made[1]
