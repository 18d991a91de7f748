"""The exact floating-point remainder (C fmod) on f32 and f64 lanes."""

from __future__ import annotations

from xla_backend.llvm.math_basics import (
    INF,
    NAN,
    bits,
    fabs,
    fcmp,
    fmt,
    from_bits,
    iop,
    pick,
    remainder_of_quotient,
)
from xla_backend.llvm.types import const, mask_of
from xla_backend.llvm.writer import FunctionWriter


def remainder(w: FunctionWriter, ty: str, a: str, b: str) -> str:
    """a - trunc(a / b) * b without rounding; the sign of a; NaN for infinite a or zero b.

    Each round subtracts an exact multiple of y from x. A quotient below 2^mantissa finishes at
    once; of a larger one only the two leading bits are used, so that the product stays exact.
    """
    f = fmt(ty)
    mask = mask_of(ty)
    x, y = fabs(w, ty, a), fabs(w, ty, b)
    usable = w.op("and", mask, fcmp(w, ty, "olt", x, INF), fcmp(w, ty, "ogt", y, 0.0))
    usable = w.op("and", mask, usable, fcmp(w, ty, "olt", y, INF))
    x0, y0 = pick(w, ty, usable, x, 0.0), pick(w, ty, usable, y, 1.0)
    stretch = const(ty, 2.0 ** (100 if f.mantissa == 23 else 900))

    def more(values: list[str]) -> str:
        return w.reduce("or", mask, w.cmp("oge", ty, values[0], y0))

    def step(values: list[str]) -> list[str]:
        r = values[0]
        divisor, q = y0, w.op("fdiv", ty, r, y0)
        for _ in range(2):  # where the quotient overflows, a multiple of y does as well
            over = fcmp(w, ty, "oeq", q, INF)
            divisor = w.select(over, ty, w.op("fmul", ty, divisor, stretch), divisor)
            q = w.op("fdiv", ty, r, divisor)
        lowered = w.op("fmul", ty, q, const(ty, 1.0 - 2.0 ** (4 - f.mantissa)))
        leading = iop(w, ty, "and", bits(w, ty, lowered), -(1 << (f.mantissa - 1)))
        large = fcmp(w, ty, "oge", q, 2.0 ** (f.mantissa - 1))
        multiple = w.select(large, ty, from_bits(w, ty, leading), w.intrinsic("trunc", ty, q))
        left = remainder_of_quotient(w, ty, r, multiple, divisor)
        # The rounded quotient may have reached the next integer: give one back.
        negative = fcmp(w, ty, "olt", left, 0.0)
        left = w.select(negative, ty, w.op("fadd", ty, left, divisor), left)
        return [w.select(w.cmp("oge", ty, r, y0), ty, left, r)]

    result = w.while_([(ty, x0)], more, step)[0]
    result = w.select(fcmp(w, ty, "oeq", y, INF), ty, x, result)
    bad = w.op("or", mask, fcmp(w, ty, "ueq", x, INF), fcmp(w, ty, "ueq", y, 0.0))
    return pick(w, ty, bad, NAN, w.intrinsic("copysign", ty, result, a))
