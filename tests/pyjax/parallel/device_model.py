"""What programs over a mesh compute, in NumPy: a value is one array for each device, and
collectives loop over devices. The oracle of shard_map.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Place = tuple[int, ...]


class PerDevice:
    """One array for each device; operators work device by device."""

    __array_ufunc__ = None

    def __init__(self, world: World, parts: dict[Place, np.ndarray]) -> None:
        self.world = world
        self.parts = parts

    def map(self, f: Callable[..., Any], *others: Any) -> PerDevice:
        def at(x: Any, place: Place) -> Any:
            return x.parts[place] if isinstance(x, PerDevice) else x

        return PerDevice(
            self.world,
            {p: np.asarray(f(x, *(at(o, p) for o in others))) for p, x in self.parts.items()},
        )

    def __add__(self, other: Any) -> PerDevice:
        return self.map(np.add, other)

    def __mul__(self, other: Any) -> PerDevice:
        return self.map(np.multiply, other)

    def __sub__(self, other: Any) -> PerDevice:
        return self.map(np.subtract, other)

    def __getitem__(self, index: Any) -> PerDevice:
        return self.map(lambda x: x[index])

    __radd__, __rmul__ = __add__, __mul__

    def sum(self) -> PerDevice:
        return self.map(np.sum)

    def reshape(self, *shape: int) -> PerDevice:
        return self.map(lambda x: x.reshape(shape))


class World:
    """A mesh, and the functions that programs call: those of `lax` and `numpy` that they use."""

    def __init__(self, axes: dict[str, int]) -> None:
        self.axes = axes
        self.places = list(itertools.product(*(range(n) for n in axes.values())))

    # -- arrays and blocks ------------------------------------------------------------------------

    def blocks(self, x: np.ndarray, spec: Sequence[Any]) -> PerDevice:
        return PerDevice(self, {p: x[self._index(p, spec, x.shape)] for p in self.places})

    def whole(self, value: PerDevice, spec: Sequence[Any]) -> np.ndarray:
        block = value.parts[self.places[0]]
        shape = [
            n * math.prod(self.axes[name] for name in _names(e))
            for n, e in itertools.zip_longest(block.shape, spec, fillvalue=())
        ]
        result = np.empty(shape, block.dtype)
        for place in reversed(self.places):  # where all should have the same, the first wins
            result[self._index(place, spec, shape)] = value.parts[place]
        return result

    def _index(self, place: Place, spec: Sequence[Any], shape: Sequence[int]) -> tuple[Any, ...]:
        index = []
        for n, entry in zip(shape, spec):
            names = _names(entry)
            part = n // math.prod(self.axes[name] for name in names)
            start = part * self._number(place, names)
            index.append(slice(start, start + part))
        return tuple(index)

    def _number(self, place: Place, names: Sequence[str]) -> int:
        at = dict(zip(self.axes, place))
        number = 0
        for name in names:
            number = number * self.axes[name] + at[name]
        return number

    # -- collectives ------------------------------------------------------------------------------

    def _members(self, place: Place, names: Sequence[str]) -> list[Place]:
        """The devices that differ from this one along these axes only, in order."""
        others = [i for i, name in enumerate(self.axes) if name not in names]
        group = [p for p in self.places if all(p[i] == place[i] for i in others)]
        return sorted(group, key=lambda p: self._number(p, names))

    def _collective(
        self, x: PerDevice, axes: Any, f: Callable[[list[np.ndarray], int], Any]
    ) -> PerDevice:
        names = _names(axes)
        found = {}
        for place in self.places:
            group = self._members(place, names)
            values = [x.parts[p] for p in group]
            found[place] = np.asarray(f(values, group.index(place)))
        return PerDevice(self, found)

    def psum(self, x: PerDevice, axes: Any) -> PerDevice:
        return self._collective(x, axes, lambda group, _: sum(group))

    def pmean(self, x: PerDevice, axes: Any) -> PerDevice:
        return self._collective(x, axes, lambda group, _: sum(group) / len(group))

    def pmax(self, x: PerDevice, axes: Any) -> PerDevice:
        return self._collective(x, axes, lambda group, _: np.max(group, axis=0))

    def pmin(self, x: PerDevice, axes: Any) -> PerDevice:
        return self._collective(x, axes, lambda group, _: np.min(group, axis=0))

    def all_gather(
        self, x: PerDevice, axes: Any, axis: int = 0, tiled: bool = False, to: str = "varying"
    ) -> PerDevice:
        join = np.concatenate if tiled else np.stack
        return self._collective(x, axes, lambda group, _: join(group, axis))

    def psum_scatter(
        self, x: PerDevice, axes: Any, scatter_dimension: int = 0, tiled: bool = False
    ) -> PerDevice:
        def mine(group: list[np.ndarray], i: int) -> np.ndarray:
            part = np.split(sum(group), len(group), scatter_dimension)[i]
            return part if tiled else part.squeeze(scatter_dimension)

        return self._collective(x, axes, mine)

    def ppermute(self, x: PerDevice, axis: Any, perm: Sequence[tuple[int, int]]) -> PerDevice:
        sources = {target: source for source, target in perm}
        return self._collective(
            x,
            axis,
            lambda group, i: group[sources[i]] if i in sources else np.zeros_like(group[0]),
        )

    def pshuffle(self, x: PerDevice, axis: Any, perm: Sequence[int]) -> PerDevice:
        return self._collective(x, axis, lambda group, i: group[perm[i]])

    def pbroadcast(self, x: PerDevice, axis: Any, source: int) -> PerDevice:
        return self._collective(x, axis, lambda group, _: group[source])

    def all_to_all(
        self, x: PerDevice, axis: Any, split_axis: int, concat_axis: int, tiled: bool = False
    ) -> PerDevice:
        def received(group: list[np.ndarray], i: int) -> np.ndarray:
            parts = [np.split(v, len(group), split_axis)[i] for v in group]
            if tiled:
                return np.concatenate(parts, concat_axis)
            return np.stack([p.squeeze(split_axis) for p in parts], concat_axis)

        return self._collective(x, axis, received)

    def axis_index(self, axes: Any) -> PerDevice:
        names = _names(axes)
        return PerDevice(self, {p: np.int32(self._number(p, names)) for p in self.places})

    def axis_size(self, axes: Any) -> int:
        return math.prod(self.axes[name] for name in _names(axes))

    def pcast(self, x: PerDevice, axes: Any, to: str) -> PerDevice:
        return x

    # -- functions of one device ------------------------------------------------------------------

    def sin(self, x: PerDevice) -> PerDevice:
        return x.map(np.sin)

    def exp(self, x: PerDevice) -> PerDevice:
        return x.map(np.exp)

    def dot(self, x: PerDevice, y: PerDevice) -> PerDevice:
        return x.map(np.dot, y)

    def tile(self, x: PerDevice, n: int) -> PerDevice:
        return x.map(np.tile, n)

    def repeated(self, f: Callable[[Any], Any], x: PerDevice, n: int) -> PerDevice:
        for _ in range(n):
            x = f(x)
        return x

    def until(self, over: Callable[[Any], Any], f: Callable[[Any], Any], x: PerDevice) -> PerDevice:
        while not all(stop.all() for stop in over(x).parts.values()):
            done = over(x)
            x = f(x).map(lambda new, old, stop: old if stop else new, x, done)
        return x

    def above(self, x: PerDevice, limit: float) -> PerDevice:
        return x.map(lambda v: v > limit)

    def choose(self, which: PerDevice, a: Any, b: Any, x: PerDevice) -> PerDevice:
        return which.map(lambda w, p, q: p if w else q, a(x), b(x))


def _names(entry: Any) -> tuple[str, ...]:
    if entry is None:
        return ()
    return tuple(entry) if isinstance(entry, (tuple, list)) else (entry,)
