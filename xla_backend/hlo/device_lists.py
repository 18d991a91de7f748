"""Lists of devices as HLO text spells them: explicit ids, iota forms, meshes with named axes.

`<=[2,4]T(1,0)` is the sequence 0..7 reshaped to 2x4, transposed, read row by row. `mesh['a'=2,
'b'=4]` names the axes of such an arrangement. Shardings and replica groups are written with both.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from xla_backend.hlo.text_cursor import Cursor

Dims = tuple[int, ...]
MAX_DEVICES = 1 << 20
_AXIS_NAME = re.compile(r"'([^'\"\n]*)'|\"([^'\"\n]*)\"")
T = TypeVar("T")


class Iota(NamedTuple):
    """0, 1, 2 ... as an array of `dimensions`, transposed by `permutation`, in row-major order."""

    dimensions: Dims
    permutation: Dims

    def __str__(self) -> str:
        """`[4]` or `[2,2]T(1,0)`."""
        text = f"[{','.join(map(str, self.dimensions))}]"
        if len(self.dimensions) > 1:
            text += f"T({','.join(map(str, self.permutation))})"
        return text

    @property
    def size(self) -> int:
        return math.prod(self.dimensions)

    def ids(self) -> np.ndarray:
        numbers = np.arange(self.size).reshape(self.dimensions)
        return numbers.transpose(self.permutation).reshape(-1)

    def canonical(self) -> Iota:
        """The same sequence with the fewest dimensions: none of size 1, runs that stay together
        merged."""
        kept = [d for d in self.permutation if self.dimensions[d] != 1]
        if not kept:
            return Iota((1,), (0,))
        rank_of = {d: i for i, d in enumerate(sorted(kept))}
        runs: list[list[int]] = []
        for d in kept:
            if runs and rank_of[d] == rank_of[runs[-1][-1]] + 1:
                runs[-1].append(d)
            else:
                runs.append([d])
        source_order = sorted(runs, key=lambda run: run[0])
        sizes = tuple(math.prod(self.dimensions[d] for d in run) for run in source_order)
        return Iota(sizes, tuple(source_order.index(run) for run in runs))

    def transposed(self, shape: Dims, axes: Sequence[int]) -> Iota | None:
        """The sequence viewed as an array of `shape` and transposed by `axes`; None where no iota
        spells it."""
        factors = _common_factors([self.dimensions[d] for d in self.permutation], shape)
        if factors is None:
            return None
        by_source: dict[int, list[int]] = {d: [] for d in range(len(self.dimensions))}
        by_axis: dict[int, list[int]] = {a: [] for a in range(len(shape))}
        for number, (place, axis, _) in enumerate(factors):
            by_source[self.permutation[place]].append(number)
            by_axis[axis].append(number)
        source = [number for d in range(len(self.dimensions)) for number in by_source[d]]
        position = {number: i for i, number in enumerate(source)}
        sizes = tuple(factors[number][2] for number in source)
        return Iota(sizes, tuple(position[n] for a in axes for n in by_axis[a])).canonical()


def _common_factors(
    first: Sequence[int], second: Sequence[int]
) -> list[tuple[int, int, int]] | None:
    """Both shapes cut into the same row-major factors: (position in first, in second, size)."""
    factors: list[tuple[int, int, int]] = []
    left, right = list(first), list(second)
    i = j = 0
    while i < len(left) and j < len(right):
        size = math.gcd(left[i], right[j])
        if size != min(left[i], right[j]):
            return None
        factors.append((i, j, size))
        left[i] //= size
        right[j] //= size
        if left[i] == 1:
            i += 1
        if j < len(right) and right[j] == 1:
            j += 1
    rest = left[i:] + right[j:]
    return factors if all(size == 1 for size in rest) else None


class Axis(NamedTuple):
    """An axis of a mesh, or the part `(before)size` of one: `'a':(1)2`."""

    name: str
    before: int = 0
    size: int = 0

    def __str__(self) -> str:
        return f"'{self.name}'" + (f":({self.before}){self.size}" if self.size else "")


class Mesh(NamedTuple):
    """Devices arranged along named axes, in order unless `devices` says otherwise."""

    axes: tuple[tuple[str, int], ...]
    devices: Iota | Dims | None = None

    def __str__(self) -> str:
        axes = ",".join(f"'{name}'={size}" for name, size in self.axes)
        text = f"mesh[{axes}]"
        if self.devices is None:
            return text
        ids = str(self.devices) if isinstance(self.devices, Iota) else _joined(self.devices)
        return f"{text}, device_ids=({ids})"

    @property
    def sizes(self) -> Dims:
        return tuple(size for _, size in self.axes)

    def ids(self) -> np.ndarray:
        """Device ids as an array with one dimension an axis."""
        if self.devices is None:
            numbers = np.arange(math.prod(self.sizes))
        elif isinstance(self.devices, Iota):
            numbers = self.devices.ids()
        else:
            numbers = np.array(self.devices, np.int64)
        return numbers.reshape(self.sizes)

    def groups(self, axes: Sequence[Axis]) -> np.ndarray:
        """One row for each group of devices that differ only along `axes`."""
        shape: list[int] = []
        inside: list[tuple[int, int]] = []  # position in `axes`, dimension
        order = {axis: i for i, axis in enumerate(axes)}
        for name, size in self.axes:
            done = 1  # sizes of the parts of this axis so far
            parts = sorted((a for a in axes if a.name == name), key=lambda a: a.before)
            for part in parts:
                before, width = (part.before, part.size) if part.size else (1, size)
                if before % done or size % (before * width):
                    raise ValueError(f"axis {part} does not divide its mesh")
                shape.append(before // done)
                inside.append((order[part], len(shape)))
                shape.append(width)
                done = before * width
            shape.append(size // done)
        axes_inside = [dimension for _, dimension in sorted(inside)]
        outside = [d for d in range(len(shape)) if d not in axes_inside]
        numbers = self.ids().reshape(shape).transpose([*outside, *axes_inside])
        return numbers.reshape(-1, math.prod(shape[d] for d in axes_inside))


def _joined(values: Sequence[int]) -> str:
    return ",".join(map(str, values))


# -- reading ---------------------------------------------------------------------------------------


def read_list(cursor: Cursor, opening: str, closing: str, item: Callable[[Cursor], T]) -> list[T]:
    """Items separated by commas between brackets."""
    cursor.expect(opening)
    items: list[T] = []
    if cursor.accept(closing):
        return items
    while True:
        items.append(item(cursor))
        if cursor.accept(closing):
            return items
        cursor.expect(",")


def read_iota(cursor: Cursor) -> Iota:
    """`[4]` or `[2,2]T(1,0)`, made canonical."""
    cursor.skip_space()
    start = cursor.position
    dimensions = cursor.read_integers("[", "]")
    if len(dimensions) > 1:
        cursor.expect("T")
        permutation = cursor.read_integers("(", ")")
    else:
        permutation = tuple(range(len(dimensions)))
    if sorted(permutation) != list(range(len(dimensions))) or min(dimensions, default=0) <= 0:
        cursor.fail("expected [dimensions]T(permutation)", start)
    if math.prod(dimensions) > MAX_DEVICES:
        cursor.fail(f"more than {MAX_DEVICES} devices", start)
    return Iota(dimensions, permutation).canonical()


def read_axis(cursor: Cursor) -> Axis:
    """`'a'` or `'a':(1)2`."""
    match = cursor.read(_AXIS_NAME, "a quoted axis name")
    name = match[1] or match[2] or ""
    if not cursor.accept(":"):
        return Axis(name)
    cursor.expect("(")
    start = cursor.position
    before = cursor.read_integer()
    cursor.expect(")")
    size = cursor.read_integer()
    if before <= 0 or size <= 0:
        cursor.fail("expected the part of an axis as (before)size, both positive", start)
    return Axis(name, before, size)


def read_mesh(cursor: Cursor) -> Mesh:
    """`mesh['a'=2,'b'=4]`, with `, device_ids=(...)` where the devices are not in order."""
    cursor.skip_space()
    start = cursor.position
    cursor.expect("mesh")
    axes = tuple(read_list(cursor, "[", "]", _read_mesh_axis))
    count = math.prod(size for _, size in axes)
    if min((size for _, size in axes), default=1) <= 0 or count > MAX_DEVICES:
        cursor.fail("axes of the mesh are out of range", start)
    if len({name for name, _ in axes}) != len(axes):
        cursor.fail("an axis is named twice", start)
    cursor.accept(",")
    devices: Iota | Dims | None = None
    if cursor.accept("device_ids"):
        cursor.expect("=")
        cursor.expect("(")
        if cursor.at("["):
            devices = read_iota(cursor)
            number = devices.size
        else:
            cursor.position -= 1  # the list brings its own bracket
            devices = cursor.read_integers("(", ")")
            number = len(devices)
        if isinstance(devices, Iota):
            cursor.expect(")")
        if number != count:
            cursor.fail(f"the mesh has {count} devices, device_ids names {number}", start)
        cursor.accept(",")
    return Mesh(axes, devices)


def _read_mesh_axis(cursor: Cursor) -> tuple[str, int]:
    match = cursor.read(_AXIS_NAME, "a quoted axis name")
    cursor.expect("=")
    return match[1] or match[2] or "", cursor.read_integer("the size of the axis")


def check_axes(cursor: Cursor, mesh: Mesh, axes: Sequence[Axis], start: int) -> None:
    """Fail unless the axes belong to the mesh and are named once."""
    sizes = dict(mesh.axes)
    for axis in axes:
        if axis.name not in sizes:
            cursor.fail(f"the mesh has no axis '{axis.name}'", start)
        if axis.size and sizes[axis.name] % (axis.before * axis.size):
            cursor.fail(f"{axis} does not divide an axis of size {sizes[axis.name]}", start)
        if axis.size == sizes[axis.name]:
            cursor.fail(f"{axis} is the whole axis: write '{axis.name}'", start)
    if len(set(axes)) != len(axes):
        cursor.fail("an axis is named twice", start)
