"""Keys of caches: equal only for values that a program cannot tell apart.

Python's `==` calls `0.0` and `-0.0` equal, and `1`, `1.0`, `True` and `np.int32(1)`: a table
keyed by such values hands out a program that was made for another one. `exact_key` makes a key
that compares types as well as values, and floating-point numbers by their bits. Layer: core.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from pyjax.core.errors import UnhashableStaticError, new_error
from xla_backend.process.light_dataclasses import METHODS
from xla_backend.process.values import Value

_Rule = Callable[[Any], Hashable]
_float_bits = struct.Struct("=d").pack
_complex_bits = struct.Struct("=dd").pack


def exact_key(value: Any) -> Hashable:
    """A key that is equal for two values only if a program cannot tell them apart.

    Types count, and so do the bits of floating-point numbers (signs of zeros, NaN payloads), also
    inside tuples, named tuples, frozensets, slices, ranges and dataclasses. For objects of other
    classes that define `__eq__`, that method decides, among objects of one class.

    Raises:
      TypeError: the value, or something in it, has no hash.

    >>> exact_key((1, 0.0)) == exact_key((True, 0.0)), exact_key(0.0) == exact_key(-0.0)
    (False, False)
    """
    cls: Any = type(value)
    rule = _rules.get(cls)
    return _rule_for(cls)(value) if rule is None else rule(value)


def register_exact_key(cls: type, rule: _Rule) -> None:
    """Say how values of exactly this class become keys; `rule(value)` starts with the class if it
    is a tuple."""
    _rules[cls] = rule


class _ByEquality:
    """A value whose own `__eq__` decides, among values of its class."""

    __slots__ = ("_hash", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._hash = hash(value)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if type(other) is not _ByEquality:
            return NotImplemented
        a, b = self.value, other.value
        if a is b:
            return True
        if type(a) is not type(b):
            return False
        try:
            return bool(a == b)
        except Exception as error:
            raise new_error(
                UnhashableStaticError,
                f"two values of type {type(a).__name__} cannot be compared: "
                f"{type(error).__name__}: {error}",
                "compiled programs are looked up by static values, with hash and ==; == must "
                "give a bool",
                "define __eq__ so that it returns True or False, or pass a value that has it "
                "(a tuple, a frozen dataclass)",
            ) from error

    def __repr__(self) -> str:
        return repr(self.value)


def _itself(value: Any) -> Hashable:
    return value


def _typed(value: Any) -> Hashable:
    return (type(value), value)


def _of_float(value: Any) -> Hashable:
    return (type(value), _float_bits(value))


def _of_complex(value: Any) -> Hashable:
    return (type(value), _complex_bits(value.real, value.imag))


def _of_number_or_text(base: type) -> _Rule:
    """For subclasses of a built-in type: the class, and the value as the built-in type has it."""
    return lambda value: (type(value), base(value))


def _of_numpy_scalar(value: Any) -> Hashable:
    return (type(value), value.dtype, value.tobytes())


def _of_tuple(value: Any) -> Hashable:
    return (type(value), *map(exact_key, value))


def _of_frozenset(value: Any) -> Hashable:
    return (type(value), frozenset(map(exact_key, value)))


def _of_slice(value: Any) -> Hashable:
    return (slice, exact_key(value.start), exact_key(value.stop), exact_key(value.step))


def _of_range(value: Any) -> Hashable:
    return (range, value.start, value.stop, value.step)


def _of_decimal(value: Any) -> Hashable:
    return (type(value), value.as_tuple())


_rules: dict[type, _Rule] = {
    # Keys that are neither tuples nor each other's equals need no class beside them.
    int: _itself,
    str: _itself,
    type(None): _itself,
    type(Ellipsis): _itself,
    bool: _typed,
    bytes: _typed,
    float: _of_float,
    complex: _of_complex,
    tuple: _of_tuple,
    frozenset: _of_frozenset,
    slice: _of_slice,
    range: _of_range,
}
# Subclasses that leave __eq__ as it is: the base class that defines it, and the rule.
_BASES: tuple[tuple[type, _Rule], ...] = (
    (float, _of_float),
    (complex, _of_complex),
    (int, _of_number_or_text(int)),
    (str, _of_number_or_text(str)),
    (bytes, _of_number_or_text(bytes)),
    (tuple, _of_tuple),
    (frozenset, _of_frozenset),
)


@functools.lru_cache(maxsize=1024)
def _rule_for(cls: type) -> _Rule:
    if issubclass(cls, np.generic):
        return _of_numpy_scalar
    if issubclass(cls, np.dtype):
        return _typed
    # Who has such a number has loaded them: nobody else need do so.
    numbers = sys.modules.get("_decimal") or sys.modules.get("_pydecimal")
    decimals = () if numbers is None else ((numbers.Decimal, _of_decimal),)
    for base, rule in (*_BASES, *decimals):
        if issubclass(cls, base) and cls.__eq__ is base.__eq__:
            return rule
    if cls.__eq__ is object.__eq__:
        return _itself  # equal by identity: functions, classes, devices
    if dataclasses.is_dataclass(cls) and _is_generated(cls.__eq__):
        return _of_dataclass
    if issubclass(cls, Value) and cls.__eq__ is Value.__eq__:
        return _of_record
    return _ByEquality


def _of_dataclass(value: Any) -> Hashable:
    cls = type(value)
    if cls.__hash__ is None:
        hash(value)  # for Python's own error
    try:
        return (
            cls,
            *[exact_key(getattr(value, f.name)) for f in dataclasses.fields(cls) if f.compare],
        )
    except TypeError:
        if _is_generated(cls.__hash__):
            raise
        return _ByEquality(value)  # its own hash is not that of its fields, which may be arrays


def _of_record(value: Value) -> Hashable:
    return (type(value), *map(exact_key, value._key()))


def _is_generated(method: Any) -> bool:
    """Whether a dataclass decorator wrote a method. The standard one compiles them from text, in a
    function of this name. (Programs may be compiled from text, too.)"""
    code = getattr(method, "__code__", None)
    if code is None:
        return False
    return code in METHODS or code.co_qualname.startswith("__create_fn__.<locals>.")
