"""Making arrays out of Python and NumPy data: array, asarray, copy, frombuffer, from_dlpack...

Nested sequences may mix Python scalars, NumPy values, Arrays and Tracers.  Concrete data goes
through NumPy in one piece; only a sequence that holds Arrays or Tracers is stacked with lax.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy as copy_object
from typing import Any

import numpy as np

from pyjax import lax
from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.avals import abstractify
from pyjax.core.errors import fail, new_error
from pyjax.core.source_info import called_function, warn_user
from pyjax.core.trace import Tracer
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_leaves
from pyjax.lax.convert import warn_if_imaginary_is_lost
from pyjax.lax.reshard import result_as
from pyjax.numpy import util
from pyjax.runtime.array import DeviceArray, adopted, array_without_copy
from pyjax.runtime.dispatch import as_array
from pyjax.runtime.placement import result_on
from xla_backend.runtime.dlpack import imported

__all__ = [
    "array",
    "asarray",
    "astype",
    "copy",
    "from_dlpack",
    "frombuffer",
    "fromfile",
    "fromfunction",
    "fromiter",
    "fromstring",
]


def array(
    object: Any,
    dtype: Any = None,
    *args: Any,
    copy: bool | None = True,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An Array with the contents of `object`.

    Args:
      object: scalar, array, buffer, or nested sequence of equal-length sequences of these.
      dtype: dtype of the result; default: that of the data, Python scalars giving the default
        int, float or complex dtype (weakly typed if `object` is a bare Python scalar).
      copy: True makes a new buffer; None copies only where needed; False raises if it must.
      ndmin: leading axes of size one are added up to this rank.
      device: device or sharding to place the result on.
    Raises:
      TypeError: an element has no numeric array type.  ValueError: a ragged sequence.
      OverflowError: a Python int does not fit the dtype.
    >>> array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if args:
        raise new_error(
            TypeError, "jnp.array takes `object` and `dtype` by position; name the others."
        )
    if order not in ("K", "C", None):
        raise new_error(
            NotImplementedError,
            f"jnp.array(order={order!r}) is not supported: arrays have no strides. Only 'K' or "
            "'C'. Leave it out; np.asarray(x, order='F') of the result has another.",
        )
    explicit = dtype is not None
    dtype = util.check_user_dtype(dtype, "array")
    object = _resolve_protocols(object, dtype)
    warn_if_imaginary_is_lost(object, dtype)
    if util.is_array(object):
        out = object if dtype is None else util.convert(object, dtype)
        if copy and out is object:
            out = _copied(object)
    elif isinstance(object, util.PYTHON_SCALARS) and not isinstance(object, np.generic):
        out = _from_scalar(object, dtype, explicit)
    elif isinstance(object, (list, tuple, range)):
        out = _from_sequence(list(object) if isinstance(object, range) else object, dtype)
    else:
        out = _from_numpy(_to_numpy(object), dtype)
    if copy is False and out is not object:
        raise new_error(
            ValueError, "jnp.array(..., copy=False): this input cannot be used without a copy."
        )
    if ndmin > np.ndim(out):
        out = lax.broadcast(out, (1,) * (ndmin - np.ndim(out)))
    return result_as("array", out, device, out_sharding)


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """`a` as an Array, without a copy if it is one of that dtype already (see `array`).

    >>> asarray(1.5).dtype
    dtype('float32')
    """
    if (
        type(a) is DeviceArray
        and dtype is None
        and not copy
        and device is None
        and out_sharding is None
    ):
        return a
    if copy is not None:
        copy = bool(copy)
    needs_array = copy is False and not util.is_array(a)
    if needs_array and not isinstance(a, np.ndarray):
        raise new_error(
            ValueError, f"jnp.asarray(..., copy=False): {type(a).__name__} input needs a copy."
        )
    return array(
        a,
        dtype=dtype,
        copy=None if needs_array else copy,
        order=order,
        device=device,
        out_sharding=out_sharding,
    )


def _resolve_protocols(object: Any, dtype: Any) -> Any:
    if isinstance(object, (list, tuple, np.ndarray, np.generic)):
        return object
    if isinstance(object, util.PYTHON_SCALARS) or util.is_array(object):
        return object
    converted = util.to_jax(object)
    if converted is not object:
        return converted
    if hasattr(object, "__array__"):
        return np.asarray(object)
    return object


def _from_scalar(value: Any, dtype: Any, explicit: bool) -> Array:
    if dtype is None:
        kind, weak = dtypes.result_type(value, return_weak_type_flag=True)
        return util.convert(value, kind, weak)
    if isinstance(dtype, np.dtype):
        return util.convert(_checked_literal(value, dtype), dtype)
    return util.convert(value, dtype)


def _checked_literal(value: Any, dtype: np.dtype) -> np.ndarray:
    if isinstance(value, complex) and dtype.kind not in "cb":
        raise new_error(
            TypeError, f"cannot convert the complex {value!r} to {dtype}; use its real part."
        )
    if isinstance(value, float) and dtype.kind in "iu":
        if not np.isfinite(value):
            fail(
                ValueError if np.isnan(value) else OverflowError,
                f"jnp.array: no {dtype} stands for {value!r}",
                "NaN and infinities are floating point numbers only",
                "jnp.nan_to_num(x).astype(dtype), or a floating point dtype",
            )
        value = int(value)
    if type(value) is int and dtype.kind in "iu":
        _check_range(value, dtype)
    return np.asarray(value, dtype=dtype)


def _from_numpy(value: np.ndarray, dtype: Any) -> Array:
    if dtype is None:
        dtype = dtypes.canonicalize_dtype(value.dtype)
    if isinstance(dtype, np.dtype) and value.dtype != dtype:
        with np.errstate(all="ignore"):
            value = (
                value.real if value.dtype.kind == "c" and dtype.kind not in "cb" else value
            ).astype(dtype)
        return as_array(value)
    if value.dtype == dtype:
        return as_array(value)
    return util.convert(value, dtype)


def _to_numpy(object: Any) -> np.ndarray:
    if not isinstance(object, (np.ndarray, np.generic)):
        if object is None:
            raise new_error(TypeError, "jnp.array: None is not a valid value for an array.")
        try:
            if isinstance(object, bytes):  # text to NumPy, not numbers: jnp.frombuffer reads those
                raise TypeError
            object = np.asarray(memoryview(object))
        except TypeError:
            raise new_error(
                TypeError,
                f"{called_function()}Unexpected input type for array: {type(object).__name__}.\n"
                "  Expected a number, an array, or a nested sequence of them; give the class a "
                "__jax_array__ or __array__ method, or convert it first.",
            ) from None
    value = np.asarray(object)
    if not util.is_numeric(value.dtype):
        raise new_error(
            TypeError,
            f"jnp.array: values of NumPy dtype {value.dtype} are not numeric.\n"
            "  Strings, objects and dates have no compiled form; encode them as numbers first.",
        )
    return value


def _from_sequence(sequence: Any, dtype: Any) -> Array:
    leaves = tree_leaves(sequence, is_leaf=_is_leaf)
    if not any(util.is_array(x) or hasattr(x, "__jax_array__") for x in leaves):
        return _from_concrete_sequence(sequence, leaves, dtype)
    if dtype is None:
        dtype = dtypes.result_type(*map(_leaf_value, leaves))
    return _stack(sequence, dtype)


def _is_leaf(x: Any) -> bool:
    return x is None or not isinstance(x, (list, tuple))


def _leaf_value(x: Any) -> Any:
    x = _resolve_protocols(x, None)
    if x is None or isinstance(x, (str, bytes)) or not util.is_arraylike(x):
        raise new_error(
            TypeError,
            f"jnp.array: an element of type {type(x).__name__} is not numeric: {x!r:.40}.",
            "Arrays hold numbers, truth values and random keys.",
            "Keep texts in Python lists or NumPy arrays, and make arrays of numbers for them.",
        )
    return x


def _from_concrete_sequence(sequence: Any, leaves: list[Any], dtype: Any) -> Array:
    if dtype is None:
        # Python scalars are promoted among themselves before the default dtype is chosen.
        kinds = {type(x): x for x in leaves}
        if kinds and all(k in util.PYTHON_SCALARS for k in kinds):
            dtype = dtypes.canonicalize_dtype(dtypes.result_type(*kinds.values()))
        elif leaves:
            dtype = dtypes.canonicalize_dtype(dtypes.result_type(*map(_leaf_value, leaves)))
        else:
            dtype = dtypes.canonicalize_dtype(np.float64)
    try:
        value = np.array(sequence)
    except ValueError as error:
        raise new_error(
            ValueError,
            f"jnp.array: the nested sequence is ragged: {error}\n"
            "  All sequences of one level must have the same length; pad them first.",
        ) from None
    except OverflowError as error:
        raise OverflowError(f"jnp.array: {error}") from None
    if value.dtype.kind == "O" and any(isinstance(x, int) for x in leaves):
        if not isinstance(dtype, np.dtype) or dtypes.issubdtype(dtype, np.integer):
            raise _too_large(next(x for x in leaves if type(x) is int and abs(x) >> 63), dtype)
        value = value.astype(dtype)  # ints of more than 64 bits, rounded once
    value = _to_numpy(value)
    if _is_integral(dtype) and value.dtype.kind in "iuf":
        _check_fits(value, leaves, dtype)
    return _from_numpy(value, dtype)


def _check_fits(value: np.ndarray, leaves: list[Any], dtype: np.dtype) -> None:
    if value.dtype.kind == "f":  # also of integers, some below zero and some from 2**63 on
        for leaf in leaves:
            if type(leaf) in util.PYTHON_SCALARS:
                _checked_literal(leaf, dtype)
        return
    if not value.size or not any(type(x) is int for x in leaves):
        return
    for bound in (value.min(), value.max()):
        _check_range(int(bound), dtype)


def _check_range(value: int, dtype: np.dtype) -> None:
    info = np.iinfo(dtype)
    if not info.min <= value <= info.max:
        raise _too_large(value, dtype)


def _is_integral(dtype: Any) -> bool:
    """Whether a dtype of NumPy's is one of integers; extended ones are not."""
    return isinstance(dtype, np.dtype) and dtype.kind in "iu"


