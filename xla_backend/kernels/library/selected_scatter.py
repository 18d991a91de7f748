"""The kernel of select-and-scatter: a stage that finds the selected element of each window, and one
that gathers, for each element, what comes to it from the windows around it, in their order."""

from __future__ import annotations

from xla_backend.hlo.attributes import WindowDimension
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.elemental import Element, ElementalEmitter, parts
from xla_backend.kernels.from_hlo.lower import begin
from xla_backend.kernels.from_hlo.scatters import meets, selected_place
from xla_backend.kernels.index import Index, delinearize, linearize
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, Value
from xla_backend.kernels.library.places import Places, for_each, guard_of

P = PrimitiveType


def select_and_scatter_kernel(name: str, node: Instruction) -> Kernel:
    """`out0` from the operand `p0`, the source `p1` and the initial value `p2`."""
    e, _, (output,) = begin(node, name)
    b = e.builder
    operand, source, start = node.operands
    dims, windows = operand.shape.dimensions, attrs(node).window
    if 0 in dims:
        return b.kernel
    if not all(map(meets, dims, source.shape.dimensions, windows)):
        with for_each(b, operand.shape.num_elements) as at:
            e.store(output, at, e.value(start, ()))
        return b.kernel
    places = Places(b, operand.shape.num_elements)
    count = source.shape.num_elements
    selected = b.buffer("selected", places.type, count, BufferRole.SCRATCH)
    with for_each(b, count) as window:
        found, place = selected_place(e, node, delinearize(window, source.shape.dimensions))
        b.store(selected, window, (places.select(found, place, -1),))
    with for_each(b, operand.shape.num_elements) as at:
        e.store(output, at, _gathered(e, node, selected, places, at))
    return b.kernel


def _gathered(
    e: ElementalEmitter, node: Instruction, selected: Buffer, places: Places, at: Index
) -> Element:
    """An element of the result: of the windows that hold it, those that selected it."""
    b = e.builder
    operand, source, start = node.operands
    source_dims = source.shape.dimensions
    carried = parts(e.value(start, ()))
    window: list[Index] = []
    inside: Value | bool | None = None
    loops = 0
    position = delinearize(at, operand.shape.dimensions)
    for p, count, w in zip(position, source_dims, attrs(node).window):
        first, around = _windows_around(p, w)
        turn: Index | None = None
        if around > 1:
            turn, carried = b.open_loop(around, inits=carried)
            loops += 1
        here = first if turn is None else first + turn
        window.append(here)
        inside = b.conjunction(inside, b.in_range(here, 0, count))
    number = linearize(window, source_dims)
    guard = guard_of(b, inside)
    is_it = places.equal(b.load(selected, number, guard), places.of(at))
    taken = guard_of(b, inside, is_it)
    with e.guarded(taken):
        new = e.value(source, tuple(window))
    held: Element = (carried[0], carried[1]) if len(carried) == 2 else carried[0]
    result = e.apply(node.called[1], [held, new])
    assert taken is not None
    values = parts(e.select(taken, result, held))
    for _ in range(loops):
        values = b.close_loop(values)
    return (values[0], values[1]) if len(values) == 2 else values[0]


def _windows_around(p: Index, w: WindowDimension) -> tuple[Index, int]:
    """The first window that may hold an element at p, and how many there are; some of them may
    not, or may not exist."""
    reach = (w.size - 1) * w.window_dilation
    begin = p * w.base_dilation + w.padding_low - reach
    first = (begin + (w.stride - 1)) // w.stride
    return first, reach // w.stride + 1
