"""What the operator tables do not cover: public wrappers, jaxpr text, batching forms and error
messages.
"""

from __future__ import annotations

import numpy as np
import pytest

import pyjax.numpy
from pyjax import grad, lax, vmap
from pyjax.lax.windows import windowed_select
from tests import indexing_oracles as oracle

X = np.arange(20, dtype=np.float32).reshape(4, 5)
LHS = np.random.default_rng(0).normal(size=(2, 5, 4, 3)).astype(np.float32)


def total(x):
    return lax.reduce_sum(x, tuple(range(x.ndim)))


def text_of(f, *args):
    return str(pyjax.make_jaxpr(f)(*args))


# -- slices ----------------------------------------------------------------------------------------


def test_slice_wrappers():
    np.testing.assert_array_equal(lax.index_in_dim(X, -1, 1), X[:, -1:])
    np.testing.assert_array_equal(lax.index_in_dim(X, 2, 0, keepdims=False), X[2])
    np.testing.assert_array_equal(lax.dynamic_index_in_dim(X, -2, 1, keepdims=False), X[:, -2])
    np.testing.assert_array_equal(lax.dynamic_slice_in_dim(X, 9, 2), X[2:])
    np.testing.assert_array_equal(lax.dynamic_slice(X, np.array([1, 2]), (2, 2)), X[1:3, 2:4])
    want = X.copy()
    want[2] = 7
    np.testing.assert_array_equal(
        lax.dynamic_update_index_in_dim(X, np.full(5, 7, np.float32), 2, 0), want
    )
    np.testing.assert_array_equal(
        lax.index_take(X, (np.array([-1, 5]), np.array([0, -6])), (0, 1)), [X[3, 0], X[1, 4]]
    )


def test_dynamic_slice_jaxpr():
    text = text_of(lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 4)), X, 1)
    for part in ("lt b 0:i32[]", "add", "select_n", "dynamic_slice[slice_sizes=(2, 4)]", "0:i32[]"):
        assert part in text
    unsigned = text_of(lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 4)), X, np.uint8(1))
    assert "select_n" not in unsigned


def test_batched_starts_become_gather_and_scatter():
    i = np.arange(4, dtype=np.int32)
    read = vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))
    np.testing.assert_array_equal(read(X, i), [r[min(k, 3) :][:2] for r, k in zip(X, i)])
    assert "operand_batching_dims=(0,)" in text_of(read, X, i)
    assert "operand_batching_dims=()" in text_of(
        vmap(lambda x, i: lax.dynamic_slice(x, (i,), (2,)), (None, 0)), X[0], i
    )
    write = vmap(lambda x, i: lax.dynamic_update_slice(x, x[:1] - 1, (i,)))
    want = X.copy()
    for row, k in zip(want, i):
        row[k] = row[0] - 1 if k else X[0, 0] - 1
    got = write(X, i)
    np.testing.assert_array_equal(np.diag(np.asarray(got)), X[:, 0] - 1)
    assert "scatter[" in text_of(write, X, i)


# -- gather, scatter -------------------------------------------------------------------------------

ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
PUT_ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))


@pytest.mark.parametrize(
    "dtype, fill",
    [
        (np.float32, np.nan),
        (np.int32, np.iinfo(np.int32).min),
        (np.uint8, 255),
        (np.bool_, True),
        (np.complex64, np.nan),
    ],
)
def test_default_fill_values(dtype, fill):
    got = lax.gather(X.astype(dtype), np.array([[9], [1]]), ROWS, (1, 5), mode="fill")
    np.testing.assert_array_equal(np.asarray(got)[0], np.full(5, fill).astype(dtype))
    np.testing.assert_array_equal(np.asarray(got)[1], X.astype(dtype)[1])


def test_gather_without_mode_clamps():
    np.testing.assert_array_equal(lax.gather(X, np.array([[9]]), ROWS, (1, 5)), X[3:])


def test_small_index_dtypes_do_not_overflow():
    big = np.arange(1000, dtype=np.float32)[:, None]
    got = lax.gather(big, np.array([[200], [127]], np.uint8), ROWS, (1, 1), mode="clip")
    np.testing.assert_array_equal(got, [[200], [127]])


