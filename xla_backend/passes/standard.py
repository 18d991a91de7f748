"""What the pipelines of all targets share: what comes before fusion and behind it, and the checks
that options ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.types import PrimitiveType
from xla_backend.passes.algebraic_simplifier import AlgebraicSimplifier
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.computation_deduplicator import ComputationDeduplicator
from xla_backend.passes.copy_insertion import CopyInsertion
from xla_backend.passes.cse import CommonSubexpressionElimination
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.dynamic_dimension_simplifier import DynamicDimensionSimplifier
from xla_backend.passes.later import (
    AllGatherDynamicSliceSimplifier,
    AllReduceReassociation,
    AsyncToSync,
    BatchDotSimplification,
    BatchNormExpander,
    CallGraphFlattener,
    CallInliner,
    ComplexInverseExpander,
    ConditionalSimplifier,
    ConstantFolding,
    ConvertMover,
    ConvolutionDilationDecomposer,
    ConvolutionToDot,
    CustomCallInliner,
    Defuser,
    DotDecomposer,
    DotReassociation,
    DotStrengthReduction,
    FusionRecordVerifier,
    GatherSimplifier,
    LatencyHidingScheduler,
    MapInliner,
    OptBarrierElimination,
    RaggedDotRewriter,
    ReduceScatterCreator,
    ReduceScatterLeadingDimension,
    ReshapeMover,
    RngBitGeneratorExpander,
    RngExpander,
    ScaledDotRewriter,
    ScanExpander,
    ScatterSimplifier,
    ShardingRemover,
    SortKeyRewriter,
    SortSimplifier,
    StochasticConvertDecomposer,
    TopKDecomposer,
    TransferPairing,
    TrivialCollectiveElimination,
    TupleConstantExpander,
    TupleSimplifier,
    UnstableReductionDetector,
    UpdatePredication,
    WhileDeadInitialValue,
    WhileDotAccumulation,
    WhileDoubleBuffering,
    WhileLoopAllReduceCodeMotion,
    WhileLoopInvariantCodeMotion,
    WhileLoopSimplifier,
    WhileTripCountAnnotator,
)
from xla_backend.passes.layout_normalization import LayoutNormalization
from xla_backend.passes.levels import ROUNDS, pass_filter, with_canonical_fuel
from xla_backend.passes.registry import add_user_passes
from xla_backend.passes.rematerialization import Rematerialization
from xla_backend.passes.scheduler import Scheduler
from xla_backend.passes.zero_sized_elimination import ZeroSizedElimination
from xla_backend.user_passes import user_passes


def preparation(has_function: Callable[[str], bool]) -> list[HloPass]:
    """One computation without layouts, fusions, shardings and asynchronous pairs.

    `has_function`: whether somebody registered a function for a custom-call target.
    """
    return [
        # First: the meaning of a bitcast depends on layouts, and no later pass looks at them.
        LayoutNormalization(),
        Defuser(),
        # Refuses what has no code before any pass counts on fixed sizes.
        DynamicDimensionSimplifier(),
        ShardingRemover(),
        CustomCallInliner(has_function),
        # Makes calls of asynchronous computations, and collectives for the next two.
        AsyncToSync(),
        TrivialCollectiveElimination(),
        TransferPairing(),
        CallInliner(),
        # After inlining (which shares bodies between copies), before anything edits a body.
        CallGraphFlattener(),
        ComputationDeduplicator(),
    ]


def finished(pipeline: Pipeline) -> Pipeline:
    """An outermost pipeline with the checks that options ask for and the passes of users, and
    without those that options leave out."""
    before, after = pipeline.options.unstable_reductions
    if before:
        pipeline.passes.insert(0, UnstableReductionDetector(before == "fail"))
    if after:
        pipeline.passes.append(UnstableReductionDetector(after == "fail"))
    add_user_passes(pipeline)
    if pipeline.options.verify or user_passes():
        # After the passes of users: code generation is next.
        pipeline.passes.append(FusionRecordVerifier())
    pipeline.options = with_canonical_fuel(pipeline.options)
    pipeline.selects = pass_filter(pipeline.options)
    return pipeline


def is_common(options: CompileOptions) -> bool:
    """Whether pipelines of equal options have equal passes, which nobody looks at between runs:
    users have added none, and nothing is checked or counted."""
    return not (user_passes() or options.verify or options.audits or options.fuel)


def collective_optimization() -> list[HloPass]:
    """What devices exchange, before simplification, which takes the patterns apart."""
    return [
        AllGatherDynamicSliceSimplifier(),
        # Before the next: a slice of a sum of sums is one of a sum.
        AllReduceReassociation(),
        ReduceScatterCreator(),
        # Behind what makes such.
        ReduceScatterLeadingDimension(),
        DeadCodeElimination(),
    ]


def expansion(options: CompileOptions, sortable: Sequence[PrimitiveType]) -> Pipeline:
    """Operations that no target has code for, in terms of those they have. `sortable`: types that
    the target sorts by value."""
    return Pipeline(
        "expansion",
        [
            # First: to the others, the value of a constant is an array.
            TupleConstantExpander(),
            BatchNormExpander(),
            ComplexInverseExpander(),
            StochasticConvertDecomposer(),
            ScanExpander(),
            RaggedDotRewriter(),
            ScaledDotRewriter(),
            # rng becomes arithmetic on bits, so it goes before the bit generators.
            RngExpander(),
            RngBitGeneratorExpander(),
            TopKDecomposer(),
            MapInliner(),
            # After everything that makes sorts.
            SortKeyRewriter(sortable),
            TupleSimplifier(),
        ],
        options,
    )


def simplification(options: CompileOptions) -> Pipeline:
    """Rewrites that make programs smaller, to a fixed point."""
    return Pipeline(
        "simplification",
        [
            ZeroSizedElimination(),
            AlgebraicSimplifier(),
            ConvertMover(),
            ReshapeMover(),
            ConvolutionDilationDecomposer(),
            # After the decomposer, which leaves 1x1 windows.
            ConvolutionToDot(),
            BatchDotSimplification(),
            DotStrengthReduction(),
            DotReassociation(),
            ConstantFolding(),
            # Behind constant folding, which computes the indices.
            GatherSimplifier(),
            ScatterSimplifier(),
            # Behind it: an update of a slice is easier to predicate than a scatter.
            UpdatePredication(),
            SortSimplifier(),
            ConditionalSimplifier(),
            WhileLoopSimplifier(),
            WhileLoopInvariantCodeMotion(),
            # Before the next, which sees products that are added up.
            WhileLoopAllReduceCodeMotion(),
            WhileDotAccumulation(),
            TupleSimplifier(),
            CommonSubexpressionElimination(),
            DeadCodeElimination(),
        ],
        options,
        max_iterations=ROUNDS[options.level],
    )


def before_fusion() -> list[HloPass]:
    """What fusion finds done, or would hide."""
    return [
        # After the last cse, which barriers hold back; before fusion, which they would hinder.
        OptBarrierElimination(),
        TupleSimplifier(),
        DeadCodeElimination(),
        # Before fusion, which hides the comparison a count is read from.
        WhileDeadInitialValue(),
        WhileTripCountAnnotator(),
        # After transpose folding, which would fold its transposes; they fuse.
        DotDecomposer(),
    ]


def scheduling(options: CompileOptions) -> list[HloPass]:
    """An order of execution, and the copies that it needs."""
    return [
        # From here on, instruction order means execution order.
        Scheduler(for_memory=options.memory_level >= 1),
        # Before memory is looked at more closely.
        *([LatencyHidingScheduler()] if options.overlap_collectives else []),
        # Into the schedule, before loops and updates tie buffers together.
        Rematerialization(options.memory_limit, lowest=options.memory_level == 3),
        WhileDoubleBuffering(),
        CopyInsertion(),
    ]
