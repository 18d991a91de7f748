"""The GPU pipeline: from HLO as lowered to scheduled, fused HLO ready for schedules of threads."""

from __future__ import annotations

from functools import partial

from xla_backend.compile_options import CompileOptions
from xla_backend.kernels.library.attention import runs_as_attention
from xla_backend.kernels.library.score_streams import runs_as_streams
from xla_backend.passes.attention_fusion import AttentionFusion
from xla_backend.passes.attention_row_sums import AttentionRowSums
from xla_backend.passes.base import HloPass, PassObserver, Pipeline
from xla_backend.passes.collective_combiner import (
    AllGatherCombiner,
    AllReduceCombiner,
    ReduceScatterCombiner,
)
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.dot_operand_types import DotOperandNarrowing
from xla_backend.passes.dot_result_types import DotResultNarrowing
from xla_backend.passes.fusion import LoopFusion
from xla_backend.passes.gemm_epilogue_fusion import GemmEpilogueFusion
from xla_backend.passes.product_prologue_fusion import ProductPrologueFusion
from xla_backend.passes.row_fusion import CPU_ROWS, RowFusion
from xla_backend.passes.row_plan_annotator import RowPlanAnnotator
from xla_backend.passes.solver_rewriter import SolverRewriter
from xla_backend.passes.standard import (
    before_fusion,
    collective_optimization,
    expansion,
    finished,
    preparation,
    scheduling,
    simplification,
)
from xla_backend.runtime.custom_calls import has_custom_call
from xla_backend.spmd.partitioning import SpmdPartitioning
from xla_backend.targets.gpu.architectures import architecture_for
from xla_backend.targets.gpu.product_rules import takes_epilogue, takes_prologue
from xla_backend.targets.gpu.solver_rules import library_call
from xla_backend.targets.gpu.sort_types import SORT_TYPES

# Rows of any length have teams of threads that suit them, and a launch saved is worth some
# microseconds.
_ROWS = CPU_ROWS._replace(short_row=2, little_work=1 << 15, strided_row=1 << 8, joins=True)


def build_pipeline(options: CompileOptions, observer: PassObserver | None = None) -> Pipeline:
    """The passes for GPUs, in order. Which of them run at which level is in `passes.levels`."""
    gpu = options.gpu
    passes: list[HloPass] = [
        SpmdPartitioning(),
        *preparation(has_custom_call),
        *collective_optimization(),
        # Before simplification, which takes transposes between two calls away.
        SolverRewriter(library_call),
        expansion(options, SORT_TYPES),
        simplification(options),
        # Behind simplification, which finds those that are equal or dead.
        AllReduceCombiner(gpu.all_reduce_bytes, gpu.combined_collectives),
        AllGatherCombiner(gpu.all_gather_bytes, gpu.combined_collectives),
        ReduceScatterCombiner(gpu.reduce_scatter_bytes, gpu.combined_collectives),
        *before_fusion(),
        # Before fusion, which would take the conversions elsewhere.
        DotOperandNarrowing(),
        DotResultNarrowing(),
        # Before the next, whose fusions would hold the sums.
        AttentionRowSums(runs_as_attention),
        # Before any fusion, which would take the softmax apart from its products.
        AttentionFusion(runs_as_attention, runs_as_streams),
        LoopFusion(),
        RowFusion(_ROWS),
        DeadCodeElimination(),
        # What is dead is gone; the next asks which operands are read where results are written.
        RowPlanAnnotator(),
        # After loop fusion, which decides what belongs to one loop.
        GemmEpilogueFusion(
            partial(takes_epilogue, architecture_for(options)),
            one_result=options.memory_level == 3,
        ),
        ProductPrologueFusion(partial(takes_prologue, architecture_for(options))),
        *scheduling(options),
    ]
    return finished(Pipeline("gpu", passes, options, observer=observer))
