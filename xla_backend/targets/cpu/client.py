"""The `cpu` platform: generated machine code on this host."""

from __future__ import annotations

import ctypes
import platform
import struct
from collections.abc import Callable, Sequence

from xla_backend.compile_options import CompileOptions
from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.passes.base import pass_report
from xla_backend.program.printer import program_to_text
from xla_backend.runtime.client import Device
from xla_backend.runtime.executable import LoadedExecutable
from xla_backend.runtime.hlo_client import HloClient
from xla_backend.runtime.memory import POOL
from xla_backend.runtime.recording import RecordingExecutable
from xla_backend.runtime.target_code import TargetCode
from xla_backend.targets.cpu.compiler import compile_module
from xla_backend.targets.cpu.dynamic import DynamicExecutable, NotElementwise, compile_elementwise
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.routines.contracts import ROUTINES
from xla_backend.targets.cpu.target_code import make_target_code

# `i32 entry(ptr args, ptr outs, ptr arena)`; bytes objects holding packed addresses are passed as
# they are.
_SIGNATURE = (ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p)


class CpuLoadedExecutable(LoadedExecutable):
    """A native program with its packed calling convention.

    `call(args, outs)` takes packed addresses (`pack_arguments(*addresses)`); it is the fast way in.
    """

    def __init__(self, executable: CpuExecutable) -> None:
        self.executable = executable
        self.module = executable.module
        self.parameter_shapes = executable.parameter_shapes
        self.output_shapes = executable.output_shapes
        self.aliases = executable.aliases
        self.held_bytes = executable.held_bytes
        self.temp_size = executable.temp_size
        self.code_bytes = executable.code_bytes
        self.pack_arguments = struct.Struct(f"{len(self.parameter_shapes)}P").pack
        self.pack_outputs = struct.Struct(f"{len(self.output_shapes)}P").pack
        # Releasing the interpreter lock costs more than a tiny program runs for.
        self._entry = executable.library.function(
            "entry", *_SIGNATURE, keeps_gil=executable.is_tiny
        )
        self.call = self._with_arena() if executable.temp_size else self._without_arena()

    def _without_arena(self) -> Callable[[bytes, bytes], None]:
        entry, fail = self._entry, self.executable.raise_error

        def call(arguments: bytes, outputs: bytes) -> None:
            status = entry(arguments, outputs, None)
            if status:
                fail(status)

        return call

    def _with_arena(self) -> Callable[[bytes, bytes], None]:
        entry, fail = self._entry, self.executable.raise_error
        memory = POOL.size_class(self.executable.temp_size)
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

    def run(self, arguments: Sequence[int], outputs: Sequence[int]) -> None:
        self.call(self.pack_arguments(*arguments), self.pack_outputs(*outputs))

    def texts(self) -> dict[str, str]:
        loops = "\n\n".join(self.executable.loop_ir.values())
        return {
            "hlo": module_to_text(self.module),
            "program": program_to_text(self.executable.program, ROUTINES),
            "loops": loops,
            "llvm": self.executable.llvm_ir,
        }

    def kernels(self) -> list[EmittedKernel]:
        return self.executable.emitted_kernels

    def pass_report(self) -> str:
        return pass_report(self.executable.pass_log)


# Elementwise programs run on one thread up to about this much work (20 us).
_SERIAL_CYCLES = 60_000
_ELEMENTWISE_SIGNATURE = (ctypes.c_int32, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64)


class CpuElementwiseExecutable(LoadedExecutable):
    """An elementwise program at one length; all lengths share its native code."""

    held_bytes = 1 << 13

    def __init__(self, dynamic: DynamicExecutable, n: int) -> None:
        self.dynamic = dynamic
        self.module = dynamic.module
        self.parameter_shapes = dynamic.parameter_shapes
        self.output_shapes = dynamic.output_shapes
        self.pack_arguments = struct.Struct(f"{len(self.parameter_shapes)}P").pack
        self.pack_outputs = struct.Struct(f"{len(self.output_shapes)}P").pack
        entry = dynamic.library.function("entry_n", *_ELEMENTWISE_SIGNATURE, keeps_gil=True)
        self.call = lambda arguments, outputs: entry(arguments, outputs, n)

    def run(self, arguments: Sequence[int], outputs: Sequence[int]) -> None:
        self.call(self.pack_arguments(*arguments), self.pack_outputs(*outputs))


class CpuClient(HloClient):
    platform = "cpu"

    def __init__(self, device_count: int = 1) -> None:
        self.platform_version = f"pyjax cpu ({platform.machine()})"
        kind = platform.processor() or platform.machine() or "cpu"
        self._devices = [Device(self, i, kind) for i in range(device_count)]

    def devices(self) -> list[Device]:
        return self._devices

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        executable = compile_module(module, options)
        loaded = CpuLoadedExecutable(executable)
        if executable.recorder is None:
            return loaded
        return RecordingExecutable(loaded, executable.recorder)

    def emit(self, module: HloModule, options: CompileOptions) -> TargetCode:
        return make_target_code(module, options)

    def compile_elementwise(
        self, module: HloModule, options: CompileOptions
    ) -> Callable[[int], LoadedExecutable | None] | None:
        try:
            dynamic = compile_elementwise(module, options)
        except NotElementwise:
            return None
        limit = _SERIAL_CYCLES / max(dynamic.cycles_per_element, 1e-3)
        return lambda n: CpuElementwiseExecutable(dynamic, n) if n <= limit else None

    def memory_stats(self, device: Device) -> dict[str, int]:
        return POOL.stats()  # devices of the host share its memory
