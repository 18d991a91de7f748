"""Converts, reshapes, transposes and concatenations moved to where they cost less."""

import pytest
from pass_checks import check_pass

from xla_backend.hlo.parser import parse_module
from xla_backend.passes.concatenate_mover import ConcatenateMover
from xla_backend.passes.convert_mover import ConvertMover
from xla_backend.passes.reshape_mover import ReshapeMover

CONVERTS = {
    "a gather takes rows of the narrow table": """
        ENTRY main {
          table = bf16[100,8] parameter(0)
          i = s32[3,1] parameter(1)
          wide = f32[100,8] convert(table)
          // CHECK: [[G:%[^ ]+]] = bf16[3,8] gather(
          // CHECK: ROOT {{.*}} = f32[3,8] convert([[G]])
          ROOT r = f32[3,8] gather(wide, i), offset_dims={1}, collapsed_slice_dims={0},
            start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}
        }""",
    "a small slice, although another reads the convert": """
        ENTRY main {
          p = f16[100] parameter(0)
          wide = f32[100] convert(p)
          // CHECK: f16[2] slice(
          s = f32[2] slice(wide), slice={[3:5]}
          t = f32[100] negate(wide)
          ROOT r = (f32[2], f32[100]) tuple(s, t)
        }""",
    "a concatenation of converts": """
        ENTRY main {
          p = s8[2] parameter(0)
          q = s8[3] parameter(1)
          a = s32[2] convert(p)
          b = s32[3] convert(q)
          // CHECK: s8[5] concatenate(
          ROOT r = s32[5] concatenate(a, b), dimensions={0}
        }""",
    "a narrowing convert goes before a transpose": """
        ENTRY main {
          p = f32[2,3] parameter(0)
          t = f32[3,2] transpose(p), dimensions={1,0}
          // CHECK: [[C:%[^ ]+]] = bf16[2,3] convert(
          // CHECK: ROOT {{.*}} = bf16[3,2] transpose([[C]])
          ROOT r = bf16[3,2] convert(t)
        }""",
    "a convert of copies converts the original": """
        ENTRY main {
          p = s32[3] parameter(0)
          b = s32[4,3] broadcast(p), dimensions={1}
          // CHECK: f32[3] convert(
          // CHECK: ROOT {{.*}} = f32[4,3] broadcast(
          ROOT r = f32[4,3] convert(b)
        }""",
}
CONVERTS_KEPT = {
    "narrowing in front of a slice": """
        ENTRY main {
          p = f32[8] parameter(0)
          n = bf16[8] convert(p)
          ROOT r = bf16[2] slice(n), slice={[0:2]}
        }""",
    "widening behind a transpose": """
        ENTRY main {
          p = bf16[2,3] parameter(0)
          t = bf16[3,2] transpose(p), dimensions={1,0}
          ROOT r = f32[3,2] convert(t)
        }""",
    "a slice of most of a convert with other readers": """
        ENTRY main {
          p = bf16[8] parameter(0)
          w = f32[8] convert(p)
          s = f32[7] slice(w), slice={[0:7]}
          ROOT r = (f32[8], f32[7]) tuple(w, s)
        }""",
    "a concatenation with one operand that is no convert": """
        ENTRY main {
          p = bf16[2] parameter(0)
          q = f32[2] parameter(1)
          w = f32[2] convert(p)
          ROOT r = f32[4] concatenate(w, q), dimensions={0}
        }""",
}


@pytest.mark.parametrize("text", CONVERTS.values(), ids=CONVERTS)
def test_converts_move(text: str) -> None:
    check_pass(ConvertMover(), text)


@pytest.mark.parametrize("text", CONVERTS_KEPT.values(), ids=CONVERTS_KEPT)
def test_converts_stay(text: str) -> None:
    check_pass(ConvertMover(), text, expect_change=False)


