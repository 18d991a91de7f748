"""Loops over complex numbers as loops over their components: as text, checked by the verifier, run
by the interpreter."""

import numpy as np
import pytest
from native_checks import check_text, fused, module_of

from xla_backend.kernels.interpreter import run_kernel
from xla_backend.kernels.ir import Loop, walk
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.schedule.blocks import bind_to_grid
from xla_backend.kernels.schedule.components import join_components
from xla_backend.kernels.schedule.lanes import vectorise
from xla_backend.kernels.verifier import verify_kernel

SUM = """
r (a: c64[], b: c64[]) -> c64[] {
  a = c64[] parameter(0)
  b = c64[] parameter(1)
  ROOT s = c64[] add(a, b)
}
"""
DOWN = """
x = c64[12,7] parameter(0)
z = c64[] constant((0, 0))
ROOT s = c64[7] reduce(x, z), dimensions={0}, to_apply=r
"""
JOINED = {
    "negated": ("x = c64[50] parameter(0)\nROOT n = c64[50] negate(x)", "out0[i] = v1"),
    "differences": (
        "x = c128[5,8] parameter(0)\ny = c128[8] parameter(1)\n"
        "w = c128[5,8] broadcast(y), dimensions={1}\nROOT s = c128[5,8] subtract(x, w)",
        "out0[16*i + j] = v2",
    ),
    "chosen by row": (
        "p = pred[5] parameter(0)\nx = c64[5,8] parameter(1)\ny = c64[5,8] parameter(2)\n"
        "w = pred[5,8] broadcast(p), dimensions={0}\nROOT s = c64[5,8] select(w, x, y)",
        "out0[16*i + j] = v3",
    ),
    "rows in another order": (
        "x = c64[4,5,6] parameter(0)\nn = c64[4,5,6] negate(x)\n"
        "ROOT t = c64[5,4,6] transpose(n), dimensions={1,0,2}",
        "out0[48*i + 12*j + k] = v1",
    ),
    "sums of columns": (DOWN, "out0[i] = acc"),
}
OTHERS = {
    "conjugates": "x = c64[50] parameter(0)\ni = f32[50] imag(x)\nm = f32[50] negate(i)\n"
    "r = f32[50] real(x)\nROOT c = c64[50] complex(r, m)",
    "products": "x = c64[50] parameter(0)\ny = c64[50] parameter(1)\n"
    "ROOT m = c64[50] multiply(x, y)",
    "one real for both": "x = f32[50] parameter(0)\nROOT c = c64[50] complex(x, x)",
    "both from one": "x = c64[50] parameter(0)\nr = f32[50] real(x)\ni = f32[50] imag(x)\n"
    "a = f32[50] multiply(r, r)\nb = f32[50] multiply(i, r)\nROOT c = c64[50] complex(a, b)",
    "turned": "x = c64[50] parameter(0)\nr = f32[50] real(x)\ni = f32[50] imag(x)\n"
    "ROOT c = c64[50] complex(i, r)",
    "reversed": "x = c64[50] parameter(0)\nn = c64[50] negate(x)\n"
    "ROOT r = c64[50] reverse(n), dimensions={0}",
    "chosen each": "p = pred[50] parameter(0)\nx = c64[50] parameter(1)\ny = c64[50] parameter(2)\n"
    "ROOT s = c64[50] select(p, x, y)",
    "a constant with two components": "x = c64[50] parameter(0)\nk = c64[] constant((1, 2))\n"
    "w = c64[50] broadcast(k), dimensions={}\nROOT s = c64[50] add(x, w)",
    "sums of rows": DOWN.replace("dimensions={0}", "dimensions={1}").replace("c64[7]", "c64[12]"),
}


@pytest.mark.parametrize("name", JOINED)
def test_components_are_computed_in_one_loop(name: str) -> None:
    body, line = JOINED[name]
    kernel, values, before = fused(body, SUM)
    shapes = module_of(body, SUM).entry.root.shape.flatten()
    assert join_components(kernel)
    verify_kernel(kernel)
    assert line in kernel_to_text(kernel)
    assert not join_components(kernel)
    for b, a in zip(before, run_kernel(kernel, values, shapes)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", OTHERS)
def test_components_that_differ_stay_two(name: str) -> None:
    kernel, _, _ = fused(OTHERS[name], SUM)
    text = kernel_to_text(kernel)
    assert not join_components(kernel)
    assert kernel_to_text(kernel) == text


def test_sums_down_columns_in_blocks_and_lanes() -> None:
    kernel, values, (before,) = fused(DOWN, SUM)
    assert join_components(kernel)
    (stage,) = (s for s in kernel.stages if isinstance(s, Loop))
    check_text(
        kernel_to_text(kernel),
        """
        // CHECK: for [[I:.*]] in range(14):
        // CHECK-NEXT: acc{{.*}} = {{.*}}
        // CHECK-NEXT: for [[K:.*]] in range(12):
        // CHECK-NEXT: [[V:.*]] = p0{{\\[}}[[I]] + 14*[[K]]]
        // CHECK-NOT: p0
        """,
    )
    bind_to_grid(kernel, stage, 8)
    loop = next(s for s in walk(kernel.stages) if isinstance(s, Loop) and s.may_vectorize)
    vectorise(kernel, loop, 4)
    verify_kernel(kernel)
    (after,) = run_kernel(kernel, values, module_of(DOWN, SUM).entry.root.shape.flatten())
    np.testing.assert_array_equal(after, before)
