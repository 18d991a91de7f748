"""Type promotion: the lattice of dtypes with weak (Python-scalar) types, and `result_type`.

The lattice is stated by its covering edges; the promotion of some dtypes is their least upper
bound.
Layer: core.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from pyjax._config import options
from pyjax.core.dtype_classes import (
    ALL_DTYPES,
    BOOL,
    COMPLEX,
    FLOATS,
    LOW_FLOATS,
    PYTHON_SCALARS,
    SIGNED,
    UNSIGNED,
    as_numpy_dtype,
    canonicalize_dtype,
    is_weakly_typed,
    issubdtype,
)
from pyjax.core.dtype_classes import dtype as dtype_of
from pyjax.core.errors import TypePromotionError, new_error
from pyjax.core.extended_dtypes import is_extended

Node = Any


class Weak(enum.Enum):
    """Weak types: where Python scalars stand in the lattice. (int == np.dtype(int64) holds, so the
    Python types themselves cannot be nodes beside dtypes.)"""

    INT = "int*"
    FLOAT = "float*"
    COMPLEX = "complex*"

    __hash__ = object.__hash__


_d = np.dtype
_U2, _U4, _U8, _U16, _U32, _U64 = UNSIGNED
_S2, _S4, _S8, _S16, _S32, _S64 = SIGNED
_BF16, _F16, _F32, _F64 = (
    _d(ml_dtypes.bfloat16),
    _d(np.float16),
    _d(np.float32),
    _d(np.float64),
)
_C64, _C128 = COMPLEX
_STANDARD_EDGES: dict[Node, tuple[Node, ...]] = {
    BOOL: (Weak.INT,),
    Weak.INT: (_U2, _U4, _U8, _S2, _S4, _S8),
    _U2: (),
    _U4: (),
    _U8: (_S16, _U16),
    _U16: (_S32, _U32),
    _U32: (_S64, _U64),
    _U64: (Weak.FLOAT,),
    _S2: (),
    _S4: (),
    _S8: (_S16,),
    _S16: (_S32,),
    _S32: (_S64,),
    _S64: (Weak.FLOAT,),
    Weak.FLOAT: (*LOW_FLOATS, _BF16, _F16, Weak.COMPLEX),
    **dict.fromkeys(LOW_FLOATS, ()),
    _BF16: (_F32,),
    _F16: (_F32,),
    _F32: (_F64, _C64),
    _F64: (_C128,),
    Weak.COMPLEX: (_C64,),
    _C64: (_C128,),
    _C128: (),
}
# Strict: only weak types are promoted implicitly.
_STRICT_EDGES: dict[Node, tuple[Node, ...]] = {
    Weak.INT: (Weak.FLOAT, *SIGNED, *UNSIGNED),
    Weak.FLOAT: (Weak.COMPLEX, *FLOATS),
    Weak.COMPLEX: COMPLEX,
    **dict.fromkeys(ALL_DTYPES, ()),
}
_EDGES = {"standard": _STANDARD_EDGES, "strict": _STRICT_EDGES}


@functools.cache
def _upper_bounds(mode: str) -> dict[Node, frozenset[Node]]:
    edges = _EDGES[mode]
    bounds: dict[Node, frozenset[Node]] = {}

    def visit(node: Node) -> frozenset[Node]:
        if node not in bounds:
            bounds[node] = frozenset({node}).union(*(visit(up) for up in edges[node]))
        return bounds[node]

    for node in edges:
        visit(node)
    return bounds


@functools.cache
def _least_upper_bound(mode: str, nodes: frozenset[Node]) -> Node:
    bounds = _upper_bounds(mode)
    common = frozenset.intersection(*(bounds[n] for n in nodes))
    # The least one is the common bound whose own upper bounds are all common bounds.
    least = [n for n in common if bounds[n] == common]
    if least:
        return least[0]
    names = ", ".join(sorted(_node_name(n) for n in nodes))
    if mode == "strict":
        why = "The option numpy_dtype_promotion='strict' allows only Python scalars to be promoted."
    elif not frozenset(LOW_FLOATS).isdisjoint(nodes):
        why = (
            "8-bit floating point types do not support implicit promotion: the result would be "
            "narrower or wider than one may expect."
        )
    else:
        why = "These types have no implicit promotion path."
    raise new_error(
        TypePromotionError,
        f"Input dtypes ({names}) have no available implicit dtype promotion path.",
        why=why,
        fix="Convert the operands to a common dtype, for example x.astype('float32').",
    )


def _node_name(node: Node) -> str:
    return node.value if isinstance(node, Weak) else str(node)


def _dtype_and_weak(value: Any) -> tuple[Any, bool]:
    aval = getattr(value, "aval", None)
    if aval is not None and hasattr(aval, "weak_type"):
        return aval.dtype, aval.weak_type
    return dtype_of(value), is_weakly_typed(value)


def _weak_node(dtype: Any) -> Node:
    if dtype == BOOL:
        return dtype
    if issubdtype(dtype, np.integer):
        return Weak.INT
    return Weak.COMPLEX if issubdtype(dtype, np.complexfloating) else Weak.FLOAT


_WEAK_DTYPES = {Weak.INT: _S64, Weak.FLOAT: _F64, Weak.COMPLEX: _C128}


@functools.cache
def _join(mode: str, operands: frozenset[tuple[Any, bool]]) -> tuple[Any, bool]:
    """Common (dtype, weak) before canonicalization."""
    if len(operands) == 1:
        ((dtype, weak),) = operands
        return dtype, weak
    kinds = {dtype for dtype, _ in operands}
    all_weak = all(weak for _, weak in operands)
    if any(is_extended(d) for d in kinds):
        if len(kinds) == 1:
            return next(iter(kinds)), False
        names = ", ".join(sorted(map(str, kinds)))
        raise TypePromotionError(
            f"Input dtypes ({names}) have no available implicit dtype promotion path.",
            why="Random keys are promoted to no other type.",
            fix="Use jax.random.key_data(key) for the numbers in a key.",
        )
    if len(kinds) == 1 and not all_weak:
        return next(iter(kinds)), False
    if all_weak and mode != "strict":
        # Weak operands only: their dtypes join, and the result stays weak.
        node = _least_upper_bound(mode, frozenset(kinds))
        return _WEAK_DTYPES[node] if isinstance(node, Weak) else node, True
    nodes = frozenset(_weak_node(d) if weak else d for d, weak in operands)
    node = _least_upper_bound(mode, nodes)
    if isinstance(node, Weak):
        return _WEAK_DTYPES[node], True
    return node, False


def lattice_result_type(*args: Any) -> tuple[Any, bool]:
    """Common dtype (not canonicalized to 32 bits) and whether it is weak."""
    operands = frozenset(map(_dtype_and_weak, args))
    dtype, weak = _join(options.numpy_dtype_promotion.here()[0].value, operands)
    return dtype, weak and dtype != BOOL


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype to which arguments (values or dtypes) are promoted when they meet.

    Args:
      args: arrays, scalars, dtypes; at least one.
      return_weak_type_flag: return (dtype, is weak) instead.
    Raises:
      TypePromotionError: there is no implicit promotion (8-bit floats, strict mode).

    >>> str(result_type(np.float32(1), 2.0)), str(result_type(np.int8, np.uint8))
    ('float32', 'int16')
    """
    if not args:
        raise new_error(ValueError, "at least one array or dtype is required")
    dtype, weak = lattice_result_type(*(_default_float_if_none(a) for a in args))
    dtype = canonicalize_dtype(dtype)
    return (dtype, weak) if return_weak_type_flag else dtype


