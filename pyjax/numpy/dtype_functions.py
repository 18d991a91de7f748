"""Functions about dtypes: promote_types, result_type, can_cast, issubdtype, isdtype, finfo..."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax.core import dtypes

__all__ = [
    "ComplexWarning",
    "can_cast",
    "dtype",
    "finfo",
    "iinfo",
    "isdtype",
    "issubdtype",
    "promote_types",
    "result_type",
]

ComplexWarning = np.exceptions.ComplexWarning
dtype = np.dtype
finfo = dtypes.finfo
iinfo = dtypes.iinfo


def promote_types(a: Any, b: Any) -> Any:
    """The dtype that the dtypes `a` and `b` promote to.

    >>> str(promote_types("int32", "float16"))
    'float16'
    """
    found = dtypes.promote_types(a, b)
    return found if found in (a, b) else dtypes.canonicalize_dtype(found)


def result_type(*args: Any) -> Any:
    """The dtype that the arguments (arrays, scalars or dtypes) promote to.

    Python scalars are weak: they keep the dtype of the arrays they meet.

    >>> jnp.result_type(jnp.int32, jnp.float16)
    dtype('float16')
    """
    return dtypes.result_type(*args)


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether NumPy's rules allow a conversion between dtypes.

    >>> jnp.can_cast("int32", "float64"), jnp.can_cast("float32", "int32")
    (True, False)
    """
    source = from_ if not hasattr(from_, "dtype") else from_.dtype
    return np.can_cast(np.dtype(source), np.dtype(to), casting=casting)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether dtype `arg1` is below `arg2` in the hierarchy (np.floating, np.integer...).

    >>> jnp.issubdtype(jnp.float32, jnp.floating)
    True
    """
    return dtypes.issubdtype(arg1, arg2)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is a dtype, or of a kind: 'bool', 'integral', 'real floating'...

    >>> jnp.isdtype(jnp.int32, "integral")
    True
    """
    return dtypes.isdtype(dtype, kind)
