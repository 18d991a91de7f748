"""How arrays are cut into blocks along mesh axes, and put together again.

A block array has a leading dimension for each mesh axis that its spec names, in the order of the
mesh, and then the dimensions of a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyjax.core import structural
from pyjax.core.avals import abstractify
from pyjax.sharding.partition_spec import PartitionSpec

Sizes = Mapping[Any, int]


def axes_at(entry: Any) -> tuple[Any, ...]:
    """The mesh axes that one entry of a spec names."""
    return () if entry is None else entry if isinstance(entry, tuple) else (entry,)


def entry_of(names: Iterable[Any]) -> Any:
    """The entry of a spec that names these mesh axes."""
    names = tuple(names)
    return None if not names else names[0] if len(names) == 1 else names


def axes_of(spec: PartitionSpec) -> frozenset[Any]:
    """The mesh axes that a spec names."""
    return frozenset(name for entry in spec for name in axes_at(entry))


def in_mesh_order(sizes: Sizes, axes: frozenset[Any]) -> tuple[Any, ...]:
    return tuple(name for name in sizes if name in axes)


def parts(sizes: Sizes, entry: Any) -> int:
    """Into how many parts an entry of a spec cuts its dimension."""
    return math.prod(sizes[name] for name in axes_at(entry))


def block_shape(sizes: Sizes, spec: PartitionSpec, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a block of an array; the dimensions must be divisible."""
    entries = (*spec, *(None,) * (len(shape) - len(spec)))
    return tuple(size // parts(sizes, entry) for size, entry in zip(shape, entries))


def whole_shape(sizes: Sizes, spec: PartitionSpec, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of an array whose blocks have this one."""
    entries = (*spec, *(None,) * (len(shape) - len(spec)))
    return tuple(size * parts(sizes, entry) for size, entry in zip(shape, entries))


def summed_axes(sizes: Sizes, spec: PartitionSpec) -> tuple[Any, ...]:
    """The mesh axes along which an array that lies so is a sum that is still to be made."""
    return in_mesh_order(sizes, spec.unreduced)


def stored_spec(sizes: Sizes, spec: PartitionSpec) -> PartitionSpec:
    """How an array is cut as it is stored: the summands of a sum that is still to be made lie along
    leading dimensions, one for each axis."""
    return PartitionSpec(*summed_axes(sizes, spec), *spec.partitions)


def split(x: Any, sizes: Sizes, spec: PartitionSpec) -> Any:
    """An array as a block array."""
    shape = abstractify(x).shape
    cut: list[int] = []
    at: dict[Any, int] = {}  # the dimension of each mesh axis
    for size, entry in zip(shape, (*spec, *(None,) * (len(shape) - len(spec)))):
        for name in axes_at(entry):
            at[name] = len(cut)
            cut.append(sizes[name])
        cut.append(size // parts(sizes, entry))
    leading = [at[name] for name in in_mesh_order(sizes, axes_of(spec))]
    rest = [i for i in range(len(cut)) if i not in leading]
    return structural.transpose(structural.reshape(x, cut), [*leading, *rest])


def join(x: Any, sizes: Sizes, spec: PartitionSpec) -> Any:
    """A block array as an array."""
    named = in_mesh_order(sizes, axes_of(spec))
    shape = abstractify(x).shape
    block = shape[len(named) :]
    order: list[int] = []
    for i, entry in enumerate((*spec, *(None,) * (len(block) - len(spec)))):
        order += [named.index(name) for name in axes_at(entry)]
        order.append(len(named) + i)
    return structural.reshape(structural.transpose(x, order), whole_shape(sizes, spec, block))
