"""What a platform provides, shaped like PJRT: clients, devices, executables, and the context of an
execution. Everybody above the targets knows these classes only.

A client owns the devices of one platform, compiles for them, and says by `buffer_kind` how the host
writes and reads their memory. An executable takes buffers and gives buffers. What addresses there
are, and whether the host can use them, is the client's business; two things that it may declare
make calls cheaper where they are (`HostBufferKind`, `LoadedExecutable.direct`), and nobody needs
them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from xla_backend.compile_options import CompileOptions
from xla_backend.emitted_kernel import EmittedKernel
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.host_queues import Host
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.sharding import Sharding
from xla_backend.hlo.topology import ALONE, Topology
from xla_backend.measured_costs import CostDecision, MeasuredRuns
from xla_backend.process.instances import instances_of
from xla_backend.runtime.buffer import Buffer, BufferHolder, BufferKind
from xla_backend.runtime.memory import SizeClass
from xla_backend.runtime.pending import Job, Origin
from xla_backend.runtime.target_code import TargetCode

_runs = itertools.count(1)


def live_holders() -> list[BufferHolder]:
    """What holds a buffer that was neither deleted nor donated."""
    return [x for x in instances_of(BufferHolder) if not x.is_deleted()]


_NO_BYTES = np.zeros(0, np.uint8)


class Memory:
    """A memory that a device uses. Equal by identity; `Device.memory` gives the one of a kind.

    Attributes:
      kind: "device" is where arrays lie; on CPUs "pinned_host" and "unpinned_host" are the same.
    """

    def __init__(self, device: Device, kind: str, number: int) -> None:
        self.kind = kind
        self._device = device
        self._number = number

    @property
    def platform(self) -> str:
        return self._device.platform

    @property
    def process_index(self) -> int:
        return self._device.process_index

    def addressable_by_devices(self) -> list[Device]:
        """The devices of this process that use it."""
        return [self._device]

    def __repr__(self) -> str:
        return f"{self.platform.upper()}_{self.kind.upper()}_{self._number}"


class Device:
    """One device of a client.

    Attributes:
      id: number within the platform; platform: "cpu", …; device_kind: vendor's or our name; client.
      host: the host's end of the device's infeed, outfeed and host transfers.

    >>> device = pyjax.devices("cpu")[0]
    >>> device.platform, isinstance(device, Device)
    ('cpu', True)
    """

    def __init__(self, client: AbstractClient, id: int, device_kind: str) -> None:
        self.client = client
        self.id = id
        self.device_kind = device_kind
        self.process_index = 0
        self.local_hardware_id: int | None = id
        self.host = Host()
        self._memories = [
            Memory(self, kind, len(client.memory_kinds) * id + i)
            for i, kind in enumerate(client.memory_kinds)
        ]

    @property
    def platform(self) -> str:
        return self.client.platform

    @property
    def is_here(self) -> bool:
        """Whether it is a device of this process."""
        return self.process_index == self.client.process_index()

    @property
    def host_id(self) -> int:
        """The older name of `process_index`."""
        return self.process_index

    @property
    def task_id(self) -> int:
        """Another name of `process_index`."""
        return self.process_index

    def addressable_memories(self) -> list[Memory]:
        """The memories that it uses, the default one first."""
        return list(self._memories)

    def default_memory(self) -> Memory:
        """Where arrays lie, if nothing else is said."""
        return self._memories[0]

    def memory(self, kind: str) -> Memory:
        """The memory of a kind.

        Raises:
          ValueError: there is none; the message lists those that there are.
        """
        for memory in self._memories:
            if memory.kind == kind:
                return memory
        kinds = ", ".join(memory.kind for memory in self._memories)
        raise ValueError(
            f"Could not find memory addressable by device {self.device_kind}. Device "
            f"{self.device_kind} can address the following memory kinds: {kinds}. Got memory kind: "
            f"{kind}"
        )

    def live_buffers(self) -> list[BufferHolder]:
        """The arrays on this device that somebody holds."""
        return [x for x in live_holders() if x.spec.device is self]

    def get_stream_for_external_ready_events(self) -> int:
        """The stream on which other libraries may wait.

        Raises:
          UnimplementedError: this platform has no streams.
        """
        raise UnimplementedError(f"{self} has no streams: its programs run on threads of the host")

    def poison_execution(self, *_: Any) -> bool:
        """Make an execution fail that has begun.

        Raises:
          UnimplementedError: executions cannot be told apart from outside.
        """
        raise UnimplementedError(f"executions on {self} cannot be made to fail from outside")

    def shares_memory_with(self, other: Device) -> bool:
        """Whether programs on the other device can use this one's buffers as they are."""
        if self is other:
            return True
        shared = self.client.shared_memory
        one_process = self.process_index == other.process_index
        return one_process and shared is not None and shared == other.client.shared_memory

    def memory_stats(self) -> dict[str, int] | None:
        """Memory statistics, or None where the platform keeps none."""
        return self.client.memory_stats(self)

    def __copy__(self) -> Device:
        return self

    def __deepcopy__(self, memo: Any) -> Device:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            f"cannot pickle {self!r}: a device is of the process that found it. Pickle its "
            "platform and id, or an AbstractMesh instead of a Mesh."
        )

    def __repr__(self) -> str:
        kind = "".join([word.capitalize() for word in self.platform.split("_")])
        return f"{kind}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


