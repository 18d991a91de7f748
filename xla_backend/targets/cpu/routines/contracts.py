"""Contracts of the routines that programs call: `ROUTINES`, by name. The native function of
`gemm_f32` is `pyjax_gemm_f32`, with the operands in the same order; see the package for what they
mean.

The references are plain and slow. They do what the native routines do up to the order in which
sums are formed, so results in floating point are close, not equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.targets.cpu.routines.conv import FIELDS
from xla_backend.targets.cpu.routines.cumulative import SCAN_TYPES, operations_of
from xla_backend.targets.cpu.routines.fft_contracts import fft_routines
from xla_backend.targets.cpu.routines.first_extremes import EXTREME_TYPES, EXTREMES
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES, GemmType
from xla_backend.targets.cpu.routines.lapack_contracts import lapack_routines
from xla_backend.targets.cpu.routines.matrix_contracts import matrix_routines
from xla_backend.targets.cpu.routines.sort_types import SORT_TYPES
from xla_backend.targets.cpu.routines.transpose_contracts import transpose_routines

Array = np.ndarray
_ADD = 1
_DESCENDING, _REFINE = 1, 2
_FROM_THE_END = 1
# Blocks of a result that references hand to an epilogue.
_ROWS_AT_ONCE, _COLUMNS = 64, 512


def _numbers(names: str) -> list[Parameter]:
    return [Parameter(name, Kind.NUMBER) for name in names.split()]


def _grid(*axes: tuple[int, int]) -> Array:
    """Indices of an array with the given (extent, stride) axes in flat memory."""
    index: Array = np.zeros((), np.int64)
    for extent, stride in axes:
        index = index[..., None] + np.arange(extent) * stride
    return index


# -- products --------------------------------------------------------------------------------------


def _gemm(t: GemmType, batched: bool, fused: bool) -> Routine:
    parameters = [
        *_numbers("batches M N K" if batched else "M N K"),
        Parameter("A", Kind.READ, t.source),
        *_numbers("bsA rsA csA" if batched else "rsA csA"),
        Parameter("B", Kind.READ, t.source),
        *_numbers("bsB rsB csB" if batched else "rsB csB"),
        Parameter("C", Kind.UPDATE, t.target, optional=fused),
        *_numbers("bsC ldc flags" if batched else "ldc flags"),
    ]
    if fused:
        parameters += [Parameter("epilogue", Kind.KERNEL, optional=True)]
        parameters += _numbers("batch weight inner osA osB" if batched else "batch weight")
    form = f"{'fused_' if fused else ''}{'batched_' if batched else ''}"
    reference = partial(_run_gemm, t, [p.name for p in parameters])
    name = f"gemm_{form}{t.name}"
    return Routine(name, tuple(parameters), reference, stops=True, steady=True)


def _run_gemm(t: GemmType, names: list[str], *operands: Any) -> None:
    given: dict[str, Any] = {"batches": 1, "bsA": 0, "bsB": 0, "bsC": 0, "osA": 0, "osB": 0}
    o = given | {"epilogue": None} | dict(zip(names, operands))
    batches, m, n, k = o["batches"], o["M"], o["N"], o["K"]
    inner = o.get("inner", batches)
    compute, c = t.compute.numpy_dtype, o["C"]
    if c is None:  # only the epilogue sees it
        c = np.zeros(batches * m * n, t.target.numpy_dtype)
        o["bsC"], o["ldc"] = m * n, n
    for batch in range(batches):
        group, member = divmod(batch, inner)
        a_start = member * o["bsA"] + group * o["osA"]
        b_start = member * o["bsB"] + group * o["osB"]
        a = o["A"][a_start + _grid((m, o["rsA"]), (k, o["csA"]))].astype(compute)
        b = o["B"][b_start + _grid((k, o["rsB"]), (n, o["csB"]))].astype(compute)
        place = batch * o["bsC"] + _grid((m, o["ldc"]), (n, 1))
        product = a @ b
        if o["flags"] & _ADD:
            product = product + c[place].astype(compute)
        c[place] = product.astype(c.dtype)
    if o["epilogue"] is not None:
        for batch in range(batches):
            start = batch * o["bsC"]
            _hand_over(o["epilogue"], c[start:], o["ldc"], m, n, batch=o["batch"] + batch)


def _hand_over(
    epilogue: Callable[..., None],
    c: Array,
    ld: int,
    m: int,
    n: int,
    *,
    first: int = 0,
    line: int = _COLUMNS,
    batch: int = 0,
) -> None:
    """Give a matrix to an epilogue in blocks of columns in whole lines and of some rows. `first`:
    the number of its first row in the array that it is a part of."""
    for row, column in np.ndindex(-(-m // _ROWS_AT_ONCE), -(-n // line)):
        i, j = row * _ROWS_AT_ONCE, column * line
        rows, columns = min(m - i, _ROWS_AT_ONCE), min(n - j, line)
        epilogue(
            c[i * ld + j :],
            ld=ld,
            row_lo=first + i,
            rows=rows,
            column_lo=j,
            columns=columns,
            batch=batch,
        )


# -- convolutions ----------------------------------------------------------------------------------


def _convolution(t: GemmType, name: str, kind: str | None = None) -> Routine:
    """`kind`: of a direct one, which takes an epilogue."""
    parameters = [
        Parameter("x", Kind.READ, t.source),
        Parameter("w", Kind.READ, t.source, origin=True),
        Parameter("out", Kind.WRITE, t.target),
        Parameter("dims", Kind.NUMBERS),
    ]
    if kind is not None:
        parameters += [Parameter("epilogue", Kind.KERNEL, optional=True)]
    reference = partial(_run_convolution, t, kind)
    return Routine(name, tuple(parameters), reference, stops=True)


def _run_convolution(
    t: GemmType,
    kind: str | None,
    x: Array,
    w: tuple[Array, int],
    out: Array,
    dims: tuple[int, ...],
    epilogue: Callable[..., None] | None = None,
) -> None:
    d = dict(zip(FIELDS, dims))
    compute = t.compute.numpy_dtype
    weights, first = w
    for group in range(d["groups"]):
        total = np.zeros((d["n"], d["co"], d["out0"], d["out1"], d["out2"]), compute)
        for tap in np.ndindex(d["win0"], d["win1"], d["win2"]):
            inside, where = _pixels(d, tap)
            images = group * d["xg"] + _grid((d["n"], d["xb"]), (d["ci"], d["xc"]))
            pixels = x[images[..., None, None, None] + where].astype(compute)
            pixels = np.where(inside, pixels, np.zeros((), compute))
            shift = sum(i * d[f"w{k}"] for k, i in enumerate(tap))
            taps = _grid((d["ci"], d["wi"]), (d["co"], d["wo"]))
            factors = weights[first + group * d["wg"] + shift + taps].astype(compute)
            # As a product of matrices: einsum knows few of the small types.
            sums = np.moveaxis(pixels, 1, -1) @ factors
            total += np.moveaxis(sums, -1, 1)
        place = group * d["og"] + _grid(
            (d["n"], d["ob"]), (d["co"], d["oc"]), *((d[f"out{k}"], d[f"o{k}"]) for k in range(3))
        )
        out[place] = total.astype(out.dtype)
    if epilogue is None:
        return
    features, line = d["co"], d["out2"]
    pixels = d["out0"] * d["out1"] * line
    if kind == "channels":
        _hand_over(epilogue, out, features, d["n"] * pixels, features)
        return
    for row in range(0, d["n"] * features, features):
        _hand_over(epilogue, out[row * pixels :], pixels, features, pixels, first=row, line=line)


def _pixels(d: dict[str, int], tap: tuple[int, ...]) -> tuple[Array, Array]:
    """Which outputs have a pixel under a tap of the window, and where in the image it lies."""
    inside: Array = np.ones((), bool)
    where: Array = np.zeros((), np.int64)
    for k, step in enumerate(tap):
        position = np.arange(d[f"out{k}"]) * d[f"stride{k}"] - d[f"pad{k}"] + step * d[f"wdil{k}"]
        pixel, between = np.divmod(position, d[f"xdil{k}"])
        fits = (between == 0) & (pixel >= 0) & (pixel < d[f"in{k}"])
        inside = inside[..., None] & fits
        where = where[..., None] + np.where(fits, pixel, 0) * d[f"x{k}"]
    return inside, where


# -- along one axis --------------------------------------------------------------------------------

_ROWS = "outer n inner"


def _rows(outer: int, n: int, inner: int) -> Iterator[Array]:
    """Indices of the rows of [outer, n, inner] along the middle axis."""
    yield from np.moveaxis(_grid((outer, n * inner), (n, inner), (inner, 1)), 1, -1).reshape(-1, n)


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
        *_numbers(f"{_ROWS} flags"),
    )
    return Routine(f"{op}_{t}", parameters, partial(_run_scan, op, t), stops=True, steady=True)


def _sorts(t: P) -> list[Routine]:
    rest = _numbers(f"{_ROWS} flags lo hi")
    plain = (Parameter("in", Kind.READ, t), Parameter("out", Kind.WRITE, t), *rest)
    keys = Parameter("keys", Kind.READ, t)
    orders = {"argsort": P.S32, "argsort64": P.S64}
    chosen = (keys, Parameter("perm", Kind.WRITE, P.S32))
    return [
        Routine(
            f"select_{t}", (*chosen, *_numbers("outer n first flags")), _run_select, stops=True
        ),
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
        *_numbers("outer n"),
    )
    run = partial(_run_first, extreme)
    return Routine(f"first_{extreme}_{t}", parameters, run, stops=True, steady=True)


def _run_first(
    extreme: str, source: Array, values: Array, places: Array, work: Array, outer: int, n: int
) -> None:
    rows = source[: outer * n].reshape(outer, n)
    places[:outer] = rows.argmax(1) if extreme == "max" else rows.argmin(1)
    values[:outer] = rows[np.arange(outer), places[:outer]]


# -- written into the program ----------------------------------------------------------------------


def _run_rng_state(state: Array, out: Array, delta: int) -> None:
    with np.errstate(over="ignore"):
        out[:] = state[0], 0
        state[0] += np.uint64(delta)


_RNG_STATE = Routine(
    "rng_state",
    (
        Parameter("state", Kind.UPDATE, P.U64),
        Parameter("out", Kind.WRITE, P.U64),
        *_numbers("delta"),
    ),
    _run_rng_state,
)
_MERGE_ARGSORT = Routine(
    "merge_argsort",
    (
        Parameter("less", Kind.KERNEL),
        Parameter("perm", Kind.WRITE, P.S32),
        Parameter("work", Kind.WORK, P.S32),
        *_numbers(_ROWS),
    ),
    _run_merge_argsort,
)


def _routines() -> dict[str, Routine]:
    found = [_RNG_STATE, _MERGE_ARGSORT, *matrix_routines(), *lapack_routines()]
    found += [*fft_routines(), *transpose_routines()]
    for name, t in GEMM_TYPES.items():
        found += [_gemm(t, batched, fused) for batched in (False, True) for fused in (False, True)]
        found += [_convolution(t, f"conv_{name}")]
        if t.source is t.compute is t.target and t.compute.is_floating:
            kinds = ("channels", "planes")
            found += [_convolution(t, f"conv_direct_{kind}_{name}", kind) for kind in kinds]
    for sorted_type in SORT_TYPES:
        found += _sorts(sorted_type)
    for searched in EXTREME_TYPES:
        found += [_first(extreme, searched) for extreme in EXTREMES]
    for scanned in SCAN_TYPES:
        found += [_scan(op, scanned) for op in operations_of(scanned)]
    return {routine.name: routine for routine in found}


ROUTINES = _routines()
