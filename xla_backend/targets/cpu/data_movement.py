"""Small programs that only move data, as lists of moves: nothing is compiled for them.

Each array is seen as a view of a buffer: an argument, a constant, a result or a temporary.
Transposing, slicing, reversing or broadcasting makes another view of the same buffer; what joins
arrays (concatenate, pad, an update at one place) makes a new buffer, and moves into it. Where a
slice begins, and where an update goes, may be scalars that are known when the program runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    ScatterAttributes,
    SliceAttributes,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.targets.cpu.routines.move_tables import (
    ABSOLUTE,
    ELEMENT_BYTES,
    RANK,
    Lookup,
    Move,
    Place,
    number_of_result,
)

# Larger ones are worth code of their own, for their strides and for several threads, if they are
# used again: it takes as long to make as many runs of the moves.
_SMALL_BYTES = 1 << 16
_SMALL_STEPS = 6000
# At most, for one run.
_MOST_BYTES = 1 << 22
_MOST_STEPS = 1 << 20
_MOST_INSTRUCTIONS = 64


class OtherProgramError(Exception):
    """It is not a small program that only moves data."""


class Buffer:
    """A block of memory of the program. Equal by identity.

    Attributes:
      nbytes, element: its size, and that of an element.
      holds_integers: whether these are signed integers of at least four bytes.
      argument: the number of the argument that it is, if it is one.
      constant: what it holds, if that is known.
    """

    def __init__(
        self, shape: Shape, argument: int | None = None, constant: np.ndarray | None = None
    ) -> None:
        self.nbytes = shape.byte_size
        self.element = shape.element_type.numpy_dtype.itemsize
        self.holds_integers = shape.element_type in (PrimitiveType.S32, PrimitiveType.S64)
        self.argument = argument
        self.constant = constant


class Index(NamedTuple):
    """An integer that is known when the program runs, between 0 and `most`: others are clamped, or
    what they are the place of is not moved."""

    scalar: View
    most: int
    drops: bool


class View(NamedTuple):
    """An array in a buffer.

    Fields:
      offset: of its first element, in bytes, without `indices`: what each of these adds is its
        value times a step.
      steps: from one element to the next along each dimension, in bytes.
    """

    buffer: Buffer
    offset: int
    dims: tuple[int, ...]
    steps: tuple[int, ...]
    indices: tuple[tuple[Index, int], ...] = ()

    def part(self, starts: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> View:
        """Every `stride`-th element from a start on."""
        offset = self.offset + sum(a * b for a, b in zip(starts, self.steps))
        steps = tuple(a * b for a, b in zip(strides, self.steps))
        return View(self.buffer, offset, tuple(sizes), steps, self.indices)

    def at(self, starts: Sequence[View], sizes: Sequence[int], *, drops: bool = False) -> View:
        """Neighbouring elements from a place on; `drops`: as in `Index`."""
        found = []
        for start, size, most, step in zip(starts, sizes, self.dims, self.steps):
            if not start.is_scalar_integer:
                raise OtherProgramError
            found.append((Index(start, most - size, drops), step))
        whole = self.part((0,) * len(sizes), sizes, (1,) * len(sizes))
        return whole._replace(indices=(*self.indices, *found))

    @property
    def is_scalar_integer(self) -> bool:
        return self.buffer.holds_integers and not self.dims and not self.indices

    def reversed(self, dimensions: Sequence[int]) -> View:
        flipped = [d in dimensions for d in range(len(self.dims))]
        starts = [(n - 1) * f for n, f in zip(self.dims, flipped)]
        return self.part(starts, self.dims, [-1 if f else 1 for f in flipped])

    def transposed(self, permutation: Sequence[int]) -> View:
        dims = tuple(self.dims[d] for d in permutation)
        return self._replace(dims=dims, steps=tuple(self.steps[d] for d in permutation))

    def broadcast(self, dims: tuple[int, ...], places: Sequence[int]) -> View:
        """Dimension i of this becomes number `places[i]` of `dims`; others repeat it."""
        steps = [0] * len(dims)
        for d, place in enumerate(places):
            steps[place] = self.steps[d] if self.dims[d] == dims[place] else 0
        return self._replace(dims=dims, steps=tuple(steps))

    def reshaped(self, dims: tuple[int, ...]) -> View | None:
        """The same elements in row-major order; None: no steps give that order."""
        runs = self._dense_runs()
        steps: list[int] = []
        for size in reversed(dims):
            if size == 1:
                steps.append(0)
                continue
            while runs and runs[-1][0] == 1:
                runs.pop()
            if not runs or runs[-1][0] % size:
                return None
            left, step = runs.pop()
            steps.append(step)
            runs.append((left // size, step * size))
        return self._replace(dims=dims, steps=tuple(reversed(steps)))

    def _dense_runs(self) -> list[tuple[int, int]]:
        """Sizes and steps, with neighbours joined that are one dimension."""
        runs: list[tuple[int, int]] = []
        for size, step in zip(self.dims, self.steps):
            if size == 1:
                continue
            if runs and runs[-1][1] == size * step:
                runs[-1] = (runs[-1][0] * size, step)
            else:
                runs.append((size, step))
        return runs

    def is_whole(self, buffer: Buffer) -> bool:
        """Whether it is all of the buffer, in row-major order."""
        size = math.prod(self.dims) * buffer.element
        if self.buffer is not buffer or size != buffer.nbytes or self.indices:
            return False
        steps = [step for _, step in self._dense_runs()]
        return not self.offset and steps in ([], [buffer.element])


class Movement(NamedTuple):
    """A program of moves.

    Fields:
      moves: in their order; results behind the outputs are temporaries.
      temporaries: their sizes in bytes.
      constants: what sources with an address are in.
      is_small: whether code of its own would gain nothing.
    """

    moves: tuple[Move, ...]
    temporaries: tuple[int, ...]
    constants: tuple[np.ndarray, ...]
    is_small: bool


def find_movement(module: HloModule) -> Movement | None:
    """The moves of a module; None if it does anything else, or is better compiled."""
    entry = module.entry
    assert entry is not None
    if module.aliases or module.num_partitions * module.replica_count > 1 or module.entry_layout:
        return None
    if sum(map(len, module.computations)) > _MOST_INSTRUCTIONS:
        return None
    try:
        return _Reader(entry).movement()
    except OtherProgramError:
        return None


class _Reader:
    def __init__(self, entry: Computation) -> None:
        self.entry = entry
        self.copies: list[tuple[View, View]] = []  # from, to
        self.constants: list[np.ndarray] = []

    def movement(self) -> Movement:
        outputs = self.entry.outputs
        if any(node.opcode not in _MOVES for node in outputs):  # the end of most other programs
            raise OtherProgramError
        shapes = [_checked(node.shape) for node in outputs]
        if sum(s.byte_size for s in shapes) > _MOST_BYTES:
            raise OtherProgramError
        arguments = [
            _whole(Buffer(_checked(p.shape), argument=k), p.shape)
            for k, p in enumerate(self.entry.parameters)
        ]
        values = self.run(self.entry, arguments)
        results: list[Buffer] = []
        for shape, view in zip(shapes, values, strict=True):
            if not view.is_whole(view.buffer) or view.buffer in results or _is_given(view.buffer):
                view = self.copied(view, shape)
            results.append(view.buffer)
        return self._planned(results)

    def _planned(self, results: list[Buffer]) -> Movement:
        made = dict.fromkeys(target.buffer for _, target in self.copies)
        temporaries = [buffer for buffer in made if buffer not in results]
        nbytes = sum(buffer.nbytes for buffer in made)
        if nbytes > 2 * _MOST_BYTES:
            raise OtherProgramError
        planner = _Planner({buffer: k for k, buffer in enumerate([*results, *temporaries])})
        moves = [planner.move(*copy) for copy in self.copies if 0 not in copy[1].dims]
        steps = sum(map(_steps, moves))
        if steps > _MOST_STEPS:
            raise OtherProgramError
        is_small = nbytes <= _SMALL_BYTES and steps <= _SMALL_STEPS
        sizes = tuple(b.nbytes for b in temporaries)
        return Movement(tuple(moves), sizes, tuple(self.constants), is_small)

    def run(self, computation: Computation, arguments: Sequence[View]) -> list[View]:
        """The views of what a computation gives."""
        values: dict[Instruction, View] = {}
        for node in computation.post_order():
            if node is computation.root and node.opcode is Opcode.TUPLE:
                break
            if node.opcode is Opcode.PARAMETER:
                values[node] = arguments[node.parameter_number]
            elif node.opcode is Opcode.CONSTANT:
                values[node] = self.constant(node)
            elif node.opcode is Opcode.CALL and not node.shape.is_tuple:
                (values[node],) = self.run(node.called[0], [values[o] for o in node.operands])
            else:
                rule = _RULES.get(node.opcode)
                if rule is None:
                    raise OtherProgramError
                _checked(node.shape)
                view = rule(self, node, *[values[o] for o in node.operands])
                if view is None:
                    raise OtherProgramError
                values[node] = view
        return [values[node] for node in computation.outputs]

    def constant(self, node: Instruction) -> View:
        array = np.ascontiguousarray(node.literal_array)
        self.constants.append(array)
        return _whole(Buffer(_checked(node.shape), constant=array), node.shape)

    def fresh(self, shape: Shape) -> View:
        """An array in a buffer of its own."""
        if shape.byte_size > _MOST_BYTES:
            raise OtherProgramError
        return _whole(Buffer(shape), shape)

    def move(self, source: View, target: View) -> None:
        self.copies.append((source, target))

    def copied(self, view: View, shape: Shape) -> View:
        target = self.fresh(shape)
        self.move(view, target)
        return target


def _is_given(buffer: Buffer) -> bool:
    return buffer.argument is not None or buffer.constant is not None


def _checked(shape: Shape) -> Shape:
    """A shape of plain arrays of whole bytes."""
    plain = shape.is_array and not shape.dynamic and shape.layout is None
    if not plain or shape.layout_details is not None:
        raise OtherProgramError
    element = shape.element_type.numpy_dtype.itemsize
    if element not in ELEMENT_BYTES or shape.num_elements * element != shape.byte_size:
        raise OtherProgramError
    return shape


def _whole(buffer: Buffer, shape: Shape) -> View:
    steps, step = [], buffer.element
    for size in reversed(shape.dimensions):
        steps.append(step)
        step *= size
    return View(buffer, 0, shape.dimensions, tuple(reversed(steps)))


# -- rules -----------------------------------------------------------------------------------------


def _dimensions(node: Instruction) -> tuple[int, ...]:
    assert isinstance(node.attributes, DimensionsAttributes)
    return node.attributes.dimensions


def _slice(reader: _Reader, node: Instruction, x: View) -> View:
    a = node.attributes
    assert isinstance(a, SliceAttributes)
    return x.part(a.starts, node.shape.dimensions, a.strides)


def _reshape(reader: _Reader, node: Instruction, x: View) -> View:
    dims = node.shape.dimensions
    if 0 in dims:
        return _whole(x.buffer, node.shape)
    view = x.reshaped(dims)
    if view is None:
        view = reader.copied(x, node.operands[0].shape).reshaped(dims)
        assert view is not None
    return view


def _concatenate(reader: _Reader, node: Instruction, *xs: View) -> View:
    whole, (dimension,) = reader.fresh(node.shape), _dimensions(node)
    starts = [0] * len(whole.dims)
    for x in xs:
        reader.move(x, whole.part(starts, x.dims, (1,) * len(starts)))
        starts[dimension] += x.dims[dimension]
    return whole


def _pad(reader: _Reader, node: Instruction, x: View, value: View) -> View | None:
    a = node.attributes
    assert isinstance(a, PadAttributes)
    if min((*a.low, *a.high), default=0) < 0:
        return None
    whole = reader.fresh(node.shape)
    reader.move(value.broadcast(whole.dims, ()), whole)
    reader.move(x, whole.part(a.low, x.dims, [n + 1 for n in a.interior]))
    return whole


def _dynamic_slice(reader: _Reader, node: Instruction, x: View, *starts: View) -> View:
    a = node.attributes
    assert isinstance(a, DynamicSliceAttributes)
    return x.at(starts, a.sizes)


def _dynamic_update_slice(
    reader: _Reader, node: Instruction, x: View, update: View, *starts: View
) -> View:
    whole = reader.copied(x, node.shape)
    reader.move(update, whole.at(starts, update.dims))
    return whole


def _scatter(reader: _Reader, node: Instruction, *operands: View) -> View | None:
    """One update, at the place that a vector of indices is."""
    a = node.attributes
    assert isinstance(a, ScatterAttributes)
    if len(operands) != 3 or a.input_batching_dims or not _replaces(node.called[0]):
        return None
    x, indices, update = operands
    taken = len(update.dims) + len(a.inserted_window_dims)
    if len(indices.dims) != 1 or a.index_vector_dim or taken != len(x.dims):
        return None
    kept = [d for d in range(len(x.dims)) if d not in a.inserted_window_dims]
    window = [1] * len(x.dims)
    for d, size in zip(kept, update.dims, strict=True):
        window[d] = size
    whole = reader.copied(x, node.shape)
    target = whole.part((0,) * len(window), window, (1,) * len(window))
    for k, d in enumerate(a.scatter_dims_to_operand_dims):
        scalar = indices.part((k,), (1,), (1,)).reshaped(())
        if scalar is None or not scalar.is_scalar_integer:
            return None
        index = Index(scalar, x.dims[d] - window[d], drops=True)
        target = target._replace(indices=(*target.indices, (index, whole.steps[d])))
    reader.move(update.broadcast(tuple(window), kept), target)
    return whole


def _replaces(combiner: Computation) -> bool:
    """Whether it gives the update."""
    root = combiner.root
    return root is not None and root.opcode is Opcode.PARAMETER and root.parameter_number == 1


_Rule = Callable[..., "View | None"]
_RULES: dict[Opcode, _Rule] = {
    Opcode.BROADCAST: lambda _, node, x: x.broadcast(node.shape.dimensions, _dimensions(node)),
    Opcode.CONCATENATE: _concatenate,
    Opcode.COPY: lambda reader, node, x: x,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Opcode.PAD: _pad,
    Opcode.RESHAPE: _reshape,
    Opcode.REVERSE: lambda _, node, x: x.reversed(_dimensions(node)),
    Opcode.SCATTER: _scatter,
    Opcode.SLICE: _slice,
    Opcode.TRANSPOSE: lambda _, node, x: x.transposed(_dimensions(node)),
}
# What gives arrays in programs of moves.
_MOVES = _RULES.keys() | {Opcode.PARAMETER, Opcode.CONSTANT, Opcode.CALL}


# -- moves -----------------------------------------------------------------------------------------


def _steps(move: Move) -> int:
    """What a move costs, in copies of an element."""
    *outer, size = move.sizes
    dense = move.source_steps[-1] == move.target_steps[-1] == move.element
    return 20 + math.prod(outer) * (4 + (size * move.element // 16 if dense else size))


class _Planner:
    """Moves between buffers, by the numbers of these."""

    def __init__(self, place: dict[Buffer, int]) -> None:
        self.place = place

    def move(self, source: View, target: View) -> Move:
        """Its grid has as few dimensions as possible, the one that is densest in the target
        last."""
        dims = zip(target.dims, source.steps, target.steps)
        grid = sorted([dim for dim in dims if dim[0] != 1], key=lambda dim: -abs(dim[2]))
        joined: list[tuple[int, int, int]] = []
        for n, a, b in grid:
            if joined and joined[-1][1:] == (n * a, n * b):
                n *= joined.pop()[0]
            joined.append((n, a, b))
        if len(joined) > RANK:
            raise OtherProgramError
        sizes, source_steps, target_steps = zip(*[(1, 0, 0)] * (RANK - len(joined)), *joined)
        indices = [self._lookup(index, step, 0) for index, step in source.indices]
        indices += [self._lookup(index, 0, step) for index, step in target.indices]
        output = self.place[target.buffer]
        return Move(
            source.buffer.element, self._place(source), Place(output, target.offset), sizes,
            source_steps, target_steps, tuple(indices),
        )  # fmt: skip

    def _lookup(self, index: Index, source_step: int, target_step: int) -> Lookup:
        place, width = self._place(index.scalar), index.scalar.buffer.element
        return Lookup(place, width, index.most, int(index.drops), source_step, target_step)

    def _place(self, view: View) -> Place:
        """Where a view is read."""
        buffer = view.buffer
        if buffer.constant is not None:
            return Place(ABSOLUTE, buffer.constant.ctypes.data + view.offset)
        number = buffer.argument
        if number is None:
            number = number_of_result(self.place[buffer])
        return Place(number, view.offset)
