"""Private modules of JAX that libraries reach into, as thin modules made from public names.

One table says for each what it is made of: public modules of pyjax, whose names it has, and names
that stand elsewhere. What nobody was seen to use is not there, and an error says so.
"""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from pyjax import distributed
from pyjax.core.errors import new_error
from pyjax.runtime.devices import are_initialised, backends, process_count, process_index
from pyjax.runtime.processes import DistributedClient
from pyjax.sharding.mesh import Mesh
from pyjax.sharding.shardings import NamedSharding, Sharding
from pyjax.version import jax_version, jax_version_info
from xla_backend.runtime.client import Device
from xla_backend.runtime.processes.joined import joined

_Names = Mapping[str, "str | Callable[[], Any]"]


class _Made(NamedTuple):
    """What a private module is made of.

    Attributes:
      public: modules of pyjax, all of whose names are names of the module; the first one counts.
      names: further ones, `module:attribute` of pyjax, or what makes the value.
    """

    public: tuple[str, ...] = ()
    names: _Names = {}


def _with(target: str, **fixed: Any) -> Callable[[], Any]:
    """A function, `module:attribute` of pyjax, with some arguments given."""

    def make() -> Any:
        module, _, name = target.partition(":")
        return functools.partial(getattr(importlib.import_module(module), name), **fixed)

    return make


class _GlobalState:
    """`jax._src.distributed.global_state`: the processes that this one has joined, if any."""

    service = None
    coordinator_address = None

    @property
    def client(self) -> DistributedClient | None:
        return distributed.client()

    @property
    def process_id(self) -> int:
        return 0 if joined() is None else process_index()

    @property
    def num_processes(self) -> int:
        return 1 if joined() is None else process_count()


class _StartedPlatforms(Mapping[str, Any]):
    """`jax._src.xla_bridge._backends`: the clients of the platforms that have been started."""

    @staticmethod
    def _clients() -> Mapping[str, Any]:
        return backends() if are_initialised() else {}

    def __getitem__(self, name: str) -> Any:
        return self._clients()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._clients())

    def __len__(self) -> int:
        return len(self._clients())


_VERSIONS: _Names = {
    "__version__": lambda: jax_version,
    "version": lambda: jax_version,
    "__version_info__": lambda: jax_version_info,
    "_version_as_tuple": lambda: jax_version_info,
}
_RUNTIME_ERROR: _Names = {"XlaRuntimeError": "pyjax.errors:JaxRuntimeError"}
# Libraries write these into annotations and `isinstance`; nothing is one.
_CLIENT: _Names = {
    **_RUNTIME_ERROR,
    "Device": "pyjax:Device",
    "DistributedRuntimeClient": lambda: type("DistributedRuntimeClient", (), {}),
}

