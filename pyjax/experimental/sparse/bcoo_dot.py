"""Products of BCOO arrays: contractions, and elementwise ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.experimental.sparse import coordinates, products
from pyjax.experimental.sparse.base import JAXSparse, SparseInfo
from pyjax.experimental.sparse.bcoo_array import BCOO, full_batches, like
from pyjax.experimental.sparse.products import DotDims, free_sizes, plain_dims, swapped_dims
from pyjax.interpreters.composed import composed

Dims = tuple[int, ...]


def _dot_dense(
    *buffers: Array,
    lhs_spinfo: SparseInfo,
    dimension_numbers: DotDims,
    preferred_element_type: Any,
) -> list[Array]:
    return [
        products.dot_dense(
            *buffers,
            shape=lhs_spinfo.shape,
            dimension_numbers=dimension_numbers,
            preferred_element_type=preferred_element_type,
        )
    ]


def _dot_sampled(*arrays: Array, dimension_numbers: DotDims) -> list[Array]:
    return [products.dot_sampled(*arrays, dimension_numbers=dimension_numbers)]


def _dot_sparse(
    *buffers: Array, lhs_spinfo: SparseInfo, rhs_spinfo: SparseInfo, dimension_numbers: DotDims
) -> tuple[Array, Array]:
    """Buffers of a product whose batch dimensions are batches of both operands."""
    (_, _), (lhs_batch, _rhs_batch) = dimension_numbers
    shapes = (lhs_spinfo.shape, rhs_spinfo.shape)
    n_batch = len(lhs_batch)
    lhs_sizes, rhs_sizes = (shape[n_batch:] for shape in shapes)
    (lhs_contract, rhs_contract), _ = dimension_numbers
    inner = (
        (tuple(i - n_batch for i in lhs_contract), tuple(i - n_batch for i in rhs_contract)),
        ((), ()),
    )

    def one(*buffers: Array) -> tuple[Array, Array]:
        return products.dot_sparse(
            *buffers, lhs_sizes=lhs_sizes, rhs_sizes=rhs_sizes, dimension_numbers=inner
        )

    data, indices = coordinates.over_batches(one, n_batch, *buffers)
    sizes = free_sizes(lhs_sizes, inner[0][0], ()) + free_sizes(rhs_sizes, inner[0][1], ())
    most = math.prod(sizes)
    if most < data.shape[n_batch]:
        shape = (*shapes[0][:n_batch], *sizes)
        return coordinates.sum_duplicates(data, indices, shape=shape, nse=most)
    return data, indices


bcoo_dot_general_p: Primitive = composed("bcoo_dot_general", _dot_dense)
bcoo_dot_general_sampled_p: Primitive = composed("bcoo_dot_general_sampled", _dot_sampled)
bcoo_spdot_general_p: Primitive = composed("bcoo_spdot_general", _dot_sparse, True)


def check_dot(lhs: Any, rhs: Any, dimension_numbers: DotDims) -> tuple[int, ...]:
    """The shape of a product; TypeError where `lax.dot_general` would raise one."""
    (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = dimension_numbers
    for role, left, right in (
        ("contracting", lhs_contract, rhs_contract),
        ("batch", lhs_batch, rhs_batch),
    ):
        sizes = [
            tuple(x.shape[i] for i in dims) if max(dims, default=0) < x.ndim or not dims else None
            for x, dims in ((lhs, left), (rhs, right))
        ]
        if sizes[0] != sizes[1] or None in sizes:
            fail(
                TypeError,
                f"dot_general requires {role} dimensions to have the same shape, got {sizes[0]} "
                f"and {sizes[1]}.",
                f"the operands have the shapes {lhs.shape} and {rhs.shape}, dimension numbers "
                f"{dimension_numbers}.",
                "transpose an operand, or contract other dimensions.",
            )
    shape = tuple(lhs.shape[i] for i in lhs_batch)
    shape += free_sizes(lhs.shape, lhs_contract, lhs_batch)
    return shape + free_sizes(rhs.shape, rhs_contract, rhs_batch)


def bcoo_dot_general(
    lhs: BCOO | ArrayLike,
    rhs: BCOO | ArrayLike,
    *,
    dimension_numbers: Any,
    precision: None = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> BCOO | Array:
    """A contraction of arrays of which one or both are sparse, or none.

    Args:
      lhs, rhs: BCOO or array. Types are promoted. Of one sparse operand any dimensions can be
        contracted or batches; of two, batches must be batch dimensions of both and come first, and
        neither has dense dimensions.
      dimension_numbers: as of `lax.dot_general`.
      precision: of products of arrays; others have that of their type.
      preferred_element_type: dtype of sums and result.
    Returns:
      an array if one operand is one; of two sparse operands BCOO with an element for each pair, or
      for each element of the result if those are fewer.
    Raises:
      TypeError: sizes do not fit.   NotImplementedError: two sparse operands have dense dimensions
        or other batches.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.eye(2, dtype=np.float32))
    >>> bcoo_dot_general(m, [1.0, 2.0], dimension_numbers=(([1], [0]), ([], []))).tolist()
    [1.0, 2.0]
    """
    del out_sharding
    numbers = plain_dims(dimension_numbers)
    lhs, rhs = (x if isinstance(x, JAXSparse) else jnp.asarray(x) for x in (lhs, rhs))
    shape = check_dot(lhs, rhs, numbers)
    preferred = None if preferred_element_type is None else np.dtype(preferred_element_type)
    if isinstance(lhs, BCOO) and isinstance(rhs, BCOO):
        return _both_sparse(lhs, rhs, numbers, shape, preferred)
    if isinstance(lhs, BCOO):
        return bcoo_dot_general_p.bind(
            lhs.data,
            lhs.indices,
            rhs,
            dimension_numbers=numbers,
            lhs_spinfo=lhs.info,
            preferred_element_type=preferred,
        )
    if isinstance(rhs, BCOO):
        n_batch = len(numbers[1][0])
        n_free = len(free_sizes(rhs.shape, numbers[0][1], numbers[1][1]))
        out: Any = bcoo_dot_general(
            rhs, lhs, dimension_numbers=swapped_dims(numbers), preferred_element_type=preferred
        )
        order = list(range(out.ndim))
        free = order[n_batch:]
        return lax.transpose(out, (*order[:n_batch], *free[n_free:], *free[:n_free]))
    return lax.dot_general(lhs, rhs, numbers, precision, preferred)


def _both_sparse(
    lhs: BCOO, rhs: BCOO, numbers: DotDims, shape: tuple[int, ...], preferred: Any
) -> BCOO:
    dtype = preferred or jnp.promote_types(lhs.dtype, rhs.dtype)
    lhs, rhs = (like(x, x.data.astype(dtype)) for x in (lhs, rhs))
    first = tuple(range(len(numbers[1][0])))
    leading = all(
        batch == first and mat.n_batch == len(first) for mat, batch in zip((lhs, rhs), numbers[1])
    )
    if lhs.n_dense or rhs.n_dense or not leading:
        fail(
            NotImplementedError,
            "bcoo_dot_general: a product of two sparse arrays with dense dimensions, or with batch "
            "dimensions that are not batches of the product.",
            f"the operands are {lhs!r} and {rhs!r}, the dimension numbers {numbers}.",
            "Change them with bcoo_update_layout(n_batch=..., n_dense=0), or make one of them "
            "dense.",
        )
    lhs, rhs = (full_batches(x) for x in (lhs, rhs))
    data, indices = bcoo_spdot_general_p.bind(
        lhs.data,
        lhs.indices,
        rhs.data,
        rhs.indices,
        lhs_spinfo=lhs.info,
        rhs_spinfo=rhs.info,
        dimension_numbers=numbers,
    )
    joined = data.shape[len(first)] < lhs.nse * rhs.nse
    return BCOO((data, indices), shape=shape, indices_sorted=joined, unique_indices=joined)


def bcoo_dot_general_sampled(
    A: ArrayLike, B: ArrayLike, indices: ArrayLike, *, dimension_numbers: Any
) -> Array:
    """Elements of a contraction of two arrays at indices; others are not computed where batches
    are those of the product and all other dimensions are indexed.

    Args:
      A, B: arrays of one dtype.   indices: integers (*batch, nse, n_sparse).
      dimension_numbers: as of `lax.dot_general`.
    Returns:
      array (*batch, nse, *dense); zero where an index is outside.

    >>> import numpy as np
    >>> a = np.arange(4, dtype=np.float32).reshape(2, 2)
    >>> at = np.array([[0, 1]])
    >>> bcoo_dot_general_sampled(a, a, at, dimension_numbers=(([1], [0]), ([], []))).tolist()
    [3.0]
    """
    A, B, indices = jnp.asarray(A), jnp.asarray(B), jnp.asarray(indices)
    numbers = plain_dims(dimension_numbers)
    check_dot(A, B, numbers)
    return bcoo_dot_general_sampled_p.bind(A, B, indices, dimension_numbers=numbers)


# -- elementwise ----------------------------------------------------------------------------------


def bcoo_multiply_dense(sp_mat: BCOO, v: ArrayLike) -> Array:
    """Data of the elementwise product of a sparse array and an array; indices stay.

    Args:
      v: array whose shape broadcasts to that of `sp_mat`.
    Returns:
      array like `sp_mat.data`, of the promoted type.
    Raises:
      ValueError: shapes do not broadcast.   NotImplementedError: to a larger one.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.array([0, 2, 3], np.float32))
    >>> bcoo_multiply_dense(m, np.array([5, 6, 7], np.float32)).tolist()
    [12.0, 21.0]
    """
    v = jnp.asarray(v)
    dtype = jnp.promote_types(sp_mat.dtype, v.dtype)
    return sp_mat.data.astype(dtype) * _met(sp_mat, v.astype(dtype))


def bcoo_divide_dense(sp_mat: BCOO, v: ArrayLike) -> Array:
    """Data of the quotient of a sparse array by an array; see `bcoo_multiply_dense`."""
    v = jnp.asarray(v)
    ok = coordinates.over_batches(
        lambda indices: coordinates.inside(indices, sp_mat.sparse_shape),
        sp_mat.n_batch,
        sp_mat.indices,
    )
    met = _met(sp_mat, v)
    ok = ok.reshape(*ok.shape, *[1] * (sp_mat.data.ndim - ok.ndim))
    # What is outside is divided by one: it may be zero, and must not become nan.
    return lax.div(*jnp.broadcast_arrays(sp_mat.data, jnp.where(ok, met, jnp.ones((), v.dtype))))


def _met(sp_mat: BCOO, v: Array) -> Array:
    """What each stored element meets in an array: shaped like the data, or stretching to it."""
    if v.ndim == 0:
        return v.reshape((1,) * sp_mat.data.ndim)
    if jnp.broadcast_shapes(v.shape, sp_mat.shape) != sp_mat.shape:
        fail(
            NotImplementedError,
            "multiplication between sparse and dense is only implemented for cases where the "
            f"output shape matches the sparse matrix shape. Got shape={sp_mat.shape}, "
            f"v.shape={v.shape}",
            fix="Broadcast the sparse array first: bcoo_broadcast_in_dim.",
        )
    n_batch, n_sparse, _ = sp_mat.layout
    v = v.reshape((1,) * (sp_mat.ndim - v.ndim) + v.shape)
    # Dimensions of size 1 are met by all indices: their columns are not needed.
    met = [i for i in range(n_sparse) if v.shape[n_batch + i] != 1]
    dropped = tuple(n_batch + i for i in range(n_sparse) if i not in met)
    v = lax.squeeze(v, dropped)
    if not met:
        return jnp.expand_dims(v, n_batch)
    columns = sp_mat.indices[..., np.asarray(met)] if dropped else sp_mat.indices
    return coordinates.over_batches(coordinates.gathered, n_batch, v, columns)


def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The elementwise product of two sparse arrays.

    Args:
      lhs, rhs: of one number of dimensions, whose sizes are equal or 1, and of one layout. Types
        are promoted.
    Returns:
      BCOO with the elements of `lhs`, or of `rhs`, whichever has the shape of the result and fewer
      elements; with one for each pair where neither has that shape.
    Raises:
      NotImplementedError: layouts differ.   ValueError: shapes do not broadcast.

    >>> import numpy as np
    >>> a, b = (BCOO.fromdense(np.array(x, np.float32)) for x in ([1, 2, 0], [0, 3, 4]))
    >>> bcoo_multiply_sparse(a, b).todense().tolist()
    [0.0, 6.0, 0.0]
    """
    if lhs.layout != rhs.layout:
        fail(
            NotImplementedError,
            f"bcoo_multiply_sparse: arrays with differing numbers of dimensions: {lhs!r}, {rhs!r}",
            "elements are compared by the indices of their sparse dimensions.",
            "Give both one layout: bcoo_update_layout(n_batch=..., n_dense=...).",
        )
    shape = jnp.broadcast_shapes(lhs.shape, rhs.shape)
    dtype = jnp.promote_types(lhs.dtype, rhs.dtype)
    bases = [(x, y) for x, y in ((lhs, rhs), (rhs, lhs)) if x.sparse_shape == _sparse(shape, x)]
    if bases:
        base, other = min(bases, key=lambda pair: pair[0].nse)
        return _multiplied(base, other, shape, dtype)
    return _multiplied_pairs(lhs, rhs, shape, dtype)


