"""Products of a long K and a small result: parts of K side by side, whose sums are added in order.

`gemm_parts` says how many there are.
"""

from __future__ import annotations

from xla_backend.llvm.types import register_type, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_context import (
    EPILOGUE,
    FIELDS,
    PRODUCT,
    Context,
    ceil_div,
    element_type,
    parameters,
)
from xla_backend.targets.cpu.routines.gemm_parts import GRAIN, LONG, MOST_PARTS, PART, RESULTS
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType
from xla_backend.targets.cpu.routines.task_context import run_tasks
from xla_backend.targets.cpu.routines.workspace import GIVE, TAKE

# Blocks of C for an epilogue, as those of other products at most.
_BLOCK_ROWS, _BLOCK_COLUMNS = 64, 128


def emit_is_split(w: FunctionWriter) -> str:
    """Whether the product with the parameters %M, %N and %K is one of several parts."""
    small = w.cmp("sle", "i64", w.op("mul", "i64", "%M", "%N"), str(RESULTS))
    long = w.cmp("sge", "i64", "%K", str(LONG))
    matrices = w.cmp("sge", "i64", w.imin("%M", "%N"), "2")
    return w.op("and", "i1", w.op("and", "i1", small, long), matrices)


def emit_split(
    module: ModuleWriter, t: GemmType, name: str, product: str, internal: bool = False
) -> None:
    """void name(...) with the parameters of a fused product; `product` computes the parts."""
    task = f"gemm.{t.name}.part"
    _emit_task(module, t, task, product)
    w = module.function(name, parameters(*PRODUCT, *EPILOGUE), internal=internal)
    ctx = Context(w, w.alloca("i64", len(FIELDS), 8))
    for _, field in parameters(*PRODUCT, *EPILOGUE):
        ctx.set(field, f"%{field}")
    parts = w.imin(ceil_div(w, "%K", PART), MOST_PARTS)
    depth = w.imul(ceil_div(w, ceil_div(w, "%K", parts), GRAIN), GRAIN)
    parts = ceil_div(w, "%K", depth)
    size = w.op("mul", "i64", "%M", "%N")
    nbytes = w.imul(w.op("mul", "i64", size, parts), t.target.byte_size)
    workspace = w.call(TAKE, "ptr", [("i64", nbytes)])
    sums = w.gep("i8", workspace, 64)
    ctx.set("packA", sums)
    ctx.set("piece", depth)
    run_tasks(w, task, ctx.ptr, parts)
    without_c = w.cmp("eq", "ptr", "%C", "null")
    target = w.select(without_c, "ptr", sums, "%C")
    pitch = w.select(without_c, "i64", "%N", "%ldc")
    _add_parts(w, t, sums, parts, size, target, pitch)
    with w.if_(w.cmp("ne", "ptr", "%epilogue", "null")):
        _finish(w, t, target, pitch)
    w.call(GIVE, "void", [("ptr", workspace)])
    w.ret()


def _emit_task(module: ModuleWriter, t: GemmType, name: str, product: str) -> None:
    """void task(ptr context, i64 part)"""
    w = module.function(name, [("ptr", "ctx"), ("i64", "part")], internal=True)
    ctx = Context(w, "%ctx")
    values = {field: ctx.get(field) for field in PRODUCT}
    depth = ctx.get("piece")
    start = w.imul("%part", depth)
    for which, stride in (("A", "csA"), ("B", "rsB")):
        offset = w.imul(start, values[stride])
        values[which] = w.gep(element_type(t, which), values[which], offset)
    place = w.imul("%part", w.op("mul", "i64", values["M"], values["N"]))
    values["C"] = w.gep(element_type(t, "C"), ctx.get("packA"), place)
    values |= {"K": w.imin(depth, w.isub(values["K"], start)), "ldc": values["N"], "flags": "0"}
    arguments = [(ty, values[field]) for ty, field in parameters(*PRODUCT)]
    none = [(ty, "null" if ty == "ptr" else "0") for ty, _ in parameters(*EPILOGUE)]
    w.call(product, "void", [*arguments, *none])
    w.ret()


def _add_parts(
    w: FunctionWriter, t: GemmType, sums: str, parts: str, size: str, target: str, pitch: str
) -> None:
    """The sum of the parts, and of what C has if it is to be added to."""
    scalar = register_type(t.target)
    lanes = w.target.lanes(8 * t.target.byte_size)
    ty = vector(scalar, lanes)
    adds = w.cmp("ne", "i64", w.op("and", "i64", "%flags", "1"), "0")
    with w.loop("0", "%M") as rows:
        first = w.gep(scalar, sums, w.imul(rows.index, "%N"))
        result = w.gep(scalar, target, w.imul(rows.index, pitch))

        def add(column: str, ty: str, first: str = first, result: str = result) -> None:
            start = w.load(ty, w.gep(scalar, first, column))
            with w.loop("1", parts, 1, [(ty, start)]) as loop:
                at = w.iadd(w.imul(loop.index, size), column)
                part = w.load(ty, w.gep(scalar, first, at))
                loop.next = [w.op("fadd", ty, loop.carried[0], part)]
            (total,) = loop.results
            place = w.gep(scalar, result, column)

            def with_c() -> list[str]:
                return [w.op("fadd", ty, total, w.load(ty, place))]

            (total,) = w.if_else(adds, [ty], with_c, lambda: [total])
            w.store(ty, total, place)

        whole = w.op("and", "i64", "%N", str(-lanes))
        with w.loop("0", whole, lanes) as columns:
            add(columns.index, ty)
        with w.loop(whole, "%N") as columns:
            add(columns.index, scalar)


def _finish(w: FunctionWriter, t: GemmType, target: str, pitch: str) -> None:
    """Hands all of C to the epilogue."""
    with (
        w.loop("0", "%M", _BLOCK_ROWS) as rows,
        w.loop("0", "%N", _BLOCK_COLUMNS) as columns,
    ):
        i, j = rows.index, columns.index
        block = w.gep(element_type(t, "C"), target, w.iadd(w.imul(i, pitch), j))
        height, width = (
            w.imin(w.isub("%M", i), _BLOCK_ROWS),
            w.imin(w.isub("%N", j), _BLOCK_COLUMNS),
        )
        numbers = [("i64", x) for x in (pitch, i, height, j, width, "%batch")]
        w.call_pointer("%epilogue", "void", [("ptr", "%data"), ("ptr", block), *numbers])
