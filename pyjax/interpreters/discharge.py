"""Programs without mutable references, from programs with them: what a reference holds becomes a
value that is passed on, from one equation that uses it to the next.

The compiler sees such programs only, and so do jvp, vmap and transposition where an equation has
programs among its parameters (loops, branches, calls). In a program that is discharged a `Cell`
stands for a reference. `discharge_rules` has a rule for each primitive that takes cells,
`rule(args, params) -> results`; rules of those with programs inside, which bind the primitive with
a discharged program and store what it makes of the cells, are in `call_discharge_rules`. Layer:
interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.effects import new_ref_effect, refer_to_refs, written_inputs
from pyjax.core.errors import fail
from pyjax.core.jaxpr import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    bind_eqn,
    eval_jaxpr,
    jaxprs_in_params,
)
from pyjax.core.primitive import CallPrimitive, Primitive
from pyjax.core.refs import AbstractRef, is_ref
from pyjax.core.structural import convert_element_type, get_p, swap_p
from pyjax.interpreters.lift_constants import bind_lifted
from pyjax.interpreters.rules import call_discharge_rules, called_programs, discharge_rules
from pyjax.interpreters.staging import trace_to_jaxpr
from pyjax.interpreters.trace_cache import jaxpr_cache


class Cell:
    """What stands for a reference: its value now."""

    __slots__ = ("aval", "value")

    def __init__(self, aval: AbstractRef, value: Any) -> None:
        self.aval = aval
        self.value = value

    def read(self) -> Any:
        return self.value

    def write(self, value: Any) -> None:
        inner = self.aval.inner_aval
        if abstractify(value) is not inner:
            value = convert_element_type(value, inner.dtype, inner.weak_type)
        self.value = value


class _Outer(Cell):
    """A reference that stays one, for the rule of a primitive that takes cells."""

    __slots__ = ("ref",)

    def __init__(self, ref: Any) -> None:
        self.aval = ref.aval
        self.ref = ref

    def read(self) -> Any:
        return get_p.bind1(self.ref, indexers=())

    def write(self, value: Any) -> None:
        swap_p.bind(self.ref, value, indexers=())


Rule = Callable[[Sequence[Any], dict[str, Any]], list[Any]]


def same_ref(x: Any, cell: Cell) -> bool:
    """Whether an operand is the reference that a cell stands for."""
    if isinstance(cell, _Outer):
        return isinstance(x, _Outer) and x.ref is cell.ref
    return x is cell


def values_of(args: Sequence[Any]) -> list[Any]:
    """Operands with the values of cells in their places."""
    return [x.read() if isinstance(x, Cell) else x for x in args]


def are_cells(args: Sequence[Any]) -> tuple[bool, ...]:
    return tuple(isinstance(x, Cell) for x in args)


# -- programs --------------------------------------------------------------------------------------


def discharged(
    closed: ClosedJaxpr, is_cell: Sequence[bool], written: Sequence[bool] | None = None
) -> tuple[ClosedJaxpr, list[bool]]:
    """A program that takes values for some of the references that it takes.

    Args:
      is_cell: the inputs that are these references.
      written: of which to return what they hold at the end; default: those that are written to.
    Returns:
      A program with the same inputs and outputs, and these values as further outputs; of which
      inputs they are.
    """
    if written is None:
        found = written_inputs(closed.effects)
        first = len(closed.jaxpr.constvars)
        written = [c and first + i in found for i, c in enumerate(is_cell)]
    program = _discharged(closed, tuple(map(bool, is_cell)), tuple(map(bool, written)))
    return program, list(written)


@jaxpr_cache
def _discharged(
    closed: ClosedJaxpr, is_cell: tuple[bool, ...], written: tuple[bool, ...]
) -> ClosedJaxpr:
    avals = closed.in_avals

    def fun(*args: Any) -> list[Any]:
        inputs = [Cell(a, x) if c else x for a, x, c in zip(avals, args, is_cell)]
        outs = eval_jaxpr(closed.jaxpr, closed.consts, *inputs, apply=apply_discharged)
        return values_of([*outs, *[x for x, w in zip(inputs, written) if w]])

    value_avals = [a.inner_aval if c else a for a, c in zip(avals, is_cell)]
    return trace_to_jaxpr(fun, value_avals, debug=closed.jaxpr.debug_info)[0]


def holds_refs(closed: ClosedJaxpr | Jaxpr) -> bool:
    """Whether a program uses references: its own, or those it is given."""
    jaxpr = closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed
    if jaxpr.effects and (new_ref_effect in jaxpr.effects or refer_to_refs(jaxpr.effects)):
        return True
    return any(type(v.aval) is AbstractRef for v in (*jaxpr.constvars, *jaxpr.invars))


@jaxpr_cache
def without_own_refs(jaxpr: Jaxpr) -> Jaxpr:
    """A program without the references that it makes; those that it is given stay."""
    inputs = [*jaxpr.constvars, *jaxpr.invars]
    n = len(jaxpr.constvars)

    def fun(*args: Any) -> list[Any]:
        outs = eval_jaxpr(jaxpr, args[:n], *args[n:], apply=apply_discharged)
        return values_of(outs)

    new = trace_to_jaxpr(fun, [v.aval for v in inputs], debug=jaxpr.debug_info)[0]
    assert not new.consts
    return new.jaxpr.replace(constvars=new.jaxpr.invars[:n], invars=new.jaxpr.invars[n:])


def apply_discharged(eqn: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """The results of an equation on values, cells and references that stay."""
    cells = any(isinstance(x, Cell) for x in values)
    if not cells and not (eqn.effects and new_ref_effect in eqn.effects):
        return bind_eqn(eqn, values)
    call_rule = call_discharge_rules.get(eqn.primitive)
    if call_rule is not None:
        return call_rule(_as_cells(values), eqn.params)
    rule = discharge_rules.get(eqn.primitive)
    if rule is None:
        fail(
            NotImplementedError,
            f"{eqn.primitive} got a Ref.",
            "a reference can be read, written, and passed to jit, loops, branches, checkpoint and "
            "functions with rules of their own",
            "Pass what it holds, ref[...].",
        )
    return rule(values, eqn.params)


# -- equations, under a transformation -------------------------------------------------------------


def uses_refs(args: Sequence[Any], params: dict[str, Any]) -> bool:
    """Whether a call, loop or branch does something to references."""
    if any(is_ref(x) for x in args):
        return True
    return any(j.effects and new_ref_effect in j.effects for j in jaxprs_in_params(params))


def bind_discharged(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Bind a call, loop or branch under the current trace as one without references, between reads
    and writes of those that it uses.

    A function with a derivative rule of its own that takes references must meet the trace itself:
    its rule may write to them. Calls with such functions inside are taken apart.

    Raises:
      NotImplementedError: a loop or branch has such a function inside.
    """
    if any(map(_has_rule_on_refs, jaxprs_in_params(params))):
        if primitive not in called_programs:
            fail(
                NotImplementedError,
                f"{primitive} with a function that takes a Ref and has a derivative rule of its "
                "own is differentiated or mapped.",
                "a loop or branch is transformed with what its references hold passed on; the rule "
                "would not see the references themselves",
                "Call the function outside of the loop or branch, or write the loop in Python.",
            )
        return params[called_programs[primitive]].eval(*args)
    return call_discharge_rules[primitive](_as_cells(args), params)


