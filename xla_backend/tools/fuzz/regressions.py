"""Regression cases: failing programs made small, kept as HLO text with a comment that says what was
wrong. The seed in it gives the arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from xla_backend.hlo.instruction import Computation
from xla_backend.hlo.module import HloModule
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.parser import parse_module
from xla_backend.hlo.printer import PrintOptions, module_to_text
from xla_backend.tools.fuzz.checks import STAGES, Failure, check_module
from xla_backend.tools.fuzz.comparison import ROUNDS
from xla_backend.tools.fuzz.partitioned_checks import check_cut
from xla_backend.tools.fuzz.workers import check_once
from xla_backend.tools.module_reducer import reduce_module

_STYLE = PrintOptions(layouts=False, metadata=False, signature=False)
# Fewer perturbed evaluations than a first check makes: shrinking asks hundreds of times.
_ROUNDS = (4, 12)
_COMBINING = frozenset(
    {
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SCATTER,
        Opcode.SELECT_AND_SCATTER,
        Opcode.SORT,
    }
)
_SEED = re.compile(r"^// arguments of seed (\d+)$", re.MULTILINE)


def check_case(
    module: HloModule,
    seed: int,
    stages: Sequence[str] | None = None,
    rounds: Sequence[int] = ROUNDS,
) -> Failure | None:
    """The first thing that is wrong with a program; one for several devices is partitioned, and has
    no stages."""
    if module.num_partitions > 1:
        return check_cut(module, seed, rounds)
    return check_module(module, seed, stages, rounds)


def shrink(module: HloModule, seed: int, failure: Failure, timeout: float) -> HloModule:
    """A small module that fails as this one does.

    Raises:
      ValueError: it does not fail when it runs again.
    """
    compiled = failure.kind not in ("evaluation", "text")
    stages = (failure.stage,) if failure.stage else tuple(STAGES) if compiled else ()

    def check(candidate: HloModule) -> Failure | None:
        return check_case(candidate, seed, stages, _ROUNDS)

    reducers = _reducers(module)

    def is_failing(candidate: HloModule) -> bool:
        if not _reducers(candidate) <= reducers:
            return False  # a reducer that depends on the order has no one right result
        # A process for each check costs more than most checks.
        found = (
            check_once(lambda: check(candidate), timeout)
            if failure.kind in ("crash", "timeout")
            else check(candidate)
        )
        return found is not None and found.signature == failure.signature

    return reduce_module(module, is_failing, max_tests=600)


def _reducers(module: HloModule) -> set[str]:
    """The computations that combine elements, each as a text without names."""
    return {
        _without_names(callee)
        for computation in module.computations
        for node in computation
        if node.opcode in _COMBINING
        for callee in node.called
    }


def _without_names(computation: Computation) -> str:
    order = computation.post_order()
    number = {node: i for i, node in enumerate(order)}
    lines = [
        f"{node.opcode} {node.shape} {[number[o] for o in node.operands]} {node.attributes!r}"
        for node in order
    ]
    return "; ".join(sorted(lines))


def case_text(module: HloModule, seed: int, failure: Failure) -> str:
    """The text of a regression case."""
    told = "\n".join(f"// {line.strip()}" for line in str(failure).splitlines())
    return f"{told}\n// arguments of seed {seed}\n{module_to_text(module, _STYLE)}"


def load_case(path: Path) -> tuple[HloModule, int]:
    """A regression case: its module, and the seed of its arguments.

    Raises:
      ValueError: the comment with the seed is missing.
      ParseError: the module is not valid HLO text.
    """
    text = path.read_text(encoding="utf-8")
    found = _SEED.search(text)
    if found is None:
        raise ValueError(f"{path} lacks a line such as `// arguments of seed 17`")
    return parse_module(text), int(found[1])
