"""Backends and devices: which platforms are initialised, and which device is the default."""

from __future__ import annotations

import functools
import logging
import threading
from typing import Any

from pyjax._config import options
from pyjax.core.errors import new_error
from pyjax.runtime.gpu_environment import gpu_environment
from xla_backend.debug_options import current_debug_options
from xla_backend.process import bounded_cache
from xla_backend.process.forks import START, check_forked, take_for_forks
from xla_backend.runtime.client import AbstractClient, Device
from xla_backend.runtime.host_threads import set_num_threads
from xla_backend.runtime.memory import POOL
from xla_backend.runtime.plugins import discover_plugins
from xla_backend.targets import built_in as built_in  # registers the platforms

logger = logging.getLogger(__name__)

# The compiler is imported under it: a child of a fork in the middle of that would wait for ever.
_lock = threading.RLock()
take_for_forks(_lock, START)
_clients: dict[str, AbstractClient] | None = None

_ALIASES = {"gpu": ("cuda", "rocm")}  # the generic name stands for whichever is there


def _limit_memory(nbytes: int) -> None:
    POOL.limit = None if nbytes < 0 else nbytes


options.cpu_memory_limit.on_change(_limit_memory)
options.num_threads.on_change(set_num_threads)


_READ_AT_START = (
    options.backend_target,
    options.cpu_get_global_topology_timeout_minutes,
    options.cuda_memory_fraction,
    options.cuda_visible_devices,
    options.mock_gpu_topology,
    options.mock_num_gpu_processes,
    options.num_cpu_devices,
    options.pjrt_client_create_options,
    options.platform_name,
    options.platforms,
    options.xla_backend,
)


def _start(platform: str, asked: str, given: dict[str, Any]) -> AbstractClient:
    """The client of a platform, made with the options that are given for it.

    Raises:
      RuntimeError: it fails to start; the cause is chained.
    """
    plugin = discover_plugins()[platform]
    if platform in ("cpu", "emulator", "gpu_emulator"):
        count = options.num_cpu_devices.value
        if count < 0:
            count = current_debug_options().xla_force_host_platform_device_count
        given = {"device_count": max(1, count), **given}
    if platform == "cpu":
        minutes = options.cpu_get_global_topology_timeout_minutes.value
        given = {"seconds": 60 * minutes, **given}
    try:
        if platform == "cuda":
            given = {**_gpu_options(), **given}
        return plugin.factory(**given)
    except Exception as error:
        left_out = "" if asked else "; jax_platforms=cpu starts without it"
        raise new_error(
            RuntimeError, f"platform {platform!r}{asked} failed to start: {error}{left_out}"
        ) from error


def _gpu_options() -> dict[str, Any]:
    """What the client of GPUs is made with: options win over variables of JAX."""
    given = gpu_environment()
    chosen, fraction = _chosen_gpus(), options.cuda_memory_fraction.value
    if chosen is not None:
        given["visible_devices"] = chosen
    if fraction is not None:
        given["memory_fraction"] = fraction
    return given


def _client_options() -> dict[str, Any]:
    """`jax_pjrt_client_create_options`: `key:value` pairs between semicolons."""
    text = options.pjrt_client_create_options.value or ""
    given: dict[str, Any] = {}
    for pair in filter(None, text.split(";")):
        key, colon, value = pair.partition(":")
        if not colon or ":" in value:
            raise new_error(
                RuntimeError,
                f"bad option {pair!r} in jax_pjrt_client_create_options={text!r}: write key:value, "
                "several of them with ';' between",
            )
        value = value.strip()
        given[key.strip()] = int(value) if value.lstrip("-").isdigit() else value
    return given


def _requested_platforms() -> tuple[list[str], str]:
    """The platforms that options name, the default one first, and the words of messages that say
    which options did. None: those that start by themselves.

    Raises:
      RuntimeError: there is no such platform.
    """
    by_option = {
        option.name: option.value
        for option in (options.platforms, options.xla_backend, options.platform_name)
        if option.value
    }
    if not by_option:
        return [], ""
    *named, default = ([n.strip() for n in v.split(",")] for v in reversed(by_option.values()))
    asked = " of " + " and ".join(f"{name}={value!r}" for name, value in by_option.items())
    names = list(dict.fromkeys([*(name for names in named for name in names), *default]))
    if options.platforms.value and set(names) != set(default):
        missing = ", ".join(sorted(set(names) - set(default)))
        raise new_error(
            RuntimeError, f"{missing} is the default platform{asked}, but is not to be started"
        )
    known = {*discover_plugins()} - {"mock-gpu"}
    names = [_registered(name, known) for name in names]
    for name in names:
        if name not in known:
            raise new_error(
                RuntimeError,
                f"unknown platform {name!r}{asked.replace(' of ', ' in ', 1)}; "
                f"known platforms: {', '.join(sorted(known))}",
            )
    return names, asked


