"""Object code kept on disk, keyed by everything that it depends on.

The directory is $PYJAX_CACHE_DIR, else $XDG_CACHE_HOME/pyjax, else ~/.cache/pyjax. What lies there
is loaded and run, so the directory must be the user's own, and nobody else may write to it (it is
made so); files are taken only if they are the user's, regular, and say in a digest that they are
whole and that they are for the key that is asked for. Anything else is not used, with one warning
of each kind, and written anew where that is possible.

A cache can only save time: a directory that cannot be written means compiling again. Files appear
by rename, so readers see a whole file or none, and processes may share the directory. Each of its
folders keeps what was used last, up to a limit.

API
  object_key(ir, target, opt) -> str
  load(key) -> bytes | None          store(key, data) -> bool (False: not kept)
  cache_directory() -> Path | None
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from xla_backend.llvm.target import TargetInfo
from xla_backend.process.bounded_cache import once

# Another format is another folder: files of other versions are not met.
_OBJECTS = "objects-2"
_MAGIC = b"pyjax-object-2\n"
_DIGEST_BYTES = 32
_KEY_BYTES = 64
_LARGEST_FILE = 1 << 28
# 256 folders: 1 GiB in all, tens of thousands of programs.
_FOLDER_BYTES = 4 << 20
# Not on every system.
_READ_FILE = os.O_RDONLY
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _READ_FILE |= getattr(os, _name, 0)

_warned: set[str] = set()


class _NotUsable(Exception):
    """Why something is not used; args: kind of reason, for saying it once, and the sentence."""


def cache_directory() -> Path | None:
    """Where object code is kept; None if this user has no place for it."""
    chosen = os.environ.get("PYJAX_CACHE_DIR")
    if chosen:
        try:
            return Path(chosen).absolute()
        except FileNotFoundError:
            _warn(
                "folder",
                f"PYJAX_CACHE_DIR={chosen} is relative to a working directory that was "
                "deleted: nothing is kept on disk",
            )
            return None
    base = os.environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):  # the XDG specification: ignore relative paths
        return Path(base) / "pyjax"
    home = os.path.expanduser("~")
    return Path(home) / ".cache" / "pyjax" if os.path.isabs(home) else None


def object_key(ir: str, target: TargetInfo, opt: int) -> str:
    """The digest of the text and of all that turns it into this object code."""
    parts = (
        ir,
        target.triple,
        target.cpu,
        target.features,
        str(opt),
        llvmlite.__version__,
        str(llvm.llvm_version_info),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load(key: str) -> bytes | None:
    """The object stored under this key, or None if there is none that may be used."""
    objects = _objects()
    if objects is None:
        return None
    folder = objects / key[:2]
    path = folder / f"{key}.o"
    try:
        _check_private(folder)
        return _content(_read(path), key)
    except FileNotFoundError:
        return None
    except _NotUsable as reason:
        kind, why = reason.args
        _warn(kind, f"{path} {why}: it is compiled again")
    except OSError as error:
        _warn("unreadable", f"{path} cannot be read ({error.strerror}): it is compiled again")
    return None


def store(key: str, data: bytes) -> bool:
    """Keeps an object; returns False where the directory cannot be used or written."""
    objects = _objects()
    if objects is None:
        return False
    path = objects / key[:2] / f"{key}.o"
    head = _MAGIC + key.encode()
    temporary = None
    try:
        # Anew each time: somebody may have removed the directory, and made another.
        _make_private(objects.parent, objects, path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(head + _digest(key, data) + data)
        _replace(temporary, path)
        _trim(path.parent)
    except (OSError, _NotUsable):
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        return False
    return True


def _replace(temporary: str, path: Path) -> None:
    """Rename, also over an empty directory."""
    try:
        os.replace(temporary, path)
    except IsADirectoryError:
        try:
            os.rmdir(path)
        except OSError as error:
            _warn("directory", f"{path} is a directory that cannot be removed ({error.strerror})")
            raise
        os.replace(temporary, path)


def _digest(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + data).digest()


def _content(data: bytes, key: str) -> bytes:
    """The object code in a file that is whole and belongs to the key."""
    head = len(_MAGIC) + _KEY_BYTES
    if not data.startswith(_MAGIC):
        raise _NotUsable("format", "is not object code of this version of pyjax")
    if data[len(_MAGIC) : head] != key.encode():
        raise _NotUsable("key", "holds the code of another program")
    content = data[head + _DIGEST_BYTES :]
    if data[head : head + _DIGEST_BYTES] != _digest(key, content):
        raise _NotUsable("damaged", "is damaged")
    return content


def _read(path: Path) -> bytes:
    """The bytes of a regular file of this user; nothing that is no file is waited for."""
    try:
        handle = os.open(path, _READ_FILE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _NotUsable("link", "is a symbolic link") from None
        if error.errno in (errno.ENXIO, errno.ENODEV):  # a socket, a device without a driver
            raise _NotUsable("kind", "is not a regular file") from None
        raise
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise _NotUsable("kind", "is not a regular file")
        _check_owner(facts)
        if facts.st_size > _LARGEST_FILE:
            raise _NotUsable("size", f"has more than {_LARGEST_FILE} bytes")
        data = b""
        while len(data) < facts.st_size:
            piece = os.read(handle, facts.st_size - len(data))
            if not piece:
                break
            data += piece
        with suppress(OSError):  # only the order of eviction: a read-only cache is still a cache
            os.utime(handle if os.utime in os.supports_fd else path)
        return data
    finally:
        os.close(handle)


def _check_owner(facts: os.stat_result) -> None:
    """Refuse what others than this user own or may write to."""
    if not hasattr(os, "geteuid"):
        return
    if facts.st_uid != os.geteuid():
        raise _NotUsable("owner", f"belongs to user {facts.st_uid}, not to {os.geteuid()}")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(facts.st_mode)
        raise _NotUsable("mode", f"may be written by others (mode {mode:o}; chmod go-w mends it)")


def _check_private(folder: Path, links: bool = False) -> None:
    """Refuse a directory that others could put code into. `links`: it may be a link to one."""
    facts = os.stat(folder, follow_symlinks=links)
    if not stat.S_ISDIR(facts.st_mode):
        raise _NotUsable("no folder", "is not a directory")
    _check_owner(facts)


def _make_private(directory: Path, *folders: Path) -> None:
    """Make the cache directory, which may be a link to one, and folders in it, if they are not
    there; refuse those that others could put code into."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    for folder in (directory, *folders):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        try:
            _check_private(folder, links=folder is directory)
        except _NotUsable as reason:
            kind, why = reason.args
            raise _NotUsable(kind, f"{folder} {why}") from None


