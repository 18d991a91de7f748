"""Tracers that outlive their trace: which ones, and who holds them. For the option
check_tracer_leaks. Layer: core."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from types import CellType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

from pyjax.core.call_chains import forget_running
from pyjax.core.errors import TracerLeakError, new_error
from pyjax.core.source_info import is_internal_file, summarize
from pyjax.core.trace import Trace, Tracer

_DEEPEST = 4  # a list in a dict in an attribute of an object


def check_leaks(over: Callable[[], Trace | None]) -> None:
    """Raise if something refers to a tracer of a trace that is over, and that the caller has let go
    of: `over`, a weak reference, is dead if nothing refers to a tracer.

    Raises:
      TracerLeakError: names the lines that made them and what holds them.
    """
    forget_running()
    trace = over()
    if trace is None:
        return
    leaked = _tracers_of(trace)
    if leaked:
        leaked.clear()
        gc.collect()  # cycles are no leaks
        leaked = _tracers_of(trace)
    if not leaked:
        return
    # Looking at the variables of running functions makes dictionaries, which hold them as well;
    # since Python 3.13 it makes none but views, whose ids others get.
    variables = [f.f_locals for f in _running()]
    ignored = {id(leaked), *(id(each) for each in variables if isinstance(each, dict))}
    lines = []
    for tracer in islice(leaked, 5):  # no other list that holds them
        source = trace.made_at(tracer)
        made = f"made at {summarize(source)}" if source is not None else "an argument"
        held = " and ".join(list(_holders(tracer, ignored))[:3])
        lines.append(f"{tracer!r}, {made}" + (f"\nheld by {held}" if held else ""))
    where = summarize(trace.made_at(leaked[0]))
    raise new_error(
        TracerLeakError,
        f"Leaked trace: {trace.origin()}. Leaked tracer(s): {', '.join(map(repr, leaked[:5]))}.",
        "A tracer is still referenced after its function returned:\n" + "\n".join(lines),
        "Do not store traced values in globals, attributes or enclosing scopes; return them.",
        where=where or None,
    )


def _tracers_of(trace: Trace) -> list[Tracer]:
    return [x for x in gc.get_referrers(trace) if isinstance(x, Tracer) and x._trace is trace]


def _holders(target: Any, ignored: set[int], depth: int = _DEEPEST) -> Iterator[str]:
    """What refers to an object, in the user's words: `the global 'cache' of train`. `ignored`: ids
    of what this search made itself, or has seen."""
    found = gc.get_referrers(target)
    ignored = ignored | {id(found)}
    for holder in found:
        if id(holder) not in ignored and not isinstance(holder, (FrameType, GeneratorType)):
            yield from _described(holder, target, ignored | {id(holder)}, depth)
    yield from _local_variables(target)


def _described(holder: Any, target: Any, ignored: set[int], depth: int) -> Iterator[str]:
    if isinstance(holder, CellType):
        for function in _functions_with(holder):
            name = function.__code__.co_freevars[(function.__closure__ or ()).index(holder)]
            yield f"the variable {name!r} that {function.__qualname__} closes over"
            return
    elif isinstance(holder, dict):
        module = next((m for m in sys.modules.values() if getattr(m, "__dict__", 0) is holder), 0)
        key: Any = next((k for k, v in holder.items() if v is target), None)
        if isinstance(module, ModuleType):
            if not is_internal_file(getattr(module, "__file__", None) or ""):
                yield f"the global {key!r} of {module.__name__}"
            return
        for owner in gc.get_referrers(holder):
            own = getattr(owner, "__dict__", None)
            if own is holder or (
                isinstance(owner, type) and key is not None and owner.__dict__.get(key) is target
            ):
                yield f"the attribute {key!r} of {_name(owner)}"
                return
        yield from _part(f"entry {key!r} of a dict", holder, ignored, depth)
    elif isinstance(holder, (list, tuple)):
        number = next((i for i, x in enumerate(holder) if x is target), None)
        if number is not None:
            yield from _part(
                f"element {number} of a {type(holder).__name__}", holder, ignored, depth
            )
    elif isinstance(holder, (set, frozenset)):
        yield from _part(f"a {type(holder).__name__}", holder, ignored, depth)
    elif not isinstance(holder, (Tracer, Trace)):
        for name in _attribute_names(holder):
            if getattr(holder, name, None) is target:
                yield f"the attribute {name!r} of {_name(holder)}"
                return


def _part(what: str, holder: Any, ignored: set[int], depth: int) -> Iterator[str]:
    """A container, and what holds that."""
    outer = next(_holders(holder, ignored, depth - 1), "") if depth else ""
    yield f"{what}, {outer}" if outer else what


def _functions_with(cell: CellType) -> Iterator[FunctionType]:
    for closure in gc.get_referrers(cell):
        if isinstance(closure, tuple):
            for function in gc.get_referrers(closure):
                if isinstance(function, FunctionType) and function.__closure__ is closure:
                    yield function


def _attribute_names(x: Any) -> list[str]:
    names = list(getattr(x, "__dict__", ()))
    for kind in type(x).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return names


def _name(x: Any) -> str:
    kind = type(x)
    if isinstance(x, type):
        return f"the class {x.__qualname__}"
    if isinstance(x, FunctionType):
        return f"the function {x.__qualname__}"
    return f"an object of class {kind.__module__}.{kind.__qualname__}"


def _running() -> list[FrameType]:
    """The user's functions that are running, the innermost first."""
    found: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_internal_file(code.co_filename) and code.co_name != "<module>":
            found.append(frame)
        frame = frame.f_back
    return found


def _local_variables(target: Any) -> Iterator[str]:
    for frame in _running():
        code = frame.f_code
        for name in (*code.co_varnames, *code.co_cellvars):
            if frame.f_locals.get(name) is target:
                yield f"the local variable {name!r} of {code.co_qualname}"
