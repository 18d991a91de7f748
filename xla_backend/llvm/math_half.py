"""log, sin, cos of f16, in f32 lanes: short forms, exact enough to be rounded once.

Arguments are numbers of f16, so none is subnormal in f32 nor too large for a short reduction.

log: x = m 2^e, m in [1, 2), and c from a table, 1/m but for a 32nd (a 16th at the ends, so that it
is 1 and 1/2 there and log x is exact beside 1): log x = e log 2 - log c + r P(r), r = m c - 1.
sin: |x| = n pi + r, (-1)^n (r + r^3 P(r^2)); for the cosine n is a half more than an integer.
"""

from __future__ import annotations

import math

from xla_backend.llvm.math_basics import Emitter, bits, fabs, fmt, from_bits, horner, iop
from xla_backend.llvm.registers import lookup, split
from xla_backend.llvm.types import const
from xla_backend.llvm.writer import FunctionWriter

_LN2 = 0.6931471824645996
_RECIPROCALS = (
    1.0, 0.9142857193946838, 0.8648648858070374, 0.8205128312110901,
    0.7804877758026123, 0.7441860437393188, 0.7111111283302307, 0.6808510422706604,
    0.6530612111091614, 0.6274510025978088, 0.6037735939025879, 0.581818163394928,
    0.5614035129547119, 0.5423728823661804, 0.5245901346206665, 0.5,
)  # fmt: skip
_LOGS = (
    0.0, 0.08961215615272522, 0.14518198370933533, 0.19782572984695435,
    0.24783620238304138, 0.2954642176628113, 0.34092655777931213, 0.3844117224216461,
    0.42608442902565, 0.4660896956920624, 0.5045560002326965, 0.541597306728363,
    0.5773153305053711, 0.6118015646934509, 0.6451380252838135, _LN2,
)  # fmt: skip
_LOG = (0.9999999743962584, -0.50001007766228, 0.3334842911431007, -0.23830247809367058)
_PI = (3.1415927410125732, -8.742277657347586e-08)
_SIN = (-0.16666656642945796, 0.008333024196702196, -0.00019807350359862816, 2.601749672435266e-06)


def log(w: FunctionWriter, ty: str, x: str) -> str:
    # Of 0, infinity and what has no logarithm e and m are such that nothing else has to be done.
    e, m = split(w, ty, x, subnormals=False)
    interval = iop(w, ty, "lshr", bits(w, ty, m), fmt(ty).mantissa - 4)
    r = w.fma(ty, m, lookup(w, ty, _RECIPROCALS, interval), const(ty, -1.0))
    whole = w.fma(ty, e, const(ty, _LN2), lookup(w, ty, _LOGS, interval))
    return w.fma(ty, r, horner(w, ty, r, _LOG), whole)


def _sine(w: FunctionWriter, ty: str, n: str, odd: str, x: str) -> str:
    """(-1)^odd sin(x - n pi); the number `odd` is as odd as its last bit."""
    r = x
    for part in _PI:
        r = w.fma(ty, n, const(ty, -part), r)
    z = w.op("fmul", ty, r, r)
    value = w.fma(ty, w.op("fmul", ty, z, r), horner(w, ty, z, _SIN), r)
    return _with_sign(w, ty, value, iop(w, ty, "shl", bits(w, ty, odd), 31))


def _with_sign(w: FunctionWriter, ty: str, value: str, sign: str) -> str:
    return from_bits(w, ty, iop(w, ty, "xor", bits(w, ty, value), sign))


def sin(w: FunctionWriter, ty: str, x: str) -> str:
    a, magic = fabs(w, ty, x), const(ty, fmt(ty).magic)
    shifted = w.fma(ty, a, const(ty, 1 / math.pi), magic)
    value = _sine(w, ty, w.op("fsub", ty, shifted, magic), shifted, a)
    return _with_sign(w, ty, value, iop(w, ty, "and", bits(w, ty, x), -(2**31)))


def cos(w: FunctionWriter, ty: str, x: str) -> str:
    magic, half = const(ty, fmt(ty).magic), const(ty, 0.5)
    shifted = w.op("fadd", ty, w.fma(ty, x, const(ty, 1 / math.pi), half), magic)
    n = w.op("fsub", ty, w.op("fsub", ty, shifted, magic), half)
    return _sine(w, ty, n, shifted, x)


HALF_FUNCTIONS: dict[str, Emitter] = {"log": log, "sine": sin, "cosine": cos}
