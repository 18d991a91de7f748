"""Object code that comes with the installation: of texts that the compiler's own sources say.

Packs of it (`persistent.installed`) are made for this machine's processor, or for levels of x86-64.
Code of a level whose features this machine has is taken where there is none for the machine itself:
it is written in the same way, so its results are the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xla_backend.llvm.kept_code import OBJECT
from xla_backend.llvm.target import TargetInfo, levels_of
from xla_backend.llvm.versions import llvm_version
from xla_backend.persistent import installed
from xla_backend.persistent.sources import source_digest
from xla_backend.persistent.store import entry_key
from xla_backend.process.bounded_cache import once

# Folders with the writers of such texts, and what they write with.
SOURCES = ("targets/cpu/routines", "llvm", "hlo")
_DIGITS = 16


@once
def pack_of(target: TargetInfo) -> str | None:
    """The name of the pack of a target; None if the sources cannot be told."""
    sources = source_digest(*SOURCES)
    if sources is None:
        return None
    return f"{sources[:_DIGITS]}-{entry_key(sources, target.key, llvm_version())[:_DIGITS]}"


def load_installed(
    key: Callable[[TargetInfo], str], target: TargetInfo, kind: str = OBJECT
) -> bytes | None:
    """What is installed for a target, or for a level of it, under the key that it has there."""
    for each in (target, *levels_of(target)):
        pack = pack_of(each)
        if pack is None:
            return None
        found = installed.load(pack, partial(key, each), kind, each.key)
        if found is not None:
            return found
    return None
