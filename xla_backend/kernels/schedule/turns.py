"""Loops in vectors of which each of a few in turn has code of its own: what their lanes read is in
a pattern that comes back after so many.

    for i in range(3000):               for i in range(62):
        out[i] = p[i % 3]       ->          for lane in lanes(16):
                                                out[48*i + lane] = p[lane % 3]
                                            for lane in lanes(16):
                                                out[48*i + lane + 16] = p[(lane + 1) % 3]
                                            for lane in lanes(16):
                                                out[48*i + lane + 32] = p[(lane + 2) % 3]
                                        for i in range(24):
                                            out[i + 2976] = p[i % 3]

The last iterations, of less than a whole turn, run one after another.
"""

from __future__ import annotations

from xla_backend.kernels.index import Index, Var
from xla_backend.kernels.ir import Kernel, Loop, Statement
from xla_backend.kernels.schedule.copying import Copy
from xla_backend.kernels.schedule.lanes import lane_of, lanes_loop, serial_iterations
from xla_backend.kernels.schedule.splitting import ScheduleError, divide, replace


def vectorise_in_turns(kernel: Kernel, loop: Loop, lanes: int, turns: int) -> None:
    """Run a loop in groups of `turns` times `lanes` iterations.

    Raises:
      ScheduleError: the iterations may not run in lockstep, or there is no whole group of them.
    """
    division = divide(loop, turns * lanes)
    if not loop.may_vectorize or loop.carries or not division.groups:
        raise ScheduleError(f"loop {loop.var.name!r} may not run in {turns} turns of lanes")
    rest = serial_iterations(loop, turns * lanes, division.rest)
    outer = Var(loop.var.name, division.groups, loop.var.depth)
    body: list[Statement] = []
    for turn in range(turns):
        lane = lane_of(loop, lanes)
        here = Index.of(outer) * (turns * lanes) + Index.of(lane) + turn * lanes
        body.append(lanes_loop(lane, Copy({loop.var: here}).block(loop.body)))
    loop.var, loop.limits, loop.body = outer, division.limits, body
    replace(kernel, loop, [loop, *rest])
