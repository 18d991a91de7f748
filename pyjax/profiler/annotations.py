"""The user's own spans in a trace. Layer: profiler."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from pyjax.profiler.recorder import active


class TraceAnnotation:
    """A named span of the thread that runs the block; a decorator of functions, too.

    Args:
      name: what the trace shows.   kwargs: more about it, shown beside.
    Outside of a trace it costs next to nothing.

    >>> with TraceAnnotation("reading", rows=10):
    ...     pass
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name = name
        self._args = kwargs
        self._starts: list[int] = []

    def __enter__(self) -> TraceAnnotation:
        self._starts.append(time.perf_counter_ns())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        start = self._starts.pop()
        recorder = active()
        if recorder is not None and start >= recorder.began:
            recorder.add(self._name, "annotation", start, self._args)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, each call of which is such a span."""

        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self._name, **self._args):
                return function(*args, **kwargs)

        return annotated

    @staticmethod
    def is_enabled() -> bool:
        """Whether a trace is on."""
        return active() is not None


class StepTraceAnnotation(TraceAnnotation):
    """A step of a training: viewers group by `step_num`.

    >>> with StepTraceAnnotation("train", step_num=3):
    ...     pass
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, _r=1, **kwargs)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        more = {key: value for key, value in self._args.items() if key != "_r"}

        @functools.wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with StepTraceAnnotation(self._name, **more):
                return function(*args, **kwargs)

        return annotated


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """A decorator: calls of the function are spans of a trace, under its name or `name`.

    >>> @annotate_function
    ... def load():
    ...     return 3
    >>> load()
    3
    """
    shown = name or getattr(func, "__qualname__", None) or type(func).__name__
    return TraceAnnotation(shown, **decorator_kwargs)(func)
