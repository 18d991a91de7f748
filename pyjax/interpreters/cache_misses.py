"""Why a call traces or compiles anew: how it differs from the closest earlier one.

  Call              what a trace was made for
  Build             what a program of a trace was made for
  why_traced(...)   one line: what differs from earlier calls
  why_compiled(...) one line: what differs from earlier programs

Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from pyjax._config.registry import ContextKey
from pyjax.core.avals import ShapedArray
from pyjax.core.debug_info import arg_names
from pyjax.core.exact_keys import exact_key
from pyjax.core.signatures import positional_names
from pyjax.core.tree_util import PyTreeDef, tree_unflatten
from pyjax.core.weak_tables import WeakIdentityTable
from pyjax.interpreters.flat_function import Static

FIRST = "first call of this function"
AGAIN = (
    "first call of this function; another one that the same line made was traced before: make it "
    "once, outside of the loop or the call that makes it"
)


class Call(NamedTuple):
    """What a trace was made for.

    Attributes:
      in_tree: of (args, kwargs) without the static arguments.
      avals: of the flat arguments.
      context: the options in force.
      axes: names and sizes of the axes around it.
    """

    in_tree: PyTreeDef
    static: Static
    avals: tuple[Any, ...]
    context: ContextKey
    axes: tuple[Any, ...]


class Build(NamedTuple):
    """What a program of a trace was made for.

    Attributes:
      arguments: of each array, its device if it is committed to it; of several, how it lies there.
      device: where it runs.
      donated: for each argument.
      overrides: the compiler's flags for this function alone, as text.
    """

    arguments: tuple[Any, ...]
    device: Any
    donated: tuple[bool, ...]
    overrides: tuple[tuple[str, str], ...]


# Code of functions that were traced: a lambda in a loop is a new function each time, of one code.
_codes = WeakIdentityTable()


def why_traced(fun: Callable[..., Any], now: Call, earlier: Iterable[Call]) -> str:
    """How a call differs from the earlier one that is the most like it; of several, the last."""
    differences = [_differences(fun, before, now) for before in earlier]
    closest = min(reversed(differences), key=len, default=None)
    if closest is not None:
        return "; ".join(closest) or "its trace was forgotten"
    code = getattr(fun, "__code__", None)
    return AGAIN if code is not None and _codes.get(code) else FIRST


def note_traced(fun: Callable[..., Any]) -> None:
    """Remember that a function is traced now."""
    code = getattr(fun, "__code__", None)
    if code is not None:
        _codes.set(code, True)


def why_compiled(names: Sequence[str], now: Build, earlier: Iterable[Build]) -> str:
    """The same for a program whose trace was there. `names`: of the flat arguments."""
    differences = []
    for before in earlier:
        found = []
        for name, old, new in zip(names, before.arguments, now.arguments):
            if old != new:
                found.append(f"argument {name}: {_place(old)} -> {_place(new)}")
        if before.device is not now.device:
            found.append(f"device: {before.device} -> {now.device}")
        for name, was, donated in zip(names, before.donated, now.donated):
            if was != donated:
                texts = [f"{'' if d else 'not '}donated" for d in (was, donated)]
                found.append(f"argument {name}: {' -> '.join(texts)}")
        if before.overrides != now.overrides:
            old_flags, new_flags = dict(before.overrides), dict(now.overrides)
            found.append(f"compiler_options: {old_flags} -> {new_flags}")
        differences.append(found)
    closest = min(reversed(differences), key=len, default=None)
    if closest is None:
        return "it was traced before, but not compiled"
    return "; ".join(closest) or (
        "the program was forgotten (clear_cache, or room for others), or a jit of the same "
        "function with other static arguments made it: keep one"
    )


def _place(device: Any) -> str:
    return "not committed" if device is None else f"committed to {device}"


def _differences(fun: Callable[..., Any], before: Call, now: Call) -> list[str]:
    found = _static_differences(fun, before.static, now.static)
    if before.in_tree != now.in_tree:
        found += _tree_differences(fun, before, now)
    else:
        names = _names(fun, now)
        for name, old, new in zip(names, before.avals, now.avals):
            if old is not new and old != new:
                found.append(f"argument {name}: {_kinds(old, new)}")
    if before.context is not now.context:
        found += [
            f"option {name}: {old!r} -> {new!r}"
            for name, old, new in now.context.changes_from(before.context)
        ]
    if before.axes != now.axes:
        found.append(f"named axes: {_axes(before.axes)} -> {_axes(now.axes)}")
    return found


def _names(fun: Callable[..., Any], call: Call) -> tuple[str, ...]:
    skipped = [where for where, _ in call.static if isinstance(where, int)]
    return arg_names(fun, call.in_tree, skipped)


def _axes(axes: tuple[Any, ...]) -> str:
    return ", ".join(f"{name}={size}" for name, size in axes) or "none"


def _kinds(old: Any, new: Any) -> str:
    if not isinstance(old, ShapedArray) or not isinstance(new, ShapedArray):
        return f"{old} -> {new}"
    texts = [a.str_short() + (" (weakly typed)" if a.weak_type else "") for a in (old, new)]
    if texts[0] == texts[1]:
        texts = [repr(old), repr(new)]
    return " -> ".join(texts)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _static_differences(fun: Callable[..., Any], before: Static, now: Static) -> list[str]:
    positional = positional_names(fun)
    old_values, new_values = dict(before), dict(now)
    found = []
    for where in {**old_values, **new_values}:
        name = f"{where}="
        if isinstance(where, int):
            name = positional[where] if where < len(positional) else f"args[{where}]"
        if where not in old_values or where not in new_values:
            values = [
                _shown(v[where]) if where in v else "left out" for v in (old_values, new_values)
            ]
        else:
            old, new = old_values[where], new_values[where]
            if exact_key(old) == exact_key(new):
                continue
            values = [_shown(old), _shown(new)]
            if type(old) is not type(new):
                values = [f"{_shown(v)} ({type(v).__name__})" for v in (old, new)]
            elif values[0] == values[1]:
                values[1] += " (another one that prints the same)"
        found.append(f"static argument {name}: {' -> '.join(values)}")
    return found


def _tree_differences(fun: Callable[..., Any], before: Call, now: Call) -> list[str]:
    """The arguments whose structures differ, each as a whole."""
    old, new = (_arguments(fun, call) for call in (before, now))
    found = []
    for name in {**old, **new}:
        texts = [_shown(trees[name]) if name in trees else "left out" for trees in (old, new)]
        if texts[0] != texts[1]:
            found.append(f"structure of argument {name}: {' -> '.join(texts)}")
    return found or [f"structure of the arguments: {before.in_tree} -> {now.in_tree}"]


class _Leaf:
    def __repr__(self) -> str:
        return "*"


_LEAF = _Leaf()


def _arguments(fun: Callable[..., Any], call: Call) -> dict[str, Any]:
    """Each argument by name, with stars for its arrays."""
    args, kwargs = tree_unflatten(call.in_tree, [_LEAF] * call.in_tree.num_leaves)
    positional = positional_names(fun)
    skipped = {where for where, _ in call.static}
    numbers = (i for i in range(len(args) + len(skipped)) if i not in skipped)
    found = {
        positional[i] if i < len(positional) else f"args[{i}]": arg for i, arg in zip(numbers, args)
    }
    return {**found, **{f"{name}=": value for name, value in kwargs.items()}}
