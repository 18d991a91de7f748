"""Loops and branches run by Python, for the option disable_jit: bodies see values.

Under `vmap`, too, what Python sees has its values with it (`BatchTracer` prints them): a loop goes
on while one of the lanes does, and keeps the others as they are; a branch runs if a lane takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.avals import typecompat
from pyjax.core.errors import fail
from pyjax.core.trace import Tracer, state
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.interpreters.ad import JVPTracer
from pyjax.interpreters.batching import BatchTracer
from pyjax.interpreters.staging import is_staging
from pyjax.lax.bitwise import bitwise_and
from pyjax.lax.common import aval_of
from pyjax.lax.compare import select, select_n
from pyjax.lax.control_flow.tracing import avals_of
from pyjax.lax.convert import convert_element_type
from pyjax.lax.indexing.slicing import index_in_dim
from pyjax.lax.shape import expand_dims
from pyjax.lax.shape_join import concatenate
from pyjax.runtime.dispatch import as_array


def runs_in_python() -> bool:
    """Whether functions are to be run as they are instead of traced. Where a program is recorded,
    there are no values to see."""
    return options.disable_jit.value and not is_staging(state.traces[0])


def concrete_lanes(x: Any) -> np.ndarray | None:
    """The values behind a tracer, of all lanes of the vmaps around; None if it has none."""
    while isinstance(x, Tracer):
        if isinstance(x, BatchTracer):
            x = x.val
        elif isinstance(x, JVPTracer):
            x = x.primal
        else:
            return None
    return np.asarray(x)


def scan_in_python(
    f: Callable[..., Any], init: Any, xs: Any, length: int, reverse: bool
) -> tuple[Any, Any]:
    """Step by step."""
    if not length:
        fail(
            ValueError,
            "zero-length scan is not supported in disable_jit() mode because the output type is "
            "unknown.",
        )
    leaves, tree = tree_flatten(xs)
    carry, rows = init, []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree_unflatten(tree, [index_in_dim(x, i, 0, False) for x in leaves]))
        rows.append(y)
    if reverse:
        rows.reverse()
    out_tree = tree_flatten(rows[0])[1]
    columns = zip(*[tree_flatten(row)[0] for row in rows])
    stacked = [concatenate([expand_dims(y, (0,)) for y in column], 0) for column in columns]
    return carry, tree_unflatten(out_tree, stacked)


def while_in_python(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Round by round; lanes that have stopped stay as they are."""
    leaves, tree = tree_flatten(init_val)
    value, running = tree_unflatten(tree, [_as_carry(x) for x in leaves]), None
    while True:
        wanted = cond_fun(value)
        if running is not None:
            wanted = bitwise_and(wanted, running)
        lanes = concrete_lanes(wanted)
        if lanes is None or not lanes.ndim:
            if not wanted:  # of a tracer without a value: its error says so
                return value
            value = body_fun(value)
            continue
        if not lanes.any():
            return value
        running = wanted
        old, tree = tree_flatten(value)
        new = tree_flatten(body_fun(value))[0]
        value = tree_unflatten(tree, [_select(wanted, a, b) for a, b in zip(new, old)])


def _as_carry(x: Any) -> Any:
    """Python numbers as arrays: bodies that are traced see arrays, too."""
    return x if isinstance(x, Tracer) else as_array(x)


def _select(which: Any, new: Any, old: Any) -> Any:
    return select(which, new, convert_element_type(old, aval_of(new).dtype))


def taken_in_python(
    index: Any, branches: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> tuple[bool, Any]:
    """Whether the branches could be run by Python, and what those that lanes take give."""
    lanes = concrete_lanes(index)
    if lanes is None:
        return False, None
    taken = sorted({int(i) for i in np.unique(lanes)})
    results = {i: tree_flatten(branches[i](*operands)) for i in taken}
    (first, tree), *others = results.values()
    if not others:
        return True, tree_unflatten(tree, first)
    for leaves, structure in others:
        same = structure == tree and len(leaves) == len(first)
        if not same or not all(map(typecompat, avals_of(first), avals_of(leaves))):
            return False, None  # tracing them all gives the message
    columns = []
    for i in range(len(branches)):
        columns.append(results[i if i in results else taken[0]][0])
    which = convert_element_type(index, np.dtype(np.int32))
    return True, tree_unflatten(tree, [select_n(which, *cases) for cases in zip(*columns)])
