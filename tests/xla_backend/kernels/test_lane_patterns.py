"""Lanes that read memory in a pattern: offsets of lanes, and the pieces that hold them."""

import numpy as np
import pytest

from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import Index, Var
from xla_backend.kernels.ir import Value
from xla_backend.kernels.lane_patterns import lane_offsets, pieces_of, turns_of

LANE = Var("lane", 16, 2)
OUTER = Var("i", 10, 1)
HERE = Index.of(OUTER) * 16 + Index.of(LANE)

PATTERNS = {
    "neighbours": (HERE + 3, list(range(16))),
    "backwards": (HERE * -1 + 200, list(range(0, -16, -1))),
    "each four times": (HERE // 4, [lane // 4 for lane in range(16)]),
    "again and again": (HERE % 4 + 7, [lane % 4 for lane in range(16)]),
    "every third": (HERE * 3 + 1, list(range(0, 48, 3))),
    "columns of small matrices": (
        HERE // 4 * 4 + HERE % 2 * 2,
        [lane // 4 * 4 + lane % 2 * 2 for lane in range(16)],
    ),
    "the same": (Index.of(OUTER), [0] * 16),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_offsets(name: str) -> None:
    index, want = PATTERNS[name]
    assert lane_offsets(index, LANE, 16, lambda atom: atom is not OUTER) == want


def test_periods_that_end_within_a_vector_are_no_pattern() -> None:
    """Every round would have a pattern of its own; as long as there is one round, it is one."""
    every = lambda _: True
    loop = Var("i", 160, 1)
    assert lane_offsets(Index.of(loop) // 3, loop, 16, every) is None
    short = Var("i", 16, 1)
    assert lane_offsets(Index.of(short) // 3, short, 16, every) == [i // 3 for i in range(16)]


def test_computed_places_are_no_pattern() -> None:
    place = Index.of(Value(PrimitiveType.S32, 2, 0, (0, 99)))
    assert lane_offsets(HERE + place, LANE, 16, lambda atom: atom is not OUTER) is None


def test_pieces_hold_the_lanes_and_nothing_beyond_them() -> None:
    rng = np.random.default_rng(0)
    for spread in (1, 2, 5, 16, 40, 96):
        for lanes in (4, 8, 16, 64):
            offsets = [int(o) for o in rng.integers(-spread, spread + 1, lanes)]
            pieces = pieces_of(offsets)
            if pieces is None:
                assert spread > 2 * lanes
                continue
            assert [pieces.starts[piece] + at for piece, at in pieces.lanes] == offsets
            assert all(0 <= at < pieces.size for _, at in pieces.lanes)
            assert min(pieces.starts) >= min(offsets)
            assert max(pieces.starts) + pieces.size <= max(offsets) + 1
            assert pieces.size & (pieces.size - 1) == 0


def test_lanes_far_apart_are_no_pieces() -> None:
    assert pieces_of([100 * lane for lane in range(16)]) is None


def test_patterns_come_back_after_some_vectors() -> None:
    loop = Var("i", 1600, 1)
    i = Index.of(loop)
    assert turns_of([i, i * 3 + 1, i // 4, i % 16], loop, 16) == 1
    assert turns_of([i // 3], loop, 16) == 3
    assert turns_of([i // 3, (i + 2) % 10], loop, 16) == 15
    assert turns_of([(i * 2) // 10], loop, 16) == 5
    every = lambda _: True
    for turn in range(3):
        first = 16 * turn
        want = [(first + lane) // 3 - first // 3 for lane in range(16)]
        assert lane_offsets(i // 3, loop, 16, every, (turn, 3)) == want


def test_pieces_far_apart_are_found_where_they_are() -> None:
    offsets = [lane // 3 + 10**9 * (lane % 3) for lane in range(16)]
    pieces = pieces_of(offsets)
    assert pieces is not None and len(pieces.starts) == 3
    assert [pieces.starts[piece] + at for piece, at in pieces.lanes] == offsets
