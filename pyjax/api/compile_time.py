"""ensure_compile_time_eval: compute on concrete values while tracing. Layer: api."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from pyjax._config.blocks import Leaving, drop_last
from pyjax.core.trace import eval_trace, state


class ensure_compile_time_eval(ContextDecorator):
    """Context manager: operations inside run at once, also under jit: their operands must be
    concrete.

    Raises:
      UnexpectedTracerError: an operand is traced.
    """

    def __enter__(self) -> None:
        traces: list[Any] = state.traces
        traces += (eval_trace,)

    __exit__ = Leaving(lambda manager: drop_last(state.traces))