def test_last_of_equal_indices_wins_in_value_and_gradient():
    i = np.array([[1], [1], [3]])
    u = np.arange(15, dtype=np.float32).reshape(3, 5)

    def f(x, u):
        return lax.scatter(x, i, u, PUT_ROWS)

    got = np.asarray(f(X, u))
    np.testing.assert_array_equal(got, oracle.scatter(X, i, u, PUT_ROWS, lambda a, b: b))
    gx, gu = grad(lambda x, u: total(f(x, u)), (0, 1))(X, u)
    np.testing.assert_array_equal(gx, np.array([1, 0, 1, 0])[:, None] * np.ones((4, 5)))
    np.testing.assert_array_equal(gu, np.array([0, 1, 1])[:, None] * np.ones((3, 5)))


def test_scatter_max_shares_gradient_among_winners():
    x, u = np.array([[1.0], [5]], np.float32), np.array([[1.0], [1], [3]], np.float32)
    i = np.array([[0], [0], [1]])
    gx, gu = grad(lambda x, u: total(lax.scatter_max(x, i, u, PUT_ROWS)), (0, 1))(x, u)
    np.testing.assert_allclose(gx, [[1 / 3], [1]], rtol=1e-6)
    np.testing.assert_allclose(gu, [[1 / 3], [1 / 3], [0]], rtol=1e-6)


def test_scatter_apply_and_mul():
    i = np.array([[2], [0]])
    got = lax.scatter_apply(X, i, lambda v: v * 10, PUT_ROWS, update_shape=(2, 5))
    want = X.copy()
    want[[0, 2]] *= 10
    np.testing.assert_array_equal(got, want)
    with pytest.raises(NotImplementedError, match="not differentiable"):
        grad(lambda x: total(lax.scatter_apply(x, i, lax.sin, PUT_ROWS, update_shape=(2, 5))))(X)
    with pytest.raises(NotImplementedError, match="unique_indices"):
        grad(lambda u: total(lax.scatter_mul(X, i, u, PUT_ROWS)))(X[:2])
    g = grad(lambda u: total(lax.scatter_mul(X, i, u, PUT_ROWS, unique_indices=True)))(X[:2])
    np.testing.assert_array_equal(g, X[[2, 0]])


# -- windows, convolutions -------------------------------------------------------------------------


def test_max_pool_gradient_uses_select_and_scatter():
    def pool(x):
        return lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID")

    text = text_of(grad(lambda x: total(pool(x))), X)
    assert "reduce_window_max[" in text and "select_and_scatter_add[" in text
    assert "select_prim=ge" in text


def test_initial_value_other_than_the_identity():
    got = lax.reduce_window(X, 2.0, lax.add, (2, 2), (1, 1), "VALID")
    want = oracle.reduce_window(X, 0, np.add, (2, 2), (1, 1), ((0, 0), (0, 0))) + 2
    np.testing.assert_allclose(got, want)


def test_select_and_scatter_of_mapped_initial_values():
    """The function that combines need not be a sum: here the initial value is a factor."""
    source = np.array([[2.0, 3.0]], np.float32)
    starts = np.array([1.0, -5.0, 0.5], np.float32)

    def scattered(start, x):
        return windowed_select.select_and_scatter(
            x, lax.ge, (4, 2), (1, 2), ((0, 0), (0, 0)), source, start, lax.mul
        )

    want = np.broadcast_to(starts[:, None, None], (3, 4, 4)).copy()
    want[:, 3, 1] *= 2  # the largest elements are in the last row
    want[:, 3, 3] *= 3
    x = X[:, :4]
    np.testing.assert_allclose(vmap(scattered, (0, None))(starts, x), want)
    np.testing.assert_allclose(vmap(scattered)(starts, np.stack([x, x, x])), want)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_reductions_use_arrays_from_outside(count):
    """Also tracers: of the modulus under vmap, of a factor under grad."""
    values = np.arange(1, 1 + count, dtype=np.int32)

    def sum_below(modulus):
        return lax.reduce(values, np.int32(0), lambda a, b: lax.rem(a + b, modulus[0]), (0,))

    moduli = np.array([[2], [7]], np.int32)
    want = [values.sum() % 2, values.sum() % 7]
    np.testing.assert_array_equal(vmap(sum_below)(moduli), want)
    np.testing.assert_array_equal(sum_below(pyjax.numpy.asarray(moduli[1])), want[1])

    def product(w):
        x = values.astype(np.float32)
        return lax.reduce(x, np.float32(1), lambda a, b: lax.mul(lax.mul(a, b), w), (0,))

    factor = np.prod(np.arange(1, 1 + count))
    got = grad(product)(2.0)
    np.testing.assert_allclose(got, count * factor * 2.0 ** (count - 1), rtol=1e-6)