PRIVATE: dict[str, _Made] = {
    "jax._src": _Made(),
    "jax._src.abstract_arrays": _Made((), {"ShapedArray": "pyjax.core:ShapedArray"}),
    "jax._src.ad_checkpoint": _Made(("pyjax.ad_checkpoint", "pyjax")),
    "jax._src.ad_util": _Made(
        ("pyjax.interpreters.ad",),
        {
            "Zero": "pyjax.interpreters.tangents:Zero",
            "stop_gradient_p": "pyjax.lax.misc:stop_gradient_p",
        },
    ),
    "jax._src.api": _Made(("pyjax",)),
    "jax._src.api_util": _Made(("pyjax.api_util",)),
    "jax._src.array": _Made((), {"ArrayImpl": "pyjax:Array"}),
    "jax._src.basearray": _Made(
        (), {"Array": "pyjax:Array", "ArrayLike": "pyjax.typing:ArrayLike"}
    ),
    "jax._src.callback": _Made(("pyjax",), {"io_callback": "pyjax.experimental:io_callback"}),
    "jax._src.checkify": _Made(("pyjax.experimental.checkify",)),
    "jax._src.compiler": _Made(),
    "jax._src.config": _Made((), {"config": "pyjax:config"}),
    "jax._src.core": _Made(
        ("pyjax.core", "pyjax.extend.core"),
        {"trace_state_clean": "pyjax.core.trace_queries:trace_state_clean"},
    ),
    "jax._src.custom_derivatives": _Made(("pyjax.custom_derivatives", "pyjax")),
    "jax._src.debugging": _Made(("pyjax.debug",)),
    "jax._src.dispatch": _Made((), {"wait_for_tokens": "pyjax:effects_barrier"}),
    "jax._src.distributed": _Made(("pyjax.distributed",), {"global_state": lambda: _GlobalState()}),
    "jax._src.dtypes": _Made(
        ("pyjax.dtypes",),
        {
            "DType": "numpy:dtype",
            "ExtendedDType": "pyjax.core.extended_dtypes:ExtendedDType",
            "TypePromotionError": "pyjax.core.errors:TypePromotionError",
        },
    ),
    "jax._src.errors": _Made(("pyjax.errors",)),
    "jax._src.flatten_util": _Made(("pyjax.flatten_util",)),
    "jax._src.image": _Made(("pyjax.image",)),
    "jax._src.interpreters": _Made(("pyjax.interpreters",)),
    "jax._src.interpreters.ad": _Made(("pyjax.interpreters.ad",)),
    "jax._src.interpreters.batching": _Made(("pyjax.interpreters.batching",)),
    "jax._src.interpreters.mlir": _Made(("pyjax.interpreters.mlir",)),
    "jax._src.interpreters.partial_eval": _Made(("pyjax.interpreters.partial_eval",)),
    "jax._src.interpreters.xla": _Made(("pyjax.interpreters.xla",)),
    "jax._src.lax": _Made(("pyjax.lax",)),
    "jax._src.lax.control_flow": _Made(("pyjax.lax",)),
    "jax._src.lax.lax": _Made(("pyjax.lax", "pyjax.extend.core.primitives")),
    "jax._src.lax.linalg": _Made(("pyjax.lax.linalg",)),
    "jax._src.lax.parallel": _Made(
        ("pyjax.lax",),
        {
            "all_gather_invariant": _with("pyjax.lax:all_gather", to="invarying"),
            "all_gather_invariant_p": "pyjax.lax.collectives_gather:all_gather_invariant_p",
            "all_gather_reduced": _with("pyjax.lax:all_gather", to="reduced"),
            "all_gather_reduced_p": "pyjax.lax.collectives_gather:all_gather_reduced_p",
            "preduced": _with("pyjax.lax:pcast", to="reduced"),
            "preduced_p": "pyjax.core.structural:preduced_p",
            "psum_invariant_p": "pyjax.lax.collectives:psum_invariant_p",
            "unreduced_psum": "pyjax.lax:psum",
            "unreduced_psum_p": "pyjax.core.structural:unreduced_psum_p",
            "unreduced_psum_scatter": "pyjax.lax:psum_scatter",
            "unreduced_reduce_scatter_p": "pyjax.lax.collectives_gather:unreduced_reduce_scatter_p",
            "vary_unreduced_cast": _with("pyjax.lax:pcast", to="unreduced"),
            "vary_unreduced_cast_p": "pyjax.core.structural:vary_unreduced_cast_p",
        },
    ),
    "jax._src.lax.slicing": _Made(("pyjax.lax",)),
    "jax._src.lib": _Made((), _CLIENT),
    "jax._src.lib.xla_client": _Made((), _CLIENT),
    "jax._src.linear_util": _Made(("pyjax.extend.linear_util",)),
    "jax._src.mesh": _Made(("pyjax.sharding",)),
    "jax._src.monitoring": _Made(("pyjax.monitoring",)),
    "jax._src.nn": _Made(("pyjax.nn",)),
    "jax._src.nn.functions": _Made(("pyjax.nn",)),
    "jax._src.nn.initializers": _Made(("pyjax.nn.initializers",)),
    "jax._src.numpy": _Made(("pyjax.numpy",)),
    "jax._src.numpy.lax_numpy": _Made(("pyjax.numpy",)),
    "jax._src.numpy.linalg": _Made(("pyjax.numpy.linalg",)),
    "jax._src.numpy.util": _Made(
        (),
        {
            "promote_dtypes": "pyjax.numpy.util:promote_dtypes",
            "promote_dtypes_inexact": "pyjax.numpy.util:promote_dtypes_inexact",
        },
    ),
    "jax._src.ops": _Made(("pyjax.ops",)),
    "jax._src.prng": _Made(
        ("pyjax.extend.random",),
        {"PRNGKeyArray": "pyjax:Array", "PRNGImpl": "pyjax.extend.random:PRNGImpl"},
    ),
    "jax._src.random": _Made(
        ("pyjax.random",), {"KeyArray": "pyjax:Array", "KeyArrayLike": "pyjax.typing:ArrayLike"}
    ),
    "jax._src.scipy": _Made(("pyjax.scipy",)),
    "jax._src.scipy.linalg": _Made(("pyjax.scipy.linalg",)),
    "jax._src.scipy.special": _Made(("pyjax.scipy.special",)),
    "jax._src.sharding_impls": _Made(("pyjax.sharding",)),
    "jax._src.source_info_util": _Made(("pyjax.extend.source_info_util",)),
    "jax._src.stages": _Made(("pyjax.stages",)),
    "jax._src.state": _Made(),
    "jax._src.state.types": _Made((), {"AbstractRef": "pyjax.core.refs:AbstractRef"}),
    "jax._src.traceback_util": _Made(
        (),
        {
            "api_boundary": "pyjax.core.traceback_filter:api_boundary",
            "_exclude_paths": "pyjax.core.source_info:excluded_paths",
            "include_frame": "pyjax.core.source_info:include_frame",
            "register_exclusion": "pyjax.extend.source_info_util:register_exclusion",
        },
    ),
    "jax._src.tree_util": _Made(
        ("pyjax.tree_util",),
        {
            "_registry": "pyjax.core.tree_nodes:node_types",
            "flatten_one_level": "pyjax.core.tree_util:flatten_one_level",
        },
    ),
    "jax._src.typing": _Made(
        ("pyjax.typing",),
        {"Array": "pyjax:Array", "Shape": lambda: tuple[int, ...], "DType": "numpy:dtype"},
    ),
    "jax._src.util": _Made(("pyjax.api_util",), {"wraps": "functools:wraps"}),
    "jax._src.xla_bridge": _Made(
        ("pyjax.extend.backend", "pyjax"), {"_backends": _StartedPlatforms}
    ),
    # Modules of public packages that are none of users.
    "jax.experimental.array_serialization": _Made(),
    "jax.experimental.array_serialization.serialization": _Made(
        (),
        # orbax asks for objects of it by `isinstance`; nothing is one.
        {
            "GlobalAsyncCheckpointManagerBase": lambda: type(
                "GlobalAsyncCheckpointManagerBase", (), {}
            )
        },
    ),
    "jax.experimental.colocated_python.func": _Made(),
    "jax.experimental.colocated_python.serialization": _Made((), {"DeviceList": lambda: tuple}),
    # Programs for the proxies of clusters: libraries import it, and ask for them on clusters only.
    "jax.extend.ifrt_programs": _Made(),
    "jax.extend.ifrt_programs.ifrt_programs": _Made(),
    "jax.lib": _Made((), {"__version__": lambda: jax_version, **_RUNTIME_ERROR}),
    "jax.lib.xla_bridge": _Made(("pyjax.extend.backend",)),
    "jax.lib.xla_client": _Made((), _CLIENT),
    "jax.lib.xla_extension": _Made((), _CLIENT),
    "jax.version": _Made((), _VERSIONS),
    "jaxlib": _Made((), {"__version__": lambda: jax_version}),
    "jaxlib.version": _Made((), _VERSIONS),
    "jaxlib.xla_client": _Made((), _CLIENT),
    "jaxlib.xla_extension": _Made((), _CLIENT),
}
_ROOTS = ("jax._src", "jax.lib", "jaxlib")


