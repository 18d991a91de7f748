"""Stages of independent iterations: elementwise fusions, broadcasts, slices, pads, gathers, and
those in which an element takes a loop of its own (windows, small products).

The loops of such a stage become one, and that is spread over threads (`kernels.schedule.collapsing`
and `spreading`). Where arrays are walked through in order, a thread takes as many neighbours as 16
bytes hold. How many threads there are, and what each of them does, follows from the extents, from
the accesses of the body and from the size of the machine, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf, prod
from typing import NamedTuple

from xla_backend.hlo.opcode import Opcode
from xla_backend.kernels.index import Atom, Index, Var
from xla_backend.kernels.ir import Compute, Kernel, Load, Loop, Statement, Store, walk
from xla_backend.kernels.schedule.binding import split
from xla_backend.kernels.schedule.collapsing import collapse, nest_of
from xla_backend.kernels.schedule.dependence import mentions, varies
from xla_backend.kernels.schedule.side_by_side import need_no_order, side_by_side
from xla_backend.kernels.schedule.spreading import Spread, spread
from xla_backend.targets.gpu.architectures import WARP, Architecture
from xla_backend.targets.gpu.schedule.stages import hands_values_on, is_pure, is_scheduled

_VECTOR_BYTES = 16
_SMALL_BLOCK, _LARGE_BLOCK = 128, 256
# Bodies of more cycles need threads more than they need wide accesses.
_LIGHT_WORK = 24
_LANES_BY_WORK = ((_LIGHT_WORK, 16), (100, 4), (inf, 2))
# A thread does several vectors if there are still so many times the threads that run at once.
_WAVES = 2
_MOST_EACH = 4
_MOST_STATEMENTS_EACH = 16
# These keep much at hand, for arguments that are large.
_WIDE = frozenset({Opcode.SINE, Opcode.COSINE, Opcode.TAN})
# Of what is read, as much must be the same for all rows for a thread to do several: a quarter.
_WORTH_READING_ONCE = 4
# So many arrays may lie in one, element by element, for a thread to read of all of them at once.
_MOST_INTERLEAVED = 8
_MOST_STATEMENTS = 96
# More stages than that in one launch are more code than a launch costs.
_MOST_TOGETHER = 16


def schedule(kernel: Kernel, architecture: Architecture, done: Callable[[str], None]) -> None:
    """Make launches of the stages whose outermost loops are independent; one of several that need
    nothing of each other."""
    if hands_values_on(kernel.stages):
        return
    for run in _runs(kernel):
        loops, spreads = [], []
        for nest in run:
            rows = _rows_together(nest, architecture)
            unrolled = _interleaved_along(nest)
            if rows > 1:
                unrolled = split(kernel, nest[-2], rows).inner
                done("split")
            loops.append(collapse(kernel, nest_of(nest[0]), unrolled))
            done("collapse")
            how = how_to_spread(loops[-1], architecture)
            spreads.append(replace(how, each=1) if rows > 1 else how)
        threads = max(how.threads for how in spreads)
        grids = []
        for loop, how in zip(loops, spreads):
            grids.append(spread(kernel, loop, replace(how, threads=threads)))
            done("spread")
        if len(grids) > 1:
            side_by_side(kernel, grids)
            done("side_by_side")


def _runs(kernel: Kernel) -> list[list[list[Loop]]]:
    """The nests of the stages that are not scheduled yet; those beside each other that need no
    order are together."""
    runs: list[list[list[Loop]]] = []
    run: list[list[Loop]] = []
    for stage in kernel.stages:
        if is_pure(stage):
            continue
        nest = nest_of(stage) if isinstance(stage, Loop) and not is_scheduled(stage) else []
        together = len(run) < _MOST_TOGETHER and all(
            nest and need_no_order(other[0], nest[0]) for other in run
        )
        if not together:
            run = []
        if nest:
            if not run:
                runs.append(run)
            run.append(nest)
    return runs


def _interleaved_along(nest: Sequence[Loop]) -> Loop | None:
    """A short loop that most is read along, in steps of which the innermost loop reads: pixels
    whose colours become planes, say. One thread reads all of them."""
    inner = nest[-1]
    loads = [s for s in inner.body if isinstance(s, Load)]
    if any(isinstance(s, Loop) for s in inner.body):
        return None
    total = sum(s.buffer.element_type.byte_size for s in loads)
    for loop in nest[:-1]:
        extent = loop.var.extent
        if not 1 < extent <= _MOST_INTERLEAVED or extent * len(inner.body) > _MOST_STATEMENTS:
            continue
        found = [s for s in loads if _is_interleaved(s.index, loop.var, inner.var)]
        if 2 * sum(s.buffer.element_type.byte_size for s in found) > total:
            return loop
    return None


def _rows_together(nest: Sequence[Loop], architecture: Architecture) -> int:
    """How many rows a thread does, a vector of each: several if what it reads is the same for all
    rows to a good part (biases, scales), and there is enough to do."""
    body = nest[-1].body
    if len(nest) < 2 or not is_light(body):
        return 1
    rows, inner = nest[-2].var, nest[-1].var
    loads = [s for s in body if isinstance(s, Load)]
    same = [s for s in loads if mentions(s.index, {inner}) and not varies(s, {rows})]
    bytes, bytes_again = (sum(s.buffer.element_type.byte_size for s in ss) for ss in (loads, same))
    lanes = lanes_for(nest[-1])
    if _WORTH_READING_ONCE * bytes_again < bytes or inner.extent % lanes:
        return 1
    total = prod(loop.var.extent for loop in nest)
    for each in (_MOST_EACH, _MOST_EACH // 2):
        enough = total // (lanes * each) >= _WAVES * _threads_at_once(architecture)
        if rows.extent % each == 0 and enough and len(body) <= _MOST_STATEMENTS_EACH:
            return each
    return 1


def _is_interleaved(index: Index, along: Var, inner: Var) -> bool:
    unit = index.coefficient(along)
    return unit in (1, 2) and index.coefficient(inner) == unit * along.extent


def how_to_spread(loop: Loop, architecture: Architecture) -> Spread:
    """Threads, lanes and vectors of each thread for a loop over all iterations of a stage."""
    total = loop.var.extent
    at_once = _threads_at_once(architecture)
    light = is_light(loop.body)
    lanes = min(lanes_for(loop), _most_lanes(loop.body))
    enough = _SMALL_BLOCK if light else _SMALL_BLOCK * architecture.multiprocessors
    while lanes > 1 and total // lanes < enough:
        lanes //= 2
    several = light and len(loop.body) <= _MOST_STATEMENTS_EACH and _has_registers_left(loop.body)
    each = _MOST_EACH if several else 1
    while each > 1 and total // (lanes * each) < _WAVES * at_once:
        each //= 2
    wanted = -(-total // (lanes * each))
    if wanted < _SMALL_BLOCK:
        threads = -(-wanted // WARP) * WARP
    else:
        threads = _LARGE_BLOCK if wanted >= at_once else _SMALL_BLOCK
    return Spread(threads, lanes, each)


def _threads_at_once(architecture: Architecture) -> int:
    return architecture.multiprocessors * architecture.threads_per_multiprocessor


def is_light(body: Sequence[Statement]) -> bool:
    """Whether iterations are short: what they read and write takes longer than what they do."""
    return _work(body) <= _LIGHT_WORK and not any(isinstance(s, Loop) for s in body)


def _has_registers_left(body: Sequence[Statement]) -> bool:
    """Whether several vectors of what an iteration does fit a thread's registers."""
    return not any(isinstance(s, Compute) and s.opcode in _WIDE for s in body)


