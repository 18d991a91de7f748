"""What each opcode is on a device's parts: itself on parts, or what makes that of it."""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.hlo.attributes import IotaAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
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
    return x.written()


def _iota(x: OnParts) -> Instruction:
    """Counted from the part's position."""
    a, made = x.node.attributes, x.written()
    assert isinstance(a, IotaAttributes)
    axes = x.results[0].dims[a.dimension]
    if not axes:
        return made
    start = x.b.position(axes, made.shape.dimensions[a.dimension])
    start = x.b.convert(start, made.shape.element_type)
    return x.b.binary(Opcode.ADD, made, x.b.broadcast(start, made.shape.dimensions, ()))


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
