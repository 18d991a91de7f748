"""Passes whose modules are loaded when a module has something for them: most programs have no loop,
sort, convolution or collective, and the first program of a process need not load what rewrites
those. A pipeline is built of their stand-ins, which say what they look for; the classes say the
same, which is looked at when one is loaded, and tests load all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.passes.base import HloPass
from xla_backend.process.on_first_use import import_now


class LaterPass(HloPass):
    """Stands for a pass until a pipeline runs it: with its name and what it looks for."""

    def __init__(self, kind: LaterClass, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.name = kind.name
        self.opcodes = kind.opcodes
        self.module_opcodes = kind.module_opcodes
        self._kind = kind
        self._arguments = arguments
        self._named = named
        self._made: HloPass | None = None

    def run(self, module: HloModule) -> bool:
        return self._on_fuel().run(module)

    def run_on_computation(self, computation: Computation) -> bool:
        return self._on_fuel().run_on_computation(computation)

    def _on_fuel(self) -> HloPass:
        made = self.loaded()
        if made.fuel is not self.fuel:
            made.fuel = self.fuel
        return made

    def likeness(self) -> object:
        return self if self._arguments or self._named else self._kind

    def loaded(self) -> HloPass:
        """The pass that this one stands for. Threads that ask at the same time may get two, of
        which one stays."""
        made = self._made
        if made is None:
            made = self._made = self._kind.make(*self._arguments, **self._named)
        return made


class LaterClass:
    """Stands for a class of passes: calling it makes a `LaterPass`."""

    def __init__(
        self, place: str, name: str, opcodes: Iterable[Opcode], module_opcodes: Iterable[Opcode]
    ) -> None:
        self.module, _, self.cls = f"{__package__}.{place}".rpartition(".")
        self.name = name
        self.opcodes = frozenset(opcodes)
        self.module_opcodes = frozenset(module_opcodes)

    def __call__(self, *arguments: Any, **named: Any) -> HloPass:
        return LaterPass(self, arguments, named)

    def make(self, *arguments: Any, **named: Any) -> HloPass:
        """The pass itself.

        Raises:
          AssertionError: it looks for something else than is said here.
        """
        made: HloPass = getattr(import_now(self.module), self.cls)(*arguments, **named)
        said = self.name, self.opcodes, self.module_opcodes, HloPass.idempotent
        if (made.name, made.opcodes, made.module_opcodes, made.idempotent) != said:
            raise AssertionError(f"{self.module}.{self.cls} is not as {__name__} says")
        return made


def _later(place: str, name: str, opcodes: str = "", beside: str = "") -> LaterClass:
    """A class by its module and name, the pass's name, and opcodes as texts write them: those that
    it looks for (none: whatever there is), and those of which the module must have one, too."""
    return LaterClass(place, name, map(Opcode, opcodes.split()), map(Opcode, beside.split()))


AllGatherCombiner = _later(
    "collective_combiner.AllGatherCombiner", "all-gather-combiner", "all-gather"
)
AllGatherDynamicSliceSimplifier = _later(
    "all_gather_dynamic_slice_simplifier.AllGatherDynamicSliceSimplifier",
    "all-gather-dynamic-slice-simplifier",
    "all-gather",
)
AllReduceCombiner = _later(
    "collective_combiner.AllReduceCombiner", "all-reduce-combiner", "all-reduce"
)
AllReduceDecomposition = _later(
    "all_reduce_decomposition.AllReduceDecomposition", "all-reduce-decomposition", "all-reduce"
)
AllReduceReassociation = _later(
    "all_reduce_reassociate.AllReduceReassociation",
    "all-reduce-reassociate",
    "all-reduce reduce-scatter",
)
AsyncToSync = _later(
    "async_to_sync.AsyncToSync",
    "async-to-sync",
    "all-gather-done all-gather-start all-reduce-done all-reduce-start async-done "
    "async-start async-update collective-permute-done collective-permute-start copy-done "
    "copy-start",
)
BatchDotSimplification = _later(
    "batch_dot_simplification.BatchDotSimplification", "batch-dot-simplification", "dot"
)
BatchNormExpander = _later(
    "batch_norm_expander.BatchNormExpander",
    "batch-norm-expander",
    "batch-norm-grad batch-norm-inference batch-norm-training",
)
CallGraphFlattener = _later(
    "call_inliner.CallGraphFlattener", "call-graph-flattener", "conditional while"
)
CallInliner = _later("call_inliner.CallInliner", "call-inliner", "call")
ComplexInverseExpander = _later(
    "complex_inverse_expander.ComplexInverseExpander",
    "complex-inverse-expander",
    "acos acosh asin asinh atanh",
)
ConcatenateMover = _later(
    "concatenate_mover.ConcatenateMover", "concatenate-mover", "concatenate pad"
)
ConditionalSimplifier = _later(
    "conditional_simplifier.ConditionalSimplifier", "conditional-simplifier", "conditional"
)
ConstantFolding = _later("constant_folding.ConstantFolding", "constant-folding", "constant")
ConvertMover = _later("convert_mover.ConvertMover", "convert-mover", "convert")
ConvolutionDilationDecomposer = _later(
    "convolution_dilation_decomposer.ConvolutionDilationDecomposer",
    "convolution-dilation-decomposer",
    "convolution",
)
ConvolutionToDot = _later(
    "convolution_to_dot.ConvolutionToDot", "convolution-to-dot", "convolution"
)
CustomCallInliner = _later(
    "custom_call_inliner.CustomCallInliner", "custom-call-inliner", "custom-call"
)
Defuser = _later("defuser.Defuser", "defuser", "fusion")
DotDecomposer = _later("dot_decomposer.DotDecomposer", "dot-decomposer", "dot")
DotOperandWidening = _later("dot_operand_types.DotOperandWidening", "dot-operand-widening", "dot")
DotReassociation = _later("dot_reassociation.DotReassociation", "dot-reassociation", "dot")
DotResultWidening = _later("dot_result_types.DotResultWidening", "dot-result-widening", "dot")
DotStrengthReduction = _later(
    "dot_strength_reduction.DotStrengthReduction", "dot-strength-reduction", "dot"
)
FusionRecordVerifier = _later(
    "fusion_record_verifier.FusionRecordVerifier", "fusion-record-verifier", "fusion"
)
GatherSimplifier = _later("gather_simplifier.GatherSimplifier", "gather-simplifier", "gather")
GemmEpilogueFusion = _later(
    "gemm_epilogue_fusion.GemmEpilogueFusion", "gemm-epilogue-fusion", "convolution dot"
)
LatencyHidingScheduler = _later(
    "latency_hiding_scheduler.LatencyHidingScheduler", "latency-hiding-scheduler"
)
MapInliner = _later("map_inliner.MapInliner", "map-inliner", "map")
OptBarrierElimination = _later(
    "opt_barrier_elimination.OptBarrierElimination", "opt-barrier-elimination", "opt-barrier"
)
RaggedDotRewriter = _later(
    "ragged_dot_rewriter.RaggedDotRewriter", "ragged-dot-rewriter", "ragged-dot"
)
ReduceScatterCombiner = _later(
    "collective_combiner.ReduceScatterCombiner", "reduce-scatter-combiner", "reduce-scatter"
)
ReduceScatterCreator = _later(
    "reduce_scatter_creator.ReduceScatterCreator", "reduce-scatter-creator", "all-reduce"
)
ReduceScatterLeadingDimension = _later(
    "reduce_scatter_leading_dimension.ReduceScatterLeadingDimension",
    "reduce-scatter-leading-dimension",
    "reduce-scatter",
)
ReductionSplitter = _later("reduction_splitter.ReductionSplitter", "reduction-splitter", "reduce")
ReshapeMover = _later("reshape_mover.ReshapeMover", "reshape-mover", "reshape transpose")
RngBitGeneratorExpander = _later(
    "rng_expander.RngBitGeneratorExpander", "rng-bit-generator-expander", "rng-bit-generator"
)
RngExpander = _later("rng_expander.RngExpander", "rng-expander", "rng")
RowFusion = _later("row_fusion.RowFusion", "row-fusion", "fusion", beside="reduce")
RowPlanAnnotator = _later(
    "row_plan_annotator.RowPlanAnnotator", "row-plan-annotator", "fusion", beside="reduce"
)
ScaledDotRewriter = _later(
    "scaled_dot_rewriter.ScaledDotRewriter", "scaled-dot-rewriter", "scaled-dot"
)
ScanExpander = _later("scan_expander.ScanExpander", "scan-expander", "scan")
ScatterPrologueFusion = _later(
    "scatter_prologue_fusion.ScatterPrologueFusion", "scatter-prologue-fusion", "scatter"
)
ScatterSimplifier = _later("scatter_simplifier.ScatterSimplifier", "scatter-simplifier", "scatter")
ShardingRemover = _later(
    "sharding_remover.ShardingRemover", "sharding-remover", "custom-call domain"
)
SortKeyRewriter = _later("sort_key_rewriter.SortKeyRewriter", "sort-key-rewriter", "sort")
SortSimplifier = _later("sort_simplifier.SortSimplifier", "sort-simplifier", "sort")
StochasticConvertDecomposer = _later(
    "stochastic_convert_decomposer.StochasticConvertDecomposer",
    "stochastic-convert-decomposer",
    "stochastic-convert",
)
TopKDecomposer = _later("topk_decomposer.TopKDecomposer", "topk-decomposer", "custom-call topk")
TransferPairing = _later(
    "transfer_pairing.TransferPairing", "transfer-pairing", "recv recv-done send send-done"
)
TrivialCollectiveElimination = _later(
    "trivial_collective_elimination.TrivialCollectiveElimination",
    "trivial-collective-elimination",
    "all-gather all-reduce all-to-all collective-broadcast collective-permute "
    "partition-id ragged-all-to-all reduce-scatter replica-id",
)
TupleConstantExpander = _later(
    "tuple_constant_expander.TupleConstantExpander", "tuple-constant-expander", "constant"
)
TupleSimplifier = _later(
    "tuple_simplifier.TupleSimplifier", "tuple-simplifier", "get-tuple-element tuple"
)
UnstableReductionDetector = _later(
    "unstable_reduction_detector.UnstableReductionDetector", "unstable-reduction-detector"
)
UpdatePredication = _later(
    "update_predication.UpdatePredication",
    "update-predication",
    "select",
    beside="dynamic-update-slice scatter while",
)
WhileDeadInitialValue = _later(
    "while_dead_initial_value.WhileDeadInitialValue", "while-dead-initial-value", "while"
)
WhileDotAccumulation = _later(
    "while_dot_accumulation.WhileDotAccumulation", "while-dot-accumulation", "while", beside="dot"
)
WhileDotStrengthReduction = _later(
    "while_dot_strength_reduction.WhileDotStrengthReduction",
    "while-dot-strength-reduction",
    "while",
    beside="dot",
)
WhileDoubleBuffering = _later(
    "while_double_buffering.WhileDoubleBuffering", "while-double-buffering", "while"
)
WhileLoopAllReduceCodeMotion = _later(
    "while_loop_all_reduce_code_motion.WhileLoopAllReduceCodeMotion",
    "while-loop-all-reduce-code-motion",
    "while",
    beside="all-reduce",
)
WhileLoopInvariantCodeMotion = _later(
    "while_loop_invariant_code_motion.WhileLoopInvariantCodeMotion",
    "while-loop-invariant-code-motion",
    "while",
)
WhileLoopSimplifier = _later(
    "while_loop_simplifier.WhileLoopSimplifier", "while-loop-simplifier", "while"
)
WhileTripCountAnnotator = _later(
    "while_trip_count.WhileTripCountAnnotator", "while-trip-count-annotator", "while"
)
WhileUnrolling = _later("while_unrolling.WhileUnrolling", "while-unrolling", "while")
