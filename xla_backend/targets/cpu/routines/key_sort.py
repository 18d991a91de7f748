"""Quicksort of keys, which are signed integers of 32 or 64 bits, in place and not stable.

  void pyjax_sort_keys_<ty>(ptr keys, i64 n, i64 lo, i64 hi)
        afterwards places lo .. hi hold what sorting would put there, those before nothing larger,
        those behind nothing smaller

Long parts are partitioned by vectors, short ones go through sorting networks. Keys equal to a pivot
that is the least are done in one more pass; a heap sorts what has been split unevenly too often.
Sorting keys is stable when no two have the same bits.
"""

from __future__ import annotations

from functools import partial

from xla_backend.llvm.bit_counts import leading_zeros
from xla_backend.llvm.types import bits_of, const, mask_of, vector
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.merging_networks import (
    emit_merging_networks,
    merged_capacity,
)
from xla_backend.targets.cpu.routines.parallel_sort import PARALLEL_KEYS, emit_parallel_sort
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.sorting_network import capacity, network_lanes
from xla_backend.targets.cpu.routines.vector_partition import emit_partition, partition_name

KEY_TYPES = ("i32", "i64")
# Longer parts take their pivot from more keys.
_LONG = 1 << 14
_FEW, _MANY = 4, 16  # vectors of keys
# Partitions of so many keys look whether a signal wants the program to stop.
_POLLED = 1 << 18


def sort_keys_name(ty: str) -> str:
    return f"pyjax_sort_keys_{ty}"


