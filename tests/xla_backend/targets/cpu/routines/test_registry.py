"""The mapping from symbol to kernel: first use from several threads, unknown names."""

import pytest

from tests.threads import together
from xla_backend.llvm.target import host_target
from xla_backend.targets.cpu.routines import registry
from xla_backend.targets.cpu.routines.library import KernelLibrary, kernel_library
from xla_backend.targets.cpu.routines.subjects import declare_kernels


def test_first_use_by_several_threads_builds_a_group_once(monkeypatch):
    builds = []
    build = KernelLibrary._build

    def counted(self, group):
        builds.append(group)
        build(self, group)

    declare_kernels()
    monkeypatch.setattr(KernelLibrary, "_build", counted)
    fresh = KernelLibrary(host_target())
    found = together(*[lambda: fresh["pyjax_sort_u8"]] * 4)
    assert builds == ["sort_u8", "sort_keys_i32"]  # and what it calls
    assert len(set(found)) == 1


def test_moves_lane_by_lane_are_written_once():
    """Without AVX-512 LLVM makes branches of each: dozens took half a second to compile."""
    declare_kernels()
    text = registry.group_module("conv_direct_planes_f32", host_target()).to_text()
    for move in ("expandload", "compressstore"):
        assert (
            sum(f"@llvm.masked.{move}" in line for line in text.splitlines() if " call " in line)
            == 1
        )


def test_unknown_symbol():
    assert "pyjax_no_such_kernel" not in kernel_library()
    with pytest.raises(KeyError, match="no run-time kernel"):
        kernel_library()["pyjax_no_such_kernel"]
