"""`numpy_rank_promotion="raise"` and `numpy_dtype_promotion="strict"` are about the user's
operands: no public function raises for operands of equal rank and dtype because of what it does
inside."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp

_rng = np.random.RandomState(0)
v, w = (jnp.asarray(_rng.rand(4).astype(np.float32) + 0.5) for _ in range(2))
m, n = (jnp.asarray(_rng.rand(4, 4).astype(np.float32) + 0.5) for _ in range(2))
i, j = jnp.asarray([0, 1, 2, 3], np.int32), jnp.asarray([3, 1, 2, 1], np.int32)
b, c = jnp.asarray([True, False, True, True]), jnp.asarray([True, True, False, True])
z = v.astype(np.complex64)
spd = m @ m.T + 4 * jnp.eye(4)

# All functions are called with each of these, if they take it.
OPERANDS: dict[str, tuple[Any, ...]] = {
    "f": (v,),
    "ff": (v, w),
    "matrices": (m, n),
    "i": (i,),
    "ii": (i, j),
    "cc": (z, z),
}
_HOST = {"save", "savez", "load", "fromfile", "from_dlpack", "set_printoptions", "printoptions"}
# What has an integer meet a number of another kind that is a parameter's default.
PROMOTING = {("unwrap", "i")}
FUNCTIONS = sorted(
    name
    for name in dir(jnp)
    if not name.startswith("_")
    and name not in _HOST
    and callable(getattr(jnp, name))
    and not inspect.isclass(getattr(jnp, name))
)

# Those that take more than arrays, or several forms of them.
CALLS: dict[str, Callable[[], Any]] = {
    "arange": lambda: jnp.arange(4.0),
    "linspace": lambda: jnp.linspace(0.0, 1.0, 5),
    "linspace v": lambda: jnp.linspace(v, w, 5),
    "linspace int": lambda: jnp.linspace(0, 10, 5),
    "logspace": lambda: jnp.logspace(0.0, 1.0, 5),
    "geomspace": lambda: jnp.geomspace(1.0, 2.0, 5),
    "geomspace v": lambda: jnp.geomspace(v, w, 5),
    "logspace v": lambda: jnp.logspace(v, w, 5),
    "where": lambda: jnp.where(b, v, w),
    "select": lambda: jnp.select([b, c], [v, w]),
    "piecewise": lambda: jnp.piecewise(v, [b, ~b], [lambda x: x, lambda x: x + x]),
    "piecewise s": lambda: jnp.piecewise(v, [v < 0, v >= 0], [-1.0, 1.0]),
    "place": lambda: jnp.place(v, b, w, inplace=False),
    "put": lambda: jnp.put(v, i, w, inplace=False),
    "clip": lambda: jnp.clip(v, w, w + 1),
    "clip s": lambda: jnp.clip(v, 0.0, 1.0),
    "percentile": lambda: jnp.percentile(v, 50.0),
    "percentile v": lambda: jnp.percentile(v, jnp.asarray([20.0, 30.0])),
    "percentile m": lambda: jnp.percentile(m, 50.0, axis=1),
    "percentile mv": lambda: jnp.percentile(m, jnp.asarray([20.0, 30.0]), axis=0),
    "quantile": lambda: jnp.quantile(v, 0.5),
    "nanquantile": lambda: jnp.nanquantile(v, 0.5),
    "nanpercentile": lambda: jnp.nanpercentile(m, 50.0, axis=0),
    "interp": lambda: jnp.interp(v, w.sort(), v),
    "interp lr": lambda: jnp.interp(v, w.sort(), v, left=0.0, right=1.0, period=None),
    "interp p": lambda: jnp.interp(v, w, v, period=2.0),
    "gradient": lambda: jnp.gradient(v),
    "gradient m": lambda: jnp.gradient(m),
    "gradient h": lambda: jnp.gradient(v, 0.5),
    "gradient hv": lambda: jnp.gradient(v, jnp.cumsum(w)),
    "polyadd d": lambda: jnp.polyadd(v, w[:3]),
    "polyval": lambda: jnp.polyval(v, w),
    "polyfit": lambda: jnp.polyfit(v, w, 2),
    "polyder": lambda: jnp.polyder(v),
    "polyint": lambda: jnp.polyint(v),
    "roots": lambda: jnp.roots(v),
    "polydiv": lambda: jnp.polydiv(v, w[:2]),
    "polysub d": lambda: jnp.polysub(v, w[:3]),
    "poly": lambda: jnp.poly(v),
    "polymul": lambda: jnp.polymul(v, w),
    "take": lambda: jnp.take(v, i),
    "take m": lambda: jnp.take(m, i, axis=1),
    "take_along_axis": lambda: jnp.take_along_axis(m, jnp.stack([i] * 4), 1),
    "choose": lambda: jnp.choose(i % 2, [v, w]),
    "compress": lambda: jnp.compress(b, v),
    "extract": lambda: jnp.extract(b, v),
    "nonzero": lambda: jnp.nonzero(v),
    "argwhere": lambda: jnp.argwhere(m),
    "searchsorted": lambda: jnp.searchsorted(v.sort(), w),
    "digitize": lambda: jnp.digitize(v, w.sort()),
    "histogram": lambda: jnp.histogram(v),
    "histogram w": lambda: jnp.histogram(v, weights=w),
    "histogram2d": lambda: jnp.histogram2d(v, w),
    "histogramdd": lambda: jnp.histogramdd(m),
    "bincount": lambda: jnp.bincount(i),
    "bincount w": lambda: jnp.bincount(i, weights=v),
    "unique": lambda: jnp.unique(i, return_counts=True, return_inverse=True),
    "union1d": lambda: jnp.union1d(i, j),
    "isin": lambda: jnp.isin(i, j),
    "intersect1d": lambda: jnp.intersect1d(i, j),
    "average": lambda: jnp.average(v, weights=w),
    "average m": lambda: jnp.average(m, axis=1, weights=n),
    "average mv": lambda: jnp.average(m, axis=1, weights=v),
    "cov": lambda: jnp.cov(m),
    "cov2": lambda: jnp.cov(m, n),
    "cov w": lambda: jnp.cov(m, aweights=v),
    "corrcoef": lambda: jnp.corrcoef(m),
    "var": lambda: jnp.var(m, axis=1),
    "std": lambda: jnp.std(m, axis=0),
    "var dd": lambda: jnp.var(m, ddof=1),
    "nanvar": lambda: jnp.nanvar(m, axis=0),
    "nanstd": lambda: jnp.nanstd(m),
    "nanmean": lambda: jnp.nanmean(m, axis=0),
    "median": lambda: jnp.median(m, axis=0),
    "nanmedian": lambda: jnp.nanmedian(m, axis=1),
    "mean": lambda: jnp.mean(m, axis=0),
    "ptp": lambda: jnp.ptp(m, axis=0),
    "mean i": lambda: jnp.mean(i),
    "var i": lambda: jnp.var(i),
    "vecdot": lambda: jnp.vecdot(m, n),
    "tensordot": lambda: jnp.tensordot(m, n),
    "einsum": lambda: jnp.einsum("ij,jk", m, n),
    "kron": lambda: jnp.kron(m, n),
    "cross": lambda: jnp.cross(v[:3], w[:3]),
    "cross m": lambda: jnp.cross(m[:, :3], n[:, :3]),
    "outer": lambda: jnp.outer(v, w),
    "trapezoid": lambda: jnp.trapezoid(v, w),
    "trapezoid dx": lambda: jnp.trapezoid(m, dx=0.5),
    "array_equiv": lambda: jnp.array_equiv(m, n),
    "array_equal": lambda: jnp.array_equal(m, n),
    "array_equal nan": lambda: jnp.array_equal(m, n, equal_nan=True),
    "allclose": lambda: jnp.allclose(m, n),
    "isclose": lambda: jnp.isclose(v, w),
    "tri": lambda: jnp.tri(3),
    "tril": lambda: jnp.tril(m),
    "triu": lambda: jnp.triu(m, 1),
    "vander": lambda: jnp.vander(v),
    "vander i": lambda: jnp.vander(v, 3, increasing=True),
    "eye": lambda: jnp.eye(3),
    "diag": lambda: jnp.diag(m),
    "diagflat": lambda: jnp.diagflat(v),
    "fill_diagonal": lambda: jnp.fill_diagonal(m, 1.0, inplace=False),
    "indices": lambda: jnp.indices((2, 3)),
    "ix_": lambda: jnp.ix_(i, j),
    "meshgrid": lambda: jnp.meshgrid(v, w),
    "unravel_index": lambda: jnp.unravel_index(i, (2, 2)),
    "ravel_multi_index": lambda: jnp.ravel_multi_index((i % 2, j % 2), (2, 2), mode="clip"),
    "diag_indices": lambda: jnp.diag_indices(3),
    "tril_indices": lambda: jnp.tril_indices(3),
    "mask_indices": lambda: jnp.mask_indices(3, jnp.triu),
    "pad": lambda: jnp.pad(v, 1),
    "roll": lambda: jnp.roll(v, 1),
    "roll m": lambda: jnp.roll(m, (1, 2), (0, 1)),
    "insert": lambda: jnp.insert(v, 1, 2.0),
    "delete": lambda: jnp.delete(v, 1),
    "append": lambda: jnp.append(v, w),
    "repeat": lambda: jnp.repeat(v, 2),
    "repeat a": lambda: jnp.repeat(v, i, total_repeat_length=6),
    "tile": lambda: jnp.tile(v, 2),
    "rot90": lambda: jnp.rot90(m),
    "apply_along_axis": lambda: jnp.apply_along_axis(jnp.sum, 0, m),
    "apply_over_axes": lambda: jnp.apply_over_axes(jnp.sum, m, [0]),
    "vectorize": lambda: jnp.vectorize(lambda x, y: x + y)(v, w),
    "convolve": lambda: jnp.convolve(v, w),
    "correlate": lambda: jnp.correlate(v, w),
    "diff": lambda: jnp.diff(v),
    "diff p": lambda: jnp.diff(v, prepend=v),
    "ediff1d": lambda: jnp.ediff1d(v),
    "ediff1d e": lambda: jnp.ediff1d(v, to_begin=w, to_end=w),
    "unwrap": lambda: jnp.unwrap(v),
    "cumulative_sum": lambda: jnp.cumulative_sum(v),
    "nancumsum": lambda: jnp.nancumsum(v),
    "nan_to_num": lambda: jnp.nan_to_num(v),
    "round": lambda: jnp.round(v, 2),
    "round i": lambda: jnp.round(i),
    "sinc": lambda: jnp.sinc(v),
    "i0": lambda: jnp.i0(v),
    "angle": lambda: jnp.angle(z),
    "lexsort": lambda: jnp.lexsort((i, j)),
    "partition": lambda: jnp.partition(v, 2),
    "argpartition": lambda: jnp.argpartition(v, 2),
    "sort_complex": lambda: jnp.sort_complex(z),
    "setxor1d": lambda: jnp.setxor1d(i, j),
    "setdiff1d": lambda: jnp.setdiff1d(i, j),
    "trim_zeros": lambda: jnp.trim_zeros(v),
    "frexp": lambda: jnp.frexp(v),
    "ldexp": lambda: jnp.ldexp(v, i),
    "packbits": lambda: jnp.packbits(b),
    "unpackbits": lambda: jnp.unpackbits(jnp.uint8([3])),
    "block": lambda: jnp.block([[m, n], [n, m]]),
    "choose c": lambda: jnp.choose(i, [v, w], mode="clip"),
    "histogram_bin_edges": lambda: jnp.histogram_bin_edges(v),
    "blackman": lambda: jnp.blackman(5),
    "hanning": lambda: jnp.hanning(5),
    "hamming": lambda: jnp.hamming(5),
    "kaiser": lambda: jnp.kaiser(5, 3.0),
    "bartlett": lambda: jnp.bartlett(5),
    "x[i]": lambda: v[i],
    "x[int]": lambda: v[1],
    "x[m]": lambda: m[i, j],
    "x[bool]": lambda: v[b],
    "x.at set": lambda: v.at[i].set(w),
    "x.at add s": lambda: v.at[0].add(1.0),
    "x.at row": lambda: m.at[1].set(v),
    "x[neg traced]": lambda: v[jnp.int32(-1)],
    "x.at mul": lambda: m.at[i, j].multiply(v),
    "linalg.solve": lambda: jnp.linalg.solve(spd, m),
    "linalg.solve v": lambda: jnp.linalg.solve(spd, v),
    "lstsq": lambda: jnp.linalg.lstsq(m, n),
    "lstsq v": lambda: jnp.linalg.lstsq(m, v),
    "matrix_power": lambda: jnp.linalg.matrix_power(spd, 3),
    "matrix_power-": lambda: jnp.linalg.matrix_power(spd, -2),
    "multi_dot": lambda: jnp.linalg.multi_dot([m, n, m]),
    "tensorinv": lambda: jnp.linalg.tensorinv(jnp.eye(4).reshape(2, 2, 2, 2)),
    "tensorsolve": lambda: jnp.linalg.tensorsolve(jnp.eye(4).reshape(2, 2, 2, 2), m[:2, :2]),
    "linalg.cross": lambda: jnp.linalg.cross(v[:3], w[:3]),
    "linalg.outer": lambda: jnp.linalg.outer(v, w),
    "linalg.vecdot": lambda: jnp.linalg.vecdot(m, n),
    "linalg.matmul": lambda: jnp.linalg.matmul(m, n),
    "linalg.tensordot": lambda: jnp.linalg.tensordot(m, n),
    "norm ord": lambda: [jnp.linalg.norm(v, o) for o in (0, 1, 2, 3, jnp.inf)],
    "norm m": lambda: [jnp.linalg.norm(m, o) for o in ("fro", "nuc", 1, 2, -1, jnp.inf)],
    "cond p": lambda: jnp.linalg.cond(m, 1),
    "pinv r": lambda: jnp.linalg.pinv(m),
    "pad modes": lambda: [
        jnp.pad(m, 1, mode=k) for k in ("edge", "reflect", "wrap", "linear_ramp", "mean")
    ],
}
CALLS |= {
    f"linalg.{k}": lambda k=k: getattr(jnp.linalg, k)(spd)
    for k in (
        "cholesky",
        "cond",
        "det",
        "eig",
        "eigh",
        "eigvals",
        "inv",
        "matrix_rank",
        "norm",
        "pinv",
        "qr",
        "slogdet",
        "svd",
        "svdvals",
    )
}
CALLS |= {
    f"fft.{k}": lambda k=k: getattr(jnp.fft, k)(v)
    for k in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftshift")
}
CALLS |= {
    f"quantile {k}": lambda k=k: jnp.quantile(m, jnp.asarray([0.2, 0.3]), axis=1, method=k)
    for k in ("linear", "lower", "higher", "nearest", "midpoint")
}


def check(call: Callable[[], Any]) -> None:
    with pyjax.numpy_rank_promotion("raise"), pyjax.numpy_dtype_promotion("strict"):
        call()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    function = getattr(jnp, name)
    for kind, operands in OPERANDS.items():
        try:
            function(*operands)
        except Exception:  # it does not take these
            continue
        if (name, kind) not in PROMOTING:
            check(lambda operands=operands: function(*operands))


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str) -> None:
    check(CALLS[name])


def test_the_options_raise() -> None:
    with pyjax.numpy_rank_promotion("raise"), pytest.raises(ValueError, match="rank"):
        jnp.add(v, m)
    with pyjax.numpy_dtype_promotion("strict"), pytest.raises(ValueError, match="strict"):
        jnp.linspace(v, i)


def test_functions_that_are_about_ranks() -> None:
    key, zeros, eye = pyjax.random.key(0), jnp.zeros(2), jnp.eye(2)
    draw = pyjax.random.multivariate_normal
    expected = draw(key, zeros, eye, (3,))
    with pyjax.numpy_rank_promotion("raise"):
        assert jnp.array_equiv(jnp.ones((2, 3)), jnp.ones(3))
        assert not jnp.array_equiv(jnp.ones((2, 3)), jnp.zeros(3))
        for method in ("cholesky", "eigh", "svd"):
            assert draw(key, zeros, eye, (3,), method=method).shape == (3, 2)
        np.testing.assert_array_equal(draw(key, zeros, eye, (3,)), expected)


@pytest.mark.parametrize("name", ["sum", "max", "any", "mean", "var", "std"])
@pytest.mark.parametrize("shape", [(2, 4), (4, 3)])
def test_masks_that_do_not_broadcast(name: str, shape: tuple[int, ...]) -> None:
    more = {"initial": 0.0} if name == "max" else {}
    with pytest.raises(ValueError, match="ncompatible shapes"):
        getattr(jnp, name)(jnp.ones((2, 3)), where=np.ones(shape, bool), **more)
