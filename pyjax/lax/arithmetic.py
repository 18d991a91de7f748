"""The arithmetic that other rules are written in: + - * / rem, powers, max, min, sign, abs, parts
of complex numbers.

Comparisons and select are in compare.py, transcendental functions in elementwise.py, bits in
bitwise.py.
"""

from __future__ import annotations

import builtins
import operator
from typing import Any

import numpy as np

from pyjax.core import structural
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.batching import elementwise_batching
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import LINEAR, ZERO_TANGENT, define_primitive
from pyjax.lax.common import (
    ANY,
    COMPLEX,
    FLOATING,
    INEXACT,
    INTEGER,
    NUMBER,
    REAL_NUMBER,
    SIGNED,
    aval_of,
    broadcast_result_shape,
    canonical_dtype,
    check_dtype,
    complex_dtype,
    dtype_of,
    hlo_nary,
    hlo_unary,
    is_complex,
    is_inexact,
    is_integer,
    nary_operands,
    real_dtype,
    scalar_like,
)
from pyjax.lax.compare import eq, full_value, ge, gt, lt, select
from pyjax.lax.convert import convert_element_type
from pyjax.lax.nary import define_nary, define_unary, stretch, unary_transpose
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType

# -- linear operations -----------------------------------------------------------------------------

neg_p: Primitive = define_unary(
    "neg",
    Opcode.NEGATE,
    NUMBER,
    LINEAR,
    transpose=unary_transpose(lambda ct, x: neg(ct)),
)
add_p: Primitive = define_nary(
    "add",
    Opcode.ADD,
    (NUMBER, NUMBER),
    (lambda g, ans, x, y: g, lambda g, ans, x, y: g),
    transpose=lambda ct, x, y: [
        ct if ad.is_undefined_primal(x) else None,
        ct if ad.is_undefined_primal(y) else None,
    ],
)
sub_p: Primitive = define_nary(
    "sub",
    Opcode.SUBTRACT,
    (NUMBER, NUMBER),
    (lambda g, ans, x, y: g, lambda g, ans, x, y: neg(g)),
    transpose=lambda ct, x, y: [
        ct if ad.is_undefined_primal(x) else None,
        neg(ct) if ad.is_undefined_primal(y) else None,
    ],
)


# The sum of two cotangents: what reverse mode inserts where a value is used twice.
add_any_p: Primitive = define_nary(
    "add_any",
    Opcode.ADD,
    (NUMBER, NUMBER),
    LINEAR,
    transpose=lambda ct, x, y: [
        ct if ad.is_undefined_primal(x) else None,
        ct if ad.is_undefined_primal(y) else None,
    ],
)


def _mul_transpose(ct: Any, x: Any, y: Any, out_dtype: Any = None) -> list[Any]:
    if ad.is_undefined_primal(x):
        return [structural.convert_element_type(mul(ct, y), x.aval.dtype, x.aval.weak_type), None]
    return [None, structural.convert_element_type(mul(x, ct), y.aval.dtype, y.aval.weak_type)]


def _mul_lowering(ctx: Any, x: Any, y: Any, out_dtype: Any = None) -> Any:
    element_type = ctx.shapes_out[0].element_type
    return hlo_nary(Opcode.MULTIPLY)(
        ctx, ctx.builder.convert(x, element_type), ctx.builder.convert(y, element_type)
    )


mul_p: Primitive = define_nary(
    "mul",
    None,
    (NUMBER, NUMBER),
    (
        lambda g, ans, x, y, out_dtype=None: mul(g, y, out_dtype=out_dtype),
        lambda g, ans, x, y, out_dtype=None: mul(x, g, out_dtype=out_dtype),
    ),
    transpose=_mul_transpose,
    lowering=_mul_lowering,
)
div_p: Primitive = define_nary(
    "div",
    Opcode.DIVIDE,
    (NUMBER, NUMBER),
    (
        lambda g, ans, x, y: div(g, y),
        lambda g, ans, x, y: mul(mul(neg(g), x), integer_pow(y, -2)),
    ),
    transpose=lambda ct, x, y: [div(ct, y) if ad.is_undefined_primal(x) else None, None],
)

# -- order and powers ------------------------------------------------------------------------------


