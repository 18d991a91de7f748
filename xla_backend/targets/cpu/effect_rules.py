"""The state of the random number generator: an effect beyond the results."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import RNG_INITIAL_STATE, RngGetAndUpdateStateAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Library, Step
from xla_backend.targets.cpu.rules import RULES


@RULES.runs(Opcode.RNG_GET_AND_UPDATE_STATE)
def _rng_get_and_update_state(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    """The state is one word of the program, kept between executions; the high word stays 0 (a
    stream of 2^64 blocks does not end)."""
    assert isinstance(node.attributes, RngGetAndUpdateStateAttributes)
    state = builder.state("rng", np.asarray([RNG_INITIAL_STATE], np.uint64))
    operands = (state, builder.slice(node), node.attributes.delta)
    return [Library(node.name, 0.0, "rng_state", operands)]
