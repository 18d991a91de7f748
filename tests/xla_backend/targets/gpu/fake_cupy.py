"""A stand-in for the parts of CuPy that the `cuda` platform uses, on machines without a GPU.

Device memory is NumPy bytes at made-up addresses; who reads outside an allocation loses the device,
as on hardware. Streams really lag behind: work waits in a queue until somebody synchronises, and
each query of an event does one piece of it. Kernels run in the kernel interpreter, by what
`known_functions` says of the functions of loaded code.

`install(monkeypatch, gpus)` puts it in CuPy's place, and a driver that has the same GPUs.
"""

from __future__ import annotations

import bisect
import ctypes
import importlib.machinery
import itertools
import re
import sys
import threading
import types
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_tensor_maps
from tests.xla_backend.targets.gpu.fake_cublas import FakeCublas, fake_library
from tests.xla_backend.targets.gpu.fake_nccl import FakeNccl
from tests.xla_backend.targets.gpu.fake_solvers import FakeCusolver
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import Kernel, Loop
from xla_backend.program.ir import Program, Resident, launched_buffers
from xla_backend.program.stepper import Stepper
from xla_backend.targets.gpu.cuda import availability, cublas_library, driver, tensor_maps
from xla_backend.targets.gpu.cuda.communicators import load_nccl
from xla_backend.targets.gpu.cuda.cupy_library import load_cupy, load_library
from xla_backend.targets.gpu.kernel_functions import boxed_arrays

SUCCESS, INVALID, OUT_OF_MEMORY, CONFIGURATION, NOT_READY = 0, 1, 2, 9, 600
INVALID_DEVICE, BAD_PTX, NEW_PTX, NO_ENTRY = 101, 218, 222, 500
ILLEGAL_ADDRESS, TOO_LARGE, TOGETHER_TOO_LARGE, CAPTURING = 700, 701, 720, 900
_GARBAGE = 0xA5
_MULTIPROCESSORS = 132
_NAMES = {
    1: "cudaErrorInvalidValue: invalid argument",
    2: "cudaErrorMemoryAllocation: out of memory",
    9: "cudaErrorInvalidConfiguration: invalid configuration argument",
    101: "cudaErrorInvalidDevice: invalid device ordinal",
    218: "CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed",
    222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled with an unsupported "
    "toolchain.",
    500: "CUDA_ERROR_NOT_FOUND: named symbol not found",
    700: "cudaErrorIllegalAddress: an illegal memory access was encountered",
    701: "cudaErrorLaunchOutOfResources: too many resources requested for launch",
    720: "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: too many blocks in cooperative launch",
    900: "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing",
}


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(_NAMES.get(status, f"cudaErrorUnknown: {status}"))


class CUDADriverError(CUDARuntimeError):
    pass


class OutOfMemoryError(MemoryError):
    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        super().__init__(f"Out of memory allocating {size} bytes (allocated so far: {total} bytes)")


@dataclass
class FakeGpu:
    """One GPU, and what happened to it: `counts` has launches, copies and graphs by name."""

    number: int
    name: str = "NVIDIA H200"
    capability: tuple[int, int] = (9, 0)
    memory_bytes: int = 1 << 30
    blocks: dict[int, np.ndarray] = field(default_factory=dict)
    status: int = SUCCESS
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._next = (self.number + 1) << 40
        self.streams: list[Stream] = []

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def used(self) -> int:
        return sum(block.size for block in self.blocks.values())

    def malloc(self, nbytes: int) -> int:
        if any(stream.capture is not None for stream in self.streams):
            raise CUDARuntimeError(CAPTURING)
        if self.used() + nbytes > self.memory_bytes:
            raise CUDARuntimeError(OUT_OF_MEMORY)
        address = self._next
        self._next += nbytes + 4096
        self.blocks[address] = np.full(nbytes, _GARBAGE, np.uint8)
        return address

    def view(self, address: int, nbytes: int) -> np.ndarray:
        """Bytes at an address; the device is lost where there are none."""
        starts = sorted(self.blocks)
        place = bisect.bisect_right(starts, address) - 1
        if place >= 0:
            start = starts[place]
            if address + nbytes <= start + self.blocks[start].size:
                return self.blocks[start][address - start : address - start + nbytes]
        self.status = ILLEGAL_ADDRESS
        raise CUDARuntimeError(ILLEGAL_ADDRESS)

    def check(self) -> None:
        if self.status:
            raise CUDARuntimeError(self.status)


