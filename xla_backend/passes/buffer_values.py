"""Which memory the values of a scheduled module may share.

A *value* is one array that an instruction defines; tuples, get-tuple-elements and reshapes only
name
it. Each value has live intervals on one time line that runs through nested computations. Values
that
must be one buffer (loop carries, branch results, in-place updates, donated parameters) are united
where their intervals allow it; where they do not, a Conflict says which copy would help. Copy
insertion acts on the conflicts; buffer assignment runs the same analysis and meets none.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.passes.buffer_sharing import SharingRules, in_place_operands
from xla_backend.passes.fusion_rules import FREE_ALIASES


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
    """`instruction` is the while, conditional or in-place instruction (None: the entry); `leaf`
    the carry,
    result, operand or output number; `branch` the conditional's branch."""

    kind: ConflictKind
    instruction: Instruction | None
    leaf: int
    branch: int = 0


Leaves = tuple[View | None, ...]


def leaf_count(shape: Shape) -> int:
    if not shape.is_tuple:
        return 1
    return sum(leaf_count(s) for s in shape.tuple_shapes)


def leaf_offset(shape: Shape, index: int) -> int:
    """Flat number of the first leaf of tuple element `index`."""
    return sum(leaf_count(s) for s in shape.tuple_shapes[:index])


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
        self._time = 0
        # (conflict to report, view, view) in the order in which they are to be united.
        self._demands: list[tuple[Conflict, View, View]] = []
        self._walk_entry(module.entry)
        for value in self.values:
            value.buffer.close()
        self._unite_demands()
        self._assign_outputs(module.entry)

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
                first = leaf_offset(operand.shape, node.tuple_index)
                leaves[node] = leaves[operand][first : first + leaf_count(node.shape)]
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
        invariant = invariant_carries(body)
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
        if invariant:
            self.values = [v for v in self.values if v.views]

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
        if len(x.values) < len(y.values):
            x, y = y, x
        x.intervals = sorted(x.intervals + y.intervals, key=lambda i: (i[0], i[1]))
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
        i = j = 0
        while i < len(x) and j < len(y):
            a, b = x[i], y[j]
            if a[1] < b[0]:
                i += 1
            elif b[1] < a[0]:
                j += 1
            elif a[1] == b[0] and self._may_write_over(b[2], a[2], b[0]):
                i += 1
            elif b[1] == a[0] and self._may_write_over(a[2], b[2], a[0]):
                j += 1
            else:
                return True
        return False

    def _may_write_over(self, new: Value, old: Value, time: int) -> bool:
        """At `time` the instruction that defines `new` reads `old` for the last time."""
        node = self._instruction_at.get(time)
        if node is None or new.instruction is not node:
            return False
        found = False
        for number, operand in enumerate(node.operands):
            for view in self.leaves[operand]:
                if view is not None and view.value is old:
                    found = True
                    if not self.rules.may_write_over(node, new.leaf, number):
                        return False
        return found

    # -- outputs -----------------------------------------------------------------------------------

    def _assign_outputs(self, entry: Computation) -> None:
        assert entry.root is not None
        outputs = self.leaves[entry.root]
        donation = donations(self.module)
        by_parameter = {
            v.buffer.parameter: v
            for v in self.values
            if v.instruction.opcode is Opcode.PARAMETER and v.buffer.parameter is not None
        }
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


def flat_leaf(shape: Shape, index: tuple[int, ...]) -> int:
    """Flat number of the leaf at a shape index."""
    flat = 0
    for i in index:
        flat += leaf_offset(shape, i)
        shape = shape.tuple_shapes[i]
    return flat


def donations(module: HloModule) -> dict[int, int]:
    """Flat output leaf -> the flat entry parameter leaf whose memory it may take."""
    assert module.entry is not None and module.entry.root is not None
    parameters, result = module.entry.parameters, module.entry.root.shape
    found: dict[int, int] = {}
    for a in module.aliases:
        before = sum(leaf_count(p.shape) for p in parameters[: a.parameter])
        inside = flat_leaf(parameters[a.parameter].shape, a.parameter_index)
        found[flat_leaf(result, a.output_index)] = before + inside
    return found


def invariant_carries(body: Computation) -> set[int]:
    """Flat carry numbers that a loop body hands on unchanged."""
    assert body.root is not None
    parameter = body.parameters[0]
    count = leaf_count(body.root.shape)
    memo: dict[tuple[Instruction, int], int | None] = {}
    return {i for i in range(count) if _parameter_leaf(body.root, i, parameter, memo) == i}


def _parameter_leaf(
    node: Instruction,
    leaf: int,
    parameter: Instruction,
    memo: dict[tuple[Instruction, int], int | None],
) -> int | None:
    """The parameter leaf that `leaf` of `node` is a name for, or None if something computes it."""
    while True:
        opcode = node.opcode
        if node is parameter:
            return leaf
        if opcode is Opcode.TUPLE:
            for operand in node.operands:
                count = leaf_count(operand.shape)
                if leaf < count:
                    node = operand
                    break
                leaf -= count
        elif opcode is Opcode.GET_TUPLE_ELEMENT:
            operand = node.operands[0]
            leaf += leaf_offset(operand.shape, node.tuple_index)
            node = operand
        elif opcode is Opcode.WHILE:
            if leaf not in invariant_carries(node.called[1]):
                return None
            node = node.operands[0]
        elif opcode is Opcode.OPT_BARRIER or opcode is Opcode.ADD_DEPENDENCY:
            node = node.operands[0]
        else:
            # A reshape names the same memory but is another type: the carry's shape would not
            # match,
            # unless a second reshape undoes it, which algebraic simplification removes.
            return None
