"""HLO elementwise operations on lanes: opcode text + element type -> LLVM code.

Values are in register form (see `types`); complex values are pairs (real, imaginary). Results of
narrow floats are rounded to the narrow type after every operation, as HLO defines.

API
  emit(w, name, t, lanes, *operands, accuracy="") -> value        name: HLO opcode text ("add",
        "exponential", "log-plus-one", "maximum", ...); t: the *operand* element type
        real/imag/abs of complex give the component type; is-finite gives pred
  emit_compare(w, direction, t, lanes, a, b, total_order=False) -> i1 lanes   EQ NE LT LE GT GE
  emit_select(w, t, lanes, mask, a, b)
  emit_clamp(w, t, lanes, low, x, high)
  emit_convert(w, source, target, lanes, value)                   complex included
  emit_reduce_precision(w, t, lanes, x, exponent_bits, mantissa_bits)
  emit_bitcast_convert(w, source, target, lanes, value)           types of equal width
  constant(t, lanes, value) -> value                              any Python / NumPy scalar
  load(w, t, lanes, ptr, index, mask=None), store(w, t, lanes, value, ptr, index, mask=None)
        contiguous elements from `index` on; complex too
  EMITTERS: dict[name, fn(w, ty, *operands)] for f32 and f64 lanes
"""

from __future__ import annotations

from typing import Any

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import complex_math
from xla_backend.llvm.byte_quotients import byte_quotient
from xla_backend.llvm.conversions import (
    NARROW,
    convert,
    from_memory,
    reduce_precision,
    round_to,
    to_memory,
)
from xla_backend.llvm.extremes import extreme
from xla_backend.llvm.integer import INTEGER_FUNCTIONS, NARROW_INTEGER_FUNCTIONS
from xla_backend.llvm.math import FLOAT_FUNCTIONS
from xla_backend.llvm.math_basics import INF, Emitter, bits, fabs, fcmp, pick
from xla_backend.llvm.math_half import HALF_FUNCTIONS
from xla_backend.llvm.math_remainder import remainder
from xla_backend.llvm.types import (
    const,
    element,
    int_of,
    is_nan,
    mask_of,
    memory_type,
    register_type,
    vector,
)
from xla_backend.llvm.writer import FunctionWriter

Value = Any  # str, or (str, str) for complex


class UnsupportedElementError(NotImplementedError):
    """An elementwise operation that has no code for this element type."""


def _maximum(w: FunctionWriter, ty: str, a: str, b: str) -> str:
    return _extreme(w, ty, a, b, "maximum", "ogt")


def _minimum(w: FunctionWriter, ty: str, a: str, b: str) -> str:
    return _extreme(w, ty, a, b, "minimum", "olt")


def _extreme(w: FunctionWriter, ty: str, a: str, b: str, name: str, predicate: str) -> str:
    """NaN propagates and -0 < 0. One comparison does where an operand is a constant number."""
    if a[0] != "%":
        a, b = b, a
    if b == const(ty, -INF if name == "maximum" else INF):
        return a  # where a reduction begins
    zeros = {const(ty, 0.0), const(ty, -0.0)}
    unordered = b[0] == "%" or b[0] == "<" or is_nan(b)
    if unordered or (b in zeros and name == "minimum"):
        return extreme(w, ty, a, b, name)
    result = w.select(w.cmp(predicate, ty, b, a), ty, b, a)
    if b == const(ty, -0.0):
        return extreme(w, ty, a, b, name)
    return w.op("fadd", ty, result, const(ty, 0.0)) if b in zeros else result  # max(-0, 0) = 0


def _sign(w: FunctionWriter, ty: str, x: str) -> str:
    one = w.intrinsic("copysign", ty, const(ty, 1.0), x)
    nothing = fcmp(w, ty, "ueq", x, 0.0)  # zeros and NaN stay as they are
    return w.select(nothing, ty, x, one)


def _round_afz(w: FunctionWriter, ty: str, x: str) -> str:
    """Halves away from zero: truncate, then step where at least a half was cut off."""
    whole = w.intrinsic("trunc", ty, x)
    cut = fabs(w, ty, w.op("fsub", ty, x, whole))
    step = w.intrinsic("copysign", ty, const(ty, 1.0), x)
    stepped = w.op("fadd", ty, whole, pick(w, ty, fcmp(w, ty, "oge", cut, 0.5), step, 0.0))
    return w.intrinsic("copysign", ty, stepped, x)


def _binary(opcode: str) -> Emitter:
    return lambda w, ty, a, b: w.op(opcode, ty, a, b)