def _most_lanes(body: Sequence[Statement]) -> int:
    """Lanes are so many copies of what an iteration does, each with registers of its own."""
    work = _work(body)
    return next(lanes for most, lanes in _LANES_BY_WORK if work <= most)


def _work(body: Sequence[Statement]) -> float:
    """Cycles of an iteration, roughly."""
    return sum(s.opcode.cycles for s in body if isinstance(s, Compute))


class _Access(NamedTuple):
    """Of elements of so many bytes, at a place."""

    at: Index
    bytes: int
    is_store: bool


def lanes_for(loop: Loop) -> int:
    """How many neighbours a thread takes at once: as many as make accesses of 16 bytes, if most of
    what it accesses is read and written so then, and no store falls apart."""
    if any(isinstance(s, Loop) for s in loop.body):
        return 1
    var = loop.var
    accesses = list(_accesses(loop.body))
    lanes = _VECTOR_BYTES // min((a.bytes for a in accesses), default=_VECTOR_BYTES)
    while lanes > 1:
        if _in_lanes(accesses, var, lanes):
            return lanes
        lanes //= 2
    return 1


def _in_lanes(accesses: Sequence[_Access], var: Var, lanes: int) -> bool:
    """Whether accesses by `lanes` neighbours are worth it."""
    group, lane = Var("group", -(-var.extent // lanes), 0), Var("lane", lanes, 0)
    places: dict[Atom, Index] = {var: Index.of(group) * lanes + Index.of(lane)}
    whole = broken = 0
    for access in accesses:
        index = access.at.replaced(places.get)
        if not mentions(index, {lane}):
            continue
        if walks(index, lane) and _is_aligned(index, lane):
            if index.coefficient(lane) * access.bytes * lanes > _VECTOR_BYTES:
                return False
            whole += access.bytes
        elif access.is_store:
            return False
        else:
            broken += access.bytes
    return whole > broken


def _accesses(body: Sequence[Statement]) -> Iterator[_Access]:
    for s in walk(list(body)):
        if isinstance(s, Load | Store):
            yield _Access(s.index, s.buffer.element_type.byte_size, isinstance(s, Store))


def walks(index: Index, var: Var) -> bool:
    """Whether neighbours in a loop are neighbours in memory (or complex numbers of two parts
    are)."""
    rest = Index({a: c for a, c in index.terms.items() if a is not var})
    return index.coefficient(var) in (1, 2) and not mentions(rest, {var})


def _is_aligned(index: Index, lane: Var) -> bool:
    """Whether vectors begin at whole vectors."""
    unit = index.coefficient(lane)
    width = unit * lane.extent
    others = (c for a, c in index.terms.items() if a is not lane)
    return index.constant % width < unit and not any(c % width for c in others)
