"""How long a program takes on a device."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.shape import Shape
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.pending import Origin
from xla_backend.targets.gpu.autotuning import Trial
from xla_backend.targets.gpu.compiler import plan_scheduled
from xla_backend.targets.gpu.cuda.buffers import CudaBufferKind
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.executable import CudaExecutable
from xla_backend.targets.gpu.cuda.memory import CudaBuffer
from xla_backend.targets.gpu.generated_code import GeneratedCode
from xla_backend.targets.gpu.product_candidates import Choose

# Runs without waiting between them, so that the time of a call does not count; the best of several
# such rows, as others may use the device, too.
_IN_A_ROW = 8
_ROWS = 3
# Elements of an operand before they come again.
_NUMBERS = 1_000_003


class CudaTimer:
    """Tries programs on one GPU."""

    def __init__(self, device: CudaDevice, options: CompileOptions) -> None:
        self._device = device
        self._options = options._replace(dump=None)
        properties = device.cupy.cuda.runtime.getDeviceProperties(device.number)
        self.model = properties["name"].decode()

    def operands(self, module: HloModule) -> list[CudaBuffer]:
        """Arguments of a module, on the device.

        Raises:
          OutOfMemory: there is no memory for them.
        """
        assert module.entry is not None
        shapes = [s for p in module.entry.parameters for s in p.shape.flatten()]
        return [self._numbers(shape) for shape in shapes]

    def _numbers(self, shape: Shape) -> CudaBuffer:
        """An array of which no element is special: a few numbers again and again."""
        dtype = shape.element_type.numpy_dtype
        some = np.random.default_rng(0).integers(0, 2, _NUMBERS, np.int8).astype(dtype)
        kind = CudaBufferKind(self._device, shape.dimensions, dtype)
        return kind.from_host(np.resize(some, shape.dimensions))

    def trial(
        self,
        module: HloModule,
        choose: Choose,
        operands: Sequence[CudaBuffer],
        with_results: bool,
    ) -> Trial:
        """How long one run of a scheduled module takes, and what it computes."""
        device = self._device
        planned = plan_scheduled(module, self._options, (), choose)
        code = GeneratedCode(
            planned.program, planned.instructions, planned.architecture, self._options
        )
        executable = CudaExecutable(planned, module, code, device, graphs=False)
        context = ExecutionContext(device)
        found = executable.execute(list(operands), (), context)
        results = [each.kind.to_host(each) for each in found] if with_results else []
        seconds = min(self._row(executable, operands, context) for _ in range(_ROWS))
        return Trial(seconds, results)

    def _row(
        self,
        executable: CudaExecutable,
        arguments: Sequence[CudaBuffer],
        context: ExecutionContext,
    ) -> float:
        begin = perf_counter()
        for _ in range(_IN_A_ROW):
            executable.start(list(arguments), (), context, (), Origin())
        self._device.synchronize()
        return (perf_counter() - begin) / _IN_A_ROW
