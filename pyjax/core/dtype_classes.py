"""dtypes: the scalar types, canonical widths (x64 rule), classes of dtypes, and what `dtype(x)` is.

The promotion lattice is in `core/promotion.py`; `core/dtypes.py` gathers both. Layer: core.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pyjax._config import options
from pyjax.core.errors import new_error
from pyjax.core.extended_dtypes import ExtendedDType, KeyDType, extended, is_extended, prng_key
from pyjax.core.source_info import called_function, warn_user
from xla_backend.process.bounded_cache import BoundedCache, Budget

int2 = ml_dtypes.int2
uint2 = ml_dtypes.uint2
int4 = ml_dtypes.int4
uint4 = ml_dtypes.uint4
bfloat16 = ml_dtypes.bfloat16
float4_e2m1fn = ml_dtypes.float4_e2m1fn
float8_e3m4 = ml_dtypes.float8_e3m4
float8_e4m3 = ml_dtypes.float8_e4m3
float8_e4m3b11fnuz = ml_dtypes.float8_e4m3b11fnuz
float8_e4m3fn = ml_dtypes.float8_e4m3fn
float8_e4m3fnuz = ml_dtypes.float8_e4m3fnuz
float8_e5m2 = ml_dtypes.float8_e5m2
float8_e5m2fnuz = ml_dtypes.float8_e5m2fnuz
float8_e8m0fnu = ml_dtypes.float8_e8m0fnu

# The dtype of tangents of integers and booleans: arrays of it hold nothing.
float0 = np.dtype([("float0", np.void, 0)])

_LOW_FLOAT_SCALARS = (
    float4_e2m1fn,
    float8_e3m4,
    float8_e4m3,
    float8_e8m0fnu,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
)
LOW_FLOATS = tuple(np.dtype(t) for t in _LOW_FLOAT_SCALARS)
BOOL = np.dtype(np.bool_)
SIGNED = tuple(np.dtype(t) for t in (int2, int4, np.int8, np.int16, np.int32, np.int64))
UNSIGNED = tuple(np.dtype(t) for t in (uint2, uint4, np.uint8, np.uint16, np.uint32, np.uint64))
FLOATS = (
    *LOW_FLOATS,
    *(np.dtype(t) for t in (bfloat16, np.float16, np.float32, np.float64)),
)
COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))
ALL_DTYPES = (BOOL, *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX)
_VALID = frozenset(ALL_DTYPES)

# Text of element types in jaxprs: f32, i32, bool ...
SHORT_NAMES: dict[np.dtype, str] = {
    BOOL: "bool",
    np.dtype(bfloat16): "bf16",
    float0: "float0",
    **{d: f"i{''.join(c for c in d.name if c.isdigit())}" for d in SIGNED},
    **{d: f"u{''.join(c for c in d.name if c.isdigit())}" for d in UNSIGNED},
    **{d: d.name.replace("float", "f") for d in LOW_FLOATS},
    **{np.dtype(f"float{n}"): f"f{n}" for n in (16, 32, 64)},
    **{np.dtype(f"complex{n}"): f"c{n}" for n in (64, 128)},
}

_TO_32 = {
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}
_PYTHON_64 = {
    bool: BOOL,
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
PYTHON_SCALARS: dict[type, np.dtype] = dict(_PYTHON_64)
_canonical_32: dict[Any, Any] = {}
_canonical_64: dict[Any, Any] = {}


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = True) -> Any:
    """The dtype arrays really get: 64-bit types become 32-bit unless `enable_x64` is on.

    Args:
      dtype: anything `np.dtype` takes, an extended dtype, or a Python scalar type.
    Raises:
      TypeError: the dtype cannot be held by an array (strings, objects, dates).
      ValueError: an extended dtype, where `allow_extended_dtype` is False.
    """
    table = _canonical_64 if options.enable_x64.here()[0].value else _canonical_32
    try:
        return table[dtype]
    except (KeyError, TypeError):
        pass
    if is_extended(dtype):
        if not allow_extended_dtype:
            raise new_error(
                ValueError, f"dtype {dtype} is an extended dtype, a numeric dtype is needed here"
            )
        return dtype
    result = as_numpy_dtype(dtype)
    if table is _canonical_32:
        result = _TO_32.get(result, result)
    try:
        table[dtype] = result
    except TypeError:
        pass  # an unhashable spelling, for example a list of fields: not worth caching
    return result


def as_numpy_dtype(dtype: Any) -> np.dtype:
    """`np.dtype(dtype)`, native byte order, checked to be a type that arrays can hold.

    Raises:
      TypeError: it is not.
    """
    if dtype is None:
        raise new_error(TypeError, "a dtype is needed, got None")
    if type(dtype) is type and dtype in _PYTHON_64:
        return _PYTHON_64[dtype]
    if hasattr(dtype, "dtype") and not isinstance(dtype, type):
        dtype = dtype.dtype
    try:
        result = np.dtype(dtype)
    except TypeError as error:
        try:
            # The scalar types of ml_dtypes by their name.
            result = np.dtype(getattr(ml_dtypes, dtype))
        except (TypeError, AttributeError):
            raise new_error(
                TypeError,
                f"data type {dtype!r} not understood",
                f"Neither NumPy nor ml_dtypes has it: {error}.",
                "Name one that there is: 'float32', 'int32', 'bfloat16', jnp.float32.",
            ) from None
    if not result.isnative:
        result = result.newbyteorder("=")
    if result not in _VALID and result != float0:
        raise new_error(
            TypeError,
            f"dtype {result} is not a valid pyjax array type. Only arrays of numeric types "
            "(boolean, integer, floating point, complex) and random keys are supported.",
        )
    return result


def check_and_canonicalize_user_dtype(dtype: Any, name: str | None = None) -> Any:
    """Canonical form of a `dtype=` argument; warns when x64 is off and the request is truncated.

    Raises:
      ValueError: it would be, and the option jax_explicit_x64_dtypes is "error".
    """
    if is_extended(dtype):
        return dtype
    if type(dtype) is type and dtype in _PYTHON_64:
        return canonicalize_dtype(dtype)
    asked = as_numpy_dtype(dtype)
    result = canonicalize_dtype(asked)
    if result != asked:
        where = f" requested in {name}" if name else ""
        if options.explicit_x64_dtypes.value == "error":
            raise ValueError(
                f"Explicitly requested dtype {asked}{where} is not available. To enable more "
                "dtypes, set the jax_enable_x64 configuration option; jax_explicit_x64_dtypes="
                "'warn' truncates instead."
            )
        warn_user(
            f"Explicitly requested dtype {asked}{where} is not available, and will be truncated to "
            f"dtype {result}. To enable more dtypes, set the jax_enable_x64 configuration option "
            "or the JAX_ENABLE_X64 environment variable."
        )
    return result


def check_user_dtype_supported(dtype: Any, name: str | None = None) -> None:
    """Only the warning (and the TypeError) of `check_and_canonicalize_user_dtype`."""
    if dtype is not None:
        check_and_canonicalize_user_dtype(dtype, name)


# -- what class a dtype belongs to ----------------------------------------------------------------

_issubdtype_cache: BoundedCache[tuple[Any, Any], bool] = BoundedCache(
    Budget("dtype classes", entries=4096)
)
_known_classes = _issubdtype_cache.hot


def issubdtype(a: Any, b: Any) -> bool:
    """`np.issubdtype`, also right for bfloat16, 8-bit floats, 4-bit integers and random keys.

    >>> issubdtype(bfloat16, np.floating)
    True
    """
    try:
        return _known_classes[a, b]
    except KeyError:
        return _issubdtype_cache.put((a, b), _issubdtype(a, b))
    except TypeError:
        return _issubdtype(a, b)


def _issubdtype(a: Any, b: Any) -> bool:
    if is_extended(a) or (isinstance(a, type) and issubclass(a, extended)):
        if is_extended(b):
            return a == b
        scalar = a if isinstance(a, type) else a.type
        return isinstance(b, type) and issubclass(scalar, b)
    if is_extended(b) or (isinstance(b, type) and issubclass(b, extended)):
        return False
    scalar = a if isinstance(a, type) and issubclass(a, np.generic) else np.dtype(a).type
    if isinstance(b, type) and issubclass(b, np.generic):
        target: type = b
    else:
        if b in _PYTHON_CLASSES:
            target = _PYTHON_CLASSES[b]
        else:
            target = np.dtype(b).type
    dtype = None if scalar in (np.generic, np.number) else _dtype_of_scalar(scalar)
    if dtype in _CUSTOM_FLOATS:
        return target in (scalar, np.floating, np.inexact, np.number, np.generic)
    if dtype in _CUSTOM_SIGNED:
        return target in (scalar, np.signedinteger, np.integer, np.number, np.generic)
    if dtype in _CUSTOM_UNSIGNED:
        return target in (scalar, np.unsignedinteger, np.integer, np.number, np.generic)
    return issubclass(scalar, target)


_PYTHON_CLASSES: dict[Any, type] = {
    int: np.integer,
    float: np.floating,
    complex: np.complexfloating,
}
_CUSTOM_FLOATS = frozenset({*LOW_FLOATS, np.dtype(bfloat16)})
_CUSTOM_SIGNED = frozenset(np.dtype(t) for t in (int2, int4))
_CUSTOM_UNSIGNED = frozenset(np.dtype(t) for t in (uint2, uint4))


def _dtype_of_scalar(scalar: type) -> np.dtype | None:
    try:
        return np.dtype(scalar)
    except TypeError:
        return None  # an abstract scalar type such as np.floating


def isdtype(dtype: Any, kind: Any) -> bool:
    """Array-API `isdtype`: whether `dtype` is of a kind ('bool', 'integral', ...) or equals a
    dtype."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    dtype = dtype if is_extended(dtype) else as_numpy_dtype(dtype)
    for k in kinds:
        if isinstance(k, str) and k in _KINDS:
            if dtype in _KINDS[k]:
                return True
        elif isinstance(k, str) and k not in np.sctypeDict and not hasattr(ml_dtypes, k):
            raise new_error(
                ValueError, f"Unrecognized kind {k!r}; expected one of {sorted(_KINDS)} or a dtype"
            )
        elif (k if is_extended(k) else np.dtype(k)) == dtype:
            return True
    return False


