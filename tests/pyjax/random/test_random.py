"""Random numbers: bits equal to the reference implementation, statistics, keys, errors."""
# The table holds what JAX 0.10.2 returns for key(42): integers are compared exactly (floats by
# their bits), entries that start with ~ go through logarithms and the like and are compared to a
# few units in the last place.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import pyjax
import pyjax.numpy as jnp
from pyjax import lax, random

REFERENCE = {
    "key(42)": [0, 42],
    "key(-1)": [0, 4294967295],
    "split3": [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]],
    "split(2,2)": [
        [[1832780943, 270669613], [64467757, 2916123636]],
        [[2465931498, 255383827], [3134548294, 894150801]],
    ],
    "fold7": [2547012911, 1371500959],
    "bits": [2098992034, 2919706841, 2646866425, 2409546199, 1935504149],
    "bits23": [[2098992034, 2919706841, 2646866425], [2409546199, 1935504149, 2516274904]],
    "bits8": [162, 217, 249, 215, 21],
    "bits16": [5026, 12505, 63993, 49623, 29461],
    "uniform": [1056585764, 1059981104, 1058915320, 1057988288, 1055308516],
    "uniform f16": [11488, 12824, 15310, 14862],
    "uniform bf16": [16162, 16216, 16248, 16214],
    "randint": [184, 514, 736, 539, 804, 979],
    "randint u8": [196, 18, 183, 193, 141, 107],
    "randint full": [977810628, 1236381714, -1367112521, -1019495231],
    "bernoulli": [False, False, False, False, False, False, True, False],
    "permutation": [7, 4, 2, 5, 3, 6, 8, 9, 0, 1],
    "choice": [4, 4, 1, 9, 9],
    "choice no": [7, 4, 2, 5, 3],
    "choice p": [2, 2, 2, 2, 2, 2, 4, 1],
    "categorical": [[2, 0], [2, 0], [1, 0], [1, 2]],
    "rademacher": [1, -1, -1, -1, 1, -1],
    "~normal": [
        -0.02830461598932743,
        0.4671318531036377,
        0.2957029640674591,
        0.15354591608047485,
        -0.12403281778097153,
    ],
    "~gumbel": [0.3340933918952942, 0.952019453048706, 0.7255305647850037, 0.5481715202331543],
    "~exponential": [0.670817494392395, 1.1388006210327148, 0.9578199982643127, 0.8232924938201904],
    "~truncated": [
        0.14770005643367767,
        0.5684449076652527,
        0.42102551460266113,
        0.29997000098228455,
    ],
    "~gamma": [4.378075122833252, 1.5007864236831665, 4.194111347198486],
    "~laplace": [
        0.022839652374386787,
        -0.4456535577774048,
        -0.2646729052066803,
        -0.1301453858613968,
    ],
    "~dirichlet": [0.4784240424633026, 0.07394563406705856, 0.4476303160190582],
    "x64 key": [256, 5],
    "x64 uniform": [0.4267275666499091, 0.015010069515314584, 0.5741444178995352],
    "x64 bits": [7871734211187709741, 276886910877598708, 10591095138341673235],
    "old bits": [3134548294, 3733159049, 843694964, 894150801, 801545058],
    "old split": [[3134548294, 3733159049], [3746501087, 894150801], [801545058, 2363201431]],
    "rbg key": [0, 42, 0, 42],
    "rbg bits": [2620864722, 2991908441, 282133475, 2589630650, 1779689962],
    "rbg split": [
        [1832780943, 270669613, 1832780943, 270669613],
        [64467757, 2916123636, 64467757, 2916123636],
    ],
}


def bits_of(x) -> list:
    x = np.asarray(x)
    if x.dtype.kind not in "iub":
        x = x.view({2: np.uint16, 4: np.uint32}[x.dtype.itemsize])
    return x.tolist()


