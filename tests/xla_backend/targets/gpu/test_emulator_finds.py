"""Mistakes planted in kernels that are shaped as GPUs run them, and in kernels that are scheduled
for one: the emulator finds each."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from emulated_checks import barriers
from native_checks import arguments_of, module_of

import xla_backend
from xla_backend.compile_options import CompileOptions
from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.counters import BankConflictError, KernelCounters
from xla_backend.kernels.index import Index
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import (
    Atomic,
    BufferRole,
    If,
    Kernel,
    Load,
    Loop,
    LoopKind,
    Shuffle,
    ShuffleMode,
    Statement,
    Store,
    walk,
)
from xla_backend.kernels.races import (
    KernelRunError,
    OutOfBoundsError,
    RaceError,
    UnwrittenReadError,
)
from xla_backend.kernels.verifier import verify_kernel

ADD = "add {\n x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y)\n}\n"


@contextmanager
def launched(b: LoopBuilder, blocks: int, threads: int) -> Iterator[tuple[Index, Index]]:
    with b.loop(blocks, LoopKind.GRID) as block, b.loop(threads, LoopKind.THREAD) as thread:
        yield block, thread


# -- kernels without mistakes ----------------------------------------------------------------------


def elementwise() -> Kernel:
    """1000 elements by 4 blocks of 256 threads: the last ones have nothing to do."""
    b = LoopBuilder("elementwise")
    p = b.buffer("p0", P.F32, 1000, BufferRole.OPERAND)
    out = b.buffer("out0", P.F32, 1000, BufferRole.OUTPUT)
    with launched(b, 4, 256) as (block, thread):
        i = block * 256 + thread
        with b.where(i, 0, 1000):
            value = b.load(p, i)
            b.store(out, i, (b.compute(Opcode.MULTIPLY, P.F32, (value, value)),))
    return b.kernel


def block_sums() -> Kernel:
    """Sums of 512 elements by each block: warps by shuffles, blocks through shared memory."""
    b = LoopBuilder("block_sums")
    p = b.buffer("p0", P.F32, 4096, BufferRole.OPERAND)
    out = b.buffer("out0", P.F32, 8, BufferRole.OUTPUT)
    s = b.buffer("s", P.F32, 16, BufferRole.SHARED)
    with launched(b, 8, 512) as (block, thread):
        value = b.load(p, block * 512 + thread)
        for n in (16, 8, 4, 2, 1):
            other = b.shuffle(value, ShuffleMode.XOR, n)
            value = b.compute(Opcode.ADD, P.F32, (value, other))
        with b.where(thread % 32, 0, 1):
            b.store(s, thread // 32, (value,))
        for half in (8, 4, 2, 1):
            b.barrier()
            with b.where(thread, 0, half):
                pair = b.load(s, thread), b.load(s, thread + half)
                b.store(s, thread, (b.compute(Opcode.ADD, P.F32, pair),))
        with b.where(thread, 0, 1):
            b.store(out, block, (b.load(s, thread),))
    return b.kernel


def transpose(padding: int = 1) -> Kernel:
    """A matrix of 64 x 96 by tiles of 32 x 32, through rows of shared memory that are padded."""
    b = LoopBuilder("transpose")
    p = b.buffer("p0", P.F32, 64 * 96, BufferRole.OPERAND)
    out = b.buffer("out0", P.F32, 96 * 64, BufferRole.OUTPUT)
    pitch = 32 + padding
    s = b.buffer("s", P.F32, 32 * pitch, BufferRole.SHARED)
    with launched(b, 6, 256) as (block, thread):
        row, column, y, x = block // 3 * 32, block % 3 * 32, thread // 32, thread % 32
        for k in range(0, 32, 8):
            value = b.load(p, (row + y + k) * 96 + column + x)
            b.store(s, (y + k) * pitch + x, (value,))
        b.barrier()
        for k in range(0, 32, 8):
            value = b.load(s, x * pitch + y + k)
            b.store(out, (column + y + k) * 64 + row + x, (value,))
    return b.kernel


def histogram() -> Kernel:
    """Counts of numbers below 64: in shared memory first, and then in all blocks'."""
    b = LoopBuilder("histogram")
    p = b.buffer("p0", P.S32, 2048, BufferRole.OPERAND)
    out = b.buffer("out0", P.S32, 64, BufferRole.OUTPUT)
    s = b.buffer("s", P.S32, 64, BufferRole.SHARED)
    zero, one = (b.constant(P.S32, np.int32(n)) for n in (0, 1))
    with launched(b, 1, 64) as (_, thread):
        b.store(out, thread, (zero,))
    with launched(b, 8, 256) as (block, thread):
        with b.where(thread, 0, 64):
            b.store(s, thread, (zero,))
        b.barrier()
        number = b.load(p, block * 256 + thread)
        number.bounds = (0, 63)
        b.atomic(s, Index.of(number), Opcode.ADD, one)
        b.barrier()
        with b.where(thread, 0, 64):
            b.atomic(out, thread, Opcode.ADD, b.load(s, thread))
    return b.kernel


