"""The table of real floating-point functions by HLO opcode text, for f32 and f64 lanes.

FLOAT_FUNCTIONS[name](w, ty, *operands) -> value, ty = float, double or a vector of one of them.
Measured errors (units in the last place) are in docs of the tests; the promise is 1.5 for f32 over
every argument and 2 for f64. Subnormals, signed zeros, infinities and NaN follow IEEE 754 / C99.
"""

from __future__ import annotations

from xla_backend.llvm.math_basics import Emitter, through_double
from xla_backend.llvm.math_erf import erf
from xla_backend.llvm.math_exp import cosh, exp, expm1, logistic, sinh, tanh
from xla_backend.llvm.math_inverse_hyperbolic import acosh, asinh, atanh
from xla_backend.llvm.math_inverse_trig import acos, asin, atan2
from xla_backend.llvm.math_log import log, log1p
from xla_backend.llvm.math_power import cbrt, power, rsqrt
from xla_backend.llvm.math_trig import cos, sin, tan

FLOAT_FUNCTIONS: dict[str, Emitter] = {
    "exponential": exp,
    "exponential-minus-one": expm1,
    "log": log,
    "log-plus-one": log1p,
    "logistic": logistic,
    "tanh": tanh,
    "sinh": through_double(sinh),
    "cosh": through_double(cosh),
    "sine": sin,
    "cosine": cos,
    "tan": through_double(tan),
    "asin": through_double(asin),
    "acos": through_double(acos),
    "atan2": atan2,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "erf": erf,
    "power": power,
    "rsqrt": rsqrt,
    "cbrt": through_double(cbrt),
}
