"""What is recorded while a trace is on: spans of time, by thread.

Stages of compilation come from `monitoring`, passes from the compiler, runs of programs from the
programs themselves; annotations are the user's. Nothing of that costs anything while there is no
trace. Layer: profiler.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyjax.core import monitoring
from pyjax.core.compile_log import COMPILING, LOWERING, TRACING
from pyjax.runtime import program as programs
from pyjax.runtime.program import Program
from xla_backend.passes import base as passes
from xla_backend.passes.base import PassRun
from xla_backend.process.instances import instances_of


class Span(NamedTuple):
    """Something that took time.

    Attributes:
      start, duration: in nanoseconds of `time.perf_counter_ns`.
      track: the number of a thread, or the name of a device.
    """

    name: str
    category: str
    start: int
    duration: int
    track: int | str
    args: dict[str, Any]


_STAGES = {TRACING: "trace", LOWERING: "lower", COMPILING: "compile"}


class Recorder:
    """The spans between `start` and `stop`.

    Attributes:
      began: when it was started, in nanoseconds of the same clock.
      began_at: the same in nanoseconds since 1970.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.thread_names: dict[int, str] = {}
        self.began = time.perf_counter_ns()
        self.began_at = time.time_ns()
        self._wrapped: dict[Program, tuple[Any, Any]] = {}

    def add(self, name: str, category: str, start: int, args: dict[str, Any] | None = None) -> None:
        """A span of this thread that ends now."""
        end = time.perf_counter_ns()
        self._add(Span(name, category, start, end - start, self._thread(), args or {}))

    def _add(self, span: Span) -> None:
        self.spans.append(span)

    def _thread(self) -> int:
        number = threading.get_ident()
        if number not in self.thread_names:
            self.thread_names[number] = threading.current_thread().name
        return number

    # -- where they come from --------------------------------------------------------------------

    def start(self) -> None:
        """Listen, and let all programs tell of their runs."""
        monitoring.register_event_time_span_listener(self._stage)
        passes.pass_listeners.append(self._pass)
        programs.watchers.append(self)
        for known in instances_of(Program):
            self.made(known)

    def stop(self) -> None:
        """Listen no more."""
        programs.watchers.remove(self)
        passes.pass_listeners.remove(self._pass)
        monitoring.unregister_event_time_span_listener(self._stage)
        for program, (watched, plain) in self._wrapped.items():
            if program.call is watched:
                program.call = plain  # else somebody has wrapped it meanwhile: it passes through
        self._wrapped.clear()

    def _stage(self, event: str, start: float, end: float, **what: Any) -> None:
        stage = _STAGES.get(event)
        if stage is None:
            return
        name = what.get("fun_name", "")
        begin = self.began + round(start * 1e9) - self.began_at
        duration = round((end - start) * 1e9)
        self._add(Span(f"{stage} {name}", stage, begin, duration, self._thread(), dict(what)))

    def _pass(self, run: PassRun) -> None:
        args = {"pipeline": run.pipeline, "changed": run.changed}
        start, duration = round(run.start * 1e9), round(run.seconds * 1e9)
        self._add(Span(run.name, "pass", start, duration, self._thread(), args))

    def made(self, program: Program) -> None:
        """A program that there is: its calls are spans from now on."""
        plain = program.call
        clock, add, name = time.perf_counter_ns, self.add, program.function

        def call(arguments: Sequence[Any]) -> list[Any]:
            start = clock()
            try:
                return plain(arguments)
            finally:
                add(name, "execute", start)

        self._wrapped[program] = (call, plain)
        program.call = call

    def took(self, program: Program, nanoseconds: int) -> None:
        """A run that went on when its call was back has ended, as far as anybody noticed."""
        start = time.perf_counter_ns() - nanoseconds
        args = {"ends": "when the host noticed it"}
        self._add(Span(program.function, "queue", start, nanoseconds, "device queue", args))


_active: list[Recorder] = []


def active() -> Recorder | None:
    """The recorder that is on, if one is."""
    return _active[0] if _active else None


def begin() -> Recorder:
    """Start recording.

    Raises:
      RuntimeError: a trace is on.
    """
    if _active:
        raise RuntimeError(
            "Profile has already been started. Only one profile may be run at a time; call "
            "stop_trace() first."
        )
    recorder = Recorder()
    _active.append(recorder)
    recorder.start()
    return recorder


def end() -> Recorder:
    """Stop recording.

    Raises:
      RuntimeError: no trace is on.
    """
    if not _active:
        raise RuntimeError("No profile started; call start_trace(log_dir) first.")
    recorder = _active.pop()
    recorder.stop()
    return recorder


Writer = Callable[[Recorder], bytes]