@pytest.mark.parametrize(
    "padding, want",
    [("SAME", [(0, 1), (0, 1)]), ("SAME_LOWER", [(1, 0), (1, 0)]), ("VALID", [(0, 0), (0, 0)])],
)
def test_padtype_to_pads(padding, want):
    assert lax.padtype_to_pads((8, 8), (3, 3), (2, 2), padding) == want


def test_dimension_numbers():
    numbers = lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    assert numbers == ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    assert lax.conv_general_permutations(("NCHW", "OIHW", "NHWC"))[2] == (0, 3, 1, 2)


@pytest.mark.parametrize("padding", ["SAME", "VALID", ((1, 1), (2, 0))])
def test_conv_transpose_with_kernel_transposed_is_the_gradient(padding):
    rng = np.random.default_rng(1)
    kernel = rng.normal(size=(3, 2, 4, 6)).astype(np.float32)
    numbers = ("NHWC", "HWIO", "NHWC")
    x = rng.normal(size=(2, 8, 9, 4)).astype(np.float32)

    def forward(x):
        return lax.conv_general_dilated(x, kernel, (1, 1), padding, dimension_numbers=numbers)

    y, pull = pyjax.vjp(forward, x)
    got = lax.conv_transpose(
        np.asarray(y),
        kernel,
        (1, 1),
        padding,
        transpose_kernel=True,
        use_consistent_padding=True,
    )
    if got.shape == x.shape:
        np.testing.assert_allclose(got, pull(y)[0], rtol=1e-3, atol=1e-3)
    else:
        assert padding == "SAME"  # even windows pad on the other side


def test_conv_transpose_sizes():
    kernel = np.ones((3, 4, 3, 5), np.float32)
    x = np.ones((1, 8, 8, 3), np.float32)
    assert lax.conv_transpose(x, kernel, (2, 3), "SAME").shape == (1, 16, 24, 5)
    assert lax.conv_transpose(x, kernel, (2, 3), "VALID").shape == (1, 17, 25, 5)
    assert lax.conv_transpose(x, kernel, (1, 1), ((1, 1), (2, 0))).shape == (1, 8, 7, 5)


def test_patches_and_local():
    patches = lax.conv_general_dilated_patches(LHS, (2, 3), (1, 1), "VALID")
    assert patches.shape == (2, 30, 3, 1)
    np.testing.assert_allclose(patches[0, :, 1, 0], LHS[0, :, 1:3, 0:3].reshape(-1))
    kernel = np.random.default_rng(2).normal(size=(6, 30, 3, 1)).astype(np.float32)
    got = lax.conv_general_dilated_local(LHS, kernel, (1, 1), "VALID", (2, 3))
    np.testing.assert_allclose(got, np.einsum("npij,opij->noij", patches, kernel), rtol=1e-4)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (1, 2)])
