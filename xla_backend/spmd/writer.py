"""Writes the program of one device: computations of parts, from those of whole arrays and how they
are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xla_backend.hlo.attributes import (
    Attributes,
    ConstantAttributes,
    CustomCallAttributes,
    GetTupleElementAttributes,
)
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.spmd.annotations import sharding_of
from xla_backend.spmd.custom import (
    PartitioningRule,
    inlinable,
    is_for_each_part,
    rule_of,
)
from xla_backend.spmd.exchange import PartBuilder
from xla_backend.spmd.factor_rules import factors_of
from xla_backend.spmd.factors import Factors, choose, make_consistent, take_strays, where_they_are
from xla_backend.spmd.local_forms import local_form
from xla_backend.spmd.manual import (
    BARRIER,
    CONSTRAINT,
    GROUP,
    TO_PARTS,
    annotation,
    inner_spec,
    outer_spec,
)
from xla_backend.spmd.on_parts import OnParts
from xla_backend.spmd.once import done_once
from xla_backend.spmd.plan import Plan
from xla_backend.spmd.propagation import manual_of_results
from xla_backend.spmd.specs import Axes, Spec, in_front_of, whole
from xla_backend.spmd.values import ArrayValue

# Every device would draw other numbers.
_ONCE = frozenset({Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE})
# Every device has a host's end of its own.
_OF_ONE_HOST = frozenset({Opcode.INFEED, Opcode.OUTFEED, Opcode.SEND, Opcode.RECV})


@dataclass
class Writer:
    """Writes one computation on parts."""

    plan: Plan
    source: Computation
    name: str
    parts: dict[ArrayValue, Instruction] = field(default_factory=dict)
    _forms: dict[tuple[ArrayValue, Spec], Instruction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plan = self.plan
        self.computation = Computation(self.name)
        self.b = PartBuilder(self.computation, plan.mesh, plan.channels, plan.combination)

    # -- computations ------------------------------------------------------------------------------

    def write_entry(self) -> Computation:
        """With the parameters of the source, and a root of its structure."""
        for parameter in self.source.parameters:
            self._parameter(parameter)
        self._write_all()
        root = self.source.root
        assert root is not None
        pairs = zip(self.plan.values.of(root), self.plan.results)
        leaves = [
            self._in_form(value, spec) if value.shape.is_array else self.parts[value]
            for value, spec in pairs
        ]
        self.computation.set_root(self._structured(root.shape, iter(leaves)))
        return self.computation

    def write_body(self, parameters: Sequence[ArrayValue], results: Sequence[ArrayValue]) -> None:
        """With one parameter, a flat tuple of these, and a root tuple with the results as they are
        cut."""
        shapes = [self.plan.local(value) for value in parameters]
        whole_tuple = self.b.parameter(0, Shape.tuple(shapes), "carried")
        for k, value in enumerate(parameters):
            self.parts[value] = self.b.gte(whole_tuple, k)
        self._write_all()
        root = self.source.root
        assert root is not None
        self.computation.set_root(self.b.tuple(self._as(self.plan.values.of(root), results)))

    def write_condition(self, parameters: Sequence[ArrayValue]) -> None:
        """As a body, with a scalar that all devices agree on."""
        self.write_body(parameters, ())
        assert self.source.root is not None and self.computation.root is not None
        empty = self.computation.root
        self.computation.set_root(self._whole(self.source.root))
        self.computation.remove(empty)

    def _parameter(self, node: Instruction) -> None:
        leaves = self.plan.values.of(node)
        shapes = iter([self.plan.local(value) for value in leaves])
        self.b.metadata = node.metadata
        parameter = self.b.parameter(node.parameter_number, _rebuilt(node.shape, shapes), node.name)
        for value, part in zip(leaves, self._taken_apart(parameter)):
            self.parts[value] = part

    def _taken_apart(self, x: Instruction) -> list[Instruction]:
        if not x.shape.is_tuple:
            return [x]
        members = [
            self.b.add(Opcode.GET_TUPLE_ELEMENT, (x,), GetTupleElementAttributes(k), shape=shape)
            for k, shape in enumerate(x.shape.tuple_shapes)
        ]
        return [leaf for member in members for leaf in self._taken_apart(member)]

    def _structured(self, shape: Shape, leaves: Iterator[Instruction]) -> Instruction:
        if not shape.is_tuple:
            return next(leaves)
        return self.b.tuple([self._structured(member, leaves) for member in shape.tuple_shapes])

    def _write_all(self) -> None:
        for node in self.source.post_order():
            if node.opcode is not Opcode.PARAMETER:
                self.b.metadata = node.metadata
                self._write(node)

    # -- forms -------------------------------------------------------------------------------------

    def _in_form(self, value: ArrayValue, spec: Spec) -> Instruction:
        """Its part by another spec: brought into that form once for all that want it."""
        found = self._forms.get((value, spec))
        if found is None:
            own = self.plan.spec(value)
            found = self.b.reshard(self.parts[value], value.shape, own, spec)
            self._forms[value, spec] = found
        return found

    def _as(
        self, sources: Sequence[ArrayValue], targets: Sequence[ArrayValue]
    ) -> list[Instruction]:
        """Values in the form of those that they become."""
        return [
            self._in_form(s, self.plan.spec(t)) if s.shape.is_array else self.parts[s]
            for s, t in zip(sources, targets)
        ]

    def _whole(self, node: Instruction) -> Instruction:
        (value,) = self.plan.values.of(node)
        return (
            self._in_form(value, whole(value.shape)) if value.shape.is_array else self.parts[value]
        )

    def _set(self, value: ArrayValue, part: Instruction, spec: Spec) -> None:
        """What was computed in some form, in its own."""
        if value.shape.is_array:
            part = self.b.reshard(part, value.shape, spec, self.plan.spec(value))
        self.parts[value] = part

    # -- instructions ------------------------------------------------------------------------------

    def _write(self, node: Instruction) -> None:
        written = _WRITERS.get(node.opcode)
        if written is not None:
            written(self, node)
            return
        kind = annotation(node)
        if kind:
            self._annotation(node, kind)
            return
        rule = rule_of(node)
        if rule is not None:
            self._by_rule(node, rule)
            return
        if is_for_each_part(node):
            sources = [v for operand in node.operands for v in self.plan.values.of(operand)]
            self._made(node, [self.parts[v] for v in sources], node.shape, node.attributes)
            return
        axes = self._axes_of_effect(node)
        if axes:
            self._once(node, axes)
            return
        factors = factors_of(node)
        if factors is None or not self._on_parts(node, factors):
            self._on_wholes(node)

    def _by_rule(self, node: Instruction, rule: PartitioningRule) -> None:
        """What the call says that a device does with its parts."""
        plan = self.plan
        operands = [plan.values.of(operand)[0] for operand in node.operands]
        results = plan.values.of(node)
        named = [plan.named([plan.spec(v) for v in vs], vs) for vs in (operands, results)]
        own = rule.partitioned(*named)
        given = [self._in_form(v, s) for v, s in zip(operands, plan.read(own.operands, operands))]
        specs = plan.read(own.results, results)
        done = plan.new.add_computation(inlinable(own.computation, node, plan.channels))
        assert done.root is not None
        parts = [s.local(v.shape, plan.mesh) for v, s in zip(results, specs)]
        for what, wanted, found in (
            ("operands", [x.shape for x in given], [x.shape for x in done.parameters]),
            ("results", parts, list(done.root.shape.tuple_shapes)),
        ):
            if [x.dimensions for x in wanted] != [x.dimensions for x in found]:
                raise UnimplementedError(
                    f"%{node.name}: parts of the {what} are {', '.join(map(str, wanted))} by their "
                    f"shardings, and {', '.join(map(str, found))} in the program of a device"
                )
        made = self.b.add(Opcode.CALL, given, called=(done,), shape=done.root.shape)
        for value, part, spec in zip(results, self._taken_apart(made), specs):
            self._set(value, part, spec)

    def _axes_of_effect(self, node: Instruction) -> Axes:
        """Along which axes it is to be done once, and not by each device for its part."""
        a, plan = node.attributes, self.plan
        effect = isinstance(a, CustomCallAttributes) and a.has_side_effect
        if not (effect or node.opcode in _ONCE or node.opcode in _OF_ONE_HOST):
            return ()
        values = [v for x in (node, *node.operands) for v in plan.values.of(x)]
        own = {axis for value in values for axis in plan.manual.get(value, ())}
        said = sharding_of(node)
        own |= frozenset() if said is None else plan.annotations.manual_axes(said)
        axes = tuple(a for a in range(len(plan.mesh.sizes)) if a not in own)
        if not axes:
            return ()
        if node.opcode in _OF_ONE_HOST or not all(value.shape.is_array for value in values):
            raise UnimplementedError(
                f"%{node.name} ({node.opcode}) would be done on each of the "
                f"{plan.module.num_partitions} devices; do it in a part that is manual "
                "(shard_map), or before"
            )
        return axes

    def _once(self, node: Instruction, axes: Axes) -> None:
        """The first device along axes does it, and the others get its results."""
        plan = self.plan
        sources = [v for operand in node.operands for v in plan.values.of(operand)]
        given = self.b.tuple([self._in_form(v, whole(v.shape)) for v in sources])
        inner = Writer(plan, self.source, f"{node.name}_once")
        inner.b.metadata = node.metadata
        leaves = iter(inner._taken_apart(inner.b.parameter(0, given.shape, "operands")))
        operands = [inner._structured(x.shape, leaves) for x in node.operands]
        made = inner._made(node, operands, node.shape, node.attributes)
        inner.computation.set_root(inner.b.tuple(inner._taken_apart(made)))
        parts = done_once(self.b, plan.new, given, inner.computation, axes)
        for value, part in zip(plan.values.of(node), parts):
            self._set(value, part, whole(value.shape))

    def _on_wholes(self, node: Instruction) -> None:
        """Every device computes all of it."""
        operands = [x for operand in node.operands for x in self._operand_wholes(operand)]
        made = self._made(node, operands, node.shape, node.attributes)
        for value, part in zip(self.plan.values.of(node), self._taken_apart(made)):
            self._set(value, part, whole(value.shape))

    def _operand_wholes(self, operand: Instruction) -> list[Instruction]:
        leaves = self.plan.values.of(operand)
        wholes = [
            self._in_form(v, whole(v.shape)) if v.shape.is_array else self.parts[v] for v in leaves
        ]
        return [self._structured(operand.shape, iter(wholes))]

    def _on_parts(self, node: Instruction, factors: Factors) -> bool:
        """Whether a device's parts are enough: then they are written."""
        plan, mesh = self.plan, self.plan.mesh
        operands = [plan.values.of(operand)[0] for operand in node.operands]
        results = plan.values.of(node)
        arrays = [*operands, *results]
        shapes = [value.shape for value in arrays]
        if not all(shape.num_elements for shape in shapes):
            return False
        manual = manual_of_results(node, results, plan.manual)
        own = [in_front_of(plan.spec(value), manual) for value in arrays]
        known = [factors.axes(k, spec, shapes[k], mesh) for k, spec in enumerate(own)]
        chosen = choose(factors, known, shapes)
        take_strays(chosen, factors, own, mesh)
        make_consistent(chosen, factors, shapes, mesh)
        specs = [factors.spec(k, chosen, shape, mesh) for k, shape in enumerate(shapes)]
        for k in range(len(operands)):
            specs[k] = where_they_are(specs[k], own[k], k, factors, chosen, shapes[k], mesh)
        form = OnParts(
            self.b, node, factors, chosen,
            [self._in_form(value, spec) for value, spec in zip(operands, specs)],
            specs[: len(operands)], specs[len(operands) :],
            lambda given, shape, attributes: self._made(node, given, shape, attributes),
            self._part_of,
        )  # fmt: skip
        made = local_form(form)
        partial = () if form.joined else form.partial()
        for value, part, spec in zip(results, self._taken_apart(made), form.results):
            if partial:
                assert factors.combiner is not None
                part, spec = self.b.combined(
                    part, value.shape, spec, partial, plan.spec(value), factors.combiner
                )
            self._set(value, part, spec)
        return True

    def _part_of(self, array: Instruction) -> tuple[Instruction, Spec]:
        (value,) = self.plan.values.of(array)
        return self.parts[value], self.plan.spec(value)

    def _made(
        self,
        node: Instruction,
        operands: Sequence[Instruction],
        shape: Shape,
        attributes: Attributes,
    ) -> Instruction:
        annotations = {k: v for k, v in (node.annotations or {}).items() if k != "sharding"}
        annotations.pop("control-predecessors", None)
        called = [self.plan.clone_of(c) for c in node.called]
        made = Instruction(
            node.opcode, shape, list(operands), attributes, called, node.metadata, node.name,
            annotations or None,
        )  # fmt: skip
        return self.computation.add(made)

    # -- instructions of their own -----------------------------------------------------------------

    def names(self, node: Instruction) -> None:
        """Tuples and their members: their leaves have parts already."""

    def barrier(self, node: Instruction) -> None:
        leaves = self.plan.values.of(node)
        parts = self.b.tuple([self.parts[value] for value in leaves])
        made = self.b.add(Opcode.OPT_BARRIER, (parts,), shape=parts.shape)
        self.parts.update(zip(leaves, self._taken_apart(made)))

    def constant(self, node: Instruction) -> None:
        (value,) = self.plan.values.of(node)
        if not value.shape.is_array:
            self._on_wholes(node)
            return
        spec, array = self.plan.spec(value), node.literal_array
        if spec.is_whole or any(array.strides):
            made = self._made(node, (), node.shape, node.attributes)
            self._set(value, made, whole(value.shape))
            return
        shape = spec.local(value.shape, self.plan.mesh)
        same = array[tuple(slice(0, size) for size in shape.dimensions)]
        attributes = ConstantAttributes(Literal(same, shape))
        self.parts[value] = self._made(node, (), shape, attributes)

    def while_(self, node: Instruction) -> None:
        plan = self.plan
        carried = plan.values.of(node)
        condition, body = (Writer(plan, c, c.name) for c in node.called)
        condition.write_condition(carried)
        body.write_body(carried, carried)
        start = self.b.tuple(self._as(plan.values.of(node.operands[0]), carried))
        called = [plan.new.add_computation(w.computation) for w in (condition, body)]
        made = Instruction(
            Opcode.WHILE, start.shape, [start], node.attributes, called, node.metadata, node.name,
            _without_sharding(node),
        )  # fmt: skip
        self.parts.update(zip(carried, self._taken_apart(self.computation.add(made))))

    def conditional(self, node: Instruction) -> None:
        plan = self.plan
        results = plan.values.of(node)
        operands = [self._whole(node.operands[0])]
        called = []
        for operand, branch in zip(node.operands[1:], node.called):
            parameters = plan.values.of(branch.parameters[0])
            operands.append(self.b.tuple(self._as(plan.values.of(operand), parameters)))
            writer = Writer(plan, branch, branch.name)
            writer.write_body(parameters, results)
            called.append(plan.new.add_computation(writer.computation))
        shape = Shape.tuple([plan.local(value) for value in results])
        made = Instruction(
            Opcode.CONDITIONAL, shape, operands, node.attributes, called, node.metadata, node.name,
            _without_sharding(node),
        )  # fmt: skip
        self.parts.update(zip(results, self._taken_apart(self.computation.add(made))))

    def _annotation(self, node: Instruction, kind: str) -> None:
        if kind == GROUP:
            return  # it has acted
        (value,), (operand,) = self.plan.values.of(node), self.plan.values.of(node.operands[0])
        if kind in (CONSTRAINT, BARRIER):
            self.parts[value] = self._in_form(operand, self.plan.spec(value))
            return
        # To parts, or back: along the manual axes nothing is done.
        mesh, shapes = self.plan.mesh, (operand.shape, value.shape)
        array, part = (operand, value) if kind == TO_PARTS else (value, operand)
        spec = self.plan.spec(array)
        if inner_spec(spec, array.shape, part.shape, mesh) is None:
            raise UnimplementedError(
                f"%{node.name} ({kind}): {shapes[0]} is not made {shapes[1]} by cutting it as "
                f"{spec.text(mesh)} says; write a `Sharding` that says how in front of it"
            )
        spec = outer_spec(spec, array.shape, part.shape, self.plan.spec(part), mesh)
        if kind == TO_PARTS:
            self.parts[value] = self._in_form(operand, spec)
        else:
            self._set(value, self.parts[operand], spec)


def _without_sharding(node: Instruction) -> dict[str, object] | None:
    return {k: v for k, v in (node.annotations or {}).items() if k != "sharding"} or None


def _rebuilt(shape: Shape, leaves: Iterator[Shape]) -> Shape:
    if not shape.is_tuple:
        return next(leaves)
    return Shape.tuple([_rebuilt(member, leaves) for member in shape.tuple_shapes])


_WRITERS: dict[Opcode, Callable[[Writer, Instruction], None]] = {
    Opcode.TUPLE: Writer.names,
    Opcode.GET_TUPLE_ELEMENT: Writer.names,
    Opcode.OPT_BARRIER: Writer.barrier,
    Opcode.CONSTANT: Writer.constant,
    Opcode.WHILE: Writer.while_,
    Opcode.CONDITIONAL: Writer.conditional,
}
