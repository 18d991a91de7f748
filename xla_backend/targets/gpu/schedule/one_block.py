"""Stages with loops that need an order around loops that do not: a block for each iteration of what
is independent outside, its threads for what is so inside.

Windows that overlap where they are written, and updates one after another, are such stages. One
thread for each outer iteration would leave most of the machine idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xla_backend.kernels.ir import PURE, Kernel, Loop, Statement, Store, walk
from xla_backend.kernels.schedule.collapsing import nest_of
from xla_backend.kernels.schedule.one_block import divide_among_threads, shared_loops
from xla_backend.targets.gpu.architectures import WARP, Architecture
from xla_backend.targets.gpu.schedule.stages import hands_values_on, is_scheduled

_KNOWN = (*PURE, Store, Loop)

_MOST_THREADS = 512
# Fewer iterations inside are done as fast by one thread, which waits for nobody.
_WORTH = 8
# What each thread goes through must be less than what they divide, by this much.
_WORTH_MORE = 4


def schedule(kernel: Kernel, architecture: Architecture, done: Callable[[str], None]) -> None:
    """Make launches of stages whose inner loops are worth the threads of a block."""
    if hands_values_on(kernel.stages):
        threads = _threads(kernel.stages)
        if threads > 1 and not any(map(is_scheduled, kernel.stages)):
            divide_among_threads(kernel, kernel.stages, [], threads)
            done("divide_among_threads")
        return
    for stage in list(kernel.stages):
        if not isinstance(stage, Loop) or is_scheduled(stage):
            continue
        around = nest_of(stage)
        body = around[-1].body if around else [stage]
        threads = _threads(body)
        # With so many iterations outside there are threads enough.
        outside = prod(loop.var.extent for loop in around)
        if threads > 1 and outside < architecture.multiprocessors * _MOST_THREADS:
            divide_among_threads(kernel, [stage], around, threads)
            done("divide_among_threads")


def _threads(statements: Sequence[Statement]) -> int:
    """As many as the longest nest inside has iterations, in whole warps; 1 if that is not worth
    it."""
    nests = [nest_of(loop) for loop in shared_loops(statements)]
    most = max((prod(loop.var.extent for loop in nest) for nest in nests), default=0)
    known = all(isinstance(s, _KNOWN) for s in walk(list(statements)))
    divided, repeated = _work(statements)
    if most < _WORTH or not known or divided < _WORTH_MORE * repeated:
        return 1
    return min(-(-most // WARP) * WARP, _MOST_THREADS)


def _work(statements: Sequence[Statement]) -> tuple[int, int]:
    """Statements in loops that threads divide between them, and those that each of them goes
    through."""
    divided = repeated = 0
    for s in statements:
        if not isinstance(s, Loop):
            repeated += 1
            continue
        inside = [n * s.var.extent for n in _work(s.body)]
        if nest_of(s):
            divided += sum(inside)
        else:
            divided += inside[0]
            repeated += inside[1]
    return divided, repeated
