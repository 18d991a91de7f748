"""Entries on disk, by keys that say everything they depend on.

Each entry is one file in `entries-1` of the cache directory (`entry_format`). It is used only if it
is a regular file of this user that nobody else can write, and what was asked for. The signature is
made with a secret that lies beside the entries and is the user's: whoever changes an entry and
computes a checksum anew has none. What is not used is said once for each kind of reason, and made
anew.

A cache can only save time: a directory that cannot be written means compiling again. Entries
appear by rename, so readers see a whole file or none, and any number of processes share the
directory. What was used longest ago goes when the limit is reached. How much there is, processes
note in a file as they write: to look at all entries takes long where there are many, and much
longer beside busy threads, which get a turn at each of them.

API
  entry_key(*parts) -> str
  load(key, kind, target) -> bytes | None      store(key, kind, target, content) -> bool
  refuse(key, kind, why)                       what was loaded cannot be used after all
  status() -> CacheStatus                      clear() -> int
  entries(target) -> (key, kind, content) of each
Errors: PersistentCacheError, if `raise_errors` is set.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from xla_backend.persistent.entry_format import content_of, head_of, signed_entry
from xla_backend.persistent.private_files import (
    TEMPORARY,
    NotUsable,
    check_private,
    make_private,
    read_file,
    touch,
    write_file,
)
from xla_backend.persistent.settings import (
    cache_directory,
    cache_settings,
    chosen_directory,
)
from xla_backend.process.bounded_cache import once

# Another format is another folder: files of other versions are not met.
_ENTRIES = "entries-1"
_SECRET = "secret"
_SECRET_BYTES = 32
# A byte for each entry that was used.
_HITS = "hits"
_MOST_HITS = 1 << 20
# When entries were counted last and what they had then, and the bytes of each that was written
# since; i64. Nobody locks it, so entries are counted again after a day.
_SIZES = "sizes"
_SIZE = struct.Struct("<q")
_MOST_SIZES = 1 << 20
_COUNT_SECONDS = 86_400
_LARGEST = 1 << 28
# More than the lines have that say what an entry is.
_HEAD_BYTES = 1 << 12
_NAME = re.compile(r"([0-9a-f]{64})\.([a-z]+)")
# Temporary files of processes that ended in the middle of writing.
_STALE_SECONDS = 3600.0
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
    _APPEND |= getattr(os, _name, 0)

_warned: set[str] = set()


class PersistentCacheError(RuntimeError):
    """The persistent cache, or an entry of it, cannot be used; only raised on demand."""


class CacheStatus(NamedTuple):
    """What the cache holds.

    Fields:
      directory: where it is; None if this user has no place for one.
      enabled: whether this process uses it.
      entries, bytes: of all entries; kinds: their number by kind.
      hits: how often an entry was used, by any process, since the cache was cleared.
      limit: bytes it may hold; None for any number.
    """

    directory: str | None
    enabled: bool
    entries: int
    bytes: int
    kinds: dict[str, int]
    hits: int
    limit: int | None


class _Written:
    """What this process knows of the size of a directory."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.since = 0  # bytes written since the files were counted


_written: dict[Path, _Written] = {}


def entry_key(*parts: str) -> str:
    """The digest of all that an entry depends on.

    >>> len(entry_key("a", "bc")), entry_key("a", "bc") == entry_key("ab", "c")
    (64, False)
    """
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()


def load(key: str, kind: str, target: str) -> bytes | None:
    """The content stored under this key, or None if there is none that may be used.

    Raises:
      PersistentCacheError: there is one that may not be used, and the settings say so.
    """
    directory = _directory()
    if directory is None:
        return None
    path = _path(directory, key, kind)
    try:
        check_private(os.path.dirname(path))
        data = read_file(path, _LARGEST)
        content = content_of(data, head_of(key, kind, target), _secrets_of(directory))
    except FileNotFoundError:
        return None
    except NotUsable as reason:
        why, sentence = reason.args
        _report(why, f"{path} {sentence}: it is compiled again")
        return None
    except OSError as error:
        _report("unreadable", f"{path} cannot be read ({error.strerror}): it is compiled again")
        return None
    with suppress(OSError):  # order of eviction, statistics: a read-only cache is still a cache
        touch(path)
        _count_hit(directory)
    return content


