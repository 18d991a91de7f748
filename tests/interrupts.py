"""A signal handler that raises, at each point of some modules' code where Python runs handlers.

  for number in each_interrupt(work, module): ...      work() was interrupted at the number-th point

Python runs handlers at the start of a function, after a call, at the end of a turn of a loop. A
tracer counts these in the modules' code; just before the number-th it marks a signal as arrived, by
a C function and without a call of its own after which the handler would run too early.
"""

from __future__ import annotations

import _thread
import dis
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import CodeType, FrameType, ModuleType
from typing import Any

from pyjax._config import options, registry

from pyjax.core import axis_env, source_info, trace_state
from pyjax.sharding import mesh as meshes
from xla_backend.process import forks

SIGNAL = signal.SIGUSR1


class Interrupt(BaseException):
    """What the handler raises."""


@cache
def _points(code: CodeType) -> frozenset[int]:
    """Offsets of the instructions that end with a look at signals."""
    return frozenset(
        i.offset
        for i in dis.get_instructions(code)
        if i.opname.startswith(("CALL", "JUMP_BACKWARD", "INSTRUMENTED"))
    )


class _Tracer:
    def __init__(self, files: set[str], number: int) -> None:
        self.files = files
        self.number = number
        self.arrive = partial(_thread.interrupt_main, SIGNAL)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        frame.f_trace_opcodes = True
        if event == "call" or (event == "opcode" and frame.f_lasti in _points(frame.f_code)):
            self.number -= 1
            if self.number == 0:
                arrive = iter(self.arrive, None)
                sys.settrace(None)  # the next call of a tracer would be where the handler runs
                0 in arrive  # noqa: B015 - calls it once, and no handler after it
        return self


def _raise() -> None:
    raise Interrupt


def each_interrupt(
    work: Callable[[], object], *modules: ModuleType, handler: Callable[[], object] = _raise
) -> Iterator[int]:
    """Runs work() until it is not interrupted any more, each time a step later; yields after each
    run, when the interrupt has arrived. Work must take the same steps each time.

    Args:
      handler: what the signal handler does; it may return, and work goes on.
    """
    files = {str(module.__file__) for module in modules}
    number = 0
    while True:
        number += 1
        if not _interrupted(work, _Tracer(files, number), handler):
            return
        yield number


def _interrupted(
    work: Callable[[], object], tracer: _Tracer, handler: Callable[[], object]
) -> bool:
    arrived = []

    def handle(number: int, frame: object) -> None:
        arrived.append(number)
        handler()

    before = signal.signal(SIGNAL, handle)
    outer = sys.gettrace()
    try:
        sys.settrace(tracer)
        try:
            work()
        finally:
            sys.settrace(outer)
    except Interrupt:
        return True
    finally:
        signal.signal(SIGNAL, before)
    assert handler is not _raise or not arrived, "the interrupt was lost"
    return bool(arrived)


def thread_state() -> dict[str, object]:
    """All that blocks change in a thread."""
    return {
        "traces": list(trace_state.state.traces),
        "names": source_info.current_names(),
        "axes": axis_env.key(),
        "mesh": (meshes.context_mesh(), meshes.devices_in_context(), meshes.entered_mesh()),
        "x64": options.enable_x64.value,
        "key": registry.trace_context(),
    }


def check_nothing_entered() -> None:
    """No thread is inside a trace. What an exception's traceback kept may wait for a collection."""
    if trace_state.entered:
        gc.collect()
    assert not trace_state.entered


def check_locks() -> None:
    """All locks that forks wait for are free, or become so."""
    forks._before()
    taken = len(forks._forks[threading.get_ident()].taken)
    forks._after_in_parent()
    assert taken == len(forks._locks), f"{taken} of {len(forks._locks)} locks are free"
