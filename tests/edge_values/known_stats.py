"""Known differences of `scipy.stats`: values, and gradients that go with them."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from functools import partial

from tests.edge_values.known_difference import Difference, calls_of

_cases = partial(calls_of, "scipy.stats")

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
                "gumbel_l.logcdf gumbel_r.logsf gumbel_r.sf": (
                    "f(m, 0.5, c.T) float32",
                    "f(v, 0.5, -1.5) float32",
                ),
                "chi2.cdf chi2.logcdf chi2.logsf chi2.sf gamma.cdf gamma.logcdf gamma.logsf gamma.sf": (
                    "f(v, -1.5) float32",
                ),
                "beta.logpdf beta.pdf": ("f(e2, one, s) float32",),
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
                "truncnorm.logsf truncnorm.sf": (
                    "f(p, -(jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5), jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(u, 0.5, 2.5) float32",
                    "f(u, 0.5, 2.5) float64",
                ),
                "gamma.logpdf gamma.pdf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
                    "f(u, 2.5) float32",
                    "f(u, 2.5) float64",
                ),
                "truncnorm.cdf truncnorm.logcdf": (
                    "f(p, -(jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5), jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(u, 0.5, 2.5) float32",
                    "f(u, 0.5, 2.5) float64",
                ),
            }
        ),
        modes="value jit vmap jvp",
        title="Truncated normal and gamma distributions at NaN",
        reason="Values at NaN are NaN as in SciPy, and so are their gradients; JAX gives the value of a point "
        "outside of the support or at its end, with gradient 0.",
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
                "cauchy.logcdf gumbel_r.logsf": (
                    "f(u) float32",
                    "f(u) float64",
                    "f(u) int32",
                    "f(u, 0.5, 2.0) float32",
                    "f(u, 0.5, 2.0) float64",
                    "f(u, 0.5, 2.0) int32",
                ),
                "gumbel_l.logcdf gumbel_r.sf": (
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(u) float32",
                    "f(u) float64",
                    "f(u) int32",
                    "f(u, 0.5, 2.0) float32",
                    "f(u, 0.5, 2.0) float64",
                    "f(u, 0.5, 2.0) int32",
                ),
                "gamma.logsf": ("f(u, 2.5) float32", "f(u, 2.5) int32"),
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
                "cauchy.isf cauchy.ppf": (
                    "f(2, 3) float32",
                    "f(m, 0.5, c.T) float32",
                    "f(p, r, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                    "f(s, v, 1.5) float32",
                    "f(u) float32",
                    "f(u) float64",
                    "f(u) int32",
                    "f(u, 0.5, 2.0) float32",
                    "f(u, 0.5, 2.0) float64",
                    "f(u, 0.5, 2.0) int32",
                    "f(unit) float32",
                    "f(unit, 0.5) bfloat16",
                    "f(unit, 0.5) float16",
                    "f(v, 0.5, -1.5) float32",
                ),
            }
        ),
        modes="value jit vmap jvp vjp",
        title="Quantiles of the Cauchy distribution",
        reason="They and their slopes are infinite at probabilities 0 and 1, and NaN outside, as in SciPy. JAX "
        "has the tangent of a rounded angle there: large numbers of either sign.",
        example="scipy.stats.cauchy.ppf f(unit) float32",
    ),
    Difference(
        cases=_cases(
            {
                "beta.logpdf beta.pdf": (
                    "f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                ),
                "gamma.logpdf": ("f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",),
                "betabinom.logpmf betabinom.pmf": (
                    "f(p, 7, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
                ),
            }
        ),
        modes="value jit vmap jvp vjp",
        title="Digits of the beta and gamma distributions",
        reason="Logarithms of gamma and beta functions that cancel are summed in float64, so that densities of "
        "1 have the logarithm 0, for example; JAX's are some 1e-6 off.",
        example="scipy.stats.beta.logpdf f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5, jnp.abs(jnp.nan_to_num(o, posinf=3)) + 0.5) float32",
    ),
    Difference(
        cases=_cases(
            {
                "dirichlet.logpdf dirichlet.pdf": (
                    "f(unit / 2.5, x[2:]) float32",
                    "f(unit[:4] / 2.5, x[2:]) float32",
                ),
            }
        ),
        modes="value jit vmap vjp",
        title="Dirichlet distribution at the boundary",
        reason="Where a component is 0 and its parameter less than 1, the density is infinite; JAX takes the "
        "boundary for outside.",
        example="scipy.stats.dirichlet.pdf f(unit / 2.5, x[2:]) float32",
    ),
    Difference(
        cases=_cases(
            {
                "multinomial.logpmf multinomial.pmf": (
                    "f(jnp.array([[1, 2, 3], [0, 6, 0]]), 6, jax.nn.softmax(q[0])) float32",
                ),
            }
        ),
        modes="value jit vmap vjp",
        title="Batches of counts",
        reason="`multinomial` compares the sum of each row of counts with n, as SciPy does; JAX the sum of all "
        "rows, so that batches have probability 0.",
        example="scipy.stats.multinomial.pmf f(jnp.array([[1, 2, 3], [0, 6, 0]]), 6, jax.nn.softmax(q[0])) float32",
    ),
    Difference(
        cases=_cases(
            {
                "multinomial.logpmf multinomial.pmf": ("f(v, 3, v) float32",),
            }
        ),
        modes="value",
        title="Counts as floats",
        reason="`multinomial` takes counts of any type, with probability 0 for what is not whole, as SciPy "
        "does; JAX raises ValueError.",
        example="scipy.stats.multinomial.pmf f(v, 3, v) float32",
    ),
)
