"""The row class of the edge-value table, and what a row expands to.

A row is one public function with calls of it:

    rows("numpy", "sin cos", ["f(u)", "f(s)"], FLOATS + COMPLEXES, ulp=4, grad="u")

`f` in a call is the function; the letters are operands (operands.py); `jnp`, `lax`, `jax` (the
framework itself), `np`, `inf` and `nan` may be used too. One call with one dtype is a case; its
key, `numpy.sin f(u) float32`, names it in the recorded results and in known_differences.py.

How close a result must be to the recorded one:

- `ulp`: units in the last place, element by element. 0, the default, is bit for bit (any NaN
  equals any other NaN; the signs of zeros count).
- `norm`: for sums, products and decompositions: the error may be this many units in the last place
  of the largest finite element.
- `elementwise`: result elements belong to operand elements, so that those that a flushed subnormal
  spoils are left out of the comparison.

Everything also counts: structure, dtype, weak type, shape, and the class of an exception.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.edge_values.operands import FIXED, NAMES

BOOL = ("bool",)
INTS = ("int32", "uint8", "int8", "uint32", "int64", "uint64")
FLOATS = ("float32", "float16", "bfloat16", "float64")
COMPLEXES = ("complex64", "complex128")
# The dtypes of most rows: one of each kind, and the smaller float.
FEW_REALS = ("float32", "int32", "float16", "uint8")
FEW_NUMBERS = (*FEW_REALS, "complex64")
FEW = (*FEW_NUMBERS, "bool")
REALS = FLOATS + INTS
NUMBERS = FLOATS + INTS + COMPLEXES
ALL = FLOATS + INTS + COMPLEXES + BOOL
# The second only for elementwise functions.
GRADIENT_DTYPES = ("float32", "complex64")
# What `make test` runs; the others are for `make test-slow`.
FAST_DTYPES = ("float32", "int32")


@dataclass(frozen=True)
class Row:
    """One public function; the module docstring explains the columns."""

    name: str
    calls: tuple[str, ...]
    dtypes: tuple[str, ...]
    ulp: float = 0
    norm: float = 0
    grad: str = ""
    grad_ulp: float = 0
    grad_norm: float = 0
    elementwise: bool = False
    slow: bool = False


def rows(
    module: str,
    names: str,
    calls: Sequence[str],
    dtypes: Sequence[str] = ("float32",),
    *,
    grad: str = "",
    ulp: float = 0,
    norm: float = 0,
    grad_ulp: float | None = None,
    grad_norm: float | None = None,
    elementwise: bool = False,
    slow: bool = False,
) -> list[Row]:
    """Rows that share their calls; gradients are as exact as values unless said otherwise.

    The module of `grad` and the like is "".
    """
    return [
        Row(
            f"{module}.{name}".lstrip("."),
            tuple(calls),
            tuple(dtypes),
            ulp,
            norm,
            grad,
            ulp if grad_ulp is None else grad_ulp,
            norm if grad_norm is None else grad_norm,
            elementwise,
            slow,
        )
        for name in names.split()
    ]


@dataclass(frozen=True)
class Case:
    """One call of one function with operands of one dtype."""

    row: Row
    call: str
    dtype: str

    @property
    def key(self) -> str:
        return f"{self.row.name} {self.call} {self.dtype}"

    @property
    def operands(self) -> tuple[str, ...]:
        return operands_of(self.call)

    @property
    def differentiated(self) -> tuple[str, ...]:
        """The operands with respect to which the case is differentiated, if any."""
        if self.dtype not in (GRADIENT_DTYPES if self.row.elementwise else GRADIENT_DTYPES[:1]):
            return ()
        return self.differentiable

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The operands with respect to which the call is differentiated, in some dtype."""
        wanted = self.row.grad.split()
        return tuple(n for n in self.operands if n in wanted and n not in FIXED)

    @property
    def fast(self) -> bool:
        return self.dtype in FAST_DTYPES and not self.row.slow


@cache
def operands_of(call: str) -> tuple[str, ...]:
    """Names of operands in a call, in order of their first use; bound names are none."""
    tree = ast.parse(call, mode="eval")
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    used = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]
    return tuple(dict.fromkeys(n for n in used if n in NAMES and n not in bound))


def cases(table: Iterable[Row]) -> Iterator[Case]:
    """The cases of a table. A call without operands is one case, whatever the dtypes."""
    for row in table:
        for call in row.calls:
            varied = any(n not in FIXED for n in operands_of(call)) or "dtype" in call
            for dtype in row.dtypes if varied else row.dtypes[:1]:
                yield Case(row, call, dtype)


ONE = ("f(u)",)
TWO = ("f(a, b)",)
# The operands that may be differentiated, for tables of many functions.
GRAD = "m v s x t one q c n w u h qq p r o a b unit k"


def tabulated(
    module: str, calls: dict[str, list[str]], dtypes: Sequence[str], **columns: Any
) -> list[Row]:
    """Rows of functions that each have calls of their own."""
    return [row for name in calls for row in rows(module, name, calls[name], dtypes, **columns)]


# Shapes, once for each function.
ONE_SHAPES = ("f(s)", "f(e2)", "f(2)", "f(True)", "f([1, 2])")
TWO_SHAPES = ("f(s, v)", "f(e2, one)", "f(m, t)", "f(s, 2)", "f(2, 3)")


def one_operand(
    module: str, names: str, dtypes: tuple[str, ...], ulp: float = 0, grad: bool = True, **rest
) -> list[Row]:
    """Functions of one array: all edge values of the dtypes, and shapes for the first dtype."""
    return [
        *rows(
            module, names, ONE, dtypes, ulp=ulp, grad="u" if grad else "", elementwise=True, **rest
        ),
        *rows(module, names, ONE_SHAPES, dtypes[:1], ulp=ulp, **rest),
    ]


def two_operands(
    module: str, names: str, dtypes: tuple[str, ...], ulp: float = 0, grad: bool = True, **rest
) -> list[Row]:
    """Functions of two arrays: all pairs of edge values, and shapes for the first dtype."""
    return [
        *rows(
            module,
            names,
            TWO,
            dtypes,
            ulp=ulp,
            grad="a b" if grad else "",
            elementwise=True,
            **rest,
        ),
        *rows(module, names, TWO_SHAPES, dtypes[:1], ulp=ulp, **rest),
    ]