def _emit_pivot(module: ModuleWriter, ty: str, small: str) -> str:
    """ty pivot(ptr keys, i64 n): the middle one of some keys from all over; n > capacity."""
    name = f"pivot.{ty}"
    w = module.function(name, [("ptr", "keys"), ("i64", "n")], ty, internal=True)
    lanes = network_lanes(module.target, ty)
    vec = vector(ty, lanes)
    sample = w.alloca(ty, _MANY * lanes, 64)
    vectors = w.select(w.cmp("sgt", "i64", "%n", str(_LONG)), "i64", str(_MANY), str(_FEW))
    stride = w.op("sdiv", "i64", w.isub("%n", lanes), vectors)
    first = w.op("ashr", "i64", stride, "1")
    with w.loop("0", vectors, guard=False) as loop:
        at = w.iadd(first, w.imul(loop.index, stride))
        value = w.load(vec, w.gep(ty, "%keys", at), bits_of(ty) // 8)
        w.store(vec, value, w.gep(ty, sample, w.imul(loop.index, lanes)))
    taken = w.imul(vectors, lanes)
    w.call(small, "void", [("ptr", sample), ("i64", taken)])
    w.ret(ty, w.load(ty, w.gep(ty, sample, w.op("ashr", "i64", taken, "1"))))
    return name


def _emit_all_equal(module: ModuleWriter, ty: str) -> str:
    """i1 equal(ptr keys, i64 n, ty key): whether all keys are this one; n > capacity."""
    lanes = network_lanes(module.target, ty)
    vec, bits = vector(ty, lanes), f"i{lanes}"
    params = [("ptr", "keys"), ("i64", "n"), (ty, "key")]
    w = module.function(f"equal.{ty}", params, "i1", internal=True)
    key = w.splat(vec, "%key")

    def are(at: str) -> str:
        value = w.load(vec, w.gep(ty, "%keys", at), bits_of(ty) // 8)
        packed = w.cast("bitcast", mask_of(vec), w.cmp("eq", vec, value, key), bits)
        return w.cmp("eq", bits, packed, "-1")

    last = w.isub("%n", lanes)
    go_on = lambda state: w.op("and", "i1", state[1], w.cmp("slt", "i64", state[0], last))
    step = lambda state: [w.iadd(state[0], lanes), are(state[0])]
    _, equal = w.while_([("i64", "0"), ("i1", "true")], go_on, step)
    w.ret("i1", w.op("and", "i1", equal, are(last)))
    return w.name


def _any_equal(w: FunctionWriter, ty: str, keys: str, n: str) -> str:
    """Whether one of the first keys is also in its place in the middle; n > capacity."""
    lanes = network_lanes(w.target, ty)
    vec, bits = vector(ty, lanes), f"i{lanes}"
    middle = w.gep(ty, keys, w.op("ashr", "i64", n, "1"))
    first, other = (w.load(vec, place, bits_of(ty) // 8) for place in (keys, middle))
    packed = w.cast("bitcast", mask_of(vec), w.cmp("eq", vec, first, other), bits)
    return w.cmp("ne", bits, packed, "0")


def emit_heap_sort(module: ModuleWriter, ty: str) -> str:
    """void heap(ptr keys, i64 n): in n log n steps, whatever the keys."""
    sift = f"sift.{ty}"
    w = module.function(sift, [("ptr", "keys"), ("i64", "at"), ("i64", "n")], internal=True)
    key = w.load(ty, w.gep(ty, "%keys", "%at"))
    larger: list[str] = []

    def child_is_larger(state: list[str]) -> str:
        left = w.iadd(w.imul(state[0], 2), 1)
        some = w.cmp("slt", "i64", left, "%n")
        left = w.select(some, "i64", left, "0")
        right = w.select(w.cmp("slt", "i64", w.iadd(left, 1), "%n"), "i64", w.iadd(left, 1), left)
        a, b = (w.load(ty, w.gep(ty, "%keys", child)) for child in (left, right))
        second = w.cmp("slt", ty, a, b)
        larger[:] = [w.select(second, "i64", right, left), w.select(second, ty, b, a)]
        return w.op("and", "i1", some, w.cmp("sgt", ty, larger[1], key))

    def move_up(state: list[str]) -> list[str]:
        w.store(ty, larger[1], w.gep(ty, "%keys", state[0]))
        return [larger[0]]

    (hole,) = w.while_([("i64", "%at")], child_is_larger, move_up)
    w.store(ty, key, w.gep(ty, "%keys", hole))
    w.ret()
    name = f"heap.{ty}"
    w = module.function(name, [("ptr", "keys"), ("i64", "n")], internal=True)
    half = w.op("ashr", "i64", "%n", "1")
    with w.loop("0", half) as loop:
        at = w.isub(w.isub(half, 1), loop.index)
        w.call(sift, "void", [("ptr", "%keys"), ("i64", at), ("i64", "%n")])
    with w.loop("1", "%n") as loop:
        end = w.gep(ty, "%keys", w.isub("%n", loop.index))
        largest = w.load(ty, "%keys")
        w.store(ty, w.load(ty, end), "%keys")
        w.store(ty, largest, end)
        left = w.isub("%n", loop.index)
        w.call(sift, "void", [("ptr", "%keys"), ("i64", "0"), ("i64", left)])
    w.ret()
    return name


def _emit_quicksort(module: ModuleWriter, ty: str) -> str:
    """void quick(ptr keys, i64 n, i64 lo, i64 hi, i64 depth): as pyjax_sort_keys; `depth` more
    partitions may follow each other."""
    small, few = emit_merging_networks(module, ty)
    pivot_of = _emit_pivot(module, ty, small)
    all_equal = _emit_all_equal(module, ty)
    heap = emit_heap_sort(module, ty)
    emit_partition(module, ty)
    name = f"quick.{ty}"
    numbers = ("n", "lo", "hi", "depth")
    w = module.function(name, [("ptr", "keys"), *(("i64", n) for n in numbers)], internal=True)
    # Merging puts all keys in order, which takes longer than to find a few.
    every = w.op("and", "i1", w.cmp("sle", "i64", "%lo", "0"), w.cmp("sge", "i64", "%hi", "%n"))
    sizes = [str(f(module.target, ty)) for f in (merged_capacity, capacity)]
    most = w.select(every, "i64", *sizes)
    largest = const(ty, (1 << (bits_of(ty) - 1)) - 1)

    def leave_if(condition: str) -> None:
        leave, on = w.new_label("leave"), w.new_label("on")
        w.cond_br(condition, leave, on, likely=False)
        w.label(leave)
        w.ret()
        w.label(on)

    def is_long(state: list[str]) -> str:
        """Of few values, parts of equal keys come off sooner than all are merged."""
        keys, n, *_ = state
        if_some = lambda: [_any_equal(w, ty, keys, n)]
        (repeats,) = w.if_else(w.cmp("sgt", "i64", n, sizes[1]), ["i1"], if_some, lambda: ["false"])
        return w.op("or", "i1", repeats, w.cmp("sgt", "i64", n, most))

    def split(state: list[str]) -> list[str]:
        keys, n, lo, hi, depth = state
        done, last = w.cmp("sle", "i64", hi, "0"), w.cmp("sge", "i64", lo, n)
        leave_if(w.op("or", "i1", done, last))
        with w.if_(w.cmp("sle", "i64", depth, "0"), likely=False):
            w.call(heap, "void", [("ptr", keys), ("i64", n)])
            w.ret()
            w.label(w.new_label("never"))
        with w.if_(w.cmp("sge", "i64", n, str(_POLLED)), likely=False):
            leave_if(w.cmp("ne", "i32", w.call("pyjax_poll", "i32"), "0"))
        pivot = w.call(pivot_of, ty, [("ptr", keys), ("i64", n)])
        ends = (w.load(ty, w.gep(ty, keys, at)) for at in ("0", w.isub(n, 1)))
        first, end = (w.cmp("eq", ty, pivot, key) for key in ends)
        with w.if_(w.op("and", "i1", first, end), likely=False):
            given = [("ptr", keys), ("i64", n), (ty, pivot)]
            leave_if(w.call(all_equal, "i1", given))
        part = partition_name(ty)
        below = w.call(part, "i64", [("ptr", keys), ("i64", n), (ty, pivot)])
        depth = w.isub(depth, 1)

        def least() -> list[str]:
            leave_if(w.cmp("eq", ty, pivot, largest))
            above = w.op("add", ty, pivot, const(ty, 1))
            return [w.call(part, "i64", [("ptr", keys), ("i64", n), (ty, above)])]

        def recurse() -> list[str]:
            given = [("ptr", keys), *(("i64", v) for v in (below, lo, hi, depth))]
            w.call(name, "void", given)
            return [below]

        (gone,) = w.if_else(w.cmp("eq", "i64", below, "0"), ["i64"], least, recurse)
        n, lo, hi = (w.isub(v, gone) for v in (n, lo, hi))
        return [w.gep(ty, keys, gone), n, lo, hi, depth]

    start = [("ptr", "%keys"), *(("i64", f"%{n}") for n in numbers)]
    keys, n, *_ = w.while_(start, is_long, split)
    w.call(few, "void", [("ptr", keys), ("i64", n)])
    w.ret()
    return name


def _emit_group(ty: str, module: ModuleWriter) -> None:
    quick = _emit_quicksort(module, ty)
    parallel = emit_parallel_sort(module, ty, quick)
    numbers = [("i64", n) for n in ("n", "lo", "hi")]
    w = module.function(sort_keys_name(ty), [("ptr", "keys"), *numbers])
    depth = w.imul(w.isub(66, leading_zeros(w, "%n")), 2)
    many = w.cmp("sge", "i64", w.isub("%hi", "%lo"), str(PARALLEL_KEYS))
    count = lambda: [w.cast("sext", "i32", w.call("pyjax_num_threads", "i32"), "i64")]
    (threads,) = w.if_else(many, ["i64"], count, lambda: ["1"])

    def on_several() -> list[str]:
        given = [("ptr", "%keys"), ("i64", "%n"), ("i64", depth), ("i64", threads)]
        w.call(parallel, "void", given)
        return []

    def on_one() -> list[str]:
        given = [("ptr", "%keys"), *(("i64", f"%{n}") for _, n in numbers), ("i64", depth)]
        w.call(quick, "void", given)
        return []

    w.if_else(w.cmp("sgt", "i64", threads, "1"), [], on_several, on_one)
    w.ret()


def register() -> None:
    """Declares the sorts of keys."""
    for ty in KEY_TYPES:
        register_group(f"sort_keys_{ty}", (sort_keys_name(ty),), partial(_emit_group, ty))
