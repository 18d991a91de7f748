"""Exchange of arrays with other libraries through DLPack."""

from typing import Any

import ml_dtypes
import numpy as np

from pyjax.core import dtypes
from pyjax.numpy import from_dlpack as from_dlpack


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be exchanged.

    >>> is_supported_dtype(np.float32)
    True
    """
    kind = dtypes.dtype(dtype)
    return kind != np.dtype(ml_dtypes.bfloat16) and kind.kind in "biufc"
