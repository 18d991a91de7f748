"""The operands that calls of the table name: edge values of every dtype, made with NumPy alone.

A call such as `f(a, b)` or `f(m, axis=-1)` names its operands by letter:

    u     vector of all edge values of the dtype      a, b   all pairs of edge values, flattened
    p, r  triples of fewer edge values: f(p, r, o)    o      (third of the triples)
    s     0-d                                         one    shape (1, 1)
    v     vector with ties, no special values         x      sorted vector without ties
    w     vector with NaN, infinities, -0.0, ties     unit   vector in [0, 1], both ends included
    m     (3, 4) with ties                            n      (3, 4) with NaN, infinities and zeros
    t     (2, 3, 4)                                   c      (4, 3)
    e     empty, (0,)                                 e2     empty, (0, 3)
    q     (3, 3), well conditioned                    h      (3, 3), positive definite
    g     (3, 3), singular                            z      (3, 3) zeros
    qq    (2, 3, 3) of q and its relatives            eq     empty, (2, 0, 0)
    i     int32: in and out of bounds, negative       j      int32, in bounds of an axis of 3
    k     bool (3, 4)                                 kv     bool vector as long as v
    ku    bool vector as long as u                    key    a random key

Values of a dtype that cannot hold one are wrapped or dropped. Layer: tests; imports NumPy only, so
that the table runs under the reference and under pyjax.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import ml_dtypes
import numpy as np

DTYPES = {
    name: np.dtype(getattr(ml_dtypes, name, name))
    for name in (
        "bool int8 uint8 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex64 "
        "complex128"
    ).split()
}
X64 = ("int64", "uint64", "float64", "complex128")
# The operands whose dtype is not the one of the case.
FIXED = ("i", "j", "k", "kv", "ku", "key")


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype == DTYPES["bfloat16"]


def is_inexact(dtype: np.dtype) -> bool:
    return is_float(dtype) or dtype.kind == "c"


def _limits(dtype: np.dtype) -> tuple[float, float, float]:
    """Smallest subnormal, smallest normal and largest number."""
    info = ml_dtypes.finfo(dtype)
    return float(info.smallest_subnormal), float(info.tiny), float(info.max)


def _floats(dtype: np.dtype, few: bool) -> list[float]:
    sub, tiny, largest = _limits(dtype)
    some = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.inf, -np.inf, np.nan]
    if few:
        return some[:8] + [np.nan]
    eps = float(ml_dtypes.finfo(dtype).eps)
    return some + [
        -0.5, 1.5, 2.0, -3.0, 7.25, -10.0, 40.0, 100.0, -1e-3, 1.0 + eps,
        tiny, -tiny, sub, -sub, largest, -largest,
    ]  # fmt: skip


def _integers(dtype: np.dtype, few: bool) -> list[int]:
    info = np.iinfo(dtype)
    bits = info.bits
    some = [0, 1, 2, 3, 7, info.min, info.max, bits - 1]
    more = [bits, bits + 1, 64, 100, info.max - 1, 2 ** (bits // 2), 12]
    if info.min < 0:
        some += [-1, -2, -3, -7]
        more += [info.min + 1, -bits, -64, -5]
    return some if few else some + more


def edge_list(dtype: np.dtype, few: bool = False) -> np.ndarray:
    """The edge values of a dtype, without duplicates."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        return np.array(list(dict.fromkeys(_integers(dtype, few))), dtype)
    if dtype.kind == "c":
        part = np.dtype("float32" if dtype == np.complex64 else "float64")
        _, _, largest = _limits(part)
        reals = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
        if not few:
            reals += [0.5, -1.0, 40.0, largest]
        grid = np.array([[complex(x, y) for y in reals] for x in reals])
        kept = grid.ravel() if not few else np.array([0, -1.0, 1j, 2 - 1.5j, complex(np.nan, 1)])
        return kept.astype(dtype)
    with np.errstate(all="ignore"):
        return np.array(_floats(dtype, few)).astype(dtype)


def _pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    values = edge_list(dtype)
    if dtype.kind == "c":
        values = np.concatenate([edge_list(dtype, few=True), values[::9]])
    left, right = np.meshgrid(values, values, indexing="ij")
    return left.ravel(), right.ravel()


