"""HLO instructions and computations: a computation is a named graph of instructions with parameters
and a root, and has the edits that passes make on it. An instruction is equal by identity; it knows
the computation it is in and those it calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    ConstantAttributes,
    GetTupleElementAttributes,
    ParameterAttributes,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.source_tables import SourceTables

CONTROL_FLOW = frozenset({Opcode.WHILE, Opcode.CONDITIONAL, Opcode.CALL})


MAIN_THREAD = "main"
_NUMERIC_SUFFIX = re.compile(r"\.\d+$")


class OpMetadata(NamedTuple):
    """Where an instruction came from: the framework's op path and the user's line.

    The line is given by `stack_frame_id`, a row of the module's source tables, or by itself;
    `source_places` (module.py) finds it either way.
    """

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    deduplicated_name: str = ""
    scheduling_name: str = ""
    stack_frame_id: int = 0


NO_METADATA = OpMetadata()


class Instruction:
    """One operation. `users` and `parent` are maintained by Computation; passes never assign to
    them.
    """

    __slots__ = (
        "annotations",
        "attributes",
        "called",
        "metadata",
        "name",
        "opcode",
        "operands",
        "parent",
        "shape",
        "users",
    )

    def __init__(
        self,
        opcode: Opcode,
        shape: Shape,
        operands: list[Instruction] | tuple[Instruction, ...] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        called: list[Computation] | tuple[Computation, ...] = (),
        metadata: OpMetadata = NO_METADATA,
        name: str = "",
        annotations: dict[str, Any] | None = None,
    ) -> None:
        self.opcode = opcode
        self.shape = shape
        self.operands: list[Instruction] = list(operands)
        self.attributes = attributes
        self.called: list[Computation] = list(called)
        self.metadata = metadata
        self.name = name
        # Attributes any opcode may carry (sharding, frontend_attributes, backend_config ...): the
        # text of the value by the name of the attribute, e.g. {"sharding": "{replicated}"}; None
        # when there are none. "control-predecessors" is a tuple of instructions instead.
        self.annotations = annotations
        self.users: dict[Instruction, None] = {}  # insertion-ordered set
        self.parent: Computation | None = None

    # -- typed short cuts used all over the compiler -------------------------------------------

    @property
    def parameter_number(self) -> int:
        assert isinstance(self.attributes, ParameterAttributes)
        return self.attributes.number

    @property
    def literal_array(self) -> np.ndarray:
        """Value of a constant (read-only)."""
        assert isinstance(self.attributes, ConstantAttributes)
        return self.attributes.literal.array

    @property
    def tuple_index(self) -> int:
        assert isinstance(self.attributes, GetTupleElementAttributes)
        return self.attributes.index

    @property
    def control_predecessors(self) -> tuple[Instruction, ...]:
        """Instructions that must run before this one though it does not use them."""
        if self.annotations is None:
            return ()
        found = self.annotations.get("control-predecessors", ())
        return tuple(node for node in found if node.parent is self.parent)

    @property
    def is_constant(self) -> bool:
        return self.opcode is Opcode.CONSTANT

    @property
    def is_decomposed_call(self) -> bool:
        """A call whose one computation takes its operands and gives its result, so that it can
        stand for the call."""
        if len(self.called) != 1:
            return False
        parameters, result = self.called[0].program_shape
        return (
            len(parameters) == len(self.operands)
            and all(p.compatible(o.shape) for p, o in zip(parameters, self.operands))
            and result.compatible(self.shape)
        )

    @property
    def is_root(self) -> bool:
        return self.parent is not None and self.parent.root is self

    def __repr__(self) -> str:
        operands = ", ".join("%" + o.name for o in self.operands)
        return f"%{self.name} = {self.shape} {self.opcode}({operands})"


class Module(Protocol):
    """What instructions and computations ask of the module that they are in."""

    is_scheduled: bool
    replica_count: int
    num_partitions: int
    computations: list[Computation]
    source_tables: SourceTables

    def add_computation(self, computation: Computation, *, entry: bool = False) -> Computation:
        """Take a computation (and, first, those it calls) into the module, with unique names."""

    def post_order(self) -> list[Computation]:
        """All computations, callees before callers."""


class Computation:
    """A function of HLO values. Instructions keep insertion order; operands always precede users in
    `post_order`.
    """

    def __init__(self, name: str, module: Module | None = None) -> None:
        self.name = name
        self.module = module
        self.parameters: list[Instruction] = []
        self.root: Instruction | None = None
        self.execution_thread = MAIN_THREAD
        self._instructions: dict[Instruction, None] = {}
        self._opcode_counts: dict[Opcode, int] = {}
        # Whether operands are known to come before users in the order of instructions. What is
        # added comes behind its operands, so that only edits of operands can make it untrue.
        self._known_ordered = True
        # How often its graph has been edited: what was found out about it holds as long as this.
        self.edits = 0
        self._next_id: dict[str, int] = {}
        self._names: set[str] = set()

    # -- reading ---------------------------------------------------------------------------------

    @property
    def instructions(self) -> list[Instruction]:
        """A snapshot in insertion order; after scheduling this is the execution order."""
        return list(self._instructions)

    def __len__(self) -> int:
        return len(self._instructions)

    @property
    def opcodes(self) -> Collection[Opcode]:
        """Those that its instructions have (not of the computations that they call)."""
        return self._opcode_counts.keys()

    def count_opcodes(self) -> None:
        """Count them anew: after somebody has given instructions other opcodes."""
        self._opcode_counts = dict(Counter([i.opcode for i in self._instructions]))

    def __contains__(self, instruction: Instruction) -> bool:
        return instruction in self._instructions

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def post_order(self, *opcodes: Opcode) -> list[Instruction]:
        """All instructions, operands before users (also those the root does not reach); only
        `opcodes` if given.

        The result is a snapshot: editing while iterating is safe, but skip instructions that have
        been removed meanwhile (`instruction.parent is None`).
        """
        if self.is_ordered():  # the usual case
            if opcodes:
                if self._opcode_counts.keys().isdisjoint(opcodes):
                    return []
                return [i for i in self._instructions if i.opcode in opcodes]
            return list(self._instructions)
        seen: set[Instruction] = set()
        order: list[Instruction] = []
        for start in self._instructions:
            if start in seen:
                continue
            for operand in start.operands:
                if operand not in seen:
                    break
            else:
                seen.add(start)
                order.append(start)
                continue
            stack: list[tuple[Instruction, int]] = [(start, 0)]
            seen.add(start)
            while stack:  # explicit stack: chains can be far longer than Python's recursion limit
                node, i = stack.pop()
                while i < len(node.operands):
                    operand = node.operands[i]
                    i += 1
                    if operand not in seen:
                        seen.add(operand)
                        stack.append((node, i))
                        stack.append((operand, 0))
                        break
                else:
                    order.append(node)
        if opcodes:
            return [i for i in order if i.opcode in opcodes]
        return order

    def is_ordered(self) -> bool:
        """Whether the order of instructions has operands before users."""
        if not self._known_ordered:
            seen: set[Instruction] = set()
            for node in self._instructions:
                if not seen.issuperset(node.operands):
                    return False
                seen.add(node)
            self._known_ordered = True
        return True

    @property
    def outputs(self) -> list[Instruction]:
        """What it hands out, in order: the members of a root tuple, or the root."""
        root = self.root
        assert root is not None
        return list(root.operands) if root.opcode is Opcode.TUPLE else [root]

    @property
    def program_shape(self) -> tuple[tuple[Shape, ...], Shape]:
        assert self.root is not None
        return tuple(p.shape for p in self.parameters), self.root.shape

    # -- editing ---------------------------------------------------------------------------------

    def unique_name(self, base: str) -> str:
        """`base` itself if free, else base with `.N` appended (an existing numeric suffix is
        replaced).
        """
        if base not in self._names:
            return base
        stem = _NUMERIC_SUFFIX.sub("", base) if "." in base else base
        n = self._next_id.get(stem, 1)
        while (name := f"{stem}.{n}") in self._names:
            n += 1
        self._next_id[stem] = n + 1
        return name

    def rename(self, new_name: Callable[[str], str]) -> None:
        """Give every instruction the name `new_name` makes of its own; they must differ."""
        for instruction in self._instructions:
            instruction.name = new_name(instruction.name)
        self._names = {instruction.name for instruction in self._instructions}

    def add(self, instruction: Instruction, name: str | None = None) -> Instruction:
        """Insert an instruction whose operands are already here; names it uniquely and registers it
        with its operands.
        """
        assert instruction.parent is None, f"{instruction} already belongs to a computation"
        instruction.name = self.unique_name(name or instruction.name or instruction.opcode._value_)
        self._names.add(instruction.name)
        instruction.parent = self
        self.edits += 1
        self._instructions[instruction] = None
        counts, opcode = self._opcode_counts, instruction.opcode
        counts[opcode] = counts.get(opcode, 0) + 1
        for operand in instruction.operands:
            assert operand.parent is self, (
                f"operand {operand} of {instruction} is not in %{self.name}"
            )
            operand.users[instruction] = None
        if opcode is Opcode.PARAMETER:
            number = instruction.parameter_number
            while len(self.parameters) <= number:
                self.parameters.append(instruction)
            self.parameters[number] = instruction
        return instruction

    def set_root(self, instruction: Instruction) -> None:
        assert instruction.parent is self
        self.root = instruction

    def replace(self, old: Instruction, new: Instruction) -> None:
        """Let every user of `old` (and the root) use `new`, then drop what became unused.

        `new` may be a node already in the computation or a fresh one, which is added and inherits
        `old`'s metadata if it has none.
        """
        if new.parent is None:
            if not new.metadata.op_name and not new.metadata.source_file:
                new.metadata = old.metadata
            self.add(new)
        self.replace_uses(old, new)
        self.remove_if_dead(old)

    def replace_uses(self, old: Instruction, new: Instruction) -> None:
        """As `replace`, but `old` stays, without users."""
        assert old is not new and new.parent is self
        self.edits += 1
        self._known_ordered = self._known_ordered and not old.users
        for user in list(old.users):
            if user is new:
                continue
            user.operands = [new if o is old else o for o in user.operands]
            new.users[user] = None
            del old.users[user]
        if self.root is old:
            self.root = new

    def replace_all_uses(self, replacements: Mapping[Instruction, Instruction]) -> None:
        """`replace_uses` for many at once: a user of a thousand of them is looked at once. None may
        be replaced by something that uses it."""
        if not replacements:
            return
        users: dict[Instruction, None] = {}
        self.edits += 1
        self._known_ordered = False
        for old, new in replacements.items():
            assert old is not new and new.parent is self
            users.update(old.users)
            new.users.update(old.users)
            old.users.clear()
        for user in users:
            user.operands = [replacements.get(o, o) for o in user.operands]
        if self.root is not None:
            self.root = replacements.get(self.root, self.root)

    def replace_operand(self, user: Instruction, index: int, new: Instruction) -> None:
        old = user.operands[index]
        assert new.parent is self
        self.edits += 1
        self._known_ordered = False
        user.operands[index] = new
        new.users[user] = None
        if old not in user.operands:
            del old.users[user]

    def set_operands(self, user: Instruction, operands: Iterable[Instruction]) -> None:
        """Give an instruction a new operand list; old operands stay even if now unused."""
        self.edits += 1
        self._known_ordered = False
        for old in user.operands:
            old.users.pop(user, None)
        user.operands = list(operands)
        for new in user.operands:
            assert new.parent is self
            new.users[user] = None

    def remove(self, instruction: Instruction) -> None:
        """Remove an instruction that nobody uses. Parameters of a computation can be removed only
        through `remove_parameter`."""
        assert not instruction.users, f"{instruction} still has users"
        assert instruction is not self.root, f"{instruction} is the root"
        for operand in instruction.operands:
            operand.users.pop(instruction, None)
        self._forget(instruction)
        instruction.parent = None

    def _forget(self, instruction: Instruction) -> None:
        self.edits += 1
        del self._instructions[instruction]
        self._names.discard(instruction.name)
        counts, opcode = self._opcode_counts, instruction.opcode
        left = counts.get(opcode, 0) - 1
        if left > 0:
            counts[opcode] = left
        else:
            counts.pop(opcode, None)  # it is not there if the instruction was given another one

    def remove_if_dead(self, instruction: Instruction) -> bool:
        """Remove the instruction and, transitively, operands that have no other user. True if
        anything went.
        """
        removed = False
        stack = [instruction]
        while stack:
            node = stack.pop()
            if (
                node.parent is not self
                or node.users
                or node is self.root
                or node.opcode is Opcode.PARAMETER
                or node.opcode.has_side_effect
                or getattr(node.attributes, "has_side_effect", False)
                or node.opcode in CONTROL_FLOW  # effects inside: left to dce
            ):
                continue
            operands = list(node.operands)
            self.remove(node)
            removed = True
            stack.extend(operands)
        return removed

    def remove_parameter(self, number: int) -> None:
        """Drop an unused parameter and renumber the later ones; callers must drop the matching
        operand.
        """
        parameter = self.parameters[number]
        assert not parameter.users and parameter is not self.root
        self._forget(parameter)
        parameter.parent = None
        del self.parameters[number]
        for i, later in enumerate(self.parameters[number:], number):
            later.attributes = ParameterAttributes(i)

    def reorder(self, order: list[Instruction]) -> None:
        """Set the instruction order (a schedule): a permutation, operands before users."""
        assert len(order) == len(self._instructions) and all(i in self._instructions for i in order)
        self._instructions = dict.fromkeys(order)
        self.edits += 1
        self._known_ordered = False

    def take_apart(self) -> None:
        """Let go of all instructions, and each of them of the others."""
        for node in self._instructions:
            node.parent = None
            node.operands, node.called = [], []
            node.users.clear()
            node.annotations = None
        self.edits += 1
        self.root = None
        self.parameters = []
        self._instructions = {}
        self._opcode_counts = {}

    def inline(
        self, callee: Computation, arguments: list[Instruction], caller: OpMetadata = NO_METADATA
    ) -> Instruction:
        """Copy `callee`'s body here with its parameters bound to `arguments`; returns the copy of
        its root.

        Args:
          caller: of the instruction that called it: the stack frames of what is copied go on there.
        """
        assert len(arguments) == len(callee.parameters)
        mapping: dict[Instruction, Instruction] = dict(zip(callee.parameters, arguments))
        called: dict[OpMetadata, OpMetadata] = {}
        for node in callee.post_order():
            if node.opcode is not Opcode.PARAMETER:
                copy = clone_instruction(node, [mapping[o] for o in node.operands])
                mapping[node] = self.add(copy)
                if caller is not NO_METADATA:
                    copy.metadata = self._called(node.metadata, caller, called)
        copy_control_predecessors(mapping)
        assert callee.root is not None
        return mapping[callee.root]

    def _called(
        self, metadata: OpMetadata, caller: OpMetadata, known: dict[OpMetadata, OpMetadata]
    ) -> OpMetadata:
        """The metadata of what stands in a function that `caller` called."""
        found = known.get(metadata)
        if found is None:
            inner, outer = metadata.stack_frame_id, caller.stack_frame_id
            if not inner and not metadata.source_file:
                found = caller
                if metadata.op_name:
                    op_type, op_name = metadata.op_type, metadata.op_name
                    found = caller._replace(op_type=op_type, op_name=op_name)
            elif inner and outer:
                assert self.module is not None  # which has the frames
                joined = self.module.source_tables.joined(inner, outer)
                found = metadata._replace(stack_frame_id=joined)
            else:
                found = metadata
            known[metadata] = found
        return found

    def clone(self, name: str | None = None) -> Computation:
        """A copy with the same called computations (those are shared, not cloned)."""
        copy = Computation(name or self.name)
        copy.execution_thread = self.execution_thread
        mapping: dict[Instruction, Instruction] = {}
        for node in self.post_order():
            mapping[node] = copy.add(clone_instruction(node, [mapping[o] for o in node.operands]))
        assert self.root is not None
        copy.root = mapping[self.root]
        copy_control_predecessors(mapping)
        return copy

    def __repr__(self) -> str:
        return f"Computation(%{self.name}, {len(self)} instructions)"


def copy_control_predecessors(mapping: dict[Instruction, Instruction]) -> None:
    """Let copies wait for the copies of what their originals waited for."""
    for original, copy in mapping.items():
        if original.opcode is Opcode.PARAMETER:
            continue  # an inlined one stands for an argument
        if original.annotations and "control-predecessors" in original.annotations:
            assert copy.annotations is not None
            copy.annotations["control-predecessors"] = tuple(
                mapping[p] for p in original.control_predecessors if p in mapping
            )


def clone_instruction(
    node: Instruction, operands: list[Instruction], shape: Shape | None = None
) -> Instruction:
    """A detached copy of `node` with other operands (and, if given, another shape)."""
    return Instruction(
        node.opcode,
        shape if shape is not None else node.shape,
        operands,
        node.attributes,
        node.called,
        node.metadata,
        node.name,
        dict(node.annotations) if node.annotations else None,
    )
