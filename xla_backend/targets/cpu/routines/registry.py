"""Groups of kernels and the lazy mapping from symbol to address; `library` fills it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from xla_backend.llvm import objects
from xla_backend.llvm.jit import Address, Library
from xla_backend.llvm.objects import compile_object, object_symbols
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.persistent.sources import source_digest
from xla_backend.persistent.store import entry_key
from xla_backend.process.bounded_cache import BoundedCache, made_for_good
from xla_backend.process.forks import check_forked
from xla_backend.runtime.host_libraries.lapack_functions import PREFIX, lapack_address
from xla_backend.runtime.host_libraries.lent_threads import lent_threads
from xla_backend.targets.cpu.routines.python_calls import bridge_library
from xla_backend.targets.cpu.routines.thread_pool import threads_library

# Folders with the generators of kernels.
_SOURCES = ("targets/cpu/routines", "llvm", "hlo")
# Group name -> (symbols, emitter that adds them to a module). A group is one object on disk.
Emit = Callable[[ModuleWriter], None]
_GROUPS: dict[str, tuple[tuple[str, ...], Emit]] = {}
_OWNER: dict[str, str] = {}


def register_group(name: str, symbols: tuple[str, ...], emit: Emit) -> None:
    """Declares a group of kernels; `emit` writes them when one is asked for first."""
    _GROUPS[name] = (symbols, emit)
    for symbol in symbols:
        _OWNER[symbol] = name


class KernelLibrary(Mapping[str, Address]):
    """Addresses by symbol, each with its code, made for a target and with fast-math flags. Groups
    call each other through this mapping, so order does not matter. Kernels of a library for at most
    so many `threads` are the same code, linked with a pool that lends no more.
    """

    def __init__(
        self, target: TargetInfo, fast_math: tuple[str, ...] = (), threads: int | None = None
    ) -> None:
        self._target = target
        self._fast_math = fast_math
        pool = threads_library(threads)
        # Groups build each other, and so may a signal handler in the middle of that: no lock.
        self._groups: BoundedCache[str, None] = BoundedCache(made_for_good)
        self._addresses: dict[str, Address] = {**bridge_library().addresses(), **pool.addresses()}

    def __getitem__(self, symbol: str) -> Address:
        address = self._addresses.get(symbol)
        if address is None:
            group = _OWNER.get(symbol)
            if group is None:
                return self._addresses.setdefault(symbol, _of_libraries(symbol))
            check_forked()
            self._groups.make(group, lambda: self._build(group))
            address = self._addresses[symbol]
        return address

    def __iter__(self) -> Iterator[str]:
        return iter({**self._addresses, **_OWNER})

    def __len__(self) -> int:
        return len({**self._addresses, **_OWNER})

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._addresses or symbol in _OWNER

    def _build(self, group: str) -> None:
        code = group_object(group, self._target, self._fast_math)
        _, undefined = object_symbols(code)
        needed = {name: self[name] for name in undefined if name.startswith("pyjax_")}
        library = Library(code, needed)
        for name, address in library.addresses().items():
            self._addresses.setdefault(name, address)


def _of_libraries(symbol: str) -> Address:
    """What kernels call that is not generated: LAPACK, and how many threads it has."""
    if symbol.startswith("pyjax_blas_"):
        return lent_threads().library.address(symbol)
    if symbol.startswith(PREFIX):
        with suppress(KeyError):
            return lapack_address(symbol)
    raise KeyError(f"no run-time kernel named {symbol!r}")


def group_object(
    group: str, target: TargetInfo, fast_math: tuple[str, ...] = (), jit: bool = True
) -> bytes:
    """Object code of a group; from disk without generating its text again. `jit`: as in
    `compile_object`.

    The text follows from the sources of the generators, the target and the flags, so those make
    the key: generating it only to look it up would take longer than everything else.
    """
    sources = source_digest(*_SOURCES)
    facts = (group, sources or "", target.key, str(jit), objects.llvm_version(), *fast_math)
    key = "" if sources is None else entry_key("routines", *facts)
    kept = objects.load_object(key, target)
    if kept is not None:
        return kept
    code = compile_object(group_module(group, target, fast_math).to_text(), target, jit=jit)
    objects.store_object(key, target, code)
    return code


def group_module(group: str, target: TargetInfo, fast_math: tuple[str, ...] = ()) -> ModuleWriter:
    """The code of a group."""
    module = ModuleWriter(target, fast_math)
    _, emit = _GROUPS[group]
    emit(module)
    return module


def groups_behind(
    symbols: Iterable[str], target: TargetInfo, fast_math: tuple[str, ...] = ()
) -> tuple[list[str], list[str]]:
    """The groups that define `symbols` and what those call; and the symbols that no group
    defines."""
    groups: dict[str, None] = {}
    others: dict[str, None] = {}
    left = list(symbols)
    while left:
        symbol = left.pop()
        group = _OWNER.get(symbol)
        if group is None:
            others[symbol] = None
        elif group not in groups:
            groups[group] = None
            left += called_outside(group_module(group, target, fast_math))
    return sorted(groups), sorted(others)


def called_outside(module: ModuleWriter) -> list[str]:
    """Functions of this project that a module calls and does not define."""
    names = [n for n in module.declarations if n.startswith("pyjax_")]
    return [n for n in names if not module.has_function(n)]
