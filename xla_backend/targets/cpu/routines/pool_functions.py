"""The functions of the thread pool (see `thread_pool`), each written by one function here."""

from __future__ import annotations

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.clock import emit_clock
from xla_backend.targets.cpu.routines.native_threads import (
    EVERYBODY,
    START,
    Sleep,
    emit_pause,
    emit_thread_start,
    sleep_of,
)

# About 40 us of pauses: longer than the gaps between the parallel parts of one program.
_SPINS = 4000
# A caller's wait, beyond two blocks' time, from which a worker counts as late; in ns.
_LATE = 100_000
_REST_FACTOR = 8
_LONGEST_REST = 100_000_000

# The lower half of the ticket: the blocks that are left.
_LEFT = (1 << 32) - 1
_STATE = """@pyjax.ticket = internal global i64 0, align 64
@pyjax.done = internal global i32 0, align 64
@pyjax.fn = internal global ptr null, align 64
@pyjax.ctx = internal global ptr null
@pyjax.lock = internal global i32 0, align 64
@pyjax.wake = internal global i32 0, align 64
@pyjax.sleepers = internal global i32 0
@pyjax.waiting = internal global i32 0
@pyjax.wanted = internal global i32 1
@pyjax.workers = internal global i32 0
@pyjax.rest_until = internal global i64 0"""
_FOR = (("ptr", "f"), ("ptr", "context"), ("i64", "blocks"))


def pool_text(target: TargetInfo, linux: bool) -> str:
    """The LLVM text of the pool for a target."""
    module = ModuleWriter(target)
    module.add(_STATE)
    sleep = sleep_of(module, target, linux)
    emit_clock(module, linux)
    emit_thread_start(module, linux)
    _resting(module)
    _try_one(module)
    _spin(module)
    _sleep(module, sleep)
    _worker(module, sleep)
    _start_workers(module)
    _take_lock(module)
    _thread_numbers(module, sleep)
    _after_fork(module)
    _wait_long(module, sleep)
    _join(module)
    _parallel_for(module, sleep)
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


# What a limited library calls the functions of the pool that it has under the same names itself.
POOL_NAMES = {
    "pyjax_num_threads": "pyjax_pool_num_threads",
    "pyjax_parallel_for": "pyjax_pool_parallel_for",
}


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


# -- the state of the pool -------------------------------------------------------------------------


def _load(w: FunctionWriter, ty: str, name: str, order: str) -> str:
    return w.value(f"load atomic {ty}, ptr @pyjax.{name} {order}, align {int(ty[1:]) // 8}")


def _store(w: FunctionWriter, ty: str, value: str, name: str, order: str) -> None:
    w.line(f"store atomic {ty} {value}, ptr @pyjax.{name} {order}, align {int(ty[1:]) // 8}")


def _add(w: FunctionWriter, name: str, count: int) -> None:
    w.value(f"atomicrmw add ptr @pyjax.{name}, i32 {count} seq_cst")


def _is_locked(w: FunctionWriter) -> str:
    """Take the lock; whether somebody else has it."""
    before = w.value("atomicrmw xchg ptr @pyjax.lock, i32 1 acquire")
    return w.cmp("ne", "i32", before, "0")


def _unlock(w: FunctionWriter) -> None:
    _store(w, "i32", "0", "lock", "release")


def _nothing_left(w: FunctionWriter, order: str) -> str:
    """Whether all blocks are claimed."""
    left = w.op("and", "i64", _load(w, "i64", "ticket", order), str(_LEFT))
    return w.cmp("eq", "i64", left, "0")


# -- workers ---------------------------------------------------------------------------------------


def _resting(module: ModuleWriter) -> None:
    """i1 resting(): loops keep to their thread for the moment."""
    w = module.function("pyjax.resting", [], "i1", internal=True)
    until = _load(w, "i64", "rest_until", "monotonic")

    def look() -> list[str]:
        over = w.cmp("sge", "i64", w.call("pyjax.now", "i64"), until)
        with w.if_(over):
            _store(w, "i64", "0", "rest_until", "monotonic")
        return [w.not_("i1", over)]

    planned = w.cmp("ne", "i64", until, "0")
    (early,) = w.if_else(planned, ["i1"], look, lambda: ["false"])
    w.ret("i1", early)


