"""Variables of the environment that JAX has for the memory of GPUs: each is an option of the client
of that name, which says what it means (`CudaClient`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pyjax.core.errors import new_error

_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
# The newer name first.
_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
_ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"


def gpu_environment(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Options of the client of GPUs that variables give.

    Raises:
      ValueError: one has a value that makes no sense, or two say the same.

    >>> gpu_environment({"XLA_PYTHON_CLIENT_MEM_FRACTION": ".5"})
    {'memory_fraction': '.5'}
    """
    given: dict[str, Any] = {}
    fractions = [name for name in _FRACTIONS if environment.get(name)]
    if len(fractions) > 1:
        raise new_error(ValueError, f"{' and '.join(fractions)} are both set; set one of them")
    if fractions:
        given["memory_fraction"] = environment[fractions[0]]
    whole = environment.get(_PREALLOCATE, "").lower()
    if whole:
        if whole not in _TRUTHS:
            raise new_error(ValueError, f"{_PREALLOCATE}={whole}: write true or false")
        given["preallocate"] = _TRUTHS[whole]
    if environment.get(_ALLOCATOR):
        given["allocator"] = environment[_ALLOCATOR].lower()
    return given
