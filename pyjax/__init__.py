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

# Names that need more than what a program needs to run.
_ON_DEMAND = {
    "explain": "pyjax.tools.explorer",
    "fwd_and_bwd": "pyjax.api.fwd_and_bwd",
    "plan": "pyjax.parallel.plan",
    "print_environment_info": "pyjax.tools.environment",
    "smap": "pyjax.parallel.smap",
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