def _truncated_quotient(x: Array, y: Array) -> Array:
    quotient = div(x, y)
    return mul(sign(quotient), floor(abs(quotient)))


rem_p: Primitive = define_nary(
    "rem",
    Opcode.REMAINDER,
    (REAL_NUMBER, REAL_NUMBER),
    (
        lambda g, ans, x, y: g,
        lambda g, ans, x, y: mul(neg(g), _truncated_quotient(x, y)),
    ),
)


def _share_of_extremum(x: Array, ans: Array, y: Array) -> Array:
    """1 where x is the result, 1/2 where both operands are, 0 elsewhere."""
    one = full_value(ans, 1)
    mine = select(eq(x, ans), one, full_value(ans, 0))
    return div(mine, select(eq(y, ans), full_value(ans, 2), one))


def _extremum_lowering(opcode: Opcode, better: Any) -> Any:
    def complex_extremum(x: Array, y: Array) -> Array:
        # Lexicographic: real parts first, then imaginary parts, as NumPy orders complex numbers.
        shape = broadcast_result_shape("max", (aval_of(x), aval_of(y)))
        x, y = stretch(x, shape), stretch(y, shape)
        rx, ry = real(x), real(y)
        return select(select(eq(rx, ry), better(imag(x), imag(y)), better(rx, ry)), x, y)

    on_complex = lower_fun(complex_extremum)
    on_real = hlo_nary(opcode)

    def rule(ctx: Any, x: Any, y: Any) -> Any:
        if is_complex(ctx.avals_in[0].dtype):
            return on_complex(ctx, x, y)
        return on_real(ctx, x, y)

    return rule


max_p: Primitive = define_nary(
    "max",
    None,
    (ANY, ANY),
    (
        lambda g, ans, x, y: mul(g, _share_of_extremum(x, ans, y)),
        lambda g, ans, x, y: mul(g, _share_of_extremum(y, ans, x)),
    ),
    lowering=_extremum_lowering(Opcode.MAXIMUM, gt),
)
min_p: Primitive = define_nary(
    "min",
    None,
    (ANY, ANY),
    (
        lambda g, ans, x, y: mul(g, _share_of_extremum(x, ans, y)),
        lambda g, ans, x, y: mul(g, _share_of_extremum(y, ans, x)),
    ),
    lowering=_extremum_lowering(Opcode.MINIMUM, lt),
)


def _pow_aval(x: ShapedArray, y: ShapedArray) -> list[ShapedArray]:
    check_dtype("pow", x, INEXACT, 0)
    if not is_integer(y.dtype) and y.dtype != x.dtype:
        fail(
            TypeError,
            "lax.pow requires an exponent of an integer dtype or the base's dtype, got "
            f"{x.dtype}, {y.dtype}.",
            fix="convert the exponent with lax.convert_element_type, or use jnp.power.",
        )
    weak = x.weak_type and y.weak_type
    return [ShapedArray(broadcast_result_shape("pow", (x, y)), x.dtype, weak)]


def _pow_base_jvp(g: Array, ans: Array, x: Array, y: Array) -> Array:
    zero, one = scalar_like(0, y), scalar_like(1, y)
    if not is_inexact(dtype_of(y)):
        # x**0 has derivative 0 even at x = 0, where 0 * 0**-1 would be nan.
        lowered = select(eq(y, zero), full_value(y, 0), sub(y, one))
        return mul(g, mul(convert_element_type(y, dtype_of(x)), pow(x, lowered)))
    return mul(g, mul(y, pow(x, sub(y, full_value(y, 1)))))


def _pow_exponent_jvp(g: Array, ans: Array, x: Array, y: Array) -> Array:
    nonzero = select(eq(x, scalar_like(0, x)), full_value(x, 1), x)
    return mul(g, mul(log(nonzero), ans))


def _pow_lowering(ctx: Any, x: Any, y: Any) -> Any:
    return hlo_nary(Opcode.POWER)(ctx, x, ctx.builder.convert(y, x.shape.element_type))


pow_p: Primitive = define_nary(
    "pow",
    None,
    (INEXACT, NUMBER),
    (_pow_base_jvp, _pow_exponent_jvp),
    lowering=_pow_lowering,
    abstract_eval=_pow_aval,
)


