"""Routines compiled ahead: packs of object code that processes with an empty cache find.

API
  target_named(name) -> TargetInfo          "host", or a level of x86-64
  make_pack(target, directory, ...) -> Made
  make_programs_pack(target, directory, folder) -> Made
  described_packs() -> sentences by what they have
  found_packs(directory) -> [Found]         what is there, and for whom; used_here(found) -> name
Errors: PrecompileError.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import NamedTuple

from xla_backend.llvm.installed_code import pack_of
from xla_backend.llvm.target import (
    LEVELS,
    TargetInfo,
    has_features,
    host_target,
    levels_of,
    machine_pack,
    make_target,
)
from xla_backend.persistent import store
from xla_backend.persistent.installed import Entry, entries_in, made_here, packs, write_pack
from xla_backend.persistent.settings import (
    cache_settings,
    change_cache_settings,
    installed_directory,
)
from xla_backend.process.ending import end_after
from xla_backend.targets.cpu.installed_programs import KINDS, PREFIX, programs_pack_of
from xla_backend.targets.cpu.routines.installable import compiled_piece, runtime_entries

HOST = "host"
NAMES = (HOST, *LEVELS)
WHAT = ("routines", "programs")
# Groups that a process compiles at a time: some are thirty times as long as others.
_AT_A_TIME = 8


class PrecompileError(Exception):
    """Nothing can be compiled ahead, and why."""


class Made(NamedTuple):
    """A pack that was made.

    Fields:
      path: of the file; entries, size: how many it has, and its bytes; seconds: that it took.
      removed: packs of other sources that were there.
    """

    path: Path
    entries: int
    size: int
    seconds: float
    removed: list[Path]


class Found(NamedTuple):
    """A pack that is there.

    Fields:
      path: of the file; size: its bytes; entries: how many it has.
      use: whose it is; "" if nobody uses it: it is of other sources, of another version of LLVM,
        NumPy or Python, or of another machine.
      what: it has, "routines" or "programs".
    """

    path: Path
    size: int
    use: str
    entries: int
    what: str


def target_named(name: str) -> TargetInfo:
    """This machine, or a level of x86-64 that code can be made for here.

    Raises:
      PrecompileError: there is none of this name.

    >>> target_named("x86-64-v3").vector_bits
    256
    """
    host = host_target()
    if name == HOST:
        return host
    if name not in LEVELS or not host.is_x86:
        raise PrecompileError(
            f"nothing is compiled ahead for {name!r} on {host.arch}: routines are looked for by "
            f"the processor of a machine, or a level that it has; name one of {', '.join(NAMES)}"
        )
    return make_target(host.triple, name)


def make_pack(
    target: TargetInfo,
    directory: Path,
    groups: Sequence[str],
    texts: Sequence[str] = (),
    jobs: int = 1,
    progress: Callable[[int, int], None] = lambda done, all: None,
) -> Made:
    """Compile routines for a target, and keep them in a directory, where those of other sources are
    removed.

    Args:
      groups: of kernels (`installable.pieces`); what every process needs comes besides.
      texts: further code, as LLVM text.
      jobs: processes.
      progress: is told how many groups of kernels are done, of how many.

    Raises:
      PrecompileError: sources changed meanwhile, or the pack cannot be written.
    """
    begin = time.perf_counter()
    pack = pack_of(target)
    if pack is None:
        raise PrecompileError(
            "the compiler's source files changed while they were loaded, or cannot be read: what "
            "is compiled would be of no known sources; run this again"
        )
    entries = [*runtime_entries(target, texts), *_compiled(target, groups, jobs, progress)]
    if any(not entry.key for entry in entries):
        raise PrecompileError("the compiler's source files changed meanwhile; run this again")
    path = _write(directory, pack, entries)
    if target == host_target():
        machine = machine_pack()
        if machine is not None:
            _write(directory, machine[0], [machine[1]])
    seconds = time.perf_counter() - begin
    return Made(path, len(entries), path.stat().st_size, seconds, _removed_for(path))


def make_programs_pack(target: TargetInfo, directory: Path, folder: Path) -> Made:
    """Keep the programs for a target that a cache directory has, likewise.

    Raises:
      PrecompileError: sources changed meanwhile, or the pack cannot be written.
    """
    begin = time.perf_counter()
    pack = programs_pack_of(target)
    if pack is None:
        raise PrecompileError("the compiler's source files changed meanwhile; run this again")
    settings = cache_settings()
    change_cache_settings(directory=str(folder), enabled=True)
    try:
        found = [
            Entry(key, kind, target.key, content)
            for key, kind, content in store.entries(target.key)
            if kind in KINDS
        ]
    finally:
        change_cache_settings(**settings._asdict())
    path = _write(directory, pack, found)
    seconds = time.perf_counter() - begin
    return Made(path, len(found), path.stat().st_size, seconds, _removed_for(path))


def runs_here(target: TargetInfo) -> bool:
    """Whether this machine has what code for a target needs."""
    host = host_target()
    return target == host or (host.is_x86 and has_features(host, LEVELS.get(target.cpu)))


def _write(directory: Path, pack: str, entries: Sequence[Entry]) -> Path:
    try:
        return write_pack(directory, pack, entries)
    except OSError as error:
        raise PrecompileError(
            f"{directory} cannot be written ({error.strerror}); choose another directory with "
            "--into, and name it in PYJAX_INSTALLED_DIR where programs run"
        ) from None


def _removed_for(made: Path) -> list[Path]:
    """Packs like the one that was made, of other sources, are removed. Not those of other
    installations that have their packs in the same directory."""
    directory = made.parent
    removed = []
    for path in packs(directory):
        stale = _sources_of(path) != _sources_of(made) and _sort_of(path) == _sort_of(made)
        if stale and made_here(path):
            path.unlink(missing_ok=True)
            removed.append(path)
    return removed


def found_packs(directory: Path) -> list[Found]:
    """The packs of a directory, and whose they are."""
    names = [name for name in NAMES if _is_named(name)]
    uses = {pack_of(target_named(name)): name for name in names}
    uses |= {programs_pack_of(target_named(name)): name for name in names}
    return [
        Found(p, p.stat().st_size, uses.get(p.stem, ""), entries_in(p), _sort_of(p) or "routines")
        for p in packs(directory)
        if _sort_of(p) != "machine"
    ]


def used_here(found: Sequence[Found], what: str = "routines") -> str:
    """The processor or level whose routines, or programs, this machine takes; "" if there are none
    for it."""
    host = host_target()
    wanted = [HOST, *(level.cpu for level in levels_of(host))]
    there = {f.use for f in found if f.what == what}
    return next((name for name in wanted if name in there), "")


def described_packs() -> dict[str, str]:
    """Of routines and of programs, which pack this machine uses, or why none."""
    directory = installed_directory()
    if directory is None:
        return dict.fromkeys(WHAT, "none: PYJAX_INSTALLED_DIR is empty")
    if programs_pack_of(host_target()) is None:
        return dict.fromkeys(WHAT, "none: source files changed while this process loaded them")
    found = found_packs(Path(directory))
    return {what: _described(what, found, directory) for what in WHAT}


def _described(what: str, found: Sequence[Found], directory: str) -> str:
    used = used_here(found, what)
    for pack in found:
        if used and (pack.what, pack.use) == (what, used):
            return f"for {used}: {pack.entries} entries, {pack.size >> 10} KiB, {pack.path}"
    others = sum(pack.what == what for pack in found)
    if not others:
        return f"none: {directory} has none; `pyjax precompile` makes them"
    return (
        f"none: the packs in {directory} ({others}) are of other sources, versions of libraries or "
        "processors; `pyjax precompile` makes them anew"
    )


def _is_named(name: str) -> bool:
    return name == HOST or host_target().is_x86


def _sources_of(path: Path) -> str:
    return path.stem.removeprefix(PREFIX).partition("-")[0]


def _sort_of(path: Path) -> str:
    parts = path.stem.split("-")
    return parts[0] if len(parts) == 3 or parts[0] == "machine" else ""


def _compiled(
    target: TargetInfo, groups: Sequence[str], jobs: int, progress: Callable[[int, int], None]
) -> Iterator[Entry]:
    parts = [groups[i : i + _AT_A_TIME] for i in range(0, len(groups), _AT_A_TIME)]
    work = partial(_compile_part, target=target)
    done = 0
    progress(done, len(groups))
    # Not forked: LLVM's threads and locks would not be.
    context = multiprocessing.get_context("spawn")
    processes = ProcessPoolExecutor(jobs, context, _end_with_parent)
    try:
        for future in as_completed([processes.submit(work, part) for part in parts]):
            made = future.result()
            yield from made
            done += len(made)
            progress(done, len(groups))
    except BaseException:  # an interrupt, above all: nobody waits for what is under way
        for process in multiprocessing.active_children():
            process.kill()
        raise
    finally:
        processes.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    end_after(parent.join)


def _compile_part(groups: Sequence[str], target: TargetInfo) -> list[Entry]:
    return [compiled_piece(group, target) for group in groups]
