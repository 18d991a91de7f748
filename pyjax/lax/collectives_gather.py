"""Communication over named axes in which positions get parts of one another's values: all_gather,
psum_scatter, all_to_all, pbroadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core import axis_env
from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.manual_types import check_no_sum, one_state, states_along
from pyjax.core.primitive import Primitive
from pyjax.core.structural import moveaxis
from pyjax.core.tree_util import tree_map
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, move_bdim, not_mapped
from pyjax.interpreters.rules import LINEAR
from pyjax.interpreters.varying import Variation, as_typed, varying_rules
from pyjax.lax.arithmetic import mul
from pyjax.lax.collectives import (
    AxisName,
    axis_index,
    check_bound,
    named_effects,
    varying_after,
    with_state,
)
from pyjax.lax.collectives_groups import (
    Groups,
    by_groups,
    checked_groups,
    group_size,
    one_at_a_time,
)
from pyjax.lax.collectives_lowering import all_gather as all_gather_lowering
from pyjax.lax.collectives_lowering import all_to_all as all_to_all_lowering
from pyjax.lax.collectives_lowering import lowering_over_mesh
from pyjax.lax.collectives_lowering import reduce_scatter as reduce_scatter_lowering
from pyjax.lax.common import NUMBER, aval_of, canonical_axis, check_dtype, shape_of
from pyjax.lax.indexing.slicing import dynamic_slice_in_dim
from pyjax.lax.nary import define, expand_to
from pyjax.lax.reduce import reduce_sum
from pyjax.lax.shape import reshape, squeeze, transpose


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """Every position receives the value of position `source`.

    >>> pyjax.vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(jnp.arange(3)).tolist()
    [1, 1, 1]
    """

    def one(v: Array) -> Array:
        gathered = all_gather(v, axis_name)
        return squeeze(dynamic_slice_in_dim(gathered, int(source), 1, 0), (0,))

    return tree_map(one, x)


# -- all_gather, psum_scatter, all_to_all ----------------------------------------------------------


def _all_gather_aval(
    x: ShapedArray,
    *,
    all_gather_dimension: int,
    axis_name: Any,
    axis_size: int,
    tiled: bool,
    **groups: Any,
) -> list[ShapedArray]:
    check_bound(axis_name)
    if not tiled:
        return [x.with_dim(all_gather_dimension, axis_size)]
    shape = list(x.shape)
    shape[all_gather_dimension] *= axis_size
    return [x.update(shape=tuple(shape))]


def _checked(name: str, shapes: Callable[..., list[ShapedArray]]) -> Callable[..., Any]:
    """The types of a collective that takes no sums that are still to be made along its axis."""

    def abstract_eval(x: ShapedArray, *, axis_name: Any, **params: Any) -> list[ShapedArray]:
        check_no_sum(name, x, axis_env.names_of(axis_name))
        return shapes(x, axis_name=axis_name, **params)

    return abstract_eval


def _with_states(name: str, shapes: Any, source: str, to: str) -> Callable[..., Any]:
    """The types of a collective whose operand is `source` along its axis, and the result `to`."""

    def abstract_eval(x: ShapedArray, *, axis_name: Any, **params: Any) -> list[ShapedArray]:
        (aval,) = shapes(x, axis_name=axis_name, **params)
        return [with_state(name, aval, axis_env.names_of(axis_name), source, to)]

    return abstract_eval


def _merge(x: Array, at: int) -> Array:
    """Merge dimensions `at` and `at + 1`."""
    shape = shape_of(x)
    return reshape(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


def _all_gather_collective(
    name: Any,
    size: int,
    args: Any,
    dims: Any,
    *,
    all_gather_dimension: int,
    tiled: bool,
    **params: Any,
) -> Any:
    (x,), (d,) = args, dims
    if d is not_mapped:
        x, d = expand_to(x, (size, *shape_of(x)), tuple(range(1, len(shape_of(x)) + 1))), 0
    out = move_bdim(x, d, all_gather_dimension)
    return [_merge(out, all_gather_dimension) if tiled else out], [not_mapped]


def _scattered(scatter: Callable[[], Primitive]) -> Callable[..., list[Any]]:
    """The transpose of a gather that is what a primitive makes of the cotangent."""

    def transpose_rule(
        cts: Sequence[Any], x: Any, *, all_gather_dimension: int, **params: Any
    ) -> list[Any]:
        (ct,) = cts
        if type(ct) is ad.Zero:
            return [ad.Zero(x.aval)]
        return [scatter().bind1(ct, scatter_dimension=all_gather_dimension, **params)]

    return transpose_rule


def _all_gather_invariant_transpose(
    cts: Sequence[Any],
    x: Any,
    *,
    all_gather_dimension: int,
    axis_name: Any,
    axis_size: int,
    tiled: bool,
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    part = shape_of(ct)[all_gather_dimension] // axis_size
    start = mul(axis_index(axis_name), np.asarray(part, np.int32))
    mine = dynamic_slice_in_dim(ct, start, part, all_gather_dimension)
    return [mine if tiled else squeeze(mine, (all_gather_dimension,))]


def _define_all_gather(name: str, transpose_rule: Any, abstract_eval: Any) -> Primitive:
    def batching(
        count: int, args: Any, dims: Any, *, all_gather_dimension: int, **params: Any
    ) -> Any:
        x = move_bdim(args[0], dims[0], 0)
        outs = primitive.bind_all(x, all_gather_dimension=all_gather_dimension + 1, **params)
        return outs, [0]

    primitive = define(
        name,
        abstract_eval=abstract_eval,
        jvp=LINEAR,
        transpose=transpose_rule,
        batching=batching,
        lowering=lowering_over_mesh(name, all_gather_lowering),
        effects=named_effects,
        collective_batching=by_groups(_all_gather_collective),
    )
    return primitive


_gathered = _checked("all_gather", _all_gather_aval)
all_gather_p = _define_all_gather("all_gather", _scattered(lambda: reduce_scatter_p), _gathered)
varying_rules[all_gather_p] = varying_after
# Where types say along which mesh axes values vary: the result does not vary along this one.
all_gather_invariant_p = _define_all_gather(
    "all_gather_invariant", _all_gather_invariant_transpose, _gathered
)
# And the cotangent of the result is a sum that is still to be made.
all_gather_reduced_p = _define_all_gather(
    "all_gather_reduced",
    _scattered(lambda: unreduced_reduce_scatter_p),
    _with_states("all_gather_reduced", _all_gather_aval, "varying", "reduced"),
)
varying_rules[all_gather_reduced_p] = as_typed


def _all_gather_invariant_variation(
    operands: list[Any], results: Any, params: dict[str, Any]
) -> Variation:
    axes = axis_env.mesh_axes((params["axis_name"],))
    return [operands[0] | axes], [operands[0] - axes]


varying_rules[all_gather_invariant_p] = _all_gather_invariant_variation


_STATES = {
    "varying": all_gather_p,
    "invarying": all_gather_invariant_p,
    "reduced": all_gather_reduced_p,
}


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The values of all positions, stacked along a new `axis` (or concatenated along it if
    `tiled`).

    Args:
      axis_index_groups: lists of positions, all of one size: each gets the values of its group.
      to: what the types inside of a shard_map say of the result: that it may differ from device to
        device ("varying"), that it is the same on all ("invarying"), or that besides its cotangent
        is a sum that is still to be made ("reduced"), for which x has to vary along the axis.

    >>> pyjax.vmap(lambda x: lax.all_gather(x, "i"), axis_name="i")(jnp.arange(2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    check_bound(axis_name)
    groups = checked_groups("all_gather", axis_name, axis_index_groups)
    if to not in _STATES:
        fail(
            ValueError,
            f"Got unexpected `to` value {to!r} for all_gather.",
            fix='Allowed `to` values are "varying", "invarying" and "reduced".',
        )
    if to != "varying" and groups is not None:
        fail(
            NotImplementedError,
            f"all_gather(..., to={to!r}) with axis_index_groups.",
            "its result differs from group to group, and types say of whole axes only what values "
            "are.",
            "leave out `to`.",
        )
    names = one_at_a_time(axis_name, groups)

    def one(v: Array) -> Array:
        ndim = len(shape_of(v)) + (not tiled)
        at = canonical_axis("all_gather", axis, ndim)
        concatenate = bool(tiled)
        for name in reversed(names):
            v = _all_gather_one(v, name, at, concatenate, to, groups)
            concatenate = True  # what the positions along the other axes have
        return v

    return tree_map(one, x)


def _all_gather_one(
    v: Array, name: Any, axis: int, tiled: bool, to: str, groups: Groups | None
) -> Array:
    params = {
        "all_gather_dimension": axis,
        "axis_name": name,
        "axis_size": group_size(name, groups),
        "tiled": tiled,
    }
    if to != "varying" and options.check_vma.value and axis_env.mesh_axes((name,)):
        return _STATES[to].bind1(v, **params)
    return all_gather_p.bind1(v, axis_index_groups=groups, **params)


def _reduce_scatter_aval(
    x: ShapedArray,
    *,
    axis_name: Any,
    axis_size: int,
    scatter_dimension: int,
    tiled: bool,
    **groups: Any,
) -> list[ShapedArray]:
    check_bound(axis_name)
    if not tiled:
        return [x.without_dim(scatter_dimension)]
    shape = list(x.shape)
    shape[scatter_dimension] //= axis_size
    return [x.update(shape=tuple(shape))]


def _reduce_scatter_collective(
    name: Any, size: int, args: Any, dims: Any, *, scatter_dimension: int, tiled: bool, **_: Any
) -> Any:
    """The sum, whose slices are numbered by who gets them."""
    total = reduce_sum(bdim_at_front(args[0], dims[0], size), (0,))
    if not tiled:
        return [total], [scatter_dimension]
    shape, d = shape_of(total), scatter_dimension
    return [reshape(total, (*shape[:d], size, shape[d] // size, *shape[d + 1 :]))], [d]


def _define_reduce_scatter(name: str, gather: Primitive, abstract_eval: Any) -> Primitive:
    """`gather`: its transpose."""

    def transpose_rule(
        cts: Sequence[Any], x: Any, *, scatter_dimension: int, **params: Any
    ) -> list[Any]:
        (ct,) = cts
        if type(ct) is ad.Zero:
            return [ad.Zero(x.aval)]
        return [gather.bind1(ct, all_gather_dimension=scatter_dimension, **params)]

    def batching(count: int, args: Any, dims: Any, *, scatter_dimension: int, **params: Any) -> Any:
        x = move_bdim(args[0], dims[0], 0)
        return primitive.bind_all(x, scatter_dimension=scatter_dimension + 1, **params), [0]

    primitive = define(
        name,
        abstract_eval=abstract_eval,
        jvp=LINEAR,
        transpose=transpose_rule,
        batching=batching,
        lowering=lowering_over_mesh(name, reduce_scatter_lowering),
        effects=named_effects,
        collective_batching=by_groups(_reduce_scatter_collective),
    )
    return primitive


reduce_scatter_p: Primitive = _define_reduce_scatter(
    "reduce_scatter", all_gather_p, _checked("reduce_scatter", _reduce_scatter_aval)
)
varying_rules[reduce_scatter_p] = varying_after
# Of a sum that is still to be made.
unreduced_reduce_scatter_p: Primitive = _define_reduce_scatter(
    "unreduced_reduce_scatter",
    all_gather_reduced_p,
    _with_states("unreduced_reduce_scatter", _reduce_scatter_aval, "unreduced", "varying"),
)
varying_rules[unreduced_reduce_scatter_p] = as_typed


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The sum over a mapped axis, of which every position keeps its own slice of
    `scatter_dimension`.

    Args:
      axis_name: of one axis, or of several, along which positions are counted as along one.
      axis_index_groups: lists of positions, all of one size: sums and slices are of groups.
    Raises:
      TypeError: the dtype is not of numbers.
      ValueError: the dimension's size is not the axis size (tiled: not a multiple of it).

    >>> pyjax.vmap(lambda x: lax.psum_scatter(x, "i"), axis_name="i")(jnp.ones((2, 2)))
    Array([2., 2.], dtype=float32)
    """
    groups = checked_groups("psum_scatter", axis_name, axis_index_groups)
    names = one_at_a_time(axis_name, groups)
    size = group_size(names, groups)

    def one(v: Array) -> Array:
        check_dtype("psum_scatter", aval_of(v), NUMBER)
        at = canonical_axis("psum_scatter", scatter_dimension, len(shape_of(v)))
        extent = shape_of(v)[at]
        if extent % size or (not tiled and extent != size):
            fail(
                ValueError,
                f"psum_scatter operand scatter dimension size {extent} must "
                f"{'be divisible by' if tiled else 'match'} shard_count {size}",
            )
        summed = _is_sum(v, axis_env.names_of(axis_name), groups)
        for name in names:
            params = {
                "axis_name": name,
                "axis_size": group_size(name, groups),
                "scatter_dimension": at,
                "tiled": tiled or len(names) > 1,
            }
            if summed and name not in axis_env.outside_types(names):
                v = unreduced_reduce_scatter_p.bind1(v, **params)
            else:
                v = reduce_scatter_p.bind1(v, axis_index_groups=groups, **params)
        return squeeze(v, (at,)) if len(names) > 1 and not tiled else v

    return tree_map(one, x)


