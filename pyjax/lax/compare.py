"""Comparisons, selection by a predicate, and clamp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.extended_dtypes import is_extended
from pyjax.core.manual_types import without_sums
from pyjax.core.primitive import Primitive
from pyjax.core.structural import add_jaxvals, as_split
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, not_mapped
from pyjax.interpreters.rules import (
    ZERO_TANGENT,
    FullJvp,
    Unsupported,
    elementwise_primitives,
)
from pyjax.lax.common import (
    ANY_OR_KEY,
    BOOL_DTYPE,
    ORDERED,
    DtypeClass,
    aval_of,
    hlo_broadcast_to,
    hlo_nary,
    is_integer,
    nary_operands,
    scalar_like,
    shape_of,
    to_bool,
)
from pyjax.lax.nary import define, define_nary, expand_to, stretch
from xla_backend.hlo.attributes import (
    CompareAttributes,
    ComparisonDirection,
    DimensionsAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType


def full_value(x: ArrayLike, value: complex) -> Array:
    """An array of `value` with x's shape and dtype, split over mesh axes of type Explicit as x."""
    aval = aval_of(x)
    filled = expand_to(scalar_like(value, x), aval.shape, ())
    return filled if aval.split is None else as_split(filled, without_sums(aval).split)


# -- comparisons -----------------------------------------------------------------------------------


def _define_comparison(
    name: str, direction: str, accepts: DtypeClass, total: bool = False
) -> Primitive:
    attributes = CompareAttributes(ComparisonDirection[direction], total)
    compare = hlo_nary(Opcode.COMPARE, attributes)

    def rule(ctx: Any, x: Instruction, y: Instruction) -> Instruction:
        if accepts.keys and is_extended(ctx.avals_in[0].dtype):
            return _compare_words(ctx, x, y, attributes)
        return compare(ctx, x, y)

    return define_nary(name, None, (accepts, accepts), ZERO_TANGENT, lowering=rule, result=to_bool)


def _compare_words(
    ctx: Any, x: Instruction, y: Instruction, attributes: CompareAttributes
) -> Instruction:
    """Keys are equal if all their words are, and differ if any does."""
    key_shape = ctx.avals_in[0].dtype.key_shape
    shape: Shape = ctx.shapes_out[0]
    words = shape.dimensions + key_shape
    key_dims = range(len(shape.dimensions), len(words))
    builder = ctx.builder

    def stretched(key: Instruction) -> Instruction:
        if key.shape.rank == len(key_shape) < len(words):  # of one key
            return builder.broadcast(key, words, key_dims)
        return hlo_broadcast_to(builder, key, words)

    differ = attributes.direction is ComparisonDirection.NE
    compared = builder.add(
        Opcode.COMPARE,
        (stretched(x), stretched(y)),
        attributes,
        shape=Shape.array(PrimitiveType.PRED, words),
    )
    reducer = ctx.reducer(Opcode.OR if differ else Opcode.AND, PrimitiveType.PRED)
    return builder.add(
        Opcode.REDUCE,
        (compared, builder.constant(np.asarray(not differ))),
        DimensionsAttributes(tuple(key_dims)),
        called=(reducer,),
        shape=shape,
    )


eq_p: Primitive = _define_comparison("eq", "EQ", ANY_OR_KEY)
ne_p: Primitive = _define_comparison("ne", "NE", ANY_OR_KEY)
ge_p: Primitive = _define_comparison("ge", "GE", ORDERED)
gt_p: Primitive = _define_comparison("gt", "GT", ORDERED)
le_p: Primitive = _define_comparison("le", "LE", ORDERED)
lt_p: Primitive = _define_comparison("lt", "LT", ORDERED)
# In the total order of IEEE 754, -nan < -inf < ... < -0 < +0 < ... < inf < nan: what sort compares
# with.
eq_to_p: Primitive = _define_comparison("eq_to", "EQ", ORDERED, total=True)
le_to_p: Primitive = _define_comparison("le_to", "LE", ORDERED, total=True)
lt_to_p: Primitive = _define_comparison("lt_to", "LT", ORDERED, total=True)


def eq(x: ArrayLike, y: ArrayLike) -> Array:
    """x == y, elementwise, as bool; nan equals nothing, a random key those with the same words.
    Operands as in `add`.

    >>> lax.eq(jnp.array([1, 2]), jnp.array([1, 3]))
    Array([ True, False], dtype=bool)
    """
    x, y = nary_operands("eq", x, y)
    return eq_p.bind1(x, y)


def ne(x: ArrayLike, y: ArrayLike) -> Array:
    """x != y, elementwise, as bool.

    >>> lax.ne(jnp.array([1, 2]), jnp.array([1, 3]))
    Array([False,  True], dtype=bool)
    """
    x, y = nary_operands("ne", x, y)
    return ne_p.bind1(x, y)


def ge(x: ArrayLike, y: ArrayLike) -> Array:
    """x >= y, elementwise, as bool; false where either is nan. TypeError for complex.

    >>> lax.ge(jnp.array([1, 2]), jnp.array([2, 2]))
    Array([False,  True], dtype=bool)
    """
    x, y = nary_operands("ge", x, y)
    return ge_p.bind1(x, y)


