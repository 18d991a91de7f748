"""Which dimensions of an instruction's operands and results belong together: its *factors*.

Along a factor, participants that each have a part of every array that has it can compute their part
of the results: dimensions of a product that are kept, batches, the dimensions of elementwise
operations. A dimension that a reshape splits has several factors. Participants that have parts
along a *reduced* factor compute parts of a sum. A dimension without a factor must be whole.

(The idea of factors is Shardy's, https://github.com/openxla/shardy.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    CollectiveAttributes,
    ConvolutionAttributes,
    CustomCallAttributes,
    DimensionsAttributes,
    DotAttributes,
    DynamicSliceAttributes,
    FftAttributes,
    GatherAttributes,
    IotaAttributes,
    PadAttributes,
    ScatterAttributes,
    SliceAttributes,
    SortAttributes,
    Value,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.spmd.specs import Axes, PrimeMesh, Spec

Dims = tuple[int, ...]
Mapping = tuple[Dims, ...]  # of each dimension of an array its factors, major to minor


class Factors(Value):
    """The factors of one instruction.

    Fields:
      operands, results: the mapping of each operand and of each leaf of the result.
      sizes: of the factors.
      reduced: factors that no result has, because values along them are combined...
      combiner: ...by this operation, on scalars.
    """

    operands: tuple[Mapping, ...]
    results: tuple[Mapping, ...]
    sizes: Dims
    reduced: frozenset[int] = frozenset()
    combiner: Opcode | None = None


def factors_of(node: Instruction) -> Factors | None:
    """None: nothing is known; all operands must be whole, and so is the result."""
    if node.opcode.is_elementwise or node.opcode in _LIKE_ELEMENTWISE:
        return _elementwise(node)
    rule = _RULES.get(node.opcode)
    return None if rule is None else rule(node)


# -- specs and factors -----------------------------------------------------------------------------


def axes_by_factor(spec: Spec, mapping: Mapping, sizes: Dims, mesh: PrimeMesh) -> dict[int, Axes]:
    """The axes that an array's spec gives to each of its factors: as many as these can take."""
    found: dict[int, Axes] = {}
    for axes, factors in zip(spec.dims, mapping):
        left = list(axes)
        for factor in factors:
            size, taken = sizes[factor], []
            while left and size % mesh.sizes[left[0]] == 0:
                taken.append(left.pop(0))
                size //= mesh.sizes[taken[-1]]
            if taken:
                found[factor] = tuple(taken)
            if size != 1:
                break  # what follows would be cut within parts of this one
    return found


def spec_of_factors(
    chosen: dict[int, Axes], mapping: Mapping, sizes: Dims, mesh: PrimeMesh
) -> Spec:
    """The spec of an array whose factors are cut along these axes, as far as one spells that."""
    dims: list[Axes] = []
    for factors in mapping:
        axes: Axes = ()
        for factor in factors:
            own = chosen.get(factor, ())
            axes += own
            if mesh.count(own) != sizes[factor]:
                break
        dims.append(axes)
    return Spec(tuple(dims))


# -- rules -----------------------------------------------------------------------------------------


