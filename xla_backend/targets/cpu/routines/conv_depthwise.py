"""Depthwise convolution with channels last: vectors of channels, four neighbouring pixels a
round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xla_backend.llvm.types import bits_of, const, register_type, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType
from xla_backend.targets.cpu.routines.task_context import run_tasks, table_of_parameters

_PIXELS = 4


def emit_depthwise(
    module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]
) -> None:
    """void depthwise(x, w, out, dims): one channel per group, groups contiguous, no image
    dilation.
    """
    rows = lambda w, d: w.imul(d["n"], w.imul(d["out0"], d["out1"]))
    emit_over_blocks(module, f"{prefix}.depthwise", dims, rows, partial(_emit_row, t=t, dims=dims))


def emit_over_blocks(
    module: ModuleWriter,
    name: str,
    dims: Callable[..., Any],
    count: Callable[[FunctionWriter, Any], str],
    emit_block: Callable[[FunctionWriter], None],
) -> None:
    """void name(x, w, out, dims): so many blocks in parallel, with the four pointers in %ctx."""
    task = module.function(f"{name}.task", [("ptr", "ctx"), ("i64", "block")], internal=True)
    emit_block(task)
    params = [("ptr", p) for p in ("x", "w", "out", "dims")]
    w = module.function(name, params, internal=True)
    context = table_of_parameters(w, params)
    run_tasks(w, f"{name}.task", context, count(w, dims(w, "%dims")))
    w.ret()


def _emit_row(w: FunctionWriter, t: GemmType, dims: Callable[..., Any]) -> None:
    """One output row: taps outside the image are skipped per row, or per pixel at the sides."""
    x, weights, out, dims_ptr = (
        w.load_invariant("ptr", w.gep("i64", "%ctx", i), 8) for i in range(4)
    )
    d = dims(w, dims_ptr)
    elem = register_type(t.compute)
    n = w.target.lanes(bits_of(elem))
    ty = vector(elem, n)
    rows = w.imul(d["out0"], d["out1"])
    image = w.op("udiv", "i64", "%block", rows)
    row = w.isub("%block", w.imul(image, rows))
    out0 = w.op("udiv", "i64", row, d["out1"])
    out1 = w.isub(row, w.imul(out0, d["out1"]))
    x_image = w.gep(elem, x, w.imul(image, d["xb"]))
    out_row = w.iadd(w.imul(image, d["ob"]), w.iadd(w.imul(out0, d["o0"]), w.imul(out1, d["o1"])))
    out_row = w.gep(elem, out, out_row)

    def position(s: str, out_index: str, tap: str) -> str:
        at = w.iadd(w.imul(out_index, d[f"stride{s}"]), w.imul(tap, d[f"wdil{s}"]))
        return w.isub(at, d[f"pad{s}"])

    def within(s: str, at: str) -> str:
        return w.cmp("ult", "i64", at, d[f"in{s}"])

    def pixels(column: str, count: int, check: bool, channel: str, mask: str | None) -> None:
        """Accumulates `count` pixels from `column` on for one vector of channels."""
        carries = [(ty, const(ty, 0.0))] * count
        with w.loop("0", d["win0"], 1, carries) as a:
            at_a = position("0", out0, a.index)
            with w.loop("0", d["win1"], 1, list(zip([ty] * count, a.carried))) as b:
                at_b = position("1", out1, b.index)
                inside = w.op("and", "i1", within("0", at_a), within("1", at_b))
                line = w.iadd(w.imul(at_a, d["x0"]), w.imul(at_b, d["x1"]))
                tap_row = w.iadd(w.imul(a.index, d["w0"]), w.imul(b.index, d["w1"]))

                def taps(before: list[str], line: str = line, tap_row: str = tap_row) -> list[str]:
                    with w.loop("0", d["win2"], 1, list(zip([ty] * count, before))) as c:
                        index = w.iadd(w.iadd(tap_row, w.imul(c.index, d["w2"])), channel)
                        weight = _load(w, ty, w.gep(elem, weights, index), mask)
                        for p in range(count):
                            at = position("2", w.iadd(column, p), c.index)
                            total = c.carried[p]

                            def add(
                                at: str = at, total: str = total, wt: str = weight
                            ) -> list[str]:
                                here = w.iadd(w.iadd(line, w.imul(at, d["x2"])), channel)
                                value = _load(w, ty, w.gep(elem, x_image, here), mask)
                                return [w.fma(ty, value, wt, total)]

                            if check:
                                keep = [total]
                                c.next += w.if_else(within("2", at), [ty], add, partial(list, keep))
                            else:
                                c.next += add()
                    return c.results

                before = list(b.carried)
                b.next = w.if_else(
                    inside, [ty] * count, partial(taps, before), partial(list, before)
                )
            a.next = b.results
        for p in range(count):
            at = w.iadd(w.imul(w.iadd(column, p), d["o2"]), channel)
            address = w.gep(elem, out_row, at)
            if mask is None:
                w.store(ty, a.results[p], address)
            else:
                w.masked_store(ty, a.results[p], address, mask)

    # Columns whose whole window lies inside: start >= pad / stride, end by the last tap.
    stride = d["stride2"]
    reach = w.imul(w.isub(d["win2"], 1), d["wdil2"])
    first = w.op("udiv", "i64", w.iadd(w.imax(d["pad2"], 0), w.isub(stride, 1)), stride)
    last = w.isub(w.iadd(d["in2"], d["pad2"]), w.iadd(reach, 1))
    beyond = w.iadd(w.op("sdiv", "i64", last, stride), 1)
    beyond = w.select(w.cmp("slt", "i64", last, "0"), "i64", "0", beyond)
    first = w.imin(first, d["out2"])
    beyond = w.imax(w.imin(beyond, d["out2"]), first)
    fours = w.iadd(first, w.op("and", "i64", w.isub(beyond, first), str(-_PIXELS)))
    channels = d["groups"]

    def all_columns(channel: str, mask: str | None) -> None:
        with w.loop("0", first) as column:
            pixels(column.index, 1, True, channel, mask)
        with w.loop(first, fours, _PIXELS) as column:
            pixels(column.index, _PIXELS, False, channel, mask)
        with w.loop(fours, d["out2"]) as column:
            pixels(column.index, 1, True, channel, mask)

    whole = w.op("and", "i64", channels, str(-n))
    with w.loop("0", whole, n) as channel:
        all_columns(channel.index, None)
    if n == 1:
        w.ret()
        return
    with w.if_(w.cmp("slt", "i64", whole, channels)):
        all_columns(whole, w.active_mask(n, whole, channels))
    w.ret()


def _load(w: FunctionWriter, ty: str, address: str, mask: str | None) -> str:
    return w.load(ty, address) if mask is None else w.masked_load(ty, address, mask)
