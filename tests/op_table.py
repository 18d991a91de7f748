"""The row class of the operator tables, and what all table tests share. One row per primitive.

Rows live in op_table_elementwise.py, op_table_shape.py, op_table_linalg.py ... (tables named OPS);
tests/pyjax/lax/test_op_values.py and test_op_gradients.py run every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

F16, BF16, F32, F64 = (
    np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
)
C64, C128 = np.dtype(np.complex64), np.dtype(np.complex128)
I8, I32, U8, U32 = (np.dtype(t) for t in (np.int8, np.int32, np.uint8, np.uint32))
BOOL = np.dtype(np.bool_)

FLOAT = (F32,)
INEXACT = (F32, C64)
INTEGER = (I32, U8)
REAL = (F32, I32)
NUMBER = (F32, I32, C64)

# Relative tolerance by dtype; absolute tolerance is the same number times the magnitude of the
# result.
DEFAULT_TOLERANCE = {F16: 2e-3, BF16: 1.6e-2, F32: 3e-6, F64: 1e-13, C64: 5e-6, C128: 1e-13}


class Domain:
    """Draws operands of one kind."""

    def __init__(
        self, name: str, draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
    ) -> None:
        self.name = name
        self._draw = draw

    def draw(self, rng: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        if dtype == BOOL:
            return rng.integers(0, 2, shape).astype(bool)
        values = np.asarray(self._draw(rng, shape))
        if dtype.kind == "c":
            values = values + 1j * np.asarray(self._draw(rng, shape))
        if dtype.kind in "iu":
            values = np.round(values)
            if dtype.kind == "u":
                values = np.abs(values)
        return values.astype(dtype)


def uniform(low: float, high: float) -> Domain:
    return Domain(f"uniform({low},{high})", lambda rng, shape: rng.uniform(low, high, shape))


def integers(low: int, high: int) -> Domain:
    return Domain(f"integers({low},{high})", lambda rng, shape: rng.integers(low, high, shape))


def fixed(*values: Any) -> Domain:
    """Always these numbers, repeated to the shape."""
    return Domain("fixed", lambda rng, shape: np.resize(np.asarray(values), shape))


def distinct(scale: float = 1.0) -> Domain:
    """No two elements are equal or close: for sort, argmax and other ops with ties."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        n = int(np.prod(shape))
        return (rng.permutation(n).reshape(shape) - n / 2 + 0.25) * scale

    return Domain("distinct", draw)


def spd() -> Domain:
    """Symmetric positive definite matrices (last two dimensions equal)."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        a = rng.normal(size=shape)
        return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])

    return Domain("spd", draw)


normal = Domain("normal", lambda rng, shape: rng.normal(size=shape))
positive = uniform(0.1, 5.0)
unit = uniform(-0.95, 0.95)


@dataclass(frozen=True)
class Op:
    """One operator under test.

    Attributes:
      primitive: the name of the primitive that this row covers.
      fn: the public lax function, closed over its static parameters; arrays in, an array or a
        sequence out.
      oracle: the same with NumPy or SciPy on the same operands (computed wider where that
        helps), same structure.
      shapes: operand shapes. A list of tuples: several cases.
      dtypes: each is tried for all operands at once, unless `operand_dtypes` names one dtype
        per operand (None: the dtype tried).
      domain: one Domain, or one per operand.
      special: values put into one more one-dimensional float32 case (unary operators only).
      grad_order: 0: not differentiable; 1: gradients are compared with central differences; 2: also
        gradients of gradients.
      grad_args: which operands are differentiated (None: all of inexact dtype).
      modes: "fwd" and "rev" gradients checked; drop one with a reason in `note`.
      tol: tolerance by dtype, over DEFAULT_TOLERANCE.  grad_tol: relative tolerance of gradient
        checks.
      vmap: False leaves out the batching check, with the reason in `note`.
      name: test id, the primitive's name if not given.
    """

    primitive: str
    fn: Callable[..., Any]
    oracle: Callable[..., Any]
    shapes: Sequence[tuple[tuple[int, ...], ...]] = (((2, 3),),)
    dtypes: Sequence[np.dtype] = FLOAT
    operand_dtypes: Sequence[np.dtype | None] | None = None
    domain: Domain | Sequence[Domain] = normal
    special: Sequence[float] = ()
    grad_order: int = 0
    grad_args: Sequence[int] | None = None
    modes: Sequence[str] = ("fwd", "rev")
    tol: dict[np.dtype, float] | float | None = None
    grad_tol: float = 1e-6
    vmap: bool = True
    note: str = ""
    name: str = ""

    @property
    def label(self) -> str:
        return self.name or self.primitive

    def draw(
        self, dtype: np.dtype, shapes: Sequence[tuple[int, ...]], seed: int = 0
    ) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        domains = [self.domain] * len(shapes) if isinstance(self.domain, Domain) else self.domain
        kinds = self.operand_dtypes or [None] * len(shapes)
        return [
            domain.draw(rng, dtype if kind is None else np.dtype(kind), tuple(shape))
            for domain, kind, shape in zip(domains, kinds, shapes, strict=True)
        ]

    def tolerance(self, dtype: np.dtype) -> float:
        if isinstance(self.tol, dict) and dtype in self.tol:
            return self.tol[dtype]
        if isinstance(self.tol, float):
            return self.tol
        return DEFAULT_TOLERANCE.get(dtype, 0.0)


def case_id(value: Any) -> str:
    """Test ids such as sin-float32-2x3."""
    if isinstance(value, Op):
        return value.label
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, tuple):
        return "_".join("x".join(map(str, s)) or "scalar" for s in value)
    return getattr(value, "__name__", str(value))


def cases(ops: Sequence[Op]) -> list[tuple[Op, np.dtype, tuple[tuple[int, ...], ...]]]:
    """All (op, dtype, shapes) of a table."""
    return [(op, dtype, shapes) for op in ops for dtype in op.dtypes for shapes in op.shapes]
