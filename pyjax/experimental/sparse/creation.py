"""Sparse arrays from nothing: zeros, ones on a diagonal, random elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import pyjax.numpy as jnp
from pyjax import random
from pyjax.api.vmap import vmap
from pyjax.core.array import Array
from pyjax.core.dtypes import canonicalize_dtype
from pyjax.core.errors import fail
from pyjax.experimental.sparse.base import JAXSparse, as_shape
from pyjax.experimental.sparse.bcoo_array import BCOO, bcoo_sort_indices
from pyjax.experimental.sparse.bcsr import BCSR
from pyjax.experimental.sparse.matrices import COO, CSC, CSR

_FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csc": CSC, "csr": CSR}


def _format(name: str) -> Any:
    if name not in _FORMATS:
        fail(
            ValueError,
            f"sparse_format={name!r} not recognized; must be one of {sorted(_FORMATS)}",
        )
    return _FORMATS[name]


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> JAXSparse:
    """A sparse array of zeros.

    Args:
      sparse_format: "bcoo", "bcsr", "coo", "csr" or "csc".
      kwds: of the format: n_batch, n_dense and nse (room for elements) of "bcoo" and "bcsr".
    Raises:
      ValueError: there is no such format.

    >>> empty((2, 3))
    BCOO(float32[2, 3], nse=0)
    """
    return _format(sparse_format).empty(shape, dtype=dtype, index_dtype=index_dtype, **kwds)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    **kwds: Any,
) -> JAXSparse:
    """A sparse matrix of ones on a diagonal.

    Args:
      N, M: rows and columns, by default as many.   k: how far above the main diagonal.
      sparse_format, kwds: as of `empty`.

    >>> eye(2, sparse_format="csr").todense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    N, k = operator.index(N), operator.index(k)
    M = N if M is None else operator.index(M)
    return _format(sparse_format).eye(N, M, k, dtype=dtype, index_dtype=index_dtype, **kwds)


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = np.float64,
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Array] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """A sparse array with random elements at random places.

    Args:
      key: random key.
      dtype: of the elements (where 64-bit types are off, the 32-bit one).
      indices_dtype: an integer dtype, by default that of integers.
      nse: how many elements each batch stores: a share of all if it is less than 1.
      unique_indices: places differ.   sorted_indices: they ascend.
      generator: `generator(key, shape=, dtype=, **kwds)` draws the elements.
    Raises:
      ValueError: the layout does not fit the shape.

    >>> random_bcoo(pyjax.random.key(0), (4, 5), dtype="float32")
    BCOO(float32[4, 5], nse=4)
    """
    shape = as_shape(shape)
    end = len(shape) - n_dense
    if n_batch < 0 or n_dense < 0 or n_batch > end:
        fail(ValueError, f"Invalid {n_batch=}, {n_dense=} for {shape=}")
    batch, sparse, dense = shape[:n_batch], shape[n_batch:end], shape[end:]
    total = math.prod(sparse)
    count = math.ceil(nse * total) if 0 < nse < 1 else int(nse)
    count = 1 if not sparse and count else count
    if count < 0 or (unique_indices and count > total):
        fail(
            ValueError,
            f"random_bcoo: {count} elements of {total} cannot have different places.",
            fix="Ask for fewer (nse=), or give unique_indices=False.",
        )
    dtype = canonicalize_dtype(np.dtype(dtype))
    kind = canonicalize_dtype(np.dtype(indices_dtype if indices_dtype is not None else int))
    data_key, *index_keys = random.split(key, 1 + math.prod(batch))

    def places(key: Any) -> Array:
        if unique_indices:
            flat = random.choice(key, max(total, 1), shape=(count,), replace=False)
        else:
            flat = random.randint(key, (count,), 0, max(total, 1))
        columns = jnp.unravel_index(flat, sparse) if sparse else ()
        return jnp.stack(columns, -1).astype(kind) if columns else jnp.zeros((count, 0), kind)

    if index_keys:
        indices = vmap(places)(jnp.stack(index_keys))
    else:
        indices = jnp.zeros((0, count, len(sparse)), kind)
    data = generator(data_key, shape=(*batch, count, *dense), dtype=dtype, **kwds)
    indices = indices.reshape(*batch, count, len(sparse))
    mat = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return bcoo_sort_indices(mat) if sorted_indices else mat
