"""Arguments for a module of which nothing is known: random, the same for the same seed, and such
that the program means something.

Numbers that end up as indices stay in range, initial values of reductions are the neutral element,
and matrices to be factored can be: where a parameter goes is followed through instructions that
hand its elements on.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence

import ml_dtypes
import numpy as np

from xla_backend.hlo.attributes import (
    DynamicSliceAttributes,
    GatherAttributes,
    ScatterAttributes,
)
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.process.light_dataclasses import dataclass

_FLOAT_RANGE = (-0.5, 0.5)
_INTEGER_RANGE = (-50, 50)
_HANDS_ON = frozenset(
    {
        Opcode.BITCAST,
        Opcode.BROADCAST,
        Opcode.CONCATENATE,
        Opcode.CONVERT,
        Opcode.COPY,
        Opcode.DYNAMIC_SLICE,
        Opcode.GATHER,
        Opcode.OPT_BARRIER,
        Opcode.RESHAPE,
        Opcode.REVERSE,
        Opcode.SLICE,
        Opcode.TRANSPOSE,
    }
)
_REDUCERS = frozenset({Opcode.REDUCE, Opcode.REDUCE_WINDOW})
_ONE = frozenset({Opcode.MULTIPLY, Opcode.AND})


@dataclass(slots=True)
class _Use:
    """What the uses of one parameter leaf ask of its elements."""

    index_limit: int | None = None  # elements are indices in [0, limit]
    neutral_of: Opcode | None = None  # a reduction by this operation starts from it
    positive_definite: bool = False
    dominant_diagonal: bool = False


def fake_arguments(
    module: HloModule, seed: int = 0, *, large_range: bool = False
) -> list[np.ndarray]:
    """One array per array leaf of the module's parameters, in order.

    Args:
      seed: equal seeds give equal arrays.
      large_range: floats spread over all magnitudes of their type instead of [-0.5, 0.5).

    >>> from xla_backend.hlo.parser import parse_module
    >>> module = parse_module("ENTRY e { x = s32[2] parameter(0)  ROOT r = s32[2] negate(x) }")
    >>> [a.shape for a in fake_arguments(module)]
    [(2,)]
    """
    assert module.entry is not None
    arrays = []
    for parameter in module.entry.parameters:
        # By name, so that a parameter keeps its values while others come and go.
        rng = np.random.default_rng([seed, zlib.crc32(parameter.name.encode())])
        for path, shape in _leaves(parameter.shape):
            if shape.is_array:
                arrays.append(_draw(rng, shape, _use_of(parameter, path), large_range))
    return arrays


def _leaves(shape: Shape, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Shape]]:
    if not shape.is_tuple:
        yield path, shape
        return
    for i, member in enumerate(shape.tuple_shapes):
        yield from _leaves(member, (*path, i))


# -- what the uses ask for -------------------------------------------------------------------------


def _use_of(parameter: Instruction, path: tuple[int, ...]) -> _Use:
    use = _Use()
    seen = {(parameter, path)}
    stack = [(parameter, path)]
    while stack:
        node, path = stack.pop()
        for user in node.users:
            for number, operand in enumerate(user.operands):
                if operand is node:
                    if not path:
                        _note(use, user, number)
                    for following in _followed(user, number, path):
                        if following not in seen:
                            seen.add(following)
                            stack.append(following)
    return use


def _followed(
    user: Instruction, number: int, path: tuple[int, ...]
) -> Iterator[tuple[Instruction, tuple[int, ...]]]:
    """Where the elements of operand `number` of `user`, at `path` inside it, appear again."""
    opcode = user.opcode
    if opcode is Opcode.GET_TUPLE_ELEMENT:
        if path[0] == user.tuple_index:
            yield user, path[1:]
    elif opcode is Opcode.TUPLE:
        yield user, (number, *path)
    elif opcode is Opcode.WHILE:
        yield user, path
        for computation in user.called:
            yield computation.parameters[0], path
    elif opcode is Opcode.CONDITIONAL:
        if number > 0:
            yield user.called[number - 1].parameters[0], path
    elif opcode in (Opcode.CALL, Opcode.FUSION):
        yield user.called[0].parameters[number], path
    elif opcode in _HANDS_ON and (number == 0 or opcode is Opcode.CONCATENATE):
        yield user, path


def _note(use: _Use, user: Instruction, number: int) -> None:
    opcode = user.opcode
    limit = _index_limit(user, number)
    if limit is not None:
        use.index_limit = limit if use.index_limit is None else min(use.index_limit, limit)
    elif opcode in _REDUCERS and number >= len(user.operands) // 2:
        root = user.called[0].root
        assert root is not None
        use.neutral_of = root.opcode
    elif opcode is Opcode.SELECT_AND_SCATTER and number == 2:
        use.neutral_of = Opcode.ADD
    elif opcode is Opcode.CHOLESKY:
        use.positive_definite = True
    elif opcode is Opcode.TRIANGULAR_SOLVE and number == 0:
        use.dominant_diagonal = True


def _index_limit(user: Instruction, number: int) -> int | None:
    """The largest start index that keeps the window inside, if this operand is an index."""
    sizes = user.operands[0].shape.dimensions
    attributes = user.attributes
    if isinstance(attributes, DynamicSliceAttributes) and number >= 1:
        return sizes[number - 1] - attributes.sizes[number - 1]
    if user.opcode is Opcode.DYNAMIC_UPDATE_SLICE and number >= 2:
        return sizes[number - 2] - user.operands[1].shape.dimensions[number - 2]
    if isinstance(attributes, GatherAttributes) and number == 1:
        window = attributes.slice_sizes
        return min((sizes[d] - window[d] for d in attributes.start_index_map), default=0)
    if isinstance(attributes, ScatterAttributes) and number == len(user.operands) // 2:
        # Windows may be wider than one element; staying that far from the end is always inside.
        return min((sizes[d] - _window(user, d) for d in _scattered(attributes)), default=0)
    return None


def _scattered(attributes: ScatterAttributes) -> Sequence[int]:
    return attributes.scatter_dims_to_operand_dims


def _window(scatter: Instruction, dimension: int) -> int:
    """Extent of a scatter's update window along an operand dimension."""
    attributes = scatter.attributes
    assert isinstance(attributes, ScatterAttributes)
    absent = {*attributes.inserted_window_dims, *attributes.input_batching_dims}
    present = [d for d in range(scatter.operands[0].shape.rank) if d not in absent]
    if dimension in absent:
        return 1
    updates = scatter.operands[-1].shape.dimensions
    return updates[attributes.update_window_dims[present.index(dimension)]]


