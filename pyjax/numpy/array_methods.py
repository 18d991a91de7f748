"""Operators, properties and methods of arrays, installed once from the tables below.

Arrays live below this layer, so they are given their arithmetic here, when pyjax.numpy is
imported.  A row is the attribute's name and the function behind it; a method takes the array as
first argument.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.errors import fail, new_error
from pyjax.core.refs import AbstractRef
from pyjax.core.trace import Tracer
from pyjax.lax.refs import access
from pyjax.numpy import (
    arithmetic,
    cumulative,
    diagonals,
    linear_algebra,
    manipulation,
    reductions,
    searching,
    selection,
    sorting,
    ufuncs,
    util,
)
from pyjax.numpy.array_constructors import array, astype
from pyjax.numpy.eager import compiled_binary, compiled_once, compiled_unary, is_ready, program_of
from pyjax.numpy.index_functions import take
from pyjax.numpy.index_update import _IndexUpdateHelper
from pyjax.numpy.indexing import getitem
from pyjax.runtime.array import DeviceArray, set_array_namespace
from pyjax.runtime.native_dispatch import make_method_native
from pyjax.runtime.placement import device_put

# ---------------------------------------------------------------------------------------------
# Operators


def _accepts(other: Any) -> bool:
    """Whether an operand is one we handle; for others Python tries their reflected operator."""
    return (
        type(other) is DeviceArray
        or isinstance(other, (int, float, complex, Tracer, np.ndarray, np.generic, bool))
        or hasattr(other, "__jax_array__")
    )


def _reject_sequence(name: str, other: Any) -> Any:
    if isinstance(other, (list, tuple, dict, set)):
        fail(
            TypeError,
            f"{name} of an array and a {type(other).__name__} is not supported.",
            "Sequences are not converted implicitly: that is slow when their elements are traced.",
            "Fix: wrap it: jnp.array(...).",
        )
    return NotImplemented


def _binary(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not _accepts(other):
            return _reject_sequence(name, other)
        return op(self, other)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The operator behind {name}: {op.__name__}."
    return method


# Operators whose eager form is one compiled program. Powers are not among them: whole exponents are
# expanded.
_COMPILED = frozenset(
    "add sub mul truediv floordiv mod matmul and or xor lshift rshift eq ne lt le gt ge".split()
)


def _swapped(op: Callable[..., Any]) -> Callable[..., Any]:
    def swapped(self: Any, other: Any) -> Any:
        return op(other, self)

    swapped.__name__ = op.__name__
    return swapped


def _reflected(name: str, op: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, other: Any) -> Any:
        if not _accepts(other):
            return _reject_sequence(name, other)
        return op(other, self)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The reflected operator behind {name}: {op.__name__}."
    return method


_BINARY: dict[str, Callable[..., Any]] = {
    "add": ufuncs.add_arrays,
    "sub": ufuncs.subtract_arrays,
    "mul": ufuncs.multiply_arrays,
    "truediv": arithmetic.true_divide,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "divmod": arithmetic.divmod,
    "pow": arithmetic.power,
    "matmul": linear_algebra.matmul,
    "and": ufuncs.bitwise_and_arrays,
    "or": ufuncs.bitwise_or_arrays,
    "xor": ufuncs.bitwise_xor_arrays,
    "lshift": ufuncs.left_shift,
    "rshift": ufuncs.right_shift,
}
_COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": ufuncs.equal,
    "ne": ufuncs.not_equal,
    "lt": ufuncs.less,
    "le": ufuncs.less_equal,
    "gt": ufuncs.greater,
    "ge": ufuncs.greater_equal,
}
_UNARY: dict[str, Callable[..., Any]] = {
    "__neg__": lambda self: ufuncs.negative_array(self),
    "__pos__": lambda self: ufuncs.positive(self),
    "__abs__": lambda self: ufuncs.abs(self),
    "__invert__": lambda self: ufuncs.bitwise_not(self),
}


# ---------------------------------------------------------------------------------------------
# Methods whose signature differs from the function's


def _is_plain_conversion(old: Any, new: np.dtype) -> bool:
    """Whether it makes another array, of the dtype that was asked for, without a warning."""
    if not isinstance(old, np.dtype) or old == new or old.kind == "c":
        return False
    return dtypes.canonicalize_dtype(new) == new


@functools.partial(jit, static_argnums=1)
def _converted(x: Any, dtype: Any) -> Any:
    return astype(x, dtype)


# As many sizes as a shape may have that is part of a program by its position.
_MOST_SIZES = 16


@functools.partial(jit, static_argnums=tuple(range(1, 1 + _MOST_SIZES)))
def _reshaped(x: Any, *args: Any) -> Any:
    return manipulation.reshape_array(x, args[0] if type(args[0]) is tuple else args)


@jit
def _transposed(x: Any) -> Any:
    return manipulation.transpose(x)


def _array_T(self: Any) -> Any:
    if type(self) is DeviceArray and self.ndim > 1 and is_ready(self):
        return _transposed(self)
    return manipulation.transpose(self)


# Programs that methods and properties call with what they were called with.
_PROGRAMS = {"T": _transposed, "astype": _converted, "reshape": _reshaped}


def _array_astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The array converted to `dtype` (see `jnp.astype`)."""
    if type(self) is DeviceArray and device is None and not copy and is_ready(self):
        wanted = getattr(dtype, "dtype", dtype)
        if isinstance(wanted, np.dtype) and _is_plain_conversion(self.dtype, wanted):
            return _converted(self, dtype)
    return astype(self, dtype, copy=copy, device=device)


