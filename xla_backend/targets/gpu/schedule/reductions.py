"""Reductions, and fusions that work row by row: teams of threads for each row.

Few long rows are reduced in two launches: parts by many blocks, then those together.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.kernels.ir import Kernel, Loop, Store
from xla_backend.kernels.schedule.partial_results import reduce_in_parts
from xla_backend.kernels.schedule.row_nests import RowNest, row_nest_of
from xla_backend.kernels.schedule.single_row import reduce_as_one_row
from xla_backend.kernels.schedule.teams import run_in_teams
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.schedule.columns import column_team, part_of_column
from xla_backend.targets.gpu.schedule.row_shapes import exchanged_bytes, runs_across
from xla_backend.targets.gpu.schedule.rows import part_of_row, row_team
from xla_backend.targets.gpu.schedule.stages import hands_values_on, is_scheduled

# Where blocks are few, parts make about so many.
_BLOCKS = 512


def schedule(kernel: Kernel, architecture: Architecture, done: Callable[[str], None]) -> None:
    """Make a launch, or two, of each stage that works row by row."""
    if reduce_as_one_row(kernel):
        done("reduce_as_one_row")
    if hands_values_on(kernel.stages):
        return
    for stage in list(kernel.stages):
        nest = None if is_scheduled(stage) else row_nest_of(stage)
        if nest is None or not nest.may_be_shared or not nest.reduces:
            continue
        if exchanged_bytes(nest) > architecture.static_shared:
            continue
        assert isinstance(stage, Loop)
        size = _part(nest)
        stages = [stage]
        if size < nest.row_length:
            stages = [*reduce_in_parts(kernel, stage, size)]
            done("reduce_in_parts")
        for each in stages:
            _in_teams(kernel, each, parts=each is not stages[-1])
            done("run_in_teams")


def _in_teams(kernel: Kernel, stage: Loop, *, parts: bool) -> None:
    nest = row_nest_of(stage)
    assert nest is not None
    across = runs_across(nest) and not nest.exchanged()
    team = column_team(nest) if across else row_team(nest)
    run_in_teams(kernel, stage, team, parts=parts)


def _part(nest: RowNest) -> int:
    """Elements of a row for one block; all of them where rows are many or short, or are needed as a
    whole."""
    whole = nest.row_length
    if len(nest.walks) > 1 or any(isinstance(s, Store) for s in nest.walks[0].body):
        return whole
    if runs_across(nest):
        return min(whole, part_of_column(nest, _BLOCKS))
    return min(whole, part_of_row(nest, _BLOCKS))
