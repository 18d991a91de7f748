"""Programs as threaded code: the steps of a program become instructions of one piece of code, which
calls the code of its kernels, routines and the host.

A run on threaded code is not as long as its loops may be: they look whether there is optimised code
meanwhile, and then end the program, which is run anew by that. (What was computed so far is lost:
it took as long as LLVM did at most.)

What runs, and where, is the program's to say, as it is for the optimised code (`emit_program`), and
the bits of the results are the same. Loops and branches are jumps; procedures are written where
they are called. A step that reports an error ends the code, and so the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.ir import BufferRole, Kernel
from xla_backend.llvm.target import TargetInfo
from xla_backend.program.ir import (
    Call,
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
    Step,
    Steps,
    Undefined,
    While,
    all_steps,
    launched_buffers,
)
from xla_backend.program.routines import Kind
from xla_backend.targets.cpu.code_interface import host_call_symbol
from xla_backend.targets.cpu.routines import threaded_instructions as instructions
from xla_backend.targets.cpu.routines import threaded_names as names
from xla_backend.targets.cpu.routines.contract_table import ROUTINES
from xla_backend.targets.cpu.routines.polling import LONG_KERNEL, POLL_CYCLES, round_cycles
from xla_backend.targets.cpu.routines.variants import variant
from xla_backend.targets.cpu.threaded.assembler import WORD, Assembler, Label, Symbol
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.kernel_code import KernelTables, Stage
from xla_backend.targets.cpu.threaded.program_memory import ProgramMemory, Sum

# Rounds of a loop, if nobody knows how many it has; and of one in such a loop. Long loops are what
# threaded code hurts: most programs are run anew once there is optimised code, which bounds what is
# lost, and of the others loops count as very long ones.
_UNKNOWN_ROUNDS, _INNER_ROUNDS = 100, 10
_ROUNDS_TO_THE_END = 1_000_000
# What it takes to begin a kernel.
_LAUNCH_CYCLES = 60.0
# Of the stack of the thread that runs the program.
_MOST_BYTES = 1 << 18
# How much longer threaded code takes than the estimates say, which are of optimised code. It only
# says when to look at signals.
_SLOWER = 8


class ProgramTable(NamedTuple):
    """A program's threaded code, and what it is linked with.

    Fields:
      assembler: the whole table, which exports `names.PROGRAM` and `names.OPTIMISED`.
      symbols: what it refers to outside.
      bound_constants: symbol -> number of a constant that is bound by address.
      host_calls: the steps that the symbols `host_call_symbol(0)`, ... stand for.
      cycles: how long the kernels of a run take on so many threads, very roughly. What routines and
        calls of the host take is the same in optimised code.
    """

    assembler: Assembler
    symbols: Sequence[str]
    bound_constants: dict[str, int]
    host_calls: list[Host]
    cycles: float


class Kernels(Protocol):
    """Who writes the code of kernels into a table."""

    def stages(self, kernel: Kernel, times: float = 1.0) -> Sequence[Stage]:
        """Its stages, which are run one after another; `times`: very roughly how often."""

    def called(self, kernel: Kernel) -> Stage:
        """What routines call."""


def program_table(
    program: Program,
    target: TargetInfo,
    kernels: Callable[[Assembler, TargetInfo], Kernels] = KernelTables,
    threads: int = 1,
) -> ProgramTable:
    """The threaded code of a program, with that of its kernels.

    Args:
      threads: that are going to run it, which the code is the same for.
    Raises:
      NoThreadedCode: it does what threaded code cannot.
    """
    if program.topology.size > 1:
        raise NoThreadedCode("a program of several participants")
    writer = _Writer(program, target, threads)
    writer.write_kernels(kernels(writer.asm, target))
    writer.write_entry()
    asm, constants = writer.asm, writer.memory.bound_constants
    return ProgramTable(asm, asm.symbols, constants, writer.host_calls, writer.cycles)


class _Writer:
    """Writes the table."""

    def __init__(self, program: Program, target: TargetInfo, threads: int) -> None:
        self.program = program
        self._threads = threads
        self.asm = Assembler()
        self.memory = ProgramMemory(program, self.asm)
        self.host_calls: list[Host] = []
        self.cycles = 0.0
        self._rounds = 1.0  # how often what is being written runs
        self._is_unknown = False  # that is a guess
        self._target = target
        self._stages: dict[str, Sequence[Stage]] = {}
        self._called: dict[str, Stage] = {}
        # Estimated cycles since the last look at signals, as straight as the code goes.
        self._unpolled = 0.0
        self._can_be_stopped = False  # something in it looks at signals
        self._budget = self.memory.slot()  # cycles that loops may run until they look
        self._optimised = self.asm.label()
        self._can_begin_anew = _can_begin_anew(program)

    # -- kernels -----------------------------------------------------------------------------------

    def write_kernels(self, kernels: Kernels) -> None:
        """The code of all kernels, before that of the steps, which must not run into it."""
        program = self.program
        launched: dict[str, None] = {}
        called: dict[str, None] = {}
        for steps in (program.steps, *program.procedures.values()):
            for step in all_steps(steps):
                if type(step) not in _STEPS:
                    raise NoThreadedCode(f"a step {type(step).__name__}")
                if isinstance(step, Launch):
                    launched[step.kernel] = None
                elif isinstance(step, Library):
                    into = launched if step.routine in _OWN_ROUTINES else called
                    operands = [o.kernel for o in step.operands if isinstance(o, KernelOperand)]
                    into.update(dict.fromkeys(operands))
        times = _launches(program)
        for name in launched:
            self._stages[name] = kernels.stages(program.kernels[name], times.get(name, 1.0))
        for name in called:
            self._called[name] = kernels.called(program.kernels[name])

    # -- blocks of steps ---------------------------------------------------------------------------

    def write_entry(self) -> None:
        """The code that runs the steps. How it begins is known when it is written, so that comes
        at the end."""
        asm, memory = self.asm, self.memory
        beginning, body = asm.label(), asm.label()
        start = asm.place()
        asm.emit(instructions.GO, beginning)
        asm.place(body)
        self._run(self.program.steps)
        asm.emit(instructions.POLL_END if self._can_be_stopped else names.RETURN)
        asm.place(beginning)
        memory.prepare()
        if self._can_be_stopped:
            asm.emit(instructions.POLL_BEGIN)
            asm.emit(names.CONSTANT, self._budget, POLL_CYCLES)
        asm.emit(instructions.GO, body)
        frame = memory.frame
        if frame.size > _MOST_BYTES:
            raise NoThreadedCode(f"a frame of {frame.size} bytes")
        asm.export(names.PROGRAM, asm.subroutine(start, frame))
        asm.export(names.OPTIMISED, asm.place(self._optimised))
        asm.words([0])

    def _run(self, steps: Steps) -> None:
        for step in steps:
            write = _STEPS[type(step)]
            if self.memory.in_loop:
                write(self, step)
                continue
            with self.memory.reused():
                write(self, step)

    def _spend(self, cycles: float) -> None:
        """Account for code that was just written, and look at signals if there was much of it."""
        self._unpolled += _SLOWER * cycles
        if self._unpolled >= POLL_CYCLES:
            self._poll()

    def _poll(self) -> None:
        self._can_be_stopped = True
        self.asm.emit(instructions.POLL)
        self._unpolled = 0.0

    # -- steps -------------------------------------------------------------------------------------

    def copy(self, step: Copy) -> None:
        if step.target.size:
            at = self.memory.table([*map(self.memory.address, (step.target, step.source))])
            self.asm.emit(instructions.COPY, at, at + WORD, step.target.size)
        self._spend(step.cycles)

    def undefined(self, step: Undefined) -> None:
        """Memory is as good as it is."""

    def launch(self, step: Launch) -> None:
        asm, memory = self.asm, self.memory
        addresses = [memory.address(place) for place in step.buffers]
        for stage in self._stages[step.kernel]:
            context = memory.table([memory.number(stage.subroutine), *addresses])
            in_turn = -(-stage.blocks // self._threads)  # blocks of one thread
            self.cycles += self._rounds * (_LAUNCH_CYCLES + in_turn * stage.cycles)
            if stage.blocks == 1:
                asm.emit(instructions.LAUNCH, context)
            elif _SLOWER * step.cycles < LONG_KERNEL:
                asm.emit(instructions.PARALLEL, context, stage.blocks)
            else:
                asm.emit(instructions.POLLED, context, stage.blocks)
                self._poll()  # before a later stage looks at what was not computed
        self._spend(step.cycles)

    def library(self, step: Library) -> None:
        routine = ROUTINES[step.routine]
        own = _OWN_ROUTINES.get(step.routine)
        if own is not None:
            own(self, step)
        else:
            words: list[Sum] = []
            for operand, parameter in zip(step.operands, routine.parameters):
                if isinstance(operand, KernelOperand):
                    words += self._kernel_operand(operand)
                elif parameter.kind is Kind.KERNEL:
                    words += [self.memory.number(0)] * 2
                else:
                    words.append(self._operand(operand))
            given = {p.name: x for p, x in zip(routine.parameters, step.operands)}
            self._call(f"pyjax_{variant(step.routine, given, self._target)}", words)
        self._can_be_stopped |= routine.stops
        self._spend(step.cycles)

    def _call(self, function: str, words: Sequence[Sum]) -> None:
        if len(words) not in instructions.CALL_ARGUMENTS:
            raise NoThreadedCode(f"a routine with {len(words)} operands")
        at = self.memory.table(words)
        self.asm.emit(instructions.call(len(words)), Symbol(function), at)

    def _kernel_operand(self, operand: KernelOperand) -> list[Sum]:
        """What calls the kernel, and its data."""
        memory = self.memory
        parameters = len(self.program.kernels[operand.kernel].parameters)
        if parameters not in names.CALLED_PARAMETERS:
            raise NoThreadedCode(f"a kernel that is called with {parameters} numbers")
        subroutine = memory.number(self._called[operand.kernel].subroutine)
        data = memory.table([subroutine, *map(memory.address, operand.buffers)])
        return [memory.number(Symbol(names.called(parameters))), memory.own(data)]

    def _operand(self, operand: Operand) -> Sum:
        memory = self.memory
        if isinstance(operand, Slice):
            return memory.address(operand)
        if isinstance(operand, Element):
            return memory.element(operand)
        if isinstance(operand, tuple):
            data = b"".join(x.to_bytes(8, "little", signed=True) for x in operand)
            return memory.number(self.asm.constant(data))
        assert operand is None or isinstance(operand, int), operand
        return memory.number(int(operand or 0))

    def host(self, step: Host) -> None:
        symbol = Symbol(host_call_symbol(len(self.host_calls)))
        self.host_calls.append(step)
        self._can_be_stopped = True  # host calls look whether the program was interrupted
        table = self.memory.table([*map(self.memory.address, (*step.operands, *step.results))])
        self.asm.emit(instructions.HOST, symbol, table, self.memory.host)
        self._spend(step.cycles)

    def call(self, step: Call) -> None:
        self._run(self.program.procedures[step.procedure])

    # -- control -----------------------------------------------------------------------------------

    def while_(self, step: While) -> None:
        before, self._unpolled = self._unpolled, 0.0
        rounds = self._rounds
        if step.trips is not None:
            self._rounds *= step.trips
        else:
            rounds_alone = _UNKNOWN_ROUNDS if self._can_begin_anew else _ROUNDS_TO_THE_END
            self._rounds *= _INNER_ROUNDS if self._is_unknown else rounds_alone
        unknown, self._is_unknown = self._is_unknown, self._is_unknown or step.trips is None
        self._can_be_stopped = True
        if self.memory.in_loop:
            end = self.asm.label()
            self._loop(step, end)
            self.asm.place(end)
        else:
            self._outer_loop(step)
        self._unpolled += before
        self._rounds, self._is_unknown = rounds, unknown

    def _outer_loop(self, step: While) -> None:
        """What its steps take is known when they are written, and filled in before they run."""
        asm = self.asm
        beginning, end = asm.label(), asm.label()
        with self.memory.loop():
            asm.emit(instructions.GO, beginning)
            start = asm.place()
            self._loop(step, end)
            asm.emit(instructions.GO, end)
            asm.place(beginning)
            self.memory.fill_tables()
            asm.emit(instructions.GO, start)
        asm.place(end)

    def _loop(self, step: While, end: Label) -> None:
        asm, memory = self.asm, self.memory
        if step.trips is not None:
            # Nobody needs to look at the condition, which does nothing else.
            if step.trips > 0:
                left = memory.slot()
                asm.emit(names.CONSTANT, left, step.trips)
                start = asm.place()
                self._run(step.body)
                cost = round_cycles(self._unpolled)
                asm.emit(
                    instructions.COUNTED_ROUND, self._budget, cost, start, self._to_look_at(), left
                )
            return
        start = asm.place()
        self._run(step.condition)
        asm.emit(instructions.UNLESS, memory.table([memory.address(step.predicate)]), end)
        self._run(step.body)
        cost = round_cycles(self._unpolled)
        asm.emit(instructions.ROUND, self._budget, cost, start, self._to_look_at())

    def _to_look_at(self) -> Label:
        """Where rounds find the address of optimised code; if they have to go on, none."""
        return self._optimised if self._can_begin_anew else self.asm.constant(bytes(WORD))

    def if_(self, step: If) -> None:
        asm, branches = self.asm, step.branches
        number = self.memory.table([self.memory.address(step.selector)])
        places = [asm.label() for _ in branches]
        end = asm.label()
        if step.selector.shape.element_type is PrimitiveType.PRED:
            asm.emit(instructions.UNLESS, number, places[1])
        else:
            asm.emit(instructions.CHOOSE, number, len(places), *places)
        before = most = self._unpolled
        for place, steps in zip(places, branches):
            asm.place(place)
            self._unpolled = before
            self._run(steps)
            most = max(most, self._unpolled)
            if place is not places[-1]:
                asm.emit(instructions.GO, end)
        asm.place(end)
        self._unpolled = most

    # -- routines that have instructions of their own ----------------------------------------------

    def rng_state(self, step: Library) -> None:
        """Executions that run at the same time get different numbers."""
        state, out, delta = step.operands
        assert isinstance(state, Slice) and isinstance(out, Slice) and isinstance(delta, int)
        at = self.memory.table([*map(self.memory.address, (state, out))])
        self.asm.emit(instructions.RNG_STATE, at, at + WORD, delta)

    def merge_argsort(self, step: Library) -> None:
        """The comparator's own memory is in the frame."""
        less, *rest = step.operands
        assert isinstance(less, KernelOperand)
        memory = self.memory
        (stage,) = self._stages[less.kernel]
        taken, own = iter(less.buffers), []
        context = [memory.number(stage.subroutine)]
        for buffer in launched_buffers(self.program.kernels[less.kernel]):
            if buffer.role is BufferRole.SCRATCH:
                own.append(memory.own(memory.slot()))
                context.append(own[-1])
            else:
                context.append(memory.address(next(taken)))
        words = [memory.own(memory.table(context)), *own, *map(self._operand, rest)]
        self._call(instructions.MERGE_ARGSORT, words)


