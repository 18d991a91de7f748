"""One entry as bytes: a head of text lines (version, key, kind, target, length, signature), and the
content.

Whoever reads one says what he expects. An entry that was cut off, changed, exchanged for another or
made for another processor is not used.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Sequence

from xla_backend.persistent.private_files import NotUsable

_MAGIC = "pyjax-entry-1"
_HEAD_LINES = 6


def head_of(key: str, kind: str, target: str) -> list[str]:
    """The lines that say what an entry is."""
    return [_MAGIC, key, kind, target]


def signed_entry(secret: bytes, head: Sequence[str], content: bytes) -> bytes:
    """An entry, signed with a secret; with an empty one, which anybody has, that is a checksum."""
    lines = "\n".join([*head, str(len(content))]).encode() + b"\n"
    return lines + _signature(secret, lines, content) + b"\n" + content


def content_of(data: bytes, head: Sequence[str], secrets: Iterable[bytes]) -> bytes:
    """The content of an entry that is whole, the one asked for, and signed with one of the secrets.

    Raises:
      NotUsable: it is not.
    """
    magic, *lines = data.split(b"\n", _HEAD_LINES)
    if magic != head[0].encode():
        raise NotUsable("format", "is not an entry of this version of pyjax")
    if len(lines) < _HEAD_LINES:
        raise NotUsable("damaged", "is damaged")
    key, kind, target, length, signature, content = lines
    if target != head[3].encode():
        raise NotUsable("target", "is for another processor")
    if [key, kind] != [part.encode() for part in head[1:3]]:
        raise NotUsable("key", "holds the code of another program")
    if length != b"%d" % len(content):
        raise NotUsable("damaged", "is damaged")
    signed = data[: len(data) - len(content) - len(signature) - 1]
    for secret in secrets:
        if hmac.compare_digest(_signature(secret, signed, content), signature):
            return content
    raise NotUsable("damaged", "is damaged")


def _signature(secret: bytes, lines: bytes, content: bytes) -> bytes:
    signature = hmac.new(secret, lines, "sha256")
    signature.update(content)
    return signature.hexdigest().encode()
