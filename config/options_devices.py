"""Options that choose devices and distribute work."""

from __future__ import annotations

from .kinds import Bool, Enum, Float, Int, Object, Optional, Str
from .registry import Affects, Scope, option

auto_pcast = option(
    "jax_auto_pcast",
    kind=Bool(),
    default=True,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Inside of shard_map, cast what is the same along mesh axes to what varies, where an "
    "operation needs it; off, that is an error, and programs call lax.pcast.",
)

backend_target = option(
    "jax_backend_target",
    kind=Str(),
    default="",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Address of a remote backend; only local ones exist.",
)

bcoo_cusparse_lowering = option(
    "jax_bcoo_cusparse_lowering",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="Sparse products on GPUs call the vendor library.",
    waits_for="sparse products are gathers and scatters, which call no vendor's library",
)

check_proxy_envs = option(
    "jax_check_proxy_envs",
    kind=Bool(),
    default=True,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Warn about proxy variables when a distributed program starts.",
)

cpu_collectives_implementation = option(
    "jax_cpu_collectives_implementation",
    kind=Optional(Enum(("gloo", "mpi", "megascale"))),
    default="gloo",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Engine of collectives between CPU processes. It is MPI, whatever this says: with mpi, "
    "distributed.initialize() asks MPI how many processes there are and which this one is, also "
    "where no launcher has left a sign in the environment.",
    interactions="No maintained Python package brings gloo, and megascale is another project's "
    "engine: distributed.initialize() does without, and says so of the latter.",
)

cpu_enable_async_dispatch = option(
    "jax_cpu_enable_async_dispatch",
    kind=Bool(),
    default=True,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Return from a call before a long computation ends.",
)

cpu_enable_gloo_collectives = option(
    "jax_cpu_enable_gloo_collectives",
    kind=Bool(),
    default=False,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Older spelling of jax_cpu_collectives_implementation=gloo; deprecated.",
    interactions="It wins over jax_cpu_collectives_implementation.",
)

cpu_get_global_topology_timeout_minutes = option(
    "jax_cpu_get_global_topology_timeout_minutes",
    kind=Int(0),
    default=5,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="How long each process of a program waits, when devices are used first, for the others to "
    "say which they have.",
    at_start=True,
)

cpu_memory_limit = option(
    "jax_cpu_memory_limit",
    kind=Int(),
    default=-1,
    affects=Affects.COMPILE,
    scope=Scope.GLOBAL,
    help="Most bytes that arrays and temporaries of programs on CPUs may take; -1: as many as "
    "there are.",
    ours=True,
)

first_code = option(
    "jax_first_code",
    kind=Bool(),
    default=True,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Programs on CPUs run at once on code that is made without LLVM, where they can have it, "
    "and LLVM compiles them meanwhile on another thread; results are the same bits, but for signs "
    "and payloads of NaN. Off, the first call waits for LLVM.",
    ours=True,
    interactions="Programs that are dumped, checked, logged or counted when they are compiled "
    "(jax_log_compiles, jax_enable_checks, jax_dump_ir_to, jax_enable_pgle), and those of "
    "jit(f).lower(x).compile(), wait for LLVM. pyjax.compilation_barrier() waits for all.",
)

gpu_group_products = option(
    "jax_gpu_group_products",
    kind=Bool(),
    default=True,
    affects=Affects.COMPILE,
    scope=Scope.GLOBAL,
    help="On GPUs of compute capability 9.0, large products may use the instructions of groups of "
    "128 threads and of the copy engine (wgmma, TMA); False: code for them is that for sm_90, "
    "which later GPUs run, too.",
    ours=True,
)

native_dispatch = option(
    "jax_native_dispatch",
    kind=Bool(),
    default=True,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Calls of compiled functions and operators of arrays that were made before run as native "
    "code from the call to the result. Off, they run as Python, which does the same.",
    ours=True,
    interactions="Calls run as Python, too, while functions are traced, inside of blocks of "
    "options, while a profile is recorded or a transfer guard is set, and on free-threaded and "
    "debug builds of Python.",
)

num_threads = option(
    "jax_num_threads",
    kind=Optional(Int(low=1)),
    default=None,
    affects=Affects.COMPILE_IN_BLOCKS,
    scope=Scope.THREAD,
    help="How many threads a program on CPUs uses, the caller's included; None: as many as this "
    "process may (its processors, and the quota of its control group).",
    ours=True,
    interactions="A context manager never raises the number of the process. Results are the same "
    "bits for any number, but for LAPACK's on matrices of 1024 rows and more.",
)

