"""Sorts of many keys on several threads, through buckets.

Keys are cut into parts. Each part is partitioned by the same bounds, a tree of them, its pieces are
copied to where those of their bucket are together, and each bucket is sorted there. What comes out
is what sorting gives, whatever the number of threads.
"""

from __future__ import annotations

from xla_backend.llvm.types import bits_of
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.task_context import TaskContext, run_tasks
from xla_backend.targets.cpu.routines.vector_partition import partition_name
from xla_backend.targets.cpu.routines.workspace import give, take

# From so many keys on; fewer are done before a second thread has woken.
PARALLEL_KEYS = 1 << 15
_BUCKETS = 32
_MOST_PARTS = 32
# Keys among which bounds are found.
_SAMPLE = 1024
_CONTEXT = TaskContext(
    ("keys", "spare", "starts", "bounds", "offsets", "n", "length", "depth"), pointers=5
)


def _task(module: ModuleWriter, name: str) -> FunctionWriter:
    return module.function(name, [("ptr", "ctx"), ("i64", "block")], internal=True)


def _part(w: FunctionWriter) -> tuple[str, str, str]:
    """(first key, number of keys, where its pieces start) of the part %block."""
    length = _CONTEXT.field(w, "length")
    first = w.imul("%block", length)
    count = w.imax(w.imin(w.isub(_CONTEXT.field(w, "n"), first), length), 0)
    row = w.gep("i64", _CONTEXT.field(w, "starts"), w.imul("%block", _BUCKETS + 1))
    return first, count, row


def _emit_split(module: ModuleWriter, ty: str) -> str:
    """Partitions a part into pieces."""
    w = _task(module, f"split.{ty}")
    first, count, starts = _part(w)
    keys, bounds = w.gep(ty, _CONTEXT.field(w, "keys"), first), _CONTEXT.field(w, "bounds")
    w.store("i64", "0", starts)
    w.store("i64", count, w.gep("i64", starts, _BUCKETS))
    half = _BUCKETS // 2
    while half:
        with w.loop("0", str(_BUCKETS), 2 * half, guard=False) as loop:
            middle = w.iadd(loop.index, half)
            start = w.load("i64", w.gep("i64", starts, loop.index))
            end = w.load("i64", w.gep("i64", starts, w.iadd(middle, half)))
            bound = w.load(ty, w.gep(ty, bounds, middle))
            given = [("ptr", w.gep(ty, keys, start)), ("i64", w.isub(end, start)), (ty, bound)]
            below = w.call(partition_name(ty), "i64", given)
            w.store("i64", w.iadd(start, below), w.gep("i64", starts, middle))
        half //= 2
    w.ret()
    return w.name


def _emit_collect(module: ModuleWriter, ty: str) -> str:
    """Copies the pieces of a part to their buckets."""
    w = _task(module, f"collect.{ty}")
    first, _, starts = _part(w)
    keys, spare = w.gep(ty, _CONTEXT.field(w, "keys"), first), _CONTEXT.field(w, "spare")
    row = w.gep("i64", _CONTEXT.field(w, "offsets"), w.imul("%block", _BUCKETS))
    with w.loop("0", str(_BUCKETS), guard=False) as loop:
        start = w.load("i64", w.gep("i64", starts, loop.index))
        end = w.load("i64", w.gep("i64", starts, w.iadd(loop.index, 1)))
        offset = w.load("i64", w.gep("i64", row, loop.index))
        _copy(w, ty, w.gep(ty, keys, start), w.gep(ty, spare, offset), w.isub(end, start))
    w.ret()
    return w.name


