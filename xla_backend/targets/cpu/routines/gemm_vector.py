"""Matrix times vector: dot products of four rows at a time, or combinations of eight rows.

Elements are converted to the type of the arithmetic as they are loaded, sums to that of results as
these are stored. Complex numbers are two vectors, real and imaginary parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, reduce

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import elemental
from xla_backend.llvm.types import const, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_context import element_type, packed_element
from xla_backend.targets.cpu.routines.gemm_micro import multiply_add
from xla_backend.targets.cpu.routines.gemm_paths import (
    DOT_DEPTH,
    DOT_ROWS,
    FEW_COLUMNS,
    FEW_DEPTH,
    FEW_ELEMENTS,
    has_tall_dots,
)
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType, Tile
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_tasks, table_of

_ROWS = 4
_RESULTS = 16
_UNROLL = 2
_ROWS_PER_TASK_BYTES = 1 << 18
_COLUMNS_PER_TASK = 1024
_TALL_TASK = "tall.task"
PAIR = "vector_pair"
# Of the rows of a tall matrix that stay in the first-level cache from one column to the next.
_NEAR_BYTES = 24 * 1024
# What dot products with few columns are told.
_DOTS = TaskContext(
    ("A", "B", "C", "epilogue", "data", "M", "N", "K", "rsA", "csB", "ldc", "flags", "batch"),
    pointers=5,
)


def emit_matrix_vector(
    module: ModuleWriter, prefix: str, t: GemmType, tile: Tile, way: str
) -> None:
    """One of three kernels: void way(results, K, matrix, stride, vector, out, out_stride, flags,
                                    epilogue, data, batch, by_rows)

    vector: result i is the dot product of row i (at i * stride, contiguous) with the vector.
    vector_pair: so are two results that are neighbours, with the vector and another behind it.
    vector_columns: the results are the vector's combination of K contiguous rows (at k * stride).
    The epilogue (or null) finishes results that are a column of C (by_rows 1) or a row (0).
    """
    task = f"{prefix}.{way}.task"
    by_rows = {"vector": 1, PAIR: 2}  # vectors at once
    body = module.function(task, [("ptr", "ctx"), ("i64", "block")], internal=True)
    if way in by_rows:
        _emit_task(body, t, tile, by_rows[way])
    else:
        _emit_columns_task(body, t, tile)
    names = [("i64", "rows"), ("i64", "K"), ("ptr", "mat"), ("i64", "stride"), ("ptr", "vec")]
    names += [("ptr", "out"), ("i64", "out_stride"), ("i64", "flags")]
    names += [("ptr", "epilogue"), ("ptr", "data"), ("i64", "batch"), ("i64", "by_rows")]
    w = module.function(f"{prefix}.{way}", names, internal=True)
    if way in by_rows:
        row_bytes = w.imax(w.imul("%K", t.source.byte_size), 1)
        per_task = w.imax(w.op("udiv", "i64", str(_ROWS_PER_TASK_BYTES), row_bytes), 1)
        # Whole vectors of results, as epilogues expect.
        per_task = w.op("and", "i64", w.iadd(per_task, _RESULTS - 1), str(-_RESULTS))
    else:
        per_task = str(_COLUMNS_PER_TASK)
    context = table_of(w, [*((ty, f"%{name}") for ty, name in names), ("i64", per_task)])
    blocks = w.op("udiv", "i64", w.iadd("%rows", w.isub(per_task, 1)), per_task)
    run_tasks(w, task, context, blocks, polled=False)
    w.ret()


def _emit_finish(
    w: FunctionWriter, t: GemmType, get: Callable[..., str], lo: str, hi: str, step: str
) -> None:
    """Calls the epilogue, if there is one, for the results lo to hi, `step` elements apart."""
    epilogue, data, batch, by_rows = get(8, "ptr"), get(9, "ptr"), get(10), get(11)
    with w.if_(w.cmp("ne", "ptr", epilogue, "null")):
        place = w.gep(element_type(t, "C"), get(5, "ptr"), w.imul(lo, step))
        rows = w.cmp("ne", "i64", by_rows, "0")
        along, across = (lo, w.isub(hi, lo)), ("0", "1")
        parts = [w.select(rows, "i64", a, b) for a, b in zip(along + across, across + along)]
        arguments = [("ptr", data), ("ptr", place), ("i64", step)]
        w.call_pointer(epilogue, "void", arguments + [("i64", x) for x in (*parts, batch)])


class _Numbers:
    """Elements of operands and results as one or two registers of the arithmetic's type."""

    def __init__(self, w: FunctionWriter, t: GemmType) -> None:
        self.w, self.t = w, t
        self.elem, self.parts = packed_element(t)

    def zeros(self, width: int) -> list[str]:
        return [const(vector(self.elem, width), 0.0)] * self.parts

    def load(self, array: str, at: str, width: int, mask: str | None = None) -> tuple[str, ...]:
        """Of an operand; 0 outside of the mask."""
        return self._converted(self.t.source, array, at, width, mask)

    def result(self, array: str, at: str, width: int) -> tuple[str, ...]:
        """Of what C has."""
        return self._converted(self.t.target, array, at, width)

    def _converted(
        self, source: P, array: str, at: str, width: int, mask: str | None = None
    ) -> tuple[str, ...]:
        value = elemental.load(self.w, source, width, array, at, mask)
        value = elemental.emit_convert(self.w, source, self.t.compute, width, value)
        return (value,) if isinstance(value, str) else value

    def put(self, array: str, at: str, width: int, parts: tuple[str, ...]) -> None:
        """Into C."""
        value = parts if self.parts == 2 else parts[0]
        value = elemental.emit_convert(self.w, self.t.compute, self.t.target, width, value)
        elemental.store(self.w, self.t.target, width, value, array, at)

    def add(self, width: int, a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
        ty = vector(self.elem, width)
        return tuple(self.w.op("fadd", ty, x, y) for x, y in zip(a, b, strict=True))

    def multiply_add(
        self, width: int, a: tuple[str, ...], b: tuple[str, ...], c: tuple[str, ...]
    ) -> tuple[str, ...]:
        """c + a b."""
        return multiply_add(self.w, self.t.compute, vector(self.elem, width), a, b, c)

    def operand(self, array: str, at: str) -> str:
        return self.w.gep(element_type(self.t, "A"), array, at)


def _emit_columns_task(w: FunctionWriter, t: GemmType, tile: Tile) -> None:
    """A block of results, whose sums stay in the first-level cache, eight rows of the matrix a
    pass."""

    def get(i: int, ty: str = "i64") -> str:
        return w.load_invariant(ty, w.gep("i64", "%ctx", i), 8)

    total, k, mat, stride = get(0), get(1), get(2, "ptr"), get(3)
    vec, out, flags = get(4, "ptr"), get(5, "ptr"), get(7)
    numbers, lanes = _Numbers(w, t), tile.lanes
    elem, parts = numbers.elem, range(numbers.parts)
    first = w.imul("%block", _COLUMNS_PER_TASK)
    end = w.imin(w.iadd(first, _COLUMNS_PER_TASK), total)
    count = w.isub(end, first)
    whole = w.op("and", "i64", count, str(-lanes))
    mat = numbers.operand(mat, first)
    memory = w.alloca(elem, _COLUMNS_PER_TASK * numbers.parts, 64)
    sums = [w.gep(elem, memory, _COLUMNS_PER_TASK * part) for part in parts]
    ranges = ((lanes, "0", whole), (1, whole, count))

    def keep(at: str, width: int, values: tuple[str, ...]) -> None:
        for part, value in zip(sums, values, strict=True):
            w.store(vector(elem, width), value, w.gep(elem, part, at))

    def kept(at: str, width: int) -> tuple[str, ...]:
        return tuple(w.load(vector(elem, width), w.gep(elem, part, at)) for part in sums)

    adding = w.cmp("ne", "i64", w.op("and", "i64", flags, "1"), "0")
    for width, start, stop in ranges:
        with w.loop(start, stop, width) as loop:
            at, types = loop.index, [vector(elem, width)] * numbers.parts

            def old(at: str = at, width: int = width) -> list[str]:
                return [*numbers.result(out, w.iadd(first, at), width)]

            zeros = partial(numbers.zeros, width)
            keep(at, width, tuple(w.if_else(adding, types, old, zeros)))

    def combine(row: str, rows: int) -> None:
        factors = [numbers.load(vec, w.iadd(row, r), 1) for r in range(rows)]
        bases = [numbers.operand(mat, w.imul(w.iadd(row, r), stride)) for r in range(rows)]
        for width, start, stop in ranges:
            ty = vector(elem, width)
            spread = [tuple(w.splat(ty, part) for part in factor) for factor in factors]
            with w.loop(start, stop, width) as loop:
                # Two chains, so that the additions of eight rows do not wait for each other.
                chains = [kept(loop.index, width), tuple(numbers.zeros(width))]
                for r in range(rows):
                    value = numbers.load(bases[r], loop.index, width)
                    chains[r % 2] = numbers.multiply_add(width, value, spread[r], chains[r % 2])
                keep(loop.index, width, numbers.add(width, *chains))

    eights = w.op("and", "i64", k, "-8")
    with w.loop("0", eights, 8) as loop:
        combine(loop.index, 8)
    with w.loop(eights, k) as loop:
        combine(loop.index, 1)
    for width, start, stop in ranges:
        with w.loop(start, stop, width) as loop:
            at = w.iadd(first, loop.index)
            numbers.put(out, at, width, kept(loop.index, width))
    _emit_finish(w, t, get, first, end, "1")
    w.ret()


def _emit_task(w: FunctionWriter, t: GemmType, tile: Tile, vectors: int) -> None:
    def get(i: int, ty: str = "i64") -> str:
        return w.load_invariant(ty, w.gep("i64", "%ctx", i), 8)

    rows, k, mat, stride = get(0), get(1), get(2, "ptr"), get(3)
    vec, out, out_stride, flags, per_task = get(4, "ptr"), get(5, "ptr"), get(6), get(7), get(12)
    lo = w.imul("%block", per_task)
    hi = w.imin(w.iadd(lo, per_task), rows)
    numbers, lanes = _Numbers(w, t), tile.lanes
    elem, parts = numbers.elem, numbers.parts
    ty = vector(elem, lanes)
    adding = w.cmp("ne", "i64", w.op("and", "i64", flags, "1"), "0")
    wide = lanes * _UNROLL
    whole = w.imul(w.op("udiv", "i64", k, str(wide)), wide)

    def grouped(values: list[str]) -> list[tuple[str, ...]]:
        return [tuple(values[i : i + parts]) for i in range(0, len(values), parts)]

    def times(
        bases: list[str], at: str, width: int, sums: list[tuple[str, ...]], mask: str | None = None
    ) -> list[str]:
        """Sums, by rows and then by vectors, with the products of some elements of each."""
        xs = [numbers.load(vec, w.iadd(at, w.imul(k, v)), width, mask) for v in range(vectors)]
        found: list[str] = []
        for r, base in enumerate(bases):
            a = numbers.load(base, at, width, mask)
            for v, x in enumerate(xs):
                found += numbers.multiply_add(width, a, x, sums[r * vectors + v])
        return found

    def dot(row: str, count: int) -> None:
        bases = [numbers.operand(mat, w.imul(w.iadd(row, r), stride)) for r in range(count)]
        each = count * vectors
        start = [(ty, zero) for zero in numbers.zeros(lanes) * (each * _UNROLL)]
        with w.loop("0", whole, wide, start) as loop:
            so_far = grouped(loop.carried)
            for u in range(_UNROLL):
                at = w.iadd(loop.index, u * lanes)
                loop.next += times(bases, at, lanes, so_far[u * each : (u + 1) * each])
        found = grouped(loop.results)
        tail = whole
        if w.target.has_masks:
            # What is left as one or two vectors, if it is more than one or two elements.
            tail = w.select(w.cmp("sgt", "i64", w.isub(k, whole), "2"), "i64", k, whole)
            first = [value for sums in found[:each] for value in sums]
            with w.loop(whole, tail, lanes, [(ty, value) for value in first]) as left:
                mask = w.active_mask(lanes, "0", w.isub(k, left.index))
                left.next += times(bases, left.index, lanes, grouped(left.carried), mask)
            found[:each] = grouped(left.results)
        totals: list[str] = []
        for i in range(each):
            total = found[i]
            for u in range(1, _UNROLL):
                total = numbers.add(lanes, total, found[u * each + i])
            totals += [w.reduce("fadd", ty, part) for part in total]
        with w.loop(tail, k, 1, [(elem, total) for total in totals]) as rest:
            rest.next += times(bases, rest.index, 1, grouped(rest.carried))
        for i, value in enumerate(grouped(rest.results)):
            place = w.iadd(w.imul(w.iadd(row, i // vectors), out_stride), i % vectors)

            def old(place: str = place) -> list[str]:
                return [*numbers.result(out, place, 1)]

            before = w.if_else(adding, [elem] * parts, old, lambda: numbers.zeros(1))
            numbers.put(out, place, 1, numbers.add(1, value, tuple(before)))

    full = w.imul(w.op("udiv", "i64", w.isub(hi, lo), str(_ROWS)), _ROWS)
    end = w.iadd(lo, full)
    with w.loop(lo, end, _ROWS) as loop:
        dot(loop.index, _ROWS)
    with w.loop(end, hi) as loop:
        dot(loop.index, 1)
    _emit_finish(w, t, get, lo, hi, out_stride)
    w.ret()


def emit_dots(w: FunctionWriter, t: GemmType, tile: Tile, prefix: str) -> None:
    """In a product: returns behind it, where it is one of few columns and rows that are contiguous
    along K. A column after the other, so that the rows come from the cache."""
    conditions = [w.cmp("eq", "i64", stride, "1") for stride in ("%csA", "%rsB")]
    conditions += [
        w.cmp("slt", "i64", "%N", str(tile.lanes)),
        w.cmp("sle", "i64", "%M", str(DOT_ROWS)),
        w.cmp("sge", "i64", "%K", str(DOT_DEPTH)),
    ]
    with _behind(w, conditions):
        given = {name: f"%{name}" for name in _DOTS.names}
        _emit_row_dots(w, t, tile, prefix, given, "0", "%M")
    if not has_tall_dots(t, w.target):
        return
    conditions = [
        w.cmp("eq", "i64", "%csA", "1"),
        w.cmp("sgt", "i64", "%M", str(DOT_ROWS)),
        w.cmp("sle", "i64", "%N", str(FEW_COLUMNS)),
        w.cmp("sge", "i64", "%K", str(FEW_DEPTH)),
        w.cmp("sle", "i64", w.imul("%N", "%K"), str(FEW_ELEMENTS)),
    ]
    with _behind(w, conditions):
        elem = element_type(t, "B")
        columns = w.alloca(elem, FEW_ELEMENTS, 64)
        with w.loop("0", "%N") as column, w.loop("0", "%K") as row:
            at = w.iadd(w.imul(row.index, "%rsB"), w.imul(column.index, "%csB"))
            place = w.iadd(w.imul(column.index, "%K"), row.index)
            w.store(elem, w.load(elem, w.gep(elem, "%B", at)), w.gep(elem, columns, place))
        changed = {"B": columns, "csB": "%K"}
        context = _DOTS.make(w, [changed.get(name, f"%{name}") for name in _DOTS.names])
        blocks = w.op("udiv", "i64", w.iadd("%M", DOT_ROWS - 1), str(DOT_ROWS))
        run_tasks(w, f"{prefix}.{_TALL_TASK}", context, blocks, polled=False)


def emit_tall_task(module: ModuleWriter, t: GemmType, tile: Tile, prefix: str) -> None:
    """void task(ptr context, i64 block): so many rows of a tall matrix by few columns."""
    parameters = [("ptr", "ctx"), ("i64", "block")]
    w = module.function(f"{prefix}.{_TALL_TASK}", parameters, internal=True)
    given = dict(zip(_DOTS.names, _DOTS.fields(w)))
    start = w.imul("%block", DOT_ROWS)
    stop = w.imin(w.iadd(start, DOT_ROWS), given["M"])
    row_bytes = w.imul(given["K"], t.source.byte_size)
    near = w.op("and", "i64", w.op("udiv", "i64", str(_NEAR_BYTES), row_bytes), str(-_ROWS))
    near = w.imax(near, _ROWS)
    with w.loop(start, stop, near) as loop:
        rows = w.imin(w.isub(stop, loop.index), near)
        _emit_row_dots(w, t, tile, prefix, given, loop.index, rows, by_pairs=True)
    w.ret()


@contextmanager
def _behind(w: FunctionWriter, conditions: list[str]) -> Iterator[None]:
    """Code that the function returns after, where all conditions hold."""
    yes, no = w.new_label("dots"), w.new_label("other")
    w.cond_br(reduce(lambda a, b: w.op("and", "i1", a, b), conditions), yes, no)
    w.label(yes)
    with w.scope():
        yield
        w.ret()
    w.label(no)


def _emit_row_dots(
    w: FunctionWriter,
    t: GemmType,
    tile: Tile,
    prefix: str,
    given: dict[str, str],
    first: str,
    rows: str,
    by_pairs: bool = False,
) -> None:
    """Up to DOT_ROWS rows by each column, or by two that lie one behind the other, and the epilogue
    of these results."""
    without_c = w.cmp("eq", "ptr", given["C"], "null")
    elem = element_type(t, "C")
    width = max(tile.lanes, FEW_COLUMNS)
    scratch = w.alloca(elem, DOT_ROWS * width, 64)
    pitch = w.select(without_c, "i64", str(width), given["ldc"])
    place = w.gep(elem, given["C"], w.imul(first, given["ldc"]))
    c = w.select(without_c, "ptr", scratch, place)
    a = w.gep(element_type(t, "A"), given["A"], w.imul(first, given["rsA"]))

    def multiply(way: str, number: str) -> None:
        column = w.gep(element_type(t, "B"), given["B"], w.imul(number, given["csB"]))
        arguments = [("i64", rows), ("i64", given["K"]), ("ptr", a), ("i64", given["rsA"])]
        arguments += [("ptr", column), ("ptr", w.gep(elem, c, number)), ("i64", pitch)]
        arguments += [("i64", given["flags"]), ("ptr", "null"), ("ptr", "null")]
        w.call(f"{prefix}.{way}", "void", [*arguments, ("i64", "0"), ("i64", "1")])

    pairs = w.op("and", "i64", given["N"], "-2") if by_pairs else "0"
    if by_pairs:
        with w.loop("0", pairs, 2) as loop:
            multiply(PAIR, loop.index)
    with w.loop(pairs, given["N"]) as loop:
        multiply("vector", loop.index)
    with w.if_(w.cmp("ne", "ptr", given["epilogue"], "null")):
        arguments = [("ptr", given["data"]), ("ptr", c), ("i64", pitch), ("i64", first)]
        arguments += [("i64", rows), ("i64", "0"), ("i64", given["N"]), ("i64", given["batch"])]
        w.call_pointer(given["epilogue"], "void", arguments)