def _launches(program: Program) -> dict[str, float]:
    """How often kernels are launched, very roughly."""
    found: dict[str, float] = {}

    def count(steps: Steps, times: float) -> None:
        for step in steps:
            if isinstance(step, Launch):
                found[step.kernel] = found.get(step.kernel, 0.0) + times
            elif isinstance(step, While):
                rounds = _UNKNOWN_ROUNDS if step.trips is None else step.trips
                count(step.condition, times * rounds)
                count(step.body, times * rounds)
            elif isinstance(step, If):
                for branch in step.branches:
                    count(branch, times)
            elif isinstance(step, Call):
                count(program.procedures[step.procedure], times)

    count(program.steps, 1.0)
    return found


def _can_begin_anew(program: Program) -> bool:
    """Whether a run that has not come to its end has left nothing but its results undone: it has
    written into none of its arguments, and told nobody of anything."""
    steps = (program.steps, *program.procedures.values())
    tells = any(isinstance(step, Host) for block in steps for step in all_steps(block))
    return not (program.aliases or program.state or tells)


_STEPS: dict[type[Step], Callable[..., None]] = {
    Call: _Writer.call,
    Copy: _Writer.copy,
    Host: _Writer.host,
    If: _Writer.if_,
    Launch: _Writer.launch,
    Library: _Writer.library,
    Undefined: _Writer.undefined,
    While: _Writer.while_,
}
_OWN_ROUTINES: dict[str, Callable[[_Writer, Library], None]] = {
    "merge_argsort": _Writer.merge_argsort,
    "rng_state": _Writer.rng_state,
}
