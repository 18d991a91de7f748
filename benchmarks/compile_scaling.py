"""How compile time grows with the program: python -m benchmarks.compile_scaling [largest].

Programs of 500 to 16,000 instructions of several kinds are compiled with an empty object cache;
printed are milliseconds of processor time (all threads; the best of a few rounds), and the ratio to
half the size. The goal is at most 2.3 per doubling.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from itertools import pairwise

import xla_backend
from benchmarks.scaling_programs import LARGEST, PROGRAMS

SIZES = (500, 1000, 2000, 4000, 8000, 16000)
ALLOWED = 2.3
ROUNDS = 5


def compile_ms(text: str) -> float:
    """Processor time of one compilation, with an object cache that is empty."""
    module = xla_backend.parse_hlo(text)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PYJAX_CACHE_DIR"] = folder
        start = time.process_time()
        xla_backend.compile(module)
        return 1e3 * (time.process_time() - start)


def main() -> int:
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else SIZES[-1]
    worst = 0.0
    for kind, generate in PROGRAMS.items():
        sizes = [s for s in SIZES if s <= min(largest, LARGEST.get(kind, largest))]
        texts = [generate(size) for size in sizes]
        xla_backend.compile(xla_backend.parse_hlo(generate(100)))  # imports, library kernels
        # In rounds, so that a machine that is slow for a while is slow for all sizes.
        rounds = [[compile_ms(text) for text in texts] for _ in range(ROUNDS)]
        best = [min(column) for column in zip(*rounds)]
        ratios = [b / a for a, b in pairwise(best)]
        worst = max(worst, *ratios)
        cells = [f"{sizes[0]}: {best[0]:.0f} ms"]
        cells += [f"{s}: {ms:.0f} ms ({r:.2f})" for s, ms, r in zip(sizes[1:], best[1:], ratios)]
        print(f"{kind:12} {'   '.join(cells)}", flush=True)
    print(f"worst ratio per doubling {worst:.2f}, allowed {ALLOWED}")
    return int(worst > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
