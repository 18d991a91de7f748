"""How slices at computed places, gather and scatter pass on what types say of mesh axes of type
Explicit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pyjax.core.errors import ShardingTypeError, fail
from pyjax.interpreters.splits import (
    Entries,
    Operation,
    SplitRule,
    entries_of,
    refuse_sums,
)
from pyjax.lax.split_rules import Result, keeping, resized


def _update_slice(operation: Operation) -> Sequence[Result]:
    x, update = operation.operands[:2]
    if (x.split or entries_of(x)) != (update.split or entries_of(update)):
        fail(
            ShardingTypeError,
            "dynamic_update_slice operand sharding must be equal to update sharding, got operand "
            f"sharding {x.str_short()} and update sharding {update.str_short()}.",
            "each device writes to its part",
            "lay the update out as the operand before: reshard(update, jax.typeof(x).sharding).",
        )
    return [x.split or entries_of(x)]


def agree(*entries: Any) -> bool:
    """Whether those that are split are split alike."""
    return len({*entries} - {None}) <= 1


def first(*entries: Any) -> Any:
    return next((entry for entry in entries if entry is not None), None)


def _whole_but_along(entries: Entries, dims: Sequence[int]) -> bool:
    return all(entry is None for d, entry in enumerate(entries) if d not in dims)


def _gather(operation: Operation) -> Sequence[Result]:
    """Slices are split as the operand along dimensions of which they have all, and along batching
    dimensions; elsewhere it must be whole, and the indices, too."""
    refuse_sums(operation)
    x, indices = operation.operands
    of_x, of_indices = operation.entries
    dn, sizes = operation.params["dimension_numbers"], operation.params["slice_sizes"]
    pairs = list(zip(dn.operand_batching_dims, dn.start_indices_batching_dims))
    follows = (
        all(sizes[i] == x.shape[i] or of_x[i] is None for i in dn.start_index_map)
        and all(agree(of_x[i], of_indices[j]) for i, j in pairs)
        and _whole_but_along(of_indices, dn.start_indices_batching_dims)
    )
    if not follows:
        _ambiguous(
            "Use `.at[...].get(out_sharding=)` to provide output PartitionSpec for the gather "
            "indexing",
            f"operand={x.str_short()}, indices={indices.str_short()}",
            operation,
        )
    batch = list(of_indices[:-1])
    for i, j in pairs:
        batch[j] = first(batch[j], of_x[i])
    gone = {*dn.collapsed_slice_dims, *dn.operand_batching_dims}
    offsets = iter([entry for i, entry in enumerate(of_x) if i not in gone])
    rest = iter(batch)
    rank = operation.results[0].ndim
    return [tuple(next(offsets) if i in dn.offset_dims else next(rest) for i in range(rank))]


def _scatter(operation: Operation) -> Sequence[Result]:
    refuse_sums(operation)
    x, indices, updates = operation.operands
    of_x, of_indices, of_updates = operation.entries
    dn = operation.params["dimension_numbers"]
    batching = dn.operand_batching_dims
    places = [d for d in range(updates.ndim) if d not in dn.update_window_dims]
    batches = [(i, j, places[j]) for i, j in zip(batching, dn.scatter_indices_batching_dims)]
    kept = [i for i in range(x.ndim) if i not in dn.inserted_window_dims and i not in batching]
    windows = list(zip(dn.update_window_dims, kept))
    in_batch = {d for _, _, d in batches}
    follows = (
        all(agree(of_x[i], of_indices[j], of_updates[d]) for i, j, d in batches)
        and all(
            (updates.shape[d] == x.shape[i] and of_updates[d] == of_x[i])
            or (of_updates[d] is None and of_x[i] is None)
            for d, i in windows
        )
        and all(of_x[i] is None for i in dn.inserted_window_dims)
        and all(of_updates[d] is None for d in places if d not in in_batch)
        and _whole_but_along(of_indices, dn.scatter_indices_batching_dims)
    )
    if not follows:
        _ambiguous(
            "Use `.at[...].set/add/mul/...(out_sharding=)` to provide output PartitionSpec for the "
            "scatter update",
            f"operand={x.str_short()}, indices={indices.str_short()}, "
            f"updates={updates.str_short()}",
            operation,
        )
    found = list(of_x)
    for i, j, d in batches:
        found[i] = first(found[i], of_indices[j], of_updates[d])
    return [tuple(found)]


def _ambiguous(what: str, got: str, operation: Operation) -> NoReturn:
    fail(
        ShardingTypeError,
        f"{what} as out sharding could not be resolved unambiguously (or would require collectives "
        f"on inputs). Got {got}",
        f"{operation.primitive} looks up elements that may be on other devices",
        "say how the result is to be split, or lay the operands out as whole ones along the "
        "dimensions that are indexed: reshard(x, P(...)).",
    )


RULES: dict[str, SplitRule | None] = {
    "dynamic_slice": keeping(resized("dynamic_slice")),
    "dynamic_update_slice": _update_slice,
    "gather": _gather,
    **dict.fromkeys(
        ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"),
        _scatter,
    ),
}
