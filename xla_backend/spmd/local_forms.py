"""What each opcode is on a device's parts: itself on parts, or what makes that of it."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.attributes import DimensionsAttributes, IotaAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.spmd import indexed, rearranged, windows
from xla_backend.spmd.on_parts import OnParts


def local_form(x: OnParts) -> Instruction:
    """The part of the result, or of the sum that makes it."""
    return _FORMS.get(x.node.opcode, OnParts.written)(x)


def _dot(x: OnParts) -> Instruction:
    for k in (0, 1):
        x.fill_padding(k)
    return x.written()


def _reduce(x: OnParts) -> Instruction:
    arrays = len(x.operands) // 2
    for k in range(arrays):
        x.fill_padding(k, x.operands[arrays + k])
    made = x.written()
    return made if arrays == 1 or not x.partial() else _chosen(x, made)


def _chosen(x: OnParts, made: Instruction) -> Instruction:
    """Of several arrays, what all devices have found in their parts, reduced once more."""
    b, count = x.b, len(x.operands) // 2
    gathered = []
    for k in range(count):
        own = b.gte(made, k)
        one = b.reshape(own, (1, *own.shape.dimensions))
        gathered.append(b.all_gather(one, 0, x.partial()))
    x.joined = True
    return x.write([*gathered, *x.operands[count:]], made.shape, DimensionsAttributes((0,)))


def _iota(x: OnParts) -> Instruction:
    """Counted from the part's position; numbers are rounded once, at the end."""
    a, shape = x.node.attributes, x.shape
    assert isinstance(a, IotaAttributes)
    axes = x.results[0].dims[a.dimension]
    if not axes:
        return x.written()
    b, dims = x.b, shape.dimensions
    type = shape.element_type
    exact = type if type.is_integral else PrimitiveType.S32
    start = b.convert(b.position(axes, dims[a.dimension]), exact)
    numbers = b.iota(Shape.array(exact, dims), a.dimension)
    return b.convert(b.binary(Opcode.ADD, numbers, b.broadcast(start, dims, ())), type)


_FORMS: dict[Opcode, Callable[[OnParts], Instruction]] = {
    Opcode.CONCATENATE: rearranged.concatenate,
    Opcode.CONVOLUTION: windows.convolution,
    Opcode.DOT: _dot,
    Opcode.DYNAMIC_SLICE: indexed.dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: indexed.dynamic_update_slice,
    Opcode.GATHER: indexed.gather,
    Opcode.IOTA: _iota,
    Opcode.PAD: rearranged.pad,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: windows.reduce_window,
    Opcode.REVERSE: rearranged.reverse,
    Opcode.SCATTER: indexed.scatter,
    Opcode.SLICE: rearranged.slice_,
}
