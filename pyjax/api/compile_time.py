"""ensure_compile_time_eval: compute on concrete values while tracing. Layer: api."""

from __future__ import annotations

from contextlib import ContextDecorator
from typing import Any

from pyjax._config.blocks import Leaving, take_out_of_last
from pyjax.core.trace import eval_trace, state


class ensure_compile_time_eval(ContextDecorator):
    """Context manager: operations inside run at once, also under jit: their operands must be
    concrete.

    JAX traces those that are not, also of a `grad`, `scan` or `vmap` in the block, and computes at
    once what is constant in a `jit` there. Here traced values stay outside of the block, and a
    `jit` in it is traced as everywhere: what is to be known first is computed before it.

    Raises:
      UnexpectedTracerError: an operand is traced.
    """

    def __init__(self) -> None:
        self._opened: list[list[Any]] = []  # the lists in which it is, the last one first

    def _recreate_cm(self) -> ensure_compile_time_eval:
        # Threads may call a decorated function at the same time.
        return ensure_compile_time_eval()

    def __enter__(self) -> None:
        traces = state.traces
        self._opened[:0] = (traces,)
        traces[:0] = (eval_trace,)

    __exit__ = Leaving(lambda manager: take_out_of_last(manager._opened, eval_trace))
