"""The functions of the thread pool (see `thread_pool`), each written by one function here."""

from __future__ import annotations

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.clock import emit_clock
from xla_backend.targets.cpu.routines.native_threads import (
    Sleep,
    emit_pause,
    emit_thread_start,
    sleep_of,
)
from xla_backend.targets.cpu.routines.pool_names import POOL_NAMES
from xla_backend.targets.cpu.routines.pool_state import (
    JOBS,
    LEFT,
    SPINS,
    STATE,
    add,
    field,
    give_back,
    is_taken,
    job_at,
    load,
    store,
)
from xla_backend.targets.cpu.routines.pool_workers import emit_workers, wake_all

_FOR = (("ptr", "f"), ("ptr", "context"), ("i64", "blocks"))


def pool_text(target: TargetInfo, linux: bool) -> str:
    """The LLVM text of the pool for a target."""
    module = ModuleWriter(target)
    module.add(STATE)
    sleep = sleep_of(module, target, linux)
    emit_clock(module, linux)
    emit_thread_start(module, linux)
    emit_workers(module, sleep)
    _join(module, sleep)
    _take_job(module)
    _share(module, sleep)
    _parallel_for(module)
    _polled(module)
    return module.to_text()


def serial_text(target: TargetInfo) -> str:
    """The same functions for kernels that keep to the calling thread."""
    module = ModuleWriter(target)
    w = module.function("pyjax_num_threads", [], "i32")
    w.ret("i32", "1")
    w = module.function("pyjax_parallel_for", _FOR)
    run_blocks_serially(w)
    w.ret()
    _polled(module)
    return module.to_text()


def limited_text(target: TargetInfo, limit: int) -> str:
    """The same functions for kernels on at most `limit` threads: the pool gets as many blocks, and
    each of them claims the kernel's blocks until there are none."""
    module = ModuleWriter(target)
    w = module.function("pyjax_num_threads", [], "i32")
    threads = w.call(POOL_NAMES["pyjax_num_threads"], "i32")
    w.ret("i32", w.select(w.cmp("slt", "i32", threads, str(limit)), "i32", threads, str(limit)))
    _claiming_block(module)
    w = module.function("pyjax_parallel_for", _FOR)
    pool = POOL_NAMES["pyjax_parallel_for"]
    own = w.alloca("i64", 4, 8)

    def few() -> list[str]:
        w.call(pool, "void", [(ty, f"%{name}") for ty, name in _FOR])
        return []

    def many() -> list[str]:
        values = (("ptr", "%f"), ("ptr", "%context"), ("i64", "%blocks"), ("i64", "0"))
        for i, (ty, value) in enumerate(values):
            w.store(ty, value, w.gep("i64", own, i))
        w.call(pool, "void", [("ptr", "@pyjax.claiming_block"), ("ptr", own), ("i64", str(limit))])
        return []

    w.if_else(w.cmp("sle", "i64", "%blocks", str(limit)), [], few, many)
    w.ret()
    _polled(module)
    return module.to_text()


def _claiming_block(module: ModuleWriter) -> None:
    """void claiming_block(ptr own, i64 block): run blocks of a loop until all are claimed; `own`:
    function, context, number of blocks, the next one."""
    w = module.function("pyjax.claiming_block", [("ptr", "own"), ("i64", "block")], internal=True)
    function, context, blocks = (
        w.load(ty, w.gep("i64", "%own", i)) for i, ty in enumerate(("ptr", "ptr", "i64"))
    )
    following = w.gep("i64", "%own", 3)
    claimed = ""

    def some(_: list[str]) -> str:
        nonlocal claimed
        claimed = w.value(f"atomicrmw add ptr {following}, i64 1 seq_cst")
        return w.cmp("slt", "i64", claimed, blocks)

    def run(_: list[str]) -> list[str]:
        w.call_pointer(function, "void", [("ptr", context), ("i64", claimed)])
        return []

    w.while_([], some, run)
    w.ret()


