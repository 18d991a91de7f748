"""What the XLA flags change in a compilation: from DebugOptions to CompileOptions.

Every flag that is read here, and `_ELSEWHERE`, acts; all others are accepted and do nothing.
"""

from __future__ import annotations

from typing import Any

from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import DebugOptions, FlagError, changed_flags
from xla_backend.dump_options import DumpOptions
from xla_backend.gpu_options import GpuOptions

# Flag -> field of DumpOptions.
_DUMP_FIELDS = {
    "xla_dump_to": "to",
    "xla_dump_hlo_as_text": "as_text",
    "xla_dump_hlo_as_proto": "as_proto",
    "xla_dump_hlo_as_dot": "as_dot",
    "xla_dump_hlo_as_html": "as_html",
    "xla_dump_hlo_as_url": "as_url",
    "xla_dump_compress_protos": "compress_protos",
    "xla_dump_hlo_snapshots": "snapshots",
    "xla_dump_hlo_unoptimized_snapshots": "unoptimized_snapshots",
    "xla_dump_hlo_pass_re": "pass_re",
    "xla_dump_hlo_pipeline_re": "pipeline_re",
    "xla_dump_hlo_module_re": "module_re",
    "xla_dump_emitter_re": "emitter_re",
    "xla_dump_max_hlo_modules": "max_modules",
    "xla_dump_include_timestamp": "timestamp",
    "xla_dump_hlo_to_subfolder": "subfolder",
    "xla_dump_hlo_as_long_text": "long_text",
    "xla_dump_large_constants": "large_constants",
    "xla_dump_enable_mlir_pretty_form": "pretty_mlir",
    "xla_dump_buffer_assignment_analysis": "buffer_analysis",
    "xla_dump_fusion_visualization": "fusion_visualization",
    "xla_dump_module_metadata": "module_metadata",
    "xla_hlo_graph_addresses": "graph_addresses",
    "xla_hlo_graph_sharding_color": "graph_sharding_color",
}

# Flag -> name in CompileOptions.audits.
_AUDITS = {
    "xla_hlo_pass_fix_detect_cycles": "cycles",
    "xla_unsupported_crash_on_hlo_pass_fix_max_iterations": "max-iterations",
    "xla_unsupported_crash_on_hlo_pass_noop_change": "no-op-change",
    "xla_unsupported_crash_on_hlo_pass_silent_hlo_change": "silent-change",
}

# With xla_cpu_enable_fast_math: LLVM's flag, and the flag that keeps it off.
_FAST_MATH = (
    ("reassoc", ""),
    ("nsz", ""),
    ("contract", ""),
    ("nnan", "xla_cpu_fast_math_honor_nans"),
    ("ninf", "xla_cpu_fast_math_honor_infs"),
    ("arcp", "xla_cpu_fast_math_honor_division"),
    ("afn", "xla_cpu_fast_math_honor_functions"),
)

_PRESETS = {
    "CPU_OPT_PRESET_DEFAULT": None,
    "CPU_OPT_PRESET_FAST_RUNTIME": 3,
    "CPU_OPT_PRESET_FAST_COMPILE": 1,
}

_DETECTION = {
    "DETECTION_MODE_NONE": "",
    "DETECTION_MODE_WARNING": "warn",
    "DETECTION_MODE_FAIL": "fail",
}

# Any of them asks for results that have the same bits in each run.
_DETERMINISM = (
    "xla_gpu_deterministic_ops",
    "xla_gpu_enable_scatter_determinism_expander",
    "xla_gpu_exclude_nondeterministic_ops",
)

# Flag -> field of GpuOptions.
_GPU_FIELDS = {
    "xla_gpu_all_gather_combine_threshold_bytes": "all_gather_bytes",
    "xla_gpu_all_reduce_combine_threshold_bytes": "all_reduce_bytes",
    "xla_gpu_autotune_level": "autotune_level",
    "xla_gpu_collective_combine_threshold_count": "combined_collectives",
    "xla_gpu_cuda_data_dir": "toolkit",
    "xla_gpu_dump_autotune_results_to": "autotune_results",
    "xla_gpu_fail_ptx_compilation_on_register_spilling": "refuse_spills",
    "xla_gpu_ftz": "flush_denormals",
    "xla_gpu_llvm_ir_file": "llvm_files",
    "xla_gpu_load_autotune_results_from": "autotuned_before",
    "xla_gpu_nccl_termination_timeout_seconds": "collective_timeout",
    "xla_gpu_ptx_file": "ptx_files",
    "xla_gpu_reduce_scatter_combine_threshold_bytes": "reduce_scatter_bytes",
}

