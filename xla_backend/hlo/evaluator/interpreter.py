"""The interpreter: walks computations in operand order and calls the meaning of each opcode.

Values are NumPy arrays, tuples of values, and None for tokens. The graph is walked iteratively;
only calls of computations nest, as deep as the program's own nesting of loops and calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xla_backend.hlo.attributes import (
    ALLOCATE_BUFFER,
    RNG_INITIAL_STATE,
    TOPK_CALL,
    ConditionalAttributes,
    ConstantAttributes,
    CustomCallAttributes,
    RngGetAndUpdateStateAttributes,
)
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.hlo.evaluator import (
    collectives,
    contractions,
    dynamic_shapes,
    indexing,
    linear_algebra,
    random_bits,
    reductions,
    shape_ops,
    sorting,
    transfers,
)
from xla_backend.hlo.evaluator.arguments import bind_arguments, result_leaves
from xla_backend.hlo.evaluator.elementwise import ELEMENTWISE
from xla_backend.hlo.evaluator.participants import Participant, lone_participant
from xla_backend.hlo.evaluator.scalar_computations import apply_scalar
from xla_backend.hlo.evaluator.values import (
    Value,
    flatten_value,
    literal_value,
    unflatten_value,
)
from xla_backend.hlo.exchanges import COLLECTIVES
from xla_backend.hlo.host_queues import Host
from xla_backend.hlo.instruction import Computation, Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode

CustomCall = Callable[[list[np.ndarray], list[np.ndarray], CustomCallAttributes], None]
Handler = Callable[["Interpreter", Instruction, list[Value]], Value]


class _Plan:
    """A computation made ready: instructions in order, where operands are, which values die at
    each step."""

    __slots__ = ("dying", "dynamic", "operand_slots", "order", "root_slot")

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
        self.dynamic = {i for i, n in enumerate(self.order) if dynamic_shapes.touches_dynamic(n)}
        self.dying: list[list[int]] = [[] for _ in self.order]
        for s, i in last.items():
            self.dying[i].append(s)


class Interpreter:
    """Runs computations. One instance serves one evaluation: it caches how computations are
    walked."""

    def __init__(
        self,
        custom_calls: Mapping[str, CustomCall] | None = None,
        seed: int | None = None,
        participant: Participant | None = None,
        host: Host | None = None,
    ) -> None:
        self.custom_calls: Mapping[str, CustomCall] = custom_calls or {}
        self.participant = participant or lone_participant()
        self.host = host or Host()
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

    def apply(self, node: Instruction, inputs: list[Value]) -> Value:
        """The result of one instruction (no parameter) from the values of its operands."""
        simple = _SIMPLE.get(node.opcode)
        if simple is not None:
            return simple(node, *inputs)
        return _HANDLERS[node.opcode](self, node, inputs)

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
            if i in plan.dynamic:
                node, inputs = dynamic_shapes.actual(node, inputs)
            value = self.apply(node, inputs)
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


def _constant(node: Instruction) -> Value:
    assert isinstance(node.attributes, ConstantAttributes)
    return literal_value(node.attributes.literal)


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
    if function is None and node.is_decomposed_call:
        return interpreter.run(node.called[0], inputs)
    if function is None:
        known = ", ".join(sorted(interpreter.custom_calls)) or "none"
        raise UnimplementedError(
            f"no custom call '{a.target}' was given to the evaluator (known: {known}); "
            "pass custom_calls={name: function}"
        )
    operands = [leaf for value in inputs for leaf in flatten_value(value) if leaf is not None]
    leaves = [s for s in node.shape.flatten() if s.is_array]
    results = [np.zeros(s.dimensions, s.element_type.numpy_dtype) for s in leaves]
    function([np.asarray(x, order="C") for x in operands], results, a)  # scalars stay scalars
    return unflatten_value(node.shape, results)


def _rng_get_and_update_state(
    interpreter: Interpreter, node: Instruction, inputs: list[Value]
) -> Value:
    assert isinstance(node.attributes, RngGetAndUpdateStateAttributes)
    return interpreter.advance_rng_state(node.attributes.delta).reshape(node.shape.dimensions)


def _exchanging(meaning: Callable[..., Value]) -> Handler:
    return lambda interpreter, node, inputs: meaning(
        node, inputs, interpreter.participant, interpreter.run
    )


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
    Opcode.RAGGED_DOT: contractions.ragged_dot,
    Opcode.SCALED_DOT: contractions.scaled_dot,
    Opcode.SET_DIMENSION_SIZE: dynamic_shapes.set_dimension_size,
    Opcode.ALL_REDUCE_DONE: lambda node, value: value,
    Opcode.ALL_GATHER_DONE: lambda node, value: value[1],
    Opcode.COLLECTIVE_PERMUTE_DONE: lambda node, value: value[1],
    Opcode.COPY_START: transfers.copy_start,
    Opcode.COPY_DONE: lambda node, value: value[0],
    Opcode.ASYNC_UPDATE: lambda node, value: value,
    Opcode.ASYNC_DONE: lambda node, value: value[1],
    Opcode.SEND_DONE: lambda node, value: None,
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
    Opcode.PARTITION_ID: lambda i, node, v: np.asarray(i.participant.partition, np.uint32),
    Opcode.REPLICA_ID: lambda i, node, v: np.asarray(i.participant.replica, np.uint32),
    Opcode.INFEED: transfers.infeed,
    Opcode.OUTFEED: transfers.outfeed,
    Opcode.SEND: transfers.send,
    Opcode.RECV: transfers.recv,
    Opcode.RECV_DONE: transfers.recv_done,
    Opcode.ASYNC_START: transfers.async_start,
    **dict.fromkeys(COLLECTIVES, _exchanging(collectives.collective)),
    Opcode.ALL_REDUCE_START: _exchanging(collectives.collective),
    Opcode.ALL_GATHER_START: _exchanging(collectives.collective_start),
    Opcode.COLLECTIVE_PERMUTE_START: _exchanging(collectives.collective_start),
}


def evaluate_computation(
    computation: Computation,
    arguments: Sequence[Value],
    *,
    custom_calls: Mapping[str, CustomCall] | None = None,
    seed: int | None = None,
    host: Host | None = None,
    participant: Participant | None = None,
) -> Value:
    """Value of the root: an array, a tuple of values, or None for a token.

    Args:
      arguments: one value per parameter (tuples for tuple parameters).
      custom_calls: target name to `fn(operands, results, attributes)`, which fills `results` in
      place.
      seed: of the generator behind the `rng` opcode; None: different on each call.
      host: the other end of infeed, outfeed and host transfers; None: empty queues.
      participant: which one this is; None: the only one.
    Raises:
      UnimplementedError: a custom call has no meaning here, or a collective needs more
      participants (see `evaluate_partitioned`).
      RuntimeFailure: a read from a queue that is empty.
    """
    with np.errstate(all="ignore"):  # inf, NaN and wrapping are values here, not errors
        return Interpreter(custom_calls, seed, participant, host).run(computation, arguments)


def evaluate(
    module: HloModule,
    args: Sequence[np.ndarray],
    *,
    custom_calls: Mapping[str, CustomCall] | None = None,
    seed: int | None = None,
    host: Host | None = None,
    participant: Participant | None = None,
) -> list[np.ndarray]:
    """Run a module with NumPy; this is the meaning that passes and compiled code are compared with.

    Args:
      args: flat parameter leaves in order (a tuple parameter takes as many as it has leaves).
      custom_calls, seed, host, participant: as for `evaluate_computation`.
    Returns:
      The leaves of the result in order, as row-major arrays. Tokens are left out.
    Raises:
      ValueError: number, type or shape of an argument differs from the parameter's.
      UnimplementedError, RuntimeFailure: as for `evaluate_computation`.
    """
    arguments = bind_arguments(module, args)
    assert module.entry is not None
    return result_leaves(
        evaluate_computation(
            module.entry,
            arguments,
            custom_calls=custom_calls,
            seed=seed,
            host=host,
            participant=participant,
        )
    )
