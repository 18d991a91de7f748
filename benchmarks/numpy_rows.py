"""`python -m benchmarks.numpy_rows [pattern]`: functions that NumPy has, beside NumPy.

Both work on the same numbers and on one thread, calls are interleaved, and the least time of the
processor is reported, which other programs on the machine lengthen less than medians, or the time
of the clock. A row is a function of a namespace (NumPy's or pyjax's) and of arrays, for one dtype.
`--all` has some 3,000 rows more for each size; `--above 1` prints those of them that take longer
than NumPy's. `--copy` says how long NumPy takes to copy the first array into memory that is there:
what waits for memory takes that, or what its own bytes come to.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import pyjax
import pyjax.numpy as jnp
from benchmarks.harness import Row, measure
from benchmarks.numpy_comparisons import COMPARISONS, Comparison
from benchmarks.numpy_every import EVERY

Options = dict[str, Any]  # of rows: `seconds` and `clock`
_DTYPES = tuple(dict.fromkeys(t for c in (*COMPARISONS, *EVERY) for t in c.dtypes))


def rows(
    comparisons: Sequence[Comparison],
    pattern: str,
    sizes: Sequence[int],
    dtypes: Sequence[str],
    copy: bool,
    options: Options,
) -> Iterator[Row]:
    """The rows whose name matches the pattern, each once; inputs are made as each is asked for."""
    seen = set()
    for c in comparisons:
        for size in sizes:
            for dtype in c.dtypes:
                name = f"{c.name}, {dtype}, {size:.0e}"
                if re.search(pattern, name) and dtype in dtypes and name not in seen:
                    seen.add(name)
                    yield _row(c, name, size, np.dtype(dtype), copy, options)


def _row(c: Comparison, name: str, size: int, dtype: np.dtype, copy: bool, options: Options) -> Row:
    arrays = c.make(np.random.default_rng(0), size, dtype)
    ours = [jnp.asarray(x) for x in arrays]
    contenders = {
        "pyjax": lambda: pyjax.block_until_ready(c.call(jnp, *ours)),
        "numpy": lambda: c.call(np, *arrays),
    }
    if copy:
        target = np.empty_like(arrays[0])
        contenders["copy"] = lambda: np.copyto(target, arrays[0])
    return Row(name, contenders, "ms", typical=min, **options)


def line(row: Row) -> str:
    """The row as one line of a Markdown table."""
    ours, theirs = row.results["pyjax"], row.results["numpy"]
    copy = f" {row.results['copy']:.3f} ms |" if "copy" in row.results else ""
    return f"| {row.name} | {theirs:.3f} ms | {ours:.3f} ms | {ours / theirs:.2f} |{copy}"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.numpy_rows", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="found in the names of rows")
    parser.add_argument("--all", action="store_true", help="rows for all axes, dtypes and orders")
    parser.add_argument("--above", type=float, default=0, help="ratios that are printed")
    parser.add_argument("--copy", action="store_true", help="a copy beside each row")
    parser.add_argument("--size", type=float, nargs="+", default=[1e6, 1e7], help="elements")
    parser.add_argument("--dtype", nargs="+", default=_DTYPES, choices=_DTYPES)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each contender of a row")
    parser.add_argument("--threads", type=int, default=1, help="of pyjax; NumPy has one")
    parser.add_argument("--wall", action="store_true", help="the time of the clock, waits included")
    chosen = parser.parse_args(words)
    pyjax.config.update("jax_platforms", "cpu")
    pyjax.config.update("jax_enable_x64", True)
    pyjax.config.update("jax_num_threads", chosen.threads)
    # What another thread took is added up by ticks, some of them after the call.
    pyjax.config.update("jax_cpu_enable_async_dispatch", False)
    device = pyjax.devices()[0].device_kind
    load = os.getloadavg()[0]
    print(f"{device}, {chosen.threads} threads, load {load:.1f}, NumPy {np.__version__}\n")
    last = (" a copy |", "---|") if chosen.copy else ("", "")
    print(f"| what | NumPy | pyjax | pyjax / NumPy |{last[0]}\n|---|---|---|---|{last[1]}")
    sizes = [int(size) for size in chosen.size]
    clock = time.perf_counter if chosen.wall else time.process_time
    options = {"seconds": chosen.seconds, "clock": clock}
    comparisons = (*COMPARISONS, *EVERY) if chosen.all else COMPARISONS
    for row in rows(comparisons, chosen.pattern, sizes, chosen.dtype, chosen.copy, options):
        measure(row)
        if row.results["pyjax"] >= chosen.above * row.results["numpy"]:
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
