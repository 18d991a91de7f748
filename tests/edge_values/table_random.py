"""`random`: the samples of one key, and what parameters without a distribution give.

Keys, bits, integers, booleans and what is made of uniform numbers by exact arithmetic are compared
bit for bit. Samples that go through logarithms and the like are compared to a number of units in
the last place: pyjax's logarithm and its inverse error function have smaller errors. (`norm` where
samples near 0 are differences of larger numbers.)
"""

from __future__ import annotations

from functools import partial

from tests.edge_values.rows import FLOATS, Row, rows

of = partial(rows, "random")

HALVES = ("float16", "bfloat16", "float64")
UNSIGNED = ("uint8", "uint32", "uint64")
INTEGERS = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
COVARIANCE = "jnp.array([[2.0, 0.5], [0.5, 1.0]], dtype)"
ENDS = "jnp.array([2.5, 0.0, inf, nan])"

ROWS: tuple[Row, ...] = (
    *of("key PRNGKey", ["f(7)", "f(-1)", "f(2**31)", "f(np.uint32(2**32 - 1))"]),
    *of("split", ["f(key)", "f(key, 0)", "f(key, (2, 3))"]),
    *of("fold_in", ["f(key, 0)", "f(key, 2**31)", "f(key, np.int32(-1))"]),
    *of("clone key_data", ["f(key)"]),
    *of("wrap_key_data", ["f(np.array([1, 2], np.uint32))", "f(np.zeros((0, 2), np.uint32))"]),
    *of("bits", ["f(key, (5,), 'uint8')", "f(key, (5,), 'uint16')", "f(key, (0, 3))"]),
    *of(
        "uniform",
        [
            "f(key, (9,))",
            "f(key, (3,), minval=1.0, maxval=0.0)",
            "f(key, (3,), minval=-inf, maxval=inf)",
            "f(key, (3,), minval=nan)",
            "f(key, (3,), 'bfloat16')",
            "f(key, (3,), 'float16')",
            "f(key, (0,))",
        ],
    ),
    *of(
        "randint",
        [
            "f(key, (5,), 0, 10)",
            "f(key, (5,), 10, 0)",
            "f(key, (5,), -2**31, 2**31 - 1)",
            "f(key, (5,), 0, 256, 'uint8')",
            "f(key, (5,), -1000, 1000, 'int8')",
        ],
    ),
    *of(
        "bernoulli",
        [f"f(key, {p}, (9,), {m!r})" for p in (0.3, 1.5, "nan") for m in ("low", "high")],
    ),
    *of("rademacher", ["f(key, (9,))", "f(key, (9,), 'float32')"]),
    *of(
        "permutation",
        ["f(key, 9)", "f(key, m, axis=1)", "f(key, m, independent=True)", "f(key, 0)"],
    ),
    *of("choice", ["f(key, 9, (4,))", "f(key, 9, (4,), False)", "f(key, m, (2,), axis=1)"]),
    *of("choice", ["f(key, 3, (5,), p=jnp.array([0.0, 0.25, 0.75]))"]),
    *of(
        "categorical",
        ["f(key, m)", "f(key, m, axis=0, shape=(2, 4))", "f(key, m[0], shape=(2,), replace=False)"],
    ),
    *of("categorical", ["f(key, jnp.array([-inf, 0.0, nan]))", "f(key, jnp.array([-inf, -inf]))"]),
    *of(
        "poisson",
        [
            "f(key, jnp.array([0.0, 0.5, 9.0, 10.0, 300.0, -1.0, nan]))",
            "f(key, 4.0, (5,), 'uint8')",
        ],
    ),
    *of(
        "binomial",
        ["f(key, jnp.array([5.0, 40.0, -1.0, nan, 8.0]), jnp.array([0.3, 0.7, 0.5, 0.5, 1.5]))"],
    ),
    *of("multinomial", ["f(key, 20.0, jnp.array([0.2, 0.0, 0.8]))"]),
    *of("geometric", ["f(key, 0.3, (5,))", "f(key, jnp.array([0.0, 1.0, nan, 1.5]))"]),
    *of("normal", ["f(key, (9,))", "f(key, ())"], ulp=40),
    *of(
        "truncated_normal",
        ["f(key, -1.0, 2.0, (9,))", "f(key, 2.0, 1.0, (3,))", "f(key, nan, 1.0)"],
        norm=4,
    ),
    *of("exponential laplace logistic cauchy", ["f(key, (9,))"], ulp=8),
    *of("gumbel", ["f(key, (9,))", "f(key, (9,), mode='high')"], norm=4),
    *of("maxwell", ["f(key, (9,))"], ulp=40),
    *of("pareto rayleigh", [f"f(key, {ENDS})"], ulp=8),
    *of("lognormal wald", [f"f(key, {ENDS})"], ulp=40),
    *of("weibull_min double_sided_maxwell", ["f(key, 1.0, 2.5, (5,))"], ulp=40),
    *of("triangular", ["f(key, 0.0, 0.25, 1.0, (5,))", "f(key, 0.0, 0.0, 0.0)"], ulp=8),
    *of("gamma chisquare", [f"f(key, {ENDS})"], ulp=100),
    *of("loggamma", [f"f(key, {ENDS})"], ulp=200),
    *of("t", ["f(key, jnp.array([2.5, inf, nan]))"], ulp=100),
    *of("beta f", ["f(key, jnp.array([2.5, nan]), 1.5)"], ulp=200),
    *of(
        "dirichlet",
        ["f(key, jnp.array([0.5, 2.0, 3.0]))", "f(key, jnp.array([0.0, 1.0]))"],
        ulp=200,
    ),
    *of("generalized_normal", ["f(key, 3.0, (5,))"], ulp=100),
    *of("ball", ["f(key, 3, shape=(2,))", "f(key, 2, 0.0)"], ulp=100),
    *of("orthogonal", ["f(key, 3)"], norm=40),
    *of(
        "multivariate_normal",
        ["f(key, jnp.ones(2), jnp.array([[2.0, 0.5], [0.5, 1.0]]), (3,))"],
        ulp=100,
    ),
    # Draws in every floating type.
    *of("uniform", ["f(key, (9,), dtype)", "f(key, (9,), dtype, -1.0, 2.0)"], HALVES),
    *of("bits", ["f(key, (9,), dtype)", "f(key, (), dtype)"], UNSIGNED),
    *of("randint", ["f(key, (9,), -5, 100, dtype)", "f(key, (3,), 0, 1, dtype)"], INTEGERS),
    *of("rademacher", ["f(key, (9,), dtype)"], (*HALVES, "int8")),
    *of(
        "normal exponential laplace logistic cauchy maxwell",
        ["f(key, (9,), dtype)", "f(key, (0,), dtype)"],
        HALVES,
        ulp=40,
    ),
    *of("gumbel", ["f(key, (9,), dtype)", "f(key, (9,), dtype, mode='high')"], HALVES, norm=4),
    *of("truncated_normal", ["f(key, -1.0, 2.0, (9,), dtype)"], HALVES, norm=4),
    *of("truncated_normal", ["f(key, -inf, inf, (9,))", "f(key, 3.0, inf, (9,))"], norm=4),
    *of(
        "pareto rayleigh lognormal wald",
        ["f(key, s, (9,))", "f(key, w)", "f(key, e)", "f(key, 2, (3,))"],
        FLOATS,
        ulp=40,
        grad="s",
        grad_ulp=400,
    ),
    *of("weibull_min double_sided_maxwell", ["f(key, s, s, (9,))"], FLOATS, ulp=40),
    *of("triangular", ["f(key, -1.0, s, 4.0, (9,))", "f(key, 2.0, s, 1.0)"], FLOATS, ulp=8),
    *of(
        "gamma loggamma chisquare t",
        ["f(key, s, (9,))", "f(key, unit + 0.5)", "f(key, w)", "f(key, e)"],
        FLOATS,
        ulp=200,
        grad="s unit",
        grad_ulp=2000,
    ),
    *of(
        "beta f",
        ["f(key, s, 1.5, (9,))", "f(key, w, 2.0)", "f(key, 2.0, w)", "f(key, e, 1.0)"],
        FLOATS,
        ulp=400,
        grad="s",
        grad_ulp=4000,
    ),
    *of(
        "dirichlet",
        ["f(key, unit + 0.5)", "f(key, unit, (2,))", "f(key, w)", "f(key, s)"],
        FLOATS,
        ulp=400,
        grad="unit",
        grad_norm=400,
    ),
    *of("generalized_normal", ["f(key, 3.0, (5,), dtype)"], HALVES, ulp=100),
    *of("generalized_normal", ["f(key, w)", "f(key, 0.5, (5,))"], ulp=100),
    *of("ball", ["f(key, 3, shape=(2,), dtype=dtype)", "f(key, 1)"], HALVES, ulp=100),
    *of("ball", ["f(key, 0)", "f(key, 3, inf)", "f(key, 3, nan)", "f(key, 3, 1)"], ulp=100),
    *of("orthogonal", ["f(key, 3, dtype=dtype)"], ("float64", "complex64"), norm=100),
    *of("orthogonal", ["f(key, 0)", "f(key, 1, (2,))", "f(key, 3, m=2)"], norm=40),
    *of(
        "multivariate_normal",
        [f"f(key, v[:2], {COVARIANCE}, (3,))", f"f(key, v[:2], {COVARIANCE}, method='eigh')"],
        FLOATS,
        norm=100,
        grad="v",
    ),
    *of(
        "multivariate_normal", ["f(key, v[:3], h, (2,))", "f(key, v[:3], z)"], norm=100, grad="v h"
    ),
    *of(
        "bernoulli",
        ["f(key, unit)", "f(key, w)", "f(key, s)", "f(key, unit, (2, 5))", "f(key, e)"],
        FLOATS,
    ),
    *of(
        "categorical",
        ["f(key, m, 0)", "f(key, n)", "f(key, m, shape=(2, 3))", "f(key, m, mode='high')"],
        FLOATS,
    ),
    *of(
        "choice",
        ["f(key, v, (4,))", "f(key, v, (4,), False)", "f(key, v, (4,), p=jnp.abs(x))", "f(key, s)"],
        FLOATS,
    ),
    *of("permutation", ["f(key, v)", "f(key, m)", "f(key, e)", "f(key, s)"], FLOATS),
    *of(
        "poisson",
        [
            "f(key, w)",
            "f(key, unit * 40)",
            "f(key, s, (5,), 'int8')",
            "f(key, jnp.array([1e4, 2e4, 1e6, 1e9, 3e9, 1e20]))",
            "f(key, jnp.array([9999.0, 1e4, 10001.0, 65536.0] * 4))",
            "f(key, e)",
        ],
        FLOATS,
    ),
    *of(
        "binomial",
        [
            "f(key, s * 10, unit)",
            "f(key, jnp.array([5, 40, 100, 8], dtype), jnp.array([0.3, 0.7, 0.5, 0.1], dtype))",
            "f(key, 40.0, 0.5, (9,), dtype)",
            "f(key, w, 0.5)",
            "f(key, 10.0, w)",
            "f(key, jnp.array([1e4, 1e6, 1e8]), 0.25)",
        ],
        FLOATS,
    ),
    *of(
        "multinomial",
        ["f(key, 20.0, unit, dtype=dtype)", "f(key, 3.0, w)", "f(key, 0.0, unit)"],
        FLOATS,
    ),
    *of("geometric", ["f(key, unit)", "f(key, w)", "f(key, s / 4, (9,), 'int8')"], FLOATS),
)

EXCLUDED = {
    "random.key_impl": "names of implementations are spelled out: threefry2x32, not fry",
    "random.key_dtype": "gives a dtype, which is no value",
}
