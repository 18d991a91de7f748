"""Entries that come with the installation, in packs: files that are only read, beside the package.

A pack is an index and the entries behind it, each as it would lie in the user's cache
(`entry_format`); its name says what all of them depend on, so packs of other sources or processors
are not opened. One file, because there are thousands of small entries: a process reads the index
(48 bytes for each) and the entries that it asks for.

Who can write here can write the package's own sources, so the owner does not matter and the
signature is a checksum. Options of the user's cache say nothing about these entries: they are no
cache, but a part of the installation that was compiled ahead. $PYJAX_INSTALLED_DIR names another
directory, or, empty, none. Several installations may share it: a pack says who made it, and each
removes its own.

API
  load(pack, key_there, kind, target) -> bytes | None
  write_pack(directory, pack, entries) -> path     packs(directory) -> paths
  made_here(path) -> bool                          entries_in(path) -> number
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from xla_backend.persistent.entry_format import content_of, head_of, signed_entry
from xla_backend.persistent.private_files import NotUsable, write_file
from xla_backend.persistent.settings import installed_directory
from xla_backend.persistent.store import refuse

_SUFFIX = ".pack"
_MAGIC = b"pyjax-pack-2\n\0\0\0"
# Of the index: how many records it has, and who made it; a record: key, place and size of an entry.
_HEAD = struct.Struct(f"<{len(_MAGIC)}sQ16s")
_RECORD = struct.Struct("<32sQQ")
_MOST_RECORDS = 1 << 20
_OPEN = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _OPEN |= getattr(os, _name, 0)
_NO_SECRET = b""
# This installation: where it lies.
_OWNER = hashlib.sha256(os.path.dirname(__file__).encode(errors="surrogatepass")).digest()[:16]


class Entry(NamedTuple):
    """What a pack is made of."""

    key: str
    kind: str
    target: str
    content: bytes


class _Index(NamedTuple):
    """The records of a file of so many bytes, sorted by key; `identity` tells it from one that was
    put in its place."""

    identity: tuple[int, ...]
    size: int
    records: bytes

    def is_of(self, facts: os.stat_result) -> bool:
        """Whether it is the index of the file that the system says this of."""
        return self.identity == _identity(facts)

    def find(self, key: bytes) -> tuple[int, int] | None:
        """Place and size of an entry."""
        low, high = 0, len(self.records) // _RECORD.size
        while low < high:
            middle = (low + high) // 2
            found, place, size = _RECORD.unpack_from(self.records, middle * _RECORD.size)
            if found == key:
                return place, size
            low, high = (middle + 1, high) if found < key else (low, middle)
        return None


def _identity(facts: os.stat_result) -> tuple[int, ...]:
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)


_indices: dict[str, _Index] = {}


def load(pack: str, key_there: Callable[[], str], kind: str, target: str) -> bytes | None:
    """The content that a pack has under a key; None if there is none that may be used.

    Args:
      key_there: says the key. It is asked if there is such a pack.

    Raises:
      PersistentCacheError: it is damaged, and the settings say so.
    """
    directory = installed_directory()
    if directory is None:
        return None
    path = os.path.join(directory, pack + _SUFFIX)
    known = _indices.get(path)
    key, found = "", None
    if known is not None:
        key = key_there()
        found = known.find(bytes.fromhex(key))
    try:
        if known is not None and found is None and known.is_of(os.stat(path)):
            return None  # as of most programs: it takes no other call of the system to tell
        handle = os.open(path, _OPEN)
    except OSError:  # there is none, or it is not for this user
        return None
    try:
        key = key or key_there()
        index = _index_of(handle, path)
        if index is not known:
            found = index.find(bytes.fromhex(key))
        if found is None:
            return None
        place, size = found
        data = _read(handle, size, place, index.size)
        return content_of(data, head_of(key, kind, target), (_NO_SECRET,))
    except NotUsable as reason:
        refuse(key, kind, f"of {path} {reason.args[1]}")
    except OSError as error:
        refuse(key, kind, f"of {path} cannot be read ({error.strerror})")
    finally:
        os.close(handle)
    return None


def write_pack(directory: Path, pack: str, entries: Sequence[Entry]) -> Path:
    """Make a pack, in place of what was there under this name.

    Raises:
      OSError: it cannot be written.
    """
    whole = []
    for entry in sorted(entries, key=lambda e: e.key):
        head = head_of(entry.key, entry.kind, entry.target)
        whole.append((bytes.fromhex(entry.key), signed_entry(_NO_SECRET, head, entry.content)))
    parts = [_HEAD.pack(_MAGIC, len(whole), _OWNER)]
    place = _HEAD.size + len(whole) * _RECORD.size
    for key, data in whole:
        parts.append(_RECORD.pack(key, place, len(data)))
        place += len(data)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / (pack + _SUFFIX)
    write_file(path, b"".join([*parts, *(data for _, data in whole)]), mode=0o644)
    return path


def packs(directory: Path) -> list[Path]:
    """The packs of a directory: files that begin as such, whatever else ends in the same way."""
    found = []
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        try:
            magic, _, _ = _head_of(path)
        except OSError:  # a directory, or not for this user
            continue
        if magic == _MAGIC:
            found.append(path)
    return found


def made_here(path: Path) -> bool:
    """Whether a pack was made by this installation."""
    return _head_of(path)[2] == _OWNER


def entries_in(path: Path) -> int:
    """How many entries a pack has, as it says."""
    return _head_of(path)[1]


def _head_of(path: Path) -> tuple[bytes, int, bytes]:
    with open(path, "rb") as file:
        return _unpacked(file.read(_HEAD.size))


def _index_of(handle: int, path: str) -> _Index:
    facts = os.fstat(handle)
    known = _indices.get(path)
    if known is None or not known.is_of(facts):
        whole = facts.st_size
        magic, count, _ = _unpacked(_read(handle, min(_HEAD.size, whole), 0, whole))
        size = count * _RECORD.size
        if magic != _MAGIC or count > _MOST_RECORDS or _HEAD.size + size > whole:
            raise NotUsable("damaged", "cannot be found: the file is no pack, or damaged")
        records = _read(handle, size, _HEAD.size, whole)
        known = _indices[path] = _Index(_identity(facts), whole, records)
    return known


def _unpacked(head: bytes) -> tuple[bytes, int, bytes]:
    if len(head) < _HEAD.size:
        return b"", 0, b""
    magic, count, owner = _HEAD.unpack(head)
    return magic, count, owner


def _read(handle: int, size: int, place: int, whole: int) -> bytes:
    """Bytes of a file that has `whole`. Each call of the system lets other threads have the
    interpreter, and waits for it: no more of them than it takes."""
    if place + size > whole:
        raise NotUsable("damaged", "is damaged")
    if hasattr(os, "pread"):
        return os.pread(handle, size, place)
    os.lseek(handle, place, os.SEEK_SET)
    return os.read(handle, size)
