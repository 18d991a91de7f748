"""Batch axes: which one is being mapped, and where values have theirs; helpers for batching rules.

Layer: interpreters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from pyjax.core.avals import Split, abstractify
from pyjax.core.errors import new_error
from pyjax.core.primitive import Primitive
from pyjax.core.structural import broadcast_in_dim, moveaxis
from pyjax.interpreters.rules import PerPrimitive, elementwise_primitives

not_mapped = None
Dim = int | None
Batched = tuple[list[Any], list[Dim]]


class _Running(threading.local):
    # Whose batching rule is running: rules of primitives with jaxprs inside pass its axis on.
    trace: Any = None


running = _Running()


def running_axis() -> tuple[Any, tuple[Any, ...]]:
    """The axis whose batching rule runs: its name, and the mesh axes that cut it
    (`spmd_axis_name`)."""
    trace = running.trace
    return (None, ()) if trace is None else (trace.axis_name, trace.mesh_axes)


def running_split() -> Split | None:
    """How types say that values are split along the axis whose batching rule runs."""
    trace = running.trace
    return None if trace is None else trace.along


def match_bdim(
    x: Any, axis_size: int, have: Dim, want: Dim, index: int = 0, along: Split | None = None
) -> Any:
    """Move (or make) the batch axis where it is wanted; a new one is split as `along`."""
    if want is None:
        if have is not None:
            raise new_error(
                ValueError,
                f"vmap has mapped output {index} but out_axes is None: its value differs between "
                "the mapped elements. Give it an axis in out_axes.",
            )
        return x
    ndim = abstractify(x).ndim + (have is None)
    if not -ndim <= want < ndim:
        raise new_error(ValueError, f"axis {want} is out of bounds for array of dimension {ndim}")
    if have is None:
        return broadcast_bdim(x, axis_size, want, along)
    return moveaxis(x, have, want + ndim if want < 0 else want)


def move_bdim(x: Any, source: int, destination: int) -> Any:
    """Move the batch axis."""
    return moveaxis(x, source, destination)


def broadcast_bdim(x: Any, size: int, dim: int, along: Split | None = None) -> Any:
    """A new axis of `size` at `dim`, split as `along`, or as the axis whose batching rule runs."""
    aval = abstractify(x)
    shape = aval.shape
    ndim = len(shape) + 1
    if dim < 0:
        dim += ndim
    out_shape = (*shape[:dim], size, *shape[dim:])
    kept = tuple(i for i in range(ndim) if i != dim)
    along = along or running_split()
    sharding = None if along is None else aval.with_dim(dim, size, along).sharding
    return broadcast_in_dim(x, out_shape, kept, sharding)


def bdim_at_front(x: Any, bdim: Dim, size: int) -> Any:
    """`x` batched at axis 0, broadcast if it is not batched."""
    return broadcast_bdim(x, size, 0) if bdim is None else moveaxis(x, bdim, 0)


def same_on_batches(primitive: Primitive) -> Callable[..., Batched]:
    """The rule of a primitive that does to batches of operands of one shape what it does to
    them."""

    def rule(
        axis_size: int, args: Sequence[Any], dims: Sequence[Dim], **params: Any
    ) -> tuple[list[Any], list[Dim]]:
        first = next(d for d in dims if d is not None)
        if not all(d == first for d in dims):
            first = 0
            args = [bdim_at_front(x, d, axis_size) for x, d in zip(args, dims)]
        outs = primitive.bind_all(*args, **params)
        return outs, [first] * len(outs)

    return rule


def _elementwise_rule(primitive: Primitive) -> Callable[..., Batched]:
    elementwise_primitives.add(primitive)
    return same_on_batches(primitive)


# Elementwise primitives of any arity: `batching=elementwise_batching` in define_primitive.
elementwise_batching = PerPrimitive(_elementwise_rule)
