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

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    FusionAttributes,
    FusionKind,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass, topological_order
from xla_backend.passes.dots import dot_attributes, operand_dimensions
from xla_backend.passes.patterns import binary_reducer, depend_on_any, splat_value
from xla_backend.passes.score_streams import (
    CHEAP,
    CONVERTED,
    FUSABLE,
    SAME_PLACE,
    Scores,
    Stream,
    fuse,
    grouped,
    inside,
    made_again,
    moves_after,
    operands_of,
    scores_of,
)
from xla_backend.process.light_dataclasses import dataclass


@dataclass(frozen=True)
class Attention:
    """What is what in attention.

    Fields:
      values: the dot of weights and v; `side`: the number of its operand that is the weights.
      weights: from that operand, through moves and conversions, to the quotient of the softmax.
      scores: what the softmax is taken of.
      queries: from there, through moves and elementwise work, to the dot of q and k.
      largest, total: the reductions of scores and of their powers, along the keys.
      after: moves and conversions of the result, in order.
    """

    values: Instruction
    side: int
    weights: tuple[Instruction, ...]
    scores: Instruction
    queries: tuple[Instruction, ...]
    largest: Instruction
    total: Instruction
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

    @property
    def results(self) -> list[Instruction]:
        """What a fusion of it hands out for whoever computes the weights again."""
        return [self.root, self.largest, self.total]


def attention_at(values: Instruction) -> Attention | None:
    """The attention whose last product is this dot; None if there is none."""
    if values.opcode is not Opcode.DOT:
        return None
    for side in (0, 1):
        weights = _chain(values.operands[side], CONVERTED)
        if weights[-1].opcode is not Opcode.DIVIDE:
            continue
        groups = operand_dimensions(values)[side]
        if len(groups.contracting) != 1:
            continue
        keys = _key_dimension(weights, groups.contracting[0])
        softmax = None if keys is None else _softmax(weights[-1], keys)
        if softmax is None:
            continue
        scores, largest, total = softmax
        queries = _path_to_dot(scores)
        if queries is not None:
            after = moves_after(values)
            return Attention(values, side, weights, scores, queries, largest, total, after)
    return None


def attention_in(fused: Computation) -> Attention | None:
    """The attention that a fused computation is."""
    dots = [node for node in fused.instructions if node.opcode is Opcode.DOT]
    for dot in dots if len(dots) == 2 else ():
        found = attention_at(dot)
        if found is not None and fused.outputs in ([found.root], found.results):
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


def _softmax(
    quotient: Instruction, keys: int
) -> tuple[Instruction, Instruction, Instruction] | None:
    """x and the reductions where a quotient is exp(x - max x) / sum(exp(x - max x)) along dimension
    `keys`, in f32."""
    top, bottom = quotient.operands
    if top.opcode is not Opcode.EXPONENTIAL or top.shape.element_type is not PrimitiveType.F32:
        return None
    total = _reduction(bottom, keys, Opcode.ADD, 0.0)
    difference = top.operands[0]
    if total is None or _reduced(total) is not top or difference.opcode is not Opcode.SUBTRACT:
        return None
    scores = difference.operands[0]
    largest = _reduction(difference.operands[1], keys, Opcode.MAXIMUM, -math.inf)
    if largest is None or _reduced(largest) is not _base(scores):
        return None
    return scores, largest, total


def _reduced(reduction: Instruction) -> Instruction:
    return _base(reduction.operands[0])


def _reduction(node: Instruction, keys: int, opcode: Opcode, init: float) -> Instruction | None:
    """The reduction along dimension `keys` that a node is the broadcast of, or of another shape of
    it."""
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
    return reduced if same and binary_reducer(reduced.called[0]) is opcode else None


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
        elif path[-1].opcode in SAME_PLACE:
            elements = scores.shape.num_elements
            stack += [(*path, o) for o in path[-1].operands if o.shape.num_elements == elements]
    return paths[0] if len(paths) == 1 and not stack else None


