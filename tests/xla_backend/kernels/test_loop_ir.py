"""The loop IR: what fusions become, as text; and its interpreter against the evaluator."""

import numpy as np
import pytest
from native_checks import arguments_of, check_interpreter, check_text, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import BufferRole, Store
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.targets.cpu.pipeline import build_pipeline

F32 = PrimitiveType.F32
ADD = "add {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y)\n}\n"


def loops_of(body: str, called: str = "") -> str:
    """The printed kernel of the fusion (or lone operation) that computes the root."""
    module = module_of(body, called)
    build_pipeline(CompileOptions()).run(module)
    node = next(n for n in module.entry if n.opcode not in (Opcode.PARAMETER, Opcode.CONSTANT))
    return kernel_to_text(lower(node, "k"))


def test_dimensions_collapse():
    text = loops_of(
        "x = f32[8,16,32] parameter(0)\ny = f32[8,16,32] exponential(x)\n"
        "ROOT r = f32[8,16,32] negate(y)"
    )
    check_text(
        text,
        """
        // CHECK: def k(p0: f32[4096], out0: f32[4096]):
        // CHECK-NEXT: for i in range(4096):
        // CHECK-NEXT: [[X:v[0-9]+]] = p0[i]
        // CHECK-NEXT: [[E:v[0-9]+]] = exp([[X]])
        // CHECK-NEXT: [[N:v[0-9]+]] = -[[E]]
        // CHECK-NEXT: out0[i] = [[N]]
        """,
    )


def test_loop_invariants_move_out():
    text = loops_of(
        """x = f32[8,32] parameter(0)
        b = f32[8] parameter(1)
        e = f32[8] add(b, b)
        c = f32[8,32] broadcast(e), dimensions={0}
        ROOT r = f32[8,32] add(x, c)"""
    )
    check_text(
        text,
        """
        // CHECK: for i in range(8):
        // CHECK: [[B:v[0-9]+]] + [[B]]
        // CHECK-NEXT: for j in range(32):
        // CHECK: out0[
        """,
    )


def test_pad_is_guarded():
    text = loops_of(
        "x = f32[10] parameter(0)\nz = f32[] constant(1)\nROOT r = f32[14] pad(x, z), padding=2_2"
    )
    check_text(
        text,
        """
        // CHECK: [[P:v[0-9]+]] = 0 <= i - 2 < 10
        // CHECK-NEXT: [[X:v[0-9]+]] = p0[i - 2] if [[P]] else 0
        // CHECK-NEXT: [[R:v[0-9]+]] = [[X]] if [[P]] else 1.0
        // CHECK-NEXT: out0[i] = [[R]]
        """,
    )


def test_what_is_in_an_array_anyway_is_read_without_a_condition():
    """Where a row of the padded array begins is a number, whether the row is read or not."""
    text = loops_of("""x = f32[64,64] parameter(0)
        k = s32[4] parameter(1)
        z = f32[] constant(1)
        first = s32[1] slice(k), slice={[2:3]}
        at = s32[] reshape(first)
        n = s32[] constant(0)
        s = f32[8,8] dynamic-slice(x, at, n), dynamic_slice_sizes={8,8}
        ROOT r = f32[9,8] pad(s, z), padding=1_0x0_0""")
    assert "p0[2]" in text and "p0[2] if" not in text


def test_full_reduction_is_cut_into_blocks():
    text = loops_of(
        """x = f32[512,1024] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add""",
        ADD,
    )
    check_text(
        text,
        """
        // CHECK: for i in range(32):
        // CHECK-NEXT: [[A:acc[0-9]+]] = (-0.0)
        // CHECK-NEXT: for j in range(16384):
        // CHECK: partial0[i] = [[A]]
        // CHECK: out0[0] =
        """,
    )


