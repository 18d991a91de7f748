"""Singular values and vectors of larger matrices: our own reduction to a bidiagonal matrix and our
own products with its reflectors, LAPACK's divide and conquer between them.

  void pyjax_svd_blocked_<t>(numbers, ptr a, ptr copy, ptr s, ptr u, ptr vh, ptr info, ptr work)
        as pyjax_svd_<t> of `small_singular`; numbers as in `singular_plan`

Matrices with more columns than rows are decomposed by columns. One with many more rows than columns
is factored first; then it is the triangle that becomes bidiagonal (Chan). LAPACK has one thread for
what is left of order n: with several it would round differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.bytes import clear_bytes, copy_bytes
from xla_backend.llvm.types import const, element, mask_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.runtime.host_libraries.lapack_arguments import PREFIX
from xla_backend.runtime.host_libraries.lapack_functions import typed_name
from xla_backend.targets.cpu.routines.bidiagonal import emit_bidiagonal, reduce_matrix
from xla_backend.targets.cpu.routines.blocked_qr import emit_factor, factor
from xla_backend.targets.cpu.routines.lapack import emit_finite, emit_nan
from xla_backend.targets.cpu.routines.matrix_rows import Rows, emit_transpose, place
from xla_backend.targets.cpu.routines.matrix_tasks import emit_tasks
from xla_backend.targets.cpu.routines.reflector_blocks import (
    Packed,
    ReflectorAreas,
    call_function,
    emit_reflectors,
    multiply_by_reflectors,
)
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.singular_plan import NUMBERS, TYPES
from xla_backend.targets.cpu.routines.task_context import read_table, run_tasks, table_of

_PARAMETERS = [
    *(("i64", name) for name in NUMBERS),
    *(("ptr", name) for name in ("a", "copy", "s", "u", "vh", "info", "work")),
]
_SIDE = [*_PARAMETERS, ("i64", "number"), ("i64", "task")]
# Matrices whose largest number is beyond these are multiplied by a power of two, for squares are
# summed.
_BOUNDS = {"float": (2.0**-40, 2.0**40), "double": (2.0**-459, 2.0**459)}
_FILL = [
    ("ptr", "source"), ("i64", "rows"), ("i64", "columns"), ("i64", "upper"), ("ptr", "scale"),
    ("ptr", "target"), ("i64", "pitch"),
]  # fmt: skip


def _emit_scale(module: ModuleWriter, t: P) -> None:
    """real singular.scale(x, count, ptr inverse): a power of two that brings numbers within bounds
    where their squares do not overflow, by division: 1 if they are within."""
    fields = [("ptr", "x"), ("i64", "count"), ("ptr", "inverse")]
    v, w = _function(module, t, "singular.scale", fields, result=True)
    ty, real = v.lanes.ty, element(v.lanes.ty)
    with w.loop("0", "%count", v.lanes.count, [(ty, const(ty, 0.0))]) as loop:
        x = v.load("%x", loop.index, v.mask(loop.index, "%count"))
        loop.next = [v.lanes.largest(loop.carried[0], x)]
    largest = w.reduce("fmax", ty, loop.results[0])
    least, most = (const(real, bound) for bound in _BOUNDS[real])
    too_small = w.cmp("olt", real, largest, least)
    outside = w.op("or", "i1", too_small, w.cmp("ogt", real, largest, most))
    outside = w.op("and", "i1", outside, w.cmp("ogt", real, largest, const(real, 0.0)))
    powers = v.lanes.power_of_two(w.splat(ty, largest))
    one = const(real, 1.0)
    power, inverse = (w.select(outside, real, w.extract(ty, power, 0), one) for power in powers)
    w.store(real, inverse, "%inverse")
    w.ret(real, power)


def _emit_fill(module: ModuleWriter, t: P) -> None:
    """void singular.fill(...): rows of a dense matrix times a number, in rows that are `pitch`
    apart and zero behind their ends; zero below the diagonal if only the upper triangle counts. The
    target may be the source, of the same pitch."""
    v, w = _function(module, t, "singular.fill", _FILL)
    lanes, ty = v.lanes, v.lanes.ty
    real, zero = element(ty), const(ty, 0.0)
    scale = w.splat(ty, w.load(real, "%scale"))
    triangle = w.splat(mask_of(ty), w.cmp("ne", "i64", "%upper", "0"))
    with w.loop("0", "%rows") as rows:
        source = place(w, t, "%source", w.imul(rows.index, "%columns"))
        target = place(w, t, "%target", w.imul(rows.index, "%pitch"))
        row = w.splat(lanes.index_ty, w.cast("trunc", "i64", rows.index, "i32"))
        with w.loop("0", "%pitch", lanes.count) as columns:
            x = v.load(source, columns.index, v.mask(columns.index, "%columns"))
            assert isinstance(x, str)
            first = w.splat(lanes.index_ty, w.cast("trunc", "i64", columns.index, "i32"))
            numbers = w.op("add", lanes.index_ty, lanes.ones, first)
            below = w.cmp("slt", lanes.index_ty, numbers, row)
            x = w.op("fmul", ty, x, scale)
            mask = w.op("and", mask_of(ty), below, triangle)
            x = w.select(mask, ty, zero, x)
            v.store(target, columns.index, x, v.mask(columns.index, "%pitch"))
    w.ret()


def _function(
    module: ModuleWriter, t: P, name: str, fields: list[tuple[str, str]], *, result: bool = False
) -> tuple[Rows, FunctionWriter]:
    real = "double" if t is P.F64 else "float"
    w = module.function(name, fields, real if result else "void", internal=True)
    return Rows(w, t), w


class _Problem:
    """The code for one problem: its arrays and memory by name."""

    def __init__(
        self, w: FunctionWriter, t: P, given: Mapping[str, str], number: str, task: str
    ) -> None:
        self.w, self.t, self.given = w, t, given
        self._number, self._task = number, task
        self.real = "double" if t is P.F64 else "float"
        self._memory = place(w, t, given["work"], w.imul(task, given["elements"]))
        m, n = given["m"], given["n"]
        self.turned = w.cmp("slt", "i64", m, n)
        self.many, self.few = w.imax(m, n), w.imin(m, n)
        self.columns = w.select(self.turned, "i64", given["right"], given["left"])
        self.wanted = w.cmp("ne", "i64", given["left"], "0")
        self.factored = w.cmp("ne", "i64", given["factored"], "0")
        self.rows = w.select(self.factored, "i64", self.few, self.many)
        names = ReflectorAreas._fields
        self.areas = ReflectorAreas(*map(self.area, names))
        self.right_areas = ReflectorAreas(*(self.area(f"right_{name}") for name in names))
        self.u = self.array("u", m, given["left"])
        self.vectors = w.select(self.turned, "ptr", self.area("vectors"), self.u)

    def __getitem__(self, name: str) -> str:
        return self.given[name]

    def area(self, name: str) -> str:
        return place(self.w, self.t, self._memory, self.given[f"at_{name}"])

    def array(self, name: str, *sizes: str) -> str:
        """This problem's part of an array of such matrices."""
        at = self._number
        for size in sizes:
            at = self.w.imul(at, size)
        return place(self.w, self.t, self.given[name], at)

    def transpose(self, source: str, rows: str, columns: str, target: str) -> None:
        values = [("ptr", source), ("i64", rows), ("i64", columns), ("i64", "0")]
        self.w.call("rows.transpose", "void", [*values, ("ptr", target)])

    def copy(self, source: str, target: str, *counts: str) -> None:
        copy_bytes(self.w, target, source, self._bytes(*counts))

    def clear(self, target: str, *counts: str) -> None:
        clear_bytes(self.w, target, self._bytes(*counts))

    def _bytes(self, *counts: str) -> str:
        size: str | int = self.t.byte_size
        for count in counts:
            size = self.w.imul(count, size)
        return str(size)

    def address_of(self, ty: str, value: str) -> str:
        """Of a place with a number of some type."""
        at = self.w.alloca(ty)
        self.w.store(ty, value, at)
        return at

    def integer(self, value: str) -> str:
        return self.address_of("i32", self.w.cast("trunc", "i64", value, "i32"))

    # -- steps -------------------------------------------------------------------------------------

    def reduce(self) -> str:
        """The bidiagonal matrix; by which power of two it is to be multiplied."""
        w, few, many = self.w, self.few, self.many
        a = self.array("a", self["m"], self["n"])
        packed, matrix = self.area("packed"), self.area("matrix")
        with w.if_(self.turned):
            self.transpose(a, self["m"], self["n"], packed)
        source = w.select(self.turned, "ptr", packed, a)
        inverse = w.alloca(self.real)
        scaled = [("ptr", source), ("i64", w.imul(many, few)), ("ptr", inverse)]
        power = w.call("singular.scale", self.real, scaled)

        def fill(source: str, rows: str, upper: str, scale: str, target: str, pitch: str) -> None:
            values = source, rows, few, upper, scale, target, pitch
            call_function(w, "singular.fill", _FILL, *values)

        def triangle() -> list[str]:
            fill(source, many, "0", inverse, packed, few)
            reflectors = Packed(packed, few, many, self.area("taus"))
            factor(w, self.t, reflectors, few, self.area("panel"), self.areas)
            one = self.address_of(self.real, const(self.real, 1.0))
            fill(packed, few, "1", one, matrix, self["pitch"])
            return []

        def whole() -> list[str]:
            fill(source, many, "0", inverse, matrix, self["pitch"])
            return []

        w.if_else(self.factored, [], triangle, whole)
        with w.if_(self.wanted):
            self.clear(self.area("reflectors"), few, self["pitch"])
        reflectors = w.select(self.wanted, "ptr", self.area("reflectors"), "null")
        found = map(self.area, ("d", "e", "lefts", "rights"))
        work = self.area("reduction")
        reduce_matrix(w, matrix, self["pitch"], self.rows, few, *found, reflectors, work)
        return power

    def decompose(self) -> None:
        """The bidiagonal matrix, by LAPACK."""
        w = self.w
        letters = (str(ord("U")), w.select(self.wanted, "i8", str(ord("I")), str(ord("N"))))
        upper, vectors = (self.address_of("i8", letter) for letter in letters)
        n = self.integer(self.few)
        # Of what is computed only if asked for.
        left, right = self.area("left"), self.area("right")
        unused = self.area("integers")
        arguments = [
            upper, vectors, n, self.area("d"), self.area("e"), left, n, right, n, unused, unused,
            self.area("work"), unused, self.w.gep("i32", self.given["info"], self._number),
        ]  # fmt: skip
        w.call("pyjax_blas_enter", "void", [("i32", "1")])
        routine = PREFIX + typed_name("bdsdc", self.t.numpy_dtype)
        w.call(routine, "void", [("ptr", argument) for argument in arguments])
        w.call("pyjax_blas_leave", "void")

    def store_values(self, power: str) -> None:
        w = self.w
        v = Rows(w, self.t)
        scale = w.splat(v.lanes.ty, power)
        values, target = self.area("d"), self.array("s", self.few)
        with w.loop("0", self.few, v.lanes.count) as loop:
            mask = v.mask(loop.index, self.few)
            value = v.load(values, loop.index, mask)
            v.store(target, loop.index, v.lanes.times_real(value, scale), mask)

    def store_vectors(self) -> None:
        """Of both sides at the same time, each by one thread, which has it in its caches; threads
        that have problems of their own do both."""
        w = self.w
        vh = self.array("vh", self["right"], self["n"])
        values = {**self.given, "number": self._number, "task": self._task}
        context = table_of(w, [(ty, values[name]) for ty, name in _SIDE])

        def shared() -> list[str]:
            run_tasks(w, "singular.side", context, "2")
            return []

        def alone() -> list[str]:
            for side in ("0", "1"):
                w.call("singular.side", "void", [("ptr", context), ("i64", side)])
            return []

        w.if_else(w.cmp("eq", "i64", self["tasks"], "1"), [], shared, alone)
        right = self.area("right")

        def by_columns() -> list[str]:
            self.copy(right, self.u, self.few, self.few)
            self.transpose(self.vectors, self.many, self.columns, vh)
            return []

        def by_rows() -> list[str]:
            self.transpose(right, self.few, self.few, vh)
            return []

        w.if_else(self.turned, [], by_columns, by_rows)

    def multiply_left(self) -> None:
        """Of as many rows as the matrix has, from the columns of what is bidiagonal."""
        target = self.vectors
        w, t, few, many, columns = self.w, self.t, self.few, self.many, self.columns
        by_rows = self.area("work")
        self.transpose(self.area("left"), few, few, by_rows)
        self.clear(target, many, columns)
        with w.loop("0", few) as rows:
            row = place(w, t, target, w.imul(rows.index, columns))
            self.copy(place(w, t, by_rows, w.imul(rows.index, few)), row, few)
        with w.loop(few, columns) as rows:
            diagonal = place(w, t, target, w.imul(rows.index, w.iadd(columns, 1)))
            w.store(self.real, const(self.real, 1.0), diagonal)
        pitch = self["pitch"]
        reflectors = Packed(self.area("matrix"), pitch, self.rows, self.area("lefts"))
        width = w.select(self.factored, "i64", few, columns)
        multiply_by_reflectors(w, t, reflectors, few, (target, columns, width), self.areas)
        with w.if_(self.factored):
            reflectors = Packed(self.area("packed"), few, many, self.area("taus"))
            multiply_by_reflectors(w, t, reflectors, few, (target, columns, columns), self.areas)

    def multiply_right(self) -> None:
        """Reflectors of rows begin with the second column."""
        w, t, few = self.w, self.t, self.few
        turned = self.area("turned_reflectors")
        self.transpose(self.area("reflectors"), few, self["pitch"], turned)
        fewer = w.isub(few, 1)
        reflectors = Packed(place(w, t, turned, few), few, fewer, self.area("rights"))
        rows = place(w, t, self.area("right"), few), few, few
        multiply_by_reflectors(w, t, reflectors, fewer, rows, self.right_areas)


