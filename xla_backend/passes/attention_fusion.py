"""softmax(q k^T) v -> one fusion of kind kCustom, which never has its scores in memory.

    scores = f(dot(q, k))            any elementwise f: scale, bias, masks
    weights = exp(scores - max(scores)) / sum(exp(scores - max(scores)))
    dot(weights, v)

`attention_in` says what is what in such a computation; the pass, and whoever generates code, ask
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    FusionAttributes,
    FusionKind,
    ParameterAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.dots import dot_attributes, operand_dimensions
from xla_backend.passes.fusion_rules import ELEMENTWISE
from xla_backend.passes.patterns import binary_reducer, splat_value

_MOVES = frozenset({Opcode.RESHAPE, Opcode.TRANSPOSE})
_CONVERTED = _MOVES | {Opcode.CONVERT}
_SAME_PLACE = ELEMENTWISE | _MOVES
# Made anew for each element at no cost, so that other users do not matter.
_CHEAP = _MOVES | {Opcode.BROADCAST, Opcode.IOTA, Opcode.CONSTANT, Opcode.COMPARE}
_FUSABLE = _CHEAP | ELEMENTWISE


@dataclass(frozen=True)
class Attention:
    """What is what in attention.

    Fields:
      values: the dot of weights and v; `side`: the number of its operand that is the weights.
      weights: from that operand, through moves and conversions, to the quotient of the softmax.
      scores: what the softmax is taken of.
      queries: from there, through moves and elementwise work, to the dot of q and k.
      after: moves and conversions of the result, in order.
    """

    values: Instruction
    side: int
    weights: tuple[Instruction, ...]
    scores: Instruction
    queries: tuple[Instruction, ...]
    after: tuple[Instruction, ...] = ()

    @property
    def products(self) -> Instruction:
        """The dot of q and k."""
        return self.queries[-1]

    @property
    def v(self) -> Instruction:
        return self.values.operands[1 - self.side]

    @property
    def root(self) -> Instruction:
        return self.after[-1] if self.after else self.values


def attention_at(values: Instruction) -> Attention | None:
    """The attention whose last product is this dot; None if there is none."""
    if values.opcode is not Opcode.DOT:
        return None
    for side in (0, 1):
        weights = _chain(values.operands[side], _CONVERTED)
        if weights[-1].opcode is not Opcode.DIVIDE:
            continue
        groups = operand_dimensions(values)[side]
        if len(groups.contracting) != 1:
            continue
        keys = _key_dimension(weights, groups.contracting[0])
        scores = None if keys is None else _softmax_operand(weights[-1], keys)
        queries = None if scores is None else _path_to_dot(scores)
        if scores is not None and queries is not None:
            return Attention(values, side, weights, scores, queries, _moves_after(values))
    return None


def attention_in(fused: Computation) -> Attention | None:
    """The attention that a fused computation is."""
    dots = [node for node in fused.instructions if node.opcode is Opcode.DOT]
    for dot in dots if len(dots) == 2 else ():
        found = attention_at(dot)
        if found is not None and found.root is fused.root:
            return found
    return None


def is_attention(node: Instruction) -> bool:
    """Whether an instruction is a fusion that this pass made."""
    return (
        node.opcode is Opcode.FUSION
        and isinstance(node.attributes, FusionAttributes)
        and node.attributes.kind is FusionKind.CUSTOM
    )


def _chain(node: Instruction, through: frozenset[Opcode]) -> tuple[Instruction, ...]:
    found = [node]
    while found[-1].opcode in through:
        found.append(found[-1].operands[0])
    return tuple(found)


def _moves_after(values: Instruction) -> tuple[Instruction, ...]:
    """Moves and conversions of a result that nobody else reads."""
    found: list[Instruction] = []
    node = values
    while len(node.users) == 1 and not _is_root(node):
        (node,) = node.users
        if node.opcode not in _CONVERTED:
            break
        found.append(node)
    return tuple(found)


def _inner(dimensions: Sequence[int], d: int) -> int:
    """How many elements lie behind one of dimension d."""
    return math.prod(dimensions[d + 1 :])


def _key_dimension(weights: tuple[Instruction, ...], last: int) -> int | None:
    """The dimension of the quotient that is dimension `last` of the weights; None where a reshape
    makes another one of it."""
    dimension: int | None = last
    for node in weights[:-1]:
        if dimension is None:
            return None
        if node.opcode is Opcode.TRANSPOSE:
            assert isinstance(node.attributes, DimensionsAttributes)
            dimension = node.attributes.dimensions[dimension]
        elif node.opcode is Opcode.RESHAPE:
            dims = node.shape.dimensions
            dimension = _same_dimension(dims, dimension, node.operands[0].shape.dimensions)
    return dimension


def _same_dimension(dims: Sequence[int], d: int, others: Sequence[int]) -> int | None:
    """The dimension of another shape of the same elements that walks through memory as d does."""
    places = [
        e
        for e, n in enumerate(others)
        if n == dims[d] and _inner(others, e) == _inner(dims, d) and n > 1
    ]
    return places[0] if len(places) == 1 else None


def _base(node: Instruction) -> Instruction:
    """What a node is another shape of."""
    while node.opcode is Opcode.RESHAPE:
        node = node.operands[0]
    return node


def _softmax_operand(quotient: Instruction, keys: int) -> Instruction | None:
    """x where a quotient is exp(x - max x) / sum(exp(x - max x)) along dimension `keys`, in f32."""
    top, bottom = quotient.operands
    if top.opcode is not Opcode.EXPONENTIAL or top.shape.element_type is not PrimitiveType.F32:
        return None
    if _reduced(bottom, keys, Opcode.ADD, 0.0) is not top:
        return None
    difference = top.operands[0]
    if difference.opcode is not Opcode.SUBTRACT:
        return None
    scores, largest = difference.operands
    same = _reduced(largest, keys, Opcode.MAXIMUM, -math.inf) is _base(scores)
    return scores if same else None


def _reduced(node: Instruction, keys: int, opcode: Opcode, init: float) -> Instruction | None:
    """x where a node is the broadcast of x, or of another shape of it, reduced along dimension
    `keys`."""
    if node.opcode is not Opcode.BROADCAST:
        return None
    dims = node.shape.dimensions
    assert isinstance(node.attributes, DimensionsAttributes)
    if node.attributes.dimensions != tuple(d for d in range(len(dims)) if d != keys):
        return None
    reduced = _base(node.operands[0])
    if reduced.opcode is Opcode.MAXIMUM and opcode is Opcode.MAXIMUM:
        # The maximum of nothing, which is written out.
        kept = [o for o in reduced.operands if splat_value(o) != init]
        reduced = _base(kept[0]) if len(kept) == 1 else reduced
    if reduced.opcode is not Opcode.REDUCE or len(reduced.operands) != 2:
        return None
    x, start = reduced.operands
    assert isinstance(reduced.attributes, DimensionsAttributes)
    same = reduced.attributes.dimensions == (_same_dimension(dims, keys, x.shape.dimensions),)
    same = same and x.shape.num_elements == node.shape.num_elements and splat_value(start) == init
    return _base(x) if same and binary_reducer(reduced.called[0]) is opcode else None


def _path_to_dot(scores: Instruction) -> tuple[Instruction, ...] | None:
    """From the scores to the one dot that they depend on, element by element."""
    paths: list[tuple[Instruction, ...]] = []
    stack: list[tuple[Instruction, ...]] = [(scores,)]
    visited = 0
    while stack and visited < 64:
        path = stack.pop()
        visited += 1
        if path[-1].opcode is Opcode.DOT:
            paths.append(path)
        elif path[-1].opcode in _SAME_PLACE:
            elements = scores.shape.num_elements
            stack += [(*path, o) for o in path[-1].operands if o.shape.num_elements == elements]
    return paths[0] if len(paths) == 1 and not stack else None


class AttentionFusion(HloPass):
    """Make one fusion of the two products and the softmax between them.

    Why: the scores of all queries with all keys are the largest array by far, and nobody else
    reads them.
    Needs: no fusion has run; `takes` says which of them code generation can do.
    Leaves: a fusion of kind kCustom, with the arrays that scale, bias and masks come from as
    operands, wherever only attention reads the scores.
    """

    name = "attention-fusion"
    opcodes = frozenset({Opcode.DOT})

    def __init__(self, takes: Callable[[Attention], bool] = lambda attention: True) -> None:
        self._takes = takes

    def run(self, module: HloModule) -> bool:
        made: list[Computation] = []
        for computation in list(module.computations):
            for dot in [n for n in topological_order(computation) if n.opcode is Opcode.DOT]:
                found = attention_at(dot)
                inside = None if found is None else _inside(found)
                if found is None or inside is None or not self._takes(found):
                    continue
                if self.may_rewrite():
                    made.append(_fuse(computation, found, inside))
                    self.rewritten()
        module.add_computations(made)
        return bool(made)


def _inside(attention: Attention) -> list[Instruction] | None:
    """What belongs into the fusion, operands first; None where others read the scores."""
    outside = {*attention.products.operands, attention.v}
    needed = {attention.products, attention.values, *attention.after}
    order = [n for n in _reachable(attention.root, outside) if n not in outside]
    depends: set[Instruction] = set()
    for node in order:
        if node is attention.products or any(o in depends for o in node.operands):
            depends.add(node)
    root = attention.root
    for node in depends - {root}:
        if any(user not in depends for user in node.users) or _is_root(node):
            return None
    taken: set[Instruction] = set(depends)
    for node in reversed(order):
        if node in taken or node.opcode not in _FUSABLE:
            continue
        if not any(user in taken for user in node.users):
            continue
        alone = all(user in taken for user in node.users) and not _is_root(node)
        if alone or node.opcode in _CHEAP:
            taken.add(node)
    starts = [n.operands[1] for n in depends if n.opcode is Opcode.REDUCE]
    taken.update(starts)
    assert needed <= taken
    return [n for n in order if n in taken]


def _is_root(node: Instruction) -> bool:
    return node.parent is not None and node.parent.root is node


def _reachable(root: Instruction, outside: set[Instruction]) -> list[Instruction]:
    """What a node is computed from, operands first, without what lies behind `outside`."""
    found: dict[Instruction, None] = {}
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            found[node] = None
        elif node not in found and node not in outside:
            stack.append((node, True))
            stack += [(o, False) for o in node.operands]
    return list(found)


def _fuse(computation: Computation, attention: Attention, inside: list[Instruction]) -> Computation:
    fused = Computation("fused_attention")
    members = set(inside)
    operands = list(dict.fromkeys(o for n in inside for o in n.operands if o not in members))
    inner: dict[Instruction, Instruction] = {}
    for number, operand in enumerate(operands):
        parameter = Instruction(
            Opcode.PARAMETER, operand.shape, (), ParameterAttributes(number), name=f"p{number}"
        )
        inner[operand] = fused.add(parameter)
    for node in inside:
        inner[node] = fused.add(clone_instruction(node, [inner[o] for o in node.operands]))
    root = attention.root
    fused.root = inner[root]
    attributes = FusionAttributes(FusionKind.CUSTOM)
    fusion = Instruction(
        Opcode.FUSION, root.shape, operands, attributes, (fused,), root.metadata, "attention"
    )
    computation.replace(root, computation.add(fusion))
    return fused


def contracted(attention: Attention) -> tuple[int, int]:
    """How many numbers a query has, and how many keys there are."""
    a = dot_attributes(attention.products)
    dims = attention.products.operands[0].shape.dimensions
    depth = math.prod(dims[d] for d in a.lhs_contracting)
    groups = operand_dimensions(attention.values)[1 - attention.side]
    keys = attention.v.shape.dimensions[groups.contracting[0]]
    return depth, keys
