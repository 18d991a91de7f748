"""Symbolic zeros and undefined primals: the values ad passes around that are not arrays.

Layer: interpreters.
"""

from __future__ import annotations

from typing import Any

from pyjax.core.avals import abstractify
from pyjax.core.structural import zeros_like_aval


class Zero:
    """A tangent or cotangent known to be zero; `aval` is that of the (co)tangent.

    >>> zero = Zero(ShapedArray((2,), "float32"))
    >>> zero.instantiate().tolist()
    [0.0, 0.0]
    """

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    @staticmethod
    def from_primal_value(value: Any) -> Zero:
        return Zero(abstractify(value).to_tangent_aval())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    def instantiate(self) -> Any:
        return zeros_like_aval(self.aval)

    def __repr__(self) -> str:
        return f"Zero({self.aval.str_short()})"


class UndefinedPrimal:
    """Stands for a linear operand in a transpose rule."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


def is_undefined_primal(x: Any) -> bool:
    """Whether an operand of a transpose rule is linear.

    >>> from pyjax.interpreters.ad import UndefinedPrimal
    >>> is_undefined_primal(UndefinedPrimal(pyjax.typeof(1.0))), is_undefined_primal(1.0)
    (True, False)
    """
    return type(x) is UndefinedPrimal


def instantiate_zeros(tangent: Any) -> Any:
    """Zero becomes an array of zeros; other values stay.

    >>> instantiate_zeros(Zero(ShapedArray((2,), "float32"))).tolist(), instantiate_zeros(1.0)
    ([0.0, 0.0], 1.0)
    """
    return zeros_like_aval(tangent.aval) if type(tangent) is Zero else tangent
