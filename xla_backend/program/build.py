"""From scheduled HLO and its buffers to a program.

Control flow, copies, collectives and kernels are the same for every target. What runs as a library
routine or on the host is the target's to say: its rules give the steps of single instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.attributes import FusionAttributes, FusionKind
from xla_backend.hlo.cost_analysis import known_trip_count
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.exchanges import COLLECTIVES, exchange_of
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import Topology
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.combiners import combiner
from xla_backend.kernels.from_hlo.lower import can_lower
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.passes.buffer_assignment import BufferAssignment, BufferKind
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.process.on_first_use import import_now
from xla_backend.program.ir import (
    PARTITION,
    REPLICA,
    Call,
    Collective,
    Copy,
    If,
    Launch,
    Program,
    Slice,
    Space,
    Step,
    Steps,
    While,
    aligned,
    launched_buffers,
)
from xla_backend.program.kernel_table import KernelTable, ScheduledKernel, computation_key

# Scratch of a kernel up to this size, such as the partial sums of blocks, is on the stack.
_STACK_BYTES = 1 << 11
_NOTHING_TO_DO = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.CONSTANT,
        Opcode.TUPLE,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.AFTER_ALL,
    }
)
_SAME_BYTES = frozenset(
    {Opcode.BITCAST, Opcode.RESHAPE, Opcode.COPY, Opcode.OPT_BARRIER, Opcode.ADD_DEPENDENCY}
)
# By value: an enum hashes the name of a member at each look-up.
_SPACES = {
    BufferKind.PARAMETER.value: Space.ARGUMENT,
    BufferKind.OUTPUT.value: Space.OUTPUT,
    BufferKind.TEMP.value: Space.TEMP,
    BufferKind.CONSTANT.value: Space.CONSTANT,
}

Rule = Callable[["ProgramBuilder", Instruction], Sequence[Step]]


@dataclass(frozen=True)
class Rules:
    """How a target runs what is not a plain kernel: by opcode, and fusions by their kind.
    `backend` is what messages call the target. `modules`: those that register the rules of opcodes
    and kinds of fusions when they are loaded, which is when a program has one."""

    backend: str
    opcodes: dict[Opcode, Rule] = field(default_factory=dict)
    fusions: dict[FusionKind, Rule] = field(default_factory=dict)
    modules: Mapping[Opcode | FusionKind, str] = field(default_factory=dict)

    def runs(self, *opcodes: Opcode) -> Callable[[Rule], Rule]:
        """Register the rule of some opcodes."""

        def register(rule: Rule) -> Rule:
            for opcode in opcodes:
                self.opcodes[opcode] = rule
            return rule

        return register

    def find(self, node: Instruction) -> Rule | None:
        opcode, attributes = node.opcode, node.attributes
        kind = attributes.kind if isinstance(attributes, FusionAttributes) else None
        module = self.modules.get(kind or opcode)
        if module is not None:
            import_now(module)
        return self.opcodes.get(opcode) if kind is None else self.fusions.get(kind)


def build_program(
    module: HloModule,
    assignment: BufferAssignment,
    rules: Rules,
    kernels: KernelTable,
    options: CompileOptions,
) -> Program:
    """The program of a scheduled module.

    Raises:
      UnimplementedError: an instruction is neither a kernel nor one that the rules know.
    """
    builder = ProgramBuilder(module, assignment, rules, kernels, options)
    entry = module.entry
    assert entry is not None and entry.root is not None
    steps = builder.steps(entry)
    return Program(
        name=module.name,
        parameters=tuple(s for p in entry.parameters for s in p.shape.flatten()),
        outputs=tuple(entry.root.shape.flatten()),
        steps=steps,
        kernels=kernels.kernels(),
        procedures=builder.procedures,
        aliases=dict(assignment.aliases),
        constants=(*assignment.constants, *builder.tables.values()),
        state=tuple(builder.initial_state),
        temp_size=assignment.temp_size,
        scratch_size=builder.scratch_size,
        stack=(_STACK_BYTES,) * builder.stack_pieces,
        topology=builder.topology,
    )


class ProgramBuilder:
    """What rules use: addresses of arrays, scratch memory, kernels."""

    def __init__(
        self,
        module: HloModule,
        assignment: BufferAssignment,
        rules: Rules,
        kernels: KernelTable,
        options: CompileOptions,
    ) -> None:
        self.module = module
        self.options = options
        self.topology = Topology(module.replica_count, module.num_partitions)
        self.assignment = assignment
        self.kernels = kernels
        self.procedures: dict[str, Steps] = {}
        self.initial_state: list[np.ndarray] = []
        self.tables: dict[Hashable, np.ndarray] = {}
        self.scratch_size = 0
        self.stack_pieces = 0
        self._rules = rules
        self._slices: dict[Instruction, list[Slice | None]] = {}
        self._state: dict[Hashable, Slice] = {}

    @property
    def backend(self) -> str:
        """What messages call the target."""
        return self._rules.backend

    # -- memory ------------------------------------------------------------------------------------

    def slice(self, node: Instruction, leaf: int = 0) -> Slice:
        """Where an array leaf of an instruction lies."""
        found = self.slices(node)[leaf]
        assert found is not None, f"{node!r} leaf {leaf} has no memory"
        return found

    def slices(self, node: Instruction) -> list[Slice | None]:
        """Where the leaves of an instruction lie; None for tokens."""
        found = self._slices.get(node)
        if found is None:
            places = zip(self.assignment.leaf_slices(node), node.shape.flatten())
            found = self._slices[node] = [
                None if p is None else Slice(_SPACES[p.kind._value_], p.index, p.offset, shape)
                for p, shape in places
            ]
        return found

    def scratch(self, shape: Shape, offset: int = 0) -> Slice:
        """Memory that one instruction has to itself, `offset` bytes behind its first."""
        self.scratch_size = max(self.scratch_size, offset + aligned(shape.byte_size))
        return Slice(Space.SCRATCH, 0, offset, shape)

    def state(self, key: Hashable, initial: np.ndarray) -> Slice:
        """What the program keeps under `key` from one execution to the next."""
        found = self._state.get(key)
        if found is None:
            found = Slice(Space.STATE, len(self._state), 0, Shape.of(initial))
            self._state[key] = found
            self.initial_state.append(initial)
        return found

    def table(self, key: Hashable, make: Callable[[], np.ndarray]) -> Slice:
        """A constant that steps read and the module does not have, the same for the same key."""
        if key not in self.tables:
            self.tables[key] = make()
        number = len(self.assignment.constants) + list(self.tables).index(key)
        return Slice(Space.CONSTANT, number, 0, Shape.of(self.tables[key]))

    # -- steps -------------------------------------------------------------------------------------

    def steps(self, computation: Computation) -> Steps:
        """The steps of a scheduled computation."""
        return tuple(
            step
            for node in computation
            if node.opcode not in _NOTHING_TO_DO
            for step in self._steps_of(node)
        )

    def _steps_of(self, node: Instruction) -> Sequence[Step]:
        opcode = node.opcode
        if opcode in _SAME_BYTES:
            return self._copies(node)
        rule = _SAME_FOR_ALL.get(opcode) or self._rules.find(node)
        if rule is not None:
            return rule(self, node)
        if can_lower(node):
            return self.launch(node)
        raise UnimplementedError(
            f"{node!r}: the {self.backend} cannot run {opcode}; rewrite it with supported "
            "operations"
        )

    def _copies(self, node: Instruction) -> list[Step]:
        """Move the bytes, unless source and result share memory."""
        sources, targets = self.slices(node.operands[0]), self.slices(node)
        return [
            Copy(node.name, 0.0, target, source)
            for source, target in zip(sources, targets)
            if source is not None and target is not None and _moves(source, target)
        ]

    def launch(
        self,
        node: Instruction,
        build: Callable[[str], Kernel] | None = None,
        variant: Hashable = None,
    ) -> list[Step]:
        """An instruction or fusion as a kernel of its own: the one that `build` makes (`variant`:
        what that depends on besides the instruction), or plain loops."""
        if not any(s.num_elements for s in node.shape.flatten()):
            return []
        scheduled = self.kernels.get(node, build, variant)
        kernel = scheduled.kernel
        steps: list[Step] = []
        for output, operand in kernel.in_place.items():
            source, target = self.slice(node.operands[operand]), self.slice(node, output)
            if _moves(source, target):
                steps.append(Copy(node.name, 0.0, target, source))

        def place(buffer: Buffer) -> Slice:
            if buffer.role is BufferRole.OPERAND:
                return self.slice(node.operands[buffer.number])
            return self.slice(node, buffer.number)

        steps.append(self.launch_kernel(node.name, scheduled, place))
        return steps

    def launch_kernel(
        self, name: str, scheduled: ScheduledKernel, place: Callable[[Buffer], Slice]
    ) -> Launch:
        """Run a kernel whose operands and outputs are where `place` says."""
        kernel = scheduled.kernel
        slices: dict[Buffer, Slice] = {}
        scratch = small = 0
        for buffer in launched_buffers(kernel):
            if buffer.role is not BufferRole.SCRATCH:
                slices[buffer] = place(buffer)
                continue
            shape = Shape.array(buffer.element_type, (buffer.size,))
            if shape.byte_size <= _STACK_BYTES:
                slices[buffer] = Slice(Space.STACK, small, 0, shape)
                small += 1
            else:
                slices[buffer] = self.scratch(shape, scratch)
                scratch += aligned(shape.byte_size)
        self.stack_pieces = max(self.stack_pieces, small)
        shared = _shared(kernel, slices)
        return Launch(name, scheduled.cycles, kernel.name, tuple(slices.values()), shared)


def _moves(source: Slice, target: Slice) -> bool:
    return not source.same_memory(target) and target.size > 0


def _shared(kernel: Kernel, slices: Mapping[Buffer, Slice]) -> tuple[tuple[int, int], ...]:
    """(output, operand) that buffer assignment gave one memory: it saw to it that each element is
    read before it is written."""
    operands = [(b, place) for b, place in slices.items() if b.role is BufferRole.OPERAND]
    shared: list[tuple[int, int]] = []
    for output, place in slices.items():
        if output.role is BufferRole.OUTPUT:
            for operand, other in operands:
                if place.same_memory(other) and place.size:
                    shared.append((output.number, operand.number))
    return tuple(shared)


# -- control flow ----------------------------------------------------------------------------------


def _while(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    condition, body = node.called
    steps = builder.steps(condition)
    assert condition.root is not None
    predicate = builder.slice(condition.root)
    trips = known_trip_count(node)
    return [While(node.name, 0.0, steps, predicate, builder.steps(body), trips)]


def _conditional(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    selector = builder.slice(node.operands[0])
    assert selector.shape.element_type in (PrimitiveType.PRED, PrimitiveType.S32)
    return [If(node.name, 0.0, selector, tuple(builder.steps(c) for c in node.called))]


def _call(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    computation = node.called[0]
    if computation.name not in builder.procedures:
        builder.procedures[computation.name] = builder.steps(computation)
    return [Call(node.name, 0.0, computation.name)]


# -- participants ----------------------------------------------------------------------------------


def _own_number(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    source = PARTITION if node.opcode is Opcode.PARTITION_ID else REPLICA
    return [Copy(node.name, 0.0, builder.slice(node), source)]


def _collective(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    exchange = exchange_of(node, builder.topology)
    operands = tuple(builder.slice(operand) for operand in node.operands)
    results = tuple(builder.slice(node, leaf) for leaf in range(len(node.shape.flatten())))
    combiners: tuple[str, ...] = ()
    if exchange.reduces:
        combiners = tuple(_combiner(builder, node, result.shape) for result in results)
    return [Collective(node.name, 0.0, exchange, operands, results, combiners)]


def _combiner(builder: ProgramBuilder, node: Instruction, shape: Shape) -> str:
    """The kernel that combines two arrays of a shape as a reduction does."""
    reducer = node.called[0]
    scheduled = builder.kernels.get_built(
        ("combine", computation_key(reducer), shape.element_type, shape.num_elements),
        f"{node.name}_combine",
        lambda name: combiner(reducer, shape, name),
        node,
    )
    return scheduled.kernel.name


_SAME_FOR_ALL: dict[Opcode, Rule] = {
    Opcode.WHILE: _while,
    Opcode.CONDITIONAL: _conditional,
    Opcode.CALL: _call,
    Opcode.PARTITION_ID: _own_number,
    Opcode.REPLICA_ID: _own_number,
    **dict.fromkeys(COLLECTIVES, _collective),
}
