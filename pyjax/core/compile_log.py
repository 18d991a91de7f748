"""What is traced, lowered and compiled, how long and why: for listeners, logs, `assert_compiles`.

  TRACING, LOWERING, COMPILING   the stages, under the names that `monitoring` knows them by
  timed(stage, name)             block: the stage of a function; listeners are told
  compiling(name, device)        block: the last stage, which is also logged and counted
  because(reason)                block: why what is compiled inside is compiled
  is_watched()                   whether reasons are worth finding
  is_counting()                  whether a block of `assert_compiles` is open
  assert_compiles(n)             block: exactly n programs are compiled in it

Layer: core.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pyjax._config import options
from pyjax.core import monitoring
from pyjax.core.call_chains import current_frame
from pyjax.core.errors import four_parts

logger = logging.getLogger(__name__)

TRACING = "/jax/core/compile/jaxpr_trace_duration"
LOWERING = "/jax/core/compile/jaxpr_to_mlir_module_duration"
COMPILING = "/jax/core/compile/backend_compile_duration"

Reason = Callable[[], str]


class _Why(threading.local):
    """Why this thread compiles. In no context: what waits for LLVM keeps a copy of its caller's,
    and a reason knows functions and arrays."""

    reason: Reason | None = None


_why = _Why()
# Those of a thread, or a task of asyncio.
_lists: ContextVar[tuple[list[str], ...]] = ContextVar("compiled programs", default=())


class timed:
    """Context manager: tell the listeners of `monitoring` when a stage of a function begins, and
    how long it took. (A class, not a generator: each program comes through here three times.)

    >>> from pyjax import monitoring
    >>> heard = []
    >>> listener = lambda event, seconds, fun_name: heard.append(fun_name)
    >>> monitoring.register_event_duration_secs_listener(listener)
    >>> with timed(LOWERING, "jit(f)"):
    ...     pass
    >>> monitoring.unregister_event_duration_listener(listener)
    >>> heard
    ['jit(f)']
    """

    __slots__ = ("_name", "_stage", "_start")

    def __init__(self, stage: str, name: str) -> None:
        self._stage = stage
        self._name = name

    def __enter__(self) -> None:
        self._start = time.time()
        monitoring.record_scalar(self._stage, self._start, fun_name=self._name)

    def __exit__(self, *exc: object) -> None:
        stage, name, start, end = self._stage, self._name, self._start, time.time()
        monitoring.record_event_duration_secs(stage, end - start, fun_name=name)
        monitoring.record_event_time_span(stage, start, end, fun_name=name)


class compiling:
    """Context manager: the compiler works on a program, or finds it on disk.

    Args:
      name: of the module, `jit_f`.
    """

    __slots__ = ("_device", "_name", "_start", "_timed")

    def __init__(self, name: str, device: Any) -> None:
        self._name = name
        self._device = device
        self._timed = timed(COMPILING, f"jit({name.removeprefix('jit_')})")

    def __enter__(self) -> None:
        self._start = time.perf_counter()
        self._timed.__enter__()

    def __exit__(self, kind: object, *exc: object) -> None:
        self._timed.__exit__()
        if kind is None and (is_counting() or options.log_compiles.value):
            self._note(time.perf_counter() - self._start)

    def _note(self, seconds: float) -> None:
        """For who counts or reads logs."""
        name, reason = self._name, _why.reason
        why = "" if reason is None else f": {reason()}"
        if options.log_compiles.value:
            text = "Finished compiling %s for %s in %.4f s, called at %s%s"
            logger.warning(text, name, self._device, seconds, caller(), why)
        for programs in _lists.get():
            programs.append(f"{name}, called at {caller()}{why}")


class because:
    """Context manager: what is compiled inside is compiled for this reason, which is called if
    somebody asks. (A class, not a generator: each new shape of an operation comes through here.)"""

    __slots__ = ("_before", "_reason")

    def __init__(self, reason: Reason) -> None:
        self._reason = reason

    def __enter__(self) -> None:
        self._before, _why.reason = _why.reason, self._reason

    def __exit__(self, *exc: object) -> None:
        _why.reason = self._before


def is_watched() -> bool:
    """Whether somebody wants to know why something is traced or compiled."""
    logged = options.log_compiles.value or options.explain_cache_misses.value
    return bool(logged or is_counting())


def is_counting() -> bool:
    """Whether each compilation counts, here: then nothing takes a short cut."""
    return bool(_lists.get())


def caller() -> str:
    """The innermost line outside the library: `train.py:12 in main`."""
    frame = current_frame()
    if frame is None:
        return "an unknown line"
    return f"{os.path.basename(frame.file_name)}:{frame.line} in {frame.function_name}"


@contextmanager
def assert_compiles(n: int) -> Iterator[None]:
    """Context manager: exactly `n` programs are compiled inside, by this thread or task of asyncio.

    Programs of jitted functions count, and those of operations that run one by one: each kind of
    arguments has its program here, also where a program for arrays of any length would do. What the
    persistent cache has counts, too; what another thread compiles does not. So the number does not
    depend on what ran elsewhere. An exception in the block passes as it is.

    Raises:
      AssertionError: more or fewer were; it lists each of them, with the reason.

    >>> import pyjax
    >>> f = pyjax.jit(lambda x: x * 2)
    >>> x, y = pyjax.numpy.arange(3), pyjax.numpy.arange(4)
    >>> with pyjax.assert_compiles(1):
    ...     _ = f(x), f(x)
    >>> with pyjax.assert_compiles(0):
    ...     _ = f(x)
    """
    programs: list[str] = []
    before = _lists.get()
    token = _lists.set((programs, *before))
    try:
        yield
    finally:
        _lists.reset(token)
    if len(programs) != n:
        raise AssertionError(
            four_parts(
                f"assert_compiles({n}): {len(programs) or 'no'} programs were compiled.",
                caller(),
                "\n".join(programs) or "What ran was compiled before, or nothing ran.",
                "Call it with arguments of the same kinds, or say how many programs are right.",
            )
        )