def _default_float_if_none(arg: Any) -> Any:
    return canonicalize_dtype(np.float64) if arg is None else arg


def promote_types(a: Any, b: Any) -> Any:
    """The dtype at the join of two dtypes (or Python scalar types, which are weak).

    >>> str(promote_types("int32", "bfloat16"))
    'bfloat16'
    """
    operands: Iterable[tuple[Any, bool]] = (
        (PYTHON_SCALARS[t], True)
        if isinstance(t, type) and t in PYTHON_SCALARS
        else (t if is_extended(t) else as_numpy_dtype(t), False)
        for t in (a, b)
    )
    dtype, weak = _join(options.numpy_dtype_promotion.here()[0].value, frozenset(operands))
    return canonicalize_dtype(dtype) if weak else dtype


def safe_to_cast(source: Any, target: Any) -> bool:
    """Whether `source`, a value or dtype, converts to the dtype of `target` along the lattice: no
    loss of kind or width, where that of a Python number or weakly typed value is only its kind.

    Raises:
      TypePromotionError: the lattice joins them nowhere (8-bit floats, 4-bit integers; and
        any two of strict mode).
    """
    source_dtype = dtype_of(source, canonicalize=True)
    target = dtype_of(target, canonicalize=True)
    if source_dtype == target:
        return True
    if is_extended(source_dtype) or is_extended(target):
        return False
    weak = _dtype_and_weak(source)[1]
    mode = options.numpy_dtype_promotion.here()[0].value
    common, _ = _join(mode, frozenset(((source_dtype, weak), (target, False))))
    return bool(common == target)
