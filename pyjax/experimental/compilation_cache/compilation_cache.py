"""What users ask of the persistent compilation cache.

It is on by default, in the user's cache directory; the options `jax_compilation_cache_*` and
`jax_persistent_cache_*` say where it is, and what it keeps.
"""

from __future__ import annotations

import os

from pyjax._config import config
from xla_backend.persistent.store import CacheStatus, clear, status


def set_cache_dir(path: str | os.PathLike[str]) -> None:
    """Keep compiled programs in this directory from now on.

    >>> import tempfile, pyjax
    >>> before = pyjax.config.jax_compilation_cache_dir
    >>> set_cache_dir(tempfile.mkdtemp())
    >>> cache_status().entries
    0
    >>> pyjax.config.update("jax_compilation_cache_dir", before)
    """
    config.update("jax_compilation_cache_dir", os.fspath(path))


def cache_status() -> CacheStatus:
    """Where the cache is, its entries by kind, bytes, limit, and how often entries were used.

    >>> cache_status().enabled
    True
    """
    return status()


def clear_cache() -> int:
    """Delete all entries; returns how many there were. Programs in use stay, and those that are
    still being compiled (`pyjax.compilation_barrier` waits for them) are kept when they are.

    >>> import tempfile, pyjax
    >>> before = pyjax.config.jax_compilation_cache_dir
    >>> set_cache_dir(tempfile.mkdtemp())
    >>> pyjax.jit(lambda x: x + 1)(1.0).item()
    2.0
    >>> pyjax.compilation_barrier()
    >>> clear_cache() > 0, cache_status().entries
    (True, 0)
    >>> pyjax.config.update("jax_compilation_cache_dir", before)
    """
    return clear()
