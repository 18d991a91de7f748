"""Programs on pretended GPUs: planned and scheduled for real, with kernels that the stand-in for
CuPy runs in the kernel interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.xla_backend.targets.gpu import fake_cupy
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.parser import parse_module
from xla_backend.kernels.ir import Kernel, Loop
from xla_backend.program.ir import Program
from xla_backend.program.plan import Plan
from xla_backend.runtime.client import ExecutionContext
from xla_backend.runtime.pending import Origin
from xla_backend.targets.gpu.compiler import plan_program
from xla_backend.targets.gpu.cuda import client
from xla_backend.targets.gpu.cuda.client import CudaClient
from xla_backend.targets.gpu.cuda.code import Code, make_code
from xla_backend.targets.gpu.cuda.executable import CudaExecutable
from xla_backend.targets.gpu.schedule.stages import threads_of


class Entry(NamedTuple):
    name: str
    blocks: int
    threads: int
    dynamic_shared: int = 0


def pretended_code(plan: Plan, target: str = "sm_80") -> Code:
    """Code that only the stand-in takes: the names of its functions."""
    entries = {name: tuple(_entries(k)) for name, k in plan.program.kernels.items()}
    lines = [f".entry {entry.name}" for found in entries.values() for entry in found]
    return Code("\n".join([f".target {target}", *lines]).encode(), entries)


def _entries(kernel: Kernel) -> list[Entry]:
    loops = [stage for stage in kernel.stages if isinstance(stage, Loop)]
    found = []
    for number, loop in enumerate(loops):
        name = f"{kernel.name}_{number}".replace(".", "_").replace("-", "_")
        fake_cupy.known_kernels.stages[name] = kernel, number
        found.append(Entry(name, loop.var.extent, threads_of(loop).var.extent))
    return found


def real_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on clients' programs have code as it is generated, whose functions the stand-in
    runs."""

    def make(program: Program, *rest: Any) -> Code:
        code = make_code(program, *rest)
        for name, functions in code.entries.items():
            for number, function in enumerate(functions):
                stage = program.kernels[name], number
                fake_cupy.known_kernels.stages[function.name] = stage
        return code

    monkeypatch.setattr(client, "make_code", make)


def compiled(
    text: str,
    of: CudaClient | None = None,
    *,
    graphs: bool = True,
    changed: Callable[[Code], Code] = lambda code: code,
    **options: Any,
) -> CudaExecutable:
    """The executable of an HLO text on the first device."""
    module: HloModule = parse_module(text)
    plan = plan_program(module, CompileOptions(verify=True, **options))
    device: Any = (of or CudaClient()).devices()[0]
    return CudaExecutable(module, plan, changed(pretended_code(plan)), device, graphs=graphs)


class Caller(Origin):
    """Who started a program, in tests."""

    def __init__(self, name: str = "f") -> None:
        self.name = name

    def error(self, message: str) -> Exception:
        return RuntimeError(f"{self.name} did not compute: {message}")


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
