"""`python -m benchmarks.new_shapes [pattern]`: what everyday calls cost with shapes that are new.

Each call outside of `jit` gets arrays of `--count` shapes that it had not before, after a few
others that load what all of them need. Reported are the median and the slowest tenth of the
processor time until the result is there. `--library jax` measures the same calls in JAX.
"""

from __future__ import annotations

import argparse
import importlib
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

# Shapes that only load what others need.
_FIRST = 3
Call = Callable[[], Any]
# Takes the library, a generator of random numbers and two sizes, and gives a call.
Make = Callable[["Library", np.random.Generator, int, int], Call]


class Library(NamedTuple):
    """A library with JAX's names."""

    top: ModuleType
    numpy: ModuleType
    random: ModuleType
    nn: ModuleType
    special: ModuleType

    @classmethod
    def named(cls, name: str) -> Library:
        parts = ("", ".numpy", ".random", ".nn", ".scipy.special")
        return cls(*(importlib.import_module(name + part) for part in parts))


def _matrix(call: Callable[[Any, Any], Any], scale: int = 1) -> Make:
    """A call on a matrix of float32; `scale`: how much longer its sides are."""

    def make(lib: Library, rng: np.random.Generator, m: int, n: int) -> Call:
        x = lib.numpy.asarray(rng.standard_normal((m * scale, n * scale)).astype(np.float32))
        return lambda: call(lib, x)

    return make


def _pair(call: Callable[[Any, Any, Any], Any], shape: Callable[[int, int], Any]) -> Make:
    """A call on a matrix and an array of another shape."""

    def make(lib: Library, rng: np.random.Generator, m: int, n: int) -> Call:
        x = lib.numpy.asarray(rng.standard_normal((m, n)).astype(np.float32))
        y = lib.numpy.asarray(rng.standard_normal(shape(m, n)).astype(np.float32))
        return lambda: call(lib, x, y)

    return make


def _indexed(call: Callable[[Any, Any, Any], Any]) -> Make:
    """A call on a matrix and indices of its rows, as many as it has columns."""

    def make(lib: Library, rng: np.random.Generator, m: int, n: int) -> Call:
        x = lib.numpy.asarray(rng.standard_normal((m, n)).astype(np.float32))
        i = lib.numpy.asarray(rng.integers(0, min(m, n), n).astype(np.int32))
        return lambda: call(lib, x, i)

    return make


def _made(call: Callable[[Any, int, int], Any]) -> Make:
    """A call that only takes sizes."""
    return lambda lib, rng, m, n: lambda: call(lib, m, n)


ROWS: dict[str, Make] = {
    "exp(x)": _matrix(lambda lib, x: lib.numpy.exp(x)),
    "x + y": _pair(lambda lib, x, y: x + y, lambda m, n: (m, n)),
    "x + row": _pair(lambda lib, x, y: x + y, lambda m, n: (n,)),
    "x * column": _pair(lambda lib, x, y: x * y, lambda m, n: (m, 1)),
    "where(x > 0, x, 0)": _matrix(lambda lib, x: lib.numpy.where(x > 0, x, 0)),
    "x.sum()": _matrix(lambda lib, x: x.sum()),
    "x.sum(-1)": _matrix(lambda lib, x: x.sum(-1)),
    "x.sum(0)": _matrix(lambda lib, x: x.sum(0)),
    "x.mean()": _matrix(lambda lib, x: x.mean()),
    "x.mean(-1)": _matrix(lambda lib, x: x.mean(-1)),
    "x.max(-1)": _matrix(lambda lib, x: x.max(-1)),
    "any(x > 3)": _matrix(lambda lib, x: lib.numpy.any(x > 3)),
    "x.var()": _matrix(lambda lib, x: x.var()),
    "x.argmax(-1)": _matrix(lambda lib, x: x.argmax(-1)),
    "x.argmax()": _matrix(lambda lib, x: x.argmax()),
    "softmax(x)": _matrix(lambda lib, x: lib.nn.softmax(x)),
    "logsumexp(x, -1)": _matrix(lambda lib, x: lib.special.logsumexp(x, -1)),
    "x[i]": _indexed(lambda lib, x, i: x[i]),
    "take(x, i, 1)": _indexed(lambda lib, x, i: lib.numpy.take(x, i, axis=1)),
    "v[v > 0]": _matrix(lambda lib, x: x[0][x[0] > 0]),
    "x.at[i].set(0)": _indexed(lambda lib, x, i: x.at[i].set(0.0)),
    "x.at[i].add(1)": _indexed(lambda lib, x, i: x.at[i].add(1.0)),
    "x[1:, 2:], large": _matrix(lambda lib, x: x[1:, 2:], 10),
    "concatenate([x, x]), large": _matrix(lambda lib, x: lib.numpy.concatenate([x, x]), 10),
    "stack([x, x]), large": _matrix(lambda lib, x: lib.numpy.stack([x, x]), 10),
    "pad(x, 1), large": _matrix(lambda lib, x: lib.numpy.pad(x, 1), 10),
    "x.T, large": _matrix(lambda lib, x: lib.numpy.transpose(x).copy(), 10),
    "arange": _made(lambda lib, m, n: lib.numpy.arange(m * n)),
    "linspace": _made(lambda lib, m, n: lib.numpy.linspace(0.0, 1.0, m * n)),
    "zeros": _made(lambda lib, m, n: lib.numpy.zeros((m * 10, n * 10))),
    "uniform": _made(lambda lib, m, n: lib.random.uniform(lib.random.key(0), (m, n))),
    "normal": _made(lambda lib, m, n: lib.random.normal(lib.random.key(0), (m, n))),
    "cumsum(x, 1)": _matrix(lambda lib, x: lib.numpy.cumsum(x, 1)),
    "sort(x)": _matrix(lambda lib, x: lib.numpy.sort(x)),
    "x @ x.T": _pair(lambda lib, x, y: x @ y, lambda m, n: (n, m)),
    "x @ v": _pair(lambda lib, x, y: x @ y, lambda m, n: (n,)),
}


def shapes(count: int) -> Iterator[tuple[int, int]]:
    """Different sizes of matrices."""
    rng, seen = np.random.default_rng(5), set()
    while len(seen) < count:
        m, n = (int(size) for size in rng.integers(20, 90, 2))
        if (m, n) not in seen:
            seen.add((m, n))
            yield m, n


def measured(library: Library, make: Make, count: int) -> list[float]:
    """Milliseconds of the first call with each shape."""
    rng, times = np.random.default_rng(0), []
    for m, n in shapes(count + _FIRST):
        call = make(library, rng, m, n)
        start = time.process_time()
        library.top.block_until_ready(call())
        times.append(1e3 * (time.process_time() - start))
    return times[_FIRST:]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.new_shapes", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="of names of rows")
    parser.add_argument("--count", type=int, default=50, help="of shapes")
    parser.add_argument("--library", default="pyjax")
    args = parser.parse_args(arguments)
    library = Library.named(args.library)
    print(f"| {args.library}, new shape | median, ms | slowest tenth from, ms |\n|---|---|---|")
    for name, make in ROWS.items():
        if re.search(args.pattern, name):
            times = measured(library, make, args.count)
            slow = statistics.quantiles(times, n=10)[-1] if len(times) > 1 else times[0]
            print(f"| `{name}` | {statistics.median(times):.3f} | {slow:.3f} |", flush=True)


if __name__ == "__main__":
    main()
