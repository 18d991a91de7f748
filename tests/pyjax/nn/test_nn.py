"""pyjax.nn against formulas in NumPy and SciPy, computed in float64."""

import numpy as np
import pytest
from scipy import special

import pyjax
import pyjax.numpy as jnp
from pyjax import nn, random

X = np.array([-200.0, -30.0, -5.5, -3.0, -1.0, -0.3, -1e-4, 0.0, 1e-4, 0.3, 1.0, 3.0, 5.5, 30.0])
EDGE = np.array([-np.inf, np.inf, np.nan])


def softplus(x):
    return np.logaddexp(x, 0)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def tanh_gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


# name, function, reference, values at -inf, +inf, nan
ELEMENTWISE = [
    ("relu", nn.relu, lambda x: np.maximum(x, 0), (0, np.inf, np.nan)),
    ("relu6", nn.relu6, lambda x: np.clip(x, 0, 6), (0, 6, np.nan)),
    ("sigmoid", nn.sigmoid, special.expit, (0, 1, np.nan)),
    ("softplus", nn.softplus, softplus, (0, np.inf, np.nan)),
    # No accuracy is promised for large negative numbers: the two terms cancel.
    (
        "squareplus",
        lambda x: nn.squareplus(jnp.maximum(x, -6)),
        lambda x: (np.maximum(x, -6) + np.sqrt(np.maximum(x, -6) ** 2 + 4)) / 2,
        None,
    ),
    (
        "sparse_plus",
        nn.sparse_plus,
        lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
        (0, np.inf, np.nan),
    ),
    ("sparse_sigmoid", nn.sparse_sigmoid, lambda x: np.clip(x + 1, 0, 2) / 2, (0, 1, np.nan)),
    ("soft_sign", nn.soft_sign, lambda x: x / (1 + np.abs(x)), None),
    ("silu", nn.silu, lambda x: x * special.expit(x), (np.nan, np.inf, np.nan)),
    ("mish", nn.mish, lambda x: x * np.tanh(softplus(x)), (np.nan, np.inf, np.nan)),
    ("log_sigmoid", nn.log_sigmoid, special.log_expit, (-np.inf, 0, np.nan)),
    ("elu", nn.elu, elu, (-1, np.inf, np.nan)),
    (
        "selu",
        nn.selu,
        lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
        (-1.7580993, np.inf, np.nan),
    ),
    ("celu", nn.celu, elu, (-1, np.inf, np.nan)),
    (
        "leaky_relu",
        nn.leaky_relu,
        lambda x: np.where(x < 0, 0.01 * x, x),
        (-np.inf, np.inf, np.nan),
    ),
    ("hard_tanh", nn.hard_tanh, lambda x: np.clip(x, -1, 1), (-1, 1, np.nan)),
    ("hard_sigmoid", nn.hard_sigmoid, lambda x: np.clip(x + 3, 0, 6) / 6, (0, 1, np.nan)),
    ("hard_silu", nn.hard_silu, lambda x: x * np.clip(x + 3, 0, 6) / 6, (np.nan, np.inf, np.nan)),
    ("gelu", nn.gelu, tanh_gelu, (np.nan, np.inf, np.nan)),
    (
        "gelu_exact",
        lambda x: nn.gelu(x, approximate=False),
        lambda x: x * special.ndtr(x),
        (np.nan, np.inf, np.nan),
    ),
    ("tanh", nn.tanh, np.tanh, (-1, 1, np.nan)),
    ("identity", nn.identity, lambda x: x, (-np.inf, np.inf, np.nan)),
]
CASES = pytest.mark.parametrize(
    "function, reference, edges", [c[1:] for c in ELEMENTWISE], ids=[c[0] for c in ELEMENTWISE]
)


