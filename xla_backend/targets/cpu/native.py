"""Native programs as executables: blocks of host memory in, packed addresses to the code."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xla_backend.dump.run_listener import RunListener
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.literal import Literal
from xla_backend.hlo.shape import Shape
from xla_backend.runtime.client import (
    Device,
    DirectCall,
    EntryPoint,
    ExecutionContext,
    LoadedExecutable,
)
from xla_backend.runtime.collective_lines import name_line
from xla_backend.runtime.donation import LIST_ONLY, counts_are_exact, references
from xla_backend.runtime.host_buffer import memory_view
from xla_backend.runtime.memory import ALIGNMENT, POOL, Block
from xla_backend.runtime.participant_threads import run_apart, run_together, stoppable
from xla_backend.runtime.pending import Job, Origin
from xla_backend.targets.cpu.meeting_places import Session
from xla_backend.targets.cpu.work_queue import QueuedCode, Uses, queue_of

# Takes packed addresses of the arguments and of the outputs.
NativeCall = Callable[[bytes, bytes], object]


class Temporaries:
    """Memory for one run of a program beside that of its results.

    Args:
      sizes: of the blocks, in bytes.
    """

    def __init__(self, sizes: Iterable[int]) -> None:
        self._offsets: list[int] = []
        self.size = 0
        for nbytes in sizes:
            self._offsets.append(self.size)
            self.size += -(-nbytes // ALIGNMENT) * ALIGNMENT
        self._pack = struct.Struct(f"{len(self._offsets)}P").pack

    def lent_to(self, run: Callable[[bytes], object]) -> None:
        """Call `run` with the packed addresses of the blocks, which are its own so long."""
        memory = POOL.allocate(self.size)
        try:
            run(self._pack(*[memory + offset for offset in self._offsets]))
        finally:
            del memory  # an exception's traceback would keep it


def never_fails(status: int) -> str:
    """The message of programs whose entries give no other status than 0."""
    raise AssertionError(f"a program that never fails ended with {status}")


class NativeContext(ctypes.Structure):
    """An execution context as native code sees it: the participant, the context itself for calls
    of the host, the memory of what the program keeps on this device, and that by which the
    participants of the run meet."""

    _fields_ = (
        ("replica", ctypes.c_uint32),
        ("partition", ctypes.c_uint32),
        ("context", ctypes.py_object),
        ("state", ctypes.c_void_p),
        ("session", ctypes.c_void_p),
    )


class NativeExecutable(LoadedExecutable):
    """A native function over blocks of the memory pool.

    Whoever runs native code keeps the blocks it is given until it is back: another thread may
    delete or donate the same arrays meanwhile.
    """

    # What wants to know of each run, if anything.
    recorder: RunListener | None = None
    # What a queue calls; None for programs that call the host or need a context.
    queued: QueuedCode | None = None
    # Whether a run takes so long that other threads of Python should run meanwhile.
    releases_lock = False
    # Whether participants never wait for each other, and are through before threads were awake for
    # them: they run one after the other.
    in_turn = False

    def __init__(
        self,
        device: Device,
        parameter_shapes: Sequence[Shape],
        output_shapes: Sequence[Shape],
        aliases: Mapping[int, int] = MappingProxyType({}),
        uses_context: bool = False,
    ) -> None:
        self.device = device
        self.parameter_shapes = parameter_shapes
        self.output_shapes = output_shapes
        self.aliases = aliases
        self.uses_context = uses_context
        # Looked up ahead, as far as it can be: it is done for each result of each call.
        self._memory = [POOL.size_class(s.byte_size) for s in output_shapes]
        self._takes = [memory.take for memory in self._memory]
        self._donors = tuple(aliases.items())
        self._unshared = [(i, m) for i, m in enumerate(self._memory) if i not in aliases]
        entries = len(parameter_shapes) + uses_context
        self._pack_arguments = struct.Struct(f"{entries}P").pack
        self._pack_outputs = struct.Struct(f"{len(output_shapes)}P").pack
        self._call: NativeCall

    def native_context(self, context: ExecutionContext) -> NativeContext:
        """The context as native code sees it; only of programs that look."""
        raise NotImplementedError

    @property
    def direct(self) -> DirectCall | None:  # type: ignore[override]
        if self.uses_context or self.aliases or self.recorder is not None:
            return None
        entry = None
        if self.queued is not None:
            address, arena, third, _, _ = self.queued
            entry = EntryPoint(
                address, self._memory, arena, third, self.releases_lock, self.raise_error
            )
        return DirectCall(self._call, self._pack_arguments, self._pack_outputs, entry)

    def raise_error(self, status: int) -> None:
        """Raise what a nonzero status of the entry stands for."""
        assert self.queued is not None
        raise RuntimeFailure(self.queued.message(status))

    def execute(
        self, arguments: list[Any], donated: Container[int], context: ExecutionContext
    ) -> list[Any]:
        if self.topology.size > 1 and context.session is None and not self.in_turn:
            raise ValueError(
                f"program {self.module.name!r} has {self.topology.size} participants; run them "
                "together (execute_together)"
            )
        recorded = None if self.recorder is None else self._started(self.recorder, arguments)
        if self._donors:
            blocks = arguments.copy()
            outputs = self._sharing_outputs(arguments, donated, blocks)
        else:
            blocks = arguments
            try:
                outputs = [take() for take in self._takes]
            except IndexError:
                outputs = [_block(memory) for memory in self._memory]
        try:
            if self.uses_context:
                native = self.native_context(context)  # kept until the program is through
                packed = self._pack_arguments(*blocks, ctypes.addressof(native))
            else:
                packed = self._pack_arguments(*blocks)
            self._call(packed, self._pack_outputs(*outputs))
        except BaseException:
            del arguments, blocks, outputs  # the traceback would keep their memory
            raise
        if self.recorder is not None and recorded is not None:
            self._finished(self.recorder, recorded, outputs)
        return outputs

    def session(self, devices: Sequence[Device]) -> Session:
        """What the participants of one run on these devices meet by."""
        raise NotImplementedError

    def execute_together(
        self, arguments: Sequence[list[Any]], donated: Container[int], devices: Sequence[Device]
    ) -> list[list[Any]]:
        contexts = self.contexts(devices)
        if self.in_turn and len(contexts) == len(devices):
            return [self.execute(own, donated, c) for own, c in zip(arguments, contexts)]
        session = self.session(devices)
        work = lambda: self._run_together(arguments, donated, contexts, session)
        run = lambda: stoppable(session.interrupt, work)
        return run_apart(run) if session.is_shared else run()

    def _run_together(
        self,
        arguments: Sequence[list[Any]],
        donated: Container[int],
        contexts: Sequence[ExecutionContext],
        session: Session,
    ) -> list[list[Any]]:
        def task(number: int) -> Callable[[], list[Any]]:
            context = contexts[number]
            context.session = session

            def run() -> list[Any]:
                failed = True
                try:
                    outputs = self.execute(arguments[number], donated, context)
                    failed = False
                finally:
                    session.leave(failed)
                return outputs

            return run

        failure: BaseException | None = None
        try:
            session.begin()
            outcomes = run_together([task(n) for n in range(len(contexts))], session.stop)
            errors = [outcome.error for outcome in outcomes if outcome.error is not None]
            if errors:
                raise session.cause(errors)
        except BaseException as error:
            failure = error
            name_line(error, lambda: self.module)
            raise
        finally:
            session.end(failure)
        return [outcome.results[0] for outcome in outcomes]

    def start(
        self,
        arguments: list[Any],
        donated: Container[int],
        context: ExecutionContext,
        after: Sequence[Job],
        origin: Origin,
    ) -> tuple[list[Any], Job | None] | None:
        code = self.queued
        if code is None or self.recorder is not None:
            return None
        queue = queue_of(context.device)
        if not queue.takes(after):
            return None
        fresh = sum([memory.size for _, memory in self._unshared])
        blocks = outputs = arena = uses = None
        try:
            arena = None if code.arena is None else queue.arena(code.arena)
            blocks = arguments.copy()
            if self._donors:
                outputs = self._sharing_outputs(
                    arguments, donated, blocks, queue.references(), after
                )
            else:
                outputs = [_block(memory) for memory in self._memory]
            packed = self._pack_arguments(*blocks), self._pack_outputs(*outputs)
            uses = Uses((*blocks, *outputs), *packed, arena, fresh)
            job = queue.submit(code, uses, after, origin)
            if job is None:  # it was closed or filled by another thread just now
                if self._donors:  # earlier programs may still read what this one writes over
                    queue.drain(math.inf)
                for other in after:
                    other.wait()
                self._call(*packed)
            return outputs, job
        except BaseException:
            del arguments, blocks, outputs, arena, uses  # the traceback would keep their memory
            raise

    def _sharing_outputs(
        self,
        arguments: list[Any],
        donated: Container[int],
        blocks: list[Any],
        earlier: Mapping[int, int] = MappingProxyType({}),
        after: Sequence[Job] = (),
    ) -> list[Any]:
        """Memory for the outputs. Those with an alias start as the argument: in its own memory
        where that is given up, is the pool's, and nobody else refers to it (a view, a call in
        another thread). `blocks`, a copy of the arguments, gets it for the argument, too.

        Programs that end before this one begins do not count: `earlier` is how often they refer to
        blocks, by id. `after`: jobs to wait for before an argument is copied.
        """
        exact = counts_are_exact()
        outputs: list[Any] = [None] * len(self._memory)
        for output, memory in self._unshared:
            outputs[output] = _block(memory)
        for output, number in self._donors:
            outputs[output] = blocks[number] = None  # a reference fewer
            count = references(arguments, number)
            block = arguments[number]
            alone = count == LIST_ONLY + earlier.get(id(block), 0)
            if not (alone and exact and number in donated and block.from_pool):
                for job in after:
                    job.wait()
                block = self._copy(block, output)
            outputs[output] = blocks[number] = block
        for _, number in self._donors:
            if number in donated:
                arguments[number] = None
        return outputs

    def _copy(self, block: Block, output: int) -> Block:
        copy = _block(self._memory[output])
        ctypes.memmove(copy, block, self.output_shapes[output].byte_size)
        return copy

    def _started(self, recorder: RunListener, arguments: list[Any]) -> list[Literal]:
        assert self.module.entry is not None
        parameters, _ = self.module.entry.program_shape
        addresses = iter(arguments)
        # Copies, made before the run: it may write its results over donated arguments.
        literals = [_literal(shape, addresses) for shape in parameters]
        recorder.started(literals)
        return literals

    def _finished(
        self, recorder: RunListener, arguments: Sequence[Literal], outputs: list[Any]
    ) -> None:
        assert self.module.entry is not None
        _, result = self.module.entry.program_shape
        recorder.finished(arguments, _literal(result, iter(outputs)))


def _block(memory: Any) -> Block:
    try:
        return memory.take()
    except IndexError:
        return memory.grow()


def _literal(shape: Shape, addresses: Iterator[int]) -> Literal:
    """The value of `shape` whose leaves lie at the next addresses."""
    if shape.is_tuple:
        return Literal.tuple([_literal(member, addresses) for member in shape.tuple_shapes])
    address = next(addresses)
    if not shape.is_array:  # a token, which has no value
        return Literal.tuple([])
    array = memory_view(address, shape.dimensions, shape.element_type.numpy_dtype, None)
    return Literal(array, shape)
