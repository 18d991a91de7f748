"""make_target_code: HLO in, object code for any CPU out. Nothing is linked, nothing runs."""

from __future__ import annotations

from xla_backend.compile_options import CompileOptions
from xla_backend.compile_target import Target
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.printer import module_to_text
from xla_backend.llvm import objects
from xla_backend.passes.buffer_assignment import assign_buffers
from xla_backend.process.lazy import lazy
from xla_backend.runtime.target_code import TargetCode
from xla_backend.targets.cpu.compiler import codegen_level, write_code
from xla_backend.targets.cpu.kernel_listing import KernelListing
from xla_backend.targets.cpu.pipeline import build_pipeline
from xla_backend.targets.cpu.planned import plan_scheduled
from xla_backend.targets.cpu.routines import registry
from xla_backend.targets.cpu.routines.library import group_object
from xla_backend.targets.cpu.routines.subjects import declare_kernels


def make_target_code(module: HloModule, options: CompileOptions) -> TargetCode:
    """Optimise `module` (in place) and write code for the target that the options name.

    Raises:
      UnimplementedError: the program uses something this backend cannot run.
    """
    build_pipeline(options).run(module)
    written = write_code(plan_scheduled(module, assign_buffers(module), options), options)
    return CpuTargetCode(module, written.kernels, codegen_level(options))


class CpuTargetCode(TargetCode):
    """A program whose entry is `i32 entry(ptr args, ptr outs, ptr arena)`."""

    def __init__(self, module: HloModule, kernels: KernelListing, level: int) -> None:
        self.module = module
        self._target = kernels.module.target
        self.target = Target(self._target.triple, self._target.cpu, self._target.features)
        self._kernels = kernels
        self._fast_math = kernels.module.fast_math
        self._level = level

    @lazy
    def _llvm_ir(self) -> str:
        return self._kernels.module.to_text()

    def object_code(self) -> bytes:
        return objects.compile_object(
            self._llvm_ir, self._target, self._level, cache=True, jit=False
        )

    def assembly(self) -> str:
        return objects.assembly(self._llvm_ir, self._target, self._level, jit=False)

    def texts(self) -> dict[str, str]:
        return {
            "hlo": module_to_text(self.module),
            "loops": "\n\n".join(self._kernels.texts().values()),
            "llvm": self._llvm_ir,
        }

    @lazy
    def _groups(self) -> tuple[list[str], list[str]]:
        """Groups of kernels that the program calls, and what else it and they need."""
        declare_kernels()
        called = registry.called_outside(self._kernels.module)
        return registry.groups_behind(called, self._target, self._fast_math)

    def routines(self) -> dict[str, bytes]:
        return {
            group: group_object(group, self._target, self._fast_math) for group in self._groups[0]
        }

    def needs(self) -> list[str]:
        return self._groups[1]
