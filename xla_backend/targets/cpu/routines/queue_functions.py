"""The functions of queues (see `queues`), each written by one function here."""

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
from xla_backend.targets.cpu.routines.queue_layout import (
    CLOSED,
    FAILED_BEFORE,
    POSTED,
    QUEUE_CURRENT,
    QUEUE_STOP_BEFORE,
    QUEUE_THREAD,
    RING,
    SLOT_BYTES,
    SLOTS,
    STOPPED,
)

_SUBMITTED, _NUMBER, _DONE, _STATUS, _NANOSECONDS = 0, 4, 8, 12, 16

# A queue: counts of programs that came and went (also what sleepers wait for), how many wait for
# the latter, whether the thread sleeps, whether there is one, a lock of submitters, the places that
# others look at, whether it is closed, and the turn: free, taken, or taken and waited for. Then the
# ring: ticket, entry, its three arguments, and tickets that it comes after, addresses and a null.
_, _COMPLETED, _WAITERS, _SLEEPING, _STARTED, _LOCK = range(POSTED, 24, 4)
_TURN = 44
_FREE, _TAKEN, _WANTED = "0", "1", "2"
assert {QUEUE_THREAD, QUEUE_CURRENT, QUEUE_STOP_BEFORE, CLOSED} == {24, 32, 36, 40}
_TICKET, _ENTRY, _ARGUMENTS, _OUTPUTS, _THIRD, _AFTER = range(0, SLOT_BYTES, 8)
# About 10 us of pauses, of a thread that has run out of programs.
_SPINS = 1000


def queue_text(target: TargetInfo, linux: bool) -> str:
    """The LLVM text of queues for a target."""
    module = ModuleWriter(target)
    module.add("@pyjax_helping = external global i32")
    sleep = sleep_of(module, target, linux)
    emit_clock(module, linux)
    emit_thread_start(module, linux)
    _has_failed_before(module)
    _turn(module, sleep)
    _run(module, sleep)
    _idle(module, sleep)
    _worker(module)
    _submit(module, sleep)
    _wait(module, sleep)
    _help(module)
    return module.to_text()


def _load(w: FunctionWriter, base: str, place: int, order: str = "seq_cst") -> str:
    return w.value(f"load atomic i32, ptr {w.gep('i8', base, place)} {order}, align 4")


def _store(w: FunctionWriter, base: str, place: int, value: str, order: str = "seq_cst") -> None:
    w.line(f"store atomic i32 {value}, ptr {w.gep('i8', base, place)} {order}, align 4")


def _add(w: FunctionWriter, base: str, place: int, count: int) -> None:
    w.value(f"atomicrmw add ptr {w.gep('i8', base, place)}, i32 {count} seq_cst")


def _slot(w: FunctionWriter, number: str) -> str:
    index = w.cast("zext", "i32", w.op("and", "i32", number, str(SLOTS - 1)), "i64")
    return w.gep("i8", "%queue", w.iadd(w.imul(index, SLOT_BYTES), RING))


def _has_failed_before(module: ModuleWriter) -> None:
    """i1 has_failed_before(ptr after): whether one of these tickets has failed."""
    w = module.function("pyjax.has_failed_before", [("ptr", "after")], "i1", internal=True)
    ticket = ""

    def fine(state: list[str]) -> str:
        nonlocal ticket
        ticket = w.load("ptr", w.gep("ptr", "%after", state[0]))
        some = w.cmp("ne", "ptr", ticket, "null")
        return w.op("and", "i1", some, w.not_("i1", state[1]))

    def look(state: list[str]) -> list[str]:
        failed = w.cmp("ne", "i32", _load(w, ticket, _STATUS), "0")
        return [w.iadd(state[0], 1), failed]

    _, failed = w.while_([("i64", "0"), ("i1", "false")], fine, look)
    w.ret("i1", failed)


def _turn(module: ModuleWriter, sleep: Sleep) -> None:
    """void take_turn(ptr queue), which waits, and void give_turn(ptr queue)."""
    w = module.function("pyjax.take_turn", [("ptr", "queue")], internal=True)
    with w.if_(w.not_("i1", _is_turn_free(w))):
        turn = w.gep("i8", "%queue", _TURN)

        def taken(_: list[str]) -> str:
            before = w.value(f"atomicrmw xchg ptr {turn}, i32 {_WANTED} seq_cst")
            return w.cmp("ne", "i32", before, _FREE)

        def wait(_: list[str]) -> list[str]:
            sleep.wait(w, turn, _WANTED)
            return []

        w.while_([], taken, wait)
    w.ret()
    w = module.function("pyjax.give_turn", [("ptr", "queue")], internal=True)
    turn = w.gep("i8", "%queue", _TURN)
    before = w.value(f"atomicrmw xchg ptr {turn}, i32 {_FREE} seq_cst")
    with w.if_(w.cmp("eq", "i32", before, _WANTED)):
        sleep.wake(w, turn, 1)
    w.ret()


