"""Eager calls: operators, ufuncs, reductions, rows and NumPy arguments meet one dispatch, and it
does little."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax.core import dtypes
from pyjax.native.c_api import is_usable
from tests.sampling import sampled

X = jnp.arange(12.0).reshape(3, 4)
N = np.arange(4, dtype=np.float32)
PLUS_ONE = pyjax.jit(lambda x: x + 1)
TREE = pyjax.jit(lambda tree: tree["a"] + tree["b"][0])


def frames(call: Callable[[], Any]) -> int:
    """How many Python functions a call runs through at least: one of them may be the one that finds
    optimised code ready."""
    entered = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal entered
        entered += event == "call" and frame.f_code is not call.__code__

    counts = []
    for _ in range(5):
        entered = 0
        sys.setprofile(count)
        try:
            call()
        finally:
            sys.setprofile(None)
        counts.append(entered)
    return min(counts)


# Where calls with settings have an entry; by Python each setting is looked at.
NATIVE = is_usable() and pyjax.config.jax_native_dispatch


# Frames that the call may take; Python before 3.12 counts comprehensions, too.
@pytest.mark.parametrize(
    "call, most",
    [
        (lambda: X + X, 9),
        (lambda: jnp.add(X, X), 11),
        (lambda: X + 1.0, 17),
        (lambda: X + N, 23),
        (lambda: N * X, 23),
        (lambda: jnp.add(X, N), 24),
        (lambda: jnp.maximum(N, X), 24),
        (lambda: X > N, 23),
        (lambda: PLUS_ONE(X), 8),
        (lambda: PLUS_ONE(N), 21),
        (lambda: TREE({"a": X, "b": [N]}), 40),
        (lambda: X[0], 12),
        (lambda: X[-1], 12),
        (lambda: X.sum(), 12 if NATIVE else 34),
        (lambda: jnp.max(X, axis=1), 12 if NATIVE else 40),
        (lambda: jnp.sum(N), 25 if NATIVE else 50),
        (lambda: X.at[0].set(1.0), 30),
        (lambda: X.at[1:, 2].add(X[1:, 0]), 40),
    ],
    ids=lambda case: str(case) if isinstance(case, int) else "",
)
def test_frames(call: Callable[[], Any], most: int) -> None:
    assert frames(call) <= most


OPERANDS = [
    np.arange(4, dtype=np.int64),
    np.arange(4, dtype=np.uint64),
    np.arange(4, dtype=np.float64) / 3,
    np.arange(4, dtype=np.float16),
    np.arange(4, dtype=np.complex128) * 1j,
    np.arange(4) % 2 == 0,
    np.arange(8, dtype=np.float32)[::-2],
    np.arange(4, dtype=">f4"),
    np.arange(4, dtype=dtypes.bfloat16),
    np.asfortranarray(np.arange(8, dtype=np.int16).reshape(2, 4)),
    np.zeros((0, 4), np.float32),
    np.float64(0.1),
    np.int64(3),
    np.asarray(7, np.int8),
]


@pytest.mark.parametrize("value", OPERANDS, ids=lambda v: f"{v.dtype}{v.shape}")
@pytest.mark.parametrize("f", [jnp.add, jnp.subtract, operator.mul, operator.eq])
def test_numpy_operands_are_arrays(f: Callable[..., Any], value: Any) -> None:
    """The dispatch for NumPy values computes what arrays of them do: bits, dtypes, weak types."""
    row = X[1]
    as_array = jnp.asarray(np.asarray(value))
    for ours, expected in [
        (f(row, value), f(row, as_array)),
        (f(value, row), f(as_array, row)),
        (pyjax.jit(f)(row, value), f(row, as_array)),
    ]:
        assert ours.aval == expected.aval and ours.tobytes() == expected.tobytes()
        assert ours.weak_type == expected.weak_type


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    "value",
    [np.arange(6, dtype=np.int8).reshape(2, 3), np.float32([[1.5, np.nan], [0, -2]]), True, 3],
)
def test_reductions_are_those_of_jit(name: str, axis: Any, keepdims: bool, value: Any) -> None:
    if axis is not None and np.ndim(value) == 0:
        with pytest.raises(ValueError, match="out of bounds"):
            getattr(jnp, name)(value, axis=axis)
        return
    f = getattr(jnp, name)
    eager = f(value, axis=axis, keepdims=keepdims)
    staged = pyjax.jit(lambda x: f(x, axis=axis, keepdims=keepdims))(value)
    assert eager.aval == staged.aval and eager.tobytes() == staged.tobytes()
    with pyjax.disable_jit():
        plain = f(value, axis=axis, keepdims=keepdims)
    assert plain.aval == eager.aval and plain.tobytes() == eager.tobytes()


@pytest.mark.parametrize("axis", [True, 1.0, np.int64(1), (0, 1), (1,), "x"])
def test_axes_that_are_no_plain_int_keep_their_meaning(axis: Any) -> None:
    jnp.sum(X, axis=1)  # a program for 1 is there
    if isinstance(axis, (float, str)):
        with pytest.raises(TypeError):
            jnp.sum(X, axis=axis)
        return
    expected = np.asarray(X).sum(axis=axis if isinstance(axis, tuple) else int(axis))
    np.testing.assert_array_equal(jnp.sum(X, axis=axis), expected)


def test_an_argument_is_copied() -> None:
    value = np.ones(3, np.float32)
    same = pyjax.jit(lambda x: x)
    results = []
    for step in range(3):
        results.append(same(value))
        value += 1
        assert [r[0].item() for r in results] == [1.0, 2.0, 3.0][: step + 1]


def test_rows() -> None:
    many = jnp.arange(1000)
    for i in (0, -1, 255, 256, -256, 999, -1000, 5000, -5000):
        clamped = min(max(i + 1000 if i < 0 else i, 0), 999)
        assert many[i].item() == clamped
    assert jnp.arange(300)[-1].item() == 299
    pyjax.clear_caches()
    assert many[1].item() == 1


@pytest.mark.parametrize(
    "value",
    [np.array(["a"]), np.array([None]), np.array([1], "M8[s]"), np.zeros(1, [("a", np.float32)])],
    ids=lambda v: str(v.dtype),
)
def test_values_that_are_no_numbers(value: np.ndarray) -> None:
    with pytest.raises(TypeError, match="add requires numeric arrays"):
        jnp.add(X, value)
    with pytest.raises(TypeError, match=r"argument x of .* is not a valid array type"):
        PLUS_ONE(value)


def test_python_integers_that_do_not_fit() -> None:
    with pytest.raises(OverflowError, match="too large to convert to int32"):
        jnp.add(X, 2**40)
    with pytest.raises(OverflowError, match="too large to convert to int32"):
        PLUS_ONE(2**40)


INDICES = [
    0,
    -1,
    7,
    -7,
    (1, 2),
    (slice(None), 0),
    (slice(2, None, -1), slice(0, 4, 2)),
    (None, 1),
    (..., -1),
    slice(5, 9),
    jnp.array([0, 2, 2]),
    (jnp.array([0, 1]), jnp.array([3, -1])),
    jnp.array([[9], [-9]]),
]


@sampled("number", range(len(INDICES)), every=3)
@pytest.mark.parametrize("method", ["set", "add", "multiply", "min", "subtract"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_updates_are_those_of_jit(number: int, method: str, dtype: str) -> None:
    """Eager updates go a short way where nothing is lost, and always mean the same."""
    index = INDICES[number]
    x = (jnp.arange(12).reshape(3, 4) % 5).astype(dtype)
    if dtype == "bool" and method in ("add", "multiply", "subtract"):
        with pytest.raises(TypeError, match="does not accept dtype bool"):
            getattr(x.at[jnp.array([0])], method)(True)
        return

    def update(x: Any, values: Any) -> Any:
        return getattr(x.at[index], method)(values)

    numbers = (True,) if dtype == "bool" else (2, True)
    for values in (*numbers, np.asarray(1, x.dtype), x[0, 1]):
        eager, staged = update(x, values), pyjax.jit(update)(x, values)
        assert eager.aval == staged.aval and eager.tobytes() == staged.tobytes()
        with pyjax.disable_jit():
            plain = update(x, values)
        assert plain.aval == eager.aval and plain.tobytes() == eager.tobytes()


def test_lossy_updates_warn_each_time() -> None:
    for _ in range(2):
        with pytest.warns(FutureWarning, match="cannot safely cast"):
            jnp.arange(3).at[0].set(0.5)
        with pytest.warns(FutureWarning, match="cannot safely cast") as seen:
            jnp.arange(3).at[jnp.array([0])].set(np.float32(0.5))
        assert [w.filename for w in seen] == [__file__]


@pytest.mark.parametrize(
    "call",
    [
        lambda: jnp.zeros(3, np.float64),
        lambda: jnp.ones((2, 2), dtype="int64"),
        lambda: X.sum(dtype=np.dtype("float64")),
        lambda: jnp.cumsum(X, dtype=jnp.complex128),
        lambda: X.astype("float64"),
        lambda: jnp.stack([X, X], dtype=np.float64),
    ],
)
def test_dtypes_that_are_not_had_warn_each_time(call: Callable[[], Any]) -> None:
    for _ in range(4):
        with pytest.warns(UserWarning, match="Explicitly requested dtype .*64|complex128"):
            assert call().dtype.itemsize < 16


def test_values_of_an_update_must_fit() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=r"\(3,\) and requested shape \(4,\)"):
            X.at[0].set(np.ones(3, np.float32))
        with pytest.raises(IndexError, match="Too many indices"):
            X.at[0, 0, 0].set(1.0)


@pytest.mark.parametrize("value", [0xDEADBEEF, 2**40, -(2**35), 2**63])
@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint8", "float32", "bfloat16", "bool"])
def test_a_wide_integer_takes_the_dtype_that_is_asked_for(value: int, dtype: str) -> None:
    """As C++ converts 64-bit integers; only an int that becomes the default integer must fit it."""
    zeros = jnp.zeros(2, dtype)
    expected = np.asarray(value).astype(zeros.dtype)
    for result in (
        jnp.full(2, value, dtype)[0],
        jnp.full_like(zeros, value)[1],
        pyjax.lax.convert_element_type(value, zeros.dtype),
        pyjax.jit(lambda: jnp.full(2, value, dtype))()[0],
    ):
        assert result.dtype == zeros.dtype and np.asarray(result) == expected
    with pytest.raises(OverflowError, match="too large to convert to int32"):
        jnp.full(2, value)


MOVES = {
    "x[i]": lambda x: x[-2],
    "x[a:b]": lambda x: x[1:3],
    "x[:, ::-2]": lambda x: x[:, ::-2],
    "x.T": lambda x: x.T,
    "reshape": lambda x: x.T.reshape(-1),
    "flip": lambda x: jnp.flip(x),
    "roll": lambda x: jnp.roll(x, 1, 0),
    "stack": lambda x: jnp.stack([x, x], 1),
    "concatenate": lambda x: jnp.concatenate([x, x[:1]]),
    "pad": lambda x: jnp.pad(x, 1),
    "tile": lambda x: jnp.tile(x, (2, 3)),
    "broadcast_to": lambda x: jnp.broadcast_to(x, (2, *x.shape)),
    "diagonal": lambda x: jnp.diagonal(x),
    "at[i].set": lambda x: x.at[-1].set(x[0]),
    "at[i, j].set": lambda x: x.at[1, 2].set(7.0),
    "at[a:b].set": lambda x: x.at[1:3, 1].set(7.0),
}


@pytest.mark.parametrize("name", MOVES)
def test_new_shapes_are_moved_without_compiling(name, monkeypatch):
    move = MOVES[name]
    jitted = pyjax.jit(lambda x: move(x * 1) * 1)  # compiled: it does not only move data
    move(jnp.arange(12.0).reshape(3, 4))
    client = type(pyjax.devices()[0].client)
    compiled = []
    compile_module = client.compile_source

    def compile_counted(self, source, options):
        compiled.append(source.name)
        return compile_module(self, source, options)

    for rows in (5, 6):
        x = jnp.arange(rows * 11.0).reshape(rows, 11)
        with monkeypatch.context() as patched:
            patched.setattr(client, "compile_source", compile_counted)
            moved = move(x)
        np.testing.assert_array_equal(moved, jitted(x))
    assert not compiled