class ExecutionContext:
    """Who runs a program: handed down to every kernel and every call of the host that asks.

    Attributes:
      device: where the program runs: its queues and its random state are this device's.
      replica, partition: which participant of the program it is.
      run: a number of its own for each execution; participants that run together share theirs.
      session: what the executable needs for those to meet, while they run.
    """

    __slots__ = ("device", "partition", "replica", "run", "session")

    def __init__(
        self, device: Device, replica: int = 0, partition: int = 0, run: int | None = None
    ) -> None:
        self.device = device
        self.replica = replica
        self.partition = partition
        self.run = next(_runs) if run is None else run
        self.session: Any = None

    def __repr__(self) -> str:
        where = f"replica={self.replica}, partition={self.partition}"
        return f"ExecutionContext({self.device}, {where}, run={self.run})"


class Adopted(NamedTuple):
    """An array of another library that a client has taken in; `copied`: not its own memory, but
    a copy."""

    device: Device
    dimensions: tuple[int, ...]
    numpy_dtype: np.dtype
    buffer: Buffer
    copied: bool


class EntryPoint(NamedTuple):
    """A program as native code calls it: `i32 entry(arguments, outputs, third)`, tables of
    addresses first; 0 is success.

    Fields:
      address: keeps the code.
      outputs: where the memory of each output comes from.
      arena: where memory comes from that is the third argument; None: `third` is.
      releases_lock: whether it takes so long that other threads of Python should run meanwhile.
      fail: raises what another status stands for.
    """

    address: int
    outputs: Sequence[SizeClass]
    arena: SizeClass | None
    third: int
    releases_lock: bool
    fail: Callable[[int], object]


class DirectCall(NamedTuple):
    """A fast way in for callers that look everything up ahead: a native function of addresses.

    `call(pack_arguments(*blocks), pack_outputs(*blocks))` runs the program on one block for each
    leaf; the caller allocates those of the outputs, by their kinds, and keeps all of them until the
    call is back. `entry`: what `call` comes to, for native callers; None where it does more.
    """

    call: Callable[[bytes, bytes], object]
    pack_arguments: Callable[..., bytes]
    pack_outputs: Callable[..., bytes]
    entry: EntryPoint | None = None