KEY = random.key(42)
P = np.array([0.1, 0.2, 0.3, 0.2, 0.2], np.float32)
LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], np.float32))
EXACT = {
    "key(42)": lambda k: random.key_data(k),
    "key(-1)": lambda k: random.key_data(random.key(-1)),
    "split3": lambda k: random.key_data(random.split(k, 3)),
    "split(2,2)": lambda k: random.key_data(random.split(k, (2, 2))),
    "fold7": lambda k: random.key_data(random.fold_in(k, 7)),
    "bits": lambda k: random.bits(k, (5,)),
    "bits23": lambda k: random.bits(k, (2, 3)),
    "bits8": lambda k: random.bits(k, (5,), jnp.uint8),
    "bits16": lambda k: random.bits(k, (5,), jnp.uint16),
    "uniform": lambda k: random.uniform(k, (5,)),
    "uniform f16": lambda k: random.uniform(k, (4,), jnp.float16),
    "uniform bf16": lambda k: random.uniform(k, (4,), jnp.bfloat16),
    "randint": lambda k: random.randint(k, (6,), -5, 1000),
    "randint u8": lambda k: random.randint(k, (6,), 0, 256, jnp.uint8),
    "randint full": lambda k: random.randint(k, (4,), -(2**31), 2**31 - 1),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, (8,)),
    "permutation": lambda k: random.permutation(k, 10),
    "choice": lambda k: random.choice(k, 10, (5,)),
    "choice no": lambda k: random.choice(k, 10, (5,), replace=False),
    "choice p": lambda k: random.choice(k, 5, (8,), p=P),
    "categorical": lambda k: random.categorical(k, LOGITS, shape=(4, 2)),
    "rademacher": lambda k: random.rademacher(k, (6,)),
}
CLOSE = {
    "~normal": lambda k: random.normal(k, (5,)),
    "~gumbel": lambda k: random.gumbel(k, (4,)),
    "~exponential": lambda k: random.exponential(k, (4,)),
    "~truncated": lambda k: random.truncated_normal(k, -1.0, 2.0, (4,)),
    "~gamma": lambda k: random.gamma(k, 2.5, (3,)),
    "~laplace": lambda k: random.laplace(k, (4,)),
    "~dirichlet": lambda k: random.dirichlet(k, jnp.ones(3)),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_bits(name: str, jitted: bool) -> None:
    fun = pyjax.jit(EXACT[name]) if jitted else EXACT[name]
    assert bits_of(fun(KEY)) == REFERENCE[name]


@pytest.mark.parametrize("name", CLOSE)
def test_values(name: str) -> None:
    np.testing.assert_allclose(CLOSE[name](KEY), REFERENCE[name], rtol=3e-6, atol=1e-7)


def test_fold_in_takes_all_of_uint32() -> None:
    high = random.key_data(random.fold_in(KEY, 2**31)).tolist()
    assert high == random.key_data(random.fold_in(KEY, np.uint32(2**31))).tolist()
    assert high == random.key_data(random.fold_in(KEY, np.int32(-(2**31)))).tolist()


def test_raw_keys_give_the_same_numbers() -> None:
    raw = random.PRNGKey(42)
    assert raw.dtype == np.uint32 and raw.tolist() == REFERENCE["key(42)"]
    assert bits_of(random.uniform(raw, (5,))) == REFERENCE["uniform"]
    assert random.split(raw, 3).tolist() == REFERENCE["split3"]
    assert random.fold_in(raw, 7).tolist() == REFERENCE["fold7"]
    assert random.key_data(random.wrap_key_data(raw)).tolist() == raw.tolist()


def test_64_bit_streams() -> None:
    with pyjax.enable_x64(True):
        key = random.key(42)
        assert random.key_data(random.key(2**40 + 5)).tolist() == REFERENCE["x64 key"]
        assert random.uniform(key, (3,)).tolist() == REFERENCE["x64 uniform"]
        assert random.bits(key, (3,), jnp.uint64).tolist() == REFERENCE["x64 bits"]


def test_older_stream() -> None:
    with pyjax.threefry_partitionable(False):
        assert bits_of(random.bits(KEY, (5,))) == REFERENCE["old bits"]
        assert bits_of(random.key_data(random.split(KEY, 3))) == REFERENCE["old split"]


def test_rbg_keys() -> None:
    key = random.key(42, impl="rbg")
    assert bits_of(random.key_data(key)) == REFERENCE["rbg key"]
    assert bits_of(random.key_data(random.split(key))) == REFERENCE["rbg split"]
    assert random.key_impl(key) == "rbg"


def test_options_choose_the_generator_and_shift_the_seed() -> None:
    with pyjax.default_prng_impl("rbg"):
        assert random.key_impl(random.key(0)) == "rbg"
    pyjax.config.update("jax_random_seed_offset", 5)
    try:
        shifted = random.key_data(random.key(37)).tolist()
    finally:
        pyjax.config.update("jax_random_seed_offset", 0)
    assert shifted == REFERENCE["key(42)"]


def test_keys_are_arrays() -> None:
    keys = random.split(KEY, 6)
    assert keys.shape == (6,) and str(keys.dtype) == "key<fry>"
    assert jnp.issubdtype(keys.dtype, pyjax.dtypes.prng_key)
    grid = keys.reshape(2, 3)
    assert bits_of(random.key_data(grid[1])) == bits_of(random.key_data(keys))[3:]
    joined = jnp.concatenate([keys[:2], keys[4:]])
    assert joined.shape == (4,)
    assert [bits_of(random.key_data(k)) for k in keys] == bits_of(random.key_data(keys))
    stacked = jnp.stack([KEY, keys[0]])
    assert bits_of(random.key_data(stacked))[0] == REFERENCE["key(42)"]


def test_keys_pass_through_transformations() -> None:
    keys = random.split(KEY, 4)
    batched = pyjax.vmap(lambda k: random.normal(k, (3,)))(keys)
    np.testing.assert_array_equal(batched[2], random.normal(keys[2], (3,)))

    def step(key, _):
        key, sub = random.split(key)
        return key, random.uniform(sub)

    last, values = pyjax.lax.scan(step, KEY, None, length=5)
    key, expected = KEY, []
    for _ in range(5):
        key, sub = random.split(key)
        expected.append(float(random.uniform(sub)))
    np.testing.assert_array_equal(values, np.float32(expected))
    assert bits_of(random.key_data(last)) == bits_of(random.key_data(key))
    chosen = pyjax.lax.cond(True, lambda a, b: a, lambda a, b: b, keys[0], keys[1])
    assert bits_of(random.key_data(chosen)) == bits_of(random.key_data(keys[0]))


N = 20_000
CONTINUOUS = {
    "uniform": (lambda k: random.uniform(k, (N,)), stats.uniform()),
    "normal": (lambda k: random.normal(k, (N,)), stats.norm()),
    "exponential": (lambda k: random.exponential(k, (N,)), stats.expon()),
    "gumbel": (lambda k: random.gumbel(k, (N,)), stats.gumbel_r()),
    "gumbel high": (lambda k: random.gumbel(k, (N,), mode="high"), stats.gumbel_r()),
    "laplace": (lambda k: random.laplace(k, (N,)), stats.laplace()),
    "logistic": (lambda k: random.logistic(k, (N,)), stats.logistic()),
    "cauchy": (lambda k: random.cauchy(k, (N,)), stats.cauchy()),
    "truncated normal": (
        lambda k: random.truncated_normal(k, -1.0, 2.0, (N,)),
        stats.truncnorm(-1, 2),
    ),
    "pareto": (lambda k: random.pareto(k, 3.0, (N,)), stats.pareto(3)),
    "rayleigh": (lambda k: random.rayleigh(k, 2.0, (N,)), stats.rayleigh(scale=2)),
    "weibull": (lambda k: random.weibull_min(k, 2.0, 1.5, (N,)), stats.weibull_min(1.5, scale=2)),
    "maxwell": (lambda k: random.maxwell(k, (N,)), stats.maxwell()),
    "lognormal": (lambda k: random.lognormal(k, 0.5, (N,)), stats.lognorm(0.5)),
    "gamma": (lambda k: random.gamma(k, 2.5, (N,)), stats.gamma(2.5)),
    "gamma small": (lambda k: random.gamma(k, 0.3, (N,)), stats.gamma(0.3)),
    "beta": (lambda k: random.beta(k, 2.0, 0.7, (N,)), stats.beta(2, 0.7)),
    "chisquare": (lambda k: random.chisquare(k, 3.0, (N,)), stats.chi2(3)),
    "t": (lambda k: random.t(k, 4.0, (N,)), stats.t(4)),
    "f": (lambda k: random.f(k, 5.0, 7.0, (N,)), stats.f(5, 7)),
    "triangular": (lambda k: random.triangular(k, -1.0, 0.5, 2.0, (N,)), stats.triang(0.5, -1, 3)),
    "wald": (lambda k: random.wald(k, 1.5, (N,)), stats.invgauss(1.5)),
    "generalized normal": (lambda k: random.generalized_normal(k, 3.0, (N,)), stats.gennorm(3)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str) -> None:
    sample, distribution = CONTINUOUS[name]
    result = stats.kstest(np.asarray(sample(KEY), np.float64), distribution.cdf)
    assert result.pvalue > 1e-4, result


DISCRETE = {
    "poisson": (lambda k: random.poisson(k, 3.0, (N,)), stats.poisson(3)),
    "poisson large": (lambda k: random.poisson(k, 40.0, (N,)), stats.poisson(40)),
    "binomial": (lambda k: random.binomial(k, 12.0, 0.3, (N,)), stats.binom(12, 0.3)),
    "binomial mirrored": (lambda k: random.binomial(k, 12.0, 0.8, (N,)), stats.binom(12, 0.8)),
    "geometric": (lambda k: random.geometric(k, 0.3, (N,)), stats.geom(0.3)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name: str) -> None:
    sample, distribution = DISCRETE[name]
    values = np.asarray(sample(KEY)).astype(int)
    low, high = int(distribution.ppf(0.001)), int(distribution.ppf(0.999))
    observed = np.array(
        [
            (values <= low).sum(),
            *[(values == v).sum() for v in range(low + 1, high)],
            (values >= high).sum(),
        ]
    )
    expected = (
        np.array(
            [
                distribution.cdf(low),
                *distribution.pmf(range(low + 1, high)),
                distribution.sf(high - 1),
            ]
        )
        * N
    )
    assert stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-4


def test_multivariate_shapes_and_moments() -> None:
    cov = np.array([[2.0, 0.6], [0.6, 1.0]], np.float32)
    for method in ("cholesky", "eigh", "svd"):
        x = np.asarray(
            random.multivariate_normal(KEY, np.float32([1, -1]), cov, (N,), method=method)
        )
        np.testing.assert_allclose(np.cov(x.T), cov, atol=0.08)
        np.testing.assert_allclose(x.mean(0), [1, -1], atol=0.05)
    d = random.dirichlet(KEY, jnp.array([1.0, 2.0, 3.0]), (5,))
    assert d.shape == (5, 3)
    np.testing.assert_allclose(d.sum(-1), 1, rtol=1e-5)
    q = random.orthogonal(KEY, 4, (2,))
    np.testing.assert_allclose(q @ q.mT, np.broadcast_to(np.eye(4), (2, 4, 4)), atol=1e-5)
    assert float(jnp.linalg.norm(random.ball(KEY, 3, shape=(500,)), axis=-1).max()) <= 1.0
    counts = random.multinomial(KEY, 50.0, jnp.array([0.2, 0.3, 0.5]))
    assert counts.sum() == 50


def test_gamma_is_differentiable_in_its_parameter() -> None:
    def mean(a):
        return random.gamma(KEY, a, (N,)).mean()

    # The mean of a gamma variate is its parameter, so the derivative is near 1.
    assert abs(float(pyjax.grad(mean)(2.5)) - 1) < 0.05


@pytest.mark.parametrize("draw", [random.gamma, random.loggamma])
def test_gamma_at_the_ends_of_its_parameter(draw) -> None:
    at_zero = -np.inf if draw is random.loggamma else 0
    shapes = jnp.array([0.0, -0.0, np.inf, -1.0, -np.inf, np.nan, 2.5])
    samples = draw(KEY, shapes)
    np.testing.assert_array_equal(
        samples[:6], np.float32([at_zero, at_zero, np.inf, np.nan, np.nan, np.nan])
    )
    # Beside them a proper parameter draws what it draws beside others.
    np.testing.assert_array_equal(samples[6], draw(KEY, jnp.full(7, 2.5))[6])


def test_loggamma_of_tiny_parameters() -> None:
    for a in (1e-3, 1e-30):
        # log x = log(u) / a, nearly, and so is its derivative.
        sample, slope = pyjax.value_and_grad(lambda a: random.loggamma(KEY, a))(a)
        assert np.isfinite(sample) and sample < -1
        np.testing.assert_allclose(slope, -sample / a, rtol=0.02)
    np.testing.assert_array_equal(jnp.sort(random.dirichlet(KEY, jnp.full(2, 1e-30))), [0, 1])
    assert random.beta(KEY, 0.0, 1.0) == 0 and random.beta(KEY, 1.0, 0.0) == 1


# Samples of JAX 0.10.2 for key(42), of functions that once used the key in another way.
OTHER_USES = {
    "logistic": (
        lambda k: random.logistic(k, (3,)),
        [-0.0451694130897522, 0.7528398036956787, 0.47375231981277466],
    ),
    "gumbel high": (
        lambda k: random.gumbel(k, (3,), mode="high"),
        [0.39925798773765564, -0.12997561693191528, 0.043095413595438004],
    ),
    "bernoulli high": (
        lambda k: random.bernoulli(k, 0.3, (12,), mode="high"),
        [False, False, False, False, False, False, True, False, False, False, False, False],
    ),
    "ball of power 0": (lambda k: random.ball(k, 2, 0.0, (1,)), [[np.nan, np.nan]]),
    "dirichlet of nothing": (lambda k: random.dirichlet(k, jnp.zeros(0), (2,)), [[], []]),
}


@pytest.mark.parametrize("name", OTHER_USES)
def test_other_uses_of_the_key(name: str) -> None:
    draw, expected = OTHER_USES[name]
    np.testing.assert_allclose(draw(KEY), expected, rtol=3e-6)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: random.normal(0), TypeError, r"normal needs a random key, got 0"),
        (
            lambda: random.laplace(2**40),
            TypeError,
            r"laplace needs a random key, got 1099511627776",
        ),
        (lambda: random.normal(jnp.zeros(3)), TypeError, r"random key, got float32\[3\]"),
        (
            lambda: random.normal(random.split(KEY)),
            ValueError,
            r"single key.*shape \(2,\)(?s:.*)vmap",
        ),
        (lambda: random.key(1.5), TypeError, "seed must be an integer"),
        (
            lambda: random.key(0, impl="mersenne"),
            ValueError,
            "unknown PRNG implementation 'mersenne'",
        ),
        (
            lambda: random.uniform(KEY, (2,), jnp.int32),
            ValueError,
            "uniform needs a floating dtype",
        ),
        (lambda: random.uniform(KEY, (2.5,)), TypeError, "shape of uniform must be integers"),
        (lambda: random.choice(KEY, 3, (5,), replace=False), ValueError, "5 elements from 3"),
        (lambda: random.choice(KEY, 3, p=jnp.ones(2)), ValueError, r"p has shape \(2,\)"),
        (lambda: random.bernoulli(KEY, jnp.ones(3), (2,)), ValueError, "does not fit"),
        (lambda: random.permutation(KEY, 2.5), TypeError, "array or an integer"),
    ],
)
def test_errors(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_uniform_stays_below_its_upper_bound() -> None:
    x = random.uniform(KEY, (1_000_000,))
    assert float(x.max()) < 1 and float(x.min()) >= 0


def test_shuffles_keep_elements() -> None:
    x = jnp.arange(24).reshape(6, 4)
    for independent in (False, True):
        y = random.permutation(KEY, x, axis=1, independent=independent)
        np.testing.assert_array_equal(np.sort(y, axis=1), x)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_keys_are_equal_or_not(impl: str) -> None:
    keys = random.split(random.key(0, impl=impl), 6).reshape(2, 3)
    words = np.asarray(random.key_data(keys))
    for other in (keys, keys[0, 1], keys[:1], keys[:, :1], keys[::-1]):
        expected = (words == np.asarray(random.key_data(other))).all(-1)
        for equal in (keys == other, pyjax.jit(jnp.equal)(keys, other)):
            assert equal.dtype == np.bool_
            np.testing.assert_array_equal(np.asarray(equal), expected)
        np.testing.assert_array_equal(np.asarray(keys != other), ~expected)
    mapped = pyjax.vmap(lambda row: row == keys[1, 2])(keys)
    np.testing.assert_array_equal(np.asarray(mapped), [[0, 0, 0], [0, 0, 1]])
    assert keys[0, 1] in keys and random.key(9, impl=impl) not in keys
    assert jnp.array_equal(keys, keys) and not jnp.array_equal(keys, keys[::-1])


def test_comparing_keys_does_not_use_them() -> None:
    with pyjax.debug_key_reuse(True):
        key = random.key(3)
        assert key == key
        random.normal(key)


def test_keys_compare_with_keys_of_their_kind_only() -> None:
    key = random.key(0)
    for other in (1, np.uint32(1), random.key(0, impl="rbg")):
        with pytest.raises(TypeError, match="equal does not accept dtypes"):
            key == other  # noqa: B015
    assert (key == None) is False  # noqa: E711
    with pytest.raises(TypeError, match="lt does not accept dtype key<fry>"):
        key < key  # noqa: B015


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
@pytest.mark.parametrize("run", [lambda f: f, pyjax.jit], ids=["eager", "jit"])
def test_keys_are_compared(impl: str, run: Any) -> None:
    one = random.key(7, impl=impl)
    grid = random.split(one, (2, 3))
    eq, ne = run(lax.eq), run(lax.ne)
    assert eq(one, one).item() is True and ne(one, one).item() is False
    assert eq(grid, grid[1, 2]).tolist() == [[False] * 3, [False, False, True]]
    assert ne(grid, grid[:1]).tolist() == [[False] * 3, [True] * 3]
    assert pyjax.vmap(eq, (0, None))(grid, grid[1]).tolist() == [[False] * 3, [True] * 3]
    assert pyjax.vmap(ne, (1, 0))(grid, grid[0]).tolist() == [[False, True]] * 3
    assert (grid == grid[:, :1]).tolist() == [[True, False, False]] * 2


def test_keys_have_no_order() -> None:
    one = random.key(7)
    assert str(pyjax.make_jaxpr(lax.eq)(one, one)).count("eq") == 1
    with pytest.raises(TypeError, match="lt does not accept dtype key<fry>"):
        lax.lt(one, one)
    with pytest.raises(TypeError, match=r"same dtypes, got key<fry>, key<rbg>"):
        lax.eq(one, random.key(7, impl="rbg"))


def test_a_comparison_does_not_use_up_keys() -> None:
    with pyjax.debug_key_reuse(True):
        same, _ = pyjax.jit(lambda key: (key == key, random.uniform(key)))(random.key(7))
    assert same.item()


NARROW = {
    "beta": lambda x, **kw: random.beta(KEY, 1.0, x, **kw),
    "f": lambda x, **kw: random.f(KEY, x, 1.0, **kw),
    "triangular": lambda x, **kw: random.triangular(KEY, 0.5, x, 2.0, **kw),
    **{
        name: lambda x, name=name, **kw: getattr(random, name)(KEY, x, **kw)
        for name in ("chisquare", "lognormal", "pareto", "rayleigh", "t", "wald")
    },
}


@pytest.mark.parametrize("name", NARROW)
def test_parameters_that_would_lose_something_are_refused(name) -> None:
    draw = NARROW[name]
    said = f"In arguments to {name}, cannot safely cast"
    for too_wide in (1.0 + 2j, jnp.ones((), np.complex64)):
        with pytest.raises(pyjax.errors.TypePromotionError, match=said):
            draw(too_wide)
    with pytest.raises(ValueError, match=f"{said} argument of type float32 to float16"):
        draw(jnp.ones(()), dtype="float16")
    for fits in (1, 1.0, np.float16(1), jnp.ones((), int)):
        assert draw(fits, dtype="float16").dtype == np.float16
