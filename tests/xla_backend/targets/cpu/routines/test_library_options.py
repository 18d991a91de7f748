"""Kernels of the library follow the target and the flags of the program that calls them."""

import numpy as np
import pytest

from xla_backend import library
from xla_backend.llvm.target import host_target, make_target
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.targets.cpu.routines import library as routines
from xla_backend.targets.cpu.routines import registry
from xla_backend.targets.cpu.routines.subjects import declare_kernels

PROGRAMS = {
    "product": """ENTRY e {
  x = f32[40,70] parameter(0)
  y = f32[70,53] parameter(1)
  d = f32[40,53] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[40,53] tanh(d)
}""",
    "convolution": """ENTRY e {
  x = f32[2,9,10,5] parameter(0)
  y = f32[3,3,5,7] parameter(1)
  ROOT c = f32[2,9,10,7] convolution(x, y), window={size=3x3 pad=1_1x1_1},
    dim_labels=b01f_01io->b01f
}""",
    "sort": """less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
ENTRY e {
  x = f32[3,1000] parameter(0)
  ROOT s = f32[3,1000] sort(x), dimensions={1}, to_apply=less
}""",
    "scan": """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[3,1000] parameter(0)
  zero = f32[] constant(0)
  ROOT s = f32[3,1000] reduce-window(x, zero), window={size=1x1000 pad=0_0x999_0}, to_apply=add
}""",
}


@pytest.fixture
def built(monkeypatch, tmp_path):
    """(target, fast-math flags) of each group of kernels that is written."""
    seen = []
    group_parts = routines._group_parts

    def recorded(group, target, fast_math):
        seen.append((target, fast_math))
        return group_parts(group, target, fast_math)

    monkeypatch.setattr(routines, "_group_parts", recorded)
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(routines, "_libraries", BoundedCache(Budget("test", entries=8)))
    return seen


@pytest.mark.skipif(not host_target().is_x86, reason="instruction sets of x86")
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_kernels_of_an_older_instruction_set(name, built):
    module = library.parse_hlo(PROGRAMS[name])
    rng = np.random.default_rng(7)
    shapes = [p.shape.dimensions for p in module.entry.parameters]
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    (got,) = library.compile(module, options={"xla_cpu_max_isa": "SSE4_2"}).execute(arrays)
    (want,) = library.evaluate(module, arrays)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-4)
    assert built and all(target.cpu == "x86-64-v2" for target, _ in built)


def test_fast_math_reaches_the_library(built):
    module = library.parse_hlo(PROGRAMS["product"])
    library.compile(module, options={"xla_cpu_enable_fast_math": True})
    assert built and all("reassoc" in flags for _, flags in built)


def test_text_of_a_group_depends_on_target_and_flags():
    declare_kernels()
    wide = make_target("x86_64-unknown-linux-gnu", "x86-64-v4")
    narrow = make_target("x86_64-unknown-linux-gnu", "x86-64-v2")
    assert "<16 x float>" in registry.group_module("gemm_f32", wide).to_text()
    text = registry.group_module("gemm_f32", narrow).to_text()
    assert "<4 x float>" in text and "<16 x float>" not in text
    unsafe = registry.group_module("gemm_f32", narrow, ("reassoc",)).to_text()
    assert "fadd reassoc <4 x float>" in unsafe
