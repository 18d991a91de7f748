"""Reductions: what is carried round the loops, how it is combined, and the element rules that
reduce on the way (reduce, reduce-window, dot and convolution inside a nest)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import ComparisonDirection
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.monoids import identity_of, monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import real_type
from xla_backend.kernels.from_hlo.attribute_access import attrs
from xla_backend.kernels.from_hlo.commutation import commutes, only_selects
from xla_backend.kernels.from_hlo.elemental import (
    Element,
    ElementalEmitter,
    Indices,
    handles,
    parts,
)
from xla_backend.kernels.from_hlo.first_extremes import direction_of, kept_or_later
from xla_backend.kernels.index import Index, constant
from xla_backend.kernels.ir import Combiner, Value

P = PrimitiveType


class Reduction:
    """How values are reduced: carried types, start, combination. Floats narrower than 32 bits are
    summed in f32. `direction`: the reduction looks for a first extreme (`first_extremes`)."""

    def __init__(
        self,
        e: ElementalEmitter,
        computation: Computation,
        types: Sequence[P],
        direction: ComparisonDirection | None = None,
    ) -> None:
        self.e = e
        self.computation = computation
        self.direction = direction
        self.types = list(types)
        self.opcode = monoid(computation) if len(types) == 1 else None
        self.widened = (
            self.opcode in (Opcode.ADD, Opcode.MULTIPLY)
            and types[0].is_floating
            and types[0].bits < 32
        )
        self.commutes = self.opcode is not None or commutes(computation)
        self.carried = [P.F32] if self.widened else self.types
        reals: list[P] = []
        for t in self.carried:
            reals += [real_type(t)] * (2 if t.is_complex else 1)
        self.reals = reals

    @property
    def lanes_allowed(self) -> bool:
        """Whether lanes may take any elements, and all of them start from the initial values: one
        of several equal values may be selected as often as one likes."""
        return self.opcode is not None or (self.commutes and only_selects(self.computation))

    def identities(self) -> list[Any]:
        if self.opcode is None:
            return [None] * len(self.reals)
        if self.types[0].is_complex:
            # (0, 0) is neutral for sums; products start all lanes from the initial value 1.
            zero = np.asarray(-0.0).astype(self.reals[0].numpy_dtype)[()]
            one = np.asarray(1.0).astype(self.reals[0].numpy_dtype)[()]
            if self.opcode is Opcode.ADD:
                return [zero, zero]
            return [one, abs(zero)]
        return [identity_of(self.opcode, self.carried[0])]

    def widen(self, element: Element) -> list[Value]:
        """Parts of one reduced element (a list for several), converted to the carried types."""
        values = parts(element)
        if self.widened:
            return [self.e.builder.compute(Opcode.CONVERT, P.F32, values)]
        return values

    def narrow(self, values: Sequence[Value]) -> list[Element]:
        """Carried values as elements, one for each operand of the reduction."""
        if self.widened:
            return [self.e.builder.compute(Opcode.CONVERT, self.types[0], values)]
        return as_elements(self.carried, values)

    def combine(self, lhs: Sequence[Value], rhs: Sequence[Value]) -> list[Value]:
        if self.widened:
            assert self.opcode is not None
            return [self.e.builder.compute(self.opcode, P.F32, (lhs[0], rhs[0]))]
        elements = [e for side in (lhs, rhs) for e in as_elements(self.carried, side)]
        result = self.e.apply(self.computation, elements)
        return parts(result)

    def accumulate(self, carried: Sequence[Value], values: Sequence[Value]) -> list[Value]:
        """What has been reduced and an element that comes after all of that."""
        if self.direction is None:
            return self.combine(carried, values)
        return kept_or_later(self.e.builder, self.direction, carried, values)

    def combiner(self) -> Combiner:
        return self.e.builder.combiner(self.reals, self.combine, commutes=self.commutes)


def as_elements(types: Sequence[P], values: Sequence[Value]) -> list[Element]:
    """Real values as elements of these types, of which complex ones have two."""
    rest = iter(values)
    return [(next(rest), next(rest)) if t.is_complex else next(rest) for t in types]


def reduce_over(
    e: ElementalEmitter,
    reduction: Reduction,
    inits: Sequence[Value],
    extents: Sequence[int],
    element: Any,
    depth: int,
    may_vectorize: bool = True,
    present: Callable[[Indices], Value | None] | None = None,
) -> list[Value]:
    """Loops over `extents` at `depth`, reducing `element(indices) -> list[Value]` (parts, widened).

    `present(indices)`, if given, says which elements count; it may return None for all. Returns the
    carried results; the caller narrows them.
    """
    b = e.builder

    def combined(state: list[Value], values: list[Value], position: Indices) -> list[Value]:
        result = reduction.accumulate(state, values)
        inside = present(position) if present is not None else None
        if inside is None:
            return result
        kept = [e.select(inside, new, old) for new, old in zip(result, state)]
        return [value for part in kept for value in parts(part)]

    if not extents:
        return combined(list(inits), element(()), ())
    indices: list[Index] = []
    carried = list(inits)
    lanes = may_vectorize and reduction.lanes_allowed
    for n, extent in enumerate(extents):
        index, carried = b.open_loop(
            extent,
            depth=depth if n == 0 else None,
            inits=carried,
            may_vectorize=lanes and n == len(extents) - 1,
        )
        indices.append(index)
    elements = element(tuple(indices))
    result = combined(list(carried), elements, tuple(indices))
    # Of elements that may be missing, partial results would need to know whether they have any.
    if present is not None:
        combiner, elements = None, []
    else:
        combiner = reduction.combiner()
    identities = reduction.identities()
    for _ in extents:
        result = b.close_loop(result, combiner, identities, elements)
        elements = []
    return result


@handles(Opcode.REDUCE)
def _reduce(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    count = len(node.operands) // 2
    operands, init_nodes = node.operands[:count], node.operands[count:]
    reduced = attrs(node).dimensions
    dims = operands[0].shape.dimensions
    types = [o.shape.element_type for o in operands]
    reduction = Reduction(e, node.called[0], types, direction_of(node))
    inits = reduction.widen([e.value(i, ()) for i in init_nodes])
    variadic = node.shape.is_tuple

    def finish(values: Sequence[Value]) -> Element:
        elements = reduction.narrow(values)
        return elements if variadic else elements[0]

    if any(dims[d] == 0 for d in reduced):
        return finish(inits)

    def element(position: Indices) -> list[Value]:
        kept = iter(index)
        along = iter(position)
        at = tuple(next(along) if d in reduced else next(kept) for d in range(len(dims)))
        return reduction.widen([e.value(o, at) for o in operands])

    depth = max([_depth(index), e.guard.depth if e.guard else 0, *(v.depth for v in inits)])
    return finish(
        reduce_over(e, reduction, inits, [dims[d] for d in sorted(reduced)], element, depth)
    )


@handles(Opcode.REDUCE_WINDOW)
def _reduce_window(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    count = len(node.operands) // 2
    operands, init_nodes = node.operands[:count], node.operands[count:]
    dims = operands[0].shape.dimensions
    b = e.builder
    reduction = Reduction(e, node.called[0], [o.shape.element_type for o in operands])
    init_elements = [e.value(i, ()) for i in init_nodes]
    inits = reduction.widen(init_elements)
    windows = attrs(node).window
    loops = [d for d, w in enumerate(windows) if w.size > 1]

    def place(position: Indices) -> tuple[Indices, Value | bool | None]:
        """Where a window element lies in the operand, and whether it is an element at all."""
        along = dict(zip(loops, position))
        inside: Value | bool | None = None
        source = []
        for d, (i, w, size) in enumerate(zip(index, windows, dims)):
            at, fits = window_position(e, i, along.get(d, constant(0)), w, size)
            inside = b.conjunction(inside, fits)
            source.append(at)
        return tuple(source), inside

    def element(position: Indices) -> list[Value]:
        source, inside = place(position)
        if inside is False:
            return list(inits)
        with e.guarded(inside):
            values = [e.value(o, source) for o in operands]
        if inside is not None and inside is not True:
            values = [e.select(inside, v, i) for v, i in zip(values, init_elements)]
        return reduction.widen(values)

    def present(position: Indices) -> Value | None:
        # Padding takes no part, even where the initial value is not neutral.
        _, inside = place(position)
        if inside is None or inside is True:
            return None
        return b.constant(P.PRED, False) if inside is False else inside

    if any(w.size == 0 for w in windows):
        results = list(inits)
    else:
        depth = max([_depth(index), e.guard.depth if e.guard else 0, *(v.depth for v in inits)])
        extents = [windows[d].size for d in loops]
        results = reduce_over(
            e, reduction, inits, extents, element, depth, may_vectorize=False, present=present
        )
    elements = reduction.narrow(results)
    return elements if node.shape.is_tuple else elements[0]


def window_position(
    e: ElementalEmitter, output: Index, offset: Index, window: Any, size: int
) -> tuple[Index, Value | bool]:
    """Where output position `output` and window offset `offset` read an operand dimension of
    `size`, and whether that is an element (not padding, not a hole of the dilation)."""
    if window.reversal:
        offset = constant(window.size - 1) - offset
    at = output * window.stride + offset * window.window_dilation - window.padding_low
    b = e.builder
    step = window.base_dilation
    if size == 0:
        return constant(0), False
    if step == 1:
        return at, b.in_range(at, 0, size)
    inside = b.in_range(at, 0, (size - 1) * step + 1)
    if inside is False:
        return constant(0), False
    lift = -(-max(0, -at.bounds[0]) // step)
    lifted = at + lift * step
    fits = b.conjunction(inside, b.in_range(lifted % step, 0, 1))
    return lifted // step - lift, True if fits is None else fits


def _depth(index: Indices) -> int:
    return max([i.depth for i in index], default=0)


@handles(Opcode.DOT)
def _dot(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    a = attrs(node)
    lhs, rhs = node.operands
    batch = len(a.lhs_batch)
    lhs_free = [
        d for d in range(lhs.shape.rank) if d not in a.lhs_contracting and d not in a.lhs_batch
    ]
    rhs_free = [
        d for d in range(rhs.shape.rank) if d not in a.rhs_contracting and d not in a.rhs_batch
    ]
    lhs_at: list[Index] = [constant(0)] * lhs.shape.rank
    rhs_at: list[Index] = [constant(0)] * rhs.shape.rank
    for n in range(batch):
        lhs_at[a.lhs_batch[n]] = index[n]
        rhs_at[a.rhs_batch[n]] = index[n]
    for n, d in enumerate(lhs_free):
        lhs_at[d] = index[batch + n]
    for n, d in enumerate(rhs_free):
        rhs_at[d] = index[batch + len(lhs_free) + n]
    extents = [lhs.shape.dimensions[d] for d in a.lhs_contracting]

    def pair(position: Indices) -> tuple[Element, Element]:
        for d, p in zip(a.lhs_contracting, position):
            lhs_at[d] = p
        for d, p in zip(a.rhs_contracting, position):
            rhs_at[d] = p
        return e.value(lhs, tuple(lhs_at)), e.value(rhs, tuple(rhs_at))

    return _sum_of_products(e, node, extents, _depth(index), pair, None)


@handles(Opcode.CONVOLUTION)
def _convolution(e: ElementalEmitter, node: Instruction, index: Indices) -> Element:
    a = attrs(node)
    n = a.dimension_numbers
    lhs, rhs = node.operands
    b = e.builder
    output_feature = index[n.output_feature]
    batch = index[n.output_batch]
    features_per_group = rhs.shape.dimensions[n.kernel_input_feature]
    outputs = rhs.shape.dimensions[n.kernel_output_feature]
    extents = [features_per_group, *(w.size for w in a.window)]
    input_shift = constant(0)
    batch_shift = constant(0)
    if a.feature_group_count > 1:
        input_shift = (output_feature // (outputs // a.feature_group_count)) * features_per_group
    if a.batch_group_count > 1:
        size = lhs.shape.dimensions[n.input_batch] // a.batch_group_count
        batch_shift = (output_feature // (outputs // a.batch_group_count)) * size
    guards: list[Value | bool | None] = [None]

    def pair(position: Indices) -> tuple[Element, Element] | None:
        lhs_at: list[Index] = [constant(0)] * lhs.shape.rank
        rhs_at: list[Index] = [constant(0)] * rhs.shape.rank
        lhs_at[n.input_batch] = batch + batch_shift
        lhs_at[n.input_feature] = input_shift + position[0]
        rhs_at[n.kernel_input_feature] = position[0]
        rhs_at[n.kernel_output_feature] = output_feature
        inside: Value | bool | None = None
        for k, w in enumerate(a.window):
            d = n.input_spatial[k]
            offset = position[1 + k]
            rhs_at[n.kernel_spatial[k]] = offset
            plain = offset
            at, fits = window_position(
                e, index[n.output_spatial[k]], plain, w, lhs.shape.dimensions[d]
            )
            lhs_at[d] = at
            inside = b.conjunction(inside, fits)
        guards[0] = inside
        if inside is False:
            return None
        with e.guarded(inside):
            value = e.value(lhs, tuple(lhs_at))
        return value, e.value(rhs, tuple(rhs_at))

    return _sum_of_products(e, node, extents, _depth(index), pair, guards)


def _sum_of_products(
    e: ElementalEmitter,
    node: Instruction,
    extents: Sequence[int],
    depth: int,
    pair: Any,
    guards: list | None,
) -> Element:
    """sum over the extents of lhs * rhs; products and sums of narrow floats and of f32 are in
    f32."""
    b = e.builder
    type = node.shape.element_type
    complex_type = type.is_complex
    if complex_type:
        carried = real_type(type)
    elif type.is_floating and type.bits < 32:
        carried = P.F32
    else:
        carried = type
    zero = b.constant(carried, 0)
    inits = [zero, zero] if complex_type else [zero]
    if 0 in extents:
        return (zero, zero) if complex_type else e.scalar(type, 0)
    depth = max(depth, e.guard.depth if e.guard else 0)
    carries = list(inits)
    indices = []
    for k, extent in enumerate(extents):
        index, carries = b.open_loop(
            extent,
            depth=depth if k == 0 else None,
            inits=carries,
            may_vectorize=k == len(extents) - 1,
        )
        indices.append(index)

    def convert(v: Value) -> Value:
        return v if v.type is carried else b.compute(Opcode.CONVERT, carried, (v,))

    found = pair(tuple(indices))
    if found is None:
        results = list(carries)
    else:
        x = [convert(v) for v in parts(found[0])]
        y = [convert(v) for v in parts(found[1])]
        terms = _product(b, carried, x, y) if complex_type else [_times(b, carried, x[0], y[0])]
        # Outside the window the left factor was read as 0, and 0 * inf would be nan: leave the term
        # out.
        guard = guards[0] if guards else None
        results = []
        for acc, term in zip(carries, terms):
            total = b.compute(_plus(carried), carried, (acc, term))
            if isinstance(guard, Value):
                total = b.compute(Opcode.SELECT, carried, (guard, total, acc))
            results.append(total)

    def add(lhs: list[Value], rhs: list[Value]) -> list[Value]:
        return [b.compute(_plus(carried), carried, (p, q)) for p, q in zip(lhs, rhs)]

    combiner = b.combiner([carried] * len(inits), add)
    neutral = identity_of(_plus(carried), carried)
    for _ in extents:
        results = b.close_loop(results, combiner, [neutral] * len(inits))
    if complex_type:
        return results[0], results[1]
    if carried is type:
        return results[0]
    return b.compute(Opcode.CONVERT, type, (results[0],))


def _plus(type: P) -> Opcode:
    return Opcode.OR if type is P.PRED else Opcode.ADD


def _times(b: Any, type: P, x: Value, y: Value) -> Value:
    return b.compute(Opcode.AND if type is P.PRED else Opcode.MULTIPLY, type, (x, y))


def _product(b: Any, type: P, x: list[Value], y: list[Value]) -> list[Value]:
    ac = b.compute(Opcode.MULTIPLY, type, (x[0], y[0]))
    bd = b.compute(Opcode.MULTIPLY, type, (x[1], y[1]))
    ad = b.compute(Opcode.MULTIPLY, type, (x[0], y[1]))
    bc = b.compute(Opcode.MULTIPLY, type, (x[1], y[0]))
    return [b.compute(Opcode.SUBTRACT, type, (ac, bd)), b.compute(Opcode.ADD, type, (ad, bc))]
