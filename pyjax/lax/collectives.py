"""Communication over the axes that `vmap(axis_name=...)` names: psum, all_gather, axis_index, ...

Each has a collective batching rule, which turns it into operations on the mapped dimension. Over an
axis that no map binds they raise NameError. Several names are dealt with one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax.core import axis_env
from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.effects import NamedAxisEffect
from pyjax.core.errors import fail
from pyjax.core.primitive import Primitive
from pyjax.core.tree_util import tree_flatten, tree_map, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front, move_bdim, not_mapped
from pyjax.interpreters.rules import LINEAR, ZERO_TANGENT, Unsupported
from pyjax.lax.arithmetic import add, div, mul
from pyjax.lax.common import canonical_axis, dtype_of, is_inexact, scalar_like, shape_of
from pyjax.lax.convert import convert_element_type
from pyjax.lax.creation import iota
from pyjax.lax.indexing.gather import gather
from pyjax.lax.indexing.gather_scatter_types import GatherDimensionNumbers, GatherScatterMode
from pyjax.lax.indexing.slicing import dynamic_slice_in_dim
from pyjax.lax.nary import define, expand_to
from pyjax.lax.reduce import reduce_max, reduce_min, reduce_sum
from pyjax.lax.shape import reshape, squeeze, transpose

AxisName = Any


def _names(axis_name: AxisName) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def _check_bound(axis_name: AxisName) -> None:
    for name in _names(axis_name):
        if not isinstance(name, int) and not axis_env.axis_exists(name):
            axis_env.axis_size(name)  # raises NameError, naming the axes that are bound


def _no_groups(function: str, axis_index_groups: Any) -> None:
    if axis_index_groups is not None:
        fail(
            NotImplementedError,
            f"axis_index_groups is not supported for {function} under vmap.",
            fix="reshape the mapped axis into two axes and map over both by name.",
        )


def _named_effects(*avals: Any, **params: Any) -> frozenset:
    axes = params.get("axes", params.get("axis_name", ()))
    return frozenset(NamedAxisEffect(n) for n in _names(axes) if not isinstance(n, int))


def _lowering_without_axis(name: str) -> Callable[..., Any]:
    def rule(ctx: Any, *operands: Any, **params: Any) -> Any:
        axes = params.get("axes", params.get("axis_name", ()))
        fail(
            NameError,
            f"Found an unbound axis name: {axes}.",
            f"{name} was compiled outside of a map that binds it.",
            "call it inside vmap(f, axis_name=...).",
        )

    return rule


# -- psum, pmax, pmin ------------------------------------------------------------------------------


def _reduction_aval(
    *avals: ShapedArray, axes: tuple[Any, ...], axis_index_groups: Any
) -> list[ShapedArray]:
    _check_bound(axes)
    return list(avals)


def _define_reduction(
    name: str, reduce_one: Callable[..., Array], of_constant: Any, jvp: Any
) -> Any:
    def collective(
        axis_name: Any, axis_size: int, args: Any, dims: Any, *, axes: Any, axis_index_groups: Any
    ) -> Any:
        rest = tuple(a for a in axes if a != axis_name)
        outs = [
            of_constant(x, axis_size) if d is not_mapped else reduce_one(x, (d,))
            for x, d in zip(args, dims)
        ]
        if rest:
            outs = primitive.bind(*outs, axes=rest, axis_index_groups=axis_index_groups)
        return outs, [not_mapped] * len(outs)

    def batching(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        return primitive.bind(*args, **params), list(dims)

    def transpose_rule(
        cts: Sequence[Any], *args: Any, axes: Any, axis_index_groups: Any
    ) -> list[Any]:
        live = [ct for ct in cts if type(ct) is not ad.Zero]
        moved = iter(
            primitive.bind(*live, axes=axes, axis_index_groups=axis_index_groups) if live else ()
        )
        return [ct if type(ct) is ad.Zero else next(moved) for ct in cts]

    primitive = define(
        name,
        abstract_eval=_reduction_aval,
        jvp=jvp,
        transpose=transpose_rule if jvp is LINEAR else Unsupported(f"{name} is not linear"),
        batching=batching,
        lowering=_lowering_without_axis(name),
        effects=_named_effects,
        collective_batching=collective,
    )
    return primitive


psum_p: Primitive = _define_reduction(
    "psum", reduce_sum, lambda x, size: mul(x, scalar_like(size, x)), LINEAR
)
_no_extremum_jvp = Unsupported("differentiate jnp.max over lax.all_gather of the operand instead")
pmax_p: Primitive = _define_reduction("pmax", reduce_max, lambda x, size: x, _no_extremum_jvp)
pmin_p: Primitive = _define_reduction("pmin", reduce_min, lambda x, size: x, _no_extremum_jvp)


def _reduce_tree(primitive: Any, name: str, x: Any, axis_name: AxisName, groups: Any) -> Any:
    _check_bound(axis_name)
    _no_groups(name, groups)
    leaves, tree = tree_flatten(x)
    if not leaves:
        return x
    if name == "psum":
        leaves = [
            convert_element_type(v, np.int32) if dtype_of(v) == np.bool_ else v for v in leaves
        ]
    return tree_unflatten(
        tree, primitive.bind(*leaves, axes=_names(axis_name), axis_index_groups=None)
    )


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Sum of x over a mapped axis (or several); x is a pytree. A Python number gives number * axis
    size.

    Raises:
      NameError: the axis is not bound by an enclosing map.
    """
    if isinstance(x, (int, float)) and not isinstance(x, bool):
        return x * axis_env.axis_size(axis_name)
    return _reduce_tree(psum_p, "psum", x, axis_name, axis_index_groups)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Maximum of x over a mapped axis."""
    return _reduce_tree(pmax_p, "pmax", x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Minimum of x over a mapped axis."""
    return _reduce_tree(pmin_p, "pmin", x, axis_name, axis_index_groups)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Mean of x over a mapped axis; integers become the default float."""
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = axis_env.axis_size(axis_name)

    def mean(v: Any) -> Any:
        if not hasattr(v, "aval"):
            return v / size
        v = v if is_inexact(dtype_of(v)) else convert_element_type(v, np.float32)
        return div(v, scalar_like(size, v))

    return tree_map(mean, total)


# -- axis_index, axis_size -------------------------------------------------------------------------


def _axis_index_aval(*, axis_name: Any) -> list[ShapedArray]:
    _check_bound(axis_name)
    return [ShapedArray((), np.dtype(np.int32))]


axis_index_p: Primitive = define(
    "axis_index",
    abstract_eval=_axis_index_aval,
    jvp=ZERO_TANGENT,
    transpose=Unsupported("axis_index has no operands"),
    batching=Unsupported("axis_index has no operands"),
    lowering=_lowering_without_axis("axis_index"),
    effects=_named_effects,
    collective_batching=lambda name, axis_size, args, dims, **params: (
        [iota(np.int32, axis_size)],
        [0],
    ),
)


def axis_size(axis_name: AxisName) -> int:
    """The size of a mapped axis (the product for several names), as a Python int."""
    return axis_env.axis_size(tuple(axis_name) if isinstance(axis_name, list) else axis_name)


def axis_index(axis_name: AxisName) -> Array:
    """The position along a mapped axis, int32; for several names, the row-major position."""
    _check_bound(axis_name)
    names = _names(axis_name)
    index = axis_index_p.bind1(axis_name=names[0])
    for name in names[1:]:
        size = scalar_like(axis_env.axis_size(name), index)
        index = add(mul(index, size), axis_index_p.bind1(axis_name=name))
    return index


# -- ppermute --------------------------------------------------------------------------------------


def _take_rows(x: Array, sources: np.ndarray) -> Array:
    """Rows of the leading dimension by a constant index vector."""
    shape = shape_of(x)
    numbers = GatherDimensionNumbers(
        offset_dims=tuple(range(1, len(shape))), collapsed_slice_dims=(0,), start_index_map=(0,)
    )
    return gather(
        x,
        sources.astype(np.int32)[:, None],
        numbers,
        (1, *shape[1:]),
        mode=GatherScatterMode.PROMISE_IN_BOUNDS,
    )


def _ppermute_collective(
    axis_name: Any, axis_size: int, args: Any, dims: Any, **params: Any
) -> Any:
    (x,), (d,) = args, dims
    x = bdim_at_front(x, d, axis_size)
    sources = np.full(axis_size, -1)
    for source, target in params["perm"]:
        sources[target] = source
    moved = _take_rows(x, np.maximum(sources, 0))
    missing = sources < 0
    if missing.any():
        kept = (~missing).reshape(axis_size, *(1,) * (len(shape_of(x)) - 1)).astype(dtype_of(x))
        moved = mul(moved, kept)
    return [moved], [0]


def _ppermute_transpose(cts: Sequence[Any], x: Any, *, axis_name: Any, perm: Any) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ct]
    backwards = tuple((target, source) for source, target in perm)
    return [ppermute_p.bind1(ct, axis_name=axis_name, perm=backwards)]


def _same_aval(x: ShapedArray, *, axis_name: Any, **params: Any) -> list[ShapedArray]:
    _check_bound(axis_name)
    return [x]


ppermute_p: Primitive = define(
    "ppermute",
    abstract_eval=_same_aval,
    jvp=LINEAR,
    transpose=_ppermute_transpose,
    batching=lambda axis_size, args, dims, **params: (ppermute_p.bind(*args, **params), list(dims)),
    lowering=_lowering_without_axis("ppermute"),
    effects=_named_effects,
    collective_batching=lambda name, size, args, dims, *, axis_name, perm: _ppermute_collective(
        name, size, args, dims, perm=perm
    ),
)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send x along a mapped axis: `perm` lists (source, destination); positions nobody sends to get
    zeros.

    Raises:
      ValueError: a source or destination is repeated.
    """
    _check_bound(axis_name)
    pairs = tuple((int(s), int(d)) for s, d in perm)
    if len({s for s, _ in pairs}) != len(pairs) or len({d for _, d in pairs}) != len(pairs):
        fail(ValueError, f"ppermute sources and destinations must be unique, got {pairs}.")
    return tree_map(lambda v: ppermute_p.bind1(v, axis_name=_one(axis_name), perm=pairs), x)


