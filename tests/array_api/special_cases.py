"""Special cases of the array API standard 2024.12, elementwise functions of real numbers.

A line is `operands -> result`. Words stand for numbers of which each is tried:

    any      every number, nan too          number   every number but nan
    finite   finite numbers, zeros too      +, -     positive, negative finite numbers, no zeros
    above, below                            finite numbers above 1, below -1
    in                                      finite numbers of a modulus below 1, no zeros
    odd+, odd-, even+, even-                whole numbers by parity and sign
    part+, part-                            finite numbers that are no whole ones

Results are numbers, `same` (the operand, or the first), `x2` (the second), `neg` (the first,
negated), multiples of `pi/4`, `up` and `down` (the next number), and `zero` and `infinite`, of
either sign. Otherwise signs of zeros count.
"""

from __future__ import annotations

import math

INF, NAN = math.inf, math.nan
_POSITIVE = [0.25, 1.0, 1.5, 2.0, 3.0, 1e30]
_NEGATIVE = [-x for x in _POSITIVE]
FINITE = [*_NEGATIVE, -0.0, 0.0, *_POSITIVE]
CLASSES: dict[str, list[float]] = {
    "any": [NAN, -INF, *FINITE, INF],
    "number": [-INF, *FINITE, INF],
    "finite": FINITE,
    "+": _POSITIVE,
    "-": _NEGATIVE,
    "above": [1.5, 3.0, 1e30, INF],
    "below": [-1.5, -3.0, -1e30, -INF],
    "in+": [0.25, 0.5],
    "in-": [-0.25, -0.5],
    "odd+": [1.0, 3.0],
    "odd-": [-1.0, -3.0],
    "even+": [2.0, 4.0],
    "even-": [-2.0, -4.0],
    "part+": [0.25, 1.5],
    "part-": [-0.25, -1.5],
}

ONE_OPERAND = """
abs: nan -> nan; -0 -> 0; 0 -> 0; -inf -> inf; inf -> inf
acos: nan -> nan; above -> nan; below -> nan; 1 -> 0
acosh: nan -> nan; in+ -> nan; 0 -> nan; - -> nan; -inf -> nan; 1 -> 0; inf -> inf
asin: nan -> nan; above -> nan; below -> nan; 0 -> 0; -0 -> -0
asinh: nan -> nan; 0 -> 0; -0 -> -0; inf -> inf; -inf -> -inf
atan: nan -> nan; 0 -> 0; -0 -> -0; inf -> pi/2; -inf -> -pi/2
atanh: nan -> nan; below -> nan; above -> nan; -1 -> -inf; 1 -> inf; 0 -> 0; -0 -> -0
ceil: inf -> inf; -inf -> -inf; 0 -> 0; -0 -> -0; nan -> nan; in- -> -0; odd+ -> same
cos: nan -> nan; 0 -> 1; -0 -> 1; inf -> nan; -inf -> nan
cosh: nan -> nan; 0 -> 1; -0 -> 1; inf -> inf; -inf -> inf
exp: nan -> nan; 0 -> 1; -0 -> 1; inf -> inf; -inf -> 0
expm1: nan -> nan; 0 -> 0; -0 -> -0; inf -> inf; -inf -> -1
floor: inf -> inf; -inf -> -inf; 0 -> 0; -0 -> -0; nan -> nan; in+ -> 0; odd- -> same
isfinite: inf -> 0; -inf -> 0; nan -> 0; finite -> 1
isinf: inf -> 1; -inf -> 1; nan -> 0; finite -> 0
isnan: nan -> 1; number -> 0
log: nan -> nan; - -> nan; -inf -> nan; 0 -> -inf; -0 -> -inf; 1 -> 0; inf -> inf
log1p: nan -> nan; below -> nan; -1 -> -inf; -0 -> -0; 0 -> 0; inf -> inf
log2: nan -> nan; - -> nan; -inf -> nan; 0 -> -inf; -0 -> -inf; 1 -> 0; inf -> inf
log10: nan -> nan; - -> nan; -inf -> nan; 0 -> -inf; -0 -> -inf; 1 -> 0; inf -> inf
negative: nan -> nan; 0 -> -0; -0 -> 0; inf -> -inf; + -> neg; - -> neg
positive: any -> same
reciprocal: nan -> nan; inf -> 0; -inf -> -0; 0 -> inf; -0 -> -inf
round: inf -> inf; -inf -> -inf; 0 -> 0; -0 -> -0; nan -> nan; 0.5 -> 0; 1.5 -> 2; 2.5 -> 2
round: -0.5 -> -0
sign: - -> -1; -inf -> -1; -0 -> zero; 0 -> 0; + -> 1; inf -> 1; nan -> nan
signbit: 0 -> 0; -0 -> 1; inf -> 0; -inf -> 1; + -> 0; - -> 1; nan -> 0
sin: nan -> nan; 0 -> 0; -0 -> -0; inf -> nan; -inf -> nan
sinh: nan -> nan; 0 -> 0; -0 -> -0; inf -> inf; -inf -> -inf
square: nan -> nan; inf -> inf; -inf -> inf; -0 -> 0
sqrt: nan -> nan; - -> nan; -inf -> nan; 0 -> 0; -0 -> -0; inf -> inf
tan: nan -> nan; 0 -> 0; -0 -> -0; inf -> nan; -inf -> nan
tanh: nan -> nan; 0 -> 0; -0 -> -0; inf -> 1; -inf -> -1
trunc: inf -> inf; -inf -> -inf; 0 -> 0; -0 -> -0; nan -> nan; in+ -> 0; in- -> -0
"""