def _devices_in_order(sharding: Sharding) -> tuple[Device, ...]:
    if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
        return tuple(sharding.mesh.devices.flat)
    return tuple(sorted(sharding.device_set, key=lambda device: device.id))


def _addressable_devices_in_order(sharding: Sharding) -> tuple[Device, ...]:
    return tuple(d for d in _devices_in_order(sharding) if d in sharding.addressable_devices)


# Private attributes of objects, which their classes have once pyjax stands in for JAX.
ATTRIBUTES: dict[type, dict[str, Callable[[Any], Any]]] = {
    Sharding: {
        "_device_assignment": _devices_in_order,
        "_addressable_device_assignment": _addressable_devices_in_order,
    },
}


def give_private_attributes() -> None:
    """Gives the classes of `ATTRIBUTES` what stands there, as properties."""
    for owner, attributes in ATTRIBUTES.items():
        for name, value in attributes.items():
            setattr(owner, name, property(value))


def is_private(name: str) -> bool:
    """Whether a module is a private one of JAX, or of the packages below it.

    Raises:
      ModuleNotFoundError: it would be, and none of the table.
    """
    if name in PRIVATE:
        return True
    if not any(name == root or name.startswith(root + ".") for root in _ROOTS):
        return False
    raise new_error(
        ModuleNotFoundError,
        f"No module named {name!r}",
        "pyjax stands in for JAX here, and of its private names has those only that libraries were "
        "seen to use",
        f"use the public name instead{_nearest(name.rpartition('.')[2])}",
    )


