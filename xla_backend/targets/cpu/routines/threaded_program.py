"""The handlers of the instructions of whole programs (`threaded_instructions`)."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.merge_sorting import merge_rows
from xla_backend.targets.cpu.routines.polling import POLL_CYCLES
from xla_backend.targets.cpu.routines.registry import register_group
from xla_backend.targets.cpu.routines.threaded import Handler
from xla_backend.targets.cpu.routines.threaded_instructions import (
    ADDRESSES,
    CALL_ARGUMENTS,
    CHOOSE,
    COPY,
    COUNTED_ROUND,
    GO,
    HOST,
    LAUNCH,
    MERGE_ARGSORT,
    OWN_ADDRESS,
    PARALLEL,
    POINTER,
    POINTERS,
    POLL,
    POLL_BEGIN,
    POLL_END,
    POLLED,
    RNG_STATE,
    ROUND,
    UNLESS,
    call,
)
from xla_backend.targets.cpu.routines.threaded_names import ANEW, BLOCK, PREFIX, STATUS

_GROUP = "threaded_program"


def register() -> None:
    """Declares the group."""
    names = [*_HANDLERS, *map(call, CALL_ARGUMENTS), MERGE_ARGSORT]
    register_group(_GROUP, tuple(names), _emit)


def _emit(module: ModuleWriter) -> None:
    for name, (operands, write) in _HANDLERS.items():
        write(Handler(module, name.removeprefix(PREFIX), operands))
    for arguments in CALL_ARGUMENTS:
        _call(Handler(module, call(arguments).removeprefix(PREFIX), 2), arguments)
    _merge_argsort(module)


# -- addresses -------------------------------------------------------------------------------------


def _own_address(h: Handler) -> None:
    h.store(0, "ptr", "%frame")
    h.next()


def _pointers(h: Handler) -> None:
    _move(h.w, h.slot(0), h.load(1, "ptr"), h.w.imul(h.word(2), 8))
    h.next()


def _pointer(h: Handler) -> None:
    h.store(0, "ptr", h.w.load("ptr", h.w.gep("i8", h.load(1, "ptr"), h.word(2))))
    h.next()


def _addresses(h: Handler) -> None:
    w = h.w
    target, count = h.slot(0), h.word(1)
    pairs = w.gep("i64", "%code", 3)
    with w.loop(0, count) as each:
        pair = w.gep("i64", pairs, w.imul(each.index, 2))
        base = w.load("i64", w.gep("i8", "%frame", w.load("i64", pair)))
        address = w.iadd(base, w.load("i64", w.gep("i64", pair, 1)))
        w.store("i64", address, w.gep("i64", target, each.index))
    h.go(w.gep("i64", pairs, w.imul(count, 2)))


def _copy(h: Handler) -> None:
    _move(h.w, h.load(0, "ptr"), h.load(1, "ptr"), h.word(2))
    h.next()


def _move(w: FunctionWriter, target: str, source: str, count: str) -> None:
    w.module.declare("llvm.memmove.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
    arguments = f"ptr {target}, ptr {source}, i64 {count}, i1 false"
    w.line(f"call void @llvm.memmove.p0.p0.i64({arguments})")


# -- calls -----------------------------------------------------------------------------------------


def _launch(h: Handler) -> None:
    h.w.call(BLOCK, "void", [("ptr", h.slot(0)), ("i64", "0")])
    h.next()


def _parallel(function: str) -> Callable[[Handler], None]:
    def write(h: Handler) -> None:
        h.w.module.declare(BLOCK, "void", ["ptr", "i64"])
        h.w.call(function, "void", [("ptr", f"@{BLOCK}"), ("ptr", h.slot(0)), ("i64", h.word(1))])
        h.next()

    return write


def _call(h: Handler, arguments: int) -> None:
    w = h.w
    words = h.slot(1)
    given = [("i64", w.load("i64", w.gep("i64", words, i))) for i in range(arguments)]
    w.call_pointer(h.word(0, "ptr"), "void", given)
    h.next()


def _host(h: Handler) -> None:
    arguments = [("ptr", h.word(0, "ptr")), ("ptr", h.slot(1)), ("ptr", h.load(2, "ptr"))]
    _check(h, h.w.call("pyjax_host_call", "i32", arguments))
    h.next()


def _rng_state(h: Handler) -> None:
    w = h.w
    old = w.value(f"atomicrmw add ptr {h.load(0, 'ptr')}, i64 {h.word(2)} monotonic")
    target = h.load(1, "ptr")
    w.store("i64", old, target)
    w.store("i64", "0", w.gep("i64", target, 1))
    h.next()


def _check(h: Handler, status: str) -> None:
    """End the program if a call reported an error."""
    _end_if(h, h.w.cmp("ne", "i32", status, "0"), status)


def _end_if(h: Handler, condition: str, status: str) -> None:
    w = h.w
    ends, fine = w.new_label("ends"), w.new_label("fine")
    w.cond_br(condition, ends, fine, likely=False)
    w.label(ends)
    with w.scope():
        _end(h, status)
    w.label(fine)


def _end(h: Handler, status: str) -> None:
    h.w.store("i32", status, h.w.gep("i8", "%frame", STATUS))
    h.w.ret()


# -- control ---------------------------------------------------------------------------------------


def _go(h: Handler) -> None:
    h.go(h.word(0, "ptr"))


def _unless(h: Handler) -> None:
    w = h.w
    zero = w.cmp("eq", "i8", w.load("i8", h.load(0, "ptr")), "0")
    h.go(w.select(zero, "ptr", h.word(1, "ptr"), w.gep("i64", "%code", 3)))


def _choose(h: Handler) -> None:
    w = h.w
    number, count = w.load("i32", h.load(0, "ptr")), h.word(1)
    index = w.cast("zext", "i32", number, "i64")  # a negative one is large
    last = w.isub(count, 1)
    place = w.select(w.cmp("ult", "i64", index, count), "i64", index, last)
    h.go(w.load("ptr", w.gep("i64", w.gep("i64", "%code", 3), place)))


def _round(h: Handler) -> None:
    _spend(h)
    h.go(h.word(2, "ptr"))


def _counted_round(h: Handler) -> None:
    w = h.w
    _spend(h)
    left = w.isub(h.load(4, "i64"), 1)
    h.store(4, "i64", left)
    again = w.cmp("ne", "i64", left, "0")
    h.go(w.select(again, "ptr", h.word(2, "ptr"), w.gep("i64", "%code", 6)))


def _spend(h: Handler) -> None:
    """Look at signals, and for optimised code, if the budget is used up."""
    w = h.w
    left = w.isub(h.load(0, "i64"), h.word(1))
    h.store(0, "i64", left)
    look, go = w.new_label("look"), w.new_label("go")
    w.cond_br(w.cmp("slt", "i64", left, "0"), look, go, likely=False)
    w.label(look)
    with w.scope():
        h.store(0, "i64", str(POLL_CYCLES))
        _check(h, w.call("pyjax_poll", "i32"))
        optimised = w.value(f"load atomic ptr, ptr {h.word(3, 'ptr')} acquire, align 8")
        _end_if(h, w.cmp("ne", "ptr", optimised, "null"), str(ANEW))
    w.br(go)
    w.label(go)


def _poll(h: Handler) -> None:
    _check(h, h.w.call("pyjax_poll", "i32"))
    h.next()


def _poll_begin(h: Handler) -> None:
    h.w.call("pyjax_poll_begin", "void")
    h.next()


def _poll_end(h: Handler) -> None:
    """Routines that were stopped say nothing themselves."""
    _end(h, h.w.call("pyjax_poll_end", "i32"))


# -- a sort with any comparator --------------------------------------------------------------------


def _merge_argsort(module: ModuleWriter) -> None:
    addresses = ("context", "a", "b", "answer", "perm", "work")
    sizes = ("outer", "n", "inner")
    parameters = [*(("ptr", name) for name in addresses), *(("i64", name) for name in sizes)]
    w = module.function(MERGE_ARGSORT, parameters)

    def less(a: str, b: str) -> str:
        w.store("i64", a, "%a")
        w.store("i64", b, "%b")
        w.call(BLOCK, "void", [("ptr", "%context"), ("i64", "0")])
        return w.cmp("ne", "i8", w.load("i8", "%answer"), "0")

    merge_rows(w, less)
    w.ret()


_Written = tuple[int, Callable[[Handler], None]]
_HANDLERS: dict[str, _Written] = {
    OWN_ADDRESS: (1, _own_address),
    POINTERS: (3, _pointers),
    POINTER: (3, _pointer),
    ADDRESSES: (2, _addresses),
    LAUNCH: (1, _launch),
    PARALLEL: (2, _parallel("pyjax_parallel_for")),
    POLLED: (2, _parallel("pyjax_parallel_for_polled")),
    COPY: (3, _copy),
    HOST: (3, _host),
    RNG_STATE: (3, _rng_state),
    GO: (1, _go),
    UNLESS: (2, _unless),
    CHOOSE: (2, _choose),
    ROUND: (4, _round),
    COUNTED_ROUND: (5, _counted_round),
    POLL: (0, _poll),
    POLL_BEGIN: (0, _poll_begin),
    POLL_END: (0, _poll_end),
}
