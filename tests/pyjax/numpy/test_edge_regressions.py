"""Values that were wrong at the edges, one test each; tests/edge_values/ compares everything."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax


@pytest.mark.parametrize("call", [jnp.power, pyjax.jit(jnp.power)], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "uint32"])
def test_power_of_integers_wraps_for_any_exponent(call, dtype) -> None:
    base = np.array([0, 1, 2, 3, 7, 0, 5], dtype)
    exponent = np.array([64, 100, 64, 65, 127, 0, 70], dtype)
    with np.errstate(all="ignore"):
        expected = base**exponent
    np.testing.assert_array_equal(call(base, exponent), expected)


def test_negative_powers_of_integers() -> None:
    base = np.array([1, -1, -1, 0, 2, 5], np.int32)
    exponent = np.array([-1, -3, -4, -1, -1, -64], np.int32)
    np.testing.assert_array_equal(jnp.power(base, exponent), [1, -1, 1, 0, 0, 0])


def test_floor_division_of_integers_by_zero() -> None:
    smallest = np.iinfo(np.int32).min
    x = np.array([-7, 7, 0, smallest], np.int32)
    np.testing.assert_array_equal(jnp.floor_divide(x, 0), [-2, -2, -1, -2])
    assert int(jnp.floor_divide(np.int32(smallest), np.int32(-1))) == smallest


def test_take_clips_negative_indices_to_zero() -> None:
    taken = jnp.take(jnp.arange(5), jnp.array([-1, -7, 9, 2]), mode="clip")
    np.testing.assert_array_equal(taken, [0, 0, 4, 2])


@pytest.mark.parametrize("shape", [(2, 0, 0), (0, 0), (0, 3, 3)])
def test_inverse_of_nothing(shape) -> None:
    assert jnp.linalg.inv(jnp.zeros(shape)).shape == shape
    assert jnp.linalg.solve(jnp.zeros(shape), jnp.zeros(shape)).shape == shape


@pytest.mark.parametrize("scan", [lax.cummax, lax.cummin])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_extremum_shares_the_gradient_of_ties(scan, reverse) -> None:
    rows = np.asarray(pyjax.jacobian(lambda x: scan(x, reverse=reverse))(jnp.full(4, 3.0)))
    expected = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.25, 0.25, 0.5, 0], [0.25] * 4])
    np.testing.assert_array_equal(rows, expected[::-1, ::-1] if reverse else expected)


def test_lgamma_of_tiny_negative_numbers() -> None:
    x = np.array([-1e-20, -1e-38, 1e-20], np.float32)
    np.testing.assert_allclose(lax.lgamma(x), -np.log(np.abs(x)), rtol=1e-6)
    np.testing.assert_allclose(lax.digamma(x[:1]), 1e20, rtol=1e-6)


def test_sum_of_nothing_keeps_the_sign_of_its_start() -> None:
    assert np.signbit(jnp.sum(jnp.zeros((0,)), initial=-0.0))
    assert np.signbit(jnp.sum(jnp.zeros((2, 0)), axis=1, initial=-0.0)).all()
    assert not np.signbit(jnp.sum(jnp.zeros((0,))))


@pytest.mark.parametrize("call", [lambda x: lax.integer_pow(x, -2), lax.reciprocal])
def test_negative_powers_of_integers_in_lax_are_errors(call) -> None:
    with pytest.raises(TypeError, match="integers cannot be raised to negative powers, got int32"):
        call(jnp.arange(3))


def test_conj_of_an_integer_is_an_error() -> None:
    with pytest.raises(TypeError, match="conj does not accept dtype int32"):
        lax.conj(2)


def test_lists_inside_a_tuple_are_index_arrays() -> None:
    m = jnp.arange(12.0).reshape(3, 4)
    expected = np.asarray(m)
    np.testing.assert_array_equal(m[:, [0, -1]], expected[:, [0, -1]])
    np.testing.assert_array_equal(m[[0, 1], [1, 0]], expected[[0, 1], [1, 0]])
    np.testing.assert_array_equal(m.at[[0, 1], [1, 0]].set(5)[:2, :2], [[0, 5], [5, 5]])
    with pytest.raises(TypeError, match="non-tuple sequence"):
        m[[0, 1]]


def test_round_of_an_array_without_digits_is_an_integer() -> None:
    assert round(jnp.float32(2.5)).dtype == jnp.int32
    assert round(jnp.float32(2.5), 0).dtype == jnp.float32


def test_only_0d_arrays_convert_to_python_numbers() -> None:
    with pytest.raises(TypeError, match="only 0-dimensional arrays convert to int"):
        int(jnp.ones((1, 1)))
    assert bool(jnp.ones((1, 1)))


def test_sums_and_products_of_booleans() -> None:
    x = jnp.array([0.0, 2.0])
    assert jnp.sum(x, dtype=bool).dtype == bool and bool(jnp.sum(x, dtype=bool))
    assert not bool(jnp.prod(x, dtype=bool))
    assert jnp.sum(x > 0, promote_integers=False).dtype == jnp.int32


def test_sums_overflow_in_the_dtype_asked_for() -> None:
    assert np.isnan(jnp.sum(jnp.array([2**31 - 1, -(2**31)]), dtype="float16"))


@pytest.mark.parametrize("spread", [jnp.nanvar, jnp.nanstd])
def test_gradient_of_spread_ignores_nan(spread) -> None:
    gradient = np.asarray(pyjax.grad(spread)(jnp.array([1.0, np.nan, 3.0])))
    assert np.isfinite(gradient).all() and gradient[1] == 0


def test_put_that_clips_takes_negative_indices_for_zero() -> None:
    found = jnp.put(jnp.array([1, 2, 3]), jnp.array([-2, 9]), 7, mode="clip", inplace=False)
    assert found.tolist() == [7, 2, 7]


def test_fill_values_saturate_as_conversions_do() -> None:
    assert jnp.full(2, np.inf, "int32").tolist() == [2**31 - 1] * 2
    assert jnp.full((), np.nan, "uint8") == 0


@pytest.mark.parametrize("value, error", [(np.nan, ValueError), (np.inf, OverflowError)])
def test_no_integer_stands_for_nan_or_infinity(value: float, error: type[Exception]) -> None:
    with pytest.raises(error, match="no int32 stands for"):
        jnp.array(value, dtype=int)


def test_arrays_of_ranges_but_not_of_bytes() -> None:
    assert jnp.array(range(3)).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="array: Unexpected input type for array: bytes"):
        jnp.array(b"ab")


def test_sets_of_nothing() -> None:
    nothing, some = jnp.zeros(0), jnp.array([1.0, 2.0])
    assert jnp.intersect1d(nothing, some).shape == (0,)
    assert jnp.setdiff1d(nothing, some).shape == (0,)
    assert jnp.take(nothing, jnp.array([], int)).shape == (0,)


def test_setxor1d_keeps_each_nan_and_fills_with_its_least_value() -> None:
    nan = jnp.array([np.nan])
    assert jnp.setxor1d(nan, nan).shape == (2,)
    found = jnp.setxor1d(jnp.array([1, 2, 3]), jnp.array([1, 5]), size=5)
    assert found.tolist() == [2, 3, 5, 2, 2]
    assert jnp.setxor1d(jnp.zeros(0), jnp.zeros(0), size=2).tolist() == [0, 0]


def test_shapes_may_depend_on_values_under_grad() -> None:
    x = jnp.array([0.0, 1.0, 2.0, 0.0])
    assert pyjax.grad(lambda x: (jnp.trim_zeros(x) ** 2).sum())(x).tolist() == [0, 2, 4, 0]


def test_subscripts_match_the_rank() -> None:
    with pytest.raises(ValueError, match="einsum: 'ij' has 2 letters, but operand 0"):
        jnp.einsum("ij", jnp.ones(3))
    with pytest.raises(ValueError, match="matvec needs a matrix and a vector"):
        jnp.matvec(jnp.ones(3), jnp.ones(3))


def test_covariance_of_nothing_is_nan() -> None:
    assert np.isnan(jnp.cov(jnp.zeros(0)))


def test_types_that_promote_to_a_wider_one_promote_to_the_widest_there_is() -> None:
    assert jnp.promote_types("uint32", "int32") == np.int32
    assert jnp.promote_types("int64", "int8") == np.int64


def test_gradient_of_comb_is_not_zero() -> None:
    gradient = pyjax.grad(lambda n: pyjax.scipy.special.comb(n, 2))(jnp.array(4.0))
    np.testing.assert_allclose(gradient, 3.5, rtol=1e-4)
    assert pyjax.scipy.special.comb(5, 2) == 10


def test_gradient_of_betaln_where_its_formulas_meet() -> None:
    gradient = pyjax.grad(pyjax.scipy.special.betaln)(jnp.array(8.0), 3.0)
    np.testing.assert_allclose(gradient, -0.33611111, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["uint8", "uint32"])
@pytest.mark.parametrize("call", [jnp.add, jnp.maximum, jnp.less, lambda x, y: x + y])
def test_negative_ints_wrap_into_unsigned_types_in_every_way_to_call(call, dtype) -> None:
    x = jnp.array([1, 2], dtype)
    minus_seven = jnp.full(2, -7, "int32").astype(dtype)
    want = np.asarray(call(x, minus_seven))
    ways = (call, pyjax.jit(call, static_argnums=1), pyjax.vmap(call, (0, None)))
    for way in (*ways, lambda x, y: pyjax.vmap(lambda x: call(x, y))(x)):
        np.testing.assert_array_equal(way(x, -7), want)


def test_ints_that_fit_no_default_integer_are_refused_in_every_way_to_call() -> None:
    for dtype in ("uint32", "float32", "int32"):
        x = jnp.array([1, 2], dtype)
        for call in (jnp.add, pyjax.jit(jnp.add, static_argnums=1)):
            with pytest.raises(OverflowError, match="8589934592 too large to convert to int32"):
                call(x, 2**33)
    with pyjax.enable_x64(True):
        x = jnp.array([1, 2], "int32")
        assert pyjax.jit(lambda x: x + 2**40)(x).tolist() == (x + 2**40).tolist() == [1, 2]
        assert jnp.add(jnp.array([1, 2], "float32"), 2**33).tolist() == [2.0**33] * 2
    with pytest.raises(OverflowError):
        jnp.add(jnp.array([1, 2], "float32"), 2**33)


def test_a_python_float_to_an_integer_power_is_not_weak() -> None:
    for power in (2.0 ** jnp.arange(3), jnp.power(2.0, jnp.arange(3)), lax.pow(2.0, jnp.arange(3))):
        assert power.dtype == np.float32 and not power.weak_type
    assert jnp.power(2.0, 3).weak_type


def test_ufunc_methods_have_the_dtype_of_the_function() -> None:
    integers, places = jnp.array([3, 4, 5]), jnp.array([0, 0])
    empty = jnp.logaddexp.reduce(jnp.zeros(0, int))
    assert empty.dtype == np.float32 and empty == -np.inf
    updated = jnp.logaddexp.at(integers, places, 2, inplace=False)
    np.testing.assert_allclose(updated, [3.5514448, 4, 5], rtol=1e-6)
    np.testing.assert_allclose(jnp.logaddexp.reduceat(integers, jnp.array([0, 1])), [3, 5.3132615])
    assert jnp.logical_or.at(jnp.array([3.0, 0.0]), places, 2, inplace=False).dtype == bool
    assert jnp.maximum.at(jnp.array([3, 0]), places, 5.5, inplace=False).tolist() == [5.5, 0.0]


def test_insert_of_one_slice_for_a_scalar_position() -> None:
    m, t = np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(2, 3, 4)
    for array, values, axis in [
        (m, np.ones(3), 1),
        (m, np.ones((3, 1)), 1),
        (m, np.ones((2, 3)), 1),
        (m, 7.0, 0),
        (t, np.ones((2, 4)), 1),
        (t, np.ones(4), 1),
        (t, 5.0, 2),
    ]:
        want = np.insert(array, 1, values, axis)
        np.testing.assert_array_equal(jnp.insert(array, 1, values, axis), want)


def test_insert_says_which_values_fit() -> None:
    with pytest.raises(ValueError, match=r"insert: values of shape \(4, 1\) do not fit"):
        jnp.insert(jnp.ones((3, 4)), 1, jnp.ones(4), axis=1)
    with pytest.raises(ValueError, match="insert: values of shape"):
        jnp.insert(jnp.ones(4), 1, jnp.ones((1, 3)))


def test_polynomials_and_phases_of_nothing() -> None:
    assert jnp.poly(jnp.zeros(0, int)).shape == () and jnp.poly(jnp.zeros(0, int)) == 1
    assert jnp.unwrap(jnp.zeros((2, 0), int)).dtype == np.float32
    assert jnp.unwrap(jnp.zeros(0, int), period=4).dtype == np.int32


def test_fmax_and_fmin_give_the_second_of_equals() -> None:
    zero, nan = np.float32(0), np.float32("nan")
    for call in (jnp.fmax, jnp.fmin):
        assert np.signbit(call(zero, -zero)) and not np.signbit(call(-zero, zero))
        assert call(nan, 1.0) == call(1.0, nan) == 1 and np.isnan(call(nan, nan))
        assert pyjax.grad(call, (0, 1))(1.0, 1.0) == (0.0, 1.0)


def test_complex_logaddexp_is_a_principal_value() -> None:
    x, y = np.array([0, 1, 0.5j], np.complex64), np.array([40 + 40j, 1 - 100j, 1j], np.complex64)
    want = np.log(np.exp(x.astype(complex)) + np.exp(y.astype(complex)))
    np.testing.assert_allclose(jnp.logaddexp(x, y), want, rtol=2e-5)
    assert jnp.logaddexp(0j, 40 + 1e-9j).imag > 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: jnp.mean(jnp.ones(3), axis=2),
        lambda: jnp.swapaxes(jnp.ones(3), 0, 1),
        lambda: pyjax.nn.softmax(jnp.ones(3), axis=2),
        lambda: lax.index_in_dim(jnp.ones(3), 0, 2),
    ],
)
@pytest.mark.parametrize("error", [ValueError, IndexError, pyjax.errors.AxisError])
def test_an_axis_out_of_bounds_is_both_kinds_of_error(call, error) -> None:
    with pytest.raises(error, match=r"axis [12] is out of bounds"):
        call()


@pytest.mark.parametrize("method", ["auto", "compare_all", "sort"])
@pytest.mark.parametrize("invert", [False, True])
def test_isin_of_python_scalars_is_not_weak(method, invert) -> None:
    found = jnp.isin(1, 2, method=method, invert=invert)
    assert not found.weak_type and bool(found) is invert


@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: jnp.full_like(jnp.ones(2, dtype), 1j),
        lambda dtype: jnp.full_like(jnp.ones(2), 1j, dtype=dtype),
        lambda dtype: jnp.full((2,), 1j, dtype),
        lambda dtype: lax.full((2,), 1j, dtype),
        lambda dtype: lax.full_like(jnp.ones(2, dtype), 1j),
    ],
)
def test_complex_fill_values_of_real_arrays(make) -> None:
    for dtype in ("float32", "bfloat16", "int8"):
        with pytest.raises(TypeError) as caught:
            make(dtype)
        what, where, why, fix = str(caught.value).splitlines()
        assert what == f"full got the complex fill_value 1j for dtype {dtype}."
        assert "test_edge_regressions.py" in where
        assert "imaginary part would be lost" in why
        assert "pass 1j.real, or a complex dtype" in fix
    assert make("bool").tolist() == [True, True]
    assert make("complex64").tolist() == [1j, 1j]


@pytest.mark.parametrize(
    ("name", "operands"),
    [
        ("hypot", (3, 4.0)),
        ("lcm", (3, 4)),
        ("logaddexp2", (1.0, 2.0)),
        ("sinc", (0.5,)),
        ("modf", (1.5,)),
        ("heaviside", (1, 2)),
        ("degrees", (1,)),
        ("rad2deg", (1.0,)),
        ("radians", (1,)),
        ("deg2rad", (1.0,)),
    ],
)
def test_functions_of_python_scalars_are_weak(name, operands) -> None:
    function = getattr(jnp, name)
    assert all(x.weak_type for x in pyjax.tree.leaves(function(*operands)))
    strong = [jnp.array([x]) for x in operands]
    assert not any(x.weak_type for x in pyjax.tree.leaves(function(*strong)))


def test_complex_gamma_and_rotations_are_not_weak() -> None:
    rotation = pyjax.scipy.spatial.transform.Rotation
    for degrees in (False, True):
        assert not rotation.from_euler("x", 0.5, degrees).as_quat().weak_type
    assert not pyjax.scipy.special.gamma(1 + 1j).weak_type


def test_weak_types_of_angle_and_spacing() -> None:
    assert jnp.angle(1 + 1j).weak_type
    assert not jnp.angle(1.0).weak_type
    assert not jnp.spacing(2.0).weak_type


SEGMENTS = [  # places, sums of [inf, 1, 2, 3, 4, 5]
    ([0, 1], [np.inf, 15]),
    ([1, 1, 4], [1, 6, 9]),
    ([2, 5, 1], [9, 5, 15]),  # overlapping: one after another
    ([1, 6], [15, np.nan]),
    ([1, 9, 3], [15, np.nan, 12]),
    ([], []),
]


@pytest.mark.parametrize(("places", "sums"), SEGMENTS)
def test_sums_of_segments_keep_to_themselves(places: list[int], sums: list[float]) -> None:
    x = jnp.array([np.inf, 1, 2, 3, 4, 5])
    places = np.array(places, int)
    np.testing.assert_array_equal(jnp.add.reduceat(x, places), sums)
    np.testing.assert_array_equal(pyjax.jit(jnp.add.reduceat)(x, places), sums)
    both = jnp.add.reduceat(jnp.stack([x, 2 * x], 1), places)
    np.testing.assert_array_equal(both, np.stack([sums, 2 * np.array(sums)], 1))


def test_segments_of_other_types() -> None:
    x = jnp.arange(24).reshape(4, 6)
    expected = np.add.reduceat(np.arange(24).reshape(4, 6), [0, 2, 3], axis=-1)
    np.testing.assert_array_equal(jnp.add.reduceat(x, jnp.array([0, 2, 3], "uint8"), -1), expected)
    truths = jnp.add.reduceat(jnp.array([True, True, False]), jnp.array([0, 2]))
    assert truths.dtype == bool and truths.tolist() == [True, False]
    assert jnp.maximum.reduceat(jnp.arange(3), jnp.array([0, 7])).tolist() == [2, -(2**31)]
    gradient = pyjax.grad(lambda x: (jnp.add.reduceat(x, jnp.array([2, 5, 5])) ** 2).sum())
    assert gradient(jnp.arange(6.0)).tolist() == [0, 0, 18, 18, 18, 20]
    with pytest.raises(ValueError, match="reduceat: indices must be integers, got float32"):
        jnp.add.reduceat(x, jnp.array([0.0, 2.0]))


@pytest.mark.parametrize("mode", [None, "fill", "clip", "wrap"])
def test_nothing_is_taken_from_an_empty_axis(mode: str | None) -> None:
    empty = jnp.zeros((0, 3))
    for axis in (0, None):
        with pytest.raises(IndexError, match="there are no elements along axis 0"):
            jnp.take(empty, jnp.array([0]), axis, mode=mode)
    assert jnp.take(empty, jnp.zeros(0, int), 0, mode=mode).shape == (0, 3)
    assert jnp.take(empty, jnp.array([2, 0]), 1, mode=mode).shape == (0, 2)


def test_a_number_has_running_sums_along_one_axis() -> None:
    for call in (jnp.cumsum, jnp.cumprod, jnp.nancumsum, jnp.nancumprod):
        for axis in (None, 0, -1):
            assert call(3, axis=axis).tolist() == call(jnp.array(3), axis=axis).tolist() == [3]
        with pytest.raises(ValueError, match="axis 1 is out of bounds for array of dimension 1"):
            call(3, axis=1)


def test_softplus_is_straight_at_infinity() -> None:
    second = pyjax.grad(pyjax.grad(pyjax.nn.softplus))
    assert [second(x).item() for x in (np.inf, -np.inf, 0.0)] == [0, 0, 0.25]
