"""explore: compile a module and make the page about it."""

from __future__ import annotations

from collections.abc import Iterable

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.cost_analysis import analyze
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.verifier import verify
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.targets.cpu.compiler import compile_scheduled
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.targets.gpu.compiler import plan_scheduled
from xla_backend.targets.gpu.generated_code import GeneratedCode
from xla_backend.targets.gpu.pipeline import build_pipeline as build_gpu_pipeline
from xla_backend.targets.gpu.target_code import GpuTargetCode
from xla_backend.tools.explorer.page import page
from xla_backend.tools.explorer.recording import FrontStage, Recorder, Recording


def explore(
    module: HloModule,
    options: CompileOptions | None = None,
    *,
    title: str | None = None,
    front: Iterable[FrontStage] = (),
) -> str:
    """HTML of the page that shows how a module, which stays as it is, is compiled: for the CPU, or
    for the GPU that `options.target` names, which need not be here.

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
    if options.target is not None and options.target.is_gpu:
        return _gpu_recording(module, options, recorder)
    pipeline = build_pipeline(options, recorder)
    recorder.log = pipeline.log
    pipeline.run(module)
    executable = compile_scheduled(module, assign_buffers(module), options)
    seconds = {"passes": sum(run.seconds for run in pipeline.log), **executable.profile}
    summary = _summary(module, executable.temp_size) | {"code": f"{executable.code_bytes:,} B"}
    return recorder.finish(module, executable.emitted_kernels, summary | _milliseconds(seconds))


def _gpu_recording(module: HloModule, options: CompileOptions, recorder: Recorder) -> Recording:
    """Of a program for a GPU, which need not be here: what it would take on a card is told, too."""
    pipeline = build_gpu_pipeline(options, recorder)
    recorder.log = pipeline.log
    pipeline.run(module)
    planned = plan_scheduled(module, options, pipeline.log)
    code = GeneratedCode(planned.program, planned.instructions, planned.architecture, options)
    made = GpuTargetCode(module, code)
    found = made.analysis()
    summary = _summary(module, made.program.arena_size) | {
        "target": code.architecture.name,
        "launches": f"{sum(k.executions for k in found.launches):,}",
        f"estimated on {found.card.name}": f"{1e6 * found.seconds:.1f} us",
    }
    seconds = {"passes": sum(run.seconds for run in pipeline.log)}
    return recorder.finish(module, made.kernels(), summary | _milliseconds(seconds))


def _summary(module: HloModule, temporaries: int) -> dict[str, str]:
    """What is said about the whole program at the top of the page."""
    assert module.entry is not None
    parameters, result = module.entry.program_shape
    cost = analyze(module)
    return {
        "arithmetic": f"{cost.flops:,.0f} flop",
        "transcendentals": f"{cost.transcendentals:,.0f}",
        "memory traffic": f"{cost.bytes_accessed:,.0f} B",
        "arguments": f"{sum(s.byte_size for p in parameters for s in p.flatten()):,} B",
        "results": f"{sum(s.byte_size for s in result.flatten()):,} B",
        "temporaries": f"{temporaries:,} B",
    }


def _milliseconds(seconds: dict[str, float]) -> dict[str, str]:
    return {phase: f"{s * 1e3:.1f} ms" for phase, s in seconds.items()}
