"""Calls of public functions with operands of every kind: dtypes, weakly typed arrays, scalars.

The calls are those of the tables of edge values, of each function the first with one operand that
varies, the first with two and the first with three; operators stand beside them. Only types are
computed (`eval_shape`), so a call is the same for every kind of its operands.
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from tests.edge_values.execute import flatten, resolve
from tests.edge_values.operands import FIXED, operand
from tests.edge_values.rows import operands_of
from tests.edge_values.tables import TABLES

_INTEGERS = "int4 uint4 int8 uint8 int16 uint16 int32 uint32 int64 uint64"
_FLOATS = "float8_e4m3fn float8_e5m2 float16 bfloat16 float32 float64"
# Tables whose types are compared for the dtypes of their rows only, in tests/edge_values.
NOT_RECORDED = (
    "experimental",
    *("scipy_linalg", "scipy_others", "scipy_stats", "transformations", "trees"),
)
DTYPES = ("bool", *_INTEGERS.split(), *_FLOATS.split(), "complex64", "complex128")
# Arrays that take the type of what they meet, and Python's numbers, which do so, too.
WEAK = {"weak int": "int32", "weak float": "float32", "weak complex": "complex64"}
NUMBERS = {"True": True, "2": 2, "2.5": 2.5, "2j": 2j}
WIDE = {"int64", "uint64", "float64", "complex128"}
_WIDER = {"int32": "int64", "float32": "float64", "complex64": "complex128"}
# Of two operands at once, those dtypes that others stand for are left out.
_ALIKE = set("int4 uint4 int8 int16 uint16 uint32 float8_e5m2 complex128".split()) | {
    "weak complex"
}
_NARROW = set(DTYPES) - WIDE
KINDS = (*DTYPES, *WEAK, *NUMBERS)

_OPERATORS = "+ - * / // % ** @ & | ^ << >> < == !=".split()
_UNARY = ("-v", "+v", "~v", "abs(v)")
_METHODS = ("v.sum()", "v.mean()", "v.astype(int)", "v.round(1)", "v.real", "v.at[0].add(s)")


@dataclass(frozen=True)
class Call:
    """A call of a public function whose operands vary in kind."""

    name: str
    text: str

    @property
    def key(self) -> str:
        return f"{self.name} {self.text}"

    @property
    def operands(self) -> tuple[str, ...]:
        return tuple(n for n in operands_of(self.text) if n not in FIXED)

    def kinds(self, wide: bool) -> list[tuple[str, ...]]:
        """Combinations of kinds; with `wide`, those of 64 bits, too."""
        allowed = [k for k in KINDS if wide or k not in WIDE]
        count = len(self.operands)
        if count == 1:
            return [(k,) for k in allowed]
        pairs = product([k for k in allowed if k not in _ALIKE], repeat=2)
        # Types of narrow arrays alone are the same with 64 bits.
        return [
            (a, b, a)[:count] for a, b in pairs if not wide or not (a in _NARROW and b in _NARROW)
        ]


def calls() -> Iterator[Call]:
    """All calls, in the order of the tables."""
    binary = [f"v {operator} {other}" for operator in _OPERATORS for other in "xs"]
    yield from (Call("operators", text) for text in (*binary, *_UNARY, *_METHODS))
    seen: set[tuple[str, int]] = set()
    for table, rows in TABLES.items():
        for row in () if table in NOT_RECORDED else rows:
            for text in row.calls:
                call = Call(row.name, text)
                count = len(call.operands)
                if count and "dtype" not in text and (row.name, count) not in seen:
                    seen.add((row.name, count))
                    yield call


def _argument(jax: Any, name: str, kind: str, wide: bool) -> Any:
    if kind in NUMBERS:
        return NUMBERS[kind]
    dtype = WEAK.get(kind, kind)
    if kind in WEAK and wide:
        dtype = _WIDER[dtype]
    shape = operand(name, "float32").shape
    numpy_dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return jax.ShapeDtypeStruct(shape, numpy_dtype, weak_type=kind in WEAK)


def _code(leaf: Any) -> str:
    return leaf.dtype.name + ("*" if leaf.weak_type else "") if hasattr(leaf, "dtype") else "-"


def _error(error: Exception) -> str:
    classes = [cls.__name__ for cls in type(error).__mro__]
    return "!" + next((name for name in classes if hasattr(builtins, name)), "Exception")


def types_of(jax: Any, call: Call, kinds: tuple[str, ...], wide: bool) -> str:
    """dtypes of the results, a star behind weak ones, or "!" and the class of the error.

    Args:
      jax: the framework.
      call, kinds: the call, and the kind of each of its operands.
      wide: whether 64 bits are enabled.
    """
    code = compile(call.text, call.key, "eval")
    env = {"jax": jax, "jnp": jax.numpy, "lax": jax.lax, "np": np, "inf": np.inf, "nan": np.nan}
    if call.name != "operators":
        env["f"] = resolve(jax, call.name)
    for name in operands_of(call.text):
        if name in FIXED:
            array = jax.numpy.asarray(operand(name, "float32"))
            env[name] = jax.random.wrap_key_data(array) if name == "key" else array
    with jax.enable_x64(wide), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = {
            name: _argument(jax, name, kind, wide)
            for name, kind in zip(call.operands, kinds, strict=True)
        }
        numbers = {k: v for k, v in arguments.items() if isinstance(v, (bool, int, float, complex))}
        arrays = {k: v for k, v in arguments.items() if k not in numbers}
        try:
            found = jax.eval_shape(lambda **xs: eval(code, {**env, **numbers, **xs}), **arrays)
        except Exception as error:
            return _error(error)
        return ",".join(_code(leaf) for leaf in flatten(found)[1])
