"""HLO modules as protobuf: HloModuleProto, HloProto, HloSnapshot and HloUnoptimizedSnapshot.

These are the files that `--xla_dump_hlo_as_proto` and `--xla_dump_hlo_snapshots` write. Field
numbers are in proto_schema.py, the wire format in proto_wire.py. Not carried over: `origin`
attributes and origin_recovery_table, domains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.hlo.literal import Literal
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.proto_module import module_from_message, module_to_message
from xla_backend.hlo.proto_schema import SCHEMA
from xla_backend.hlo.proto_values import literal_from_message, literal_to_message
from xla_backend.hlo.proto_wire import Message, ProtoError
from xla_backend.process.light_dataclasses import dataclass

__all__ = [
    "ProtoError",
    "Snapshot",
    "hlo_proto_from_bytes",
    "hlo_proto_to_bytes",
    "module_from_proto",
    "module_to_proto",
    "read_proto",
    "snapshot_from_proto",
    "snapshot_to_proto",
    "unoptimized_snapshot_from_proto",
    "unoptimized_snapshot_to_proto",
]


@dataclass(frozen=True)
class Snapshot:
    """A module with the arguments of one run and what came out; a result of several arrays is a
    tuple literal."""

    module: HloModule
    arguments: tuple[Literal, ...] = ()
    result: Literal | None = None
    platform: str = ""


def module_to_proto(module: HloModule) -> bytes:
    """The module as the bytes of an HloModuleProto.

    Raises:
      ProtoError: an attribute that protobuf has no form for.
    """
    return SCHEMA.encode("HloModuleProto", module_to_message(module))


def module_from_proto(data: bytes) -> HloModule:
    """The module of an HloModuleProto.

    Raises:
      ProtoError: the bytes are no message, or no valid module.
    """
    return module_from_message(SCHEMA.decode("HloModuleProto", data))


def hlo_proto_to_bytes(module: HloModule) -> bytes:
    """An HloProto: what a `.hlo.pb` file holds."""
    return SCHEMA.encode("HloProto", {"hlo_module": module_to_message(module)})


def hlo_proto_from_bytes(data: bytes) -> HloModule:
    """The module of an HloProto; its buffer assignment is skipped.

    Raises:
      ProtoError: the bytes are no message, or no valid module.
    """
    return _module_of(SCHEMA.decode("HloProto", data))


def snapshot_to_proto(snapshot: Snapshot) -> bytes:
    """An HloSnapshot."""
    message: Message = {
        "hlo": {"hlo_module": module_to_message(snapshot.module)},
        "arguments": [literal_to_message(a) for a in snapshot.arguments],
        "execution_platform": snapshot.platform,
    }
    if snapshot.result is not None:
        message["result"] = literal_to_message(snapshot.result)
    return SCHEMA.encode("HloSnapshot", message)


def snapshot_from_proto(data: bytes) -> Snapshot:
    """The module, arguments and result of an HloSnapshot.

    Raises:
      ProtoError: the bytes are no message, or no valid module or literal.
    """
    message = SCHEMA.decode("HloSnapshot", data)
    result = message.get("result")
    return Snapshot(
        _module_of(message.get("hlo", {})),
        tuple(literal_from_message(a) for a in message.get("arguments", ())),
        literal_from_message(result) if result is not None else None,
        message.get("execution_platform", ""),
    )


def unoptimized_snapshot_to_proto(
    module: HloModule, partitions: Sequence[Sequence[Literal]]
) -> bytes:
    """An HloUnoptimizedSnapshot: the module as received, the arguments of each partition."""
    inputs = [{"arguments": [literal_to_message(a) for a in p]} for p in partitions]
    message = {"hlo_module": module_to_message(module), "partitions": inputs}
    return SCHEMA.encode("HloUnoptimizedSnapshot", message)


def unoptimized_snapshot_from_proto(data: bytes) -> tuple[HloModule, list[tuple[Literal, ...]]]:
    """The module and the arguments of each partition.

    Raises:
      ProtoError: the bytes are no message, or no valid module or literal.
    """
    message = SCHEMA.decode("HloUnoptimizedSnapshot", data)
    partitions = [
        tuple(literal_from_message(a) for a in p.get("arguments", ()))
        for p in message.get("partitions", ())
    ]
    return _module_of(message), partitions


def read_proto(data: bytes) -> Snapshot:
    """The module of any of these messages, with the arguments and the result that it holds: an
    HloSnapshot, an HloUnoptimizedSnapshot (its first partition), an HloProto or an HloModuleProto.

    Nothing in the bytes says which message they are: it is the first that gives a module.

    Raises:
      ProtoError: the bytes are none of these, or the module in them is not valid.
    """
    refused = []
    for name, read in _READERS.items():
        try:
            return read(data)
        except ProtoError as error:
            refused.append(f"no {name}: {error}")
    raise ProtoError("; ".join(refused))


def _read_unoptimized(data: bytes) -> Snapshot:
    module, partitions = unoptimized_snapshot_from_proto(data)
    return Snapshot(module, partitions[0] if partitions else ())


# A message whose first field is another's first field comes before it.
_READERS: dict[str, Callable[[bytes], Snapshot]] = {
    "HloSnapshot": snapshot_from_proto,
    "HloUnoptimizedSnapshot": _read_unoptimized,
    "HloProto": lambda data: Snapshot(hlo_proto_from_bytes(data)),
    "HloModuleProto": lambda data: Snapshot(module_from_proto(data)),
}


def _module_of(message: Message) -> HloModule:
    if "hlo_module" not in message:
        raise ProtoError("there is no module in this message")
    return module_from_message(message["hlo_module"])
