"""Programs that are lowered when somebody needs their module, and not where a digest of what they
are made from is enough to find what was compiled of them. Layer: runtime.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyjax._config import options
from pyjax._config.registry import trace_context, under_key
from pyjax.core.call_chains import running_chain
from pyjax.core.compile_log import LOWERING, timed
from pyjax.core.source_info import Frame
from pyjax.interpreters.hlo import module_name
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.persistent.settings import cache_settings
from xla_backend.process.no_collections import without_collections
from xla_backend.process.on_first_use import import_now

logger = logging.getLogger(__name__)

_PACKAGE = str(Path(__file__).parent.parent)
_DIGESTS, _SOURCES = "pyjax.interpreters.program_digest", "xla_backend.persistent.sources"


def module_source(
    name: str, lower: Callable[[Frame | None], HloModule], *made_from: Any
) -> ModuleSource:
    """The module of a function, which is lowered when it is needed, as it would be here and now.

    Args:
      name: of the function.
      lower: makes the module, for a place at which the program is used.
      made_from: all that lowering looks at, beside options and the sources of rules; nothing: only
        the module tells what it computes.
    """
    context = trace_context()
    caller = running_chain()

    def make() -> HloModule:
        start = time.perf_counter()
        with timed(LOWERING, f"jit({name})"):
            module = under_key(context, lambda: without_collections(lower, caller))
        if options.log_compiles.value:
            logger.warning("Finished lowering %s in %.4f s", name, time.perf_counter() - start)
        return module

    return ModuleSource(module_name(name), make, _digest(made_from) if made_from else None)


def tell_of_lowering(source: ModuleSource) -> None:
    """Listeners hear of every stage of a program, of this one too where it was left out: what was
    compiled was found by its digest, and lowering took no time."""
    if not source.is_made:
        with timed(LOWERING, f"jit({source.name.removeprefix('jit_')})"):
            pass


def _digest(made_from: tuple[Any, ...]) -> str | None:
    if not cache_settings().enabled:
        return None
    digests: Any = import_now(_DIGESTS)
    sources: Any = import_now(_SOURCES)
    digest = sources.digest_of_folders(_PACKAGE, *digests.ROOMS)
    return None if digest is None else digests.digest_of((digest, *made_from))  # type: ignore[no-any-return]
