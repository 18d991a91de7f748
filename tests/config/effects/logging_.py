"""Options for logging, dumping and profiling."""

from __future__ import annotations

import itertools
import logging
import re
from pathlib import Path

import pyjax
import pyjax.numpy as jnp
from tests.config.effects.observe import files_in, records_of
from tests.config.effects.table import effect

NUMBERS = itertools.count(2)


def compile_cube() -> None:
    def cube(x: pyjax.Array) -> pyjax.Array:
        return x * x * x

    pyjax.jit(cube)(jnp.ones(3))


@effect(
    "jax_log_compiles",
    True,
    default="",
    changed=re.compile(
        r"WARNING:.*Finished compiling jit_cube for cpu:0 in \d+\.\d+ s, called at "
        r"logging_.py:\d+ in compile_cube: first call of this function"
    ),
)
def log_compiles() -> str:
    return records_of(compile_cube)


@effect(
    "jax_explain_cache_misses",
    True,
    default="",
    changed=re.compile(
        r"WARNING:.*CACHE MISS at logging_.py:\d+ in .*argument x: float32\[2\] -> float32\[3\]"
    ),
)
def explain_cache_misses() -> str:
    f = pyjax.jit(lambda x: x + 1)
    f(jnp.ones(2))
    return records_of(lambda: f(jnp.ones(3)))


@effect("jax_logging_level", "ERROR", default=True, changed=False)
def logging_level() -> bool:
    """Whether a warning of a module of the library is shown."""
    lines = records_of(lambda: logging.getLogger("pyjax.runtime").warning("a warning"))
    return "a warning" in lines


@effect("jax_debug_log_modules", "jax.runtime.dispatch", default=False, changed=True)
def debug_log_modules() -> bool:
    """Whether a debug message of that module is shown."""
    lines = records_of(lambda: logging.getLogger("pyjax.runtime.dispatch").debug("a detail"))
    return "a detail" in lines


@effect(
    "jax_dump_ir_to",
    lambda scratch: str(scratch / "ir"),
    default=[],
    changed=lambda names: (
        [n for n in names if re.fullmatch(r"pyjax_ir\d{4}_jit_cube\.(jaxpr|hlo)\.txt", n)] == names
        and len(names) >= 2
    ),
)
def dump_ir_to(scratch: Path) -> list[str]:
    folder = scratch / "ir"
    before = files_in(folder)
    compile_cube()
    return [name for name in files_in(folder) if name not in before and "cube" in name]


@effect(
    "jax_log_checkpoint_residuals",
    True,
    default="",
    changed=re.compile(
        r"WARNING:.*checkpointed f at logging_.py:\d+ keeps for the backward pass:"
        r"\n  float32\[3\] argument x\n  float32\[3\] name at logging_.py:\d+ in f"
    ),
)
def log_checkpoint_residuals() -> str:
    def f(x: pyjax.Array) -> pyjax.Array:
        return jnp.cos(pyjax.ad_checkpoint.checkpoint_name(jnp.sin(x), "kept")).sum()

    policy = pyjax.checkpoint_policies.save_only_these_names("kept")
    return records_of(lambda: pyjax.grad(pyjax.checkpoint(f, policy=policy))(jnp.ones(3)))


@effect(
    "jax_compiler_detailed_logging_min_ops",
    1000,
    default=re.compile(
        r"^WARNING:.*Details of jit_long: \d\d operations, \d+ after the passes; "
        r"\d+ bytes of code, 12 of arguments, 12 of results, \d+ of temporaries$",
        re.MULTILINE,
    ),
    changed="",
)
def compiler_detailed_logging_min_ops() -> str:
    """What is said of a program of a few dozen operations, which no other one equals."""
    number = float(next(NUMBERS))

    def long(x: pyjax.Array) -> pyjax.Array:
        for i in range(20):
            x = jnp.sin(x) * (number + i)
        return x

    with pyjax.log_compiles(True):
        lines = records_of(lambda: pyjax.jit(long)(jnp.ones(3)))
    return "\n".join(line for line in lines.split("\n") if "Details of jit_long" in line)
