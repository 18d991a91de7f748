"""Predicates, comparisons, logic and bits of `numpy`."""

from __future__ import annotations

from functools import partial

from tests.edge_values.rows import (
    ALL,
    BOOL,
    INTS,
    REALS,
    Row,
    one_operand,
    rows,
    two_operands,
)

one = partial(one_operand, "numpy")
two = partial(two_operands, "numpy")

ROWS: tuple[Row, ...] = (
    *one("signbit", REALS, grad=False),
    *one("isfinite isinf isnan isreal iscomplex logical_not", ALL, grad=False),
    *one("isneginf isposinf", REALS, grad=False),
    *one("invert bitwise_not bitwise_invert bitwise_count", INTS + BOOL, grad=False),
    *two("equal not_equal less less_equal greater greater_equal", ALL, grad=False),
    *two("logical_and logical_or logical_xor", ALL, grad=False),
    *two("bitwise_and bitwise_or bitwise_xor", INTS + BOOL, grad=False),
    *two("left_shift right_shift bitwise_left_shift bitwise_right_shift", INTS, grad=False),
    # The smallest integer is left out: the reference never returns.
    *rows("numpy", "gcd lcm", ["f(a.at[a < -7].set(5), b.at[b < -7].set(6))", "f(m, t)"], INTS),
    *two("isclose", ALL, grad=False),
    *rows("numpy", "isclose", ["f(a, b, equal_nan=True)"], ("float32", "int32", "complex64")),
)
