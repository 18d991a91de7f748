"""Known differences of special functions, activations and samples, for known_differences.py."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

SPECIAL: tuple[Difference, ...] = (
    Difference(
        cases=(
            "nn.silu f(u) float16",
            "nn.swish f(u) float16",
        ),
        modes="value jit vmap",
        title="Digits of silu in half precision",
        reason="The sigmoid is computed in single precision, and rounded once.",
        example="nn.silu f(u) float16",
    ),
    Difference(
        cases=(
            "scipy.special.exp1 f(u) float32",
            "scipy.special.exp1 f(u) float16",
            "scipy.special.exp1 f(u) bfloat16",
            "scipy.special.expi f(u) *",
            "scipy.special.gammainc f(p, r) *",
            "scipy.special.gammaincc f(p, r) int32",
            "scipy.special.rel_entr f(p, r) float32",
            "scipy.special.rel_entr f(p, r) float16",
            "scipy.special.rel_entr f(p, r) bfloat16",
            "scipy.special.rel_entr f(p, r) float64",
            "scipy.special.zeta f(p, r) *",
            "scipy.special.zeta f(s, v) float32",
            "scipy.special.polygamma f(1, u) float32",
            "scipy.special.polygamma f(1, u) float16",
            "scipy.special.polygamma f(1, u) bfloat16",
            "scipy.special.polygamma f(1, u) float64",
            "scipy.special.polygamma f(p, r) int32",
            "scipy.special.expn f(3, unit) float32",
            "scipy.special.expn f(0, u) float16",
            "scipy.special.expn f(0, u) bfloat16",
            "scipy.special.expn f(0, u) float64",
            "scipy.special.expn f(1, u) float16",
            "scipy.special.expn f(1, u) bfloat16",
            "scipy.special.expn f(7, u) float16",
            "scipy.special.expn f(7, u) int32",
            "scipy.special.poch f(p, r) int32",
            "scipy.special.comb f(p, r) int32",
        ),
        modes="value jit vmap jvp vjp",
        title="Special functions at the ends of their domains",
        reason="The limits are SciPy's: exponential integrals at 0 and infinity (expn of n at 0 is 1 "
        "/ (n - 1)), gammainc at order 0, NaN for a NaN in rel_entr, zeta at infinity and its "
        "poles, polygamma at infinity. In half precision JAX's series overflow. Zeta has no "
        "derivative by its order, which JAX lets pass; at order 0 it is NaN.",
        example="scipy.special.exp1 f(u) float32",
    ),
    Difference(
        cases=(
            "scipy.special.digamma f(u) float32",
            "scipy.special.digamma f(u) float64",
            "scipy.special.erfinv f(u) float64",
            "scipy.special.i1e f(u) float64",
            "scipy.special.log_ndtr f(u) float32",
            "scipy.special.log_ndtr f(u) float64",
            "scipy.special.factorial f(u) float64",
            "scipy.special.factorial f(u) int32",
            "scipy.special.gamma f(u) int32",
            "scipy.special.gammaln f(u) float32",
            "scipy.special.gammaln f(u) float16",
            "scipy.special.gammaln f(u) bfloat16",
            "scipy.special.gammaln f(u) float64",
            "scipy.special.gammaln f(u) int32",
            "scipy.special.i1 f(u) float64",
            "scipy.special.loggamma f(u) float32",
            "scipy.special.loggamma f(u) float16",
            "scipy.special.loggamma f(u) bfloat16",
            "scipy.special.loggamma f(u) float64",
            "scipy.special.loggamma f(u) int32",
            "scipy.special.gammaln f(True) float32",
            "scipy.special.loggamma f(True) float32",
            "scipy.special.betaln f(p, r) float32",
            "scipy.special.betaln f(p, r) float16",
            "scipy.special.betaln f(p, r) bfloat16",
            "scipy.special.betaln f(p, r) int32",
            "scipy.special.poch f(p, r) float16",
            "scipy.special.beta f(s, v) float32",
            "scipy.special.comb f(7, u) float16",
            "scipy.special.comb f(7, u) bfloat16",
            "scipy.special.bernoulli f(5) float32",
            "scipy.special.bernoulli f(20) float32",
            "nn.gelu f(u) float32",
            "nn.gelu f(u) float64",
            "nn.gelu f(u) int32",
        ),
        modes="value jit vmap",
        title="Digits of special functions",
        reason="JAX's series lose digits near zeros of these functions and in their tails, and so do "
        "those in half precision. erf_inv of float64 is within 2.8e-14 of the value here, and "
        "gamma within 4e-14.",
        example="scipy.special.digamma f(u) float32",
    ),
    Difference(
        cases=(
            "random.normal f(key, (9,), dtype) float64",
            "random.maxwell f(key, (9,), dtype) float64",
            "random.gumbel f(key, (9,), dtype, mode='high') float64",
            "random.truncated_normal f(key, -1.0, 2.0, (9,), dtype) float64",
            "random.truncated_normal f(key, 3.0, inf, (9,)) float32",
            "random.lognormal f(key, s, (9,)) float64",
            "random.lognormal f(key, w) float64",
            "random.wald f(key, s, (9,)) float64",
            "random.wald f(key, w) float64",
            "random.weibull_min f(key, s, s, (9,)) float16",
            "random.double_sided_maxwell f(key, s, s, (9,)) float64",
            "random.ball f(key, 3, shape=(2,), dtype=dtype) float64",
        ),
        modes="value jit vmap",
        title="Digits of samples",
        reason="Samples go through logarithms and erf_inv, whose last digits differ; far in the "
        "tails of truncated_normal they are of erf. JAX computes 1 / concentration of "
        "weibull_min in the type of concentration.",
        example="random.normal f(key, (9,), dtype) float64",
    ),
    Difference(
        cases=(
            "nn.dot_product_attention f(t, t, t) float64",
            "nn.dot_product_attention f(t, t, t, is_causal=True) float64",
        ),
        modes="value jit vmap",
        title="Attention in float64",
        reason="The weights are computed in the type of the operands; JAX computes them in float32, "
        "which leaves about eight digits.",
        example="nn.dot_product_attention f(t, t, t) float64",
    ),
    Difference(
        cases=("random.poisson f(key, w) *float*",),
        modes="value jit vmap",
        title="poisson of an infinite rate",
        reason="-1, as for all rates that have no distribution; JAX gives 0 or the largest integer, "
        "as the key wants.",
        example="random.poisson f(key, w) float32",
    ),
    Difference(
        cases=("random.poisson f(key, jnp.array([9999.0, 1e4, 10001.0, 65536.0] * 4)) float32",),
        modes="value jit vmap",
        title="poisson of large rates",
        reason="From 1e4 on the density is computed so that its terms do not cancel, and other "
        "samples are accepted now and then; JAX's deviation is too large there.",
        example="random.poisson f(key, jnp.array([9999.0, 1e4, 10001.0, 65536.0] * 4)) float32",
    ),
    Difference(
        cases=(
            "random.binomial f(key, s * 10, unit) float16",
            "random.binomial f(key, s * 10, unit) bfloat16",
            "random.binomial f(key, jnp.array([5, 40, 100, 8], dtype), jnp.array([0.3, 0.7, 0.5, 0.1], dtype)) float16",
            "random.binomial f(key, jnp.array([5, 40, 100, 8], dtype), jnp.array([0.3, 0.7, 0.5, 0.1], dtype)) bfloat16",
            "random.multinomial f(key, 20.0, unit, dtype=dtype) float16",
            "random.multinomial f(key, 20.0, unit, dtype=dtype) bfloat16",
        ),
        modes="value jit vmap",
        title="binomial of half-precision parameters",
        reason="Samples are those of the same parameters in float32; JAX draws and compares in half "
        "precision, which gives other samples.",
        example="random.binomial f(key, s * 10, unit) float16",
    ),
)
