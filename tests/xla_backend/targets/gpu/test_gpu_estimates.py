"""Occupancy, the work that is told from a kernel, and the roofline model."""

from __future__ import annotations

import numpy as np
import pytest

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType
from xla_backend.kernels.index import Index, Var
from xla_backend.kernels.ir import (
    Buffer,
    BufferRole,
    Compute,
    If,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Statement,
    Store,
    Value,
)
from xla_backend.targets.gpu.access_counts import bank_passes, requests, sectors
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.cards import CARDS, find_card, usual_card
from xla_backend.targets.gpu.occupancy import occupancy
from xla_backend.targets.gpu.roofline import estimate
from xla_backend.targets.gpu.work import TRANSCENDENTAL, Work, kernel_work

F32 = PrimitiveType.F32
ALL = np.ones(32, bool)
THREADS = np.arange(32)


# What CUDA's occupancy calculator says.
@pytest.mark.parametrize(
    ("architecture", "threads", "registers", "shared", "blocks", "limited_by"),
    [
        ("sm_80", 256, 32, 0, 8, "warps"),
        ("sm_80", 256, 64, 0, 4, "registers"),
        ("sm_80", 128, 40, 0, 12, "registers"),
        ("sm_80", 32, 16, 0, 32, "blocks"),
        ("sm_80", 256, 32, 40 << 10, 4, "shared memory"),
        ("sm_80", 96, 72, 0, 9, "registers"),  # seven warps in each part
        ("sm_80", 64, 32, 0, 32, "warps"),
        ("sm_90", 1024, 33, 0, 1, "registers"),
        ("sm_90", 128, 32, 75 << 10, 3, "shared memory"),
        ("sm_100", 128, 255, 0, 2, "registers"),
        ("sm_120", 256, 32, 0, 6, "warps"),
        ("sm_120", 32, 16, 0, 24, "blocks"),
    ],
)
def test_occupancy(
    architecture: str, threads: int, registers: int, shared: int, blocks: int, limited_by: str
) -> None:
    found = occupancy(ARCHITECTURES[architecture], threads, registers, shared)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.warps == blocks * -(-threads // 32)
    assert 0 < found.fraction <= 1


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "message"),
    [
        (1056, 32, 0, "asks for 1,056 threads; sm_90 has 1,024"),
        (32, 256, 0, "asks for 256 registers a thread; sm_90 has 255"),
        (1024, 65, 0, r"asks for 73,728 registers; sm_90 has 65,536"),
        (32, 32, 228 << 10, "asks for 233,472 bytes of shared memory; sm_90 has 232,448"),
        (0, 32, 0, "no 0 threads"),
    ],
)
def test_blocks_that_cannot_be_launched(
    threads: int, registers: int, shared: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        occupancy(ARCHITECTURES["sm_90"], threads, registers, shared)


def test_cards() -> None:
    assert find_card("rtx5090") is CARDS["RTX 5090"]
    with pytest.raises(ValueError, match=r"no data of a card 'H800'; there are A100, H100, H200"):
        find_card("H800")
    for name in ARCHITECTURES:
        assert usual_card(name).architecture == name.rstrip("a")
    for card in CARDS.values():
        assert card.architecture in ARCHITECTURES
        # The maker's figure for f32 is that of the lanes at the boost clock.
        lanes = 64 if card.architecture == "sm_80" else 128
        computed = 2 * lanes * card.multiprocessors * card.clock / 1e3
        assert computed == pytest.approx(card.vector_tflops["f32"], rel=0.01)
        assert card.tensor_rate("bf16") > card.vector_rate("f32")
    assert CARDS["A100"].tensor_rate("f8e5m2") == CARDS["A100"].vector_rate("f32")


@pytest.mark.parametrize(
    ("stride", "count"), [(0, 1), (4, 4), (8, 8), (16, 16), (32, 32), (128, 32), (2, 2)]
)
def test_sectors(stride: int, count: int) -> None:
    assert sectors(stride * THREADS, ALL) == count
    assert sectors(stride * THREADS, THREADS < 0) == 0


@pytest.mark.parametrize(
    ("stride", "width", "passes"),
    [
        (4, 4, 1),
        (0, 4, 1),
        (8, 4, 2),
        (128, 4, 32),
        (132, 4, 1),  # one word more a row: a transpose without conflicts
        (16, 16, 4),  # no conflict: 16 bytes a thread go through it by eight threads
        (8, 8, 2),
        (64, 16, 16),
        (1, 1, 1),
    ],
)
def test_bank_passes(stride: int, width: int, passes: int) -> None:
    assert bank_passes(stride * THREADS, width, ALL) == passes


def test_warps_that_take_part() -> None:
    assert requests(np.arange(70) >= 33) == 2
    assert requests(np.zeros(64, bool)) == 0


def _kernel(
    n: int, stride: int = 1, lanes: int = 1, limit: int | None = None, shared: int = 0
) -> Kernel:
    """out[i] = exp(in[stride * i]) by blocks of 64 threads; `shared`: through shared memory, with
    such a distance between threads."""
    source = Buffer("x", F32, n * stride, BufferRole.OPERAND)
    target = Buffer("out0", F32, n, BufferRole.OUTPUT)
    tile = Buffer("tile", F32, 64 * max(shared, 1), BufferRole.SHARED)
    block, thread = Var("b", -(-n // (64 * lanes)), 1), Var("t", 64, 2)
    lane = Var("lane", lanes, 3)
    at = Index.of(block) * (64 * lanes) + Index.of(thread) * lanes
    x, y = Value(F32, 2, 0), Value(F32, 2, 1)
    if lanes > 1:
        at = at + Index.of(lane)
    body: list[Statement] = [
        Load(x, source, at * stride),
        Compute(y, Opcode.EXPONENTIAL, (x,)),
        Store(target, at, (y,)),
    ]
    if shared:
        body.insert(2, Store(tile, Index.of(thread) * shared, (y,)))
    if limit is not None:
        body = [If(at, 0, limit, body)]
    if lanes > 1:
        body = [Loop(lane, body, kind=LoopKind.LANES)]
    threads = Loop(thread, body, kind=LoopKind.THREAD, independent=True)
    stage = Loop(block, [threads], kind=LoopKind.GRID, independent=True)
    buffers = [source, target, *([tile] if shared else [])]
    return Kernel("k", buffers, [stage])


def test_work_of_a_loop() -> None:
    (work,) = kernel_work(_kernel(6400))
    assert (work.blocks, work.threads) == (100, 64)
    assert work.read_bytes == work.written_bytes == 4 * 6400
    assert work.requests == 400
    assert work.sectors == 2 * 4 * 6400 / 32
    assert work.operations == {"f32": 6400 * TRANSCENDENTAL}
    assert work.in_flight == 4


def test_work_of_vectors() -> None:
    (work,) = kernel_work(_kernel(25600, lanes=4))
    assert work.requests == 400
    assert work.sectors == 2 * 4 * 25600 / 32
    assert work.in_flight == 16


def test_work_of_strided_loads() -> None:
    (work,) = kernel_work(_kernel(6400, stride=8))
    assert work.read_bytes == 4 * 6400  # of 8 times as many that there are
    assert work.sectors == 6400 + 4 * 6400 / 32


def test_what_is_left_over_takes_no_part() -> None:
    (work,) = kernel_work(_kernel(64, limit=40))
    assert work.read_bytes == 4 * 40
    assert work.requests == 4  # two warps, a load and a store
    assert work.operations == {"f32": 40 * TRANSCENDENTAL}


def test_bank_conflicts() -> None:
    (without,) = kernel_work(_kernel(6400, shared=1))
    (with_conflicts,) = kernel_work(_kernel(6400, shared=32))
    assert without.shared_requests == without.shared_passes == 200
    assert with_conflicts.shared_passes == 32 * with_conflicts.shared_requests
    assert with_conflicts.shared_bytes == 4 * 64 * 32


def test_places_that_are_read_from_memory() -> None:
    """Threads that read the same place go to the same place; others go anywhere."""
    for shared, sectors_each in ((True, 1), (False, 32)):
        table = Buffer("x", F32, 1 << 20, BufferRole.OPERAND)
        places = Buffer("i", PrimitiveType.S32, 64, BufferRole.OPERAND)
        target = Buffer("out0", F32, 6400, BufferRole.OUTPUT)
        block, thread = Var("b", 100, 1), Var("t", 64, 2)
        i, x = Value(PrimitiveType.S32, 2, 0, (0, (1 << 20) - 1)), Value(F32, 2, 1)
        where = Index.of(thread) // 32 if shared else Index.of(thread)
        body: list[Statement] = [
            Load(i, places, where),
            Load(x, table, Index.of(i)),
            Store(target, Index.of(block) * 64 + Index.of(thread), (x,)),
        ]
        threads = Loop(thread, body, kind=LoopKind.THREAD)
        stage = Loop(block, [threads], kind=LoopKind.GRID)
        (work,) = kernel_work(Kernel("k", [table, places, target], [stage]))
        own = (1 if shared else 4) + 4  # of the places and the results
        assert work.sectors == 200 * (sectors_each + own)


def test_a_copy_runs_at_the_bandwidth() -> None:
    (work,) = kernel_work(_kernel(1 << 26, lanes=4))
    card = CARDS["H200"]
    found = estimate(work, card, 32)
    assert found.bound == "memory"
    assert found.fraction > 0.95
    assert found.roofline_seconds == pytest.approx(2 * 4 * (1 << 26) / card.bandwidth)
    # Four bytes a thread are too few in flight.
    (scalar,) = kernel_work(_kernel(1 << 26))
    assert estimate(scalar, card, 32).fraction < 0.6


def test_strided_loads_lie_below_the_roofline() -> None:
    (work,) = kernel_work(_kernel(1 << 24, stride=8, lanes=1))
    assert estimate(work, CARDS["H200"], 32).fraction < 0.4


def test_arithmetic_and_small_grids() -> None:
    busy = Work(1320, 256, read_bytes=1e6, sectors=1e6 / 32, operations={"f32": 1e12})
    assert estimate(busy, CARDS["H100"], 32).bound == "arithmetic"
    small = Work(1, 64, read_bytes=1e6, sectors=1e6 / 32, in_flight=16)
    assert estimate(small, CARDS["H100"], 32).fraction < 0.01
    tiles = Work(1320, 256, matrix_operations={"bf16": 989.4e12})
    assert estimate(tiles, CARDS["H100"], 32).roofline_seconds == pytest.approx(1)
