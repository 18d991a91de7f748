"""Meshes of devices, and how an array is cut along their axes, as propagation and the partitioner
see them.

A mesh here has axes of prime sizes: an axis of 4 devices is two of 2. So whatever part of an axis a
dimension can be cut along is a list of whole axes, and a reshape that splits a dimension splits the
list. An array's spec lists the axes of each dimension, major to minor: a dimension of size 12 along
axes of sizes 2 and 3 is six blocks of 2, and the device at (i, j) has block 3 i + j.

Parts have equal shapes. Where a size does not divide, the last part is padded: a dimension of size
11 in four has parts of 3, and nobody may look at the twelfth element, which is anything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from xla_backend.hlo.attributes import Value
from xla_backend.hlo.shape import Shape
from xla_backend.process.bounded_cache import BoundedCache, Budget

Axes = tuple[int, ...]  # numbers of axes of a mesh
Groups = tuple[tuple[int, ...], ...]


def prime_factors(n: int) -> list[int]:
    """Ascending, with repetitions."""
    factors, divisor = [], 2
    while divisor * divisor <= n:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return [*factors, n] if n > 1 else factors


class PrimeMesh(Value):
    """Devices in a grid.

    Fields:
      sizes: of the axes, all prime.
      devices: numbers of participants, row by row.
      names: of the axes, for texts.
    """

    sizes: tuple[int, ...]
    devices: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.devices)

    def count(self, axes: Iterable[int]) -> int:
        """How many positions there are along some axes."""
        return math.prod([self.sizes[a] for a in axes])

    def groups(self, axes: Sequence[int]) -> Groups:
        """The devices that differ in their positions along these axes only, in the order of these,
        for each position along the others."""
        return _groups.make((self, tuple(axes)), lambda: self._groups(axes))

    def _groups(self, axes: Sequence[int]) -> Groups:
        grid = np.array(self.devices).reshape(self.sizes)
        others = [a for a in range(len(self.sizes)) if a not in axes]
        rows = grid.transpose([*others, *axes]).reshape(-1, self.count(axes))
        return tuple(tuple(row) for row in rows.tolist())

    def positions(self, axes: Sequence[int]) -> tuple[int, ...]:
        """The position of each device, by its number, along these axes together."""
        found = np.zeros(self.size, np.int64)
        found[np.array(self.devices)] = self._along(axes).reshape(-1)
        return tuple(found.tolist())

    def _along(self, axes: Sequence[int]) -> np.ndarray:
        position = np.zeros(self.sizes, np.int64)
        for a in axes:
            shape = [1] * len(self.sizes)
            shape[a] = self.sizes[a]
            position = position * self.sizes[a] + np.arange(self.sizes[a]).reshape(shape)
        return position


# Programs ask for a few, at each of their collectives; there may be thousands of devices.
_groups: BoundedCache[tuple[PrimeMesh, Axes], Groups] = BoundedCache(
    Budget("groups of devices", entries=64)
)


class Spec(Value):
    """Along which axes each dimension of an array is cut; along the others it is repeated."""

    dims: tuple[Axes, ...]

    @property
    def axes(self) -> frozenset[int]:
        return frozenset(a for dim in self.dims for a in dim)

    @property
    def is_whole(self) -> bool:
        """Whether every device has all of it."""
        return not any(self.dims)

    def local(self, shape: Shape, mesh: PrimeMesh) -> Shape:
        """The shape of a device's part."""
        if self.is_whole:
            return shape
        parts = [part_size(size, axes, mesh) for size, axes in zip(shape.dimensions, self.dims)]
        return shape.with_dimensions(tuple(parts))

    def is_even(self, shape: Shape, mesh: PrimeMesh) -> bool:
        """Whether no part is padded."""
        return all(d % mesh.count(axes) == 0 for d, axes in zip(shape.dimensions, self.dims))

    def with_axes(self, dimension: int, axes: Axes) -> Spec:
        """With a dimension cut along other axes."""
        return Spec((*self.dims[:dimension], axes, *self.dims[dimension + 1 :]))

    def text(self, mesh: PrimeMesh) -> str:
        """`[a.0 a.1, -]`."""
        return "[" + ", ".join(" ".join(mesh.names[a] for a in d) or "-" for d in self.dims) + "]"


def whole(shape: Shape) -> Spec:
    """Every device has all of an array."""
    return Spec(((),) * shape.rank)


def part_size(size: int, axes: Axes, mesh: PrimeMesh) -> int:
    """The size of a part of a dimension, with its padding."""
    return -(-size // mesh.count(axes))


def fitting(size: int, axes: Axes, mesh: PrimeMesh) -> Axes:
    """The major axes that a dimension can be cut along, such that no part is padding only."""
    for count in range(len(axes), 0, -1):
        kept = axes[:count]
        parts = mesh.count(kept)
        if size % parts == 0 or part_size(size, kept, mesh) * (parts - 1) < size:
            return kept
    return ()


def nests(size: int, axes: Axes, count: int, mesh: PrimeMesh) -> bool:
    """Whether parts along the first `count` axes are made of whole parts along all of them."""
    rest = mesh.count(axes[count:])
    return not count or part_size(size, axes[:count], mesh) == rest * part_size(size, axes, mesh)


def in_front_of(spec: Spec, excluded: Collection[int]) -> Spec:
    """The axes of each dimension in front of the first excluded one."""
    if spec.axes.isdisjoint(excluded):
        return spec
    dims = []
    for axes in spec.dims:
        while not set(axes).isdisjoint(excluded):
            axes = axes[:-1]
        dims.append(axes)
    return Spec(tuple(dims))


def common_prefix(first: Axes, second: Axes) -> Axes:
    """The major axes that two lists share."""
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return first[:count]
