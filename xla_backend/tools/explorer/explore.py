"""explore: compile a module and make the page about it."""

from __future__ import annotations

from collections.abc import Iterable

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.cost_analysis import analyze
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.verifier import verify
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.targets.cpu.compiler import compile_scheduled
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.tools.explorer.page import page
from xla_backend.tools.explorer.recording import FrontStage, Recorder, Recording


def explore(
    module: HloModule,
    options: CompileOptions | None = None,
    *,
    title: str | None = None,
    front: Iterable[FrontStage] = (),
) -> str:
    """HTML of the page that shows how a module, which stays as it is, is compiled for the CPU.

    Args:
      title: of the page; the module's name if not given.
      front: stages in front of HLO, such as a jaxpr.
    Raises:
      VerificationError: the module is not valid.
      UnimplementedError: it cannot be compiled.
    """
    return page(record(module, options, title=title, front=front))


def record(
    module: HloModule,
    options: CompileOptions | None = None,
    *,
    title: str | None = None,
    front: Iterable[FrontStage] = (),
) -> Recording:
    """What the page shows; see `explore`."""
    options = options or CompileOptions()
    verify(module)
    module = module.clone()
    recorder = Recorder(title or module.name, front)
    recorder.start(module)
    pipeline = build_pipeline(options, recorder)
    recorder.log = pipeline.log
    pipeline.run(module)
    executable = compile_scheduled(module, assign_buffers(module), options)
    seconds = {"passes": sum(run.seconds for run in pipeline.log), **executable.profile}
    return recorder.finish(module, executable.emitted_kernels, _summary(executable, seconds))


def _summary(executable: CpuExecutable, seconds: dict[str, float]) -> dict[str, str]:
    """What is said about the whole program at the top of the page."""
    cost = analyze(executable.module)
    arguments = sum(s.byte_size for s in executable.parameter_shapes)
    results = sum(s.byte_size for s in executable.output_shapes)
    return {
        "arithmetic": f"{cost.flops:,.0f} flop",
        "transcendentals": f"{cost.transcendentals:,.0f}",
        "memory traffic": f"{cost.bytes_accessed:,.0f} B",
        "arguments": f"{arguments:,} B",
        "results": f"{results:,} B",
        "temporaries": f"{executable.temp_size:,} B",
        "code": f"{executable.code_bytes:,} B",
        **{phase: f"{s * 1e3:.1f} ms" for phase, s in seconds.items()},
    }
