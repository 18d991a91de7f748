"""Constants of nested programs become operands, where their equation is recorded.

A program in the parameters of an equation may close over an array of any size: a function's own
constants are operands already (TracedFunction), but what the rules of a user's derivative close
over comes with the program that is derived. As a constant in there it would be written into HLO,
element by element; as an operand it is a constant of the recorded program, which holds each value
once, and so on up to the whole program, which takes it as an argument. So no recorded equation
holds a program with constants. Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr
from pyjax.core.primitive import Primitive
from pyjax.interpreters.trace_cache import jaxpr_cache

# `lift(program)`: the program with its constants as leading inputs, and these as operands.
Lift = Callable[[ClosedJaxpr], tuple[ClosedJaxpr, list[Any]]]
# For a primitive with programs among its parameters: `rule(operands, params, lift)` gives those of
# an equation whose programs have no constants.
LiftRule = Callable[[list[Any], dict[str, Any], Lift], tuple[list[Any], dict[str, Any]]]
lift_rules: dict[Primitive, LiftRule] = {}


def constvars_as_inputs(jaxpr: Jaxpr) -> Jaxpr:
    """Constvars become the first inputs."""
    if not jaxpr.constvars:
        return jaxpr
    return jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])


@jaxpr_cache
def constants_as_inputs(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Constants become the first inputs; one program for all equations that hold it."""
    return ClosedJaxpr(constvars_as_inputs(closed.jaxpr))


def bind_lifted(primitive: Primitive, *operands: Any, **params: Any) -> list[Any]:
    """Bind a primitive to programs that may hold constants, which become operands.

    For derived programs: what a recorded rule closes over is a constant of what is derived with it,
    and may be a value that the trace in context maps or differentiates.
    """
    args, params = lift_rules[primitive](list(operands), params, _with_constants_taken_out)
    return primitive.bind_all(*args, **params)


def _with_constants_taken_out(program: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    return constants_as_inputs(program) if program.consts else program, list(program.consts)


def lift_leading(parameter: str, counted: str | None = None) -> LiftRule:
    """The rule of a primitive with one program, whose inputs are the operands.

    Args:
      parameter: where the program is.
      counted: the parameter that counts leading operands, if there is one.
    """

    def rule(
        operands: list[Any], params: dict[str, Any], lift: Lift
    ) -> tuple[list[Any], dict[str, Any]]:
        if not params[parameter].consts:
            return operands, params
        program, values = lift(params[parameter])
        params = {**params, parameter: program}
        if counted is not None:
            params[counted] += len(values)
        if "donated_invars" in params:
            params["donated_invars"] = (False,) * len(values) + tuple(params["donated_invars"])
        return [*values, *operands], params

    return rule


def lift_groups(
    operands: list[Any], params: dict[str, Any], lift: Lift
) -> tuple[list[Any], dict[str, Any]]:
    """The rule of primitives with several programs, `jaxprs`, whose constants are the first
    operands, `const_lengths` of each; a program may be missing (None)."""
    jaxprs, lengths = params["jaxprs"], params["const_lengths"]
    programs = [(None, []) if j is None else lift(j) for j in jaxprs]
    if not any(values for _, values in programs):
        return operands, params
    grouped: list[Any] = []
    start = 0
    for (_, values), length in zip(programs, lengths):
        grouped += [*values, *operands[start : start + length]]
        start += length
    new_lengths = [n + len(values) for n, (_, values) in zip(lengths, programs)]
    changed = {
        "jaxprs": _like(jaxprs, [program for program, _ in programs]),
        "const_lengths": _like(lengths, new_lengths),
    }
    return [*grouped, *operands[start:]], {**params, **changed}


def _like(example: tuple[Any, ...], items: Sequence[Any]) -> tuple[Any, ...]:
    """A tuple, or a named tuple, as the example is."""
    return type(example)(*items) if hasattr(example, "_fields") else tuple(items)
