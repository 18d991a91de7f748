"""Communication over the axes that vmap, pmap and shard_map name: psum, pmax, axis_index.
Those that gather and exchange parts are in collectives_gather.py, ppermute is in
collectives_permute.py.

Each has a collective batching rule, which turns it into operations on the mapped dimension. Over an
axis that no map binds they raise NameError. Several names are dealt with one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pyjax._config import options
from pyjax.core import axis_env
from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.axis_env import names_of
from pyjax.core.dtypes import to_inexact_dtype
from pyjax.core.effects import NamedAxisEffect
from pyjax.core.errors import fail
from pyjax.core.manual_types import check_no_sum, moved, one_state, state_along, states_along
from pyjax.core.primitive import Primitive
from pyjax.core.structural import preduced_p, pvary, unreduced_psum_p
from pyjax.core.trace import state
from pyjax.core.tree_util import tree_flatten, tree_map, tree_unflatten
from pyjax.interpreters import ad
from pyjax.interpreters.batching import not_mapped
from pyjax.interpreters.rules import LINEAR, ZERO_TANGENT, Unsupported
from pyjax.interpreters.staging import is_staging
from pyjax.interpreters.varying import Variation, as_typed, joined, varying_rules
from pyjax.lax.arithmetic import add, div, mul
from pyjax.lax.collectives_groups import Groups, by_groups, checked_groups
from pyjax.lax.collectives_lowering import axis_index as axis_index_lowering
from pyjax.lax.collectives_lowering import lowering_over_mesh, reduction
from pyjax.lax.common import (
    BOOL,
    NUMBER,
    aval_of,
    canonical_axis,
    check_dtype,
    dtype_of,
    is_inexact,
    scalar_like,
    shape_of,
)
from pyjax.lax.compare import eq, full_value, select
from pyjax.lax.convert import convert, convert_element_type
from pyjax.lax.creation import iota
from pyjax.lax.nary import define, expand_to
from pyjax.lax.reduce import identity_of, reduce_max, reduce_min, reduce_or, reduce_sum
from pyjax.sharding.mesh import get_abstract_mesh
from xla_backend.hlo.opcode import Opcode

AxisName = Any


def check_bound(axis_name: AxisName) -> None:
    names = names_of(axis_name)
    if len({*names}) < len(names):
        fail(
            ValueError,
            f"a collective over {names} names an axis twice.",
            "each position along the axes takes part once.",
            "name each axis once.",
        )
    for name in names:
        if not isinstance(name, int) and not axis_env.axis_exists(name):
            axis_env.axis_size(name)  # raises NameError, naming the axes that are bound


def with_state(what: str, aval: Any, axes: tuple[Any, ...], source: str, to: str) -> Any:
    """The type of the result of an operation on a value that along these axes is `source`, and
    becomes `to` (core/manual_types.py). Types that say nothing of mesh axes stay.

    Raises:
      ValueError: it is something else.
    """
    if not options.check_vma.value:
        return aval
    if states_along(aval, axes) != {source}:
        fail(
            ValueError,
            f"{what} only accepts inputs that are {source}. Got {aval.str_short(True)} and "
            f"axes={axes}",
            f"along {', '.join(f'{a!r} it is {state_along(aval, a)}' for a in axes)}",
            "cast it before: lax.pcast(x, axes, to='varying')."
            if source == "varying"
            else f"name axes along which the value is {source}.",
        )
    return moved(aval, axes, to, get_abstract_mesh())


def named_effects(*avals: Any, **params: Any) -> frozenset:
    axes = params.get("axes", params.get("axis_name", ()))
    return frozenset(NamedAxisEffect(n) for n in names_of(axes) if not isinstance(n, int))


# -- psum, pmax, pmin ------------------------------------------------------------------------------


def _checked(name: str) -> Callable[..., list[ShapedArray]]:
    """The types of a collective that takes no sums that are still to be made along its axes."""

    def abstract_eval(*avals: ShapedArray, axes: tuple[Any, ...], **groups: Any) -> list[Any]:
        check_bound(axes)
        for aval in avals:
            check_no_sum(name, aval, axes)
        return list(avals)

    return abstract_eval


def _define_reduction(
    name: str,
    opcode: Opcode,
    reduce_one: Callable[..., Array],
    of_constant: Any,
    jvp: Any,
    transpose: Any = None,
    abstract_eval: Any = None,
) -> Any:
    def collective(
        axis_name: Any, axis_size: int, args: Any, dims: Any, *, axes: Any, **groups: Any
    ) -> Any:
        rest = tuple(a for a in axes if a != axis_name)
        outs = [
            of_constant(x, axis_size) if d is not_mapped else reduce_one(x, (d,))
            for x, d in zip(args, dims)
        ]
        if rest:
            outs = primitive.bind_all(*outs, axes=rest, **groups)
        return outs, [not_mapped] * len(outs)

    def batching(axis_size: int, args: Any, dims: Any, **params: Any) -> Any:
        return primitive.bind_all(*args, **params), list(dims)

    def transpose_rule(cts: Sequence[Any], *args: Any, **params: Any) -> list[Any]:
        live = [ct for ct in cts if type(ct) is not ad.Zero]
        moved = iter(primitive.bind_all(*live, **params) if live else ())
        return [ct if type(ct) is ad.Zero else next(moved) for ct in cts]

    if transpose is None:
        transpose = transpose_rule if jvp is LINEAR else Unsupported(f"{name} is not linear")
    primitive = define(
        name,
        multiple_results=name not in ("psum_invariant", "unreduced_psum"),
        abstract_eval=abstract_eval or _checked(name.removesuffix("_invariant")),
        jvp=jvp,
        transpose=transpose,
        batching=batching,
        lowering=lowering_over_mesh(name, reduction(opcode)),
        effects=named_effects,
        collective_batching=by_groups(collective),
    )
    varying_rules[primitive] = invariant_after
    return primitive


def invariant_after(operands: list[Any], results: Any, params: dict[str, Any]) -> Variation:
    """Along these axes operands vary, and results do not, but from group to group."""
    axes = axis_env.mesh_axes(params["axes"])
    if params.get("axis_index_groups") is not None:
        return joined([vma | axes for vma in operands], results, params)
    return [vma | axes for vma in operands], [vma - axes for vma in operands]


def varying_after(operands: list[Any], results: Any, params: dict[str, Any]) -> Variation:
    """Operands vary along the axes, and so do results."""
    axes = axis_env.mesh_axes(names_of(params["axis_name"]))
    return joined([vma | axes for vma in operands] or [axes], results, params)


def _size_like(size: int, x: Array) -> Any:
    """A number of x's kind, which does not make a weak type strong."""
    return scalar_like(np.asarray(size).astype(dtype_of(x)).item(), x)


