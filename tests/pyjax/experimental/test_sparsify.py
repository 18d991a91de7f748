"""Functions of arrays applied to sparse ones, compared with the same functions of dense ones."""

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax
from pyjax.experimental import sparse
from pyjax.experimental.sparse import BCOO, BCSR, sparsify

X = np.array([[1.0, 0, 2, 0], [0, 0, 3, 0], [0, -4, 0, 0]], np.float32)
Y = np.array([[0.0, 1, 5, 0], [0, 0, 7, 0], [2, 0, 0, 0]], np.float32)
V = np.array([1.0, 2, 3, 4], np.float32)
# Twice the same place, in no order, with an element outside.
INDICES = np.array([[2, 1], [0, 2], [0, 0], [1, 2], [0, 2], [3, 4]])
SCATTERED = BCOO((np.array([-4, 1.5, 1, 3, 0.5, 9], np.float32), INDICES), shape=X.shape)


@pyjax.custom_jvp
def ruled(x):
    return x * 2


ruled.defjvp(lambda primals, tangents: (ruled(*primals), tangents[0] * 2))

FUNCTIONS = {
    "abs": jnp.abs,
    "sin": jnp.sin,
    "tanh": jnp.tanh,
    "expm1": jnp.expm1,
    "sign": jnp.sign,
    "square": jnp.square,
    "cube": lambda x: x**3,
    "floor": jnp.floor,
    "cast": lambda x: x.astype(jnp.int32),
    "complex": lambda x: x.astype(jnp.complex64).imag,
    "neg": lambda x: -x,
    "transpose": lambda x: x.T,
    "sum": lambda x: x.sum(),
    "sum_0": lambda x: x.sum(0),
    "sum_keep": lambda x: x.sum(1, keepdims=True),
    "mean": jnp.mean,
    "reshape": lambda x: x.reshape(2, 6),
    "ravel": jnp.ravel,
    "flip": lambda x: x[::-1],
    "row": lambda x: x[1],
    "element": lambda x: x[0, 2],
    "part": lambda x: x[1:, ::2],
    "rows": lambda x: x[jnp.array([2, 0])],
    "new_axis": lambda x: x[:, None],
    "stack": lambda x: jnp.stack([x, x], 1),
    "concatenate": lambda x: jnp.concatenate([x, x], 1),
    "tile": lambda x: jnp.tile(x, (1, 2)),
    "split": lambda x: jnp.split(x, 2, axis=1)[1],
    "twice": lambda x: x + x,
    "difference": lambda x: x - 2 * x,
    "product": lambda x: x * x,
    "with_sparse": lambda x: x * Y + x,
    "scaled": lambda x: 2 * x / 3,
    "columns": lambda x: x * V,
    "plus_dense": lambda x: Y - x,
    "matvec": lambda x: x @ V,
    "vecmat": lambda x: np.ones(3, np.float32) @ x,
    "gram": lambda x: x @ x.T,
    "einsum": lambda x: jnp.einsum("ij,kj->ik", x, Y),
    "jit": pyjax.jit(lambda x: jnp.sin(x) @ V),
    "checkpoint": pyjax.checkpoint(lambda x: jnp.sin(x)),
    "custom_jvp": ruled,
    "vmap": lambda x: pyjax.vmap(jnp.sum)(x),
    "cond": lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x.T.T, x),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1].T.T), (0, x))[
        1
    ],
    "fori": lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x),
    "scan": lambda x: lax.scan(lambda c, s: (c * s, c * 2), x, jnp.arange(3.0))[1],
    "todense": lambda x: jnp.cos(sparse.todense(x)),
}