@dataclass
class Functions:
    """What entry points stand for: a kernel and the number of its stage, or a resident step of a
    program and the pieces of memory that it takes."""

    stages: dict[str, tuple[Kernel, int]] = field(default_factory=dict)
    residents: dict[str, tuple[Program, Resident, Any]] = field(default_factory=dict)


# Of each text that was generated: several programs have functions of one name.
known_texts: dict[str, Functions] = {}
GPUS: list[FakeGpu] = []
known_functions = Functions()
_local = threading.local()
_numbers = itertools.count(1)
_objects: dict[int, Any] = {}  # what handles stand for
_stepping = threading.RLock()  # devices do their work in whatever thread looks at them
_kept: list[Any] = []  # page-locked memory, so that a late copy finds some


def _current() -> FakeGpu:
    return GPUS[getattr(_local, "device", 0)]


def _handle(thing: Any) -> int:
    number = next(_numbers)
    _objects[number] = thing
    return number


# -- devices ---------------------------------------------------------------------------------------


class Device:
    def __init__(self, device: int | None = None) -> None:
        self.id = _current().number if device is None else int(device)

    @property
    def cublas_handle(self) -> int:
        return 1000 + self.id

    @property
    def cusolver_handle(self) -> int:
        return 2000 + self.id

    def __enter__(self) -> Device:
        if not 0 <= self.id < len(GPUS):
            raise CUDARuntimeError(INVALID_DEVICE)
        stack = _local.__dict__.setdefault("devices", [])
        stack.append(getattr(_local, "device", 0))
        _local.device = self.id
        return self

    def __exit__(self, *_: Any) -> None:
        _local.device = _local.devices.pop()

    @property
    def mem_info(self) -> tuple[int, int]:
        gpu = GPUS[self.id]
        return gpu.memory_bytes - gpu.used(), gpu.memory_bytes

    def synchronize(self) -> None:
        for stream in GPUS[self.id].streams:
            stream.synchronize()


# -- streams, events, graphs -----------------------------------------------------------------------


class Event:
    def __init__(self, block: bool = False, disable_timing: bool = False) -> None:
        self.ptr = _handle(self)
        self.stream: Stream | None = None
        self.over = True

    def record(self, stream: Stream | None = None) -> None:
        stream = stream or get_current_stream()
        self.stream, self.over = stream, False

        def reached() -> None:
            self.over = True

        stream.put(reached)

    def synchronize(self) -> None:
        assert self.stream is not None
        if self.stream.capture is not None:
            raise CUDARuntimeError(CAPTURING)
        while not self.over:
            self.stream.step()
        self.stream.gpu.check()

    @property
    def done(self) -> bool:
        return runtime.eventQuery(self.ptr) == SUCCESS


class _Awaited:
    """A stream's waiting for another one."""

    def __init__(self, event: Event) -> None:
        self.event = event

    def blocked(self) -> bool:
        if not self.event.over and self.event.stream is not None:
            self.event.stream.step_aside()
        return not self.event.over

    def __call__(self) -> None:
        pass


class Stream:
    def __init__(self, null: bool = False, non_blocking: bool = False) -> None:
        self.gpu = _current()
        self.gpu.streams.append(self)
        self.queue: list[Callable[[], None]] = []
        self.capture: list[Callable[[], None]] | None = None
        self.ptr = _handle(self)

    def __enter__(self) -> Stream:
        if _current() is not self.gpu:
            raise RuntimeError("the stream is on another device than the current one")
        _local.__dict__.setdefault("streams", []).append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        assert _local.streams.pop() is self

    def put(self, work: Callable[[], None]) -> None:
        self.gpu.check()
        (self.queue if self.capture is None else self.capture).append(work)

    def step(self) -> None:
        """Do one piece of work; after an error there is none any more. One that is `blocked` waits
        for others."""
        with _stepping:
            self.gpu.check()
            if self.queue:
                blocked = getattr(self.queue[0], "blocked", None)
                try:
                    if blocked is None or not blocked():
                        self.queue.pop(0)()
                except CUDARuntimeError:
                    self.queue.clear()
                    raise

    def step_aside(self) -> None:
        """Do one while another stream waits; an error is this device's."""
        with suppress(CUDARuntimeError):
            self.step()

    def synchronize(self) -> None:
        if self.capture is not None:
            raise CUDARuntimeError(CAPTURING)
        while self.queue:
            self.step()
        self.gpu.check()

    @property
    def done(self) -> bool:
        return runtime.streamQuery(self.ptr) == SUCCESS

    def wait_event(self, event: Event) -> None:
        self.put(_Awaited(event))

    def begin_capture(self, mode: int | None = None) -> None:
        assert self.capture is None
        self.capture = []

    def end_capture(self) -> Graph:
        assert self.capture is not None
        work, self.capture = self.capture, None
        self.gpu.count("captures")
        return Graph(work)