def _as_cells(args: Sequence[Any]) -> list[Any]:
    return [_Outer(x) if not isinstance(x, Cell) and is_ref(x) else x for x in args]


@jaxpr_cache
def _has_rule_on_refs(jaxpr: Jaxpr) -> bool:
    for eqn in jaxpr.eqns:
        if isinstance(eqn.primitive, CallPrimitive):
            if any(type(a.aval) is AbstractRef for a in eqn.invars):
                return True
        if any(map(_has_rule_on_refs, jaxprs_in_params(eqn.params))):
            return True
    return False


def store(args: Sequence[Any], written: Sequence[bool], finals: Sequence[Any]) -> None:
    """Put into cells what they hold after a call."""
    for cell, value in zip([x for x, w in zip(args, written) if w], finals):
        cell.write(value)


def discharge_call(
    primitive: Primitive, changed: Callable[[ClosedJaxpr, Mapping[str, Any]], dict[str, Any]]
) -> Rule:
    """The rule of a primitive that calls its parameter `jaxpr`.

    `changed(jaxpr, params)`: the parameters with that jaxpr instead.
    """

    def rule(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        new, written = discharged(params["jaxpr"], are_cells(args))
        outs = bind_lifted(primitive, *values_of(args), **changed(new, params))
        n = len(params["jaxpr"].out_avals)
        store(args, written, outs[n:])
        return outs[:n]

    return rule


def discharge_inlined(parameter: str) -> Rule:
    """The rule of a primitive that is the program in this parameter and, to transformations,
    something more: they have had their say."""

    def rule(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        closed: ClosedJaxpr = params[parameter]
        return eval_jaxpr(closed.jaxpr, closed.consts, *args, apply=apply_discharged)

    return rule
