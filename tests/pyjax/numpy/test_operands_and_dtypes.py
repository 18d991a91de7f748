"""What becomes of unusual operands: 64-bit arrays with x64 off, axes that are arrays, NumPy
exponents, strings beside arrays, ints beyond 64 bits. The facts are those of JAX 0.10.2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
from pyjax import lax

X = np.arange(3, dtype=np.float32)
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)


def wide(dtype: str) -> Any:
    """An array made where 64-bit types are on, used where they are off."""
    with pyjax.enable_x64(True):
        return jnp.arange(3, dtype=dtype)


WIDE: list[tuple[str, Callable[[Any], Any], Any, str]] = [
    # name, function of a 64-bit array, its value on [0, 1, 2], bits of its dtype
    ("add", lambda d: d + d, [0, 2, 4], "64"),
    ("negative", lambda d: -d, [0, -1, -2], "64"),
    ("square", lambda d: d**2, [0, 1, 4], "64"),
    ("set", lambda d: d.at[0].set(1), [1, 1, 2], "64"),
    ("set-by-mask", lambda d: d.at[np.array([True, False, True])].set(1), [1, 1, 1], "64"),
    ("set-by-array", lambda d: d.at[np.array([0, 2])].set(5), [5, 1, 5], "64"),
    ("add-at", lambda d: d.at[0].add(1), [1, 1, 2], "64"),
    ("multiply-at", lambda d: d.at[1].multiply(2), [0, 2, 2], "64"),
    ("zeros_like", jnp.zeros_like, [0, 0, 0], "64"),
    ("lax.full_like", lambda d: lax.full_like(d, 3), [3, 3, 3], "64"),
    ("sort", lambda d: jnp.sort(-d), [-2, -1, 0], "64"),
    ("take", lambda d: jnp.take(d, np.array([2, 1])), [2, 1], "64"),
    ("pad", lambda d: jnp.pad(d, 1), [0, 0, 1, 2, 0], "64"),
    ("sum", jnp.sum, 3, "32"),
    ("method", lambda d: d.sum(), 3, "32"),
    ("prod", lambda d: jnp.prod(d + d), 0, "32"),
    ("max", jnp.max, 2, "32"),
    ("ptp", jnp.ptp, 2, "32"),
    ("cumsum", jnp.cumsum, [0, 1, 3], "32"),
    ("number", lambda d: d + 1, [1, 2, 3], "32"),
    ("jit", lambda d: pyjax.jit(lambda v: v + 1)(d), [1, 2, 3], "32"),
    ("vmap", lambda d: pyjax.vmap(lambda v: v + 1)(d), [1, 2, 3], "32"),
    ("clip", lambda d: jnp.clip(d, 0, 1), [0, 1, 1], "32"),
    ("where", lambda d: jnp.where(np.array([True, False, True]), d, 7), [0, 7, 2], "32"),
]


@pytest.mark.parametrize("kind", ["float", "int"])
@pytest.mark.parametrize(("name", "function", "expected", "bits"), WIDE, ids=[r[0] for r in WIDE])
def test_64_bit_arrays_with_x64_off(
    name: str, function: Callable[[Any], Any], expected: Any, bits: str, kind: str
) -> None:
    out = function(wide(f"{kind}64"))
    assert out.dtype == f"{kind}{bits}"
    assert out.tolist() == expected


def test_64_bit_arrays_of_other_kinds() -> None:
    d, i = wide("float64"), wide("int64")
    assert bool(jnp.any(d)) and not bool(jnp.all(i))
    assert jnp.mean(i).dtype == jnp.var(d).dtype == np.float32
    assert jnp.array(X)[i].tolist() == jnp.take(jnp.array(X), i).tolist() == [0, 1, 2]
    assert jnp.array(X).at[i].set(1.0).tolist() == [1, 1, 1]
    grad = pyjax.grad(lambda v: (v * v).sum())(d)
    assert grad.dtype == np.float64 and grad.tolist() == [0, 2, 4]
    assert (2**i).tolist() == [1, 2, 4]
    with pytest.raises(TypeError, match="same dtypes, got float64, float32"):
        lax.add(d, jnp.array(X))


AXIS_FUNCTIONS = (
    "sum prod max min mean std var median all any ptp nanmean nanstd nanvar nansum count_nonzero "
    "argmax argmin argsort sort cumsum cumprod diff flip average"
).split()


@pytest.mark.parametrize("name", AXIS_FUNCTIONS)
@pytest.mark.parametrize("axis", [np.array(1), np.int64(1), np.array(-1)], ids=repr)
def test_an_axis_is_what_counts_as_an_index(name: str, axis: Any) -> None:
    function = getattr(jnp, name)
    out, expected = function(MATRIX, axis=axis), function(MATRIX, axis=1)
    assert out.aval == expected.aval and out.tolist() == expected.tolist()


def test_axes_of_other_forms() -> None:
    x = jnp.array(MATRIX)
    for axis in (jnp.array(1), (np.array(1),), [1], np.array([1])):
        assert jnp.mean(x, axis=axis).tolist() == [1, 4]
        assert jnp.var(x, axis=axis).shape == (2,)
    assert x.mean(np.array(1)).tolist() == [1, 4]
    assert x.transpose(np.array([1, 0])).shape == (3, 2)
    assert (
        jnp.roll(x, 1, axis=np.array([0, 1])).tolist() == np.roll(MATRIX, (1, 1), (0, 1)).tolist()
    )
    assert jnp.apply_over_axes(jnp.sum, x, np.array([1])).tolist() == [[3], [12]]
    assert pyjax.nn.standardize(x, axis=np.array(1)).shape == (2, 3)
    assert pyjax.nn.glu(jnp.ones((2, 4)), axis=np.array(1)).shape == (2, 2)
    assert pyjax.nn.one_hot(jnp.arange(2), 3, axis=np.array(0)).shape == (3, 2)
    with pytest.raises(TypeError, match="axis must be an integer"):
        jnp.mean(x, axis=1.0)


@pytest.mark.parametrize("base", ["int8", "uint8", "int32", "uint32", "float16", "float32"])
@pytest.mark.parametrize("exponent", [np.int8(2), np.uint8(2), np.int32(2), np.int64(2), 2])
def test_numpy_ints_are_exponents_like_python_ints(base: str, exponent: Any) -> None:
    x = jnp.arange(3).astype(base)
    for out in (x**exponent, jnp.power(x, exponent), pyjax.jit(lambda v: v**exponent)(x)):
        assert out.dtype == base and out.tolist() == [0, 1, 4]


def test_powers_of_scalars_and_negative_powers() -> None:
    assert jnp.power(np.int8(2), np.int32(3)).dtype == np.int8
    assert jnp.power(2, np.int8(3)).aval == jnp.power(2, 3).aval
    assert (jnp.array([True, False]) ** np.int8(2)).dtype == np.int32
    for exponent in (np.int16(-1), -1):
        with pytest.raises(TypeError, match="Integers cannot be raised to negative powers"):
            jnp.arange(3) ** exponent


def test_arrays_beside_values_that_are_no_numbers() -> None:
    x = jnp.array(X)
    for other in ("a", None, b"a", object(), {1: 2}.keys(), range(3), float):
        assert (x == other) is False and (x != other) is True
        assert (other == x) is False and (other != x) is True
    assert "a" not in [x] and x not in [None, "a"]
    assert pyjax.jit(lambda v: v * (v == "a"))(x).tolist() == [0, 0, 0]
    for other in ("a", None):
        with pytest.raises(TypeError, match="'<' not supported between instances"):
            x < other  # noqa: B015  # the comparison raises
        with pytest.raises(TypeError, match="unsupported operand type"):
            x + other
    for sequence in ([0.0, 1.0, 2.0], (0.0,), {}, {1}):
        with pytest.raises(TypeError, match="not supported"):
            x == sequence  # noqa: B015


@pytest.mark.parametrize("value", [2**64, -(2**70), 10**30])
def test_ints_beyond_64_bits(value: int) -> None:
    for dtype in ("float32", "bool", "complex64"):
        expected = np.asarray(value).astype(dtype)
        for out in (
            jnp.array(value, dtype),
            jnp.array([value, 1], dtype)[0],
            jnp.full(2, value, dtype)[1],
            jnp.full_like(jnp.zeros(2, dtype), value)[0],
            lax.full((2,), value, dtype)[0],
            lax.convert_element_type(value, dtype),
        ):
            assert out.dtype == dtype and np.asarray(out) == expected
    for make in (jnp.array, lambda v, d: jnp.full(2, v, d), lax.convert_element_type):
        with pytest.raises(OverflowError, match="too large to convert"):
            make(value, "int32")
    with pytest.raises(OverflowError, match="too large to convert"):
        jnp.array([value])
    assert jnp.full(2, 10**60, "float32").tolist() == [np.inf, np.inf]


@pytest.mark.parametrize(
    "value, dtype, number",
    [
        ([2**32 - 1], None, 2**32 - 1),
        ([2**63, -1], None, 2**63),  # NumPy makes floats of them
        ([[1, 2], [2**70, 0]], None, 2**70),
        ([1.5, 300], "uint8", 300),
        ([2.0, 300.5], "uint8", 300),
        ([-1], "uint8", -1),
        (300, "uint8", 300),
        ([jnp.int32(5), 300], "uint8", 300),
        ([X, [1, 2, 300]], "uint8", 300),
    ],
)
def test_integers_that_a_dtype_has_not_are_refused_with_the_line_and_a_way_out(
    value, dtype, number
):
    with pytest.raises(OverflowError) as info:
        jnp.array(value, dtype)
    message = str(info.value)
    assert f"Python int {number} too large to convert to {dtype or 'int32'}" in message
    assert "jnp.array(value, dtype)" in message and "astype(jnp." in message


@pytest.mark.parametrize("value", [ml_dtypes.int4(2), ml_dtypes.float8_e4m3fn(2)], ids=["i4", "f8"])
def test_an_update_needs_a_common_type(value: Any) -> None:
    x = jnp.array(X)
    for index in (0, np.array([0, 1]), np.array([True, False, True])):
        with pytest.raises(pyjax.dtypes.TypePromotionError, match="no available implicit"):
            x.at[index].set(value)
        with pytest.raises(pyjax.dtypes.TypePromotionError, match="no available implicit"):
            x.at[index].add(value)
    assert jnp.arange(3).astype(value.dtype).at[0].set(value).tolist() == [2, 1, 2]


MIXED = [("float32", "int32"), ("float32", "float16"), ("int32", "uint8"), ("bool", "float32")]
BINARY = "add multiply divide maximum logical_and logical_or logical_xor equal less where".split()


@pytest.mark.parametrize("dtypes", MIXED, ids="-".join)
def test_strict_promotion_of_operands_and_updates(dtypes: tuple[str, str]) -> None:
    x, y = (jnp.arange(3).astype(d) for d in dtypes)
    mask = np.array([True, False, True])
    with pyjax.numpy_dtype_promotion("strict"):
        for name in BINARY:
            function = getattr(jnp, name)
            pair = (mask, x, y) if name == "where" else (x, y)
            with pytest.raises(pyjax.dtypes.TypePromotionError, match="strict"):
                function(*pair)
        for update in (
            lambda: x.at[:].set(y),
            lambda: x.at[0].set(y[0]),
            lambda: x.at[mask].set(y[0]),
            lambda: x.at[np.array([0, 1])].set(y[:2]),
            lambda: x.at[0].add(y[0]),
            lambda: x.at[mask].multiply(y[0]),
            lambda: x.at[:].min(y),
            lambda: pyjax.jit(lambda x, y: x.at[0].set(y[0]))(x, y),
        ):
            with pytest.raises(pyjax.dtypes.TypePromotionError, match="strict"):
                update()
        assert jnp.insert(x, 0, y).dtype == x.dtype  # its values are converted first
    assert x.at[:].max(x).tolist() == x.tolist()


def test_ranks_that_differ() -> None:
    row, matrix = jnp.array(X), jnp.array(MATRIX)
    expected = np.where(X > 1, MATRIX, X)
    with pyjax.numpy_rank_promotion("raise"):
        assert jnp.where(row > 1, matrix, row).tolist() == expected.tolist()
        assert jnp.select([row > 1], [matrix], row).tolist() == expected.tolist()
        assert jnp.nan_to_num(matrix, nan=row).shape == (2, 3)
        for function in (jnp.add, jnp.equal, jnp.logical_or, jnp.hypot, jnp.clip):
            with pytest.raises(ValueError, match="jax_numpy_rank_promotion='raise'"):
                function(matrix, row)


def test_the_smallest_power_of_two_of_e8m0() -> None:
    e8m0 = np.dtype(ml_dtypes.float8_e8m0fnu)
    bits = np.array([1, 0x3FFFFF, 0x400000, 0x400001, 0x800000, 0xBFFFFF, 0xC00000, 0x3F800000])
    values = bits.astype(np.uint32).view(np.float32)
    out = pyjax.jit(lambda x: x.astype(e8m0))(values)
    assert out.tobytes() == values.astype(e8m0).tobytes()
    x = jnp.asarray(np.arange(4, dtype=np.uint8).view(e8m0))
    assert jnp.maximum(x, x).tobytes() == x.tobytes()
    ones, segments = jnp.ones(2, e8m0), np.array([0, 2])
    assert pyjax.ops.segment_max(ones, segments, 3).tolist() == [1, 2.0**-127, 1]
    assert pyjax.ops.segment_min(ones, segments, 3).tolist() == [1, 2.0**127, 1]
