"""Argument checks, type promotion and broadcasting shared by the files of pyjax.numpy.

Every public function starts with one of these: `check_arraylike` names the function and the
position of a bad argument, `promote_args*` bring operands to a common dtype and shape by the
promotion lattice of `core.dtypes`.  Layer: numpy (compositions of lax, no primitives).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, overload

import numpy as np

from pyjax import lax
from pyjax._config import options
from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray, abstractify
from pyjax.core.errors import AxisError, ConcretizationTypeError, fail, new_error
from pyjax.core.source_info import warn_user
from pyjax.core.symbolic_dims import SymbolicDim, checked_size
from pyjax.core.trace import Tracer, to_concrete_value
from pyjax.core.traced_sizes import TracedSize, dimension_of
from pyjax.lax.common import NO_SHAPES
from pyjax.lax.convert import convert as _convert_weak
from pyjax.numpy.examples import with_example
from pyjax.runtime.array import DeviceArray, array_without_copy

PYTHON_SCALARS = (bool, int, float, complex)
_NUMPY_VALUES = (np.ndarray, np.generic)

# ---------------------------------------------------------------------------------------------
# Checking


def is_array(x: Any) -> bool:
    """Whether `x` is a pyjax array: a concrete Array or a Tracer."""
    return type(x) is DeviceArray or isinstance(x, Array)


def is_arraylike(x: Any) -> bool:
    """Whether numpy functions take `x`: arrays, NumPy values, Python scalars, `__jax_array__`."""
    return (
        type(x) is DeviceArray
        or isinstance(x, PYTHON_SCALARS)
        or isinstance(x, _NUMPY_VALUES)
        or is_array(x)
        or hasattr(x, "__jax_array__")
        or hasattr(x, "__pyjax_array__")
    )


def check_arraylike(name: str, *args: Any, none_ok: bool = False) -> None:
    """Raise TypeError, naming the function and the position, unless every argument is an array."""
    for position, arg in enumerate(args):
        if type(arg) is DeviceArray or (none_ok and arg is None):
            continue
        if not is_arraylike(arg):
            _fail_not_arraylike(name, arg, position)
        if isinstance(arg, _NUMPY_VALUES) and not is_numeric(arg.dtype):
            raise new_error(
                TypeError,
                f"{name} requires numeric arrays, got a NumPy value of dtype {arg.dtype}.\n"
                "  Strings, objects and dates have no compiled form; encode them as numbers first.",
            )


def is_numeric(dtype: np.dtype) -> bool:
    return dtype.kind in "biufcV" and (dtype.kind != "V" or dtypes.issubdtype(dtype, np.number))


def _fail_not_arraylike(name: str, arg: Any, position: int) -> NoReturn:
    kind = type(arg).__name__
    what = f"{name} requires ndarray or scalar arguments, got {kind} at position {position}."
    if isinstance(arg, (list, tuple)):
        why = f"{kind}s are not converted implicitly: that is slow for traced elements."
        fail(TypeError, what, why, "Fix: wrap it: jnp.array(...).")
    if arg is None:
        fail(
            TypeError,
            what,
            "None is not an array.",
            "Fix: leave the argument out or pass an array.",
        )
    why = f"{kind} has neither a __jax_array__ method nor a NumPy dtype."
    fail(
        TypeError, what, why, "Fix: convert it with jnp.asarray(...), or flatten containers first."
    )


def to_jax(x: Any) -> Any:
    """Replace an object that has `__jax_array__` by its array; anything else is returned as is."""
    if type(x) is DeviceArray or isinstance(x, PYTHON_SCALARS) or isinstance(x, _NUMPY_VALUES):
        return x
    if is_array(x):
        return x
    convert_to_array = getattr(x, "__jax_array__", None) or getattr(x, "__pyjax_array__", None)
    return x if convert_to_array is None else convert_to_array()


@overload
def ensure_arraylike(name: str, arg: Any, /) -> Array: ...
@overload
def ensure_arraylike(name: str, first: Any, second: Any, /, *rest: Any) -> tuple[Array, ...]: ...


def ensure_arraylike(name: str, *args: Any) -> Any:
    """Check the arguments and return them as arrays (one array, or a tuple of several)."""
    check_arraylike(name, *args)
    arrays = tuple(as_array(a) for a in args)
    return arrays[0] if len(arrays) == 1 else arrays


def as_array(x: Any) -> Array:
    """`x` as an Array or Tracer; keeps dtype and weak type (canonicalized)."""
    if type(x) is DeviceArray or is_array(x):
        return x
    x = to_jax(x)
    if is_array(x):
        return x
    dtype, weak = dtypes.result_type(x, return_weak_type_flag=True)
    return convert(x, dtype, weak)


def reject_out(name: str, out: Any) -> None:
    """Arrays are immutable, so `out=` cannot be honoured: say so."""
    if out is not None:
        raise new_error(
            NotImplementedError,
            f"The 'out' argument to jnp.{name} is not supported: arrays are immutable.\n"
            "  Use the returned array; inside jit the buffer is reused, and "
            "jit(..., donate_argnums=...) reuses the input's.",
        )


def check_user_dtype(dtype: Any, name: str) -> Any:
    """Canonical dtype for a user's `dtype=`; warns when x64 is off and it is truncated."""
    if dtype is None:
        return None
    return dtypes.check_and_canonicalize_user_dtype(dtype, name)