# -- drawing ---------------------------------------------------------------------------------------


def _draw(rng: np.random.Generator, shape: Shape, use: _Use, large_range: bool) -> np.ndarray:
    type_, dims = shape.element_type, shape.dimensions
    dtype = type_.numpy_dtype
    if use.neutral_of is not None:
        return _neutral(use.neutral_of, shape)
    if dtype == np.bool_:
        return rng.integers(0, 2, dims).astype(dtype)
    if type_.is_integral:
        return _integers(rng, shape, use.index_limit)
    if type_.is_complex:
        values = _reals(rng, dims, False) + 1j * _reals(rng, dims, False)
    else:
        values = _reals(rng, dims, large_range, 0.8 * math.log10(_largest(dtype)))
    if use.index_limit is not None:
        values = np.floor(rng.uniform(0, use.index_limit + 1, dims))
    if use.positive_definite or use.dominant_diagonal:
        values = _well_conditioned(values, use.positive_definite)
    return np.asarray(values).astype(dtype)


def _largest(dtype: np.dtype) -> float:
    """Largest finite value of a floating type, narrow ones included."""
    return float(ml_dtypes.finfo(dtype).max)


def _reals(
    rng: np.random.Generator, dims: tuple[int, ...], large: bool, decades: float = 0.0
) -> np.ndarray:
    if not large:
        return rng.uniform(*_FLOAT_RANGE, dims)
    return np.exp(rng.uniform(-decades, decades, dims) * math.log(10)) * rng.choice([-1, 1], dims)


def _integers(rng: np.random.Generator, shape: Shape, limit: int | None) -> np.ndarray:
    type_ = shape.element_type
    signed = type_.is_signed_integral
    bits = type_.bits - signed
    low, high = _INTEGER_RANGE if signed else (0, 2 * _INTEGER_RANGE[1])
    if limit is not None:
        low, high = 0, max(limit, 0) + 1
    low, high = max(low, -(2**bits) if signed else 0), min(high, 2**bits)
    return rng.integers(low, high, shape.dimensions).astype(type_.numpy_dtype)


def _neutral(opcode: Opcode, shape: Shape) -> np.ndarray:
    """What a reduction by `opcode` starts from: 1, an extreme value, or 0."""
    dtype = shape.element_type.numpy_dtype
    value: float = 1 if opcode in _ONE else 0
    if opcode in (Opcode.MAXIMUM, Opcode.MINIMUM):
        sign = -1 if opcode is Opcode.MAXIMUM else 1
        if shape.element_type.is_floating:
            value = sign * _largest(dtype)
        elif shape.element_type.is_integral:
            bits = shape.element_type.bits
            signed = shape.element_type.is_signed_integral
            low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
            return np.full(shape.dimensions, low if sign < 0 else high, np.object_).astype(dtype)
        else:
            value = sign > 0
    if opcode is Opcode.AND and shape.element_type.is_integral:
        return np.invert(np.zeros(shape.dimensions, dtype))
    return np.full(shape.dimensions, value).astype(dtype)


def _well_conditioned(values: np.ndarray, positive_definite: bool) -> np.ndarray:
    """Square matrices with a dominant diagonal; Hermitian ones where asked for."""
    n = values.shape[-1]
    if positive_definite:
        values = (values + values.conj().swapaxes(-1, -2)) / 2
    return values + n * np.eye(n)