def _times_size(x: Array, size: int) -> Array:
    return mul(x, _size_like(size, x))


psum_p: Primitive = _define_reduction("psum", Opcode.ADD, reduce_sum, _times_size, LINEAR)


# What psum is where types say along which mesh axes values vary: the transpose of `pvary`. That of
# `psum` is `psum`, as if all values varied.
def _psum_invariant_transpose(cts: Sequence[Any], *args: Any, axes: Any) -> list[Any]:
    return [ct if type(ct) is ad.Zero else pvary(ct, axes) for ct in cts]


psum_invariant_p: Primitive = _define_reduction(
    "psum_invariant", Opcode.ADD, reduce_sum, _times_size, LINEAR, _psum_invariant_transpose
)


# Of a value that is one of the summands of a sum still to be made. Its cotangent is the same on all
# devices, as that of the result is, and what is computed from it is such a sum.
def _unreduced_psum_aval(x: ShapedArray, *, axes: tuple[Any, ...]) -> ShapedArray:
    check_bound(axes)
    return with_state("unreduced_psum", x, axes, "unreduced", "invarying")


def _unreduced_psum_transpose(cts: Sequence[Any], *args: Any, axes: Any) -> list[Any]:
    return [ct if type(ct) is ad.Zero else preduced_p.bind1(ct, axes=axes) for ct in cts]


_define_reduction(
    "unreduced_psum",
    Opcode.ADD,
    reduce_sum,
    _times_size,
    LINEAR,
    _unreduced_psum_transpose,
    _unreduced_psum_aval,
)
varying_rules[unreduced_psum_p] = as_typed

_no_extremum_jvp = Unsupported("differentiate jnp.max over lax.all_gather of the operand instead")
_same = lambda x, size: x
pmax_p: Primitive = _define_reduction("pmax", Opcode.MAXIMUM, reduce_max, _same, _no_extremum_jvp)
pmin_p: Primitive = _define_reduction("pmin", Opcode.MINIMUM, reduce_min, _same, _no_extremum_jvp)
_OPCODES = {psum_p: Opcode.ADD, pmax_p: Opcode.MAXIMUM, pmin_p: Opcode.MINIMUM}