class _Maker:
    """Numbers the factors of an instruction."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def new(self, size: int) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1

    def dims(self, shape: Shape) -> list[Dims]:
        """A factor for each dimension."""
        return [(self.new(size),) for size in shape.dimensions]

    def made(
        self,
        operands: Sequence[Sequence[Dims]],
        results: Sequence[Sequence[Dims]],
        reduced: Sequence[int] = (),
        combiner: Opcode | None = None,
    ) -> Factors:
        return Factors(
            tuple(map(tuple, operands)),
            tuple(map(tuple, results)),
            tuple(self.sizes),
            frozenset(reduced),
            combiner,
        )


def _without(shape: Shape) -> list[Dims]:
    """All dimensions whole."""
    return [()] * shape.rank


def _elementwise(node: Instruction) -> Factors | None:
    shape = node.shape
    if not shape.is_array:
        return None
    m = _Maker()
    dims = m.dims(shape)
    operands = []
    for operand in node.operands:
        if operand.shape.rank not in (0, shape.rank):
            return None
        operands.append(dims if operand.shape.rank == shape.rank else [])
    return m.made(operands, [dims])


def _broadcast(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DimensionsAttributes)
    m = _Maker()
    dims = m.dims(node.shape)
    return m.made([[dims[d] for d in node.attributes.dimensions]], [dims])


def _transpose(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DimensionsAttributes)
    m = _Maker()
    dims = m.dims(node.operands[0].shape)
    return m.made([dims], [[dims[d] for d in node.attributes.dimensions]])


def _reverse(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DimensionsAttributes)
    m = _Maker()
    kept = set(range(node.shape.rank)) - set(node.attributes.dimensions)
    dims = [(m.new(s),) if d in kept else () for d, s in enumerate(node.shape.dimensions)]
    return m.made([dims], [dims])


def _reshape(node: Instruction) -> Factors:
    """Dimensions fall into runs whose sizes multiply to the same; within a run they share factors,
    as far as their sizes divide from the major side."""
    m = _Maker()
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
    combiner = simple_combiner(node.called[0]) if len(arrays) == 1 else None
    if combiner is not None and not is_identity(inits[0], combiner):
        combiner = None
    m = _Maker()
    reduced: list[int] = []
    dims: list[Dims] = []
    for d, size in enumerate(arrays[0].shape.dimensions):
        if d in away and combiner is None:
            dims.append(())
            continue
        dims.append((m.new(size),))
        if d in away:
            reduced.append(dims[-1][0])
    kept = [f for d, f in enumerate(dims) if d not in away]
    operands = [*[dims] * len(arrays), *[[] for _ in inits]]
    return m.made(operands, [kept] * len(arrays), reduced, combiner)


_SIMPLE = (
    Opcode.ADD,
    Opcode.MULTIPLY,
    Opcode.MAXIMUM,
    Opcode.MINIMUM,
    Opcode.AND,
    Opcode.OR,
)


def simple_combiner(computation: Computation) -> Opcode | None:
    """The one operation of a computation of two scalars, if values may be combined by it in any
    order."""
    root = computation.root
    assert root is not None
    if len(computation) == 3 and root.opcode in _SIMPLE:
        if set(root.operands) == set(computation.parameters):
            return root.opcode
    return None


def is_identity(init: Instruction, combiner: Opcode) -> bool:
    """Whether combining with a scalar changes nothing."""
    if not init.is_constant:
        return False
    value = init.literal_array
    if value.shape != ():
        return False
    kind = init.shape.element_type
    if combiner is Opcode.ADD:
        return bool(value == 0)
    if combiner is Opcode.MULTIPLY:
        return bool(value == 1)
    if combiner in (Opcode.AND, Opcode.OR):
        ones = value == 1 if value.dtype == np.bool_ else value == np.array(-1).astype(value.dtype)
        return bool(ones) if combiner is Opcode.AND else bool(value == 0)
    if kind.is_floating:
        return bool(value == (-np.inf if combiner is Opcode.MAXIMUM else np.inf))
    if value.dtype == np.bool_:
        return bool(value) is (combiner is Opcode.MINIMUM)
    limits = np.iinfo(value.dtype)
    return bool(value == (limits.min if combiner is Opcode.MAXIMUM else limits.max))


def _dot(node: Instruction) -> Factors:
    a = node.attributes
    assert isinstance(a, DotAttributes)
    m = _Maker()
    lhs, rhs = (operand.shape for operand in node.operands[:2])
    of_lhs, of_rhs = _without(lhs), _without(rhs)
    reduced = []
    batch = []
    for i, j in zip(a.lhs_batch, a.rhs_batch):
        of_lhs[i] = of_rhs[j] = (m.new(lhs.dimensions[i]),)
        batch.append(of_lhs[i])
    for i, j in zip(a.lhs_contracting, a.rhs_contracting):
        factor = m.new(lhs.dimensions[i])
        of_lhs[i] = of_rhs[j] = (factor,)
        reduced.append(factor)
    free = []
    for shape, mapping, taken in (
        (lhs, of_lhs, {*a.lhs_batch, *a.lhs_contracting}),
        (rhs, of_rhs, {*a.rhs_batch, *a.rhs_contracting}),
    ):
        for d, size in enumerate(shape.dimensions):
            if d not in taken:
                mapping[d] = (m.new(size),)
                free.append(mapping[d])
    return m.made([of_lhs, of_rhs], [[*batch, *free]], reduced, Opcode.ADD)


def _convolution(node: Instruction) -> Factors:
    """Batches and features; a window looks at its neighbours, so spatial dimensions are whole."""
    a = node.attributes
    assert isinstance(a, ConvolutionAttributes)
    d, m = a.dimension_numbers, _Maker()
    image, kernel = (_without(operand.shape) for operand in node.operands)
    result = _without(node.shape)
    image_shape, kernel_shape = (operand.shape.dimensions for operand in node.operands)
    reduced = []
    if a.batch_group_count == 1:
        image[d.input_batch] = result[d.output_batch] = (m.new(image_shape[d.input_batch]),)
    if a.feature_group_count == 1 and a.batch_group_count == 1:
        features = m.new(kernel_shape[d.kernel_output_feature])
        kernel[d.kernel_output_feature] = result[d.output_feature] = (features,)
        factor = m.new(image_shape[d.input_feature])
        image[d.input_feature] = kernel[d.kernel_input_feature] = (factor,)
        reduced.append(factor)
    return m.made([image, kernel], [result], reduced, Opcode.ADD)


def _kept_dimensions(node: Instruction, keeps: Sequence[bool], arrays: int) -> Factors:
    """The first operands and all results have the dimensions of which that is true in common."""
    m = _Maker()
    shape = node.operands[0].shape
    dims = [(m.new(s),) if keep else () for s, keep in zip(shape.dimensions, keeps)]
    operands = [dims if n < arrays else _without(x.shape) for n, x in enumerate(node.operands)]
    return m.made(operands, [dims] * len(node.shape.flatten()))


def _concatenate(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DimensionsAttributes)
    (along,) = node.attributes.dimensions
    return _kept_dimensions(node, [d != along for d in range(node.shape.rank)], len(node.operands))


def _pad(node: Instruction) -> Factors:
    a = node.attributes
    assert isinstance(a, PadAttributes)
    return _kept_dimensions(node, [p == (0, 0, 0) for p in zip(a.low, a.high, a.interior)], 1)


def _slice(node: Instruction) -> Factors:
    a, dims = node.attributes, node.operands[0].shape.dimensions
    assert isinstance(a, SliceAttributes)
    return _kept_dimensions(
        node, [s == (0, d, 1) for d, s in zip(dims, zip(a.starts, a.limits, a.strides))], 1
    )


def _dynamic_slice(node: Instruction) -> Factors:
    assert isinstance(node.attributes, DynamicSliceAttributes)
    dims = node.operands[0].shape.dimensions
    return _kept_dimensions(node, [s == d for s, d in zip(node.attributes.sizes, dims)], 1)


def _dynamic_update_slice(node: Instruction) -> Factors:
    whole, part = (operand.shape.dimensions for operand in node.operands[:2])
    return _kept_dimensions(node, [s == d for s, d in zip(part, whole)], 2)


def _iota(node: Instruction) -> Factors:
    assert isinstance(node.attributes, IotaAttributes)
    m = _Maker()
    return m.made([], [m.dims(node.shape)])


def _sort(node: Instruction) -> Factors:
    assert isinstance(node.attributes, SortAttributes)
    along = node.attributes.dimension
    rank = node.operands[0].shape.rank
    return _kept_dimensions(node, [d != along for d in range(rank)], len(node.operands))


def _top_k(node: Instruction) -> Factors:
    rank = node.operands[0].shape.rank
    return _kept_dimensions(node, [d < rank - 1 for d in range(rank)], 1)


def _looks_at_itself(w: WindowDimension) -> bool:
    return (w.size, w.stride, w.padding_low, w.padding_high, w.base_dilation) == (1, 1, 0, 0, 1)


def _reduce_window(node: Instruction) -> Factors:
    assert isinstance(node.attributes, WindowAttributes)
    keeps = [_looks_at_itself(w) for w in node.attributes.window]
    return _kept_dimensions(node, keeps, len(node.operands) // 2)


def _select_and_scatter(node: Instruction) -> Factors:
    assert isinstance(node.attributes, WindowAttributes)
    return _kept_dimensions(node, [_looks_at_itself(w) for w in node.attributes.window], 2)


def _fft(node: Instruction) -> Factors:
    assert isinstance(node.attributes, FftAttributes)
    batch = node.shape.rank - len(node.attributes.fft_length)
    return _kept_dimensions(node, [d < batch for d in range(node.shape.rank)], 1)


def _batched_matrices(node: Instruction) -> Factors:
    rank = node.operands[0].shape.rank
    return _kept_dimensions(node, [d < rank - 2 for d in range(rank)], len(node.operands))


def _gather(node: Instruction) -> Factors:
    """What indices number, and those dimensions of the array that slices have all of."""
    a = node.attributes
    assert isinstance(a, GatherAttributes)
    array, indices = (operand.shape for operand in node.operands)
    m = _Maker()
    of_array, of_indices, result = _without(array), _without(indices), _without(node.shape)
    gone = {*a.collapsed_slice_dims, *a.operand_batching_dims}
    kept = [d for d in range(array.rank) if d not in gone]
    for d, place in zip(kept, a.offset_dims):
        if a.slice_sizes[d] == array.dimensions[d] and d not in a.start_index_map:
            of_array[d] = result[place] = (m.new(array.dimensions[d]),)
    batch = [d for d in range(node.shape.rank) if d not in a.offset_dims]
    numbered = [d for d in range(indices.rank) if d != a.index_vector_dim]
    for d, place in zip(numbered, batch):
        of_indices[d] = result[place] = (m.new(indices.dimensions[d]),)
    for d, k in zip(a.operand_batching_dims, a.start_indices_batching_dims):
        of_array[d] = of_indices[k]
    return m.made([of_array, of_indices], [result])


def _scatter(node: Instruction) -> Factors:
    """The dimensions that every update has all of, and batches."""
    a = node.attributes
    assert isinstance(a, ScatterAttributes)
    count = len(node.operands) // 2
    array, indices, update = (node.operands[k].shape for k in (0, count, count + 1))
    m = _Maker()
    of_array, of_indices, of_update = _without(array), _without(indices), _without(update)
    gone = {*a.inserted_window_dims, *a.input_batching_dims}
    kept = [d for d in range(array.rank) if d not in gone]
    for d, place in zip(kept, a.update_window_dims):
        full = update.dimensions[place] == array.dimensions[d]
        if full and d not in a.scatter_dims_to_operand_dims:
            of_array[d] = of_update[place] = (m.new(array.dimensions[d]),)
    batch = [d for d in range(update.rank) if d not in a.update_window_dims]
    numbered = [d for d in range(indices.rank) if d != a.index_vector_dim]
    place_of = dict(zip(numbered, batch))
    for d, k in zip(a.input_batching_dims, a.scatter_indices_batching_dims):
        factor = (m.new(array.dimensions[d]),)
        of_array[d] = of_indices[k] = of_update[place_of[k]] = factor
    operands = [*[of_array] * count, of_indices, *[of_update] * count]
    return m.made(operands, [of_array] * count)


def _exchange(node: Instruction) -> Factors:
    """Collectives that the program itself has: dimensions along which nothing is cut or joined."""
    a, m = node.attributes, _Maker()
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


def _to_or_from_parts(node: Instruction) -> Factors | None:
    """The positions along manual axes, and what is left of each dimension."""
    a = node.attributes
    if not isinstance(a, CustomCallAttributes) or a.target not in (
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
    ):
        return None
    shapes = node.operands[0].shape.dimensions, node.shape.dimensions
    to_parts = a.target == "SPMDFullToShardShape"
    array, part = shapes if to_parts else shapes[::-1]
    m = _Maker()
    rest = [(m.new(size),) for size in part]
    cut = [(m.new(size // max(own, 1)), *f) for size, own, f in zip(array, part, rest)]
    return m.made([cut], [rest]) if to_parts else m.made([rest], [cut])


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
    Opcode.CONVOLUTION: _convolution,
    Opcode.CUSTOM_CALL: _to_or_from_parts,
    Opcode.DOT: _dot,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Opcode.FFT: _fft,
    Opcode.GATHER: _gather,
    Opcode.IOTA: _iota,
    Opcode.PAD: _pad,
    Opcode.RAGGED_ALL_TO_ALL: _ragged_all_to_all,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_SCATTER: _exchange,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.RESHAPE: _reshape,
    Opcode.REVERSE: _reverse,
    Opcode.SCATTER: _scatter,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SLICE: _slice,
    Opcode.SORT: _sort,
    Opcode.TOPK: _top_k,
    Opcode.TRANSPOSE: _transpose,
    Opcode.TRIANGULAR_SOLVE: _batched_matrices,
}
