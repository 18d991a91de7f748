"""The SPMD partitioner: from a program on whole arrays to the one that every device runs on its
parts.

Each instruction is done on parts along its factors, as far as its operands and its result are cut
along them. Operands are brought into that form first; sums of which devices have parts are
combined; the result gets the form that was propagated for it. What has no factors is computed as a
whole on every device. So every program can be partitioned; `factors` says which do it well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xla_backend.hlo.attributes import (
    Attributes,
    ConstantAttributes,
    CustomCallAttributes,
    DynamicSliceAttributes,
    GatherAttributes,
    GetTupleElementAttributes,
    IotaAttributes,
    SliceAttributes,
)
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.base import HloPass
from xla_backend.passes.emit import Emit
from xla_backend.spmd.annotations import Annotations, sharding_of
from xla_backend.spmd.exchange import PartBuilder
from xla_backend.spmd.factors import Factors, axes_by_factor, factors_of, spec_of_factors
from xla_backend.spmd.manual import (
    CONSTRAINT,
    TO_PARTS,
    annotation,
    inner_spec,
    manual_axes,
    outer_spec,
)
from xla_backend.spmd.once import done_once
from xla_backend.spmd.propagation import Given, before, choose, manual_of_results, propagate
from xla_backend.spmd.specs import Axes, PrimeMesh, Spec, common_prefix, whole
from xla_backend.spmd.values import ArrayValue, Values

# Every device would draw other numbers.
_ONCE = frozenset({Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE})
# Every device has a host's end of its own.
_OF_ONE_HOST = frozenset({Opcode.INFEED, Opcode.OUTFEED, Opcode.SEND, Opcode.RECV})


class SpmdPartitioner(HloPass):
    """A module for `num_partitions` devices, whose arrays are whole -> the program of each device.

    Parameters, the root and `Sharding` calls say how arrays are cut; for the others it is
    propagated. Parameters that say nothing are whole.

    Needs: no calls but those of control flow, no fusions.  Leaves: local shapes, collectives with
    channels, no sharding.
    """

    name = "spmd-partitioner"

    def run(self, module: HloModule) -> bool:
        return partition(module) is not None


class Partition(NamedTuple):
    """How the arrays of a program are cut that come in and go out: of each leaf a sharding on the
    first mesh that the module names."""

    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]


def partition(module: HloModule) -> Partition | None:
    """Make a module the program of each device; None: it is one already."""
    if not needs_partitioning(module):
        return None
    plan = _Plan(module)
    plan.rewrite()
    return plan.partition


def needs_partitioning(module: HloModule) -> bool:
    """Modules for several partitions that have no sharding are programs of a device already."""
    return module.num_partitions > 1 and any(
        "sharding" in (node.annotations or {})
        for c in module.computations
        for node in c.instructions
    )


class _Plan:
    """How the values of a module are cut, and the parts of the new one."""

    def __init__(self, module: HloModule) -> None:
        assert module.entry is not None and module.entry.root is not None
        self.module = module
        self.values = Values(module)
        said = {
            node: sharding
            for computation in self.values.computations
            for node in computation.instructions
            if (sharding := sharding_of(node)) is not None
        }
        self.annotations = Annotations(said.values(), module.num_partitions)
        self.mesh: PrimeMesh = self.annotations.mesh
        self.manual = manual_axes(self.values, self.annotations)
        given: dict[ArrayValue, Given] = {}
        root = module.entry.root
        for node, sharding in said.items():
            kind = annotation(node)
            if kind == TO_PARTS:
                continue  # that follows from how the operand is cut
            if node.opcode is not Opcode.PARAMETER and node is not root and not kind:
                continue
            leaves = self.values.of(node)
            each = sharding.elements or (sharding,) * len(leaves)
            for value, own in zip(leaves, each):
                if value.shape.is_array and own.kind != "manual":
                    given.setdefault(value, self.annotations.given(own, value.shape))
        for parameter in module.entry.parameters:
            for value in self.values.of(parameter):
                if value.shape.is_array:
                    given.setdefault(value, _closed(value))
        for computation in self.values.computations:
            for node in computation.instructions:
                if annotation(node) == CONSTRAINT:
                    operand, result = self.values.of(node.operands[0])[0], self.values.of(node)[0]
                    self.values.links.append((operand, result))
        self.specs = propagate(self.values, self.mesh, given, self.manual)
        ends = [v for p in module.entry.parameters for v in self.values.of(p)]
        parameters = len(ends)
        ends += self.values.of(root)
        for value in ends:
            if value not in given or any(given[value].open):
                self.specs[value] = self._in_axes_of_mesh(value, given.get(value))
        shardings = tuple(self.annotations.sharding(self.specs[value]) for value in ends)
        self.partition = Partition(shardings[:parameters], shardings[parameters:])
        self.channels = itertools.count(_last_channel(module) + 1)
        self.called: dict[Computation, Computation] = {}
        self.combinations: dict[tuple[Opcode, PrimitiveType], Computation] = {}
        self.new = HloModule(module.name)

    def _in_axes_of_mesh(self, value: ArrayValue, given: Given | None) -> Spec:
        """How a value is cut that comes in or goes out: those outside know the axes of the mesh."""
        found = self.annotations.along_whole_axes(self.specs[value])
        least = whole(value.shape) if given is None else given.spec
        kept = all(common_prefix(own, axes) == axes for own, axes in zip(found.dims, least.dims))
        return found if kept else least

    def spec(self, value: ArrayValue) -> Spec:
        return self.specs[value]

    def local(self, value: ArrayValue) -> Shape:
        return (
            self.specs[value].local(value.shape, self.mesh) if value.shape.is_array else value.shape
        )

    def rewrite(self) -> None:
        module = self.module
        assert module.entry is not None
        entry = _Writer(self, module.entry, f"{module.entry.name}_spmd").write_entry()
        self.new.add_computation(entry, entry=True)
        module.aliases = tuple(a for a in module.aliases if self._still_aliases(a))
        module.entry_layout = None
        module.computations = self.new.computations
        module.entry = entry
        module._names = self.new._names
        for computation in module.computations:
            computation.module = module

    def _still_aliases(self, alias: InputOutputAlias) -> bool:
        entry = self.module.entry
        assert entry is not None and entry.root is not None
        parameter = entry.parameters[alias.parameter]
        source = self.values.of(parameter)[parameter.shape.leaf_number(alias.parameter_index)]
        result = self.values.of(entry.root)[entry.root.shape.leaf_number(alias.output_index)]
        return self.local(source) == self.local(result)

    def combination(self, opcode: Opcode, type: PrimitiveType) -> Computation:
        """A computation of two scalars, in the new module."""
        found = self.combinations.get((opcode, type))
        if found is None:
            found = Computation(f"{opcode}_{type}")
            b = Emit.into(found)
            scalar = Shape.array(type)
            operands = [b.parameter(k, scalar, name) for k, name in enumerate("xy")]
            found.set_root(b.add(opcode, operands, shape=scalar))
            self.combinations[opcode, type] = self.new.add_computation(found)
        return found

    def clone_of(self, computation: Computation) -> Computation:
        """A computation that says what an operation means, in the new module."""
        found = self.called.get(computation)
        if found is None:
            found = computation.clone()
            for node in found:
                node.called = [self.clone_of(c) for c in node.called]
            self.called[computation] = self.new.add_computation(found)
        return found


def _closed(value: ArrayValue) -> Given:
    return Given(whole(value.shape), (False,) * value.shape.rank)


def _last_channel(module: HloModule) -> int:
    channels = [
        getattr(node.attributes, "channel_id", None) or 0
        for computation in module.computations
        for node in computation.instructions
    ]
    return max(channels, default=0)


@dataclass
class _Writer:
    """Writes one computation on parts."""

    plan: _Plan
    source: Computation
    name: str
    parts: dict[ArrayValue, Instruction] = field(default_factory=dict)
    forms: dict[tuple[ArrayValue, Spec], Instruction] = field(default_factory=dict)

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
        leaves = iter([self.parts[value] for value in self.plan.values.of(root)])
        self.computation.set_root(self._structured(root.shape, leaves))
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
        """Made once: who needs the same form later takes what was gathered."""
        found = self.forms.get((value, spec))
        if found is None:
            found = self.b.reshard(self.parts[value], self.plan.spec(value), spec)
            self.forms[value, spec] = found
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
            part = self.b.reshard(part, spec, self.plan.spec(value))
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
        axes = self._axes_of_effect(node)
        if axes:
            self._once(node, axes)
            return
        factors = factors_of(node)
        if factors is None or not self._on_parts(node, factors):
            self._on_wholes(node)

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
        inner = _Writer(plan, self.source, f"{node.name}_once")
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
        mappings = [*factors.operands, *factors.results]
        arrays = [*operands, *results]
        manual = manual_of_results(node, results, plan.manual)
        known = [
            before(axes_by_factor(plan.spec(v), m, factors.sizes, mesh), manual)
            for v, m in zip(arrays, mappings)
        ]
        chosen = choose(known, [value.shape.byte_size for value in arrays])
        _make_consistent(chosen, mappings, factors.sizes, mesh)
        specs = [spec_of_factors(chosen, m, factors.sizes, mesh) for m in mappings]
        given = [self._in_form(value, spec) for value, spec in zip(operands, specs)]
        made_specs = specs[len(operands) :]
        shapes = [s.local(v.shape, mesh) for v, s in zip(results, made_specs)]
        shape = Shape.tuple(shapes) if node.shape.is_tuple else shapes[0]
        attributes = local_attributes(node, given, shapes[0])
        made = self._made(node, given, shape, attributes)
        if node.opcode is Opcode.IOTA:
            made = self._counted_from_here(made, made_specs[0])
        partial = tuple(
            axis for factor in sorted(factors.reduced) for axis in chosen.get(factor, ())
        )
        for value, part, spec in zip(results, self._taken_apart(made), made_specs):
            if partial:
                assert factors.combiner is not None
                part, spec = self.b.combined(
                    part, spec, partial, plan.spec(value), factors.combiner
                )
            self._set(value, part, spec)
        return True

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

    def _counted_from_here(self, iota: Instruction, spec: Spec) -> Instruction:
        """An iota of a part begins at the part's position."""
        assert isinstance(iota.attributes, IotaAttributes)
        d = iota.attributes.dimension
        axes = spec.dims[d]
        if not axes:
            return iota
        start = self.b.position(axes, iota.shape.dimensions[d])
        start = self.b.convert(start, iota.shape.element_type)
        return self.b.binary(Opcode.ADD, iota, self.b.broadcast(start, iota.shape.dimensions, ()))

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
        condition, body = (_Writer(plan, c, c.name) for c in node.called)
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
            writer = _Writer(plan, branch, branch.name)
            writer.write_body(parameters, results)
            called.append(plan.new.add_computation(writer.computation))
        shape = Shape.tuple([plan.local(value) for value in results])
        made = Instruction(
            Opcode.CONDITIONAL, shape, operands, node.attributes, called, node.metadata, node.name,
            _without_sharding(node),
        )  # fmt: skip
        self.parts.update(zip(results, self._taken_apart(self.computation.add(made))))

    def _annotation(self, node: Instruction, kind: str) -> None:
        (value,), (operand,) = self.plan.values.of(node), self.plan.values.of(node.operands[0])
        if kind == CONSTRAINT:
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


