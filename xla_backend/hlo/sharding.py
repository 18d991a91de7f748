"""Shardings: how an array is spread over devices, as values and as HLO text, both ways.

Instructions carry a sharding as text among their annotations; whoever works with it calls
`parse_sharding(text)`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xla_backend.hlo.attributes import Value
from xla_backend.hlo.device_lists import (
    Axis,
    Dims,
    Iota,
    Mesh,
    check_axes,
    read_axis,
    read_iota,
    read_list,
    read_mesh,
)
from xla_backend.hlo.instruction import OpMetadata
from xla_backend.hlo.op_metadata import metadata_text, read_metadata
from xla_backend.hlo.text_cursor import Cursor

# What devices do along a trailing dimension of a tiling, in the order they are written.
SUBGROUP_TYPES = ("manual", "unreduced", "replicated")
_KINDS = ("replicated", "manual", "unknown", "unreduced")


class Sharding(Value):
    """One of these kinds: replicated, manual, unknown, unreduced, maximal (all on the one device
    of `devices`), tiled, tuple, or mesh.

    A tiled sharding has the number of tiles along each dimension in `tiles`, followed by one
    size for each of `subgroups`, and its devices in row-major order. A tuple has `elements`. A
    mesh sharding names for each dimension the axes it is cut along.
    """

    kind: str
    tiles: Dims = ()
    devices: Iota | Dims = ()
    subgroups: tuple[str, ...] = ()
    elements: tuple[Sharding, ...] = ()
    group: tuple[str, int] | None = None  # ("shard_as" or "shard_like", number)
    metadata: tuple[OpMetadata, ...] = ()
    mesh: Mesh | None = None
    dimensions: tuple[tuple[Axis, ...], ...] = ()
    open_dimensions: tuple[bool, ...] = ()  # dimensions that may be cut further: `?`
    priorities: tuple[int, ...] = ()  # of dimensions, the lowest first: `p1`; (): all are 0
    replicated_axes: tuple[Axis, ...] = ()
    unreduced_axes: tuple[Axis, ...] = ()
    manual_axes: tuple[Axis, ...] = ()

    def __str__(self) -> str:
        return sharding_text(self)


def parse_sharding(text: str) -> Sharding:
    """The sharding that `text` spells, braces included.

    >>> parse_sharding("{devices=[2,1,2]<=[4] last_tile_dims={manual, replicated}}").subgroups
    ('replicated',)

    Raises:
      ParseError: with line, column and a caret.
    """
    cursor = Cursor(text)
    sharding = read_sharding(cursor)
    if not cursor.at_end():
        cursor.fail("unexpected text after the sharding")
    return sharding


# -- printing --------------------------------------------------------------------------------------


def sharding_text(sharding: Sharding) -> str:
    """`{devices=[2,2]<=[4] last_tile_dim_replicate}` and the like."""
    if sharding.kind == "tuple":
        return "{" + ", ".join(map(sharding_text, sharding.elements)) + "}"
    if sharding.mesh is not None:
        return _mesh_text(sharding)
    parts = [_kind_text(sharding)]
    if sharding.subgroups == ("replicated",):
        parts.append("last_tile_dim_replicate")
    elif sharding.subgroups:
        parts.append(f"last_tile_dims={{{', '.join(sharding.subgroups)}}}")
    if sharding.group is not None:
        parts.append(f"{sharding.group[0]} {sharding.group[1]}")
    if len(sharding.metadata) == 1:
        parts.append(f"metadata={{{metadata_text(sharding.metadata[0])}}}")
    elif sharding.metadata:
        parts.append(f"metadata={_metadata_list(sharding.metadata)}")
    return "{" + " ".join(parts) + "}"


def _kind_text(sharding: Sharding) -> str:
    devices = sharding.devices
    if sharding.kind == "maximal":
        assert not isinstance(devices, Iota)
        return f"maximal device={devices[0]}"
    if sharding.kind != "tiled":
        return sharding.kind
    ids = f"<={devices}" if isinstance(devices, Iota) else ",".join(map(str, devices))
    return f"devices=[{','.join(map(str, sharding.tiles))}]{ids}"


def _metadata_list(metadata: Sequence[OpMetadata]) -> str:
    return "{" + ", ".join(f"{{{metadata_text(m)}}}" for m in metadata) + "}"


def _axes_text(axes: Sequence[Axis]) -> str:
    return "{" + ", ".join(map(str, axes)) + "}"


def _mesh_text(sharding: Sharding) -> str:
    parts = [str(sharding.mesh)]
    if sharding.dimensions:
        priorities = sharding.priorities or (0,) * len(sharding.dimensions)
        dimensions = [
            "{" + ", ".join([*map(str, axes), *(["?"] if is_open else [])]) + "}"
            + (f"p{priority}" if priority else "")
            for axes, is_open, priority in zip(
                sharding.dimensions, sharding.open_dimensions, priorities
            )
        ]  # fmt: skip
        parts.append(f"[{', '.join(dimensions)}]")
    else:
        parts.append("replicated")
    for name in ("replicated", "unreduced", "manual"):
        axes = getattr(sharding, f"{name}_axes")
        if axes:
            parts.append(f"{name}={_axes_text(axes)}")
    if sharding.metadata:
        parts.append(f"metadata={_metadata_list(sharding.metadata)}")
    return "{" + ", ".join(parts) + "}"


# -- reading ---------------------------------------------------------------------------------------


def read_sharding(cursor: Cursor) -> Sharding:
    """A sharding with its braces, in canonical form."""
    cursor.skip_space()
    start = cursor.position
    cursor.expect("{")
    if cursor.at("{") or cursor.at("}"):
        cursor.position = start
        return Sharding("tuple", elements=tuple(read_list(cursor, "{", "}", _read_element)))
    if cursor.at("mesh"):
        return _read_mesh_sharding(cursor)
    return _SingleReader(cursor, start).read()


def _read_element(cursor: Cursor) -> Sharding:
    cursor.skip_space()
    start = cursor.position
    cursor.expect("{")
    if cursor.at("{"):
        cursor.fail("the sharding of a tuple lists its leaves: tuples do not nest", start)
    if cursor.at("mesh"):
        return _read_mesh_sharding(cursor)
    return _SingleReader(cursor, start).read()


class _SingleReader:
    """Reads what stands between the braces of a sharding that is neither a tuple nor a mesh."""

    def __init__(self, cursor: Cursor, start: int) -> None:
        self.cursor = cursor
        self.start = start
        self.kind = ""
        self.tiles: Dims = ()
        self.devices: Iota | Dims = ()
        self.subgroups: tuple[str, ...] = ()
        self.group: tuple[str, int] | None = None
        self.metadata: tuple[OpMetadata, ...] = ()

    def read(self) -> Sharding:
        cursor = self.cursor
        while not cursor.accept("}"):
            cursor.skip_space()
            at = cursor.position
            self._word(cursor.read_name("a part of a sharding"), at)
        if not self.kind:
            cursor.fail("a sharding needs replicated, manual, maximal device=N or devices=[...]")
        if self.kind == "maximal" and not self.devices:
            cursor.fail("a maximal sharding needs device=N", self.start)
        if self.kind != "tiled":
            return Sharding(
                self.kind, devices=self.devices, group=self.group, metadata=self.metadata
            )
        self._check_devices()
        tiles, devices, subgroups = _canonical_tiling(self.tiles, self.devices, self.subgroups)
        kind = "tiled"
        if len(subgroups) == 1 and math.prod(tiles[:-1]) == 1:
            kind, tiles, devices, subgroups = subgroups[0], (), (), ()
        return Sharding(kind, tiles, devices, subgroups, group=self.group, metadata=self.metadata)

    def _word(self, word: str, at: int) -> None:
        cursor = self.cursor
        if word in _KINDS or word == "maximal":
            self._set_kind(word, at)
        elif word == "device":
            cursor.expect("=")
            self.devices = (cursor.read_integer("a device"),)
        elif word == "devices":
            self._set_kind("tiled", at)
            self._read_tiles()
        elif word == "last_tile_dim_replicate":
            self.subgroups = ("replicated",)
        elif word == "last_tile_dims":
            cursor.expect("=")
            self.subgroups = tuple(read_list(cursor, "{", "}", _read_subgroup_type))
        elif word in ("shard_as", "shard_like"):
            self.group = (word, cursor.read_integer("the number of the group"))
        elif word == "metadata":
            cursor.expect("=")
            self.metadata = _read_metadata_list(cursor)
        else:
            cursor.fail(f"'{word}' is no part of a sharding", at)

    def _set_kind(self, kind: str, at: int) -> None:
        if self.kind:
            self.cursor.fail(f"a sharding cannot be both {self.kind} and {kind}", at)
        self.kind = kind

    def _read_tiles(self) -> None:
        cursor = self.cursor
        cursor.expect("=")
        self.tiles = cursor.read_integers("[", "]")
        if cursor.accept("<="):
            self.devices = read_iota(cursor)
            return
        ids = [cursor.read_integer("a device")]
        while cursor.accept(","):
            ids.append(cursor.read_integer("a device"))
        self.devices = tuple(ids)
        if len(ids) == 1:
            cursor.fail("one device is written maximal device=N", self.start)

    def _check_devices(self) -> None:
        devices = self.devices
        number = devices.size if isinstance(devices, Iota) else len(devices)
        if min(self.tiles, default=0) <= 0 or math.prod(self.tiles) != number:
            self.cursor.fail(
                f"tiles [{','.join(map(str, self.tiles))}] do not match {number} devices",
                self.start,
            )
        if len(self.subgroups) > len(self.tiles):
            self.cursor.fail("more last_tile_dims than dimensions", self.start)


def _read_subgroup_type(cursor: Cursor) -> str:
    cursor.skip_space()
    at = cursor.position
    word = cursor.read_name("the type of a trailing dimension")
    if word not in SUBGROUP_TYPES:
        cursor.fail(f"'{word}' is not one of {', '.join(SUBGROUP_TYPES)}", at)
    return word


def _read_metadata_list(cursor: Cursor) -> tuple[OpMetadata, ...]:
    """`{op_name="x"}` or `{{op_name="x"}, {op_name="y"}}`."""
    start = cursor.position
    cursor.expect("{")
    several = cursor.at("{")
    cursor.position = start
    if several:
        return tuple(read_list(cursor, "{", "}", read_metadata))
    return (read_metadata(cursor),)


def _canonical_tiling(
    tiles: Dims, devices: Iota | Dims, subgroups: tuple[str, ...]
) -> tuple[Dims, Iota | Dims, tuple[str, ...]]:
    """Trailing dimensions of one type merged, those of size 1 dropped, types in fixed order."""
    if not subgroups:
        return tiles, devices, subgroups
    rank = len(tiles) - len(subgroups)
    order = [
        rank + i for kind in SUBGROUP_TYPES for i, other in enumerate(subgroups) if other == kind
    ]
    axes = [*range(rank), *order]
    if axes != sorted(axes):
        devices = _transposed(devices, tiles, axes)
    sizes = {
        kind: math.prod(tiles[rank + i] for i, other in enumerate(subgroups) if other == kind)
        for kind in SUBGROUP_TYPES
    }
    kept = tuple(kind for kind in SUBGROUP_TYPES if sizes[kind] > 1)
    tiles = (*tiles[:rank], *(sizes[kind] for kind in kept))
    if kept == ("replicated",) and not isinstance(devices, Iota):
        # Copies are interchangeable: each group in ascending order.
        rows = np.sort(np.array(devices).reshape(-1, tiles[-1]), axis=1)
        devices = tuple(rows.reshape(-1).tolist())
    return tiles, devices, kept


def _transposed(devices: Iota | Dims, shape: Dims, axes: Sequence[int]) -> Iota | Dims:
    if isinstance(devices, Iota):
        again = devices.transposed(shape, axes)
        if again is not None:
            return again
        devices = tuple(devices.ids().tolist())
    return tuple(np.array(devices).reshape(shape).transpose(axes).reshape(-1).tolist())


def _read_mesh_sharding(cursor: Cursor) -> Sharding:
    """From behind the opening brace: `mesh['a'=2], [{'a'}, {?}p1], replicated={'b'}}`."""
    start = cursor.position
    mesh = read_mesh(cursor)
    dimensions: list[tuple[tuple[Axis, ...], bool, int]] = []
    if not cursor.accept("replicated"):
        dimensions = read_list(cursor, "[", "]", _read_mesh_dimension)
    named: dict[str, tuple[Axis, ...]] = {}
    metadata: tuple[OpMetadata, ...] = ()
    while not cursor.accept("}"):
        cursor.expect(",")
        cursor.skip_space()
        at = cursor.position
        word = cursor.read_name("replicated, unreduced, manual or metadata")
        cursor.expect("=")
        if word == "metadata":
            metadata = _read_metadata_list(cursor)
        elif word in SUBGROUP_TYPES:
            named[word] = tuple(read_list(cursor, "{", "}", read_axis))
        else:
            cursor.fail(f"'{word}' is no part of a mesh sharding", at)
    used = [axis for axes, _, _ in dimensions for axis in axes]
    used += [axis for axes in named.values() for axis in axes]
    check_axes(cursor, mesh, used, start)
    return Sharding(
        "mesh",
        metadata=metadata,
        mesh=mesh,
        dimensions=tuple(axes for axes, _, _ in dimensions),
        open_dimensions=tuple(is_open for _, is_open, _ in dimensions),
        priorities=tuple(p for *_, p in dimensions) if any(p for *_, p in dimensions) else (),
        replicated_axes=named.get("replicated", ()),
        unreduced_axes=named.get("unreduced", ()),
        manual_axes=named.get("manual", ()),
    )


def _read_mesh_dimension(cursor: Cursor) -> tuple[tuple[Axis, ...], bool, int]:
    """`{'a', 'b'}`, with a trailing `?` where the dimension may be cut further, and a priority."""
    cursor.expect("{")
    axes: list[Axis] = []
    is_open = False
    while not cursor.accept("}"):
        if axes:
            cursor.expect(",")
        if cursor.accept("?"):
            cursor.expect("}")
            is_open = True
            break
        axes.append(read_axis(cursor))
    priority = cursor.read_integer("a priority") if cursor.accept("p") else 0
    return tuple(axes), is_open, priority
