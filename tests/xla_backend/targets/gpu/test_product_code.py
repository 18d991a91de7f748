"""PTX of products and attention: the instructions that they are for, and no spills."""

from __future__ import annotations

import re

import pytest
from test_attention import attention
from test_products import ROWS, dot

from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.hlo.parser import parse_module
from xla_backend.kernels.library.matrix_product import Tiling
from xla_backend.targets.gpu import product_rules
from xla_backend.targets.gpu.architectures import TRIPLE
from xla_backend.targets.gpu.target_code import GpuTargetCode, make_target_code

EXACT = ROWS + ", operand_precision={highest,highest}"
TRANSPOSED = "lhs_contracting_dims={1}, rhs_contracting_dims={1}"
SIDES = ("[256,256]", "[256,256]", "[256,256]")
KERNELS = {
    "bf16": (
        dot(*(f"bf16{s}" for s in SIDES), TRANSPOSED), Tiling(128, 128, 32, 2, 4),
        r"mma\.sync\S*m16n8k16\S*bf16",
    ),
    "f16": (dot(*(f"f16{s}" for s in SIDES)), Tiling(128, 64, 32, 4, 2), r"m16n8k16\S*f16\.f16"),
    "tf32": (dot(*(f"f32{s}" for s in SIDES)), Tiling(128, 128, 16, 2, 4), r"m16n8k8\S*tf32"),
    "s8": (
        dot("s8[256,256]", "s8[256,256]", "s32[256,256]"), Tiling(64, 64, 64, 2, 2),
        r"m16n8k32\S*s8",
    ),
    "f32": (dot(*(f"f32{s}" for s in SIDES), EXACT), Tiling(128, 128, 8, 16, 16), r"fma\.rn\.f32"),
    "f64": (dot(*(f"f64{s}" for s in SIDES)), Tiling(64, 64, 8, 16, 16), r"fma\.rn\.f64"),
    "vector": (dot("f32[512,512]", "f32[512]", "f32[512]"), None, r"fma\.rn\.f32"),
    "attention": (attention(128, 128, 64, 64), None, r"m16n8k16\S*bf16"),
}  # fmt: skip


def code_of(text: str, architecture: str) -> GpuTargetCode:
    options = CompileOptions(target=Target(TRIPLE, architecture))
    return make_target_code(parse_module(text), options)


@pytest.mark.parametrize(
    "architecture",
    ["sm_80", *(pytest.param(a, marks=pytest.mark.slow) for a in ("sm_90", "sm_100", "sm_120"))],
)
@pytest.mark.parametrize("name", KERNELS)
def test_instructions_and_registers(monkeypatch, name, architecture):
    text, tiling, instruction = KERNELS[name]
    if tiling is not None:
        monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    code = code_of(text, architecture)
    ptx = code.assembly()
    assert re.search(instruction, ptx)
    assert "mul.rn.f64" not in ptx
    if not code.code.can_assemble:
        pytest.skip("there is no ptxas to ask for registers")
    for resources in code.code.assembled().resources.values():
        assert resources.spill_stores == resources.spill_loads == 0
        assert resources.registers <= 168


def test_global_memory_is_read_16_bytes_at_a_time(monkeypatch):
    text, tiling, _ = KERNELS["bf16"]
    monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    ptx = code_of(text, "sm_80").assembly()
    loads = re.findall(r"ld\.global\S*", ptx)
    assert loads and all(".v4.b32" in load for load in loads)
    assert not re.search(r"ld\.shared\S*b16", ptx), "pairs of factors are one word"