def _make_consistent(
    chosen: dict[int, Axes],
    mappings: Sequence[Sequence[tuple[int, ...]]],
    sizes: tuple[int, ...],
    mesh: PrimeMesh,
) -> None:
    """Leave only those axes that every array with a factor can be cut along."""
    changed = True
    while changed:
        changed = False
        for mapping in mappings:
            spec = spec_of_factors(chosen, tuple(mapping), sizes, mesh)
            able = axes_by_factor(spec, tuple(mapping), sizes, mesh)
            for factor in {factor for factors in mapping for factor in factors}:
                own = chosen.get(factor, ())
                kept = common_prefix(own, able.get(factor, ()))
                if kept != own:
                    chosen[factor] = kept
                    changed = True


# -- attributes that name sizes --------------------------------------------------------------------


def local_attributes(
    node: Instruction, operands: Sequence[Instruction], result: Shape
) -> Attributes:
    """The attributes of an instruction on parts."""
    a = node.attributes
    if isinstance(a, SliceAttributes):
        limits = [
            part if limit == size else limit
            for limit, size, part in zip(
                a.limits, node.operands[0].shape.dimensions, operands[0].shape.dimensions
            )
        ]
        return SliceAttributes(a.starts, tuple(limits), a.strides)
    if isinstance(a, DynamicSliceAttributes):
        return DynamicSliceAttributes(result.dimensions)
    if isinstance(a, GatherAttributes):
        sizes = [
            part if size == full else size
            for size, full, part in zip(
                a.slice_sizes, node.operands[0].shape.dimensions, operands[0].shape.dimensions
            )
        ]
        return GatherAttributes(**{**vars(a), "slice_sizes": tuple(sizes)})
    return a


_WRITERS: dict[Opcode, Callable[[_Writer, Instruction], None]] = {
    Opcode.TUPLE: _Writer.names,
    Opcode.GET_TUPLE_ELEMENT: _Writer.names,
    Opcode.OPT_BARRIER: _Writer.barrier,
    Opcode.CONSTANT: _Writer.constant,
    Opcode.WHILE: _Writer.while_,
    Opcode.CONDITIONAL: _Writer.conditional,
}
