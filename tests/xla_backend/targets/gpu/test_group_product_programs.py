"""Programs whose products run by groups of 128 threads (sm_90a): the emulator against the
evaluator, which of them do, and their code."""

from __future__ import annotations

import re

import numpy as np
import pytest
from product_checks import check, kernels_of, planned, random_arrays
from test_products import BATCHED, dot

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import (
    BoxCopy,
    BufferRole,
    ExpectBytes,
    GroupProduct,
    Kernel,
    MatrixTile,
    walk,
)
from xla_backend.kernels.library.factors import Sizes
from xla_backend.kernels.library.group_product import GroupTiling
from xla_backend.kernels.library.matrix_product import Tiling
from xla_backend.kernels.library.recipes import recipe_for
from xla_backend.program.ir import Library, Resident
from xla_backend.targets.emulator import EmulatorExecutable
from xla_backend.targets.gpu import product_candidates, product_rules
from xla_backend.targets.gpu.architectures import ARCHITECTURES, TRIPLE
from xla_backend.targets.gpu.product_candidates import candidates, estimated_cycles, fastest
from xla_backend.targets.gpu.ptxas import find_ptxas
from xla_backend.targets.gpu.target_code import GpuTargetCode, make_target_code
from xla_backend.targets.gpu.work import kernel_work

