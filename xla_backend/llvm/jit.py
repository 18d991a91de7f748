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

Objects are put into memory by the `loader`, and by LLVM (`lljit`) where they need more than that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from xla_backend.llvm.elf import ElfObject
from xla_backend.llvm.installed_code import load_installed
from xla_backend.llvm.kept_code import load_object, text_key
from xla_backend.llvm.loader import can_load, load
from xla_backend.llvm.target import host_target
from xla_backend.llvm.word_table import WordTable
from xla_backend.process.on_first_use import on_first_use

_compile_object = on_first_use("xla_backend.llvm.objects", "compile_object")
_link = on_first_use("xla_backend.llvm.lljit", "link")


class UnresolvedSymbolError(LookupError):
    """Object code refers to functions that nobody provides."""


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


class Library:
    """An object linked into this process. The code lives as long as this object does, and this
    object as long as anybody has an address or a function of it."""

    def __init__(
        self,
        object_code: bytes | Sequence[bytes | ElfObject | WordTable],
        symbols: Mapping[str, int] | None = None,
        keep: Iterable[object] = (),
        exports: Iterable[str] | None = None,
    ) -> None:
        """Links.

        Args:
          object_code: what compile_object gave, or compile_objects; or that, read already.
          symbols: addresses of the functions and constants the code refers to; those that are
            an `Address` keep their owners as long as the code lives.
          keep: other objects that must live as long as the code.
          exports: the functions to look up; by default all the object defines.
        """
        codes = [object_code] if isinstance(object_code, bytes) else object_code
        objects = [ElfObject(code) if isinstance(code, bytes) else code for code in codes]
        tables = [code.names() for code in objects]
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
        names = list(exports) if exports is not None else defined
        self._keep: tuple[object, ...] = (*keep, *bound.values())
        if can_load(objects):
            found, self._code = load(objects, bound)
            self._addresses = {name: found[name] for name in names}
        else:
            whole = [code.data for code in objects]
            self._addresses, self._code = _link(whole, bound, names, self._keep)

    def address(self, name: str) -> Address:
        try:
            return Address(self._addresses[name], self)
        except KeyError:
            raise KeyError(
                f"this library defines no function {name!r}; it has {sorted(self._addresses)}"
            ) from None

    def keep(self, other: object) -> None:
        """Let something live as long as the code."""
        self._keep += (other,)

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
    target = host_target()
    code = None
    if cache:
        key = lambda target: text_key(ir, target, opt)
        code = load_object(key(target), target) or load_installed(key, target)
    if code is None:
        code = _compile_object(ir, target, opt, cache)
    return Library(code, symbols, keep)


@cache  # an open library has a class of its own, which only the cycle collector frees
def _opened(library: str | None) -> ctypes.CDLL:
    return ctypes.CDLL(library)


@cache
def libc_symbol(name: str) -> int | None:
    """Address of a function of the C library or libm, as this process sees it; None if it has
    none.
    """
    for library in (None, "libm.so.6"):
        try:
            # Indexing makes a fresh function object: attribute access would share its restype.
            return ctypes.cast(_opened(library)[name], ctypes.c_void_p).value
        except (OSError, AttributeError):
            continue
    return None
