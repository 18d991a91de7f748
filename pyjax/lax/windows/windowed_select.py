"""select_and_scatter, select_and_scatter_add, select_and_gather_add: the gradients of max- and min-
pooling.

Each window of `operand` selects one element (the first that `select` prefers); gather reads another
array at the selected positions, scatter adds a source element to each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core import dtypes
from pyjax.core.array import Array, ArrayLike
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from pyjax.core.primitive import Primitive
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front
from pyjax.interpreters.rules import FullJvp, Unsupported, define_rules
from pyjax.lax.arithmetic import add
from pyjax.lax.common import aval_of, dtype_of
from pyjax.lax.compare import ge_p, select
from pyjax.lax.control_flow.loops import map as map_
from pyjax.lax.indexing.gather_scatter_types import combiner_jaxpr
from pyjax.lax.windows.windowed import (
    Pads,
    hlo_window,
    positive_ints,
    window_output_shape,
    with_batch_dimension,
)
from xla_backend.hlo.attributes import WindowAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

select_and_scatter_p = Primitive("select_and_scatter")
select_and_scatter_add_p = Primitive("select_and_scatter_add")
select_and_gather_add_p = Primitive("select_and_gather_add")


def _ones(values: Sequence[Any]) -> tuple[int, ...]:
    return (1,) * len(values)


def _positions(x: ShapedArray, params: dict[str, Any]) -> tuple[int, ...]:
    window = params["window_dimensions"]
    ones = _ones(window)
    return window_output_shape(
        x.shape,
        window,
        params["window_strides"],
        params["padding"],
        params.get("base_dilation", ones),
        params.get("window_dilation", ones),
    )


def _check_source(name: str, source: ShapedArray, positions: tuple[int, ...]) -> None:
    if source.shape != positions:
        fail(
            TypeError,
            f"{name} source must have one element for each window: expected shape {positions}, got "
            f"{source.str_short()}.",
        )


# -- select_and_scatter ----------------------------------------------------------------------------


def _select_and_scatter_aval(
    x: ShapedArray, source: ShapedArray, init: ShapedArray, **params: Any
) -> list[ShapedArray]:
    _check_source("select_and_scatter", source, _positions(x, params))
    if init.shape or init.dtype != x.dtype:
        fail(
            TypeError,
            f"select_and_scatter initial value must be a scalar of dtype {x.dtype}, got "
            f"{init.str_short()}.",
        )
    return [x.update(weak_type=False)]


def _select_and_scatter_batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any
) -> Any:
    x, source, init = args
    x_dim, source_dim, init_dim = dims
    x = bdim_at_front(x, x_dim, axis_size)
    source = bdim_at_front(source, source_dim, axis_size)
    if init_dim is None:
        batched = with_batch_dimension(params, 0)
        return select_and_scatter_p.bind_all(x, source, init, **batched), [0]

    # The instruction has one initial value, and where nothing arrives, it is the result.
    def lane(each: tuple[Array, Array, Array]) -> Array:
        return select_and_scatter_p.bind1(*each, **params)

    return [map_(lane, (x, source, bdim_at_front(init, init_dim, axis_size)))], [0]


def _emit_select_and_scatter(
    ctx: Any, x: Any, source: Any, init: Any, select_fn: Any, scatter_fn: Any, params: Any
) -> Any:
    dtype = ctx.avals_out[0].dtype
    scalar = ShapedArray((), dtype)
    window = params["window_dimensions"]
    attributes = WindowAttributes(
        hlo_window(
            window, params["window_strides"], params["padding"], _ones(window), _ones(window)
        )
    )
    called = [
        ctx.computation_of(select_fn, scalar, scalar),
        ctx.computation_of(scatter_fn, scalar, scalar),
    ]
    return ctx.builder.add(
        Opcode.SELECT_AND_SCATTER, (x, source, init), attributes, called, shape=ctx.shapes_out[0]
    )


def _scalar_function(jaxpr: Any, consts: Any) -> Callable[[Array, Array], Array]:
    run = jaxpr_as_fun(ClosedJaxpr(jaxpr, consts))
    return lambda x, y: run(x, y)[0]


def _select_and_scatter_lowering(ctx: Any, x: Any, source: Any, init: Any, **params: Any) -> Any:
    return _emit_select_and_scatter(
        ctx,
        x,
        source,
        init,
        _scalar_function(params["select_jaxpr"], params["select_consts"]),
        _scalar_function(params["scatter_jaxpr"], params["scatter_consts"]),
        params,
    )


define_rules(
    select_and_scatter_p,
    abstract_eval=_select_and_scatter_aval,
    jvp=Unsupported(
        "select_and_scatter with arbitrary functions has no derivative rule; "
        "reduce_window with lax.max or lax.min is differentiable"
    ),
    transpose=Unsupported("select_and_scatter is not linear"),
    batching=_select_and_scatter_batching,
    lowering=_select_and_scatter_lowering,
)

# -- select_and_scatter_add ------------------------------------------------------------------------


def _select_and_scatter_add_aval(
    source: ShapedArray, x: ShapedArray, **params: Any
) -> list[ShapedArray]:
    _check_source("select_and_scatter_add", source, _positions(x, params))
    return [x.update(weak_type=False)]


def _select_and_scatter_add_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    source, x = primals
    g = tangents[0]
    out = select_and_scatter_add_p.bind1(source, x, **params)
    if type(g) is ad.Zero:
        return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
    return [out], [select_and_scatter_add_p.bind1(g, x, **params)]


def _select_and_scatter_add_transpose(
    cts: Sequence[Any], source: Any, x: Any, **params: Any
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(source.aval), None]
    ones = _ones(params["window_dimensions"])
    read = select_and_gather_add_p.bind1(ct, x, base_dilation=ones, window_dilation=ones, **params)
    return [read, None]


def _pair_batching(primitive: Primitive) -> Callable[..., Any]:
    def rule(axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
        moved = [bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)]
        return primitive.bind_all(*moved, **with_batch_dimension(params, 0)), [0]

    return rule


def _select_and_scatter_add_lowering(
    ctx: Any, source: Any, x: Any, *, select_prim: Primitive, **params: Any
) -> Any:
    init = ctx.builder.constant(np.zeros((), ctx.avals_out[0].dtype))
    from_add = _scalar_function(combiner_jaxpr(add, ctx.avals_out[0].dtype), ())
    return _emit_select_and_scatter(ctx, x, source, init, select_prim.bind1, from_add, params)


define_rules(
    select_and_scatter_add_p,
    abstract_eval=_select_and_scatter_add_aval,
    jvp=FullJvp(_select_and_scatter_add_jvp),
    transpose=_select_and_scatter_add_transpose,
    batching=_pair_batching(select_and_scatter_add_p),
    lowering=_select_and_scatter_add_lowering,
)

# -- select_and_gather_add -------------------------------------------------------------------------


def _select_and_gather_add_aval(
    tangents: ShapedArray, x: ShapedArray, **params: Any
) -> list[ShapedArray]:
    if tangents.shape != x.shape or tangents.dtype != x.dtype:
        fail(
            TypeError,
            "select_and_gather_add tangents and operand must have one type, got "
            f"{tangents.str_short()} and {x.str_short()}.",
        )
    return [x.update(shape=_positions(x, params), weak_type=False)]


def _select_and_gather_add_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    t, x = primals
    g = tangents[0]
    out = select_and_gather_add_p.bind1(t, x, **params)
    if type(g) is ad.Zero:
        return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
    return [out], [select_and_gather_add_p.bind1(g, x, **params)]


def _select_and_gather_add_transpose(
    cts: Sequence[Any],
    t: Any,
    x: Any,
    *,
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
    **params: Any,
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(t.aval), None]
    if any(d != 1 for d in (*base_dilation, *window_dilation)):
        fail(
            NotImplementedError,
            "select_and_gather_add with dilated windows has no transpose.",
            "the scatter that would be it has windows without gaps.",
            fix="differentiate reduce_window itself, whose rule covers dilations.",
        )
    return [select_and_scatter_add_p.bind1(ct, x, **params), None]


def worst_value(select_prim: Primitive, dtype: Any) -> np.ndarray:
    """What every element of `dtype` is preferred to."""
    value = dtypes.lowest(dtype) if select_prim is ge_p else dtypes.highest(dtype)
    return np.asarray(value).astype(dtype)


def emit_select_pair(
    ctx: Any, x: Any, other: Any, other_init: Any, select_prim: Primitive, params: dict[str, Any]
) -> Any:
    """Variadic reduce-window on (x, other) that keeps the pair whose x is preferred: (best x, its
    other).
    """
    x_type, other_type = x.shape, other.shape
    x_dtype = x_type.element_type.numpy_dtype
    x_aval = ShapedArray((), x_dtype)
    other_aval = ShapedArray((), other_type.element_type.numpy_dtype)

    def choose(x1: Array, y1: Array, x2: Array, y2: Array) -> list[Array]:
        first = select_prim.bind1(x1, x2)
        return [select(first, x1, x2), select(first, y1, y2)]

    attributes = WindowAttributes(
        hlo_window(
            params["window_dimensions"],
            params["window_strides"],
            params["padding"],
            params["base_dilation"],
            params["window_dilation"],
        )
    )
    dims = ctx.shapes_out[0].dimensions
    return ctx.builder.add(
        Opcode.REDUCE_WINDOW,
        (x, other, ctx.builder.constant(worst_value(select_prim, x_dtype)), other_init),
        attributes,
        [ctx.computation_of(choose, x_aval, other_aval, x_aval, other_aval)],
        shape=Shape.tuple([x_type.with_dimensions(dims), other_type.with_dimensions(dims)]),
    )


def _select_and_gather_add_lowering(
    ctx: Any, t: Any, x: Any, *, select_prim: Primitive, **params: Any
) -> Any:
    zero = ctx.builder.constant(np.zeros((), t.shape.element_type.numpy_dtype))
    pair = emit_select_pair(ctx, x, t, zero, select_prim, params)
    return ctx.builder.get_tuple_element(pair, 1)


define_rules(
    select_and_gather_add_p,
    abstract_eval=_select_and_gather_add_aval,
    jvp=FullJvp(_select_and_gather_add_jvp),
    transpose=_select_and_gather_add_transpose,
    batching=_pair_batching(select_and_gather_add_p),
    lowering=_select_and_gather_add_lowering,
)

# -- functions -------------------------------------------------------------------------------------


def select_and_scatter(
    operand: ArrayLike,
    select: Callable[[Array, Array], Array],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Pads,
    source: ArrayLike,
    init_value: ArrayLike,
    scatter: Callable[[Array, Array], Array],
) -> Array:
    """For each window of `operand`, combine the matching source element into the selected position.

    Args:
      select: scalar predicate; `select(a, b)` true prefers a.
      scatter: scalar function that combines an accumulated value with a source element.
    Returns:
      array like operand: init_value where nothing was scattered.
    """
    dtype = dtype_of(operand)
    rank = len(aval_of(operand).shape)
    return select_and_scatter_p.bind1(
        operand,
        source,
        np.asarray(init_value, dtype) if isinstance(init_value, (int, float)) else init_value,
        select_jaxpr=combiner_jaxpr(select, dtype),
        select_consts=(),
        scatter_jaxpr=combiner_jaxpr(scatter, dtype),
        scatter_consts=(),
        window_dimensions=positive_ints(
            "select_and_scatter", "window_dimensions", window_dimensions, rank
        ),
        window_strides=positive_ints("select_and_scatter", "window_strides", window_strides, rank),
        padding=tuple(padding),
    )
