"""The row class of the accuracy tables.

    Row("lax.log1p numpy.log1p", mp.log1p, reals)

names functions that compute the same, the exact function of mpmath numbers, and the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.accuracy.operands import Sampler

DEFAULT = 4


@dataclass(frozen=True)
class Row:
    """One function with its aliases.

    Attributes:
      names: public names, relative to pyjax, separated by spaces.
      exact: the function of mpmath numbers; nan or a complex number where the result must be nan.
      operands: a sampler (operands.py).
      ulp: the error that is allowed in float32.
      wide: the error that is allowed in float64.
      call: how the function `f` is called with the operands x, y, z, w.
      scale: a function of the operands; where it is larger than the result, the error counts in
        its units. For sums that cancel.
      note: what the docstrings say of a bound other than `DEFAULT` units of the result.
      cost: how much longer than usual the exact function takes; fewer elements are compared.
    """

    names: str
    exact: Callable[..., Any]
    operands: Sampler
    ulp: float = DEFAULT
    wide: float = 8
    call: str = "f(x)"
    scale: Callable[..., Any] | None = None
    note: str = ""
    cost: int = 1
