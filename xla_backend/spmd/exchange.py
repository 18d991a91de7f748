"""Changes of how an array is cut: collectives and slices, as instructions on parts.

  b = PartBuilder(computation, mesh, channels)
  y = b.reshard(x, shape, source, target)       # x: the part of an array of `shape`

From one spec to another: axes that move from one dimension to another are an all-to-all, those that
go an all-gather, and those that come a slice, in this order: each exchanges what is there already,
and nothing is gathered that only moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    ConstantAttributes,
    DynamicSliceAttributes,
)
from xla_backend.hlo.instruction import NO_METADATA, Computation, Instruction
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.emit import Emit
from xla_backend.spmd.specs import Axes, PrimeMesh, Spec, common_prefix


class PartBuilder(Emit):
    """Appends instructions on a device's parts to a computation.

    Attributes:
      metadata: of what it adds from now on.
    """

    def __init__(
        self,
        computation: Computation,
        mesh: PrimeMesh,
        channels: Iterator[int],
        combination: Callable[[Opcode, PrimitiveType], Computation],
    ) -> None:
        """`channels`: numbers of collectives. `combination`: a computation of two scalars."""
        self.computation = computation
        self.metadata = NO_METADATA
        self.mesh = mesh
        self._channels = channels
        self._positions: dict[tuple[Axes, int], Instruction] = {}
        self._combination = combination

    # -- numbers -----------------------------------------------------------------------------------

    def position(self, axes: Axes, step: int) -> Instruction:
        """An s32: `step` times the position of this device along axes."""
        found = self._positions.get((axes, step))
        if found is None:
            found = self._positions[axes, step] = self._position(axes, step)
        return found

    def _position(self, axes: Axes, step: int) -> Instruction:
        table = np.array(self.mesh.positions(axes), np.int32) * step
        literal = Literal(table)
        numbers = self.add(Opcode.CONSTANT, (), ConstantAttributes(literal), shape=literal.shape)
        device = self.add(Opcode.PARTITION_ID, shape=Shape.array(PrimitiveType.U32))
        index = self.convert(device, PrimitiveType.S32)
        entry = Shape.array(PrimitiveType.S32, (1,))
        attributes = DynamicSliceAttributes((1,))
        return self.reshape(
            self.add(Opcode.DYNAMIC_SLICE, (numbers, index), attributes, shape=entry), ()
        )

    # -- collectives -------------------------------------------------------------------------------

    def _attributes(self, axes: Axes, dimensions: tuple[int, ...] = ()) -> CollectiveAttributes:
        return CollectiveAttributes(
            self.mesh.groups(axes), next(self._channels), dimensions, use_global_device_ids=True
        )

    def all_gather(self, x: Instruction, dimension: int, axes: Axes) -> Instruction:
        """The parts of the devices along axes, joined."""
        dims = list(x.shape.dimensions)
        dims[dimension] *= self.mesh.count(axes)
        attributes = self._attributes(axes, (dimension,))
        return self.add(
            Opcode.ALL_GATHER, (x,), attributes, shape=x.shape.with_dimensions(tuple(dims))
        )

    def all_reduce(self, x: Instruction, axes: Axes, combiner: Opcode) -> Instruction:
        """The parts of a sum (or of what else the operation makes) of the devices along axes,
        combined."""
        called = (self._combination(combiner, x.shape.element_type),)
        return self.add(Opcode.ALL_REDUCE, (x,), self._attributes(axes), called, x.shape)

    def from_first(self, x: Instruction, axes: Axes) -> Instruction:
        """What the first device along axes has, on all of them."""
        return self.add(Opcode.COLLECTIVE_BROADCAST, (x,), self._attributes(axes), shape=x.shape)

    def reduce_scatter(
        self, x: Instruction, dimension: int, axes: Axes, combiner: Opcode
    ) -> Instruction:
        """Of what `all_reduce` gives, the part of this device."""
        dims = list(x.shape.dimensions)
        dims[dimension] //= self.mesh.count(axes)
        called = (self._combination(combiner, x.shape.element_type),)
        shape = x.shape.with_dimensions(tuple(dims))
        attributes = self._attributes(axes, (dimension,))
        return self.add(Opcode.REDUCE_SCATTER, (x,), attributes, called, shape)

    def all_to_all(self, x: Instruction, cut: int, joined: int, axes: Axes) -> Instruction:
        """Cut along one dimension, instead of another."""
        count = self.mesh.count(axes)
        dims = list(x.shape.dimensions)
        pieces = [*dims[:cut], count, dims[cut] // count, *dims[cut + 1 :]]
        order = [cut, *range(cut), *range(cut + 1, len(pieces))]
        x = self.transpose(self.reshape(x, pieces), order)
        x = self.add(Opcode.ALL_TO_ALL, (x,), self._attributes(axes, (0,)), shape=x.shape)
        # The sender's number, which is in front, goes before the dimension that is joined.
        back = [*range(1, joined + 1), 0, *range(joined + 1, x.shape.rank)]
        dims[cut] //= count
        dims[joined] *= count
        return self.reshape(self.transpose(x, back), dims)

    # -- slices ------------------------------------------------------------------------------------

    def part(self, x: Instruction, axes_of: Sequence[Axes]) -> Instruction:
        """The part of this device of what it has, along these axes of each dimension."""
        if not any(axes_of):
            return x
        zero = Literal(np.zeros((), np.int32))
        dims, starts = [], []
        for size, axes in zip(x.shape.dimensions, axes_of):
            size //= self.mesh.count(axes)
            dims.append(size)
            if axes:
                starts.append(self.position(axes, size))
            else:
                starts.append(
                    self.add(Opcode.CONSTANT, (), ConstantAttributes(zero), shape=zero.shape)
                )
        shape = x.shape.with_dimensions(tuple(dims))
        attributes = DynamicSliceAttributes(tuple(dims))
        return self.add(Opcode.DYNAMIC_SLICE, (x, *starts), attributes, shape=shape)

    def reshard(self, x: Instruction, source: Spec, target: Spec) -> Instruction:
        """The part that a device has of an array by another spec."""
        if source == target:
            return x
        dims = list(source.dims)
        for joined, cut, axes in _moves(source, target):
            x = self.all_to_all(x, cut, joined, axes)
            dims[joined] = dims[joined][: -len(axes)]
            dims[cut] += axes
        for d, (have, want) in enumerate(zip(dims, target.dims)):
            kept = common_prefix(have, want)
            gone = have[len(kept) :]
            if gone:
                x = self.all_gather(x, d, gone)
                dims[d] = kept
        return self.part(x, [want[len(have) :] for have, want in zip(dims, target.dims)])

    def combined(
        self, x: Instruction, source: Spec, partial: Axes, target: Spec, combiner: Opcode
    ) -> tuple[Instruction, Spec]:
        """Parts of a sum along the axes `partial`, combined, and how the result is cut: each device
        gets no more than `target` wants, where it can be."""
        left, dims = list(partial), list(source.dims)
        for d, (have, want) in enumerate(zip(source.dims, target.dims)):
            new: list[int] = []
            if want[: len(have)] == have:
                for axis in want[len(have) :]:
                    if axis not in left:
                        break
                    new.append(axis)
            count = self.mesh.count(new)
            if new and x.shape.dimensions[d] % count == 0:
                x = self.reduce_scatter(x, d, tuple(new), combiner)
                dims[d] += tuple(new)
                left = [axis for axis in left if axis not in new]
        if left:
            x = self.all_reduce(x, tuple(left), combiner)
        return x, Spec(tuple(dims))


def _moves(source: Spec, target: Spec) -> Iterator[tuple[int, int, Axes]]:
    """(dimension to join, dimension to cut, axes): minor axes of one dimension that are to be the
    next ones of another."""
    dims = list(source.dims)
    for cut, want in enumerate(target.dims):
        have = dims[cut]
        if want[: len(have)] != have:
            continue
        wanted = want[len(have) :]
        for joined, axes in enumerate(dims):
            if joined == cut:
                continue
            kept = len(common_prefix(axes, target.dims[joined]))
            for count in range(len(axes) - kept, 0, -1):
                if axes[-count:] == wanted[:count]:
                    yield joined, cut, axes[-count:]
                    dims[joined] = axes[:-count]
                    dims[cut] = have = have + axes[-count:]
                    wanted = wanted[count:]
                    break
