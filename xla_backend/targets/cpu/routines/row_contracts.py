"""Contracts of routines along one axis: sorts, partitions and selections, scans, extremes and their
places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.targets.cpu.routines.contract_parts import Array, grid, numbers
from xla_backend.targets.cpu.routines.row_types import (
    EXTREME_TYPES,
    EXTREMES,
    PARTITIONED_BYTES,
    PARTITIONED_PLACES,
    SCAN_TYPES,
    operations_of,
)
from xla_backend.targets.cpu.routines.sort_types import SORT_TYPES

_DESCENDING, _REFINE = 1, 2
_FROM_THE_END = 1
_ROWS = "outer n inner"


def _rows(outer: int, n: int, inner: int) -> Iterator[Array]:
    """Indices of the rows of [outer, n, inner] along the middle axis."""
    yield from np.moveaxis(grid((outer, n * inner), (n, inner), (inner, 1)), 1, -1).reshape(-1, n)


def _order(keys: Array, flags: int) -> Array:
    """The stable order of keys: NaN last, all of them equal, and -0 equal to 0."""
    if keys.dtype.kind not in "biu":
        keys = keys.astype(np.float64) + 0.0
    _, ranks = np.unique(keys, return_inverse=True)
    ranks = ranks.reshape(-1).astype(np.int64)
    return np.argsort(-ranks if flags & _DESCENDING else ranks, kind="stable")


def _run_sort(
    keys: Array, out: Array, outer: int, n: int, inner: int, flags: int, lo: int, hi: int
) -> None:
    for row in _rows(outer, n, inner):
        out[row] = keys[row][_order(keys[row], flags)]


def _run_argsort(
    keys: Array, perm: Array, outer: int, n: int, inner: int, flags: int, lo: int, hi: int
) -> None:
    for row in _rows(outer, n, inner):
        before = perm[row] if flags & _REFINE else np.arange(n)
        perm[row] = before[_order(keys[row][before], flags)]


def _run_select(keys: Array, perm: Array, outer: int, n: int, first: int, flags: int) -> None:
    for row in range(outer):
        order = _order(keys[row * n : (row + 1) * n], flags)
        perm[row * first : (row + 1) * first] = order[:first]


def _run_merge_argsort(
    less: Callable[..., None], perm: Array, work: Array, outer: int, n: int, inner: int
) -> None:
    def comes_first(a: int, b: int) -> bool:
        answer = np.zeros(1, bool)
        less(np.array([a]), np.array([b]), answer)
        return bool(answer[0])

    for row in _rows(outer, n, inner):
        order: list[int] = []
        for i in range(n):  # insertion from the end keeps equal elements in order
            at = len(order)
            while at and comes_first(row[i], row[order[at - 1]]):
                at -= 1
            order.insert(at, i)
        perm[row] = order


def _run_scan(
    op: str, t: P, source: Array, out: Array, outer: int, n: int, inner: int, flags: int
) -> None:
    wide = np.dtype(np.float64) if t.is_floating else t.numpy_dtype
    for row in _rows(outer, n, inner):
        along = row[::-1] if flags & _FROM_THE_END else row
        out[along] = _SCANS[op](source[along].astype(wide)).astype(out.dtype)


_SCANS: dict[str, Callable[[Array], Array]] = {
    "cumsum": lambda x: np.cumsum(x, dtype=x.dtype),
    "cumprod": lambda x: np.cumprod(x, dtype=x.dtype),
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "cumlogsumexp": np.logaddexp.accumulate,
}


def _scan(op: str, t: P) -> Routine:
    parameters = (
        Parameter("in", Kind.READ, t),
        Parameter("out", Kind.WRITE, t),
        *numbers(f"{_ROWS} flags"),
    )
    return Routine(f"{op}_{t}", parameters, partial(_run_scan, op, t), stops=True, steady=True)


def _sorts(t: P) -> list[Routine]:
    rest = numbers(f"{_ROWS} flags lo hi")
    plain = (Parameter("in", Kind.READ, t), Parameter("out", Kind.WRITE, t), *rest)
    keys = Parameter("keys", Kind.READ, t)
    orders = {"argsort": P.S32, "argsort64": P.S64}
    chosen = (keys, Parameter("perm", Kind.WRITE, P.S32))
    return [
        Routine(f"select_{t}", (*chosen, *numbers("outer n first flags")), _run_select, stops=True),
        Routine(f"sort_{t}", plain, _run_sort, stops=True, steady=True),
        *(
            Routine(
                f"{name}_{t}",
                (keys, Parameter("perm", Kind.UPDATE, order), *rest),
                _run_argsort,
                stops=True,
                steady=True,
            )
            for name, order in orders.items()
        ),
    ]


def _first(extreme: str, t: P) -> Routine:
    parameters = (
        Parameter("in", Kind.READ, t),
        Parameter("values", Kind.WRITE, t),
        Parameter("places", Kind.WRITE, P.S32),
        Parameter("work", Kind.WORK, P.S64),
        *numbers("outer n"),
    )
    run = partial(_run_first, extreme)
    return Routine(f"first_{extreme}_{t}", parameters, run, stops=True, steady=True)


def _run_first(
    extreme: str, source: Array, values: Array, places: Array, work: Array, outer: int, n: int
) -> None:
    rows = source[: outer * n].reshape(outer, n)
    places[:outer] = rows.argmax(1) if extreme == "max" else rows.argmin(1)
    values[:outer] = rows[np.arange(outer), places[:outer]]


def _run_partition(size: int, truth: Array, source: Array, out: Array, n: int, flags: int) -> None:
    rows = source[: n * size].reshape(n, size)
    out[: n * size] = rows[_order(truth[:n], flags)].reshape(-1)


def _run_partition_of_places(truth: Array, out: Array, n: int, flags: int) -> None:
    out[:n] = _order(truth[:n], flags)


def _partitions() -> Iterator[Routine]:
    truth, rest = Parameter("truth", Kind.READ, P.PRED), numbers("n flags")
    elements = (truth, Parameter("in", Kind.READ), Parameter("out", Kind.WRITE), *rest)
    for size in PARTITIONED_BYTES:
        run = partial(_run_partition, size)
        yield Routine(f"partition_b{size}", elements, run, steady=True)
    for t in PARTITIONED_PLACES:
        places = (truth, Parameter("out", Kind.WRITE, t), *rest)
        yield Routine(f"partition_{t}", places, _run_partition_of_places, steady=True)


_MERGE_ARGSORT = Routine(
    "merge_argsort",
    (
        Parameter("less", Kind.KERNEL),
        Parameter("perm", Kind.WRITE, P.S32),
        Parameter("work", Kind.WORK, P.S32),
        *numbers(_ROWS),
    ),
    _run_merge_argsort,
)


def _routines() -> Iterator[Routine]:
    yield _MERGE_ARGSORT
    for sorted_type in SORT_TYPES:
        yield from _sorts(sorted_type)
    yield from _partitions()
    for searched in EXTREME_TYPES:
        yield from (_first(extreme, searched) for extreme in EXTREMES)
    for scanned in SCAN_TYPES:
        yield from (_scan(op, scanned) for op in operations_of(scanned))


ROUTINES = {routine.name: routine for routine in _routines()}
