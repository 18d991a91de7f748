"""A digest of the compiler's own source files: what it makes depends on them.

Reading all of them takes longer than finding a program on disk. So the digest of the contents is
kept, under a key of what the system knows of the files: sizes, numbers and times, also those that
no program can set.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from xla_backend.persistent import store
from xla_backend.process.bounded_cache import once

_ROOT = Path(__file__).parent.parent
_KIND = "sources"
# When this process began to load the compiler, or a moment later.
_LOADED = time.time_ns()


@once
def source_digest(*rooms: str) -> str | None:
    """Digest of the compiler's source files, or of those directly in some of its folders ("hlo",
    "targets/cpu/routines"). None if it cannot be told: there are no files, or some changed since
    this process loaded them.
    """
    folders = [str(_ROOT / room) for room in rooms]
    return _digest(str(_ROOT), folders or [str(_ROOT)], nested=not rooms)


@once
def digest_of_folders(root: str, *rooms: str) -> str | None:
    """The same of the source files of another package: of those in some of its folders, and in
    folders of these."""
    return _digest(root, [os.path.join(root, room) for room in rooms], nested=True)


def _digest(root: str, folders: list[str], nested: bool) -> str | None:
    facts, names = [], []
    prefix = len(root) + 1
    for path, found in sorted(_sources(folders, nested)):
        if found.st_ctime_ns > _LOADED:
            return None
        name = path[prefix:]
        names.append(name)
        facts.append(
            f"{name} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
        )
    if not names:
        return None
    key = store.entry_key(_KIND, root, *facts)
    kept = store.load(key, _KIND, "")
    if kept is not None:
        return kept.decode("ascii")
    digest = hashlib.sha256()
    for name in names:
        with open(os.path.join(root, name), "rb", buffering=0) as file:
            content = file.read()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    store.store(key, _KIND, "", digest.hexdigest().encode())
    return digest.hexdigest()


def _sources(left: list[str], nested: bool) -> Iterator[tuple[str, os.stat_result]]:
    while left:
        folder = left.pop()
        for entry in os.scandir(folder):
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif nested and entry.is_dir() and entry.name != "__pycache__":
                left.append(entry.path)
