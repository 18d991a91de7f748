"""pyjax.scipy.stats against scipy.stats."""

import mpmath
import numpy as np
import pytest
from scipy import stats as reference

import pyjax
import pyjax.numpy as jnp
from pyjax import random
from pyjax.scipy import stats
from tests.sampling import sampled

X = np.array([-9.0, -2.5, -0.7, 0.0, 0.2, 0.5, 0.9, 1.0, 1.7, 3.3, 8.0, 30.0])
Q = np.array([1e-9, 0.01, 0.3, 0.5, 0.8, 0.999])
K = np.array([-1.0, 0, 1, 2, 3, 5, 9])
LOC_SCALE = (0.3, 1.7)

# name, shape parameters, takes loc and scale
CONTINUOUS = [
    ("norm", (), True),
    ("uniform", (), True),
    ("expon", (), True),
    ("laplace", (), True),
    ("logistic", (), True),
    ("cauchy", (), True),
    ("gumbel_l", (), True),
    ("gumbel_r", (), True),
    ("gamma", (2.3,), True),
    ("chi2", (3.5,), True),
    ("beta", (2.3, 0.7), True),
    ("t", (4.2,), True),
    ("pareto", (1.3,), True),
    ("truncnorm", (-1.2, 2.5), True),
    ("truncnorm", (6.0, 9.0), True),
    ("gennorm", (1.4,), False),
    ("vonmises", (2.3,), False),
    ("wrapcauchy", (0.4,), False),
]
DISCRETE = [
    ("bernoulli", (0.3,)),
    ("binom", (5.0, 0.3)),
    ("nbinom", (4.0, 0.3)),
    ("geom", (0.3,)),
    ("poisson", (2.7,)),
    ("betabinom", (6.0, 2.3, 0.7)),
]
FUNCTIONS = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
CONTINUOUS_CASES = [
    (name, function, shape, placed)
    for name, shape, placed in CONTINUOUS
    for function in FUNCTIONS
    if hasattr(getattr(stats, name), function)
]


def points(name, function):
    if function in ("ppf", "isf"):
        return Q
    # Beyond its interval scipy continues these periodically or by zeros at the ends.
    if name in ("vonmises", "wrapcauchy"):
        return np.array([0.1, 0.7, 2.0, 3.0])
    return X


@sampled("name, function, shape, placed", CONTINUOUS_CASES, every=3)
def test_continuous(name, function, shape, placed):
    x = points(name, function)
    for place in [(), LOC_SCALE] if placed else [()]:
        args = (x, *shape, *place)
        with pyjax.enable_x64(True), np.errstate(all="ignore"):
            result = getattr(getattr(stats, name), function)(*args)
            expected = getattr(getattr(reference, name), function)(*args)
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-14)
        single = pyjax.jit(getattr(getattr(stats, name), function))(
            *(np.asarray(a, np.float32) for a in args)
        )
        assert single.dtype == jnp.float32
        if name != "uniform":  # ends of the interval move with the rounding of scale
            np.testing.assert_allclose(single, expected, rtol=5e-4, atol=5e-6)


@pytest.mark.parametrize("name, shape", DISCRETE, ids=[d[0] for d in DISCRETE])
def test_discrete(name, shape):
    ours, theirs = getattr(stats, name), getattr(reference, name)
    with pyjax.enable_x64(True):
        for function in ("pmf", "logpmf"):
            expected = getattr(theirs, function)(K, *shape)
            np.testing.assert_allclose(
                getattr(ours, function)(K, *shape), expected, rtol=1e-9, atol=1e-14
            )
            np.testing.assert_allclose(
                getattr(ours, function)(K + 2, *shape, 2), expected, rtol=1e-9, atol=1e-14
            )
        if hasattr(ours, "cdf"):
            np.testing.assert_allclose(ours.cdf(K, *shape), theirs.cdf(K, *shape), rtol=1e-9)


def test_bernoulli_ppf():
    assert stats.bernoulli.ppf(jnp.array([0.0, 0.5, 0.9, 1.1]), 0.3).tolist()[:3] == [-1, 0, 1]