cuda_memory_fraction = option(
    "jax_cuda_memory_fraction",
    kind=Optional(Float(low=0.0, high=1.0)),
    default=None,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="The part of the memory of each NVIDIA GPU that arrays and programs may take; it is taken "
    "when it is needed. None: 0.95.",
    ours=True,
    at_start=True,
)

cuda_visible_devices = option(
    "jax_cuda_visible_devices",
    kind=Str(),
    default="all",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="NVIDIA GPUs to use, comma-separated, or all.",
)

default_device = option(
    "jax_default_device",
    kind=Object("a Device, a platform name, or None"),
    default=None,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Where uncommitted arrays and computations go: a Device or a platform name.",
    interactions="A platform must be among jax_platforms where that is set.",
)

mock_gpu_topology = option(
    "jax_mock_gpu_topology",
    kind=Str(),
    default="",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Pretend to have this GPU topology, to compile without running.",
)

num_cpu_devices = option(
    "jax_num_cpu_devices",
    kind=Int(-1, 4096),
    default=-1,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="How many CPU devices to make, or emulated ones; -1: as XLA_FLAGS says, else one.",
    at_start=True,
    interactions="-1 leaves it to --xla_force_host_platform_device_count in XLA_FLAGS.",
)

pjrt_client_create_options = option(
    "jax_pjrt_client_create_options",
    kind=Optional(Str()),
    default=None,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Options for the client of the default platform: key:value;key:value.",
)

platform_name = option(
    "jax_platform_name",
    kind=Str(),
    default="",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Older spelling of the default platform.",
    at_start=True,
    interactions="jax_platforms wins over it.",
)

platforms = option(
    "jax_platforms",
    kind=Optional(Str()),
    default=None,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Platforms to initialise, comma-separated, the first is the default; None: all.",
    at_start=True,
)

pmap_no_rank_reduction = option(
    "jax_pmap_no_rank_reduction",
    kind=Bool(),
    default=True,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="The parts of pmap's results keep the mapped axis, with size 1. Over several devices they "
    "always do, as in JAX 0.10, which has no such option any more.",
)

pmap_shmap_merge = option(
    "jax_pmap_shmap_merge",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="Build pmap on shard_map, over a mesh of one axis; otherwise on vmap.",
)

remove_size_one_mesh_axis_from_type = option(
    "jax_remove_size_one_mesh_axis_from_type",
    kind=Bool(),
    default=False,
    affects=Affects.TRACE,
    scope=Scope.THREAD,
    help="Types leave out mesh axes of size 1: those that split arrays, and those along which "
    "values vary inside of shard_map. An array keeps the type that it was made with.",
)

rocm_visible_devices = option(
    "jax_rocm_visible_devices",
    kind=Str(),
    default="all",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="AMD GPUs to use.",
    no_effect="pyjax has no AMD runtime",
)

transfer_guard = option(
    "jax_transfer_guard",
    kind=Optional(Enum(("allow", "log", "disallow", "log_explicit", "disallow_explicit"))),
    default=None,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="Guard transfers in all directions: allow, log, disallow (also _explicit).",
)

transfer_guard_device_to_device = option(
    "jax_transfer_guard_device_to_device",
    kind=Optional(Enum(("allow", "log", "disallow", "log_explicit", "disallow_explicit"))),
    default=None,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="Guard transfers between devices.",
)

transfer_guard_device_to_host = option(
    "jax_transfer_guard_device_to_host",
    kind=Optional(Enum(("allow", "log", "disallow", "log_explicit", "disallow_explicit"))),
    default=None,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="Guard transfers from devices to the host.",
)

transfer_guard_host_to_device = option(
    "jax_transfer_guard_host_to_device",
    kind=Optional(Enum(("allow", "log", "disallow", "log_explicit", "disallow_explicit"))),
    default=None,
    affects=Affects.NOTHING,
    scope=Scope.THREAD,
    help="Guard transfers from the host to devices.",
)

use_magma = option(
    "jax_use_magma",
    kind=Enum(("off", "on", "auto")),
    default="auto",
    affects=Affects.TRACE,
    scope=Scope.GLOBAL,
    help="Use the MAGMA library for eigenvalues on GPUs; on: it must be there.",
)

xla_backend = option(
    "jax_xla_backend",
    kind=Str(),
    default="",
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Older spelling of the default platform, stronger than jax_platform_name.",
)

mock_num_gpu_processes = option(
    "mock_num_gpu_processes",
    kind=Int(low=0),
    default=0,
    affects=Affects.NOTHING,
    scope=Scope.GLOBAL,
    help="Number of processes of the pretended topology.",
)
