"""XLA flags about programs of several devices or processes that do nothing here, and why."""

from __future__ import annotations

_ONE_STREAM = (
    "collectives of programs for GPUs are in the order of the one stream that a device has: none "
    "goes on beside other work"
)
_MEMORY = "collectives of programs for GPUs work in the program's own memory, as it was allocated"
_BY_NCCL = "collectives of programs for GPUs are calls of NCCL, and kernels where it has none"
_NCCL_DECIDES = "NCCL decides itself, or by its own variables (NCCL_*); CuPy's calls do not say it"
_ONE_PROCESS = "all GPUs of a program are of one process, whose communicators are made together"
_PRODUCTS = "what products need of sharded operands is gathered before them, in one piece"
_NOT_REWRITTEN = "collectives stay as partitioning and programs made them, but for those combined"
_ENDS = (
    "no process is aborted: members that never come are noticed at once, and runs that are not "
    "over end after xla_gpu_nccl_termination_timeout_seconds, by an error"
)
_TIMES = "the order of instructions depends on memory; no time of collectives is estimated"

INERT_DISTRIBUTION_FLAGS: dict[str, str] = {
    "xla_cpu_collective_call_terminate_timeout_seconds": (
        "no process is aborted: members in one process that never come are noticed at once, and "
        "waits for other processes end by an error, at the latest after "
        "xla_cpu_collective_timeout_seconds"
    ),
    "xla_enable_hlo_sharding_v3": (
        "shardings that name the axes of a mesh are printed so, others as tiles, and both are read"
    ),
    "xla_keep_shardings_after_spmd": (
        "a partitioned program is the program of one device: its arrays are not cut any more"
    ),
    "xla_partitioning_algorithm": (
        "shardings that nobody gave are propagated from those that are given; there is no search"
    ),
    "xla_sdy_export_all_reduce_scatter": (
        "sums whose users want a part are partitioned as reduce-scatters from the start"
    ),
    "xla_gpu_mock_custom_calls": "custom calls of programs for GPUs run",
    "xla_gpu_experimental_use_ragged_dot_fusion": "ragged products are made of ordinary ones",
    "xla_gpu_experimental_use_ragged_dot_grouped_gemm": "ragged products are made of ordinary ones",
    **dict.fromkeys(
        (
            "xla_gpu_collective_inflation_factor",
            "xla_gpu_enable_approx_costly_collectives",
            "xla_gpu_experimental_collective_perf_table_path",
        ),
        _TIMES,
    ),
    "xla_gpu_shard_autotuning": "each process chooses kernels for itself",
    **dict.fromkeys(
        (
            "xla_gpu_disable_async_collectives",
            "xla_gpu_enable_pipelined_all_gather",
            "xla_gpu_enable_pipelined_all_reduce",
            "xla_gpu_enable_pipelined_reduce_scatter",
            "xla_gpu_experimental_collective_start_as_early_as_possible",
            "xla_gpu_experimental_enable_collective_multi_streaming",
            "xla_gpu_experimental_parallel_collective_overlap_limit",
        ),
        _ONE_STREAM,
    ),
    **dict.fromkeys(
        (
            "xla_gpu_all_gather_mode",
            "xla_gpu_collective_permute_mode",
            "xla_gpu_enable_nccl_user_buffers",
            "xla_gpu_experimental_enable_nccl_symmetric_buffers",
            "xla_gpu_experimental_ragged_all_to_all_zero_copy",
            "xla_gpu_ragged_all_to_all_mode",
        ),
        _MEMORY,
    ),
    **dict.fromkeys(
        (
            "xla_gpu_collectives_implementation",
            "xla_gpu_experimental_enable_nvshmem",
            "xla_gpu_experimental_ragged_all_to_all_use_barrier",
            "xla_gpu_experimental_ragged_all_to_all_use_barrier_with_nccl",
            "xla_gpu_unsupported_enable_ragged_all_to_all_decomposer",
            "xla_gpu_unsupported_enable_ragged_all_to_all_multi_host_decomposer",
            "xla_gpu_unsupported_use_all_reduce_one_shot_kernel",
            "xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel",
        ),
        _BY_NCCL,
    ),
    **dict.fromkeys(
        (
            "xla_gpu_nccl_async_execution",
            "xla_gpu_nccl_blocking_communicators",
            "xla_gpu_nccl_collective_max_nchannels",
            "xla_gpu_nccl_p2p_max_nchannels",
        ),
        _NCCL_DECIDES,
    ),
    **dict.fromkeys(
        (
            "xla_gpu_all_reduce_blueconnect_num_devices_per_host",
            "xla_gpu_enable_nccl_clique_optimization",
            "xla_gpu_enable_nccl_comm_splitting",
            "xla_gpu_nccl_init_max_rank_per_root_ratio",
        ),
        _ONE_PROCESS,
    ),
    **dict.fromkeys(
        (
            "xla_gpu_experimental_enable_alltoall_windowed_einsum",
            "xla_gpu_multi_streamed_windowed_einsum",
            "xla_gpu_operand_bytes_threshold_for_windowed_einsum",
            "xla_gpu_threshold_for_windowed_einsum_mib",
        ),
        _PRODUCTS,
    ),
    **dict.fromkeys(
        (
            "xla_gpu_auto_spmd_partitioning_memory_budget_gb",
            "xla_gpu_auto_spmd_partitioning_memory_budget_ratio",
            "xla_gpu_collective_permute_combine_threshold_bytes",
            "xla_gpu_collective_permute_connected_components",
            "xla_gpu_collective_permute_decomposer_threshold",
            "xla_gpu_enable_all_gather_combine_by_dim",
            "xla_gpu_enable_reduce_scatter_combine_by_dim",
            "xla_gpu_enable_while_loop_reduce_scatter_code_motion",
            "xla_gpu_experimental_collective_cse_distance_threshold",
            "xla_gpu_experimental_enable_heuristic_collective_combining",
            "xla_gpu_unsupported_enable_all_reduce_decomposer",
        ),
        _NOT_REWRITTEN,
    ),
    **dict.fromkeys(
        (
            "xla_gpu_first_collective_call_terminate_timeout_seconds",
            "xla_gpu_first_collective_call_warn_stuck_timeout_seconds",
            "xla_gpu_nccl_terminate_on_error",
        ),
        _ENDS,
    ),
}
