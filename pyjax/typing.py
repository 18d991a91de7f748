"""Names for annotations."""

from typing import Any

import numpy as np

from pyjax.runtime.array import Array

# What array functions accept: arrays, NumPy arrays and scalars, Python numbers.
ArrayLike = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex

# What a dtype argument accepts: dtypes, scalar types, names, and objects with a `dtype`.
DTypeLike = str | type[Any] | np.dtype | Any

__all__ = ["ArrayLike", "DTypeLike"]
