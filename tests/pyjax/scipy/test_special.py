"""pyjax.scipy.special against scipy.special, in float64 and float32, with derivatives."""

import numpy as np
import pytest
from scipy import special as reference

import pyjax
import pyjax.numpy as jnp
from pyjax.scipy import special

LINE = np.array([-7.3, -2.5, -1.2, -0.4, -1e-3, 1e-3, 0.3, 0.9, 1.0, 2.2, 4.5, 9.1, 30.0])
POSITIVE = np.array([1e-3, 0.1, 0.3, 0.9, 1.0, 2.2, 4.5, 9.1, 30.0, 45.0, 80.0])
UNIT = np.array([1e-12, 1e-3, 0.06, 0.13, 0.4, 0.5, 0.7, 0.93, 0.999])

# name, arguments, points for derivatives (None: not checked), argument that is differentiated
CASES = [
    ("erf", (LINE,), 0),
    ("erfc", (LINE,), 0),
    ("erfinv", (2 * UNIT - 1,), 0),
    ("expit", (LINE,), 0),
    ("logit", (UNIT,), 0),
    ("ndtr", (LINE,), 0),
    ("ndtri", (UNIT,), 0),
    ("log_ndtr", (np.array([-100.0, -25.0, -12.0, -9.0, -3.0, 0.0, 2.0, 5.5, 9.0]),), 0),
    ("gamma", (LINE,), 0),
    ("gammaln", (LINE,), 0),
    ("gammasgn", (LINE,), None),
    ("loggamma", (POSITIVE,), 0),
    ("digamma", (LINE,), 0),
    ("factorial", (np.array([-1.5, 0.0, 1.0, 2.5, 5.0, 12.0]),), None),
    ("polygamma", (np.array([1.0, 2.0, 3.0]), np.array([0.7, 2.0, 9.0])), 1),
    ("zeta", (np.array([1.5, 2.0, 7.0]), np.array([0.5, 1.0, 4.0])), None),
    ("gammainc", (POSITIVE, POSITIVE[::-1]), 1),
    ("gammaincc", (POSITIVE, np.roll(POSITIVE, 1)), 1),
    ("betainc", (POSITIVE[:9], POSITIVE[:9][::-1], UNIT), 2),
    ("beta", (POSITIVE, POSITIVE[::-1]), 0),
    ("betaln", (POSITIVE, POSITIVE[::-1]), 0),
    ("betaln", (np.array([1e-3, 2.0, 9.0, 1e4, 1e8]), np.array([1e8, 1e8, 1e4, 1e4, 1e8])), None),
    ("poch", (np.array([2.0, -1.5, 3.0, 0.5]), np.array([3.0, 2.0, 0.0, 1.5])), None),
    ("comb", (np.array([5, 9.5, 2, -1, 40]), np.array([2, 3.0, 5, 2, 20])), None),
    ("xlogy", (np.array([0, 0, 0, 1.0, 2.5]), np.array([0, np.inf, 2.0, 0, 3.0])), None),
    ("xlog1py", (np.array([0, 0, 1.0, 2.5]), np.array([-1.0, 2.0, 1e-9, 3.0])), None),
    ("entr", (np.array([-1.0, 0.0, 0.3, 1.0, 4.0]),), None),
    ("rel_entr", (np.array([0, 0, 1.0, -1, 1, 0.3]), np.array([0, 1.0, 0, 1, 2, 0.31])), None),
    ("kl_div", (np.array([0, 0, 1.0, -1, 1, 0.3]), np.array([0, 1.0, 0, 1, 2, 0.61])), None),
    ("i0", (LINE,), 0),
    ("i0e", (LINE,), 0),
    ("i1", (LINE,), 0),
    ("i1e", (LINE,), 0),
    ("boxcox", (POSITIVE, np.linspace(-1, 1, 11)), 0),
    ("boxcox1p", (POSITIVE, np.linspace(-1, 1, 11)), 0),
    ("exp1", (POSITIVE,), 0),
    ("expi", (np.concatenate([LINE, [39.0, 41.0, 100.0]]),), 0),
    (
        "expn",
        (np.array([0, 1, 2, 3, 5, 1, 2, 9.0]), np.array([2, 0.3, 0.7, 1.5, 8, 30, 0, 0.9])),
        None,
    ),
]
# Cancellation near zeros: absolute errors there.
ABSOLUTE = {"gammaln": 1e-13, "digamma": 1e-12, "loggamma": 1e-13, "expi": 1e-12, "betaln": 1e-13}
# One unit in the last place of lgamma(30).
ABSOLUTE["betainc"] = 3e-14
LOOSE = {"log_ndtr": 1e-10, "comb": 1e-10, "zeta": 1e-11, "polygamma": 1e-11, "poch": 1e-11}


