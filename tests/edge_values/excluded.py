"""The public functions that no row of the tables calls, and why.

test_coverage.py fails on a function that is neither here nor in a table.
"""

from __future__ import annotations

from tests.edge_values.table_random import EXCLUDED as SAMPLES

_SCIPY = "compared with SciPy, its gradient with differences, in test_scipy_completions.py"
_HOST = "reads or writes files or settings of Python, no arrays"

_REASONS: dict[str, dict[str, str]] = {
    "sets or asks how the library works; tests/config, test_devices*, test_why_compiled.py": {
        "": (
            "allow_f16_reductions array_garbage_collection_guard assert_compiles auto_pcast "
            "check_tracer_leaks checking_leaks clear_caches compilation_barrier debug_infs "
            "debug_key_reuse debug_nans default_backend default_device default_matmul_precision "
            "default_prng_impl "
            "device_count devices disable_jit effects_barrier enable_checks enable_custom_prng "
            "enable_x64 explain explain_cache_misses explicit_x64_dtypes host_count host_id "
            "host_ids jax2tf_associative_scan_reductions legacy_prng_key live_arrays "
            "local_device_count local_devices log_compiles make_user_context no_execution "
            "no_tracing num_threads numpy_dtype_promotion numpy_rank_promotion "
            "print_environment_info process_count process_index process_indices "
            "plan remove_size_one_mesh_axis_from_type softmax_custom_jvp thread_guard "
            "threefry_partitionable "
            "transfer_guard transfer_guard_device_to_device transfer_guard_device_to_host "
            "transfer_guard_host_to_device ensure_compile_time_eval"
        ),
        "experimental.compilation_cache.compilation_cache": (
            "cache_status clear_cache set_cache_dir"
        ),
        "extend.backend": (
            "backends clear_backends clear_in_memory_compilation_cache get_backend "
            "get_default_device"
        ),
        "experimental.key_reuse": "debug_key_reuse",
        "experimental.xla_metadata": "set_xla_metadata",
        "monitoring": (
            "clear_event_listeners record_event record_event_duration_secs "
            "record_event_time_span record_scalar register_event_duration_secs_listener "
            "register_event_listener register_event_time_span_listener register_scalar_listener "
            "unregister_event_duration_listener unregister_event_listener "
            "unregister_event_time_span_listener unregister_scalar_listener"
        ),
        "profiler": (
            "annotate_function device_memory_profile register_subprocess "
            "save_device_memory_profile start_server start_trace stop_server stop_trace trace"
        ),
    },
    "moves, places or waits for arrays and changes no value; tests of devices and shardings": {
        "": "block_until_ready copy_to_host_async device_get device_put free_ref reshard",
        "experimental.layout": "with_layout_constraint",
        "experimental.compute_on": "compute_on",
        "experimental.shard_alike": "shard_alike",
    },
    "makes or asks for meshes, devices and their arrays; tests/pyjax/parallel, test_meshes.py": {
        "": (
            "make_array_from_callback make_array_from_process_local_data "
            "make_array_from_single_device_arrays make_mesh"
        ),
        "sharding": "get_abstract_mesh get_mesh make_single_device_sharding",
        "experimental.mesh_utils": "create_device_mesh create_hybrid_device_mesh",
        "experimental.topologies": "get_attached_topology get_topology_desc make_mesh",
        "experimental.multihost_utils": (
            "assert_equal broadcast_one_to_all global_array_to_host_local_array "
            "host_local_array_to_global_array live_devices process_allgather "
            "reached_preemption_sync_point sync_global_devices"
        ),
        "distributed": "client initialize is_initialized shutdown",
    },
    "maps over a mesh of devices: compared with one device in tests/pyjax/parallel": {
        "": "pmap shard_map smap",
        "experimental.pjit": "pjit",
        "experimental.shard_map": "shard_map",
    },
    "shows something, or stops there; its own tests look at what is shown": {
        "ad_checkpoint": "print_saved_residuals",
        "debug": ("breakpoint inspect_array_sharding visualize_array_sharding visualize_sharding"),
    },
    "its memory has no values, or it is a name of the type system; tests/pyjax/refs": {
        "": "empty_ref",
        "experimental": "cur_qdd",
        "experimental.hijax": (
            "cur_qdd hitype_of instantiate_zeros is_undefined_primal register_hitype"
        ),
    },
    "defines something for later calls; tests of trees, jet, keys, exports and foreign functions": {
        "tree": "static",
        "tree_util": (
            "register_dataclass register_pytree_node register_pytree_node_class "
            "register_pytree_with_keys register_pytree_with_keys_class register_static"
        ),
        "experimental.jet": (
            "def_comp def_deriv deflinear defzero deriv_prop linear_prop zero_prop"
        ),
        "extend.random": "define_prng_impl random_seed",
        "export": (
            "default_export_platform deserialize export is_symbolic_dim "
            "register_namedtuple_serialization register_pytree_node_serialization "
            "symbolic_args_specs symbolic_shape"
        ),
        "experimental.serialize_executable": "deserialize_and_load serialize",
        "ffi": (
            "build_ffi_lowering_function ffi_call ffi_lowering include_dir pycapsule "
            "register_ffi_target register_ffi_target_as_batch_partitionable register_ffi_type "
            "register_ffi_type_id"
        ),
        "example_libraries.optimizers": "optimizer",
    },
    "works on the tracer's own data structures; tests/pyjax/core and test_library_modules.py": {
        "extend.core": (
            "check_jaxpr concrete_or_error find_top_trace gensym get_opaque_trace_state "
            "jaxprs_in_params mapped_aval new_jaxpr_eqn nonempty_axis_env_DO_NOT_USE "
            "primal_dtype_to_tangent_dtype subjaxprs unmapped_aval "
            "unsafe_am_i_under_a_jit_DO_NOT_USE unsafe_am_i_under_a_vmap_DO_NOT_USE "
            "unsafe_get_axis_names_DO_NOT_USE valid_jaxtype"
        ),
        "extend.linear_util": (
            "cache merge_linear_aux transformation transformation2 transformation_with_aux "
            "transformation_with_aux2 wrap_init"
        ),
        "extend.source_info_util": "current register_exclusion summarize",
        "experimental.ode": "ravel_first_arg ravel_first_arg_",
    },
    "the reference has it on other devices, or with other packages, only; its own tests": {
        "experimental.buffer_callback": "buffer_callback",
        "experimental.colocated_python": (
            "colocated_cpu_devices colocated_python colocated_python_class"
        ),
        "experimental.rnn": "lstm lstm_bwd lstm_fwd lstm_ref",
    },
    "an object with a state, whose numbers are those of the functions of `random`": {
        "experimental.random": "stateful_rng",
    },
    "a slice of a reference that kernels use; tests/pyjax/refs": {"": "ds"},
}

