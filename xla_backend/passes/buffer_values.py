"""Which memory the values of a scheduled module may share.

A *value* is one array that an instruction defines; tuples, get-tuple-elements and reshapes only
name it. Each value has live intervals on one time line that runs through nested computations.
Values that must be one buffer (loop carries, branch results, in-place updates, donated parameters)
are united where their intervals allow it; where they do not, a Conflict says which copy would help.
Copy insertion acts on the conflicts; buffer assignment runs the same analysis and meets none.
"""

from __future__ import annotations

import bisect
import enum
from operator import itemgetter
from typing import Any, NamedTuple

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.buffer_sharing import SharingRules, in_place_operands
from xla_backend.passes.fusion_rules import FREE_ALIASES
from xla_backend.process.light_dataclasses import dataclass


class Value:
    """An array defined by leaf `leaf` of `instruction`."""

    __slots__ = ("buffer", "instruction", "leaf", "size", "views")

    def __init__(self, instruction: Instruction, leaf: int, size: int) -> None:
        self.instruction = instruction
        self.leaf = leaf
        self.size = size
        self.views: list[View] = []
        self.buffer: BufferSet = BufferSet(self)


class View:
    """A stretch of time in which a value is needed; regions of control flow get views of their
    own."""

    __slots__ = ("end", "start", "value")

    def __init__(self, value: Value, start: int, end: int) -> None:
        self.value = value
        self.start = start
        self.end = end
        value.views.append(self)

    def use(self, time: int) -> None:
        if time > self.end:
            self.end = time


Interval = tuple[int, int, Value]
_start = itemgetter(0)
_times = itemgetter(0, 1)


class BufferSet:
    """Values united into one buffer."""

    __slots__ = ("constant", "intervals", "output", "parameter", "read_only", "size", "values")

    def __init__(self, value: Value) -> None:
        self.values = [value]
        self.size = value.size
        self.intervals: list[Interval] = []
        self.parameter: int | None = None  # flat entry parameter leaf
        self.output: int | None = None  # flat entry output leaf
        self.constant = False
        self.read_only = False

    def close(self) -> None:
        """Turn the views into sorted, disjoint intervals."""
        merged: list[Interval] = []
        value = self.values[0]
        for start, end in sorted((v.start, v.end) for v in value.views):
            if merged and start <= merged[-1][1]:
                if end > merged[-1][1]:
                    merged[-1] = (merged[-1][0], end, value)
            else:
                merged.append((start, end, value))
        self.intervals = merged

    @property
    def start(self) -> int:
        return self.intervals[0][0]

    @property
    def end(self) -> int:
        return max(end for _, end, _ in self.intervals)


class ConflictKind(enum.Enum):
    """What needs a copy."""

    WHILE_INIT = "initial value of a loop carry"
    WHILE_BODY = "new value of a loop carry"
    BRANCH = "result of a branch"
    IN_PLACE = "operand that is overwritten"
    OUTPUT = "output of the program"
    DONATION = "donated parameter"


@dataclass(frozen=True, slots=True)
class Conflict:
    """`instruction` is the while, conditional or in-place instruction (None: the entry); `leaf` the
    carry, result, operand or output number; `branch` the conditional's branch."""

    kind: ConflictKind
    instruction: Instruction | None
    leaf: int
    branch: int = 0


Leaves = tuple[View | None, ...]


