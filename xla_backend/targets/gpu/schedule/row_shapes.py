"""What decides how threads share out rows: where neighbours in memory belong, how many elements fit
a vector, how much stays in registers.

Choices depend on shapes only, not on the card: sums come out the same on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from xla_backend.kernels.index import Atom, Index, Var
from xla_backend.kernels.ir import Load, Loop, Store
from xla_backend.kernels.schedule.dependence import mentions, results_of
from xla_backend.kernels.schedule.row_nests import RowNest, Walk
from xla_backend.kernels.schedule.teams import register_words, words
from xla_backend.targets.gpu.architectures import WARP

# As many threads as keep a large card busy.
ENOUGH_THREADS = 1 << 17
MOST_THREADS = 1024
USUAL_THREADS = 256
_VECTOR_BYTES = 16
_MOST_LANES = 8
# Bytes that a thread has under way, of steps that have code of their own.
_BYTES_AT_ONCE = 64
_LEAST_UNROLLED, _MOST_UNROLLED = 4, 16
_LIGHT_STATEMENTS = 16
# Registers for the partial results of all lanes, those of what steps with code of their own load,
# and bytes for what the threads of a block have reduced.
_MOST_STATE = 16
_MOST_LOADED = 64
_SHARED_FOR_PARTS = 32 << 10


def power_of_two(number: int) -> int:
    """The smallest one that is not less."""
    return 1 << max(0, number - 1).bit_length()


def _array_accesses(found: Walk) -> Iterator[Load | Store]:
    return (s for s in found.accesses() if s.buffer.role.is_global)


def runs_across(nest: RowNest) -> bool:
    """Whether neighbours in memory belong to neighbouring rows, as most bytes have it; so where it
    is half of them, as in products of matrices, whose results are neighbours like that."""
    along = across = 0
    row = nest.kept[-1].var
    if row.extent == 1:
        return False
    for found in nest.walks:
        element = found.loops[-1].var
        for s in _array_accesses(found):
            steps = [abs(s.index.coefficient(var)) for var in (element, row)]
            size = s.buffer.element_type.byte_size
            if steps[1] and (steps[1] < steps[0] or not steps[0]):
                across += size
            elif steps[0]:
                along += size
    return across >= along and across > 0


def lanes_of(nest: RowNest) -> int:
    """How many elements of a row a thread takes at once, in accesses of up to 16 bytes."""
    sizes = _sizes(nest)
    lanes = min(_MOST_LANES, _VECTOR_BYTES // max(sizes, default=_VECTOR_BYTES))
    while lanes > 1 and lanes * state_words(nest) > _MOST_STATE:
        lanes //= 2
    while lanes > 1 and not all(_in_lanes(found, lanes) for found in nest.walks):
        lanes //= 2
    return lanes


def _sizes(nest: RowNest) -> list[int]:
    """Bytes of the elements that walks access one after another."""
    return [
        s.buffer.element_type.byte_size
        for found in nest.walks
        for s in _array_accesses(found)
        if mentions(s.index, {loop.var for loop in found.loops})
    ]


def unrolled_for(nest: RowNest, lanes: int) -> int:
    """Steps of a walk that have code of their own: enough for loads under way."""
    state = state_words(nest)
    if state:
        return max(1, min(_LEAST_UNROLLED, _MOST_LOADED // (lanes * state)))
    if any(len(found.body) > _LIGHT_STATEMENTS for found in nest.walks):
        return _LEAST_UNROLLED
    step = lanes * max(_sizes(nest), default=_VECTOR_BYTES)
    return max(_LEAST_UNROLLED, min(_MOST_UNROLLED, _BYTES_AT_ONCE // step))


def state_words(nest: RowNest) -> int:
    """Registers of 32 bits that partial results take which start from a first element; 0 if all
    start from neutral values."""
    return max(
        (sum(words(v.type) for v in w.results) for w in nest.walks if w.from_first), default=0
    )


def most_threads(nest: RowNest) -> int:
    """The largest block whose threads have registers for what they reduce, and shared memory for
    partial results."""
    state = state_words(nest)
    most = USUAL_THREADS if state else MOST_THREADS
    while most > WARP and most * state * 4 > _SHARED_FOR_PARTS:
        most //= 2
    return most


def _in_lanes(found: Walk, lanes: int) -> bool:
    """Whether all that a walk accesses are whole vectors, each at a multiple of its size."""
    limits = [n for limit in found.loops[0].limits for n in (*limit.terms.values(), limit.constant)]
    if found.count % lanes or any(n % lanes for n in limits):
        return False
    if any(isinstance(s, Loop) for s in found.body):
        return False
    vector, lane = Var("vector", found.count // lanes, 0), Var("lane", lanes, 0)
    at = found.at(Index.of(vector) * lanes + Index.of(lane))
    places: dict[Atom, Index] = dict(at.items())
    computed = {v for s in found.body for v in results_of(s)}
    for s in found.accesses():
        index = s.index.replaced(places.get)
        step = index.coefficient(lane)
        others = {atom: c for atom, c in index.terms.items() if atom is not lane}
        if s.guard is not None or mentions(Index(others), {lane, *computed}):
            return False
        aligned = not any(n % lanes for n in (*others.values(), index.constant))
        if step and not (step == 1 and aligned):
            return False
    return True


def fits_registers(nest: RowNest, threads: int, across: int, lanes: int) -> bool:
    """Whether registers of blocks of `threads` hold what walks keep for each other, and the array
    that they read."""
    own = -(-nest.row_length // (across * lanes)) * lanes
    kept, read = {}, {}
    for found in nest.walks:
        for s in found.accesses():
            if not s.buffer.role.is_global:
                kept[s.buffer] = words(s.buffer.element_type)
            elif isinstance(s, Load):
                read[s.buffer] = words(s.buffer.element_type)
    return own * (sum(kept.values()) + max(read.values(), default=0)) <= register_words(threads)


def exchanged_bytes(nest: RowNest) -> int:
    """Bytes of a row in which threads look for what others have put there."""
    return sum(b.size * b.element_type.byte_size for b in nest.exchanged())
