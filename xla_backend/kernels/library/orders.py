"""Whether one element of a sort comes before another: by its comparator, and where that does not
say, by where they were before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import Buffer, BufferRole, Value

Compare = Callable[[Sequence[Element], Sequence[Element]], Value]


class Order:
    """What elements are sorted by. `keys`: the numbers of the operands that are compared;
    `comes_first` says of two elements, given by their keys, whether the first one must."""

    def __init__(
        self,
        e: ElementalEmitter,
        types: Sequence[PrimitiveType],
        keys: Sequence[int],
        comes_first: Compare,
    ) -> None:
        self.e = e
        self.types = types
        self.keys = keys
        self.comes_first = comes_first

    @property
    def key_bytes(self) -> int:
        """Of one element, as far as the comparator looks at it."""
        return sum(self.types[i].byte_size for i in self.keys)

    def keys_at(
        self, operands: Sequence[Buffer], at: Index, guard: Value | None = None
    ) -> list[Element]:
        """The keys of an element that lies in memory."""
        with self.e.guarded(guard):
            return [self.e.load(operands[i], at, self.types[i]) for i in self.keys]


def by_comparator(e: ElementalEmitter, comparator: Computation, shapes: Sequence[Shape]) -> Order:
    """The order of a sort's comparator."""
    types = [shape.element_type for shape in shapes]
    pairs = zip(comparator.parameters[::2], comparator.parameters[1::2])
    keys = [i for i, pair in enumerate(pairs) if any(p.users or p.is_root for p in pair)]

    def comes_first(x: Sequence[Element], y: Sequence[Element]) -> Value:
        arguments: list[Element] = []
        for i, type in enumerate(types):
            if i in keys:
                arguments += [x[keys.index(i)], y[keys.index(i)]]
            else:
                arguments += [e.scalar(type, 0)] * 2
        result = e.apply(comparator, arguments)
        assert isinstance(result, Value)
        return result

    return Order(e, types, keys, comes_first)


def by_number(e: ElementalEmitter, type: PrimitiveType) -> Order:
    """The order of integers."""

    def comes_first(x: Sequence[Element], y: Sequence[Element]) -> Value:
        less = CompareAttributes(ComparisonDirection.LT)
        return e.builder.compute(Opcode.COMPARE, PrimitiveType.PRED, [*x, *y], less)  # type: ignore[list-item]

    return Order(e, [type], [0], comes_first)


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
