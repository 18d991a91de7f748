"""The compiler's persistent cache: as the options say, with its events as monitoring records them.

Light, as it loads with pyjax; what users ask of the cache is experimental/compilation_cache.
"""

from __future__ import annotations

import logging
from typing import Any

from pyjax._config import options
from pyjax.core import monitoring
from xla_backend.persistent.events import CacheEvent, Outcome, on_cache_event
from xla_backend.persistent.settings import DEFAULT_LIMIT, change_cache_settings

logger = logging.getLogger(__name__)

_EVENTS = "/jax/compilation_cache/"
# Events that are recorded once in a process.
_recorded: set[str] = set()
_NO_INTERNAL_CACHES = ("", "none")


def _limit(size: int, directory: str | None) -> int | None:
    """Who names a directory decides how much it may hold; pyjax's own is bounded."""
    if size >= 0:
        return size
    return None if directory is not None else DEFAULT_LIMIT


def _apply(_: Any) -> None:
    directory = options.compilation_cache_dir.value or None
    size = options.compilation_cache_max_size.value
    seconds = options.persistent_cache_min_compile_time_secs
    internal = options.persistent_cache_enable_xla_caches.value
    change_cache_settings(
        enabled=options.enable_compilation_cache.value and size != 0,
        directory=directory,
        limit=_limit(size, directory),
        # The default is a measure for slower compilers: nothing of ours would be kept.
        min_compile_seconds=seconds.value if seconds.is_set else 0.0,
        min_entry_bytes=options.persistent_cache_min_entry_size_bytes.value,
        raise_errors=options.raise_persistent_cache_errors.value,
        metadata_in_key=options.compilation_cache_include_metadata_in_key.value,
        pointers_in_key=not options.remove_custom_partitioning_ptr_from_cache_key.value,
        internal=internal not in _NO_INTERNAL_CACHES,
    )


for _option in (
    options.compilation_cache_dir,
    options.compilation_cache_include_metadata_in_key,
    options.compilation_cache_max_size,
    options.enable_compilation_cache,
    options.persistent_cache_enable_xla_caches,
    options.persistent_cache_min_compile_time_secs,
    options.persistent_cache_min_entry_size_bytes,
    options.raise_persistent_cache_errors,
    options.remove_custom_partitioning_ptr_from_cache_key,
):
    _option.on_change(_apply)


def _record_once(event: str) -> None:
    if event not in _recorded:
        _recorded.add(event)
        monitoring.record_event(_EVENTS + event)


def _record(event: CacheEvent) -> None:
    if event.outcome is Outcome.DISABLED:
        _record_once("task_disabled_cache")
    elif event.outcome is Outcome.REQUESTED:
        _record_once("tasks_using_cache")
        monitoring.record_event(_EVENTS + "compile_requests_use_cache")
    elif event.outcome is Outcome.FOUND:
        monitoring.record_event(_EVENTS + "cache_hits")
        for name, seconds in (
            ("compile_time_saved_sec", event.saved),
            ("cache_retrieval_time_sec", event.seconds),
        ):
            monitoring.record_event_duration_secs(_EVENTS + name, seconds)
        logger.debug("Found %s in the persistent compilation cache (%s)", event.module, event.key)
    elif event.outcome is Outcome.NOT_FOUND:
        _log_miss("PERSISTENT COMPILATION CACHE MISS for %r with key %s", event)
    else:
        monitoring.record_event(_EVENTS + "cache_misses")
        _log_miss("Kept %r in the persistent compilation cache with key %s", event)


def _log_miss(text: str, event: CacheEvent) -> None:
    level = logging.WARNING if options.explain_cache_misses.value else logging.DEBUG
    logger.log(level, text, event.module, event.key)


on_cache_event(_record)
