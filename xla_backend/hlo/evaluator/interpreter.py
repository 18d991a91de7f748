"""The interpreter: walks computations in operand order and calls the meaning of each opcode.

Values are NumPy arrays, tuples of values, and None for tokens. The graph is walked iteratively;
only calls of computations nest, as deep as the program's own nesting of loops and calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xla_backend.hlo.attributes import (
    ALLOCATE_BUFFER,
    TOPK_CALL,
    ConditionalAttributes,
    CustomCallAttributes,
    RngGetAndUpdateStateAttributes,
)
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator import (
    contractions,
    indexing,
    linear_algebra,
    random_bits,
    reductions,
    shape_ops,
    sorting,
)
from xla_backend.hlo.evaluator.elementwise import ELEMENTWISE
from xla_backend.hlo.evaluator.scalar_computations import apply_scalar
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape

# What XLA's CPU programs start from.
RNG_INITIAL_STATE = 0x7012395

Value = Any  # np.ndarray | tuple[Value, ...] | None
CustomCall = Callable[[list[np.ndarray], list[np.ndarray], CustomCallAttributes], None]
Handler = Callable[["Interpreter", Instruction, list[Value]], Value]


class _Plan:
    """A computation made ready: instructions in order, where operands are, which values die at
    each step."""

    __slots__ = ("dying", "operand_slots", "order", "root_slot")

    def __init__(self, computation: Computation) -> None:
        self.order = computation.post_order()
        slot = {node: i for i, node in enumerate(self.order)}
        self.operand_slots = [[slot[o] for o in node.operands] for node in self.order]
        assert computation.root is not None, f"%{computation.name} has no root"
        self.root_slot = slot[computation.root]
        last: dict[int, int] = {}
        for i, slots in enumerate(self.operand_slots):
            for s in slots:
                last[s] = i
        last.pop(self.root_slot, None)
        self.dying: list[list[int]] = [[] for _ in self.order]
        for s, i in last.items():
            self.dying[i].append(s)


class Interpreter:
    """Runs computations. One instance serves one evaluation: it caches how computations are
    walked."""

    def __init__(
        self, custom_calls: Mapping[str, CustomCall] | None = None, seed: int | None = None
    ) -> None:
        self.custom_calls: Mapping[str, CustomCall] = custom_calls or {}
        self._seed = seed
        self._generator: np.random.Generator | None = None
        self._plans: dict[int, tuple[Computation, _Plan]] = {}
        self._rng_state = RNG_INITIAL_STATE

    @property
    def generator(self) -> np.random.Generator:
        """Behind the `rng` opcode; made on first use, because making one costs more than a small
        evaluation."""
        if self._generator is None:
            self._generator = np.random.default_rng(self._seed)
        return self._generator

    def advance_rng_state(self, delta: int) -> np.ndarray:
        """The 128-bit state of this evaluation before `delta` is added, low word first."""
        state = self._rng_state
        self._rng_state = (state + delta) % 2**128
        return np.array([state % 2**64, state >> 64], np.uint64)

    def run(self, computation: Computation, arguments: Sequence[Value]) -> Value:
        """Value of the root for these parameter values."""
        found = self._plans.get(id(computation))
        if found is None:
            # The computation is kept with its plan, so that its id stays its own.
            found = self._plans[id(computation)] = (computation, _Plan(computation))
        plan = found[1]
        values: list[Value] = [None] * len(plan.order)
        for i, node in enumerate(plan.order):
            opcode = node.opcode
            if opcode is Opcode.PARAMETER:
                values[i] = arguments[node.parameter_number]
                continue
            inputs = [values[s] for s in plan.operand_slots[i]]
            simple = _SIMPLE.get(opcode)
            value = simple(node, *inputs) if simple is not None else self._general(node, inputs)
            if (
                value.__class__ is not np.ndarray
                and value is not None
                and not isinstance(value, tuple)
            ):
                value = np.asarray(value)
            values[i] = value
            for s in plan.dying[i]:
                values[s] = None
        return values[plan.root_slot]

    def _general(self, node: Instruction, inputs: list[Value]) -> Value:
        handler = _HANDLERS.get(node.opcode)
        if handler is None:
            raise UnimplementedError(
                f"the evaluator has no meaning for {node.opcode}: {node}; compile and run the "
                f"module instead"
            )
        return handler(self, node, inputs)


def _constant(node: Instruction) -> np.ndarray:
    return node.literal_array


def _while(interpreter: Interpreter, node: Instruction, inputs: list[Value]) -> Value:
    condition, body = node.called
    state = inputs[0]
    while interpreter.run(condition, [state]):
        state = interpreter.run(body, [state])
    return state


def _conditional(interpreter: Interpreter, node: Instruction, inputs: list[Value]) -> Value:
    a = node.attributes
    assert isinstance(a, ConditionalAttributes)
    if a.is_indexed:
        branch = int(inputs[0])
        if not 0 <= branch < len(node.called):
            branch = len(node.called) - 1
    else:
        branch = 0 if inputs[0] else 1
    return interpreter.run(node.called[branch], [inputs[1 + branch]])


def _call(interpreter: Interpreter, node: Instruction, inputs: list[Value]) -> Value:
    return interpreter.run(node.called[0], inputs)


def _map(interpreter: Interpreter, node: Instruction, inputs: list[Value]) -> Value:
    (result,) = apply_scalar(node.called[0], inputs, interpreter.run)
    return np.broadcast_to(result, node.shape.dimensions)


def _custom_call(interpreter: Interpreter, node: Instruction, inputs: list[Value]) -> Value:
    a = node.attributes
    assert isinstance(a, CustomCallAttributes)
    if a.target == ALLOCATE_BUFFER:
        # Not zeros: a program that reads them must not look right.
        memory = [np.full(s.byte_size, 0xA5, np.uint8) for s in node.shape.flatten()]
        return unflatten_value(
            node.shape,
            [
                m.view(s.element_type.numpy_dtype).reshape(s.dimensions)
                for m, s in zip(memory, node.shape.flatten())
            ],
        )
    function = interpreter.custom_calls.get(a.target)
    if function is None and a.target == TOPK_CALL:
        return sorting.topk_call(node, *inputs)
    if function is None:
        known = ", ".join(sorted(interpreter.custom_calls)) or "none"
        raise UnimplementedError(
            f"no custom call '{a.target}' was given to the evaluator (known: {known}); "
            "pass custom_calls={name: function}"
        )
    operands = [leaf for value in inputs for leaf in flatten_value(value) if leaf is not None]
    leaves = [s for s in node.shape.flatten() if s.is_array]
    results = [np.zeros(s.dimensions, s.element_type.numpy_dtype) for s in leaves]
    function([np.ascontiguousarray(x) for x in operands], results, a)
    return unflatten_value(node.shape, results)


def _rng_get_and_update_state(
    interpreter: Interpreter, node: Instruction, inputs: list[Value]
) -> Value:
    assert isinstance(node.attributes, RngGetAndUpdateStateAttributes)
    return interpreter.advance_rng_state(node.attributes.delta).reshape(node.shape.dimensions)


def _single_participant(interpreter: Interpreter, node: Instruction, inputs: list[Value]) -> Value:
    """A collective among one device gives each operand back."""
    expected = node.shape.flatten()
    if [s.dimensions for s in expected] != [x.shape for x in inputs]:
        raise UnimplementedError(f"the evaluator models one device, but {node} combines several")
    return inputs[0] if not node.shape.is_tuple else tuple(inputs)


_SIMPLE: dict[Opcode, Callable[..., Value]] = {
    **ELEMENTWISE,
    Opcode.CONSTANT: _constant,
    Opcode.RESHAPE: shape_ops.reshape,
    Opcode.BITCAST: shape_ops.bitcast,
    Opcode.BITCAST_CONVERT: shape_ops.bitcast_convert,
    Opcode.DYNAMIC_RESHAPE: shape_ops.dynamic_reshape,
    Opcode.BROADCAST: shape_ops.broadcast,
    Opcode.TRANSPOSE: shape_ops.transpose,
    Opcode.REVERSE: shape_ops.reverse,
    Opcode.CONCATENATE: shape_ops.concatenate,
    Opcode.SLICE: shape_ops.slice_,
    Opcode.DYNAMIC_SLICE: shape_ops.dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: shape_ops.dynamic_update_slice,
    Opcode.PAD: shape_ops.pad,
    Opcode.IOTA: shape_ops.iota,
    Opcode.GET_DIMENSION_SIZE: shape_ops.get_dimension_size,
    Opcode.DOT: contractions.dot,
    Opcode.CONVOLUTION: contractions.convolution,
    Opcode.GATHER: indexing.gather,
    Opcode.TOPK: sorting.topk,
    Opcode.FFT: linear_algebra.fft,
    Opcode.CHOLESKY: linear_algebra.cholesky,
    Opcode.TRIANGULAR_SOLVE: linear_algebra.triangular_solve,
    Opcode.BATCH_NORM_TRAINING: linear_algebra.batch_norm_training,
    Opcode.BATCH_NORM_INFERENCE: linear_algebra.batch_norm_inference,
    Opcode.BATCH_NORM_GRAD: linear_algebra.batch_norm_grad,
    Opcode.RNG_BIT_GENERATOR: random_bits.rng_bit_generator,
    Opcode.TUPLE: lambda node, *members: members,
    Opcode.GET_TUPLE_ELEMENT: lambda node, value: value[node.tuple_index],
    Opcode.OPT_BARRIER: lambda node, value: value,
    Opcode.DOMAIN: lambda node, value: value,
    Opcode.ADD_DEPENDENCY: lambda node, value, token: value,
    Opcode.AFTER_ALL: lambda node, *tokens: None,
    Opcode.PARTITION_ID: lambda node: np.zeros((), np.uint32),
    Opcode.REPLICA_ID: lambda node: np.zeros((), np.uint32),
}

_HANDLERS: dict[Opcode, Handler] = {
    Opcode.REDUCE: lambda i, node, v: reductions.reduce(node, v, i.run),
    Opcode.REDUCE_WINDOW: lambda i, node, v: reductions.reduce_window(node, v, i.run),
    Opcode.SELECT_AND_SCATTER: lambda i, node, v: reductions.select_and_scatter(
        node, v[0], v[1], v[2], i.run
    ),
    Opcode.SCAN: lambda i, node, v: reductions.scan(node, v, i.run),
    Opcode.SCATTER: lambda i, node, v: indexing.scatter(node, v, i.run),
    Opcode.SORT: lambda i, node, v: sorting.sort(node, v, i.run),
    Opcode.RNG_GET_AND_UPDATE_STATE: _rng_get_and_update_state,
    Opcode.RNG: lambda i, node, v: random_bits.rng(node, v[0], v[1], i.generator),
    Opcode.MAP: _map,
    Opcode.WHILE: _while,
    Opcode.CONDITIONAL: _conditional,
    Opcode.CALL: _call,
    Opcode.FUSION: _call,
    Opcode.CUSTOM_CALL: _custom_call,
    Opcode.ALL_REDUCE: _single_participant,
    Opcode.ALL_GATHER: _single_participant,
    Opcode.ALL_TO_ALL: _single_participant,
    Opcode.REDUCE_SCATTER: _single_participant,
    Opcode.COLLECTIVE_BROADCAST: _single_participant,
    Opcode.COLLECTIVE_PERMUTE: _single_participant,
}


def flatten_value(value: Value) -> list[np.ndarray]:
    """Leaves of a nested tuple of values, in order."""
    if not isinstance(value, tuple):
        return [value]
    return [leaf for member in value for leaf in flatten_value(member)]


def unflatten_value(shape: Shape, leaves: Sequence[np.ndarray]) -> Value:
    """The value of `shape` whose array leaves are `leaves`; tokens are None."""
    remaining = iter(leaves)

    def build(part: Shape) -> Value:
        if part.is_tuple:
            return tuple(build(member) for member in part.tuple_shapes)
        return next(remaining) if part.is_array else None

    return build(shape)


def evaluate_computation(
    computation: Computation,
    arguments: Sequence[Value],
    *,
    custom_calls: Mapping[str, CustomCall] | None = None,
    seed: int | None = None,
) -> Value:
    """Value of the root: an array, a tuple of values, or None for a token.

    Args:
      arguments: one value per parameter (tuples for tuple parameters).
      custom_calls: target name to `fn(operands, results, attributes)`, which fills `results` in
      place.
      seed: of the generator behind the `rng` opcode; None: different on each call.
    Raises:
      UnimplementedError: an opcode or custom call has no meaning here.
    """
    with np.errstate(all="ignore"):  # inf, NaN and wrapping are values here, not errors
        return Interpreter(custom_calls, seed).run(computation, arguments)


def evaluate(
    module: HloModule,
    args: Sequence[np.ndarray],
    *,
    custom_calls: Mapping[str, CustomCall] | None = None,
    seed: int | None = None,
) -> list[np.ndarray]:
    """Run a module with NumPy; this is the meaning that passes and compiled code are compared with.

    Args:
      args: flat parameter leaves in order (a tuple parameter takes as many as it has leaves).
      custom_calls, seed: as for `evaluate_computation`.
    Returns:
      The leaves of the result in order, as row-major arrays. Tokens are left out.
    Raises:
      ValueError: number, type or shape of an argument differs from the parameter's.
      UnimplementedError: an opcode or custom call has no meaning here.
    """
    assert module.entry is not None, f"module {module.name} has no entry computation"
    remaining = list(args)
    arguments = []
    for parameter in module.entry.parameters:
        leaves = [s for s in parameter.shape.flatten() if s.is_array]
        taken = [np.asarray(x) for x in remaining[: len(leaves)]]
        remaining = remaining[len(leaves) :]
        for value, shape in zip(taken, leaves):
            if value.dtype != shape.element_type.numpy_dtype or value.shape != shape.dimensions:
                raise ValueError(
                    f"parameter {parameter.parameter_number} of {module.name} is {shape}, "
                    f"got {value.dtype} {list(value.shape)}"
                )
        if len(taken) != len(leaves):
            raise ValueError(f"{module.name} takes more than the {len(args)} arguments given")
        arguments.append(unflatten_value(parameter.shape, taken))
    if remaining:
        raise ValueError(f"{module.name} got {len(remaining)} arguments too many")
    result = evaluate_computation(module.entry, arguments, custom_calls=custom_calls, seed=seed)
    return [np.array(leaf, order="C") for leaf in flatten_value(result) if leaf is not None]