def test_concatenate_has_a_nest_for_each_operand():
    text = loops_of(
        """a = f32[3] parameter(0)
        b = f32[5] parameter(1)
        ROOT r = f32[8] concatenate(a, b), dimensions={0}"""
    )
    check_text(
        text,
        """
        // CHECK: for i in range(3):
        // CHECK: out0[i] =
        // CHECK: for j in range(5):
        // CHECK: out0[j + 3] =
        """,
    )


INTERPRETED = {
    "transpose": (
        "x = f32[3,4,5] parameter(0)\nROOT r = f32[5,3,4] transpose(x), dimensions={2,0,1}"
    ),
    "reshape": "x = f32[6,4] parameter(0)\nROOT r = f32[3,8] reshape(x)",
    "pad": (
        "x = f32[3,4] parameter(0)\nz = f32[] constant(2)\n"
        "ROOT r = f32[5,9] pad(x, z), padding=1_1x-1_3_1"
    ),
    "slice": "x = f32[6,9] parameter(0)\nROOT r = f32[2,3] slice(x), slice={[1:6:3],[0:9:3]}",
    "reverse": "x = c64[3,4] parameter(0)\nROOT r = c64[3,4] reverse(x), dimensions={1}",
    "concatenate": "x = f32[3,2] parameter(0)\ny = f32[3,3] parameter(1)\n"
    "ROOT r = f32[3,5] concatenate(x, y), dimensions={1}",
    "iota": "ROOT r = s32[3,4] iota(), iota_dimension=1",
    "multiply": "x = c64[7] parameter(0)\ny = c64[7] parameter(1)\nROOT r = c64[7] divide(x, y)",
    "dot": """x = f32[3,4] parameter(0)
        y = f32[5,4] parameter(1)
        ROOT r = f32[3,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={1}""",
    "reduce": """x = f32[3,4,2] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[4] reduce(x, z), dimensions={0,2}, to_apply=add""",
    "convolution": """x = f32[1,2,6] parameter(0)
        k = f32[3,2,3] parameter(1)
        ROOT r = f32[1,3,6] convolution(x, k), window={size=3 pad=1_1}, dim_labels=bf0_oi0->bf0""",
}


@pytest.mark.parametrize("name", INTERPRETED)
def test_interpreter(name):
    module = module_of(INTERPRETED[name], ADD)
    check_interpreter(module, arguments_of(module), scale=4)


def test_interpreter_steps():
    module = module_of(
        "x = f32[2,2] parameter(0)\nROOT r = f32[2,2] transpose(x), dimensions={1,0}"
    )
    kernel = lower(module.entry.root, "k")
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    interpreter = Interpreter(kernel, [x])
    stores = [step for step in interpreter.steps() if isinstance(step.statement, Store)]
    assert [step.position for step in stores] == [{"i": i, "j": j} for i in (0, 1) for j in (0, 1)]
    np.testing.assert_array_equal(interpreter.outputs()[0], x.T.reshape(-1))


def test_what_is_computed_is_at_hand_where_it_was_computed():
    """Each value is computed once in the loops that are open, also when one is built further out or
    a combiner is built meanwhile, and anew in a loop of its own."""
    b = LoopBuilder("k")
    x = b.buffer("x", F32, 64, BufferRole.OPERAND)
    outer, _ = b.open_loop(8)
    one = b.constant(F32, 1.0)
    here = b.load(x, outer)
    inner, _ = b.open_loop(8)
    deep = b.load(x, inner)
    b.open_loop(8, depth=1)  # beside the inner loop, which is set aside
    assert b.load(x, outer) is here
    b.close_loop()
    assert b.load(x, inner) is deep
    combiner = b.combiner([F32], lambda lhs, rhs: [b.compute(Opcode.ADD, F32, (lhs[0], one))])
    own = b.combiner([F32], lambda lhs, rhs: [b.constant(F32, 1.0)])
    assert len(combiner.body) == 1
    assert own.results[0] is not one and b.constant(F32, 1.0) is one
    b.close_loop()
    again, _ = b.open_loop(8)
    assert b.load(x, again) is not deep
    b.close_loop()
    b.close_loop()