TWO_OPERANDS = """
add: nan any -> nan; any nan -> nan; inf -inf -> nan; -inf inf -> nan; inf inf -> inf
add: -inf -inf -> -inf; inf finite -> inf; -inf finite -> -inf; finite inf -> inf
add: finite -inf -> -inf; -0 -0 -> -0; -0 0 -> 0; 0 -0 -> 0; 0 0 -> 0; -0 + -> x2; 0 - -> x2
add: + -0 -> same; 1.5 -1.5 -> 0; -1.5 1.5 -> 0
subtract: nan any -> nan; any nan -> nan; inf inf -> nan; -inf -inf -> nan; 0 0 -> 0; -0 0 -> -0
subtract: inf -inf -> inf; finite inf -> -inf; finite -inf -> inf; 1.5 1.5 -> 0
multiply: nan any -> nan; any nan -> nan; inf 0 -> nan; -0 inf -> nan; inf + -> inf; inf - -> -inf
multiply: -inf + -> -inf; -inf - -> inf; inf inf -> inf; inf -inf -> -inf; 0 - -> -0; -0 - -> 0
divide: nan any -> nan; any nan -> nan; inf inf -> nan; -inf inf -> nan; 0 0 -> nan; -0 0 -> nan
divide: 0 + -> 0; 0 - -> -0; -0 + -> -0; -0 - -> 0; + 0 -> inf; + -0 -> -inf; - 0 -> -inf
divide: - -0 -> inf; inf + -> inf; inf - -> -inf; -inf + -> -inf; -inf - -> inf; + inf -> 0
divide: + -inf -> -0; - inf -> -0; - -inf -> 0
floor_divide: nan any -> nan; any nan -> nan; inf inf -> nan; 0 0 -> nan; -0 0 -> nan
floor_divide: 0 + -> 0; 0 - -> -0; -0 + -> -0; -0 - -> 0; + inf -> 0; - -inf -> 0
floor_divide: -1.5 inf -> -1; 1.5 -inf -> -1; 1.5 1 -> 1; -1.5 1 -> -2
remainder: nan any -> nan; any nan -> nan; inf number -> nan; -inf number -> nan; 0 0 -> nan
remainder: + 0 -> nan; - -0 -> nan; 0 + -> 0; -0 + -> 0; 0 - -> -0; -0 - -> -0; + inf -> same
remainder: - inf -> inf; + -inf -> -inf; - -inf -> same; 3 1.5 -> 0; 3 -1.5 -> -0
pow: number 0 -> 1; number -0 -> 1; nan 0 -> 1; nan + -> nan; above nan -> nan; 0 nan -> nan
pow: above inf -> inf; below inf -> inf; above -inf -> 0; below -inf -> 0; 1 inf -> 1; 1 -inf -> 1
pow: -1 inf -> 1; -1 -inf -> 1; in+ inf -> 0; in- inf -> 0; in+ -inf -> inf; in- -inf -> inf
pow: inf + -> inf; inf - -> 0; -inf odd+ -> -inf; -inf even+ -> inf; -inf part+ -> inf
pow: -inf odd- -> -0; -inf even- -> 0; -inf part- -> 0; 0 + -> 0; 0 - -> inf; -0 odd+ -> -0
pow: -0 even+ -> 0; -0 part+ -> 0; -0 odd- -> -inf; -0 even- -> inf; -0 part- -> inf
pow: - part+ -> nan; - part- -> nan; 1 nan -> 1; 1 finite -> 1
atan2: nan any -> nan; any nan -> nan; + 0 -> pi/2; + -0 -> pi/2; 0 + -> 0; 0 0 -> 0; 0 -0 -> pi
atan2: 0 - -> pi; -0 + -> -0; -0 0 -> -0; -0 -0 -> -pi; -0 - -> -pi; - 0 -> -pi/2; - -0 -> -pi/2
atan2: + inf -> 0; + -inf -> pi; - inf -> -0; - -inf -> -pi; inf finite -> pi/2
atan2: -inf finite -> -pi/2; inf inf -> pi/4; inf -inf -> 3pi/4; -inf inf -> -pi/4
atan2: -inf -inf -> -3pi/4
hypot: inf any -> inf; -inf any -> inf; any inf -> inf; any -inf -> inf; nan finite -> nan
hypot: finite nan -> nan; 0 + -> x2; -0 + -> x2; + 0 -> same; - -0 -> neg; 0 -0 -> 0
copysign: + - -> neg; - + -> neg; - -0 -> same; + -inf -> neg; nan any -> nan; -0 + -> 0; 0 - -> -0
nextafter: nan any -> nan; any nan -> nan; finite inf -> up; finite -inf -> down; 0 -0 -> x2
maximum: nan any -> nan; any nan -> nan; inf number -> inf; -inf number -> x2
minimum: nan any -> nan; any nan -> nan; -inf number -> -inf; inf number -> x2
logaddexp: nan any -> nan; any nan -> nan; inf number -> inf; number inf -> inf; -inf -inf -> -inf
equal: nan any -> 0; any nan -> 0; 0 -0 -> 1; inf inf -> 1; inf finite -> 0
not_equal: nan any -> 1; any nan -> 1; 0 -0 -> 0; -inf -inf -> 0
less: nan any -> 0; any nan -> 0; -inf finite -> 1; finite inf -> 1; 0 -0 -> 0
less_equal: nan any -> 0; any nan -> 0; 0 -0 -> 1
greater: nan any -> 0; any nan -> 0; inf finite -> 1; 0 -0 -> 0
greater_equal: nan any -> 0; any nan -> 0; -0 0 -> 1
"""

