"""From LLVM text to native functions in this process.

API
  compile_object(ir, target=None, opt=1, cache=False) -> bytes     parse, verify, object code
  compile_objects(texts, target, cache=False) -> [bytes]           several modules at the same time
  assembly(ir, target=None, opt=1) -> str
  Library(object_code, symbols={name: address}, keep=())           links an object or several
      .address(name) -> Address     .addresses() -> dict
      .function(name, restype, *argtypes) -> a ctypes function (drops the GIL while it runs)
  Address(number, owner)                                           an int that keeps `owner` alive
  compile_library(ir, symbols={}, cache=False, keep=()) -> Library both steps
  libc_symbol(name) -> int | None                                  address of a C library function
Errors: IrError (text or module not valid; shows the line), UnresolvedSymbolError (names them).

Who can call code owns it: an address of code is an `Address`, a function has its library, and a
library keeps the addresses it was linked with. Code is unmapped soon after the last of them is
gone.

LLVM is used, and what it made is given back, where no signal handler interrupts (`apart`).

The target machine never runs at opt=0: LLVM's fast selector aborts the process on AVX-512 masks.
Linking uses LLJIT: the older MCJIT turns an unresolved symbol into a call to address zero.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from xla_backend.forks import CODE, Visitors, check_forked, take_for_forks
from xla_backend.llvm import object_cache
from xla_backend.llvm.apart import apart, given_back_apart
from xla_backend.llvm.target import TargetInfo, host_target

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()

_LINE = re.compile(r"<string>:(\d+):(\d+): error: (.*)")
_numbers = itertools.count()
# LLJIT cannot reuse the name of a dropped library, and keeps some kilobytes of each: a linker is
# given up after this many, and goes when its last library does.
_LIBRARIES_PER_LINKER = 16
_linkers: list[tuple[Any, int]] = []  # the one in use, if any, and how many it may still link
_linker_lock = threading.Lock()
# Code and its linker by the number of the library. Were they attributes of it, then the garbage
# collector would call their finalizers when it finds the library in a cycle, on any thread.
_linked: dict[int, tuple[Any, Any]] = {}
# Target machines that no thread is using.
_idle_machines: dict[tuple[TargetInfo, int, bool], list[llvm.TargetMachine]] = {}
_machines_lock = threading.Lock()
# Threads inside LLVM that do not have llvmlite's lock.
_emitting = Visitors()
for _lock in (_linker_lock, _machines_lock, _emitting, ffi.lib._lock._lock):
    take_for_forks(_lock, CODE)


class IrError(ValueError):
    """The generated LLVM text is not valid: a bug in an emitter, shown with the offending line."""


class UnresolvedSymbolError(LookupError):
    """Object code refers to functions that nobody provides."""


@contextmanager
def _machine(target: TargetInfo, opt: int, jit: bool = True) -> Iterator[llvm.TargetMachine]:
    """A target machine that no other thread uses meanwhile."""
    with _machines_lock:
        idle = _idle_machines.setdefault((target, opt, jit), [])
        machine = idle.pop() if idle else None
    if machine is None:
        machine = _target_machine(target, opt, jit)
    yield machine
    with _machines_lock:  # not after an error: LLVM says nothing about its state then
        idle.append(machine)


def _target_machine(target: TargetInfo, opt: int, jit: bool) -> llvm.TargetMachine:
    if target.triple != llvm.get_process_triple():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=opt,
        reloc="default" if jit else "pic",
        codemodel="jitdefault" if jit else "default",
    )


def _parse(ir: str, target: TargetInfo, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    """The module, in a context of its own: contexts must not be shared between threads, and the
    process's keeps every constant and type for good."""
    try:
        module = llvm.parse_assembly(ir, llvm.create_context())
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise IrError(_explain(ir, str(error))) from None
    return module


def _explain(ir: str, message: str) -> str:
    found = _LINE.search(message)
    if not found:
        return f"LLVM rejects the module:\n{message}"
    number, column, why = int(found[1]), int(found[2]), found[3]
    lines = ir.splitlines()
    text = lines[number - 1] if number <= len(lines) else ""
    function = next(
        (ln.split("(")[0] for ln in reversed(lines[:number]) if ln.startswith("define")), "module"
    )
    return f"{why}, at line {number} in `{function}`:\n{text}\n{' ' * (column - 1)}^"


def _checked_opt(opt: int) -> int:
    if opt not in (1, 2, 3):
        raise ValueError(
            f"optimisation level {opt}: use 1, 2 or 3; LLVM's level 0 can abort the process"
        )
    return opt


def compile_object(
    ir: str,
    target: TargetInfo | None = None,
    opt: int = 1,
    cache: bool = False,
    jit: bool = True,
) -> bytes:
    """Object code of a module given as text.

    With `cache` the object is looked up on disk first and kept there. jit=False gives
    position-independent code for linking into programs.

    Raises:
      IrError: the text does not parse or the module does not verify.
    """
    check_forked()
    return apart(_compile, ir, target or host_target(), _checked_opt(opt), cache, jit)


