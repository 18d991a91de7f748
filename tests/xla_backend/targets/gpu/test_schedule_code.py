"""Code of loops and transposes that are scheduled for GPUs: wide accesses, no spills, and it
assembles for all architectures."""

import pytest
from code_checks import functions_of, ptx_of
from native_checks import check_text
from scheduled_checks import scheduled

from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.ptx import compile_ptx
from xla_backend.targets.gpu.ptxas import assemble

LARGE = "a = f32[41943040] parameter(0)\nROOT r = f32[41943040] negate(a)"
BIAS = """
  a = f16[1000,1024] parameter(0)
  b = f16[1024] parameter(1)
  ROOT r = f16[1000,1024] fusion(a, b), kind=kLoop, calls=f"""
BIAS_CALLED = """f {
  a = f16[1000,1024] parameter(0)
  b = f16[1024] parameter(1)
  c = f16[1000,1024] broadcast(b), dimensions={1}
  ROOT r = f16[1000,1024] add(a, c)
}
"""
TURNED = "a = f32[128,128] parameter(0)\nROOT r = f32[128,128] transpose(a), dimensions={1,0}"
TURNED_BYTES = TURNED.replace("f32", "s8")
TURNED_PAIRS = TURNED.replace("f32", "c64")
TURNED_EDGES = TURNED.replace("128,128", "127,127")
PADDED = """
  a = f32[8,10,16] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[8,12,16] pad(a, z), padding=0_0x1_1x0_0"""
JOINED = """
  a = f32[50,36] parameter(0)
  b = f32[50,64] parameter(1)
  ROOT r = f32[50,100] concatenate(a, b), dimensions={1}"""


def test_all_loads_come_first() -> None:
    check_text(
        ptx_of([scheduled(LARGE)]),
        """
        // CHECK: .reqntid 256
        // CHECK-COUNT-4: ld.global.nc.v4.b32
        // CHECK-COUNT-16: neg.f32
        // CHECK-COUNT-4: st.global.v4.b32
        // CHECK-NOT: bra
        """,
    )


@pytest.mark.parametrize(
    ("body", "called", "loads", "stores"),
    [
        (BIAS, BIAS_CALLED, 2, 1),
        (PADDED, "", 1, 1),
        (JOINED, "", 2, 2),
        ("a = c64[4000] parameter(0)\nROOT r = c64[4000] negate(a)", "", 1, 1),
        ("a = s8[4096] parameter(0)\nROOT r = s8[4096] negate(a)", "", 1, 1),
    ],
    ids=["bias", "padded", "joined", "complex", "bytes"],
)
def test_accesses_of_16_bytes(body: str, called: str, loads: int, stores: int) -> None:
    ptx = ptx_of([scheduled(body, called)])
    assert (ptx.count("ld.global.nc.v4.b32"), ptx.count("st.global.v4.b32")) == (loads, stores)


def test_tiles() -> None:
    check_text(
        ptx_of([scheduled(TURNED)]),
        """
        // CHECK-COUNT-4: ld.global.nc.b32
        // CHECK-COUNT-4: st.shared.b32
        // CHECK: bar.sync
        // CHECK-COUNT-4: ld.shared.b32
        // CHECK-COUNT-4: st.global.b32
        """,
    )


@NEEDS_PTXAS
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_is_spilled(architecture: str) -> None:
    bodies = [LARGE, PADDED, JOINED, TURNED, TURNED_BYTES, TURNED_PAIRS, TURNED_EDGES]
    kernels = [scheduled(body, architecture=ARCHITECTURES[architecture]) for body in bodies]
    for n, kernel in enumerate(kernels):
        kernel.name = f"k{n}"
    functions = functions_of(kernels, architecture)
    ptx = compile_ptx(functions.module.to_text(), functions.architecture)
    for name, used in assemble(ptx, architecture).resources.items():
        assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0), name
        assert used.registers <= 48, name  # five blocks of 256 threads have that many
