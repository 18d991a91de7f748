"""Micro-kernels of direct convolution: accumulators in registers, the image through offsets."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.types import const, mask_of, register_type, suffix, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_tiles import GemmType, Tile

# i64 slots of an entry: tile pointer, output pointer, mask of the lanes that are pixels.
ENTRY = 3


def micro_name(prefix: str, kind: str, rows: int, vectors: int) -> str:
    return f"{prefix}.direct_{kind}.{rows}x{vectors}"


def _begin(
    module: ModuleWriter, name: str, last: tuple[str, str]
) -> tuple[FunctionWriter, list[str], list[str]]:
    params = [("ptr noalias", "weights"), ("ptr noalias", "entries"), ("ptr noalias", "offsets")]
    params += [("i64", p) for p in ("length", "accumulate", *last)]
    return module.function(name, params, internal=True, attributes="noinline"), [], []


def _entry(w: FunctionWriter, i: int, slot: int, ty: str = "ptr") -> str:
    return w.load(ty, w.gep("i64", "%entries", i * ENTRY + slot), 8)


def emit_planes_micro(
    module: ModuleWriter, prefix: str, t: GemmType, tile: Tile, rows: int, vectors: int
) -> None:
    """void micro(weights [k][rows], entries, offsets, length, accumulate, first, step)

    Output channel r of entry v lies at its output pointer + first + r * step.
    """
    w, sources, _ = _begin(module, micro_name(prefix, "planes", rows, vectors), ("first", "step"))
    elem = register_type(t.compute)
    ty = vector(elem, tile.lanes)
    sources = [_entry(w, v, 0) for v in range(vectors)]
    carries = [("ptr", "%weights"), *[(ty, const(ty, 0))] * (rows * vectors)]
    with w.loop("0", "%length", 1, carries, guard=False) as loop:
        a_ptr, *sums = loop.carried
        offset = w.load("i64", w.gep("i64", "%offsets", loop.index))
        pixels = [w.load(ty, w.gep(elem, source, offset)) for source in sources]
        out = []
        for r in range(rows):
            a = w.splat(ty, w.load(elem, w.gep(elem, a_ptr, r)))
            out += [w.fma(ty, a, pixels[v], sums[r * vectors + v]) for v in range(vectors)]
        loop.next = [w.gep(elem, a_ptr, rows), *out]
    sums = loop.results[1:]
    adding = w.cmp("ne", "i64", "%accumulate", "0")
    kept = w.alloca(ty, rows)
    for v in range(vectors):
        bits = _entry(w, v, 2, "i64")
        target = w.gep(elem, _entry(w, v, 1), "%first")
        full = w.cmp("eq", "i64", bits, str((1 << tile.lanes) - 1))
        column = [sums[r * vectors + v] for r in range(rows)]
        rows_at = [w.gep(elem, target, w.imul("%step", r)) for r in range(rows)]

        def whole(column: list = column, rows_at: list = rows_at) -> list[str]:
            for add in (True, False):
                with w.if_(adding if add else w.op("xor", "i1", adding, "true")):
                    for value, address in zip(column, rows_at):
                        if add:
                            value = w.op("fadd", ty, w.load(ty, address), value)
                        w.store(ty, value, address)
            return []

        def gaps(column: list = column, target: str = target, bits: str = bits) -> list[str]:
            for r, value in enumerate(column):
                w.store(ty, value, w.gep(ty, kept, r))
            given = [("ptr", kept), ("i64", str(rows)), ("ptr", target), ("i64", "%step")]
            given += [("i64", bits), ("i64", "%accumulate")]
            w.call(_gaps_name(prefix), "void", given)
            return []

        w.if_else(full, [], whole, gaps)
    w.ret()


def emit_planes_gaps(module: ModuleWriter, prefix: str, t: GemmType, tile: Tile) -> None:
    """void gaps(values, rows, target, step, bits, accumulate)

    Lanes of each row whose bit is set go, side by side, to target + row * step. One function for
    all micro-kernels: without instructions for it (AVX-512 has them) each move is a branch a lane.
    """
    names = [("ptr", "values"), ("i64", "rows"), ("ptr", "target")]
    names += [("i64", n) for n in ("step", "bits", "accumulate")]
    w = module.function(_gaps_name(prefix), names, internal=True, attributes="noinline")
    ty = vector(register_type(t.compute), tile.lanes)
    narrow = w.cast("trunc", "i64", "%bits", f"i{tile.lanes}")
    mask = w.cast("bitcast", f"i{tile.lanes}", narrow, mask_of(ty))
    adding = w.cmp("ne", "i64", "%accumulate", "0")
    with w.loop("0", "%rows", 1, guard=False) as loop:
        value = w.load(ty, w.gep(ty, "%values", loop.index))
        target = w.gep(register_type(t.compute), "%target", w.imul("%step", loop.index))

        def added(value: str = value, target: str = target) -> list[str]:
            return [w.op("fadd", ty, _expand(w, ty, target, mask), value)]

        def alone(value: str = value) -> list[str]:
            return [value]

        _compress(w, ty, w.if_else(adding, [ty], added, alone)[0], target, mask)
    w.ret()


def _gaps_name(prefix: str) -> str:
    return f"{prefix}.direct_planes.gaps"


def _expand(w: FunctionWriter, ty: str, address: str, mask: str) -> str:
    name = f"llvm.masked.expandload.{suffix(ty)}"
    mask_ty = mask_of(ty)
    w.module.declare(name, ty, ["ptr", mask_ty, ty])
    return w.value(f"call {ty} @{name}(ptr {address}, {mask_ty} {mask}, {ty} zeroinitializer)")


def _compress(w: FunctionWriter, ty: str, value: str, address: str, mask: str) -> None:
    name = f"llvm.masked.compressstore.{suffix(ty)}"
    mask_ty = mask_of(ty)
    w.module.declare(name, "void", [ty, "ptr", mask_ty])
    w.line(f"call void @{name}({ty} {value}, ptr {address}, {mask_ty} {mask})")


def emit_channels_micro(
    module: ModuleWriter, prefix: str, t: GemmType, tile: Tile, rows: int, vectors: int
) -> None:
    """void micro(weights [k][vectors * lanes], entries, offsets, length, accumulate, first, valid)

    Pixel r is entry r; its `valid` channels lie at its output pointer + first.
    """
    name = micro_name(prefix, "channels", rows, vectors)
    w, _, _ = _begin(module, name, ("first", "valid"))
    elem = register_type(t.compute)
    lanes = tile.lanes
    ty = vector(elem, lanes)
    sources = [_entry(w, r, 0) for r in range(rows)]
    carries = [("ptr", "%weights"), *[(ty, const(ty, 0))] * (rows * vectors)]
    with w.loop("0", "%length", 1, carries, guard=False) as loop:
        b_ptr, *sums = loop.carried
        offset = w.load("i64", w.gep("i64", "%offsets", loop.index))
        panel = [w.load(ty, w.gep(elem, b_ptr, v * lanes)) for v in range(vectors)]
        out = []
        for r in range(rows):
            a = w.splat(ty, w.load(elem, w.gep(elem, sources[r], offset)))
            out += [w.fma(ty, a, panel[v], sums[r * vectors + v]) for v in range(vectors)]
        loop.next = [w.gep(elem, b_ptr, vectors * lanes), *out]
    sums = loop.results[1:]
    adding = w.cmp("ne", "i64", "%accumulate", "0")
    tail = w.active_mask(lanes, str((vectors - 1) * lanes), "%valid")
    targets = [w.gep(elem, _entry(w, r, 1), "%first") for r in range(rows)]
    for add in (True, False):
        with w.if_(adding if add else w.op("xor", "i1", adding, "true")):
            for r in range(rows):
                for v in range(vectors):
                    address = w.gep(elem, targets[r], v * lanes)
                    value = sums[r * vectors + v]
                    if v < vectors - 1:
                        if add:
                            value = w.op("fadd", ty, w.load(ty, address), value)
                        w.store(ty, value, address)
                        continue
                    if add:
                        value = w.op("fadd", ty, w.masked_load(ty, address, tail), value)
                    w.masked_store(ty, value, address, tail)
    w.ret()


def for_heights(
    w: FunctionWriter, count: str, heights: list[int], body: Callable[[str, int], None]
) -> None:
    """body(start, height) over 0..count: full heights, then the rest in smaller ones."""
    full = heights[0]
    end = w.imul(w.op("udiv", "i64", count, str(full)), full)
    with w.loop("0", end, full) as loop:
        body(loop.index, full)
    at = end
    for height in heights[1:]:
        # The largest smaller height may be needed more than once (6 = 4 + 2, but 7 of 8).
        fits = w.cmp("sge", "i64", w.isub(count, at), str(height))
        with w.if_(fits):
            body(at, height)
        at = w.iadd(at, w.select(fits, "i64", str(height), "0"))