def _try_one(module: ModuleWriter) -> None:
    """i1 try_one(): claim a block and run it; false if there is none."""
    w = module.function("pyjax.try_one", [], "i1", internal=True)
    again, claim, run, none = (w.new_label(hint) for hint in ("again", "claim", "run", "none"))
    w.br(again)
    w.label(again)
    ticket = _load(w, "i64", "ticket", "acquire")
    left = w.op("and", "i64", ticket, str(_LEFT))
    w.cond_br(w.cmp("eq", "i64", left, "0"), none, claim)
    w.label(claim)
    fewer = w.op("sub", "i64", ticket, "1")
    exchange = f"cmpxchg ptr @pyjax.ticket, i64 {ticket}, i64 {fewer} acq_rel acquire"
    claimed = w.value(f"extractvalue {{ i64, i1 }} {w.value(exchange)}, 1")
    w.cond_br(claimed, run, again)
    w.label(run)
    function, context = w.load("ptr", "@pyjax.fn"), w.load("ptr", "@pyjax.ctx")
    block = w.op("sub", "i64", left, "1")
    w.call_pointer(function, "void", [("ptr", context), ("i64", block)])
    _add(w, "done", 1)
    w.ret("i1", "true")
    w.label(none)
    w.ret("i1", "false")


def _spin(module: ModuleWriter) -> None:
    """i1 spin(): wait for blocks for a while; whether none came."""
    w = module.function("pyjax.spin", [], "i1", internal=True)

    def idle(state: list[str]) -> str:
        some = w.cmp("ult", "i32", state[0], str(_SPINS))
        return w.op("and", "i1", _nothing_left(w, "acquire"), some)

    def pause(state: list[str]) -> list[str]:
        emit_pause(w)
        return [w.op("add", "i32", state[0], "1")]

    (spins,) = w.while_([("i32", "0")], idle, pause)
    w.ret("i1", w.cmp("eq", "i32", spins, str(_SPINS)))


def _sleep(module: ModuleWriter, sleep: Sleep) -> None:
    """void sleep(): until there may be blocks, or fewer workers."""
    w = module.function("pyjax.sleep", [], internal=True)
    seen = _load(w, "i32", "wake", "seq_cst")
    _add(w, "sleepers", 1)
    with w.if_(_nothing_left(w, "seq_cst")):
        sleep.wait(w, "@pyjax.wake", seen)
    _add(w, "sleepers", -1)
    w.ret()


def _worker(module: ModuleWriter, sleep: Sleep) -> None:
    """ptr worker(ptr number): a thread. It leaves when its number is not wanted any more."""
    w = module.function("pyjax.worker", [("ptr", "number")], "ptr", internal=True)
    number = w.cast("trunc", "i64", w.cast("ptrtoint", "ptr", "%number", "i64"), "i32")

    def works(_: list[str]) -> str:
        def ran() -> list[str]:
            awaited = w.cmp("ne", "i32", _load(w, "i32", "waiting", "seq_cst"), "0")
            with w.if_(awaited):
                sleep.wake(w, "@pyjax.done", 1)
            return ["true"]

        def found_none() -> list[str]:
            wanted = _load(w, "i32", "wanted", "monotonic")
            stays = w.cmp("slt", "i32", number, wanted)
            with w.if_(stays):
                _idle(w)
            return [stays]

        (stays,) = w.if_else(w.call("pyjax.try_one", "i1"), ["i1"], ran, found_none)
        return stays

    w.while_([], works, lambda _: [])
    w.ret("ptr", "null")


def _idle(w: FunctionWriter) -> None:
    """Spin and then sleep; sleep at once while the pool rests."""
    rests = w.call("pyjax.resting", "i1")
    spin = lambda: [w.call("pyjax.spin", "i1")]
    (tired,) = w.if_else(rests, ["i1"], lambda: ["true"], spin)
    with w.if_(tired):
        w.call("pyjax.sleep", "void")