class BufferValues:
    """The analysis of one scheduled module. After construction: `leaves`, `conflicts`, and each
    value's
    `buffer`."""

    def __init__(self, module: HloModule) -> None:
        assert module.entry is not None and module.entry.root is not None
        self.module = module
        self.leaves: dict[Instruction, Leaves] = {}
        self.values: list[Value] = []
        self.conflicts: list[Conflict] = []
        self.rules = SharingRules()
        self._instruction_at: dict[int, Instruction] = {}
        # By time: which operands of the instruction there have a value.
        self._operand_numbers: dict[int, dict[Value, list[int]]] = {}
        self._invariant: dict[Computation, set[int]] = {}
        self._time = 0
        # (conflict to report, view, view) in the order in which they are to be united.
        self._demands: list[tuple[Conflict, View, View]] = []
        self._walk_entry(module.entry)
        self._defined = self.values
        self.values = [v for v in self._defined if v.views]  # invariant carries have none
        for value in self.values:
            value.buffer.close()
        self._unite_demands()
        self._assign_outputs(module.entry)

    def release(self) -> None:
        """Let go of what values and their buffers know of each other, when nobody asks any more:
        they go at once then, and the cycle collector need not look for them."""
        for value in self._defined:
            value.buffer.values = []
            value.buffer.intervals = []
            value.views = []

    def timeline(self) -> list[tuple[int, Instruction]]:
        """The instructions that make or read arrays, with their times: entry parameters first, at
        0."""
        assert self.module.entry is not None
        parameters = [(0, parameter) for parameter in self.module.entry.parameters]
        return parameters + sorted(self._instruction_at.items(), key=lambda item: item[0])

    # -- walking -----------------------------------------------------------------------------------

    def _walk_entry(self, entry: Computation) -> None:
        parameters: list[Leaves] = []
        number = 0
        donated = set(donations(self.module).values())
        for parameter in entry.parameters:
            views = self._define(parameter)
            for view in views:
                if view is not None:
                    buffer = view.value.buffer
                    buffer.parameter = number
                    buffer.read_only = number not in donated
                number += 1
            parameters.append(views)
        self._walk(entry, parameters)
        self._time += 1
        assert entry.root is not None
        for view in self.leaves[entry.root]:
            if view is not None:
                view.use(self._time)

    def _define(self, node: Instruction) -> Leaves:
        """Fresh values for every array leaf, live from now."""
        shape = node.shape
        if not shape.is_tuple:
            return (self._define_leaf(node, 0, shape),)
        return tuple(self._define_leaf(node, i, s) for i, s in enumerate(shape.flatten()))

    def _define_leaf(self, node: Instruction, leaf: int, shape: Shape) -> View | None:
        if not shape.is_array:
            return None
        value = Value(node, leaf, shape.byte_size)
        self.values.append(value)
        return View(value, self._time, self._time)

    def _walk(self, computation: Computation, parameters: list[Leaves]) -> None:
        leaves = self.leaves
        for node in computation.instructions:
            opcode = node.opcode
            if opcode is Opcode.PARAMETER:
                leaves[node] = parameters[node.parameter_number]
            elif opcode is Opcode.GET_TUPLE_ELEMENT:
                operand = node.operands[0]
                first = operand.shape.leaf_starts[node.tuple_index]
                leaves[node] = leaves[operand][first : first + node.shape.leaf_count]
            elif opcode is Opcode.TUPLE:
                leaves[node] = tuple(view for operand in node.operands for view in leaves[operand])
            elif opcode in FREE_ALIASES:
                leaves[node] = leaves[node.operands[0]]
            elif opcode is Opcode.WHILE:
                self._walk_while(node)
            elif opcode is Opcode.CONDITIONAL:
                self._walk_conditional(node)
            else:
                self._walk_plain(node)

    def _walk_plain(self, node: Instruction) -> None:
        self._time += 1
        time = self._time
        self._instruction_at[time] = node
        for operand in node.operands:
            for view in self.leaves[operand]:
                if view is not None:
                    view.use(time)
        result = self.leaves[node] = self._define(node)
        if node.opcode is Opcode.CONSTANT:
            for view in result:
                assert view is not None
                view.value.buffer.constant = True
                view.value.buffer.read_only = True
            return
        for number, leaf in in_place_operands(node):
            old = self.leaves[node.operands[number]][0]
            new = result[leaf]
            if old is not None and new is not None:
                self._demands.append((Conflict(ConflictKind.IN_PLACE, node, number), old, new))

    def _walk_while(self, node: Instruction) -> None:
        condition, body = node.called
        assert body.root is not None and condition.root is not None
        initial = self.leaves[node.operands[0]]
        self._time += 1
        for view in initial:
            if view is not None:
                view.use(self._time)
        self._time += 1
        invariant = invariant_carries(body, self._invariant)
        fresh = self._define(node)
        start = self._time
        inside: list[View | None] = []
        covers: list[View] = []
        for i, view in enumerate(fresh):
            if view is None:
                inside.append(None)
            elif i in invariant:
                # Nothing ever writes it: it is the initial value, needed throughout the loop.
                outer = initial[i]
                assert outer is not None
                cover = View(outer.value, start, start)
                covers.append(cover)
                inside.append(cover)
            else:
                inside.append(view)
        inside_leaves = tuple(inside)
        self._walk(condition, [inside_leaves])
        self._time += 1
        for view in self.leaves[condition.root]:
            if view is not None:
                view.use(self._time)
        # The loop may end here, with the carries as they are: they are its results, whether or
        # not the condition or the body reads them.
        for view in inside:
            if view is not None:
                view.use(self._time)
        self._walk(body, [inside_leaves])
        self._time += 1
        end = self._time
        results = self.leaves[body.root]
        for view in results:
            if view is not None:
                view.use(end)
        self._time += 1
        for cover in covers:
            cover.end = self._time
        outside: list[View | None] = []
        for i, view in enumerate(fresh):
            if view is None:
                outside.append(None)
            elif i in invariant:
                outside.append(initial[i])
                view.value.views.clear()
            else:
                outside.append(View(view.value, self._time, self._time))
                init, result = initial[i], results[i]
                assert init is not None and result is not None
                self._demands.append((Conflict(ConflictKind.WHILE_INIT, node, i), init, view))
                self._demands.append((Conflict(ConflictKind.WHILE_BODY, node, i), result, view))
        self.leaves[node] = tuple(outside)

    def _walk_conditional(self, node: Instruction) -> None:
        self._time += 1
        for operand in node.operands:
            for view in self.leaves[operand]:
                if view is not None:
                    view.use(self._time)
        results: list[Leaves] = []
        for branch, operand in zip(node.called, node.operands[1:]):
            self._time += 1
            inside = tuple(
                None if v is None else View(v.value, self._time, self._time)
                for v in self.leaves[operand]
            )
            self._walk(branch, [inside])
            self._time += 1
            assert branch.root is not None
            for view in self.leaves[branch.root]:
                if view is not None:
                    view.use(self._time)
            results.append(self.leaves[branch.root])
        self._time += 1
        outside = self.leaves[node] = self._define(node)
        for b, leaves in enumerate(results):
            for i, (inner, outer) in enumerate(zip(leaves, outside)):
                if inner is not None and outer is not None:
                    self._demands.append((Conflict(ConflictKind.BRANCH, node, i, b), inner, outer))

    # -- uniting -----------------------------------------------------------------------------------

    def _unite_demands(self) -> None:
        for conflict, a, b in self._demands:
            if not self.unite(a.value, b.value):
                self.conflicts.append(conflict)

    def unite(self, a: Value, b: Value) -> bool:
        """Make two values one buffer, if they may be."""
        x, y = a.buffer, b.buffer
        if x is y:
            return True
        if not self.can_unite(x, y):
            return False
        if len(x.intervals) < len(y.intervals):
            x, y = y, x
        for interval in y.intervals:
            bisect.insort(x.intervals, interval, key=_times)
        x.values.extend(y.values)
        for value in y.values:
            value.buffer = x
        x.output = y.output if x.output is None else x.output
        x.parameter = y.parameter if x.parameter is None else x.parameter
        return True

    def can_unite(self, x: BufferSet, y: BufferSet) -> bool:
        if x.read_only or y.read_only or x.size != y.size:
            return False
        if x.output is not None and y.output is not None:
            return False
        if x.parameter is not None and y.parameter is not None:
            return False
        return not self._interfere(x.intervals, y.intervals)

    def _interfere(self, x: list[Interval], y: list[Interval]) -> bool:
        """Whether an interval of one meets one of the other, but where one value takes over the
        memory of the other. Few intervals are looked up among many: a buffer grows by one value
        after another."""
        if len(x) < len(y):
            x, y = y, x
        for start, end, value in y:
            for i in range(max(0, bisect.bisect_left(x, start, key=_start) - 1), len(x)):
                other_start, other_end, other = x[i]
                if other_start > end:
                    break
                if other_end < start:
                    continue
                if other_end == start and self._may_write_over(value, other, start):
                    continue
                if other_start == end and self._may_write_over(other, value, end):
                    continue
                return True
        return False

    def _may_write_over(self, new: Value, old: Value, time: int) -> bool:
        """At `time` the instruction that defines `new` reads `old` for the last time."""
        node = self._instruction_at.get(time)
        if node is None or new.instruction is not node:
            return False
        numbers = self._numbers_at(time).get(old, ())
        return bool(numbers) and all(
            self.rules.may_write_over(node, new.leaf, number) for number in numbers
        )

    def _numbers_at(self, time: int) -> dict[Value, list[int]]:
        found = self._operand_numbers.get(time)
        if found is None:
            found = self._operand_numbers[time] = {}
            for number, operand in enumerate(self._instruction_at[time].operands):
                for view in self.leaves[operand]:
                    if view is not None:
                        found.setdefault(view.value, []).append(number)
        return found

    # -- outputs -----------------------------------------------------------------------------------

    def _assign_outputs(self, entry: Computation) -> None:
        assert entry.root is not None
        outputs = self.leaves[entry.root]
        donation = donations(self.module)
        by_parameter: dict[int, Value] = {}
        for v in self.values if donation else ():
            if v.instruction.opcode is Opcode.PARAMETER and v.buffer.parameter is not None:
                by_parameter[v.buffer.parameter] = v
        # Writable parameters first: a donated one that became part of a buffer decides where it
        # goes.
        for number, view in enumerate(outputs):
            if view is None:
                continue
            buffer = view.value.buffer
            parameter = donation.get(number)
            if parameter is not None and parameter in by_parameter:
                self.unite(view.value, by_parameter[parameter])
                buffer = view.value.buffer
            owner = buffer.parameter
            if buffer.output is not None or (owner is not None and owner != parameter):
                self.conflicts.append(Conflict(ConflictKind.OUTPUT, None, number))
            elif buffer.read_only:
                self.conflicts.append(Conflict(ConflictKind.OUTPUT, None, number))
            else:
                buffer.output = number
        for number, parameter in donation.items():
            value = by_parameter.get(parameter)
            if value is not None and value.buffer.output != number:
                self.conflicts.append(Conflict(ConflictKind.DONATION, None, number))


