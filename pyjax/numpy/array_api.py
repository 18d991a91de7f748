"""What the array API standard asks of a namespace: its version and __array_namespace_info__."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.errors import new_error
from pyjax.runtime.devices import default_device, devices

__array_api_version__ = "2024.12"

_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class ArrayNamespaceInfo:
    """Capabilities, devices and dtypes of pyjax.numpy, as the array API standard asks."""

    def capabilities(self) -> dict[str, Any]:
        """Features that libraries may rely on."""
        return {"boolean indexing": True, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Any:
        """Device on which new arrays are placed."""
        return default_device()

    def devices(self) -> list[Any]:
        """All devices."""
        return devices()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """Default dtype of each kind."""
        wide = {
            "real floating": np.float64,
            "complex floating": np.complex128,
            "integral": np.int64,
            "indexing": np.int64,
        }
        return {kind: dtypes.canonicalize_dtype(d) for kind, d in wide.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """dtypes by name, of a kind or of several (a tuple)."""
        kinds = (
            ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        )
        for k in kinds:
            if k not in _KINDS:
                raise new_error(ValueError, f"Unsupported data type kind: {k!r}")
        names = [name for k in kinds for name in _KINDS[k]]
        wide = dtypes.canonicalize_dtype(np.float64) == np.float64
        return {
            n: np.dtype(n)
            for n in names
            if wide or n not in ("int64", "uint64", "float64", "complex128")
        }


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """Facts about this namespace, for libraries that support several."""
    return ArrayNamespaceInfo()