def _start_workers(module: ModuleWriter) -> None:
    """void ensure(): start what is missing; with the lock held. Workers are numbered 1, 2, ..."""
    w = module.function("pyjax.ensure", [], internal=True, attributes="noinline")
    number = ""

    def too_few(state: list[str]) -> str:
        nonlocal number
        number = w.op("add", "i32", w.load("i32", "@pyjax.workers"), "1")
        fewer = w.cmp("slt", "i32", number, w.load("i32", "@pyjax.wanted"))
        return w.op("and", "i1", fewer, state[0])

    def start(_: list[str]) -> list[str]:
        argument = w.cast("inttoptr", "i64", w.cast("sext", "i32", number, "i64"), "ptr")
        started = w.call(START, "i1", [("ptr", "@pyjax.worker"), ("ptr", argument)])
        with w.if_(started):
            w.store("i32", number, "@pyjax.workers")
        return [started]

    w.while_([("i1", "true")], too_few, start)
    w.ret()


# -- the number of threads -------------------------------------------------------------------------


def _take_lock(module: ModuleWriter) -> None:
    """void take_lock(). A parallel loop holds it to its end, so whoever waits makes room."""
    w = module.function("pyjax.take_lock", [], internal=True)

    def make_room(_: list[str]) -> list[str]:
        w.call("sched_yield", "i32")
        return []

    w.while_([], lambda _: _is_locked(w), make_room)
    w.ret()


def _thread_numbers(module: ModuleWriter, sleep: Sleep) -> None:
    """i32 pyjax_num_threads() and void pyjax_set_num_threads(i32 n)."""
    w = module.function("pyjax_num_threads", [], "i32")
    w.ret("i32", _load(w, "i32", "wanted", "monotonic"))
    w = module.function("pyjax_set_num_threads", [("i32", "n")])
    w.call("pyjax.take_lock", "void")
    have, most = w.load("i32", "@pyjax.workers"), w.op("sub", "i32", "%n", "1")
    kept = w.select(w.cmp("slt", "i32", most, have), "i32", most, have)
    w.store("i32", kept, "@pyjax.workers")
    _store(w, "i32", "%n", "wanted", "seq_cst")
    _add(w, "wake", 1)
    sleep.wake(w, "@pyjax.wake", EVERYBODY)
    _unlock(w)
    w.ret()


def _after_fork(module: ModuleWriter) -> None:
    """void pyjax_pool_after_fork(): in a forked child no worker exists, and the lock may have been
    copied while held; nobody was late there."""
    w = module.function("pyjax_pool_after_fork", [])
    for name in ("ticket", "rest_until"):
        w.store("i64", "0", f"@pyjax.{name}")
    for name in ("workers", "sleepers", "waiting"):
        w.store("i32", "0", f"@pyjax.{name}")
    _unlock(w)
    w.ret()


# -- parallel loops --------------------------------------------------------------------------------

_JOIN = (("i32", "n"), ("i64", "start"), ("i64", "mine"))


def _join(module: ModuleWriter) -> None:
    """void join(i32 n, i64 start, i64 mine): wait for the last of n blocks; the caller has run
    `mine` of them since `start`."""
    w = module.function("pyjax.join", _JOIN, internal=True, attributes="noinline")

    def unfinished(state: list[str]) -> str:
        some = w.cmp("ult", "i32", state[0], str(_SPINS))
        missing = w.cmp("ne", "i32", _load(w, "i32", "done", "acquire"), "%n")
        return w.op("and", "i1", missing, some)

    def pause(state: list[str]) -> list[str]:
        emit_pause(w)
        return [w.op("add", "i32", state[0], "1")]

    (spins,) = w.while_([("i32", "0")], unfinished, pause)
    with w.if_(w.cmp("eq", "i32", spins, str(_SPINS))):
        w.call("pyjax.wait_long", "void", [(ty, f"%{name}") for ty, name in _JOIN])
    w.ret()


