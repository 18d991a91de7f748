"""Steps of schedules one by one: as text, checked by the verifier, run by the interpreter."""

from collections.abc import Callable

import numpy as np
import pytest
from native_checks import check_text

from xla_backend.hlo.opcode import Opcode
from xla_backend.hlo.types import PrimitiveType as P
from xla_backend.kernels.builder import LoopBuilder
from xla_backend.kernels.index import Index, Var, constant
from xla_backend.kernels.interpreter import Interpreter
from xla_backend.kernels.ir import (
    Barrier,
    Buffer,
    BufferRole,
    Carry,
    Compute,
    Constant,
    IndexValue,
    Kernel,
    Load,
    Loop,
    LoopKind,
    MatrixTile,
    Shuffle,
    ShuffleMode,
    Statement,
    Store,
    Value,
)
from xla_backend.kernels.matrix_tiles import LAYOUTS
from xla_backend.kernels.printer import kernel_to_text
from xla_backend.kernels.races import KernelRunError, RaceError
from xla_backend.kernels.schedule.binding import bind, reorder, split
from xla_backend.kernels.schedule.blocks import bind_to_grid
from xla_backend.kernels.schedule.called_blocks import Nest, run_in_blocks
from xla_backend.kernels.schedule.lanes import overlap, overlapping, vectorise
from xla_backend.kernels.schedule.splitting import ScheduleError
from xla_backend.kernels.schedule.staging import stage
from xla_backend.kernels.verifier import KernelVerificationError, verify_kernel


def scaled(*extents: int) -> tuple[Kernel, list[Loop]]:
    """out[i, j] = p[i, j] + p[i, j], and its loops from the outermost inwards."""
    b = LoopBuilder("k")
    size = int(np.prod(extents))
    p = b.buffer("p0", P.F32, size, BufferRole.OPERAND)
    out = b.buffer("out0", P.F32, size, BufferRole.OUTPUT)
    at, loops = constant(0), []
    for extent in extents:
        index, _ = b.open_loop(extent, independent=True, may_vectorize=True)
        at = at * extent + index
    value = b.load(p, at)
    b.store(out, at, (b.compute(Opcode.ADD, P.F32, (value, value)),))
    for _ in extents:
        b.close_loop()
    (loop,) = b.kernel.stages
    while isinstance(loop, Loop):
        loops.append(loop)
        loop = loop.body[0]  # type: ignore[assignment]
    return b.kernel, loops


def check(kernel: Kernel, checks: str = "") -> None:
    """Verify, match the text, run with blocks in two orders."""
    verify_kernel(kernel)
    if checks:
        check_text(kernel_to_text(kernel), checks)
    x = np.arange(kernel.buffers[0].size, dtype=np.float32)
    for order in (range, lambda n: range(n - 1, -1, -1)):
        (got,) = Interpreter(kernel, [x], grid_order=order).run()
        np.testing.assert_array_equal(got, x + x)


def test_split_with_a_condition() -> None:
    kernel, (i,) = scaled(100)
    parts = split(kernel, i, 32)
    assert not parts.rest
    check(
        kernel,
        """
        // CHECK: for i in range(4):
        // CHECK-NEXT: for i_in in range(32):
        // CHECK-NEXT: if 32*i + i_in < 100:
        // CHECK-NEXT: p0[32*i + i_in]
        """,
    )


def test_split_with_a_rest_of_its_own() -> None:
    kernel, (i,) = scaled(100)
    split(kernel, i, 32, peeled=True)
    check(
        kernel,
        """
        // CHECK: for i in range(3):
        // CHECK-NEXT: for i_in in range(32):
        // CHECK-NOT: if
        // CHECK: for i in range(4):
        // CHECK-NEXT: p0[i + 96]
        """,
    )


def test_an_even_split_asks_nothing() -> None:
    for peeled in (False, True):
        kernel, (i,) = scaled(96)
        assert not split(kernel, i, 32, peeled=peeled).rest
        assert "if" not in kernel_to_text(kernel)
        check(kernel)