# x + iy -> u + iv, for y >= 0: the conjugate of the operand has the conjugate result.
COMPLEX = """
exp: (0, 0) -> (1, 0); (-0, 0) -> (1, 0); (+, inf) -> (nan, nan); (+, nan) -> (nan, nan)
exp: (inf, 0) -> (inf, 0); (-inf, 1) -> (0, 0); (inf, 1) -> (inf, inf)
exp: (-inf, inf) -> (zero, zero)
exp: (inf, inf) -> (infinite, nan); (-inf, nan) -> (zero, zero)
exp: (inf, nan) -> (infinite, nan); (nan, 0) -> (nan, 0)
exp: (nan, +) -> (nan, nan); (nan, nan) -> (nan, nan)
expm1: (0, 0) -> (0, 0); (-0, 0) -> (-0, 0); (+, inf) -> (nan, nan); (+, nan) -> (nan, nan)
expm1: (inf, 0) -> (inf, 0); (-inf, 1) -> (-1, 0); (inf, 1) -> (inf, inf)
expm1: (-inf, inf) -> (-1, zero)
expm1: (inf, inf) -> (infinite, nan); (-inf, nan) -> (-1, zero); (inf, nan) -> (infinite, nan)
expm1: (nan, 0) -> (nan, 0); (nan, +) -> (nan, nan); (nan, nan) -> (nan, nan)
log: (-0, 0) -> (-inf, pi); (0, 0) -> (-inf, 0); (+, inf) -> (inf, pi/2); (+, nan) -> (nan, nan)
log: (-inf, +) -> (inf, pi); (inf, +) -> (inf, 0); (-inf, inf) -> (inf, 3pi/4)
log: (inf, inf) -> (inf, pi/4); (inf, nan) -> (inf, nan); (-inf, nan) -> (inf, nan)
log: (nan, +) -> (nan, nan); (nan, inf) -> (inf, nan); (nan, nan) -> (nan, nan)
log1p: (-1, 0) -> (-inf, 0); (+, inf) -> (inf, pi/2); (+, nan) -> (nan, nan); (-inf, +) -> (inf, pi)
log1p: (inf, +) -> (inf, 0); (-inf, inf) -> (inf, 3pi/4); (inf, inf) -> (inf, pi/4)
log1p: (inf, nan) -> (inf, nan); (nan, +) -> (nan, nan); (nan, inf) -> (inf, nan)
sqrt: (0, 0) -> (0, 0); (-0, 0) -> (0, 0); (any, inf) -> (inf, inf); (+, nan) -> (nan, nan)
sqrt: (-inf, +) -> (0, inf); (inf, +) -> (inf, 0); (-inf, nan) -> (nan, infinite)
sqrt: (inf, nan) -> (inf, nan)
sqrt: (nan, +) -> (nan, nan); (nan, nan) -> (nan, nan)
sinh: (0, 0) -> (0, 0); (0, inf) -> (zero, nan); (0, nan) -> (zero, nan); (+, inf) -> (nan, nan)
sinh: (+, nan) -> (nan, nan); (inf, 0) -> (inf, 0); (inf, 1) -> (inf, inf)
sinh: (inf, inf) -> (infinite, nan); (inf, nan) -> (infinite, nan); (nan, 0) -> (nan, 0)
sinh: (nan, +) -> (nan, nan); (nan, nan) -> (nan, nan)
cosh: (0, 0) -> (1, zero); (0, inf) -> (nan, zero); (0, nan) -> (nan, zero); (+, inf) -> (nan, nan)
cosh: (+, nan) -> (nan, nan); (inf, 0) -> (inf, zero); (inf, 1) -> (inf, inf)
cosh: (inf, inf) -> (infinite, nan); (inf, nan) -> (inf, nan); (nan, 0) -> (nan, zero)
cosh: (nan, +) -> (nan, nan); (nan, nan) -> (nan, nan)
tanh: (0, 0) -> (0, 0); (+, inf) -> (nan, nan); (+, nan) -> (nan, nan); (inf, 1) -> (1, 0)
tanh: (inf, inf) -> (1, zero); (inf, nan) -> (1, zero); (nan, 0) -> (nan, 0); (nan, +) -> (nan, nan)
acos: (0, 0) -> (pi/2, -0); (-0, 0) -> (pi/2, -0); (0, nan) -> (pi/2, nan); (+, inf) -> (pi/2, -inf)
acos: (+, nan) -> (nan, nan); (-inf, +) -> (pi, -inf); (inf, +) -> (0, -inf)
acos: (-inf, inf) -> (3pi/4, -inf); (inf, inf) -> (pi/4, -inf); (inf, nan) -> (nan, infinite)
acos: (nan, +) -> (nan, nan); (nan, inf) -> (nan, -inf); (nan, nan) -> (nan, nan)
acosh: (0, 0) -> (0, pi/2); (-0, 0) -> (0, pi/2); (+, inf) -> (inf, pi/2); (+, nan) -> (nan, nan)
acosh: (0, nan) -> (nan, pi/2); (-inf, +) -> (inf, pi); (inf, +) -> (inf, 0)
acosh: (-inf, inf) -> (inf, 3pi/4); (inf, inf) -> (inf, pi/4); (inf, nan) -> (inf, nan)
acosh: (nan, +) -> (nan, nan); (nan, inf) -> (inf, nan); (nan, nan) -> (nan, nan)
asinh: (0, 0) -> (0, 0); (+, inf) -> (inf, pi/2); (+, nan) -> (nan, nan); (inf, +) -> (inf, 0)
asinh: (inf, inf) -> (inf, pi/4); (inf, nan) -> (inf, nan); (nan, 0) -> (nan, 0)
asinh: (nan, +) -> (nan, nan); (nan, inf) -> (infinite, nan); (nan, nan) -> (nan, nan)
atanh: (0, 0) -> (0, 0); (0, nan) -> (0, nan); (1, 0) -> (inf, 0); (+, inf) -> (0, pi/2)
atanh: (+, nan) -> (nan, nan); (inf, +) -> (0, pi/2); (inf, inf) -> (0, pi/2)
atanh: (inf, nan) -> (zero, nan)
atanh: (nan, +) -> (nan, nan); (nan, inf) -> (zero, pi/2); (nan, nan) -> (nan, nan)
abs: (inf, any) -> (inf, 0); (any, inf) -> (inf, 0); (nan, 1) -> (nan, 0); (0, 0) -> (0, 0)
sign: (0, 0) -> (0, 0); (nan, 1) -> (nan, nan); (1, nan) -> (nan, nan)
"""

