"""Matrix times vector where both are contiguous along K: dot products of four rows at a time."""

from __future__ import annotations

from xla_backend.cpu.kernels.gemm_tiles import GemmType, Tile
from xla_backend.llvm.types import const, register_type, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

_ROWS = 4
_UNROLL = 2
_ROWS_PER_TASK_BYTES = 1 << 18


def emit_matrix_vector(module: ModuleWriter, prefix: str, t: GemmType, tile: Tile) -> None:
    """void gemv(rows, K, matrix, stride, vector, out, out_stride, flags)"""
    names = [("i64", "rows"), ("i64", "K"), ("ptr", "mat"), ("i64", "stride"), ("ptr", "vec")]
    names += [("ptr", "out"), ("i64", "out_stride"), ("i64", "flags")]
    task = module.function(f"{prefix}.gemvtask", [("ptr", "ctx"), ("i64", "block")], internal=True)
    _emit_task(task, t, tile)
    w = module.function(f"{prefix}.gemv", names, internal=True)
    context = w.alloca("i64", 10, 8)
    for i, (ty, name) in enumerate(names):
        w.store(ty, f"%{name}", w.gep("i64", context, i), 8)
    size = t.source.byte_size
    row_bytes = w.imax(w.imul("%K", size), 1)
    per_task = w.imax(w.op("udiv", "i64", str(_ROWS_PER_TASK_BYTES), row_bytes), 1)
    per_task = w.op("and", "i64", w.iadd(per_task, _ROWS - 1), str(-_ROWS))
    w.store("i64", per_task, w.gep("i64", context, 8), 8)
    blocks = w.op("udiv", "i64", w.iadd("%rows", w.isub(per_task, 1)), per_task)
    w.call(
        "pyjax_parallel_for",
        "void",
        [("ptr", f"@{prefix}.gemvtask"), ("ptr", context), ("i64", blocks)],
    )
    w.ret()


def _emit_task(w: FunctionWriter, t: GemmType, tile: Tile) -> None:
    def get(i: int, ty: str = "i64") -> str:
        return w.load_invariant(ty, w.gep("i64", "%ctx", i), 8)

    rows, k, mat, stride = get(0), get(1), get(2, "ptr"), get(3)
    vec, out, out_stride, flags, per_task = get(4, "ptr"), get(5, "ptr"), get(6), get(7), get(8)
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
    w.ret()
