"""The native side of host calls and polls (see `python_calls`): each function by one here."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.targets.cpu.routines.clock import emit_clock
from xla_backend.targets.cpu.routines.queue_layout import (
    QUEUE_CURRENT,
    QUEUE_STOP_BEFORE,
    QUEUE_THREAD,
)

# Nanoseconds between looks at signals. Each may wait for the interpreter lock (5 ms by default).
_INTERVAL = 100_000_000

_STATE = """@pyjax.interrupted = internal global i32 0
@pyjax_main_thread = global i64 0
@pyjax.last_poll = internal global i64 0
@pyjax_stopping = global ptr null
@pyjax_helping = global i32 0
@pyjax_python_call = external global i8
@pyjax_python_pending = external global i8"""


def _keep_exception(module: ModuleWriter) -> None:
    """void keep_exception(): the exception that is set, under the number of this thread."""
    w = module.function("pyjax.keep_exception", [], internal=True, attributes="noinline")
    places = [("ptr", w.alloca("ptr")) for _ in range(3)]
    w.call("PyErr_Fetch", "void", places)
    w.call("PyErr_NormalizeException", "void", places)
    kind, value, traceback = (w.load("ptr", place) for _, place in places)
    with w.if_(w.cmp("ne", "ptr", traceback, "null")):
        w.call("PyException_SetTraceback", "i32", [("ptr", value), ("ptr", traceback)])
    number = _python_number(w, w.call("pthread_self", "i64"))
    item = [("ptr", "@pyjax_python_pending"), ("ptr", number), ("ptr", value)]
    w.call("PyDict_SetItem", "i32", item)
    _release(w, number, kind, value, traceback)
    w.ret()


def _python_number(w: FunctionWriter, number: str, signed: bool = False) -> str:
    name = "PyLong_FromLongLong" if signed else "PyLong_FromUnsignedLongLong"
    return w.call(name, "ptr", [("i64", number)])


def _release(w: FunctionWriter, *objects: str) -> None:
    for each in objects:
        w.call("Py_DecRef", "void", [("ptr", each)])


def _with_interpreter(w: FunctionWriter, call: Callable[[], str]) -> str:
    """Whether what `call` emits failed; it runs with the interpreter lock, and the exception that
    it left is kept."""
    gil = w.call("PyGILState_Ensure", "i32")
    failed = call()
    with w.if_(failed):
        w.call("pyjax.keep_exception", "void")
    w.call("PyGILState_Release", "void", [("i32", gil)])
    return failed


def _is_main_thread(w: FunctionWriter) -> str:
    main = w.value("load atomic i64, ptr @pyjax_main_thread monotonic, align 8")
    return w.cmp("eq", "i64", w.call("pthread_self", "i64"), main)


def _if(w: FunctionWriter, condition: str, value: Callable[[], str]) -> str:
    """What `value` emits, an i1, where the condition holds; else false."""
    return w.if_else(condition, ["i1"], lambda: [value()], lambda: ["false"])[0]


def _is_interrupted(module: ModuleWriter) -> None:
    """i1 is_interrupted(): whether something has interrupted the program that this thread runs."""
    w = module.function("pyjax.is_interrupted", [], "i1", internal=True)
    w.ret("i1", _if(w, _flag(w), lambda: _is_main_thread(w)))


def _flag(w: FunctionWriter) -> str:
    return w.cmp("ne", "i32", w.load("i32", "@pyjax.interrupted"), "0")


def _host_call(module: ModuleWriter) -> None:
    """i32 pyjax_host_call(ptr handle, ptr buffers, ptr context): the host call whose number the
    handle is, as an address, for the ExecutionContext that `context` is. Nonzero: an exception is
    kept and the caller ends its program. What programs inside the call left in pyjax.interrupted
    is dropped."""
    parameters = [("ptr", "handle"), ("ptr", "buffers"), ("ptr", "context")]
    w = module.function("pyjax_host_call", parameters, "i32")
    ours = _is_main_thread(w)

    def call() -> str:
        failed = _call_python(w)
        with w.if_(ours):
            w.store("i32", "0", "@pyjax.interrupted")
        return failed

    stopped = _if(w, ours, lambda: _flag(w))
    run = lambda: [_with_interpreter(w, call)]
    (failed,) = w.if_else(stopped, ["i1"], lambda: ["true"], run)
    w.ret("i32", w.cast("zext", "i1", failed, "i32"))


def _call_python(w: FunctionWriter) -> str:
    """Call Python's side of host calls; whether it raised."""
    number = _python_number(w, w.cast("ptrtoint", "ptr", "%handle", "i64"), signed=True)
    address = _python_number(w, w.cast("ptrtoint", "ptr", "%buffers", "i64"))
    w.module.declare("PyObject_CallFunctionObjArgs", "ptr", ["ptr", "..."])
    result = w.value(
        "call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr @pyjax_python_call, "
        f"ptr {number}, ptr {address}, ptr %context, ptr null)"
    )
    _release(w, number, address, result)
    return w.cmp("eq", "ptr", result, "null")


