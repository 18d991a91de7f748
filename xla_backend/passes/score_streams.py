"""Products and sums of what is computed, element by element, from other products:

    scores = dot(q, k)
    dot(f(scores, dot(dO, v), ...), x)        a stream: an operand of it is made of scores
    reduce(f(scores, dot(dO, v), ...))

Each stream can make its scores again, a part at a time, so that no array of them is needed. The
gradient of attention consists of such streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from xla_backend.hlo.attributes import (
    FusionAttributes,
    FusionKind,
    GetTupleElementAttributes,
    ParameterAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.dots import dot_sizes
from xla_backend.passes.fusion_rules import ELEMENTWISE
from xla_backend.passes.patterns import binary_reducer, depend_on_any, splat_value
from xla_backend.process.light_dataclasses import dataclass

MOVES = frozenset({Opcode.RESHAPE, Opcode.TRANSPOSE})
CONVERTED = MOVES | {Opcode.CONVERT}
SAME_PLACE = ELEMENTWISE | MOVES
# Made anew for each element at no cost, so that other users do not matter.
CHEAP = MOVES | {Opcode.BROADCAST, Opcode.IOTA, Opcode.CONSTANT, Opcode.COMPARE}
FUSABLE = CHEAP | ELEMENTWISE
# What a sum or a largest number is begun with.
_STARTS = {Opcode.ADD: 0.0, Opcode.MAXIMUM: -math.inf}
_PATHS = 256


@dataclass(frozen=True)
class Stream:
    """A dot or reduction of scores.

    Fields:
      node: the dot, or the reduction of one array to a sum or its largest element.
      side: the number of its operand that is made of scores.
      after: moves and conversions of the result, in order.
    """

    node: Instruction
    side: int
    after: tuple[Instruction, ...] = ()

    @property
    def scores(self) -> Instruction:
        """The operand that is made of scores."""
        return self.node.operands[self.side]

    @property
    def root(self) -> Instruction:
        return self.after[-1] if self.after else self.node

    @property
    def reducer(self) -> Opcode | None:
        """How a reduction combines two elements; None for a dot."""
        return binary_reducer(self.node.called[0]) if self.node.opcode is Opcode.REDUCE else None


@dataclass(frozen=True)
class Scores:
    """All that has the elements of an array of scores.

    Fields:
      members: the instructions, from `products` on.
      products: the dots that they are computed from.
      streams: what they are used by.
    """

    members: dict[Instruction, None]
    products: list[Instruction]
    streams: list[Stream]


def moves_after(result: Instruction) -> tuple[Instruction, ...]:
    """Moves and conversions of a result that nobody else reads."""
    found: list[Instruction] = []
    node = result
    while len(node.users) == 1 and not node.is_root:
        (node,) = node.users
        if node.opcode not in CONVERTED:
            break
        found.append(node)
    return tuple(found)


def scores_of(product: Instruction) -> Scores | None:
    """What is computed from a product element by element; None where anything but streams reads
    it."""
    elements = product.shape.num_elements
    members: dict[Instruction, None] = {}
    streams: dict[Instruction, int] = {}
    todo = [product]
    while todo:
        node = todo.pop()
        if node in members:
            continue
        members[node] = None
        if node.is_root:
            return None
        for user in node.users:
            if _is_stream(user):
                streams[user] = user.operands.index(node)
            elif user.opcode in SAME_PLACE and user.shape.num_elements == elements:
                todo.append(user)
                for operand in user.operands:
                    todo += _from_products(operand, elements, members)
            else:
                return None
    products = [n for n in members if n.opcode is Opcode.DOT]
    if any(n in streams for n in members) or any(
        sum(o in members for o in node.operands) > 1 for node in streams
    ):
        return None
    return Scores(members, products, [Stream(n, s, moves_after(n)) for n, s in streams.items()])


def _is_stream(node: Instruction) -> bool:
    if node.opcode is Opcode.REDUCE and len(node.operands) == 2:
        start = _STARTS.get(binary_reducer(node.called[0]) or Opcode.REDUCE)
        return start is not None and splat_value(node.operands[1]) == start
    return node.opcode is Opcode.DOT


def _from_products(
    node: Instruction, elements: int, known: dict[Instruction, None]
) -> list[Instruction]:
    """A node and what it is computed from, element by element, as far as there is a dot below."""
    below: dict[Instruction, bool] = {}
    stack = [(node, False)]
    while stack and len(below) < _PATHS:
        top, done = stack.pop()
        operands = [o for o in top.operands if o.shape.is_array]
        operands = [o for o in operands if o.shape.num_elements == elements]
        if top in known or top.opcode is Opcode.DOT:
            below[top] = top.shape.num_elements == elements
        elif top.opcode not in SAME_PLACE or top.shape.num_elements != elements:
            below[top] = False
        elif done:
            below[top] = any(below.get(o, False) for o in operands)
        elif top not in below:
            stack += [(top, True), *((o, False) for o in operands)]
    return [n for n, found in below.items() if found and n not in known]


def streams_in(fused: Computation) -> list[Stream] | None:
    """The streams that a fused computation hands out."""
    found = []
    for root in fused.outputs:
        node = root
        while node.opcode in CONVERTED:
            (node,) = node.operands
        if not _is_stream(node):
            return None
        sides = [n for n, o in enumerate(node.operands) if _has_dot(o)]
        if len(sides) != 1:
            return None
        found.append(Stream(node, sides[0], moves_after(node)))
    return found


def _has_dot(node: Instruction) -> bool:
    stack, seen = [node], {node}
    while stack:
        top = stack.pop()
        if top.opcode is Opcode.DOT:
            return True
        new = [o for o in top.operands if o not in seen]
        seen.update(new)
        stack += new
    return False


def grouped(
    scores: Scores, streams: Sequence[Stream], runs: Callable[[Computation], bool]
) -> list[list[Stream]] | None:
    """The streams as groups that are computed together; None where one of them does not run even
    alone. `runs`: whether there is code for a fused computation."""
    groups: list[list[Stream]] = []
    for stream in streams:
        for group in groups:
            if _may_join(scores, group, stream) and runs(_fused(scores, [*group, stream])):
                group.append(stream)
                break
        else:
            if not runs(_fused(scores, [stream])):
                return None
            groups.append([stream])
    return groups


def _may_join(scores: Scores, group: Sequence[Stream], stream: Stream) -> bool:
    """Whether neither needs what the other computes."""
    return not any(
        depend_on_any(operands_of(inside(scores, needing)), {s.root for s in given})
        for needing, given in ((group, [stream]), ([stream], group))
    )


def _fused(scores: Scores, streams: Sequence[Stream]) -> Computation:
    return copied(inside(scores, streams), [s.root for s in streams], "streams")


def made_again(node: Instruction, product: Instruction) -> bool:
    """Whether each fusion that needs some array beside the scores computes it itself: it has as
    many elements as there are scores of one batch, or comes of what the program is given, as masks
    do. What is left are numbers of rows and columns, and what took time to compute."""
    if node.opcode in CHEAP:
        return True
    if node.opcode not in FUSABLE:
        return False
    sizes = dot_sizes(product)
    return node.shape.num_elements >= sizes.m * sizes.n or _is_given(node)


def _is_given(node: Instruction) -> bool:
    """Whether a node is elementwise work on parameters."""
    stack, seen = [node], {node}
    while stack and len(seen) < _PATHS:
        top = stack.pop()
        if top.opcode is Opcode.GET_TUPLE_ELEMENT:
            (top,) = top.operands
        if top.opcode is Opcode.PARAMETER:
            continue
        if top.opcode not in FUSABLE:
            return False
        new = [o for o in top.operands if o not in seen]
        seen.update(new)
        stack += new
    return not stack


def inside(scores: Scores, streams: Sequence[Stream]) -> list[Instruction]:
    """What is computed where streams are: their scores, and what of those is `made_again`; operands
    first."""
    taken: set[Instruction] = set()
    moved: list[Instruction] = []
    todo = [s.scores for s in streams]
    for s in streams:
        taken |= {s.node, *s.after}
        others = [o for n, o in enumerate(s.node.operands) if n != s.side]
        if s.node.opcode is Opcode.DOT:
            moved += others
        else:
            taken.update(others)
    while todo:
        node = todo.pop()
        if node in taken:
            continue
        if node in scores.members or made_again(node, scores.products[0]):
            taken.add(node)
            if node.opcode is Opcode.DOT:
                moved += node.operands
            else:
                todo += node.operands
    for node in moved:
        while node.opcode in MOVES or is_widened(node):
            taken.add(node)
            (node,) = node.operands
    return _in_order(taken)


def is_widened(node: Instruction) -> bool:
    """Whether a node is an array of smaller floats in a wider type."""
    if node.opcode is not Opcode.CONVERT:
        return False
    source, wide = node.operands[0].shape.element_type, node.shape.element_type
    return source.is_floating and wide.is_floating and source.bits < wide.bits


def _in_order(taken: set[Instruction]) -> list[Instruction]:
    """Instructions with operands first; what the order is else, the program's own decides."""
    (computation,) = {node.parent for node in taken}
    assert computation is not None
    return [n for n in computation.post_order() if n in taken]