RESHAPES = {
    "below a chain": """
        ENTRY main {
          p = f32[6] parameter(0)
          q = f32[6] parameter(1)
          a = f32[2,3] reshape(p)
          b = f32[2,3] reshape(q)
          // CHECK: f32[6] add(
          s = f32[2,3] add(a, b)
          // CHECK: f32[6] sine(
          t = f32[2,3] sine(s)
          // CHECK: ROOT {{.*}} = f32[2,3] reshape(
          ROOT r = f32[2,3] negate(t)
        }""",
    "transposes, and a value that is the same everywhere": """
        ENTRY main {
          p = f32[2,3] parameter(0)
          two = f32[] constant(2)
          twos = f32[3,2] broadcast(two), dimensions={}
          t = f32[3,2] transpose(p), dimensions={1,0}
          // CHECK: f32[2,3] multiply(
          // CHECK: ROOT {{.*}} = f32[3,2] transpose(
          ROOT r = f32[3,2] multiply(t, twos)
        }""",
    "a select between rearranged arrays by a scalar": """
        ENTRY main {
          c = pred[] parameter(0)
          p = f32[2,3] parameter(1)
          q = f32[2,3] parameter(2)
          t = f32[3,2] transpose(p), dimensions={1,0}
          u = f32[3,2] transpose(q), dimensions={1,0}
          // CHECK: f32[2,3] select(
          ROOT r = f32[3,2] select(c, t, u)
        }""",
    "a bound that a reshape made a scalar": """
        ENTRY main {
          low = f32[] parameter(0)
          p = f32[2,3] parameter(1)
          h = f32[1,1] parameter(2)
          t = f32[3,2] transpose(p), dimensions={1,0}
          high = f32[] reshape(h)
          // CHECK: [[HIGH:%[^ ]+]] = f32[] reshape(
          // CHECK: f32[2,3] clamp({{.*}}, [[HIGH]])
          ROOT r = f32[3,2] clamp(low, t, high)
        }""",
    "element types may change": """
        ENTRY main {
          p = s32[6] parameter(0)
          a = s32[2,3] reshape(p)
          // CHECK: pred[6] compare(
          ROOT r = pred[2,3] compare(a, a), direction=LT
        }""",
}
RESHAPES_KEPT = {
    "other sources": """
        ENTRY main {
          p = f32[6] parameter(0)
          q = f32[3,2] parameter(1)
          a = f32[2,3] reshape(p)
          b = f32[2,3] reshape(q)
          ROOT r = f32[2,3] add(a, b)
        }""",
    "other permutations": """
        ENTRY main {
          p = f32[2,2,2] parameter(0)
          q = f32[2,2,2] parameter(1)
          a = f32[2,2,2] transpose(p), dimensions={1,0,2}
          b = f32[2,2,2] transpose(q), dimensions={2,1,0}
          ROOT r = f32[2,2,2] add(a, b)
        }""",
    "rearrangements that others read as well": """
        ENTRY main {
          p = f32[6] parameter(0)
          a = f32[2,3] reshape(p)
          n = f32[2,3] negate(a)
          ROOT r = (f32[2,3], f32[2,3]) tuple(a, n)
        }""",
    "an operand that is not rearranged": """
        ENTRY main {
          p = f32[6] parameter(0)
          q = f32[2,3] parameter(1)
          a = f32[2,3] reshape(p)
          ROOT r = f32[2,3] add(a, q)
        }""",
    "a bitcast-convert that adds a dimension": """
        ENTRY main {
          p = f32[6] parameter(0)
          a = f32[2,3] reshape(p)
          ROOT r = u16[2,3,2] bitcast-convert(a)
        }""",
}


@pytest.mark.parametrize("text", RESHAPES.values(), ids=RESHAPES)
def test_reshapes_move(text: str) -> None:
    check_pass(ReshapeMover(), text)


@pytest.mark.parametrize("text", RESHAPES_KEPT.values(), ids=RESHAPES_KEPT)
def test_reshapes_stay(text: str) -> None:
    check_pass(ReshapeMover(), text, expect_change=False)


