"""The scatter family: a copy of an operand, updated at many indices (set, add, sub, mul, min, max,
apply).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from pyjax.core.primitive import Primitive
from pyjax.core.structural import zeros_like_aval
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, move_bdim, not_mapped
from pyjax.interpreters.hlo import lower_fun
from pyjax.interpreters.rules import FullJvp, Unsupported, define_rules
from pyjax.lax.arithmetic import add, div, max, min, mul, neg, sub
from pyjax.lax.common import (
    aval_of,
    canonical_dims,
    canonical_shape,
    dtype_of,
    nary_operands,
    shape_of,
)
from pyjax.lax.compare import eq, full_value, select
from pyjax.lax.convert import convert_element_type
from pyjax.lax.indexing.gather_scatter_types import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    check_dims,
    check_index_operand,
    clamp_indices,
    combiner_jaxpr,
    gather_p,
    scatter_add_p,
    scatter_p,
    shifted,
    window_bounds,
)
from pyjax.lax.nary import expand_to, undefined_aval
from pyjax.lax.reduce import reducer_of
from xla_backend.hlo.attributes import ScatterAttributes
from xla_backend.hlo.opcode import Opcode

# -- shapes ----------------------------------------------------------------------------------------


def window_sizes(
    x: ShapedArray, updates: ShapedArray, dn: ScatterDimensionNumbers
) -> tuple[int, ...]:
    """Size of the updated window in every operand dimension."""
    absent = {*dn.inserted_window_dims, *dn.operand_batching_dims}
    sizes = iter([updates.shape[d] for d in dn.update_window_dims])
    return tuple(1 if d in absent else next(sizes) for d in range(len(x.shape)))


def _scatter_aval(
    x: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    **params: Any,
) -> list[ShapedArray]:
    check_index_operand("Scatter", indices)
    dn = dimension_numbers
    rank, batch = len(x.shape), indices.shape[:-1]
    if x.dtype != updates.dtype:
        fail(
            TypeError,
            f"scatter requires operand and updates of the same dtype, got {x.dtype}, "
            f"{updates.dtype}.",
            fix="convert the updates with lax.convert_element_type(updates, operand.dtype).",
        )
    check_dims("scatter", "update_window_dims", dn.update_window_dims, len(updates.shape))
    check_dims("scatter", "inserted_window_dims", dn.inserted_window_dims, rank)
    check_dims("scatter", "operand_batching_dims", dn.operand_batching_dims, rank)
    check_dims(
        "scatter",
        "scatter_dims_to_operand_dims",
        dn.scatter_dims_to_operand_dims,
        rank,
        ascending=False,
    )
    if len(dn.scatter_dims_to_operand_dims) != indices.shape[-1]:
        fail(
            TypeError,
            f"Scatter op has {len(dn.scatter_dims_to_operand_dims)} elements in "
            f"scatter_dims_to_operand_dims and the bound of dimension {len(batch)} of indices is "
            f"{indices.shape[-1]}. These two numbers must be equal.",
        )
    absent = {*dn.inserted_window_dims, *dn.operand_batching_dims}
    if len(dn.update_window_dims) + len(absent) != rank:
        fail(
            TypeError,
            f"Scatter op has window of size {len(dn.update_window_dims) + len(absent)}; doesn't "
            f"match operand of rank {rank}.",
        )
    if len(updates.shape) != len(batch) + len(dn.update_window_dims):
        fail(
            TypeError,
            f"Updates tensor must be of rank {len(batch) + len(dn.update_window_dims)}; got "
            f"{len(updates.shape)}.",
        )
    for d, (size, have) in enumerate(zip(window_sizes(x, updates, dn), x.shape)):
        if size > have and d not in absent:
            fail(
                TypeError,
                "Bounds of the window dimensions of updates must not exceed the bounds of the "
                f"corresponding dimensions of operand. For dimension {d}, updates bound is "
                f"{size}, operand bound is {have}.",
            )
    scattered = tuple(s for d, s in enumerate(updates.shape) if d not in dn.update_window_dims)
    if scattered != batch:
        fail(
            TypeError,
            "Bounds of the scatter dimensions of updates must be the same as the bounds of the "
            f"corresponding dimensions of scatter indices, got {scattered} and {batch}.",
        )
    for a, b in zip(dn.operand_batching_dims, dn.scatter_indices_batching_dims):
        if x.shape[a] != indices.shape[b]:
            fail(
                TypeError,
                f"Scatter op batching dimensions {a} of the operand and {b} of the indices must "
                f"have the same size, got {x.shape[a]} and {indices.shape[b]}.",
            )
    return [x]


# -- what the rules share --------------------------------------------------------------------------


def _gather_at(
    x: Array,
    indices: Array,
    updates_aval: ShapedArray,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: GatherScatterMode,
    **params: Any,
) -> Array:
    """Read x where a scatter with these parameters writes; 0 for dropped updates."""
    dn = dimension_numbers
    numbers = GatherDimensionNumbers(
        offset_dims=dn.update_window_dims,
        collapsed_slice_dims=dn.inserted_window_dims,
        start_index_map=dn.scatter_dims_to_operand_dims,
        operand_batching_dims=dn.operand_batching_dims,
        start_indices_batching_dims=dn.scatter_indices_batching_dims,
    )
    return gather_p.bind1(
        x,
        indices,
        dimension_numbers=numbers,
        slice_sizes=window_sizes(aval_of(x), updates_aval, dn),
        unique_indices=unique_indices,
        indices_are_sorted=indices_are_sorted,
        mode=mode,
        fill_value=0 if mode is GatherScatterMode.FILL_OR_DROP else None,
    )


def _scatter_add_like(x: Array, indices: Array, updates: Array, params: dict[str, Any]) -> Array:
    """scatter_add with another scatter's dimension numbers and promises."""
    changed = dict(params, update_jaxpr=combiner_jaxpr(add, dtype_of(x)), update_consts=())
    return scatter_add_p.bind1(x, indices, updates, **changed)


