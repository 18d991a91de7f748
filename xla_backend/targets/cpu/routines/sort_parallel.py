"""Radix passes over one long row on several threads.

The row is cut into parts. Every pass counts the digits of each part, lays out the places by digit
and then by part, and lets each part move its keys: the result is that of the serial pass, whatever
the number of parts.
"""

from __future__ import annotations

from xla_backend.llvm.types import const
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter

# Rows from this length on; shorter ones are done before a second thread has woken.
PARALLEL_KEYS = 1 << 15
_RADIX = 256
_MOST_PARTS = 16
_FIELDS = ("source", "source_index", "target", "target_index", "tables", "n", "length", "shift")
_POINTERS = 5


def name_of(ty: str, indexed: bool) -> str:
    return f"radix.{ty}{'.indexed' if indexed else ''}"


def _field(w: FunctionWriter, ctx: str, name: str) -> str:
    i = _FIELDS.index(name)
    return w.load_invariant("ptr" if i < _POINTERS else "i64", w.gep("i64", ctx, i), 8)


def _digit(w: FunctionWriter, ty: str, key: str, shift: str) -> str:
    byte = w.op("and", ty, w.op("lshr", ty, key, shift), const(ty, 255))
    return byte if ty == "i64" else w.cast("zext", ty, byte, "i64")


def _part(w: FunctionWriter, ty: str) -> tuple[str, str, str, str]:
    """(first key, end, the part's table, shift) of the part %block."""
    length = _field(w, "%ctx", "length")
    lo = w.imul("%block", length)
    hi = w.imin(w.iadd(lo, length), _field(w, "%ctx", "n"))
    table = w.gep("i32", _field(w, "%ctx", "tables"), w.imul("%block", _RADIX))
    shift = _field(w, "%ctx", "shift")
    return lo, hi, table, shift if ty == "i64" else w.cast("trunc", "i64", shift, ty)


def _emit_count(module: ModuleWriter, ty: str, name: str) -> None:
    params = [("ptr", "ctx"), ("i64", "block")]
    w = module.function(f"{name}.count", params, internal=True)
    lo, hi, table, shift = _part(w, ty)
    source = _field(w, "%ctx", "source")
    # Two tables in turn: equal digits in a row do not wait for each other's count.
    other = w.alloca("i32", _RADIX, 64)
    with w.loop("0", str(_RADIX), guard=False) as loop:
        w.store("i32", "0", w.gep("i32", table, loop.index))
        w.store("i32", "0", w.gep("i32", other, loop.index))
    pairs = w.iadd(lo, w.op("and", "i64", w.imax(w.isub(hi, lo), 0), "-2"))

    def count(at: str, to: str) -> None:
        key = w.load(ty, w.gep(ty, source, at))
        cell = w.gep("i32", to, _digit(w, ty, key, shift))
        w.store("i32", w.op("add", "i32", w.load("i32", cell), "1"), cell)

    with w.loop(lo, pairs, 2) as loop:
        count(loop.index, table)
        count(w.iadd(loop.index, 1), other)
    with w.loop(pairs, hi) as loop:
        count(loop.index, table)
    with w.loop("0", str(_RADIX), guard=False) as loop:
        cell = w.gep("i32", table, loop.index)
        more = w.load("i32", w.gep("i32", other, loop.index))
        w.store("i32", w.op("add", "i32", w.load("i32", cell), more), cell)
    w.ret()


def _emit_move(module: ModuleWriter, ty: str, name: str, indexed: bool) -> None:
    w = module.function(f"{name}.move", [("ptr", "ctx"), ("i64", "block")], internal=True)
    lo, hi, table, shift = _part(w, ty)
    source, target = _field(w, "%ctx", "source"), _field(w, "%ctx", "target")
    from_index, to_index = _field(w, "%ctx", "source_index"), _field(w, "%ctx", "target_index")
    with w.loop(lo, hi) as loop:
        key = w.load(ty, w.gep(ty, source, loop.index))
        cell = w.gep("i32", table, _digit(w, ty, key, shift))
        place = w.load("i32", cell)
        w.store("i32", w.op("add", "i32", place, "1"), cell)
        place = w.cast("zext", "i32", place, "i64")
        w.store(ty, key, w.gep(ty, target, place))
        if indexed:
            payload = w.load("i32", w.gep("i32", from_index, loop.index))
            w.store("i32", payload, w.gep("i32", to_index, place))
    w.ret()


