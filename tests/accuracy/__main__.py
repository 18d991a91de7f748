"""Prints the measured errors: python -m tests.accuracy [--count N] [--dtype float64] [PATTERN]."""

from __future__ import annotations

import argparse
import re
import time

from tests.accuracy.check import measure
from tests.accuracy.tables import ROWS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="random elements for each function")
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--eager", action="store_true", help="call functions without jit")
    parser.add_argument("pattern", nargs="?", default="")
    options = parser.parse_args()
    wide = options.dtype == "float64"
    for row in ROWS:
        if not re.search(options.pattern, row.names):
            continue
        start = time.perf_counter()
        name = row.names.split()[0]
        found = measure(row, name, options.dtype, options.count, jit=not options.eager)
        allowed = row.wide if wide else row.ulp
        mark = "  " if found.ulp <= allowed else "**"
        seconds = time.perf_counter() - start
        print(f"{mark} {row.names} {row.call}: {found} [{seconds:.1f} s]", flush=True)


if __name__ == "__main__":
    main()
