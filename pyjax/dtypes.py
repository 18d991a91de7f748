"""Dtypes: promotion, kinds, the types NumPy lacks."""

from typing import Any

import numpy as np

from pyjax.core.dtypes import (
    bfloat16,
    canonicalize_dtype,
    extended,
    finfo,
    float0,
    iinfo,
    issubdtype,
    prng_key,
    result_type,
)
from pyjax.core.dtypes import dtype as _dtype
from pyjax.core.errors import TypePromotionError


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


__all__ = [
    "TypePromotionError",
    "bfloat16",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "prng_key",
    "result_type",
    "scalar_type_of",
]
