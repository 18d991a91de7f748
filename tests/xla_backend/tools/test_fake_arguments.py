"""Random arguments that make sense: indices in range, neutral initial values, solvable systems."""

from __future__ import annotations

import numpy as np
import pytest

from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.parser import parse_module
from xla_backend.tools.fake_arguments import fake_arguments

BINARY = """
  op {{
    a = {type}[] parameter(0)
    b = {type}[] parameter(1)
    ROOT c = {type}[] {op}(a, b)
  }}"""

# Name -> (text, number of the argument, largest index that it may hold).
INDICES = {
    "dynamic-slice": (
        """ENTRY e {
          x = f32[10] parameter(0)
          i = s32[] parameter(1)
          ROOT r = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}
        }""",
        1,
        6,
    ),
    "dynamic-update-slice, through a convert": (
        """ENTRY e {
          x = f32[10] parameter(0)
          u = f32[3] parameter(1)
          i = u8[] parameter(2)
          j = s32[] convert(i)
          ROOT r = f32[10] dynamic-update-slice(x, u, j)
        }""",
        2,
        7,
    ),
    "gather": (
        """ENTRY e {
          x = f32[7,3] parameter(0)
          i = s32[50,1] parameter(1)
          ROOT r = f32[50,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
            start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
        }""",
        1,
        6,
    ),
    "scatter of windows, as floats": (
        """
        set { a = f32[] parameter(0)  ROOT b = f32[] parameter(1) }
        ENTRY e {
          x = f32[9] parameter(0)
          f = f32[50,1] parameter(1)
          u = f32[50,4] parameter(2)
          i = s32[50,1] convert(f)
          ROOT r = f32[9] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={},
            scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=set
        }""",
        1,
        5,
    ),
    "inside a loop": (
        """
        cond {
          t = (s32[], s32[20], f32[8]) parameter(0)
          n = s32[] get-tuple-element(t), index=0
          three = s32[] constant(3)
          ROOT r = pred[] compare(n, three), direction=LT
        }
        body {
          t = (s32[], s32[20], f32[8]) parameter(0)
          n = s32[] get-tuple-element(t), index=0
          i = s32[20] get-tuple-element(t), index=1
          x = f32[8] get-tuple-element(t), index=2
          one = s32[] constant(1)
          m = s32[] add(n, one)
          j = s32[1] dynamic-slice(i, n), dynamic_slice_sizes={1}
          k = s32[] reshape(j)
          s = f32[2] dynamic-slice(x, k), dynamic_slice_sizes={2}
          y = f32[8] dynamic-update-slice(x, s, n)
          ROOT r = (s32[], s32[20], f32[8]) tuple(m, i, y)
        }
        ENTRY e {
          i = s32[20] parameter(0)
          x = f32[8] parameter(1)
          z = s32[] constant(0)
          t = (s32[], s32[20], f32[8]) tuple(z, i, x)
          ROOT w = (s32[], s32[20], f32[8]) while(t), condition=cond, body=body
        }""",
        0,
        6,
    ),
}


@pytest.mark.parametrize("text, number, limit", INDICES.values(), ids=INDICES)
def test_indices_stay_in_range(text: str, number: int, limit: int) -> None:
    seen = set()
    for seed in range(20):
        values = fake_arguments(parse_module(text), seed)[number]
        assert ((values >= 0) & (values <= limit)).all()
        seen |= set(values.reshape(-1).tolist())
    assert len(seen) > 1


NEUTRAL = [
    ("f32", "add", 0.0),
    ("s8", "multiply", 1),
    ("bf16", "maximum", "lowest"),
    ("u16", "minimum", 65535),
    ("s16", "maximum", -32768),
    ("pred", "and", True),
    ("s32", "and", -1),
    ("pred", "or", False),
]


@pytest.mark.parametrize("type_, op, expected", NEUTRAL)
def test_reductions_start_from_the_neutral_element(type_: str, op: str, expected) -> None:  # type: ignore[no-untyped-def]
    text = (
        BINARY.format(type=type_, op=op)
        + f"""
      ENTRY e {{
        x = {type_}[6] parameter(0)
        i = {type_}[] parameter(1)
        ROOT r = {type_}[] reduce(x, i), dimensions={{0}}, to_apply=op
      }}"""
    )
    module = parse_module(text)
    array, init = fake_arguments(module)
    if expected == "lowest":
        assert float(init) < -3e38
    else:
        assert init == expected
    (result,) = evaluate(module, [array, init])
    assert result in array or op in ("add", "multiply", "and", "or")


@pytest.mark.parametrize("type_", ["f32", "f64", "c64"])
def test_matrices_can_be_factored(type_: str) -> None:
    module = parse_module(f"""ENTRY e {{
        a = {type_}[2,5,5] parameter(0)
        ROOT r = {type_}[2,5,5] cholesky(a), lower=true
    }}""")
    (a,) = fake_arguments(module)
    assert (np.linalg.eigvalsh(a) > 0).all()
    np.testing.assert_array_equal(a, a.conj().swapaxes(-1, -2))


ALL_TYPES = "pred s2 s4 s8 s16 s32 s64 u2 u4 u8 u16 u32 u64 f8e5m2 f8e4m3fn f16 bf16 f32 f64 c64"


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("type_", ALL_TYPES.split())
def test_every_type_can_be_drawn(type_: str, large: bool) -> None:
    module = parse_module(f"""ENTRY e {{
        t = ({type_}[100], {type_}[]) parameter(0)
        ROOT r = {type_}[100] get-tuple-element(t), index=0
    }}""")
    arrays = fake_arguments(module, 1, large_range=large)
    again = fake_arguments(module, 1, large_range=large)
    assert [a.shape for a in arrays] == [(100,), ()]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(arrays, again))
    assert len(set(arrays[0].tolist())) > 1
    assert np.isfinite(arrays[0].astype(complex)).all()


def test_large_floats_span_many_magnitudes() -> None:
    module = parse_module("ENTRY e { x = f32[1000] parameter(0)  ROOT r = f32[1000] negate(x) }")
    (x,) = fake_arguments(module, large_range=True)
    assert np.abs(x).max() > 1e20 and np.abs(x).min() < 1e-20
