"""Arrays whose every part is in other processes: this one knows what they are, and not one element.

Layer: runtime.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail, new_error
from pyjax.sharding.shardings import Sharding
from xla_backend.runtime.client import Device


class ArrayElsewhere(Array):
    """An array without a shard in this process.

    Attributes:
      aval: shape and dtype.   sharding: over devices of other processes.
    """

    __slots__ = ("__weakref__", "_is_deleted", "aval", "sharding")
    aval: ShapedArray
    committed = True
    is_fully_addressable = False

    def __init__(self, aval: ShapedArray, sharding: Sharding) -> None:
        self.aval = aval
        self.sharding = sharding
        self._is_deleted = False

    @property
    def is_fully_replicated(self) -> bool:  # type: ignore[override]
        return self.sharding.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Any]:  # type: ignore[override]
        return []

    def devices(self) -> set[Device]:  # type: ignore[override]
        return self.sharding.device_set

    def addressable_data(self, index: int) -> Array:
        self._refuse()

    def block_until_ready(self) -> Array:
        return self

    def copy_to_host_async(self) -> None:
        return None

    def delete(self) -> None:  # type: ignore[override]
        self._is_deleted = True

    def is_deleted(self) -> bool:  # type: ignore[override]
        return self._is_deleted

    def __hash__(self) -> int:
        raise new_error(TypeError, "unhashable type: arrays are compared by their elements")

    def __len__(self) -> int:
        if not self.shape:
            raise new_error(TypeError, "len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Array(shape={self.shape}, dtype={self.dtype})"

    def __array__(
        self, dtype: Any = None, context: Any = None, copy: bool | None = None
    ) -> np.ndarray:
        self._refuse()

    def item(self, *args: int) -> Any:
        self._refuse()

    def tolist(self) -> Any:
        self._refuse()

    def __bool__(self) -> bool:
        self._refuse()

    def __int__(self) -> int:
        self._refuse()

    def __float__(self) -> float:
        self._refuse()

    def __complex__(self) -> complex:
        self._refuse()

    def __index__(self) -> int:
        self._refuse()

    def _refuse(self) -> NoReturn:
        fail(
            RuntimeError,
            "Fetching value for an array that spans non-addressable devices is not possible",
            f"{self.aval.str_short()} lies on {', '.join(sorted(map(str, self.devices())))}, which "
            "other processes have",
            "read it in a process that has the device; here addressable_shards are all there is",
        )
