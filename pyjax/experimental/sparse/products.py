"""Contractions of sparse arrays, on buffers: with arrays, with each other, and at some indices.

A product with an array gathers what belongs to each stored element, multiplies, and adds the
products up where they belong: the work is proportional to the stored elements. A product of two
sparse arrays multiplies pairs of elements, and keeps those whose contracted indices agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.api.vmap import vmap
from pyjax.core.array import Array
from pyjax.experimental.sparse.coordinates import (
    extract,
    from_front,
    gathered,
    inside,
    layout_of,
    over_batches,
    put_outside,
    scattered,
)

Dims = tuple[int, ...]
DotDims = tuple[tuple[Dims, Dims], tuple[Dims, Dims]]


def plain_dims(dimension_numbers: Any) -> DotDims:
    """Dimension numbers as tuples of integers."""
    (a, b), (c, d) = dimension_numbers
    as_dims = [tuple(int(i) for i in dims) for dims in (a, b, c, d)]
    return (as_dims[0], as_dims[1]), (as_dims[2], as_dims[3])


def swapped_dims(dimension_numbers: DotDims) -> DotDims:
    """Those of the product whose operands have changed places."""
    (a, b), (c, d) = dimension_numbers
    return (b, a), (d, c)


def remaining(ndim: int, *used: Sequence[int]) -> Dims:
    """Dimensions in none of the groups, ascending."""
    return tuple(i for i in range(ndim) if not any(i in group for group in used))


def free_sizes(shape: Sequence[int], contract: Dims, batch: Dims) -> Dims:
    """Sizes of the dimensions that a product keeps of one operand."""
    return tuple(shape[i] for i in remaining(len(shape), contract, batch))


# -- a sparse array and an array ------------------------------------------------------------------


class _Pairs(NamedTuple):
    """Which dimensions of the right operand belong to dimensions of the left one."""

    contract: tuple[tuple[int, int], ...]
    batch: tuple[tuple[int, int], ...]

    def of_left(self, dim: int) -> int | None:
        return next((r for left, r in (*self.contract, *self.batch) if left == dim), None)

    def without_first(self, right: int | None) -> _Pairs:
        """Those of the operands that lack dimension 0 and dimension `right`."""

        def rest(pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
            lower = [(a - 1, b - (right is not None and b > right)) for a, b in pairs if a]
            return tuple(lower)

        return _Pairs(rest(self.contract), rest(self.batch))


def dot_dense(
    data: Array,
    indices: Array,
    rhs: Array,
    *,
    shape: Sequence[int],
    dimension_numbers: DotDims,
    preferred_element_type: Any = None,
) -> Array:
    """The product of a sparse array with an array, as `lax.dot_general` numbers its dimensions."""
    n_batch = layout_of(data, indices, shape).n_batch
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    dtype = jnp.promote_types(data.dtype, rhs.dtype)
    out_dtype = preferred_element_type or dtype
    pairs = _Pairs(tuple(zip(lhs_contract, rhs_contract)), tuple(zip(lhs_batch, rhs_batch)))
    data, rhs = (x.astype(out_dtype) for x in (data, rhs))
    out, names = _dot_batches(data, indices, rhs, tuple(shape), pairs, n_batch)
    # Names say where each dimension comes from; contracted batch dimensions are still there.
    summed = tuple(i for i, name in enumerate(names) if name in lhs_contract)
    out = jnp.sum(out, axis=summed, dtype=out.dtype) if summed else out
    names = [name for name in names if name not in lhs_contract]
    kept = [*lhs_batch, *remaining(len(shape), lhs_contract, lhs_batch)]
    kept += [~i for i in remaining(rhs.ndim, rhs_contract, rhs_batch)]
    return lax.transpose(out, tuple(names.index(name) for name in kept))


def _dot_batches(
    data: Array, indices: Array, rhs: Array, shape: Dims, pairs: _Pairs, n_batch: int
) -> tuple[Array, list[int]]:
    """The product with contracted batch dimensions left, and what its dimensions are: i of the
    left operand, ~i of the right one."""
    if n_batch == 0:
        return _dot_one(data, indices, rhs, shape, pairs)
    right = pairs.of_left(0)
    axes: list[int | None] = [0 if x.shape[0] == shape[0] else None for x in (data, indices)]
    data, indices = (
        x if axis == 0 else lax.squeeze(x, (0,)) for x, axis in zip((data, indices), axes)
    )
    found: list[list[int]] = []

    def one(data: Array, indices: Array, rhs: Array) -> Array:
        rest = pairs.without_first(right)
        out, names = _dot_batches(data, indices, rhs, shape[1:], rest, n_batch - 1)
        found.append(names)
        return out

    out = vmap(one, (*axes, right), axis_size=shape[0])(data, indices, rhs)
    names = [_named_before(name, right) for name in found[0]]
    return out, [0, *names]


def _named_before(name: int, right: int | None) -> int:
    """The name that a dimension has where the operands still have their first batch dimension."""
    if name >= 0:
        return name + 1
    dim = ~name
    return ~(dim + (right is not None and dim >= right))


def _dot_one(
    data: Array, indices: Array, rhs: Array, shape: Dims, pairs: _Pairs
) -> tuple[Array, list[int]]:
    n = indices.shape[-1]
    contract, batch = dict(pairs.contract), dict(pairs.batch)
    paired = {**contract, **batch}
    # The right operand at the indices of each element: (nse, rest of the right operand).
    met = [i for i in range(n) if i in paired]
    kept = [i for i in range(n) if i not in contract]
    right = [paired[i] for i in met]
    right_rest = list(remaining(rhs.ndim, right))
    rhs = lax.transpose(rhs, (*right, *right_rest))
    if met:
        # An element that is outside in one dimension is nowhere, whatever its data.
        ok = inside(indices, shape[:n])
        indices = put_outside(indices, ok, shape[:n])
        data = jnp.where(ok.reshape(-1, *[1] * (data.ndim - 1)), data, jnp.zeros((), data.dtype))
        rhs = gathered(rhs, indices[:, jnp.asarray(met)] if len(met) < n else indices)
    # Dense dimensions; names of those of the data follow the elements.
    dense = list(range(n, len(shape)))
    on_left: list[int | None] = [None, *dense]
    on_right: list[int | None] = [None, *right_rest] if met else [*right_rest]
    both: list[tuple[int | None, int | None]] = [(None, None)] if met else []
    both += [(i, r) for i, r in batch.items() if i in dense]
    over = [(i, r) for i, r in contract.items() if i in dense]
    out = lax.dot_general(
        data,
        rhs,
        (
            ([on_left.index(i) for i, _ in over], [on_right.index(r) for _, r in over]),
            ([on_left.index(i) for i, _ in both], [on_right.index(r) for _, r in both]),
        ),
    )
    names: list[int | None] = [i for i, _ in both]
    names += [i for i in on_left if i not in [j for j, _ in (*both, *over)]]
    names += [~r for r in on_right if r is not None and r not in [j for _, j in (*both, *over)]]
    at = names.index(None)
    out = jnp.moveaxis(out, at, 0)
    rest = [name for name in names if name is not None]
    columns = indices[:, jnp.asarray(kept)] if 0 < len(kept) < n else indices[:, : len(kept)]
    return scattered(out, columns, tuple(shape[i] for i in kept)), [*kept, *rest]


# -- two sparse arrays ----------------------------------------------------------------------------


def outer(fun: Any, *pairs: tuple[Array, Array]) -> list[Array]:
    """`fun(left, right)` of all pairs of elements, for each pair of buffers: (n * m, ...)."""
    outs = []
    for left, right in pairs:
        found = vmap(vmap(fun, (None, 0)), (0, None))(left, right)
        outs.append(found.reshape(math.prod(found.shape[:2]), *found.shape[2:]))
    return outs


def dot_sparse(
    lhs_data: Array,
    lhs_indices: Array,
    rhs_data: Array,
    rhs_indices: Array,
    *,
    lhs_sizes: Dims,
    rhs_sizes: Dims,
    dimension_numbers: DotDims,
) -> tuple[Array, Array]:
    """One product of sparse arrays without batch or dense dimensions: data and indices of all pairs
    of elements, those that do not meet put outside."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    sizes = tuple(lhs_sizes[i] for i in lhs_batch)
    sizes += free_sizes(lhs_sizes, lhs_contract, lhs_batch)
    sizes += free_sizes(rhs_sizes, rhs_contract, rhs_batch)
    left = [*lhs_batch, *remaining(len(lhs_sizes), lhs_contract, lhs_batch)]
    right = list(remaining(len(rhs_sizes), rhs_contract, rhs_batch))

    lhs_indices = from_front(lhs_indices, lhs_sizes)
    rhs_indices = from_front(rhs_indices, rhs_sizes)

    def meet(a: Array, b: Array) -> Array:
        same = [a[i] == b[j] for i, j in zip(lhs_contract + lhs_batch, rhs_contract + rhs_batch)]
        stored = [inside(a[None], lhs_sizes)[0], inside(b[None], rhs_sizes)[0]]
        return jnp.all(jnp.stack([*stored, *same]))

    def joint(a: Array, b: Array) -> Array:
        parts = [a[i] for i in left] + [b[j].astype(a.dtype) for j in right]
        return jnp.stack(parts) if parts else jnp.zeros(0, a.dtype)

    (data,) = outer(lax.mul, (lhs_data, rhs_data))
    (indices,) = outer(joint, (lhs_indices, rhs_indices))
    (keep,) = outer(meet, (lhs_indices, rhs_indices))
    zero = jnp.zeros((), data.dtype)
    return jnp.where(keep, data, zero), put_outside(indices, keep, sizes)


