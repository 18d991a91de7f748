"""What makes a Collective step valid by itself: its participants, its shapes, its kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from xla_backend.hlo.exchanges import COLLECTIVES, Exchange
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.topology import Topology
from xla_backend.kernels.builder import real_type
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel
from xla_backend.program.ir import Collective, launched_buffers

_NEED_DIMENSION = (Opcode.ALL_GATHER, Opcode.REDUCE_SCATTER)
_COMBINED = [(BufferRole.OPERAND, 0), (BufferRole.OPERAND, 1), (BufferRole.OUTPUT, 0)]


def problem(step: Collective, topology: Topology, kernels: Sequence[Kernel]) -> str | None:
    """What is wrong with a step; `kernels`: those that its combiners name."""
    if step.exchange.opcode not in COLLECTIVES:
        return f"{step.exchange.opcode} is no collective"
    found = _participants(step.exchange, topology), _shapes(step), _combiners(step, kernels)
    return next((text for texts in found for text in texts), None)


# -- participants ----------------------------------------------------------------------------------


def _participants(x: Exchange, topology: Topology) -> Iterator[str]:
    numbers = [number for group in x.groups for number in group]
    if not all(x.groups):
        yield "a group has no members"
    for number in numbers:
        if not 0 <= number < topology.size:
            yield f"a group names participant {number}, there are {topology.size}"
    for number in _repeated(numbers):
        yield f"groups name participant {number} twice"
    for number in _repeated([source for source, _ in x.pairs]):
        yield f"pairs name source {number} twice"
    for number in _repeated([target for _, target in x.pairs]):
        yield f"pairs name target {number} twice"
    if x.opcode is Opcode.COLLECTIVE_PERMUTE:
        if len(x.groups) > 1 or set(numbers) != {number for pair in x.pairs for number in pair}:
            yield "its group must have the participants that pairs name"
    elif x.pairs:
        yield f"{x.opcode} has no pairs"


def _repeated(numbers: Sequence[int]) -> list[int]:
    return [number for number, count in Counter(numbers).items() if count > 1]


# -- shapes ----------------------------------------------------------------------------------------


def _shapes(step: Collective) -> Iterator[str]:
    x = step.exchange
    operands, results = ([s.shape for s in part] for part in (step.operands, step.results))
    dimension = x.dimension
    if dimension is None and x.opcode in _NEED_DIMENSION:
        yield f"{x.opcode} needs a dimension"
    elif dimension is not None and not all(0 <= dimension < s.rank for s in operands):
        yield f"dimension {dimension} is none of {_text(operands)}"
    for size in {len(group) for group in x.groups} or {1}:
        wanted = _results(x, operands, size)
        if wanted is None:
            yield f"{x.opcode} of {_text(operands)} cannot be among {size} participants"
        elif len(wanted) != len(results) or not all(map(Shape.compatible, wanted, results)):
            yield (
                f"{x.opcode} of {_text(operands)} among {size} participants gives "
                f"{_text(wanted)}, not {_text(results)}"
            )


def _text(shapes: Sequence[Shape]) -> str:
    return f"({', '.join(map(str, shapes))})"


def _results(x: Exchange, operands: Sequence[Shape], size: int) -> Sequence[Shape] | None:
    """The shapes of the results in a group of `size`; None if the operands cannot be."""
    axis = x.dimension
    if x.opcode is Opcode.RAGGED_ALL_TO_ALL:
        return operands[1:2] if len(operands) == 6 else None
    if x.opcode is Opcode.ALL_TO_ALL and (len(operands) != (size if axis is None else 1)):
        return None
    if axis is None or x.opcode is Opcode.ALL_REDUCE:
        return operands
    if x.opcode is Opcode.ALL_GATHER:
        return [_with_size(s, axis, s.dimensions[axis] * size) for s in operands]
    if any(s.dimensions[axis] % size for s in operands):
        return None
    if x.opcode is Opcode.REDUCE_SCATTER:
        return [_with_size(s, axis, s.dimensions[axis] // size) for s in operands]
    return operands


def _with_size(shape: Shape, axis: int, size: int) -> Shape:
    dims = list(shape.dimensions)
    dims[axis] = size
    return shape.with_dimensions(tuple(dims))


# -- kernels ---------------------------------------------------------------------------------------


def _combiners(step: Collective, kernels: Sequence[Kernel]) -> Iterator[str]:
    wanted = len(step.operands) if step.exchange.reduces else 0
    if len(kernels) != wanted:
        yield f"{step.exchange.opcode} has {len(kernels)} combiners, expected {wanted}"
    for kernel, result in zip(kernels, step.results):
        buffers = launched_buffers(kernel)
        if [(b.role, b.number) for b in buffers] != _COMBINED:
            yield f"kernel {kernel.name!r} does not make one array of two"
        for buffer in buffers:
            if not _holds(buffer, result.shape):
                has = f"{buffer.element_type}[{buffer.size}]"
                yield (
                    f"{buffer.name} of kernel {kernel.name!r} is {has}, combined are arrays "
                    f"{result.shape}"
                )


def _holds(buffer: Buffer, shape: Shape) -> bool:
    type = buffer.element_type  # a complex array's is that of its parts
    return type is real_type(shape.element_type) and buffer.size * type.byte_size == shape.byte_size
