"""cholesky and triangular-solve: small matrices are kernels, larger ones are solved elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.library.small_matrices import (
    cholesky_kernel,
    is_small,
    triangular_solve_kernel,
)
from xla_backend.program.build import ProgramBuilder
from xla_backend.program.ir import Step
from xla_backend.runtime.host_rules import HOST_RULES
from xla_backend.targets.gpu.rules import RULES

_KERNELS = {
    Opcode.CHOLESKY: cholesky_kernel,
    Opcode.TRIANGULAR_SOLVE: triangular_solve_kernel,
}


@RULES.runs(*_KERNELS)
def _solve(builder: ProgramBuilder, node: Instruction) -> Sequence[Step]:
    if not is_small(node):
        return HOST_RULES[node.opcode](builder, node)
    make = _KERNELS[node.opcode]
    return builder.launch(node, lambda name: make(name, node))