def _reduce_tree(primitive: Any, name: str, x: Any, axis_name: AxisName, groups: Any) -> Any:
    check_bound(axis_name)
    names, dimensions = _split_names(name, axis_name, groups)
    groups = checked_groups(name, names, groups, equal=False)
    names = tuple(n for n in names if n not in axis_env.outside_types(names))
    leaves, tree = tree_flatten(x)
    for v in leaves:
        check_dtype(name, aval_of(v), NUMBER | BOOL)
    if dimensions:
        leaves = [_reduce_dimensions(name, v, dimensions) for v in leaves]
    if not leaves or not names:
        return tree_unflatten(tree, leaves)
    mesh = axis_env.mesh_axes(names)
    strong = bool(mesh and not options.check_vma.value) or any(map(is_staging, state.traces))
    leaves = [_of_result_type(v, strong) for v in leaves]
    if name == "psum":
        leaves = [
            convert_element_type(v, np.int32) if dtype_of(v) == np.bool_ else v for v in leaves
        ]
        mesh = mesh if options.check_vma.value else frozenset()
        if mesh and groups is not None:
            fail(
                NotImplementedError,
                "psum with axis_index_groups inside of a shard_map that checks types.",
                "its result differs from group to group, and types say of whole axes only along "
                "which values vary.",
                "pass check_vma=False to shard_map.",
            )
        if mesh:
            axes = tuple(n for n in names if n in mesh)
            leaves = [_psum_invariant(v, axes) for v in leaves]
            names = tuple(n for n in names if n not in mesh)
            if not names:
                return tree_unflatten(tree, leaves)
    if groups is not None and len({len(group) for group in groups}) > 1:
        return tree_unflatten(tree, _reduce_unequal(primitive, leaves, names, groups))
    return tree_unflatten(tree, primitive.bind_all(*leaves, axes=names, axis_index_groups=groups))


def _of_result_type(x: Any, strong: bool) -> Any:
    """Results are weak where operands are, as in the reference, but in what is staged, and in a
    shard_map that does not check types."""
    weak = aval_of(x).weak_type
    if weak and strong:
        return convert_element_type(x, dtype_of(x))
    return convert(x, dtype_of(x), weak) if isinstance(x, _NUMBERS) else x


