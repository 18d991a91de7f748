"""Functions of the library that are programs of their own where nothing is traced, and else run as
if they were written where they are called: their equations are those of whoever calls them.

That is what `jit(..., inline=True)` asks for. A program of its own would be traced, derived and
transposed by itself, and then its equations copied: twice the work in a step of a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core.trace import state
from pyjax.interpreters.ad import JVPTrace, JVPTracer
from pyjax.interpreters.staging import SCALARS, JaxprTracer, ScalarTracer, StagingTrace

_folding = options.eager_constant_folding.here


def spliced_arguments(values: Sequence[Any]) -> list[Any] | None:
    """The arguments of such a function inside of what is traced, as arrays; None if it is a program
    of its own: where equations are not recorded, or not these (they are mapped, or are computed at
    once), or where there is a constant among the arguments that is no number."""
    traces: list[Any] = [state.traces[0]]
    while isinstance(traces[-1], JVPTrace):
        traces.append(traces[-1].parent)
    recording = traces[-1]
    if type(recording) is not StagingTrace or _folding()[0].value:
        return None
    found, arrays = [], 0
    for x in values:
        if isinstance(x, (JaxprTracer, JVPTracer)) and x._trace in traces:
            arrays += 1
        elif isinstance(x, SCALARS) or isinstance(x, np.generic):
            x = ScalarTracer(recording, x)
        else:
            return None
        found.append(x)
    return found if arrays else None


def spliced_result(result: Any) -> Any:
    """The result of such a function: a number that it was given is one again."""
    return result.value if type(result) is ScalarTracer else result
