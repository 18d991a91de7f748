"""One line of meaning for each XLA flag; where a flag acts, what it does in this compiler."""

from __future__ import annotations

MEANINGS: dict[str, str] = {
    "xla_allow_excess_precision": "Permit dropping f32-to-bf16-to-f32 rounding steps.",
    "xla_allow_h2h_copy_when_automatic_host_compute_offload_disabled": (
        "Permit host-to-host copies although automatic host offloading is off."
    ),
    "xla_backend_extra_options": (
        "Comma list of key[=val] backend options; unknown ones go to LLVM."
    ),
    "xla_backend_optimization_level": (
        "0 leaves out what correctness does not need; 1 to 3 are alike here."
    ),
    "xla_cmd_buffer_trace_cache_size": "Traced command buffers cached per executable.",
    "xla_cpu_collective_call_terminate_timeout_seconds": (
        "Abort when CPU collective rendezvous waits this long."
    ),
    "xla_cpu_collective_call_warn_stuck_timeout_seconds": (
        "Warn when CPU collective waits this long."
    ),
    "xla_cpu_collective_timeout_seconds": "How long one CPU collective waits for other processes.",
    "xla_cpu_copy_insertion_use_region_analysis": "Finer live-range analysis when removing copies.",
    "xla_cpu_emitter_verification_level": "How often emitted MLIR is verified.",
    "xla_cpu_enable_concurrency_optimized_scheduler": (
        "Participants of collectives on CPUs run other steps while they wait for others."
    ),
    "xla_cpu_enable_fast_math": "Let LLVM treat float arithmetic as if it were exact.",
    "xla_cpu_enable_fast_min_max": "Let min and max swallow NaN; as under JAX, they never do.",
    "xla_cpu_enable_platform_dependent_math": "Use host-specific math; off for bit-stable results.",
    "xla_cpu_enable_xprof_traceme": "Emit profiler trace events around kernels.",
    "xla_cpu_experimental_enable_tiling_propagation": (
        "Derive tile sizes of CPU fusions from their consumers."
    ),
    "xla_cpu_experimental_onednn_custom_call": "Call oneDNN through custom calls.",
    "xla_cpu_experimental_onednn_fusion_type": "Which kinds of fusions oneDNN may run.",
    "xla_cpu_experimental_xnn_fusion_type": "Which kinds of fusions XNNPACK may run.",
    "xla_cpu_experimental_xnn_graph_fusion_mode": "How fusions for XNNPACK are grown.",
    "xla_cpu_experimental_ynn_fusion_type": "Which kinds of fusions YNNPACK may run.",
    "xla_cpu_fast_math_honor_division": "With fast math: no reciprocal division.",
    "xla_cpu_fast_math_honor_functions": "With fast math: no approximate functions.",
    "xla_cpu_fast_math_honor_infs": "With fast math: still respect infinities.",
    "xla_cpu_fast_math_honor_nans": "With fast math: still respect NaN.",
    "xla_cpu_ftz": "Flush subnormal numbers to zero; here they are kept.",
    "xla_cpu_max_isa": "Newest x86 instruction set to use: SSE4_2, AVX, AVX2, AVX512.",
    "xla_cpu_multi_thread_eigen": "false: the program runs on the calling thread alone.",
    "xla_cpu_opt_preset": "FAST_COMPILE is level O1, FAST_RUNTIME is O3.",
    "xla_cpu_parallel_codegen_split_count": "Most LLVM modules that are compiled in parallel.",
    "xla_cpu_prefer_vector_width": "Widest vector register in bits; unless set, the machine's.",
    "xla_cpu_scheduler_type": "HLO order: default, memory or concurrency optimised.",
    "xla_cpu_strict_dot_conv_math": "Keep f16 dot/conv in f16 instead of f32.",
    "xla_cpu_use_acl": "Use Arm Compute Library calls.",
    "xla_cpu_use_fusion_emitters": "Use the MLIR fusion emitters.",
    "xla_cpu_use_onednn": "Use oneDNN for matmul and convolution fusions.",
    "xla_cpu_use_thunk_runtime": "No-op now; prints deprecation warning.",
    "xla_cpu_use_xnnpack": "Allow XNNPACK library kernels.",
    "xla_debug_buffer_assignment_show_max": "How many buffers to list in OOM reports.",
    "xla_detect_unstable_reductions": (
        "Warn or fail on low-precision reductions before optimisation."
    ),
    "xla_detect_unstable_reductions_post_optimizations": "Same check after optimisation.",
    "xla_disable_all_hlo_passes": "Leave out every pass that correctness does not need.",
    "xla_disable_automatic_host_compute_offload": "Never move computations to the host by itself.",
    "xla_disable_hlo_passes": "Names of passes and phases to skip; repeated uses append.",
    "xla_dump_buffer_assignment_analysis": "Write the values and live ranges of buffers.",
    "xla_dump_compress_protos": "Gzip dumped HLO protos (.pb.gz).",
    "xla_dump_disable_metadata": "Leave instruction metadata and stack tables out of text dumps.",
    "xla_dump_emitter_re": "Write LLVM IR and assembly of kernels whose name matches.",
    "xla_dump_enable_mlir_pretty_form": "Dump MLIR in custom rather than generic form.",
    "xla_dump_full_hlo_config": "Include the whole module config in proto dumps.",
    "xla_dump_fusion_visualization": "Write a page that shows the program before and after fusion.",
    "xla_dump_hlo_as_dot": "Dump Graphviz .dot graphs instead of text.",
    "xla_dump_hlo_as_html": "Write drawings of the program as HTML pages.",
    "xla_dump_hlo_as_long_text": (
        "Use long text (percent signs, stack frames); false gives shorter form."
    ),
    "xla_dump_hlo_as_proto": "Dump HloProto binaries (.hlo.pb) instead of text.",
    "xla_dump_hlo_as_text": "Write HLO text, also next to other formats.",
    "xla_dump_hlo_as_url": "Print a graph URL; there is no renderer, so an error line.",
    "xla_dump_hlo_module_re": "Only dump modules whose name matches regex.",
    "xla_dump_hlo_pass_re": "Write HLO around passes whose name matches.",
    "xla_dump_hlo_pipeline_re": "Restrict pass dumps to matching pipelines; needs pass regex too.",
    "xla_dump_hlo_snapshots": "Write HloSnapshot proto with inputs and result on each execution.",
    "xla_dump_hlo_to_subfolder": "Put files into MODULE/HOST_PID below the directory.",
    "xla_dump_hlo_unoptimized_snapshots": "Write unoptimized module plus inputs on each execution.",
    "xla_dump_include_timestamp": "Put the microsecond in front of names of HLO files.",
    "xla_dump_large_constants": "Print all constant elements instead of {...}.",
    "xla_dump_latency_hiding_schedule": "Dump the latency hiding scheduler trace.",
    "xla_dump_max_hlo_modules": "Stop after so many modules; a compilation counts two.",
    "xla_dump_module_metadata": "Write when each pass ran and what it changed.",
    "xla_dump_to": 'Directory for dumps, made with its parents; "-" is stdout.',
    "xla_early_exit_with_layouts": "Stop after layout assignment and return the layouts.",
    "xla_eliminate_hlo_implicit_broadcast": (
        "Turn implicit broadcasts into explicit ones when building HLO."
    ),
    "xla_embed_ir_in_executable": "Keep LLVM IR in executables; here it is always there.",
    "xla_enable_command_buffers_during_profiling": "Keep CUDA graphs while profiling.",
    "xla_enable_enzyme_comms_opt": "Communication optimisations of the Enzyme dialect.",
    "xla_enable_fast_math": "Target-independent unsafe float rewrites.",
    "xla_enable_hlo_passes_only": "Skip all other passes but those correctness needs.",
    "xla_enable_hlo_sharding_v3": "Use the third version of sharding annotations.",
    "xla_enable_rgv3_materialization": "Write out replica groups of the third version.",
    "xla_enable_scoped_logging_timers": "Log how long phases of a compilation take.",
    "xla_flags_reset": "Read XLA_FLAGS again the next time it is needed.",
    "xla_force_host_platform_device_count": "How many CPU devices there are.",
    "xla_fuel": "PASS=N pairs: the pass may rewrite N times, for bisecting.",
    "xla_gpu_algorithm_denylist_path": "File of library algorithms that must not be used.",
    "xla_gpu_all_gather_combine_threshold_bytes": "Combine all-gathers up to this many bytes.",
    "xla_gpu_all_gather_mode": "Which memory all-gather works in.",
    "xla_gpu_all_reduce_blueconnect_num_devices_per_host": (
        "Devices per host when all-reduce is split in levels."
    ),
    "xla_gpu_all_reduce_combine_threshold_bytes": "Combine all-reduces up to this many bytes.",
    "xla_gpu_analytical_latency_estimator_options": "Numbers of the analytical latency model.",
    "xla_gpu_async_dot": "Wrap GEMMs in async ops.",
    "xla_gpu_auto_spmd_partitioning_memory_budget_gb": (
        "Memory a device may use when shardings are chosen automatically."
    ),
    "xla_gpu_auto_spmd_partitioning_memory_budget_ratio": (
        "The same as a multiple of the lower bound."
    ),
    "xla_gpu_autotune_gemm_rtol": "Tolerance when autotuner cross-checks GEMM results.",
    "xla_gpu_autotune_level": "0 off; 1 on; 2 init; 3 reinit; 4 and check.",
    "xla_gpu_autotune_max_solutions": "Most candidates the autotuner tries; 0 for all.",
    "xla_gpu_collect_cost_model_stats": "Record what the cost model predicted.",
    "xla_gpu_collective_combine_threshold_count": "Most collectives that are combined into one.",
    "xla_gpu_collective_inflation_factor": "Factor on the estimated time of collectives.",
    "xla_gpu_collective_permute_combine_threshold_bytes": (
        "Combine collective-permutes up to this many bytes."
    ),
    "xla_gpu_collective_permute_connected_components": (
        "Treat connected parts of a permutation apart."
    ),
    "xla_gpu_collective_permute_decomposer_threshold": (
        "Split collective-permutes of at least this many bytes."
    ),
    "xla_gpu_collective_permute_mode": "Which memory collective-permute works in.",
    "xla_gpu_collectives_implementation": "Which collectives backend (nccl, nvshmem...).",
    "xla_gpu_command_buffer_scheduling_mode": (
        "How graph nodes are ordered (serial, concurrent, LHS)."
    ),
    "xla_gpu_command_buffer_unroll_loops": "Unroll loops while recording command buffers.",
    "xla_gpu_command_buffer_update_mode": "When recorded command buffers are updated.",
    "xla_gpu_copy_insertion_use_region_analysis": "Finer live-range analysis for copies.",
    "xla_gpu_crash_on_verification_failures": "Abort when a check of results fails.",
    "xla_gpu_cublas_fallback": "Autotuner may choose cuBLAS instead of Triton.",
    "xla_gpu_cuda_data_dir": "Where to look for ptxas and libdevice.",
    "xla_gpu_cudnn_gemm_fusion_level": "Try cuDNN for GEMM fusions (0 off to 3).",
    "xla_gpu_cudnn_gemm_max_plans": "Most cuDNN plans tried per matrix product.",
    "xla_gpu_default_to_alg_dot_bf16_bf16_f32": "Dots without an algorithm use bf16 with f32 sums.",
    "xla_gpu_detect_inf": "Check float outputs of thunks for infinity.",
    "xla_gpu_detect_nan": "Check float outputs of thunks for NaN.",
    "xla_gpu_deterministic_ops": "Only run-to-run deterministic kernels (old name).",
    "xla_gpu_deviceless_cub_mode": "How CUB scratch sizes are found without a device.",
    "xla_gpu_disable_async_collectives": "Collective kinds to keep synchronous.",
    "xla_gpu_disable_gpuasm_optimizations": "Run ptxas at -O0.",
    "xla_gpu_dot_merger_threshold_mb": "Merge sibling dots smaller than this.",
    "xla_gpu_dump_autotune_logs_to": "File the autotuner's log is written to.",
    "xla_gpu_dump_autotune_results_to": "File the autotuner's results are written to.",
    "xla_gpu_dump_autotuned_gemm_fusions": "Write the matrix product fusions that were tuned.",
    "xla_gpu_dump_autotuned_instructions": "Write the instructions that were tuned.",
    "xla_gpu_dump_llvmir": "Also dump LLVM IR of GPU kernels.",
    "xla_gpu_enable_all_gather_combine_by_dim": (
        "Combine only all-gathers along the same dimension."
    ),
    "xla_gpu_enable_analytical_latency_estimator": (
        "Estimate latencies by a model instead of a table."
    ),
    "xla_gpu_enable_analytical_sol_latency_estimator": (
        "Speed-of-light latency model for the scheduler."
    ),
    "xla_gpu_enable_approx_costly_collectives": "Use rough costs for expensive collectives.",
    "xla_gpu_enable_command_buffer": "Command kinds captured into CUDA graphs; +x/-x edits.",
    "xla_gpu_enable_cub_radix_sort": "Use CUB radix sort for simple sorts.",
    "xla_gpu_enable_cublaslt": "Use cuBLASLt instead of cuBLAS (deprecated switch).",
    "xla_gpu_enable_cudnn_fmha": "Old switch of cuDNN attention; does nothing in XLA either.",
    "xla_gpu_enable_cudnn_int8x32_convolution_reordering": (
        "Reorder filters of int8x32 convolutions."
    ),
    "xla_gpu_enable_cudnn_layer_norm": "Use cuDNN for layer normalisation.",
    "xla_gpu_enable_dus_accumulator_zero_init_elimination": (
        "Drop the zeros an accumulator starts with."
    ),
    "xla_gpu_enable_dynamic_slice_fusion": "Fuse dynamic slices into library calls.",
    "xla_gpu_enable_fast_min_max": "GPU min/max may swallow NaN.",
    "xla_gpu_enable_highest_priority_async_stream": (
        "Run collectives on the stream of highest priority."
    ),
    "xla_gpu_enable_host_memory_offloading": "Move arrays to host memory where that saves memory.",
    "xla_gpu_enable_latency_hiding_scheduler": "Overlap collectives with compute by scheduling.",
    "xla_gpu_enable_libnvjitlink": "Link with libnvjitlink.",
    "xla_gpu_enable_libnvptxcompiler": "Assemble PTX in the process instead of by ptxas.",
    "xla_gpu_enable_llvm_module_compilation_parallelism": (
        "Compile parts of an LLVM module in parallel."
    ),
    "xla_gpu_enable_nccl_clique_optimization": "Shrink NCCL cliques to the devices that take part.",
    "xla_gpu_enable_nccl_comm_splitting": "Split NCCL communicators instead of making new ones.",
    "xla_gpu_enable_nccl_user_buffers": "Register program buffers with NCCL.",
    "xla_gpu_enable_pdl": "Use programmatic dependent launch on Hopper and newer.",
    "xla_gpu_enable_pipelined_all_gather": "Start all-gathers an iteration ahead.",
    "xla_gpu_enable_pipelined_all_reduce": "Finish all-reduces an iteration later.",
    "xla_gpu_enable_pipelined_host_offloading": "Overlap host copies of neighbouring iterations.",
    "xla_gpu_enable_pipelined_p2p": "Overlap sends and receives of neighbouring iterations.",
    "xla_gpu_enable_pipelined_reduce_scatter": "Finish reduce-scatters an iteration later.",
    "xla_gpu_enable_reassociation_for_converted_ar": "Reorder all-reduces around conversions.",
    "xla_gpu_enable_reduce_scatter_combine_by_dim": (
        "Combine only reduce-scatters along the same dimension."
    ),
    "xla_gpu_enable_scatter_determinism_expander": "Rewrite scatters so that their order is fixed.",
    "xla_gpu_enable_triton_gemm": "Use Triton for GEMM fusions.",
    "xla_gpu_enable_triton_gemm_int4": "Old switch of int4 in Triton; does nothing in XLA either.",
    "xla_gpu_enable_while_loop_double_buffering": "Unroll loops by two to drop copies.",
    "xla_gpu_enable_while_loop_reduce_scatter_code_motion": "Move reduce-scatters out of loops.",
    "xla_gpu_enable_while_loop_unrolling": (
        "Loop unroll mode: none, double buffer, full, auto, manual."
    ),
    "xla_gpu_exclude_nondeterministic_ops": (
        "Reject kernels that vary between runs; autotune stays."
    ),
    "xla_gpu_executable_embed_debug_info": "Keep debug information in executables.",
    "xla_gpu_executable_num_communication_streams": "Streams for communication; 0 for the default.",
    "xla_gpu_executable_num_compute_streams": "Streams for kernels; 0 for the default.",
    "xla_gpu_executable_terminate_timeout": "Abort when executables wait for each other this long.",
    "xla_gpu_executable_warn_stuck_timeout": "Warn when executables wait for each other this long.",
    "xla_gpu_execution_progress_tracking": "Record how far an execution has come.",
    "xla_gpu_execution_terminate_timeout": "Abort an execution that takes this long.",
    "xla_gpu_exhaustive_tiling_search": "Search all tilings while autotuning.",
    "xla_gpu_experimental_all_fusions_with_triton": "Generate every fusion with Triton.",
    "xla_gpu_experimental_aot_compiled_thunks": "Build thunks ahead of time.",
    "xla_gpu_experimental_autotune_backends": "Which code generators the autotuner compares.",
    "xla_gpu_experimental_autotune_cache_mode": "Update or only read the autotune cache.",
    "xla_gpu_experimental_autotuner_cache_dir": "Directory of the autotuner's cache.",
    "xla_gpu_experimental_collective_cse_distance_threshold": (
        "How far apart equal collectives may be and still merge."
    ),
    "xla_gpu_experimental_collective_perf_table_path": "File of measured collective times.",
    "xla_gpu_experimental_collective_start_as_early_as_possible": (
        "Schedule starts of collectives first."
    ),
    "xla_gpu_experimental_cost_model_gemm_tiling_options": (
        "How the cost model chooses tiles of matrix products."
    ),
    "xla_gpu_experimental_disable_binary_libraries": "Never use cuBLAS/cuDNN binaries.",
    "xla_gpu_experimental_dump_fdo_profiles": "Write profiles for feedback-directed optimisation.",
    "xla_gpu_experimental_dump_gpu_executable": "Write the serialised executable.",
    "xla_gpu_experimental_dynamic_slice_fusion_verify_offsets": (
        "Check the offsets of fused dynamic slices."
    ),
    "xla_gpu_experimental_enable_alltoall_windowed_einsum": (
        "Overlap all-to-all with einsum by windows."
    ),
    "xla_gpu_experimental_enable_buffer_saver_on_thunks": "Save the buffers of chosen thunks.",
    "xla_gpu_experimental_enable_checksum_tracing_on_thunks": (
        "Log checksums of the buffers of thunks."
    ),
    "xla_gpu_experimental_enable_collective_multi_streaming": "Run collectives on several streams.",
    "xla_gpu_experimental_enable_conv_fusion": "Fuse around convolutions.",
    "xla_gpu_experimental_enable_fusion_autotuner": "Tune fusions by running them.",
    "xla_gpu_experimental_enable_fusion_block_level_rewriter": "Rewrite fusions to block level.",
    "xla_gpu_experimental_enable_heuristic_collective_combining": (
        "Choose combining thresholds by a rule."
    ),
    "xla_gpu_experimental_enable_nccl_symmetric_buffers": "Use symmetric memory with NCCL.",
    "xla_gpu_experimental_enable_nvshmem": "Use NVSHMEM for communication.",
    "xla_gpu_experimental_enable_subchannel_dequantisation_fusion": (
        "Fuse dequantisation by sub-channels."
    ),
    "xla_gpu_experimental_enable_tiling_propagation": "Derive tile sizes from consumers.",
    "xla_gpu_experimental_enable_triton_heroless_priority_fusion": (
        "Priority fusion into Triton without a hero."
    ),
    "xla_gpu_experimental_enable_triton_warp_specialization": (
        "Let warps of a Triton kernel take different parts."
    ),
    "xla_gpu_experimental_force_split_k": (
        "Split the contracted dimension into this many parts; 0 off."
    ),
    "xla_gpu_experimental_gemm_fusion_v2": "The second version of matrix product fusion.",
    "xla_gpu_experimental_matmul_perf_table_path": "File of measured matrix product times.",
    "xla_gpu_experimental_max_unroll_factor": "Cap on elements per thread in loop fusions.",
    "xla_gpu_experimental_pack_dot_operands_along_k_dimension": (
        "Pack small types along the contracted dimension."
    ),
    "xla_gpu_experimental_parallel_async_compute_limit": (
        "Most computations that run at the same time."
    ),
    "xla_gpu_experimental_parallel_collective_overlap_limit": (
        "Most collectives that run at the same time."
    ),
    "xla_gpu_experimental_pipeline_parallelism_opt_level": (
        "Optimisations for pipeline parallelism."
    ),
    "xla_gpu_experimental_ragged_all_to_all_use_barrier": (
        "Synchronise ragged all-to-all by a barrier."
    ),
    "xla_gpu_experimental_ragged_all_to_all_use_barrier_with_nccl": "The same where NCCL is used.",
    "xla_gpu_experimental_ragged_all_to_all_zero_copy": (
        "Ragged all-to-all writes straight into the receiver."
    ),
    "xla_gpu_experimental_scaled_dot_with_triton": "Generate scaled dots with Triton.",
    "xla_gpu_experimental_stream_annotation": "Honour stream annotations in the program.",
    "xla_gpu_experimental_thunk_buffer_debug_filter_by_profile_annotation_re": (
        "Which thunks are traced, by profile name."
    ),
    "xla_gpu_experimental_thunk_buffer_debug_filter_by_thunk_id_ranges": (
        "Which thunks are traced, by number."
    ),
    "xla_gpu_experimental_thunk_buffer_debug_module_outputs": "Trace the outputs of modules.",
    "xla_gpu_experimental_use_raft_select_k": "Use RAFT for top-k.",
    "xla_gpu_experimental_use_ragged_dot_fusion": "Fuse ragged dots.",
    "xla_gpu_experimental_use_ragged_dot_grouped_gemm": (
        "Run ragged dots as grouped matrix products."
    ),
    "xla_gpu_fail_ptx_compilation_on_register_spilling": "Treat register spills as errors.",
    "xla_gpu_filter_kernels_spilling_registers_on_autotuning": (
        "Skip spilling kernels while autotuning."
    ),
    "xla_gpu_first_collective_call_terminate_timeout_seconds": (
        "Abort when the first collective waits this long."
    ),
    "xla_gpu_first_collective_call_warn_stuck_timeout_seconds": (
        "Warn when the first collective waits this long."
    ),
    "xla_gpu_force_compilation_parallelism": (
        "Threads for LLVM/ptxas compilation; 0 uses default pool."
    ),
    "xla_gpu_force_conv_nchw": "Convolutions have channels before space.",
    "xla_gpu_force_conv_nhwc": "Convolutions have channels last.",
    "xla_gpu_ftz": "Flush denormals to zero in GPU code.",
    "xla_gpu_fused_attention_use_cudnn_rng": "Random bits of fused attention come from cuDNN.",
    "xla_gpu_fusion_autotune_top_k_configs": "How many tilings per fusion are tried.",
    "xla_gpu_gemm_autotuner_override_file": "File of fixed matrix product configurations.",
    "xla_gpu_gemm_rewrite_size_threshold": "Smallest GEMM element count sent to library/Triton.",
    "xla_gpu_generate_debug_info": "Add debug info to GPU kernels.",
    "xla_gpu_generate_line_info": "Add line info to GPU kernels.",
    "xla_gpu_graph_enable_concurrent_region": "Old switch of concurrent graph regions.",
    "xla_gpu_graph_min_graph_size": "Fewest commands worth making a CUDA graph.",
    "xla_gpu_kernel_cache_file": "File cache of compiled kernels.",
    "xla_gpu_llvm_ir_file": "Load LLVM IR from file matching dump name prefix.",
    "xla_gpu_llvm_verification_level": "How often LLVM modules are verified.",
    "xla_gpu_load_autotune_results_from": "Read autotuning results file before compiling.",
    "xla_gpu_log_minmax": "Log the range of every result.",
    "xla_gpu_memory_limit_slop_factor": "Percent of memory limit the scheduler may use.",
    "xla_gpu_mock_custom_calls": "Replace custom calls by stubs.",
    "xla_gpu_multi_streamed_windowed_einsum": "Run windowed einsum on several streams.",
    "xla_gpu_native_emitter_tune_unroll_factor_for_loops": "Tune how much loops are unrolled.",
    "xla_gpu_nccl_async_execution": "Run NCCL calls asynchronously.",
    "xla_gpu_nccl_blocking_communicators": "Make NCCL communicators that block.",
    "xla_gpu_nccl_collective_max_nchannels": "Most NCCL channels of a collective.",
    "xla_gpu_nccl_init_max_rank_per_root_ratio": "Ranks per root when NCCL starts.",
    "xla_gpu_nccl_p2p_max_nchannels": "Most NCCL channels of sends and receives.",
    "xla_gpu_nccl_terminate_on_error": "Abort the process when NCCL fails.",
    "xla_gpu_nccl_termination_timeout_seconds": "Abort when NCCL waits this long.",
    "xla_gpu_operand_bytes_threshold_for_windowed_einsum": "Smallest operand for windowed einsum.",
    "xla_gpu_override_gemm_autotuner": "A fixed matrix product configuration.",
    "xla_gpu_per_fusion_autotune_cache_dir": "Directory cache of per-fusion autotune results.",
    "xla_gpu_pgle_accuracy_checker": "What to do when a profile does not fit the program.",
    "xla_gpu_pgle_profile_file_or_directory_path": "Profile file guiding latency estimates.",
    "xla_gpu_print_compilation_stats": "Print per-pass compile time.",
    "xla_gpu_ptx_compiler_extra_flags": "Further flags of ptxas.",
    "xla_gpu_ptx_file": "Load PTX from file matching dump name prefix.",
    "xla_gpu_ragged_all_to_all_mode": "Which memory ragged all-to-all works in.",
    "xla_gpu_reduce_scatter_combine_threshold_bytes": (
        "Combine reduce-scatters up to this many bytes."
    ),
    "xla_gpu_redzone_padding_bytes": "Guard bytes checked around autotuned outputs.",
    "xla_gpu_require_complete_aot_autotune_results": "Fail where autotuning results are missing.",
    "xla_gpu_require_exclusive_lock": "Take a lock on the GPU while compiling.",
    "xla_gpu_rocm_max_trace_events": "Most events of a trace on ROCm.",
    "xla_gpu_shape_checks": "Dynamic shape checks: ignore, runtime, compile time.",
    "xla_gpu_shard_autotuning": "Divide autotuning among hosts.",
    "xla_gpu_strict_conv_algorithm_picker": "Old switch; does nothing in XLA either.",
    "xla_gpu_target_config_filename": "Compile for GPU described in this textproto, no device.",
    "xla_gpu_temp_buffer_use_separate_color": "Keep temporaries in memory of their own.",
    "xla_gpu_threshold_for_windowed_einsum_mib": "Smallest result for windowed einsum.",
    "xla_gpu_triton_gemm_any": "Try Triton for every supported GEMM.",
    "xla_gpu_unsafe_fallback_to_driver_on_ptxas_not_found": (
        "Let the driver assemble PTX where ptxas is missing."
    ),
    "xla_gpu_unsupported_enable_all_reduce_decomposer": (
        "Split all-reduce into simpler collectives."
    ),
    "xla_gpu_unsupported_enable_ragged_all_to_all_decomposer": (
        "Split ragged all-to-all into simpler collectives."
    ),
    "xla_gpu_unsupported_enable_ragged_all_to_all_multi_host_decomposer": "The same across hosts.",
    "xla_gpu_unsupported_enable_triton_multi_output_fusion": "Triton fusions with several outputs.",
    "xla_gpu_unsupported_override_fast_interconnect_slice_size": (
        "Devices that share a fast interconnect."
    ),
    "xla_gpu_unsupported_use_all_reduce_one_shot_kernel": "All-reduce as one kernel.",
    "xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel": "Ragged all-to-all as one kernel.",
    "xla_gpu_use_embeded_device_lib": "Use the device library inside the binary.",
    "xla_gpu_use_inprocess_lld": "Link in the process.",
    "xla_gpu_use_memcpy_local_p2p": "Copy between local devices by memcpy.",
    "xla_gpu_use_runtime_fusion": "cuDNN runtime fusion engines for convolutions.",
    "xla_gpu_verify_triton_fusion_numerics": "Compare Triton fusion results with plain emitters.",
    "xla_hlo_evaluator_use_fast_path": "Use fast dot in the HLO evaluator (constant folding).",
    "xla_hlo_graph_addresses": "Drawings show a number that tells instructions apart.",
    "xla_hlo_graph_sharding_color": "Drawings are coloured by sharding.",
    "xla_hlo_pass_fix_detect_cycles": "Raise where a fixed point of passes runs in a circle.",
    "xla_hlo_print_inline_stack_frames": "Print source_file/line inline instead of stack_frame_id.",
    "xla_hlo_profile": "Count cycles per HLO; CPU only.",
    "xla_keep_shardings_after_spmd": "Keep sharding annotations after partitioning.",
    "xla_llvm_disable_expensive_passes": (
        "Turn off costly LLVM passes (e.g. unrolling/vectorising)."
    ),
    "xla_llvm_enable_alias_scope_metadata": "Emit alias.scope metadata in LLVM IR.",
    "xla_llvm_enable_invariant_load_metadata": "Mark read-only loads invariant in LLVM IR.",
    "xla_llvm_enable_noalias_metadata": "Emit noalias metadata in LLVM IR.",
    "xla_llvm_force_inline_before_split": "Inline functions before a module is cut into parts.",
    "xla_multiheap_size_constraint_per_heap": "Max bytes per temp heap before splitting; -1 off.",
    "xla_partitioning_algorithm": "Which experimental auto-partitioning algorithm to run.",
    "xla_pjrt_allow_auto_layout_in_hlo": (
        "Let the compiler choose layouts that the program marks as open."
    ),
    "xla_recognize_reduction_optimization_level": "How hard to look for loops that are reductions.",
    "xla_reduce_window_rewrite_base_length": (
        "Base for splitting long reduce-window (prefix sums); 0 disables."
    ),
    "xla_sdy_export_all_reduce_scatter": (
        "Shardy exports all-reduce followed by a slice as reduce-scatter."
    ),
    "xla_step_marker_location": "Where a training step begins, for profilers.",
    "xla_syntax_sugar_async_ops": "Print async pairs as op-start/op-done.",
    "xla_test_add_command_buffer_mode": "Tests: record every computation as a command buffer.",
    "xla_test_all_input_layouts": "Tests: try every layout of the inputs.",
    "xla_test_all_output_layouts": "Tests: try every layout of the outputs.",
    "xla_tpu_detect_inf": "TPU: stop where an infinity appears.",
    "xla_tpu_detect_nan": "TPU: stop where a NaN appears.",
    "xla_unsupported_crash_on_hlo_pass_fix_max_iterations": (
        "Raise where a fixed point does not settle."
    ),
    "xla_unsupported_crash_on_hlo_pass_noop_change": (
        "Raise where a pass reports a change it did not make."
    ),
    "xla_unsupported_crash_on_hlo_pass_silent_hlo_change": (
        "Raise where a pass changes the module and does not say so."
    ),
}