CONCATENATES = {
    "each component is computed apart": """
        ENTRY main {
          a = f32[5] parameter(0)
          b = f32[5] parameter(1)
          x = f32[5,2] parameter(2)
          s = f32[5] parameter(3)
          c = f32[5,1] reshape(a)
          d = f32[5,1] reshape(b)
          v = f32[5,2] concatenate(c, d), dimensions={1}
          w = f32[5,2] broadcast(s), dimensions={0}
          y = f32[5,2] multiply(v, w)
          // CHECK: [[A:%[^ ]+]] = f32[5] parameter(0)
          // CHECK: [[S:%[^ ]+]] = f32[5] broadcast(
          // CHECK: f32[5] multiply([[A]], [[S]])
          // CHECK: f32[5] multiply(
          // CHECK: ROOT {{.*}} = f32[5,2] concatenate(
          ROOT r = f32[5,2] subtract(x, y)
        }""",
    "a component of the result is one of the parts": """
        ENTRY main {
          a = f32[5,1] parameter(0)
          b = f32[5,1] parameter(1)
          two = f32[] constant(2)
          w = f32[5,2] broadcast(two), dimensions={}
          v = f32[5,2] concatenate(a, b), dimensions={1}
          y = f32[5,2] multiply(v, w)
          z = f32[5,1] slice(y), slice={[0:5], [1:2]}
          t = f32[5] reshape(z)
          // CHECK-NOT: slice
          // CHECK-NOT: concatenate
          // CHECK: ROOT {{.*}} = f32[5] negate(
          ROOT r = f32[5] negate(t)
        }""",
    "a condition that is a scalar, and numbers side by side": """
        ENTRY main {
          p = pred[] parameter(0)
          a = f32[1] parameter(1)
          b = f32[1] parameter(2)
          x = f32[3] parameter(3)
          v = f32[3] concatenate(a, b, a), dimensions={0}
          // CHECK: f32[] select(
          // CHECK: ROOT {{.*}} = f32[3] concatenate(
          ROOT r = f32[3] select(p, v, x)
        }""",
    "two concatenations": """
        ENTRY main {
          a = f32[4,5,1] parameter(0)
          b = f32[4,5,1] parameter(1)
          v = f32[4,5,2] concatenate(a, b), dimensions={2}
          w = f32[4,5,2] concatenate(b, a), dimensions={2}
          // CHECK-COUNT-2: f32[4,5] add(
          // CHECK: ROOT {{.*}} = f32[4,5,2] concatenate(
          ROOT r = f32[4,5,2] add(v, w)
        }""",
}
CONCATENATES |= {
    "norms of vectors": """
        add {
          x = f32[] parameter(0)
          y = f32[] parameter(1)
          ROOT s = f32[] add(x, y)
        }
        ENTRY main {
          a = f32[5,1] parameter(0)
          b = f32[5,1] parameter(1)
          zero = f32[] constant(0)
          v = f32[5,2] concatenate(a, b), dimensions={1}
          q = f32[5,2] multiply(v, v)
          // CHECK: ENTRY
          // CHECK-NOT: reduce(
          // CHECK-NOT: concatenate
          // CHECK: ROOT {{.*}} = f32[5] add(
          ROOT r = f32[5] reduce(q, zero), dimensions={1}, to_apply=add
        }""",
    "components among zeros": """
        ENTRY main {
          a = f32[5,1] parameter(0)
          b = f32[5,1] parameter(1)
          zero = f32[] constant(0)
          v = f32[5,3] pad(a, zero), padding=0_0x0_2
          w = f32[5,3] pad(b, zero), padding=0_0x1_1
          // CHECK-NOT: pad
          // CHECK-COUNT-3: f32[5] add(
          // CHECK: ROOT {{.*}} = f32[5,3] concatenate(
          ROOT r = f32[5,3] add(v, w)
        }""",
}
CONCATENATES_KEPT = {
    "sums that are rounded once": """
        add {
          x = bf16[] parameter(0)
          y = bf16[] parameter(1)
          ROOT s = bf16[] add(x, y)
        }
        ENTRY main {
          a = bf16[5,1] parameter(0)
          zero = bf16[] constant(0)
          v = bf16[5,2] concatenate(a, a), dimensions={1}
          ROOT r = bf16[5] reduce(v, zero), dimensions={1}, to_apply=add
        }""",
    "long edges": """
        ENTRY main {
          a = f32[5,2] parameter(0)
          zero = f32[] constant(0)
          v = f32[5,3] pad(a, zero), padding=0_0x1_0
          ROOT r = f32[5,3] negate(v)
        }""",
    "long parts": """
        ENTRY main {
          a = f32[5,4] parameter(0)
          b = f32[5,4] parameter(1)
          v = f32[5,8] concatenate(a, b), dimensions={1}
          ROOT r = f32[5,8] negate(v)
        }""",
    "parts that others read joined": """
        ENTRY main {
          a = f32[5,1] parameter(0)
          b = f32[5,1] parameter(1)
          v = f32[5,2] concatenate(a, b), dimensions={1}
          n = f32[5,2] negate(v)
          ROOT r = (f32[5,2], f32[5,2]) tuple(v, n)
        }""",
    "many parts": """
        ENTRY main {
          a = f32[5,1] parameter(0)
          v = f32[5,5] concatenate(a, a, a, a, a), dimensions={1}
          ROOT r = f32[5,5] negate(v)
        }""",
    "another dimension": """
        ENTRY main {
          a = f32[1,5] parameter(0)
          b = f32[1,5] parameter(1)
          v = f32[2,5] concatenate(a, b), dimensions={0}
          ROOT r = f32[2,5] negate(v)
        }""",
}


@pytest.mark.parametrize("text", CONCATENATES.values(), ids=CONCATENATES)
def test_concatenations_move(text: str) -> None:
    check_pass(ConcatenateMover(), text)


@pytest.mark.parametrize("text", CONCATENATES_KEPT.values(), ids=CONCATENATES_KEPT)
def test_concatenations_stay(text: str) -> None:
    check_pass(ConcatenateMover(), text, expect_change=False)


def test_long_chains_move_up_to_a_bound() -> None:
    """Each operation becomes as many as there are components."""
    lines = "\n".join(f"n{i + 1} = f32[5,2] negate(n{i})" for i in range(300))
    module = parse_module(f"""HloModule m

        ENTRY main {{
          a = f32[5,1] parameter(0)
          n0 = f32[5,2] concatenate(a, a), dimensions={{1}}
          {lines}
          ROOT r = f32[5,2] negate(n300)
        }}""")
    assert ConcatenateMover().run(module)
    assert 400 < len(module.entry.instructions) < 800
