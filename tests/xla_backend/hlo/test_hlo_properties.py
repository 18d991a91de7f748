"""Random graphs: printing, parsing and evaluating agree; the verifier accepts what the builder
builds."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_backend.hlo.attributes import (
    ComparisonDirection,
    DimensionsAttributes,
    PadAttributes,
    SliceAttributes,
)
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType
from xla_backend.hlo.verifier import verify

FLOAT_UNARY = [
    Opcode.ABS,
    Opcode.NEGATE,
    Opcode.TANH,
    Opcode.EXPONENTIAL,
    Opcode.FLOOR,
    Opcode.SIGN,
    Opcode.LOGISTIC,
]
BINARY = [Opcode.ADD, Opcode.SUBTRACT, Opcode.MULTIPLY, Opcode.MAXIMUM, Opcode.DIVIDE]
TYPES = [
    PrimitiveType.F32,
    PrimitiveType.S32,
    PrimitiveType.BF16,
    PrimitiveType.F64,
    PrimitiveType.U8,
]


def _add_random(builder, values, draw):
    """One more instruction on random earlier values."""
    x = draw(st.sampled_from(values))
    dimensions, rank = x.shape.dimensions, x.shape.rank
    choice = draw(
        st.sampled_from(
            "unary binary convert select transpose reverse slice pad concat reshape "
            "broadcast".split()
        )
    )
    if choice == "unary":
        floating = x.shape.element_type.is_floating
        return builder.add(
            draw(st.sampled_from(FLOAT_UNARY if floating else [Opcode.NEGATE, Opcode.ABS])), (x,)
        )
    if choice == "binary":
        partners = [v for v in values if v.shape == x.shape]
        return builder.add(draw(st.sampled_from(BINARY)), (x, draw(st.sampled_from(partners))))
    if choice == "convert":
        return builder.convert(x, draw(st.sampled_from(TYPES)))
    if choice == "select":
        partners = [v for v in values if v.shape == x.shape]
        y = draw(st.sampled_from(partners))
        pred = builder.compare(x, y, draw(st.sampled_from(list(ComparisonDirection))))
        return builder.add(Opcode.SELECT, (pred, x, y))
    if choice == "transpose":
        return builder.transpose(x, draw(st.permutations(range(rank))))
    if choice == "reverse" and rank:
        return builder.add(
            Opcode.REVERSE, (x,), DimensionsAttributes((draw(st.integers(0, rank - 1)),))
        )
    if choice == "slice":
        starts = tuple(draw(st.integers(0, d)) for d in dimensions)
        limits = tuple(draw(st.integers(s, d)) for s, d in zip(starts, dimensions))
        strides = tuple(draw(st.integers(1, 3)) for _ in dimensions)
        return builder.add(Opcode.SLICE, (x,), SliceAttributes(starts, limits, strides))
    if choice == "pad":
        zero = builder.constant(np.zeros((), x.shape.element_type.numpy_dtype))
        low, high = (tuple(draw(st.integers(0, 2)) for _ in dimensions) for _ in "ab")
        interior = tuple(draw(st.integers(0, 1)) for _ in dimensions)
        return builder.add(Opcode.PAD, (x, zero), PadAttributes(low, high, interior))
    if choice == "concat" and rank:
        return builder.add(
            Opcode.CONCATENATE, (x, x), DimensionsAttributes((draw(st.integers(0, rank - 1)),))
        )
    if choice == "reshape":
        return builder.reshape(x, (x.shape.num_elements,))
    return builder.broadcast(x, (2, *dimensions), range(1, rank + 1))


@st.composite
def modules(draw):
    builder = HloBuilder("main")
    values = []
    for number in range(draw(st.integers(1, 3))):
        dimensions = draw(st.lists(st.integers(0, 3), max_size=3))
        values.append(
            builder.parameter(number, Shape.array(draw(st.sampled_from(TYPES)), dimensions))
        )
    if draw(st.booleans()):
        values.append(builder.constant(draw(st.floats(width=32)), np.dtype(np.float32)))
    for _ in range(draw(st.integers(0, 12))):
        node = _add_random(builder, values, draw)
        if node.shape.num_elements <= 2000:
            values.append(node)
    root = builder.tuple(values[-3:])
    module = HloModule("random")
    module.add_computation(builder.build(root), entry=True)
    return module


def _arguments(module, seed):
    rng = np.random.default_rng(seed)
    result = []
    for parameter in module.entry.parameters:
        shape = parameter.shape
        values = rng.integers(0, 9, shape.dimensions) - (
            4 if shape.element_type is not PrimitiveType.U8 else 0
        )
        result.append(np.asarray(values).astype(shape.element_type.numpy_dtype))
    return result


@settings(max_examples=120, deadline=None, database=None)
@given(modules(), st.integers(0, 100))
def test_text_and_value_survive(module, seed):
    verify(module)
    text = module_to_text(module)
    again = parse_module(text)
    verify(again)
    assert module_to_text(again) == text
    arguments = _arguments(module, seed)
    first, second = evaluate(module, arguments), evaluate(again, arguments)
    for a, b, shape in zip(first, second, module.entry.root.shape.flatten(), strict=True):
        assert a.tobytes() == b.tobytes()
        assert a.shape == shape.dimensions and a.dtype == shape.element_type.numpy_dtype


@settings(max_examples=60, deadline=None, database=None)
@given(modules(), st.integers(0, 100))
def test_clones_and_canonical_text_mean_the_same(module, seed):
    arguments = _arguments(module, seed)
    expected = evaluate(module, arguments)
    for other in (
        module.clone(),
        parse_module(module_to_text(module, "canonical", large_constants=True)),
    ):
        verify(other)
        for a, b in zip(expected, evaluate(other, arguments), strict=True):
            assert a.tobytes() == b.tobytes()


def test_leaves_are_numbered_through_nested_tuples() -> None:
    leaf = Shape.array(PrimitiveType.F32, (2,))
    shape = Shape.tuple([leaf, Shape.tuple([]), Shape.tuple([leaf, Shape.token()]), leaf])
    assert shape.leaf_starts == (0, 1, 1, 3, 4) and leaf.leaf_starts == (1,)
    assert shape.leaf_count == len(shape.flatten()) == 4
    assert [shape.leaf_number(i) for i in ((), (0,), (2,), (2, 1), (3,))] == [0, 0, 1, 2, 3]