def _triples(dtype: np.dtype) -> tuple[np.ndarray, ...]:
    values = edge_list(dtype, few=True)
    return tuple(x.ravel() for x in np.meshgrid(values, values, values, indexing="ij"))


def _plain(values: list, shape: tuple[int, ...]) -> Callable[[np.dtype], np.ndarray]:
    def make(dtype: np.dtype) -> np.ndarray:
        array = np.array(values, np.float64)
        if dtype.kind == "b":
            return (array > 0).reshape(shape)
        if dtype.kind in "iu":
            array = np.round(np.nan_to_num(array, posinf=100, neginf=-100))
            if dtype.kind == "u":
                array = np.abs(array)
        if dtype.kind == "c":
            turned = np.roll(np.nan_to_num(array, nan=0.5, posinf=1.0, neginf=-1.0), 1)
            array = array + 1j * turned
        return array.astype(dtype).reshape(shape)

    return make


_T = [3, -1, 2, 0, 5, 2, -4, 1, 3, 6, -2, 7, 1, 4, -3, 2, 8, -5, 0, 2, -6, 9, 3, 1]
_N = [1, np.nan, -2, np.inf, 0, -0.0, 3, -np.inf, np.nan, 2, 2, -1]
_Q = [4, 1, -2, 1, 5, 3, 2, -1, 6]

_MAKERS: dict[str, Callable[[np.dtype], np.ndarray]] = {
    "u": edge_list,
    "a": lambda d: _pairs(d)[0],
    "b": lambda d: _pairs(d)[1],
    "p": lambda d: _triples(d)[0],
    "r": lambda d: _triples(d)[1],
    "o": lambda d: _triples(d)[2],
    "s": _plain([2.5], ()),
    "one": _plain([-1.5], (1, 1)),
    "v": _plain([3, -1, 2.5, 3, 0, -1, 7], (7,)),
    "x": _plain([-5, -1, 0.5, 2, 4, 8, 9], (7,)),
    "w": _plain([1, np.nan, 0.0, -0.0, np.inf, -np.inf, 1, -2.5, np.nan], (9,)),
    "unit": _plain([0, 0.25, 0.5, 1, 0.75], (5,)),
    "m": _plain([2, -1, 2, 0.5, 3, 3, -4, 1, 0, 6, 2, -4], (3, 4)),
    "n": _plain(_N, (3, 4)),
    "t": _plain(_T, (2, 3, 4)),
    "c": _plain([1, 0, -1, 2, 1, 3, -2, 0.5, 4, 0, 2, -3], (4, 3)),
    "e": _plain([], (0,)),
    "e2": _plain([], (0, 3)),
    "q": _plain(_Q, (3, 3)),
    "h": _plain([4, 1, -1, 1, 5, 2, -1, 2, 6], (3, 3)),
    "g": _plain([1, 2, 3, 2, 4, 6, 0, 1, 1], (3, 3)),
    "z": _plain([0] * 9, (3, 3)),
    "qq": _plain(_Q + [6, 2, 0, 1, 4, -1, 0, 2, 7], (2, 3, 3)),
    "eq": _plain([], (2, 0, 0)),
}
_FIXED: dict[str, Callable[[np.dtype], np.ndarray]] = {
    "i": lambda d: np.array([0, 2, -1, -3, 3, -4, 5, 100, -100, 2147483647, -2147483648], np.int32),
    "j": lambda d: np.array([2, 0, -1, 1, 2], np.int32),
    "k": lambda d: np.array([1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0], bool).reshape(3, 4),
    "kv": lambda d: np.array([1, 0, 1, 1, 0, 0, 1], bool),
    "ku": lambda d: np.arange(len(edge_list(d))) % 3 == 0,
    "key": lambda d: np.array([0, 17], np.uint32),
}
NAMES = (*_MAKERS, *_FIXED)


@cache
def operand(name: str, dtype: str) -> np.ndarray:
    """The operand of this name; `key` gives the words of the key."""
    array = {**_MAKERS, **_FIXED}[name](DTYPES[dtype])
    array.setflags(write=False)
    return array


def direction(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A tangent or cotangent: powers of two of both signs, so that products with it are exact."""
    size = int(np.prod(shape))
    array = np.resize(np.array([1.0, -2.0, 0.5, 4.0, -0.25]), size).astype(np.float64)
    if dtype.kind == "c":
        array = array * (1 + 0.5j)
    return array.astype(dtype).reshape(shape)
