"""The workers of the pool (see `thread_pool`): how they find blocks, sleep, start and leave, and
what forks do with them."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.native_threads import EVERYBODY, START, Sleep, emit_pause
from xla_backend.targets.cpu.routines.pool_state import (
    FIELD,
    JOBS,
    LEFT,
    SPINS,
    add,
    any_job,
    blocks_left,
    field,
    give_back,
    is_taken,
    job_at,
    load,
    store,
)

# How long a fork waits for the blocks that workers are in, in ns.
_FORK_WAIT = 1_000_000_000


def emit_workers(module: ModuleWriter, sleep: Sleep) -> None:
    """All of this file, for a module with the state of the pool."""
    _try_one(module)
    _some_left(module)
    _help(module, sleep)
    _spin(module)
    _sleep(module, sleep)
    _worker(module)
    _start_workers(module)
    _take_lock(module)
    _thread_numbers(module, sleep)
    _around_forks(module)


def _try_one(module: ModuleWriter) -> None:
    """i1 try_one(ptr job): claim a block and run it; false if there is none."""
    w = module.function("pyjax.try_one", [("ptr", "job")], "i1", internal=True)
    again, claim, run, none = (w.new_label(hint) for hint in ("again", "claim", "run", "none"))
    place = field(w, "%job", "ticket")
    w.br(again)
    w.label(again)
    ticket = load(w, "i64", place, "acquire")
    left = w.op("and", "i64", ticket, str(LEFT))
    w.cond_br(w.cmp("eq", "i64", left, "0"), none, claim)
    w.label(claim)
    fewer = w.op("sub", "i64", ticket, "1")
    exchange = f"cmpxchg ptr {place}, i64 {ticket}, i64 {fewer} acq_rel acquire"
    claimed = w.value(f"extractvalue {{ i64, i1 }} {w.value(exchange)}, 1")
    w.cond_br(claimed, run, again)
    w.label(run)
    # The job is this one's until the block counts as done.
    function, context = (w.load("ptr", field(w, "%job", n)) for n in ("function", "context"))
    block = w.op("sub", "i64", left, "1")
    w.call_pointer(function, "void", [("ptr", context), ("i64", block)])
    add(w, field(w, "%job", "done"), 1)
    w.ret("i1", "true")
    w.label(none)
    w.ret("i1", "false")


def _some_left(module: ModuleWriter) -> None:
    """i1 some_left(): whether a job has blocks that nobody has claimed."""
    w = module.function("pyjax.some_left", [], "i1", internal=True)
    shared = w.cmp("ne", "i32", load(w, "i32", "@pyjax.open", "seq_cst"), "0")

    def look() -> list[str]:
        return [any_job(w, "0", lambda job: blocks_left(w, job))]

    (some,) = w.if_else(shared, ["i1"], look, lambda: ["false"])
    w.ret("i1", some)


def _help(module: ModuleWriter, sleep: Sleep) -> None:
    """i1 help(i32 first): run a block of some job; false if there is none."""
    w = module.function("pyjax.help", [("i32", "first")], "i1", internal=True)

    def one_of(job: str) -> str:
        def run() -> list[str]:
            ran = w.call("pyjax.try_one", "i1", [("ptr", job)])
            awaited = load(w, "i32", field(w, job, "waiting"), "seq_cst")
            with w.if_(w.op("and", "i1", ran, w.cmp("ne", "i32", awaited, "0"))):
                sleep.wake(w, field(w, job, "done"), 1)
            return [ran]

        return w.if_else(blocks_left(w, job), ["i1"], run, lambda: ["false"])[0]

    held = lambda: w.cmp("ne", "i32", load(w, "i32", "@pyjax.held", "seq_cst"), "0")

    def begin() -> list[str]:
        # A fork counts in `held` and then waits until nobody runs: one of both sees the other.
        add(w, "@pyjax.running", 1)
        look = lambda: [any_job(w, "%first", one_of)]
        (ran,) = w.if_else(held(), ["i1"], lambda: ["false"], look)
        add(w, "@pyjax.running", -1)
        return [ran]

    (ran,) = w.if_else(held(), ["i1"], lambda: ["false"], begin)
    w.ret("i1", ran)


def _spin(module: ModuleWriter) -> None:
    """i1 spin(): wait for blocks for a while; whether none came."""
    w = module.function("pyjax.spin", [], "i1", internal=True)

    def idle(state: list[str]) -> str:
        some = w.cmp("ult", "i32", state[0], str(SPINS))
        return w.op("and", "i1", w.not_("i1", w.call("pyjax.some_left", "i1")), some)

    def pause(state: list[str]) -> list[str]:
        emit_pause(w)
        return [w.op("add", "i32", state[0], "1")]

    (spins,) = w.while_([("i32", "0")], idle, pause)
    w.ret("i1", w.cmp("eq", "i32", spins, str(SPINS)))


def _sleep(module: ModuleWriter, sleep: Sleep) -> None:
    """void sleep(): until there may be blocks, or fewer workers."""
    w = module.function("pyjax.sleep", [], internal=True)
    seen = load(w, "i32", "@pyjax.wake", "seq_cst")
    # Callers share a job, and then look for sleepers: one of both is seen by the other.
    add(w, "@pyjax.sleepers", 1)
    with w.if_(w.not_("i1", w.call("pyjax.some_left", "i1"))):
        sleep.wait(w, "@pyjax.wake", seen)
    add(w, "@pyjax.sleepers", -1)
    w.ret()


def _worker(module: ModuleWriter) -> None:
    """ptr worker(ptr number): a thread. It leaves when its number is not wanted any more."""
    w = module.function("pyjax.worker", [("ptr", "number")], "ptr", internal=True)
    number = w.cast("trunc", "i64", w.cast("ptrtoint", "ptr", "%number", "i64"), "i32")

    def works(_: list[str]) -> str:
        def found_none() -> list[str]:
            wanted = load(w, "i32", "@pyjax.wanted", "monotonic")
            stays = w.cmp("slt", "i32", number, wanted)
            with w.if_(stays), w.if_(w.call("pyjax.spin", "i1")):
                w.call("pyjax.sleep", "void")
            return [stays]

        ran = w.call("pyjax.help", "i1", [("i32", number)])
        (stays,) = w.if_else(ran, ["i1"], lambda: ["true"], found_none)
        return stays

    w.while_([], works, lambda _: [])
    w.ret("ptr", "null")


def _start_workers(module: ModuleWriter) -> None:
    """void ensure(): start what is missing, unless somebody else does. Workers are numbered 1, 2,
    ..."""
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
            store(w, "i32", number, "@pyjax.workers", "monotonic")
        return [started]

    with w.if_(w.not_("i1", is_taken(w, "@pyjax.lock"))):
        w.while_([("i1", "true")], too_few, start)
        give_back(w, "@pyjax.lock")
    w.ret()


# -- the number of threads -------------------------------------------------------------------------


def _take_lock(module: ModuleWriter) -> None:
    """void take_lock(): the lock of the number of workers. Whoever waits makes room."""
    w = module.function("pyjax.take_lock", [], internal=True)

    def make_room(_: list[str]) -> list[str]:
        w.call("sched_yield", "i32")
        return []

    w.while_([], lambda _: is_taken(w, "@pyjax.lock"), make_room)
    w.ret()


def wake_all(w: FunctionWriter, sleep: Sleep) -> None:
    add(w, "@pyjax.wake", 1)
    sleep.wake(w, "@pyjax.wake", EVERYBODY)


def _thread_numbers(module: ModuleWriter, sleep: Sleep) -> None:
    """i32 pyjax_num_threads() and void pyjax_set_num_threads(i32 n)."""
    w = module.function("pyjax_num_threads", [], "i32")
    w.ret("i32", load(w, "i32", "@pyjax.wanted", "monotonic"))
    w = module.function("pyjax_set_num_threads", [("i32", "n")])
    w.call("pyjax.take_lock", "void")
    have, most = w.load("i32", "@pyjax.workers"), w.op("sub", "i32", "%n", "1")
    kept = w.select(w.cmp("slt", "i32", most, have), "i32", most, have)
    store(w, "i32", kept, "@pyjax.workers", "monotonic")
    store(w, "i32", "%n", "@pyjax.wanted", "seq_cst")
    wake_all(w, sleep)
    give_back(w, "@pyjax.lock")
    w.ret()


def _around_forks(module: ModuleWriter) -> None:
    """void pyjax_pool_before_fork(): let no worker begin a block, and wait for those that have, for
    a while; a fork in a handler that runs inside of a loop then finds all blocks done or left.
    void pyjax_pool_after_fork_in_parent(): go on.
    void pyjax_pool_after_fork_in_child(): no worker exists, nor a caller but this thread's."""
    w = module.function("pyjax_pool_before_fork", [])
    add(w, "@pyjax.held", 1)
    until = w.iadd(w.call("pyjax.now", "i64"), _FORK_WAIT)

    def some_run(_: list[str]) -> str:
        some = w.cmp("ne", "i32", load(w, "i32", "@pyjax.running", "seq_cst"), "0")
        early = w.cmp("slt", "i64", w.call("pyjax.now", "i64"), until)
        return w.op("and", "i1", some, early)

    def make_room(_: list[str]) -> list[str]:
        w.call("sched_yield", "i32")
        return []

    w.while_([], some_run, make_room)
    w.ret()

    w = module.function("pyjax_pool_after_fork_in_parent", [])
    add(w, "@pyjax.held", -1)
    w.ret()

    w = module.function("pyjax_pool_after_fork_in_child", [])
    for name in ("workers", "sleepers", "running", "held", "lock"):
        w.store("i32", "0", f"@pyjax.{name}")
    this = w.call("pthread_self", "i64")

    def of_others(job: str) -> Callable[[], list[str]]:
        def clear() -> list[str]:
            for name in ("ticket", "owner", "taken", "waiting"):
                w.store(FIELD[name][1], "0", field(w, job, name))
            return ["0"]

        return clear

    with w.loop("0", str(JOBS), carries=[("i32", "0")]) as each:
        job = job_at(w, w.cast("trunc", "i64", each.index, "i32"))
        own = w.cmp("eq", "i64", w.load("i64", field(w, job, "owner")), this)
        (kept,) = w.if_else(own, ["i32"], lambda: ["1"], of_others(job))
        each.next = [w.op("add", "i32", each.carried[0], kept)]
    w.store("i32", each.results[0], "@pyjax.open")
    w.ret()
