"""BCSR: batched compressed rows, in terms of coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import fail
from pyjax.core.tree_util import register_pytree_node_class
from pyjax.experimental.sparse import coordinates, products
from pyjax.experimental.sparse.base import JAXSparse, SparseInfo, as_array
from pyjax.experimental.sparse.bcoo_array import (
    BCOO,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    full_batches,
    without_zeros,
)
from pyjax.experimental.sparse.bcoo_dot import check_dot
from pyjax.experimental.sparse.bcoo_moves import bcoo_broadcast_in_dim, bcoo_concatenate
from pyjax.experimental.sparse.products import plain_dims
from pyjax.interpreters.composed import composed

# -- between rows and coordinates -----------------------------------------------------------------


def rows_of(indices: Array, indptr: Array) -> Array:
    """The row of each element: (*batch, nse). Elements behind the last row get a row outside."""

    def one(indices: Array, indptr: Array) -> Array:
        positions = jnp.arange(indices.shape[0], dtype=indptr.dtype)
        rows = jnp.searchsorted(indptr, positions, side="right") - 1
        return rows.astype(indices.dtype)

    return coordinates.over_batches(one, indices.ndim - 1, indices, indptr)


def coordinates_of(indices: Array, indptr: Array) -> Array:
    """Indices (*batch, nse, 2) of rows and columns."""
    rows = rows_of(indices, indptr)
    return jnp.stack([rows, jnp.broadcast_to(indices, rows.shape)], axis=-1)


def starts_of(rows: Array, number: int) -> Array:
    """Where each row begins, and the last one ends, among ascending rows: (number + 1,)."""
    wanted = np.arange(number + 1, dtype=rows.dtype)
    return jnp.searchsorted(rows, wanted).astype(rows.dtype)


def _todense(data: Array, indices: Array, indptr: Array, *, spinfo: SparseInfo) -> list[Array]:
    at = coordinates_of(indices, indptr)
    return [coordinates.todense(data, at, shape=spinfo.shape)]


def _fromdense(
    array: Array, *, nse: int, n_batch: int, n_dense: int, index_dtype: Any
) -> list[Array]:
    mat = bcoo_fromdense(array, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    return list(BCSR.from_bcoo(mat).tree_flatten()[0])


def _extract(indices: Array, indptr: Array, array: Array) -> list[Array]:
    return [coordinates.extract(coordinates_of(indices, indptr), array, assume_unique=True)]


def _dot(
    data: Array, indices: Array, indptr: Array, rhs: Array, *, lhs_spinfo: SparseInfo, **params: Any
) -> list[Array]:
    at = coordinates_of(indices, indptr)
    return [products.dot_dense(data, at, rhs, shape=lhs_spinfo.shape, **params)]


bcsr_todense_p = composed("bcsr_todense", _todense)
bcsr_fromdense_p = composed("bcsr_fromdense", _fromdense, multiple_results=True)
bcsr_extract_p = composed("bcsr_extract", _extract)
bcsr_dot_general_p = composed("bcsr_dot_general", _dot)


# -- the class ------------------------------------------------------------------------------------


@register_pytree_node_class
class BCSR(JAXSparse):
    """A sparse array in batched compressed rows.

    The shape is (*batch, rows, columns, *dense). Elements of row r of a batch are those from
    indptr[r] up to indptr[r + 1]; those behind the last row pad.

    Args:
      args: data (*batch, nse, *dense); indices (*batch, nse), the column of each element; indptr
        (*batch, rows + 1). Batch dimensions may have size 1 for all.
      shape: of the array that it stands for.
      indices_sorted, unique_indices: promises about the columns of each row.
    Raises:
      ValueError: buffers and shape do not fit.   TypeError: indices are no integers.

    >>> import numpy as np
    >>> m = BCSR.fromdense(np.array([[0., 2.], [3., 4.]], np.float32))
    >>> m.indices.tolist(), m.indptr.tolist(), (m @ np.ones(2, np.float32)).tolist()
    ([1, 0, 1], [0, 1, 3], [2.0, 7.0])
    """

    data: Array
    indices: Array
    indptr: Array
    nse: int = property(lambda self: self.indices.shape[-1])  # type: ignore[assignment]
    dtype: np.dtype = property(lambda self: self.data.dtype)  # type: ignore[assignment]
    n_batch = property(lambda self: self.indices.ndim - 1)
    n_sparse = property(lambda _: 2)
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch)

    def __init__(
        self,
        args: tuple[Array, Array, Array],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices, self.indptr = map(as_array, args)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=shape)
        self._check()

    def _check(self) -> None:
        n = self.n_batch
        example = np.empty((*self.indices.shape, 2), self.indices.dtype)
        if len(self.shape) < n + 2:
            fail(
                ValueError,
                f"Invalid indices.shape={self.indices.shape} for a BCSR array of shape "
                f"{self.shape}.",
                "indices have the shape (*batch, nse), and the array two more dimensions.",
            )
        coordinates.layout_of(self.data, example, self.shape)
        if not jnp.issubdtype(self.indptr.dtype, np.integer):
            fail(TypeError, f"indptr must have an integer dtype, got {self.indptr.dtype}.")
        fits = self.indptr.ndim == n + 1 and self.indptr.shape[-1] == self.shape[n] + 1
        if not fits or any(a not in (1, b) for a, b in zip(self.indptr.shape[:n], self.shape)):
            fail(
                ValueError,
                "indptr shape must match the matrix shape plus 1.",
                f"it is {self.indptr.shape} for a matrix of shape {self.shape}.",
                "indptr has an entry for each row, and one for the end of the last one.",
            )

    @property
    def info(self) -> SparseInfo:
        """What primitives know of it."""
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    @classmethod
    def fromdense(
        cls,
        mat: ArrayLike,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """See `bcsr_fromdense`."""
        return bcsr_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The same array; elements are sorted by row if need be.

        Raises:
          NotImplementedError: it does not have two sparse dimensions.
        """
        if arr.n_sparse != 2:
            fail(
                NotImplementedError,
                f"BCSR.from_bcoo requires n_sparse=2; got arr.n_sparse={arr.n_sparse}",
                "rows and columns are the sparse dimensions.",
                "Change the others with bcoo_update_layout(n_batch=..., n_dense=...).",
            )
        arr = full_batches(arr)
        if not arr.indices_sorted:
            outside = coordinates.over_batches(
                lambda i: coordinates.put_outside(
                    i, coordinates.inside(i, arr.sparse_shape), arr.sparse_shape
                ),
                arr.n_batch,
                arr.indices,
            )
            arr = bcoo_sort_indices(BCOO((arr.data, outside), **arr.info._asdict()))
        rows, columns = arr.indices[..., 0], arr.indices[..., 1]
        indptr = coordinates.over_batches(
            lambda r: starts_of(r, arr.sparse_shape[0]), arr.n_batch, rows
        )
        return cls((arr.data, columns, indptr), **arr.info._asdict())

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """The array that a matrix of `scipy.sparse` stands for.

        Raises:
          NotImplementedError: n_dense or n_batch is not 0.
        """
        if n_dense or n_batch:
            fail(
                NotImplementedError,
                "BCSR.from_scipy_sparse with nonzero n_dense/n_batch",
                "SciPy's matrices have sparse dimensions only.",
                "Convert it without them, to BCOO, and then with bcoo_update_layout.",
            )
        mat = mat.tocsr()
        kind = np.dtype(index_dtype or np.int32)
        buffers = (mat.data, mat.indices.astype(kind), mat.indptr.astype(kind))
        data, indices, indptr = map(jnp.asarray, buffers)
        return cls((data, indices, indptr), shape=mat.shape)

    @classmethod
    def empty(cls, shape: Sequence[int], **kwds: Any) -> BCSR:
        """An array of zeros; keywords as of `BCOO.empty`."""
        return cls.from_bcoo(BCOO.empty(shape, **kwds))

    @classmethod
    def eye(cls, N: int, M: int, k: int, **kwds: Any) -> BCSR:
        """Ones on a diagonal."""
        return cls.from_bcoo(BCOO.eye(N, M, k, **kwds))

    def to_bcoo(self) -> BCOO:
        """The same array by coordinates."""
        at = coordinates_of(self.indices, self.indptr)
        return BCOO((self.data, at), **self.info._asdict())

    def todense(self) -> Array:
        """See `bcsr_todense`."""
        return bcsr_todense(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """See `bcsr_sum_duplicates`; `remove_zeros`: elements that are zero are not stored."""
        mat = self.to_bcoo()
        return BCSR.from_bcoo(
            bcoo_sum_duplicates(without_zeros(mat) if remove_zeros else mat, nse=nse)
        )

    def tree_flatten(self) -> tuple[Any, dict[str, Any]]:
        return (self.data, self.indices, self.indptr), self.info._asdict()

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Any) -> BCSR:
        array = object.__new__(cls)
        array.data, array.indices, array.indptr = children
        array.shape = aux_data["shape"]
        array.indices_sorted = aux_data["indices_sorted"]
        array.unique_indices = aux_data["unique_indices"]
        return array


