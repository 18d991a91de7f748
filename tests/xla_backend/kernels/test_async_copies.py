"""Copies beside the threads and loads of small matrices: what they do, and what is found when a
kernel does not wait for the one, or misplaces the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.counters import KernelCounters
from xla_backend.kernels.index import ZERO, Index
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import Buffer, BufferRole, Kernel, LoopKind
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.races import KernelRunError, RaceError
from xla_backend.kernels.verifier import KernelVerificationError, verify_kernel

THREADS, COUNT = 32, 4
SOURCE = np.arange(2 * THREADS * COUNT, dtype=np.float32)

# Builds what one thread does, given shared memory, operand and output.
Body = Callable[[LoopBuilder, Index, Buffer, Buffer, Buffer], None]


def kernel_of(body: Body, type: P = P.F32, size: int = 2 * THREADS * COUNT) -> Kernel:
    b = LoopBuilder("copies")
    source = b.buffer("p0", type, size, BufferRole.OPERAND)
    out = b.buffer("out0", type, size, BufferRole.OUTPUT)
    shared = b.buffer("shared", type, size, BufferRole.SHARED)
    with b.loop(1, LoopKind.GRID), b.loop(THREADS, LoopKind.THREAD) as thread:
        body(b, thread, shared, source, out)
    return b.kernel


def copying(*, wait: int | None = 0, barrier: bool = True, read_own: bool = False) -> Kernel:
    """Two groups of copies; then each thread reads what another one's first copy brought."""

    def body(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
        inside = b.in_range(t, 0, 31)
        assert not isinstance(inside, bool)
        for half in (0, 1):
            at = t * COUNT + half * THREADS * COUNT
            b.async_copy(shared, at, (source, at, inside), COUNT)
            b.async_group()
        if wait is not None:
            b.async_wait(wait)
        if barrier:
            b.barrier()
        other = t if read_own else t * -1 + (THREADS - 1)
        for i in range(COUNT):
            value = b.load(shared, other * COUNT + i, mutable=True)
            b.store(out, t * COUNT + i, (value,))

    return kernel_of(body)


def test_copies_are_there_after_a_wait_and_a_barrier():
    kernel = copying(wait=1)
    verify_kernel(kernel)
    (out,) = Interpreter(kernel, [SOURCE]).run()
    first = SOURCE[: THREADS * COUNT].reshape(THREADS, COUNT).copy()
    first[31] = 0  # its guard does not hold
    np.testing.assert_array_equal(out[: THREADS * COUNT].reshape(THREADS, COUNT), first[::-1])


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (copying(wait=None), "a copy begun at .* is on its way there: wait for it before"),
        (copying(wait=2), "a copy begun at .* is on its way there: wait for it before"),
        (copying(wait=None, barrier=False, read_own=True), "wait for it before"),
        (copying(wait=0, barrier=False), "nothing orders the two: put a barrier between them"),
    ],
    ids=["no wait", "too few waited for", "not even by its own thread", "no barrier"],
)
@pytest.mark.parametrize("together", [True, False])
def test_what_nobody_waited_for_is_found(kernel, message, together):
    interpreter = Interpreter(kernel, [SOURCE])
    with pytest.raises(RaceError, match=message):
        interpreter.run() if together else list(interpreter.steps())


def test_its_own_copy_needs_no_barrier():
    (out,) = Interpreter(copying(barrier=False, read_own=True), [SOURCE]).run()
    np.testing.assert_array_equal(out[: 31 * COUNT], SOURCE[: 31 * COUNT])