@pytest.mark.parametrize("name, args, wrt", CASES, ids=[c[0] for c in CASES])
def test_float64(name, args, wrt):
    with pyjax.enable_x64(True):
        result = getattr(special, name)(*map(jnp.asarray, args))
        assert result.dtype == jnp.float64
    with np.errstate(all="ignore"):
        expected = getattr(reference, name)(*args)
    np.testing.assert_allclose(
        result, expected, rtol=LOOSE.get(name, 2e-12), atol=ABSOLUTE.get(name, 0)
    )


@pytest.mark.parametrize("name, args, wrt", CASES, ids=[c[0] for c in CASES])
def test_float32(name, args, wrt):
    args = [np.asarray(a, np.float32) for a in args]
    result = pyjax.jit(getattr(special, name))(*args)
    assert result.dtype == jnp.float32
    with np.errstate(all="ignore"):
        expected = getattr(reference, name)(*[a.astype(np.float64) for a in args])
        expected = np.where(np.abs(expected) > 3.4e38, np.sign(expected) * np.inf, expected)
    # Relative errors grow with the size of logarithms inside.
    np.testing.assert_allclose(result, expected, rtol=6e-5, atol=2e-6)


DERIVATIVES = [c for c in CASES if c[2] is not None]


@pytest.mark.parametrize("name, args, wrt", DERIVATIVES, ids=[c[0] for c in DERIVATIVES])
def test_derivatives(name, args, wrt):
    with pyjax.enable_x64(True):
        function = getattr(special, name)

        def f(x):
            return function(*args[:wrt], x, *args[wrt + 1 :])

        # Differences need room: not at the very ends of the unit interval.
        inner = slice(1, None) if name in ("erfinv", "logit", "ndtri", "betainc") else slice(None)
        args = [a[inner] for a in args]
        x = args[wrt]
        h = 1e-6 * np.maximum(np.abs(x), 1e-3)
        numeric = (np.asarray(f(x + h)) - np.asarray(f(x - h))) / (2 * h)
        (forward,) = [pyjax.jvp(f, (x,), (np.ones_like(x),))[1]]
        backward = pyjax.vjp(f, x)[1](np.ones_like(x))[0]
        scale = np.max(np.abs(np.asarray(f(x)))[np.isfinite(f(x))])
        np.testing.assert_allclose(forward, numeric, rtol=2e-5, atol=1e-9 * scale)
        np.testing.assert_allclose(backward, forward, rtol=1e-10)


EDGES = [
    ("gamma", [0.0, -0.0, -1.0, np.inf, np.nan], [np.inf, -np.inf, np.nan, np.inf, np.nan]),
    ("gammasgn", [0.0, -0.0, -1.0, -0.5, -1.5], [1, -1, np.nan, -1, 1]),
    ("logit", [0.0, 1.0, -0.1, 1.1], [-np.inf, np.inf, np.nan, np.nan]),
    ("ndtri", [0.0, 1.0, -0.1, 1.1, np.nan], [-np.inf, np.inf, np.nan, np.nan, np.nan]),
    ("log_ndtr", [-np.inf, np.inf, np.nan], [-np.inf, 0, np.nan]),
    ("exp1", [0.0, -1.0, np.inf, np.nan], [np.inf, np.nan, 0, np.nan]),
    ("expi", [0.0, np.inf, -np.inf, np.nan], [-np.inf, np.inf, 0, np.nan]),
    ("erfinv", [-1.0, 1.0, 2.0], [-np.inf, np.inf, np.nan]),
    ("entr", [0.0, -1.0, np.nan], [0, -np.inf, np.nan]),
]


@pytest.mark.parametrize("name, points, values", EDGES, ids=[e[0] for e in EDGES])
def test_edges(name, points, values):
    result = getattr(special, name)(jnp.array(points, jnp.float32))
    np.testing.assert_array_equal(result, np.array(values, np.float32))


inf, nan = np.inf, np.nan
TINY = -(np.float32(10) ** -np.arange(8, 38, 4, dtype=np.float32))