class Graph:
    def __init__(self, work: list[Callable[[], None]]) -> None:
        self.work = work

    def launch(self, stream: Stream | None = None) -> None:
        stream = stream or get_current_stream()
        stream.gpu.count("graph launches")
        for piece in self.work:
            stream.put(piece)


def get_current_stream() -> Stream:
    streams = getattr(_local, "streams", [])
    assert streams, "no stream is entered"
    return streams[-1]


# -- memory ----------------------------------------------------------------------------------------


class _Pooled:
    """Memory of a pool, which gets it back when this goes."""

    def __init__(self, pool: MemoryPool, gpu: FakeGpu, address: int, size: int) -> None:
        self.pool, self.gpu, self.ptr, self.size = pool, gpu, address, size
        self.device_id = gpu.number

    def __del__(self) -> None:
        self.pool.give_back(self.gpu, self.ptr, self.size)


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        self.ptr, self.size, self.owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset
        self.device_id = mem.device_id


class MemoryPool:
    def __init__(self) -> None:
        self.free: dict[tuple[int, int], list[int]] = {}
        self.limits: dict[int, int] = {}
        self.used: dict[int, int] = {}

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        gpu = _current()
        self.limits[gpu.number] = size or int(gpu.memory_bytes * (fraction or 0))

    def get_limit(self) -> int:
        return self.limits.get(_current().number, 0)

    def malloc(self, size: int) -> MemoryPointer:
        gpu = _current()
        get_current_stream()  # whose list of free memory it is taken from
        rounded = -(-size // 512) * 512
        if not rounded:
            return MemoryPointer(types.SimpleNamespace(ptr=0, device_id=gpu.number), 0)
        listed = self.free.setdefault((gpu.number, rounded), [])
        if listed:
            address = listed.pop()
        else:
            address = self._from_device(gpu, rounded)
        self.used[gpu.number] = self.used.get(gpu.number, 0) + rounded
        return MemoryPointer(_Pooled(self, gpu, address, rounded), 0)

    def _from_device(self, gpu: FakeGpu, size: int) -> int:
        limit = self.limits.get(gpu.number, 0)
        for last in (False, True):
            try:
                if limit and self.total_bytes() + size > limit:
                    raise CUDARuntimeError(OUT_OF_MEMORY)
                return gpu.malloc(size)
            except CUDARuntimeError as error:
                if error.status != OUT_OF_MEMORY:
                    raise
                if last:
                    raise OutOfMemoryError(size, self.total_bytes(), limit) from None
                self.free_all_blocks()
        raise AssertionError

    def give_back(self, gpu: FakeGpu, address: int, size: int) -> None:
        self.used[gpu.number] -= size
        self.free.setdefault((gpu.number, size), []).append(address)

    def free_all_blocks(self) -> None:
        gpu = _current()
        for stream in gpu.streams:  # cudaFree waits
            if stream.capture is not None:
                raise CUDARuntimeError(CAPTURING)
            stream.synchronize()
        for (number, _), listed in self.free.items():
            if number == gpu.number:
                for address in listed:
                    del gpu.blocks[address]
                listed.clear()

    def used_bytes(self) -> int:
        return self.used.get(_current().number, 0)

    def total_bytes(self) -> int:
        number = _current().number
        free = sum(size * len(found) for (n, size), found in self.free.items() if n == number)
        return self.used_bytes() + free


def _spoil(memory: Any) -> None:
    ctypes.memset(memory.ptr, _GARBAGE, len(memory))


class PinnedMemoryPool:
    """Others write to page-locked memory as soon as nobody holds it."""

    def malloc(self, size: int) -> Any:
        storage = np.full(size, _GARBAGE, np.uint8)
        _kept.append(storage)
        members = {"_type_": ctypes.c_uint8, "_length_": size, "__del__": _spoil}
        pointer: Any = type("PinnedMemoryPointer", (ctypes.Array,), members)
        memory = pointer.from_address(storage.ctypes.data)
        memory.ptr = storage.ctypes.data
        return memory


class _Runtime(types.SimpleNamespace):
    memcpyHostToDevice = 1
    memcpyDeviceToHost = 2
    memcpyDeviceToDevice = 3

    @staticmethod
    def getDeviceCount() -> int:
        return len(GPUS)

    @staticmethod
    def getDeviceProperties(number: int) -> dict[str, Any]:
        if not 0 <= number < len(GPUS):
            raise CUDARuntimeError(INVALID_DEVICE)
        gpu = GPUS[number]
        return {
            "name": gpu.name.encode(),
            "major": gpu.capability[0],
            "minor": gpu.capability[1],
            "multiProcessorCount": _MULTIPROCESSORS,
            "totalGlobalMem": gpu.memory_bytes,
            "sharedMemPerBlockOptin": 227 << 10,
            "maxThreadsPerBlock": 1024,
            "maxGridSize": (2**31 - 1, 65535, 65535),
        }

    @staticmethod
    def eventQuery(event: int) -> int:
        found = _objects[event]
        if found.stream is None:
            return SUCCESS
        gpu = found.stream.gpu
        if not gpu.status and not found.over:
            try:
                found.stream.step()
            except CUDARuntimeError as error:
                return error.status
        return gpu.status or (SUCCESS if found.over else NOT_READY)

    @staticmethod
    def streamQuery(stream: int) -> int:
        found = _objects[stream]
        return found.gpu.status or (NOT_READY if found.queue else SUCCESS)

    @staticmethod
    def check_status(status: int) -> None:
        if status:
            raise CUDARuntimeError(status)

    def memcpyAsync(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        found = _objects[stream]
        gpu = found.gpu
        gpu.count(f"copies {kind}")

        def copy() -> None:
            to_host, from_host = kind == self.memcpyDeviceToHost, kind == self.memcpyHostToDevice
            data = _host(source, size) if from_host else gpu.view(source, size)
            (_host(target, size) if to_host else gpu.view(target, size))[:] = data

        found.put(copy)

    def memcpy2DAsync(
        self,
        target: int,
        target_pitch: int,
        source: int,
        source_pitch: int,
        width: int,
        height: int,
        kind: int,
        stream: int,
    ) -> None:
        assert kind == self.memcpyDeviceToDevice
        assert width <= min(target_pitch, source_pitch)
        found = _objects[stream]

        def copy() -> None:
            for row in range(height):
                data = found.gpu.view(source + row * source_pitch, width)
                found.gpu.view(target + row * target_pitch, width)[:] = data

        found.put(copy)

    def memsetAsync(self, address: int, value: int, size: int, stream: int) -> None:
        found = _objects[stream]

        def fill() -> None:
            found.gpu.view(address, size)[:] = value

        found.put(fill)


def _host(address: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


runtime: Any = _Runtime()


# -- arrays ----------------------------------------------------------------------------------------


class ndarray:
    """An array over given memory; `dense`: in rows."""

    def __init__(self, shape: Any, dtype: Any, memptr: Any, dense: bool = True) -> None:
        self.shape, self.dtype, self.data = tuple(shape), np.dtype(dtype), memptr
        self.flags = types.SimpleNamespace(c_contiguous=dense)
        self.nbytes = self.dtype.itemsize * int(np.prod(self.shape))

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, copy: Any = None) -> Any:
        assert _current().number == self.data.device_id and get_current_stream()
        if self.dtype.isbuiltin != 1:
            raise BufferError("Unknown dtype")
        return self

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.data.device_id)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        stream = get_current_stream().ptr
        data = (self.data.ptr, False)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, "stream": stream}

    def copy(self) -> ndarray:
        memory = MemoryPool().malloc(self.data.mem.size)
        runtime.memcpyAsync(memory.ptr, self.data.ptr, self.nbytes, 3, get_current_stream().ptr)
        return ndarray(self.shape, self.dtype, memory)

    # Arithmetic is done at once: everything before it is waited for.

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        stream = get_current_stream()
        stream.synchronize()
        raw = stream.gpu.view(self.data.ptr, self.nbytes) if self.nbytes else np.zeros(0, np.uint8)
        return raw.view(self.dtype).reshape(self.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        return np.asarray(self)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        np.asarray(self)[index] = value


def _on_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arrays: Any, **options: Any) -> Any:
        return function(*map(np.asarray, arrays), **options)

    return call


