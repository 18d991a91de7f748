"""Constants of nested programs become constants of the whole program.

A function that is called inside another one may close over an array of any size. As a constant of
the inner program it would be written into the HLO of the outer one, element by element; as a
constant of the whole program it can be passed as an argument. Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from pyjax.core.primitive import Primitive

# Whether a constant is lifted: `is_large(value)`.
Test = Callable[[Any], bool]
# For a primitive with programs among its parameters: the equation with their lifted constants as
# operands. `rule(eqn, lift)`.
LiftRule = Callable[[JaxprEqn, "Lift"], JaxprEqn]
lift_rules: dict[Primitive, LiftRule] = {}


class Lift:
    """What the rule of one equation uses: `program` lifts a nested program, `operands` passes what
    was lifted."""

    def __init__(self, lifter: _Lifter, level: _Level) -> None:
        self._lifter = lifter
        self._level = level

    def program(self, closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
        """The program with its lifted constants as leading inputs, and their values."""
        return self._lifter.nested(closed)

    def operands(self, values: Sequence[Any]) -> list[Any]:
        """Variables for values that nested programs need, in the program of the equation."""
        return [self._level.variable(value) for value in values]


def lift_constants(closed: ClosedJaxpr, is_large: Test) -> ClosedJaxpr:
    """The same program, with the large constants of all nested programs among its own.

    A value that is a constant at several places is one constant. A program without any such
    constants is returned as it is.
    """
    lifter = _Lifter(is_large)
    level = _Level(closed, is_large)
    eqns = lifter.equations(closed.jaxpr, level)
    if eqns is None:
        return closed
    added = level.added
    jaxpr = closed.jaxpr.replace(
        constvars=[*closed.jaxpr.constvars, *(v for v, _ in added)], eqns=eqns
    )
    return ClosedJaxpr(jaxpr, [*closed.consts, *(value for _, value in added)])


class _Level:
    """The variables of one program for large constants: its own, and those of programs in it."""

    def __init__(self, closed: ClosedJaxpr, is_large: Test) -> None:
        pairs = zip(closed.jaxpr.constvars, closed.consts)
        self.own = [(v, value) for v, value in pairs if is_large(value)]
        self.added: list[tuple[Var, Any]] = []
        self._variables = {id(value): v for v, value in self.own}

    def variable(self, value: Any) -> Var:
        found = self._variables.get(id(value))
        if found is None:
            found = self._variables[id(value)] = Var(abstractify(value))
            self.added.append((found, value))
        return found


class _Lifter:
    def __init__(self, is_large: Test) -> None:
        self._is_large = is_large
        # By id, so that a program that is called twice stays one; the first element keeps it alive.
        self._done: dict[int, tuple[ClosedJaxpr, ClosedJaxpr, list[Any]]] = {}

    def nested(self, closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
        """A program with its large constants, and those in it, as leading inputs; their values."""
        found = self._done.get(id(closed))
        if found is None:
            found = self._done[id(closed)] = (closed, *self._nested(closed))
        return found[1], found[2]

    def _nested(self, closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
        level = _Level(closed, self._is_large)
        eqns = self.equations(closed.jaxpr, level)
        if eqns is None and not level.own:
            return closed, []
        lifted = [*level.own, *level.added]
        large = {v for v, _ in level.own}
        pairs = list(zip(closed.jaxpr.constvars, closed.consts))
        jaxpr = closed.jaxpr.replace(
            constvars=[v for v, _ in pairs if v not in large],
            invars=[*(v for v, _ in lifted), *closed.jaxpr.invars],
            eqns=closed.jaxpr.eqns if eqns is None else eqns,
        )
        small = [value for v, value in pairs if v not in large]
        return ClosedJaxpr(jaxpr, small), [value for _, value in lifted]

    def equations(self, jaxpr: Jaxpr, level: _Level) -> list[JaxprEqn] | None:
        """The equations with lifted programs; None if nothing is lifted from any of them."""
        lift = Lift(self, level)
        changed = False
        eqns: list[JaxprEqn] = []
        for eqn in jaxpr.eqns:
            rule = lift_rules.get(eqn.primitive)
            new = eqn if rule is None else rule(eqn, lift)
            changed = changed or new is not eqn
            eqns.append(new)
        return eqns if changed else None


def lift_leading(parameter: str, counted: str | None = None) -> LiftRule:
    """The rule of a primitive with one program, whose inputs are the operands.

    Args:
      parameter: where the program is.
      counted: the parameter that counts leading operands, if there is one.
    """

    def rule(eqn: JaxprEqn, lift: Lift) -> JaxprEqn:
        program, values = lift.program(eqn.params[parameter])
        if program is eqn.params[parameter]:
            return eqn
        params = {**eqn.params, parameter: program}
        if counted is not None:
            params[counted] += len(values)
        if "donated_invars" in params:
            params["donated_invars"] = (False,) * len(values) + tuple(params["donated_invars"])
        return eqn.replace(invars=[*lift.operands(values), *eqn.invars], params=params)

    return rule


def lift_groups(eqn: JaxprEqn, lift: Lift) -> JaxprEqn:
    """The rule of primitives with several programs, `jaxprs`, whose constants are the first
    operands, `const_lengths` of each; a program may be missing (None)."""
    jaxprs, lengths = eqn.params["jaxprs"], eqn.params["const_lengths"]
    programs = [(None, []) if j is None else lift.program(j) for j in jaxprs]
    if not any(values for _, values in programs):
        return eqn
    invars: list[Any] = []
    start = 0
    for (_, values), length in zip(programs, lengths):
        invars += [*lift.operands(values), *eqn.invars[start : start + length]]
        start += length
    new_lengths = [n + len(values) for n, (_, values) in zip(lengths, programs)]
    params = {
        **eqn.params,
        "jaxprs": _like(jaxprs, [program for program, _ in programs]),
        "const_lengths": _like(lengths, new_lengths),
    }
    return eqn.replace(invars=[*invars, *eqn.invars[start:]], params=params)


def _like(example: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """A tuple, or a named tuple, as the example is."""
    return type(example)(*items) if hasattr(example, "_fields") else tuple(items)


def with_shared_constants(
    programs: Sequence[tuple[ClosedJaxpr, list[Any]]],
) -> tuple[list[ClosedJaxpr], list[Any]]:
    """Lifted programs (of several branches) with the same leading inputs, and the values of those:
    each value once."""
    values = {id(value): value for _, own in programs for value in own}
    result = []
    for closed, own in programs:
        mine = dict(zip(map(id, own), closed.jaxpr.invars))
        leading = [mine.get(key) or Var(abstractify(value)) for key, value in values.items()]
        invars = [*leading, *closed.jaxpr.invars[len(own) :]]
        result.append(ClosedJaxpr(closed.jaxpr.replace(invars=invars), closed.consts))
    return result, list(values.values())