# -- functions ------------------------------------------------------------------------------------


def bcsr_todense(mat: BCSR) -> Array:
    """All elements of a sparse array; elements at one place are added up.

    >>> import numpy as np
    >>> bcsr_todense(BCSR.fromdense(np.eye(2, dtype=np.float32))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return bcsr_todense_p.bind(mat.data, mat.indices, mat.indptr, spinfo=mat.info)


def bcsr_fromdense(
    mat: ArrayLike,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCSR:
    """A sparse array of the elements that are not zero; see `bcoo_fromdense`.

    Raises:
      ValueError: besides, the array does not have two sparse dimensions.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> s = bcsr_fromdense(m)
    >>> s.data.tolist(), s.indices.tolist(), s.indptr.tolist()
    ([2.0, 3.0], [1, 0], [0, 1, 2])
    """
    array = jnp.asarray(mat)
    if array.ndim - n_batch - n_dense != 2:
        fail(
            ValueError,
            f"bcsr_fromdense: must have 2 sparse dimensions, got {array.ndim - n_batch - n_dense} "
            f"of an array of shape {array.shape} with {n_batch=}, {n_dense=}.",
            fix="Give n_batch and n_dense that leave rows and columns, or use bcoo_fromdense.",
        )
    if nse is None:
        return BCSR.from_bcoo(
            bcoo_fromdense(array, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
        )
    buffers = bcsr_fromdense_p.bind(
        array, nse=int(nse), n_batch=n_batch, n_dense=n_dense, index_dtype=np.dtype(index_dtype)
    )
    return BCSR(tuple(buffers), shape=array.shape, indices_sorted=True, unique_indices=True)


def bcsr_extract(indices: ArrayLike, indptr: ArrayLike, mat: ArrayLike) -> Array:
    """The elements of an array at places that indices and indptr give: (*batch, nse, *dense).

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> s = BCSR.fromdense(m)
    >>> bcsr_extract(s.indices, s.indptr, 10 * m).tolist()
    [20.0, 30.0]
    """
    return bcsr_extract_p.bind(*map(jnp.asarray, (indices, indptr, mat)))


def bcsr_dot_general(
    lhs: BCSR | ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any,
    precision: None = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """A contraction of a sparse array with an array; see `bcoo_dot_general`.

    Raises:
      NotImplementedError: the right operand is sparse.

    >>> import numpy as np
    >>> m = BCSR.fromdense(np.eye(2, dtype=np.float32))
    >>> bcsr_dot_general(m, [1.0, 2.0], dimension_numbers=(([1], [0]), ([], []))).tolist()
    [1.0, 2.0]
    """
    del precision, out_sharding
    if not isinstance(lhs, BCSR) or isinstance(rhs, JAXSparse):
        fail(
            NotImplementedError,
            f"bcsr_dot_general of {type(lhs).__name__} and {type(rhs).__name__}",
            "rows are those of the left operand, which is BCSR; the right one is an array.",
            "Convert sparse operands with to_bcoo() and use bcoo_dot_general.",
        )
    numbers = plain_dims(dimension_numbers)
    rhs = jnp.asarray(rhs)
    check_dot(lhs, rhs, numbers)
    preferred = None if preferred_element_type is None else np.dtype(preferred_element_type)
    return bcsr_dot_general_p.bind(
        *lhs.tree_flatten()[0],
        rhs,
        lhs_spinfo=lhs.info,
        dimension_numbers=numbers,
        preferred_element_type=preferred,
    )


def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The array with elements at one place added up; see `bcoo_sum_duplicates`.

    >>> parts = jnp.array([2.0, 3.0]), jnp.array([1, 1]), jnp.array([0, 2])
    >>> bcsr_sum_duplicates(BCSR(parts, shape=(1, 2))).data.tolist()
    [5.0]
    """
    return BCSR.from_bcoo(bcoo_sum_duplicates(mat.to_bcoo(), nse=nse))


def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """The array with dimensions added or stretched; see `bcoo_broadcast_in_dim`.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> s = BCSR.fromdense(m)
    >>> wide = bcsr_broadcast_in_dim(s, shape=(3, 2, 2), broadcast_dimensions=(1, 2))
    >>> wide.todense().shape
    (3, 2, 2)
    """
    return BCSR.from_bcoo(
        bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions)
    )


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """Arrays one behind the other along a dimension; see `bcoo_concatenate`.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> bcsr_concatenate([BCSR.fromdense(m)] * 2, dimension=0).todense().shape
    (4, 2)
    """
    return BCSR.from_bcoo(
        bcoo_concatenate([mat.to_bcoo() for mat in operands], dimension=dimension)
    )
