"""Groups of instructions to be fused, and the graph of groups in which no cycle may arise."""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from xla_backend.hlo.attributes import DimensionsAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import topological_order
from xla_backend.passes.fusion_rules import (
    ELEMENTWISE,
    EXPENSIVE,
    asks_twice,
    cost_of,
    inlinable_edge,
    is_fusible,
    joins_components,
    may_be_interior,
    memory_origin,
    overwriters,
    reads_apart,
    reads_components,
    reads_memory,
    same_window_read,
    takes_one_by_one,
    takes_rows,
)

# What `may_be_interior` and joint work ask about.
_NOT_ALWAYS_INSIDE = frozenset({Opcode.DYNAMIC_UPDATE_SLICE, Opcode.CONCATENATE})
# Limits, chosen so that one kernel stays quick to compile; larger groups gain little, because the
# arrays they would save are few compared with those they read.
MAX_SIZE = 320
MAX_ROOTS = 16
# Extra instructions per element of a fusion spent on computing cheap things more than once.
RECOMPUTE_BUDGET = 8.0
# Elements that lie apart are put together once, if each is read so often.
_MANY_READS = 16
# The longest row whose place counts as computed once.
_MOST_PLACES = 16
# A chain this cheap is computed again in each fusion that needs it.
DUPLICATE_COST = 4
DUPLICATE_SCALAR_COST = 13
_MAX_INDEX_MAPS = 16
_MAX_SEARCH = 300
_MAX_WRITERS = 16
_MOST_COST = 1000

# How a member is indexed by the group's loop: 0 is the loop index itself, each non-elementwise
# user adds a map of its own. The value is how often the member is evaluated through that map.
IndexMaps = dict[object, float]


class Group:
    """Members are computed at each point of `dimensions`; roots are written to memory."""

    __slots__ = (
        "dimensions",
        "evaluations",
        "extra",
        "is_reduce",
        "members",
        "places",
        "reduce_key",
        "roots",
        "size",
        "together",
        "update",
    )

    def __init__(self, root: Instruction, together: bool = False) -> None:
        # Components that the root joins are computed in one loop, so what they share is, too.
        self.together = together and joins_components(root)
        self.members: dict[Instruction, IndexMaps] = {}
        # Of rows that members gather, and what these are computed of: once for each row.
        self.places: set[Instruction] = set()
        self.roots: dict[Instruction, None] = {root: None}
        self.is_reduce = root.opcode is Opcode.REDUCE
        self.update = root if root.opcode is Opcode.DYNAMIC_UPDATE_SLICE else None
        self.reduce_key: object = None
        self.extra = 0.0
        self.size = 1  # members that cost something
        if self.is_reduce:
            assert isinstance(root.attributes, DimensionsAttributes)
            self.dimensions = root.operands[0].shape.dimensions
            # Variadic reduces have a tuple shape already: they stay alone.
            self.reduce_key = id(root) if root.shape.is_tuple else root.attributes.dimensions
        elif self.update is not None:
            self.dimensions = root.operands[1].shape.dimensions
        else:
            self.dimensions = root.shape.dimensions
        self.evaluations = float(max(prod(self.dimensions), 1))  # points of its loop
        self.members[root] = {0: self.evaluations}

    def reduces_rows(self) -> bool:
        """Whether this reduces the last dimension, and perhaps others."""
        root = next(iter(self.roots))
        if not self.is_reduce:
            return False
        assert isinstance(root.attributes, DimensionsAttributes)
        return len(self.dimensions) - 1 in root.attributes.dimensions

    def same_loop(self, other: Group) -> bool:
        return (
            self.dimensions == other.dimensions
            and self.is_reduce == other.is_reduce
            and self.reduce_key == other.reduce_key
            and self.update is None
            and other.update is None
        )

    def has_place(self, node: Instruction) -> bool:
        """Whether a member gathers rows at what it gives, or at what is computed of that."""
        return any(
            user in self.places or (user in self.members and takes_rows(user, node))
            for user in node.users
        )

    def evaluations_of(self, node: Instruction, maps: IndexMaps) -> float:
        """How often members compute a node, through these maps. Of a place that is once for each
        row on a CPU, and more often where a row is many threads'."""
        evaluations = sum(maps.values())
        if self.has_place(node):
            return max(node.shape.num_elements, evaluations / _MOST_PLACES)
        return evaluations

    def index_maps_for(self, producer: Instruction) -> IndexMaps:
        """Through which maps the members of this group would evaluate `producer`."""
        maps: IndexMaps = {}
        members, users = self.members, producer.users
        dimensions = producer.shape.dimensions
        # From the shorter side: a broadcast may have as many users as the program has layers.
        from_users = len(users) <= len(members)
        for user in users if from_users else members:
            if user not in (members if from_users else users):
                continue
            user_maps, opcode = members[user], user.opcode
            if opcode in ELEMENTWISE and dimensions == user.shape.dimensions:
                maps.update(user_maps)
            elif opcode is Opcode.REDUCE:
                maps[0] = self.evaluations
            elif opcode is Opcode.DYNAMIC_UPDATE_SLICE and producer is user.operands[1]:
                maps[0] = self.evaluations
            elif opcode is Opcode.CONCATENATE:
                share = producer.shape.num_elements / max(user.shape.num_elements, 1)
                one_loop = self.together and user in self.roots
                for key, count in user_maps.items():
                    maps[(user, None if one_loop else producer, key)] = count * share
            elif opcode is Opcode.RESHAPE or takes_one_by_one(user, producer):
                # Reshapes of equal dimensions are the same map.
                change = dimensions, user.shape.dimensions
                for key, count in user_maps.items():
                    maps[(change, key)] = count
            else:
                for key, count in user_maps.items():
                    maps[(user, key)] = count
        return maps


