"""Arrays that only the cycle collector frees, for the option array_garbage_collection_guard.

Such an array lives on until the collector happens to run, with all its memory. While the option is
on, each collection is watched: weak references to the arrays that it could free tell which it did.
"""

from __future__ import annotations

import gc
import logging
import os
import weakref
from typing import Any

from pyjax._config import options
from pyjax.runtime.array import DeviceArray
from xla_backend.process.instances import instances_of

logger = logging.getLogger(__name__)
# Of the collection that is running, if it is watched: the arrays that it could free.
_candidates: list[tuple[weakref.ref[DeviceArray], str]] = []


def _watch(phase: str, info: dict[str, Any]) -> None:
    if options.array_garbage_collection_guard.value in (None, "allow"):
        return
    if phase == "start":
        _candidates.clear()
        for x in instances_of(DeviceArray):
            _candidates.append((weakref.ref(x), x.aval.str_short()))
        return
    freed = [text for reference, text in _candidates if reference() is None]
    _candidates.clear()
    for text in freed:
        logger.warning(
            "An array, %s, was freed by the garbage collector: a reference cycle held it, and its "
            "memory, until now. Break the cycle, or delete the array when it is not needed "
            "any more (x.delete()); the option jax_array_garbage_collection_guard looks for this.",
            text,
        )
    if freed and options.array_garbage_collection_guard.value == "fatal":
        logger.critical("jax_array_garbage_collection_guard is 'fatal': the process ends here.")
        os.abort()


def _watch_if_wanted(value: str | None) -> None:
    """Collections are left alone until somebody asks for more: an interrupt that comes while they
    call Python would be lost."""
    if value not in (None, "allow") and _watch not in gc.callbacks:
        gc.callbacks.append(_watch)


options.array_garbage_collection_guard.on_change(_watch_if_wanted)
options.array_garbage_collection_guard.on_block(lambda block: _watch_if_wanted(block.value))