def operands_of(kernel: Kernel) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    given = [b for b in kernel.buffers if b.role is BufferRole.OPERAND]
    return [rng.integers(0, 64, b.size).astype(b.element_type.numpy_dtype) for b in given]


WHOLE: dict[Callable[[], Kernel], Callable[[np.ndarray], np.ndarray]] = {
    elementwise: lambda x: x * x,
    block_sums: lambda x: x.reshape(8, 512).sum(axis=1),
    transpose: lambda x: x.reshape(64, 96).T.reshape(-1),
    histogram: lambda x: np.bincount(x, minlength=64),
}


@pytest.mark.parametrize("make", WHOLE)
def test_nothing_is_found_where_nothing_is_wrong(make: Callable[[], Kernel]) -> None:
    kernel = make()
    verify_kernel(kernel)
    operands = operands_of(kernel)
    results = [Interpreter(kernel, operands).run()[0]]
    stepped = Interpreter(kernel, operands)
    for _ in stepped.steps():
        pass
    for result in (*results, stepped.outputs()[0]):
        np.testing.assert_array_equal(result, WHOLE[make](*operands))


# -- mistakes --------------------------------------------------------------------------------------

Plant = Callable[[Kernel], None]


def _first(kernel: Kernel, kind: type, buffer: str) -> Load | Store | Atomic:
    found = (s for s in walk(kernel.stages) if isinstance(s, kind) and s.buffer.name == buffer)
    return next(found)


def moved(kind: type, buffer: str, by: int) -> Plant:
    """An access goes to the wrong element."""

    def plant(kernel: Kernel) -> None:
        s = _first(kernel, kind, buffer)
        s.index = s.index + by

    return plant


def without_barrier(number: int) -> Plant:
    def plant(kernel: Kernel) -> None:
        body, at = list(barriers(kernel.stages))[number]
        del body[at]

    return plant


def barrier_for_some(kernel: Kernel) -> None:
    body, at = next(barriers(kernel.stages))
    threads = _thread_loop(kernel)
    body[at] = If(Index.of(threads.var), 0, 100, [body[at]])


def shuffle_for_some(kernel: Kernel) -> None:
    threads = _thread_loop(kernel)
    first = next(i for i, s in enumerate(threads.body) if isinstance(s, Shuffle))
    threads.body[first] = If(Index.of(threads.var), 0, 100, [threads.body[first]])


def unconditional(kernel: Kernel) -> None:
    """The threads that have nothing to do do it."""
    threads = _thread_loop(kernel)
    (condition,) = threads.body
    assert isinstance(condition, If)
    threads.body[:] = condition.body


def one_block_further(kernel: Kernel) -> None:
    """Blocks overlap by a part."""
    (grid,) = kernel.stages
    assert isinstance(grid, Loop)
    store = _first(kernel, Store, "out0")
    store.index = store.index - Index.of(grid.var) * 128


def not_atomic(buffer: str) -> Plant:
    def plant(kernel: Kernel) -> None:
        for body in _bodies(kernel.stages):
            for i, s in enumerate(body):
                if isinstance(s, Atomic) and s.buffer.name == buffer:
                    body[i] = Store(s.buffer, s.index, (s.value,))

    return plant


def without_first_stage(kernel: Kernel) -> None:
    """What adds up has no beginning."""
    del kernel.stages[next(i for i, s in enumerate(kernel.stages) if isinstance(s, Loop))]


def all_at_once(kernel: Kernel) -> None:
    """Two stages in one: blocks count while one of them begins to."""
    first, second = (s for s in kernel.stages if isinstance(s, Loop))
    inner, threads = first.body[0], second.body[0]
    assert isinstance(inner, Loop) and isinstance(threads, Loop)
    (store,) = inner.body
    assert isinstance(store, Store)
    store.index = Index.of(threads.var)
    threads.body.insert(0, If(Index.of(threads.var), 0, 64, [store]))
    kernel.stages.remove(first)


def _thread_loop(kernel: Kernel) -> Loop:
    loops = [s for s in walk(kernel.stages) if isinstance(s, Loop)]
    return next(s for s in loops if s.kind is LoopKind.THREAD)


def _bodies(statements: list[Statement]) -> Iterator[list[Statement]]:
    yield statements
    for s in statements:
        if isinstance(s, Loop | If):
            yield from _bodies(s.body)


