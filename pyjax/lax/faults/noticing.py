"""Programs that notice things while they run: the same program with more results.

What is noticed is a *note*, a pytree of arrays (None: there is nothing to notice): a flag for the
options that look for faults (`faults.flags`), an `Error` for checkify. A noticer says what an
operation is worth noting for and what two notes are together; here is how notes go through
programs, loops and branches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyjax.core.call_chains import override
from pyjax.core.jaxpr import ClosedJaxpr, JaxprEqn, eval_jaxpr
from pyjax.core.primitive import Primitive
from pyjax.core.source_info import Frame
from pyjax.core.structural import zeros_like_aval
from pyjax.core.tree_util import PyTreeDef, tree_flatten, tree_leaves, tree_unflatten
from pyjax.interpreters.lift_constants import bind_lifted
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import called_programs
from pyjax.interpreters.trace_cache import jaxpr_cache
from pyjax.lax.control_flow.cond_rules import cond_p
from pyjax.lax.control_flow.scan_rules import scan_p
from pyjax.lax.control_flow.tracing import split_list
from pyjax.lax.control_flow.while_loop import while_p
from pyjax.lax.faults.walking import place_of
from xla_backend.process.values import Value

Note = Any
# The results of an equation or program, and its note.
Noted = tuple[Sequence[Any], Note]


class NotingProgram(NamedTuple):
    """A program whose last results are the leaves of a note.

    Attributes:
      number: of the results before these.
    """

    closed: ClosedJaxpr
    tree: PyTreeDef
    number: int

    @property
    def avals(self) -> tuple[Any, ...]:
        """Of the note's leaves."""
        return tuple(self.closed.out_avals[self.number :])

    def split(self, results: Sequence[Any]) -> tuple[list[Any], Note]:
        return list(results[: self.number]), tree_unflatten(self.tree, results[self.number :])

    def nothing(self) -> Note:
        """A note that says that there was nothing: zeros."""
        return _nothing(self.tree, self.avals)


def _nothing(tree: PyTreeDef, avals: Sequence[Any]) -> Note:
    return tree_unflatten(tree, [zeros_like_aval(a) for a in avals])


