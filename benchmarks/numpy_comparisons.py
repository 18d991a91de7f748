"""The functions that `numpy_rows` compares with NumPy's when nothing else is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.numpy_inputs import (
    Make,
    and_some,
    anything,
    below_100,
    counted,
    cube,
    few,
    image,
    in_order,
    planes,
    positive,
    powers,
    reversed,
    square,
    table_and_places,
    table_and_values,
    two,
    with_weights,
)

Call = Callable[..., Any]
FLOATS = ("float32", "float64")
NUMBERS = (*FLOATS, "int32", "int64")
NARROW = ("float16", "uint8")
COMPLEX = ("complex64", "complex128")
ORDERED = (*NUMBERS, *NARROW, "bool")
ANY = (*ORDERED, *COMPLEX)
MATH = (*FLOATS, "float16", *COMPLEX)
MOVED = ("uint8", "int16", "float32", "float64", "complex128")


@dataclass(frozen=True)
class Comparison:
    """A call that is timed in both.

    Attributes:
      name: what is measured.
      call: takes the namespace and the arrays of `make`.
      make: takes a generator, the number of elements and a dtype, and returns arrays.
      dtypes: one row for each.
    """

    name: str
    call: Call
    make: Make
    dtypes: tuple[str, ...] = NUMBERS


def moved(xp: Any, x: Any, permutation: tuple[int, ...]) -> Any:
    return as_rows(xp, xp.transpose(x, permutation))


def as_rows(xp: Any, view: Any) -> Any:
    """What is a view in NumPy, as an array of its own."""
    return view.copy() if xp is np else view


_SORTING = (
    Comparison("sort", lambda xp, x: xp.sort(x), anything, ANY),
    Comparison("sort, 1000 values", lambda xp, x: xp.sort(x), few),
    Comparison("sort, in order", lambda xp, x: xp.sort(x), in_order),
    Comparison("sort, reversed", lambda xp, x: xp.sort(x), reversed),
    Comparison("sort, axis 0", lambda xp, x: xp.sort(x, axis=0), square, ORDERED),
    Comparison("sort, axis 1 of 2", lambda xp, x: xp.sort(x, axis=1), square, ORDERED),
    Comparison("sort, axis 1 of 3", lambda xp, x: xp.sort(x, axis=1), cube),
    Comparison("argsort", lambda xp, x: xp.argsort(x), anything, ANY),
    Comparison("argsort, axis 0", lambda xp, x: xp.argsort(x, axis=0), square),
    Comparison("lexsort", lambda xp, x, y: xp.lexsort((x, y)), two),
    Comparison("partition", lambda xp, x: xp.partition(x, x.shape[0] // 2), anything, ORDERED),
    Comparison("argpartition", lambda xp, x: xp.argpartition(x, x.shape[0] // 2), anything),
    Comparison("median", lambda xp, x: xp.median(x), anything, FLOATS),
    Comparison("percentile", lambda xp, x: xp.percentile(x, 90), anything, FLOATS),
    Comparison("median, axis 0", lambda xp, x: xp.median(x, axis=0), square, FLOATS),
    Comparison("unique", lambda xp, x: xp.unique(x), anything, ANY),
    Comparison("unique, 100 values", lambda xp, x: xp.unique(x), below_100, NARROW),
    Comparison("unique, 1000 values", lambda xp, x: xp.unique(x), few),
    Comparison("unique, counts", lambda xp, x: xp.unique(x, return_counts=True), few),
    Comparison("unique, inverse", lambda xp, x: xp.unique(x, return_inverse=True), anything),
    Comparison("unique, index", lambda xp, x: xp.unique(x, return_index=True), anything),
    Comparison("isin", lambda xp, x, y: xp.isin(x, y), and_some),
    Comparison("searchsorted", lambda xp, t, x: xp.searchsorted(t, x), table_and_values),
    Comparison("histogram", lambda xp, x: xp.histogram(x, 100), anything, FLOATS),
    Comparison(
        "histogram, weights",
        lambda xp, x, w: xp.histogram(x, 100, weights=w),
        with_weights,
        FLOATS,
    ),
)
_OTHERS = (
    Comparison("nonzero", lambda xp, x: xp.nonzero(x > 0), anything, ANY),
    Comparison("bincount", lambda xp, x: xp.bincount(x), few, ("int32", "int64")),
    Comparison("bincount, 100 values", lambda xp, x: xp.bincount(x), below_100, ("uint8",)),
    Comparison("bincount, weights", lambda xp, x, w: xp.bincount(x, w), counted, FLOATS),
    Comparison("take", lambda xp, x, i: xp.take(x, i), table_and_places, ANY),
    Comparison("cumsum", lambda xp, x: xp.cumsum(x), anything, ANY),
    Comparison("cumsum, axis 0", lambda xp, x: xp.cumsum(x, axis=0), square, ANY),
    Comparison("sum", lambda xp, x: xp.sum(x), anything, ANY),
    Comparison("sum, axis 0", lambda xp, x: xp.sum(x, axis=0), square, ANY),
    Comparison("sum, axis 1", lambda xp, x: xp.sum(x, axis=1), square, ANY),
    Comparison("einsum ii", lambda xp, x: xp.einsum("ii", x), square),
    Comparison("einsum ii->i", lambda xp, x: as_rows(xp, xp.einsum("ii->i", x)), square),
    Comparison("trace", lambda xp, x: xp.trace(x), square),
    Comparison("max", lambda xp, x: xp.max(x), anything, ORDERED),
    Comparison("max, axis 1", lambda xp, x: xp.max(x, axis=1), square, ORDERED),
    Comparison("max, axis 0", lambda xp, x: xp.max(x, axis=0), square, ORDERED),
    Comparison("argmax", lambda xp, x: xp.argmax(x), anything, ORDERED),
    Comparison("argmax, axis 0", lambda xp, x: xp.argmax(x, axis=0), square, ORDERED),
    Comparison("roll", lambda xp, x: xp.roll(x, 1), anything, ANY),
    Comparison("roll, axis 1", lambda xp, x: xp.roll(x, 7, axis=1), square, ANY),
    Comparison("transpose", lambda xp, x: moved(xp, x, (1, 0)), square, ANY),
    Comparison("transpose (2, 1, 0)", lambda xp, x: moved(xp, x, (2, 1, 0)), cube, MOVED),
    Comparison("transpose (1, 0, 2)", lambda xp, x: moved(xp, x, (1, 0, 2)), cube, MOVED),
    Comparison("transpose (2, 0, 1) of n×n×3", lambda xp, x: moved(xp, x, (2, 0, 1)), image, MOVED),
    Comparison("transpose (1, 0, 2) of n×n×3", lambda xp, x: moved(xp, x, (1, 0, 2)), image, MOVED),
    Comparison(
        "transpose (1, 2, 0) of 3×n×n", lambda xp, x: moved(xp, x, (1, 2, 0)), planes, MOVED
    ),
    Comparison("flip", lambda xp, x: as_rows(xp, xp.flip(x)), anything, MOVED),
    Comparison("flip, axis 1", lambda xp, x: as_rows(xp, xp.flip(x, 1)), square, MOVED),
    Comparison("flip, axis 0", lambda xp, x: as_rows(xp, xp.flip(x, 0)), square, MOVED),
)
_ELEMENTWISE = (
    Comparison("add", lambda xp, x, y: x + y, two, ANY),
    Comparison("exp", lambda xp, x: xp.exp(x), anything, MATH),
    Comparison("log", lambda xp, x: xp.log(x), positive, MATH),
    Comparison("sin", lambda xp, x: xp.sin(x), anything, MATH),
    Comparison("cos", lambda xp, x: xp.cos(x), anything, MATH),
    Comparison("tanh", lambda xp, x: xp.tanh(x), anything, MATH),
    Comparison("sqrt", lambda xp, x: xp.sqrt(x), positive, MATH),
    Comparison("abs", lambda xp, x: xp.abs(x), anything, (*NUMBERS, *NARROW, *COMPLEX)),
    Comparison("power", lambda xp, x, y: xp.power(x, y), powers, (*FLOATS, "float16")),
    Comparison("hypot", lambda xp, x, y: xp.hypot(x, y), two, (*FLOATS, "float16")),
    Comparison("arctan2", lambda xp, x, y: xp.arctan2(x, y), two, (*FLOATS, "float16")),
)
COMPARISONS = _SORTING + _OTHERS + _ELEMENTWISE
