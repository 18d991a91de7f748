"""Shape rules of reductions, scans, sorting, linear algebra, normalisation and random bits."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import (
    BatchNormAttributes,
    DimensionsAttributes,
    FftAttributes,
    ScanAttributes,
    SortAttributes,
    TopKAttributes,
    TriangularSolveAttributes,
    WindowAttributes,
)
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.shape_checks import PRED, Rule, RuleContext, one_or_tuple, set_text
from xla_backend.hlo.shape_rules_contractions import check_window, window_output_size
from xla_backend.hlo.shape_rules_elementwise import COMPLEX_OF, REAL_PART
from xla_backend.hlo.types import PrimitiveType

P = PrimitiveType
_INEXACT = frozenset(t for t in P if t.is_array and (t.is_floating or t.is_complex))


# -- reductions ------------------------------------------------------------------------------------


def _variadic(c: RuleContext) -> tuple[Sequence[Shape], Sequence[Shape]]:
    """Operands and initial values of a variadic reduction; checks them and the reducer."""
    # reduce_c3, reduce_window_c1
    c.require(
        len(c.shapes) >= 2 and len(c.shapes) % 2 == 0, "needs as many initial values as operands"
    )
    c.require_array()
    c.require_called(1)
    half = len(c.shapes) // 2
    operands, inits = c.shapes[:half], c.shapes[half:]
    for operand, init in zip(operands, inits):
        # reduce_c1, reduce_window_c2
        c.require(
            operand.dimensions == operands[0].dimensions, "all operands must have equal dimensions"
        )
        # reduce_c9
        c.require(init.is_scalar, f"an initial value must be a scalar, is {init}")
        # reduce_c2, reduce_window_c3
        c.require(
            init.element_type is operand.element_type,
            f"initial value {init} differs in type from operand {operand}",
            "Insert a convert",
        )
    scalars = [Shape(s.element_type) for s in inits]
    # reduce_c6, reduce_window_c13
    c.require_signature(c.called[0], [*scalars, *scalars], one_or_tuple(scalars), "to_apply")
    return operands, inits


def _reduce(c: RuleContext) -> Shape:
    operands, _ = _variadic(c)
    a = c.attributes
    assert isinstance(a, DimensionsAttributes)
    # reduce_c4, reduce_c5
    c.require_distinct(a.dimensions, operands[0].rank, "dimensions")
    kept = [d for i, d in enumerate(operands[0].dimensions) if i not in a.dimensions]
    return one_or_tuple([Shape.array(s.element_type, kept) for s in operands])


def _reduce_window(c: RuleContext) -> Shape:
    operands, _ = _variadic(c)
    a = c.attributes
    assert isinstance(a, WindowAttributes)
    check_window(c, a.window, operands[0].rank)
    dims = [window_output_size(d, w) for d, w in zip(operands[0].dimensions, a.window)]
    return one_or_tuple([Shape.array(s.element_type, dims) for s in operands])


def _select_and_scatter(c: RuleContext) -> Shape:
    c.require_arity(3)
    c.require_array()
    c.require_called(2)
    operand, source, init = c.shapes
    a = c.attributes
    assert isinstance(a, WindowAttributes)
    check_window(c, a.window, operand.rank)
    scalar = Shape(operand.element_type)
    # select_and_scatter_c3
    c.require(init.compatible(scalar), f"the initial value must be {scalar}, is {init}")
    dims = tuple(window_output_size(d, w) for d, w in zip(operand.dimensions, a.window))
    # select_and_scatter_c1, select_and_scatter_c2
    c.require(
        source.compatible(Shape.array(operand.element_type, dims)),
        f"the source must be {Shape.array(operand.element_type, dims)}, is {source}",
    )
    # select_and_scatter_c9
    c.require_signature(c.called[0], [scalar, scalar], PRED, "select")
    # select_and_scatter_c10
    c.require_signature(c.called[1], [scalar, scalar], scalar, "scatter")
    return operand.with_dimensions(operand.dimensions)


def _scan(c: RuleContext) -> Shape:
    """Inputs, then `num_carries` initial carries; results: stacked outputs, then final carries."""
    a = c.attributes
    assert isinstance(a, ScanAttributes)
    c.require_called(1)
    count = len(c.shapes) - a.num_carries
    # scan_c1
    c.require(
        0 <= a.num_carries <= len(c.shapes), f"num_carries={a.num_carries} exceeds the operands"
    )
    inputs, inits = c.shapes[:count], c.shapes[count:]
    slices = []
    length = None
    for shape in inputs:
        # scan_c2
        c.require_dimension(a.dimension, shape.rank, "dimension")
        length = shape.dimensions[a.dimension]
        # scan_c3
        c.require(
            length == inputs[0].dimensions[a.dimension],
            "inputs differ in size along the scan dimension",
        )
        slices.append(
            shape.with_dimensions([d for i, d in enumerate(shape.dimensions) if i != a.dimension])
        )
    # scan_c4
    root = c.require_signature(c.called[0], [*slices, *inits], None, "to_apply")
    results = root.tuple_shapes if root.is_tuple else (root,)
    # scan_c5
    c.require(len(results) >= a.num_carries, f"to_apply returns {root}, fewer than the carries")
    outputs = results[: len(results) - a.num_carries]
    # scan_c6
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


# -- sorting, linear algebra, normalisation, random bits -------------------------------------------


def _sort(c: RuleContext) -> Shape:
    # sort_c1
    c.require(c.shapes, "needs at least one operand")
    c.require_array()
    c.require_called(1)
    a = c.attributes
    assert isinstance(a, SortAttributes)
    # sort_c4
    c.require_dimension(a.dimension, c.shapes[0].rank, "dimension")
    for s in c.shapes:
        # sort_c3
        c.require(s.dimensions == c.shapes[0].dimensions, "all operands must have equal dimensions")
    scalars = [Shape(s.element_type) for s in c.shapes for _ in (0, 1)]
    # sort_c5
    c.require_signature(c.called[0], scalars, PRED, "to_apply")
    return one_or_tuple([s.with_dimensions(s.dimensions) for s in c.shapes])


def _topk(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, TopKAttributes)
    # topk_c1
    c.require(operand.rank >= 1, "the operand must have rank >= 1")
    # topk_c2
    c.require(0 <= a.k <= operand.dimensions[-1], f"k={a.k} exceeds the last dimension")
    dims = (*operand.dimensions[:-1], a.k)
    return Shape.tuple([operand.with_dimensions(dims), Shape.array(P.S32, dims)])


def _fft(c: RuleContext) -> Shape:
    c.require_arity(1)
    c.require_array()
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, FftAttributes)
    rank = len(a.fft_length)
    # fft_c1
    c.require(
        1 <= rank <= operand.rank, f"fft_length has {rank} entries, operand rank {operand.rank}"
    )
    # fft_c2
    c.require(rank <= 3, f"fft_length has {rank} entries, at most 3 are allowed")
    wants_real = a.fft_type == "RFFT"
    # fft_c3
    c.require(
        operand.element_type in (COMPLEX_OF if wants_real else REAL_PART),
        f"{a.fft_type} takes {'f32 or f64' if wants_real else 'c64 or c128'}",
        "Insert a convert",
    )
    have = list(operand.dimensions[-rank:])
    want = list(a.fft_length)
    if a.fft_type == "IRFFT":
        want[-1] = want[-1] // 2 + 1 if want[-1] else 0
    # fft_c4, fft_c5
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
    # cholesky_c2, triangular_solve_c2
    c.require(shape.rank >= 2, f"{shape} must have rank >= 2")
    # cholesky_c3, triangular_solve_c5
    c.require(
        shape.dimensions[-1] == shape.dimensions[-2],
        f"the last two dimensions of {shape} must be equal",
    )
    # cholesky_c4, triangular_solve_c6
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
    # triangular_solve_c1
    c.require(
        a.element_type is b.element_type,
        "operands must have equal element types",
        "Insert a convert",
    )
    # triangular_solve_c7
    c.require(
        a.rank == b.rank and a.dimensions[:-2] == b.dimensions[:-2],
        "batch dimensions must be equal",
    )
    side = b.dimensions[-2 if attributes.left_side else -1]
    # triangular_solve_c3
    c.require(
        side == a.dimensions[-1], f"cannot solve a system of {a.dimensions[-1]} with {side} rows"
    )
    return b.with_dimensions(b.dimensions)


def _batch_norm(c: RuleContext) -> Shape:
    c.require_arity(c.opcode.arity or 0)
    c.require_array()
    operand, a = c.shapes[0], c.attributes
    assert isinstance(a, BatchNormAttributes)
    # batch_norm_c1
    c.require_dimension(a.feature_index, operand.rank, "feature_index")
    # batch_norm_c2
    c.require(operand.element_type.is_floating, "element type must be floating-point")
    feature = Shape.array(operand.element_type, (operand.dimensions[a.feature_index],))
    vectors = c.shapes[1:4] if c.opcode is Opcode.BATCH_NORM_GRAD else c.shapes[1:]
    for s in vectors:
        # batch_norm_c3
        c.require(s.compatible(feature), f"per-feature operands must be {feature}, got {s}")
    result = operand.with_dimensions(operand.dimensions)
    if c.opcode is Opcode.BATCH_NORM_INFERENCE:
        return result
    if c.opcode is Opcode.BATCH_NORM_GRAD:
        # batch_norm_grad_c3
        c.require(
            c.shapes[4].compatible(result), f"the gradient must be {result}, is {c.shapes[4]}"
        )
    return Shape.tuple([result, feature, feature])


def _rng(c: RuleContext) -> Shape:
    given = c.require_given()
    c.require_arity(2)
    for s in c.shapes:
        # rng_c1
        c.require(s.is_scalar, f"distribution parameters must be scalars, got {s}")
        # rng_c2
        c.require(
            s.element_type is given.element_type,
            f"distribution parameters must be {given.element_type}, got {s}",
        )
    return given


def _rng_bit_generator(c: RuleContext) -> Shape:
    c.require_arity(1)
    given, state = c.require_given(), c.shapes[0]
    # rng_bit_generator_c1
    c.require(
        state.element_type in (P.U32, P.U64) and state.rank == 1,
        f"the state must be a vector of u32 or u64, is {state}",
    )
    # rng_bit_generator_c2
    c.require(
        given.is_tuple and len(given.tuple_shapes) == 2 and given.tuple_shapes[0].compatible(state),
        f"the result must be ({state}, bits), is {given}",
    )
    # rng_bit_generator_c3
    c.require(given.tuple_shapes[1].element_type.is_integral, f"bits must be integers, are {given}")
    return given


def _rng_get_and_update_state(c: RuleContext) -> Shape:
    c.require_arity(0)
    given = c.require_given()
    # rng_get_and_update_state_c1
    c.require(
        given.element_type is P.U64 and given.num_elements == 2,
        f"the result must be two u64 words, is {given}",
    )
    return given


STRUCTURED_RULES: dict[Opcode, Rule] = {
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: _reduce_window,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
    Opcode.SCAN: _scan,
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
    Opcode.RNG_GET_AND_UPDATE_STATE: _rng_get_and_update_state,
}
