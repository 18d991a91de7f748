"""What `numpy_rows --all` compares beside the rows of `numpy_comparisons`: orders of every dtype
and of numbers that are in order or not, functions along each axis and set of axes, transposes by
every permutation. A row is there for every dtype that NumPy has the function for."""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.numpy_comparisons import Call, Comparison, moved
from benchmarks.numpy_inputs import (
    and_mask,
    and_order,
    and_rows,
    anything,
    counted,
    few,
    in_order,
    of_rank,
    reversed,
    table_and_places,
    two,
    with_nans,
)

_INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_COMPLEX = ("complex64", "complex128")
_ORDERED = (*_INTEGERS, *_FLOATS, "bool")
_ALL = (*_ORDERED, *_COMPLEX)
# Elements of 1 to 16 bytes.
_MOVED = ("uint8", "int16", "float32", "float64", "complex128")
_INPUTS = (
    ("", anything, _ALL),
    (", 1000 values", few, _ALL),
    (", in order", in_order, _ALL),
    (", reversed", reversed, _ALL),
    (", with NaNs", with_nans, (*_FLOATS, *_COMPLEX)),
)


def _along(name: str, axis: int | tuple[int, ...] | None) -> Call:
    return lambda xp, x: getattr(xp, name)(x, axis=axis)


def _order_rows() -> list[Comparison]:
    found = []
    for name in ("sort", "argsort"):
        for suffix, make, dtypes in _INPUTS:
            found.append(Comparison(f"{name}{suffix}", _along(name, -1), make, dtypes))
        for rank in (2, 3):
            for axis in range(rank):
                title = f"{name}, axis {axis} of {rank}"
                found.append(Comparison(title, _along(name, axis), of_rank(rank), _ALL))
    return [
        *found,
        Comparison("lexsort", lambda xp, x, y: xp.lexsort((x, y)), two, _ALL),
        Comparison("lexsort of 3", lambda xp, x, y: xp.lexsort((x, y, x)), two, _ALL),
        Comparison("unique", lambda xp, x: xp.unique(x), anything, _ALL),
        Comparison("unique, 1000 values", lambda xp, x: xp.unique(x), few, _ALL),
        *(
            Comparison(f"unique{suffix}, {option}", _unique(option), make, _ALL)
            for suffix, make, _ in _INPUTS[:2]
            for option in ("inverse", "counts", "index")
        ),
    ]


def _unique(option: str) -> Call:
    return lambda xp, x: xp.unique(x, **{f"return_{option}": True})


_ALONG_AN_AXIS = {"cumsum": _ALL, "cumprod": _ALL, "argmax": _ORDERED, "argmin": _ORDERED}
_OVER_AXES = {"sum": _ALL, "mean": _ALL, "max": _ORDERED, "min": _ORDERED}


def _axis_rows() -> list[Comparison]:
    """Functions along one axis, and along each set of axes."""
    places = [
        (_ALONG_AN_AXIS, axis, f"axis {axis} of {rank}", rank)
        for rank in (1, 2, 3)
        for axis in range(rank)
    ] + [
        (_OVER_AXES, axes, f"axes {','.join(map(str, axes))} of {rank}", rank)
        for rank in (2, 3, 4)
        for count in range(1, rank + 1)
        for axes in itertools.combinations(range(rank), count)
    ]
    return [
        Comparison(f"{name}, {title}", _along(name, axis), of_rank(rank), dtypes)
        for functions, axis, title, rank in places
        for name, dtypes in functions.items()
    ]


def _transposes() -> list[Comparison]:
    return [
        Comparison(
            f"transpose ({','.join(map(str, order))})", _permuted(order), of_rank(rank), _MOVED
        )
        for rank in (2, 3, 4, 5)
        for order in itertools.permutations(range(rank))
        if order != tuple(range(rank))
    ]


def _permuted(order: tuple[int, ...]) -> Call:
    return lambda xp, x: moved(xp, x, order)


def _take(axis: int) -> Call:
    return lambda xp, x, i: xp.take(x, i, axis=axis)


def _take_along(axis: int) -> Call:
    return lambda xp, x, i: xp.take_along_axis(x, i, axis)


def _masked(xp: Any, x: Any, mask: Any) -> Any:
    return x[mask]


def _place_rows() -> list[Comparison]:
    return [
        Comparison("take", lambda xp, x, i: xp.take(x, i), table_and_places, _ALL),
        Comparison("x[mask]", _masked, and_mask, _ALL),
        Comparison("compress", lambda xp, x, m: xp.compress(m, x), and_mask, _ALL),
        Comparison("where", lambda xp, x, m: xp.where(m, x, 0), and_mask, _ALL),
        Comparison("nonzero of mask", lambda xp, x, m: xp.nonzero(m), and_mask, ("float32",)),
        Comparison("bincount", lambda xp, x: xp.bincount(x), few, ("int16", "int32", "int64")),
        Comparison("bincount, weights", lambda xp, x, w: xp.bincount(x, w), counted, _FLOATS),
        *(
            Comparison(f"{name}, axis {axis}", call(axis), make(axis), _ALL)
            for name, call, make in (
                ("take rows", _take, and_rows),
                ("take_along_axis", _take_along, and_order),
            )
            for axis in (0, 1)
        ),
    ]


EVERY = (*_order_rows(), *_axis_rows(), *_place_rows(), *_transposes())
