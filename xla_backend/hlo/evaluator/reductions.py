"""reduce, reduce-window, select-and-scatter and scan in NumPy.

The usual reducers (add, multiply, max, min, and, or, xor) have a direct NumPy form; floats then
accumulate in f64 (c128) and are rounded once. Any other reducer is folded in index order, whole
arrays at a time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    ScanAttributes,
    WindowAttributes,
    WindowDimension,
)
from xla_backend.hlo.evaluator.contractions import window_view
from xla_backend.hlo.evaluator.conversions import convert_array, type_of
from xla_backend.hlo.evaluator.elementwise import ELEMENTWISE
from xla_backend.hlo.evaluator.scalar_computations import (
    ScalarRunner,
    Values,
    apply_scalar,
    identity_value,
    simple_binary,
)
from xla_backend.hlo.evaluator.shape_ops import pad_array
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.opcode import Opcode

_UFUNCS = {
    Opcode.ADD: np.add,
    Opcode.MULTIPLY: np.multiply,
    Opcode.MAXIMUM: np.maximum,
    Opcode.MINIMUM: np.minimum,
    Opcode.AND: np.bitwise_and,
    Opcode.OR: np.bitwise_or,
    Opcode.XOR: np.bitwise_xor,
}
_BLOCK = (
    4096  # longest fold of a general reducer before it is split in blocks (needs associativity)
)


def _one_or_tuple(values: Sequence[np.ndarray]) -> np.ndarray | Values:
    return values[0] if len(values) == 1 else tuple(values)


def _direct(opcode: Opcode, x: np.ndarray, init: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Reduce with a ufunc, accumulating wide, and fold the initial value in once."""
    kind = type_of(x)
    ufunc = _UFUNCS[opcode]
    if kind.is_floating or kind.is_complex:
        # Sums keep their digits and never overflow halfway; maxima do not care.
        wide = np.complex128 if kind.is_complex else np.float64
        total = ufunc.reduce(x.astype(wide), axis=axes)
        return convert_array(np.asarray(ELEMENTWISE[opcode](None, total, init.astype(wide))), kind)
    if kind.bits < 8 and kind.is_integral:
        total = ufunc.reduce(x.astype(np.int64), axis=axes, dtype=np.int64)
        return convert_array(np.asarray(ufunc(total, init.astype(np.int64))), kind)
    if opcode in (Opcode.ADD, Opcode.MULTIPLY):
        if x.dtype.kind == "b":
            ufunc = np.logical_or if opcode is Opcode.ADD else np.logical_and
            return np.asarray(ufunc(ufunc.reduce(x, axis=axes), init))
        return np.asarray(ufunc(ufunc.reduce(x, axis=axes, dtype=x.dtype), init))
    if x.size == 0:
        return np.broadcast_to(init, [d for i, d in enumerate(x.shape) if i not in axes])
    return np.asarray(ufunc(ufunc.reduce(x, axis=axes), init))


def _can_go_direct(opcode: Opcode, x: np.ndarray, axes: Sequence[int]) -> bool:
    empty = math.prod(x.shape[i] for i in axes) == 0
    return not empty or opcode in (Opcode.ADD, Opcode.MULTIPLY)


def reduce(
    node: Instruction, values: Sequence[np.ndarray], run: ScalarRunner
) -> np.ndarray | Values:
    a = node.attributes
    assert isinstance(a, DimensionsAttributes)
    half = len(values) // 2
    operands, inits = values[:half], values[half:]
    computation = node.called[0]
    opcode = simple_binary(computation)
    if half == 1 and opcode is not None and _can_go_direct(opcode, operands[0], a.dimensions):
        return _direct(opcode, operands[0], inits[0], a.dimensions)
    kept = [i for i in range(operands[0].ndim) if i not in a.dimensions]
    kept_shape = tuple(operands[0].shape[i] for i in kept)
    count = math.prod(operands[0].shape[i] for i in a.dimensions)
    order = [*sorted(a.dimensions), *kept]
    rows = [x.transpose(order).reshape((count, *kept_shape)) for x in operands]
    state = [np.broadcast_to(init, kept_shape) for init in inits]
    return _one_or_tuple(_fold(computation, state, rows, run))


def combine(computation: Computation, values: list[np.ndarray], run: ScalarRunner) -> np.ndarray:
    """Arrays of one shape combined element by element with a binary computation, in order."""
    opcode = simple_binary(computation)
    kind = type_of(values[0])
    if opcode in (Opcode.ADD, Opcode.MULTIPLY) and (kind.is_floating or kind.is_complex):
        wide = np.complex128 if kind.is_complex else np.float64
        total = _UFUNCS[opcode].reduce(np.stack(values).astype(wide), axis=0)
        return convert_array(np.asarray(total), kind)
    state = values[0]
    for value in values[1:]:
        (state,) = apply_scalar(computation, [state, value], run)
    return np.broadcast_to(state, values[0].shape)


