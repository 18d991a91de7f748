"""Loops in vectors: the iterations of a loop in groups of lanes, and what is left over.

    for i in range(1000):            for i in range(62):
        out[i] = -p[i]        ->         for lane in lanes(16):
                                             out[16*i + lane] = -p[16*i + lane]
                                     for lane in lanes(16):
                                         if lane < 8:
                                             out[lane + 992] = -p[lane + 992]

Where nothing that an iteration reads is written, the last group may begin earlier instead, so that
it is whole, too: what it computes again is the same.

    for i in range(1000):            for i in range(4):
        out[i] = p[2000*i]    ->         for lane in lanes(256):
                                             at = 256*i - 24*((i + 1) // 4) + lane
                                             out[at] = p[2000*at]

A reduction has a partial result in each lane. The lanes loop goes round all loops that only hand
the carried values on, and says how the lanes are put together at its end.
"""

from __future__ import annotations

from collections.abc import Callable

from xla_backend.kernels.index import Index, Var
from xla_backend.kernels.ir import (
    PURE,
    Carry,
    Combination,
    Constant,
    If,
    InRange,
    Kernel,
    Loop,
    LoopKind,
    Statement,
    Store,
    walk,
)
from xla_backend.kernels.schedule.copying import live, replace_atoms
from xla_backend.kernels.schedule.dependence import (
    indices_of,
    mentions,
    overwrites,
    quotients,
    read,
    written,
)
from xla_backend.kernels.schedule.splitting import (
    Rest,
    ScheduleError,
    divide,
    path_to,
    replace,
)

_KNOWN = (*PURE, Store, Loop)


def vectorise(
    kernel: Kernel, loop: Loop, lanes: int, *, masked: bool = False, serial_rest: bool = False
) -> None:
    """Run a loop in groups of `lanes` iterations. The rest is a copy of the body for some of the
    lanes, or with `masked`, every group asks which of its lanes are inside the loop, or with
    `serial_rest`, the iterations that are left run one after another.

    Raises:
      ScheduleError: the iterations may not run in lockstep.
    """
    if not loop.may_vectorize or (loop.carries and loop.combiner is None):
        raise ScheduleError(f"loop {loop.var.name!r} may not run in lanes")
    if loop.carries:
        _reduction(kernel, loop, lanes, masked)
    elif masked:
        replace(kernel, loop, [_masked(loop, lanes)])
    else:
        rest = serial_iterations if serial_rest else rest_in_lanes
        replace(kernel, loop, groups_and_rest(loop, lanes, rest))


def overlap(loop: Loop, lanes: int) -> int | None:
    """How many iterations whole groups of `lanes` would run twice, if the last one began earlier;
    None if that would not be the same, or there is no such group."""
    extent = loop.var.extent
    left = extent % lanes
    if not left or extent < lanes or loop.limits or loop.carries or not loop.independent:
        return None
    if overwrites(written(loop.body), read(loop.body)):
        return None
    for s in walk(loop.body):
        if not isinstance(s, _KNOWN) or isinstance(s, InRange):
            return None
        for index in indices_of(s):
            # Quotients are simplified by bounds, and those of a group's start are not exact.
            if any(mentions(a.index, {loop.var}) for a in quotients(index)):
                return None
    return lanes - left


def overlapping(kernel: Kernel, loop: Loop, lanes: int) -> None:
    """Run a loop in whole groups of `lanes` iterations, of which the last one begins before the end
    of the one in front of it. There is one copy of the body, without a mask.

    Raises:
      ScheduleError: what is run twice is not the same, or there is nothing to run twice.
    """
    again = overlap(loop, lanes)
    if again is None or not loop.may_vectorize:
        raise ScheduleError(f"loop {loop.var.name!r} has no groups of {lanes} lanes that overlap")
    last = loop.var.extent // lanes
    lane = lane_of(loop, lanes)
    outer = Var(loop.var.name, last + 1, loop.var.depth)
    # 1 in the last group: a quotient by a power of two is a shift.
    power = 1 << last.bit_length()
    is_last = (Index.of(outer) + (power - last)) // power
    here = Index.of(outer) * lanes - is_last * again + Index.of(lane)
    if last == 1:
        here = Index.of(outer) * (lanes - again) + Index.of(lane)
    replace_atoms(loop.body, {loop.var: here})
    # Two groups write the same places.
    loop.var, loop.independent, loop.may_vectorize = outer, False, False
    loop.body = [lanes_loop(lane, loop.body)]


