"""The CPU pipeline: from HLO as lowered to scheduled, fused HLO ready for code generation."""

from __future__ import annotations

from xla_backend.compile_options import CompileOptions
from xla_backend.passes.base import HloPass, Pipeline
from xla_backend.passes.call_inliner import CallGraphFlattener, CallInliner
from xla_backend.passes.copy_insertion import CopyInsertion
from xla_backend.passes.dce import DeadCodeElimination
from xla_backend.passes.fusion import LoopFusion
from xla_backend.passes.scheduler import Scheduler
from xla_backend.passes.tuple_simplifier import TupleSimplifier


def build_pipeline(options: CompileOptions) -> Pipeline:
    """The passes for CPUs, in order. A table of contents of the compiler's HLO half."""
    passes: list[HloPass] = [
        CallInliner(),
        # After inlining (which shares bodies between copies), before anything edits a body.
        CallGraphFlattener(),
        TupleSimplifier(),
        DeadCodeElimination(),
        LoopFusion(),
        DeadCodeElimination(),
        # From here on, instruction order means execution order.
        Scheduler(),
        CopyInsertion(),
    ]
    return Pipeline("cpu", passes, options)
