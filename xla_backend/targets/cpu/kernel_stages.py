"""The parts of a kernel that are called one after another, each as a function of its own."""

from __future__ import annotations

from xla_backend.kernels.ir import If, Kernel, Loop, LoopKind, Statement, Store


def stage_groups(kernel: Kernel) -> list[tuple[list[Statement], Loop | None]]:
    """The statements of each part, with the common loop-free ones that they need; and the loop of
    blocks, if it is one."""
    groups: list[tuple[list[Statement], Loop | None]] = []
    shared: list[Statement] = []
    for stage in kernel.stages:
        if not _stores(stage):
            shared.append(stage)
            for statements, _ in groups:
                statements.append(stage)
            continue
        grid = stage if isinstance(stage, Loop) and stage.kind is LoopKind.GRID else None
        if grid is None and groups and groups[-1][1] is None:
            groups[-1][0].append(stage)
        else:
            groups.append(([*shared, stage], grid))
    return groups


def _stores(s: Statement) -> bool:
    """Whether a statement, or one inside it, writes to memory."""
    kind = s.__class__
    if kind is Loop or kind is If:
        return any(map(_stores, s.body))  # type: ignore[attr-defined]
    return kind is Store
