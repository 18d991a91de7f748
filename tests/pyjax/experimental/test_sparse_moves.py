"""BCOO arrays of every layout in other shapes, compared with what NumPy does to dense ones."""

import functools
import itertools

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.experimental import sparse
from pyjax.experimental.sparse import BCOO

SHAPE = (2, 3, 4)
# Every layout is tested; those beside the first two in the sweeps only.
LAYOUTS = [(0, 0), (1, 1)] + [
    pytest.param(b, d, marks=pytest.mark.slow)
    for b, d in itertools.product(range(3), range(3))
    if b + d <= 3 and (b, d) not in ((0, 0), (1, 1))
]


def draw(shape, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(shape) < 0.5, rng.normal(size=shape) * 4, 0)
    return x.astype(dtype)


X = draw(SHAPE)
ONE = dict(start_indices=(0, 1, 0), limit_indices=(1, 3, 1))
MOVES = [
    ("slice", lambda m: sparse.bcoo_slice(m, **ONE, strides=(1, 2, 1)), X[:1, 1:3:2, :1]),
    (
        "dynamic_slice",
        lambda m: sparse.bcoo_dynamic_slice(m, (jnp.int32(5), 1, jnp.int32(-1)), (1, 2, 3)),
        X[1:2, 1:3, 1:],
    ),
    ("rev", lambda m: sparse.bcoo_rev(m, (0, 2)), X[::-1, :, ::-1]),
    ("sum_0", lambda m: sparse.bcoo_reduce_sum(m, axes=(0,)), X.sum(0)),
    ("sum_12", lambda m: sparse.bcoo_reduce_sum(m, axes=(1, 2)), X.sum((1, 2))),
    ("sum_all", lambda m: sparse.bcoo_reduce_sum(m, axes=(0, 1, -1)), X.sum()),
    ("concatenate_0", lambda m: sparse.bcoo_concatenate([m, m], dimension=0), np.r_[X, X]),
    (
        "concatenate_2",
        lambda m: sparse.bcoo_concatenate([m, m], dimension=2),
        np.concatenate([X, X], 2),
    ),
    (
        "broadcast",
        lambda m: sparse.bcoo_broadcast_in_dim(
            m, shape=(2, 2, 3, 2, 4), broadcast_dimensions=(1, 2, 4)
        ),
        np.broadcast_to(X[None, :, :, None], (2, 2, 3, 2, 4)),
    ),
    (
        "stretch",
        lambda m: sparse.bcoo_broadcast_in_dim(
            sparse.bcoo_slice(m, **ONE), shape=(2, 2, 3), broadcast_dimensions=(0, 1, 2)
        ),
        np.broadcast_to(X[:1, 1:3, :1], (2, 2, 3)),
    ),
    (
        "squeeze",
        lambda m: sparse.bcoo_squeeze(sparse.bcoo_slice(m, **ONE), dimensions=(0, -1)),
        X[0, 1:3, 0],
    ),
    ("reshape", lambda m: sparse.bcoo_reshape(m, new_sizes=(2, 1, 3, 4, 1)), X[:, None, ..., None]),
    ("sorted", lambda m: sparse.bcoo_sort_indices(sparse.bcoo_rev(m, (1,))), X[:, ::-1]),
    (
        "layout",
        lambda m: sparse.bcoo_update_layout(m, n_batch=1, n_dense=1, on_inefficient=None),
        X,
    ),
    ("flat_layout", lambda m: sparse.bcoo_update_layout(m, n_batch=0, n_dense=0), X),
    ("joined", lambda m: sparse.bcoo_concatenate([m, m], dimension=1).sum_duplicates(), None),
]


@pytest.mark.parametrize(("move", "expected"), [m[1:] for m in MOVES], ids=[m[0] for m in MOVES])
@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_moves(move, expected, n_batch, n_dense):
    mat = BCOO.fromdense(X, n_batch=n_batch, n_dense=n_dense)
    expected = np.concatenate([X, X], 1) if expected is None else expected
    got = move(mat)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got.todense(), expected, atol=1e-5)