@pytest.mark.parametrize("name, shape, placed", [c for c in CONTINUOUS if c[2]])
def test_scores(name, shape, placed):
    """The derivative of logpdf, which samplers follow, equals its difference quotient."""
    x = 2.9 if name == "pareto" else 6.8 if shape == (6.0, 9.0) else 0.45
    with pyjax.enable_x64(True):
        logpdf = getattr(stats, name).logpdf

        def f(x):
            return logpdf(x, *shape)

        h = 1e-6
        numeric = (f(x + h) - f(x - h)) / (2 * h)
        np.testing.assert_allclose(pyjax.grad(f)(x), numeric, rtol=1e-6, atol=1e-8)
        scale = pyjax.grad(lambda s: logpdf(x, *shape, 0.0, s))(1.0)
        assert np.isfinite(scale)


def test_multivariate_normal():
    rng = np.random.default_rng(0)
    x, mean, root = rng.normal(size=(5, 3)), rng.normal(size=3), rng.normal(size=(3, 3))
    cov = root @ root.T + np.eye(3)
    with pyjax.enable_x64(True):
        ours = stats.multivariate_normal
        expected = reference.multivariate_normal.logpdf(x, mean, cov)
        np.testing.assert_allclose(ours.logpdf(x, mean, cov), expected, rtol=1e-10)
        np.testing.assert_allclose(ours.pdf(x, mean, cov), np.exp(expected), rtol=1e-10)
        np.testing.assert_allclose(
            pyjax.vmap(lambda x: ours.logpdf(x, mean, cov))(x), expected, rtol=1e-10
        )
        np.testing.assert_allclose(
            ours.logpdf(0.5, 0.1, 2.0), reference.norm.logpdf(0.5, 0.1, np.sqrt(2)), rtol=1e-12
        )
        np.testing.assert_allclose(
            ours.logpdf(x, mean, 2.0),
            reference.multivariate_normal.logpdf(x, mean, 2 * np.eye(3)),
            rtol=1e-12,
        )
    with pytest.raises(ValueError, match="incompatible"):
        ours.logpdf(x, mean, np.eye(2))


def test_dirichlet_and_multinomial():
    alpha, x = np.array([1.5, 2.0, 0.7]), np.array([0.2, 0.5, 0.3])
    with pyjax.enable_x64(True):
        expected = reference.dirichlet.logpdf(x, alpha)
        np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), expected, rtol=1e-10)
        np.testing.assert_allclose(stats.dirichlet.logpdf(x[:2], alpha), expected, rtol=1e-10)
        many = np.stack([x, x[::-1]], axis=1)
        assert stats.dirichlet.pdf(many, alpha).shape == (2,)
        assert stats.dirichlet.logpdf(x * 1.1, alpha) == -np.inf
        counts, p = np.array([[1, 2, 3], [0, 6, 0], [1, 1, 1]]), np.array([0.2, 0.5, 0.3])
        np.testing.assert_allclose(
            stats.multinomial.logpmf(counts, 6, p), reference.multinomial.logpmf(counts, 6, p)
        )


