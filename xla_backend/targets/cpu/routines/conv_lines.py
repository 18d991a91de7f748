"""Convolution of one dimension with a long window and few results, as in the gradient with respect
to weights: for each result, a sum over input channels of products that read image and window where
they lie.

  out[image, channel] at a place  =  sum over i of  x[image, i, places of the window]
                                                    @ w[i, window, channel]

A task owns some channels of one place, and adds up the products in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xla_backend.llvm.types import const
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_tasks
from xla_backend.targets.cpu.routines.workspace import GIVE, TAKE

_CONTEXT = TaskContext(("x", "w", "out", "dims", "channels", "blocks"), pointers=4)
# Output channels of a task: enough for the threads where there are few, and more work for each
# element of x where there are many.
_FEW, _NARROW, _WIDE = 128, 32, 64


def emit_line_products(
    module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]
) -> None:
    """void lines(x, w, out, dims): no image dilation, one dimension, one group."""
    _emit_task(module, t, prefix, dims)
    w = module.function(
        f"{prefix}.lines", [("ptr", p) for p in ("x", "w", "out", "dims")], internal=True
    )
    d = dims(w, "%dims")
    few = w.cmp("sle", "i64", d["co"], str(_FEW))
    channels = w.select(few, "i64", str(_NARROW), str(_WIDE))
    blocks = w.op("udiv", "i64", w.iadd(d["co"], w.isub(channels, 1)), channels)
    context = _CONTEXT.make(w, ("%x", "%w", "%out", "%dims", channels, blocks))
    run_tasks(w, f"{prefix}.lines.task", context, w.imul(blocks, d["out2"]))
    w.ret()


def _emit_task(module: ModuleWriter, t: GemmType, prefix: str, dims: Callable[..., Any]) -> None:
    name = f"{prefix}.lines.task"
    w = module.function(name, [("ptr", "ctx"), ("i64", "block")], internal=True)
    d = dims(w, _CONTEXT.field(w, "dims"))
    elem, size = f"i{8 * t.source.byte_size}", t.source.byte_size
    place = w.op("udiv", "i64", "%block", _CONTEXT.field(w, "blocks"))
    first = w.imul(
        w.isub("%block", w.imul(place, _CONTEXT.field(w, "blocks"))), _CONTEXT.field(w, "channels")
    )
    count = w.imin(_CONTEXT.field(w, "channels"), w.isub(d["co"], first))
    out = w.iadd(w.imul(place, d["o2"]), w.imul(first, d["oc"]))
    out = w.gep(elem, _CONTEXT.field(w, "out"), out)
    # Taps c with 0 <= c * dilation + shift < in2.
    shift = w.isub(w.imul(place, d["stride2"]), d["pad2"])
    step = d["wdil2"]

    def taps_below(bound: str) -> str:
        positive = w.imax(bound, 0)
        taps = w.op("udiv", "i64", w.iadd(positive, w.isub(step, 1)), step)
        return w.imin(taps, d["win2"])

    low = taps_below(w.isub(0, shift))
    depth = w.imax(w.isub(taps_below(w.isub(d["in2"], shift)), low), 0)
    image = w.imul(w.iadd(w.imul(low, step), shift), d["x2"])
    image = w.gep(elem, _CONTEXT.field(w, "x"), image)
    window = w.iadd(w.imul(low, d["w2"]), w.imul(first, d["wo"]))
    window = w.gep(elem, _CONTEXT.field(w, "w"), window)

    def products(target: str, pitch: str) -> None:
        with w.loop("0", d["ci"]) as i:
            args = [("i64", d["n"]), ("i64", count), ("i64", depth)]
            args += [("ptr", w.gep(elem, image, w.imul(i.index, d["xc"])))]
            args += [("i64", d["xb"]), ("i64", w.imul(step, d["x2"]))]
            args += [("ptr", w.gep(elem, window, w.imul(i.index, d["wi"])))]
            args += [("i64", d["w2"]), ("i64", d["wo"])]
            later = w.cast("zext", "i1", w.cmp("ne", "i64", i.index, "0"), "i64")
            args += [("ptr", target), ("i64", pitch), ("i64", later)]
            w.call(f"pyjax_gemm_{t.name}", "void", args)

    def in_place() -> list[str]:
        products(out, d["ob"])
        return []

    def scattered() -> list[str]:
        space = w.imul(w.imul(d["n"], count), size)
        block = w.call(TAKE, "ptr", [("i64", space)])
        result = w.gep("i8", block, 64)
        products(result, count)
        with w.loop("0", d["n"]) as image_loop, w.loop("0", count) as o:
            source = w.gep(elem, result, w.iadd(w.imul(image_loop.index, count), o.index))
            at = w.iadd(w.imul(image_loop.index, d["ob"]), w.imul(o.index, d["oc"]))
            w.store(elem, w.load(elem, source), w.gep(elem, out, at))
        w.call(GIVE, "void", [("ptr", block)])
        return []

    def nothing() -> list[str]:
        """The window lies beside the image."""
        with w.loop("0", d["n"]) as image_loop, w.loop("0", count) as o:
            at = w.iadd(w.imul(image_loop.index, d["ob"]), w.imul(o.index, d["oc"]))
            w.store(elem, const(elem, 0), w.gep(elem, out, at))
        return []

    def something() -> list[str]:
        w.if_else(w.cmp("eq", "i64", d["oc"], "1"), [], in_place, scattered)
        return []

    w.if_else(w.cmp("eq", "i64", depth, "0"), [], nothing, something)
    w.ret()