def _split_names(
    name: str, axis_name: AxisName, groups: Any
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Names of axes, and dimensions of the operand, which whole numbers stand for."""
    names = names_of(axis_name)
    dimensions = tuple(n for n in names if isinstance(n, int))
    if dimensions and groups is not None:
        fail(
            ValueError,
            f"{name} over {names} with axis_index_groups.",
            "groups are of positions along named axes; a number stands for a dimension of the "
            "operand.",
            f"reduce the dimension by itself: {name}(x.sum({dimensions[0]}), axis_name, "
            "axis_index_groups=...)."
            if name == "psum"
            else f"reduce dimension {dimensions[0]} by itself.",
        )
    return tuple(n for n in names if not isinstance(n, int)), dimensions


_OVER_DIMENSIONS = {"psum": reduce_sum, "pmax": reduce_max, "pmin": reduce_min}


def _reduce_dimensions(name: str, x: Any, dimensions: tuple[int, ...]) -> Array:
    if name == "psum" and dtype_of(x) == np.bool_:
        x = convert_element_type(x, np.int32)
    rank = len(shape_of(x))
    return _OVER_DIMENSIONS[name](x, tuple(canonical_axis(name, d, rank) for d in dimensions))


def _psum_invariant(x: Any, axes: tuple[Any, ...]) -> Any:
    aval = aval_of(x)
    if "unreduced" not in states_along(aval, axes):
        return psum_invariant_p.bind1(x, axes=axes)
    one_state("jax.lax.psum", aval, axes)
    return unreduced_psum_p.bind1(x, axes=axis_env.in_order(axes))


def _reduce_unequal(primitive: Any, leaves: Any, names: tuple[Any, ...], groups: Groups) -> Any:
    """Over groups of several sizes, one after the other: all positions take part, those of other
    groups with what changes nothing."""
    opcode, position = _OPCODES[primitive], axis_index(names)
    results = list(leaves)
    for group in groups:
        listed = np.asarray(group, np.int32)
        member = reduce_or(eq(expand_to(position, listed.shape, ()), listed), (0,))
        neutral = [full_value(v, identity_of(opcode, np.dtype(dtype_of(v))).item()) for v in leaves]
        given = [select(member, v, other) for v, other in zip(leaves, neutral)]
        found = primitive.bind_all(*given, axes=names, axis_index_groups=None)
        results = [select(member, new, old) for new, old in zip(found, results)]
    return results


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Sum of x over a mapped axis (or several); x is a pytree. A Python number gives number * axis
    size, or times the size of its group.

    Args:
      axis_name: a name, or several; a whole number stands for a dimension of x.
      axis_index_groups: lists of positions, each of which is in one of them: sums are of groups.
    Raises:
      NameError: the axis is not bound by an enclosing map.
      ValueError: the groups do not list every position once.

    >>> pyjax.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(jnp.array([1, 2, 3]))
    Array([6, 6, 6], dtype=int32)
    """
    if isinstance(x, _NUMBERS) and not isinstance(x, bool):
        return x * _summed_over(axis_name, axis_index_groups)
    leaves, tree = tree_flatten(x)
    numbers = [isinstance(v, _NUMBERS) and not isinstance(v, bool) for v in leaves]
    if not any(numbers):
        return _reduce_tree(psum_p, "psum", x, axis_name, axis_index_groups)
    arrays = [v for v, number in zip(leaves, numbers) if not number]
    sums = iter(_reduce_tree(psum_p, "psum", arrays, axis_name, axis_index_groups))
    size = _summed_over(axis_name, axis_index_groups)
    return tree_unflatten(
        tree, [v * size if number else next(sums) for v, number in zip(leaves, numbers)]
    )


_NUMBERS = (int, float, complex)


def _summed_over(axis_name: AxisName, axis_index_groups: Any) -> int:
    """How many values a sum has: the size of the axis, or of each group of its indices."""
    if any(isinstance(name, int) for name in names_of(axis_name)):
        fail(
            ValueError,
            f"the number of values of a sum over {axis_name}, which are not all names of axes.",
            "a number has no dimensions, and pmean divides by the sizes of named axes only.",
            "take the mean over the dimensions by itself: lax.pmean(x.mean(0), axis_name).",
        )
    size = axis_env.axis_size(axis_name)
    return size if axis_index_groups is None else len(axis_index_groups[0])


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Maximum of x over a mapped axis.

    >>> pyjax.vmap(lambda x: lax.pmax(x, "i"), axis_name="i")(jnp.array([1, 5, 3]))
    Array([5, 5, 5], dtype=int32)
    """
    return _reduce_tree(pmax_p, "pmax", x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Minimum of x over a mapped axis.

    >>> pyjax.vmap(lambda x: lax.pmin(x, "i"), axis_name="i")(jnp.array([1, 5, 3]))
    Array([1, 1, 1], dtype=int32)
    """
    return _reduce_tree(pmin_p, "pmin", x, axis_name, axis_index_groups)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """Mean of x over a mapped axis; integers become the default float.

    >>> pyjax.vmap(lambda x: lax.pmean(x, "i"), axis_name="i")(jnp.array([1.0, 3.0]))
    Array([2., 2.], dtype=float32)
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = _summed_over(axis_name, axis_index_groups)

    def mean(v: Any) -> Any:
        if not hasattr(v, "aval"):
            return v / size
        if not is_inexact(dtype_of(v)):
            v = convert(v, to_inexact_dtype(dtype_of(v)), aval_of(v).weak_type)
        return div(v, _size_like(size, v))

    return tree_map(mean, total)


# -- axis_index, axis_size -------------------------------------------------------------------------


def _axis_index_aval(*, axis_name: Any) -> list[ShapedArray]:
    check_bound(axis_name)
    return [ShapedArray((), np.dtype(np.int32))]


axis_index_p: Primitive = define(
    "axis_index",
    abstract_eval=_axis_index_aval,
    jvp=ZERO_TANGENT,
    transpose=Unsupported("axis_index has no operands"),
    batching=Unsupported("axis_index has no operands"),
    lowering=lowering_over_mesh("axis_index", axis_index_lowering),
    effects=named_effects,
    collective_batching=lambda name, axis_size, args, dims, **params: (
        [iota(np.int32, axis_size)],
        [0],
    ),
)
varying_rules[axis_index_p] = varying_after


def axis_size(axis_name: AxisName) -> int:
    """The size of a mapped axis (the product for several names), as a Python int.

    >>> pyjax.vmap(lambda x: x / lax.axis_size("i"), axis_name="i")(jnp.ones(4))
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """
    return axis_env.axis_size(tuple(axis_name) if isinstance(axis_name, list) else axis_name)


def axis_index(axis_name: AxisName) -> Array:
    """The position along a mapped axis, int32; for several names, the row-major position.

    >>> pyjax.vmap(lambda x: x + lax.axis_index("i"), axis_name="i")(jnp.zeros(3, int))
    Array([0, 1, 2], dtype=int32)
    """
    check_bound(axis_name)
    names = names_of(axis_name)
    if not names:
        return full_value(np.zeros((), np.int32), 0)
    index = axis_index_p.bind1(axis_name=names[0])
    for name in names[1:]:
        size = scalar_like(axis_env.axis_size(name), index)
        index = add(mul(index, size), axis_index_p.bind1(axis_name=name))
    return index


def one_name(axis_name: AxisName) -> Any:
    names = names_of(axis_name)
    if len(names) != 1:
        fail(
            NotImplementedError,
            f"this collective takes one axis name, got {names}.",
            "positions are counted along one axis.",
            "Name one axis, or call it once for each of them.",
        )
    return names[0]
