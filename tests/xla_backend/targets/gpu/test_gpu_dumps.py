"""What `--xla_dump_to` writes of programs for GPUs, and flags that change their code."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import xla_backend
from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.compile_options import CompileOptions
from xla_backend.debug_options import FlagError
from xla_backend.dump_options import DumpOptions
from xla_backend.targets.gpu.code_dumps import disassembled
from xla_backend.targets.gpu.compiler import generate
from xla_backend.targets.gpu.generated_code import SpillError, replacement
from xla_backend.targets.gpu.ptxas import Assembled, PtxasError, Resources, find_ptxas
from xla_backend.targets.gpu.target_code import GpuTargetCode

TEXT = """HloModule jit_f
ENTRY e {
  x = f32[4096] parameter(0)
  y = f32[4096] add(x, x)
  ROOT r = f32[4096] exponential(y)
}"""


def code(**flags: object) -> GpuTargetCode:
    made = xla_backend.compile(xla_backend.parse_hlo(TEXT), options=flags, target="sm_90")
    assert isinstance(made, GpuTargetCode)
    return made


def names(folder: Path) -> set[str]:
    return {re.sub(r"^module_\d+\.", "", p.name) for p in folder.iterdir() if p.is_file()}


DUMPED = {
    "jit_f.before_optimizations.txt",
    "jit_f.sm_9.0_gpu_after_optimizations.txt",
    "jit_f.sm_9.0_gpu_after_optimizations-buffer-assignment.txt",
    "jit_f.sm_9.0_gpu_after_optimizations-memory-usage-report.txt",
    "jit_f.gpu_target_config.pbtxt",
    "jit_f.thunk_sequence.txt",
    "jit_f.ir-no-opt.ll",
    "jit_f.ir-with-opt.ll",
    "jit_f.ptx",
    "jit_f.debug_options",
}


def test_names_of_files(tmp_path: Path) -> None:
    made = code(xla_dump_to=tmp_path)
    found = names(tmp_path)
    assert found >= DUMPED
    (ptx,) = tmp_path.glob("*.ptx")
    assert ptx.read_text() == made.assembly()
    (config,) = tmp_path.glob("*.pbtxt")
    assert "cuda_compute_capability {\n    major: 9\n    minor: 0\n" in config.read_text()
    assert "launch " in next(iter(tmp_path.glob("*thunk_sequence.txt"))).read_text()
    assert any(name.endswith("_fusion.loop-ir.txt") for name in found)
    assert ("jit_f.cubin" in found) == (find_ptxas() is not None)
    assert ("jit_f.sass" in found) == (shutil.which("cuobjdump") is not None)


def test_the_emulator_dumps_what_it_emulates(tmp_path: Path) -> None:
    module = xla_backend.parse_hlo(TEXT)
    options = {"xla_dump_to": tmp_path, "xla_dump_emitter_re": "exponential"}
    executable = xla_backend.compile(module, "gpu_emulator", options)
    x = np.linspace(-1, 1, 4096, dtype=np.float32)
    (found,) = executable.execute([x])
    np.testing.assert_allclose(found, np.exp(2 * x), rtol=1e-5)
    written = names(tmp_path)
    assert written >= DUMPED
    assert any(name.endswith(".s") for name in written)


@NEEDS_PTXAS
def test_listing_where_there_is_a_disassembler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "cuobjdump"
    tool.write_text('#!/bin/sh\necho "listing of $1"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert disassembled(code().object_code()) == "listing of --dump-sass\n"


def test_what_was_chosen_by_measuring(tmp_path: Path) -> None:
    text = """HloModule jit_f
    ENTRY e {
      x = f32[1024,1024] parameter(0)
      ROOT p = f32[1024,1024] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }"""
    for choose, expected in ((None, 0), (lambda node, found: found[-1], 1)):
        options = CompileOptions(dump=DumpOptions(to=str(tmp_path)))
        generate(xla_backend.parse_hlo(text), options, choose)
        written = list(tmp_path.glob("*.autotune_results.txt"))
        assert len(written) == expected
    assert re.fullmatch(r"%p: \w+\(.*\), of \d+ candidates\n", written[0].read_text())


# -- flags -----------------------------------------------------------------------------------------


def test_texts_from_files(tmp_path: Path) -> None:
    plain = code()
    ptx = tmp_path / "module_0000.jit_f.ptx"
    ptx.write_text(plain.assembly() + "// mine\n")
    other = tmp_path / "module_0000.jit_g.ptx"
    other.write_text("of another program")
    both = f"{other},{ptx}"
    assert code(xla_gpu_ptx_file=both).assembly().endswith("// mine\n")
    assert code(xla_gpu_ptx_file=str(other)).assembly() == plain.assembly()
    ir = tmp_path / "jit_f.ll"
    ir.write_text(plain.texts()["llvm"].replace("@kernel_", "@my_kernel_"))
    assert ".visible .entry my_kernel_" in code(xla_gpu_llvm_ir_file=str(ir)).assembly()
    gone = tmp_path / "jit_f.gone"
    with pytest.raises(FlagError, match=r"jit_f.gone.* of jit_f, cannot be read: No such file"):
        code(xla_gpu_ptx_file=str(gone)).assembly()


def test_whose_file_it_is(tmp_path: Path) -> None:
    file = tmp_path / "module_0004.jit_f.ptx"
    file.write_text("text")
    assert replacement([str(file)], "jit_f", "") == "text"
    assert replacement([str(file)], "jit_f", "module_0004.jit_f") == "text"
    assert replacement([str(file)], "jit_f", "module_0002.jit_f") is None
    assert replacement([str(file)], "jit", "") is None


def test_subnormal_numbers() -> None:
    assert "add.rn.f32" in code().assembly()
    assert "add.rn.ftz.f32" in code(xla_gpu_ftz=True).assembly()


@NEEDS_PTXAS
def test_flags_of_the_assembler() -> None:
    best = code().object_code()
    assert code(xla_gpu_disable_gpuasm_optimizations=True).object_code() != best
    few = code(xla_gpu_ptx_compiler_extra_flags="--maxrregcount=16")
    launches = [launch for kernel in few.kernels() for launch in kernel.launches]
    assert all(launch.registers is not None and launch.registers <= 24 for launch in launches)


@NEEDS_PTXAS
def test_folder_of_the_toolkit(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "ptxas"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n[ $1 = --version ] && echo V1.2.3 && exit\necho no! >&2; exit 3\n")
    tool.chmod(0o755)
    with pytest.raises(PtxasError, match=r"ptxas 1\.2\.3 refuses the code for sm_90:\nno!"):
        code(xla_gpu_cuda_data_dir=tmp_path).object_code()


def test_spills_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = code().kernels()[0].launches[0].function
    spilling = Assembled(b"", {name: Resources(255, 8, 16, 24, 0, 0)})
    where = "xla_backend.targets.gpu.generated_code.assemble"
    monkeypatch.setattr(where, lambda *args, **options: spilling)
    code()
    with pytest.raises(SpillError, match=rf"jit_f: registers spill for sm_90 in {name} \(24 bytes"):
        code(xla_gpu_fail_ptx_compilation_on_register_spilling=True)