def _integer_pow_jvp(g: Array, ans: Array, x: Array, *, y: int) -> Array:
    if y == 0:
        return full_value(g, 0)
    return mul(g, mul(scalar_like(y, x), integer_pow(x, y - 1)))


def _integer_pow_lowering(ctx: Any, x: Any, *, y: int) -> Any:
    """Repeated squaring: x**13 = x * x**4 * x**8."""
    builder, shape = ctx.builder, ctx.shapes_out[0]
    if y == 0:
        return builder.full(shape, 1)
    remaining, power, product = builtins.abs(y), x, None
    while True:
        if remaining & 1:
            product = (
                power
                if product is None
                else builder.add(Opcode.MULTIPLY, (product, power), shape=shape)
            )
        remaining >>= 1
        if not remaining:
            break
        power = builder.add(Opcode.MULTIPLY, (power, power), shape=shape)
    if y < 0:
        product = builder.add(Opcode.DIVIDE, (builder.full(shape, 1), product), shape=shape)
    return product


# Both operands are arrays of integers: x^y modulo 2^bits; a negative y gives 0, but of 1 and -1.
integer_power_p: Primitive = define_nary(
    "integer_power", Opcode.POWER, (INTEGER, INTEGER), ZERO_TANGENT
)
integer_pow_p: Primitive = define_unary(
    "integer_pow", None, NUMBER, _integer_pow_jvp, lowering=_integer_pow_lowering
)
square_p: Primitive = define_unary(
    "square",
    None,
    NUMBER,
    lambda g, ans, x: mul(g, mul(scalar_like(2, x), x)),
    lowering=lambda ctx, x: ctx.builder.add(Opcode.MULTIPLY, (x, x), shape=ctx.shapes_out[0]),
)
log_p: Primitive = define_unary("log", Opcode.LOG, INEXACT, lambda g, ans, x, **_: div(g, x))
floor_p: Primitive = define_unary("floor", Opcode.FLOOR, FLOATING, ZERO_TANGENT)


def _sign_lowering(ctx: Any, x: Any) -> Any:
    dtype = ctx.avals_in[0].dtype
    if dtype in REAL_NUMBER and dtype not in SIGNED and not is_inexact(dtype):
        # HLO's sign is defined for signed types only.
        builder, shape = ctx.builder, ctx.shapes_out[0]
        return builder.add(Opcode.MINIMUM, (x, builder.full(shape, 1)), shape=shape)
    return hlo_unary(Opcode.SIGN)(ctx, x)


sign_p: Primitive = define_unary("sign", None, NUMBER, ZERO_TANGENT, lowering=_sign_lowering)


def _abs_jvp(g: Array, ans: Array, x: Array) -> Array:
    if is_complex(dtype_of(x)):
        nonzero = select(eq(ans, scalar_like(0, ans)), full_value(ans, 1), ans)
        return div(add(mul(real(g), real(x)), mul(imag(g), imag(x))), nonzero)
    return select(ge(x, scalar_like(0, x)), g, neg(g))


abs_p: Primitive = define_unary("abs", Opcode.ABS, SIGNED | INEXACT, _abs_jvp, result=real_dtype)

# -- parts of complex numbers ----------------------------------------------------------------------

real_p: Primitive = define_unary(
    "real",
    Opcode.REAL,
    COMPLEX,
    LINEAR,
    transpose=unary_transpose(lambda ct, x: complex(ct, full_value(ct, 0))),
    result=real_dtype,
)
imag_p: Primitive = define_unary(
    "imag",
    Opcode.IMAG,
    COMPLEX,
    LINEAR,
    # Cotangents pair with tangents without conjugation: Im(x) = Re(-i x).
    transpose=unary_transpose(lambda ct, x: complex(full_value(ct, 0), neg(ct))),
    result=real_dtype,
)
complex_p: Primitive = define_nary(
    "complex",
    Opcode.COMPLEX,
    (FLOATING, FLOATING),
    (
        lambda g, ans, x, y: complex(g, full_value(g, 0)),
        lambda g, ans, x, y: complex(full_value(g, 0), g),
    ),
    transpose=lambda ct, x, y: [
        real(ct) if ad.is_undefined_primal(x) else None,
        neg(imag(ct)) if ad.is_undefined_primal(y) else None,
    ],
    result=lambda x, y: complex_dtype(x),
)


