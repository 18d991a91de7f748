"""Preparation of direct convolution: weights in blocks, padded image tiles, tables of offsets.

Depth k runs over (channel, taps) for "planes" and over (taps, channel) for "channels". Tiles:
planes [channel][win0][line][phase][pitch], channels [win0][line][pitch][channel].
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from xla_backend.llvm.types import const, register_type, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.conv_direct_micro import for_heights
from xla_backend.targets.cpu.routines.conv_unfold import copy_run, fill_run
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType, Tile

_SLACK = 64
Factory = Callable[..., Any]


def _memory(t: GemmType) -> str:
    return f"i{8 * t.source.byte_size}"


def _ceil_at_least_zero(w: FunctionWriter, a: str, b: str) -> str:
    """max(0, ceil(a / b)) for b > 0."""
    return w.op("udiv", "i64", w.iadd(w.imax(a, 0), w.isub(b, 1)), b)


def emit_pack_planes(
    module: ModuleWriter, prefix: str, t: GemmType, dims: Factory, heights: list[int], ctx_of: Any
) -> None:
    """void packw_planes(ctx, block): one block of output channels as [k][channel]."""
    name = f"{prefix}.packw_planes"
    w = module.function(name, [("ptr", "ctx"), ("i64", "block")], internal=True)
    ctx = ctx_of(w, "%ctx")
    d, elem = dims(w, ctx.get("dims")), _memory(t)
    blocks = w.op("udiv", "i64", w.iadd(d["co"], heights[0] - 1), str(heights[0]))
    group = w.op("udiv", "i64", "%block", blocks)
    first = w.imul(w.isub("%block", w.imul(group, blocks)), heights[0])
    depth = ctx.get("depth")
    count = w.imin(w.isub(d["co"], first), heights[0])
    target = w.iadd(w.imul(w.imul(group, depth), d["co"]), w.imul(first, depth))
    target = w.gep(elem, ctx.get("packed"), target)
    source = w.iadd(w.imul(group, d["wg"]), w.imul(first, d["wo"]))
    source = w.pure(f"getelementptr {elem}, ptr {ctx.get('w')}, i64 {source}", source)

    def block(o: str, height: int) -> None:
        base = w.gep(elem, target, w.imul(o, depth))
        with ExitStack() as nest:
            i = nest.enter_context(w.loop("0", d["ci"]))
            a, b, c = (nest.enter_context(w.loop("0", d[f"win{s}"])) for s in "012")
            k = w.iadd(w.imul(i.index, d["win0"]), a.index)
            k = w.iadd(w.imul(k, d["win1"]), b.index)
            k = w.iadd(w.imul(k, d["win2"]), c.index)
            at = w.iadd(w.imul(i.index, d["wi"]), w.imul(o, d["wo"]))
            for loop, step in ((a, "w0"), (b, "w1"), (c, "w2")):
                at = w.iadd(at, w.imul(loop.index, d[step]))
            row = w.gep(elem, base, w.imul(k, height))
            for r in range(height):
                index = w.iadd(at, w.imul(d["wo"], r))
                w.store(elem, w.load(elem, w.gep(elem, source, index)), w.gep(elem, row, r))

    for_heights(w, count, heights, block)
    w.ret()


def emit_pack_channels(
    module: ModuleWriter, prefix: str, t: GemmType, dims: Factory, tile: Tile, ctx_of: Any
) -> None:
    """void packw_channels(ctx, block): one panel of output channels as [k][width], zero-padded."""
    name = f"{prefix}.packw_channels"
    w = module.function(name, [("ptr", "ctx"), ("i64", "block")], internal=True)
    ctx = ctx_of(w, "%ctx")
    d, elem = dims(w, ctx.get("dims")), register_type(t.compute)
    lanes = tile.lanes
    ty = vector(elem, lanes)
    panels = w.op("udiv", "i64", w.iadd(d["co"], tile.columns - 1), str(tile.columns))
    group = w.op("udiv", "i64", "%block", panels)
    first = w.imul(w.isub("%block", w.imul(group, panels)), tile.columns)
    left = w.imin(w.isub(d["co"], first), tile.columns)
    vectors = w.op("udiv", "i64", w.iadd(left, lanes - 1), str(lanes))
    depth = ctx.get("depth")
    target = w.iadd(w.imul(w.imul(group, depth), ctx.get("padded_co")), w.imul(first, depth))
    target = w.gep(elem, ctx.get("packed"), target)
    source = w.iadd(w.imul(group, d["wg"]), w.imul(first, d["wo"]))
    source = w.pure(f"getelementptr {elem}, ptr {ctx.get('w')}, i64 {source}", source)
    unit = w.cmp("eq", "i64", d["wo"], "1")
    with ExitStack() as nest:
        a, b, c = (nest.enter_context(w.loop("0", d[f"win{s}"])) for s in "012")
        i = nest.enter_context(w.loop("0", d["ci"]))
        v = nest.enter_context(w.loop("0", vectors))
        k = w.iadd(w.imul(a.index, d["win1"]), b.index)
        k = w.iadd(w.imul(k, d["win2"]), c.index)
        k = w.iadd(w.imul(k, d["ci"]), i.index)
        column = w.imul(v.index, lanes)
        at = w.iadd(w.imul(i.index, d["wi"]), w.imul(column, d["wo"]))
        for loop, step in ((a, "w0"), (b, "w1"), (c, "w2")):
            at = w.iadd(at, w.imul(loop.index, d[step]))
        place = w.iadd(w.imul(w.imul(k, vectors), lanes), column)
        place = w.gep(elem, target, place)
        base = w.gep(elem, source, at)

        def contiguous() -> list[str]:
            w.store(ty, w.masked_load(ty, base, w.active_mask(lanes, column, left)), place)
            return []

        def strided() -> list[str]:
            inside = w.imin(w.isub(left, column), lanes)
            with w.loop("0", inside) as lane:
                value = w.load(elem, w.gep(elem, base, w.imul(lane.index, d["wo"])))
                w.store(elem, value, w.gep(elem, place, lane.index))
            with w.loop(inside, str(lanes)) as lane:
                w.store(elem, const(elem, 0), w.gep(elem, place, lane.index))
            return []

        w.if_else(unit, [], contiguous, strided)
    w.ret()


def emit_offsets(module: ModuleWriter, prefix: str, kind: str, dims: Factory, ctx_of: Any) -> None:
    """void offsets_<kind>(ctx): the table of tile offsets by k; kind: planes, channels."""
    w = module.function(f"{prefix}.offsets_{kind}", [("ptr", "ctx")], internal=True)
    ctx = ctx_of(w, "%ctx")
    d = dims(w, ctx.get("dims"))
    pitch, lines, table = ctx.get("pitch"), ctx.get("lines"), ctx.get("offsets")
    window = ["win0", "win1", "win2"]
    sizes = ["ci", *window] if kind == "planes" else [*window, "ci"]
    with ExitStack() as nest:
        at = {s: nest.enter_context(w.loop("0", d[s])).index for s in sizes}
        k = "0"
        for s in sizes:
            k = w.iadd(w.imul(k, d[s]), at[s])
        column = w.imul(at["win2"], d["wdil2"])
        line = w.imul(at["win1"], d["wdil1"])
        if kind == "planes":
            slab = w.iadd(w.imul(at["ci"], d["win0"]), at["win0"])
            line = w.iadd(w.imul(slab, lines), line)
            index = w.op("udiv", "i64", column, d["stride2"])
            phase = w.isub(column, w.imul(index, d["stride2"]))
            offset = w.iadd(w.imul(w.iadd(w.imul(line, d["stride2"]), phase), pitch), index)
        else:
            line = w.iadd(w.imul(at["win0"], lines), line)
            offset = w.iadd(w.imul(w.iadd(w.imul(line, pitch), column), d["ci"]), at["ci"])
        w.store("i64", offset, w.gep("i64", table, k), 8)
    w.ret()


def _fill_function(module: ModuleWriter, name: str) -> FunctionWriter:
    params = [("ptr", p) for p in ("ctx", "x", "tile")]
    params += [("i64", p) for p in ("out0", "row_lo", "rows", "col_lo")]
    return module.function(name, params, internal=True, attributes="noinline")


def _source(w: FunctionWriter, d: Any, s: str, position: str) -> tuple[str, str]:
    """(inside, index) of the image element at a position of the padded, dilated image."""
    at = w.isub(position, d[f"pad{s}"])
    dilation = d[f"xdil{s}"]
    dilated = w.cmp("ne", "i64", dilation, "1")
    index = w.if_else(
        dilated, ["i64"], lambda: [w.op("sdiv", "i64", at, dilation)], lambda: [at], likely=False
    )[0]
    hit = w.cmp("eq", "i64", w.imul(index, dilation), at)
    inside = w.op("and", "i1", hit, w.cmp("sge", "i64", at, "0"))
    return w.op("and", "i1", inside, w.cmp("slt", "i64", index, d[f"in{s}"])), index


def _line_source(w: FunctionWriter, d: Any, tap0: str, line: str) -> tuple[str, str]:
    """(inside, element offset) of the image line under a tile line."""
    position0 = w.iadd(w.imul("%out0", d["stride0"]), w.imul(tap0, d["wdil0"]))
    in0, at0 = _source(w, d, "0", position0)
    in1, at1 = _source(w, d, "1", w.iadd(w.imul("%row_lo", d["stride1"]), line))
    offset = w.iadd(w.imul(at0, d["x0"]), w.imul(at1, d["x1"]))
    return w.op("and", "i1", in0, in1), offset


def _used_lines(w: FunctionWriter, d: Any) -> str:
    reach = w.imul(w.isub(d["win1"], 1), d["wdil1"])
    return w.iadd(w.iadd(w.imul(w.isub("%rows", 1), d["stride1"]), reach), 1)


def emit_fill_planes(
    module: ModuleWriter, prefix: str, t: GemmType, dims: Factory, ctx_of: Any
) -> None:
    """void fill_planes(ctx, x, tile, out0, row_lo, rows, col_lo)"""
    w = _fill_function(module, f"{prefix}.fill_planes")
    ctx = ctx_of(w, "%ctx")
    d, elem = dims(w, ctx.get("dims")), _memory(t)
    pitch, lines = ctx.get("pitch"), ctx.get("lines")
    stride = d["stride2"]
    width = w.imul(stride, pitch)
    undilated = w.cmp("eq", "i64", d["xdil2"], "1")
    # Position of the first image element in a line: positions p hold element p - shift.
    shift = w.isub(d["pad2"], w.imul("%col_lo", stride))
    used = _used_lines(w, d)
    with w.loop("0", d["win0"]) as a, w.loop("0", used) as line:
        inside, offset = _line_source(w, d, a.index, line.index)
        with w.loop("0", d["ci"]) as i:
            slab = w.iadd(w.imul(i.index, d["win0"]), a.index)
            place = w.imul(w.iadd(w.imul(slab, lines), line.index), width)
            target = w.gep(elem, "%tile", place)
            start = w.gep(elem, "%x", w.iadd(offset, w.imul(i.index, d["xc"])))

            def nothing(target: str = target) -> list[str]:
                fill_run(w, elem, target, width)
                return []

            def phases(target: str = target, start: str = start) -> list[str]:
                with w.loop("0", stride) as phase:
                    early = w.isub(shift, phase.index)
                    lo = w.imin(_ceil_at_least_zero(w, early, stride), pitch)
                    hi = _ceil_at_least_zero(w, w.iadd(d["in2"], early), stride)
                    hi = w.imax(w.imin(hi, pitch), lo)
                    row = w.gep(elem, target, w.imul(phase.index, pitch))
                    first = w.isub(w.imul(lo, stride), early)
                    source = w.gep(elem, start, w.imul(first, d["x2"]))
                    fill_run(w, elem, row, lo)
                    step = w.imul(stride, d["x2"])
                    copy_run(w, elem, w.gep(elem, row, lo), source, w.isub(hi, lo), step)
                    fill_run(w, elem, w.gep(elem, row, hi), w.isub(pitch, hi))
                return []

            def dilated(target: str = target, start: str = start) -> list[str]:
                fill_run(w, elem, target, width)
                dilation = d["xdil2"]
                lo = _ceil_at_least_zero(w, w.isub(0, shift), dilation)
                hi = _ceil_at_least_zero(w, w.isub(width, shift), dilation)
                with w.loop(lo, w.imin(hi, d["in2"])) as e:
                    value = w.load(elem, w.gep(elem, start, w.imul(e.index, d["x2"])))
                    at = w.iadd(w.imul(e.index, dilation), shift)
                    w.store(elem, value, w.gep(elem, target, at))
                return []

            def image(target: str = target, start: str = start) -> list[str]:
                w.if_else(undilated, [], partial(phases, target, start),
                          partial(dilated, target, start))  # fmt: skip
                return []

            w.if_else(inside, [], image, nothing)
    end = w.imul(w.imul(w.imul(d["ci"], d["win0"]), lines), width)
    fill_run(w, elem, w.gep(elem, "%tile", end), str(_SLACK))
    w.ret()


def emit_fill_channels(
    module: ModuleWriter, prefix: str, t: GemmType, dims: Factory, ctx_of: Any
) -> None:
    """void fill_channels(ctx, x, tile, out0, row_lo, rows, col_lo)"""
    w = _fill_function(module, f"{prefix}.fill_channels")
    ctx = ctx_of(w, "%ctx")
    d, elem = dims(w, ctx.get("dims")), _memory(t)
    pitch, lines, ci = ctx.get("pitch"), ctx.get("lines"), d["ci"]
    width = w.imul(pitch, ci)
    dilation = d["xdil2"]
    shift = w.isub(d["pad2"], w.imul("%col_lo", d["stride2"]))
    dense = w.op("and", "i1", w.cmp("eq", "i64", d["x2"], ci), w.cmp("eq", "i64", d["xc"], "1"))
    dense = w.op("and", "i1", dense, w.cmp("eq", "i64", dilation, "1"))
    lo = w.imin(_ceil_at_least_zero(w, w.isub(0, shift), dilation), d["in2"])
    hi = _ceil_at_least_zero(w, w.isub(pitch, shift), dilation)
    hi = w.imax(w.imin(hi, d["in2"]), lo)
    with w.loop("0", d["win0"]) as a, w.loop("0", _used_lines(w, d)) as line:
        inside, offset = _line_source(w, d, a.index, line.index)
        place = w.imul(w.iadd(w.imul(a.index, lines), line.index), width)
        target = w.gep(elem, "%tile", place)
        start = w.gep(elem, "%x", offset)

        def nothing(target: str = target) -> list[str]:
            fill_run(w, elem, target, width)
            return []

        def at_once(target: str = target, start: str = start) -> list[str]:
            before = w.imin(w.imul(w.iadd(lo, shift), ci), width)
            count = w.imul(w.isub(hi, lo), ci)
            before = w.select(w.cmp("eq", "i64", count, "0"), "i64", width, before)
            fill_run(w, elem, target, before)
            source = w.gep(elem, start, w.imul(lo, ci))
            copy_run(w, elem, w.gep(elem, target, before), source, count, "1")
            after = w.iadd(before, count)
            fill_run(w, elem, w.gep(elem, target, after), w.isub(width, after))
            return []

        def one_by_one(target: str = target, start: str = start) -> list[str]:
            fill_run(w, elem, target, width)
            with w.loop(lo, hi) as e:
                at = w.iadd(w.imul(e.index, dilation), shift)
                source = w.gep(elem, start, w.imul(e.index, d["x2"]))
                copy_run(w, elem, w.gep(elem, target, w.imul(at, ci)), source, ci, d["xc"])
            return []

        def image(target: str = target, start: str = start) -> list[str]:
            w.if_else(dense, [], partial(at_once, target, start),
                      partial(one_by_one, target, start))  # fmt: skip
            return []

        w.if_else(inside, [], image, nothing)
    w.ret()