def store(key: str, kind: str, target: str, content: bytes) -> bool:
    """Keeps an entry; returns False where the directory cannot be used or written, and for what is
    larger than the limit.

    Raises:
      PersistentCacheError: it cannot be written, and the settings say so.
    """
    directory = _directory()
    if directory is None:
        return False
    path = _path(directory, key, kind)
    try:
        # Anew each time: somebody may have removed the directory, and made another.
        folder = directory / _ENTRIES
        make_private(directory, folder)
        head = head_of(key, kind, target)
        data = signed_entry(_secret(directory, anew=True), head, content)
        if len(data) > _LARGEST or not _make_room(folder, len(data)):
            return False
        write_file(path, data)
        _note_size(directory, len(data))
    except NotUsable as reason:
        _report(reason.args[0], f"{path} is not kept: {reason.args[1]}")
        return False
    except OSError as error:
        _report("write", f"{path} cannot be written ({error.strerror}): it is not kept")
        return False
    return True


def refuse(key: str, kind: str, why: str) -> None:
    """Say that an entry that is whole cannot be used, and why.

    Raises:
      PersistentCacheError: if the settings say so.
    """
    _report("content", f"the entry {key}.{kind} {why}: it is compiled again")


def entries(target: str) -> Iterator[tuple[str, str, bytes]]:
    """Key, kind and content of all entries for a target."""
    directory = _directory()
    found = [] if directory is None else _files(directory / _ENTRIES)
    for _, _, path in sorted(found):
        key, kind = os.path.basename(path).split(".")
        with open(path, "rb") as file:
            is_of_target = file.read(_HEAD_BYTES).split(b"\n")[3:4] == [target.encode()]
        content = load(key, kind, target) if is_of_target else None
        if content is not None:
            yield key, kind, content


def status() -> CacheStatus:
    """What the cache holds now."""
    settings = cache_settings()
    directory = _directory()
    kinds: dict[str, int] = {}
    total = hits = 0
    if directory is not None:
        for _, size, path in _files(directory / _ENTRIES):
            kind = Path(path).suffix.removeprefix(".")
            kinds[kind] = kinds.get(kind, 0) + 1
            total += size
        with suppress(OSError):
            hits = os.stat(directory / _HITS, follow_symlinks=False).st_size
    where = None if directory is None else str(directory)
    entries = sum(kinds.values())
    limit = settings.limit
    return CacheStatus(where, directory is not None, entries, total, kinds, hits, limit)


def clear() -> int:
    """Delete all entries; returns how many there were. Other files stay."""
    directory = _directory()
    if directory is None:
        return 0
    deleted = 0
    for _, _, path in _files(directory / _ENTRIES):
        with suppress(FileNotFoundError):
            os.unlink(path)
            deleted += 1
    for name in (_HITS, _SIZES):
        with suppress(OSError):
            os.unlink(directory / name)
    _written.pop(directory / _ENTRIES, None)
    return deleted


# -- entries ---------------------------------------------------------------------------------------


def _path(directory: Path, key: str, kind: str) -> str:
    return os.path.join(directory, _ENTRIES, f"{key}.{kind}")


def _secrets_of(directory: Path) -> Iterator[bytes]:
    """What is known, and what is there: another process may have made the directory again."""
    yield _secret(directory, anew=False)
    yield _secret(directory, anew=True)


_secrets: dict[Path, bytes] = {}


def _secret(directory: Path, anew: bool) -> bytes:
    """What entries are signed with; made once for a directory, by whoever comes first. `anew`:
    read it again."""
    known = None if anew else _secrets.get(directory)
    if known is not None:
        return known
    path = directory / _SECRET
    for _ in range(2):
        with suppress(FileNotFoundError):
            try:
                secret = read_file(path, _SECRET_BYTES)
            except NotUsable as reason:
                raise NotUsable("secret", f"cannot be checked: {path} {reason.args[1]}") from None
            if len(secret) == _SECRET_BYTES:
                _secrets[directory] = secret
                return secret
            os.unlink(path)
        _make_secret(path)
    raise NotUsable("secret", f"cannot be checked: {path} is damaged")


def _make_secret(path: Path) -> None:
    """Of several processes that come first, one makes it."""
    mine = path.with_name(f"{TEMPORARY}{os.urandom(8).hex()}")
    write_file(mine, os.urandom(_SECRET_BYTES))
    try:
        os.link(mine, path)
    except FileExistsError:
        os.unlink(mine)
    except OSError:  # a file system without links: the last one wins
        os.replace(mine, path)
    else:
        os.unlink(mine)


def _count_hit(directory: Path) -> None:
    handle = os.open(os.path.join(directory, _HITS), _APPEND, 0o600)
    try:
        os.write(handle, b"h")
    finally:
        os.close(handle)


# -- the directory ---------------------------------------------------------------------------------


