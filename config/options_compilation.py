"""Options of the compiler, its caches and export."""

from __future__ import annotations

from collections.abc import Callable

from .kinds import Bool, Enum, Float, Int, Optional, Str
from .registry import Affects, Scope, Values, option


def _measures(value: Values) -> bool:
    """Whether programs are measured and compiled again."""
    return bool(value("jax_enable_pgle") and value("jax_pgle_profiling_runs"))


def _level(name: str) -> Callable[[Values], str]:
    """UNKNOWN is another name of O2."""
    return lambda value: "O2" if value(name) == "UNKNOWN" else value(name)


jax2tf_associative_scan_reductions = option(
    "jax2tf_associative_scan_reductions",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Lower cumulative reductions to an associative scan.",
)

jax2tf_default_native_serialization = option(
    "jax2tf_default_native_serialization",
    kind=Bool(),
    default=True,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Belongs to a converter to another framework.",
    no_effect="that converter is not part of pyjax",
)

compilation_cache_dir = option(
    "jax_compilation_cache_dir",
    kind=Optional(Str()),
    default=None,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Directory of the persistent compilation cache; unset, the user's cache directory.",
)

compilation_cache_expect_pgle = option(
    "jax_compilation_cache_expect_pgle",
    kind=Bool(),
    default=False,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Prefer persistent entries compiled with measured costs; warn where there are none.",
)

compilation_cache_include_metadata_in_key = option(
    "jax_compilation_cache_include_metadata_in_key",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Make source locations part of persistent cache keys.",
)

compilation_cache_max_size = option(
    "jax_compilation_cache_max_size",
    kind=Int(low=-1),
    default=-1,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Size limit of the persistent cache in bytes; 0: no cache; -1: none, or 1 GiB unless "
    "jax_compilation_cache_dir names a directory.",
)

compiler_enable_remat_pass = option(
    "jax_compiler_enable_remat_pass",
    kind=Bool(),
    default=True,
    affects=Affects.COMPILE,
    scope=Scope.GLOBAL,
    help="Let the compiler recompute values to save memory.",
)

disable_most_optimizations = option(
    "jax_disable_most_optimizations",
    kind=Bool(),
    default=False,
    affects=Affects.COMPILE,
    scope=Scope.GLOBAL,
    help="Compile quickly instead of well.",
    interactions="It wins over jax_optimization_level.",
)

enable_compilation_cache = option(
    "jax_enable_compilation_cache",
    kind=Bool(),
    default=True,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Use the persistent compilation cache.",
)

enable_pgle = option(
    "jax_enable_pgle",
    kind=Bool(),
    default=False,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Measure the first runs of each program, then compile it again: which of its kernels are "
    "handed to threads, and in how many blocks, goes by what they took.",
    interactions="jax_pgle_profiling_runs says how many runs, jax_pgle_aggregation_percentile what "
    "is taken of them; with jax_compilation_cache_expect_pgle a program that is on disk with "
    "measured costs is not measured again.",
    in_key=_measures,
)

exec_time_optimization_effort = option(
    "jax_exec_time_optimization_effort",
    kind=Float(-1, 1),
    default=0.0,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Effort spent on run time, -1 to 1.",
    interactions="It moves jax_optimization_level by up to two steps; XLA_FLAGS win over both.",
)

export_calling_convention_version = option(
    "jax_export_calling_convention_version",
    kind=Int(),
    default=9,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Calling convention that programs are exported with, 9 or 10; others raise at the export.",
)

export_ignore_forward_compatibility = option(
    "jax_export_ignore_forward_compatibility",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Serialize exported programs in the newest format, which is compressed, instead of the "
    "oldest, which every version reads.",
)

memory_fitting_effort = option(
    "jax_memory_fitting_effort",
    kind=Float(-1, 1),
    default=0.0,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Effort spent on lower memory use, -1 to 1.",
)

memory_fitting_level = option(
    "jax_memory_fitting_level",
    kind=Enum(("UNKNOWN", "O0", "O1", "O2", "O3")),
    default="O2",
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Effort spent on lower memory use, O0 to O3.",
    in_key=_level("jax_memory_fitting_level"),
)

optimization_level = option(
    "jax_optimization_level",
    kind=Enum(("UNKNOWN", "O0", "O1", "O2", "O3")),
    default="UNKNOWN",
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Effort of the compiler, O0 to O3; UNKNOWN is O2.",
    interactions="jax_exec_time_optimization_effort moves it; XLA_FLAGS win over both.",
    in_key=_level("jax_optimization_level"),
)

persistent_cache_enable_xla_caches = option(
    "jax_persistent_cache_enable_xla_caches",
    kind=Str(),
    default="xla_gpu_per_fusion_autotune_cache_dir",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Which compiler-internal caches live in the persistent cache: 'none', or pyjax's library "
    "routines, whatever is named.",
)

persistent_cache_min_compile_time_secs = option(
    "jax_persistent_cache_min_compile_time_secs",
    kind=Float(low=0),
    default=1.0,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Persist only programs that took at least this long to compile; unset, pyjax keeps all.",
)

persistent_cache_min_entry_size_bytes = option(
    "jax_persistent_cache_min_entry_size_bytes",
    kind=Int(low=-1),
    default=0,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Persist only entries of at least this size.",
)

pgle_aggregation_percentile = option(
    "jax_pgle_aggregation_percentile",
    kind=Int(0, 100),
    default=90,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Which of a kernel's measured times is taken as its cost: the least that so many percent "
    "of them do not exceed.",
    interactions="It acts where jax_enable_pgle is set.",
    in_key=lambda value: value("jax_pgle_aggregation_percentile") if _measures(value) else None,
)

pgle_profiling_runs = option(
    "jax_pgle_profiling_runs",
    kind=Int(low=0),
    default=3,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Runs that are measured before a program is compiled again; 0: none, it is compiled once.",
    interactions="It acts where jax_enable_pgle is set.",
    in_key=lambda value: value("jax_pgle_profiling_runs") if _measures(value) else None,
)

raise_persistent_cache_errors = option(
    "jax_raise_persistent_cache_errors",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Raise errors of the persistent cache instead of warning.",
)

remove_custom_partitioning_ptr_from_cache_key = option(
    "jax_remove_custom_partitioning_ptr_from_cache_key",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Leave pointers of custom partitioning out of persistent cache keys.",
)

use_shardy_partitioner = option(
    "jax_use_shardy_partitioner",
    kind=Bool(),
    default=True,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Write shardings of programs in Shardy's dialect (`sdy.sharding`, "
    "`sdy.manual_computation`): the text and the module of what is lowered, and of what is "
    "exported. Off: as HLO has them (`mhlo.sharding`). What is compiled is the same.",
)

xla_profile_version = option(
    "jax_xla_profile_version",
    kind=Int(),
    default=0,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Version of profiles, recorded with what is compiled; programs on disk have one.",
)

embedded_constants_max_bytes = option(
    "jax_embedded_constants_max_bytes",
    kind=Int(0),
    default=64,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Closed-over arrays up to this size are constants of the program, where they can be "
    "folded; larger ones are passed to it as arguments. JAX's default is 32.",
)
