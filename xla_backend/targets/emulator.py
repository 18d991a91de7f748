"""The platforms `emulator` and `gpu_emulator`: programs exactly as a target (the CPU, a GPU) would
run them, but in Python.

A module goes through the passes, the buffer assignment and the schedules of the target; then the
program is stepped: kernels in the kernel interpreter as they are scheduled (blocks one after
another, threads and lanes in lockstep), library routines as the references of their contracts. A
race or an access out of bounds is an error that names the element. For debugging and for machines
without the target, never a default. One step at a time:

  executable = xla_backend.compile(module, platform="emulator")
  for step in executable.loaded.stepper(arrays).steps():
      ...

Participants of one run need each other at collectives: `run_arrays_together` runs them, and
`program.lockstep.run_together` does so with steppers, one for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.kernels.counters import KernelCounters
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.program.lockstep import run_together
from xla_backend.program.plan import Plan, Planner
from xla_backend.program.printer import program_to_text
from xla_backend.program.stepper import Stepper
from xla_backend.runtime.array_executable import ArrayExecutable
from xla_backend.runtime.client import Device, ExecutionContext, LoadedExecutable
from xla_backend.runtime.hlo_client import HloClient


class EmulatorExecutable(ArrayExecutable):
    def __init__(self, module: HloModule, plan: Plan, device: Device) -> None:
        self.module = module
        self.device = device
        self.plan = plan
        program = plan.program
        self.parameter_shapes = list(program.parameters)
        self.output_shapes = list(program.outputs)
        self.aliases = program.aliases
        self.temp_size = program.arena_size
        self.topology = program.topology
        self._states: dict[Device, list[np.ndarray]] = {}

    def stepper(
        self,
        arrays: Sequence[np.ndarray],
        context: ExecutionContext | None = None,
        counters: Callable[[str], KernelCounters | None] = lambda kernel: None,
    ) -> Stepper:
        """One execution on one array per parameter, which has not begun yet; without a context on
        `device`. `counters`: where to count, by the name of a kernel.

        Raises:
          ValueError: number, shapes or types of the arrays are not the program's.
        """
        plan, context = self.plan, context or ExecutionContext(self.device)
        initial = [array.copy() for array in plan.program.state]
        state = self._states.setdefault(context.device, initial)
        program, routines, host = plan
        return Stepper(program, arrays, routines, host, context, state, counters)

    def counters(
        self, arrays: Sequence[np.ndarray], *, most_ways: int | None = None
    ) -> dict[str, KernelCounters]:
        """Run once, and count what each kernel asks of a GPU, all its launches together: bytes and
        sectors of global memory, bank conflicts, barriers, shuffles, operations (see
        `kernels.counters`, whose `table` prints them). With `most_ways`, shared memory of which a
        warp wants more words of one bank at once is an error.

        Raises:
          BankConflictError: there is such an access.
          ValueError: number, shapes or types of the arrays are not the program's.
        """
        counted = {name: KernelCounters(name, most_ways) for name in self.plan.program.kernels}
        self.stepper(arrays, counters=counted.get).run()
        return counted

    def compute(self, arrays: Sequence[np.ndarray], context: ExecutionContext) -> list[np.ndarray]:
        return self.stepper(arrays, context).run()

    def compute_together(
        self, arrays: Sequence[Sequence[np.ndarray]], contexts: Sequence[ExecutionContext]
    ) -> list[list[np.ndarray]]:
        return run_together([self.stepper(a, context) for a, context in zip(arrays, contexts)])

    def texts(self) -> dict[str, str]:
        program = self.plan.program
        return {
            "hlo": module_to_text(self.module),
            "program": program_to_text(program, self.plan.routines),
            "loops": "\n\n".join(map(kernel_to_text, program.kernels.values())),
        }


class EmulatorClient(HloClient):
    """A client that runs what `planner` plans, as `platform`; `of`: which target is emulated."""

    def __init__(self, platform: str, planner: Planner, of: str, device_count: int = 1) -> None:
        self.platform = platform
        self.platform_version = f"emulated {of}"
        self.shared_memory = "host" if of == "cpu" else None
        self._planner = planner
        self._devices = [Device(self, i, platform) for i in range(device_count)]

    def devices(self) -> list[Device]:
        return self._devices

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        return EmulatorExecutable(module, self._planner(module, options), self._devices[0])
