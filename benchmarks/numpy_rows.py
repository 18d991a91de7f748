"""`python -m benchmarks.numpy_rows [pattern]`: functions that NumPy has, beside NumPy.

Both work on the same numbers and on one thread, calls are interleaved, and the least time of the
processor is reported, which other programs on the machine lengthen less than medians, or the time
of the clock. A row is a function of a namespace (NumPy's or pyjax's) and of arrays, for one dtype.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from benchmarks.harness import Row, measure

Call = Callable[..., Any]
Options = dict[str, Any]  # of rows: `seconds` and `clock`
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
    make: Callable[[np.random.Generator, int, np.dtype], tuple[np.ndarray, ...]]
    dtypes: tuple[str, ...] = NUMBERS


def anything(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Normal numbers, or integers of the whole range."""
    if dtype.kind == "c":
        return ((rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype),)
    if dtype.kind == "f":
        return (rng.normal(size=n).astype(dtype),)
    if dtype.kind == "b":
        return (rng.random(n) < 0.5,)
    bounds = np.iinfo(dtype)
    return (rng.integers(bounds.min, bounds.max, n, dtype, endpoint=True),)


def _square(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    side = int(n**0.5)
    return (anything(rng, side * side, dtype)[0].reshape(side, side),)


def _cube(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    side = round(n ** (1 / 3))
    return (anything(rng, side**3, dtype)[0].reshape(side, side, side),)


def _image(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    side = int((n / 3) ** 0.5)
    return (anything(rng, 3 * side * side, dtype)[0].reshape(side, side, 3),)


def _planes(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    (x,) = _image(rng, n, dtype)
    return (x.reshape(3, *x.shape[:2]),)


def _moved(xp: Any, x: Any, permutation: tuple[int, ...]) -> Any:
    return _as_rows(xp, xp.transpose(x, permutation))


def _as_rows(xp: Any, view: Any) -> Any:
    """What is a view in NumPy, as an array of its own."""
    return view.copy() if xp is np else view


def _few(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Of a thousand values."""
    return (rng.integers(0, 1000, n).astype(dtype),)


def _in_order(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (np.arange(n).astype(dtype),)


def _reversed(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (np.arange(n)[::-1].astype(dtype),)


def _positive(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    (x,) = anything(rng, n, dtype)
    return (x if dtype.kind == "c" else abs(x),)


def _powers(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*_positive(rng, n, dtype), *anything(rng, n, dtype))


def _with_weights(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*anything(rng, n, dtype), rng.random(n).astype(dtype))


def _counted(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*_few(rng, n, np.dtype(np.int32)), rng.random(n).astype(dtype))


def _below_100(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (rng.integers(0, 100, n).astype(dtype),)


def _two(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*anything(rng, n, dtype), *anything(rng, n, dtype))


def _and_some(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Few of the first are in the second, which has a hundredth of the elements."""
    (x,) = anything(rng, n, dtype)
    return x, np.concatenate([x[: n // 200], anything(rng, n // 200, dtype)[0]])


def _table_and_places(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return (*anything(rng, n, dtype), rng.integers(0, n, n, np.int32))


def _table_and_values(rng: np.random.Generator, n: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return np.sort(anything(rng, 10_000, dtype)[0]), *anything(rng, n, dtype)


_SORTING = (
    Comparison("sort", lambda xp, x: xp.sort(x), anything, ANY),
    Comparison("sort, 1000 values", lambda xp, x: xp.sort(x), _few),
    Comparison("sort, in order", lambda xp, x: xp.sort(x), _in_order),
    Comparison("sort, reversed", lambda xp, x: xp.sort(x), _reversed),
    Comparison("sort, axis 0", lambda xp, x: xp.sort(x, axis=0), _square, ORDERED),
    Comparison("sort, axis 1 of 2", lambda xp, x: xp.sort(x, axis=1), _square, ORDERED),
    Comparison("sort, axis 1 of 3", lambda xp, x: xp.sort(x, axis=1), _cube),
    Comparison("argsort", lambda xp, x: xp.argsort(x), anything, ANY),
    Comparison("argsort, axis 0", lambda xp, x: xp.argsort(x, axis=0), _square),
    Comparison("lexsort", lambda xp, x, y: xp.lexsort((x, y)), _two),
    Comparison("partition", lambda xp, x: xp.partition(x, x.shape[0] // 2), anything, ORDERED),
    Comparison("argpartition", lambda xp, x: xp.argpartition(x, x.shape[0] // 2), anything),
    Comparison("median", lambda xp, x: xp.median(x), anything, FLOATS),
    Comparison("percentile", lambda xp, x: xp.percentile(x, 90), anything, FLOATS),
    Comparison("median, axis 0", lambda xp, x: xp.median(x, axis=0), _square, FLOATS),
    Comparison("unique", lambda xp, x: xp.unique(x), anything, ANY),
    Comparison("unique, 100 values", lambda xp, x: xp.unique(x), _below_100, NARROW),
    Comparison("unique, 1000 values", lambda xp, x: xp.unique(x), _few),
    Comparison("unique, counts", lambda xp, x: xp.unique(x, return_counts=True), _few),
    Comparison("unique, inverse", lambda xp, x: xp.unique(x, return_inverse=True), anything),
    Comparison("unique, index", lambda xp, x: xp.unique(x, return_index=True), anything),
    Comparison("isin", lambda xp, x, y: xp.isin(x, y), _and_some),
    Comparison("searchsorted", lambda xp, t, x: xp.searchsorted(t, x), _table_and_values),
    Comparison("histogram", lambda xp, x: xp.histogram(x, 100), anything, FLOATS),
    Comparison(
        "histogram, weights",
        lambda xp, x, w: xp.histogram(x, 100, weights=w),
        _with_weights,
        FLOATS,
    ),
)
_OTHERS = (
    Comparison("nonzero", lambda xp, x: xp.nonzero(x > 0), anything, ANY),
    Comparison("bincount", lambda xp, x: xp.bincount(x), _few, ("int32", "int64")),
    Comparison("bincount, 100 values", lambda xp, x: xp.bincount(x), _below_100, ("uint8",)),
    Comparison("bincount, weights", lambda xp, x, w: xp.bincount(x, w), _counted, FLOATS),
    Comparison("take", lambda xp, x, i: xp.take(x, i), _table_and_places, ANY),
    Comparison("cumsum", lambda xp, x: xp.cumsum(x), anything, ANY),
    Comparison("cumsum, axis 0", lambda xp, x: xp.cumsum(x, axis=0), _square, ANY),
    Comparison("sum", lambda xp, x: xp.sum(x), anything, ANY),
    Comparison("sum, axis 0", lambda xp, x: xp.sum(x, axis=0), _square, ANY),
    Comparison("sum, axis 1", lambda xp, x: xp.sum(x, axis=1), _square, ANY),
    Comparison("einsum ii", lambda xp, x: xp.einsum("ii", x), _square),
    Comparison("einsum ii->i", lambda xp, x: _as_rows(xp, xp.einsum("ii->i", x)), _square),
    Comparison("trace", lambda xp, x: xp.trace(x), _square),
    Comparison("max", lambda xp, x: xp.max(x), anything, ORDERED),
    Comparison("max, axis 1", lambda xp, x: xp.max(x, axis=1), _square, ORDERED),
    Comparison("max, axis 0", lambda xp, x: xp.max(x, axis=0), _square, ORDERED),
    Comparison("argmax", lambda xp, x: xp.argmax(x), anything, ORDERED),
    Comparison("argmax, axis 0", lambda xp, x: xp.argmax(x, axis=0), _square, ORDERED),
    Comparison("roll", lambda xp, x: xp.roll(x, 1), anything, ANY),
    Comparison("roll, axis 1", lambda xp, x: xp.roll(x, 7, axis=1), _square, ANY),
    Comparison("transpose", lambda xp, x: _moved(xp, x, (1, 0)), _square, ANY),
    Comparison("transpose (2, 1, 0)", lambda xp, x: _moved(xp, x, (2, 1, 0)), _cube, MOVED),
    Comparison("transpose (1, 0, 2)", lambda xp, x: _moved(xp, x, (1, 0, 2)), _cube, MOVED),
    Comparison(
        "transpose (2, 0, 1) of n×n×3", lambda xp, x: _moved(xp, x, (2, 0, 1)), _image, MOVED
    ),
    Comparison(
        "transpose (1, 0, 2) of n×n×3", lambda xp, x: _moved(xp, x, (1, 0, 2)), _image, MOVED
    ),
    Comparison(
        "transpose (1, 2, 0) of 3×n×n", lambda xp, x: _moved(xp, x, (1, 2, 0)), _planes, MOVED
    ),
    Comparison("flip", lambda xp, x: _as_rows(xp, xp.flip(x)), anything, MOVED),
    Comparison("flip, axis 1", lambda xp, x: _as_rows(xp, xp.flip(x, 1)), _square, MOVED),
    Comparison("flip, axis 0", lambda xp, x: _as_rows(xp, xp.flip(x, 0)), _square, MOVED),
)
_ELEMENTWISE = (
    Comparison("add", lambda xp, x, y: x + y, _two, ANY),
    Comparison("exp", lambda xp, x: xp.exp(x), anything, MATH),
    Comparison("log", lambda xp, x: xp.log(x), _positive, MATH),
    Comparison("sin", lambda xp, x: xp.sin(x), anything, MATH),
    Comparison("cos", lambda xp, x: xp.cos(x), anything, MATH),
    Comparison("tanh", lambda xp, x: xp.tanh(x), anything, MATH),
    Comparison("sqrt", lambda xp, x: xp.sqrt(x), _positive, MATH),
    Comparison("abs", lambda xp, x: xp.abs(x), anything, (*NUMBERS, *NARROW, *COMPLEX)),
    Comparison("power", lambda xp, x, y: xp.power(x, y), _powers, (*FLOATS, "float16")),
    Comparison("hypot", lambda xp, x, y: xp.hypot(x, y), _two, (*FLOATS, "float16")),
    Comparison("arctan2", lambda xp, x, y: xp.arctan2(x, y), _two, (*FLOATS, "float16")),
)
COMPARISONS = _SORTING + _OTHERS + _ELEMENTWISE
DTYPES = tuple(dict.fromkeys(t for c in COMPARISONS for t in c.dtypes))


def rows(
    pattern: str, sizes: Sequence[int], dtypes: Sequence[str], options: Options
) -> Iterator[Row]:
    """The rows whose name has the pattern; inputs are made as each is asked for."""
    for c in COMPARISONS:
        for size in sizes:
            for dtype in c.dtypes:
                name = f"{c.name}, {dtype}, {size:.0e}"
                if pattern in name and dtype in dtypes:
                    yield _row(c, name, size, np.dtype(dtype), options)


def _row(c: Comparison, name: str, size: int, dtype: np.dtype, options: Options) -> Row:
    arrays = c.make(np.random.default_rng(0), size, dtype)
    ours = [jnp.asarray(x) for x in arrays]
    contenders = {
        "pyjax": lambda: pyjax.block_until_ready(c.call(jnp, *ours)),
        "numpy": lambda: c.call(np, *arrays),
    }
    return Row(name, contenders, "ms", typical=min, **options)


def line(row: Row) -> str:
    """The row as one line of a Markdown table."""
    ours, theirs = row.results["pyjax"], row.results["numpy"]
    return f"| {row.name} | {theirs:.3f} ms | {ours:.3f} ms | {ours / theirs:.2f} |"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.numpy_rows", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="part of the names of rows")
    parser.add_argument("--size", type=float, nargs="+", default=[1e6, 1e7], help="elements")
    parser.add_argument("--dtype", nargs="+", default=DTYPES, choices=DTYPES)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each contender of a row")
    parser.add_argument("--threads", type=int, default=1, help="of pyjax; NumPy has one")
    parser.add_argument("--wall", action="store_true", help="the time of the clock, waits included")
    chosen = parser.parse_args(words)
    pyjax.config.update("jax_platforms", "cpu")
    pyjax.config.update("jax_enable_x64", True)
    pyjax.config.update("jax_num_threads", chosen.threads)
    device = pyjax.devices()[0].device_kind
    load = os.getloadavg()[0]
    print(f"{device}, {chosen.threads} threads, load {load:.1f}, NumPy {np.__version__}\n")
    print("| what | NumPy | pyjax | pyjax / NumPy |\n|---|---|---|---|")
    sizes = [int(size) for size in chosen.size]
    clock = time.perf_counter if chosen.wall else time.process_time
    options = {"seconds": chosen.seconds, "clock": clock}
    for row in rows(chosen.pattern, sizes, chosen.dtype, options):
        measure(row)
        print(line(row), flush=True)


if __name__ == "__main__":
    main()
