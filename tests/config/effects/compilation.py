"""Options of the compiler, its caches and export."""

from __future__ import annotations

import itertools
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import pyjax
import pyjax.numpy as jnp
import xla_backend
from pyjax.experimental.compilation_cache import compilation_cache
from tests.config.effects.observe import error_of, records_of, warnings_of
from tests.config.effects.table import effect, inert
from xla_backend.measured_costs import MeasuredRuns
from xla_backend.persistent.store import CacheStatus
from xla_backend.runtime.custom_calls import register_custom_call

inert("jax2tf_default_native_serialization", False, "that converter is not part of pyjax")


@effect("jax_optimization_level", "O0", default=0, changed=2)
@effect("jax_disable_most_optimizations", True, default=0, changed=2)
@effect("jax_exec_time_optimization_effort", -1.0, default=0, changed=2)
def transposes_left() -> int:
    """How many of two transposes that undo each other the compiled program has."""
    compiled = pyjax.jit(lambda x: jnp.sin(x.T).T + x).lower(jnp.ones((8, 8))).compile()
    return compiled.as_text().count(" transpose(")


@effect("jax_gpu_group_products", False, default="sm_90a", changed="sm_90")
def architecture_of_hopper() -> str:
    """What PTX for GPUs of compute capability 9.0 is written for."""
    lowered = pyjax.jit(jnp.sin).trace(jnp.ones(8)).lower(lowering_platforms=("cuda",))
    found = re.search(r"\.target (\w+)", lowered.compile(target="sm_90a").texts()["ptx"])
    assert found is not None
    return found[1]


# -- the persistent cache --------------------------------------------------------------------------


def product(k: float) -> None:
    """Compile a program; for each `k` another one."""
    pyjax.clear_caches()
    pyjax.jit(lambda x: jnp.tanh(x @ x.T) + k)(jnp.ones((4, 6)))


def kept(scratch: Path, compile_some: Callable[[], object]) -> CacheStatus:
    """What is on disk after compiling, in a directory that was empty before."""
    before = compilation_cache.cache_status().directory
    compilation_cache.set_cache_dir(tempfile.mkdtemp(dir=scratch))
    try:
        compile_some()
        return compilation_cache.cache_status()
    finally:
        pyjax.config.update("jax_compilation_cache_dir", before)


def programs(scratch: Path, compile_some: Callable[[], object]) -> int:
    return kept(scratch, compile_some).kinds.get("program", 0)


@effect("jax_compilation_cache_dir", lambda s: str(s / "kept"), default=False, changed=True)
def compilation_cache_dir(scratch: Path) -> bool:
    product(1)
    found = any(scratch.glob("kept/**/*.program"))
    shutil.rmtree(scratch / "kept", ignore_errors=True)
    return found


@effect("jax_compilation_cache_max_size", 20_000, default=False, changed=True)
def compilation_cache_max_size(scratch: Path) -> bool:
    """Whether what several programs take is bounded."""
    return kept(scratch, lambda: [product(k) for k in range(4)]).bytes <= 20_000


@effect("jax_enable_compilation_cache", False, default=1, changed=0)
@effect("jax_persistent_cache_min_compile_time_secs", 100.0, default=1, changed=0)
@effect("jax_persistent_cache_min_entry_size_bytes", 1 << 20, default=1, changed=0)
@effect("jax_compilation_cache_max_size", 0, default=1, changed=0, ways=("update",))
def programs_kept(scratch: Path) -> int:
    return programs(scratch, lambda: product(1))


@effect("jax_persistent_cache_enable_xla_caches", "none", default=True, changed=False)
def persistent_cache_enable_xla_caches(scratch: Path) -> bool:
    """Whether object code alone is kept: that of a program which calls Python."""

    def call_back() -> None:
        pyjax.clear_caches()
        x = jnp.ones(3)
        pyjax.jit(lambda x: pyjax.pure_callback(np.sin, x, x))(x)

    return "object" in kept(scratch, call_back).kinds


@effect(
    "jax_raise_persistent_cache_errors",
    True,
    default="",
    changed=re.compile("^PersistentCacheError: .*is not an entry"),
)
def raise_persistent_cache_errors(scratch: Path) -> str:
    """A damaged entry is met."""
    errors = []

    def meet() -> None:
        product(1)
        for path in scratch.rglob("*.program"):
            path.write_bytes(b"noise")
        errors.append(error_of(lambda: warnings_of(lambda: product(1))))

    kept(scratch, meet)
    return errors[0]


