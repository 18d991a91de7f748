"""How operations pass on what types say of mesh axes of type Explicit: those that move, join and
reduce dimensions. Contractions and linear algebra are in split_rules_products.py, indexing is in
split_rules_indexing.py; elementwise operations need no rule."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.avals import Split
from pyjax.core.errors import ShardingTypeError, fail
from pyjax.interpreters.splits import (
    AS_TYPED,
    Entries,
    Operation,
    SplitRule,
    elementwise,
    entries_of,
    names_of,
    refuse_sums,
)

Result = Entries | Split


def keeping(to: Callable[[Operation, Entries], Sequence[Any]]) -> SplitRule:
    """The rule of an operation whose first operand says how all results are split, and over which
    axes they are sums: `to(operation, its entries)` gives the entries."""

    def rule(operation: Operation) -> Sequence[Result]:
        first = operation.operands[0]
        split = first.split or Split(operation.mesh, entries_of(first))
        found = split._replace(entries=tuple(to(operation, split.entries)))
        return [found] * len(operation.results)

    return rule


def plain(to: Callable[[Operation, Entries], Sequence[Any]]) -> SplitRule:
    """The same of an operation that does not take sums that are still to be made."""

    def rule(operation: Operation) -> Sequence[Result]:
        refuse_sums(operation)
        return [tuple(to(operation, entries_of(operation.operands[0])))] * len(operation.results)

    return rule


def count_of(mesh: Any, entry: Any) -> int:
    """Into how many parts an entry cuts a dimension."""
    return math.prod(mesh.shape[name] for name in names_of((entry,)))


def resized(what: str) -> Callable[[Operation, Entries], Sequence[Any]]:
    """Dimensions are split as the operand's; those of another size must divide."""

    def to(operation: Operation, entries: Entries) -> Sequence[Any]:
        x = operation.operands[0]
        for result in operation.results:
            for have, size, entry in zip(x.shape, result.shape, entries):
                parts = count_of(operation.mesh, entry)
                if have != size and size % parts:
                    fail(
                        ShardingTypeError,
                        f"{what} on sharded dims where out dim ({size}) is not divisible by mesh "
                        f"axes ({parts}) with spec ({entry}) is not implemented. Got input "
                        f"type={x.str_short(True)} and output shape={result.shape}",
                        "each device is to have a part of the same size",
                        "lay the array out as a whole one along this dimension before: "
                        "reshard(x, P(...)); or index with x.at[...].get(out_sharding=P(...)).",
                    )
        return entries

    return to


def without(entries: Entries, axes: Sequence[int]) -> Entries:
    return tuple(entry for i, entry in enumerate(entries) if i not in axes)


def inserted(entries: Entries, axis: int, entry: Any = None) -> Entries:
    return (*entries[:axis], entry, *entries[axis:])


def said(operation: Operation) -> Sequence[Result] | None:
    """What a parameter says of the result, where it does; the primitive's own type has it."""
    params = operation.params
    if params.get("sharding", params.get("out_sharding")) is None:
        return None
    aval = operation.results[0]
    return [aval.split or (None,) * aval.ndim]


def unless_said(rule: SplitRule) -> SplitRule:
    def found(operation: Operation) -> Sequence[Result]:
        return said(operation) or rule(operation)

    return found


# -- dimensions that come, go and move -------------------------------------------------------------


def _broadcast(operation: Operation, entries: Entries) -> Sequence[Any]:
    shape = operation.results[0].shape
    found: list[Any] = [None] * len(shape)
    for entry, dim in zip(entries, operation.params["broadcast_dimensions"]):
        found[dim] = entry
    return found