def _array_reshape(self: Any, *args: Any, order: str = "C", out_sharding: Any = None) -> Any:
    """The array with another shape: x.reshape(2, -1) or x.reshape((2, -1))."""
    shape = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
    usual = type(self) is DeviceArray and order == "C" and out_sharding is None
    if usual and type(shape) is tuple and is_ready(self) and all(type(n) is int for n in shape):
        if shape != self.shape and len(args) <= _MOST_SIZES:
            return _reshaped(self, *args)
    return manipulation.reshape_array(self, shape, order, out_sharding)


def _array_transpose(self: Any, *args: Any) -> Any:
    """The array with permuted axes: x.transpose(), x.transpose(1, 0) or x.transpose((1, 0))."""
    if not args or (len(args) == 1 and args[0] is None):
        return manipulation.transpose(self)
    return manipulation.transpose(self, util.axis_items(args[0]) if len(args) == 1 else args)


def _array_flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The array as one axis."""
    return manipulation.ravel(self, order, out_sharding=out_sharding)


def _array_view(self: Any, dtype: Any = None, type: None = None) -> Any:
    """The bits of the array read as another dtype; the last axis is split or merged to fit."""
    if type is not None:
        raise new_error(
            NotImplementedError,
            "`type` argument of array.view() is not supported.",
            "there is one class of arrays.",
            "Pass a dtype, or convert with np.asarray(x).view(type=...).",
        )
    if dtype is None or dtype == self.dtype:
        return self
    dtype = util.check_user_dtype(dtype, "view")
    old, new = np.dtype(self.dtype), np.dtype(dtype)
    if self.ndim == 0 and old.itemsize != new.itemsize:
        raise new_error(
            ValueError, "view() of a 0d array is only supported if the itemsize is unchanged."
        )
    if old == np.bool_ or new == np.bool_:
        bits = np.dtype(np.uint8)
        source = util.convert(self, bits) if old == np.bool_ else _array_view(self, bits)
        return (
            util.convert(source, np.dtype(np.bool_))
            if new == np.bool_
            else _array_view(source, new)
        )
    if dtypes.issubdtype(old, np.complexfloating):
        part = np.zeros((), old).real.dtype
        pairs = lax.concatenate(
            [
                lax.expand_dims(lax.real(self), (self.ndim,)),
                lax.expand_dims(lax.imag(self), (self.ndim,)),
            ],
            self.ndim,
        )
        flat = lax.reshape(pairs, (*self.shape[:-1], self.shape[-1] * 2) if self.ndim else (2,))
        return _array_view(flat, new) if new != part else flat
    if dtypes.issubdtype(new, np.complexfloating):
        part = np.zeros((), new).real.dtype
        source = _array_view(self, part)
        if source.shape[-1] % 2:
            raise new_error(ValueError, "view: the last axis must hold pairs of parts.")
        pairs = lax.reshape(source, (*source.shape[:-1], source.shape[-1] // 2, 2))
        return lax.complex(pairs[..., 0], pairs[..., 1])
    if old.itemsize < new.itemsize:
        ratio = new.itemsize // old.itemsize
        if self.shape[-1] % ratio:
            raise new_error(
                ValueError,
                "When changing to a larger dtype, its size must be a divisor of the "
                "total size in bytes of the last axis of the array.",
            )
        grouped = lax.reshape(self, (*self.shape[:-1], self.shape[-1] // ratio, ratio))
        return lax.bitcast_convert_type(grouped, new)
    out = lax.bitcast_convert_type(self, new)
    if old.itemsize > new.itemsize:
        out = lax.reshape(out, (*self.shape[:-1], self.shape[-1] * (old.itemsize // new.itemsize)))
    return out


def _array_byteswap(self: Any) -> Any:
    """The array with the bytes of each element reversed."""
    size = np.dtype(self.dtype).itemsize
    if size == 1:
        return self
    flat = _array_view(lax.reshape(self, (self.size,)), np.dtype(np.uint8))
    width = size // 2 if dtypes.issubdtype(self.dtype, np.complexfloating) else size
    rows = lax.rev(lax.reshape(flat, (flat.size // width, width)), (1,))
    return lax.reshape(_array_view(lax.reshape(rows, (flat.size,)), self.dtype), self.shape)


def _array_copy(self: Any) -> Any:
    """A copy in a buffer of its own."""
    return array(self, copy=True)


def _array_std(
    self: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """Standard deviation over axes (see `jnp.std`)."""
    return reductions.std(
        self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
    )


def _array_var(
    self: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """Variance over axes (see `jnp.var`)."""
    return reductions.var(
        self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
    )


def _array_argsort(
    self: Any,
    axis: int | None = -1,
    *,
    kind: None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Any:
    """Indices that sort the array (see `jnp.argsort`)."""
    return sorting.argsort(self, axis, kind=kind, order=order, stable=stable, descending=descending)


def _array_nonzero(self: Any, *, fill_value: Any = None, size: int | None = None) -> Any:
    """Indices of nonzero elements (see `jnp.nonzero`)."""
    return searching.nonzero(self, size=size, fill_value=fill_value)


def _array_compress(
    self: Any,
    condition: Any,
    axis: int | None = None,
    *,
    out: None = None,
    size: int | None = None,
    fill_value: Any = 0,
) -> Any:
    """Slices where `condition` holds (see `jnp.compress`)."""
    return searching.compress(condition, self, axis, out=out, size=size, fill_value=fill_value)


def _array_dot(
    self: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """Product with `b` (see `jnp.dot`)."""
    return linear_algebra.dot(
        self, b, precision=precision, preferred_element_type=preferred_element_type
    )


def _array_clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """The array limited to [min, max] (see `jnp.clip`)."""
    return selection.clip(self, min, max)


def _array_conj(self: Any) -> Any:
    """Complex conjugate."""
    return ufuncs.conj(self)


def _array_to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on another device."""
    if stream is not None:
        raise new_error(
            NotImplementedError,
            "stream argument of array.to_device()",
            "work is ordered by what it needs, and streams are not shown.",
            "Leave it out, and call block_until_ready() to wait.",
        )
    return device_put(self, device)


