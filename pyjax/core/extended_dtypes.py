"""Extended dtypes: element types with no NumPy counterpart (random keys), stored as other arrays.

Layer: core.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class extended(np.generic):
    """Scalar type above all extended dtypes, for `issubdtype(dtype, extended)`.

    >>> pyjax.dtypes.issubdtype(pyjax.random.key(0).dtype, extended)
    True
    """


class prng_key(extended):
    """Scalar type of random-key dtypes, for `issubdtype(dtype, prng_key)`.

    >>> jnp.issubdtype(pyjax.random.key(0).dtype, prng_key), jnp.issubdtype(jnp.uint32, prng_key)
    (True, False)
    """


class ExtendedDType:
    """Base of extended dtypes. An array of shape s is stored as `physical_dtype[s + key_shape]`."""

    name: str
    type: type = extended
    kind = "V"
    physical_dtype: np.dtype = np.dtype(np.uint32)
    key_shape: tuple[int, ...] = ()

    @property
    def itemsize(self) -> int:
        return int(np.prod(self.key_shape, dtype=int)) * self.physical_dtype.itemsize

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


class KeyDType(ExtendedDType):
    """dtype of random keys of one implementation: `key<fry>`.

    Args:
      impl: has `.tag` (short name, `fry`) and `.key_shape` (words of one key); hashable.
    """

    type = prng_key

    def __init__(self, impl: Any) -> None:
        self.impl = impl
        self.name = f"key<{impl.tag}>"
        self.key_shape = tuple(impl.key_shape)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(other) is KeyDType and other.impl == self.impl)

    def __hash__(self) -> int:
        return hash((KeyDType, self.impl))


def is_extended(dtype: Any) -> bool:
    """Whether `dtype` is an extended dtype (a random key)."""
    return isinstance(dtype, ExtendedDType)
