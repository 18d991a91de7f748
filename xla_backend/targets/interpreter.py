"""The `interpreter` platform: runs HLO in the NumPy evaluator. For debugging and as an oracle,
never a default.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.verifier import verify
from xla_backend.runtime.buffer import memory_view
from xla_backend.runtime.client import Device
from xla_backend.runtime.custom_calls import registered_custom_calls
from xla_backend.runtime.executable import LoadedExecutable
from xla_backend.runtime.hlo_client import HloClient
from xla_backend.targets.cpu import lapack_calls as lapack_calls  # registers LAPACK's custom calls


class InterpreterExecutable(LoadedExecutable):
    def __init__(self, module: HloModule) -> None:
        assert module.entry is not None
        parameters, root = module.entry.program_shape
        self.module = module
        self.parameter_shapes = [leaf for shape in parameters for leaf in shape.flatten()]
        self.output_shapes = root.flatten()

    def run(self, arguments: Sequence[int], outputs: Sequence[int]) -> None:
        values = [
            memory_view(ptr, shape.dimensions, shape.element_type.numpy_dtype, None)
            for ptr, shape in zip(arguments, self.parameter_shapes)
        ]
        results = evaluate(self.module, values, custom_calls=registered_custom_calls())
        for ptr, shape, value in zip(outputs, self.output_shapes, results):
            if value.nbytes:
                target = memory_view(ptr, shape.dimensions, shape.element_type.numpy_dtype, None)
                np.copyto(target, value)

    def texts(self) -> dict[str, str]:
        return {"hlo": module_to_text(self.module)}

    def memory_stats(self) -> dict[str, int]:
        return {
            "argument_size": sum(s.byte_size for s in self.parameter_shapes),
            "output_size": sum(s.byte_size for s in self.output_shapes),
            "temp_size": 0,
            "alias_size": 0,
            "generated_code_size": 0,
        }


class InterpreterClient(HloClient):
    platform = "interpreter"
    platform_version = "NumPy HLO evaluator"

    def __init__(self) -> None:
        self._devices = [Device(self, 0, "interpreter")]

    def devices(self) -> list[Device]:
        return self._devices

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        verify(module)
        return InterpreterExecutable(module)
