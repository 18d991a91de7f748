"""Windows that are none: of one element, over a whole dimension, over padding done before."""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    PadAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import IDEMPOTENT, binary_reducer, splat_value

_NEUTRAL = {Opcode.ADD: 0, Opcode.MULTIPLY: 1, Opcode.XOR: 0}


def _window(node: Instruction) -> tuple[WindowDimension, ...]:
    assert isinstance(node.attributes, WindowAttributes)
    return node.attributes.window


def _is_trivial(w: WindowDimension) -> bool:
    """Each element is a window of its own."""
    return w == WindowDimension(1, window_dilation=w.window_dilation, reversal=w.reversal)


def _is_whole(w: WindowDimension, size: int) -> bool:
    """One window holds the whole dimension."""
    return (
        w.size == size
        and not w.padding_low
        and not w.padding_high
        and w.base_dilation == w.window_dilation == 1
    )


def _whole_dimensions(node: Instruction) -> Instruction | None:
    """reduce-window over whole dimensions -> reduce."""
    if node.shape.is_tuple:
        return None
    x, init = node.operands
    sizes = x.shape.dimensions
    whole = [d for d, w in enumerate(_window(node)) if _is_whole(w, sizes[d]) and sizes[d] > 1]
    if not whole or not all(_is_trivial(w) for d, w in enumerate(_window(node)) if d not in whole):
        return None
    kept = [n for d, n in enumerate(sizes) if d not in whole]
    b = Emit(node)
    reduced = b.add(
        Opcode.REDUCE,
        (x, init),
        DimensionsAttributes(tuple(whole)),
        node.called,
        shape=node.shape.with_dimensions(kept),
    )
    return b.reshape(reduced, node.shape.dimensions)


def _padded_before(node: Instruction) -> Instruction | None:
    """reduce-window(pad(x, v)) starting from the same v -> reduce-window with more padding, which
    adds nothing to a window: v may not, either, however often it is there. A window as long as
    what is padded stays: prefixes and whole dimensions are known by that."""
    if node.shape.is_tuple or node.operands[0].opcode is not Opcode.PAD:
        return None
    pad, init = node.operands
    x, value = pad.operands
    padded = zip(_window(node), pad.shape.dimensions, x.shape.dimensions)
    if any(w.size >= size != inner for w, size, inner in padded):
        return None
    if value is not init and not _same_constant(value, init):
        return None
    if not _adds_nothing(node.called[0], init):
        return None
    window = merge_padding(pad, _window(node))
    if window is None:
        return None
    return Emit(node).add(
        Opcode.REDUCE_WINDOW, (x, init), WindowAttributes(window), node.called, shape=node.shape
    )


def _same_constant(a: Instruction, b: Instruction) -> bool:
    x, y = splat_value(a), splat_value(b)
    return x is not None and y is not None and x.tobytes() == y.tobytes()


def _adds_nothing(reducer: Computation, value: Instruction) -> bool:
    """Whether a reduction that starts with `value` stays as it is when it meets more of it."""
    opcode = binary_reducer(reducer)
    if opcode in IDEMPOTENT:
        return True
    if opcode is None or opcode not in _NEUTRAL or value.shape.element_type.is_complex:
        return False
    found = splat_value(value)
    return found is not None and bool(found == _NEUTRAL[opcode])


def merge_padding(
    pad: Instruction, window: tuple[WindowDimension, ...]
) -> tuple[WindowDimension, ...] | None:
    """The window over what `pad` pads that sees what `window` sees over the padded array; None if
    there is none (negative padding, or two dilations)."""
    a = pad.attributes
    assert isinstance(a, PadAttributes)
    merged = []
    for w, low, high, interior in zip(window, a.low, a.high, a.interior):
        if low < 0 or high < 0 or (interior and w.base_dilation != 1):
            return None
        # Padding lies outside the dilation of the base: b padded elements span b * dilation.
        if w.base_dilation != 1 and (low or high):
            return None
        merged.append(_with(w, low, high, interior))
    return tuple(merged)


def _with(w: WindowDimension, low: int, high: int, interior: int) -> WindowDimension:
    fields = {name: getattr(w, name) for name in w._fields}
    fields["padding_low"] += low
    fields["padding_high"] += high
    fields["base_dilation"] *= interior + 1
    return WindowDimension(**fields)


class AlgebraicWindowSimplifier(RuleTablePass):
    """reduce-window over whole dimensions -> reduce; padding before it -> its own padding.

    Why: global pooling is a reduction, which runs in vectors and in parallel; a padded copy of an
    image is a pass over memory.
    Needs: nothing.  Leaves: none of these.
    """

    name = "algebraic-window"
    rules = {Opcode.REDUCE_WINDOW: (_padded_before, _whole_dimensions)}
