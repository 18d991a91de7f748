"""Indexing and .at against NumPy: random index expressions, modes out of bounds, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pyjax
import pyjax.numpy as jnp
from pyjax.errors import NonConcreteBooleanIndexError


@st.composite
def shapes_and_indices(draw: Any) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape and a valid index expression for it: ints, slices, None, ..., arrays, masks."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    index: list[Any] = []
    dim, ellipsis = 0, False
    array_shape = draw(st.sampled_from([(), (2,), (2, 3), (1,)]))
    masked = False
    while dim < len(shape) and draw(st.integers(0, 9)):
        n = shape[dim]
        kind = draw(st.sampled_from(["int", "slice", "none", "ellipsis", "array", "mask", "full"]))
        if kind == "int":
            index.append(draw(st.integers(-n, n - 1)))
            dim += 1
        elif kind in ("slice", "full"):
            bound = st.none() | st.integers(-n - 1, n + 1)
            step = draw(st.sampled_from([None, 1, 2, -1, -2, 3]))
            index.append(slice(draw(bound), draw(bound), step) if kind == "slice" else slice(None))
            dim += 1
        elif kind == "none":
            index.append(None)
        elif kind == "ellipsis" and not ellipsis:
            ellipsis = True
            index.append(Ellipsis)
            dim += draw(st.integers(0, len(shape) - dim))
        elif kind == "array" and not masked:
            size = draw(st.sampled_from([array_shape, array_shape[-1:], ()]))
            flat = draw(st.lists(st.integers(-n, n - 1), min_size=6, max_size=6))
            index.append(np.resize(np.array(flat, np.int32), size))
            dim += 1
        elif kind == "mask" and not masked and not any(isinstance(i, np.ndarray) for i in index):
            masked = True
            index.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))))
            dim += 1
    if ellipsis:  # so that the ellipsis stands for the axes skipped above
        index.extend([slice(None)] * (len(shape) - dim))
    return shape, tuple(index)


def as_jnp(index: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index arrays as pyjax arrays; masks stay concrete."""
    return tuple(
        jnp.asarray(i) if isinstance(i, np.ndarray) and i.dtype != bool else i for i in index
    )


@settings(max_examples=120, deadline=None)
@given(shapes_and_indices())
def test_reads_like_numpy(case: Any) -> None:
    shape, index = case
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    want = x[index]
    np.testing.assert_array_equal(np.asarray(jnp.asarray(x)[index]), want)
    np.testing.assert_array_equal(np.asarray(jnp.asarray(x)[as_jnp(index)]), want)


@settings(max_examples=40, deadline=None)
@given(shapes_and_indices())
def test_reads_like_numpy_under_jit(case: Any) -> None:
    shape, index = case
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(np.asarray(pyjax.jit(lambda a: a[index])(x)), x[index])


@settings(max_examples=60, deadline=None)
@given(shapes_and_indices(), st.sampled_from(["set", "add", "multiply", "min", "max"]))
def test_updates_like_numpy(case: Any, kind: str) -> None:
    shape, index = case
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    want = x.copy()
    ufunc = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
    if kind == "set":
        want[index] = 2.5
    else:
        ufunc[kind].at(want, index, np.float32(2.5))
    got = getattr(jnp.asarray(x).at[as_jnp(index)], kind)(2.5)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(shapes_and_indices())
def test_adds_arrays_of_values(case: Any) -> None:
    shape, index = case
    x = np.ones(shape, np.float32)
    values = np.arange(x[index].size, dtype=np.float32).reshape(x[index].shape)
    want = x.copy()
    np.add.at(want, index, values)
    np.testing.assert_allclose(np.asarray(jnp.asarray(x).at[as_jnp(index)].add(values)), want)


X = np.arange(6, dtype=np.float32).reshape(2, 3)

SEPARATED = [  # an ellipsis that stands for no axis still separates index arrays
    np.s_[:, np.array([0, 1, 1, 0]), ..., 0],
    np.s_[:, np.array([0, 1]), ..., :],
    np.s_[..., np.array([0, 1]), 0],
    np.s_[0, ..., np.array([0, 1])],
]


@pytest.mark.parametrize("index", SEPARATED, ids=range(len(SEPARATED)))
def test_ellipsis_between_index_arrays(index: Any) -> None:
    x = np.arange(30, dtype=np.float32).reshape(5, 2, 3)
    np.testing.assert_array_equal(np.asarray(jnp.asarray(x)[index]), x[index])


OUT_OF_BOUNDS = [  # index, mode, value read
    (9, None, X[1]),
    (-9, None, X[0]),
    (9, "clip", X[1]),
    (9, "fill", np.full(3, np.nan)),
    (np.array([1, 9]), None, X[[1, 1]]),
    (np.array([1, 9]), "wrap", X[[1, 1]]),
    (np.array([0, 3]), "wrap", X[[0, 1]]),
    (np.array([0, -3]), "wrap", X[[0, 1]]),
    (np.array([1, 9]), "clip", X[[1, 1]]),
]


