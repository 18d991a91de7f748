"""COO, CSR and CSC: sparse matrices, without batches, in terms of coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import lax
from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import ConcretizationTypeError, fail
from pyjax.core.tree_util import register_pytree_node_class
from pyjax.experimental.sparse import coordinates, products
from pyjax.experimental.sparse.base import JAXSparse, as_array, concrete_count
from pyjax.experimental.sparse.bcsr import coordinates_of, starts_of
from pyjax.interpreters.composed import composed

Shape = tuple[int, int]
_CONTRACT = (((1,), (0,)), ((), ()))
_CONTRACT_ROWS = (((0,), (0,)), ((), ()))


# -- on buffers -----------------------------------------------------------------------------------


def _coo_indices(row: Array, col: Array) -> Array:
    return jnp.stack([row, col], axis=-1)


def _nonzero(array: Array, *, nse: int, index_dtype: Any) -> tuple[Array, Array, Array]:
    """Data, rows and columns of what is not zero; zeros at the first element pad."""
    row, col = jnp.nonzero(array != 0, size=nse, fill_value=array.shape)
    row, col = row.astype(index_dtype), col.astype(index_dtype)
    return coordinates.gathered(array, _coo_indices(row, col)), row, col


def _without_outside(indices: Array, size: int) -> Array:
    return jnp.where(indices < size, indices, jnp.zeros((), indices.dtype))


def _coo_fromdense(array: Array, **params: Any) -> list[Array]:
    data, row, col = _nonzero(array, **params)
    return [data, *(_without_outside(i, n) for i, n in zip((row, col), array.shape))]


def _csr_fromdense(array: Array, **params: Any) -> list[Array]:
    data, row, col = _nonzero(array, **params)
    return [data, _without_outside(col, array.shape[1]), starts_of(row, array.shape[0])]


_Indices = Callable[[Array, Array], Array]


def _todense(at: _Indices) -> Any:
    def fun(data: Array, i: Array, j: Array, *, shape: Shape) -> list[Array]:
        return [coordinates.todense(data, at(i, j), shape=shape)]

    return fun


def _product(at: _Indices) -> Any:
    def fun(data: Array, i: Array, j: Array, x: Array, *, shape: Shape, transpose: bool) -> Any:
        numbers = _CONTRACT_ROWS if transpose else _CONTRACT
        return [products.dot_dense(data, at(i, j), x, shape=shape, dimension_numbers=numbers)]

    return fun


coo_fromdense_p = composed("coo_fromdense", _coo_fromdense, multiple_results=True)
coo_todense_p = composed("coo_todense", _todense(_coo_indices))
coo_matvec_p = composed("coo_matvec", _product(_coo_indices))
coo_matmat_p = composed("coo_matmat", _product(_coo_indices))
csr_fromdense_p = composed("csr_fromdense", _csr_fromdense, multiple_results=True)
csr_todense_p = composed("csr_todense", _todense(coordinates_of))
csr_matvec_p = composed("csr_matvec", _product(coordinates_of))
csr_matmat_p = composed("csr_matmat", _product(coordinates_of))


# -- the classes ----------------------------------------------------------------------------------


class _Matrix(JAXSparse):
    """A matrix of three buffers, of which the first is the data."""

    buffer_names: tuple[str, str]
    data: Array
    nse: int = property(lambda self: self.data.size)  # type: ignore[assignment]
    dtype: np.dtype = property(lambda self: self.data.dtype)  # type: ignore[assignment]

    def __init__(self, args: tuple[Array, Array, Array], *, shape: Sequence[int]) -> None:
        buffers = [as_array(x) for x in args]
        for name, buffer in zip(("data", *self.buffer_names), buffers):
            setattr(self, name, buffer)
        super().__init__(args, shape=shape)
        if len(self.shape) != 2:
            fail(ValueError, f"{type(self).__name__} is a matrix, got shape {self.shape}.")

    @property
    def buffers(self) -> tuple[Array, Array, Array]:
        first, second = self.buffer_names
        return self.data, getattr(self, first), getattr(self, second)

    def _known(self) -> dict[str, Any]:
        return {"shape": self.shape}

    def tree_flatten(self) -> tuple[Any, dict[str, Any]]:
        return self.buffers, self._known()

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Any) -> Any:
        array = object.__new__(cls)
        for name, child in zip(("data", *cls.buffer_names), children):
            setattr(array, name, child)
        for name, value in aux_data.items():
            setattr(array, name, value)
        return array

    def __matmul__(self, other: Any) -> Array:
        if isinstance(other, JAXSparse):
            fail(
                NotImplementedError,
                f"matmul between two sparse objects: {type(self).__name__} and "
                f"{type(other).__name__}.",
                fix="Use BCOO for both, or make one of them dense.",
            )
        other = jnp.asarray(other)
        if other.ndim not in (1, 2):
            fail(
                NotImplementedError,
                f"matmul with object of shape {other.shape}",
                "rows and columns meet vectors and matrices.",
                "Map over other dimensions with vmap, or use BCOO.",
            )
        return self._times(other)

    def _times(self, other: Array) -> Array:
        raise NotImplementedError


@register_pytree_node_class
class COO(_Matrix):
    """A sparse matrix of elements with their rows and columns.

    Args:
      args: data, row and col, of one size.
      shape: (rows, columns).
      rows_sorted, cols_sorted: promises: elements ascend by row, or by column.
    Elements of one place add up; those outside stand for nothing.

    >>> import numpy as np
    >>> m = COO.fromdense(np.array([[0., 2.], [3., 0.]], np.float32))
    >>> m, (m.T @ np.array([1., 0.], np.float32)).tolist()
    (COO(float32[2, 2], nse=2), [0.0, 2.0])
    """

    buffer_names = ("row", "col")
    row: Array
    col: Array

    def __init__(
        self,
        args: tuple[Array, Array, Array],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        super().__init__(args, shape=shape)
        self.rows_sorted = rows_sorted
        self.cols_sorted = cols_sorted

    def _known(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "rows_sorted": self.rows_sorted,
            "cols_sorted": self.cols_sorted,
        }

    @classmethod
    def fromdense(
        cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: Any = np.int32
    ) -> COO:
        """See `coo_fromdense`."""
        return coo_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        """A matrix of zeros."""
        none = jnp.zeros(0, index_dtype)
        return cls(
            (jnp.zeros(0, dtype), none, none), shape=shape, rows_sorted=True, cols_sorted=True
        )

    @classmethod
    def eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> COO:
        """Ones on a diagonal."""
        rows = _diagonal_rows(N, M, k)
        row, col = (jnp.asarray(i, index_dtype) for i in (rows, rows + k))
        data = jnp.ones(rows.size, dtype)
        return cls((data, row, col), shape=(N, M), rows_sorted=True, cols_sorted=True)

    def todense(self) -> Array:
        """See `coo_todense`."""
        return coo_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """Rows and columns exchanged."""
        _check_transposed(axes)
        return COO(
            (self.data, self.col, self.row),
            shape=self.shape[::-1],
            rows_sorted=self.cols_sorted,
            cols_sorted=self.rows_sorted,
        )

    def _times(self, other: Array) -> Array:
        return (coo_matvec if other.ndim == 1 else coo_matmat)(self, other)


@register_pytree_node_class
class CSR(_Matrix):
    """A sparse matrix of compressed rows.

    Args:
      args: data; indices, the column of each element; indptr, where each row begins, and the end.
      shape: (rows, columns).

    >>> import numpy as np
    >>> CSR.fromdense(np.array([[0., 2.], [3., 0.]], np.float32)).T
    CSC(float32[2, 2], nse=2)
    """

    buffer_names = ("indices", "indptr")
    indices: Array
    indptr: Array

    def __init__(self, args: tuple[Array, Array, Array], *, shape: Sequence[int]) -> None:
        super().__init__(args, shape=shape)

    @classmethod
    def fromdense(
        cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: Any = np.int32
    ) -> CSR:
        """See `csr_fromdense`."""
        return csr_fromdense(mat, nse=nse, index_dtype=index_dtype)

    @classmethod
    def empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        """A matrix of zeros."""
        indptr = jnp.zeros(shape[0] + 1, index_dtype)
        return cls((jnp.zeros(0, dtype), jnp.zeros(0, index_dtype), indptr), shape=shape)

    @classmethod
    def eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSR:
        """Ones on a diagonal."""
        rows = _diagonal_rows(N, M, k)
        indptr = jnp.asarray(np.searchsorted(rows, np.arange(N + 1)), index_dtype)
        data = jnp.ones(rows.size, dtype)
        return cls((data, jnp.asarray(rows + k, index_dtype), indptr), shape=(N, M))

    def todense(self) -> Array:
        """See `csr_todense`."""
        return csr_todense(self)

    def transpose(self, axes: Sequence[int] | None = None) -> CSC:
        """Rows and columns exchanged."""
        _check_transposed(axes)
        return CSC(self.buffers, shape=self.shape[::-1])

    def _times(self, other: Array) -> Array:
        return (csr_matvec if other.ndim == 1 else csr_matmat)(self, other)


@register_pytree_node_class
class CSC(_Matrix):
    """A sparse matrix of compressed columns.

    Args:
      args: data; indices, the row of each element; indptr, where each column begins, and the end.
      shape: (rows, columns).

    >>> import numpy as np
    >>> CSC.fromdense(np.array([[0., 2.], [3., 0.]], np.float32)).indices.tolist()
    [1, 0]
    """

    buffer_names = ("indices", "indptr")
    indices: Array
    indptr: Array

    def __init__(self, args: tuple[Array, Array, Array], *, shape: Sequence[int]) -> None:
        super().__init__(args, shape=shape)

    @classmethod
    def fromdense(
        cls, mat: ArrayLike, *, nse: int | None = None, index_dtype: Any = np.int32
    ) -> CSC:
        """See `csr_fromdense`, of the transposed matrix."""
        return csr_fromdense(jnp.asarray(mat).T, nse=nse, index_dtype=index_dtype).T

    @classmethod
    def empty(cls, shape: Sequence[int], *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        """A matrix of zeros."""
        return CSR.empty(shape[::-1], dtype=dtype, index_dtype=index_dtype).T

    @classmethod
    def eye(cls, N: int, M: int, k: int, *, dtype: Any = None, index_dtype: Any = "int32") -> CSC:
        """Ones on a diagonal."""
        return CSR.eye(M, N, -k, dtype=dtype, index_dtype=index_dtype).T

    def todense(self) -> Array:
        """All elements, in an array."""
        return csr_todense(self.T).T

    def transpose(self, axes: Sequence[int] | None = None) -> CSR:
        """Rows and columns exchanged."""
        _check_transposed(axes)
        return CSR(self.buffers, shape=self.shape[::-1])

    def _times(self, other: Array) -> Array:
        return (csr_matvec if other.ndim == 1 else csr_matmat)(self.T, other, transpose=True)


def _diagonal_rows(N: int, M: int, k: int) -> np.ndarray:
    start = max(0, -k)
    return np.arange(start, max(start, min(N, M - k)))


def _check_transposed(axes: Sequence[int] | None) -> None:
    if axes is not None and tuple(axes) not in ((1, 0), (-1, -2)):
        fail(
            NotImplementedError,
            f"axes={axes} of the transpose of a matrix",
            "a matrix has two dimensions, and its transpose is the only other order.",
            fix="Leave them out: rows and columns are exchanged.",
        )


# -- functions ------------------------------------------------------------------------------------


def _nse_of(name: str, array: Array, nse: int | None) -> int:
    if array.ndim != 2:
        fail(ValueError, f"{name} takes a matrix, got shape {array.shape}.")
    if nse is not None:
        return int(nse)
    return concrete_count(name, jnp.sum(array != 0, dtype=np.int32), ConcretizationTypeError)


def _fromdense(name: str, primitive: Any, mat: ArrayLike, nse: int | None, dtype: Any) -> Any:
    array = jnp.asarray(mat)
    nse = _nse_of(name, array, nse)
    return primitive.bind(array, nse=nse, index_dtype=np.dtype(dtype)), array.shape


def coo_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: Any = np.int32) -> COO:
    """A matrix of the elements that are not zero, by rows.

    Args:
      nse: how many to store, by default all, which must be given where values are not known.
        Zeros in the first place pad.
    Raises:
      ConcretizationTypeError: nse is None and values are not known.
      ValueError: the array is no matrix.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> s = coo_fromdense(m)
    >>> s.data.tolist(), s.row.tolist(), s.col.tolist()
    ([2.0, 3.0], [0, 1], [1, 0])
    """
    buffers, shape = _fromdense("coo_fromdense", coo_fromdense_p, mat, nse, index_dtype)
    return COO(tuple(buffers), shape=shape, rows_sorted=nse is None)


def coo_todense(mat: COO) -> Array:
    """All elements of a matrix; elements of one place are added up.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> coo_todense(COO.fromdense(m)).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    return coo_todense_p.bind(*mat.buffers, shape=mat.shape)