def test_the_rest_of_a_block() -> None:
    kernel, (i,) = scaled(100)
    bind_to_grid(kernel, i, 24)
    split(kernel, i, 8, peeled=True)
    check(
        kernel,
        """
        // CHECK: for block in grid(5):
        // CHECK-NEXT: for i in range(min(3, -3*block + 12)):
        // CHECK: if 4 <= block:
        // CHECK-NEXT: for i in range(4):
        // CHECK-NEXT: p0[i + 96]
        """,
    )


def test_reorder() -> None:
    kernel, (i, j) = scaled(5, 7)
    reorder(kernel, i, j)
    check(kernel, "// CHECK: for j in range(7):\n// CHECK-NEXT: for i in range(5):\n")


def test_blocks_and_threads() -> None:
    kernel, (i,) = scaled(100)
    parts = split(kernel, i, 32)
    bind(kernel, parts.outer, LoopKind.GRID)
    bind(kernel, parts.inner, LoopKind.THREAD)
    check(kernel, "// CHECK: for i in grid(4):\n// CHECK-NEXT: for i_in in threads(32):\n")


def test_unrolled() -> None:
    kernel, (_, j) = scaled(3, 4)
    bind(kernel, j, LoopKind.UNROLLED)
    check(kernel, "// CHECK: for j in unrolled(4):")


def test_shared_memory() -> None:
    """Each block's part of the operand goes through shared memory, filled by its threads."""
    kernel, (i, j) = scaled(6, 16)
    bind(kernel, i, LoopKind.GRID)
    _, copy = stage(kernel, i, kernel.buffers[0], BufferRole.SHARED)
    for loop in (copy, j):
        bind(kernel, loop, LoopKind.THREAD)
    check(
        kernel,
        """
        // CHECK: staged0: shared f32[16]
        // CHECK: for i in grid(6):
        // CHECK-NEXT: for j_copy in threads(16):
        // CHECK-NEXT: staged0[j_copy] = p0[16*i + j_copy]
        // CHECK-NEXT: barrier()
        // CHECK-NEXT: for j in threads(16):
        // CHECK-NEXT: staged0[j]
        """,
    )
    # Reversed, threads read what others wrote: without the barrier that is a race.
    load = j.body[0]
    assert isinstance(load, Load)
    load.index = constant(15) - load.index
    x = np.arange(96, dtype=np.float32)
    assert Interpreter(kernel, [x]).run()[0][0] == 30
    i.body = [s for s in i.body if not isinstance(s, Barrier)]
    with pytest.raises(RaceError, match="element 15 of buffer staged0 is read"):
        Interpreter(kernel, [x]).run()


def test_local_memory_of_two_loops() -> None:
    kernel, (i, _, _) = scaled(3, 4, 5)
    stage(kernel, i, kernel.buffers[0], BufferRole.LOCAL)
    check(kernel, "// CHECK: staged0[5*j_copy + k_copy] = p0[20*i + 5*j_copy + k_copy]")


def test_steps_that_cannot_be_taken() -> None:
    kernel, (i, j) = scaled(4, 8)
    with pytest.raises(ScheduleError, match="not all that loop 'j' contains"):
        reorder(kernel, j, i)
    with pytest.raises(ScheduleError, match="'j' is not the whole of a stage"):
        bind(kernel, j, LoopKind.GRID)
    with pytest.raises(ScheduleError, match="no whole group of 9"):
        split(kernel, j, 9, peeled=True)
    with pytest.raises(ScheduleError, match="reads one element"):
        stage(kernel, j, kernel.buffers[0], BufferRole.LOCAL)
    j.independent = False
    with pytest.raises(ScheduleError, match="loop 'j' need their order"):
        bind(kernel, j, LoopKind.THREAD)
    with pytest.raises(ScheduleError, match="loop 'j' need their order"):
        reorder(kernel, i, j)
    with pytest.raises(ScheduleError, match="'j' need each other"):
        bind_to_grid(kernel, j, 4)
    j.may_vectorize = False
    with pytest.raises(ScheduleError, match="'j' may not run in lanes"):
        vectorise(kernel, j, 4)


