"""fori_loop and map, in terms of scan and while_loop."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.errors import fail
from pyjax.core.symbolic_dims import SymbolicDim
from pyjax.core.trace import Tracer
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_flatten, tree_map, tree_unflatten
from pyjax.core.weak_tables import WeakIdentityTable
from pyjax.interpreters.batching import batch
from pyjax.lax.arithmetic import add
from pyjax.lax.common import aval_of, dtype_of, is_floating, is_integer, shape_of
from pyjax.lax.compare import lt
from pyjax.lax.control_flow.in_python import runs_in_python
from pyjax.lax.control_flow.scan import run_scan, scan
from pyjax.lax.control_flow.tracing import avals_of, check_carry, require_callable
from pyjax.lax.control_flow.while_loop import while_loop
from pyjax.lax.convert import convert_element_type
from pyjax.lax.indexing.slicing import slice_in_dim
from pyjax.lax.shape import reshape
from pyjax.lax.shape_join import concatenate
from pyjax.runtime.dispatch import as_array


class PerFunction:
    """Remembers, weakly per function, what a wrapper made of it: the same body function each time
    means that its trace is found again."""

    def __init__(self, wrap: Callable[..., Callable[..., Any]]) -> None:
        self._wrap = wrap
        self._made = WeakIdentityTable()

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        made = self._made.get(fun)
        if made is not None:
            return made
        try:
            # The wrapper must not keep the function alive, or it would never be forgotten.
            made = self._wrap(weakref.ref(fun))
        except TypeError:  # cannot be weakly held, such as a builtin
            return self._wrap(lambda: fun)
        self._made.set(fun, made)
        return made


def _checked_step(fun: Callable[[Any, Any], Any], i: Any, x: Any) -> Any:
    """One step of a fori_loop; a wrong result is reported in terms of the user's function."""
    out = fun(i, x)
    ins, in_tree = tree_flatten(x)
    outs, out_tree = tree_flatten(out)
    in_avals = avals_of(ins)
    # Weakly typed values may still be promoted to the type of the result.
    if in_tree != out_tree or not any(getattr(a, "weak_type", False) for a in in_avals):
        what = "fori_loop body function"
        check_carry(what, fun, 1, in_tree, in_avals, out_tree, avals_of(outs))
    return out


def _counting_scan_body(held: Callable[[], Any]) -> Callable[..., Any]:
    def body(carry: tuple[Any, Any], _: Any) -> tuple[Any, None]:
        i, x = carry
        return (add(i, np.ones((), dtype_of(i))), _checked_step(held(), i, x)), None

    body.__name__ = "fori_loop"
    return body


