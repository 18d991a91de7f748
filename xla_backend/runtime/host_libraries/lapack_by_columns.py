"""LAPACK's routines on matrices that lie by columns: custom calls `lapack_columns.<routine>`.

An array of HLO lies by rows. These calls take each matrix of the last two dimensions the other way:
the routine sees the transposes of the operands' matrices, and the results hold the transposes of
what it gives. That is how libraries of GPUs take matrices, so that programs for them say where the
transposing is done. Options and all else are those of `lapack.<routine>` (`lapack_calls`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xla_backend.runtime.custom_calls import find_custom_call, register_custom_call
from xla_backend.runtime.host_libraries import lapack_calls as lapack_calls  # registers its calls
from xla_backend.runtime.host_libraries.lapack_arguments import patterns

PREFIX = "lapack_columns."
ROUTINES = ("potrf", "getrf", "geqrf", "orgqr", "ormqr", "syevd", "gesdd", "trsm")

Arrays = Sequence[np.ndarray]


def _run(name: str, operands: Arrays, results: Arrays, attributes: Any, context: Any) -> None:
    function = find_custom_call(f"lapack.{name}")
    assert function is not None
    taken, given = patterns(name)
    function(_seen(operands, taken), _seen(results, given), attributes, context)


def _seen(arrays: Arrays, each: Sequence[str]) -> list[np.ndarray]:
    """What the routine sees: matrices are turned."""
    return [x.mT if "," in pattern else x for x, pattern in zip(arrays, each)]


def _register() -> None:
    for name in ROUTINES:
        function: Callable[..., None] = partial(_run, name)
        register_custom_call(PREFIX + name, function)


_register()
