"""Dynamic dimensions: a value has the size it has, its shape says how large it can be."""

import numpy as np
import pytest

from xla_backend.hlo.errors import RuntimeFailure, UnimplementedError
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.verifier import verify

CALLEES = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
lt { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
"""
X = np.arange(12, dtype=np.float32).reshape(2, 6) - 4
CUT = X[:, :4]
# instruction on d, which is x (2 x 6) with its second dimension set to n; and NumPy's answer
CASES = [
    ("f32[2,<=6] negate(d)", -CUT),
    ("f32[2,<=6] add(d, d)", CUT + CUT),
    ("f32[2,<=6] add(d, x)", CUT + CUT),
    ("s32[2,<=6] convert(d)", CUT.astype(np.int32)),
    ("f32[<=6,2] transpose(d), dimensions={1,0}", CUT.T),
    ("f32[2,<=6] reverse(d), dimensions={1}", CUT[:, ::-1]),
    ("f32[4,<=6] concatenate(d, d), dimensions={0}", np.concatenate([CUT, CUT])),
    ("f32[2,<=12] concatenate(d, x), dimensions={1}", np.concatenate([CUT, X], 1)),
    ("f32[3,2,<=6] broadcast(d), dimensions={1,2}", np.broadcast_to(CUT, (3, 2, 4))),
    ("f32[2,<=7] pad(d, z), padding=0_0x1_0", np.pad(CUT, ((0, 0), (1, 0)))),
    ("f32[2,<=5] slice(d), slice={[0:2:1], [1:6:1]}", CUT[:, 1:]),
    ("f32[<=12] reshape(d)", CUT.reshape(-1)),
    ("f32[2] reduce(d, z), dimensions={1}, to_apply=add", CUT.sum(1)),
    ("f32[<=6] reduce(d, z), dimensions={0}, to_apply=add", CUT.sum(0)),
    (
        "f32[2,<=5] reduce-window(d, z), window={size=1x2}, to_apply=add",
        CUT[:, 1:] + CUT[:, :-1],
    ),
    ("f32[2,<=6] sort(d), dimensions={1}, to_apply=lt", np.sort(CUT, 1)),
    ("f32[2,2] dot(d, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}", CUT @ CUT.T),
    ("s32[] get-dimension-size(d), dimensions={1}", np.int32(4)),
    ("f32[2,<=6] set-dimension-size(d, six), dimensions={1}", np.pad(CUT, ((0, 0), (0, 2)))),
    ("f32[<=6,2] dynamic-reshape(d, n, two)", CUT.reshape(4, 2)),
    ("(f32[2,<=6], s32[]) tuple(d, n)", CUT),
    (
        "f32[<=6,2] gather(d, i), offset_dims={0}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}",
        CUT[[1, 0]].T,
    ),
]


def module_of(line):
    module = parse_module(f"""{CALLEES}ENTRY e {{ x = f32[2,6] parameter(0)
  n = s32[] parameter(1)
  z = f32[] constant(0)
  two = s32[] constant(2)
  six = s32[] constant(6)
  i = s32[2,1] constant({{{{1}}, {{0}}}})
  d = f32[2,<=6] set-dimension-size(x, n), dimensions={{1}}
  ROOT r = {line} }}""")
    verify(module)
    return module


@pytest.mark.parametrize("line, expected", CASES, ids=[c[0] for c in CASES])
def test_actual_sizes(line, expected):
    got = evaluate(module_of(line), [X, np.int32(4)])[0]
    np.testing.assert_array_equal(got, expected)


def test_nothing_left():
    assert evaluate(module_of("f32[2,<=6] negate(d)"), [X, np.int32(0)])[0].shape == (2, 0)


def test_arguments_of_bounded_size():
    module = parse_module("ENTRY e { x = f32[<=4] parameter(0)\n ROOT r = f32[<=4] add(x, x) }")
    verify(module)
    np.testing.assert_array_equal(evaluate(module, [np.ones(3, np.float32)])[0], [2, 2, 2])
    with pytest.raises(ValueError, match=r"is f32\[<=4\], got float32 \[5\]"):
        evaluate(module, [np.ones(5, np.float32)])


def test_a_size_beyond_the_bound():
    with pytest.raises(RuntimeFailure, match="sets size 7, the dimension has 6"):
        evaluate(module_of("f32[2,<=6] negate(d)"), [X, np.int32(7)])


def test_a_reshape_that_does_not_tell():
    with pytest.raises(UnimplementedError, match="use dynamic-reshape"):
        evaluate(module_of("f32[3,4] reshape(d)"), [X, np.int32(4)])


def test_constants_may_be_tuples():
    module = parse_module("ENTRY e { ROOT c = (f32[2], (s32[])) constant(({1, 2}, (7))) }")
    verify(module)
    first, second = evaluate(module, [])
    np.testing.assert_array_equal(first, [1, 2])
    assert int(second) == 7
