"""ragged-dot and scaled-dot in terms of dot."""

import numpy as np
import pytest
from pass_checks import check_pass

from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.ragged_dot_rewriter import RaggedDotRewriter
from xla_backend.passes.scaled_dot_rewriter import ScaledDotRewriter

RAGGED = {
    "rows": """lhs = f32[9,4] parameter(0)
        rhs = f32[3,4,5] parameter(1)
        sizes = s32[3] constant({2, 4, 1})
        ROOT r = f32[9,5] ragged-dot(lhs, rhs, sizes), lhs_contracting_dims={1},
          rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}""",
    "rows_of_groups_last": """lhs = f32[4,9] parameter(0)
        rhs = f32[4,5,3] parameter(1)
        sizes = s64[3] constant({0, 9, 0})
        ROOT r = f32[9,5] ragged-dot(lhs, rhs, sizes), lhs_contracting_dims={0},
          rhs_contracting_dims={0}, lhs_ragged_dims={1}, rhs_group_dims={2}""",
    "rows_of_a_batch": """lhs = f32[2,9,4] parameter(0)
        rhs = f32[3,2,4,5] parameter(1)
        sizes = s32[2,3] constant({{2, 4, 1}, {0, 3, 6}})
        ROOT r = f32[2,9,5] ragged-dot(lhs, rhs, sizes), lhs_batch_dims={0}, rhs_batch_dims={1},
          lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_ragged_dims={1},
          rhs_group_dims={0}""",
    "bf16": """lhs = bf16[9,4] parameter(0)
        rhs = bf16[3,4,5] parameter(1)
        sizes = s32[3] constant({2, 4, 3})
        ROOT r = bf16[9,5] ragged-dot(lhs, rhs, sizes), lhs_contracting_dims={1},
          rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}""",
    "contracting": """lhs = f32[4,9] parameter(0)
        rhs = f32[9,5] parameter(1)
        sizes = s32[3] constant({2, 4, 1})
        ROOT r = f32[3,4,5] ragged-dot(lhs, rhs, sizes), lhs_contracting_dims={1},
          rhs_contracting_dims={0}, lhs_ragged_dims={1}""",
    "batch": """lhs = f32[9,2,4] parameter(0)
        rhs = f32[9,4,5] parameter(1)
        sizes = s32[3] constant({2, 4, 3})
        ROOT r = f32[9,2,5] ragged-dot(lhs, rhs, sizes), lhs_batch_dims={0}, rhs_batch_dims={0},
          lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={0}""",
}


def entry(body):
    return f"HloModule m\n\nENTRY main {{\n{body}\n}}\n"


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_dot(name):
    module = check_pass(RaggedDotRewriter(), entry(RAGGED[name]), exact=False, rtol=1e-2)
    opcodes = {node.opcode for c in module.computations for node in c}
    assert Opcode.DOT in opcodes and Opcode.RAGGED_DOT not in opcodes
    assert (Opcode.WHILE in opcodes) == (name != "batch")


def test_ragged_dot_by_hand():
    """Rows 0-1 by the first matrix, 2-5 by the second, 6 by the third, the last two by none."""
    module = check_pass(RaggedDotRewriter(), entry(RAGGED["rows"]), exact=False)
    rng = np.random.default_rng(0)
    lhs = rng.standard_normal((9, 4)).astype(np.float32)
    rhs = rng.standard_normal((3, 4, 5)).astype(np.float32)
    (got,) = evaluate(module, [lhs, rhs])
    want = np.concatenate(
        [lhs[:2] @ rhs[0], lhs[2:6] @ rhs[1], lhs[6:7] @ rhs[2], np.zeros((2, 5), np.float32)]
    )
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("type", "scale", "shape", "result"),
    [
        ("f8e4m3fn", "f8e8m0fnu", "[4,2],[2,5]", "bf16"),
        ("f4e2m1fn", "f8e4m3fn", "[2,8],[8,1]", "f32"),
        ("bf16", "bf16", "[],[]", "bf16"),
        ("f32", "f32", "[4,1],[8,5]", "f64"),
    ],
)
def test_scaled_dot(type, scale, shape, result):
    lhs_scale, rhs_scale = (part.strip("[]") for part in shape.split("],["))
    check_pass(
        ScaledDotRewriter(),
        entry(
            f"""x = {type}[4,8] parameter(0)
            y = {type}[8,5] parameter(1)
            s = {scale}[{lhs_scale}] parameter(2)
            t = {scale}[{rhs_scale}] parameter(3)
            // CHECK-NOT: scaled-dot
            ROOT r = {result}[4,5] scaled-dot(x, y, s, t), lhs_contracting_dims={{1}},
              rhs_contracting_dims={{0}}"""
        ),
        exact=False,
        rtol=2e-2,
    )