# -- what threads do together ----------------------------------------------------------------------


def warp(body: Callable[[Index], list[Statement]], threads: int = 32) -> Kernel:
    thread = Var("t", threads, 0)
    out = Buffer("out0", P.F32, threads, BufferRole.OUTPUT)
    statements = body(Index.of(thread))
    *_, last = statements
    result = last.result  # type: ignore[attr-defined]
    statements.append(Store(out, Index.of(thread), (result,)))
    return Kernel("k", [out], [Loop(thread, statements, kind=LoopKind.THREAD, independent=True)])


@pytest.mark.parametrize(
    ("mode", "number", "want"),
    [
        (ShuffleMode.XOR, 1, [1, 0, 3, 2, 5, 4, 7, 6]),
        (ShuffleMode.DOWN, 1, [1, 2, 3, 3, 5, 6, 7, 7]),
        (ShuffleMode.UP, 2, [0, 1, 0, 1, 4, 5, 4, 5]),
        (ShuffleMode.FROM, 2, [2, 2, 2, 2, 6, 6, 6, 6]),
    ],
)
def test_shuffles(mode: ShuffleMode, number: int, want: list[int]) -> None:
    def body(t: Index) -> list[Statement]:
        own, taken = Value(P.F32, 1, 1), Value(P.F32, 1, 2)
        return [IndexValue(own, t), Shuffle(taken, own, mode, number, 4)]

    kernel = warp(body, 8)
    verify_kernel(kernel)
    assert f"shuffle_{mode.value}(v0, {number}, 4)" in kernel_to_text(kernel)
    np.testing.assert_array_equal(Interpreter(kernel, []).run()[0], want)


def test_a_sum_of_a_warp() -> None:
    """By a butterfly of shuffles in a loop that carries the sum."""
    t = Var("t", 32, 0)
    out = Buffer("out0", P.F32, 32, BufferRole.OUTPUT)
    own = Value(P.F32, 1, 1)
    body: list[Statement] = [IndexValue(own, Index.of(t))]
    for n in range(5):
        taken, total = Value(P.F32, 1, 2), Value(P.F32, 1, 3)
        body.append(Shuffle(taken, own, ShuffleMode.XOR, 1 << n, 32))
        body.append(Compute(total, Opcode.ADD, (own, taken)))
        own = total
    body.append(Store(out, Index.of(t), (own,)))
    kernel = Kernel("k", [out], [Loop(t, body, kind=LoopKind.THREAD, independent=True)])
    verify_kernel(kernel)
    np.testing.assert_array_equal(Interpreter(kernel, []).run()[0], np.full(32, 496))


@pytest.mark.parametrize("shape", LAYOUTS, ids=str)
def test_matrix_tiles(shape: tuple[int, int, int]) -> None:
    """Threads load what the layout says, multiply, and store what it says."""
    layout = LAYOUTS[shape]
    rows, columns, depth = shape
    for part, (height, width) in layout.sizes.items():
        places = list(zip(*(a.reshape(-1) for a in layout.place(part))))
        assert sorted(places) == [(r, c) for r in range(height) for c in range(width)]
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (rows, depth)).astype(np.float32)
    b = rng.integers(-4, 5, (depth, columns)).astype(np.float32)
    c = rng.integers(-4, 5, (rows, columns)).astype(np.float32)
    t = Var("t", 32, 0)
    out = Buffer("out0", P.F32, rows * columns, BufferRole.OUTPUT)
    buffers = [out]
    body: list[Statement] = []
    values: dict[str, list[Value]] = {}
    for number, (part, matrix) in enumerate({"lhs": a, "rhs": b, "sum": c}.items()):
        row, column = layout.place(part)
        held = matrix[row, column].astype(np.float32)
        buffer = Buffer(f"p{number}", P.F32, held.size, BufferRole.CONSTANT, number, held)
        buffers.append(buffer)
        values[part] = [Value(P.F32, 1, 0) for _ in range(held.shape[1])]
        for r, value in enumerate(values[part]):
            body.append(Load(value, buffer, Index.of(t) * held.shape[1] + r))
    results = tuple(Value(P.F32, 1, 0) for _ in values["sum"])
    lhs, rhs, sums = (tuple(values[part]) for part in ("lhs", "rhs", "sum"))
    body.append(MatrixTile(shape, results, lhs, rhs, sums))
    for r, value in enumerate(results):
        body.append(Store(out, Index.of(t) * 4 + r, (value,)))
    kernel = Kernel("k", buffers, [Loop(t, body, kind=LoopKind.THREAD, independent=True)])
    verify_kernel(kernel)
    assert "matrix_tile(" in kernel_to_text(kernel)
    (got,) = Interpreter(kernel, []).run()
    row, column = layout.place("sum")
    np.testing.assert_array_equal(got.reshape(32, 4), (a @ b + c)[row, column])
    t.extent = 16
    with pytest.raises(KernelRunError, match="no 32 threads together"):
        Interpreter(kernel, []).run()


