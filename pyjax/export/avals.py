"""Types of arrays as JSON values."""

from __future__ import annotations

from typing import Any

from pyjax.core import dtypes
from pyjax.core.avals import ShapedArray, dtype_name
from pyjax.core.extended_dtypes import KeyDType
from pyjax.core.symbolic_dims import Scope
from pyjax.export.container import malformed
from pyjax.export.shape_specs import parse_size
from pyjax.lax.random_generators import prngs

_BY_NAME: dict[str, Any] = {"float0": dtypes.float0, **{d.name: d for d in dtypes.ALL_DTYPES}}


def aval_to_json(aval: ShapedArray) -> list[Any]:
    """[shape, name of the dtype, whether it is weak]; symbolic sizes are texts."""
    shape = [d if type(d) is int else str(d) for d in aval.shape]
    return [shape, dtype_name(aval.dtype), aval.weak_type]


def aval_from_json(value: Any, scope: Scope) -> ShapedArray:
    """The type that `aval_to_json` wrote; `scope` is that of symbolic sizes.

    Raises:
      ValueError: it did not write this, or the dtype is of random keys unknown to this process.
    """
    if type(value) is not list or [type(v) for v in value] != [list, str, bool]:
        malformed(f"this is no type of an array: {value!r:.80}")
    shape, name, weak = value
    return ShapedArray(tuple([_size(size, scope) for size in shape]), _dtype(name), weak)


def _size(size: Any, scope: Scope) -> Any:
    if type(size) is str:
        return parse_size(size, scope)
    if type(size) is not int or size < 0:
        malformed(f"this is no size of an array: {size!r:.80}")
    return size


def _dtype(name: str) -> Any:
    known = _BY_NAME.get(name)
    if known is not None:
        return known
    for impl in prngs.values():
        if f"key<{impl.tag}>" == name:
            return KeyDType(impl)
    malformed(f"no dtype has the name {name!r:.80} here")
