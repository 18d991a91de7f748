"""Direct convolution: the image part under a block of output pixels is copied once, padded, and
read through a table of offsets, one per tap and channel.

Outputs with unit column stride ("planes") hold vectors of neighbouring pixels times several output
channels in registers; outputs with unit channel stride ("channels") hold vectors of channels times
several pixels. Columns of a strided window are kept apart by phase, so that a vector of outputs
reads neighbours. Sums run over channels and taps in pieces of at most `_DEPTH`, whatever the number
of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import register_type
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.conv_direct_micro import (
    ENTRY,
    emit_channels_micro,
    emit_planes_gaps,
    emit_planes_micro,
    for_heights,
    micro_name,
)
from xla_backend.targets.cpu.routines.conv_direct_pack import (
    emit_fill_channels,
    emit_fill_planes,
    emit_offsets,
    emit_pack_channels,
    emit_pack_planes,
)
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType, Tile, tile_for
from xla_backend.targets.cpu.routines.task_context import run_tasks
from xla_backend.targets.cpu.routines.workspace import GIVE, TAKE

# Slots of the task context. rows/columns: output rows and columns of a block; pitch: elements of a
# tile line (planes: one phase of it); lines: tile lines of a block; depth: taps times channels.
SLOTS = (
    "x", "w", "out", "dims", "offsets", "packed", "rows", "row_blocks", "columns",
    "column_blocks", "pitch", "lines", "depth", "padded_co", "flat", "epilogue", "data",
)  # fmt: skip
_POINTERS = frozenset(("x", "w", "out", "dims", "offsets", "packed", "epilogue", "data"))
_TILE_BYTES = 256 * 1024
_DEPTH = 384
# Elements that vectors may read after the last tile line.
_SLACK = 64


class Context:
    """The task context in memory."""

    def __init__(self, w: FunctionWriter, ptr: str) -> None:
        self.w = w
        self.ptr = ptr

    def get(self, name: str) -> str:
        ty = "ptr" if name in _POINTERS else "i64"
        return self.w.load_invariant(ty, self.w.gep("i64", self.ptr, SLOTS.index(name)), 8)

    def set(self, name: str, value: str) -> None:
        ty = "ptr" if name in _POINTERS else "i64"
        self.w.store(ty, value, self.w.gep("i64", self.ptr, SLOTS.index(name)), 8)


def _ceil(w: FunctionWriter, a: str, b: str | int) -> str:
    return w.op("udiv", "i64", w.iadd(a, w.isub(b, 1)), str(b))


def _split(w: FunctionWriter, value: str, by: str) -> tuple[str, str]:
    q = w.op("udiv", "i64", value, by)
    return q, w.isub(value, w.imul(q, by))


def can_run_direct(t: GemmType, target: TargetInfo) -> bool:
    plain = t.source is t.compute is t.target and t.compute.is_floating
    return plain and target.has_masks


def direct_symbol(type_name: str, kind: str) -> str:
    """The function for outputs with unit channel ("channels") or column stride ("planes")."""
    return f"pyjax_conv_direct_{kind}_{type_name}"


def emit_direct(
    module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any], kind: str
) -> None:
    """void pyjax_conv_direct_<kind>_<t>(x, w, out, dims, epilogue, data); kind: planes, channels"""
    tile = tile_for(t, module.target)
    heights = [tile.rows] + [h for h in (4, 2, 1) if h < tile.rows]
    emit_micro = emit_planes_micro if kind == "planes" else emit_channels_micro
    for vectors in range(1, tile.vectors + 1):
        for rows in heights:
            emit_micro(module, prefix, t, tile, rows, vectors)
    if kind == "planes":
        emit_planes_gaps(module, prefix, t, tile)
        emit_pack_planes(module, prefix, t, dims, heights, Context)
        emit_fill_planes(module, prefix, t, dims, Context)
    else:
        emit_pack_channels(module, prefix, t, dims, tile, Context)
        emit_fill_channels(module, prefix, t, dims, Context)
    emit_offsets(module, prefix, kind, dims, Context)
    _emit_task(module, t, prefix, dims, tile, heights, kind)
    _emit_driver(module, t, prefix, dims, tile, kind)


def _tile_bytes(w: FunctionWriter, d: Any, kind: str, pitch: str, lines: str, size: int) -> str:
    line = w.imul(pitch, d["stride2"] if kind == "planes" else "1")
    count = w.imul(w.imul(d["ci"], d["win0"]), w.imul(lines, line))
    return w.imul(w.iadd(count, _SLACK), size)


def _emit_driver(
    module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any], tile: Tile, kind: str
) -> None:
    names = ("x", "w", "out", "dims", "epilogue", "data")
    w = module.function(direct_symbol(t.name, kind), [("ptr", n) for n in names])
    d = dims(w, "%dims")
    size = t.source.byte_size
    context = w.alloca("i64", len(SLOTS), 8)
    ctx = Context(w, context)
    for name in names:
        ctx.set(name, f"%{name}")
    depth = w.imul(d.taps(), d["ci"])
    padded_co = d["co"]
    if kind == "channels":
        padded_co = w.imul(_ceil(w, d["co"], tile.lanes), tile.lanes)
    weights = w.imul(w.imul(depth, padded_co), w.imul(d["groups"], size))
    weights = w.op("and", "i64", w.iadd(weights, 127), "-64")
    total = w.iadd(weights, w.imul(depth, 8))
    block = w.call(TAKE, "ptr", [("i64", total)])
    packed = w.gep("i8", block, 64)
    ctx.set("packed", packed)
    ctx.set("offsets", w.gep("i8", packed, weights))
    # Blocks of rows that fit the cache and are enough for the threads; long rows are cut.
    reach1 = w.imul(w.isub(d["win1"], 1), d["wdil1"])
    reach2 = w.imul(w.isub(d["win2"], 1), d["wdil2"])
    s1, s2 = d["stride1"], d["stride2"]

    def width_of(columns: str) -> tuple[str, str]:
        """(pitch, elements of one line per channel)"""
        if kind == "planes":
            pitch = w.iadd(columns, w.op("udiv", "i64", reach2, s2))
            return pitch, w.imul(pitch, s2)
        pitch = w.iadd(w.iadd(w.imul(w.isub(columns, 1), s2), reach2), 1)
        return pitch, pitch

    per_line = w.imul(w.imul(d["ci"], d["win0"]), size)
    first_lines = w.imul(per_line, w.iadd(reach1, 1))
    budget = w.op("udiv", "i64", str(2 * _TILE_BYTES), w.imax(w.imul(first_lines, s2), 1))
    least = tile.lanes * tile.vectors
    budget = w.imul(w.imax(w.op("udiv", "i64", budget, str(least)), 1), least)
    columns = w.imin(d["out2"], budget)
    pitch, line = width_of(columns)
    line_bytes = w.imul(per_line, line)
    fitting = w.op("udiv", "i64", str(_TILE_BYTES), w.imax(line_bytes, 1))
    fitting = w.op("sdiv", "i64", w.isub(fitting, w.iadd(reach1, 1)), s1)
    fitting = w.imax(w.iadd(fitting, 1), 1)
    threads = w.cast("sext", "i32", w.call("pyjax_num_threads", "i32"), "i64")
    images = w.imul(w.imul(d["n"], d["groups"]), d["out0"])
    enough = _ceil(w, w.imul(images, d["out1"]), w.imul(threads, 4))
    rows = w.imax(w.imin(w.imin(fitting, enough), d["out1"]), 1)
    # Even blocks.
    row_blocks = _ceil(w, d["out1"], rows)
    rows = _ceil(w, d["out1"], row_blocks)
    row_blocks = _ceil(w, d["out1"], rows)
    column_blocks = _ceil(w, d["out2"], columns)
    lines = w.iadd(w.iadd(w.imul(w.isub(rows, 1), s1), reach1), 1)
    values = {
        "rows": rows, "row_blocks": row_blocks, "columns": columns,
        "column_blocks": column_blocks, "pitch": pitch, "lines": lines, "depth": depth,
        "padded_co": padded_co,
    }  # fmt: skip
    for name, value in values.items():
        ctx.set(name, value)
    if kind == "planes":
        # Narrow rows: vectors run over the ends of tile lines, and leave the gaps out.
        rounded = w.imul(_ceil(w, columns, tile.lanes), tile.lanes)
        flat = w.cmp("sgt", "i64", rounded, pitch)
        for condition in (
            w.cmp("eq", "i64", d["o1"], d["out2"]),
            w.cmp("eq", "i64", s1, "1"),
            w.cmp("eq", "i64", s2, "1"),
            w.cmp("eq", "i64", column_blocks, "1"),
        ):
            flat = w.op("and", "i1", flat, condition)
        ctx.set("flat", w.cast("zext", "i1", flat, "i64"))
    w.call(f"{prefix}.offsets_{kind}", "void", [("ptr", context)])
    if kind == "planes":
        blocks = _ceil(w, d["co"], tile.rows)
    else:
        blocks = _ceil(w, padded_co, tile.columns)
    blocks = w.imul(blocks, d["groups"])
    run_tasks(w, f"{prefix}.packw_{kind}", context, blocks)
    blocks = w.imul(images, w.imul(row_blocks, column_blocks))
    run_tasks(w, f"{prefix}.task_{kind}", context, blocks)
    w.call(GIVE, "void", [("ptr", block)])
    w.ret()


def _emit_task(
    module: ModuleWriter,
    t: GemmType,
    prefix: str,
    dims: Callable[..., Any],
    tile: Tile,
    heights: list[int],
    kind: str,
) -> None:
    """void task(ctx, block): block = ((image group) out0 * row blocks + r) * column blocks + c."""
    name = f"{prefix}.task_{kind}"
    w = module.function(name, [("ptr", "ctx"), ("i64", "block")], internal=True)
    ctx = Context(w, "%ctx")
    d = dims(w, ctx.get("dims"))
    elem = register_type(t.compute)
    rest, column_block = _split(w, "%block", ctx.get("column_blocks"))
    rest, row_block = _split(w, rest, ctx.get("row_blocks"))
    rest, out0 = _split(w, rest, d["out0"])
    image, group = _split(w, rest, d["groups"])
    row_lo = w.imul(row_block, ctx.get("rows"))
    rows = w.isub(w.imin(w.iadd(row_lo, ctx.get("rows")), d["out1"]), row_lo)
    col_lo = w.imul(column_block, ctx.get("columns"))
    columns = w.isub(w.imin(w.iadd(col_lo, ctx.get("columns")), d["out2"]), col_lo)
    pitch, lines = ctx.get("pitch"), ctx.get("lines")
    bytes_ = _tile_bytes(w, d, kind, pitch, lines, t.source.byte_size)
    bytes_ = w.op("and", "i64", w.iadd(bytes_, 127), "-64")
    count = w.imul(w.iadd(rows, 1), w.iadd(columns, tile.lanes))
    if kind == "planes":
        longest = w.imul(w.iadd(rows, 1), w.imax(pitch, columns))
        count = w.iadd(w.op("udiv", "i64", longest, str(tile.lanes)), w.iadd(rows, 2))
    total = w.iadd(bytes_, w.imul(count, 8 * ENTRY))
    block = w.call(TAKE, "ptr", [("i64", total)])
    image_tile = w.gep("i8", block, 64)
    entries = w.gep("i8", image_tile, bytes_)
    x = w.gep(elem, ctx.get("x"), w.iadd(w.imul(image, d["xb"]), w.imul(group, d["xg"])))
    args = [("ptr", "%ctx"), ("ptr", x), ("ptr", image_tile)]
    args += [("i64", v) for v in (out0, row_lo, rows, col_lo)]
    w.call(f"{prefix}.fill_{kind}", "void", args)
    at = w.iadd(w.imul(image, d["ob"]), w.imul(group, d["og"]))
    at = w.iadd(at, w.imul(out0, d["o0"]))
    at = w.iadd(at, w.iadd(w.imul(row_lo, d["o1"]), w.imul(col_lo, d["o2"])))
    out = w.gep(elem, ctx.get("out"), at)
    emit = _entries_planes if kind == "planes" else _entries_channels
    used = emit(w, ctx, d, tile, elem, (image_tile, entries, out), rows, columns)
    depth = ctx.get("depth")
    pieces = _ceil(w, depth, _DEPTH)
    piece = _ceil(w, depth, pieces)
    pieces = _ceil(w, depth, piece)
    weights = w.imul(w.imul(group, depth), ctx.get("padded_co"))
    weights = w.gep(elem, ctx.get("packed"), weights)
    with w.loop("0", pieces, guard=False) as loop:
        lo = w.imul(loop.index, piece)
        length = w.imin(w.isub(depth, lo), piece)
        later = w.cast("zext", "i1", w.cmp("sgt", "i64", loop.index, "0"), "i64")
        common = [("ptr", w.gep("i64", ctx.get("offsets"), lo)), ("i64", length), ("i64", later)]
        if kind == "planes":
            _multiply_planes(
                w, prefix, d, tile, heights, elem, entries, used, weights, lo, depth, common
            )
        else:
            _multiply_channels(
                w, prefix, d, tile, heights, elem, entries, used, weights, lo, depth, common
            )
    w.call(GIVE, "void", [("ptr", block)])
    with w.if_(w.cmp("ne", "ptr", ctx.get("epilogue"), "null")):
        _finish(w, ctx, d, elem, kind, (image, out0), (row_lo, rows), (col_lo, columns))
    w.ret()


def _finish(
    w: FunctionWriter,
    ctx: Context,
    d: Any,
    elem: str,
    kind: str,
    place: tuple[str, str],
    rows: tuple[str, str],
    columns: tuple[str, str],
) -> None:
    """Hands the output rows of a block to the epilogue of an ungrouped convolution: see
    `pyjax_gemm_fused_<t>`. C is [pixels of all images, channels], or [channels of all images,
    pixels]."""
    image, out0 = place
    per_image = w.imul(w.imul(d["out0"], d["out1"]), d["out2"])
    first = w.imul(w.iadd(w.imul(out0, d["out1"]), rows[0]), d["out2"])
    step = d["co"] if kind == "channels" else per_image
    with w.loop("0", rows[1]) as row:
        pixel = w.iadd(w.iadd(first, columns[0]), w.imul(row.index, d["out2"]))
        if kind == "channels":
            pixel = w.iadd(pixel, w.imul(image, per_image))
        if kind == "channels":
            part = (pixel, columns[1], "0", d["co"])
        else:
            part = (w.imul(image, d["co"]), d["co"], pixel, columns[1])
        at = w.iadd(w.imul(part[0], step), part[2])
        arguments = [("ptr", ctx.get("data")), ("ptr", w.gep(elem, ctx.get("out"), at))]
        arguments += [("i64", x) for x in (step, *part, "0")]
        w.call_pointer(ctx.get("epilogue"), "void", arguments)


def _add_entry(w: FunctionWriter, entries: str, i: str, tile: str, out: str, mask: str) -> None:
    entry = w.gep("i64", entries, w.imul(i, ENTRY))
    w.store("ptr", tile, entry, 8)
    w.store("ptr", out, w.gep("i64", entry, 1), 8)
    w.store("i64", mask, w.gep("i64", entry, 2), 8)


def _entries_planes(
    w: FunctionWriter,
    ctx: Context,
    d: Any,
    tile: Tile,
    elem: str,
    places: tuple[str, str, str],
    rows: str,
    columns: str,
) -> str:
    """One entry per vector of pixels; returns how many."""
    image_tile, entries, out = places
    pitch, lanes = ctx.get("pitch"), tile.lanes
    every = str((1 << lanes) - 1)

    def flat() -> list[str]:
        # Lane j of a vector at q is a pixel if its place in the line is one.
        length = w.isub(w.imul(rows, pitch), w.isub(pitch, columns))
        with w.loop("0", _ceil(w, length, lanes)) as v:
            q = w.imul(v.index, lanes)
            row, column = _split(w, q, pitch)
            place = w.iadd(w.imul(row, columns), w.imin(column, columns))
            carries = [("i64", "0"), ("i64", column)]
            with w.loop("0", str(lanes), 1, carries, guard=False) as lane:
                mask, at = lane.carried
                inside = w.op(
                    "and",
                    "i1",
                    w.cmp("slt", "i64", at, columns),
                    w.cmp("slt", "i64", w.iadd(q, lane.index), length),
                )
                bit = w.op("shl", "i64", w.cast("zext", "i1", inside, "i64"), lane.index)
                following = w.iadd(at, 1)
                wraps = w.cmp("eq", "i64", following, pitch)
                lane.next = [w.op("or", "i64", mask, bit), w.select(wraps, "i64", "0", following)]
            _add_entry(
                w, entries, v.index, w.gep(elem, image_tile, q), w.gep(elem, out, place),
                lane.results[0],
            )  # fmt: skip
        return [_ceil(w, length, lanes)]

    def by_rows() -> list[str]:
        per_row = _ceil(w, columns, lanes)
        step = w.imul(w.imul(d["stride1"], d["stride2"]), pitch)
        with w.loop("0", rows) as row, w.loop("0", per_row) as v:
            column = w.imul(v.index, lanes)
            left = w.imin(w.isub(columns, column), lanes)
            mask = w.op("lshr", "i64", every, w.isub(lanes, left))
            source = w.gep(elem, image_tile, w.iadd(w.imul(row.index, step), column))
            target = w.gep(elem, out, w.iadd(w.imul(row.index, d["o1"]), column))
            i = w.iadd(w.imul(row.index, per_row), v.index)
            _add_entry(w, entries, i, source, target, mask)
        return [w.imul(rows, per_row)]

    wanted = w.cmp("ne", "i64", ctx.get("flat"), "0")
    return w.if_else(wanted, ["i64"], flat, by_rows)[0]


def _entries_channels(
    w: FunctionWriter,
    ctx: Context,
    d: Any,
    tile: Tile,
    elem: str,
    places: tuple[str, str, str],
    rows: str,
    columns: str,
) -> str:
    """One entry per pixel; returns how many."""
    image_tile, entries, out = places
    line = w.imul(ctx.get("pitch"), d["ci"])
    with w.loop("0", rows) as row, w.loop("0", columns) as column:
        source = w.imul(w.imul(row.index, d["stride1"]), line)
        source = w.iadd(source, w.imul(w.imul(column.index, d["stride2"]), d["ci"]))
        target = w.iadd(w.imul(row.index, d["o1"]), w.imul(column.index, d["o2"]))
        i = w.iadd(w.imul(row.index, columns), column.index)
        _add_entry(w, entries, i, w.gep(elem, image_tile, source), w.gep(elem, out, target), "0")
    return w.imul(rows, columns)


def _multiply_planes(
    w: FunctionWriter,
    prefix: str,
    d: Any,
    tile: Tile,
    heights: list[int],
    elem: str,
    entries: str,
    used: str,
    weights: str,
    lo: str,
    depth: str,
    common: list[tuple[str, str]],
) -> None:
    """Groups of pixel vectors outside, blocks of output channels inside: the image part stays in
    the first-level cache."""
    groups = _ceil(w, used, tile.vectors)
    with w.loop("0", groups) as loop:
        start = w.op("udiv", "i64", w.imul(loop.index, used), groups)
        end = w.op("udiv", "i64", w.imul(w.iadd(loop.index, 1), used), groups)
        count = w.isub(end, start)
        entry = w.gep("i64", entries, w.imul(start, ENTRY))

        def channels(vectors: int, entry: str = entry) -> None:
            def block(o: str, height: int) -> None:
                a = w.gep(elem, weights, w.iadd(w.imul(o, depth), w.imul(lo, height)))
                args = [("ptr", a), ("ptr", entry), *common]
                args += [("i64", w.imul(o, d["oc"])), ("i64", d["oc"])]
                w.call(micro_name(prefix, "planes", height, vectors), "void", args)

            for_heights(w, d["co"], heights, block)

        for vectors in range(1, tile.vectors + 1):
            with w.if_(w.cmp("eq", "i64", count, str(vectors))):
                channels(vectors)


def _multiply_channels(
    w: FunctionWriter,
    prefix: str,
    d: Any,
    tile: Tile,
    heights: list[int],
    elem: str,
    entries: str,
    used: str,
    weights: str,
    lo: str,
    depth: str,
    common: list[tuple[str, str]],
) -> None:
    """Panels of output channels outside, groups of pixels inside: the panel stays in the cache."""
    panel = tile.columns
    lanes = tile.lanes
    with w.loop("0", _ceil(w, d["co"], panel)) as loop:
        o = w.imul(loop.index, panel)
        left = w.imin(w.isub(d["co"], o), panel)
        count = _ceil(w, left, lanes)

        def pixels(vectors: int, o: str = o, left: str = left) -> None:
            b = w.iadd(w.imul(o, depth), w.imul(lo, vectors * lanes))
            b = w.gep(elem, weights, b)

            def group(start: str, height: int) -> None:
                entry = w.gep("i64", entries, w.imul(start, ENTRY))
                args = [("ptr", b), ("ptr", entry), *common, ("i64", o), ("i64", left)]
                w.call(micro_name(prefix, "channels", height, vectors), "void", args)

            for_heights(w, used, heights, group)

        for vectors in range(1, tile.vectors + 1):
            with w.if_(w.cmp("eq", "i64", count, str(vectors))):
                partial(pixels, vectors)()
