"""The value of one element of an HLO instruction, as loop-IR statements.

`ElementalEmitter.value(node, index)` asks for one element and emits whatever that needs, driven by
the index: a transpose permutes it, a broadcast drops parts of it, a load ends it. Complex elements
are (real, imaginary) pairs of values. Results are remembered per (node, index, guard), so nothing
is emitted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Union

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder, real_type
from xla_backend.kernels.from_hlo import complex_math
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.index import Index, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Value

# A real element is a Value, a complex one a pair, an element of a tuple-shaped node a list of
# those.
Element = Union[Value, tuple[Value, Value], list]
Indices = tuple[Index, ...]
P = PrimitiveType

Handler = Callable[["ElementalEmitter", Instruction, Indices], Element]
HANDLERS: dict[Opcode, Handler] = {}


def handles(*opcodes: Opcode) -> Callable[[Handler], Handler]:
    """Register the element rule of opcodes that are not elementwise."""

    def register(handler: Handler) -> Handler:
        for opcode in opcodes:
            HANDLERS[opcode] = handler
        return handler

    return register


class ElementalEmitter:
    """Emits elements into `builder`; `leaves` are the instructions whose values are in memory."""

    # Whether dimensions, and constants that were computed from them, are those of the arrays.
    sizes_are_known = True

    def __init__(self, builder: LoopBuilder, leaves: Mapping[Instruction, Buffer]) -> None:
        self.builder = builder
        self.leaves = leaves
        self.guard: Value | None = None  # loads emitted now happen only where this holds
        # Instructions whose elements are at hand in some other way, and how to get one.
        self.provided: dict[Instruction, Callable[[Instruction, Indices], Element]] = {}
        self._literals: dict[Instruction, Buffer] = {}
        # Row-major offsets, by the number of the index.
        self._linears: dict[tuple[int, tuple[int, ...]], Index] = {}

    # -- elements ----------------------------------------------------------------------------------

    def value(self, node: Instruction, index: Indices) -> Element:
        """One element. `index` has one entry per dimension of `node` (of its first part, if a
        tuple)."""
        builder, guard = self.builder, self.guard
        lookup = builder.lookup
        # A number for the index, too: it is hashed once, and not with each instruction of a chain.
        # Integer scalars and constants do not depend on the guard; loads do.
        here = self._index_number(index)
        key = (node, here, guard)
        found = lookup(key)
        if found is not None:
            return found
        leaves, provided = self.leaves, self.provided
        if not node.opcode.is_elementwise or node in leaves or node in provided:
            found = self._produce(node, index)
            builder.remember(key, found)
            return found
        rank = len(index)
        scalar = here if rank == 0 else self._index_number(())
        # Of what a chain comes to: each instruction is asked for at one index only.
        known: dict[Instruction, Element] = {}
        stack = [node]  # elementwise chains can be longer than Python's stack is deep
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            whole = top is node or len(top.shape.dimensions) == rank
            at = here if whole else scalar
            opcode = top.opcode
            plain = opcode.is_elementwise and top not in leaves and top not in provided
            if not plain or (opcode is _BITCAST_CONVERT and not is_pointwise(top)):
                key = (top, at, guard)
                found = lookup(key)
                if found is None:
                    found = self._produce(top, index if whole else ())
                    builder.remember(key, found)
                known[top] = found
                stack.pop()
                continue
            its_rank = rank if whole else 0
            operands: list[Element] = []
            missing: list[Instruction] = []
            for operand in top.operands:
                found = known.get(operand)
                if found is None:
                    its = here if len(operand.shape.dimensions) == its_rank else scalar
                    found = lookup((operand, its, guard))
                    if found is None:
                        missing.append(operand)
                        continue
                    known[operand] = found
                operands.append(found)
            if missing:
                stack += missing
                continue
            known[top] = found = self.elementwise(top, operands)
            builder.remember((top, at, guard), found)
            stack.pop()
        return known[node]

    def real(self, node: Instruction, index: Indices) -> Value:
        """An element that is known not to be complex."""
        result = self.value(node, index)
        assert isinstance(result, Value)
        return result

    def is_at_hand(self, node: Instruction) -> bool:
        """Whether elements are in memory, or come in another way than by their rule."""
        return node in self.leaves or node in self.provided

    def _index_number(self, index: Indices) -> int:
        """The number of an index, under which elements are remembered."""
        return self.builder.number_of(index)

    def _produce(self, node: Instruction, index: Indices) -> Element:
        buffer = self.leaves.get(node)
        if buffer is not None:
            shape = node.shape
            return self.load(buffer, self._linear(index, shape.dimensions), shape.element_type)
        provide = self.provided.get(node)
        if provide is not None:
            return provide(node, index)
        if node.opcode is Opcode.CONSTANT:
            return self._literal(node, index)
        handler = HANDLERS.get(node.opcode)
        if handler is None:
            raise UnimplementedError(
                f"cannot generate code for one element of {node!r}: {node.opcode} is not "
                "supported inside a fusion or as a lone loop on this backend; rewrite it with "
                "supported operations"
            )
        return handler(self, node, index)

    def _linear(self, index: Indices, dimensions: tuple[int, ...]) -> Index:
        """`linearize`, of which arrays of equal dimensions need the same."""
        key = (self.builder.number_of(index), dimensions)
        found = self._linears.get(key)
        if found is None:
            found = self._linears[key] = linearize(index, dimensions)
        return found

    def know(self, index: Indices, dimensions: tuple[int, ...], linear: Index) -> None:
        """An index, whose row-major offset is known."""
        self._linears[self.builder.number_of(index), dimensions] = linear

    def place(self, index: Sequence[Index], dimensions: Sequence[int]) -> Index:
        """The row-major offset of an element."""
        return linearize(index, dimensions)

    def load(self, buffer: Buffer, linear: Index, type: P, *, mutable: bool = False) -> Element:
        load, guard = self.builder.load, self.guard
        known = not linear.terms and isinstance(buffer.size, int)
        if known and not mutable and 0 <= linear.constant < buffer.size // (1 + type.is_complex):
            # One element that is there anyway may be read where nobody asks for it: a number that
            # says where a row begins is the same in all lanes then, and so is where the row is.
            guard = None
        if type.is_complex:
            twice = linear * 2
            return (
                load(buffer, twice, guard, mutable=mutable),
                load(buffer, twice + 1, guard, mutable=mutable),
            )
        return load(buffer, linear, guard, mutable=mutable)

    def store(
        self, buffer: Buffer, linear: Index, element: Element, guard: Value | None = None
    ) -> None:
        if isinstance(element, tuple):
            self.builder.store(buffer, linear * 2, element, guard)
        else:
            assert isinstance(element, Value)
            self.builder.store(buffer, linear, (element,), guard)

    def _literal(self, node: Instruction, index: Indices) -> Element:
        literal = attrs(node).literal
        array = literal.array
        if array.size == 1 or literal.is_splat:
            return self.scalar(node.shape.element_type, array[(0,) * array.ndim])
        buffer = self._literals.get(node)
        if buffer is None:
            name = f"c{len(self._literals)}"
            buffer = self.builder.buffer(
                name,
                node.shape.element_type,
                array.size,
                BufferRole.CONSTANT,
                len(self._literals),
                array,
            )
            self._literals[node] = buffer
        shape = node.shape
        return self.load(buffer, self._linear(index, shape.dimensions), shape.element_type)

    def scalar(self, type: P, value: object) -> Element:
        """A constant element of any type."""
        if type.is_complex:
            part = real_type(type)
            number = complex(value)  # type: ignore[call-overload]
            return self.builder.constant(part, number.real), self.builder.constant(
                part, number.imag
            )
        return self.builder.constant(type, value)

    def guarded(self, guard: Value | bool | None) -> _Guarded:
        """Context in which loads happen only where `guard` (and the guard around) holds."""
        return _Guarded(self, guard)

    def select(self, condition: Value, on_true: Element, on_false: Element) -> Element:
        if isinstance(on_true, tuple) and isinstance(on_false, tuple):
            pairs = zip(on_true, on_false)
            return tuple(self.select(condition, a, b) for a, b in pairs)  # type: ignore[return-value]
        assert isinstance(on_true, Value) and isinstance(on_false, Value)
        if on_true is on_false:
            return on_true
        return self.builder.compute(Opcode.SELECT, on_true.type, (condition, on_true, on_false))

    # -- elementwise -------------------------------------------------------------------------------

    def elementwise(self, node: Instruction, operands: Sequence[Element]) -> Element:
        """Apply an elementwise instruction to elements of its operands."""
        opcode = node.opcode
        type = node.shape.element_type
        if opcode not in _UNUSUAL and not type.is_complex and not _any_complex(operands):
            return self.builder.compute(opcode, type, operands)  # type: ignore[arg-type]
        if opcode is Opcode.MAP:
            return self.apply(node.called[0], operands)
        if opcode is Opcode.COPY:
            return operands[0]
        if opcode in _CONVERSIONS and node.operands[0].shape.element_type is type:
            return operands[0]
        if type.is_complex or _any_complex(operands):
            return complex_math.emit(self.builder, node, operands)
        if opcode is Opcode.REAL:
            return operands[0]
        if opcode is Opcode.IMAG:
            return self.builder.constant(type, 0)
        attributes = node.attributes if opcode in _WITH_ATTRIBUTES else None
        return self.builder.compute(opcode, type, operands, attributes)  # type: ignore[arg-type]

    def apply(self, computation: Computation, arguments: Sequence[Element]) -> Element:
        """Inline a computation of scalars. A tuple root gives a list of elements."""
        env: dict[Instruction, Element] = dict(zip(computation.parameters, arguments))
        for node in computation.post_order():
            if node in env:
                continue
            operands = [env[o] for o in node.operands]
            if node.opcode is Opcode.CONSTANT:
                env[node] = self._literal(node, ())
            elif node.opcode is Opcode.TUPLE:
                env[node] = operands
            elif node.opcode is Opcode.GET_TUPLE_ELEMENT:
                env[node] = operands[0][node.tuple_index]  # type: ignore[index]
            elif node.opcode.is_elementwise:
                env[node] = self.elementwise(node, operands)
            elif node.opcode in _SCALAR_IDENTITY and node.shape.num_elements == 1:
                env[node] = operands[0]
            elif node.opcode in (Opcode.CALL, Opcode.FUSION):
                env[node] = self.apply(node.called[0], operands)
            else:
                raise UnimplementedError(
                    f"cannot inline {node!r} of computation %{computation.name} into a loop: a "
                    "computation that reduces, maps or combines elements may use elementwise "
                    "operations on scalars only"
                )
        assert computation.root is not None
        return env[computation.root]


class _Guarded:
    def __init__(self, emitter: ElementalEmitter, guard: Value | bool | None) -> None:
        self.emitter = emitter
        self.guard = guard

    def __enter__(self) -> None:
        self.saved = self.emitter.guard
        combined = self.emitter.builder.conjunction(self.saved, self.guard)
        assert combined is not False, "code under a guard that never holds must not be emitted"
        self.emitter.guard = None if combined is True else combined

    def __exit__(self, *exc: object) -> None:
        self.emitter.guard = self.saved


_BITCAST_CONVERT = Opcode.BITCAST_CONVERT
_CONVERSIONS = frozenset({Opcode.CONVERT, Opcode.BITCAST_CONVERT})
_WITH_ATTRIBUTES = frozenset({Opcode.COMPARE, Opcode.REDUCE_PRECISION})
# Elementwise ones that are more, or less, than one statement without attributes.
_UNUSUAL = frozenset(
    {*_CONVERSIONS, *_WITH_ATTRIBUTES, Opcode.MAP, Opcode.COPY, Opcode.REAL, Opcode.IMAG}
)
_SCALAR_IDENTITY = frozenset(
    {
        Opcode.BROADCAST,
        Opcode.RESHAPE,
        Opcode.BITCAST,
        Opcode.TRANSPOSE,
        Opcode.SLICE,
        Opcode.REVERSE,
    }
)


def is_pointwise(node: Instruction) -> bool:
    """Elementwise, and every operand is read at the index of the result (or is a scalar)."""
    if node.opcode is Opcode.BITCAST_CONVERT:
        return node.shape.rank == node.operands[0].shape.rank
    return node.opcode.is_elementwise


def _any_complex(elements: Sequence[Element]) -> bool:
    for element in elements:
        if isinstance(element, tuple):
            return True
    return False


def parts(element: Element) -> list[Value]:
    """The real values of an element, in order."""
    if isinstance(element, Value):
        return [element]
    return [p for e in element for p in parts(e)]