class AttentionFusion(HloPass):
    """Make one fusion of the two products and the softmax between them, and fusions of what else
    is computed from the scores: the gradient.

    Why: the scores of all queries with all keys are the largest array by far.
    Needs: no fusion has run; `takes` and `streams` say which of them code generation can do.
    Leaves: fusions of kind kCustom, with the arrays that scale, bias and masks come from as
    operands, wherever nothing else reads the scores. Those of the gradient make the scores again
    (`score_streams`); from attention they have the largest score of each row, and the sum.
    """

    name = "attention-fusion"
    opcodes = frozenset({Opcode.DOT})

    def __init__(
        self,
        takes: Callable[[Attention], bool] = lambda attention: True,
        streams: Callable[[Computation], bool] = lambda fused: True,
    ) -> None:
        self._takes, self._streams = takes, streams

    def run(self, module: HloModule) -> bool:
        made: list[Computation] = []
        for computation in list(module.computations):
            for dot in [n for n in topological_order(computation) if n.opcode is Opcode.DOT]:
                found = attention_at(dot) if dot.parent is computation else None
                if found is not None and self._takes(found):
                    made += self._fuse(computation, found)
            for dot in [n for n in topological_order(computation) if n.opcode is Opcode.DOT]:
                if dot.parent is computation:
                    made += self._fuse_gradient(computation, dot)
        module.add_computations(made)
        return bool(made)

    def _fuse(self, computation: Computation, attention: Attention) -> list[Computation]:
        """Attention, and what else reads its scores; nothing where that cannot be."""
        order, depends = _dependents(attention)
        shared = any(
            node is not attention.root
            and (node.is_root or any(user not in depends for user in node.users))
            for node in depends
        )
        scores = scores_of(attention.products) if shared else None
        if shared and scores is None:
            return []
        others = [s for s in scores.streams if s.node not in depends] if scores else []
        groups = grouped(scores, others, self._streams) if scores else []
        taken = _inside(attention, order, depends, shared)
        if groups is None or depend_on_any(operands_of(taken), depends):
            return []
        if not self.may_rewrite():
            return []
        self.rewritten()
        roots = attention.results if shared else [attention.root]
        made = [fuse(computation, taken, roots, "attention")]
        return made + _fuse_groups(computation, scores, groups)

    def _fuse_gradient(self, computation: Computation, dot: Instruction) -> list[Computation]:
        """What is computed from the scores of attention where its result is not asked for."""
        scores = scores_of(dot)
        if scores is None or len(scores.products) < 2:
            return []
        if all(n.opcode is not Opcode.EXPONENTIAL for n in scores.members):
            return []
        groups = grouped(scores, scores.streams, self._streams)
        if not groups or not self.may_rewrite():
            return []
        self.rewritten()
        return _fuse_groups(computation, scores, groups)


def _fuse_groups(
    computation: Computation, scores: Scores | None, groups: Sequence[Sequence[Stream]]
) -> list[Computation]:
    return [
        fuse(computation, inside(scores, group), [s.root for s in group], "streams")
        for group in groups
        if scores is not None
    ]


def _dependents(attention: Attention) -> tuple[list[Instruction], set[Instruction]]:
    """What attention is computed from, operands first, and what of it is computed from the product
    of q and k."""
    outside = {*attention.products.operands, attention.v}
    order = [n for n in _reachable(attention.root, outside) if n not in outside]
    depends: set[Instruction] = set()
    for node in order:
        if node is attention.products or any(o in depends for o in node.operands):
            depends.add(node)
    return order, depends


def _inside(
    attention: Attention, order: Sequence[Instruction], depends: set[Instruction], shared: bool
) -> list[Instruction]:
    """What belongs into the fusion, operands first. `shared`: other fusions need the same arrays of
    masks, which are then made in each of them."""
    taken: set[Instruction] = set(depends)
    for node in reversed(order):
        if node in taken or node.opcode not in FUSABLE:
            continue
        if not any(user in taken for user in node.users):
            continue
        alone = all(user in taken for user in node.users) and not node.is_root
        again = shared and made_again(node, attention.products)
        if alone or node.opcode in CHEAP or again:
            taken.add(node)
    taken.update(n.operands[1] for n in depends if n.opcode is Opcode.REDUCE)
    return [n for n in order if n in taken]


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


def contracted(attention: Attention) -> tuple[int, int]:
    """How many numbers a query has, and how many keys there are."""
    a = dot_attributes(attention.products)
    dims = attention.products.operands[0].shape.dimensions
    depth = math.prod(dims[d] for d in a.lhs_contracting)
    groups = operand_dimensions(attention.values)[1 - attention.side]
    keys = attention.v.shape.dimensions[groups.contracting[0]]
    return depth, keys
