"""Shape rules of contractions, windows, reductions, gather/scatter, sorting, linear algebra and
random bits."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import (
    BatchNormAttributes,
    ConvolutionAttributes,
    DimensionsAttributes,
    DotAttributes,
    FftAttributes,
    GatherAttributes,
    ScanAttributes,
    ScatterAttributes,
    SortAttributes,
    TopKAttributes,
    TriangularSolveAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import PRED, Rule, RuleContext, one_or_tuple, set_text
from xla_backend.hlo.shape_rules_elementwise import COMPLEX_OF, REAL_PART
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType
_INEXACT = frozenset(t for t in P if t.is_array and (t.is_floating or t.is_complex))


def _product_type(c: RuleContext) -> PrimitiveType:
    """Element type of dot and convolution: the operands' common type, the wider of two of one
    class, or what
    the instruction says (s8 x s8 -> s32, bf16 x bf16 -> f32)."""
    a, b = c.shapes[0].element_type, c.shapes[1].element_type
    if c.given is not None:
        return c.given.element_type
    if a is b:
        return a
    same_class = (a.is_floating and b.is_floating) or (a.is_integral and b.is_integral)
    if same_class and a.bits != b.bits:
        return a if a.bits > b.bits else b
    c.fail("operands must have equal element types", "Insert a convert, or give the result shape")


def _dot(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    lhs, rhs = c.shapes
    a = c.attributes
    assert isinstance(a, DotAttributes)
    c.require(
        len(a.lhs_contracting) == len(a.rhs_contracting),
        f"as many lhs as rhs contracting dimensions, got {set_text(a.lhs_contracting)} "
        f"and {set_text(a.rhs_contracting)}",
    )
    c.require(len(a.lhs_batch) == len(a.rhs_batch), "as many lhs as rhs batch dimensions")
    c.require_distinct((*a.lhs_batch, *a.lhs_contracting), lhs.rank, "lhs dimensions")
    c.require_distinct((*a.rhs_batch, *a.rhs_contracting), rhs.rank, "rhs dimensions")
    for what, left, right in (
        ("contracting", a.lhs_contracting, a.rhs_contracting),
        ("batch", a.lhs_batch, a.rhs_batch),
    ):
        for i, j in zip(left, right):
            c.require(
                lhs.dimensions[i] == rhs.dimensions[j],
                f"{what} dimensions {i} and {j} have sizes {lhs.dimensions[i]} and "
                f"{rhs.dimensions[j]}",
            )
    used_l, used_r = {*a.lhs_batch, *a.lhs_contracting}, {*a.rhs_batch, *a.rhs_contracting}
    dims = [lhs.dimensions[i] for i in a.lhs_batch]
    dims += [d for i, d in enumerate(lhs.dimensions) if i not in used_l]
    dims += [d for i, d in enumerate(rhs.dimensions) if i not in used_r]
    return Shape.array(_product_type(c), dims)


def window_output_size(size: int, w: WindowDimension) -> int:
    """How many positions a window has along a dimension of `size` elements."""
    base = (size - 1) * w.base_dilation + 1 if size else 0
    padded = base + w.padding_low + w.padding_high
    reach = (w.size - 1) * w.window_dilation + 1 if w.size else 0
    if padded < reach or w.size == 0:
        return 0
    return (padded - reach) // w.stride + 1


def _check_window(c: RuleContext, window: Sequence[WindowDimension], count: int) -> None:
    c.require(len(window) == count, f"window has {len(window)} dimensions, needs {count}")
    for i, w in enumerate(window):
        c.require(
            w.size >= 0 and w.stride >= 1 and w.base_dilation >= 1 and w.window_dilation >= 1,
            f"window dimension {i} must have size >= 0, stride and dilations >= 1",
        )


def _convolution(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    lhs, rhs = c.shapes
    a = c.attributes
    assert isinstance(a, ConvolutionAttributes)
    n = a.dimension_numbers
    c.require(lhs.rank == rhs.rank >= 2, "input and kernel must have the same rank >= 2")
    positions = (
        (n.input_batch, n.input_feature, *n.input_spatial),
        (n.kernel_input_feature, n.kernel_output_feature, *n.kernel_spatial),
        (n.output_batch, n.output_feature, *n.output_spatial),
    )
    for which in positions:
        c.require(
            sorted(which) == list(range(lhs.rank)),
            f"dim_labels must name each of the {lhs.rank} dimensions once",
        )
    _check_window(c, a.window, lhs.rank - 2)
    fg, bg = a.feature_group_count, a.batch_group_count
    c.require(
        fg >= 1 and bg >= 1 and (fg == 1 or bg == 1),
        "one of feature and batch group count must be 1",
    )
    batch, in_feature = lhs.dimensions[n.input_batch], lhs.dimensions[n.input_feature]
    k_in, k_out = rhs.dimensions[n.kernel_input_feature], rhs.dimensions[n.kernel_output_feature]
    c.require(
        in_feature == k_in * fg,
        f"input features {in_feature} must be kernel input features {k_in} x "
        f"feature_group_count {fg}",
    )
    c.require(
        k_out % fg == 0, f"kernel output features {k_out} must divide by feature_group_count {fg}"
    )
    c.require(
        k_out % bg == 0, f"kernel output features {k_out} must divide by batch_group_count {bg}"
    )
    c.require(batch % bg == 0, f"batch {batch} must divide by batch_group_count {bg}")
    dims = [0] * lhs.rank
    dims[n.output_batch] = batch // bg
    dims[n.output_feature] = k_out
    for i, w in enumerate(a.window):
        k = rhs.dimensions[n.kernel_spatial[i]]
        c.require(
            w.size == k,
            f"window size {w.size} of spatial dimension {i} differs from the kernel's {k}",
        )
        dims[n.output_spatial[i]] = window_output_size(lhs.dimensions[n.input_spatial[i]], w)
    return Shape.array(_product_type(c), dims)


# -- reductions ------------------------------------------------------------------------------------


def _variadic(c: RuleContext) -> tuple[Sequence[Shape], Sequence[Shape]]:
    """Operands and initial values of a variadic reduction; checks them and the reducer."""
    c.require(
        len(c.shapes) >= 2 and len(c.shapes) % 2 == 0, "needs as many initial values as operands"
    )
    c.require_array()
    c.require_called(1)
    half = len(c.shapes) // 2
    operands, inits = c.shapes[:half], c.shapes[half:]
    for operand, init in zip(operands, inits):
        c.require(
            operand.dimensions == operands[0].dimensions, "all operands must have equal dimensions"
        )
        c.require(init.is_scalar, f"an initial value must be a scalar, is {init}")
        c.require(
            init.element_type is operand.element_type,
            f"initial value {init} differs in type from operand {operand}",
            "Insert a convert",
        )
    scalars = [Shape(s.element_type) for s in inits]
    c.require_signature(c.called[0], [*scalars, *scalars], one_or_tuple(scalars), "to_apply")
    return operands, inits


def _reduce(c: RuleContext) -> Shape:
    operands, _ = _variadic(c)
    a = c.attributes
    assert isinstance(a, DimensionsAttributes)
    c.require_distinct(a.dimensions, operands[0].rank, "dimensions")
    kept = [d for i, d in enumerate(operands[0].dimensions) if i not in a.dimensions]
    return one_or_tuple([Shape.array(s.element_type, kept) for s in operands])


def _reduce_window(c: RuleContext) -> Shape:
    operands, _ = _variadic(c)
    a = c.attributes
    assert isinstance(a, WindowAttributes)
    _check_window(c, a.window, operands[0].rank)
    dims = [window_output_size(d, w) for d, w in zip(operands[0].dimensions, a.window)]
    return one_or_tuple([Shape.array(s.element_type, dims) for s in operands])


def _select_and_scatter(c: RuleContext) -> Shape:
    c.require_arity(3)
    c.require_array()
    c.require_called(2)
    operand, source, init = c.shapes
    a = c.attributes
    assert isinstance(a, WindowAttributes)
    _check_window(c, a.window, operand.rank)
    scalar = Shape(operand.element_type)
    c.require(init.compatible(scalar), f"the initial value must be {scalar}, is {init}")
    dims = tuple(window_output_size(d, w) for d, w in zip(operand.dimensions, a.window))
    c.require(
        source.compatible(Shape.array(operand.element_type, dims)),
        f"the source must be {Shape.array(operand.element_type, dims)}, is {source}",
    )
    c.require_signature(c.called[0], [scalar, scalar], PRED, "select")
    c.require_signature(c.called[1], [scalar, scalar], scalar, "scatter")
    return operand.with_dimensions(operand.dimensions)


def _scan(c: RuleContext) -> Shape:
    """Inputs, then `num_carries` initial carries; results: stacked outputs, then final carries."""
    a = c.attributes
    assert isinstance(a, ScanAttributes)
    c.require_called(1)
    count = len(c.shapes) - a.num_carries
    c.require(
        0 <= a.num_carries <= len(c.shapes), f"num_carries={a.num_carries} exceeds the operands"
    )
    inputs, inits = c.shapes[:count], c.shapes[count:]
    slices = []
    length = None
    for shape in inputs:
        c.require_dimension(a.dimension, shape.rank, "dimension")
        length = shape.dimensions[a.dimension]
        c.require(
            length == inputs[0].dimensions[a.dimension],
            "inputs differ in size along the scan dimension",
        )
        slices.append(
            shape.with_dimensions([d for i, d in enumerate(shape.dimensions) if i != a.dimension])
        )
    root = c.require_signature(c.called[0], [*slices, *inits], None, "to_apply")
    results = root.tuple_shapes if root.is_tuple else (root,)
    c.require(len(results) >= a.num_carries, f"to_apply returns {root}, fewer than the carries")
    outputs = results[: len(results) - a.num_carries]
    c.require(
        all(r.compatible(i) for r, i in zip(results[len(outputs) :], inits)),
        f"to_apply returns {root}; its last {a.num_carries} members must be the carries",
    )
    if length is None:
        return c.require_given()
    stacked = [
        s.with_dimensions((*s.dimensions[: a.dimension], length, *s.dimensions[a.dimension :]))
        for s in outputs
    ]
    return (
        one_or_tuple([*stacked, *inits]) if not root.is_tuple else Shape.tuple([*stacked, *inits])
    )


# -- gather and scatter ----------------------------------------------------------------------------


def _index_vector(c: RuleContext, indices: Shape, index_vector_dim: int) -> tuple[int, list[int]]:
    """Length of an index vector, and the other (batch) dimensions of the index array."""
    c.require(indices.element_type.is_integral, f"indices must be integers, are {indices}")
    c.require(
        0 <= index_vector_dim <= indices.rank,
        f"index_vector_dim {index_vector_dim} is out of range for {indices}",
    )
    batch = [d for i, d in enumerate(indices.dimensions) if i != index_vector_dim]
    if index_vector_dim == indices.rank:
        return 1, batch
    return indices.dimensions[index_vector_dim], batch


def _gather(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    operand, indices = c.shapes
    a = c.attributes
    assert isinstance(a, GatherAttributes)
    length, batch = _index_vector(c, indices, a.index_vector_dim)
    c.require(
        len(a.start_index_map) == length,
        f"start_index_map={set_text(a.start_index_map)} must have as many entries as an index "
        f"vector ({length})",
    )
    c.require_distinct(a.start_index_map, operand.rank, "start_index_map")
    dropped = (*a.collapsed_slice_dims, *a.operand_batching_dims)
    c.require_distinct(dropped, operand.rank, "collapsed_slice_dims and operand_batching_dims")
    c.require(
        len(a.operand_batching_dims) == len(a.start_indices_batching_dims),
        "as many operand_batching_dims as start_indices_batching_dims",
    )
    c.require(
        len(a.slice_sizes) == operand.rank,
        f"slice_sizes={set_text(a.slice_sizes)} needs {operand.rank} sizes",
    )
    for i, (size, bound) in enumerate(zip(a.slice_sizes, operand.dimensions)):
        c.require(
            0 <= size <= bound, f"slice size {size} of dimension {i} exceeds the operand's {bound}"
        )
    for d in dropped:
        c.require(
            a.slice_sizes[d] <= 1,
            f"slice size of dropped dimension {d} must be 1, is {a.slice_sizes[d]}",
        )
    for d, e in zip(a.operand_batching_dims, a.start_indices_batching_dims):
        c.require_dimension(e, indices.rank, "start_indices_batching_dims")
        c.require(
            operand.dimensions[d] == indices.dimensions[e],
            f"batching dimensions {d} and {e} differ in size",
        )
    rest = [s for i, s in enumerate(a.slice_sizes) if i not in dropped]
    c.require(
        len(a.offset_dims) == len(rest),
        f"offset_dims={set_text(a.offset_dims)} must name {len(rest)} result dimensions",
    )
    rank = len(batch) + len(rest)
    c.require_distinct(a.offset_dims, rank, "offset_dims")
    batch_sizes, slice_sizes = iter(batch), iter(rest)
    dims = [next(slice_sizes) if i in a.offset_dims else next(batch_sizes) for i in range(rank)]
    return Shape.array(operand.element_type, dims)


def _scatter(c: RuleContext) -> Shape:
    c.require(len(c.shapes) >= 3 and len(c.shapes) % 2 == 1, "needs n operands, indices, n updates")
    c.require_array()
    c.require_called(1)
    n = len(c.shapes) // 2
    operands, indices, updates = c.shapes[:n], c.shapes[n], c.shapes[n + 1 :]
    a = c.attributes
    assert isinstance(a, ScatterAttributes)
    length, batch = _index_vector(c, indices, a.index_vector_dim)
    rank = operands[0].rank
    c.require(
        len(a.scatter_dims_to_operand_dims) == length,
        f"scatter_dims_to_operand_dims={set_text(a.scatter_dims_to_operand_dims)} must have "
        f"as many entries "
        f"as an index vector ({length})",
    )
    c.require_distinct(a.scatter_dims_to_operand_dims, rank, "scatter_dims_to_operand_dims")
    dropped = (*a.inserted_window_dims, *a.input_batching_dims)
    c.require_distinct(dropped, rank, "inserted_window_dims and input_batching_dims")
    c.require(
        rank == len(a.update_window_dims) + len(dropped),
        f"rank {rank} must be the sum of update_window_dims, inserted_window_dims and "
        f"input_batching_dims",
    )
    windows = [d for i, d in enumerate(operands[0].dimensions) if i not in dropped]
    for operand, update in zip(operands, updates):
        c.require(
            operand.dimensions == operands[0].dimensions, "all operands must have equal dimensions"
        )
        c.require(update.element_type is operand.element_type, "update and operand types differ")
        c.require(
            update.rank == len(a.update_window_dims) + len(batch),
            f"an update must have rank {len(a.update_window_dims) + len(batch)}, is {update}",
        )
        c.require_distinct(a.update_window_dims, update.rank, "update_window_dims")
        sizes = [update.dimensions[d] for d in a.update_window_dims]
        c.require(
            all(s <= w for s, w in zip(sizes, windows)),
            f"update window {set_text(sizes)} exceeds the operand's {set_text(windows)}",
        )
        scattered = [d for i, d in enumerate(update.dimensions) if i not in a.update_window_dims]
        c.require(
            scattered == batch,
            f"update batch sizes {set_text(scattered)} differ from the indices' {set_text(batch)}",
        )
    scalars = [Shape(s.element_type) for s in operands]
    c.require_signature(c.called[0], [*scalars, *scalars], one_or_tuple(scalars), "to_apply")
    return one_or_tuple([s.with_dimensions(s.dimensions) for s in operands])


# -- sorting, linear algebra, normalisation, random bits -------------------------------------------


def _sort(c: RuleContext) -> Shape:
    c.require(c.shapes, "needs at least one operand")
    c.require_array()
    c.require_called(1)
    a = c.attributes
    assert isinstance(a, SortAttributes)
    c.require_dimension(a.dimension, c.shapes[0].rank, "dimension")
    for s in c.shapes:
        c.require(s.dimensions == c.shapes[0].dimensions, "all operands must have equal dimensions")
    scalars = [Shape(s.element_type) for s in c.shapes for _ in (0, 1)]
    c.require_signature(c.called[0], scalars, PRED, "to_apply")
    return one_or_tuple([s.with_dimensions(s.dimensions) for s in c.shapes])


def _topk(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, TopKAttributes)
    c.require(operand.rank >= 1, "the operand must have rank >= 1")
    c.require(0 <= a.k <= operand.dimensions[-1], f"k={a.k} exceeds the last dimension")
    dims = (*operand.dimensions[:-1], a.k)
    return Shape.tuple([operand.with_dimensions(dims), Shape.array(P.S32, dims)])


def _fft(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, FftAttributes)
    rank = len(a.fft_length)
    c.require(
        1 <= rank <= operand.rank, f"fft_length has {rank} entries, operand rank {operand.rank}"
    )
    wants_real = a.fft_type == "RFFT"
    c.require(
        operand.element_type in (COMPLEX_OF if wants_real else REAL_PART),
        f"{a.fft_type} takes {'f32 or f64' if wants_real else 'c64 or c128'}",
        "Insert a convert",
    )
    have = list(operand.dimensions[-rank:])
    want = list(a.fft_length)
    if a.fft_type == "IRFFT":
        want[-1] = want[-1] // 2 + 1 if want[-1] else 0
    c.require(
        have == want,
        f"{a.fft_type} of length {set_text(a.fft_length)} needs last dimensions {set_text(want)}",
    )
    dims = list(operand.dimensions)
    if a.fft_type == "RFFT":
        dims[-1] = dims[-1] // 2 + 1 if dims[-1] else 0
        return Shape.array(COMPLEX_OF[operand.element_type], dims)
    if a.fft_type == "IRFFT":
        dims[-1] = a.fft_length[-1]
        return Shape.array(REAL_PART[operand.element_type], dims)
    return operand.with_dimensions(dims)


def _require_square(c: RuleContext, shape: Shape) -> None:
    c.require(
        shape.rank >= 2 and shape.dimensions[-1] == shape.dimensions[-2],
        f"the last two dimensions of {shape} must be equal",
    )
    c.require(shape.element_type in _INEXACT, "element type must be floating-point or complex")


def _cholesky(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    _require_square(c, c.shapes[0])
    return c.shapes[0].with_dimensions(c.shapes[0].dimensions)


def _triangular_solve(c: RuleContext) -> Shape:
    c.require_arity(2)
    c.require_array()
    a, b = c.shapes
    attributes = c.attributes
    assert isinstance(attributes, TriangularSolveAttributes)
    _require_square(c, a)
    c.require(
        a.element_type is b.element_type,
        "operands must have equal element types",
        "Insert a convert",
    )
    c.require(
        a.rank == b.rank and a.dimensions[:-2] == b.dimensions[:-2],
        "batch dimensions must be equal",
    )
    side = b.dimensions[-2 if attributes.left_side else -1]
    c.require(
        side == a.dimensions[-1], f"cannot solve a system of {a.dimensions[-1]} with {side} rows"
    )
    return b.with_dimensions(b.dimensions)


def _batch_norm(c: RuleContext) -> Shape:
    c.require_arity(c.opcode.info.arity or 0)
    c.require_array()
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, BatchNormAttributes)
    c.require_dimension(a.feature_index, operand.rank, "feature_index")
    c.require(operand.element_type.is_floating, "element type must be floating-point")
    feature = Shape.array(operand.element_type, (operand.dimensions[a.feature_index],))
    vectors = c.shapes[1:4] if c.opcode is Opcode.BATCH_NORM_GRAD else c.shapes[1:]
    for s in vectors:
        c.require(s.compatible(feature), f"per-feature operands must be {feature}, got {s}")
    result = operand.with_dimensions(operand.dimensions)
    if c.opcode is Opcode.BATCH_NORM_INFERENCE:
        return result
    if c.opcode is Opcode.BATCH_NORM_GRAD:
        c.require(
            c.shapes[4].compatible(result), f"the gradient must be {result}, is {c.shapes[4]}"
        )
    return Shape.tuple([result, feature, feature])


def _rng(c: RuleContext) -> Shape:
    given = c.require_given()
    c.require_arity(2)
    for s in c.shapes:
        c.require(s.is_scalar, f"distribution parameters must be scalars, got {s}")
        c.require(
            s.element_type is given.element_type,
            f"distribution parameters must be {given.element_type}, got {s}",
        )
    return given


def _rng_bit_generator(c: RuleContext) -> Shape:
    c.require_arity(1)
    given, state = c.require_given(), c.shapes[0]
    c.require(
        state.element_type in (P.U32, P.U64) and state.rank == 1,
        f"the state must be a vector of u32 or u64, is {state}",
    )
    c.require(
        given.is_tuple and len(given.tuple_shapes) == 2 and given.tuple_shapes[0].compatible(state),
        f"the result must be ({state}, bits), is {given}",
    )
    c.require(given.tuple_shapes[1].element_type.is_integral, f"bits must be integers, are {given}")
    return given


def _explicit_any(c: RuleContext) -> Shape:
    return c.require_given()


STRUCTURED_RULES: dict[Opcode, Rule] = {
    Opcode.DOT: _dot,
    Opcode.RAGGED_DOT: _explicit_any,
    Opcode.SCALED_DOT: _explicit_any,
    Opcode.CONVOLUTION: _convolution,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SCAN: _scan,
    Opcode.GATHER: _gather,
    Opcode.SCATTER: _scatter,
    Opcode.SORT: _sort,
    Opcode.TOPK: _topk,
    Opcode.FFT: _fft,
    Opcode.CHOLESKY: _cholesky,
    Opcode.TRIANGULAR_SOLVE: _triangular_solve,
    Opcode.BATCH_NORM_TRAINING: _batch_norm,
    Opcode.BATCH_NORM_INFERENCE: _batch_norm,
    Opcode.BATCH_NORM_GRAD: _batch_norm,
    Opcode.RNG: _rng,
    Opcode.RNG_BIT_GENERATOR: _rng_bit_generator,
    Opcode.RNG_GET_AND_UPDATE_STATE: _explicit_any,
}
