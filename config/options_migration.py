"""Options of the reference for changes of its own insides, and for parts that pyjax does not have:
programs may set them, and are told that nothing follows."""

from __future__ import annotations

from typing import Any

from .kinds import AbstractKind, Bool, Enum, Int, Optional, Str
from .registry import Affects, Option, Scope, option


def _without_effect(name: str, kind: AbstractKind, default: Any, said: str, why: str) -> Option:
    return option(
        f"jax_{name}",
        kind=kind,
        default=default,
        affects=Affects.NOTHING,
        scope=Scope.THREAD,
        help=said,
        no_effect=why,
    )


_ONE_WAY = "pyjax has one implementation of it, which behaves as JAX's default does"
_OWN_CODE = "each process compiles for itself, or reads what the disk cache has"

captured_constants_report_frames = _without_effect(
    "captured_constants_report_frames",
    Int(-1),
    0,
    "How many stack frames the warning of captured constants shows for each.",
    "constants are captured where the warning says that the program was made",
)
compilation_cache_check_contents = _without_effect(
    "compilation_cache_check_contents",
    Bool(),
    False,
    "Compile what the disk cache has anew, and compare.",
    "entries carry checksums, and keys hold everything that code depends on",
)
cpu_get_local_topology_timeout_minutes = _without_effect(
    "cpu_get_local_topology_timeout_minutes",
    Int(0),
    2,
    "How long processes wait for the devices of each.",
    "all tell each other their devices in one step: cpu_get_global_topology_timeout_minutes",
)
custom_vjp3 = _without_effect(
    "custom_vjp3", Bool(), False, "Another implementation of custom_vjp.", _ONE_WAY
)
debug_leaked_clients_on_clear_backends = _without_effect(
    "debug_leaked_clients_on_clear_backends",
    Bool(),
    False,
    "Check that clear_backends frees clients.",
    "clients live as long as the process",
)
disable_bwd_checks = _without_effect(
    "disable_bwd_checks",
    Bool(),
    False,
    "Leave out checks of what backward functions return.",
    "pyjax always checks",
)
enable_preemption_service = _without_effect(
    "enable_preemption_service",
    Bool(),
    True,
    "Listen for a notice that the machine is taken away.",
    "no service tells of one here: SIGTERM ends a process, whose others are told that it is gone",
)
enable_recoverability = _without_effect(
    "enable_recoverability",
    Bool(),
    False,
    "Go on when some of the processes have failed.",
    "processes always do, and get errors where they wait for one that has failed; what is gone "
    "cannot come back, for MPI knows the processes that it has started",
)
pallas_enable_debug_checks = _without_effect(
    "pallas_enable_debug_checks",
    Bool(),
    False,
    "Check assertions in kernels when they run.",
    "that kernel language is not part of pyjax",
)
pallas_poison_buffers = _without_effect(
    "pallas_poison_buffers",
    Bool(),
    False,
    "Fill fresh memory of kernels with NaN.",
    "that kernel language is not part of pyjax",
)
ragged_dot_use_gpu_pallas_triton_lowering = _without_effect(
    "ragged_dot_use_gpu_pallas_triton_lowering",
    Bool(),
    False,
    "Compute ragged_dot on GPUs by a kernel of another compiler.",
    "that compiler is not part of pyjax",
)
ragged_dot_use_ragged_dot_instruction = _without_effect(
    "ragged_dot_use_ragged_dot_instruction",
    Bool(),
    True,
    "Lower ragged_dot to one instruction on TPUs.",
    "pyjax has no TPU runtime",
)
refs_to_pins = _without_effect(
    "refs_to_pins", Bool(), False, "Lower references to pinned buffers.", _ONE_WAY
)
remat3 = _without_effect("remat3", Bool(), False, "Another implementation of checkpoint.", _ONE_WAY)
scan3 = _without_effect("scan3", Bool(), False, "Another implementation of loops.", _ONE_WAY)
send_traceback_to_runtime = _without_effect(
    "send_traceback_to_runtime",
    Enum(("off", "on", "full")),
    "off",
    "Tell the runtime which line dispatched a program.",
    "programs here know the lines they come from",
)
serialization_version = _without_effect(
    "serialization_version",
    Int(0),
    0,
    "Deprecated: jax_export_calling_convention_version.",
    "set jax_export_calling_convention_version",
)
share_binary_between_hosts = _without_effect(
    "share_binary_between_hosts",
    Bool(),
    False,
    "Compile in one process, and send the program to the others.",
    _OWN_CODE,
)
share_binary_between_hosts_timeout_ms = _without_effect(
    "share_binary_between_hosts_timeout_ms",
    Int(0),
    1_200_000,
    "How long the others wait for it.",
    _OWN_CODE,
)
source_url_schema = _without_effect(
    "source_url_schema",
    Optional(Str()),
    None,
    "Form of links to sources in jaxprs as web pages.",
    "jaxprs are printed as text; the explorer has the sources beside them",
)
thread_guard = _without_effect(
    "thread_guard",
    Bool(),
    False,
    "Programs of several processes may be run by one thread only.",
    "threads may begin them in one order in all processes; where they do not, there is an error",
)
use_emit_pipeline_primitive = _without_effect(
    "use_emit_pipeline_primitive",
    Bool(),
    False,
    "How pipelines of kernels are traced.",
    "that kernel language is not part of pyjax",
)
use_simplified_jaxpr_constants = _without_effect(
    "use_simplified_jaxpr_constants",
    Bool(),
    False,
    "Another place for closed-over constants in jaxprs.",
    _ONE_WAY,
)