HOPPER = "sm_90a"
BOTH_ROWS = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
COLUMNS = "lhs_contracting_dims={0}, rhs_contracting_dims={1}"
SMALL = GroupTiling(64, 64, 1, stages=2)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of any size run by groups, if they can."""
    monkeypatch.setattr(product_candidates, "WORTH_GROUPS", 0)

    def chosen(found, *rest):  # type: ignore[no-untyped-def]
        groups = any(isinstance(c, GroupTiling) for c in found)
        return SMALL if groups else fastest(found, *rest)

    monkeypatch.setattr(product_rules, "fastest", chosen)


def statements(kernel: Kernel, kind: type) -> list:
    return [s for s in walk(kernel.stages) if isinstance(s, kind)]


PRODUCTS = {
    "bf16": (dot("bf16[72,136]", "bf16[136,72]", "f32[72,72]"), 1e-6),
    "f16 of columns": (dot("f16[136,72]", "f16[72,136]", "f16[72,72]", COLUMNS), 1e-3),
    "tf32": (dot("f32[70,132]", "f32[69,132]", "f32[70,69]", BOTH_ROWS), 1e-3),
    "s8": (dot("s8[70,144]", "s8[69,144]", "s32[70,69]", BOTH_ROWS), 0.0),
    "u8 and s8": (dot("u8[70,144]", "s8[69,144]", "s32[70,69]", BOTH_ROWS), 0.0),
    "f8": (dot("f8e4m3fn[70,144]", "f8e5m2[69,144]", "f32[70,69]", BOTH_ROWS), 1e-6),
    "batches": (dot("bf16[3,40,72]", "bf16[3,33,72]", "bf16[3,40,33]", BATCHED + "{2}"), 1e-2),
    "one slab": (dot("bf16[40,64]", "bf16[64,40]", "f32[40,40]"), 1e-6),
    "several dimensions": (
        dot(
            "bf16[5,8,4,24]", "bf16[4,24,40]", "f32[5,8,40]",
            "lhs_contracting_dims={2,3}, rhs_contracting_dims={0,1}",
        ),
        1e-6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(small: None, name: str) -> None:
    text, error = PRODUCTS[name]
    (kernel,) = check(text, rtol=error, architecture=HOPPER).values()
    assert statements(kernel, GroupProduct) and not statements(kernel, MatrixTile)
    (other,) = kernels_of(text, "sm_90").values()
    assert not statements(other, GroupProduct)


EPILOGUE = """
ENTRY e {
  x = bf16[72,64] parameter(0)  y = bf16[64,72] parameter(1)  b = bf16[72] parameter(2)
  d = bf16[72,72] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bias = bf16[72,72] broadcast(b), dimensions={1}
  s = bf16[72,72] add(d, bias)
  ROOT r = bf16[72,72] tanh(s)
}"""


@pytest.mark.parametrize("splits", [1, 2])
def test_epilogue_and_split_sum(monkeypatch: pytest.MonkeyPatch, splits: int) -> None:
    tiling = GroupTiling(64, 64, 1, splits=splits, stages=2)
    monkeypatch.setattr(product_candidates, "WORTH_GROUPS", 0)
    monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    text = EPILOGUE.replace("64", "200")
    (kernel,) = check(text, rtol=2e-2, architecture=HOPPER).values()
    assert statements(kernel, GroupProduct)
    assert any(b.role is BufferRole.SCRATCH for b in kernel.buffers) == (splits > 1)


OTHERS = {
    "rows that are no multiple of 16 bytes": dot("bf16[72,65]", "bf16[65,72]", "f32[72,72]"),
    "bytes by columns": dot("s8[72,64]", "s8[64,80]", "s32[72,80]"),
    "tf32 by columns": dot("f32[72,64]", "f32[64,80]", "f32[72,80]"),
    "converted on the way": dot("f8e5m2[72,64]", "f16[64,80]", "f32[72,80]"),
    "three terms": dot(
        "f32[72,64]", "f32[80,64]", "f32[72,80]",
        BOTH_ROWS + ", algorithm=dot_bf16_bf16_f32_x3",
    ),
    "f32": dot(
        "f32[72,64]", "f32[80,64]", "f32[72,80]",
        BOTH_ROWS + ", operand_precision={highest,highest}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_computed_as_before(small: None, name: str) -> None:
    for kernel in check(OTHERS[name], rtol=2e-2, architecture=HOPPER).values():
        assert not statements(kernel, GroupProduct)


def test_nan_and_infinity_stay_in_their_row(small: None) -> None:
    text = dot("bf16[72,136]", "bf16[136,72]", "f32[72,72]")
    arrays = random_arrays(parse_module(text))
    arrays[0][71, 135] = np.nan
    arrays[0][3, 0] = np.inf
    arrays[1][0] = 1
    check(text, arrays=arrays, architecture=HOPPER)


def test_loops_with_such_products_are_launched_from_outside(small: None) -> None:
    text = """
    below { s = (s32[], bf16[64,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT lt = pred[] compare(i, n), direction=LT
    }
    body { s = (s32[], bf16[64,64]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      x = bf16[64,64] get-tuple-element(s), index=1
      one = s32[] constant(1)
      j = s32[] add(i, one)
      y = bf16[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      scale = bf16[] constant(0.0625)
      scales = bf16[64,64] broadcast(scale), dimensions={}
      z = bf16[64,64] multiply(y, scales)
      ROOT t = (s32[], bf16[64,64]) tuple(j, z)
    }
    ENTRY e { x = bf16[64,64] parameter(0)
      zero = s32[] constant(0)
      init = (s32[], bf16[64,64]) tuple(zero, x)
      w = (s32[], bf16[64,64]) while(init), condition=below, body=body
      ROOT r = bf16[64,64] get-tuple-element(w), index=1
    }"""
    kernels = check(text, rtol=3e-2, architecture=HOPPER)
    assert any(statements(k, BoxCopy) for k in kernels.values())
    assert not any(isinstance(s, Resident) for s in planned(text, HOPPER).program.steps)
    assert any(isinstance(s, Resident) for s in planned(text, "sm_90").program.steps)


# -- which are worth it ----------------------------------------------------------------------------


def chosen(sizes: Sizes, *, groups: bool = True) -> object:
    recipe = recipe_for(P.BF16, P.BF16, P.F32)
    assert recipe is not None
    found = candidates(sizes, recipe, inner_first=True, groups=groups)
    return fastest(found, sizes, recipe, ARCHITECTURES[HOPPER])


def test_the_model_prefers_groups_for_large_products() -> None:
    for n in (1024, 4096, 8192):
        assert isinstance(chosen(Sizes(1, n, n, n)), GroupTiling)
        assert isinstance(chosen(Sizes(1, n, n, n), groups=False), Tiling)
    large = chosen(Sizes(1, 8192, 8192, 8192))
    assert isinstance(large, GroupTiling) and large.rows * large.columns == 128 * 256
    assert isinstance(chosen(Sizes(1, 128, 128, 128)), Tiling)
    deep = chosen(Sizes(1, 256, 256, 16384))
    assert isinstance(deep, GroupTiling) and deep.splits > 1


def test_candidates_fit_and_take_less_time() -> None:
    recipe, sizes = recipe_for(P.S8, P.S8, P.S32), Sizes(1, 4096, 4096, 4096)
    assert recipe is not None
    machine = ARCHITECTURES[HOPPER]
    found = candidates(sizes, recipe, inner_first=True, groups=True)
    groups = [c for c in found if isinstance(c, GroupTiling)]
    assert groups
    for c in groups:
        assert c.stages * c.slab_bytes + 8 * c.stages <= machine.shared_per_block
        assert c.threads <= machine.threads_per_block
    best, other = (
        min(estimated_cycles(c, sizes, recipe, machine) for c in found if isinstance(c, kind))
        for kind in (GroupTiling, Tiling)
    )
    assert best < other


def with_bias(n: int) -> str:
    return EPILOGUE.replace("72", str(n)).replace("64", str(n))


def test_large_products_with_an_epilogue_are_one_kernel() -> None:
    (kernel,) = kernels_of(with_bias(1024), HOPPER).values()
    assert statements(kernel, GroupProduct)
    # A plain one is a call of the library.
    text = dot("bf16[4096,4096]", "bf16[4096,4096]", "f32[4096,4096]")
    (step,) = planned(text, HOPPER).program.steps
    assert isinstance(step, Library)


PROLOGUE = """
ENTRY e {
  x = bf16[%(n)s,%(n)s] parameter(0)  w = bf16[%(n)s,%(n)s] parameter(1)
  two = bf16[] constant(2)
  twos = bf16[%(n)s,%(n)s] broadcast(two), dimensions={}
  more = bf16[%(n)s,%(n)s] multiply(x, twos)
  b = bf16[%(n)s] parameter(2)
  d = bf16[%(n)s,%(n)s] dot(more, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  bias = bf16[%(n)s,%(n)s] broadcast(b), dimensions={1}
  s = bf16[%(n)s,%(n)s] add(d, bias)
  ROOT r = bf16[%(n)s,%(n)s] tanh(s)
}"""


def test_work_on_operands_stays_apart_where_the_product_gains_more() -> None:
    """Groups multiply what lies in memory; tiles of warps take elements that are computed."""
    large = kernels_of(PROLOGUE % {"n": 2048}, HOPPER)
    assert len(large) == 2 and any(statements(k, GroupProduct) for k in large.values())
    (kernel,) = kernels_of(PROLOGUE % {"n": 256}, HOPPER).values()
    assert not statements(kernel, GroupProduct)


# -- code ------------------------------------------------------------------------------------------


def code_of(text: str, architecture: str) -> GpuTargetCode:
    options = CompileOptions(target=Target(TRIPLE, architecture))
    return make_target_code(parse_module(text), options)


@pytest.mark.skipif(find_ptxas() is None, reason="there is no ptxas")
def test_code_of_a_product_with_an_epilogue() -> None:
    code = code_of(with_bias(1024), HOPPER)
    assert ".target sm_90a" in code.assembly()
    assert re.search(r"wgmma\.mma_async\S*bf16", code.assembly())
    assert code.object_code()[:4] == b"\x7fELF"
    for kernel in code.kernels():
        for launch in kernel.launches:
            assert launch.spilled_bytes == 0
    assert code.analysis().card.name == "H200"
    on_warps = code_of(with_bias(1024), "sm_90")
    assert "wgmma" not in on_warps.assembly()
    assert code.analysis().seconds < on_warps.analysis().seconds


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a != HOPPER])
def test_other_architectures_have_no_such_instructions(architecture: str) -> None:
    text = code_of(with_bias(1024), architecture).assembly()
    assert "wgmma" not in text and "cp.async.bulk" not in text


def test_work_is_what_there_is_to_do() -> None:
    n = 1024
    code = code_of(with_bias(n), HOPPER)
    (launch,), (kernel,) = code.analysis().launches, code.program.kernels.values()
    work = launch.work
    assert work.group_operations == {"bf16": 2.0 * n**3} and not work.matrix_operations
    assert work.bytes == pytest.approx(2 * (3 * n * n + n), rel=0.01)
    assert work.shared_passes >= work.shared_requests > 0
    slab = statements(kernel, ExpectBytes)[0].count
    copied = slab * (n // 64) * work.blocks
    assert copied <= work.sectors * 32 <= copied + 8 * 2 * n * n


def test_work_is_what_is_counted(small: None) -> None:
    text = dot("bf16[200,320]", "bf16[320,136]", "f32[200,136]")
    module = parse_module(text)
    arrays = random_arrays(module)
    options = CompileOptions(target=Target(TRIPLE, HOPPER))
    loaded = xla_backend.compile(module, "gpu_emulator", options=options).loaded
    assert isinstance(loaded, EmulatorExecutable)
    (counted,) = loaded.counters(arrays).values()
    (kernel,) = loaded.plan.program.kernels.values()
    (work,) = kernel_work(kernel)
    assert work.group_operations == {"bf16": counted.tile_flops}
    assert work.sectors == pytest.approx(counted.global_traffic.sectors, rel=0.2)
    assert work.barriers == counted.barriers
