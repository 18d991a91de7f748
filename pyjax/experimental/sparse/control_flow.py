"""Loops and branches with sparse values: those of lax, over pytrees of their buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax import lax
from pyjax.api.eval_shape import eval_shape
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr
from pyjax.experimental.sparse.base import SparseInfo
from pyjax.experimental.sparse.bcoo_array import BCOO, full_batches
from pyjax.experimental.sparse.transform import eval_sparse, is_sparse

Values = list[Any]


def forgetting(value: Any, others: Sequence[Any]) -> Any:
    """A sparse value that promises no more of its indices than others of its kind do."""
    if not is_sparse(value):
        return value
    known = [value.info, *(x.info for x in others if type(x) is type(value))]
    info = SparseInfo(
        value.shape,
        all(k.indices_sorted for k in known),
        all(k.unique_indices for k in known),
    )
    return type(value).tree_unflatten(info._asdict(), value.tree_flatten()[0])


def _steady(step: Callable[[Values], Values], values: Values) -> Values:
    """Carried values that promise no more than what a step makes of them."""
    while True:
        weaker = [forgetting(x, [y]) for x, y in zip(values, eval_shape(step, values))]
        if all(a.info == b.info for a, b in zip(values, weaker) if is_sparse(a)):
            return weaker
        values = weaker


def while_rule(
    *values: Any,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
    **_: Any,
) -> Values:
    """A loop whose carried values or constants are sparse."""
    of_cond = values[:cond_nconsts]
    of_body = values[cond_nconsts : cond_nconsts + body_nconsts]
    init = list(values[cond_nconsts + body_nconsts :])

    def step(carry: Values) -> Values:
        return eval_sparse(body_jaxpr, *of_body, *carry)

    init = _steady(step, init)

    def body(carry: Values) -> Values:
        return [forgetting(x, [y]) for x, y in zip(step(carry), init)]

    def more(carry: Values) -> Any:
        return eval_sparse(cond_jaxpr, *of_cond, *carry)[0]

    return lax.while_loop(more, body, init)


def cond_rule(index: Any, *values: Any, branches: Sequence[ClosedJaxpr], **_: Any) -> Values:
    """A choice of programs with sparse operands or results."""
    shapes = [eval_shape(lambda *xs, b=b: eval_sparse(b, *xs), *values) for b in branches]
    for same in zip(*shapes):
        if len(set(map(type, same))) > 1 and any(map(is_sparse, same)):
            fail(
                TypeError,
                f"sparse rule for cond: branches give results of different kinds: {same}.",
                fix="Make all of them dense with sparse.todense(), or all sparse.",
            )

    def branch(closed: ClosedJaxpr) -> Callable[..., Values]:
        def run(*operands: Any) -> Values:
            outs = eval_sparse(closed, *operands)
            return [forgetting(x, same) for x, same in zip(outs, zip(*shapes))]

        return run

    return lax.switch(index, [branch(closed) for closed in branches], *values)


def scan_rule(
    *values: Any,
    jaxpr: ClosedJaxpr,
    length: int,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    unroll: int,
    **_: Any,
) -> Values:
    """A loop over rows with sparse values. Rows of sparse arrays are their first batches, and rows
    of sparse results become batches."""
    consts = values[:num_consts]
    init = list(values[num_consts : num_consts + num_carry])
    xs = [_by_rows(x) for x in values[num_consts + num_carry :]]

    def step(carry: Values, rows: Values) -> Values:
        operands = [_row(x, row) for x, row in zip(xs, rows)]
        return eval_sparse(jaxpr, *consts, *carry, *operands)

    buffers = [list(x.tree_flatten()[0]) if is_sparse(x) else x for x in xs]
    first = (
        [[b[0] for b in x] if isinstance(x, list) else x[0] if length else x for x in buffers]
        if length
        else None
    )
    if first is not None:
        init = _steady(lambda carry: step(carry, first)[:num_carry], init)
    infos: list[Any] = []

    def body(carry: Values, rows: Values) -> tuple[Values, Values]:
        outs = step(carry, rows)
        infos[:] = [x.info if is_sparse(x) else None for x in outs[num_carry:]]
        kept = [forgetting(x, [y]) for x, y in zip(outs, init)]
        return kept, [list(x.tree_flatten()[0]) if is_sparse(x) else x for x in outs[num_carry:]]

    carry, ys = lax.scan(body, init, buffers, length, reverse=reverse, unroll=unroll)
    return [*carry, *(_rows_together(y, info, length) for y, info in zip(ys, infos))]


def _by_rows(x: Any) -> Any:
    if not is_sparse(x):
        return x
    if not isinstance(x, BCOO) or x.n_batch == 0:
        fail(
            NotImplementedError,
            "sparse rule for scan with x values.",
            f"{x!r} has no batches, which would be its rows.",
            "Give it batches: bcoo_update_layout(x, n_batch=1, on_inefficient=None).",
        )
    return full_batches(x)


def _row(x: Any, buffers: Any) -> Any:
    if not is_sparse(x):
        return buffers
    return BCOO(tuple(buffers), **x.info._replace(shape=x.shape[1:])._asdict())


def _rows_together(buffers: Any, info: Any, length: int) -> Any:
    if info is None:
        return buffers
    if len(buffers) != 2:
        fail(NotImplementedError, "sparse rule for scan with BCSR results: use to_bcoo().")
    return BCOO(tuple(buffers), **info._replace(shape=(length, *info.shape))._asdict())