def _batching(primitive: Primitive) -> Callable[..., Any]:
    def rule(
        axis_size: int,
        args: Sequence[Any],
        dims: Sequence[Any],
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **params: Any,
    ) -> Any:
        (x, indices, updates), (x_dim, index_dim, update_dim) = args, dims
        dn = dimension_numbers
        x = bdim_at_front(x, x_dim, axis_size)
        updates = bdim_at_front(updates, update_dim, axis_size)
        window, inserted = shifted(dn.update_window_dims), shifted(dn.inserted_window_dims)
        index_map = shifted(dn.scatter_dims_to_operand_dims)
        batching = shifted(dn.operand_batching_dims)
        if index_dim is not_mapped:
            numbers = ScatterDimensionNumbers(
                (0, *window), inserted, index_map, batching, dn.scatter_indices_batching_dims
            )
        else:
            indices = move_bdim(indices, index_dim, 0)
            numbers = ScatterDimensionNumbers(
                window,
                inserted,
                index_map,
                (0, *batching),
                (0, *shifted(dn.scatter_indices_batching_dims)),
            )
        return primitive.bind_all(x, indices, updates, dimension_numbers=numbers, **params), [0]

    return rule


def _lowering(primitive: Primitive, opcode: Opcode | None) -> Callable[..., Any]:
    """HLO's scatter drops out-of-bounds updates itself; CLIP clamps the indices before."""

    def clamped(x: Array, indices: Array, updates: Array, **params: Any) -> Array:
        dn = params["dimension_numbers"]
        window = window_sizes(aval_of(x), aval_of(updates), dn)
        bounds = window_bounds(shape_of(x), window, dn.scatter_dims_to_operand_dims)
        params["mode"] = GatherScatterMode.PROMISE_IN_BOUNDS
        return primitive.bind1(x, clamp_indices(indices, bounds), updates, **params)

    lower_clamped = lower_fun(clamped)

    def rule(
        ctx: Any,
        x: Any,
        indices: Any,
        updates: Any,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        indices_are_sorted: bool,
        unique_indices: bool,
        mode: GatherScatterMode,
        update_jaxpr: Any,
        update_consts: Any,
    ) -> Any:
        if mode is GatherScatterMode.CLIP:
            return lower_clamped(
                ctx,
                x,
                indices,
                updates,
                dimension_numbers=dimension_numbers,
                indices_are_sorted=indices_are_sorted,
                unique_indices=unique_indices,
                mode=mode,
                update_jaxpr=update_jaxpr,
                update_consts=update_consts,
            )
        dn = dimension_numbers
        attributes = ScatterAttributes(
            update_window_dims=dn.update_window_dims,
            inserted_window_dims=dn.inserted_window_dims,
            scatter_dims_to_operand_dims=dn.scatter_dims_to_operand_dims,
            index_vector_dim=indices.shape.rank - 1,
            input_batching_dims=dn.operand_batching_dims,
            scatter_indices_batching_dims=dn.scatter_indices_batching_dims,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
        )
        if opcode is not None:
            combiner = reducer_of(ctx, opcode, ctx.avals_in[0])
        else:
            scalar = ShapedArray((), ctx.avals_in[0].dtype)
            combiner = ctx.computation_of(_new_value(update_jaxpr, update_consts), scalar, scalar)
        return ctx.builder.add(
            Opcode.SCATTER, (x, indices, updates), attributes, [combiner], shape=ctx.shapes_out[0]
        )

    return rule