def coo_matvec(mat: COO, v: ArrayLike, transpose: bool = False) -> Array:
    """The product of a matrix, or of its transpose, with a vector. Types are promoted.

    >>> import numpy as np
    >>> m = COO.fromdense(np.array([[0., 2.], [3., 0.]], np.float32))
    >>> coo_matvec(m, np.array([1., 0.], np.float32)).tolist()
    [0.0, 3.0]
    """
    return _applied(coo_matvec_p, mat, v, transpose, 1)


def coo_matmat(mat: COO, B: ArrayLike, *, transpose: bool = False) -> Array:
    """The product of a matrix, or of its transpose, with an array of two dimensions.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> coo_matmat(COO.fromdense(m), jnp.eye(2)).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    return _applied(coo_matmat_p, mat, B, transpose, 2)


def csr_fromdense(mat: ArrayLike, *, nse: int | None = None, index_dtype: Any = np.int32) -> CSR:
    """A matrix of the elements that are not zero; see `coo_fromdense`.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> s = csr_fromdense(m)
    >>> s.data.tolist(), s.indices.tolist(), s.indptr.tolist()
    ([2.0, 3.0], [1, 0], [0, 1, 2])
    """
    buffers, shape = _fromdense("csr_fromdense", csr_fromdense_p, mat, nse, index_dtype)
    return CSR(tuple(buffers), shape=shape)


def csr_todense(mat: CSR) -> Array:
    """All elements of a matrix; elements of one place are added up.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> csr_todense(CSR.fromdense(m)).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    return csr_todense_p.bind(*mat.buffers, shape=mat.shape)


