"""Groups of kernels and the lazy mapping from symbol to address; `library` fills it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from xla_backend.cpu.kernels.thread_pool import pool_library
from xla_backend.llvm.jit import Library, compile_library
from xla_backend.llvm.target import host_target
from xla_backend.llvm.writer import ModuleWriter

# Group name -> (symbols, emitter that adds them to a module). A group is one object on disk.
Emit = Callable[[ModuleWriter], None]
_GROUPS: dict[str, tuple[tuple[str, ...], Emit]] = {}
_OWNER: dict[str, str] = {}


def register_group(name: str, symbols: tuple[str, ...], emit: Emit) -> None:
    """Declares a group of kernels; `emit` writes them when one is asked for first."""
    _GROUPS[name] = (symbols, emit)
    for symbol in symbols:
        _OWNER[symbol] = name


class KernelLibrary(Mapping[str, int]):
    """Addresses by symbol. Groups call each other through this mapping, so order does not
    matter.
    """

    def __init__(self) -> None:
        self._addresses: dict[str, int] = {}
        self._libraries: list[Library] = []
        pool = pool_library()
        self._libraries.append(pool)
        self._addresses.update(pool.addresses())

    def __getitem__(self, symbol: str) -> int:
        address = self._addresses.get(symbol)
        if address is None:
            group = _OWNER.get(symbol)
            if group is None:
                raise KeyError(f"no run-time kernel named {symbol!r}")
            self._build(group)
            address = self._addresses[symbol]
        return address

    def __iter__(self) -> Iterator[str]:
        return iter({**self._addresses, **_OWNER})

    def __len__(self) -> int:
        return len({**self._addresses, **_OWNER})

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._addresses or symbol in _OWNER

    def _build(self, group: str) -> None:
        module = ModuleWriter(host_target())
        _, emit = _GROUPS[group]
        emit(module)
        needed = {
            name: self[name]
            for name in module.declarations
            if name.startswith("pyjax_") and not module.has_function(name)
        }
        library = compile_library(module.to_text(), needed, cache=True)
        self._libraries.append(library)
        for name, address in library.addresses().items():
            self._addresses.setdefault(name, address)
