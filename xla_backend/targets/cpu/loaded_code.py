"""Executables of code that was compiled in another process."""

from __future__ import annotations

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.module_source import ModuleSource
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.client import Device
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.program_code import ProgramCode, link
from xla_backend.targets.cpu.target_options import target_for

_stages_of = on_first_use("xla_backend.targets.cpu.compiler", "stages_of")


def load_code(
    code: ProgramCode, source: ModuleSource, options: CompileOptions, device: Device
) -> CpuExecutable:
    """The executable that `compile_code` made of an equal module and options in another process.
    The module, or what makes it, is kept, to be compiled if somebody asks for its stages."""
    library = link(code, target_for(options), options.fast_math, options.num_threads)
    stages = lambda: _stages_of(source.module, options)
    return CpuExecutable(code, library, device, stages, {}, options, source.name)
