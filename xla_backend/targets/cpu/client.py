"""The `cpu` platform: generated machine code on this host."""

from __future__ import annotations

import platform
from collections.abc import Callable, Hashable, Sequence

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.attributes import CustomCallAttributes
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.fingerprint import module_fingerprint
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.process.bounded_cache import InternTable
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.client import Device, LoadedExecutable
from xla_backend.runtime.custom_calls import find_custom_call
from xla_backend.runtime.hlo_client import HloClient
from xla_backend.runtime.memory import POOL
from xla_backend.runtime.processes.joined import Joined, joined
from xla_backend.runtime.target_code import TargetCode
from xla_backend.targets.cpu.data_movement import find_movement
from xla_backend.targets.cpu.elementwise_code import NotElementwise
from xla_backend.targets.cpu.kept_programs import (
    find_elementwise,
    find_program,
    find_size_classes,
    find_without_module,
)
from xla_backend.targets.cpu.movement_executable import MovementExecutable
from xla_backend.targets.cpu.work_queue import reap
from xla_backend.user_passes import user_passes

_CPU = "xla_backend.targets.cpu"
_compile_sized = on_first_use(f"{_CPU}.run_time_sizes", "compile_sized")
_load_serialized = on_first_use(f"{_CPU}.serialized_programs", "load_serialized")
_make_target_code = on_first_use(f"{_CPU}.target_code", "make_target_code")
_serialize_program = on_first_use(f"{_CPU}.serialized_programs", "serialize_program")

# Numbers of devices tell their processes apart.
_DEVICES_OF_A_PROCESS = 2048
# Elementwise programs run on one thread up to about this much work (20 us).
_SERIAL_CYCLES = 60_000


class CpuClient(HloClient):
    platform = "cpu"
    # One memory, by the names of those that other devices have.
    memory_kinds = ("device", "pinned_host", "unpinned_host")

    def __init__(self, device_count: int = 1, seconds: float = 300) -> None:
        """
        Args:
          device_count: of this process; others that it has joined have their own.
          seconds: to wait for those.
        """
        self.platform_version = f"pyjax cpu ({platform.machine()})"
        shared = joined()
        self._process = 0 if shared is None else shared.world.index
        counts = [device_count] if shared is None else _counts(shared, device_count, seconds)
        self._devices = [
            self._device(process, number)
            for process, count in enumerate(counts)
            for number in range(count)
        ]
        self._local = [device for device in self._devices if device.is_here]
        # Callers know programs by device; the code is the same on all of them, and is found here as
        # long as one of them has it.
        self._executables: InternTable[Hashable, LoadedExecutable] = InternTable()

    def _device(self, process: int, number: int) -> Device:
        device = Device(self, process * _DEVICES_OF_A_PROCESS + number, "cpu")
        device.process_index = process
        device.local_hardware_id = number if process == self._process else None
        return device

    def devices(self) -> list[Device]:
        return self._devices

    def process_index(self) -> int:
        return self._process

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        # Who measures runs counts those of his own.
        if len(self._devices) == 1 or options.dump is not None or options.profiled_runs:
            return self._find(module, options)
        key = _identity(module, options._replace(first_code=False))
        found = self._executables.find(key)
        if found is not None:
            if not options.first_code:
                found.await_optimised()
            return found
        return self._executables.intern(key, self._find(module, options))

    def find_without_module(
        self, source: ModuleSource, options: CompileOptions
    ) -> LoadedExecutable | None:
        # Devices share code, which is found by the module.
        if len(self._devices) > 1:
            return None
        return find_without_module(source, options, self._local[0])

    def compile_source(self, source: ModuleSource, options: CompileOptions) -> LoadedExecutable:
        if len(self._devices) > 1:
            return self.compile(source.module, options)
        return find_program(source, options, self._local[0])

    def _find(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        content = ""
        shared = joined()
        if module.num_partitions > 1 and shared is not None:
            content = module_fingerprint(module, pointers=False, objects=[])
            options = options._replace(processes=shared.world.count)
        executable = find_program(ModuleSource.of(module), options, self._local[0])
        executable.content = content
        return executable

    def emit(self, module: HloModule, options: CompileOptions) -> TargetCode:
        return _make_target_code(module, options)

    def compile_elementwise(
        self, source: ModuleSource, options: CompileOptions, *, at_hand: bool = False
    ) -> Callable[[int], LoadedExecutable | None] | None:
        try:
            code = find_elementwise(source, options, at_hand=at_hand)
        except NotElementwise:
            return None
        limit = _SERIAL_CYCLES / max(code.cycles_per_element, 1e-3)
        return lambda n: code.at(n, self._local[0]) if n <= limit else None

    def compile_size_classes(
        self,
        source: ModuleSource,
        stand_ins: Sequence[int],
        options: CompileOptions,
        *,
        at_hand: bool = False,
    ) -> Callable[..., LoadedExecutable | None] | None:
        try:
            classes = find_size_classes(source, stand_ins, options, at_hand=at_hand)
        except UnimplementedError:
            return None
        device = self._local[0]
        return lambda sizes, at_hand=False: classes.at(sizes, device, at_hand=at_hand)

    def find_movement(self, module: HloModule) -> LoadedExecutable | None:
        movement = find_movement(module)
        return None if movement is None else MovementExecutable(module, movement, self._local[0])

    def compile_sized(
        self, module: HloModule, sizes: Sequence[int], options: CompileOptions
    ) -> Callable[[Sequence[int]], LoadedExecutable]:
        code = _compile_sized(module, sizes, options)
        return lambda values: code.at(values, self._local[0])

    def serialize_program(self, module: HloModule, options: CompileOptions) -> bytes:
        return _serialize_program(module, options, self._local[0])

    def load_program(
        self, content: bytes, module: HloModule, options: CompileOptions
    ) -> LoadedExecutable:
        return _load_serialized(content, module, options, self._local[0])

    def memory_stats(self, device: Device) -> dict[str, int]:
        reap()
        return POOL.stats()  # devices of the host share its memory


def _counts(shared: Joined, own: int, seconds: float) -> list[int]:
    """How many devices each process has."""
    if own > _DEVICES_OF_A_PROCESS:
        raise ValueError(
            f"{own} devices; each of several processes has {_DEVICES_OF_A_PROCESS} at most"
        )
    kind = "the first use of devices, which all processes are to make"
    parts = shared.exchanges.gatherings.gather(own, kind=kind, seconds=seconds)
    return [part.label for part in parts]


def _identity(module: HloModule, options: CompileOptions) -> Hashable:
    """Equal for compilations that make the same code."""
    objects: list[Hashable] = []
    computed = module_fingerprint(module, metadata=True, objects=objects)
    targets = {
        node.attributes.target
        for computation in module.computations
        for node in computation.instructions
        if isinstance(node.attributes, CustomCallAttributes)
    }
    functions = tuple((target, find_custom_call(target)) for target in sorted(targets))
    return module.name, computed, tuple(objects), options, functions, user_passes()
