"""BCOO: batched coordinates, and the functions that make, convert and tidy up such arrays.

What computes with them is in the other `bcoo_` files; operators are installed by `operators.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax.core.array import Array, ArrayLike
from pyjax.core.dtypes import canonicalize_dtype
from pyjax.core.errors import ConcretizationTypeError, fail
from pyjax.core.primitive import Primitive
from pyjax.core.tree_util import register_pytree_node_class
from pyjax.experimental.sparse import coordinates
from pyjax.experimental.sparse.base import (
    JAXSparse,
    Layout,
    SparseInfo,
    as_array,
    as_shape,
    concrete_count,
)
from pyjax.interpreters.composed import composed

_FORMAT = "Its shape is (*batch, *sparse, *dense): n_batch, n_sparse and n_dense dimensions."


def _composed(name: str, fun: Any) -> Primitive:
    """A primitive on the buffers of an array of which `spinfo` is known."""
    return composed(name, lambda *xs, spinfo, **ps: fun(*xs, shape=spinfo.shape, **ps), True)


bcoo_todense_p = composed(
    "bcoo_todense",
    lambda *xs, spinfo: [coordinates.todense(*xs, shape=spinfo.shape)],
)
bcoo_fromdense_p = composed("bcoo_fromdense", coordinates.fromdense, multiple_results=True)
bcoo_extract_p = composed(
    "bcoo_extract",
    lambda indices, array, *, assume_unique: [
        coordinates.extract(indices, array, assume_unique=assume_unique)
    ],
)
bcoo_transpose_p = _composed("bcoo_transpose", coordinates.transpose)
bcoo_sort_indices_p = _composed("bcoo_sort_indices", coordinates.sort_indices)
bcoo_sum_duplicates_p = _composed("bcoo_sum_duplicates", coordinates.sum_duplicates)


@register_pytree_node_class
class BCOO(JAXSparse):
    """A sparse array in batched coordinates: stored elements, and the indices of each.

    The shape is (*batch, *sparse, *dense). Batch dimensions have `nse` stored elements each; an
    element of the sparse dimensions is an array of the dense dimensions. Elements with equal
    indices add up; elements with an index outside of the array stand for nothing, and pad.

    Args:
      args: data (*batch, nse, *dense) of any dtype, and integer indices (*batch, nse, n_sparse).
        Batch dimensions of either may have size 1 for all.
      shape: of the array that it stands for.
      indices_sorted, unique_indices: promises about the indices of each batch.
    Raises:
      ValueError: buffers and shape do not fit.   TypeError: indices are no integers.
    Operators (+, -, *, /, @, **, abs, indexing) and methods work with arrays of both kinds, where
    the result is sparse or no larger than a dense operand.

    >>> import numpy as np
    >>> m = BCOO.fromdense(np.array([[0., 2.], [3., 0.]], np.float32))
    >>> m
    BCOO(float32[2, 2], nse=2)
    >>> m.indices.tolist(), (m @ np.ones(2, np.float32)).tolist()
    ([[0, 1], [1, 0]], [2.0, 3.0])
    """

    data: Array
    indices: Array
    nse: int = property(lambda self: self.indices.shape[-2])  # type: ignore[assignment]
    dtype: np.dtype = property(lambda self: self.data.dtype)  # type: ignore[assignment]
    n_batch = property(lambda self: self.indices.ndim - 2)
    n_sparse = property(lambda self: self.indices.shape[-1])
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch)

    def __init__(
        self,
        args: tuple[Array, ...],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        self.data, self.indices = map(as_array, args)
        self.indices_sorted = indices_sorted
        self.unique_indices = unique_indices
        super().__init__(args, shape=shape)
        coordinates.layout_of(self.data, self.indices, self.shape)

    @property
    def info(self) -> SparseInfo:
        """What primitives know of it."""
        return SparseInfo(self.shape, self.indices_sorted, self.unique_indices)

    @property
    def layout(self) -> Layout:
        """Numbers of batch, sparse and dense dimensions."""
        return Layout(self.n_batch, self.n_sparse, self.n_dense)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.shape[: self.n_batch]

    @property
    def sparse_shape(self) -> tuple[int, ...]:
        return self.shape[self.n_batch : self.n_batch + self.n_sparse]

    @property
    def dense_shape(self) -> tuple[int, ...]:
        return self.shape[self.n_batch + self.n_sparse :]

    @classmethod
    def fromdense(
        cls,
        mat: ArrayLike,
        *,
        nse: int | None = None,
        index_dtype: Any = np.int32,
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """See `bcoo_fromdense`."""
        return bcoo_fromdense(
            mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch
        )

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """The array that a matrix of `scipy.sparse` stands for.

        Raises:
          NotImplementedError: n_dense or n_batch is not 0.

        >>> import scipy.sparse
        >>> BCOO.from_scipy_sparse(scipy.sparse.eye(3, format="csr", dtype="float32"))
        BCOO(float32[3, 3], nse=3)
        """
        if n_dense or n_batch:
            fail(
                NotImplementedError,
                "BCOO.from_scipy_sparse with nonzero n_dense/n_batch",
                "SciPy's matrices have sparse dimensions only.",
                "Convert it without them, and then with bcoo_update_layout.",
            )
        mat = mat.tocoo()
        coordinates_of = mat.coords if hasattr(mat, "coords") else (mat.row, mat.col)
        indices = np.stack(coordinates_of, axis=-1).astype(index_dtype or np.int32)
        return cls((jnp.asarray(mat.data), jnp.asarray(indices)), shape=mat.shape)

    @classmethod
    def empty(
        cls,
        shape: Sequence[int],
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
        nse: int = 0,
    ) -> BCOO:
        """An array of zeros, with room for `nse` elements."""
        shape = as_shape(shape)
        n_sparse = len(shape) - n_dense - n_batch
        if n_sparse < 0 or n_dense < 0 or n_batch < 0 or nse < 0:
            fail(ValueError, f"Invalid inputs: {shape=}, {n_dense=}, {n_batch=}, {nse=}")
        batch, sparse = shape[:n_batch], shape[n_batch : n_batch + n_sparse]
        data = jnp.zeros((*batch, nse, *shape[n_batch + n_sparse :]), dtype)
        indices = jnp.full((*batch, nse, n_sparse), np.asarray(sparse, np.int64), index_dtype)
        known = nse == 0
        return cls((data, indices), shape=shape, indices_sorted=True, unique_indices=known)

    @classmethod
    def eye(
        cls,
        N: int,
        M: int,
        k: int,
        *,
        dtype: Any = None,
        index_dtype: Any = "int32",
        n_batch: int = 0,
        n_dense: int = 0,
    ) -> BCOO:
        """Ones on a diagonal."""
        if n_batch < 0 or n_dense < 0 or n_batch + n_dense > 2:
            fail(ValueError, f"n_batch={n_batch} and n_dense={n_dense} of a matrix")
        rows = np.arange(max(0, -k), max(min(N, M - k), max(0, -k)))
        dense: np.ndarray
        if n_batch == 0:
            dense = np.zeros((rows.size, *(N, M)[2 - n_dense :]))
            at = (np.arange(rows.size), rows, rows + k)
            if n_dense == 2:
                return cls._of_whole(np.eye(N, M, k), dtype, index_dtype)
            dense[at[0] if n_dense == 0 else (at[0], at[2])] = 1
            indices = np.stack(at[1:], axis=-1)[:, : 2 - n_dense]
        elif n_dense or n_batch == 2:
            dense = np.eye(N, M, k)[:, None] if n_dense else np.eye(N, M, k)[..., None]
            indices = np.zeros((*dense.shape[: n_batch + 1], 0))
        else:
            ok = (np.arange(N) + k >= 0) & (np.arange(N) + k < M)
            dense = ok[:, None]
            indices = np.where(ok, np.arange(N) + k, M)[:, None, None]
        buffers = (jnp.asarray(dense, dtype or float), jnp.asarray(indices, index_dtype))
        return cls(buffers, shape=(N, M), indices_sorted=True, unique_indices=True)

    @classmethod
    def _of_whole(cls, dense: np.ndarray, dtype: Any, index_dtype: Any) -> BCOO:
        """An array whose dimensions are all dense."""
        buffers = (jnp.asarray(dense[None], dtype or float), jnp.zeros((1, 0), index_dtype))
        return cls(buffers, shape=dense.shape, indices_sorted=True, unique_indices=True)

    def todense(self) -> Array:
        """See `bcoo_todense`."""
        return bcoo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """See `bcoo_transpose`; by default dimensions are reversed."""
        permutation = tuple(range(self.ndim))[::-1] if axes is None else tuple(axes)
        return bcoo_transpose(self, permutation=permutation)

    def sort_indices(self) -> BCOO:
        """See `bcoo_sort_indices`."""
        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """See `bcoo_sum_duplicates`; `remove_zeros`: elements that are zero are not stored."""
        return bcoo_sum_duplicates(without_zeros(self) if remove_zeros else self, nse=nse)

    def tree_flatten(self) -> tuple[Any, dict[str, Any]]:
        return (self.data, self.indices), self.info._asdict()

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Any) -> BCOO:
        array = object.__new__(cls)
        array.data, array.indices = children
        array.shape = aux_data["shape"]
        array.indices_sorted = aux_data["indices_sorted"]
        array.unique_indices = aux_data["unique_indices"]
        return array


def like(mat: BCOO, data: Array) -> BCOO:
    """An array with other data at the same indices."""
    return BCOO((data, mat.indices), **mat.info._asdict())


def full_batches(mat: BCOO) -> BCOO:
    """The array with buffers that have each batch for itself."""
    data, indices = (coordinates.full_batches(x, mat.batch_shape) for x in (mat.data, mat.indices))
    return BCOO((data, indices), **mat.info._asdict())


def bcoo_todense(mat: BCOO) -> Array:
    """All elements of a sparse array.

    Returns:
      array of the shape and dtype of `mat`; elements with equal indices are added up (of booleans:
      whether one of them is true).

    >>> import numpy as np
    >>> bcoo_todense(BCOO((np.ones(2), np.array([[1], [1]])), shape=(3,))).tolist()
    [0.0, 2.0, 0.0]
    """
    return bcoo_todense_p.bind(mat.data, mat.indices, spinfo=mat.info)


def bcoo_fromdense(
    mat: ArrayLike,
    *,
    nse: int | None = None,
    n_batch: int = 0,
    n_dense: int = 0,
    index_dtype: Any = np.int32,
) -> BCOO:
    """A sparse array of the elements that are not zero.

    Args:
      mat: array of any shape and dtype.
      nse: how many elements to store of each batch, by default as many as there are: that follows
        from values, so that it must be given where they are not known, under `jit` for instance.
        Elements beyond the first `nse` are dropped; where there are fewer, others pad.
      n_batch, n_dense: how many dimensions at the front are batches, at the end are dense.
      index_dtype: an integer dtype.
    Raises:
      ConcretizationTypeError: nse is None and values are not known.
      ValueError: there are not so many dimensions.

    >>> import numpy as np
    >>> bcoo_fromdense(np.eye(3, dtype=np.float32)).indices.tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    array = jnp.asarray(mat)
    if n_batch + n_dense > array.ndim or n_batch < 0 or n_dense < 0:
        fail(
            ValueError,
            f"n_batch={n_batch} and n_dense={n_dense} of an array of {array.ndim} dimensions",
            _FORMAT,
        )
    if nse is None:
        where = coordinates.stored(array, n_batch, n_dense)
        counts = jnp.sum(where, axis=tuple(range(n_batch, where.ndim)), dtype=np.int32)
        nse = concrete_count("bcoo_fromdense", jnp.max(counts, initial=0), ConcretizationTypeError)
    data, indices = bcoo_fromdense_p.bind(
        array,
        nse=int(nse),
        n_batch=n_batch,
        n_dense=n_dense,
        index_dtype=canonicalize_dtype(np.dtype(index_dtype)),
    )
    return BCOO((data, indices), shape=array.shape, indices_sorted=True, unique_indices=True)


