"""Object code of texts that follow from the compiler's own sources: found on disk without writing
the text again, which would take longer than everything else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.llvm import objects
from xla_backend.llvm.target import TargetInfo
from xla_backend.persistent.sources import source_digest
from xla_backend.persistent.store import entry_key

# Folders with the writers of these texts, and what they write with.
SOURCES = ("targets/cpu/routines", "llvm", "hlo")


def kept_object(
    name: str, target: TargetInfo, text: Callable[[], str], *facts: str, jit: bool = True
) -> bytes:
    """Object code of a text, from disk if it is there.

    Args:
      name, target, facts: all that the text depends on beside the sources.
      text: writes it.
      jit: as in `compile_object`.
    """
    make = lambda: [objects.compile_object(text(), target, jit=jit)]
    (code,) = kept_objects(name, target, make, str(jit), *facts)
    return code


def kept_objects(
    name: str, target: TargetInfo, make: Callable[[], Sequence[bytes]], *facts: str
) -> Sequence[bytes]:
    """The same of several modules, which `make` writes and compiles."""
    sources = source_digest(*SOURCES)
    parts = (name, sources or "", target.key, objects.llvm_version(), *facts)
    key = "" if sources is None else entry_key("routines", *parts)
    kept = objects.load_object(key, target)
    if kept is not None:
        return objects.taken_apart(kept)
    made = make()
    objects.store_object(key, target, objects.put_together(made))
    return made
