"""GEMM for this machine: micro-kernels with run-time sizes, packing, blocking and threads.

Small products run on the operands where they lie (B with unit column stride is read a vector at a
time, A one element at a time); everything else packs panels of B and blocks of A first. See the
package docstring for the symbols. The order of additions depends on sizes only, never on threads.

A product may have an epilogue: a function that finishes a block of C right after its last addition,
by the thread that computed it and while it is in the first-level cache.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from xla_backend.llvm.types import bits_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_context import (
    BATCHED,
    EPILOGUE,
    FIELDS,
    OUTER,
    PRODUCT,
    Context,
    ceil_div,
    element_type,
    packed_element,
    parameters,
)
from xla_backend.targets.cpu.routines.gemm_micro import HALVES, MICRO, emit_micro_kernel, micro_name
from xla_backend.targets.cpu.routines.gemm_pack import (
    MULTIPLES_ARE_NORMAL,
    emit_least_exponent,
    emit_pack_a,
    emit_pack_b,
)
from xla_backend.targets.cpu.routines.gemm_parts import splits
from xla_backend.targets.cpu.routines.gemm_paths import (
    ANY,
    ANY_WIDTH_PATHS,
    DIRECT_BYTES,
    DIRECT_TILES,
    DOTS,
    PATHS,
    VECTOR_WAYS,
    Path,
    has_direct_kernels,
    has_tall_dots,
    has_vector_kernels,
    is_vector,
    is_way,
    symbol_of,
)
from xla_backend.targets.cpu.routines.gemm_split import emit_is_split, emit_split
from xla_backend.targets.cpu.routines.gemm_tiles import (
    GEMM_TYPES,
    GemmType,
    Tile,
    depth_group,
    has_bfloat_pairs,
)
from xla_backend.targets.cpu.routines.gemm_vector import (
    PAIR,
    emit_dots,
    emit_matrix_vector,
    emit_tall_task,
)
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.task_context import run_tasks
from xla_backend.targets.cpu.routines.workspace import GIVE, TAKE

# Below this many multiply-adds threads cost more than they give (about 15 us of one core).
_PARALLEL_WORK = 1 << 20
# A block that is handed to an epilogue: rows in register tiles, columns in panels. Small enough for
# the first-level cache, and wide enough for loops along its rows.
_BLOCK_TILES = 8
_BLOCK_PANELS = 4
# A B in place of more bytes comes from far away: some rows at a time, so that what is read of each
# goes on where it ended. One panel down all of K would touch three lines of every page.
_FAR_BYTES = 1 << 20
_FAR_ROWS = 128


def _panel_start(w: FunctionWriter, panels: str, vectors: str, index: str) -> str:
    """First vector of a panel: `vectors` vectors are dealt out evenly to the panels."""
    base = w.op("udiv", "i64", vectors, panels)
    extra = w.isub(vectors, w.imul(base, panels))
    return w.iadd(w.imul(base, index), w.imin(index, extra))


class _Panel(NamedTuple):
    """Columns of B: the first, how many vectors, and how many columns those hold; whether they or
    the rows have numbers that the quick kernels are not for (None: there are no others)."""

    column: str
    vectors: str
    valid: str
    small: str | None


class _Depth(NamedTuple):
    """Part of K: the first, how many, and whether C has the sum of those before (an integer)."""

    start: str
    length: str
    accumulate: str


class _Driver:
    """Emits the functions of one GEMM type into a module, for all paths or a single one."""

    def __init__(self, module: ModuleWriter, t: GemmType, path: Path = ANY) -> None:
        self.module = module
        self.path = path
        # How the parts of K are multiplied, where the path is to split it.
        self.inner = path._replace(split=False).name if path.split else None
        direct = has_direct_kernels(t, module.target)
        whole = path.way if self.inner is None else ""
        self.vector = has_vector_kernels(t) and (whole is None or is_vector(Path(whole)))
        self.direct = direct and whole in (None, "direct")
        self.transposed = direct and whole in (None, "transposed")
        self.packs = whole in (None, "packed")
        self.t = t
        self.tile: Tile = path.tile(t, module.target)
        self.heights, self.widths = path.heights(self.tile), path.widths(self.tile)
        self.prefix = f"gemm.{t.name}"
        self.packed, self.parts = packed_element(t)
        self.group = depth_group(t, module.target)
        self.least = f"{self.prefix}.least" if has_bfloat_pairs(t, module.target) else None

    # ---- tasks ---------------------------------------------------------------------------------

    def _for_rows(
        self,
        w: FunctionWriter,
        lo: str,
        hi: str,
        body: Callable[[str, int], None],
    ) -> None:
        """body(row, count) over [lo, hi): full tiles, then the rest in halves 4, 2, 1."""
        full, *halves = self.heights
        if not halves:
            end = hi
        else:
            whole = w.imul(w.op("udiv", "i64", w.isub(hi, lo), str(full)), full)
            end = w.iadd(lo, whole)
        with w.loop(lo, end, full) as loop:
            body(loop.index, full)
        at = end
        for size in halves:
            fits = w.cmp("sge", "i64", w.isub(hi, at), str(size))
            with w.if_(fits):
                body(at, size)
            at = w.iadd(at, w.select(fits, "i64", str(size), "0"))

    def _micro_kernel(self, w: FunctionWriter, rows: int, count: str, layout: str) -> str:
        """The micro-kernel for a run-time number of vectors: a call of each would be more code."""
        *others, last = self.widths
        kernel = f"@{micro_name(self.prefix, rows, last, layout)}"
        for v in others:
            other = f"@{micro_name(self.prefix, rows, v, layout)}"
            kernel = w.select(w.cmp("eq", "i64", count, str(v)), "ptr", other, kernel)
        return kernel

    def emit_tile_task(self, layout: str) -> None:
        """void task(ptr context, i64 block): a range of rows times a range of panels.

        layout "direct": operands in place, rows of A contiguous; "transposed": columns of A
        contiguous; "packed": both packed.
        """
        w = self.module.function(
            f"{self.prefix}.{layout}", [("ptr", "ctx"), ("i64", "block")], internal=True
        )
        ctx = Context(w, "%ctx")
        lanes = str(self.tile.lanes)
        m, n = ctx.get("M"), ctx.get("N")
        column_blocks = ctx.get("column_blocks")
        row_block = w.op("udiv", "i64", "%block", column_blocks)
        column_block = w.isub("%block", w.imul(row_block, column_blocks))
        rows_per_block = ctx.get("rows_per_block")
        row_lo = w.imul(row_block, rows_per_block)
        row_hi = w.imin(w.iadd(row_lo, rows_per_block), m)
        panels, per_block = ctx.get("panels"), ctx.get("panels_per_block")
        panel_lo = w.imul(column_block, per_block)
        panel_hi = w.imin(w.iadd(panel_lo, per_block), panels)
        vectors = ceil_div(w, n, lanes)
        if layout == "packed":
            with w.if_(w.cmp("eq", "i64", column_block, "0")):
                self._pack_rows(w, ctx, row_lo, row_hi)
        least = self._least_of_rows(w, ctx, row_lo, row_hi) if layout == "packed" else None
        # Several column blocks never share packed rows: emit_entry gives packed products one.
        has_epilogue = w.cmp("ne", "ptr", ctx.get("epilogue"), "null")
        # An epilogue finds a block of C in the cache if the block has few rows.
        block_rows = self.tile.rows * _BLOCK_TILES
        height = w.select(has_epilogue, "i64", str(block_rows), w.imax(w.isub(row_hi, row_lo), 1))
        block_columns = self.tile.columns * _BLOCK_PANELS
        scratch = w.alloca(element_type(self.t, "C"), block_rows * block_columns, 64)
        with (
            w.loop(row_lo, row_hi, height) as chunk,
            w.loop("0", ctx.get("kc"), ctx.get("piece"), guard=False) as part,
            w.loop(panel_lo, panel_hi, _BLOCK_PANELS) as group,
        ):
            depth = self._part_of_depth(w, ctx, part.index)
            end = w.iadd(part.index, ctx.get("piece"))
            complete = w.cmp("sge", "i64", end, ctx.get("kc"))
            finish = w.op("and", "i1", has_epilogue, complete)
            rows = (chunk.index, w.imin(w.iadd(chunk.index, height), row_hi))
            group_end = w.imin(w.iadd(group.index, _BLOCK_PANELS), panel_hi)
            start = w.imul(_panel_start(w, panels, vectors, group.index), lanes)
            block = self._block_of_c(w, ctx, rows[0], start, scratch)
            with w.loop(group.index, group_end) as columns:
                first = _panel_start(w, panels, vectors, columns.index)
                last = _panel_start(w, panels, vectors, w.iadd(columns.index, 1))
                column = w.imul(first, lanes)
                valid = w.isub(w.imin(n, w.imul(last, lanes)), column)
                place = w.gep(element_type(self.t, "C"), block[0], w.isub(column, start))
                small = self._is_small(w, ctx, least, columns.index)
                panel = _Panel(column, w.isub(last, first), valid, small)
                self._multiply_panel(w, ctx, layout, rows, panel, depth, (place, block[1]))
            with w.if_(finish):
                end = w.imul(_panel_start(w, panels, vectors, group_end), lanes)
                count = w.isub(w.imin(n, end), start)
                rows = (rows[0], w.isub(rows[1], rows[0]))
                self._call_epilogue(w, ctx, rows, (start, count), block)
        w.ret()

    def _part_of_depth(self, w: FunctionWriter, ctx: Context, done: str) -> _Depth:
        """The piece of K that begins after so many of those that the context speaks of."""
        length = w.imin(ctx.get("piece"), w.isub(ctx.get("kc"), done))
        later = w.cmp("sgt", "i64", done, "0")
        accumulate = w.select(later, "i64", "1", ctx.get("first"))
        return _Depth(w.iadd(ctx.get("pc"), done), length, accumulate)

    def _block_of_c(
        self, w: FunctionWriter, ctx: Context, row: str, column: str, scratch: str
    ) -> tuple[str, str]:
        """Where a block of results goes, and its row stride: into C, or if there is none to
        scratch memory."""
        c, ldc = ctx.get("C"), ctx.get("ldc")
        none = w.cmp("eq", "ptr", c, "null")
        place = w.gep(element_type(self.t, "C"), c, w.iadd(w.imul(row, ldc), column))
        stride = w.select(none, "i64", str(self.tile.columns * _BLOCK_PANELS), ldc)
        return w.select(none, "ptr", scratch, place), stride

    def _call_epilogue(
        self,
        w: FunctionWriter,
        ctx: Context,
        rows: tuple[str, str],
        columns: tuple[str, str],
        block: tuple[str, str],
    ) -> None:
        """Hands some rows and columns (first, count) of C to the epilogue."""
        arguments = [("ptr", ctx.get("data")), ("ptr", block[0]), ("i64", block[1])]
        arguments += [("i64", x) for x in (*rows, *columns, ctx.get("batch"))]
        w.call_pointer(ctx.get("epilogue"), "void", arguments)

    def _multiply_panel(
        self,
        w: FunctionWriter,
        ctx: Context,
        layout: str,
        rows: tuple[str, str],
        panel: _Panel,
        depth: _Depth,
        block: tuple[str, str],
    ) -> None:
        """Some rows times a panel of columns; the results go to `block` (address, row stride).
        What is packed is so for all of the depth."""
        column, count, valid, small = panel
        pc, kc, accumulate = depth
        if layout == "packed":
            kc = self._packed_depth(w, kc)
            b_ptr = w.gep(self.packed, ctx.get("packB"), w.imul(w.imul(column, kc), self.parts))
            b_step = w.imul(w.imul(count, str(self.tile.lanes)), self.parts)
        else:
            b_step = ctx.get("rsB")
            at = w.iadd(column, w.imul(pc, b_step))
            b_ptr = w.gep(element_type(self.t, "B"), ctx.get("B"), at)

        def rows_of(row: str, height: int) -> None:
            a_ptr, a_step = self._rows_of_a(w, ctx, layout, row, height, depth)
            offset = w.imul(w.isub(row, rows[0]), block[1])
            args = [("ptr", a_ptr), ("i64", a_step), ("ptr", b_ptr), ("i64", b_step)]
            args += [
                ("ptr", w.gep(element_type(self.t, "C"), block[0], offset)),
                ("i64", block[1]),
            ]
            args += [("i64", kc), ("i64", valid), ("i64", accumulate)]

            def at_once() -> list[str]:
                w.call_pointer(kernels[height], "void", args)
                return []

            def by_vectors() -> list[str]:
                self._multiply_halves(w, height, count, args)
                return []

            if small is None:
                at_once()
            else:
                w.if_else(small, [], by_vectors, at_once, likely=False)

        micro_layout = "rows" if layout == "direct" else "columns"
        kernels = {h: self._micro_kernel(w, h, count, micro_layout) for h in self.heights}
        self._for_rows(w, *rows, rows_of)

    def _multiply_halves(
        self, w: FunctionWriter, height: int, count: str, args: list[tuple[str, str]]
    ) -> None:
        """What the micro-kernel for so many vectors does, for bf16 of any size: a vector at a time,
        as larger kernels would be half of what LLVM has to compile."""
        values = dict(zip(MICRO, (value for _, value in args), strict=True))
        with w.loop("0", count, guard=False) as loop:
            column = w.imul(loop.index, self.tile.lanes)
            here = {
                "B": w.gep(self.packed, values["B"], column),
                "C": w.gep(element_type(self.t, "C"), values["C"], column),
                "columns": w.imin(w.isub(values["columns"], column), self.tile.lanes),
            }
            given = [(ty, here.get(name, values[name])) for name, (ty, _) in zip(MICRO, args)]
            w.call(micro_name(self.prefix, height, 1, HALVES), "void", given)

    def _packed_depth(self, w: FunctionWriter, length: str) -> str:
        """How many elements of a packed panel so much of K is."""
        return length if self.group == 1 else ceil_div(w, length, self.group)

    def _rows_of_a(
        self, w: FunctionWriter, ctx: Context, layout: str, row: str, height: int, depth: _Depth
    ) -> tuple[str, str]:
        """Address of rows of A for the micro-kernel, and its step along K."""
        if layout == "packed":
            offset = w.imul(w.imul(row, self._packed_depth(w, depth.length)), self.parts)
            return w.gep(self.packed, ctx.get("packA"), offset), str(height * self.parts)
        rs, cs = ctx.get("rsA"), ctx.get("csA")
        offset = w.iadd(w.imul(row, rs), w.imul(depth.start, cs))
        a_ptr = w.gep(element_type(self.t, "A"), ctx.get("A"), offset)
        return a_ptr, rs if layout == "direct" else cs

    def _pack_rows(self, w: FunctionWriter, ctx: Context, row_lo: str, row_hi: str) -> None:
        kc, pc = ctx.get("kc"), ctx.get("pc")
        rs, cs = ctx.get("rsA"), ctx.get("csA")

        def pack(row: str, height: int) -> None:
            index = w.iadd(w.imul(row, rs), w.imul(pc, cs))
            source = w.gep(element_type(self.t, "A"), ctx.get("A"), index)
            offset = w.imul(w.imul(row, self._packed_depth(w, kc)), self.parts)
            packed = w.gep(self.packed, ctx.get("packA"), offset)
            w.call(
                f"{self.prefix}.packA{height}",
                "void",
                [("ptr", source), ("i64", rs), ("i64", cs), ("ptr", packed), ("i64", kc)],
            )

        self._for_rows(w, row_lo, row_hi, pack)

    def _least_of_rows(
        self, w: FunctionWriter, ctx: Context, row_lo: str, row_hi: str
    ) -> str | None:
        """The least exponent of packed rows; None: it does not matter."""
        if self.least is None:
            return None
        depth = self._packed_depth(w, ctx.get("kc"))
        packed = w.gep(self.packed, ctx.get("packA"), w.imul(row_lo, depth))
        pairs = w.imul(w.isub(row_hi, row_lo), depth)
        return w.call(self.least, "i64", [("ptr", packed), ("i64", pairs)])

    def _is_small(
        self, w: FunctionWriter, ctx: Context, rows: str | None, panel: str
    ) -> str | None:
        """Whether products of rows with the least exponent `rows` and a panel may be subnormal, or
        sums of such; None: it does not matter."""
        if rows is None:
            return None
        columns = w.load("i64", w.gep("i64", ctx.get("least"), panel), 8)
        return w.cmp("slt", "i64", w.iadd(rows, columns), str(MULTIPLES_ARE_NORMAL))

    def emit_pack_task(self) -> None:
        """void task(ptr context, i64 panel): packs one panel of B."""
        w = self.module.function(
            f"{self.prefix}.packBtask", [("ptr", "ctx"), ("i64", "panel")], internal=True
        )
        ctx = Context(w, "%ctx")
        n, kc, lanes = ctx.get("N"), ctx.get("kc"), str(self.tile.lanes)
        vectors = ceil_div(w, n, lanes)
        panels = ctx.get("panels")
        first = _panel_start(w, panels, vectors, "%panel")
        last = _panel_start(w, panels, vectors, w.iadd("%panel", 1))
        column = w.imul(first, lanes)
        width = w.imul(w.isub(last, first), lanes)
        valid = w.isub(w.imin(n, w.imul(last, lanes)), column)
        rs, cs = ctx.get("rsB"), ctx.get("csB")
        index = w.iadd(w.imul(ctx.get("pc"), rs), w.imul(column, cs))
        source = w.gep(element_type(self.t, "B"), ctx.get("B"), index)
        offset = w.imul(w.imul(column, self._packed_depth(w, kc)), self.parts)
        packed = w.gep(self.packed, ctx.get("packB"), offset)
        w.call(
            f"{self.prefix}.packB",
            "void",
            [
                ("ptr", source),
                ("i64", rs),
                ("i64", cs),
                ("ptr", packed),
                ("i64", kc),
                ("i64", width),
                ("i64", valid),
            ],
        )
        if self.least is not None:
            pairs = w.imul(width, self._packed_depth(w, kc))
            found = w.call(self.least, "i64", [("ptr", packed), ("i64", pairs)])
            w.store("i64", found, w.gep("i64", ctx.get("least"), "%panel"), 8)
        w.ret()

    # ---- entry ---------------------------------------------------------------------------------

    def emit_entries(self) -> None:
        """A single product with an epilogue, whole or in parts of K."""
        name, params = self._symbol("fused_"), parameters(*PRODUCT, *EPILOGUE)
        if self.inner is not None:
            emit_split(self.module, self.t, name, f"pyjax_gemm_fused_{self.t.name}.{self.inner}")
            return
        if self.path is not ANY or not splits(self.t):
            self.emit_entry(name)
            return
        whole, split = f"{self.prefix}.whole", f"{self.prefix}.split"
        self.emit_entry(whole, internal=True)
        emit_split(self.module, self.t, split, whole, internal=True)
        w = self.module.function(name, params)
        given = [(ty, f"%{parameter}") for ty, parameter in params]

        def called(function: str) -> list[str]:
            w.call(function, "void", given)
            return []

        w.if_else(emit_is_split(w), [], partial(called, split), partial(called, whole))
        w.ret()

    def emit_entry(self, name: str, internal: bool = False) -> None:
        params = parameters(*PRODUCT, *EPILOGUE)
        names = [name for _, name in params]
        w = self.module.function(name, params, internal=internal)
        context = w.alloca("i64", len(FIELDS), 8)
        ctx = Context(w, context)
        empty = w.op("or", "i1", w.cmp("sle", "i64", "%M", "0"), w.cmp("sle", "i64", "%N", "0"))
        work, nothing = w.new_label("work"), w.new_label("nothing")
        w.cond_br(empty, nothing, work)
        w.label(nothing)
        w.ret()
        w.label(work)
        for name in names:
            ctx.set(name, f"%{name}")
        if self.vector:
            self._emit_vector_cases(w)
            if self.path.way in (None, DOTS):
                emit_dots(w, self.t, self.tile, self.prefix)
        if not (self.direct or self.transposed or self.packs):
            w.ret()
            return
        lanes = str(self.tile.lanes)
        vectors = ceil_div(w, "%N", lanes)
        panels = ceil_div(w, vectors, str(self.tile.vectors))
        ctx.set("panels", panels)
        depth = w.imax(w.iadd("%K", "%weight"), 1)
        multiplies = w.op("mul", "i64", w.op("mul", "i64", "%M", "%N"), depth)
        threads = w.cast("sext", "i32", w.call("pyjax_num_threads", "i32"), "i64")
        small = w.cmp("slt", "i64", multiplies, str(_PARALLEL_WORK))
        threads = w.select(small, "i64", "1", threads)
        if self.packs and self.direct:
            done, packed = w.new_label("done"), w.new_label("packed")
            unit_b = w.cmp("eq", "i64", "%csB", "1")
            unit_a = w.op(
                "or", "i1", w.cmp("eq", "i64", "%csA", "1"), w.cmp("eq", "i64", "%rsA", "1")
            )
            size = self.t.source.byte_size
            b_bytes = w.imul(w.op("mul", "i64", "%K", "%N"), size)
            # With one panel or few rows, packing would cost as much as the product.
            near = w.cmp("sle", "i64", b_bytes, str(DIRECT_BYTES))
            few = w.cmp("sle", "i64", "%M", str(self.tile.rows * DIRECT_TILES))
            near = w.op("or", "i1", near, few)
            near = w.op("or", "i1", near, w.cmp("eq", "i64", panels, "1"))
            use = w.op("and", "i1", w.op("and", "i1", unit_a, unit_b), near)
            direct = w.new_label("direct")
            w.cond_br(use, direct, packed)
            w.label(direct)
            with w.scope():
                self._emit_direct(w, ctx, threads, panels)
            w.br(done)
            w.label(packed)
            with w.scope():
                self._emit_packed(w, ctx, threads, panels, vectors)
            w.br(done)
            w.label(done)
        elif self.packs:
            self._emit_packed(w, ctx, threads, panels, vectors)
        else:
            self._emit_direct(w, ctx, threads, panels)
        w.ret()

    def _symbol(self, form: str) -> str:
        return symbol_of(self.t, form, self.path)

    def _emit_vector_cases(self, w: FunctionWriter) -> None:
        """Matrix-vector products stream the matrix once; they have their own kernels."""

        def unit(*names: str) -> str:
            result = w.cmp("eq", "i64", names[0], "1")
            for name in names[1:]:
                result = w.op("and", "i1", result, w.cmp("eq", "i64", name, "1"))
            return result

        dot, combine = VECTOR_WAYS
        all_cases = (
            # condition, way, matrix, its vector, results, stride of the matrix, of the results
            # (which go along the rows of C where N is 1, else along its columns)
            (unit("%N", "%csA", "%rsB"), dot, "%A", "%B", "%M", "%rsA", "%ldc"),
            (unit("%M", "%rsB", "%csA"), dot, "%B", "%A", "%N", "%csB", "1"),
            (unit("%M", "%csB", "%csA"), combine, "%B", "%A", "%N", "%rsB", "1"),
            (unit("%N", "%rsA", "%rsB", "%ldc"), combine, "%A", "%B", "%M", "%csA", "1"),
        )
        cases = [case for case in all_cases if case[1] in self._vector_ways()]
        for condition, way, matrix, vector_ptr, count, stride, out_stride in cases:
            yes, no = w.new_label("gemv"), w.new_label("other")
            w.cond_br(condition, yes, no)
            w.label(yes)
            with w.scope():
                args = [("i64", count), ("i64", "%K"), ("ptr", matrix), ("i64", stride)]
                args += [("ptr", vector_ptr), ("ptr", "%C"), ("i64", out_stride)]
                args += [("i64", "%flags"), ("ptr", "%epilogue"), ("ptr", "%data")]
                args += [("i64", "%batch"), ("i64", "1" if count == "%M" else "0")]
                w.call(f"{self.prefix}.{way}", "void", args)
                w.ret()
            w.label(no)

    def _vector_ways(self) -> tuple[str, ...]:
        if self.path.way is None:
            return VECTOR_WAYS
        return () if self.path.way == DOTS else (self.path.way,)

    def _split(
        self, w: FunctionWriter, ctx: Context, tasks: str, panels: str, rows_multiple: int
    ) -> str:
        """Cuts M into row blocks and, where those are too few, N into panel blocks; returns
        tasks.
        """
        tiles = ceil_div(w, "%M", str(rows_multiple))
        row_blocks = w.imin(tasks, tiles)
        tiles_per_block = ceil_div(w, tiles, row_blocks)
        rows_per_block = w.imul(tiles_per_block, rows_multiple)
        row_blocks = ceil_div(w, "%M", rows_per_block)
        wanted = ceil_div(w, tasks, row_blocks)
        column_blocks = w.imin(wanted, panels)
        panels_per_block = ceil_div(w, panels, column_blocks)
        column_blocks = ceil_div(w, panels, panels_per_block)
        ctx.set("rows_per_block", rows_per_block)
        ctx.set("row_blocks", row_blocks)
        ctx.set("column_blocks", column_blocks)
        ctx.set("panels_per_block", panels_per_block)
        return w.imul(row_blocks, column_blocks)

    def _run(self, w: FunctionWriter, ctx: Context, task: str, blocks: str) -> None:
        run_tasks(w, f"{self.prefix}.{task}", ctx.ptr, blocks)

    def _emit_direct(self, w: FunctionWriter, ctx: Context, threads: str, panels: str) -> None:
        ctx.set("pc", "0")
        ctx.set("kc", "%K")
        bytes_of_b = w.imul(w.op("mul", "i64", "%K", "%N"), self.t.source.byte_size)
        far = w.cmp("sgt", "i64", bytes_of_b, str(_FAR_BYTES))
        # Without a C there is nowhere to keep a sum from piece to piece.
        far = w.op("and", "i1", far, w.cmp("ne", "ptr", "%C", "null"))
        ctx.set("piece", w.select(far, "i64", str(_FAR_ROWS), w.imax("%K", 1)))
        ctx.set("first", w.op("and", "i64", "%flags", "1"))
        single = w.cmp("eq", "i64", threads, "1")
        tasks = w.select(single, "i64", "1", w.imul(threads, 3))
        blocks = self._split(w, ctx, tasks, panels, self.tile.rows)
        if not (self.direct and self.transposed):
            self._run(w, ctx, "direct" if self.direct else "transposed", blocks)
            return
        row_major = w.cmp("eq", "i64", "%csA", "1")

        def run(layout: str) -> list[str]:
            self._run(w, ctx, layout, blocks)
            return []

        w.if_else(row_major, [], partial(run, "direct"), partial(run, "transposed"))

    def _emit_packed(
        self, w: FunctionWriter, ctx: Context, threads: str, panels: str, vectors: str
    ) -> None:
        tile = self.tile
        # K in equal pieces of at most kc; at least one, so that K = 0 still writes C.
        pieces = w.imax(ceil_div(w, "%K", str(tile.kc)), 1)
        # Without a C there is nowhere to keep a sum from piece to piece.
        pieces = w.select(w.cmp("eq", "ptr", "%C", "null"), "i64", "1", pieces)
        piece = w.imax(ceil_div(w, "%K", pieces), 1)
        if self.group > 1:
            piece = w.imul(ceil_div(w, piece, self.group), self.group)
        size = bits_of(self.packed) // 8 * self.parts
        stored = self._packed_depth(w, piece)
        a_bytes = w.imul(w.imul(w.iadd("%M", tile.rows), stored), size)
        a_bytes = w.op("and", "i64", w.iadd(a_bytes, 4095 + 64), "-64")
        b_bytes = w.imul(w.imul(w.imul(vectors, tile.lanes), stored), size)
        packed_bytes = w.iadd(a_bytes, b_bytes)
        least_bytes = 0 if self.least is None else w.imul(panels, 8)
        workspace = w.call(TAKE, "ptr", [("i64", w.iadd(packed_bytes, least_bytes))])
        base = w.gep("i8", workspace, 64)
        ctx.set("packA", base)
        ctx.set("packB", w.gep("i8", base, a_bytes))
        if self.least is not None:
            ctx.set("least", w.gep("i8", base, packed_bytes))
        with w.loop("0", pieces, guard=False) as loop:
            pc = w.imul(loop.index, piece)
            ctx.set("pc", pc)
            ctx.set("kc", w.imax(w.imin(w.isub("%K", pc), piece), 0))
            ctx.set("piece", piece)
            initial = w.op("and", "i64", "%flags", "1")
            later = w.cmp("sgt", "i64", loop.index, "0")
            ctx.set("first", w.select(later, "i64", "1", initial))
            complete = w.cmp("eq", "i64", w.iadd(loop.index, 1), pieces)
            ctx.set("epilogue", w.select(complete, "ptr", "%epilogue", "null"))
            self._run(w, ctx, "packBtask", panels)
            # Row blocks only: a task packs the rows of A that it multiplies.
            ctx.set("column_blocks", "1")
            ctx.set("panels_per_block", panels)
            single = w.cmp("eq", "i64", threads, "1")
            by_cache = ceil_div(w, "%M", str(tile.mc))
            wanted = w.select(single, "i64", by_cache, w.imax(by_cache, w.imul(threads, 2)))
            tiles = ceil_div(w, "%M", str(tile.rows))
            per_block = w.imul(ceil_div(w, tiles, wanted), tile.rows)
            ctx.set("rows_per_block", per_block)
            self._run(w, ctx, "packed", ceil_div(w, "%M", per_block))
        w.call(GIVE, "void", [("ptr", workspace)])

    def emit_batched(self) -> None:
        """Batches in parallel when there are several; each product then runs on one thread."""
        params = parameters("batches", *BATCHED, *EPILOGUE, *OUTER)
        task = self.module.function(
            f"{self.prefix}.batchtask", [("ptr", "ctx"), ("i64", "index")], internal=True
        )
        self._emit_batch_task(task)
        w = self.module.function(self._symbol("fused_batched_"), params)
        context = w.alloca("i64", len(FIELDS), 8)
        ctx = Context(w, context)
        for _, name in params[1:]:
            ctx.set(name, f"%{name}")
        depth = w.imax(w.iadd("%K", "%weight"), 1)
        work = w.op("mul", "i64", w.op("mul", "i64", "%M", "%N"), depth)
        total = w.op("mul", "i64", work, "%batches")
        # Batches of small products go to the threads whole; large products are cut themselves.
        many = w.cmp("sge", "i64", "%batches", "2")
        parallel = w.op("and", "i1", many, w.cmp("sge", "i64", total, str(_PARALLEL_WORK)))
        small = w.cmp("slt", "i64", work, str(1 << 24))
        parallel = w.op("and", "i1", parallel, small)

        def in_parallel() -> list[str]:
            self._run(w, ctx, "batchtask", "%batches")
            return []

        def in_order() -> list[str]:
            with w.loop("0", "%batches") as loop:
                args = [("ptr", ctx.ptr), ("i64", loop.index)]
                w.call(f"{self.prefix}.batchtask", "void", args)
            return []

        w.if_else(parallel, [], in_parallel, in_order)
        w.ret()

    def _emit_batch_task(self, w: FunctionWriter) -> None:
        ctx = Context(w, "%ctx")
        values = {name: ctx.get(name) for name in (*PRODUCT, *EPILOGUE)}
        values["batch"] = w.iadd(values["batch"], "%index")
        without_c = w.cmp("eq", "ptr", values["C"], "null")
        outer = w.op("udiv", "i64", "%index", ctx.get("inner"))
        inner = w.isub("%index", w.imul(outer, ctx.get("inner")))
        for which in "AB":
            offset = w.imul(inner, ctx.get(f"bs{which}"))
            offset = w.iadd(offset, w.imul(outer, ctx.get(f"os{which}")))
            values[which] = w.gep(element_type(self.t, which), values[which], offset)
        values["C"] = w.gep(
            element_type(self.t, "C"), values["C"], w.imul("%index", ctx.get("bsC"))
        )
        values["C"] = w.select(without_c, "ptr", "null", values["C"])
        args = [(ty, values[name]) for ty, name in parameters(*PRODUCT, *EPILOGUE)]
        w.call(self._symbol("fused_"), "void", args)
        w.ret()

    def emit_plain(self, form: str, *names: str) -> None:
        """The products without epilogue."""
        params = parameters(*names)
        w = self.module.function(self._symbol(form), params)
        none = [(ty, "null" if ty == "ptr" else "0") for ty, _ in parameters(*EPILOGUE)]
        args = [*((ty, f"%{name}") for ty, name in params), *none]
        if form:
            args += [("i64", w.imax("%batches", 1)), ("i64", "0"), ("i64", "0")]
        w.call(self._symbol(f"fused_{form}"), "void", args)
        w.ret()

    def emit(self) -> None:
        """One product at a time."""
        layouts = ["columns"] if self.packs or self.transposed else []
        layouts += ["rows"] if self.direct else []
        if self.packs and self.least is not None:
            emit_least_exponent(self.module, self.least)
            for height in sorted(self.heights):
                emit_micro_kernel(self.module, self.prefix, self.t, self.tile, height, 1, HALVES)
        for height in sorted(self.heights):
            for v, layout in itertools.product(self.widths, layouts):
                emit_micro_kernel(self.module, self.prefix, self.t, self.tile, height, v, layout)
            if self.packs:
                emit_pack_a(self.module, self.prefix, self.t, height, self.tile.lanes)
        if self.vector:
            for way in self._vector_ways() or VECTOR_WAYS[:1]:
                emit_matrix_vector(self.module, self.prefix, self.t, self.tile, way)
            if self.path.way in (None, DOTS) and has_tall_dots(self.t, self.module.target):
                emit_matrix_vector(self.module, self.prefix, self.t, self.tile, PAIR)
                emit_tall_task(self.module, self.t, self.tile, self.prefix)
        if self.packs:
            emit_pack_b(self.module, self.prefix, self.t, self.tile, self.widths, self.path.turned)
            self.emit_pack_task()
            self.emit_tile_task("packed")
        if self.direct:
            self.emit_tile_task("direct")
        if self.transposed:
            self.emit_tile_task("transposed")
        self.emit_entries()
        self.emit_plain("", *PRODUCT)

    def emit_batches(self) -> None:
        """Many products, by the routine for one."""
        self.emit_batched()
        self.emit_plain("batched_", "batches", *BATCHED)


def register() -> None:
    """Declares the GEMM kernels of every element type."""
    single: tuple[bool, ...] = (False,)
    both: tuple[bool, ...] = (False, True)
    # Thousands of symbols: the name of each path is made once.
    named = [(ANY, "", both), *((path, f".{path.name}", both) for path in PATHS)]
    named += [(path, f".{path.name}", single) for path in ANY_WIDTH_PATHS]
    for t in GEMM_TYPES.values():
        for path, suffix, forms in named:
            if not is_way(t, path):
                continue
            for batched in forms:
                form, emit = ("batched_", emit_batched_group) if batched else ("", emit_group)
                group = f"gemm_{form}{t.name}{suffix}"
                symbols = (f"pyjax_{group}", f"pyjax_gemm_fused_{form}{t.name}{suffix}")
                register_group(group, symbols, partial(emit, t, path=path))


def emit_group(t: GemmType, module: ModuleWriter, path: Path = ANY) -> None:
    _Driver(module, t, path).emit()


def emit_batched_group(t: GemmType, module: ModuleWriter, path: Path = ANY) -> None:
    _Driver(module, t, path).emit_batches()
