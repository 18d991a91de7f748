"""Interpreters that users write. Layer: core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from pyjax.core.primitive import Primitive
from pyjax.core.trace import CustomCall
from pyjax.core.trace import Trace as BaseTrace


class TraceTag:
    """Tells one use of an interpreter from another: each is equal to itself only.

    >>> TraceTag() == TraceTag()
    False
    """


class Trace(BaseTrace):
    """Base of interpreters: what operations do inside of `set_current_trace(trace)`.

    A subclass gives `process_primitive(primitive, args, params)`, with the result or, for
    primitives with `multiple_results`, the list of results: values of any kind, usually Tracers of
    its own. A function with a derivative rule of its own (`custom_jvp`, `custom_vjp`) is run
    without the rule.

    >>> from pyjax.extend.core import set_current_trace, take_current_trace
    >>> class Printing(Trace):
    ...     def __init__(self, parent):
    ...         self.outside = parent
    ...     def process_primitive(self, primitive, args, params):
    ...         print(primitive)
    ...         return primitive.bind_with_trace(self.outside, args, params)
    >>> with take_current_trace() as outside, set_current_trace(Printing(outside)):
    ...     y = lax.sin(lax.neg(0.0))
    neg
    sin
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "process_primitive" in cls.__dict__:
            cls.process_primitive = _as_list(cls.__dict__["process_primitive"])  # type: ignore[method-assign]

    def process_custom_call(self, call: CustomCall, args: Sequence[Any]) -> list[Any]:
        return call.fun(*args)


def _as_list(process: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Pyjax's own traces give lists, however many results there are."""

    @wraps(process)
    def process_primitive(
        self: Trace, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]
    ) -> list[Any]:
        outs = process(self, primitive, args, params)
        return list(outs) if primitive.multiple_results else [outs]

    return process_primitive