def _intrinsic(name: str) -> Emitter:
    return lambda w, ty, x: w.intrinsic(name, ty, x)


EMITTERS: dict[str, Emitter] = {
    **FLOAT_FUNCTIONS,
    "add": _binary("fadd"),
    "subtract": _binary("fsub"),
    "multiply": _binary("fmul"),
    "divide": lambda w, ty, a, b: byte_quotient(w, ty, a, b) or w.op("fdiv", ty, a, b),
    "remainder": remainder,
    "maximum": _maximum,
    "minimum": _minimum,
    "abs": fabs,
    "negate": lambda w, ty, x: w.fneg(ty, x),
    "sign": _sign,
    "sqrt": _intrinsic("sqrt"),
    "floor": _intrinsic("floor"),
    "ceil": _intrinsic("ceil"),
    "round-nearest-even": _intrinsic("rint"),
    "round-nearest-afz": _round_afz,
}
# Never need rounding; nor does negate, but where -0 is no number.
_EXACT = frozenset({"maximum", "minimum", "abs", "sign"})


def _has_negative_zero(t: P) -> bool:
    return t in NARROW and not NARROW[t].signed_zero_is_nan


_PRED = {
    "and": "and", "or": "or", "xor": "xor", "add": "or", "multiply": "and", "maximum": "or",
    "minimum": "and",
}  # fmt: skip


def emit(w: FunctionWriter, name: str, t: P, n: int, *operands: Value) -> Value:
    """Code for one elementwise operation on n lanes; see the module docstring."""
    ty = vector(register_type(t), n)
    if t.is_floating:
        if name == "is-finite":
            return fcmp(w, ty, "olt", fabs(w, ty, operands[0]), INF)
        emitter = EMITTERS.get(name)
        if t is P.F16 and w.target.has_fma:  # they take arguments apart by fused products
            emitter = HALF_FUNCTIONS.get(name, emitter)
        if emitter is not None:
            result = emitter(w, ty, *operands)
            exact = name in _EXACT or (name == "negate" and _has_negative_zero(t))
            if (t in NARROW or t is P.F8E8M0FNU) and not exact:
                return round_to(w, t, ty, result)
            return result
        if name == "real":
            return operands[0]
        if name == "imag":
            return const(ty, 0.0)
    elif t.is_complex:
        if name in complex_math.COMPLEX_FUNCTIONS:
            return complex_math.COMPLEX_FUNCTIONS[name](w, ty, *operands)
    elif t is P.PRED:
        if name == "not":
            return w.not_(ty, operands[0])
        if name in _PRED:
            return w.op(_PRED[name], ty, *operands)
    elif name in INTEGER_FUNCTIONS:
        if t.bits >= 8:
            return INTEGER_FUNCTIONS[name](w, ty, t.is_signed_integral, *operands)
        if name in NARROW_INTEGER_FUNCTIONS:
            result = NARROW_INTEGER_FUNCTIONS[name](w, ty, t.bits, *operands)
        else:
            result = INTEGER_FUNCTIONS[name](w, ty, t.is_signed_integral, *operands)
        amount = const(ty, 8 - t.bits)
        back = "ashr" if t.is_signed_integral else "lshr"
        return w.op(back, ty, w.op("shl", ty, result, amount), amount)
    raise UnsupportedElementError(
        f"no CPU code for `{name}` on {t}: convert the operand to f32 (or a type the operation is "
        "defined for) first"
    )


_FLOAT_PREDICATES = {"EQ": "oeq", "NE": "une", "LT": "olt", "LE": "ole", "GT": "ogt", "GE": "oge"}
_SIGNED_PREDICATES = {"EQ": "eq", "NE": "ne", "LT": "slt", "LE": "sle", "GT": "sgt", "GE": "sge"}
_UNSIGNED_PREDICATES = {"EQ": "eq", "NE": "ne", "LT": "ult", "LE": "ule", "GT": "ugt", "GE": "uge"}


def total_order_key(w: FunctionWriter, ty: str, x: str) -> str:
    """Signed integers in the order -NaN < -inf < ... < -0 < 0 < ... < inf < NaN."""
    int_ty = int_of(ty)
    width = int(element(int_ty)[1:])
    b = bits(w, ty, x)
    flip = w.op("lshr", int_ty, w.op("ashr", int_ty, b, const(int_ty, width - 1)), const(int_ty, 1))
    return w.op("xor", int_ty, b, flip)