def gt(x: ArrayLike, y: ArrayLike) -> Array:
    """x > y, elementwise, as bool; false where either is nan. TypeError for complex.

    >>> lax.gt(jnp.array([1, 3]), jnp.array([2, 2]))
    Array([False,  True], dtype=bool)
    """
    x, y = nary_operands("gt", x, y)
    return gt_p.bind1(x, y)


def le(x: ArrayLike, y: ArrayLike) -> Array:
    """x <= y, elementwise, as bool; false where either is nan. TypeError for complex.

    >>> lax.le(jnp.array([1, 3]), jnp.array([2, 2]))
    Array([ True, False], dtype=bool)
    """
    x, y = nary_operands("le", x, y)
    return le_p.bind1(x, y)


def lt(x: ArrayLike, y: ArrayLike) -> Array:
    """x < y, elementwise, as bool; false where either is nan. TypeError for complex.

    >>> lax.lt(jnp.array([1, 3]), jnp.array([2, 2]))
    Array([ True, False], dtype=bool)
    """
    x, y = nary_operands("lt", x, y)
    return lt_p.bind1(x, y)


# -- select ----------------------------------------------------------------------------------------


def _select_n_aval(which: ShapedArray, *cases: ShapedArray) -> list[ShapedArray]:
    first = cases[0]
    for case in cases[1:]:
        if case.shape != first.shape:
            fail(
                TypeError,
                f"select cases must have the same shapes, got {[c.shape for c in cases]}.",
                fix="broadcast the cases first (lax.broadcast_in_dim), or use jnp.where.",
            )
        if case.dtype != first.dtype:
            fail(
                TypeError,
                "lax.select requires cases to have the same dtypes, got "
                f"{[str(c.dtype) for c in cases]}.",
                fix="convert one case with lax.convert_element_type, or use jnp.where.",
            )
    if which.dtype != BOOL_DTYPE and not is_integer(which.dtype):
        fail(
            TypeError,
            f"select `which` must be boolean or integer type, got {which.dtype}.",
            fix="compare first, e.g. lax.gt(x, 0).",
        )
    if which.dtype == BOOL_DTYPE and len(cases) > 2:
        fail(
            TypeError, f"select with boolean `which` supports at most two cases, got {len(cases)}."
        )
    if which.shape and which.shape != first.shape:
        fail(
            TypeError,
            "select `which` must be scalar or have the same shape as cases, got `which` shape "
            f"{which.shape} but case shape {first.shape}.",
            fix="broadcast `which`, or use jnp.where.",
        )
    weak = all(c.weak_type for c in cases)
    return [first.update(weak_type=weak)]


