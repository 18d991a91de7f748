"""CpuExecutable: native code for one module, with what is known about it."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.errors import RuntimeFailure
from xla_backend.hlo.module import HloModule
from xla_backend.llvm.jit import Library
from xla_backend.measured_costs import CostDecision, MeasuredRuns
from xla_backend.process.lazy import lazy
from xla_backend.runtime.client import Device, ExecutionContext
from xla_backend.runtime.custom_calls import take_pending_exception
from xla_backend.runtime.host_buffer import memory_view
from xla_backend.runtime.host_threads import at_most
from xla_backend.runtime.memory import POOL, Block
from xla_backend.runtime.processes.errors import ProcessFailure
from xla_backend.runtime.processes.identity import Identity
from xla_backend.runtime.processes.joined import joined
from xla_backend.targets.cpu.code_interface import CYCLES_PER_MICROSECOND, OPTIMISED, TIMES_BYTES
from xla_backend.targets.cpu.meeting_places import ENDS_EARLY, EndedEarly, Session, SharedSession
from xla_backend.targets.cpu.native import NativeCall, NativeContext, NativeExecutable
from xla_backend.targets.cpu.program_code import ProgramCode
from xla_backend.targets.cpu.work_queue import QueuedCode

_TINY_CYCLES = 25_000
# Of all participants together; waking threads for seven takes as long.
_IN_TURN_SECONDS = 50e-6
# `i32 entry(ptr args, ptr outs, ptr arena)`; bytes objects holding packed addresses are passed as
# they are.
_SIGNATURE = (ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)


class Stages(Protocol):
    """What a program went through, for reading.

    Attributes:
      module: the optimised HLO.  assignment: its buffers.  program: made of it.
      decisions: by measured costs of kernels.
    """

    @property
    def module(self) -> HloModule: ...
    @property
    def assignment(self) -> Any: ...
    @property
    def program(self) -> Any: ...
    @property
    def decisions(self) -> Sequence[CostDecision]: ...

    def texts(self) -> dict[str, str]:
        """The text of each stage."""

    def llvm_ir(self) -> str:
        """The program as LLVM text."""

    def loop_ir(self) -> dict[str, str]:
        """Kernel name -> its loop nest as text."""

    def emitted(self) -> list[EmittedKernel]:
        """Every generated kernel with its code."""

    def pass_report(self) -> str:
        """Every run of a pass that made the module, in order."""


def _limited(call: NativeCall, threads: int) -> NativeCall:
    """A call of native code whose own calls of the host use no more threads."""

    def limited(arguments: bytes, outputs: bytes) -> None:
        with at_most(threads):
            call(arguments, outputs)

    return limited


class CpuExecutable(NativeExecutable):
    """Native code for one module.

    `library` has `i32 entry(ptr args, ptr outs, ptr arena)`: arrays of leaf addresses (behind those
    of the arguments, that of a `native_context` if the program looks at it), and `temp_size` bytes
    aligned to 64; safe to call from several threads at once with different arenas and outputs.

    Running needs nothing but the code and the facts about it. `stages` tells the rest: where the
    code came from disk it compiles the module again, when somebody asks first.

    Attributes:
      content: a digest of what the module computes, where other processes run it, too.
      optimising: of code that is the first of a program, waits for the optimised code, if it can.
    """

    content = ""
    optimising: Callable[[], object] | None = None

    def __init__(
        self,
        code: ProgramCode,
        library: Library,
        device: Device,
        stages: Callable[[], Stages],
        profile: dict[str, float],
        options: CompileOptions,
        name: str,
    ) -> None:
        facts = code.facts
        super().__init__(
            device, facts.parameters, facts.outputs, dict(facts.aliases), facts.uses_context
        )
        self.library = library
        self._code_bytes = sum(map(len, code.objects))
        self.held_bytes = facts.held_bytes
        self.temp_size = facts.temp_size
        self.profile = profile
        self.topology = facts.topology
        self._facts = facts
        self._name = name
        self._make_stages = stages
        # What the program keeps, for each device that it has run on.
        self._states: dict[Device, Block] = {}
        # A program that runs for a few microseconds is not worth releasing the interpreter lock;
        # else it is dropped while native code runs, and host calls take it back.
        self.releases_lock = facts.cycles >= _TINY_CYCLES
        self._entry = library.function("entry", *_SIGNATURE, keeps_gil=not self.releases_lock)
        self._call = self._with_arena() if self.temp_size else self._without_arena()
        if facts.timed:
            self.measured_runs = MeasuredRuns(options.profiled_runs)
            self._call = self._measured(self.measured_runs)
        elif not (facts.uses_context or facts.host_calls):
            self.seconds = facts.cycles / (CYCLES_PER_MICROSECOND * 1e6)
            arena = POOL.size_class(self.temp_size) if self.temp_size else None
            entry = library.address("entry")
            self.queued = QueuedCode(entry, arena, 0, self.seconds, _error_message)
        alone = facts.topology.size == 1
        if not (alone or facts.timed or facts.host_calls or facts.state):
            self.seconds = facts.cycles / (CYCLES_PER_MICROSECOND * 1e6)
            brief = self.seconds * facts.topology.size <= _IN_TURN_SECONDS
            self.in_turn = brief and not facts.meetings.sites
        if options.num_threads is not None and facts.host_calls:
            self._call = _limited(self._call, options.num_threads)

    def switch(self, code: ProgramCode, library: Library) -> None:
        """Run optimised code of the same program from now on. The first code is kept: it is what
        callers have the address of, and it looks at each call whether there is another. Calls under
        way end with it, or in a long loop are run anew."""
        self.library.keep(library)
        self._code_bytes = sum(map(len, code.objects))
        word = ctypes.c_uint64.from_address(self.library.address(OPTIMISED))
        word.value = library.address("entry")  # one store of a whole word

    def await_optimised(self) -> None:
        if self.optimising is not None:
            self.optimising()

    @property
    def code_bytes(self) -> int:  # type: ignore[override]
        """Of the optimised code."""
        self.await_optimised()
        return self._code_bytes

    @lazy
    def stages(self) -> Stages:
        """What the program went through."""
        return self._make_stages()

    @property
    def module(self) -> HloModule:  # type: ignore[override]
        return self.stages.module

    @property
    def assignment(self) -> Any:
        """The buffers of the optimised module."""
        return self.stages.assignment

    @property
    def program(self) -> Any:
        """The program that the code was written from."""
        return self.stages.program

    def _without_arena(self) -> NativeCall:
        entry, fail = self._entry, _raise_error

        def call(arguments: bytes, outputs: bytes) -> None:
            status = entry(arguments, outputs, None)
            if status:
                fail(status)

        return call

    def _with_arena(self) -> NativeCall:
        entry, fail = self._entry, _raise_error
        memory = POOL.size_class(self.temp_size)
        take, grow = memory.take, memory.grow

        def call(arguments: bytes, outputs: bytes) -> None:
            try:
                arena = take()
            except IndexError:
                arena = grow()
            try:
                status = entry(arguments, outputs, arena)
            finally:
                del arena  # an exception's traceback would keep it
            if status:
                fail(status)

        return call

    def _measured(self, runs: MeasuredRuns) -> NativeCall:
        """Each run's times are in its own arena."""
        entry, fail, names = self._entry, _raise_error, self._facts.timed
        nbytes = TIMES_BYTES * len(names)
        offset, size = self.temp_size - nbytes, self.temp_size

        def call(arguments: bytes, outputs: bytes) -> None:
            arena = POOL.allocate(size)
            try:
                times = memory_view(arena + offset, (len(names), 2), np.dtype(np.int64), None)
                times[...] = 0
                status = entry(arguments, outputs, arena)
                taken = zip(names, times.tolist())
            finally:
                del arena  # an exception's traceback would keep it
            if status:
                fail(status)
            runs.record({name: ns / count / 1e3 for name, (ns, count) in taken if count})

        return call

    def native_context(self, context: ExecutionContext) -> NativeContext:
        state = self._states.get(context.device)
        if state is None:
            state = self._states.setdefault(context.device, self._initial_state())
        session = None if context.session is None else context.session.address
        return NativeContext(context.replica, context.partition, context, state, session)

    def session(self, devices: Sequence[Device]) -> Session:
        processes = [device.process_index for device in devices]
        if len({*processes}) == 1:
            return Session(self._facts.meetings, len(processes))
        shared = joined()
        if shared is None:
            raise ProcessFailure(
                f"{self._title} runs on devices of {len({*processes})} processes, and this process "
                "has left the others"
            )
        numbers = ", ".join(str(device.id) for device in devices)
        identity = Identity(self._kind, numbers, self.content)
        return SharedSession(self._facts.meetings, shared, processes, self._title, identity)

    @lazy
    def _title(self) -> str:
        """The program, for messages of other processes."""
        arrays = ", ".join(map(str, self._facts.parameters))
        return f"{self._name}({arrays if len(arrays) < 200 else arrays[:200] + ' ...'})"

    @lazy
    def _kind(self) -> str:
        """Equal for programs that several processes may run together. Names of instructions are no
        part: code that comes from disk may have those of another module."""
        facts = self._facts
        sites = [
            (s.exchange.opcode, s.exchange.groups, s.exchange.pairs, s.exchange.dimension)
            + (s.exchange.combiner, s.operands, s.results)
            for s in facts.meetings.sites
        ]
        content = repr((self._name, facts.parameters, facts.outputs, sites))
        return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()

    def _initial_state(self) -> Block:
        *offsets, size = self._facts.state_offsets
        block = POOL.allocate(size)
        for offset, array in zip(offsets, self._facts.state):
            memory_view(block + offset, array.shape, array.dtype, None)[...] = array
        return block

    def texts(self) -> dict[str, str]:
        return self.stages.texts()

    @property
    def llvm_ir(self) -> str:
        """The program as LLVM text."""
        return self.stages.llvm_ir()

    @lazy
    def loop_ir(self) -> dict[str, str]:
        """Kernel name -> its loop nest as text."""
        return self.stages.loop_ir()

    @lazy
    def emitted_kernels(self) -> list[EmittedKernel]:
        """Every generated kernel with its code; made on first use."""
        return self.stages.emitted()

    def kernels(self) -> list[EmittedKernel]:
        return self.emitted_kernels

    def cost_decisions(self) -> Sequence[CostDecision]:
        return self.stages.decisions

    def pass_report(self) -> str:
        return self.stages.pass_report()

    def raise_error(self, code: int) -> None:
        """Raise what a nonzero status of the entry function stands for, if need be a callback's own
        exception."""
        _raise_error(code)


def _raise_error(code: int) -> None:
    """No method: what calls the code would hold the executable, which holds it."""
    pending = take_pending_exception()
    if pending is not None:
        raise pending
    if code in ENDS_EARLY:
        raise EndedEarly(code)
    raise RuntimeFailure(_error_message(code))


_ERRORS = {
    1: "a host callback raised an exception",
    2: "a library routine reported an invalid argument",
}


def _error_message(status: int) -> str:
    """What a nonzero result of the entry function means."""
    return _ERRORS.get(status, f"the program failed with status {status}")