def _emit_side(module: ModuleWriter, t: P) -> None:
    """void singular.side(context, side): the vectors on one side."""
    fields = [("ptr", "context"), ("i64", "side")]
    w = module.function("singular.side", fields, internal=True)
    given = read_table(w, "%context", _SIDE)
    p = _Problem(w, t, given, given["number"], given["task"])

    def left() -> list[str]:
        p.multiply_left()
        return []

    def right() -> list[str]:
        p.multiply_right()
        return []

    w.if_else(w.cmp("eq", "i64", "%side", "0"), [], left, right)
    w.ret()


def _problem(t: P, w: FunctionWriter, given: Mapping[str, str], number: str, task: str) -> None:
    p = _Problem(w, t, given, number, task)
    m, n = p["m"], p["n"]
    a = p.array("a", m, n)
    p.copy(a, p.array("copy", m, n), m, n)
    finite = w.call("lapack.finite", "i1", [("ptr", a), ("i64", w.imul(m, n))])
    # Without vectors there is room for the fewest.
    left, right = (w.select(p.wanted, "i64", given[side], p.few) for side in ("left", "right"))
    u, vh = p.array("u", m, left), p.array("vh", right, n)

    def found() -> list[str]:
        power = p.reduce()
        p.decompose()
        p.store_values(power)
        w.if_else(p.wanted, [], vectors, none)
        return []

    def vectors() -> list[str]:
        p.store_vectors()
        return []

    def none() -> list[str]:
        p.clear(u, m, left)
        p.clear(vh, right, n)
        return []

    def unknown() -> list[str]:
        s = p.array("s", p.few)
        for target, count in ((s, p.few), (u, w.imul(m, left)), (vh, w.imul(right, n))):
            w.call("lapack.nan", "void", [("ptr", target), ("i64", count)])
        w.store("i32", "1", w.gep("i32", given["info"], number))
        return []

    w.if_else(finite, [], found, unknown)


def _emit(t: P, module: ModuleWriter) -> None:
    emit_transpose(module, t)
    emit_finite(module, t)
    emit_nan(module, t)
    emit_reflectors(module, t)
    emit_factor(module, t)
    emit_bidiagonal(module, t)
    _emit_scale(module, t)
    _emit_fill(module, t)
    _emit_side(module, t)
    emit_tasks(module, f"pyjax_svd_blocked_{t}", _PARAMETERS, partial(_problem, t))


def register() -> None:
    """Declares the routine of every element type."""
    for t in TYPES:
        register_group(f"svd_blocked_{t}", (f"pyjax_svd_blocked_{t}",), partial(_emit, t))
