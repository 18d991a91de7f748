"""Options for finding errors: checks, tracebacks, error behaviour."""

from __future__ import annotations

from .kinds import Bool, Enum, Int, Optional, Str
from .registry import Affects, Scope, option

check_vma = option(
    "check_vma",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Types of traced values say along which mesh axes these vary. shard_map sets it for its "
    "function, by its argument of this name.",
)

eager_constant_folding = option(
    "eager_constant_folding",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Fold constant expressions while tracing.",
)

array_garbage_collection_guard = option(
    "jax_array_garbage_collection_guard",
    kind=Optional(Enum(("allow", "log", "fatal"))),
    default=None,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="What happens when only the cycle collector frees an array: allow, log or fatal.",
)

check_tracer_leaks = option(
    "jax_check_tracer_leaks",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="At the end of a trace, raise if one of its tracers is still referenced, and say by what.",
)

custom_vjp_disable_shape_check = option(
    "jax_custom_vjp_disable_shape_check",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Accept cotangents of another shape from custom_vjp rules.",
)

debug_infs = option(
    "jax_debug_infs",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Check the results of every program: raise FloatingPointError that names what made an "
    "infinity. One that reaches no result is no error.",
)

debug_nans = option(
    "jax_debug_nans",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Check the results of every program: raise FloatingPointError that names what made a NaN. "
    "One that reaches no result is no error (see jax_error_checking_behavior_nan).",
)

disable_jit = option(
    "jax_disable_jit",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Run functions under jit and checkpoint, loops, branches and rules one operation after "
    "the other in Python, where print and debuggers see values.",
    interactions="Options of compilation then act on single operations only.",
)

disable_vmap_shmap_error = option(
    "jax_disable_vmap_shmap_error",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Do not raise for vmap of shard_map whose spmd_axis_name is in one of the specs.",
)

disallow_mesh_context_manager = option(
    "jax_disallow_mesh_context_manager",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="Make `with mesh:` an error.",
)

enable_checks = option(
    "jax_enable_checks",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Check jaxprs and HLO between stages.",
)

enable_custom_vjp_by_custom_transpose = option(
    "jax_enable_custom_vjp_by_custom_transpose",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Make custom_vjp a custom_jvp whose rule makes a linear_call, transposed by bwd.",
)

enable_empty_arrays = option(
    "jax_enable_empty_arrays",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="make_array_from_single_device_arrays makes arrays of which this process has no part.",
)

error_checking_behavior_divide = option(
    "jax_error_checking_behavior_divide",
    kind=Enum(("ignore", "raise")),
    default="ignore",
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="What a zero divisor of any division does, integer or not, used or not: ignore or raise.",
)

error_checking_behavior_nan = option(
    "jax_error_checking_behavior_nan",
    kind=Enum(("ignore", "raise")),
    default="ignore",
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="What a NaN in the result of any operation does, whether it reaches a result of the "
    "program or not: ignore or raise.",
)

error_checking_behavior_oob = option(
    "jax_error_checking_behavior_oob",
    kind=Enum(("ignore", "raise")),
    default="ignore",
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="What an index out of bounds does where the user gave no mode that says so: ignore "
    "(clamp, fill or drop, as is usual) or raise.",
)

experimental_unsafe_xla_runtime_errors = option(
    "jax_experimental_unsafe_xla_runtime_errors",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="A failed checkify.check raises from inside a compiled program; otherwise a program with "
    "a check is not compiled, unless checkify makes a value of the error.",
)

hlo_source_file_canonicalization_regex = option(
    "jax_hlo_source_file_canonicalization_regex",
    kind=Optional(Str()),
    default=None,
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="Remove what this regular expression matches from source paths in HLO metadata.",
)

include_debug_info_in_dumps = option(
    "jax_include_debug_info_in_dumps",
    kind=Str(),
    default="True",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Write source locations into dumped programs.",
)

include_full_tracebacks_in_locations = option(
    "jax_include_full_tracebacks_in_locations",
    kind=Bool(),
    default=True,
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="Operations of lowered programs name the functions that called their line, too.",
)

mutable_array_checks = option(
    "jax_mutable_array_checks",
    kind=Bool(),
    default=True,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Raise if a transformed function gets one mutable reference by two names, or returns one.",
)

no_tracing = option(
    "jax_no_tracing",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="Raise if jit would have to trace a function.",
)

pprint_use_color = option(
    "jax_pprint_use_color",
    kind=Bool(),
    default=True,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Colour jaxprs printed to a terminal.",
)

traceback_filtering = option(
    "jax_traceback_filtering",
    kind=Enum(("off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto")),
    default="auto",
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="How much of the library a user traceback shows.",
)

traceback_in_locations_limit = option(
    "jax_traceback_in_locations_limit",
    kind=Int(low=-1),
    default=10,
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="How many stack frames an operation of the lowered program carries; -1: all.",
)

tracer_error_num_traceback_frames = option(
    "jax_tracer_error_num_traceback_frames",
    kind=Int(low=0),
    default=5,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="How many frames errors about tracers show.",
)

use_direct_linearize = option(
    "jax_use_direct_linearize",
    kind=Bool(),
    default=True,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Linearize in one trace, without going through jvp and partial evaluation.",
)

captured_constants_warn_bytes = option(
    "jax_captured_constants_warn_bytes",
    kind=Int(-1),
    default=2_000_000_000,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Warn of programs that close over more bytes of arrays than this; -1 never.",
)

check_static_indices = option(
    "jax_check_static_indices",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Reading x[i] with an integer i known while tracing and out of bounds raises IndexError.",
)

no_execution = option(
    "jax_no_execution",
    kind=Bool(),
    default=False,
    affects=Affects.COMPILE,
    scope=Scope.THREAD,
    help="Running a program raises RuntimeError; tracing and ahead-of-time compilation do not.",
)
