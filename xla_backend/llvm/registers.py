"""Instructions on single registers, for vectors of several: scalings by powers of two, exponents
and mantissas, and small tables that are looked up by permuting registers.

AVX-512 has each as one instruction for 512 bits; other targets compute the factor or the parts, and
load from a table in memory. Results are the same.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial

from xla_backend.llvm.math_basics import (
    INF,
    NAN,
    bits,
    fcmp,
    fmt,
    from_bits,
    iop,
    pick,
    power_of_two,
)
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, const, element, int_of, lanes, vector, vector_const
from xla_backend.llvm.writer import FunctionWriter

SUFFIXES = {"float": "ps", "double": "pd"}
CURRENT_ROUNDING = 4
_WIDTH = 512
_PACKED = {"float": "f", "double": "d"}
# By how many registers a table takes.
_PERMUTATIONS = {
    ("i8", 1): "llvm.x86.avx512.permvar.qi.512",
    ("i8", 2): "llvm.x86.avx512.vpermi2var.qi.512",
    ("i16", 1): "llvm.x86.avx512.permvar.hi.512",
    ("i16", 2): "llvm.x86.avx512.vpermi2var.hi.512",
    ("float", 1): "llvm.x86.avx512.permvar.sf.512",
    ("float", 2): "llvm.x86.avx512.vpermi2var.ps.512",
    ("double", 1): "llvm.x86.avx512.permvar.df.512",
    ("double", 2): "llvm.x86.avx512.vpermi2var.pd.512",
}
# Elements of so many bits as the instructions that permute take them.
_PERMUTED = {8: "i8", 16: "i16", 32: "float", 64: "double"}
_FROM_ONE_NAN_OF_NEGATIVE = 0b1000


def by_registers(
    w: FunctionWriter,
    ty: str,
    width: int,
    emit: Callable[..., str],
    *operands: tuple[str, str],
) -> str:
    """emit(register type, *parts) of each register of `width` bits of the operands, which are types
    and values of as many lanes as `ty` has, joined to one value of that type."""
    count, n = width // bits_of(ty), lanes(ty)
    register = vector(element(ty), count)
    if n == count:
        return emit(register, *[value for _, value in operands])
    parts = []
    for first in range(0, n, count):
        places = range(first, first + count)
        parts.append(emit(register, *[w.shuffle(t, v, "poison", places) for t, v in operands]))
    while len(parts) > 1:
        part, count = vector(element(ty), count), 2 * count
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [w.shuffle(part, x, y, range(count)) for x, y in pairs]
    return parts[0]


def fills_registers(w: FunctionWriter, ty: str) -> bool:
    """Whether a vector takes whole registers of AVX-512."""
    return (
        w.target.is_x86
        and w.target.vector_bits == _WIDTH
        and ty[0] == "<"
        and element(ty) in SUFFIXES
        and bits_of(ty) * lanes(ty) % _WIDTH == 0
    )


def scale(w: FunctionWriter, ty: str, x: str, n: str, n_int: str) -> str:
    """x * 2^floor(n) for n up to twice the normal range, given as a float and its floor as an
    integer, too; rounds once where the result is subnormal."""
    if not fills_registers(w, ty):
        half = iop(w, ty, "ashr", n_int, 1)
        rest = iop(w, ty, "sub", n_int, half)
        x = w.op("fmul", ty, x, power_of_two(w, ty, half))
        return w.op("fmul", ty, x, power_of_two(w, ty, rest))

    def scaled(register: str, value: str, exponent: str) -> str:
        name = f"llvm.x86.avx512.mask.scalef.{SUFFIXES[element(ty)]}.{_WIDTH}"
        every = f"i{lanes(register)}"
        w.module.declare(name, register, [register, register, register, every, "i32"])
        return w.pure(
            f"call {register} @{name}({register} {value}, {register} {exponent}, "
            f"{register} {const(register, 0)}, {every} -1, i32 {CURRENT_ROUNDING})",
            value,
            exponent,
        )

    return by_registers(w, ty, _WIDTH, scaled, (ty, x), (ty, n))


def split(w: FunctionWriter, ty: str, x: str, subnormals: bool) -> tuple[str, str]:
    """(e, m) with x = m 2^e, m in [1, 2), for x > 0; (-inf, 1 or -1) for zeros, (inf, 1) for
    infinity, and NaN as m of negative numbers and of NaN. Without `subnormals` x is none."""
    if fills_registers(w, ty):
        e = by_registers(w, ty, _WIDTH, partial(_apart, w, "getexp", ""), (ty, x))
        interval = f"i32 {_FROM_ONE_NAN_OF_NEGATIVE}, "
        return e, by_registers(w, ty, _WIDTH, partial(_apart, w, "getmant", interval), (ty, x))
    f = fmt(ty)
    number, bias = x, const(ty, f.bias)
    if subnormals:
        more = f.mantissa + 2
        tiny = fcmp(w, ty, "olt", x, f.min_normal)
        number = w.select(tiny, ty, w.op("fmul", ty, x, const(ty, 2.0**more)), x)
        bias = pick(w, ty, tiny, f.bias + more, f.bias)
    raw = bits(w, ty, number)
    e = w.cast("sitofp", int_of(ty), iop(w, ty, "lshr", raw, f.mantissa), ty)
    e = w.op("fsub", ty, e, bias)
    zero, infinite = fcmp(w, ty, "oeq", x, 0.0), fcmp(w, ty, "oeq", x, INF)
    e = pick(w, ty, infinite, INF, pick(w, ty, zero, -INF, e))
    fraction = iop(w, ty, "and", raw, (1 << f.mantissa) - 1)
    m = from_bits(w, ty, iop(w, ty, "or", fraction, f.bias << f.mantissa))
    return e, pick(w, ty, fcmp(w, ty, "ult", x, 0.0), NAN, m)


def _apart(w: FunctionWriter, name: str, how: str, register: str, value: str) -> str:
    full = f"llvm.x86.avx512.mask.{name}.{SUFFIXES[element(register)]}.{_WIDTH}"
    every = f"i{lanes(register)}"
    w.module.declare(full, register, [register, *(["i32"] if how else []), register, every, "i32"])
    return w.pure(
        f"call {register} @{full}({register} {value}, {how}{register} {const(register, 0)}, "
        f"{every} -1, i32 {CURRENT_ROUNDING})",
        value,
    )


def reciprocal_root_guess(w: FunctionWriter, ty: str, x: str) -> str | None:
    """1 / sqrt(x) of f32 to 2^-14 of it, infinite and 0 for 0 and infinity; None where there is no
    instruction for it. The same for vectors of any length: lanes are filled up to a register."""
    if not w.target.is_x86 or w.target.vector_bits != _WIDTH or element(ty) != "float":
        return None

    def guessed(register: str, value: str) -> str:
        every = "i16" if lanes(register) == 16 else "i8"
        name = f"llvm.x86.avx512.rsqrt14.ps.{32 * lanes(register)}"
        w.module.declare(name, register, [register, register, every])
        zero = const(register, 0)
        return w.pure(
            f"call {register} @{name}({register} {value}, {register} {zero}, {every} -1)", value
        )

    n = lanes(ty)
    count = next((k for k in (4, 8) if n <= k), -(-n // 16) * 16)
    filled, value = vector("float", count), x
    if n == 1:
        value = w.insert(filled, "poison", x, 0)
    elif n < count:
        value = w.shuffle(ty, x, "poison", [*range(n), *[-1] * (count - n)])
    register = min(32 * count, _WIDTH)
    value = by_registers(w, filled, register, guessed, (filled, value))
    if n == 1:
        return w.extract(filled, value, 0)
    return value if n == count else w.shuffle(filled, value, "poison", range(n))


def permutes_tables(target: TargetInfo) -> bool:
    """Whether a machine looks up floats of a small table in registers."""
    return target.is_x86 and (target.vector_bits == _WIDTH or target.masks_by_sign)


def lookup(w: FunctionWriter, ty: str, table: Sequence[float], index: str) -> str:
    """table[index] of 16 floats, or of 8 or 16 doubles; of the index, an integer as wide, only the
    last bits that are needed count."""
    if _has_permutation_of_eight(w, ty):
        return by_registers(
            w, ty, 256, partial(_of_sixteen_by_eight, w, table), (int_of(ty), index)
        )
    if not fills_registers(w, ty):
        data = struct.pack(f"<{len(table)}{_PACKED[element(ty)]}", *table)
        place = iop(w, ty, "and", index, len(table) - 1)
        return w.gather(ty, w.module.constant_bytes(data), int_of(ty), place)

    n, kind = _WIDTH // bits_of(ty), element(ty)
    parts = [vector_const(kind, list(table[k : k + n])) for k in range(0, len(table), n)]
    return by_registers(w, ty, _WIDTH, partial(_permuted, w, parts), (int_of(ty), index))


def permuted_type(w: FunctionWriter, ty: str) -> str | None:
    """A vector as `chosen` takes it: whole registers of AVX-512; None where there are no
    instructions that permute them."""
    bits, n = bits_of(ty), lanes(ty)
    if not w.target.is_x86 or w.target.vector_bits != _WIDTH or bits * n % _WIDTH:
        return None
    return None if bits == 8 and not w.target.permutes_wide_bytes else vector(_PERMUTED[bits], n)


def chosen(w: FunctionWriter, ty: str, table: Sequence[str], index: str) -> str:
    """The elements at the places of an index, integers as wide, in what some registers hold one
    after the other; of a `permuted_type`."""

    def found(register: str, index: str) -> str:
        int_ty, bit = int_of(register), 2 * lanes(register)
        parts = [_permuted(w, table[k : k + 2], register, index) for k in range(0, len(table), 2)]
        while len(parts) > 1:
            own = w.op("and", int_ty, index, const(int_ty, bit))
            is_upper = w.cmp("ne", int_ty, own, const(int_ty, 0))
            pairs = [parts[k : k + 2] for k in range(0, len(parts), 2)]
            parts = [
                w.select(is_upper, register, pair[1], pair[0]) if len(pair) > 1 else pair[0]
                for pair in pairs
            ]
            bit *= 2
        return parts[0]

    return by_registers(w, ty, _WIDTH, found, (int_of(ty), index))


def _permuted(w: FunctionWriter, table: Sequence[str], register: str, index: str) -> str:
    """Of one or two registers, by the last bits of the index."""
    name = _PERMUTATIONS[element(register), len(table)]
    w.module.declare(name, register, [register, int_of(register), register][: len(table) + 1])
    places = f"{register} {table[0]}, {int_of(register)} {index}"
    others = "".join(f", {register} {t}" for t in table[1:])
    return w.pure(f"call {register} @{name}({places}{others})", *table, index)


def _has_permutation_of_eight(w: FunctionWriter, ty: str) -> bool:
    return (
        w.target.is_x86
        and w.target.masks_by_sign
        and ty[0] == "<"
        and element(ty) == "float"
        and lanes(ty) % 8 == 0
    )


def _of_sixteen_by_eight(
    w: FunctionWriter, table: Sequence[float], register: str, index: str
) -> str:
    """By two permutations of eight floats each, of which the fourth bit of the index takes one."""
    name, int_ty = "llvm.x86.avx2.permps", int_of(register)
    w.module.declare(name, register, [register, int_ty])
    halves = [vector_const("float", list(table[k : k + 8])) for k in (0, 8)]
    found = [
        w.pure(f"call {register} @{name}({register} {half}, {int_ty} {index})", index)
        for half in halves
    ]
    upper = w.op("shl", int_ty, index, const(int_ty, 28))
    is_upper = w.cmp("slt", int_ty, upper, const(int_ty, 0))
    return w.select(is_upper, register, found[1], found[0])
