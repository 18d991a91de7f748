"""`random`: the samples of one key, and what parameters without a distribution give.

Keys, bits, integers, booleans and what is made of uniform numbers by exact arithmetic are compared
bit for bit. Samples that go through logarithms and the like are compared to a number of units in
the last place: pyjax's logarithm and its inverse error function have smaller errors. (`norm` where
samples near 0 are differences of larger numbers.)
"""

from __future__ import annotations

from functools import partial

from tests.edge_values.rows import Row, rows

of = partial(rows, "random")

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
)

EXCLUDED = {
    "random.key_impl": "names of implementations are spelled out: threefry2x32, not fry",
    "random.key_dtype": "gives a dtype, which is no value",
}