def _too_large(value: int, dtype: Any) -> OverflowError:
    """No element of the dtype stands for a Python integer."""
    info = np.iinfo(dtype if _is_integral(dtype) else dtypes.canonicalize_dtype(np.int64))
    return new_error(
        OverflowError,
        f"jnp.array: Python int {value} too large to convert to {info.dtype}.",
        f"Integers of {info.dtype} go from {info.min} to {info.max}.",
        "Name a dtype that has it, such as jnp.uint32 or jnp.float32, or wrap it around yourself: "
        f"np.asarray(x).astype(jnp.{info.dtype}).",
    )


def _stack(sequence: Any, dtype: Any) -> Any:
    if _is_leaf(sequence):
        leaf = _leaf_value(sequence)
        if type(leaf) in util.PYTHON_SCALARS and _is_integral(dtype):
            leaf = _checked_literal(leaf, dtype)
        return util.convert(leaf, dtype)
    if not sequence:
        return util.convert(np.zeros((0,), np.float32), dtype)
    if len(sequence) > 1 and all(type(x) in util.PYTHON_SCALARS for x in sequence):
        return _from_concrete_sequence(sequence, sequence, dtype)
    parts = [_stack(item, dtype) for item in sequence]
    shape = np.shape(parts[0])
    if any(np.shape(p) != shape for p in parts):
        shapes = ", ".join(str(np.shape(p)) for p in parts)
        raise new_error(
            ValueError,
            f"jnp.array: the elements of a sequence differ in shape: {shapes}.\n"
            "  All must be equal; use jnp.broadcast_arrays, jnp.concatenate or jnp.pad first.",
        )
    return lax.concatenate([lax.expand_dims(p, (0,)) for p in parts], 0)


