"""Programs on disk: a process that compiles what another one compiled before skips passes,
emission and LLVM.

An entry has everything that running a program takes: its object code, and the facts about it.
Stages for reading (HLO, loops, LLVM text, costs) are not kept: whoever asks for them has the
module, or makes it then, and it is compiled again, once. The key says all that code depends on:
what the module computes, or what it is made from, the options, the processor, and the sources of
the compiler.

Not kept, and not looked for: programs that hold something of this process (a Python function),
and compilations that somebody watches or changes (dumps, verification, users' passes).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.attributes import Value
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.fingerprint import OnlyHere, module_fingerprint
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.hlo.shape import Shape
from xla_backend.llvm.jit import UnresolvedSymbolError
from xla_backend.llvm.target import TargetInfo
from xla_backend.persistent import store
from xla_backend.persistent.events import CacheEvent, Outcome, announce
from xla_backend.persistent.settings import cache_settings
from xla_backend.persistent.sources import keep_for_sources, source_digest
from xla_backend.process.on_first_use import on_first_use
from xla_backend.program.records import (
    ProgramFormatError,
    record_from_bytes,
    record_to_bytes,
)
from xla_backend.runtime.client import Device, NotAtHand
from xla_backend.targets.cpu.elementwise_code import (
    ElementwiseCode,
    ElementwiseFacts,
    load_elementwise,
)
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.installed_programs import library_versions, load_installed_program
from xla_backend.targets.cpu.loaded_code import load_code
from xla_backend.targets.cpu.program_code import CodeFacts, ProgramCode
from xla_backend.targets.cpu.routines.library import runtime_got_ready
from xla_backend.targets.cpu.size_classes import ClassFacts, SizeClasses, without_forms
from xla_backend.targets.cpu.target_options import target_for
from xla_backend.user_passes import user_passes

# The compiler is not loaded where all programs are on disk.
_compile_code = on_first_use("xla_backend.targets.cpu.compiler", "compile_code")
_compile_in_tiers = on_first_use("xla_backend.targets.cpu.tiers", "compile_in_tiers")
_compile_elementwise = on_first_use("xla_backend.targets.cpu.dynamic", "compile_elementwise")

T = TypeVar("T")
Facts = CodeFacts | ElementwiseFacts | ClassFacts
# Types and dimensions of the arrays that a program takes and gives.
Shapes = tuple[list[Any], list[Any]]
# Options that change nothing about the code, or make it of another sort (`_sort`).
_NO_PART = frozenset({"dump", "expect_measured_costs", "first_code", "measured", "profiled_runs"})

# They are read at some 4 ns a byte, and a few programs with more would fill the directory.
_MOST_CONSTANT_BYTES = 1 << 26


class Entry(Value):
    """What an entry holds.

    Fields:
      facts: about the code.  objects: object code.  seconds: that compiling took.
    """

    facts: Facts
    objects: tuple[bytes, ...]
    seconds: float


class Unfit(ValueError):
    """An entry is not of the program that was asked for."""


def find_program(source: ModuleSource, options: CompileOptions, device: Device) -> CpuExecutable:
    """The executable of a module, from disk if it is there; compiled (in place) and kept, if not.

    Programs that are compiled with measured costs have entries of their own, that those who expect
    them find whatever was measured. Who has measured anew compiles anew, and keeps that instead.
    """

    # Errors of the cache, where they are raised, are the caller's: he waits for what is kept.
    raises = cache_settings().enabled and cache_settings().raise_errors
    waits = raises or _is_watched(options) or _is_of_measuring(options)
    in_tiers = options.first_code and not waits

    def make(cache: bool, place: _Place | None) -> CpuExecutable:
        start = time.perf_counter()
        with runtime_got_ready(target_for(options), options.fast_math, options.num_threads):
            if in_tiers:
                made: CpuExecutable = _compile_in_tiers(
                    source.module, options, device, place, cache
                )
                return made
            compiled = _compile_code(source.module, options, device, cache=cache)
        if place is not None:
            place.keep(compiled.code, time.perf_counter() - start)
        executable: CpuExecutable = compiled.executable
        return executable

    load = lambda found: _loaded(found, source, options, device)
    return _find("program", CodeFacts, source, options, load, make)


def find_without_module(
    source: ModuleSource, options: CompileOptions, device: Device
) -> CpuExecutable | None:
    """The executable on disk of a module that was not made yet; None: it is not there, or only the
    module tells which it is."""
    if (
        _is_of_measuring(options)
        or not _is_known(source)
        or not cache_settings().enabled
        or _is_watched(options)
    ):
        return None
    base = key_parts(source, options)
    if base is None:
        return None
    load = lambda found: _loaded(found, source, options, device)
    asked = _Asked("program", base, _sort(options))
    found = _load(asked, CodeFacts, source, options, None, load, ask=True)
    source.is_missing = found is None
    return found


def _loaded(
    found: Entry, source: ModuleSource, options: CompileOptions, device: Device
) -> CpuExecutable:
    facts = found.facts
    assert isinstance(facts, CodeFacts)
    runs = options.profiled_runs if facts.timed else 0
    made_with = options
    if (facts.measured, runs) != (options.measured, options.profiled_runs):
        made_with = options._replace(measured=facts.measured, profiled_runs=runs)
    return load_code(ProgramCode(facts, found.objects), source, made_with, device)


def find_elementwise(
    source: ModuleSource, options: CompileOptions, *, at_hand: bool = False
) -> ElementwiseCode:
    """`find_program` for `compile_elementwise`. `at_hand`: it is only looked for.

    Raises:
      NotElementwise: the program is none for any length.
      NotAtHand: it is not on disk.
    """

    def load(found: Entry) -> ElementwiseCode:
        assert isinstance(found.facts, ElementwiseFacts)
        (object_code,) = found.objects
        return load_elementwise(found.facts, object_code, source, options)

    def make(cache: bool, place: _Place | None) -> ElementwiseCode:
        start = time.perf_counter()
        code: ElementwiseCode = _compile_elementwise(source.module, options, cache=cache)
        if place is not None:
            place.keep_code(code.facts, [code.object_code], time.perf_counter() - start)
        return code

    kind = "elementwise"
    if at_hand:
        asked = _Asked(kind, _base_at_hand(source, options), _sort(options))
        return _at_hand(_load(asked, ElementwiseFacts, source, options, None, load, ask=True))
    return _find(kind, ElementwiseFacts, source, options, load, make)


def find_size_classes(
    source: ModuleSource,
    stand_ins: Sequence[int],
    options: CompileOptions,
    *,
    at_hand: bool = False,
) -> SizeClasses:
    """A program for all sizes, with what is known of it on disk; it is kept there as more becomes
    known. `at_hand`: it is only looked for.

    Raises:
      UnimplementedError: an instruction has no form with run-time sizes.
      NotAtHand: it is not on disk.
    """
    name, kind = source.name, "classes"
    base: Sequence[str] | None
    if at_hand:
        base = _base_at_hand(source, options)
    else:
        base = None if _is_watched(options) else key_parts(source, options)
    if not cache_settings().enabled or base is None:
        if not cache_settings().enabled:
            announce(CacheEvent(Outcome.DISABLED, name))
        return SizeClasses(source, stand_ins, options, None, lambda facts, objects: None)
    target = target_for(options).key
    asked = _Asked(kind, base, repr(tuple(stand_ins)))
    key = asked.key
    if not at_hand:
        announce(CacheEvent(Outcome.REQUESTED, name, key))
    start = time.perf_counter()

    def keep(facts: ClassFacts, objects: Sequence[bytes]) -> None:
        seconds = time.perf_counter() - start
        if _keep(key, kind, target, facts, objects, seconds, shapes_of(source.module)):
            announce(CacheEvent(Outcome.KEPT, name, key))

    def load(found: Entry) -> SizeClasses:
        assert isinstance(found.facts, ClassFacts)
        if not found.facts.has_forms:
            raise UnimplementedError("an instruction has no form with run-time sizes")
        return SizeClasses(source, stand_ins, options, (found.facts, found.objects), keep)

    shapes = None if _is_known(source) else shapes_of(source.module)
    classes = _load(asked, ClassFacts, source, options, shapes, load, ask=at_hand)
    if classes is not None:
        return classes
    if at_hand:
        raise NotAtHand
    announce(CacheEvent(Outcome.NOT_FOUND, name, key))
    try:
        return SizeClasses(source, stand_ins, options, None, keep)
    except UnimplementedError:
        keep(without_forms(source.module), [])
        raise


def _base_at_hand(source: ModuleSource, options: CompileOptions) -> Sequence[str]:
    """What the key of a program depends on that may be on disk, and whose module is not made.

    Raises:
      NotAtHand: it is not there, or only the module tells which it is.
    """
    may_be = _is_known(source) and cache_settings().enabled and not _is_watched(options)
    return _at_hand(key_parts(source, options) if may_be else None)


def _at_hand(found: T | None) -> T:
    if found is None:
        raise NotAtHand
    return found


class _Asked(NamedTuple):
    """What an entry is looked for by: its kind, what `key_parts` says, and one fact more."""

    kind: str
    base: Sequence[str]
    more: str

    @property
    def key(self) -> str:
        global _latest_asked
        asked, key = _latest_asked
        if asked != self:
            key = store.entry_key(self.kind, *self.base, self.more)
            _latest_asked = self, key
        return key

    def key_on(self, target: TargetInfo, options: CompileOptions) -> str:
        """The key that it would have on another machine."""
        made_with = _made_with(options, source_digest() or "", target)
        return store.entry_key(self.kind, self.base[0], made_with, self.more)


# What a program is asked for by, which is needed twice where it is not there, and the key.
_latest_asked: tuple[_Asked | None, str] = (None, "")


def _load(
    asked: _Asked,
    facts_kind: type[Facts],
    source: ModuleSource,
    options: CompileOptions,
    shapes: Shapes | None,
    load: Callable[[Entry], T],
    ask: bool = False,
) -> T | None:
    """What is made of an entry; None: there is none that can be used.

    Args:
      shapes: of the program; None: the key says them.
      ask: say that it was asked for, if it is there.
    """
    start = time.perf_counter()
    target, kind, key = target_for(options), asked.kind, asked.key
    content = store.load(key, kind, target.key)
    if content is None:
        key_on = lambda t: key if t is target else asked.key_on(t, options)
        content = load_installed_program(key_on, target, kind)
    if content is None:
        return None
    try:
        found = read_entry(content, facts_kind, shapes)
        result = load(found)
    except (Unfit, ProgramFormatError, UnresolvedSymbolError) as error:
        store.refuse(key, kind, f"cannot be used ({error})")
        return None
    seconds = time.perf_counter() - start
    if ask:
        announce(CacheEvent(Outcome.REQUESTED, source.name, key))
    announce(CacheEvent(Outcome.FOUND, source.name, key, seconds, found.seconds - seconds))
    return result


def _find(
    kind: str,
    facts_kind: type[Facts],
    source: ModuleSource,
    options: CompileOptions,
    load: Callable[[Entry], T],
    make: Callable[[bool, _Place | None], T],
) -> T:
    """
    Args:
      make: compiles it, and keeps the code in a place, if there is one; else, if it is told to, its
        object code by itself.
    """
    name = source.name
    if not cache_settings().enabled:
        announce(CacheEvent(Outcome.DISABLED, name))
        return make(False, None)
    base = None if _is_watched(options) else key_parts(source, options)
    if base is None:
        return make(True, None)
    target = target_for(options).key
    asked = _Asked(kind, base, _sort(options))
    key = asked.key
    announce(CacheEvent(Outcome.REQUESTED, name, key))
    shapes = None if _is_known(source) else shapes_of(source.module)
    fresh = bool(options.measured)
    expected = options.expect_measured_costs and not fresh
    measured = [asked._replace(more=_MEASURED)] if expected else []
    for candidate in measured + [asked] * (not fresh and not source.is_missing):
        result = _load(candidate, facts_kind, source, options, shapes, load)
        if result is not None:
            return result
    announce(CacheEvent(Outcome.NOT_FOUND, name, key))
    if expected:
        then = "and its runs are measured" if options.profiled_runs else ""
        warnings.warn(
            f"no program compiled with measured costs is on disk for {name!r}, and "
            f"jax_compilation_cache_expect_pgle expects one: it is compiled without {then}".strip(),
            UserWarning,
            stacklevel=2,
        )
    shapes = shapes_of(source.module)  # compiling changes it
    return make(False, _Place(name, key, kind, target, shapes))


class _Place(NamedTuple):
    """Where what is compiled now is kept, as the settings say when it is kept.

    Fields:
      name: of the program.  key, kind, target: of the entry.  shapes: of the program.
    """

    name: str
    key: str
    kind: str
    target: str
    shapes: Shapes

    def keep_code(self, facts: Facts, objects: Sequence[bytes], seconds: float) -> None:
        """`seconds`: that compiling took."""
        if _keep(self.key, self.kind, self.target, facts, objects, seconds, self.shapes):
            announce(CacheEvent(Outcome.KEPT, self.name, self.key))

    def keep(self, code: ProgramCode, seconds: float) -> None:
        self.keep_code(code.facts, code.files, seconds)

    def find(self) -> ProgramCode | None:
        """The code, if somebody has kept it meanwhile."""
        content = store.load(self.key, self.kind, self.target)
        if content is None:
            return None
        try:
            found = read_entry(content, CodeFacts, self.shapes)
        except (Unfit, ProgramFormatError):  # who asks for it next says so
            return None
        assert isinstance(found.facts, CodeFacts)
        return ProgramCode(found.facts, found.objects)


def _keep(
    key: str,
    kind: str,
    target: str,
    facts: Facts,
    objects: Sequence[bytes],
    seconds: float,
    shapes: Shapes,
) -> bool:
    settings = cache_settings()
    if seconds < settings.min_compile_seconds or not _fits(facts, shapes):
        return False
    constants = facts.constants if isinstance(facts, CodeFacts) else ()
    if sum(array.nbytes for _, array in constants) > _MOST_CONSTANT_BYTES:
        return False
    try:
        content = write_entry(facts, objects, seconds)
    except ProgramFormatError:  # attributes of a host call that have no meaning elsewhere
        return False
    return len(content) >= settings.min_entry_bytes and keep_for_sources(key, kind, target, content)


# -- keys ------------------------------------------------------------------------------------------

_MEASURED = "measured"


def _sort(options: CompileOptions) -> str:
    """What measuring makes of a program, for keys."""
    return "profiled" if options.profiled_runs else _MEASURED if options.measured else ""


def _is_of_measuring(options: CompileOptions) -> bool:
    """Whether costs are measured, or were, or should have been."""
    return bool(options.measured or options.expect_measured_costs or options.profiled_runs)


def _is_watched(options: CompileOptions) -> bool:
    """Whether compiling itself matters to somebody, or is changed by what no key can say."""
    return bool(
        options.dump is not None
        or options.verify
        or options.audits
        or options.fuel
        or any(options.unstable_reductions)
        or user_passes()
    )


def _is_known(source: ModuleSource) -> bool:
    """Whether a module is known by what it is made from. That has no source locations."""
    return source.digest is not None and not cache_settings().metadata_in_key


def key_parts(source: ModuleSource, options: CompileOptions) -> list[str] | None:
    """All that the code of a module depends on; None if no other process can have the same."""
    settings = cache_settings()
    sources = source_digest()
    if sources is None:
        return None
    if _is_known(source):
        computed = f"made from {source.digest}"
    else:
        try:
            computed = module_fingerprint(
                source.module,
                metadata=settings.metadata_in_key,
                pointers=settings.pointers_in_key,
            )
        except OnlyHere:
            return None
    return [computed, _made_with(options, sources, target_for(options))]


# What the latest options, sources and targets are in keys, the newest first. A process has few
# options, but a new program is asked for under two records of them and on several targets.
_Known = tuple[CompileOptions, str, TargetInfo, str]
_latest: tuple[_Known, ...] = ()
_MOST_LATEST = 8


def _made_with(options: CompileOptions, sources: str, target: TargetInfo) -> str:
    """A digest of all but the module."""
    global _latest
    latest = _latest
    for known, of_sources, on, found in latest:
        if known is options and of_sources == sources and on == target:
            return found
    found = store.entry_key(*_option_parts(options), sources, target.key, library_versions())
    _latest = ((options, sources, target, found), *latest[: _MOST_LATEST - 1])
    return found


def _option_parts(options: CompileOptions) -> list[str]:
    names = [name for name in options._fields if name not in _NO_PART]
    return [f"{name}={_text(getattr(options, name))}" for name in names]


def _text(value: Any) -> str:
    return repr(sorted(value)) if isinstance(value, frozenset) else repr(value)


# -- entries ---------------------------------------------------------------------------------------


def shapes_of(module: HloModule) -> Shapes:
    """Types and sizes of what the program takes and gives."""
    assert module.entry is not None
    parameters, result = module.entry.program_shape
    return _plain([leaf for p in parameters for leaf in p.flatten()]), _plain(result.flatten())


def _plain(shapes: Sequence[Shape]) -> list[Any]:
    return [(s.element_type, s.dimensions) for s in shapes]


def _fits(facts: Facts, shapes: Shapes) -> bool:
    return (_plain(facts.parameters), _plain(facts.outputs)) == shapes


def write_entry(facts: Facts, objects: Sequence[bytes], seconds: float) -> bytes:
    """The bytes of an entry.

    Raises:
      ProgramFormatError: attributes of a host call have no meaning elsewhere.
    """
    return record_to_bytes(Entry(facts, tuple(objects), seconds))


def read_entry(content: bytes, facts_kind: type[Facts], shapes: Shapes | None) -> Entry:
    """What an entry holds. `shapes`: of the program that was asked for, if nothing else says it.

    Raises:
      Unfit, ProgramFormatError: it is not of this program.
    """
    entry = record_from_bytes(content, Entry)
    facts = entry.facts
    if not isinstance(facts, facts_kind) or not (shapes is None or _fits(facts, shapes)):
        raise Unfit("it takes or gives other arrays")
    if not (entry.objects or isinstance(facts, ClassFacts)):
        raise Unfit("it has no code")
    return entry
