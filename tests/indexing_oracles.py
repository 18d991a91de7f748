"""Gather, scatter, windows and convolutions in plain NumPy: oracles of the operator tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np


def _starts(indices, index_map, batching, index_batching, rank):
    """For each position of the indices' batch: (position, start in the operand)."""
    for position in np.ndindex(indices.shape[:-1]):
        start = [0] * rank
        for k, d in enumerate(index_map):
            start[d] = int(indices[position][k])
        for d, b in zip(batching, index_batching):
            start[d] = position[b]
        yield position, start


def _limits(shape, sizes):
    return [n - s for n, s in zip(shape, sizes)]


def gather(x, indices, numbers, sizes, mode="clip", fill=np.nan):
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    rank = indices.ndim - 1 + len(numbers.offset_dims)
    batch_dims = [d for d in range(rank) if d not in numbers.offset_dims]
    inner = [s for d, s in enumerate(sizes) if d not in dropped]
    out = np.zeros([*indices.shape[:-1], *inner], x.dtype)
    limits = _limits(x.shape, sizes)
    for position, start in _starts(
        indices,
        numbers.start_index_map,
        numbers.operand_batching_dims,
        numbers.start_indices_batching_dims,
        x.ndim,
    ):
        clipped = [min(max(s, 0), limit) for s, limit in zip(start, limits)]
        if mode == "fill" and clipped != start:
            out[position] = fill
            continue
        piece = x[tuple(slice(s, s + n) for s, n in zip(clipped, sizes))]
        out[position] = piece.reshape(inner)
    order = [0] * rank
    for i, d in enumerate([*batch_dims, *numbers.offset_dims]):
        order[d] = i
    return out.transpose(order)


def scatter(x, indices, updates, numbers, combine: Callable, mode="fill"):
    """Updates in the order of the indices."""
    out = np.array(x)
    absent = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window = iter([updates.shape[d] for d in numbers.update_window_dims])
    sizes = [1 if d in absent else next(window) for d in range(x.ndim)]
    batch_dims = [d for d in range(updates.ndim) if d not in numbers.update_window_dims]
    moved = updates.transpose([*batch_dims, *numbers.update_window_dims])
    limits = _limits(x.shape, sizes)
    for position, start in _starts(
        indices,
        numbers.scatter_dims_to_operand_dims,
        numbers.operand_batching_dims,
        numbers.scatter_indices_batching_dims,
        x.ndim,
    ):
        if mode == "clip":
            start = [min(max(s, 0), limit) for s, limit in zip(start, limits)]
        elif any(not 0 <= s <= limit for s, limit in zip(start, limits)):
            continue
        where = tuple(slice(s, s + n) for s, n in zip(start, sizes))
        out[where] = combine(out[where], moved[position].reshape(sizes))
    return out


def _dilated(x, dilations, value):
    shape = [(n - 1) * d + 1 if n else 0 for n, d in zip(x.shape, dilations)]
    out = np.full(shape, value, x.dtype)
    out[tuple(slice(None, None, d) for d in dilations)] = x
    return out


def _padded(x, pads, value):
    """Padding, where negative amounts cut."""
    cut = tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(x.shape, pads))
    grown = [(max(low, 0), max(high, 0)) for low, high in pads]
    return np.pad(x[cut], grown, constant_values=value)


def reduce_window(
    x,
    init,
    combine: Callable,
    window: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    base: Sequence[int] | None = None,
    dilation: Sequence[int] | None = None,
):
    ones = (1,) * x.ndim
    base, dilation = base or ones, dilation or ones
    y = _padded(_dilated(x, base, init), pads, init)
    reach = [(w - 1) * d + 1 for w, d in zip(window, dilation)]
    counts = [(n - r) // s + 1 for n, r, s in zip(y.shape, reach, strides)]
    out = np.full(counts, init, x.dtype)
    for offset in itertools.product(*map(range, window)):
        view = y[
            tuple(
                slice(o * d, o * d + (c - 1) * s + 1, s)
                for o, d, c, s in zip(offset, dilation, counts, strides)
            )
        ]
        out = combine(out, view)
    return out


def conv(lhs, rhs, strides, pads, lhs_dilation=None, rhs_dilation=None, groups=1, batch_groups=1):
    """lhs [N, C, spatial...], rhs [O, I, spatial...]."""
    rank = lhs.ndim - 2
    ones = (1,) * rank
    lhs_dilation, rhs_dilation = lhs_dilation or ones, rhs_dilation or ones
    x = _padded(_dilated(lhs, (1, 1, *lhs_dilation), 0), [(0, 0), (0, 0), *pads], 0)
    reach = [(k - 1) * d + 1 for k, d in zip(rhs.shape[2:], rhs_dilation)]
    counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[2:], reach, strides)]
    n, outs = lhs.shape[0] // batch_groups, rhs.shape[0]
    total = np.zeros((n, outs, *counts), np.result_type(lhs, rhs))
    per_group = outs // max(groups, batch_groups)
    for o in range(outs):
        g = o // per_group
        rows = slice(g * n, (g + 1) * n) if batch_groups > 1 else slice(None)
        first = g * rhs.shape[1] if groups > 1 else 0
        for i in range(rhs.shape[1]):
            for offset in np.ndindex(*rhs.shape[2:]):
                view = x[
                    (
                        rows,
                        first + i,
                        *[
                            slice(t * d, t * d + (c - 1) * s + 1, s)
                            for t, d, c, s in zip(offset, rhs_dilation, counts, strides)
                        ],
                    )
                ]
                total[:, o] += view * rhs[(o, i, *offset)]
    return total
