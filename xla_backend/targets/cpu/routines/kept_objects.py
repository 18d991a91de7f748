"""Object code of texts that follow from the compiler's own sources: found on disk, in the user's
cache or with the installation, without writing the text again, which would take longer than
everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.llvm.installed_code import SOURCES, load_installed
from xla_backend.llvm.kept_code import (
    load_object,
    put_together,
    store_object,
    taken_apart,
)
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.versions import llvm_version
from xla_backend.persistent.sources import source_digest, still_hold
from xla_backend.persistent.store import entry_key
from xla_backend.process.on_first_use import on_first_use

_compile_object = on_first_use("xla_backend.llvm.objects", "compile_object")
# Facts: one module that is linked into this process, and a group's modules.
MODULE, PARTS = "True", "parts"


def kept_object(
    name: str, target: TargetInfo, text: Callable[[], str], *facts: str, jit: bool = True
) -> bytes:
    """Object code of a text, from disk if it is there.

    Args:
      name, target, facts: all that the text depends on beside the sources.
      text: writes it.
      jit: as in `compile_object`.
    """
    make = lambda: [_compile_object(text(), target, jit=jit)]
    (code,) = kept_objects(name, target, make, str(jit), *facts)
    return code


def kept_objects(
    name: str, target: TargetInfo, make: Callable[[], Sequence[bytes]], *facts: str
) -> Sequence[bytes]:
    """The same of several modules, which `make` writes and compiles."""
    found = found_objects(name, target, *facts)
    if found is not None:
        return found
    made = make()
    if still_hold():
        store_object(kept_key(name, target, *facts), target, put_together(made))
    return made


def found_objects(name: str, target: TargetInfo, *facts: str) -> Sequence[bytes] | None:
    """The same, if they are on disk."""
    key = lambda target: kept_key(name, target, *facts)
    # Who has compiled them ahead finds them there, and the other way round nothing is lost.
    kept = load_installed(key, target)
    if kept is None:
        kept = load_object(key(target), target)
    return None if kept is None else taken_apart(kept)


def is_installed(name: str, target: TargetInfo, *facts: str) -> bool:
    """Whether code comes with the installation."""
    return load_installed(lambda t: kept_key(name, t, *facts), target) is not None


def kept_key(name: str, target: TargetInfo, *facts: str) -> str:
    """The key of an entry; empty if the sources cannot be told."""
    sources = source_digest(*SOURCES)
    if sources is None:
        return ""
    return entry_key("routines", name, sources, target.key, llvm_version(), *facts)
