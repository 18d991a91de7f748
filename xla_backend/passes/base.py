"""HloPass and Pipeline: what every pass derives from, and what runs passes in order.

A pass mutates a module in place and returns True iff it changed something. A Pipeline is itself a
pass, so pipelines nest; a fixed point is a pipeline that repeats until nothing changes.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.computation import Computation
from xla_backend.hlo.errors import HloError, VerificationError
from xla_backend.hlo.instruction import Instruction
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.printer import module_to_text
from xla_backend.hlo.verifier import verify


class HloPass:
    """One rewrite of a module. Subclasses set `name` (kebab-case, ends in what the pass does)
    and override
    `run_on_computation`, or `run` where the whole module matters."""

    name: str = ""

    # If not empty, `run` skips computations that have none of these opcodes.
    opcodes: frozenset[Opcode] = frozenset()

    def run(self, module: HloModule) -> bool:
        """Run over every computation. True iff something changed."""
        changed = False
        opcodes = self.opcodes
        for computation in list(module.computations):
            if not opcodes or any(node.opcode in opcodes for node in computation.instructions):
                changed |= self.run_on_computation(computation)
        return changed

    def run_on_computation(self, computation: Computation) -> bool:
        raise NotImplementedError(
            f"{type(self).__name__} overrides neither run nor run_on_computation"
        )


class RuleTablePass(HloPass):
    """A simplification given as a table: for each opcode the rules that may rewrite it.

    A rule takes the instruction and returns its replacement (an instruction of the same
    computation,
    or a fresh one), or None when it does not apply. Rules of an opcode are tried in order; nodes
    are
    visited operands first, and a replacement is tried again at once, so most chains need one visit.
    """

    rules: dict[Opcode, tuple[Callable[[Instruction], Instruction | None], ...]] = {}
    retries = 4

    def run_on_computation(self, computation: Computation) -> bool:
        changed = False
        rules = self.rules
        for node in topological_order(computation):
            if node.opcode not in rules or (not node.users and node is not computation.root):
                continue
            for _ in range(self.retries):
                replacement = self._rewrite(node)
                if replacement is None:
                    break
                computation.replace(node, replacement)
                changed = True
                node = replacement
        return changed

    def _rewrite(self, node: Instruction) -> Instruction | None:
        for rule in self.rules.get(node.opcode, ()):
            replacement = rule(node)
            if replacement is not None:
                return replacement
        return None


def topological_order(computation: Computation) -> list[Instruction]:
    """Operands before users: the instructions' own order, which is made one first where it is
    not (edits
    append, and the check is quicker than a walk)."""
    order = computation.instructions
    seen: set[Instruction] = set()
    for node in order:
        for operand in node.operands:
            if operand not in seen:
                order = computation.post_order()
                computation.reorder(order)
                return order
        seen.add(node)
    return order


@dataclass
class PassStatistics:
    """What one pass cost: how often it ran, how often it changed something, seconds."""

    runs: int = 0
    changes: int = 0
    seconds: float = 0.0


class Pipeline(HloPass):
    """Passes in order.

    Fields:
      max_iterations: 1 runs the passes once; more repeats them until a round changes nothing, and
        raises where the cap is reached in checking mode (outside it, a pipeline that does not
        settle
        is slow but right, so it goes on).
      options: disabled passes, checking mode, dumps.
      statistics: filled while running, by pass name.
    """

    def __init__(
        self,
        name: str,
        passes: list[HloPass],
        options: CompileOptions | None = None,
        max_iterations: int = 1,
    ) -> None:
        self.name = name
        self.passes = passes
        self.options = CompileOptions() if options is None else options
        self.max_iterations = max_iterations
        self.statistics: dict[str, PassStatistics] = {}

    def run(self, module: HloModule) -> bool:
        if self.options.verify:
            verify(module, after=f"input of {self.name}")
        # Passes make many small objects and drop few cycles: collecting would only cost time.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._run(module, self)
        finally:
            if collecting:
                gc.enable()

    def _run(self, module: HloModule, outermost: Pipeline) -> bool:
        changed = False
        for _ in range(self.max_iterations):
            # Not any(): every pass must run.
            round_changed = False
            for hlo_pass in self.passes:
                round_changed |= outermost._run_one(module, hlo_pass)
            changed |= round_changed
            if not round_changed:
                break
        else:
            if self.max_iterations > 1 and outermost.options.verify:
                raise HloError(
                    f"pipeline {self.name!r} still changes module {module.name!r} after "
                    f"{self.max_iterations} rounds: two of its passes undo each other"
                )
        return changed

    def _run_one(self, module: HloModule, hlo_pass: HloPass) -> bool:
        if hlo_pass.name in self.options.disabled_passes:
            return False
        if isinstance(hlo_pass, Pipeline):
            return hlo_pass._run(module, self)
        before = module_to_text(module) if self.options.verify else ""
        start = time.perf_counter()
        changed = hlo_pass.run(module)
        statistics = self.statistics.setdefault(hlo_pass.name, PassStatistics())
        statistics.seconds += time.perf_counter() - start
        statistics.runs += 1
        statistics.changes += changed
        if self.options.verify:
            self._audit(module, hlo_pass, before, changed)
        dump = self.options.dump
        if dump is not None and changed and dump.wants_pass(hlo_pass.name):  # type: ignore[attr-defined]
            text = module_to_text(module, **dump.text_options)  # type: ignore[attr-defined]
            dump.write_pass(self.name, hlo_pass.name, text)  # type: ignore[attr-defined]
        return changed

    def _audit(self, module: HloModule, hlo_pass: HloPass, before: str, changed: bool) -> None:
        verify(module, after=hlo_pass.name)
        after = module_to_text(module)
        if not changed and after != before:
            raise VerificationError(
                f"pass {hlo_pass.name!r} changed module {module.name!r} but reported no change"
            )
        if changed and after == before:
            raise VerificationError(
                f"pass {hlo_pass.name!r} reported a change of module {module.name!r} "
                "but its text is the same"
            )

    def flat_passes(self) -> Iterable[HloPass]:
        """Every pass, nested pipelines unfolded."""
        for hlo_pass in self.passes:
            if isinstance(hlo_pass, Pipeline):
                yield from hlo_pass.flat_passes()
            else:
                yield hlo_pass

    def report(self) -> str:
        """Time per pass, slowest first."""
        rows = sorted(self.statistics.items(), key=lambda item: -item[1].seconds)
        return "\n".join(
            f"{s.seconds * 1e3:8.3f} ms  {s.runs:3d} runs  {s.changes:3d} changes  {name}"
            for name, s in rows
        )
