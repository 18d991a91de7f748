"""Functions of the library, called outside of transformations, are one program for each kind of
arguments: the second call compiles nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, random
from pyjax.numpy.eager import one_program, program_of
from pyjax.scipy import cluster, fft, linalg, ndimage, signal, special, stats
from tests.own_cache import own_cache

# Sizes that no other test has: what is counted below is compiled here.
X = jnp.linspace(0.1, 0.9, 23)
Y = jnp.linspace(1.0, 2.0, 23)
Z = jnp.linspace(0.2, 0.7, 23)
M = jnp.eye(7) + jnp.arange(49.0).reshape(7, 7) / 100
H = M @ M.T
B = jnp.linspace(0.0, 1.0, 7)
IN_NUMPY = np.linspace(1, 9, 23, dtype=np.float32)
P, Q = X[:21].reshape(7, 3), Y[:21].reshape(7, 3)

DISTRIBUTIONS = [
    module
    for name, module in sorted(vars(stats).items())
    if isinstance(module, ModuleType) and not name.startswith("_")
]
# Parameters of densities and the like, which fit most distributions.
DENSITIES: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("bernoulli.pmf", stats.bernoulli.pmf, (X, 0.25)),
    ("bernoulli.ppf", stats.bernoulli.ppf, (X, 0.25)),
    ("beta.cdf", stats.beta.cdf, (X, 0.5, 2.5)),
    ("beta.logpdf", stats.beta.logpdf, (X, Y, Z)),
    ("betabinom.pmf", stats.betabinom.pmf, (X, 9, 0.5, 2.0)),
    ("binom.pmf", stats.binom.pmf, (X, 9, 0.25, 1)),
    ("cauchy.isf", stats.cauchy.isf, (X,)),
    ("chi2.logsf", stats.chi2.logsf, (X, Y)),
    ("dirichlet.pdf", stats.dirichlet.pdf, (B / B.sum(), B + 1)),
    ("expon.ppf", stats.expon.ppf, (X, 0.5, 2.0)),
    ("gamma.logpdf", stats.gamma.logpdf, (X, 2.0)),
    ("gennorm.cdf", stats.gennorm.cdf, (X, Y)),
    ("geom.pmf", stats.geom.pmf, (X, 0.25)),
    ("gumbel_l.sf", stats.gumbel_l.sf, (X,)),
    ("gumbel_r.logcdf", stats.gumbel_r.logcdf, (X,)),
    ("laplace.cdf", stats.laplace.cdf, (X,)),
    ("logistic.isf", stats.logistic.isf, (X, 0.5, 2.0)),
    ("multinomial.pmf", stats.multinomial.pmf, (B, 7, B)),
    ("multivariate_normal.pdf", stats.multivariate_normal.pdf, (B, B, H)),
    ("nbinom.pmf", stats.nbinom.pmf, (X, 9, 0.25)),
    ("norm.isf", stats.norm.isf, (X, 0.5, 2.0)),
    ("norm.logsf", stats.norm.logsf, (X,)),
    ("norm.ppf", stats.norm.ppf, (X, Y, Z)),
    ("pareto.logcdf", stats.pareto.logcdf, (Y, 0.5)),
    ("poisson.entropy", stats.poisson.entropy, (X,)),
    ("t.pdf", stats.t.pdf, (X, 2.0)),
    ("truncnorm.logcdf", stats.truncnorm.logcdf, (X, -1.0, 1.0)),
    ("truncnorm.sf", stats.truncnorm.sf, (X, -Y, Y)),
    ("uniform.ppf", stats.uniform.ppf, (X, 0.5)),
    ("vonmises.pdf", stats.vonmises.pdf, (X, 2.0)),
    ("wrapcauchy.pdf", stats.wrapcauchy.pdf, (X, 0.5)),
    ("rankdata", stats.rankdata, (X, "min")),
    ("mode", stats.mode, (X,)),
    ("sem", stats.sem, (X,)),
]
SPECIAL: list[tuple[str, tuple[Any, ...]]] = [
    *[
        (name, (X,))
        for name in "dawsn digamma entr erf erfc erfcx erfinv exp1 expi expit factorial fresnel "
        "gamma gammaln gammasgn i0 i0e i1 i1e log_ndtr loggamma logit ndtr ndtri sici "
        "spence".split()
    ],
    *[
        (name, (X, Y))
        for name in "beta betaln boxcox boxcox1p comb gammainc gammaincc kl_div owens_t poch "
        "rel_entr xlog1py xlogy".split()
    ],
    ("betainc", (X, Y, Z)),
    ("expn", (2, X)),
    ("hyp1f1", (X, Y, Z)),
    ("hyp2f1", (X, Y, Y, Z)),
    ("multigammaln", (Y, 1)),
    ("polygamma", (1, X)),
    ("wofz", (X + 1j,)),
    ("zeta", (Y, Z)),
]
CALLS: dict[str, Callable[[], Any]] = {
    **{name: lambda f=f, args=args: f(*args) for name, f, args in DENSITIES},
    **{name: lambda n=name, args=args: getattr(special, n)(*args) for name, args in SPECIAL},
    "cholesky": lambda: linalg.cholesky(H),
    "block_diag": lambda: linalg.block_diag(M, H),
    "cho_solve": lambda: linalg.cho_solve((H, True), B),
    "lu_solve": lambda: linalg.lu_solve((M, PIVOTS), B),
    "det": lambda: linalg.det(M),
    "eigh": lambda: linalg.eigh(H),
    "expm": lambda: linalg.expm(M, max_squarings=8),
    "expm_frechet": lambda: linalg.expm_frechet(M, H),
    "hessenberg": lambda: linalg.hessenberg(M, calc_q=True),
    "inv": lambda: linalg.inv(M),
    "lu": lambda: linalg.lu(M),
    "lu_factor": lambda: linalg.lu_factor(M),
    "polar": lambda: linalg.polar(M),
    "polar svd": lambda: linalg.polar(M, method="svd"),
    "qr": lambda: linalg.qr(M, mode="r"),
    "rsf2csf": lambda: linalg.rsf2csf(jnp.triu(M), M),
    "schur": lambda: linalg.schur(M, output="complex"),
    "solve": lambda: linalg.solve(M, B),
    "solve pos": lambda: linalg.solve(H, B, assume_a="pos"),
    "solve_sylvester": lambda: linalg.solve_sylvester(M, H, H),
    "solve_triangular": lambda: linalg.solve_triangular(M, B, trans="T"),
    "sqrtm": lambda: linalg.sqrtm(H),
    "svd": lambda: linalg.svd(M),
    "circulant": lambda: linalg.circulant(X),
    "companion": lambda: linalg.companion(X),
    "convolution_matrix": lambda: linalg.convolution_matrix(X, 3),
    "fiedler": lambda: linalg.fiedler(X),
    "fiedler_companion": lambda: linalg.fiedler_companion(X),
    "hankel": lambda: linalg.hankel(X),
    "leslie": lambda: linalg.leslie(X, X[1:]),
    "toeplitz": lambda: linalg.toeplitz(X, Y),
    "dct": lambda: fft.dct(X),
    "idct": lambda: fft.idct(X, norm="ortho"),
    "dctn": lambda: fft.dctn(M),
    "idctn": lambda: fft.idctn(M, axes=(0, 1)),
    "convolve": lambda: signal.convolve(X, B),
    "correlate": lambda: signal.correlate(X, B, mode="same"),
    "convolve2d": lambda: signal.convolve2d(M, H, mode="valid"),
    "correlate2d": lambda: signal.correlate2d(M, H, mode="same"),
    "fftconvolve": lambda: signal.fftconvolve(X, B),
    "detrend": lambda: signal.detrend(X),
    "map_coordinates": lambda: ndimage.map_coordinates(M, [B, B], 1),
    "vq": lambda: cluster.vq.vq(M, H),
    **{
        f"random.{name}": lambda n=name, args=args: getattr(random, n)(KEY, *args)
        for name, args in {
            "ball": (3, 2, (5,)),
            "beta": (X, 1.5),
            "cauchy": ((23,),),
            "f": (X, Y),
            "generalized_normal": (3.0, (23,)),
            "geometric": (X,),
            "laplace": ((23,),),
            "logistic": ((23,),),
            "lognormal": (X,),
            "maxwell": ((23,),),
            "multinomial": (20.0, B),
            "multivariate_normal": (B, H),
            "orthogonal": (7,),
            "pareto": (X,),
            "t": (X,),
            "triangular": (X, Y, Y + 1),
            "wald": (X,),
            "weibull_min": (2.0, 3.0, (23,)),
        }.items()
    },
    "random.gamma": lambda: random.gamma(KEY, X),
    "random.poisson": lambda: random.poisson(KEY, Y),
    "cross": lambda: jnp.cross(P, Q),
    "linalg.cross": lambda: jnp.linalg.cross(P, Q),
    "numpy.linalg.eigvalsh": lambda: jnp.linalg.eigvalsh(H),
    "numpy.linalg.qr r": lambda: jnp.linalg.qr(M, mode="r"),
    "divmod": lambda: jnp.divmod(X, Y),
    "geomspace": lambda: jnp.geomspace(X, Y, 5),
    "gradient": lambda: jnp.gradient(M),
    "gradient spacings": lambda: jnp.gradient(X, Y),
    "i0": lambda: jnp.i0(X),
    "logmeanexp": lambda: pyjax.nn.logmeanexp(X),
    "nanmean": lambda: jnp.nanmean(M, 1),
    "nanprod": lambda: jnp.nanprod(X),
    "nanstd": lambda: jnp.nanstd(X, ddof=1),
    "nansum": lambda: jnp.nansum(M, axis=0, keepdims=True),
    "nanvar": lambda: jnp.nanvar(X),
    "packbits": lambda: jnp.packbits(BYTES),
    "unpackbits": lambda: jnp.unpackbits(BYTES, count=9),
    "poly": lambda: jnp.poly(B),
    "polyfit": lambda: jnp.polyfit(X, Y, 2),
    "put_along_axis": lambda: jnp.put_along_axis(X, PLACES, 9.0, 0, inplace=False),
    "take_along_axis": lambda: jnp.take_along_axis(X, PLACES, 0),
    "trapezoid": lambda: jnp.trapezoid(X, Y),
    "scipy.integrate.trapezoid": lambda: pyjax.scipy.integrate.trapezoid(M, dx=0.5),
    "unwrap": lambda: jnp.unwrap(X),
    "exp of NumPy's": lambda: jnp.exp(IN_NUMPY),
    "sqrt of integers of NumPy's": lambda: jnp.sqrt(IN_NUMPY.astype(np.int64)),
    "kaiser": lambda: jnp.kaiser(23, 3.0),
    # Some that were programs before.
    "flip": lambda: jnp.flip(X),
    "median": lambda: jnp.median(X),
    "softmax": lambda: pyjax.nn.softmax(X),
    "logaddexp.reduce": lambda: jnp.logaddexp.reduce(M, axis=1),
    "logaddexp.reduce where": lambda: jnp.logaddexp.reduce(M, initial=0.0, where=M > 1),
    "maximum.accumulate": lambda: jnp.maximum.accumulate(X),
    "logical_or.accumulate": lambda: jnp.logical_or.accumulate(M),
    "logaddexp.reduceat": lambda: jnp.logaddexp.reduceat(X, PLACES),
    "logaddexp.at": lambda: jnp.logaddexp.at(X, PLACES, X[:3], inplace=False),
}
KEY = random.key(0)
PLACES = jnp.array([0, 2, 2])
PIVOTS = jnp.arange(7)
BYTES = jnp.arange(23, dtype="uint8")
# Beside a program of their own, those of preparing arguments.
MORE = {
    "leslie",
    "kaiser",
    "median",
    "random.poisson",
    "logaddexp.at",
    "logaddexp.reduce where",
    "rsf2csf",
    "schur",
}


def waited(made: Any) -> Any:
    return pyjax.block_until_ready(made)


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_compiled_once(name: str) -> None:
    call = CALLS[name]
    pyjax.clear_caches()  # what other tests compiled is counted, too
    if name in MORE:
        first = waited(call())
    else:
        with pyjax.assert_compiles(1):
            first = waited(call())
    with pyjax.assert_compiles(0):
        second = waited(call())
    for a, b in zip(pyjax.tree.leaves(first), pyjax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("module", DISTRIBUTIONS, ids=lambda m: m.__name__.rsplit(".", 1)[1])
def test_every_function_of_a_distribution_is_one_program(module: ModuleType) -> None:
    public = {
        n: f for n, f in vars(module).items() if getattr(f, "__module__", "") == module.__name__
    }
    missing = [n for n, f in public.items() if not n.startswith("_") and program_of(f) is None]
    assert public and not missing


@pytest.mark.parametrize("function", [jnp.linalg.eigvalsh, lambda x: jnp.linalg.qr(x, "r")])
def test_factors_that_nobody_asked_for_are_not_computed(function: Callable[..., Any]) -> None:
    """Eigenvalues alone come by another algorithm, which other bits would tell apart."""
    x = random.normal(KEY, (120, 120))
    np.testing.assert_array_equal(function(x), pyjax.jit(function)(x))


def test_arrays_by_name_are_operands() -> None:
    with pyjax.assert_compiles(1):
        made = [stats.norm.logcdf(X, scale=y, loc=0.5) for y in (Y, Z)]
    np.testing.assert_array_equal(made[1], stats.norm.logcdf(X, 0.5, Z))
    with pyjax.assert_compiles(1):  # numbers, too, whatever their values
        _ = [stats.norm.logcdf(X, scale=s) for s in (1.5, 2.5)]


def test_arrays_may_be_left_out() -> None:
    @one_program(2)
    def plus(x: Any, y: Any = None, n: int = 1) -> Any:
        return x * 2 + n if y is None else x * 2 + y * n

    for made in (plus(X), plus(X, None), plus(x=X), plus(X, y=None, n=1)):
        np.testing.assert_array_equal(made, X * 2 + 1)
    calls = [lambda: plus(X, Y, n=2), lambda: plus(X, y=Y, n=2), lambda: plus(y=Y, x=X, n=2)]
    with pyjax.assert_compiles(len(calls)):  # which arguments come by name is part of the kind
        made = [call() for call in calls * 2]
    np.testing.assert_allclose(made[2], X * 2 + Y * 2, rtol=1e-6)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: stats.norm.cdf(), "missing 1 required positional argument: 'x'"),
        (lambda: stats.norm.cdf(scale=X), "missing 1 required positional argument: 'x'"),
        (lambda: stats.norm.cdf(X, depth=1), "unexpected keyword argument 'depth'"),
        (lambda: stats.norm.cdf([0.5]), "norm.cdf requires ndarray or scalar arguments, got list"),
        (
            lambda: stats.norm.cdf(X, None),
            "norm.cdf requires ndarray or scalar arguments, got None",
        ),
        (lambda: special.ndtri(jnp.arange(23)), "x.dtype=int32 is not supported"),
    ],
)
def test_errors_are_those_of_the_function(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_numbers_keep_their_weak_type() -> None:
    for x in (0.5, np.float32(0.5), X[0], np.asarray(X)):
        made, traced = special.xlogy(x, 2.0), pyjax.jit(special.xlogy)(x, 2.0)
        assert (made.dtype, made.weak_type) == (traced.dtype, traced.weak_type)
    with pyjax.enable_x64(True):
        assert stats.norm.cdf(0.5).dtype == special.ndtr(np.float64(0.5)).dtype == np.float64


def test_without_jit_the_function_runs_as_it_is() -> None:
    seen: list[Any] = []

    @one_program(None)
    def kept(x: Any, y: Any = 0) -> Any:
        seen.append(x)
        return x + y

    with pyjax.disable_jit():
        kept(X)
        kept(X, 2.0)
    assert all(type(x) is type(X) for x in seen) and len(seen) == 2
    pyjax.vmap(kept)(X)
    assert len(seen) == 3
    with pyjax.assert_compiles(1):
        _ = kept(X), kept(X)
    assert len(seen) == 4


def test_an_equal_ufunc_has_the_same_program() -> None:
    def combine(x: Any, y: Any) -> Any:
        return x * lax.exp(-y)

    with pyjax.assert_compiles(1):
        made = [jnp.frompyfunc(combine, 2, 1).accumulate(X) for _ in range(2)]
    np.testing.assert_array_equal(*made)
    others = [jnp.frompyfunc(combine, 2, 1, identity=i).reduce(X) for i in (1, 2)]
    assert others[0] != others[1]


def test_each_call_warns_of_a_raw_key() -> None:
    with pyjax.legacy_prng_key("warn"):
        for _ in range(2):
            with pytest.warns(UserWarning, match="Legacy uint32 key array"):
                random.laplace(random.PRNGKey(0), (23,))


@pytest.mark.parametrize("dtype", ["float64", "double", "complex", "uint", "long", np.float64])
def test_each_call_warns_of_a_dtype_that_it_does_not_get(dtype: Any) -> None:
    x = jnp.ones(3)
    for _ in range(3):
        with pytest.warns(UserWarning, match="not available"):
            jnp.nansum(x, dtype=dtype)


def test_constants_of_half_precision_are_looked_at_without_warnings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ones = np.ones(5, np.float16)
    pyjax.clear_caches()
    with own_cache(tmp_path, monkeypatch), warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(special.gammasgn(jnp.asarray(ones)), ones)
