"""compile_module: HLO in, CpuExecutable out, with the time of each phase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xla_backend.compile_options import CompileOptions
from xla_backend.dump.interface import CompilationListener, make_dumper
from xla_backend.hlo.module import HloModule
from xla_backend.llvm.partition import split, worthwhile_parts
from xla_backend.llvm.target import TargetInfo
from xla_backend.llvm.writer import ModuleWriter
from xla_backend.measured_costs import Costs
from xla_backend.passes.base import PassRun
from xla_backend.passes.buffer_assignment import BufferAssignment
from xla_backend.process.bounded_cache import BoundedCache, Budget
from xla_backend.process.no_collections import without_collections
from xla_backend.process.on_first_use import on_first_use
from xla_backend.program.ir import Program
from xla_backend.runtime.client import Device
from xla_backend.targets.cpu.emit_program import NUMBERS, EmittedProgram, emit_program
from xla_backend.targets.cpu.executable import CpuExecutable
from xla_backend.targets.cpu.kernel_listing import KernelListing
from xla_backend.targets.cpu.planned import (
    Planned,
    Profile,
    linked,
    plan_module,
    plan_scheduled,
    refuse_others,
)
from xla_backend.targets.cpu.program_code import ProgramCode
from xla_backend.targets.cpu.program_facts import program_facts
from xla_backend.targets.cpu.routines.library import got_ready
from xla_backend.targets.cpu.stages import CompiledStages
from xla_backend.targets.cpu.target_options import target_for

# LLVM is not loaded where first code is all that is made for now.
_compile_objects = on_first_use("xla_backend.llvm.objects", "compile_objects")
_printed = on_first_use("xla_backend.llvm.objects", "printed")

# Object code of programs that are the same for all sizes.
_shared_objects: BoundedCache[tuple[str, int, TargetInfo, int], Sequence[bytes]] = BoundedCache(
    Budget("object code for all sizes", entries=256)
)


class Compiled(NamedTuple):
    """An executable, and the code that it was linked from."""

    executable: CpuExecutable
    code: ProgramCode


def compile_module(
    module: HloModule, options: CompileOptions | None = None, device: Device | None = None
) -> CpuExecutable:
    """Optimise `module` (in place) and generate native code for it. `device`: where it runs unless
    told otherwise; None: on a device apart from any platform.

    Raises:
      UnimplementedError: the program uses something this backend cannot run.
      VerificationError: the module is not valid (with `options.verify`).
    """
    return compile_code(module, options or CompileOptions(), device).executable


def compile_code(
    module: HloModule, options: CompileOptions, device: Device | None, *, cache: bool = True
) -> Compiled:
    """`compile_module`, with the code. `cache`: look for object code on disk, and keep it there."""
    profile = Profile()
    dumper = make_dumper(options.dump, module.name)
    if dumper is not None:
        _dump_inputs(dumper, module, options)

    def compiled_now() -> tuple[Compiled, Sequence[PassRun]]:
        refuse_others(module, options)
        planned = plan_module(module, options, profile, dumper)
        return compile_planned(planned, options, profile, dumper, device, cache), planned.log

    # A compilation makes many objects that live until its end: walking them again and again is
    # wasted time.
    compiled, log = without_collections(compiled_now)
    if dumper is not None:
        dumper.metadata(log)
        compiled.executable.recorder = dumper.recorder(module)
    return compiled


def stages_of(module: HloModule, options: CompileOptions) -> CompiledStages:
    """What `compile_code` goes through for a module, which stays as it is."""
    planned = plan_module(module.clone(), options, Profile())
    kernels = write_code(planned, options, shared=True).kernels
    return CompiledStages(planned, lambda: kernels)


class WrittenCode(NamedTuple):
    """The LLVM module of a program, and what can be read about its kernels."""

    emitted: EmittedProgram
    kernels: KernelListing


def write_code(
    planned: Planned,
    options: CompileOptions,
    profile: Profile | None = None,
    *,
    shared: bool = False,
) -> WrittenCode:
    """LLVM code of a program, for the target that the options say. `shared`: as in
    `emit_program`."""
    program, schedules = planned.program, planned.schedules
    with (profile or Profile()).phase("emit"):
        writer = ModuleWriter(schedules.target, options.fast_math)
        serial, measured = options.num_threads == 1, options.profiled_runs > 0
        emitted = emit_program(
            program,
            writer,
            serial=serial,
            measured=measured,
            overlap=options.overlap_collectives,
            shared=shared,
        )
    return WrittenCode(emitted, KernelListing(program, planned.instructions, emitted.kernels))


def codegen_level(options: CompileOptions) -> int:
    """Level of LLVM's code generator: higher ones gain little here, and take their time."""
    return 2 if options.level == 3 else 1


