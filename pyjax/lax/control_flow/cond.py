"""cond and switch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.avals import typecompat
from pyjax.core.errors import fail
from pyjax.core.source_info import function_location
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import (
    first_difference,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from pyjax.interpreters.traced_function import TracedFunction, trace_function
from pyjax.lax.common import BOOL_DTYPE, aval_of, is_floating, is_integer
from pyjax.lax.compare import clamp, ne
from pyjax.lax.control_flow.cond_rules import cond_p
from pyjax.lax.control_flow.in_python import taken_in_python
from pyjax.lax.control_flow.tracing import (
    avals_of,
    difference_of_types,
    require_callable,
    with_common_leading,
)
from pyjax.lax.convert import convert_element_type
from pyjax.runtime.dispatch import constant_array


class _NoOperand:
    def __repr__(self) -> str:
        return "<no operand>"


_no_operand = _NoOperand()


def _check_branches(
    function: str, names: Sequence[str], funs: Sequence[Any], traced: Sequence[TracedFunction]
) -> None:
    """All branches must return the structure and types of the first."""
    first = traced[0]
    both = " and/or ".join(names[:2]) if len(names) == 2 else "the branches"
    for name, fun, other in zip(names[1:], funs[1:], traced[1:]):
        where = f"{names[0]} is {function_location(funs[0])}\n{name} is {function_location(fun)}"
        if first.out_tree != other.out_tree:
            difference = first_difference(
                tree_unflatten(first.out_tree, first.out_avals),
                tree_unflatten(other.out_tree, other.out_avals),
            )
            fail(
                TypeError,
                f"{function} branch outputs must have the same pytree structure, but they differ:"
                f"\n\n{where}\n\nThe output of {names[0]} has structure {first.out_tree}, that of "
                f"{name} {other.out_tree}: {difference}.",
                "only one branch runs, and what follows needs to know what it returns.",
                f"Revise {both} so that they have the same pytree structure.",
            )
        paths = tree_flatten_with_path(
            tree_unflatten(first.out_tree, range(first.out_tree.num_leaves))
        )[0]
        lines = [
            f"The output of {names[0]}{_component(path)} has type {a.str_short()} but the "
            f"corresponding output of {name} has type {b.str_short()}, so "
            f"{difference_of_types(a, b)}."
            for (path, _), a, b in zip(paths, first.out_avals, other.out_avals)
            if not typecompat(a, b)
        ]
        if lines:
            fail(
                TypeError,
                f"{function} branches must have equal output types but they differ.\n\n{where}\n\n"
                + "\n".join(lines),
                "only one branch runs, and the type of the result must not depend on which.",
                f"Revise {both} so that all output types match, e.g. with .astype, jnp.reshape"
                + (", or lax.pcast(..., to='varying')." if _vary_apart(first, other) else "."),
            )


def _vary_apart(a: TracedFunction, b: TracedFunction) -> bool:
    """Whether some result varies along other mesh axes in one branch than in the other."""
    return any(x.vma != y.vma for x, y in zip(a.out_avals, b.out_avals))


def _component(path: Any) -> str:
    return f" at path {keystr(path)}" if path else ""


def choose_branch(
    function: str,
    index: Any,
    names: Sequence[str],
    funs: Sequence[Callable[..., Any]],
    operands: tuple[Any, ...],
    *,
    last_first: bool = False,
) -> Any:
    """Trace and check the branches, and bind the primitive.

    Args:
      function: the public one, for messages.
      last_first: index 0 is the last function.
    """
    leaves, in_tree = tree_flatten((operands, {}))
    in_avals = avals_of(leaves)
    traced = [trace_function(function, f, in_tree, in_avals) for f in funs]
    _check_branches(function, names, funs, traced)
    for one in traced:
        one.check_aliases(leaves)
    branches, consts = with_common_leading(
        [(t.closed, t.operands(constant_array)) for t in (traced[::-1] if last_first else traced)]
    )
    outs = cond_p.bind(index, *consts, *leaves, branches=branches)
    return tree_unflatten(traced[0].out_tree, outs)


def _predicate(pred: Any) -> Any:
    """A bool scalar from a bool or number."""
    if isinstance(pred, (list, tuple, str, bytes, dict)) or pred is None:
        fail(
            TypeError,
            f"Pred must be a scalar, got {pred!r} of type {type(pred)}",
            fix="pass a bool or a scalar array.",
        )
    aval = aval_of(pred)
    if aval.shape:
        fail(
            TypeError,
            f"Pred must be a scalar, got {pred} of shape {aval.shape}",
            "cond runs one branch; an array would have to choose for each element.",
            "use jnp.where (or jax.vmap of cond) to choose elementwise, or reduce with .any() or "
            ".all().",
        )
    if aval.dtype == BOOL_DTYPE:
        return pred
    if not (is_integer(aval.dtype) or is_floating(aval.dtype)):
        fail(
            TypeError,
            f"Pred type must be either boolean or number, got {aval.dtype}.",
            fix="compare first, e.g. pred != 0.",
        )
    return ne(pred, np.zeros((), aval.dtype))


def _cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _no_operand,
) -> Any:
    if operand is not _no_operand:
        if operands:
            fail(
                TypeError,
                "if `operand` keyword is passed then no positional operands can be passed, got "
                f"operand={operand} and positional operands {operands}",
            )
        operands = (operand,)
    require_callable("lax.cond: true_fun and false_fun arguments", true_fun, false_fun)
    pred = _predicate(pred)
    if options.disable_jit.value:
        done, result = taken_in_python(pred, (false_fun, true_fun), operands)
        if done:
            return result
    index = convert_element_type(pred, np.dtype(np.int32))
    names, funs = ("true_fun", "false_fun"), (true_fun, false_fun)
    return choose_branch("cond", index, names, funs, operands, last_first=True)


@api_boundary
def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _no_operand,
) -> Any:
    """Run one of two functions, depending on a scalar.

    `cond(pred, true_fun, false_fun, *operands)`: both are traced, one runs. Under vmap with a
    batched predicate both run and results are selected. The form `cond(pred, true_operand,
    true_fun, false_operand, false_fun)` is accepted too.

    Args:
      pred: bool or number, scalar; zero is false.
      true_fun, false_fun: functions of `*operands` with results of equal structure and types.
      operands: pytrees of arrays.   operand: keyword for a single operand (None allowed).
    Returns:
      what the chosen function returns.
    Raises:
      TypeError: pred is not a scalar, a branch is not callable, or the branches' results differ.
    >>> from pyjax import lax
    >>> float(lax.cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 2.0))
    3.0
    """
    old_form = (
        len(operands) == 2
        and operand is _no_operand
        and callable(false_fun)
        and callable(operands[1])
        and not callable(true_fun)
    )
    if old_form:
        # The places of (pred, true_operand, true_fun, false_operand, false_fun).
        true_operand, of_true, (false_operand, of_false) = true_fun, false_fun, operands
        return _cond(
            pred,
            lambda pair: of_true(pair[0]),
            lambda pair: of_false(pair[1]),
            (true_operand, false_operand),
        )
    return _cond(pred, true_fun, false_fun, *operands, operand=operand)


@api_boundary
def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = _no_operand,
) -> Any:
    """Run the branch with number `index`, clamped to the valid range.

    Args:
      index: integer scalar.
      branches: functions of `*operands` with results of equal structure and types.
    Raises:
      ValueError: no branches.   TypeError: index is no integer scalar, or branches differ.
    >>> from pyjax import lax
    >>> float(lax.switch(1, [lambda x: x, lambda x: 2.0 * x], 3.0))
    6.0
    """
    if operand is not _no_operand:
        if operands:
            fail(
                TypeError,
                "if `operand` keyword is passed then no positional operands can be passed, got "
                f"operand={operand} and positional operands {operands}",
            )
        operands = (operand,)
    branches = tuple(branches)
    require_callable("lax.switch: branches argument", *branches)
    aval = aval_of(index)
    if aval.shape:
        fail(
            TypeError,
            f"Branch index must be scalar, got {index} of shape {aval.shape}.",
            fix="use jax.vmap(lambda i: lax.switch(i, ...)) for many indices.",
        )
    if not is_integer(aval.dtype):
        fail(
            TypeError,
            f"Index type must be an integer, got {index} as {aval.dtype}",
            fix="convert it with .astype(jnp.int32).",
        )
    if not branches:
        fail(ValueError, "Empty branch sequence", fix="pass at least one function.")
    if len(branches) == 1:
        return branches[0](*operands)
    index = convert_element_type(index, np.dtype(np.int32))
    last = np.asarray(len(branches) - 1, np.int32)
    index = clamp(np.zeros((), np.int32), index, last)
    if options.disable_jit.value:
        done, result = taken_in_python(index, branches, operands)
        if done:
            return result
    names = [f"branch {i}" for i in range(len(branches))]
    return choose_branch("switch", index, names, branches, operands)