@pytest.mark.parametrize("index, mode, want", OUT_OF_BOUNDS)
def test_out_of_bounds_reads(index: Any, mode: Any, want: Any) -> None:
    x = jnp.asarray(X)
    np.testing.assert_array_equal(np.asarray(x.at[index].get(mode=mode)), want)
    read = pyjax.jit(lambda a, i: a.at[i].get(mode=mode))
    np.testing.assert_array_equal(np.asarray(read(x, jnp.asarray(index))), want)


def test_out_of_bounds_writes_are_dropped() -> None:
    x = jnp.asarray(X)
    for index in (9, jnp.array([9]), jnp.array([-9])):
        np.testing.assert_array_equal(np.asarray(x.at[index].set(7)), X)
    np.testing.assert_array_equal(np.asarray(x.at[9].set(7, mode="clip"))[1], [7, 7, 7])
    ignored = x.at[-1].set(7, wrap_negative_indices=False)
    np.testing.assert_array_equal(np.asarray(ignored), X)


def test_traced_index_does_not_compile_per_value() -> None:
    read = pyjax.jit(lambda a, i: a[i, 1])
    assert [float(read(X, i)) for i in (0, 1, -1)] == [1.0, 4.0, 4.0]


def test_update_with_traced_mask() -> None:
    relu = pyjax.jit(lambda a: a.at[a > 2].set(0).at[a < 1].add(10))
    want = np.where(X > 2, 0, X)
    np.testing.assert_array_equal(np.asarray(relu(X)), np.where(X < 1, want + 10, want))


def test_lossy_update_warns() -> None:
    with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
        out = jnp.arange(3).at[0].set(1.5)
    assert out.dtype == jnp.int32


def test_gradients_flow_through_reads_and_writes() -> None:
    index = jnp.array([0, 2, 0])
    x = jnp.arange(3.0)
    read = pyjax.grad(lambda v: (v[index] * jnp.array([1.0, 10.0, 100.0])).sum())(x)
    np.testing.assert_array_equal(np.asarray(read), [101.0, 0.0, 10.0])
    written = pyjax.grad(lambda v: (x.at[index].add(v) ** 2).sum())(jnp.ones(3))
    np.testing.assert_array_equal(np.asarray(written), [4.0, 6.0, 4.0])
    kept = pyjax.grad(lambda v: v.at[1].set(0.0).sum())(x)
    np.testing.assert_array_equal(np.asarray(kept), [1.0, 0.0, 1.0])


def test_vmap_over_index() -> None:
    picked = pyjax.vmap(lambda row, i: row[i])(jnp.asarray(X), jnp.array([2, 0]))
    np.testing.assert_array_equal(np.asarray(picked), [2.0, 3.0])


ERRORS: list[tuple[Any, type[Exception], str]] = [
    ([0, 1], TypeError, r"(?s)non-tuple sequence.*jnp\.array"),
    (1.5, TypeError, "integer or boolean type, got indexer with type float"),
    ("a", TypeError, "string indexing"),
    ((0, 0, 0), IndexError, "Too many indices: array is 2-dimensional, but 3 were indexed"),
    ((Ellipsis, Ellipsis), IndexError, "ellips"),
    (np.array([True, False, True]), IndexError, "boolean index did not match"),
    (slice(0, 1.5), TypeError, "slice indices must be integers"),
    (jnp.arange(2.0), TypeError, "integer or boolean type"),
]


