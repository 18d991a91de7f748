"""The builder makes kernels of threads that work together: what is read by threads is read inside
their loop, and what a condition guards inside the condition."""

import numpy as np

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import constant
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import BufferRole, Constant, Kernel, Loop, LoopKind, ShuffleMode
from xla_backend.kernels.verifier import verify_kernel

THREADS, BLOCKS, COUNT = 64, 3, 150


def total(shuffled: bool) -> Kernel:
    """The sum of 150 numbers times a scalar, added up by 3 blocks of 64 threads: by shuffles within
    32 of them, or in the memory of the block."""
    b = LoopBuilder("total")
    x = b.buffer("p0", P.S32, COUNT, BufferRole.OPERAND, 0)
    factor = b.buffer("p1", P.S32, 1, BufferRole.OPERAND, 1)
    out = b.buffer("out0", P.S32, 1, BufferRole.OUTPUT, 0)
    shared = b.buffer("sums", P.S32, THREADS, BufferRole.SHARED)
    zero = b.constant(P.S32, 0)
    with b.loop(1, LoopKind.GRID), b.loop(1, LoopKind.THREAD):
        b.store(out, constant(0), (zero,))
    with b.loop(BLOCKS, LoopKind.GRID) as block, b.loop(THREADS, LoopKind.THREAD) as thread:
        at = block * THREADS + thread
        b.open_if(at, 0, COUNT, (zero,))
        scale = b.load(factor, constant(0))
        product = b.compute(Opcode.MULTIPLY, P.S32, (b.load(x, at), scale))
        (mine,) = b.close_if((product,))
        if shuffled:
            for step in (16, 8, 4, 2, 1):
                other = b.shuffle(mine, ShuffleMode.XOR, step)
                mine = b.compute(Opcode.ADD, P.S32, (mine, other))
            first = b.in_range(thread % 32, 0, 1)
            assert not isinstance(first, bool)
            b.atomic(out, constant(0), Opcode.ADD, mine, first)
        else:
            b.store(shared, thread, (mine,))
            b.barrier()
            with b.where(thread, 0, 1):
                i, (sum_,) = b.open_loop(THREADS, inits=(zero,))
                next_ = b.compute(Opcode.ADD, P.S32, (sum_, b.load(shared, i, mutable=True)))
                (sum_,) = b.close_loop((next_,))
                b.atomic(out, constant(0), Opcode.ADD, sum_)
    return b.kernel


def test_threads_add_up_what_they_read() -> None:
    x = np.arange(COUNT, dtype=np.int32)
    for shuffled in (True, False):
        kernel = total(shuffled)
        verify_kernel(kernel)
        (result,) = Interpreter(kernel, [x, np.full(1, 3, np.int32)]).run()
        assert result[0] == 3 * x.sum()


def test_stages_hold_constants_and_grids_only() -> None:
    stages = total(True).stages
    grids = [s for s in stages if isinstance(s, Loop)]
    assert len(grids) == 2 and all(g.kind is LoopKind.GRID for g in grids)
    assert all(isinstance(s, Loop | Constant) for s in stages)
    for grid in grids:
        (threads,) = (s for s in grid.body if isinstance(s, Loop))
        assert threads.kind is LoopKind.THREAD
