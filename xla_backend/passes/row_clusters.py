"""Which fusions run over the same rows, and may become one without a cycle. See row_fusion.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xla_backend.hlo.attributes import FusionAttributes, FusionKind
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import topological_order
from xla_backend.passes.buffer_sharing import in_place_operands
from xla_backend.passes.fusion_groups import MAX_ROOTS, MAX_SIZE
from xla_backend.passes.fusion_rules import (
    FREE_ALIASES,
    cost_of,
    joins_components,
    may_be_interior,
)
from xla_backend.passes.row_space import FULL, RowSpace, demands

# Instructions between the first and the last member of a cluster; more are not searched.
_MAX_SPAN = 512
_MAX_OPERANDS = 24
_UNSUITED = frozenset({Opcode.DYNAMIC_UPDATE_SLICE, Opcode.SCATTER, Opcode.REDUCE_WINDOW})
_VIEWS = FREE_ALIASES - {Opcode.OPT_BARRIER, Opcode.ADD_DEPENDENCY} | {Opcode.GET_TUPLE_ELEMENT}


class Body:
    """What is known about a fusion's computation."""

    def __init__(self, fusion: Instruction, joins: bool) -> None:
        fused = fusion.called[0]
        self._joins = joins
        self.fusion = fusion
        self.roots = fused.outputs
        self.order = [n for n in topological_order(fused) if n is not fused.root or n in self.roots]
        self.size = sum(1 for n in self.order if cost_of(n) > 0)
        self.reduces = [n for n in self.order if n.opcode is Opcode.REDUCE]
        self._demands: dict[RowSpace, dict[Instruction, int] | None] = {}

    @property
    def is_suited(self) -> bool:
        """Whether rows can be made of it at all."""
        attributes = self.fusion.attributes
        assert isinstance(attributes, FusionAttributes)
        if attributes.kind not in (FusionKind.LOOP, FusionKind.INPUT):
            return False
        return all(
            n.shape.is_array and n.opcode not in _UNSUITED and not n.shape.element_type.is_complex
            for n in self.order
        ) and (self._joins or not any(map(joins_components, self.order)))

    def demands(self, space: RowSpace) -> dict[Instruction, int] | None:
        """Where its instructions are needed if it runs over rows of `space`; None if it cannot."""
        if space not in self._demands:
            self._demands[space] = demands(self.roots, space, self.order)
        return self._demands[space]


def origin(node: Instruction) -> Instruction:
    """What computes a value, looking through relabellings and elements of tuples."""
    while node.opcode in _VIEWS:
        node = node.operands[0]
    return node


def leaf_of(node: Instruction) -> int:
    """Which output of its origin a value is."""
    while node.opcode in _VIEWS:
        if node.opcode is Opcode.GET_TUPLE_ELEMENT:
            return node.tuple_index
        node = node.operands[0]
    return 0


