"""Programs as LLVM: one native function that calls kernels and routines, step after step.

Loops and branches are native control flow. `i32 entry(ptr args, ptr outs, ptr arena)` returns 0,
or the code of the first error. What runs, and where, is the program's to say; here is how it is
written: addresses, checks of status, looks at signals, and how long programs are cut into
functions.

A program that looks at its context finds the address of it behind those of its arguments. There lie
the participant's replica and partition (the program's CONTEXT slices), then a pointer that calls of
the host are handed, one to what the program keeps on this device (its STATE slices), and one to the
session of the run, by which its participants meet.

A program that measures itself adds up the time of each kernel in a table at the end of its arena:
runs at the same time have arenas of their own, and so tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.types import PrimitiveType
from xla_backend.llvm.types import memory_type
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.program.ir import (
    ALIGNMENT,
    CONTEXT_SIZE,
    PARTITION,
    REPLICA,
    Call,
    Collective,
    Copy,
    Element,
    Host,
    If,
    KernelOperand,
    Launch,
    Library,
    Operand,
    Program,
    Slice,
    Space,
    Step,
    Steps,
    Undefined,
    While,
    aligned,
    all_steps,
    launched_buffers,
)
from xla_backend.program.routines import Kind
from xla_backend.targets.cpu.code_interface import TIMES_BYTES, host_call_symbol
from xla_backend.targets.cpu.collectives import Collectives, Here
from xla_backend.targets.cpu.held_arrays import HeldArrays, Place
from xla_backend.targets.cpu.held_loops import HeldLoops
from xla_backend.targets.cpu.kernel_functions import KernelFunctions, is_inline
from xla_backend.targets.cpu.meeting_places import NO_MEETINGS, Meetings
from xla_backend.targets.cpu.meeting_windows import windows
from xla_backend.targets.cpu.merge_sort import merge_argsort_function
from xla_backend.targets.cpu.routines.clock import read_clock
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.routines.meetings import has_ended
from xla_backend.targets.cpu.routines.polling import LONG_KERNEL, POLL_CYCLES, round_cycles
from xla_backend.targets.cpu.routines.pool_functions import serial_for
from xla_backend.targets.cpu.routines.task_context import run_tasks
from xla_backend.targets.cpu.routines.variants import variant

# Constants up to this size live in the object; larger ones are bound by address.
_EMBEDDED_BYTES = 1 << 16
# The integers of a program whose code is the same for all sizes.
NUMBERS = "pyjax_numbers"
# LLVM takes more than linear time for one function: longer programs are cut into functions.
_PART_STEPS = 192
_ARGUMENTS = (("ptr", "args"), ("ptr", "outs"), ("ptr", "arena"))

# Of a meeting with other participants, for looks at signals: 50 us, where each has a processor.
# Where they wait for processors it may be milliseconds, and whoever comes last never looks there.
_MEETING_CYCLES = 200_000
# The time that a thread has run, whatever else the machine does. It takes longer to read than other
# clocks, but one run that was interrupted does not spoil the few that are measured.
_THREAD_CLOCK = getattr(time, "CLOCK_THREAD_CPUTIME_ID", None)


@dataclass(frozen=True)
class EmittedProgram:
    """A program's LLVM module and what it is linked with.

    Fields:
      kernels: the functions of its kernels.
      bound_constants: symbol -> number of a constant that is bound by address.
      numbers: what NUMBERS stands for: the integers that the program gives routines, if they are
        not part of the code.
      host_calls: the steps that the symbols `host_call_symbol(0)`, ... stand for.
      timed: kernels in the table of times, in order.
      meetings: of its participants.
    """

    kernels: KernelFunctions
    bound_constants: dict[str, int] = field(default_factory=dict)
    host_calls: list[Host] = field(default_factory=list)
    timed: tuple[str, ...] = ()
    meetings: Meetings = NO_MEETINGS
    numbers: np.ndarray | None = None


def emit_program(
    program: Program,
    writer: ModuleWriter,
    *,
    serial: bool = False,
    measured: bool = False,
    overlap: bool = False,
    shared: bool = False,
) -> EmittedProgram:
    """Write a program into a module. `serial`: loops that could be split over threads run on the
    calling one. `measured`: the program takes the time of its kernels. `overlap`: participants run
    other steps while they wait for others. `shared`: what only calls routines becomes the same code
    for all sizes, which is linked with its numbers.

    Raises:
      UnimplementedError: it is to be measured, and this system has no clock for that.
    """
    if measured and _THREAD_CLOCK is None:
        raise UnimplementedError(
            "this system has no clock of a thread's own time, by which runs could be measured; "
            "compile with profiled_runs=0 (set jax_enable_pgle to False)"
        )
    emitter = _Emitter(program, KernelFunctions(writer), serial, measured, overlap)
    if shared and program.steps and all(map(_calls_routine, program.steps)):
        emitter.numbers = []
        writer.add(f"@{NUMBERS} = external constant i64")
    emitter.emit_entry()
    return EmittedProgram(
        emitter.kernels,
        emitter.bound_constants,
        emitter.host_calls,
        tuple(emitter.timed),
        emitter.collectives.meetings,
        None if emitter.numbers is None else np.array(emitter.numbers, np.int64),
    )


def _calls_routine(step: Step) -> bool:
    return isinstance(step, Library) and step.routine not in _WRITTEN_HERE


class _Emitter:
    """Writes the entry function."""

    def __init__(
        self,
        program: Program,
        kernels: KernelFunctions,
        serial: bool,
        measured: bool,
        overlap: bool,
    ) -> None:
        self.program = program
        self.kernels = kernels
        self.collectives = Collectives(program, kernels)
        self.writer = writer = kernels.module
        self.serial = serial
        self.measured = measured
        self._overlap = overlap
        # Collectives that this participant has come to and not parted from: it must not fail now.
        self._outstanding = 0
        self.timed: dict[str, int] = {}  # kernel -> its place in the table of times
        self.bound_constants: dict[str, int] = {}
        self.numbers: list[int] | None = None
        self.host_calls: list[Host] = []
        self.w: FunctionWriter = writer.function("entry", _ARGUMENTS, result="i32")
        self._loaded: dict[tuple[str, int], str] = {}
        self._stack: list[str] = []
        self._parts = 0
        # Estimated cycles since the last look at signals, as straight as the code goes.
        self._unpolled = 0.0
        self._can_be_stopped = False  # something in it looks at signals
        # A program that measures itself runs each kernel by itself.
        self._held = HeldLoops(HeldArrays(program, writer.target))
        self._most_steps = 0 if measured else 2 * _PART_STEPS  # of a block of a loop that holds any
        self._budget = ""  # cell with the cycles that loops may run until they look
        every = [program.steps, *program.procedures.values()]
        self._has_loops = any(isinstance(s, While) for steps in every for s in all_steps(steps))

    # -- addresses ---------------------------------------------------------------------------------

    def load_pointers(self) -> None:
        """Read all parameter and output addresses at the start: later code runs inside loops."""
        w = self.w
        arguments = len(self.program.parameters) + self.program.uses_context
        counts = (("%args", arguments), ("%outs", len(self.program.outputs)))
        self._loaded = {
            (name, i): w.load("ptr", w.gep("ptr", name, i))
            for name, count in counts
            for i in range(count)
        }

    def pointer(self, place: Slice) -> str:
        space, offset = place.space, place.offset
        if space is Space.SCRATCH:
            offset += aligned(self.program.temp_size)
        return self.w.gep("i8", self._base(space, place.number), offset)

    def _address(self, place: Place) -> str:
        return self.w.gep("i8", self._base(place.space, place.number), place.offset)

    def _base(self, space: Space, number: int) -> str:
        """The start of the memory that slices count their offset from."""
        if space is Space.ARGUMENT:
            return self._argument("%args", number)
        if space is Space.OUTPUT:
            return self._argument("%outs", number)
        if space in (Space.TEMP, Space.SCRATCH):
            return "%arena"
        if space is Space.CONTEXT:
            return self._context()
        if space is Space.CONSTANT:
            return self._constant(number)
        return self._piece(number) if space is Space.STACK else self._state(number)

    def _argument(self, table: str, number: int) -> str:
        """An address from the entry's arguments; parts of the entry load it where they need it."""
        loaded = self._loaded.get((table, number))
        return loaded or self.w.load("ptr", self.w.gep("ptr", table, number))

    def _context(self) -> str:
        return self._argument("%args", len(self.program.parameters))

    def _constant(self, number: int) -> str:
        data = self.program.constants[number]
        if data.nbytes <= _EMBEDDED_BYTES and self.numbers is None:
            return self.writer.constant_bytes(data.tobytes())
        symbol = f"pyjax_constant_{number}"
        if symbol not in self.bound_constants:
            self.bound_constants[symbol] = number
            self.writer.add(f"@{symbol} = external constant i8")
        return f"@{symbol}"

    def _piece(self, number: int) -> str:
        """A piece of the stack of the function that is being written."""
        while len(self._stack) <= number:
            size = self.program.stack[len(self._stack)]
            self._stack.append(self.w.alloca("i8", size, ALIGNMENT))
        return self._stack[number]

    def _state(self, number: int) -> str:
        w = self.w
        pointers = w.gep("i8", self._context(), CONTEXT_SIZE)
        state = w.load("ptr", w.gep("ptr", pointers, 1))
        return w.gep("i8", state, self.program.state_offsets[number])

    def _table(self, addresses: list[str]) -> str:
        """An array of addresses on the stack."""
        w = self.w
        table = w.alloca("ptr", max(1, len(addresses)), 8)
        for i, address in enumerate(addresses):
            w.store("ptr", address, w.gep("ptr", table, i))
        return table

    def check_status(self, status: str) -> None:
        """Return from the function if a call reported an error."""
        w = self.w
        failed, fine = w.new_label("failed"), w.new_label("fine")
        w.cond_br(w.cmp("ne", "i32", status, "0"), failed, fine, likely=False)
        w.label(failed)
        w.ret("i32", status)
        w.label(fine)

    # -- signals -----------------------------------------------------------------------------------

    def spend(self, cycles: float) -> None:
        """Account for code that was just written, and look at signals if there was much of it."""
        self._unpolled += cycles
        if self._unpolled >= POLL_CYCLES and not self._outstanding:
            self.poll()

    def poll(self) -> None:
        """Run pending signal handlers; the program ends if one raises."""
        self._can_be_stopped = True
        self._look()
        self._unpolled = 0.0

    def _look(self) -> None:
        """Handlers run on the main thread only: other participants see that the run has ended."""
        self.check_status(self.w.call("pyjax_poll", "i32"))
        if self.program.topology.size > 1 and self.program.uses_context:
            self.check_status(has_ended(self.w, self._session()))

    def _session(self) -> str:
        pointers = self.w.gep("i8", self._context(), CONTEXT_SIZE)
        return self.w.load("ptr", self.w.gep("ptr", pointers, 2))

    def _give_budget(self) -> None:
        """Loops of a function count down one cell together: a load, a store and a branch that is
        foreseen, once per round."""
        self._budget = ""
        if self._has_loops:
            self._budget = self.w.alloca("i64", 1, 8)
            self.w.store("i64", str(POLL_CYCLES), self._budget)

    def _round_ends(self) -> None:
        """The end of a loop's round, whose straight code cost `_unpolled`."""
        self._can_be_stopped = True
        w = self.w
        cost = round_cycles(self._unpolled)
        left = w.isub(w.load("i64", self._budget), cost)
        w.store("i64", left, self._budget)
        look, go = w.new_label("look"), w.new_label("go")
        w.cond_br(w.cmp("slt", "i64", left, "0"), look, go, likely=False)
        w.label(look)
        w.store("i64", str(POLL_CYCLES), self._budget)
        with w.scope():
            self._look()
        w.br(go)
        w.label(go)

    # -- blocks of steps ---------------------------------------------------------------------------

    def emit_entry(self) -> None:
        start = self.w.place()
        self._give_budget()
        self.load_pointers()
        self.run(self.program.steps)
        if not self._can_be_stopped:
            self.w.ret("i32", "0")
            return
        self.writer.declare("pyjax_poll_begin", "void", [])
        start.append("  call void @pyjax_poll_begin()")
        # Routines that were stopped say nothing themselves.
        self.w.ret("i32", self.w.call("pyjax_poll_end", "i32"))

    def run(self, steps: Steps) -> None:
        if len(steps) <= 2 * _PART_STEPS:
            self._run_all(steps)
            return
        for start in range(0, len(steps), _PART_STEPS):
            self._run_part(steps[start : start + _PART_STEPS])

    def _run_part(self, steps: Steps) -> None:
        """A function of its own for some steps; its status is the entry's."""
        caller = self.w, self._loaded, self._stack, self._budget
        name = f"part.{self._parts}"
        self._parts += 1
        self.w = self.writer.function(name, _ARGUMENTS, result="i32", internal=True)
        self._loaded, self._stack = {}, []
        self._give_budget()
        self._run_all(steps)
        self.w.ret("i32", "0")
        self.w, self._loaded, self._stack, self._budget = caller
        self.check_status(self.w.call(name, "i32", [(ty, f"%{arg}") for ty, arg in _ARGUMENTS]))

    def _run_all(self, steps: Steps) -> None:
        if self._overlap and any(isinstance(step, Collective) for step in steps):
            self._run_overlapping(steps)
            return
        for step in steps:
            _STEPS[type(step)](self, step)

    def _run_overlapping(self, steps: Steps) -> None:
        """Participants come early to collectives, and part late, where there is other work."""
        may_move = self.collectives.may_be_early
        found = windows(steps, self.program.kernels, may_move, LONG_KERNEL)
        met = {window.step for window in found}
        for number in range(len(steps) + 1):
            for window in found:
                if window.part == number:
                    self.part(steps[window.step])
            for window in found:
                if window.come == number:
                    self.come(steps[window.step])
            if number in met:
                self.meet(steps[number])
            elif number < len(steps):
                _STEPS[type(steps[number])](self, steps[number])

    # -- steps -------------------------------------------------------------------------------------

    def copy(self, step: Copy) -> None:
        if self._held.copy(self.w, step, self._address):
            self.spend(step.cycles)
            return
        target, source = self.pointer(step.target), self.pointer(step.source)
        self.writer.declare("llvm.memmove.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        self.w.line(
            f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {source}, "
            f"i64 {step.target.size}, i1 false)"
        )
        self.spend(step.cycles)

    def undefined(self, step: Undefined) -> None:
        """Memory is as good as it is."""

    def launch(self, step: Launch) -> None:
        w = self.w
        kernel = self.program.kernels[step.kernel]
        buffers = launched_buffers(kernel)
        held = self._held.of_launch(kernel, step)
        if held:
            places = zip(buffers, step.buffers)
            others = {b: self.pointer(place) for b, place in places if b not in held}
            self.kernels.emit_held(w, kernel, others, held)
            self.spend(step.cycles)
            return
        pointers = [self.pointer(place) for place in step.buffers]
        if is_inline(kernel):
            self.kernels.emit_inline(w, kernel, dict(zip(buffers, pointers)))
            self.spend(step.cycles)
            return
        arguments = [("ptr", pointer) for pointer in pointers]
        context = ""
        began = self._thread_time() if self.measured else ""
        for stage in self.kernels.stages(kernel):
            if stage.blocks == 1:
                w.call(stage.name, "void", arguments)
                continue
            context = context or self._table(pointers)
            if step.cycles < LONG_KERNEL:
                self._parallel_for(stage.name, context, stage.blocks)
            else:
                run_tasks(w, stage.name, context, str(stage.blocks))
                self.poll()  # before a later stage looks at what was not computed
        if self.measured:
            self._add_time(kernel.name, began)
        self.spend(step.cycles)

    def _thread_time(self) -> str:
        """Nanoseconds that this thread has run."""
        assert _THREAD_CLOCK is not None
        return read_clock(self.w, _THREAD_CLOCK)

    def _add_time(self, kernel: str, began: str) -> None:
        """Put a run of a kernel into the table, which whoever calls the program has cleared."""
        w = self.w
        place = self.timed.setdefault(kernel, len(self.timed))
        total = w.gep("i8", "%arena", aligned(self.program.arena_size) + TIMES_BYTES * place)
        count = w.gep("i64", total, 1)
        took = w.isub(self._thread_time(), began)
        w.store("i64", w.iadd(w.load("i64", total), took), total)
        w.store("i64", w.iadd(w.load("i64", count), 1), count)

    def _parallel_for(self, function: str, context: str, blocks: int) -> None:
        if self.serial:
            arguments = [("ptr", f"@{function}"), ("ptr", context), ("i64", str(blocks))]
            self.w.call(serial_for(self.writer), "void", arguments)
        else:
            run_tasks(self.w, function, context, str(blocks), polled=False)

    def library(self, step: Library) -> None:
        routine = ROUTINES[step.routine]
        written = _WRITTEN_HERE.get(step.routine)
        if written is not None:
            written(self, step)
        else:
            arguments: list[tuple[str, str]] = []
            for operand, parameter in zip(step.operands, routine.parameters):
                if isinstance(operand, KernelOperand):
                    function = self.kernels.called(self.program.kernels[operand.kernel])
                    data = self._table([self.pointer(s) for s in operand.buffers])
                    arguments += [("ptr", f"@{function}"), ("ptr", data)]
                elif parameter.kind is Kind.KERNEL:
                    arguments += [("ptr", "null"), ("ptr", "null")]
                else:
                    arguments.append(self._operand(operand))
            given = {p.name: x for p, x in zip(routine.parameters, step.operands)}
            name = variant(step.routine, given, self.writer.target)
            self.w.call(f"pyjax_{name}", "void", arguments)
        self._can_be_stopped |= routine.stops
        self.spend(step.cycles)

    def _operand(self, operand: Operand) -> tuple[str, str]:
        if isinstance(operand, int):
            if self.numbers is None:
                return "i64", str(operand)
            return "i64", self.w.load_invariant("i64", self._numbered((operand,)), 8)
        if operand is None:
            return "ptr", "null"
        if isinstance(operand, tuple):
            if self.numbers is not None:
                return "ptr", self._numbered(operand)
            data = b"".join(x.to_bytes(8, "little", signed=True) for x in operand)
            return "ptr", self.writer.constant_bytes(data)
        if isinstance(operand, Element):
            return "ptr", self._element(operand)
        assert isinstance(operand, Slice), operand
        return "ptr", self.pointer(operand)

    def _numbered(self, numbers: tuple[int, ...]) -> str:
        """Where integers lie that are no part of the code."""
        assert self.numbers is not None
        place = self.w.gep("i64", f"@{NUMBERS}", len(self.numbers))
        self.numbers += numbers
        return place

    def _element(self, operand: Element) -> str:
        base, type = self.pointer(operand.slice), operand.slice.shape.element_type
        if operand.index == 0:
            return base
        return self.w.gep(memory_type(type), base, operand.index * (2 if type.is_complex else 1))

    def host(self, step: Host) -> None:
        """Native call of the trampoline with the addresses of operands and results."""
        # A symbol, so that the same program has the same text whatever its calls' numbers are.
        symbol = host_call_symbol(len(self.host_calls))
        self.writer.add(f"@{symbol} = external constant i8")
        self.host_calls.append(step)
        table = self._table([self.pointer(s) for s in (*step.operands, *step.results)])
        self._can_be_stopped = True  # host calls look whether the program was interrupted
        context = self.w.load("ptr", self.w.gep("i8", self._context(), CONTEXT_SIZE))
        arguments = [("ptr", f"@{symbol}"), ("ptr", table), ("ptr", context)]
        self.check_status(self.w.call("pyjax_host_call", "i32", arguments))
        self.spend(step.cycles)

    def while_(self, step: While) -> None:
        before, self._unpolled = self._unpolled, 0.0

        def holds() -> str:
            self.run(step.condition)
            return self._flag(step.predicate)

        def round_() -> None:
            self.run(step.body)
            self._round_ends()

        self._held.loop(self.w, step, self._most_steps, self._address, holds, round_)
        self._unpolled += before

    def if_(self, step: If) -> None:
        w, branches = self.w, step.branches
        if step.selector.shape.element_type is PrimitiveType.PRED:
            flag = self._flag(step.selector)
            self._branch(step, flag, branches[0], lambda: self.run(branches[1]))
            return
        register = self._held.register(step.selector)
        number = (
            w.load("i32", self.pointer(step.selector)) if register is None else register.vector(w)
        )

        def choose(i: int) -> None:
            if i == len(branches) - 1:  # also for numbers out of range
                self.run(branches[i])
                return
            chosen = w.cmp("eq", "i32", number, str(i))
            self._branch(step, chosen, branches[i], lambda: choose(i + 1))

        choose(0)

    def _flag(self, place: Slice) -> str:
        register = self._held.register(place)
        if register is not None:
            return register.vector(self.w)
        return self.w.cmp("ne", "i8", self.w.load("i8", self.pointer(place)), "0")

    def _branch(self, step: If, condition: str, then: Steps, otherwise: Callable[[], None]) -> None:
        before = self._unpolled

        def second() -> None:
            after_first, self._unpolled = self._unpolled, before
            otherwise()
            self._unpolled = max(self._unpolled, after_first)

        self._held.branch(self.w, condition, step.branches, lambda: self.run(then), second)

    def call(self, step: Call) -> None:
        self.run(self.program.procedures[step.procedure])

    def collective(self, step: Collective) -> None:
        self.collectives.emit(self._here(step), step)
        self.spend(step.cycles + _MEETING_CYCLES)

    def come(self, step: Step) -> None:
        """Come to a collective that is met later."""
        assert isinstance(step, Collective)
        self._outstanding += 1
        self.collectives.emit_coming(self._here(step), step)

    def meet(self, step: Step) -> None:
        """Meet the others of one that this participant has come to."""
        assert isinstance(step, Collective)
        self.collectives.emit_meeting(self._here(step), step)
        self.spend(step.cycles + _MEETING_CYCLES)

    def part(self, step: Step) -> None:
        """Part from those that this participant has met."""
        assert isinstance(step, Collective)
        self.collectives.emit_parting(self._here(step), step)
        self._outstanding -= 1

    def _here(self, step: Collective) -> Here:
        w, context = self.w, self._context()
        replica, partition = (
            w.as_index("i32", w.load("i32", w.gep("i8", context, place.offset)))
            for place in (REPLICA, PARTITION)
        )
        participant = w.iadd(w.imul(replica, self.program.topology.num_partitions), partition)
        operands, results = ([self.pointer(s) for s in p] for p in (step.operands, step.results))
        self._can_be_stopped = True  # who waits looks at signals
        return Here(w, self._session(), participant, operands, results, self.check_status)

    # -- routines that are written into the program ------------------------------------------------

    def rng_state(self, step: Library) -> None:
        """Executions that run at the same time get different numbers."""
        state, out, delta = step.operands
        assert isinstance(state, Slice) and isinstance(out, Slice)
        w = self.w
        address = self.pointer(state)
        old = w.value(f"atomicrmw add ptr {address}, i64 {delta} monotonic")
        target = self.pointer(out)
        w.store("i64", old, target)
        w.store("i64", "0", w.gep("i64", target, 1))

    def merge_argsort(self, step: Library) -> None:
        less, *rest = step.operands
        assert isinstance(less, KernelOperand)
        function = merge_argsort_function(self.kernels, self.program.kernels[less.kernel])
        arguments = [self._operand(operand) for operand in (*less.buffers, *rest)]
        self.w.call(function, "void", arguments)


_STEPS: dict[type[Step], Callable[..., None]] = {
    Call: _Emitter.call,
    Collective: _Emitter.collective,
    Copy: _Emitter.copy,
    Host: _Emitter.host,
    If: _Emitter.if_,
    Launch: _Emitter.launch,
    Library: _Emitter.library,
    Undefined: _Emitter.undefined,
    While: _Emitter.while_,
}
_WRITTEN_HERE: dict[str, Callable[[_Emitter, Library], None]] = {
    "merge_argsort": _Emitter.merge_argsort,
    "rng_state": _Emitter.rng_state,
}
