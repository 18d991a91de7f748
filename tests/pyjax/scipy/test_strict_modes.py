"""No function of SciPy's, of nn or of numpy.linalg raises under `numpy_rank_promotion="raise"` and
`numpy_dtype_promotion="strict"` because of what it does inside. Traced only."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, nn
from pyjax.scipy import (
    cluster,
    fft,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    sparse,
    special,
    stats,
)

_rng = np.random.RandomState(0)


def _floats(*shape: int) -> Any:
    return (_rng.rand(*shape) + 0.5).astype(np.float32)


v, w, x, bv, b = _floats(4), _floats(4), _floats(8), _floats(2, 4), _floats(2, 4, 4)
m, n = _floats(4, 4), _floats(4, 4)
u, k = v / 3, np.arange(4, dtype=np.float32)
spd = m @ m.T + 4 * np.eye(4, dtype=np.float32)
stack, z = np.stack([spd, spd]), m.astype(np.complex64)
q, lengths = _floats(2, 8, 4, 16), np.array([3, 4], np.int32)
TABLE: dict[str, Callable[[], Any]] = {}


def _each(prefix: str, module: Any, names: str, *args: Any, **keywords: Any) -> None:
    for name in names.split():
        function = getattr(module, name)
        TABLE[f"{prefix} {name}"] = lambda function=function: function(*args, **keywords)


_FACTORS = "cholesky det inv lu lu_factor qr svd eigh schur hessenberg expm"
_each("matrix", linalg, f"{_FACTORS} sqrtm polar", spd)
_each("complex", linalg, f"{_FACTORS} sqrtm polar", spd.astype(np.complex64))
_each("stack", linalg, _FACTORS, stack)
_NUMPY = "cond det eig eigh inv matrix_rank pinv qr slogdet svd cholesky matrix_norm vector_norm"
_each("matrix", jnp.linalg, _NUMPY, spd)
_each("stack", jnp.linalg, _NUMPY, stack)
_each("lax", lax.linalg, "eigh qr svd lu schur hessenberg cholesky eig", stack)
for _norm in (None, "ortho"):
    _each(f"vector {_norm}", fft, "dct idct dctn idctn", x, norm=_norm)
    _each(f"stack {_norm}", fft, "dct idct dctn idctn", b, norm=_norm)
    _each(f"complex {_norm}", fft, "dct idct", z, norm=_norm)
_UNARY = (
    "entr exp1 expi digamma gamma gammaln gammasgn loggamma factorial erf erfc erfinv expit i0 "
    "i0e i1 i1e log_ndtr logit ndtr ndtri softmax log_softmax zeta dawsn erfcx fresnel sici spence "
    "wofz"
)
_each("vector", special, _UNARY, u)
_each("matrix", special, _UNARY, m / 3)
_BINARY = (
    "kl_div rel_entr xlog1py xlogy beta betaln comb gammainc gammaincc poch boxcox boxcox1p owens_t"
)
_each("vector", special, _BINARY, v + 1, w)
_each("matrix", special, _BINARY, m + 1, n)
_each("matrix", signal, "convolve correlate convolve2d correlate2d fftconvolve", m, n)
_NN = (
    "relu relu6 sigmoid softplus soft_sign silu log_sigmoid elu celu selu gelu glu hard_tanh "
    "hard_sigmoid hard_silu leaky_relu squareplus mish softmax log_softmax logsumexp logmeanexp "
    "standardize log1mexp sparse_plus sparse_sigmoid"
)
_each("matrix", nn, _NN, m)
for _distribution, _args in {
    "bernoulli": (k % 2, u),
    "beta": (u, v, w),
    "betabinom": (k, k + 4, v, w),
    "binom": (k, k + 4, u),
    "cauchy": (v, w, v),
    "chi2": (v, w),
    "expon": (v, w, v),
    "gamma": (v, w),
    "gennorm": (v, w),
    "geom": (k + 1, u),
    "gumbel_l": (v, w, v),
    "gumbel_r": (v, w, v),
    "laplace": (v, w, v),
    "logistic": (v, w, v),
    "nbinom": (k, v, u),
    "norm": (v, w, v),
    "pareto": (v, w),
    "poisson": (k, v),
    "t": (v, w),
    "truncnorm": (v, -v, v),
    "uniform": (v, w, v),
    "vonmises": (v, w),
    "wrapcauchy": (v, u),
}.items():
    _module = import_module(f"pyjax.scipy.stats.{_distribution}")
    for _name in "logpdf pdf logpmf pmf cdf logcdf sf logsf ppf isf".split():
        if hasattr(_module, _name):
            _each(_distribution, _module, _name, *_args)

TABLE |= {
    "funm": lambda: linalg.funm(spd, jnp.exp, disp=False),
    "cho_solve": lambda: linalg.cho_solve(linalg.cho_factor(spd), v),
    "solve": lambda: linalg.solve(spd, v, assume_a="pos"),
    "solve stack": lambda: linalg.solve(stack, b),
    "solve_triangular": lambda: linalg.solve_triangular(m, v),
    "lu_solve": lambda: linalg.lu_solve(linalg.lu_factor(m), v, trans=1),
    "expm_frechet": lambda: linalg.expm_frechet(m, n),
    "rsf2csf": lambda: linalg.rsf2csf(*linalg.schur(jnp.asarray(m))),
    "rsf2csf stack": lambda: linalg.rsf2csf(b, b),
    "polar": lambda: linalg.polar(m, method="svd"),
    "polar left": lambda: linalg.polar(m, side="left", method="svd"),
    "block_diag": lambda: linalg.block_diag(m, v),
    "toeplitz": lambda: linalg.toeplitz(bv),
    "hankel": lambda: linalg.hankel(v, w),
    "circulant": lambda: linalg.circulant(bv),
    "companion": lambda: linalg.companion(bv),
    "fiedler": lambda: linalg.fiedler(bv),
    "leslie": lambda: linalg.leslie(v, w[1:]),
    "detrend": lambda: signal.detrend(bv, bp=[2]),
    "detrend constant": lambda: signal.detrend(bv, type="constant"),
    "logsumexp": lambda: special.logsumexp(m, axis=1, b=n, where=m > 1, return_sign=True),
    "expn": lambda: special.expn(k, v),
    "polygamma": lambda: special.polygamma(k, v),
    "betainc": lambda: special.betainc(v, w, u),
    "multigammaln": lambda: special.multigammaln(m + 3, 2),
    "comb repetition": lambda: special.comb(v, w, repetition=True),
    "gamma complex": lambda: special.gamma(z),
    "wofz complex": lambda: special.wofz(z),
    "hyp1f1": lambda: special.hyp1f1(v, w, u),
    "hyp2f1": lambda: special.hyp2f1(v, w, v + 1, u),
    "lpmn": lambda: special.lpmn(2, 2, u),
    "dirichlet": lambda: stats.dirichlet.logpdf(m / m.sum(0, keepdims=True), w),
    "multivariate_normal": lambda: stats.multivariate_normal.logpdf(bv, v, spd),
    "mode": lambda: stats.mode(m),
    "rankdata": lambda: stats.rankdata(m, axis=1),
    "sem": lambda: stats.sem(m),
    "kde": lambda: stats.gaussian_kde(x).logpdf(v),
    "kde kde": lambda: stats.gaussian_kde(x).integrate_kde(stats.gaussian_kde(x)),
    "map_coordinates": lambda: ndimage.map_coordinates(m, [v, w], order=1),
    "map_coordinates ints": lambda: ndimage.map_coordinates(np.ones((4, 4), int), [v, w], order=1),
    "trapezoid": lambda: integrate.trapezoid(m, v),
    "interpolator": lambda: interpolate.RegularGridInterpolator((v.cumsum(), w.cumsum()), m)(bv.T),
    "vq": lambda: cluster.vq.vq(m, n),
    "minimize": lambda: optimize.minimize(lambda t: ((t - v) ** 2).sum(), w, method="BFGS"),
    "cg": lambda: sparse.linalg.cg(spd, v)[0],
    "bicgstab": lambda: sparse.linalg.bicgstab(spd, v)[0],
    "gmres": lambda: sparse.linalg.gmres(spd, v)[0],
    "gmres complex": lambda: sparse.linalg.gmres(z, v.astype(np.complex64))[0],
    "attention": lambda: nn.dot_product_attention(
        q, q, q, is_causal=True, local_window_size=2, query_seq_lengths=lengths,
        key_value_seq_lengths=lengths, mask=np.ones((2, 1, 8, 8), bool), return_residual=True
    ),
    "one_hot": lambda: nn.one_hot(lengths, 5),
    "lstsq": lambda: jnp.linalg.lstsq(m, n),
    "matrix_power": lambda: jnp.linalg.matrix_power(stack, 3),
    "tensorsolve": lambda: jnp.linalg.tensorsolve(_floats(4, 2, 2), v),
    "hfft": lambda: jnp.fft.hfft(b),
    "irfft2": lambda: jnp.fft.irfft2(b, norm="forward"),
    "at power": lambda: jnp.asarray(m).at[...].power(v),
}  # fmt: skip


def test_nothing_promotes_inside() -> None:
    failed = {}
    with pyjax.numpy_rank_promotion("raise"), pyjax.numpy_dtype_promotion("strict"):
        for name, call in TABLE.items():
            try:
                pyjax.eval_shape(lambda call=call: pyjax.tree.leaves(call()))
            except (TypeError, ValueError) as error:
                failed[name] = str(error).splitlines()[0]
    assert not failed


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: linalg.lu(spd)[0], np.eye(4)),
        (lambda: linalg.qr(np.ones((4, 3)), mode="r")[0].shape, (4, 3)),
        (lambda: linalg.qr(np.ones((4, 3)), mode="r", pivoting=True)[0].shape, (4, 3)),
        (lambda: linalg.rsf2csf(b, b)[0].shape, (2, 4, 4)),
        (lambda: special.comb(np.zeros(2), np.array([0.0, 4.0]), repetition=True), [1, 0]),
        (lambda: stats.beta.logpdf(0.5, -1.0, 2.0), np.nan),
        (lambda: stats.beta.logpdf(0.5, 1.0, 2.0, scale=-1.0), np.nan),
        (lambda: stats.beta.logpdf(2.0, 1.0, 2.0), -np.inf),
        (lambda: jnp.linalg.norm(np.zeros((0, 1)), ord=np.inf), 0),
        (lambda: jnp.linalg.norm(np.zeros((0, 1)), ord=2), 0),
        (lambda: ndimage.map_coordinates(np.arange(-3, 3), [np.arange(0.5, 4)], 0), [-2, -1, 0, 1]),
        (
            lambda: ndimage.map_coordinates(np.arange(-3, 3), [np.arange(0.5, 4)], 1),
            [-3, -2, -1, 1],
        ),
        (
            lambda: pyjax.vmap(
                lambda _: lax.psum(2.0, "i", axis_index_groups=[[0, 1], [2, 3]]), axis_name="i"
            )(v),
            [4] * 4,
        ),
        (lambda: fft.dct(z.real + 1j * n) - fft.dct(z.real) - 1j * fft.dct(n), np.zeros((4, 4))),
        (lambda: jnp.abs(fft.idct(fft.dct(z)) - z).max() < 1e-5, True),
    ],
)
def test_values(call: Callable[[], Any], expected: Any) -> None:
    np.testing.assert_array_equal(call(), expected)


@pytest.mark.parametrize("mu", [0.0, 0.3, 3.0, 19.0, 25.0, 400.0])
def test_entropy_of_poisson(mu: float) -> None:
    expected = import_module("scipy.stats").poisson.entropy(mu)
    np.testing.assert_allclose(stats.poisson.entropy(mu), expected, rtol=3e-6, atol=1e-6)


def test_complex_gamma() -> None:
    points = np.array([1 + 1j, -0.7 + 0.2j, 4.5 - 3j, 0.5, -2.5 + 1e-3j])
    expected = import_module("scipy.special").gamma(points)
    with pyjax.enable_x64(True):
        np.testing.assert_allclose(special.gamma(points), expected, rtol=1e-12)
        slope = pyjax.grad(lambda t: special.gamma(t).real, holomorphic=False)(0.3)
        np.testing.assert_allclose(slope, special.gamma(0.3) * special.digamma(0.3), rtol=1e-10)
        step = 1e-6
        change = pyjax.jvp(special.gamma, (points,), (np.ones_like(points),))[1]
        secant = (special.gamma(points + step) - special.gamma(points - step)) / (2 * step)
        np.testing.assert_allclose(change[:4], secant[:4], rtol=1e-7)


def test_solvers_take_operators() -> None:
    class Twice:
        shape = (4, 4)
        dtype = np.float32

        def __matmul__(self, other: Any) -> Any:
            return 2 * other

    np.testing.assert_allclose(sparse.linalg.cg(Twice(), v)[0], v / 2, rtol=1e-6)


def test_logsumexp_makes_no_nan() -> None:
    with pyjax.debug_nans(True), pyjax.disable_jit():
        assert float(special.logsumexp(1.0, b=1.0)) == 1.0


def test_residual_of_attention_has_the_dtype_of_the_query() -> None:
    half = q.astype(np.float16)
    assert nn.dot_product_attention(half, half, half, return_residual=True)[1].dtype == np.float16
