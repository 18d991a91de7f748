"""pyjax: NumPy programs that compile.

The public names are those of JAX. Submodules load on first use: `pyjax.numpy`, `pyjax.lax`,
`pyjax.nn`, `pyjax.random`, `pyjax.tree`, `pyjax.errors` ... So do the functions: who imports pyjax
waits for its options only.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from pyjax._config import config as config
from pyjax._config import options as _options
from pyjax.version import __version__ as __version__
from pyjax.version import __version_info__ as __version_info__
from xla_backend.process.lazy_names import LazyNames as _LazyNames

_SUBMODULES = frozenset(
    {
        "ad",
        "ad_checkpoint",
        "api_util",
        "clusters",
        "custom_batching",
        "custom_derivatives",
        "dlpack",
        "dtypes",
        "core",
        "debug",
        "distributed",
        "errors",
        "example_libraries",
        "experimental",
        "ffi",
        "export",
        "extend",
        "flatten_util",
        "image",
        "memory",
        "monitoring",
        "nn",
        "ops",
        "profiler",
        "random",
        "ref",
        "scipy",
        "sharding",
        "stages",
        "test_util",
        "tree",
        "tree_util",
        "typing",
    }
)

# Names that need more than what a program needs to run: each comes with its own module. Type
# checkers have them from `__init__.pyi`.
_ON_DEMAND = {
    "checkpoint": "pyjax.api.checkpoint",
    "checkpoint_policies": "pyjax.api.checkpoint_policies",
    "closure_convert": "pyjax.api.custom_gradient",
    "custom_gradient": "pyjax.api.custom_gradient",
    "custom_jvp": "pyjax.api.custom_jvp",
    "custom_vjp": "pyjax.api.custom_vjp",
    "disable_jit": "pyjax.api.disable_jit",
    "empty_ref": "pyjax.lax.refs.access",
    "ensure_compile_time_eval": "pyjax.api.compile_time",
    "explain": "pyjax.tools.explorer",
    "free_ref": "pyjax.lax.refs.access",
    "freeze": "pyjax.lax.refs.access",
    "fwd_and_bwd": "pyjax.api.fwd_and_bwd",
    "grad": "pyjax.api.grad",
    "hessian": "pyjax.api.jacobian",
    "jacfwd": "pyjax.api.jacobian",
    "jacobian": "pyjax.api.jacobian",
    "jacrev": "pyjax.api.jacobian",
    "jvp": "pyjax.api.jvp",
    "linear_transpose": "pyjax.api.vjp",
    "linearize": "pyjax.api.jvp",
    "make_array_from_callback": "pyjax.parallel.global_arrays",
    "make_array_from_process_local_data": "pyjax.parallel.global_arrays",
    "make_array_from_single_device_arrays": "pyjax.parallel.global_arrays",
    "make_jaxpr": "pyjax.api.make_jaxpr",
    "make_mesh": "pyjax.parallel.global_arrays",
    "make_user_context": "pyjax.api.user_context",
    "named_call": "pyjax.api.naming",
    "named_scope": "pyjax.api.naming",
    "new_ref": "pyjax.lax.refs.access",
    "plan": "pyjax.parallel.plan",
    "pmap": "pyjax.parallel.pmap",
    "print_environment_info": "pyjax.tools.environment",
    "remat": "pyjax.api.checkpoint",
    "reshard": "pyjax.parallel.reshard",
    "shard_map": "pyjax.parallel.shard_map",
    "smap": "pyjax.parallel.smap",
    "value_and_grad": "pyjax.api.grad",
    "vjp": "pyjax.api.vjp",
    "vmap": "pyjax.api.vmap",
}


# What acts when an option is set, and is loaded then.
_LISTENERS = {
    "pyjax.runtime.gc_guard": (_options.array_garbage_collection_guard,),
    "pyjax.tools.logging_setup": (_options.debug_log_modules, _options.logging_level),
}
for _module, _of in _LISTENERS.items():
    for _option in _of:
        _option.load_when_set(_module)

_names = _LazyNames(__name__, "pyjax._public", _ON_DEMAND)


def __getattr__(name: str) -> _Any:
    return _names.find(name)


def __dir__() -> list[str]:
    return sorted({*_names.all(), *_SUBMODULES, *_ON_DEMAND})
