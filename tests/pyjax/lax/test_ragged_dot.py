"""ragged_dot_general: every kind of ragged dimension, sizes for each batch, groups that are left
out. The oracle multiplies each group by itself.
"""

from __future__ import annotations

import numpy as np
import pytest

from pyjax import grad, jit, lax, vmap
from pyjax import numpy as jnp

RNG = np.random.RandomState(0)
SIZES = np.array([2, 0, 3], np.int32)
OTHER_SIZES = np.array([[2, 0, 3], [1, 4, 1]], np.int32)


def draw(*shape):
    return RNG.randn(*shape).astype(np.float32)


def numbers(contract, batch, ragged, groups):
    return lax.RaggedDotDimensionNumbers((contract, batch), ragged, groups)


def rows_by_matrices(lhs, rhs, sizes, offset=0):
    """[m, k] by [matrices, k, n]."""
    out = np.zeros((lhs.shape[0], rhs.shape[2]), np.float32)
    ends = np.cumsum(sizes)
    for group, (start, end) in enumerate(zip(ends - sizes, ends)):
        if 0 <= group - offset < len(rhs):
            out[start:end] = lhs[start:end] @ rhs[group - offset]
    return out


def contracted_by_groups(lhs, rhs, sizes, offset=0):
    """[k, m] by [k, n], for each group of k."""
    out = np.zeros((len(sizes), lhs.shape[1], rhs.shape[1]), np.float32)
    ends = np.cumsum(sizes)
    for i in range(len(sizes) - offset):
        part = slice(ends[i + offset] - sizes[i + offset], ends[i + offset])
        out[i] = lhs[part].T @ rhs[part]
    return out


FREE = numbers(((1,), (1,)), ((), ()), (0,), (0,))
FREE_BATCHED = numbers(((2,), (2,)), ((0,), (1,)), (1,), (0,))
FREE_AFTER_FREE = numbers(((2,), (1,)), ((), ()), (1,), (0,))
CONTRACTED = numbers(((0,), (0,)), ((), ()), (0,), ())
CONTRACTED_BATCHED = numbers(((1,), (1,)), ((0,), (0,)), (1,), ())
TWO_RAGGED = numbers(((1,), (1,)), ((), ()), (0, 1), (0,))
TAKEN = numbers(((1,), (1,)), ((), ()), (0,), (1,))
GROUPED = numbers(((0,), (0,)), ((), ()), (0,), (0,))
BATCH = numbers(((2,), (1,)), ((0,), (0,)), (0,), ())
M = draw(6, 4)
MATRICES = draw(3, 4, 5)
BATCHED = draw(2, 6, 4)
BATCHED_MATRICES = draw(3, 2, 4, 5)
TALL, BATCHED_TALL = draw(6, 3), draw(2, 6, 3)

CASES = {
    "rows": (FREE, M, MATRICES, SIZES, rows_by_matrices(M, MATRICES, SIZES)),
    "rows of batches": (
        FREE_BATCHED,
        BATCHED,
        BATCHED_MATRICES,
        SIZES,
        [rows_by_matrices(BATCHED[i], BATCHED_MATRICES[:, i], SIZES) for i in range(2)],
    ),
    "rows of batches with sizes of their own": (
        FREE_BATCHED,
        BATCHED,
        BATCHED_MATRICES,
        OTHER_SIZES,
        [rows_by_matrices(BATCHED[i], BATCHED_MATRICES[:, i], OTHER_SIZES[i]) for i in range(2)],
    ),
    "rows after a free dimension with sizes of its own": (
        FREE_AFTER_FREE,
        BATCHED,
        MATRICES,
        OTHER_SIZES,
        [rows_by_matrices(BATCHED[i], MATRICES, OTHER_SIZES[i]) for i in range(2)],
    ),
    "contracted": (CONTRACTED, M, TALL, SIZES, contracted_by_groups(M, TALL, SIZES)),
    "contracted, in batches with sizes of their own": (
        CONTRACTED_BATCHED,
        BATCHED,
        BATCHED_TALL,
        OTHER_SIZES,
        np.stack(
            [contracted_by_groups(BATCHED[i], BATCHED_TALL[i], OTHER_SIZES[i]) for i in range(2)],
            axis=1,
        ),
    ),
    "batches": (BATCH, BATCHED, MATRICES[:2], np.array([1, 1]), BATCHED @ MATRICES[:2]),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    dims, lhs, rhs, sizes, want = CASES[name]
    got = jit(lambda *args: lax.ragged_dot_general(*args, dims))(lhs, rhs, sizes)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
@pytest.mark.parametrize("shape", [(), (1,)], ids=["scalar", "vector"])
def test_group_offset(offset, shape):
    """The matrices of some groups; rows of others are zeros, groups after the last are empty."""
    at = np.full(shape, offset, np.int32)
    some = MATRICES[:2]
    got = jit(lambda at: lax.ragged_dot(M, some, SIZES, group_offset=at))(at)
    np.testing.assert_allclose(got, rows_by_matrices(M, some, SIZES, offset), rtol=1e-5, atol=1e-5)
    got = lax.ragged_dot_general(M, TALL, SIZES, CONTRACTED, group_offset=at)
    want = contracted_by_groups(M, TALL, SIZES, offset)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_mapped_sizes_and_offsets():
    got = vmap(lambda sizes, at: lax.ragged_dot(M, MATRICES, sizes, group_offset=at))(
        OTHER_SIZES, np.array([0, 1], np.int32)
    )
    want = [rows_by_matrices(M, MATRICES, sizes, at) for at, sizes in enumerate(OTHER_SIZES)]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_rows_of_no_group_are_not_looked_at():
    lhs, rhs = M.copy(), TALL.copy()
    lhs[5], rhs[5] = np.inf, np.nan
    got = lax.ragged_dot_general(lhs, rhs, SIZES, CONTRACTED)
    want = contracted_by_groups(lhs, rhs, SIZES)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_gradients_with_an_offset():
    """The product is linear in each operand: a gradient is the coefficient."""

    def total(lhs, rhs):
        return jnp.sum(lax.ragged_dot(lhs, rhs, SIZES, group_offset=np.int32(1)) ** 2)

    by_rows, by_matrices = grad(total, (0, 1))(M, MATRICES[:2])
    out = rows_by_matrices(M, MATRICES[:2], SIZES, 1)
    np.testing.assert_allclose(by_matrices[0], 0 * MATRICES[0], atol=1e-6)
    np.testing.assert_allclose(by_matrices[1], 2 * M.T @ out, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(by_rows, 2 * out @ MATRICES[1].T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: lax.ragged_dot(M, MATRICES, SIZES, group_offset=1.5), "one integer"),
        (lambda: lax.ragged_dot(M, MATRICES, SIZES, group_offset=SIZES), "one integer"),
        (lambda: lax.ragged_dot_general(M, MATRICES, SIZES[0], FREE), "rank of group_sizes"),
        (lambda: lax.ragged_dot_general(M, MATRICES, OTHER_SIZES, FREE), "expected group_sizes"),
        (lambda: lax.ragged_dot_general(M, MATRICES[:2], SIZES, FREE), "dimension size to be 3"),
        (lambda: lax.ragged_dot_general(M, MATRICES, SIZES, TWO_RAGGED), "one lhs ragged"),
        (lambda: lax.ragged_dot_general(M, MATRICES, SIZES, TAKEN), "is not free"),
        (lambda: lax.ragged_dot_general(M, TALL, SIZES, GROUPED), "has exactly one group"),
    ],
)
def test_errors(call, text):
    with pytest.raises(TypeError, match=text):
        call()