def compile_scheduled(
    module: HloModule, assignment: BufferAssignment, options: CompileOptions
) -> CpuExecutable:
    """Generate code for a module that the pipeline has already scheduled."""
    planned = plan_scheduled(module, assignment, options)
    return compile_planned(planned, options, Profile()).executable


def compile_planned(
    planned: Planned,
    options: CompileOptions,
    profile: Profile,
    dumper: CompilationListener | None = None,
    device: Device | None = None,
    cache: bool = True,
) -> Compiled:
    """The rest of `compile_code`."""
    code, kernels = generate(planned, options, profile, dumper, cache)
    stages = CompiledStages(planned, lambda: kernels)
    return Compiled(linked(code, planned, stages, options, profile, device), code)


class Generated(NamedTuple):
    """The code of a program, and what can be read about its kernels."""

    code: ProgramCode
    kernels: KernelListing


def generate(
    planned: Planned,
    options: CompileOptions,
    profile: Profile,
    dumper: CompilationListener | None = None,
    cache: bool = True,
    go_on: Callable[[], object] | None = None,
) -> Generated:
    """LLVM's code of a program.

    Args:
      cache: look for object code on disk, and keep it there.
      go_on: nobody waits for the code: it is made on this thread only, and this is called before
        LLVM, which cannot be stopped. It may raise.
    """
    target = target_for(options)
    emitted, kernels = write_code(planned, options, profile, shared=True)
    with profile.phase("emit"):
        llvm_ir = kernels.module.to_text()
    if go_on is not None:
        go_on()
    with profile.phase("llvm"):
        parts = worthwhile_parts(len(llvm_ir), options.parallel_codegen)
        texts = split(kernels.module, parts) if parts > 1 else [llvm_ir]
        level = codegen_level(options)
        compile_them = lambda: _compile_objects(
            texts, target, cache=cache, opt=level, in_turn=go_on is not None
        )
        with got_ready(_routines(emitted), target, options.fast_math, options.num_threads):
            objects_made: Sequence[bytes]
            if emitted.numbers is None:
                objects_made = compile_them()
            else:
                key = (llvm_ir, parts, target, level)
                objects_made = _shared_objects.make(key, compile_them)
    if dumper is not None:
        dumper.after_optimizations(planned.module, planned.assignment)
        _dump_code(dumper, kernels, target, list(zip(texts, objects_made)))
    code = _program_code(planned.program, emitted, objects_made, len(llvm_ir), options.measured)
    return Generated(code, kernels)


def _routines(emitted: EmittedProgram) -> list[str]:
    """The symbols of the runtime and its kernels that a program calls."""
    return [name for name in emitted.kernels.module.declarations if name.startswith("pyjax_")]


def _program_code(
    program: Program,
    emitted: EmittedProgram,
    objects: Sequence[bytes],
    text_size: int,
    measured: Costs,
) -> ProgramCode:
    """The code of a program that was emitted. `text_size`: of its LLVM text. `measured`: costs that
    it was made with."""
    numbers = {} if emitted.numbers is None else {NUMBERS: emitted.numbers}
    facts = program_facts(
        program,
        bound=emitted.bound_constants,
        tables=numbers,
        host_calls=emitted.host_calls,
        routines=_routines(emitted),
        text_size=text_size,
        code_size=sum(map(len, objects)),
        timed=emitted.timed,
        measured=measured,
        meetings=emitted.meetings,
    )
    return ProgramCode(facts, objects)


def _dump_inputs(dumper: CompilationListener, module: HloModule, options: CompileOptions) -> None:
    target = target_for(options)
    described = {"triple": target.triple, "cpu": target.cpu, "features": target.features}
    dumper.inputs(module, described, options.profile_version)
    dumper.before_optimizations(module)


def _dump_code(
    dumper: CompilationListener,
    kernels: KernelListing,
    target: TargetInfo,
    units: Sequence[tuple[str, bytes]],
) -> None:
    dumper.kernels(kernels.texts())
    if dumper.wants_emitters:
        dumper.emitted(kernels.emitted())
    dumper.units(
        [
            (f"part_{i:02d}", text, _printed(text, target), object_code)
            for i, (text, object_code) in enumerate(units)
        ]
    )
