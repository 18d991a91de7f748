"""erf for f32 and f64 lanes.

|x| < 1: x + x P(x^2). Beyond: 1 - e^Q with Q a polynomial for log(erfc); the fits weigh the error
by erfc, which is what reaches the result. |x| >= 4 (f32) or 6 (f64) gives 1.
"""

from __future__ import annotations

from xla_backend.llvm.math_basics import copysign, fabs, fcmp, horner, pick
from xla_backend.llvm.math_exp import exp
from xla_backend.llvm.types import bits_of, const
from xla_backend.llvm.writer import FunctionWriter

_SMALL_F32 = (
    0.12837916612625122,
    -0.3761262595653534,
    0.11283600330352783,
    -0.026854442432522774,
    0.00518953287974,
    -0.0008020816603675485,
    7.889040716690943e-05,
)
_SMALL_F64 = (
    0.1283791670955126,
    -0.37612638903183754,
    0.1128379167095512,
    -0.026866170645129868,
    0.005223977625423607,
    -0.0008548327021955831,
    0.00012055332903804656,
    -1.4925647594278877e-05,
    1.6462045976415138e-06,
    -1.6364649497535778e-07,
    1.4792469169501153e-08,
    -1.2164965912620752e-09,
    8.71045635252597e-11,
    -4.233116303270732e-12,
)
_BIG_F32 = (
    0.0002053275820799172,
    -1.1296660900115967,
    -0.6330286860466003,
    -0.10865246504545212,
    0.02538369596004486,
    -0.004287159536033869,
    0.000465162011096254,
    -2.5535286113154143e-05,
    2.664324085799308e-07,
)
# in |x| - 1
_BIG_F64 = (
    -1.8496055099332482,
    -2.6389675142347913,
    -0.843107256358487,
    -0.04156109804648911,
    0.010033825433952509,
    -0.0019779030195652652,
    0.0002373247082634304,
    2.6270327065848374e-05,
    -2.714083681286783e-05,
    9.57644357978148e-06,
    -2.0167175033380506e-06,
    9.97214244172259e-08,
    1.3042196249427938e-07,
    -7.10806848791961e-08,
    2.3253877321856395e-08,
    -5.593862473449913e-09,
    1.02085730760531e-09,
    -1.3865668342467062e-10,
    1.3252883757934741e-11,
    -7.949287617687186e-13,
    2.2466839392337528e-14,
)


def erf(w: FunctionWriter, ty: str, x: str) -> str:
    single = bits_of(ty) == 32
    a = fabs(w, ty, x)
    z = w.op("fmul", ty, x, x)
    small = w.fma(ty, a, horner(w, ty, z, _SMALL_F32 if single else _SMALL_F64), a)
    limit = 4.0 if single else 6.0
    t = pick(w, ty, fcmp(w, ty, "ogt", a, limit), limit, a)
    if single:
        log_erfc = horner(w, ty, t, _BIG_F32)
    else:
        log_erfc = horner(w, ty, w.op("fsub", ty, t, const(ty, 1.0)), _BIG_F64)
    big = w.op("fsub", ty, const(ty, 1.0), exp(w, ty, log_erfc))
    result = w.select(fcmp(w, ty, "olt", a, 1.0), ty, small, big)
    return copysign(w, ty, result, x)
