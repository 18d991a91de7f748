"""What masks choose of long arrays in host memory, outside of transformations: elements, or their
places.

How many there are is known when they are found. So a program sorts by the mask, which is a
partition, and the result is the end of its memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax import lax
from pyjax.api.jit import jit
from pyjax.core import dtypes
from pyjax.core.array import Array
from pyjax.core.extended_dtypes import is_extended
from pyjax.numpy import util
from pyjax.numpy.eager import is_ready
from pyjax.runtime.array import DeviceArray
from pyjax.runtime.devices import default_device

# Of fewer NumPy finds the places sooner than a program is made for their number.
_LONG = 1 << 16
# They are counted with 32 bits.
_MOST = 1 << 31
# Of memory a smaller part is copied, so that the rest is not kept.
_SMALL_PART = 4


def is_in_host_memory(x: Any) -> bool:
    """Whether an array is where NumPy can read it, and new arrays are made."""
    plain = type(x) is DeviceArray and not dtypes.is_weakly_typed(x) and not x.committed
    return plain and x.platform == "cpu" and x.devices() == {default_device()}


def chosen_elements(x: Any, mask: Any) -> Array | None:
    """`x[mask]` for a mask of the shape of `x`; None: others know how."""
    if not (_is_long(mask) and is_in_host_memory(x) and not is_extended(x.dtype)):
        return None
    return _last(_elements(mask, x), mask)


def chosen_places(mask: Any) -> Array | None:
    """The places of true values in row-major order; None: others know how."""
    return _last(_places(mask), mask) if _is_long(mask) else None


def _is_long(mask: Any) -> bool:
    return is_in_host_memory(mask) and _LONG <= mask.size < _MOST and is_ready(mask)


@jit
def _elements(mask: Any, x: Any) -> Any:
    return _partition(mask, lax.reshape(x, (x.size,)))


@jit
def _places(mask: Any) -> Any:
    return _partition(mask, lax.iota(dtypes.canonicalize_dtype(np.int64), mask.size))


def _partition(mask: Any, values: Any) -> Any:
    """Values, those that are chosen last. Nothing but routines: each length is a program, and the
    first one of a length is not to wait for code."""
    return lax.sort((lax.reshape(mask, (mask.size,)), values), num_keys=1)[1]


def _last(values: Any, mask: Any) -> Array:
    size, found = values.size, np.count_nonzero(np.asarray(mask))
    last = np.asarray(values)[size - found :]
    return util.array_over(last.copy() if found < size // _SMALL_PART else last)
