"""ppermute: who gets the value of whom along mapped axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pyjax.core import axis_env
from pyjax.core.array import Array
from pyjax.core.avals import ShapedArray
from pyjax.core.errors import fail
from pyjax.core.manual_types import check_no_sum
from pyjax.core.primitive import Primitive
from pyjax.core.tree_util import tree_map
from pyjax.interpreters import ad
from pyjax.interpreters.batching import bdim_at_front
from pyjax.interpreters.rules import LINEAR
from pyjax.interpreters.varying import varying_rules
from pyjax.lax.collectives import (
    AxisName,
    axis_index,
    check_bound,
    named_effects,
    varying_after,
)
from pyjax.lax.collectives_gather import all_gather
from pyjax.lax.collectives_groups import take_rows
from pyjax.lax.collectives_lowering import lowering_over_mesh
from pyjax.lax.collectives_lowering import ppermute as ppermute_lowering
from pyjax.lax.common import shape_of
from pyjax.lax.compare import full_value, ge, select
from pyjax.lax.indexing.slicing import dynamic_index_in_dim
from pyjax.lax.nary import define, expand_to
from pyjax.lax.shape import reshape


def _collective_batching(
    name: Any, size: int, args: Any, dims: Any, *, axis_name: Any, perm: Any
) -> Any:
    (x,), (d,) = args, dims
    x = bdim_at_front(x, d, size)
    names = axis_env.names_of(axis_name)
    others = tuple(other for other in names if other != name)
    sources: Any = _sources([axis_env.axis_size(n) for n in names], names.index(name), perm)
    if not others:
        return [_rows_or_zeros(x, sources[0])], [0]
    # Where the others are is known when this runs only: it needs what all of them have.
    own = dynamic_index_in_dim(sources, axis_index(others), 0, keepdims=False)
    everything = all_gather(x, others)
    everything = reshape(everything, (sources.size, *shape_of(x)[1:]))
    return [_rows_or_zeros(everything, own)], [0]


def _sources(sizes: Sequence[int], inner: int, perm: Any) -> np.ndarray:
    """By position along the other axes, and along the one with number `inner`: where its value
    comes from, counted in that order; -1: from nobody."""
    total = int(np.prod(sizes))
    flat = np.moveaxis(np.arange(total).reshape(sizes), inner, -1).reshape(-1)
    place = np.argsort(flat)
    found = np.full(total, -1, np.int32)
    for source, target in perm:
        found[place[target]] = place[source]
    return found.reshape(-1, sizes[inner])


def _rows_or_zeros(x: Array, sources: Any) -> Array:
    """Rows of the leading dimension, zeros where the index is -1."""
    if isinstance(sources, np.ndarray) and (sources >= 0).all():
        return take_rows(x, sources)
    first = full_value(sources, 0)
    found = ge(sources, first)
    rows = take_rows(x, select(found, sources, first))
    return select(expand_to(found, shape_of(rows), (0,)), rows, full_value(rows, 0))


def _transpose(cts: Sequence[Any], x: Any, *, axis_name: Any, perm: Any) -> list[Any]:
    (ct,) = cts
    if type(ct) is ad.Zero:
        return [ct]
    backwards = tuple((target, source) for source, target in perm)
    return [ppermute_p.bind1(ct, axis_name=axis_name, perm=backwards)]


def _same_aval(x: ShapedArray, *, axis_name: Any, **params: Any) -> list[ShapedArray]:
    check_bound(axis_name)
    check_no_sum("ppermute", x, axis_env.names_of(axis_name))
    return [x]


ppermute_p: Primitive = define(
    "ppermute",
    abstract_eval=_same_aval,
    jvp=LINEAR,
    transpose=_transpose,
    batching=lambda axis_size, args, dims, **params: (
        ppermute_p.bind_all(*args, **params),
        list(dims),
    ),
    lowering=lowering_over_mesh("ppermute", ppermute_lowering),
    effects=named_effects,
    collective_batching=_collective_batching,
)
varying_rules[ppermute_p] = varying_after


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send x along a mapped axis: `perm` lists (source, destination); positions nobody sends to get
    zeros. Along several axes positions are counted row by row, the last name fastest; those of
    devices the last axis of the mesh fastest, in whatever order axes are named, as the reference
    does.

    Raises:
      ValueError: a source or destination is repeated.

    >>> turn = lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)])
    >>> pyjax.vmap(turn, axis_name="i")(jnp.array([1, 2]))
    Array([2, 1], dtype=int32)
    """
    check_bound(axis_name)
    pairs = tuple((int(s), int(d)) for s, d in perm)
    if len({s for s, _ in pairs}) != len(pairs) or len({d for _, d in pairs}) != len(pairs):
        fail(ValueError, f"ppermute sources and destinations must be unique, got {pairs}.")
    size = axis_env.axis_size(axis_name)
    outside = [pair for pair in pairs if not all(0 <= position < size for position in pair)]
    if outside:
        fail(
            IndexError,
            f"ppermute along axis {axis_name!r} of size {size} got {outside}.",
            f"its positions are 0 to {size - 1}.",
            "list pairs (source, destination) of positions along the axis.",
        )
    names = axis_env.names_of(axis_name)
    if axis_env.are_mesh_axes(names):
        names = axis_env.in_order(names)
    name = names[0] if len(names) == 1 else names
    return tree_map(lambda v: ppermute_p.bind1(v, axis_name=name, perm=pairs), x)


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """ppermute where position i receives from perm[i].

    >>> pyjax.vmap(lambda x: lax.pshuffle(x, "i", [2, 0, 1]), axis_name="i")(jnp.arange(3)).tolist()
    [2, 0, 1]
    """
    if sorted(perm) != list(range(len(perm))):
        fail(ValueError, f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])
