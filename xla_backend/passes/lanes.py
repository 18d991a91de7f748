"""Where a change of some lanes of a value shows.

A *lane* is one position along the dimensions that an array shares with a predicate, as the batch
dimension of a vectorized map. Lanes in which the predicate does not hold are dead: a select by the
predicate drops what was computed for them. `confined` tells whether everything that depends on
some values ends in such selects, lane by lane, so that the dead lanes may hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from math import prod
from typing import Any, NamedTuple

from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.fusion_rules import ELEMENTWISE

Dims = tuple[int, ...]
NOWHERE: Mapping[Instruction, Mapping[int, Dims]] = {}


class Lanes(NamedTuple):
    """The lanes that are alive: those in which `predicate` is `value`."""

    predicate: Instruction
    value: bool = True


def mask_of(select: Instruction) -> tuple[Instruction, Dims]:
    """(predicate, the result's dimensions that are its own) of a select."""
    mask = select.operands[0]
    if mask.opcode is Opcode.BROADCAST:
        return mask.operands[0], _attributes(mask).dimensions
    return mask, tuple(range(mask.shape.rank))


def confined(
    starts: Iterable[tuple[Instruction, Dims]],
    lanes: Lanes | None = None,
    exits: dict[int, Dims] | None = None,
    entries: Mapping[Instruction, Mapping[int, Dims]] = NOWHERE,
    never: Container[Instruction] = (),
) -> bool:
    """Whether no value outside the dead lanes changes when the dead lanes of `starts` do.

    Args:
      starts: (value, its dimensions that are the predicate's).
      lanes: which are dead; None: selects are like any other operation.
      exits: filled with the elements of the root's tuple in which dead lanes change, and where
        those lie. None: there may be none.
      entries: tuples, of one user each, in which dead lanes of these elements may change.
      never: what must not depend on `starts` at all, as the predicate must not.
    """
    tainted: dict[Instruction, Dims] = {}
    stack = list(starts)
    while stack:
        node, dims = stack.pop()
        if node in tainted:
            if tainted[node] != dims:
                return False
            continue
        tainted[node] = dims
        if node.is_root or node in never or (lanes is not None and node is lanes.predicate):
            return False
        for user in node.users:
            if user.opcode is Opcode.TUPLE:
                places = entries.get(user)
                if places is not None and (len(user.users) != 1 or user.is_root):
                    # Somebody else takes the same tuple, and sees the dead lanes.
                    return False
                if places is None:
                    if exits is None or not user.is_root:
                        return False
                    places = exits
                    for number, operand in enumerate(user.operands):
                        if operand is node:
                            exits.setdefault(number, dims)
                if any(o is node and places.get(i) != dims for i, o in enumerate(user.operands)):
                    return False
                continue
            if lanes is not None and _drops(user, node, dims, lanes):
                continue
            for number, operand in enumerate(user.operands):
                if operand is node:
                    after = _through(user, number, dims)
                    if after is None:
                        return False
                    stack.append((user, after))
    return True


def _drops(select: Instruction, node: Instruction, dims: Dims, lanes: Lanes) -> bool:
    """Whether the select takes nothing from the dead lanes of an operand."""
    if select.opcode is not Opcode.SELECT:
        return False
    taken = select.operands[1 if lanes.value else 2]
    if taken is not node or sum(o is node for o in select.operands) != 1:
        return False
    return mask_of(select) == (lanes.predicate, dims)


def _through(user: Instruction, number: int, dims: Dims) -> Dims | None:
    """The dimensions of `user` that hold the lanes of its operand; None where lanes may mix."""
    if user.opcode in ELEMENTWISE:
        same = user.operands[number].shape.dimensions == user.shape.dimensions
        return dims if same or not dims else None
    rule = _RULES.get(user.opcode)
    return None if rule is None or not user.shape.is_array else rule(user, number, dims)


def _attributes(node: Instruction) -> Any:
    return node.attributes


def _broadcast(user: Instruction, number: int, dims: Dims) -> Dims | None:
    return tuple(_attributes(user).dimensions[d] for d in dims)


def _reshape(user: Instruction, number: int, dims: Dims) -> Dims | None:
    source, target = user.operands[0].shape.dimensions, user.shape.dimensions
    result: list[int] = []
    for d in dims:
        before = prod(source[:d])
        for e, size in enumerate(target):
            if size == source[d] and prod(target[:e]) == before and e not in result:
                result.append(e)
                break
        else:
            return None
    return tuple(result)


def _transpose(user: Instruction, number: int, dims: Dims) -> Dims | None:
    return tuple(_attributes(user).dimensions.index(d) for d in dims)


def _reverse(user: Instruction, number: int, dims: Dims) -> Dims | None:
    return None if set(dims) & set(_attributes(user).dimensions) else dims


def _whole(user: Instruction, number: int, dims: Dims) -> Dims | None:
    """Slices and concatenations: the lanes' dimensions keep their size."""
    source = user.operands[number].shape.dimensions
    return dims if all(source[d] == user.shape.dimensions[d] for d in dims) else None


def _pad(user: Instruction, number: int, dims: Dims) -> Dims | None:
    if number:
        return None if dims else ()
    a = _attributes(user)
    return dims if not any(a.low[d] or a.high[d] or a.interior[d] for d in dims) else None


def _reduce(user: Instruction, number: int, dims: Dims) -> Dims | None:
    reduced = set(_attributes(user).dimensions)
    if number or reduced & set(dims):
        return () if not dims else None
    return tuple(d - sum(r < d for r in reduced) for d in dims)


def _dynamic_slice(user: Instruction, number: int, dims: Dims) -> Dims | None:
    return _whole(user, 0, dims) if number == 0 else () if not dims else None


def _dynamic_update_slice(user: Instruction, number: int, dims: Dims) -> Dims | None:
    if number > 1:
        return () if not dims else None
    return _whole(user, 1, dims)


def _gather(user: Instruction, number: int, dims: Dims) -> Dims | None:
    a = _attributes(user)
    x, indices = user.operands
    batch = [d for d in range(user.shape.rank) if d not in a.offset_dims]
    rows = [d for d in range(indices.shape.rank) if d != a.index_vector_dim]
    if number == 1:
        return tuple(batch[rows.index(d)] for d in dims) if a.index_vector_dim not in dims else None
    dropped = set(a.collapsed_slice_dims) | set(a.operand_batching_dims)
    windows = [d for d in range(x.shape.rank) if d not in dropped]
    result: list[int] = []
    for d in dims:
        if d in a.operand_batching_dims:
            row = a.start_indices_batching_dims[a.operand_batching_dims.index(d)]
            result.append(batch[rows.index(row)])
        elif d in windows and a.slice_sizes[d] == x.shape.dimensions[d]:
            result.append(a.offset_dims[windows.index(d)])
        else:
            return None
    return tuple(result)


def scatter_lanes(node: Instruction, dims: Dims) -> tuple[Dims, Dims] | None:
    """(dimensions of the indices, of the updates) that are the operand's dimensions `dims`; None
    where one of those is not a batch dimension of the scatter."""
    a = _attributes(node)
    if not set(dims) <= set(a.input_batching_dims):
        return None
    rows = [d for d in range(node.operands[1].shape.rank) if d != a.index_vector_dim]
    batch = [d for d in range(node.operands[2].shape.rank) if d not in a.update_window_dims]
    in_indices = tuple(
        a.scatter_indices_batching_dims[a.input_batching_dims.index(d)] for d in dims
    )
    return in_indices, tuple(batch[rows.index(d)] for d in in_indices)


def _scatter(user: Instruction, number: int, dims: Dims) -> Dims | None:
    if len(user.operands) != 3:
        return None
    if number == 0:
        return dims if scatter_lanes(user, dims) is not None else None
    # Lanes of indices and updates, as those of the operand: found by trying its batch dimensions.
    a = _attributes(user)
    for d in _ordered_choices(a.input_batching_dims, len(dims)):
        found = scatter_lanes(user, d)
        if found is not None and found[number - 1] == dims:
            return d
    return None


def _ordered_choices(dims: Dims, count: int) -> list[Dims]:
    if count == 0:
        return [()]
    return [(*rest, d) for rest in _ordered_choices(dims, count - 1) for d in dims if d not in rest]


def _dot(user: Instruction, number: int, dims: Dims) -> Dims | None:
    a = _attributes(user)
    batch = a.lhs_batch if number == 0 else a.rhs_batch
    return tuple(batch.index(d) for d in dims) if set(dims) <= set(batch) else None


_RULES: dict[Opcode, Callable[[Instruction, int, Dims], Dims | None]] = {
    Opcode.BROADCAST: _broadcast,
    Opcode.RESHAPE: _reshape,
    Opcode.TRANSPOSE: _transpose,
    Opcode.REVERSE: _reverse,
    Opcode.SLICE: _whole,
    Opcode.CONCATENATE: _whole,
    Opcode.PAD: _pad,
    Opcode.REDUCE: _reduce,
    Opcode.DYNAMIC_SLICE: _dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
    Opcode.GATHER: _gather,
    Opcode.SCATTER: _scatter,
    Opcode.DOT: _dot,
}