def _new_value(update_jaxpr: Any, update_consts: Any) -> Callable[[Array, Array], Array]:
    """The combiner of a plain scatter: the update, or for scatter_apply a function of the old
    value.
    """
    if update_jaxpr is None:
        return lambda old, update: update
    run = jaxpr_as_fun(ClosedJaxpr(update_jaxpr, update_consts))
    return lambda old, update: run(old, update)[0]


def _zero_out(out: Array) -> ad.Zero:
    return ad.Zero(aval_of(out).to_tangent_aval())


# -- scatter ---------------------------------------------------------------------------------------


def _check_no_function(params: dict[str, Any]) -> None:
    if params["update_jaxpr"] is not None:
        fail(
            NotImplementedError,
            "scatter_apply is not differentiable.",
            "an index that occurs twice applies the function twice, which has no scatter as "
            "derivative.",
            "for distinct indices write x.at[i].set(f(x[i])).",
        )


def _is_single(indices: Sequence[int], params: Any) -> bool:
    """Whether there is one update only (in each element of a batch): none can hit another."""
    batch = params["dimension_numbers"].scatter_indices_batching_dims
    return all(n == 1 for d, n in enumerate(indices[:-1]) if d not in batch)


def _scatter_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    x, indices, updates = primals
    g_x, _, g_updates = tangents
    out = scatter_p.bind1(x, indices, updates, **params)
    if type(g_x) is ad.Zero and type(g_updates) is ad.Zero:
        return [out], [_zero_out(out)]
    _check_no_function(params)
    g_x, g_updates = ad.instantiate_zeros(g_x), ad.instantiate_zeros(g_updates)
    if params["unique_indices"] or _is_single(shape_of(indices), params):
        return [out], [scatter_p.bind1(g_x, indices, g_updates, **params)]
    # Of several updates to one place the last wins. Scatter the numbers of the updates the
    # same way to learn
    # which won: the others, and overwritten operand entries, have no influence.
    updates_aval = aval_of(updates)
    window = params["dimension_numbers"].update_window_dims
    batch_dims = [d for d in range(len(updates_aval.shape)) if d not in window]
    batch_shape = [updates_aval.shape[d] for d in batch_dims]
    numbers = np.arange(1, int(np.prod(batch_shape)) + 1, dtype=np.uint32).reshape(batch_shape)
    ids = expand_to(numbers, updates_aval.shape, tuple(batch_dims))
    winner = scatter_p.bind1(
        zeros_like_aval(ShapedArray(shape_of(x), np.dtype(np.uint32))), indices, ids, **params
    )
    won = eq(ids, _gather_at(winner, indices, updates_aval, **params))
    untouched = eq(winner, full_value(winner, 0))
    kept = select(untouched, g_x, full_value(g_x, 0))
    written = select(won, g_updates, full_value(g_updates, 0))
    return [out], [_scatter_add_like(kept, indices, written, params)]


def _scatter_transpose(
    cts: Sequence[Any], x: Any, indices: Any, updates: Any, **params: Any
) -> list[Any]:
    """Of a scatter with unique indices, the only linear one."""
    (ct,) = cts
    _check_no_function(params)
    updates_aval = undefined_aval(updates)
    result: list[Any] = [None, None, None]
    if ad.is_undefined_primal(x):
        result[0] = (
            ad.Zero(x.aval)
            if type(ct) is ad.Zero
            else scatter_p.bind1(ct, indices, zeros_like_aval(updates_aval), **params)
        )
    if ad.is_undefined_primal(updates):
        result[2] = (
            ad.Zero(updates.aval)
            if type(ct) is ad.Zero
            else _gather_at(ct, indices, updates_aval, **params)
        )
    return result


define_rules(
    scatter_p,
    abstract_eval=_scatter_aval,
    jvp=FullJvp(_scatter_jvp),
    transpose=_scatter_transpose,
    batching=_batching(scatter_p),
    lowering=_lowering(scatter_p, None),
)

# -- scatter_add, scatter_sub ----------------------------------------------------------------------