# -- a product of arrays, at some indices ---------------------------------------------------------


def dot_sampled(lhs: Array, rhs: Array, indices: Array, *, dimension_numbers: DotDims) -> Array:
    """Elements of a product of arrays at indices (*batch, nse, n): (*batch, nse, rest)."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    n_batch, n = indices.ndim - 2, indices.shape[-1]
    lhs_free = remaining(lhs.ndim, lhs_contract, lhs_batch)
    rhs_free = remaining(rhs.ndim, rhs_contract, rhs_batch)
    if len(lhs_batch) != n_batch or n != len(lhs_free) + len(rhs_free):
        whole = lax.dot_general(lhs, rhs, dimension_numbers)
        return extract(indices, whole, assume_unique=True)
    lhs = lax.transpose(lhs, (*lhs_batch, *lhs_free, *lhs_contract))
    rhs = lax.transpose(rhs, (*rhs_batch, *rhs_free, *rhs_contract))

    def one(lhs: Array, rhs: Array, indices: Array) -> Array:
        # A row of one and a column of the other for each element; the product is never made.
        left = gathered(lhs, indices[:, : len(lhs_free)])
        right = gathered(rhs, indices[:, len(lhs_free) :])
        if not lhs_free or not rhs_free:
            left, right = (
                x if free else jnp.broadcast_to(x[0], (indices.shape[0], *x.shape[1:]))
                for x, free in ((left, lhs_free), (right, rhs_free))
            )
        over = tuple(range(1, left.ndim))
        return lax.dot_general(left, right, ((over, over), ((0,), (0,))))

    return over_batches(one, n_batch, lhs, rhs, indices)
