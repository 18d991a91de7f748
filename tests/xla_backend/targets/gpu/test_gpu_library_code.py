"""Kernels of sorts, scans, scatters and small matrices as code: it assembles, without spills."""

from collections.abc import Iterator

import pytest
from code_checks import check_assembles
from native_checks import module_of

from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.hlo.instruction import Instruction
from xla_backend.kernels.from_hlo.nests import scan_axis
from xla_backend.kernels.ir import Kernel
from xla_backend.kernels.library.cumulative import cumulative_kernel
from xla_backend.kernels.library.scatter import scatter_kernel
from xla_backend.kernels.library.selected_scatter import select_and_scatter_kernel
from xla_backend.kernels.library.small_matrices import cholesky_kernel, triangular_solve_kernel
from xla_backend.kernels.library.sorting import sort_kernel
from xla_backend.targets.gpu.architectures import ARCHITECTURES


def root_of(body: str, called: str = "") -> Instruction:
    entry = module_of(body, called).entry
    assert entry is not None and entry.root is not None
    return entry.root


def sort(t: str, dims: str, axis: int, first: int | None = None) -> Kernel:
    called = f"""c {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  i = s32[] parameter(2)
        j = s32[] parameter(3)  ROOT r = pred[] compare(a, b), direction=LT }}"""
    node = root_of(
        f"""x = {t}[{dims}] parameter(0)  y = s32[{dims}] parameter(1)
        ROOT s = ({t}[{dims}], s32[{dims}]) sort(x, y), dimensions={{{axis}}}, to_apply=c""",
        called,
    )
    return sort_kernel("k", [o.shape for o in node.operands], axis, node.called[0], first)


def scan(t: str, rows: int, n: int, opcode: str) -> Kernel:
    called = f"c {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT r = {t}[] {opcode}(a, b) }}"
    node = root_of(
        f"""x = {t}[{rows},{n}] parameter(0)  i = {t}[] parameter(1)
        ROOT r = {t}[{rows},{n}] reduce-window(x, i), window={{size=1x{n} pad=0_0x{n - 1}_0}},
          to_apply=c""",
        called,
    )
    found = scan_axis(node)
    assert found is not None
    return cumulative_kernel("k", node, *found)


def scatter(t: str, opcode: str, updates: int = 400, *, deterministic: bool = False) -> Kernel:
    called = f"c {{ a = {t}[] parameter(0) b = {t}[] parameter(1) ROOT r = {t}[] {opcode} }}"
    node = root_of(
        f"""x = {t}[90,50] parameter(0)  i = s32[{updates},1] parameter(1)
        u = {t}[{updates},50] parameter(2)
        ROOT r = {t}[90,50] scatter(x, i, u), update_window_dims={{1}}, inserted_window_dims={{0}},
          scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=c""",
        called,
    )
    return scatter_kernel("k", node, deterministic)


def pool() -> Kernel:
    called = """ge { a = f32[] parameter(0)  b = f32[] parameter(1)
        ROOT r = pred[] compare(a, b), direction=GE }
        plus { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }"""
    node = root_of(
        """x = f32[70,90] parameter(0)  s = f32[35,45] parameter(1)  z = f32[] parameter(2)
        ROOT r = f32[70,90] select-and-scatter(x, s, z),
          window={size=3x3 stride=2x2 pad=0_1x0_1}, select=ge, scatter=plus""",
        called,
    )
    return select_and_scatter_kernel("k", node)


def cholesky(t: str) -> Kernel:
    node = root_of(f"x = {t}[9,32,32] parameter(0)\n ROOT r = {t}[9,32,32] cholesky(x), lower=true")
    return cholesky_kernel("k", node)


def solve(t: str) -> Kernel:
    node = root_of(
        f"""a = {t}[9,32,32] parameter(0)  b = {t}[9,40,32] parameter(1)
        ROOT r = {t}[9,40,32] triangular-solve(a, b), left_side=false, lower=true,
          unit_diagonal=false, transpose_a=ADJOINT"""
    )
    return triangular_solve_kernel("k", node)


def kernels() -> Iterator[Kernel]:
    yield sort("f32", "8,4096", 1)
    yield sort("bf16", "100,7", 0)
    yield sort("s16", "9000", 0)
    yield sort("f32", "9000", 0, first=20)
    yield scan("f32", 1, 1 << 20, "add")
    yield scan("bf16", 9, 200, "add")
    yield scan("c64", 9, 2000, "multiply")
    yield scan("s8", 900, 9, "maximum")
    yield scatter("f32", "add(a, b)")
    yield scatter("f32", "maximum(a, b)")
    yield scatter("bf16", "add(a, b)")
    yield scatter("u8", "or(a, b)")
    yield scatter("f64", "add(a, b)", deterministic=True)
    yield scatter("s32", "multiply(a, b)", updates=5000)
    yield pool()
    yield cholesky("f32")
    yield cholesky("c64")
    yield solve("f32")
    yield solve("c128")


@NEEDS_PTXAS
@pytest.mark.parametrize(
    "architecture",
    [a if a == "sm_90" else pytest.param(a, marks=pytest.mark.slow) for a in ARCHITECTURES],
)
def test_kernels_assemble_and_keep_to_registers(architecture) -> None:
    resources = check_assembles(kernels(), architecture)
    assert all(r.spill_stores == r.stack == 0 for r in resources.values())
    assert max(r.registers for r in resources.values()) <= 96
