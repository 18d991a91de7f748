"""What sparse arrays of all formats have in common: their class, what is known of their indices,
and complaints about ways to store them that waste memory."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import pyjax.numpy as jnp
from pyjax.core.array import Array
from pyjax.core.avals import abstractify
from pyjax.core.errors import fail
from pyjax.runtime.placement import block_until_ready


class SparseEfficiencyError(ValueError):
    """A sparse array would take more memory or time than it saves.

    >>> issubclass(SparseEfficiencyError, ValueError)
    True
    """


class SparseEfficiencyWarning(UserWarning):
    """A sparse array takes more memory or time than it need.

    >>> issubclass(SparseEfficiencyWarning, UserWarning)
    True
    """


class CuSparseEfficiencyWarning(SparseEfficiencyWarning):
    """A routine of a GPU's library does not serve an operation on a sparse array.

    >>> issubclass(CuSparseEfficiencyWarning, SparseEfficiencyWarning)
    True
    """


class SparseInfo(NamedTuple):
    """What is known of a sparse array beside its buffers: a parameter of primitives."""

    shape: tuple[int, ...]
    indices_sorted: bool = False
    unique_indices: bool = False


class Layout(NamedTuple):
    """Numbers of batch, sparse and dense dimensions, which come in this order."""

    n_batch: int
    n_sparse: int
    n_dense: int


def _missing(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        fail(
            NotImplementedError,
            f"{type(self)}.{name}",
            f"{name} is not defined for arrays of this format.",
            "Convert the array: BCOO has most operations, todense() gives an array that has all.",
        )

    method.__name__ = method.__qualname__ = name
    return method


class JAXSparse:
    """Base of sparse arrays: a shape, and buffers that say which elements are stored.

    Sparse arrays are pytrees of their buffers. They can be arguments and results of `jit`, and
    `grad`-like functions of `pyjax.experimental.sparse` differentiate by the stored elements.

    Attributes:
      shape: sizes of the dimensions of the array that it stands for.
      nse: number of stored elements (of each batch).
      dtype: that of the stored elements.

    >>> from pyjax.experimental.sparse import BCOO
    >>> m = jnp.array([[0.0, 2.0], [3.0, 0.0]])
    >>> isinstance(BCOO.fromdense(m), JAXSparse), isinstance(m, JAXSparse)
    (True, False)
    """

    # NumPy hands operators over to the methods below, instead of taking this for a scalar.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]
    data: Array
    shape: tuple[int, ...]
    nse: Any
    dtype: Any

    def __init__(self, args: Sequence[Any], *, shape: Sequence[int]) -> None:
        self.shape = as_shape(shape)

    def __repr__(self) -> str:
        name = type(self).__name__
        try:
            text = f"{name}({abstractify(self.data).dtype}{list(self.shape)}, nse={self.nse}"
            counts = [f"{n}={getattr(self, n)}" for n in ("n_batch", "n_dense") if _some(self, n)]
        except (AttributeError, TypeError, IndexError):  # leaves are not arrays
            return f"{name}(<invalid>)"
        return ", ".join([text, *counts]) + ")"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def T(self) -> Any:
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def block_until_ready(self) -> Any:
        """Wait until the buffers are computed; the array itself."""
        block_until_ready(self.tree_flatten()[0])
        return self

    def tree_flatten(self) -> tuple[Any, dict[str, Any]]:
        """The buffers, and what else there is to know."""
        raise NotImplementedError("tree_flatten")

    @classmethod
    def tree_unflatten(cls, aux_data: dict[str, Any], children: Any) -> Any:
        """The array of buffers, which may be any objects, unchecked."""
        raise NotImplementedError("tree_unflatten")

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its dimensions in another order, by default reversed."""
        fail(
            NotImplementedError,
            "Transpose is not implemented.",
            f"{type(self).__name__} stores rows one after the other.",
            "Convert it to BCOO, which has a transpose.",
        )

    def todense(self) -> Array:
        """All elements, in an array."""
        raise NotImplementedError("todense")

    sum = _missing("sum")
    __neg__ = _missing("__neg__")
    __pos__ = _missing("__pos__")
    __matmul__ = _missing("__matmul__")
    __rmatmul__ = _missing("__rmatmul__")
    __mul__ = _missing("__mul__")
    __rmul__ = _missing("__rmul__")
    __add__ = _missing("__add__")
    __radd__ = _missing("__radd__")
    __sub__ = _missing("__sub__")
    __rsub__ = _missing("__rsub__")
    __getitem__ = _missing("__getitem__")


def _some(array: Any, name: str) -> bool:
    return bool(getattr(array, name, 0))


def as_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """A tuple of Python integers; TypeError of what is not."""
    return tuple(operator.index(size) for size in shape)


def as_array(x: Any) -> Any:
    """Arrays, for buffers that may be NumPy arrays; other objects stay, as pytrees need."""
    return jnp.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x


def concrete_count(what: str, count: Any, kind: type[Exception]) -> int:
    """A number of stored elements that follows from values, which must be known: `kind` is raised
    if they are not."""
    try:
        return operator.index(count)
    except TypeError:
        fail(
            kind,
            f"{what}: nse must be specified when using the function within jit, vmap, and other "
            "transformations requiring abstract evaluation.",
            "the number of stored elements is the size of a buffer, and would depend on values.",
            "Give it: nse=n stores n elements, the rest of them outside of the array.",
        )
