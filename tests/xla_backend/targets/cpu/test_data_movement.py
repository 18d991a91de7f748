"""Programs that only move data run without being compiled, with the evaluator's values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_backend.hlo.attributes import (
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    SliceAttributes,
)
from xla_backend.hlo.builder import HloBuilder
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode as O
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.targets.cpu.client import CpuClient

_CLIENT = CpuClient()


def _run(module, arguments):
    executable = _CLIENT.find_movement(module)
    assert executable is not None, module.as_hlo_text()
    return executable.run_arrays(arguments)


def _check(module, arguments):
    for got, want in zip(_run(module, arguments), evaluate(module, arguments), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        assert got.tobytes() == np.ascontiguousarray(want).tobytes(), module.as_hlo_text()


def _program(body, called=""):
    return parse_module(f"HloModule m\n{called}ENTRY e {{\n{body}\n}}")


TYPES = (P.PRED, P.U8, P.BF16, P.F16, P.S32, P.F32, P.F64, P.C64, P.C128, P.F8E4M3FN)


def _bits(shape, seed=0):
    """Random bits, among them those of all kinds of NaN."""
    dtype = shape.element_type.numpy_dtype
    raw = np.random.default_rng(seed).integers(0, 256, shape.byte_size, np.uint8)
    if shape.element_type is P.PRED:
        raw = raw & 1
    return raw.view(dtype).reshape(shape.dimensions)


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_elements_of_each_size(type):
    b = HloBuilder("e")
    x = b.parameter(0, Shape(type, (3, 4, 5)))
    turned = b.add(O.TRANSPOSE, (x,), DimensionsAttributes((2, 0, 1)))
    module = HloModule("m")
    module.add_computation(
        b.build(b.add(O.REVERSE, (turned,), DimensionsAttributes((1,)))), entry=True
    )
    _check(module, [_bits(x.shape)])


class _Chain:
    """Random operations that move data, one after another."""

    def __init__(self, data):
        self.draw = data.draw
        self.b = HloBuilder("e")

    def node(self, x: Instruction) -> Instruction:
        steps = [self.transpose, self.slice, self.reverse, self.broadcast, self.reshape,
                 self.concatenate, self.pad, self.dynamic_slice, self.update]  # fmt: skip
        return self.draw(st.sampled_from(steps))(x)

    def ints(self, low, high, count):
        return tuple(self.draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    def transpose(self, x):
        order = self.draw(st.permutations(range(x.shape.rank)))
        return self.b.add(O.TRANSPOSE, (x,), DimensionsAttributes(tuple(order)))

    def slice(self, x):
        dims = x.shape.dimensions
        starts = tuple(self.draw(st.integers(0, n)) for n in dims)
        limits = tuple(self.draw(st.integers(a, n)) for a, n in zip(starts, dims))
        strides = self.ints(1, 3, len(dims))
        return self.b.add(O.SLICE, (x,), SliceAttributes(starts, limits, strides))

    def reverse(self, x):
        chosen = self.draw(st.sets(st.sampled_from(range(x.shape.rank)))) if x.shape.rank else ()
        return self.b.add(O.REVERSE, (x,), DimensionsAttributes(tuple(sorted(chosen))))

    def broadcast(self, x):
        dims, places = [], []
        for d in x.shape.dimensions:
            dims += self.ints(1, 2, self.draw(st.integers(0, 1)))
            places.append(len(dims))
            dims.append(d)
        shape = x.shape.with_dimensions(tuple(dims))
        return self.b.add(O.BROADCAST, (x,), DimensionsAttributes(tuple(places)), shape=shape)

    def reshape(self, x):
        total = x.shape.num_elements
        divisors = [d for d in range(1, total + 1) if total % d == 0] or [0]
        first = self.draw(st.sampled_from(divisors))
        dims = self.draw(
            st.sampled_from([(total,), (first, total // max(first, 1)), (1, total, 1)])
        )
        return self.b.add(O.RESHAPE, (x,), shape=x.shape.with_dimensions(dims))

    def concatenate(self, x):
        if not x.shape.rank:
            return x
        d = self.draw(st.integers(0, x.shape.rank - 1))
        back = self.b.add(O.REVERSE, (x,), DimensionsAttributes((d,)))
        return self.b.add(O.CONCATENATE, (x, back, x), DimensionsAttributes((d,)))

    def pad(self, x):
        low, high, interior = (self.ints(0, 2, x.shape.rank) for _ in range(3))
        value = self.b.constant(np.array(7, x.shape.element_type.numpy_dtype))
        return self.b.add(O.PAD, (x, value), PadAttributes(low, high, interior))

    def starts(self, count):
        """Some are outside."""
        return [self.b.constant(np.array(i, np.int32)) for i in self.ints(-2, 6, count)]

    def dynamic_slice(self, x):
        sizes = tuple(self.draw(st.integers(0, n)) for n in x.shape.dimensions)
        return self.b.add(
            O.DYNAMIC_SLICE, (x, *self.starts(len(sizes))), DynamicSliceAttributes(sizes)
        )

    def update(self, x):
        part = self.slice(x)
        starts = self.starts(x.shape.rank)
        return self.b.add(O.DYNAMIC_UPDATE_SLICE, (x, part, *starts))


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_random_chains(data):
    chain = _Chain(data)
    dims = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    x = chain.b.parameter(0, Shape(P.S16, dims))
    node = x
    for _ in range(data.draw(st.integers(1, 5))):
        node = chain.node(node)
        if node.shape.num_elements > 600 or node.shape.rank > 6:
            break
    module = HloModule("m")
    module.add_computation(chain.b.build(chain.b.tuple([node, x])), entry=True)
    executable = _CLIENT.find_movement(module)
    if executable is None:  # too many steps, or dimensions
        return
    arguments = [np.arange(x.shape.num_elements, dtype=np.int16).reshape(dims)]
    for got, want in zip(executable.run_arrays(arguments), evaluate(module, arguments)):
        np.testing.assert_array_equal(got, want, module.as_hlo_text())


_ROW = """p = f32[5,7] parameter(0)
  i = s32[] parameter(1)
  zero = s32[] constant(0)
  row = f32[1,7] dynamic-slice(p, i, zero), dynamic_slice_sizes={1,7}
  ROOT r = f32[7] reshape(row)"""
_SET = "region {\n a = f32[] parameter(0)\n ROOT b = f32[] parameter(1)\n}\n"
_UPDATE = """p = f32[5,7] parameter(0)
  i = TYPE[] parameter(1)
  at = TYPE[1] reshape(i)
  u = f32[3] parameter(2)
  ROOT s = f32[5,7] scatter(p, at, u), update_window_dims={0}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=region"""


@pytest.mark.parametrize("index", [0, 3, 4, 5, -1, 2**31 - 1, -(2**31)])
def test_places_that_are_known_when_it_runs(index):
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    _check(_program(_ROW), [x, np.int32(index)])
    u = np.array([-1, -2, -3], np.float32)
    _check(_program(_UPDATE.replace("TYPE", "s32"), _SET), [x, np.int32(index), u])
    _check(_program(_UPDATE.replace("TYPE", "s64"), _SET), [x, np.int64(index) * 2**20, u])


_OTHERS = {
    "arithmetic": "x = f32[4] parameter(0)\n  ROOT y = f32[4] negate(x)",
    "large": """x = f32[2000,2000] parameter(0)
  ROOT y = f32[2000,2000] transpose(x), dimensions={1,0}""",
    "places of other types": """p = f32[5,7] parameter(0)
  i = u8[] parameter(1)
  ROOT row = f32[1,1] dynamic-slice(p, i, i), dynamic_slice_sizes={1,1}""",
    "negative padding": """p = f32[5] parameter(0)
  z = f32[] constant(0)
  ROOT y = f32[4] pad(p, z), padding=-1_0""",
}


@pytest.mark.parametrize("body", _OTHERS.values(), ids=_OTHERS)
def test_other_programs_are_compiled(body):
    assert _CLIENT.find_movement(_program(body)) is None


def test_combining_scatters_are_compiled():
    add = (
        "region {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"
    )
    assert _CLIENT.find_movement(_program(_UPDATE.replace("TYPE", "s32"), add)) is None


def test_a_part_of_something_large_needs_no_compiler():
    x = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    body = (
        "p = f32[1024,1024] parameter(0)\n  ROOT s = f32[2,1024] slice(p), slice={[7:9],[0:1024]}"
    )
    _check(_program(body), [x])
