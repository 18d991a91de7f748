"""Changes of how an array is cut: collectives and slices, as instructions on parts.

  b = PartBuilder(computation, mesh, channels, combination)
  y = b.reshard(x, shape, source, target)       # x: the part of an array of `shape`

From one spec to another: axes that move from one dimension to another are an all-to-all, those that
go an all-gather, and those that come a slice, in this order: each exchanges what is there already,
and nothing is gathered that only moves.

Parts that are padded stay so while they are exchanged: what is joined has its padding at the end,
where it is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    CollectivePermuteAttributes,
    ComparisonDirection,
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
)
from xla_backend.hlo.instruction import NO_METADATA, Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.emit import Emit
from xla_backend.spmd.specs import Axes, PrimeMesh, Spec, common_prefix, nests, part_size


class PartBuilder(Emit):
    """Appends instructions on a device's parts to a computation.

    Attributes:
      metadata: of what it adds from now on.
      combination: makes a computation of two scalars.
    """

    def __init__(
        self,
        computation: Computation,
        mesh: PrimeMesh,
        channels: Iterator[int],
        combination: Callable[[Opcode, PrimitiveType], Computation],
    ) -> None:
        """`channels`: numbers of collectives."""
        self.computation = computation
        self.metadata = NO_METADATA
        self.mesh = mesh
        self._channels = channels
        self._tables: dict[tuple[Axes, tuple[int, ...]], Instruction] = {}
        self._device: Instruction | None = None
        self.combination = combination

    # -- numbers -----------------------------------------------------------------------------------

    def position(self, axes: Axes, step: int) -> Instruction:
        """An s32: `step` times the position of this device along axes."""
        return self.table(axes, [step * k for k in range(self.mesh.count(axes))])

    def table(self, axes: Axes, entries: Sequence[int]) -> Instruction:
        """An s32: of numbers, one for each position along axes, that of this device."""
        key = (axes, tuple(entries))
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = self._entry(axes, key[1])
        return found

    def _entry(self, axes: Axes, entries: tuple[int, ...]) -> Instruction:
        if len(set(entries)) == 1:
            return self.constant(np.int32(entries[0]))
        numbers = self.constant(np.array(entries, np.int32)[np.array(self.mesh.positions(axes))])
        if self._device is None:
            device = self.add(Opcode.PARTITION_ID, shape=Shape.array(PrimitiveType.U32))
            self._device = self.convert(device, PrimitiveType.S32)
        one = Shape.array(PrimitiveType.S32, (1,))
        attributes = DynamicSliceAttributes((1,))
        entry = self.add(Opcode.DYNAMIC_SLICE, (numbers, self._device), attributes, shape=one)
        return self.reshape(entry, ())

    def convert_index(self, x: Instruction) -> Instruction:
        """An index of any integer type as a signed one, that does not wrap around."""
        type = x.shape.element_type
        if type is PrimitiveType.U64:
            most = self.full(x.shape, np.iinfo(np.int64).max // 2)
            x = self.binary(Opcode.MINIMUM, x, most)
        wide = type in (PrimitiveType.U32, PrimitiveType.S64, PrimitiveType.U64)
        return self.convert(x, PrimitiveType.S64 if wide else PrimitiveType.S32)

    def minus(self, x: Instruction, y: Instruction) -> Instruction:
        """A scalar subtracted from indices."""
        y = self.convert(y, x.shape.element_type)
        return self.binary(Opcode.SUBTRACT, x, self.broadcast(y, x.shape.dimensions, ()))

    def plus(self, x: Instruction, number: int) -> Instruction:
        return self.binary(Opcode.ADD, x, self.full(x.shape, number))

    def clamped(self, x: Instruction, most: int) -> Instruction:
        """Indices within [0, most]."""
        x = self.binary(Opcode.MAXIMUM, x, self.full(x.shape, 0))
        return self.binary(Opcode.MINIMUM, x, self.full(x.shape, most))

    def is_within(self, x: Instruction, size: int) -> Instruction:
        """Whether indices are in [0, size)."""
        low = self.compare(x, self.full(x.shape, 0), ComparisonDirection.GE)
        high = self.compare(x, self.full(x.shape, size), ComparisonDirection.LT)
        return self.binary(Opcode.AND, low, high)

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

    def permute(self, x: Instruction, axes: Axes, pairs: Sequence[tuple[int, int]]) -> Instruction:
        """What the device at a pair's first position along axes has, on the one at its second."""
        named = [(row[s], row[t]) for row in self.mesh.groups(axes) for s, t in pairs]
        attributes = CollectivePermuteAttributes(tuple(named), next(self._channels))
        return self.add(Opcode.COLLECTIVE_PERMUTE, (x,), attributes, shape=x.shape)

    def all_reduce(self, x: Instruction, axes: Axes, combiner: Opcode) -> Instruction:
        """The parts of a sum (or of what else the operation makes) of the devices along axes,
        combined."""
        called = (self.combination(combiner, x.shape.element_type),)
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
        called = (self.combination(combiner, x.shape.element_type),)
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

    # -- sizes -------------------------------------------------------------------------------------

    def resized(self, x: Instruction, dimension: int, size: int) -> Instruction:
        """With elements cut off, or zeros put, at the end of a dimension."""
        dims = list(x.shape.dimensions)
        more = size - dims[dimension]
        if more == 0:
            return x
        if more < 0:
            dims[dimension] = size
            return self.slice(x, (0,) * len(dims), dims)
        return self.pad(x, dimension, 0, more)

    def pad(
        self,
        x: Instruction,
        dimension: int,
        low: int,
        high: int,
        value: Instruction | None = None,
        interior: int = 0,
    ) -> Instruction:
        """With copies of a scalar (zero) before, behind and between the elements."""
        dims, rank = list(x.shape.dimensions), x.shape.rank
        if (low, high, interior) == (0, 0, 0):
            return x
        dims[dimension] += low + high + interior * max(dims[dimension] - 1, 0)
        value = self.zero(x.shape.element_type) if value is None else value
        each = [tuple(n * (d == dimension) for d in range(rank)) for n in (low, high, interior)]
        shape = x.shape.with_dimensions(dims)
        return self.add(Opcode.PAD, (x, value), PadAttributes(*each), shape=shape)

    def zero(self, type: PrimitiveType) -> Instruction:
        return self.constant(np.zeros((), type.numpy_dtype))

    def reduce(
        self, x: Instruction, init: Instruction, dimension: int, combiner: Opcode
    ) -> Instruction:
        """Along one dimension."""
        kept = [size for d, size in enumerate(x.shape.dimensions) if d != dimension]
        called = (self.combination(combiner, x.shape.element_type),)
        attributes = DimensionsAttributes((dimension,))
        shape = x.shape.with_dimensions(kept)
        return self.add(Opcode.REDUCE, (x, init), attributes, called, shape)

    # -- slices ------------------------------------------------------------------------------------

    def slice_at(
        self, x: Instruction, starts: Mapping[int, Instruction], sizes: Sequence[int]
    ) -> Instruction:
        """A slice of these sizes, that begins where these dimensions say and at 0 in the others.
        Starts are of one type."""
        zero = self.zero(next(iter(starts.values())).shape.element_type)
        indices = [starts.get(d, zero) for d in range(len(sizes))]
        attributes = DynamicSliceAttributes(tuple(sizes))
        shape = x.shape.with_dimensions(sizes)
        return self.add(Opcode.DYNAMIC_SLICE, (x, *indices), attributes, shape=shape)

    def part(self, x: Instruction, axes_of: Sequence[Axes]) -> Instruction:
        """The part of this device of what it has, along these axes of each dimension."""
        if not any(axes_of):
            return x
        sizes = list(x.shape.dimensions)
        starts = {}
        for d, axes in enumerate(axes_of):
            if axes:
                sizes[d] = part_size(sizes[d], axes, self.mesh)
                x = self.resized(x, d, sizes[d] * self.mesh.count(axes))
                starts[d] = self.position(axes, sizes[d])
        return self.slice_at(x, starts, sizes)

    def reshard(self, x: Instruction, shape: Shape, source: Spec, target: Spec) -> Instruction:
        """The part that a device has of an array of a shape by another spec."""
        if source == target:
            return x
        whole, dims = shape.dimensions, list(source.dims)
        for joined, cut, axes in _moves(source, target):
            count = self.mesh.count(axes)
            kept, new = dims[joined][: -len(axes)], dims[cut] + axes
            if not (
                nests(whole[joined], dims[joined], len(kept), self.mesh)
                and nests(whole[cut], new, len(dims[cut]), self.mesh)
            ):
                break
            dims[joined], dims[cut] = kept, new
            x = self.resized(x, cut, part_size(whole[cut], new, self.mesh) * count)
            x = self.all_to_all(x, cut, joined, axes)
            x = self.resized(x, joined, part_size(whole[joined], kept, self.mesh))
        for d, (have, want) in enumerate(zip(dims, target.dims)):
            kept = self._kept(whole[d], have, want)
            if kept != have:
                x = self.all_gather(x, d, have[len(kept) :])
                x = self.resized(x, d, part_size(whole[d], kept, self.mesh))
                dims[d] = kept
        return self.part(x, [want[len(have) :] for have, want in zip(dims, target.dims)])

    def _kept(self, size: int, have: Axes, want: Axes) -> Axes:
        """The axes along which a dimension stays cut on the way: those in common, if parts along
        them are made of whole ones before and after."""
        kept = common_prefix(have, want)
        if have == want:
            return have
        nested = all(nests(size, axes, len(kept), self.mesh) for axes in (have, want))
        return kept if nested else ()

    def combined(
        self,
        x: Instruction,
        whole: Shape,
        source: Spec,
        partial: Axes,
        target: Spec,
        combiner: Opcode,
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
            size = whole.dimensions[d]
            if new and nests(size, have + tuple(new), len(have), self.mesh):
                part = part_size(x.shape.dimensions[d], tuple(new), self.mesh)
                x = self.resized(x, d, part * self.mesh.count(new))
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
