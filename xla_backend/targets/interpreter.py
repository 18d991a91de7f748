"""The `interpreter` platform: runs HLO in the NumPy evaluator. For debugging and as an oracle,
never a default.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate, evaluate_partitioned
from xla_backend.hlo.evaluator.participants import Lockstep, Participant
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.topology import Topology
from xla_backend.hlo.verifier import verify
from xla_backend.passes.buffer_values import donations
from xla_backend.runtime.array_executable import ArrayExecutable
from xla_backend.runtime.client import Device, ExecutionContext, LoadedExecutable
from xla_backend.runtime.custom_calls import custom_calls_in
from xla_backend.runtime.hlo_client import HloClient

# Registers LAPACK's custom calls.
from xla_backend.runtime.host_libraries import lapack_calls as lapack_calls


class InterpreterExecutable(ArrayExecutable):
    def __init__(self, module: HloModule, device: Device) -> None:
        assert module.entry is not None
        parameters, root = module.entry.program_shape
        self.module = module
        self.device = device
        self.parameter_shapes = [leaf for shape in parameters for leaf in shape.flatten()]
        self.output_shapes = root.flatten()
        self.aliases = donations(module)
        self.topology = Topology(module.replica_count, module.num_partitions)

    def compute(self, arrays: Sequence[np.ndarray], context: ExecutionContext) -> list[np.ndarray]:
        number = self.topology.number(context.replica, context.partition)
        return evaluate(
            self.module,
            arrays,
            custom_calls=custom_calls_in(context),
            host=context.device.host,
            participant=Participant(number, self.topology, Lockstep(1)),
        )

    def compute_together(
        self, arrays: Sequence[Sequence[np.ndarray]], contexts: Sequence[ExecutionContext]
    ) -> list[list[np.ndarray]]:
        return evaluate_partitioned(self.module, arrays)

    def texts(self) -> dict[str, str]:
        return {"hlo": module_to_text(self.module)}


class InterpreterClient(HloClient):
    platform = "interpreter"
    platform_version = "NumPy HLO evaluator"

    def __init__(self) -> None:
        self._devices = [Device(self, 0, "interpreter")]

    def devices(self) -> list[Device]:
        return self._devices

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        verify(module)
        return InterpreterExecutable(module, self._devices[0])
