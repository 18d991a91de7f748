"""Random steps that are whole patterns, as array programs lower them: what fusion, loops and
buffer sharing are made for."""

from __future__ import annotations

import numpy as np

from xla_backend.hlo.attributes import ComparisonDirection as D
from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    DotAttributes,
    DynamicSliceAttributes,
    GatherAttributes,
    ScatterAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.tools.fuzz.reducers import monoid
from xla_backend.tools.fuzz.scope import FLOATS, WIDE_FLOATS, Scope

_MATRIX_TYPES = WIDE_FLOATS | {P.BF16}


def _reduced(s: Scope, x: Instruction, opcode: O, axis: int) -> Instruction:
    kind = x.shape.element_type
    least = np.iinfo(kind.numpy_dtype).min if kind.is_integral else -np.inf
    init = s.number(least if opcode is O.MAXIMUM else 0.0, kind)
    attributes = DimensionsAttributes((axis,))
    return s.add(O.REDUCE, (x, init), attributes, (monoid(opcode, kind),))


def _spread(s: Scope, x: Instruction, like: Instruction, axis: int) -> Instruction:
    """A reduced value broadcast back over the axis it lost."""
    places = [d for d in range(like.shape.rank) if d != axis]
    return s.builder.broadcast(x, like.shape.dimensions, places)


def _softmax(s: Scope, x: Instruction, axis: int) -> Instruction:
    largest = _spread(s, _reduced(s, x, O.MAXIMUM, axis), x, axis)
    powers = s.add(O.EXPONENTIAL, (s.add(O.SUBTRACT, (x, largest)),))
    total = _spread(s, _reduced(s, powers, O.ADD, axis), x, axis)
    return s.add(O.DIVIDE, (powers, total))


def softmax(s: Scope) -> None:
    x = s.find(FLOATS, least=1, most=3)
    axis = s.between(0, x.shape.rank - 1)
    result = _softmax(s, x, axis)
    if s.chance(0.3):
        result = s.add(O.LOG, (result,))
    s.keep(result)


def layer_norm(s: Scope) -> None:
    x = s.find(WIDE_FLOATS | {P.BF16, P.F16}, least=2, most=3)
    axis, kind = x.shape.rank - 1, x.shape.element_type
    if not x.shape.dimensions[axis]:
        return
    count = s.number(x.shape.dimensions[axis], kind)
    rows = x.shape.with_dimensions(x.shape.dimensions[:-1])
    wide = s.builder.broadcast(count, rows.dimensions, ()) if rows.rank else count
    mean = s.add(O.DIVIDE, (_reduced(s, x, O.ADD, axis), wide))
    centred = s.add(O.SUBTRACT, (x, _spread(s, mean, x, axis)))
    squares = s.add(O.MULTIPLY, (centred, centred))
    variance = s.add(O.DIVIDE, (_reduced(s, squares, O.ADD, axis), wide))
    scale = s.add(O.RSQRT, (s.add(O.ADD, (variance, s.full(0.01, rows))),))
    result = s.add(O.MULTIPLY, (centred, _spread(s, scale, x, axis)))
    gain = s.like(x.shape.with_dimensions(x.shape.dimensions[axis:]))
    gains = s.builder.broadcast(gain, x.shape.dimensions, (axis,))
    s.keep(s.add(O.MULTIPLY, (result, gains)))


def attention(s: Scope) -> None:
    """softmax(q kᵀ) v with a causal mask, in heads."""
    kind = s.element_type(_MATRIX_TYPES)
    heads, length, width = s.between(1, 2), s.between(2, 6), s.one_of((2, 4, 8))
    shape = Shape.array(kind, (heads, length, width))
    q, k, v = (s.like(shape) for _ in range(3))
    scores = s.add(O.DOT, (q, k), DotAttributes((2,), (2,), (0,), (0,)))
    scores = s.add(O.MULTIPLY, (scores, s.full(0.5, scores.shape)))
    if s.chance(0.6):
        numbers = scores.shape.with_type(P.S32)
        rows, columns = (s.builder.iota(numbers, d) for d in (1, 2))
        visible = s.builder.compare(rows, columns, D.GE)
        scores = s.add(O.SELECT, (visible, scores, s.full(-1e9, scores.shape)))
    weights = _softmax(s, scores, 2)
    s.keep(s.add(O.DOT, (weights, v), DotAttributes((2,), (1,), (0,), (0,))))


def embedding_gradient(s: Scope) -> None:
    """Rows looked up, changed, and scattered back into a table of zeros."""
    kind = s.element_type(WIDE_FLOATS)
    rows, width, count = s.between(2, 9), s.between(1, 9), s.between(1, 12)
    table = s.like(Shape.array(kind, (rows, width)))
    indices = s.fresh(Shape.array(P.S32, (count, 1)))
    taken = s.add(O.GATHER, (table, indices), GatherAttributes((1,), (0,), (0,), 1, (1, width)))
    gradient = s.add(O.MULTIPLY, (taken, s.like(taken.shape)))
    attributes = ScatterAttributes((1,), (0,), (0,), 1)
    start = s.full(0.0, table.shape)
    operands = (start, indices, gradient)
    s.keep(taken, s.add(O.SCATTER, operands, attributes, (monoid(O.ADD, kind),)))


