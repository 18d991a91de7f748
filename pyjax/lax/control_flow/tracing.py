"""What the control-flow functions share: tracing a body once, permuting jaxprs, and the checks of
carries.

A traced body is remembered with its function, so that an eager loop over `lax.scan(f, ...)` traces
and compiles `f` once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyjax._config.registry import trace_context
from pyjax.core import axis_env, dtypes
from pyjax.core.avals import ShapedArray, abstractify, typecompat
from pyjax.core.debug_info import DebugInfo, arg_names
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.signatures import parameters_of
from pyjax.core.source_info import function_location
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import (
    first_difference,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_structure,
    tree_unflatten,
)
from pyjax.core.weak_tables import WeakIdentityTable
from pyjax.interpreters.partial_eval import convert_constvars_jaxpr, trace_to_jaxpr
from pyjax.interpreters.trace_cache import TRACES, jaxpr_cache, trace_bytes
from pyjax.lax.convert import convert_element_type
from pyjax.runtime.dispatch import as_array
from xla_backend.process.bounded_cache import BoundedCache

# -- tracing ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TracedFunction:
    """A function traced on abstract values.

    Attributes:
      closed: takes the closed-over values, then the flat arguments; holds no constants.
      consts: the closed-over values; tracers of enclosing transformations among them.
      out_tree: structure of the result.
    """

    closed: ClosedJaxpr
    consts: list[Any]
    out_tree: Any

    @property
    def out_avals(self) -> list[Any]:
        return self.closed.out_avals


_traced = WeakIdentityTable()


def _remembered(fun: Callable[..., Any]) -> BoundedCache[Any, TracedFunction]:
    """What is remembered of a function; nothing for objects that cannot be weakly held."""
    table = _traced.get(fun)
    if table is None:
        table = BoundedCache(TRACES, lambda traced: trace_bytes(traced.closed))
        try:
            _traced.set(fun, table)
        except TypeError:
            pass  # such as a builtin: traced anew each time
    return table


def _debug_info(name: str, fun: Callable[..., Any], in_tree: Any) -> DebugInfo:
    try:
        held = weakref.ref(fun)
    except TypeError:
        return DebugInfo(name, function_location(fun))

    def names() -> tuple[str, ...]:
        alive = held()
        tree = tree_structure((tree_unflatten(in_tree, range(in_tree.num_leaves)), {}))
        return () if alive is None else arg_names(alive, tree)

    return DebugInfo(name, function_location(fun), None, names)


def trace_function(
    name: str, fun: Callable[..., Any], in_tree: Any, in_avals: Sequence[Any]
) -> TracedFunction:
    """Trace `fun(*args)`, where the flat arguments have structure `in_tree` (that of the tuple of
    arguments).
    """
    table = _remembered(fun)
    key = (name, in_tree.exact_key(), tuple(in_avals), trace_context(), axis_env.key())
    found = table.find(key)
    if found is not None:
        return found
    out_tree: list[Any] = []

    def flat(*args: Any) -> list[Any]:
        leaves, tree = tree_flatten(fun(*tree_unflatten(in_tree, args)))
        out_tree.append(tree)
        return leaves

    closed, _ = trace_to_jaxpr(flat, in_avals, debug=_debug_info(name, fun, in_tree))
    # A NumPy array would be copied whenever the body runs outside of a compiled program.
    consts = [as_array(c) if isinstance(c, np.ndarray) else c for c in closed.consts]
    result = TracedFunction(ClosedJaxpr(convert_constvars_jaxpr(closed)), consts, out_tree[0])
    if not any(isinstance(c, Tracer) for c in consts):
        # A tracer belongs to one call of an enclosing transformation; other constants stay.
        result = table.put(key, result)
    return result


def require_callable(what: str, *funs: Any) -> None:
    for fun in funs:
        if not callable(fun):
            fail(
                TypeError,
                f"{what} should be callable, got {fun!r}.",
                "control-flow functions take Python functions for their bodies.",
                "pass a function or a lambda.",
            )


# -- jaxprs ----------------------------------------------------------------------------------------


def reordered(closed: ClosedJaxpr, ins: Sequence[int], outs: Sequence[int]) -> ClosedJaxpr:
    """Inputs and outputs in another order, given by positions (an output may be left out)."""
    n_in, n_out = len(closed.jaxpr.invars), len(closed.jaxpr.outvars)
    if list(ins) == list(range(n_in)) and list(outs) == list(range(n_out)):
        return closed
    return _reordered(closed, tuple(ins), tuple(outs))


@jaxpr_cache
def _reordered(closed: ClosedJaxpr, ins: tuple[int, ...], outs: tuple[int, ...]) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    new = jaxpr.replace(
        invars=[jaxpr.invars[i] for i in ins], outvars=[jaxpr.outvars[i] for i in outs]
    )
    return ClosedJaxpr(new, closed.consts)


def split_list(xs: Sequence[Any], *counts: int) -> list[list[Any]]:
    """Consecutive parts of the given lengths, and the rest."""
    parts, start = [], 0
    for n in counts:
        parts.append(list(xs[start : start + n]))
        start += n
    parts.append(list(xs[start:]))
    return parts


def either(a: Sequence[bool], b: Sequence[bool]) -> list[bool]:
    return [x or y for x, y in zip(a, b)]


def pick(xs: Sequence[Any], flags: Sequence[bool], wanted: bool = True) -> list[Any]:
    return [x for x, flag in zip(xs, flags) if flag is wanted or flag == wanted]


def merge(flags: Sequence[bool], if_true: Sequence[Any], if_false: Sequence[Any]) -> list[Any]:
    """One list from two, told apart by flags."""
    yes, no = iter(if_true), iter(if_false)
    return [next(yes) if flag else next(no) for flag in flags]


# -- checks of carries and branches ----------------------------------------------------------------


def promote_weak_carry(
    values: Sequence[Any], in_avals: Sequence[Any], out_avals: Sequence[Any]
) -> list[Any] | None:
    """Initial values with weakly typed ones converted to what the body makes of them; None: no
    change.

    `scan(lambda c, x: (c + x, c), 0, floats)` starts from 0.0.
    """
    if len(in_avals) != len(out_avals):
        return None
    result, changed = list(values), False
    for i, (have, out) in enumerate(zip(in_avals, out_avals)):
        if not isinstance(have, ShapedArray) or not have.weak_type or typecompat(have, out):
            continue
        dtype = dtypes.result_type(values[i], out.dtype)
        if dtype != have.dtype:
            result[i] = convert_element_type(values[i], dtype)
            changed = True
    return result if changed else None


def _argument_name(fun: Callable[..., Any], position: int) -> str:
    parameters = parameters_of(fun)
    return parameters[position].name if position < len(parameters) else "carry"


def _paths(name: str, tree: Any) -> list[str]:
    skeleton = tree_unflatten(tree, range(tree.num_leaves))
    return [name + keystr(path) for path, _ in tree_flatten_with_path(skeleton)[0]]


def difference_of_types(a: Any, b: Any) -> str:
    """What differs between two avals: "the dtypes do not match"."""
    parts = []
    if a.shape != b.shape:
        parts.append("the shapes do not match")
    if a.dtype != b.dtype:
        parts.append("the dtypes do not match")
    return " and ".join(parts)


def check_carry(
    what: str,
    fun: Callable[..., Any],
    position: int,
    in_tree: Any,
    in_avals: Sequence[Any],
    out_tree: Any,
    out_avals: Sequence[Any],
) -> None:
    """The carry that a body returns must have the structure and types of the one it takes.

    Args:
      what: for messages: "scan body function".   position: of the carry among the body's arguments.
    Raises:
      TypeError: naming each leaf that differs, both types, and the fix.
    """
    name = _argument_name(fun, position)
    body = f"the body is {function_location(fun)}."
    if in_tree != out_tree:
        difference = first_difference(
            tree_unflatten(in_tree, in_avals), tree_unflatten(out_tree, out_avals), name
        )
        fail(
            TypeError,
            f"{what} carry input and carry output must have the same pytree structure, but they "
            f"differ:\n\nThe input carry {name} has structure {in_tree}, the carry output "
            f"{out_tree}: "
            f"{difference}.",
            body,
            "Revise the function so that the carry output has the same pytree structure as the "
            "carry "
            "input.",
        )
    differing = [
        (path, have, out)
        for path, have, out in zip(_paths(name, in_tree), in_avals, out_avals)
        if not typecompat(have, out)
    ]
    if not differing:
        return
    lines, fixes = [], []
    for path, have, out in differing:
        kind = "" if path == name else "component "
        lines.append(
            f"The input carry {kind}{path} has type {have.str_short()} but the corresponding "
            "output "
            f"carry component has type {out.str_short()}, so {difference_of_types(have, out)}."
        )
        if have.shape == out.shape:
            fixes.append(
                f"Convert the initial value of {path} with .astype(jnp.{out.dtype}), or the "
                "returned "
                f"value with .astype(jnp.{have.dtype})."
            )
    fail(
        TypeError,
        f"{what} carry input and carry output must have equal types, but they differ:\n\n"
        + "\n".join(lines),
        body,
        "\n".join(
            [
                *fixes,
                "Revise the function so that all output types match the corresponding input types.",
            ]
        ),
    )


def avals_of(values: Sequence[Any]) -> list[Any]:
    return [abstractify(x) for x in values]