# -- the verifier ----------------------------------------------------------------------------------


def _undefined(kernel: Kernel, loops: list[Loop]) -> None:
    loops[-1].body.pop(0)


def _twice(kernel: Kernel, loops: list[Loop]) -> None:
    loops[-1].body.insert(0, loops[-1].body[0])


def _another_loop(kernel: Kernel, loops: list[Loop]) -> None:
    kernel.stages.append(loops[-1].body.pop())


def _grid_inside(kernel: Kernel, loops: list[Loop]) -> None:
    loops[-1].kind = LoopKind.GRID


def _lanes_in_lanes(kernel: Kernel, loops: list[Loop]) -> None:
    loops[0].kind = loops[1].kind = LoopKind.LANES


def _writes_an_operand(kernel: Kernel, loops: list[Loop]) -> None:
    loops[-1].body[-1].buffer = kernel.buffers[0]  # type: ignore[attr-defined]


def _far_away(kernel: Kernel, loops: list[Loop]) -> None:
    loops[-1].body[0].index += 1000  # type: ignore[attr-defined]


def _undeclared(kernel: Kernel, loops: list[Loop]) -> None:
    kernel.buffers.pop()


def _registers(kernel: Kernel, loops: list[Loop]) -> None:
    kernel.buffers[1].role = BufferRole.REGISTERS


def _threads_carry(kernel: Kernel, loops: list[Loop]) -> None:
    _lanes_carry(kernel, loops)
    loops[0].kind = LoopKind.THREAD


def _lanes_carry(kernel: Kernel, loops: list[Loop]) -> None:
    start, phi, result = (Value(P.F32, 0, n) for n in range(3))
    kernel.stages.insert(0, Constant(start, np.float32(0)))
    loops[0].kind = LoopKind.LANES
    loops[0].carries.append(Carry(phi, start, result, phi))


def _no_block(kernel: Kernel, loops: list[Loop]) -> None:
    loops[-1].body.append(Barrier())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_undefined, "is used undefined"),
        (_twice, "has two definitions"),
        (_another_loop, "which no loop around it counts"),
        (_grid_inside, "a loop of grid is inside one of range"),
        (_lanes_in_lanes, "a loop of lanes is inside one of lanes"),
        (_writes_an_operand, "operand p0 is written"),
        (_far_away, r"p0\[.*\] is outside its 20 elements"),
        (_undeclared, "buffer out0 is not declared"),
        (_registers, "is no constant place in registers"),
        (_lanes_carry, "iterations of lanes i hand values on"),
        (_threads_carry, "iterations of threads i hand values on"),
        (_no_block, "a barrier has no block around it"),
    ],
)
def test_ill_formed_kernels(spoil: Callable[[Kernel, list[Loop]], None], message: str) -> None:
    kernel, loops = scaled(4, 5)
    verify_kernel(kernel)
    spoil(kernel, loops)
    with pytest.raises(KernelVerificationError, match=f"kernel 'k' after step 's': .*{message}"):
        verify_kernel(kernel, "s")


