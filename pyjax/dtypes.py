"""Dtypes: promotion, kinds, the types NumPy lacks."""

from typing import Any

import numpy as np

from pyjax.core.dtypes import (
    as_numpy_dtype,
    bfloat16,
    bit_width,
    extended,
    finfo,
    float0,
    iinfo,
    issubdtype,
    prng_key,
    result_type,
)
from pyjax.core.dtypes import canonicalize_dtype as _canonicalize_dtype
from pyjax.core.dtypes import dtype as _dtype
from pyjax.core.errors import TypePromotionError


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """The dtype that arrays get where this one is asked for: 64 bits become 32 unless
    `jax_enable_x64` is on. None is NumPy's default, a float.

    Raises:
      TypeError: no array has it.   ValueError: an extended dtype (that of random keys), unless
        `allow_extended_dtype`.

    >>> canonicalize_dtype(float)
    dtype('float32')
    """
    return _canonicalize_dtype(float if dtype is None else dtype, allow_extended_dtype)


def scalar_type_of(x: Any) -> type:
    """The Python scalar type of a value: bool, int, float or complex.

    >>> scalar_type_of(np.float32(1))
    <class 'float'>
    """
    kind = _dtype(x)
    for python_type, group in (
        (bool, np.bool_),
        (int, np.integer),
        (float, np.floating),
        (complex, np.complexfloating),
    ):
        if issubdtype(kind, group):
            return python_type
    raise TypeError(f"no Python scalar type corresponds to dtype {kind}")


def itemsize_bits(dtype: Any) -> int:
    """How many bits an element takes: 4 of int4, 8 of bool.

    Raises:
      ValueError: None, or the dtype of keys.   TypeError: no dtype.

    >>> itemsize_bits("int4"), itemsize_bits(np.float32)
    (4, 32)
    """
    if dtype is None:
        raise ValueError("dtype cannot be None.")
    if issubdtype(dtype, extended):
        raise ValueError(f"unexpected input: dtype={dtype}; write key_data(keys).dtype for keys.")
    return bit_width(as_numpy_dtype(dtype))


__all__ = [
    "TypePromotionError",
    "bfloat16",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "itemsize_bits",
    "prng_key",
    "result_type",
    "scalar_type_of",
]
