"""Known differences of `scipy.stats`: gradients."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from functools import partial

from tests.edge_values.known_difference import Difference, calls_of

_cases = partial(calls_of, "scipy.stats")

STATS_GRADIENTS: tuple[Difference, ...] = (
    Difference(
        cases=_cases(
            {
                "gumbel_l.logpdf gumbel_l.pdf gumbel_l.ppf gumbel_r.logpdf gumbel_r.pdf gumbel_r.ppf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                ),
                "gumbel_l.ppf gumbel_r.ppf": (
                    "f(s, v, 1.5) float32",
                    "f(u) float32",
                    "f(u, 0.5, 2.0) float32",
                    "f(unit) float32",
                ),
            }
        ),
        modes="jvp vjp",
        title="Gradients that JAX has not (scipy.stats)",
        reason="Gumbel's distributions are differentiable in all arguments; JAX raises TypeError.",
        example="scipy.stats.gumbel_l.ppf f(u) float32",
    ),
    Difference(
        cases=_cases(
            {
                "expon.logcdf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(s, v, 1.5) float32",
                    "f(u) float32",
                    "f(u, 0.5, 2.0) float32",
                    "f(unit) float32",
                ),
            }
        ),
        modes="jvp vjp",
        title="Gradients of expon.logcdf up to loc",
        reason="At `loc`, before it, and at NaN, the gradient is 0. JAX has the infinite slope from the "
        "right at `loc`, and NaN before it; just after it, at the smallest normal number, JAX's "
        "is infinite too.",
        example="scipy.stats.expon.logcdf f(u) float32",
    ),
    Difference(
        cases=_cases(
            {
                "uniform.cdf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(s, v, 1.5) float32",
                    "f(u) float32",
                    "f(u, 0.5, 2.0) float32",
                    "f(unit) float32",
                ),
            }
        ),
        modes="jvp vjp",
        title="Gradients of uniform.cdf at the ends",
        reason="At an end the gradient is half the slope, the mean of both sides, as that of `clip`; "
        "JAX's is the slope inside. Where the argument or a parameter is NaN or infinite, it is "
        "NaN or 0; JAX has 0 or a slope.",
        example="scipy.stats.uniform.cdf f(u) float32",
    ),
    Difference(
        cases=_cases(
            {
                "gaussian_kde": ("f(m[:2]).integrate_gaussian(x[:2], h[:2, :2]) float32",),
            }
        ),
        modes="vjp",
        title="Gradients of symmetric covariances",
        reason="The gradient of `integrate_gaussian` with respect to the covariance is symmetric. JAX's "
        "has another share of the same sum on either side of the diagonal.",
        example="scipy.stats.gaussian_kde f(m[:2]).integrate_gaussian(x[:2], h[:2, :2]) float32",
    ),
    Difference(
        cases=_cases(
            {
                "norm.isf norm.logsf": ("f(u) float32",),
                "norm.isf": ("f(u, 0.5, 2.0) float32",),
            }
        ),
        modes="jvp vjp",
        title="Gradients in tails of the normal distribution",
        reason="They are those of the exact values; JAX takes the smallest normal number for zero and "
        "has fewer digits far out: the slope of `logsf` at 100 is -100.01, in JAX -99.98.",
        example="scipy.stats.norm.isf f(u) float32",
    ),
    Difference(
        cases=_cases(
            {
                "truncnorm.logsf truncnorm.sf": (
                    "f(p, -(jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5), jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(unit, 0.5, s, 0.25, 2.0) float32",
                    "f(unit, s, 3.0) float32",
                    "f(x, -1.5, s, 0.5, 2.0) float32",
                ),
                "binom.logpmf binom.pmf": (
                    "f(p, 7.0, unit[1]) float32",
                    "f(x, 9, 0.25) float32",
                    "f(x, 9, 0.25, 1) float32",
                ),
                "pareto.logcdf pareto.logpdf pareto.logsf pareto.pdf pareto.sf poisson.logpmf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
                ),
                "expon.cdf gumbel_l.cdf laplace.cdf norm.logcdf norm.logsf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                ),
                "cauchy.logsf expon.cdf gumbel_l.cdf laplace.cdf norm.logcdf norm.logpdf norm.pdf": (
                    "f(u) float32",
                ),
                "cauchy.logsf expon.cdf gumbel_l.cdf laplace.cdf norm.logcdf norm.logpdf norm.logsf norm.pdf": (
                    "f(u, 0.5, 2.0) float32",
                ),
                "beta.cdf truncnorm.logpdf truncnorm.logsf truncnorm.pdf truncnorm.sf": (
                    "f(u, 0.5, 2.5) float32",
                ),
                "pareto.logcdf pareto.logpdf pareto.logsf pareto.pdf pareto.sf": (
                    "f(u, 2.5) float32",
                    "f(unit, 0.5) float32",
                ),
                "poisson.entropy": ("f(v * 40) float32", "f(w) float32"),
                "nbinom.logpmf nbinom.pmf": ("f(x, 2, 0.25, 1) float32", "f(x, 2.5, 0.25) float32"),
                "pareto.logcdf": ("f(x, 2.5, 0.25, 2.0) float32",),
                "poisson.logpmf poisson.pmf": ("f(x, 2.5, 1) float32",),
                "pareto.logcdf pareto.logpdf pareto.logsf pareto.pdf pareto.sf poisson.logpmf poisson.pmf": (
                    "f(x, s) float32",
                ),
                "cauchy.logcdf": ("f(u) float32", "f(u, 0.5, 2.0) float32"),
                "gumbel_l.logcdf gumbel_r.logsf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(u) float32",
                    "f(u, 0.5, 2.0) float32",
                ),
                "pareto.cdf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
                    "f(u, 2.5) float32",
                    "f(unit, 0.5) float32",
                    "f(v, -1.5) float32",
                    "f(x, 2.5, 0.25, 2.0) float32",
                    "f(x, s) float32",
                ),
                "truncnorm.cdf truncnorm.logcdf": (
                    "f(p, -(jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5), jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(u, 0.5, 2.5) float32",
                    "f(x, -1.5, s, 0.5, 2.0) float32",
                ),
                "betabinom.logpmf betabinom.pmf": (
                    "f(p, 7, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                ),
            }
        ),
        modes="jvp vjp",
        title="Gradients that are NaN or overflow in JAX (scipy.stats)",
        reason="Outside of the support, at its ends and far out in tails, JAX multiplies the zero of the "
        "branch that is not taken by an infinite derivative, squares what overflows, or divides by a "
        "probability that has no digits left. pyjax has a number there: 0 outside of the support, "
        "else the derivative or its infinite limit.",
        example="scipy.stats.cauchy.logsf f(u) float32",
    ),
    Difference(
        cases=_cases(
            {
                "poisson.pmf": ("f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",),
                "nbinom.logpmf nbinom.pmf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5, unit[1]) float32",
                ),
                "norm.logpdf norm.pdf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                ),
            }
        ),
        modes="jvp vjp",
        title="Derivatives of distributions that are zero up to rounding",
        reason="At some points (one standard deviation off, for example) terms of a derivative cancel. "
        "What is left differs, as rounding does. Outside of the support JAX's gradients are NaN.",
        example="scipy.stats.norm.logpdf f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
    ),
    Difference(
        cases=_cases(
            {
                "expon.ppf uniform.ppf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(u) float32",
                    "f(u, 0.5, 2.0) float32",
                ),
            }
        ),
        modes="jvp vjp",
        title="Gradients of quantiles at NaN",
        reason="Where the probability is NaN the gradient is that of the formula; JAX's is 0.",
        example="scipy.stats.expon.ppf f(u) float32",
    ),
    Difference(
        cases=_cases(
            {
                "beta.cdf beta.logcdf": ("f(u, 0.5, 2.5) float32",),
                "beta.logpdf beta.logsf beta.pdf beta.sf": ("f(u, 0.5, 2.5) float32",),
            }
        ),
        modes="jvp vjp",
        title="Gradients of the beta distribution",
        reason="At NaN they are NaN as the value is; JAX's are 0. At 0 and outside of the interval those of "
        "probabilities are 0, and those of densities at its ends their infinite limits; JAX has NaN.",
        example="scipy.stats.beta.sf f(u, 0.5, 2.5) float32",
    ),
    Difference(
        cases=_cases(
            {
                "logistic.cdf logistic.sf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                ),
            }
        ),
        modes="vjp",
        title="Slopes of the logistic distribution",
        reason="Both multiply the probability by what it lacks to one, which has few digits where that is "
        "little, and they round differently.",
        example="scipy.stats.logistic.cdf f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
    ),
    Difference(
        cases=_cases(
            {
                "chi2.cdf chi2.logsf chi2.sf gamma.cdf gamma.logpdf gamma.pdf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
                    "f(u, 2.5) float32",
                ),
                "chi2.logcdf gamma.logcdf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
                    "f(u, 2.5) float32",
                    "f(x, s) float32",
                ),
                "chi2.logpdf chi2.pdf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
                    "f(x, s) float32",
                ),
                "gamma.logsf gamma.sf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
                    "f(u, 2.5) float32",
                    "f(unit, 0.5) float32",
                    "f(x, 2.5, 0.25, 2.0) float32",
                    "f(x, s) float32",
                ),
                "gennorm.cdf": ("f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",),
            }
        ),
        modes="vjp jvp",
        title="Gradients of the gamma distribution",
        reason="They are 0 below the support and at infinity, NaN where the value is and where it is the "
        "logarithm of a probability that has become 0, and at 0 the infinite limits if these are. JAX "
        "has 0 at NaN, NaN or infinities below and at infinity, and takes the smallest normal number "
        "for zero.",
        example="scipy.stats.gamma.sf f(x, s) float32",
    ),
    Difference(
        cases=_cases(
            {
                "pareto.ppf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
                    "f(u, 2.5) float32",
                ),
            }
        ),
        modes="jvp vjp",
        title="Gradients of pareto.ppf",
        reason="Where the probability is NaN or not in [0, 1], so is the gradient NaN; at 1 it is infinite. "
        "JAX's is 0 or NaN.",
        example="scipy.stats.pareto.ppf f(u, 2.5) float32",
    ),
)