@pytest.mark.parametrize(("n_batch", "n_dense"), LAYOUTS)
def test_dense_and_back(n_batch, n_dense):
    mat = BCOO.fromdense(X, n_batch=n_batch, n_dense=n_dense)
    assert (mat.n_batch, mat.n_sparse, mat.n_dense) == (n_batch, 3 - n_batch - n_dense, n_dense)
    np.testing.assert_array_equal(mat.todense(), X)
    more = BCOO.fromdense(X, n_batch=n_batch, n_dense=n_dense, nse=mat.nse + 2)
    np.testing.assert_array_equal(more.todense(), X)
    np.testing.assert_array_equal(sparse.bcoo_extract(mat, 2 * X).data, 2 * mat.data)
    traced = pyjax.jit(lambda x: BCOO.fromdense(x, nse=mat.nse, n_batch=n_batch, n_dense=n_dense))
    np.testing.assert_array_equal(traced(X).indices, mat.indices)


@pytest.mark.parametrize("nse", [None, 1, 3, 6])
@pytest.mark.parametrize("jit", [False, True])
def test_duplicates_add_up_and_outside_is_nothing(nse, jit):
    data = np.array([1, 2, 4, 8, 16], np.float32)
    indices = np.array([[2], [1], [2], [7], [-4]])
    mat = BCOO((data, indices), shape=(3,))
    np.testing.assert_array_equal(mat.todense(), [0, 2, 5])
    if nse is None and jit:
        with pytest.raises(ValueError, match="nse must be specified"):
            pyjax.jit(sparse.bcoo_sum_duplicates)(mat)
        return
    run = pyjax.jit if jit else lambda f: f
    got = run(lambda m: sparse.bcoo_sum_duplicates(m, nse=nse))(mat)
    assert got.indices_sorted and got.unique_indices and got.nse == (nse or 2)
    np.testing.assert_array_equal(
        got.todense(), [0, 2, 5][: nse + 1 if nse == 1 else 3] + [0] * (nse == 1)
    )
    assert not mat.indices_sorted


def test_zeros_are_removed():
    mat = BCOO((np.array([0, 1], np.float32), np.array([[0], [1]])), shape=(2,))
    assert mat.sum_duplicates().nse == 1
    assert mat.sum_duplicates(remove_zeros=False).nse == 2


def test_extract_of_duplicates():
    mat = BCOO((np.ones(4), np.array([[0], [1], [0], [7]])), shape=(3,))
    x = np.array([5, 6, 7], np.float32)
    assert sparse.bcoo_extract(mat, x).data.tolist() == [5, 6, 0, 0]
    assert sparse.bcoo_extract(mat, x, assume_unique=True).data.tolist() == [5, 6, 5, 0]


@pytest.mark.parametrize("nse", [0, 3])
def test_empty(nse):
    mat = sparse.empty((2, 3), nse=nse)
    assert not np.asarray(mat.todense()).any()
    assert (mat @ jnp.ones(3)).tolist() == [0, 0]
    assert mat.sum_duplicates().nse == 0
    assert not np.asarray((mat.T + mat.reshape(3, 2)).todense()).any()


@pytest.mark.parametrize("k", [-2, 1, 5])
@pytest.mark.parametrize("layout", [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)])
def test_eye(k, layout):
    n_batch, n_dense = layout
    mat = sparse.eye(3, 4, k, n_batch=n_batch, n_dense=n_dense)
    np.testing.assert_array_equal(mat.todense(), np.eye(3, 4, k))


def test_random_arrays():
    key = pyjax.random.key(0)
    mat = sparse.random_bcoo(key, (4, 5, 2), dtype="float32", n_batch=1, n_dense=1, nse=3)
    assert (mat.shape, mat.nse, mat.n_batch, mat.n_dense) == ((4, 5, 2), 3, 1, 1)
    assert all(len(set(row)) == 3 for row in mat.indices[..., 0].tolist())
    # The bits of JAX.
    drawn = sparse.random_bcoo(key, (4, 5), dtype="float32")
    assert drawn.indices.tolist() == [[0, 0], [0, 3], [1, 4], [1, 0]]
    assert abs(float(drawn.data[0]) - 0.8423141) < 1e-6