# "module.name": why no row calls it
EXCLUDED: dict[str, str] = {
    **SAMPLES,
    **{
        ".".join((module, name)).lstrip("."): reason
        for reason, modules in _REASONS.items()
        for module, names in modules.items()
        for name in names.split()
    },
    "numpy.__array_namespace_info__": "describes the library, and this is another one",
    "numpy.finfo": "describes a dtype; the object is NumPy's",
    "numpy.iinfo": "describes a dtype; the object is NumPy's",
    "numpy.fromfile": _HOST,
    "numpy.load": _HOST,
    "numpy.save": _HOST,
    "numpy.savez": _HOST,
    "numpy.printoptions": _HOST,
    "numpy.set_printoptions": _HOST,
    "lax.DotDimensionNumbers": "a type alias",
    "lax.after_all": "tokens have no value",
    "lax.create_token": "tokens have no value",
    "lax.pcast": "changes a type within shard_map, and no value",
    "lax.ragged_dot_general": "needs an object of dimension numbers; ragged_dot is in the table",
    "lax.rng_uniform": "its numbers depend on the implementation",
    "lax.with_sharding_constraint": "needs a mesh of devices and changes no value",
    "scipy.special.bessel_jn": _SCIPY,
    "scipy.special.sph_harm_y": _SCIPY,
    **{
        f"scipy.special.{name}": "compared with SciPy, with limits, in test_special_integrals.py"
        for name in (
            "dawsn erfcx fresnel hyp1f1 hyp2f1 lpmn lpmn_values owens_t sici spence wofz".split()
        )
    },
    "lax.composite": "calls what it is given; test_composite.py",
    "lax.precv": "needs positions; test_collectives_ragged.py",
    "lax.psend": "needs positions; test_collectives_ragged.py",
    "lax.ragged_all_to_all": "needs positions; test_collectives_ragged.py",
    "lax.scaled_dot": "compared with sums in float64, in test_scaled.py",
    "nn.get_scaled_dot_general_config": "describes a format, no arrays",
    "nn.scaled_dot_general": "the reference has it on GPUs only; test_scaled.py",
    "nn.scaled_matmul": "the reference has it on GPUs only; test_scaled.py",
    "lax.linalg.geqrf": "its reflectors have the signs that the library chooses; qr is here",
}