_KINDS: dict[str, tuple[np.dtype, ...]] = {
    "bool": (BOOL,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED + UNSIGNED,
    "real floating": FLOATS,
    "complex floating": COMPLEX,
    "numeric": SIGNED + UNSIGNED + FLOATS + COMPLEX,
}


def to_inexact_dtype(dtype: Any) -> Any:
    """The floating (or complex) dtype in which inexact functions of `dtype` are computed.

    64-bit integers go to float64 (if x64 is on), booleans and other integers to float32.
    """
    if issubdtype(dtype, np.inexact):
        return dtype
    if is_extended(dtype):
        raise new_error(
            TypeError,
            f"no floating dtype goes with {dtype}: keys and the like are no numbers.",
            "Compute with what is drawn from a key, as pyjax.random.uniform(key) is.",
        )
    dtype = np.dtype(dtype)
    wide = dtype.kind in "iu" and dtype.itemsize == 8
    return canonicalize_dtype(np.float64 if wide else np.float32)


def to_numeric_dtype(dtype: Any) -> Any:
    """Booleans become int32; other dtypes stay."""
    return np.dtype(np.int32) if dtype == BOOL else dtype


def to_floating_dtype(dtype: Any) -> Any:
    """The real floating dtype that goes with `dtype` (complex64 -> float32)."""
    dtype = to_inexact_dtype(dtype)
    return np.finfo(dtype).dtype if issubdtype(dtype, np.complexfloating) else dtype


def to_complex_dtype(dtype: Any) -> Any:
    """The complex dtype that goes with `dtype` (float64 -> complex128, others -> complex64)."""
    inexact = to_inexact_dtype(dtype)
    if inexact in (np.dtype(np.float64), np.dtype(np.complex128)):
        return np.dtype(np.complex128)
    return np.dtype(np.complex64)


def finfo(dtype: Any) -> Any:
    """Machine limits of a floating dtype, bfloat16 and 8-bit floats included.

    >>> finfo(jnp.float32).bits
    32
    """
    return ml_dtypes.finfo(_dtype_or_own(dtype))


def iinfo(int_type: Any) -> Any:
    """Machine limits of an integer dtype, 2- and 4-bit included, or of that of a number.

    >>> iinfo(jnp.int8).max
    127
    """
    if type(int_type) is int:
        return np.iinfo(int)
    return ml_dtypes.iinfo(_dtype_or_own(int_type))


def _dtype_or_own(x: Any) -> np.dtype:
    """A dtype, or that of a value."""
    own = None if isinstance(x, type) and issubclass(x, np.generic) else getattr(x, "dtype", None)
    return np.dtype(x) if own is None else own


_WITHOUT_INFINITY = frozenset(
    np.dtype(t)
    for t in (
        float4_e2m1fn,
        float8_e8m0fnu,
        float8_e4m3b11fnuz,
        float8_e4m3fn,
        float8_e4m3fnuz,
        float8_e5m2fnuz,
    )
)


def lowest(dtype: Any) -> Any:
    """The smallest value of a dtype, minus infinity if it has that: the identity of max."""
    return _extreme(dtype, -np.inf, False, "min")


def highest(dtype: Any) -> Any:
    """The largest value of a dtype, infinity if it has that: the identity of min."""
    return _extreme(dtype, np.inf, True, "max")


def _extreme(dtype: Any, infinity: float, boolean: bool, limit: str) -> Any:
    if dtype in COMPLEX:
        return complex(infinity, infinity)
    if dtype in FLOATS:
        return getattr(finfo(dtype), limit) if dtype in _WITHOUT_INFINITY else infinity
    return boolean if dtype == BOOL else getattr(iinfo(dtype), limit)


def bit_width(dtype: Any) -> int:
    """Bits of one element, counting int4 as 4.

    >>> bit_width(int4), bit_width("float32"), bit_width(bool)
    (4, 32, 8)
    """
    dtype = as_numpy_dtype(dtype)
    if dtype == BOOL:
        return 8
    if dtype in _CUSTOM_SIGNED or dtype in _CUSTOM_UNSIGNED:
        return iinfo(dtype).bits
    if dtype == np.dtype(float4_e2m1fn):
        return 4
    return dtype.itemsize * 8


def short_dtype_name(dtype: Any) -> str:
    """Name of a dtype in jaxprs: `f32`, `i64`, `bool`, `key<fry>`."""
    return SHORT_NAMES.get(dtype) or str(dtype)


# -- what dtype a value has -----------------------------------------------------------------------


def dtype(x: Any, *, canonicalize: bool = True) -> Any:
    """The dtype of a value (or of a dtype-like): Python scalars get the default of their kind.

    Raises:
      TypeError: `x` is neither.
    """
    cls = type(x)
    if cls in PYTHON_SCALARS:
        found: Any = PYTHON_SCALARS[cls]
    elif is_extended(x):
        return x
    elif hasattr(x, "dtype") and not isinstance(x, type):
        found = x.dtype
        if is_extended(found):
            return found
    elif x is None:
        raise new_error(TypeError, f"Invalid argument to dtype: {x}.")
    elif isinstance(x, (bool, int, float, complex)):
        found = next(d for c, d in PYTHON_SCALARS.items() if isinstance(x, c))
    else:
        try:
            found = as_numpy_dtype(x)
        except TypeError as error:
            raise new_error(
                TypeError,
                f"{called_function()}Value {x!r} of type {type(x)} is not a dtype, an array or a "
                f"scalar: {error}",
            ) from None
    return canonicalize_dtype(found) if canonicalize else found


def is_weakly_typed(x: Any) -> bool:
    """Whether `x` adapts its dtype to the other operands: Python scalars and what is made of
    them."""
    if type(x) in PYTHON_SCALARS or (isinstance(x, type) and x in PYTHON_SCALARS):
        return True
    aval = getattr(x, "aval", None)
    if aval is not None:
        return bool(getattr(aval, "weak_type", False))
    if getattr(x, "weak_type", False) is True:
        return True
    # A subclass of int, say an IntEnum; NumPy's float64 is a subclass of float and is strong.
    return isinstance(x, (int, float, complex)) and not isinstance(x, np.generic)


def is_python_scalar(x: Any) -> bool:
    """Whether `x` is a Python scalar, or an array that behaves like one (weak and 0-d)."""
    return type(x) in PYTHON_SCALARS or (is_weakly_typed(x) and np.ndim(x) == 0)


__all__ = [
    "ALL_DTYPES",
    "ExtendedDType",
    "KeyDType",
    "bfloat16",
    "canonicalize_dtype",
    "dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "is_weakly_typed",
    "issubdtype",
    "prng_key",
    "to_inexact_dtype",
    "to_numeric_dtype",
]