def ascontiguousarray(array: ndarray) -> ndarray:
    return array if array.flags.c_contiguous else array.copy()


def from_dlpack(exporter: Any) -> ndarray:
    return exporter.__dlpack__(stream=get_current_stream().ptr)


# -- code ------------------------------------------------------------------------------------------


class Function:
    def __init__(self, module: Module, name: str) -> None:
        self.module, self.name = module, name
        self.known = module.known
        self.attributes = {"shared": 48 << 10}
        self.ptr = _handle(self)


class Module:
    def __init__(self) -> None:
        self.entries: list[str] = []
        self.known = known_functions

    def load(self, image: bytes) -> None:
        text = image.rstrip(b"\0").decode()
        target = re.search(r"\.target\s+sm_(\d+)(a?)", text)
        if target is None:
            raise CUDADriverError(BAD_PTX)
        major, minor = _current().capability
        here = 10 * major + minor
        if int(target[1]) > here or (target[2] and int(target[1]) != here):
            raise CUDADriverError(NEW_PTX)
        self.gpu = _current()
        self.known = known_texts.get(text, known_functions)
        self.entries = re.findall(r"\.entry\s+([\w$]+)", text)

    def get_function(self, name: str) -> Function:
        if name not in self.entries:
            raise CUDADriverError(NO_ENTRY)
        return Function(self, name)


