"""An instruction on a device's parts of its operands, while its local form is being made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xla_backend.hlo.attributes import Attributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import identity_of
from xla_backend.hlo.shape import Shape
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.spmd.combiners import joining
from xla_backend.spmd.exchange import PartBuilder
from xla_backend.spmd.factors import Factors
from xla_backend.spmd.halo import (
    Along,
    filled,
    masked,
    moved_elements,
    stretch,
    stretch_of_whole,
    without_padding,
)
from xla_backend.spmd.indexed_factors import is_small
from xla_backend.spmd.specs import Axes, Spec, part_size
from xla_backend.spmd.stretches import stretch_of


@dataclass
class OnParts:
    """What a local form is made of.

    Fields:
      b: writes what else it takes.
      node: the instruction on whole arrays.
      chosen: the axes of its factors.
      operands, specs: parts of the operands, and how these are cut; local forms change them.
      results: how the results are cut.
      write: the instruction itself, with other operands, of another shape and other attributes.
      part_of: the part of any array before the instruction, and how it is cut.
      joined: whether the local form has combined the parts of the reduced factors already.
    """

    b: PartBuilder
    node: Instruction
    factors: Factors
    chosen: Mapping[int, Axes]
    operands: list[Instruction]
    specs: list[Spec]
    results: list[Spec]
    write: Callable[[Sequence[Instruction], Shape, Attributes], Instruction]
    part_of: Callable[[Instruction], tuple[Instruction, Spec]]
    joined: bool = False

    @property
    def shape(self) -> Shape:
        """Of the result's part."""
        mesh = self.b.mesh
        if not self.node.shape.is_tuple:
            return self.results[0].local(self.node.shape, mesh)
        leaves = zip(self.results, self.node.shape.flatten())
        return Shape.tuple([spec.local(leaf, mesh) for spec, leaf in leaves])

    def written(self, attributes: Attributes | None = None) -> Instruction:
        """The instruction on the operands as they are."""
        a = self.node.attributes if attributes is None else attributes
        return self.write(self.operands, self.shape, a)

    def starts(self, axes: Axes, step: int, first: int = 0) -> list[int]:
        """`first`, and `step` more for each position along axes."""
        return [first + step * position for position in range(self.b.mesh.count(axes))]

    def set_cut(self, k: int, dimension: int, axes: Axes) -> None:
        """Cut a dimension of an operand otherwise."""
        target = self.specs[k].with_axes(dimension, axes)
        shape = self.node.operands[k].shape
        self.operands[k] = self.b.reshard(self.operands[k], shape, self.specs[k], target)
        self.specs[k] = target

    def bring(self, k: int, dimension: int, axes: Axes, starts: Sequence[int], length: int) -> None:
        """Make a dimension of an operand what the devices along axes need of it: elements
        [start, start + length)."""
        b, own = self.b, self.specs[k].dims[dimension]
        size = self.node.operands[k].shape.dimensions[dimension]
        along = Along(dimension, size, axes)
        if axes and self._bring_from_below(k, along, starts, length):
            return
        if own and not axes and is_small(length, size):
            self._find(k, dimension, starts[0], length)
        elif own and own == axes:
            self.operands[k] = stretch(b, self.operands[k], along, starts, length)
        else:
            self.set_cut(k, dimension, ())
            self.operands[k] = stretch_of_whole(b, self.operands[k], along, starts, length)

    def _bring_from_below(self, k: int, along: Along, starts: Sequence[int], length: int) -> bool:
        """Of an operand that is a stretch of another array, bring what that has, if it is cut as
        is needed and no more moves than from the parts of the operand."""
        d, axes = along.dimension, along.axes
        below = stretch_of(self.node.operands[k], d)
        if below is None:
            return False
        part = self.cut_as(below.source, self.specs[k].with_axes(d, axes))
        if part is None:
            return False
        size, begins = below.source.shape.dimensions[d], [start + below.start for start in starts]
        moved = moved_elements(part.shape.dimensions[d], size, begins, length)
        at_hand = along.size  # by everybody
        if self.specs[k].dims[d] == axes:
            own = self.operands[k].shape.dimensions[d]
            at_hand = moved_elements(own, along.size, starts, length)
        if moved > at_hand:
            return False
        self.operands[k] = stretch(self.b, part, Along(d, size, axes), begins, length)
        return True

    def cut_as(self, array: Instruction, spec: Spec) -> Instruction | None:
        """The part of an array before the instruction, if it is cut so."""
        part, own = self.part_of(array)
        return part if own == spec else None

    def _find(self, k: int, dimension: int, start: int, length: int) -> None:
        """A small stretch for everybody: the sum of what the devices have of it."""
        combiner = joining(self.node.operands[k].shape.element_type)
        if combiner is None:
            self.set_cut(k, dimension, ())
            along = Along(dimension, self.node.operands[k].shape.dimensions[dimension], ())
            self.operands[k] = stretch_of_whole(self.b, self.operands[k], along, (start,), length)
            return
        axes = self.specs[k].dims[dimension]
        self.find(k, dimension, self.b.table((), (start,)), length)
        self.operands[k] = self.b.all_reduce(self.operands[k], axes, combiner)

    def find(self, k: int, dimension: int, start: Instruction, length: int) -> None:
        """Make a dimension of an operand that is cut what this device has of [start, start +
        length), with the identity of sums in all other places."""
        b, x = self.b, self.operands[k]
        axes, part = self.specs[k].dims[dimension], x.shape.dimensions[dimension]
        size = self.node.operands[k].shape.dimensions[dimension]
        combiner = joining(x.shape.element_type)
        assert combiner is not None
        nothing = b.constant(identity_of(combiner, x.shape.element_type))
        here = b.minus(b.convert_index(start), b.position(axes, part))
        sizes = list(x.shape.dimensions)
        sizes[dimension] = length
        if length == 1:
            found = b.slice_at(x, {dimension: here}, sizes)
            inside = b.is_within(here, part)
            mask = b.broadcast(inside, (1,), ())
            self.operands[k] = masked(b, found, dimension, mask, nothing)
            return
        x = without_padding(b, x, Along(dimension, size, axes), nothing)
        x = b.pad(x, dimension, length, length, nothing)
        shifted = b.plus(here, length)
        self.operands[k] = b.slice_at(x, {dimension: shifted}, sizes)

    def fill_outside(
        self, k: int, dimension: int, axes: Axes, starts: Sequence[int], value: Instruction | None
    ) -> None:
        """Put a scalar where a stretch that was brought lies outside of the array."""
        size = self.node.operands[k].shape.dimensions[dimension]
        along = Along(dimension, size, axes)
        self.operands[k] = filled(self.b, self.operands[k], along, starts, value)

    def fill_padding(self, k: int, value: Instruction | None = None) -> None:
        """Put a scalar (zero) into the padding of the dimensions that are summed."""
        shape = self.node.operands[k].shape
        for d, (size, own) in enumerate(zip(shape.dimensions, self.factors.operands[k])):
            axes = self.specs[k].dims[d]
            if len(own) == 1 and own[0] in self.factors.reduced and axes:
                along = Along(d, size, axes)
                self.operands[k] = without_padding(self.b, self.operands[k], along, value)

    def partial(self) -> Axes:
        """The axes along which devices make parts of a sum."""
        return tuple(a for f in sorted(self.factors.reduced) for a in self.chosen.get(f, ()))

    def size(self, dimension: int, axes: Axes) -> int:
        """Of a part of the result."""
        return part_size(self.node.shape.flatten()[0].dimensions[dimension], axes, self.b.mesh)