def _emit_finish(module: ModuleWriter, ty: str, quick: str) -> str:
    """Sorts a bucket and copies it back."""
    w = _task(module, f"finish.{ty}")
    offsets = _CONTEXT.field(w, "offsets")
    start = w.load("i64", w.gep("i64", offsets, "%block"))
    last = w.cmp("eq", "i64", "%block", str(_BUCKETS - 1))
    following = w.select(last, "i64", "%block", w.iadd("%block", 1))
    end = w.load("i64", w.gep("i64", offsets, following))
    count = w.isub(w.select(last, "i64", _CONTEXT.field(w, "n"), end), start)
    bucket = w.gep(ty, _CONTEXT.field(w, "spare"), start)
    numbers = [("i64", v) for v in (count, "0", count, _CONTEXT.field(w, "depth"))]
    w.call(quick, "void", [("ptr", bucket), *numbers])
    _copy(w, ty, bucket, w.gep(ty, _CONTEXT.field(w, "keys"), start), count)
    w.ret()
    return w.name


def _copy(w: FunctionWriter, ty: str, source: str, target: str, count: str) -> None:
    w.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
    size = w.imul(count, bits_of(ty) // 8)
    w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")


def emit_parallel_sort(module: ModuleWriter, ty: str, quick: str) -> str:
    """void parallel(ptr keys, i64 n, i64 depth, i64 threads), n >= PARALLEL_KEYS; its name. `quick`
    sorts few keys, and many on one thread."""
    split, collect = _emit_split(module, ty), _emit_collect(module, ty)
    finish = _emit_finish(module, ty, quick)
    name = f"parallel.{ty}"
    params = [("ptr", "keys"), ("i64", "n"), ("i64", "depth"), ("i64", "threads")]
    w = module.function(name, params, internal=True)
    spare = take(w, "%n", ty)
    bounds = _emit_bounds(w, ty, quick)
    starts = w.alloca("i64", _MOST_PARTS * (_BUCKETS + 1), 64)
    offsets = w.alloca("i64", _MOST_PARTS * _BUCKETS, 64)
    parts = w.imin(w.imul("%threads", 2), _MOST_PARTS)
    length = w.op("udiv", "i64", w.iadd("%n", w.isub(parts, 1)), parts)
    values = ("%keys", spare, starts, bounds, offsets, "%n", length, "%depth")
    ctx = _CONTEXT.make(w, values)

    def run(task: str, count: str) -> None:
        run_tasks(w, task, ctx, count, polled=False)

    run(split, parts)
    # Places by bucket, then by part.
    with w.loop("0", str(_BUCKETS), 1, [("i64", "0")], guard=False) as bucket:
        with w.loop("0", parts, 1, [("i64", bucket.carried[0])], guard=False) as part:
            row = w.gep("i64", starts, w.imul(part.index, _BUCKETS + 1))
            start = w.load("i64", w.gep("i64", row, bucket.index))
            end = w.load("i64", w.gep("i64", row, w.iadd(bucket.index, 1)))
            place = w.iadd(w.imul(part.index, _BUCKETS), bucket.index)
            w.store("i64", part.carried[0], w.gep("i64", offsets, place))
            part.next = [w.iadd(part.carried[0], w.isub(end, start))]
        bucket.next = list(part.results)
    run(collect, parts)
    run(finish, str(_BUCKETS))
    give(w, spare)
    w.ret()
    return name


def _emit_bounds(w: FunctionWriter, ty: str, quick: str) -> str:
    """Bound k of the buckets, at k: what some keys from all over have there."""
    sample, bounds = w.alloca(ty, _SAMPLE, 64), w.alloca(ty, _BUCKETS, 64)
    stride = w.op("udiv", "i64", "%n", str(_SAMPLE))
    with w.loop("0", str(_SAMPLE), guard=False) as loop:
        key = w.load(ty, w.gep(ty, "%keys", w.imul(loop.index, stride)))
        w.store(ty, key, w.gep(ty, sample, loop.index))
    numbers = [("i64", v) for v in (str(_SAMPLE), "0", str(_SAMPLE), "%depth")]
    w.call(quick, "void", [("ptr", sample), *numbers])
    with w.loop("0", str(_BUCKETS), guard=False) as loop:
        key = w.load(ty, w.gep(ty, sample, w.imul(loop.index, _SAMPLE // _BUCKETS)))
        w.store(ty, key, w.gep(ty, bounds, loop.index))
    return bounds