def _additive_rules(primitive: Primitive, opcode: Opcode, sign: Callable[[Array], Array]) -> None:
    """scatter_add and scatter_sub are linear in operand and updates together."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        x, indices, updates = primals
        g_x, _, g_updates = tangents
        out = primitive.bind1(x, indices, updates, **params)
        if type(g_updates) is ad.Zero:
            return [out], [_zero_out(out) if type(g_x) is ad.Zero else g_x]
        g_x = ad.instantiate_zeros(g_x)
        return [out], [primitive.bind1(g_x, indices, g_updates, **params)]

    def transpose(cts: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        (ct,) = cts
        result: list[Any] = [None, None, None]
        zero = type(ct) is ad.Zero
        if ad.is_undefined_primal(x):
            result[0] = ad.Zero(x.aval) if zero else ct
        if ad.is_undefined_primal(updates):
            result[2] = (
                ad.Zero(updates.aval)
                if zero
                else sign(_gather_at(ct, indices, updates.aval, **params))
            )
        return result

    define_rules(
        primitive,
        abstract_eval=_scatter_aval,
        jvp=FullJvp(jvp),
        transpose=transpose,
        batching=_batching(primitive),
        lowering=_lowering(primitive, opcode),
    )


scatter_sub_p = Primitive("scatter-sub")
_additive_rules(scatter_add_p, Opcode.ADD, lambda ct: ct)
_additive_rules(scatter_sub_p, Opcode.SUBTRACT, neg)

# -- scatter_mul -----------------------------------------------------------------------------------

scatter_mul_p = Primitive("scatter-mul")


def _scatter_mul_jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
    x, indices, updates = primals
    g_x, _, g_updates = tangents
    out = scatter_mul_p.bind1(x, indices, updates, **params)
    total: Any = _zero_out(out)
    if type(g_x) is not ad.Zero:
        total = scatter_mul_p.bind1(g_x, indices, updates, **params)
    if type(g_updates) is not ad.Zero:
        if not params["unique_indices"]:
            fail(
                NotImplementedError,
                "scatter_mul gradients are only implemented if `unique_indices=True`",
                "the derivative with respect to one of several factors needs the product of the "
                "others.",
                "pass unique_indices=True if indices are distinct, or use exp of scatter_add of "
                "logs.",
            )
        zeros = zeros_like_aval(aval_of(out))
        part = mul(x, _scatter_add_like(zeros, indices, g_updates, params))
        total = part if type(total) is ad.Zero else ad.add_jaxvals(total, part)
    return [out], [total]


def _scatter_mul_transpose(
    cts: Any, x: Any, indices: Any, updates: Any, **params: Any
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval), None, None]
    return [scatter_mul_p.bind1(ct, indices, updates, **params), None, None]


define_rules(
    scatter_mul_p,
    abstract_eval=_scatter_aval,
    jvp=FullJvp(_scatter_mul_jvp),
    transpose=_scatter_mul_transpose,
    batching=_batching(scatter_mul_p),
    lowering=_lowering(scatter_mul_p, Opcode.MULTIPLY),
)

# -- scatter_min, scatter_max ----------------------------------------------------------------------


def _extremal_jvp(primitive: Primitive) -> FullJvp:
    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        x, indices, updates = primals
        g_x, _, g_updates = tangents
        out = primitive.bind1(x, indices, updates, **params)
        if type(g_x) is ad.Zero and type(g_updates) is ad.Zero:
            return [out], [_zero_out(out)]
        g_x, g_updates = ad.instantiate_zeros(g_x), ad.instantiate_zeros(g_updates)
        # All that equal the result share its derivative: winners of each place, the
        # operand included.
        dtype = dtype_of(out)
        update_won = convert_element_type(
            eq(updates, _gather_at(out, indices, aval_of(updates), **params)), dtype
        )
        operand_won = convert_element_type(eq(x, out), dtype)
        winners = _scatter_add_like(operand_won, indices, update_won, params)
        winners = max(winners, full_value(winners, 1))
        share = div(full_value(winners, 1), winners)
        update_share = mul(update_won, _gather_at(share, indices, aval_of(updates), **params))
        kept = mul(g_x, mul(operand_won, share))
        return [out], [_scatter_add_like(kept, indices, mul(g_updates, update_share), params)]

    return FullJvp(jvp)


def _define_extremal(name: str, opcode: Opcode) -> Primitive:
    primitive = Primitive(name)
    define_rules(
        primitive,
        abstract_eval=_scatter_aval,
        jvp=_extremal_jvp(primitive),
        transpose=Unsupported(f"{name} is not linear"),
        batching=_batching(primitive),
        lowering=_lowering(primitive, opcode),
    )
    return primitive


scatter_min_p = _define_extremal("scatter-min", Opcode.MINIMUM)
scatter_max_p = _define_extremal("scatter-max", Opcode.MAXIMUM)

# -- public functions ------------------------------------------------------------------------------


def _bind(
    primitive: Primitive,
    combine: Callable[..., Any] | None,
    operand: ArrayLike,
    indices: ArrayLike,
    updates: ArrayLike,
    numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: Any,
) -> Array:
    operand, updates = nary_operands(primitive.name.replace("-", "_"), operand, updates)
    jaxpr = None if combine is None else combiner_jaxpr(combine, dtype_of(operand))
    return primitive.bind1(
        operand,
        indices,
        updates,
        dimension_numbers=ScatterDimensionNumbers(*(canonical_dims("scatter", d) for d in numbers)),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
        update_jaxpr=jaxpr,
        update_consts=(),
    )


# What an example with [1, 1, 1, 1], indices 1 and 2 and updates 2 and -3 shows.
_SHOWN = {
    "scatter": "[1.0, 2.0, -3.0, 1.0]",
    "scatter_add": "[1.0, 3.0, -2.0, 1.0]",
    "scatter_sub": "[1.0, -1.0, 4.0, 1.0]",
    "scatter_mul": "[1.0, 2.0, -3.0, 1.0]",
    "scatter_min": "[1.0, 1.0, -3.0, 1.0]",
    "scatter_max": "[1.0, 2.0, 1.0, 1.0]",
}


def _public(
    name: str, primitive: Primitive, combine: Callable[..., Any] | None, effect: str
) -> Callable[..., Array]:
    def scatter_function(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Array:
        return _bind(
            primitive,
            combine,
            operand,
            scatter_indices,
            updates,
            dimension_numbers,
            indices_are_sorted,
            unique_indices,
            mode,
        )

    scatter_function.__name__ = scatter_function.__qualname__ = name
    scatter_function.__doc__ = f"""A copy of `operand` whose windows at the given indices {effect}.

    Args:
      scatter_indices: integers [batch..., n]; the last dimension holds index vectors.
      updates: array of the operand's dtype with dimensions batch and window, see dimension_numbers.
      dimension_numbers: ScatterDimensionNumbers.
      indices_are_sorted, unique_indices: promises; a broken one gives an undefined result.
      mode: what happens out of bounds: "clip", or "fill"/"drop" (the default): the update is
      skipped.
    Raises:
      TypeError: shapes, dtypes or dimension numbers do not fit.

    >>> indices, updates = jnp.array([[1], [2]]), jnp.array([2.0, -3.0])
    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> lax.{name}(jnp.ones(4), indices, updates, numbers).tolist()
    {_SHOWN[name]}
    """
    return scatter_function


scatter = _public(
    "scatter", scatter_p, None, "are replaced by updates (any one, where indices repeat)"
)
scatter_add = _public("scatter_add", scatter_add_p, add, "have updates added")
scatter_sub = _public("scatter_sub", scatter_sub_p, sub, "have updates subtracted")
scatter_mul = _public("scatter_mul", scatter_mul_p, mul, "are multiplied by updates")
scatter_min = _public("scatter_min", scatter_min_p, min, "become the minimum with updates")
scatter_max = _public("scatter_max", scatter_max_p, max, "become the maximum with updates")


def scatter_apply(
    operand: Array,
    scatter_indices: Array,
    func: Callable[[Array], Array],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """A copy of `operand` with the scalar function `func` applied to the entries at the given
    indices.

    Args:
      update_shape: the shape that updates would have: batch and window dimensions.
    Raises:
      NotImplementedError: when differentiated.   TypeError: func changes the dtype.

    >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> x, indices = jnp.ones(4), jnp.array([[1]])
    >>> lax.scatter_apply(x, indices, lambda x: 10 * x, numbers, update_shape=(1,))
    Array([ 1., 10.,  1.,  1.], dtype=float32)
    """
    dtype = dtype_of(operand)
    jaxpr = combiner_jaxpr(lambda x, y: func(x), dtype)
    out_dtype = jaxpr.outvars[0].aval.dtype
    if out_dtype != dtype or jaxpr.outvars[0].aval.shape:
        fail(
            TypeError,
            f"scatter_apply: func must map a scalar of dtype {dtype} to the same type, it returns "
            f"{jaxpr.outvars[0].aval.str_short()}.",
            fix="convert its result with lax.convert_element_type.",
        )
    updates = zeros_like_aval(ShapedArray(canonical_shape(update_shape), dtype))
    return scatter_p.bind1(
        operand,
        scatter_indices,
        updates,
        dimension_numbers=ScatterDimensionNumbers(
            *(canonical_dims("scatter", d) for d in dimension_numbers)
        ),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=GatherScatterMode.from_any(mode),
        update_jaxpr=jaxpr,
        update_consts=(),
    )
