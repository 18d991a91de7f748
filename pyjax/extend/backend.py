"""Clients of the platforms, for programs that start them anew."""

from pyjax.runtime.devices import backends as backends
from pyjax.runtime.devices import clear_backends as clear_backends
from pyjax.runtime.devices import default_device as get_default_device
from pyjax.runtime.devices import get_backend as get_backend
from pyjax.runtime.dispatch import clear_caches as clear_in_memory_compilation_cache

__all__ = [
    "backends",
    "clear_backends",
    "clear_in_memory_compilation_cache",
    "get_backend",
    "get_default_device",
]
