"""Object code on disk, under the LLVM text that it was made of or another key."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.versions import llvm_version
from xla_backend.persistent import store
from xla_backend.persistent.settings import cache_settings

OBJECT = "object"


def text_key(ir: str, target: TargetInfo, opt: int, jit: bool = True) -> str:
    """The key of what `compile_object` makes of a text."""
    return store.entry_key(OBJECT, ir, target.key, str(opt), str(jit), llvm_version())


def load_object(key: str, target: TargetInfo) -> bytes | None:
    """Object code that is on disk; None if there is none, or no key."""
    if not key or not cache_settings().internal:
        return None
    return store.load(key, OBJECT, target.key)


def store_object(key: str, target: TargetInfo, data: bytes) -> None:
    """Keep object code on disk, if there is a key."""
    if key and cache_settings().internal:
        store.store(key, OBJECT, target.key, data)


def put_together(objects: Sequence[bytes]) -> bytes:
    """Several objects as one entry on disk."""
    return struct.pack(f"<Q{len(objects)}Q", len(objects), *map(len, objects)) + b"".join(objects)


def taken_apart(content: bytes) -> list[bytes]:
    """The objects of an entry."""
    (count,) = struct.unpack_from("<Q", content)
    sizes = struct.unpack_from(f"<{count}Q", content, 8)
    ends = itertools.accumulate(sizes, initial=8 * (count + 1))
    return [content[start:end] for start, end in itertools.pairwise(ends)]