def _copied(x: Any) -> Any:
    # A traced value is immutable: there is nothing a copy could protect.
    return copy_object(x) if type(x) is DeviceArray else x


def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Array:
    """`x` with its elements converted to `dtype`.

    Complex to real drops the imaginary part (with a warning); to bool compares with zero;
    float to int truncates towards zero and saturates.
    >>> astype(array([1.7, -1.7]), int).tolist()
    [1, -1]
    """
    x = util.ensure_arraylike("astype", x)
    if dtype is None:
        dtype = dtypes.canonicalize_dtype(np.float64)
    dtype = util.check_user_dtype(dtype, "astype")
    if dtypes.issubdtype(x.dtype, np.complexfloating) and not dtypes.issubdtype(
        dtype, np.complexfloating
    ):
        if dtype == np.bool_:
            x = lax.ne(x, np.zeros((), x.dtype))
        else:
            warn_user(
                "Casting from complex to real dtypes will soon raise a ValueError: "
                f"{x.dtype} becomes {dtype}, without its imaginary part.\n"
                "  Use jnp.real(x), jnp.imag(x) or jnp.abs(x) first.",
                DeprecationWarning,
            )
            x = lax.real(x)
    out = util.convert(x, dtype)
    if copy and out is x:
        out = _copied(x)
    return result_on(out, device)


