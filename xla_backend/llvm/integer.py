"""Integer functions with HLO's edge cases, by opcode text.

x / 0 is -1 (all ones), x % 0 is x, INT_MIN / -1 is INT_MIN with remainder 0; a shift by the width
or more gives 0 (the sign for arithmetic shifts). INTEGER_FUNCTIONS[name](w, ty, signed, *operands).
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.math_power import integer_power
from xla_backend.llvm.types import (
    bits_of,
    const,
    constant_integer,
    lanes,
    mask_of,
    suffix,
    with_element,
)
from xla_backend.llvm.writer import FunctionWriter

IntegerEmitter = Callable[..., str]


def _quotient(w: FunctionWriter, ty: str, signed: bool, a: str, b: str) -> str:
    """a / b truncated, for b != 0 and no overflow.

    Vector units divide floats only: up to 32 bits the double quotient, truncated, is exact.
    """
    if lanes(ty) == 1 or bits_of(ty) > 32 or b[0] != "%":
        return w.op("sdiv" if signed else "udiv", ty, a, b)
    float_ty = with_element(ty, "float" if bits_of(ty) <= 16 else "double")
    int_ty = ty
    if bits_of(ty) <= 16:
        int_ty = with_element(ty, "i32")
        extend = "sext" if signed else "zext"
        a, b = w.cast(extend, ty, a, int_ty), w.cast(extend, ty, b, int_ty)
    to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    q = w.op("fdiv", float_ty, w.cast(to, int_ty, a, float_ty), w.cast(to, int_ty, b, float_ty))
    q = w.cast(back, float_ty, q, int_ty)
    return w.cast("trunc", int_ty, q, ty) if int_ty != ty else q


def _safe_division(w: FunctionWriter, ty: str, signed: bool, a: str, b: str) -> tuple[str, str]:
    """(b == 0, a / b where that is defined: a for overflow)."""
    zero = w.cmp("eq", ty, b, const(ty, 0))
    unsafe = zero
    if signed:
        least = const(ty, -(1 << (bits_of(ty) - 1)))
        overflow = w.op(
            "and", mask_of(ty), w.cmp("eq", ty, a, least), w.cmp("eq", ty, b, const(ty, -1))
        )
        unsafe = w.op("or", mask_of(ty), zero, overflow)
    divisor = w.select(unsafe, ty, const(ty, 1), b)
    return zero, _quotient(w, ty, signed, a, divisor)


def _is_plain_divisor(ty: str, b: str) -> bool:
    """A constant divisor that is neither 0 nor -1."""
    return (
        b[0] != "%" and b not in {const(ty, 0), const(ty, -1)} and not b.startswith(("<", "zero"))
    )


def divide(w: FunctionWriter, ty: str, signed: bool, a: str, b: str) -> str:
    if _is_plain_divisor(ty, b):
        return w.op("sdiv" if signed else "udiv", ty, a, b)
    zero, q = _safe_division(w, ty, signed, a, b)
    return w.select(zero, ty, const(ty, -1), q)


def remainder(w: FunctionWriter, ty: str, signed: bool, a: str, b: str) -> str:
    if _is_plain_divisor(ty, b):
        return w.op("srem" if signed else "urem", ty, a, b)
    # For b = 0 the divisor was 1, so a - q b is a - a * 0 = a; for overflow a - a * -1 = 0 wraps.
    _, q = _safe_division(w, ty, signed, a, b)
    return w.op("sub", ty, a, w.op("mul", ty, q, b))


def _shift(opcode: str, beyond: str) -> IntegerEmitter:
    def emit(w: FunctionWriter, ty: str, signed: bool, a: str, amount: str) -> str:
        width = bits_of(ty)
        known = constant_integer(amount)
        if known is not None:
            # Nothing is asked: what a loop asks of a constant is hidden from LLVM, where it stands
            # in front of it, and two shifts are no rotation then.
            known = known if 0 <= known < width else width
            if beyond == "sign":
                return w.op(opcode, ty, a, const(ty, min(known, width - 1)))
            return w.op(opcode, ty, a, amount) if known < width else const(ty, 0)
        inside = w.cmp("ult", ty, amount, const(ty, width))
        if beyond == "sign":
            amount = w.select(inside, ty, amount, const(ty, width - 1))
            return w.op(opcode, ty, a, amount)
        safe = w.select(inside, ty, amount, const(ty, 0))
        return w.select(inside, ty, w.op(opcode, ty, a, safe), const(ty, 0))

    return emit


def _with_flag(name: str) -> IntegerEmitter:
    """Intrinsics with a trailing "poison for the special case" flag, which stays off."""

    def emit(w: FunctionWriter, ty: str, signed: bool, a: str) -> str:
        full = f"llvm.{name}.{suffix(ty)}"
        w.module.declare(full, ty, [ty, "i1"])
        return w.pure(f"call {ty} @{full}({ty} {a}, i1 false)", a)

    return emit


def _sign(w: FunctionWriter, ty: str, signed: bool, a: str) -> str:
    low = w.intrinsic("umin", ty, a, const(ty, 1))
    if not signed:
        return low
    high = w.intrinsic("smin", ty, a, const(ty, 1))
    return w.intrinsic("smax", ty, high, const(ty, -1))


def _abs(w: FunctionWriter, ty: str, signed: bool, a: str) -> str:
    return _with_flag("abs")(w, ty, signed, a) if signed else a


def _mulhi(w: FunctionWriter, ty: str, signed: bool, a: str, b: str) -> str:
    n = bits_of(ty)
    wide = with_element(ty, f"i{2 * n}")
    extend = "sext" if signed else "zext"
    product = w.op("mul", wide, w.cast(extend, ty, a, wide), w.cast(extend, ty, b, wide))
    return w.cast("trunc", wide, w.op("lshr", wide, product, const(wide, n)), ty)


def _plain(opcode: str) -> IntegerEmitter:
    return lambda w, ty, signed, a, b: w.op(opcode, ty, a, b)


def _extreme(kind: str) -> IntegerEmitter:
    return lambda w, ty, signed, a, b: w.intrinsic(("s" if signed else "u") + kind, ty, a, b)


INTEGER_FUNCTIONS: dict[str, IntegerEmitter] = {
    "add": _plain("add"),
    "subtract": _plain("sub"),
    "multiply": _plain("mul"),
    "divide": divide,
    "remainder": remainder,
    "maximum": _extreme("max"),
    "minimum": _extreme("min"),
    "and": _plain("and"),
    "or": _plain("or"),
    "xor": _plain("xor"),
    "shift-left": _shift("shl", "zero"),
    "shift-right-logical": _shift("lshr", "zero"),
    "shift-right-arithmetic": _shift("ashr", "sign"),
    "mulhi": _mulhi,
    "power": lambda w, ty, signed, a, b: integer_power(w, ty, a, b, signed),
    "abs": _abs,
    "sign": _sign,
    "negate": lambda w, ty, signed, a: w.op("sub", ty, const(ty, 0), a),
    "not": lambda w, ty, signed, a: w.not_(ty, a),
    "popcnt": lambda w, ty, signed, a: w.intrinsic("ctpop", ty, a),
    "count-leading-zeros": _with_flag("ctlz"),
}


def _narrow_leading_zeros(w: FunctionWriter, ty: str, width: int, a: str) -> str:
    moved = w.op("shl", ty, a, const(ty, bits_of(ty) - width))
    return w.intrinsic("umin", ty, _with_flag("ctlz")(w, ty, False, moved), const(ty, width))


def _low_bits(w: FunctionWriter, ty: str, width: int, a: str) -> str:
    return w.op("and", ty, a, const(ty, (1 << width) - 1))


def _narrow_arithmetic_shift(w: FunctionWriter, ty: str, width: int, a: str, amount: str) -> str:
    """The top bit of the width is the sign, also of unsigned types."""
    spare = const(ty, bits_of(ty) - width)
    extended = w.op("ashr", ty, w.op("shl", ty, a, spare), spare)
    return INTEGER_FUNCTIONS["shift-right-arithmetic"](w, ty, True, extended, amount)


# Integers of less than 8 bits live in i8 lanes, sign- or zero-extended. These functions look at
# the bits above their width; all others give the right low bits. f(w, ty, width, *operands).
NARROW_INTEGER_FUNCTIONS: dict[str, Callable[..., str]] = {
    "count-leading-zeros": _narrow_leading_zeros,
    "popcnt": lambda w, ty, width, a: w.intrinsic("ctpop", ty, _low_bits(w, ty, width, a)),
    "shift-right-logical": lambda w, ty, width, a, b: INTEGER_FUNCTIONS["shift-right-logical"](
        w, ty, False, _low_bits(w, ty, width, a), b
    ),
    "shift-right-arithmetic": _narrow_arithmetic_shift,
    # Products of two such numbers fit the lane.
    "mulhi": lambda w, ty, width, a, b: w.op("ashr", ty, w.op("mul", ty, a, b), const(ty, width)),
}
