"""scan: the public function, and the primitive's rules put together."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.errors import fail, new_error
from pyjax.core.symbolic_dims import SymbolicDim, checked_size
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_flatten, tree_structure, tree_unflatten
from pyjax.interpreters.lift_constants import lift_leading, lift_rules
from pyjax.interpreters.rules import FullJvp, call_discharge_rules, define_rules
from pyjax.interpreters.traced_function import TracedFunction, trace_function
from pyjax.interpreters.varying import as_program_says, varying_rules
from pyjax.lax.common import aval_of
from pyjax.lax.control_flow.in_python import runs_in_python, scan_in_python
from pyjax.lax.control_flow.references import scan_discharge
from pyjax.lax.control_flow.scan_lowering import scan_lowering
from pyjax.lax.control_flow.scan_reverse import scan_linearize, scan_partial_eval, scan_transpose
from pyjax.lax.control_flow.scan_rules import (
    scan_aval,
    scan_batching,
    scan_dce,
    scan_effects,
    scan_jvp,
    scan_p,
)
from pyjax.lax.control_flow.tracing import (
    avals_of,
    check_carry,
    promote_weak_carry,
    require_callable,
)
from pyjax.runtime.dispatch import constant_array

define_rules(
    scan_p,
    multiple_results=True,
    abstract_eval=scan_aval,
    jvp=FullJvp(scan_jvp),
    transpose=scan_transpose,
    batching=scan_batching,
    lowering=scan_lowering,
    partial_eval=scan_partial_eval,
    linearize=scan_linearize,
    dce=scan_dce,
    effects=scan_effects,
)
varying_rules[scan_p] = as_program_says("jaxpr")
lift_rules[scan_p] = lift_leading("jaxpr", "num_consts")
call_discharge_rules[scan_p] = scan_discharge(scan_p)


def _scan_length(xs: Sequence[Any], length: Any) -> int:
    """The common size of the leading axes.

    Raises:
      ValueError: no leading axis, sizes differ, or `length` disagrees.
    """
    for x in xs:
        if not aval_of(x).shape:
            fail(
                ValueError,
                f"scan got value with no leading axis to scan over: {x}.",
                "scan iterates over the leading axis of every leaf of xs.",
                "close over the value instead, or put it in the carry.",
            )
    sizes = [aval_of(x).shape[0] for x in xs]
    if length is not None:
        try:
            length = checked_size(length)
        except TypeError:
            fail(
                TypeError,
                f"scan `length` argument must be a static integer, got {length!r}.",
                "the number of steps is part of the type of the result.",
                "use lax.while_loop or lax.fori_loop for a computed number of steps.",
            )
        if length < 0:
            fail(ValueError, f"scan `length` argument must not be negative, got {length}.")
        if any(n != length for n in sizes):
            fail(
                ValueError,
                f"scan got `length` argument of {length} which disagrees with leading axis sizes "
                f"{sizes}.",
                fix="leave `length` out when xs is given.",
            )
        return length
    if not sizes:
        fail(
            ValueError,
            "scan got no values to scan over and `length` not provided.",
            fix="pass length=n, or arrays in xs.",
        )
    if len(set(sizes)) > 1:
        fail(
            ValueError,
            f"scan got values with different leading axis sizes: {', '.join(map(str, sizes))}.",
            fix="all leaves of xs need the same number of steps.",
        )
    return sizes[0]


def _unroll_steps(unroll: int | bool, length: Any) -> int:
    if type(length) is SymbolicDim:
        return 1
    if isinstance(unroll, bool):
        return max(length, 1) if unroll else 1
    try:
        steps = operator.index(unroll)
    except TypeError:
        steps = 0
    if steps < 1:
        fail(ValueError, f"`unroll` must be a `bool` or a positive `int`, got {unroll!r}.")
    return steps


@api_boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Loop over leading axes with a carry: `carry, y = f(carry, x)` for each x.

    Args:
      f: from (carry, slice of xs) to (carry of the same type, y).
      init: initial carry, a pytree of arrays.
      xs: pytree of arrays whose leading axes have one size, or None.
      length: number of steps; needed when xs has no leaves.
      reverse: go from the last to the first element; ys are stored at the position of their x.
      unroll: steps written out in one iteration of the compiled loop; True: all of them.
    Returns:
      (final carry, ys stacked along a new leading axis).
    Raises:
      TypeError: f returns no pair, or a carry of another structure, shape or dtype.
      ValueError: sizes disagree or are missing.
    >>> import pyjax.numpy as jnp
    >>> from pyjax import lax
    >>> total, sums = lax.scan(lambda c, x: (c + x, c + x), 0.0, jnp.arange(4.0))
    >>> float(total), sums.tolist()
    (6.0, [0.0, 1.0, 3.0, 6.0])
    """
    require_callable("lax.scan: f argument", f)
    return run_scan(f, init, xs, length, reverse, unroll)


