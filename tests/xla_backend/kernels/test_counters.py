"""What kernels ask of a GPU is counted as a GPU would be asked."""

from collections.abc import Callable

import numpy as np
import pytest

import xla_backend
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.counters import BankConflictError, KernelCounters, table
from xla_backend.kernels.index import Index
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import BufferRole, Kernel, LoopKind, ShuffleMode
from xla_backend.kernels.verifier import verify_kernel

GRID, THREAD, LANES = LoopKind.GRID, LoopKind.THREAD, LoopKind.LANES
BLOCKS, THREADS = 2, 64


def counted(kernel: Kernel, *, most_ways: int | None = None) -> KernelCounters:
    verify_kernel(kernel)
    operands = [
        np.zeros(b.size, b.element_type.numpy_dtype)
        for b in kernel.buffers
        if b.role is BufferRole.OPERAND
    ]
    result = KernelCounters(kernel.name, most_ways)
    Interpreter(kernel, operands, counters=result).run()
    return result


def copy(index: Callable[[Index, Index], Index], type: P = P.F32, lanes: int = 1) -> Kernel:
    """Each thread copies (vectors of) elements of p0, read at an index of block and thread."""
    b = LoopBuilder("copy")
    size = BLOCKS * THREADS * lanes
    p = b.buffer("p0", type, 64 * size, BufferRole.OPERAND)
    out = b.buffer("out0", type, size, BufferRole.OUTPUT)
    with b.loop(BLOCKS, GRID) as block, b.loop(THREADS, THREAD) as thread:
        with b.loop(lanes, LANES) as lane:
            value = b.load(p, index(block, thread) * lanes + lane)
            b.store(out, (block * THREADS + thread) * lanes + lane, (value,))
    return b.kernel


WARPS = BLOCKS * THREADS // 32


@pytest.mark.parametrize(
    ("kernel", "size", "sectors", "lines", "touched", "efficiency"),
    [
        (copy(lambda b, t: b * 64 + t), 4, 4, 1, 16, 1.0),
        (copy(lambda b, t: b * 64 + t, P.F64), 8, 8, 2, 32, 1.0),
        (copy(lambda b, t: b * 64 + t, P.F16), 2, 2, 1, 8, 1.0),
        (copy(lambda b, t: b * 64 + t, P.F32, 4), 16, 16, 4, 64, 1.0),
        (copy(lambda b, t: b * 64 + t + 3), 4, 5, 2, 17, 0.8),  # not aligned
        (copy(lambda b, t: b * 2048 + t * 32), 4, 32, 32, 128, 0.125),  # down a column
        (copy(lambda b, t: b * 64 + t * 2), 4, 8, 2, 24, 0.5),  # every other, and twice
        (copy(lambda b, t: b), 4, 1, 1, 1, 4.0),  # one for all threads
    ],
)
def test_coalescing(
    kernel: Kernel, size: int, sectors: int, lines: int, touched: int, efficiency: float
) -> None:
    """Per warp, except for what is touched."""
    k = counted(kernel)
    reads = k.reads["p0"]
    assert reads.requests == WARPS
    assert reads.bytes == BLOCKS * THREADS * size
    assert (reads.sectors, reads.lines) == (WARPS * sectors, WARPS * lines)
    assert reads.touched == 32 * touched
    assert reads.efficiency == pytest.approx(efficiency)
    assert k.writes["out0"].efficiency == 1.0
    assert k.global_bytes == reads.touched + BLOCKS * THREADS * size
    assert (k.launches, k.blocks, k.threads) == (1, BLOCKS, BLOCKS * THREADS)
    assert k.instructions_per_thread == 2
    assert k.busy == 1


def shared(index: Callable[[Index], Index], type: P = P.F32) -> Kernel:
    """Each thread writes an element of shared memory, and reads it after a barrier."""
    b = LoopBuilder("shared")
    out = b.buffer("out0", type, BLOCKS * THREADS, BufferRole.OUTPUT)
    s = b.buffer("s", type, 4096, BufferRole.SHARED)
    one = b.constant(type, type.numpy_dtype.type(1))
    with b.loop(BLOCKS, GRID) as block, b.loop(THREADS, THREAD) as thread:
        b.store(s, index(thread), (one,))
        b.barrier()
        b.store(out, block * THREADS + thread, (b.load(s, index(thread)),))
    return b.kernel