def check_mask(name: str, where: Any) -> Any:
    """A reduction's `where=` as a boolean array, or None; anything else is refused."""
    if where is None:
        return None
    mask = ensure_arraylike(name, where)
    if mask.dtype != np.bool_:
        raise new_error(
            ValueError,
            f"jnp.{name}: where must be None or a boolean array; got where.dtype={mask.dtype!r}.\n"
            "  Numbers are no masks: write where=mask != 0, or multiply by weights.",
        )
    return mask


# ---------------------------------------------------------------------------------------------
# Conversion and promotion


def convert(x: Any, dtype: Any, weak_type: bool = False) -> Array:
    """`x` as an array of `dtype`, with the weak-type flag as given."""
    if is_array(x) and x.dtype == dtype and dtypes.is_weakly_typed(x) == weak_type:
        return x
    return _convert_weak(x, dtype, weak_type)


def as_weak_as(out: Any, *operands: Any) -> Array:
    """`out`, of weak type if all operands are: constants of a fixed dtype made it strong."""
    weak = all(dtypes.is_weakly_typed(x) for x in operands)
    return convert(out, out.dtype, True) if weak else out


def as_weak_as_scalars(out: Any, *operands: Any) -> Array:
    """`as_weak_as` for operands without dimensions: as in JAX, a constant that is broadcast to an
    array makes it strong.
    """
    weak = not out.ndim and all(dtypes.is_weakly_typed(x) for x in operands)
    return convert(out, out.dtype, weak)


def _convert_operand(x: Any, dtype: Any, weak_type: bool) -> Any:
    """Like `convert`, but a Python scalar that meets strong types becomes a NumPy scalar.

    A NumPy scalar is a literal of the jaxpr and costs no device transfer.
    """
    if not weak_type and type(x) in PYTHON_SCALARS and isinstance(dtype, np.dtype):
        return scalar_literal(x, dtype)
    return convert(x, dtype, weak_type)


def scalar_literal(x: Any, dtype: np.dtype) -> Any:
    """A Python scalar as a NumPy scalar of `dtype`.

    An int must fit the default integer (else OverflowError) and then wraps into another one, as
    the same int does that is converted on the device.
    """
    if type(x) is not int:
        return np.asarray(x).astype(dtype)[()]
    default = abstractify(x).dtype
    if dtype.kind not in "iub":
        return np.asarray(x, dtype=dtype)[()]
    return np.asarray(x, dtype=default).astype(dtype)[()]


def _same_strong_dtype(args: tuple[Any, ...]) -> bool:
    """Whether all arguments are arrays of one dtype, none of them weak."""
    dtype = None
    for x in args:
        if not (type(x) is DeviceArray or isinstance(x, Tracer)):
            return False
        aval = x.aval
        if aval.weak_type or (dtype is not None and aval.dtype != dtype):
            return False
        dtype = aval.dtype
    return True