def run_scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    afresh: bool = False,
) -> tuple[Any, Any]:
    """`scan`; with `afresh`, the body is traced at each call."""
    xs_flat, _ = tree_flatten(xs)
    init_flat, init_tree = tree_flatten(init)
    steps = _scan_length(xs_flat, length)
    unroll_steps = _unroll_steps(unroll, steps)
    if runs_in_python():
        return scan_in_python(f, init, xs, steps, reverse)
    x_avals = [_slice_aval(a) for a in avals_of(xs_flat)]
    in_tree = tree_structure(((init, xs), {}))
    while True:
        carry_avals = avals_of(init_flat)
        traced = trace_function("scan", f, in_tree, [*carry_avals, *x_avals], afresh=afresh)
        num_carry = _check_pair(traced, f)
        promoted = promote_weak_carry(init_flat, carry_avals, traced.out_avals[:num_carry])
        if promoted is None:
            break
        init_flat = promoted
    carry_tree, ys_tree = traced.out_tree.children()
    check_carry(
        "scan body function",
        f,
        0,
        init_tree,
        carry_avals,
        carry_tree,
        traced.out_avals[:num_carry],
    )
    for aval in traced.out_avals[num_carry:]:
        if aval.split is not None and aval.split.summed_axes:
            raise _unreduced("ys of scan", aval)
    traced.check_aliases([*init_flat, *xs_flat])
    consts = traced.operands(constant_array)
    outs = scan_p.bind(
        *consts,
        *init_flat,
        *xs_flat,
        jaxpr=traced.closed,
        length=steps,
        num_consts=len(consts),
        num_carry=num_carry,
        reverse=bool(reverse),
        unroll=unroll_steps,
    )
    return tree_unflatten(carry_tree, outs[:num_carry]), tree_unflatten(ys_tree, outs[num_carry:])


def _slice_aval(aval: Any) -> Any:
    """The type of what one step gets of an array. Steps go along a dimension that is whole.

    Raises:
      ValueError: mesh axes split it.
    """
    split = aval.split
    if split is not None and split.summed_axes:
        raise _unreduced("xs of scan", aval)
    if split is not None and split.entries[0] is not None:
        fail(
            ValueError,
            f"0th dimension of all xs should be replicated. Got {aval.str_short()}.",
            "each device takes all steps of a scan",
            "lay the array out anew before: jax.sharding.reshard(xs, P(None, ...)).",
        )
    return aval.without_dim(0)


def _unreduced(what: str, aval: Any) -> Exception:
    return new_error(
        NotImplementedError,
        f"{what} of type {aval.str_short()}, a sum that is still to be made, are not supported.",
        "its summands lie along a dimension before that of the steps",
        "make the sum: jax.sharding.reshard(x, P(...)); carries may be such sums.",
    )


def _check_pair(traced: TracedFunction, f: Callable[..., Any]) -> int:
    """The body's result must be (carry, y); the number of leaves of the carry."""
    children = traced.out_tree.children()
    skeleton = tree_unflatten(traced.out_tree, traced.out_avals)
    if not isinstance(skeleton, tuple) or len(skeleton) != 2:
        shown = skeleton.str_short() if hasattr(skeleton, "str_short") else str(traced.out_tree)
        fail(
            TypeError,
            f"scan body output must be a pair, got {shown}.",
            "the body returns the next carry and what is stacked into ys.",
            "return (carry, y), with y = None if there is nothing to stack.",
        )
    return children[0].num_leaves