@pytest.mark.parametrize("index, kind, message", ERRORS, ids=lambda v: str(v)[:20])
def test_index_errors(index: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        jnp.asarray(X)[index]


def test_traced_mask_error_says_what_to_do() -> None:
    with pytest.raises(NonConcreteBooleanIndexError, match=r"jnp\.where"):
        pyjax.jit(lambda a: a[a > 0])(X)


def test_traced_slice_error_says_what_to_do() -> None:
    with pytest.raises(IndexError, match="dynamic_slice"):
        pyjax.jit(lambda a, n: a[:n])(X, 1)


def test_update_shape_error_names_both_shapes() -> None:
    with pytest.raises(ValueError, match=r"\(4,\) and requested shape \(3,\)"):
        jnp.asarray(X).at[0].set(jnp.ones(4))


def test_item_assignment_error() -> None:
    x = jnp.asarray(X)
    with pytest.raises(TypeError, match=r"x\.at\["):
        x[0] = 1


@pytest.mark.parametrize("op", ["set", "add", "multiply", "min", "max", "divide"])
@pytest.mark.parametrize("index", [0, slice(0, 2), np.arange(3) > 0, np.array([1, 2]), 10])
@pytest.mark.parametrize("jitted", [False, True])
def test_updates_refuse_integers_that_the_default_one_does_not_hold(
    op: str, index: Any, jitted: bool
) -> None:
    run = pyjax.jit if jitted else lambda f: f
    for dtype in ("int8", "int32", "float32", "bool"):
        x = jnp.ones(3, dtype)
        for value in (1 << 31, (-1 << 31) - 1, 1 << 40):
            with pytest.raises(OverflowError, match=f"Python int {value} too large"):
                run(lambda x, value=value: getattr(x.at[index], op)(value))(x)


@pytest.mark.parametrize(
    "dtype, value, expected",
    [
        ("int8", 300, 44),
        ("int32", (1 << 31) - 1, (1 << 31) - 1),
        ("int32", -1 << 31, -1 << 31),
        ("uint32", (1 << 32) - 1, (1 << 32) - 1),
        ("uint32", -1, (1 << 32) - 1),
        ("uint8", (1 << 31) - 1, 255),
    ],
)
def test_updates_take_integers_that_fit(dtype: str, value: int, expected: int) -> None:
    assert jnp.zeros(3, dtype).at[0].set(value).tolist() == [expected, 0, 0]


def test_updates_take_wide_integers_with_64_bits() -> None:
    with pyjax.enable_x64(True):
        assert jnp.zeros(1, "int64").at[0].set(1 << 40).tolist() == [1 << 40]
        assert jnp.zeros(1, "uint64").at[0].set(1 << 63).tolist() == [1 << 63]
        with pytest.raises(OverflowError, match="too large to convert to int64"):
            jnp.zeros(1, "int64").at[0].set(1 << 63)


@pytest.mark.parametrize("number", [1 << 31, (-1 << 31) - 1, 1 << 70])
def test_indices_that_no_array_holds_are_errors(number: int) -> None:
    """They were clamped, as they are in programs, where checkify finds them; as an element of an
    index array they would be another number."""
    for read in (
        lambda x: x[number],
        lambda x: x[:, number],
        lambda x: x[jnp.array([0]), number],
        lambda x: x.at[number].set(1.0),
        lambda x: x.at[0, number].get(mode="fill"),
    ):
        with pytest.raises(OverflowError, match=f"Python int {number} too large to convert to"):
            read(jnp.ones((3, 4)))
    assert jnp.arange(5.0)[(1 << 31) - 1] == 4
    with pyjax.enable_x64(True):
        assert jnp.arange(5.0)[1 << 40] == 4


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("size", [100, 300])
def test_indices_of_fewer_bits_than_the_size_has(dtype: str, size: int) -> None:
    """They are counted and wrapped in a type that holds the size, too."""
    x = np.arange(2.0 * size).reshape(size, 2)
    index = np.array([0, 99, 5, -1] if dtype == "int8" else [0, 99, 5, 200], dtype)
    known = index if dtype == "int8" or size > 200 else index[:3]
    wide = known.astype(np.int32)
    np.testing.assert_array_equal(jnp.take(x, known, axis=0), x[wide])
    column = known[:, None]
    want = np.take_along_axis(x, wide[:, None], 0)
    np.testing.assert_array_equal(jnp.take_along_axis(x, column, 0), want)
    want = np.take(x, index.astype(np.int32), axis=0, mode="wrap")
    np.testing.assert_array_equal(jnp.take(x, index, axis=0, mode="wrap"), want)
    for shift in index:
        want = np.roll(x, int(shift), axis=0)
        np.testing.assert_array_equal(pyjax.jit(lambda x, n: jnp.roll(x, n, 0))(x, shift), want)
    sizes = (size, 3)
    for got, want in zip(
        jnp.unravel_index(jnp.asarray(abs(known)), sizes), np.unravel_index(abs(wide), sizes)
    ):
        np.testing.assert_array_equal(got, want)
    pair = abs(known), abs(known)
    want = np.ravel_multi_index((abs(wide), abs(wide)), (size, size))
    for mode in ("raise", "clip", "wrap"):
        np.testing.assert_array_equal(jnp.ravel_multi_index(pair, (size, size), mode), want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("size", [1, 7, 300])
def test_any_index_is_wrapped(dtype: str, size: int) -> None:
    """Those beyond 2**31, too, which were clamped first."""
    x = np.arange(size)
    extremes = np.iinfo(dtype)
    with pyjax.enable_x64(True):
        index = np.array([extremes.max, extremes.max - 1, extremes.min, 0, 8, 100], dtype)
        want = [int(i) % size for i in index]
        for given in (index, jnp.asarray(index)):
            got = pyjax.jit(lambda x, i: x.at[i].get(mode="wrap"))(x, given)
            np.testing.assert_array_equal(got, x[want])
            np.testing.assert_array_equal(jnp.asarray(x).at[given].get(mode="wrap"), x[want])
            counted = np.zeros(size, int)
            np.add.at(counted, want, 1)
            zeros = jnp.zeros(size, int)
            np.testing.assert_array_equal(zeros.at[given].add(1, mode="wrap"), counted)
            ones = zeros.at[given].apply(lambda v: v + 1, mode="wrap")
            np.testing.assert_array_equal(ones != 0, counted != 0)
        for i in index:
            got = jnp.asarray(x).at[int(i) % 2**63].get(mode="wrap")
            assert int(got) == int(i) % 2**63 % size