_SIGNS = "signs of zeros are the reference's: those of a sum, not those of the operands"
_POISON = "a nan or an infinite angle makes both parts nan, as in the reference"

# Rules that are not followed, by function, and why.
DEPARTURES: dict[str, dict[str, str]] = {
    "floor_divide": dict.fromkeys(["-0 + -> -0", "-0 - -> 0", "- -inf -> 0"], _SIGNS),
    "remainder": dict.fromkeys(["-0 + -> 0", "0 - -> -0", "3 -1.5 -> -0"], _SIGNS),
    "exp": dict.fromkeys(
        ["(inf, inf) -> (infinite, nan)", "(inf, nan) -> (infinite, nan)"], _POISON
    ),
    "expm1": dict.fromkeys(
        [
            "(-inf, inf) -> (-1, zero)",
            "(inf, inf) -> (infinite, nan)",
            "(-inf, nan) -> (-1, zero)",
            "(inf, nan) -> (infinite, nan)",
        ],
        _POISON,
    ),
    "sinh": dict.fromkeys(
        [
            "(0, inf) -> (zero, nan)",
            "(0, nan) -> (zero, nan)",
            "(inf, inf) -> (infinite, nan)",
            "(inf, nan) -> (infinite, nan)",
        ],
        _POISON,
    ),
    "cosh": dict.fromkeys(
        [
            "(inf, inf) -> (infinite, nan)",
            "(inf, nan) -> (inf, nan)",
        ],
        _POISON,
    ),
    "acos": {"(0, nan) -> (pi/2, nan)": _POISON},
    "acosh": {"(0, nan) -> (nan, pi/2)": _POISON},
    "asinh": {"(nan, 0) -> (nan, 0)": _POISON},
}
