"""The memory of a kernel that is interpreted: what buffers hold, which of their elements have been
written, and who accessed them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, LoopKind
from xla_backend.kernels.races import (
    Access,
    AccessLog,
    Axis,
    OutOfBoundsError,
    Place,
    RaceError,
    Region,
    UnwrittenReadError,
    regions_of,
)

Axes = Sequence[Axis]
Position = Callable[[], dict[str, int]]


class Memory:
    """Buffers as flat arrays of reals, and the rules for accesses to them."""

    def __init__(
        self,
        kernel: Kernel,
        operands: Sequence[np.ndarray],
        count: Callable[[Buffer], int],
        given: Mapping[Buffer, np.ndarray],
    ) -> None:
        """`given`: memory of the caller, who knows what has been written in it."""
        self.kernel = kernel
        self.arrays: dict[Buffer, np.ndarray] = dict(given)
        self._written: dict[Buffer, np.ndarray] = {}  # of buffers that begin with nothing in them
        self._logs: dict[Buffer, AccessLog] = {}  # by the buffer that stands for the memory
        self._in_grid = False
        self._block = self._phase = 0
        for buffer in kernel.buffers:
            dtype = buffer.element_type.numpy_dtype
            if buffer in given:
                continue
            if buffer.role is BufferRole.OPERAND:
                self.arrays[buffer] = _flat(operands[buffer.number], dtype)
            elif buffer.role is BufferRole.CONSTANT:
                assert buffer.data is not None
                self.arrays[buffer] = _flat(buffer.data, dtype)
            elif buffer.role is BufferRole.OUTPUT and buffer.number in kernel.in_place:
                self.arrays[buffer] = _flat(operands[kernel.in_place[buffer.number]], dtype)
            elif buffer.role.is_global:
                self._empty(buffer, count(buffer))
        self._regions = regions_of(self.arrays)

    def _empty(self, buffer: Buffer, size: int) -> None:
        self.arrays[buffer] = np.zeros(size, buffer.element_type.numpy_dtype)
        self._written[buffer] = np.zeros(size, bool)

    # -- order -------------------------------------------------------------------------------------

    def begin_stage(self) -> None:
        """All threads have finished what was before."""
        self._logs.clear()
        self._in_grid = False
        self._block = self._phase = 0

    def begin_block(self, number: int) -> None:
        """A block of a grid begins: memory of blocks and threads holds nothing."""
        self._in_grid = True
        self._block, self._phase = number, 0
        for buffer in self.kernel.buffers:
            if not buffer.role.is_global:
                self.arrays.pop(buffer, None)
                self._logs.pop(buffer, None)

    def barrier(self, own: Iterable[Buffer] = ()) -> None:
        """What follows comes after what threads of the block have done. `own`: buffers that belong
        to threads (or rounds) that are over."""
        self._phase += 1
        for buffer in own:
            self.arrays.pop(buffer, None)

    # -- accesses ----------------------------------------------------------------------------------

    def read(
        self,
        buffer: Buffer,
        at: ArrayLike,
        active: np.ndarray | None,
        axes: Axes,
        position: Position,
    ) -> np.ndarray:
        """Elements, one for each lane and thread; zero for those that are not `active` (None: all
        are)."""
        shape, flat, thread, chosen = self._spread(buffer, at, active, axes, position)
        self._check_written(buffer, flat, position, "read")
        self._log(buffer, flat, thread, axes, position, "read")
        elements = self.arrays[buffer][flat]
        if chosen is None:
            return elements.reshape(shape)
        result = np.zeros(shape, elements.dtype)
        result[chosen] = elements
        return result

    def write(
        self,
        buffer: Buffer,
        at: ArrayLike,
        active: np.ndarray | None,
        values: np.ndarray,
        axes: Axes,
        position: Position,
    ) -> None:
        """Write an element for each lane and thread that is `active`."""
        shape, flat, thread, chosen = self._spread(buffer, at, active, axes, position, values)
        if not _rising(flat) and np.unique(flat).size < flat.size:
            self._twice(buffer, flat, thread, axes, position)
        self._log(buffer, flat, thread, axes, position, "write")
        self.arrays[buffer][flat] = _chosen(values, shape, chosen)
        if buffer in self._written:
            self._written[buffer][flat] = True

    def update(
        self,
        buffer: Buffer,
        at: ArrayLike,
        active: np.ndarray | None,
        values: np.ndarray,
        combine: Callable[[np.ndarray, np.ndarray], np.ndarray],
        axes: Axes,
        position: Position,
    ) -> None:
        """Combine a value into an element for each active lane and thread, one after another."""
        shape, flat, thread, chosen = self._spread(buffer, at, active, axes, position, values)
        self._check_written(buffer, flat, position, "updated")
        self._log(buffer, flat, thread, axes, position, "update")
        array = self.arrays[buffer]
        for element, value in zip(flat, _chosen(values, shape, chosen)):
            array[element] = combine(array[element], value)

    def _check_written(
        self, buffer: Buffer, flat: np.ndarray, position: Position, what: str
    ) -> None:
        written = self._written.get(buffer)
        if written is not None and not written[flat].all():
            element = int(flat[np.argmin(written[flat])])
            raise UnwrittenReadError(
                f"{self._name(buffer, element)} is {what} at [{_text(position)}], and nothing has "
                f"written it"
            )

    def _spread(
        self,
        buffer: Buffer,
        at: ArrayLike,
        active: np.ndarray | None,
        axes: Axes,
        position: Position,
        values: np.ndarray | None = None,
    ) -> tuple[tuple[int, ...], np.ndarray, np.ndarray, np.ndarray | None]:
        """(shape, elements, numbers of threads, which of the shape take part (None: all)): the
        accesses that a statement makes. What is the same in all lanes is one access; threads make
        one each."""
        at = np.asarray(at, np.int64)
        held = () if values is None else values.shape
        count, chosen = 1, None
        if active is None and held in ((), at.shape) and not _threads(axes):
            shape, flat = at.shape, at.reshape(-1)
            thread = np.zeros(flat.size, np.int64)
        else:
            extents = [1 if axis.kind is LoopKind.LANES else axis.extent for axis in axes]
            count = prod(extents)
            taking = np.asarray(True) if active is None else active
            shape = np.broadcast_shapes(at.shape, taking.shape, held, tuple(extents))
            chosen = _spread_to(taking, shape)
            flat = np.atleast_1d(_spread_to(at, shape)[chosen])
            if count == 1:
                thread = np.zeros(flat.size, np.int64)
            else:
                numbers = np.arange(count).reshape(extents)
                thread = np.atleast_1d(_spread_to(numbers, shape)[chosen])
        private = buffer.role in (BufferRole.LOCAL, BufferRole.REGISTERS)
        size = buffer.size if not buffer.role.is_global else self.arrays[buffer].size
        outside = flat.view(np.uint64) >= size  # negative ones are large
        if outside.any():
            n = int(np.argmax(outside))
            raise OutOfBoundsError(
                f"{self._name(buffer, int(flat[n]))} is accessed at [{_text(position)}], and the "
                f"buffer has {size} elements"
            )
        if buffer not in self.arrays:
            self._empty(buffer, size * (count if private else 1))
        if private:
            flat = flat + thread * size
            if flat.size and flat.max() >= self.arrays[buffer].size:
                raise OutOfBoundsError(
                    f"{self._name(buffer, 0)} belongs to threads of another loop, at "
                    f"[{_text(position)}]"
                )
        return shape, flat, thread, chosen

    def _log(
        self,
        buffer: Buffer,
        flat: np.ndarray,
        thread: np.ndarray,
        axes: Axes,
        position: Position,
        how: str,
    ) -> None:
        threads = _threads(axes)
        own = buffer.role in (BufferRole.LOCAL, BufferRole.REGISTERS)
        if own or not flat.size or not (self._in_grid or threads):
            return
        region = self._regions.get(buffer)
        if region is None:  # memory of a block
            region = Region(buffer, buffer, 0, 1, self.arrays[buffer].size, True)
        if not region.is_written:
            return
        log = self._logs.get(region.memory)
        if log is None:
            log = self._logs[region.memory] = AccessLog(self.kernel.name, region.size)
        access = Access(region, Place(self._block, self._phase, position()), threads)
        if how == "read":
            log.read(flat, thread, access)
        else:
            log.write(flat, thread, access, atomic=how == "update")

    def _twice(
        self,
        buffer: Buffer,
        flat: np.ndarray,
        thread: np.ndarray,
        axes: Axes,
        position: Position,
    ) -> None:
        order = np.argsort(flat, kind="stable")
        n = int(np.argmax(flat[order][1:] == flat[order][:-1]))
        first, second = order[n], order[n + 1]
        threads = _threads(axes)
        here = Place(self._block, self._phase, position())
        one, other = here.text(int(thread[first]), threads), here.text(int(thread[second]), threads)
        if one == other:
            who = "two lanes"
        else:
            rounds = all(axis.kind is LoopKind.SERIAL for axis in threads)
            who = "two independent rounds" if rounds else "two threads"
        raise RaceError(
            f"{self._name(buffer, int(flat[first]))} is written at [{one}] and at [{other}] by "
            f"{who} of one statement: give each its own elements"
        )

    def _name(self, buffer: Buffer, element: int) -> str:
        return f"kernel {self.kernel.name!r}: element {element} of buffer {buffer.name}"


def _threads(axes: Axes) -> tuple[Axis, ...]:
    """The axes of threads, and of rounds that run as if they were threads."""
    return tuple(axis for axis in axes if axis.kind is not LoopKind.LANES)


def _rising(flat: np.ndarray) -> bool:
    """Whether elements are in order, and so all different: cheaper to find out than the latter."""
    return flat.size < 2 or bool((flat[1:] > flat[:-1]).all())


def _spread_to(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return array if array.shape == shape else np.broadcast_to(array, shape)


def _chosen(values: np.ndarray, shape: tuple[int, ...], chosen: np.ndarray | None) -> np.ndarray:
    spread = _spread_to(values, shape)
    return spread.reshape(-1) if chosen is None else np.atleast_1d(spread[chosen])


def _text(position: Position) -> str:
    return ", ".join(f"{name}={value}" for name, value in position().items())


def _flat(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    array = np.ascontiguousarray(array)
    return array.reshape(-1).view(dtype).copy()