def _fold(
    computation: Computation, state: list[np.ndarray], rows: list[np.ndarray], run: ScalarRunner
) -> list[np.ndarray]:
    """state = f(state, row) over the first dimension of `rows`."""
    count = rows[0].shape[0]
    if count > _BLOCK:
        blocks = math.isqrt(count)
        length = count // blocks
        body = [r[: blocks * length].reshape((blocks, length, *r.shape[1:])) for r in rows]
        partial = _fold(
            computation,
            [b[:, 0] for b in body],
            [np.moveaxis(b[:, 1:], 1, 0) for b in body],
            run,
        )
        state = _fold(computation, state, partial, run)
        rows = [r[blocks * length :] for r in rows]
        count -= blocks * length
    for i in range(count):
        state = list(apply_scalar(computation, [*state, *[r[i] for r in rows]], run))
    return [np.broadcast_to(s, rows[0].shape[1:]) for s in state]


# -- windows ---------------------------------------------------------------------------------------


def _padding(window: Sequence[WindowDimension]) -> tuple[tuple[int, ...], ...]:
    return (
        tuple(w.padding_low for w in window),
        tuple(w.padding_high for w in window),
        tuple(w.base_dilation - 1 for w in window),
    )


def _is_prefix(window: Sequence[WindowDimension], shape: Sequence[int]) -> tuple[int, bool] | None:
    """(axis, reversed) if the window makes a running reduction along one axis."""
    axes = [i for i, w in enumerate(window) if w != WindowDimension(1)]
    if len(axes) != 1:
        return None
    n, w = shape[axes[0]], window[axes[0]]
    if w == WindowDimension(n, padding_low=n - 1):
        return axes[0], False
    if w == WindowDimension(n, padding_high=n - 1):
        return axes[0], True
    return None


def _direct_window(
    opcode: Opcode, x: np.ndarray, init: np.ndarray, window: Sequence[WindowDimension]
) -> np.ndarray:
    kind = type_of(x)
    wide = x
    if kind.is_floating:
        wide = x.astype(np.float64)
    elif kind.is_complex:
        wide = x.astype(np.complex128)
    elif kind.bits < 8 and kind.is_integral:
        wide = x.astype(np.int8)
    ufunc = _UFUNCS[opcode]
    neutral = identity_value(opcode, type_of(wide))
    prefix = _is_prefix(window, x.shape)
    if prefix is not None and x.size:
        axis, backwards = prefix
        line = np.flip(wide, axis) if backwards else wide
        total = ufunc.accumulate(line, axis=axis, dtype=wide.dtype)
        total = np.flip(total, axis) if backwards else total
    else:
        padded = np.ascontiguousarray(pad_array(wide, neutral, *_padding(window)))
        axes = tuple(range(x.ndim, 2 * x.ndim))
        view = window_view(padded, window, 0)
        if opcode in (Opcode.ADD, Opcode.MULTIPLY):
            total = ufunc.reduce(view, axis=axes, dtype=wide.dtype)
        else:
            total = ufunc.reduce(view, axis=axes, initial=neutral)
    total = ELEMENTWISE[opcode](None, np.asarray(total), init.astype(wide.dtype))
    return convert_array(np.asarray(total), kind)


def _valid_mask(shape: Sequence[int], window: Sequence[WindowDimension]) -> np.ndarray:
    """Which elements of the padded operand are real: padding and dilation holes are never
    reduced."""
    return pad_array(np.ones(shape, bool), np.asarray(False), *_padding(window))


def reduce_window(
    node: Instruction, values: Sequence[np.ndarray], run: ScalarRunner
) -> np.ndarray | Values:
    a = node.attributes
    assert isinstance(a, WindowAttributes)
    half = len(values) // 2
    operands, inits = values[:half], values[half:]
    computation = node.called[0]
    opcode = simple_binary(computation)
    if half == 1 and opcode is not None and not any(w.reversal for w in a.window):
        return _direct_window(opcode, operands[0], inits[0], a.window)
    out_shape = node.shape.flatten()[0].dimensions
    mask = window_view(_valid_mask(operands[0].shape, a.window), a.window, 0)
    views = [
        window_view(np.ascontiguousarray(pad_array(x, i, *_padding(a.window))), a.window, 0)
        for x, i in zip(operands, inits)
    ]
    state = [np.broadcast_to(init, out_shape) for init in inits]
    for offset in _window_offsets(a.window):
        new = apply_scalar(computation, [*state, *[_at(v, offset) for v in views]], run)
        inside = _at(mask, offset)
        state = [np.where(inside, n, s) for n, s in zip(new, state)]
    return _one_or_tuple(state)


