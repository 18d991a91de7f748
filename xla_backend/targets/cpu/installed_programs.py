"""Programs that come with the installation: eager operations on arrays of any size.

Their packs (`persistent.installed`) are apart from those of library routines: programs depend on
all of the compiler's sources, and on more versions. Each has the key and the bytes that it would
have in the user's cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial

import numpy as np

from xla_backend.llvm.target import TargetInfo, levels_of
from xla_backend.llvm.versions import llvm_version
from xla_backend.persistent import installed
from xla_backend.persistent.sources import source_digest
from xla_backend.persistent.store import entry_key
from xla_backend.process.bounded_cache import once

PREFIX = "programs-"
# Of entries that programs are.
KINDS = ("elementwise", "classes", "program")
_DIGITS = 16


@cache
def library_versions() -> str:
    """Of what compiles and runs programs, beside the compiler's own sources."""
    return f"numpy {np.__version__}, Python {sys.version_info[:2]}, {llvm_version()}"


@once
def programs_pack_of(target: TargetInfo) -> str | None:
    """The name of the pack of a target; None if the sources cannot be told."""
    sources = source_digest()
    if sources is None:
        return None
    made_with = entry_key(sources, target.key, library_versions())
    return f"{PREFIX}{sources[:_DIGITS]}-{made_with[:_DIGITS]}"


def load_installed_program(
    key: Callable[[TargetInfo], str], target: TargetInfo, kind: str
) -> bytes | None:
    """What is installed for a target, or for a level of it, under the key that it has there."""
    for each in (target, *levels_of(target)):
        pack = programs_pack_of(each)
        if pack is None:
            return None
        found = installed.load(pack, partial(key, each), kind, each.key)
        if found is not None:
            return found
    return None