def _is_turn_free(w: FunctionWriter) -> str:
    """Take the turn if it is free; whether it was."""
    turn = w.gep("i8", "%queue", _TURN)
    exchange = w.value(f"cmpxchg ptr {turn}, i32 {_FREE}, i32 {_TAKEN} seq_cst seq_cst")
    return w.value(f"extractvalue {{ i32, i1 }} {exchange}, 1")


def _run(module: ModuleWriter, sleep: Sleep) -> None:
    """void run_next(ptr queue): the program whose turn it is; the thread has the turn."""
    w = module.function("pyjax.run_next", [("ptr", "queue")], internal=True)
    number = _load(w, "%queue", _COMPLETED)
    w.store("i64", w.call("pthread_self", "i64"), w.gep("i8", "%queue", QUEUE_THREAD))
    _store(w, "%queue", QUEUE_CURRENT, number)
    slot = _slot(w, number)
    ticket, entry, arguments, outputs, third, after = (
        w.load("ptr", w.gep("i8", slot, place))
        for place in (_TICKET, _ENTRY, _ARGUMENTS, _OUTPUTS, _THIRD, _AFTER)
    )
    start = w.call("pyjax.now", "i64")

    def run() -> list[str]:
        return [w.call_pointer(entry, "i32", [("ptr", p) for p in (arguments, outputs, third)])]

    def stopped() -> str:
        return w.cmp("ne", "i32", w.call("pyjax_is_stopped", "i32"), "0")

    def unless_stopped() -> list[str]:
        (ended,) = w.if_else(stopped(), ["i32"], lambda: [str(STOPPED)], run)
        failed = w.cmp("ne", "i32", ended, "0")
        return [w.select(w.op("and", "i1", failed, stopped()), "i32", str(STOPPED), ended)]

    failed_before = w.call("pyjax.has_failed_before", "i1", [("ptr", after)])
    (status,) = w.if_else(failed_before, ["i32"], lambda: [str(FAILED_BEFORE)], unless_stopped)
    took = w.isub(w.call("pyjax.now", "i64"), start)
    w.store("i64", took, w.gep("i8", ticket, _NANOSECONDS))
    _store(w, ticket, _STATUS, status)
    _store(w, ticket, _DONE, "1")
    _store(w, "%queue", _COMPLETED, w.op("add", "i32", number, "1"))
    with w.if_(w.cmp("ne", "i32", _load(w, "%queue", _WAITERS), "0")):
        sleep.wake(w, w.gep("i8", "%queue", _COMPLETED), EVERYBODY)
    w.ret()


def _idle(module: ModuleWriter, sleep: Sleep) -> None:
    """void idle(ptr queue): spin, and then sleep, until there may be a program."""
    w = module.function("pyjax.idle", [("ptr", "queue")], internal=True)
    completed = _load(w, "%queue", _COMPLETED)

    def waits(state: list[str]) -> str:
        none = w.cmp("eq", "i32", _load(w, "%queue", POSTED), completed)
        return w.op("and", "i1", none, w.cmp("ult", "i32", state[0], str(_SPINS)))

    def turn(state: list[str]) -> list[str]:
        emit_pause(w)
        return [w.op("add", "i32", state[0], "1")]

    (spins,) = w.while_([("i32", "0")], waits, turn)
    with w.if_(w.cmp("eq", "i32", spins, str(_SPINS))):
        _store(w, "%queue", _SLEEPING, "1")
        with w.if_(w.cmp("eq", "i32", _load(w, "%queue", POSTED), completed)):
            sleep.wait(w, w.gep("i8", "%queue", POSTED), completed)
        _store(w, "%queue", _SLEEPING, "0")
    w.ret()


def _worker(module: ModuleWriter) -> None:
    """ptr worker(ptr queue): its thread, for ever."""
    w = module.function("pyjax.worker", [("ptr", "queue")], "ptr", internal=True)
    again = w.new_label("again")
    w.br(again)
    w.label(again)

    def call(name: str) -> list[str]:
        w.call(name, "void", [("ptr", "%queue")])
        return []

    def run() -> list[str]:
        call("pyjax.take_turn")
        with w.if_(w.not_("i1", _is_empty(w))):
            call("pyjax.run_next")
        return call("pyjax.give_turn")

    w.if_else(_is_empty(w), [], lambda: call("pyjax.idle"), run)
    w.br(again)


