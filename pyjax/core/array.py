"""Array: the type of arrays, on a device or traced; what functions of arrays take and return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pyjax.core.avals import HasAval, ShapedArray
from pyjax.core.errors import new_error
from xla_backend.process.on_first_use import on_first_use

_Operator = Callable[["Array", Any], "Array"]
_Unary = Callable[["Array"], "Array"]
_Method = Callable[..., "Array"]


class Array(HasAval):
    """A multi-dimensional array of one dtype, immutable.

    Made by functions of pyjax.numpy, not by calling this class. What jit, grad and vmap pass to a
    function stands for an array, and is one for `isinstance`, too:

    >>> import pyjax, pyjax.numpy as jnp
    >>> isinstance(jnp.zeros(3), pyjax.Array)
    True
    >>> pyjax.jit(lambda x: x + isinstance(x, pyjax.Array))(1)
    Array(2, dtype=int32, weak_type=True)

    Subclasses have the memory (`runtime.array`), or belong to a trace (`core.trace`). Operators and
    methods that compute are declared here, and installed by `pyjax.numpy.array_methods`, at the
    first use of one at the latest: `pyjax.lax` alone does not load it.
    """

    __slots__ = ()

    def __init__(self) -> None:
        raise new_error(
            TypeError, "pyjax.Array is not called directly; write pyjax.numpy.array(...) instead"
        )

    # -- what it is ------------------------------------------------------------------------------

    @property
    def aval(self) -> ShapedArray:
        """Shape, dtype and whether the dtype is weak."""
        raise NotImplementedError

    @property
    def itemsize(self) -> int:
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    # Of arrays on devices only.
    device: Any
    sharding: Any
    format: Any
    committed: Any
    platform: Any
    is_fully_addressable: Any
    is_fully_replicated: Any
    addressable_shards: Any
    global_shards: Any
    traceback: Any
    devices: Callable[[], set[Any]]
    addressable_data: _Method
    delete: Callable[[], None]
    is_deleted: Callable[[], bool]
    is_ready: Callable[[], bool]
    unsafe_buffer_pointer: Callable[[], int]
    on_device_size_in_bytes: Callable[[], int]

    # -- its elements ----------------------------------------------------------------------------

    def block_until_ready(self) -> Array:
        """Wait until the value is there; returns the array."""
        raise NotImplementedError

    def copy_to_host_async(self) -> None:
        """Start a copy to the host."""
        raise NotImplementedError

    def __array__(
        self, dtype: Any = None, context: Any = None, copy: bool | None = None
    ) -> np.ndarray:
        raise NotImplementedError

    def item(self, *args: int) -> Any:
        """The element as a Python scalar; without index the array must have size 1."""
        raise NotImplementedError

    def tolist(self) -> Any:
        """Nested lists of Python scalars."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise NotImplementedError

    def __int__(self) -> int:
        raise NotImplementedError

    def __float__(self) -> float:
        raise NotImplementedError

    def __complex__(self) -> complex:
        raise NotImplementedError

    def __index__(self) -> int:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Array]:
        raise NotImplementedError

    # -- arithmetic ------------------------------------------------------------------------------

    __add__: _Operator
    __radd__: _Operator
    __sub__: _Operator
    __rsub__: _Operator
    __mul__: _Operator
    __rmul__: _Operator
    __truediv__: _Operator
    __rtruediv__: _Operator
    __floordiv__: _Operator
    __rfloordiv__: _Operator
    __mod__: _Operator
    __rmod__: _Operator
    __divmod__: Callable[[Array, Any], tuple[Array, Array]]
    __rdivmod__: Callable[[Array, Any], tuple[Array, Array]]
    __pow__: _Operator
    __rpow__: _Operator
    __matmul__: _Operator
    __rmatmul__: _Operator
    __and__: _Operator
    __rand__: _Operator
    __or__: _Operator
    __ror__: _Operator
    __xor__: _Operator
    __rxor__: _Operator
    __lshift__: _Operator
    __rlshift__: _Operator
    __rshift__: _Operator
    __rrshift__: _Operator
    __eq__: _Operator  # type: ignore[assignment]
    __ne__: _Operator  # type: ignore[assignment]
    __lt__: _Operator
    __le__: _Operator
    __gt__: _Operator
    __ge__: _Operator
    __neg__: _Unary
    __pos__: _Unary
    __abs__: _Unary
    __invert__: _Unary
    __round__: _Method

    # -- elements and axes -----------------------------------------------------------------------

    __getitem__: _Operator
    __contains__: Callable[[Array, Any], bool]
    T: Array
    mT: Array
    real: Array
    imag: Array
    at: Any
    all: _Method
    any: _Method
    argmax: _Method
    argmin: _Method
    argpartition: _Method
    argsort: _Method
    astype: _Method
    byteswap: _Method
    choose: _Method
    clip: _Method
    compress: _Method
    clone: _Method
    conj: _Method
    conjugate: _Method
    copy: _Method
    cumprod: _Method
    cumsum: _Method
    diagonal: _Method
    dot: _Method
    flatten: _Method
    max: _Method
    mean: _Method
    min: _Method
    nonzero: Callable[..., tuple[Array, ...]]
    prod: _Method
    ptp: _Method
    ravel: _Method
    repeat: _Method
    reshape: _Method
    round: _Method
    searchsorted: _Method
    sort: _Method
    squeeze: _Method
    std: _Method
    sum: _Method
    swapaxes: _Method
    take: _Method
    to_device: _Method
    trace: _Method
    transpose: _Method
    var: _Method
    view: _Method


# -- until pyjax.numpy.array_methods is loaded ---------------------------------------------------

_install_all = on_first_use("pyjax.numpy.array_methods", "install_all")
_PROPERTIES = ("T", "at", "flat", "imag", "mT", "real")
_ELEMENTS = ("__delitem__", "__iter__", "__len__", "__setitem__")


def _method_installed_first(name: str) -> _Method:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        _install_all()
        return getattr(self, name)(*args, **kwargs)

    return method


def _property_installed_first(name: str) -> property:
    def get(self: Any) -> Any:
        _install_all()
        return getattr(self, name)

    return property(get)


def _declared_methods() -> list[str]:
    declared = list(Array.__annotations__)
    return [n for n in declared[declared.index("__add__") :] if n not in _PROPERTIES]


for _name in (*_declared_methods(), *_ELEMENTS):
    setattr(Array, _name, _method_installed_first(_name))
for _name in _PROPERTIES:
    setattr(Array, _name, _property_installed_first(_name))

# What functions of arrays accept: arrays, NumPy arrays and scalars, Python numbers.
ArrayLike = Array | np.ndarray | np.generic | bool | int | float | complex