FAULTS = [
    (lambda: BCOO((np.ones(3), np.ones((4, 2), int)), shape=(2, 3)), ValueError, "data.shape"),
    (lambda: BCOO((np.ones(3), np.ones((3, 2))), shape=(2, 3)), TypeError, "integers"),
    (lambda: BCOO((np.ones(3), np.ones((3, 3), int)), shape=(2, 3)), ValueError, "indices.shape"),
    (lambda: pyjax.jit(BCOO.fromdense)(X), pyjax.errors.ConcretizationTypeError, "nse"),
    (lambda: BCOO.fromdense(X, n_batch=1).T, NotImplementedError, "batch axes"),
    (lambda: BCOO.fromdense(X, n_batch=1).reshape(6, 4), ValueError, "mix batch"),
    (lambda: BCOO.fromdense(X, n_dense=1).reshape(2, 12), ValueError, "mix sparse and dense"),
    (lambda: BCOO.fromdense(X).reshape(5), TypeError, "cannot reshape"),
    (
        lambda: BCOO.fromdense(X).update_layout(n_batch=1),
        sparse.SparseEfficiencyError,
        "inefficient",
    ),
    (lambda: BCOO.fromdense(X).update_layout(n_batch=2, n_dense=2), ValueError, "cannot be larger"),
    (
        lambda: sparse.bcoo_slice(
            BCOO.fromdense(X), start_indices=(0, 0, 0), limit_indices=(1, 1, 9)
        ),
        ValueError,
        "invalid indices",
    ),
    (lambda: sparse.bcoo_squeeze(BCOO.fromdense(X), dimensions=(0,)), ValueError, "not equal"),
    (lambda: sparse.empty((2, 3), sparse_format="dok"), ValueError, "must be one of"),
    (lambda: sparse.bcoo_concatenate([], dimension=0), ValueError, "not empty"),
]


@pytest.mark.parametrize(("make", "kind", "said"), FAULTS, ids=[f[2] for f in FAULTS])
def test_faults(make, kind, said):
    with pytest.raises(kind, match=said):
        make()


def test_waste_can_be_a_warning():
    with pytest.warns(sparse.SparseEfficiencyWarning, match="increasing n_dense from 0 to 1"):
        mat = BCOO.fromdense(X).update_layout(n_dense=1, on_inefficient="warn")
    np.testing.assert_array_equal(mat.todense(), X)


def test_gather():
    mat = BCOO.fromdense(X)
    np.testing.assert_array_equal(mat[jnp.array([1, 0, 1])].todense(), X[[1, 0, 1]])
    np.testing.assert_array_equal(mat[:, jnp.array([2, 0])].todense(), X[:, [2, 0]])
    np.testing.assert_array_equal(mat[..., ::-2].todense(), X[..., ::-2])
    np.testing.assert_array_equal([row.todense() for row in mat], X)


@pytest.mark.parametrize("n_batch", [0, 1])
def test_gather_out_of_bounds(n_batch):
    mat, at = BCOO.fromdense(X, n_batch=n_batch), jnp.array([1, 7, -9])

    def lookup(mat, at, **how):
        return sparse.sparsify(lambda x, at: jnp.take(x, at, axis=1, **how))(mat, at)

    def take(**how):
        return lookup(mat, at, **how)

    for how in (dict(mode="clip"), dict(mode="fill", fill_value=0), dict(fill_value=2.5), {}):
        np.testing.assert_array_equal(take(**how).todense(), jnp.take(X, at, axis=1, **how))
        traced = pyjax.jit(lambda at, how=how: lookup(mat, at, **how))(at)
        np.testing.assert_array_equal(traced.todense(), jnp.take(X, at, axis=1, **how))
    inside = sparse.sparsify(lambda x: jnp.take(x, jnp.array([2, 0]), axis=1))(mat)
    np.testing.assert_array_equal(inside.todense(), X[:, [2, 0]])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", "VALID", [(2, 0)]])
def test_convolution(stride, padding):
    x, w = draw((2, 4, 7)), draw((6, 2, 3), 1)
    options = dict(window_strides=(stride,), padding=padding, rhs_dilation=(2,))
    options["feature_group_count"] = 2
    got = sparse.bcoo_conv_general_dilated(
        BCOO.fromdense(x, n_batch=1), BCOO.fromdense(w), **options
    )
    expected = lax.conv_general_dilated(x, w, **options)
    np.testing.assert_allclose(got.todense(), expected, atol=1e-4)


@pytest.mark.parametrize(
    "starts", [(-1, -2), (-4, -5), (-9, -1), (np.int8(-1), np.uint8(200)), (5, 0)]
)
def test_dynamic_slices_from_the_end(starts: tuple[int, int]) -> None:
    dense = np.arange(12, dtype=np.float32).reshape(3, 4)
    mat = sparse.BCOO.fromdense(dense)
    expected = lax.dynamic_slice(dense, starts, (2, 2))
    for run in (lambda f: f, pyjax.jit):
        got = run(lambda *a: sparse.bcoo_dynamic_slice(mat, a, (2, 2)).todense())(*starts)
        np.testing.assert_array_equal(got, expected)
        got = run(sparse.sparsify(lambda m, *a: lax.dynamic_slice(m, a, (2, 2))))(mat, *starts)
        np.testing.assert_array_equal(got.todense(), expected)