def emit_compare(
    w: FunctionWriter, direction: str, t: P, n: int, a: Value, b: Value, total_order: bool = False
) -> str:
    ty = vector(register_type(t), n)
    if t.is_complex:
        equal = w.op("and", mask_of(ty), w.cmp("oeq", ty, a[0], b[0]), w.cmp("oeq", ty, a[1], b[1]))
        if direction == "EQ":
            return equal
        if direction == "NE":
            return w.not_(mask_of(ty), equal)
        raise UnsupportedElementError(f"complex numbers have no order: compare {direction} on {t}")
    if t.is_floating:
        if not total_order:
            return w.cmp(_FLOAT_PREDICATES[direction], ty, a, b)
        keys = [total_order_key(w, ty, v) for v in (a, b)]
        return w.cmp(_SIGNED_PREDICATES[direction], int_of(ty), *keys)
    table = _SIGNED_PREDICATES if t.is_signed_integral else _UNSIGNED_PREDICATES
    return w.cmp(table[direction], ty, a, b)


def emit_select(w: FunctionWriter, t: P, n: int, mask: str, a: Value, b: Value) -> Value:
    ty = vector(register_type(t), n)
    if t.is_complex:
        return tuple(w.select(mask, ty, p, q) for p, q in zip(a, b, strict=True))
    return w.select(mask, ty, a, b)


def emit_clamp(w: FunctionWriter, t: P, n: int, low: Value, x: Value, high: Value) -> Value:
    return emit(w, "minimum", t, n, emit(w, "maximum", t, n, x, low), high)


def emit_convert(w: FunctionWriter, source: P, target: P, n: int, value: Value) -> Value:
    if source is target:
        return value
    part = {P.C64: P.F32, P.C128: P.F64}
    if target.is_complex:
        out = part[target]
        if source.is_complex:
            return tuple(convert(w, part[source], out, n, v) for v in value)
        return convert(w, source, out, n, value), const(vector(register_type(out), n), 0.0)
    if source.is_complex:
        if target is P.PRED:
            ty = vector(register_type(source), n)
            nonzero = [w.cmp("une", ty, v, const(ty, 0.0)) for v in value]
            return w.op("or", mask_of(ty), *nonzero)
        return convert(w, part[source], target, n, value[0])
    return convert(w, source, target, n, value)


def emit_reduce_precision(
    w: FunctionWriter, t: P, n: int, x: str, exponent_bits: int, mantissa_bits: int
) -> str:
    ty = vector(register_type(t), n)
    return reduce_precision(w, ty, x, exponent_bits, mantissa_bits)


def emit_bitcast_convert(w: FunctionWriter, source: P, target: P, n: int, value: Value) -> Value:
    """Reinterprets elements of equal width (complex is not a bit pattern of one element)."""
    if source.bits != target.bits or source.is_complex or target.is_complex:
        raise UnsupportedElementError(
            f"bitcast-convert from {source} to {target} changes the number of elements; "
            "do it on memory"
        )
    raw = to_memory(w, source, n, value)
    from_ty, to_ty = vector(memory_type(source), n), vector(memory_type(target), n)
    return from_memory(w, target, n, w.cast("bitcast", from_ty, raw, to_ty))


def constant(t: P, n: int, value: Any) -> Value:
    """A constant of an element type in register form; the value must be representable in t."""
    ty = vector(register_type(t), n)
    if t.is_complex:
        value = complex(value)
        return const(ty, value.real), const(ty, value.imag)
    if t.is_floating:
        return const(ty, float(value))
    return const(ty, bool(value) if t is P.PRED else int(value))


def _part(t: P) -> P:
    return P.F32 if t is P.C64 else P.F64


def load(
    w: FunctionWriter, t: P, n: int, ptr: str, index: str | int, mask: str | None = None
) -> Value:
    """n consecutive elements from `index` on, in register form; lanes outside the mask are 0."""
    if t.is_complex:
        return complex_math.load_pairs(w, register_type(t), n, ptr, index, mask)
    elem = memory_type(t)
    ty = vector(elem, n)
    address = w.gep(elem, ptr, index)
    raw = w.load(ty, address) if mask is None else w.masked_load(ty, address, mask)
    return from_memory(w, t, n, raw)


def store(
    w: FunctionWriter,
    t: P,
    n: int,
    value: Value,
    ptr: str,
    index: str | int,
    mask: str | None = None,
) -> None:
    """Stores n consecutive elements from `index` on; lanes outside the mask are left alone."""
    if t.is_complex:
        complex_math.store_pairs(w, register_type(t), n, value, ptr, index, mask)
        return
    elem = memory_type(t)
    ty = vector(elem, n)
    address = w.gep(elem, ptr, index)
    raw = to_memory(w, t, n, value)
    if mask is None:
        w.store(ty, raw, address)
    else:
        w.masked_store(ty, raw, address, mask)