MISTAKES = [
    (elementwise, unconditional, OutOfBoundsError, "element 1000 of buffer p0"),
    (elementwise, moved(Load, "p0", 1), OutOfBoundsError, r"p0 is accessed at \[.*thread 231\]"),
    (elementwise, moved(Store, "out0", -1), OutOfBoundsError, "element -1 of buffer out0"),
    (elementwise, one_block_further, RaceError, "by two blocks of one statement"),
    (block_sums, without_barrier(0), RaceError, "buffer s is read at .* and written at"),
    (block_sums, without_barrier(1), RaceError, "element . of buffer s is"),
    (block_sums, without_barrier(3), RaceError, "element 1 of buffer s is read at"),
    (block_sums, barrier_for_some, KernelRunError, "a barrier that only some threads"),
    (block_sums, shuffle_for_some, KernelRunError, "shuffles values of threads that do not"),
    (block_sums, moved(Store, "s", 1), OutOfBoundsError, "element 16 of buffer s"),
    (block_sums, moved(Load, "s", 16), OutOfBoundsError, "has 16 elements"),
    (transpose, without_barrier(0), RaceError, "buffer s is read at .* and written at"),
    (transpose, moved(Load, "s", 25), UnwrittenReadError, "element 32 of buffer s is read"),
    (transpose, moved(Store, "s", 33), RaceError, "element 264 of buffer s is written"),
    (transpose, moved(Store, "out0", 8), RaceError, "element .* of buffer out0 is written"),
    (histogram, without_barrier(0), RaceError, "buffer s is updated at .* and written at"),
    (histogram, without_barrier(1), RaceError, "buffer s is read at .* and updated at"),
    (histogram, not_atomic("s"), RaceError, "two threads of one statement"),
    (histogram, not_atomic("out0"), RaceError, "two blocks of one statement"),
    (histogram, without_first_stage, UnwrittenReadError, "buffer out0 is updated"),
    (histogram, all_at_once, RaceError, "buffer out0"),
]


@pytest.mark.parametrize(("make", "plant", "error", "message"), MISTAKES)
def test_a_mistake_is_found(
    make: Callable[[], Kernel], plant: Plant, error: type[Exception], message: str
) -> None:
    kernel = make()
    operands = operands_of(kernel)
    plant(kernel)
    with pytest.raises(error, match=message):
        Interpreter(kernel, operands).run()
    with pytest.raises(error):
        for _ in Interpreter(kernel, operands).steps():
            pass


def test_bank_conflicts_are_found() -> None:
    """Columns of a tile lie in one bank, unless its rows are padded."""
    for padding, ways in ((1, 1), (0, 32)):
        kernel = transpose(padding)
        k = KernelCounters("transpose")
        Interpreter(kernel, operands_of(kernel), counters=k).run()
        assert k.shared_reads["s"].ways == ways
    with pytest.raises(BankConflictError, match="buffer s read at 32 different words of one bank"):
        counters = KernelCounters("transpose", most_ways=2)
        Interpreter(kernel, operands_of(kernel), counters=counters).run()


# -- kernels of the pipeline -----------------------------------------------------------------------

PROGRAMS = {
    "softmax": """x = f32[6,700] parameter(0)
        z = f32[] constant(0)
        e = f32[6,700] exponential(x)
        s = f32[6] reduce(e, z), dimensions={1}, to_apply=add
        t = f32[6,700] broadcast(s), dimensions={0}
        ROOT r = f32[6,700] divide(e, t)""",
    "row sums": """x = f32[5,900] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[5] reduce(x, z), dimensions={1}, to_apply=add""",
    "column sums": """x = f32[300,40] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[40] reduce(x, z), dimensions={0}, to_apply=add""",
    "a transpose": """x = f32[70,90] parameter(0)
        ROOT r = f32[90,70] transpose(x), dimensions={1,0}""",
    "a product": """x = f32[64,64] parameter(0)
        y = f32[64,64] parameter(1)
        ROOT r = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}""",
    "a sort": """x = f32[4,200] parameter(0)
        ROOT r = f32[4,200] sort(x), dimensions={1}, to_apply=less""",
}
LESS = """less {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT r = pred[] compare(x, y), direction=LT, type=TOTALORDER
}
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_scheduled_kernel_needs_its_barriers(name: str) -> None:
    """Without one there are races, or reads of what nothing has written yet."""
    module = module_of(PROGRAMS[name], ADD + LESS)
    arguments = arguments_of(module)
    executable = xla_backend.compile(module, "gpu_emulator", CompileOptions(verify=True))
    executable.execute(arguments)
    kernels = executable.loaded.plan.program.kernels
    found = 0
    for name, kernel in list(kernels.items()):
        for number in range(len(list(barriers(kernel.stages)))):
            kernels[name] = copy.deepcopy(kernel)
            without_barrier(number)(kernels[name])
            try:
                executable.execute(arguments)
            except (RaceError, UnwrittenReadError):
                found += 1
        kernels[name] = kernel
    assert found
