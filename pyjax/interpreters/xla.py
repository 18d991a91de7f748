"""Running primitives by programs, and types that become arrays. Layer: interpreters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.avals import host_conversions
from pyjax.core.primitive import Primitive
from pyjax.core.trace import run_compiled


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """The result of a primitive on values, by a program that is made of its lowering and kept.

    `p.def_impl(functools.partial(apply_primitive, p))` says what is done anyway with a primitive
    that can be lowered and has no implementation.

    >>> from pyjax import lax
    >>> from pyjax.interpreters import xla
    >>> xla.apply_primitive(lax.neg_p, 2.0)
    Array(-2., dtype=float32, weak_type=True)
    """
    outs = run_compiled(prim, args, params)
    return outs if prim.multiple_results else outs[0]


class _DtypeHandlers:
    """For each type whose values are arrays: what makes NumPy arrays of them."""

    def __getitem__(self, kind: type) -> Callable[[Any], np.ndarray]:
        """The handler of a type; types that have none get that of NumPy arrays."""
        return host_conversions.get(kind, _as_canonical)

    def __setitem__(self, kind: type, handler: Callable[[Any], Any] | None) -> None:
        """Values of a type go through a handler; None: they are what `np.asarray` makes of them."""
        if handler is None:
            host_conversions.pop(kind, None)
        else:
            host_conversions[kind] = handler


def _as_canonical(x: Any) -> np.ndarray:
    array = np.asarray(x)
    return array.astype(dtypes.canonicalize_dtype(array.dtype), copy=False)


# With `core.pytype_aval_mappings`, a type that is no array becomes one for traced functions.
canonicalize_dtype_handlers = _DtypeHandlers()
