"""The entry function of a program: one native function that calls kernels and libraries in schedule
order.

While loops and conditionals are native control flow; tuples cost nothing. `i32 entry(ptr args, ptr
outs, ptr arena)` returns 0, or the code of the first error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.hlo.attributes import FusionAttributes, FusionKind
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.cost_analysis import CostAnalysis
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.lower import can_lower
from xla_backend.kernels.ir import Buffer, BufferRole
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.passes.buffer_assignment import BufferAssignment, BufferKind, BufferSlice
from xla_backend.runtime.custom_calls import HostCall
from xla_backend.targets.cpu.kernel_functions import CompiledKernel, KernelFunctions, arguments_of

_ALIGNMENT = 64
# Constants up to this size live in the object; larger ones are bound by address.
_EMBEDDED_BYTES = 1 << 16
# Scratch up to this size, such as the partial sums of blocks, is on the stack.
_STACK_BYTES = 1 << 11
# LLVM takes more than linear time for one function: longer computations are cut into functions.
_PART_INSTRUCTIONS = 192
_ARGUMENTS = (("ptr", "args"), ("ptr", "outs"), ("ptr", "arena"))
_NOTHING_TO_DO = frozenset(
    {
        Opcode.PARAMETER,
        Opcode.CONSTANT,
        Opcode.TUPLE,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.AFTER_ALL,
    }
)
_SAME_BYTES = frozenset(
    {Opcode.BITCAST, Opcode.RESHAPE, Opcode.COPY, Opcode.OPT_BARRIER, Opcode.ADD_DEPENDENCY}
)

# Cycles of work between two looks at signals, about half a millisecond.
_POLL_CYCLES = 2_000_000
# A kernel of more cycles is stopped between its blocks.
_LONG_KERNEL = 20 * _POLL_CYCLES
# Library kernels do about this many operations in a cycle, or bytes of traffic.
_WORK_PER_CYCLE = 8

# Rules that add their own estimate to `cycles`; all others may take any time.
_COSTED = frozenset({Opcode.DOT, Opcode.FUSION, Opcode.CONDITIONAL, Opcode.CALL})

# Operations whose library kernels look at signals.
_STOPPABLE = frozenset({Opcode.CONVOLUTION, Opcode.SORT, Opcode.REDUCE_WINDOW})

# The blocks of a parallel loop one after another, for programs that keep to one thread.
_SERIAL_FOR = """define internal void @pyjax.serial_for(ptr %f, ptr %context, i64 %blocks) {
entry:
  br label %next
next:
  %block = phi i64 [ 0, %entry ], [ %following, %next ]
  call void %f(ptr %context, i64 %block)
  %following = add i64 %block, 1
  %done = icmp eq i64 %following, %blocks
  br i1 %done, label %end, label %next
end:
  ret void
}"""

Rule = Callable[["Driver", Instruction], None]
RULES: dict[Opcode, Rule] = {}
# How fusions run that are not one kernel.
FUSION_RULES: dict[FusionKind, Rule] = {}


def runs(*opcodes: Opcode) -> Callable[[Rule], Rule]:
    """Register how the entry function runs an opcode that is not a plain kernel."""

    def register(rule: Rule) -> Rule:
        for opcode in opcodes:
            RULES[opcode] = rule
        return rule

    return register


class Driver:
    """Writes the entry function."""

    def __init__(
        self,
        module: HloModule,
        assignment: BufferAssignment,
        writer: ModuleWriter,
        *,
        serial: bool = False,
    ) -> None:
        """`serial`: loops that could be split over threads run on the calling one."""
        self.serial = serial
        self.module = module
        self.assignment = assignment
        self.writer = writer
        self.kernels = KernelFunctions(writer)
        self.scratch_bytes = 0
        self.uses_rng_state = False
        self._stack_scratch: list[str] = []  # small pieces, which kernels use one after another
        # Estimated cycles since the last look at signals, as straight as the code goes.
        self._unpolled = 0.0
        self.can_be_stopped = False  # something in it looks at signals
        self._budget = ""  # cell with the cycles that loops may run until they look
        self.cycles = 0.0  # estimate of one execution; infinite where loops and libraries hide it
        self.bound_constants: dict[str, int] = {}  # symbol -> constant number
        self.host_calls: list[HostCall] = []  # what the code calls by number
        self.w: FunctionWriter = writer.function("entry", _ARGUMENTS, result="i32")

    # -- addresses ---------------------------------------------------------------------------------

    def load_pointers(self, parameters: int, outputs: int) -> None:
        """Read all parameter and output addresses at the start: later code runs inside loops."""
        w = self.w
        self._loaded = {
            (name, i): w.load("ptr", w.gep("ptr", name, i))
            for name, count in (("%args", parameters), ("%outs", outputs))
            for i in range(count)
        }

    def pointer(self, place: BufferSlice) -> str:
        if place.kind is BufferKind.PARAMETER:
            return self._argument("%args", place.index)
        if place.kind is BufferKind.OUTPUT:
            return self._argument("%outs", place.index)
        if place.kind is BufferKind.TEMP:
            return self.w.gep("i8", "%arena", place.offset)
        data = self.assignment.constants[place.index]
        if data.nbytes <= _EMBEDDED_BYTES:
            return self.writer.constant_bytes(data.tobytes())
        symbol = f"pyjax_constant_{place.index}"
        if symbol not in self.bound_constants:
            self.bound_constants[symbol] = place.index
            self.writer.add(f"@{symbol} = external constant i8")
        return f"@{symbol}"

    def _argument(self, table: str, number: int) -> str:
        """An address from the entry's arguments; parts of the entry load it where they need it."""
        loaded = self._loaded.get((table, number))
        return loaded or self.w.load("ptr", self.w.gep("ptr", table, number))

    def address(self, node: Instruction, leaf: int = 0) -> str:
        """Address of an array leaf of an instruction."""
        place = self.place(node, leaf)
        return self.pointer(place)

    def place(self, node: Instruction, leaf: int = 0) -> BufferSlice:
        place = self.assignment.leaf_slices(node)[leaf]
        assert place is not None, f"{node!r} leaf {leaf} has no memory"
        return place

    def scratch(self, size: int) -> str:
        """Memory for one instruction, behind the arena of the buffer assignment."""
        return self.scratch_at(0, size)

    def scratch_at(self, offset: int, size: int) -> str:
        self.scratch_bytes = max(self.scratch_bytes, offset + aligned(size))
        return self.w.gep("i8", "%arena", aligned(self.assignment.temp_size) + offset)

    def copy_bytes(self, target: str, source: str, size: int) -> None:
        if size == 0 or target == source:
            return
        w = self.w
        self.writer.declare("llvm.memmove.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1"])
        w.line(
            f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)"
        )

    def check_status(self, status: str) -> None:
        """Return from the entry function if a call reported an error."""
        w = self.w
        failed, fine = w.new_label("failed"), w.new_label("fine")
        w.cond_br(w.cmp("ne", "i32", status, "0"), failed, fine, likely=False)
        w.label(failed)
        w.ret("i32", status)
        w.label(fine)

    # -- signals -----------------------------------------------------------------------------------

    def spend(self, cycles: float) -> None:
        """Account for code that was just written, and look at signals if there was much of it."""
        self.cycles += cycles
        self._unpolled += cycles
        if self._unpolled >= _POLL_CYCLES:
            self.poll()

    def poll(self) -> None:
        """Run pending signal handlers; the program ends if one raises."""
        self.can_be_stopped = True
        self.check_status(self.w.call("pyjax_poll", "i32"))
        self._unpolled = 0.0

    def _give_budget(self) -> None:
        """Loops of a function count down one cell together: a load, a store and a branch that is
        foreseen, once per round."""
        self._budget = ""
        if any(i.opcode is Opcode.WHILE for c in self.module.computations for i in c):
            self._budget = self.w.alloca("i64", 1, 8)
            self.w.store("i64", str(_POLL_CYCLES), self._budget)

    def round_ends(self) -> None:
        """The end of a loop's round, whose straight code cost `_unpolled`."""
        self.can_be_stopped = True
        w = self.w
        cost = max(8, min(int(self._unpolled), _POLL_CYCLES))
        left = w.isub(w.load("i64", self._budget), cost)
        w.store("i64", left, self._budget)
        look, go = w.new_label("look"), w.new_label("go")
        w.cond_br(w.cmp("slt", "i64", left, "0"), look, go, likely=False)
        w.label(look)
        w.store("i64", str(_POLL_CYCLES), self._budget)
        with w.scope():
            self.check_status(w.call("pyjax_poll", "i32"))
        w.br(go)
        w.label(go)

    # -- instructions ------------------------------------------------------------------------------

    def run_entry(self) -> None:
        entry = self.module.entry
        assert entry is not None and entry.root is not None
        parameters = sum(len(p.shape.flatten()) for p in entry.parameters)
        start = self.w.place()
        self._give_budget()
        self.load_pointers(parameters, len(entry.root.shape.flatten()))
        self.run_computation(entry)
        if not self.can_be_stopped:
            self.w.ret("i32", "0")
            return
        self.writer.declare("pyjax_poll_begin", "void", [])
        start.append("  call void @pyjax_poll_begin()")
        # Library kernels that were stopped say nothing themselves.
        self.w.ret("i32", self.w.call("pyjax_poll_end", "i32"))

    def run_computation(self, computation: Computation) -> None:
        nodes = [n for n in computation if n.opcode not in _NOTHING_TO_DO]
        if len(nodes) <= 2 * _PART_INSTRUCTIONS:
            self._run_all(nodes)
            return
        for start in range(0, len(nodes), _PART_INSTRUCTIONS):
            self._run_part(nodes[start : start + _PART_INSTRUCTIONS])

    def _run_part(self, nodes: Sequence[Instruction]) -> None:
        """A function of its own for some instructions; its status is the entry's."""
        caller = self.w, self._loaded, self._stack_scratch, self._budget
        name = f"part.{self.kernels.unique('part')}"
        self.w = self.writer.function(name, _ARGUMENTS, result="i32", internal=True)
        self._loaded, self._stack_scratch = {}, []
        self._give_budget()
        self._run_all(nodes)
        self.w.ret("i32", "0")
        self.w, self._loaded, self._stack_scratch, self._budget = caller
        self.check_status(self.w.call(name, "i32", [(ty, f"%{arg}") for ty, arg in _ARGUMENTS]))

    def _run_all(self, nodes: Sequence[Instruction]) -> None:
        for node in nodes:
            self.run(node)

    def run(self, node: Instruction) -> None:
        opcode = node.opcode
        if opcode in _NOTHING_TO_DO:
            return
        if opcode in _SAME_BYTES:
            self._copy(node)
            return
        rule = RULES.get(opcode)
        if opcode is Opcode.FUSION:
            assert isinstance(node.attributes, FusionAttributes)
            rule = FUSION_RULES.get(node.attributes.kind)
        if rule is not None:
            if opcode not in _COSTED:
                self.cycles = float("inf")
            rule(self, node)
            if opcode in _STOPPABLE:
                self.can_be_stopped = True
                self.spend(cycles_of(node))
        elif can_lower(node):
            self.run_kernel(node)
        else:
            raise UnimplementedError(
                f"{node!r}: the CPU backend cannot run {opcode}; rewrite it with supported "
                f"operations"
            )

    def _copy(self, node: Instruction) -> None:
        """Move the bytes, unless source and result share memory."""
        source = node.operands[0]
        targets = self.assignment.leaf_slices(node)
        for leaf, (target, shape) in enumerate(zip(targets, node.shape.flatten())):
            if target is None:
                continue
            origin = self.assignment.leaf_slices(source)[leaf]
            if origin != target and origin is not None:
                self.copy_bytes(self.pointer(target), self.pointer(origin), shape.byte_size)

    def run_kernel(self, node: Instruction) -> None:
        if all(s.num_elements == 0 for s in node.shape.flatten()):
            return
        compiled = self.kernels.get(node)
        pointers = self._kernel_pointers(node, compiled)
        for output, operand in compiled.kernel.in_place.items():
            source, target = self.place(node.operands[operand]), self.place(node, output)
            if source != target:
                self.copy_bytes(self.pointer(target), self.pointer(source), target.size)
        self.call_kernel(compiled, pointers)
        self.spend(compiled.cycles)

    def _kernel_pointers(self, node: Instruction, compiled: CompiledKernel) -> dict[Buffer, str]:
        pointers: dict[Buffer, str] = {}
        scratch = small = 0
        for buffer in compiled.kernel.buffers:
            if buffer.role is BufferRole.OPERAND:
                pointers[buffer] = self.address(node.operands[buffer.number])
            elif buffer.role is BufferRole.OUTPUT:
                pointers[buffer] = self.address(node, buffer.number)
            elif buffer.role is BufferRole.SCRATCH:
                size = buffer.size * buffer.element_type.byte_size
                if size <= _STACK_BYTES:
                    pointers[buffer] = self._small_scratch(small)
                    small += 1
                    continue
                pointers[buffer] = self.scratch_at(scratch, size)
                scratch += aligned(size)
        return pointers

    def _small_scratch(self, number: int) -> str:
        """A piece of the stack for one kernel."""
        while len(self._stack_scratch) <= number:
            self._stack_scratch.append(self.w.alloca("i8", _STACK_BYTES, _ALIGNMENT))
        return self._stack_scratch[number]

    def call_kernel(self, compiled: CompiledKernel, pointers: dict[Buffer, str]) -> None:
        w = self.w
        if compiled.stages is None:
            self.kernels.emit_inline(w, compiled.kernel, dict(pointers))
            return
        buffers = arguments_of(compiled.kernel)
        arguments = [("ptr", pointers[b]) for b in buffers]
        context = ""
        for stage in compiled.stages:
            if stage.blocks == 1:
                w.call(stage.name, "void", arguments)
                continue
            if not context:
                context = w.alloca("ptr", len(buffers), 8)
                for i, (_, pointer) in enumerate(arguments):
                    w.store("ptr", pointer, w.gep("ptr", context, i))
            if compiled.cycles < _LONG_KERNEL:
                self.parallel_for(stage.name, context, stage.blocks)
            else:
                arguments = [
                    ("ptr", f"@{stage.name}"),
                    ("ptr", context),
                    ("i64", str(stage.blocks)),
                ]
                w.call("pyjax_parallel_for_polled", "void", arguments)
                self.poll()  # before a later stage looks at what was not computed

    def parallel_for(self, function: str, context: str, blocks: int) -> None:
        arguments = [("ptr", f"@{function}"), ("ptr", context), ("i64", str(blocks))]
        if self.serial:
            self.writer.add_definitions(_SERIAL_FOR, ["pyjax.serial_for"])
            self.w.call("pyjax.serial_for", "void", arguments)
        else:
            self.w.call("pyjax_parallel_for", "void", arguments)