class _Driver:
    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0

    @staticmethod
    def funcGetAttribute(attribute: int, function: int) -> int:
        assert attribute == _Driver.CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
        return _most_threads(_objects[function].name)

    @staticmethod
    def funcSetAttribute(function: int, attribute: int, value: int) -> None:
        assert attribute == _Driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if value > 227 << 10:
            raise CUDADriverError(INVALID)
        _objects[function].attributes["shared"] = value

    @staticmethod
    def occupancyMaxActiveBlocksPerMultiprocessor(function: int, threads: int, shared: int) -> int:
        assert _objects[function].attributes["shared"] >= shared
        return 2048 // threads

    @staticmethod
    def launchCooperativeKernel(*launch: int) -> None:
        """All blocks are there at once, or none."""
        function, blocks, threads = launch[0], launch[1], launch[4]
        each = _Driver.occupancyMaxActiveBlocksPerMultiprocessor(function, threads, launch[7])
        if blocks > each * _MULTIPROCESSORS:
            raise CUDADriverError(TOGETHER_TOO_LARGE)
        _Driver.launchKernel(*launch, 0)

    @staticmethod
    def launchKernel(
        function: int,
        gx: int,
        gy: int,
        gz: int,
        bx: int,
        by: int,
        bz: int,
        shared: int,
        stream: int,
        parameters: int,
        extra: int,
    ) -> None:
        found, queue = _objects[function], _objects[stream]
        gpu = queue.gpu
        gpu.check()
        if found.module.gpu is not gpu:
            raise CUDADriverError(400)
        if not (1 <= gx < 2**31 and 1 <= gy < 65536 and 1 <= bx * by * bz <= 1024):
            raise CUDADriverError(INVALID)
        if shared > found.attributes["shared"]:
            raise CUDADriverError(INVALID)
        resident = found.known.residents.get(found.name)
        count = len(resident[2] if resident else launched_buffers(_kernel(found)))
        stage = None if resident else _stage(found)
        maps = len(boxed_arrays(stage)) if stage else 0
        pointers = (ctypes.c_void_p * (count + maps)).from_address(parameters)
        # What they point to is copied now, as CUDA does.
        addresses = [ctypes.c_uint64.from_address(p or 0).value for p in pointers[:count]]
        if stage:
            fake_tensor_maps.check(_kernel(found), stage, addresses, pointers[count:])
        assert not any(address % 16 for address in addresses), "functions read 16 bytes at a time"
        gpu.count("launches")
        run = _run_resident if resident else _run_stage
        queue.put(lambda: run(gpu, found, addresses))


def _most_threads(function: str) -> int:
    """How many the registers of a multiprocessor are enough for."""
    return 1024


def _kernel(function: Function) -> Kernel:
    return function.known.stages[function.name][0]


def _stage(function: Function) -> Loop:
    kernel, number = function.known.stages[function.name]
    return [s for s in kernel.stages if isinstance(s, Loop)][number]


