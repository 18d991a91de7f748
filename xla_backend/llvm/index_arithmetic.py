"""Arithmetic of indices and addresses, as `FunctionWriter` has it: numbers fold, and addresses are
computed loop by loop."""

from __future__ import annotations

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of


class IndexArithmetic:
    """What a function writer does with indices.

    Attributes:
      index: the integer that they are.
    """

    def __init__(self, target: TargetInfo) -> None:
        self.index = "i64"
        self._depth: dict[str, int] = {}  # how many loops a value is in
        self._terms_of: dict[str, tuple[str, str]] = {}  # sums
        self._splits_sums = not target.is_nvptx

    def pure(self, text: str, *operands: str, hoist: bool = True) -> str:
        raise NotImplementedError

    def intrinsic(self, name: str, ty: str, *args: str) -> str:
        raise NotImplementedError

    def cast(self, opcode: str, from_ty: str, a: str, to_ty: str) -> str:
        raise NotImplementedError

    def iadd(self, a: str | int, b: str | int) -> str:
        a, b = str(a), str(b)
        if a == "0":
            return b
        if b == "0":
            return a
        if a[0] != "%" and b[0] != "%":
            return str(int(a) + int(b))
        if a[0] != "%":
            a, b = b, a
        total = self.pure(f"add nsw {self.index} {a}, {b}", a, b)
        self._terms_of[total] = a, b
        return total

    def isub(self, a: str | int, b: str | int) -> str:
        a, b = str(a), str(b)
        if b == "0":
            return a
        if a[0] != "%" and b[0] != "%":
            return str(int(a) - int(b))
        return self.pure(f"sub nsw {self.index} {a}, {b}", a, b)

    def imul(self, a: str | int, b: str | int) -> str:
        a, b = str(a), str(b)
        if a[0] != "%":
            a, b = b, a
        if a[0] != "%":
            return str(int(a) * int(b))
        if b == "1":
            return a
        if b == "0":
            return "0"
        if b[0] != "%" and int(b) > 0 and int(b) & (int(b) - 1) == 0:
            return self.pure(f"shl nsw {self.index} {a}, {int(b).bit_length() - 1}", a)
        return self.pure(f"mul nsw {self.index} {a}, {b}", a, b)

    def imin(self, a: str | int, b: str | int) -> str:
        a, b = str(a), str(b)
        if a[0] != "%" and b[0] != "%":
            return str(min(int(a), int(b)))
        return self.intrinsic("smin", self.index, a, b)

    def imax(self, a: str | int, b: str | int) -> str:
        a, b = str(a), str(b)
        if a[0] != "%" and b[0] != "%":
            return str(max(int(a), int(b)))
        return self.intrinsic("smax", self.index, a, b)

    def as_index(self, ty: str, a: str, never_negative: bool = False) -> str:
        """A signed integer as an index. One that is never negative is free to extend where it was
        computed."""
        if ty == self.index:
            return a
        extension = "zext" if never_negative else "sext"
        opcode = extension if bits_of(ty) < bits_of(self.index) else "trunc"
        return self.cast(opcode, ty, a, self.index)

    def gep(self, elem_ty: str, ptr: str, index: str | int) -> str:
        if index == 0 or index == "0":
            return ptr
        steps = self._by_loops(str(index))
        # With several, the first may lead out of the array, and the next one back.
        kind = "inbounds " if len(steps) == 1 else ""
        for step in steps:
            place = f"{self.index} {step}"
            ptr = self.pure(f"getelementptr {kind}{elem_ty}, ptr {ptr}, {place}", ptr, step)
        return ptr

    def _by_loops(self, index: str) -> list[str]:
        """An index as terms of a sum, those of outer loops first: so the address of a row is
        computed outside of the loop along it."""
        terms = self._terms_of.get(index)
        if terms is None or not self._splits_sums:
            return [index]
        first, second = terms
        if second[0] != "%":  # an addressing mode has a number
            steps = self._by_loops(first)
            return [*steps, second] if len(steps) > 1 else [index]
        depths = self._depth.get(first, 0), self._depth.get(second, 0)
        if depths[0] == depths[1]:
            return [index]
        outer, inner = (first, second) if depths[0] < depths[1] else (second, first)
        return [outer, *self._by_loops(inner)]
