"""Options of the compiler, its caches and export."""

from __future__ import annotations

import pyjax
import pyjax.numpy as jnp
from tests.config.effects.table import effect, inert

inert("jax2tf_default_native_serialization", False, "that converter is not part of pyjax")


def transposes_left() -> int:
    """How many of two transposes that undo each other the compiled program has."""
    compiled = pyjax.jit(lambda x: jnp.sin(x.T).T + x).lower(jnp.ones((8, 8))).compile()
    return compiled.as_text().count(" transpose(")


@effect("jax_optimization_level", "O0", default=0, changed=2)
def optimization_level() -> int:
    return transposes_left()


@effect("jax_disable_most_optimizations", True, default=0, changed=2)
def disable_most_optimizations() -> int:
    return transposes_left()


@effect("jax_exec_time_optimization_effort", -1.0, default=0, changed=2)
def exec_time_optimization_effort() -> int:
    return transposes_left()
