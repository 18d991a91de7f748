"""Maxima and minima of floats: NaN propagates and -0 < 0, in any order of the operands.

AVX-512 has an instruction that orders zeros by their signs and leaves NaN out (`vrange`), so that
NaN is all there is to add: three instructions, of which LLVM's own form takes seven.
"""

from __future__ import annotations

from xla_backend.llvm.types import bits_of, const, element, lanes, vector
from xla_backend.llvm.writer import FunctionWriter

_SUFFIXES = {"float": "ps", "double": "pd"}
_SCALARS = {"float": "ss", "double": "sd"}
_REGISTER_BITS = (512, 256, 128)
# The larger or the smaller, with the sign of what was found.
_SELECTIONS = {"maximum": 0b0101, "minimum": 0b0100}
_CURRENT_ROUNDING = 4


def extreme(w: FunctionWriter, ty: str, a: str, b: str, name: str) -> str:
    """`name` ("maximum" or "minimum") of two values of a float type or vector."""
    width = _register_width(w, ty)
    if width is None:
        return w.intrinsic(name, ty, a, b)
    ordered = _ordered(w, ty, a, b, name, width)
    return w.select(w.cmp("uno", ty, a, b), ty, w.op("fadd", ty, a, b), ordered)


def _register_width(w: FunctionWriter, ty: str) -> int | None:
    """The bits of registers that hold the type, if there is an instruction for them."""
    if not w.target.has_range or element(ty) not in _SUFFIXES:
        return None
    if ty[0] != "<":
        return 128
    total = bits_of(ty) * lanes(ty)
    return next((bits for bits in _REGISTER_BITS if total % bits == 0), None)


def _ordered(w: FunctionWriter, ty: str, a: str, b: str, name: str, width: int) -> str:
    count = width // bits_of(ty)
    register = vector(element(ty), count)
    if ty[0] != "<":
        x, y = (w.insert(register, const(register, 0), v, 0) for v in (a, b))
        return w.extract(register, _scalar_range(w, register, x, y, name), 0)
    parts = []
    for first in range(0, lanes(ty), count):
        places = range(first, first + count)
        x, y = (a, b) if ty == register else (w.shuffle(ty, v, "poison", places) for v in (a, b))
        parts.append(_range(w, register, x, y, name, width))
    while len(parts) > 1:
        part, count = vector(element(ty), count), 2 * count
        pairs = zip(parts[::2], parts[1::2])
        parts = [w.shuffle(part, x, y, range(count)) for x, y in pairs]
    return parts[0]


def _range(w: FunctionWriter, ty: str, a: str, b: str, name: str, width: int) -> str:
    intrinsic = f"llvm.x86.avx512.mask.range.{_SUFFIXES[element(ty)]}.{width}"
    every = f"i{max(8, lanes(ty))}"
    types = [ty, ty, "i32", ty, every, *(["i32"] if width == 512 else [])]
    w.module.declare(intrinsic, ty, types)
    rounding = f", i32 {_CURRENT_ROUNDING}" if width == 512 else ""
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
        f"i32 {_SELECTIONS[name]}, i32 {_CURRENT_ROUNDING})",
        a,
        b,
    )
