"""Object code linked into this process.

API
  Library(object_code, symbols={name: address}, keep=())           links an object or several
      .address(name) -> Address     .addresses() -> dict
      .function(name, restype, *argtypes) -> a ctypes function (drops the GIL while it runs)
  Address(number, owner)                                           an int that keeps `owner` alive
  compile_library(ir, symbols={}, cache=False, keep=()) -> Library for this machine, from text
  libc_symbol(name) -> int | None                                  address of a C library function
Errors: UnresolvedSymbolError (names what nobody provides).

Who can call code owns it: an address of code is an `Address`, a function has its library, and a
library keeps the addresses it was linked with. Code is unmapped soon after the last of them is
gone.

Linking uses LLJIT: the older MCJIT turns an unresolved symbol into a call to address zero.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from xla_backend.llvm.apart import apart, given_back_apart
from xla_backend.llvm.objects import compile_object, object_symbols
from xla_backend.llvm.target import host_target
from xla_backend.process.forks import LINK, check_forked, take_for_forks

_numbers = itertools.count()
# LLJIT cannot reuse the name of a dropped library, and keeps some kilobytes of each: a linker is
# given up after this many, and goes when its last library does.
_LIBRARIES_PER_LINKER = 16
_linkers: list[tuple[Any, int]] = []  # the one in use, if any, and how many it may still link
_linker_lock = threading.Lock()
take_for_forks(_linker_lock, LINK)
# Code and its linker by the number of the library. Were they attributes of it, then the garbage
# collector would call their finalizers when it finds the library in a cycle, on any thread.
_linked: dict[int, tuple[Any, Any]] = {}


class UnresolvedSymbolError(LookupError):
    """Object code refers to functions that nobody provides."""


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


class Address(int):
    """An address of something in memory that stays there as long as this number exists."""

    owner: object

    def __new__(cls, number: int, owner: object) -> Address:
        address = super().__new__(cls, number)
        address.owner = owner
        return address


@cache
def _prototype(keeps_gil: bool, restype: Any, *argtypes: Any) -> Any:
    """A type of ctypes functions. The code has some few; making one takes longer than a call."""
    return (ctypes.PYFUNCTYPE if keeps_gil else ctypes.CFUNCTYPE)(restype, *argtypes)


@given_back_apart
class Library:
    """An object linked into this process. The code lives as long as this object does, and this
    object as long as anybody has an address or a function of it."""

    _number = -1  # in `_linked`, once it is

    def __init__(
        self,
        object_code: bytes | Sequence[bytes],
        symbols: Mapping[str, int] | None = None,
        keep: Iterable[object] = (),
        exports: Iterable[str] | None = None,
    ) -> None:
        """Links.

        Args:
          object_code: what compile_object gave, or compile_objects.
          symbols: addresses of the functions and constants the code refers to; those that are
            an `Address` keep their owners as long as the code lives.
          keep: other objects that must live as long as the code.
          exports: the functions to look up; by default all the object defines.
        """
        check_forked()
        objects = [object_code] if isinstance(object_code, bytes) else list(object_code)
        tables = [object_symbols(code) for code in objects]
        defined = [name for own, _ in tables for name in own]
        inside = set(defined)
        undefined = {name: None for _, needed in tables for name in needed if name not in inside}
        symbols = symbols or {}
        bound: dict[str, int] = {}
        missing: list[str] = []
        for name in undefined:
            address = symbols.get(name) or libc_symbol(name)
            if address:
                bound[name] = address
            else:
                missing.append(name)
        if missing:
            raise UnresolvedSymbolError(
                f"object code calls {', '.join(sorted(missing))}, which nobody provides; pass the "
                "addresses in `symbols` (an emitter used an operation this target lacks)"
            )
        builder = llvm.JITLibraryBuilder()
        for code in objects:
            builder.add_object_img(code)
        builder.add_current_process()
        for name, address in bound.items():
            builder.import_symbol(name, address)
        names = list(exports) if exports is not None else defined
        for name in names:
            builder.export_symbol(name)
        self._number = next(_numbers)
        self._keep = (*keep, *bound.values())
        self._addresses = apart(self._link, builder, names)

    def _link(self, builder: llvm.JITLibraryBuilder, names: list[str]) -> dict[str, int]:
        linker = _linker()
        code = builder.link(linker, f"pyjax.{self._number}")
        _linked[self._number] = (code, linker)
        return {name: code[name] for name in names}

    def give_back(self) -> None:
        """Unmap the code, before what it stands on goes; called once this is out of use."""
        _linked.pop(self._number, None)

    def address(self, name: str) -> Address:
        try:
            return Address(self._addresses[name], self)
        except KeyError:
            raise KeyError(
                f"this library defines no function {name!r}; it has {sorted(self._addresses)}"
            ) from None

    def addresses(self) -> dict[str, Address]:
        return {name: Address(number, self) for name, number in self._addresses.items()}

    def function(self, name: str, restype: Any, *argtypes: Any, keeps_gil: bool = False) -> Any:
        """A ctypes function. It keeps this library alive, also while it runs."""
        function: Any = _prototype(keeps_gil, restype, *argtypes)(self.address(name))
        function.library = self
        return function


def compile_library(
    ir: str,
    symbols: Mapping[str, int] | None = None,
    cache: bool = False,
    keep: Iterable[object] = (),
    opt: int = 1,
) -> Library:
    """Compiles text for this machine and links it."""
    return Library(compile_object(ir, host_target(), opt, cache), symbols, keep)


@cache
def libc_symbol(name: str) -> int | None:
    """Address of a function of the C library or libm, as this process sees it; None if it has
    none.
    """
    for library in (None, "libm.so.6"):
        try:
            handle = ctypes.CDLL(library)
            # Indexing makes a fresh function object: attribute access would share its restype.
            return ctypes.cast(handle[name], ctypes.c_void_p).value
        except (OSError, AttributeError):
            continue
    return None
