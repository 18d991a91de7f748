"""Identities of broadcast, reshape, transpose, slice, pad, concatenate, reverse and dynamic
slices."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    SliceAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import RuleTablePass
from xla_backend.passes.emit import Emit
from xla_backend.passes.patterns import constant_starts, dims_of, drop_ones, scalar_of


def _broadcast(node: Instruction) -> Instruction | None:
    inner = node.operands[0]
    dims = dims_of(node)
    if inner.shape == node.shape and dims == tuple(range(len(dims))):
        return inner
    if inner.opcode is Opcode.BROADCAST:
        composed = tuple(dims[d] for d in dims_of(inner))
        return Emit(node).broadcast(inner.operands[0], node.shape.dimensions, composed)
    # Only sizes of 1 added: a free relabelling.
    same_count = inner.shape.num_elements == node.shape.num_elements
    if inner.shape.dimensions and same_count and list(dims) == sorted(dims):
        return Emit(node).reshape(inner, node.shape.dimensions)
    if inner.opcode is Opcode.RESHAPE and inner.operands[0].opcode is Opcode.BROADCAST:
        return _broadcast_of_reshape(node, inner.operands[0])
    return None


def _broadcast_of_reshape(node: Instruction, source: Instruction) -> Instruction | None:
    """A broadcast of a broadcast some of whose dimensions are merged between: the dimensions that
    come in are added first, so that one broadcast is left."""
    sizes = list(source.shape.dimensions)
    kept = dims_of(node)
    result: list[int] = []
    places: list[int] = []
    for d, size in enumerate(node.shape.dimensions):
        if d not in kept:
            result.append(size)
            continue
        part = 1
        while sizes and part * sizes[0] <= size:
            places.append(len(result))
            result.append(sizes[0])
            part *= sizes.pop(0)
        if part != size:
            return None
    if sizes or list(kept) != sorted(kept):
        return None
    b = Emit(node)
    return b.reshape(b.broadcast(source, result, places), node.shape.dimensions)


def _reshape(node: Instruction) -> Instruction | None:
    inner = node.operands[0]
    if inner.shape == node.shape:
        return inner
    if inner.opcode is Opcode.RESHAPE:
        return Emit(node).reshape(inner.operands[0], node.shape.dimensions)
    if inner.opcode is not Opcode.BROADCAST:
        return None
    if not inner.operands[0].shape.dimensions:
        return Emit(node).broadcast(inner.operands[0], node.shape.dimensions, ())
    return _reshape_of_broadcast(node, inner)


def _reshape_of_broadcast(node: Instruction, inner: Instruction) -> Instruction | None:
    """Adding or dropping dimensions of size 1 of a broadcast: broadcast to the new dimensions."""
    old, new = inner.shape.dimensions, node.shape.dimensions
    if drop_ones(old) != drop_ones(new):
        return None
    source = inner.operands[0]
    if 1 in source.shape.dimensions:
        return None
    # The k-th dimension that is not 1 stays the k-th such dimension.
    position = [i for i, d in enumerate(new) if d != 1]
    rank_of = {i: k for k, i in enumerate(i for i, d in enumerate(old) if d != 1)}
    dims = tuple(position[rank_of[d]] for d in dims_of(inner))
    return Emit(node).broadcast(source, new, dims)


def _transpose(node: Instruction) -> Instruction | None:
    inner = node.operands[0]
    permutation = dims_of(node)
    if permutation == tuple(range(len(permutation))):
        return inner
    if inner.opcode is Opcode.TRANSPOSE:
        composed = tuple(dims_of(inner)[p] for p in permutation)
        return Emit(node).transpose(inner.operands[0], composed)
    if scalar_of(inner) is not None:
        scalar = scalar_of(inner)
        assert scalar is not None
        return Emit(node).broadcast(scalar, node.shape.dimensions, ())
    moved = [p for p in permutation if inner.shape.dimensions[p] != 1]
    if moved == sorted(moved):
        return Emit(node).reshape(inner, node.shape.dimensions)
    if inner.opcode is Opcode.BROADCAST:
        where = {p: i for i, p in enumerate(permutation)}
        dims = tuple(where[d] for d in dims_of(inner))
        if list(dims) == sorted(dims):
            return Emit(node).broadcast(inner.operands[0], node.shape.dimensions, dims)
    return None


def _slice(node: Instruction) -> Instruction | None:
    inner = node.operands[0]
    if inner.shape == node.shape:
        return inner
    a = node.attributes
    assert isinstance(a, SliceAttributes)
    b = Emit(node)
    scalar = scalar_of(inner)
    if scalar is not None:
        return b.broadcast(scalar, node.shape.dimensions, ())
    if inner.opcode is Opcode.SLICE:
        i = inner.attributes
        assert isinstance(i, SliceAttributes)
        starts = [s0 + s1 * t0 for s0, t0, s1 in zip(i.starts, i.strides, a.starts)]
        strides = [t0 * t1 for t0, t1 in zip(i.strides, a.strides)]
        limits = [
            s + (n - 1) * t + 1 if n else s
            for s, n, t in zip(starts, node.shape.dimensions, strides)
        ]
        return b.slice(inner.operands[0], starts, limits, strides)
    if inner.opcode is Opcode.CONCATENATE:
        return _slice_of_concatenate(node, inner, a)
    return None


def _slice_of_concatenate(
    node: Instruction, inner: Instruction, a: SliceAttributes
) -> Instruction | None:
    """A slice that lies within one operand reads that operand; one of whole operands, all of them,
    is a concatenation of those."""
    (d,) = dims_of(inner)
    offset = 0
    whole: list[Instruction] = []
    for part in inner.operands:
        size = part.shape.dimensions[d]
        if offset <= a.starts[d] and a.limits[d] <= offset + size:
            starts = tuple(s - offset if i == d else s for i, s in enumerate(a.starts))
            limits = tuple(s - offset if i == d else s for i, s in enumerate(a.limits))
            return Emit(node).slice(part, starts, limits, a.strides)
        if a.starts[d] <= offset and offset + size <= a.limits[d]:
            whole.append(part)
        offset += size
    sizes = list(inner.shape.dimensions)
    sizes[d] = sum(part.shape.dimensions[d] for part in whole)
    if set(a.strides) == {1} and tuple(sizes) == node.shape.dimensions:
        return Emit(node).concatenate(whole, d)
    if a.strides[d] > 1 and all(user.opcode is Opcode.SLICE for user in inner.users):
        return _strided_parts(node, inner, a, d)
    return None


def _strided_parts(
    node: Instruction, inner: Instruction, a: SliceAttributes, d: int
) -> Instruction:
    """Every n-th element of a concatenation is a concatenation of such elements of its operands:
    loops are cut where one ends, if that is a place of their own elements."""
    b = Emit(node)
    parts = []
    offset, start, stride = 0, a.starts[d], a.strides[d]
    for part in inner.operands:
        size = part.shape.dimensions[d]
        first = start + max(-((start - offset) // stride), 0) * stride - offset
        end = min(a.limits[d] - offset, size)
        if first < end:
            starts = [first if i == d else s for i, s in enumerate(a.starts)]
            limits = [end if i == d else s for i, s in enumerate(a.limits)]
            parts.append(b.slice(part, starts, limits, a.strides))
        offset += size
    return b.concatenate(parts, d)


def _pad(node: Instruction) -> Instruction | None:
    a = node.attributes
    assert isinstance(a, PadAttributes)
    x, value = node.operands
    if not any(a.low) and not any(a.high) and not any(a.interior):
        return x
    b = Emit(node)
    if x.shape.num_elements == 0:
        return b.broadcast(value, node.shape.dimensions, ())
    if not any(a.interior) and max(a.low) <= 0 and max(a.high) <= 0:
        starts = [-v for v in a.low]
        limits = [d + h for d, h in zip(x.shape.dimensions, a.high)]
        return b.slice(x, starts, limits)
    return None


def _concatenate(node: Instruction) -> Instruction | None:
    if len(node.operands) == 1:
        return node.operands[0]
    (d,) = dims_of(node)
    filled = [o for o in node.operands if o.shape.num_elements]
    b = Emit(node)
    if 0 < len(filled) < len(node.operands):
        return b.concatenate(filled, d) if len(filled) > 1 else filled[0]
    # Nested along the same dimension: one.
    if any(
        o.opcode is Opcode.CONCATENATE and dims_of(o) == (d,) and len(o.users) == 1 for o in filled
    ):
        parts: list[Instruction] = []
        for o in node.operands:
            nested = o.opcode is Opcode.CONCATENATE and dims_of(o) == (d,) and len(o.users) == 1
            parts.extend(o.operands if nested else [o])
        return b.concatenate(parts, d)
    joined = [_slices_of_one(run) for run in _neighbouring_slices(filled, d)]
    if len(joined) < len(filled):
        return b.concatenate(joined, d) if len(joined) > 1 else joined[0]
    return None


def _neighbouring_slices(parts: Sequence[Instruction], d: int) -> list[list[Instruction]]:
    """The operands of a concatenation in runs: slices of one array of which each begins, along `d`,
    where the one before it ends."""
    runs: list[list[Instruction]] = []
    for part in parts:
        if runs and _follows(runs[-1][-1], part, d):
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def _follows(one: Instruction, next: Instruction, d: int) -> bool:
    if not one.opcode is next.opcode is Opcode.SLICE or one.operands[0] is not next.operands[0]:
        return False
    a, b = one.attributes, next.attributes
    assert isinstance(a, SliceAttributes) and isinstance(b, SliceAttributes)
    if a.strides != b.strides or a.strides[d] != 1 or a.limits[d] != b.starts[d]:
        return False
    bounds = zip(a.starts, a.limits, b.starts, b.limits)
    return all(s == t and l == m for i, (s, l, t, m) in enumerate(bounds) if i != d)


def _slices_of_one(run: Sequence[Instruction]) -> Instruction:
    """Slices that follow each other as one."""
    if len(run) == 1:
        return run[0]
    first, last = run[0].attributes, run[-1].attributes
    assert isinstance(first, SliceAttributes) and isinstance(last, SliceAttributes)
    limits = [max(l, m) for l, m in zip(first.limits, last.limits)]
    return Emit(run[0]).slice(run[0].operands[0], first.starts, limits, first.strides)


def _reverse(node: Instruction) -> Instruction | None:
    inner = node.operands[0]
    dims = dims_of(node)
    moving = tuple(d for d in dims if node.shape.dimensions[d] != 1)
    if not moving or scalar_of(inner) is not None:
        return inner
    if inner.opcode is Opcode.REVERSE and sorted(dims_of(inner)) == sorted(dims):
        return inner.operands[0]
    if moving != dims:
        return Emit(node).add(
            Opcode.REVERSE, (inner,), DimensionsAttributes(moving), shape=node.shape
        )
    return None


def _dynamic_slice(node: Instruction) -> Instruction | None:
    x = node.operands[0]
    if x.shape == node.shape:
        return x
    scalar = scalar_of(x)
    if scalar is not None:
        return Emit(node).broadcast(scalar, node.shape.dimensions, ())
    starts = constant_starts(node.operands[1:])
    if starts is None:
        return None
    assert isinstance(node.attributes, DynamicSliceAttributes)
    sizes = node.attributes.sizes
    first = [min(max(s, 0), d - n) for s, d, n in zip(starts, x.shape.dimensions, sizes)]
    return Emit(node).slice(x, first, [s + n for s, n in zip(first, sizes)])


def _dynamic_update_slice(node: Instruction) -> Instruction | None:
    update = node.operands[1]
    if update.shape == node.shape:
        return update  # the start is clamped to 0
    if update.shape.num_elements == 0:
        return node.operands[0]
    return None


class AlgebraicShapeSimplifier(RuleTablePass):
    """reshape(reshape x) -> reshape x, slice of all of x -> x, transpose(transpose x) ->
    transpose x, ...

    Why: shape operations that cancel hide producers from fusion; a transpose that moves only
    dimensions of size 1 is a reshape, and reshapes are free.
    Needs: nothing.  Leaves: none of the patterns in the table below.
    """

    name = "algebraic-shape"
    rules = {
        Opcode.BROADCAST: (_broadcast,),
        Opcode.RESHAPE: (_reshape,),
        Opcode.TRANSPOSE: (_transpose,),
        Opcode.SLICE: (_slice,),
        Opcode.PAD: (_pad,),
        Opcode.CONCATENATE: (_concatenate,),
        Opcode.REVERSE: (_reverse,),
        Opcode.DYNAMIC_SLICE: (_dynamic_slice,),
        Opcode.DYNAMIC_UPDATE_SLICE: (_dynamic_update_slice,),
    }
