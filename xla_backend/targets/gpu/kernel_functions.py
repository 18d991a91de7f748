"""The functions of kernels in an LLVM module for NVPTX: one for each stage, as it is launched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xla_backend.codegen.indices import is_narrow
from xla_backend.kernels.ir import (
    HANDOVERS,
    BoxCopy,
    BoxedArray,
    Buffer,
    BufferRole,
    Kernel,
    Loop,
    Statement,
    accessed,
    walk,
)
from xla_backend.kernels.lines import PIECE
from xla_backend.llvm.types import memory_type
from xla_backend.llvm.writer import FunctionWriter, ModuleWriter
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.program.ir import Launch, Program, all_steps, launched_buffers
from xla_backend.targets.gpu.access import WIDEST, pointer_type
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.emitter import KernelEmitter
from xla_backend.targets.gpu.group_code import TensorMap
from xla_backend.targets.gpu.schedule.stages import is_pure, threads_of

# What loads of memory that nobody writes refer to; the writer's own metadata are 0 and 1.
_EMPTY_METADATA = "!2 = !{}"
# Of a parameter that holds what the host made of an array: it stays where the launch put it.
_MAP = 'ptr byval([128 x i8]) align 64 "nvvm.grid_constant"'
_OWN_MEMORY = (BufferRole.LOCAL, BufferRole.REGISTERS)


@dataclass(frozen=True, slots=True)
class LaunchFunction:
    """One function of a kernel, and how it is launched.

    It takes the addresses of the kernel's `launched_buffers`, in order, each a multiple of 16; then
    its parameters, as integers of 64 bits; then what the host makes of its `maps`, 128 bytes each.

    Fields:
      name: in the module.  kernel: the kernel's.
      blocks, threads: how many, along x; exactly so many.
      shared_bytes: of shared memory of a block.
      dynamic_shared: those of them that the launch has to ask for: none or all.
      maps: arrays of which boxes are copied.
    """

    name: str
    kernel: str
    blocks: int
    threads: int
    shared_bytes: int
    dynamic_shared: int
    maps: tuple[TensorMap, ...] = ()


Sharing = Mapping[str, frozenset[int]]


def shared_operands(program: Program) -> Sharing:
    """By kernel, the operands whose memory some launch of it writes."""
    found: dict[str, set[int]] = {}
    for steps in (program.steps, *program.procedures.values()):
        for step in all_steps(steps):
            if isinstance(step, Launch):
                found.setdefault(step.kernel, set()).update(k for _, k in step.in_place)
    return {name: frozenset(numbers) for name, numbers in found.items()}


class KernelFunctions:
    """Emits kernels into a module; each once."""

    def __init__(self, module: ModuleWriter, architecture: Architecture, sharing: Sharing) -> None:
        """`sharing`: see `shared_operands`; of kernels that are not there, all operands are taken
        to be written."""
        self.module = module
        self.architecture = architecture
        self._sharing = sharing
        self._constants: dict[tuple[bytes, str], str] = {}
        self.functions: dict[str, tuple[LaunchFunction, ...]] = {}
        module.add(_EMPTY_METADATA)

    def launches(self, kernel: Kernel) -> tuple[LaunchFunction, ...]:
        """The functions of a kernel, to be launched one after another."""
        found = self.functions.get(kernel.name)
        if found is None:
            found = self.functions[kernel.name] = tuple(self._emit(kernel))
        return found

    def _emit(self, kernel: Kernel) -> Iterable[LaunchFunction]:
        common = [s for s in kernel.stages if is_pure(s)]
        stages = [s for s in kernel.stages if isinstance(s, Loop)]
        assert len(common) + len(stages) == len(kernel.stages), f"{kernel.name} is not scheduled"
        for number, stage in enumerate(stages):
            name = f"kernel_{kernel.name}" + (f"_stage{number}" if len(stages) > 1 else "")
            yield self._function(name, kernel, common, stage)

    def _function(
        self, name: str, kernel: Kernel, common: Sequence[Statement], stage: Loop
    ) -> LaunchFunction:
        threads = threads_of(stage).var.extent
        buffers = launched_buffers(kernel)
        alone = self._alone(kernel)
        parameters = [(_parameter_type(b, b in alone), b.name) for b in buffers]
        parameters += [("i64", p.name) for p in kernel.parameters]
        maps = boxed_arrays(stage)
        parameters += [(_MAP, _map_name(number)) for number in range(len(maps))]
        attributes = f'"nvvm.reqntid"="{threads}"'
        w = self.module.function(name, parameters, "ptx_kernel void", attributes=attributes)
        w.index = "i32" if is_narrow([*common, stage]) else "i64"
        used = used_buffers([*common, stage])
        pointers = {b: f"%{b.name}" for b in buffers}
        pointers |= self.own_pointers(w, used)
        shared = [b for b in kernel.buffers if b in used and b.role is BufferRole.SHARED]
        whole = {s.target for s in walk([stage]) if isinstance(s, BoxCopy)}
        shared.sort(key=lambda b: b not in whole)  # pieces lie one after another
        align = PIECE if whole else WIDEST
        total, dynamic = self.shared_memory(name, [shared], pointers, align)
        invariant = frozenset(
            b
            for b in used
            if b.role is BufferRole.CONSTANT or (b.role is BufferRole.OPERAND and b in alone)
        )
        emitter = KernelEmitter(w, pointers, invariant, self.architecture)
        emitter.maps = {key: f"%{_map_name(number)}" for number, key in enumerate(maps)}
        for parameter in kernel.parameters:
            emitter.vars[parameter] = w.as_index("i64", f"%{parameter.name}")
        emitter.emit([*common, stage])
        w.ret()
        made = tuple(
            TensorMap(buffers.index(buffer), buffer.element_type, array) for buffer, array in maps
        )
        return LaunchFunction(name, kernel.name, stage.var.extent, threads, total, dynamic, made)

    def _alone(self, kernel: Kernel) -> set[Buffer]:
        """Buffers whose memory none of the others has that are written, nor threads of other blocks
        that are waited for."""
        shared = self._sharing.get(kernel.name)
        handed = {b for s in walk(kernel.stages) if isinstance(s, HANDOVERS) for b in accessed(s)}
        own = {b for b in kernel.buffers if b.role is BufferRole.SCRATCH and not handed}
        if shared is None:
            return own
        if not shared:
            return {b for b in kernel.buffers if b.role is not BufferRole.SCRATCH} | own
        # Which output it is differs from launch to launch.
        operands = {b for b in kernel.buffers if b.role is BufferRole.OPERAND}
        return {b for b in operands if b.number not in shared} | own

    # -- memory ------------------------------------------------------------------------------------

    def own_pointers(self, w: FunctionWriter, used: set[Buffer]) -> dict[Buffer, str]:
        """Addresses of what the caller does not provide and blocks do not share."""
        pointers = {}
        for buffer in sorted(used, key=lambda b: b.name):
            if buffer.role is BufferRole.CONSTANT:
                pointers[buffer] = self._constant(buffer)
            elif buffer.role in _OWN_MEMORY:
                stored = memory_type(buffer.element_type)
                pointers[buffer] = w.alloca(stored, buffer.size, WIDEST)
        return pointers

    def _constant(self, buffer: Buffer) -> str:
        assert buffer.data is not None
        data = buffer.data.tobytes()
        key = (data, memory_type(buffer.element_type))
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"@constant_{len(self._constants)}"
            text = "".join(f"\\{byte:02X}" for byte in data)
            self.module.add(
                f"{name} = internal addrspace(1) constant [{len(data)} x i8] "
                f'c"{text}", align {WIDEST}'
            )
        return name

    def shared_memory(
        self,
        function: str,
        groups: Sequence[Sequence[Buffer]],
        pointers: dict[Buffer, str],
        align: int = WIDEST,
    ) -> tuple[int, int]:
        """Give shared buffers their memory, the same to each group; (bytes in all, bytes that the
        launch asks for). It begins at a multiple of `align`."""
        sizes = {b: _whole(b.size * b.element_type.byte_size) for group in groups for b in group}
        total = max((sum(sizes[b] for b in group) for group in groups), default=0)
        architecture = self.architecture
        if total > architecture.shared_per_block:
            raise SharedMemoryError(
                f"a block of {function!r} shares {total} bytes, and {architecture.name} has "
                f"{architecture.shared_per_block}"
            )
        if not sizes:
            return 0, 0
        # What begins at the start of dynamic memory has no name of its own; of more than a launch
        # may take without asking, all is dynamic.
        dynamic = total > architecture.static_shared
        name = f"@{function}_shared"
        if dynamic:
            self.module.add(f"{name} = external addrspace(3) global [0 x i8], align {align}")
        else:
            self.module.add(
                f"{name} = internal addrspace(3) global [{total} x i8] poison, align {align}"
            )
        for group in groups:
            place = 0
            for buffer in group:
                pointers[buffer] = name if not place else _inside(name, total, place)
                place += sizes[buffer]
        return total, total if dynamic else 0


def _whole(size: int) -> int:
    """Bytes rounded up to whole accesses of the widest kind."""
    return -(-size // WIDEST) * WIDEST


def _inside(name: str, size: int, place: int) -> str:
    return f"getelementptr inbounds (i8, ptr addrspace(3) {name}, i64 {place})"


def _map_name(number: int) -> str:
    return f"map{number}"


def boxed_arrays(stage: Loop) -> list[tuple[Buffer, BoxedArray]]:
    """The arrays of which a stage copies boxes, each once."""
    copies = (s for s in walk([stage]) if isinstance(s, BoxCopy))
    return list(dict.fromkeys((s.buffer, s.array) for s in copies))


class SharedMemoryError(RuntimeError):
    """A kernel's block wants more shared memory than the architecture has."""


def _parameter_type(buffer: Buffer, alone: bool) -> str:
    attributes = ["align", str(WIDEST)]
    if buffer.role is BufferRole.OPERAND:
        attributes.append("readonly")
    if alone:
        attributes.append("noalias")
    return f"{pointer_type(buffer)} {' '.join(attributes)}"


def used_buffers(statements: Sequence[Statement]) -> set[Buffer]:
    """The buffers that statements access, and those inside them."""
    return {buffer for s in walk(list(statements)) for buffer in accessed(s)}