def _conj_lowering(ctx: Any, x: Any, *, input_dtype: Any) -> Any:
    builder, shape = ctx.builder, ctx.shapes_out[0]
    if not is_complex(input_dtype):
        return builder.add(Opcode.COMPLEX, (x, builder.full(x.shape, 0)), shape=shape)
    narrow = x.shape.element_type is PrimitiveType.C64
    part = x.shape.with_type(PrimitiveType.F32 if narrow else PrimitiveType.F64)
    re = builder.add(Opcode.REAL, (x,), shape=part)
    im = builder.add(Opcode.NEGATE, (builder.add(Opcode.IMAG, (x,), shape=part),), shape=part)
    return builder.add(Opcode.COMPLEX, (re, im), shape=shape)


def _conj_transpose(ct: Array, x: Any, *, input_dtype: Any) -> Array:
    conjugate = conj(ct)
    return conjugate if is_complex(input_dtype) else real(conjugate)


def _conj_aval(x: ShapedArray, *, input_dtype: Any) -> list[ShapedArray]:
    check_dtype("conj", x, INEXACT, 0)
    return [ShapedArray(x.shape, complex_dtype(x.dtype), x.weak_type)]


conj_p = define_primitive(
    "conj",
    abstract_eval=_conj_aval,
    jvp=LINEAR,
    transpose=unary_transpose(_conj_transpose),
    batching=elementwise_batching,
    lowering=_conj_lowering,
)


# -- public functions ------------------------------------------------------------------------------


def neg(x: ArrayLike) -> Array:
    """-x, elementwise. Unsigned integers wrap around. TypeError for bool.

    >>> lax.neg(jnp.array([1, -2]))
    Array([-1,  2], dtype=int32)
    """
    return neg_p.bind1(x)


def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y, elementwise; integers wrap around.

    Operands have one dtype (a Python scalar takes the other's) and equal shapes, where scalars and
    size-1 dimensions stretch.

    Raises:
      TypeError: dtypes differ, shapes do not fit, or an operand is bool.

    >>> lax.add(jnp.array([1, 2]), jnp.array([10, 20]))
    Array([11, 22], dtype=int32)
    """
    x, y = nary_operands("add", x, y)
    return add_p.bind1(x, y)


def sub(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y, elementwise; operands as in `add`.

    >>> lax.sub(jnp.array([1, 2]), jnp.array([10, 20]))
    Array([ -9, -18], dtype=int32)
    """
    x, y = nary_operands("sub", x, y)
    return sub_p.bind1(x, y)


def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: Any = None) -> Array:
    """x * y, elementwise; operands as in `add`. `out_dtype` widens the operands before
    multiplying.

    >>> lax.mul(jnp.array([1, 2]), jnp.array([10, 20]))
    Array([10, 40], dtype=int32)
    """
    x, y = nary_operands("mul", x, y)
    return mul_p.bind1(x, y, out_dtype=out_dtype)