def test_gamma_family_at_tiny_negative_arguments():
    # x - floor(x) is 1 there: all digits of x were lost.
    np.testing.assert_allclose(special.gammaln(TINY), -np.log(-TINY), rtol=1e-6)
    np.testing.assert_allclose(special.digamma(TINY), -1 / TINY, rtol=1e-6)
    np.testing.assert_allclose(special.gamma(TINY), 1 / TINY, rtol=1e-5)
    np.testing.assert_allclose(pyjax.grad(pyjax.lax.lgamma)(-1e-20), 1e20, rtol=1e-6)


EDGE_GRADIENTS = [
    # Infinite slopes count as 0 at the ends, as in JAX.
    ("ndtri", 0, ([0.0, 1.0, -0.5, nan],), [0, 0, nan, nan]),
    ("entr", 0, ([0.0, -0.0, 1.0, inf, nan],), [inf, inf, -1, -inf, nan]),
    ("i0", 0, ([1e10, -1e10, 100.0, 0.0],), [inf, -inf, inf, 0]),
    ("log_ndtr", 0, ([-1e10, -1e3, -inf, inf],), [1e10, 1e3, inf, 0]),
    ("rel_entr", 0, ([1.0, inf, 0.0, 1.0], [inf, 1.0, 1.0, 1e-20]), [-inf, inf, 0, 47.0517]),
    ("rel_entr", 1, ([1.0, inf, 0.0, 1.0], [inf, 1.0, 1.0, 1e-20]), [0, -inf, 0, -1e20]),
    ("kl_div", 1, ([1.0, inf, 1.0], [inf, 1.0, 1e-20]), [1, -inf, -1e20]),
    ("zeta", 1, ([3.0, 2.0], [2.0, 1.0]), [-3 * reference.zeta(4, 2), -2 * reference.zeta(3, 1)]),
]


@pytest.mark.parametrize(
    "name, wrt, points, slopes", EDGE_GRADIENTS, ids=[f"{e[0]}-{e[1]}" for e in EDGE_GRADIENTS]
)
def test_gradients_at_edges(name, wrt, points, slopes):
    points = [jnp.array(p, jnp.float32) for p in points]
    slope = pyjax.vmap(pyjax.grad(getattr(special, name), wrt))(*points)
    np.testing.assert_allclose(slope, np.float32(slopes), rtol=2e-6)


def test_derivative_of_zeta_by_its_exponent():
    # The Laurent series at 1 (Stieltjes' constants), the value at 2 (OEIS A073002), differences.
    with pyjax.enable_x64(True):
        slope = pyjax.vmap(pyjax.grad(special.zeta), (0, None))
        np.testing.assert_allclose(slope(jnp.array([2.0]), 1.0), -0.93754825431584375, rtol=1e-15)
        np.testing.assert_allclose(
            slope(jnp.array([1 + 1e-4]), 1.0), -1e8 + 0.0728158454836767, rtol=1e-10
        )
        x, q = np.array([1.5, 2.0, 7.3, 25.0]), np.array([0.2, 1.0, 3.5, 40.0])
        numeric = (reference.zeta(x + 1e-6, q) - reference.zeta(x - 1e-6, q)) / 2e-6
        np.testing.assert_allclose(
            pyjax.vmap(pyjax.grad(special.zeta))(x, q), numeric, rtol=1e-7, atol=1e-25
        )
    slope = pyjax.vmap(pyjax.grad(special.zeta))
    ends = slope(
        jnp.array([inf, inf, inf, 1.0, 3.0, 1e30, 0.5, 3.0]),
        jnp.array([0.5, 1.0, 3.0, 2.0, inf, 2.0, 1.0, -2.5]),
    )
    np.testing.assert_array_equal(ends, [inf, 0, 0, -inf, 0, 0, nan, nan])


