"""Nests that read an array along another loop than they write one: tiles through shared memory.

A tile is 32 x 32 elements (of narrow types as many more as a bank holds), which 256 threads read
and write. What else the nest reads, and what it does, is part of the second half of each tile.
Permutations that keep the innermost dimension are no such nests, and stay plain loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from xla_backend.kernels.ir import Kernel, Load, Loop, Store
from xla_backend.kernels.schedule.collapsing import nest_of, regroup
from xla_backend.kernels.schedule.shared_tiles import WIDTH, Tiling, turn_in_tiles, turned_loads
from xla_backend.targets.gpu.architectures import Architecture
from xla_backend.targets.gpu.schedule.loops import is_light, walks
from xla_backend.targets.gpu.schedule.stages import hands_values_on, is_scheduled

# Shorter loops would leave most of a tile empty, and one thread may do all of them.
_SHORTEST = 9
_BANK_BYTES = 4
# Rows of a tile have code of their own as long as that is so many statements.
_MOST_STATEMENTS = 160


def schedule(kernel: Kernel, architecture: Architecture, done: Callable[[str], None]) -> None:
    """Make a launch of each stage that transposes."""
    if hands_values_on(kernel.stages):
        return
    for stage in list(kernel.stages):
        if isinstance(stage, Loop) and not is_scheduled(stage):
            _schedule(kernel, stage, architecture, done)


def _schedule(
    kernel: Kernel, stage: Loop, architecture: Architecture, done: Callable[[str], None]
) -> None:
    nest = nest_of(stage)
    along = _most_read_along(nest)
    if along is None:
        return
    groups = _groups(nest, along)
    if any(prod(loop.var.extent for loop in group) < _SHORTEST for group in groups[-2:]):
        return
    if max(len(group) for group in groups[-2:]) > 1:
        *_, along, _ = nest = regroup(kernel, nest, groups)
        done("regroup")
    tiling = _tiling(nest, along)
    loads = _that_fit(turned_loads(nest, along), tiling, architecture)
    turn_in_tiles(kernel, nest, along, loads, tiling)
    done("turn_in_tiles")


def _groups(nest: Sequence[Loop], along: Loop) -> list[list[Loop]]:
    """The loops of a nest, those that are one for tiles together: a short row, in what is written
    as in what is read, is continued in the next one. The last two are those of the tiles."""
    written = [nest[-1]]
    for loop in reversed(nest[nest.index(along) + 1 : -1]):
        if prod(l.var.extent for l in written) < WIDTH:
            written.insert(0, loop)
    read = [along]
    others = [loop for loop in nest if loop is not along and loop not in written]
    while others and (length := prod(l.var.extent for l in read)) < WIDTH:
        steps = {load.index.coefficient(along.var) * length for load in turned_loads(nest, along)}
        following = [
            loop
            for loop in others
            if {l.index.coefficient(loop.var) for l in turned_loads(nest, along)} == steps
        ]
        if not following:
            break
        read.insert(0, following[0])
        others.remove(following[0])
    return [*([loop] for loop in others), read, written]


def _most_read_along(nest: Sequence[Loop]) -> Loop | None:
    """The loop along which most is read that is not read along the innermost one, if what is
    written is written along that."""
    if len(nest) < 2:
        return None
    stores = [s for s in nest[-1].body if isinstance(s, Store)]
    if not all(walks(s.index, nest[-1].var) for s in stores):
        return None
    bytes = {
        loop: sum(s.buffer.element_type.byte_size for s in turned_loads(nest, loop))
        for loop in nest[:-1]
    }
    best = max(bytes, key=lambda loop: bytes[loop], default=None)
    return best if best is not None and bytes[best] else None


def _tiling(nest: Sequence[Loop], along: Loop) -> Tiling:
    accessed = [s for s in nest[-1].body if isinstance(s, Load | Store)]
    lanes = max(1, _BANK_BYTES // max(s.buffer.element_type.byte_size for s in accessed))
    extents = along.var.extent, nest[-1].var.extent
    while lanes > 1 and any(n % lanes or n < _SHORTEST * lanes for n in extents):
        lanes //= 2
    tiling = Tiling(lanes=lanes)
    statements = len(nest[-1].body) * tiling.edge // tiling.rows
    unrolled = is_light(nest[-1].body) and statements <= _MOST_STATEMENTS
    return Tiling(lanes=lanes, unrolled=unrolled)


def _that_fit(loads: Sequence[Load], tiling: Tiling, architecture: Architecture) -> list[Load]:
    """As many loads as there is shared memory for."""
    room = architecture.static_shared
    result = []
    for load in loads:
        room -= tiling.bytes(load.buffer.element_type)
        if room >= 0:
            result.append(load)
    return result
