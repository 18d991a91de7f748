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
_UNORDERED = 3  # of two numbers: one is NaN


def extreme(w: FunctionWriter, ty: str, a: str, b: str, name: str) -> str:
    """`name` ("maximum" or "minimum") of two values of a float type or vector."""
    width = _register_width(w, ty)
    if width is None:
        return w.intrinsic(name, ty, a, b)
    if ty[0] != "<":
        return _scalar_extreme(w, ty, a, b, name)
    ordered = by_registers(
        w, ty, width, lambda part, x, y: _range(w, part, x, y, name, width), (ty, a), (ty, b)
    )
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


def _scalar_extreme(w: FunctionWriter, ty: str, a: str, b: str, name: str) -> str:
    """The three instructions by name, on vectors of which they take the first element: of scalar
    operations LLVM makes a blend more, and a second load of each operand that is in memory."""
    register = vector(ty, _REGISTER_BITS[-1] // bits_of(ty))
    x, y = (w.insert(register, "poison", v, 0) for v in (a, b))

    def first(result: str, instruction: str, *more: tuple[str, str]) -> str:
        full = f"llvm.x86.avx512.mask.{instruction}"
        operands = [(register, x), (register, y), *more, ("i32", str(CURRENT_ROUNDING))]
        w.module.declare(full, result, [type for type, _ in operands])
        text = ", ".join([f"{type} {value}" for type, value in operands])
        return w.pure(f"call {result} @{full}({text})", x, y, *[value for _, value in more])

    kind, every, nothing = _SCALARS[ty], ("i8", "-1"), (register, const(register, 0))
    selection = ("i32", str(_SELECTIONS[name]))
    unordered = first("i8", f"cmp.{kind}", ("i32", str(_UNORDERED)), every)
    ordered = first(register, f"range.{kind}", nothing, every, selection)
    known = first(register, f"add.{kind}.round", (register, ordered), ("i8", unordered))
    return w.extract(register, known, 0)
