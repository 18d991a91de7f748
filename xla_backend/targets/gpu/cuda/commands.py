"""What a program does on a device, as commands: each puts work on a stream, or waits for it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.process.light_dataclasses import dataclass, field
from xla_backend.program.ir import HostFunction
from xla_backend.runtime.client import ExecutionContext
from xla_backend.targets.gpu.cuda.device import CudaDevice
from xla_backend.targets.gpu.cuda.layout import Place
from xla_backend.targets.gpu.cuda.tensor_maps import ArrayMap


@dataclass(slots=True)
class Run:
    """One execution; its device is the current one.

    Fields:
      bases: addresses, see `Layout`.   stream: what gets the work.
      capturing: work becomes part of a graph, and nobody may wait.
    """

    device: CudaDevice
    bases: list[int]
    context: ExecutionContext
    stream: Any
    capturing: bool = False


class Command:
    """Fields:
    nodes: pieces of work that a graph of it has; None: it waits for the device or calls the
      host, and cannot be part of a graph.
    bases: numbers of those that it looks at.
    """

    nodes: int | None = None
    bases: frozenset[int] = frozenset()

    def run(self, run: Run) -> None:
        raise NotImplementedError

    def steps(self, run: Run) -> Iterable[Any]:
        """`run`, as one of several participants: it stops, and gives None, where it is about to
        wait, and itself at a collective."""
        self.run(run)
        return ()


class Waiting(Command):
    """A command that waits for the device."""

    nodes: int | None = None
    bases: frozenset[int] = frozenset()

    def run(self, run: Run) -> None:
        for _ in self.steps(run):
            pass

    def steps(self, run: Run) -> Iterator[Any]:
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class LaunchCommand(Command):
    """Launch a function on so many blocks of so many threads, with addresses for arguments, and
    `maps` of arrays at some of them. `together`: all blocks are there at once, or the driver
    refuses; no part of graphs, which older drivers do not make of such launches."""

    launch: Callable[..., None]
    function: int
    blocks: int
    threads: int
    shared: int
    places: Sequence[Place]
    owner: Any  # of the code
    together: bool = False
    maps: Sequence[ArrayMap] = ()
    nodes: int | None = field(init=False)
    bases: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = None if self.together else 1
        self.bases = frozenset(place.base for place in self.places)

    def run(self, run: Run) -> None:
        bases, count = run.bases, len(self.places)
        values = (ctypes.c_uint64 * count)(*[bases[base] + offset for base, offset in self.places])
        start = ctypes.addressof(values)
        # The launch copies what they point to.
        maps = [found.at(values[found.buffer]) for found in self.maps]
        pointers = (ctypes.c_void_p * (count + len(maps)))(
            *range(start, start + 8 * count, 8), *[map.pointer for map in maps]
        )
        self.launch(
            self.function,
            self.blocks,
            1,
            1,
            self.threads,
            1,
            1,
            self.shared,
            run.stream.ptr,
            ctypes.addressof(pointers),
            *([] if self.together else [0]),  # no other way of passing arguments
        )


@dataclass(slots=True, eq=False)
class CopyCommand(Command):
    """Copy bytes within the device."""

    target: Place
    source: Place
    nbytes: int
    nodes: int | None = field(default=1, init=False)
    bases: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.bases = frozenset((self.target.base, self.source.base))

    def run(self, run: Run) -> None:
        target, source = self.target.address(run.bases), self.source.address(run.bases)
        if self.nbytes and target != source:
            run.device.copy(target, source, self.nbytes, run.stream)


@dataclass(slots=True, eq=False)
class HostCommand(Waiting):
    """Wait for the operands, call a function of the host with them, send back what it makes."""

    function: HostFunction
    operands: Sequence[tuple[Place, Shape]]
    results: Sequence[tuple[Place, Shape]]
    attributes: Any

    def steps(self, run: Run) -> Iterator[Any]:
        yield None
        operands = [read(run, place, shape) for place, shape in self.operands]
        results = [_zeros(shape) for _, shape in self.results]
        self.function(operands, results, self.attributes, run.context)
        for (place, _), result in zip(self.results, results):
            run.device.to_device(place.address(run.bases), result.reshape(-1).view(np.uint8))


@dataclass(slots=True, eq=False)
class SolverCommand(Command):
    """Call a function of CuPy on arrays over the program's memory. It takes memory of its own, so
    that no graph can have it."""

    function: Callable[[Any, Sequence[Any], Sequence[Any], Any], None]
    operands: Sequence[tuple[Place, Shape]]
    results: Sequence[tuple[Place, Shape]]
    attributes: Any
    nodes: int | None = field(default=None, init=False)
    bases: frozenset[int] = field(default=frozenset(), init=False)

    def run(self, run: Run) -> None:
        device = run.device
        operands, results = (
            [device.array(place.address(run.bases), shape) for place, shape in arrays]
            for arrays in (self.operands, self.results)
        )
        with device.cupy.cuda.using_allocator(device.pool.allocator()):
            self.function(device.cupy, operands, results, self.attributes)


@dataclass(slots=True, eq=False)
class LibraryCommand(Command):
    """Call a routine of the vendor's libraries, which puts its work on a stream; operands: numbers,
    and where memory is. `captured`: it may be part of a graph."""

    routine: Callable[..., None]
    operands: Sequence[Any]
    captured: bool
    nodes: int | None = field(init=False)
    bases: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = 1 if self.captured else None
        self.bases = frozenset(o.base for o in self.operands if isinstance(o, Place))

    def run(self, run: Run) -> None:
        bases = run.bases
        values = [o.address(bases) if isinstance(o, Place) else o for o in self.operands]
        self.routine(run.stream.ptr, *values)


@dataclass(slots=True, eq=False)
class RepeatCommand(Command):
    """Run a body so many times: a loop whose number of trips is known."""

    trips: int
    body: Sequence[Command]
    nodes: int | None = field(init=False)
    bases: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        nodes = nodes_of(self.body)
        self.nodes = None if nodes is None else self.trips * nodes
        self.bases = bases_of(self.body)

    def run(self, run: Run) -> None:
        for _ in range(self.trips):
            for command in self.body:
                command.run(run)

    def steps(self, run: Run) -> Iterator[Any]:
        for _ in range(self.trips):
            for command in self.body:
                yield from command.steps(run)


@dataclass(slots=True, eq=False)
class WhileCommand(Waiting):
    """Run the body as long as the condition leaves a true value: the host looks at each one."""

    condition: Sequence[Command]
    predicate: Place
    body: Sequence[Command]

    def steps(self, run: Run) -> Iterator[Any]:
        while True:
            for command in self.condition:
                yield from command.steps(run)
            yield None
            if not run.device.to_host(self.predicate.address(run.bases), 1)[0]:
                return
            for command in self.body:
                yield from command.steps(run)


@dataclass(slots=True, eq=False)
class IfCommand(Waiting):
    """Run one branch, when the host has seen which."""

    selector: Place
    shape: Shape
    branches: Sequence[Sequence[Command]]

    def steps(self, run: Run) -> Iterator[Any]:
        yield None
        selected, last = read(run, self.selector, self.shape).item(), len(self.branches) - 1
        if self.shape.element_type is PrimitiveType.PRED:
            chosen = 0 if selected else 1
        else:
            chosen = selected if 0 <= selected <= last else last
        for command in self.branches[chosen]:
            yield from command.steps(run)


def nodes_of(commands: Sequence[Command]) -> int | None:
    """Of all together; None if one cannot be part of a graph."""
    total = 0
    for command in commands:
        if command.nodes is None:
            return None
        total += command.nodes
    return total


def bases_of(commands: Sequence[Command]) -> frozenset[int]:
    return frozenset().union(*[command.bases for command in commands])


def read(run: Run, place: Place, shape: Shape) -> np.ndarray:
    """An array of a run, when it is computed."""
    data = run.device.to_host(place.address(run.bases), shape.byte_size)
    array = data.view(shape.element_type.numpy_dtype).reshape(shape.dimensions)
    array.flags.writeable = False
    return array


def _zeros(shape: Shape) -> np.ndarray:
    return np.zeros(shape.dimensions, shape.element_type.numpy_dtype)