def _is_sum(x: Any, names: tuple[Any, ...], groups: Groups | None) -> bool:
    """Whether types say that it is a sum over these axes that is still to be made."""
    aval = aval_of(x)
    if "unreduced" not in states_along(aval, names):
        return False
    one_state("jax.lax.psum_scatter", aval, names)
    if groups is not None:
        fail(
            NotImplementedError,
            f"psum_scatter with axis_index_groups of {aval.str_short()}.",
            "it is a sum over the whole axis that is still to be made.",
            "leave out axis_index_groups.",
        )
    return True


def _all_to_all_aval(
    x: ShapedArray, *, axis_name: Any, split_axis: int, concat_axis: int, **params: Any
) -> list[ShapedArray]:
    check_bound(axis_name)
    shape = list(x.shape)
    size = shape.pop(split_axis)
    shape.insert(concat_axis, size)
    return [x.update(shape=tuple(shape), weak_type=False)]


def _all_to_all_collective(
    name: Any,
    size: int,
    args: Any,
    dims: Any,
    *,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    **params: Any,
) -> Any:
    (x,), (d,) = args, dims
    x = bdim_at_front(x, d, size)
    # Position p's slice q of split_axis goes to position q, which has p along concat_axis.
    split = split_axis + 1
    rest = [i for i in range(1, len(shape_of(x))) if i != split]
    rest.insert(concat_axis, 0)
    return [transpose(x, (split, *rest))], [0]


