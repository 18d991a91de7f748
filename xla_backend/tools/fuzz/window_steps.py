"""Random steps: reductions, windows, dots and convolutions."""

from __future__ import annotations

from xla_backend.hlo.attributes import ComparisonDirection as D
from xla_backend.hlo.attributes import (
    ConvolutionAttributes,
    ConvolutionDimensionNumbers,
    DimensionsAttributes,
    DotAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_rules_structured import window_output_size
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.tools.fuzz.reducers import (
    arg_extremum,
    binary_computation,
    combiner,
    monoid,
    monoid_opcodes,
    pair_reducer,
)
from xla_backend.tools.fuzz.scope import (
    ARRAYS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    ORDERED,
    WIDE_FLOATS,
    Scope,
)

_NEUTRAL = {O.ADD: 0.0, O.MULTIPLY: 1.0, O.OR: 0.0, O.XOR: 0.0}


def initial_value(s: Scope, opcode: O, kind: P) -> Instruction:
    """The neutral element, or any other number."""
    if opcode in _NEUTRAL and s.chance(0.7):
        return s.number(_NEUTRAL[opcode], kind)
    if opcode in (O.MAXIMUM, O.MINIMUM) and kind in FLOATS and s.chance(0.6):
        sign = -1.0 if opcode is O.MAXIMUM else 1.0
        return s.number(sign * float("inf"), kind)
    return s.like(Shape(kind))


def reduce(s: Scope) -> None:
    x = s.find(ARRAYS, least=1)
    kind = x.shape.element_type
    dims = tuple(s.shuffled(s.subset(range(x.shape.rank), least=1 if s.chance(0.95) else 0)))
    if s.chance(0.08):
        to_apply, init = combiner(s, kind), s.like(Shape(kind))
    else:
        opcode = s.one_of(monoid_opcodes(kind))
        to_apply = monoid(opcode, kind, swapped=s.chance(0.2))
        init = initial_value(s, opcode, kind)
    s.keep(s.add(O.REDUCE, (x, init), DimensionsAttributes(dims), (to_apply,)))


def arg_reduce(s: Scope) -> None:
    """argmax or argmin: values and their positions reduced together."""
    x = s.find(ORDERED - {P.PRED}, least=1, most=3)
    kind, index = x.shape.element_type, s.one_of((P.S32, P.S32, P.S64, P.U8))
    axis = s.between(0, x.shape.rank - 1)
    largest = s.chance(0.5)
    positions = s.builder.iota(x.shape.with_type(index), axis)
    worst = s.ordinary(s.like(Shape(kind)))
    inits = (worst, s.number(0, index))
    to_apply = arg_extremum(kind, index, largest=largest)
    operands = (x, positions, *inits)
    s.keep(s.add(O.REDUCE, operands, DimensionsAttributes((axis,)), (to_apply,)))


def reduce_two(s: Scope) -> None:
    x = s.find(NUMBERS, least=1, most=3)
    y = s.like(x.shape if s.chance(0.6) else x.shape.with_type(s.element_type(NUMBERS)))
    kinds = (x.shape.element_type, y.shape.element_type)
    opcodes = [s.one_of(monoid_opcodes(kind)) for kind in kinds]
    to_apply = pair_reducer(opcodes[0], kinds[0], opcodes[1], kinds[1])
    inits = [initial_value(s, opcode, kind) for opcode, kind in zip(opcodes, kinds)]
    dims = tuple(s.subset(range(x.shape.rank), least=1))
    s.keep(s.add(O.REDUCE, (x, y, *inits), DimensionsAttributes(dims), (to_apply,)))


def _window(s: Scope, size: int, *, dilated: bool) -> WindowDimension:
    if s.chance(0.4):
        return WindowDimension(1)
    return WindowDimension(
        s.between(1, 4),
        s.one_of((1, 1, 2, 3)),
        s.between(-1, 2) if s.chance(0.5) else 0,
        s.between(-1, 2) if s.chance(0.5) else 0,
        s.one_of((1, 1, 2)) if dilated else 1,
        s.one_of((1, 1, 2)) if dilated else 1,
    )


def _is_sensible(size: int, window: WindowDimension) -> bool:
    """Padding that trims leaves something."""
    base = (size - 1) * window.base_dilation + 1 if size else 0
    return base + min(0, window.padding_low) + min(0, window.padding_high) >= 0


def reduce_window(s: Scope) -> None:
    x = s.find(ARRAYS, least=1, most=3)
    kind = x.shape.element_type
    opcode = s.one_of(monoid_opcodes(kind))
    window = tuple(_window(s, d, dilated=s.chance(0.3)) for d in x.shape.dimensions)
    if not all(_is_sensible(d, w) for d, w in zip(x.shape.dimensions, window)):
        return
    init = initial_value(s, opcode, kind)
    s.keep(s.add(O.REDUCE_WINDOW, (x, init), WindowAttributes(window), (monoid(opcode, kind),)))


def cumulative(s: Scope) -> None:
    """A running reduction, from either end: a window over all that came before."""
    x = s.find(NUMBERS, least=1, most=3)
    kind, axis = x.shape.element_type, s.between(0, x.shape.rank - 1)
    size = x.shape.dimensions[axis]
    if not size:
        return
    opcode = s.one_of([o for o in monoid_opcodes(kind) if o in (O.ADD, O.MAXIMUM, O.MULTIPLY)])
    before, after = (size - 1, 0) if s.chance(0.6) else (0, size - 1)
    window = [WindowDimension(1)] * x.shape.rank
    window[axis] = WindowDimension(size, padding_low=before, padding_high=after)
    init = initial_value(s, opcode, kind)
    attributes = WindowAttributes(tuple(window))
    s.keep(s.add(O.REDUCE_WINDOW, (x, init), attributes, (monoid(opcode, kind),)))


def select_and_scatter(s: Scope) -> None:
    """The gradient of max-pooling."""
    x = s.find(FLOATS | INTEGERS, least=1, most=3)
    kind = x.shape.element_type
    window = tuple(_window(s, d, dilated=False) for d in x.shape.dimensions)
    dims = [window_output_size(d, w) for d, w in zip(x.shape.dimensions, window)]
    if 0 in dims or not all(_is_sensible(d, w) for d, w in zip(x.shape.dimensions, window)):
        return
    direction = s.one_of((D.GE, D.LE))
    select = _comparison(kind, direction)
    init = s.number(0.0, kind) if s.chance(0.7) else s.like(Shape(kind))
    operands = (s.ordinary(x), s.like(x.shape.with_dimensions(dims)), init)
    called = (select, monoid(O.ADD, kind))
    s.keep(s.add(O.SELECT_AND_SCATTER, operands, WindowAttributes(window), called))


def _comparison(kind: P, direction: D) -> Computation:
    return binary_computation(kind, lambda b, x, y: b.compare(x, y, direction), "select")


def _result_type(s: Scope, kind: P) -> P:
    """What a product of two values of this type may be summed into."""
    if s.chance(0.7):
        return kind
    if kind in INTEGERS and kind.bits <= 16:
        return P.S32
    return P.F32 if kind in FLOATS and kind.bits <= 16 else kind


def dot(s: Scope) -> None:
    """Any batch and contracting dimensions in any order."""
    x = s.find(NUMBERS, least=1, most=4)
    dims, rank = x.shape.dimensions, x.shape.rank
    contracting = s.shuffled(s.subset(range(rank), least=1 if s.chance(0.9) else 0, most=2))
    rest = [d for d in range(rank) if d not in contracting]
    batch = s.shuffled(s.subset(rest, most=2)) if s.chance(0.4) else []
    free = [s.between(1, 6) for _ in range(s.between(0, 2))]
    roles = s.shuffled([*contracting, *batch, *[rank + i for i in range(len(free))]])
    other = [dims[r] if r < rank else free[r - rank] for r in roles]
    shape = Shape.array(x.shape.element_type, other)
    if shape.num_elements > 2 * s.scale.elements:
        return
    y = s.like(shape)
    attributes = DotAttributes(
        tuple(contracting),
        tuple(roles.index(c) for c in contracting),
        tuple(batch),
        tuple(roles.index(d) for d in batch),
    )
    _product(s, O.DOT, x, y, attributes)


def _product(
    s: Scope,
    opcode: O,
    x: Instruction,
    y: Instruction,
    attributes: DotAttributes | ConvolutionAttributes,
) -> None:
    inferred = s.add(opcode, (x, y), attributes)
    kind = _result_type(s, x.shape.element_type)
    if kind is not x.shape.element_type:
        inferred = s.add(opcode, (x, y), attributes, shape=inferred.shape.with_type(kind))
    s.keep(inferred)


def matmul(s: Scope) -> None:
    """A product of two matrices and, often, what follows it in a dense layer."""
    x = s.find(WIDE_FLOATS | {P.BF16}, least=2, most=2)
    y = s.like(
        x.shape.with_dimensions((x.shape.dimensions[1], s.one_of((s.between(1, 20), s.size()))))
    )
    product = s.add(O.DOT, (x, y), DotAttributes((1,), (0,)))
    if s.chance(0.6):
        bias = s.like(x.shape.with_dimensions(product.shape.dimensions[1:]))
        wide = s.builder.broadcast(bias, product.shape.dimensions, (1,))
        product = s.add(O.ADD, (product, wide))
        zero = s.full(0.0, product.shape)
        product = s.add(O.MAXIMUM, (product, zero)) if s.chance(0.5) else product
    s.keep(product)


def convolution(s: Scope) -> None:
    """Any layout, strides, dilations, padding, groups."""
    kind = s.element_type(WIDE_FLOATS | {P.BF16, P.F16, P.S32, P.S8, P.C64})
    spatial = s.between(0, 2) if s.chance(0.9) else 3
    feature_groups = s.one_of((1, 1, 1, 2, 3))
    batch_groups = s.one_of((1, 1, 2)) if feature_groups == 1 else 1
    kernel_in, groups = s.between(1, 4), feature_groups * batch_groups
    window = tuple(_conv_window(s) for _ in range(spatial))
    sizes = [s.between(1, 7) for _ in window]
    if not all(_is_sensible(d, w) for d, w in zip(sizes, window)):
        return
    x_dims = [batch_groups * s.between(1, 3), kernel_in * feature_groups, *sizes]
    w_dims = [kernel_in, groups * s.between(1, 3), *[w.size for w in window]]
    orders = [s.shuffled(range(spatial + 2)) for _ in range(3)]
    if s.chance(0.3):
        orders = [list(range(spatial + 2))] * 3
    x = s.finite(s.like(Shape.array(kind, _placed(x_dims, orders[0]))))
    y = s.finite(s.like(Shape.array(kind, _placed(w_dims, orders[1]))))
    a, b, c = orders
    numbers = ConvolutionDimensionNumbers(
        a[0], a[1], tuple(a[2:]), b[0], b[1], tuple(b[2:]), c[0], c[1], tuple(c[2:])
    )
    attributes = ConvolutionAttributes(window, numbers, feature_groups, batch_groups)
    _product(s, O.CONVOLUTION, x, y, attributes)


def _conv_window(s: Scope) -> WindowDimension:
    return WindowDimension(
        s.between(1, 4),
        s.one_of((1, 1, 2, 3)),
        s.between(-1, 3) if s.chance(0.6) else 0,
        s.between(-1, 3) if s.chance(0.6) else 0,
        s.one_of((1, 1, 1, 2)),
        s.one_of((1, 1, 1, 2)),
        s.chance(0.2),
    )


def _placed(sizes: list[int], order: list[int]) -> list[int]:
    """Sizes by role moved to where the role stands."""
    dims = [0] * len(sizes)
    for size, place in zip(sizes, order):
        dims[place] = size
    return dims


STEPS = [
    (6, reduce),
    (1.5, arg_reduce),
    (1, reduce_two),
    (2, reduce_window),
    (1.5, cumulative),
    (1, select_and_scatter),
    (3, dot),
    (1.5, matmul),
    (2, convolution),
]