def bcoo_extract(sparr: BCOO, arr: ArrayLike, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of an array at the indices of a sparse array.

    Args:
      arr: array of the shape of `sparr`.
      assume_unique: store the value at each index, even where indices repeat, so that they would
        add up. By default whether `sparr` says that its indices are unique.

    >>> import numpy as np
    >>> at = BCOO((np.ones(2), np.array([[0], [2]])), shape=(3,))
    >>> bcoo_extract(at, np.array([5., 6., 7.], np.float32)).data.tolist()
    [5.0, 7.0]
    """
    array = jnp.asarray(arr)
    if array.shape != sparr.shape:
        fail(
            ValueError,
            f"bcoo_extract: the shapes {sparr.shape} of the sparse array and {array.shape} of the "
            "array differ.",
            fix="Give it arrays of one shape.",
        )
    if assume_unique is None:
        assume_unique = sparr.unique_indices
    data = bcoo_extract_p.bind(sparr.indices, array, assume_unique=assume_unique)
    return like(sparr, data)


def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its dimensions in another order.

    Args:
      permutation: old positions of the dimensions, which stay among their kind.
    Raises:
      NotImplementedError: batch or dense dimensions would change places with others.

    >>> m = BCOO.fromdense(jnp.array([[0.0, 2.0], [3.0, 0.0]]))
    >>> bcoo_transpose(m, permutation=(1, 0)).todense().tolist()
    [[0.0, 3.0], [2.0, 0.0]]
    """
    n_batch, n_sparse, _ = mat.layout
    permutation = tuple(int(p) for p in permutation)
    if sorted(permutation) != list(range(mat.ndim)):
        fail(
            TypeError,
            f"{permutation=} is no permutation of the {mat.ndim} dimensions of {mat!r}.",
        )
    for kind, end in (("batch", n_batch), ("dense", n_batch + n_sparse)):
        if sorted(permutation[:end]) != list(range(end)):
            fail(
                NotImplementedError,
                f"transpose permutation cannot permute {kind} axes with non-{kind} axes; got "
                f"permutation {permutation}, with n_batch={n_batch}, n_dense={mat.n_dense}.",
                _FORMAT,
                "Change the kinds first with bcoo_update_layout.",
            )
    data, indices = bcoo_transpose_p.bind(
        mat.data, mat.indices, permutation=permutation, spinfo=mat.info
    )
    sparse = permutation[n_batch : n_batch + n_sparse]
    return BCOO(
        (data, indices),
        shape=tuple(mat.shape[p] for p in permutation),
        indices_sorted=mat.indices_sorted and list(sparse) == sorted(sparse),
        unique_indices=mat.unique_indices,
    )


def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The array with elements in the order of their indices; those that pad come last.

    >>> import numpy as np
    >>> m = BCOO((np.array([1., 2.], np.float32), np.array([[1], [0]])), shape=(2,))
    >>> bcoo_sort_indices(m).data.tolist()
    [2.0, 1.0]
    """
    data, indices = bcoo_sort_indices_p.bind(mat.data, mat.indices, spinfo=mat.info)
    known = {**mat.info._asdict(), "indices_sorted": True}
    return BCOO((data, indices), **known)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The array with elements of equal indices added up, and sorted.

    Args:
      nse: how many elements to store of each batch, by default as many different ones as there are
        (of the batch with most), which must be given where indices are not known. With fewer the
        last ones are dropped.
    Raises:
      ValueError: nse is None and indices are not known.

    >>> import numpy as np
    >>> m = BCOO((np.ones(3, np.float32), np.array([[1], [0], [1]])), shape=(2,))
    >>> bcoo_sum_duplicates(m).data.tolist()
    [1.0, 2.0]
    """
    if nse is None:
        count = partial(coordinates.count_distinct, sizes=mat.sparse_shape)
        counts = coordinates.over_batches(count, mat.n_batch, mat.indices)
        nse = concrete_count("bcoo_sum_duplicates", jnp.max(counts, initial=0), ValueError)
    data, indices = bcoo_sum_duplicates_p.bind(mat.data, mat.indices, spinfo=mat.info, nse=int(nse))
    return BCOO((data, indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def without_zeros(mat: BCOO) -> BCOO:
    """The array with elements that are zero put outside."""

    def one(data: Array, indices: Array) -> Array:
        keep = jnp.any(data != 0, axis=tuple(range(1, data.ndim)))
        return coordinates.put_outside(indices, keep, mat.sparse_shape)

    indices = coordinates.over_batches(one, mat.n_batch, mat.data, mat.indices)
    return BCOO((mat.data, indices), shape=mat.shape, unique_indices=mat.unique_indices)


def replaced(mat: BCOO, **changes: Any) -> BCOO:
    """The array with other buffers (`data=`, `indices=`), shape or promises."""
    buffers = (changes.pop("data", mat.data), changes.pop("indices", mat.indices))
    return BCOO(buffers, **{**mat.info._asdict(), **changes})


def with_indices(mat: BCOO, shape: tuple[int, ...], keep_and_indices: Any, **known: bool) -> BCOO:
    """The array with `indices -> (which elements stay, their new indices)` for each batch, which
    takes indices from the front; `shape`: its new shape, of the same batches."""
    n_batch = mat.n_batch

    def one(indices: Array) -> Array:
        ok = coordinates.inside(indices, mat.sparse_shape)
        keep, new = keep_and_indices(coordinates.from_front(indices, mat.sparse_shape))
        sizes = shape[n_batch : n_batch + new.shape[-1]]
        return coordinates.put_outside(new.astype(indices.dtype), ok & keep, sizes)

    indices = coordinates.over_batches(one, n_batch, mat.indices)
    return BCOO((mat.data, indices), shape=shape, **known)
