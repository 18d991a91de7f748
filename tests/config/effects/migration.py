"""Options of parts that pyjax does not have: setting them says so."""

from __future__ import annotations

from typing import Any

from tests.config.effects.table import inert

_ONE_WAY = "pyjax has one implementation of it, which behaves as JAX's default does"
_OWN_CODE = "each process compiles for itself, or reads what the disk cache has"
_KERNELS = "that kernel language is not part of pyjax"
TABLE: dict[str, dict[str, Any]] = {
    _ONE_WAY: dict.fromkeys(
        ("custom_vjp3", "refs_to_pins", "remat3", "scan3", "use_simplified_jaxpr_constants"), True
    ),
    _OWN_CODE: {
        "share_binary_between_hosts": True,
        "share_binary_between_hosts_timeout_ms": 7,
    },
    "all tell each other their devices in one step: cpu_get_global_topology_timeout_minutes": {
        "cpu_get_local_topology_timeout_minutes": 7
    },
    "no service tells of one here: SIGTERM ends a process, whose others are told that it is gone": {
        "enable_preemption_service": False
    },
    "processes always do, and get errors where they wait for one that has failed; what is gone "
    "cannot come back, for MPI knows the processes that it has started": {
        "enable_recoverability": True
    },
    "threads may begin them in one order in all processes; where they do not, there is an error": {
        "thread_guard": True
    },
    _KERNELS: dict.fromkeys(
        ("pallas_enable_debug_checks", "pallas_poison_buffers", "use_emit_pipeline_primitive"), True
    ),
    "pyjax always checks": {"disable_bwd_checks": True},
    "constants are captured where the warning says that the program was made": {
        "captured_constants_report_frames": 3
    },
    "entries carry checksums, and keys hold everything that code depends on": {
        "compilation_cache_check_contents": True
    },
    "clients live as long as the process": {"debug_leaked_clients_on_clear_backends": True},
    "that compiler is not part of pyjax": {"ragged_dot_use_gpu_pallas_triton_lowering": True},
    "pyjax has no TPU runtime": {"ragged_dot_use_ragged_dot_instruction": False},
    "programs here know the lines they come from": {"send_traceback_to_runtime": "full"},
    "set jax_export_calling_convention_version": {"serialization_version": 9},
    "jaxprs are printed as text; the explorer has the sources beside them": {
        "source_url_schema": "file://{file}"
    },
}
for _reason, _values in TABLE.items():
    for _name, _value in _values.items():
        inert(f"jax_{_name}", _value, _reason)