def promote_dtypes(*args: Any) -> tuple[Any, ...]:
    """Arguments converted to their common dtype by the promotion lattice."""
    if _same_strong_dtype(args):
        return args
    if len(args) < 2:
        return tuple(as_array(a) for a in args)
    args = tuple(to_jax(a) for a in args)
    dtype, weak = dtypes.result_type(*args, return_weak_type_flag=True)
    return tuple(_convert_operand(x, dtype, weak) for x in args)


def promote_dtypes_inexact(*args: Any) -> tuple[Any, ...]:
    """As `promote_dtypes`, then integers and booleans to the matching floating dtype."""
    args = tuple(to_jax(a) for a in args)
    dtype, weak = dtypes.result_type(*args, return_weak_type_flag=True)
    inexact = dtypes.to_inexact_dtype(dtype)
    return tuple(_convert_operand(x, inexact, weak) for x in args)


def as_inexact_with(*args: Any) -> tuple[Any, ...]:
    """Integers and booleans take the dtype of those arguments that are inexact, if promotion is
    strict: for what is computed in floating point, whatever it is computed from. Otherwise the
    promotion that follows does that."""
    if options.numpy_dtype_promotion.value != "strict":
        return args
    arrays = [as_array(to_jax(a)) for a in args]
    inexact = [x for x in arrays if dtypes.issubdtype(x.dtype, np.inexact)]
    if not inexact or len(inexact) == len(arrays):
        return args
    dtype = dtypes.result_type(*inexact)
    return tuple(x if dtypes.issubdtype(x.dtype, np.inexact) else convert(x, dtype) for x in arrays)


def constant_like(x: Any, value: float) -> Any:
    """A number of the dtype of `x`: Python's with a NumPy scalar of bfloat16 would be float32.

    It is strongly typed, unless `x` is a number of weak type, for which it is Python's.
    """
    if not np.ndim(x) and getattr(x, "weak_type", False):
        return value
    return np.asarray(value).astype(x.dtype)[()]


def promote_dtypes_numeric(*args: Any) -> tuple[Any, ...]:
    """As `promote_dtypes`, then booleans to the default integer."""
    args = tuple(to_jax(a) for a in args)
    dtype, weak = dtypes.result_type(*args, return_weak_type_flag=True)
    numeric = dtypes.canonicalize_dtype(dtypes.to_numeric_dtype(dtype))
    return tuple(_convert_operand(x, numeric, weak) for x in args)


def promote_shapes(name: str, *args: Any) -> tuple[Any, ...]:
    """Arguments brought to one rank, scalars excepted; lax broadcasts axes of size one.

    Obeys the option `numpy_rank_promotion` (allow | warn | raise).
    """
    if len(args) < 2:
        return args
    shapes = [np.shape(a) for a in args]
    ranks = {len(s) for s in shapes if s}
    if len(ranks) < 2:
        return args  # lax stretches scalars and axes of size one
    check_rank_promotion(name, shapes)
    rank = len(broadcast_shapes(name, shapes))
    return tuple(_to_rank(a, s, rank) for a, s in zip(args, shapes, strict=True))


def _to_rank(x: Any, shape: tuple[int, ...], rank: int) -> Any:
    if not shape or len(shape) == rank:
        return x
    missing = rank - len(shape)
    axes = tuple(range(missing, rank))
    return lax.broadcast_in_dim(as_array(x), (1,) * missing + shape, axes)