def emit_parallel_radix(module: ModuleWriter, ty: str, indexed: bool) -> None:
    """void radix(keys, spare, n): cells [keys, index] and their doubles; the result is at `keys`.

    n < 2^31, n > 0.
    """
    name = name_of(ty, indexed)
    if module.has_function(name):
        return
    _emit_count(module, ty, name)
    _emit_move(module, ty, name, indexed)
    w = module.function(name, [("ptr", "keys"), ("ptr", "spare"), ("i64", "n")], internal=True)
    tables = w.alloca("i32", _MOST_PARTS * _RADIX, 64)
    ctx = w.alloca("i64", len(_FIELDS), 8)
    threads = w.cast("sext", "i32", w.call("pyjax_num_threads", "i32"), "i64")
    parts = w.imin(w.imul(threads, 2), _MOST_PARTS)
    parts = w.select(w.cmp("eq", "i64", threads, "1"), "i64", "1", parts)
    length = w.op("udiv", "i64", w.iadd("%n", w.isub(parts, 1)), parts)

    def put(field: str, value: str) -> None:
        i = _FIELDS.index(field)
        w.store("ptr" if i < _POINTERS else "i64", value, w.gep("i64", ctx, i), 8)

    put("tables", tables)
    put("n", "%n")
    put("length", length)
    n32 = w.cast("trunc", "i64", "%n", "i32")
    with w.loop("0", str(int(ty[1:]) // 8), guard=False) as digit:
        # Between digits the keys are a permutation, sorted or not.
        stop, go = w.new_label("stop"), w.new_label("go")
        w.cond_br(w.cmp("ne", "i32", w.call("pyjax_poll", "i32"), "0"), stop, go, likely=False)
        w.label(stop)
        w.ret()
        w.label(go)
        put("shift", w.imul(digit.index, 8))
        for i, field in enumerate(("source", "source_index")[: 2 if indexed else 1]):
            put(field, w.load("ptr", w.gep("ptr", "%keys", i)))
        for i, field in enumerate(("target", "target_index")[: 2 if indexed else 1]):
            put(field, w.load("ptr", w.gep("ptr", "%spare", i)))
        run = [("ptr", ctx), ("i64", parts)]
        w.call("pyjax_parallel_for", "void", [("ptr", f"@{name}.count"), *run])
        # Places by digit, then by part; a digit that all keys share needs no pass.
        carries = [("i32", "0"), ("i1", "false")]
        with w.loop("0", str(_RADIX), 1, carries, guard=False) as value:
            with w.loop("0", parts, 1, [("i32", value.carried[0])], guard=False) as part:
                at = w.iadd(w.imul(part.index, _RADIX), value.index)
                cell = w.gep("i32", tables, at)
                count = w.load("i32", cell)
                w.store("i32", part.carried[0], cell)
                part.next = [w.op("add", "i32", part.carried[0], count)]
            total = part.results[0]
            here = w.op("sub", "i32", total, value.carried[0])
            all_equal = w.cmp("eq", "i32", here, n32)
            value.next = [total, w.op("or", "i1", value.carried[1], all_equal)]
        with w.if_(w.op("xor", "i1", value.results[1], "true")):
            w.call("pyjax_parallel_for", "void", [("ptr", f"@{name}.move"), *run])
            for which in range(2 if indexed else 1):
                a = w.load("ptr", w.gep("ptr", "%keys", which))
                b = w.load("ptr", w.gep("ptr", "%spare", which))
                w.store("ptr", b, w.gep("ptr", "%keys", which))
                w.store("ptr", a, w.gep("ptr", "%spare", which))
    w.ret()
