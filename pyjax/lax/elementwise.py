"""Transcendental functions and rounding, as one table of unary primitives, and atan2."""

from __future__ import annotations

import enum
import math
from typing import Any

from pyjax.core.array import Array, ArrayLike
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.interpreters.rules import ZERO_TANGENT
from pyjax.lax.arithmetic import add, div, integer_pow, mul, neg, square, sub
from pyjax.lax.common import FLOATING, INEXACT, hlo_unary, nary_operands, scalar_like, to_bool
from pyjax.lax.nary import define_nary, define_unary
from xla_backend.hlo.opcode import Opcode

__all__ = [
    "AccuracyMode", "RoundingMethod", "Tolerance", "acos", "acos_p", "acosh", "acosh_p", "asin",
    "asin_p", "asinh", "asinh_p", "atan", "atan2", "atan2_p", "atan_p", "atanh", "atanh_p",
    "cbrt", "cbrt_p", "ceil", "ceil_p", "cos", "cos_p", "cosh", "cosh_p", "erf", "erf_p", "exp",
    "exp2", "exp2_p", "exp_p", "expm1", "expm1_p", "is_finite", "is_finite_p", "log1p",
    "log1p_p", "logistic", "logistic_p", "round", "round_p", "rsqrt", "rsqrt_p", "sin", "sin_p",
    "sinh", "sinh_p", "sqrt", "sqrt_p", "tan", "tan_p", "tanh", "tanh_p",
]  # fmt: skip


