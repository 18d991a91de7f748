"""Sorting: least-significant-digit radix sort on order-preserving keys, stable.

Keys become unsigned integers whose order is the wanted one: NaN last (all NaN equal), -0 equal to
0; complemented for descending order. Digits are 8 bits; digits that are the same in all keys are
skipped; short rows use insertion. Rows run in parallel.

  void pyjax_sort_<t>(ptr in, ptr out, outer, n, inner, flags)          in may equal out
  void pyjax_argsort_<t>(ptr keys, ptr perm, outer, n, inner, flags)    perm: s32, stable order
        sorts axis 1 of [outer, n, inner]; n < 2^31
        flags bit 0: descending (equal keys keep their order)
        bit 1 (argsort): perm holds a permutation of each row on entry, which the sort refines: sort
        by the last key first, then by each earlier key with this bit for several keys
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.types import const, mask_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.ordered_keys import decode, encode, flip_of, int_type
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.sort_parallel import (
    PARALLEL_KEYS,
    emit_parallel_radix,
    name_of,
)
from xla_backend.targets.cpu.routines.workspace import emit_workspace

SORT_TYPES = (
    P.PRED, P.S8, P.U8, P.S16, P.U16, P.S32, P.U32, P.S64, P.U64, P.BF16, P.F16, P.F32, P.F64,
)  # fmt: skip
_INSERTION = 48
_RADIX = 256
_FIELDS = ("keys", "out", "outer", "n", "inner", "flags")


class _Row:
    """One row while it is emitted: where its elements lie."""

    def __init__(self, w: FunctionWriter, row: str) -> None:
        self.w = w
        fields = []
        for i, name in enumerate(_FIELDS):
            ty = "ptr" if i < 2 else "i64"
            fields.append(w.load_invariant(ty, w.gep("i64", "%ctx", i), 8))
            del name
        self.keys, self.out, _, self.n, self.inner, self.flags = fields
        block = w.op("udiv", "i64", row, self.inner)
        within = w.isub(row, w.imul(block, self.inner))
        self.base = w.iadd(w.imul(w.imul(block, self.n), self.inner), within)

    def at(self, i: str) -> str:
        return self.w.iadd(self.base, self.w.imul(i, self.inner))

    def flip(self, ty: str) -> str:
        return flip_of(self.w, self.flags, ty)


def _emit_insertion(w: FunctionWriter, ty: str, n: str, keys: str, index: str | None) -> None:
    """Stable insertion sort of keys (and index beside them) in place."""
    with w.loop("1", n) as loop:
        key = w.load(ty, w.gep(ty, keys, loop.index))
        payload = w.load("i32", w.gep("i32", index, loop.index)) if index else ""
        others: list[str] = []

        def moves(carried: list[str]) -> str:
            (hole,) = carried
            free = w.cmp("sgt", "i64", hole, "0")
            previous = w.select(free, "i64", w.isub(hole, 1), "0")
            others[:] = [previous, w.load(ty, w.gep(ty, keys, previous))]
            return w.op("and", "i1", free, w.cmp("ugt", ty, others[1], key))

        def move(carried: list[str]) -> list[str]:
            (hole,) = carried
            previous, other = others
            w.store(ty, other, w.gep(ty, keys, hole))
            if index:
                moved = w.load("i32", w.gep("i32", index, previous))
                w.store("i32", moved, w.gep("i32", index, hole))
            return [previous]

        (hole,) = w.while_([("i64", loop.index)], moves, move)
        w.store(ty, key, w.gep(ty, keys, hole))
        if index:
            w.store("i32", payload, w.gep("i32", index, hole))


def _digit(w: FunctionWriter, ty: str, key: str, number: int) -> str:
    shifted = w.op("lshr", ty, key, const(ty, 8 * number)) if number else key
    if ty == "i8":
        return w.cast("zext", ty, shifted, "i64")
    byte = w.op("and", ty, shifted, const(ty, 255))
    return byte if ty == "i64" else w.cast("zext", ty, byte, "i64")


def _emit_counting(w: FunctionWriter, ty: str, n: str, keys: str, counts: str) -> None:
    """Histograms of all digits in one pass over the keys."""
    digits = int(ty[1:]) // 8
    with w.loop("0", str(digits * _RADIX), guard=False) as loop:
        w.store("i32", "0", w.gep("i32", counts, loop.index))
    with w.loop("0", n) as loop:
        key = w.load(ty, w.gep(ty, keys, loop.index))
        for d in range(digits):
            cell = w.gep("i32", w.gep("i32", counts, d * _RADIX), _digit(w, ty, key, d))
            w.store("i32", w.op("add", "i32", w.load("i32", cell), "1"), cell)


def _emit_radix(
    w: FunctionWriter, ty: str, n: str, keys: str, spare: str, indexed: bool, counts: str
) -> None:
    """Radix sort; cells `keys`/`spare` hold the key array and its double, `+ n keys` their indices.

    keys and spare are addresses of pointer cells: [keys, index]; the result is at `keys` again.
    """
    digits = int(ty[1:]) // 8

    def pointer(cell: str, which: int) -> str:
        return w.load("ptr", w.gep("ptr", cell, which))

    _emit_counting(w, ty, n, pointer(keys, 0), counts)
    n32 = w.cast("trunc", "i64", n, "i32")
    for d in range(digits):
        table = w.gep("i32", counts, d * _RADIX)
        sample = w.load(ty, pointer(keys, 0))
        count = w.load("i32", w.gep("i32", table, _digit(w, ty, sample, d)))
        with w.if_(w.cmp("ne", "i32", count, n32)):
            with w.loop("0", str(_RADIX), 1, [("i32", "0")], guard=False) as loop:
                cell = w.gep("i32", table, loop.index)
                here = w.load("i32", cell)
                w.store("i32", loop.carried[0], cell)
                loop.next = [w.op("add", "i32", loop.carried[0], here)]
            source, target = pointer(keys, 0), pointer(spare, 0)
            source_index = target_index = ""
            if indexed:
                source_index, target_index = pointer(keys, 1), pointer(spare, 1)
            with w.loop("0", n) as loop:
                key = w.load(ty, w.gep(ty, source, loop.index))
                cell = w.gep("i32", table, _digit(w, ty, key, d))
                place = w.load("i32", cell)
                w.store("i32", w.op("add", "i32", place, "1"), cell)
                place = w.cast("zext", "i32", place, "i64")
                w.store(ty, key, w.gep(ty, target, place))
                if indexed:
                    payload = w.load("i32", w.gep("i32", source_index, loop.index))
                    w.store("i32", payload, w.gep("i32", target_index, place))
            for which in range(2 if indexed else 1):
                a, b = pointer(keys, which), pointer(spare, which)
                w.store("ptr", b, w.gep("ptr", keys, which))
                w.store("ptr", a, w.gep("ptr", spare, which))


def _emit_row_task(module: ModuleWriter, t: P, indexed: bool) -> str:
    """void task(ptr ctx, i64 row); returns its name."""
    ty = int_type(t)
    name = f"{'argsort' if indexed else 'sort'}.{t}"
    w = module.function(name, [("ptr", "ctx"), ("i64", "row")], internal=True)
    row = _Row(w, "%row")
    n, flip = row.n, row.flip(ty)
    size = t.byte_size
    digits = size
    # scratch: counts, keys x 2, indices x 2
    key_bytes = w.op("and", "i64", w.iadd(w.imul(n, size), 127), "-64")
    index_bytes = w.op("and", "i64", w.iadd(w.imul(n, 4), 127), "-64")
    counts_bytes = digits * _RADIX * 4
    total = w.iadd(w.imul(key_bytes, 2), counts_bytes)
    if indexed:
        total = w.iadd(total, w.imul(index_bytes, 2))
    workspace = w.call("pyjax.workspace.take", "ptr", [("i64", total)])
    counts = w.gep("i8", workspace, 64)
    at = w.gep("i8", counts, counts_bytes)
    keys_cell, spare_cell = w.alloca("ptr", 2), w.alloca("ptr", 2)
    first_keys = at
    w.store("ptr", first_keys, keys_cell)
    w.store("ptr", w.gep("i8", at, key_bytes), spare_cell)
    first_index = ""
    if indexed:
        first_index = w.gep("i8", at, w.imul(key_bytes, 2))
        w.store("ptr", first_index, w.gep("ptr", keys_cell, 1))
        w.store("ptr", w.gep("i8", first_index, index_bytes), w.gep("ptr", spare_cell, 1))
        refine = w.cmp("ne", "i64", w.op("and", "i64", row.flags, "2"), "0")
    start, lossy = "0", "false"
    if not indexed:
        start, lossy = _encode_vectors(w, t, row, first_keys)
    with w.loop(start, n, 1, [("i1", lossy)]) as loop:
        source = loop.index
        if indexed:
            plain = w.cast("trunc", "i64", loop.index, "i32")
            place = row.at(loop.index)

            def given(place: str = place) -> list[str]:
                return [w.load("i32", w.gep("i32", row.out, place))]

            def natural(plain: str = plain) -> list[str]:
                return [plain]

            payload = w.if_else(refine, ["i32"], given, natural)[0]
            w.store("i32", payload, w.gep("i32", first_index, loop.index))
            source = w.cast("sext", "i32", payload, "i64")
        raw = w.load(ty, w.gep(ty, row.keys, row.at(source)))
        key, lossy = encode(w, t, raw, flip)
        w.store(ty, key, w.gep(ty, first_keys, loop.index))
        loop.next = [w.op("or", "i1", loop.carried[0], lossy)]
    lossy = loop.results[0]
    small = w.cmp("sle", "i64", n, str(_INSERTION))

    def insertion() -> list[str]:
        _emit_insertion(w, ty, n, first_keys, first_index or None)
        return []

    def serial() -> list[str]:
        _emit_radix(w, ty, n, keys_cell, spare_cell, indexed, counts)
        return []

    def parallel() -> list[str]:
        args = [("ptr", keys_cell), ("ptr", spare_cell), ("i64", n)]
        w.call(name_of(ty, indexed), "void", args)
        return []

    def radix() -> list[str]:
        w.if_else(w.cmp("sge", "i64", n, str(PARALLEL_KEYS)), [], parallel, serial)
        return []

    if indexed:
        w.if_else(small, [], insertion, radix)
        sorted_index = w.load("ptr", w.gep("ptr", keys_cell, 1))
        with w.loop("0", n) as loop:
            payload = w.load("i32", w.gep("i32", sorted_index, loop.index))
            w.store("i32", payload, w.gep("i32", row.out, row.at(loop.index)))
    else:

        def by_keys() -> list[str]:
            w.if_else(small, [], insertion, radix)
            result = w.load("ptr", keys_cell)
            with w.loop(_decode_vectors(w, t, row, result), n) as out:
                key = w.load(ty, w.gep(ty, result, out.index))
                w.store(ty, decode(w, t, key, flip), w.gep(ty, row.out, row.at(out.index)))
            return []

        def by_order() -> list[str]:
            _emit_through_argsort(w, t, row)
            return []

        if t.is_floating:
            w.if_else(lossy, [], by_order, by_keys, likely=False)
        else:
            by_keys()
    w.call("pyjax.workspace.give", "void", [("ptr", workspace)])
    w.ret()
    return name


def _vectors(w: FunctionWriter, t: P, row: _Row) -> tuple[str, int, str]:
    """(vector type, lanes, how many elements of the row are done in vectors)."""
    width = 8 * t.byte_size
    lanes = w.target.lanes(width)
    whole = w.op("and", "i64", row.n, str(-lanes))
    unit = w.cmp("eq", "i64", row.inner, "1")
    return vector(int_type(t), lanes), lanes, w.select(unit, "i64", whole, "0")


def _encode_vectors(w: FunctionWriter, t: P, row: _Row, keys: str) -> tuple[str, str]:
    """Keys of the whole vectors of a contiguous row: (how many elements, whether one is lossy)."""
    elem = int_type(t)
    ty, lanes, end = _vectors(w, t, row)
    if lanes == 1:
        return "0", "false"
    flip = w.splat(ty, row.flip(elem))
    bits = mask_of(ty)
    source = w.gep(elem, row.keys, row.base)
    with w.loop("0", end, lanes, [(bits, "zeroinitializer")]) as loop:
        key, lossy = encode(w, t, w.load(ty, w.gep(elem, source, loop.index)), flip, ty)
        w.store(ty, key, w.gep(elem, keys, loop.index))
        seen = loop.carried[0]
        loop.next = [seen if lossy == "false" else w.op("or", bits, seen, lossy)]
    packed = w.cast("bitcast", bits, loop.results[0], f"i{lanes}")
    return end, w.cmp("ne", f"i{lanes}", packed, "0")


def _decode_vectors(w: FunctionWriter, t: P, row: _Row, keys: str) -> str:
    """Writes the whole vectors of a contiguous row; returns how many elements."""
    elem = int_type(t)
    ty, lanes, end = _vectors(w, t, row)
    if lanes == 1:
        return "0"
    flip = w.splat(ty, row.flip(elem))
    target = w.gep(elem, row.out, row.base)
    with w.loop("0", end, lanes) as loop:
        key = w.load(ty, w.gep(elem, keys, loop.index))
        w.store(ty, decode(w, t, key, flip, ty), w.gep(elem, target, loop.index))
    return end


def _emit_through_argsort(w: FunctionWriter, t: P, row: _Row) -> None:
    """Keys with several bit patterns for one value (-0, NaN payloads): sort the order, then
    gather.
    """
    ty, size = int_type(t), t.byte_size
    n = row.n
    index_bytes = w.op("and", "i64", w.iadd(w.imul(n, 4), 127), "-64")
    total = w.iadd(index_bytes, w.imul(n, size))
    block = w.call("pyjax.workspace.take", "ptr", [("i64", total)])
    order = w.gep("i8", block, 64)
    copy = w.gep("i8", order, index_bytes)
    with w.loop("0", n) as loop:
        raw = w.load(ty, w.gep(ty, row.keys, row.at(loop.index)))
        w.store(ty, raw, w.gep(ty, copy, loop.index))
    inner = w.alloca("i64", len(_FIELDS), 8)
    values = [("ptr", copy), ("ptr", order), ("i64", "1"), ("i64", n), ("i64", "1")]
    values.append(("i64", w.op("and", "i64", row.flags, "1")))
    for i, (field_ty, value) in enumerate(values):
        w.store(field_ty, value, w.gep("i64", inner, i), 8)
    w.call(f"argsort.{t}", "void", [("ptr", inner), ("i64", "0")])
    with w.loop("0", n) as loop:
        source = w.cast("sext", "i32", w.load("i32", w.gep("i32", order, loop.index)), "i64")
        w.store(ty, w.load(ty, w.gep(ty, copy, source)), w.gep(ty, row.out, row.at(loop.index)))
    w.call("pyjax.workspace.give", "void", [("ptr", block)])


def emit_rows_entry(module: ModuleWriter, symbol: str, task: str, fields: Sequence[str]) -> None:
    """The function that runs a task on each row of [outer, n, inner]; its operands are `fields`,
    two of them addresses."""
    params = [("ptr" if i < 2 else "i64", name) for i, name in enumerate(fields)]
    w = module.function(symbol, params)
    context = w.alloca("i64", len(fields), 8)
    for i, (ty, name) in enumerate(params):
        w.store(ty, f"%{name}", w.gep("i64", context, i), 8)
    rows = w.op("mul", "i64", "%outer", "%inner") if "inner" in fields else "%outer"
    work = w.op("mul", "i64", rows, "%n")
    large = w.cmp("sge", "i64", work, "4096")

    def in_parallel() -> list[str]:
        args = [("ptr", f"@{task}"), ("ptr", context), ("i64", rows)]
        w.call("pyjax_parallel_for", "void", args)
        return []

    def in_order() -> list[str]:
        with w.loop("0", rows) as loop:
            w.call(task, "void", [("ptr", context), ("i64", loop.index)])
        return []

    nothing = w.cmp("sle", "i64", work, "0")
    out, go = w.new_label("nothing"), w.new_label("go")
    w.cond_br(nothing, out, go)
    w.label(out)
    w.ret()
    w.label(go)
    w.if_else(large, [], in_parallel, in_order)
    w.ret()


def emit_argsort_task(module: ModuleWriter, t: P) -> str:
    """void task(ptr ctx, i64 row): the argsort of one row; returns its name. The context has the
    operands of the routine."""
    emit_parallel_radix(module, int_type(t), True)
    return _emit_row_task(module, t, True)


def emit_group(t: P, module: ModuleWriter, name: str = "sort") -> None:
    """`name`: "argsort", or "sort", which sorts the order of keys with several bit patterns."""
    emit_workspace(module)
    task = emit_argsort_task(module, t)
    if name == "sort":
        emit_parallel_radix(module, int_type(t), False)
        task = _emit_row_task(module, t, False)
    emit_rows_entry(module, f"pyjax_{name}_{t}", task, _FIELDS)


def register() -> None:
    """Declares the sorts of every element type."""
    for t in SORT_TYPES:
        for name in ("sort", "argsort"):
            register_group(f"{name}_{t}", (f"pyjax_{name}_{t}",), partial(emit_group, t, name=name))
