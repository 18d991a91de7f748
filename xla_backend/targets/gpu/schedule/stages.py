"""The form that every stage has once it is scheduled: a grid loop around one loop of threads."""

from __future__ import annotations

from collections.abc import Sequence

from xla_backend.hlo.errors import UnimplementedError
from xla_backend.kernels.index import Index, Var
from xla_backend.kernels.ir import (
    PURE,
    If,
    Kernel,
    Loop,
    LoopKind,
    Statement,
    walk,
)
from xla_backend.kernels.schedule.copying import operands_of
from xla_backend.targets.gpu.architectures import MOST_BLOCKS


def is_pure(s: Statement) -> bool:
    """Whether a statement only computes a value, which each thread may do for itself."""
    return isinstance(s, PURE)


def is_scheduled(stage: Statement) -> bool:
    return isinstance(stage, Loop) and stage.kind is LoopKind.GRID


def hands_values_on(stages: Sequence[Statement]) -> bool:
    """Whether a stage computes values that statements beside it use: no launch of its own may."""
    made = {c.result for stage in stages if isinstance(stage, Loop | If) for c in stage.carries}
    return bool(made) and any(v in made for s in walk(list(stages)) for v in operands_of(s))


def launch(blocks: int, threads: int, name: str = "") -> tuple[Loop, Loop, Index]:
    """A grid loop around a loop of threads with nothing in it yet, and the number of a thread in
    the whole grid."""
    block, thread = Var(f"block{name}", blocks, 0), Var(f"thread{name}", threads, 1)
    inner = Loop(thread, independent=True, kind=LoopKind.THREAD)
    outer = Loop(block, [inner], independent=True, kind=LoopKind.GRID)
    return outer, inner, Index.of(block) * threads + Index.of(thread)


def threads_of(stage: Loop) -> Loop:
    """The loop of threads of a scheduled stage."""
    (found,) = (s for s in stage.body if isinstance(s, Loop))
    return found


def check_stages(kernel: Kernel) -> None:
    """Raise unless each stage is a launch that can be made; see the module docstring.

    Raises:
      UnimplementedError: it has too many blocks.   AssertionError: it is none.
    """
    for stage in kernel.stages:
        if is_pure(stage):
            continue
        assert is_scheduled(stage), f"kernel {kernel.name!r}: {stage!r} is no launch"
        assert isinstance(stage, Loop)
        if stage.var.extent > MOST_BLOCKS:
            raise UnimplementedError(
                f"kernel {kernel.name!r} would be launched on {stage.var.extent} blocks, and GPUs "
                f"take {MOST_BLOCKS}: compute its result in parts"
            )
        others = [s for s in stage.body if not is_pure(s)]
        assert len(others) == 1 and isinstance(others[0], Loop), f"kernel {kernel.name!r}: {others}"
        assert others[0].kind is LoopKind.THREAD and others[0].var.extent <= 1024