def _select_n_jvp(primals: Sequence[Array], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    which, *cases = primals
    out = select_n_p.bind1(which, *cases)
    if all(type(t) is ad.Zero for t in tangents[1:]):
        return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
    return [out], [select_n_p.bind1(which, *[ad.instantiate_zeros(t) for t in tangents[1:]])]


def _select_n_transpose(cts: Sequence[Any], which: Array, *cases: Any) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [None] + [ad.Zero(c.aval) if ad.is_undefined_primal(c) else None for c in cases]
    zeros = full_value(ct, 0)
    result: list[Any] = [None]
    for i, case in enumerate(cases):
        if ad.is_undefined_primal(case):
            picked = [ct if j == i else zeros for j in range(len(cases))]
            result.append(select_n_p.bind1(which, *picked))
        else:
            result.append(None)
    return result


def _select_n_batching(axis_size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    which, *cases = args
    which_dim, *case_dims = dims
    scalar_which = len(shape_of(which)) == (which_dim is not not_mapped)
    if which_dim is not_mapped and scalar_which and len(set(case_dims)) == 1:
        return select_n_p.bind_all(*args), [case_dims[0]]
    cases = [bdim_at_front(c, d, axis_size) for c, d in zip(cases, case_dims)]
    if not (which_dim is not_mapped and scalar_which):
        which = bdim_at_front(which, which_dim, axis_size)
        shape = shape_of(cases[0])
        if len(shape_of(which)) < len(shape):
            which = expand_to(which, shape, (0,))
    return select_n_p.bind_all(which, *cases), [0]


def _select_n_lowering(ctx: Any, which: Any, *cases: Any) -> Any:
    builder, shape = ctx.builder, ctx.shapes_out[0]
    if len(cases) == 1:
        return cases[0]
    which = hlo_broadcast_to(builder, which, shape.dimensions)
    if which.shape.element_type is PrimitiveType.PRED:
        return builder.add(Opcode.SELECT, (which, cases[1], cases[0]), shape=shape)

    def choose(low: int, high: int) -> Any:
        """Binary search among cases[low:high]."""
        if high - low == 1:
            return cases[low]
        middle = (low + high) // 2
        bound = builder.full(which.shape, middle)
        below = builder.compare(which, bound, ComparisonDirection.LT)
        return builder.add(
            Opcode.SELECT, (below, choose(low, middle), choose(middle, high)), shape=shape
        )

    return choose(0, len(cases))


select_n_p: Primitive = define(
    "select_n",
    abstract_eval=_select_n_aval,
    jvp=FullJvp(_select_n_jvp),
    transpose=_select_n_transpose,
    batching=_select_n_batching,
    lowering=_select_n_lowering,
)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """cases[which], elementwise.

    Args:
      which: bool (at most two cases; false picks the first) or int32 index, scalar or of the
        cases' shape.
      cases: arrays of one shape and dtype.
    Raises:
      TypeError: shapes or dtypes do not fit.   ValueError: no cases.

    >>> lax.select_n(jnp.array([0, 1]), jnp.array([1, 2]), jnp.array([3, 4]))
    Array([1, 4], dtype=int32)
    """
    if not cases:
        fail(ValueError, "select_n() must have at least one case")
    return select_n_p.bind1(which, *nary_operands("select", *cases))


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """on_true where pred, else on_false. pred is scalar or has the operands' shape.

    >>> lax.select(jnp.array([True, False]), jnp.array([1, 2]), jnp.array([3, 4]))
    Array([1, 4], dtype=int32)
    """
    on_false, on_true = nary_operands("select", on_false, on_true)
    return select_n_p.bind1(pred, on_false, on_true)


# -- clamp -----------------------------------------------------------------------------------------


def _clamp_aval(low: ShapedArray, x: ShapedArray, high: ShapedArray) -> list[ShapedArray]:
    for label, bound in (("min", low), ("max", high)):
        if bound.shape and bound.shape != x.shape:
            fail(
                TypeError,
                f"clamp requires {label}.shape == operand.shape or {label}.shape == (), got "
                f"{label}.shape={bound.shape}, operand.shape={x.shape}.",
                fix="broadcast the bound, or use jnp.clip.",
            )
        if bound.dtype != x.dtype:
            fail(
                TypeError,
                f"lax.clamp requires arguments to have the same dtypes, got {low.dtype}, "
                f"{x.dtype}, {high.dtype}.",
                fix="jnp.clip promotes types.",
            )
    if x.dtype not in ORDERED:
        fail(TypeError, f"clamp does not accept dtype {x.dtype}: it is not ordered.")
    return [x.update(weak_type=low.weak_type and x.weak_type and high.weak_type)]


def _inside(ans: Array, low: Array, x: Array, high: Array) -> Array:
    lower, upper = gt(x, low), lt(x, high)
    return select(lower, upper, full_value(upper, False))


def _plus(total: Any, term: Array) -> Array:
    return term if type(total) is ad.Zero else add_jaxvals(total, term)


def _clamp_jvp(primals: Sequence[Array], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    low, x, high = primals
    ans = clamp_p.bind1(low, x, high)
    shape = shape_of(ans)
    total: Any = ad.Zero(aval_of(ans).to_tangent_aval())
    lower, upper = gt(low, x), lt(high, x)
    masks = (
        # The lower bound is in force unless the upper bound undercuts it, as in min(max(x, low),
        # high).
        lambda: select(
            lower,
            as_split(stretch(lt(low, high), shape), aval_of(lower).split),
            full_value(lower, False),
        ),
        lambda: _inside(ans, low, x, high),
        lambda: upper,
    )
    for t, mask in zip(tangents, masks):
        if type(t) is not ad.Zero:
            t = as_split(stretch(t, shape), without_sums(aval_of(ans)).split)
            total = _plus(total, select(mask(), t, full_value(t, 0)))
    return [ans], [total]


def _clamp_batching(axis_size: int, args: Sequence[Any], dims: Sequence[Any]) -> Any:
    low, x, high = args
    low_dim, x_dim, high_dim = dims
    if x_dim is not not_mapped and all(
        d is not_mapped and not shape_of(b) for b, d in ((low, low_dim), (high, high_dim))
    ):
        return clamp_p.bind_all(low, x, high), [x_dim]
    x = bdim_at_front(x, x_dim, axis_size)
    shape = shape_of(x)
    bounds = []
    for bound, dim in ((low, low_dim), (high, high_dim)):
        bound = bdim_at_front(bound, dim, axis_size)
        bounds.append(bound if shape_of(bound) == shape else expand_to(bound, shape, (0,)))
    return clamp_p.bind_all(bounds[0], x, bounds[1]), [0]


clamp_p: Primitive = define(
    "clamp",
    abstract_eval=_clamp_aval,
    jvp=FullJvp(_clamp_jvp),
    transpose=Unsupported("clamp is not linear"),
    batching=_clamp_batching,
    lowering=hlo_nary(Opcode.CLAMP),
)


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """min(max(x, min), max), elementwise; nan where any operand is nan.

    The bounds are scalars or have x's shape; all have one dtype. The gradient reaches x only
    strictly between the bounds.

    Raises:
      TypeError: shapes or dtypes differ, or x is complex.

    >>> lax.clamp(0.0, jnp.array([-1.0, 0.5, 2.0]), 1.0)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    min, x, max = nary_operands("clamp", min, x, max)
    return clamp_p.bind1(min, x, max)


elementwise_primitives.update((select_n_p, clamp_p))
