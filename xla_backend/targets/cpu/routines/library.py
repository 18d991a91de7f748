"""kernel_library(): symbol -> address of every run-time kernel, for a target and options. Groups of
them are made on demand.

Code that is on disk is linked without loading what writes kernels (`subjects`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from xla_backend.llvm.elf import ElfObject
from xla_backend.llvm.installed_code import load_installed
from xla_backend.llvm.jit import Address, Library
from xla_backend.llvm.target import TargetInfo, host_target
from xla_backend.persistent import store
from xla_backend.persistent.settings import cache_settings
from xla_backend.persistent.sources import keep_for_sources
from xla_backend.process.bounded_cache import BoundedCache, Budget, made_for_good, once
from xla_backend.process.forks import check_forked
from xla_backend.process.meanwhile import meanwhile
from xla_backend.process.on_first_use import import_now, on_first_use
from xla_backend.runtime.host_libraries.lapack_arguments import PREFIX
from xla_backend.runtime.host_threads import available_threads
from xla_backend.targets.cpu.routines.kept_objects import (
    MODULE,
    PARTS,
    found_objects,
    is_installed,
    kept_key,
    kept_object,
    kept_objects,
)
from xla_backend.targets.cpu.routines.python_calls import bridge_library
from xla_backend.targets.cpu.routines.thread_pool import POOL, threads_library

_COMPILER = "xla_backend.llvm.objects"
_ROUTINES = "xla_backend.targets.cpu.routines"
# What compiles and writes the runtime.
_WRITERS = (_COMPILER, f"{_ROUTINES}.pool_functions", f"{_ROUTINES}.bridge_functions")
_compile_objects = on_first_use(_COMPILER, "compile_objects")
_SUBJECTS = f"{_ROUTINES}.subjects"
_group_text = on_first_use(_SUBJECTS, "group_text")
_group_parts = on_first_use(_SUBJECTS, "group_parts")
_groups_by_symbol = on_first_use(_SUBJECTS, "groups_by_symbol")
_LIBRARIES = "xla_backend.runtime.host_libraries"
_lapack_address = on_first_use(f"{_LIBRARIES}.lapack_functions", "lapack_address")
_lent_threads = on_first_use(f"{_LIBRARIES}.lent_threads", "lent_threads")
# Of the entry on disk that says which kernels are in which group.
GROUPS = "groups"


@once
def _groups() -> Mapping[str, str]:
    """The group of each kernel, as the subjects declare them."""
    host = host_target()
    internal = cache_settings().internal
    key = kept_key(GROUPS, host)
    kept = store.load(key, GROUPS, host.key) if key and internal else None
    if kept is None:
        kept = load_installed(lambda target: kept_key(GROUPS, target), host, GROUPS)
    if kept is not None:
        return json.loads(kept)  # type: ignore[no-any-return]
    found: dict[str, str] = _groups_by_symbol()
    if key and internal:
        keep_for_sources(key, GROUPS, host.key, groups_entry(found))
    return found


def groups_entry(groups: Mapping[str, str]) -> bytes:
    """The groups of kernels as an entry on disk."""
    return json.dumps(groups).encode()


def group_of(symbol: str) -> str | None:
    """The group that has a kernel, if there is such a kernel."""
    return _groups().get(symbol)


@once
def _kernels() -> Mapping[str, Sequence[str]]:
    """The kernels of each group: there are thousands, and a group is built in a fraction of the
    time that a look at all of them takes."""
    found: dict[str, list[str]] = {}
    for symbol, group in _groups().items():
        found.setdefault(group, []).append(symbol)
    return found


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
        # Groups that somebody has looked for: their code on disk, until it is built, or None.
        self._looked_for: dict[str, Sequence[bytes] | None] = {}
        self._addresses: dict[str, Address] = {**bridge_library().addresses(), **pool.addresses()}

    def __getitem__(self, symbol: str) -> Address:
        address = self._addresses.get(symbol)
        if address is None:
            group = group_of(symbol)
            if group is None:
                return self._addresses.setdefault(symbol, _of_libraries(symbol))
            check_forked()
            self._groups.make(group, lambda: self._build(group))
            address = self._addresses[symbol]
        return address

    def get_ready(self, symbols: Iterable[str]) -> None:
        """Build the groups of some kernels, which somebody asks for soon, at the same time."""
        left = deque(symbol for symbol in symbols if symbol not in self._addresses)

        def build() -> None:
            while left:
                try:
                    symbol = left.popleft()
                except IndexError:  # another thread has taken the last one
                    return
                self[symbol]

        with ExitStack() as others:
            for _ in range(min(available_threads(), len(left)) - 1):
                others.enter_context(meanwhile(build))
            build()

    def is_ready(self, symbols: Iterable[str]) -> bool:
        """Whether they are built."""
        return all(symbol in self._addresses for symbol in symbols)

    def is_kept(self, symbols: Iterable[str]) -> bool:
        """Whether nothing has to be compiled for them: they are built, or their code is on disk."""
        return all(symbol in self._addresses or self._is_kept(symbol) for symbol in symbols)

    def _is_kept(self, symbol: str) -> bool:
        group = group_of(symbol)
        if group is None:  # of a library
            return True
        if group not in self._looked_for:
            found = found_objects(group, self._target, PARTS, *self._fast_math)
            self._looked_for[group] = found
        return self._looked_for[group] is not None

    def __iter__(self) -> Iterator[str]:
        return iter({**self._addresses, **_groups()})

    def __len__(self) -> int:
        return len({**self._addresses, **_groups()})

    def __contains__(self, symbol: object) -> bool:
        return symbol in self._addresses or group_of(str(symbol)) is not None

    def _build(self, group: str) -> None:
        code = [ElfObject(part) for part in self._objects(group)]
        library = Library(code, self._of_code(code), exports=_kernels()[group])
        for name, address in library.addresses().items():
            self._addresses.setdefault(name, address)

    def _of_code(self, code: Sequence[ElfObject]) -> dict[str, Address]:
        """The kernels that code refers to and does not define."""
        tables = [part.names() for part in code]
        defined = {name for names, _ in tables for name in names}
        undefined = {name for _, names in tables for name in names} - defined
        return {name: self[name] for name in undefined if name.startswith("pyjax_")}

    def _objects(self, group: str) -> Sequence[bytes]:
        """Object code of a group. If it is to be compiled, kernels of others that it calls are so
        meanwhile."""

        found = self._looked_for.pop(group, None)
        if found is not None:
            return found

        def make() -> Sequence[bytes]:
            texts, called = _group_parts(group, self._target, self._fast_math)
            with meanwhile(lambda: self.get_ready(called)):
                compiled: list[bytes] = _compile_objects(texts, self._target)
                return compiled

        return kept_objects(group, self._target, make, PARTS, *self._fast_math)


def _of_libraries(symbol: str) -> Address:
    """What kernels call that is not generated: LAPACK, and how many threads it has."""
    found: Address
    if symbol.startswith("pyjax_blas_"):
        found = _lent_threads().library.address(symbol)
        return found
    if symbol.startswith(PREFIX):
        with suppress(KeyError):
            found = _lapack_address(symbol)
            return found
    raise KeyError(f"no run-time kernel named {symbol!r}")


def group_object(group: str, target: TargetInfo, fast_math: tuple[str, ...] = ()) -> bytes:
    """Object code of a group for linking into other programs."""
    text = lambda: _group_text(group, target, fast_math)
    return kept_object(group, target, text, *fast_math, jit=False)


_libraries: BoundedCache[tuple[TargetInfo, tuple[str, ...], int | None], KernelLibrary] = (
    BoundedCache(Budget("kernel libraries", entries=16))
)


def kernel_library(
    target: TargetInfo | None = None, fast_math: tuple[str, ...] = (), threads: int | None = None
) -> KernelLibrary:
    """The kernels of this process: a mapping from symbol to address.

    Args:
      target: what their code may use; by default all this machine has.
      fast_math: LLVM's flags on their floating-point arithmetic.
      threads: the most that a kernel uses; None: as many as the pool has.
    """
    key = (target or host_target(), fast_math, threads)
    return _libraries.make(key, lambda: KernelLibrary(*key))


@contextmanager
def runtime_got_ready(
    target: TargetInfo, fast_math: tuple[str, ...], threads: int | None
) -> Iterator[None]:
    """While the body runs, the pool and the bridge to the interpreter are compiled on another
    thread, if they are not there: any program needs them. What that imports is loaded before, for
    it would wait for what the body imports."""
    if _libraries.find((target, fast_math, threads)) is not None:
        yield
        return
    if not is_installed(POOL, host_target(), MODULE):
        for module in _WRITERS:
            import_now(module)
    with meanwhile(lambda: kernel_library(target, fast_math, threads)):
        yield


@contextmanager
def got_ready(
    symbols: Sequence[str], target: TargetInfo, fast_math: tuple[str, ...], threads: int | None
) -> Iterator[None]:
    """While the body runs, kernels that are linked behind it are compiled on another thread, if
    they are not there."""
    library = _libraries.find((target, fast_math, threads))
    if not symbols or (library is not None and library.is_ready(symbols)):
        yield
        return
    with meanwhile(lambda: kernel_library(target, fast_math, threads).get_ready(symbols)):
        yield
