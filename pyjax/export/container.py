"""Serialized programs as bytes: framing and integrity.

    PYJAXEXP | format, 2 bytes | size of what follows but the digest, 8 bytes | records | SHA-256

A record is the size of its header (8 bytes), the header (JSON), the size of the module (8 bytes),
and the module (StableHLO text; compressed in format 2). There is one for the function and one for
each order of its derivative. Numbers are little-endian. Nothing in it is code that runs before it
is checked: the header is data, and the module is parsed and verified.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NoReturn

from pyjax.core.errors import fail

_MAGIC = b"PYJAXEXP"
_START = struct.Struct("<8sHQ")
_SIZE = struct.Struct("<Q")
_DIGEST = 32
# The oldest format is what every reader knows; newer ones are written only on demand.
OLDEST_FORMAT, NEWEST_FORMAT = 1, 2
_LARGEST_MODULE = 1 << 32

Record = tuple[dict[str, Any], str]  # header, StableHLO text


def write_records(records: Sequence[Record], version: int) -> bytearray:
    """The bytes of records, in a format."""
    body = bytearray()
    for header, text in records:
        fields = json.dumps(header, separators=(",", ":"), sort_keys=True).encode()
        module = text.encode()
        if version >= 2:
            module = zlib.compress(module)
        body += _SIZE.pack(len(fields)) + fields + _SIZE.pack(len(module)) + module
    result = bytearray(_START.pack(_MAGIC, version, len(body)))
    result += body
    result += hashlib.sha256(result).digest()
    return result


def read_records(blob: bytes | bytearray | memoryview) -> list[Record]:
    """The records of bytes that `write_records` made.

    Raises:
      TypeError: `blob` is no bytes.
      ValueError: they are not its bytes, not all of them, or changed; or in a newer format.
    """
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        fail(
            TypeError,
            f"deserialize takes bytes, got {type(blob).__name__}",
            "a serialized program is what Exported.serialize() returned",
            "read the file in binary mode: open(path, 'rb').read()",
        )
    data = bytes(blob)
    if len(data) < _START.size or not data.startswith(_MAGIC):
        _refuse(
            "these bytes are no serialized program of pyjax",
            f"it begins with {data[:8]!r} instead of {_MAGIC!r}",
        )
    _, version, size = _START.unpack_from(data)
    if not OLDEST_FORMAT <= version <= NEWEST_FORMAT:
        fail(
            ValueError,
            f"the serialized program has format {version}, and this version of pyjax reads the "
            f"formats {OLDEST_FORMAT} to {NEWEST_FORMAT}",
            "it was written by a newer version",
            "update pyjax here, or serialize again with jax_export_ignore_forward_compatibility "
            "off",
        )
    whole = _START.size + size + _DIGEST
    if len(data) != whole:
        kind = "cut off" if len(data) < whole else "too long"
        _refuse(f"the serialized program is {kind}", f"it has {len(data)} bytes of {whole}")
    if hashlib.sha256(data[:-_DIGEST]).digest() != data[-_DIGEST:]:
        _refuse("the serialized program is damaged", "its checksum is not that of its contents")
    return _records(memoryview(data)[_START.size : -_DIGEST], version)


def _records(body: memoryview, version: int) -> list[Record]:
    records: list[Record] = []
    position = 0

    def part() -> bytes:
        nonlocal position
        start = position + _SIZE.size
        if start > len(body):
            raise ValueError("a size is missing")
        (size,) = _SIZE.unpack_from(body, position)
        if size > len(body) - start:
            raise ValueError("a part is longer than the whole")
        position = start + size
        return bytes(body[start:position])

    try:
        while position < len(body):
            header = json.loads(part().decode())
            if type(header) is not dict:
                raise ValueError("the header is no dictionary")
            module = part()
            records.append((header, (_inflated(module) if version >= 2 else module).decode()))
    except (ValueError, RecursionError) as error:  # wrong JSON and UTF-8 are ValueErrors
        malformed(str(error))
    if not records:
        malformed("it holds no program")
    return records


def _inflated(module: bytes) -> bytes:
    reader = zlib.decompressobj()
    try:
        text = reader.decompress(module, _LARGEST_MODULE)
    except zlib.error as error:
        raise ValueError(f"the module does not decompress: {error}") from None
    if not reader.eof or reader.unused_data:
        raise ValueError("the module does not decompress to its end")
    return text


def _refuse(what: str, why: str) -> NoReturn:
    fail(ValueError, what, why, "pass all bytes that Exported.serialize() returned, unchanged")


def malformed(why: str) -> NoReturn:
    """Raise ValueError: the checksum is right, but this was not written by `serialize`."""
    _refuse("the serialized program is malformed", why)
