"""Handlers of threaded code between the forms of elements in memory and in slots, LANES or one at a
time: for whatever is not loaded and stored in one instruction."""

from __future__ import annotations

from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.conversions import from_memory, to_memory
from xla_backend.llvm.types import memory_type, register_type
from xla_backend.targets.cpu.routines.threaded import Handler
from xla_backend.targets.cpu.routines.threaded_groups import Handlers, declare_handlers
from xla_backend.targets.cpu.routines.threaded_memory import convert_from, convert_to
from xla_backend.targets.cpu.routines.threaded_memory_names import is_as_in_memory

_COMMON = (P.PRED, P.BF16, P.F16)


def register() -> None:
    """Declares the handlers."""
    types = [t for t in P if t.is_array and not t.is_complex and not is_as_in_memory(t)]
    declare_handlers("threaded_conversions", _handlers(_COMMON))
    for t in types:
        if t not in _COMMON:
            declare_handlers(f"threaded_conversions.{t}", _handlers((t,)))


def _handlers(types: tuple[P, ...]) -> Handlers:
    found: Handlers = {}
    for t in types:
        found[f"from.{t}"] = 2, partial(_one_from, t)
        found[f"to.{t}"] = 2, partial(_one_to, t)
        found[f"from.{t}.n"] = 3, partial(_many_from, t)
        found[f"to.{t}.n"] = 3, partial(_many_to, t)
    return found


def _one_from(t: P, h: Handler) -> None:
    h.store(0, register_type(t), from_memory(h.w, t, 1, h.w.load(memory_type(t), h.slot(1))))


def _one_to(t: P, h: Handler) -> None:
    raw = to_memory(h.w, t, 1, h.load(1, register_type(t)))
    h.w.store(memory_type(t), raw, h.slot(0))


def _many_from(t: P, h: Handler) -> None:
    convert_from(h.w, t, h.slot(0), h.slot(1), h.word(2))


def _many_to(t: P, h: Handler) -> None:
    convert_to(h.w, t, h.slot(0), h.slot(1), h.word(2))
