"""The model table: hot kernels do not spill, and what is told from a kernel is what the emulator
counts."""

from __future__ import annotations

import pytest

from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.hlo.parser import parse_module
from xla_backend.library import compile
from xla_backend.targets.emulator import EmulatorExecutable
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.target_code import GpuTargetCode
from xla_backend.targets.gpu.work import kernel_work
from xla_backend.tools import gpu_model
from xla_backend.tools.gpu_families import FAMILIES, Family

BY_NAME = {family.name: family for family in FAMILIES}


def spilling(family: Family, architecture: str) -> dict[str, int]:
    """Functions whose registers spill, and how many bytes."""
    code = compile(parse_module(family.large), target=architecture)
    assert isinstance(code, GpuTargetCode)
    launches = [launch for kernel in code.kernels() for launch in kernel.launches]
    return {x.function: x.spilled_bytes for x in launches if x.spilled_bytes}


@NEEDS_PTXAS
@pytest.mark.parametrize(
    "architecture",
    [
        name if name == "sm_90a" else pytest.param(name, marks=pytest.mark.slow)
        for name in ARCHITECTURES
    ],
)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_hot_kernels_do_not_spill(family: Family, architecture: str) -> None:
    assert spilling(family, architecture) == {}


# Whose accesses depend neither on data nor on the block: the counts are exact.
EXACT = ("elementwise", "transpose", "row reduction", "column reduction", "softmax", "layer norm")
# Others, and how far they may be off.
NEARLY = {"gather": 0.1, "scatter": 0.1, "product bf16": 0.1, "convolution": 0.3, "cumsum": 0.01}


@pytest.mark.parametrize("name", [*EXACT, *NEARLY])
def test_what_is_told_is_what_is_counted(name: str) -> None:
    family = BY_NAME[name]
    module = parse_module(family.small)
    loaded = compile(module, "gpu_emulator").loaded
    assert isinstance(loaded, EmulatorExecutable)
    for kernel, counted in loaded.counters(list(family.arguments(module))).items():
        works = kernel_work(loaded.plan.program.kernels[kernel])
        told = (
            sum(w.requests for w in works),
            sum(w.sectors for w in works),
            sum(w.shared_passes for w in works),
            sum(sum(w.matrix_operations.values()) for w in works),
        )
        traffic, shared = counted.global_traffic, counted.shared_traffic
        found = (traffic.requests, traffic.sectors, shared.passes, counted.tile_flops)
        if name in EXACT:
            assert told == found
        else:
            assert told == pytest.approx(found, rel=NEARLY[name])


def test_table_of_a_family() -> None:
    row = gpu_model.model(BY_NAME["transpose"], ["sm_90"])
    assert row.moved == pytest.approx(1) and row.efficiency == 1 and row.passes == 1
    assert row.error == 0 and row.kernels == 1 and row.routines == 0
    on_card = row.cards["sm_90"]
    assert on_card.card.name == "H200" and on_card.fraction > 0.8 and on_card.bound == "memory"
    first, names, second = gpu_model.table([row]).split("\n\n")
    assert first.splitlines()[-1].startswith("| transpose | x.T, f32[8192,8192] | 1 | 1.00 | 100 %")
    assert names == "Architectures: sm_90."
    assert "| H200 |" in second and second.splitlines()[-1].startswith("| transpose | ")


def test_families_that_there_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu_model.main(["softmin"]) == 1
    assert "no family 'softmin'; there are elementwise, transpose" in capsys.readouterr().err