def check_rank_promotion(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    mode = options.numpy_rank_promotion.here()[0].value
    if mode == "allow":
        return
    text = ", ".join(map(str, shapes))
    message = (
        f"Operands could not be broadcast together for {name} on shapes {text}: their ranks "
        f"differ and the config option jax_numpy_rank_promotion={mode!r}.\n"
        "  Give the smaller operand its missing axes explicitly, e.g. x[None, :], or set the "
        "option to 'allow'."
    )
    if mode == "raise":
        raise new_error(ValueError, message)
    warn_user(message)


def broadcast_shapes(
    name: str, shapes: Sequence[tuple[int, ...]], error: type[Exception] | None = None
) -> tuple[int, ...]:
    """Broadcast of the shapes; an error naming the function and all shapes otherwise.

    It is of the class `error`; by default, as in JAX, a TypeError for shapes of one rank, else a
    ValueError.
    """
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size == 1 or size == result[axis]:
                continue
            if result[axis] != 1:
                text = ", ".join(map(str, shapes))
                same_rank = len({len(s) for s in shapes if s}) < 2
                fail(
                    error or (TypeError if same_rank else ValueError),
                    f"{name} got incompatible shapes for broadcasting: {text}.",
                    f"Axis {axis} of the result would be both {result[axis]} and {size}; sizes "
                    "must be equal or one of them 1 (axes are aligned at the right).",
                    "Transpose or reshape an operand, or give it an axis of size 1: x[:, None].",
                )
            result[axis] = size
    return tuple(result)


def broadcast_array(x: Any, shape: tuple[int, ...]) -> Array:
    """`x` broadcast to `shape` by NumPy's rule (axes aligned at the right)."""
    have = np.shape(x)
    offset = len(shape) - len(have)
    if not offset and have == shape:
        return x
    if offset < 0:
        raise new_error(
            ValueError,
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={have} shape={shape}.",
        )
    if any(size not in (1, to) for size, to in zip(have, shape[offset:], strict=True)):
        raise new_error(
            ValueError,
            f"Incompatible shapes for broadcasting: {have} and requested shape {shape}.",
            "From the right, each axis must have size 1 or the size that is asked for.",
            "Reshape the array, or give it an axis of size 1: x[:, None].",
        )
    axes = range(offset, len(shape))
    return lax.broadcast_in_dim(as_array(x), shape, tuple(axes))


def _same_aval(args: tuple[Any, ...]) -> bool:
    """Whether all arguments are arrays of one aval: then there is nothing to promote."""
    first = args[0]
    if not (type(first) is DeviceArray or isinstance(first, Tracer)):
        return False
    aval = first.aval
    for x in args[1:]:
        if not (type(x) is DeviceArray or isinstance(x, Tracer)) or x.aval is not aval:
            return False
    return True


_TAKING_KINDS = {bool: "b", int: "iufc", float: "fc"}


def takes_python_number(dtype: Any, kind: type) -> bool:
    """Whether an array of `dtype` that meets a bool, int or float keeps its dtype."""
    taking = _TAKING_KINDS.get(kind)
    if taking is None or not isinstance(dtype, np.dtype):
        return False
    if dtype.kind != "V":
        return dtype.kind in taking
    return kind is not bool and dtypes.issubdtype(
        dtype, np.floating if kind is float else np.number
    )


_NUMBERS = frozenset({int, float})
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


@functools.lru_cache(maxsize=4096, typed=True)
def _cached_literal(x: Any, dtype: np.dtype) -> Any:
    return scalar_literal(x, dtype)


def _with_literal(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """An array and a Python number that takes the array's dtype: the commonest pair of operands."""
    x, y = args
    if type(y) in _NUMBERS:
        array, number = x, y
    elif type(x) in _NUMBERS:
        array, number = y, x
    else:
        return None
    if not (type(array) is DeviceArray or isinstance(array, Tracer)):
        return None
    aval = array.aval
    dtype = aval.dtype
    if aval.weak_type or not takes_python_number(dtype, type(number)):
        return None
    if dtypes.canonicalize_dtype(dtype) is not dtype:
        return None  # of 64 bits, from where they are on: promotion makes it one of 32
    # 0.0 and -0.0 are equal keys, and whether a large int fits is up to the option enable_x64.
    kept = number != 0 and (type(number) is float or _INT32_MIN <= number <= _INT32_MAX)
    literal = _cached_literal(number, dtype) if kept else scalar_literal(number, dtype)
    return (x, literal) if array is x else (literal, y)


def promote_args(name: str, *args: Any) -> tuple[Any, ...]:
    """Arguments at their common dtype and rank, ready for an n-ary lax function."""
    if len(args) == 2:
        pair = _with_literal(args)
        if pair is not None:
            return pair
    if _same_aval(args):
        return args
    check_arraylike(name, *args)
    _check_keys(name, args)
    return promote_shapes(name, *promote_dtypes(*args))


def _check_keys(name: str, args: Sequence[Any]) -> None:
    """Random keys go together with keys of the same implementation only."""
    found = [getattr(a, "dtype", None) for a in args]
    if any(dtypes.is_extended(d) and d != found[0] for d in found[1:]) or (
        dtypes.is_extended(found[0]) and any(d != found[0] for d in found)
    ):
        kinds = ", ".join(str(dtypes.dtype(a)) for a in args)
        raise new_error(
            TypeError,
            f"{name} does not accept dtypes {kinds}",
            "random keys go together with keys of the same implementation only",
            "pyjax.random.key_data(keys) for the words of keys",
        )


def promote_args_numeric(name: str, *args: Any) -> tuple[Any, ...]:
    """`promote_args`, and booleans become integers."""
    if len(args) == 2:
        pair = _with_literal(args)
        if pair is not None:
            return pair
    if _same_aval(args) and args[0].dtype != np.bool_:
        return args
    check_arraylike(name, *args)
    return promote_shapes(name, *promote_dtypes_numeric(*args))


def promote_args_inexact(name: str, *args: Any) -> tuple[Any, ...]:
    """`promote_args`, and integers and booleans become floating point."""
    if len(args) == 2:
        pair = _with_literal(args)
        if pair is not None and dtypes.issubdtype(pair[0].dtype, np.inexact):
            return pair
    if _same_aval(args) and dtypes.issubdtype(args[0].dtype, np.inexact):
        return args
    check_arraylike(name, *args)
    return promote_shapes(name, *promote_dtypes_inexact(*args))


# ---------------------------------------------------------------------------------------------
# Static arguments


def canonicalize_axis(axis: Any, ndim: int, name: str = "axis") -> int:
    """A possibly negative axis as 0 <= axis < ndim; AxisError if out of bounds."""
    axis = static_int(axis, name)
    if not -ndim <= axis < ndim:
        raise new_error(
            AxisError,
            f"{name} {axis} is out of bounds for array of dimension {ndim}",
            f"An array with {ndim} axes has those from {-ndim} to {ndim - 1}."
            if ndim
            else "A scalar has no axes.",
            "Name one of them, or give the array another axis: x[:, None]." if ndim else None,
        )
    return axis + ndim if axis < 0 else axis


def canonicalize_axes(axes: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """An axis or a sequence of them as a tuple of distinct axes; None means all of them."""
    if axes is None:
        return tuple(range(ndim))
    result = tuple(canonicalize_axis(a, ndim, name) for a in axis_items(axes))
    if len(set(result)) != len(result):
        raise new_error(
            ValueError,
            f"duplicate value in '{name}': {axes}",
            f"The array has {ndim} axes; -1 is {ndim - 1}.",
            "Name each axis once.",
        )
    return result


def axis_items(axes: Any) -> tuple[Any, ...]:
    """One axis, or any iterable of them (a list, a range, a 1-d array), as a tuple of axes still to
    be checked.

    >>> axis_items(1), axis_items(range(2))
    ((1,), (0, 1))
    """
    if isinstance(axes, (tuple, list)):
        return tuple(axes)
    if isinstance(axes, (int, str, Tracer)) or not hasattr(axes, "__iter__"):
        return (axes,)
    if hasattr(axes, "ndim") and axes.ndim != 1:
        return (axes,)
    return tuple(axes)


def static_int(value: Any, name: str) -> int:
    """`value` as a Python int; a traced or non-integer value raises with the argument's name."""
    try:
        return operator.index(value)
    except TypeError as error:
        if isinstance(value, Tracer):
            raise concretization_error(
                value, f"The {name} argument must be known statically: static_argnames={name!r}."
            ) from None
        raise new_error(
            TypeError,
            f"{name} must be an integer, got {value!r} of type {type(value).__name__}.",
            f"{name} is no array: it is part of the program.",
            "Pass a Python integer.",
        ) from error


def static_size(value: Any, name: str) -> Any:
    """A size as a Python int, or as the symbolic size that it is; as `static_int` raises."""
    return value if type(value) is SymbolicDim else static_int(value, name)


def canonicalize_shape(shape: Any, name: str = "shape") -> tuple[int, ...]:
    """A shape given as an int or a sequence of ints, as a tuple; sizes must not be negative."""
    if isinstance(shape, (int, np.integer, TracedSize, *NO_SHAPES)) or (
        hasattr(shape, "ndim") and shape.ndim == 0
    ):
        shape = (shape,)
    if not isinstance(shape, (tuple, list)) and not hasattr(shape, "__iter__"):
        raise new_error(
            TypeError,
            f"{name} must be an integer or a sequence of integers, got {shape!r}.",
            "Sizes are whole numbers.",
            "Divide with // instead of /, or round: int(n).",
        )
    result = []
    for size in shape:
        try:
            result.append(checked_size(size))
        except TypeError as error:
            traced = dimension_of(size)
            if traced is not None:
                result.append(traced)
                continue
            raise new_error(
                TypeError,
                f"Shapes must be 1D sequences of concrete values of integer type, got {shape!r}.",
                origin_of(size),
                "If a size depends on a traced value, make that argument static: "
                "jit(f, static_argnums=...).",
            ) from error
        if result[-1] < 0:
            raise new_error(
                TypeError,
                f"{name} must have no negative sizes, got {tuple(shape)}.",
                "A size is a number of elements; -1 has a meaning for reshape only.",
                "Write the size, for example x.shape[0].",
            )
    return tuple(result)


def size_of(shape: Sequence[int]) -> int:
    """Number of elements of an array of `shape`."""
    return math.prod(shape)


def named(name: str, doc: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator for table-made functions: gives the name users see, and the documentation."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        fn.__name__ = fn.__qualname__ = name
        fn.__module__ = "pyjax.numpy"
        fn.__doc__ = with_example(name, doc)
        return fn

    return decorate


def check_readable(x: Any) -> None:
    """That this process can have the value of an array.

    Raises:
      RuntimeError: devices of other processes have parts of it.
    """
    if type(x) is DeviceArray and not (x.is_fully_addressable or x.is_readable):
        raise new_error(
            RuntimeError,
            "A value is needed to go on, for one to know how large a result is, and it spans "
            f"non-addressable (non process local) devices: {x.aval.str_short()}.",
            "devices of other processes have parts of it, and no process has all",
            "where results have as many elements as values say, give their number: "
            "jnp.nonzero(x, size=n), jnp.unique(x, size=n), jnp.where(mask, x, 0) for x[mask], "
            "jnp.repeat(x, counts, total_repeat_length=n); or bring the whole array to each "
            "process: multihost_utils.process_allgather(x, tiled=True)",
        )


def concrete_or_none(x: Any) -> np.ndarray | None:
    """The value of `x` as a NumPy array, or None if it is traced.

    A tracer of a derivative of concrete values has one.

    Raises:
      RuntimeError: devices of other processes have parts of it.
    """
    value = to_concrete_value(x)
    if value is None:
        return None
    check_readable(value)
    return np.asarray(value)


def array_over(value: np.ndarray) -> Any:
    """An array over the memory of a new NumPy array, to which nobody else will write, where the
    default device can read that."""
    value = np.ascontiguousarray(value)
    return array_without_copy(value, ShapedArray(value.shape, value.dtype))


def concretization_error(x: Any, explanation: str) -> Exception:
    """The error for a value that must be concrete; `explanation` says why, and what to do."""
    return new_error(
        ConcretizationTypeError,
        f"Abstract tracer value encountered where concrete value is expected: {x}",
        origin_of(x),
        explanation,
    )


def truth(a: Any) -> Any:
    """Which elements of an array are true: those that are not zero."""
    dtype = a.dtype
    if dtype == np.bool_:
        return a
    if dtypes.is_extended(dtype):
        fail(
            TypeError,
            f"elements of dtype {dtype} are neither true nor false.",
            "Compare them with `==`, or draw truth values with pyjax.random.bernoulli(key).",
        )
    return lax.ne(a, np.zeros((), dtype))


def origin_of(x: Any) -> str | None:
    """Of a tracer: which function is being traced, and which argument it depends on."""
    return x.origin() if isinstance(x, Tracer) else None