def div(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y, elementwise; integers round towards zero, x / 0 is -1 (all bits one).

    >>> lax.div(jnp.array([7, -7]), jnp.array([2, 2]))
    Array([ 3, -3], dtype=int32)
    """
    x, y = nary_operands("div", x, y)
    return div_p.bind1(x, y)


def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """Remainder of x / y with the sign of x (C's fmod); integers: x for y = 0. Not for complex.

    >>> lax.rem(jnp.array([7, -7]), jnp.array([3, 3]))
    Array([ 1, -1], dtype=int32)
    """
    x, y = nary_operands("rem", x, y)
    return rem_p.bind1(x, y)


def max(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger of x and y, nan if either is nan; complex numbers are ordered lexicographically.

    Where both are equal the gradient is shared half and half.

    >>> lax.max(jnp.array([1, 5]), jnp.array([3, 3]))
    Array([3, 5], dtype=int32)
    """
    x, y = nary_operands("max", x, y)
    return max_p.bind1(x, y)


def min(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller of x and y, nan if either is nan; complex numbers are ordered
    lexicographically.

    >>> lax.min(jnp.array([1, 5]), jnp.array([3, 3]))
    Array([1, 3], dtype=int32)
    """
    x, y = nary_operands("min", x, y)
    return min_p.bind1(x, y)


def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """x to the power y. x is inexact; y has x's dtype or an integer dtype. 0**0 is 1.

    Raises:
      TypeError: x is not inexact, or y is a floating array of another dtype.
    Accuracy: complex powers within 32 units in the last place for exponents up to 3.

    >>> lax.pow(jnp.array([2.0, 3.0]), 2.0)
    Array([4., 9.], dtype=float32)
    """
    if type(y) is int:
        y = np.asarray(y, canonical_dtype(np.int_))
        if aval_of(x).weak_type:
            return structural.convert_element_type(pow_p.bind1(x, y), dtype_of(x), True)
    elif type(x) is not type(y) and not is_integer(dtype_of(y)):
        x, y = nary_operands("pow", x, y)
    return pow_p.bind1(x, y)


def _check_negative_power(name: str, x: ArrayLike) -> None:
    if not is_inexact(dtype_of(x)):
        fail(
            TypeError,
            f"lax.{name}: integers cannot be raised to negative powers, got {dtype_of(x)}.",
            fix="convert the operand with lax.convert_element_type(x, 'float32') first.",
        )


def integer_pow(x: ArrayLike, y: int) -> Array:
    """x to the static integer power y, by repeated squaring; x**-n is 1 / x**n.

    >>> lax.integer_pow(jnp.array([2.0, 3.0]), 3)
    Array([ 8., 27.], dtype=float32)
    """
    y = operator.index(y)
    if y < 0:
        _check_negative_power("integer_pow", x)
    return integer_pow_p.bind1(x, y=y)


def integer_power(x: ArrayLike, y: ArrayLike) -> Array:
    """x ** y of integers of one dtype, wrapping; negative powers are 0 except of 1 and -1."""
    return integer_power_p.bind1(*nary_operands("integer_power", x, y))


def square(x: ArrayLike) -> Array:
    """x * x, elementwise.

    >>> lax.square(3.0)
    Array(9., dtype=float32, weak_type=True)
    """
    return square_p.bind1(x)


def reciprocal(x: ArrayLike) -> Array:
    """1 / x, elementwise.

    >>> lax.reciprocal(4.0)
    Array(0.25, dtype=float32, weak_type=True)
    """
    _check_negative_power("reciprocal", x)
    return integer_pow(x, -1)


def log(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Natural logarithm: -inf at 0, nan below; complex: principal branch.

    >>> lax.log(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return log_p.bind1(x, accuracy=accuracy)


def floor(x: ArrayLike) -> Array:
    """The largest integer not above x, in x's floating dtype.

    >>> lax.floor(jnp.array([-1.5, 1.5]))
    Array([-2.,  1.], dtype=float32)
    """
    return floor_p.bind1(x)


def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1 with x's dtype (-0.0 and nan stay); complex: x / |x|, and 0 at 0.

    >>> lax.sign(jnp.array([-2.0, 0.0, 3.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """
    return sign_p.bind1(x)


def abs(x: ArrayLike) -> Array:
    """Absolute value; complex input gives its real modulus. The derivative at 0 is 1.

    >>> lax.abs(jnp.array([-1.5, 2.0]))
    Array([1.5, 2. ], dtype=float32)
    """
    return abs_p.bind1(x)


def real(x: ArrayLike) -> Array:
    """Real part of a complex array. TypeError for real input.

    >>> lax.real(jnp.array([1 + 2j]))
    Array([1.], dtype=float32)
    """
    return real_p.bind1(x)


def imag(x: ArrayLike) -> Array:
    """Imaginary part of a complex array. TypeError for real input.

    >>> lax.imag(jnp.array([1 + 2j]))
    Array([2.], dtype=float32)
    """
    return imag_p.bind1(x)


def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """x + iy from two float32 (or float64) arrays.

    >>> lax.complex(1.0, 2.0)
    Array(1.+2.j, dtype=complex64, weak_type=True)
    """
    x, y = nary_operands("complex", x, y)
    return complex_p.bind1(x, y)


def conj(x: ArrayLike) -> Array:
    """Complex conjugate; real input is made complex first.

    >>> lax.conj(jnp.array([1 + 2j]))
    Array([1.-2.j], dtype=complex64)
    """
    return conj_p.bind1(x, input_dtype=dtype_of(x))
