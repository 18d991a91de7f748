"""Products of sparse arrays of every format, and derivatives, compared with dense ones."""

import itertools

import numpy as np
import pytest
import scipy.sparse

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.experimental import sparse
from pyjax.experimental.sparse import BCOO, BCSR, COO, CSC, CSR

FORMATS = [BCOO, BCSR, COO, CSR, CSC]


def draw(shape, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < 0.5, rng.normal(size=shape), 0)
    return (x * (1 + 1j) if np.issubdtype(dtype, np.complexfloating) else x).astype(dtype)


X = draw((2, 3, 4))
# Every layout is tested; those beside the first two in the sweeps only.
LAYOUTS = [(0, 0), (1, 1)] + [
    pytest.param(b, d, marks=pytest.mark.slow)
    for b, d in itertools.product(range(3), range(3))
    if b + d <= 3 and (b, d) not in ((0, 0), (1, 1))
]
# Shape of the other operand, (contracting, batch) dimensions.
DOTS = [
    ((4, 5), (((2,), (0,)), ((), ()))),
    ((5, 3, 2), (((1,), (1,)), ((0,), (2,)))),
    ((4, 3, 5), (((1, 2), (1, 0)), ((), ()))),
    ((5, 2), (((0,), (1,)), ((), ()))),
    ((3, 4), (((), ()), ((1, 2), (0, 1)))),
    ((2, 3, 4), (((0, 1, 2), (0, 1, 2)), ((), ()))),
    ((5,), (((), ()), ((), ()))),
]


@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_dot_general(n_batch, n_dense):
    mat = BCOO.fromdense(X, n_batch=n_batch, n_dense=n_dense)
    for shape, ((a, b), (c, d)) in DOTS:
        other = draw(shape, 1)
        numbers, swapped = ((a, b), (c, d)), ((b, a), (d, c))
        expected = lax.dot_general(X, other, numbers)
        got = sparse.bcoo_dot_general(mat, other, dimension_numbers=numbers)
        np.testing.assert_allclose(got, expected, atol=1e-5)
        got = sparse.bcoo_dot_general(other, mat, dimension_numbers=swapped)
        np.testing.assert_allclose(got, lax.dot_general(other, X, swapped), atol=1e-5)


@pytest.mark.parametrize("batches", [(), (0,)])
def test_two_sparse_operands(batches):
    y = draw((2, 4, 3), 1)
    numbers = (((2,), (1,)), (batches, batches))
    a, b = (BCOO.fromdense(v, n_batch=len(batches)) for v in (X, y))
    got = sparse.bcoo_dot_general(a, b, dimension_numbers=numbers)
    np.testing.assert_allclose(got.todense(), lax.dot_general(X, y, numbers), atol=1e-5)
    with pytest.raises(NotImplementedError, match="dense dimensions"):
        sparse.bcoo_dot_general(BCOO.fromdense(X, n_dense=1), b, dimension_numbers=numbers)


def test_elements_outside_do_not_count():
    data = np.array([1, np.nan], np.float32)
    mat = BCOO((data, np.array([[0, 1], [0, 3]])), shape=(2, 3))
    ones = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(mat @ ones.T, [[1, 1], [0, 0]])
    np.testing.assert_array_equal((mat * ones).todense(), [[0, 1, 0], [0, 0, 0]])
    np.testing.assert_array_equal((mat @ mat.T).todense(), [[1, 0], [0, 0]])
    np.testing.assert_array_equal(mat.sum(1).todense(), [1, 0])
    np.testing.assert_array_equal(mat.reshape(6).todense(), [0, 1, 0, 0, 0, 0])


@pytest.mark.parametrize("lead", [0, 1])
def test_sampled(lead):
    a, b = draw((2, 3, 4)), draw((2, 4, 5), 1)
    numbers = (((2,), (1,)), ((0,), (0,))) if lead else (((1,), (0,)), ((), ()))
    a, b = (a, b) if lead else (a[0], b[0])
    at = np.array([[[0, 4], [2, 2], [3, 0]], [[1, 1], [0, 0], [2, 5]]])[: 2 if lead else 1]
    at = at if lead else at[0]
    got = sparse.bcoo_dot_general_sampled(a, b, at, dimension_numbers=numbers)
    whole = np.pad(a @ b, [(0, 0)] * lead + [(0, 1), (0, 1)])
    picked = [w[tuple(i.T)] for w, i in zip(whole, at)] if lead else whole[tuple(at.T)]
    np.testing.assert_allclose(got, picked, atol=1e-5)