@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 2)])
def test_conv_vmap(axes, groups):
    rng = np.random.default_rng(3)
    fg, bg = groups
    a = rng.normal(size=(2, 4, 5, 5)).astype(np.float32)
    b = rng.normal(size=(4, 4 // fg, 2, 2)).astype(np.float32)

    def f(a, b):
        return lax.conv_general_dilated(
            a, b, (1, 2), "SAME", feature_group_count=fg, batch_group_count=bg
        )

    batched = [
        v if d is None else np.stack([v, v * 2, v + 1], axis=d) for v, d in zip((a, b), axes)
    ]
    got = vmap(f, axes)(*batched)
    for k in range(3):
        one = [v if d is None else np.take(v, k, d) for v, d in zip(batched, axes)]
        np.testing.assert_allclose(got[k], f(*one), rtol=1e-4, atol=1e-4)


# -- errors ----------------------------------------------------------------------------------------

A4 = np.ones((1, 3, 8, 8), np.float32)
K4 = np.ones((4, 3, 3, 3), np.float32)


@pytest.mark.parametrize(
    "call, kind, parts",
    [
        (lambda: lax.dynamic_slice(X, (1,), (2, 2)), ValueError, ["(1 vs (4, 5))"]),
        (lambda: lax.dynamic_slice(X, (1, 1.0), (2, 2)), TypeError, ["integers of the same type"]),
        (lambda: lax.dynamic_slice(X, (1, 1), (2, 8)), TypeError, ["less than or equal", "(2, 8)"]),
        (lambda: lax.slice(X, (1, 1), (2, 8)), TypeError, ["(2, 8)", "(4, 5)"]),
        (lambda: lax.slice(X, (1,), (2, 8)), TypeError, ["one entry per operand dimension"]),
        (lambda: lax.index_in_dim(X, 9), IndexError, ["out of bounds"]),
        (
            lambda: lax.dynamic_update_slice(X, X.astype(np.int32), (0, 0)),
            TypeError,
            ["same dtypes", "float32, int32"],
        ),
        (lambda: lax.dynamic_update_slice(X, X[0], (0, 0)), TypeError, ["same rank"]),
        (lambda: lax.gather(X, np.ones((1, 1)), ROWS, (1, 5)), ValueError, ["integer type"]),
        (lambda: lax.gather(X, np.ones((1, 2), int), ROWS, (1, 5)), TypeError, ["start_index_map"]),
        (lambda: lax.gather(X, np.ones((1, 1), int), ROWS, (1, 9)), TypeError, ["Slice size"]),
        (lambda: lax.gather(X, np.ones((1, 1), int), ROWS, (1, 5), mode="x"), ValueError, ["mode"]),
        (
            lambda: lax.scatter(X, np.ones((1, 1), int), X[:2], PUT_ROWS),
            TypeError,
            ["scatter dimensions of updates"],
        ),
        (lambda: lax.conv(A4, X, (1, 1), "SAME"), TypeError, ["ndim to be equal, got 4 and 2"]),
        (lambda: lax.conv(A4, K4[:, :2], (1, 1), "SAME"), ValueError, ["3 // 1 != 2"]),
        (lambda: lax.conv(A4, K4.astype(np.int32), (1, 1), "SAME"), TypeError, ["same dtypes"]),
        (lambda: lax.conv(A4, K4, (1,), "SAME"), ValueError, ["window_strides", "2 and 1"]),
        (lambda: lax.conv(A4, K4, (1, 1), "FOO"), RuntimeError, ["Unrecognized padding", "FOO"]),
        (
            lambda: lax.conv_general_dilated(A4, K4, (1, 1), ((1, 1),)),
            TypeError,
            ["expected 2, got 1"],
        ),
        (
            lambda: lax.conv_general_dilated(A4, K4, (1, 1), "SAME", feature_group_count=2),
            ValueError,
            ["2 does not divide 3"],
        ),
        (
            lambda: lax.conv_general_dilated(A4, K4, (1, 1), "SAME", lhs_dilation=(2, 2)),
            ValueError,
            ["use conv_transpose"],
        ),
        (
            lambda: lax.conv_general_dilated(
                A4, K4, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NHWD")
            ),
            TypeError,
            ["exactly once, got NHWD"],
        ),
        (lambda: lax.reduce_window(X, 0.0, lax.add, (2,)), TypeError, ["window_dimensions (2,)"]),
        (
            lambda: lax.reduce_window(X, X, lax.add, (2, 2)),
            TypeError,
            ["init_values to be scalars"],
        ),
        (
            lambda: lax.reduce_window(X, 0.0, lax.add, (2, 2), (1, 0)),
            TypeError,
            ["strictly positive"],
        ),
        (
            lambda: lax.reduce_window(X, 0.0, lambda a, b: (a, b), (2, 2)),
            ValueError,
            ["same tree structure"],
        ),
    ],
)
def test_errors_name_the_problem_and_the_line(call, kind, parts):
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    for part in [*parts, "test_windows_and_indexing.py:"]:
        assert part in text


@pytest.mark.parametrize("name, better", [("min", np.minimum), ("max", np.maximum)])
def test_extremes_of_complex_numbers_are_scattered(name, better):
    """Ordered lexicographically, as lax.min and lax.max order them."""
    x = np.array([1 + 2j, 1 - 1j, 5j, 2], np.complex64)
    places, updates = np.array([0, 0, 1, 9, 3]), np.array([1 + 3j, 1, -1 + 1j, 7, 2 + 1j], x.dtype)
    expected = x.copy()
    for i, update in zip(places[places < 4], updates[places < 4]):
        expected[i] = better(expected[i], update)
    function = getattr(pyjax.numpy.asarray(x).at[places], name)
    np.testing.assert_array_equal(function(updates), expected)
    np.testing.assert_array_equal(
        pyjax.jit(lambda a, b: getattr(a.at[places], name)(b))(x, updates), expected
    )
