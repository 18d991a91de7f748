"""Random steps that simplifications rewrite: operations that undo, repeat or hold one another."""

from __future__ import annotations

from xla_backend.hlo.attributes import DimensionsAttributes, PadAttributes, SliceAttributes
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.tools.fuzz.reducers import monoid
from xla_backend.tools.fuzz.scope import ARRAYS, FLOATS, NUMBERS, ORDERED, Scope


def neutral_or_absorbing(s: Scope) -> None:
    """An operation with zeros or ones; floats are infinite or NaN now and then."""
    x = s.find(NUMBERS)
    if x.shape.element_type in FLOATS and s.chance(0.3):
        x = s.add(O.DIVIDE, (x, s.full(0, x.shape)))
    pair = [x, s.full(s.one_of((0, 0, 1)), x.shape)]
    s.keep(s.add(s.one_of((O.MULTIPLY, O.MULTIPLY, O.ADD, O.SUBTRACT)), s.shuffled(pair)))


def select_under_not(s: Scope) -> None:
    x = s.find(ARRAYS)
    condition = s.like(x.shape.with_type(P.PRED))
    arms = (x, s.like(x.shape))
    s.keep(s.add(O.SELECT, (s.add(O.NOT, (condition,)), *arms)))


def conversions(s: Scope) -> None:
    """To another type and back, or on."""
    x = s.find(FLOATS if s.chance(0.7) else NUMBERS - {P.C64, P.C128})
    narrow = s.one_of((P.BF16, P.F16, P.F32, P.S8, P.S32))
    middle = s.builder.convert(s.ordinary(x), narrow)
    s.keep(s.builder.convert(middle, x.shape.element_type if s.chance(0.6) else P.F32))


def _slice(s: Scope, x: Instruction) -> Instruction:
    starts = tuple(s.between(0, d // 2) for d in x.shape.dimensions)
    strides = tuple(s.one_of((1, 2, 3)) for _ in starts)
    return s.add(O.SLICE, (x,), SliceAttributes(starts, x.shape.dimensions, strides))


def slices(s: Scope) -> None:
    s.keep(_slice(s, _slice(s, s.find(ARRAYS, least=1, most=3))))


def transposes(s: Scope) -> None:
    x = s.find(ARRAYS, least=3)
    for _ in range(2):
        x = s.builder.transpose(x, s.shuffled(range(x.shape.rank)))
    s.keep(x)


def crop(s: Scope) -> None:
    """Negative padding on both sides."""
    x = s.find(ARRAYS, least=1, most=3)
    low = tuple(-s.between(0, d // 2) for d in x.shape.dimensions)
    high = tuple(-s.between(0, d - d // 2) for d in x.shape.dimensions)
    value = s.like(x.shape.with_dimensions(()))
    s.keep(s.add(O.PAD, (x, value), PadAttributes(low, high, (0,) * x.shape.rank)))


def extremum_of_copies(s: Scope) -> None:
    x = s.find(ORDERED - {P.PRED}, most=2)
    size = s.between(1, 4)
    wide = s.builder.broadcast(x, (size, *x.shape.dimensions), range(1, x.shape.rank + 1))
    kind = x.shape.element_type
    init = s.number(1, kind)
    reducer = monoid(s.one_of((O.MAXIMUM, O.MINIMUM)), kind)
    s.keep(s.add(O.REDUCE, (wide, init), DimensionsAttributes((0,)), (reducer,)))


STEPS = [
    (0.7, neutral_or_absorbing),
    (0.7, select_under_not),
    (0.7, conversions),
    (0.7, slices),
    (0.5, transposes),
    (0.4, crop),
    (0.4, extremum_of_copies),
]
