"""compile_module: HLO in, CpuExecutable out, with the time of each phase."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from xla_backend.compile_options import CompileOptions
from xla_backend.cpu import library_rules
from xla_backend.cpu.driver import Driver, aligned
from xla_backend.cpu.executable import CpuExecutable
from xla_backend.cpu.pipeline import build_pipeline
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.llvm import jit
from xla_backend.llvm.partition import split
from xla_backend.llvm.target import host_target, make_target
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.passes.buffer_assignment import BufferAssignment, assign_buffers

# Text of a module that is worth a thread of its own, about 10 ms of LLVM's time.
_PART_CHARACTERS = 12_000
_MAX_PARTS = 8
_CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Profile:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def compile_module(module: HloModule, options: CompileOptions | None = None) -> CpuExecutable:
    """Optimise `module` (in place) and generate native code for it.

    Raises:
      UnimplementedError: the program uses something this backend cannot run.
      VerificationError: the module is not valid (with `options.verify`).
    """
    options = options or CompileOptions()
    profile = _Profile()
    with _without_collector():
        with profile.phase("passes"):
            build_pipeline(options).run(module)
        with profile.phase("buffer assignment"):
            assignment = assign_buffers(module)
        return compile_scheduled(module, assignment, options, profile)


@contextmanager
def _without_collector() -> Iterator[None]:
    """A compilation makes many objects that live until its end: walking them again and again is
    wasted time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def compile_scheduled(
    module: HloModule,
    assignment: BufferAssignment,
    options: CompileOptions,
    profile: _Profile | None = None,
) -> CpuExecutable:
    """Generate code for a module that the pipeline has already scheduled."""
    profile = profile or _Profile()
    target = host_target()
    if options.target_cpu is not None:
        target = make_target(target.triple, options.target_cpu, options.target_features or "")
    with profile.phase("emit"):
        writer = ModuleWriter(target)
        driver = Driver(module, assignment, writer)
        driver.run_entry()
        llvm_ir = writer.to_text()
    _dump(options, module, driver, llvm_ir, assignment)
    with profile.phase("llvm"):
        parts = _parts(llvm_ir) if options.dump is None else 1
        texts = split(writer, parts) if parts > 1 else [llvm_ir]
        objects = jit.compile_objects(texts, target, cache=True)
    if options.dump is not None:
        options.dump.write("obj-file.o", objects[0])  # type: ignore[attr-defined]
    with profile.phase("link"):
        symbols, keep_alive = library_rules.symbols(driver)
        library = jit.Library(objects, symbols, keep=keep_alive)
    temp_size = aligned(assignment.temp_size) + driver.scratch_bytes
    return CpuExecutable(
        module,
        assignment,
        library,
        driver.kernels,
        llvm_ir,
        b"".join(objects),
        temp_size,
        driver.cycles,
        profile.seconds,
        keep_alive,
        driver.host_call_numbers,
    )


def _parts(llvm_ir: str) -> int:
    """How many modules to compile at the same time."""
    return max(1, min(len(llvm_ir) // _PART_CHARACTERS, _CPUS, _MAX_PARTS))


def _dump(
    options: CompileOptions,
    module: HloModule,
    driver: Driver,
    llvm_ir: str,
    assignment: BufferAssignment,
) -> None:
    if options.dump is None:
        return
    write = options.dump.write  # type: ignore[attr-defined]
    text_options = options.dump.text_options  # type: ignore[attr-defined]
    write("cpu_after_optimizations.txt", module_to_text(module, **text_options))
    write("cpu_after_optimizations-buffer-assignment.txt", assignment.to_text())
    write("loop-ir.txt", "\n\n".join(driver.kernels.texts().values()))
    write("ir-no-opt.ll", llvm_ir)
