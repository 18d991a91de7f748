"""Every primitive has a rule for each interpreter, or a reason in mathematics that it has none."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.custom_batching
import pyjax.debug
import pyjax.experimental.checkify
import pyjax.experimental.custom_partitioning
import pyjax.export
import pyjax.ffi
import pyjax.image
import pyjax.numpy as jnp
import pyjax.random
import pyjax.scipy.special
from pyjax import grad, jit, lax, vmap
from pyjax.interpreters import rules
from tests.sampling import sampled

TABLES = {
    "jvp": rules.jvp_rules,
    "transpose": rules.transpose_rules,
    "batching": rules.batching_rules,
    "lowering": rules.lowering_rules,
}
# What a rule's absence may come from, and where that is so. A primitive that is not here has all
# rules; `transpose` of one that is not linear does not exist, which its own reason says.
NOT_LINEAR = "is not linear"
NO_OPERANDS = "without operands nothing is linear, and nothing is batched"
INTEGERS = "results are integers, keys or tokens: there are no tangents to transpose"
CALLED = "it is bound as a call, which every trace handles itself"
EARLIER = "other rules take it out of programs before this one is asked"
NO_FUNCTION = "its results are no differentiable function of its operands"
UNKNOWN = "what it calls is not known to be linear"
OF_DEVICES = "it is about how devices compute something, not about what"
SIZES = "programs with sizes that are traced are compiled in parts"
WITHOUT = {
    INTEGERS: (
        "after_all create_token dimension dimension_size lu_pivots_to_permutation philox2x32 "
        "philox4x32 random_bits random_clone random_fold_in random_seed random_split random_unwrap "
        "random_wrap rng_bit_generator threefry2x32 threefry4x32 reduce_window_winner"
    ),
    NO_OPERANDS: "axis_index empty iota platform_index",
    CALLED: "custom_jvp_call custom_vjp_call custom_vmap_call linear_call",
    EARLIER: "addupdate freeze get new_ref new_tangent_ref swap stop_gradient check dce_sink "
    "symmetric_product unknown_linear_function composite",
    UNKNOWN: "buffer_callback call_exported ffi_call",
    OF_DEVICES: "custom_partitioning inspect_sharding",
    SIZES: "leading dimension dimension_size",
    NO_FUNCTION: (
        "geqp3 geqrf getrf hessenberg nextafter pmax pmin rng_uniform schur select_and_scatter "
        "tridiagonal"
    ),
}
REASONS: dict[str, list[str]] = {}
for _why, _names in WITHOUT.items():
    for _name in _names.split():
        REASONS.setdefault(_name, []).append(_why)


@pytest.mark.parametrize("table", TABLES)
def test_no_holes(table):
    holes, unexplained = [], []
    for name, primitive in rules.all_primitives.items():
        if name.startswith("test_"):  # of other tests
            continue
        rule = TABLES[table].get(primitive)
        if rule is None:
            holes.append(name)
        elif isinstance(rule, rules.Unsupported):
            not_linear = table == "transpose" and NOT_LINEAR in rule.reason
            if not not_linear and name not in REASONS:
                unexplained.append(f"{name}: {rule.reason}")
    assert not holes and not unexplained


def test_reasons_are_needed():
    """What is excused here has some rule missing."""
    for name in REASONS:
        primitive = rules.all_primitives[name]
        found = [table.get(primitive) for table in TABLES.values()]
        assert any(isinstance(rule, rules.Unsupported) for rule in found), name


def test_shapes_and_effects():
    """Types of results come from a rule, and effects from one where there are any."""
    for name, primitive in rules.all_primitives.items():
        assert callable(primitive.abstract_eval_rule), name
        assert primitive.effects_of is None or callable(primitive.effects_of), name


def test_absences_name_a_way_round():
    """Where a user meets it: derivatives that do not exist."""
    for name in WITHOUT[NO_FUNCTION].split():
        rule = rules.jvp_rules.get(rules.all_primitives[name])
        assert isinstance(rule, rules.Unsupported), name
        words = ("instead", "use pyjax.random", "is differentiable")
        assert any(word in rule.reason for word in words), rule.reason


# -- rules that had been missing -------------------------------------------------------------------


def _matrix(dtype):
    x = np.random.RandomState(0).randn(2, 4, 4)
    return jnp.asarray(x @ x.transpose(0, 2, 1) + 4 * np.eye(4), dtype)


FACTORS = {
    "cholesky": lax.linalg.cholesky,
    "eigh": lambda x: lax.linalg.eigh(x)[1],
    "svd": lambda x: lax.linalg.svd(x, compute_uv=False),
    "lu": lambda x: lax.linalg.lu(x)[0],
    "qr": lambda x: abs(lax.linalg.qr(x)[1]),
    "solve": lambda x: lax.linalg.triangular_solve(x, x, lower=True),
    "eig": lambda x: jnp.sort(lax.linalg.eig(x)[0].real),
    "inv": jnp.linalg.inv,
    "hessenberg": lambda x: abs(lax.linalg.hessenberg(x)[0]),
}


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16], ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", FACTORS)
def test_linear_algebra_of_narrow_floats(name, dtype):
    """Computed in float32, of operands that have been rounded already."""
    x = _matrix(dtype)
    got, expected = FACTORS[name](x), FACTORS[name](x.astype(jnp.float32))
    assert got.dtype == (jnp.float32 if name == "eig" else dtype)
    error = float(jnp.max(jnp.abs(got.astype(jnp.float32) - expected)))
    assert error <= float(jnp.finfo(dtype).eps) * float(jnp.max(jnp.abs(expected)))


@pytest.mark.parametrize("name", ["cholesky", "inv", "lu"])
def test_gradients_of_narrow_linear_algebra(name):
    loss = lambda x: jnp.sum(FACTORS[name](x).astype(jnp.float32))
    got = grad(loss)(_matrix(jnp.float16))
    expected = grad(loss)(_matrix(jnp.float16).astype(jnp.float32))
    assert got.dtype == jnp.float16
    scale = float(jnp.max(jnp.abs(expected)))
    np.testing.assert_allclose(got.astype(jnp.float32), expected, rtol=0.02, atol=0.02 * scale)


def test_windows_under_vmap():
    xs = jnp.asarray(np.random.RandomState(1).randn(3, 6))
    inits = jnp.asarray([0.0, 1.0, 2.0])
    # Associative, and none that a window reduction knows.
    window = lambda x, init: lax.reduce_window(
        x, init, lambda a, b: jnp.sqrt(a * a + b * b), (2,), (1,), "SAME"
    )
    each = jnp.stack([window(x, i) for x, i in zip(xs, inits)])
    np.testing.assert_allclose(vmap(window)(xs, inits), each, rtol=1e-6)
    np.testing.assert_allclose(
        jit(vmap(window, (None, 0)))(xs[0], inits)[1], window(xs[0], inits[1]), rtol=1e-6
    )


def test_dilated_windows_under_vmap():
    """Their derivative reads the elements that won, by number: of each lane, and of lanes of
    lanes; where a window has nothing but padding, none."""
    xs = jnp.asarray(np.random.RandomState(2).randn(2, 3, 6))

    def loss(x):
        y = lax.reduce_window(x, -jnp.inf, lax.max, (2,), (1,), ((3, 0),), window_dilation=(2,))
        return jnp.sum(jnp.where(jnp.isfinite(y), y, 0.0) ** 3)

    for derivative in (grad, pyjax.hessian):
        got = vmap(vmap(derivative(loss)))(xs)
        expected = jnp.stack([jnp.stack([derivative(loss)(x) for x in row]) for row in xs])
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_subsets_of_eigenvalues():
    x = _matrix(jnp.float32)
    v, w = lax.linalg.eigh(x, subset_by_index=(1, 3))
    all_v, all_w = lax.linalg.eigh(x)
    np.testing.assert_array_equal(v, all_v[..., 1:3])
    np.testing.assert_array_equal(w, all_w[..., 1:3])
    u, s, vt = lax.linalg.svd(x, full_matrices=False, subset_by_index=(0, 2))
    assert u.shape == (2, 4, 2) and s.shape == (2, 2) and vt.shape == (2, 2, 4)
    np.testing.assert_allclose(s, jnp.linalg.svd(x)[1][:, :2])
    with pytest.raises(ValueError, match="is not within the 4 values"):
        lax.linalg.eigh(x, subset_by_index=(2, 5))
    with pytest.raises(ValueError, match="cannot both be set"):
        lax.linalg.svd(x, subset_by_index=(0, 2))


SECOND = {
    "zeta by x": (grad(lax.zeta, 0), [(1.5, 0.5), (2.5, 3.0), (6.0, 1.0)]),
    "igamma by a": (grad(lax.igamma, 0), [(0.3, 0.1), (1.5, 5.0), (6.0, 5.0), (40.0, 30.0)]),
    "gamma samples by a": (lax.random_gamma_grad, [(0.3, 1.0), (1.5, 5.0), (6.0, 5.0)]),
}


@sampled("name", SECOND, every=3)
def test_second_derivatives_of_special_functions(name):
    """Against differences of first ones."""
    slope, points = SECOND[name]
    h = 1e-5
    with pyjax.enable_x64(True):
        for a, b in points:
            by_a = (slope(a + h, b) - slope(a - h, b)) / (2 * h)
            by_b = (slope(a, b + h) - slope(a, b - h)) / (2 * h)
            np.testing.assert_allclose(grad(slope, 0)(a, b), by_a, rtol=1e-5)
            np.testing.assert_allclose(grad(slope, 1)(a, b), by_b, rtol=1e-5)