def _objects() -> Path | None:
    """The folder of all objects, if there is one that can be used."""
    directory = cache_directory()
    return None if directory is None else _checked_objects(directory)


@once
def _checked_objects(directory: Path) -> Path | None:
    objects = directory / _OBJECTS
    try:
        _make_private(directory, objects)
    except _NotUsable as reason:
        _warn("folder", f"the cache directory {reason.args[1]}: nothing is kept on disk")
        return None
    except OSError as error:
        # A home that cannot be written is common; a directory that somebody chose is not.
        if os.environ.get("PYJAX_CACHE_DIR"):
            _warn(
                "folder",
                f"the cache directory {directory} of PYJAX_CACHE_DIR cannot be used "
                f"({error.strerror}): nothing is kept on disk",
            )
        return None
    return objects


def _warn(kind: str, message: str) -> None:
    if kind not in _warned:
        _warned.add(kind)
        warnings.warn(message, RuntimeWarning, stacklevel=3)


def _trim(folder: Path) -> None:
    """Deletes the files used longest ago until the rest fits; others may delete them too."""
    files = []
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            facts = entry.stat(follow_symlinks=False)
            if not stat.S_ISDIR(facts.st_mode):
                files.append((facts.st_mtime, facts.st_size, entry.path))
    excess = sum(size for _, size, _ in files) - _FOLDER_BYTES
    for _, size, path in sorted(files):
        if excess <= 0:
            return
        with suppress(FileNotFoundError):
            os.unlink(path)
        excess -= size
