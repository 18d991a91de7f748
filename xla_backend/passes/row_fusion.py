"""Row fusion: reductions of rows and everything that uses them for the same rows, as one kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from xla_backend.hlo.attributes import (
    FusionAttributes,
    FusionKind,
    GetTupleElementAttributes,
    ParameterAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction, clone_instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.fusion import ControlFlowFusion
from xla_backend.passes.fusion_groups import RECOMPUTE_BUDGET
from xla_backend.passes.row_clusters import Clusters, leaf_of, origin
from xla_backend.passes.row_space import FULL, RowPlanning, RowSpace, plan_rows

# Rows across memory: how many lines of one of its sets a cache holds, and the bytes after which the
# sets repeat.
_CACHE_WAYS = 8
_CACHE_PERIOD = 1 << 16


class RowMachine(NamedTuple):
    """Which rows are worth walking in one nest on a machine.

    Fields:
      together: fewer elements are one nest's work whatever their rows are.
      enough_rows, side_by_side: how many rows keep the machine busy, and how many of those that
        lie across memory count as one. Few long rows are better cut into pieces.
      short_row, little_work: shorter rows leave the machine idle where flat loops over all rows at
        once do not; where there is little work, fewer kernels count for more.
      cache_bytes: of a row (of all arrays together) that stay near between two loops.
      strided_row: elements of the longest row across memory, where rows side by side are walked
        together; of several arrays fewer.
      joins: whether a row may be of components that are put together in it. Loops over rows are not
        split into one for each component, so a lane computes all of them.
    """

    together: int
    enough_rows: int
    side_by_side: int
    short_row: int
    little_work: int
    cache_bytes: int
    strided_row: int
    joins: bool = True


# One pass over few elements is quicker on one thread than several passes on many. Rows across
# memory are walked in stretches of 256 bytes, of which the second cache holds so many.
CPU_ROWS = RowMachine(1 << 15, 16, 64, 96, 1 << 11, 1 << 19, 1 << 11, joins=False)


class RowFusion(ControlFlowFusion):
    """Merge fusions that run over the same rows.

    Why: softmax, layer norm and their gradients reduce each row and then use the result for the
    row; as separate kernels they read the array from memory once per reduction. In one nest the row
    stays in the cache, values per row in registers.
    Needs: loop fusion.
    Leaves: fusions whose computations have reductions inside, all over the same dimensions of
    arrays with the same elements; kLoop if an output has those elements, else kInput.
    """

    name = "row-fusion"
    opcodes = frozenset({Opcode.FUSION})
    module_opcodes = frozenset({Opcode.REDUCE})  # inside of fusions

    def __init__(self, machine: RowMachine = CPU_ROWS) -> None:
        self.machine = machine

    def fuse(self, module: HloModule, computation: Computation) -> bool:
        clusters = Clusters(computation, self.machine.joins)
        fused: list[Computation] = []
        seen: set[Instruction] = set()  # in clusters that do not pay off
        for seed in list(clusters.slots):
            if seed.opcode is not Opcode.FUSION or seed in clusters.taken or seed in seen:
                continue
            space = _space_of(seed, clusters, self.machine)
            if space is None:
                continue
            members = clusters.grow(seed, space)
            if len(members) < 2 or clusters.reads_too_late(members):
                continue
            body = _Merger(computation, members)
            plan = plan_rows(body.fused)
            if plan is None or not pays_off(plan, self.machine):
                seen.update(members)
                continue
            fusion = body.install()
            clusters.taken.update(members)
            clusters.taken.add(fusion)
            clusters.contract(members, fusion)
            fused.append(body.fused)
        module.add_computations(fused)
        return bool(fused)


def _space_of(seed: Instruction, clusters: Clusters, machine: RowMachine) -> RowSpace | None:
    """The rows that a fusion reduces, if it is worth walking them together with other fusions."""
    body = clusters.body(seed)
    if not body.reduces or not body.is_suited:
        return None
    space = RowSpace.of(body.reduces[0])
    if space.row_length < 2 or space.elements == 0 or not _fits_cache(space, 1, 1, machine):
        return None
    return space if body.demands(space) is not None and _enough_rows(space, machine) else None


def _enough_rows(space: RowSpace, m: RowMachine) -> bool:
    """Whether rows fill the vector lanes and threads."""
    if space.is_minor and space.row_length < m.short_row and space.elements > m.little_work:
        return False
    side_by_side = space.rows if space.is_minor else space.rows // m.side_by_side
    return space.elements <= m.together or side_by_side >= m.enough_rows


def _fits_cache(space: RowSpace, bytes_per_element: int, widest: int, machine: RowMachine) -> bool:
    """Whether what one loop over a row reads is still near when the next one reads it."""
    if space.is_minor:
        return space.row_length * bytes_per_element <= machine.cache_bytes
    stride = space.segments[-1][0] * widest
    lines = _CACHE_WAYS * _CACHE_PERIOD // math.gcd(stride, _CACHE_PERIOD)
    longest = machine.strided_row * widest // bytes_per_element
    return space.row_length <= min(longest, lines)


def pays_off(plan: RowPlanning, machine: RowMachine = CPU_ROWS) -> bool:
    """Whether one nest is quicker than a pass over memory for each loop."""
    space = plan.space
    demands = plan.demands.items()
    arrays = [n for n, place in demands if n.opcode is Opcode.PARAMETER and place & FULL]
    arrays += [root for stores in plan.stores for root in stores]
    sizes = [n.shape.element_type.byte_size for n in arrays] or [1]
    if not _fits_cache(space, sum(sizes), max(sizes), machine):
        return False
    budget = RECOMPUTE_BUDGET * (plan.loops if space.is_minor else 1)
    return space.elements <= machine.little_work or plan.recomputed <= budget


class _Merger:
    """Builds the computation of several fusions run as one, and puts the fusion in their place."""

    def __init__(self, computation: Computation, members: Sequence[Instruction]) -> None:
        self.computation = computation
        self.members = members
        self.inside = set(members)
        self.operands: list[Instruction] = []
        self.fused = Computation(f"fused_rows_{_label(members[-1])}")
        self._inner: dict[Instruction, Instruction] = {}  # outer value -> instruction inside
        self._roots: dict[Instruction, list[Instruction]] = {}  # by member
        self._equal: dict[tuple, Instruction] = {}
        for member in members:
            self._copy(member)
        self.outputs = self._outputs()
        inner = list(dict.fromkeys(root for _, root in self.outputs))
        self.numbers = {root: i for i, root in enumerate(inner)}
        if len(inner) == 1:
            self.fused.root = inner[0]
        else:
            shape = Shape.tuple([r.shape for r in inner])
            self.fused.root = self.fused.add(Instruction(Opcode.TUPLE, shape, inner))

    def _copy(self, member: Instruction) -> None:
        body = member.called[0]
        mapping: dict[Instruction, Instruction] = {}
        for node in body.post_order():
            if node.opcode is Opcode.PARAMETER:
                mapping[node] = self._value(member.operands[node.parameter_number])
            elif node is not body.root or node.opcode is not Opcode.TUPLE:
                mapping[node] = self._add(node, [mapping[o] for o in node.operands])
        self._roots[member] = [mapping[leaf] for leaf in body.outputs]

    def _value(self, outer: Instruction) -> Instruction:
        """What stands for an operand of a member inside."""
        known = self._inner.get(outer)
        if known is None:
            if outer in self.inside:
                (known,) = self._roots[outer]
            elif origin(outer) not in self.inside:
                known = self._parameter(outer)
            elif outer.opcode is Opcode.GET_TUPLE_ELEMENT:
                known = self._roots[origin(outer)][leaf_of(outer)]
            else:  # a relabelling between two members
                known = self._add(outer, [self._value(outer.operands[0])])
            self._inner[outer] = known
        return known

    def _parameter(self, outer: Instruction) -> Instruction:
        number = len(self.operands)
        self.operands.append(outer)
        attributes = ParameterAttributes(number)
        node = Instruction(Opcode.PARAMETER, outer.shape, (), attributes, name=f"p{number}")
        return self.fused.add(node)

    def _add(self, node: Instruction, operands: list[Instruction]) -> Instruction:
        """A copy of the node; the same one for the same computation, which members may share."""
        key = (node.opcode, node.shape, node.attributes, tuple(operands), tuple(node.called))
        found = self._equal.get(key)
        if found is None:
            found = self._equal[key] = self.fused.add(clone_instruction(node, operands))
        return found

    def _outputs(self) -> list[tuple[Instruction, Instruction]]:
        """(outer value, instruction inside) of everything that others read."""
        result = []
        for member in self.members:
            for value in leaf_values(member):
                if self._is_read(value):
                    result.append((value, self._roots[member][leaf_of(value)]))
        return result

    def _is_read(self, value: Instruction) -> bool:
        if value is self.computation.root:
            return True
        return any(
            self._is_read(user) if user.opcode is Opcode.RESHAPE else user not in self.inside
            for user in value.users
        )

    def install(self) -> Instruction:
        """Add the fusion to the computation and remove the members."""
        full = any(plan_output_is_full(root, self.fused) for root in self.numbers)
        lead = self.outputs[-1][0]
        fusion = self.computation.add(
            Instruction(
                Opcode.FUSION,
                self.fused.root.shape,  # type: ignore[union-attr]
                self.operands,
                FusionAttributes(FusionKind.LOOP if full else FusionKind.INPUT),
                (self.fused,),
                lead.metadata,
                f"{_label(self.members[-1])}_rows_fusion",
            )
        )
        results = self._results(fusion)
        for value, root in self.outputs:
            self.computation.replace_uses(value, results[self.numbers[root]])
        for member in reversed(self.members):
            self._remove(member)
        return fusion

    def _results(self, fusion: Instruction) -> list[Instruction]:
        if len(self.numbers) == 1:
            return [fusion]
        return [
            self.computation.add(
                Instruction(
                    Opcode.GET_TUPLE_ELEMENT,
                    root.shape,
                    (fusion,),
                    GetTupleElementAttributes(i),
                    (),
                    root.metadata,
                )
            )
            for root, i in self.numbers.items()
        ]

    def _remove(self, node: Instruction) -> None:
        for user in list(node.users):
            self._remove(user)  # views that only members read
        self.computation.remove(node)


def leaf_values(fusion: Instruction) -> list[Instruction]:
    """The values a fusion computes, as its users see them."""
    if not fusion.shape.is_tuple:
        return [fusion]
    return [u for u in fusion.users if u.opcode is Opcode.GET_TUPLE_ELEMENT]


def plan_output_is_full(root: Instruction, fused: Computation) -> bool:
    """Whether an output has an element for each element of the rows."""
    reduce = next(n for n in fused.instructions if n.opcode is Opcode.REDUCE)
    return RowSpace.of(reduce).place_of_root(root.shape.dimensions) == FULL


def _label(member: Instruction) -> str:
    """Name of what a fusion computes last."""
    root = member.called[0].root
    assert root is not None
    last = root.operands[-1] if root.opcode is Opcode.TUPLE else root
    return last.opcode.value
