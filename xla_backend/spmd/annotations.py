"""The shardings of a module, read as specs on one mesh of prime axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from xla_backend.hlo.device_lists import Axis, Iota, Mesh
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding, parse_sharding
from xla_backend.spmd.propagation import Given
from xla_backend.spmd.specs import Axes, PrimeMesh, Spec, prime_factors, whole


def sharding_of(node: Instruction) -> Sharding | None:
    """What an instruction says of itself."""
    text = (node.annotations or {}).get("sharding")
    return None if text is None else parse_sharding(text)


class Annotations:
    """Reads the shardings of one module.

    Attributes:
      mesh: that all of them are on.
    """

    def __init__(self, shardings: Iterable[Sharding], devices: int) -> None:
        flat = [leaf for sharding in shardings for leaf in (sharding.elements or (sharding,))]
        meshes = {leaf.mesh for leaf in flat if leaf.mesh is not None}
        if len(meshes) > 1:
            raise UnimplementedError(
                "shardings on several meshes cannot be partitioned together: "
                + "; ".join(sorted(map(str, meshes)))
            )
        self._named: dict[str, Axes] = {}
        if meshes:
            self.mesh = self._of_mesh(meshes.pop(), devices)
        else:
            self.mesh = self._of_tiles(flat, devices)

    def _of_mesh(self, mesh: Mesh, devices: int) -> PrimeMesh:
        sizes: list[int] = []
        names: list[str] = []
        for name, size in mesh.axes:
            factors = prime_factors(size)
            self._named[name] = tuple(range(len(sizes), len(sizes) + len(factors)))
            sizes += factors
            names += [name] if len(factors) == 1 else [f"{name}.{k}" for k in range(len(factors))]
        ids = mesh.ids().reshape(-1).tolist()
        if sorted(ids) != list(range(devices)):
            raise UnimplementedError(
                f"{mesh} is no arrangement of the {devices} participants of the module"
            )
        return PrimeMesh(tuple(sizes), tuple(ids), tuple(names))

    def _of_tiles(self, flat: Sequence[Sharding], devices: int) -> PrimeMesh:
        """Axes such that the dimensions of every arrangement `<=[2,4]` are lists of them."""
        cuts = {1, devices}  # sizes of what is behind an axis
        orders: set[tuple[int, ...]] = set()
        for sharding in flat:
            if sharding.kind != "tiled":
                continue
            if isinstance(sharding.devices, Iota):
                behind = 1
                for size in reversed(sharding.devices.dimensions):
                    behind *= size
                    cuts.add(behind)
            else:
                orders.add(tuple(sharding.devices))
        if len(orders) > 1 or (orders and len(cuts) > 2):
            raise UnimplementedError("shardings list devices in different orders; use one mesh")
        ordered = sorted(cuts, reverse=True)
        sizes: list[int] = []
        for larger, smaller in itertools.pairwise(ordered):
            if larger % smaller:
                raise UnimplementedError(
                    f"arrangements of {devices} devices with parts of {larger} and of {smaller} "
                    "cannot be partitioned together"
                )
            sizes += prime_factors(larger // smaller)
        ids = orders.pop() if orders else tuple(range(devices))
        return PrimeMesh(tuple(sizes), ids, tuple(f"x{k}" for k in range(len(sizes))))

    # -- one sharding ------------------------------------------------------------------------------

    def given(self, sharding: Sharding, shape: Shape) -> Given:
        """What is given for an array.

        Raises:
          UnimplementedError: it is cut in a way that no axes spell, or into parts that are not
            equal.
        """
        spec = self.spec(sharding, shape)
        if not spec.fits(shape, self.mesh):
            raise UnimplementedError(
                f"{shape} cannot be cut into equal parts as {sharding} says; pad it first"
            )
        is_open = sharding.open_dimensions or (sharding.kind == "unknown",) * shape.rank
        return Given(spec, tuple(is_open))

    def spec(self, sharding: Sharding, shape: Shape) -> Spec:
        """How it is cut."""
        if sharding.mesh is not None:
            if not sharding.dimensions:
                return whole(shape)
            dims = [sum(map(self._axes, axes), ()) for axes in sharding.dimensions]
            return Spec(tuple(dims))
        if sharding.kind == "tiled":
            return Spec(self._tiled(sharding, shape.rank))
        if sharding.kind in ("replicated", "maximal", "manual", "unknown"):
            return whole(shape)
        raise UnimplementedError(f"arrays that are {sharding.kind} cannot be partitioned")

    def _axes(self, axis: Axis) -> Axes:
        own = self._named[axis.name]
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
