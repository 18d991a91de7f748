"""Code for GPUs that are not here: PTX, launches, what an assembler says, and estimates."""

from __future__ import annotations

import numpy as np
import pytest

import pyjax
import pyjax.numpy as jnp
import xla_backend
from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.compile_target import Target
from xla_backend.hlo.errors import UnimplementedError
from xla_backend.targets.gpu import generated_code
from xla_backend.targets.gpu.analysis import ProgramAnalysis
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.ptxas import PtxasNotFoundError
from xla_backend.targets.gpu.target_code import GpuTargetCode
from xla_backend.targets.gpu.work import TRANSCENDENTAL

PROGRAM = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[256,1024] parameter(0)
  y = f32[256,1024] exponential(x)
  zero = f32[] constant(0)
  s = f32[256] reduce(y, zero), dimensions={1}, to_apply=add
  t = f32[1024,256] transpose(x), dimensions={1,0}
  ROOT r = (f32[256], f32[1024,256]) tuple(s, t)
}"""


def code(target: str | Target = "sm_90", text: str = PROGRAM) -> GpuTargetCode:
    made = xla_backend.compile(xla_backend.parse_hlo(text), target=target)
    assert isinstance(made, GpuTargetCode)
    return made


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_ptx_is_made_for_each_architecture(name: str) -> None:
    made = code(name)
    ptx = made.assembly()
    assert f".target {name}" in ptx
    kernels = made.kernels()
    for kernel in kernels:
        assert kernel.instructions and "for " in kernel.loop_ir
        for launch in kernel.launches:
            assert launch.threads % 32 == 0 and launch.blocks >= 1
            assert f".visible .entry {launch.function}(" in kernel.assembly
            assert f"@{launch.function}(" in kernel.llvm_ir
            assert f".reqntid {launch.threads}" in kernel.assembly
    functions = {launch.function for k in kernels for launch in k.launches}
    assert ptx.count(".visible .entry ") == len(functions) == sum(len(k.launches) for k in kernels)


def test_texts() -> None:
    texts = code().texts()
    assert list(texts) == ["hlo", "program", "loops", "llvm", "ptx"]
    assert texts["hlo"].startswith("HloModule") and "launch " in texts["program"]
    assert "in threads(" in texts["loops"] and "ptx_kernel" in texts["llvm"]


@NEEDS_PTXAS
def test_what_the_assembler_says() -> None:
    made = code()
    assert made.object_code()[:4] == b"\x7fELF"
    for kernel in made.kernels():
        for launch in kernel.launches:
            assert launch.registers is not None and 0 < launch.registers <= 255
            assert launch.spilled_bytes == 0
            assert launch.occupancy is not None and 0 < launch.occupancy <= 1


def test_without_an_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated_code, "find_ptxas", lambda *args: None)
    monkeypatch.setenv("PYJAX_PTXAS", "/nowhere/ptxas")
    made = code()
    assert all(x.registers is None for k in made.kernels() for x in k.launches)
    assert "  ?  " in str(made.analysis())
    with pytest.raises(PtxasNotFoundError):
        made.object_code()


def test_analysis() -> None:
    made = code()
    found = made.analysis("H200")
    assert found.card.name == "H200" and found.architecture == "sm_90"
    assert {k.kernel for k in found.launches} == set(made.program.kernels)
    # x is read by the rows and by the transpose.
    nbytes = 4 * 256 * 1024
    assert found.bytes == pytest.approx(3 * nbytes + 4 * 256, rel=0.3)
    assert found.flops >= 2 * 256 * 1024
    assert 0 < found.seconds < 1e-3
    assert all(0 < k.estimate.fraction <= 1 for k in found.launches)
    lines = str(found).splitlines()
    assert lines[0].startswith("Estimated for H200 (sm_90): ")
    assert lines[1].split()[:4] == ["function", "times", "blocks", "threads"]
    assert made.analysis().card.name == "H200"
    faster = code("sm_100").analysis()
    assert faster.card.name == "B200"


def test_cards_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="no data of a card 'T4'; there are A100, H100, H200"):
        code().analysis("T4")
    message = "the code is for sm_90, and A100 has sm_80: compile for target='sm_80'"
    with pytest.raises(ValueError, match=message):
        code().analysis("A100")


def loop(body: str, rounds: str) -> str:
    return f"""