def _one(axis_name: AxisName) -> Any:
    names = _names(axis_name)
    if len(names) != 1:
        fail(NotImplementedError, f"this collective takes one axis name, got {names}.")
    return names[0]


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """ppermute where position i receives from perm[i]."""
    if sorted(perm) != list(range(len(perm))):
        fail(ValueError, f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """Every position receives the value of position `source`."""

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
    axis_index_groups: Any,
    axis_size: int,
    tiled: bool,
) -> list[ShapedArray]:
    _check_bound(axis_name)
    shape = list(x.shape)
    if tiled:
        shape[all_gather_dimension] *= axis_size
    else:
        shape.insert(all_gather_dimension, axis_size)
    return [x.update(shape=tuple(shape))]


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


def _all_gather_transpose(
    cts: Sequence[Any],
    x: Any,
    *,
    all_gather_dimension: int,
    axis_name: Any,
    tiled: bool,
    **params: Any,
) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ad.Zero(x.aval)]
    return [psum_scatter(ct, axis_name, scatter_dimension=all_gather_dimension, tiled=tiled)]


def _all_gather_batching(
    axis_size: int, args: Any, dims: Any, *, all_gather_dimension: int, tiled: bool, **params: Any
) -> Any:
    x = move_bdim(args[0], dims[0], 0)
    return (
        all_gather_p.bind(x, all_gather_dimension=all_gather_dimension + 1, tiled=tiled, **params),
        [0],
    )


