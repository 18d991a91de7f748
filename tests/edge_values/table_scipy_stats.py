"""`scipy.stats`: densities and distribution functions, in and outside of their domains.

Gradients are sums of functions with errors of their own, and are compared less closely.
"""

from __future__ import annotations

from functools import partial

from tests.edge_values.rows import GRAD, Row, rows

DTYPES = ("float32", "float64", "int32")
# Signs of zeros, which depend on how a formula is written, do not count.
NEAR_ZERO = 1e-35
# Edge values as points and locations, and parameters that are positive.
SCALE = "jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5"
SHAPE = "jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5"
SHAPES = ["f(s, v, 1.5)", "f(e2, one)", "f(2, 3)", "f(m, v)", "f(m, 0.5, c.T)"]

# Functions of each distribution, by what stands before loc and scale.
LOCATED = {
    "cauchy": "cdf isf logcdf logpdf logsf pdf ppf sf",
    "expon": "cdf logcdf logpdf logsf pdf ppf sf",
    "gumbel_l": "cdf logcdf logpdf logsf pdf ppf sf",
    "gumbel_r": "cdf logcdf logpdf logsf pdf ppf sf",
    "laplace": "cdf logpdf pdf",
    "logistic": "cdf isf logpdf pdf ppf sf",
    "norm": "cdf isf logcdf logpdf logsf pdf ppf sf",
    "uniform": "cdf logpdf pdf ppf",
}
ONE_SHAPE = {
    "chi2": "cdf logcdf logpdf logsf pdf sf",
    "gamma": "cdf logcdf logpdf logsf pdf sf",
    "gennorm": "cdf logpdf pdf",
    "pareto": "cdf logcdf logpdf logsf pdf ppf sf",
    "t": "logpdf pdf",
    "vonmises": "logpdf pdf",
    "wrapcauchy": "logpdf pdf",
}
TWO_SHAPES = {
    "beta": "cdf logcdf logpdf logsf pdf sf",
    "truncnorm": "cdf logcdf logpdf logsf pdf sf",
}
COUNTS = {
    "bernoulli": "cdf logpmf pmf ppf",
    "binom": "logpmf pmf",
    "betabinom": "logpmf pmf",
    "geom": "logpmf pmf",
    "nbinom": "logpmf pmf",
    "poisson": "cdf logpmf pmf",
}
# The calls of each distribution of counts: whole numbers first, then its parameters.
_COUNT_CALLS = {
    "bernoulli": ["f(p, unit[1])", "f(j, unit)", "f(unit, unit)", "f(m, v)", "f(e2, one)"],
    "binom": ["f(p, 7.0, unit[1])", "f(x, 9, 0.25)", "f(x, 9, 0.25, 1)", "f(m, v, s)"],
    "betabinom": [
        f"f(p, 7, {SHAPE}, {SCALE})",
        "f(x, 9, 0.5, 2.0)",
        "f(m, v, s, s)",
        "f(x, 9, 1.5, 2.0, 1)",
    ],
    "geom": ["f(p, unit[1])", "f(x, unit[1])", "f(x, 0.25, 1)", "f(m, v)", "f(2, 0.5)"],
    "nbinom": [f"f(p, {SHAPE}, unit[1])", "f(x, 2.5, 0.25)", "f(x, 2, 0.25, 1)", "f(m, v, s)"],
    "poisson": [f"f(p, {SHAPE})", "f(x, s)", "f(x, 2.5, 1)", "f(m, v)", "f(2, 3)", "f(e2, one)"],
}

each = partial(rows, dtypes=DTYPES, grad=GRAD, ulp=200, grad_ulp=1000, norm=NEAR_ZERO)
edges = partial(each, dtypes=("float32",), elementwise=True)
few = partial(rows, dtypes=("float32",), grad=GRAD, norm=64, grad_norm=512)
halves = partial(rows, dtypes=("float16", "bfloat16"), norm=64)


def _distributions() -> list[Row]:
    found: list[Row] = []
    for name, functions in LOCATED.items():
        module = f"scipy.stats.{name}"
        found += each(module, functions, ["f(u)", "f(u, 0.5, 2.0)"], elementwise=True)
        found += edges(module, functions, [f"f(p, r, {SCALE})"])
        found += few(module, functions, ["f(unit)", "f(v, 0.5, -1.5)", *SHAPES])
        found += halves(module, functions, ["f(unit, 0.5)"])
    for name, functions in ONE_SHAPE.items():
        module = f"scipy.stats.{name}"
        found += each(
            module, functions, [f"f(u, {0.25 if name == 'wrapcauchy' else 2.5})"], elementwise=True
        )
        found += edges(module, functions, [f"f(p, {SHAPE})"])
        if name not in ("gennorm", "vonmises", "wrapcauchy"):
            found += few(module, functions, ["f(x, 2.5, 0.25, 2.0)"])
        found += few(module, functions, ["f(unit, 0.5)", "f(v, -1.5)", "f(x, s)", "f(m, v)"])
        found += few(module, functions, ["f(e2, one)", "f(2, 3)"])
        found += halves(module, functions, ["f(unit, 0.5)"])
    for name, functions in TWO_SHAPES.items():
        module = f"scipy.stats.{name}"
        shapes = f"-({SHAPE})" if name == "truncnorm" else SHAPE
        found += each(module, functions, ["f(u, 0.5, 2.5)"], elementwise=True)
        found += edges(module, functions, [f"f(p, {shapes}, {SCALE})"])
        found += few(
            module,
            functions,
            ["f(unit, s, 3.0)", "f(unit, 0.5, s, 0.25, 2.0)", "f(x, -1.5, s, 0.5, 2.0)"],
        )
        found += few(module, functions, ["f(e2, one, s)", "f(0.5, 2, 3)", "f(m, v, s)"])
        found += halves(module, functions, ["f(unit, 0.5, 2.0)"])
    for name, functions in COUNTS.items():
        module = f"scipy.stats.{name}"
        first, *others = _COUNT_CALLS[name]
        found += edges(module, functions, [first])
        found += few(module, functions, others)
    return found


