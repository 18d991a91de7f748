"""reduce_window: reductions over sliding windows; sum, max and min have primitives of their own."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from pyjax.core.primitive import Primitive
from pyjax.core.trace import to_concrete_value
from pyjax.core.traceback_filter import api_boundary
from pyjax.core.tree_util import tree_flatten, tree_structure, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import batch, batch_jaxpr, bdim_at_front, not_mapped
from pyjax.interpreters.partial_eval import trace_to_jaxpr
from pyjax.interpreters.rules import LINEAR, FullJvp, Unsupported, define_primitive
from pyjax.interpreters.traced_function import trace_function
from pyjax.lax.arithmetic import add, max, min, mul, sub
from pyjax.lax.common import ANY, NUMBER, DtypeClass, aval_of, check_dtype, dtype_of, shape_of
from pyjax.lax.compare import eq, full_value, ge_p, le_p, select
from pyjax.lax.creation import broadcasted_iota
from pyjax.lax.indexing.gather import gather
from pyjax.lax.indexing.gather_scatter_types import GatherDimensionNumbers, GatherScatterMode
from pyjax.lax.indexing.slicing import slice
from pyjax.lax.nary import expand_to
from pyjax.lax.reduce import identity_of, reducer_of
from pyjax.lax.shape import reshape
from pyjax.lax.shape_join import pad
from pyjax.lax.windows.windowed import (
    Pads,
    canonical_pads,
    dilate_dim,
    hlo_window,
    padtype_to_pads,
    positive_ints,
    window_offsets,
    window_output_shape,
    with_batch_dimension,
)
from pyjax.lax.windows.windowed_select import emit_select_pair, select_and_gather_add_p
from xla_backend.hlo.attributes import WindowAttributes
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

_WINDOW_KEYS = (
    "window_dimensions",
    "window_strides",
    "padding",
    "base_dilation",
    "window_dilation",
)


def _output_shape(shape: Sequence[int], params: dict[str, Any]) -> tuple[int, ...]:
    return window_output_shape(shape, *(params[k] for k in _WINDOW_KEYS))


def _window_attributes(params: dict[str, Any]) -> WindowAttributes:
    return WindowAttributes(hlo_window(*(params[k] for k in _WINDOW_KEYS)))


# -- sum, max, min ---------------------------------------------------------------------------------


def _monoid_aval(name: str, accepts: DtypeClass) -> Callable[..., list[ShapedArray]]:
    def rule(x: ShapedArray, **params: Any) -> list[ShapedArray]:
        check_dtype(name, x, accepts)
        return [x.update(shape=_output_shape(x.shape, params))]

    return rule


def _monoid_batching(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    def rule(axis_size: int, args: Sequence[Any], dims: Sequence[int], **params: Any) -> Any:
        (x,), (dim,) = args, dims
        return primitive().bind_all(x, **with_batch_dimension(params, dim)), [dim]

    return rule


def _monoid_lowering(opcode: Opcode) -> Callable[..., Any]:
    def rule(ctx: Any, x: Any, **params: Any) -> Any:
        aval = ctx.avals_in[0]
        return ctx.builder.add(
            Opcode.REDUCE_WINDOW,
            (x, ctx.builder.constant(identity_of(opcode, aval.dtype))),
            _window_attributes(params),
            [reducer_of(ctx, opcode, aval)],
            shape=ctx.shapes_out[0],
        )

    return rule


def _sum_transpose(
    cts: Sequence[Any],
    x: Any,
    *,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: Pads,
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> list[Any]:
    """A window sum of the cotangents, spread by the strides and padded to reach every window over
    an element.
    """
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    config = []
    for n, outputs, window, stride, (low, _), base, dilation in zip(
        x.aval.shape,
        shape_of(ct),
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
    ):
        reach = dilate_dim(window, dilation)
        before = reach - low - 1
        spread = dilate_dim(outputs, stride)
        config.append((before, dilate_dim(n, base) + reach - 1 - spread - before, stride - 1))
    ones = (1,) * len(config)
    result = reduce_window_sum_p.bind1(
        pad(ct, np.zeros((), dtype_of(ct)), config),
        window_dimensions=window_dimensions,
        window_strides=base_dilation,
        padding=((0, 0),) * len(config),
        base_dilation=ones,
        window_dilation=window_dilation,
    )
    return [result]


reduce_window_sum_p: Primitive = define_primitive(
    "reduce_window_sum",
    abstract_eval=_monoid_aval("reduce_window_sum", NUMBER),
    jvp=LINEAR,
    transpose=_sum_transpose,
    batching=_monoid_batching(lambda: reduce_window_sum_p),
    lowering=_monoid_lowering(Opcode.ADD),
)


def _winner_lowering(ctx: Any, x: Any, *, select_prim: Primitive, **params: Any) -> Any:
    builder = ctx.builder
    out = ctx.shapes_out[0]
    numbers = builder.iota(out.with_dimensions((x.shape.num_elements,)), 0)
    numbers = builder.reshape(numbers, x.shape.dimensions)
    nowhere = builder.constant(np.asarray(-1, np.int32))
    pair = emit_select_pair(ctx, x, numbers, nowhere, select_prim, params)
    return builder.get_tuple_element(pair, 1)


# Row-major position of the element each window selects; -1 for a window of nothing but padding.
window_winner_p: Primitive = define_primitive(
    "reduce_window_winner",
    multiple_results=True,
    abstract_eval=lambda x, **params: [
        ShapedArray(_output_shape(x.shape, params), np.dtype(np.int32))
    ],
    jvp=FullJvp(
        lambda primals, tangents, **params: (
            window_winner_p.bind(*primals, **params),
            [
                ad.Zero(
                    window_winner_p.abstract_eval(aval_of(primals[0]), **params)[
                        0
                    ].to_tangent_aval()
                )
            ],
        )
    ),
    transpose=Unsupported("a position is not linear in the operand"),
    batching=lambda axis_size, args, dims, **params: _winner_batching(
        axis_size, args, dims, **params
    ),
    lowering=_winner_lowering,
)


def _winner_batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[int], **params: Any
) -> Any:
    """Positions within the whole batch, less where an element of it begins."""
    x = bdim_at_front(args[0], dims[0], axis_size)
    (winner,) = window_winner_p.bind(x, **with_batch_dimension(params, 0))
    shape = shape_of(winner)
    size = np.asarray(math.prod(shape_of(x)[1:]), np.int32)
    begins = mul(broadcasted_iota(np.int32, shape, 0), size)
    nowhere = full_value(winner, -1)
    return [select(eq(winner, nowhere), nowhere, sub(winner, begins))], [0]


def _chooser_jvp(select_prim: Primitive, primitive: Callable[[], Primitive]) -> FullJvp:
    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[list[Any], list[Any]]:
        (x,), (g,) = primals, tangents
        out = primitive().bind1(x, **params)
        if type(g) is ad.Zero:
            return [out], [ad.Zero(aval_of(out).to_tangent_aval())]
        dilated = any(d != 1 for d in (*params["base_dilation"], *params["window_dilation"]))
        if not dilated:
            return [out], [select_and_gather_add_p.bind1(g, x, select_prim=select_prim, **params)]
        winner = window_winner_p.bind1(x, select_prim=select_prim, **params)
        numbers = GatherDimensionNumbers((), (0,), (0,))
        shape = shape_of(winner)
        read = gather(
            reshape(g, (math.prod(shape_of(g)),)),
            reshape(winner, (*shape, 1)),
            numbers,
            (1,),
            mode=GatherScatterMode.FILL_OR_DROP,
            fill_value=0,
        )
        return [out], [read]

    return FullJvp(jvp)


reduce_window_max_p: Primitive = define_primitive(
    "reduce_window_max",
    abstract_eval=_monoid_aval("reduce_window_max", ANY),
    jvp=_chooser_jvp(ge_p, lambda: reduce_window_max_p),
    transpose=Unsupported("reduce_window_max is not linear"),
    batching=_monoid_batching(lambda: reduce_window_max_p),
    lowering=_monoid_lowering(Opcode.MAXIMUM),
)
reduce_window_min_p: Primitive = define_primitive(
    "reduce_window_min",
    abstract_eval=_monoid_aval("reduce_window_min", ANY),
    jvp=_chooser_jvp(le_p, lambda: reduce_window_min_p),
    transpose=Unsupported("reduce_window_min is not linear"),
    batching=_monoid_batching(lambda: reduce_window_min_p),
    lowering=_monoid_lowering(Opcode.MINIMUM),
)

# -- any computation -------------------------------------------------------------------------------


def _general_aval(*avals: ShapedArray, jaxpr: Any, consts: Any, **params: Any) -> list[ShapedArray]:
    operands = avals[: len(avals) // 2]
    shape = _output_shape(operands[0].shape, params)
    return [x.update(shape=shape, weak_type=False) for x in operands]


def _by_offsets(*args: Array, jaxpr: Any, consts: Any, **params: Any) -> list[Array]:
    """reduce_window as one strided slice for each position in the window, folded with the
    computation.

    Slower than a window reduction, but made of differentiable operations.
    """
    half = len(args) // 2
    operands, inits = args[:half], args[half:]
    window, strides, padding, base, dilation = (params[k] for k in _WINDOW_KEYS)
    config = [(low, high, b - 1) for (low, high), b in zip(padding, base)]
    padded = [pad(x, init, config) for x, init in zip(operands, inits)]
    whole = all(c == (0, 0, 0) for c in config)
    everywhere = np.ones(shape_of(operands[0]), np.bool_)
    inside = None if whole else pad(everywhere, np.zeros((), np.bool_), config)
    shape = _output_shape(shape_of(operands[0]), params)
    count = math.prod(shape)
    batched, _ = batch_jaxpr(ClosedJaxpr(jaxpr, consts), count, [True] * (2 * half), True)
    combine = jaxpr_as_fun(batched)
    state = [expand_to(init, (count,), ()) for init in inits]
    for offset in window_offsets(window):
        starts = [o * d for o, d in zip(offset, dilation)]
        limits = [s + (n - 1) * stride + 1 for s, n, stride in zip(starts, shape, strides)]
        views = [reshape(slice(x, starts, limits, strides), (count,)) for x in padded]
        new = combine(*state, *views)
        if inside is not None:  # padding is skipped: the initial value enters once
            seen = reshape(slice(inside, starts, limits, strides), (count,))
            new = [select(seen, y, x) for x, y in zip(state, new)]
        state = new
    return [reshape(s, shape) for s in state]


def _general_jvp(
    primals: Sequence[Any], tangents: Sequence[Any], **params: Any
) -> tuple[list[Any], list[Any]]:
    outs = reduce_window_p.bind(*primals, **params)
    if all(type(t) is ad.Zero for t in tangents) or not math.prod(shape_of(outs[0])):
        return outs, [ad.Zero(aval_of(out).to_tangent_aval()) for out in outs]
    avals = [aval_of(x) for x in primals]
    decomposed = trace_to_jaxpr(functools.partial(_by_offsets, **params), avals)[0]
    nonzero = [type(t) is not ad.Zero for t in tangents]
    pushed, _ = ad.jvp_jaxpr(decomposed, nonzero, True)
    results = jaxpr_as_fun(pushed)(*primals, *[t for t in tangents if type(t) is not ad.Zero])
    return outs, list(results[len(outs) :])


def _general_batching(
    axis_size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any
) -> Any:
    half = len(args) // 2
    if any(d is not not_mapped for d in dims[half:]):
        # A window reduction has one initial value, which is padding, too.
        fun = functools.partial(_by_offsets, **params)
        return batch(fun, args, dims, 0, axis_size), [0] * half
    operands = [bdim_at_front(x, d, axis_size) for x, d in zip(args[:half], dims[:half])]
    outs = reduce_window_p.bind(*operands, *args[half:], **with_batch_dimension(params, 0))
    return outs, [0] * half


def _general_lowering(ctx: Any, *operands: Any, jaxpr: Any, consts: Any, **params: Any) -> Any:
    half = len(operands) // 2
    scalars = [ShapedArray((), a.dtype) for a in ctx.avals_in[:half]]
    run = jaxpr_as_fun(ClosedJaxpr(jaxpr, consts))
    if half == 1:
        computation = ctx.computation_of(lambda x, y: run(x, y)[0], *scalars, *scalars)
    else:
        computation = ctx.computation_of(run, *scalars, *scalars)
    shape = ctx.shapes_out[0] if half == 1 else Shape.tuple(ctx.shapes_out)
    out = ctx.builder.add(
        Opcode.REDUCE_WINDOW, operands, _window_attributes(params), [computation], shape=shape
    )
    if half == 1:
        return out
    return [ctx.builder.get_tuple_element(out, i) for i in range(half)]


reduce_window_p = define_primitive(
    "reduce_window",
    multiple_results=True,
    abstract_eval=_general_aval,
    jvp=FullJvp(_general_jvp),
    transpose=Unsupported("reduce_window with a general computation is not linear"),
    batching=_general_batching,
    lowering=_general_lowering,
)

# -- public functions ------------------------------------------------------------------------------

_MONOIDS: dict[Any, tuple[Primitive, Opcode]] = {
    add: (reduce_window_sum_p, Opcode.ADD),
    max: (reduce_window_max_p, Opcode.MAXIMUM),
    min: (reduce_window_min_p, Opcode.MINIMUM),
}


def _window_params(
    name: str,
    shape: tuple[int, ...],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: Any,
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
) -> dict[str, Any]:
    rank = len(shape)
    window = tuple(int(w) for w in window_dimensions)
    if len(window) != rank:
        fail(
            TypeError,
            f"{name} got the wrong number of window_dimensions for operand: got operand shape "
            f"{shape} with window_dimensions {window}.",
            fix="use window size 1 for dimensions that are not reduced.",
        )
    window = positive_ints(name, "window_dimensions", window, rank)
    strides = positive_ints(name, "window_strides", window_strides, rank)
    base = positive_ints(name, "base_dilation", base_dilation, rank)
    dilation = positive_ints(name, "window_dilation", window_dilation, rank)
    if isinstance(padding, str):
        # As in JAX, "SAME" counts outputs for the operand without base dilation.
        reach = [dilate_dim(w, d) for w, d in zip(window, dilation)]
        padding = padtype_to_pads(shape, reach, strides, padding)
    return {
        "window_dimensions": window,
        "window_strides": strides,
        "padding": canonical_pads(name, padding, rank),
        "base_dilation": base,
        "window_dilation": dilation,
    }


def _initial_value(init: Any, dtype: Any) -> Any:
    if isinstance(init, (bool, int, float, complex)):
        return np.asarray(init).astype(dtype)
    if shape_of(init):
        fail(
            TypeError,
            "reduce_window expected init_values to be scalars but init_values have shapes "
            f"[{shape_of(init)}].",
        )
    if dtype_of(init) != dtype:
        fail(
            TypeError,
            f"reduce_window operand and initial value must have the same dtype, got {dtype} and "
            f"{dtype_of(init)}.",
            fix="convert the initial value, e.g. np.asarray(init, operand.dtype).",
        )
    return init


def _is_identity(init: Any, opcode: Opcode, dtype: Any) -> bool:
    value = to_concrete_value(init) if hasattr(init, "_trace") else init
    return value is not None and bool(np.asarray(value) == identity_of(opcode, dtype))


@api_boundary
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Reduce every window of an array (or of a pytree of arrays of one shape).

    Args:
      operand: array, or pytree of arrays with equal shapes.
      init_value: scalar, or pytree of scalars: the value of an empty window; also the padding.
      computation: associative function of two scalars (or two pytrees of scalars). lax.add, lax.max
        and lax.min with their identities as init_value become reduce_window_sum, _max and _min.
      window_dimensions: window size in every dimension.
      window_strides: step between windows, default 1.
      padding: "VALID", "SAME", "SAME_LOWER", or (low, high) pairs (may be negative).
      base_dilation, window_dilation: spacing of operand and window elements, default 1.
    Returns:
      array (or pytree) with one element for each window.
    Raises:
      TypeError: sizes, dtypes or initial values do not fit.   ValueError: pytrees differ.
    >>> import pyjax.numpy as jnp
    >>> from pyjax import lax
    >>> lax.reduce_window(jnp.arange(5.), 0., lax.add, (2,)).tolist()
    [1.0, 3.0, 5.0, 7.0]
    """
    operands, tree = tree_flatten(operand)
    inits, init_tree = tree_flatten(init_value)
    if tree != init_tree:
        fail(
            ValueError,
            f"Operands must have the same tree structure as init_values: {tree} vs. {init_tree}",
        )
    if not operands:
        fail(ValueError, "reduce_window must have at least one operand.")
    if len({shape_of(x) for x in operands}) > 1:
        fail(
            TypeError,
            "All operands of reduce_window must have one shape, got "
            f"{', '.join(aval_of(x).str_short() for x in operands)}.",
        )
    inits = [_initial_value(init, dtype_of(x)) for x, init in zip(operands, inits)]
    params = _window_params(
        "reduce_window",
        shape_of(operands[0]),
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
    )
    try:
        monoid = _MONOIDS.get(computation) if len(operands) == 1 else None
    except TypeError:  # an unhashable callable is no monoid of ours
        monoid = None
    if monoid is not None and _is_identity(inits[0], monoid[1], dtype_of(operands[0])):
        return tree_unflatten(tree, monoid[0].bind_all(operands[0], **params))
    scalars = [ShapedArray((), dtype_of(x)) for x in operands]
    in_tree = tree_structure(((operand, operand), {}))
    traced = trace_function("reduce_window", computation, in_tree, [*scalars, *scalars])
    if traced.out_tree != tree:
        fail(
            ValueError,
            "reduce_window output must have the same tree structure as the operands "
            f"{tree} vs. {traced.out_tree}",
        )
    closed = traced.with_constants
    for have, need in zip(closed.out_avals, scalars):
        if have.shape or have.dtype != need.dtype:
            fail(
                TypeError,
                f"reduce_window computation must return {need.str_short()}, got "
                f"{have.str_short()}.",
                "the result of one step is an operand of the next.",
                "convert the result with lax.convert_element_type.",
            )
    outs = reduce_window_p.bind(
        *operands, *inits, jaxpr=closed.jaxpr, consts=tuple(closed.consts), **params
    )
    return tree_unflatten(tree, outs)


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """Shape of reduce_window's result for explicit padding.

    >>> lax.reduce_window_shape_tuple((5,), (3,), (2,), [(0, 0)])
    (2,)
    """
    ones = (1,) * len(operand_shape)
    return window_output_shape(
        operand_shape,
        window_dimensions,
        window_strides,
        tuple(padding),
        base_dilation or ones,
        window_dilation or ones,
    )
