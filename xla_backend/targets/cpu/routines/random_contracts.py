"""The contract of the state of random numbers."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.targets.cpu.routines.contract_parts import Array, numbers


def _run_rng_state(state: Array, out: Array, delta: int) -> None:
    with np.errstate(over="ignore"):
        out[:] = state[0], 0
        state[0] += np.uint64(delta)


_RNG_STATE = Routine(
    "rng_state",
    (
        Parameter("state", Kind.UPDATE, P.U64),
        Parameter("out", Kind.WRITE, P.U64),
        *numbers("delta"),
    ),
    _run_rng_state,
)
ROUTINES = {_RNG_STATE.name: _RNG_STATE}