def _is_empty(w: FunctionWriter) -> str:
    posted = _load(w, "%queue", POSTED)
    return w.cmp("eq", "i32", posted, _load(w, "%queue", _COMPLETED))


def _submit(module: ModuleWriter, sleep: Sleep) -> None:
    """void pyjax_queue_submit(ptr queue, ptr ticket, ptr code, ptr arguments, ptr outputs,
    ptr third, ptr after): give it a program, if there is room; the ticket says whether it took
    it."""
    names = ("queue", "ticket", "code", "arguments", "outputs", "third", "after")
    w = module.function("pyjax_queue_submit", [("ptr", name) for name in names])

    def locked(_: list[str]) -> str:
        lock = w.gep("i8", "%queue", _LOCK)
        return w.cmp("ne", "i32", w.value(f"atomicrmw xchg ptr {lock}, i32 1 acquire"), "0")

    def turn(_: list[str]) -> list[str]:
        emit_pause(w)
        return []

    w.while_([], locked, turn)
    with w.if_(w.cmp("eq", "i32", _load(w, "%queue", _STARTED), "0")):
        started = w.call(START, "i1", [("ptr", "@pyjax.worker"), ("ptr", "%queue")])
        _store(w, "%queue", _STARTED, w.cast("zext", "i1", started, "i32"))
    posted = _load(w, "%queue", POSTED)
    waiting = w.op("sub", "i32", posted, _load(w, "%queue", _COMPLETED))
    room = w.cmp("ult", "i32", waiting, str(SLOTS))
    works = w.cmp("ne", "i32", _load(w, "%queue", _STARTED), "0")
    opened = w.cmp("eq", "i32", _load(w, "%queue", CLOSED), "0")
    with w.if_(w.op("and", "i1", w.op("and", "i1", room, works), opened)):
        slot = _slot(w, posted)
        places = (_TICKET, _ENTRY, _ARGUMENTS, _OUTPUTS, _THIRD, _AFTER)
        for place, name in zip(places, names[1:]):
            w.store("ptr", f"%{name}", w.gep("i8", slot, place))
        _store(w, "%ticket", _NUMBER, posted)
        _store(w, "%ticket", _SUBMITTED, "1")
        _store(w, "%queue", POSTED, w.op("add", "i32", posted, "1"))
        with w.if_(w.cmp("ne", "i32", _load(w, "%queue", _SLEEPING), "0")):
            sleep.wake(w, w.gep("i8", "%queue", POSTED), 1)
    _store(w, "%queue", _LOCK, "0", "release")
    w.ret()


def _wait(module: ModuleWriter, sleep: Sleep) -> None:
    """void pyjax_queue_wait(ptr queue, ptr ticket, i64 nanoseconds): until the ticket is done, or
    that time is over, or something else happens, a signal maybe; look whether it is."""
    parameters = [("ptr", "queue"), ("ptr", "ticket"), ("i64", "nanoseconds")]
    w = module.function("pyjax_queue_wait", parameters)
    time = w.alloca("i64", 2, 8)
    w.store("i64", w.op("sdiv", "i64", "%nanoseconds", "1000000000"), time)
    w.store("i64", w.op("srem", "i64", "%nanoseconds", "1000000000"), w.gep("i64", time, 1))
    _add(w, "%queue", _WAITERS, 1)
    # Without spinning: the program has use for the processor.
    seen = _load(w, "%queue", _COMPLETED)
    with w.if_(w.cmp("eq", "i32", _load(w, "%ticket", _DONE), "0")):
        sleep.wait(w, w.gep("i8", "%queue", _COMPLETED), seen, time)
    _add(w, "%queue", _WAITERS, -1)
    w.ret()


def _help(module: ModuleWriter) -> None:
    """void pyjax_queue_help(ptr queue, ptr ticket, i32 main): run that program, if nobody does and
    it is the next one. `main`: whether this is the main thread."""
    parameters = [("ptr", "queue"), ("ptr", "ticket"), ("i32", "main")]
    w = module.function("pyjax_queue_help", parameters)
    with w.if_(_is_turn_free(w)):
        number = _load(w, "%ticket", _NUMBER)
        is_next = w.cmp("eq", "i32", number, _load(w, "%queue", _COMPLETED))
        undone = w.cmp("eq", "i32", _load(w, "%ticket", _DONE), "0")
        with w.if_(w.op("and", "i1", is_next, undone)):
            is_main = w.cmp("ne", "i32", "%main", "0")
            with w.if_(is_main):
                w.store("i32", "1", "@pyjax_helping")
            w.call("pyjax.run_next", "void", [("ptr", "%queue")])
            with w.if_(is_main):
                w.store("i32", "0", "@pyjax_helping")
        w.call("pyjax.give_turn", "void", [("ptr", "%queue")])
    w.ret()
