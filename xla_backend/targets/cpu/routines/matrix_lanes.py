"""Many small problems at a time, one in each lane of a vector.

A routine is written once, for the elements of one problem, and computes a group of as many as a
vector has lanes. Lanes beyond the last problem repeat it: they read what it reads and write what it
writes. So results do not depend on how many problems there are, nor on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import elemental
from xla_backend.llvm.types import const, element, int_of, mask_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.matrix_facts import REALS

Element = str | tuple[str, str]  # lanes of a real number, or of both parts of a complex one


class Lanes:
    """Elements of matrices of type `t`, and arithmetic on them.

    `parts` is 2 for complex numbers: in memory each element is that many reals. `alone`: there is
    one lane, no vector.
    """

    def __init__(self, w: FunctionWriter, t: P, alone: bool = False) -> None:
        self.w, self.t = w, t
        self.parts = 2 if t.is_complex else 1
        self.count = 1 if alone else lane_count(w.module, t)
        self.ty = vector("float" if REALS[t] is P.F32 else "double", self.count)
        self.index_ty = vector("i32", self.count)
        self.ones = w.iota(self.index_ty) if self.count > 1 else "0"

    def offsets(self, first: str, count: str, step: str) -> str:
        """Where each lane's problem begins behind that of the first lane, of problems `first` on of
        `count` that are `step` numbers apart."""
        w = self.w
        last = w.isub(w.isub(count, 1), first)
        last = self.everywhere(last)
        lane = w.select(
            w.cmp("slt", self.index_ty, self.ones, last), self.index_ty, self.ones, last
        )
        return w.op("mul", self.index_ty, lane, self.everywhere(step))

    def everywhere(self, number: str) -> str:
        """An index in all lanes."""
        return self.w.splat(self.index_ty, _narrow(self.w, number))

    # -- memory ------------------------------------------------------------------------------------

    def scratch(self, count: int) -> str:
        """Memory of so many elements of each lane."""
        return self.w.alloca(element(self.ty), count * self.parts * self.count, 64)

    def place(self, scratch: str, at: str) -> str:
        """Where an element of all lanes lies."""
        return self._place(scratch, at, 0)

    def load(self, scratch: str, at: str) -> Element:
        return self._each(lambda p: self.w.load(self.ty, self._place(scratch, at, p)))

    def store(self, scratch: str, at: str, value: Element) -> None:
        for part, each in enumerate(parts_of(value)):
            self.w.store(self.ty, each, self._place(scratch, at, part))

    def load_each(self, scratch: str, at: str) -> Element:
        """The element of another place in each lane; `at` from `place_of`."""
        return self._each(
            lambda p: self.w.gather(self.ty, self._place(scratch, "0", p), self.index_ty, at)
        )

    def store_each(self, scratch: str, at: str, value: Element) -> None:
        for part, each in enumerate(parts_of(value)):
            self.w.scatter(self.ty, each, self._place(scratch, "0", part), self.index_ty, at)

    def place_of(self, row: str, columns: str) -> str:
        """For `load_each`: the start of a row of another number in each lane."""
        step = self.everywhere(self.w.imul(columns, self.parts * self.count))
        rows = self.w.op("mul", self.index_ty, row, step)
        return self.w.op("add", self.index_ty, rows, self.ones)

    def moved(self, places: str, elements: str) -> str:
        """Places so many elements further on."""
        by = self.everywhere(self.w.imul(elements, self.parts * self.count))
        return self.w.op("add", self.index_ty, places, by)

    def read(self, array: str, offsets: str, at: str) -> Element:
        """Element `at` of each problem's array."""
        start = self.w.imul(at, self.parts)
        return self._each(
            lambda p: self.w.gather(
                self.ty, self.w.gep(element(self.ty), array, self.w.iadd(start, p)),
                self.index_ty, offsets,
            )
        )  # fmt: skip

    def write(self, array: str, offsets: str, at: str, value: Element) -> None:
        start = self.w.imul(at, self.parts)
        for part, each in enumerate(parts_of(value)):
            place = self.w.gep(element(self.ty), array, self.w.iadd(start, part))
            self.w.scatter(self.ty, each, place, self.index_ty, offsets)

    def _place(self, scratch: str, at: str, part: int) -> str:
        lanes = self.w.imul(self.w.iadd(self.w.imul(at, self.parts), part), self.count)
        return self.w.gep(element(self.ty), scratch, lanes)

    def _each(self, part: Callable[[int], str]) -> Element:
        return (part(0), part(1)) if self.parts == 2 else part(0)

    # -- numbers -----------------------------------------------------------------------------------

    def zero(self) -> Element:
        return self._each(lambda _: const(self.ty, 0.0))

    def minus_product(self, s: Element, x: Element, y: Element) -> Element:
        """s - x y."""
        w, ty = self.w, self.ty
        if isinstance(s, str):
            return w.fma(ty, w.fneg(ty, x), y, s)  # type: ignore[arg-type]
        minus = (w.fneg(ty, x[0]), w.fneg(ty, x[1]))
        real = w.fma(ty, x[1], y[1], w.fma(ty, minus[0], y[0], s[0]))
        return real, w.fma(ty, minus[1], y[0], w.fma(ty, minus[0], y[1], s[1]))

    def plus_product(self, s: Element, x: Element, y: Element) -> Element:
        """s + x y."""
        return self.minus_product(s, self.negated(x), y)

    def plus_square(self, s: str, x: Element) -> str:
        """s + |x|^2, of a real s."""
        for part in parts_of(x):
            s = self.w.fma(self.ty, part, part, s)
        return s

    def minus_square(self, s: str, x: Element) -> str:
        """s - |x|^2, of a real s."""
        for part in parts_of(x):
            s = self.w.fma(self.ty, self.w.fneg(self.ty, part), part, s)
        return s

    def quotient(self, x: Element, y: Element) -> Element:
        return elemental.emit(self.w, "divide", self.t, self.count, x, y)

    def times(self, x: Element, y: Element) -> Element:
        w, ty = self.w, self.ty
        if isinstance(x, str) or isinstance(y, str):
            return w.op("fmul", ty, x, y)  # type: ignore[arg-type]
        real = w.fma(ty, w.fneg(ty, x[1]), y[1], w.op("fmul", ty, x[0], y[0]))
        return real, w.fma(ty, x[1], y[0], w.op("fmul", ty, x[0], y[1]))

    def negated(self, x: Element) -> Element:
        return self.map(lambda part: self.w.fneg(self.ty, part), x)

    def times_real(self, x: Element, y: str) -> Element:
        return self.map(lambda part: self.w.op("fmul", self.ty, part, y), x)

    def conjugate(self, x: Element) -> Element:
        return x if isinstance(x, str) else (x[0], self.w.fneg(self.ty, x[1]))

    def real(self, part: str) -> Element:
        return element_of([part, const(self.ty, 0.0)][: self.parts])

    def with_sign(self, x: Element, sign: str) -> Element:
        """The conjugate where the sign is -1, the same where it is 1."""
        return x if isinstance(x, str) else (x[0], self.w.op("fmul", self.ty, x[1], sign))

    def size(self, x: Element) -> str:
        """By which LAPACK chooses pivots: the sum of the parts' absolute values."""
        sizes = [self.w.intrinsic("fabs", self.ty, part) for part in parts_of(x)]
        return sizes[0] if len(sizes) == 1 else self.w.op("fadd", self.ty, *sizes)

    def largest(self, so_far: str, x: Element) -> str:
        """The larger of a number and the absolute values of the parts of x; NaN if one is."""
        for part in parts_of(x):
            part = self.w.intrinsic("fabs", self.ty, part)
            so_far = self.w.intrinsic("maximum", self.ty, so_far, part)
        return so_far

    def is_finite(self, largest: str) -> str:
        return self.w.cmp("olt", self.ty, largest, const(self.ty, float("inf")))

    def power_of_two(self, largest: str) -> tuple[str, str]:
        """A power of two that brings numbers up to `largest` near 1, and its inverse: both are
        exact. 1 for what is not finite."""
        w, ty = self.w, self.ty
        ints = int_of(ty)
        bits, fraction = (32, 23) if element(ty) == "float" else (64, 52)
        exponents = const(ints, (1 << (bits - 1)) - (1 << fraction))
        exponent = w.op("and", ints, w.cast("bitcast", ty, largest, ints), exponents)
        # Subnormal numbers are multiplied by as much as the least normal one.
        least = const(ints, 1 << fraction)
        small = w.cmp("eq", ints, exponent, const(ints, 0))
        power = w.cast("bitcast", ints, w.select(small, ints, least, exponent), ty)
        power = w.select(self.is_finite(largest), ty, power, const(ty, 1.0))
        return power, w.op("fdiv", ty, const(ty, 1.0), power)

    def in_any(self, mask: str) -> str:
        """Whether it is so in one of the lanes."""
        return self.w.reduce("or", mask_of(self.ty), mask)

    def ranks(self, numbers: str, i: str, count: str, before: str) -> str:
        """How many of `count` reals in scratch memory come before number i, by a predicate such as
        "olt"; of equal ones the first does."""
        w, ty, ints = self.w, self.ty, self.index_ty
        mine = w.load(ty, self._real_place(numbers, i))

        def counted(lo: str, hi: str, start: str, *, equal: bool) -> str:
            with w.loop(lo, hi, 1, [(ints, start)]) as others:
                other = w.load(ty, self._real_place(numbers, others.index))
                pair = (mine, other) if equal else (other, mine)
                is_before = w.cmp(before, ty, *pair)
                if equal:
                    is_before = w.not_(mask_of(ty), is_before)
                more = w.cast("zext", mask_of(ty), is_before, ints)
                others.next = [w.op("add", ints, others.carried[0], more)]
            return others.results[0]

        first = counted("0", i, const(ints, 0), equal=True)
        return counted(w.iadd(i, 1), count, first, equal=False)

    def _real_place(self, scratch: str, at: str) -> str:
        return self.w.gep(element(self.ty), scratch, self.w.imul(at, self.count))

    def select(self, mask: str, x: Element, y: Element) -> Element:
        pairs = zip(parts_of(x), parts_of(y))
        return element_of([self.w.select(mask, self.ty, a, b) for a, b in pairs])

    def map(self, f: Callable[[str], str], x: Element) -> Element:
        return element_of([f(part) for part in parts_of(x)])

    def map_pairs(self, f: Callable[[str, str], str], x: Element, y: Element) -> Element:
        return element_of([f(a, b) for a, b in zip(parts_of(x), parts_of(y), strict=True)])

    def carries(self, x: Element) -> list[tuple[str, str]]:
        return [(self.ty, part) for part in parts_of(x)]


def parts_of(x: Element) -> tuple[str, ...]:
    return (x,) if isinstance(x, str) else x


def element_of(parts: Sequence[str]) -> Element:
    return parts[0] if len(parts) == 1 else (parts[0], parts[1])


def _narrow(w: FunctionWriter, number: str) -> str:
    if number[0] != "%":
        return number
    return w.cast("trunc", "i64", number, "i32")


def lane_count(module: ModuleWriter, t: P) -> int:
    return module.target.lanes(REALS[t].bits)
