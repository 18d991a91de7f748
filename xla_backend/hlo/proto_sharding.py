"""Shardings and replica groups as protobuf messages, both ways."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xla_backend.hlo.device_lists import Axis, Iota, Mesh
from xla_backend.hlo.proto_values import metadata_from_message, metadata_to_message
from xla_backend.hlo.proto_wire import Message, ProtoError
from xla_backend.hlo.sharding import Sharding

_KINDS = {
    "replicated": 0,
    "maximal": 1,
    "tuple": 2,
    "tiled": 3,
    "manual": 4,
    "unknown": 5,
    "unreduced": 6,
}
_BY_NUMBER = {number: kind for kind, number in _KINDS.items()}
_GROUPS = ("shard_as", "shard_like")


def sharding_to_message(sharding: Sharding) -> Message:
    """An OpSharding."""
    if sharding.mesh is not None:
        return {"type": _KINDS["tiled"], "named_sharding": _named_to_message(sharding)}
    message: Message = {"type": _KINDS[sharding.kind]}
    if sharding.elements:
        message["tuple_shardings"] = [sharding_to_message(e) for e in sharding.elements]
    devices = sharding.devices
    if sharding.kind in ("tiled", "maximal"):
        message["tile_assignment_dimensions"] = list(sharding.tiles or (1,))
        if isinstance(devices, Iota):
            message["iota_reshape_dims"] = list(devices.dimensions)
            message["iota_transpose_perm"] = list(devices.permutation)
        else:
            message["tile_assignment_devices"] = list(devices)
    if sharding.subgroups == ("replicated",):
        message["replicate_on_last_tile_dim"] = True
    elif sharding.subgroups:
        message["last_tile_dims"] = [_KINDS[kind] for kind in sharding.subgroups]
    if sharding.group is not None:
        kind, number = sharding.group
        message["is_shard_group"] = True
        message["shard_group_id"] = number
        message["shard_group_type"] = _GROUPS.index(kind)
    if sharding.metadata:
        message["metadata"] = [metadata_to_message(m) for m in sharding.metadata]
    return message


def sharding_from_message(message: Message) -> Sharding:
    """The sharding of an OpSharding.

    Raises:
      ProtoError: unknown type.
    """
    if "named_sharding" in message:
        return _named_from_message(message["named_sharding"])
    kind = _kind(message.get("type", 0))
    devices: Iota | tuple[int, ...] = tuple(message.get("tile_assignment_devices", ()))
    if "iota_reshape_dims" in message:
        devices = _iota(message["iota_reshape_dims"], message.get("iota_transpose_perm", ()))
    subgroups = tuple(_kind(n) for n in message.get("last_tile_dims", ()))
    if message.get("replicate_on_last_tile_dim"):
        subgroups = ("replicated",)
    group = None
    if message.get("is_shard_group"):
        which = message.get("shard_group_type", 0)
        group = (_GROUPS[which == 1], message.get("shard_group_id", 0))
    tiles = tuple(message.get("tile_assignment_dimensions", ()))
    return Sharding(
        kind,
        tiles if kind == "tiled" else (),
        devices,
        subgroups,
        tuple(sharding_from_message(m) for m in message.get("tuple_shardings", ())),
        group,
        tuple(metadata_from_message(m) for m in message.get("metadata", ())),
    )


def _kind(number: int) -> str:
    if number not in _BY_NUMBER:
        raise ProtoError(f"{number} is no type of sharding")
    return _BY_NUMBER[number]


def _iota(dimensions: Sequence[int], permutation: Sequence[int]) -> Iota:
    if sorted(permutation) != list(range(len(dimensions))):
        raise ProtoError(f"{list(permutation)} is no permutation of {len(dimensions)} dimensions")
    return Iota(tuple(dimensions), tuple(permutation))


# -- meshes ----------------------------------------------------------------------------------------


def mesh_to_message(mesh: Mesh) -> Message:
    """A MeshProto."""
    message: Message = {"axes": [{"name": name, "size": size} for name, size in mesh.axes]}
    if isinstance(mesh.devices, Iota):
        message["iota_transform"] = {
            "reshape_dims": list(mesh.devices.dimensions),
            "transpose_perm": list(mesh.devices.permutation),
        }
    elif mesh.devices is not None:
        message["device_ids"] = list(mesh.devices)
    return message


def mesh_from_message(message: Message) -> Mesh:
    axes = tuple((a.get("name", ""), a.get("size", 0)) for a in message.get("axes", ()))
    devices: Any = None
    if "iota_transform" in message:
        transform = message["iota_transform"]
        devices = _iota(transform.get("reshape_dims", ()), transform.get("transpose_perm", ()))
    elif message.get("device_ids"):
        devices = tuple(message["device_ids"])
    return Mesh(axes, devices)


def axes_to_message(mesh: Mesh, axes: Sequence[Axis]) -> list[Message]:
    """AxisRefProtos: the number of an axis in the mesh, and which part of it."""
    names = [name for name, _ in mesh.axes]
    messages = []
    for axis in axes:
        message: Message = {"mesh_axis_index": names.index(axis.name)}
        if axis.size:
            message["sub_axis_info"] = {"pre_size": axis.before, "size": axis.size}
        messages.append(message)
    return messages


def axes_from_message(mesh: Mesh, messages: Sequence[Message]) -> tuple[Axis, ...]:
    axes = []
    for message in messages:
        number = message.get("mesh_axis_index", 0)
        if not 0 <= number < len(mesh.axes):
            raise ProtoError(f"the mesh has no axis number {number}")
        part = message.get("sub_axis_info", {})
        axes.append(Axis(mesh.axes[number][0], part.get("pre_size", 0), part.get("size", 0)))
    return tuple(axes)


def _named_to_message(sharding: Sharding) -> Message:
    mesh = sharding.mesh
    assert mesh is not None
    message: Message = {"mesh": mesh_to_message(mesh)}
    message["dim_shardings"] = [
        {"axes": axes_to_message(mesh, axes), "is_closed": not is_open}
        for axes, is_open in zip(sharding.dimensions, sharding.open_dimensions)
    ]
    for name in ("replicated_axes", "unreduced_axes", "manual_axes"):
        message[name] = axes_to_message(mesh, getattr(sharding, name))
    message["metadata"] = [metadata_to_message(m) for m in sharding.metadata]
    return message


def _named_from_message(message: Message) -> Sharding:
    mesh = mesh_from_message(message.get("mesh", {}))
    dimensions = message.get("dim_shardings", [])

    def named(name: str) -> tuple[Axis, ...]:
        return axes_from_message(mesh, message.get(name, ()))

    return Sharding(
        "mesh",
        metadata=tuple(metadata_from_message(m) for m in message.get("metadata", ())),
        mesh=mesh,
        dimensions=tuple(axes_from_message(mesh, d.get("axes", ())) for d in dimensions),
        open_dimensions=tuple(not d.get("is_closed", False) for d in dimensions),
        replicated_axes=named("replicated_axes"),
        unreduced_axes=named("unreduced_axes"),
        manual_axes=named("manual_axes"),
    )