def test_zeta_and_polygamma_far_below_zero():
    # Ten terms do not reach past 0 from there: polygamma(1, -12.3) was -0.078, with JAX's formula.
    q = np.array([-1e-20, -0.3, -1.0 - 1e-15, -2.5, -8.5, -12.3, -50.7, -1000.25])
    with pyjax.enable_x64(True):
        for x in (2.0, 3.0, 7.0):
            # All terms up to 1, then the function there.
            counts = np.floor(-q) + 1
            expected = [
                sum((a + k) ** -x for k in range(int(n))) + reference.zeta(x, a + n)
                for a, n in zip(q, counts, strict=True)
            ]
            # In the sum, though not in the function, the terms on both sides of 0 may cancel.
            error = 4e-15 * np.abs(q - np.round(q)) ** -x + 1e-12 * np.abs(expected)
            assert (np.abs(special.zeta(x, q) - np.array(expected)) <= error).all()
            factor = (1 if x % 2 == 0 else -1) * reference.gamma(x)
            polygamma = np.asarray(special.polygamma(x - 1, q)) / factor
            assert (np.abs(polygamma - np.array(expected)) <= error).all()
        # Trigamma, by the reflection formula; beside arguments above 0, and alone.
        slope = pyjax.vmap(pyjax.grad(special.digamma))(jnp.array([-12.3, 4.5, -1e6 - 0.5]))
        expected = [np.pi**2 / np.sin(12.3 * np.pi) ** 2 - reference.polygamma(1, 13.3)]
        expected += [reference.polygamma(1, 4.5), np.pi**2 - reference.polygamma(1, 1e6 + 1.5)]
        np.testing.assert_allclose(slope, expected, rtol=1e-12)
    ends = special.zeta(jnp.array([1.0, inf, inf, 3.0]), jnp.array([nan, -2.5, 0.5, -3.0]))
    np.testing.assert_array_equal(ends, [inf, nan, inf, inf])


def test_gradients_that_are_zero_have_no_sign():
    # A negative cotangent gave -0.0 where the value counts as constant.
    for name, points in (("rel_entr", (1.0, -1.0)), ("rel_entr", (0.0, 1.0)), ("ndtri", (0.0,))):
        _, pull = pyjax.vjp(getattr(special, name), *points)
        slopes = np.array(pull(-1.0))
        np.testing.assert_array_equal(slopes, 0)
        assert not np.signbit(slopes).any()


def test_gradients_of_poch():
    # The selection of 1 at m = 0 had hidden its derivative there.
    dz, dm = pyjax.grad(special.poch, (0, 1))(2.5, 0.0)
    assert dz == 0
    np.testing.assert_allclose(dm, reference.digamma(2.5), rtol=1e-6)
    assert pyjax.grad(special.poch, 1)(3.0, inf) == inf
    with pyjax.enable_x64(True):
        z, m = np.array([2.5, 30.0, 40.0, -2.5]), np.array([3.0, 9.5, -7.0, 1.3])
        for place, step in enumerate(np.eye(2) * 1e-6):
            up, down = (special.poch(z + s * step[0], m + s * step[1]) for s in (1, -1))
            slope = pyjax.vmap(pyjax.grad(special.poch, place))(z, m)
            np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=1e-6)


def test_poch_of_large_arguments():
    # A difference of two logarithms of 4e10 gave 1.0 for 2147483647 * 2147483648.
    z = jnp.array([2147483647, 2147483647, 1e6, 31.0, 1e6, 0.5, 3.0])
    m = jnp.array([1, 2, -3, 7.0, 2.5, 30.0, inf])
    expected = reference.poch(np.asarray(z, np.float64), np.asarray(m, np.float64))
    np.testing.assert_allclose(special.poch(z, m), expected, rtol=2e-5)