def donations(module: HloModule) -> dict[int, int]:
    """Flat output leaf -> the flat entry parameter leaf whose memory it may take."""
    assert module.entry is not None and module.entry.root is not None
    if not module.aliases:
        return {}
    parameters = Shape.tuple([p.shape for p in module.entry.parameters])
    result = module.entry.root.shape
    return {
        result.leaf_number(a.output_index): parameters.leaf_number(
            (a.parameter, *a.parameter_index)
        )
        for a in module.aliases
    }


def invariant_carries(
    body: Computation, known: dict[Computation, set[int]] | None = None
) -> set[int]:
    """Flat carry numbers that a loop body hands on unchanged. `known`: the answers for loops inside
    it, as far as they have been found; otherwise a nest of loops would ask again at each level."""
    assert body.root is not None
    known = {} if known is None else known
    if body not in known:
        parameter, root = body.parameters[0], body.root
        count = root.shape.leaf_count
        known[body] = {i for i in range(count) if _parameter_leaf(root, i, parameter, known) == i}
    return known[body]


def _parameter_leaf(
    node: Instruction,
    leaf: int,
    parameter: Instruction,
    known: dict[Computation, set[int]],
) -> int | None:
    """The parameter leaf that `leaf` of `node` is a name for, or None if something computes it."""
    while True:
        opcode = node.opcode
        if node is parameter:
            return leaf
        if opcode is Opcode.TUPLE:
            starts = node.shape.leaf_starts
            member = bisect.bisect_right(starts, leaf) - 1
            node = node.operands[member]
            leaf -= starts[member]
        elif opcode is Opcode.GET_TUPLE_ELEMENT:
            operand = node.operands[0]
            leaf += operand.shape.leaf_starts[node.tuple_index]
            node = operand
        elif opcode is Opcode.WHILE:
            if leaf not in invariant_carries(node.called[1], known):
                return None
            node = node.operands[0]
        elif opcode is Opcode.OPT_BARRIER or opcode is Opcode.ADD_DEPENDENCY:
            node = node.operands[0]
        else:
            # A reshape names the same memory but is another type: the carry's shape would not
            # match, unless a second reshape undoes it, which algebraic simplification removes.
            return None


