"""Groups of kernels and the lazy mapping from symbol to address; `library` fills it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from xla_backend.bounded_cache import BoundedCache, made_for_good
from xla_backend.forks import check_forked
from xla_backend.llvm import object_cache
from xla_backend.llvm.jit import Address, Library, compile_object, object_symbols
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.routines.python_calls import bridge_library
from xla_backend.targets.cpu.routines.thread_pool import pool_library, serial_library

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
    """Addresses by symbol, each with its code. Groups call each other through this mapping, so
    order does not matter. Kernels of a `serial` library run on the thread that calls them; their
    code is the same, linked with a pool of one thread.
    """

    def __init__(self, serial: bool = False) -> None:
        pool = serial_library() if serial else pool_library()
        # Groups build each other, and so may a signal handler in the middle of that: no lock.
        self._groups: BoundedCache[str, None] = BoundedCache(made_for_good)
        self._addresses: dict[str, Address] = {**bridge_library().addresses(), **pool.addresses()}

    def __getitem__(self, symbol: str) -> Address:
        address = self._addresses.get(symbol)
        if address is None:
            group = _OWNER.get(symbol)
            if group is None:
                raise KeyError(f"no run-time kernel named {symbol!r}")
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
        code = _group_object(group)
        _, undefined = object_symbols(code)
        needed = {name: self[name] for name in undefined if name.startswith("pyjax_")}
        library = Library(code, needed)
        for name, address in library.addresses().items():
            self._addresses.setdefault(name, address)


def _group_object(group: str) -> bytes:
    """Object code of a group; from disk without generating its text again.

    The text follows from the sources of the generators and the target, so those make the key:
    generating it only to look it up would take longer than everything else.
    """
    target = host_target()
    key = object_cache.object_key(f"{_source_digest()} {group}", target, 1)
    kept = object_cache.load(key)
    if kept is not None:
        return kept
    module = ModuleWriter(target)
    _, emit = _GROUPS[group]
    emit(module)
    code = compile_object(module.to_text(), target)
    object_cache.store(key, code)
    return code


@cache
def _source_digest() -> str:
    """Digest of the Python files that kernels are generated from."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    for folder in (here, here.parent.parent / "llvm", here.parent.parent / "hlo"):
        for path in sorted(folder.glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
