"""Symbolic sizes as values: what connects a size of a program that is exported for many shapes with
the number that it is where the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.symbolic_dims import SymbolicDim, bounds, set_value_rule, summands
from pyjax.core.trace_queries import trace_state_clean
from pyjax.lax.arithmetic import add, mul
from pyjax.lax.common import scalar_like
from pyjax.lax.convert import convert
from pyjax.lax.creation import full
from pyjax.lax.reduce import reduce_sum


def _value(size: SymbolicDim) -> Any:
    """The size as a scalar of the program: each of its products is counted, as so many ones. The
    compiler knows the shape, and makes a constant of that."""
    if trace_state_clean():  # no program is recorded that it could be a scalar of
        size.needed()
    dtype = dtypes.canonicalize_dtype(np.int64)
    total: Any = full((), 0, dtype)
    for product, coefficient in summands(size):
        count = _count(product, dtype)
        total = add(total, mul(count, scalar_like(coefficient, count)))
    return convert(total, dtype, True)


def _count(product: Any, dtype: np.dtype) -> Any:
    """A product of sizes, which may be negative: no shape has it then, but one with some more."""
    least = min(int(bounds(product)[0]), 0)
    ones = full((product - least,), 1, dtype)
    count = reduce_sum(ones, (0,))
    return add(count, scalar_like(least, count)) if least else count


set_value_rule(_value)
