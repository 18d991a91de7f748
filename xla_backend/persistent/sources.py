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
    facts, names = [], []
    prefix = len(str(_ROOT)) + 1
    for path, found in sorted(_sources(rooms)):
        if found.st_ctime_ns > _LOADED:
            return None
        name = path[prefix:]
        names.append(name)
        facts.append(
            f"{name} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}"
        )
    if not names:
        return None
    key = store.entry_key(_KIND, str(_ROOT), *facts)
    kept = store.load(key, _KIND, "")
    if kept is not None:
        return kept.decode("ascii")
    digest = hashlib.sha256()
    for name in names:
        with open(os.path.join(_ROOT, name), "rb", buffering=0) as file:
            content = file.read()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    store.store(key, _KIND, "", digest.hexdigest().encode())
    return digest.hexdigest()


def _sources(rooms: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result]]:
    left = [str(_ROOT / room) for room in rooms] or [str(_ROOT)]
    while left:
        folder = left.pop()
        for entry in os.scandir(folder):
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif not rooms and entry.is_dir() and entry.name != "__pycache__":
                left.append(entry.path)