def _directory() -> Path | None:
    """The cache directory, if there is one that can be used."""
    if not cache_settings().enabled:
        return None
    try:
        directory = cache_directory()
    except FileNotFoundError:
        _report(
            "folder",
            f"the cache directory {chosen_directory()} is relative to a working directory that "
            "was deleted: nothing is kept on disk",
        )
        return None
    except RuntimeError as error:  # `~` of a user who has no home
        _report(
            "folder",
            f"the cache directory {chosen_directory()} cannot be used ({error}): nothing is kept "
            "on disk",
        )
        return None
    return None if directory is None else _checked(directory, cache_settings().raise_errors)


@once
def _checked(directory: Path, raise_errors: bool) -> Path | None:
    """Whether a directory can be used. (Whoever wants errors gets them at the first use after
    asking, too.)"""
    try:
        make_private(directory, directory / _ENTRIES)
    except NotUsable as reason:
        _report("folder", f"the cache directory {reason.args[1]}: nothing is kept on disk")
        return None
    except (OSError, ValueError) as error:  # ValueError: no path has such characters
        # A home that cannot be written is common; a directory that somebody chose is not.
        if chosen_directory():
            why = error.strerror if isinstance(error, OSError) else error
            _report(
                "folder",
                f"the cache directory {directory} cannot be used ({why}): nothing is kept on disk",
            )
        return None
    return directory


def _report(kind: str, message: str) -> None:
    """Warn, once for each kind of reason, or raise."""
    if cache_settings().raise_errors:
        raise PersistentCacheError(
            f"{message}\n  This is an error because jax_raise_persistent_cache_errors is set; else "
            "it would be a warning.\n  Mend or delete what is named, or unset the option."
        )
    if kind not in _warned:
        _warned.add(kind)
        warnings.warn(message, RuntimeWarning, stacklevel=4)


# -- the limit -------------------------------------------------------------------------------------


def _files(folder: Path) -> list[tuple[int, int, str]]:
    """Time of last use, size and path of every entry, and of what was left behind."""
    files = []
    stale = time.time() - _STALE_SECONDS
    with suppress(FileNotFoundError):
        for entry in os.scandir(folder):
            with suppress(FileNotFoundError):
                facts = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(facts.st_mode):
                    continue
                if entry.name.startswith(TEMPORARY):
                    if facts.st_mtime < stale:
                        os.unlink(entry.path)
                elif _NAME.fullmatch(entry.name):
                    files.append((facts.st_mtime_ns, facts.st_size, entry.path))
    return files


def _make_room(folder: Path, size: int) -> bool:
    """Delete what was used longest ago until an entry of `size` fits; False if it never will.

    What all processes have noted is read when this one writes its first entry, and when it has
    written a sixteenth of the limit.
    """
    limit = cache_settings().limit
    if limit is None:
        return True
    if size > limit:
        return False
    known = _written.get(folder)
    if known is None or known.since > limit // 16:
        noted = _noted_size(folder.parent)
        known = None if noted is None else _Written(noted)
    if known is None or known.total + size > limit:
        known = _Written(_evict(folder, limit - size))
    _written[folder] = known
    known.total += size
    known.since += size
    return True


def _noted_size(directory: Path) -> int | None:
    """Bytes of all entries, by what was noted; None if they are to be counted."""
    try:
        data = read_file(directory / _SIZES, _MOST_SIZES)
        counted, *sizes = [number for (number,) in _SIZE.iter_unpack(data)]
    except (OSError, NotUsable, ValueError, struct.error):
        return None
    if not 0 <= time.time() - counted < _COUNT_SECONDS or min(sizes, default=-1) < 0:
        return None
    return sum(sizes)


def _note_size(directory: Path, size: int) -> None:
    """An entry of `size` bytes was written."""
    with suppress(OSError):  # the next process counts
        handle = os.open(directory / _SIZES, _APPEND & ~os.O_CREAT)
        try:
            os.write(handle, _SIZE.pack(size))
        finally:
            os.close(handle)


def _evict(folder: Path, room: int) -> int:
    """What `_evicted` does; the result is noted for the processes that come."""
    total = _evicted(folder, room)
    with suppress(OSError, NotUsable):  # the next process counts again
        write_file(folder.parent / _SIZES, _SIZE.pack(int(time.time())) + _SIZE.pack(total))
    return total


def _evicted(folder: Path, room: int) -> int:
    """Make the entries fit into `room` bytes, and some less if they do not: the next one shall not
    have to count again. Returns how many there are."""
    files = _files(folder)
    total = sum(size for _, size, _ in files)
    if total <= room:
        return total
    for _, size, path in sorted(files):
        if total <= room - room // 8:
            break
        with suppress(FileNotFoundError):
            os.unlink(path)
        total -= size
    hits = folder.parent / _HITS
    with suppress(OSError):
        if os.stat(hits, follow_symlinks=False).st_size > _MOST_HITS:
            os.unlink(hits)
    return total