def _at(view: np.ndarray, offset: tuple[int, ...]) -> np.ndarray:
    """One offset within every window."""
    index: Any = (..., *offset)
    return view[index]


def _window_offsets(window: Sequence[WindowDimension]) -> list[tuple[int, ...]]:
    sizes = [w.size for w in window]
    offsets = list(np.ndindex(*sizes))
    reversed_dims = [i for i, w in enumerate(window) if w.reversal]
    if not reversed_dims:
        return offsets
    return [
        tuple(sizes[i] - 1 - o if i in reversed_dims else o for i, o in enumerate(offset))
        for offset in offsets
    ]


def select_and_scatter(
    node: Instruction, operand: np.ndarray, source: np.ndarray, init: np.ndarray, run: ScalarRunner
) -> np.ndarray:
    """Each window selects one element; the matching source element is scattered to its position."""
    a = node.attributes
    assert isinstance(a, WindowAttributes)
    select, scatter = node.called
    padding = _padding(a.window)
    mask = window_view(_valid_mask(operand.shape, a.window), a.window, 0)
    numbers = np.arange(operand.size).reshape(operand.shape)
    zero = np.zeros((), operand.dtype)
    view = window_view(np.ascontiguousarray(pad_array(operand, zero, *padding)), a.window, 0)
    number_view = window_view(
        np.ascontiguousarray(pad_array(numbers, np.asarray(-1), *padding)), a.window, 0
    )
    best = np.broadcast_to(zero, source.shape)
    best_number = np.full(source.shape, -1)
    for offset in _window_offsets(a.window):
        candidate = _at(view, offset)
        (keep,) = apply_scalar(select, [best, candidate], run)
        take = _at(mask, offset) & ((best_number < 0) | ~np.asarray(keep))
        best = np.where(take, candidate, best)
        best_number = np.where(take, _at(number_view, offset), best_number)
    flat = np.full(operand.size, init, operand.dtype)
    targets, updates = best_number.reshape(-1), source.reshape(-1)
    chosen = targets >= 0
    accumulate([flat], targets[chosen], [updates[chosen]], scatter, run)
    return flat.reshape(operand.shape)


def accumulate(
    flats: list[np.ndarray],
    targets: np.ndarray,
    updates: Sequence[np.ndarray],
    computation: Computation,
    run: ScalarRunner,
) -> None:
    """flat[target] = f(flat[target], update) in order, in place. Repeated targets are applied in
    rounds."""
    if targets.size == 0:
        return
    opcode = simple_binary(computation) if len(flats) == 1 else None
    if opcode is not None and flats[0].dtype.char in "bhilqBHILQfdFD":
        if opcode in (Opcode.ADD, Opcode.MULTIPLY) or flats[0].dtype.kind in "iu":
            _UFUNCS[opcode].at(flats[0], targets, updates[0])
            return
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    group = np.repeat(np.arange(starts.size), np.diff(np.append(starts, ordered.size)))
    occurrence = np.arange(ordered.size) - starts[group]
    by_round = np.argsort(occurrence, kind="stable")
    ends = np.cumsum(np.bincount(occurrence))
    begin = 0
    for end in ends:
        chosen = order[by_round[begin:end]]
        begin = end
        where = targets[chosen]
        new = apply_scalar(
            computation, [*[f[where] for f in flats], *[u[chosen] for u in updates]], run
        )
        for flat, value in zip(flats, new):
            flat[where] = value


def scan(node: Instruction, values: Sequence[np.ndarray], run: ScalarRunner) -> Values:
    """Inputs, then carries. One call of the body per position along the dimension."""
    a = node.attributes
    assert isinstance(a, ScanAttributes)
    count = len(values) - a.num_carries
    inputs, carries = values[:count], list(values[count:])
    length = inputs[0].shape[a.dimension]
    positions = range(length - 1, -1, -1) if a.is_reverse else range(length)
    leaves = node.shape.flatten()
    outputs = [
        np.empty(s.dimensions, s.element_type.numpy_dtype)
        for s in leaves[: len(leaves) - a.num_carries]
    ]
    for i in positions:
        slices = [np.take(x, i, axis=a.dimension) for x in inputs]
        result = run(node.called[0], [*slices, *carries])
        parts: list[Any] = list(result) if isinstance(result, tuple) else [result]
        for output, part in zip(outputs, parts):
            output[(slice(None),) * a.dimension + (i,)] = part
        carries = parts[len(outputs) :]
    return _one_or_tuple([*outputs, *carries])  # type: ignore[return-value]
