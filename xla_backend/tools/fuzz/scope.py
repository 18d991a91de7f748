"""Scope: one computation of a random program under construction.

A scope holds the values made so far and all random choices. Steps (the other files of this folder)
ask it for operands that meet a condition; what does not exist is made: in the entry as a new
parameter, elsewhere as a constant.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import numpy as np

from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    Attributes,
    ComparisonDirection,
    SliceAttributes,
)
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.process.light_dataclasses import dataclass
from xla_backend.tools.fuzz.data import random_array

T = TypeVar("T")

_FLOAT8 = frozenset(t for t in P if t.value.startswith("f8")) - {P.F8E8M0FNU}
# Without the microscaling types, which only hold scales and blocks of scaled dots.
FLOATS = _FLOAT8 | {P.F16, P.BF16, P.F32, P.F64}
WIDE_FLOATS = frozenset({P.F32, P.F64})
MATH_FLOATS = frozenset({P.F16, P.BF16, P.F32, P.F64})
COMPLEX = frozenset({P.C64, P.C128})
INTEGERS = frozenset(t for t in P if t.is_array and t.is_integral) - {P.S1, P.U1}
INDEX_TYPES = (P.S32, P.S32, P.S32, P.S64, P.U32, P.S8, P.U8)
NUMBERS = FLOATS | COMPLEX | INTEGERS
ARRAYS = NUMBERS | {P.PRED}
BITS = INTEGERS | {P.PRED}
ORDERED = ARRAYS - COMPLEX

# How often a program's palette holds each type.
_TYPE_WEIGHTS: dict[P, float] = {
    P.F32: 12, P.BF16: 2, P.F16: 2, P.F64: 3, P.C64: 1.5, P.C128: 0.7,
    P.S32: 5, P.S8: 1.5, P.S16: 0.8, P.S64: 1.5, P.U8: 1.2, P.U16: 0.8, P.U32: 2, P.U64: 1,
    P.PRED: 1.5, P.S4: 0.6, P.U4: 0.6, P.S2: 0.2, P.U2: 0.2,
    P.F8E5M2: 0.3, P.F8E4M3FN: 0.4, P.F8E4M3: 0.2, P.F8E4M3B11FNUZ: 0.15,
    P.F8E3M4: 0.15, P.F8E5M2FNUZ: 0.15, P.F8E4M3FNUZ: 0.15,
}  # fmt: skip

_RANK_WEIGHTS = (2, 4, 5, 2, 1, 0.4)


@dataclass(frozen=True)
class Scale:
    """How large the arrays of a program are: dimension sizes, how often, and most elements."""

    sizes: tuple[int, ...]
    weights: tuple[float, ...]
    elements: int


SMALL = Scale((0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33), (0.1, 2, 4, 4, 3, 2, 1, 2, 1, 0.7, 0.3), 600)
# Vectors with and without a rest, several tiles of a matrix product, rows worth a thread.
LARGE = Scale(
    (1, 2, 3, 8, 31, 32, 64, 65, 100, 129, 300), (1, 2, 2, 1, 1, 1, 2, 2, 2, 1, 0.5), 8000
)


class Scope:
    """See the module. `depth` is how many more computations with loops may nest inside."""

    def __init__(
        self,
        name: str,
        choices: random.Random,
        types: Sequence[P],
        profile: str,
        scale: Scale,
        *,
        depth: int,
        is_entry: bool = False,
    ) -> None:
        self.builder = HloBuilder(name)
        self.random = choices
        self.types = types
        self.profile = profile
        self.scale = scale
        self.depth = depth
        self.is_entry = is_entry
        self.values: list[Instruction] = []

    def nested(self, name: str) -> Scope:
        """An empty scope for a computation that this one calls."""
        return Scope(name, self.random, self.types, self.profile, self.scale, depth=self.depth - 1)

    # -- choices -----------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def one_of(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return self.random.randint(low, high)

    def subset(self, items: Sequence[T], least: int = 0, most: int | None = None) -> list[T]:
        """Some of the items, in order."""
        most = len(items) if most is None else min(most, len(items))
        chosen = set(self.random.sample(range(len(items)), self.between(min(least, most), most)))
        return [item for i, item in enumerate(items) if i in chosen]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return self.random.sample(list(items), len(items))

    def element_type(self, accepts: Collection[P] = ARRAYS) -> P:
        """A type of the palette, or one that it lacks if none is accepted."""
        usual = [t for t in self.types if t in accepts]
        return self.one_of(usual or sorted(accepts, key=lambda t: t.value))

    def size(self) -> int:
        return self.random.choices(self.scale.sizes, self.scale.weights)[0]

    def dimensions(self, least: int = 0, most: int = 5) -> list[int]:
        ranks = range(least, most + 1)
        rank = self.random.choices(ranks, _RANK_WEIGHTS[least : most + 1])[0]
        dims = [self.size() for _ in range(rank)]
        while math.prod(dims) > self.scale.elements:
            dims[dims.index(max(dims))] //= 2
        return dims

    # -- making values -----------------------------------------------------------------------------

    def add(
        self,
        opcode: Opcode,
        operands: Sequence[Instruction] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        called: Sequence[Computation] = (),
        shape: Shape | None = None,
    ) -> Instruction:
        return self.builder.add(opcode, operands, attributes, called, shape)

    def keep(self, *values: Instruction) -> None:
        """Later steps may use these values; tuples are taken apart."""
        for value in values:
            if value.shape.is_tuple:
                count = len(value.shape.tuple_shapes)
                self.keep(*[self.builder.get_tuple_element(value, i) for i in range(count)])
            elif value.shape.is_array and value.shape.num_elements <= 40 * self.scale.elements:
                self.values.append(value)

    def constant(self, shape: Shape) -> Instruction:
        """Random values as a literal, or a splat of one of them where that is large."""
        rng = np.random.default_rng(self.random.getrandbits(32))
        if shape.num_elements > 48 or (shape.rank and self.chance(0.4)):
            value = random_array(Shape(shape.element_type), rng, self.profile)
            return self.builder.broadcast(self.builder.constant(value), shape.dimensions, ())
        return self.builder.constant(random_array(shape, rng, self.profile))

    def number(self, value: float, element_type: P) -> Instruction:
        """A scalar constant."""
        return self.builder.constant(np.float64(value).astype(element_type.numpy_dtype))

    def full(self, value: float, shape: Shape) -> Instruction:
        scalar = self.number(value, shape.element_type)
        return self.builder.broadcast(scalar, shape.dimensions, ()) if shape.rank else scalar

    def fresh(self, shape: Shape) -> Instruction:
        """Data from outside: a parameter in the entry, a constant in other computations."""
        if not self.is_entry or self.chance(0.15):
            return self.constant(shape)
        number = len(self.builder.computation.parameters)
        return self.builder.parameter(number, shape, f"p{number}")

    # -- finding operands --------------------------------------------------------------------------

    def find(
        self,
        accepts: Collection[P] = ARRAYS,
        least: int = 0,
        most: int = 5,
        condition: Callable[[Shape], bool] = lambda shape: True,
    ) -> Instruction:
        """A value of an accepted type and rank: a recent one if there is one, else a new one (for
        which `condition` may not hold if it asks for something rare)."""
        fits = [
            v
            for v in self.values[-24:]
            if v.shape.element_type in accepts
            and least <= v.shape.rank <= most
            and condition(v.shape)
        ]
        if fits and self.chance(0.93):
            return self.one_of(fits[-6:] if self.chance(0.6) else fits)
        if self.values and self.chance(0.3):
            source = self.one_of(self.values[-12:])
            if least <= source.shape.rank <= most and condition(source.shape):
                return self.builder.convert(source, self.element_type(accepts))
        kind = self.element_type(accepts)
        for _ in range(20):
            shape = Shape.array(kind, self.dimensions(least, most))
            if condition(shape):
                break
        return self.fresh(shape)

    def like(self, shape: Shape) -> Instruction:
        """A value of exactly this shape."""
        same = [v for v in self.values if v.shape == shape]
        if same and self.chance(0.85):
            return self.one_of(same[-6:])
        made = self._adapted(shape) if self.chance(0.5) else None
        return made if made is not None else self.fresh(shape)

    def _adapted(self, shape: Shape) -> Instruction | None:
        """A value made to fit by a broadcast, a reshape, a slice or a conversion."""
        for source in self.shuffled(self.values[-12:]):
            value, b = source, self.builder
            dims, wanted = source.shape.dimensions, shape.dimensions
            if dims != wanted:
                places = _places(dims, wanted)
                if places is not None and shape.rank > source.shape.rank:
                    value = b.broadcast(source, wanted, places)
                elif math.prod(dims) == math.prod(wanted):
                    value = b.reshape(source, wanted)
                elif len(dims) == len(wanted) and all(a >= w for a, w in zip(dims, wanted)):
                    starts = tuple(self.between(0, a - w) for a, w in zip(dims, wanted))
                    limits = tuple(s + w for s, w in zip(starts, wanted))
                    ones = (1,) * len(dims)
                    value = self.add(Opcode.SLICE, (source,), SliceAttributes(starts, limits, ones))
                else:
                    continue
            if not value.shape.element_type.is_complex or shape.element_type.is_complex:
                return b.convert(value, shape.element_type)
        return None

    def integers(self, dims: Sequence[int]) -> Instruction:
        """Indices: small integers of any integer type, some negative or too large."""
        shape = Shape.array(self.one_of(INDEX_TYPES), dims)
        same = [v for v in self.values if v.shape == shape]
        return self.one_of(same) if same and self.chance(0.3) else self.fresh(shape)

    def ordinary(self, value: Instruction) -> Instruction:
        """The value without NaN, infinities and zeros of either sign where it is a computed float:
        their bits are not determined."""
        if value.shape.element_type not in FLOATS:
            return value
        b = self.builder
        one = self.full(1.0, value.shape)
        finite = self.add(Opcode.IS_FINITE, (value,))
        nonzero = b.compare(value, self.full(0.0, value.shape), ComparisonDirection.NE)
        return self.add(Opcode.SELECT, (self.add(Opcode.AND, (finite, nonzero)), value, one))

    def finite(self, value: Instruction) -> Instruction:
        """The value with zeros for NaN and infinities: padding times those is not determined."""
        if value.shape.element_type.is_complex:
            parts = [self.finite(self.add(op, (value,))) for op in (Opcode.REAL, Opcode.IMAG)]
            return self.add(Opcode.COMPLEX, parts)
        if value.shape.element_type not in FLOATS:
            return value
        is_finite = self.add(Opcode.IS_FINITE, (value,))
        return self.add(Opcode.SELECT, (is_finite, value, self.full(0.0, value.shape)))

    def bounded(self, value: Instruction, most: float = 4.0) -> Instruction:
        """The value clamped to [-most, most]: keeps growing functions finite."""
        kind = value.shape.element_type
        low, high = self.number(-most, kind), self.number(most, kind)
        return self.add(Opcode.CLAMP, (low, value, high))


def _places(dims: Sequence[int], wanted: Sequence[int]) -> list[int] | None:
    """Dimensions of `wanted` that `dims` can be broadcast into, in order."""
    places: list[int] = []
    for d, size in enumerate(wanted):
        if len(places) < len(dims) and dims[len(places)] == size:
            places.append(d)
    return places if len(places) == len(dims) else None


def palette(choices: random.Random) -> list[P]:
    """The few types that most values of a program have, so that they can meet."""
    kinds, weights = list(_TYPE_WEIGHTS), list(_TYPE_WEIGHTS.values())
    return list(dict.fromkeys(choices.choices(kinds, weights, k=choices.randint(1, 4))))
