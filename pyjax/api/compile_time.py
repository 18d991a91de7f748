"""ensure_compile_time_eval: compute on concrete values while tracing. Layer: api."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyjax.core.trace import eval_trace, set_current_trace


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Operations inside run at once, also under jit: their operands must be concrete.

    Raises:
      UnexpectedTracerError: an operand is traced.
    """
    with set_current_trace(eval_trace):
        yield
