"""A digest of the compiler's own source files: what it makes depends on them.

Reading all of them takes longer than finding a program on disk. So digests of the contents are
kept, folder by folder, under a key of what the system knows of the files: sizes, numbers and times,
also those that no program can set. Files that may have changed since this process began have none:
nobody knows which contents it runs. Modules that are loaded later may have changed in between: what
is kept under a digest is kept by `keep_for_sources`, which looks at these.
"""

from __future__ import annotations

import hashlib
import json
import marshal
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from xla_backend.persistent import store
from xla_backend.process.bounded_cache import once
from xla_backend.process.on_first_use import LOADED

_ROOT = Path(__file__).parent.parent
# Nothing that programs for CPUs are compiled with (a test looks at who imports what).
NO_PART = ("tools", "targets/gpu")
_KIND = "sources"
# Of `marshal`: the one before it wrote what objects are shared, which differs between equal values.
_FORMAT = 2
_LOADED = LOADED
# What a time on disk may lag behind: systems tick every few milliseconds, and some file systems
# keep whole seconds, or pairs of them.
_TICK = 20_000_000
_WHOLE = 1_000_000
_COARSE = 2_500_000_000


# Folder, name, size, times of modification and of change, number. No record with names: there are
# a thousand.
_File = tuple[str, str, int, int, int, int]


@once
def source_digest(*rooms: str) -> str | None:
    """Digest of the compiler's source files, or of those directly in some of its folders ("hlo",
    "targets/cpu/routines"). None if it cannot be told: there are no files, or some changed since
    this process loaded them.
    """
    digests = _digests(str(_ROOT), ("",), NO_PART)
    if digests is None:
        return None
    return _together({room: digests.get(room, "") for room in rooms} if rooms else digests)


@once
def digest_of_folders(root: str, *rooms: str) -> str | None:
    """The same of the source files of another package: of those in some of its folders, and in
    folders of these."""
    digests = _digests(root, rooms, ())
    return None if digests is None else _together(digests)


def _together(digests: dict[str, str]) -> str:
    return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()


@once
def _digests(root: str, rooms: tuple[str, ...], without: tuple[str, ...]) -> dict[str, str] | None:
    """The digest of each folder."""
    loaded = set(sys.modules)
    try:
        files = _files(root, rooms, without)
        newest = max([changed for _, _, _, _, changed, _ in files], default=None)
        if newest is None or _may_be_new(newest) or _is_stale:
            return None
        _of_digest[os.path.join(root, "")] = loaded
        facts = hashlib.sha256(marshal.dumps(files, _FORMAT)).hexdigest()
        key = store.entry_key(_KIND, root, facts)
        kept = store.load(key, _KIND, "")
        if kept is not None:
            found: dict[str, str] = json.loads(kept)
            return found
        digests = _read(root, files)
        if _files(root, rooms, without) != files:  # somebody writes to them
            return None
    except OSError:  # somebody removes them
        return None
    store.store(key, _KIND, "", json.dumps(digests).encode())
    return digests


def _may_be_new(changed: int) -> bool:
    """Whether a file of that time may have changed since this process began."""
    return changed > _LOADED - (_TICK if changed % _WHOLE else _COARSE)


# Folders of packages that a digest was taken of, with the modules that are known to be of it.
_of_digest: dict[str, set[str]] = {}
_modules = 0  # how many there were then
_is_stale = False


def still_hold() -> bool:
    """Whether digests are of all that this process has loaded till now. A module that was loaded
    after they were taken may have been edited before it was. Then there are none from now on."""
    global _modules, _is_stale
    if not _is_stale and len(sys.modules) != _modules:
        loaded = set(sys.modules)
        for root, known in tuple(_of_digest.items()):
            new = loaded - known
            if any(_is_new(sys.modules.get(name), root) for name in new):
                _is_stale = True
                for digest in (source_digest, digest_of_folders, _digests):
                    digest.clear()
            known |= new
        _modules = len(loaded)
    return not _is_stale


def _is_new(module: ModuleType | None, root: str) -> bool:
    """Whether a module of a package may have changed since this process began."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.startswith(root):
        return False
    try:
        return _may_be_new(os.stat(file).st_ctime_ns)
    except OSError:  # somebody removed it
        return True


def keep_for_sources(key: str, kind: str, target: str, content: bytes) -> bool:
    """`store.store` of what depends on the sources, as its key says; whether it is kept."""
    return still_hold() and store.store(key, kind, target, content)


def _read(root: str, files: Sequence[_File]) -> dict[str, str]:
    digests = {folder: hashlib.sha256() for folder, *_ in files}
    for folder, name, *_ in files:
        with open(os.path.join(root, folder, name), "rb", buffering=0) as file:
            content = file.read()
        digest = digests[folder]
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return {folder: digest.hexdigest() for folder, digest in digests.items()}


def _files(root: str, left: Sequence[str], without: Sequence[str]) -> list[_File]:
    """The source files in folders, and in folders of these, in a fixed order."""
    found = []
    folders = list(left)
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(root, folder) if folder else root) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith("."):  # of editors
                    continue
                if name.endswith(".py"):
                    of = os.stat(entry.path)  # `entry.stat` takes longer
                    times = of.st_mtime_ns, of.st_ctime_ns
                    found.append((folder, name, of.st_size, *times, of.st_ino))
                elif entry.is_dir() and name != "__pycache__":
                    inner = f"{folder}/{name}" if folder else name
                    if inner not in without:
                        folders.append(inner)
    found.sort()
    return found