@pytest.mark.parametrize(
    ("kernel", "ways", "least", "passes"),
    [
        (shared(lambda t: t), 1, 1, 1),
        (shared(lambda t: t * 2), 2, 1, 2),
        (shared(lambda t: t * 32), 32, 1, 32),
        (shared(lambda t: t * 33), 1, 1, 1),  # rows that are padded
        (shared(lambda t: t, P.F64), 1, 2, 2),  # half a warp at a time
        (shared(lambda t: t * 2, P.F64), 2, 2, 4),
        (shared(lambda t: t, P.S8), 1, 1, 1),  # four to a word
    ],
)
def test_bank_conflicts(kernel: Kernel, ways: int, least: int, passes: int) -> None:
    k = counted(kernel)
    for traffic in (k.shared_reads["s"], k.shared_writes["s"]):
        assert traffic.requests == WARPS
        assert traffic.ways == ways
        assert (traffic.least, traffic.passes) == (WARPS * least, WARPS * passes)
    assert k.passes_per_access == passes / least
    assert k.barriers == BLOCKS


def test_a_word_that_all_threads_read_is_no_conflict() -> None:
    b = LoopBuilder("k")
    s = b.buffer("s", P.F32, 4, BufferRole.SHARED)
    with b.loop(BLOCKS, GRID), b.loop(THREADS, THREAD) as thread:
        with b.where(thread, 0, 4):
            b.store(s, thread, (b.constant(P.F32, np.float32(1)),))
        b.barrier()
        b.load(s, thread // 32)
    k = counted(b.kernel)
    assert k.shared_reads["s"].passes == WARPS
    assert k.shared_writes["s"].requests == BLOCKS


def test_conflicts_above_a_limit_are_an_error() -> None:
    kernel = shared(lambda t: t * 8)
    assert counted(kernel, most_ways=8).shared_traffic.ways == 8
    with pytest.raises(
        BankConflictError,
        match=r"kernel 'shared': threads 0 to 31 of block 0 have buffer s written at 8 different "
        r"words of one bank \(elements 0, 8, 16, 24, ...\), and 4 are allowed: pad",
    ):
        counted(kernel, most_ways=4)


def test_atomics_shuffles_and_operations() -> None:
    b = LoopBuilder("k")
    p = b.buffer("p0", P.F32, BLOCKS * THREADS, BufferRole.OPERAND)
    out = b.buffer("out0", P.F32, 4, BufferRole.OUTPUT)
    with b.loop(1, GRID), b.loop(4, THREAD) as thread:
        b.store(out, thread, (b.constant(P.F32, np.float32(0)),))
    with b.loop(BLOCKS, GRID) as block, b.loop(THREADS, THREAD) as thread:
        value = b.load(p, block * THREADS + thread)
        neighbour = b.shuffle(value, ShuffleMode.XOR, 16)
        total = b.compute(Opcode.ADD, P.F32, (value, neighbour))
        root = b.compute(Opcode.SQRT, P.F32, (total,))
        with b.where(thread % 32, 0, 16):
            b.atomic(out, thread % 4, Opcode.ADD, root)
    k = counted(b.kernel)
    assert k.launches == 2 and k.blocks == 1 + BLOCKS
    assert k.shuffles == WARPS
    assert k.transcendentals == BLOCKS * THREADS
    assert k.flops == BLOCKS * THREADS + BLOCKS * THREADS // 2
    assert k.updates["out0"].requests == WARPS
    assert k.updates["out0"].bytes == BLOCKS * THREADS // 2 * 4
    assert k.global_bytes == BLOCKS * THREADS * 4 + 3 * 32
    # Half of the threads of each warp take part in the last of five, and four in the first store.
    assert k.instructions == BLOCKS * THREADS * 4 + BLOCKS * THREADS // 2 + 4
    assert k.warp_instructions == 5 * WARPS + 1


def test_blocks_at_once_and_one_after_another_count_the_same() -> None:
    for kernel in (shared(lambda t: t * 8), copy(lambda b, t: b * 64 + t * 2)):
        one = KernelCounters(kernel.name)
        inputs = [np.zeros(b.size, np.float32) for b in kernel.buffers if b.name == "p0"]
        for _ in Interpreter(kernel, inputs, counters=one).steps():
            pass
        assert table([one]) == table([counted(kernel)])
        assert one.reads == counted(kernel).reads


def test_an_executable_of_the_emulator_counts() -> None:
    text = """HloModule m
    ENTRY e { x = f32[2048] parameter(0) ROOT r = f32[2048] exponential(x) }"""
    executable = xla_backend.compile(xla_backend.parse_hlo(text), "gpu_emulator")
    (k,) = executable.loaded.counters([np.ones(2048, np.float32)]).values()
    assert k.global_bytes == 2 * 2048 * 4
    assert k.global_traffic.efficiency == 1.0
    assert k.transcendentals == 2048
    lines = table([k]).splitlines()
    assert lines[0].startswith("kernel ") and str(k.global_bytes) in lines[1]