@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_elementwise_products(n_batch, n_dense):
    y = draw((2, 3, 4), 2)
    a, b = (BCOO.fromdense(v, n_batch=n_batch, n_dense=n_dense) for v in (X, y))
    np.testing.assert_allclose(sparse.bcoo_multiply_sparse(a, b).todense(), X * y, atol=1e-6)
    np.testing.assert_allclose((a * y[:, :1]).todense(), X * y[:, :1], atol=1e-6)
    np.testing.assert_allclose((a / (3 + y[0])).todense(), X / (3 + y[0]), atol=1e-6)


def test_elementwise_product_of_stretched_operands():
    a, b = draw((3, 1)), draw((1, 4), 1)
    got = sparse.bcoo_multiply_sparse(BCOO.fromdense(a), BCOO.fromdense(b))
    np.testing.assert_allclose(got.todense(), a * b)


# -- matrices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [np.float32, *(pytest.param(d, marks=pytest.mark.slow) for d in (np.int32, np.complex64))],
)
@pytest.mark.parametrize("kind", FORMATS)
def test_matrices(kind, dtype):
    x = draw((3, 5), dtype=dtype) * (3 if dtype == np.int32 else 1)
    mat = kind.fromdense(x)
    padded = kind.fromdense(x, nse=mat.nse + 3)
    v, w = draw((5,), 1), draw((5, 2), 2)
    for m in (mat, padded, pyjax.jit(lambda m: m)(mat)):
        assert (m.shape, m.ndim, m.size, len(m), m.dtype) == ((3, 5), 2, 15, 3, x.dtype)
        np.testing.assert_array_equal(m.todense(), x)
        np.testing.assert_allclose(m @ v, x @ v, atol=1e-5)
        np.testing.assert_allclose(m @ w, x @ w, atol=1e-5)
    np.testing.assert_array_equal(sparse.todense(mat), x)
    assert repr(mat) == f"{kind.__name__}({np.dtype(dtype)}[3, 5], nse={mat.nse})"


@pytest.mark.parametrize("kind", [COO, CSR, CSC, BCOO])
def test_transposes(kind):
    x = draw((3, 5))
    np.testing.assert_array_equal(kind.fromdense(x).T.todense(), x.T)
    np.testing.assert_allclose(kind.fromdense(x).T @ draw((3,), 1), x.T @ draw((3,), 1), atol=1e-6)


@pytest.mark.parametrize("name", ["coo", "csr", "csc", "bcsr"])
@pytest.mark.parametrize("k", [-2, 0, 1])
def test_made_in_other_formats(name, k):
    eye = sparse.eye(3, 4, k, sparse_format=name)
    np.testing.assert_array_equal(eye.todense(), np.eye(3, 4, k))
    empty = sparse.empty((2, 3), dtype="int32", sparse_format=name)
    assert empty.nse == 0 and empty.todense().tolist() == [[0] * 3] * 2


