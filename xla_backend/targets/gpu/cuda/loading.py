"""A program on one device: its code and constants there, and its steps as commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.program.ir import (
    Call,
    Collective,
    Copy,
    Host,
    HostFunction,
    If,
    Launch,
    Library,
    Program,
    Resident,
    Slice,
    Step,
    Steps,
    Undefined,
    While,
)
from xla_backend.runtime.client import ExecutionContext
from xla_backend.targets.gpu.cuda.code import Function, LoadedCode, maps_of, waits_for_all
from xla_backend.targets.gpu.cuda.collectives import CollectiveCommand, Combiner
from xla_backend.targets.gpu.cuda.commands import (
    Command,
    CopyCommand,
    HostCommand,
    IfCommand,
    LaunchCommand,
    RepeatCommand,
    Run,
    SolverCommand,
    WhileCommand,
)
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.graphs import in_stretches
from xla_backend.targets.gpu.cuda.layout import Layout, Place
from xla_backend.targets.gpu.cuda.library_calls import library_command
from xla_backend.targets.gpu.cuda.tensor_maps import ArrayMap
from xla_backend.targets.gpu.cuda.transforms import device_function, stays_on_host
from xla_backend.targets.gpu.generated_code import GeneratedCode

HostFunctions = Callable[[str | Opcode], HostFunction]


class LoadedProgram:
    """A program on a device.

    Attributes:
      commands: what an execution does.

    Raises:
      RuntimeFailure: the device does not take the code.
      OutOfMemory: there is no memory for constants or state.
    """

    def __init__(
        self,
        program: Program,
        layout: Layout,
        code: GeneratedCode,
        device: CudaDevice,
        host_functions: HostFunctions,
        graphs: bool,
    ) -> None:
        self._layout = layout
        self._device = device
        self._code = LoadedCode(code, device)
        self._functions, self._residents = code.functions, code.residents
        self._host_functions = host_functions
        self._graphs = graphs
        self._procedures: Mapping[str, Steps] = program.procedures
        self._constants = self._kept(
            program.constants, layout.constant_offsets, layout.constants_size
        )
        self._state = self._kept(program.state, layout.state_offsets, layout.state_size)
        self._contexts: dict[tuple[int, int], Any] = {}
        self._topology = program.topology
        self.commands: Sequence[Command] = self._made(program.steps)

    def prepared(self, addresses: Sequence[int], arena: int, context: ExecutionContext) -> Run:
        """An execution that may begin; in an active block. `addresses`: of arguments and
        outputs."""
        bases = [*addresses, arena, self._constants.ptr, self._state.ptr, self._context(context)]
        return Run(self._device, bases, context, self._device.stream)

    # -- memory ------------------------------------------------------------------------------------

    def _kept(self, arrays: Sequence[np.ndarray], offsets: Sequence[int], size: int) -> Any:
        """Memory that holds arrays as long as the program is there."""
        memory = self._device.pool.take(size, "the constants and the state of a program")
        for array, offset in zip(arrays, offsets):
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self._device.to_device(memory.ptr + offset, data)
        return memory

    def _context(self, context: ExecutionContext) -> int:
        key = context.replica, context.partition
        found = self._contexts.get(key)
        if found is None:
            array = np.array(key, np.uint32)
            found = self._contexts.setdefault(key, self._kept([array], [0], array.nbytes))
        return found.ptr

    # -- commands ----------------------------------------------------------------------------------

    def _made(self, steps: Steps) -> list[Command]:
        commands = [command for step in steps for command in self._command(step)]
        return in_stretches(commands) if self._graphs else commands

    def _command(self, step: Step) -> Sequence[Command]:
        place = self._layout.place
        match step:
            case Launch():
                return self._launches(step)
            case Copy():
                return [CopyCommand(place(step.target), place(step.source), step.target.size)]
            case Undefined():
                return []
            case Library():
                return [library_command(step, place, self._device)]
            case Host():
                operands, results = self._arrays(step.operands), self._arrays(step.results)
                there = device_function(step.target)
                if there is not None:
                    return [SolverCommand(there, operands, results, step.attributes)]
                stays_on_host(step.target)
                call = self._host_functions(step.target)
                return [HostCommand(call, operands, results, step.attributes)]
            case Collective():
                operands, results = (
                    [place(where) for where in places] for places in (step.operands, step.results)
                )
                scratch, combiner = self._layout.exchange, self._combiner(step)
                return [
                    CollectiveCommand(step, self._topology, operands, results, scratch, combiner)
                ]
            case Call():
                return self._made(self._procedures[step.procedure])
            case Resident():
                function = self._residents[step.name]
                return [self._launch(function, [self._layout.at(*m) for m in function.memories])]
            case While(trips=int() as trips):
                return [RepeatCommand(trips, self._made(step.body))]
            case While():
                condition, body = self._made(step.condition), self._made(step.body)
                return [WhileCommand(condition, place(step.predicate), body)]
            case If():
                branches = [self._made(branch) for branch in step.branches]
                return [IfCommand(place(step.selector), step.selector.shape, branches)]
        raise AssertionError(f"{type(step).__name__} is no step of a device")

    def _arrays(self, slices: Sequence[Slice]) -> list[Any]:
        return [(self._layout.place(where), where.shape) for where in slices]

    def _combiner(self, step: Collective) -> Combiner:
        def combiner(number: int, *places: Place) -> Sequence[Command]:
            kernel = step.combiners[number]
            return [self._launch(function, places) for function in self._functions[kernel]]

        return combiner

    def _launches(self, step: Launch) -> list[Command]:
        places = [self._layout.place(where) for where in step.buffers]
        return [self._launch(function, places) for function in self._functions[step.kernel]]

    def _launch(self, function: Function, places: Sequence[Place]) -> Command:
        driver, together = self._device.cupy.cuda.driver, waits_for_all(function)
        return LaunchCommand(
            driver.launchCooperativeKernel if together else driver.launchKernel,
            self._code.pointer(function.name),
            self._code.blocks(function.name),
            function.threads,
            function.dynamic_shared,
            places,
            self._code,
            together,
            [ArrayMap(map) for map in maps_of(function)],
        )
