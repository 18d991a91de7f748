"""Backends and devices: which platforms are initialised, and which device is the default."""

from __future__ import annotations

import functools
import threading
from typing import Any

from pyjax._config import options
from xla_backend.debug_options import current_debug_options
from xla_backend.process.forks import START, take_for_forks
from xla_backend.runtime.client import AbstractClient, Device
from xla_backend.runtime.host_threads import set_num_threads
from xla_backend.runtime.memory import POOL
from xla_backend.runtime.plugins import discover_plugins
from xla_backend.targets import built_in as built_in  # registers the platforms

# The compiler is imported under it: a child of a fork in the middle of that would wait for ever.
_lock = threading.RLock()
take_for_forks(_lock, START)
_clients: dict[str, AbstractClient] | None = None

_ALIASES = {"gpu": ("cuda", "rocm")}  # the generic name stands for whichever is there


def _limit_memory(nbytes: int) -> None:
    POOL.limit = None if nbytes < 0 else nbytes


options.cpu_memory_limit.on_change(_limit_memory)
options.num_threads.on_change(set_num_threads)


def _make_client(platform: str) -> AbstractClient:
    plugin = discover_plugins()[platform]
    if platform == "cpu":
        count = options.num_cpu_devices.value
        if count < 0:
            count = current_debug_options().xla_force_host_platform_device_count
        return plugin.factory(device_count=max(1, count))
    return plugin.factory()


def backends() -> dict[str, AbstractClient]:
    """Initialised clients by platform; the first is the default.

    Raises:
      RuntimeError: a platform named in `jax_platforms` is unknown or fails to start; the cause is
        chained.
    """
    global _clients
    if _clients is not None:
        return _clients
    with _lock:
        if _clients is not None:
            return _clients
        plugins = discover_plugins()
        requested = options.platforms.value or options.platform_name.value
        clients: dict[str, AbstractClient] = {}
        if requested:
            for name in (n.strip() for n in requested.split(",")):
                if name not in plugins:
                    raise RuntimeError(
                        f"unknown platform {name!r} in jax_platforms={requested!r}; "
                        f"known platforms: {', '.join(sorted(plugins))}"
                    )
                try:
                    clients[name] = _make_client(name)
                except Exception as error:
                    raise RuntimeError(
                        f"platform {name!r} of jax_platforms={requested!r} failed to start: {error}"
                    ) from error
        else:
            for plugin in sorted(plugins.values(), key=lambda p: -p.priority):
                if plugin.automatic:
                    clients[plugin.name] = _make_client(plugin.name)
        if _clients is None:  # a signal handler may have come before
            _clients = clients
        for option in (options.platforms, options.platform_name, options.num_cpu_devices):
            option.lock("the backends are initialised already.")
        return _clients


def clear_backends() -> None:
    """Forget all clients, so that the next use initialises them again."""
    global _clients
    with _lock:
        _clients = None
        _default_device.cache_clear()
        for option in (options.platforms, options.platform_name, options.num_cpu_devices):
            option.lock(None)


def get_backend(platform: str | AbstractClient | None = None) -> AbstractClient:
    """The client of a platform; None: the default one.

    Raises:
      RuntimeError: no such platform is initialised; lists those that are.
    """
    if isinstance(platform, AbstractClient):
        return platform
    clients = backends()
    if platform is None:
        return next(iter(clients.values()))
    for name in (platform, *_ALIASES.get(platform, ())):
        if name in clients:
            return clients[name]
    raise RuntimeError(
        f"unknown backend {platform!r}: the initialised platforms are {', '.join(clients)}. "
        "Name one of them, or list it in jax_platforms before the first use."
    )


@functools.cache
def _default_device(requested: Any) -> Device:
    if requested is None:
        return get_backend().devices()[0]
    if isinstance(requested, str):
        return get_backend(requested).devices()[0]
    if isinstance(requested, Device):
        return requested
    raise TypeError(
        f"jax_default_device is {requested!r}; it must be a Device (see pyjax.devices()), "
        "a platform name or None"
    )


def default_device() -> Device:
    """The device that uncommitted computations run on."""
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
    """Devices attached to one process (this one if None)."""
    if host_id is not None:
        process_index = host_id
    if process_index not in (None, 0):
        raise ValueError(f"unknown process_index {process_index}: there is one process, number 0")
    return devices(backend)


def device_count(backend: str | AbstractClient | None = None) -> int:
    """Number of devices over all processes."""
    return len(devices(backend))


def local_device_count(backend: str | AbstractClient | None = None) -> int:
    """Number of devices of this process."""
    return len(local_devices(backend=backend))


def process_index(backend: str | AbstractClient | None = None) -> int:
    """Number of this process, from 0."""
    return get_backend(backend).process_index()


def process_count(backend: str | AbstractClient | None = None) -> int:
    """Number of processes that run this program together."""
    return 1


def process_indices(backend: str | AbstractClient | None = None) -> list[int]:
    """Numbers of all processes."""
    return list(range(process_count(backend)))


def default_backend() -> str:
    """Name of the default platform."""
    return get_backend().platform