def csr_matvec(mat: CSR, v: ArrayLike, transpose: bool = False) -> Array:
    """The product of a matrix, or of its transpose, with a vector. Types are promoted.

    >>> import numpy as np
    >>> m = CSR.fromdense(np.array([[0., 2.], [3., 0.]], np.float32))
    >>> csr_matvec(m, np.array([1., 0.], np.float32)).tolist()
    [0.0, 3.0]
    """
    return _applied(csr_matvec_p, mat, v, transpose, 1)


def csr_matmat(mat: CSR, B: ArrayLike, *, transpose: bool = False) -> Array:
    """The product of a matrix, or of its transpose, with an array of two dimensions.

    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> csr_matmat(CSR.fromdense(m), jnp.eye(2)).tolist()
    [[0.0, 2.0], [3.0, 0.0]]
    """
    return _applied(csr_matmat_p, mat, B, transpose, 2)


def _applied(primitive: Any, mat: Any, x: ArrayLike, transpose: bool, ndim: int) -> Array:
    x = jnp.asarray(x)
    size = mat.shape[0 if transpose else 1]
    if x.ndim != ndim or x.shape[0] != size:
        fail(
            TypeError,
            f"{primitive}: a matrix of shape {mat.shape}{' (transposed)' if transpose else ''} "
            f"cannot be multiplied by an array of shape {x.shape}.",
            f"the array needs {ndim} dimensions, the first one of size {size}.",
        )
    dtype = jnp.promote_types(mat.dtype, x.dtype)
    data, *rest = mat.buffers
    x = lax.convert_element_type(x, dtype)
    data = lax.convert_element_type(data, dtype)
    return primitive.bind(data, *rest, x, shape=mat.shape, transpose=bool(transpose))
