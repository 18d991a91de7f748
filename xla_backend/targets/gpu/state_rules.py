"""The state of the random number generator: an effect beyond the results."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import RNG_INITIAL_STATE, RngGetAndUpdateStateAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import constant
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.targets.gpu.rules import RULES

_WORD = PrimitiveType.U64


@RULES.runs(Opcode.RNG_GET_AND_UPDATE_STATE)
def _rng_get_and_update_state(builder: ProgramBuilder, node: Instruction) -> list[Step]:
    """The state is one word of the program, kept between executions; the high word stays 0 (a
    stream of 2^64 blocks does not end)."""
    assert isinstance(node.attributes, RngGetAndUpdateStateAttributes)
    delta = node.attributes.delta

    def build(name: str) -> Kernel:
        b = LoopBuilder(name)
        state = b.buffer("state", _WORD, 1, BufferRole.OUTPUT, 1)
        out = b.buffer("out0", _WORD, 2, BufferRole.OUTPUT, 0)
        before = b.load(state, constant(0), mutable=True)
        b.store(out, constant(0), (before, b.constant(_WORD, 0)))
        step = b.constant(_WORD, np.uint64(delta))
        b.store(state, constant(0), (b.compute(Opcode.ADD, _WORD, (before, step)),))
        return b.kernel

    kept = builder.state("rng", np.asarray([RNG_INITIAL_STATE], np.uint64))
    scheduled = builder.kernels.get_built(("rng state", delta), "rng_state", build, node)
    places = {"state": kept, "out0": builder.slice(node)}
    return [builder.launch_kernel(node.name, scheduled, lambda buffer: places[buffer.name])]