def _compile(ir: str, target: TargetInfo, opt: int, cache: bool, jit: bool) -> bytes:
    if not cache:
        return _emit(ir, target, opt, jit)
    key = object_cache.object_key(ir, target, opt + 10 * jit)
    data = object_cache.load(key)
    if data is None:
        data = _emit(ir, target, opt, jit)
        object_cache.store(key, data)
    return data


def compile_objects(
    texts: Sequence[str], target: TargetInfo, cache: bool = False, opt: int = 1
) -> list[bytes]:
    """Object code of several modules, each made on a thread of its own.

    Raises:
      IrError: a text does not parse or a module does not verify.
    """
    if len(texts) == 1:
        return [compile_object(texts[0], target, opt, cache)]
    check_forked()
    return apart(_compile_all, texts, target, cache, _checked_opt(opt))


def _compile_all(texts: Sequence[str], target: TargetInfo, cache: bool, opt: int) -> list[bytes]:
    keys = [object_cache.object_key(t, target, opt + 10) if cache else "" for t in texts]
    objects = [object_cache.load(key) if cache else None for key in keys]
    missing = [i for i, found in enumerate(objects) if found is None]
    failures: list[Exception] = []

    def work(i: int) -> None:
        try:
            objects[i] = _emit(texts[i], target, opt)
        except Exception as error:  # raised again by the caller's thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in missing[1:]]
    for thread in threads:
        thread.start()
    for i in missing[:1]:
        work(i)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    done = [o for o in objects if o is not None]
    assert len(done) == len(texts)
    if cache:
        for i in missing:
            object_cache.store(keys[i], done[i])
    return done


def _emit(ir: str, target: TargetInfo, opt: int, jit: bool = True) -> bytes:
    """Object code, made with a context and a target machine that no other thread uses."""
    with _machine(target, opt, jit) as machine:
        return _emit_unlocked(machine, _parse(ir, target, machine))


def _emit_unlocked(machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """`machine.emit_object` without llvmlite's lock, which would let one thread compile at a time.

    LLVM asks only that contexts are not shared between threads.
    """
    emit = ffi.lib.LLVMPY_TargetMachineEmitToMemory
    with ffi.OutputString() as errors:
        # A version of llvmlite that has no lock to go round is called the plain way.
        with _emitting.visit():
            buffer = getattr(emit, "_cfn", emit)(machine, module, 1, errors)
        if not buffer:
            raise RuntimeError(str(errors))
    try:
        start = ffi.lib.LLVMPY_GetBufferStart(buffer)
        return ctypes.string_at(start, ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def printed(ir: str, target: TargetInfo) -> str:
    """A module as LLVM prints it, with the target it is compiled for (for people)."""
    return apart(_print, ir, target)


def _print(ir: str, target: TargetInfo) -> str:
    with _machine(target, 1) as machine:
        return str(_parse(ir, target, machine))


def assembly(ir: str, target: TargetInfo | None = None, opt: int = 1) -> str:
    """Assembly text of a module given as text (for people and for tests)."""
    return apart(_assemble, ir, target or host_target(), _checked_opt(opt))


def _assemble(ir: str, target: TargetInfo, opt: int) -> str:
    with _machine(target, opt) as machine:
        return machine.emit_assembly(_parse(ir, target, machine))


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
    return Library(compile_object(ir, opt=opt, cache=cache), symbols, keep)


def object_symbols(object_code: bytes) -> tuple[list[str], list[str]]:
    """Names of the functions an object defines for others, and of those it needs from others."""
    defined: list[str] = []
    undefined: list[str] = []
    if object_code[:4] == b"\x7fELF":
        _elf_symbols(object_code, defined, undefined)
        return defined, undefined
    # Mach-O and COFF: llvmlite shows no symbol table, so ask the linker by name later.
    raise NotImplementedError(
        f"reading symbols of object files on {sys.platform} is not written yet (ELF only)"
    )


def _elf_symbols(data: bytes, defined: list[str], undefined: list[str]) -> None:
    """Global symbols of a 64-bit little-endian ELF object (System V ABI, chapter 4)."""
    import_from = int.from_bytes
    section_offset = import_from(data[40:48], "little")
    section_size = import_from(data[58:60], "little")
    section_count = import_from(data[60:62], "little")

    def section(i: int) -> tuple[int, int, int, int, int]:
        at = section_offset + i * section_size
        kind = import_from(data[at + 4 : at + 8], "little")
        offset = import_from(data[at + 24 : at + 32], "little")
        size = import_from(data[at + 32 : at + 40], "little")
        link = import_from(data[at + 40 : at + 44], "little")
        entry = import_from(data[at + 56 : at + 64], "little")
        return kind, offset, size, link, entry

    for i in range(section_count):
        kind, offset, size, link, entry = section(i)
        if kind != 2:  # SHT_SYMTAB
            continue
        strings = section(link)[1]
        for at in range(offset + entry, offset + size, entry):
            binding = data[at + 4] >> 4
            if binding == 0:  # STB_LOCAL
                continue
            start = strings + import_from(data[at : at + 4], "little")
            name = data[start : data.index(b"\0", start)].decode()
            owner = import_from(data[at + 6 : at + 8], "little")
            if not name or name == "_GLOBAL_OFFSET_TABLE_":
                continue
            (defined if owner else undefined).append(name)


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
