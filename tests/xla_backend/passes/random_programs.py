"""Random HLO programs: elementwise and shape ops, reduces, dots, in-place updates, whiles,
conditionals."""

from __future__ import annotations

import random

import numpy as np

from xla_backend.hlo.attributes import (
    ComparisonDirection,
    ConditionalAttributes,
    DimensionsAttributes,
    DotAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    SliceAttributes,
)
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule, InputOutputAlias
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P

O = Opcode
SIZES = (2, 3, 4)
# Bounded functions, so that loops do not overflow and differences in rounding stay small.
UNARY = (O.TANH, O.SINE, O.ABS, O.NEGATE, O.COSINE, O.LOGISTIC)
BINARY = (O.ADD, O.MULTIPLY, O.MAXIMUM, O.SUBTRACT)


def f32(*dims: int) -> Shape:
    return Shape.array(P.F32, dims)


def scalar_computation(opcode: Opcode) -> Computation:
    b = HloBuilder(opcode.value)
    return b.build(b.add(opcode, (b.parameter(0, f32()), b.parameter(1, f32()))))


class Generator:
    """Builds computations from a seeded stream of choices."""

    def __init__(self, seed: int, *, control_flow: bool = True) -> None:
        self.random = random.Random(seed)
        self.control_flow = control_flow

    def shape(self) -> Shape:
        return f32(*(self.random.choice(SIZES) for _ in range(self.random.choice((0, 1, 2, 2)))))

    def of_shape(self, b: HloBuilder, pool: list[Instruction], shape: Shape) -> Instruction:
        """A value of this shape, from the pool or made up."""
        same = [v for v in pool if v.shape == shape]
        if same and self.random.random() < 0.9:
            return self.random.choice(same[-6:])
        fits = [
            v
            for v in pool
            if v.shape.rank < shape.rank
            and v.shape.dimensions == shape.dimensions[-v.shape.rank or 99 :]
        ]
        if fits and self.random.random() < 0.7:
            v = self.random.choice(fits)
            rank = shape.rank
            return b.broadcast(v, shape.dimensions, range(rank - v.shape.rank, rank))
        return b.full(shape, self.random.choice((0.0, 1.0, -0.5, 2.0)))

    def grow(self, b: HloBuilder, pool: list[Instruction], steps: int, depth: int) -> None:
        """Add `steps` random instructions."""
        for _ in range(steps):
            kind = self.random.random()
            x = self.random.choice(pool[-8:])
            if kind < 0.22:
                new = b.add(self.random.choice(UNARY), (x,))
            elif kind < 0.5:
                y = self.of_shape(b, pool, x.shape)
                new = b.add(self.random.choice(BINARY), (x, y))
            elif kind < 0.56:
                y = self.of_shape(b, pool, x.shape)
                p = b.compare(x, y, ComparisonDirection.LT)
                new = b.add(O.SELECT, (p, y, x))
            elif kind < 0.76:
                new = self.shape_op(b, x, pool)
            elif kind < 0.84:
                new = self.reduce(b, x)
            elif kind < 0.87 and x.shape.rank == 2:
                y = self.of_shape(b, pool, x.shape)
                new = b.add(O.DOT, (x, y), DotAttributes((1,), (1,)))
            elif kind < 0.93 and x.shape.rank:
                update = self.of_shape(b, pool, f32(*(1,) * x.shape.rank))
                start = [b.constant(np.int32(self.random.randrange(4))) for _ in x.shape.dimensions]
                if self.random.random() < 0.5:
                    slice_ = b.add(
                        O.DYNAMIC_SLICE, (x, *start), DynamicSliceAttributes((1,) * x.shape.rank)
                    )
                    update = b.add(O.ADD, (slice_, update))
                new = b.add(O.DYNAMIC_UPDATE_SLICE, (x, update, *start))
            elif self.control_flow and depth > 0:
                news = self.loop(b, pool, depth) if kind < 0.97 else self.branches(b, pool, depth)
                pool.extend(news)
                continue
            else:
                new = b.add(O.SINE, (x,))
            pool.append(new)

    def shape_op(self, b: HloBuilder, x: Instruction, pool: list[Instruction]) -> Instruction:
        dims = x.shape.dimensions
        which = self.random.randrange(7)
        if not dims or which == 0:
            size = self.random.choice(SIZES)
            return b.broadcast(x, (size, *dims), range(1, len(dims) + 1)) if len(dims) < 2 else x
        if which == 1 and len(dims) == 2:
            return b.transpose(x, (1, 0))
        if which == 2:
            flat = b.reshape(x, (int(np.prod(dims)),))
            return flat if self.random.random() < 0.5 else b.reshape(flat, dims)
        if which == 3:
            y = self.of_shape(b, pool, x.shape)
            return b.add(O.CONCATENATE, (x, y), DimensionsAttributes((0,)))
        if which == 4:
            return b.add(O.REVERSE, (x,), DimensionsAttributes((0,)))
        if which == 5:
            zero = b.constant(np.float32(0.25))
            none = (0,) * len(dims)
            return b.add(O.PAD, (x, zero), PadAttributes((1,) * len(dims), none, (1,) + none[1:]))
        return b.add(
            O.SLICE,
            (x,),
            SliceAttributes((dims[0] // 2,) + (0,) * (len(dims) - 1), dims, (1,) * len(dims)),
        )

    def reduce(self, b: HloBuilder, x: Instruction) -> Instruction:
        if not x.shape.rank:
            return b.add(O.TANH, (x,))
        opcode = self.random.choice((O.ADD, O.MAXIMUM))
        init = b.constant(np.float32(0.0 if opcode is O.ADD else -np.inf))
        dims = tuple(d for d in range(x.shape.rank) if self.random.random() < 0.6) or (0,)
        return b.add(O.REDUCE, (x, init), DimensionsAttributes(dims), (scalar_computation(opcode),))

    def carries(self, pool: list[Instruction]) -> list[Instruction]:
        return [self.random.choice(pool) for _ in range(self.random.randrange(1, 5))]

    def fitted(
        self, b: HloBuilder, pool: list[Instruction], shapes: list[Shape]
    ) -> list[Instruction]:
        return [self.of_shape(b, pool, s) for s in shapes]

    def loop(self, outer: HloBuilder, pool: list[Instruction], depth: int) -> list[Instruction]:
        init = self.carries(pool)
        shapes = [v.shape for v in init]
        state = Shape.tuple([Shape.array(P.S32), *shapes])
        c = HloBuilder("cond")
        i = c.get_tuple_element(c.parameter(0, state), 0)
        condition = c.build(
            c.compare(i, c.constant(np.int32(self.random.randrange(4))), ComparisonDirection.LT)
        )
        b = HloBuilder("body")
        t = b.parameter(0, state)
        elements = [b.get_tuple_element(t, k) for k in range(len(shapes) + 1)]
        inner = list(elements[1:])
        self.grow(b, inner, self.random.randrange(1, 7), depth - 1)
        following = b.add(O.ADD, (elements[0], b.constant(np.int32(1))))
        carried = self.fitted(b, inner, shapes)
        for k in range(len(shapes)):
            chance = self.random.random()
            if chance < 0.2:
                carried[k] = elements[1 + k]  # invariant
            elif chance < 0.45:
                swaps = [e for e in elements[1:] if e.shape == shapes[k]]
                carried[k] = self.random.choice(swaps)
        body = b.build(b.tuple([following, *carried]))
        start = outer.tuple([outer.constant(np.int32(0)), *init])
        loop = outer.add(O.WHILE, (start,), called=(condition, body), shape=state)
        return [outer.get_tuple_element(loop, k + 1) for k in range(len(shapes))]

    def branches(self, outer: HloBuilder, pool: list[Instruction], depth: int) -> list[Instruction]:
        operands = self.carries(pool)
        shapes = [self.random.choice(operands).shape for _ in range(2)]
        called = []
        for name in ("on_true", "on_false"):
            b = HloBuilder(name)
            t = b.parameter(0, Shape.tuple([v.shape for v in operands]))
            inner = [b.get_tuple_element(t, k) for k in range(len(operands))]
            if self.random.random() < 0.7:
                self.grow(b, inner, self.random.randrange(1, 5), depth - 1)
            called.append(b.build(b.tuple(self.fitted(b, inner, shapes))))
        x = self.random.choice(pool)
        while x.shape.rank:
            x = self.reduce(outer, x)
        predicate = outer.compare(x, outer.constant(np.float32(0.1)), ComparisonDirection.GT)
        argument = outer.tuple(operands)
        result = outer.add(
            O.CONDITIONAL,
            (predicate, argument, argument),
            ConditionalAttributes(False),
            called,
            shape=Shape.tuple(shapes),
        )
        return [outer.get_tuple_element(result, k) for k in range(2)]

    def module(self, steps: int = 12) -> HloModule:
        b = HloBuilder("main")
        pool = [b.parameter(k, self.shape()) for k in range(self.random.randrange(1, 4))]
        parameters = list(pool)
        self.grow(b, pool, steps, depth=2)
        outputs = [self.random.choice(pool[-8:]) for _ in range(self.random.randrange(1, 4))]
        if self.random.random() < 0.2:
            outputs.append(parameters[0])
        if self.random.random() < 0.1:
            outputs.append(b.full(f32(2), 1.0))
        single = len(outputs) == 1 and self.random.random() < 0.5
        root = outputs[0] if single else b.tuple(outputs)
        module = HloModule("random")
        module.add_computation(b.build(root), entry=True)
        if not single and self.random.random() < 0.5:
            self.donate(module, parameters, outputs)
        return module

    def donate(
        self, module: HloModule, parameters: list[Instruction], outputs: list[Instruction]
    ) -> None:
        aliases = []
        taken: set[int] = set()
        for number, parameter in enumerate(parameters):
            for k, output in enumerate(outputs):
                if k not in taken and output.shape == parameter.shape:
                    aliases.append(InputOutputAlias((k,), number))
                    taken.add(k)
                    break
        module.aliases = tuple(aliases)


def arguments_for(module: HloModule, seed: int) -> list[np.ndarray]:
    """Random arguments, small and of both signs."""
    rng = np.random.default_rng(seed)
    assert module.entry is not None
    return [
        rng.standard_normal(p.shape.dimensions).astype(p.shape.element_type.numpy_dtype)
        for p in module.entry.parameters
    ]
