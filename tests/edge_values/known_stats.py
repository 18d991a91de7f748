"""Known differences of `scipy.stats`."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference


def _cases(calls: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Keys of calls, by the functions that they are calls of."""
    return tuple(
        f"scipy.stats.{name} {call}"
        for names, found in calls.items()
        for name in names.split()
        for call in found
    )


STATS: tuple[Difference, ...] = (
    Difference(
        cases=_cases(
            {
                "expon.cdf expon.logcdf expon.logpdf expon.logsf expon.pdf expon.sf gumbel_l.cdf gumbel_l.logpdf gumbel_l.logsf gumbel_l.pdf gumbel_l.ppf gumbel_l.sf gumbel_r.cdf gumbel_r.logcdf gumbel_r.logpdf gumbel_r.pdf gumbel_r.ppf laplace.logpdf norm.logpdf norm.logsf norm.pdf uniform.cdf uniform.logpdf uniform.pdf": (
                    "f(m, 0.5, c.T) float32",
                ),
                "pareto.logcdf pareto.logpdf pareto.logsf pareto.pdf pareto.sf vonmises.logpdf vonmises.pdf": (
                    "f(v, -1.5) float32",
                ),
                "expon.cdf expon.logcdf expon.logpdf expon.logsf expon.pdf expon.sf gumbel_l.cdf gumbel_l.logpdf gumbel_l.logsf gumbel_l.pdf gumbel_l.ppf gumbel_l.sf gumbel_r.cdf gumbel_r.logcdf gumbel_r.logpdf gumbel_r.pdf gumbel_r.ppf laplace.logpdf norm.logpdf norm.pdf uniform.cdf uniform.logpdf uniform.pdf": (
                    "f(v, 0.5, -1.5) float32",
                ),
            }
        ),
        modes="value jit vmap jvp vjp",
        title="Parameters outside of their range (scipy.stats)",
        reason="Where a scale or a shape is negative there is no distribution: SciPy gives NaN for all "
        "functions. Formulas are evaluated all the same, in pyjax other ones than in JAX.",
        example="scipy.stats.expon.cdf f(v, 0.5, -1.5) float32",
    ),
    Difference(
        cases=_cases(
            {
                "uniform.cdf": ("f(2, 3) float32",),
                "norm.logpdf norm.pdf uniform.cdf": ("f(u, 0.5, 2.0) int32",),
            }
        ),
        modes="value jit vmap",
        title="Weak types of densities",
        reason="The normal density and the uniform cdf of integers at Python numbers stay weakly typed; "
        "JAX's results are strongly typed there.",
        example="scipy.stats.norm.logpdf f(u, 0.5, 2.0) int32",
    ),
    Difference(
        cases=_cases(
            {
                "norm.isf norm.ppf": ("f(2, 3) float32", "f(u) int32", "f(u, 0.5, 2.0) int32"),
            }
        ),
        modes="value",
        title="Quantiles of integers",
        reason="Whole numbers are converted, as in the other functions; JAX raises TypeError.",
        example="scipy.stats.norm.isf f(u) int32",
    ),
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
                "truncnorm.logsf truncnorm.sf": (
                    "f(p, -(jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5), jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(u, 0.5, 2.5) float32",
                    "f(u, 0.5, 2.5) float64",
                ),
            }
        ),
        modes="value jit vmap jvp",
        title="Truncated normal distribution at NaN",
        reason="Tails at NaN are NaN as in SciPy, and so are their gradients; JAX gives the value before "
        "the interval, with gradient 0.",
        example="scipy.stats.truncnorm.logsf f(u, 0.5, 2.5) float32",
    ),
    Difference(
        cases=_cases(
            {
                "uniform.cdf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(u) float32",
                    "f(u) float64",
                    "f(u, 0.5, 2.0) float32",
                    "f(u, 0.5, 2.0) float64",
                ),
            }
        ),
        modes="value jit vmap",
        title="Uniform distribution at NaN",
        reason="The cdf of a NaN, or of infinities that cancel, is NaN as in SciPy; JAX gives 0.",
        example="scipy.stats.uniform.cdf f(u) float32",
    ),
    Difference(
        cases=_cases(
            {
                "bernoulli.logpmf bernoulli.pmf": (
                    "f(p, unit[1]) float32",
                    "f(unit, unit) float32",
                ),
            }
        ),
        modes="value jit vmap jvp vjp",
        title="Bernoulli distribution between whole numbers",
        reason="Only 0 and 1 have a probability, as in SciPy; JAX gives powers of `p` and `1 - p` for "
        "fractions.",
        example="scipy.stats.bernoulli.logpmf f(p, unit[1]) float32",
    ),
    Difference(
        cases=_cases(
            {
                "bernoulli.ppf": (
                    "f(j, unit) float32",
                    "f(p, unit[1]) float32",
                    "f(unit, unit) float32",
                ),
            }
        ),
        modes="value jit vmap",
        title="Quantiles of the Bernoulli distribution at 0",
        reason="They are -1 as in SciPy, one less than the smallest value; JAX gives 0.",
        example="scipy.stats.bernoulli.ppf f(p, unit[1]) float32",
    ),
    Difference(
        cases=_cases(
            {
                "gumbel_l.ppf gumbel_r.ppf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(u) float32",
                    "f(u) float64",
                    "f(u) int32",
                    "f(u, 0.5, 2.0) float32",
                    "f(u, 0.5, 2.0) float64",
                    "f(u, 0.5, 2.0) int32",
                    "f(unit) float32",
                    "f(unit, 0.5) bfloat16",
                    "f(unit, 0.5) float16",
                ),
            }
        ),
        modes="value jit vmap",
        title="Quantiles of Gumbel's distributions at 0 and 1",
        reason="They are infinite, as in SciPy; JAX gives NaN.",
        example="scipy.stats.gumbel_l.ppf f(u) float32",
    ),
    Difference(
        cases=_cases(
            {
                "poisson.entropy": ("f(v * 40) float32", "f(w) float32"),
            }
        ),
        modes="value jit vmap",
        title="Entropy of rates that are none",
        reason="The entropy of a negative rate is NaN as in SciPy; JAX gives -0.",
        example="scipy.stats.poisson.entropy f(w) float32",
    ),
    Difference(
        cases=_cases(
            {
                "gennorm.cdf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
                    "f(u, 2.5) float32",
                    "f(u, 2.5) float64",
                    "f(u, 2.5) int32",
                ),
                "norm.logcdf norm.logsf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                ),
                "cauchy.logsf expon.logcdf norm.isf norm.logcdf norm.logsf": ("f(u) float32",),
                "cauchy.logsf expon.logcdf norm.isf norm.logcdf": ("f(u) float64",),
                "cauchy.cdf cauchy.logsf cauchy.sf norm.logcdf norm.logsf": ("f(u) int32",),
                "cauchy.logsf norm.isf norm.logcdf": ("f(u, 0.5, 2.0) float32",),
                "cauchy.logsf norm.isf norm.logcdf norm.logsf": ("f(u, 0.5, 2.0) float64",),
                "cauchy.cdf cauchy.logsf cauchy.sf norm.logsf": ("f(u, 0.5, 2.0) int32",),
            }
        ),
        modes="value jit vmap",
        title="Tails of distributions",
        reason="Values are nearer to SciPy's in float64 wherever they differ: small probabilities are "
        "not differences of large ones, and the smallest normal number is not taken for zero. JAX "
        "gives 0, infinities, or fewer digits.",
        example="scipy.stats.cauchy.cdf f(u) int32",
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
            }
        ),
        modes="jvp vjp",
        title="Gradients that are NaN or overflow in JAX (scipy.stats)",
        reason="Outside of the support, at its ends and far out in tails, JAX multiplies the zero of the "
        "branch that is not taken by an infinite derivative, or squares what overflows. pyjax has "
        "a number there: 0 outside of the support, else the derivative or its infinite limit.",
        example="scipy.stats.cauchy.logsf f(u) float32",
    ),
    Difference(
        cases=_cases(
            {
                "truncnorm.logpdf truncnorm.pdf": (
                    "f(p, -(jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5), jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                ),
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
            }
        ),
        modes="vjp",
        title="Gradients of the beta distribution at NaN",
        reason="They are NaN as the value is; JAX's are 0. At 0 and outside of the interval they are 0; "
        "JAX has NaN.",
        example="scipy.stats.beta.cdf f(u, 0.5, 2.5) float32",
    ),
)
