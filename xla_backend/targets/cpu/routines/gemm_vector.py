"""Matrix times vector: dot products of four rows at a time, or combinations of eight rows."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.types import const, register_type, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType, Tile

_ROWS = 4
_RESULTS = 16
_UNROLL = 2
_ROWS_PER_TASK_BYTES = 1 << 18
_COLUMNS_PER_TASK = 1024


def emit_matrix_vector(module: ModuleWriter, prefix: str, t: GemmType, tile: Tile) -> None:
    """Two kernels: void gemv(results, K, matrix, stride, vector, out, out_stride, flags,
                              epilogue, data, batch, by_rows)

    gemv: result i is the dot product of row i (at i * stride, contiguous) with the vector.
    gemv_columns: the results are the vector's combination of K contiguous rows (at k * stride).
    The epilogue (or null) finishes results that are a column of C (by_rows 1) or a row (0).
    """
    task = module.function(f"{prefix}.gemvtask", [("ptr", "ctx"), ("i64", "block")], internal=True)
    _emit_task(task, t, tile)
    task = module.function(f"{prefix}.colstask", [("ptr", "ctx"), ("i64", "block")], internal=True)
    _emit_columns_task(task, t, tile)
    size = t.source.byte_size
    for name, task_name in (("gemv", "gemvtask"), ("gemv_columns", "colstask")):
        names = [("i64", "rows"), ("i64", "K"), ("ptr", "mat"), ("i64", "stride"), ("ptr", "vec")]
        names += [("ptr", "out"), ("i64", "out_stride"), ("i64", "flags")]
        names += [("ptr", "epilogue"), ("ptr", "data"), ("i64", "batch"), ("i64", "by_rows")]
        w = module.function(f"{prefix}.{name}", names, internal=True)
        context = w.alloca("i64", len(names) + 1, 8)
        for i, (ty, field) in enumerate(names):
            w.store(ty, f"%{field}", w.gep("i64", context, i), 8)
        if name == "gemv":
            row_bytes = w.imax(w.imul("%K", size), 1)
            per_task = w.imax(w.op("udiv", "i64", str(_ROWS_PER_TASK_BYTES), row_bytes), 1)
            # Whole vectors of results, as epilogues expect.
            per_task = w.op("and", "i64", w.iadd(per_task, _RESULTS - 1), str(-_RESULTS))
        else:
            per_task = str(_COLUMNS_PER_TASK)
        w.store("i64", per_task, w.gep("i64", context, len(names)), 8)
        blocks = w.op("udiv", "i64", w.iadd("%rows", w.isub(per_task, 1)), per_task)
        args = [("ptr", f"@{prefix}.{task_name}"), ("ptr", context), ("i64", blocks)]
        w.call("pyjax_parallel_for", "void", args)
        w.ret()


def _emit_finish(
    w: FunctionWriter, t: GemmType, get: Callable[..., str], lo: str, hi: str, step: str
) -> None:
    """Calls the epilogue, if there is one, for the results lo to hi, `step` elements apart."""
    epilogue, data, batch, by_rows = get(8, "ptr"), get(9, "ptr"), get(10), get(11)
    with w.if_(w.cmp("ne", "ptr", epilogue, "null")):
        place = w.gep(register_type(t.compute), get(5, "ptr"), w.imul(lo, step))
        rows = w.cmp("ne", "i64", by_rows, "0")
        along, across = (lo, w.isub(hi, lo)), ("0", "1")
        parts = [w.select(rows, "i64", a, b) for a, b in zip(along + across, across + along)]
        arguments = [("ptr", data), ("ptr", place), ("i64", step)]
        w.call_pointer(epilogue, "void", arguments + [("i64", x) for x in (*parts, batch)])


def _emit_columns_task(w: FunctionWriter, t: GemmType, tile: Tile) -> None:
    """A block of results that stays in the first-level cache, eight rows of the matrix a pass."""

    def get(i: int, ty: str = "i64") -> str:
        return w.load_invariant(ty, w.gep("i64", "%ctx", i), 8)

    total, k, mat, stride = get(0), get(1), get(2, "ptr"), get(3)
    vec, out, flags = get(4, "ptr"), get(5, "ptr"), get(7)
    elem, lanes = register_type(t.compute), tile.lanes
    lo = w.imul("%block", _COLUMNS_PER_TASK)
    hi = w.imin(w.iadd(lo, _COLUMNS_PER_TASK), total)
    whole = w.iadd(lo, w.op("and", "i64", w.isub(hi, lo), str(-lanes)))
    with w.if_(w.cmp("eq", "i64", w.op("and", "i64", flags, "1"), "0")):
        with w.loop(lo, hi) as loop:
            w.store(elem, const(elem, 0.0), w.gep(elem, out, loop.index))

    def combine(row: str, count: int) -> None:
        factors = [w.load(elem, w.gep(elem, vec, w.iadd(row, r))) for r in range(count)]
        bases = [w.gep(elem, mat, w.imul(w.iadd(row, r), stride)) for r in range(count)]
        for width, start, end in ((lanes, lo, whole), (1, whole, hi)):
            part = vector(elem, width)
            spread = [w.splat(part, f) for f in factors]
            with w.loop(start, end, width) as loop:
                address = w.gep(elem, out, loop.index)
                # Two chains, so that the additions of eight rows do not wait for each other.
                sums = [w.load(part, address), const(part, 0.0)]
                for r in range(count):
                    value = w.load(part, w.gep(elem, bases[r], loop.index))
                    sums[r % 2] = w.fma(part, value, spread[r], sums[r % 2])
                w.store(part, w.op("fadd", part, *sums), address)

    eights = w.op("and", "i64", k, "-8")
    with w.loop("0", eights, 8) as loop:
        combine(loop.index, 8)
    with w.loop(eights, k) as loop:
        combine(loop.index, 1)
    _emit_finish(w, t, get, lo, hi, "1")
    w.ret()


def _emit_task(w: FunctionWriter, t: GemmType, tile: Tile) -> None:
    def get(i: int, ty: str = "i64") -> str:
        return w.load_invariant(ty, w.gep("i64", "%ctx", i), 8)

    rows, k, mat, stride = get(0), get(1), get(2, "ptr"), get(3)
    vec, out, out_stride, flags, per_task = get(4, "ptr"), get(5, "ptr"), get(6), get(7), get(12)
    lo = w.imul("%block", per_task)
    hi = w.imin(w.iadd(lo, per_task), rows)
    elem, lanes = register_type(t.compute), tile.lanes
    ty = vector(elem, lanes)
    adding = w.cmp("ne", "i64", w.op("and", "i64", flags, "1"), "0")
    wide = lanes * _UNROLL
    whole = w.imul(w.op("udiv", "i64", k, str(wide)), wide)

    def dot(row: str, count: int) -> None:
        bases = [w.gep(elem, mat, w.imul(w.iadd(row, r), stride)) for r in range(count)]
        zero = const(ty, 0.0)
        with w.loop("0", whole, wide, [(ty, zero)] * (count * _UNROLL)) as loop:
            for u in range(_UNROLL):
                x = w.load(ty, w.gep(elem, vec, w.iadd(loop.index, u * lanes)))
                for r in range(count):
                    a = w.load(ty, w.gep(elem, bases[r], w.iadd(loop.index, u * lanes)))
                    loop.next.append(w.fma(ty, a, x, loop.carried[u * count + r]))
        sums = []
        for r in range(count):
            total = loop.results[r]
            for u in range(1, _UNROLL):
                total = w.op("fadd", ty, total, loop.results[u * count + r])
            sums.append(w.reduce("fadd", ty, total))
        with w.loop(whole, k, 1, [(elem, s) for s in sums]) as rest:
            x = w.load(elem, w.gep(elem, vec, rest.index))
            for r in range(count):
                a = w.load(elem, w.gep(elem, bases[r], rest.index))
                rest.next.append(w.fma(elem, a, x, rest.carried[r]))
        for r in range(count):
            address = w.gep(elem, out, w.imul(w.iadd(row, r), out_stride))
            value = rest.results[r]

            def old(address: str = address) -> list[str]:
                return [w.load(elem, address)]

            before = w.if_else(adding, [elem], old, lambda: [const(elem, 0.0)])[0]
            w.store(elem, w.op("fadd", elem, value, before), address)

    full = w.imul(w.op("udiv", "i64", w.isub(hi, lo), str(_ROWS)), _ROWS)
    end = w.iadd(lo, full)
    with w.loop(lo, end, _ROWS) as loop:
        dot(loop.index, _ROWS)
    with w.loop(end, hi) as loop:
        dot(loop.index, 1)
    _emit_finish(w, t, get, lo, hi, out_stride)
    w.ret()
