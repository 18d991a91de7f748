"""What is dumped of the code of a program for GPUs, under XLA's names."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xla_backend.dump.interface import CompilationListener
from xla_backend.dump.text_format import message
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.llvm import objects
from xla_backend.passes.buffer_assignment import BufferAssignment
from xla_backend.program.printer import program_to_text
from xla_backend.targets.gpu.architectures import WARP, Architecture
from xla_backend.targets.gpu.generated_code import GeneratedCode
from xla_backend.targets.gpu.product_candidates import Candidate, Choose
from xla_backend.targets.gpu.ptx import llvm_target
from xla_backend.targets.gpu.routines import ROUTINES


class Choices:
    """What chooses products, and remembers what it chose: lines for `autotune_results.txt`."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._made: dict[str, str] = {}

    def __call__(self, node: Instruction, found: Sequence[Candidate]) -> Candidate:
        chosen = self._choose(node, found)
        self._made[node.name] = f"%{node.name}: {chosen!r}, of {len(found)} candidates"
        return chosen

    def text(self) -> str:
        return "\n".join(self._made.values()) + "\n" if self._made else ""


def dump_code(
    dumper: CompilationListener,
    module: HloModule,
    assignment: BufferAssignment,
    code: GeneratedCode,
    choices: str = "",
) -> None:
    """Tell of everything from the optimised module on: buffers, program, loops, LLVM text, PTX, and
    where the programs for that are found, the assembled code and its listing (SASS)."""
    architecture = code.architecture
    dumper.after_optimizations(module, assignment, f"{_capability(architecture)}_gpu")
    dumper.kernels(code.loops())
    if dumper.wants_emitters:
        dumper.emitted(code.emitted())
    files: dict[str, str | bytes] = {
        "gpu_target_config.pbtxt": _target_config(architecture),
        "thunk_sequence.txt": program_to_text(code.program, ROUTINES),
        "ir-no-opt.ll": code.llvm_ir,
        "ir-with-opt.ll": objects.printed(code.llvm_ir, llvm_target(architecture, code.llvm_ir)),
        "ptx": code.ptx,
    }
    if choices:
        files["autotune_results.txt"] = choices
    if code.can_assemble:
        cubin = code.assembled().code
        files["cubin"] = cubin
        listing = disassembled(cubin)
        if listing is not None:
            files["sass"] = listing
    dumper.code(files)


def disassembled(cubin: bytes) -> str | None:
    """Assembled code as text; None where there is no cuobjdump."""
    tool = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin")
    if tool is None:
        return None
    with tempfile.TemporaryDirectory(prefix="pyjax-sass-") as folder:
        file = Path(folder, "code.cubin")
        file.write_bytes(cubin)
        command = [tool, "--dump-sass", str(file)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _capability(architecture: Architecture) -> str:
    """`sm_9.0` of sm_90."""
    return f"sm_{architecture.number // 10}.{architecture.number % 10}"


def _target_config(architecture: Architecture) -> str:
    """What is known of the target, as XLA writes a device: limits of its architecture."""
    major, minor = divmod(architecture.number, 10)
    described = {
        "threads_per_block_limit": architecture.threads_per_block,
        "threads_per_warp": WARP,
        "shared_memory_per_block": architecture.static_shared,
        "shared_memory_per_core": architecture.shared_per_multiprocessor,
        "threads_per_core_limit": architecture.threads_per_multiprocessor,
        "core_count": architecture.multiprocessors,
        "registers_per_core_limit": architecture.registers,
        "registers_per_block_limit": architecture.registers,
        "cuda_compute_capability": {"major": major, "minor": minor},
        "shared_memory_per_block_optin": architecture.shared_per_block,
    }
    return message({"gpu_device_info": described, "platform_name": "CUDA"})