def lanes_loop(lane: Var, body: list[Statement]) -> Loop:
    return Loop(lane, body, independent=True, kind=LoopKind.LANES)


def lane_of(loop: Loop, lanes: int) -> Var:
    """The variable of a lanes loop in the place of `loop`."""
    return Var("lane", lanes, loop.var.depth)


def _masked(loop: Loop, lanes: int) -> Loop:
    lane = lane_of(loop, lanes)
    body = loop.body
    inside = _enter_groups(loop, lanes, lane)
    inside.body = body
    loop.body = [lanes_loop(lane, [inside])]
    return loop


def _enter_groups(loop: Loop, lanes: int, lane: Var) -> If:
    """Let `loop` count groups, the last of which may be incomplete; gives the condition that a lane
    of a group is one of its iterations."""
    var = loop.var
    outer = Var(var.name, -(-var.extent // lanes), var.depth)
    here = Index.of(outer) * lanes + Index.of(lane)
    replace_atoms(loop.body, {var: here})
    loop.var = outer
    if not loop.limits:
        return If(here, 0, var.extent)
    (limit,) = loop.limits
    loop.limits = ((limit + (lanes - 1)) // lanes,)
    over = here - limit + limit.constant
    return If(over, min(0, over.bounds[0]), limit.constant)


def groups_and_rest(
    loop: Loop, lanes: int, last: Callable[[Loop, int, Rest | None], list[Statement]]
) -> list[Statement]:
    """What a loop without carried values becomes in lanes; `last` makes the last iterations."""
    division = divide(loop, lanes)
    rest = last(loop, lanes, division.rest)
    if not division.groups:
        return rest
    lane = lane_of(loop, lanes)
    group = lanes_loop(lane, loop.body)
    if division.groups == 1 and not division.limits:
        replace_atoms(loop.body, {loop.var: Index.of(lane)})
        return [group, *rest]
    outer = Var(loop.var.name, division.groups, loop.var.depth)
    replace_atoms(loop.body, {loop.var: Index.of(outer) * lanes + Index.of(lane)})
    loop.var, loop.limits, loop.body = outer, division.limits, [group]
    return [loop, *rest]


def rest_in_lanes(loop: Loop, lanes: int, rest: Rest | None) -> list[Statement]:
    """A copy of the body of a loop without carried values, for its last iterations."""
    if rest is None:
        return []
    if rest.count.is_constant and rest.count.constant == 1:
        # One iteration needs no lanes. (And LLVM 22 writes too many bytes when a truncated vector
        # is stored under a constant mask of one lane.)
        alone = Var(loop.var.name, 1, loop.var.depth)
        body = live(rest.copy(loop.var, Index({}, 0)).block(loop.body))
        return rest.only_here([Loop(alone, body, independent=True)])
    lane = lane_of(loop, lanes)
    body = live(rest.copy(loop.var, Index.of(lane), lane).block(loop.body))
    return rest.only_here(_some_lanes(lane, rest, body))


def serial_iterations(loop: Loop, lanes: int, rest: Rest | None) -> list[Statement]:
    """A copy of a loop without carried values for its last iterations, fewer than `lanes`."""
    if rest is None:
        return []
    count = rest.count
    var = Var(loop.var.name, count.bounds[1], loop.var.depth)
    body = live(rest.copy(loop.var, Index.of(var), var).block(loop.body))
    limits = () if count.is_constant else (count,)
    return rest.only_here([Loop(var, body, independent=True, limits=limits)])


def _some_lanes(lane: Var, rest: Rest, body: list[Statement]) -> list[Statement]:
    """The body in the first `rest.count` lanes; nothing, not even a test of each lane, if that is
    none."""
    count = rest.count
    if count.is_constant:
        return [lanes_loop(lane, [If(Index.of(lane), 0, count.constant, body)])]
    group = lanes_loop(lane, [If(Index.of(lane) - count, -lane.extent, 0, body)])
    return [If(count, 1, lane.extent, [group])]


def _reduction(kernel: Kernel, loop: Loop, lanes: int, masked: bool) -> None:
    chain = _handing_on(path_to(kernel, loop))
    top = chain[0]
    assert loop.combiner is not None
    lane = lane_of(top, lanes)
    starts: list[Statement] = []
    combination = Combination([], [], [], loop.combiner)
    neutral = all(c.identity is not None for c in top.carries)
    for carry in top.carries:
        result, carry.result = carry.result, carry.result.like()
        combination.values.append(carry.result)
        combination.results.append(result)
        if neutral:
            combination.inits.append(carry.init)
        if carry.identity is not None:
            carry.init = carry.init.like()
            starts.append(Constant(carry.init, carry.identity))
    new = lanes_loop(lane, [])
    new.combination = combination
    replace(kernel, top, [new])
    new.body = [*starts, top]
    here = new.body if loop is top else chain[-2].body
    here[-1:] = _masked_sum(loop, lanes, lane) if masked else _sum_and_rest(loop, lanes, lane)


def _handing_on(path: list[Loop]) -> list[Loop]:
    """The end of a path: the loops that carry what the last one carries, and do nothing with it."""
    start = len(path) - 1
    while start:
        outer, inner = path[start - 1], path[start]
        phis = [c.phi for c in outer.carries]
        handed = [c.init for c in inner.carries] == phis
        back = [c.next for c in outer.carries] == [c.result for c in inner.carries]
        if not (outer.carries and handed and back and outer.body[-1] is inner):
            break
        start -= 1
    return path[start:]


def _masked_sum(loop: Loop, lanes: int, lane: Var) -> list[Statement]:
    body = loop.body
    inside = _enter_groups(loop, lanes, lane)
    inside.body = body
    for carry in loop.carries:
        phi, result = carry.phi.like(), carry.phi.like()
        inside.carries.append(Carry(carry.phi, phi, result, carry.next))
        carry.phi, carry.next = phi, result
    loop.body = [inside]
    return [loop]


def _sum_and_rest(loop: Loop, lanes: int, lane: Var) -> list[Statement]:
    division = divide(loop, lanes)
    result: list[Statement] = []
    if division.rest is not None:
        result.append(_rest_of_sum(loop, lane, division.rest, bool(division.groups)))
    if not division.groups:
        return result
    outer = Var(loop.var.name, division.groups, loop.var.depth)
    around = Index.of(outer) * lanes if division.groups > 1 else Index({}, 0)
    replace_atoms(loop.body, {loop.var: around + Index.of(lane)})
    loop.var, loop.limits = outer, division.limits
    return [loop, *result]


def _rest_of_sum(loop: Loop, lane: Var, rest: Rest, after_groups: bool) -> If:
    """The last iterations, in some lanes; the others keep what they have."""
    copy = rest.copy(loop.var, Index.of(lane))
    inside = If(Index.of(lane) - rest.count, -lane.extent, 0)
    if rest.count.is_constant:
        inside = If(Index.of(lane), 0, rest.count.constant)
    for carry in loop.carries:
        before, phi = carry.init, carry.phi.like()
        result = carry.result
        if after_groups:
            before = carry.result = result.like()
        copy.values[carry.phi] = phi
        inside.carries.append(Carry(phi, before, result))
    body = copy.block(loop.body)
    for carry, new in zip(loop.carries, inside.carries):
        assert carry.next is not None
        new.next = copy.value(carry.next)
    inside.body = live(body, [c.next for c in inside.carries if c.next is not None])
    return inside