@effect("jax_compilation_cache_include_metadata_in_key", True, default=1, changed=2)
def compilation_cache_include_metadata_in_key(scratch: Path) -> int:
    """Entries of one program that is written on two lines."""

    def f(x: pyjax.Array) -> pyjax.Array:
        return x @ x.T

    def g(x: pyjax.Array) -> pyjax.Array:
        return x @ x.T

    def compile_both() -> None:
        pyjax.clear_caches()
        pyjax.jit(f)(jnp.ones((4, 6))), pyjax.jit(g)(jnp.ones((4, 6)))

    return programs(scratch, compile_both)


@effect("jax_remove_custom_partitioning_ptr_from_cache_key", True, default=2, changed=1)
def remove_custom_partitioning_ptr_from_cache_key(scratch: Path) -> int:
    """Entries of one program that calls a partitioner at two addresses."""
    text = """ENTRY e { x = f32[3] parameter(0)
      ROOT r = f32[3] custom-call(x), custom_call_target="CustomSPMDPartitioning",
        backend_config="%d" }"""
    register_custom_call("CustomSPMDPartitioning", lambda *_: None, replace=True)

    def compile_both() -> None:
        for address in (1234, 5678):
            xla_backend.compile(xla_backend.parse_hlo(text % address))

    return programs(scratch, compile_both)


@effect(
    "jax_compilation_cache_expect_pgle",
    True,
    default="",
    changed=re.compile("UserWarning: no program compiled with measured costs is on disk"),
)
def compilation_cache_expect_pgle(scratch: Path) -> str:
    said = []
    kept(scratch, lambda: said.append(warnings_of(lambda: product(1))))
    return said[0]


# -- measured costs --------------------------------------------------------------------------------


def compilations_of(calls: int) -> int:
    """How often a function is compiled while it is called."""
    f = pyjax.jit(lambda x: jnp.tanh(x).sum(0))
    x = jnp.ones((30, 40))
    pyjax.config.update("jax_log_compiles", True)
    return records_of(lambda: [f(x) for _ in range(calls)]).count("Finished compiling")


@effect("jax_enable_pgle", True, default=1, changed=2)
def enable_pgle() -> int:
    return compilations_of(4)


@effect("jax_pgle_profiling_runs", 5, default=2, changed=1)
def pgle_profiling_runs() -> int:
    pyjax.config.update("jax_enable_pgle", True)
    return compilations_of(4)


@effect("jax_pgle_aggregation_percentile", 40, default=True, changed=False)
def pgle_aggregation_percentile() -> bool:
    """Whether a kernel that took long in one of three runs is handed to threads."""
    x = jnp.ones((30, 40))
    pyjax.config.update("jax_enable_pgle", True)
    pyjax.config.update("jax_log_compiles", True)
    f = pyjax.jit(lambda x: jnp.tanh(x).sum(0))
    times = itertools.cycle((2.0, 500.0, 3.0))
    record = MeasuredRuns.record

    def as_if(runs: MeasuredRuns, seen: Mapping[str, float]) -> None:
        record(runs, dict.fromkeys(seen, next(times)))

    with mock.patch.object(MeasuredRuns, "record", as_if):
        for _ in range(3):
            f(x)
    log = records_of(lambda: f(x))
    assert "again with the measured costs" in log
    return "they change no decision" not in log


# -- memory ----------------------------------------------------------------------------------------


def many(arrays: int) -> bool:
    return arrays >= 16


def few(arrays: int) -> bool:
    return arrays <= 10


@effect("jax_memory_fitting_level", "O3", default=many, changed=few)
@effect("jax_memory_fitting_effort", 1.0, default=many, changed=few)
def arrays_at_once() -> int:
    """How many arrays of activations a gradient keeps at its peak."""
    rows, width, layers = 128, 64, 6

    def loss(weights: Any, x: Any) -> Any:
        for i in range(layers):
            x = jnp.sin(jnp.exp(jnp.cos(x)) * x) @ weights[i]
        return x.sum()

    arguments = jnp.ones((layers, width, width)), jnp.ones((rows, width))
    compiled = pyjax.jit(pyjax.grad(loss)).lower(*arguments).compile()
    return int(compiled.memory_analysis().temp_size_in_bytes) // (4 * rows * width)


@effect("jax_compiler_enable_remat_pass", False, default=few, changed=lambda n: n > 10)
def compiler_enable_remat_pass() -> int:
    pyjax.config.update("jax_memory_fitting_level", "O3")
    return arrays_at_once()


@effect("jax_embedded_constants_max_bytes", 1000, default=False, changed=True)
def array_in_the_program() -> bool:
    """Whether a program holds the numbers of an array that the function closes over."""
    captured = np.arange(100, dtype=np.float32)
    text = pyjax.jit(lambda x: x * captured).lower(1.0).as_text("hlo")
    return "constant({0, 1, 2, 3" in text.replace("\n", "")
