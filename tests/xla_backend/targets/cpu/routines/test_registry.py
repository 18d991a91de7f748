"""The mapping from symbol to kernel: first use from several threads, groups in parts, kernels that
are compiled while a program is, unknown names."""

import threading

import pytest

from tests.threads import together
from xla_backend.llvm import partition
from xla_backend.llvm.target import host_target
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.targets.cpu.routines import library, registry, subjects
from xla_backend.targets.cpu.routines.library import KernelLibrary, got_ready, kernel_library
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
    assert sorted(builds) == ["sort_keys_i32", "sort_u8", "workspace"]  # and what it calls
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


@pytest.fixture
def no_kernels(monkeypatch, tmp_path):
    """As in a process that has used none, with nothing on disk."""
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(library, "_libraries", BoundedCache(Budget("test", entries=8)))


@pytest.fixture
def builders(monkeypatch):
    """Group -> the thread that built it."""
    seen = {}
    build = KernelLibrary._build

    def recorded(self, group):
        seen[group] = threading.get_ident()
        build(self, group)

    monkeypatch.setattr(KernelLibrary, "_build", recorded)
    return seen


def test_parts_of_a_group_are_kept_as_one_entry(no_kernels, monkeypatch):
    monkeypatch.setattr(partition, "_CPUS", 3)
    kernels = KernelLibrary(host_target())
    assert len(kernels._objects("cholesky_f32")) == 1
    monkeypatch.setattr(partition, "_PART_CHARACTERS", 2000)
    monkeypatch.setattr(subjects, "_LEAST_PART", 1000)
    made = kernels._objects("cholesky_f64")
    assert len(made) == 2
    monkeypatch.setattr(library, "_group_parts", lambda *_: pytest.fail("it is on disk"))
    assert kernels._objects("cholesky_f64") == made


def test_kernels_in_parts_are_known_by_their_own_names_only(no_kernels, monkeypatch):
    monkeypatch.setattr(partition, "_CPUS", 2)
    monkeypatch.setattr(partition, "_PART_CHARACTERS", 2000)
    monkeypatch.setattr(subjects, "_LEAST_PART", 500)
    kernels = kernel_library()
    before = set(kernels._addresses)
    kernels["pyjax_cholesky_f32"]
    added = set(kernels._addresses) - before
    assert added == {"pyjax_cholesky_f32", "pyjax_lane_groups"}  # and what it calls


def test_kernels_are_compiled_while_the_body_runs(no_kernels, builders):
    symbols = ["pyjax_cholesky_f32", "pyjax_poll_begin"]
    with got_ready(symbols, host_target(), (), None):
        pass
    assert builders.keys() == {"cholesky_f32", "lane_groups"}
    assert builders["cholesky_f32"] != threading.get_ident()
    assert kernel_library(host_target()).is_ready(symbols)
    builders.clear()
    threads = threading.active_count()
    with got_ready(symbols, host_target(), (), None):
        assert threading.active_count() == threads
    assert not builders


def test_errors_of_kernels_reach_who_links_them(no_kernels, monkeypatch):
    def fail(*_, **__):
        raise OSError("no space")

    monkeypatch.setattr(library, "_group_parts", fail)
    with got_ready(["pyjax_cholesky_f32"], host_target(), (), None):
        pass
    with pytest.raises(OSError, match="no space"):
        kernel_library(host_target())["pyjax_cholesky_f32"]


def test_a_group_that_another_one_calls_is_built_beside_it(no_kernels, builders):
    kernel_library()["pyjax_fft_c64.fours_rows_rows"]
    called = {"fft_pass_8_c64", "fft_pass_4_c64", "fft_turn_c64", "lane_groups", "workspace"}
    assert builders.keys() == {"fft_c64.fours_rows_rows", *called}
    assert len(set(builders.values())) >= 2


def test_groups_that_are_asked_for_together_are_built_at_the_same_time(no_kernels, monkeypatch):
    both = threading.Barrier(2, timeout=60)
    build = KernelLibrary._build

    def met(self, group):
        both.wait()
        build(self, group)

    monkeypatch.setattr(KernelLibrary, "_build", met)
    monkeypatch.setattr(library, "available_threads", lambda: 2)
    kernels = KernelLibrary(host_target())
    symbols = ["pyjax_lane_groups", "pyjax_workspace_take"]
    kernels.get_ready(symbols)
    assert kernels.is_ready(symbols)


def test_a_kernel_is_of_one_group():
    """Two with one name would be one of them, whichever came last."""
    with pytest.raises(ValueError, match="pyjax_lane_groups is of group 'lane_groups' and of 'x'"):
        registry.register_group("x", ("pyjax_lane_groups",), lambda module: None)
    declare_kernels()
    assert registry.owners()["pyjax_lane_groups"] == "lane_groups"


def test_what_is_kept(no_kernels, monkeypatch):
    """Built, or on disk: nothing is compiled to know it, and a group is looked for once."""
    looked = []

    def found(group, *rest):
        looked.append(group)
        return [b"code"] if group == "lane_groups" else None

    monkeypatch.setattr(library, "found_objects", found)
    kernels = KernelLibrary(host_target())
    for _ in range(2):
        assert kernels.is_kept(["pyjax_lane_groups"])
        assert not kernels.is_kept(["pyjax_lane_groups", "pyjax_workspace_take"])
        assert kernels.is_kept(["pyjax_parallel_for"]), "of the pool"
    assert looked == ["lane_groups", "workspace"]
    assert kernels._objects("lane_groups") == [b"code"], "it is not read again"
