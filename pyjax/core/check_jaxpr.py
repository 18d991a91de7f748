"""The jaxpr type checker, run after tracing when `enable_checks` is on. Layer: core."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pyjax.core.avals import typecompat, unsplit
from pyjax.core.errors import JaxprTypeError, new_error
from pyjax.core.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var, jaxprs_in_params
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import summarize

# Extra checks of equations with jaxprs inside: `rule(eqn, in_avals)`; raises JaxprTypeError.
custom_checks: dict[Primitive, Callable[[JaxprEqn, list[Any]], None]] = {}
# Of primitives whose programs see other named axes than their equation: `under(params, check)`
# calls `check()` where these are bound.
program_contexts: dict[Primitive, Callable[[dict[str, Any], Callable[[], None]], None]] = {}


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Check that variables are bound once and before use, and equations have the types they claim.

    Raises:
      JaxprTypeError: names the equation and the user's line.

    >>> check_jaxpr(pyjax.make_jaxpr(lambda x: 2 * x)(1.0).jaxpr)  # well typed: nothing happens
    """
    bound: set[Var] = set()
    for v in (*jaxpr.constvars, *jaxpr.invars):
        if v in bound:
            raise JaxprTypeError(f"variable {v} is an input twice")
        bound.add(v)
    for i, eqn in enumerate(jaxpr.eqns):
        _check_eqn(eqn, i, bound)
    for v in jaxpr.outvars:
        if type(v) is not Literal and v not in bound:
            raise JaxprTypeError(f"output variable {v} is not bound")


def _check_eqn(eqn: JaxprEqn, index: int, bound: set[Var]) -> None:
    def fail(why: str) -> JaxprTypeError:
        return new_error(
            JaxprTypeError,
            f"equation {index} of the jaxpr, {eqn.primitive}, is ill-typed: {why}",
            f"equation: {eqn!r}",
            where=summarize(eqn.source),
        )

    for a in eqn.invars:
        if type(a) is not Literal and a not in bound:
            raise fail(f"operand {a} is not bound before its use")
    under = program_contexts.get(eqn.primitive)
    if under is None:
        _check_programs(eqn)
    else:
        under(eqn.params, partial(_check_programs, eqn))
    in_avals = [a.aval for a in eqn.invars]
    if eqn.primitive in custom_checks:
        custom_checks[eqn.primitive](eqn, in_avals)
    try:
        out_avals = eqn.primitive.abstract_eval(*in_avals, **eqn.params)
    except (TypeError, ValueError) as error:
        raise fail(f"{type(error).__name__}: {error}") from error
    if len(out_avals) != len(eqn.outvars):
        raise fail(f"{len(out_avals)} outputs by its rule, {len(eqn.outvars)} variables")
    for v, aval in zip(eqn.outvars, out_avals):
        # Rules say nothing of mesh axes, along which values vary or are split: tracing adds it.
        if not typecompat(_without_axes(v.aval), _without_axes(aval)):
            raise fail(
                f"output {v} has type {v.aval.str_short()}, its rule says {aval.str_short()}"
            )
        if type(v) is not DropVar:
            if v in bound:
                raise fail(f"variable {v} is bound twice")
            bound.add(v)


def _check_programs(eqn: JaxprEqn) -> None:
    for sub in jaxprs_in_params(eqn.params):
        check_jaxpr(sub)


def _without_axes(aval: Any) -> Any:
    aval = unsplit(aval)
    return aval.update(vma=frozenset()) if aval.vma else aval