def serial_for(module: ModuleWriter) -> str:
    """The name of a function of a module that runs blocks one after another; emitted once."""
    name = "pyjax.serial_for"
    if not module.has_function(name):
        w = module.function(name, _FOR, internal=True)
        run_blocks_serially(w)
        w.ret()
    return name


def run_blocks_serially(w: FunctionWriter) -> None:
    """All blocks on this thread, in a function with the parameters of pyjax_parallel_for."""
    with w.loop("0", "%blocks") as block:
        w.call_pointer("%f", "void", [("ptr", "%context"), ("i64", block.index)])


# -- parallel loops --------------------------------------------------------------------------------


def _join(module: ModuleWriter, sleep: Sleep) -> None:
    """void join(ptr job, i32 n): wait for the last of n blocks, for a while awake."""
    w = module.function(
        "pyjax.join", [("ptr", "job"), ("i32", "n")], internal=True, attributes="noinline"
    )
    done, waiting = field(w, "%job", "done"), field(w, "%job", "waiting")

    def unfinished(state: list[str]) -> str:
        some = w.cmp("ult", "i32", state[0], str(SPINS))
        missing = w.cmp("ne", "i32", load(w, "i32", done, "acquire"), "%n")
        return w.op("and", "i1", missing, some)

    def pause(state: list[str]) -> list[str]:
        emit_pause(w)
        return [w.op("add", "i32", state[0], "1")]

    (spins,) = w.while_([("i32", "0")], unfinished, pause)
    with w.if_(w.cmp("eq", "i32", spins, str(SPINS))):
        # A worker counts its block, and then looks who waits: one of both is seen by the other.
        store(w, "i32", "1", waiting, "seq_cst")
        seen = ""

        def still(_: list[str]) -> str:
            nonlocal seen
            seen = load(w, "i32", done, "seq_cst")
            return w.cmp("ne", "i32", seen, "%n")

        def wait(_: list[str]) -> list[str]:
            sleep.wait(w, done, seen)
            return []

        w.while_([], still, wait)
        store(w, "i32", "0", waiting, "seq_cst")
    w.ret()


def _take_job(module: ModuleWriter) -> None:
    """ptr take_job(i32 threads): a job of the caller's own, or null: so many callers as there are
    threads share at a time."""
    w = module.function("pyjax.take_job", [("i32", "threads")], "ptr", internal=True)
    most = w.select(w.cmp("slt", "i32", "%threads", str(JOBS)), "i32", "%threads", str(JOBS))

    def more(state: list[str]) -> str:
        some = w.cmp("slt", "i32", state[0], most)
        return w.op("and", "i1", some, w.cmp("eq", "ptr", state[1], "null"))

    def take(state: list[str]) -> list[str]:
        job = job_at(w, state[0])
        place = field(w, job, "taken")
        seen = w.cmp("ne", "i32", load(w, "i32", place, "monotonic"), "0")
        (taken,) = w.if_else(seen, ["i1"], lambda: ["true"], lambda: [is_taken(w, place)])
        return [w.op("add", "i32", state[0], "1"), w.select(taken, "ptr", "null", job)]

    _, job = w.while_([("i32", "0"), ("ptr", "null")], more, take)
    w.ret("ptr", job)