@runs(Opcode.WHILE)
def _while(driver: Driver, node: Instruction) -> None:
    condition, body = (node.called[0], node.called[1])
    w = driver.w
    before, driver._unpolled = driver._unpolled, 0.0

    def holds(_: list[str]) -> str:
        driver.run_computation(condition)
        assert condition.root is not None
        flag = w.load("i8", driver.address(condition.root))
        return w.cmp("ne", "i8", flag, "0")

    def round_(_: list[str]) -> list[str]:
        driver.run_computation(body)
        driver.round_ends()
        return []

    w.while_([], holds, round_)
    driver._unpolled += before


@runs(Opcode.CONDITIONAL)
def _conditional(driver: Driver, node: Instruction) -> None:
    w = driver.w
    branches = node.called
    selector = driver.address(node.operands[0])
    if not node.attributes.is_indexed:  # type: ignore[attr-defined]
        flag = w.cmp("ne", "i8", w.load("i8", selector), "0")
        _branch(driver, flag, branches[0], lambda: driver.run_computation(branches[1]))
        return
    number = w.load("i32", selector)

    def choose(i: int) -> None:
        if i == len(branches) - 1:  # also for numbers out of range
            driver.run_computation(branches[i])
            return
        _branch(driver, w.cmp("eq", "i32", number, str(i)), branches[i], lambda: choose(i + 1))

    choose(0)


def _branch(
    driver: Driver, condition: str, then: Computation, otherwise: Callable[[], None]
) -> None:
    before = driver._unpolled

    def first() -> list[str]:
        driver.run_computation(then)
        return []

    def second() -> list[str]:
        after_first, driver._unpolled = driver._unpolled, before
        otherwise()
        driver._unpolled = max(driver._unpolled, after_first)
        return []

    driver.w.if_else(condition, [], first, second)


@runs(Opcode.CALL)
def _call(driver: Driver, node: Instruction) -> None:
    driver.run_computation(node.called[0])


def cycles_of(node: Instruction) -> float:
    """Rough cycles of a library kernel."""
    cost = CostAnalysis().instruction(node)
    return (cost.flops + cost.transcendentals + cost.bytes_accessed) / _WORK_PER_CYCLE


def aligned(size: int) -> int:
    """Rounded up to the alignment of arena slices."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT
