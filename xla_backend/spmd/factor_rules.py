"""Of each opcode which dimensions belong together. Rules of products and windows, and of what takes
indices, are in files of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    CustomCallAttributes,
    DimensionsAttributes,
    FftAttributes,
    IotaAttributes,
    PadAttributes,
    SliceAttributes,
    SortAttributes,
    TriangularSolveAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.monoids import monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.spmd.combiners import is_choice, is_identity
from xla_backend.spmd.custom import rule_of
from xla_backend.spmd.factors import Dims, FactorMaker, Factors, no_factors
from xla_backend.spmd.indexed_factors import (
    dynamic_slice,
    dynamic_update_slice,
    gather,
    is_small,
    scatter,
)
from xla_backend.spmd.window_factors import (
    convolution,
    dot,
    reduce_window,
    select_and_scatter,
)


def factors_of(node: Instruction) -> Factors | None:
    """None: nothing is known; all operands must be whole, and so is the result."""
    if node.opcode is Opcode.BITCAST_CONVERT:
        return _bitcast_convert(node)
    if node.opcode.is_elementwise or node.opcode in _LIKE_ELEMENTWISE:
        return _elementwise(node)
    rule = _RULES.get(node.opcode)
    return None if rule is None else rule(node)


def _elementwise(node: Instruction) -> Factors | None:
    shape = node.shape
    if not shape.is_array:
        return None
    m = FactorMaker()
    dims = m.dims(shape)
    operands = []
    for operand in node.operands:
        if operand.shape.rank not in (0, shape.rank):
            return None
        operands.append(dims if operand.shape.rank == shape.rank else [])
    return m.made(operands, [dims])


def _bitcast_convert(node: Instruction) -> Factors:
    """A last dimension may come or go, of the parts that an element is of."""
    m, shapes = FactorMaker(), (node.operands[0].shape, node.shape)
    shared = m.dims(min(shapes, key=lambda shape: shape.rank))
    mappings = [[*shared, *[()] * (shape.rank - len(shared))] for shape in shapes]
    return m.made(mappings[:1], mappings[1:])


def _broadcast(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DimensionsAttributes)
    m = FactorMaker()
    dims = m.dims(node.shape)
    return m.made([[dims[d] for d in node.attributes.dimensions]], [dims])


def _transpose(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DimensionsAttributes)
    m = FactorMaker()
    dims = m.dims(node.operands[0].shape)
    return m.made([dims], [[dims[d] for d in node.attributes.dimensions]])


def _reshape(node: Instruction) -> Factors:
    """Dimensions fall into runs whose sizes multiply to the same; within a run they share factors,
    as far as their sizes divide from the major side."""
    m = FactorMaker()
    source, target = node.operands[0].shape.dimensions, node.shape.dimensions
    of_source: list[list[int]] = [[] for _ in source]
    of_target: list[list[int]] = [[] for _ in target]
    i = j = 0
    left, right = 1, 1
    while True:
        while left == 1 and i < len(source):
            left, i = source[i], i + 1
        while right == 1 and j < len(target):
            right, j = target[j], j + 1
        if left <= 1 or right <= 1:
            break
        size = math.gcd(left, right)
        if size not in (left, right):
            # Neither has whole blocks of the other: what they share is the major part, and then
            # nothing until the runs end together.
            factor = m.new(size)
            of_source[i - 1].append(factor)
            of_target[j - 1].append(factor)
            left, right = left // size, right // size
            while left != right:
                if left < right:
                    if i == len(source):
                        break
                    left, i = left * source[i], i + 1
                else:
                    if j == len(target):
                        break
                    right, j = right * target[j], j + 1
            left = right = 1
            continue
        factor = m.new(size)
        of_source[i - 1].append(factor)
        of_target[j - 1].append(factor)
        left, right = left // size, right // size
    return m.made([[tuple(f) for f in of_source]], [[tuple(f) for f in of_target]])


def _reduce(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DimensionsAttributes)
    away = set(node.attributes.dimensions)
    arrays = node.operands[: len(node.operands) // 2]
    inits = node.operands[len(arrays) :]
    combiner = monoid(node.called[0]) if len(arrays) == 1 else None
    if combiner is not None and not is_identity(inits[0], combiner):
        combiner = None
    in_parts = combiner is not None or (len(arrays) > 1 and is_choice(node.called[0]))
    m = FactorMaker()
    reduced: list[int] = []
    dims: list[Dims] = []
    for d, size in enumerate(arrays[0].shape.dimensions):
        if d in away and not in_parts:
            dims.append(())
            continue
        dims.append((m.new(size),))
        if d in away:
            reduced.append(dims[-1][0])
    kept = [f for d, f in enumerate(dims) if d not in away]
    operands = [*[dims] * len(arrays), *[[] for _ in inits]]
    return m.made(operands, [kept] * len(arrays), reduced, combiner)


def _kept_dimensions(node: Instruction, keeps: Sequence[bool], arrays: int) -> Factors:
    """The first operands and all results have the dimensions of which that is true in common."""
    m = FactorMaker()
    shape = node.operands[0].shape
    dims = [(m.new(s),) if keep else () for s, keep in zip(shape.dimensions, keeps)]
    operands = [dims if n < arrays else no_factors(x.shape) for n, x in enumerate(node.operands)]
    return m.made(operands, [dims] * len(node.shape.flatten()))


def _moved_dimensions(
    node: Instruction, moves: Sequence[bool], arrays: int, few: Sequence[bool] = ()
) -> Factors:
    """All dimensions are those of the first operands; along some elements move, `few` along some
    of these."""
    m = FactorMaker()
    dims = m.dims(node.shape)
    operands = [dims if n < arrays else no_factors(x.shape) for n, x in enumerate(node.operands)]
    moved = [dims[d][0] for d, move in enumerate(moves) if move]
    undivided = [dims[d][0] for d, is_few in enumerate(few) if is_few and moves[d]]
    return m.made(operands, [dims], moved=moved, undivided=undivided)


def _reverse(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DimensionsAttributes)
    turned = node.attributes.dimensions
    return _moved_dimensions(node, [d in turned for d in range(node.shape.rank)], 1)


def _concatenate(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DimensionsAttributes)
    (along,) = node.attributes.dimensions
    return _moved_dimensions(node, [d == along for d in range(node.shape.rank)], len(node.operands))


def _pad(node: Instruction) -> Factors:
    a = node.attributes
    assert isinstance(a, PadAttributes)
    return _moved_dimensions(node, [p != (0, 0, 0) for p in zip(a.low, a.high, a.interior)], 1)


def _slice(node: Instruction) -> Factors:
    a, dims = node.attributes, node.operands[0].shape.dimensions
    assert isinstance(a, SliceAttributes)
    taken = zip(a.starts, a.limits, a.strides)
    moves = [s != (0, d, 1) for d, s in zip(dims, taken)]
    # A few elements are taken from those who have them: if not every device is to get some of
    # them, none gathers what lies around them.
    few = [
        stride == 1 and is_small(size, d)
        for size, d, stride in zip(node.shape.dimensions, dims, a.strides)
    ]
    return _moved_dimensions(node, moves, 1, few)


def _iota(node: Instruction) -> Factors:
    assert isinstance(node.attributes, IotaAttributes)
    m = FactorMaker()
    return m.made([], [m.dims(node.shape)])


def _sort(node: Instruction) -> Factors:
    assert isinstance(node.attributes, SortAttributes)
    along = node.attributes.dimension
    rank = node.operands[0].shape.rank
    return _kept_dimensions(node, [d != along for d in range(rank)], len(node.operands))


def _top_k(node: Instruction) -> Factors:
    rank = node.operands[0].shape.rank
    return _kept_dimensions(node, [d < rank - 1 for d in range(rank)], 1)


def _fft(node: Instruction) -> Factors:
    assert isinstance(node.attributes, FftAttributes)
    batch = node.shape.rank - len(node.attributes.fft_length)
    return _kept_dimensions(node, [d < batch for d in range(node.shape.rank)], 1)


def _batched_matrices(node: Instruction) -> Factors | None:
    """Batches of matrices, and what belongs to each, as results of factorisations have it."""
    m, batch = FactorMaker(), node.operands[0].shape.dimensions[:-2]
    factors = [(m.new(size),) for size in batch]

    def mapping(shape: Shape) -> list[Dims]:
        return [*factors, *[()] * (shape.rank - len(batch))]

    shapes = [*[operand.shape for operand in node.operands], *node.shape.flatten()]
    if any(shape.dimensions[: len(batch)] != batch for shape in shapes):
        return None
    mappings = list(map(mapping, shapes))
    return m.made(mappings[: len(node.operands)], mappings[len(node.operands) :])


def _triangular_solve(node: Instruction) -> Factors:
    """Batches, and the right-hand sides of a system."""
    a = node.attributes
    assert isinstance(a, TriangularSolveAttributes)
    m, sides = FactorMaker(), node.shape
    batch = [(m.new(size),) for size in sides.dimensions[:-2]]
    each: Dims = (m.new(sides.dimensions[-1 if a.left_side else -2]),)
    of_sides: list[Dims] = [*batch, *([(), each] if a.left_side else [each, ()])]
    return m.made([[*batch, (), ()], of_sides], [of_sides])


def _exchange(node: Instruction) -> Factors:
    """Collectives that the program itself has: dimensions along which nothing is cut or joined."""
    a, m = node.attributes, FactorMaker()
    along = a.dimensions if isinstance(a, CollectiveAttributes) else ()
    if not along and node.opcode is Opcode.ALL_TO_ALL:
        along = tuple(range(node.operands[0].shape.rank))
    dims = [
        [() if d in along else (m.new(size),) for d, size in enumerate(x.shape.dimensions)]
        for x in node.operands
    ]
    return m.made(dims, dims)


def _ragged_all_to_all(node: Instruction) -> Factors:
    """The dimensions of rows."""
    return _kept_dimensions(node, [d > 0 for d in range(node.shape.rank)], 2)


def _custom_call(node: Instruction) -> Factors | None:
    """What its rule says. To and from parts: the positions along manual axes, and what is left of
    each dimension."""
    rule = rule_of(node)
    if rule is not None:
        mappings = rule.mappings()
        return None if mappings is None else Factors(*mappings)
    a = node.attributes
    if isinstance(a, CustomCallAttributes) and a.target.startswith(_OF_MATRICES):
        return _batched_matrices(node)
    if not isinstance(a, CustomCallAttributes) or a.target not in (
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
    ):
        return None
    shapes = node.operands[0].shape.dimensions, node.shape.dimensions
    to_parts = a.target == "SPMDFullToShardShape"
    array, part = shapes if to_parts else shapes[::-1]
    m = FactorMaker()
    rest = [(m.new(size),) for size in part]
    cut = [(m.new(size // max(own, 1)), *f) for size, own, f in zip(array, part, rest)]
    return m.made([cut], [rest]) if to_parts else m.made([rest], [cut])


# Of the routines of linear algebra.
_OF_MATRICES = "lapack."
# Of one shape with their operand, and computed element by element.
_LIKE_ELEMENTWISE = frozenset({Opcode.COPY, Opcode.DOMAIN, Opcode.REDUCE_PRECISION, Opcode.MAP})
_RULES: dict[Opcode, Callable[[Instruction], Factors | None]] = {
    Opcode.ALL_GATHER: _exchange,
    Opcode.ALL_REDUCE: _exchange,
    Opcode.ALL_TO_ALL: _exchange,
    Opcode.BROADCAST: _broadcast,
    Opcode.CHOLESKY: _batched_matrices,
    Opcode.COLLECTIVE_BROADCAST: _exchange,
    Opcode.COLLECTIVE_PERMUTE: _exchange,
    Opcode.CONCATENATE: _concatenate,
    Opcode.CONVOLUTION: convolution,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.DOT: dot,
    Opcode.DYNAMIC_SLICE: dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: dynamic_update_slice,
    Opcode.FFT: _fft,
    Opcode.GATHER: gather,
    Opcode.IOTA: _iota,
    Opcode.PAD: _pad,
    Opcode.RAGGED_ALL_TO_ALL: _ragged_all_to_all,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_SCATTER: _exchange,
    Opcode.REDUCE_WINDOW: reduce_window,
    Opcode.RESHAPE: _reshape,
    Opcode.REVERSE: _reverse,
    Opcode.SCATTER: scatter,
    Opcode.SELECT_AND_SCATTER: select_and_scatter,
    Opcode.SLICE: _slice,
    Opcode.SORT: _sort,
    Opcode.TOPK: _top_k,
    Opcode.TRANSPOSE: _transpose,
    Opcode.TRIANGULAR_SOLVE: _triangular_solve,
}