DATA = np.array([[3, 1, 2, 3, 1], [5, 5, 5, 0, 2]])


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_rankdata(method, axis):
    expected = reference.rankdata(DATA, method, axis=axis)
    np.testing.assert_array_equal(stats.rankdata(DATA, method, axis=axis), expected)
    compiled = pyjax.jit(lambda a: stats.rankdata(a, method, axis=axis))(DATA)
    np.testing.assert_array_equal(compiled, expected)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_mode_and_sem(axis, keepdims):
    expected = reference.mode(DATA, axis=axis, keepdims=keepdims)
    result = stats.mode(DATA, axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(result.mode, expected.mode)
    np.testing.assert_array_equal(result.count, expected.count)
    np.testing.assert_allclose(
        stats.sem(DATA, axis=axis), reference.sem(DATA, axis=axis), rtol=1e-6
    )


def test_sample_errors():
    with pytest.raises(ValueError, match="method"):
        stats.rankdata(DATA, "other")
    with pytest.raises(NotImplementedError, match="omit"):
        stats.rankdata(DATA, nan_policy="omit")
    with pytest.raises(ValueError, match="nan_policy"):
        stats.mode(DATA, nan_policy="other")


@pytest.mark.parametrize("rule", [None, "silverman", 0.4])
@pytest.mark.parametrize("dimension", [1, 2])
def test_gaussian_kde(rule, dimension):
    rng = np.random.default_rng(3)
    data, weights = rng.normal(size=(dimension, 40)), rng.random(40)
    at = rng.normal(size=(dimension, 7))
    with pyjax.enable_x64(True):
        ours = stats.gaussian_kde(data, rule, weights)
        theirs = reference.gaussian_kde(data, rule, weights)
        np.testing.assert_allclose(ours(at), theirs(at), rtol=1e-9)
        np.testing.assert_allclose(ours.logpdf(at), theirs.logpdf(at), rtol=1e-9)
        np.testing.assert_allclose(
            ours.integrate_kde(ours), theirs.integrate_kde(theirs), rtol=1e-9
        )
        mean, cov = np.ones(dimension), np.eye(dimension) * 0.5
        np.testing.assert_allclose(
            ours.integrate_gaussian(mean, cov), theirs.integrate_gaussian(mean, cov), rtol=1e-9
        )
        if dimension == 1:
            box = ours.integrate_box_1d(-1, 0.3)
            np.testing.assert_allclose(box, theirs.integrate_box_1d(-1, 0.3), rtol=1e-9)
        samples = ours.resample(random.key(0), (4000,))
        assert samples.shape == (dimension, 4000)
        np.testing.assert_allclose(
            np.mean(samples, axis=1), np.average(data, axis=1, weights=weights), atol=0.08
        )
        again = pyjax.jit(lambda kde, x: kde(x))(ours, at)
        np.testing.assert_allclose(again, theirs(at), rtol=1e-9)


def test_cauchy_ppf_in_the_middle():
    """The slope at the median is pi, where two branches meet."""
    for function, slope in ((stats.cauchy.ppf, np.pi), (stats.cauchy.isf, -np.pi)):
        np.testing.assert_allclose(pyjax.grad(function)(0.5), slope, rtol=1e-6)


@pytest.mark.parametrize("function", ["cdf", "logcdf", "sf", "logsf"])
@pytest.mark.parametrize("name, shape", [("beta", (2.5, 1.5)), ("gamma", (2.5,)), ("chi2", (3.5,))])
def test_nothing_moves_outside_of_the_support(name, shape, function):
    def f(x):
        return getattr(getattr(stats, name), function)(x, *shape)

    assert pyjax.grad(f)(-1.0) == 0
    assert pyjax.hessian(f)(-1.0) == 0


def test_no_negative_probability():
    """Of a tiny shape parameter nearly nothing is left above."""
    with pyjax.enable_x64(True):
        assert stats.gamma.sf(0.1, 1e-38) >= 0


@pytest.mark.parametrize(
    "function, argument, slope",
    [
        (lambda x: stats.expon.cdf(x), 0.0, 1.0),
        (lambda x: stats.pareto.sf(x, 2.5), 1.0, -2.5),
        (lambda x: stats.laplace.cdf(x, 0.5, 2.0), 0.5, 0.25),
        (lambda k: stats.poisson.logpmf(k, 2.5), 0.0, np.log(2.5) + np.euler_gamma),
        (lambda k: stats.geom.logpmf(k, 0.25), 1.0, np.log(0.75)),
        (lambda x: stats.pareto.logcdf(x, 2.5), 0.5, 0.0),
    ],
    ids=["expon", "pareto", "laplace", "poisson", "geom", "pareto below"],
)
def test_slope_where_a_formula_begins(function, argument, slope):
    np.testing.assert_allclose(pyjax.grad(function)(argument), slope, rtol=1e-5)


@pytest.mark.parametrize(
    "function, argument, slope",
    [
        (stats.gumbel_r.sf, -2.7, -reference.gumbel_r.pdf(-2.7)),
        (stats.gumbel_r.logsf, 100.0, -1.0),
        (stats.gumbel_l.logcdf, -1e30, 1.0),
        (lambda x: stats.pareto.cdf(x, 2.5), 100.0, reference.pareto.pdf(100, 2.5)),
        (lambda x: stats.beta.sf(x, 0.5, 2.5), 1e-20, -reference.beta.pdf(1e-20, 0.5, 2.5)),
        (lambda x: stats.gamma.cdf(x, 2.5), np.inf, 0.0),
        (lambda x: stats.chi2.logcdf(x, 2.5), np.inf, 0.0),
        (lambda a: stats.gamma.logpdf(-1.0, a), 2.5, 0.0),
        (stats.cauchy.ppf, -0.0, np.inf),
    ],
    ids="gumbel_r gumbel_r.log gumbel_l pareto beta gamma chi2 shape cauchy".split(),
)
def test_slopes_in_tails(function, argument, slope):
    np.testing.assert_allclose(pyjax.grad(function)(argument), slope, rtol=1e-5)


def test_slope_along_one_argument_alone():
    """Zero times the infinite slope along the other would be nan."""
    slope = pyjax.jvp(lambda x: stats.chi2.logpdf(x, 2.5), (0.0,), (1.0,))[1]
    assert slope == np.inf


def test_quantiles_of_the_cauchy_distribution_at_the_ends():
    q = np.array([0.0, -0.0, 1.0, -1.0, 2.0, np.nan])
    np.testing.assert_array_equal(stats.cauchy.ppf(q), reference.cauchy.ppf(q))
    np.testing.assert_array_equal(stats.cauchy.isf(q), reference.cauchy.isf(q))


def test_digits_of_logarithms_of_nearly_one():
    with pyjax.enable_x64(True):
        for x in (10.0, 1e4):
            tail = mpmath.atan(1 / mpmath.mpf(x)) / mpmath.pi
            for found in (stats.cauchy.logcdf(x), stats.cauchy.logsf(-x)):
                np.testing.assert_allclose(found, float(mpmath.log1p(-tail)), rtol=1e-15)
        inside = mpmath.ncdf(3.5) - mpmath.ncdf(3)
        whole = mpmath.ncdf(3.5) - mpmath.ncdf(-0.5)
        exact = float(mpmath.log1p(-inside / whole))
        np.testing.assert_allclose(stats.truncnorm.logcdf(3, -0.5, 3.5), exact, rtol=1e-12)
        np.testing.assert_allclose(stats.truncnorm.logsf(-3, -3.5, 0.5), exact, rtol=1e-12)


def test_counts_are_whole():
    for counts in ([1.5, 2.5], [-1.0, 5.0]):
        assert stats.multinomial.pmf(np.array(counts), 4, np.array([0.5, 0.5])) == 0


@pytest.mark.parametrize("name", ["cauchy", "t", "gennorm", "laplace", "norm"])
def test_half_precision_stays(name):
    shape = {"t": (2.5,), "gennorm": (2.5,)}.get(name, ())
    density = getattr(stats, name).logpdf(pyjax.numpy.ones(2, "bfloat16"), *shape)
    assert density.dtype == pyjax.numpy.bfloat16


def test_outside_of_the_parameters():
    for value in (
        stats.wrapcauchy.pdf(1.0, 1.5),
        stats.gamma.cdf(-1.0, -1.5),
        stats.truncnorm.cdf(np.nan, 0.5, 2.5),
        stats.betabinom.pmf(np.nan, 7, 1.0, 1.0),
    ):
        assert np.isnan(value)


def test_ranks_and_modes_of_edges():
    ranks = stats.rankdata(np.array([3, 1, 3]), "min")
    assert ranks.dtype == np.float32
    np.testing.assert_array_equal(ranks, reference.rankdata([3, 1, 3], "min"))
    assert np.isnan(stats.rankdata(np.array([1.0, np.nan]))).all()
    assert np.isnan(stats.mode(np.zeros(0)).mode)
    assert stats.mode(np.float32(2.5)).count == 1
