"""Unfolding of image tiles for convolution: windows copied into the rows or columns of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from xla_backend.llvm.types import const, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType


def _lanes(w: FunctionWriter, elem: str) -> int:
    width = int(elem[1:])
    return w.target.lanes(width) if width in (32, 64) and w.target.has_masks else 1


def copy_run(
    w: FunctionWriter, elem: str, target: str, source: str, count: str, stride: str
) -> None:
    """target[0:count] = source[0:count*stride:stride]."""
    n = _lanes(w, elem)
    unit = w.cmp("eq", "i64", stride, "1")

    def by_element() -> list[str]:
        with w.loop("0", count) as loop:
            value = w.load(elem, w.gep(elem, source, w.imul(loop.index, stride)))
            w.store(elem, value, w.gep(elem, target, loop.index))
        return []

    def by_vector() -> list[str]:
        ty = vector(elem, n)
        with w.loop("0", count, n) as loop:
            mask = w.active_mask(n, loop.index, count)
            value = w.masked_load(ty, w.gep(elem, source, loop.index), mask)
            w.masked_store(ty, value, w.gep(elem, target, loop.index), mask)
        return []

    if n == 1:
        by_element()
    else:
        w.if_else(unit, [], by_vector, by_element)


def fill_run(w: FunctionWriter, elem: str, target: str, count: str) -> None:
    """target[0:count] = 0."""
    n = _lanes(w, elem)
    ty = vector(elem, n)
    with w.loop("0", count, n) as loop:
        address = w.gep(elem, target, loop.index)
        if n == 1:
            w.store(elem, const(elem, 0), address)
        else:
            w.masked_store(ty, const(ty, 0), address, w.active_mask(n, loop.index, count))


def _source_index(w: FunctionWriter, d: Any, s: str, out: str, tap: str) -> tuple[str, str]:
    """(inside, index) of the image element under a tap in one dimension."""
    at = w.iadd(w.imul(out, d[f"stride{s}"]), w.imul(tap, d[f"wdil{s}"]))
    at = w.isub(at, d[f"pad{s}"])
    dilation = d[f"xdil{s}"]
    # Signed: positions before the image are negative, and fail the range check below.
    dilated = w.cmp("ne", "i64", dilation, "1")
    divided = w.if_else(  # a 64-bit division costs more than copying a short run
        dilated, ["i64"], lambda: [w.op("sdiv", "i64", at, dilation)], lambda: [at], likely=False
    )
    index = divided[0]
    hit = w.cmp("eq", "i64", w.imul(index, dilation), at)
    nonnegative = w.cmp("sge", "i64", at, "0")
    below = w.cmp("slt", "i64", index, d[f"in{s}"])
    return w.op("and", "i1", hit, w.op("and", "i1", nonnegative, below)), index


def _function(module: ModuleWriter, name: str) -> FunctionWriter:
    params = [("ptr noalias", "x"), ("ptr noalias", "tile"), ("ptr", "dims")]
    params += [("i64", p) for p in ("row_lo", "row_hi", "col_lo", "col_hi")]
    return module.function(name, params, internal=True, attributes="noinline")


def _outer_position(w: FunctionWriter, d: Any, row: str) -> tuple[str, str]:
    outer = w.op("udiv", "i64", row, d["out1"])
    return outer, w.isub(row, w.imul(outer, d["out1"]))


def emit_unfold_last(
    module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]
) -> None:
    """[pixel][tap][ci]: one run of channels per pixel and tap."""
    w = _function(module, f"{prefix}.unfold_last")
    d = dims(w, "%dims")
    elem = f"i{8 * t.source.byte_size}"
    ci, width = d["ci"], w.isub("%col_hi", "%col_lo")
    depth = w.imul(d.taps(), ci)
    unit_dilation = w.cmp("eq", "i64", d["xdil2"], "1")
    # A whole window row is one run where its taps and channels follow each other in the image.
    dense = w.op("and", "i1", w.cmp("eq", "i64", d["x2"], ci), w.cmp("eq", "i64", d["xc"], "1"))
    dense = w.op("and", "i1", dense, w.cmp("eq", "i64", d["wdil2"], "1"))
    dense = w.op("and", "i1", dense, unit_dilation)
    with w.loop("%row_lo", "%row_hi") as row:
        out0, out1 = _outer_position(w, d, row.index)
        first = w.imul(w.imul(w.isub(row.index, "%row_lo"), width), depth)
        with w.loop("0", d["win0"]) as a, w.loop("0", d["win1"]) as b:
            in_a, at_a = _source_index(w, d, "0", out0, a.index)
            in_b, at_b = _source_index(w, d, "1", out1, b.index)
            inside = w.op("and", "i1", in_a, in_b)
            plane = w.iadd(w.imul(at_a, d["x0"]), w.imul(at_b, d["x1"]))
            tap = w.imul(w.iadd(w.imul(a.index, d["win1"]), b.index), d["win2"])
            with w.loop("0", width) as pixel:
                target = w.iadd(w.iadd(first, w.imul(pixel.index, depth)), w.imul(tap, ci))
                target = w.gep(elem, "%tile", target)
                column = w.iadd("%col_lo", pixel.index)
                start = w.isub(w.imul(column, d["stride2"]), d["pad2"])
                end = w.iadd(start, d["win2"])
                fits = w.op(
                    "and",
                    "i1",
                    w.cmp("sge", "i64", start, "0"),
                    w.cmp("sle", "i64", end, d["in2"]),
                )
                whole = w.op("and", "i1", w.op("and", "i1", fits, dense), inside)

                def at_once(start: str = start, plane: str = plane, target: str = target) -> list:
                    source = w.gep(elem, "%x", w.iadd(plane, w.imul(start, ci)))
                    copy_run(w, elem, target, source, w.imul(d["win2"], ci), "1")
                    return []

                def tap_by_tap(
                    column: str = column,
                    inside: str = inside,
                    plane: str = plane,
                    target: str = target,
                ) -> list:
                    with w.loop("0", d["win2"]) as c:
                        in_c, at_c = _source_index(w, d, "2", column, c.index)
                        run = w.gep(elem, target, w.imul(c.index, ci))

                        def copy() -> list[str]:
                            source = w.gep(elem, "%x", w.iadd(plane, w.imul(at_c, d["x2"])))
                            copy_run(w, elem, run, source, ci, d["xc"])
                            return []

                        def fill() -> list[str]:
                            fill_run(w, elem, run, ci)
                            return []

                        w.if_else(w.op("and", "i1", inside, in_c), [], copy, fill)
                    return []

                w.if_else(whole, [], at_once, tap_by_tap)
    w.ret()


def _emit_first(module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]) -> None:
    """[tap][ci][pixel]: one run of columns per tap, channel and output row."""
    w = _function(module, f"{prefix}.unfold_first")
    d = dims(w, "%dims")
    elem = f"i{8 * t.source.byte_size}"
    ci, width = d["ci"], w.isub("%col_hi", "%col_lo")
    pixels = w.imul(w.isub("%row_hi", "%row_lo"), width)
    undilated = w.cmp("eq", "i64", d["xdil2"], "1")
    stride = d["stride2"]
    with w.loop("0", d["win0"]) as a, w.loop("0", d["win1"]) as b, w.loop("0", d["win2"]) as c:
        tap = w.iadd(w.imul(a.index, d["win1"]), b.index)
        tap = w.iadd(w.imul(tap, d["win2"]), c.index)
        # Valid columns o of this tap: 0 <= o * stride + shift < in2.
        shift = w.isub(w.imul(c.index, d["wdil2"]), d["pad2"])

        def first_at_least(bound: str) -> str:
            """The smallest o >= 0 with o * stride >= bound."""
            positive = w.imax(bound, 0)
            return w.op("udiv", "i64", w.iadd(positive, w.isub(stride, 1)), stride)

        valid_lo = first_at_least(w.isub(0, shift))
        valid_hi = first_at_least(w.isub(d["in2"], shift))
        lo = w.imin(w.imax(valid_lo, "%col_lo"), "%col_hi")
        hi = w.imax(w.imin(valid_hi, "%col_hi"), lo)
        with ExitStack() as nest:
            row = nest.enter_context(w.loop("%row_lo", "%row_hi"))
            out0, out1 = _outer_position(w, d, row.index)
            in_a, at_a = _source_index(w, d, "0", out0, a.index)
            in_b, at_b = _source_index(w, d, "1", out1, b.index)
            inside = w.op("and", "i1", in_a, in_b)
            plane = w.iadd(w.imul(at_a, d["x0"]), w.imul(at_b, d["x1"]))
            channel = nest.enter_context(w.loop("0", ci))
            line = w.iadd(plane, w.imul(channel.index, d["xc"]))
            place = w.imul(w.iadd(w.imul(tap, ci), channel.index), pixels)
            place = w.iadd(place, w.imul(w.isub(row.index, "%row_lo"), width))
            target = w.gep(elem, "%tile", place)

            def outside(target: str = target) -> list[str]:
                fill_run(w, elem, target, width)
                return []

            def runs(target: str = target, line: str = line) -> list[str]:
                fill_run(w, elem, target, w.isub(lo, "%col_lo"))
                at = w.iadd(w.imul(lo, stride), shift)
                source = w.gep(elem, "%x", w.iadd(line, w.imul(at, d["x2"])))
                run = w.gep(elem, target, w.isub(lo, "%col_lo"))
                copy_run(w, elem, run, source, w.isub(hi, lo), w.imul(stride, d["x2"]))
                rest = w.gep(elem, target, w.isub(hi, "%col_lo"))
                fill_run(w, elem, rest, w.isub("%col_hi", hi))
                return []

            def dilated(target: str = target, line: str = line, tap_c: str = c.index) -> list[str]:
                with w.loop("%col_lo", "%col_hi") as column:
                    in_c, at_c = _source_index(w, d, "2", column.index, tap_c)

                    def read() -> list[str]:
                        index = w.iadd(line, w.imul(at_c, d["x2"]))
                        return [w.load(elem, w.gep(elem, "%x", index))]

                    value = w.if_else(in_c, [elem], read, lambda: [const(elem, 0)])[0]
                    w.store(elem, value, w.gep(elem, target, w.isub(column.index, "%col_lo")))
                return []

            def within() -> list[str]:
                w.if_else(undilated, [], runs, dilated)
                return []

            w.if_else(inside, [], within, outside)
    w.ret()


def emit_unfold(module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]) -> None:
    emit_unfold_last(module, t, prefix, dims)
    _emit_first(module, t, prefix, dims)
