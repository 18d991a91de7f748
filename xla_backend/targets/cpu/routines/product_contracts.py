"""Contracts of products of matrices and of convolutions; `gemm` and `conv` say what they mean."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from xla_backend.program.routines import Kind, Parameter, Routine
from xla_backend.targets.cpu.routines.contract_parts import Array, OnDemand, grid, numbers
from xla_backend.targets.cpu.routines.conv_dims import FIELDS
from xla_backend.targets.cpu.routines.gemm_tiles import GEMM_TYPES, GemmType

_ADD = 1
# Blocks of a result that references hand to an epilogue.
_ROWS_AT_ONCE, _COLUMNS = 64, 512


# -- products --------------------------------------------------------------------------------------


# Of names, whether there are several products, and whether an epilogue sees them.
_FORMS = (
    ("", False, False),
    ("fused_", False, True),
    ("batched_", True, False),
    ("fused_batched_", True, True),
)


def _gemm(name: str, t: GemmType, batched: bool, fused: bool) -> Routine:
    parameters = [
        *numbers("batches M N K" if batched else "M N K"),
        Parameter("A", Kind.READ, t.source),
        *numbers("bsA rsA csA" if batched else "rsA csA"),
        Parameter("B", Kind.READ, t.source),
        *numbers("bsB rsB csB" if batched else "rsB csB"),
        Parameter("C", Kind.UPDATE, t.target, optional=fused),
        *numbers("bsC ldc flags" if batched else "ldc flags"),
    ]
    if fused:
        parameters += [Parameter("epilogue", Kind.KERNEL, optional=True)]
        parameters += numbers("batch weight inner osA osB" if batched else "batch weight")
    reference = partial(_run_gemm, t, [p.name for p in parameters])
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
        a = o["A"][a_start + grid((m, o["rsA"]), (k, o["csA"]))].astype(compute)
        b = o["B"][b_start + grid((k, o["rsB"]), (n, o["csB"]))].astype(compute)
        place = batch * o["bsC"] + grid((m, o["ldc"]), (n, 1))
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
            images = group * d["xg"] + grid((d["n"], d["xb"]), (d["ci"], d["xc"]))
            pixels = x[images[..., None, None, None] + where].astype(compute)
            pixels = np.where(inside, pixels, np.zeros((), compute))
            shift = sum(i * d[f"w{k}"] for k, i in enumerate(tap))
            taps = grid((d["ci"], d["wi"]), (d["co"], d["wo"]))
            factors = weights[first + group * d["wg"] + shift + taps].astype(compute)
            # As a product of matrices: einsum knows few of the small types.
            sums = np.moveaxis(pixels, 1, -1) @ factors
            total += np.moveaxis(sums, -1, 1)
        place = group * d["og"] + grid(
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


def _makers() -> dict[str, Callable[[], Routine]]:
    found: dict[str, Callable[[], Routine]] = {}
    for name, t in GEMM_TYPES.items():
        for form, batched, fused in _FORMS:
            found[f"gemm_{form}{name}"] = partial(_gemm, f"gemm_{form}{name}", t, batched, fused)
        found[f"conv_{name}"] = partial(_convolution, t, f"conv_{name}")
        if t.source is t.compute is t.target and t.compute.is_floating:
            for kind in ("channels", "planes"):
                direct = f"conv_direct_{kind}_{name}"
                found[direct] = partial(_convolution, t, direct, kind)
    return found


ROUTINES = OnDemand(_makers())
