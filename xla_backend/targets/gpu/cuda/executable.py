"""CudaExecutable: a program on GPUs. Calls put its work on the device's stream and come back."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, NamedTuple

from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.passes.base import pass_report
from xla_backend.runtime.client import (
    Device,
    ExecutionContext,
    LoadedExecutable,
    kind_of,
)
from xla_backend.runtime.collective_lines import name_line
from xla_backend.runtime.donation import LIST_ONLY, counts_are_exact, references
from xla_backend.runtime.host_functions import host_function
from xla_backend.runtime.pending import Job, Origin
from xla_backend.runtime.places import current_place
from xla_backend.targets.gpu.compiler import Planned
from xla_backend.targets.gpu.cuda.buffers import CudaBufferKind, on_device
from xla_backend.targets.gpu.cuda.collective_plans import collectives_of
from xla_backend.targets.gpu.cuda.commands import Run
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.group_runs import GroupRun, Participant
from xla_backend.targets.gpu.cuda.jobs import CudaJob
from xla_backend.targets.gpu.cuda.layout import Layout
from xla_backend.targets.gpu.cuda.loading import LoadedProgram
from xla_backend.targets.gpu.cuda.memory import CudaBuffer
from xla_backend.targets.gpu.cuda.waiting import wait_for
from xla_backend.targets.gpu.generated_code import GeneratedCode


class _Prepared(NamedTuple):
    """An execution that may begin. `kept`: memory that it uses until its work is on the stream."""

    run: Run
    outputs: list[CudaBuffer]
    kept: object


class CudaExecutable(LoadedExecutable):
    """A program on GPUs.

    Everything of a device runs on one stream, so that a program may be handed memory that others
    still compute or read, and give up its own as soon as its work is on the stream.
    """

    asynchronous = True

    def __init__(
        self,
        planned: Planned,
        module: HloModule,
        code: GeneratedCode,
        device: CudaDevice,
        *,
        graphs: bool = True,
        collective_timeout: int = -1,
    ) -> None:
        """`graphs`: whether stretches of work may become CUDA graphs. `collective_timeout`: after
        so many seconds a run of several devices ends by an error; not positive: never.

        Raises:
          RuntimeFailure: the device does not take the code.
          OutOfMemory: there is no memory for constants or state.
        """
        program = planned.program
        self.module = module
        self.device = device
        self.program = program
        self.topology = program.topology
        self._exchanges = any(collectives_of(program))
        self._collective_timeout = collective_timeout
        self.code = code
        self._planned = planned
        self.parameter_shapes = program.parameters
        self.output_shapes = program.outputs
        self.aliases = program.aliases
        self.uses_context = program.uses_context
        self._graphs = graphs
        self._layout = Layout(program)
        self.temp_size = self._layout.arena_size
        self.code_bytes = len(code.ptx)
        self.held_bytes = self.code_bytes + self._layout.constants_size
        self._donors = tuple(program.aliases.items())
        self._loaded: dict[Device, LoadedProgram] = {}
        self._kinds: dict[Device, list[CudaBufferKind]] = {}
        self._on(device)

    def _on(self, device: CudaDevice) -> LoadedProgram:
        """The program on a device, where it is loaded at its first use."""
        found = self._loaded.get(device)
        if found is None:
            loaded = LoadedProgram(
                self.program, self._layout, self.code, device, host_function, self._graphs
            )
            kinds: list[Any] = [kind_of(shape, device) for shape in self.output_shapes]
            self._kinds.setdefault(device, kinds)
            found = self._loaded.setdefault(device, loaded)
        return found

    def execute(
        self, arguments: list[Any], donated: Container[int], context: ExecutionContext
    ) -> list[Any]:
        self._check_alone()
        device: Any = context.device
        with device.active():
            outputs = self._run(arguments, donated, context, device)
            wait_for(device.cupy.cuda.runtime, device.event())
        return outputs

    def start(
        self,
        arguments: list[Any],
        donated: Container[int],
        context: ExecutionContext,
        after: Sequence[Job],
        origin: Origin,
    ) -> tuple[list[Any], Job | None]:
        self._check_alone()
        device: Any = context.device
        for job in after:
            # What the same stream has got before is over before; a device that is lost runs
            # nothing more, and who made an argument says how that came.
            if device.is_lost or not (isinstance(job, CudaJob) and job.device is device):
                job.wait()
        # Others may take their memory again as soon as nobody holds it, whatever our stream does.
        foreign = [a for a in arguments if isinstance(a, CudaBuffer) and not a.from_pool]
        with device.active():
            outputs = self._run(arguments, donated, context, device)
            event = device.event()
        return outputs, CudaJob(device, event, origin, foreign)

    def execute_together(
        self, arguments: Sequence[list[Any]], donated: Container[int], devices: Sequence[Device]
    ) -> list[list[Any]]:
        contexts = self.contexts(devices)
        prepared: list[_Prepared] = []
        participants: list[Participant] = []
        communicators = self.device.client.communicators  # type: ignore[attr-defined]
        try:
            with communicators.lock:
                # Memory first: to take it may mean to wait for a device, which then must not wait
                # for another one. Nobody else gets it before the work is on the streams.
                for own, context in zip(arguments, contexts):
                    device: Any = context.device
                    with device.active():
                        prepared.append(self._prepared(own, donated, context, device))
                    participants.append(Participant(self._on(device).commands, prepared[-1].run))
                together = GroupRun(participants, communicators, self._collective_timeout)
                together.start()
            together.wait()
            return [each.outputs for each in prepared]
        except BaseException as error:
            del prepared[:], participants[:]  # the traceback would keep their memory
            name_line(error, lambda: self.module)
            raise

    def _check_alone(self) -> None:
        if self._exchanges:
            raise ValueError(
                f"program {self.module.name!r} has {self.topology.size} participants, which "
                "exchange arrays; run them together (execute_together)"
            )

    def _run(
        self,
        arguments: list[Any],
        donated: Container[int],
        context: ExecutionContext,
        device: CudaDevice,
    ) -> list[CudaBuffer]:
        """Put the program's work on the stream; buffers of its outputs."""
        prepared = None
        try:
            prepared = self._prepared(arguments, donated, context, device)
            for command in self._on(device).commands:
                command.run(prepared.run)
            return prepared.outputs
        except BaseException:
            del arguments, prepared  # the traceback would keep their memory
            raise

    def _prepared(
        self,
        arguments: list[Any],
        donated: Container[int],
        context: ExecutionContext,
        device: CudaDevice,
    ) -> _Prepared:
        """An execution with memory for all that it writes."""
        loaded = self._on(device)
        for number in range(len(arguments)):  # whose elements nobody else may refer to
            on_device(arguments[number], device)
        arena = outputs = blocks = None
        try:
            arena = device.pool.take(self.temp_size, f"temporaries of {self.module.name!r}")
            blocks = arguments.copy()
            outputs = self._outputs(arguments, donated, blocks, device)
            addresses = [buffer.address for buffer in blocks]
            addresses += [buffer.address for buffer in outputs]
            run = loaded.prepared(addresses, arena.ptr, context)
            return _Prepared(run, outputs, (arena, blocks))
        except BaseException:
            del arguments, blocks, outputs, arena  # the traceback would keep their memory
            raise

    def _outputs(
        self,
        arguments: list[Any],
        donated: Container[int],
        blocks: list[Any],
        device: CudaDevice,
    ) -> list[Any]:
        """Buffers for the outputs. Those with an alias start as the argument: in its own memory
        where that is given up, is the pool's, and nobody else refers to it. `blocks`, a copy of the
        arguments, gets it for the argument, too."""
        kinds, exact = self._kinds[device], counts_are_exact()
        outputs: list[Any] = [
            None if number in self.aliases else device.buffer(kind)
            for number, kind in enumerate(kinds)
        ]
        for output, number in self._donors:
            blocks[number] = None  # a reference fewer
            alone = references(arguments, number) == LIST_ONLY
            buffer = arguments[number]
            if alone and exact and number in donated and buffer.from_pool:
                buffer.kind, buffer.place = kinds[output], current_place()
            else:
                source, kind = buffer.address, kinds[output]
                buffer = device.buffer(kind)
                if kind.nbytes:
                    device.copy(buffer.address, source, kind.nbytes, device.stream)
            outputs[output] = blocks[number] = buffer
        for _, number in self._donors:
            if number in donated:
                arguments[number] = None
        return outputs

    def texts(self) -> dict[str, str]:
        return {"hlo": module_to_text(self.module), **self.code.texts()}

    def kernels(self) -> list[EmittedKernel]:
        return self.code.emitted()

    def pass_report(self) -> str:
        return pass_report(self._planned.passes)
