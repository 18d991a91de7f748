"""Fourier transforms of several dimensions of which one is cut: one after the other, so that each
has its own dimension whole while others are cut."""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.hlo.attributes import FftAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.emit import Emit
from xla_backend.spmd.factor_rules import factors_of
from xla_backend.spmd.factors import choose, take_strays
from xla_backend.spmd.plan import Plan


def split_transforms(plan: Plan) -> bool:
    """Transforms that would be done as a whole by everybody -> transforms of one dimension each,
    in the module of a plan; True iff there were such, and the plan is one of what was."""
    changed = False
    for computation in plan.values.computations:
        for node in computation.post_order(Opcode.FFT):
            a = node.attributes
            assert isinstance(a, FftAttributes)
            if len(a.fft_length) > 1 and _is_gathered(plan, node):
                computation.replace(node, _one_by_one(node, a))
                changed = True
    return changed


def _is_gathered(plan: Plan, node: Instruction) -> bool:
    """Whether axes along which it is cut find no other dimension."""
    factors = factors_of(node)
    assert factors is not None
    values = [plan.values.of(node.operands[0])[0], plan.values.of(node)[0]]
    own, shapes = [plan.spec(value) for value in values], [value.shape for value in values]
    known = [factors.axes(k, spec, shapes[k], plan.mesh) for k, spec in enumerate(own)]
    chosen = choose(factors, known, shapes)
    take_strays(chosen, factors, own, plan.mesh)
    return not own[0].axes <= {axis for axes in chosen.values() for axis in axes}


def _one_by_one(node: Instruction, a: FftAttributes) -> Instruction:
    b, x = Emit(node), node.operands[0]
    rank, last = node.shape.rank, node.shape.rank - 1
    for kind, place in _order(a):
        d = rank - len(a.fft_length) + place
        order = [last if k == d else d if k == last else k for k in range(rank)]
        x = x if d == last else b.transpose(x, order)
        x = _transformed(b, x, kind, a.fft_length[place])
        x = x if d == last else b.transpose(x, order)
    x.annotations = node.annotations  # how the result is cut
    return x


def _order(a: FftAttributes) -> Iterator[tuple[str, int]]:
    """Kinds of transforms, and which of the dimensions each is of: the real one is of the last
    dimension, in front of all others or, if it is inverse, behind."""
    last = len(a.fft_length) - 1
    others = {"RFFT": "FFT", "IRFFT": "IFFT"}.get(a.fft_type, a.fft_type)
    if a.fft_type != "IRFFT":
        yield a.fft_type, last
    for place in reversed(range(last)):
        yield others, place
    if a.fft_type == "IRFFT":
        yield a.fft_type, last


def _transformed(b: Emit, x: Instruction, kind: str, length: int) -> Instruction:
    dims = x.shape.dimensions
    type = x.shape.element_type
    if kind == "RFFT":
        type = PrimitiveType.C64 if type is PrimitiveType.F32 else PrimitiveType.C128
        dims = (*dims[:-1], length // 2 + 1)
    elif kind == "IRFFT":
        type = PrimitiveType.F32 if type is PrimitiveType.C64 else PrimitiveType.F64
        dims = (*dims[:-1], length)
    shape = Shape.array(type, dims)
    return b.add(Opcode.FFT, (x,), FftAttributes(kind, (length,)), shape=shape)
