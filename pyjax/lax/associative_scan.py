"""associative_scan: all prefixes under an associative function, in logarithmic depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.array import Array
from pyjax.core.errors import fail
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_flatten, tree_unflatten
from pyjax.lax.common import aval_of, canonical_axis, dtype_of, shape_of
from pyjax.lax.convert import convert_element_type
from pyjax.lax.indexing.slicing import slice_in_dim
from pyjax.lax.shape import expand_dims, reshape, rev
from pyjax.lax.shape_join import concatenate


def _interleave(even: Array, odd: Array, axis: int) -> Array:
    """even[0], odd[0], even[1], odd[1], ...; even may have one more."""
    shape = shape_of(odd)
    n = shape[axis]
    extra = shape_of(even)[axis] > n
    paired = even if not extra else slice_in_dim(even, 0, n, axis=axis)
    both = concatenate([expand_dims(paired, (axis + 1,)), expand_dims(odd, (axis + 1,))], axis + 1)
    merged = reshape(both, (*shape[:axis], 2 * n, *shape[axis + 1 :]))
    if not extra:
        return merged
    return concatenate([merged, slice_in_dim(even, n, n + 1, axis=axis)], axis)


@api_boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All prefixes of `elems` along an axis under an associative function.

    `fn` is applied to whole slices of pairs (it must work elementwise along the axis), about
    2 log2(n) times; the work is linear in n.

    Args:
      fn: associative: from two pytrees like elems to one.
      elems: pytree of arrays of one size along `axis`.
      reverse: suffixes instead.
      axis: counted from the end if negative.
    Returns:
      pytree like elems.
    Raises:
      TypeError: fn is not callable.   ValueError: sizes along the axis differ.
    >>> import pyjax.numpy as jnp
    >>> from pyjax import lax
    >>> lax.associative_scan(lax.add, jnp.arange(4)).tolist()
    [0, 1, 3, 6]
    """
    if not callable(fn):
        fail(TypeError, f"lax.associative_scan: fn argument should be callable, got {fn!r}.")
    leaves, tree = tree_flatten(elems)
    if not leaves:
        return elems
    axis = canonical_axis("associative_scan", axis, len(shape_of(leaves[0])))
    sizes = [shape_of(x)[axis] for x in leaves]
    if len(set(sizes)) > 1:
        fail(
            ValueError,
            "Array inputs to associative_scan must have the same first dimension. (saw: "
            f"{[aval_of(x).shape for x in leaves]})",
            fix=f"make the sizes along axis {axis} equal.",
        )
    if reverse:
        leaves = [rev(x, (axis,)) for x in leaves]

    def combine(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
        result, out_tree = tree_flatten(fn(tree_unflatten(tree, a), tree_unflatten(tree, b)))
        if out_tree != tree:
            fail(
                TypeError,
                f"associative_scan: fn must return the structure of its arguments, {tree}, got "
                f"{out_tree}.",
            )
        return result

    def every(x: Array, start: int, stop: int | None = None, step: int = 1) -> Array:
        return slice_in_dim(x, start, stop, stride=step, axis=axis)

    def prefixes(xs: list[Array]) -> list[Array]:
        n = shape_of(xs[0])[axis]
        if n < 2:
            return xs
        pairs = combine([every(x, 0, n - 1, 2) for x in xs], [every(x, 1, None, 2) for x in xs])
        odd = prefixes(pairs)
        if n == 2:
            even = [every(x, 0, 1) for x in xs]
        else:
            before = [every(x, 0, shape_of(x)[axis] - (n % 2 == 0)) for x in odd]
            following = combine(before, [every(x, 2, None, 2) for x in xs])
            even = [concatenate([every(x, 0, 1), y], axis) for x, y in zip(xs, following)]
        return [_interleave(a, b, axis) for a, b in zip(even, odd)]

    result = prefixes(list(leaves))
    if reverse:
        result = [rev(x, (axis,)) for x in result]
    # As in JAX, results are not weakly typed.
    return tree_unflatten(tree, [convert_element_type(x, dtype_of(x)) for x in result])
