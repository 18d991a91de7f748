"""ds(start, size) as an index: of arrays, of updates, of references."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
from pyjax import numpy as jnp
from pyjax.core.dynamic_slices import Slice

X = jnp.arange(10.0)
TABLE = X.reshape(2, 5)


@pytest.mark.parametrize(
    "start, first", ((0, 0), (3, 3), (7, 7), (8, 7), (12, 7), (-1, 7), (-5, 5))
)
def test_read(start: int, first: int) -> None:
    wanted = [float(i) for i in range(first, first + 3)]
    assert X[pyjax.ds(start, 3)].tolist() == wanted
    traced = pyjax.jit(lambda i: (X[pyjax.ds(i, 3)], pyjax.new_ref(X)[pyjax.ds(i, 3)]))(start)
    assert [x.tolist() for x in traced] == [wanted, wanted]
    assert pyjax.new_ref(X)[pyjax.ds(start, 3)].tolist() == wanted


def test_beside_other_indices() -> None:
    def f(i):
        part = pyjax.ds(i, 2)
        rows = jnp.array([1, 0])
        mask = np.array([False, True])
        return (
            TABLE[:, part],
            TABLE[1, part],
            TABLE[rows, part],
            TABLE[..., part],
            TABLE[mask, part],
        )

    t = np.asarray(TABLE)
    for found, wanted in zip(
        pyjax.jit(f)(2), (t[:, 2:4], t[1, 2:4], t[::-1, 2:4], t[:, 2:4], t[1:, 2:4])
    ):
        np.testing.assert_array_equal(found, wanted)
    both = pyjax.jit(lambda i: TABLE[pyjax.ds(i, 1), pyjax.ds(i, 2, 2)])(1)
    np.testing.assert_array_equal(both, t[1:2, 1:4:2])


def test_updates() -> None:
    x = np.asarray(X)

    def f(i):
        part = pyjax.ds(i, 3)
        at = X.at[part]
        return at.set(-1), at.add(X[:3]), at.apply(jnp.square), at.multiply(2.0), at.get()

    wanted = [x.copy() for _ in range(4)]
    wanted[0][4:7] = -1
    wanted[1][4:7] += x[:3]
    wanted[2][4:7] **= 2
    wanted[3][4:7] *= 2
    found = pyjax.jit(f)(4)
    for a, b in zip(found, [*wanted, x[4:7]]):
        np.testing.assert_array_equal(a, b)
    for outside in (8, -11):
        np.testing.assert_array_equal(pyjax.jit(f)(outside)[0], x)
    ref = pyjax.new_ref(X)
    ref[pyjax.ds(4, 3)] = -jnp.ones(3)
    np.testing.assert_array_equal(ref[...], wanted[0])


def test_derivatives() -> None:
    grad = pyjax.jit(pyjax.grad(lambda x, i: (x[pyjax.ds(i, 2)] ** 2).sum()))(X, 3)
    assert grad.tolist() == [0, 0, 0, 6, 8, 0, 0, 0, 0, 0]
    mapped = pyjax.vmap(lambda i: X[pyjax.ds(i, 2)])(jnp.array([1, 5]))
    assert mapped.tolist() == [[1, 2], [5, 6]]


def test_objects() -> None:
    assert pyjax.ds(None) == slice(None) and pyjax.ds(4) == Slice(0, 4, 1) == Slice(0, 4)
    assert Slice.from_slice(slice(1, 8, 3), 6) == Slice(1, 2, 3)
    assert not pyjax.ds(1, 2).is_dynamic_start
    leaves, tree = pyjax.tree.flatten(pyjax.ds(1, 2, 3))
    assert leaves == [] and pyjax.tree.unflatten(tree, leaves) == Slice(1, 2, 3)
    assert pyjax.jit(lambda i: X[pyjax.tree.map(lambda j: j + 1, pyjax.ds(i, 1))])(2).tolist() == [
        3
    ]
    for make, error, message in (
        (lambda: X[pyjax.ds(0, 11)], IndexError, "reaches over 11 elements"),
        (lambda: X[pyjax.ds(0, -1)], ValueError, "size -1"),
        (lambda: X[pyjax.ds(0, 2, 0)], ValueError, "stride 0"),
        (lambda: X[0, pyjax.ds(0, 2)], IndexError, "Too many indices"),
        (lambda: pyjax.jit(lambda n: X[pyjax.ds(0, n)])(2), TypeError, "the size is traced"),
        (lambda: pyjax.new_ref(X)[pyjax.ds(0, 11)], IndexError, "beyond a dimension of 10"),
        (lambda: Slice.from_slice(slice(None, None, -1), 3), ValueError, "goes forward"),
        (
            lambda: pyjax.jit(lambda i: pyjax.new_ref(TABLE)[0, pyjax.ds(i, 2)])(1),
            NotImplementedError,
            "one of several indices",
        ),
    ):
        with pytest.raises(error, match=message):
            make()