def _sparse(shape: tuple[int, ...], mat: BCOO) -> tuple[int, ...]:
    return shape[mat.n_batch : mat.n_batch + mat.n_sparse]


def _multiplied(base: BCOO, other: BCOO, shape: tuple[int, ...], dtype: Any) -> BCOO:
    """At the indices of `base`, with the sum of what the other array has there."""
    columns = np.array([i for i, size in enumerate(other.sparse_shape) if size != 1], int)

    def one(data: Array, indices: Array, others: Array, other_indices: Array) -> Array:
        ok = coordinates.inside(other_indices, other.sparse_shape)
        indices = coordinates.from_front(indices, base.sparse_shape)
        other_indices = coordinates.from_front(other_indices, other.sparse_shape)
        same = jnp.all(indices[:, None, columns] == other_indices[None, :, columns], axis=-1)
        factor = jnp.tensordot((same & ok[None]).astype(dtype), others.astype(dtype), 1)
        return data.astype(dtype) * factor

    buffers = (base.data, base.indices, other.data, other.indices)
    data = coordinates.over_batches(one, base.n_batch, *buffers)
    known = {**base.info._asdict(), "shape": shape}
    return BCOO((data, base.indices), **known)


def _multiplied_pairs(lhs: BCOO, rhs: BCOO, shape: tuple[int, ...], dtype: Any) -> BCOO:
    sizes = _sparse(shape, lhs)
    stretched = [(a == 1, b == 1) for a, b in zip(lhs.sparse_shape, rhs.sparse_shape)]

    def meet(a: Array, b: Array) -> Array:
        ok = coordinates.inside(a[None], lhs.sparse_shape)
        ok &= coordinates.inside(b[None], rhs.sparse_shape)
        same = [a[i] == b[i] for i, ones in enumerate(stretched) if not any(ones)]
        return jnp.all(jnp.stack([ok[0], *same]))

    def joint(a: Array, b: Array) -> Array:
        return jnp.stack([b[i] if one else a[i] for i, (one, _) in enumerate(stretched)])

    def one(*buffers: Array) -> tuple[Array, Array]:
        a, i, b, j = buffers
        i = coordinates.from_front(i, lhs.sparse_shape)
        j = coordinates.from_front(j, rhs.sparse_shape)
        (data,) = products.outer(lambda x, y: x * y, (a.astype(dtype), b.astype(dtype)))
        (indices,) = products.outer(joint, (i, j))
        (keep,) = products.outer(meet, (i, j))
        return data, coordinates.put_outside(indices, keep, sizes)

    buffers = (lhs.data, lhs.indices, rhs.data, rhs.indices)
    return BCOO(coordinates.over_batches(one, lhs.n_batch, *buffers), shape=shape)


__all__: Sequence[str] = [
    "bcoo_dot_general",
    "bcoo_dot_general_p",
    "bcoo_dot_general_sampled",
    "bcoo_dot_general_sampled_p",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_spdot_general_p",
]
