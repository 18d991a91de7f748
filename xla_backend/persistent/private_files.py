"""Files and directories that nobody but this user can have written.

What is read here is run, so a file is taken only if it is regular, the user's own, and closed to
writing by others, and a directory only if nobody else can put something into it. Nothing that is
no file is opened, and no link is followed, but for the cache directory itself.

API
  read_file(path, largest) -> bytes       write_file(path, data)      both whole, or not at all
  make_private(directory, *folders)       check_private(folder)
Errors: NotUsable (args: the kind of reason, and the sentence), OSError.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path

# Of files that are being written.
TEMPORARY = ".new-"
# Not on every system.
_READ_FILE = os.O_RDONLY
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _READ_FILE |= getattr(os, _name, 0)
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
for _name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY"):
    _NEW_FILE |= getattr(os, _name, 0)


class NotUsable(Exception):
    """Why something is not used; args: kind of reason, for saying it once, and the sentence."""


def read_file(path: Path | str, largest: int) -> bytes:
    """The bytes of a regular file of this user; nothing that is no file is waited for.

    Raises:
      NotUsable: it is no file, too large, or may be written by others.
      OSError: there is none, or it cannot be read.
    """
    try:
        handle = os.open(path, _READ_FILE)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotUsable("link", "is a symbolic link") from None
        if error.errno in (errno.ENXIO, errno.ENODEV):  # a socket, a device without a driver
            raise NotUsable("kind", "is not a regular file") from None
        raise
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            raise NotUsable("kind", "is not a regular file")
        _check_owner(facts)
        if facts.st_size > largest:
            raise NotUsable("size", f"has more than {largest} bytes")
        data = b""
        while True:
            if len(data) >= facts.st_size:
                break
            piece = os.read(handle, facts.st_size - len(data))
            if not piece:
                break
            data += piece
        return data
    finally:
        os.close(handle)


def write_file(path: Path | str, data: bytes, mode: int = 0o600) -> None:
    """Make a file by rename, so that readers see a whole one or none. Its time is now, to the
    nanosecond: the system's own times are the same for files that are made one after another.

    Raises:
      NotUsable: there is a directory with something in it.
      OSError: it cannot be written.
    """
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, f"{TEMPORARY}{os.urandom(8).hex()}")
    handle = os.open(temporary, _NEW_FILE, mode)
    try:
        with open(handle, "wb", buffering=0) as file:
            left = memoryview(data)
            while True:
                if not left:
                    break
                left = left[file.write(left) :]
        touch(temporary)
        _replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def touch(path: Path | str) -> None:
    """Say that a file was used now."""
    now = time.time_ns()
    os.utime(path, ns=(now, now))


def _replace(temporary: str, path: Path | str) -> None:
    """Rename, also over an empty directory."""
    try:
        os.replace(temporary, path)
    except IsADirectoryError:
        try:
            os.rmdir(path)
        except OSError as error:
            raise NotUsable(
                "directory", f"is a directory that cannot be removed ({error.strerror})"
            ) from None
        os.replace(temporary, path)


def _check_owner(facts: os.stat_result) -> None:
    """Refuse what others than this user own or may write to."""
    if not hasattr(os, "geteuid"):
        return
    if facts.st_uid != os.geteuid():
        raise NotUsable("owner", f"belongs to user {facts.st_uid}, not to {os.geteuid()}")
    if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(facts.st_mode)
        raise NotUsable("mode", f"may be written by others (mode {mode:o}; chmod go-w mends it)")


def check_private(folder: Path | str, links: bool = False) -> None:
    """Refuse a directory that others could put code into. `links`: it may be a link to one.

    Raises:
      NotUsable: it is none, or others may write to it.
      OSError: there is nothing.
    """
    facts = os.stat(folder, follow_symlinks=links)
    if not stat.S_ISDIR(facts.st_mode):
        raise NotUsable("no folder", "is not a directory")
    _check_owner(facts)


def make_private(directory: Path, *folders: Path) -> None:
    """Make the cache directory, which may be a link to one, and folders in it, where missing.

    Raises:
      NotUsable: others could put code into one.
      OSError: one cannot be made.
    """
    for folder in (directory, *folders):
        links = folder is directory
        try:
            try:
                check_private(folder, links)
            except FileNotFoundError:
                folder.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    os.mkdir(folder, 0o700)
                check_private(folder, links)
        except NotUsable as reason:
            kind, why = reason.args
            raise NotUsable(kind, f"{folder} {why}") from None
