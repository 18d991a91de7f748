"""Checks that no two names stand for one mutable reference in a function that is transformed, and
that none is returned (option `mutable_array_checks`).

A transformed function that knew one reference by two names would read through one of them what it
held before something was written through the other. Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyjax._config import options
from pyjax.core import source_info
from pyjax.core.debug_info import DebugInfo
from pyjax.core.errors import new_error
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.core.refs import AbstractRef, is_ref
from pyjax.core.trace import Tracer
from pyjax.core.tree_util import PyTreeDef, keystr, tree_flatten_with_path, tree_unflatten
from pyjax.interpreters.batching import BatchTracer
from pyjax.interpreters.staging import JaxprTracer


def _referent(x: Any) -> int:
    """The same for all that stand for one reference."""
    while isinstance(x, Tracer):
        if isinstance(x, BatchTracer):
            x = x.val
        elif isinstance(x, JaxprTracer):
            return id(x.atom)
        else:
            x = getattr(x, "primal", None)
    return id(x)


def check_aliases(
    debug: DebugInfo, arguments: Sequence[Any], closed_over: Sequence[Any] = ()
) -> None:
    """Each reference must be one argument, or closed over.

    Raises:
      ValueError: naming the arguments.
    """
    if not options.mutable_array_checks.here()[0].value:
        return
    seen: dict[int, int | None] = {_referent(x): None for x in closed_over if is_ref(x)}
    for i, x in enumerate(arguments):
        if is_ref(x):
            key = _referent(x)
            if key in seen:
                raise aliased(debug, x.aval, seen[key], i)
            seen[key] = i


def aliased(debug: DebugInfo, aval: AbstractRef, first: int | None, second: int) -> ValueError:
    """The error for a reference that is two arguments, or (`first` is None) closed over as well."""
    names = debug.names()

    def name(i: int) -> str:
        return f"argument {names[i]!r}" if i < len(names) else f"flat argument {i}"

    other = "and closed over" if first is None else f"and as {name(first)}"
    return new_error(
        ValueError,
        "only one reference to a mutable array may be passed as an argument to a function: a "
        f"{aval.str_short()} was passed to {debug.function}, for {debug.traced_for}, as "
        f"{name(second)} {other}.",
        "the function would not see through one name what it wrote through the other",
        "Pass it once, or close over it and do not pass it.",
    )


def check_no_refs(what: str, results: Sequence[Any]) -> None:
    """A function that runs at once does not return references either.

    Raises:
      ValueError: it does.
    """
    found = next((x for x in results if is_ref(x)), None)
    if found is not None and options.mutable_array_checks.here()[0].value:
        raise new_error(
            ValueError,
            f"{what} returned a mutable array reference of type {found.aval.str_short()}, but "
            "mutable array references cannot be returned.",
            "its derivative rule says how cotangents of arrays flow back",
            "Return what it holds, ref[...].",
        )


def check_none_returned(debug: DebugInfo, closed: ClosedJaxpr, out_tree: PyTreeDef) -> None:
    """References are not returned.

    Raises:
      ValueError: with the place in the result, and where the reference comes from.
    """
    if not any(type(a) is AbstractRef for a in closed.out_avals):
        return
    if not options.mutable_array_checks.here()[0].value:
        return
    jaxpr = closed.jaxpr
    position = next(i for i, a in enumerate(closed.out_avals) if type(a) is AbstractRef)
    var = jaxpr.outvars[position]
    paths, _ = tree_flatten_with_path(tree_unflatten(out_tree, list(range(out_tree.num_leaves))))
    path = keystr(paths[position][0])
    place = f" at output tree path result{path}" if path else ""
    origin = "it is closed over"
    if var in jaxpr.invars:
        number, names = jaxpr.invars.index(var), debug.names()
        shown = f"the argument {names[number]}" if number < len(names) else f"argument {number}"
        origin = f"it was passed in as {shown}"
    for eqn in jaxpr.eqns:
        if var in eqn.outvars:
            origin = f"it was created on line {source_info.summarize(eqn.source)}"
    raise new_error(
        ValueError,
        f"function {debug.function} traced for {debug.traced_for} returned a mutable array "
        f"reference of type {var.aval.str_short()}{place}, but mutable array references cannot be "
        "returned.",
        origin,
        "Return what it holds (ref[...], or pyjax.freeze(ref)); or make the Ref outside, and pass "
        "it in.",
    )