def dense_update(s: Scope) -> None:
    """A layer, its gradient and the step of its weights."""
    kind = s.element_type(WIDE_FLOATS)
    batch, inputs, outputs = s.between(1, 9), s.between(1, 17), s.between(1, 17)
    x = s.like(Shape.array(kind, (batch, inputs)))
    w = s.like(Shape.array(kind, (inputs, outputs)))
    y = s.add(O.TANH, (s.add(O.DOT, (x, w), DotAttributes((1,), (0,))),))
    slope = s.add(O.SUBTRACT, (s.full(1.0, y.shape), s.add(O.MULTIPLY, (y, y))))
    back = s.add(O.MULTIPLY, (slope, s.like(y.shape)))
    gradient = s.add(O.DOT, (x, back), DotAttributes((0,), (0,)))
    step = s.add(O.MULTIPLY, (gradient, s.full(0.125, gradient.shape)))
    s.keep(y, s.add(O.SUBTRACT, (w, step)))


def scan_with_stack(s: Scope) -> None:
    """Rows read one by one, a carry, and results stacked: what `scan` lowers to."""
    kind = s.element_type(WIDE_FLOATS | {P.S32})
    length, width = s.between(1, 6), s.between(1, 9)
    rows, row = Shape.array(kind, (length, width)), Shape.array(kind, (width,))
    xs, carry, stack = s.like(rows), s.like(row), s.full(0.0, rows)
    state = Shape.tuple([Shape(P.S32), row, rows, rows])
    condition = s.nested("condition").builder
    counter = condition.get_tuple_element(condition.parameter(0, state), 0)
    limit = condition.constant(np.int32(length))
    condition_body = condition.build(condition.compare(counter, limit, D.LT))
    inner = s.nested("body")
    b = inner.builder
    packed = b.parameter(0, state)
    i, c, x, y = (b.get_tuple_element(packed, k) for k in range(4))
    zero = b.constant(np.int32(0))
    at = i
    if s.chance(0.3):  # backwards, as in the gradient of a scan
        at = inner.add(O.SUBTRACT, (b.constant(np.int32(length - 1)), i))
    window = inner.add(O.DYNAMIC_SLICE, (x, at, zero), DynamicSliceAttributes((1, width)))
    taken = b.reshape(window, (width,))
    following = inner.add(s.one_of((O.ADD, O.SUBTRACT, O.MAXIMUM)), (c, taken))
    if kind is not P.S32 and s.chance(0.4):
        following = inner.add(O.TANH, (following,))
    update = b.reshape(following if s.chance(0.5) else c, (1, width))
    stacked = inner.add(O.DYNAMIC_UPDATE_SLICE, (y, update, at, zero))
    next_i = inner.add(O.ADD, (i, b.constant(np.int32(1))))
    body = b.build(b.tuple([next_i, following, x, stacked]))
    start = s.builder.tuple([s.builder.constant(np.int32(0)), carry, xs, stack])
    s.keep(s.add(O.WHILE, (start,), called=(condition_body, body), shape=state))


def one_hot(s: Scope) -> None:
    numbers = s.integers((s.between(1, 9),))
    dims = (*numbers.shape.dimensions, s.between(1, 9))
    wide = s.builder.broadcast(numbers, dims, (0,))
    columns = s.builder.iota(wide.shape, 1)
    equal = s.builder.compare(wide, columns, D.EQ)
    s.keep(s.builder.convert(equal, s.element_type(WIDE_FLOATS)))


def mean_and_variance(s: Scope) -> None:
    """Two sums over the same values, which fuse into one pass."""
    x = s.find(WIDE_FLOATS, least=1, most=3)
    axis = s.between(0, x.shape.rank - 1)
    squares = s.add(O.MULTIPLY, (x, x))
    s.keep(_reduced(s, x, O.ADD, axis), _reduced(s, squares, O.ADD, axis))


def large_sum(s: Scope) -> None:
    """An array that several threads share, and sums of it along each axis."""
    kind = s.element_type(WIDE_FLOATS | {P.S32})
    shape = Shape.array(kind, s.one_of(((300, 400), (2, 60000), (70000, 2), (40, 50, 60))))
    steps = s.builder.iota(shape, s.between(0, shape.rank - 1))
    x = s.add(O.ADD, (steps, s.full(s.between(-3, 3), shape)))
    y = s.add(O.MULTIPLY, (x, s.full(0.5 if kind is not P.S32 else 3, shape)))
    s.keep(_reduced(s, y, O.ADD, s.between(0, shape.rank - 1)))
    opcode = s.one_of((O.MAXIMUM, O.ADD))
    s.keep(_reduced(s, s.add(O.MAXIMUM, (x, y)), opcode, s.between(0, shape.rank - 1)))


STEPS = [
    (1, softmax),
    (0.8, layer_norm),
    (0.5, attention),
    (0.7, embedding_gradient),
    (0.7, dense_update),
    (1, scan_with_stack),
    (0.5, one_hot),
    (0.7, mean_and_variance),
    (0.25, large_sum),
]