@pytest.mark.parametrize(("n_batch", "n_dense"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_bcsr(n_batch, n_dense):
    x = draw((2,) * n_batch + (3, 4) + (2,) * n_dense)
    mat = BCSR.fromdense(x, n_batch=n_batch, n_dense=n_dense)
    np.testing.assert_array_equal(mat.todense(), x)
    np.testing.assert_array_equal(mat.to_bcoo().todense(), x)
    np.testing.assert_array_equal(sparse.bcsr_sum_duplicates(mat).todense(), x)
    np.testing.assert_array_equal(
        sparse.bcsr_extract(mat.indices, mat.indptr, 2 * x), 2 * np.asarray(mat.data)
    )
    twice = sparse.bcsr_concatenate([mat, mat], dimension=n_batch)
    np.testing.assert_array_equal(twice.todense(), np.concatenate([x, x], n_batch))
    wide = sparse.bcsr_broadcast_in_dim(
        mat, shape=(5, *x.shape), broadcast_dimensions=range(1, 1 + x.ndim)
    )
    np.testing.assert_array_equal(wide.todense(), np.broadcast_to(x, (5, *x.shape)))


def test_scipy_matrices():
    x = draw((4, 3))
    for made in (scipy.sparse.coo_matrix, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix):
        for kind in (BCOO, BCSR):
            np.testing.assert_array_equal(kind.from_scipy_sparse(made(x)).todense(), x)


def test_formats_without_operators_say_so():
    for kind in (BCSR, COO, CSR, CSC):
        with pytest.raises(NotImplementedError, match="__add__"):
            kind.fromdense(X[0]) + 1
    with pytest.raises(NotImplementedError, match="two sparse objects"):
        COO.fromdense(X[0]) @ COO.fromdense(X[0])
    with pytest.raises(TypeError, match="cannot be multiplied"):
        CSR.fromdense(X[0]) @ np.ones(3)


# -- transformations ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMATS)
def test_gradients_are_sparse(kind):
    x, v = draw((3, 4)), draw((4,), 1)

    def loss(mat, v):
        return (jnp.sin(mat @ v) ** 2).sum()

    dense, by_v = pyjax.grad(loss, (0, 1))(x, v)
    (value, (found, found_v)) = sparse.value_and_grad(loss, (0, 1))(kind.fromdense(x), v)
    assert type(found) is kind
    np.testing.assert_allclose(found.todense(), np.where(x != 0, dense, 0), atol=1e-5)
    np.testing.assert_allclose(found_v, by_v, atol=1e-5)
    np.testing.assert_allclose(value, loss(x, v), rtol=1e-5)
    compiled = pyjax.jit(sparse.grad(loss))(kind.fromdense(x), v)
    np.testing.assert_allclose(compiled.data, found.data, atol=1e-5)


@pytest.mark.parametrize("jacobian", [sparse.jacfwd, sparse.jacrev])
def test_jacobians_are_sparse(jacobian):
    x, v = draw((3, 4)), draw((4,), 1)
    found = jacobian(lambda m: jnp.sin(m @ v))(BCOO.fromdense(x))
    assert found.n_batch == 1
    expected = np.asarray(pyjax.jacrev(lambda m: jnp.sin(m @ v))(x))
    np.testing.assert_allclose(found.todense(), np.where(x != 0, expected, 0), atol=1e-5)
    by_v, aux = jacobian(lambda m, v: (m @ v, v), argnums=1, has_aux=True)(BCOO.fromdense(x), v)
    np.testing.assert_allclose(by_v, x, atol=1e-5)
    np.testing.assert_array_equal(aux, v)
    with pytest.raises(NotImplementedError, match="sparse results"):
        jacobian(lambda m: m * 2)(BCOO.fromdense(x))


def test_second_derivatives():
    x, v = draw((3, 4)), draw((4,), 1)
    mat = BCOO.fromdense(x)

    def loss(data, v):
        return (jnp.tanh(BCOO((data, mat.indices), shape=mat.shape) @ v) ** 2).sum()

    pyjax.test_util.check_grads(loss, (mat.data, v), order=2, rtol=2e-2, atol=2e-2)


def test_mapped_over_batches():
    mat, v = BCOO.fromdense(X, n_batch=1), draw((4,), 1)
    np.testing.assert_allclose(pyjax.vmap(lambda m: m @ v)(mat), X @ v, atol=1e-5)
    same = pyjax.vmap(lambda m: m * 2)(mat)
    assert (same.shape, same.n_batch) == ((2, 3, 4), 1)
    np.testing.assert_allclose(same.todense(), 2 * X)
    scaled = pyjax.vmap(lambda s: BCOO.fromdense(X) * s)(jnp.arange(3.0))
    np.testing.assert_allclose(scaled.todense(), X * np.arange(3.0)[:, None, None, None])
    rows = pyjax.vmap(lambda r: r.to_bcoo().sum())(BCSR.fromdense(X, n_batch=1))
    np.testing.assert_allclose(rows, X.sum((1, 2)), atol=1e-5)
    both = pyjax.vmap(lambda m, w: m @ w, in_axes=(None, 0))(BCOO.fromdense(X[0]), draw((5, 4)))
    np.testing.assert_allclose(both, draw((5, 4)) @ X[0].T, atol=1e-5)
    with pytest.raises(ValueError, match="n_batch=0"):
        pyjax.vmap(lambda m: m)(BCOO.fromdense(X))


def test_programs_show_what_is_sparse():
    mat = BCOO.fromdense(X[0])
    text = str(pyjax.make_jaxpr(lambda m, v: m @ v)(mat, jnp.ones(4)))
    assert "bcoo_dot_general[" in text and "lhs_spinfo=SparseInfo(shape=(3, 4)" in text
    out = pyjax.linear_transpose(lambda v: mat @ v, jnp.ones(4))(jnp.ones(3))
    np.testing.assert_allclose(out[0], X[0].sum(0), atol=1e-5)


def test_conjugate_gradients_of_a_sparse_matrix():
    a = X[0] @ X[0].T + 3 * np.eye(3, dtype=np.float32)
    mat, b = BCOO.fromdense(a), np.ones(3, np.float32)
    x, _ = pyjax.scipy.sparse.linalg.cg(lambda v: mat @ v, b)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-4)
