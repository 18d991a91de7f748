"""Maxima and minima of floats: NaN propagates and -0 < 0, in any order of the operands.

AVX-512 has an instruction that orders zeros by their signs and leaves NaN out (`vrange`), so that
NaN is all there is to add: three instructions, of which LLVM's own form takes seven.
"""

from __future__ import annotations

from xla_backend.llvm.math_basics import bits, from_bits, iop
from xla_backend.llvm.registers import CURRENT_ROUNDING, SUFFIXES, by_registers
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, const, element, int_of, lanes, vector
from xla_backend.llvm.writer import FunctionWriter

_SCALARS = {"float": "ss", "double": "sd"}
_REGISTER_BITS = (512, 256, 128)
# The larger or the smaller, with the sign of what was found.
_SELECTIONS = {"maximum": 0b0101, "minimum": 0b0100}


def extreme(w: FunctionWriter, ty: str, a: str, b: str, name: str) -> str:
    """`name` ("maximum" or "minimum") of two values of a float type or vector."""
    width = _register_width(w, ty)
    if width is None:
        return w.intrinsic(name, ty, a, b)
    ordered = _ordered(w, ty, a, b, name, width)
    return w.select(w.cmp("uno", ty, a, b), ty, w.op("fadd", ty, a, b), ordered)


def is_quicker_as_integers(target: TargetInfo, ty: str) -> bool:
    """Whether `extreme_of_lanes` takes the lanes of a vector: of one register of AVX-512."""
    fits = ty[0] == "<" and bits_of(ty) * lanes(ty) in _REGISTER_BITS
    return target.has_range and element(ty) in SUFFIXES and fits


def extreme_of_lanes(w: FunctionWriter, ty: str, x: str, name: str) -> str:
    """`name` of all lanes: of integers that are ordered as the numbers are, of which an extreme is
    one instruction. NaN is the most extreme of them."""
    single = element(ty)
    largest = (1 << (bits_of(ty) - 1)) - 1
    keys = _mirrored(w, ty, bits(w, ty, x), largest)
    nan, kind = (largest, "smax") if name == "maximum" else (-largest - 1, "smin")
    integers = int_of(ty)
    keys = w.select(w.cmp("uno", ty, x, x), integers, const(integers, nan), keys)
    return from_bits(w, single, _mirrored(w, single, w.reduce(kind, integers, keys), largest))


def _mirrored(w: FunctionWriter, ty: str, integers: str, largest: int) -> str:
    """All bits but the sign of negative numbers the other way round, and back again."""
    signs = iop(w, ty, "ashr", integers, bits_of(ty) - 1)
    return iop(w, ty, "xor", integers, iop(w, ty, "and", signs, largest))


def _register_width(w: FunctionWriter, ty: str) -> int | None:
    """The bits of registers that hold the type, if there is an instruction for them."""
    if not w.target.has_range or element(ty) not in SUFFIXES:
        return None
    if ty[0] != "<":
        return 128
    total = bits_of(ty) * lanes(ty)
    return next((width for width in _REGISTER_BITS if total % width == 0), None)


def _ordered(w: FunctionWriter, ty: str, a: str, b: str, name: str, width: int) -> str:
    if ty[0] != "<":
        register = vector(element(ty), width // bits_of(ty))
        x, y = (w.insert(register, const(register, 0), v, 0) for v in (a, b))
        return w.extract(register, _scalar_range(w, register, x, y, name), 0)
    return by_registers(
        w, ty, width, lambda part, x, y: _range(w, part, x, y, name, width), (ty, a), (ty, b)
    )


def _range(w: FunctionWriter, ty: str, a: str, b: str, name: str, width: int) -> str:
    intrinsic = f"llvm.x86.avx512.mask.range.{SUFFIXES[element(ty)]}.{width}"
    every = f"i{max(8, lanes(ty))}"
    types = [ty, ty, "i32", ty, every, *(["i32"] if width == 512 else [])]
    w.module.declare(intrinsic, ty, types)
    rounding = f", i32 {CURRENT_ROUNDING}" if width == 512 else ""
    return w.pure(
        f"call {ty} @{intrinsic}({ty} {a}, {ty} {b}, i32 {_SELECTIONS[name]}, "
        f"{ty} {const(ty, 0)}, {every} -1{rounding})",
        a,
        b,
    )


def _scalar_range(w: FunctionWriter, ty: str, a: str, b: str, name: str) -> str:
    intrinsic = f"llvm.x86.avx512.mask.range.{_SCALARS[element(ty)]}"
    w.module.declare(intrinsic, ty, [ty, ty, ty, "i8", "i32", "i32"])
    return w.pure(
        f"call {ty} @{intrinsic}({ty} {a}, {ty} {b}, {ty} {const(ty, 0)}, i8 -1, "
        f"i32 {_SELECTIONS[name]}, i32 {CURRENT_ROUNDING})",
        a,
        b,
    )
