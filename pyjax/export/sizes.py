"""Symbolic sizes of exported programs: found from arguments, and put into programs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.symbolic_dims import LARGEST, Scope, SymbolicDim, evaluate, variables
from pyjax.export.shape_specs import parse_size

# A size in the text of a program.
_PLACE = re.compile("«([^«»]*)»")


def symbolic_sizes(avals: Sequence[Any]) -> list[SymbolicDim]:
    """The sizes that depend on variables, each once."""
    found = [d for aval in avals for d in aval.shape if isinstance(d, SymbolicDim)]
    return list(dict.fromkeys(found))


def scope_of(avals: Sequence[Any]) -> Scope | None:
    """The scope of the sizes of types, None if they are all numbers.

    Raises:
      ValueError: there are several.
    """
    sizes = symbolic_sizes(avals)
    for size in sizes:
        size + sizes[0]  # raises unless the scopes are one
    return sizes[0].scope if sizes else None


def with_sizes(aval: ShapedArray, values: Mapping[str, int]) -> ShapedArray:
    """The type with its variables replaced by numbers."""
    return aval.update(shape=tuple([evaluate(d, values) for d in aval.shape]))


def fill_in(text: str, scope: Scope, values: Mapping[str, int]) -> str:
    """The text of a program for these sizes.

    Raises:
      ValueError: a size in the text is malformed, or depends on other variables.
    """

    def number(match: re.Match[str]) -> str:
        size = evaluate(parse_size(match[1], scope), values)
        if type(size) is not int:
            raise ValueError(f"the size {match[1]} is not known")
        return str(size)

    return _PLACE.sub(number, text)


def check_solvable(name: str, avals: Sequence[Any], names: Sequence[str]) -> None:
    """Raise ValueError unless the shapes of arguments tell all variables."""
    known: set[str] = set()
    equations = _equations(avals, names)
    while True:
        found = {v for size, _ in equations if (v := _linear_in(size, known)) is not None}
        if not found:
            break
        known |= found
    missing = sorted(variables(size for size, _ in equations) - known)
    if missing:
        fail(
            ValueError,
            f"{name} cannot be exported: the sizes of its arguments do not tell {missing[0]!r}",
            "the sizes are found from the shapes at a call, one variable after the other, from "
            "expressions linear in it",
            f"let an argument have {missing[0]!r} itself as a size",
        )


def _equations(avals: Sequence[Any], names: Sequence[str]) -> list[tuple[Any, str]]:
    """Symbolic sizes and where they stand."""
    return [
        (size, f"{name}.shape[{i}]")
        for aval, name in zip(avals, names)
        for i, size in enumerate(aval.shape)
        if isinstance(size, SymbolicDim)
    ]


def _linear_in(size: Any, known: set[str]) -> str | None:
    """The one unknown variable, if the size is `c * variable + what is known`."""
    unknown = variables([size]) - known
    if len(unknown) != 1:
        return None
    (name,) = unknown
    rest = [m for m in size.terms if name in variables([SymbolicDim({m: 1}, size.scope)])]
    return name if rest == [((name, 1),)] else None


def solve(
    name: str, in_avals: Sequence[Any], shapes: Sequence[tuple[int, ...]], names: Sequence[str]
) -> dict[str, int]:
    """The values of all variables for arguments of these shapes.

    Args:
      names: of the arguments, for messages.
    Raises:
      ValueError: the shapes have other ranks, contradict each other, or what the constraints say.
    """
    scope = scope_of(in_avals)
    assert scope is not None
    equations = []
    for aval, shape, argument in zip(in_avals, shapes, names):
        if len(aval.shape) != len(shape):
            _refuse(name, f"{aval.str_short()} as {argument}", f"shape {shape}", "the ranks differ")
        places = [f"{argument}.shape[{i}]" for i in range(len(shape))]
        equations += [(e, n, p) for e, n, p in zip(aval.shape, shape, places)]
    values, origins = _solved(name, equations)
    known = ", ".join(f"{v!r} is {n} by {origins[v]}" for v, n in values.items())
    for size, number, place in equations:
        wanted = evaluate(size, values)
        if wanted != number:
            told = f"{known}, so that it is {wanted}" if isinstance(size, SymbolicDim) else ""
            _refuse(name, f"{size} as {place}", str(number), told or "this size is fixed")
    broken = _broken_constraint(scope, values)
    if broken:
        _refuse(name, f"sizes with {', '.join(scope.constraints)}", known, broken)
    return values


def _solved(
    name: str, equations: Sequence[tuple[Any, int, str]]
) -> tuple[dict[str, int], dict[str, str]]:
    """The values of variables, and where each was found. Equations: size, its value, place."""
    values: dict[str, int] = {}
    origins: dict[str, str] = {}
    before = -1
    while len(values) > before:
        before = len(values)
        for size, number, place in equations:
            variable = _linear_in(size, set(values))
            if variable is None:
                continue
            coefficient = size.terms[((variable, 1),)]
            rest = evaluate(size, {**values, variable: 0})
            quotient, remainder = divmod(number - rest, coefficient)
            if remainder or not 1 <= quotient <= LARGEST:
                why = f"{variable!r} would be no size from 1 to {LARGEST}"
                _refuse(name, f"{size} as {place}", str(number), why)
            values[variable] = quotient
            origins[variable] = place
    return values, origins


def _broken_constraint(scope: Scope, values: Mapping[str, int]) -> str:
    """What contradicts the constraints of the scope; empty if nothing does."""
    for inequality in scope.inequalities:
        if variables([inequality]) <= values.keys() and evaluate(inequality, values) < 0:
            return f"{inequality} is negative"
    for factor, equal in scope.equal.items():
        left = SymbolicDim({((factor, 1),): 1}, scope)
        if variables([left, equal]) <= values.keys():
            a, b = evaluate(left, values), evaluate(equal, values)
            if a != b:
                return f"{left} is {a}, and {equal} is {b}"
    return ""


def _refuse(name: str, wanted: str, got: str, why: str) -> None:
    fail(
        ValueError,
        f"{name} takes {wanted}, and is called with {got}",
        why,
        "pass arrays of sizes that fit, or export the function for these",
    )
