"""The protobuf wire format, read and written by a table of field numbers.

A message is a dict from field name to value: int, float, bool, str, bytes, a nested dict, or a list
of those for repeated fields. Absent fields are absent keys; fields the table does not know are
skipped, as protobuf requires. Enumerations are plain ints.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Message = dict[str, Any]
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_MAX_DEPTH = 100
_VARINT_KINDS = frozenset({"int32", "int64", "uint32", "uint64", "bool", "enum"})
_FIXED_KINDS = {"double": ("<d", _FIXED64), "float": ("<f", _FIXED32)}
_DTYPES: dict[str, np.dtype] = {"double": np.dtype("<f8"), "float": np.dtype("<f4")}


class ProtoError(ValueError):
    """Bytes that are no message of the expected type, or a message that is no valid module."""


class Field(NamedTuple):
    """One field of a message type; `kind` is a scalar type or the name of a message type."""

    number: int
    name: str
    kind: str
    repeated: bool


class Schema:
    """Message types by name, built from lines `number name kind[*]` separated by `;`."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._fields: dict[str, list[Field]] = {}
        self._by_number: dict[str, dict[int, Field]] = {}
        for name, text in table.items():
            fields = [_field(entry) for entry in text.split(";")]
            self._fields[name] = sorted(fields)
            self._by_number[name] = {field.number: field for field in fields}

    def fields(self, message_type: str) -> list[Field]:
        """Fields in the order of their numbers."""
        return self._fields[message_type]

    # -- writing -----------------------------------------------------------------------------------

    def encode(self, message_type: str, message: Message) -> bytes:
        """The message as bytes, fields in the order of their numbers.

        Raises:
          KeyError: the message has a field that its type lacks.
        """
        out = bytearray()
        fields = self._fields[message_type]
        if not message.keys() <= {field.name for field in fields}:
            unknown = message.keys() - {field.name for field in fields}
            raise KeyError(f"{message_type} has no field {', '.join(sorted(unknown))}")
        for field in fields:
            value = message.get(field.name)
            if value is None:
                continue
            if not field.repeated:
                self._write(out, field, value)
            elif field.kind in _VARINT_KINDS or field.kind in _FIXED_KINDS:
                if len(value):
                    _write_varint(out, field.number << 3 | _BYTES)
                    _write_chunk(out, _pack(field.kind, value))
            else:
                for item in value:
                    self._write(out, field, item)
        return bytes(out)

    def _write(self, out: bytearray, field: Field, value: Any) -> None:
        kind = field.kind
        if kind in _VARINT_KINDS:
            _write_varint(out, field.number << 3 | _VARINT)
            _write_varint(out, int(value) & (1 << 64) - 1)
        elif kind in _FIXED_KINDS:
            form, wire = _FIXED_KINDS[kind]
            _write_varint(out, field.number << 3 | wire)
            out += struct.pack(form, value)
        else:
            _write_varint(out, field.number << 3 | _BYTES)
            if kind == "string":
                # Text may hold bytes that are no UTF-8; they came in by surrogateescape.
                value = value.encode("utf-8", "surrogateescape")
            elif kind != "bytes":
                value = self.encode(kind, value)
            _write_chunk(out, value)

    # -- reading -----------------------------------------------------------------------------------

    def decode(self, message_type: str, data: bytes) -> Message:
        """The message that the bytes spell.

        Raises:
          ProtoError: they end too early, nest too deeply or have the wrong form.
        """
        return self._decode(message_type, bytes(data), 0)

    def _decode(self, message_type: str, data: bytes, depth: int) -> Message:
        if depth > _MAX_DEPTH:
            raise ProtoError(f"{message_type}: messages are nested more than {_MAX_DEPTH} deep")
        known = self._by_number[message_type]
        message: Message = {}
        position, end = 0, len(data)
        while position < end:
            tag, position = _read_varint(data, position, message_type)
            wire = tag & 7
            value: Any
            if wire == _VARINT:
                value, position = _read_varint(data, position, message_type)
            else:
                size = _WIDTHS.get(wire, 0)
                if wire == _BYTES:
                    size, position = _read_varint(data, position, message_type)
                elif not size:
                    raise ProtoError(f"{message_type}: wire type {wire} at byte {position}")
                if size > end - position:
                    raise ProtoError(
                        f"{message_type}: field {tag >> 3} needs {size} bytes, "
                        f"{end - position} are left"
                    )
                value = data[position : position + size]
                position += size
            field = known.get(tag >> 3)
            if field is not None:
                self._store(message_type, message, field, wire, value, depth)
        return message

    def _store(
        self, owner: str, message: Message, field: Field, wire: int, value: Any, depth: int
    ) -> None:
        kind = field.kind
        scalar = kind in _VARINT_KINDS or kind in _FIXED_KINDS
        expected = _VARINT if kind in _VARINT_KINDS else _FIXED_KINDS.get(kind, ("", _BYTES))[1]
        if scalar and field.repeated and wire == _BYTES:
            values = _unpack(owner, kind, value)
            message.setdefault(field.name, []).extend(values)
            return
        if wire != expected:
            raise ProtoError(f"{owner}.{field.name}: wire type {wire}, expected {expected}")
        if kind in _VARINT_KINDS:
            value = _signed(kind, value)
        elif kind in _FIXED_KINDS:
            value = struct.unpack(_FIXED_KINDS[kind][0], value)[0]
        elif kind == "string":
            value = value.decode("utf-8", "surrogateescape")
        elif kind != "bytes":
            value = self._decode(kind, value, depth + 1)
        if field.repeated:
            message.setdefault(field.name, []).append(value)
        else:
            message[field.name] = value


def _field(text: str) -> Field:
    number, name, kind = text.split()
    return Field(int(number), name, kind.rstrip("*"), kind.endswith("*"))


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _write_chunk(out: bytearray, data: bytes) -> None:
    _write_varint(out, len(data))
    out += data


def _pack(kind: str, values: Any) -> bytes:
    if kind in _FIXED_KINDS:
        # Through NumPy: struct makes signalling NaNs quiet.
        return np.asarray(values, _DTYPES[kind]).tobytes()
    packed = bytearray()
    for value in values:
        _write_varint(packed, int(value) & (1 << 64) - 1)
    return bytes(packed)


def _unpack(owner: str, kind: str, data: bytes) -> list[Any]:
    if kind in _FIXED_KINDS:
        dtype = _DTYPES[kind]
        if len(data) % dtype.itemsize:
            raise ProtoError(f"{owner}: {len(data)} bytes are no list of {kind}")
        return list(np.frombuffer(data, dtype))
    values = []
    position = 0
    while position < len(data):
        value, position = _read_varint(data, position, owner)
        values.append(_signed(kind, value))
    return values


def _signed(kind: str, value: int) -> int | bool:
    if kind == "bool":
        return value != 0
    if kind in ("uint32", "uint64"):
        return value
    return value - (1 << 64) if value >> 63 else value


def _read_varint(data: bytes, position: int, owner: str) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data):
            raise ProtoError(f"{owner}: the bytes end within a number")
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value >> 64:
                raise ProtoError(f"{owner}: a number of more than 64 bits at byte {position}")
            return value, position
        shift += 7
        if shift > 63:
            raise ProtoError(f"{owner}: a number of more than 64 bits at byte {position}")
