"""The assembler: where it is found, what it says, and that it takes the code of every operation."""

import os
import subprocess
from pathlib import Path

import pytest
from code_checks import Threads, functions_of
from native_checks import module_of
from opcode_programs import ALL, PROGRAMS
from sample_programs import BODIES, CALLED

from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.ir import Kernel
from xla_backend.llvm.objects import IrError
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.persistent import store
from xla_backend.targets.gpu import ptxas
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.compiler import plan_program
from xla_backend.targets.gpu.kernel_functions import KernelFunctions, shared_operands
from xla_backend.targets.gpu.ptx import compile_ptx, llvm_target
from xla_backend.targets.gpu.ptxas import (
    PtxasError,
    PtxasNotFoundError,
    Resources,
    assemble,
    find_ptxas,
    parse_resources,
    require_ptxas,
)
from xla_backend.tools.assemble_corpus import assemble_module

VERBOSE = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'one' for 'sm_90'
ptxas info    : Function properties for one
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size, 512 bytes smem
ptxas info    : Compile time = 2.125 ms
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 18 registers, used 0 barriers, 380 bytes cmem[0]
"""


def copying() -> str:
    """PTX of a kernel."""
    with Threads() as t:
        t.b.store(t.output(P.F32, 128), t.here, [t.b.load(t.operand(P.F32, 128), t.here)])
    functions = functions_of([t.kernel])
    return compile_ptx(functions.module.to_text(), functions.architecture)


def test_what_it_says() -> None:
    assert parse_resources(VERBOSE) == {
        "one": Resources(255, 4, 8, 16, 512, 1),
        "other": Resources(18, 0, 0, 0, 0, 0),
    }


# -- where it is -----------------------------------------------------------------------------------


def program(folder: Path, name: str = "ptxas") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch, tmp_path) -> Path:
    """A machine without any."""
    for variable in (ptxas.VARIABLE, "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(ptxas, "find_spec", lambda name: None)
    monkeypatch.setattr(ptxas, "_USUAL", tmp_path / "usual")
    return tmp_path


def test_there_is_none(bare) -> None:
    assert find_ptxas() is None
    with pytest.raises(PtxasNotFoundError, match="pip install nvidia-cuda-nvcc-cu12, or let"):
        require_ptxas()


def test_the_order_of_places(bare, monkeypatch) -> None:
    places = [program(bare / "usual"), program(bare / "path")]
    monkeypatch.setenv("PATH", str(bare / "path"))
    assert find_ptxas() == places[1]
    places.append(program(bare / "home" / "bin"))
    monkeypatch.setenv("CUDA_HOME", str(bare / "home"))
    assert find_ptxas() == places[2]
    places.append(program(bare / "nvidia" / "cuda_nvcc" / "bin"))
    package = type("Spec", (), {"submodule_search_locations": [str(bare / "nvidia")]})
    monkeypatch.setattr(ptxas, "find_spec", lambda name: package)
    assert find_ptxas() == places[3]
    chosen = program(bare, "mine")
    monkeypatch.setenv(ptxas.VARIABLE, str(chosen))
    assert find_ptxas() == chosen
    toolkit = program(bare / "toolkit" / "bin")
    assert find_ptxas(str(bare / "toolkit")) == toolkit
    assert find_ptxas(str(bare / "empty")) == chosen


def test_the_environment_names_one_that_is_not_there(bare, monkeypatch) -> None:
    monkeypatch.setenv(ptxas.VARIABLE, "/nowhere/ptxas")
    with pytest.raises(PtxasNotFoundError, match=r"\$PYJAX_PTXAS is '/nowhere/ptxas', which is no"):
        find_ptxas()


# -- what it makes ---------------------------------------------------------------------------------


@NEEDS_PTXAS
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_code_of_each_architecture(architecture) -> None:
    if architecture == "sm_80":  # what is made for sm_90 does not run there
        with pytest.raises(PtxasError, match=r"ptxas .* refuses the code for sm_80"):
            assemble(copying(), architecture)
        return
    made = assemble(copying(), architecture)
    assert made.code.startswith(b"\x7fELF")
    assert made.resources["kernel_k"].registers > 0


@NEEDS_PTXAS
def test_a_text_that_it_refuses() -> None:
    text = copying().replace("st.global.b32", "st.global.b33")
    with pytest.raises(PtxasError, match=r"(?s)line \d+ in kernel_k:\nst\.global\.b33"):
        assemble(text, "sm_90")


@NEEDS_PTXAS
def test_what_spills_for_no_need_is_made_anew(monkeypatch) -> None:
    """The first time something else is said, as of a kernel that is given too few registers."""
    spilling = VERBOSE.replace("'one'", "'kernel_k'").replace("'other'", "'kernel_l'")
    said = [parse_resources(spilling)]
    plain = ptxas.parse_resources
    monkeypatch.setattr(ptxas, "parse_resources", lambda text: said.pop() if said else plain(text))
    text = copying()
    assert "minnctapersm" not in text
    again = ptxas.with_few_blocks(text, ["kernel_k"])
    assert again.count(".reqntid 64\n.minnctapersm 1\n") == 1
    assert ptxas.with_few_blocks(text, ["kernel"]) == text
    made = assemble(text, "sm_90")
    assert not said and set(made.resources) == {"kernel_k"}
    assert made.resources["kernel_k"].spill_stores == 0


@NEEDS_PTXAS
def test_functions_that_would_spill_more_are_left_alone(monkeypatch) -> None:
    texts = []

    def assembled(path, text, architecture, flags):
        texts.append(text)
        few = {name: f"{name} few" in text for name in ("one", "two", "three")}
        spills = {"one": 0 if few["one"] else 8, "two": 16 if few["two"] else 8, "three": 0}
        used = {name: Resources(32, bytes, 0, 0, 0, 0) for name, bytes in spills.items()}
        return ptxas.Assembled(text.encode(), used)

    monkeypatch.setattr(ptxas, "_assemble_once", assembled)
    monkeypatch.setattr(
        ptxas, "with_few_blocks", lambda text, names: " ".join(f"{n} few" for n in names)
    )
    made = assemble("plain", "sm_90")
    assert texts == ["plain", "one few two few", "one few"]
    assert [r.spill_stores for r in made.resources.values()] == [0, 8, 0]


def test_a_text_that_llvm_refuses() -> None:
    with pytest.raises(IrError, match="at line 2 in `define void @f`"):
        compile_ptx("define void @f() {\n  ret i32 0\n}\n", ARCHITECTURES["sm_90"])


@NEEDS_PTXAS
def test_code_is_kept_on_disk(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    text = copying()
    first = assemble(text, "sm_90", keep=True)
    with monkeypatch.context() as without:
        without.setattr(subprocess, "run", None)
        assert assemble(text, "sm_90", keep=True) == first
        with pytest.raises(TypeError):
            assemble(text, "sm_90", flags=["-O1"], keep=True)
    assert "cubin" in store.status().kinds
    assert os.listdir(tmp_path)


def test_ptx_is_kept_on_disk(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYJAX_CACHE_DIR", str(tmp_path))
    with Threads() as t:
        t.b.store(t.output(P.F32, 128), t.here, [t.b.load(t.operand(P.F32, 128), t.here)])
    functions = functions_of([t.kernel])
    text = functions.module.to_text()
    first = compile_ptx(text, functions.architecture, cache=True)
    assert store.status().kinds == {"ptx": 1}
    assert compile_ptx(text, functions.architecture, cache=True) == first
    compile_ptx(text, ARCHITECTURES["sm_80"], cache=True)
    assert store.status().kinds == {"ptx": 2}


# -- all operations --------------------------------------------------------------------------------


def kernels_of(programs: list[tuple[str, P]]) -> tuple[list[Kernel], dict[str, frozenset[int]]]:
    """The kernels of programs by opcode and type, under names of their own, and the operands that
    launches write."""
    kernels: list[Kernel] = []
    sharing: dict[str, frozenset[int]] = {}
    for name, type in programs:
        module = parse_module(PROGRAMS[name].text(type))
        program = plan_program(module, CompileOptions()).program
        found = shared_operands(program)
        for kernel in program.kernels.values():
            shared = found.get(kernel.name, frozenset())
            kernel.name = f"{name}_{type}_{len(kernels)}".replace("-", "_")
            sharing[kernel.name] = shared
            kernels.append(kernel)
    return kernels, sharing


def check_all(programs: list[tuple[str, P]], architecture: str) -> None:
    """Assemble the kernels in one module."""
    chosen = ARCHITECTURES[architecture]
    kernels, sharing = kernels_of(programs)
    functions = KernelFunctions(ModuleWriter(llvm_target(chosen)), chosen, sharing)
    names = {launch.name for kernel in kernels for launch in functions.launches(kernel)}
    made = assemble(compile_ptx(functions.module.to_text(), chosen), architecture)
    assert set(made.resources) == names and len(names) >= len(programs) // 2


@NEEDS_PTXAS
def test_every_opcode_with_one_type() -> None:
    """All types in turn, so that each occurs with many opcodes."""
    programs = [(name, p.types[i % len(p.types)]) for i, (name, p) in enumerate(PROGRAMS.items())]
    check_all(programs, "sm_80")


@NEEDS_PTXAS
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("type", ALL, ids=str)
def test_every_opcode_with_every_type(type, architecture) -> None:
    check_all([(name, type) for name, p in PROGRAMS.items() if type in p.types], architecture)


@NEEDS_PTXAS
@pytest.mark.parametrize("name", ["loop", "product-epilogue", "sort-pairs", "scan", "update"])
def test_sample_programs(name) -> None:
    resources = assemble_module(module_of(BODIES[name], CALLED), "sm_90")
    assert resources and not any(r.spill_stores for r in resources.values())


@NEEDS_PTXAS
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", BODIES)
def test_all_sample_programs(name, architecture) -> None:
    assemble_module(module_of(BODIES[name], CALLED), architecture)