class Clusters:
    """Grows clusters in one computation, in an order that stays topological."""

    def __init__(self, computation: Computation, joins: bool) -> None:
        """joins: whether rows may be of components that are put together in them."""
        self._joins = joins
        self.slots: list[Instruction] = list(topological_order(computation))
        self.position = {node: i for i, node in enumerate(self.slots)}
        self._bodies: dict[Instruction, Body] = {}
        self.taken: set[Instruction] = set()

    def body(self, fusion: Instruction) -> Body:
        found = self._bodies.get(fusion)
        if found is None:
            found = self._bodies[fusion] = Body(fusion, self._joins)
        return found

    def grow(self, seed: Instruction, space: RowSpace) -> list[Instruction]:
        """All fusions that join the reduction `seed`, in execution order."""
        members = {seed}
        for _ in range(3):  # what one round rules out may fit once others are in
            before = len(members)
            tried = set(members)
            frontier = self._neighbours(list(members), tried)
            while frontier:
                # The nearest first: what lies between two members comes before the second.
                frontier.sort(key=lambda n: -abs(self.position[n] - self.position[seed]))
                candidate = frontier.pop()
                if self._may_join(candidate, members, space):
                    members.add(candidate)
                    frontier += self._neighbours([candidate], tried)
            if len(members) == before:
                break
        return sorted(members, key=self.position.__getitem__)

    def _neighbours(
        self, nodes: Sequence[Instruction], tried: set[Instruction]
    ) -> list[Instruction]:
        found: list[Instruction] = []
        for node in nodes:
            near = [origin(operand) for operand in node.operands]
            near += readers(node)
            for other in near:
                if other.opcode is Opcode.FUSION and other not in tried:
                    tried.add(other)
                    if other not in self.taken and other in self.position:
                        found.append(other)
        return found

    def _may_join(self, candidate: Instruction, members: set[Instruction], space: RowSpace) -> bool:
        body = self.body(candidate)
        if not body.is_suited or body.demands(space) is None:
            return False
        bodies = [self.body(n) for n in members]
        if sum(b.size for b in bodies) + body.size > MAX_SIZE:
            return False
        if sum(len(b.roots) - 1 for b in bodies) + len(body.roots) > MAX_ROOTS:
            return False
        if not self._links_fit(candidate, members, space):
            return False
        together = members | {candidate}
        operands = {o for n in together for o in n.operands if origin(o) not in together}
        return len(operands) <= _MAX_OPERANDS and self._is_convex(together)

    def _links_fit(
        self, candidate: Instruction, members: set[Instruction], space: RowSpace
    ) -> bool:
        """Whether all values that pass between the candidate and the members belong to the element
        or the row that is being computed."""
        links = [(candidate, i) for i, o in enumerate(candidate.operands) if origin(o) in members]
        for reader in set(readers(candidate)) & members:
            places = enumerate(reader.operands)
            links += [(reader, i) for i, o in places if origin(o) is candidate]
        return all(self._link_fits(reader, i, space) for reader, i in links)

    def _link_fits(self, reader: Instruction, number: int, space: RowSpace) -> bool:
        operand = reader.operands[number]
        root = self.body(origin(operand)).roots[leaf_of(operand)]
        if not may_be_interior(root):
            return False
        place = space.place_of_root(root.shape.dimensions)
        needed = self.body(reader).demands(space)
        assert needed is not None
        if needed.get(reader.called[0].parameters[number], place) != place:
            return False
        return place != FULL or _keeps_order(operand, space)

    def _is_convex(self, together: set[Instruction]) -> bool:
        """No way leads out of the nodes and back into them."""
        places = [self.position[n] for n in together]
        first, last = min(places), max(places)
        if last - first > _MAX_SPAN:
            return False
        behind: set[Instruction] = set()  # depends on a member through something outside
        for node in self.slots[first : last + 1]:
            if node.opcode in _VIEWS:
                continue
            # By origin: elements of the tuples of clusters made before have no slot.
            sources = {origin(o) for o in node.operands}
            if node in together:
                if not sources.isdisjoint(behind):
                    return False
            elif not (sources.isdisjoint(behind) and sources.isdisjoint(together)):
                behind.add(node)
        return True

    def reads_too_late(self, members: Sequence[Instruction]) -> bool:
        """Whether something that writes over an array in place, which a member reads, would have to
        run before all of them: the array would be copied."""
        last = self.position[members[-1]]
        inside = set(members)
        for operand in {origin(o) for member in members for o in member.operands} - inside:
            for user in readers(operand):
                if user in inside or self.position.get(user, last) >= last:
                    continue
                places = [i for i, _ in in_place_operands(user)]
                if any(origin(user.operands[i]) is operand for i in places):
                    return True
        return False

    def contract(self, members: Sequence[Instruction], fusion: Instruction) -> None:
        """The members have become `fusion`: what depends on them moves behind it."""
        first, last = self.position[members[0]], self.position[members[-1]]
        gone = set(members)
        before: list[Instruction] = []
        after: list[Instruction] = []
        dependent = {fusion}
        for node in self.slots[first : last + 1]:
            if node in gone or node.parent is None:
                continue
            if any(origin(o) in dependent for o in node.operands):
                dependent.add(node)
                after.append(node)
            else:
                before.append(node)
        order = [*before, fusion, *after]
        order += [fusion] * (last + 1 - first - len(order))  # holes, filled with what is there
        self.slots[first : last + 1] = order
        for i, node in enumerate(order[: len(before) + 1 + len(after)]):
            self.position[node] = first + i
        for reader in fusion.users:
            self.position.setdefault(reader, self.position[fusion])


def _keeps_order(operand: Instruction, space: RowSpace) -> bool:
    """Whether every relabelling between a root and its reader still shows the rows."""
    while operand.opcode in _VIEWS:
        if operand.shape.is_array and space.flags_of(operand.shape.dimensions) is None:
            return False
        operand = operand.operands[0]
    return True


def readers(node: Instruction) -> Iterator[Instruction]:
    """Users of a value, looking through relabellings and elements of tuples."""
    stack = list(node.users)
    while stack:
        user = stack.pop()
        if user.opcode in _VIEWS:
            stack.extend(user.users)
        else:
            yield user
