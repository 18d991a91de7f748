"""Nests that fill rows of a few elements together, and vectors in turns: as text, checked by the
verifier, run by the interpreter."""

import numpy as np
import pytest
from native_checks import check_text, fused, module_of

from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.ir import Kernel, Loop
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.schedule.blocks import bind_to_grid
from xla_backend.kernels.schedule.collapsing import collapse, nest_of
from xla_backend.kernels.schedule.interleaving import interleave
from xla_backend.kernels.schedule.splitting import ScheduleError
from xla_backend.kernels.schedule.turns import vectorise_in_turns
from xla_backend.kernels.verifier import verify_kernel

STACKED = {
    "two": (
        "x = f32[50] parameter(0)\ny = f32[50] parameter(1)\n"
        "a = f32[50,1] reshape(x)\nb = f32[50,1] reshape(y)\n"
        "ROOT r = f32[50,2] concatenate(a, b), dimensions={1}",
        "out0[2*i : 2*i + 2] = v0, v1",
    ),
    "of complex numbers": (
        "x = c64[50] parameter(0)\na = c64[50,1] reshape(x)\nn = c64[50,1] negate(a)\n"
        "ROOT r = c64[50,2] concatenate(a, n), dimensions={1}",
        "out0[4*i : 4*i + 4] = ",
    ),
    "with a constant of the second alone": (
        "x = u8[50] parameter(0)\nthree = u8[] constant(3)\nfour = u8[] constant(4)\n"
        "b3 = u8[50] broadcast(three), dimensions={}\nb4 = u8[50] broadcast(four), dimensions={}\n"
        "s = u8[50] and(x, b3)\nd = u8[50] shift-right-logical(x, b4)\n"
        "a = u8[50,1] reshape(s)\nb = u8[50,1] reshape(d)\n"
        "ROOT r = u8[50,2] concatenate(a, b), dimensions={1}",
        "out0[2*i : 2*i + 2] = ",
    ),
    "rows": (
        "x = f32[5,8] parameter(0)\ny = f32[8] parameter(1)\n"
        "w = f32[5,8] broadcast(y), dimensions={1}\n"
        "s = f32[5,8] add(x, w)\nd = f32[5,8] subtract(x, w)\n"
        "a = f32[5,8,1] reshape(s)\nb = f32[5,8,1] reshape(d)\n"
        "ROOT r = f32[5,8,2] concatenate(a, b), dimensions={2}",
        "out0[16*i + 2*j : 16*i + 2*j + 2] = ",
    ),
}


@pytest.mark.parametrize("name", STACKED)
def test_stacked_arrays_are_written_together(name: str) -> None:
    body, line = STACKED[name]
    kernel, values, before = fused(body)
    shapes = module_of(body).entry.root.shape.flatten()
    assert interleave(kernel)
    assert len([s for s in kernel.stages if isinstance(s, Loop)]) == 1
    verify_kernel(kernel)
    assert line in kernel_to_text(kernel)
    for b, a in zip(before, run_kernel(kernel, values, shapes)):
        np.testing.assert_array_equal(a, b)


def test_an_element_is_read_once() -> None:
    body = """
    x = f32[60,2] parameter(0)
    a = f32[60,1] slice(x), slice={[0:60], [0:1]}
    b = f32[60,1] slice(x), slice={[0:60], [1:2]}
    s = f32[60,1] add(a, b)
    d = f32[60,1] subtract(a, b)
    ROOT r = f32[60,2] concatenate(s, d), dimensions={1}
    """
    kernel, _, _ = fused(body)
    assert kernel_to_text(kernel).count("= p0[") == 4
    assert interleave(kernel)
    assert kernel_to_text(kernel).count("= p0[") == 2


def test_what_components_share_is_computed_once() -> None:
    body = """
    x = f32[60] parameter(0)
    two = f32[] constant(2)
    t = f32[60] broadcast(two), dimensions={}
    y = f32[60] multiply(x, t)
    e = f32[60] tanh(y)
    s = f32[60] add(e, x)
    d = f32[60] subtract(e, x)
    a = f32[60,1] reshape(s)
    b = f32[60,1] reshape(d)
    ROOT r = f32[60,2] concatenate(a, b), dimensions={1}
    """
    kernel, values, before = fused(body)
    assert kernel_to_text(kernel).count("tanh") == 2
    assert interleave(kernel)
    verify_kernel(kernel)
    assert kernel_to_text(kernel).count("tanh") == 1
    (after,) = run_kernel(kernel, values, module_of(body).entry.root.shape.flatten())
    np.testing.assert_array_equal(after, before[0])


@pytest.mark.parametrize(
    "body",
    [
        # Rows of one array after rows of another: no gaps that others fill.
        "x = f32[50] parameter(0)\ny = f32[50] parameter(1)\n"
        "ROOT r = f32[100] concatenate(x, y), dimensions={0}",
        # Two elements of one, one of the other.
        "x = f32[50,2] parameter(0)\ny = f32[50,1] parameter(1)\n"
        "ROOT r = f32[50,3] concatenate(x, y), dimensions={1}",
        # More than registers hold.
        "x = f32[50,1] parameter(0)\n"
        f"ROOT r = f32[50,17] concatenate({', '.join('x' * 17)}), dimensions={{1}}",
    ],
    ids=["one after the other", "unequal", "many"],
)
def test_other_nests_stay(body: str) -> None:
    kernel, _, _ = fused(body)
    text = kernel_to_text(kernel)
    assert not interleave(kernel)
    assert kernel_to_text(kernel) == text


SCALED = """
x = f32[70,3] parameter(0)
y = f32[3] parameter(1)
w = f32[70,3] broadcast(y), dimensions={1}
ROOT r = f32[70,3] multiply(x, w)
"""


def joined(kernel: Kernel) -> Loop:
    (stage,) = kernel.stages
    assert isinstance(stage, Loop)
    return collapse(kernel, nest_of(stage))


def test_each_of_a_few_vectors_has_code_of_its_own() -> None:
    kernel, values, before = fused(SCALED)
    vectorise_in_turns(kernel, joined(kernel), 16, 3)
    verify_kernel(kernel)
    check_text(
        kernel_to_text(kernel),
        """
        // CHECK: for i in range(4):
        // CHECK: [(lane % 3)]
        // CHECK: out0[48*i + lane] =
        // CHECK: [((lane + 1) % 3)]
        // CHECK: out0[48*i + lane + 16] =
        // CHECK: [((lane + 2) % 3)]
        // CHECK: out0[48*i + lane + 32] =
        // CHECK: for i in range(18):
        // CHECK: out0[i + 192] =
        """,
    )
    shapes = module_of(SCALED).entry.root.shape.flatten()
    np.testing.assert_array_equal(run_kernel(kernel, values, shapes)[0], before[0])


def test_turns_in_blocks() -> None:
    """Only the last block has iterations that are left over."""
    kernel, values, before = fused(SCALED)
    loop = joined(kernel)
    bind_to_grid(kernel, loop, 96)
    vectorise_in_turns(kernel, loop, 16, 3)
    verify_kernel(kernel)
    shapes = module_of(SCALED).entry.root.shape.flatten()
    np.testing.assert_array_equal(run_kernel(kernel, values, shapes)[0], before[0])


def test_too_few_iterations_for_a_turn() -> None:
    kernel, _, _ = fused(SCALED)
    with pytest.raises(ScheduleError, match="may not run in 5 turns of lanes"):
        vectorise_in_turns(kernel, joined(kernel), 64, 5)
