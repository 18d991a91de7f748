"""Replica groups of collectives: which devices take part together."""

from __future__ import annotations

from collections.abc import Iterable

from xla_backend.hlo.device_lists import check_axes, read_axis, read_iota, read_list, read_mesh
from xla_backend.hlo.text_cursor import Cursor

Groups = tuple[tuple[int, ...], ...]


class ReplicaGroups(tuple):
    """The groups, each a tuple of device ids, with the compact text they were written in.

    Equal to the plain tuple of the same groups: how they were spelled carries no meaning, and
    groups that a pass computes are spelled out.
    """

    spelling: str

    def __new__(cls, groups: Iterable[tuple[int, ...]], spelling: str) -> ReplicaGroups:
        self = super().__new__(cls, groups)
        self.spelling = spelling
        return self

    def __reduce__(self) -> tuple:
        return ReplicaGroups, (tuple(self), self.spelling)


def read_groups(cursor: Cursor) -> Groups:
    """`{{0,1},{2,3}}`, `[2,2]<=[4]`, `[2,2]<=[2,2]T(1,0)` or `mesh['x'=2,'y'=4] {'y'}`."""
    if cursor.at("{"):
        return tuple(read_list(cursor, "{", "}", Cursor.read_integers))
    if cursor.at("mesh"):
        return _read_mesh_groups(cursor)
    return _read_iota_groups(cursor)


def show_groups(groups: Groups) -> str:
    if isinstance(groups, ReplicaGroups):
        return groups.spelling
    return "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in groups) + "}"


def _read_iota_groups(cursor: Cursor) -> Groups:
    start = cursor.position
    shape = cursor.read_integers("[", "]")
    cursor.expect("<=")
    devices = read_iota(cursor)
    if len(shape) != 2 or min(shape) <= 0:
        cursor.fail("expected [groups,size]<=[dimensions]T(permutation)", start)
    count, size = shape
    if count * size > devices.size:
        cursor.fail(f"{count} groups of {size} need more than {devices.size} devices", start)
    ids = devices.ids()[: count * size].reshape(count, size)
    return ReplicaGroups(map(tuple, ids.tolist()), f"[{count},{size}]<={devices}")


def _read_mesh_groups(cursor: Cursor) -> Groups:
    start = cursor.position
    mesh = read_mesh(cursor)
    axes = read_list(cursor, "{", "}", read_axis)
    check_axes(cursor, mesh, axes, start)
    try:
        ids = mesh.groups(axes)
    except ValueError as error:
        cursor.fail(str(error), start)
    if ids.shape[1] < 2:
        cursor.fail("a group of a mesh needs more than one device", start)
    spelling = f"{mesh} {{{','.join(map(str, axes))}}}"
    return ReplicaGroups(map(tuple, ids.tolist()), spelling)