class RoundingMethod(enum.IntEnum):
    """How `round` treats values half way between two integers.

    >>> lax.RoundingMethod.TO_NEAREST_EVEN.name
    'TO_NEAREST_EVEN'
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


class Tolerance:
    """How exact an approximation must be; accepted for compatibility (ours stay within 2 ulp).

    >>> lax.Tolerance(rtol=1e-6)
    Tolerance(atol=0.0, rtol=1e-06, ulps=0)
    """

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0) -> None:
        if atol < 0.0 or rtol < 0.0 or ulps < 0:
            raise new_error(
                ValueError,
                f"Tolerances must be nonnegative, got atol={atol}, rtol={rtol}, ulps={ulps}",
            )
        self.atol, self.rtol, self.ulps = atol, rtol, ulps

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tolerance) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.atol, self.rtol, self.ulps))

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


class AccuracyMode(enum.Enum):
    """Named accuracies; accepted for compatibility.

    >>> float(lax.exp(1.0, accuracy=lax.AccuracyMode.HIGHEST)) == float(lax.exp(1.0))
    True
    """

    HIGHEST = 1
    DEFAULT = 2


def _one_minus(x: Array) -> Array:
    return sub(scalar_like(1, x), x)


def _one_plus(x: Array) -> Array:
    return add(scalar_like(1, x), x)


def _times(factor: float, x: Array) -> Array:
    return mul(scalar_like(factor, x), x)


def _exp2_lowering(ctx: Any, x: Any, **_: Any) -> Any:
    # A power of 2 rather than exp(x log 2), which loses digits in proportion to |x|.
    shape = ctx.shapes_out[0]
    return ctx.builder.add(Opcode.POWER, (ctx.builder.full(shape, 2), x), shape=shape)


def _atan_lowering(ctx: Any, x: Any) -> Any:
    shape = ctx.shapes_out[0]
    return ctx.builder.add(Opcode.ATAN2, (x, ctx.builder.full(shape, 1)), shape=shape)


def _round_lowering(ctx: Any, x: Any, *, rounding_method: RoundingMethod) -> Any:
    even = rounding_method is RoundingMethod.TO_NEAREST_EVEN
    opcode = Opcode.ROUND_NEAREST_EVEN if even else Opcode.ROUND_NEAREST_AFZ
    return hlo_unary(opcode)(ctx, x)


# name, opcode, accepted dtypes, tangent(g, ans, x)
_UNARY = [
    ("exp", Opcode.EXPONENTIAL, INEXACT, lambda g, ans, x, **_: mul(g, ans)),
    (
        "expm1",
        Opcode.EXPONENTIAL_MINUS_ONE,
        INEXACT,
        # Not 1 + ans: for x far below 0 it has few digits, or none.
        lambda g, ans, x, **_: mul(g, exp(x)),
    ),
    ("log1p", Opcode.LOG_PLUS_ONE, INEXACT, lambda g, ans, x, **_: div(g, _one_plus(x))),
    (
        "tanh",
        Opcode.TANH,
        INEXACT,
        lambda g, ans, x, **_: mul(add(g, mul(g, ans)), _one_minus(ans)),
    ),
    (
        "logistic",
        Opcode.LOGISTIC,
        INEXACT,
        lambda g, ans, x, **_: mul(g, mul(ans, _one_minus(ans))),
    ),
    ("sin", Opcode.SINE, INEXACT, lambda g, ans, x, **_: mul(g, cos(x))),
    ("cos", Opcode.COSINE, INEXACT, lambda g, ans, x, **_: neg(mul(g, sin(x)))),
    ("tan", Opcode.TAN, INEXACT, lambda g, ans, x, **_: mul(g, _one_plus(square(ans)))),
    ("asin", Opcode.ASIN, INEXACT, lambda g, ans, x: mul(g, rsqrt(_one_minus(square(x))))),
    ("acos", Opcode.ACOS, INEXACT, lambda g, ans, x: neg(mul(g, rsqrt(_one_minus(square(x)))))),
    ("sinh", Opcode.SINH, INEXACT, lambda g, ans, x: mul(g, cosh(x))),
    ("cosh", Opcode.COSH, INEXACT, lambda g, ans, x: mul(g, sinh(x))),
    ("asinh", Opcode.ASINH, INEXACT, lambda g, ans, x: mul(g, rsqrt(_one_plus(square(x))))),
    (
        "acosh",
        Opcode.ACOSH,
        INEXACT,
        lambda g, ans, x: mul(g, rsqrt(mul(sub(x, scalar_like(1, x)), _one_plus(x)))),
    ),
    ("atanh", Opcode.ATANH, INEXACT, lambda g, ans, x: div(g, mul(_one_minus(x), _one_plus(x)))),
    (
        "sqrt",
        Opcode.SQRT,
        INEXACT,
        lambda g, ans, x, **_: mul(g, div(scalar_like(0.5, x), ans)),
    ),
    (
        "rsqrt",
        Opcode.RSQRT,
        INEXACT,
        lambda g, ans, x, **_: mul(g, _times(-0.5, div(ans, x))),
    ),
    (
        "cbrt",
        Opcode.CBRT,
        FLOATING,
        lambda g, ans, x, **_: mul(g, _times(1 / 3, integer_pow(ans, -2))),
    ),
    ("ceil", Opcode.CEIL, FLOATING, ZERO_TANGENT),
    (
        "erf",
        Opcode.ERF,
        FLOATING,
        lambda g, ans, x: mul(scalar_like(2 / math.sqrt(math.pi), x), mul(g, exp(neg(square(x))))),
    ),
]
_table = {name: define_unary(name, opcode, accepts, jvp) for name, opcode, accepts, jvp in _UNARY}
exp_p, expm1_p, log1p_p, tanh_p, logistic_p = (
    _table[n] for n in ("exp", "expm1", "log1p", "tanh", "logistic")
)
sin_p, cos_p, tan_p, asin_p, acos_p = (_table[n] for n in ("sin", "cos", "tan", "asin", "acos"))
sinh_p, cosh_p, asinh_p, acosh_p, atanh_p = (
    _table[n] for n in ("sinh", "cosh", "asinh", "acosh", "atanh")
)
sqrt_p, rsqrt_p, cbrt_p, ceil_p, erf_p = (
    _table[n] for n in ("sqrt", "rsqrt", "cbrt", "ceil", "erf")
)

exp2_p: Primitive = define_unary(
    "exp2",
    None,
    INEXACT,
    lambda g, ans, x, **_: mul(g, _times(math.log(2), ans)),
    lowering=_exp2_lowering,
)
atan_p: Primitive = define_unary(
    "atan", None, INEXACT, lambda g, ans, x: div(g, _one_plus(square(x))), lowering=_atan_lowering
)
round_p: Primitive = define_unary("round", None, FLOATING, ZERO_TANGENT, lowering=_round_lowering)
is_finite_p: Primitive = define_unary(
    "is_finite", Opcode.IS_FINITE, FLOATING, ZERO_TANGENT, result=to_bool
)


def _norm_squared(x: Array, y: Array) -> Array:
    return add(square(x), square(y))


atan2_p: Primitive = define_nary(
    "atan2",
    Opcode.ATAN2,
    (INEXACT, INEXACT),
    (
        lambda g, ans, x, y: mul(g, div(y, _norm_squared(x, y))),
        lambda g, ans, x, y: mul(g, div(neg(x), _norm_squared(x, y))),
    ),
)


# -- public functions ------------------------------------------------------------------------------


def exp(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """e**x, elementwise; inf above the dtype's range, subnormal results are kept.

    >>> lax.exp(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return exp_p.bind1(x, accuracy=accuracy)


def exp2(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """2**x, elementwise.

    >>> lax.exp2(3.0)
    Array(8., dtype=float32, weak_type=True)
    """
    return exp2_p.bind1(x, accuracy=accuracy)


def expm1(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """e**x - 1, exact to rounding near 0.

    >>> lax.expm1(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return expm1_p.bind1(x, accuracy=accuracy)


def log1p(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """log(1 + x), exact to rounding near 0; -inf at -1, nan below.

    >>> lax.log1p(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return log1p_p.bind1(x, accuracy=accuracy)


def tanh(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Hyperbolic tangent.

    >>> lax.tanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return tanh_p.bind1(x, accuracy=accuracy)


def logistic(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """1 / (1 + e**-x), the sigmoid.

    Accuracy: within 4 units in the last place, of its square where that is larger: next to poles.

    >>> lax.logistic(0.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return logistic_p.bind1(x, accuracy=accuracy)


def sin(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Sine of x in radians; nan at infinities.

    >>> lax.sin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return sin_p.bind1(x, accuracy=accuracy)


def cos(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Cosine of x in radians; nan at infinities.

    >>> lax.cos(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return cos_p.bind1(x, accuracy=accuracy)


def tan(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Tangent of x in radians.

    >>> lax.tan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return tan_p.bind1(x, accuracy=accuracy)


def asin(x: ArrayLike) -> Array:
    """Inverse sine in [-pi/2, pi/2]; real: nan outside [-1, 1].

    >>> lax.asin(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return asin_p.bind1(x)


def acos(x: ArrayLike) -> Array:
    """Inverse cosine in [0, pi]; real: nan outside [-1, 1].

    >>> lax.acos(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return acos_p.bind1(x)


def atan(x: ArrayLike) -> Array:
    """Inverse tangent in [-pi/2, pi/2].

    >>> lax.atan(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return atan_p.bind1(x)


def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """Angle of the point (y, x) in [-pi, pi]: the first operand is the ordinate. Real operands
    only.

    >>> lax.atan2(0.0, 1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    x, y = nary_operands("atan2", x, y)
    return atan2_p.bind1(x, y)


def sinh(x: ArrayLike) -> Array:
    """Hyperbolic sine.

    >>> lax.sinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return sinh_p.bind1(x)


def cosh(x: ArrayLike) -> Array:
    """Hyperbolic cosine.

    >>> lax.cosh(0.0)
    Array(1., dtype=float32, weak_type=True)
    """
    return cosh_p.bind1(x)


def asinh(x: ArrayLike) -> Array:
    """Inverse hyperbolic sine.

    >>> lax.asinh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return asinh_p.bind1(x)


def acosh(x: ArrayLike) -> Array:
    """Inverse hyperbolic cosine; real: nan below 1.

    >>> lax.acosh(1.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return acosh_p.bind1(x)


def atanh(x: ArrayLike) -> Array:
    """Inverse hyperbolic tangent; real: nan outside [-1, 1].

    >>> lax.atanh(0.0)
    Array(0., dtype=float32, weak_type=True)
    """
    return atanh_p.bind1(x)


def sqrt(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Square root; real: nan below 0; complex: the root with nonnegative real part.

    >>> lax.sqrt(4.0)
    Array(2., dtype=float32, weak_type=True)
    """
    return sqrt_p.bind1(x, accuracy=accuracy)


def rsqrt(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """1 / sqrt(x); inf at 0.

    >>> lax.rsqrt(4.0)
    Array(0.5, dtype=float32, weak_type=True)
    """
    return rsqrt_p.bind1(x, accuracy=accuracy)


def cbrt(x: ArrayLike, *, accuracy: Any = None) -> Array:
    """Real cube root, negative for negative x.

    >>> lax.cbrt(jnp.array([-8.0, 27.0])).round(3)
    Array([-2.,  3.], dtype=float32)
    """
    return cbrt_p.bind1(x, accuracy=accuracy)


def ceil(x: ArrayLike) -> Array:
    """The smallest integer not below x, in x's floating dtype.

    >>> lax.ceil(jnp.array([-1.5, 1.5]))
    Array([-1.,  2.], dtype=float32)
    """
    return ceil_p.bind1(x)


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest integer, in x's floating dtype; `rounding_method` decides halves.

    >>> lax.round(jnp.array([0.5, 1.5, -2.5]))
    Array([ 1.,  2., -3.], dtype=float32)
    """
    return round_p.bind1(x, rounding_method=RoundingMethod(rounding_method))


def is_finite(x: ArrayLike) -> Array:
    """False where x is infinite or nan. Floating dtypes only.

    >>> lax.is_finite(jnp.array([1.0, jnp.inf]))
    Array([ True, False], dtype=bool)
    """
    return is_finite_p.bind1(x)


def erf(x: ArrayLike) -> Array:
    """Error function, 2/sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    >>> lax.erf(jnp.array([0.0, jnp.inf]))
    Array([0., 1.], dtype=float32)
    """
    return erf_p.bind1(x)