class AbstractNoticer(Value, ABC):
    """What to notice. Equal ones notice the same: programs are remembered by them."""

    @abstractmethod
    def operation(self, eqn: JaxprEqn, values: Sequence[Any]) -> Noted:
        """Evaluate an equation that holds no programs."""

    @abstractmethod
    def call(self, eqn: JaxprEqn, values: Sequence[Any], at: Frame | None) -> Noted:
        """Evaluate an equation that calls a program (`called_programs`)."""

    @abstractmethod
    def both(self, first: Note, second: Note) -> Note:
        """Two notes in one, of which the first came before; either may be None."""

    @abstractmethod
    def in_lanes(self, note: Note, lanes: tuple[int, ...]) -> Note:
        """A note, not None, of a round of a loop in which each lane of a vmap stops by itself."""

    @abstractmethod
    def of_lanes(self, note: Note) -> Note:
        """The note of a loop, from one that went through it by `in_lanes`."""

    @abstractmethod
    def of_positions(self, note: Note) -> Note:
        """One note of those, not None, along a new first dimension, of a mesh's positions."""

    def evaluate(self, closed: ClosedJaxpr, args: Sequence[Any], at: Frame | None = None) -> Noted:
        """Evaluate a program under the current trace.

        Args:
          at: the user's line for equations that were traced for somebody else's call.
        """
        note: Note = None
        outer = override.frame

        def apply(eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
            nonlocal note
            if at is not None:
                override.frame = place_of(eqn, at, outer)
            outs, more = self._equation(eqn, values, at)
            note = self.both(note, more)
            return outs

        return eval_jaxpr(closed.jaxpr, closed.consts, *args, apply=apply), note

    def _equation(self, eqn: JaxprEqn, values: Sequence[Any], at: Frame | None) -> Noted:
        if eqn.primitive in called_programs:
            return self.call(eqn, values, at)
        rule = noting_rules.get(eqn.primitive)
        return self.operation(eqn, values) if rule is None else rule(self, eqn, values, at)


@jaxpr_cache
def noting_program(
    closed: ClosedJaxpr, noticer: AbstractNoticer, at: Frame | None = None
) -> NotingProgram:
    """The program with its note."""
    trees: list[PyTreeDef] = []

    def fun(*args: Any) -> list[Any]:
        outs, note = noticer.evaluate(closed, args, at)
        leaves, tree = tree_flatten(note)
        trees.append(tree)
        return [*outs, *leaves]

    new, _ = trace_to_jaxpr(fun, closed.in_avals, debug=closed.jaxpr.debug_info)
    return NotingProgram(new, trees[0], len(closed.out_avals))


# -- control flow ----------------------------------------------------------------------------------


def _scan(
    noticer: AbstractNoticer, eqn: JaxprEqn, values: Sequence[Any], at: Frame | None
) -> Noted:
    """The note is part of the carry."""
    params, body = eqn.params, eqn.params["jaxpr"]
    num_consts = params["num_consts"]
    noting = noting_program(body, noticer, at)
    new = _scan_round(body, noticer, at, num_consts)
    leaves = tree_leaves(noting.nothing())
    results = bind_lifted(
        scan_p,
        *values[:num_consts],
        *leaves,
        *values[num_consts:],
        **{**params, "jaxpr": new, "num_carry": params["num_carry"] + len(leaves)},
    )
    noted, outs = split_list(results, len(leaves))
    return outs, tree_unflatten(noting.tree, noted)


@jaxpr_cache
def _scan_round(
    body: ClosedJaxpr, noticer: AbstractNoticer, at: Frame | None, num_consts: int
) -> ClosedJaxpr:
    noting = noting_program(body, noticer, at)
    size = len(noting.avals)

    def fun(*args: Any) -> list[Any]:
        consts, noted, rest = split_list(args, num_consts, size)
        outs, note = noting.split(noting.closed.eval(*consts, *rest))
        return [*tree_leaves(noticer.both(tree_unflatten(noting.tree, noted), note)), *outs]

    avals = [*body.in_avals[:num_consts], *noting.avals, *body.in_avals[num_consts:]]
    return trace_to_jaxpr(fun, avals, debug=body.jaxpr.debug_info)[0]


def _while(
    noticer: AbstractNoticer, eqn: JaxprEqn, values: Sequence[Any], at: Frame | None
) -> Noted:
    """The note is part of the carry. What the condition does is noticed on its initial operands,
    and in the body on each new carry."""
    params = eqn.params
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond_consts, body_consts, init = split_list(values, n_cond, n_body)
    condition, round_ = _while_round(body, cond, noticer, at, n_cond, n_body)
    _, at_first = noticer.evaluate(cond, [*cond_consts, *init], at)
    lanes = cond.out_avals[0].shape
    if at_first is not None and lanes:
        at_first = noticer.in_lanes(at_first, lanes)
    leaves, tree = tree_flatten(noticer.both(at_first, round_.nothing()))
    results = bind_lifted(
        while_p,
        *cond_consts,
        *cond_consts,
        *body_consts,
        *init,
        *leaves,
        cond_nconsts=n_cond,
        cond_jaxpr=condition,
        body_nconsts=n_cond + n_body,
        body_jaxpr=round_.closed,
    )
    outs, noted = split_list(results, len(init))
    note = tree_unflatten(tree, noted)
    return outs, noticer.of_lanes(note) if lanes and leaves else note


@jaxpr_cache
def _while_round(
    body: ClosedJaxpr,
    cond: ClosedJaxpr,
    noticer: AbstractNoticer,
    at: Frame | None,
    n_cond: int,
    n_body: int,
) -> tuple[ClosedJaxpr, NotingProgram]:
    """The condition that ignores the note, and the body that carries it."""
    lanes = cond.out_avals[0].shape
    trees: list[PyTreeDef] = []

    def once(*args: Any) -> list[Any]:
        of_cond, of_body, carry = split_list(args, n_cond, n_body)
        outs, in_body = noticer.evaluate(body, [*of_body, *carry], at)
        _, in_cond = noticer.evaluate(cond, [*of_cond, *outs], at)
        note = noticer.both(in_body, in_cond)
        if note is not None and lanes:
            note = noticer.in_lanes(note, lanes)
        leaves, tree = tree_flatten(note)
        trees.append(tree)
        return [*outs, *leaves]

    consts = [*cond.in_avals[:n_cond], *body.in_avals[:n_body]]
    carried = body.in_avals[n_body:]
    debug = body.jaxpr.debug_info
    one, _ = trace_to_jaxpr(once, [*consts, *carried], debug=debug)
    noting = NotingProgram(one, trees[0], len(carried))

    def fun(*args: Any) -> list[Any]:
        of_both, carry, noted = split_list(args, n_cond + n_body, len(carried))
        outs, note = noting.split(one.eval(*of_both, *carry))
        return [*outs, *tree_leaves(noticer.both(tree_unflatten(noting.tree, noted), note))]

    def same_condition(*args: Any) -> list[Any]:
        return list(noticer.evaluate(cond, args[: n_cond + len(carried)], at)[0])

    new, _ = trace_to_jaxpr(fun, [*consts, *carried, *noting.avals], debug=debug)
    of_cond = [*cond.in_avals[:n_cond], *carried, *noting.avals]
    condition, _ = trace_to_jaxpr(same_condition, of_cond, debug=cond.jaxpr.debug_info)
    return condition, NotingProgram(new, noting.tree, len(carried))


def _cond(
    noticer: AbstractNoticer, eqn: JaxprEqn, values: Sequence[Any], at: Frame | None
) -> Noted:
    """Each branch gives a note that may also say what the others' say."""
    branches = eqn.params["branches"]
    notes = [noting_program(b, noticer, at) for b in branches]
    kinds = tuple([(note.tree, note.avals) for note in notes])
    new = [_branch(b, noticer, at, kinds) for b in branches]
    programs = tuple([branch.closed for branch in new])
    return new[0].split(bind_lifted(cond_p, *values, **{**eqn.params, "branches": programs}))


@jaxpr_cache
def _branch(
    branch: ClosedJaxpr,
    noticer: AbstractNoticer,
    at: Frame | None,
    kinds: tuple[tuple[PyTreeDef, tuple[Any, ...]], ...],
) -> NotingProgram:
    noting = noting_program(branch, noticer, at)
    trees: list[PyTreeDef] = []

    def fun(*args: Any) -> list[Any]:
        outs, note = noting.split(noting.closed.eval(*args))
        for tree, avals in kinds:
            note = noticer.both(note, _nothing(tree, avals))
        leaves, tree = tree_flatten(note)
        trees.append(tree)
        return [*outs, *leaves]

    new, _ = trace_to_jaxpr(fun, branch.in_avals, debug=branch.jaxpr.debug_info)
    return NotingProgram(new, trees[0], noting.number)


NotingRule = Callable[[AbstractNoticer, JaxprEqn, Sequence[Any], Frame | None], Noted]
# For equations that hold programs and do not call them once.
noting_rules: dict[Primitive, NotingRule] = {scan_p: _scan, while_p: _while, cond_p: _cond}
