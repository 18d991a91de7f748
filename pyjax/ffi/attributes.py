"""Attributes of foreign calls: from Python values to the text in programs, and back. Layer: ffi."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pyjax.core.hashable_array import HashableArray
from xla_backend.stablehlo.attribute_text import dictionary_text
from xla_backend.stablehlo.attributes import (
    ArrayAttribute,
    Attribute,
    DenseAttribute,
    FloatAttribute,
    IntegerAttribute,
)
from xla_backend.stablehlo.dense_text import element_dtype
from xla_backend.stablehlo.from_hlo_context import read_dictionary
from xla_backend.stablehlo.types import ScalarType, TensorType

Attributes = tuple[tuple[str, Any], ...]


def hashable(values: Mapping[str, Any]) -> Attributes:
    """Attributes as a parameter of a primitive.

    Raises:
      TypeError: a value that has no form in a program.
      ValueError: a name or a text that has no form in UTF-8.
    """
    made = []
    for name in sorted(values):
        value = values[name]
        for what in (name, value):
            if isinstance(what, str) and not _is_utf8(what):
                raise ValueError(
                    f"ffi_call: the attribute {name!r:.60} has the text {what!r:.60}, which has no "
                    "form in UTF-8; pass bytes as np.frombuffer(data, np.uint8)."
                )
        if isinstance(value, Mapping):
            value = ("dict", hashable(value))
        elif isinstance(value, np.ndarray):
            value = HashableArray(value)
        elif not isinstance(value, (bool, int, float, str, np.generic)):
            raise TypeError(
                f"ffi_call: the attribute {name}={value!r:.60} has the type "
                f"{type(value).__name__}; attributes are bools, numbers, strings, NumPy arrays and "
                "dicts of these. Pass arrays that programs compute as operands."
            )
        made.append((name, _Typed(value)))
    return tuple(made)


def _is_utf8(value: str) -> bool:
    """Whether there are no halves of surrogate pairs."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


class _Typed:
    """A value, equal to values of its type only: 1, 1.0 and True are different attributes."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._key = (type(value), _exact(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Typed) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return repr(self.value)


def _exact(value: Any) -> Any:
    """What is equal for equal values only: floats by their bits (0.0 is not -0.0)."""
    if isinstance(value, np.generic):
        return value.dtype, value.tobytes()
    return np.float64(value).tobytes() if isinstance(value, float) else value


def text(attributes: Attributes) -> str:
    """`{a = 1 : i64}`: what programs hold."""
    return dictionary_text(_dictionary(attributes))


def _dictionary(attributes: Attributes) -> dict[str, Attribute]:
    return {name: _attribute(typed.value) for name, typed in attributes}


def _attribute(value: Any) -> Attribute:
    if isinstance(value, tuple):
        return _dictionary(value[1])
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, HashableArray):
        array = value.value
        return DenseAttribute(array, TensorType(array.shape, _scalar_type(array.dtype)))
    if isinstance(value, int):
        return IntegerAttribute(value)
    if isinstance(value, float) and not isinstance(value, np.generic):
        return FloatAttribute(np.float64(value), ScalarType("f64"))
    kind = _scalar_type(value.dtype)
    if np.issubdtype(value.dtype, np.integer):
        return IntegerAttribute(int(value), kind)
    return FloatAttribute(value, kind)


def _scalar_type(dtype: np.dtype) -> ScalarType:
    known = _SCALAR_TYPES.get(dtype)
    if known is None:
        raise TypeError(f"ffi_call: attributes have no elements of dtype {dtype}")
    return known


_SCALAR_TYPES = {
    element_dtype(kind): kind
    for kind in map(
        ScalarType,
        "i1 i8 i16 i32 i64 ui8 ui16 ui32 ui64 bf16 f16 f32 f64".split(),
    )
}


def decoded(config: str) -> dict[str, Any]:
    """The attributes of a call, for Python functions.

    Raises:
      ValueError: the configuration is none of `ffi_call`'s.
    """
    if not config:
        return {}
    values = read_dictionary(config)
    if values is None:
        raise ValueError(f"the configuration of a foreign call is no dictionary: {config!r:.80}")
    return {name: _value(attribute) for name, attribute in values.items()}


def _value(attribute: Any) -> Any:
    if isinstance(attribute, dict):
        return {name: _value(inner) for name, inner in attribute.items()}
    if isinstance(attribute, DenseAttribute):
        return attribute.array
    if isinstance(attribute, ArrayAttribute):
        return np.array(attribute.values, element_dtype(attribute.element))
    if isinstance(attribute, IntegerAttribute):
        if str(attribute.type) == "i64":
            return attribute.value
        dtype = element_dtype(attribute.type)
        return attribute.value if dtype is None else dtype.type(attribute.value)
    if isinstance(attribute, FloatAttribute):
        return float(attribute.value) if attribute.type.name == "f64" else attribute.value
    return attribute
