"""`python -m benchmarks.transposes`: transposes of large arrays, beside a copy of the same bytes.

Shapes and permutations are drawn at random, the same for the same seed: ranks 2 to 5, elements of 1
to 16 bytes, 1 to 64 MiB, extents that are no round numbers and, in any place, small ones. Those of
`--small` all have small extents where it hurts: first or last, before or after. `--every` goes
through all permutations of ranks 2 to 5 and all sizes of elements, in families of shapes (a few
minutes for each), and prints how their times are distributed, and the worst. The copy is a program
as well. NumPy's time is that of `ascontiguousarray`.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

import pyjax
import pyjax.numpy as jnp
from benchmarks.harness import Row, measure

_DTYPES = {1: np.uint8, 2: np.uint16, 4: np.float32, 8: np.float64, 16: np.complex128}
_SMALL = (2, 3, 4, 5, 6, 7, 9, 12)
_GOAL = 1.3


# How extents of a dimension compare with the others, by rank; None: it is as it comes.
_FAMILIES: dict[str, Callable[[int, int], list[int | None]]] = {
    "equal": lambda rank, k: [None] * rank,
    "short last": lambda rank, k: [*[None] * (rank - 1), k],
    "short first": lambda rank, k: [k, *[None] * (rank - 1)],
    "short in turn": lambda rank, k: [k if d % 2 else None for d in range(rank)],
    "powers of two": lambda rank, k: [None] * rank,
}
_WORST = 20


class Case(NamedTuple):
    """A transpose: shape of the operand, permutation, bytes of an element."""

    shape: tuple[int, ...]
    permutation: tuple[int, ...]
    element: int

    def __str__(self) -> str:
        shape = "×".join(map(str, self.shape))
        order = ",".join(map(str, self.permutation))
        return f"({order}) of {shape}, {self.element} bytes"


def random_cases(count: int, seed: int, most: int) -> Iterator[Case]:
    """Permutations that move something, of arrays of 1 MiB to `most` bytes."""
    rng = np.random.default_rng(seed)
    while count:
        element = int(rng.choice(list(_DTYPES)))
        rank = int(rng.integers(2, 6))
        elements = float(np.exp(rng.uniform(np.log(1 << 20), np.log(most)))) / element
        small = rng.random(rank) < 0.3
        small[rng.integers(rank)] = False
        shape = [int(rng.choice(_SMALL)) if s else 1 for s in small]
        left = elements / np.prod(shape)
        weights = rng.dirichlet(np.full(int((~small).sum()), 3.0))
        for d, weight in zip(np.flatnonzero(~small), weights):
            shape[d] = max(1, round(left**weight))
        permutation = tuple(int(d) for d in rng.permutation(rank))
        moved = [d for d in permutation if shape[d] > 1]
        if moved != sorted(moved):
            count -= 1
            yield Case(tuple(shape), permutation, element)


def small_cases(nbytes: int = 8 << 20) -> Iterator[Case]:
    """Small extents in all places."""
    for element in _DTYPES:
        for k in (2, 3, 5, 7):
            n = nbytes // (element * k)
            side = int(n**0.5)
            yield Case((n, k), (1, 0), element)
            yield Case((k, n), (1, 0), element)
            yield Case((side, side, k), (1, 0, 2), element)
            yield Case((side, side, k), (2, 0, 1), element)
            yield Case((k, side, side), (1, 2, 0), element)
            yield Case((n // 3, 3, k), (0, 2, 1), element)


def every_case(family: str, nbytes: int) -> Iterator[Case]:
    """All permutations of ranks 2 to 5 that move something, for all sizes of elements."""
    for element, rank in itertools.product(_DTYPES, range(2, 6)):
        short = 3 + rank % 3
        extents = _FAMILIES[family](rank, short)
        free = extents.count(None)
        known = math.prod(k for k in extents if k is not None)
        side = (nbytes / (element * known)) ** (1 / free)
        if family == "powers of two":
            shape = [1 << round(math.log2(side)) for _ in extents]
        else:  # odd, and no two the same
            shape = [
                int(side) // 2 * 2 + 1 + 2 * d if k is None else k for d, k in enumerate(extents)
            ]
        for permutation in itertools.permutations(range(rank)):
            if permutation != tuple(range(rank)):
                yield Case(tuple(shape), permutation, element)


def sweep(family: str, nbytes: int, seconds: float, clock: object) -> None:
    """Prints how all transposes of a family compare with a copy, by size of elements."""
    found: dict[Case, float] = {}
    for case in every_case(family, nbytes):
        measured = row(case, seconds, clock)
        del measured.contenders["numpy"]
        measure(measured)
        found[case] = measured.results["pyjax"] / measured.results["copy"]
    print(f"\n{family}, {nbytes / (1 << 20):.2f} MiB\n")
    print(
        "| bytes of an element | transposes | within 1.3 of a copy | median | 90 % below | most |"
    )
    print("|---|---|---|---|---|---|")
    for element in (*_DTYPES, None):
        ratios = np.array([r for case, r in found.items() if element in (None, case.element)])
        print(
            f"| {element or 'all'} | {len(ratios)} | {np.mean(ratios <= _GOAL):.0%} "
            f"| {np.median(ratios):.2f} | {np.quantile(ratios, 0.9):.2f} | {ratios.max():.2f} |"
        )
    print()
    for case in sorted(found, key=lambda case: -found[case])[:_WORST]:
        print(f"{found[case]:.2f} {case}", flush=True)


def row(case: Case, seconds: float, clock: object) -> Row:
    """The transpose, the copy and NumPy, side by side."""
    bits = np.random.default_rng(0).integers(0, 256, _size(case), np.uint8)
    array = bits.view(_DTYPES[case.element]).reshape(case.shape)
    ours, flat = jnp.asarray(array), jnp.asarray(array.reshape(-1))
    turn = pyjax.jit(lambda x: jnp.transpose(x, case.permutation))
    copy = pyjax.jit(jnp.copy)
    found = np.asarray(turn(ours)).view(np.uint8)
    wanted = np.ascontiguousarray(array.transpose(case.permutation)).view(np.uint8)
    assert np.array_equal(found, wanted), case
    contenders = {
        "pyjax": lambda: pyjax.block_until_ready(turn(ours)),
        "copy": lambda: pyjax.block_until_ready(copy(flat)),
        "numpy": lambda: np.ascontiguousarray(array.transpose(case.permutation)),
    }
    return Row(str(case), contenders, "ms", seconds=seconds, clock=clock)  # type: ignore[arg-type]


def _size(case: Case) -> int:
    return int(np.prod(case.shape)) * case.element


def report(name: str, cases: Sequence[Case], seconds: float, clock: object) -> None:
    """Prints a table of the cases and what they come to."""
    print(
        f"\n{name}\n\n| what | MiB | copy | pyjax | / copy | / NumPy |\n|---|---|---|---|---|---|"
    )
    to_copy, to_numpy = [], []
    for case in cases:
        measured = row(case, seconds, clock)
        measure(measured)
        ours, copy, theirs = (measured.results[k] for k in ("pyjax", "copy", "numpy"))
        to_copy.append(ours / copy)
        to_numpy.append(ours / theirs)
        print(
            f"| {case} | {_size(case) / (1 << 20):.1f} | {copy:.2f} ms | {ours:.2f} ms "
            f"| {to_copy[-1]:.2f} | {to_numpy[-1]:.2f} |",
            flush=True,
        )
    within = np.mean(np.array(to_copy) <= _GOAL)
    print(
        f"\n{name}: {len(to_copy)} transposes, {within:.0%} within {_GOAL} of a copy, median "
        f"{np.median(to_copy):.2f}, 90 % below {np.quantile(to_copy, 0.9):.2f}, most "
        f"{max(to_copy):.2f}; of NumPy's time median {np.median(to_numpy):.2f}, most "
        f"{max(to_numpy):.2f}"
    )


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.transposes", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="of random transposes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=float, default=64, help="MiB of the largest")
    parser.add_argument("--small", action="store_true", help="those with small extents, too")
    parser.add_argument(
        "--every",
        nargs="*",
        metavar="FAMILY",
        help=f"instead, all permutations: {', '.join(_FAMILIES)}",
    )
    parser.add_argument("--size", type=float, default=4, help="MiB of those of --every")
    parser.add_argument("--seconds", type=float, default=0.1, help="for each contender of a row")
    parser.add_argument("--threads", type=int, default=1, help="of pyjax; NumPy has one")
    chosen = parser.parse_args(words)
    pyjax.config.update("jax_platforms", "cpu")
    pyjax.config.update("jax_enable_x64", True)
    pyjax.config.update("jax_num_threads", chosen.threads)
    load = os.getloadavg()[0]
    device = pyjax.devices()[0].device_kind
    print(f"{device}, {chosen.threads} threads, load {load:.1f}, NumPy {np.__version__}")
    clock = time.process_time if chosen.threads == 1 else time.perf_counter
    if chosen.every is not None:
        for family in chosen.every or _FAMILIES:
            sweep(family, int(chosen.size * (1 << 20)), chosen.seconds, clock)
        return
    most = int(chosen.most * (1 << 20))
    cases = list(random_cases(chosen.count, chosen.seed, most))
    report("at random", cases, chosen.seconds, clock)
    if chosen.small:
        report("small extents", list(small_cases()), chosen.seconds, clock)


if __name__ == "__main__":
    main()
