"""Little address space: what does not fit raises MemoryError, and what fits works afterwards."""

from __future__ import annotations

import random
import resource
import time

import numpy as np

import pyjax.numpy as jnp
from tests.stress import work

_MORE = 1 << 30


def main() -> None:
    seed, seconds = work.arguments()
    draw = random.Random(seed)
    for piece in work.ALL:
        piece(draw)
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MORE, used + _MORE))
    end = time.monotonic() + seconds
    refused = 0
    while time.monotonic() < end:
        arrays = []
        try:
            while len(arrays) < 100:
                n = draw.randrange(1 << 20, 1 << 26)
                arrays.append((n, jnp.full(n, 3.0)))
        except MemoryError:
            refused += 1
        for n, array in arrays:
            assert array.shape == (n,) and float(array[n - 1]) == 3
        del arrays
        for piece in (work.product, work.donation, work.gradient, work.loop):
            piece(draw)
        large = np.asarray(jnp.ones(1 << 26) + 1)  # a quarter of what there is
        assert large[0] == large[-1] == 2
        del large
    assert refused
    print(f"refused {refused} times")


if __name__ == "__main__":
    main()