def _reshape(operation: Operation, entries: Entries) -> Sequence[Any]:
    """Dimensions of size 1 come and go, a dimension is cut in several, several become one: each
    group of dimensions with the same elements before and after is looked at alone."""
    old, new = operation.operands[0].shape, operation.results[0].shape
    if not any(entry is not None for entry in entries):
        return (None,) * len(new)
    groups = None if operation.params["dimensions"] is not None else _groups(old, new)
    if (
        groups is None
        or sum(a != b for a, b in _sizes(groups, old, new)) > 1
        or any(len(before) > 1 and len(after) > 1 for before, after in groups)
    ):
        raise _reshape_error(operation)
    found: list[Any] = [None] * len(new)
    for before, after in groups:
        names = list(itertools.chain.from_iterable(_flat(entries[i]) for i in before))
        if not names:
            continue
        if len(before) == len(after) == 1:
            found[after[0]] = entries[before[0]]
            continue
        if any(entries[i] is not None for i in before[1:]) and not _is_cut_whole(operation, before):
            raise _reshape_error(operation)
        _deal_out(operation, names, after, found)
    return found


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """Positions of dimensions before and after that hold the same elements; those of size 1 are in
    none. None: sizes do not say."""
    before = [i for i, n in enumerate(old) if n != 1]
    after = [i for i, n in enumerate(new) if n != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while before and after:
        left, right = [before.pop(0)], [after.pop(0)]
        a, b = old[left[0]], new[right[0]]
        while a != b:
            if a < b and before:
                left.append(before.pop(0))
                a *= old[left[-1]]
            elif b < a and after:
                right.append(after.pop(0))
                b *= new[right[-1]]
            else:
                return None
        groups.append((left, right))
    return None if before or after else groups


def _sizes(
    groups: list[tuple[list[int], list[int]]], old: Sequence[int], new: Sequence[int]
) -> list[tuple[list[int], list[int]]]:
    return [([old[i] for i in left], [new[i] for i in right]) for left, right in groups]


def _flat(entry: Any) -> Sequence[Any]:
    return entry if isinstance(entry, tuple) else () if entry is None else (entry,)


def _is_cut_whole(operation: Operation, dims: Sequence[int]) -> bool:
    """Whether each dimension but the last that is split consists of parts of one element, or all
    parts of it lie together: the elements of a device are then neighbours."""
    entries = entries_of(operation.operands[0])
    last = max(i for i in dims if entries[i] is not None)
    return all(entries[i] is not None for i in dims if i < last)


def _deal_out(
    operation: Operation, names: list[Any], dims: Sequence[int], found: list[Any]
) -> None:
    """Axes go to the first dimensions that they cut."""
    rest = list(names)
    for dim in dims:
        size, taken = operation.results[0].shape[dim], []
        while size > 1 and rest:
            size, remainder = divmod(size, operation.mesh.shape[rest[0]])
            if remainder:
                raise _reshape_error(operation)
            taken.append(rest.pop(0))
        found[dim] = None if not taken else taken[0] if len(taken) == 1 else tuple(taken)
    if rest:
        raise _reshape_error(operation)


def _reshape_error(operation: Operation) -> ShardingTypeError:
    fail(
        ShardingTypeError,
        "This reshape is not supported. Please specify the sharding of the output via the "
        f"`out_sharding` argument of jax.lax.reshape. Got operand type: "
        f"{operation.operands[0].str_short()}, new sizes: {operation.results[0].shape}",
        "it does not follow which of the new dimensions mesh axes split",
        "jnp.reshape(x, shape, out_sharding=P(...)), or lay the array out anew before.",
    )


def _bitcast(operation: Operation, entries: Entries) -> Sequence[Any]:
    more = operation.results[0].ndim - len(entries)
    return (*entries, None) if more > 0 else entries[: len(entries) + more]


def _tile(operation: Operation, entries: Entries) -> Sequence[Any]:
    x = operation.operands[0]
    for dim, (entry, times) in enumerate(zip(entries, operation.params["reps"])):
        if entry is not None and times != 1:
            fail(
                ShardingTypeError,
                f"Operand cannot be sharded on dimension {dim} when the tiling is non-trivial. Got "
                f"input type: {x.str_short()} with reps: {operation.params['reps']}",
                "its copies would be split otherwise",
                "lay the array out as a whole one along this dimension before: reshard(x, P(...)).",
            )
    return entries


# -- several operands ------------------------------------------------------------------------------


def _joined(operation: Operation) -> Split:
    """All operands are split alike: how they are."""
    splits = [a.split or Split(operation.mesh, entries_of(a)) for a in operation.operands]
    if any(s[1:] != splits[0][1:] for s in splits):
        got = ", ".join(str(s.entries) for s in splits)
        fail(
            ShardingTypeError,
            f"All operands should have the same sharding. Got shardings {got}",
            f"the operands of {operation.primitive} are {operation.texts()}",
            "lay them out alike before: jax.sharding.reshard(x, jax.typeof(y).sharding).",
        )
    return splits[0]


def _stack(operation: Operation) -> Sequence[Result]:
    split = _joined(operation)
    return [split._replace(entries=inserted(split.entries, operation.params["axis"]))]


def _check_whole(entry: Any, message: str, why: str) -> None:
    """Refuse an operand that is split along a dimension of which all is needed in one place."""
    if entry is not None:
        fail(
            ShardingTypeError,
            message,
            why,
            "lay the array out as a whole one along this dimension before: reshard(x, P(...)).",
        )


def _unstack(operation: Operation, entries: Entries) -> Sequence[Any]:
    axis = operation.params["axis"]
    _check_whole(
        entries[axis],
        f"unstack operand cannot be sharded on the unstacking axis {axis}. Got operand "
        f"type={operation.operands[0].str_short(True)}",
        "its parts would lie on some devices only",
    )
    return without(entries, (axis,))


def _sort(operation: Operation) -> Sequence[Result]:
    dim, splits = operation.params["dimension"], _each(operation)
    if any(split != splits[0] for split in splits):
        fail(
            ShardingTypeError,
            "Arguments to sort must have equal shardings, got: "
            f"{' '.join(map(str, operation.entries))}",
            f"the operands are {operation.texts()}",
            "lay them out alike before: jax.sharding.reshard(x, jax.typeof(y).sharding).",
        )
    found = elementwise(operation)
    entries = found[0].entries
    _check_whole(
        entries[dim],
        "Arguments to sort must be unsharded over the sorting dimension. Got arg sharding="
        f"{entries} and sorting dimension={dim}",
        f"the operands are {operation.texts()}",
    )
    return found


def _top_k(operation: Operation, entries: Entries) -> Sequence[Any]:
    params = operation.params
    axis = params["axis"] if "axis" in params else params["reduction_dimension"]
    _check_whole(
        entries[axis],
        f"{operation.primitive} operand must be unsharded over axis {axis}. Got operand "
        f"type={operation.operands[0].str_short()}",
        "the largest elements may be on any device",
    )
    return entries


def _running(operation: Operation, entries: Entries) -> Sequence[Any]:
    axis = operation.params["axis"]
    _check_whole(
        entries[axis],
        "Input should be unsharded over the axis being reduced. Got input "
        f"type={operation.operands[0].str_short()} and axis={axis}",
        "each result needs all elements before it",
    )
    return entries


def _each(operation: Operation) -> Sequence[Result]:
    return [a.split or entries_of(a) for a in operation.operands]


def _select(operation: Operation) -> Sequence[Result]:
    """One of the cases, which are split alike; so is what chooses, if it is not one for all."""
    which, *cases = operation.operands
    entries = entries_of(cases[0])
    if any(entries_of(case) != entries for case in cases):
        got = ", ".join(case.str_short() for case in cases)
        fail(
            ShardingTypeError,
            f"select cases must have the same shardings, got [{got}].",
            "an element of the result is one of them",
            "lay them out alike before: jax.sharding.reshard(x, jax.typeof(y).sharding).",
        )
    if which.shape and entries_of(which) != entries:
        fail(
            ShardingTypeError,
            "select `which` must be scalar or have the same sharding as cases, got `which` of type "
            f"{which.str_short()} but case of type {cases[0].str_short()}.",
            "each device chooses from its own parts of the cases",
            "lay it out as these before: jax.sharding.reshard(which, jax.typeof(case).sharding).",
        )
    return elementwise(operation)


def _reduce_sum(operation: Operation, entries: Entries) -> Sequence[Any]:
    return without(entries, operation.params["axes"])


def _sum_as_told(operation: Operation) -> Sequence[Result]:
    found = said(operation)
    if found is None:
        return keeping(_reduce_sum)(operation)
    x = operation.operands[0]
    unreduced = found[0].unreduced if isinstance(found[0], Split) else frozenset()
    over = {*names_of(entries_of(x)[i] for i in operation.params["axes"])}
    if x.split is not None:
        over |= x.split.unreduced
    if not unreduced <= over:
        fail(
            ShardingTypeError,
            "out_sharding's unreduced axes should be in operand's specs that were summed over. Got "
            f"operand={x.str_short()}, axes={operation.params['axes']}, "
            f"unreduced_spec={set(unreduced)}",
            "only over those is a sum still to be made",
        )
    return found


def _general_reduction(operation: Operation) -> Sequence[Result]:
    refuse_sums(operation)
    count = len(operation.results)
    return [without(e, operation.params["dimensions"]) for e in operation.entries[:count]]


def _leading(operation: Operation, entries: Entries) -> Sequence[Any]:
    """Of random keys, and what is drawn by them: the dimensions of the operand come first."""
    rank = operation.results[0].ndim
    return (*entries, *(None,) * (rank - len(entries)))[:rank]


_REDUCTIONS = """
    reduce_prod reduce_max reduce_min reduce_and reduce_or reduce_xor argmax argmin
"""
_RUNNING = "cumsum cumprod cummax cummin cumlogsumexp"
_WINDOWS = """
    reduce_window reduce_window_sum reduce_window_max reduce_window_min reduce_window_winner
    select_and_gather_add
"""
# Dimensions of random keys come before those of their words, and of what is drawn.
_OF_KEYS = "random_bits random_split random_wrap random_unwrap"
_HASHES = "random_fold_in threefry2x32 threefry4x32 philox2x32 philox4x32"
# Programs inside, or whoever is called, say what results are.
_TYPED = """
    custom_linear_solve custom_root pure_callback io_callback debug_callback buffer_callback
    get swap addupdate new_ref freeze new_tangent_ref inspect_sharding dce_sink platform_index
    create_token after_all loop_tangent loop_gradient loop_curvature
"""

RULES: dict[str, SplitRule | None] = {
    "broadcast_in_dim": unless_said(keeping(_broadcast)),
    "reshape": unless_said(keeping(_reshape)),
    "transpose": keeping(lambda op, e: [e[i] for i in op.params["permutation"]]),
    "squeeze": keeping(lambda op, e: without(e, op.params["dimensions"])),
    "rev": keeping(lambda op, e: e),
    "copy": keeping(lambda op, e: e),
    "optimization_barrier": _each,
    "convert_element_type": keeping(lambda op, e: e),
    "neg": keeping(lambda op, e: e),
    "pvary": keeping(lambda op, e: e),
    "bitcast_convert_type": plain(_bitcast),
    "tile": plain(_tile),
    "pad": keeping(resized("padding")),
    "slice": keeping(resized("slicing")),
    "split": keeping(resized("split")),
    "concatenate": lambda op: [_joined(op)],
    "stack": _stack,
    "unstack": keeping(_unstack),
    "sort": _sort,
    "top_k": plain(_top_k),
    "approx_top_k": plain(_top_k),
    "select_n": _select,
    "clamp": lambda op: [op.operands[1].split or op.entries[1]],
    "reduce_sum": _sum_as_told,
    "reduce": _general_reduction,
    **dict.fromkeys(_REDUCTIONS.split(), plain(_reduce_sum)),
    **dict.fromkeys(_RUNNING.split(), plain(_running)),
    **{name: plain(resized(name)) for name in _WINDOWS.split()},
    "select_and_scatter_add": lambda op: [op.entries[1]],
    **dict.fromkeys(_OF_KEYS.split(), plain(_leading)),
    **dict.fromkeys(_HASHES.split(), elementwise),
    **dict.fromkeys(_TYPED.split(), AS_TYPED),
}
