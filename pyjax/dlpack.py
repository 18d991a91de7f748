"""Exchange of arrays with other libraries through DLPack."""

from typing import Any

from pyjax import numpy as jnp
from pyjax.core import dtypes
from pyjax.core.array import Array
from xla_backend.runtime.dlpack import BFLOAT16


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """`pyjax.numpy.from_dlpack`; its arguments may be given by position or by name.

    >>> from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    return jnp.from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype can be exchanged: bool, integers of 8 bits and more, floats of 16
    bits and more (bfloat16 in host memory only), complex numbers.

    >>> is_supported_dtype(np.float32), is_supported_dtype("int4")
    (True, False)
    """
    kind = dtypes.dtype(dtype)
    return kind == BFLOAT16 or (kind.isbuiltin == 1 and kind.kind in "biufc")
