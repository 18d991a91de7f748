"""Bit operations on integers and bools: and, or, xor, not, shifts, population_count, clz, mulhi;
and nextafter.
"""

from __future__ import annotations

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.primitive import Primitive
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import ZERO_TANGENT, Unsupported
from pyjax.lax.arithmetic import add, sub
from pyjax.lax.common import FLOATING, INTEGER, LOGICAL, dtype_of, joint_shape, nary_operands
from pyjax.lax.compare import eq, full_value, gt, lt, ne, select
from pyjax.lax.convert import bitcast_convert_type
from pyjax.lax.nary import define_nary, define_unary, stretch
from xla_backend.hlo.opcode import Opcode

not_p: Primitive = define_unary("not", Opcode.NOT, LOGICAL, ZERO_TANGENT)
population_count_p: Primitive = define_unary(
    "population_count", Opcode.POPCNT, INTEGER, ZERO_TANGENT
)
clz_p: Primitive = define_unary("clz", Opcode.COUNT_LEADING_ZEROS, INTEGER, ZERO_TANGENT)

_BINARY = [
    ("and", Opcode.AND, LOGICAL),
    ("or", Opcode.OR, LOGICAL),
    ("xor", Opcode.XOR, LOGICAL),
    ("shift_left", Opcode.SHIFT_LEFT, INTEGER),
    ("shift_right_arithmetic", Opcode.SHIFT_RIGHT_ARITHMETIC, INTEGER),
    ("shift_right_logical", Opcode.SHIFT_RIGHT_LOGICAL, INTEGER),
    ("mulhi", Opcode.MULHI, INTEGER),
]
_table = {
    name: define_nary(name, opcode, (accepts, accepts), ZERO_TANGENT)
    for name, opcode, accepts in _BINARY
}
and_p, or_p, xor_p = _table["and"], _table["or"], _table["xor"]
shift_left_p, mulhi_p = _table["shift_left"], _table["mulhi"]
shift_right_arithmetic_p = _table["shift_right_arithmetic"]
shift_right_logical_p = _table["shift_right_logical"]


def bitwise_not(x: ArrayLike) -> Array:
    """~x for integers, logical not for bool.

    >>> lax.bitwise_not(jnp.array([0, 5]))
    Array([-1, -6], dtype=int32)
    """
    return not_p.bind1(x)


def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """x & y for integers, logical and for bool.

    >>> lax.bitwise_and(jnp.int32(12), jnp.int32(10))
    Array(8, dtype=int32)
    """
    x, y = nary_operands("bitwise_and", x, y)
    return and_p.bind1(x, y)


def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """x | y for integers, logical or for bool.

    >>> lax.bitwise_or(jnp.int32(12), jnp.int32(10))
    Array(14, dtype=int32)
    """
    x, y = nary_operands("bitwise_or", x, y)
    return or_p.bind1(x, y)


def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """x ^ y for integers, exclusive or for bool.

    >>> lax.bitwise_xor(jnp.int32(12), jnp.int32(10))
    Array(6, dtype=int32)
    """
    x, y = nary_operands("bitwise_xor", x, y)
    return xor_p.bind1(x, y)


def population_count(x: ArrayLike) -> Array:
    """The number of one bits, in x's integer dtype.

    >>> lax.population_count(jnp.array([7, 255]))
    Array([3, 8], dtype=int32)
    """
    return population_count_p.bind1(x)


def clz(x: ArrayLike) -> Array:
    """The number of leading zero bits; the width of the dtype for 0.

    >>> lax.clz(jnp.array([1, 255]))
    Array([31, 24], dtype=int32)
    """
    return clz_p.bind1(x)


def shift_left(x: ArrayLike, y: ArrayLike) -> Array:
    """x << y; 0 where y is at least the width.

    >>> lax.shift_left(jnp.int32(1), jnp.int32(4))
    Array(16, dtype=int32)
    """
    x, y = nary_operands("shift_left", x, y)
    return shift_left_p.bind1(x, y)


def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """x >> y, copying the sign bit.

    >>> lax.shift_right_arithmetic(jnp.int32(-8), jnp.int32(1))
    Array(-4, dtype=int32)
    """
    x, y = nary_operands("shift_right_arithmetic", x, y)
    return shift_right_arithmetic_p.bind1(x, y)


def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """x >> y, shifting zeros in; 0 where y is at least the width.

    >>> lax.shift_right_logical(jnp.int32(-8), jnp.int32(28))
    Array(15, dtype=int32)
    """
    x, y = nary_operands("shift_right_logical", x, y)
    return shift_right_logical_p.bind1(x, y)


def mulhi(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The high half of the double-width product of two integers.

    >>> lax.mulhi(jnp.int32(2**30), jnp.int32(8))
    Array(2, dtype=int32)
    """
    x, y = nary_operands("mulhi", x, y)
    return mulhi_p.bind1(x, y)


# -- nextafter -------------------------------------------------------------------------------------

_UINT_OF_SIZE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def _nextafter(x: Array, y: Array) -> Array:
    """One step of the sign-magnitude integer that a float's bits are."""
    shape = joint_shape(x.aval.shape, y.aval.shape)
    x, y = stretch(x, shape), stretch(y, shape)
    dtype = dtype_of(x)
    uint = np.dtype(_UINT_OF_SIZE[dtype.itemsize])
    bits = bitcast_convert_type(x, uint)
    one = full_value(bits, 1)
    sign_bit = full_value(bits, 1 << (8 * dtype.itemsize - 1))
    sign = bitwise_and(bits, sign_bit)
    zero = full_value(x, 0)
    # Away from zero when y lies further out on x's side.
    outwards = select(eq(sign, full_value(bits, 0)), gt(y, x), lt(y, x))
    stepped = select(outwards, add(bits, one), sub(bits, one))
    from_zero = select(gt(y, zero), one, bitwise_or(sign_bit, one))
    stepped = select(eq(x, zero), from_zero, stepped)
    result = select(eq(x, y), y, bitcast_convert_type(stepped, dtype))
    not_a_number = bitwise_or(ne(x, x), ne(y, y))
    return select(not_a_number, full_value(x, np.nan), result)


nextafter_p: Primitive = define_nary(
    "nextafter",
    None,
    (FLOATING, FLOATING),
    Unsupported(
        "it steps between neighbouring numbers; differentiate its operand instead, to which it is "
        "as close as can be"
    ),
    lowering=lower_fun(_nextafter),
)


def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The next representable number after x1 towards x2; x2 where both are equal.

    >>> lax.nextafter(jnp.float32(1), jnp.float32(2)) > 1
    Array(True, dtype=bool)
    """
    x1, x2 = nary_operands("nextafter", x1, x2)
    return nextafter_p.bind1(x1, x2)
