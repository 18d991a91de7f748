"""Errors about an operand that is no array name the public function that was called."""

from __future__ import annotations

import ast
import re

import pytest

import pyjax
from tests.edge_values import execute
from tests.edge_values.rows import Case, cases
from tests.edge_values.tables import TABLES

# "module.name": what stands in the message instead, or why nothing does.
OTHERWISE: dict[str, str] = {
    "ad_checkpoint.checkpoint_name": "names whatever it is given",
    "debug.callback": "a tree of anything, which the function gets",
    **{
        f"experimental.ode.{name}": "a part of the solver, of what that has made"
        for name in (
            "fit_4th_order_polynomial initial_step_size interp_fit_dopri optimal_step_size "
            "runge_kutta_step"
        ).split()
    },
    "experimental.jet.fact": "an expression of its operand, which Python refuses to add",
    "nn.initializers.ones": "needs no key, and looks at none",
    "nn.initializers.zeros": "needs no key, and looks at none",
    "lax.psum": "the name of the axis is looked up first",
    "numpy.array_repr": "as repr() does, it takes everything",
    "numpy.array_str": "as str() does, it takes everything",
    "numpy.isscalar": "a question about any object",
    "numpy.iterable": "a question about any object",
    "numpy.ndarray": "a shape, refused by Python's own message",
    "numpy.ndim": "an object is 0-d, as in NumPy",
    "numpy.shape": "an object is 0-d, as in NumPy",
    "numpy.size": "an object is 0-d, as in NumPy",
    "tree.leaves": "any object is a leaf",
}


def direct_operand(case: Case) -> str | None:
    """The first operand that is an argument of the function itself, not of an expression."""
    tree = ast.parse(case.call, mode="eval").body
    if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)):
        return None
    given = [a.id for a in tree.args if isinstance(a, ast.Name)]
    uses = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
    return next((n for n in given if n in case.operands and uses.count(n) == 1), None)


def examples() -> dict[str, tuple[Case, str]]:
    """For each function the first case that is given an operand as it is."""
    found: dict[str, tuple[Case, str]] = {}
    for table in TABLES.values():
        for case in cases(table):
            name = direct_operand(case)
            if name and case.row.name not in found:
                found[case.row.name] = case, name
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - OTHERWISE.keys()))
def test_message_names_the_function(name: str) -> None:
    case, operand = EXAMPLES[name]
    operands = {**execute.arguments(pyjax, case), operand: object()}
    with pytest.raises((TypeError, ValueError)) as caught:
        execute.function_of(pyjax, case)(**operands)
    wanted = re.escape(name.rpartition(".")[2])
    assert re.search(rf"(?<![a-z0-9_]){wanted}(?![a-z0-9_])", str(caught.value)), str(caught.value)
