"""Known differences of special functions, activations and samples, for known_differences.py."""

# ruff: noqa: E501 - the key of a case stays in one piece

from __future__ import annotations

from tests.edge_values.known_difference import Difference

SPECIAL: tuple[Difference, ...] = (
    Difference(
        cases=(
            "nn.squareplus f(u) float*",
            "nn.squareplus f(u) bfloat16",
            "nn.squareplus f(u, 0.1) float32",
            "nn.squareplus f(u, 0) float32",
            "nn.squareplus f(u, -2.0) float32",
            "nn.squareplus f(m, m[0]) float32",
        ),
        modes="value jit vmap",
        title="squareplus below zero",
        reason="x + sqrt(x**2 + b) cancels there: at -10 JAX has 4 digits in float32, and none at -1e4. "
        "pyjax divides b by sqrt(x**2 + b) - x, which keeps all, and is 0 at -inf.",
        example="nn.squareplus f(u) float32",
    ),
    Difference(
        cases=("scipy.special.kl_div f(p, r) bfloat16",),
        modes="value jit vmap",
        title="Digits of kl_div in half precision",
        reason="It is computed in float64 and rounded once: 0.1533 for 0.5 and 1.0, where JAX's three "
        "terms, each rounded, give 0.15625.",
        example="scipy.special.kl_div f(p, r) bfloat16",
    ),
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
            "nn.gelu f(u) float32",
            "nn.gelu f(u) float64",
            "nn.gelu f(u) int32",
        ),
        modes="value jit vmap",
        title="Digits of gelu in its tail",
        reason="1 + tanh cancels there, and tanh rounds differently. At -3 pyjax is 176 units in the "
        "last place off in float32 and 57 in float64, JAX 208 and 328.",
        example="nn.gelu f(u) float32",
    ),
    Difference(
        cases=(
            "scipy.special.exp1 f(u) float32",
            "scipy.special.exp1 f(u) float16",
            "scipy.special.exp1 f(u) bfloat16",
            "scipy.special.expi f(u) *",
            "scipy.special.expn f(3, unit) float32",
            "scipy.special.expn f(0, u) float16",
            "scipy.special.expn f(0, u) bfloat16",
            "scipy.special.expn f(0, u) float64",
            "scipy.special.expn f(1, u) float16",
            "scipy.special.expn f(1, u) bfloat16",
            "scipy.special.expn f(7, u) float16",
            "scipy.special.expn f(7, u) int32",
        ),
        modes="value jit vmap",
        title="Exponential integrals at zero and infinity, and in half precision",
        reason="The limits are SciPy's: 0 at infinity, where JAX gives NaN, -inf for expi at 0, and 1 "
        "/ (n - 1) for expn of n at 0, where JAX gives 1 / n. In half precision JAX's series "
        "overflow to NaN or 0 and lose digits.",
        example="scipy.special.exp1 f(u) float32",
    ),
    Difference(
        cases=(
            "scipy.special.gammainc f(p, r) *",
            "scipy.special.gammaincc f(p, r) *",
            "lax.igammac f(p, r) float32",
            "scipy.stats.poisson.cdf f(p, jnp.abs(jnp.nan_to_num(r, posinf=3)) + 0.5) float32",
        ),
        modes="value jit vmap",
        title="Incomplete gamma functions of order 0 and of large orders",
        reason="gammainc of order 0 is 1, and of infinite order 0, as in SciPy; JAX gives NaN at some "
        "arguments. So poisson.cdf is 1 at infinity. Of order "
        "2147483647 at the same argument both functions are near 1/2; JAX gives 0. At 31 JAX "
        "has five digits.",
        example="scipy.special.gammainc f(p, r) float32",
    ),
    Difference(
        cases=(
            "scipy.special.rel_entr f(p, r) float32",
            "scipy.special.rel_entr f(p, r) float16",
            "scipy.special.rel_entr f(p, r) bfloat16",
            "scipy.special.rel_entr f(p, r) float64",
        ),
        modes="value jit vmap",
        title="rel_entr of NaN and infinity",
        reason="NaN for a NaN, and infinity for infinity and a finite number, as in SciPy. JAX gives "
        "infinity for a NaN, and NaN for infinity.",
        example="scipy.special.rel_entr f(p, r) float32",
    ),
    Difference(
        cases=(
            "scipy.special.zeta f(p, r) *",
            "scipy.special.zeta f(s, v) float32",
            "scipy.special.polygamma f(1, u) float32",
            "scipy.special.polygamma f(1, u) float16",
            "scipy.special.polygamma f(1, u) bfloat16",
            "scipy.special.polygamma f(1, u) float64",
            "scipy.special.polygamma f(p, r) int32",
        ),
        modes="value jit vmap",
        title="zeta and polygamma at poles and infinity",
        reason="zeta is infinite at its poles (0, -1, -2, ...) for orders above 1, where JAX gives "
        "NaN, and NaN for orders below 1, where JAX gives infinity at the poles; both as in "
        "SciPy. Large and infinite orders and arguments have the limit, JAX NaN or 0. "
        "polygamma is made of zeta.",
        example="scipy.special.zeta f(p, r) float32",
    ),
    Difference(
        cases=(
            "scipy.special.poch f(p, r) int32",
            "scipy.special.comb f(p, r) int32",
        ),
        modes="value jit vmap",
        title="poch and comb of large numbers",
        reason="JAX subtracts logarithms that are large and nearly equal, and gives 1 for comb and "
        "NaN for poch of 2147483647, infinity for poch(31, 7). poch(0, m) is 0, as in SciPy.",
        example="scipy.special.comb f(p, r) int32",
    ),
    Difference(
        cases=(
            "scipy.special.gamma f(u) float16",
            "scipy.special.gamma f(u) bfloat16",
            "scipy.special.factorial f(u) bfloat16",
        ),
        modes="value jit vmap",
        title="gamma and factorial in half precision",
        reason="They are computed in wider types: gamma(-0.001) is -1000 and factorial(7.25) is 8384, "
        "the nearest bfloat16 to 8376.5. JAX has -998.5 and 8640.",
        example="scipy.special.factorial f(u) bfloat16",
    ),
    Difference(
        cases=(
            "scipy.special.digamma f(u) float32",
            "scipy.special.digamma f(u) float64",
            "scipy.special.gammaln f(u) float32",
            "scipy.special.gammaln f(u) float16",
            "scipy.special.gammaln f(u) bfloat16",
            "scipy.special.gammaln f(u) float64",
            "scipy.special.gammaln f(u) int32",
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
        ),
        modes="value jit vmap",
        title="Digits near the zeros of digamma and gammaln",
        reason="There the sums of both cancel. pyjax's are of float64: in narrower types the results "
        "are within 0.5 units in the last place (and 0 at zeros), where JAX's are up to 48 off "
        "and 5e-7 at zeros. In float64 both err by some 1e-15 next to zeros, which is 46 and "
        "114 units for digamma(-0.5), 74 and 86 for digamma(1.5), 267 and 75 for gammaln(-2.5).",
        example="scipy.special.digamma f(u) float32",
    ),
    Difference(
        cases=(
            "scipy.special.factorial f(u) float64",
            "scipy.special.factorial f(u) bfloat16",
            "scipy.special.factorial f(u) int32",
            "scipy.special.gamma f(u) float64",
            "scipy.special.gamma f(u) float16",
            "scipy.special.gamma f(u) bfloat16",
            "scipy.special.gamma f(u) int32",
            "scipy.special.beta f(s, v) float32",
            "scipy.special.poch f(p, r) float16",
        ),
        modes="value jit vmap",
        title="Digits of gamma, factorial, beta and poch",
        reason="JAX takes the exponential of logarithms, which magnifies their rounding: gamma(31) and "
        "factorial(32) are 68 and 116 units in the last place off in float32, factorial(40) 95 in "
        "float64. pyjax does so for beta, poch and gamma below 0, in float64; of positive "
        "arguments its gamma is within 0.5 units in narrower types, and within 13 in float64.",
        example="scipy.special.factorial f(u) float64",
    ),
    Difference(
        cases=(
            "scipy.special.comb f(7, u) float16",
            "scipy.special.comb f(7, u) bfloat16",
        ),
        modes="value jit vmap",
        title="comb in half precision",
        reason="It is computed in float32 and rounded once, so that whole numbers are exact; JAX's "
        "logarithms have three digits.",
        example="scipy.special.comb f(7, u) float16",
    ),
    Difference(
        cases=(
            "scipy.special.log_ndtr f(u) float32",
            "scipy.special.log_ndtr f(u) float64",
            "scipy.special.ndtr f(u) float64",
        ),
        modes="value jit vmap",
        title="Digits of ndtr and log_ndtr",
        reason="Above zero log_ndtr is log1p of the upper tail, which keeps its digits; JAX's result at "
        "7.25 has five (float64). In the lower tail of ndtr x**2 / 2 has all its digits; JAX's result "
        "at -10 has 14.",
        example="scipy.special.log_ndtr f(u) float32",
    ),
    Difference(
        cases=(
            "scipy.special.bernoulli f(5) float32",
            "scipy.special.bernoulli f(20) float32",
        ),
        modes="value jit",
        title="Digits of bernoulli",
        reason="The numbers are exact fractions, rounded once; JAX's sums err by 3e-6.",
        example="scipy.special.bernoulli f(5) float32",
    ),
    Difference(
        cases=(
            "random.gumbel f(key, (9,), dtype, mode='high') float64",
            "random.truncated_normal f(key, 3.0, inf, (9,)) float32",
            "random.weibull_min f(key, s, s, (9,)) float16",
        ),
        modes="value jit vmap",
        title="Digits of samples",
        reason="Samples go through logarithms, erf and erf_inv, whose last digits differ; far in the "
        "tail of truncated_normal a digit of erf is many of the sample. JAX computes 1 / "
        "concentration of weibull_min in the type of concentration.",
        example="random.truncated_normal f(key, 3.0, inf, (9,)) float32",
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