@pytest.mark.parametrize("matrix", ["unique", "scattered"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, matrix):
    f = FUNCTIONS[name]
    mat = BCOO.fromdense(X) if matrix == "unique" else SCATTERED
    expected = f(X) if name != "vmap" else X.sum(1)
    for use_tracer in (False, True):
        got = sparsify(f, use_tracer=use_tracer)(mat)
        dense = got.todense() if isinstance(got, BCOO) else got
        assert got.shape == np.shape(expected) and got.dtype == expected.dtype
        np.testing.assert_allclose(dense, expected, atol=1e-5)


def test_compiled_and_differentiated():
    mat = BCOO.fromdense(X)
    f = sparsify(lambda x: (jnp.sin(x) @ V).sum())
    np.testing.assert_allclose(pyjax.jit(f)(mat), (np.sin(X) @ V).sum(), rtol=1e-5)
    found = sparsify(pyjax.grad(lambda x: (jnp.sin(x) @ V).sum()))
    with pytest.raises(NotImplementedError, match="cos"):
        found(mat)
    np.testing.assert_allclose(
        sparse.grad(f)(mat).todense(), np.where(X != 0, np.cos(X) * V, 0), atol=1e-5
    )


def test_scan_over_batches():
    mat = BCOO.fromdense(X, n_batch=1)
    got = sparsify(lambda x: lax.scan(lambda c, row: (c + row.sum(), row * 2), 0.0, x))(mat)
    np.testing.assert_allclose(got[0], X.sum())
    np.testing.assert_allclose(got[1].todense(), 2 * X)
    with pytest.raises(NotImplementedError, match="no batches"):
        sparsify(lambda x: lax.scan(lambda c, r: (c, r), 0.0, x))(BCOO.fromdense(X))


def test_values_can_be_looked_at_with_a_tracer():
    def f(x, s):
        return x * 2 if s > 0 else x

    np.testing.assert_array_equal(
        sparsify(f, use_tracer=True)(BCOO.fromdense(X), 1.0).todense(), 2 * X
    )
    with pytest.raises(pyjax.errors.TracerBoolConversionError):
        sparsify(f)(BCOO.fromdense(X), 1.0)


def test_pytrees_in_and_out():
    out = sparsify(lambda d, *, s: {"a": d["x"] * s, "b": 1.0})({"x": BCOO.fromdense(X)}, s=2.0)
    np.testing.assert_array_equal(out["a"].todense(), 2 * X)
    assert float(out["b"]) == 1.0


def test_rows():
    mat = BCSR.fromdense(X)
    np.testing.assert_allclose(sparsify(jnp.sin)(mat).todense(), np.sin(X), atol=1e-6)
    np.testing.assert_allclose(sparsify(lambda m, v: m @ v)(mat, V), X @ V)
    with pytest.raises(NotImplementedError, match="to_bcoo"):
        sparsify(lambda m: m * 2)(mat)


DENSE = [
    ("cos", lambda m: sparsify(jnp.cos)(m), "cos is not implemented because it would"),
    ("max", lambda m: sparsify(jnp.max)(m), "reduce_max is not implemented"),
    ("eq", lambda m: m == m, "eq is not implemented because"),
    ("gt", lambda m: m > 0, "gt is not implemented because"),
    ("plus_one", lambda m: m + 1, "Addition between"),
    ("minus_one", lambda m: m - 1, "Subtraction between"),
    ("divided", lambda m: 2 / m, "Division by a sparse array"),
    ("power", lambda m: m**0, "non-positive exponent 0"),
    ("joined", lambda m: sparsify(lambda x: jnp.concatenate([x, Y]))(m), "Concatenation"),
]


@pytest.mark.parametrize(("f", "said"), [d[1:] for d in DENSE], ids=[d[0] for d in DENSE])
def test_what_would_be_dense(f, said):
    with pytest.raises(NotImplementedError, match=said):
        f(BCOO.fromdense(X))


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="COO"):
        sparsify(jnp.sin)(sparse.COO.fromdense(X))
    with pytest.raises(TypeError):
        BCOO.fromdense(X) + "x"
    with pytest.raises(TypeError, match="different kinds"):
        choose = lambda x: lax.cond(x.sum() > 0, lambda x: x, lambda x: sparse.todense(x), x)
        sparsify(choose)(BCOO.fromdense(X))


@pytest.mark.parametrize("matrix", ["unique", "scattered"])
def test_operators(matrix):
    mat = BCOO.fromdense(X) if matrix == "unique" else SCATTERED
    other = BCOO.fromdense(Y)
    for got, expected in (
        (mat + other, X + Y),
        (mat - other, X - Y),
        (mat * other, X * Y),
        (mat @ other.T, X @ Y.T),
        (Y + mat, X + Y),
        (Y @ mat.T, Y @ X.T),
        (jnp.asarray(Y) - mat, Y - X),
        (V * mat, V * X),
        (mat**2, X**2),
        (abs(-mat), abs(X)),
        (+mat, X),
        (mat[0, 1:], X[0, 1:]),
    ):
        dense = got.todense() if isinstance(got, BCOO) else got
        np.testing.assert_allclose(dense, expected, atol=1e-5)
    assert len(mat) == 3 and mat.dtype == np.float32
    with pytest.raises(TypeError, match="unhashable"):
        hash(mat)


@pytest.mark.parametrize(
    "strict", [dict(numpy_dtype_promotion="strict"), dict(numpy_rank_promotion="raise")]
)
def test_strict_modes(strict):
    ((name, value),) = strict.items()
    with getattr(pyjax, name)(value):
        mat = BCOO.fromdense(X)
        assert (mat @ V).tolist() == (X @ V).tolist()
        for got, expected in (
            (mat + mat.T.T, 2 * X),
            (mat * Y, X * Y),
            (mat.sum(0), X.sum(0)),
            (mat.reshape(6, 2), X.reshape(6, 2)),
            (mat[1:], X[1:]),
            (mat.sum_duplicates(), X),
            (mat.update_layout(n_batch=1, n_dense=1, on_inefficient=None), X),
            (BCSR.from_bcoo(mat), X),
        ):
            np.testing.assert_allclose(got.todense(), expected)


def test_wide_types():
    with pyjax.enable_x64(True):
        mat = BCOO.fromdense(X.astype(np.float64), index_dtype=np.int64)
        assert mat.dtype == np.float64 and mat.indices.dtype == np.int64
        assert (mat @ V).dtype == np.float64
        np.testing.assert_allclose((mat @ mat.T).todense(), X.astype(float) @ X.T.astype(float))
        assert sparse.random_bcoo(pyjax.random.key(0), (4,)).dtype == np.float64
