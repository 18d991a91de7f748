"""The function of a step that one block, or a grid of them, runs whole (`residents`): its launches
one behind another, loops and branches around them, and a barrier wherever threads hand something
on: before a step that meets memory which steps since the last barrier used otherwise.

The blocks of a launch come one after another, those of a grid side by side. Where its threads work
together, the first threads of a block are those of the launch; else the launch's threads are spread
over all that there are. How many blocks a grid has is the device's business: the function asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from xla_backend.codegen.indices import is_narrow
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, Loop, Statement
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.program.ir import (
    Call,
    Copy,
    If,
    Launch,
    Program,
    Resident,
    Slice,
    Space,
    Step,
    Undefined,
    While,
    all_steps,
    launched_buffers,
)
from xla_backend.targets.gpu.access import WIDEST
from xla_backend.targets.gpu.emitter import BLOCK, THREAD, KernelEmitter, own_number
from xla_backend.targets.gpu.grid_barrier import BLOCKS, declare_counter, emit_grid_barrier
from xla_backend.targets.gpu.kernel_functions import KernelFunctions, used_buffers
from xla_backend.targets.gpu.residents import works_together
from xla_backend.targets.gpu.schedule.stages import is_pure, threads_of

_POINTER = "ptr addrspace(1)"
_WORDS = (16, 8, 4, 2, 1)
# An integer type for each width of a copy; 16 bytes are a vector.
_WORD_TYPES = {16: "<4 x i32>", 8: "i64", 4: "i32", 2: "i16", 1: "i8"}

Memory = tuple[Space, int]


class Use(NamedTuple):
    """What a step does with a slice."""

    place: Slice
    written: bool


# Spaces of whose pieces two may be the same memory: results take over that of arguments.
_MAY_BE_SHARED = {Space.ARGUMENT, Space.OUTPUT}


@dataclass(frozen=True, slots=True)
class ResidentFunction:
    """The function of a resident step.

    It takes the addresses of pieces of memory, each a multiple of 16.

    Fields:
      name: in the module.  step: the name of the step.
      memories: whose addresses it takes, in order.
      blocks: the most that are of use. More than one are launched together, so that all are there
        at once, and fewer where the device has no room for so many.
      threads: exactly so many.
      shared_bytes, dynamic_shared: as of a `LaunchFunction`.
    """

    name: str
    step: str
    memories: tuple[Memory, ...]
    blocks: int
    threads: int
    shared_bytes: int
    dynamic_shared: int


def emit_resident(functions: KernelFunctions, program: Program, step: Resident) -> ResidentFunction:
    """Emit the function of a resident step into the module of `functions`."""
    return _Writer(functions, program, step).run()


class _Writer:
    def __init__(self, functions: KernelFunctions, program: Program, step: Resident) -> None:
        self.functions = functions
        self.program = program
        self.step = step
        self.name = "resident_" + "".join(c if c.isalnum() else "_" for c in step.name)
        self.kernels = self._kernels(step.steps)
        self.memories = tuple(sorted({p.memory for p in self._places(step.steps)}, key=str))
        self.parameters = {memory: f"%memory{n}" for n, memory in enumerate(self.memories)}
        self.threads = step.threads
        self.is_grid = step.blocks > 1
        self.counter = ""  # of barriers of the grid
        # What threads may still be using, since they were last together.
        self.pending: list[Use] = []

    # -- what there is -----------------------------------------------------------------------------

    def _steps(self, steps: Sequence[Step]) -> list[Step]:
        """All steps, those of procedures among them."""
        found: list[Step] = []
        for step in all_steps(tuple(steps)):
            found.append(step)
            if isinstance(step, Call):
                found += self._steps(self.program.procedures[step.procedure])
        return found

    def _kernels(self, steps: Sequence[Step]) -> list[Kernel]:
        names = [s.kernel for s in self._steps(steps) if isinstance(s, Launch)]
        return [self.program.kernels[name] for name in dict.fromkeys(names)]

    def _places(self, steps: Sequence[Step]) -> list[Slice]:
        found: list[Slice] = []
        for step in self._steps(steps):
            match step:
                case Launch():
                    found += step.buffers
                case Copy():
                    found += [step.target, step.source]
                case While():
                    found.append(step.predicate)
                case If():
                    found.append(step.selector)
        return found

    # -- the function ------------------------------------------------------------------------------

    def run(self) -> ResidentFunction:
        parameters = [
            (f"{_POINTER} align {WIDEST}", f"memory{n}") for n in range(len(self.memories))
        ]
        attributes = f'"nvvm.reqntid"="{self.threads}"'
        functions = self.functions
        w = functions.module.function(
            self.name, parameters, "ptx_kernel void", attributes=attributes
        )
        stages = [s for kernel in self.kernels for s in kernel.stages]
        w.index = "i32" if is_narrow(stages) and self._counts_are_narrow() else "i64"
        used = used_buffers(stages)
        self.own_pointers = functions.own_pointers(w, used)
        # One kernel after another: all of them have the same shared memory.
        shared = [
            [b for b in kernel.buffers if b in used and b.role is BufferRole.SHARED]
            for kernel in self.kernels
        ]
        total, dynamic = functions.shared_memory(self.name, shared, self.own_pointers)
        self.w = w
        self.thread = own_number(w, THREAD)
        # Number of this block and of all; of this thread in all of them, and of all threads.
        self.block, self.blocks = "0", "1"
        self.own, self.all = self.thread, str(self.threads)
        if self.is_grid:
            self.counter = declare_counter(functions.module, self.name)
            self.block, self.blocks = own_number(w, BLOCK), own_number(w, BLOCKS)
            first = w.op("mul", w.index, self.block, str(self.threads))
            self.own = w.op("add", w.index, first, self.thread)
            self.all = w.op("mul", w.index, self.blocks, str(self.threads))
        self._emit(self.step.steps)
        w.ret()
        step = self.step
        return ResidentFunction(
            self.name, step.name, self.memories, step.blocks, self.threads, total, dynamic
        )

    def _counts_are_narrow(self) -> bool:
        """Whether 32 bits count the bytes of all arrays and the rounds of all loops."""
        loops = [s for s in self._steps(self.step.steps) if isinstance(s, While)]
        counts = [place.offset + place.size for place in self._places(self.step.steps)]
        return max([*counts, *(loop.trips or 0 for loop in loops)]) < 1 << 30

    def _order(self, uses: Sequence[Use]) -> None:
        """Uses that come next, when those are over that they must not meet."""
        if any(_meets(use, before) for use in uses for before in self.pending):
            self._barrier()
        self.pending += uses

    def _barrier(self) -> None:
        """All threads have done what is above."""
        if not self.pending:
            return
        self.pending = []
        if self.is_grid:
            emit_grid_barrier(self.w, self.counter, self.thread, self.blocks)
        else:
            self._block_barrier()

    def _block_barrier(self) -> None:
        if self.threads > 1:
            self.w.call("llvm.nvvm.barrier0", "void")

    def _address(self, place: Slice) -> str:
        base = self.parameters[place.memory]
        if not place.offset:
            return base
        w = self.w
        return w.pure(f"getelementptr inbounds i8, {_POINTER} {base}, i64 {place.offset}", base)

    # -- steps -------------------------------------------------------------------------------------

    def _emit(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Launch():
                    self._launch(step)
                case Copy():
                    self._copy(step)
                case While():
                    self._while(step)
                case If():
                    self._if(step)
                case Call():
                    self._emit(self.program.procedures[step.procedure])
                case Undefined():
                    pass
                case _:
                    raise AssertionError(f"{step!r} is not a step of a block")

    def _while(self, step: While) -> None:
        w = self.w
        # A round begins where another one ended.
        self._barrier()
        if step.trips is not None:
            if step.trips:
                with w.loop(0, step.trips):
                    self._emit(step.body)
                    self._barrier()
            return
        seen: list[Use] = []

        def condition(_: list[str]) -> str:
            self._emit(step.condition)
            found = w.cmp("ne", "i8", self._read(step.predicate), "0")
            seen.extend(self.pending)
            return found

        def body(_: list[str]) -> list[str]:
            self._emit(step.body)
            self._barrier()
            return []

        w.while_([], condition, body)
        self.pending = seen

    def _if(self, step: If) -> None:
        w = self.w
        selected = self._read(step.selector)
        if step.selector.shape.element_type is PrimitiveType.PRED:
            chosen = [w.cmp("ne", "i8", selected, "0")]
        else:
            numbers = range(len(step.branches) - 1)
            chosen = [w.cmp("eq", "i32", selected, str(n)) for n in numbers]
        self._choose(chosen, step.branches)

    def _choose(self, chosen: list[str], branches: Sequence[Sequence[Step]]) -> None:
        """Run the branch of the first condition that holds, else the last one."""
        if not chosen:
            self._emit(branches[0])
            return

        before, after = list(self.pending), list[Use]()

        def first() -> list[str]:
            self._emit(branches[0])
            after.extend(self.pending)
            return []

        def others() -> list[str]:
            self.pending = before
            self._choose(chosen[1:], branches[1:])
            after.extend(self.pending)
            return []

        self.w.if_else(chosen[0], [], first, others)
        self.pending = after

    def _read(self, place: Slice) -> str:
        """A scalar that all threads read, each for itself."""
        self._order([Use(place, False)])
        bits = 8 * place.shape.byte_size
        return self.w.value(f"load i{bits}, {_POINTER} {self._address(place)}")

    def _copy(self, step: Copy) -> None:
        w, size = self.w, step.target.size
        if not size:
            return
        self._order([Use(step.source, False), Use(step.target, True)])
        places = (size, step.target.offset, step.source.offset)
        word = next(n for n in _WORDS if not any(place % n for place in places))
        ty = _WORD_TYPES[word]
        with w.loop(self.own, size // word, self.all) as loop:
            value = w.value(f"load {ty}, {self._word(step.source, ty, loop.index)}, align {word}")
            target = self._word(step.target, ty, loop.index)
            w.line(f"store {ty} {value}, {target}, align {word}")

    def _word(self, place: Slice, ty: str, index: str) -> str:
        base = self._address(place)
        text = f"getelementptr inbounds {ty}, {_POINTER} {base}, {self.w.index} {index}"
        return f"{_POINTER} {self.w.pure(text, base, index)}"

    # -- kernels -----------------------------------------------------------------------------------

    def _launch(self, step: Launch) -> None:
        kernel = self.program.kernels[step.kernel]
        pointers = dict(self.own_pointers)
        for buffer, place in zip(launched_buffers(kernel), step.buffers):
            pointers[buffer] = self._address(place)
        common = [s for s in kernel.stages if is_pure(s)]
        uses = [
            Use(place, buffer.role is not BufferRole.OPERAND)
            for buffer, place in zip(launched_buffers(kernel), step.buffers)
        ]
        self._order(uses)
        first = True
        for stage in kernel.stages:
            if isinstance(stage, Loop):
                if not first:
                    self._barrier()
                    self.pending = list(uses)
                first = False
                self._stage(pointers, common, stage)

    def _stage(self, pointers: dict[Buffer, str], common: list[Statement], stage: Loop) -> None:
        w, threads = self.w, threads_of(stage).var.extent
        blocks = stage.var.extent
        emit = partial(self._thread, pointers, common, stage)
        if not works_together(threads_of(stage)):
            total = blocks * threads
            if total == self.threads and not self.is_grid:
                emit(*self._split(self.thread, threads))
                return
            with w.loop(self.own, total, self.all) as loop:
                emit(*self._split(loop.index, threads))
            return
        with w.loop(self.block, blocks, self.blocks) as loop:
            if threads == self.threads:
                emit(loop.index, self.thread)
            else:
                with w.if_(w.cmp("slt", w.index, self.thread, str(threads))):
                    emit(loop.index, self.thread)
            # The next block's threads write what these share.
            self._block_barrier()

    def _split(self, number: str, threads: int) -> tuple[str, str]:
        """The block and the thread of a launch from its number in the whole launch."""
        if threads == 1:
            return number, "0"
        w = self.w
        block = w.op("udiv", w.index, number, str(threads))
        return block, w.op("urem", w.index, number, str(threads))

    def _thread(
        self,
        pointers: dict[Buffer, str],
        common: list[Statement],
        stage: Loop,
        block: str,
        thread: str,
    ) -> None:
        """What one thread of a launch does."""
        constants = frozenset(b for b in pointers if b.role is BufferRole.CONSTANT)
        emitter = KernelEmitter(self.w, dict(pointers), constants, self.functions.architecture)
        inner = threads_of(stage)
        emitter.threads = inner.var.extent
        emitter.is_part = inner.var.extent < self.threads
        emitter.vars[stage.var] = block
        emitter.vars[inner.var] = thread
        emitter.emit(common)
        for s in stage.body:
            emitter.emit(inner.body if s is inner else [s])


def _meets(one: Use, other: Use) -> bool:
    """Whether two uses of memory need an order."""
    return (one.written or other.written) and _overlap(one.place, other.place)


def _overlap(one: Slice, other: Slice) -> bool:
    if one.memory != other.memory:
        return {one.memory[0], other.memory[0]} <= _MAY_BE_SHARED
    return one.offset < other.offset + other.size and other.offset < one.offset + one.size