def _share(module: ModuleWriter, sleep: Sleep) -> None:
    """void share(ptr job, ptr f, ptr context, i64 blocks): run blocks together with the workers,
    and give the job back."""
    w = module.function("pyjax.share", (("ptr", "job"), *_FOR), internal=True)
    have = w.op("add", "i32", load(w, "i32", "@pyjax.workers", "monotonic"), "1")
    with w.if_(w.cmp("slt", "i32", have, load(w, "i32", "@pyjax.wanted", "monotonic"))):
        w.call("pyjax.ensure", "void")
    w.store("ptr", "%f", field(w, "%job", "function"))
    w.store("ptr", "%context", field(w, "%job", "context"))
    w.store("i64", w.call("pthread_self", "i64"), field(w, "%job", "owner"))
    w.store("i32", "0", field(w, "%job", "done"))
    ticket = field(w, "%job", "ticket")
    # A new generation: who has read the ticket of an earlier one claims nothing with it.
    generation = w.op("and", "i64", w.load("i64", ticket), str(~LEFT))
    following = w.op("add", "i64", generation, str(LEFT + 1))
    store(w, "i64", w.op("or", "i64", following, "%blocks"), ticket, "seq_cst")
    add(w, "@pyjax.open", 1)
    with w.if_(w.cmp("sgt", "i32", load(w, "i32", "@pyjax.sleepers", "seq_cst"), "0")):
        wake_all(w, sleep)
    w.while_([], lambda _: w.call("pyjax.try_one", "i1", [("ptr", "%job")]), lambda _: [])
    add(w, "@pyjax.open", -1)
    count = w.cast("trunc", "i64", "%blocks", "i32")
    w.call("pyjax.join", "void", [("ptr", "%job"), ("i32", count)])
    w.store("i64", "0", field(w, "%job", "owner"))
    give_back(w, field(w, "%job", "taken"))
    w.ret()


def _parallel_for(module: ModuleWriter) -> None:
    """void pyjax_parallel_for(ptr f, ptr context, i64 blocks): f(context, block) for each block."""
    w = module.function("pyjax_parallel_for", _FOR)
    threads = load(w, "i32", "@pyjax.wanted", "monotonic")
    one, alone = w.cmp("sle", "i64", "%blocks", "1"), w.cmp("sle", "i32", threads, "1")
    take = lambda: [w.call("pyjax.take_job", "ptr", [("i32", threads)])]
    (job,) = w.if_else(w.op("or", "i1", one, alone), ["ptr"], lambda: ["null"], take)

    def by_itself() -> list[str]:
        run_blocks_serially(w)
        return []

    def together() -> list[str]:
        w.call("pyjax.share", "void", [("ptr", job), *((ty, f"%{name}") for ty, name in _FOR)])
        return []

    w.if_else(w.cmp("eq", "ptr", job, "null"), [], by_itself, together)
    w.ret()


# -- loops that look at signals --------------------------------------------------------------------


def _polled(module: ModuleWriter) -> None:
    """void pyjax_parallel_for_polled(...): the same, with a look at signals between blocks."""
    _polled_block(module)
    w = module.function("pyjax_parallel_for_polled", _FOR)
    arguments = [(ty, f"%{name}") for ty, name in _FOR]
    own = w.alloca("ptr", 3, 8)

    def unpolled() -> list[str]:
        w.call("pyjax_parallel_for", "void", arguments)
        return []

    def polled() -> list[str]:
        with w.if_(w.cmp("eq", "i32", w.call("pyjax_poll", "i32"), "0")):
            w.store("ptr", "%f", own)
            w.store("ptr", "%context", w.gep("ptr", own, 1))
            w.store("i64", "0", w.gep("ptr", own, 2))
            block = ("ptr", "@pyjax.polled_block")
            w.call("pyjax_parallel_for", "void", [block, ("ptr", own), arguments[2]])
        return []

    w.if_else(w.cmp("sle", "i64", "%blocks", "1"), [], unpolled, polled)
    w.ret()


def _polled_block(module: ModuleWriter) -> None:
    """void polled_block(ptr c, i64 block); c: function, its context, whether to stop."""
    parameters = [("ptr", "c"), ("i64", "block")]
    w = module.function("pyjax.polled_block", parameters, internal=True)
    stop = w.gep("ptr", "%c", 2)
    stopped = w.value(f"load atomic i32, ptr {stop} monotonic, align 8")
    with w.if_(w.cmp("eq", "i32", stopped, "0")):
        function, context = w.load("ptr", "%c"), w.load("ptr", w.gep("ptr", "%c", 1))
        w.call_pointer(function, "void", [("ptr", context), ("i64", "%block")])
        with w.if_(w.cmp("ne", "i32", w.call("pyjax_poll", "i32"), "0")):
            w.line(f"store atomic i32 1, ptr {stop} monotonic, align 8")
    w.ret()