def finishing(batches: int, rows: int, columns: int) -> tuple[Kernel, Buffer]:
    """out[b, i, j] = c[b, i, j] * p[j], where c is somebody else's."""
    b = LoopBuilder("k")
    size = batches * rows * columns
    p = b.buffer("p0", P.F32, columns, BufferRole.OPERAND)
    c = b.buffer("c", P.F32, size, BufferRole.SCRATCH)
    out = b.buffer("out0", P.F32, size, BufferRole.OUTPUT)
    batch, row, column = (
        b.open_loop(n, independent=True, may_vectorize=n == columns, name=name)[0]
        for n, name in ((batches, "b"), (rows, "i"), (columns, "j"))
    )
    at = (batch * rows + row) * columns + column
    b.store(out, at, (b.compute(Opcode.MULTIPLY, P.F32, (b.load(c, at), b.load(p, column))),))
    for _ in range(3):
        b.close_loop()
    return b.kernel, c


def run_blocks(kernel: Kernel, product: np.ndarray, factors: np.ndarray, size: int) -> np.ndarray:
    """Call a kernel for all blocks of a product, 2 rows and `size` columns each."""
    own = {b.name: b for b in kernel.buffers}
    out = np.zeros(product.size, np.float32)
    batches, rows, columns = product.shape
    for batch, i, j in np.ndindex(batches, -(-rows // 2), -(-columns // size)):
        block = product[batch, 2 * i : 2 * i + 2, size * j : size * (j + 1)]
        ld = block.shape[1] + 3
        padded = np.full((block.shape[0], ld), np.nan, np.float32)
        padded[:, : block.shape[1]] = block
        memory = {own["p0"]: factors, own["out0"]: out, own["c"]: padded.reshape(-1)}
        part = {"row_lo": 2 * i, "rows": block.shape[0], "column_lo": size * j}
        part |= {"columns": block.shape[1], "ld": ld, "batch": batch}
        Interpreter(kernel, (), part, memory=memory).run()
    return out.reshape(product.shape)


def sums_of_columns(rows: int, width: int, *, unread: int = 0) -> tuple[Kernel, Loop]:
    """out[j] = sum of p[:, j], and the loop over the columns; `unread` elements follow in p."""
    b = LoopBuilder("k")
    p = b.buffer("p0", P.F32, rows * width + unread, BufferRole.OPERAND)
    out = b.buffer("out0", P.F32, width, BufferRole.OUTPUT)
    start = b.constant(P.F32, np.float32(0))
    j, _ = b.open_loop(width, independent=True, may_vectorize=True)
    i, (phi,) = b.open_loop(rows, inits=[start])
    total = b.compute(Opcode.ADD, P.F32, (phi, b.load(p, j + i * width)))
    results = b.close_loop([total])
    b.store(out, j, tuple(results))
    b.close_loop()
    (columns,) = (s for s in b.kernel.stages if isinstance(s, Loop))
    return b.kernel, columns


@pytest.mark.parametrize("width", [9, 13, 15, 17, 61, 103])
def test_whole_groups_that_overlap(width: int) -> None:
    kernel, columns = sums_of_columns(5, width)
    assert overlap(columns, 8) == 8 - width % 8
    overlapping(kernel, columns, 8)
    verify_kernel(kernel, "overlapping")
    x = np.random.default_rng(0).normal(size=(5, width)).astype(np.float32)
    (got,) = Interpreter(kernel, [x]).run()
    expected = np.zeros(width, np.float32)
    for row in x:
        expected = expected + row
    np.testing.assert_array_equal(got, expected)


def test_the_last_group_begins_earlier() -> None:
    kernel, columns = sums_of_columns(5, 29)
    overlapping(kernel, columns, 8)
    text = """
        // CHECK:      for i in range(4):
        // CHECK-NEXT: for lane in lanes(8):
        // CHECK-NEXT: acc0 = 0.0
        // CHECK-NEXT: for j in range(5):
        // CHECK-NEXT: v1 = p0[8*i - 3*((i + 1) // 4) + lane + 29*j]
        // CHECK:      out0[8*i - 3*((i + 1) // 4) + lane] = acc0
        // CHECK-NOT:  for
        """
    check_text(kernel_to_text(kernel), text)


def test_groups_that_may_not_overlap() -> None:
    kernel, columns = sums_of_columns(1, 29)  # the result may have the memory of the operand
    assert overlap(columns, 8) is None
    with pytest.raises(ScheduleError, match="has no groups of 8 lanes that overlap"):
        overlapping(kernel, columns, 8)
    assert overlap(sums_of_columns(1, 29, unread=1)[1], 8) == 3
    for rows, width in ((5, 16), (5, 7)):  # nothing is left over, or there is no whole group
        assert overlap(sums_of_columns(rows, width)[1], 8) is None
    columns = sums_of_columns(5, 29)[1]
    columns.independent = False
    assert overlap(columns, 8) is None


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(3, 5, 48), (1, 1, 32), (2, 3, 21), (1, 6, 5), (1, 9, 1)])
def test_blocks_that_a_routine_hands_over(shape: tuple[int, int, int], masked: bool) -> None:
    kernel, c = finishing(*shape)
    even = shape[2] % 16 == 0
    columns = Nest.of(kernel).columns
    run_in_blocks(kernel, c, 16 if even else 1)
    verify_kernel(kernel, "run_in_blocks")
    vectorise(kernel, columns, 8, masked=masked, serial_rest=True)
    verify_kernel(kernel, "vectorise")
    rng = np.random.default_rng(0)
    product = rng.normal(size=shape).astype(np.float32)
    factors = rng.normal(size=shape[2]).astype(np.float32)
    got = run_blocks(kernel, product, factors, 16 if even else 10)
    np.testing.assert_array_equal(got, product * factors)


