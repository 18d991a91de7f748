"""Loops of a transpose brought together, as text and run by the interpreter."""

import itertools

import numpy as np
import pytest
from native_checks import arguments_of, check_text, module_of

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.evaluator import evaluate
from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.from_hlo.lower import lower
from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.schedule.interchange import interchange
from xla_backend.targets.cpu.pipeline import build_pipeline


def interchanged(body: str, *, expect_change: bool = True) -> str:
    """The text of the root's kernel after the step; it is run before and after."""
    module = module_of(body)
    arguments = arguments_of(module)
    want = evaluate(module, arguments)
    build_pipeline(CompileOptions()).run(module)
    (node,) = (n for n in module.entry if n.opcode is Opcode.FUSION)
    kernel = lower(node, "k")
    values = [arguments[o.parameter_number] for o in node.operands]
    shapes = node.shape.flatten()
    before = run_kernel(kernel, values, shapes)
    assert interchange(kernel) == expect_change
    for w, b, a in zip(want, before, run_kernel(kernel, values, shapes)):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, w, rtol=1e-5)
    return kernel_to_text(kernel)


def test_the_loop_of_the_reads_goes_next_to_that_of_the_writes() -> None:
    text = interchanged(
        "x = f32[9,10,11] parameter(0)\nROOT r = f32[11,10,9] transpose(x), dimensions={2,1,0}"
    )
    check_text(
        text,
        """
        // CHECK: for j in range(10):
        // CHECK-NEXT: for i in range(11):
        // CHECK-NEXT: for k in range(9):
        // CHECK-NEXT: p0[11*j + i + 110*k]
        // CHECK: out0[9*j + 90*i + k]
        """,
    )


def test_what_depends_on_the_loop_moves_with_it() -> None:
    text = interchanged(
        """x = f32[9,10,11] parameter(0)
        b = f32[11] parameter(1)
        c = f32[10] parameter(2)
        t = f32[11,10,9] transpose(x), dimensions={2,1,0}
        d = f32[11,10,9] broadcast(b), dimensions={0}
        e = f32[11,10,9] broadcast(c), dimensions={1}
        s = f32[11,10,9] add(t, d)
        ROOT r = f32[11,10,9] multiply(s, e)"""
    )
    check_text(
        text,
        """
        // CHECK: for j in range(10):
        // CHECK-NEXT: p2[j]
        // CHECK-NEXT: for i in range(11):
        // CHECK-NEXT: p1[i]
        // CHECK-NEXT: for k in range(9):
        """,
    )


@pytest.mark.parametrize(
    "body",
    [
        "x = f32[9,10,11] parameter(0)\nROOT r = f32[9,11,10] transpose(x), dimensions={0,2,1}",
        "x = f32[9,10,11] parameter(0)\nROOT r = f32[10,9,11] transpose(x), dimensions={1,0,2}",
        "x = f32[9,10,3] parameter(0)\nROOT r = f32[3,10,9] transpose(x), dimensions={2,1,0}",
        "x = f32[90] parameter(0)\nROOT r = f32[90] negate(x)",
    ],
    ids=["next to each other", "neighbours stay neighbours", "short", "no transpose"],
)
def test_others_stay(body: str) -> None:
    interchanged(body, expect_change=False)


@pytest.mark.parametrize("order", [*itertools.permutations(range(4))][1:])
def test_every_order_means_the_same(order: tuple[int, ...]) -> None:
    dims = (8, 3, 9, 10)
    shape = ",".join(str(dims[d]) for d in order)
    module = module_of(
        f"x = f32[8,3,9,10] parameter(0)\n"
        f"ROOT r = f32[{shape}] transpose(x), dimensions={{{','.join(map(str, order))}}}"
    )
    kernel = lower(module.entry.root, "k")
    arguments = arguments_of(module)
    interchange(kernel)
    (got,) = run_kernel(kernel, arguments, [module.entry.root.shape])
    np.testing.assert_array_equal(got, arguments[0].transpose(order))
