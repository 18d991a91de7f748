"""Random steps: sorting, linear algebra, transforms, normalisation and random bits."""

from __future__ import annotations

from xla_backend.hlo.attributes import (
    BatchNormAttributes,
    CholeskyAttributes,
    DotAttributes,
    FftAttributes,
    RngBitGeneratorAttributes,
    SortAttributes,
    TopKAttributes,
    TriangularSolveAttributes,
)
from xla_backend.hlo.attributes import ComparisonDirection as D
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.tools.fuzz.reducers import comparator
from xla_backend.tools.fuzz.scope import ARRAYS, MATH_FLOATS, ORDERED, WIDE_FLOATS, Scope

_COMPLEX_OF = {P.F32: P.C64, P.F64: P.C128}


def sort(s: Scope) -> None:
    """One to three operands; stable where equal keys could be told apart."""
    key = s.ordinary(s.find(ORDERED, least=1, most=3))
    operands = [key]
    for _ in range(s.one_of((0, 0, 1, 1, 2))):
        if s.chance(0.4):
            axis = s.between(0, key.shape.rank - 1)
            operands.append(s.builder.iota(key.shape.with_type(P.S32), axis))
        else:
            operands.append(s.like(key.shape.with_type(s.element_type(ARRAYS))))
    kinds = [o.shape.element_type for o in operands]
    keys = 2 if len(operands) > 1 and kinds[1] in ORDERED and s.chance(0.3) else 1
    if keys == 2:
        operands[1] = s.ordinary(operands[1])
    to_apply = comparator(kinds, keys, s.one_of((D.LT, D.GT)))
    is_stable = len(operands) > 1 or s.chance(0.5)
    attributes = SortAttributes(s.between(0, key.shape.rank - 1), is_stable)
    s.keep(s.add(O.SORT, operands, attributes, (to_apply,)))


def topk(s: Scope) -> None:
    x = s.ordinary(s.find(MATH_FLOATS | {P.S32}, least=1, most=3))
    k = s.between(min(1, x.shape.dimensions[-1]), x.shape.dimensions[-1])
    s.keep(s.add(O.TOPK, (x,), TopKAttributes(k, s.chance(0.7))))


def fft(s: Scope) -> None:
    x = s.find(WIDE_FLOATS, least=1, most=3)
    if 0 in x.shape.dimensions:
        return
    count = s.between(1, x.shape.rank)
    kind = s.one_of(("FFT", "IFFT", "RFFT", "IRFFT"))
    lengths = list(x.shape.dimensions[-count:])
    if kind != "RFFT":
        x = s.add(O.COMPLEX, (x, s.like(x.shape)))
    if kind == "IRFFT":
        last = 2 * (lengths[-1] - 1) + s.between(0, 1)
        if last < 1:
            return
        lengths[-1] = last
    s.keep(s.add(O.FFT, (x,), FftAttributes(kind, tuple(lengths))))


def _square(s: Scope) -> Instruction:
    kind, n = s.element_type(WIDE_FLOATS), s.between(1, 6)
    batch = [s.between(1, 3)] if s.chance(0.3) else []
    return s.bounded(s.like(Shape.array(kind, (*batch, n, n))), 1.0)


def _plus_diagonal(s: Scope, x: Instruction, value: float) -> Instruction:
    """x + value * identity, on the last two dimensions."""
    rank = x.shape.rank
    numbers = x.shape.with_type(P.S32)
    rows, columns = s.builder.iota(numbers, rank - 2), s.builder.iota(numbers, rank - 1)
    diagonal = s.builder.compare(rows, columns, D.EQ)
    operands = (diagonal, s.full(value, x.shape), s.full(0.0, x.shape))
    return s.add(O.ADD, (x, s.add(O.SELECT, operands)))


def cholesky(s: Scope) -> None:
    """Of a matrix times its transpose plus a multiple of the identity; the part of the result
    that is not written is not looked at."""
    x = _square(s)
    rank, n = x.shape.rank, x.shape.dimensions[-1]
    batch = tuple(range(rank - 2))
    gram = s.add(O.DOT, (x, x), DotAttributes((rank - 1,), (rank - 1,), batch, batch))
    matrix = _plus_diagonal(s, gram, float(n))
    lower = s.chance(0.7)
    factor = s.add(O.CHOLESKY, (matrix,), CholeskyAttributes(lower))
    numbers = factor.shape.with_type(P.S32)
    rows, columns = s.builder.iota(numbers, rank - 2), s.builder.iota(numbers, rank - 1)
    kept = s.builder.compare(rows, columns, D.GE if lower else D.LE)
    s.keep(s.add(O.SELECT, (kept, factor, s.full(0.0, factor.shape))))


def triangular_solve(s: Scope) -> None:
    """With a dominant diagonal, of finite numbers: BLAS works in blocks, and NaN fills those."""
    x = _square(s)
    *batch, n = x.shape.dimensions[:-1]
    matrix = _plus_diagonal(s, s.finite(x), 2.0 * n)
    left = s.chance(0.5)
    columns = s.between(1, 5)
    dims = (*batch, n, columns) if left else (*batch, columns, n)
    side = s.bounded(s.finite(s.like(x.shape.with_dimensions(dims))))
    attributes = TriangularSolveAttributes(
        left, s.chance(0.5), s.chance(0.2), s.one_of(("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"))
    )
    s.keep(s.add(O.TRIANGULAR_SOLVE, (matrix, side), attributes))


def batch_norm(s: Scope) -> None:
    x = s.find(WIDE_FLOATS, least=2, most=4)
    feature = s.between(0, x.shape.rank - 1)
    if x.shape.num_elements <= x.shape.dimensions[feature]:
        return  # the variance of one value: its square root has no digits that mean something
    if x.opcode is not O.PARAMETER:
        # Squares of what 64-bit integers become overflow in their sum, not in their mean.
        x = s.bounded(x, 1e6)
    vector = x.shape.with_dimensions((x.shape.dimensions[feature],))
    attributes = BatchNormAttributes(0.01, feature)
    scale, mean = s.like(vector), s.like(vector)
    variance = s.add(O.ADD, (s.add(O.ABS, (s.like(vector),)), s.full(0.5, vector)))
    opcode, operands = s.one_of(
        (
            (O.BATCH_NORM_TRAINING, (x, scale, mean)),
            (O.BATCH_NORM_INFERENCE, (x, scale, mean, mean, variance)),
            (O.BATCH_NORM_GRAD, (x, scale, mean, variance, x)),
        )
    )
    s.keep(s.add(opcode, operands, attributes))


def random_bits(s: Scope) -> None:
    """The states that each algorithm takes, and bits of any width."""
    algorithm, words = s.one_of((("rng_three_fry", 2), ("rng_philox", 2), ("rng_philox", 3)))
    state = s.fresh(Shape.array(P.U64, (words,)))
    bits = Shape.array(s.one_of((P.U8, P.U16, P.U32, P.U32, P.U64)), s.dimensions(0, 3))
    shape = Shape.tuple([state.shape, bits])
    attributes = RngBitGeneratorAttributes(algorithm)
    s.keep(s.add(O.RNG_BIT_GENERATOR, (state,), attributes, shape=shape))


STEPS = [
    (2.5, sort),
    (0.8, topk),
    (0.7, fft),
    (0.4, cholesky),
    (0.4, triangular_solve),
    (0.7, batch_norm),
    (0.4, random_bits),
]