def test_gradients_where_there_is_no_value():
    assert np.isnan(pyjax.grad(special.exp1)(-1.0))
    for points in ((nan, 2.0), (2.0, nan), (nan, nan)):
        assert np.isnan(pyjax.jvp(special.betaln, points, (1.0, 1.0))[1])
        assert np.isnan(pyjax.grad(special.betaln, (0, 1))(*points)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_comb_in_half_precision(dtype):
    k = jnp.arange(8).astype(dtype)
    result = special.comb(jnp.asarray(7, dtype), k)
    assert result.dtype == dtype
    np.testing.assert_array_equal(result.astype("float32"), reference.comb(7, np.arange(8)))


@pytest.mark.parametrize("shape", [9e4, 1e5, 1e6, 1e10, 1e30])
def test_incomplete_gamma_of_large_shapes(shape):
    # The expansions take sqrt(shape) steps: from 1e7 on they were cut off.
    x = shape + np.array([-1, 0, 0.5, 3, 10]) * np.sqrt(shape)
    with pyjax.enable_x64(True):
        lower, upper = special.gammainc(shape, x), special.gammaincc(shape, x)
        ends = special.gammainc(shape, jnp.array([0.0, 1e-300, 1e300, np.inf]))
    np.testing.assert_allclose(lower, reference.gammainc(shape, x), rtol=1e-9)
    np.testing.assert_allclose(upper, reference.gammaincc(shape, x), rtol=1e-9)
    np.testing.assert_array_equal(ends, [0, 0, 1, 1])
    np.testing.assert_allclose(special.gammainc(shape, shape), 0.5, rtol=1e-2)


def test_betainc_of_infinite_parameters():
    a, b = jnp.array([inf, 1.0, inf, 0.0, inf]), jnp.array([1.0, inf, inf, inf, nan])
    for x, expected in ((0.0, [0, 0, nan, 0, nan]), (0.5, [0, 1, nan, 1, nan])):
        np.testing.assert_array_equal(special.betainc(a, b, x), np.float32(expected))
    np.testing.assert_array_equal(special.betainc(a, b, 1.0), np.float32([1, 1, nan, 1, nan]))


def test_gradients_at_zero_factors():
    grads = pyjax.grad(special.xlogy, (0, 1))(0.0, 2.0)
    np.testing.assert_allclose(grads, (np.log(2), 0), rtol=1e-6)
    assert np.isfinite(pyjax.grad(special.log_ndtr)(-300.0))
    assert np.isfinite(pyjax.grad(special.ndtri)(1e-30))


def test_others():
    np.testing.assert_allclose(
        special.multigammaln(jnp.array([3.0, 7.5]), 4),
        [reference.multigammaln(3.0, 4), reference.multigammaln(7.5, 4)],
        rtol=1e-5,
    )
    np.testing.assert_allclose(special.bernoulli(8), reference.bernoulli(8), rtol=1e-6, atol=1e-12)
    assert special.comb(5, 2, repetition=True) == 15
    np.testing.assert_allclose(special.zeta(2.0), np.pi**2 / 6, rtol=1e-6)
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(special.softmax(x), reference.softmax(x), rtol=1e-6)
    np.testing.assert_allclose(special.log_softmax(x, axis=0), reference.log_softmax(x, 0), 1e-6)
    np.testing.assert_allclose(special.logsumexp(x), reference.logsumexp(x), rtol=1e-6)
    assert special.erf(1).dtype == jnp.float32
    with pytest.raises(TypeError, match="int32"):
        special.ndtr(jnp.arange(3))
    with pytest.raises(ValueError, match="series_order"):
        special.log_ndtr(1.0, series_order=31)
    with pytest.raises(NotImplementedError, match=r"math\.factorial"):
        special.factorial(3, exact=True)


def test_incomplete_gamma_functions_of_infinite_order():
    x = jnp.array([0.5, 1.0, 3.0])
    assert special.gammainc(jnp.inf, x).tolist() == [0, 0, 0]
    assert special.gammaincc(jnp.inf, x).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("erfc", -6.0, 9.0),
        ("ndtr", -13.0, 6.0),
        ("log_ndtr", -40.0, 9.0),
        ("ndtri", 0.0, 1.0),
        ("ndtri", 0.0, 1e-30),
    ],
)
def test_float32_of_the_normal_distribution_is_computed_in_float32(name, low, high):
    """To 5 units in the last place: float64 took five to eighty times as long as JAX."""
    x = np.random.default_rng(0).uniform(low, high, 200_000).astype(np.float32)
    compiled = pyjax.jit(getattr(special, name)).lower(x)
    assert "f64" not in compiled.as_text()
    exact = getattr(reference, name)(x.astype(np.float64))
    unit = np.spacing(np.abs(exact).astype(np.float32))
    assert (np.abs(compiled.compile()(x) - exact) / unit).max() <= 5


def test_slopes_of_log_ndtr_far_from_zero():
    """The ratio of density and distribution, where both are 0 or their exponents cancel."""
    x = jnp.array([-jnp.inf, -1e20, -1e4, -20.0, -1.0, 0.0, 1.0, 20.0, jnp.inf])
    slopes = pyjax.vmap(pyjax.grad(special.log_ndtr))(x)
    expected = [np.inf, 1e20, 1e4, 20.049754, 1.5251353, 0.79788456, 0.28759998, 0, 0]
    np.testing.assert_allclose(slopes, expected, rtol=3e-7, atol=1e-30)


def test_second_derivatives_of_log_ndtr():
    """-s (x + s) of the slope s, at the place, too, where another formula begins."""
    x = jnp.array([-30.0, -2.0, -1.0, -0.5, 0.0, 1.0])
    slope = pyjax.grad(special.log_ndtr)
    s = np.asarray(pyjax.vmap(slope)(x), np.float64)
    for second in (pyjax.grad(slope), pyjax.jacfwd(slope)):
        np.testing.assert_allclose(pyjax.vmap(second)(x), -s * (x + s), rtol=1e-3)
