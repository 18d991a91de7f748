"""erf for f32 and f64 lanes.

|x| < 1: x + x P(x^2). Beyond: 1 - e^Q with Q a polynomial for log(erfc); the fits weigh the error by
erfc, which is what reaches the result. |x| >= 4 (f32) or 6 (f64) gives 1.
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
# in u = (x - 3.5) / 2.5
_BIG_F64 = (
    -14.112437402148188,
    -18.16524897091302,
    -6.042206592131919,
    -0.08165090962997906,
    0.03412841126252153,
    -0.014384551172223339,
    0.005953683350411061,
    -0.0023740394896987647,
    0.0008937037448557315,
    -0.0003069432242854595,
    9.262887810852248e-05,
    -1.8819856665259872e-05,
    -1.0017790343328893e-05,
    -1.3190563818831023e-05,
    -1.643294095153476e-05,
    1.4466246940565296e-05,
    4.033779052558537e-05,
    4.8507634888442974e-05,
    3.16233396344093e-05,
    1.1947602901206033e-05,
    2.0433471392914293e-06,
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
        u = w.op("fmul", ty, w.op("fsub", ty, t, const(ty, 3.5)), const(ty, 0.4))
        log_erfc = horner(w, ty, u, _BIG_F64)
    big = w.op("fsub", ty, const(ty, 1.0), exp(w, ty, log_erfc))
    result = w.select(fcmp(w, ty, "olt", a, 1.0), ty, small, big)
    return copysign(w, ty, result, x)
