"""Programs on pretended GPUs: planned, scheduled and generated for real; the stand-in for CuPy runs
the functions in the kernel interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.program.ir import Program, Resident, all_steps
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.pending import Origin
from xla_backend.targets.gpu.architectures import TRIPLE
from xla_backend.targets.gpu.compiler import Planned, generate
from xla_backend.targets.gpu.cuda import client
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.executable import CudaExecutable
from xla_backend.targets.gpu.generated_code import GeneratedCode
from xla_backend.targets.gpu.product_candidates import Choose


def known(
    module: HloModule, options: CompileOptions, choose: Choose | None = None
) -> tuple[Planned, GeneratedCode]:
    """`generate`, with functions that the stand-in knows."""
    planned, code = generate(module, options, choose)
    remember(planned.program, code)
    return planned, code


def remember(program: Program, code: GeneratedCode) -> None:
    """Let the stand-in know the functions of a program."""
    everything = fake_cupy.known_functions
    functions = fake_cupy.known_texts[code.ptx] = fake_cupy.Functions()
    for name, launched in code.functions.items():
        for number, function in enumerate(launched):
            functions.stages[function.name] = program.kernels[name], number
    for steps in (program.steps, *program.procedures.values()):
        for step in all_steps(steps):
            if isinstance(step, Resident):
                resident = code.residents[step.name]
                functions.residents[resident.name] = program, step, resident.memories
    everything.stages.update(functions.stages)
    everything.residents.update(functions.residents)


def run_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the stand-in runs the programs that clients compile."""
    monkeypatch.setattr(client, "generate", known)


def compiled(
    text: str,
    of: CudaClient | None = None,
    *,
    graphs: bool = True,
    ptx: str | None = None,
    choose: Choose | None = None,
    architecture: str = "sm_90",
    **changed: Any,
) -> CudaExecutable:
    """The executable of an HLO text on the first device; `ptx`: in place of the generated one;
    `choose`: how products are computed;
    `changed`: what the functions say otherwise of their launches."""
    module = parse_module(text)
    device: Any = (of or CudaClient()).devices()[0]
    options = CompileOptions(verify=True, target=Target(TRIPLE, architecture))
    planned, code = known(module, options, choose)
    code.functions = {
        name: tuple(replace(function, **changed) for function in functions)
        for name, functions in code.functions.items()
    }
    if ptx is not None:
        code.ptx = ptx
    return CudaExecutable(planned, module, code, device, graphs=graphs)


class Caller(Origin):
    """Who started a program, in tests."""

    def error(self, message: str) -> Exception:
        return RuntimeError(f"f did not compute: {message}")


def started(
    executable: CudaExecutable, buffers: list[Any], donated: Any = (), device: Any = None
) -> tuple[list[Any], Any]:
    """Outputs to come, and the job."""
    context = ExecutionContext(device or executable.device)
    return executable.start(buffers, donated, context, (), Caller())


def on(device: Any, *arrays: Any) -> list[Any]:
    """Buffers with these arrays."""
    found = []
    for array in map(np.asarray, arrays):
        kind = device.client.buffer_kind(device, array.shape, array.dtype)
        found.append(kind.from_host(array))
    return found
