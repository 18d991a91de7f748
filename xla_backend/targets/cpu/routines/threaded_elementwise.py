"""Handlers of elementwise operations: of a scalar (".1"), and of a vector (".n").

  h(code, frame): operands: the slot of the result, those of what it is computed from, and of
                  vectors how often as many lanes as are computed at once

They are written by the same code as optimised code is (`codegen.operations`), so that the bits are
the same. The tables here say which there are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from xla_backend.codegen.operations import operation
from xla_backend.hlo.attributes import (
    NO_ATTRIBUTES,
    CompareAttributes,
    ComparisonDirection,
    ReducePrecisionAttributes,
)
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.llvm.types import register_type, vector
from xla_backend.llvm.writer import FunctionWriter
from xla_backend.targets.cpu.routines.threaded import Handler
from xla_backend.targets.cpu.routines.threaded_groups import Handlers, declare_handlers
from xla_backend.targets.cpu.routines.threaded_names import lanes_at_once
from xla_backend.targets.cpu.routines.threaded_operations import (
    compare_name,
    plain_name,
    reduce_precision_name,
)

_FLOATS = (P.F32, P.F64, P.F16, P.BF16)
_INTEGERS = (P.S8, P.S16, P.S32, P.S64, P.U8, P.U16, P.U32, P.U64)
_CONVERTED = (P.PRED, *_INTEGERS, *_FLOATS)
# Numbers that are kept so, and computed with in other types.
_STORED = (P.F8E4M3FN, P.F8E5M2, P.S4, P.U4)
_FROM_STORED = (P.F32, P.BF16, P.F16, P.S32, P.S8)
# By the bytes of their elements in slots.
_SELECTED = (P.PRED, P.S8, P.S16, P.F32, P.F64)
_FLOAT_ARITHMETIC = (
    *(O.ADD, O.SUBTRACT, O.MULTIPLY, O.DIVIDE, O.REMAINDER, O.MAXIMUM, O.MINIMUM, O.ABS, O.NEGATE),
    *(O.SIGN, O.SQRT, O.FLOOR, O.CEIL, O.ROUND_NEAREST_EVEN, O.ROUND_NEAREST_AFZ, O.IS_FINITE),
)
_INTEGER_ARITHMETIC = (
    *(O.ADD, O.SUBTRACT, O.MULTIPLY, O.DIVIDE, O.REMAINDER, O.MAXIMUM, O.MINIMUM, O.AND, O.OR),
    *(O.XOR, O.NOT, O.NEGATE, O.ABS, O.SIGN, O.SHIFT_LEFT, O.SHIFT_RIGHT_LOGICAL),
    *(O.SHIFT_RIGHT_ARITHMETIC, O.POPCNT, O.COUNT_LEADING_ZEROS),
)
_PRED_ARITHMETIC = (O.AND, O.OR, O.XOR, O.NOT, O.ADD, O.MULTIPLY, O.MAXIMUM, O.MINIMUM)
_SELDOM_OF_INTEGERS = (O.POWER, O.MULHI)
# Longer ones: in groups of their own, of a few that programs have together.
_FUNCTIONS = (
    (O.EXPONENTIAL, O.EXPONENTIAL_MINUS_ONE, O.LOGISTIC, O.TANH),
    (O.LOG, O.LOG_PLUS_ONE, O.RSQRT, O.CBRT),
    (O.SINE, O.COSINE),
    (O.POWER,),
    (O.ERF,),
    (O.ATAN2, O.ASIN, O.ACOS),
    (O.SINH, O.COSH, O.TAN, O.ASINH, O.ACOSH, O.ATANH),
)
_REDUCED = ((5, 10), (8, 7))
_ORDERED = (P.F32, P.F64, P.F16, P.BF16)

Emit = Callable[[FunctionWriter, int, list[str]], str]


class Operation(NamedTuple):
    """An operation that has handlers: `emit(w, lanes, values)` is its code."""

    name: str
    sources: tuple[P, ...]
    result: P
    emit: Emit


def _of(opcode: O, sources: tuple[P, ...], result: P, attributes: Any = NO_ATTRIBUTES) -> Emit:
    return lambda w, lanes, values: operation(
        w, opcode, attributes, sources[0], result, lanes, values
    )


def _plain(opcode: O, t: P, result: P | None = None) -> Operation:
    sources = (t,) * (opcode.arity or 1)
    result = P.PRED if opcode is O.IS_FINITE else result or t
    return Operation(plain_name(opcode, t, result), sources, result, _of(opcode, sources, result))


def _compare(t: P, direction: ComparisonDirection, total: bool = False) -> Operation:
    attributes = CompareAttributes(direction, total)
    emit = _of(O.COMPARE, (t, t), P.PRED, attributes)
    return Operation(compare_name(t, direction.value, total), (t, t), P.PRED, emit)


def _select(t: P) -> Operation:
    emit = lambda w, lanes, values: operation(w, O.SELECT, None, P.PRED, t, lanes, values)
    return Operation(plain_name(O.SELECT, P.PRED, t), (P.PRED, t, t), t, emit)


def _reduce_precision(t: P, exponent: int, mantissa: int) -> Operation:
    attributes = ReducePrecisionAttributes(exponent, mantissa)
    emit = _of(O.REDUCE_PRECISION, (t,), t, attributes)
    return Operation(reduce_precision_name(t, exponent, mantissa), (t,), t, emit)


def _groups() -> dict[str, list[Operation]]:
    """Operations by group; equal ones are in the first that has them."""
    groups: dict[str, list[Operation]] = {}
    for t in _FLOATS:
        groups[f"{t.value}"] = [
            *[_plain(opcode, t) for opcode in _FLOAT_ARITHMETIC],
            *[_compare(t, direction) for direction in ComparisonDirection],
        ]
        groups[f"{t.value}.orders"] = [
            *[_compare(t, direction, True) for direction in ComparisonDirection],
            *[_reduce_precision(t, *bits) for bits in _REDUCED],
        ]
        for n, functions in enumerate(_FUNCTIONS):
            groups[f"{t.value}.functions{n}"] = [_plain(opcode, t) for opcode in functions]
    for t in _INTEGERS:
        groups[f"{t.value}"] = [
            *[_plain(opcode, t) for opcode in _INTEGER_ARITHMETIC],
            *[_compare(t, direction) for direction in ComparisonDirection],
        ]
        groups[f"{t.value}.seldom"] = [_plain(opcode, t) for opcode in _SELDOM_OF_INTEGERS]
    groups["pred"] = [
        *[_plain(opcode, P.PRED) for opcode in _PRED_ARITHMETIC],
        *[_compare(P.PRED, direction) for direction in ComparisonDirection],
        *[_select(t) for t in _SELECTED],
    ]
    for source in _CONVERTED:
        groups[f"convert.{source.value}"] = [
            *[_plain(O.CONVERT, source, t) for t in _CONVERTED if t is not source],
            *[
                _plain(O.BITCAST_CONVERT, source, t)
                for t in _CONVERTED
                if t is not source and t.bits == source.bits and P.PRED not in (t, source)
            ],
        ]
    for t in _STORED:
        groups[f"convert.{t.value}"] = [
            *[_plain(O.CONVERT, t, other) for other in _FROM_STORED],
            *[_plain(O.CONVERT, other, t) for other in _FROM_STORED],
        ]
    seen: set[str] = set()
    for operations in groups.values():
        operations[:] = [o for o in operations if o.name not in seen and not seen.add(o.name)]  # type: ignore[func-returns-value]
    return {name: operations for name, operations in groups.items() if operations}


def register() -> None:
    """Declares the handlers of elementwise operations."""
    for name, operations in _groups().items():
        declare_handlers(f"threaded.{name}", _handlers(operations))


def _handlers(operations: list[Operation]) -> Handlers:
    found: Handlers = {}
    for o in operations:
        found[f"{o.name}.1"] = 1 + len(o.sources), partial(_scalar, o)
        found[f"{o.name}.n"] = 2 + len(o.sources), partial(_vector, o)
    return found


def _scalar(o: Operation, h: Handler) -> None:
    values = [h.load(1 + n, register_type(t)) for n, t in enumerate(o.sources)]
    h.store(0, register_type(o.result), o.emit(h.w, 1, values))


def _vector(o: Operation, h: Handler) -> None:
    w, lanes = h.w, lanes_at_once(o.result, *o.sources)
    slots = [h.slot(n) for n in range(1 + len(o.sources))]
    with w.loop("0", h.word(1 + len(o.sources)), guard=False) as loop:
        values = [
            load_lanes(w, t, lanes, slot, loop.index) for t, slot in zip(o.sources, slots[1:])
        ]
        store_lanes(w, o.result, lanes, slots[0], loop.index, o.emit(w, lanes, values))


def load_lanes(w: FunctionWriter, t: P, lanes: int, slot: str, number: str) -> str:
    """So many lanes of a vector, from the `number`-th so many on."""
    ty = vector(register_type(t), lanes)
    if t is not P.PRED:
        return w.load(ty, w.gep(ty, slot, number))
    bits = f"i{lanes}"
    return w.cast("bitcast", bits, w.load(bits, w.gep(bits, slot, number)), ty)


def store_lanes(w: FunctionWriter, t: P, lanes: int, slot: str, number: str, value: str) -> None:
    """Put so many lanes into the slot of a vector."""
    ty = vector(register_type(t), lanes)
    if t is not P.PRED:
        w.store(ty, value, w.gep(ty, slot, number))
        return
    bits = f"i{lanes}"
    w.store(bits, w.cast("bitcast", ty, value, bits), w.gep(bits, slot, number))
