"""Prefix reductions in one pass: blocks that wait for each other, in the emulator, as code, and on
threads of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
from code_checks import check_assembles, ptx_of
from emulated_checks import barriers
from thread_runs import Runner

from tests.needs_ptxas import NEEDS_PTXAS
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.shape import Shape
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.block_turns import BlockTurns, DeadlockError
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index
from xla_backend.kernels.interpreter import Interpreter, run_kernel
from xla_backend.kernels.ir import (
    Await,
    BufferRole,
    If,
    IndexValue,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Signal,
    Statement,
    Store,
    Ticket,
    Value,
    walk,
)
from xla_backend.kernels.library.look_back import Tiling, scan_looking_back, tiling_of
from xla_backend.kernels.library.rows import Rows
from xla_backend.kernels.library.scan_parts import Scanned
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.races import KernelRunError, RaceError, UnwrittenReadError
from xla_backend.kernels.verifier import KernelVerificationError, verify_kernel
from xla_backend.program.ir import Program
from xla_backend.program.serialize import program_from_bytes, program_to_bytes
from xla_backend.targets.gpu.architectures import ARCHITECTURES
from xla_backend.targets.gpu.cards import CARDS
from xla_backend.targets.gpu.roofline import estimate
from xla_backend.targets.gpu.work import kernel_work

Order = Callable[[int], Sequence[int]]
SMALL = Tiling(32, 1)  # 128 elements


def sums(
    dims: Sequence[int],
    tiling: Tiling | None = None,
    type: P = P.S32,
    *,
    axis: int = 1,
    reverse: bool = False,
) -> Kernel:
    """Sums of rows, with 5 in front of them."""
    b = LoopBuilder("k")
    rows = Rows(dims, axis)
    source = b.buffer("p0", type, rows.elements, BufferRole.OPERAND, 0)
    target = b.buffer("out0", type, rows.elements, BufferRole.OUTPUT, 0)

    def combine(x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        return [b.compute(Opcode.ADD, type, (x[0], y[0]))]

    def element(at: Index, guard: Value | None) -> list[Value]:
        return [b.load(source, at, guard)]

    def keep(at: Index, values: Sequence[Value], guard: Value | None) -> None:
        b.store(target, at, values, guard)

    scanned = Scanned([type], combine, lambda: [b.constant(type, 5)], element, keep)
    scan_looking_back(b, rows, scanned, tiling=tiling, reverse=reverse)
    verify_kernel(b.kernel)
    return b.kernel


def maps(n: int, tiling: Tiling) -> Kernel:
    """(a, b) stands for x -> a x + b: what comes before is applied first, and does not commute."""
    b = LoopBuilder("k")
    rows = Rows((1, n), 1)
    sources, targets = (
        [b.buffer(f"{name}{i}", P.S32, n, role, i) for i in range(2)]
        for name, role in (("p", BufferRole.OPERAND), ("out", BufferRole.OUTPUT))
    )

    def combine(x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        scaled = b.compute(Opcode.MULTIPLY, P.S32, (x[1], y[0]))
        return [
            b.compute(Opcode.MULTIPLY, P.S32, (x[0], y[0])),
            b.compute(Opcode.ADD, P.S32, (scaled, y[1])),
        ]

    def element(at: Index, guard: Value | None) -> list[Value]:
        return [b.load(source, at, guard) for source in sources]

    def keep(at: Index, values: Sequence[Value], guard: Value | None) -> None:
        for target, value in zip(targets, values):
            b.store(target, at, (value,), guard)

    def start() -> list[Value]:
        return [b.constant(P.S32, n) for n in (1, 0)]

    scan_looking_back(b, rows, Scanned([P.S32] * 2, combine, start, element, keep), tiling=tiling)
    verify_kernel(b.kernel)
    return b.kernel


def integers(dims: Sequence[int]) -> np.ndarray:
    return np.random.default_rng(0).integers(-9, 9, dims).astype(np.int32)


def at_random(seed: int, held: int) -> BlockTurns:
    rng = np.random.default_rng(seed)
    return BlockTurns(held, lambda n: int(rng.integers(n)))


ORDERS: list[Order] = [
    range,
    lambda n: range(n - 1, -1, -1),
    lambda n: [int(i) for i in np.random.default_rng(0).permutation(n)],
]


# -- results ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dims", "tiling", "reverse"), [
    ((1, 100), SMALL, False),  # one tile
    ((2, 700), SMALL, True),  # one group
    ((3, 301), SMALL, False),  # no vectors
    ((1, 32 * 128 + 1), SMALL, False),  # a group, and the first tile of the next one
    ((2, 2 * 32 * 128 + 200), SMALL, False),  # three groups
    ((1, 1700), Tiling(64, 2), True),
])  # fmt: skip
def test_rows_of_some_tiles(dims, tiling, reverse) -> None:
    x = integers(dims)
    (got,) = run_kernel(sums(dims, tiling, reverse=reverse), [x], [Shape.array(P.S32, dims)])
    want = np.cumsum(x[:, ::-1], axis=1)[:, ::-1] if reverse else np.cumsum(x, axis=1)
    np.testing.assert_array_equal(got, 5 + want)


def test_rows_side_by_side() -> None:
    x = integers((700, 3))
    (got,) = run_kernel(sums((700, 3), SMALL, axis=0), [x], [Shape.array(P.S32, (700, 3))])
    np.testing.assert_array_equal(got, 5 + np.cumsum(x, axis=0))


def test_what_does_not_commute_keeps_its_order() -> None:
    n = 33 * 128 + 50
    rng = np.random.default_rng(0)
    a, c = (rng.integers(-3, 4, n).astype(np.int32) for _ in range(2))
    a |= 1
    got = run_kernel(maps(n, SMALL), [a, c], [Shape.array(P.S32, (n,))] * 2, turns=at_random(1, 4))
    x, y = np.int32(1), np.int32(0)
    with np.errstate(over="ignore"):
        for i in range(n):
            x, y = x * a[i], y * a[i] + c[i]
            assert (got[0][i], got[1][i]) == (x, y)


def test_bits_of_sums_do_not_depend_on_who_is_faster() -> None:
    """Nor on the order in which blocks begin, nor on how many there are at once."""
    dims = (1, 35 * 128)
    x = np.random.default_rng(0).normal(size=dims).astype(np.float32)
    kernel, shapes = sums(dims, SMALL, P.F32), [Shape.array(P.F32, dims)]
    (first,) = run_kernel(kernel, [x], shapes, turns=BlockTurns(1))
    want = 5 + np.cumsum(x, axis=1, dtype=np.float64)
    np.testing.assert_allclose(first, want, rtol=1e-4, atol=1e-3)
    for seed, order in enumerate(ORDERS):
        for turns in (at_random(seed, 3), at_random(seed, 8), BlockTurns(5)):
            (again,) = run_kernel(kernel, [x], shapes, grid_order=order, turns=turns)
            assert again.tobytes() == first.tobytes()


def test_one_step_at_a_time() -> None:
    dims = (1, 300)
    interpreter = Interpreter(sums(dims, SMALL), [integers(dims)], turns=BlockTurns(2))
    kinds = {type(step.statement) for step in interpreter.steps()}
    assert {Ticket, Signal, Await} <= kinds
    np.testing.assert_array_equal(interpreter.outputs()[0], 5 + np.cumsum(integers(dims)))


def test_it_is_kept_in_files_as_it_is() -> None:
    kernel = sums((1, 300), SMALL)
    program = Program("p", (), (), (), {"k": kernel})
    again = program_from_bytes(program_to_bytes(program)).kernels["k"]
    assert kernel_to_text(again) == kernel_to_text(kernel)
    x = integers((1, 300))
    for one, other in zip(Interpreter(again, [x]).run(), Interpreter(kernel, [x]).run()):
        np.testing.assert_array_equal(one, other)


# -- mistakes --------------------------------------------------------------------------------------


def bodies(statements: list[Statement]) -> Iterator[list[Statement]]:
    yield statements
    for s in statements:
        if isinstance(s, Loop | If):
            yield from bodies(s.body)


def found(kernel: Kernel, kind: type, number: int = 0) -> tuple[list[Statement], int]:
    """Where a statement of a kind is."""
    places = [(body, i) for body in bodies(kernel.stages) for i, s in enumerate(body)
              if isinstance(s, kind)]  # fmt: skip
    return places[number]


def left_out(kind: type, number: int = 0) -> Callable[[Kernel], None]:
    def plant(kernel: Kernel) -> None:
        body, at = found(kernel, kind, number)
        del body[at]

    return plant


def signal_first(kernel: Kernel) -> None:
    """Who waits may read before what is in front of a group is there."""
    body, at = next((body, i) for body in bodies(kernel.stages) for i, s in enumerate(body)
                    if isinstance(s, Signal) and isinstance(body[i - 1], Store))  # fmt: skip
    body[at - 1], body[at] = body[at], body[at - 1]


def signal_by_another(kernel: Kernel) -> None:
    """A thread signals that has not written the total, and has come to no barrier since."""
    body, at = found(kernel, Signal, 1)
    grid = kernel.stages[-1]
    assert isinstance(grid, Loop)
    inner = grid.body[0]
    assert isinstance(inner, Loop)
    signal = body[at]
    assert isinstance(signal, Signal)
    body[at] = If(Index.of(inner.var), 7, 8, [Signal(signal.buffer, signal.index)])


def numbered_by_the_grid(kernel: Kernel) -> None:
    """Blocks take the tile of their own number, and may begin in any order."""
    grid = kernel.stages[-1]
    assert isinstance(grid, Loop)
    body, at = found(kernel, Ticket)
    ticket = body[at]
    assert isinstance(ticket, Ticket)
    body[at] = IndexValue(ticket.result, Index.of(grid.var))


def without_clearing(kernel: Kernel) -> None:
    del kernel.stages[0 if isinstance(kernel.stages[0], Loop) else 1]


MISTAKES = [
    (left_out(Await, 0), RaceError, "buffer total.* is read at .* and written at"),
    (left_out(Await, 1), RaceError, "buffer front.* is read at .* and written at"),
    (left_out(Signal, 0), DeadlockError, r"block 33 at \[.*thread 0\] for element \d+ of flag"),
    (left_out(Signal, 1), DeadlockError, r"block \d+ at \[.*thread 31\] for element 0 of flag"),
    (signal_first, RaceError, "buffer front.* is read at .* and written at"),
    (signal_by_another, RaceError, "buffer total.* is read at .* and written at"),
    (numbered_by_the_grid, DeadlockError, "wait for blocks with lower tickets only"),
    (without_clearing, UnwrittenReadError, "buffer flag.* is updated"),
]


@pytest.mark.parametrize(("plant", "error", "message"), MISTAKES)
def test_a_mistake_is_found(plant, error, message) -> None:
    dims = (1, 34 * 128)
    kernel = sums(dims, SMALL)
    plant(kernel)
    shapes = [Shape.array(P.S32, dims)]
    with pytest.raises((error, UnwrittenReadError), match=message + "|nothing has written it"):
        # Blocks begin from the last one on, where that may matter.
        order: Order = ORDERS[1] if plant is numbered_by_the_grid else range
        run_kernel(kernel, [integers(dims)], shapes, grid_order=order, turns=BlockTurns(4))


def test_barriers_are_needed() -> None:
    dims = (1, 3 * 256)
    kernel, shapes = sums(dims, Tiling(64, 1)), [Shape.array(P.S32, dims)]
    for body, at in list(barriers(kernel.stages)):
        barrier = body.pop(at)
        with pytest.raises(KernelRunError):
            run_kernel(kernel, [integers(dims)], shapes)
        body.insert(at, barrier)
    run_kernel(kernel, [integers(dims)], shapes)


def handed_on(through: int) -> Kernel:
    """Each block adds one to what the one before left in an element, and tells the next; with
    `through` a block in between, whose thread has only heard of it."""
    b = LoopBuilder("chain")
    out = b.buffer("out0", P.S32, 1, BufferRole.OUTPUT, 0)
    flags = b.buffer("flags", P.U32, 9, BufferRole.SCRATCH)
    shared = b.buffer("s", P.U32, 1, BufferRole.SHARED)
    with b.loop(1, LoopKind.GRID), b.loop(9, LoopKind.THREAD) as thread:
        b.store(flags, thread, (b.constant(P.U32, 0),))
        b.store(out, thread, (b.constant(P.S32, 0),), b.in_range(thread, 0, 1))
    with b.loop(8, LoopKind.GRID), b.loop(32, LoopKind.THREAD) as thread:
        first = b.in_range(thread, 0, 1)
        number = b.ticket((flags, Index({}, 8)), shared, first, 8)
        with b.where(thread, 0, 1):
            b.await_signal(flags, number - 1, b.in_range(number, 1, 8))
            with b.where(number % through, 0, 1):
                before = b.load(out, Index({}, 0), mutable=True)
                one = b.constant(P.S32, 1)
                b.store(out, Index({}, 0), (b.compute(Opcode.ADD, P.S32, (before, one)),))
            b.signal(flags, number)
    return b.kernel


@pytest.mark.parametrize("through", [1, 2])
def test_who_was_told_knows_all_that_the_other_knew(through) -> None:
    kernel = handed_on(through)
    verify_kernel(kernel)
    for order in ORDERS:
        (got,) = run_kernel(
            kernel, [], [Shape.array(P.S32, (1,))], grid_order=order, turns=at_random(0, 4)
        )
        assert got == 8 // through


def test_a_signal_is_one_thread_s() -> None:
    kernel = handed_on(1)
    body, at = found(kernel, Signal)
    signal = body[at]
    assert isinstance(signal, Signal)
    signal.index = signal.index * 0
    with pytest.raises(RaceError, match=r"element 0 of buffer flags is signalled at .* and at"):
        run_kernel(kernel, [], [Shape.array(P.S32, (1,))])


def test_a_block_takes_one_ticket() -> None:
    kernel = handed_on(1)
    body, at = found(kernel, Ticket)
    ticket = body[at]
    assert isinstance(ticket, Ticket)
    constant = next(s for s in walk(kernel.stages) if getattr(s, "result", None) is ticket.taker)
    constant.high = 3  # type: ignore[attr-defined]
    with pytest.raises(KernelRunError, match="takes 3 tickets for a block"):
        run_kernel(kernel, [], [Shape.array(P.S32, (1,))])


def test_the_verifier_knows_them() -> None:
    b = LoopBuilder("k")
    flags = b.buffer("flags", P.F32, 4, BufferRole.SCRATCH)
    with b.loop(4, LoopKind.GRID) as block, b.loop(32, LoopKind.THREAD):
        b.signal(flags, block)
    with pytest.raises(KernelVerificationError, match="flags is no u32 that all blocks see"):
        verify_kernel(b.kernel)
    b = LoopBuilder("k")
    flags = b.buffer("flags", P.U32, 4, BufferRole.SCRATCH)
    with b.loop(4) as i:
        b.await_signal(flags, i)
    with pytest.raises(KernelVerificationError, match="only threads of a grid's blocks"):
        verify_kernel(b.kernel)


# -- code ------------------------------------------------------------------------------------------


def test_what_a_block_wrote_is_seen_by_those_who_waited() -> None:
    """A total is written, then a fence, then the signal; who waits polls past its own cache, and
    reads behind a fence."""
    ptx = ptx_of([sums((1, 1 << 20), None, P.F32)])
    order = ["st.global.b32", "fence.acq_rel.gpu", "st.relaxed.gpu", "ld.relaxed.gpu"]
    order += ["fence.acq_rel.gpu", "ld.global.b32"]
    at = ptx.index("atom.global.add.u32")
    for part in order:
        at = ptx.index(part, at) + 1
    # What others write is not read as if it never changed.
    scan = ptx[ptx.index("_stage1") :]
    assert scan.count("ld.global.nc") == scan.count("ld.global.nc.v4.b32")


def test_all_elements_are_on_their_way_before_the_first_is_used() -> None:
    ptx = ptx_of([sums((1, 1 << 26), None, P.F32)])
    first = ptx.index("shfl.sync")
    assert ptx.count("ld.global.nc.v4.b32") == ptx[:first].count("ld.global.nc.v4.b32") == 8


@NEEDS_PTXAS
@pytest.mark.parametrize(
    "architecture",
    [a if a == "sm_90" else pytest.param(a, marks=pytest.mark.slow) for a in ARCHITECTURES],
)
def test_it_assembles_without_spills(architecture) -> None:
    kernels = [
        sums((1, 1 << 26), None, P.F32), sums((1, 1 << 26), None, P.BF16),
        sums((1, 1 << 25), None, P.F64), sums((1, (1 << 24) + 1), None, P.F32), maps(9000, SMALL),
    ]  # fmt: skip
    resources = check_assembles(kernels, architecture)
    assert all(r.spill_stores == r.stack == 0 for r in resources.values())
    assert max(r.registers for r in resources.values()) <= 96


def test_threads_of_several_blocks_run_it() -> None:
    """The text itself, on this machine's threads: blocks that wait for each other, all at once and
    from the last one on."""
    dims = (2, 390)
    for kernel, given in (
        (sums(dims, SMALL), [integers(dims)]),
        (maps(500, SMALL), [integers((500,)), integers((500,))]),
    ):
        want = Interpreter(kernel, given).run()
        got = Runner(kernel)(given, at_once=4)
        for one, other in zip(got, want, strict=True):
            np.testing.assert_array_equal(one, other)


# -- the model -------------------------------------------------------------------------------------


def test_each_element_is_read_and_written_once() -> None:
    kernel = sums((1, 1 << 26), None, P.F32)
    clearing, scan = kernel_work(kernel)
    assert (clearing.blocks, scan.blocks) == (33, 8192)
    arrays = 2 * 4 * (1 << 26)
    assert arrays < scan.bytes < 1.01 * arrays and scan.waits == 2
    assert estimate(scan, CARDS["H200"], 64).fraction > 0.9


def test_elements_of_a_thread_follow_their_size_and_number() -> None:
    def strips(n: int, *types: P) -> int:
        return tiling_of(Rows((1, n), 1), types).strips

    assert strips(1 << 26, P.F32) == strips(1 << 26, P.BF16) == 8
    assert strips(1 << 26, P.F64) == strips(1 << 26, P.F32, P.F32) == 4
    assert strips(1 << 26, *[P.F64] * 4) == 1
    assert (strips(1 << 20, P.F32), strips(1 << 21, P.F32)) == (2, 4)
    assert strips(5000, P.F32) == 1


def test_loads_are_where_they_were_planned() -> None:
    """Elements are read once: what a thread holds is not read again behind the wait."""
    kernel = sums((1, 1 << 22), None, P.F32)
    loads = [s for s in walk(kernel.stages) if isinstance(s, Load) and s.buffer.name == "p0"]
    assert len(loads) == tiling_of(Rows((1, 1 << 22), 1), [P.F32]).strips
