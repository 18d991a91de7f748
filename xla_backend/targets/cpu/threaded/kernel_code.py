"""Scheduled kernel IR to threaded code: the same operations as optimised code, in the same order.

Nothing is decided here that the kernel does not say: this is the counterpart of `codegen.emitter`
and of its subclass for CPUs. The bits are the same, but for one thing: of two NaN that are operands
of one operation, code may hand on either, and then it is not always the same one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from xla_backend.codegen.indices import index_element
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.index import Index
from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Compute,
    Constant,
    Contraction,
    If,
    IndexValue,
    InRange,
    Kernel,
    Load,
    Loop,
    Move,
    Statement,
    Store,
    Transpose,
    Value,
)
from xla_backend.llvm.target import TargetInfo
from xla_backend.program.ir import launched_buffers, passed_buffers
from xla_backend.targets.cpu.kernel_stages import stage_groups
from xla_backend.targets.cpu.routines.threaded_names import (
    CONTEXT,
    LANES,
    NUMBER,
    OWN,
    PARAMETERS,
    WIDE_LANES,
    lanes_at_once,
    value_bytes,
)
from xla_backend.targets.cpu.routines.threaded_operations import (
    memory_operand_name,
    operation_name,
    plain_name,
)
from xla_backend.targets.cpu.threaded.assembler import Assembler, Frame, Label
from xla_backend.targets.cpu.threaded.code import chunks
from xla_backend.targets.cpu.threaded.errors import NoThreadedCode
from xla_backend.targets.cpu.threaded.loop_code import LoopCode


class Stage(NamedTuple):
    """A part of a kernel: the subroutine to call, how many blocks it has (1: it is called once, as
    block 0), and the cycles of one block, very roughly."""

    subroutine: Label
    blocks: int
    cycles: float


class KernelCode(LoopCode):
    """The code of some statements of a kernel."""

    def __init__(
        self, asm: Assembler, frame: Frame, pointers: dict[Buffer, int], target: TargetInfo
    ) -> None:
        super().__init__(asm, frame, pointers, target)
        self._zeros: set[Value] = set()
        self._guards: dict[Value, Value] = {}
        # Loads that wait for the operation that reads what they would load.
        self._waiting: dict[Value, Load] = {}

    # -- statements --------------------------------------------------------------------------------

    def statements(self, statements: Sequence[Statement]) -> None:
        for s in statements:
            kind = s.__class__
            if kind is Compute:
                self._compute(s)  # type: ignore[arg-type]
            else:
                handle = _KINDS.get(kind)
                if handle is None:
                    raise NoThreadedCode(f"a statement {kind.__name__}")
                handle(self, s)

    def _constant(self, s: Constant) -> None:
        word = _word(s.result.type, s.value)
        self.bind(s.result, self.number(word))
        if not word:  # not -0.0
            self._zeros.add(s.result)

    def _load(self, s: Load) -> None:
        if s.guard is not None:
            self._guards[s.result] = s.guard
        if s.result in self.operand_loads and self._are_all_neighbours(s):
            self._waiting[s.result] = s
        else:
            self.load(s)

    def _are_all_neighbours(self, s: Load) -> bool:
        """Whether all lanes of a load are neighbours, and all are to be read."""
        return (
            self.mask is None
            and s.guard is None
            and self.distance(s.index) == 1
            and not self.lanes % lanes_at_once(s.result.type)
        )

    # -- elementwise operations --------------------------------------------------------------------

    def _compute(self, s: Compute) -> None:
        opcode, operands = s.opcode, s.operands
        if opcode is Opcode.SELECT and self._is_guarded_load(s):
            return
        if opcode is Opcode.CLAMP:
            self._clamp(s)
            return
        if opcode is Opcode.CONVERT and operands[0].type is s.result.type:
            self.bind(s.result, self.env[operands[0]], self.lanes_in(operands[0]))
            return
        if isinstance(s.attributes, Contraction):
            raise NoThreadedCode("a product or sum that may be computed as one with another")
        self._operate(s.result, operation_name(s), operands, opcode.cycles)

    def _operate(self, result: Value, name: str, operands: Sequence[Value], cycles: float) -> None:
        """An operation with one result, in as many lanes as its operands have."""
        lanes_of, env = self.lanes_of, self.env
        self.asm.operations += 1
        if self._waiting:
            for n, o in enumerate(operands):
                if o in self._waiting:
                    self._operate_on_memory(result, name, operands, n, cycles)
                    return
        lanes = 1
        if lanes_of:
            for o in operands:
                if o in lanes_of:
                    lanes = lanes_of[o]
        slot = self._places.get(result) if self._places else None
        if lanes == 1:
            words = [env[o] for o in operands]
            uses = words
            name += ".1"
        else:
            uses = [env[o] if o in lanes_of else self.spread(o, lanes) for o in operands]
            # Operands between the first and the last have the type of the last.
            at_once = lanes_at_once(result.type, operands[0].type, operands[-1].type)
            count = chunks(lanes, at_once)
            words = [*uses, count]
            name += ".n"
            cycles *= count
        if slot is not None:
            self.emit(name, slot, *words, cycles=cycles)
        else:
            size = value_bytes(result.type, lanes)
            slot = self.slot_here(size, uses) if self.reuses else self.frame.slot(size)
            self.run_early(slot, (name, slot, *words), uses, cycles)
        self.bind(result, slot, lanes)

    def _operate_on_memory(
        self, result: Value, name: str, operands: Sequence[Value], number: int, cycles: float
    ) -> None:
        """An operation of two operands, of which one is neighbours in memory."""
        s, other = self._waiting.pop(operands[number]), operands[1 - number]
        lanes, size = self.lanes, s.buffer.element_type.byte_size
        count = chunks(lanes, lanes_at_once(result.type))
        words = (self.spread(other), *self.address(s.buffer, s.index, size), count)
        slot = self._places.get(result)
        if slot is None:
            slot = self.new(result.type, lanes)
        name = memory_operand_name(name, number)
        self.emit(name, slot, *words, cycles=(cycles + 1) * count)
        self.bind(result, slot, lanes)

    def _clamp(self, s: Compute) -> None:
        low, x, high = s.operands
        raised = s.result.like()
        name = plain_name(Opcode.MAXIMUM, x.type, x.type)
        self._operate(raised, name, (x, low), Opcode.MAXIMUM.cycles)
        name = plain_name(Opcode.MINIMUM, x.type, x.type)
        self._operate(s.result, name, (raised, high), Opcode.MINIMUM.cycles)

    def _is_guarded_load(self, s: Compute) -> bool:
        """Bind a select between what was loaded under a guard and zero: the load is already zero
        where its guard does not hold."""
        guard, loaded, other = s.operands
        if other not in self._zeros or self._guards.get(loaded) is not guard:
            return False
        self.bind(s.result, self.env[loaded], self.lanes_in(loaded))
        return True

    # -- indices as values -------------------------------------------------------------------------

    def _index_value(self, s: IndexValue) -> None:
        type, index = s.result.type, s.index
        if not self.varies(index):
            slot = self.uniform_slot(index)
            if not type.is_integral or type.bits < 8:
                name = plain_name(Opcode.CONVERT, P.S64, type) + ".1"
                slot = self.pure(name, 8, (slot,), (slot,), 1)
            self.bind(s.result, slot)  # of an integer, its last bytes
            return
        element = index_element(index)
        slot = self.lanes_of_index(index, element)
        source = P.S32 if element == "i32" else P.S64
        if not (type.is_integral and type.bits == source.bits):
            name = plain_name(Opcode.CONVERT, source, type) + ".n"
            count = chunks(self.lanes, lanes_at_once(source, type))
            slot = self.pure(name, value_bytes(type, self.lanes), (slot, count), (slot,), count)
        self.bind(s.result, slot, self.lanes)

    def _in_range(self, s: InRange) -> None:
        if s.result in self.holding:
            self.bind(s.result, self.number(1))
            return
        index = s.index - s.low
        if not self.varies(index):
            slot, number = self.uniform(index)
            span = s.high - s.low
            if slot is None:
                self.bind(s.result, self.number(int(0 <= number < span)))
            else:
                self.bind(s.result, self.pure("in_range", 8, (slot, number, span), (slot,)))
            return
        self.bind(s.result, self.lanes_in_range(index, s.high - s.low), self.lanes)

    def lanes_in_range(self, index: Index, span: int) -> int:
        """The slot of a mask: the lanes where 0 <= index < span."""
        element = index_element(index)
        vector = self.lanes_of_index(index, element)
        count = chunks(self.lanes, LANES if element == "i32" else WIDE_LANES)
        size = value_bytes(P.PRED, self.lanes)
        return self.pure(f"lanes_below.{element}", size, (vector, span, count), (vector,), count)

    # -- branches ----------------------------------------------------------------------------------

    def _if(self, s: If) -> None:
        index, span = s.index - s.low, s.high - s.low
        if self.varies(index):
            self._if_in_lanes(s, index, span)
            return
        slot, number = self.uniform(index)
        if slot is None:
            self._known_branch(s, 0 <= number < span)
            return
        lanes = self.lanes
        results = [self.slot(value_bytes(c.phi.type, lanes)) for c in s.carries]
        inits = [self.spread(c.init) for c in s.carries]
        sizes = [value_bytes(c.phi.type, lanes) for c in s.carries]
        self.copy_all(list(zip(results, inits, sizes)))
        done = Label()
        self.emit("jump_unless_in_range", slot, number, span, done)
        self.begin_branch()
        slots = self._arm(s, inits)
        self.copy_all(list(zip(results, slots, sizes)))
        self.end()
        self.place(done)
        for c, result in zip(s.carries, results):
            self.bind(c.result, result, lanes)

    def _known_branch(self, s: If, holds: bool) -> None:
        slots = [self.spread(c.init) for c in s.carries]
        if holds:
            slots = self._arm(s, slots)
        for c, slot in zip(s.carries, slots):
            self.bind(c.result, slot, self.lanes)

    def _arm(self, s: If, slots: Sequence[int]) -> list[int]:
        """The body of an `If`, where its condition holds; what it hands on."""
        for c, slot in zip(s.carries, slots):
            self.bind(c.phi, slot, self.lanes)
        self.statements(s.body)
        return [self.spread(c.next) for c in s.carries if c.next is not None]

    def _if_in_lanes(self, s: If, index: Index, span: int) -> None:
        outer, lanes = self.mask, self.lanes
        mask = self.lanes_in_range(index, span)
        self.mask = self._lanes_in_use(mask)
        inits = [self.spread(c.init) for c in s.carries]
        slots = self._arm(s, inits)
        for c, before, after in zip(s.carries, inits, slots):
            type = c.phi.type
            name = plain_name(Opcode.SELECT, P.PRED, type) + ".n"
            result = self.new(type, lanes)
            count = chunks(lanes, lanes_at_once(type))
            self.emit(name, result, mask, after, before, count, cycles=count)
            self.bind(c.result, result, lanes)
        self.mask = outer


_KINDS: dict[type, Callable] = {
    Constant: KernelCode._constant,
    Load: KernelCode._load,
    Store: KernelCode.store,
    Move: KernelCode.move,
    Transpose: KernelCode.transpose,
    IndexValue: KernelCode._index_value,
    InRange: KernelCode._in_range,
    Loop: KernelCode.loop,
    If: KernelCode._if,
}


def _word(type: P, value: object) -> int:
    """A scalar as it is in a slot."""
    if not type.is_floating:
        return int(value) & ((1 << 64) - 1)  # type: ignore[call-overload]
    number = float(value)  # type: ignore[arg-type]
    data = struct.pack("<d" if type is P.F64 else "<f4x", number)
    return int.from_bytes(data, "little")


class KernelTables:
    """The code of kernels in one table: equal kernels have it once."""

    def __init__(self, asm: Assembler, target: TargetInfo) -> None:
        self._asm = asm
        self._target = target
        self._stages: dict[str, list[Stage]] = {}
        self._called: dict[str, Stage] = {}

    def stages(self, kernel: Kernel, times: float = 1.0) -> list[Stage]:
        """The parts of a kernel, to be called one after another with a table of the address of the
        subroutine and those of `launched_buffers(kernel)`; `times`: very roughly how often."""
        found = self._stages.get(kernel.name)
        if found is None:
            if kernel.parameters:
                raise NoThreadedCode("a kernel with parameters that is launched")
            found = [self._stage(kernel, times, *group) for group in stage_groups(kernel)]
            self._stages[kernel.name] = found
        return found

    def called(self, kernel: Kernel) -> Stage:
        """A kernel that a routine calls, with a table of the address of the subroutine and those of
        `passed_buffers(kernel)`, the routine's own memory, and the kernel's parameters."""
        found = self._called.get(kernel.name)
        if found is None:
            code = self._code(kernel, passed_buffers(kernel))
            (own,) = (b for b in kernel.buffers if b.role is BufferRole.SCRATCH)
            code.pointers[own] = OWN
            for n, parameter in enumerate(kernel.parameters):
                code.var_slots[parameter] = PARAMETERS + 8 * n
            code.frame.size = max(code.frame.size, PARAMETERS + 8 * len(kernel.parameters))
            code.statements(kernel.stages)
            found = self._called[kernel.name] = Stage(code.subroutine(), 1, code.cycles)
        return found

    def _stage(
        self, kernel: Kernel, times: float, statements: Sequence[Statement], grid: Loop | None
    ) -> Stage:
        code = self._code(kernel, launched_buffers(kernel))
        code.times = times
        if grid is not None:
            code.var_slots[grid.var] = NUMBER
            code.times = times * grid.var.extent
        code.statements(statements)
        blocks = 1 if grid is None else grid.var.extent
        return Stage(code.subroutine(), blocks, code.cycles)

    def _code(self, kernel: Kernel, buffers: Sequence[Buffer]) -> KernelCode:
        """Code with the addresses of the kernel's buffers."""
        frame = Frame()
        frame.slot(PARAMETERS + 8 * len(kernel.parameters))
        pointers: dict[Buffer, int] = {}
        code = KernelCode(self._asm, frame, pointers, self._target)
        for n, buffer in enumerate(buffers):
            pointers[buffer] = code.fixed("fetch", CONTEXT, 8 * (1 + n))
        for buffer in kernel.buffers:
            if buffer.role is BufferRole.CONSTANT:
                assert buffer.data is not None
                pointers[buffer] = code.fixed("constant", self._asm.constant(buffer.data.tobytes()))
            elif not buffer.role.is_global and buffer.role is not BufferRole.REGISTERS:
                size = buffer.size * buffer.element_type.byte_size
                pointers[buffer] = code.fixed("frame_address", frame.slot(max(size, LANES)))
        return code
