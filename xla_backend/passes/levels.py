"""Which pass runs at which level of effort, whatever the target, and what the flags leave out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

from xla_backend.compile_options import CompileOptions
from xla_backend.passes.registry import checked_names

# From which `optimization_level` on a pass runs. Level 0 is what correctness needs: code
# generation has no other way to run the opcode, or relies on what the pass leaves. Passes and
# pipelines that are not listed run at every level.
LEVELS: dict[str, int] = {
    "spmd-partitioning": 0,
    "spmd-partitioner": 0,
    "shardy-xla": 0,
    "unreduced-borders": 0,
    "layout-normalization": 0,
    "defuser": 0,
    "dynamic-dimension-simplifier": 0,
    "sharding-remover": 0,
    "custom-call-inliner": 0,
    "async-to-sync": 0,
    "trivial-collective-elimination": 0,
    "reduce-scatter-leading-dimension": 0,
    "transfer-pairing": 0,
    "call-inliner": 0,
    "call-graph-flattener": 0,
    "tuple-constant-expander": 0,
    "batch-norm-expander": 0,
    "complex-inverse-expander": 0,
    "stochastic-convert-decomposer": 0,
    "scan-expander": 0,
    "ragged-dot-rewriter": 0,
    "scaled-dot-rewriter": 0,
    "sort-key-rewriter": 0,
    "rng-expander": 0,
    "rng-bit-generator-expander": 0,
    "topk-decomposer": 0,
    "map-inliner": 0,
    "opt-barrier-elimination": 0,
    "tuple-simplifier": 0,
    "dce": 0,
    "scheduler": 0,
    "copy-insertion": 0,
    "dot-decomposer": 0,
    "row-plan-annotator": 0,
    # A matter of accuracy, not of speed.
    "dot-result-widening": 0,
    # Cheap and worth it almost everywhere.
    "zero-sized-elimination": 1,
    "all-gather-dynamic-slice-simplifier": 1,
    "all-reduce-reassociate": 1,
    "reduce-scatter-creator": 1,
    "all-reduce-decomposition": 1,
    "all-reduce-combiner": 1,
    "all-gather-combiner": 1,
    "reduce-scatter-combiner": 1,
    "latency-hiding-scheduler": 1,
    "algebraic-simplifier": 1,
    "convert-mover": 1,
    "reshape-mover": 1,
    "concatenate-mover": 1,
    "reduction-splitter": 1,
    "constant-folding": 1,
    "gather-simplifier": 1,
    "scatter-simplifier": 1,
    "update-predication": 1,
    "sort-simplifier": 1,
    "conditional-simplifier": 1,
    "convolution-dilation-decomposer": 1,
    "convolution-to-dot": 1,
    "batch-dot-simplification": 1,
    "dot-strength-reduction": 1,
    "dot-operand-widening": 1,
    "dot-operand-narrowing": 1,
    "dot-result-narrowing": 1,
    "cse": 1,
    "fusion": 1,
    "gemm-epilogue-fusion": 1,
    "scatter-prologue-fusion": 1,
    # It saves passes over memory, and takes a third of the time that fusion takes.
    "row-fusion": 2,
    # They look at whole loops, or at pairs of computations.
    "computation-deduplicator": 2,
    "while-loop-simplifier": 2,
    "while-loop-invariant-code-motion": 2,
    "while-loop-all-reduce-code-motion": 2,
    "while-dot-accumulation": 2,
    "while-dot-strength-reduction": 2,
    "while-dead-initial-value": 2,
    "while-trip-count-annotator": 2,
    "while-double-buffering": 2,
    "while-unrolling": 2,
    # Other last bits than the program's own order of operations gives.
    "dot-reassociation": 3,
}

# The same for passes that give up time for memory, by `memory_fitting_level`. (From level 1 on the
# scheduler looks for an order that needs less, at level 3 rematerialization needs no limit.)
MEMORY_LEVELS: dict[str, int] = {"rematerialization": 2}

# Names of the pipelines that targets have, and of those inside them.
PIPELINES = ("cpu", "gpu", "elementwise", "expansion", "simplification")

# Rounds of a fixed point by level: a round that changes something enables at most a few more, and
# programs settle in two or three.
ROUNDS = {0: 1, 1: 1, 2: 6, 3: 12}


@lru_cache(maxsize=64)
def pass_filter(options: CompileOptions) -> Callable[[str], bool]:
    """Which passes run under these options; the name of a pipeline stands for all its passes.

    `enabled_passes` and `disable_all_passes` keep what level 0 keeps, without which nothing would
    compile; `disabled_passes` leaves out what it says, come what may.

    Raises:
      UnknownPassError: an option names a pass that does not exist.
    """
    level, memory_level = options.level, options.memory_level
    phases = frozenset(PIPELINES)
    if options.disable_all_passes:
        level = memory_level = 0
    disabled = _names(options.disabled_passes, phases, "xla_disable_hlo_passes")
    chosen = options.enabled_passes
    if chosen is not None:
        enabled = _names(chosen, phases, "xla_enable_hlo_passes_only")

    @cache
    def selects(name: str) -> bool:
        if name in disabled:
            return False
        if name in phases:
            return True
        needed = LEVELS.get(name, 0)
        memory_needed = MEMORY_LEVELS.get(name, 0)
        if chosen is not None and (needed or memory_needed):
            return name in enabled
        return needed <= level and memory_needed <= memory_level

    return selects


def with_canonical_fuel(options: CompileOptions) -> CompileOptions:
    """The options with the passes that have fuel under the names they have here.

    Raises:
      UnknownPassError: no pass has the name.
    """
    if not options.fuel:
        return options
    fuel = [
        (here, units)
        for name, units in options.fuel
        for here in checked_names([name], (), "xla_fuel")
    ]
    return options._replace(fuel=tuple(fuel))


def _names(names: frozenset[str], phases: frozenset[str], origin: str) -> frozenset[str]:
    return checked_names(names, phases, origin) if names else names
