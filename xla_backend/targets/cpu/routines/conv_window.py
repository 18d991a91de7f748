"""Convolution whose window is larger than its output, as in the gradient with respect to weights:
a product over the window, for blocks of images times output pixels.

A task owns a block of images of one group. For every input channel and some rows of the window it
copies the window of each (image, pixel) to a column of a matrix and adds weights x matrix to its
results: [out channel][image, pixel], or [pixel, image] where images are contiguous. The order of
additions follows from sizes only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.conv_unfold import copy_run, fill_run
from xla_backend.targets.cpu.routines.gemm_parts import split_of
from xla_backend.targets.cpu.routines.gemm_paths import (
    ANY_WIDTH_PATHS,
    DIRECT_TILES,
    PATHS,
    Path,
    has_direct_kernels,
    is_vector,
)
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType, tile_for
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_tasks
from xla_backend.targets.cpu.routines.workspace import GIVE, TAKE

_COLUMNS = 96
_MATRIX_BYTES = 512 * 1024
# Elements between columns: windows of a power of two would all begin in one set of the cache.
_GAP = 16
_CONTEXT = TaskContext(
    ("x", "w", "out", "dims", "product", "images", "blocks", "lines"), pointers=5
)


def _ceil(w: FunctionWriter, a: str, b: str | int) -> str:
    return w.op("udiv", "i64", w.iadd(a, w.isub(b, 1)), str(b))


def _images_together(w: FunctionWriter, d: Any) -> str:
    """Whether images lie one behind the other. A single one has a stride of 1 where its pixels have
    it, too."""
    images = w.cmp("eq", "i64", d["xb"], "1")
    return w.op("and", "i1", images, w.cmp("ne", "i64", d["x2"], "1"))


def product_of(t: GemmType, target: TargetInfo, d: Mapping[str, int]) -> Path | None:
    """The way that the products of a convolution take, whatever the number of images in a block,
    which depends on threads. None: that decides."""
    channels, tile = d["co"], tile_for(t, target)
    pixels = d["out0"] * d["out1"] * d["out2"]
    one_part = split_of(t, 2, 2, d["win1"] * d["win2"])[0] == 1
    if channels == 1 or pixels == 1 or not one_part:
        return None
    together = d["xb"] == 1 and d["x2"] != 1
    direct = has_direct_kernels(t, target)
    even = channels % tile.rows == 0
    if together:  # channels by columns, whose rows are contiguous
        if not (direct and 1 in (d["w2"], d["wo"])):
            return Path("packed", even=even, turned=False)
        few = channels <= DIRECT_TILES * tile.rows
        return Path("direct" if d["w2"] == 1 else "transposed", even=even) if few else None
    if d["wo"] != 1:  # channels by columns, each of which is contiguous
        return Path("packed", even=even, turned=True)
    narrow = channels <= tile.lanes  # columns by channels
    if not direct:
        return Path("packed", narrow=narrow, turned=False)
    return Path("direct", narrow=narrow) if channels <= tile.columns else None


def products() -> list[Path]:
    """What `product_of` may say."""
    plain = [p for p in PATHS if not (p.split or p.even or p.rows or p.panels or is_vector(p))]
    return [*ANY_WIDTH_PATHS, *plain]


def over_windows(t: GemmType) -> str:
    """The symbol of `emit_window_products`."""
    return f"pyjax_conv_{t.name}.over_windows"


def emit_window_products(
    module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]
) -> None:
    """void over_windows(x, w, out, dims, product): no image dilation; rows of the window follow
    each other. product: a routine for the products."""
    _emit_fill(module, t, prefix, dims)
    _emit_task(module, t, prefix, dims)
    parameters = [("ptr", p) for p in ("x", "w", "out", "dims", "product")]
    w = module.function(over_windows(t), parameters)
    d = dims(w, "%dims")
    pixels = w.imul(w.imul(d["out0"], d["out1"]), d["out2"])
    threads = w.cast("sext", "i32", w.call("pyjax_num_threads", "i32"), "i64")
    blocks = _ceil(w, d["n"], _ceil(w, str(_COLUMNS), pixels))
    # Whole rounds of the threads, where there are images enough.
    blocks = w.imin(w.imul(_ceil(w, blocks, threads), threads), d["n"])
    images = _ceil(w, d["n"], blocks)
    blocks = _ceil(w, d["n"], images)
    line = w.imul(w.imul(images, pixels), w.imul(d["win2"], t.source.byte_size))
    lines = w.op("udiv", "i64", str(_MATRIX_BYTES), w.imax(line, 1))
    lines = w.imax(w.imin(lines, d["win1"]), 1)
    values = ("%x", "%w", "%out", "%dims", "%product", images, blocks, lines)
    context = _CONTEXT.make(w, values)
    run_tasks(w, f"{prefix}.windows.task", context, w.imul(blocks, d["groups"]))
    w.ret()


def _emit_task(module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]) -> None:
    name = f"{prefix}.windows.task"
    w = module.function(name, [("ptr", "ctx"), ("i64", "block")], internal=True)
    d = dims(w, _CONTEXT.field(w, "dims"))
    elem, size = f"i{8 * t.source.byte_size}", t.source.byte_size
    group = w.op("udiv", "i64", "%block", _CONTEXT.field(w, "blocks"))
    first = w.imul(
        w.isub("%block", w.imul(group, _CONTEXT.field(w, "blocks"))), _CONTEXT.field(w, "images")
    )
    images = w.imin(_CONTEXT.field(w, "images"), w.isub(d["n"], first))
    pixels = w.imul(w.imul(d["out0"], d["out1"]), d["out2"])
    columns = w.imul(images, pixels)
    lines = _CONTEXT.field(w, "lines")
    longest = w.iadd(w.imul(lines, d["win2"]), _GAP)
    matrix_bytes = w.imul(w.imul(columns, size), longest)
    matrix_bytes = w.op("and", "i64", w.iadd(matrix_bytes, 127), "-64")
    result_bytes = w.imul(w.imul(columns, d["co"]), size)
    space = w.iadd(matrix_bytes, result_bytes)
    block = w.call(TAKE, "ptr", [("i64", space)])
    matrix = w.gep("i8", block, 64)
    result = w.gep("i8", matrix, matrix_bytes)
    x = w.iadd(w.imul(group, d["xg"]), w.imul(first, d["xb"]))
    x = w.gep(elem, _CONTEXT.field(w, "x"), x)
    weights = w.gep(elem, _CONTEXT.field(w, "w"), w.imul(group, d["wg"]))
    together = _images_together(w, d)
    # Columns of a whole window each are rows of the transposed product, whose weights then are in
    # order, too.
    swaps = w.op("and", "i1", w.not_("i1", together), w.cmp("eq", "i64", d["wo"], "1"))
    channel_step = w.select(swaps, "i64", "1", columns)
    position_step = w.select(swaps, "i64", d["co"], "1")

    def either(normal: list[tuple[str, str]], swapped: list[tuple[str, str]]) -> None:
        for (ty, a), (_, b) in zip(normal, swapped, strict=True):
            args.append((ty, w.select(swaps, ty, b, a)))

    with ExitStack() as nest:
        i = nest.enter_context(w.loop("0", d["ci"]))
        a = nest.enter_context(w.loop("0", d["win0"]))
        b = nest.enter_context(w.loop("0", d["win1"], lines))
        count = w.imin(lines, w.isub(d["win1"], b.index))
        depth = w.imul(count, d["win2"])
        source = w.gep(elem, x, w.imul(i.index, d["xc"]))
        args = [("ptr", source), ("ptr", matrix), ("ptr", d.ptr)]
        args += [("i64", v) for v in (images, a.index, b.index, count)]
        w.call(f"{prefix}.windows.fill", "void", args)
        at = w.iadd(w.imul(a.index, d["w0"]), w.imul(b.index, d["w1"]))
        left = w.gep(elem, weights, w.iadd(at, w.imul(i.index, d["wi"])))
        row_step = w.select(together, "i64", columns, "1")
        column_step = w.select(together, "i64", "1", w.iadd(depth, _GAP))
        later = w.op("or", "i64", w.op("or", "i64", i.index, a.index), b.index)
        flags = w.cast("zext", "i1", w.cmp("ne", "i64", later, "0"), "i64")
        args = []
        channels, positions = ("i64", d["co"]), ("i64", columns)
        either([channels, positions], [positions, channels])
        args.append(("i64", depth))
        taps = [("ptr", left), ("i64", d["wo"]), ("i64", d["w2"])]
        values = [("ptr", matrix), ("i64", column_step), ("i64", row_step)]
        either(taps, values)
        either([values[0], *values[:0:-1]], [taps[0], *taps[:0:-1]])
        pitch = w.select(swaps, "i64", d["co"], columns)
        args += [("ptr", result), ("i64", pitch), ("i64", flags)]
        w.call_pointer(_CONTEXT.field(w, "product"), "void", args)
    out = w.iadd(w.imul(group, d["og"]), w.imul(first, d["ob"]))
    out = w.gep(elem, _CONTEXT.field(w, "out"), out)
    with ExitStack() as nest:
        o = nest.enter_context(w.loop("0", d["co"]))
        p0, p1, p2 = (nest.enter_context(w.loop("0", d[f"out{s}"])) for s in "012")
        pixel = w.iadd(w.imul(p0.index, d["out1"]), p1.index)
        pixel = w.iadd(w.imul(pixel, d["out2"]), p2.index)
        place = w.imul(o.index, d["oc"])
        for loop, step in ((p0, "o0"), (p1, "o1"), (p2, "o2")):
            place = w.iadd(place, w.imul(loop.index, d[step]))
        row = w.gep(elem, result, w.imul(o.index, channel_step))
        with w.loop("0", images) as image:
            by_image = w.iadd(w.imul(image.index, pixels), pixel)
            by_pixel = w.iadd(w.imul(pixel, images), image.index)
            column = w.select(together, "i64", by_pixel, by_image)
            target = w.gep(elem, out, w.iadd(place, w.imul(image.index, d["ob"])))
            value = w.load(elem, w.gep(elem, row, w.imul(column, position_step)))
            w.store(elem, value, target)
    w.call(GIVE, "void", [("ptr", block)])
    w.ret()


def _emit_fill(module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]) -> None:
    """void fill(x, matrix, dims, images, tap0, line, lines): windows to columns."""
    params = [("ptr noalias", "x"), ("ptr noalias", "matrix"), ("ptr", "dims")]
    params += [("i64", p) for p in ("images", "tap0", "line", "lines")]
    w = module.function(f"{prefix}.windows.fill", params, internal=True, attributes="noinline")
    d = dims(w, "%dims")
    elem = f"i{8 * t.source.byte_size}"
    pixels = w.imul(w.imul(d["out0"], d["out1"]), d["out2"])
    columns = w.imul("%images", pixels)
    column_step = w.iadd(w.imul("%lines", d["win2"]), _GAP)
    together = _images_together(w, d)

    def position(s: str, out: str, tap: str) -> str:
        at = w.iadd(w.imul(out, d[f"stride{s}"]), w.imul(tap, d[f"wdil{s}"]))
        return w.isub(at, d[f"pad{s}"])

    def within(s: str, at: str) -> str:
        return w.cmp("ult", "i64", at, d[f"in{s}"])

    with ExitStack() as nest:
        p0, p1, p2 = (nest.enter_context(w.loop("0", d[f"out{s}"])) for s in "012")
        b = nest.enter_context(w.loop("0", "%lines"))
        pixel = w.iadd(w.imul(p0.index, d["out1"]), p1.index)
        pixel = w.iadd(w.imul(pixel, d["out2"]), p2.index)
        at0 = position("0", p0.index, "%tap0")
        at1 = position("1", p1.index, w.iadd("%line", b.index))
        inside = w.op("and", "i1", within("0", at0), within("1", at1))
        plane = w.iadd(w.imul(at0, d["x0"]), w.imul(at1, d["x1"]))
        first = w.imul(b.index, d["win2"])

        def by_images() -> list[str]:
            with w.loop("0", d["win2"]) as c:
                at2 = position("2", p2.index, c.index)
                row = w.imul(w.iadd(first, c.index), columns)
                target = w.gep(elem, "%matrix", w.iadd(row, w.imul(pixel, "%images")))

                def copy() -> list[str]:
                    source = w.gep(elem, "%x", w.iadd(plane, w.imul(at2, d["x2"])))
                    copy_run(w, elem, target, source, "%images", "1")
                    return []

                def fill() -> list[str]:
                    fill_run(w, elem, target, "%images")
                    return []

                w.if_else(w.op("and", "i1", inside, within("2", at2)), [], copy, fill)
            return []

        def by_lines() -> list[str]:
            # Taps c with 0 <= c * dilation + shift < in2.
            shift = w.isub(w.imul(p2.index, d["stride2"]), d["pad2"])
            step = d["wdil2"]

            def taps_below(bound: str) -> str:
                positive = w.imax(bound, 0)
                return w.op("udiv", "i64", w.iadd(positive, w.isub(step, 1)), step)

            lo = w.imin(taps_below(w.isub(0, shift)), d["win2"])
            hi = w.imax(w.imin(taps_below(w.isub(d["in2"], shift)), d["win2"]), lo)
            lo = w.select(inside, "i64", lo, d["win2"])
            hi = w.select(inside, "i64", hi, d["win2"])
            with w.loop("0", "%images") as image:
                column = w.iadd(w.imul(image.index, pixels), pixel)
                target = w.gep(elem, "%matrix", w.iadd(w.imul(column, column_step), first))
                at = w.iadd(plane, w.imul(w.iadd(w.imul(lo, step), shift), d["x2"]))
                source = w.gep(elem, "%x", w.iadd(at, w.imul(image.index, d["xb"])))
                fill_run(w, elem, target, lo)
                run = w.gep(elem, target, lo)
                copy_run(w, elem, run, source, w.isub(hi, lo), w.imul(step, d["x2"]))
                fill_run(w, elem, w.gep(elem, target, hi), w.isub(d["win2"], hi))
            return []

        w.if_else(together, [], by_images, by_lines)
    w.ret()