def _nearest(name: str) -> str:
    """Where something of that name, or nearly, is public."""
    publics = {
        found: module
        for module in ("pyjax", "pyjax.numpy", "pyjax.lax", "pyjax.tree_util", "pyjax.extend.core")
        for found in dir(importlib.import_module(module))
        if not found.startswith("_")
    }
    close = difflib.get_close_matches(name.strip("_"), publics, 1, 0.8)
    if not close:
        return ", if there is one: see the list of modules of the API"
    return f": {publics[close[0]].replace('pyjax', 'jax', 1)}.{close[0]}"


class PrivateModule(ModuleType):
    """A module of the table; names are looked up when they are asked for."""

    def __init__(self, name: str, made: _Made) -> None:
        super().__init__(name, f"Names that JAX has in {name}, made from public ones.")
        self.__path__: list[str] = []
        self._made = made

    def __getattr__(self, name: str) -> Any:
        made = self._made.names.get(name)
        if made is not None:
            value = _public(made) if isinstance(made, str) else made()
            setattr(self, name, value)
            return value
        for module in self._made.public:
            source = importlib.import_module(module)
            if not name.startswith("__") and hasattr(source, name):
                return getattr(source, name)
        if f"{self.__name__}.{name}" in PRIVATE:
            return importlib.import_module(f"{self.__name__}.{name}")
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise new_error(
            AttributeError,
            f"module {self.__name__!r} has no attribute {name!r}",
            "pyjax stands in for JAX here, and of its private names has those only that libraries "
            "were seen to use",
            f"use the public name instead{_nearest(name)}",
        )

    def __dir__(self) -> list[str]:
        public = [n for m in self._made.public for n in dir(importlib.import_module(m))]
        return sorted({*super().__dir__(), *self._made.names, *public})


def _public(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(importlib.import_module(module), name)


def private_module(name: str) -> PrivateModule:
    """The module, made anew."""
    return PrivateModule(name, PRIVATE[name])
