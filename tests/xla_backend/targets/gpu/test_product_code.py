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
CONVERTED = f"""
ENTRY e {{
  a = s8[256,256] parameter(0)  b = s8[256,256] parameter(1)
  x = s32[256,256] convert(a)  y = s32[256,256] convert(b)
  ROOT r = s32[256,256] dot(x, y), {ROWS}
}}"""
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
    "converted s8": (CONVERTED, Tiling(64, 64, 64, 2, 2), r"m16n8k32\S*s8"),
    "u8 and s8": (
        dot("u8[256,256]", "s8[256,256]", "s32[256,256]", TRANSPOSED), Tiling(64, 64, 64, 2, 2),
        r"m16n8k32\S*u8\.s8",
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


EXACTLY = TRANSPOSED + ", operand_precision={highest,highest}"
ROUGHLY = TRANSPOSED + ", algorithm=dot_any_f8_any_f8_f32_fast_accum"
IN_F32 = TRANSPOSED + ", algorithm=dot_any_f8_any_f8_f32"


@pytest.mark.parametrize(
    ("architecture", "attributes", "instruction"),
    [
        ("sm_80", TRANSPOSED, r"m16n8k16\S*f16\.f16"),
        ("sm_90", TRANSPOSED, r"m16n8k32\S*e4m3\.e5m2"),
        ("sm_90", EXACTLY, r"m16n8k16\S*f16\.f16"),
        ("sm_90", ROUGHLY, r"m16n8k32\S*e4m3\.e5m2"),
        ("sm_90", IN_F32, r"m16n8k16\S*f16\.f16"),
        ("sm_120", TRANSPOSED, r"m16n8k32\S*e4m3\.e5m2"),
    ],
)
def test_tiles_of_float_bytes(monkeypatch, architecture, attributes, instruction):
    """Where there are some, and no more bits are asked for."""
    sides = ("f8e4m3fn[256,256]", "f8e5m2[256,256]", "f32[256,256]")
    monkeypatch.setattr(product_rules, "fastest", lambda *_: Tiling(64, 64, 64, 2, 2))
    code = code_of(dot(*sides, attributes), architecture)
    ptx = code.assembly()
    assert re.search(instruction, ptx)
    version = re.search(r"\.version (\d+\.\d+)", ptx)
    assert version is not None
    assert (float(version[1]) < 8.4) == ("f16" in instruction)
    if code.code.can_assemble:
        for resources in code.code.assembled().resources.values():
            assert resources.spill_stores == resources.spill_loads == 0


@pytest.mark.parametrize("name", ["bf16", "f16"])
def test_slabs_are_copied_and_tiles_loaded_by_the_hardware(monkeypatch, name):
    """16 bytes by each copy, several slabs ahead; four matrices by each load."""
    text, tiling, _ = KERNELS[name]
    monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    ptx = code_of(text, "sm_80").assembly()
    assert not re.search(r"ld\.(global|shared)|st\.shared", ptx)
    copies = re.findall(r"cp\.async\.c[ag]\S*", ptx)
    assert copies and set(copies) == {"cp.async.cg.shared.global"}
    assert re.search(r"cp\.async\.wait_group\s+1;", ptx)
    loads = re.findall(r"ldmatrix\S*", ptx)
    turned = [".trans" in load for load in loads]
    assert loads and all(".x4." in load for load in loads)
    assert any(turned) == (name == "f16") and not all(turned)


def test_columns_of_bytes_are_turned_by_the_hardware(monkeypatch):
    text, tiling, _ = KERNELS["s8"]
    monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    ptx = code_of(text, "sm_80").assembly()
    assert not re.search(r"ld\.(global|shared)|st\.shared", ptx)
    loads = re.findall(r"ldmatrix\S*", ptx)
    assert any(".trans" in load for load in loads) and "prmt.b32" in ptx


def test_rounded_factors_go_through_registers_16_bytes_at_a_time(monkeypatch):
    text, tiling, _ = KERNELS["tf32"]
    monkeypatch.setattr(product_rules, "fastest", lambda *_: tiling)
    ptx = code_of(text, "sm_80").assembly()
    loads = re.findall(r"ld\.global\S*", ptx)
    assert loads and all(".v4.b32" in load for load in loads)
    assert "ldmatrix" in ptx