class LoadedExecutable:
    """A compiled program.

    Attributes:
      parameter_shapes, output_shapes: flat leaves, in order.
      module: the optimised HLO.
      device: the first of those that it was compiled for.
      topology: its participants; where there are several, they are run by `execute_together`.
      aliases: output leaf -> parameter leaf whose memory it takes over (donation).
      calls_until_compiled: after how many calls a program that was not compiled for its shapes is
        better so; 0: never.
      held_bytes: code, constants, and what is kept to show the program's stages.
      temp_size, code_bytes: of memory for values between two steps, and of generated code.
      uses_context: whether executions can tell contexts apart. If not, one may serve for many.
      direct: the fast way in, or None. There is one only where buffers are host addressable,
        nothing is donated and contexts are not used.
      measured_runs: what was measured of the runs so far, if it was compiled for that.
      seconds: estimate of one run; infinite where nothing tells; 0 where `start` is not worth it.
      asynchronous: the device computes apart from the host: calls are always started.
    """

    parameter_shapes: Sequence[Shape]
    output_shapes: Sequence[Shape]
    module: HloModule
    device: Device
    topology: Topology = ALONE
    aliases: Mapping[int, int] = MappingProxyType({})
    held_bytes: int = 1 << 16
    calls_until_compiled: int = 0
    temp_size: int = 0
    code_bytes: int = 0
    uses_context: bool = True
    direct: DirectCall | None = None
    measured_runs: MeasuredRuns | None = None
    seconds: float = 0.0
    asynchronous: bool = False

    def execute(
        self, arguments: list[Buffer], donated: Container[int], context: ExecutionContext
    ) -> list[Buffer]:
        """Run on one buffer for each parameter leaf; one new buffer for each output leaf. (Tokens
        are leaves without bytes.)

        Args:
          arguments: a list that nobody else refers to. An output takes over the memory of the
            argument in `aliases` if that is donated and nobody but this list refers to it; else it
            starts as a copy.
          donated: numbers of the arguments in `aliases` that the caller gives up. They are taken
            out of the list, which holds None there then, before the program begins: so the caller
            sees what became of them if there is an exception.
        Raises:
          OutOfMemory: there is none for an output.
          RuntimeFailure: the program reported an error; or the exception a host callback raised.
        """
        raise NotImplementedError

    def execute_together(
        self,
        arguments: Sequence[list[Buffer]],
        donated: Container[int],
        devices: Sequence[Device],
    ) -> list[list[Buffer]]:
        """Run the participants of the program that are in this process: what `execute` does, for
        each of them, on its device and its arguments, in the order of their numbers (see
        `Topology`). Other processes run those that are there.

        Args:
          arguments: of participants in this process.   devices: of all participants.

        Raises:
          what `execute` does, of the participant that failed first; and RuntimeFailure: some wait
            for partners that never come. All have ended then.
        """
        raise UnimplementedError(
            f"programs of several participants do not run on platform {self.device.platform!r}"
        )

    def contexts(self, devices: Sequence[Device]) -> list[ExecutionContext]:
        """Those of the participants of one run on these devices, that are in this process.

        Raises:
          ValueError: that are too few, or too many.
        """
        count, parts = self.topology.size, self.topology.num_partitions
        if len(devices) != count:
            raise ValueError(
                f"program {self.module.name!r} has {count} participants, and is to run on "
                f"{len(devices)} devices"
            )
        run = next(_runs)
        return [
            ExecutionContext(device, *divmod(number, parts), run)
            for number, device in enumerate(devices)
            if device.is_here
        ]

    def start(
        self,
        arguments: list[Buffer],
        donated: Container[int],
        context: ExecutionContext,
        after: Sequence[Job],
        origin: Origin,
    ) -> tuple[list[Buffer], Job | None] | None:
        """Like `execute`, but the program goes on while the caller does: the buffers that come back
        are computed when the job is done. Without a job they are already. None, and nothing has
        happened: this program, or this moment, is not for that; `execute` it.

        Args:
          after: jobs that compute some of the arguments.
          origin: who gets to know what becomes of it.
        Raises:
          OutOfMemory: there is none for an output. What a signal handler raises, too, may come
            before or after the program was started.
        """
        return None

    def run_arrays(
        self, arrays: Sequence[np.ndarray], context: ExecutionContext | None = None
    ) -> list[np.ndarray]:
        """Run on NumPy arrays, one per parameter leaf, and return its result leaves, which are
        read-only. Tokens are left out of both; the arguments never change. Without a context it
        runs on `device`.

        Raises:
          ValueError: number, shape or dtype of the arrays is not the program's.
        """
        context = context or ExecutionContext(self.device)
        results = self.execute(self._buffers_of(arrays, context.device), (), context)
        return self._arrays_of(results, context.device)

    def run_arrays_together(
        self, arrays: Sequence[Sequence[np.ndarray]], devices: Sequence[Device] | None = None
    ) -> list[list[np.ndarray]]:
        """Run all participants, each on its NumPy arrays; the results of each. Without devices, all
        on `device`.

        Raises:
          ValueError: number, shape or dtype of the arrays is not the program's, or these are not as
            many as there are participants.
        """
        devices = [self.device] * self.topology.size if devices is None else devices
        if len(arrays) != len(devices):
            raise ValueError(
                f"program {self.module.name!r} runs on {len(devices)} devices, and got the arrays "
                f"of {len(arrays)} participants"
            )
        given = [self._buffers_of(own, device) for own, device in zip(arrays, devices)]
        results = self.execute_together(given, (), devices)
        return [self._arrays_of(own, device) for own, device in zip(results, devices)]

    def _buffers_of(self, arrays: Sequence[np.ndarray], device: Device) -> list[Buffer]:
        taken = [s for s in self.parameter_shapes if s.is_array]
        if len(arrays) != len(taken):
            name = self.module.name
            raise ValueError(f"program {name!r} takes {len(taken)} arrays, got {len(arrays)}")
        given = iter(arrays)
        buffers: list[Buffer] = []
        for number, shape in enumerate(self.parameter_shapes):
            array = self._checked(number, shape, next(given)) if shape.is_array else _NO_BYTES
            buffers.append(kind_of(shape, device).wrap_host(array))
        return buffers

    def _arrays_of(self, buffers: Sequence[Buffer], device: Device) -> list[np.ndarray]:
        return [
            kind_of(shape, device).to_host(buffer)
            for buffer, shape in zip(buffers, self.output_shapes)
            if shape.is_array
        ]

    def _checked(self, number: int, shape: Shape, argument: np.ndarray) -> np.ndarray:
        array = np.ascontiguousarray(argument).reshape(np.shape(argument))
        if array.shape != shape.dimensions or array.dtype != shape.element_type.numpy_dtype:
            raise ValueError(
                f"argument {number} of program {self.module.name!r} must be {shape}, got "
                f"{array.dtype}{list(array.shape)}"
            )
        return array

    def texts(self) -> dict[str, str]:
        """Printable stages of the program: "hlo", and where there are such "program", "loops",
        "llvm", "assembly".
        """
        raise NotImplementedError

    def kernels(self) -> list[EmittedKernel]:
        """The generated kernels; platforms that generate none have an empty list."""
        return []

    def await_optimised(self) -> None:
        """Return when it runs optimised code, where that is made while it runs already."""

    def cost_decisions(self) -> Sequence[CostDecision]:
        """What was decided by the measured costs that it was compiled with."""
        return ()

    def pass_report(self) -> str:
        """Time per pass of the compilation, slowest first; empty on platforms without passes."""
        return ""

    def memory_stats(self) -> dict[str, int]:
        """Bytes: argument_size, output_size, temp_size, alias_size, generated_code_size."""
        outputs = [s.byte_size for s in self.output_shapes]
        return {
            "argument_size": sum(s.byte_size for s in self.parameter_shapes),
            "output_size": sum(outputs),
            "temp_size": self.temp_size,
            "alias_size": sum(outputs[leaf] for leaf in self.aliases),
            "generated_code_size": self.code_bytes,
        }


