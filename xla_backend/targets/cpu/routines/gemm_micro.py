"""The micro-kernel of GEMM: a tile of C in registers, one step of K a round."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm import elemental
from xla_backend.llvm.bytes import prefetch
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.types import bits_of, const, register_type, vector
from xla_backend.llvm.types import lanes as lanes_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.gemm_tiles import (
    BFLOAT_PAIR_PRODUCTS,
    PAIR_PRODUCTS,
    GemmType,
    Tile,
    depth_group,
    has_bfloat_pairs,
)

# A layout: packed pairs of bf16 of any size.
HALVES = "halves"
# Parameters of a micro-kernel, in order.
MICRO = "A a_step B b_step C ldc kc columns accumulate".split()
_POINTERS = {"A": "ptr noalias", "B": "ptr noalias", "C": "ptr noalias"}


def micro_name(prefix: str, rows: int, vectors: int, layout: str) -> str:
    return f"{prefix}.{layout}.{rows}x{vectors}"


def multiply_add(w: FunctionWriter, t: P, ty: str, a: tuple, b: tuple, c: tuple) -> tuple:
    """c + a*b on accumulators of one part (real) or two (complex)."""
    if t.is_complex:
        (ar, ai), (br, bi), (cr, ci) = a, b, c
        cr = w.fma(ty, w.fneg(ty, ai), bi, w.fma(ty, ar, br, cr))
        return cr, w.fma(ty, ai, br, w.fma(ty, ar, bi, ci))
    if t.is_floating:
        return (w.fma(ty, a[0], b[0], c[0]),)
    return (w.op("add", ty, c[0], w.op("mul", ty, a[0], b[0])),)


def _add_pair_products(w: FunctionWriter, ty: str, a: tuple, b: tuple, c: tuple) -> tuple:
    """c + the sum of the products of both 16-bit integers in each lane (LLVM makes it one
    instruction where there is one)."""
    count = lanes_of(ty)
    narrow = vector("i16", 2 * count)
    name = PAIR_PRODUCTS[32 * count]
    w.module.declare(name, ty, [narrow, narrow])
    x, y = (w.cast("bitcast", ty, each[0], narrow) for each in (a, b))
    products = w.pure(f"call {ty} @{name}({narrow} {x}, {narrow} {y})", x, y)
    return (w.op("add", ty, c[0], products),)


def _add_bfloat_products(w: FunctionWriter, ty: str, a: tuple, b: tuple, c: tuple) -> tuple:
    """c + the products of both bf16 in each lane, where none is subnormal."""
    narrow = vector("bfloat", 2 * lanes_of(ty))
    w.module.declare(BFLOAT_PAIR_PRODUCTS, ty, [ty, narrow, narrow])
    x, y = (w.cast("bitcast", ty, each[0], narrow) for each in (a, b))
    call = f"call {ty} @{BFLOAT_PAIR_PRODUCTS}({ty} {c[0]}, {narrow} {x}, {narrow} {y})"
    return (w.pure(call, c[0], x, y),)


def _add_half(opcode: str, operand: int) -> Callable[..., tuple]:
    """c + the product of one bf16 of each lane: of what the operation makes a whole f32."""

    def widened(w: FunctionWriter, ty: str, pairs: str) -> str:
        bits = vector("i32", lanes_of(ty))
        whole = w.cast("bitcast", ty, pairs, bits)
        return w.cast("bitcast", bits, w.op(opcode, bits, whole, const(bits, operand)), ty)

    def add(w: FunctionWriter, ty: str, a: tuple, b: tuple, c: tuple) -> tuple:
        return (w.fma(ty, widened(w, ty, a[0]), widened(w, ty, b[0]), c[0]),)

    return add


_UPPER, _LOWER = _add_half("and", -1 << 16), _add_half("shl", 16)


def _additions(t: GemmType, target: TargetInfo, layout: str) -> tuple[Callable[..., tuple], ...]:
    """What a step of K adds to the sums, one after the other."""
    if layout == HALVES:
        return _UPPER, _LOWER
    if has_bfloat_pairs(t, target):
        return (_add_bfloat_products,)
    if depth_group(t, target) > 1:
        return (_add_pair_products,)
    return (lambda w, ty, a, b, c: multiply_add(w, t.compute, ty, a, b, c),)


def emit_micro_kernel(
    module: ModuleWriter,
    prefix: str,
    t: GemmType,
    tile: Tile,
    rows: int,
    vectors: int,
    layout: str,
) -> None:
    """void micro(A, a_step, B, b_step, C, ldc, kc, columns, accumulate)

    layout "columns": A[r + k a_step]; "rows": A[r a_step + k]. B[k b_step + j]. The last vector
    holds columns - (vectors - 1) * lanes valid columns. Where panels hold pairs (`depth_group`),
    kc counts those; HALVES: as "columns", of pairs of bf16 of any size.
    """
    params = [(_POINTERS.get(parameter, "i64"), parameter) for parameter in MICRO]
    name = micro_name(prefix, rows, vectors, layout)
    w = module.function(name, params, internal=True, attributes="noinline")
    compute = t.compute
    parts = 2 if compute.is_complex else 1
    additions = _additions(t, module.target, layout)
    elem = register_type(compute)
    ty = vector(elem, tile.lanes)
    lanes = tile.lanes
    masked = module.target.has_masks and lanes > 1
    # Packed panels are padded, so only operands in place need the mask for loading.
    direct = not t.needs_packing and masked
    tail = w.active_mask(lanes, str((vectors - 1) * lanes), "%columns") if masked else ""
    zero = const(ty, 0)
    carries = [("ptr", "%A"), ("ptr", "%B")]
    carries += [(ty, zero)] * (rows * vectors * parts)
    _prefetch_results(w, t, rows, vectors * lanes)
    # The loop is guarded: kc = 0 writes zeros.
    row_ptrs = []
    if layout == "rows":
        row_ptrs = [w.gep(elem, "%A", w.imul("%a_step", r)) for r in range(rows)]
    with w.loop("0", "%kc", 1, carries) as loop:
        a_ptr, b_ptr, *sums = loop.carried
        b_values = []
        if layout == "rows":
            _prefetch_next_panel(w, elem, b_ptr, vectors * lanes, bits_of(elem) // 8)
        for v in range(vectors):
            planes = []
            for p in range(parts):
                address = w.gep(elem, b_ptr, (v * parts + p) * lanes)
                if direct and v == vectors - 1:
                    planes.append(w.masked_load(ty, address, tail))
                else:
                    planes.append(w.load(ty, address))
            b_values.append(tuple(planes))
        for add in additions:
            out: list[str] = []
            for r in range(rows):
                if layout == "rows":
                    a_parts = [w.load(elem, w.gep(elem, row_ptrs[r], loop.index))]
                else:
                    a_parts = [
                        w.load(elem, w.gep(elem, a_ptr, r * parts + p)) for p in range(parts)
                    ]
                a = tuple(w.splat(ty, s) for s in a_parts)
                for v in range(vectors):
                    at = (r * vectors + v) * parts
                    out += add(w, ty, a, b_values[v], tuple(sums[at : at + parts]))
            sums = out
        following_a = w.gep(elem, a_ptr, "%a_step") if layout != "rows" else a_ptr
        loop.next = [following_a, w.gep(elem, b_ptr, "%b_step"), *sums]
    sums = loop.results[2:]
    add_label, store_label = w.new_label("add"), w.new_label("store")
    wants_add = w.cmp("ne", "i64", "%accumulate", "0")
    w.cond_br(wants_add, add_label, store_label)
    for adding, label in ((True, add_label), (False, store_label)):
        w.label(label)
        with w.scope():
            for r in range(rows):
                row = w.gep(_c_element(t), "%C", w.imul("%ldc", r))
                for v in range(vectors):
                    at = (r * vectors + v) * parts
                    last = v == vectors - 1
                    _store(w, t, tile, row, v, tuple(sums[at : at + parts]), tail, last, adding)
            w.ret()


def _prefetch_next_panel(
    w: FunctionWriter, elem: str, row: str, columns: int, element_bytes: int
) -> None:
    """Asks for what the next panel of an operand in place has in the same row: rows are too far
    from each other for the machine to guess."""
    for column in range(columns, 2 * columns, 64 // element_bytes):
        address = w.pure(f"getelementptr {elem}, ptr {row}, i64 {column}", row)
        prefetch(w, address)


def _prefetch_results(w: FunctionWriter, t: GemmType, rows: int, columns: int) -> None:
    """Asks for the tile of C, so that it arrives while the sums are formed."""
    per_line = max(1, 64 // t.target.byte_size)
    for r in range(rows):
        row = w.gep(_c_element(t), "%C", w.imul("%ldc", r))
        for column in range(0, columns, per_line):
            # Beyond the matrix a prefetch does nothing; the address must not claim to be in bounds.
            address = w.pure(f"getelementptr {_c_element(t)}, ptr {row}, i64 {column}", row)
            prefetch(w, address, writes=True)


def _c_element(t: GemmType) -> str:
    if t.target.is_complex:
        part = register_type(t.target)
        return f"{{ {part}, {part} }}"
    return f"i{8 * t.target.byte_size}"


def _store(
    w: FunctionWriter,
    t: GemmType,
    tile: Tile,
    row: str,
    v: int,
    total: tuple,
    tail: str,
    last: bool,
    adding: bool,
) -> None:
    """Writes (or adds) one vector of a row of C; the last one only its valid columns."""
    n = tile.lanes
    value = total if t.compute.is_complex else total[0]
    if not last or tail:
        mask = tail if last else None
        if adding:
            old = elemental.load(w, t.target, n, row, v * n, mask)
            old = elemental.emit_convert(w, t.target, t.compute, n, old)
            value = elemental.emit(w, "add", t.compute, n, value, old)
        result = elemental.emit_convert(w, t.compute, t.target, n, value)
        elemental.store(w, t.target, n, result, row, v * n, mask)
        return
    # No masks on this target: lane by lane, each under its own test.
    ty = vector(register_type(t.compute), n)
    for lane in range(n):
        with w.if_(w.cmp("slt", "i64", str(v * n + lane), "%columns")):
            parts = tuple(w.extract(ty, p, lane) for p in total)
            single = parts if t.compute.is_complex else parts[0]
            if adding:
                old = elemental.load(w, t.target, 1, row, v * n + lane)
                old = elemental.emit_convert(w, t.target, t.compute, 1, old)
                single = elemental.emit(w, "add", t.compute, 1, single, old)
            result = elemental.emit_convert(w, t.compute, t.target, 1, single)
            elemental.store(w, t.target, 1, result, row, v * n + lane)
