"""How the results of a program lie over the axes of a mesh, if its arguments do.

A layout is known of a value if an operand has one, or an operation says it. Each operation passes
the entries of dimensions on as `layout_rules` says; elementwise ones need no rule, and results of
operations without one are whole along all dimensions. Along mesh axes of type Explicit types say
how values are split (splits.py), and this is not asked. Layer: interpreters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pyjax.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxprs_in_params
from pyjax.core.primitive import Primitive
from pyjax.interpreters.rules import called_programs, elementwise_primitives

# Of each dimension the mesh axes that split it, as in a PartitionSpec.
Entries = tuple[Any, ...]


class Layout(NamedTuple):
    """How a value lies.

    Attributes:
      mesh: whose axes the entries name.
      entries: one for each dimension.
      sharding: what was asked for, if the layout is just that.
    """

    mesh: Any
    entries: Entries
    sharding: Any = None


Known = Layout | None
# `rule(equation, layouts of its operands)`: of each result, or None for one that is whole.
LayoutRule = Callable[[JaxprEqn, Sequence[Known]], Sequence[Known]]

layout_rules: dict[Primitive, LayoutRule] = {}
# Those whose results have a layout though no operand has: from their parameters to the mesh.
layout_sources: dict[Primitive, Callable[[dict[str, Any]], Any]] = {}


def moved(to: Callable[[JaxprEqn, Entries], Entries]) -> LayoutRule:
    """The rule of an operation whose first operand says how all results lie: `to(equation, its
    entries)` is how."""

    def rule(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
        first = operands[0]
        if first is None:
            return [None] * len(eqn.outvars)
        return [Layout(first.mesh, to(eqn, first.entries))] * len(eqn.outvars)

    return rule


def merged(eqn: JaxprEqn, operands: Sequence[Known]) -> Sequence[Known]:
    """The rule of elementwise operations: a dimension is split as that of the first operand in
    which it is."""
    meshes = [known.mesh for known in operands if known is not None]
    if not meshes:
        return [None] * len(eqn.outvars)
    shape = eqn.outvars[0].aval.shape
    entries: list[Any] = [None] * len(shape)
    used: set[Any] = set()
    for known, atom in zip(operands, eqn.invars):
        if known is None or known.mesh != meshes[0] or len(known.entries) != len(shape):
            continue
        for i, (entry, size) in enumerate(zip(known.entries, atom.aval.shape)):
            names = set(entry if isinstance(entry, tuple) else (entry,))
            if entries[i] is None and size == shape[i] and not names & used:
                entries[i] = entry
                used |= names - {None}
    return [Layout(meshes[0], tuple(entries))] * len(eqn.outvars)


def has_sources(closed: ClosedJaxpr) -> bool:
    """Whether a program says itself how values lie."""
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive in layout_sources:
            return True
        called = called_programs.get(eqn.primitive)
        if called is not None and has_sources(eqn.params[called]):
            return True
    return False


def meshes_of(jaxpr: Jaxpr) -> Iterator[Any]:
    """The meshes that a program names, in the order of its equations."""
    for eqn in jaxpr.eqns:
        mesh_of = layout_sources.get(eqn.primitive)
        if mesh_of is not None:
            yield mesh_of(eqn.params)
        for inner in jaxprs_in_params(eqn.params):
            yield from meshes_of(inner)


def layouts_of_results(closed: ClosedJaxpr, inputs: Sequence[Known]) -> list[Known]:
    """How the results of a program lie whose inputs lie so."""
    known: dict[Any, Known] = dict(zip(closed.jaxpr.invars, inputs))

    def layout(atom: Any) -> Known:
        return None if type(atom) is Literal else known.get(atom)

    for eqn in closed.jaxpr.eqns:
        operands = [layout(atom) for atom in eqn.invars]
        called = called_programs.get(eqn.primitive)
        rule = layout_rules.get(eqn.primitive)
        results: Sequence[Known] = ()
        if called is not None:
            results = layouts_of_results(eqn.params[called], operands)
        elif rule is not None:
            results = rule(eqn, operands)
        elif eqn.primitive in elementwise_primitives:
            results = merged(eqn, operands)
        known.update(zip(eqn.outvars, results))
    return [layout(atom) for atom in closed.jaxpr.outvars]