all_gather_p: Primitive = define(
    "all_gather",
    abstract_eval=_all_gather_aval,
    jvp=LINEAR,
    transpose=_all_gather_transpose,
    batching=_all_gather_batching,
    lowering=_lowering_without_axis("all_gather"),
    effects=_named_effects,
    collective_batching=_all_gather_collective,
)


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
    """
    _check_bound(axis_name)
    _no_groups("all_gather", axis_index_groups)
    name = _one(axis_name)
    size = axis_env.axis_size(name)

    def one(v: Array) -> Array:
        ndim = len(shape_of(v)) + (not tiled)
        return all_gather_p.bind1(
            v,
            all_gather_dimension=canonical_axis("all_gather", axis, ndim),
            axis_name=name,
            axis_index_groups=None,
            axis_size=size,
            tiled=bool(tiled),
        )

    return tree_map(one, x)


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

    Raises:
      ValueError: the dimension's size is not the axis size (tiled: not a multiple of it).
    """
    _no_groups("psum_scatter", axis_index_groups)
    size = axis_env.axis_size(axis_name)

    def one(v: Array) -> Array:
        extent = shape_of(v)[scatter_dimension]
        if extent % size or (not tiled and extent != size):
            fail(
                ValueError,
                f"psum_scatter operand scatter dimension size {extent} must "
                f"{'be divisible by' if tiled else 'match'} shard_count {size}",
            )
        total = psum(v, axis_name)
        part = extent // size
        start = mul(axis_index(axis_name), np.asarray(part, np.int32))
        mine = dynamic_slice_in_dim(total, start, part, scatter_dimension)
        return mine if tiled else squeeze(mine, (scatter_dimension,))

    return tree_map(one, x)


def _all_to_all_aval(
    x: ShapedArray, *, axis_name: Any, split_axis: int, concat_axis: int, **params: Any
) -> list[ShapedArray]:
    _check_bound(axis_name)
    shape = list(x.shape)
    size = shape.pop(split_axis)
    shape.insert(concat_axis, size)
    return [x.update(shape=tuple(shape))]


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
    outs = all_to_all_p.bind(x, split_axis=split_axis + 1, concat_axis=concat_axis + 1, **params)
    return outs, [0]


all_to_all_p: Primitive = define(
    "all_to_all",
    abstract_eval=_all_to_all_aval,
    jvp=LINEAR,
    transpose=_all_to_all_transpose,
    batching=_all_to_all_batching,
    lowering=_lowering_without_axis("all_to_all"),
    effects=_named_effects,
    collective_batching=_all_to_all_collective,
)


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
      tiled: cut `split_axis` into equal blocks and concatenate, instead of removing and adding
        a dimension.
    Raises:
      ValueError: the split axis does not fit the size of the mapped axis.
    """
    _no_groups("all_to_all", axis_index_groups)
    name = _one(axis_name)
    size = axis_env.axis_size(name)

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
            return _exchange(v, name, split, concat)
        v = reshape(v, (*shape[:split], size, extent // size, *shape[split + 1 :]))
        return _merge(_exchange(v, name, split, concat), concat)

    return tree_map(one, x)


def _exchange(v: Array, name: Any, split: int, concat: int) -> Array:
    return all_to_all_p.bind1(
        v, axis_name=name, split_axis=split, concat_axis=concat, axis_index_groups=None, tiled=False
    )


def pswapaxes(x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Swap a mapped axis with an array axis of the same size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)
