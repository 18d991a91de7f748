"""Exchange of arrays with other libraries through DLPack."""

from typing import Any

import ml_dtypes
import numpy as np

from pyjax import numpy as jnp
from pyjax.core import dtypes
from pyjax.core.array import Array


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """`pyjax.numpy.from_dlpack`; its arguments may be given by position or by name.

    >>> from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    return jnp.from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be exchanged.

    >>> is_supported_dtype(np.float32)
    True
    """
    kind = dtypes.dtype(dtype)
    return kind != np.dtype(ml_dtypes.bfloat16) and kind.kind in "biufc"
