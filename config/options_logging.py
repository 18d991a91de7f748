"""Options for logging, dumping and profiling."""

from __future__ import annotations

from .kinds import Bool, Directory, Enum, Int, Str
from .registry import Affects, Scope, option

compiler_detailed_logging_min_ops = option(
    "jax_compiler_detailed_logging_min_ops",
    kind=Int(low=0),
    default=10,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Log compilations of programs with at least this many operations in detail.",
    interactions="Compilations are logged if jax_log_compiles is on.",
)

debug_log_modules = option(
    "jax_debug_log_modules",
    kind=Str(),
    default="",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Comma-separated modules whose debug messages are shown.",
    interactions="A module that is named here is shown whatever jax_logging_level is.",
)

distributed_debug = option(
    "jax_distributed_debug",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Log what each process of a distributed program does.",
)

dump_ir_to = option(
    "jax_dump_ir_to",
    kind=Directory(),
    default="",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Directory for the jaxpr and HLO of every compilation; empty: none.",
)

explain_cache_misses = option(
    "jax_explain_cache_misses",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="Log why a call to a jitted function had to trace again.",
    interactions="The warnings go to the loggers that jax_logging_level is about.",
)

log_checkpoint_residuals = option(
    "jax_log_checkpoint_residuals",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="Log what checkpoint keeps for the backward pass.",
)

log_compiles = option(
    "jax_log_compiles",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="Log a warning for each trace and compilation, with its time.",
    interactions="The warnings go to the loggers that jax_logging_level is about.",
)

logging_level = option(
    "jax_logging_level",
    kind=Enum(("NOTSET", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")),
    default="NOTSET",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Level of the pyjax logger.",
)