body {{
  p = (s32[], f32[1048576]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[1048576] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[1048576] {body}(x)
  ROOT r = (s32[], f32[1048576]) tuple(j, y)
}}
condition {{
  p = (s32[], f32[1048576]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] {rounds}
  ROOT r = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  n = s32[] parameter(0)
  x = f32[1048576] parameter(1)
  zero = s32[] constant(0)
  t = (s32[], f32[1048576]) tuple(zero, x)
  w = (s32[], f32[1048576]) while(t), condition=condition, body=body
  ROOT r = f32[1048576] get-tuple-element(w), index=1
}}"""


def test_rounds_of_loops_are_counted() -> None:
    text = loop("cosine", "constant(100)").replace("1048576", "67108864")
    found = code(text=text).analysis()
    most = max(found.launches, key=lambda k: k.work.bytes)
    assert most.executions == 100 and not found.open_loops


def test_loops_of_one_block() -> None:
    text = loop("cosine", "constant(100)").replace("1048576", "64")
    made = code(text=text)
    assert not made.code.functions and len(made.code.residents) == 1
    found = made.analysis()
    (only,) = found.launches
    assert only.executions == 1 and only.launch.blocks == 1 and only.launch.registers != 0
    assert only.work.operations["f32"] == 100 * 64 * TRANSCENDENTAL
    assert only.estimate.bound == "latency" and only.estimate.seconds > 100 * 300e-9
    for kernel in made.kernels():
        assert kernel.inline and kernel.launches == (only.launch,)
        assert f".visible .entry {only.launch.function}(" in kernel.assembly


def test_loops_of_a_grid() -> None:
    found = code(text=loop("cosine", "constant(100)")).analysis()
    only = max(found.launches, key=lambda k: k.work.flops)
    assert only.executions == 1 and 1 < only.launch.blocks <= 132
    assert only.work.operations["f32"] == 100 * 1048576 * TRANSCENDENTAL
    assert only.estimate.bound == "barriers" and only.estimate.seconds > 100 * 1.5e-6


def test_copies() -> None:
    text = """ENTRY e {
      x = f32[4096] parameter(0)
      u = f32[8] parameter(1)
      i = s32[] constant(7)
      ROOT r = f32[4096] dynamic-update-slice(x, u, i)
    }"""
    (copy,) = code(text=text).analysis().routines
    assert (copy.routine, copy.bytes, copy.flops) == ("copy", 2 * 4 * 4096, 0)


def test_what_is_needed_beside_the_kernels() -> None:
    text = "ENTRY e { x = f32[8] parameter(0)  ROOT r = f32[8] cosine(x) }"
    assert code(text=text).needs() == [] and code(text=text).routines() == {}


def test_unknown_architectures() -> None:
    module = xla_backend.parse_hlo(PROGRAM)
    with pytest.raises(ValueError, match=r"target 'sm_75'.*sm_80, sm_90, sm_90a, sm_100, sm_120"):
        xla_backend.compile(module, target="sm_75")
    with pytest.raises(
        UnimplementedError, match=r"'sm_75'; there are sm_80, sm_90, sm_90a, sm_100"
    ):
        xla_backend.compile(module, target=Target("nvptx64-nvidia-cuda", "sm_75"))


def test_functions_are_compiled_for_gpus_that_are_not_here() -> None:
    lowered = pyjax.jit(lambda x: jnp.tanh(x) * 2).trace(np.ones(512, np.float32))
    made = lowered.lower(lowering_platforms=("cuda",)).compile(target="sm_120")
    assert isinstance(made, GpuTargetCode)
    assert ".target sm_120" in made.assembly()
    assert isinstance(made.analysis("RTX 5090"), ProgramAnalysis)
    on_cpu = lowered.lower()
    assert on_cpu.compile(target="aarch64").object_code()[:4] == b"\x7fELF"
    with pytest.raises(ValueError, match="was lowered for cpu, and cannot be compiled for sm_90"):
        on_cpu.compile(target="sm_90")
    with pytest.raises(ValueError, match=r"compile\(target=...\) makes code for a machine"):
        lowered.lower(lowering_platforms=("cuda",)).compile()


@pytest.mark.parametrize("name", ["platforms", "lowering_platforms"])
def test_other_platforms_are_named_after_tracing(name: str) -> None:
    twice = pyjax.jit(lambda x: 2 * x)
    with pytest.raises(TypeError, match=rf"(?s)no argument '{name}'.*\.lower\(lowering_plat"):
        twice.lower(np.ones(3), **{name: ["cuda"]})
    of_its_own = pyjax.jit(lambda x, platforms: platforms * x)
    assert "multiply" in of_its_own.lower(np.ones(3), platforms=2.0).as_text()
    any_name = pyjax.jit(lambda x, **names: names["platforms"] * x)
    assert "multiply" in any_name.lower(np.ones(3), platforms=2.0).as_text()