def _counting_while_body(held: Callable[[], Any]) -> Callable[..., Any]:
    def body(carry: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        i, upper, x = carry
        return add(i, np.ones((), dtype_of(i))), upper, _checked_step(held(), i, x)

    body.__name__ = "fori_loop"
    return body


def _below_upper(carry: tuple[Any, Any, Any]) -> Any:
    i, upper, _ = carry
    return lt(i, upper)


_scan_bodies = PerFunction(_counting_scan_body)
_while_bodies = PerFunction(_counting_while_body)


def _static_int(x: Any) -> int | None:
    """The value of a bound that is known while tracing."""
    value = x if not isinstance(x, Tracer) else None
    return None if value is None else int(np.asarray(value))


@api_boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`, compiled.

    Known bounds make it a scan, traced ones a while_loop. Both are differentiable in reverse mode;
    of a while_loop, states are computed again where they do not fit memory.

    Args:
      lower, upper: scalars of one dtype, integers as a rule. Floats count in steps of one, and
        `i` is one; if both are known the loop runs int(upper) - int(lower) times.
      body_fun: from (i, val) to a value of the same structure, shapes and dtypes.
      unroll: as in scan; bounds must be known.
    Raises:
      TypeError: bounds are not scalars of one real dtype, or body_fun changes the type of val.
      ValueError: unroll with traced bounds.
    >>> from pyjax import lax
    >>> int(lax.fori_loop(0, 5, lambda i, x: x + i, 0))
    10
    """
    require_callable("lax.fori_loop: body_fun argument", body_fun)
    lower, upper = (n.value() if type(n) is SymbolicDim else n for n in (lower, upper))
    lower_aval, upper_aval = aval_of(lower), aval_of(upper)
    dtype = lower_aval.dtype
    if dtype != upper_aval.dtype:
        # Python integers take the dtype of the other bound.
        if upper_aval.weak_type and not lower_aval.weak_type:
            upper = _as_dtype(upper, dtype)
        elif lower_aval.weak_type and not upper_aval.weak_type:
            dtype = upper_aval.dtype
            lower = _as_dtype(lower, dtype)
    lower_aval, upper_aval = aval_of(lower), aval_of(upper)
    if lower_aval.dtype != upper_aval.dtype:
        fail(
            TypeError,
            "lower and upper arguments to fori_loop must have equal types, got "
            f"{lower_aval.dtype} and {upper_aval.dtype}",
            "The counter has the type of both; it counts in steps of one, as an integer does.",
            "convert one of them with .astype.",
        )
    counts = is_integer(lower_aval.dtype) or is_floating(lower_aval.dtype)
    if lower_aval.shape or upper_aval.shape or not counts:
        fail(
            TypeError,
            "lower and upper arguments to fori_loop must be integer scalars, got "
            f"{lower_aval.str_short()} and {upper_aval.str_short()}",
            fix="convert them to integers.",
        )
    start, stop = _static_int(lower), _static_int(upper)
    if runs_in_python():
        first = lower if isinstance(lower, Tracer) else as_array(lower)
        return while_loop(_below_upper, _while_bodies(body_fun), (first, upper, init_val))[2]
    if start is not None and stop is not None:
        length = stop - start if stop > start else 0
        (_, result), _ = scan(
            _scan_bodies(body_fun),
            (lower, init_val),
            None,
            length=length,
            unroll=1 if unroll is None else unroll,
        )
        return result
    if unroll is not None:
        fail(
            ValueError,
            "Can only use `unroll` in `fori_loop` if the loop bounds are statically known.",
            "the bounds are traced values.",
            "mark them static, or leave `unroll` out.",
        )
    *_, result = while_loop(_below_upper, _while_bodies(body_fun), (lower, upper, init_val))
    return result


def _as_dtype(x: Any, dtype: Any) -> Any:
    if not is_integer(dtype):
        return x
    if isinstance(x, int):
        info = dtypes.iinfo(dtype)
        if info.min <= x <= info.max:
            return np.asarray(x, dtype)
        return x
    return convert_element_type(x, dtype)


# -- map -------------------------------------------------------------------------------------------


def _map_body(held: Callable[[], Any]) -> Callable[..., Any]:
    def body(_: Any, x: Any) -> tuple[Any, Any]:
        return (), held()(x)

    return body


_map_bodies = PerFunction(_map_body)


def _vectorized(held: Callable[[], Any]) -> Callable[..., Any]:
    """The function over a batch: vmap over the leading axes."""

    def batched(xs: Any) -> Any:
        leaves, tree = tree_flatten(xs)
        out_tree: list[Any] = []

        def flat(*args: Any) -> list[Any]:
            outs, structure = tree_flatten(held()(tree_unflatten(tree, args)))
            out_tree.append(structure)
            return outs

        outs = batch(flat, leaves, [0] * len(leaves), 0, shape_of(leaves[0])[0])
        return tree_unflatten(out_tree[0], outs)

    return batched


_vectorized_functions = PerFunction(_vectorized)


@api_boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Apply `f` to each slice along the leading axis of xs, one after the other.

    `f` is traced at each call, so it may close over what changes in between.

    Args:
      f: from a slice of xs (pytree) to a pytree of arrays.
      batch_size: if given and not 0, slices are taken that many at a time and mapped with vmap.
    Returns:
      results stacked along a new leading axis.
    Raises:
      ValueError: leading axes are missing or differ.
    >>> import pyjax.numpy as jnp
    >>> from pyjax import lax
    >>> lax.map(lambda x: x * x, jnp.arange(3)).tolist()
    [0, 1, 4]
    """
    require_callable("lax.map: f argument", f)
    if batch_size is None or (type(batch_size) is int and batch_size == 0):
        return run_scan(_map_bodies(f), (), xs, afresh=True)[1]
    leaves, _ = tree_flatten(xs)
    if not leaves or any(not shape_of(x) for x in leaves):
        return run_scan(_map_bodies(f), (), xs)[1]  # for its error message
    total = shape_of(leaves[0])[0]
    if batch_size < 1:
        fail(ValueError, f"lax.map batch_size must be positive, got {batch_size}.")
    whole = total - total % batch_size
    vectorized = _vectorized_functions(f)
    parts = []
    if whole:
        blocks = tree_map(
            lambda x: reshape(
                slice_in_dim(x, 0, whole), (whole // batch_size, batch_size, *shape_of(x)[1:])
            ),
            xs,
        )
        results = run_scan(_map_bodies(vectorized), (), blocks, afresh=True)[1]
        parts.append(tree_map(lambda y: reshape(y, (whole, *shape_of(y)[2:])), results))
    if whole < total or not whole:
        parts.append(vectorized(tree_map(lambda x: slice_in_dim(x, whole, total), xs)))
    if len(parts) == 1:
        return parts[0]
    return tree_map(lambda a, b: concatenate([a, b], 0), *parts)