def operands_of(inside: Iterable[Instruction]) -> list[Instruction]:
    """What instructions need that are not among them, in order."""
    members = dict.fromkeys(inside)
    return list(dict.fromkeys(o for n in members for o in n.operands if o not in members))


def copied(inside: Sequence[Instruction], roots: Sequence[Instruction], name: str) -> Computation:
    """A computation of copies of some instructions, with `operands_of` them as parameters."""
    fused = Computation(name)
    inner: dict[Instruction, Instruction] = {}
    for number, operand in enumerate(operands_of(inside)):
        parameter = Instruction(
            Opcode.PARAMETER, operand.shape, (), ParameterAttributes(number), name=f"p{number}"
        )
        inner[operand] = fused.add(parameter)
    for node in inside:
        inner[node] = fused.add(clone_instruction(node, [inner[o] for o in node.operands]))
    fused.root = inner[roots[0]]
    if len(roots) > 1:
        shape = Shape.tuple([r.shape for r in roots])
        fused.root = fused.add(Instruction(Opcode.TUPLE, shape, [inner[r] for r in roots]))
    return fused


def fuse(
    computation: Computation,
    inside: Sequence[Instruction],
    roots: Sequence[Instruction],
    name: str,
) -> Computation:
    """Put a fusion of kind kCustom, `name`, in the place of `roots`, which are made of what is
    inside; returns the computation of it."""
    fused = copied(inside, roots, f"fused_{name}")
    assert fused.root is not None
    fusion = Instruction(
        Opcode.FUSION,
        fused.root.shape,
        operands_of(inside),
        FusionAttributes(FusionKind.CUSTOM),
        (fused,),
        roots[0].metadata,
        name,
    )
    computation.add(fusion)
    for number, root in enumerate(roots):
        result = fusion
        if len(roots) > 1:
            part = GetTupleElementAttributes(number)
            result = Instruction(Opcode.GET_TUPLE_ELEMENT, root.shape, (fusion,), part)
        if root.parent is computation:
            computation.replace(root, result)
    return fused
