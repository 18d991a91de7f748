"""What the control-flow functions share: permuting jaxprs, and the checks of bodies and carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core import axis_env, dtypes
from pyjax.core.avals import ShapedArray, abstractify, typecompat
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, Var
from pyjax.core.signatures import parameters_of
from pyjax.core.source_info import function_location
from pyjax.core.tree_util import (
    first_difference,
    keystr,
    tree_flatten_with_path,
    tree_unflatten,
)
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.lax.convert import convert_element_type


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


@jaxpr_cache
def with_leading(
    closed: ClosedJaxpr, positions: tuple[int, ...], avals: tuple[Any, ...]
) -> ClosedJaxpr:
    """Other leading inputs, one for each aval; the ones there are, as many as there are positions,
    take these, and the others are ignored."""
    jaxpr = closed.jaxpr
    own = dict(zip(positions, jaxpr.invars))
    leading = [own.get(i) or Var(aval) for i, aval in enumerate(avals)]
    new = jaxpr.replace(invars=[*leading, *jaxpr.invars[len(positions) :]])
    return ClosedJaxpr(new, closed.consts)


def with_common_leading(
    programs: Sequence[tuple[ClosedJaxpr, Sequence[Any]]],
) -> tuple[tuple[ClosedJaxpr, ...], list[Any]]:
    """Give programs with values for their leading inputs the same leading inputs: each value once.

    Values are told apart by identity.
    """
    values: dict[int, Any] = {}
    types: dict[int, Any] = {}
    for closed, own in programs:
        values.update((id(x), x) for x in own)
        types.update((id(x), v.aval) for x, v in zip(own, closed.jaxpr.invars))
    numbers = {key: i for i, key in enumerate(values)}
    avals = tuple(types[key] for key in values)
    result = []
    for closed, own in programs:
        positions = tuple(numbers[id(x)] for x in own)
        same = positions == tuple(range(len(values)))
        result.append(closed if same else with_leading(closed, positions, avals))
    return tuple(result), list(values.values())


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
    if a.vma != b.vma:
        parts.append("the manual axis types do not match")
    if a.shape == b.shape and a.split != b.split:
        parts.append("the shardings do not match")
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
            "carry input.",
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
            f"output carry component has type {out.str_short()}, so "
            f"{difference_of_types(have, out)}."
        )
        if out.vma - have.vma:
            fixes.append(
                f"Cast the initial value of {path}, which is the same on all devices along an "
                "axis: "
                f"`lax.pcast(..., {axis_env.in_order(out.vma - have.vma)}, to='varying')`."
            )
        if have.shape == out.shape and have.split != out.split:
            fixes.append(
                f"Lay the initial value of {path} out as the returned value: "
                "`jax.sharding.reshard(x, P(...))`."
            )
        if have.shape == out.shape and have.dtype != out.dtype:
            fixes.append(
                f"Convert the initial value of {path} with .astype(jnp.{out.dtype}), or the "
                f"returned value with .astype(jnp.{have.dtype})."
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
