"""Structures of pytrees as messages of Protocol Buffers: tuples, lists, None, and dictionaries with
text keys. Nodes stand in postfix order; texts are numbered. Layer: core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

# (arity, kind, keys): kinds of the message's enumeration.
LEAF_KIND, LIST_KIND, NONE_KIND, TUPLE_KIND, DICT_KIND = 1, 2, 3, 4, 5
Node = tuple[int, int, Sequence[str]]


def _varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def encode(nodes: Sequence[Node]) -> bytes:
    """The message of nodes in postfix order.

    >>> encode([(0, LEAF_KIND, ()), (1, LIST_KIND, ())])
    b'\\n\\x02\\x10\\x01\\n\\x04\\x08\\x01\\x10\\x02'
    """
    texts: dict[str, int] = {}
    out = b""
    for arity, kind, keys in nodes:
        body = (b"\x08" + _varint(arity) if arity else b"") + b"\x10" + _varint(kind)
        if kind == DICT_KIND:
            ids = b"".join(_varint(texts.setdefault(k, len(texts))) for k in keys)
            body += _field(3, _field(1, ids) if ids else b"")
        out += _field(1, body)
    return out + b"".join(_field(2, text.encode()) for text in texts)


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    position = 0

    def varint() -> int:
        nonlocal position
        result = shift = 0
        while True:
            if position >= len(data):
                raise ValueError("the message of a PyTreeDef ends too early")
            byte = data[position]
            position += 1
            result |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return result

    while position < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 2:
            size = varint()
            content = data[position : position + size]
            if len(content) != size:
                raise ValueError("the message of a PyTreeDef ends too early")
            position += size
            yield tag >> 3, content
        else:
            raise ValueError(f"no message of a PyTreeDef: wire type {tag & 7}")


def _varints(data: bytes) -> list[int]:
    found, current, shift = [], 0, 0
    for byte in data:
        current |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(current)
            current = shift = 0
    return found


def decode(data: bytes) -> list[Node]:
    """The nodes of a message.

    Raises:
      ValueError: it is none.
    """
    bodies = [content for number, content in _fields(data) if number == 1]
    texts = [content.decode() for number, content in _fields(data) if number == 2]
    nodes: list[Node] = []
    for body in bodies:
        arity, kind, ids = 0, 0, b""
        for number, content in _fields(body):
            if number == 1:
                arity = content
            elif number == 2:
                kind = content
            elif number == 3:
                ids = b"".join(part for key, part in _fields(content) if key == 1)
        keys = _varints(ids)
        if not LEAF_KIND <= kind <= DICT_KIND or any(k >= len(texts) for k in keys):
            raise ValueError(f"no message of a PyTreeDef: node of kind {kind}")
        nodes.append((arity, kind, [texts[k] for k in keys]))
    return nodes