_VECTORS = [
    *few(
        "scipy.stats.dirichlet",
        "logpdf pdf",
        [
            "f(unit / 2.5, x[2:])",
            "f(unit[:4] / 2.5, x[2:])",
            "f(unit, x[2:])",
            "f(jax.nn.softmax(m, 0), x[2:5])",
            "f(m, v[:3])",
            "f(m, v)",
            "f(v, v)",
        ],
    ),
    *few(
        "scipy.stats.multinomial",
        "logpmf pmf",
        [
            "f(jnp.array([1, 2, 3]), 6, unit[1:4])",
            "f(jnp.array([1, 2, 3]), 6, jax.nn.softmax(q[0]))",
            "f(jnp.array([1, 2, 3]), 7, jax.nn.softmax(q[0]))",
            "f(jnp.array([[1, 2, 3], [0, 6, 0]]), 6, jax.nn.softmax(q[0]))",
            "f(jnp.array([1, -2, 7]), 6, jax.nn.softmax(q[0]))",
            "f(jnp.array([1, 2]), 3, v)",
            "f(v, 3, v)",
        ],
    ),
    *few(
        "scipy.stats.multivariate_normal",
        "logpdf pdf",
        [
            "f(q[0], v[:3], h)",
            "f(q, v[:3], h)",
            "f(qq, v[:3], h)",
            "f(q, s, h)",
            "f(v, s, s)",
            "f(s, s, s)",
            "f(v, 0.0, 2.0)",
            "f(q[0], v[:3], -h)",
            "f(q[0], v[:3], g)",
            "f(q[0], v, h)",
            "f(q[0], v[:3], m)",
        ],
    ),
    *few("scipy.stats.multivariate_normal", "logpdf", ["f(v, s, s, allow_singular=True)"]),
    *few("scipy.stats.poisson", "entropy", ["f(x)", "f(w)", "f(v * 40)", "f(s, 1)", "f(2)"]),
]

_SAMPLES = [
    *rows(
        "scipy.stats",
        "mode",
        [
            "f(v)",
            "f(m)",
            "f(m, axis=1)",
            "f(m, axis=None)",
            "f(m, axis=None, keepdims=True)",
            "f(m, keepdims=True)",
            "f(w)",
            "f(n)",
            "f(e)",
            "f(e2)",
            "f(s)",
            "f(m, axis=2)",
            "f(w, nan_policy='omit')",
            "f(w, nan_policy='no')",
            "f(t, axis=1)",
        ],
        ("float32", "int32", "uint8", "bool"),
        grad=GRAD,
    ),
    *rows(
        "scipy.stats",
        "rankdata",
        [
            "f(v)",
            "f(m)",
            "f(m, axis=1)",
            *(f"f(v, method={k!r})" for k in ("min", "max", "dense", "ordinal", "no")),
            "f(m, method='dense', axis=0)",
            "f(w)",
            "f(n, axis=0)",
            "f(e)",
            "f(e2, axis=1)",
            "f(s)",
            "f(m, axis=2)",
            "f(w, nan_policy='omit')",
            "f(w, nan_policy='raise')",
        ],
        ("float32", "int32", "uint8"),
    ),
    *rows(
        "scipy.stats",
        "sem",
        [
            "f(v)",
            "f(m)",
            "f(m, axis=1)",
            "f(m, axis=None)",
            "f(v, ddof=0)",
            "f(v, ddof=9)",
            "f(m, keepdims=True)",
            "f(m, None, keepdims=True)",
            "f(w)",
            "f(n)",
            "f(e)",
            "f(s)",
            "f(m, axis=2)",
            "f(w, nan_policy='omit')",
            "f(n, nan_policy='omit')",
            "f(n, axis=1, nan_policy='omit')",
            "f(w, nan_policy='no')",
            "f(t, axis=1)",
        ],
        ("float32", "int32", "float16"),
        norm=16,
        grad=GRAD,
        grad_norm=64,
    ),
    *rows(
        "scipy.stats",
        "gaussian_kde",
        [
            "f(v).evaluate(x)",
            "f(v)(x)",
            "f(v, 'silverman')(x)",
            "f(v, 0.5)(x)",
            "f(v, lambda kde: 0.25)(x)",
            "f(v, weights=x * x)(x)",
            "f(v).pdf(x)",
            "f(v).logpdf(x)",
            "f(v).integrate_gaussian(s, one[0, 0] ** 2)",
            "f(v).integrate_box_1d(-1.0, s)",
            "f(v).integrate_kde(f(x))",
            "f(m[:2])(m[:2])",
            "f(m[:2]).logpdf(m[:2])",
            "f(m[:2]).integrate_gaussian(x[:2], h[:2, :2])",
            "f(v).covariance",
            "f(v).inv_cov",
            "f(v).neff",
            "f(v, weights=x * x).neff",
            "f(v).resample(jax.random.key(0), (5,))",
            "f(v).d",
            "f(v).n",
            "f(v, 'no')",
            "f(v, weights=m)",
            "f(s)",
            "f(v).integrate_box_1d(m, s)",
            "f(m[:2])(q)",
            "f(m[:2]).integrate_box_1d(0.0, 1.0)",
        ],
        norm=128,
        grad=GRAD,
        grad_norm=512,
    ),
]

ROWS: tuple[Row, ...] = (*_distributions(), *_VECTORS, *_SAMPLES)
