"""CompileOptions: all that a compilation depends on besides the module. Frozen, hashable: part of
cache keys.
"""

from __future__ import annotations

from xla_backend.compile_target import Target
from xla_backend.dump_options import DumpOptions
from xla_backend.gpu_options import GpuOptions
from xla_backend.measured_costs import Costs
from xla_backend.process.values import Value


class CompileOptions(Value):
    """Options of one compilation.

    Fields:
      optimization_level: 0 (only what is needed for correctness) to 3 (everything, and LLVM's
        second level); which pass runs from which level on is a table, `passes.levels`.
      exec_time_optimization_effort: -1 to 1; moves the level by -2 at -1, by -1 from -0.5 and by
        +1 from 0.5.
      memory_fitting_level, memory_fitting_effort: the same two for what trades time for memory:
        0 nothing, 1 an order of execution that keeps less alive, 2 cheap values are computed again
        rather than kept where a program needs more than `memory_limit`, 3 or wherever that lowers
        its peak clearly.
      memory_limit: bytes that arguments, results and temporaries may take together, or None.
      num_threads: the most threads that a program uses; None: as many as the pool has, 1: no loop
        is split, and library kernels keep to the calling thread.
      verify: run the HLO verifier before and after each pass, and audit the changed flags.
      audits: single checks of the pass machinery outside checking mode, from `AUDITS`.
      disabled_passes: pass names to leave out.
      enabled_passes: if not None, the only optional passes that run (those needed for
        correctness stay).
      disable_all_passes: leave out every optional pass.
      fuel: (pass name, rewrites it may still do), for bisecting a miscompilation.
      unstable_reductions: what to do about sums in small floating-point types, before and after
        optimisation: "" nothing, "warn" or "fail".
      parallel_codegen: at most so many LLVM modules, compiled at the same time.
      max_isa: newest x86 instruction set to use ("AVX2"); "" for what this machine has.
      vector_bits: widest vector register to use; None for the target's.
      fast_math: LLVM's fast-math flags of every floating-point instruction; empty for IEEE.
      dump: what to write where, or None.
      target: what code is made for; None: this machine.
      processes: how many run programs of several devices together.
      overlap_collectives: participants run what does not need a collective's results while they
        wait for others.
      gpu: what is done otherwise than usual for GPUs.
      profile_version: of the profiles that guide compilation; it is recorded, and tells programs
        apart that are kept on disk.
      profiled_runs: so many runs record what each kernel takes (`LoadedExecutable.measured_runs`);
        to that end kernels run on the calling thread.
      measured: what kernels of this program take as such runs told; the others are estimated.
      expect_measured_costs: of programs on disk, those compiled with measured costs are preferred.
      first_code: the program may run at once on code that is made without LLVM, and computes the
        same bits, until its optimised code is there.
    """

    optimization_level: int = 2
    exec_time_optimization_effort: float = 0.0
    memory_fitting_level: int = 2
    memory_fitting_effort: float = 0.0
    memory_limit: int | None = None
    num_threads: int | None = None
    verify: bool = False
    audits: frozenset[str] = frozenset()
    disabled_passes: frozenset[str] = frozenset()
    enabled_passes: frozenset[str] | None = None
    disable_all_passes: bool = False
    fuel: tuple[tuple[str, int], ...] = ()
    unstable_reductions: tuple[str, str] = ("", "")
    parallel_codegen: int = 32
    max_isa: str = ""
    vector_bits: int | None = None
    fast_math: tuple[str, ...] = ()
    dump: DumpOptions | None = None
    target: Target | None = None
    processes: int = 1
    overlap_collectives: bool = False
    gpu: GpuOptions = GpuOptions()
    profile_version: int = 0
    profiled_runs: int = 0
    measured: Costs = ()
    expect_measured_costs: bool = False
    first_code: bool = False

    @property
    def level(self) -> int:
        """The optimization level with the effort taken into account, 0 to 3."""
        return _with_effort(self.optimization_level, self.exec_time_optimization_effort)

    @property
    def memory_level(self) -> int:
        """The memory fitting level with the effort taken into account, 0 to 3."""
        return _with_effort(self.memory_fitting_level, self.memory_fitting_effort)


# Names in CompileOptions.audits: a pass that changes the module and says it did not; one that says
# it did and did not; a fixed point that does not settle; a fixed point that comes back to an
# earlier module.
AUDITS = frozenset({"silent-change", "no-op-change", "max-iterations", "cycles"})


def _with_effort(level: int, effort: float) -> int:
    step = -2 if effort <= -1 else -1 if effort <= -0.5 else 1 if effort >= 0.5 else 0
    return min(3, max(0, level + step))
