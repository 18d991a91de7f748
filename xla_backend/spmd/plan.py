"""What is settled before a module is partitioned: how each of its values is cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.emit import binary_computation
from xla_backend.spmd.annotations import Annotations, sharding_of
from xla_backend.spmd.custom import rule_of
from xla_backend.spmd.manual import (
    BARRIER,
    CONSTRAINT,
    GROUP,
    TO_PARTS,
    annotation,
    manual_axes,
)
from xla_backend.spmd.propagation import Given, propagate
from xla_backend.spmd.specs import PrimeMesh, Spec, common_prefix, whole
from xla_backend.spmd.values import ArrayValue, Values


class Partition(NamedTuple):
    """How the arrays of a program are cut that come in and go out: of each leaf a sharding on the
    first mesh that the module names."""

    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]


class Plan:
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
            if (
                node.opcode is Opcode.PARAMETER
                or kind
                or (node is not root and _acts(node, sharding))
            ):
                outside = node.opcode is Opcode.PARAMETER
                for value, own in self._given(node, sharding, outside):
                    given.setdefault(value, own)
        for parameter in module.entry.parameters:
            for value in self.values.of(parameter):
                if value.shape.is_array:
                    given.setdefault(value, _closed(value))
        # What comes out is cut as the root says, whatever is said of the same value elsewhere.
        asked = dict(self._given(root, said[root], True)) if root in said else {}
        last = [value for value in asked if value not in given]
        given.update((value, asked[value]) for value in last)
        one_way: list[tuple[ArrayValue, ArrayValue]] = []
        for computation in self.values.computations:
            for node in computation.instructions:
                kind = annotation(node)
                if kind in (CONSTRAINT, BARRIER):
                    operand, result = self.values.of(node.operands[0])[0], self.values.of(node)[0]
                    way = _direction(node) if kind == BARRIER else "BOTH"
                    if way == "BOTH":
                        self.values.links.append((operand, result))
                    elif way != "NONE":
                        one_way.append((operand, result) if way == "FORWARD" else (result, operand))
        self.values.links += self._alike(said)
        self.specs = propagate(self.values, self.mesh, given, self.manual, self._inferred, one_way)
        for parameter in module.entry.parameters:
            for value in self.values.of(parameter):
                if any(given[value].open if value in given else ()):
                    self.specs[value] = self._outside(value, given[value])
        self.results = self._results(root, said.get(root), given)
        for value, spec in zip(self.values.of(root), self.results):
            if value in last or value not in given:
                self.specs[value] = spec
        parameters = [v for p in module.entry.parameters for v in self.values.of(p)]
        self.partition = Partition(
            tuple(self.annotations.sharding(self.specs[value]) for value in parameters),
            tuple(map(self.annotations.sharding, self.results)),
        )
        self.channels = itertools.count(_last_channel(module) + 1)
        self.called: dict[Computation, Computation] = {}
        self.combinations: dict[tuple[Opcode, PrimitiveType], Computation] = {}
        self.new = HloModule(module.name)

    def _alike(
        self, said: Mapping[Instruction, Sharding]
    ) -> Iterator[tuple[ArrayValue, ArrayValue]]:
        """Pairs of values that are to be cut alike: they are of one group."""
        first: dict[object, ArrayValue] = {}
        members: list[tuple[object, ArrayValue]] = [
            (sharding.group[1], self.values.of(node)[0])
            for node, sharding in said.items()
            if sharding.group is not None and node.shape.is_array
        ]
        members += [
            (node.attributes.backend_config, self.values.of(node.operands[0])[0])
            for computation in self.values.computations
            for node in computation.instructions
            if annotation(node) == GROUP and isinstance(node.attributes, CustomCallAttributes)
        ]
        for number, value in members:
            if number in first:
                yield first[number], value
            first.setdefault(number, value)

    def _inferred(self, node: Instruction, operands: Sequence[Spec]) -> Sequence[Spec]:
        """What a call says of its results."""
        rule = rule_of(node)
        assert rule is not None
        arrays = [self.values.of(operand)[0] for operand in node.operands]
        found = rule.results_of(self.named(operands, arrays))
        return () if found is None else self.read(found, self.values.of(node))

    def named(self, specs: Sequence[Spec], values: Sequence[ArrayValue]) -> list[Sharding]:
        """Specs by the axes of the first mesh, as far as these spell them."""
        a = self.annotations
        found = [a.sharding(a.along_whole_axes(s, v.shape)) for s, v in zip(specs, values)]
        mesh = a.first_mesh
        if mesh is None:
            return found
        return [Sharding("mesh", mesh=mesh) if s.mesh is None else s for s in found]

    def read(self, shardings: Sequence[Sharding], values: Sequence[ArrayValue]) -> list[Spec]:
        """What a call says of its operands or results."""
        return [self.annotations.given(s, v.shape, True).spec for s, v in zip(shardings, values)]

    def _given(
        self, node: Instruction, sharding: Sharding, outside: bool
    ) -> Iterator[tuple[ArrayValue, Given]]:
        """What an instruction says of its arrays."""
        leaves = self.values.of(node)
        each = sharding.elements or (sharding,) * len(leaves)
        for value, own in zip(leaves, each):
            on_one = own.kind == "maximal" and node.opcode is not Opcode.PARAMETER
            if value.shape.is_array and own.kind != "manual" and not on_one:
                yield value, self.annotations.given(own, value.shape, outside)

    def _results(
        self, root: Instruction, said: Sharding | None, given: Mapping[ArrayValue, Given]
    ) -> list[Spec]:
        """How what comes out is cut: as the root says, and where it leaves that open as was found,
        along axes of the mesh, which those outside know."""
        leaves = self.values.of(root)
        each = (None,) * len(leaves) if said is None else said.elements or (said,) * len(leaves)
        found = []
        for value, own in zip(leaves, each):
            if not value.shape.is_array:
                found.append(whole(value.shape))
                continue
            if own is not None and own.kind in ("manual", "maximal"):
                own = None  # that all of it is somewhere is no wish of those outside
            least = given.get(value) if own is None else None
            if own is not None:
                least = self.annotations.given(own, value.shape, True)
            found.append(self._outside(value, least))
        return found

    def _outside(self, value: ArrayValue, least: Given | None) -> Spec:
        if least is not None and not any(least.open):
            return self.annotations.evenly(least.spec, value.shape)
        found = self.annotations.along_whole_axes(self.specs[value], value.shape)
        if least is None:
            return found
        kept = all(common_prefix(x, y) == y for x, y in zip(found.dims, least.spec.dims))
        return found if kept else self.annotations.evenly(least.spec, value.shape)

    def spec(self, value: ArrayValue) -> Spec:
        return self.specs[value]

    def local(self, value: ArrayValue) -> Shape:
        return (
            self.specs[value].local(value.shape, self.mesh) if value.shape.is_array else value.shape
        )

    def combination(self, opcode: Opcode, type: PrimitiveType) -> Computation:
        """A computation of two scalars, in the new module."""
        found = self.combinations.get((opcode, type))
        if found is None:
            found = self.new.add_computation(binary_computation(opcode, type))
            self.combinations[opcode, type] = found
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


def _acts(node: Instruction, sharding: Sharding) -> bool:
    """Whether what an ordinary instruction says of its array is for the partitioner. Where devices
    do something themselves it only marks that."""
    if not node.shape.is_array or node.opcode is Opcode.GET_TUPLE_ELEMENT:
        return False
    return sharding.kind not in ("manual", "unknown", "maximal") and not sharding.manual_axes


def _direction(node: Instruction) -> str:
    """What a barrier lets through."""
    assert isinstance(node.attributes, CustomCallAttributes)
    return node.attributes.backend_config


def _closed(value: ArrayValue) -> Given:
    return Given(whole(value.shape), (False,) * value.shape.rank)


def _last_channel(module: HloModule) -> int:
    channels = [
        getattr(node.attributes, "channel_id", None) or 0
        for computation in module.computations
        for node in computation.instructions
    ]
    return max(channels, default=0)
