"""Evaluating a computation of scalars (reducer, comparator, combiner, map body) on whole arrays at
once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from xla_backend.hlo.attributes import CompareAttributes, ComparisonDirection
from xla_backend.hlo.evaluator.conversions import bitcast_array
from xla_backend.hlo.evaluator.elementwise import ELEMENTWISE
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.monoids import monoid
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType

Values = tuple[np.ndarray, ...]
# Runs one computation on scalar operands: the way out for bodies with loops and other
# non-elementwise opcodes.
ScalarRunner = Callable[[Computation, Sequence[np.ndarray]], object]

_FORWARDED = frozenset({Opcode.RESHAPE, Opcode.BROADCAST, Opcode.COPY, Opcode.OPT_BARRIER})
_VECTORISED = (
    frozenset(ELEMENTWISE)
    | _FORWARDED
    | frozenset(
        {
            Opcode.PARAMETER,
            Opcode.CONSTANT,
            Opcode.TUPLE,
            Opcode.GET_TUPLE_ELEMENT,
            Opcode.CALL,
            Opcode.FUSION,
            Opcode.MAP,
            Opcode.BITCAST,
            Opcode.BITCAST_CONVERT,
        }
    )
)


def simple_binary(computation: Computation) -> Opcode | None:
    """The opcode if the computation is just `op(parameter 0, parameter 1)` with an associative op,
    in any order, or that behind converts/calls; else None."""
    root = computation.root
    while root is not None and root.opcode in (Opcode.CALL, Opcode.FUSION):
        if root.operands != root.parent.parameters:  # type: ignore[union-attr]
            return None
        root = root.called[0].root
    return None if root is None or root.parent is None else monoid(root.parent)


def comparator_key(computation: Computation) -> tuple[int, bool, bool] | None:
    """(operand, descending, total order) if a sort comparator is one compare of a pair of
    parameters."""
    root = computation.root
    if root is None or root.opcode is not Opcode.COMPARE:
        return None
    a = root.attributes
    assert isinstance(a, CompareAttributes)
    left, right = root.operands
    if left.opcode is not Opcode.PARAMETER or right.opcode is not Opcode.PARAMETER:
        return None
    first, second = left.parameter_number, right.parameter_number
    if first // 2 != second // 2 or first == second:
        return None
    if a.direction not in (ComparisonDirection.LT, ComparisonDirection.GT):
        return None
    descending = (a.direction is ComparisonDirection.GT) != (first > second)
    return first // 2, descending, a.total_order


def is_vectorisable(computation: Computation) -> bool:
    for node in computation:
        if node.opcode not in _VECTORISED:
            return False
        if node.called and not all(map(is_vectorisable, node.called)):
            return False
        if node.shape.is_array and node.shape.num_elements != 1:
            return False
    return True


def apply_scalar(
    computation: Computation, operands: Sequence[np.ndarray], run: ScalarRunner
) -> Values:
    """Apply a scalar computation elementwise to arrays that broadcast together; one array per
    result leaf."""
    if is_vectorisable(computation):
        result = _vectorised(computation, operands)
        return result if isinstance(result, tuple) else (result,)
    return _one_by_one(computation, operands, run)


def _one_by_one(
    computation: Computation, operands: Sequence[np.ndarray], run: ScalarRunner
) -> Values:
    arrays = np.broadcast_arrays(*operands)
    shape = arrays[0].shape
    assert computation.root is not None
    leaves = computation.root.shape.flatten()
    results = tuple(np.empty(shape, leaf.element_type.numpy_dtype) for leaf in leaves)
    for index in np.ndindex(shape):
        value = run(computation, [np.asarray(a[index]) for a in arrays])
        for result, part in zip(results, value if isinstance(value, tuple) else (value,)):
            result[index] = part
    return results


def _vectorised(computation: Computation, operands: Sequence[np.ndarray]) -> np.ndarray | Values:
    values: dict[Instruction, object] = {}
    for node in computation.post_order():
        values[node] = _node_value(node, [values[o] for o in node.operands], operands)
    assert computation.root is not None
    return values[computation.root]  # type: ignore[return-value]


def _node_value(node: Instruction, inputs: list, parameters: Sequence[np.ndarray]) -> object:
    opcode = node.opcode
    if opcode is Opcode.PARAMETER:
        return parameters[node.parameter_number]
    if opcode is Opcode.CONSTANT:
        return node.literal_array.reshape(())
    if opcode is Opcode.TUPLE:
        return tuple(inputs)
    if opcode is Opcode.GET_TUPLE_ELEMENT:
        return inputs[0][node.tuple_index]
    if opcode in (Opcode.CALL, Opcode.FUSION, Opcode.MAP):
        return _vectorised(node.called[0], inputs)
    if opcode in _FORWARDED:
        return inputs[0]
    if opcode in (Opcode.BITCAST, Opcode.BITCAST_CONVERT):  # a bitcast may change the type, too
        return bitcast_array(inputs[0], node.shape.element_type, inputs[0].shape)
    return np.asarray(ELEMENTWISE[opcode](node, *inputs))


def identity_value(opcode: Opcode, kind: PrimitiveType) -> np.ndarray:
    """The neutral element of a simple associative opcode."""
    dtype = kind.numpy_dtype
    if opcode in (Opcode.ADD, Opcode.OR, Opcode.XOR):
        return np.zeros((), dtype)
    if opcode is Opcode.MULTIPLY:
        return np.ones((), dtype)
    if opcode is Opcode.AND:
        return np.asarray(True) if kind is PrimitiveType.PRED else np.asarray(-1).astype(dtype)
    largest = opcode is Opcode.MINIMUM
    if kind is PrimitiveType.PRED:
        return np.asarray(largest)
    if kind.is_floating:
        infinite = np.asarray(np.inf if largest else -np.inf).astype(dtype)
        if np.isinf(infinite):
            return infinite
        limits = ml_dtypes.finfo(dtype)  # some 8-bit floats have no infinity
        return np.asarray(limits.max if largest else limits.min, dtype)
    bits = kind.bits
    if kind.is_signed_integral:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    else:
        low, high = 0, (1 << bits) - 1
    return np.asarray(high if largest else low, np.int64 if bits < 64 else dtype).astype(dtype)
