"""Code linked into this process by LLVM: what the `loader` leaves to it.

LLJIT does it: the older MCJIT turns an unresolved symbol into a call to address zero.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm

from xla_backend.llvm.apart import apart, given_back_apart
from xla_backend.llvm.target import host_target
from xla_backend.process.forks import LINK, check_forked, take_for_forks

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

_numbers = itertools.count()
# LLJIT cannot reuse the name of a dropped library, and keeps some kilobytes of each: a linker is
# given up after this many, and goes when its last library does.
_LIBRARIES_PER_LINKER = 16
_linkers: list[tuple[Any, int]] = []  # the one in use, if any, and how many it may still link
_linker_lock = threading.Lock()
take_for_forks(_linker_lock, LINK)
# Code and its linker by the number of the library. Were they attributes of its owner, the garbage
# collector would call their finalizers when it finds the library in a cycle, on any thread.
_linked: dict[int, tuple[Any, Any]] = {}


def _linker() -> Any:
    """The LLJIT that links the next library."""
    with _linker_lock:
        if _linkers:
            linker, left = _linkers.pop()
        else:
            machine = llvm.Target.from_default_triple().create_target_machine(
                cpu=host_target().cpu,
                features=host_target().features,
                opt=1,
                codemodel="jitdefault",
            )
            linker = llvm.create_lljit_compiler(machine, suppress_errors=True)
            left = _LIBRARIES_PER_LINKER
        if left > 1:
            _linkers.append((linker, left - 1))
        return linker


@given_back_apart
class LinkedCode:
    """The code of one library, which is unmapped, on the thread that LLVM is used on, once nothing
    refers to this. `keep`: what lives at least as long."""

    _number = -1  # in `_linked`, once it is

    def __init__(self, keep: Sequence[object]) -> None:
        self._keep = keep

    def link(self, builder: llvm.JITLibraryBuilder, names: Sequence[str]) -> dict[str, int]:
        """Addresses of these names."""
        self._number = next(_numbers)
        linker = _linker()
        code = builder.link(linker, f"pyjax.{self._number}")
        _linked[self._number] = (code, linker)
        return {name: code[name] for name in names}

    def give_back(self) -> None:
        """Unmap the code, before what it stands on goes; called once this is out of use."""
        _linked.pop(self._number, None)


def link(
    objects: Sequence[bytes],
    addresses: Mapping[str, int],
    names: Sequence[str],
    keep: Sequence[object],
) -> tuple[dict[str, int], LinkedCode]:
    """Addresses of `names`, and who has the code.

    Args:
      addresses: of all that no object defines.
      keep: what must live as long as the code.
    """
    check_forked()
    builder = llvm.JITLibraryBuilder()
    for code in objects:
        builder.add_object_img(code)
    builder.add_current_process()
    for name, address in addresses.items():
        builder.import_symbol(name, address)
    for name in names:
        builder.export_symbol(name)
    linked = LinkedCode(keep)
    return apart(linked.link, builder, names), linked