_COMPILATION = frozenset(
    {
        "xla_backend_optimization_level",
        "xla_cpu_enable_concurrency_optimized_scheduler",
        "xla_cpu_enable_fast_math",
        "xla_cpu_max_isa",
        "xla_cpu_multi_thread_eigen",
        "xla_cpu_opt_preset",
        "xla_cpu_parallel_codegen_split_count",
        "xla_cpu_prefer_vector_width",
        "xla_detect_unstable_reductions",
        "xla_detect_unstable_reductions_post_optimizations",
        "xla_disable_all_hlo_passes",
        "xla_disable_hlo_passes",
        "xla_enable_hlo_passes_only",
        "xla_fuel",
        "xla_gpu_disable_gpuasm_optimizations",
        "xla_gpu_enable_command_buffer",
        "xla_gpu_ptx_compiler_extra_flags",
    }
)
# Read where devices are made, where the environment variable is, and while programs run.
_ELSEWHERE = frozenset(
    {
        "xla_cpu_collective_call_warn_stuck_timeout_seconds",
        "xla_cpu_collective_timeout_seconds",
        "xla_dump_disable_metadata",
        "xla_flags_reset",
        "xla_force_host_platform_device_count",
    }
)

ACTING = (
    frozenset(_DUMP_FIELDS)
    | frozenset(_AUDITS)
    | frozenset(_DETERMINISM)
    | frozenset(_GPU_FIELDS)
    | frozenset(guard for _, guard in _FAST_MATH if guard)
    | _COMPILATION
    | _ELSEWHERE
)


def with_flags(base: CompileOptions, flags: DebugOptions) -> CompileOptions:
    """`base` with what the flags say; flags at their defaults change nothing.

    Raises:
      FlagError: flags that contradict each other, or a value that makes no sense here.
    """
    changed = dict(changed_flags(flags))
    if not changed:
        return base
    if "xla_disable_hlo_passes" in changed and "xla_enable_hlo_passes_only" in changed:
        raise FlagError(
            "--xla_disable_hlo_passes and --xla_enable_hlo_passes_only exclude each other; "
            "give one of them"
        )
    fields: dict[str, Any] = _pass_fields(base, flags, changed)
    fields |= _code_fields(flags, changed)
    fields["gpu"] = _gpu_options(base.gpu, flags, changed)
    dump = dump_options(flags, changed)
    if dump.wanted:
        fields["dump"] = dump
    return base._replace(**fields)


def _pass_fields(
    base: CompileOptions, flags: DebugOptions, changed: dict[str, Any]
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "disable_all_passes": flags.xla_disable_all_hlo_passes,
        "fuel": flags.xla_fuel,
        "unstable_reductions": (
            _DETECTION[flags.xla_detect_unstable_reductions],
            _DETECTION[flags.xla_detect_unstable_reductions_post_optimizations],
        ),
        "audits": base.audits | {name for flag, name in _AUDITS.items() if getattr(flags, flag)},
    }
    if flags.xla_disable_hlo_passes:
        fields["disabled_passes"] = base.disabled_passes | set(flags.xla_disable_hlo_passes)
    if flags.xla_enable_hlo_passes_only:
        fields["enabled_passes"] = frozenset(flags.xla_enable_hlo_passes_only)
    level = _PRESETS[flags.xla_cpu_opt_preset]
    if level is not None:
        fields["optimization_level"] = level
    if flags.xla_backend_optimization_level <= 0:
        fields["optimization_level"] = fields["memory_fitting_level"] = 0
    return fields


def _code_fields(flags: DebugOptions, changed: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"max_isa": flags.xla_cpu_max_isa.upper()}
    fields["overlap_collectives"] = flags.xla_cpu_enable_concurrency_optimized_scheduler
    fields["parallel_codegen"] = flags.xla_cpu_parallel_codegen_split_count
    if not flags.xla_cpu_multi_thread_eigen:
        fields["num_threads"] = 1
    if "xla_cpu_prefer_vector_width" in changed:
        fields["vector_bits"] = flags.xla_cpu_prefer_vector_width
    if flags.xla_cpu_enable_fast_math:
        fields["fast_math"] = tuple(
            name for name, guard in _FAST_MATH if not guard or not getattr(flags, guard)
        )
    return fields


def _gpu_options(base: GpuOptions, flags: DebugOptions, changed: dict[str, Any]) -> GpuOptions:
    fields = {field: changed[flag] for flag, field in _GPU_FIELDS.items() if flag in changed}
    if any(getattr(flags, flag) for flag in _DETERMINISM):
        fields["deterministic"] = True
    assembler = tuple(flags.xla_gpu_ptx_compiler_extra_flags)
    if flags.xla_gpu_disable_gpuasm_optimizations:
        assembler = ("-O0", *assembler)
    if assembler:
        fields["assembler_flags"] = assembler
    if not flags.xla_gpu_enable_command_buffer:
        fields["graphs"] = False
    return base._replace(**fields)


def dump_options(flags: DebugOptions, changed: dict[str, Any]) -> DumpOptions:
    """What the `xla_dump_*` flags ask for."""
    fields = {field: getattr(flags, flag) for flag, field in _DUMP_FIELDS.items()}
    metadata = not flags.xla_dump_disable_metadata
    return DumpOptions(**fields, metadata=metadata, flags=tuple(changed.items()))