def overwriting(*, barrier: bool) -> Kernel:
    """A copy to where another thread has read before."""

    def body(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
        for i in range(COUNT):
            b.store(shared, t * COUNT + i, (b.load(source, t * COUNT + i),))
        b.barrier()
        value = b.load(shared, (t * -1 + (THREADS - 1)) * COUNT, mutable=True)
        b.store(out, t, (value,))
        if barrier:
            b.barrier()
        b.async_copy(shared, t * COUNT, (source, t * COUNT, None), COUNT)
        b.async_group()
        b.async_wait(0)

    return kernel_of(body)


def test_copies_to_where_others_read():
    Interpreter(overwriting(barrier=True), [SOURCE]).run()
    with pytest.raises(RaceError, match=r"is written at .* and read at"):
        Interpreter(overwriting(barrier=False), [SOURCE]).run()


def test_groups_are_made_by_all_threads():
    def body(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
        with b.where(t, 0, 7):
            b.async_group()

    with pytest.raises(KernelRunError, match="makes a group of copies in some threads"):
        Interpreter(kernel_of(body), [SOURCE]).run()


def test_copies_begin_at_multiples_of_their_size():
    def body(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
        b.async_copy(shared, t * COUNT, (source, t * COUNT + 1, None), COUNT)

    with pytest.raises(KernelRunError, match="copies p0 from no multiple of 16 bytes"):
        Interpreter(kernel_of(body), [SOURCE]).run()


def loading(type: P, matrices: int, *, transposed: bool = False, shift: int = 0) -> Kernel:
    """The rows of some matrices lie one after another; each thread stores what it gets."""
    length = 16 // type.byte_size

    def body(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
        for i in range(length):
            at = t * length + i
            b.store(shared, at, (b.load(source, at),))
        b.barrier()
        place = t % (8 * matrices) * length + shift
        for n, held in enumerate(b.matrix_load(shared, place, matrices, transposed=transposed)):
            for i, value in enumerate(held):
                b.store(out, (t * matrices + n) * len(held) + i, (value,))

    return kernel_of(body, type, 32 * length)


@pytest.mark.parametrize(
    ("type", "transposed"),
    [(P.F32, False), (P.BF16, False), (P.F16, True), (P.S8, False), (P.S8, True)],
    ids=str,
)
@pytest.mark.parametrize("matrices", [1, 2, 4])
def test_matrix_loads(type, transposed, matrices):
    length, each = 16 // type.byte_size, 4 // type.byte_size
    kernel = loading(type, matrices, transposed=transposed)
    verify_kernel(kernel)
    source = np.arange(32 * length).astype(type.numpy_dtype)
    counted = KernelCounters("k")
    (out,) = Interpreter(kernel, [source], counters=counted).run()
    rows = source[: 8 * matrices * length].reshape(matrices, 8, length)
    if transposed and type is P.S8:  # by pairs
        rows = rows.reshape(matrices, 8, 8, 2)
    if transposed:
        rows = rows.swapaxes(1, 2)
    want = rows.reshape(matrices, 32, each).swapaxes(0, 1)
    np.testing.assert_array_equal(out[: want.size], want.reshape(-1))
    traffic = counted.shared_reads["shared"]
    assert (traffic.requests, traffic.ways) == (matrices, 1)


def test_rows_of_matrices_begin_at_multiples_of_16_bytes():
    source = np.zeros(32 * 8, P.BF16.numpy_dtype)
    with pytest.raises(KernelRunError, match="loads rows of shared from no multiple of 16 bytes"):
        Interpreter(loading(P.BF16, 1, shift=2), [source]).run()


def test_they_are_printed():
    text = kernel_to_text(copying(wait=1))
    assert "shared[4*j : 4*j + 4] = async_copy(p0[4*j : 4*j + 4] if v" in text
    assert "async_group()" in text and "async_wait(pending=1)" in text
    assert "= matrix_load(shared[8*(j % 16)...]).T" in kernel_to_text(
        loading(P.BF16, 2, transposed=True)
    )


def _copy_of_three(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
    b.async_copy(shared, t * 3, (source, t * 3, None), 3)


def _copy_out(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
    b.async_copy(out, t * 4, (source, t * 4, None), 4)


def _copy_in_lanes(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
    with b.loop(4, LoopKind.LANES) as lane:
        b.async_copy(shared, t * 16 + lane * 4, (source, ZERO, None), 4)


def _turned_words(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
    b.matrix_load(shared, t * 4, 1, transposed=True)


def _from_global(b: LoopBuilder, t: Index, shared: Buffer, source: Buffer, out: Buffer) -> None:
    b.matrix_load(source, t * 4, 1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (_copy_of_three, "3 elements of p0 are not 4, 8 or 16 bytes"),
        (_copy_out, "p0 is copied to out0, which is not shared memory"),
        (_copy_in_lanes, "only threads copy asynchronously, not lanes"),
        (_turned_words, "matrices of f32 are loaded transposed"),
        (_from_global, "matrices are loaded from p0, which is no memory of theirs"),
    ],
)
def test_what_the_verifier_refuses(body, message):
    with pytest.raises(KernelVerificationError, match=message):
        verify_kernel(kernel_of(body))