def conflicts_of(module: HloModule) -> list[Conflict]:
    """The copies that a scheduled module lacks. Who asks next need not look again, nor does
    `values_of`, if there are none, unless the module has changed meanwhile."""
    state = _state_of(module)
    known = module.analysis
    if isinstance(known, _Known):
        if known.state == state:
            return known.conflicts
        known.release()
    analysis = BufferValues(module)
    known = module.analysis = _Known(state, analysis.conflicts, analysis)
    if analysis.conflicts:
        known.release()
    return known.conflicts


def values_of(module: HloModule) -> BufferValues:
    """The analysis of a scheduled module, for one who may unite more values: the one that found no
    conflicts, unless the module has changed since."""
    known, module.analysis = module.analysis, None
    if isinstance(known, _Known):
        if not known.conflicts and known.state == _state_of(module):
            return known.analysis
        known.release()
    return BufferValues(module)


class _Known(NamedTuple):
    """What is known of a module that was in some state, and the analysis that found it: with
    conflicts it was released."""

    state: tuple[Any, ...]
    conflicts: list[Conflict]
    analysis: BufferValues

    def release(self) -> None:
        self.analysis.release()


def _state_of(module: HloModule) -> tuple[Any, ...]:
    """Another one behind each change of the graph."""
    return (module.aliases, *((c, c.root, c.edits) for c in module.computations))
