"""The CPU pipeline: from HLO as lowered to scheduled, fused HLO ready for code generation."""

from __future__ import annotations

from functools import lru_cache, partial

from xla_backend.compile_options import CompileOptions
from xla_backend.llvm.target import TargetInfo
from xla_backend.passes.base import HloPass, PassObserver, Pipeline
from xla_backend.passes.cse import CommonSubexpressionElimination
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.fusion import LoopFusion
from xla_backend.passes.later import (
    AllGatherCombiner,
    AllReduceCombiner,
    AllReduceDecomposition,
    ConcatenateMover,
    DotOperandWidening,
    DotResultWidening,
    GemmEpilogueFusion,
    ReduceScatterCombiner,
    ReductionSplitter,
    RowFusion,
    RowPlanAnnotator,
    ScatterPrologueFusion,
    WhileDotStrengthReduction,
    WhileUnrolling,
)
from xla_backend.passes.standard import (
    before_fusion,
    collective_optimization,
    expansion,
    finished,
    is_common,
    preparation,
    scheduling,
    simplification,
)
from xla_backend.process.on_first_use import on_first_use
from xla_backend.runtime.custom_calls import has_custom_call
from xla_backend.spmd.partitioning import SpmdPartitioning
from xla_backend.targets.cpu.routines.sort_types import SORT_TYPES
from xla_backend.targets.cpu.target_options import target_for

# Asked about products.
_has_product = on_first_use("xla_backend.targets.cpu.dot_rules", "has_product")
_takes_epilogue = on_first_use("xla_backend.targets.cpu.output_fusion_rules", "takes_epilogue")


def build_pipeline(options: CompileOptions, observer: PassObserver | None = None) -> Pipeline:
    """The passes for CPUs, in order: a table of contents of the compiler's HLO half. Which of them
    run at which level is in `passes.levels`.
    """
    target = target_for(options)
    if observer is None and is_common(options):
        return _known(options, target).again()
    return _pipeline(options, target, observer)


# Most programs of a process have the same options.
@lru_cache(maxsize=16)
def _known(options: CompileOptions, target: TargetInfo) -> Pipeline:
    return _pipeline(options, target, None)


def _pipeline(
    options: CompileOptions, target: TargetInfo, observer: PassObserver | None
) -> Pipeline:
    passes: list[HloPass] = [
        SpmdPartitioning(),
        *preparation(has_custom_call),
        *collective_optimization(),
        expansion(options, SORT_TYPES),
        simplification(options),
        # Behind simplification, which finds those that are equal or dead.
        AllReduceCombiner(most_bytes=None),
        *([AllReduceDecomposition()] if options.processes > 1 else []),
        AllGatherCombiner(),
        ReduceScatterCombiner(),
        *before_fusion(),
        # Before unrolling, which repeats what it makes.
        WhileDotStrengthReduction(),
        # Behind the count of iterations; several in one body are one fusion.
        WhileUnrolling(),
        # Behind simplification, whose slices of components it makes fewer, and unrolling, for they
        # go from one iteration to the next.
        ConcatenateMover(),
        ReductionSplitter(),
        CommonSubexpressionElimination(),
        # Before fusion, which puts the rounding into the epilogue.
        DotResultWidening(),
        # Before fusion, which makes conversions part of what computes the operands.
        DotOperandWidening(_has_product),
        LoopFusion(together=True),
        RowFusion(),
        DeadCodeElimination(),
        # What is dead is gone; the next asks which operands are read where results are written.
        RowPlanAnnotator(),
        ScatterPrologueFusion(),
        # After loop fusion, which decides what belongs to one loop.
        GemmEpilogueFusion(partial(_takes_epilogue, target), one_result=options.memory_level == 3),
        *scheduling(options),
    ]
    return finished(Pipeline("cpu", passes, options, observer=observer))
