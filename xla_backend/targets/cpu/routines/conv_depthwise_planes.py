"""Depthwise convolution with channels first: one plane a task, vectors of neighbouring columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from xla_backend.llvm.types import bits_of, const, register_type, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.conv_depthwise import emit_over_blocks
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType


def emit_depthwise_planes(
    module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]
) -> None:
    """void planes(x, w, out, dims): one channel per group, unit column strides, stride 1 along
    columns, no image dilation."""
    planes = lambda w, d: w.imul(d["n"], d["groups"])
    emit_over_blocks(module, f"{prefix}.planes", dims, planes, partial(_emit_plane, t=t, dims=dims))


def _emit_plane(w: FunctionWriter, t: GemmType, dims: Callable[..., Any]) -> None:
    x, weights, out, dims_ptr = (
        w.load_invariant("ptr", w.gep("i64", "%ctx", i), 8) for i in range(4)
    )
    d = dims(w, dims_ptr)
    elem = register_type(t.compute)
    n = w.target.lanes(bits_of(elem))
    ty, index_ty = vector(elem, n), vector("i64", n)
    image = w.op("udiv", "i64", "%block", d["groups"])
    group = w.isub("%block", w.imul(image, d["groups"]))
    plane = w.gep(elem, x, w.iadd(w.imul(image, d["xb"]), w.imul(group, d["xg"])))
    result = w.gep(elem, out, w.iadd(w.imul(image, d["ob"]), w.imul(group, d["og"])))
    filters = w.gep(elem, weights, w.imul(group, d["wg"]))

    def position(s: str, out_index: str, tap: str) -> str:
        at = w.iadd(w.imul(out_index, d[f"stride{s}"]), w.imul(tap, d[f"wdil{s}"]))
        return w.isub(at, d[f"pad{s}"])

    def columns(line: str, column: str, row_filter: str, total: str) -> list[str]:
        """Adds the taps of one window row to a vector of columns."""
        with w.loop("0", d["win2"], 1, [(ty, total)]) as c:
            weight = w.load(
                elem, w.gep(elem, filters, w.iadd(row_filter, w.imul(c.index, d["w2"])))
            )
            at = w.isub(w.iadd(column, w.imul(c.index, d["wdil2"])), d["pad2"])
            # May point outside the row at its ends: the mask keeps those lanes from being read.
            where = w.iadd(line, at)
            address = w.pure(f"getelementptr {elem}, ptr {plane}, i64 {where}", plane, where)
            inside = w.op(
                "and",
                "i1",
                w.cmp("sge", "i64", at, "0"),
                w.cmp("sle", "i64", w.iadd(at, n), d["in2"]),
            )

            def whole(address: str = address) -> list[str]:
                return [w.load(ty, address)]

            def edge(address: str = address, at: str = at) -> list[str]:
                lanes_at = w.op("add", index_ty, w.splat(index_ty, at), w.iota(index_ty))
                mask = w.cmp("ult", index_ty, lanes_at, w.splat(index_ty, d["in2"]))
                return [w.masked_load(ty, address, mask)]

            value = w.if_else(inside, [ty], whole, edge)[0]
            c.next = [w.fma(ty, value, w.splat(ty, weight), c.carried[0])]
        return c.results

    with w.loop("0", d["out0"]) as out0, w.loop("0", d["out1"]) as out1:
        row = w.iadd(w.imul(out0.index, d["o0"]), w.imul(out1.index, d["o1"]))
        with w.loop("0", d["out2"], n) as column:
            zero = const(ty, 0.0)
            with w.loop("0", d["win0"], 1, [(ty, zero)]) as a:
                at_a = position("0", out0.index, a.index)
                in_a = w.cmp("ult", "i64", at_a, d["in0"])
                with w.loop("0", d["win1"], 1, [(ty, a.carried[0])]) as b:
                    at_b = position("1", out1.index, b.index)
                    valid = w.op("and", "i1", in_a, w.cmp("ult", "i64", at_b, d["in1"]))
                    line = w.iadd(w.imul(at_a, d["x0"]), w.imul(at_b, d["x1"]))
                    taps = w.iadd(w.imul(a.index, d["w0"]), w.imul(b.index, d["w1"]))
                    total = b.carried[0]
                    add = partial(columns, line, column.index, taps, total)
                    b.next = w.if_else(valid, [ty], add, partial(list, [total]))
                a.next = b.results
            address = w.gep(elem, result, w.iadd(row, column.index))
            w.masked_store(ty, a.results[0], address, w.active_mask(n, column.index, d["out2"]))
    w.ret()
