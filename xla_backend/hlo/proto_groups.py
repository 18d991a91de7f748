"""Replica groups as fields of HloInstructionProto, both ways."""

from __future__ import annotations

from xla_backend.hlo.device_lists import Iota, read_axis, read_iota, read_list, read_mesh
from xla_backend.hlo.errors import ParseError
from xla_backend.hlo.proto_sharding import (
    axes_from_message,
    axes_to_message,
    mesh_from_message,
    mesh_to_message,
)
from xla_backend.hlo.proto_wire import Message, ProtoError
from xla_backend.hlo.replica_groups import Groups, ReplicaGroups, read_groups
from xla_backend.hlo.text_cursor import Cursor


def groups_to_message(groups: Groups) -> Message:
    """`replica_groups`, or the compact form the groups were written in."""
    if not isinstance(groups, ReplicaGroups):
        listed = [{"replica_ids": list(group)} for group in groups]
        return {"collective_device_list": {"replica_groups": listed}, "replica_groups": listed}
    cursor = Cursor(groups.spelling)
    if cursor.at("mesh"):
        mesh = read_mesh(cursor)
        axes = read_list(cursor, "{", "}", read_axis)
        message = {"mesh": mesh_to_message(mesh), "axes": axes_to_message(mesh, axes)}
        return {"mesh_axes_replica_group_list": message}
    count, size = cursor.read_integers("[", "]")
    cursor.expect("<=")
    iota = read_iota(cursor)
    return {
        "iota_collective_device_list": {
            "num_replica_groups": count,
            "num_devices_per_group": size,
            "iota_reshape_dims": list(iota.dimensions),
            "iota_transpose_perm": list(iota.permutation),
        }
    }


def groups_from_message(message: Message) -> Groups:
    """The groups of a collective.

    Raises:
      ProtoError: a compact form that names no groups.
    """
    if "mesh_axes_replica_group_list" in message:
        found = message["mesh_axes_replica_group_list"]
        mesh = mesh_from_message(found.get("mesh", {}))
        axes = ",".join(map(str, axes_from_message(mesh, found.get("axes", ()))))
        return _parsed(f"{mesh} {{{axes}}}")
    if "iota_collective_device_list" in message:
        found = message["iota_collective_device_list"]
        count = found.get("num_replica_groups", 0)
        size = found.get("num_devices_per_group", 0)
        iota = Iota(
            tuple(found.get("iota_reshape_dims", ())), tuple(found.get("iota_transpose_perm", ()))
        )
        return _parsed(f"[{count},{size}]<={iota}")
    listed = message.get("collective_device_list", message).get("replica_groups", ())
    return tuple(tuple(group.get("replica_ids", ())) for group in listed)


def _parsed(text: str) -> Groups:
    try:
        return read_groups(Cursor(text))
    except ParseError as error:
        raise ProtoError(f"replica groups: {error}") from None
