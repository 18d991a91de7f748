"""Dense matrices by rows, in vectors along the rows: what routines of larger matrices share."""

from __future__ import annotations

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import elemental
from xla_backend.llvm.transposes import transpose
from xla_backend.llvm.types import const, element
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.matrix_lanes import Element, Lanes, element_of, parts_of


def place(w: FunctionWriter, t: P, array: str, at: str) -> str:
    parts = 2 if t.is_complex else 1
    return w.gep("double" if t in (P.F64, P.C128) else "float", array, w.imul(at, parts))


class Rows:
    """Rows of arrays, in vectors along them."""

    def __init__(self, w: FunctionWriter, t: P) -> None:
        self.w, self.t, self.lanes = w, t, Lanes(w, t)

    def load(self, array: str, at: str, mask: str | None = None) -> Element:
        return elemental.load(self.w, self.t, self.lanes.count, array, at, mask)

    def store(self, array: str, at: str, value: Element, mask: str | None = None) -> None:
        elemental.store(self.w, self.t, self.lanes.count, value, array, at, mask)

    def number(self, array: str, at: str) -> Element:
        """One element, in all lanes."""
        ty = self.lanes.ty
        start = place(self.w, self.t, array, at)
        parts = [
            self.w.splat(ty, self.w.load(element(ty), self.w.gep(element(ty), start, part)))
            for part in range(self.lanes.parts)
        ]
        return element_of(parts)

    def mask(self, at: str, stop: str) -> str:
        return self.w.active_mask(self.lanes.count, at, stop)


def product(w: FunctionWriter, t: P, *operands: str) -> None:
    """C += A B. Operands: M N K, A and its strides, B and its strides, C and its pitch."""
    name = f"pyjax_gemm_{t}" if not t.is_complex else f"pyjax_gemm_{t}_{t}"
    pointers = (3, 6, 9)
    arguments = [("ptr" if i in pointers else "i64", x) for i, x in enumerate([*operands, "1"])]
    w.call(name, "void", arguments)


# -- helpers, once in each group -------------------------------------------------------------------


def emit_negate(module: ModuleWriter, t: P) -> None:
    """void rows.negate(source, source_row, rows, columns, conjugated, target): dense rows."""
    w = module.function(
        "rows.negate",
        [
            ("ptr", "source"), ("i64", "row"), ("i64", "rows"), ("i64", "columns"),
            ("i64", "conjugated"), ("ptr", "target"),
        ],
        internal=True,
    )  # fmt: skip
    v = Rows(w, t)
    ty, real = v.lanes.ty, element(v.lanes.ty)
    is_conjugated = w.cmp("ne", "i64", "%conjugated", "0")
    sign = w.splat(ty, w.select(is_conjugated, real, const(real, -1.0), const(real, 1.0)))
    with w.loop("0", "%rows") as rows:
        source = place(w, t, "%source", w.imul(rows.index, "%row"))
        target = place(w, t, "%target", w.imul(rows.index, "%columns"))
        with w.loop("0", "%columns", v.lanes.count) as columns:
            mask = v.mask(columns.index, "%columns")
            value = v.lanes.with_sign(v.load(source, columns.index, mask), sign)
            v.store(target, columns.index, v.lanes.map(lambda x: w.fneg(ty, x), value), mask)
    w.ret()


def emit_transpose(module: ModuleWriter, t: P) -> None:
    """void rows.transpose(source, rows, columns, conjugated, target): dense on both sides."""
    w = module.function(
        "rows.transpose",
        [
            ("ptr", "source"), ("i64", "rows"), ("i64", "columns"), ("i64", "conjugated"),
            ("ptr", "target"),
        ],
        internal=True,
    )  # fmt: skip
    v = Rows(w, t)
    lanes, ty = v.lanes, v.lanes.ty
    real, count = element(ty), lanes.count
    is_conjugated = w.cmp("ne", "i64", "%conjugated", "0")
    sign = w.splat(ty, w.select(is_conjugated, real, const(real, -1.0), const(real, 1.0)))
    with w.loop("0", "%rows", count) as rows, w.loop("0", "%columns", count) as columns:
        i, j = rows.index, columns.index
        wide, tall = v.mask(j, "%columns"), v.mask(i, "%rows")

        def row(k: int) -> str:
            # Rows beyond the last one repeat it.
            number = w.imin(w.iadd(i, k), w.isub("%rows", 1))
            return place(w, t, "%source", w.imul(number, "%columns"))

        square = [lanes.with_sign(v.load(row(k), j, wide), sign) for k in range(count)]
        turned = [transpose(w, ty, list(part)) for part in zip(*map(parts_of, square))]
        for k, parts in enumerate(zip(*turned)):
            with w.if_(w.cmp("slt", "i64", w.iadd(j, k), "%columns")):
                target = place(w, t, "%target", w.imul(w.iadd(j, k), "%rows"))
                v.store(target, i, element_of(parts), tall)
    w.ret()
