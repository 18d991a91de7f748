"""Names for annotations."""

from typing import Any

import numpy as np

from pyjax.core.array import ArrayLike

# What a dtype argument accepts: dtypes, scalar types, names, and objects with a `dtype`.
DTypeLike = str | type[Any] | np.dtype | Any

__all__ = ["ArrayLike", "DTypeLike"]