class GroupGraph:
    """All groups of one computation, built consumers first."""

    def __init__(self, computation: Computation, together: bool = False) -> None:
        self.computation = computation
        self._together = together
        self.order = topological_order(computation)
        self.position = {node: i for i, node in enumerate(self.order)}
        self.groups_of: dict[Instruction, list[Group]] = {}
        self.groups: dict[Group, None] = {}
        # A later position of the same span (spans that overlap are one), or the position itself.
        self._following = list(range(len(self.order)))
        self._overwriters = overwriters(self.order)
        self.fusible = {node for node in self.order if is_fusible(node)}
        # Cost of computing a node again from what is in memory, saturating.
        chain_cost = self._chain_cost = dict[Instruction, int]()
        for node in self.order:
            total = 0
            if node in self.fusible:
                total = cost_of(node)
                for operand in node.operands:
                    total += chain_cost[operand]
            chain_cost[node] = total if total < _MOST_COST else _MOST_COST

    # -- placing, consumers first ------------------------------------------------------------------

    def start_reduce_group(self, node: Instruction) -> None:
        self._start(node)

    def _start(self, node: Instruction) -> Group:
        group = Group(node, self._together)
        self.groups[group] = None
        self.groups_of.setdefault(node, []).append(group)
        return group

    def place(self, node: Instruction) -> None:
        """Decide where a fusible instruction is computed; its users have been placed."""
        if node.opcode is Opcode.RESHAPE:
            self._place_reshape(node)
            return
        may_be_inside = node.opcode not in _NOT_ALWAYS_INSIDE or (
            may_be_interior(node) and not self._is_joint_work(node)
        )
        in_memory = node is self.computation.root or not may_be_inside
        # Whether a member of a group reads it from memory.
        read_by_member = False
        consumers: dict[Group, None] = {}
        for user in node.users:
            groups = self.groups_of.get(user)
            if groups is None:
                in_memory = True
            elif not inlinable_edge(node, user):
                in_memory = read_by_member = True
            else:
                for group in groups:
                    consumers[group] = None
        if node.opcode is Opcode.CONSTANT:
            # Scalar constants go into every fusion, and stay outside for the others.
            self._join_fitting(node, consumers)
            return
        if not consumers or not may_be_inside:
            self._start(node)
            return
        if read_by_member:
            # Read from memory by one member: then by all of them.
            if self._is_free(node):
                self._join_fitting(node, self._only_inlinable(node, consumers))
            self._start(node)
            return
        if self._is_free(node):
            if not self._join_fitting(node, consumers) or in_memory:
                self._start(node)
            return
        fitting = self._fitting(node, consumers)
        if not in_memory and len(fitting) == len(consumers):
            if len(fitting) == 1:
                for group, maps in fitting.items():
                    self._join(node, group, maps)
                return
            merged = self._merge_all(list(fitting))
            if merged is not None:
                self._join(node, merged, merged.index_maps_for(node))
                return
            # Some may have merged.
            fitting = {g: g.index_maps_for(node) for g in fitting if g in self.groups}
            if self._is_cheap_to_duplicate(node):
                for group, maps in fitting.items():
                    self._join(node, group, maps)
                return
        for group, maps in fitting.items():
            if self._can_be_extra_root(node, group):
                self._join(node, group, maps)
                group.roots[node] = None
                self._cover_span(group)
                # Other groups read it from memory.
                return
        self._start(node)

    def _place_reshape(self, node: Instruction) -> None:
        """A reshape is free as a relabelling of memory: it is fused only where that keeps its
        operand out of memory altogether."""
        operand = node.operands[0]
        if not (operand in self.fusible and may_be_interior(operand) and len(operand.users) == 1):
            return
        consumers: dict[Group, None] = {}
        for user in node.users:
            groups = self.groups_of.get(user)
            if groups is None or not inlinable_edge(node, user):
                return
            consumers.update(dict.fromkeys(groups))
        if len(consumers) != 1 or node is self.computation.root:
            return
        (group,) = consumers
        maps = self._fitting_maps(node, group)
        if maps is not None:
            few = sum(maps.values()) <= operand.shape.num_elements * 1.01
            if few or cost_of(operand) < EXPENSIVE:
                self._join(node, group, maps)

    def _only_inlinable(self, node: Instruction, consumers: dict[Group, None]) -> dict[Group, None]:
        bad: set[Group] = set()
        for user in node.users:
            if not inlinable_edge(node, user):
                bad.update(self.groups_of.get(user, ()))
        return {g: None for g in consumers if g not in bad}

    def _is_joint_work(self, node: Instruction) -> bool:
        """Whether it joins components that are computed: in one loop of their own each is once."""
        if not self._together or not joins_components(node):
            return False
        if all(reads_components(user, node) for user in node.users):
            return False  # one by one
        return self._chain_cost[node] > DUPLICATE_COST or self._feeds_a_reduce(node)

    def _feeds_a_reduce(self, node: Instruction) -> bool:
        """Whether sums and the like along rows go through it: their loops are not split into one
        for each component, so that each element would be computed of all of them."""
        groups = (group for user in node.users for group in self.groups_of.get(user, ()))
        return any(group.reduces_rows() for group in groups)

    def _is_free(self, node: Instruction) -> bool:
        """Nothing to load and next to nothing to compute: goes into every consumer. Of a broadcast
        never the large array is in memory: its small operand may be."""
        opcode = node.opcode
        if opcode is Opcode.BROADCAST or opcode is Opcode.IOTA:
            return True
        return not node.shape.dimensions and self._chain_cost[node] <= DUPLICATE_COST

    def _is_cheap_to_duplicate(self, node: Instruction) -> bool:
        limit = DUPLICATE_COST if node.shape.dimensions else DUPLICATE_SCALAR_COST
        return self._chain_cost[node] <= limit

    def _fitting_maps(self, node: Instruction, group: Group) -> IndexMaps | None:
        """Through which maps the group would compute the node where its members use it; None where
        it may not."""
        if group.size >= MAX_SIZE and not self._is_free(node):
            return None  # what is free joins all the same: it must not become an array in memory
        if group.update is not None and not self._keeps_update_in_place(node, group):
            return None
        if self._overwriters and self._reads_too_late(node, group):
            return None
        if node.opcode is Opcode.CONCATENATE and asks_twice(node, group.members):
            return None
        maps = group.index_maps_for(node)
        shape = node.shape
        if not shape.dimensions:
            return maps  # scalars are computed once, before the loop
        if len(maps) > _MAX_INDEX_MAPS:
            return None
        evaluations, elements = sum(maps.values()), shape.num_elements
        if evaluations <= elements * 1.01:
            return maps
        cost = cost_of(node)
        if cost >= EXPENSIVE:
            return None
        if evaluations >= _MANY_READS * elements and reads_apart(node):
            return None
        extra = group.extra + cost * group.evaluations_of(node, maps) / group.evaluations
        return maps if extra <= RECOMPUTE_BUDGET else None

    def _reads_too_late(self, node: Instruction, group: Group) -> bool:
        """Whether the node, computed in the group, would read an array that something before the
        group writes over: the whole array would have to be copied."""
        writers = [w for w in self._writers_over(node) if w not in group.members]
        if any(self._reaches(list(w.users), group, ignore=group) for w in writers):
            return True
        # The group must run before those writers: none of them may have to run before it.
        seen: set[Group] = set()
        stack = [g for w in writers for g in self.groups_of.get(w, ())]
        while stack and len(seen) <= _MAX_WRITERS:
            other = stack.pop()
            if other is group:
                return True
            if other not in seen:
                seen.add(other)
                for member in other.members:
                    for w in self._writers_over(member):
                        if w not in other.members:
                            stack.extend(self.groups_of.get(w, ()))
        return bool(stack)

    def _writers_over(self, node: Instruction) -> list[Instruction]:
        """What writes over arrays that the node reads."""
        found: list[Instruction] = []
        for operand in node.operands:
            found += self._overwriters.get(memory_origin(operand), ())
        return found

    def _keeps_update_in_place(self, node: Instruction, group: Group) -> bool:
        """A fusion that writes into X may read X only at the very elements it writes. Where the
        node would be computed of other elements of X, each of those reads would be an array in
        memory: the node is one instead."""
        assert group.update is not None
        target = memory_origin(group.update.operands[0])
        if reads_memory(node, target):
            return same_window_read(node, group.update) and set(group.index_maps_for(node)) == {0}
        if node is not group.update.operands[1]:
            return True  # a part of what was asked about
        seen = {node}
        stack = list(node.operands)
        while stack and len(seen) <= _MAX_SEARCH:
            other = stack.pop()
            if other in seen or not is_fusible(other) or not may_be_interior(other):
                continue
            seen.add(other)
            if reads_memory(other, target) and not same_window_read(other, group.update):
                return False
            stack.extend(other.operands)
        return True

    def _join(self, node: Instruction, group: Group, maps: IndexMaps) -> None:
        """`maps`: those through which members evaluate the node."""
        cost = cost_of(node)
        if cost:
            group.size += 1
            if node.shape.dimensions:
                evaluations = group.evaluations_of(node, maps)
                if evaluations > node.shape.num_elements * 1.01:
                    group.extra += cost * evaluations / group.evaluations
        if group.has_place(node):
            group.places.add(node)
        group.members[node] = maps
        self.groups_of.setdefault(node, []).append(group)

    def _join_fitting(self, node: Instruction, groups: Collection[Group]) -> bool:
        """Let all groups compute it that may; whether these are all."""
        fitting = self._fitting(node, groups)
        for group, maps in fitting.items():
            self._join(node, group, maps)
        return len(fitting) == len(groups)

    def _fitting(self, node: Instruction, groups: Collection[Group]) -> dict[Group, IndexMaps]:
        """Those of the groups that may compute it."""
        found = [(group, self._fitting_maps(node, group)) for group in groups]
        return {group: maps for group, maps in found if maps is not None}

    def _can_be_extra_root(self, node: Instruction, group: Group) -> bool:
        if group.is_reduce or group.update is not None or len(group.roots) >= MAX_ROOTS:
            return False
        if node.shape.dimensions != group.dimensions:
            return False
        if node.shape.dimensions and set(group.index_maps_for(node)) != {0}:
            return False
        # Any other way from the node into the group would make the group need its own output.
        outside: list[Instruction] = []
        for user in node.users:
            if user not in group.members:
                outside.append(user)
                continue
            for other in self.groups_of[user]:  # a user computed in another group too
                if other is not group:
                    for root in other.roots:
                        outside.extend(root.users)
        return not self._reaches(outside, group, ignore=group)

    # -- merging -----------------------------------------------------------------------------------

    def _merge_all(self, groups: list[Group]) -> Group | None:
        """One group out of several that share a producer, or None where that cannot be."""
        first = groups[0]
        for other in groups[1:]:
            if not first.same_loop(other):
                return None
        merged = first
        for other in groups[1:]:
            if not self.can_merge(merged, other):
                return None
            merged = self.merge(merged, other)
        return merged

    def can_merge(self, a: Group, b: Group) -> bool:
        if not a.same_loop(b) or len(a.roots) + len(b.roots) > MAX_ROOTS:
            return False
        if a.size + b.size > MAX_SIZE or a.extra + b.extra > RECOMPUTE_BUDGET:
            return False
        return not self._depends(a, b) and not self._depends(b, a)

    def _depends(self, a: Group, b: Group) -> bool:
        """Whether b reads, directly or not, something a writes."""
        starts = [u for root in a.roots for u in root.users]
        return self._reaches(starts, b, ignore=a)

    def _reaches(self, starts: list[Instruction], target: Group, ignore: Group) -> bool:
        """Whether a path leads from `starts` into `target` (True as well where the search gets
        too long).

        Nodes that are computed only inside `ignore` do not count as a way out of it.
        """
        position = self.position
        limit = self._last_position(target)
        seen: set[Instruction] = set()
        entered: set[Group] = {ignore}
        stack = [node for node in starts if position[node] <= limit]
        while stack:
            node = stack.pop()
            # Users come later in the order, so what lies behind the target cannot lead to it.
            if node in seen or position[node] > limit:
                continue
            seen.add(node)
            if len(seen) > _MAX_SEARCH:
                return True
            groups = self.groups_of.get(node)
            if not groups:
                stack.extend(node.users)
                continue
            for group in groups:
                if group is target and target is not ignore:
                    return True
                if group is target:
                    return True
                if group not in entered:
                    entered.add(group)
                    for root in group.roots:
                        stack.extend(root.users)
        return False

    def _last_position(self, target: Group) -> int:
        """The position after which no path leads into `target`. A group with several roots may
        lead back from a late member to users of an early root: its span is included."""
        return self._span_end(max(self.position[root] for root in target.roots))

    def _span_end(self, at: int) -> int:
        """The last position of the spans of groups that overlap, from `at` on."""
        following = self._following
        end = at
        while following[end] != end:
            end = following[end]
        while following[at] != end:  # the next search takes one step
            following[at], at = end, following[at]
        return end

    def _cover_span(self, group: Group) -> None:
        """Positions between the roots of a group belong together from now on: groups only grow."""
        places = [self.position[root] for root in group.roots]
        last = max(places)
        end = self._span_end(min(places))
        while end < last:
            self._following[end] = end + 1
            end = self._span_end(end + 1)

    def merge(self, a: Group, b: Group) -> Group:
        """Move b's members and roots into a."""
        for node, maps in b.members.items():
            groups = self.groups_of[node]
            groups.remove(b)
            if a not in groups:
                groups.append(a)
            a.members.setdefault(node, {}).update(maps)
        a.places |= b.places
        a.roots.update(b.roots)
        self._cover_span(a)
        a.extra += b.extra
        a.size += b.size
        del self.groups[b]
        return a

    def merge_siblings(self) -> None:
        """Merge groups of the same loop that read the same array, and all scalar groups that can
        be."""
        if len(self.groups) < 2:
            return
        by_loop: dict[tuple[tuple[int, ...], bool, object], list[Group]] = {}
        for group in self.groups:
            if group.update is None:
                by_loop.setdefault(
                    (group.dimensions, group.is_reduce, group.reduce_key), []
                ).append(group)
        for (dimensions, _, _), groups in by_loop.items():
            if len(groups) < 2:
                continue
            kept: list[Group] = []
            reads: list[set[Instruction]] = []
            for group in groups:
                mine = _array_reads(group)
                for i in range(max(0, len(kept) - 8), len(kept)):
                    shares = not dimensions or not mine.isdisjoint(reads[i])
                    if shares and self.can_merge(kept[i], group):
                        self.merge(kept[i], group)
                        reads[i] |= mine
                        break
                else:
                    kept.append(group)
                    reads.append(mine)

    # -- outputs that need not be ------------------------------------------------------------------

    def drop_cheap_outputs(self) -> None:
        """An output that its readers can compute again from arrays in memory is not written.

        Differentiation keeps x * scale for the backward pass beside x and the scale: computing it
        there again costs one instruction, and saves writing an array.
        """
        for group in [g for g in self.groups if len(g.roots) > 1]:
            for root in sorted(group.roots, key=self.position.__getitem__, reverse=True):
                if len(group.roots) > 1 and root.shape.dimensions:
                    self._drop_if_cheap(root, group)

    def _drop_if_cheap(self, root: Instruction, group: Group) -> None:
        if root is self.computation.root or root.opcode in (Opcode.REDUCE, Opcode.IOTA):
            return
        readers: dict[Group, None] = {}
        used_inside = False
        for user in root.users:
            groups = self.groups_of.get(user)
            if not groups or not inlinable_edge(root, user):
                return
            used_inside |= group in groups
            readers.update((g, None) for g in groups if g is not group)
        if not used_inside or not 0 < len(readers) <= 2:
            return
        chain = self._chain_to_memory(root, group)
        if chain is None:
            return
        inside = set(chain)
        large = {
            operand
            for node in chain
            for operand in node.operands
            if operand not in inside and 2 * operand.shape.num_elements > root.shape.num_elements
        }
        for reader in readers:
            if reader.update is not None or reader.size + len(chain) > MAX_SIZE:
                return
            if sum(reader.index_maps_for(root).values()) > root.shape.num_elements * 1.01:
                return
            read = {o for n in reader.members for o in n.operands if o not in reader.members}
            if len(large - read) > 1:
                return
        del group.roots[root]
        for reader in readers:
            for node in chain:
                if node not in reader.members:
                    self._join(node, reader, reader.index_maps_for(node))

    def _chain_to_memory(self, root: Instruction, group: Group) -> list[Instruction] | None:
        """What computes `root` from arrays in memory, users first; None if that is not cheap."""
        chain = {root}
        stack = [root]
        cost = 0
        while stack:
            node = stack.pop()
            cost += cost_of(node)
            if cost > DUPLICATE_COST or not may_be_interior(node):
                return None
            for operand in node.operands:
                if operand in group.members and operand not in group.roots:
                    if operand not in chain:
                        chain.add(operand)
                        stack.append(operand)
        return sorted(chain, key=self.position.__getitem__, reverse=True)

    def live_groups(self) -> list[Group]:
        """Groups to build, producers first."""
        return sorted(self.groups, key=lambda g: max(self.position[r] for r in g.roots))


def _array_reads(group: Group) -> set[Instruction]:
    """Arrays as large as the group's loop that it reads from memory."""
    return {
        operand
        for node in group.members
        for operand in node.operands
        if operand not in group.members and operand.shape.dimensions == group.dimensions
    }
