"""The shardings of a module, read as specs on one mesh of prime axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from xla_backend.hlo.device_lists import Axis, Iota, Mesh
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding, parse_sharding
from xla_backend.spmd.propagation import Given
from xla_backend.spmd.specs import (
    Axes,
    PrimeMesh,
    Spec,
    common_prefix,
    fitting,
    prime_factors,
    whole,
)


def sharding_of(node: Instruction) -> Sharding | None:
    """What an instruction says of itself."""
    text = (node.annotations or {}).get("sharding")
    return None if text is None else parse_sharding(text)


class Annotations:
    """Reads the shardings of one module, and writes such.

    Attributes:
      mesh: that all of them are on: every axis that a sharding names is a list of its axes.
    """

    def __init__(self, shardings: Iterable[Sharding], devices: int) -> None:
        flat = [leaf for sharding in shardings for leaf in (sharding.elements or (sharding,))]
        self._meshes = [*dict.fromkeys(leaf.mesh for leaf in flat if leaf.mesh is not None)]
        cuts = {1, devices}  # sizes of what is behind an axis
        orders: set[tuple[int, ...]] = set()
        for mesh in self._meshes:
            cuts.update(_behind(mesh.sizes))
            orders.add(_order(mesh, devices))
        for sharding in flat:
            if sharding.kind != "tiled" or sharding.mesh is not None:
                continue
            if isinstance(sharding.devices, Iota):
                cuts.update(_behind(sharding.devices.dimensions))
            else:
                orders.add(tuple(sharding.devices))
        if len(orders) > 1 or (orders and not self._meshes and len(cuts) > 2):
            raise UnimplementedError("shardings list devices in different orders; use one mesh")
        sizes = _prime_sizes(cuts, devices)
        self._named: dict[tuple[Mesh, str], Axes] = {}
        for mesh in self._meshes:
            for (name, _), axes in zip(mesh.axes, _axes_of_sizes(mesh.sizes, sizes)):
                self._named[mesh, name] = axes
        ids = orders.pop() if orders else tuple(range(devices))
        self.mesh = PrimeMesh(tuple(sizes), ids, self._names(len(sizes)))

    @property
    def first_mesh(self) -> Mesh | None:
        """The first one that the module names."""
        return self._meshes[0] if self._meshes else None

    def _names(self, count: int) -> tuple[str, ...]:
        """Names of the axes, for texts: those of the first mesh."""
        if not self._meshes:
            return tuple(f"x{k}" for k in range(count))
        names = [""] * count
        for name, _ in self._meshes[0].axes:
            own = self._named[self._meshes[0], name]
            for k, a in enumerate(own):
                names[a] = name if len(own) == 1 else f"{name}.{k}"
        return tuple(names)

    # -- one sharding ------------------------------------------------------------------------------

    def given(self, sharding: Sharding, shape: Shape, outside: bool) -> Given:
        """What is given for an array; `outside`: parts of it come in or go out. Other arrays are
        cut as far as parts are not padding only.

        Raises:
          UnimplementedError: it is cut in a way that no axes spell, or comes or goes unreduced, or
            in parts that are not equal.
        """
        spec = self.spec(sharding, shape)
        if outside and sharding.unreduced_axes:
            raise UnimplementedError(
                f"arguments and results cannot be unreduced, as {sharding} says; reduce them first"
            )
        if outside and not spec.is_even(shape, self.mesh):
            raise UnimplementedError(
                f"{shape} cannot be cut into equal parts as {sharding} says; pad it first"
            )
        axes = [fitting(size, own, self.mesh) for size, own in zip(shape.dimensions, spec.dims)]
        spec = Spec(tuple(axes))
        is_open = sharding.open_dimensions or (sharding.kind == "unknown",) * shape.rank
        whole_along: frozenset[int] = frozenset()
        if sharding.mesh is not None:
            named = [self._axes(sharding.mesh, axis) for axis in sharding.replicated_axes]
            whole_along = frozenset(a for axes in named for a in axes)
        return Given(spec, tuple(is_open), sharding.priorities, whole_along)

    def spec(self, sharding: Sharding, shape: Shape) -> Spec:
        """How it is cut."""
        if sharding.mesh is not None:
            if not sharding.dimensions:
                return whole(shape)
            mesh = sharding.mesh
            dims = [sum((self._axes(mesh, a) for a in axes), ()) for axes in sharding.dimensions]
            return Spec(tuple(dims))
        if sharding.kind == "tiled":
            return Spec(self._tiled(sharding, shape.rank))
        if sharding.kind in ("replicated", "maximal", "manual", "unknown"):
            return whole(shape)
        raise UnimplementedError(f"arrays that are {sharding.kind} cannot be partitioned")

    def manual_axes(self, sharding: Sharding) -> frozenset[int]:
        """Those along which the program itself says what each device does."""
        if sharding.kind == "manual":
            return frozenset(range(len(self.mesh.sizes)))
        if sharding.mesh is not None:
            mesh = sharding.mesh
            return frozenset(a for axis in sharding.manual_axes for a in self._axes(mesh, axis))
        if sharding.subgroups[:1] == ("manual",):
            rank = len(sharding.tiles) - len(sharding.subgroups)
            return frozenset(self._tiled(sharding, rank + 1)[rank])
        return frozenset()

    def _axes(self, mesh: Mesh, axis: Axis) -> Axes:
        own = self._named[mesh, axis.name]
        if not axis.size:
            return own
        found: list[int] = []
        before = 1
        for a in own:
            if before >= axis.before and math.prod([self.mesh.sizes[f] for f in found]) < axis.size:
                found.append(a)
            before *= self.mesh.sizes[a]
        if math.prod([self.mesh.sizes[f] for f in found]) != axis.size:
            raise UnimplementedError(f"the part {axis} of an axis is not a list of prime factors")
        return tuple(found)

    def _tiled(self, sharding: Sharding, rank: int) -> tuple[Axes, ...]:
        """The axes that devices differ in along each dimension of the tiles."""
        mesh = self.mesh
        ids = sharding.devices
        listed = ids.ids() if isinstance(ids, Iota) else np.array(ids)
        place = np.empty(mesh.size, np.int64)
        place[np.array(mesh.devices)] = np.arange(mesh.size)
        grid = place[listed].reshape(sharding.tiles)
        steps = np.cumprod([1, *reversed(mesh.sizes)])[:-1][::-1].tolist()  # of one position
        dims: list[Axes] = []
        for d, count in enumerate(sharding.tiles[:rank]):
            axes: list[int] = []
            while math.prod([mesh.sizes[a] for a in axes]) < count:
                done = math.prod([mesh.sizes[a] for a in axes])
                axes.append(self._axis_of(grid, d, count // done, steps, sharding))
            dims.append(tuple(axes))
        if not self._spells(grid, dims, steps):
            raise UnimplementedError(f"no axes of the devices spell the sharding {sharding}")
        return tuple(dims)

    def _axis_of(
        self, grid: np.ndarray, d: int, block: int, steps: Sequence[int], sharding: Sharding
    ) -> int:
        """The axis that changes when the tile's number along a dimension grows by a block's part:
        that of the major position inside of `block` tiles."""
        first = grid[(0,) * grid.ndim]
        for a, step in enumerate(steps):
            inner = block // self.mesh.sizes[a] if block % self.mesh.sizes[a] == 0 else 0
            if inner:
                index = [0] * grid.ndim
                index[d] = inner
                if grid[tuple(index)] - first == step:
                    return a
        raise UnimplementedError(f"no axes of the devices spell the sharding {sharding}")

    def _spells(self, grid: np.ndarray, dims: Sequence[Axes], steps: Sequence[int]) -> bool:
        """Whether the tile of each device is where its positions along the axes say."""
        rank = len(dims)
        for index in np.ndindex(grid.shape):
            place = int(grid[index])
            for d in range(rank):
                number = 0
                for a in dims[d]:
                    number = number * self.mesh.sizes[a] + place // steps[a] % self.mesh.sizes[a]
                if number != index[d]:
                    return False
        return True

    # -- back --------------------------------------------------------------------------------------

    def evenly(self, spec: Spec, shape: Shape) -> Spec:
        """What of a spec cuts an array into parts without padding."""
        dims = []
        for size, axes in zip(shape.dimensions, spec.dims):
            while size % self.mesh.count(axes):
                axes = axes[:-1]
            dims.append(axes)
        return Spec(tuple(dims))

    def along_whole_axes(self, spec: Spec, shape: Shape) -> Spec:
        """What of a spec is cut along whole axes of the first mesh, where there is one, into parts
        without padding."""
        even = self.evenly(spec, shape)
        if not self._meshes:
            return even
        return Spec(tuple(sum(map(self._of_name, self._whole_names(d)), ()) for d in even.dims))

    def sharding(self, spec: Spec) -> Sharding:
        """A spec on the first mesh, with parts of its axes where it has only these; without meshes
        nothing is cut."""
        if not self._meshes or spec.is_whole:
            return Sharding("replicated")
        dims = tuple(tuple(self._spelled(d)) for d in spec.dims)
        is_open = (False,) * len(dims)
        return Sharding("mesh", mesh=self._meshes[0], dimensions=dims, open_dimensions=is_open)

    def _spelled(self, axes: Axes) -> Iterator[Axis]:
        """Axes of the first mesh, and parts of such, that a list is."""
        while axes:
            name, own = next(
                (name, own)
                for (mesh, name), own in self._named.items()
                if mesh is self._meshes[0] and axes[0] in own
            )
            first = own.index(axes[0])
            run = common_prefix(axes, own[first:])
            part = () if run == own else (self.mesh.count(own[:first]), self.mesh.count(run))
            yield Axis(name, *part)
            axes = axes[len(run) :]

    def _of_name(self, name: str) -> Axes:
        return self._named[self._meshes[0], name]

    def _whole_names(self, axes: Axes) -> list[str]:
        """The axes of the first mesh that a list begins with."""
        names: list[str] = []
        by_first = {own[0]: name for (mesh, name), own in self._named.items()
                    if mesh is self._meshes[0] and own}  # fmt: skip
        while axes:
            name = by_first.get(axes[0])
            own = () if name is None else self._of_name(name)
            if name is None or axes[: len(own)] != own:
                break
            names.append(name)
            axes = axes[len(own) :]
        return names


def _behind(sizes: Sequence[int]) -> Iterator[int]:
    """The numbers of positions from each axis of a grid on."""
    count = 1
    for size in reversed(sizes):
        count *= size
        yield count


def _order(mesh: Mesh, devices: int) -> tuple[int, ...]:
    ids = tuple(mesh.ids().reshape(-1).tolist())
    if sorted(ids) != list(range(devices)):
        raise UnimplementedError(
            f"{mesh} is no arrangement of the {devices} participants of the module"
        )
    return ids


def _prime_sizes(cuts: set[int], devices: int) -> list[int]:
    """The sizes of axes such that before each of these numbers of positions one ends."""
    sizes: list[int] = []
    for larger, smaller in itertools.pairwise(sorted(cuts, reverse=True)):
        if larger % smaller:
            raise UnimplementedError(
                f"arrangements of {devices} devices with parts of {larger} and of {smaller} "
                "cannot be partitioned together"
            )
        sizes += prime_factors(larger // smaller)
    return sizes


def _axes_of_sizes(sizes: Sequence[int], primes: Sequence[int]) -> Iterator[Axes]:
    """Which of the axes of prime sizes each axis of a mesh is."""
    number = 0
    for size in sizes:
        first = number
        while size > 1:
            size //= primes[number]
            number += 1
        yield tuple(range(first, number))