def _array_contains(self: Any, other: Any) -> bool:
    return bool(reductions.any(ufuncs.equal(self, other)))


def _array_iter(self: Any) -> Any:
    if not self.ndim:
        raise new_error(TypeError, "iteration over a 0-d array")
    return (getitem(self, i) for i in range(self.shape[0]))


def _array_len(self: Any) -> int:
    if not self.ndim:
        raise new_error(TypeError, "len() of unsized object")
    return self.shape[0]


def _array_round(self: Any, ndigits: int | None = None) -> Any:
    if ndigits is not None:
        return arithmetic.round(self, ndigits)
    # As `round` of a Python number: whole numbers become integers.
    rounded = arithmetic.round(self, 0)
    return rounded if self.dtype.kind == "c" else rounded.astype(int)


def _array_delitem(self: Any, i: Any) -> None:
    fail(
        AttributeError,
        f"__delitem__: elements of {self.aval.str_short()} cannot be deleted.",
        "Arrays are immutable, and their shape is fixed.",
        "Fix: x = jnp.delete(x, i), or jnp.where(mask, x, 0).",
    )


def _array_setitem(self: Any, i: Any, x: Any) -> None:
    fail(
        TypeError,
        f"array of type {type(self).__name__}, {self.aval.str_short()}, does not support item "
        "assignment.",
        "Arrays are immutable.",
        "Fix: x = x.at[idx].set(y), or .add, .multiply, .min, .max, ...",
    )


