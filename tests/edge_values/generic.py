"""Operands at which functions are smooth, for second derivatives: the letters of operands.py.

Shapes are those of operands.py, but for the letters of edge values, which have fewer elements.
Numbers are in general position: no ties, no zeros, none near a whole or half number, so that no
kink lies within a step of a difference quotient. Numbers of both signs and magnitudes below and
above one reach the domain of each function; outside it, derivatives are not finite, and agree if
they are equally so.

A case that uses an operand that no function is smooth at (a singular or empty matrix) has no
second derivative here.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tests.edge_values.operands import DTYPES, FIXED, operand

_SIGNED = [0.37, 1.43, -0.62, 2.81, -1.89]
_POSITIVE = [0.31, 0.83, 1.64, 3.27]
_M = [2.12, -1.31, 1.87, 0.44, 3.38, 2.76, -4.23, 1.16, 0.29, 6.07, 2.41, -3.71]
_N = [1.21, 0.68, -2.17, 2.93, 0.23, -0.39, 3.14, -1.76, 0.91, 2.28, 1.83, -1.12]
_C = [1.07, 0.34, -1.21, 2.09, 0.81, 3.13, -2.18, 0.63, 4.11, 0.19, 2.22, -3.06]
_T = [
    3.11, -1.19, 2.07, 0.26, 5.13, 1.88, -4.31, 0.93, 2.71, 6.22, -2.36, 7.41,
    1.37, 4.18, -3.29, 2.24, 8.12, -5.07, 0.42, 1.63, -6.17, 9.21, 3.43, 0.72,
]  # fmt: skip
_Q = [4.12, 1.07, -2.21, 0.93, 5.18, 2.94, 2.13, -1.08, 6.11]
_Q2 = [6.07, 2.11, 0.13, 0.92, 4.19, -1.06, 0.17, 2.08, 7.14]
_H = [4.13, 1.07, -0.92, 1.07, 5.11, 2.06, -0.92, 2.06, 6.17]


def _grid(position: int, axes: list[list[float]]) -> list[float]:
    return list(np.meshgrid(*axes, indexing="ij")[position].ravel())


def _shifted(values: list[float], by: float) -> list[float]:
    return [value + by for value in values]


_PAIRS = [_SIGNED, _shifted(_SIGNED, 0.11)]
_TRIPLES = [_POSITIVE, _shifted(_POSITIVE, 0.12), _shifted(_POSITIVE, 0.21)]

_VALUES: dict[str, tuple[list[float], tuple[int, ...]]] = {
    "u": ([0.31, -0.73, 1.38, 2.64, -1.82, 5.17, 0.84, -0.16], (8,)),
    "a": (_grid(0, _PAIRS), (25,)),
    "b": (_grid(1, _PAIRS), (25,)),
    "p": (_grid(0, _TRIPLES), (64,)),
    "r": (_grid(1, _TRIPLES), (64,)),
    "o": (_grid(2, _TRIPLES), (64,)),
    "s": ([2.31], ()),
    "one": ([-1.43], (1, 1)),
    "v": ([2.93, -1.12, 2.41, 3.27, 0.36, -0.84, 6.71], (7,)),
    "x": ([-4.76, -1.17, 0.62, 2.13, 4.31, 7.88, 9.24], (7,)),
    "w": ([1.18, 2.26, 0.43, -0.61, 3.37, -3.12, 0.88, -2.34, 1.71], (9,)),
    "unit": ([0.13, 0.27, 0.56, 0.91, 0.74], (5,)),
    "m": (_M, (3, 4)),
    "n": (_N, (3, 4)),
    "t": (_T, (2, 3, 4)),
    "c": (_C, (4, 3)),
    "q": (_Q, (3, 3)),
    "h": (_H, (3, 3)),
    "qq": (_Q + _Q2, (2, 3, 3)),
}
NAMES = (*_VALUES, *FIXED)


def has_generic_operands(names: tuple[str, ...]) -> bool:
    """Whether a call that uses these operands can be made at a generic point."""
    return all(name in NAMES for name in names)


@cache
def generic(name: str, dtype: str) -> np.ndarray:
    """The operand of this name in general position."""
    if name in FIXED:
        fitting = {"ku": lambda: np.arange(len(_VALUES["u"][0])) % 3 == 0}
        return fitting.get(name, lambda: operand(name, dtype))()
    values, shape = _VALUES[name]
    array = np.array(values)
    if DTYPES[dtype].kind == "c":
        array = array + 1j * np.roll(array, 1)
    array = array.astype(DTYPES[dtype]).reshape(shape)
    array.setflags(write=False)
    return array


def towards(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A direction to differentiate along: numbers of modulus below one, of both signs."""
    size = int(np.prod(shape))
    array = np.cos(1.0 + 2.3 * np.arange(size))
    if dtype.kind == "c":
        array = (array + 1j * np.sin(0.4 + 1.7 * np.arange(size))) / 2
    return array.astype(dtype).reshape(shape)