def _run_stage(gpu: FakeGpu, function: Function, addresses: list[int]) -> None:
    kernel = _kernel(function)
    places = {
        b: gpu.view(address, b.size * b.element_type.numpy_dtype.itemsize)
        for b, address in zip(launched_buffers(kernel), addresses)
    }
    memory = {b: v.view(b.element_type.numpy_dtype) for b, v in places.items()}
    common = [s for s in kernel.stages if not isinstance(s, Loop)]
    one = Kernel(kernel.name, kernel.buffers, [*common, _stage(function)], kernel.in_place)
    Interpreter(one, memory=memory).run()


def _run_resident(gpu: FakeGpu, function: Function, addresses: list[int]) -> None:
    """Step through the steps, in the memory of the device."""
    program, step, memories = function.known.residents[function.name]
    arrays = [np.zeros(s.dimensions, s.element_type.numpy_dtype) for s in program.parameters]
    context: Any = types.SimpleNamespace(replica=0, partition=0)
    stepper = Stepper(replace(program, steps=(step,)), arrays, {}, _no_function, context)
    for memory, address in zip(memories, addresses):
        stepper.memory[memory] = gpu.view(address, stepper.memory[memory].size)
    for _ in stepper.steps():
        pass


def _no_function(target: Any) -> Any:
    raise AssertionError(f"a block calls {target}")


# -- the module ------------------------------------------------------------------------------------


@contextmanager
def _using_allocator(allocator: Any) -> Any:
    assert allocator(512).ptr
    yield


def make_module(version: str = "14.2.0", built: int = 12090, runs: int = 12080) -> Any:
    """The module `cupy`, built for one version of CUDA, on a driver that runs another."""
    cupy: Any = types.ModuleType("cupy")
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    cupy.__version__ = version
    runtime.runtimeGetVersion = lambda: built
    runtime.driverGetVersion = lambda: runs
    cupy.ndarray, cupy.from_dlpack, cupy.ascontiguousarray = ndarray, from_dlpack, ascontiguousarray
    names = ("fftn", "ifftn", "rfftn", "irfftn")
    cupy.fft = types.SimpleNamespace(**{n: _on_arrays(getattr(np.fft, n)) for n in names})
    cupy.cuda = types.SimpleNamespace(
        Device=Device,
        Event=Event,
        Graph=Graph,
        MemoryPointer=MemoryPointer,
        MemoryPool=MemoryPool,
        PinnedMemoryPool=PinnedMemoryPool,
        cublas=FakeCublas(get_current_stream),
        cufft=types.SimpleNamespace(),
        cusolver=FakeCusolver(get_current_stream),
        Stream=Stream,
        UnownedMemory=UnownedMemory,
        driver=_Driver,
        function=types.SimpleNamespace(Module=Module),
        get_current_stream=get_current_stream,
        memory=types.SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=runtime,
        using_allocator=_using_allocator,
    )
    return cupy


def install(
    monkeypatch: pytest.MonkeyPatch,
    gpus: int | list[FakeGpu] = 1,
    *,
    built: int = 12090,
    runs: int = 12080,
) -> list[FakeGpu]:
    """Put all of this in CuPy's and the driver's place for a test; the GPUs."""
    found = [FakeGpu(i) for i in range(gpus)] if isinstance(gpus, int) else gpus
    monkeypatch.setattr(sys.modules[__name__], "GPUS", found)
    monkeypatch.setitem(sys.modules, "cupy", make_module(built=built, runs=runs))
    listed = tuple(driver.Gpu(gpu.name, gpu.capability) for gpu in found)
    version = runs // 1000, runs % 1000 // 10
    monkeypatch.setattr(availability, "find_driver", lambda: driver.Driver(version, listed, ""))
    monkeypatch.setattr(availability, "cupy_distribution", lambda: ("cupy", "14.2.0", None))
    monkeypatch.setattr(availability, "absent_libraries", list)
    for cached in (load_cupy, load_library, load_nccl):
        cached.clear()
    nccl = FakeNccl(lambda number: _objects[number])
    monkeypatch.setitem(sys.modules, "cupy.cuda", sys.modules["cupy"].cuda)
    monkeypatch.setitem(sys.modules, "cupy.cuda.nccl", nccl)
    library = fake_library(_current, lambda number: _objects[number])
    monkeypatch.setattr(cublas_library, "_load", lambda name: library)
    tensor_maps._encode.clear()
    monkeypatch.setattr(tensor_maps, "_load", lambda name: fake_tensor_maps.fake_driver())
    monkeypatch.setattr(_local, "device", 0, raising=False)
    known_functions.stages.clear()
    known_functions.residents.clear()
    known_texts.clear()
    return found
