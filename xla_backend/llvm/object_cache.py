"""Object code kept on disk, keyed by everything that it depends on.

The directory is $PYJAX_CACHE_DIR, else $XDG_CACHE_HOME/pyjax, else ~/.cache/pyjax. A cache can
only save time: a directory that cannot be written, or a damaged file, means compiling again.
Files carry a digest of their content, so a torn or truncated one is never linked; they appear by
rename, so readers see a whole file or none, and processes may share the directory. Each of its
folders keeps what was used last, up to a limit.

API
  object_key(ir, target, opt) -> str
  load(key) -> bytes | None          store(key, data) -> bool (False: not kept)
  cache_directory() -> Path
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from xla_backend.llvm.target import TargetInfo

_MAGIC = b"pyjax-object-1\n"
_DIGEST_BYTES = 32
# 256 folders: 1 GiB in all, tens of thousands of programs.
_FOLDER_BYTES = 4 << 20


def cache_directory() -> Path:
    chosen = os.environ.get("PYJAX_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pyjax"


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


def _path(key: str) -> Path:
    return cache_directory() / "objects" / key[:2] / f"{key}.o"


def load(key: str) -> bytes | None:
    """The object stored under this key, or None if there is none or it is damaged."""
    try:
        data = _path(key).read_bytes()
    except OSError:
        return None
    head = len(_MAGIC) + _DIGEST_BYTES
    if not data.startswith(_MAGIC) or len(data) <= head:
        return None
    content = data[head:]
    if hashlib.sha256(content).digest() != data[len(_MAGIC) : head]:
        return None
    with suppress(OSError):  # only the order of eviction: a read-only cache is still a cache
        os.utime(_path(key))
    return content


def store(key: str, data: bytes) -> bool:
    """Keeps an object; returns False where the directory cannot be written."""
    path = _path(key)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(data).digest() + data)
        os.replace(temporary, path)
        _trim(path.parent)
    except OSError:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        return False
    return True


def _trim(folder: Path) -> None:
    """Deletes the files used longest ago until the rest fits; others may delete them too."""
    files = []
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            facts = entry.stat()
            files.append((facts.st_mtime, facts.st_size, entry.path))
    excess = sum(size for _, size, _ in files) - _FOLDER_BYTES
    for _, size, path in sorted(files):
        if excess <= 0:
            return
        with suppress(FileNotFoundError):
            os.unlink(path)
        excess -= size