def _wait_long(module: ModuleWriter, sleep: Sleep) -> None:
    """void wait_long(i32 n, i64 start, i64 mine): join, asleep."""
    w = module.function("pyjax.wait_long", _JOIN, internal=True, attributes="noinline")
    before = w.call("pyjax.now", "i64")
    _store(w, "i32", "1", "waiting", "seq_cst")
    seen = ""

    def unfinished(_: list[str]) -> str:
        nonlocal seen
        seen = _load(w, "i32", "done", "seq_cst")
        return w.cmp("ne", "i32", seen, "%n")

    def wait(_: list[str]) -> list[str]:
        sleep.wait(w, "@pyjax.done", seen)
        return []

    w.while_([], unfinished, wait)
    _store(w, "i32", "0", "waiting", "seq_cst")
    # Without a block of its own the caller does not know how long one takes.
    with w.if_(w.cmp("ne", "i64", "%mine", "0")):
        _judge(w, before)
    w.ret()


def _judge(w: FunctionWriter, before: str) -> None:
    """Let the pool rest if the others were late."""
    after = w.call("pyjax.now", "i64")
    waited = w.isub(after, before)
    block = w.op("sdiv", "i64", w.isub(before, "%start"), "%mine")
    due = w.iadd(w.imul(block, 2), _LATE)
    with w.if_(w.cmp("sgt", "i64", waited, due)):
        length = w.imin(w.imul(waited, _REST_FACTOR), _LONGEST_REST)
        _store(w, "i64", w.iadd(after, length), "rest_until", "monotonic")


def _parallel_for(module: ModuleWriter, sleep: Sleep) -> None:
    """void pyjax_parallel_for(ptr f, ptr context, i64 blocks): f(context, block) for each block."""
    w = module.function("pyjax_parallel_for", _FOR)
    threads = _load(w, "i32", "wanted", "monotonic")
    one, alone = w.cmp("sle", "i64", "%blocks", "1"), w.cmp("sle", "i32", threads, "1")

    def is_busy() -> list[str]:
        rests = w.call("pyjax.resting", "i1")
        return w.if_else(rests, ["i1"], lambda: ["true"], lambda: [_is_locked(w)])

    direct = w.op("or", "i1", one, alone)
    (serial,) = w.if_else(direct, ["i1"], lambda: ["true"], is_busy)

    def by_itself() -> list[str]:
        run_blocks_serially(w)
        return []

    def together() -> list[str]:
        _share(w, threads, sleep)
        return []

    w.if_else(serial, [], by_itself, together)
    w.ret()


def _share(w: FunctionWriter, threads: str, sleep: Sleep) -> None:
    """Run blocks together with the workers; the lock is held, and given back."""
    have = w.op("add", "i32", w.load("i32", "@pyjax.workers"), "1")
    with w.if_(w.cmp("slt", "i32", have, threads)):
        w.call("pyjax.ensure", "void")
    start = w.call("pyjax.now", "i64")
    w.store("ptr", "%f", "@pyjax.fn")
    w.store("ptr", "%context", "@pyjax.ctx")
    w.store("i32", "0", "@pyjax.done")
    generation = w.op("and", "i64", w.load("i64", "@pyjax.ticket"), str(~_LEFT))
    following = w.op("add", "i64", generation, str(_LEFT + 1))
    _store(w, "i64", w.op("or", "i64", following, "%blocks"), "ticket", "seq_cst")
    with w.if_(w.cmp("sgt", "i32", _load(w, "i32", "sleepers", "seq_cst"), "0")):
        _add(w, "wake", 1)
        sleep.wake(w, "@pyjax.wake", EVERYBODY)
    (mine,) = w.while_(
        [("i64", "0")],
        lambda _: w.call("pyjax.try_one", "i1"),
        lambda state: [w.iadd(state[0], 1)],
    )
    count = w.cast("trunc", "i64", "%blocks", "i32")
    w.call("pyjax.join", "void", [("i32", count), ("i64", start), ("i64", mine)])
    _unlock(w)


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