def copy(a: Any, order: str | None = None) -> Array:
    """A copy of `a` in a buffer of its own.

    >>> jnp.copy(jnp.arange(3))
    Array([0, 1, 2], dtype=int32)
    """
    util.check_arraylike("copy", a)
    return array(a, copy=True, order=order)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """1-d Array from an object with the buffer protocol, read as `dtype` from byte `offset`.

    >>> jnp.frombuffer(bytes([1, 2]), dtype=jnp.uint8)
    Array([1, 2], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer=buffer, dtype=np.dtype(dtype), count=count, offset=offset))


def fromfile(*args: Any, **kwargs: Any) -> Array:
    """Not provided: reading a file is a side effect.  Use `jnp.asarray(np.fromfile(...))`.

    >>> jnp.fromfile("numbers.bin")
    Traceback (most recent call last):
        ...
    NotImplementedError: jnp.fromfile is not provided...
    """
    raise new_error(
        NotImplementedError,
        "jnp.fromfile is not provided: I/O cannot be traced. Use jnp.asarray(np.fromfile(...)).",
    )


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """Not provided: iterators have state.  Use `jnp.asarray(np.fromiter(...))`.

    >>> jnp.fromiter((i * i for i in range(4)), dtype="int32")
    Traceback (most recent call last):
        ...
    NotImplementedError: jnp.fromiter is not provided...
    """
    raise new_error(
        NotImplementedError,
        "jnp.fromiter is not provided: iterators cannot be traced. "
        "Use jnp.asarray(np.fromiter(...)).",
    )


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """1-d Array of the numbers in `string`, separated by `sep`.

    >>> fromstring("1 2 3", dtype=int, sep=" ").tolist()
    [1, 2, 3]
    """
    return asarray(np.fromstring(string, dtype=np.dtype(dtype), count=count, sep=sep))


@api_boundary
def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
) -> Any:
    """`function` of the coordinate arrays of a grid of `shape` (one traced call per grid).

    >>> fromfunction(lambda i, j: i + j, (2, 2), dtype=int).tolist()
    [[0, 1], [1, 2]]
    """
    shape = util.canonicalize_shape(shape, "shape")
    dtype = dtypes.canonicalize_dtype(dtype)
    grids = [lax.broadcasted_iota(dtype, shape, axis) for axis in range(len(shape))]
    return function(*grids, **kwargs)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Array sharing the memory of an object with `__dlpack__` where possible.

    Args:
      x: an array of another library on the CPU (NumPy, PyTorch...), or on a GPU that is one of
        pyjax's devices (CuPy, PyTorch...).
      device: where to place the result.  copy: True forces a copy, False forbids one.

    >>> jnp.from_dlpack(np.arange(3, dtype=np.int32))
    Array([0, 1, 2], dtype=int32)
    """
    if isinstance(x, DeviceArray):
        return x if copy is not True else _copied(x)
    if isinstance(x, Tracer):
        raise new_error(
            TypeError,
            f"from_dlpack: {x} has no memory to share: it is being traced.",
            None,
            "call from_dlpack outside of the function, or leave it out: a traced array is one of "
            "pyjax's already",
        )
    if not hasattr(x, "__dlpack__"):
        raise new_error(
            TypeError,
            f"from_dlpack: {type(x).__name__} has no __dlpack__ method; jnp.asarray takes lists, "
            "numbers and objects with __array__.",
        )
    there = adopted(x)
    if there is not None:
        on_device, copied = there
        wanted = dtypes.canonicalize_dtype(on_device.dtype)
        if copy is False and (copied or wanted != on_device.dtype):
            raise new_error(
                ValueError,
                "from_dlpack: a copy is needed, because the memory is not dense in rows, is not "
                f"aligned, or the dtype {on_device.dtype} becomes {wanted}; allow it with "
                "copy=None",
            )
        if wanted != on_device.dtype:
            return result_on(lax.convert_element_type(on_device, wanted), device)
        again = copy is True and not copied
        return result_on(_copied(on_device) if again else on_device, device)
    value = imported(x)
    aval = abstractify(value)
    shared = value.flags.c_contiguous and value.flags.aligned and value.dtype == aval.dtype
    if copy is False and not shared:
        raise new_error(
            ValueError,
            "from_dlpack: a copy is needed, because the memory is not dense in rows, is not "
            f"aligned, or the dtype {value.dtype} becomes {aval.dtype}; allow it with copy=None",
        )
    out = array_without_copy(value, aval) if shared and copy is not True else asarray(value)
    return result_on(out, device)