def _poll_frame(module: ModuleWriter) -> None:
    """void pyjax_poll_begin(): at the start of a program that polls, nothing has interrupted it
    yet; and i32 pyjax_poll_end(): nonzero if something has, or stops its queue."""
    w = module.function("pyjax_poll_begin", [])
    with w.if_(w.call("pyjax.is_interrupted", "i1")):
        w.store("i32", "0", "@pyjax.interrupted")
    w.ret()
    w = module.function("pyjax_poll_end", [], "i32")
    interrupted = w.call("pyjax.is_interrupted", "i1")
    stopped = lambda: [w.call("pyjax_is_stopped", "i32")]
    (ended,) = w.if_else(interrupted, ["i32"], lambda: ["1"], stopped)
    w.ret("i32", ended)


def _is_stopped(module: ModuleWriter) -> None:
    """i32 pyjax_is_stopped(): nonzero on the thread of the queue that is told to stop, if what it
    runs is among what is to be stopped."""
    w = module.function("pyjax_is_stopped", [], "i32")
    queue = w.value("load atomic ptr, ptr @pyjax_stopping acquire, align 8")

    def is_ours() -> str:
        thread = w.load("i64", w.gep("i8", queue, QUEUE_THREAD))
        return w.cmp("eq", "i64", thread, w.call("pthread_self", "i64"))

    def is_meant() -> str:
        current, stop_before = (
            w.value(f"load atomic i32, ptr {w.gep('i8', queue, place)} acquire, align 4")
            for place in (QUEUE_CURRENT, QUEUE_STOP_BEFORE)
        )
        return w.cmp("slt", "i32", w.op("sub", "i32", current, stop_before), "0")

    some = w.cmp("ne", "ptr", queue, "null")
    stopped = _if(w, some, lambda: _if(w, is_ours(), is_meant))
    w.ret("i32", w.cast("zext", "i1", stopped, "i32"))


def _poll(module: ModuleWriter) -> None:
    """i32 pyjax_poll(): nonzero if an exception is kept and the caller ends its program. Threads
    that are not the main one are not interrupted; those of queues may be stopped."""
    w = module.function("pyjax_poll", [], "i32")

    def look() -> list[str]:
        helps = w.cmp("ne", "i32", w.load("i32", "@pyjax_helping"), "0")
        return w.if_else(helps, ["i32"], elsewhere, handle)

    def handle() -> list[str]:
        ends = w.if_else(_flag(w), ["i1"], lambda: ["true"], lambda: [_handle_signals(w)])[0]
        return [w.cast("zext", "i1", ends, "i32")]

    elsewhere = lambda: [w.call("pyjax_is_stopped", "i32")]
    (ended,) = w.if_else(_is_main_thread(w), ["i32"], look, elsewhere)
    w.ret("i32", ended)


def _handle_signals(w: FunctionWriter) -> str:
    """Run the pending handlers, if it is time; whether one raised."""
    now = w.call("pyjax.now", "i64")
    passed = w.op("sub", "i64", now, w.load("i64", "@pyjax.last_poll"))

    def handle() -> str:
        raised = w.call("PyErr_CheckSignals", "i32")
        failed = w.cmp("ne", "i32", raised, "0")
        w.store("i32", w.cast("zext", "i1", failed, "i32"), "@pyjax.interrupted")
        return failed

    def ask() -> str:
        w.store("i64", now, "@pyjax.last_poll")
        return _with_interpreter(w, handle)

    return _if(w, w.cmp("ugt", "i64", passed, str(_INTERVAL)), ask)


def bridge_text(target: TargetInfo) -> str:
    """The LLVM text of the native side."""
    module = ModuleWriter(target)
    module.add(_STATE)
    emit_clock(module, "linux" in target.triple)
    _keep_exception(module)
    _is_interrupted(module)
    _host_call(module)
    _is_stopped(module)
    _poll_frame(module)
    _poll(module)
    return module.to_text()