@CASES
def test_elementwise_values(function, reference, edges):
    result = function(jnp.asarray(X, jnp.float32))
    assert result.dtype == jnp.float32 and not result.weak_type
    expected = reference(X.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(np.asarray(result), expected, rtol=2e-5, atol=2e-6)
    if edges is not None:
        np.testing.assert_allclose(
            np.asarray(function(jnp.asarray(EDGE, jnp.float32))), edges, rtol=1e-6
        )


# Points away from the kinks of the piecewise functions.
SMOOTH = np.array([-7.3, -2.2, -0.7, 0.4, 0.8, 2.6, 7.1])


@CASES
def test_elementwise_gradients(function, reference, edges):
    x, h = jnp.asarray(SMOOTH, jnp.float32), 1e-6
    expected = (reference(SMOOTH + h) - reference(SMOOTH - h)) / (2 * h)
    _, forward = pyjax.jvp(function, (x,), (jnp.ones_like(x),))
    (backward,) = pyjax.vjp(function, x)[1](jnp.ones_like(x))
    mapped = pyjax.jit(pyjax.vmap(pyjax.grad(function)))(x)
    for derivative in (forward, backward, mapped):
        np.testing.assert_allclose(np.asarray(derivative), expected, rtol=2e-4, atol=2e-5)


@CASES
def test_gradients_stay_finite(function, reference, edges):
    x = jnp.array([-1e4, -100.0, 0.0, 100.0, 1e4], jnp.float32)
    assert np.isfinite(np.asarray(pyjax.vmap(pyjax.grad(function))(x))).all()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@CASES
def test_half_precision(function, reference, edges, dtype):
    x = jnp.asarray(SMOOTH, dtype)
    result = function(x)
    assert result.dtype == dtype
    expected = reference(np.asarray(x, np.float64))
    eps = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(np.asarray(result, np.float64), expected, rtol=4 * eps, atol=8 * eps)


@pytest.mark.parametrize(
    "name", ["sigmoid", "silu", "gelu", "elu", "softplus", "relu6", "soft_sign"]
)
def test_integers_become_floats(name):
    assert getattr(nn, name)(jnp.arange(3)).dtype == jnp.float32


def test_relu_keeps_integers():
    assert nn.relu(jnp.array([-1, 2])).tolist() == [0, 2]
    assert nn.relu(jnp.array([-1, 2])).dtype == jnp.int32


def test_derivatives_at_kinks():
    assert pyjax.grad(nn.relu)(0.0) == 0
    assert pyjax.vmap(pyjax.grad(nn.relu6))(jnp.array([0.0, 6.0])).tolist() == [0, 0]


def test_parameters():
    x = jnp.array([-2.0, 3.0])
    np.testing.assert_allclose(nn.elu(x, 0.5), elu(np.array([-2, 3]), 0.5), rtol=1e-6)
    np.testing.assert_allclose(nn.celu(x, 2.0), [2 * np.expm1(-1), 3], rtol=1e-6)
    np.testing.assert_allclose(nn.leaky_relu(x, 0.2), [-0.4, 3], rtol=1e-6)
    np.testing.assert_allclose(nn.squareplus(x, 0.0), [0, 3], atol=1e-6)


def test_derivatives_of_squareplus_far_from_zero():
    """All digits where x + sqrt(x² + 4) cancels, and 0 or 1 where x² is infinite."""
    x = np.array([-np.inf, -1e30, -1e15, -1e4, -3, 0, 2, 1e4, 1e30, np.inf], np.float32)
    wide, b = x.astype(np.float64), 4
    root = np.sqrt(wide**2 + b)
    with np.errstate(all="ignore"):
        below, above = b / (root - wide) / root / 2, (1 + wide / root) / 2
        above[-1] = 1
    along_x, along_b = pyjax.vmap(pyjax.grad(nn.squareplus, (0, 1)), (0, None))(x, 4.0)
    np.testing.assert_allclose(along_x, np.where(x < 0, below, above), rtol=4e-7, atol=1e-29)
    np.testing.assert_allclose(along_b, 1 / (4 * root), rtol=4e-7, atol=1e-29)
    twice = pyjax.vmap(pyjax.grad(pyjax.grad(nn.squareplus)))(x)
    np.testing.assert_allclose(twice, b / (2 * root**3), rtol=4e-7, atol=1e-44)


def test_gradient_of_hard_silu():
    """(2 x + 3) / 6 between -3 and 3, rounded like that; at both ends that of relu6 is 0."""
    inside = np.linspace(-2.999, 2.999, 1001, dtype=np.float32)
    got = pyjax.vmap(pyjax.grad(nn.hard_silu))(inside)
    np.testing.assert_allclose(got, (2 * inside.astype(np.float64) + 3) / 6, rtol=2e-7, atol=6e-8)
    outside = np.array([-np.inf, -1e30, -3, 3, 4, np.inf, np.nan], np.float32)
    slopes = pyjax.vmap(pyjax.grad(nn.hard_silu))(outside)
    np.testing.assert_array_equal(slopes, [0, 0, 0, 1, 1, 1, np.nan])
    assert pyjax.grad(pyjax.grad(nn.hard_silu))(1.0) == np.float32(1 / 3)


def test_glu():
    x = np.linspace(-2, 2, 12).reshape(3, 4)
    expected = x[:, :2] * special.expit(x[:, 2:])
    np.testing.assert_allclose(nn.glu(jnp.asarray(x)), expected, rtol=1e-5)
    np.testing.assert_allclose(nn.glu(jnp.asarray(x.T), axis=0), expected.T, rtol=1e-5)
    with pytest.raises(ValueError, match="odd"):
        nn.glu(jnp.ones(3))


def test_log1mexp():
    x = np.array([1e-6, 1e-3, 0.5, 0.693, 0.7, 3.0, 50.0])
    np.testing.assert_allclose(nn.log1mexp(jnp.asarray(x)), np.log1p(-np.exp(-x)), rtol=3e-6)
    assert nn.log1mexp(0.0) == -np.inf
    assert np.isnan(nn.log1mexp(-1.0))
    assert np.isfinite(pyjax.vmap(pyjax.grad(nn.log1mexp))(jnp.asarray(x, jnp.float32))).all()


# -- the softmax family ------------------------------------------------------------------------

rng = np.random.default_rng(0)
A = rng.normal(size=(3, 4, 5)) * 5
WHERE = rng.random((3, 4, 5)) < 0.6
WHERE[..., 0] = WHERE[0] = WHERE[:, 0] = True


@pytest.mark.parametrize("axis", [None, -1, 0, (0, 2), (1, -1), (-3, -2, -1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(axis, keepdims):
    x = jnp.asarray(A, jnp.float32)
    expected = special.logsumexp(A, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(nn.logsumexp(x, axis=axis, keepdims=keepdims), expected, rtol=1e-5)
    b = rng.normal(size=(4, 5))
    value, sign = nn.logsumexp(x, axis=axis, b=b, keepdims=keepdims, return_sign=True)
    want, want_sign = special.logsumexp(A, axis=axis, b=b, keepdims=keepdims, return_sign=True)
    np.testing.assert_allclose(value, want, rtol=2e-4, atol=2e-4)
    np.testing.assert_array_equal(sign, want_sign)
    masked = np.where(WHERE, A, -1e30)
    np.testing.assert_allclose(
        nn.logsumexp(x, axis=axis, keepdims=keepdims, where=WHERE),
        special.logsumexp(masked, axis=axis, keepdims=keepdims),
        rtol=1e-5,
    )


def test_logsumexp_edges():
    inf = np.inf
    assert nn.logsumexp(jnp.array([-inf, -inf])) == -inf
    assert nn.logsumexp(jnp.array([inf, 0.0])) == inf
    assert np.isnan(nn.logsumexp(jnp.array([np.nan, 0.0])))
    assert nn.logsumexp(jnp.zeros((0,))) == -inf
    assert nn.logsumexp(jnp.array([1000.0, 1000.0])) == np.float32(1000 + np.log(2))
    assert np.isnan(nn.logsumexp(jnp.array([0.0, 1.0]), b=jnp.array([1.0, -1.0])))
    assert nn.logsumexp(jnp.array([0.0, inf]), b=jnp.array([1.0, 0.0])) == 0
    grad = pyjax.grad(nn.logsumexp)(jnp.array([-inf, 0.0, 0.0]))
    np.testing.assert_allclose(grad, [0, 0.5, 0.5])
    z = np.array([1 + 2j, -0.5j, 3.0])
    np.testing.assert_allclose(nn.logsumexp(jnp.asarray(z)), np.log(np.exp(z).sum()), rtol=1e-5)
    assert nn.logsumexp(jnp.arange(3)).dtype == jnp.float32
    with pytest.raises(ValueError, match="out of bounds"):
        nn.logsumexp(jnp.ones(3), axis=1)


@pytest.mark.parametrize("axis", [-1, 0, (0, 2), None])
def test_softmax(axis):
    x = jnp.asarray(A, jnp.float32)
    np.testing.assert_allclose(nn.softmax(x, axis), special.softmax(A, axis), rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(
        nn.log_softmax(x, axis), special.log_softmax(A, axis), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        nn.logmeanexp(x, axis), np.log(np.mean(np.exp(A), axis=axis)), rtol=1e-5
    )
    masked = np.where(WHERE, A, -1e30)
    np.testing.assert_allclose(
        nn.softmax(x, axis, where=WHERE), special.softmax(masked, axis), rtol=1e-5, atol=1e-9
    )
    np.testing.assert_allclose(
        np.asarray(nn.log_softmax(x, axis, where=WHERE)),
        np.where(WHERE, masked - special.logsumexp(masked, axis, keepdims=True), -np.inf),
        rtol=1e-5,
        atol=1e-6,
    )


def test_softmax_edges():
    assert nn.softmax(jnp.array([1e30, 0.0])).tolist() == [1, 0]
    assert nn.log_softmax(jnp.array([200.0, 0.0])).tolist() == [0, -200]
    assert np.isnan(nn.softmax(jnp.array([np.inf, 0.0]))[0])
    assert nn.softmax(jnp.array([-np.inf, 0.0])).tolist() == [0, 1]
    assert nn.softmax(jnp.arange(2)).dtype == jnp.float32


@pytest.mark.parametrize("function", [nn.softmax, nn.log_softmax, nn.logsumexp, nn.standardize])
def test_reductions_gradients(function):
    x = rng.normal(size=(2, 3))
    weights = rng.normal(size=np.shape(function(x)))
    with pyjax.enable_x64(True):

        def loss(x):
            return jnp.sum(function(x) * weights)

        h = 1e-5
        numeric = np.zeros_like(x)
        for index in np.ndindex(x.shape):
            step = np.zeros_like(x)
            step[index] = h
            numeric[index] = (loss(x + step) - loss(x - step)) / (2 * h)
        np.testing.assert_allclose(pyjax.grad(loss)(x), numeric, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(pyjax.jacfwd(loss)(x), numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("algorithm", ["fast", "stable"])
def test_standardize(algorithm):
    mean, var = A.mean(-1, keepdims=True), A.var(-1, keepdims=True)
    expected = (A - mean) / np.sqrt(var + 1e-5)
    result = nn.standardize(jnp.asarray(A, jnp.float32), algorithm=algorithm)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        nn.standardize(jnp.ones(3), mean=0.0, variance=4.0, epsilon=0.0), [0.5] * 3
    )
    with pytest.raises(ValueError, match="algorithm"):
        nn.standardize(jnp.ones(3), algorithm="other")


def test_one_hot():
    x = np.array([[0, 2], [1, 5]])
    expected = (x[..., None] == np.arange(3)).astype(np.float32)
    assert nn.one_hot(jnp.asarray(x), 3).dtype == jnp.float32
    np.testing.assert_array_equal(nn.one_hot(jnp.asarray(x), 3), expected)
    np.testing.assert_array_equal(nn.one_hot(x, 3, axis=0), np.moveaxis(expected, -1, 0))
    assert nn.one_hot(x, 3, dtype=jnp.int8).dtype == jnp.int8
    assert nn.one_hot(jnp.array([-1, 3]), 3).tolist() == [[0, 0, 0], [0, 0, 0]]
    np.testing.assert_array_equal(pyjax.jit(lambda i: nn.one_hot(i, 3))(x), expected)
    with pytest.raises(TypeError):
        pyjax.jit(lambda n: nn.one_hot(x, n))(3)


# -- attention ---------------------------------------------------------------------------------


def attention(q, k, v, bias=0.0, mask=None):
    groups = q.shape[-2] // k.shape[-2]
    k, v = np.repeat(k, groups, -2), np.repeat(v, groups, -2)
    scores = np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(q.shape[-1]) + bias
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    return np.einsum("bnts,bsnh->btnh", special.softmax(scores, -1), v)


@pytest.mark.parametrize("heads, key_heads", [(4, 4), (4, 2), (4, 1)])
def test_attention(heads, key_heads):
    q = rng.normal(size=(2, 5, heads, 8))
    k, v = rng.normal(size=(2, 2, 6, key_heads, 8))
    bias = rng.normal(size=(1, heads, 5, 6))
    mask = rng.random((2, 1, 5, 6)) < 0.7
    mask[..., 0] = True
    rows, columns = np.arange(5)[:, None], np.arange(6)
    f32 = [a.astype(np.float32) for a in (q, k, v)]

    def check(allowed=None, shift=0.0, **options):
        result = nn.dot_product_attention(*f32, **options)
        assert result.shape == q.shape and result.dtype == jnp.float32
        np.testing.assert_allclose(result, attention(q, k, v, shift, allowed), rtol=2e-4, atol=2e-5)

    check()
    check(mask, bias, mask=mask, bias=bias.astype(np.float32))
    check(rows >= columns, is_causal=True)
    check((columns >= rows - 1) & (columns <= rows + 2), local_window_size=(1, 2))
    lengths = np.array([3, 6])
    check(columns < lengths[:, None, None, None], key_value_seq_lengths=lengths)


def test_attention_query_lengths():
    q = rng.normal(size=(2, 5, 2, 4)).astype(np.float32)
    out = nn.dot_product_attention(q, q, q, query_seq_lengths=np.array([2, 5]))
    assert (np.asarray(out)[0, 2:] == 0).all()
    np.testing.assert_allclose(out[1], attention(q, q, q)[1], rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="implementation"):
        nn.dot_product_attention(q, q, q, implementation="fast")


# -- initializers ------------------------------------------------------------------------------

KEY = random.key(0)
SHAPE = (200, 300)
VARIANCES = [
    ("glorot_uniform", 1 / 250, True),
    ("glorot_normal", 1 / 250, False),
    ("lecun_uniform", 1 / 200, True),
    ("lecun_normal", 1 / 200, False),
    ("he_uniform", 2 / 200, True),
    ("he_normal", 2 / 200, False),
]


@pytest.mark.parametrize("name, variance, uniform", VARIANCES)
def test_scaled_initializers(name, variance, uniform):
    w = np.asarray(getattr(nn.initializers, name)()(KEY, SHAPE))
    assert w.dtype == np.float32
    assert abs(w.var() / variance - 1) < 0.03 and abs(w.mean()) < 3e-3 * np.sqrt(variance) * 4
    bound = np.sqrt(3 * variance) if uniform else 2 * np.sqrt(variance) / 0.8796
    assert np.abs(w).max() <= bound * 1.001 and np.abs(w).max() > 0.97 * bound


def test_plain_initializers():
    init = nn.initializers
    assert (np.asarray(init.zeros(KEY, (2, 3))) == 0).all()
    assert init.ones(KEY, (2,), jnp.bfloat16).dtype == jnp.bfloat16
    assert init.constant(3.0)(KEY, (2,)).tolist() == [3, 3]
    assert abs(np.std(init.normal(0.5)(KEY, SHAPE)) - 0.5) < 0.01
    u = np.asarray(init.uniform(2.0)(KEY, SHAPE))
    assert u.min() >= 0 and 1.9 < u.max() <= 2
    t = np.asarray(init.truncated_normal(1.0, lower=-1.0, upper=0.5)(KEY, SHAPE))
    assert -1 <= t.min() and t.max() <= 0.5


@pytest.mark.parametrize("shape, axis", [((6, 4), -1), ((4, 6), -1), ((3, 4, 5), 1)])
def test_orthogonal(shape, axis):
    w = np.asarray(nn.initializers.orthogonal(2.0, axis)(KEY, shape))
    assert w.shape == shape
    m = np.moveaxis(w, axis, -1).reshape(-1, shape[axis]) / 2
    gram = m.T @ m if m.shape[0] >= m.shape[1] else m @ m.T
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-5)


def test_delta_orthogonal():
    w = np.array(nn.initializers.delta_orthogonal()(KEY, (3, 3, 4, 6)))
    centre = w[1, 1]
    np.testing.assert_allclose(centre @ centre.T, np.eye(4), atol=1e-5)
    w[1, 1] = 0
    assert (w == 0).all()
    with pytest.raises(ValueError, match="outputs"):
        nn.initializers.delta_orthogonal()(KEY, (3, 6, 4))


@pytest.mark.parametrize("distribution", ["normal", "uniform", "truncated_normal"])
def test_complex_initializers(distribution):
    w = np.asarray(
        nn.initializers.variance_scaling(1.0, "fan_out", distribution)(KEY, SHAPE, jnp.complex64)
    )
    assert abs(np.mean(np.abs(w) ** 2) * 300 - 1) < 0.03


def test_initializers_lay_out_as_asked():
    init, spec = nn.initializers, pyjax.P("x")
    with pyjax.set_mesh(pyjax.make_mesh((1,), ("x",))):
        for initializer in (init.zeros, init.ones, init.normal(), init.orthogonal()):
            for w in (
                initializer(KEY, (4, 2), jnp.float32, spec),
                initializer(KEY, (4, 2), out_sharding=spec),
            ):
                assert w.sharding.spec == pyjax.P("x", None)
    with pytest.raises(TypeError, match="out_sharding"):
        init.normal()(KEY, (4, 2), out_sharding="x")


def test_initializer_errors():
    with pytest.raises(ValueError, match="2 dimensions"):
        nn.initializers.lecun_normal()(KEY, (3,))
    with pytest.raises(ValueError, match="mode"):
        nn.initializers.variance_scaling(1.0, "fan", "normal")(KEY, (3, 3))
    with pytest.raises(ValueError, match="distribution"):
        nn.initializers.variance_scaling(1.0, "fan_in", "cauchy")(KEY, (3, 3))


def test_jaxprs_are_named():
    text = str(pyjax.make_jaxpr(lambda x: nn.silu(nn.relu(x)))(1.0))
    assert "name=relu" in text and "name=silu" in text and "custom_jvp_call" in text


inf, nan = np.inf, np.nan
BIG = 3e38


@pytest.mark.parametrize("function", [nn.logsumexp, nn.logmeanexp])
@pytest.mark.parametrize("excluded", [inf, -inf, nan, BIG])
def test_excluded_elements_have_no_gradient(function, excluded):
    x = jnp.array([excluded, 1.0, 2.0])
    where = np.array([False, True, True])
    slope = pyjax.grad(lambda x: function(x, where=where))(x)
    np.testing.assert_allclose(slope, [0, *special.softmax([1.0, 2.0])], rtol=1e-6)
    nothing = pyjax.grad(lambda x: function(x, where=np.zeros(3, bool)))(x)
    assert nothing[0] == 0


def test_log1mexp_has_its_slope_everywhere():
    slope = pyjax.vmap(pyjax.grad(nn.log1mexp))(jnp.array([inf, 80.0, 1.0, 0.0, 1e-10]))
    np.testing.assert_allclose(slope, [0, np.exp(-80.0), 1 / np.expm1(1.0), inf, 1e10], rtol=1e-5)
    assert pyjax.grad(pyjax.grad(nn.log1mexp))(1000.0) == 0


def test_elu_has_its_slope_far_below_zero():
    np.testing.assert_allclose(pyjax.grad(nn.elu)(-20.0), np.exp(-20.0), rtol=1e-6)


def test_hard_tanh_keeps_integers():
    result = nn.hard_tanh(jnp.arange(-2, 3))
    assert result.dtype == jnp.int32 and result.tolist() == [-1, -1, 0, 1, 1]


@pytest.mark.parametrize("axis", [2, 3, -3])
def test_one_hot_axis_out_of_bounds(axis):
    with pytest.raises(ValueError, match=f"axis {axis} is out of bounds.*2 dimensions"):
        nn.one_hot(jnp.array([1]), 2, axis=axis)


def test_attention_masks_are_boolean():
    q = jnp.ones((1, 4, 2, 3))
    with pytest.raises(ValueError, match=r"must be bool, got float32.*as `bias`"):
        nn.dot_product_attention(q, q, q, mask=jnp.ones((1, 2, 4, 4)))
