"""Sizes of arrays that are known only when a program runs (option `dynamic_shapes`).

A traced integer that is used as a size becomes a `Dimension`, which stands in shapes in the place
of an int. It is equal to itself only: whether two sizes are the same is asked while tracing, and
nobody knows it then. As broadcasting needs it, it is not 1 (it never stretches) and not 0; asking
whether it is another number is an error. What is computed with it is computed by the program, on
the integer that it stands for. It is no int on purpose: code that needs one fails, instead of going
on with a wrong one. Layer: core.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.errors import (
    TracerBoolConversionError,
    TracerIntegerConversionError,
    fail,
)

# What to write where a program needs to know a size.
FIX = (
    "Pad the array to a bound that is known and mask what is beyond it, or make the integer static "
    "(static_argnums, static_argnames), which compiles for each value."
)


class TracedSize:
    """An integer that the program knows: a size, or the number of elements of an array."""

    __slots__ = ("__weakref__",)
    # NumPy's operators leave it to ours.
    __array_ufunc__ = None

    def value(self) -> Any:
        """The integer as a traced scalar."""
        raise NotImplementedError

    def __jax_array__(self) -> Any:
        return self.value()

    def __index__(self) -> int:
        fail(
            TracerIntegerConversionError,
            f"The size {self} of a traced array is used as a Python integer.",
            "It is known when the program runs, not while it is traced (option dynamic_shapes).",
            FIX,
        )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, int) and other not in (-1, 0, 1):
            fail(
                TracerBoolConversionError,
                f"Whether the size {self} of a traced array is {other}, is asked while tracing.",
                "It is known when the program runs (option dynamic_shapes): arrays of this size "
                "and of a known one do not combine, nor does Python's `if` choose by it.",
                "Make both arrays with the same traced integer, compare values with jnp.equal, or "
                "make the integer static (static_argnums, static_argnames).",
            )
        return False

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self.value())

    def __float__(self) -> float:
        return float(self.value())

    def __neg__(self) -> Any:
        return -self.value()

    def __repr__(self) -> str:
        return str(self)


def _install(name: str, function: Callable[[Any, Any], Any]) -> None:
    setattr(TracedSize, f"__{name}__", lambda self, other: function(self.value(), other))
    if name not in _COMPARISONS:
        setattr(TracedSize, f"__r{name}__", lambda self, other: function(other, self.value()))


_COMPARISONS = ("lt", "le", "gt", "ge")
for _name in (*_COMPARISONS, "add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    _install(_name, getattr(operator, _name))


class Dimension(TracedSize):
    """The size of dimensions that refer to one traced integer, called `name` in messages."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def value(self) -> Any:
        return _value_of[0](self)

    def __str__(self) -> str:
        return self.name


class ElementCount(TracedSize):
    """The number of elements of an array with such dimensions."""

    __slots__ = ("shape",)

    def __init__(self, shape: Sequence[Any]) -> None:
        self.shape = tuple([d for d in shape if d != 1])

    def value(self) -> Any:
        total: Any = 1
        for size in self.shape:
            total = total * size
        return total

    def __str__(self) -> str:
        return "*".join(map(str, self.shape))


# Installed by what knows operations: the traced scalar that a dimension stands for.
_value_of: list[Callable[[Dimension], Any]] = []


def set_value_rule(rule: Callable[[Dimension], Any]) -> None:
    """Set what gives the traced scalar of a dimension."""
    _value_of[:] = [rule]


def is_known(shape: Sequence[Any]) -> bool:
    """Whether no size of a shape is traced."""
    return not any(isinstance(d, TracedSize) for d in shape)


def dimension_of(x: Any) -> Any:
    """What a traced value is as a size of an array: a `Dimension`, or an int that is known; None if
    it cannot be one, or the option `dynamic_shapes` is off.

    >>> dimension_of(3.0) is None
    True
    """
    if type(x) is Dimension:
        return x
    if isinstance(x, ElementCount):
        if len(x.shape) == 1:
            return x.shape[0]
        x = x.value()
    dimension = getattr(getattr(x, "_trace", None), "dimension", None)
    return None if dimension is None else dimension(x)