def _all_to_all_transpose(
    cts: Sequence[Any], x: Any, *, axis_name: Any, split_axis: int, concat_axis: int, **params: Any
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    return [
        all_to_all_p.bind1(
            ct, axis_name=axis_name, split_axis=concat_axis, concat_axis=split_axis, **params
        )
    ]


def _all_to_all_batching(
    axis_size: int, args: Any, dims: Any, *, split_axis: int, concat_axis: int, **params: Any
) -> Any:
    x = move_bdim(args[0], dims[0], 0)
    outs = all_to_all_p.bind_all(
        x, split_axis=split_axis + 1, concat_axis=concat_axis + 1, **params
    )
    return outs, [0]


all_to_all_p: Primitive = define(
    "all_to_all",
    abstract_eval=_checked("all_to_all", _all_to_all_aval),
    jvp=LINEAR,
    transpose=_all_to_all_transpose,
    batching=_all_to_all_batching,
    lowering=lowering_over_mesh("all_to_all", all_to_all_lowering),
    effects=named_effects,
    collective_batching=by_groups(_all_to_all_collective),
)
varying_rules[all_to_all_p] = varying_after


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Exchange slices: position p sends slice q of `split_axis` to position q, stacked along
    `concat_axis`.

    Args:
      axis_name: of one axis, or of several, along which positions are counted as along one.
      axis_index_groups: lists of positions, all of one size: slices are exchanged in groups.
      tiled: cut `split_axis` into equal blocks and concatenate, instead of removing and adding
        a dimension.
    Raises:
      ValueError: the split axis does not fit the size of the mapped axis.

    >>> x = jnp.array([[1, 2], [3, 4]])  # position p holds row p
    >>> pyjax.vmap(lambda row: lax.all_to_all(row, "i", 0, 0), axis_name="i")(x).tolist()
    [[1, 3], [2, 4]]
    """
    groups = checked_groups("all_to_all", axis_name, axis_index_groups)
    names = one_at_a_time(axis_name, groups)
    size = group_size(names, groups)

    def one(v: Array) -> Array:
        shape = shape_of(v)
        split = canonical_axis("all_to_all", split_axis, len(shape))
        concat = canonical_axis("all_to_all", concat_axis, len(shape))
        extent = shape[split]
        if extent % size or (not tiled and extent != size):
            fail(
                ValueError,
                f"all_to_all requires the size of the mapped axis axis_name to "
                f"{'divide' if tiled else 'equal'} x.shape[split_axis], but they are {size} and "
                f"{extent}.",
            )
        if not tiled:
            return _exchange_along(v, names, split, concat, groups)
        v = reshape(v, (*shape[:split], size, extent // size, *shape[split + 1 :]))
        return _merge(_exchange_along(v, names, split, concat, groups), concat)

    return tree_map(one, x)


def _exchange_along(
    v: Array, names: tuple[Any, ...], split: int, concat: int, groups: Groups | None = None
) -> Array:
    """Along several axes, whose positions count as those of one do, the last axis fastest."""
    if len(names) == 1:
        return _exchange(v, names[0], split, concat, groups)
    shape = shape_of(v)
    first = axis_env.axis_size(names[0])
    v = reshape(v, (*shape[:split], first, shape[split] // first, *shape[split + 1 :]))
    received = _exchange_along(_exchange(v, names[0], split, 0), names[1:], split + 1, 1)
    return moveaxis(_merge(received, 0), 0, concat)


def _exchange(v: Array, name: Any, split: int, concat: int, groups: Groups | None = None) -> Array:
    return all_to_all_p.bind1(
        v,
        axis_name=name,
        split_axis=split,
        concat_axis=concat,
        axis_index_groups=groups,
        tiled=False,
    )


def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap a mapped axis with an array axis of the same size.

    >>> x = jnp.array([[1, 2], [3, 4]])
    >>> pyjax.vmap(lambda row: lax.pswapaxes(row, "i", 0), axis_name="i")(x).tolist()
    [[1, 3], [2, 4]]
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)