def test_whole_blocks_have_no_rest() -> None:
    kernel, c = finishing(2, 30, 48)
    columns = Nest.of(kernel).columns
    run_in_blocks(kernel, c, 16)
    vectorise(kernel, columns, 16)
    text = """
        // CHECK: columns: 1..48 by 16, batch: 0..1):
        // CHECK-NEXT: v0 = s64(ld)
        // CHECK-NEXT: for i in range(rows):
        // CHECK-NEXT: v1 = s64(i)
        // CHECK-NEXT: v2 = v1 * v0
        // CHECK-NEXT: for j in range((columns // 16)):
        // CHECK-NEXT: for lane in lanes(16):
        // CHECK-NEXT: c[{{.*}}v2 + 16*j + lane]
        // CHECK-NOT: if
        """
    check_text(kernel_to_text(kernel), text)


def test_blocks_are_as_they_were_promised() -> None:
    kernel, c = finishing(1, 4, 48)
    run_in_blocks(kernel, c, 16)
    part = {"row_lo": 0, "rows": 4, "column_lo": 0, "columns": 40, "ld": 48, "batch": 0}
    with pytest.raises(KernelRunError, match="columns=40, and takes multiples of 16 from 1 to 48"):
        Interpreter(kernel, [np.zeros(48)], part)
    with pytest.raises(KernelRunError, match="rows=5, and takes multiples of 1 from 1 to 4"):
        Interpreter(kernel, [np.zeros(48)], part | {"columns": 48, "rows": 5})


def test_a_block_that_is_not_read_in_place() -> None:
    kernel, c = finishing(1, 4, 8)
    (load,) = (s for s in Nest.of(kernel).columns.body if isinstance(s, Load) and s.buffer is c)
    load.index = load.index + 1
    with pytest.raises(ScheduleError, match=r"c is read at 8\*i \+ j \+ 1 in the round of j"):
        run_in_blocks(kernel, c)
    kernel, (_, _) = scaled(4, 8)
    with pytest.raises(ScheduleError, match="has no nest of batch, rows and columns"):
        run_in_blocks(kernel, kernel.buffers[0])
