"""ensure_compile_time_eval: compute on concrete values while tracing. Layer: api."""

from __future__ import annotations

from pyjax._config import options
from pyjax._config.registry import Override


def ensure_compile_time_eval() -> Override:
    """Context manager and decorator: what is known is computed at once, also in a traced function.

    In the block operations without traced operands have concrete results, which Python may look
    at: arithmetic, calls of jitted functions, loops, `grad` and `vmap` of known values. What
    depends on traced values is traced as everywhere.

    >>> import pyjax
    >>> import pyjax.numpy as jnp
    >>> @pyjax.jit
    ... def f(x):
    ...     with ensure_compile_time_eval():
    ...         n = int(jnp.sum(jnp.ones(3)))
    ...         return x * n
    >>> float(f(2.0))
    6.0
    """
    return options.eager_constant_folding(True)