def _mocked() -> bool:
    return bool(options.mock_gpu_topology.value or options.mock_num_gpu_processes.value)


def _mock_client() -> AbstractClient:
    """The GPUs that `jax_mock_gpu_topology` or `mock_num_gpu_processes` says to pretend.

    Raises:
      RuntimeError: the topology, or the list of visible devices, is none.
    """
    text = options.mock_gpu_topology.value
    processes, local = options.mock_num_gpu_processes.value, 1
    if text:
        parts = [part.strip() for part in text.split("x")]
        if len(parts) != 3 or not all(part.isdigit() and int(part) for part in parts):
            raise new_error(
                RuntimeError,
                f"jax_mock_gpu_topology={text!r} is no topology: write slices x hosts of a slice x "
                "GPUs of a host, such as 2x4x8",
            )
        slices, hosts, local = map(int, parts)
        processes = slices * hosts
    mock = discover_plugins()["mock-gpu"]
    return mock.factory(processes=processes, local_devices=_visible(list(range(local))))


def pretended_devices(count: int) -> list[Device]:
    """GPUs of this process that are not here, to lower programs for."""
    mock = discover_plugins()["mock-gpu"]
    return mock.factory(processes=1, local_devices=list(range(count))).devices()


def _registered(name: str, known: set[str]) -> str:
    """The platform that a generic name stands for, or the name itself."""
    return next((alias for alias in _ALIASES.get(name, ()) if alias in known), name)


def _chosen_gpus() -> list[int] | None:
    """The numbers of GPUs in `jax_cuda_visible_devices`; None: all."""
    text = options.cuda_visible_devices.value
    if text == "all":
        return None
    chosen = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in chosen) or len(set(chosen)) != len(chosen):
        raise new_error(
            RuntimeError,
            f"jax_cuda_visible_devices={text!r}: write different numbers of GPUs with commas "
            "between, such as 0,2, or all",
        )
    return [int(part) for part in chosen]


def _visible(numbers: list[int]) -> list[int]:
    """Those of a host's pretended GPUs that `jax_cuda_visible_devices` names."""
    chosen = _chosen_gpus()
    if chosen is None:
        return numbers
    missing = [number for number in chosen if number not in numbers]
    if missing:
        raise new_error(
            RuntimeError,
            f"jax_cuda_visible_devices={options.cuda_visible_devices.value!r}: there is no GPU "
            f"{missing[0]}; each host has {len(numbers)}",
        )
    return chosen


def _start_all() -> dict[str, AbstractClient]:
    target = options.backend_target.value
    if target not in ("", "local"):
        raise new_error(
            RuntimeError,
            f"jax_backend_target={target!r} names a remote backend: every platform of this library "
            "runs in this process (local). A platform that reaches others is a plugin's; name it "
            "in jax_platforms",
        )
    names, asked = _requested_platforms()
    plugins = discover_plugins()
    if not names:
        by_priority = sorted(plugins.values(), key=lambda p: -p.priority)
        pretended = ["cuda"] if _mocked() else []
        real = [p for p in by_priority if p.name not in pretended]
        names = [plugin.name for plugin in real if plugin.automatic()] + pretended
    given = _client_options()
    clients: dict[str, AbstractClient] = {}
    for name in names:
        mocked = name == "cuda" and _mocked()
        clients[name] = _mock_client() if mocked else _start(name, asked, given)
        if options.distributed_debug.value:
            number, found = clients[name].process_index(), clients[name].devices()
            logger.warning("Initialized backend %s: process %s, %s", name, number, found)
        given = {}  # they are the default platform's
    return clients


def backends() -> dict[str, AbstractClient]:
    """Initialised clients by platform; the first is the default.

    Raises:
      RuntimeError: a platform named in `jax_platforms` is unknown or fails to start; the cause is
        chained. Or an option that is read at the start makes no sense.

    >>> "cpu" in backends()
    True
    """
    global _clients
    if _clients is not None:
        return _clients
    check_forked()
    with _lock:
        if _clients is not None:
            return _clients
        clients = _start_all()
        if _clients is None:  # a signal handler may have come before
            _clients = clients
        for option in _READ_AT_START:
            option.lock("the backends are initialised already.")
        return _clients


