"""Where the user's program has the collectives that a run failed in."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.module import HloModule, source_location


def line_of(module: HloModule, collective: str) -> str:
    """File and line of a collective, as messages call it; empty if unknown."""
    name = collective.split()[0].removeprefix("%")
    for computation in module.computations:
        for node in computation.instructions:
            found = source_location(node) if node.name == name else None
            if found is not None:
                return ":".join(map(str, found))
    return ""


def name_line(error: BaseException, module: Callable[[], HloModule]) -> None:
    """Add to the error of a run where its collectives come from, if it is one of those; `module`
    is asked for then only."""
    if not isinstance(error, RuntimeFailure) or not error.collectives:
        return
    lines = {what: line_of(module(), what) for what in error.collectives}
    sources = {
        what: f"comes from {line}" if line else "lays out arrays as the program is to"
        for what, line in lines.items()
    }
    if len({*sources.values()}) == 1:
        text = f"the collective {next(iter(sources.values()))}"
    else:
        text = "; ".join(f"{what} {source}" for what, source in sources.items())
    error.args = (f"{error} ({text})",)
