"""What a drawing of a computation shows: one box per instruction, with its lines and colours.

Constants that are scalars (or spread from one) are no boxes: they appear in the box that uses them.
"""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.hlo.attribute_text import attribute_texts
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.literal_text import literal_text
from xla_backend.hlo.module import HloModule, source_places
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.source_tables import place_lines
from xla_backend.process.light_dataclasses import dataclass

_LONGEST_ATTRIBUTES = 80

# fill, border, text
Colors = tuple[str, str, str]
_WHITE: Colors = ("#ffffff", "#9e9e9e", "#000000")
_ORANGE: Colors = ("#ffe0b2", "#cbae82", "#000000")
_BLUE: Colors = ("#1565c0", "#003c8f", "#ffffff")
_PURPLE: Colors = ("#e1bee7", "#af8eb5", "#000000")
_GREEN: Colors = ("#c8e6c9", "#97b498", "#000000")
_GRAY: Colors = ("#cfd8dc", "#9ea7aa", "#000000")
_RED: Colors = ("#b71c1c", "#7f0000", "#ffffff")
_BROWN: Colors = ("#bcaaa4", "#8c7b75", "#000000")

_COLORS: dict[Opcode, Colors] = {
    Opcode.PARAMETER: _ORANGE,
    **dict.fromkeys((Opcode.DOT, Opcode.CONVOLUTION, Opcode.FFT, Opcode.CUSTOM_CALL), _BLUE),
    **dict.fromkeys(
        (Opcode.REDUCE, Opcode.REDUCE_WINDOW, Opcode.SELECT_AND_SCATTER, Opcode.SORT), _PURPLE
    ),
    **dict.fromkeys(
        (Opcode.RESHAPE, Opcode.TRANSPOSE, Opcode.BROADCAST, Opcode.CONCATENATE, Opcode.PAD), _GREEN
    ),
    **dict.fromkeys((Opcode.GATHER, Opcode.SCATTER, Opcode.SLICE, Opcode.DYNAMIC_SLICE), _BROWN),
    **dict.fromkeys((Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.BITCAST), _WHITE),
    **dict.fromkeys((Opcode.FUSION, Opcode.CALL), _GRAY),
    **dict.fromkeys((Opcode.WHILE, Opcode.CONDITIONAL), _RED),
    Opcode.COPY: _GREEN,
}


@dataclass(frozen=True, slots=True)
class GraphOptions:
    """What boxes show besides the instruction.

    Fields:
      addresses: a number that tells apart instructions of equal names.
      sharding_color: boxes are coloured by their sharding instead of their opcode.
    """

    addresses: bool = False
    sharding_color: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """An instruction as drawn: the first line is its title."""

    instruction: Instruction
    lines: tuple[str, ...]
    tooltip: str
    colors: Colors


def boxes(computation: Computation, options: GraphOptions) -> list[Box]:
    """The boxes of one computation, operands before users."""
    return [
        Box(node, tuple(_lines(node, options)), _tooltip(node), _colors(node, options))
        for node in computation.post_order()
        if not is_inlined_constant(node)
    ]


def is_inlined_constant(node: Instruction) -> bool:
    """Whether a node is shown in its users' boxes: a scalar constant, or its broadcast."""
    if not node.users or node.is_root:
        return False
    if node.opcode is Opcode.BROADCAST:
        node = node.operands[0]
    return node.is_constant and node.shape.is_array and not node.shape.dimensions


def drawn_computations(module: HloModule) -> list[Computation]:
    """The entry and what it calls, without the small functions that reductions and sorts apply."""
    assert module.entry is not None
    found = [module.entry]
    for computation in found:
        for node in computation.instructions:
            if node.opcode in _NESTED:
                found += [c for c in node.called if c not in found]
    return found


_NESTED = frozenset({Opcode.FUSION, Opcode.CALL, Opcode.WHILE, Opcode.CONDITIONAL})


def _lines(node: Instruction, options: GraphOptions) -> Iterator[str]:
    if node.opcode is Opcode.PARAMETER:
        yield f"Parameter {node.parameter_number}"
    else:
        yield node.name
        yield str(node.opcode)
    if options.addresses:
        yield f"[{id(node):#x}]"
    if node.opcode not in _NESTED:
        for callee in node.called:
            yield f"Subcomputation: {_summary(callee)}"
    text = (
        ", ".join(attribute_texts(node.opcode, node.attributes)) if _shows_attributes(node) else ""
    )
    if text:
        yield text if len(text) <= _LONGEST_ATTRIBUTES else text[:_LONGEST_ATTRIBUTES] + " ..."
    if options.sharding_color and node.annotations and "sharding" in node.annotations:
        yield f"sharding={node.annotations['sharding']}"
    yield str(node.shape)
    for i, operand in enumerate(node.operands):
        if is_inlined_constant(operand):
            scalar = operand.operands[0] if operand.opcode is Opcode.BROADCAST else operand
            yield f"operand {i} = {operand.shape} {_literal(scalar)}"


def _shows_attributes(node: Instruction) -> bool:
    return node.opcode not in (Opcode.PARAMETER, Opcode.CONSTANT)


def _literal(scalar: Instruction) -> str:
    return literal_text(scalar.attributes.literal)  # type: ignore[attr-defined]


def _summary(callee: Computation) -> str:
    """The operation of a computation that only combines its parameters, else its name."""
    root = callee.root
    simple = root is not None and all(o.opcode is Opcode.PARAMETER for o in root.operands)
    return str(root.opcode) if simple and root is not None else callee.name


def _tooltip(node: Instruction) -> str:
    return "\n".join([node.metadata.op_name, *place_lines(source_places(node))])


def _colors(node: Instruction, options: GraphOptions) -> Colors:
    if options.sharding_color:
        sharding = (node.annotations or {}).get("sharding")
        if sharding is None:
            return _WHITE
        palette = (_ORANGE, _BLUE, _PURPLE, _GREEN, _BROWN, _GRAY)
        return palette[sum(str(sharding).encode()) % len(palette)]
    return _COLORS.get(node.opcode, _WHITE)