def are_initialised() -> bool:
    """Whether clients were made: options that are read at the start have no effect any more."""
    return _clients is not None


def clear_backends() -> None:
    """Forget all clients, and what was compiled for them, so that the next use of a device makes
    new ones, with the options that are read at the start. Arrays that there are stay on their
    devices, which are none of the new ones.

    >>> callable(clear_backends)  # and not called here, where others use the devices
    True
    """
    global _clients
    with _lock:
        _clients = None
        bounded_cache.clear_all()
        _default_device.cache_clear()
        for option in _READ_AT_START:
            option.lock(None)


def get_backend(platform: str | AbstractClient | None = None) -> AbstractClient:
    """The client of a platform; None: the default one.

    Raises:
      RuntimeError: no such platform is initialised; lists those that are.

    >>> get_backend("cpu").platform
    'cpu'
    """
    if isinstance(platform, AbstractClient):
        return platform
    clients = backends()
    if platform is None:
        return next(iter(clients.values()))
    for name in (platform, *_ALIASES.get(platform, ())):
        if name in clients:
            return clients[name]
    plugins = discover_plugins()
    plugin = plugins.get(_registered(platform, set(plugins)))
    lacking = "" if plugin is None else plugin.missing()
    if lacking:
        raise new_error(RuntimeError, f"Unknown backend {platform!r}: {lacking}")
    raise new_error(
        RuntimeError,
        f"Unknown backend {platform!r}: the initialised platforms are {', '.join(clients)}.",
        "Platforms are started at the first use, those of jax_platforms or all that are found.",
        "Name one of them, or list it in jax_platforms before the first use.",
    )


@functools.cache
def _default_device(requested: Any) -> Device:
    if requested is None or isinstance(requested, str):
        return get_backend(requested).local_devices()[0]
    if isinstance(requested, Device):
        return requested
    raise new_error(
        TypeError,
        f"jax_default_device is {requested!r}; it must be a Device (see pyjax.devices()), "
        "a platform name or None",
    )


def default_device() -> Device:
    """The device that uncommitted computations run on.

    >>> get_default_device() in pyjax.devices()
    True
    """
    return _default_device(options.default_device.value)


def devices(backend: str | AbstractClient | None = None) -> list[Device]:
    """All devices of a platform (the default one if None), in order of their ids.

    >>> len(devices()) >= 1
    True
    """
    return list(get_backend(backend).devices())


def local_devices(
    process_index: int | None = None,
    backend: str | AbstractClient | None = None,
    host_id: int | None = None,
) -> list[Device]:
    """Devices attached to one process (this one if None).

    >>> len(pyjax.local_devices()) >= 1
    True
    """
    client = get_backend(backend)
    index = host_id if host_id is not None else process_index
    index = client.process_index() if index is None else index
    found = [device for device in client.devices() if device.process_index == index]
    if not found:
        numbers = ", ".join(map(str, process_indices(client)))
        raise new_error(ValueError, f"unknown process_index {index}: the processes are {numbers}")
    return found


def device_count(backend: str | AbstractClient | None = None) -> int:
    """Number of devices over all processes.

    >>> pyjax.device_count() >= 1
    True
    """
    return len(devices(backend))


def local_device_count(backend: str | AbstractClient | None = None) -> int:
    """Number of devices of this process.

    >>> pyjax.local_device_count() >= 1
    True
    """
    return len(local_devices(backend=backend))


def process_index(backend: str | AbstractClient | None = None) -> int:
    """Number of this process, from 0.

    >>> pyjax.process_index()
    0
    """
    return get_backend(backend).process_index()


def process_count(backend: str | AbstractClient | None = None) -> int:
    """Number of processes that run this program together.

    >>> pyjax.process_count()
    1
    """
    return len(process_indices(backend))


def process_indices(backend: str | AbstractClient | None = None) -> list[int]:
    """Numbers of all processes.

    >>> pyjax.process_indices()
    [0]
    """
    return sorted({device.process_index for device in devices(backend)})


def default_backend() -> str:
    """Name of the default platform.

    >>> pyjax.default_backend() in ("cpu", "gpu", "cuda", "emulator", "gpu_emulator")
    True
    """
    return get_backend().platform