class NotAtHand(Exception):
    """A program is to be compiled, and whoever asked does not want to wait for that."""


class AbstractClient:
    """What a platform provides. Concrete: CpuClient, InterpreterClient, and those of plugins.

    Attributes:
      shared_memory: what the memory is called that its devices share with each other, and with
        those of other clients that say the same; None: each device has its own.
      memory_kinds: the names of the memories of a device, the default one first.
    """

    platform: str
    platform_version: str
    shared_memory: str | None = None
    memory_kinds: tuple[str, ...] = ("device",)
    runtime_type = "pyjax"

    def devices(self) -> list[Device]:
        """All devices, in order of their ids."""
        raise NotImplementedError

    def process_index(self) -> int:
        return 0

    def device_count(self) -> int:
        return len(self.devices())

    def local_devices(self) -> list[Device]:
        """Those of this process."""
        return [d for d in self.devices() if d.process_index == self.process_index()]

    def local_device_count(self) -> int:
        return len(self.local_devices())

    def device_from_local_hardware_id(self, number: int) -> Device:
        """The device of this process that the system numbers so.

        Raises:
          ValueError: there is none.
        """
        for device in self.local_devices():
            if device.local_hardware_id == number:
                return device
        raise ValueError(f"the platform {self.platform!r} has no device of hardware id {number}")

    def live_buffers(self) -> list[BufferHolder]:
        """The arrays on its devices that somebody holds."""
        return [x for x in live_holders() if x.spec.device.client is self]

    live_arrays = live_buffers

    def live_executables(self) -> list[LoadedExecutable]:
        """The programs for its devices that somebody holds."""
        return [x for x in instances_of(LoadedExecutable) if x.device.client is self]

    def defragment(self) -> None:
        """Move arrays together. Memory here has no gaps that pages do not close."""

    def buffer_kind(
        self, device: Device, dimensions: tuple[int, ...], dtype: np.dtype
    ) -> BufferKind:
        """Buffers for arrays of one shape and type on a device."""
        raise NotImplementedError

    def compile(self, module: HloModule, options: CompileOptions) -> LoadedExecutable:
        """Compile a module (which may be changed) for this client's devices: one executable runs
        on any of them, on several at the same time, too."""
        raise NotImplementedError

    def find_without_module(
        self, source: ModuleSource, options: CompileOptions
    ) -> LoadedExecutable | None:
        """What another process compiled of a module that is known by what it is made from; None:
        there is nothing, or the platform does not do this."""
        return None

    def compile_source(self, source: ModuleSource, options: CompileOptions) -> LoadedExecutable:
        """`compile`, of a module that may be known by what it is made from."""
        return self.compile(source.module, options)

    def compile_partitioned(
        self, module: HloModule, options: CompileOptions
    ) -> tuple[LoadedExecutable, Sequence[Sharding], Sequence[Sharding]]:
        """Compile a module (which may be changed) for several devices, whose arrays are whole and
        have shardings: the program of each device, and how its parameters and results are cut.

        Raises:
          UnimplementedError: a sharding, or a program, that cannot be partitioned, or the platform
            does not do this.
        """
        raise UnimplementedError(
            f"the platform {self.platform!r} compiles no programs that several devices run "
            "together; run them on the platform 'cpu'"
        )

    def partition(self, module: HloModule) -> tuple[Sequence[Sharding], Sequence[Sharding]]:
        """What `compile_partitioned` does first: make a module the program of each device. How its
        parameters and results are cut.

        Raises:
          UnimplementedError: as there.
        """
        raise UnimplementedError(f"the platform {self.platform!r} partitions no programs")

    def compile_elementwise(
        self, source: ModuleSource, options: CompileOptions, *, at_hand: bool = False
    ) -> Callable[[int], LoadedExecutable | None] | None:
        """Compile a program on scalars and 1-D arrays of one length for any length. `at_hand`: only
        look for it on disk.

        Returns a function from the length to an executable (None where another way is better), or
        None if the program is not elementwise or the platform does not do this.

        Raises:
          NotAtHand: it is to be compiled.
        """
        return None

    def compile_size_classes(
        self,
        source: ModuleSource,
        stand_ins: Sequence[int],
        options: CompileOptions,
        *,
        at_hand: bool = False,
    ) -> Callable[..., LoadedExecutable | None] | None:
        """Compile a module (which may be changed) for arrays of all sizes, with the bits of
        programs that are compiled for some. `stand_ins[k]`, which is no size that is known, stands
        for size number k wherever a dimension is that.

        Returns a function from the sizes, none of them 0 or 1, to an executable (None where another
        way is better), or None if an instruction has no such form, or the platform does not do
        this. With `at_hand`, here and as an argument of the function, nothing is compiled.

        Raises:
          NotAtHand: it is to be compiled.
        """
        return None

    def find_movement(self, module: HloModule) -> LoadedExecutable | None:
        """A program for a small module that only moves data, without compiling it; None for other
        modules, or if the platform does not do this."""
        return None

    def compile_sized(
        self, module: HloModule, sizes: Sequence[int], options: CompileOptions
    ) -> Callable[[Sequence[int]], LoadedExecutable]:
        """Compile a module (which may be changed) once for arrays of all sizes.

        Its first parameters are integer scalars; `sizes[k]`, which is no size that is known, stands
        for the value of number k wherever a dimension has that size. Returns a function from the
        values to an executable.

        Raises:
          UnimplementedError: an instruction has no such form, or the platform does not do this.
        """
        raise UnimplementedError(
            f"the platform {self.platform!r} has no programs with sizes that are known at run time "
            "only; run them on the platform 'cpu'"
        )

    def emit(self, module: HloModule, options: CompileOptions) -> TargetCode:
        """Make object code of a module (which may be changed) for `options.target`, without
        loading it.

        Raises:
          UnimplementedError: this platform makes no code for other machines.
        """
        raise UnimplementedError(
            f"the platform {self.platform!r} makes no object code; compile for the platform 'cpu'"
        )

    def serialize_program(self, module: HloModule, options: CompileOptions) -> bytes:
        """The code of a module, for `load_program` in another process with an equal module.

        Raises:
          UnimplementedError: the program holds something of this process, or the platform does not
            do this.
        """
        raise UnimplementedError(f"programs of the platform {self.platform!r} cannot be serialized")

    def load_program(
        self, content: bytes, module: HloModule, options: CompileOptions
    ) -> LoadedExecutable:
        """What `serialize_program` wrote, made to run here.

        Raises:
          ValueError: it was compiled for another processor, or by another version of the compiler,
            or is of another module.
          UnimplementedError: the platform does not do this.
        """
        raise UnimplementedError(f"the platform {self.platform!r} loads no serialized programs")

    def module_text(
        self,
        module: HloModule,
        *,
        style: str = "long",
        large_constants: bool | None = None,
        metadata: bool | None = None,
    ) -> str:
        """HLO text of a module in a style ("long", "short"), with or without long constants and
        source locations."""
        raise NotImplementedError

    def module_cost(self, module: HloModule) -> dict[str, float]:
        """Estimated "flops", "transcendentals" and "bytes accessed" of one run."""
        raise NotImplementedError

    def memory_stats(self, device: Device) -> dict[str, int] | None:
        return None

    def adopt(self, exporter: Any) -> Adopted | None:
        """The array of an object with `__dlpack__` and `__dlpack_device__`; None if it is not on a
        device of this client, or the host can address it as well."""
        return None


def kind_of(shape: Shape, device: Device) -> BufferKind:
    """The kind of the buffers that hold a leaf; a token's have no bytes."""
    if not shape.is_array:
        return device.client.buffer_kind(device, (0,), _NO_BYTES.dtype)
    dtype = shape.element_type.numpy_dtype
    return device.client.buffer_kind(device, shape.dimensions, dtype)