def test_sparse_vectors_have_a_product() -> None:
    v = sparse.BCOO.fromdense(np.array([0, 1, 0, 2], np.float32))
    got = v @ v
    assert got.shape == () and got.indices.shape[1:] == (0,)
    assert float(got.todense()) == 5.0


def test_slices_at_starts_of_few_bits() -> None:
    mat = sparse.BCOO.fromdense(np.arange(300, dtype=np.float32))
    got = sparse.bcoo_dynamic_slice(mat, (np.int8(100),), (2,)).todense()
    np.testing.assert_array_equal(got, [100, 101])


BACKWARDS = BCOO(
    (jnp.array([1.0, 2.0, 3.0, 4.0]), jnp.array([[-1, 0], [0, -1], [1, 1], [2, 0]])), shape=(3, 3)
)
FORWARDS = np.array([[0, 0, 2], [0, 3, 0], [5, 0, 0]], np.float32)
V = np.arange(3, dtype=np.float32)


@pytest.mark.parametrize(
    "use, expected",
    [
        (lambda m: m.todense(), FORWARDS),
        (lambda m: m @ V, FORWARDS @ V),
        (lambda m: V @ m, V @ FORWARDS),
        (lambda m: (m @ m).todense(), FORWARDS @ FORWARDS),
        (lambda m: (m * m.sum_duplicates(nse=3)).todense(), FORWARDS**2),
        (lambda m: (m * V).todense(), FORWARDS * V),
        (lambda m: (m + m).todense(), 2 * FORWARDS),
        (lambda m: m.T.todense(), FORWARDS.T),
        (lambda m: m[-1].todense(), FORWARDS[-1]),
        (lambda m: m[1:].todense(), FORWARDS[1:]),
        (lambda m: m.reshape(9).todense(), FORWARDS.reshape(9)),
        (lambda m: m.sum(0).todense(), FORWARDS.sum(0)),
        (lambda m: m.sum_duplicates(nse=3).data, [2, 3, 5]),
        (
            lambda m: sparse.bcoo_concatenate([m, m], dimension=0).todense(),
            np.concatenate([FORWARDS] * 2),
        ),
        (lambda m: sparse.bcoo_rev(m, (0, 1)).todense(), FORWARDS[::-1, ::-1]),
        (
            lambda m: sparse.bcoo_update_layout(m, n_batch=1, on_inefficient=None).todense(),
            FORWARDS,
        ),
        (
            lambda m: sparse.bcoo_update_layout(m, n_dense=1, on_inefficient=None).todense(),
            FORWARDS,
        ),
        (lambda m: sparse.bcoo_extract(m, FORWARDS).todense(), FORWARDS),
    ],
)
@pytest.mark.parametrize("jit", [False, True])
def test_negative_indices_count_from_the_end(use, expected, jit) -> None:
    call = pyjax.jit(use) if jit else use
    np.testing.assert_array_equal(call(BACKWARDS), expected)


def test_indices_before_the_array_are_outside() -> None:
    m = BCOO((jnp.ones(3), jnp.array([[-5, 0], [0, -4], [1, 1]])), shape=(3, 3))
    expected = np.diag([0, 1, 0])
    for same in (m, m.sum_duplicates(), m.T, m.sort_indices(), m.reshape(3, 3)):
        np.testing.assert_array_equal(same.todense(), expected)
    assert m.sum_duplicates().nse == 1


def test_random_places_of_batches_have_the_references_bits() -> None:
    draw = functools.partial(sparse.random_bcoo, pyjax.random.key(0), (2, 3, 4))
    batches = draw(n_batch=1, nse=3).indices
    np.testing.assert_array_equal(batches, [[[0, 0], [0, 3], [2, 1]], [[1, 3], [1, 0], [0, 3]]])
    rows = draw(n_batch=1, n_dense=1, nse=2).indices
    np.testing.assert_array_equal(rows, [[[0], [1]], [[1], [0]]])
    assert sparse.random_bcoo(pyjax.random.key(0), (0, 4), n_batch=1, nse=2).indices.shape[0] == 0