_METHODS: dict[str, Callable[..., Any]] = {
    "all": reductions.all,
    "any": reductions.any,
    "argmax": searching.argmax,
    "argmin": searching.argmin,
    "argpartition": sorting.argpartition,
    "argsort": _array_argsort,
    "astype": _array_astype,
    "byteswap": _array_byteswap,
    "choose": selection.choose,
    "clip": _array_clip,
    "compress": _array_compress,
    "conj": _array_conj,
    "conjugate": _array_conj,
    "clone": _array_copy,
    "copy": _array_copy,
    "cumprod": cumulative.cumprod,
    "cumsum": cumulative.cumsum,
    "diagonal": diagonals.diagonal,
    "dot": _array_dot,
    "flatten": _array_flatten,
    "max": reductions.max,
    "mean": reductions.mean,
    "min": reductions.min,
    "nonzero": _array_nonzero,
    "prod": reductions.prod,
    "ptp": reductions.ptp,
    "ravel": manipulation.ravel,
    "repeat": manipulation.repeat,
    "reshape": _array_reshape,
    "round": arithmetic.round,
    "searchsorted": searching.searchsorted,
    "sort": sorting.sort,
    "squeeze": manipulation.squeeze,
    "std": _array_std,
    "sum": reductions.sum,
    "swapaxes": manipulation.swapaxes,
    "take": take,
    "to_device": _array_to_device,
    "trace": diagonals.trace,
    "transpose": _array_transpose,
    "var": _array_var,
    "view": _array_view,
    "__contains__": _array_contains,
    "__getitem__": getitem,
    "__iter__": _array_iter,
    "__len__": _array_len,
    "__round__": _array_round,
    "__delitem__": _array_delitem,
    "__setitem__": _array_setitem,
}


def _flat(self: Any) -> Any:
    raise new_error(
        NotImplementedError,
        "JAX Arrays do not implement the arr.flat property: consider arr.flatten() instead.",
    )


_PROPERTIES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "T": (_array_T, "The array with its axes reversed."),
    "mT": (lambda self: manipulation.matrix_transpose(self), "The last two axes exchanged."),
    "real": (lambda self: ufuncs.real(self), "Real part."),
    "imag": (lambda self: ufuncs.imag(self), "Imaginary part."),
    "at": (_IndexUpdateHelper, "x.at[index].set(v), .add(v)...: functional updates."),
    "flat": (_flat, "Not provided; use flatten()."),
}


def _as_method(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A plain function as a method: a new function object, so that its name can be the method's."""
    if not inspect.isfunction(fn):  # a jitted function: methods need a function to bind self
        inner = fn

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            return inner(self, *args, **kwargs)

        method.__doc__ = inner.__doc__
        method.__name__ = name
        return method
    return fn


# Tracers also stand for mutable references.


def _tracer_getitem(self: Tracer, item: Any) -> Any:
    return access.get(self, item) if type(self.aval) is AbstractRef else getitem(self, item)


def _tracer_setitem(self: Tracer, i: Any, x: Any) -> None:
    if type(self.aval) is not AbstractRef:
        return _array_setitem(self, i, x)
    access.set(self, i, x)


def _tracer_at(self: Tracer) -> Any:
    """Of an array: `x.at[index].set(v)`. Of a mutable reference: `ref.at[index]`, a part of it."""
    return access.at(self) if type(self.aval) is AbstractRef else _IndexUpdateHelper(self)


_OF_TRACERS = {
    "__getitem__": _tracer_getitem,
    "__setitem__": _tracer_setitem,
    "at": property(_tracer_at),
}


@functools.cache
def install_all() -> None:
    """Install the arithmetic on Array; this is done with the first use of a name of pyjax.numpy, or
    of an operator. Arrays on devices have short cuts of their own to operators that are one
    compiled program.
    """
    set_array_namespace(sys.modules["pyjax.numpy"])
    for name, op in {**_BINARY, **_COMPARISONS}.items():
        _install_operator(f"__{name}__", op, _binary(f"__{name}__", op), name in _COMPILED)
    for name, op in _BINARY.items():
        method = _reflected(f"__r{name}__", op)
        _install_operator(f"__r{name}__", _swapped(op), method, name in _COMPILED)
    for name, fn in _UNARY.items():
        setattr(Array, name, fn)
        setattr(DeviceArray, name, compiled_unary(fn))
        make_method_native(name, compiled_once(fn))
    for name, fn in _METHODS.items():
        setattr(Array, name, _as_method(name, fn))
        if program_of(fn) is not None:
            make_method_native(name, program_of(fn))
    for name, (getter, doc) in _PROPERTIES.items():
        setattr(Array, name, property(getter, doc=doc))
    for name, program in _PROGRAMS.items():
        make_method_native(name, program)
    for name, value in _OF_TRACERS.items():
        setattr(Tracer, name, value)


def _install_operator(
    name: str, op: Callable[..., Any], method: Callable[..., Any], compiled: bool
) -> None:
    setattr(Array, name, method)
    if compiled:
        setattr(DeviceArray, name, compiled_binary(op, method))
        make_method_native(name, compiled_once(op))
